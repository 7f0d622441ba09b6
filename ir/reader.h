/* reader.h: the reader's parts: tokens (read_lex.c), expressions and statements of the host program
 * (read_host.c), the rest (read.c). The form itself: text_form.h.
 *
 * The first error ends the reading: it is reported, `failed` is set and the current token becomes
 * the end of the file, so that every loop over tokens stops by itself. */
#ifndef MPC_IR_READER_H
#define MPC_IR_READER_H

#include "ir/text_form.h"

typedef enum TokenKind {
    TOKEN_end,
    TOKEN_name,
    TOKEN_string,
    TOKEN_int,
    TOKEN_float,
    TOKEN_sign
} TokenKind;

typedef struct Token {
    TokenKind kind;
    const char *text; /* name, contents of the string, sign */
    bool quoted;      /* $"...": a name that is no word of the form */
    int64_t i;
    double f;   /* of an int, too */
    bool first; /* of its line */
    bool glued; /* nothing between it and the token before */
    Loc loc;
} Token;

enum { READ_MAX_DEPTH = 200 };

typedef struct Reader {
    Arena *arena;
    Diag *diag;
    const SourceFile *source; /* the .ir */
    size_t at;
    int line;
    Token token, next;
    bool failed;
    int depth;
    Module *module;
    Graph *graph;
    SourceFile *main; /* the .mpt that places speak of; only its path is known */
    SourceFile **files;
    int nfiles, fcap;
} Reader;

void read_start(Reader *r); /* fills token and next */
void read_advance(Reader *r);
void read_fail(Reader *r, const char *fmt, ...) MPC_PRINTF(2, 3); /* at the current token */
bool read_is_sign(const Reader *r, const char *sign);
bool read_is_word(const Reader *r, const char *word); /* not of a quoted name */
bool read_accept_sign(Reader *r, const char *sign);
bool read_accept_word(Reader *r, const char *word);
void read_expect_sign(Reader *r, const char *sign);
void read_expect_word(Reader *r, const char *word);
const char *read_name(Reader *r);   /* never NULL */
const char *read_string(Reader *r); /* never NULL */
int64_t read_int(Reader *r, int64_t lo, int64_t hi);
int64_t read_signed(Reader *r);
double read_number(Reader *r); /* with a sign, inf and nan */
Loc read_loc(Reader *r);       /* loc(..), or no place when there is none */

Attrs read_attrs(Reader *r);         /* {..}, or none */
HostExpr *read_host_expr(Reader *r); /* never NULL */
void read_host_program(Reader *r);

#endif
