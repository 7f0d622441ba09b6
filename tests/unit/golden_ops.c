/* golden_ops.c: see golden_ops.h. A row of `cases` says which function writes the cases of an op.
 */
#include "golden_ops.h"

#include <string.h>

/* ---- pieces ---------------------------------------------------------------------------------- */

static Node *input(const GoldenGraph *g, const char *name)
{
    for (int i = 0; i < g->nin; i++) {
        if (strcmp(g->in_name[i], name) == 0) {
            return g->in[i];
        }
    }
    return NULL;
}

static Node *number(GoldenGraph *g, const char *key)
{
    return build_const(&g->b, DT_f32, golden_number(g->attrs, key, 0));
}

static int64_t axis_of(const Node *x, double dim)
{
    return (int64_t)dim < 0 ? (int64_t)dim + x->dims.rank : (int64_t)dim;
}

static int axes_of(const GoldenGraph *g, const Node *x, int64_t axes[MAX_RANK])
{
    const cJSON *dim = cJSON_GetObjectItem(g->attrs, "dim");
    if (!cJSON_IsArray(dim)) {
        axes[0] = axis_of(x, golden_item(dim));
        return 1;
    }
    int n = cJSON_GetArraySize(dim);
    for (int i = 0; i < n; i++) {
        axes[i] = axis_of(x, golden_item(cJSON_GetArrayItem(dim, i)));
    }
    return n;
}

static Node *with_int(GoldenGraph *g, Op op, Node *x, AttrId id, int64_t value)
{
    Attrs as = {0};
    attrs_set_int(g->b.graph->arena, &as, id, value);
    return build(&g->b, op, 1, &x, as);
}

static Dims dims_of(const cJSON *shape)
{
    Dims d = {.rank = cJSON_GetArraySize(shape)};
    for (int i = 0; i < d.rank; i++) {
        d.d[i] = dim_of((int64_t)golden_item(cJSON_GetArrayItem(shape, i)));
    }
    return d;
}

/* ---- ops ------------------------------------------------------------------------------------- */

static Node *plain(GoldenGraph *g, Op op)
{
    return build(&g->b, op, g->nin, g->in, (Attrs){0});
}

static Node *softplus(GoldenGraph *g, Op op)
{
    return golden_number(g->attrs, "beta", 1) == 1 ? plain(g, op) : NULL;
}

static Node *slope(GoldenGraph *g, Op op)
{
    return build2(&g->b, op, g->in[0], number(g, op == OP_elu ? "alpha" : "negative_slope"));
}

static Node *pow_scalar(GoldenGraph *g, Op op)
{
    return build2(&g->b, op, g->in[0], number(g, "exponent"));
}

static Node *clamp(GoldenGraph *g, Op op)
{
    if (cJSON_IsNull(cJSON_GetObjectItem(g->attrs, "max"))) {
        return build2(&g->b, OP_maximum, g->in[0], number(g, "min"));
    }
    return build3(&g->b, op, g->in[0], number(g, "min"), number(g, "max"));
}

static Node *where(GoldenGraph *g, Op op)
{
    return build3(&g->b, op, input(g, "cond"), input(g, "x"), input(g, "y"));
}

static Node *masked_fill(GoldenGraph *g, Op op)
{
    return build3(&g->b, op, input(g, "mask"), number(g, "value"), input(g, "x"));
}

static Node *dropout(GoldenGraph *g, Op op)
{
    Node *kept = build2(&g->b, op, input(g, "x"), input(g, "mask"));
    Node *share = build_const(&g->b, DT_f32, 1 - golden_number(g->attrs, "p", 0));
    return build2(&g->b, OP_div, kept, share);
}

static Node *reshaped(GoldenGraph *g, Op op)
{
    Dims d = dims_of(cJSON_GetObjectItem(g->attrs, "shape"));
    return op == OP_expand ? build_expand(&g->b, g->in[0], &d) : build_reshape(&g->b, g->in[0], &d);
}

static Node *permute(GoldenGraph *g, Op op)
{
    (void)op;
    int perm[MAX_RANK];
    const cJSON *dims = cJSON_GetObjectItem(g->attrs, "dims");
    for (int i = 0; i < g->in[0]->dims.rank; i++) {
        perm[i] = (int)golden_item(cJSON_GetArrayItem(dims, i));
    }
    return build_transpose(&g->b, g->in[0], perm);
}

