/* format.h: what format.c (a file as lines) and format_line.c (a line as text) share. */
#ifndef MPC_FRONTEND_FORMAT_H
#define MPC_FRONTEND_FORMAT_H

#include "frontend/token.h"
#include "ir/base/text.h"

enum { FORMAT_COLUMNS = 100, FORMAT_INDENT = 4 };

/* A token as it will stand in its line. */
typedef struct Word {
    int kind;
    const char *text;            /* as the source spells it */
    int size;                    /* bytes */
    int width;                   /* columns */
    bool spaced;                 /* a space before it, unless it begins a line */
    int at;                      /* column in the line, were it in one piece and not indented */
    int pad;                     /* further spaces before it: `=` of neighbours below each other */
    const AstComment **comments; /* behind it, within the statement */
    int ncomments;
} Word;

typedef VEC(Word) WordVec;

/* Sets `spaced` and `at` of the words of one line. */
void format_space(Word *words, int n);

/* Writes the words, the first at column `indent`, broken where they do not fit; no newline at the
 * end. */
void format_words(Text *out, Arena *a, const Word *words, int n, int indent);

/* Columns that a text of UTF-8 takes. */
int format_width(const char *text, int size);

#endif
