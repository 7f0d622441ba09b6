/* fuse.c: decides which nodes are computed together. See fuse.h for the three kinds of nodes.
 *
 * Needs:   a decomposed graph, sorted.
 * Leaves:  clusters without a cycle among them.
 *
 * Forward, in order: a contraction sets up a cluster; a reduction joins the cluster that computes or reads the same
 * rows, or sets up its own; a map joins the latest cluster of its operands that has its points (so it becomes the
 * epilogue of a contraction, part of a row kernel, or the tail of a sum), else sets up its own. Before that, backward:
 * what one other node alone needs is computed there, if that reads no more than it saves.
 *
 *   matmul -> add bias -> relu -> cast f16          one kernel (tests/passes/fuse-linear.ir)
 *   amax, sub, exp, sum, div and the loss's parts   one kernel (tests/passes/fuse-cross-entropy.ir)
 *
 * The idea of joining as late as a cycle allows is XLA's; that a reduction pulls its operands is Halide's. */
#include "passes/fuse.h"

#include <string.h>

#include "passes/conv_window.h"

/* Sums of more elements than this are split into partial sums that several threads take. */
enum { FULL_LIMIT = 16384 };

static bool is_reduction(const Node *n)
{
    return n->op == OP_sum || n->op == OP_mean || n->op == OP_amax || n->op == OP_amin;
}

static bool is_map(const Node *n)
{
    OpKind k = op_info[n->op].kind;
    return k == KIND_Map || k == KIND_Cast;
}

/* ---- what is virtual ----------------------------------------------------------------------------------- */

static bool narrows(const Node *cast)
{
    DType from = cast->in[0]->dtype, to = cast->dtype;
    return dtype_info[from].is_float && dtype_info[to].bytes < dtype_info[from].bytes;
}

static bool is_virtual(const Fusion *f, const Node *n)
{
    if (op_info[n->op].kind == KIND_Leaf || map_moves(n->op) || f->cheap[n->id] ||
        f->light[n->id] > 0 || f->sink[n->id] != NULL) {
        return true;
    }
    if (n->op != OP_cast) {
        return false;
    }
    const Node *x = n->in[0];
    while (map_moves(x->op) || (x->op == OP_cast && !narrows(x))) {
        x = x->in[0];
    }
    return !narrows(n) || x->op == OP_arg;
}

/* Comparisons, logic and casts of arguments, indices and constants. */
static bool made_of_arguments(const Fusion *f, const Node *n)
{
    if (n->op == OP_arg || n->op == OP_const || n->op == OP_iota) {
        return true;
    }
    bool cheap = op_is_predicate(n->op) || n->op == OP_not || n->op == OP_cast || map_moves(n->op);
    for (int i = 0; cheap && i < n->nin; i++) {
        cheap = f->cheap[n->in[i]->id] || n->in[i]->op == OP_arg;
    }
    return cheap;
}

static void find_cheap(Fusion *f)
{
    for (int i = 0; i < f->g->nnodes; i++) {
        Node *n = f->g->nodes[i];
        bool big = n->op == OP_arg && dtype_info[n->dtype].is_float;
        f->cheap[i] = n->op != OP_arg && made_of_arguments(f, n) && !big;
    }
}

static int64_t points(const Fusion *f, const Node *n)
{
    Dim count;
    return dims_count(&n->dims, &count) ? dim_bound(f->g, count) : INT64_MAX;
}

/* Behind moves and casts that widen. */
static const Node *narrow_source(const Node *n)
{
    while (map_moves(n->op) || (n->op == OP_cast && !narrows(n))) {
        n = n->in[0];
    }
    return n;
}

/* One step of f32 arithmetic from a value in a low type and what is much smaller, as x - mean of a norm: keeping the
 * result would take twice the memory of the value itself, reading it twice the traffic. A few such steps in a row are
 * as light. */
