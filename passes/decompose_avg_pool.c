/* decompose_avg_pool.c: the mean of each window of an image, and its gradient, as maps over slices.
 *
 * Windows that do not overlap and leave nothing between them tile the image: their means are means over two axes, the
 * gradient is spread by a broadcast. Else element (i, j) of all windows at once is a strided slice of the image with
 * zeros around it; in the gradient each share is put where such a slice came from. All in f32 (f64 for f64), rounded
 * once. */
#include "passes/decompose.h"

typedef struct Means {
    Builder *b;
    ConvSteps s;
    bool exclude_pad;
    int64_t divisor; /* 0: what a window counts */
    int64_t image[2], result[2];
} Means;

static Means means_of(Builder *b, const Node *n, const Node *x, const Node *y)
{
    Means m = {.b = b,
               .s = conv_steps(&n->attrs),
               .exclude_pad = attrs_bool(&n->attrs, ATTR_exclude_pad),
               .divisor = attrs_int(&n->attrs, ATTR_divisor, 0)};
    for (int i = 0; i < 2; i++) {
        m.image[i] = x->dims.d[2 + i].k;
        m.result[i] = y->dims.d[2 + i].k;
    }
    return m;
}

static bool tiles(const Means *m)
{
    bool all = m->divisor == 0;
    for (int i = 0; i < 2; i++) {
        all = all && m->s.stride[i] == m->s.kernel[i] && m->s.padding[i] == 0 &&
              m->result[i] * m->s.kernel[i] <= m->image[i];
    }
    return all;
}

static Node *wide(const Means *m, Node *x)
{
    return build_cast(m->b, x, x->dtype == DT_f64 ? DT_f64 : DT_f32);
}

/* [n, c, rows, kernel, columns, kernel], or with axes of 1 in the place of the kernel's. */
static Dims apart(const Means *m, const Node *x, bool kernel)
{
    Dims d = {.rank = 6, .d = {x->dims.d[0], x->dims.d[1]}};
    for (int i = 0; i < 2; i++) {
        d.d[2 + 2 * i] = dim_of(m->result[i]);
        d.d[3 + 2 * i] = dim_of(kernel ? m->s.kernel[i] : 1);
    }
    return d;
}

/* ---- what sums are divided by ------------------------------------------------------------------------------ */

/* Along one axis, as a scalar where all windows count the same, else [1, 1, rows, 1] or [1, 1, 1, columns]. */
static Node *counts(const Means *m, int axis, DType dt)
{
    Builder *b = m->b;
    const ConvSteps *s = &m->s;
    int64_t first = pool_count(s, m->exclude_pad, axis, m->image[axis], 0);
    bool same = true;
    for (int64_t i = 1; i < m->result[axis]; i++) {
        same = same && pool_count(s, m->exclude_pad, axis, m->image[axis], i) == first;
    }
    if (same) {
        return build_const(b, dt, (double)first);
    }
    Dims line = {.rank = 4, .d = {dim_of(1), dim_of(1), dim_of(1), dim_of(1)}};
    Attrs attrs = {0};
    attrs_set_int(b->graph->arena, &attrs, ATTR_axis, 2 + axis);
    line.d[2 + axis] = dim_of(m->result[axis]);
    int64_t pad = s->padding[axis], over = m->exclude_pad ? 0 : pad;
    Node *from = build2(b, OP_mul, build_like(b, DT_i32, &line, OP_iota, attrs),
                        build_const(b, DT_i32, (double)s->stride[axis]));
    from = build2(b, OP_sub, from, build_const(b, DT_i32, (double)pad));
    Node *to = build2(b, OP_add, from, build_const(b, DT_i32, (double)s->kernel[axis]));
    Node *most = build_const(b, DT_i32, (double)(m->image[axis] + over));
    Node *least = build_const(b, DT_i32, (double)-over);
    Node *count =
        build2(b, OP_sub, build2(b, OP_minimum, to, most), build2(b, OP_maximum, from, least));
    return build_cast(b, count, dt);
}

