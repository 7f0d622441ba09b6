/* kernel_body.c: evaluates nodes at a point of a kernel's space and writes the result down as scalars.
 *
 * What is virtual is evaluated wherever it is used; what is in memory is loaded; equal scalars are made once a
 * kernel. Names of functions follow fuse.h's three kinds of nodes. */
#include "passes/kernel_body.h"

#include <string.h>

#include "passes/conv_window.h"

int kernel_body_operand(Body *y, const Buffer *buffer)
{
    for (int i = 0; i < y->operands.n; i++) {
        if (y->operands.at[i] == buffer) {
            return i;
        }
    }
    vec_push(y->b->f->arena, &y->operands, buffer);
    vec_push(y->b->f->arena, &y->written, false);
    return y->operands.n - 1;
}

int kernel_body_scalar(Body *y, Scalar s)
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

Scalar scalar_of_node(const Node *n, ScalarKind kind)
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
    Scalar s = scalar_of_node(root, SC_load);
    s.op = OP_arg;
    s.at.operand = kernel_body_operand(y, buffer);
    s.at.offset = at->offset;
    memcpy(s.at.stride, at->stride, sizeof s.at.stride);
    s.per_row = row_constant(y, at->stride);
    return kernel_body_scalar(y, s);
}

static int eval_root(Body *y, Node *n, const Linear *at)
{
    if (y->b->scalar[n->id].body == y->number) {
        return y->b->scalar[n->id].scalar;
    }
    return load(y, n, at);
}

Linear node_linear(const Node *n, const IndexMap *map, const Dims *dims)
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
        Scalar s = scalar_of_node(n, SC_const);
        s.value = attrs_float(&n->attrs, ATTR_value, 0);
        s.name = NULL;
        s.per_row = y->nreduce > 0;
        return kernel_body_scalar(y, s);
    }
    bool random = n->op == OP_uniform;
    Scalar s = scalar_of_node(n, random ? SC_uniform : SC_index);
    Linear at;
    if (!leaf_linear(n, map, &at)) {
        ICE("%s: no index for this shape", op_info[n->op].name);
    }
    if (random) {
        IndexMap keys = random_key_map(map);
        s.in[s.nin++] = kernel_body_eval(y, n->in[0], &keys);
        s.path = attrs_str(&n->attrs, ATTR_path);
    }
    s.at.offset = at.offset;
    memcpy(s.at.stride, at.stride, sizeof s.at.stride);
    s.per_row = row_constant(y, at.stride) && (!random || y->scalars.at[s.in[0]].per_row);
    return kernel_body_scalar(y, s);
}

static int eval_embedding(Body *y, Node *n, const IndexMap *map)
{
    IndexMap indices, row;
    gather_maps(n, map, &indices, &row);
    int index = kernel_body_eval(y, n->in[1], &indices);
    Linear at = node_linear(n, &row, &n->in[0]->dims);
    Scalar s = scalar_of_node(n, SC_load);
    s.op = OP_arg;
    s.at.operand = kernel_body_operand(y, y->b->buffer[n->in[0]->id]);
    s.at.offset = at.offset;
    memcpy(s.at.stride, at.stride, sizeof s.at.stride);
    s.at.index = index;
    s.at.index_stride = n->in[0]->dims.d[1];
    s.per_row = row_constant(y, at.stride) && y->scalars.at[index].per_row;
    return kernel_body_scalar(y, s);
}

/* An operand in the type in which its op computes; a constant is rounded to it here. */
static int converted(Body *y, int operand, DType dt)
{
    Scalar s = y->scalars.at[operand];
    if (s.dtype == dt) {
        return operand;
    }
    if (s.kind == SC_const) {
        s.value = round_to(dt, s.value);
    } else {
        Scalar cast = {.kind = SC_cast, .op = OP_cast, .nin = 1, .in = {operand}};
        cast.at = (Access){.operand = -1, .index = -1};
        cast.per_row = s.per_row;
        cast.loc = s.loc;
        s = cast;
    }
    s.dtype = dt;
    return kernel_body_scalar(y, s);
}

static int eval_map(Body *y, Node *n, const IndexMap *map)
{
    Scalar s = scalar_of_node(n, n->op == OP_cast ? SC_cast : SC_op);
    s.per_row = y->nreduce > 0;
    for (int i = 0; i < n->nin; i++) {
        IndexMap in = map_operand(&n->dims, &n->in[i]->dims, map);
        int operand = kernel_body_eval(y, n->in[i], &in);
        bool condition = n->op == OP_where && i == 0;
        s.in[s.nin++] =
            n->op == OP_cast || condition ? operand : converted(y, operand, map_dtype(n));
    }
    for (int i = 0; i < s.nin; i++) {
        s.per_row = s.per_row && y->scalars.at[s.in[i]].per_row;
    }
    if (n->op == OP_cast && y->scalars.at[s.in[0]].dtype == n->dtype) {
        return s.in[0];
    }
    return kernel_body_scalar(y, s);
}