static void find_light(Fusion *f)
{
    enum { STEPS = 3, SMALL = 8 };
    for (int i = 0; i < f->g->nnodes; i++) {
        const Node *n = f->g->nodes[i];
        int big = 0, steps = 0;
        bool low = true;
        if (n->dtype != DT_f32 || (n->op != OP_add && n->op != OP_sub && n->op != OP_mul)) {
            continue;
        }
        for (int k = 0; k < n->nin; k++) {
            const Node *x = narrow_source(n->in[k]);
            if (points(f, x) < points(f, n) / SMALL) {
                continue;
            }
            big++;
            steps = f->light[x->id];
            low = dtype_is_low(x->dtype) || (steps > 0 && steps < STEPS);
        }
        f->light[i] = big == 1 && low ? (uint8_t)(steps + 1) : 0;
    }
}

typedef struct Users {
    IntVec *of; /* by node id */
    bool *result;
} Users;

static Users find_users(Fusion *f)
{
    Graph *g = f->g;
    Users u = {ARENA_ARRAY(f->arena, IntVec, g->nnodes), ARENA_ARRAY(f->arena, bool, g->nnodes)};
    for (int i = 0; i < g->nnodes; i++) {
        for (int k = 0; k < g->nodes[i]->nin; k++) {
            vec_push(f->arena, &u.of[g->nodes[i]->in[k]->id], i);
        }
    }
    for (int r = 0; r < g->nresults; r++) {
        u.result[g->results[r].value->id] = true;
    }
    return u;
}

/* Operands that some cluster has to compute first, and that are no smaller than what n makes of them. */
static int computed_operands(const Fusion *f, const Node *n)
{
    int count = 0;
    for (int i = 0; i < n->nin; i++) {
        const Node *x = n->in[i];
        while (map_moves(x->op) || x->op == OP_cast) {
            x = x->in[0];
        }
        bool given = op_info[x->op].kind == KIND_Leaf || f->cheap[x->id];
        count += !given && points(f, x) >= points(f, n);
    }
    return count;
}

static bool same_points(const Node *a, const Node *b)
{
    Dim na, nb;
    return dims_count(&a->dims, &na) && dims_count(&b->dims, &nb) && dim_equal(na, nb);
}

/* The one node into which n can be computed, at the end of every chain of users: a reduction, or a map of as many
 * points. NULL if there is none such. */
static Node *common_sink(const Fusion *f, const Users *u, const Node *n)
{
    Node *sink = NULL;
    const IntVec *users = &u->of[n->id];
    if (u->result[n->id] || users->n == 0) {
        return NULL;
    }
    for (int i = 0; i < users->n; i++) {
        Node *user = f->g->nodes[users->at[i]];
        Node *to = f->sink[user->id];
        bool map = is_map(user) && !is_virtual(f, user) && same_points(n, user);
        if (to == NULL && (is_reduction(user) || map || user->op == OP_interleave)) {
            to = user;
        }
        if (to == NULL || (sink != NULL && sink != to)) {
            return NULL;
        }
        sink = to;
    }
    return sink;
}

/* A reduction takes what reads no more than it writes; a map takes whatever it alone needs, but for a cast that
 * makes it read less. */
static void find_sinks(Fusion *f, const Users *u)
{
    for (int i = f->g->nnodes - 1; i >= 0; i--) {
        Node *n = f->g->nodes[i];
        if (!map_moves(n->op) && !is_map(n)) {
            continue;
        }
        Node *sink = common_sink(f, u, n);
        bool narrow = n->op == OP_cast && narrows(n);
        bool fits = sink != NULL && (map_moves(n->op) ||
                                     (is_reduction(sink) ? computed_operands(f, n) <= 1 : !narrow));
        f->sink[i] = fits ? sink : NULL;
    }
}

/* ---- joining ------------------------------------------------------------------------------------------- */

static bool has_bit(const BitVec *bits, int i)
{
    return i / 64 < bits->n && (bits->at[i / 64] >> (i % 64) & 1) != 0;
}

