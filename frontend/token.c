/* token.c: from raw tokens to those the parser reads (see token.h).
 *
 * A line end counts only outside brackets and after a token that can end a statement. `}` newline
 * `else` joins, as does a line that begins with `->` or `.`. A NEWLINE also stands before each `}`
 * that closes a block and at the end, so that the grammar needs no second way to end a statement.
 */
#include "frontend/token.h"

#include <string.h>

#include "parser.h"

bool token_ends_operand(int kind)
{
    switch (kind) {
    case T_NAME:
    case T_NUMBER:
    case T_STRING:
    case T_SUFFIX:
    case T_TRUE:
    case T_FALSE:
    case T_NONE:
    case ')':
    case ']': return true;
    default: return false;
    }
}

static bool can_end(int kind)
{
    return token_ends_operand(kind) || kind == T_RETURN || kind == T_BREAK || kind == T_CONTINUE ||
           kind == '}';
}

static int closer_of(int opener)
{
    return opener == '(' ? ')' : opener == '[' ? ']' : '}';
}

/* ---- brackets ---- */

/* Follows one token; false after an error. stack holds the indexes of the open ones. */
typedef VEC(int) IndexVec;

static bool bracket(Scan *s, IndexVec *stack, const TokenVec *v, int i)
{
    const Token *t = &v->at[i];
    if (t->kind == '(' || t->kind == '[' || t->kind == '{') {
        if (stack->n >= AST_MAX_DEPTH) {
            diag_error(s->diag, t->loc, "brackets are nested more than %d levels deep",
                       AST_MAX_DEPTH);
            return false;
        }
        vec_push(s->arena, stack, i);
        return true;
    }
    if (t->kind != ')' && t->kind != ']' && t->kind != '}')
        return true;
    if (!stack->n) {
        diag_error(s->diag, t->loc, "this '%c' closes nothing", t->kind);
        return false;
    }
    const Token *open = &v->at[vec_pop(stack)];
    if (closer_of(open->kind) == t->kind)
        return true;
    diag_error(s->diag, t->loc, "expected '%c' before this '%c'", closer_of(open->kind), t->kind);
    diag_note(s->diag, open->loc, "'%c' was opened here", open->kind);
    return false;
}

/* ---- line ends ---- */

/* The first token at or after i that is not a line end. */
static const Token *next_real(const TokenVec *v, int i)
{
    while (i < v->n && v->at[i].kind == T_NEWLINE)
        i++;
    return i < v->n ? &v->at[i] : NULL;
}

static void end_statement(Scan *s, TokenVec *out, Loc loc)
{
    if (!out->n || vec_last(out).kind == T_NEWLINE || vec_last(out).kind == '{')
        return;
    Token t = {T_NEWLINE, loc, NULL};
    vec_push(s->arena, out, t);
}

static bool joins(const TokenVec *out, const Token *next)
{
    int last = vec_last(out).kind;
    if (!next)
        return false;
    return (last == '}' && next->kind == T_ELSE) || next->kind == T_ARROW || next->kind == '.';
}

/* ---- words that are keywords by their place ---- */

static int declaration(const char *word, int next)
{
    /* clang-format off */
    static const struct { const char *word; int kind, next; } words[] = {
        {"module", T_MODULE, T_NAME}, {"param", T_PARAM, T_NAME}, {"state", T_STATE, T_NAME},
        {"option", T_OPTION, T_NAME}, {"data", T_DATA, T_NAME}, {"include", T_INCLUDE, T_STRING},
        {"trainer", T_TRAINER, '{'},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].next == next && strcmp(words[i].word, word) == 0)
            return words[i].kind;
    return T_NAME;
}

static bool is_name(const TokenVec *v, int i, const char *text)
{
    return i < v->n && v->at[i].kind == T_NAME && (!text || strcmp(v->at[i].text, text) == 0);
}

/* Turns the word at i, which begins a statement, into a keyword; the tokens used. */
static int begin_statement(const TokenVec *v, int i, Token *t)
{
    if (is_name(v, i, "batch") && is_name(v, i + 1, "of") && is_name(v, i + 2, NULL)) {
        t->kind = T_BATCH;
        t->loc = loc_span(v->at[i].loc, v->at[i + 1].loc);
        return 2;
    }
    if (is_name(v, i, NULL) && i + 1 < v->n)
        t->kind = declaration(t->text, v->at[i + 1].kind);
    return 1;
}

bool token_scan(Scan *s)
{
    if (!source_is_text(s->diag, s->source))
        return false;
    lexer_scan(s);
    TokenVec raw = s->tokens, out = {0};
    IndexVec open = {0};
    for (int i = 0; i < raw.n;) {
        Token t = raw.at[i];
        bool in_block = !open.n || raw.at[vec_last(&open)].kind == '{';
        if (t.kind == T_NEWLINE) {
            if (in_block && out.n && can_end(vec_last(&out).kind) &&
                !joins(&out, next_real(&raw, i)))
                end_statement(s, &out, t.loc);
            i++;
            continue;
        }
        if (!bracket(s, &open, &raw, i))
            return false;
        if (t.kind == '}')
            end_statement(s, &out, t.loc);
        bool begins =
            in_block && (!out.n || vec_last(&out).kind == T_NEWLINE || vec_last(&out).kind == '{');
        i += begins ? begin_statement(&raw, i, &t) : 1;
        vec_push(s->arena, &out, t);
    }
    if (open.n) {
        const Token *t = &raw.at[vec_last(&open)];
        diag_error(s->diag, t->loc, "this '%c' is never closed", t->kind);
        return false;
    }
    Loc end = {s->source, s->line, s->col, 1};
    end_statement(s, &out, end);
    Token last = {0, end, NULL};
    vec_push(s->arena, &out, last);
    s->tokens = out;
    return true;
}
