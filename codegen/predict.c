/* predict.c: what --predict runs: the first evaluation whose graph has a result of kind Field, the model's
 * answer for each sample. The numbers that it measures are left unread, and the fields of the data set that the
 * answer does not follow from (labels) need not be there. */
#include <string.h>

#include "codegen/program.h"
#include "ir/base/strutil.h"

static const Result *answer_of(const Graph *g)
{
    for (int i = 0; i < g->nresults; i++) {
        if (g->results[i].kind == RESULT_Field) {
            return &g->results[i];
        }
    }
    return NULL;
}

/* Nodes that n follows from, by id. */
static void mark(bool *marked, const Node *n)
{
    if (marked[n->id]) {
        return;
    }
    marked[n->id] = true;
    for (int i = 0; i < n->nin; i++) {
        mark(marked, n->in[i]);
    }
}

static bool reads_field(const Graph *g, const bool *marked, const char *field)
{
    for (int i = 0; i < g->nnodes; i++) {
        const Node *n = g->nodes[i];
        const char *name = n->op == OP_arg ? attrs_str(&n->attrs, ATTR_batch) : NULL;
        if (name != NULL && marked[n->id] && str_eq(name, field)) {
            return true;
        }
    }
    return false;
}

/* Does the answer follow from the raw field `name`? */
static bool *fields_needed(Emit *e, const Graph *g, const Result *answer, const Graph *prepare,
                           const FieldDecl *fields, int n)
{
    bool *needed = ARENA_ARRAY(e->arena, bool, n + 1);
    bool *marked = ARENA_ARRAY(e->arena, bool, g->nnodes + 1);
    bool *before = prepare != NULL ? ARENA_ARRAY(e->arena, bool, prepare->nnodes + 1) : NULL;
    mark(marked, answer->value);
    for (int i = 0; prepare != NULL && i < prepare->nresults; i++) {
        if (reads_field(g, marked, prepare->results[i].name)) {
            mark(before, prepare->results[i].value);
        }
    }
    for (int i = 0; i < n; i++) {
        needed[i] = prepare != NULL ? reads_field(prepare, before, fields[i].name)
                                    : reads_field(g, marked, fields[i].name);
    }
    return needed;
}

static void needed_emit(Emit *e, const Graph *g, const Result *answer, const Decl *loader)
{
    int n;
    const Decl *data = module_find(e->m, DECL_data, attrs_str(&loader->attrs, ATTR_dataset));
    FieldDecl *fields = data_fields(e, data, &n);
    const bool *needed = fields_needed(e, g, answer, loader_prepare(e->m, loader), fields, n);
    Text *t = text_new(e->arena);
    for (int i = 0; i < n; i++) {
        text_printf(t, "%s%s", i > 0 ? ", " : "", needed[i] ? "true" : "false");
    }
    ln(e, "static const bool predict_needs[] = {%s};", t->at);
    ln_blank(e);
}

static void row_emit_answer(Emit *e, const HostText *h, const HostStmt *s, const GraphPlan *gp)
{
    const Buffer *b = gp->outputs[0];
    Text *dims = text_new(e->arena);
    for (int k = 1; k < b->dims.rank; k++) {
        text_printf(dims, "%s%lld", k > 1 ? ", " : "", (long long)b->dims.d[k].k);
    }
    ln_open(e, "static const MpcPredict prediction =");
    ln(e, ".run = predict, .loader = %d, .needs = predict_needs,", host_loader(h, s->loader));
    ln(e, ".kind = MPC_PREDICT_%s, .dtype = MPC_DT_%s,", b->field, dtype_info[b->dtype].name);
    ln(e, ".rank = %d, .dims = {%s}, .offset = 0x%06llx, .line = %d,", b->dims.rank - 1,
       dims->n > 0 ? dims->at : "0", (long long)(e->plan->persistent_bytes + b->offset),
       s->loc.line);
    ln_close(e, ";");
    ln_blank(e);
}

bool predict_emit(Emit *e, const HostText *h)
{
    for (int i = 0; i < h->nevaluates; i++) {
        const HostStmt *s = h->evaluates[i];
        const GraphPlan *gp = plan_find_graph(e->plan, s->graph);
        const Result *answer = answer_of(gp->graph);
        if (answer == NULL) {
            continue;
        }
        ln(e, "/* What --predict asks the model of the evaluation in line %d. */", s->loc.line);
        needed_emit(e, gp->graph, answer, s->loader);
        ln(e, "static void predict(MpcRun *r, const MpcBatch *batch)");
        ln_in(e, "{");
        ln(e, "%s(r, batch);", h->graphs[gp - e->plan->graphs].name);
        ln_close(e, "");
        ln_blank(e);
        row_emit_answer(e, h, s, gp);
        return true;
    }
    return false;
}
