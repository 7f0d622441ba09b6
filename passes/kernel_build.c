/* kernel_build.c: evaluates a cluster's nodes at a point of its space and writes the result down as scalars.
 *
 * Needs:   buffers of everything the cluster reads and of everything that others need of it.
 * Leaves:  kernels with loads, scalar ops and outputs; the calls that bind them to buffers.
 *
 * What is virtual is evaluated wherever it is used; equal scalars are made once a kernel. */
#include "passes/kernel_build.h"

#include <limits.h>
#include <string.h>

typedef VEC(const Buffer *) BufferVec;
typedef VEC(Scalar) ScalarVec;
typedef VEC(KOutput) OutputVec;

/* A kernel in the making. */
typedef struct Body {
    GraphBuild *b;
    Cluster *c;
    Dims space;
    int nreduce;
    BufferVec operands;
    bool written[64];
    ScalarVec scalars;
    OutputVec outputs;
    int *of; /* by node id: the scalar of a real node of this cluster, -1 */
} Body;

enum { MAX_OPERANDS = 64 };

static int eval(Body *y, Node *n, const IndexMap *map);

static int operand_of(Body *y, const Buffer *buffer)
{
    for (int i = 0; i < y->operands.n; i++) {
        if (y->operands.at[i] == buffer) {
            return i;
        }
    }
    if (y->operands.n == MAX_OPERANDS) {
        ICE("a kernel of more than %d operands", MAX_OPERANDS);
    }
    vec_push(y->b->f->arena, &y->operands, buffer);
    return y->operands.n - 1;
}

static bool access_equal(const Access *a, const Access *b)
{
    bool same = a->operand == b->operand && dim_equal(a->offset, b->offset) &&
                a->index == b->index && dim_equal(a->index_stride, b->index_stride);
    for (int i = 0; same && i < MAX_RANK; i++) {
        same = dim_equal(a->stride[i], b->stride[i]);
    }
    return same;
}

static bool scalar_equal(const Scalar *a, const Scalar *b)
{
    bool same = a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->nin == b->nin &&
                memcmp(&a->value, &b->value, sizeof a->value) == 0 && dim_equal(a->dim, b->dim) &&
                a->path == b->path && a->per_row == b->per_row && access_equal(&a->at, &b->at);
    for (int i = 0; same && i < a->nin; i++) {
        same = a->in[i] == b->in[i];
    }
    return same;
}

static int add_scalar(Body *y, Scalar s)
{
    for (int i = 0; i < y->scalars.n; i++) {
        if (scalar_equal(&y->scalars.at[i], &s)) {
            return i;
        }
    }
    vec_push(y->b->f->arena, &y->scalars, s);
    return y->scalars.n - 1;
}

/* Nothing along the reduced axes. */
static bool row_constant(const Body *y, const Dim *stride)
{
    for (int i = y->space.rank - y->nreduce; i < y->space.rank; i++) {
        if (stride[i].k != 0) {
            return false;
        }
    }
    return y->nreduce > 0;
}

static Scalar scalar_of(const Node *n, ScalarKind kind)
{
    return (Scalar){.kind = kind,
                    .dtype = n->dtype,
                    .op = n->op,
                    .at = {.operand = -1, .index = -1},
                    .name = n->name,
                    .why = n->why,
                    .loc = n->loc};
}

static int load(Body *y, const Node *root, const Linear *at)
{
    Buffer *buffer = y->b->buffer[root->id];
    if (buffer == NULL) {
        ICE("%%%d (%s) is read but not in memory", root->id, op_info[root->op].name);
    }
    Scalar s = scalar_of(root, SC_load);
    s.op = OP_arg;
    s.at.operand = operand_of(y, buffer);
    s.at.offset = at->offset;
    memcpy(s.at.stride, at->stride, sizeof s.at.stride);
    s.per_row = row_constant(y, at->stride);
    return add_scalar(y, s);
}

