/* source.c: source files and places in them (declared in diag.h). */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/diag.h"
#include "ir/base/strutil.h"

enum { MAX_SOURCE = 256 * 1024 * 1024 };

Loc loc_none(void)
{
    return (Loc){0};
}

Loc loc_span(Loc first, Loc last)
{
    if (!first.line || !last.line)
        return first.line ? first : last;
    if (first.line != last.line)
        first.len = INT_MAX / 2; /* runs to the end of its line */
    else if (last.col + last.len > first.col + first.len)
        first.len = last.col + last.len - first.col;
    return first;
}

static void index_lines(Arena *a, SourceFile *s)
{
    int lines = 1;
    for (size_t i = 0; i < s->size; i++)
        lines += s->text[i] == '\n';
    size_t *at = ARENA_ARRAY(a, size_t, lines);
    int n = 1;
    for (size_t i = 0; i < s->size; i++)
        if (s->text[i] == '\n')
            at[n++] = i + 1;
    s->line = at;
    s->lines = lines;
}

SourceFile *source_from_text(Arena *a, const char *path, const char *text, size_t size)
{
    SourceFile *s = ARENA_NEW(a, SourceFile);
    char *copy = arena_alloc(a, size + 1);
    if (size)
        memcpy(copy, text, size);
    s->path = arena_strdup(a, path);
    s->text = copy;
    s->size = size;
    index_lines(a, s);
    return s;
}

/* All bytes of a stream, malloced; NULL with errno set. */
static char *read_all(FILE *f, size_t *size)
{
    char *text = NULL;
    size_t n = 0, cap = 0, got;
    do {
        if (cap - n < 65536) {
            cap = cap ? cap * 2 : 65536;
            char *more = realloc(text, cap);
            if (!more) {
                free(text);
                return NULL;
            }
            text = more;
        }
        got = fread(text + n, 1, cap - n, f);
        n += got;
    } while (got && n <= MAX_SOURCE);
    if (ferror(f) || n > MAX_SOURCE) {
        if (n > MAX_SOURCE)
            errno = EFBIG;
        free(text);
        return NULL;
    }
    *size = n;
    return text;
}

/* Takes all of f (NULL: errno says why), which is not closed. */
static SourceFile *load(Arena *a, FILE *f, const char *path)
{
    size_t size = 0;
    char *text = f ? read_all(f, &size) : NULL;
    SourceFile *s = text ? source_from_text(a, path, text, size) : NULL;
    int why = errno;
    free(text);
    errno = why;
    return s;
}

SourceFile *source_load(Arena *a, const char *path)
{
    FILE *f = fopen(path, "rb");
    SourceFile *s = load(a, f, path);
    int why = errno;
    if (f)
        fclose(f);
    errno = why;
    return s;
}

SourceFile *source_read(Arena *a, Diag *d, const char *path)
{
    SourceFile *s = strcmp(path, "-") == 0 ? load(a, stdin, "<stdin>") : source_load(a, path);
    if (!s)
        diag_error(d, loc_none(), "cannot read '%s': %s", path, strerror(errno));
    return s;
}

static Loc place_of(const SourceFile *s, size_t offset)
{
    int line = 1;
    while (line < s->lines && s->line[line] <= offset)
        line++;
    return (Loc){s, line, (int)(offset - s->line[line - 1]) + 1, 1};
}

/* The first byte that no text has: a NUL, or in a file full of such bytes a control character or
 * broken UTF-8. A few of the latter are left to the scanner, which has the better message. */
static size_t first_binary(const SourceFile *s)
{
    const char *nul = s->size ? memchr(s->text, 0, s->size) : NULL;
    size_t shown = s->size < 4096 ? s->size : 4096, bad = 0, first = s->size;
    if (nul)
        return (size_t)(nul - s->text);
    for (size_t i = 0; i < shown;) {
        int len = str_utf8(s->text + i, s->size - i);
        unsigned char c = (unsigned char)s->text[i];
        if (!len || (c < 0x20 && !strchr("\t\n\r\f", c))) {
            bad++;
            first = first < i ? first : i;
        }
        i += len ? (size_t)len : 1;
    }
    return bad > 8 && bad > shown / 20 ? first : s->size;
}

bool source_is_text(Diag *d, const SourceFile *s)
{
    size_t at = first_binary(s);
    if (at == s->size)
        return true;
    diag_error(d, place_of(s, at), "a byte 0x%02x here: this is not a text file",
               (unsigned char)s->text[at]);
    return false;
}
