/* ast_print.c: syntax trees back to text: the canonical .mpt spelling (--emit=loop, mpc fmt) and
 * the tree form (--emit=ast).
 *
 * Parentheses come only from precedence, so that what was printed parses to an equal tree.
 */
#include "frontend/ast.h"

#include <string.h>

#include "ir/base/strutil.h"

/* Precedences beside those of the operators (ast.h). */
enum { P_EXPRS = 0, P_EXPR = 1, P_TEST = 2, P_RANGE = 6, P_LITERAL = 10, P_POSTFIX = 11 };

typedef struct Printer {
    Text *out;
    const AstFile *file; /* whose comments are kept, or NULL */
    int comment;         /* the next of them */
} Printer;

static void expr(Printer *p, const Ast *n, int least);
static void block(Printer *p, AstList body);

/* ---- expressions ---- */

static int precedence(const Ast *n)
{
    switch (n->kind) {
    case AST_tuple: return P_EXPRS;
    case AST_cond: return P_EXPR;
    case AST_unary:
    case AST_binary: return ast_op_precedence(n->op);
    case AST_range: return P_RANGE;
    case AST_int:
    case AST_float: return P_LITERAL; /* `1.x` would be read as a number */
    default: return P_POSTFIX;
    }
}

static void exprs(Printer *p, AstList list)
{
    for (int i = 0; i < list.n; i++) {
        text_puts(p->out, i ? ", " : "");
        expr(p, list.at[i], P_EXPR);
    }
}

static void binary(Printer *p, const Ast *n)
{
    int prec = ast_op_precedence(n->op);
    bool right_assoc = n->op == AST_OP_pow;
    bool compares = prec == ast_op_precedence(AST_OP_eq);
    expr(p, n->left, prec + (right_assoc || compares));
    text_printf(p->out, " %s ", ast_op_text(n->op));
    expr(p, n->right, prec + !right_assoc);
}

static void slice(Printer *p, const Ast *n)
{
    if (n->lo)
        expr(p, n->lo, P_EXPR);
    text_putc(p->out, ':');
    if (n->hi)
        expr(p, n->hi, P_EXPR);
    if (n->step) {
        text_putc(p->out, ':');
        expr(p, n->step, P_EXPR);
    }
}

static void comprehension(Printer *p, const Ast *n)
{
    text_putc(p->out, '[');
    expr(p, n->value, P_EXPR);
    text_puts(p->out, " for ");
    exprs(p, n->list);
    text_puts(p->out, " in ");
    expr(p, n->iter, P_TEST);
    if (n->test) {
        text_puts(p->out, " if ");
        expr(p, n->test, P_TEST);
    }
    text_putc(p->out, ']');
}

static void retype(Printer *p, const Ast *n)
{
    bool call = n->value->kind == AST_call;
    text_puts(p->out, call ? "" : "(");
    expr(p, n->value, call ? P_POSTFIX : P_EXPRS);
    text_printf(p->out, "%s@%s", call ? "" : ")", n->name);
}

static void evaluate(Printer *p, const Ast *n)
{
    text_puts(p->out, "evaluate(");
    exprs(p, n->list);
    text_puts(p->out, ")");
    if (n->list2.n == 1 && n->list2.at[0]->kind == AST_expr && !p->file) {
        text_puts(p->out, " { ");
        expr(p, n->list2.at[0]->value, P_EXPRS);
        text_puts(p->out, " }");
    } else {
        block(p, n->list2);
    }
}

static void number(Printer *p, const Ast *n)
{
    char buf[32];
    if (n->name)
        text_puts(p->out, n->name);
    else if (n->kind == AST_int)
        text_printf(p->out, "%lld", (long long)n->ival);
    else
        text_puts(p->out, str_double(buf, n->num));
}

static void bracketed(Printer *p, char open, AstList list, char close)
{
    text_putc(p->out, open);
    exprs(p, list);
    text_putc(p->out, close);
}

