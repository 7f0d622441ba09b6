/* read_host.c: reads host programs and expressions over plain numbers; print_host.c is the inverse.
 */
#include <string.h>

#include "ir/base/strutil.h"
#include "ir/base/vec.h"
#include "ir/reader.h"

static HostExpr *read_bound(Reader *r, int at_least);

static HostExpr *nothing(Reader *r)
{
    return host_num(r->arena, 0, HT_int);
}

static bool too_deep(Reader *r)
{
    if (r->depth > READ_MAX_DEPTH) {
        read_fail(r, "nested more than %d deep", READ_MAX_DEPTH);
        return true;
    }
    return false;
}

/* ---- expressions ----------------------------------------------------------------------------- */

static bool is_number_word(const Reader *r)
{
    return read_is_word(r, "inf") || read_is_word(r, "nan");
}

static HostExpr *read_literal(Reader *r)
{
    bool whole = r->token.kind == TOKEN_int || (read_is_sign(r, "-") && r->next.kind == TOKEN_int);
    return host_num(r->arena, read_number(r), whole ? HT_int : HT_float);
}

static HostExpr *read_parens(Reader *r)
{
    read_expect_sign(r, "(");
    HostExpr *e = read_bound(r, BIND_cond);
    read_expect_sign(r, ")");
    if (read_is_sign(r, ":")) {
        read_advance(r);
        const char *name = read_name(r);
        for (int i = 0; i < 4; i++) {
            if (str_eq(name, host_type_name[i])) {
                e->type = (HostType)i;
                return e;
            }
        }
        read_fail(r, "'%s' is no type of a number", name);
    }
    return e;
}

static HostExpr *read_call(Reader *r, const char *name)
{
    HostExpr *in[8];
    int n = 0;
    read_expect_sign(r, "(");
    if (!r->token.quoted && (str_eq(name, "len") || str_eq(name, "count"))) {
        HostExprKind kind = str_eq(name, "len") ? HE_len : HE_count;
        HostExpr *e = host_expr(r->arena, kind, read_name(r), 0, NULL);
        read_expect_sign(r, ")");
        return e;
    }
    while (!r->failed && !read_is_sign(r, ")")) {
        if (n == 8) {
            read_fail(r, "more than 8 operands");
            return nothing(r);
        }
        in[n++] = read_bound(r, BIND_cond);
        if (!read_accept_sign(r, ",")) {
            break;
        }
    }
    read_expect_sign(r, ")");
    return host_expr(r->arena, HE_call, name, n, in);
}

static HostExpr *read_reference(Reader *r, const char *name)
{
    const Decl *option = module_find(r->module, DECL_option, name);
    HostExpr *e = host_expr(r->arena, option != NULL ? HE_option : HE_var, name, 0, NULL);
    const HostVar *var = module_find_var(r->module, name);
    e->type = var != NULL ? var->type : HT_float;
    if (option != NULL && !option_type(option, &e->type)) {
        e->type = HT_float;
    }
    return e;
}

static HostExpr *read_atom(Reader *r)
{
    if (r->token.kind == TOKEN_int || r->token.kind == TOKEN_float || is_number_word(r)) {
        return read_literal(r);
    }
    if (r->token.kind == TOKEN_string) {
        return host_expr(r->arena, HE_str, read_string(r), 0, NULL);
    }
    if (read_is_sign(r, "(")) {
        return read_parens(r);
    }
    if (read_is_word(r, "true") || read_is_word(r, "false")) {
        bool value = read_is_word(r, "true");
        read_advance(r);
        return host_num(r->arena, value, HT_bool);
    }
    bool quoted = r->token.quoted;
    const char *name = read_name(r);
    if (!quoted && read_is_sign(r, "(") && r->token.glued) {
        return read_call(r, name);
    }
    return r->failed ? nothing(r) : read_reference(r, name);
}