static void add_bits(Fusion *f, BitVec *bits, const BitVec *more)
{
    while (bits->n < more->n) {
        vec_push(f->arena, bits, 0);
    }
    for (int i = 0; i < more->n; i++) {
        bits->at[i] |= more->at[i];
    }
}

static void add_bit(Fusion *f, BitVec *bits, int i)
{
    while (bits->n <= i / 64) {
        vec_push(f->arena, bits, 0);
    }
    bits->at[i / 64] |= (uint64_t)1 << (i % 64);
}

bool fuse_needs(const Fusion *f, int from, int target)
{
    return from == target || has_bit(&f->clusters.at[from]->after, target);
}

typedef struct Gather {
    Fusion *f;
    const Cluster *c; /* NULL: none yet */
    NodeVec reads;
    NodeVec waits; /* what must be there first, without being read */
} Gather;

/* What an epilogue of a contraction counts or reads steps through N as through one axis. */
static bool in_line(void *ctx, Node *root, const Linear *at)
{
    const Cluster *c = ((const Gather *)ctx)->c;
    (void)root;
    return c->nn < 2 ||
           axes_in_line(&c->space, c->space.rank - 1 - c->nn, c->space.rank - 1, at->stride);
}

static bool gather_root(void *ctx, Node *root, const Linear *at)
{
    Gather *g = ctx;
    if (g->c != NULL && !in_line(ctx, root, at)) {
        return false;
    }
    if (g->c != NULL && g->f->of[root->id] == g->c->id) {
        Linear own;
        return cluster_canonical(g->c, g->f->per_row[root->id], &own) &&
               linear_equal(at, &own, g->c->space.rank);
    }
    for (int i = 0; i < g->reads.n; i++) {
        if (g->reads.at[i] == root) {
            return true;
        }
    }
    vec_push(g->f->arena, &g->reads, root);
    return true;
}

static Node *latest_operand(const Node *n)
{
    Node *latest = NULL;
    for (int i = 0; i < n->nin; i++) {
        latest = latest == NULL || n->in[i]->id > latest->id ? n->in[i] : latest;
    }
    return latest;
}

/* The real node behind what a recompute waits for; NULL: it is there from the start. What goes into a node that is not
 * placed yet, perhaps the one that reads the recompute, waits for its own operands. */
static Node *waits_for(const Fusion *f, const Node *recompute)
{
    Node *d = recompute->in[1];
    while (d != NULL && !f->is_real[d->id]) {
        const Node *sink = f->sink[d->id];
        d = sink != NULL && f->is_real[sink->id] ? f->sink[d->id] : latest_operand(d);
    }
    return d;
}

static void gather_wait(void *ctx, Node *recompute)
{
    Gather *g = ctx;
    Node *d = waits_for(g->f, recompute);
    if (d != NULL && (g->c == NULL || g->f->of[d->id] != g->c->id)) {
        vec_push(g->f->arena, &g->waits, d);
    }
}

void fuse_order(Fusion *f, Cluster *c, int id)
{
    for (int i = 0; i < c->needs.n; i++) {
        if (c->needs.at[i] == id) {
            return;
        }
    }
    if (id < 0 || id == c->id) {
        return;
    }
    vec_push(f->arena, &c->needs, id);
    if (has_bit(&c->after, id)) {
        return;
    }
    add_bits(f, &c->after, &f->clusters.at[id]->after);
    add_bit(f, &c->after, id);
    for (int i = 0; i < f->clusters.n; i++) {
        Cluster *user = f->clusters.at[i];
        if (has_bit(&user->after, c->id)) {
            add_bits(f, &user->after, &c->after);
        }
    }
}

