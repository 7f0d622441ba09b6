/* decompose.c: composite ops become maps, sums, largest and smallest elements, and matrix products.
 *
 * Needs:   a graph that is otherwise done: types, gradients, update.
 * Leaves:  only maps, casts, moves, sum, mean, amax, amin, matmul, the convolutions without bias, embedding,
 *          embedding_grad and leaves; the fuser knows nothing else. Arithmetic of a composite op is in f32 (f64 for f64) and rounded once at its end, so
 *          nothing that the dump called f32 becomes narrower. Labels are compared as i32.
 *
 *   %2 = softmax %1 {axis=1}  : f32[B,10]    ->   %2 = amax %1 {axes=[1], keepdim}   : f32[B,1]
 *                                                 %3 = sub %1, %2                    : f32[B,10]
 *                                                 %4 = exp %3                        : f32[B,10]
 *                                                 %5 = sum %4 {axes=[1], keepdim}    : f32[B,1]
 *                                                 %6 = div %4, %5                    : f32[B,10]
 *
 * Ends with a round of simplify: what the forward and the backward of one loss share (largest, exponentials, sums)
 * becomes one, so both end in one kernel. */
#include "passes/decompose.h"
#include "passes/ctx.h"

/* What n becomes; NULL: it stays. */
typedef Node *Decompose(Builder *b, const Node *n);

static DType wide(DType dt)
{
    return dt == DT_f64 ? DT_f64 : DT_f32;
}

static Node *reduce_axis(Builder *b, Op op, Node *x, int axis)
{
    return build_reduce(b, op, x, 1, &(int64_t){axis}, true);
}

static Node *drop_axis(Builder *b, Node *x, const Node *like)
{
    return x == NULL ? NULL : build_reshape(b, x, &like->dims);
}

/* A cast of an argument is computed where it is used, which can be at other axes than its own only if nothing
 * stands between the reshape and memory: reshape(cast x) -> cast(reshape x). */
static Node *decompose_reshape(Builder *b, const Node *n)
{
    Node *cast = n->in[0];
    if (cast->op != OP_cast || pass_behind_moves(cast->in[0])->op != OP_arg) {
        return NULL;
    }
    return build_cast(b, build_reshape(b, cast->in[0], &n->dims), n->dtype);
}

/* exp(x - max) and its parts along an axis; all keep the axis. */
typedef struct Exponentials {
    Node *x, *max, *e, *sum;
} Exponentials;

static Exponentials exponentials(Builder *b, Node *x, int axis)
{
    Exponentials s = {.x = build_cast(b, x, wide(x->dtype))};
    s.max = reduce_axis(b, OP_amax, s.x, axis);
    s.e = build1(b, OP_exp, build2(b, OP_sub, s.x, s.max));
    s.sum = reduce_axis(b, OP_sum, s.e, axis);
    return s;
}

static Node *log_sum(Builder *b, const Exponentials *s)
{
    return build2(b, OP_add, s->max, build1(b, OP_log, s->sum));
}

static int last_axis(const Node *x)
{
    return x->dims.rank - 1;
}

static Node *decompose_softmax(Builder *b, const Node *n)
{
    Exponentials s = exponentials(b, n->in[0], (int)attrs_int(&n->attrs, ATTR_axis, 0));
    return build2(b, OP_div, s.e, s.sum);
}

static Node *decompose_log_softmax(Builder *b, const Node *n)
{
    Exponentials s = exponentials(b, n->in[0], (int)attrs_int(&n->attrs, ATTR_axis, 0));
    return build2(b, OP_sub, build2(b, OP_sub, s.x, s.max), build1(b, OP_log, s.sum));
}

static Node *decompose_logsumexp(Builder *b, const Node *n)
{
    Exponentials s = exponentials(b, n->in[0], (int)attrs_int(&n->attrs, ATTR_axis, 0));
    return drop_axis(b, log_sum(b, &s), n);
}