static Node *transpose(GoldenGraph *g, Op op)
{
    (void)op;
    Node *x = g->in[0];
    int perm[MAX_RANK], a = (int)axis_of(x, golden_number(g->attrs, "dim0", 0)),
                        b = (int)axis_of(x, golden_number(g->attrs, "dim1", 0));
    for (int i = 0; i < x->dims.rank; i++) {
        perm[i] = i == a ? b : i == b ? a : i;
    }
    return build_transpose(&g->b, x, perm);
}

static Node *slices(GoldenGraph *g, Op op)
{
    (void)op;
    return build_slice(&g->b, g->in[0], axis_of(g->in[0], golden_number(g->attrs, "dim", 0)),
                       (int64_t)golden_number(g->attrs, "start", 0),
                       (int64_t)golden_number(g->attrs, "stop", 0),
                       (int64_t)golden_number(g->attrs, "step", 1));
}

static Node *select_one(GoldenGraph *g, Op op)
{
    (void)op;
    int64_t axis = axis_of(g->in[0], golden_number(g->attrs, "dim", 0));
    int64_t index = (int64_t)golden_number(g->attrs, "index", 0);
    Node *x = build_slice(&g->b, g->in[0], axis, index, index + 1, 1);
    return build_reduce(&g->b, OP_sum, x, 1, &axis, false);
}

static Node *split(GoldenGraph *g, Op op)
{
    (void)op;
    const cJSON *sizes = cJSON_GetObjectItem(g->attrs, "sizes");
    int64_t axis = axis_of(g->in[0], golden_number(g->attrs, "dim", 0)), start = 0;
    for (int i = 0; i < cJSON_GetArraySize(sizes); i++) {
        int64_t stop = start + (int64_t)golden_item(cJSON_GetArrayItem(sizes, i));
        g->out[i] = build_slice(&g->b, g->in[0], axis, start, stop, 1);
        start = stop;
    }
    return g->out[0];
}

static Node *concat(GoldenGraph *g, Op op)
{
    Attrs as = {0};
    int64_t axis = axis_of(g->in[0], golden_number(g->attrs, "dim", 0));
    attrs_set_int(g->b.graph->arena, &as, ATTR_axis, axis);
    return build(&g->b, op, g->nin, g->in, as);
}

static Node *stack(GoldenGraph *g, Op op)
{
    int64_t axis = (int64_t)golden_number(g->attrs, "dim", 0);
    Node *rows[GOLDEN_MAX_INPUTS];
    for (int i = 0; i < g->nin; i++) {
        Dims d = {.rank = g->in[i]->dims.rank + 1};
        for (int k = 0; k < d.rank; k++) {
            d.d[k] = k == axis ? dim_of(1) : g->in[i]->dims.d[k < axis ? k : k - 1];
        }
        rows[i] = build_reshape(&g->b, g->in[i], &d);
    }
    Attrs as = {0};
    attrs_set_int(g->b.graph->arena, &as, ATTR_axis, axis);
    return build(&g->b, op, g->nin, rows, as);
}

/* Our pad fills with zeros: elsewhere than where ones land the value is chosen. */
static Node *padded(GoldenGraph *g, Op op)
{
    (void)op;
    const cJSON *sizes = cJSON_GetObjectItem(g->attrs, "pad");
    Node *x = g->in[0];
    Node *inside = build_expand(&g->b, build_const(&g->b, DT_f32, 1), &x->dims);
    for (int i = 0; i + 1 < cJSON_GetArraySize(sizes); i += 2) {
        int64_t axis = x->dims.rank - 1 - i / 2;
        int64_t before = (int64_t)golden_item(cJSON_GetArrayItem(sizes, i));
        int64_t after = (int64_t)golden_item(cJSON_GetArrayItem(sizes, i + 1));
        x = build_pad(&g->b, x, axis, before, after);
        inside = build_pad(&g->b, inside, axis, before, after);
    }
    Node *mask = build2(&g->b, OP_gt, inside, build_const(&g->b, DT_f32, 0));
    return build3(&g->b, OP_where, mask, x, number(g, "value"));
}

static Node *linear(GoldenGraph *g, Op op)
{
    (void)op;
    return build_linear(&g->b, input(g, "input"), input(g, "weight"), input(g, "bias"), DT_none);
}

