/* autodiff.c: reverse mode over `backward`.
 *
 * Needs:   the cast forward graph.
 * Leaves:  no backward; in its place the nodes that compute the gradients and `gradients`, one operand a
 *          parameter. Activation gradients have the type of their forward value. What a parameter becomes by
 *          casts and shape ops has f32 gradients all the way, so a weight's gradient leaves the contraction's
 *          accumulator in f32 and uses of one weight add up in f32; the derivative of its cast is the identity.
 *          Values of a checkpoint region are computed again (recompute.h); no node has a region any more.
 *          No own_grad either: the code of a module's own grad stands where its gradient is computed (own_grad.c).
 *
 *   %3 = linear %x, %w, %b : f16    ->  ..
 *   %5 = backward %4                    %7 = matmul %dy, %x {trans_a} : f32   "w.grad"
 *                                       %9 = sum (cast %dy : f32)     : f32   "b.grad"
 *                                       %t = gradients %7, %9 {params=["w","b"]}
 *                                       (tests/passes/autodiff-linear.ir; rules in vjp.c) */
#include "passes/vjp.h"

#include "ir/base/strutil.h"
#include "ir/base/text.h"
#include "ir/base/vec.h"
#include "passes/ctx.h"
#include "passes/own_grad.h"
#include "passes/recompute.h"

typedef struct Autodiff {
    PassCtx *c;
    Graph *g;
    Rebuild r;
    bool *needs;    /* by old id: depends on a parameter in a way that has a derivative */
    bool *of_param; /* by old id: a parameter behind casts and shape ops */
    bool *forward;  /* by old id: see own_grad_forward() */
    int backwards;  /* that are left in the graph */
    VEC(const char *) reached; /* parameters with a gradient by one of them */
    Node **grad;               /* by old id: sum of what came in so far; of one backward */
    Recompute again;           /* what that backward computes a second time */
} Autodiff;

/* ---- what gradients flow into -------------------------------------------------------------------- */

static bool passes_on(const Node *n)
{
    return n->op == OP_scale_loss || n->op == OP_stepped ||
           (vjp_rule[n->op] != vjp_zero && op_info[n->op].kind != KIND_Mark);
}

/* A parameter that is not frozen. */
static bool is_trained(const Module *m, const Attr *param)
{
    const Tensor *t = param != NULL ? module_find_tensor(m, param->s) : NULL;
    return t != NULL && !attrs_bool(&t->init, ATTR_frozen);
}

static void classify(Autodiff *a)
{
    a->needs = ARENA_ARRAY(a->c->scratch, bool, a->r.n);
    a->of_param = ARENA_ARRAY(a->c->scratch, bool, a->r.n);
    for (int i = 0; i < a->r.n; i++) {
        const Node *n = a->r.old[i];
        bool is_param = is_trained(a->c->m, pass_param(n)) && pass_is_float(n->dtype);
        bool moves = op_info[n->op].kind == KIND_Move || op_info[n->op].kind == KIND_Cast;
        a->needs[i] = is_param;
        a->of_param[i] = is_param || moves;
        for (int k = 0; k < n->nin; k++) {
            bool flows = a->needs[n->in[k]->id] && pass_is_float(n->dtype) && passes_on(n) &&
                         node_passes_gradient(n, k);
            a->needs[i] = a->needs[i] || flows;
            a->of_param[i] = a->of_param[i] && a->of_param[n->in[k]->id];
        }
        a->of_param[i] = a->of_param[i] || n->op == OP_stepped;
        a->of_param[i] = a->of_param[i] && a->needs[i];
    }
}

static DType gradient_type(const Autodiff *a, const Node *n)
{
    return a->of_param[n->id] && n->dtype != DT_f64 ? DT_f32 : n->dtype;
}

/* ---- one node ------------------------------------------------------------------------------------ */

/* A low type is summed in f32. */
static Node *sum_to(Builder *b, Node *d, const Dims *dims)
{
    if (d == NULL || dims_equal(&d->dims, dims)) {
        return d;
    }
    return build_sum_to(b, dtype_is_low(d->dtype) ? build_cast(b, d, DT_f32) : d, dims);
}

static void add_gradient(Autodiff *a, Builder *b, const Node *x, Node *d)
{
    if (d == NULL) {
        return;
    }
    DType dt = gradient_type(a, x);
    /* a parameter's gradient is summed over the batch in f32 from the start */
    d = a->of_param[x->id] ? build_cast(b, d, dt) : d;
    d = build_cast(b, sum_to(b, d, &x->dims), dt);
    Node **sum = &a->grad[x->id];
    *sum = *sum == NULL ? d : build2(b, OP_add, *sum, d);
}

