/* parse.c: drives the generated parser: the token stream, syntax errors and how to go on after one,
 * and frontend_parse itself. */
#include "frontend/parse.h"

#include <string.h>

#include "frontend/frontend.h"
#include "ir/base/strutil.h"
#include "parser.h"

int mpc_yylex(MPC_YYSTYPE *value, Loc *loc, Parse *p)
{
    const Token *t = &p->tokens.at[p->next];
    if (p->next < p->tokens.n - 1)
        p->next++;
    value->text = t->text;
    *loc = t->loc;
    return t->kind;
}

void mpc_yyerror(Loc *loc, Parse *p, const char *message)
{
    (void)message; /* the only one left is that the parser's stack is full */
    diag_error(p->maker.diag, *loc, "this is nested too deeply");
}

/* Skips to the line end that ends the block-level statement of the token at `at`. */
static void skip_statement(Parse *p, int at)
{
    int level = 0;
    const TokenVec *v = &p->tokens;
    for (int i = at; i < v->n; i++) {
        int kind = v->at[i].kind;
        if (kind == '{')
            level++;
        if (kind == '}' && level > 0)
            level--;
        if ((kind == T_NEWLINE && level == 0) || kind == 0) {
            p->next = i == at && kind ? i + 1 : i; /* the parser holds the token at `at` already */
            return;
        }
    }
}

/* What a user of another language may have meant with the word at `at`. */
static void hint(Parse *p, int at)
{
    /* clang-format off */
    static const struct { const char *word, *say; } foreign[] = {
        {"elif", "it is written `else if`"},
        {"def", "a method of a module is written `name(arguments) { ... }`"},
        {"class", "it is written `module Name(arguments) { ... }`"},
        {"while", "there is no while; `for i in 0..n { ... }` may end early with break"},
        {"import", "another file is taken in with `include \"file.mpt\"`"},
        {"let", "a value needs no declaration: name = expression"},
        {"var", "a value needs no declaration: name = expression"},
        {"lambda", "there are no function values"},
    };
    static const char *const words[] = {
        "module", "param", "state", "option", "data", "include", "trainer", "for", "if", "with",
        "return", "evaluate", "forward", "batch",
    };
    /* clang-format on */
    const TokenVec *v = &p->tokens;
    for (int i = at; i >= 0 && i >= at - 1; i--) {
        const Token *t = &v->at[i];
        if (t->kind != T_NAME)
            continue;
        for (size_t k = 0; k < sizeof foreign / sizeof *foreign; k++) {
            if (strcmp(foreign[k].word, t->text) == 0) {
                diag_note(p->maker.diag, t->loc, "%s", foreign[k].say);
                return;
            }
        }
        bool begins = i == 0 || v->at[i - 1].kind == T_NEWLINE || v->at[i - 1].kind == '{';
        const char *near = nearest_name(t->text, words, (int)(sizeof words / sizeof *words));
        if (i == at - 1 && begins && near && strcmp(near, t->text) != 0)
            diag_note(p->maker.diag, t->loc, "did you mean '%s'?", near);
    }
}

/* A data set without its fields is the one unfinished statement whose rest is hard to guess. */
static void hint_fields(Parse *p, int at)
{
    int first = at;
    while (first > 0 && p->tokens.at[first - 1].kind != T_NEWLINE)
        first--;
    if (p->tokens.at[at].kind == T_NEWLINE && p->tokens.at[first].kind == T_DATA)
        diag_note(p->maker.diag, p->tokens.at[first].loc,
                  "a data set says what a sample is: -> (image: u8[28, 28], label: u8)");
}

void parse_error(Parse *p, Loc loc, const char *found, const char *const *expected, int n)
{
    int at = p->next > 0 ? p->next - 1 : 0;
    if (p->tokens.at[p->next].kind == 0 && !found)
        at = p->next;
    const Token *t = &p->tokens.at[at];
    const char *what = t->kind == T_NAME     ? arena_printf(p->maker.arena, "'%s'", t->text)
                       : t->kind == T_NUMBER ? arena_printf(p->maker.arena, "'%s'", t->text)
                       : t->kind == 0        ? "the end of the file"
                       : t->kind == T_NEWLINE && p->tokens.at[at + 1].kind == '}' ? "'}'"
                                                                                  : found;
    Text *list = text_new(p->maker.arena);
    for (int i = 0; i < n && n <= 4; i++)
        text_printf(list, "%s%s", i == 0 ? ", expected " : i == n - 1 ? " or " : ", ", expected[i]);
    diag_error(p->maker.diag, loc, "unexpected %s%s", what, list->at);
    hint(p, at);
    hint_fields(p, at);
    skip_statement(p, at);
}

