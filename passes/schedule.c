/* schedule.c: clusters to launches, in levels; where the next value of a tensor may be written in place.
 *
 * A launch holds all calls whose inputs are ready: weight gradients run beside activation gradients, all sums of
 * squares in one region. A tensor that outlives the step is written in place by the cluster that computes its next
 * value; every other reader of the old value runs before (an order that fusion does not know, added here). */
#include "passes/schedule.h"

#include <string.h>

typedef struct SamePlace {
    const Fusion *f;
    const Cluster *c;
    const Node *arg;
    bool per_row, ok;
} SamePlace;

static bool same_place(void *ctx, Node *root, const Linear *at)
{
    SamePlace *s = ctx;
    Linear own;
    if (root == s->arg) {
        s->ok = s->ok && cluster_canonical(s->c, s->per_row, &own) &&
                linear_equal(at, &own, s->c->space.rank);
    }
    return true;
}

static bool reads(const Cluster *c, const Node *n)
{
    for (int i = 0; i < c->reads.n; i++) {
        if (c->reads.at[i] == n) {
            return true;
        }
    }
    return false;
}

/* The cluster itself reads the old value only where it writes the new one. */
static bool own_reads_fit(Fusion *f, Cluster *c, const Node *arg, bool per_row)
{
    SamePlace s = {f, c, arg, per_row, true};
    if (!reads(c, arg)) {
        return true;
    }
    if (c->kind != KERNEL_Map && c->kind != KERNEL_Contract && !per_row) {
        return false; /* elements of a row are read more than once */
    }
    for (int i = 0; i < c->nodes.n; i++) {
        Walk w = {.f = f, .in = c, .space = &c->space, .fn = same_place, .ctx = &s};
        bool walked = walk_cluster_node(&w, c, c->nodes.at[i]); /* which may clear s.ok */
        s.ok = s.ok && walked;
    }
    return s.ok;
}

bool schedule_in_place(Fusion *f, const Node *value, const Node *arg)
{
    Cluster *c = f->clusters.at[f->of[value->id]];
    if (arg == NULL) {
        return true;
    }
    if (c->copies || c->kind == KERNEL_Scatter) {
        return false;
    }
    if (!own_reads_fit(f, c, arg, f->per_row[value->id])) {
        return false;
    }
    const IntVec *readers = &f->readers[arg->id];
    for (int i = 0; i < readers->n; i++) {
        if (readers->at[i] != c->id && fuse_needs(f, readers->at[i], c->id)) {
            return false;
        }
    }
    for (int i = 0; i < readers->n; i++) {
        fuse_order(f, c, readers->at[i]);
    }
    return true;
}

static int level_of(const Fusion *f, int id, int *level)
{
    if (level[id] >= 0) {
        return level[id];
    }
    const Cluster *c = f->clusters.at[id];
    int at = 0;
    for (int i = 0; i < c->needs.n; i++) {
        int need = c->needs.at[i];
        int after = level_of(f, need, level) + cluster_levels(f->clusters.at[need]);
        at = after > at ? after : at;
    }
    return level[id] = at;
}

void schedule_launches(Arena *arena, const Fusion *f, const BuiltCalls *calls, GraphPlan *gp)
{
    int *level = ARENA_ARRAY(arena, int, f->clusters.n), last = -1;
    for (int i = 0; i < f->clusters.n; i++) {
        level[i] = -1;
    }
    int *at = ARENA_ARRAY(arena, int, calls->n);
    for (int i = 0; i < calls->n; i++) {
        at[i] = level_of(f, calls->at[i].cluster, level) + calls->at[i].level;
        last = at[i] > last ? at[i] : last;
    }
    Launch *launches = ARENA_ARRAY(arena, Launch, last + 1); /* by level; some may be empty */
    for (int i = 0; i < calls->n; i++) {
        launches[at[i]].ncalls++;
    }
    for (int l = 0; l <= last; l++) {
        launches[l].calls = ARENA_ARRAY(arena, KCall, launches[l].ncalls);
        launches[l].ncalls = 0;
    }
    for (int i = 0; i < calls->n; i++) {
        Launch *launch = &launches[at[i]];
        launch->calls[launch->ncalls++] = calls->at[i].call;
    }
    gp->launches = launches;
    for (int l = 0; l <= last; l++) {
        launches[gp->nlaunches] = launches[l];
        gp->nlaunches += launches[l].ncalls > 0;
    }
}
