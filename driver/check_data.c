/* check_data.c: looks for the files of every `data` declaration, and whether a file of records is a whole number of
 * them; what else is in them is the program's to check. */
#include "driver/check_data.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ir/base/strutil.h"

static bool is_file(const char *path, int64_t *bytes)
{
    struct stat st;
    bool is = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    *bytes = is ? (int64_t)st.st_size : 0;
    return is;
}

/* By gzip: its size says nothing. */
static bool is_packed(const char *path)
{
    unsigned char magic[2] = {0};
    FILE *f = fopen(path, "rb");
    bool packed = f != NULL && fread(magic, 1, 2, f) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    if (f != NULL) {
        fclose(f);
    }
    return packed;
}

static void check_records(const Decl *d, const char *path, int64_t bytes, Diag *diag)
{
    int64_t record = data_record_bytes(d);
    if (str_eq(attrs_str(&d->attrs, ATTR_kind), "bin") && !is_packed(path) &&
        (bytes == 0 || bytes % record != 0)) {
        diag_error(diag, d->loc,
                   "data %s: %s has %lld bytes, which are no whole number of records of %lld bytes",
                   d->name, path, (long long)bytes, (long long)record);
    }
}

void check_data(const Module *m, const char *home, Diag *diag)
{
    for (int i = 0; i < m->ndecls; i++) {
        const Decl *d = m->decls[i];
        const Attr *files = d->kind == DECL_data ? attrs_find(&d->attrs, ATTR_files) : NULL;
        for (int k = 0; files != NULL && k < files->strs.n; k++) {
            const char *path = files->strs.v[k];
            int64_t bytes;
            char beside[4096];
            int n = snprintf(beside, sizeof beside, "%s/%s", home, path);
            if (path[0] != '/' && n < (int)sizeof beside && is_file(beside, &bytes)) {
                check_records(d, beside, bytes, diag);
            } else if (is_file(path, &bytes)) {
                check_records(d, path, bytes, diag);
            } else {
                diag_error(diag, d->loc, "data %s: there is no file %s, neither in %s nor here",
                           d->name, path, home);
            }
        }
    }
}
