/* memory.c: offsets of transient buffers by their lifetimes.
 *
 * Needs:   launches in order, buffers bound to calls.
 * Leaves:  first, last and offset of each transient buffer of the graph; no two that live at the same launch overlap.
 *          The graph's bytes, the least that any placing could take (the largest sum of live buffers), and when.
 *
 * Greedy, as in TFLite's planner: one buffer after the other, each at the lowest offset that is free during its life.
 * The largest come first; where that takes more than the bound, other orders are tried and the best is kept. */
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
static Buffer *own(const Plan *p, const Buffer *b)
{
    return p->buffers[b->id];
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
    for (int i = 0; i < gp->noutputs; i++) {
        if (gp->outputs[i]->place == place) {
            touch(own(p, gp->outputs[i]), gp->nlaunches);
        }
    }
}

/* ---- places ----------------------------------------------------------------------------------------- */

static int by_start(const void *x, const void *y)
{
    const Buffer *a = *(Buffer *const *)x, *b = *(Buffer *const *)y;
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : a->id - b->id;
}

static int by_size(const void *x, const void *y)
{
    const Buffer *a = *(Buffer *const *)x, *b = *(Buffer *const *)y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : by_start(x, y);
}

static int by_life(const void *x, const void *y)
{
    const Buffer *a = *(Buffer *const *)x, *b = *(Buffer *const *)y;
    int p = a->last - a->first, q = b->last - b->first;
    return p != q ? (p < q ? 1 : -1) : by_size(x, y);
}

/* Bytes times launches. */
static int by_area(const void *x, const void *y)
{
    const Buffer *a = *(Buffer *const *)x, *b = *(Buffer *const *)y;
    double p = (double)a->bytes * (a->last - a->first + 1);
    double q = (double)b->bytes * (b->last - b->first + 1);
    return p != q ? (p < q ? 1 : -1) : by_size(x, y);
}

static int (*const orders[])(const void *, const void *) = {by_size, by_area, by_life, by_start};
enum { ORDERS = sizeof orders / sizeof *orders };

static bool overlap_in_time(const Buffer *a, const Buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset at which b fits among n placed buffers, which are sorted by their offsets. */
static int64_t lowest_offset(const Buffer *b, Buffer *const *placed, int n)
{
    int64_t offset = 0, bytes = arena_aligned(b->bytes);
    for (int i = 0; i < n && placed[i]->offset < offset + bytes; i++) {
        int64_t end = placed[i]->offset + arena_aligned(placed[i]->bytes);
        if (end > offset && overlap_in_time(b, placed[i])) {
            offset = end;
        }
    }
    return offset;
}

static int after_offset(Buffer *const *placed, int n, int64_t offset)
{
    int low = 0;
    while (low < n) {
        int middle = (low + n) / 2;
        if (placed[middle]->offset <= offset) {
            low = middle + 1;
        } else {
            n = middle;
        }
    }
    return low;
}

/* Places all buffers in their order; returns the end of the last. */
static int64_t place(const BufferVec *all, Buffer **placed)
{
    int64_t end = 0;
    for (int i = 0; i < all->n; i++) {
        Buffer *b = all->at[i];
        b->offset = lowest_offset(b, placed, i);
        int at = after_offset(placed, i, b->offset);
        memmove(placed + at + 1, placed + at, (size_t)(i - at) * sizeof *placed);
        placed[at] = b;
        int64_t to = b->offset + arena_aligned(b->bytes);
        end = to > end ? to : end;
    }
    return end;
}

static int64_t place_best(Arena *arena, const BufferVec *all, int64_t bound)
{
    Buffer **placed = ARENA_ARRAY(arena, Buffer *, all->n);
    int64_t best = INT64_MAX, end = 0;
    int order = 0;
    for (int i = 0; i < ORDERS && best > bound && all->n > 0; i++) {
        qsort(all->at, (size_t)all->n, sizeof all->at[0], orders[i]);
        end = place(all, placed);
        order = end < best ? i : order;
        best = end < best ? end : best;
    }
    if (end > best) {
        qsort(all->at, (size_t)all->n, sizeof all->at[0], orders[order]);
        end = place(all, placed);
    }
    return end;
}

/* The largest sum of bytes that live at one launch, and that launch. Buffers may live from before the first (-1) to
 * behind the last. */
static void find_bound(Arena *arena, const BufferVec *all, GraphPlan *gp)
{
    int64_t *change = ARENA_ARRAY(arena, int64_t, gp->nlaunches + 3), live = 0;
    for (int i = 0; i < all->n; i++) {
        change[all->at[i]->first + 1] += arena_aligned(all->at[i]->bytes);
        change[all->at[i]->last + 2] -= arena_aligned(all->at[i]->bytes);
    }
    for (int l = -1; l <= gp->nlaunches; l++) {
        live += change[l + 1];
        if (live > gp->lower_bound) {
            gp->lower_bound = live;
            gp->fullest = l;
        }
    }
}

void memory_plan(Arena *arena, Plan *p, GraphPlan *gp, BufferPlace place)
{
    lifetimes(p, gp, place);
    BufferVec all = {0};
    for (int i = 0; i < p->nbuffers; i++) {
        if (is_transient(p->buffers[i], gp, place) && p->buffers[i]->first != INT_MAX) {
            vec_push(arena, &all, p->buffers[i]);
        }
    }
    find_bound(arena, &all, gp);
    gp->transient_bytes = place_best(arena, &all, gp->lower_bound);
}
