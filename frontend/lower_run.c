/* lower_run.c: runs. A run is a maximal stretch of tensor statements in one block of the host program; it is
 * one graph and one call.
 *
 * A run opens with its first tensor and ends before control flow, an evaluation or a save. Statements on
 * plain numbers that stand between its tensor statements go behind the call: they may use its results, and
 * what they set is not yet visible in it (Run.late).
 */
#include "frontend/lower.h"

/* "eval_parts_train" for eval_parts.train */
static const char *plain_name(Lower *l, const char *name)
{
    char *copy = arena_strdup(l->arena, name);
    for (char *p = copy; *p != '\0'; p++) {
        *p = *p == '.' ? '_' : *p;
    }
    return copy;
}

const char *decl_fresh_name(Lower *l, DeclKind kind, const char *wish)
{
    wish = plain_name(l, wish);
    const char *name = wish;
    for (int i = 2; module_find(l->m, kind, name) != NULL; i++) {
        name = arena_printf(l->arena, "%s_%d", wish, i);
    }
    return name;
}

const char *graph_fresh_name(Lower *l, const char *wish)
{
    wish = plain_name(l, wish);
    const char *name = wish;
    for (int i = 2; module_find_graph(l->m, name) != NULL; i++) {
        name = arena_printf(l->arena, "%s_%d", wish, i);
    }
    return name;
}

Run *run_new(Lower *l, const char *wish, GraphRole role, DataSet *d, int64_t bound, Loc loc)
{
    const char *name = graph_fresh_name(l, wish);
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

void run_settle(Lower *l, const Val *v, int n)
{
    for (int i = 0; i < n && l->run != NULL; i++) {
        if (v[i].kind == VAL_list || v[i].kind == VAL_tuple) {
            run_settle(l, v[i].list->at, v[i].list->n);
        }
        for (int k = 0; v[i].kind == VAL_host && l->run != NULL && k < l->run->late.n; k++) {
            if (host_mentions(v[i].host, l->run->late.at[k])) {
                run_close(l);
            }
        }
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

static bool does_something(const Graph *g)
{
    for (int i = 0; i < g->nnodes; i++) {
        if (op_info[g->nodes[i]->op].kind == KIND_Mark) {
            return true;
        }
    }
    return g->nresults > 0;
}

/* Tensors that nobody asks for: neither graph nor call. */
static void drop(Lower *l, Run *run)
{
    Module *m = l->m;
    HostBlock *b = run->block;
    int n = 0;
    for (int i = 0; i < m->ngraphs; i++) {
        if (m->graphs[i] != run->graph) {
            m->graphs[n++] = m->graphs[i];
        }
    }
    m->ngraphs = n;
    n = 0;
    for (int i = 0; i < b->n; i++) {
        if (b->v[i] != run->call) {
            b->v[n++] = b->v[i];
        }
    }
    b->n = n;
}

void run_finish(Lower *l)
{
    for (int i = 0; i < l->runs.n; i++) {
        Run *run = l->runs.at[i];
        if (run->call != NULL && !does_something(run->graph)) {
            drop(l, run);
            continue;
        }
        if (run->call != NULL) {
            finish_call(l, run);
        }
        graph_dce(run->graph);
    }
}
