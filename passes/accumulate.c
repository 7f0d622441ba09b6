/* accumulate.c: gradients that several calls of graphs add up become states of the program.
 *
 * Needs:   backward expanded: accumulate has its gradients behind it.
 * Leaves:  a tensor of role grad for each of them, f32 (f64 for an f64 parameter), and one for the sum of
 *          their weights; of role before for the states that are kept; in the graphs of the updates, `gradients` of arguments in the place of accumulated.
 *          accumulate itself is expanded by scaling.c, with the other markers.
 *
 *   %g = accumulated {average, scaler="s"}  ->  %1 = arg {state="fc1.weight.grad"}
 *                                               %2 = arg {state="accumulated.weight"}
 *                                               %3 = div %1, (maximum %2, 1)
 *                                               %g = gradients %3 {params=["fc1.weight"], scaler="s"}
 *                                               (tests/passes/accumulate-average.ir)
 *
 * A state that the forward of a micro-batch writes is current at once, as in PyTorch. Where an update may be
 * skipped, what it was at the beginning of the window is kept beside it, for scaling.c to put back:
 *
 *   return state bn.running_mean = %9       ->  %7 = where (are there none yet), %old, %1
 *                                               return state bn.running_mean.before = %7
 *                                               (tests/passes/accumulate-states.ir)
 *
 * The micro-batches' gradients still carry the loss scale, which stays the same within a window: what is not
 * finite stays so in the sum, and the finite check of the update sees it. */
#include "passes/ctx.h"

#include "ir/base/strutil.h"
#include "ir/base/vec.h"

typedef struct Kept {
    VEC(const Tensor *) params;
    VEC(const Tensor *) states;
    Tensor *weight; /* NULL: nothing is weighted */
} Kept;

static const Dims no_dims = {0};

static Tensor *keep(PassCtx *c, const char *name, TensorRole role, DType dt, const Dims *dims,
                    Loc loc)
{
    Tensor *t = module_find_tensor(c->m, name);
    if (t == NULL) {
        t = module_tensor(c->m, name, role, dt, dims);
        t->loc = loc;
        attrs_set_str(c->arena, &t->init, ATTR_kind, "zeros");
    }
    return t;
}

static void keep_param(PassCtx *c, Kept *kept, const char *name, Loc loc)
{
    const Tensor *param = module_find_tensor(c->m, name);
    for (int i = 0; i < kept->params.n; i++) {
        if (kept->params.at[i] == param) {
            return;
        }
    }
    DType dt = param->dtype == DT_f64 ? DT_f64 : DT_f32;
    const char *sum = arena_printf(c->arena, "%s.grad", name);
    keep(c, sum, TENSOR_grad, dt, &param->dims, loc)->of = param->name;
    vec_push(c->scratch, &kept->params, param);
}

static void keep_set(PassCtx *c, Kept *kept, const Node *set, Loc loc)
{
    while (set->op != OP_gradients && set->op != OP_backward) {
        if (set->op == OP_more_gradients) {
            keep_set(c, kept, set->in[1], loc);
        }
        set = set->in[0];
    }
    const Attr *params = attrs_find(&set->attrs, ATTR_params);
    for (int k = 0; params != NULL && k < params->strs.n; k++) {
        keep_param(c, kept, params->strs.v[k], loc);
    }
}

/* The gradients that an accumulate adds. */
static void find_kept(PassCtx *c, const Graph *g, Kept *kept)
{
    for (int i = 0; i < g->nnodes; i++) {
        const Node *n = g->nodes[i];
        if (n->op != OP_accumulate) {
            continue;
        }
        keep_set(c, kept, n->in[0], n->loc);
        if (n->nin > 2) {
            kept->weight = keep(c, ACCUMULATED_WEIGHT, TENSOR_grad, DT_f32, &no_dims, n->loc);
        }
    }
}

/* ---- states ------------------------------------------------------------------------------------------ */

static const Node *find_op(const Graph *g, Op op)
{
    for (int i = 0; i < g->nnodes; i++) {
        if (g->nodes[i]->op == op) {
            return g->nodes[i];
        }
    }
    return NULL;
}

/* An update takes kept gradients, and a scaler may skip it. */
static bool may_skip(const Module *m)
{
    for (int i = 0; i < m->ngraphs; i++) {
        const Node *n = find_op(m->graphs[i], OP_accumulated);
        const char *scaler = n != NULL ? attrs_str(&n->attrs, ATTR_scaler) : NULL;
        const Decl *d = scaler != NULL ? module_find(m, DECL_scaler, scaler) : NULL;
        if (d != NULL && attrs_bool(&d->attrs, ATTR_enabled)) {
            return true;
        }
    }
    return false;
}

/* The states that the forward of an accumulate writes. */
static void find_states(PassCtx *c, const Graph *g, Kept *kept)
{
    for (int i = 0; i < g->nresults && find_op(g, OP_accumulate) != NULL; i++) {
        const Result *r = &g->results[i];
        Tensor *t = r->kind == RESULT_State ? module_find_tensor(c->m, r->name) : NULL;
        if (t == NULL || t->role != TENSOR_state) {
            continue;
        }
        const char *name = arena_printf(c->arena, "%s.before", t->name);
        if (module_find_tensor(c->m, name) == NULL) {
            keep(c, name, TENSOR_before, t->dtype, &t->dims, t->loc)->of = t->name;
            vec_push(c->scratch, &kept->states, t);
        }
    }
}

