/* fit.c: the least recomputation with which a program's arena fits into the memory it may take.
 *
 * Each level of the pass checkpoint is tried on a module of its own, which is read back from the IR's text: passes
 * and plan say what that level takes. Where none suffices, the message names what the smallest one is made of. */
#include "passes/pass.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/strutil.h"
#include "passes/ctx.h"

enum { NAMED = 5 };

typedef struct Fit {
    const Module *m;
    const PassOptions *opt;
    const PlanOptions *plan;
    const char *text; /* of m */
    size_t size;
} Fit;

/* The plan at a level; NULL: the file has an error. */
static Plan *plan_at(const Fit *fit, Arena *arena, int level)
{
    Diag *quiet = diag_new(arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
    const SourceFile *source = source_from_text(arena, "fit.ir", fit->text, fit->size);
    Module *m = module_read_source(arena, quiet, source);
    PassOptions opt = {.precision = fit->opt->precision,
                       .ndisabled = fit->opt->ndisabled,
                       .disabled = fit->opt->disabled,
                       .checkpoint = level};
    if (m == NULL || !passes_run(m, &opt, quiet)) {
        return NULL;
    }
    return plan_module(arena, m, fit->plan);
}

static bool is_live_at_fullest(const GraphPlan *gp, const Buffer *b)
{
    bool transient = b->place == PLACE_transient && gp != NULL && b->graph == gp->graph &&
                     b->first <= gp->fullest && gp->fullest <= b->last;
    return b->bytes > 0 && (b->place == PLACE_persistent || transient);
}

static const GraphPlan *largest_graph(const Plan *p)
{
    const GraphPlan *largest = NULL;
    for (int i = 0; i < p->ngraphs; i++) {
        const GraphPlan *gp = &p->graphs[i];
        if (gp->graph->role != GRAPH_Prepare &&
            (largest == NULL || gp->transient_bytes > largest->transient_bytes)) {
            largest = gp;
        }
    }
    return largest;
}

static const char *size_text(Arena *a, int64_t bytes)
{
    double n = (double)bytes;
    return n < 0x1p20 ? arena_printf(a, "%.1f KiB", n / 1024)
                      : arena_printf(a, "%.2f MiB", n / 0x1p20);
}

/* The largest buffers at the fullest moment, each at its line. */
static void name_largest(const Plan *p, Diag *diag)
{
    const GraphPlan *gp = largest_graph(p);
    const Buffer *shown[NAMED] = {NULL};
    for (int k = 0; k < NAMED; k++) {
        for (int i = 0; i < p->nbuffers; i++) {
            const Buffer *b = p->buffers[i];
            bool other = is_live_at_fullest(gp, b);
            for (int s = 0; s < k; s++) {
                other = other && shown[s] != b;
            }
            if (other && (shown[k] == NULL || b->bytes > shown[k]->bytes)) {
                shown[k] = b;
            }
        }
        const Buffer *b = shown[k];
        if (b != NULL) {
            bool lasts = b->tensor != NULL || b->what == NULL;
            diag_note(diag, b->loc, "%s: %s %s%s%s", size_text(p->arena, b->bytes),
                      buffer_role_name[b->role], b->tensor != NULL ? b->tensor->name : b->name,
                      lasts ? "" : ", ", lasts ? "" : b->what);
        }
    }
}

static void too_much(const Fit *fit, int level, int64_t kept, Diag *diag)
{
    Arena *a = arena_new();
    const Plan *p = plan_at(fit, a, level);
    int64_t least = p->arena_bytes, lasting = p->persistent_bytes;
    const char *kept_all =
        least < kept ? arena_printf(a, ", and %s where the backward computes nothing again",
                                    size_text(a, kept))
                     : "";
    diag_error(diag, fit->m->memory_loc, "the program cannot do with %s: it takes at least %s%s",
               size_text(a, fit->m->memory), size_text(a, least), kept_all);
    diag_note(diag, fit->m->memory_loc, "%s outlive the steps, %s are for a step: %s; largest are",
              size_text(a, lasting), size_text(a, least - lasting),
              lasting > fit->m->memory ? "only a smaller model needs less"
                                       : "a smaller batch_size needs less");
    name_largest(p, diag);
    arena_free(a);
}

/* The lowest level that fits, else -1 after a message. */
static int search(const Fit *fit, Diag *diag)
{
    int best = 0, levels = checkpoint_levels(fit->m);
    int64_t kept = 0, least = INT64_MAX;
    for (int level = 0; level <= levels; level++) {
        Arena *arena = arena_new();
        const Plan *p = plan_at(fit, arena, level);
        int64_t needs = p != NULL ? p->arena_bytes : -1;
        arena_free(arena);
        if (needs <= fit->m->memory) {
            return needs < 0 ? 0 : level; /* of an error the run itself tells */
        }
        kept = level == 0 ? needs : kept;
        if (needs < least) {
            least = needs;
            best = level;
        }
    }
    too_much(fit, best, kept, diag);
    return -1;
}

int passes_fit(const Module *m, const PassOptions *opt, const PlanOptions *plan, Diag *diag)
{
    Fit fit = {.m = m, .opt = opt, .plan = plan};
    char *text = NULL;
    FILE *f = open_memstream(&text, &fit.size);
    if (f == NULL) {
        ICE("no memory for the text of the IR");
    }
    module_print(f, m);
    fclose(f);
    fit.text = text;
    int level = search(&fit, diag);
    free(text);
    return level;
}
