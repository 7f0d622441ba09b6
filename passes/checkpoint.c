/* checkpoint.c: decides what the backward computes again instead of keeping it, so that a step fits into memory.
 *
 * Needs:   the cast forward graph.
 * Leaves:  nodes of the forward in regions (node->region, from -1 down), which autodiff computes again; those of the
 *          file's own `with checkpoint` stay as they are. At level 0, the default, nothing changes.
 *
 * The contractions of a forward are cut into segments, about as many as the root of their number, which keeps what
 * lies between segments and what one of them needs about equal (Chen et al., 2016). The first half of the levels
 * computes everything but contractions of the first segments again, one segment more each; the second half computes
 * the first segments whole. What is kept the longest goes first. fit.c takes the lowest level that suffices.
 *
 *   %7 = gelu %6                  ->   %7 = gelu %6 checkpoint(-3)         (tests/passes/checkpoint-memory.ir) */
#include "passes/ctx.h"

static bool is_contraction(const Node *n)
{
    return op_info[n->op].kind == KIND_Contract;
}

static int backward_at(const Graph *g)
{
    int at = 0;
    while (at < g->nnodes && g->nodes[at]->op != OP_backward) {
        at++;
    }
    return at;
}

static int contractions(const Graph *g)
{
    int n = 0;
    for (int i = 0; i < backward_at(g); i++) {
        n += is_contraction(g->nodes[i]);
    }
    return n;
}

static int segments(const Graph *g)
{
    int n = 1, total = contractions(g);
    while (n * n < total) {
        n++;
    }
    return n;
}

static int most_segments(const Module *m)
{
    int most = 0;
    for (int i = 0; i < m->ngraphs; i++) {
        bool trains = backward_at(m->graphs[i]) < m->graphs[i]->nnodes;
        int n = trains ? segments(m->graphs[i]) : 0;
        most = n > most ? n : most;
    }
    return most;
}

int checkpoint_levels(const Module *m)
{
    return 2 * most_segments(m);
}

/* light: of so many first segments everything but contractions; whole: so many of them altogether. */
static void choose(Graph *g, int light, int whole)
{
    int total = contractions(g), parts = segments(g), seen = 0, end = backward_at(g);
    for (int i = 0; i < end; i++) {
        Node *n = g->nodes[i];
        seen += is_contraction(n);
        int part = total > 0 && seen > 0 ? (seen - 1) * parts / total : 0;
        if (n->region != 0 || op_info[n->op].kind == KIND_Mark || n->op == OP_arg) {
            continue;
        }
        if (part < whole) {
            n->region = -(1 + part);
        } else if (part < light && !is_contraction(n)) {
            n->region = -(1 + parts + seen); /* from one contraction to the next */
        }
    }
}

bool pass_checkpoint(PassCtx *c)
{
    int half = most_segments(c->m), level = c->opt->checkpoint;
    for (int i = 0; i < c->m->ngraphs && level > 0; i++) {
        if (backward_at(c->m->graphs[i]) < c->m->graphs[i]->nnodes) {
            choose(c->m->graphs[i], level, level - half);
        }
    }
    return true;
}
