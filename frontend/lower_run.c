/* lower_run.c: runs. A run is a maximal stretch of tensor statements in one block of the host program; it is
 * one graph and one call.
 *
 * A run opens with its first tensor and ends before control flow, an evaluation or a save. Statements on
 * plain numbers that stand between its tensor statements go behind the call: they may use its results, and
 * what they set is not yet visible in it (Run.late).
 */
#include "frontend/lower.h"

const char *decl_fresh_name(Lower *l, DeclKind kind, const char *wish)
{
    const char *name = wish;
    for (int i = 2; module_find(l->m, kind, name) != NULL; i++) {
        name = arena_printf(l->arena, "%s_%d", wish, i);
    }
    return name;
}

Run *run_new(Lower *l, const char *wish, GraphRole role, DataSet *d, int64_t bound, Loc loc)
{
    const char *name = wish;
    for (int i = 2; module_find_graph(l->m, name) != NULL; i++) {
        name = arena_printf(l->arena, "%s_%d", wish, i);
    }
    Run *run = ARENA_NEW(l->arena, Run);
    run->graph = graph_new(l->arena, name, role);
    run->graph->loc = lower_loc(l, loc);
    graph_sym(run->graph, "B", bound);
    run->data = d;
    run->open = true;
    module_graph(l->m, run->graph);
    vec_push(l->arena, &l->runs, run);
    return run;
}

Run *run_open(Lower *l, Loc loc)
{
    if (l->run != NULL && l->run->open) {
        return l->run;
    }
    if (l->loader == NULL) {
        lower_error(
            l, loc,
            "tensors are computed for batches: inside `for batch in loader(...)` or evaluate(...)");
        return NULL;
    }
    Run *run = run_new(l, "step", GRAPH_Step, l->loader->data, l->loader->bound, loc);
    run->block = l->block;
    run->call = host_stmt(l->m, l->block, HS_call, lower_loc(l, loc));
    run->call->target = run->graph->name;
    l->run = run;
    return run;
}

void run_close(Lower *l)
{
    if (l->run != NULL && l->run->call != NULL) {
        l->run->open = false;
        l->run = NULL;
    }
}

void run_host_result(Lower *l, Run *run, const char *name, Node *n, Loc loc)
{
    Graph *g = run->graph;
    for (int i = 0; i < g->nresults; i++) {
        if (g->results[i].kind == RESULT_Host && str_eq(g->results[i].name, name) &&
            g->results[i].value != n && run->block != NULL &&
            run->block->v[run->block->n - 1] != run->call) {
            lower_error(
                l, loc,
                "`%s` has two values in this run of statements, and both are used outside of it",
                name);
            lower_note(l, g->results[i].value->loc,
                       "the first one is computed here; give them different names");
            return;
        }
    }
    graph_result(g, RESULT_Host, name, n);
}

static void finish_call(Lower *l, Run *run)
{
    Graph *g = run->graph;
    HostStmt *s = run->call;
    s->vars = ARENA_ARRAY(l->arena, const char *, g->nresults + 1);
    s->nvars = 0;
    for (int i = 0; i < g->nresults; i++) {
        if (g->results[i].kind == RESULT_Host) {
            s->vars[s->nvars++] = g->results[i].name;
        }
    }
}

void run_finish(Lower *l)
{
    for (int i = 0; i < l->runs.n; i++) {
        if (l->runs.at[i]->call != NULL) {
            finish_call(l, l->runs.at[i]);
        }
        graph_dce(l->runs.at[i]->graph);
    }
}
