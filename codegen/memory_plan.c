/* memory_plan.c: the plan of memory as the table of runtime/abi/plan_table.h: spelled into the program, which prints
 * it under --plan, and printed here for mpc --plan. Places in the loader's scratch are the runtime's. */
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/program.h"
#include "ir/base/strutil.h"
#include "runtime/abi/plan_text.h"

static const char *const use_name[] = {
#define USE(name, plural) #name,
    MPC_PLAN_USES(USE)
#undef USE
};

static const MpcUse use_of[BUFFER_ROLES] = {
    [BUFFER_param] = MPC_USE_parameter,   [BUFFER_state] = MPC_USE_state,
    [BUFFER_moment] = MPC_USE_moment,     [BUFFER_scaler] = MPC_USE_scaler,
    [BUFFER_working] = MPC_USE_copy,      [BUFFER_input] = MPC_USE_activation,
    [BUFFER_number] = MPC_USE_number,     [BUFFER_activation] = MPC_USE_activation,
    [BUFFER_gradient] = MPC_USE_gradient, [BUFFER_scratch] = MPC_USE_workspace,
    [BUFFER_output] = MPC_USE_activation, [BUFFER_ema] = MPC_USE_average,
};

/* What lasts says it by its name, but an average by the parameter's. */
static const char *what_text(Arena *a, const Buffer *b, const char *shape, bool lasting)
{
    if (b->role == BUFFER_ema && b->tensor->of != NULL) {
        return b->what;
    }
    return lasting || b->what == NULL ? shape : arena_printf(a, "%s %s", shape, b->what);
}

static MpcPlanRow row_of(Arena *a, const Plan *p, const Buffer *b, int graph)
{
    bool lasting = graph < 0;
    return (MpcPlanRow){
        .name = b->tensor != NULL ? b->tensor->name : b->name,
        .what = what_text(a, b, shape_text(a, b->graph, &b->dims), lasting),
        .type = dtype_info[b->dtype].name,
        .use = use_of[b->role],
        .line = own_line(p->module, b->loc),
        .graph = graph,
        .first = lasting ? -1 : b->first,
        .last = lasting ? -1 : b->last,
        .offset = b->offset + (lasting ? 0 : p->persistent_bytes),
        .bytes = b->bytes,
    };
}

static int graph_of(const Plan *p, const Buffer *b)
{
    for (int i = 0; i < p->ngraphs; i++) {
        if (p->graphs[i].graph == b->graph) {
            return i;
        }
    }
    return -1;
}

static const char *launch_name(Arena *a, const Launch *l)
{
    const char *name = l->calls[0].kernel->name;
    return l->ncalls > 1 ? arena_printf(a, "%s and %d more", name, l->ncalls - 1) : name;
}

static MpcPlanGraph plan_of_graph(Arena *a, const GraphPlan *gp)
{
    const char **launches = ARENA_ARRAY(a, const char *, gp->nlaunches);
    for (int l = 0; l < gp->nlaunches; l++) {
        launches[l] = launch_name(a, &gp->launches[l]);
    }
    return (MpcPlanGraph){
        .name = gp->graph->name,
        .bytes = gp->transient_bytes,
        .bound = gp->lower_bound,
        .fullest = gp->fullest,
        .nlaunches = gp->nlaunches,
        .launches = launches,
    };
}

static int64_t parameters_of(const Module *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = m->tensors[i];
        n += t->role == TENSOR_param
                 ? dims_bytes(NULL, &t->dims, t->dtype) / dtype_info[t->dtype].bytes
                 : 0;
    }
    return n;
}

static MpcPlan table_of(Arena *a, const Plan *p)
{
    MpcPlanRow *rows = ARENA_ARRAY(a, MpcPlanRow, p->nbuffers);
    MpcPlanGraph *graphs = ARENA_ARRAY(a, MpcPlanGraph, p->ngraphs);
    int n = 0;
    for (int i = 0; i < p->nbuffers; i++) {
        const Buffer *b = p->buffers[i];
        if (b->place == PLACE_persistent) {
            rows[n++] = row_of(a, p, b, -1);
        }
    }
    for (int i = 0; i < p->nbuffers; i++) {
        const Buffer *b = p->buffers[i];
        if (b->place == PLACE_transient && b->last >= b->first && b->bytes > 0) {
            rows[n++] = row_of(a, p, b, graph_of(p, b));
        }
    }
    for (int i = 0; i < p->ngraphs; i++) {
        graphs[i] = plan_of_graph(a, &p->graphs[i]);
        graphs[i].bytes = p->graphs[i].graph->role == GRAPH_Prepare ? 0 : graphs[i].bytes;
    }
    return (MpcPlan){
        .nrows = n,
        .ngraphs = p->ngraphs,
        .rows = rows,
        .graphs = graphs,
        .lasting = p->persistent_bytes,
        .arena = p->arena_bytes,
        .bound = p->persistent_bytes + p->lower_bound,
        .parameters = parameters_of(p->module),
        .again = module_again(p->module, WHY_AGAIN),
        .again_short = module_again(p->module, WHY_SHORT),
    };
}

