/* decompose_conv.c: a bias is added behind a convolution; in f64, for which micro-kernels have no tile, a convolution
 * becomes products and their sums, one for each element of the window.
 *
 * With g groups of O channels of y and C of x, the products of element (i, j) are
 *
 *   conv2d               x's slice [n, g, 1, C, (rows, columns of y)]     w[.., i, j] [1, g, O, C, 1, 1]
 *   conv_transpose2d     y's slice [n, g, O, 1, (rows, columns of x)]     w[.., i, j] [1, g, O, C, 1, 1]
 *   conv2d_weight_grad   x's slice [n, g, 1, C, (rows, columns of y)]     y [n, g, O, 1, (rows, columns)] */
#include "passes/decompose.h"

#include "ir/base/arena.h"

typedef struct Taps {
    Builder *b;
    Conv c;
    int64_t in, out; /* channels in a group */
} Taps;

static bool is_f64(const Node *n)
{
    DType dt = n->dtype;
    for (int i = 0; i < n->nin; i++) {
        dt = dtype_widest(dt, n->in[i]->dtype);
    }
    return dt == DT_f64;
}

static Taps taps_of(Builder *b, const Node *n)
{
    Taps t = {.b = b, .c = conv_of(n)};
    t.in = t.c.in / t.c.steps.groups;
    t.out = t.c.out / t.c.steps.groups;
    return t;
}

/* Row and column of element k of the window, from the first. */
static void offset_of(const Taps *t, int64_t k, int64_t at[2])
{
    const ConvSteps *s = &t->c.steps;
    at[0] = k / s->kernel[1] * s->dilation[0];
    at[1] = k % s->kernel[1] * s->dilation[1];
}

static int64_t window(const Taps *t)
{
    return t->c.steps.kernel[0] * t->c.steps.kernel[1];
}

/* [n, g * channels, r, c] as [n, g, .., r, c], the channels beside an axis of 1: O before C. */
static Node *grouped(const Taps *t, Node *x, bool of_y)
{
    Dims d = {.rank = 6, .d = {x->dims.d[0], dim_of(t->c.steps.groups)}};
    d.d[2] = dim_of(of_y ? t->out : 1);
    d.d[3] = dim_of(of_y ? 1 : t->in);
    d.d[4] = x->dims.d[2];
    d.d[5] = x->dims.d[3];
    return build_reshape(t->b, x, &d);
}

static Node *weight_tap(const Taps *t, Node *w, int64_t k)
{
    const ConvSteps *s = &t->c.steps;
    int64_t at[2] = {k / s->kernel[1], k % s->kernel[1]};
    for (int i = 0; i < 2; i++) {
        w = build_slice(t->b, w, 2 + i, at[i], at[i] + 1, 1);
    }
    Dims d = {.rank = 6, .d = {dim_of(1), dim_of(s->groups), dim_of(t->out), dim_of(t->in)}};
    d.d[4] = d.d[5] = dim_of(1);
    return build_reshape(t->b, w, &d);
}

/* Element k of all windows over x. */
static Node *image_tap(const Taps *t, Node *x, int64_t k)
{
    const ConvSteps *s = &t->c.steps;
    int64_t at[2];
    offset_of(t, k, at);
    for (int i = 0; i < 2; i++) {
        x = build_pad(t->b, x, 2 + i, s->padding[i], s->padding[i]);
        x = window_slice(t->b, x, s, i, at[i], t->c.result[i]);
    }
    return grouped(t, x, false);
}

/* What of y reaches each place of the image by element k: y with zeros between the steps, moved. */
static Node *result_tap(const Taps *t, Node *y, int64_t k)
{
    const ConvSteps *s = &t->c.steps;
    int64_t at[2];
    offset_of(t, k, at);
    for (int i = 0; i < 2; i++) {
        int axis = 2 + i;
        int64_t step = s->stride[i], length = (t->c.result[i] - 1) * step + 1;
        int64_t from = s->padding[i] - at[i], before = from < 0 ? -from : 0;
        int64_t after = from + t->c.image[i] - length;
        y = build_slice(t->b, build_spread(t->b, y, axis, step), axis, 0, length, 1);
        y = build_pad(t->b, y, axis, before, after > 0 ? after : 0);
        y = build_slice(t->b, y, axis, from + before, from + before + t->c.image[i], 1);
    }
    return grouped(t, y, true);
}

/* Sums over some axes of the products of all elements of the window, added. */
static Node *added(Builder *b, Node *sum, Node *x, Node *y, int64_t axis)
{
    Node *part = build_reduce(b, OP_sum, build2(b, OP_mul, x, y), 1, &axis, false);
    return sum == NULL ? part : build2(b, OP_add, sum, part);
}

static Node *convolve(Builder *b, const Node *n)
{
    Taps t = taps_of(b, n);
    Node *x = build_cast(b, n->in[0], DT_f64), *w = build_cast(b, n->in[1], DT_f64), *sum = NULL;
    bool forward = n->op == OP_conv2d;
    for (int64_t k = 0; k < window(&t); k++) {
        Node *tap = forward ? image_tap(&t, x, k) : result_tap(&t, x, k);
        sum = added(b, sum, tap, weight_tap(&t, w, k), forward ? 3 : 2);
    }
    return build_reshape(b, sum, &n->dims);
}

Node *decompose_conv2d(Builder *b, const Node *n)
{
    DType wide = is_f64(n) ? DT_f64 : DT_f32;
    if (n->nin == 2) {
        return wide == DT_f64 ? convolve(b, n) : NULL;
    }
    Dims channel = {.rank = 3, .d = {n->in[2]->dims.d[0], dim_of(1), dim_of(1)}};
    Node *y = wide == DT_f64 ? convolve(b, n) : build_conv(b, OP_conv2d, 2, n->in, n->attrs, wide);
    Node *bias = build_reshape(b, build_cast(b, n->in[2], wide), &channel);
    return build2(b, OP_add, y, bias);
}

Node *decompose_conv_transpose2d(Builder *b, const Node *n)
{
    return is_f64(n) ? convolve(b, n) : NULL;
}

Node *decompose_conv2d_weight_grad(Builder *b, const Node *n)
{
    static const int64_t places[] = {0, 4, 5};
    if (!is_f64(n)) {
        return NULL;
    }
    Taps t = taps_of(b, n);
    Arena *arena = b->graph->arena;
    Node *x = build_cast(b, n->in[1], DT_f64);
    Node *y = grouped(&t, build_cast(b, n->in[0], DT_f64), true);
    Node **part = ARENA_ARRAY(arena, Node *, window(&t));
    Dims tap = {.rank = 3, .d = {dim_of(t.c.out), dim_of(t.in), dim_of(1)}};
    for (int64_t k = 0; k < window(&t); k++) {
        Node *products = build2(b, OP_mul, y, image_tap(&t, x, k));
        part[k] = build_reshape(b, build_reduce(b, OP_sum, products, 3, places, false), &tap);
    }
    Attrs attrs = {0};
    attrs_set_int(arena, &attrs, ATTR_axis, 2);
    Node *all = window(&t) == 1 ? part[0] : build(b, OP_concat, (int)window(&t), part, attrs);
    return build_reshape(b, all, &n->dims);
}
