/* text.h: building text, with indentation.
 *
 * A Text grows in an arena and is always NUL-terminated. text_line() writes one indented line with
 * its newline: the emitters' only way to make lines, so indentation is never in a format string.
 */
#ifndef MPC_BASE_TEXT_H
#define MPC_BASE_TEXT_H

#include <stdbool.h>
#include <stdio.h>

#include "ir/base/arena.h"

typedef struct Text {
    Arena *arena;
    char *at;
    size_t n, cap;
    int indent; /* levels of four spaces, see text_line */
} Text;

Text *text_new(Arena *a);
void text_printf(Text *t, const char *fmt, ...) MPC_PRINTF(2, 3);
void text_vprintf(Text *t, const char *fmt, va_list ap) MPC_PRINTF(2, 0);
void text_puts(Text *t, const char *s);
void text_putn(Text *t, const char *s, size_t n);
void text_putc(Text *t, char c);
void text_pad(Text *t, size_t column); /* spaces up to `column` (0-based) of the current line */

void text_margin(Text *t);                                       /* the indentation alone */
void text_line(Text *t, const char *fmt, ...) MPC_PRINTF(2, 3);  /* margin + text + newline */
void text_open(Text *t, const char *fmt, ...) MPC_PRINTF(2, 3);  /* text_line, then one level in */
void text_close(Text *t, const char *fmt, ...) MPC_PRINTF(2, 3); /* one level out, then text_line */

/* "..." with C escapes, safe in C and in .mpt text; the json form escapes as JSON wants it. */
void text_quote(Text *t, const char *s, size_t n);
void text_quote_json(Text *t, const char *s, size_t n);

bool text_write(const Text *t, FILE *to); /* false: errno says why */

#endif
