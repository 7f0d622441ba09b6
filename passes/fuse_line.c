/* fuse_line.c: rows of several axes that a kernel passes more than once.
 *
 * A Row kernel reduces one axis. A row of several axes (a norm over the last two) becomes one axis when everything
 * in the kernel steps through it in a straight line (kernel_shape.c); else the kernel is a column reduction, which
 * passes each element once: it can neither store elements nor reduce what depends on a reduction. So what would
 * need a straight line and breaks it does not join.
 *
 *   sum over (i, j) of x[i, j] * y[j], and x * y stored       y[j] breaks the line: two kernels */
#include "passes/fuse.h"

typedef struct Line {
    const Cluster *c;
    bool straight; /* so far */
    bool again;    /* a reduction of what depends on a reduction */
    const Fusion *f;
} Line;

bool axes_in_line(const Dims *space, int from, int to, const Dim *stride)
{
    int outer = -1;
    for (int i = from; i < to; i++) {
        Dim whole;
        if (dim_is_one(space->d[i])) {
            continue;
        }
        if (outer >= 0 &&
            (!dim_mul(stride[i], space->d[i], &whole) || !dim_equal(whole, stride[outer]))) {
            return false;
        }
        outer = i;
    }
    return true;
}

static bool is_straight(const Cluster *c, const Dim *stride)
{
    return axes_in_line(&c->space, c->space.rank - c->nreduce, c->space.rank, stride);
}

static bool look(void *ctx, Node *root, const Linear *at)
{
    Line *l = ctx;
    l->straight = l->straight && is_straight(l->c, at->stride);
    l->again = l->again || (l->f->of[root->id] == l->c->id && l->f->per_row[root->id]);
    return true;
}

/* Walks what n reads; `again` stays as it was where n is no reduction. */
static void look_at(Line *l, Node *n, const IndexMap *map)
{
    bool reduces = op_info[n->op].kind == KIND_Reduce, before = l->again;
    bool joined = l->f->of[n->id] == l->c->id;
    Walk w = {.f = l->f, .space = &l->c->space, .fn = look, .leaf = look, .ctx = l};
    w.in = joined ? l->c : NULL;
    if (!(reduces ? walk_node(&w, n->in[0], map) : walk_operands(&w, n, map))) {
        l->straight = false;
    }
    l->again = reduces ? l->again : before;
}

static void look_at_node(Line *l, Node *n)
{
    IndexMap map;
    bool per_row;
    bool fits = op_info[n->op].kind == KIND_Reduce
                    ? reduction_map(l->f, l->c, n, &map)
                    : cluster_map(l->f, l->c, &n->dims, &per_row, &map);
    if (!fits) {
        l->straight = false;
        return;
    }
    look_at(l, n, &map);
}

bool fuse_in_line(const Fusion *f, const Cluster *c, Node *n, bool per_row)
{
    if (c->nreduce < 2) {
        return true;
    }
    Line l = {.c = c, .straight = true, .f = f};
    bool elements = !per_row;
    for (int i = 0; i < c->nodes.n; i++) {
        elements = elements || !f->per_row[c->nodes.at[i]->id];
        look_at_node(&l, c->nodes.at[i]);
    }
    look_at_node(&l, n);
    return l.straight || !(elements || l.again);
}
