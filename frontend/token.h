/* token.h: the tokens of a file, all at once.
 *
 * The scanner (lexer.l) makes raw tokens; token.c checks that brackets match, decides which line
 * ends end a statement and which words are declarations, and leaves an array that the parser reads.
 */
#ifndef MPC_FRONTEND_TOKEN_H
#define MPC_FRONTEND_TOKEN_H

#include "frontend/ast.h"

typedef struct Token {
    int kind; /* the parser's token kinds (parser.h), 0 at the end */
    Loc loc;
    const char *text; /* of a name, number, dtype or string (decoded); NULL otherwise */
} Token;

typedef VEC(Token) TokenVec;

typedef struct Scan {
    Arena *arena;
    Diag *diag;
    const SourceFile *source;
    AstFile *file; /* gets the comments */
    int line, col; /* of the next character */
    TokenVec tokens;
} Scan;

/* How the parser spells a token kind in messages. */
const char *token_name(int kind);

/* A value may end with a token of this kind: a name, a number, a closing bracket. */
bool token_ends_operand(int kind);

/* All tokens; false after an error that makes parsing pointless (binary, unmatched brackets). */
bool token_scan(Scan *s);

/* lexer.l: the raw tokens, with a NEWLINE for each line end and `;` */
void lexer_scan(Scan *s);

#endif
