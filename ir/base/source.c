/* source.c: source files and places in them (declared in diag.h). */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/diag.h"

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

SourceFile *source_read(Arena *a, Diag *d, const char *path)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "rb");
    size_t size = 0;
    char *text = f ? read_all(f, &size) : NULL;
    int why = errno;
    if (f && !is_stdin)
        fclose(f);
    if (!text) {
        diag_error(d, loc_none(), "cannot read '%s': %s", path, strerror(why));
        return NULL;
    }
    SourceFile *s = source_from_text(a, is_stdin ? "<stdin>" : path, text, size);
    free(text);
    return s;
}

bool source_is_text(Diag *d, const SourceFile *s)
{
    const char *nul = s->size ? memchr(s->text, 0, s->size) : NULL;
    if (!nul)
        return true;
    size_t offset = (size_t)(nul - s->text);
    int line = 1;
    while (line < s->lines && s->line[line] <= offset)
        line++;
    Loc loc = {s, line, (int)(offset - s->line[line - 1]) + 1, 1};
    diag_error(d, loc, "a NUL byte: this is not a text file");
    return false;
}
