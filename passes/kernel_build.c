/* kernel_build.c: clusters to kernels, and the calls that bind them to buffers.
 *
 * Needs:   buffers of everything a cluster reads and of everything that others need of it.
 * Leaves:  kernels with loads, scalar ops and outputs, each one once; a call for each use.
 *
 * What a kernel computes at a point: kernel_body.c. Fewer axes: kernel_shape.c. Less work: kernel_trim.c. */
#include "passes/kernel_body.h"

#include <limits.h>
#include <string.h>

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
        k->operands[i] = (KOperand){buffer->name, buffer->dtype, y->written.at[i]};
    }
    k->nscalars = y->scalars.n;
    k->scalars = arena_copy(arena, y->scalars.at, (size_t)y->scalars.n * sizeof(Scalar));
    k->noutputs = y->outputs.n;
    k->outputs = arena_copy(arena, y->outputs.at, (size_t)y->outputs.n * sizeof(KOutput));
    k->what = describe(arena, y->c);
    const Node *first = y->c->nodes.at[0];
    k->why = first->why;
    k->loc = first->loc;
    return k;
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
    kernel_find_guard(y, k);
    kernel_drop_dead(k);
    kernel_coalesce(k);
    kernel_cost(b->f->g, k);
    BuiltCall built = {.cluster = y->c->id, .level = level};
    built.call.space = k->space;
    built.call.buffers =
        arena_copy(b->plan->arena, y->operands.at, (size_t)y->operands.n * sizeof(const Buffer *));
    built.call.what = k->what;
    built.call.loc = k->loc;
    for (int i = 0; i < y->operands.n; i++) {
        Buffer *own = b->plan->buffers[y->operands.at[i]->id];
        own->loc = own->role == BUFFER_scratch ? k->loc : own->loc;
    }
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

/* Axes [from, to) of a space at the bounds, of the batch those along which `a` varies; a NULL: all. */
static int64_t length(const Body *y, int from, int to, const Access *a)
{
    int64_t n = 1;
    for (int i = from; i < to; i++) {
        n *= a == NULL || a->stride[i].k != 0 ? dim_bound(y->b->f->g, y->space.d[i]) : 1;
    }
    return n;
}

/* Panels of both operands. */
static void add_packed(Body *y, Kernel *k)
{
    GraphBuild *b = y->b;
    int last = y->space.rank - 1, nbatch = k->nbatch;
    int64_t m = length(y, nbatch, nbatch + 1, NULL), n = length(y, nbatch + 1, last, NULL);
    int64_t depth = length(y, last, last + 1, NULL);
    bool conv = y->scalars.at[k->b].at.window != NULL;
    int64_t batches = length(y, 0, nbatch, conv ? &y->scalars.at[k->a].at : NULL);
    const char *name = y->c->nodes.at[0]->name;
    name = name != NULL ? name : "matmul";
    Arena *arena = b->plan->arena;
    PackedBytes one =
        conv ? plan_conv_bytes(b->isa, m, depth) : plan_packed_bytes(b->isa, m, n, depth);
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
        *slot[i] = kernel_body_operand(y, panels);
        y->written.at[*slot[i]] = true;
    }
}

static void build_simple(GraphBuild *b, Cluster *c, BuiltCalls *out)
{
    Body y = kernel_body_new(b, c, &c->space, c->nreduce);
    Kernel *k = kernel_new(b, c->kind);
    for (int i = 0; i < c->nodes.n; i++) {
        kernel_body_eval_node(&y, c->nodes.at[i], k);
    }
    for (int i = 0; i < c->nodes.n; i++) {
        kernel_body_output_node(&y, c->nodes.at[i]);
    }
    if (c->kind == KERNEL_Contract) {
        k->nbatch = c->space.rank - 2 - c->nn;
        add_packed(&y, k);
    }
    call(&y, finish(&y, k), out, 0, "");
}

static int divide_by_count(Body *z, const Node *n, int sum)
{
    Scalar count = scalar_of_node(n, SC_dim), quotient = scalar_of_node(n, SC_op);
    if (!dims_count(&n->in[0]->dims, &count.dim)) {
        ICE("mean: too many symbolic dimensions");
    }
    count.per_row = quotient.per_row = true;
    quotient.op = OP_div;
    quotient.nin = 2;
    quotient.in[0] = sum;
    quotient.in[1] = kernel_body_scalar(z, count);
    return kernel_body_scalar(z, quotient);
}

