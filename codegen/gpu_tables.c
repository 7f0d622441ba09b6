/* gpu_tables.c: what a program that can run on a GPU says to the runtime: the numbers that go in and out of each
 * graph, and its kernels' GPU side. */
#include "codegen/program.h"

static size_t place_in_arena(const Emit *e, const Buffer *b)
{
    return (size_t)(b->offset + (b->place == PLACE_transient ? e->plan->persistent_bytes : 0));
}

static void ranges_emit(Emit *e, const char *name, int graph, const Buffer *const *buffers, int n)
{
    if (n == 0) {
        return;
    }
    ln_open(e, "static const MpcRange %s_%d[] =", name, graph);
    for (int i = 0; i < n; i++) {
        ln(e, "{0x%06zx, %lld}, /* %s */", place_in_arena(e, buffers[i]),
           (long long)buffers[i]->bytes, e->buffer[buffers[i]->id]);
    }
    ln_close(e, ";");
}

void gpu_tables_emit(Emit *e, const HostText *h)
{
    const Plan *p = e->plan;
    if (!e->opt->gpu) {
        return;
    }
    for (int g = 0; g < p->ngraphs; g++) {
        const GraphPlan *gp = &p->graphs[g];
        const Buffer **in = ARENA_ARRAY(e->arena, const Buffer *, gp->nnumbers_in + 1);
        const Buffer **out = ARENA_ARRAY(e->arena, const Buffer *, gp->nnumbers_out + 1);
        for (int i = 0; i < gp->nnumbers_in; i++) {
            in[i] = gp->numbers_in[i].buffer;
        }
        for (int i = 0; i < gp->nnumbers_out; i++) {
            out[i] = gp->numbers_out[i].buffer;
        }
        ranges_emit(e, "numbers_in", g, in, gp->nnumbers_in);
        ranges_emit(e, "numbers_out", g, out, gp->nnumbers_out);
    }
    ln_open(e, "static const MpcGraphRow graph_rows[] =");
    for (int g = 0; g < p->ngraphs; g++) {
        const GraphPlan *gp = &p->graphs[g];
        Text *t = text_new(e->arena);
        text_printf(t, "{.name = \"%s\", .line = %d", h->graphs[g].name, gp->graph->loc.line);
        if (gp->nnumbers_in > 0) {
            text_printf(t, ", .in = numbers_in_%d, .n_in = %d", g, gp->nnumbers_in);
        }
        if (gp->nnumbers_out > 0) {
            text_printf(t, ", .out = numbers_out_%d, .n_out = %d", g, gp->nnumbers_out);
        }
        ln(e, "%s},", t->at);
    }
    ln_close(e, ";");
    ln_blank(e);
}

void gpu_tables_member(Emit *e)
{
    if (e->opt->gpu) {
        ln(e, ".graph_rows = graph_rows, .n_graph_rows = %d,", e->plan->ngraphs);
    }
}