/* Two numbers, or for signals one, behind what means nothing for their only row. */
static void set_pair(const GoldenGraph *g, Attrs *as, const char *key, AttrId id, int64_t row)
{
    const cJSON *v = cJSON_GetObjectItem(g->attrs, key);
    bool list = cJSON_IsArray(v), pair = list && cJSON_GetArraySize(v) == 2;
    if (v != NULL) {
        const cJSON *last = list ? cJSON_GetArrayItem(v, pair) : v;
        int64_t both[] = {pair ? (int64_t)golden_item(cJSON_GetArrayItem(v, 0)) : row,
                          (int64_t)golden_item(last)};
        attrs_set_ints(g->b.graph->arena, as, id, 2, both);
    }
}

/* [n, channels, length] as images of one row, and back. */
static Node *image(GoldenGraph *g, Node *x)
{
    Dims d = {.rank = 4, .d = {x->dims.d[0], x->dims.d[1], dim_of(1), x->dims.d[2]}};
    return x->dims.rank == 3 ? build_reshape(&g->b, x, &d) : x;
}

static Node *as_input(GoldenGraph *g, Node *y)
{
    Dims d = {.rank = 3, .d = {y->dims.d[0], y->dims.d[1], y->dims.d[3]}};
    return g->in[0]->dims.rank == 3 ? build_reshape(&g->b, y, &d) : y;
}

static Attrs conv_attrs(const GoldenGraph *g)
{
    Attrs as = {0};
    set_pair(g, &as, "stride", ATTR_stride, 1);
    set_pair(g, &as, "padding", ATTR_padding, 0);
    set_pair(g, &as, "dilation", ATTR_dilation, 1);
    attrs_set_int(g->b.graph->arena, &as, ATTR_groups,
                  (int64_t)golden_number(g->attrs, "groups", 1));
    return as;
}

static Node *conv(GoldenGraph *g, Op op)
{
    Node *in[] = {image(g, input(g, "input")), image(g, input(g, "weight")), input(g, "bias")};
    return as_input(g, build(&g->b, op, in[2] != NULL ? 3 : 2, in, conv_attrs(g)));
}

static Node *conv_transpose2d(GoldenGraph *g, Op op)
{
    Node *in[] = {input(g, "input"), input(g, "weight")}, *bias = input(g, "bias");
    Attrs as = conv_attrs(g);
    set_pair(g, &as, "output_padding", ATTR_output_padding, 0);
    Node *y = build(&g->b, op, 2, in, as);
    Dims channel = {.rank = 3, .d = {y->dims.d[1], dim_of(1), dim_of(1)}};
    return bias == NULL ? y : build2(&g->b, OP_add, y, build_reshape(&g->b, bias, &channel));
}

static Node *pool(GoldenGraph *g, Op op)
{
    Attrs as = {0};
    Node *x = image(g, g->in[0]);
    const cJSON *counts = cJSON_GetObjectItem(g->attrs, "count_include_pad");
    set_pair(g, &as, "kernel_size", ATTR_kernel, 1);
    set_pair(g, &as, "stride", ATTR_stride, 1);
    set_pair(g, &as, "padding", ATTR_padding, 0);
    attrs_set_bool(g->b.graph->arena, &as, ATTR_ceil_mode, golden_bool(g->attrs, "ceil_mode"));
    attrs_set_bool(g->b.graph->arena, &as, ATTR_exclude_pad,
                   counts != NULL && cJSON_IsFalse(counts));
    return as_input(g, build(&g->b, op, 1, &x, as));
}

/* Part i of n of an axis. */
static Node *part_of(GoldenGraph *g, Node *x, int axis, int64_t i, int64_t n)
{
    int64_t length = x->dims.d[axis].k;
    return build_slice(&g->b, x, axis, i * length / n, ((i + 1) * length + n - 1) / n, 1);
}

static Node *joined(GoldenGraph *g, int n, Node *const *parts, int axis)
{
    Attrs as = {0};
    attrs_set_int(g->b.graph->arena, &as, ATTR_axis, axis);
    return build(&g->b, OP_concat, n, parts, as);
}

static Node *adaptive_pool(GoldenGraph *g, Op op)
{
    const cJSON *size = cJSON_GetObjectItem(g->attrs, "output_size");
    int n[2] = {(int)golden_item(cJSON_GetArrayItem(size, 0)),
                (int)golden_item(cJSON_GetArrayItem(size, 1))};
    Node *rows[8], *cells[8];
    for (int i = 0; i < n[0]; i++) {
        Node *row = part_of(g, g->in[0], 2, i, n[0]);
        for (int k = 0; k < n[1]; k++) {
            Node *cell = part_of(g, row, 3, k, n[1]);
            Attrs as = {0};
            int64_t kernel[] = {cell->dims.d[2].k, cell->dims.d[3].k};
            attrs_set_ints(g->b.graph->arena, &as, ATTR_kernel, 2, kernel);
            cells[k] = build(&g->b, op, 1, &cell, as);
        }
        rows[i] = joined(g, n[1], cells, 3);
    }
    return joined(g, n[0], rows, 2);
}