static Node *size_at_run_time(Builder *b, Dim d, DType dt)
{
    Dims one = {.rank = 1, .d = {dim_of(1)}}, all = {.rank = 1, .d = {d}};
    Node *ones = build_expand(b, build_reshape(b, build_const(b, dt, 1), &one), &all);
    return build_reduce(b, OP_sum, ones, 1, (int64_t[]){0}, false);
}

static Node *decompose_var(Builder *b, const Node *n)
{
    const Attr *axes = attrs_find(&n->attrs, ATTR_axes);
    Node *x = build_cast(b, n->in[0], wide(n->in[0]->dtype));
    int count = axes != NULL ? axes->ints.n : x->dims.rank;
    int64_t all[MAX_RANK];
    Dim samples = dim_of(1);
    for (int i = 0; i < count; i++) {
        all[i] = axes != NULL ? axes->ints.v[i] : i;
        if (!dim_mul(samples, x->dims.d[all[i]], &samples)) {
            ICE("var: too many symbolic dimensions");
        }
    }
    Node *mean = build_reduce(b, OP_mean, x, count, all, true);
    Node *square = build1(b, OP_square, build2(b, OP_sub, x, mean));
    Node *var = build_reduce(b, OP_mean, square, count, all, true);
    if (attrs_bool(&n->attrs, ATTR_unbiased)) {
        double k = (double)samples.k;
        Node *ratio = build_const(b, x->dtype, k / (k - 1));
        if (!dim_is_const(samples)) {
            Node *m = size_at_run_time(b, samples, x->dtype);
            ratio = build2(b, OP_div, m, build2(b, OP_sub, m, build_const(b, x->dtype, 1)));
        }
        var = build2(b, OP_mul, var, ratio);
    }
    return drop_axis(b, var, n);
}

/* Indices along `axis` of something with dims, as i32. */
static Node *indices(Builder *b, const Dims *dims, int axis)
{
    Attrs attrs = {0};
    attrs_set_int(b->graph->arena, &attrs, ATTR_axis, axis);
    return build_like(b, DT_i32, dims, OP_iota, attrs);
}

/* The first index of the largest; the first NaN's where there is one. */
static Node *decompose_argmax(Builder *b, const Node *n)
{
    Node *x = n->in[0];
    int axis = (int)attrs_int(&n->attrs, ATTR_axis, 0);
    Node *max = reduce_axis(b, OP_amax, x, axis);
    Node *hit = build2(b, OP_or, build2(b, OP_eq, x, max), build2(b, OP_ne, x, x));
    Node *at =
        build3(b, OP_where, hit, indices(b, &x->dims, axis), build_const(b, DT_i32, INT32_MAX));
    return drop_axis(b, reduce_axis(b, OP_amin, at, axis), n);
}

/* [.., M, K] times [.., K, N]. Micro-kernels add up in f32; in f64 a product is products and their sum. */
static Node *product(Builder *b, Node *x, Node *y, bool trans_x, bool trans_y, DType result)
{
    if (dtype_widest(dtype_widest(x->dtype, y->dtype), result) != DT_f64) {
        return build_matmul(b, x, y, trans_x, trans_y, result);
    }
    int perm[MAX_RANK];
    Node *in[2] = {build_cast(b, x, DT_f64), build_cast(b, y, DT_f64)};
    for (int i = 0; i < 2; i++) {
        Dims d = in[i]->dims;
        for (int k = 0; k < d.rank; k++) {
            bool swap = (i == 0 ? trans_x : trans_y) && k >= d.rank - 2;
            perm[k] = swap ? 2 * d.rank - 3 - k : k;
        }
        in[i] = build_transpose(b, in[i], perm);
        d = in[i]->dims;
        d.d[d.rank] = i == 0 ? dim_of(1) : d.d[d.rank - 1]; /* [.., M, K, 1], [.., 1, K, N] */
        d.d[d.rank - 1] = i == 0 ? d.d[d.rank - 1] : d.d[d.rank - 2];
        d.d[d.rank - 2] = i == 0 ? d.d[d.rank - 2] : dim_of(1);
        d.rank++;
        in[i] = build_reshape(b, in[i], &d);
    }
    Node *all = build2(b, OP_mul, in[0], in[1]);
    int64_t axis = all->dims.rank - 2;
    return build_cast(b, build_reduce(b, OP_sum, all, 1, &axis, false), result);
}