static void add_reads(Fusion *f, Cluster *c, const Gather *g)
{
    for (int i = 0; i < g->waits.n; i++) {
        fuse_order(f, c, f->of[g->waits.at[i]->id]);
    }
    for (int i = 0; i < g->reads.n; i++) {
        Node *r = g->reads.at[i];
        bool known = false;
        for (int k = 0; k < c->reads.n; k++) {
            known = known || c->reads.at[k] == r;
        }
        if (!known) {
            vec_push(f->arena, &c->reads, r);
            fuse_order(f, c, f->of[r->id]);
        }
    }
}

static void add_node(Fusion *f, Cluster *c, Node *n, bool per_row, const Gather *g)
{
    vec_push(f->arena, &c->nodes, n);
    f->of[n->id] = c->id;
    f->is_real[n->id] = true;
    f->per_row[n->id] = per_row;
    add_reads(f, c, g);
}

static Cluster *new_cluster(Fusion *f, KernelKind kind, const Dims *space, int nreduce)
{
    Cluster *c = ARENA_NEW(f->arena, Cluster);
    c->id = f->clusters.n;
    c->kind = kind;
    c->space = *space;
    c->nreduce = nreduce;
    c->base = map_identity(space);
    vec_push(f->arena, &f->clusters, c);
    return c;
}

/* No cluster that is read may need c itself. */
static bool no_cycle(Fusion *f, const Cluster *c, const Gather *g)
{
    const NodeVec *lists[] = {&g->reads, &g->waits};
    for (int l = 0; l < 2; l++) {
        for (int i = 0; i < lists[l]->n; i++) {
            int from = f->of[lists[l]->at[i]->id];
            if (from >= 0 && fuse_needs(f, from, c->id)) {
                return false;
            }
        }
    }
    return true;
}

/* Adds n to c if c has its points, computes what it needs there, and no cycle comes of it. */
static bool join(Fusion *f, Cluster *c, Node *n)
{
    bool per_row;
    IndexMap map;
    if (c->copies || !cluster_map(f, c, &n->dims, &per_row, &map)) {
        return false;
    }
    Gather g = {.f = f, .c = c};
    Walk w = {.f = f,
              .space = &c->space,
              .fn = gather_root,
              .leaf = in_line,
              .after = gather_wait,
              .ctx = &g};
    if (!walk_operands(&w, n, &map) || !no_cycle(f, c, &g) ||
        (c->kind == KERNEL_Row && !fuse_in_line(f, c, n, per_row))) {
        return false;
    }
    add_node(f, c, n, per_row, &g);
    return true;
}

static void gather_more(Gather *g, const Gather *some)
{
    for (int i = 0; i < some->reads.n; i++) {
        vec_push(g->f->arena, &g->reads, some->reads.at[i]);
    }
    for (int i = 0; i < some->waits.n; i++) {
        vec_push(g->f->arena, &g->waits, some->waits.at[i]);
    }
}

static void make_real(Fusion *f, Node *n);

/* Walks until nothing is in the way: what no map can follow becomes real first. */
static Gather reads_of(Fusion *f, const Dims *space, Node *n, const IndexMap *map, bool operands)
{
    for (;;) {
        Gather g = {.f = f};
        Walk w = {.f = f, .space = space, .fn = gather_root, .after = gather_wait, .ctx = &g};
        if (operands ? walk_operands(&w, n, map) : walk_node(&w, n, map)) {
            return g;
        }
        if (w.blocked == NULL || fuse_is_root(f, NULL, w.blocked)) {
            ICE("%s: no index for this shape", op_info[n->op].name);
        }
        make_real(f, w.blocked);
    }
}

static void own_map_cluster(Fusion *f, Node *n)
{
    IndexMap id = map_identity(&n->dims);
    Gather reads = reads_of(f, &n->dims, n, &id, true);
    Cluster *c = new_cluster(f, KERNEL_Map, &n->dims, 0);
    add_node(f, c, n, false, &reads);
}

static void make_real(Fusion *f, Node *n)
{
    if (!fuse_is_root(f, NULL, n)) {
        own_map_cluster(f, n);
    }
}

