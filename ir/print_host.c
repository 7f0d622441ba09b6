/* print_host.c: the text form of host programs and of expressions over plain numbers. */
#include <inttypes.h>
#include <string.h>

#include "ir/base/strutil.h"
#include "ir/text_form.h"

/* ---- expressions ----------------------------------------------------------------------------- */

int host_operator_binding(const char *op)
{
    static const struct {
        const char *op;
        int binding;
    } table[] = {
        {"or", BIND_or},     {"and", BIND_and},    {"<", BIND_compare},  {"<=", BIND_compare},
        {">", BIND_compare}, {">=", BIND_compare}, {"==", BIND_compare}, {"!=", BIND_compare},
        {"+", BIND_add},     {"-", BIND_add},      {"*", BIND_mul},      {"/", BIND_mul},
        {"//", BIND_mul},    {"%", BIND_mul},      {"**", BIND_pow},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (str_eq(op, table[i].op)) {
            return table[i].binding;
        }
    }
    return BIND_cond;
}

static bool is_negative(double x)
{
    return x < 0 || (x == 0 && 1 / x < 0);
}

static int binding_of(const HostExpr *e)
{
    switch (e->kind) {
    case HE_num: return e->type != HT_bool && is_negative(e->num) ? BIND_unary : BIND_atom;
    case HE_unary: return str_eq(e->text, "not") ? BIND_not : BIND_unary;
    case HE_binary: return host_operator_binding(e->text);
    case HE_cond: return BIND_cond;
    default: return BIND_atom;
    }
}

/* The type that the reader will give to the expression. */
static HostType expected_type(const Module *m, const HostExpr *e)
{
    HostType type = e->type;
    if (e->kind == HE_option && m != NULL) {
        const Decl *d = module_find(m, DECL_option, e->text);
        return d != NULL && option_type(d, &type) ? type : HT_float;
    }
    if (e->kind == HE_var && m != NULL) {
        const HostVar *v = module_find_var(m, e->text);
        return v != NULL ? v->type : HT_float;
    }
    return host_expr_type(e);
}

static void text_num(Text *t, const HostExpr *e)
{
    char buf[32];
    if (e->type == HT_bool) {
        text_puts(t, e->num != 0 ? "true" : "false");
    } else if (e->type == HT_int) {
        text_printf(t, "%.0f", e->num);
    } else {
        text_puts(t, str_double(buf, e->num));
    }
}

static void text_bound(Text *t, const Module *m, const HostExpr *e, int at_least);

static void text_binary(Text *t, const Module *m, const HostExpr *e)
{
    int binding = host_operator_binding(e->text);
    bool right = binding == BIND_pow, none = binding == BIND_compare;
    text_bound(t, m, e->in[0], binding + (right || none));
    text_printf(t, " %s ", e->text);
    text_bound(t, m, e->in[1], binding + (!right || none));
}

static void text_call(Text *t, const Module *m, const HostExpr *e)
{
    text_printf(t, "%s(", e->text);
    for (int i = 0; i < e->nin; i++) {
        text_puts(t, i > 0 ? ", " : "");
        text_bound(t, m, e->in[i], BIND_cond);
    }
    text_putc(t, ')');
}

/* A sign before it would be read as the number's own. */
static bool starts_with_number(const HostExpr *e)
{
    while (e->kind == HE_binary && host_operator_binding(e->text) == BIND_pow) {
        e = e->in[0];
    }
    return e->kind == HE_num && e->type != HT_bool;
}

static void text_bare(Text *t, const Module *m, const HostExpr *e)
{
    switch (e->kind) {
    case HE_num: text_num(t, e); break;
    case HE_str: text_quote(t, e->text, strlen(e->text)); break;
    case HE_var:
    case HE_option: text_name(t, e->text); break;
    case HE_len:
    case HE_count:
        text_puts(t, e->kind == HE_len ? "len(" : "count(");
        text_name(t, e->text);
        text_putc(t, ')');
        break;
    case HE_unary: {
        bool word = str_eq(e->text, "not");
        text_puts(t, word ? "not " : e->text);
        text_bound(t, m, e->in[0],
                   !word && starts_with_number(e->in[0]) ? BIND_atom + 1 : binding_of(e));
        break;
    }
    case HE_binary: text_binary(t, m, e); break;
    case HE_call: text_call(t, m, e); break;
    case HE_cond:
        text_bound(t, m, e->in[0], BIND_or);
        text_puts(t, " if ");
        text_bound(t, m, e->in[1], BIND_or);
        text_puts(t, " else ");
        text_bound(t, m, e->in[2], BIND_cond);
        break;
    }
}

static void text_bound(Text *t, const Module *m, const HostExpr *e, int at_least)
{
    /* A type that the rules would not give is written behind the parenthesis: (2 ** n):int */
    bool typed = e->type != expected_type(m, e);
    bool parens = typed || binding_of(e) < at_least;
    text_puts(t, parens ? "(" : "");
    text_bare(t, m, e);
    text_puts(t, parens ? ")" : "");
    if (typed) {
        text_printf(t, ":%s", host_type_name[e->type]);
    }
}