/* x @ weight.T + bias in f32; leading axes of x are folded into one. */
static Node *decompose_linear(Builder *b, const Node *n)
{
    Node *x = n->in[0];
    Dims flat = {.rank = 2, .d = {dim_of(1), x->dims.d[last_axis(x)]}};
    for (int i = 0; i < last_axis(x); i++) {
        if (!dim_mul(flat.d[0], x->dims.d[i], &flat.d[0])) {
            ICE("linear: too many symbolic dimensions");
        }
    }
    Node *y = product(b, build_reshape(b, x, &flat), n->in[1], false, true, wide(n->dtype));
    if (n->nin == 3) {
        y = build2(b, OP_add, y, build_cast(b, n->in[2], wide(n->dtype)));
    }
    y = build_cast(b, y, n->dtype);
    return build_reshape(b, y, &n->dims);
}

/* A vector as a matrix of one row on the left, of one column on the right. */
static Node *as_matrix(Builder *b, Node *x, bool left)
{
    Dims d = {.rank = 2, .d = {left ? dim_of(1) : x->dims.d[0], left ? x->dims.d[0] : dim_of(1)}};
    return x->dims.rank == 1 ? build_reshape(b, x, &d) : x;
}

static Node *decompose_matmul(Builder *b, const Node *n)
{
    bool trans[2] = {attrs_bool(&n->attrs, ATTR_trans_a) && n->in[0]->dims.rank > 1,
                     attrs_bool(&n->attrs, ATTR_trans_b) && n->in[1]->dims.rank > 1};
    Node *x = as_matrix(b, n->in[0], true), *y = as_matrix(b, n->in[1], false);
    return build_reshape(b, product(b, x, y, trans[0], trans[1], n->dtype), &n->dims);
}

/* What cross entropy and its gradient are made of; per row, the class axis kept with length 1. */
typedef struct Loss {
    Exponentials s;
    Node *target, *valid,
        *count; /* target: bool, where the class is the label; count: f32 scalar, at least 1 */
    double smoothing;
    int classes;
} Loss;

static Loss loss_parts(Builder *b, const Node *n, Node *logits, Node *labels)
{
    int axis = last_axis(logits);
    Loss l = {.s = exponentials(b, logits, axis), .classes = (int)logits->dims.d[axis].k};
    l.smoothing = attrs_float(&n->attrs, ATTR_label_smoothing, 0);
    Dims rows = logits->dims;
    rows.d[axis] = dim_of(1);
    Node *label = build_reshape(b, build_cast(b, labels, DT_i32), &rows);
    double ignore = (double)attrs_int(&n->attrs, ATTR_ignore_index, -100);
    l.target = build2(b, OP_eq, indices(b, &logits->dims, axis), label);
    l.valid = build2(b, OP_ne, label, build_const(b, DT_i32, ignore));
    Node *counted = build_cast(b, l.valid, l.s.x->dtype);
    l.count = build2(b, OP_maximum, build_reduce(b, OP_sum, counted, -1, NULL, false),
                     build_const(b, l.s.x->dtype, 1));
    return l;
}

static Node *decompose_cross_entropy(Builder *b, const Node *n)
{
    Loss l = loss_parts(b, n, n->in[0], n->in[1]);
    int axis = last_axis(n->in[0]);
    DType dt = l.s.x->dtype;
    Node *zero = build_const(b, dt, 0);
    Node *picked = reduce_axis(b, OP_sum, build3(b, OP_where, l.target, l.s.x, zero), axis);
    if (l.smoothing != 0) {
        Node *others = reduce_axis(b, OP_mean, l.s.x, axis);
        picked = build2(b, OP_add, build2(b, OP_mul, picked, build_const(b, dt, 1 - l.smoothing)),
                        build2(b, OP_mul, others, build_const(b, dt, l.smoothing)));
    }
    Node *row = build2(b, OP_sub, log_sum(b, &l.s), picked);
    Node *kept = build3(b, OP_where, l.valid, row, zero);
    return build2(b, OP_div, build_reduce(b, OP_sum, kept, -1, NULL, false), l.count);
}

