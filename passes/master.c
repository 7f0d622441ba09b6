/* master.c: casts of parameters become working copies.
 *
 * Needs:   the update as plain ops (after scaling).
 * Leaves:  for every parameter that is trained and used in a low type, a tensor of role working in that type;
 *          graphs take it as an argument instead of casting; every graph that changes the parameter gives the
 *          copy as a result, too. The copy is the cast of the guarded new value, so a skipped step leaves the
 *          same bits in it.
 *
 *   %1 = cast %w : f16         ->   %1 = arg {state="w.f16"} : f16
 *   result "w" = %9                 %10 = cast %9 : f16
 *                                   result "w" = %9, "w.f16" = %10         (tests/passes/master-linear.ir) */
#include "passes/ctx.h"

#include "ir/base/strutil.h"

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
        if (param != NULL) {
            const Tensor *t = working_copy(c, param, n);
            Node *arg = pass_arg(c, g, ATTR_state, t->name, t->dtype, &t->dims);
            arg->loc = n->loc;
            arg->why = "working copy, written by the optimizer beside its f32 master";
            graph_replace(g, n, arg);
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