AstFile *parse_tokens(Arena *a, Diag *d, const SourceFile *source, TokenVec *tokens)
{
    AstFile *file = ARENA_NEW(a, AstFile);
    file->source = source;
    Scan scan = {.arena = a, .diag = d, .source = source, .file = file};
    Parse p = {.maker = {.arena = a, .diag = d}};
    if (token_scan(&scan)) {
        p.tokens = scan.tokens;
        mpc_yyparse(&p);
    }
    Loc top = {source, 1, 1, 1};
    file->root =
        p.root ? p.root : ast_decl(&p.maker, AST_file, top, NULL, (AstList){0}, (AstList){0});
    if (!file->root->list.n && !diag_failed(d))
        diag_error(d, (Loc){source, 0, 0, 0},
                   "the file is empty: it declares no model and no "
                   "data");
    *tokens = scan.tokens;
    return file;
}

AstFile *frontend_parse(Arena *a, Diag *d, const SourceFile *source)
{
    TokenVec tokens;
    return parse_tokens(a, d, source, &tokens);
}

/* ---- --emit=tokens ---- */

const char *token_name(int kind)
{
    /* clang-format off */
    static const struct { int kind; const char *name; } names[] = {
        {0, "end"}, {T_NAME, "name"}, {T_NUMBER, "number"}, {T_STRING, "string"},
        {T_SUFFIX, "suffix"}, {T_NEWLINE, "newline"}, {T_MODULE, "module"}, {T_PARAM, "param"},
        {T_STATE, "state"}, {T_OPTION, "option"}, {T_DATA, "data"}, {T_BATCH, "batch of"},
        {T_TRAINER, "trainer"}, {T_INCLUDE, "include"}, {T_IF, "if"}, {T_ELSE, "else"},
        {T_FOR, "for"}, {T_IN, "in"}, {T_RETURN, "return"}, {T_WITH, "with"},
        {T_BREAK, "break"}, {T_CONTINUE, "continue"}, {T_EVALUATE, "evaluate"},
        {T_TRUE, "true"}, {T_FALSE, "false"}, {T_NONE, "none"}, {T_AND, "and"}, {T_OR, "or"},
        {T_NOT, "not"}, {T_ELLIPSIS, "..."}, {T_DOTDOT, ".."}, {T_ARROW, "->"}, {T_POW, "**"},
        {T_FDIV, "//"}, {T_EQ, "=="}, {T_NE, "!="}, {T_LE, "<="}, {T_GE, ">="},
        {T_ADD_ASSIGN, "+="}, {T_SUB_ASSIGN, "-="}, {T_MUL_ASSIGN, "*="}, {T_DIV_ASSIGN, "/="},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].kind == kind)
            return names[i].name;
    return NULL;
}

void frontend_print_tokens(Arena *a, Diag *d, const SourceFile *source, Text *out)
{
    AstFile file = {.source = source};
    Scan scan = {.arena = a, .diag = d, .source = source, .file = &file};
    if (!token_scan(&scan))
        return;
    for (int i = 0; i < scan.tokens.n; i++) {
        const Token *t = &scan.tokens.at[i];
        const char *name = token_name(t->kind);
        text_printf(out, "%d:%d ", t->loc.line, t->loc.col);
        if (name)
            text_puts(out, name);
        else
            text_putc(out, (char)t->kind);
        if (t->text && (t->kind == T_NAME || t->kind == T_NUMBER || t->kind == T_SUFFIX))
            text_printf(out, " %s", t->text);
        if (t->kind == T_STRING) {
            text_putc(out, ' ');
            text_quote(out, t->text, strlen(t->text));
        }
        text_putc(out, '\n');
    }
}