static Node *decompose_cross_entropy_grad(Builder *b, const Node *n)
{
    Loss l = loss_parts(b, n, n->in[1], n->in[2]);
    DType dt = l.s.x->dtype;
    Node *zero = build_const(b, dt, 0);
    double on = 1 - l.smoothing, off = l.smoothing / l.classes;
    Node *want =
        build3(b, OP_where, l.target, build_const(b, dt, on + off), build_const(b, dt, off));
    Node *excess = build2(b, OP_sub, build2(b, OP_div, l.s.e, l.s.sum), want);
    Node *share = build2(b, OP_div, build_cast(b, n->in[0], dt), l.count);
    return build3(b, OP_where, l.valid, build2(b, OP_mul, excess, share), zero);
}

/* Indices of the row without a gradient become -1, which no row has. */
static Node *decompose_embedding_grad(Builder *b, const Node *n)
{
    double padding = (double)attrs_int(&n->attrs, ATTR_padding_idx, -1);
    Attrs attrs = {0};
    attrs_set_int(b->graph->arena, &attrs, ATTR_rows, attrs_int(&n->attrs, ATTR_rows, 0));
    Node *at = n->in[1];
    if (padding >= 0) {
        at = build_cast(b, at, DT_i32);
        Node *skip = build2(b, OP_eq, at, build_const(b, DT_i32, padding));
        at = build3(b, OP_where, skip, build_const(b, DT_i32, -1), at);
    }
    return build(b, OP_embedding_grad, 2, (Node *[]){n->in[0], at}, attrs);
}

static Decompose *const table[OP_COUNT] = {
    [OP_reshape] = decompose_reshape,
    [OP_softmax] = decompose_softmax,
    [OP_log_softmax] = decompose_log_softmax,
    [OP_logsumexp] = decompose_logsumexp,
    [OP_var] = decompose_var,
    [OP_argmax] = decompose_argmax,
    [OP_linear] = decompose_linear,
    [OP_conv2d] = decompose_conv2d,
    [OP_conv_transpose2d] = decompose_conv_transpose2d,
    [OP_conv2d_weight_grad] = decompose_conv2d_weight_grad,
    [OP_max_pool2d] = decompose_max_pool2d,
    [OP_max_pool2d_grad] = decompose_max_pool2d_grad,
    [OP_avg_pool2d] = decompose_avg_pool2d,
    [OP_avg_pool2d_grad] = decompose_avg_pool2d_grad,
    [OP_matmul] = decompose_matmul,
    [OP_embedding_grad] = decompose_embedding_grad,
    [OP_cross_entropy] = decompose_cross_entropy,
    [OP_cross_entropy_grad] = decompose_cross_entropy_grad,
};

static void decompose_graph(PassCtx *c, Graph *g)
{
    Rebuild r = rebuild_begin(g, c->scratch);
    for (int i = 0; i < r.n; i++) {
        Node *n = r.old[i];
        rebuild_operands(&r, n);
        Builder b = {.graph = g, .diag = c->diag, .loc = n->loc, .name = n->name, .why = n->why};
        Node *by = table[n->op] != NULL ? table[n->op](&b, n) : NULL;
        if (by != NULL) {
            rebuild_replace(&r, n, build_cast(&b, by, n->dtype));
        } else {
            rebuild_keep(&r, n);
        }
    }
    rebuild_end(&r);
}

bool pass_decompose(PassCtx *c)
{
    for (int i = 0; i < c->m->ngraphs; i++) {
        decompose_graph(c, c->m->graphs[i]);
    }
    return !diag_failed(c->diag) && pass_simplify(c);
}