static int eval_root(Body *y, Node *n, const Linear *at)
{
    if (y->of[n->id] >= 0) {
        return y->of[n->id];
    }
    return load(y, n, at);
}

static Linear linear_of(const Node *n, const IndexMap *map, const Dims *dims)
{
    Linear at;
    if (!map_linear(map, dims, &at)) {
        ICE("%s: no index for this shape", op_info[n->op].name);
    }
    return at;
}

static int eval_leaf(Body *y, Node *n, const IndexMap *map)
{
    if (n->op == OP_const) {
        Scalar s = scalar_of(n, SC_const);
        s.value = attrs_float(&n->attrs, ATTR_value, 0);
        s.name = NULL;
        s.per_row = y->nreduce > 0;
        return add_scalar(y, s);
    }
    bool random = n->op == OP_uniform;
    Scalar s = scalar_of(n, random ? SC_uniform : SC_index);
    Linear at;
    if (!leaf_linear(n, map, &at)) {
        ICE("%s: no index for this shape", op_info[n->op].name);
    }
    if (random) {
        IndexMap keys = random_key_map(map);
        s.in[s.nin++] = eval(y, n->in[0], &keys);
        s.path = attrs_str(&n->attrs, ATTR_path);
    }
    s.at.offset = at.offset;
    memcpy(s.at.stride, at.stride, sizeof s.at.stride);
    s.per_row = row_constant(y, at.stride) && (!random || y->scalars.at[s.in[0]].per_row);
    return add_scalar(y, s);
}

static int eval_embedding(Body *y, Node *n, const IndexMap *map)
{
    IndexMap indices, row;
    gather_maps(n, map, &indices, &row);
    int index = eval(y, n->in[1], &indices);
    Linear at = linear_of(n, &row, &n->in[0]->dims);
    Scalar s = scalar_of(n, SC_load);
    s.op = OP_arg;
    s.at.operand = operand_of(y, y->b->buffer[n->in[0]->id]);
    s.at.offset = at.offset;
    memcpy(s.at.stride, at.stride, sizeof s.at.stride);
    s.at.index = index;
    s.at.index_stride = n->in[0]->dims.d[1];
    s.per_row = row_constant(y, at.stride) && y->scalars.at[index].per_row;
    return add_scalar(y, s);
}

static int eval_map(Body *y, Node *n, const IndexMap *map)
{
    Scalar s = scalar_of(n, n->op == OP_cast ? SC_cast : SC_op);
    s.per_row = y->nreduce > 0;
    for (int i = 0; i < n->nin; i++) {
        IndexMap in = map_operand(&n->dims, &n->in[i]->dims, map);
        s.in[s.nin++] = eval(y, n->in[i], &in);
    }
    for (int i = 0; i < s.nin; i++) {
        s.per_row = s.per_row && y->scalars.at[s.in[i]].per_row;
    }
    if (n->op == OP_cast && y->scalars.at[s.in[0]].dtype == n->dtype) {
        return s.in[0];
    }
    return add_scalar(y, s);
}

static int eval_move(Body *y, Node *n, const IndexMap *map)
{
    Node *x = n->in[0];
    if (n->op == OP_reshape && fuse_is_root(y->b->f, x)) {
        Linear at = linear_of(n, map, &n->dims);
        return eval_root(y, x, &at);
    }
    IndexMap in;
    if (!map_move(y->b->f->g, &y->space, n, map, &in)) {
        ICE("%s cannot be followed", op_info[n->op].name);
    }
    return eval(y, x, &in);
}

/* What a node is computed from, at the points of `map`. */
static int eval_operation(Body *y, Node *n, const IndexMap *map)
{
    if (map_moves(n->op)) {
        return eval_move(y, n, map);
    }
    switch (op_info[n->op].kind) {
    case KIND_Leaf: return eval_leaf(y, n, map);
    case KIND_Gather: return eval_embedding(y, n, map);
    case KIND_Map:
    case KIND_Cast: return eval_map(y, n, map);
    default: ICE("%s is no scalar expression", op_info[n->op].name);
    }
}