static Node *matmul(GoldenGraph *g, Op op)
{
    (void)op;
    return build_matmul(&g->b, g->in[0], g->in[1], golden_bool(g->attrs, "trans_a"),
                        golden_bool(g->attrs, "trans_b"), DT_none);
}

static Node *reduce(GoldenGraph *g, Op op)
{
    int64_t axes[MAX_RANK];
    int n = axes_of(g, g->in[0], axes);
    Node *y = build_reduce(&g->b, op, g->in[0], n, axes, golden_bool(g->attrs, "keepdim"));
    if (op == OP_var && golden_number(g->attrs, "correction", 1) == 1) {
        attrs_set_bool(g->b.graph->arena, &y->attrs, ATTR_unbiased, true);
    }
    return y;
}

static Node *argmax(GoldenGraph *g, Op op)
{
    Node *x = g->in[0];
    Node *y = with_int(g, op, x, ATTR_axis, axis_of(x, golden_number(g->attrs, "dim", 0)));
    Dims d = x->dims;
    d.d[axis_of(x, golden_number(g->attrs, "dim", 0))] = dim_of(1);
    return golden_bool(g->attrs, "keepdim") ? build_reshape(&g->b, y, &d) : y;
}

static Node *max(GoldenGraph *g, Op op)
{
    g->out[1] = argmax(g, OP_argmax);
    return reduce(g, op);
}

static Node *along(GoldenGraph *g, Op op)
{
    Node *x = g->in[0];
    return with_int(g, op, x, ATTR_axis, axis_of(x, golden_number(g->attrs, "dim", -1)));
}

static Node *log_sum_exp(GoldenGraph *g, Op op)
{
    int64_t axes[MAX_RANK];
    Node *x = g->in[0];
    if (axes_of(g, x, axes) != 1) {
        return NULL;
    }
    Node *y = with_int(g, op, x, ATTR_axis, axes[0]);
    Dims d = x->dims;
    d.d[axes[0]] = dim_of(1);
    return golden_bool(g->attrs, "keepdim") ? build_reshape(&g->b, y, &d) : y;
}

/* Ours is the mean over integer labels, classes last. */
static Node *cross_entropy(GoldenGraph *g, Op op)
{
    Node *x = input(g, "input"), *labels = input(g, "target");
    bool mean = strcmp(golden_string(g->attrs, "reduction"), "mean") == 0;
    if (!mean || input(g, "weight") != NULL || labels->dtype != DT_i64) {
        return NULL;
    }
    if (x->dims.rank == 3) {
        x = build_transpose(&g->b, x, (int[]){0, 2, 1});
    }
    Attrs as = {0};
    Arena *arena = g->b.graph->arena;
    attrs_set_int(arena, &as, ATTR_ignore_index,
                  (int64_t)golden_number(g->attrs, "ignore_index", -100));
    double smoothing = golden_number(g->attrs, "label_smoothing", 0);
    if (smoothing != 0) {
        attrs_set_float(arena, &as, ATTR_label_smoothing, smoothing);
    }
    return build(&g->b, op, 2, (Node *[]){x, labels}, as);
}

