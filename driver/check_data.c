/* check_data.c: looks for the files of every `data` declaration; what is in them is the program's to check. */
#include "driver/check_data.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

void check_data(const Module *m, const char *home, Diag *diag)
{
    for (int i = 0; i < m->ndecls; i++) {
        const Decl *d = m->decls[i];
        const Attr *files = d->kind == DECL_data ? attrs_find(&d->attrs, ATTR_files) : NULL;
        for (int k = 0; files != NULL && k < files->strs.n; k++) {
            const char *path = files->strs.v[k];
            char beside[4096];
            int n = snprintf(beside, sizeof beside, "%s/%s", home, path);
            bool found =
                is_file(path) || (path[0] != '/' && n < (int)sizeof beside && is_file(beside));
            if (!found) {
                diag_error(diag, d->loc, "data %s: there is no file %s, neither in %s nor here",
                           d->name, path, home);
            }
        }
    }
}
