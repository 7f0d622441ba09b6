/* verify_host.c: checks of host programs: names that exist, operators with their operands,
 * statements where they may stand. */
#include "ir/verify.h"

#include <math.h>

#include "ir/base/strutil.h"

/* ---- expressions ----------------------------------------------------------------------------- */

static const struct {
    HostExprKind kind;
    const char *text;
    int least, most;
} operators[] = {
    {HE_unary, "-", 1, 1},
    {HE_unary, "not", 1, 1},
    {HE_binary, "+", 2, 2},
    {HE_binary, "-", 2, 2},
    {HE_binary, "*", 2, 2},
    {HE_binary, "/", 2, 2},
    {HE_binary, "//", 2, 2},
    {HE_binary, "%", 2, 2},
    {HE_binary, "**", 2, 2},
    {HE_binary, "<", 2, 2},
    {HE_binary, "<=", 2, 2},
    {HE_binary, ">", 2, 2},
    {HE_binary, ">=", 2, 2},
    {HE_binary, "==", 2, 2},
    {HE_binary, "!=", 2, 2},
    {HE_binary, "and", 2, 2},
    {HE_binary, "or", 2, 2},
    {HE_call, "min", 1, 8},
    {HE_call, "max", 1, 8},
    {HE_call, "abs", 1, 1},
    {HE_call, "floor", 1, 1},
    {HE_call, "ceil", 1, 1},
    {HE_call, "sqrt", 1, 1},
    {HE_call, "exp", 1, 1},
    {HE_call, "log", 1, 1},
    {HE_call, "int", 1, 1},
    {HE_call, "float", 1, 1},
    {HE_call, "elapsed", 0, 0},
    {HE_call, "step_was_skipped", 0, 0},
};

static void verify_operator(Verify *v, const HostExpr *e, Loc loc)
{
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (operators[i].kind == e->kind && str_eq(operators[i].text, e->text)) {
            if (e->nin < operators[i].least || e->nin > operators[i].most) {
                verify_fail(v, loc, "'%s' of %d operands", e->text, e->nin);
            }
            return;
        }
    }
    verify_fail(v, loc, "'%s' is no operation on plain numbers", e->text);
}

static void verify_leaf(Verify *v, const HostExpr *e, Loc loc)
{
    HostType type = e->type;
    const char *what = NULL;
    if (e->kind == HE_var) {
        const HostVar *var = module_find_var(v->m, e->text);
        what = var == NULL ? "variable" : NULL;
        type = var != NULL ? var->type : type;
    } else if (e->kind == HE_option) {
        const Decl *d = module_find(v->m, DECL_option, e->text);
        what = d == NULL || !option_type(d, &type) ? "option" : NULL;
    } else if (e->kind == HE_len) {
        what = module_find(v->m, DECL_loader, e->text) == NULL ? "loader" : NULL;
    } else if (e->kind == HE_count) {
        what = module_find(v->m, DECL_data, e->text) == NULL ? "data set" : NULL;
    }
    if (what != NULL) {
        verify_fail(v, loc, "there is no %s '%s'", what, e->text);
    } else if (type != e->type) {
        verify_fail(v, loc, "'%s' is of type %s, not %s", e->text, host_type_name[type],
                    host_type_name[e->type]);
    }
}

static bool is_text(const HostExpr *e)
{
    return e->type == HT_str;
}