static Node *embedding(GoldenGraph *g, Op op)
{
    Attrs as = {0};
    double padding = golden_number(g->attrs, "padding_idx", -1);
    if (padding >= 0) {
        attrs_set_int(g->b.graph->arena, &as, ATTR_padding_idx, (int64_t)padding);
    }
    return build(&g->b, op, 2, (Node *[]){input(g, "weight"), input(g, "index")}, as);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* clang-format off */
#define CASES(CASE)                                                                                \
    CASE(neg, neg, plain) CASE(abs, abs, plain) CASE(square, square, plain)                        \
    CASE(exp, exp, plain) CASE(log, log, plain) CASE(log1p, log1p, plain)                          \
    CASE(expm1, expm1, plain) CASE(sqrt, sqrt, plain) CASE(rsqrt, rsqrt, plain)                    \
    CASE(reciprocal, reciprocal, plain) CASE(sin, sin, plain) CASE(cos, cos, plain)                \
    CASE(erf, erf, plain) CASE(sigmoid, sigmoid, plain) CASE(logsigmoid, logsigmoid, plain)        \
    CASE(tanh, tanh, plain) CASE(relu, relu, plain) CASE(gelu_erf, gelu, plain)                    \
    CASE(gelu_tanh, gelu_tanh, plain) CASE(silu, silu, plain) CASE(softplus, softplus, softplus)   \
    CASE(add, add, plain) CASE(sub, sub, plain) CASE(mul, mul, plain) CASE(div, div, plain)        \
    CASE(pow, pow, plain) CASE(pow_scalar, pow, pow_scalar) CASE(maximum, maximum, plain)          \
    CASE(minimum, minimum, plain) CASE(leaky_relu, leaky_relu, slope) CASE(elu, elu, slope)        \
    CASE(where, where, where) CASE(clamp, clamp, clamp) CASE(masked_fill, where, masked_fill)      \
    CASE(dropout, mul, dropout) CASE(reshape, reshape, reshaped) CASE(expand, expand, reshaped)    \
    CASE(permute, transpose, permute) CASE(transpose, transpose, transpose)                        \
    CASE(slice, slice, slices) CASE(select, slice, select_one) CASE(split, slice, split)           \
    CASE(concat, concat, concat) CASE(stack, concat, stack) CASE(pad, pad, padded)                 \
    CASE(linear, linear, linear) CASE(matmul, matmul, matmul) CASE(sum, sum, reduce)               \
    CASE(mean, mean, reduce) CASE(var, var, reduce) CASE(amax, amax, reduce)                       \
    CASE(amin, amin, reduce) CASE(argmax, argmax, argmax) CASE(max, amax, max)                     \
    CASE(softmax, softmax, along) CASE(log_softmax, log_softmax, along)                            \
    CASE(logsumexp, logsumexp, log_sum_exp) CASE(cross_entropy, cross_entropy, cross_entropy)      \
    CASE(embedding, embedding, embedding) CASE(conv1d, conv2d, conv)                               \
    CASE(conv2d, conv2d, conv)                                                                     \
    CASE(conv_transpose2d, conv_transpose2d, conv_transpose2d)                                     \
    CASE(maxpool1d, max_pool2d, pool) CASE(maxpool2d, max_pool2d, pool)                            \
    CASE(avgpool1d, avg_pool2d, pool) CASE(avgpool2d, avg_pool2d, pool)                            \
    CASE(adaptive_avgpool2d, avg_pool2d, adaptive_pool)
/* clang-format on */

#define NAME(file, op, builder) #file,
const char *const golden_op_names[] = {CASES(NAME) NULL};

#define ROW(file, op, builder) {#file, OP_##op, builder},
static const struct {
    const char *name;
    Op op;
    Node *(*build)(GoldenGraph *g, Op op);
} cases[] = {CASES(ROW)};

static DType dtype_of(const char *name, DType floats)
{
    return strcmp(name, "F32") == 0 ? floats : strcmp(name, "I64") == 0 ? DT_i64 : DT_bool;
}

static void make_inputs(Arena *arena, DType floats, GoldenGraph *g)
{
    const cJSON *in;
    cJSON_ArrayForEach(in, cJSON_GetObjectItem(g->test, "inputs"))
    {
        Dims d = dims_of(cJSON_GetObjectItem(in, "shape"));
        Attrs as = {0};
        attrs_set_str(arena, &as, ATTR_batch, golden_string(in, "name"));
        g->in_name[g->nin] = golden_string(in, "name");
        g->in[g->nin++] = build_arg(&g->b, dtype_of(golden_string(in, "dtype"), floats), &d, as);
    }
}

bool golden_graph(Arena *arena, const char *op, const cJSON *test, DType floats, GoldenGraph *g)
{
    *g = (GoldenGraph){.test = test, .attrs = cJSON_GetObjectItem(test, "attrs")};
    g->b.graph = graph_new(arena, op, GRAPH_Step);
    make_inputs(arena, floats, g);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, op) == 0) {
            g->out[0] = cases[i].build(g, cases[i].op);
        }
    }
    const cJSON *out;
    cJSON_ArrayForEach(out, cJSON_GetObjectItem(test, "outputs"))
    {
        g->out_name[g->nout++] = golden_string(out, "name");
    }
    return g->out[0] != NULL;
}