static int eval(Body *y, Node *n, const IndexMap *map)
{
    if (fuse_is_root(y->b->f, n)) {
        Linear at = linear_of(n, map, &n->dims);
        return eval_root(y, n, &at);
    }
    return eval_operation(y, n, map);
}

/* ---- whole clusters ------------------------------------------------------------------------------------ */

static Body body_new(GraphBuild *b, Cluster *c, const Dims *space, int nreduce)
{
    Body y = {.b = b, .c = c, .space = *space, .nreduce = nreduce};
    y.of = ARENA_ARRAY(b->f->arena, int, b->f->g->nnodes);
    for (int i = 0; i < b->f->g->nnodes; i++) {
        y.of[i] = -1;
    }
    return y;
}

static void output(Body *y, int scalar, const Buffer *buffer, const Linear *at)
{
    KOutput o = {.scalar = scalar, .at = {.operand = operand_of(y, buffer), .index = -1}};
    o.at.offset = at->offset;
    memcpy(o.at.stride, at->stride, sizeof o.at.stride);
    y->written[o.at.operand] = true;
    vec_push(y->b->f->arena, &y->outputs, o);
}

static void output_node(Body *y, Node *n)
{
    Buffer *buffer = y->b->buffer[n->id];
    Linear at;
    if (buffer != NULL && cluster_canonical(y->c, y->b->f->per_row[n->id], &at)) {
        output(y, y->of[n->id], buffer, &at);
    }
}

static int eval_reduction(Body *y, Node *n)
{
    IndexMap map;
    if (!reduction_map(y->b->f, y->c, n, &map)) {
        ICE("a row reduction of another shape");
    }
    Scalar s = scalar_of(n, SC_reduce);
    s.nin = 1;
    s.in[0] = eval(y, n->in[0], &map);
    s.per_row = true;
    return add_scalar(y, s);
}

static int eval_contraction(Body *y, Node *n, Kernel *k)
{
    IndexMap a, b;
    contract_maps(y->c, n, &a, &b);
    k->a = eval(y, n->in[0], &a);
    k->b = eval(y, n->in[1], &b);
    Scalar acc = scalar_of(n, SC_acc);
    acc.dtype = n->dtype == DT_f64 ? DT_f64 : DT_f32;
    acc.per_row = true;
    int at = add_scalar(y, acc);
    if (n->dtype == acc.dtype) {
        return at;
    }
    Scalar s = scalar_of(n, SC_cast);
    s.op = OP_cast;
    s.nin = 1;
    s.in[0] = at;
    s.per_row = true;
    return add_scalar(y, s);
}

static void eval_node(Body *y, Node *n, Kernel *k)
{
    OpKind kind = op_info[n->op].kind;
    if (kind == KIND_Contract) {
        y->of[n->id] = eval_contraction(y, n, k);
        return;
    }
    if (kind == KIND_Reduce) {
        y->of[n->id] = eval_reduction(y, n);
        return;
    }
    bool per_row;
    IndexMap map;
    if (!cluster_map(y->b->f, y->c, &n->dims, &per_row, &map)) {
        ICE("%s does not fit its cluster", op_info[n->op].name);
    }
    y->of[n->id] = eval_operation(y, n, &map);
}

/* ---- kernels and calls --------------------------------------------------------------------------------- */

/* "fc1: matmul, add, cast, relu": what the cluster computes, for readers. */
static const char *describe(Arena *arena, const Cluster *c)
{
    const char *name = NULL, *ops = "";
    for (int i = 0; i < c->nodes.n; i++) {
        const Node *n = c->nodes.at[i];
        name = name == NULL ? n->name : name;
        ops = i < 6 ? arena_printf(arena, "%s%s%s", ops, i > 0 ? ", " : "", op_info[n->op].name)
                    : ops;
    }
    if (c->nodes.n > 6) {
        ops = arena_printf(arena, "%s, ...", ops);
    }
    return name != NULL ? arena_printf(arena, "%s: %s", name, ops) : ops;
}

