/* diag.h: source files, places in them, and messages to the user.
 *
 *     a.mpt:14:17: error: matmul: inner dimensions differ: x is [B, 512], weight wants [.., 256]
 *        14 |         x = relu(fc2(x))
 *           |                  ^~~~~~
 *     a.mpt:7:5: note: fc2 was declared here with in = 256
 *
 * An error is the user's (diag_error, 20 at most, then diag_full() is true and later errors are
 * dropped); our own bugs are ICE(). Phases go on after an error as far as they can, poison what is
 * wrong so that it causes no second message, and stop at their end when diag_failed().
 */
#ifndef MPC_BASE_DIAG_H
#define MPC_BASE_DIAG_H

#include <stdbool.h>
#include <stdio.h>

#include "ir/base/arena.h"

typedef struct Diag Diag;

enum { DIAG_MAX_ERRORS = 20 };

typedef struct SourceFile {
    const char *path; /* as the user spelled it */
    const char *text; /* size bytes and a NUL; NULL when only line numbers are known */
    size_t size;
    const size_t *line; /* offset of each line's first byte */
    int lines;
} SourceFile;

/* A span. line and col count from 1, in bytes; line 0 is "no place". A span over several lines has
 * a len that runs past the end of its first line; the caret line stops there. */
typedef struct Loc {
    const SourceFile *file;
    int line, col, len;
} Loc;

Loc loc_none(void);
Loc loc_span(Loc first, Loc last); /* from the start of first to the end of last */

/* Reads a file (path "-" is stdin); NULL after an error message. source_load: a file only, NULL with errno set.
 * source_from_text copies. */
SourceFile *source_read(Arena *a, Diag *d, const char *path);
SourceFile *source_load(Arena *a, const char *path);
SourceFile *source_from_text(Arena *a, const char *path, const char *text, size_t size);
bool source_is_text(Diag *d, const SourceFile *s); /* false after an error: it is binary */

typedef enum DiagColor { DIAG_COLOR_auto, DIAG_COLOR_always, DIAG_COLOR_never } DiagColor;
typedef enum DiagFormat { DIAG_FORMAT_text, DIAG_FORMAT_json } DiagFormat;

/* Messages go to `out` as they come (NULL: they are only counted and kept in diag_text). Json is
 * one object a line: {"severity":..,"file":..,"line":..,"column":..,"length":..,"message":..}. */
Diag *diag_new(Arena *a, FILE *out, DiagColor color, DiagFormat format);

void diag_error(Diag *d, Loc loc, const char *fmt, ...) MPC_PRINTF(3, 4);
void diag_warning(Diag *d, Loc loc, const char *fmt, ...) MPC_PRINTF(3, 4);
/* A note belongs to the message before it and is dropped when that was. */
void diag_note(Diag *d, Loc loc, const char *fmt, ...) MPC_PRINTF(3, 4);

int diag_errors(const Diag *d);
int diag_warnings(const Diag *d);
bool diag_failed(const Diag *d);      /* any error so far */
bool diag_full(const Diag *d);        /* the limit is reached: stop soon */
const char *diag_text(const Diag *d); /* everything said so far, without colour */

/* An internal error: says where, runs the hook (the pass manager writes the IR there), exits 70. */
#define ICE(...) ice_at(__FILE__, __LINE__, __VA_ARGS__)
MPC_NORETURN void ice_at(const char *file, int line, const char *fmt, ...) MPC_PRINTF(3, 4);
void ice_hook(void (*fn)(void *ctx), void *ctx); /* fn NULL: none */

#endif