static Node *scale_gradient(Builder *b, const Node *n, Node *dy)
{
    return build(b, OP_scale_loss, 1, &dy, n->attrs);
}

/* "fc1.weight.grad" for what becomes fc1.weight's gradient; else the name of the forward op. */
static const char *gradient_name(Autodiff *a, const Node *n, const Node *x)
{
    while (a->of_param[x->id] && x->nin > 0 && (x->nin == 1 || x->op == OP_stepped)) {
        x = x->in[x->nin - 1];
    }
    const Attr *param = pass_param(x);
    return param != NULL ? arena_printf(a->c->arena, "%s.grad", param->s) : n->name;
}

static const char *reason(Autodiff *a, const Node *n, const Node *x)
{
    return arena_printf(a->c->arena,
                        a->of_param[x->id] ? WHY_BACKWARD "%s: a parameter's gradient is f32"
                                           : WHY_BACKWARD "%s: runs in the type of its forward op",
                        op_info[n->op].name);
}

/* The module says itself what its inputs get. */
static void differentiate_own(Autodiff *a, Node *n)
{
    Builder b = {.graph = a->g, .diag = a->c->diag, .loc = n->in[1]->loc};
    OwnGrad o = {a->c, a->g, a->r.old, a->forward, a->needs, &a->again};
    Node **d = own_grad_expand(&o, n, a->grad[n->id]);
    for (int i = 2; i < n->nin; i += 2) {
        Node *x = n->in[i];
        b.name = gradient_name(a, n, x);
        b.why = arena_printf(a->c->arena, WHY_BACKWARD "%s" WHY_OWN_GRAD ", line %d",
                             attrs_str(&n->attrs, ATTR_module), b.loc.line);
        add_gradient(a, &b, x, d[i]);
    }
}

/* Hands the gradient of n's result on to its operands. False: an error was reported. */
static bool differentiate(Autodiff *a, Node *n)
{
    Node *dy = a->grad[n->id], *value = recompute_node(&a->again, n, dy);
    if (n->op == OP_own_grad) {
        differentiate_own(a, n);
        return true;
    }
    Builder b = {.graph = a->g, .diag = a->c->diag, .loc = n->loc, .name = n->name};
    for (int i = 0; i < n->nin; i++) {
        Node *x = n->in[i];
        if (!a->needs[x->id]) {
            continue;
        }
        if (n->op == OP_stepped) {
            b.name = gradient_name(a, n, x);
            b.why = reason(a, n, x);
            add_gradient(a, &b, x, dy);
            continue;
        }
        if (vjp_rule[n->op] == vjp_none && n->op != OP_scale_loss) {
            diag_error(a->c->diag, n->loc, "%s has no derivative, and a parameter reaches it here",
                       op_info[n->op].name);
            return false;
        }
        DType type = op_info[n->op].kind == KIND_Map ? map_dtype(n) : n->dtype;
        Vjp v = {&b, value, dy, i, type, gradient_type(a, x)};
        if (a->of_param[x->id] && dtype_is_low(type)) {
            v.type = DT_f32;
        }
        b.why = reason(a, n, x);
        b.name = gradient_name(a, n, x);
        add_gradient(a, &b, x,
                     n->op == OP_scale_loss ? scale_gradient(&b, n, dy) : vjp_rule[n->op](&v));
    }
    return true;
}

/* ---- one backward -------------------------------------------------------------------------------- */

static bool is_step_of(const Autodiff *a, const Node *n, const char *name)
{
    const Decl *d = n->op == OP_optimizer_step
                        ? module_find(a->c->m, DECL_optimizer, attrs_str(&n->attrs, ATTR_optimizer))
                        : NULL;
    return d != NULL && optimizer_moves(d, name);
}

/* Here, or, where gradients are accumulated, in another graph. */
static bool steps_parameter(const Autodiff *a, const char *name)
{
    bool steps = false, accumulates = false;
    for (int i = 0; i < a->r.n; i++) {
        steps = steps || is_step_of(a, a->r.old[i], name);
        accumulates = accumulates || a->r.old[i]->op == OP_accumulate;
    }
    for (int i = 0; accumulates && i < a->c->m->ngraphs; i++) {
        const Graph *g = a->c->m->graphs[i];
        for (int k = 0; k < g->nnodes; k++) {
            steps = steps || is_step_of(a, g->nodes[k], name);
        }
    }
    return steps;
}