/* In every graph that may be the first of a window, whatever it writes itself. */
static void keep_states(PassCtx *c, Graph *g, const Kept *kept)
{
    const Node *accumulate = find_op(g, OP_accumulate);
    Builder b = {.graph = g, .diag = c->diag};
    for (int i = 0; i < kept->states.n && accumulate != NULL; i++) {
        const Tensor *t = kept->states.at[i];
        b.name = arena_printf(c->arena, "%s.before", t->name);
        b.loc = accumulate->loc;
        b.why = WHY_UPDATE "what a skipped update puts back";
        Node *now = pass_arg(c, g, ATTR_state, t->name, t->dtype, &t->dims);
        Node *before = pass_arg(c, g, ATTR_state, b.name, t->dtype, &t->dims);
        graph_result(g, RESULT_State, b.name, build3(&b, OP_where, accumulate->in[1], now, before));
    }
}

/* The update has a say in them: scaling.c lets it undo every state that its graph returns. */
static void return_states(PassCtx *c, Graph *g, const Kept *kept)
{
    for (int i = 0; i < kept->states.n; i++) {
        const Tensor *t = kept->states.at[i];
        bool there = false;
        for (int k = 0; k < g->nresults; k++) {
            there = there ||
                    (g->results[k].kind == RESULT_State && str_eq(g->results[k].name, t->name));
        }
        if (!there) {
            graph_result(g, RESULT_State, t->name,
                         pass_arg(c, g, ATTR_state, t->name, t->dtype, &t->dims));
        }
    }
}

/* ---- gradients --------------------------------------------------------------------------------------- */

/* Weights are counts, and a window without any has zeros for gradients. */
static Node *averaged(Builder *b, Node *sum, Node *weight)
{
    Node *divisor = build2(b, OP_maximum, weight, build_const(b, DT_f32, 1));
    return build2(b, OP_div, sum, build_cast(b, divisor, sum->dtype));
}

static Node *read_kept(PassCtx *c, Graph *g, const Node *n, const Kept *kept)
{
    Builder b = {.graph = g, .diag = c->diag, .loc = n->loc};
    bool average = attrs_bool(&n->attrs, ATTR_average) && kept->weight != NULL;
    Node *weight =
        average ? pass_arg(c, g, ATTR_state, kept->weight->name, DT_f32, &no_dims) : NULL;
    Node **sums = ARENA_ARRAY(c->scratch, Node *, kept->params.n + 1);
    const char **names = ARENA_ARRAY(c->arena, const char *, kept->params.n + 1);
    for (int i = 0; i < kept->params.n; i++) {
        const Tensor *param = kept->params.at[i];
        b.name = arena_printf(c->arena, "%s.grad", param->name);
        const Tensor *t = module_find_tensor(c->m, b.name);
        b.why = WHY_UPDATE "divided by the samples of its micro-batches";
        names[i] = param->name;
        sums[i] = pass_arg(c, g, ATTR_state, t->name, t->dtype, &t->dims);
        sums[i] = average ? averaged(&b, sums[i], weight) : sums[i];
    }
    b.name = b.why = NULL;
    Attrs attrs = {0};
    attrs_set_strs(c->arena, &attrs, ATTR_params, kept->params.n, names);
    const char *scaler = attrs_str(&n->attrs, ATTR_scaler);
    if (scaler != NULL) {
        attrs_set_str(c->arena, &attrs, ATTR_scaler, scaler);
    }
    return build(&b, OP_gradients, kept->params.n, sums, attrs);
}

static bool expand_graph(PassCtx *c, Graph *g, const Kept *kept)
{
    Rebuild r = rebuild_begin(g, c->scratch);
    bool ok = true;
    for (int i = 0; i < r.n; i++) { /* so that pass_arg() finds them all */
        if (r.old[i]->op == OP_arg) {
            rebuild_keep(&r, r.old[i]);
        }
    }
    for (int i = 0; i < r.n; i++) {
        Node *n = r.old[i];
        rebuild_operands(&r, n);
        if (n->op == OP_accumulated && kept->params.n == 0) {
            diag_error(c->diag, n->loc, "no gradients are accumulated for this update");
            ok = false;
        } else if (n->op == OP_accumulated) {
            rebuild_replace(&r, n, read_kept(c, g, n, kept));
            continue;
        }
        if (n->op != OP_arg) {
            rebuild_keep(&r, n);
        }
    }
    rebuild_end(&r);
    return_states(c, g, kept);
    return ok;
}

bool pass_accumulate(PassCtx *c)
{
    Kept kept = {0};
    bool ok = true;
    for (int i = 0; i < c->m->ngraphs; i++) {
        find_kept(c, c->m->graphs[i], &kept);
    }
    bool undoes = may_skip(c->m);
    for (int i = 0; i < c->m->ngraphs && undoes; i++) {
        find_states(c, c->m->graphs[i], &kept);
    }
    for (int i = 0; i < c->m->ngraphs; i++) {
        bool reads = find_op(c->m->graphs[i], OP_accumulated) != NULL;
        keep_states(c, c->m->graphs[i], &kept);
        ok = (!reads || expand_graph(c, c->m->graphs[i], &kept)) && ok;
    }
    return ok;
}