/* Clusters that compute what n reads, the latest first. */
static IntVec candidates(Fusion *f, const Gather *g)
{
    IntVec ids = {0};
    for (int i = 0; i < g->reads.n; i++) {
        int id = f->of[g->reads.at[i]->id];
        if (id < 0) {
            continue;
        }
        vec_push(f->arena, &ids, id);
        for (int k = ids.n - 1; k > 0 && ids.at[k - 1] < ids.at[k]; k--) {
            int t = ids.at[k];
            ids.at[k] = ids.at[k - 1];
            ids.at[k - 1] = t;
        }
    }
    return ids;
}

static void place_map(Fusion *f, Node *n)
{
    IndexMap id = map_identity(&n->dims);
    Gather reads = reads_of(f, &n->dims, n, &id, true);
    IntVec ids = candidates(f, &reads);
    for (int i = 0; i < ids.n; i++) {
        if (join(f, f->clusters.at[ids.at[i]], n)) {
            return;
        }
    }
    own_map_cluster(f, n);
}

/* ---- reductions ---------------------------------------------------------------------------------------- */

typedef struct Reduction {
    KernelKind kind;
    Dims space;
    int nreduce;
    IndexMap map; /* from space to the operand */
} Reduction;

static Reduction classify(const Fusion *f, const Node *n)
{
    const Dims *x = &n->in[0]->dims;
    const Attr *axes = attrs_find(&n->attrs, ATTR_axes);
    bool reduced[MAX_RANK] = {false};
    for (int i = 0; i < (axes != NULL ? axes->ints.n : x->rank); i++) {
        reduced[axes != NULL ? axes->ints.v[i] : i] = true;
    }
    Reduction r = {.kind = KERNEL_Row, .map = {.rank = x->rank, .space_rank = x->rank}};
    bool in_order = true, all = true;
    for (int part = 0; part < 2; part++) { /* kept axes, then reduced ones */
        for (int d = 0; d < x->rank; d++) {
            if (reduced[d] != (part == 1)) {
                continue;
            }
            r.nreduce += part;
            in_order = in_order && r.space.rank == d;
            all = all && (part == 1 || dim_is_one(x->d[d]));
            r.map.m[d][r.space.rank] = dim_of(dim_is_one(x->d[d]) ? 0 : 1);
            r.space.d[r.space.rank++] = x->d[d];
        }
    }
    Dim count = dim_of(1);
    if (!dims_count(x, &count)) {
        ICE("%s: too many symbolic dimensions", op_info[n->op].name);
    }
    if (!in_order) {
        r.kind = KERNEL_Col;
    } else if (all && dim_bound(f->g, count) > FULL_LIMIT) {
        r.kind = KERNEL_Full;
    }
    return r;
}

static bool join_rows(Fusion *f, Cluster *c, Node *n, const Reduction *r)
{
    bool rows = c->kind == KERNEL_Map || (c->kind == KERNEL_Row && c->nreduce == r->nreduce);
    if (c->copies || !rows || !dims_equal(&c->space, &r->space)) {
        return false;
    }
    Gather g = {.f = f, .c = c};
    Walk w = {.f = f, .space = &c->space, .fn = gather_root, .after = gather_wait, .ctx = &g};
    if (!walk_node(&w, n->in[0], &r->map) || !no_cycle(f, c, &g)) {
        return false;
    }
    Cluster row = *c;
    row.kind = KERNEL_Row;
    row.nreduce = r->nreduce;
    if (!fuse_in_line(f, &row, n, true)) {
        return false;
    }
    c->kind = row.kind;
    c->nreduce = row.nreduce;
    add_node(f, c, n, true, &g);
    return true;
}

static bool waits_already(const Fusion *f, const Cluster *c, const Node *n)
{
    bool waits = f->of[n->id] < 0;
    for (int i = 0; i < c->needs.n; i++) {
        waits = waits || c->needs.at[i] == f->of[n->id];
    }
    return waits;
}

