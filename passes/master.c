/* master.c: casts of parameters become working copies, where a copy costs no memory.
 *
 * Needs:   the update as plain ops (after scaling).
 * Leaves:  for a weight that is trained, and whose products in a low type leave enough, a tensor of role working in
 *          that type; graphs take it as an argument instead of casting; every graph that changes the parameter gives
 *          the copy as a result, too. The copy is the cast of the guarded new value, so a skipped step leaves the
 *          same bits in it. All other casts stay, and are part of what packs the operand or reads the value.
 *
 * A copy lives as long as the program; what low precision saves, half of the values that the forward leaves for the
 * backward, is gone when the update runs and all gradients live. So a copy is made where the products of its weight
 * have at least twice as many elements as the weight has (RESULTS): then half of their bytes outweigh the copy even
 * against the gradient, and low precision never takes more memory than f32. Elsewhere the master is read while
 * packing, which costs a conversion per number and product, and saves the update's store of the copy.
 *
 *   %1 = cast %w : f16         ->   %1 = arg {state="w.f16"} : f16
 *   result "w" = %9                 %10 = cast %9 : f16
 *                                   result "w" = %9, "w.f16" = %10         (tests/passes/master-linear.ir) */
#include "passes/ctx.h"

#include "ir/base/strutil.h"
#include "ir/plan.h"

enum { RESULTS = 2 };

static bool gives_state(const Graph *g, const char *name)
{
    for (int i = 0; i < g->nresults; i++) {
        if (g->results[i].kind == RESULT_State && str_eq(g->results[i].name, name)) {
            return true;
        }
    }
    return false;
}

static bool is_trained(const Module *m, const char *param)
{
    for (int i = 0; i < m->ngraphs; i++) {
        if (gives_state(m->graphs[i], param)) {
            return true;
        }
    }
    return false;
}

static const char *copied_param(const Module *m, const Node *n)
{
    const Attr *param = n->op == OP_cast && dtype_is_low(n->dtype) ? pass_param(n->in[0]) : NULL;
    return param != NULL && is_trained(m, param->s) ? param->s : NULL;
}

static bool in_forward(const Node *n)
{
    return n->why == NULL || (!str_starts(n->why, WHY_BACKWARD) && !str_starts(n->why, WHY_UPDATE));
}

/* A factor of a product of the forward; a bias is added, not packed. */
static bool is_factor(Node *n, const Node *cast)
{
    for (int i = 0; i < n->nin && i < 2; i++) {
        if (op_info[n->op].kind == KIND_Contract && pass_behind_moves(n->in[i]) == cast) {
            return in_forward(n);
        }
    }
    return false;
}

static int64_t elements(const Graph *g, const Node *n)
{
    return dims_bytes(g, &n->dims, n->dtype) / dtype_info[n->dtype].bytes;
}

/* Elements that the products of this cast leave, at the bounds. */
static int64_t product_elements(const Graph *g, const Node *cast)
{
    int64_t sum = 0;
    for (int i = cast->id + 1; i < g->nnodes; i++) {
        sum += is_factor(g->nodes[i], cast) ? elements(g, g->nodes[i]) : 0;
    }
    return sum;
}

/* Is a copy of what n casts worth its bytes? Decided where training reads it: in the graphs of steps. */
static bool pays(const PassCtx *c, const char *param, DType dt)
{
    for (int i = 0; i < c->m->ngraphs; i++) {
        const Graph *g = c->m->graphs[i];
        for (int k = 0; k < g->nnodes && g->role == GRAPH_Step; k++) {
            const Node *n = g->nodes[k];
            const Attr *of = n->op == OP_cast && n->dtype == dt ? pass_param(n->in[0]) : NULL;
            if (of != NULL && str_eq(of->s, param) &&
                product_elements(g, n) >= RESULTS * elements(g, n)) {
                return true;
            }
        }
    }
    return false;
}

/* The reasons say where the low type comes from when there is no copy. */
static void explain_packing(PassCtx *c, Graph *g, const Node *cast)
{
    for (int i = 0; i < g->nnodes; i++) {
        Node *n = g->nodes[i];
        if (is_factor(n, cast)) {
            n->why = arena_printf(
                c->arena, "on the low-precision list; weights: f32, cast to %s while packed",
                dtype_info[cast->dtype].name);
        }
    }
}

static Tensor *working_copy(PassCtx *c, const char *param, const Node *cast)
{
    const char *name = arena_printf(c->arena, "%s.%s", param, dtype_info[cast->dtype].name);
    Tensor *t = module_find_tensor(c->m, name);
    if (t == NULL) {
        const Tensor *master = module_find_tensor(c->m, param);
        t = module_tensor(c->m, name, TENSOR_working, cast->dtype, &cast->dims);
        t->of = master->name;
        t->loc = master->loc;
        c->counts->copies++;
    }
    return t;
}

static void use_copies(PassCtx *c, Graph *g)
{
    for (int i = 0; i < g->nnodes; i++) {
        Node *n = g->nodes[i];
        const char *param = copied_param(c->m, n);
        if (param == NULL) {
            continue;
        }
        if (pays(c, param, n->dtype)) {
            const Tensor *t = working_copy(c, param, n);
            Node *arg = pass_arg(c, g, ATTR_state, t->name, t->dtype, &t->dims);
            arg->loc = n->loc;
            arg->why = "working copy, written by the optimizer beside its f32 master";
            graph_replace(g, n, arg);
        } else {
            explain_packing(c, g, n);
        }
    }
    graph_dce(g);
}

static void write_copies(PassCtx *c, Graph *g)
{
    int nresults = g->nresults;
    for (int i = 0; i < c->m->ntensors; i++) {
        const Tensor *t = c->m->tensors[i];
        for (int k = 0; k < nresults && t->role == TENSOR_working; k++) {
            const Result *r = &g->results[k];
            if (r->kind == RESULT_State && str_eq(r->name, t->of)) {
                Builder b = {.graph = g,
                             .loc = r->value->loc,
                             .name = t->of,
                             .why = WHY_UPDATE "working copy of the f32 master"};
                graph_result(g, RESULT_State, t->name, build_cast(&b, r->value, t->dtype));
                break;
            }
        }
    }
}

bool pass_master(PassCtx *c)
{
    for (int i = 0; i < c->m->ngraphs; i++) {
        use_copies(c, c->m->graphs[i]);
    }
    for (int i = 0; i < c->m->ngraphs; i++) {
        write_copies(c, c->m->graphs[i]);
    }
    return true;
}
