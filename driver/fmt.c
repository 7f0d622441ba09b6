/* fmt.c: `mpc fmt`: reads .mpt files, and prints, compares or rewrites them in the canonical layout.
 *
 * The layout itself is frontend/format.c. A file is replaced as a whole or not at all. */
#include "driver/fmt.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/frontend.h"
#include "ir/base/strutil.h"

enum { STATUS_done = 0, STATUS_failed = 1, STATUS_usage = 2 };

typedef struct Fmt {
    bool write, check;
    int nfiles;
} Fmt;

static const char help[] =
    "usage: mpc fmt [-w | --check] FILE.mpt...|-\n"
    "\n"
    "Prints the files in the canonical layout.\n"
    "\n"
    "  -w           rewrite the files that differ\n"
    "  --check      print nothing but the places that differ; exit 1 if there are any\n"
    "  --help       this text\n"
    "\n"
    "Comments stay, and one blank line where there are any. Lines of more than 100 columns are\n"
    "broken; a comma before a closing bracket asks for one element a line.\n"
    "Exit status: 0 done, 1 a file differs (--check) or cannot be written, 2 an error in a file.";

static int usage(const char *what, const char *word)
{
    fprintf(stderr, "mpc fmt: %s%s\nmpc fmt --help lists the options\n", what, word);
    return STATUS_usage;
}

/* -1: go on. */
static int parse(Fmt *f, int argc, char **argv)
{
    static const char *const names[] = {"-w", "--check", "--help"};
    for (int i = 1; i < argc; i++) {
        if (str_eq(argv[i], "--help")) {
            return puts(help) == EOF || fflush(stdout) != 0 ? STATUS_failed : STATUS_done;
        }
        if (str_eq(argv[i], "-w")) {
            f->write = true;
        } else if (str_eq(argv[i], "--check")) {
            f->check = true;
        } else if (argv[i][0] == '-' && argv[i][1] != 0) {
            usage("unknown option ", argv[i]);
            const char *near = nearest_name(argv[i], names, 3);
            if (near != NULL) {
                fprintf(stderr, "did you mean %s?\n", near);
            }
            return STATUS_usage;
        } else {
            f->nfiles++;
        }
    }
    if (f->write && f->check) {
        return usage("-w and --check exclude each other", "");
    }
    return f->nfiles > 0 ? -1 : usage("no file given: mpc fmt FILE.mpt", "");
}

/* ---- one file -------------------------------------------------------------------------------------- */

/* Prints the first line in which two texts differ. */
static void report(const char *path, const char *old, const char *now)
{
    int line = 1;
    while (*old == *now && *old != 0) {
        size_t n = strcspn(old, "\n"), m = strcspn(now, "\n");
        if (n != m || memcmp(old, now, n) != 0 || old[n] != now[n]) {
            break;
        }
        line++;
        old += n + 1;
        now += n + 1;
    }
    printf("%s:%d: not in the canonical layout\n-%.*s\n+%.*s\n", path, line,
           (int)strcspn(old, "\n"), old, (int)strcspn(now, "\n"), now);
}

static bool cannot(const char *path)
{
    fprintf(stderr, "mpc fmt: cannot write %s: %s; it is as it was\n", path, strerror(errno));
    return false;
}

/* The file at `path` becomes `text`, through a new one beside it. */
static bool replace(Arena *a, const char *path, const Text *text)
{
    struct stat old;
    char file[PATH_MAX]; /* behind a link, which stays */
    if (stat(path, &old) != 0 || realpath(path, file) == NULL) {
        return cannot(path);
    }
    char *aside = arena_printf(a, "%s.XXXXXX", file);
    int fd = mkstemp(aside);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (f == NULL) {
        return cannot(path);
    }
    bool ok = text_write(text, f) && fflush(f) == 0 && fchmod(fd, old.st_mode & 07777) == 0 &&
              fsync(fd) == 0;
    ok = fclose(f) == 0 && ok;
    if (!ok || rename(aside, file) != 0) {
        cannot(path);
        unlink(aside);
        return false;
    }
    return true;
}

static int format_file(const Fmt *f, const char *path)
{
    Arena *a = arena_new();
    Diag *d = diag_new(a, stderr, DIAG_COLOR_auto, DIAG_FORMAT_text);
    const SourceFile *source = source_read(a, d, path);
    Text *out = text_new(a);
    int status = STATUS_usage;
    if (source != NULL && frontend_format(a, d, source, out)) {
        bool same = out->n == source->size && memcmp(out->at, source->text, out->n) == 0;
        status = STATUS_done;
        if (f->check && !same) {
            report(path, source->text, out->at);
            status = STATUS_failed;
        } else if (f->write && !str_eq(path, "-")) {
            status = same || replace(a, path, out) ? STATUS_done : STATUS_failed;
        } else if (!f->check) {
            status = text_write(out, stdout) ? STATUS_done : STATUS_failed;
        }
    }
    arena_free(a);
    return status;
}

int fmt_main(int argc, char **argv)
{
    Fmt f = {0};
    int status = parse(&f, argc, argv);
    if (status >= 0) {
        return status;
    }
    status = STATUS_done;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' || argv[i][1] == 0) {
            int one = format_file(&f, argv[i]);
            status = one > status ? one : status;
        }
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "mpc fmt: cannot write the output: %s\n", strerror(errno));
        status = STATUS_failed;
    }
    return status;
}