static void bare(Printer *p, const Ast *n)
{
    switch ((AstKind)n->kind) {
    case AST_int:
    case AST_float: number(p, n); break;
    case AST_str: text_quote(p->out, n->name, strlen(n->name)); break;
    case AST_bool: text_puts(p->out, n->ival ? "true" : "false"); break;
    case AST_none: text_puts(p->out, "none"); break;
    case AST_name: text_puts(p->out, n->name); break;
    case AST_member:
        expr(p, n->object, P_POSTFIX);
        text_printf(p->out, ".%s", n->name);
        break;
    case AST_call:
        expr(p, n->callee, P_POSTFIX);
        bracketed(p, '(', n->list, ')');
        break;
    case AST_keyword:
        text_printf(p->out, "%s = ", n->name);
        expr(p, n->value, P_EXPR);
        break;
    case AST_index:
        expr(p, n->object, P_POSTFIX);
        bracketed(p, '[', n->list, ']');
        break;
    case AST_slice: slice(p, n); break;
    case AST_ellipsis: text_puts(p->out, "..."); break;
    case AST_range:
        expr(p, n->lo, P_RANGE + 1);
        text_puts(p->out, "..");
        expr(p, n->hi, P_RANGE + 1);
        break;
    case AST_unary:
        text_puts(p->out, n->op == AST_OP_not ? "not " : "-");
        expr(p, n->value, ast_op_precedence(n->op));
        break;
    case AST_binary: binary(p, n); break;
    case AST_cond:
        expr(p, n->then, P_TEST);
        text_puts(p->out, " if ");
        expr(p, n->test, P_TEST);
        text_puts(p->out, " else ");
        expr(p, n->otherwise, P_EXPR);
        break;
    case AST_list: bracketed(p, '[', n->list, ']'); break;
    case AST_tuple: exprs(p, n->list); break;
    case AST_comprehension: comprehension(p, n); break;
    case AST_retype: retype(p, n); break;
    case AST_evaluate: evaluate(p, n); break;
    case AST_type:
        text_puts(p->out, n->name);
        if (n->list.n)
            bracketed(p, '[', n->list, ']');
        break;
    default: text_printf(p->out, "<%s>", ast_kind_name(n->kind)); break;
    }
}

static void expr(Printer *p, const Ast *n, int least)
{
    bool parens = precedence(n) < least;
    text_puts(p->out, parens ? "(" : "");
    bare(p, n);
    text_puts(p->out, parens ? ")" : "");
}

/* ---- comments ---- */

/* Those that stand before `line`, each on a line of its own. */
static void comments_before(Printer *p, int line)
{
    if (!p->file)
        return;
    for (; p->comment < p->file->comments.n; p->comment++) {
        const AstComment *c = &p->file->comments.at[p->comment];
        if (c->line >= line)
            return;
        text_line(p->out, "%s", c->text);
    }
}

/* The one at the end of `line`, if any, after what is printed already. */
static void comment_at(Printer *p, int line)
{
    if (!p->file || p->comment >= p->file->comments.n)
        return;
    const AstComment *c = &p->file->comments.at[p->comment];
    if (c->line != line || c->alone)
        return;
    text_printf(p->out, "  %s", c->text);
    p->comment++;
}

/* ---- statements ---- */

static void typed(Printer *p, const char *word, const Ast *n)
{
    text_printf(p->out, "%s%s", word, n->name);
    if (n->type) {
        text_puts(p->out, ": ");
        expr(p, n->type, P_EXPR);
    }
    if (n->value) {
        text_puts(p->out, " = ");
        expr(p, n->value, n->test ? P_TEST : P_EXPR);
    }
    if (n->test) {
        text_puts(p->out, " if ");
        expr(p, n->test, P_TEST);
    }
}

static void typed_list(Printer *p, AstList list)
{
    text_putc(p->out, '(');
    for (int i = 0; i < list.n; i++)
        typed(p, i ? ", " : "", list.at[i]);
    text_putc(p->out, ')');
}

static void if_statement(Printer *p, const Ast *n)
{
    for (;;) {
        text_puts(p->out, "if ");
        expr(p, n->test, P_EXPR);
        block(p, n->list);
        if (!n->list2.n)
            return;
        text_puts(p->out, " else ");
        if (n->list2.n > 1 || n->list2.at[0]->kind != AST_if)
            break;
        n = n->list2.at[0];
    }
    p->out->at[--p->out->n] = 0; /* block() brings its own space */
    block(p, n->list2);
}

static void data(Printer *p, const Ast *n)
{
    text_printf(p->out, "data %s = ", n->name);
    expr(p, n->value, P_POSTFIX);
    text_puts(p->out, " -> ");
    if (n->transform)
        expr(p, n->transform, P_POSTFIX);
    else
        typed_list(p, n->list);
}

static void assign(Printer *p, const Ast *n)
{
    expr(p, n->target, P_EXPRS);
    text_printf(p->out, " %s= ", ast_op_text(n->op));
    expr(p, n->value, P_EXPRS);
}

/* A statement without its newline; the margin is there already. */
static void statement(Printer *p, const Ast *n)
{
    switch ((AstKind)n->kind) {
    case AST_assign: assign(p, n); break;
    case AST_expr: expr(p, n->value, P_EXPRS); break;
    case AST_if: if_statement(p, n); break;
    case AST_for:
        text_puts(p->out, "for ");
        exprs(p, n->list);
        text_puts(p->out, " in ");
        expr(p, n->iter, P_EXPR);
        block(p, n->list2);
        break;
    case AST_with:
        text_puts(p->out, "with ");
        exprs(p, n->list);
        block(p, n->list2);
        break;
    case AST_return:
        text_puts(p->out, n->value ? "return " : "return");
        if (n->value)
            expr(p, n->value, P_EXPRS);
        break;
    case AST_break:
    case AST_continue: text_puts(p->out, ast_kind_name(n->kind)); break;
    case AST_module:
        text_printf(p->out, "module %s", n->name);
        typed_list(p, n->list);
        block(p, n->list2);
        break;
    case AST_func:
        text_puts(p->out, n->name);
        typed_list(p, n->list);
        block(p, n->list2);
        break;
    case AST_param: typed(p, "param ", n); break;
    case AST_state: typed(p, "state ", n); break;
    case AST_option: typed(p, "option ", n); break;
    case AST_data: data(p, n); break;
    case AST_batch:
        text_puts(p->out, "batch of ");
        exprs(p, n->list);
        block(p, n->list2);
        break;
    case AST_trainer:
        text_puts(p->out, "trainer");
        block(p, n->list);
        break;
    case AST_include:
        text_puts(p->out, "include ");
        text_quote(p->out, n->name, strlen(n->name));
        break;
    default: bare(p, n); break;
    }
}