static HostExpr *read_unary(Reader *r)
{
    if (read_is_word(r, "not")) {
        read_advance(r);
        HostExpr *x = read_bound(r, BIND_not);
        return host_expr(r->arena, HE_unary, "not", 1, &x);
    }
    if (read_is_sign(r, "-")) {
        bool number = r->next.kind == TOKEN_int || r->next.kind == TOKEN_float;
        bool word = r->next.kind == TOKEN_name && !r->next.quoted &&
                    (str_eq(r->next.text, "inf") || str_eq(r->next.text, "nan"));
        if (number || word) {
            return read_literal(r);
        }
        read_advance(r);
        HostExpr *x = read_bound(r, BIND_unary);
        return host_expr(r->arena, HE_unary, "-", 1, &x);
    }
    return read_atom(r);
}

/* The binary operator that continues an expression here; NULL for none. */
static const char *operator_here(const Reader *r)
{
    bool may = !r->token.first && !r->token.quoted &&
               (r->token.kind == TOKEN_sign || r->token.kind == TOKEN_name);
    return may && host_operator_binding(r->token.text) != BIND_cond ? r->token.text : NULL;
}

static HostExpr *read_bound(Reader *r, int at_least)
{
    r->depth++;
    if (too_deep(r)) {
        r->depth--;
        return nothing(r);
    }
    HostExpr *left = read_unary(r);
    const char *op;
    int chain = 0; /* left-deep chains make deep trees, too */
    while ((op = operator_here(r)) != NULL && host_operator_binding(op) >= at_least) {
        int binding = host_operator_binding(op);
        read_advance(r);
        HostExpr *right = read_bound(r, binding == BIND_pow ? BIND_pow : binding + 1);
        left = host_expr(r->arena, HE_binary, op, 2, (HostExpr *[]){left, right});
        if (binding == BIND_compare && operator_here(r) != NULL &&
            host_operator_binding(operator_here(r)) == BIND_compare) {
            read_fail(r, "comparisons do not chain");
        }
        if (++chain > READ_MAX_DEPTH * 8) {
            read_fail(r, "more than %d operators in a row", READ_MAX_DEPTH * 8);
        }
    }
    if (at_least == BIND_cond && read_is_word(r, "if") && !r->token.first) {
        read_advance(r);
        HostExpr *test = read_bound(r, BIND_or);
        read_expect_word(r, "else");
        HostExpr *otherwise = read_bound(r, BIND_cond);
        left = host_expr(r->arena, HE_cond, NULL, 3, (HostExpr *[]){left, test, otherwise});
    }
    r->depth--;
    return left;
}

HostExpr *read_host_expr(Reader *r)
{
    return read_bound(r, BIND_cond);
}

/* ---- statements ------------------------------------------------------------------------------ */

typedef VEC(const char *) NameList;
typedef VEC(HostExpr *) ExprList;

static NameList read_names(Reader *r)
{
    NameList names = {0};
    do {
        vec_push(r->arena, &names, read_name(r));
    } while (read_accept_sign(r, ","));
    return names;
}

static void read_block(Reader *r, HostBlock *b);

/* measures loss = mean(eval_loss), f1 = f1(a, b) {averaged="macro", classes=10} */
static void read_measures(Reader *r, HostStmt *s)
{
    VEC(HostMeasure) list = {0};
    if (!read_accept_word(r, "measures")) {
        return;
    }
    do {
        HostMeasure of = {.key = read_name(r)};
        read_expect_sign(r, "=");
        const char *name = read_name(r);
        if (!metric_find(name, &of.metric) && !r->failed) {
            read_fail(r, "'%s' is no metric", name);
        }
        read_expect_sign(r, "(");
        for (int i = 0; i < metric_info[of.metric].nfrom; i++) {
            if (i > 0) {
                read_expect_sign(r, ",");
            }
            of.from[i] = read_name(r);
        }
        read_expect_sign(r, ")");
        of.attrs = read_attrs(r);
        vec_push(r->arena, &list, of);
    } while (read_accept_sign(r, ","));
    s->measures = list.at;
    s->nmeasures = list.n;
}

static void read_evaluate(Reader *r, HostStmt *s)
{
    if (!read_is_sign(r, "=")) {
        NameList vars = read_names(r);
        s->vars = vars.at;
        s->nvars = vars.n;
    }
    read_expect_sign(r, "=");
    s->target = read_name(r);
    read_expect_sign(r, "@");
    s->graph = read_name(r);
    if (read_accept_word(r, "with")) {
        const char *name = read_name(r);
        s->loader = module_find(r->module, DECL_loader, name);
        if (s->loader == NULL && !r->failed) {
            read_fail(r, "there is no loader '%s'", name);
        }
    }
    read_measures(r, s);
    if (s->nvars > s->nmeasures) {
        read_fail(r, "%d variables for %d measures", s->nvars, s->nmeasures);
    }
}