static bool is_update(const Cluster *c)
{
    for (int i = 0; i < c->nodes.n; i++) {
        const char *why = c->nodes.at[i]->why;
        if (why == NULL || strncmp(why, WHY_UPDATE, strlen(WHY_UPDATE)) != 0) {
            return false;
        }
    }
    return true;
}

static const char *kernel_name(GraphBuild *b, const Cluster *c, const Kernel *k, const char *part)
{
    Arena *arena = b->f->arena;
    const char *name = NULL, *op = NULL, *tail = "";
    for (int i = 0; i < c->nodes.n; i++) {
        const Node *n = c->nodes.at[i];
        bool plain = op_info[n->op].kind == KIND_Map && op_info[n->op].nin == 1;
        name = name == NULL ? n->name : name;
        tail = i > 0 && plain && *tail == '\0' ? arena_printf(arena, "_%s", op_info[n->op].name)
                                               : tail;
        op = op == NULL ? op_info[n->op].name : op;
    }
    if (k->any_size && is_update(c)) {
        name = "update";
        op = "";
    }
    bool gradient = name != NULL && strstr(name, "grad") != NULL;
    const char *text = name == NULL              ? arena_printf(arena, "%s%s", op, tail)
                       : gradient || *op == '\0' ? name
                                                 : arena_printf(arena, "%s_%s%s", name, op, tail);
    return arena_printf(arena, "%s%s", text, part);
}

static Kernel *finish(Body *y, Kernel *k)
{
    Arena *arena = y->b->plan->arena;
    k->space = y->space;
    k->nreduce = y->nreduce;
    k->noperands = y->operands.n;
    k->operands = ARENA_ARRAY(arena, KOperand, y->operands.n);
    for (int i = 0; i < y->operands.n; i++) {
        const Buffer *buffer = y->operands.at[i];
        k->operands[i] = (KOperand){buffer->name, buffer->dtype, y->written[i]};
    }
    k->nscalars = y->scalars.n;
    k->scalars = arena_copy(arena, y->scalars.at, (size_t)y->scalars.n * sizeof(Scalar));
    k->noutputs = y->outputs.n;
    k->outputs = arena_copy(arena, y->outputs.at, (size_t)y->outputs.n * sizeof(KOutput));
    k->what = describe(arena, y->c);
    const Node *first = y->c->nodes.at[0];
    k->why = first->why;
    k->loc = first->loc;
    k->first_line = first->loc.line;
    return k;
}

/* skip of where(skip, what the output holds now, new), -1 if the output is nothing of the kind. A working copy holds
 * the cast of its master, so a cast of the master's where() will do. */
static int guard_of(const Body *y, const Kernel *k, const KOutput *o)
{
    const Scalar *s = &k->scalars[o->scalar];
    bool copy = s->kind == SC_cast && y->operands.at[o->at.operand]->role == BUFFER_working;
    s = copy ? &k->scalars[s->in[0]] : s;
    if (s->kind != SC_op || s->op != OP_where) {
        return -1;
    }
    const Scalar *skip = &k->scalars[s->in[0]], *old = &k->scalars[s->in[1]];
    bool scalar = skip->kind == SC_load && skip->at.offset.k == 0 && skip->at.index < 0;
    for (int d = 0; scalar && d < k->space.rank; d++) {
        scalar = skip->at.stride[d].k == 0;
    }
    Access there = o->at;
    there.operand = copy ? old->at.operand : there.operand;
    bool master = !copy || k->operands[old->at.operand].written;
    return scalar && master && old->kind == SC_load && access_equal(&old->at, &there) ? s->in[0]
                                                                                      : -1;
}