static int eval_move(Body *y, Node *n, const IndexMap *map)
{
    Node *x = n->in[0];
    if (n->op == OP_reshape && fuse_is_root(y->b->f, y->c, x)) {
        Linear at = node_linear(n, map, &n->dims);
        return eval_root(y, x, &at);
    }
    IndexMap in;
    if (!map_move(y->b->f->g, &y->space, n, map, &in)) {
        ICE("%s cannot be followed", op_info[n->op].name);
    }
    return kernel_body_eval(y, x, &in);
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

int kernel_body_eval(Body *y, Node *n, const IndexMap *map)
{
    if (fuse_is_root(y->b->f, y->c, n)) {
        Linear at = node_linear(n, map, &n->dims);
        return eval_root(y, n, &at);
    }
    return eval_operation(y, n, map);
}

/* ---- whole clusters ------------------------------------------------------------------------------------ */

Body kernel_body_new(GraphBuild *b, Cluster *c, const Dims *space, int nreduce)
{
    return (Body){.b = b, .c = c, .space = *space, .nreduce = nreduce, .number = ++b->bodies};
}

void kernel_body_output(Body *y, int scalar, const Buffer *buffer, const Linear *at)
{
    KOutput o = {.scalar = scalar, .at = {.operand = kernel_body_operand(y, buffer), .index = -1}};
    o.at.offset = at->offset;
    memcpy(o.at.stride, at->stride, sizeof o.at.stride);
    y->written.at[o.at.operand] = true;
    vec_push(y->b->f->arena, &y->outputs, o);
}

void kernel_body_output_node(Body *y, Node *n)
{
    Buffer *buffer = y->b->buffer[n->id];
    Linear at;
    if (buffer != NULL && cluster_canonical(y->c, y->b->f->per_row[n->id], &at)) {
        kernel_body_output(y, eval_root(y, n, &at), buffer, &at);
    }
}

int kernel_body_eval_reduction(Body *y, Node *n)
{
    IndexMap map;
    if (!reduction_map(y->b->f, y->c, n, &map)) {
        ICE("a row reduction of another shape");
    }
    Scalar s = scalar_of_node(n, SC_reduce);
    s.nin = 1;
    s.in[0] = kernel_body_eval(y, n->in[0], &map);
    s.per_row = true;
    return kernel_body_scalar(y, s);
}

static int conv_load(Body *y, const Node *n, const ConvSide *side, const ConvSpace *space, int axis)
{
    const Node *x = conv_operand(y->b->f, y->c, n, side->operand);
    Scalar s = scalar_of_node(x, SC_load);
    s.op = OP_arg;
    s.at.operand = kernel_body_operand(y, y->b->buffer[x->id]);
    memcpy(s.at.stride, side->batch, sizeof s.at.stride);
    if (side->plain) {
        s.at.stride[axis] = dim_of(side->along);
        s.at.stride[space->space.rank - 1] = dim_of(1);
        return kernel_body_scalar(y, s);
    }
    Window *w = arena_copy(y->b->plan->arena, &side->window, sizeof side->window);
    w->elements = 1;
    for (int i = 0; i < x->dims.rank; i++) {
        w->elements *= dim_bound(y->b->f->g, x->dims.d[i]);
    }
    s.at.window = w;
    return kernel_body_scalar(y, s);
}

static void eval_operands(Body *y, Node *n, Kernel *k)
{
    if (is_convolution(n)) {
        ConvSpace space = conv_space(n);
        k->a = conv_load(y, n, &space.a, &space, space.nbatch);
        k->b = conv_load(y, n, &space.b, &space, space.nbatch + 1);
        return;
    }
    IndexMap a, b;
    contract_maps(y->c, n, &a, &b);
    k->a = kernel_body_eval(y, n->in[0], &a);
    k->b = kernel_body_eval(y, n->in[1], &b);
}

static int eval_contraction(Body *y, Node *n, Kernel *k)
{
    eval_operands(y, n, k);
    Scalar acc = scalar_of_node(n, SC_acc);
    acc.dtype = n->dtype == DT_f64 ? DT_f64 : DT_f32;
    acc.per_row = true;
    int at = kernel_body_scalar(y, acc);
    if (n->dtype == acc.dtype) {
        return at;
    }
    Scalar s = scalar_of_node(n, SC_cast);
    s.op = OP_cast;
    s.nin = 1;
    s.in[0] = at;
    s.per_row = true;
    return kernel_body_scalar(y, s);
}

void kernel_body_eval_node(Body *y, Node *n, Kernel *k)
{
    OpKind kind = op_info[n->op].kind;
    if (kind == KIND_Contract) {
        y->b->scalar[n->id] = (ScalarOf){y->number, eval_contraction(y, n, k)};
        return;
    }
    if (kind == KIND_Reduce) {
        y->b->scalar[n->id] = (ScalarOf){y->number, kernel_body_eval_reduction(y, n)};
        return;
    }
    bool per_row;
    IndexMap map;
    if (!cluster_map(y->b->f, y->c, &n->dims, &per_row, &map)) {
        ICE("%s does not fit its cluster", op_info[n->op].name);
    }
    y->b->scalar[n->id] = (ScalarOf){y->number, eval_operation(y, n, &map)};
}