/* c reads some of what is wanted, and would wait for nothing that it does not wait for already. */
static bool is_sibling(const Fusion *f, const Cluster *c, const Gather *g)
{
    const NodeVec *reads = &g->reads;
    bool shared = false;
    for (int i = 0; i < g->waits.n; i++) {
        if (!waits_already(f, c, g->waits.at[i])) {
            return false;
        }
    }
    for (int i = 0; i < reads->n; i++) {
        if (!waits_already(f, c, reads->at[i])) {
            return false;
        }
        for (int k = 0; k < c->reads.n; k++) {
            shared = shared || c->reads.at[k] == reads->at[i];
        }
    }
    return shared;
}

static void place_reduction(Fusion *f, Node *n)
{
    Reduction r = classify(f, n);
    Gather reads = reads_of(f, &r.space, n->in[0], &r.map, false);
    if (r.kind == KERNEL_Row) {
        IntVec ids = candidates(f, &reads);
        for (int i = 0; i < ids.n; i++) {
            if (join_rows(f, f->clusters.at[ids.at[i]], n, &r)) {
                return;
            }
        }
        for (int i = f->clusters.n - 1; i >= 0; i--) {
            Cluster *c = f->clusters.at[i];
            if (c->kind == KERNEL_Row && is_sibling(f, c, &reads) && join_rows(f, c, n, &r)) {
                return;
            }
        }
    }
    Cluster *c = new_cluster(f, r.kind, &r.space, r.nreduce);
    c->base = r.map;
    add_node(f, c, n, true, &reads);
}

/* ---- the others ---------------------------------------------------------------------------------------- */

static void place_convolution(Fusion *f, Node *n)
{
    ConvSpace s = conv_space(n);
    Gather reads = {.f = f};
    for (int i = 0; i < 2; i++) {
        Node *x = conv_operand(f, NULL, n, i);
        for (Node *over = n->in[i]; over != x; over = over->in[0]) {
            if (over->op == OP_recompute) {
                gather_wait(&reads, over);
            }
        }
        make_real(f, x);
        vec_push(f->arena, &reads.reads, x);
    }
    Cluster *c = new_cluster(f, KERNEL_Contract, &s.space, 1);
    c->nn = s.nn;
    add_node(f, c, n, true, &reads);
}

static void place_contraction(Fusion *f, Node *n)
{
    if (is_convolution(n)) {
        place_convolution(f, n);
        return;
    }
    const Dims *x = &n->in[0]->dims;
    bool trans = attrs_bool(&n->attrs, ATTR_trans_a);
    Dims space = n->dims;
    space.d[space.rank++] = x->d[trans ? x->rank - 2 : x->rank - 1];
    Cluster shape = {.space = space};
    IndexMap maps[2];
    contract_maps(&shape, n, &maps[0], &maps[1]);
    Gather reads = {.f = f};
    for (int s = 0; s < 2; s++) {
        Gather some = reads_of(f, &space, n->in[s], &maps[s], false);
        gather_more(&reads, &some);
    }
    Cluster *c = new_cluster(f, KERNEL_Contract, &space, 1);
    c->nn = 1;
    add_node(f, c, n, true, &reads);
}

static void place_scatter(Fusion *f, Node *n)
{
    Gather reads = {.f = f};
    for (int i = 0; i < n->nin; i++) {
        make_real(f, n->in[i]);
        vec_push(f->arena, &reads.reads, n->in[i]);
    }
    Cluster *c = new_cluster(f, KERNEL_Scatter, &n->dims, 0);
    add_node(f, c, n, false, &reads);
}

