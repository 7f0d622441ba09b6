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

/* ---- what is worth a copy --------------------------------------------------------------------------- */

static bool in_forward(const Node *n)
{
    return n->why == NULL || (!str_starts(n->why, WHY_BACKWARD) && !str_starts(n->why, WHY_UPDATE));
}

/* The cast of a parameter that factor i of a product of the forward is; a bias is added, not packed. */
static Node *cast_factor(const Node *n, int i)
{
    Node *x = i < n->nin && i < 2 && op_info[n->op].kind == KIND_Contract && in_forward(n)
                  ? pass_behind_moves(n->in[i])
                  : NULL;
    return x != NULL && x->op == OP_cast && pass_param(x->in[0]) != NULL ? x : NULL;
}

static int64_t elements(const Graph *g, const Node *n)
{
    return dims_bytes(g, &n->dims, n->dtype) / dtype_info[n->dtype].bytes;
}

/* Tensors for working copies of what the products of a step leave enough for. */
static void make_copies(PassCtx *c, Graph *g)
{
    graph_renumber(g);
    int64_t *products = ARENA_ARRAY(c->scratch, int64_t, g->nnodes); /* elements, by cast */
    for (int i = 0; i < g->nnodes; i++) {
        for (int k = 0; k < 2; k++) {
            const Node *cast = cast_factor(g->nodes[i], k);
            if (cast != NULL) {
                products[cast->id] += elements(g, g->nodes[i]);
            }
        }
    }
    for (int i = 0; i < g->nnodes; i++) {
        const Node *n = g->nodes[i];
        const char *param = products[i] >= RESULTS * elements(g, n) && products[i] > 0
                                ? copied_param(c->m, n)
                                : NULL;
        const char *name =
            param != NULL ? arena_printf(c->arena, "%s.%s", param, dtype_info[n->dtype].name) : "";
        if (param != NULL && module_find_tensor(c->m, name) == NULL) {
            const Tensor *master = module_find_tensor(c->m, param);
            Tensor *t = module_tensor(c->m, name, TENSOR_working, n->dtype, &n->dims);
            t->of = master->name;
            t->loc = master->loc;
            c->counts->copies++;
        }
    }
}

/* ---- using and writing them ------------------------------------------------------------------------- */

static const Tensor *copy_of(PassCtx *c, const Node *n)
{
    const Attr *param = n->op == OP_cast && dtype_is_low(n->dtype) ? pass_param(n->in[0]) : NULL;
    const Tensor *t = NULL;
    if (param != NULL) {
        t = module_find_tensor(
            c->m, arena_printf(c->scratch, "%s.%s", param->s, dtype_info[n->dtype].name));
    }
    return t != NULL && t->role == TENSOR_working ? t : NULL;
}

/* The reason says where the low type comes from when there is no copy. */
static void explain_packing(PassCtx *c, Node *n)
{
    for (int i = 0; i < 2; i++) {
        const Node *cast = cast_factor(n, i);
        if (cast != NULL && copied_param(c->m, cast) != NULL) {
            n->why = "on the low-precision list; f32 weights, cast in packing";
        }
    }
}

static void use_copies(PassCtx *c, Graph *g)
{
    Rebuild r = rebuild_begin(g, c->scratch);
    for (int i = 0; i < r.n; i++) {
        Node *n = r.old[i];
        const Tensor *t = copy_of(c, n);
        rebuild_operands(&r, n);
        if (t == NULL) {
            explain_packing(c, n);
            rebuild_keep(&r, n);
            continue;
        }
        Node *arg = pass_arg(c, g, ATTR_state, t->name, t->dtype, &t->dims);
        arg->loc = n->loc;
        arg->why = "working copy, written by the optimizer beside its f32 master";
        rebuild_replace(&r, n, arg);
    }
    rebuild_end(&r);
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
        if (c->m->graphs[i]->role == GRAPH_Step) {
            make_copies(c, c->m->graphs[i]);
        }
    }
    for (int i = 0; i < c->m->ngraphs; i++) {
        use_copies(c, c->m->graphs[i]);
    }
    for (int i = 0; i < c->m->ngraphs; i++) {
        write_copies(c, c->m->graphs[i]);
    }
    return true;
}
