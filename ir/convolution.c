/* convolution.c: the three contractions over windows of images, taken apart.
 *
 * conv2d, conv_transpose2d and conv2d_weight_grad are one sum of products, image x * weight w * result y, solved for
 * one of the three each; so is each of their derivatives. Here is what they share: sizes, and the reference meaning.
 * The rules for users are in shape_conv.c, the kernel's view of a window in passes/conv_window.c. */
#include "ir/interp.h"

#include <string.h>

static void pair(const Attrs *as, AttrId id, int64_t otherwise, int64_t out[2])
{
    const Attr *a = attrs_find(as, id);
    out[0] = a != NULL && a->ints.n == 2 ? a->ints.v[0] : otherwise;
    out[1] = a != NULL && a->ints.n == 2 ? a->ints.v[1] : otherwise;
}

ConvSteps conv_steps(const Attrs *as)
{
    ConvSteps s = {.groups = attrs_int(as, ATTR_groups, 1),
                   .ceil_mode = attrs_bool(as, ATTR_ceil_mode)};
    pair(as, ATTR_kernel, 1, s.kernel);
    pair(as, ATTR_stride, 1, s.stride);
    pair(as, ATTR_padding, 0, s.padding);
    pair(as, ATTR_dilation, 1, s.dilation);
    pair(as, ATTR_output_padding, 0, s.output_padding);
    return s;
}

int64_t conv_length(const ConvSteps *s, int axis, int64_t length, int64_t kernel)
{
    int64_t step = s->stride[axis];
    int64_t room = length + 2 * s->padding[axis] - s->dilation[axis] * (kernel - 1) - 1;
    room += s->ceil_mode ? step - 1 : 0;
    int64_t n = room < 0 ? 0 : room / step + 1;
    /* A window that reaches beyond begins within the image or the padding before it. */
    return n - (s->ceil_mode && (n - 1) * step >= length + s->padding[axis]);
}

int64_t pool_count(const ConvSteps *s, bool exclude_pad, int axis, int64_t length, int64_t i)
{
    int64_t from = i * s->stride[axis] - s->padding[axis], to = from + s->kernel[axis];
    int64_t least = exclude_pad ? 0 : -s->padding[axis];
    int64_t most = length + (exclude_pad ? 0 : s->padding[axis]);
    return (to < most ? to : most) - (from > least ? from : least);
}

int64_t conv_transpose_length(const ConvSteps *s, int axis, int64_t length, int64_t kernel)
{
    return (length - 1) * s->stride[axis] - 2 * s->padding[axis] +
           s->dilation[axis] * (kernel - 1) + s->output_padding[axis] + 1;
}

Conv conv_of(const Node *n)
{
    const Node *x = n->in[0], *w = n->in[1], *y = n;
    if (n->op == OP_conv_transpose2d) {
        x = n;
        y = n->in[0];
    } else if (n->op == OP_conv2d_weight_grad) {
        x = n->in[1];
        w = n;
        y = n->in[0];
    }
    Conv c = {.steps = conv_steps(&n->attrs), .n = x->dims.d[0]};
    c.in = x->dims.d[1].k;
    c.out = y->dims.d[1].k;
    for (int i = 0; i < 2; i++) {
        c.image[i] = x->dims.d[2 + i].k;
        c.result[i] = y->dims.d[2 + i].k;
        c.steps.kernel[i] = w->dims.d[2 + i].k;
    }
    return c;
}

/* ---- the reference meaning --------------------------------------------------------------------------------- */

typedef struct ConvSum {
    Reals k;
    const Conv *c;
    const double *x, *w, *y; /* the one that is solved for is NULL */
    double *to;
} ConvSum;

static void add_product(const ConvSum *s, int64_t x, int64_t w, int64_t y)
{
    double a = s->x != NULL ? s->x[x] : s->y[y], b = s->w != NULL ? s->w[w] : s->y[y];
    double *to = &s->to[s->x == NULL ? x : s->w == NULL ? w : y];
    *to = reals_round(s->k, *to + reals_round(s->k, a * b));
}

/* All products of one channel of x with one of y: the windows over one image. */
static void add_windows(const ConvSum *s, int64_t image, int64_t weight, int64_t result)
{
    const Conv *c = s->c;
    const ConvSteps *t = &c->steps;
    for (int64_t i = 0; i < c->result[0] * c->result[1]; i++) {
        int64_t row = i / c->result[1] * t->stride[0] - t->padding[0];
        int64_t col = i % c->result[1] * t->stride[1] - t->padding[1];
        for (int64_t k = 0; k < t->kernel[0] * t->kernel[1]; k++) {
            int64_t r = row + k / t->kernel[1] * t->dilation[0];
            int64_t q = col + k % t->kernel[1] * t->dilation[1];
            if (r >= 0 && r < c->image[0] && q >= 0 && q < c->image[1]) {
                add_product(s, image + r * c->image[1] + q, weight + k, result + i);
            }
        }
    }
}

static void convolve(Run *r, const Node *n, ConvSum *s, Value *out, int64_t images)
{
    const Conv *c = s->c;
    int64_t in = c->in / c->steps.groups, each = c->out / c->steps.groups;
    int64_t area = c->image[0] * c->image[1], results = c->result[0] * c->result[1];
    int64_t window = c->steps.kernel[0] * c->steps.kernel[1];
    DType widest = dtype_widest(n->dtype, dtype_widest(n->in[0]->dtype, n->in[1]->dtype));
    s->k = reals_of(r, widest);
    memset(out->v, 0, (size_t)out->count * sizeof *out->v);
    s->to = out->v;
    for (int64_t b = 0; b < images; b++) {
        for (int64_t o = 0; o < c->out; o++) {
            for (int64_t i = 0; i < in; i++) {
                add_windows(s, (b * c->in + o / each * in + i) * area, (o * in + i) * window,
                            (b * c->out + o) * results);
            }
        }
    }
}

static void convert_all(Run *r, const Node *n, Value *out)
{
    for (int64_t i = 0; i < out->count; i++) {
        out->v[i] = run_convert(r, DT_f64, n->dtype, out->v[i]);
    }
}

void eval_conv2d(Run *r, const Node *n, Value *const *in, Value *out)
{
    Conv c = conv_of(n);
    ConvSum s = {.c = &c, .x = in[0]->v, .w = in[1]->v};
    convolve(r, n, &s, out, in[0]->dims[0]);
    int64_t results = c.result[0] * c.result[1];
    for (int64_t i = 0; n->nin == 3 && i < out->count; i++) {
        out->v[i] = reals_round(s.k, out->v[i] + in[2]->v[i / results % c.out]);
    }
    convert_all(r, n, out);
}

void eval_conv_transpose2d(Run *r, const Node *n, Value *const *in, Value *out)
{
    Conv c = conv_of(n);
    ConvSum s = {.c = &c, .w = in[1]->v, .y = in[0]->v};
    convolve(r, n, &s, out, in[0]->dims[0]);
    convert_all(r, n, out);
}

void eval_conv2d_weight_grad(Run *r, const Node *n, Value *const *in, Value *out)
{
    Conv c = conv_of(n);
    ConvSum s = {.c = &c, .x = in[1]->v, .y = in[0]->v};
    convolve(r, n, &s, out, in[0]->dims[0]);
    convert_all(r, n, out);
}