static void launches_emit(Emit *e, const MpcPlanGraph *g, int i)
{
    if (g->bytes > 0 && g->nlaunches > 0) {
        ln_open(e, "static const char *const launches_%d[] =", i);
        for (int l = 0; l < g->nlaunches; l++) {
            ln(e, "%s,", quoted(e->arena, g->launches[l]));
        }
        ln_close(e, ";");
        ln_blank(e);
    }
}

void memory_plan_emit(Emit *e)
{
    const MpcPlan p = table_of(e->arena, e->plan);
    if (p.nrows > 0) {
        ln_open(e, "static const MpcPlanRow plan_rows[] =");
        for (int i = 0; i < p.nrows; i++) {
            const MpcPlanRow *r = &p.rows[i];
            ln(e, "{%s, %s, \"%s\", MPC_USE_%s, %d, %d, %d, %d, 0x%06llx, %lld},",
               quoted(e->arena, r->name), quoted(e->arena, r->what), r->type, use_name[r->use],
               r->line, r->graph, r->first, r->last, (long long)r->offset, (long long)r->bytes);
        }
        ln_close(e, ";");
        ln_blank(e);
    }
    for (int i = 0; i < p.ngraphs; i++) {
        launches_emit(e, &p.graphs[i], i);
    }
    if (p.ngraphs > 0) {
        ln_open(e, "static const MpcPlanGraph plan_graphs[] =");
        for (int i = 0; i < p.ngraphs; i++) {
            const MpcPlanGraph *g = &p.graphs[i];
            bool listed = g->bytes > 0 && g->nlaunches > 0;
            ln(e, "{%s, %lld, %lld, %d, %d, %s},", quoted(e->arena, g->name), (long long)g->bytes,
               (long long)g->bound, g->fullest, g->nlaunches,
               listed ? arena_printf(e->arena, "launches_%d", i) : "NULL");
        }
        ln_close(e, ";");
        ln_blank(e);
    }
}

void memory_plan_member(Emit *e)
{
    const MpcPlan p = table_of(e->arena, e->plan);
    ln_open(e, ".plan =");
    if (p.nrows > 0) {
        ln(e, ".rows = plan_rows, .nrows = %d,", p.nrows);
    }
    if (p.ngraphs > 0) {
        ln(e, ".graphs = plan_graphs, .ngraphs = %d,", p.ngraphs);
    }
    ln(e, ".lasting = %lld, .arena = %lld, .bound = %lld, .parameters = %lld,",
       (long long)p.lasting, (long long)p.arena, (long long)p.bound, (long long)p.parameters);
    if (p.again + p.again_short > 0) {
        ln(e, ".again = %d, .again_short = %d,", p.again, p.again_short);
    }
    ln_close(e, ",");
}

/* As the runtime lays them out (runtime/rt_loader.c): two slots of every field, and of the keys of random numbers. */
static int64_t loader_bytes(Emit *e, const Decl *loader)
{
    int n;
    const Decl *data = module_find(e->m, DECL_data, attrs_str(&loader->attrs, ATTR_dataset));
    const FieldDecl *fields = data_fields(e, data, &n);
    const Graph *prepare = loader_prepare(e->m, loader);
    int64_t bound = attrs_int(&loader->attrs, ATTR_bound, 1);
    int64_t bytes = arena_aligned(bound * (int64_t)sizeof(int64_t));
    for (int i = 0; i < n; i++) {
        bytes += arena_aligned(bound * dims_bytes(NULL, &fields[i].dims, fields[i].dtype));
    }
    for (int i = 0; prepare != NULL && i < prepare->nresults; i++) {
        const Node *v = prepare->results[i].value;
        Dims row = {.rank = v->dims.rank - 1};
        memcpy(row.d, v->dims.d + 1, (size_t)row.rank * sizeof *row.d);
        bytes += prepare->results[i].kind == RESULT_Field
                     ? arena_aligned(bound * dims_bytes(NULL, &row, v->dtype))
                     : 0;
    }
    int64_t scratch = e->plan->prepare_bytes + e->plan->thread_scratch;
    return 2 * bytes + (prepare != NULL ? arena_aligned(scratch) : 0);
}

static int64_t batches_of(Arena *a, const Plan *plan)
{
    Emit e = {.arena = a, .plan = plan, .m = plan->module};
    int n;
    Decl **loaders = module_decls(&e, DECL_loader, &n);
    int64_t bytes = 0;
    for (int i = 0; i < n; i++) {
        bytes += loader_bytes(&e, loaders[i]);
    }
    return bytes;
}

void codegen_plan(FILE *out, const Plan *plan, bool full)
{
    Arena *a = arena_new();
    const MpcPlan p = table_of(a, plan);
    char text[32];
    fprintf(out, "plan of %s, %s: an arena of %s bytes\n", plan->module->name,
            precision_key(plan->module), plan_count(text, p.arena));
    plan_text(out, &p, full);
    fprintf(out, "%-28s %14s bytes each\n", "scratch of the threads",
            plan_count(text, plan->thread_scratch));
    fprintf(out, "%-28s %14s bytes\n", "batches", plan_count(text, batches_of(a, plan)));
    arena_free(a);
}
