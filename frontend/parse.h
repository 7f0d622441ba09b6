/* parse.h: what the grammar's actions and the token stream share. */
#ifndef MPC_FRONTEND_PARSE_H
#define MPC_FRONTEND_PARSE_H

#include "frontend/ast.h"
#include "frontend/token.h"

typedef struct Parse {
    AstMaker maker;
    TokenVec tokens;
    int next; /* the token that the parser reads next */
    Ast *root;
} Parse;

/* frontend_parse, which gives the tokens, too: none where they could not be told. */
AstFile *parse_tokens(Arena *a, Diag *d, const SourceFile *source, TokenVec *tokens);

/* Reports, and moves on so that the whole statement is skipped. expected[0..n), n 0: too many. */
void parse_error(Parse *p, Loc loc, const char *found, const char *const *expected, int n);

#endif
