/* memory.c: offsets of transient buffers by their lifetimes.
 *
 * Needs:   launches in order, buffers bound to calls.
 * Leaves:  first, last and offset of each transient buffer of the graph; no two that live at the same launch overlap.
 *
 * Largest first, each at the lowest offset that is free during its life (greedy by size, as in TFLite's planner;
 * within a few per cent of the bound on the graphs we have; --plan prints both). */
#include "passes/schedule.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef VEC(Buffer *) BufferVec;

static bool is_transient(const Buffer *b, const GraphPlan *gp, BufferPlace place)
{
    return b->graph == gp->graph && b->place == place;
}

static void touch(Buffer *b, int launch)
{
    b->first = launch < b->first ? launch : b->first;
    b->last = launch > b->last ? launch : b->last;
}

/* Plan buffers are const in calls; the planner is the one that may write them. */
static Buffer *own(Plan *p, const Buffer *b)
{
    for (int i = 0; i < p->nbuffers; i++) {
        if (p->buffers[i] == b) {
            return p->buffers[i];
        }
    }
    ICE("a call reads a buffer that is not in the plan");
}

static void lifetimes(Plan *p, GraphPlan *gp, BufferPlace place)
{
    for (int i = 0; i < p->nbuffers; i++) {
        if (is_transient(p->buffers[i], gp, place)) {
            p->buffers[i]->first = INT_MAX;
            p->buffers[i]->last = -1;
        }
    }
    for (int l = 0; l < gp->nlaunches; l++) {
        for (int c = 0; c < gp->launches[l].ncalls; c++) {
            const KCall *call = &gp->launches[l].calls[c];
            for (int i = 0; i < call->kernel->noperands; i++) {
                if (is_transient(call->buffers[i], gp, place)) {
                    touch(own(p, call->buffers[i]), l);
                }
            }
        }
    }
    for (int i = 0; i < gp->nnumbers_in; i++) { /* written before the first launch */
        touch(own(p, gp->numbers_in[i].buffer), -1);
        touch(own(p, gp->numbers_in[i].buffer), 0);
    }
    for (int i = 0; i < gp->nnumbers_out; i++) { /* read after the last one */
        if (gp->numbers_out[i].buffer->place == place) {
            touch(own(p, gp->numbers_out[i].buffer), gp->nlaunches);
        }
    }
}

static int by_size(const void *x, const void *y)
{
    const Buffer *a = *(Buffer *const *)x, *b = *(Buffer *const *)y;
    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes ? 1 : -1;
    }
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : strcmp(a->name, b->name);
}

static bool overlap_in_time(const Buffer *a, const Buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset that no placed buffer of the same time covers. */
static int64_t lowest_offset(const Buffer *b, Buffer *const *placed, int n)
{
    int64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < n; i++) {
            const Buffer *o = placed[i];
            if (overlap_in_time(b, o) && offset < o->offset + arena_aligned(o->bytes) &&
                o->offset < offset + arena_aligned(b->bytes)) {
                offset = o->offset + arena_aligned(o->bytes);
                moved = true;
            }
        }
    }
    return offset;
}

static int64_t live_bytes(Buffer *const *all, int n, int launch)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        sum += all[i]->first <= launch && launch <= all[i]->last ? arena_aligned(all[i]->bytes) : 0;
    }
    return sum;
}

int64_t memory_plan(Arena *arena, Plan *p, GraphPlan *gp, BufferPlace place, int64_t *lower_bound)
{
    lifetimes(p, gp, place);
    BufferVec all = {0};
    for (int i = 0; i < p->nbuffers; i++) {
        if (is_transient(p->buffers[i], gp, place) && p->buffers[i]->first != INT_MAX) {
            vec_push(arena, &all, p->buffers[i]);
        }
    }
    if (all.n > 0) {
        qsort(all.at, (size_t)all.n, sizeof all.at[0], by_size);
    }
    int64_t end = 0;
    for (int i = 0; i < all.n; i++) {
        Buffer *b = all.at[i];
        b->offset = lowest_offset(b, all.at, i);
        int64_t to = b->offset + arena_aligned(b->bytes);
        end = to > end ? to : end;
    }
    for (int l = -1; l <= gp->nlaunches; l++) {
        int64_t live = live_bytes(all.at, all.n, l);
        *lower_bound = live > *lower_bound ? live : *lower_bound;
    }
    return end;
}
