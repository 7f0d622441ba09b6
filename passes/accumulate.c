/* accumulate.c: gradients that several calls of graphs add up become states of the program.
 *
 * Needs:   backward expanded: accumulate has its gradients behind it.
 * Leaves:  a tensor of role grad for each of them, f32 (f64 for an f64 parameter), and one for the sum of
 *          their weights; in the graphs of the updates, `gradients` of arguments in the place of accumulated.
 *          accumulate itself is expanded by scaling.c, with the other markers.
 *
 *   %g = accumulated {average, scaler="s"}  ->  %1 = arg {state="fc1.weight.grad"}
 *                                               %2 = arg {state="accumulated.weight"}
 *                                               %3 = div %1, (maximum %2, 1)
 *                                               %g = gradients %3 {params=["fc1.weight"], scaler="s"}
 *                                               (tests/passes/accumulate-average.ir)
 *
 * The micro-batches' gradients still carry the loss scale, which stays the same within a window: what is not
 * finite stays so in the sum, and the finite check of the update sees it. */
#include "passes/ctx.h"

#include "ir/base/strutil.h"
#include "ir/base/vec.h"

typedef struct Kept {
    VEC(const Tensor *) params;
    Tensor *weight; /* NULL: nothing is weighted */
} Kept;

static const Dims no_dims = {0};

static Tensor *keep(PassCtx *c, const char *name, DType dt, const Dims *dims, Loc loc)
{
    Tensor *t = module_find_tensor(c->m, name);
    if (t == NULL) {
        t = module_tensor(c->m, name, TENSOR_grad, dt, dims);
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
    keep(c, arena_printf(c->arena, "%s.grad", name), dt, &param->dims, loc)->of = param->name;
    vec_push(c->scratch, &kept->params, param);
}

/* The gradients that an accumulate adds. */
static void find_kept(PassCtx *c, const Graph *g, Kept *kept)
{
    for (int i = 0; i < g->nnodes; i++) {
        const Node *n = g->nodes[i];
        if (n->op != OP_accumulate) {
            continue;
        }
        const Node *set = n->in[0];
        while (set->op != OP_gradients && set->op != OP_backward) {
            set = set->in[0];
        }
        const Attr *params = attrs_find(&set->attrs, ATTR_params);
        for (int k = 0; params != NULL && k < params->strs.n; k++) {
            keep_param(c, kept, params->strs.v[k], n->loc);
        }
        if (n->nin > 2) {
            kept->weight = keep(c, ACCUMULATED_WEIGHT, DT_f32, &no_dims, n->loc);
        }
    }
}

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
    return ok;
}

bool pass_accumulate(PassCtx *c)
{
    Kept kept = {0};
    bool ok = true;
    for (int i = 0; i < c->m->ngraphs; i++) {
        find_kept(c, c->m->graphs[i], &kept);
    }
    for (int i = 0; i < c->m->ngraphs; i++) {
        bool reads = false;
        for (int k = 0; k < c->m->graphs[i]->nnodes; k++) {
            reads = reads || c->m->graphs[i]->nodes[k]->op == OP_accumulated;
        }
        ok = (!reads || expand_graph(c, c->m->graphs[i], &kept)) && ok;
    }
    return ok;
}