/* Partial sums by one kernel, their sum and what follows from it by a second one. */
static void build_full(GraphBuild *b, Cluster *c, BuiltCalls *out)
{
    enum { PARTS = 32 };
    Node *n = c->nodes.at[0];
    Body y = kernel_body_new(b, c, &c->space, c->nreduce);
    Kernel *k = kernel_new(b, KERNEL_Full);
    int sum = kernel_body_eval_reduction(&y, n);
    bool mean =
        n->op == OP_mean; /* parts are sums; divided by the number of elements once, at the end */
    if (mean) {
        y.scalars.at[sum].op = OP_sum;
    }
    const char *name = n->name != NULL ? n->name : "sum";
    Buffer *parts =
        scratch(b, arena_printf(b->plan->arena, "%s_parts", name), "partial sums", n->dtype, PARTS);
    kernel_body_output(&y, sum, parts, &(Linear){0});
    k->ntiles = PARTS;
    call(&y, finish(&y, k), out, 0, "_parts");

    Cluster rows = *c;
    rows.kind = KERNEL_Row;
    rows.space = parts->dims;
    rows.nreduce = 1;
    Body z = kernel_body_new(b, &rows, &rows.space, 1);
    Scalar part = scalar_of_node(n, SC_load);
    part.op = OP_arg;
    part.at.operand = kernel_body_operand(&z, parts);
    part.at.stride[0] = dim_of(1);
    Scalar total = scalar_of_node(n, SC_reduce);
    total.nin = 1;
    total.in[0] = kernel_body_scalar(&z, part);
    total.per_row = true;
    total.op = y.scalars.at[sum].op;
    int reduced = kernel_body_scalar(&z, total);
    reduced = mean ? divide_by_count(&z, n, reduced) : reduced;
    b->scalar[n->id] = (ScalarOf){z.number, reduced};
    Kernel *last = kernel_new(b, KERNEL_Row);
    for (int i = 1; i < c->nodes.n; i++) {
        kernel_body_eval_node(&z, c->nodes.at[i], last);
    }
    for (int i = 0; i < c->nodes.n; i++) {
        kernel_body_output_node(&z, c->nodes.at[i]);
    }
    call(&z, finish(&z, last), out, 1, "");
}

static void build_scatter(GraphBuild *b, Cluster *c, BuiltCalls *out)
{
    Node *n = c->nodes.at[0];
    Body y = kernel_body_new(b, c, &c->space, 0);
    Kernel *k = kernel_new(b, KERNEL_Scatter);
    kernel_body_operand(&y, b->buffer[n->in[0]->id]);
    kernel_body_operand(&y, b->buffer[n->in[1]->id]);
    y.written.at[kernel_body_operand(&y, b->buffer[n->id])] = true;
    finish(&y, k);
    Dim rows;
    if (!dims_count(&n->in[1]->dims, &rows)) {
        ICE("embedding_grad: too many symbolic dimensions");
    }
    Scalar count = scalar_of_node(n, SC_dim);
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
    Body y = kernel_body_new(b, &part, dims, 0);
    IndexMap id = map_identity(dims);
    Scalar zero = scalar_of_node(n, SC_const);
    int scalar = x == NULL ? kernel_body_scalar(&y, zero) : kernel_body_eval(&y, x, &id);
    if (y.scalars.at[scalar].dtype != n->dtype) {
        Scalar cast = scalar_of_node(n, SC_cast);
        cast.op = OP_cast;
        cast.nin = 1;
        cast.in[0] = scalar;
        scalar = kernel_body_scalar(&y, cast);
    }
    id.off[axis] = at;
    Linear to = node_linear(n, &id, &n->dims);
    kernel_body_output(&y, scalar, b->buffer[n->id], &to);
    call(&y, finish(&y, kernel_new(b, KERNEL_Map)), out, 0, "");
}

/* All parts of an interleave, computed together. */
static void build_interleave(GraphBuild *b, Cluster *c, BuiltCalls *out)
{
    Node *n = c->nodes.at[0];
    ConvSteps s = conv_steps(&n->attrs);
    Body y = kernel_body_new(b, c, &c->space, 0);
    IndexMap id = map_identity(&c->space);
    for (int i = 0; i < n->nin; i++) {
        IndexMap to = id;
        int64_t place[2] = {i / s.stride[1], i % s.stride[1]};
        for (int k = 0; k < 2; k++) {
            to.off[2 + k] = dim_of(place[k]);
            to.m[2 + k][2 + k].k *= s.stride[k];
        }
        Linear at = node_linear(n, &to, &n->dims);
        kernel_body_output(&y, kernel_body_eval(&y, n->in[i], &id), b->buffer[n->id], &at);
    }
    call(&y, finish(&y, kernel_new(b, KERNEL_Map)), out, 0, "");
}

static void build_copies(GraphBuild *b, Cluster *c, BuiltCalls *out)
{
    Node *n = c->nodes.at[0];
    int axis = (int)attrs_int(&n->attrs, ATTR_axis, 0);
    if (b->buffer[n->id] == NULL) {
        return;
    }
    if (n->op == OP_interleave) {
        build_interleave(b, c, out);
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