/* Parameters that an optimizer here would move but that have no gradient. */
static void warn_unreached(Autodiff *a, const Node *backward)
{
    Text *list = text_new(a->c->scratch);
    int missing = 0;
    for (int i = 0; i < a->c->m->ntensors; i++) {
        const Tensor *t = a->c->m->tensors[i];
        bool has = t->role != TENSOR_param || !steps_parameter(a, t->name);
        for (int k = 0; k < a->reached.n && !has; k++) {
            has = str_eq(a->reached.at[k], t->name);
        }
        if (!has) {
            text_printf(list, "%s%s", missing++ > 0 ? ", " : "", t->name);
        }
    }
    if (missing > 0) {
        diag_warning(a->c->diag, backward->loc,
                     "the loss does not depend on %s: %s no gradient and will not be trained",
                     list->at, missing == 1 ? "it has" : "they have");
    }
}

/* backward -> gradients; NULL after an error. */
static Node *expand_backward(Autodiff *a, Node *backward)
{
    Node *loss = backward->in[0];
    const char *model = attrs_str(&backward->attrs, ATTR_model);
    if (!a->needs[loss->id]) {
        diag_error(a->c->diag, backward->loc, "backward: no parameter reaches this loss");
        return NULL;
    }
    a->grad = ARENA_ARRAY(a->c->scratch, Node *, a->r.n);
    a->again = (Recompute){.g = a->g, .scratch = a->c->scratch};
    Builder b = {.graph = a->g,
                 .diag = a->c->diag,
                 .loc = backward->loc,
                 .why = WHY_BACKWARD "the loss: starts with 1"};
    a->grad[loss->id] = build_const(&b, loss->dtype, 1);
    VEC(Node *) grads = {0};
    VEC(const char *) names = {0};
    for (int i = backward->id - 1; i >= 0; i--) {
        Node *n = a->r.old[i];
        if (a->grad[i] != NULL && n->nin > 0 && !differentiate(a, n)) {
            return NULL;
        }
    }
    for (int i = 0; i < backward->id; i++) {
        const Attr *param = pass_param(a->r.old[i]);
        if (a->grad[i] != NULL && param != NULL && param_in_model(param->s, model)) {
            vec_push(a->c->scratch, &grads, a->grad[i]);
            vec_push(a->c->scratch, &names, param->s);
        }
    }
    for (int i = 0; i < names.n; i++) {
        vec_push(a->c->scratch, &a->reached, names.at[i]);
    }
    if (--a->backwards == 0) {
        warn_unreached(a, backward);
    }
    if (grads.n == 0) {
        diag_error(a->c->diag, backward->loc, "backward: no parameter of %s reaches this loss",
                   model != NULL ? model : "the model");
        return NULL;
    }
    b.why = NULL;
    Attrs attrs = {0};
    attrs_set_strs(a->c->arena, &attrs, ATTR_params, names.n, names.at);
    return build(&b, OP_gradients, grads.n, grads.at, attrs);
}

static bool differentiate_graph(PassCtx *c, Graph *g)
{
    Autodiff a = {.c = c, .g = g, .r = rebuild_begin(g, c->scratch)};
    bool ok = true;
    for (int i = 0; i < a.r.n; i++) {
        a.backwards += a.r.old[i]->op == OP_backward;
    }
    a.forward = own_grad_forward(c->scratch, g, a.r.old, a.r.n);
    classify(&a);
    for (int i = 0; i < a.r.n; i++) {
        Node *n = a.r.old[i];
        rebuild_operands(&a.r, n);
        if (n->op != OP_backward) {
            rebuild_keep(&a.r, n);
            continue;
        }
        Node *gradients = expand_backward(&a, n);
        ok = ok && gradients != NULL;
        rebuild_replace(&a.r, n, gradients);
    }
    rebuild_end(&a.r);
    own_grad_remove(c, g);
    graph_dce(g);
    for (int i = 0; i < g->nnodes; i++) {
        g->nodes[i]->region = 0;
    }
    return ok;
}

bool pass_autodiff(PassCtx *c)
{
    bool ok = true;
    for (int i = 0; i < c->m->ngraphs; i++) {
        ok = differentiate_graph(c, c->m->graphs[i]) && ok;
    }
    return ok;
}