static Node *divided(const Means *m, Node *x)
{
    if (m->divisor != 0) {
        return build2(m->b, OP_div, x, build_const(m->b, x->dtype, (double)m->divisor));
    }
    Node *rows = counts(m, 0, x->dtype), *columns = counts(m, 1, x->dtype);
    if (rows->op == OP_const && columns->op == OP_const) {
        double n =
            attrs_float(&rows->attrs, ATTR_value, 1) * attrs_float(&columns->attrs, ATTR_value, 1);
        return build2(m->b, OP_mul, x, build_const(m->b, x->dtype, 1 / n));
    }
    return build2(m->b, OP_div, x, build2(m->b, OP_mul, rows, columns));
}

/* ---- windows ----------------------------------------------------------------------------------------------- */

/* How long the image and what is around it are. */
static int64_t reach(const Means *m, int i)
{
    return window_reach(&m->s, i, m->image[i], m->result[i]);
}

static Node *sums(const Means *m, Node *x)
{
    Node *sum = NULL;
    for (int i = 0; i < 2; i++) {
        int64_t before = m->s.padding[i];
        x = build_pad(m->b, x, 2 + i, before, reach(m, i) - before - m->image[i]);
    }
    for (int64_t k = 0; k < m->s.kernel[0] * m->s.kernel[1]; k++) {
        int64_t at[2] = {k / m->s.kernel[1], k % m->s.kernel[1]};
        Node *y = x;
        for (int i = 0; i < 2; i++) {
            y = window_slice(m->b, y, &m->s, i, at[i], m->result[i]);
        }
        sum = sum == NULL ? y : build2(m->b, OP_add, sum, y);
    }
    return sum;
}

Node *decompose_avg_pool2d(Builder *b, const Node *n)
{
    Node *x = n->in[0];
    Means m = means_of(b, n, x, n);
    x = wide(&m, x);
    if (!tiles(&m)) {
        return build_cast(b, divided(&m, sums(&m, x)), n->dtype);
    }
    for (int i = 0; i < 2; i++) {
        x = build_slice(b, x, 2 + i, 0, m.result[i] * m.s.kernel[i], 1);
    }
    Dims windows = apart(&m, x, true);
    x = build_reshape(b, x, &windows);
    return build_cast(b, build_reduce(b, OP_mean, x, 2, (int64_t[]){3, 5}, false), n->dtype);
}

/* ---- the gradient ------------------------------------------------------------------------------------------ */

/* x[.., i, ..] at start + i * stride of an axis as long as the image and what is around it, then of the image. */
static Node *placed(const Means *m, Node *x, int i, int64_t start)
{
    int axis = 2 + i;
    int64_t step = m->s.stride[i], length = reach(m, i), last = (m->result[i] - 1) * step + 1;
    x = build_slice(m->b, build_spread(m->b, x, axis, step), axis, 0, last, 1);
    x = build_pad(m->b, x, axis, start, length - start - last);
    return build_slice(m->b, x, axis, m->s.padding[i], m->s.padding[i] + m->image[i], 1);
}

static Node *shares(const Means *m, Node *dy)
{
    Node *sum = NULL;
    for (int64_t k = 0; k < m->s.kernel[0] * m->s.kernel[1]; k++) {
        Node *x = placed(m, dy, 0, k / m->s.kernel[1]);
        x = placed(m, x, 1, k % m->s.kernel[1]);
        sum = sum == NULL ? x : build2(m->b, OP_add, sum, x);
    }
    return sum;
}

Node *decompose_avg_pool2d_grad(Builder *b, const Node *n)
{
    Node *dy = n->in[0];
    Means m = means_of(b, n, n->in[1], dy);
    Node *dx = divided(&m, wide(&m, dy));
    if (!tiles(&m)) {
        return build_cast(b, shares(&m, dx), n->dtype);
    }
    Dims one = apart(&m, dy, false), all = apart(&m, dy, true), image = dy->dims;
    dx = build_cast(b, build_expand(b, build_reshape(b, dx, &one), &all), n->dtype);
    for (int i = 0; i < 2; i++) {
        image.d[2 + i].k *= m.s.kernel[i];
    }
    dx = build_reshape(b, dx, &image);
    for (int i = 0; i < 2; i++) {
        dx = build_pad(b, dx, 2 + i, 0, m.image[i] - image.d[2 + i].k);
    }
    return dx;
}
