/* kernel_table.c: what a program knows of its own kernels, by their functions: names, source lines, types, work.
 * --profile reads it, and the report of a run. */
#include "codegen/program.h"
#include "codegen/unit.h"
#include "ir/base/strutil.h"

#include <string.h>

/* Work of all calls of a kernel in the program, each once, at the bounds. */
typedef struct Work {
    double flops, bytes;
    int64_t tiles; /* 0: known at run time only */
    int calls;
} Work;

static double points(const Graph *g, const Dims *d)
{
    double n = 1;
    for (int i = 0; i < d->rank; i++) {
        n *= (double)dim_bound(g, d->d[i]);
    }
    return n;
}

static void add_call(Emit *e, const GraphPlan *gp, const Unit *u, const KCall *call, Work *w)
{
    int64_t most;
    double share =
        u->of->any_size ? points(gp->graph, &call->space) / points(u->graph, &u->of->space) : 1;
    unit_tiles(e, u, call, gp->graph, false, &most);
    w->flops += share * u->of->flops;
    w->bytes += share * u->of->bytes;
    w->tiles += u->of->kind == KERNEL_Contract ? 0 : most;
    w->calls++;
}

static Work work_of(Emit *e, const Unit *u)
{
    Work w = {0};
    for (int g = 0; g < e->plan->ngraphs; g++) {
        const GraphPlan *gp = &e->plan->graphs[g];
        for (int l = 0; l < gp->nlaunches; l++) {
            for (int c = 0; c < gp->launches[l].ncalls; c++) {
                const KCall *call = &gp->launches[l].calls[c];
                if (call->kernel == u->of) {
                    add_call(e, gp, u, call, &w);
                }
            }
        }
    }
    return w;
}

/* The innermost module whose path the kernel's label begins with; NULL: none. */
static const char *module_of(Emit *e, const char *what)
{
    const char *found = NULL;
    int n;
    Decl **layers = module_decls(e, DECL_layer, &n);
    for (int i = 0; i < n; i++) {
        const char *path = layers[i]->name;
        size_t length = strlen(path);
        bool inside = length > 0 && strncmp(what, path, length) == 0 &&
                      (what[length] == '.' || what[length] == ':');
        if (inside && (found == NULL || length > strlen(found))) {
            found = path;
        }
    }
    return found;
}

/* "f16, f32 -> f16": types of what is read and written in memory, each once. */
static const char *types_of(Emit *e, const Unit *u)
{
    Text *t = text_new(e->arena);
    for (int written = 0; written < 2; written++) {
        bool seen[DT_COUNT] = {false};
        const char *sep = written && t->n > 0 ? " -> " : "";
        for (int i = 0; i < u->k.noperands; i++) {
            DType dt = u->k.operands[i].dtype;
            if (u->k.operands[i].written == (written == 1) && !seen[dt] && i != u->k.packed_a &&
                i != u->k.packed_b) {
                text_printf(t, "%s%s", sep, dtype_info[dt].name);
                sep = ", ";
                seen[dt] = true;
            }
        }
    }
    return t->n > 0 ? t->at : "";
}

static const char *phase_of(const Unit *u)
{
    const char *why = u->of->why != NULL ? u->of->why : "";
    return u->graph->role == GRAPH_Eval    ? "evaluation"
           : str_starts(why, WHY_BACKWARD) ? "backward"
           : str_starts(why, WHY_UPDATE)   ? "update"
                                           : "forward";
}

int kernel_table_emit(Emit *e)
{
    int n = 0;
    ln_open(e, "static const MpcKernelRow functions[] =");
    for (int i = 0; i < e->plan->nkernels; i++) {
        const Unit *u = &e->units[i];
        if (u->ncalls == 0 || u->graph->role == GRAPH_Prepare) {
            continue;
        }
        Work w = work_of(e, u);
        ln_in(e, "{");
        ln(e, ".function = %s, .pack = %s, .name = \"%s\",", u->name,
           unit_packs(u) ? u->pack_name : "NULL", u->name);
        ln(e, ".what = %s,", quoted(e->arena, u->of->what));
        ln(e, ".types = \"%s\", .phase = \"%s\",", types_of(e, u), phase_of(u));
        if (u->of->why != NULL && u->of->why[0] != '\0') {
            ln(e, ".why = %s,", quoted(e->arena, u->of->why));
        }
        if (u->of->what != NULL && module_of(e, u->of->what) != NULL) {
            ln(e, ".module = %s,", quoted(e->arena, module_of(e, u->of->what)));
        }
        ln(e, ".line = %d, .tiles = %lld, .flops = %.0f, .bytes = %.0f,",
           own_line(e->m, u->of->loc), (long long)w.tiles,
           w.tiles > 0 ? w.flops : w.flops / w.calls, w.tiles > 0 ? w.bytes : w.bytes / w.calls);
        ln_close(e, ",");
        n++;
    }
    ln_close(e, ";");
    ln_blank(e);
    return n;
}