/* Every output keeps what is there when a flag is set: the kernel may return at once, and need not select. */
static void find_guard(const Body *y, Kernel *k)
{
    int guard = -1;
    for (int i = 0; i < k->noutputs; i++) {
        int g = k->kind == KERNEL_Map ? guard_of(y, k, &k->outputs[i]) : -1;
        if (g < 0 || (guard >= 0 && guard != g)) {
            return;
        }
        guard = g;
    }
    k->guard = guard;
    Scalar *all = ARENA_ARRAY(y->b->plan->arena, Scalar, k->nscalars + k->noutputs);
    memcpy(all, k->scalars, (size_t)k->nscalars * sizeof *all);
    k->scalars = all;
    for (int i = 0; i < k->noutputs; i++) {
        Scalar *s = &all[k->outputs[i].scalar];
        if (s->kind != SC_cast) {
            k->outputs[i].scalar = s->in[2];
            continue;
        }
        Scalar cast = *s;
        cast.in[0] = all[s->in[0]].in[2];
        k->outputs[i].scalar = k->nscalars;
        all[k->nscalars++] = cast;
    }
}

/* Scalars that no output, guard or operand needs are dropped; order stays. */
static void drop_dead(Kernel *k)
{
    bool live[4096] = {false};
    if (k->nscalars > 4096) {
        ICE("a kernel of %d scalars", k->nscalars);
    }
    for (int i = 0; i < k->noutputs; i++) {
        live[k->outputs[i].scalar] = true;
    }
    int extra[3] = {k->guard, k->kind == KERNEL_Contract ? k->a : -1,
                    k->kind == KERNEL_Contract ? k->b : -1};
    for (int i = 0; i < 3; i++) {
        if (extra[i] >= 0) {
            live[extra[i]] = true;
        }
    }
    int to[4096], n = 0;
    for (int i = k->nscalars - 1; i >= 0; i--) {
        Scalar *s = &k->scalars[i];
        for (int j = 0; live[i] && j < s->nin; j++) {
            live[s->in[j]] = true;
        }
        if (live[i] && s->at.index >= 0) {
            live[s->at.index] = true;
        }
    }
    for (int i = 0; i < k->nscalars; i++) {
        if (!live[i]) {
            continue;
        }
        Scalar s = k->scalars[i];
        for (int j = 0; j < s.nin; j++) {
            s.in[j] = to[s.in[j]];
        }
        s.at.index = s.at.index >= 0 ? to[s.at.index] : -1;
        to[i] = n;
        k->scalars[n++] = s;
    }
    k->nscalars = n;
    for (int i = 0; i < k->noutputs; i++) {
        k->outputs[i].scalar = to[k->outputs[i].scalar];
    }
    k->guard = k->guard >= 0 ? to[k->guard] : -1;
    if (k->kind == KERNEL_Contract) {
        k->a = to[k->a];
        k->b = to[k->b];
    }
}

static const Kernel *add_kernel(Plan *p, Kernel *k, const char *name)
{
    k->name = plan_identifier(p, name);
    k->id = p->nkernels;
    p->kernels = vec_room(p->arena, p->kernels, p->nkernels, &p->kcap, sizeof p->kernels[0]);
    p->kernels[p->nkernels++] = k;
    return k;
}

/* The kernel as it is spelled: an equal one that exists already, or this one. */
static const Kernel *unique(GraphBuild *b, const Cluster *c, Kernel *k, const char *part)
{
    Plan *p = b->plan;
    for (int i = 0; i < p->nkernels; i++) {
        if (kernel_equal(p->kernels[i], k)) {
            return p->kernels[i];
        }
    }
    return add_kernel(p, k, kernel_name(b, c, k, part));
}

static void call(Body *y, Kernel *k, BuiltCalls *out, int level, const char *part)
{
    GraphBuild *b = y->b;
    find_guard(y, k);
    drop_dead(k);
    kernel_coalesce(k);
    kernel_cost(b->f->g, k);
    BuiltCall built = {.cluster = y->c->id, .level = level};
    built.call.space = k->space;
    built.call.buffers =
        arena_copy(b->plan->arena, y->operands.at, (size_t)y->operands.n * sizeof(const Buffer *));
    built.call.what = k->what;
    built.call.loc = k->loc;
    built.call.kernel = unique(b, y->c, k, part);
    vec_push(b->f->arena, out, built);
}