void verify_expr(Verify *v, const HostExpr *e, Loc loc)
{
    if (e == NULL || (e->kind != HE_num && e->kind != HE_cond && e->text == NULL)) {
        verify_fail(v, loc, "an expression is missing");
        return;
    }
    for (int i = 0; i < e->nin; i++) {
        verify_expr(v, e->in[i], loc);
        bool compared = e->kind == HE_cond || str_eq(e->text, "==") || str_eq(e->text, "!=");
        if (e->in[i] != NULL && is_text(e->in[i]) && !compared) {
            verify_fail(v, loc, "'%s' of a string", e->text);
        }
    }
    switch (e->kind) {
    case HE_num:
        if (e->type == HT_str || (e->type == HT_int && e->num != rint(e->num))) {
            verify_fail(v, loc, "%g is no %s", e->num, host_type_name[e->type]);
        }
        break;
    case HE_str: break;
    case HE_var:
    case HE_option:
    case HE_len:
    case HE_count: verify_leaf(v, e, loc); break;
    case HE_unary:
    case HE_binary:
    case HE_call: verify_operator(v, e, loc); break;
    case HE_cond:
        if (e->nin != 3) {
            verify_fail(v, loc, "a conditional of %d operands", e->nin);
        } else if (is_text(e->in[0]) != is_text(e->in[2]) || is_text(e->in[1])) {
            verify_fail(v, loc, "a conditional of strings and numbers");
        }
        break;
    }
}

/* ---- statements ------------------------------------------------------------------------------ */

typedef struct Where {
    bool loop;
    const char *loader; /* of the loop over batches around it */
    int depth;
} Where;

static const Graph *graph_of(Verify *v, const HostStmt *s, const char *name, GraphRole role)
{
    const Graph *g = name != NULL ? module_find_graph(v->m, name) : NULL;
    if (g == NULL || g->role != role) {
        verify_fail(v, s->loc, "there is no graph @%s to call here", name != NULL ? name : "");
        return NULL;
    }
    return g;
}

static void verify_decl_name(Verify *v, const HostStmt *s, DeclKind kind)
{
    if (s->target == NULL || module_find(v->m, kind, s->target) == NULL) {
        verify_fail(v, s->loc, "there is no %s '%s'", decl_name[kind],
                    s->target != NULL ? s->target : "");
    }
}

static const Node *host_result(const Graph *g, const char *name)
{
    for (int i = 0; i < g->nresults; i++) {
        if (g->results[i].kind == RESULT_Host && str_eq(g->results[i].name, name)) {
            return g->results[i].value;
        }
    }
    return NULL;
}

static void verify_vars(Verify *v, const HostStmt *s)
{
    for (int i = 0; i < s->nvars; i++) {
        if (s->vars[i] == NULL || module_find_var(v->m, s->vars[i]) == NULL) {
            verify_fail(v, s->loc, "there is no variable '%s'", s->vars[i] ? s->vars[i] : "");
        }
    }
}

static void verify_var(Verify *v, const HostStmt *s, const char *var)
{
    if (var == NULL || module_find_var(v->m, var) == NULL) {
        verify_fail(v, s->loc, "there is no variable '%s'", var != NULL ? var : "");
    }
}

static void verify_call(Verify *v, const HostStmt *s, Where w)
{
    const Graph *g = graph_of(v, s, s->target, GRAPH_Step);
    verify_vars(v, s);
    if (w.loader == NULL) {
        verify_fail(v, s->loc, "a call of @%s outside of a loop over batches",
                    s->target != NULL ? s->target : "");
    }
    for (int i = 0; g != NULL && i < s->nvars; i++) {
        if (host_result(g, s->vars[i]) == NULL) {
            verify_fail(v, s->loc, "@%s gives no '%s'", g->name, s->vars[i]);
        }
    }
    if (g != NULL && v->ok) {
        verify_batch(v, g, w.loader);
    }
}

/* A metric takes numbers, or tensors of as many elements, of the type that it counts. */
static void verify_measure(Verify *v, const HostStmt *s, const Graph *g, const HostMeasure *of)
{
    static const DType types[][2] = {[FEED_number] = {DT_none},
                                     [FEED_share] = {DT_none},
                                     [FEED_classes] = {DT_i64, DT_i64},
                                     [FEED_numbers] = {DT_f64, DT_f64},
                                     [FEED_losses] = {DT_f64, DT_i64}};
    const MetricInfo *info = &metric_info[of->metric];
    const Node *first = NULL;
    for (int k = 0; k < info->nfrom; k++) {
        const Node *n = host_result(g, of->from[k]);
        first = k == 0 ? n : first;
        DType want = types[info->feed][k];
        if (n == NULL) {
            verify_fail(v, s->loc, "@%s gives no '%s'", g->name, of->from[k]);
        } else if (want == DT_none ? n->dims.rank != 0 : n->dtype != want) {
            verify_fail(v, s->loc, "'%s' is nothing that %s could count", of->from[k], info->name);
        } else if (first != NULL && !dims_equal(&first->dims, &n->dims)) {
            verify_fail(v, s->loc, "%s of tensors that differ in shape", info->name);
        }
    }
    if (info->nfrom > 1 && attrs_int(&of->attrs, ATTR_classes, 0) < 1) {
        verify_fail(v, s->loc, "%s without its number of classes", info->name);
    }
}

