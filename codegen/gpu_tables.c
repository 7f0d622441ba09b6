/* gpu_tables.c: what a program that can run on a GPU says to the runtime: the numbers that go in and out of each
 * graph, and its kernels' GPU side. */
#include "codegen/program.h"
#include "codegen/unit.h"
#include "ir/base/strutil.h"

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

/* ---- kernels ---------------------------------------------------------------------------------------- */

/* How many blocks a call takes, of its arguments. */
static const char *grid_emit(Emit *e, const Unit *u)
{
    const char *name = names_take(&e->names, arena_printf(e->arena, "%s_grid", u->name));
    Text *blocks = text_new(e->arena);
    text_puts(blocks, u->grid.blocks);
    bool uses = text_mentions(blocks, "n");
    ln(e, "static MpcGrid %s(const void *args)", name);
    ln_in(e, "{");
    for (int i = 0; i < u->graph->nsyms; i++) {
        uses |= text_mentions(blocks, u->graph->syms[i].name);
    }
    if (uses) {
        ln(e, "const struct %s *a = args;", u->name);
    } else {
        ln(e, "(void)args;");
    }
    for (int i = 0; i < u->graph->nsyms; i++) {
        const char *sym = u->graph->syms[i].name;
        if (text_mentions(blocks, sym)) {
            ln(e, "const int64_t %s = a->%s;", sym, sym);
        }
    }
    if (text_mentions(blocks, "n")) {
        ln(e, "const int64_t n = a->n;");
    }
    ln_blank(e);
    ln(e, "return (MpcGrid){(unsigned)(%s), 1, 1};", blocks->at);
    ln_close(e, "");
    ln_blank(e);
    return name;
}

static void kernels_emit(Emit *e)
{
    const Plan *p = e->plan;
    const char **grid = ARENA_ARRAY(e->arena, const char *, p->nkernels + 1);
    int n = 0;
    for (int i = 0; i < p->nkernels; i++) {
        const Unit *u = &e->units[i];
        grid[i] = u->ncalls > 0 && u->on_gpu ? grid_emit(e, u) : NULL;
    }
    ln_open(e, "static const MpcCudaKernel gpu_kernels[] =");
    for (int i = 0; i < p->nkernels; i++) {
        const Unit *u = &e->units[i];
        if (grid[i] != NULL) {
            ln(e, "{%s, \"%s_kernel\", %d, 0, %s},", u->name, u->name, u->grid.threads, grid[i]);
            n++;
        }
    }
    ln_close(e, ";");
    ln(e, "static const MpcCudaImage gpu_images[%d];", e->opt->gpu_images);
    ln(e, "static const MpcCuda gpu = {gpu_kernels, %d, gpu_images, %d};", n, e->opt->gpu_images);
    ln_blank(e);
}

void gpu_tables_emit(Emit *e, const HostText *h)
{
    const Plan *p = e->plan;
    if (!e->opt->gpu) {
        return;
    }
    if (e->opt->gpu_images > 0) {
        kernels_emit(e);
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
    if (e->opt->gpu_images > 0) {
        ln(e, ".cuda = &gpu,");
    }
    if (e->opt->gpu_only) {
        ln(e, ".gpu_only = true,");
    }
}