void text_host_expr(Text *t, const Module *m, const HostExpr *e)
{
    text_bound(t, m, e, BIND_cond);
}

const char *host_expr_text(Arena *arena, const HostExpr *e)
{
    Text *t = text_new(arena);
    text_host_expr(t, NULL, e);
    return t->at;
}

/* ---- statements ------------------------------------------------------------------------------ */

static void margin(Text *t, int depth)
{
    for (int i = 0; i < depth; i++) {
        text_puts(t, "  ");
    }
}

static void text_names(Text *t, int n, const char *const *names)
{
    for (int i = 0; i < n; i++) {
        text_puts(t, i > 0 ? ", " : "");
        text_name(t, names[i]);
    }
}

static void text_evaluate(Text *t, const Module *m, const HostStmt *s)
{
    text_puts(t, "evaluate ");
    text_names(t, s->nvars, s->vars);
    text_puts(t, s->nvars > 0 ? " = " : "= ");
    text_name(t, s->target);
    text_puts(t, " @");
    text_name(t, s->graph);
    if (s->loader != NULL) {
        text_puts(t, " with ");
        text_name(t, s->loader->name);
    }
    for (int i = 0; i < s->nmeasures; i++) {
        const HostMeasure *of = &s->measures[i];
        text_puts(t, i > 0 ? ", " : " measures ");
        text_name(t, of->key);
        text_printf(t, " = %s(", metric_info[of->metric].name);
        text_names(t, metric_info[of->metric].nfrom, of->from);
        text_putc(t, ')');
        text_attrs(t, m, &of->attrs);
    }
}

static void text_block(Text *t, const Module *m, const HostBlock *b, int depth);

/* What stands before the place and the blocks of a statement. */
static void text_head(Text *t, const Module *m, const HostStmt *s)
{
    switch (s->kind) {
    case HS_assign:
        text_name(t, s->var);
        text_puts(t, " = ");
        text_host_expr(t, m, s->expr);
        break;
    case HS_for:
        text_puts(t, "for ");
        text_name(t, s->var);
        text_puts(t, " in ");
        text_host_expr(t, m, s->expr);
        text_puts(t, " .. ");
        text_host_expr(t, m, s->hi);
        break;
    case HS_batches:
        text_puts(t, "batches ");
        if (s->var != NULL) {
            text_name(t, s->var);
            text_puts(t, " in ");
        }
        text_name(t, s->target);
        break;
    case HS_if:
        text_puts(t, "if ");
        text_host_expr(t, m, s->expr);
        break;
    case HS_break: text_puts(t, "break"); break;
    case HS_continue: text_puts(t, "continue"); break;
    case HS_call:
        text_puts(t, "call @");
        text_name(t, s->target);
        text_puts(t, s->nvars > 0 ? " -> " : "");
        text_names(t, s->nvars, s->vars);
        break;
    case HS_schedule:
        text_puts(t, "schedule ");
        text_name(t, s->target);
        if (s->expr != NULL) {
            text_puts(t, " with ");
            text_host_expr(t, m, s->expr);
        }
        break;
    case HS_log:
        text_puts(t, s->nvars > 0 ? "log " : "log");
        text_names(t, s->nvars, s->vars);
        break;
    case HS_evaluate: text_evaluate(t, m, s); break;
    case HS_save:
    case HS_load:
    case HS_limit:
        text_puts(t, s->kind == HS_save ? "save " : s->kind == HS_load ? "load " : "limit ");
        text_host_expr(t, m, s->expr);
        break;
    case HS_print:
        text_puts(t, s->nexprs > 0 ? "print " : "print");
        for (int i = 0; i < s->nexprs; i++) {
            text_puts(t, i > 0 ? ", " : "");
            text_host_expr(t, m, s->exprs[i]);
        }
        break;
    }
}

static void text_stmt(Text *t, const Module *m, const HostStmt *s, int depth)
{
    margin(t, depth);
    text_head(t, m, s);
    text_loc(t, m, s->loc);
    if (s->kind == HS_for || s->kind == HS_batches || s->kind == HS_if) {
        text_block(t, m, &s->body, depth);
        if (s->kind == HS_if && s->orelse.n > 0) {
            text_puts(t, " else");
            text_block(t, m, &s->orelse, depth);
        }
    }
    text_putc(t, '\n');
}

static void text_block(Text *t, const Module *m, const HostBlock *b, int depth)
{
    text_puts(t, " {\n");
    for (int i = 0; i < b->n; i++) {
        text_stmt(t, m, b->v[i], depth + 1);
    }
    margin(t, depth);
    text_putc(t, '}');
}

void text_host_program(Text *t, const Module *m)
{
    text_puts(t, "host");
    text_block(t, m, &m->host, 0);
    text_putc(t, '\n');
}