static Kernel *kernel_new(GraphBuild *b, KernelKind kind)
{
    Kernel *k = ARENA_NEW(b->plan->arena, Kernel);
    k->kind = kind;
    k->guard = k->a = k->b = k->packed_a = k->packed_b = -1;
    return k;
}

static Buffer *scratch(GraphBuild *b, const char *name, const char *what, DType dt, int64_t n)
{
    Dims dims = {.rank = 1, .d = {dim_of(n)}};
    Buffer *s = plan_buffer(b->plan, name, b->f->g, b->place, BUFFER_scratch, dt, &dims);
    s->what = what;
    return s;
}

/* Panels of both operands. */
static void add_packed(Body *y, Kernel *k)
{
    GraphBuild *b = y->b;
    const Dims *s = &y->space;
    int64_t m = dim_bound(b->f->g, s->d[s->rank - 3]), n = dim_bound(b->f->g, s->d[s->rank - 2]);
    int64_t depth = dim_bound(b->f->g, s->d[s->rank - 1]), batches = 1;
    for (int i = 0; i < s->rank - 3; i++) {
        batches *= dim_bound(b->f->g, s->d[i]);
    }
    const char *name = y->c->nodes.at[0]->name;
    name = name != NULL ? name : "matmul";
    Arena *arena = b->plan->arena;
    PackedBytes one = plan_packed_bytes(b->isa, m, n, depth);
    int64_t bytes[2] = {batches * one.a, batches * one.b};
    int *slot[2] = {&k->packed_a, &k->packed_b};
    if (one.thread > b->plan->thread_scratch) {
        b->plan->thread_scratch = one.thread;
    }
    for (int i = 0; i < 2; i++) {
        if (bytes[i] == 0) {
            continue; /* compute tiles pack it into their thread's scratch */
        }
        Buffer *panels =
            scratch(b, arena_printf(arena, "%s_%c", name, "ab"[i]),
                    arena_printf(arena, "packed %s of %s", i == 0 ? "rows" : "columns", name),
                    DT_f32, bytes[i] / 4);
        *slot[i] = operand_of(y, panels);
        y->written[*slot[i]] = true;
    }
}

static void build_simple(GraphBuild *b, Cluster *c, BuiltCalls *out)
{
    Body y = body_new(b, c, &c->space, c->nreduce);
    Kernel *k = kernel_new(b, c->kind);
    for (int i = 0; i < c->nodes.n; i++) {
        eval_node(&y, c->nodes.at[i], k);
    }
    for (int i = 0; i < c->nodes.n; i++) {
        output_node(&y, c->nodes.at[i]);
    }
    if (c->kind == KERNEL_Contract) {
        k->nbatch = c->space.rank - 3;
        add_packed(&y, k);
    }
    call(&y, finish(&y, k), out, 0, "");
}

static int divide_by_count(Body *z, const Node *n, int sum)
{
    Scalar count = scalar_of(n, SC_dim), quotient = scalar_of(n, SC_op);
    if (!dims_count(&n->in[0]->dims, &count.dim)) {
        ICE("mean: too many symbolic dimensions");
    }
    count.per_row = quotient.per_row = true;
    quotient.op = OP_div;
    quotient.nin = 2;
    quotient.in[0] = sum;
    quotient.in[1] = add_scalar(z, count);
    return add_scalar(z, quotient);
}