/* A kernel over the points of the parts, which computes all of them. */
static void place_interleave(Fusion *f, Node *n)
{
    const Dims *part = &n->in[0]->dims;
    IndexMap id = map_identity(part);
    Gather reads = {.f = f};
    for (int i = 0; i < n->nin; i++) {
        Gather some = reads_of(f, part, n->in[i], &id, false);
        gather_more(&reads, &some);
    }
    Cluster *c = new_cluster(f, KERNEL_Map, part, 0);
    c->copies = true;
    add_node(f, c, n, false, &reads);
}

/* pad and concat: a kernel for each part. */
static void place_copies(Fusion *f, Node *n)
{
    Gather reads = {.f = f};
    for (int i = 0; i < n->nin; i++) {
        IndexMap id = map_identity(&n->in[i]->dims);
        Gather some = reads_of(f, &n->in[i]->dims, n->in[i], &id, false);
        gather_more(&reads, &some);
    }
    Cluster *c = new_cluster(f, KERNEL_Map, &n->dims, 0);
    c->copies = true;
    add_node(f, c, n, false, &reads);
}

static void place(Fusion *f, Node *n)
{
    if (n->op == OP_arg || f->of[n->id] >= 0 || is_virtual(f, n)) {
        return;
    }
    switch (op_info[n->op].kind) {
    case KIND_Contract: place_contraction(f, n); return;
    case KIND_Reduce: place_reduction(f, n); return;
    case KIND_Scatter: place_scatter(f, n); return;
    case KIND_Move: (n->op == OP_interleave ? place_interleave : place_copies)(f, n); return;
    case KIND_Map:
    case KIND_Cast:
    case KIND_Gather: place_map(f, n); return;
    default: ICE("%s has no kernel", op_info[n->op].name);
    }
}

/* A result that is an argument (of something else) gets a copy of its own. */
static void copy_results(Graph *g)
{
    for (int r = 0; r < g->nresults; r++) {
        Node *x = g->results[r].value;
        const char *state = attrs_str(&x->attrs, ATTR_state);
        const char *param = attrs_str(&x->attrs, ATTR_param);
        const char *own = state != NULL ? state : param;
        bool same = g->results[r].kind == RESULT_State && own != NULL &&
                    strcmp(own, g->results[r].name) == 0;
        bool shared = false;
        for (int k = 0; k < r; k++) {
            shared = shared || g->results[k].value == x;
        }
        if ((x->op == OP_arg && !same) || (shared && x->op != OP_arg)) {
            Builder b = {.graph = g, .loc = x->loc, .name = x->name, .why = x->why};
            g->results[r].value = build1(&b, OP_detach, x);
        }
    }
    graph_renumber(g);
}

Fusion *fuse_graph(Arena *arena, Graph *g)
{
    copy_results(g);
    Fusion *f = ARENA_NEW(arena, Fusion);
    f->g = g;
    f->arena = arena;
    f->of = ARENA_ARRAY(arena, int, g->nnodes);
    f->is_real = ARENA_ARRAY(arena, bool, g->nnodes);
    f->per_row = ARENA_ARRAY(arena, bool, g->nnodes);
    f->cheap = ARENA_ARRAY(arena, bool, g->nnodes);
    f->light = ARENA_ARRAY(arena, uint8_t, g->nnodes);
    f->sink = ARENA_ARRAY(arena, Node *, g->nnodes);
    for (int i = 0; i < g->nnodes; i++) {
        f->of[i] = -1;
    }
    find_cheap(f);
    find_light(f);
    Users users = find_users(f);
    find_sinks(f, &users);
    for (int i = 0; i < g->nnodes; i++) {
        Node *n = g->nodes[i];
        place(f, n);
        if (users.result[i] && n->op != OP_arg) {
            make_real(f, n);
        }
    }
    f->readers = ARENA_ARRAY(arena, IntVec, g->nnodes);
    for (int i = 0; i < f->clusters.n; i++) {
        const NodeVec *reads = &f->clusters.at[i]->reads;
        for (int k = 0; k < reads->n; k++) {
            vec_push(arena, &f->readers[reads->at[k]->id], i);
        }
    }
    return f;
}
