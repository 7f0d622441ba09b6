/* buffers.c: where every byte of the arena lies, as macros with a place in the arena each. */
#include <limits.h>
#include <string.h>

#include "codegen/program.h"
#include "ir/base/strutil.h"

void buffers_name(Emit *e)
{
    e->buffer = ARENA_ARRAY(e->arena, const char *, e->plan->nbuffers + 1);
    for (int i = 0; i < e->plan->nbuffers; i++) {
        e->buffer[i] = names_take(&e->names, e->plan->buffers[i]->name);
    }
}

/* By number: which buffers some function names. */
static bool *find_used(const Emit *e)
{
    bool *used = ARENA_ARRAY(e->arena, bool, e->plan->nbuffers + 1);
    for (int i = 0; i < e->plan->nbuffers; i++) {
        used[i] = e->plan->buffers[i]->place == PLACE_persistent;
    }
    for (int g = 0; g < e->plan->ngraphs; g++) {
        const GraphPlan *gp = &e->plan->graphs[g];
        for (int l = 0; l < gp->nlaunches; l++) {
            for (int c = 0; c < gp->launches[l].ncalls; c++) {
                const KCall *call = &gp->launches[l].calls[c];
                for (int o = 0; o < call->kernel->noperands; o++) {
                    used[call->buffers[o]->id] = true;
                }
            }
        }
        for (int i = 0; i < gp->nnumbers_in; i++) {
            used[gp->numbers_in[i].buffer->id] = true;
        }
        for (int i = 0; i < gp->nnumbers_out; i++) {
            used[gp->numbers_out[i].buffer->id] = true;
        }
    }
    return used;
}

static void group(Emit *e, const bool *used, const Graph *g, const char *title, BufferPlace place)
{
    const Plan *p = e->plan;
    bool titled = false;
    for (int i = 0; i < p->nbuffers; i++) {
        const Buffer *b = p->buffers[i];
        if (b->place != place || (place != PLACE_persistent && b->graph != g) || !used[i]) {
            continue;
        }
        if (!titled) {
            ln_blank(e);
            ln(e, "/* %s */", comment_text(e->arena, title));
            titled = true;
        }
        int64_t offset = b->offset + (place == PLACE_transient ? p->persistent_bytes : 0);
        Text *t = text_new(e->arena);
        text_printf(t, "#define %s(arena)", e->buffer[i]);
        text_pad(t, 36);
        text_printf(t, " ((%s *)((arena) + 0x%06llx))", memory_ctype(b->dtype), (long long)offset);
        text_pad(t, 70);
        const Graph *syms = g != NULL ? g : b->graph;
        text_printf(t, " /* %s %s", shape_text(e->arena, syms, &b->dims),
                    dtype_info[b->dtype].name);
        text_pad(t, 92);
        if (b->last != INT_MAX) {
            text_printf(t, "  %d..%d", b->first, b->last);
        }
        text_pad(t, 100);
        text_printf(t, "  %s */", comment_text(e->arena, b->what != NULL ? b->what : b->name));
        ln(e, "%s", t->at);
    }
}

void buffers_emit(Emit *e)
{
    const bool *used = find_used(e);
    ln(e, "/* Buffers: where, (shape) type, first and last kernel that needs it, what. */");
    group(e, used, NULL, "what outlives a step", PLACE_persistent);
    for (int g = 0; g < e->plan->ngraphs; g++) {
        const Graph *graph = e->plan->graphs[g].graph;
        group(e, used, graph, arena_printf(e->arena, "of %s", graph->name), PLACE_transient);
        group(e, used, graph, arena_printf(e->arena, "of %s, in the loader's scratch", graph->name),
              PLACE_prepare);
    }
    ln_blank(e);
}

static const char *field_place(Emit *e, const GraphPlan *gp, const Buffer *b)
{
    const Graph *g = gp->graph;
    const char *type = memory_ctype(b->dtype);
    bool prepares = g->role == GRAPH_Prepare;
    if (str_eq(b->field, "rng") && b->role != BUFFER_output) {
        return prepares ? "p->rng" : "batch->rng";
    }
    if (b->role == BUFFER_output) {
        for (int i = 0; i < gp->noutputs; i++) {
            if (gp->outputs[i] == b) {
                return arena_printf(e->arena, "(%s *)p->out[%d]", type, i);
            }
        }
        ICE("output %s of %s is not listed", b->field, g->name);
    }
    const Decl *loader = graph_loader(e, g);
    if (loader == NULL) {
        ICE("graph %s has a field and no loader", g->name);
    }
    if (!prepares) {
        return arena_printf(e->arena, "(const %s *)batch->field[%d]", type,
                            batch_field(e, loader, b->field));
    }
    int n;
    const Decl *data = module_find(e->m, DECL_data, attrs_str(&loader->attrs, ATTR_dataset));
    FieldDecl *fields = data_fields(e, data, &n);
    for (int i = 0; i < n; i++) {
        if (str_eq(fields[i].name, b->field)) {
            return arena_printf(e->arena, "(const %s *)p->in[%d]", type, i);
        }
    }
    ICE("data set %s has no field %s", data->name, b->field);
}

const char *buffer_mirror(Emit *e, const Buffer *b)
{
    return arena_printf(e->arena, e->opt->gpu ? "%s(mirror)" : "%s(arena)", e->buffer[b->id]);
}

const char *buffer_place(Emit *e, const GraphPlan *gp, const Buffer *b)
{
    if (b->place == PLACE_field) {
        return field_place(e, gp, b);
    }
    return arena_printf(e->arena, "%s(arena)", e->buffer[b->id]);
}