static void verify_evaluate(Verify *v, const HostStmt *s)
{
    const Graph *g = graph_of(v, s, s->graph, GRAPH_Eval);
    verify_decl_name(v, s, DECL_data);
    verify_vars(v, s);
    if (s->nmeasures < s->nvars) {
        verify_fail(v, s->loc, "%d variables for %d measures", s->nvars, s->nmeasures);
    }
    for (int i = 0; g != NULL && i < s->nmeasures; i++) {
        verify_measure(v, s, g, &s->measures[i]);
    }
    if (s->loader == NULL || module_find(v->m, DECL_loader, s->loader->name) != s->loader) {
        verify_fail(v, s->loc, "evaluate without a loader");
    } else if (!str_eq(attrs_str(&s->loader->attrs, ATTR_dataset), s->target)) {
        verify_fail(v, s->loc, "loader %s is of another data set", s->loader->name);
    }
    if (g != NULL && v->ok) {
        verify_batch(v, g, s->loader->name);
    }
}

static void verify_block(Verify *v, const HostBlock *b, Where w);

static void verify_stmt(Verify *v, const HostStmt *s, Where w)
{
    Where in = {w.loop, w.loader, w.depth + 1};
    switch (s->kind) {
    case HS_assign:
        verify_var(v, s, s->var);
        verify_expr(v, s->expr, s->loc);
        break;
    case HS_for:
        verify_var(v, s, s->var);
        verify_expr(v, s->expr, s->loc);
        verify_expr(v, s->hi, s->loc);
        in.loop = true;
        break;
    case HS_batches:
        verify_decl_name(v, s, DECL_loader);
        in.loop = true;
        in.loader = s->target;
        break;
    case HS_if: verify_expr(v, s->expr, s->loc); break;
    case HS_break:
    case HS_continue:
        if (!w.loop) {
            verify_fail(v, s->loc, "break or continue outside of a loop");
        }
        break;
    case HS_call: verify_call(v, s, w); break;
    case HS_schedule:
        verify_decl_name(v, s, DECL_scheduler);
        if (s->expr != NULL) {
            verify_expr(v, s->expr, s->loc);
        }
        break;
    case HS_log: verify_vars(v, s); break;
    case HS_evaluate: verify_evaluate(v, s); break;
    case HS_save:
    case HS_load:
        verify_expr(v, s->expr, s->loc);
        if (s->expr != NULL && !is_text(s->expr)) {
            verify_fail(v, s->loc, "save and load want a string");
        }
        break;
    case HS_limit:
        verify_expr(v, s->expr, s->loc);
        if (s->expr != NULL && s->expr->type != HT_int) {
            verify_fail(v, s->loc, "limit wants a whole number");
        }
        break;
    case HS_print:
        for (int i = 0; i < s->nexprs; i++) {
            verify_expr(v, s->exprs[i], s->loc);
        }
        break;
    }
    verify_block(v, &s->body, in);
    verify_block(v, &s->orelse, in);
}

static void verify_block(Verify *v, const HostBlock *b, Where w)
{
    if (b->n > 0 && w.depth > 1000) {
        verify_fail(v, b->v[0]->loc, "blocks nested more than 1000 deep");
        return;
    }
    for (int i = 0; i < b->n && !diag_full(v->diag); i++) {
        verify_stmt(v, b->v[i], w);
    }
}

void verify_host(Verify *v)
{
    verify_block(v, &v->m->host, (Where){0});
}