static void statements(Printer *p, AstList list)
{
    for (int i = 0; i < list.n; i++) {
        const Ast *n = list.at[i];
        comments_before(p, n->loc.line);
        text_margin(p->out);
        statement(p, n);
        comment_at(p, n->loc.line);
        text_putc(p->out, '\n');
    }
}

/* ` {`, the statements, `}`. A comment after the brace stays there. */
static void block(Printer *p, AstList body)
{
    if (!body.n) {
        text_puts(p->out, " { }");
        return;
    }
    text_puts(p->out, " {");
    if (p->file && p->comment < p->file->comments.n) {
        const AstComment *c = &p->file->comments.at[p->comment];
        if (!c->alone && c->line < body.at[0]->loc.line)
            comment_at(p, c->line);
    }
    text_putc(p->out, '\n');
    p->out->indent++;
    statements(p, body);
    p->out->indent--;
    text_margin(p->out);
    text_putc(p->out, '}');
}

/* ---- files ---- */

static bool has_block(const Ast *n)
{
    switch (n->kind) {
    case AST_module:
    case AST_batch:
    case AST_trainer:
    case AST_for:
    case AST_if:
    case AST_with: return true;
    default: return false;
    }
}

/* Plain statements are one group; options, data sets and includes are groups of their own. */
static int group(const Ast *n)
{
    return n->kind == AST_option || n->kind == AST_data || n->kind == AST_include ? n->kind : -1;
}

static void items(Printer *p, AstList list)
{
    for (int i = 0; i < list.n; i++) {
        const Ast *n = list.at[i], *before = i ? list.at[i - 1] : n;
        if (i && (has_block(n) || has_block(before) || group(n) != group(before)))
            text_putc(p->out, '\n');
        AstList one = {.at = list.at + i, .n = 1, .cap = 1};
        statements(p, one);
    }
}

void ast_print(Text *out, const Ast *n, const AstFile *comments)
{
    Printer p = {.out = out, .file = comments};
    if (n->kind == AST_file) {
        items(&p, n->list);
        if (comments)
            comments_before(&p, comments->source->lines + 1);
    } else {
        statement(&p, n);
    }
}

const char *ast_expr_text(Arena *a, const Ast *n)
{
    Text *t = text_new(a);
    Printer p = {.out = t};
    expr(&p, n, P_EXPRS);
    return t->at;
}

/* ---- the tree form ---- */

/* What this kind calls its node slot, found in the table of ast.def. */
static const char *label(const Ast *n, int slot)
{
    static const char *const names[3][10] = {
        {"object", "callee", "target", "lo", "left", "transform", "iter", "otherwise", "type"},
        {"value", "hi", "right", "then"},
        {"test", "step"},
    };
    const char *slots = ast_kind_slots(n->kind);
    for (int i = 0; names[slot][i]; i++)
        if (strstr(slots, names[slot][i]))
            return names[slot][i];
    return "?";
}

static void tree(Text *t, const Ast *n, const char *role)
{
    const Ast *slots[] = {n->a, n->b, n->c};
    text_margin(t);
    text_printf(t, "%s%s%s", role, *role ? ": " : "", ast_kind_name(n->kind));
    if (n->op != AST_OP_none)
        text_printf(t, " %s", ast_op_text(n->op));
    if (n->kind == AST_str || n->kind == AST_include) {
        text_putc(t, ' ');
        text_quote(t, n->name, strlen(n->name));
    } else if (n->name) {
        text_printf(t, " %s", n->name);
    }
    if (n->kind == AST_bool)
        text_puts(t, n->ival ? " true" : " false");
    text_printf(t, "  @%d:%d\n", n->loc.line, n->loc.col);
    t->indent++;
    for (int i = 0; i < 3; i++)
        if (slots[i])
            tree(t, slots[i], label(n, i));
    for (int i = 0; i < n->list.n; i++)
        tree(t, n->list.at[i], "");
    if (n->list2.n) {
        text_line(t, "--");
        for (int i = 0; i < n->list2.n; i++)
            tree(t, n->list2.at[i], "");
    }
    t->indent--;
}

void ast_print_tree(Text *out, const Ast *n)
{
    tree(out, n, "");
}