/* Partial sums by one kernel, their sum and what follows from it by a second one. */
static void build_full(GraphBuild *b, Cluster *c, BuiltCalls *out)
{
    enum { PARTS = 32 };
    Node *n = c->nodes.at[0];
    Body y = body_new(b, c, &c->space, c->nreduce);
    Kernel *k = kernel_new(b, KERNEL_Full);
    int sum = eval_reduction(&y, n);
    bool mean =
        n->op == OP_mean; /* parts are sums; divided by the number of elements once, at the end */
    if (mean) {
        y.scalars.at[sum].op = OP_sum;
    }
    const char *name = n->name != NULL ? n->name : "sum";
    Buffer *parts =
        scratch(b, arena_printf(b->plan->arena, "%s_parts", name), "partial sums", n->dtype, PARTS);
    output(&y, sum, parts, &(Linear){0});
    k->ntiles = PARTS;
    call(&y, finish(&y, k), out, 0, "_parts");

    Cluster rows = *c;
    rows.kind = KERNEL_Row;
    rows.space = parts->dims;
    rows.nreduce = 1;
    Body z = body_new(b, &rows, &rows.space, 1);
    Scalar part = scalar_of(n, SC_load);
    part.op = OP_arg;
    part.at.operand = operand_of(&z, parts);
    part.at.stride[0] = dim_of(1);
    Scalar total = scalar_of(n, SC_reduce);
    total.nin = 1;
    total.in[0] = add_scalar(&z, part);
    total.per_row = true;
    total.op = y.scalars.at[sum].op;
    z.of[n->id] = add_scalar(&z, total);
    if (mean) {
        z.of[n->id] = divide_by_count(&z, n, z.of[n->id]);
    }
    Kernel *last = kernel_new(b, KERNEL_Row);
    for (int i = 1; i < c->nodes.n; i++) {
        eval_node(&z, c->nodes.at[i], last);
    }
    for (int i = 0; i < c->nodes.n; i++) {
        output_node(&z, c->nodes.at[i]);
    }
    call(&z, finish(&z, last), out, 1, "");
}

static void build_scatter(GraphBuild *b, Cluster *c, BuiltCalls *out)
{
    Node *n = c->nodes.at[0];
    Body y = body_new(b, c, &c->space, 0);
    Kernel *k = kernel_new(b, KERNEL_Scatter);
    operand_of(&y, b->buffer[n->in[0]->id]);
    operand_of(&y, b->buffer[n->in[1]->id]);
    y.written[operand_of(&y, b->buffer[n->id])] = true;
    finish(&y, k);
    Dim rows;
    if (!dims_count(&n->in[1]->dims, &rows)) {
        ICE("embedding_grad: too many symbolic dimensions");
    }
    Scalar count = scalar_of(n, SC_dim);
    count.dim = rows;
    k->nscalars = 1;
    k->scalars = arena_copy(b->plan->arena, &count, sizeof count);
    kernel_cost(b->f->g, k);
    BuiltCall built = {.cluster = c->id};
    built.call.space = k->space;
    built.call.buffers =
        arena_copy(b->plan->arena, y.operands.at, (size_t)y.operands.n * sizeof(Buffer *));
    built.call.what = k->what;
    built.call.loc = k->loc;
    built.call.kernel = unique(b, c, k, "");
    vec_push(b->f->arena, out, built);
}

/* Writes x (NULL: zeros) of `dims` into the output of pad or concat, from index `at` of `axis` on. */
static void build_part(GraphBuild *b, Cluster *c, BuiltCalls *out, Node *x, const Dims *dims,
                       int axis, Dim at)
{
    Node *n = c->nodes.at[0];
    Cluster part = *c;
    part.space = *dims;
    Body y = body_new(b, &part, dims, 0);
    IndexMap id = map_identity(dims);
    Scalar zero = scalar_of(n, SC_const);
    int scalar = x == NULL ? add_scalar(&y, zero) : eval(&y, x, &id);
    if (y.scalars.at[scalar].dtype != n->dtype) {
        Scalar cast = scalar_of(n, SC_cast);
        cast.op = OP_cast;
        cast.nin = 1;
        cast.in[0] = scalar;
        scalar = add_scalar(&y, cast);
    }
    id.off[axis] = at;
    Linear to = linear_of(n, &id, &n->dims);
    output(&y, scalar, b->buffer[n->id], &to);
    call(&y, finish(&y, kernel_new(b, KERNEL_Map)), out, 0, "");
}