static void read_call_stmt(Reader *r, HostStmt *s)
{
    read_expect_sign(r, "@");
    s->target = read_name(r);
    if (read_accept_sign(r, "->")) {
        NameList vars = read_names(r);
        s->vars = vars.at;
        s->nvars = vars.n;
    }
}

static bool line_ends(const Reader *r)
{
    return r->token.kind == TOKEN_end || r->token.first || read_is_word(r, "loc") ||
           read_is_sign(r, "}");
}

static void read_for(Reader *r, HostStmt *s)
{
    s->var = read_name(r);
    read_expect_word(r, "in");
    s->expr = read_host_expr(r);
    read_expect_sign(r, "..");
    s->hi = read_host_expr(r);
}

static void read_batches(Reader *r, HostStmt *s)
{
    s->target = read_name(r);
    if (read_accept_word(r, "in")) {
        s->var = s->target;
        s->target = read_name(r);
    }
}

static void read_print(Reader *r, HostStmt *s)
{
    ExprList exprs = {0};
    while (!line_ends(r)) {
        vec_push(r->arena, &exprs, read_host_expr(r));
        if (!read_accept_sign(r, ",")) {
            break;
        }
    }
    s->exprs = exprs.at;
    s->nexprs = exprs.n;
}

static void read_log(Reader *r, HostStmt *s)
{
    if (!line_ends(r)) {
        NameList vars = read_names(r);
        s->vars = vars.at;
        s->nvars = vars.n;
    }
}

static void read_if(Reader *r, HostStmt *s)
{
    s->expr = read_host_expr(r);
}

static void read_schedule(Reader *r, HostStmt *s)
{
    s->target = read_name(r);
    if (read_accept_word(r, "with")) {
        s->expr = read_host_expr(r);
    }
}

static void read_nothing(Reader *r, HostStmt *s)
{
    (void)r;
    (void)s;
}

static const struct {
    const char *word;
    HostKind kind;
    void (*read)(Reader *r, HostStmt *s);
} stmt_words[] = {
    {"for", HS_for, read_for},
    {"batches", HS_batches, read_batches},
    {"if", HS_if, read_if},
    {"break", HS_break, read_nothing},
    {"continue", HS_continue, read_nothing},
    {"call", HS_call, read_call_stmt},
    {"schedule", HS_schedule, read_schedule},
    {"log", HS_log, read_log},
    {"evaluate", HS_evaluate, read_evaluate},
    {"save", HS_save, read_if},
    {"load", HS_load, read_if},
    {"limit", HS_limit, read_if},
    {"print", HS_print, read_print},
};

static void read_stmt(Reader *r, HostBlock *into)
{
    HostStmt *s = NULL;
    for (size_t i = 0; i < sizeof stmt_words / sizeof stmt_words[0] && s == NULL; i++) {
        if (read_accept_word(r, stmt_words[i].word)) {
            s = host_stmt(r->module, into, stmt_words[i].kind, loc_none());
            stmt_words[i].read(r, s);
        }
    }
    if (s == NULL) {
        const char *var = read_name(r);
        read_expect_sign(r, "=");
        s = host_stmt(r->module, into, HS_assign, loc_none());
        s->var = var;
        s->expr = read_host_expr(r);
    }
    s->loc = read_loc(r);
    if (s->kind == HS_for || s->kind == HS_batches || s->kind == HS_if) {
        read_block(r, &s->body);
        if (s->kind == HS_if && read_accept_word(r, "else")) {
            read_block(r, &s->orelse);
        }
    }
}

static void read_block(Reader *r, HostBlock *b)
{
    r->depth++;
    read_expect_sign(r, "{");
    while (!too_deep(r) && !r->failed && !read_is_sign(r, "}")) {
        read_stmt(r, b);
    }
    read_expect_sign(r, "}");
    r->depth--;
}

void read_host_program(Reader *r)
{
    read_block(r, &r->module->host);
}