static void build_copies(GraphBuild *b, Cluster *c, BuiltCalls *out)
{
    Node *n = c->nodes.at[0];
    int axis = (int)attrs_int(&n->attrs, ATTR_axis, 0);
    if (b->buffer[n->id] == NULL) {
        return;
    }
    if (n->op == OP_pad) {
        int64_t before = attrs_int(&n->attrs, ATTR_before, 0),
                after = attrs_int(&n->attrs, ATTR_after, 0);
        Dims edge = n->dims;
        edge.d[axis] = dim_of(before);
        if (before > 0) {
            build_part(b, c, out, NULL, &edge, axis, dim_of(0));
        }
        build_part(b, c, out, n->in[0], &n->in[0]->dims, axis, dim_of(before));
        Dim from = dim_of(before);
        edge.d[axis] = dim_of(after);
        if (after > 0 && dim_add(from, n->in[0]->dims.d[axis], &from)) {
            build_part(b, c, out, NULL, &edge, axis, from);
        }
        return;
    }
    Dim at = dim_of(0);
    for (int i = 0; i < n->nin; i++) {
        build_part(b, c, out, n->in[i], &n->in[i]->dims, axis, at);
        if (!dim_add(at, n->in[i]->dims.d[axis], &at)) {
            ICE("concat along a symbolic dimension");
        }
    }
}

KCall build_copy(Plan *p, const Graph *g, const Buffer *from, const Buffer *to)
{
    Kernel *k = ARENA_NEW(p->arena, Kernel);
    k->kind = KERNEL_Map;
    k->guard = k->a = k->b = k->packed_a = k->packed_b = -1;
    k->space = to->dims;
    k->noperands = 2;
    k->operands = ARENA_ARRAY(p->arena, KOperand, 2);
    k->operands[0] = (KOperand){from->name, from->dtype, false};
    k->operands[1] = (KOperand){to->name, to->dtype, true};
    Cluster all = {.kind = KERNEL_Map, .space = to->dims};
    Linear at;
    if (!cluster_canonical(&all, false, &at)) {
        ICE("a tensor of too many symbolic dimensions");
    }
    Scalar s = {
        .kind = SC_load, .op = OP_arg, .dtype = from->dtype, .at = {.operand = 0, .index = -1}};
    memcpy(s.at.stride, at.stride, sizeof s.at.stride);
    KOutput o = {.at = s.at};
    o.at.operand = 1;
    k->nscalars = k->noutputs = 1;
    k->scalars = arena_copy(p->arena, &s, sizeof s);
    k->outputs = arena_copy(p->arena, &o, sizeof o);
    k->what = "the next value moves to its place";
    kernel_coalesce(k);
    kernel_cost(g, k);
    KCall c = {.space = k->space, .what = k->what, .loc = to->loc};
    c.buffers = arena_copy(p->arena, (const Buffer *[]){from, to}, 2 * sizeof(const Buffer *));
    for (int i = 0; i < p->nkernels && c.kernel == NULL; i++) {
        c.kernel = kernel_equal(p->kernels[i], k) ? p->kernels[i] : NULL;
    }
    if (c.kernel == NULL) {
        c.kernel = add_kernel(p, k, "copy");
    }
    return c;
}

int cluster_levels(const Cluster *c)
{
    return c->kind == KERNEL_Full ? 2 : 1;
}

void build_cluster(GraphBuild *b, Cluster *c, BuiltCalls *out)
{
    if (c->copies) {
        build_copies(b, c, out);
    } else if (c->kind == KERNEL_Full) {
        build_full(b, c, out);
    } else if (c->kind == KERNEL_Scatter) {
        build_scatter(b, c, out);
    } else {
        build_simple(b, c, out);
    }
}
