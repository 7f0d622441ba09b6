/* random_images.c: steps of random graphs over images: convolutions, pools, norms. */
#include "tests/ops/random_maker.h"

static void set_pair(Maker *m, Attrs *as, AttrId id, int64_t rows, int64_t columns)
{
    attrs_set_ints(m->p->arena, as, id, 2, (int64_t[]){rows, columns});
}

/* [B, 12] as [B, 2, 3, 2]; NULL: x has no batch, or nothing to make images of. */
static Node *images_of_batch(Maker *m, Node *x)
{
    Dims d = {.rank = 4, .d = {x->dims.d[0]}};
    int64_t left = 1;
    if (x->dims.rank < 1 || dim_is_const(d.d[0]) || d.d[0].k != 1 || d.d[0].sym[1] != 0) {
        return NULL;
    }
    for (int i = 1; i < x->dims.rank; i++) {
        if (!dim_is_const(x->dims.d[i])) {
            return NULL;
        }
        left *= x->dims.d[i].k;
    }
    for (int i = 1; i < 3; i++) {
        int64_t n = 1 + pick(m, 4);
        n = left % n == 0 ? n : 1;
        d.d[i] = dim_of(n);
        left /= n;
    }
    d.d[3] = dim_of(left);
    return build_reshape(&m->b, x, &d);
}

/* Images with so many channels times what they are wanted for. */
static Node *images(Maker *m)
{
    Node *x = real(m);
    bool fits = x->dims.rank == 4;
    for (int i = 1; fits && i < 4; i++) {
        fits = dim_is_const(x->dims.d[i]);
    }
    Node *batch = fits ? NULL : images_of_batch(m, x);
    if (fits || batch != NULL) {
        return fits ? x : batch;
    }
    Dims d = {.rank = 4, .d = {dim_of(1 + pick(m, 3)), dim_of(1 + pick(m, 6))}};
    d.d[2] = dim_of(1 + pick(m, 9));
    d.d[3] = dim_of(1 + pick(m, 17));
    return float_input(m, &d);
}

/* 1, all channels, or what divides both numbers of channels. */
static int64_t groups(Maker *m, int64_t channels)
{
    int64_t n = once_in(m, 2) ? 1 : once_in(m, 2) ? channels : 2;
    return channels % n == 0 ? n : 1;
}

static Attrs steps(Maker *m, const int64_t kernel[2])
{
    Attrs as = {0};
    set_pair(m, &as, ATTR_stride, 1 + pick(m, 3), 1 + pick(m, 2));
    set_pair(m, &as, ATTR_padding, pick(m, (int)kernel[0]), pick(m, (int)kernel[1]));
    set_pair(m, &as, ATTR_dilation, 1 + pick(m, 2), once_in(m, 3) ? 2 : 1);
    return as;
}

/* A convolution of x gives images of sizes from 1 to what a graph may hold. */
static bool fits(const Attrs *as, const Node *x, const int64_t kernel[2], bool transposed)
{
    ConvSteps s = conv_steps(as);
    int64_t count = 1;
    for (int i = 0; i < 2; i++) {
        int64_t n = x->dims.d[2 + i].k;
        n = transposed ? conv_transpose_length(&s, i, n, kernel[i])
                       : conv_length(&s, i, n, kernel[i]);
        count *= n;
        if (n < 1) {
            return false;
        }
    }
    return count <= 400;
}

static Node *weight(Maker *m, const Node *x, int64_t a, int64_t b, const int64_t kernel[2])
{
    Dims d = {.rank = 4, .d = {dim_of(a), dim_of(b), dim_of(kernel[0]), dim_of(kernel[1])}};
    return build_cast(&m->b, float_input(m, &d), x->dtype);
}

Node *step_conv(Maker *m)
{
    Node *x = images(m);
    int64_t kernel[2] = {1 + pick(m, 3), 1 + pick(m, 3)}, in = x->dims.d[1].k, n = groups(m, in);
    int64_t out = n * (1 + pick(m, 4));
    Attrs as = steps(m, kernel);
    attrs_set_int(m->p->arena, &as, ATTR_groups, n);
    if (!fits(&as, x, kernel, false)) {
        return NULL;
    }
    Dims channels = {.rank = 1, .d = {dim_of(out)}};
    bool biased = once_in(m, 2);
    Node *operands[3] = {x, weight(m, x, out, in / n, kernel)};
    operands[2] = biased ? build_cast(&m->b, float_input(m, &channels), x->dtype) : NULL;
    Node *y = build(&m->b, OP_conv2d, biased ? 3 : 2, operands, as);
    return once_in(m, 3) ? op1(m, OP_relu, y) : y;
}

Node *step_conv_transpose(Maker *m)
{
    Node *x = images(m);
    int64_t kernel[2] = {1 + pick(m, 3), 1 + pick(m, 3)}, in = x->dims.d[1].k, n = groups(m, in);
    Attrs as = steps(m, kernel);
    ConvSteps s = conv_steps(&as);
    attrs_set_int(m->p->arena, &as, ATTR_groups, n);
    set_pair(m, &as, ATTR_output_padding, pick(m, (int)s.stride[0]), pick(m, (int)s.stride[1]));
    if (!fits(&as, x, kernel, true)) {
        return NULL;
    }
    Node *operands[] = {x, weight(m, x, in, 1 + pick(m, 4), kernel)};
    return build(&m->b, OP_conv_transpose2d, 2, operands, as);
}

static Node *pool(Maker *m, Op op)
{
    Node *x = images(m);
    int64_t kernel[2] = {1 + pick(m, 3), 1 + pick(m, 3)};
    bool tiles = once_in(m, 2);
    Attrs as = {0};
    set_pair(m, &as, ATTR_kernel, kernel[0], kernel[1]);
    set_pair(m, &as, ATTR_stride, tiles ? kernel[0] : 1 + pick(m, 3),
             tiles ? kernel[1] : 1 + pick(m, 3));
    if (!tiles) {
        set_pair(m, &as, ATTR_padding, pick(m, (int)kernel[0] / 2 + 1),
                 pick(m, (int)kernel[1] / 2 + 1));
    }
    attrs_set_bool(m->p->arena, &as, ATTR_ceil_mode, once_in(m, 3));
    if (op == OP_avg_pool2d) {
        attrs_set_bool(m->p->arena, &as, ATTR_exclude_pad, once_in(m, 3));
        if (once_in(m, 5)) {
            attrs_set_int(m->p->arena, &as, ATTR_divisor, 3);
        }
    } else if (once_in(m, 4)) {
        set_pair(m, &as, ATTR_dilation, 2, 1);
    }
    return fits(&as, x, kernel, false) ? build(&m->b, op, 1, &x, as) : NULL;
}

Node *step_max_pool(Maker *m)
{
    return pool(m, OP_max_pool2d);
}

Node *step_avg_pool(Maker *m)
{
    return pool(m, OP_avg_pool2d);
}

/* By the statistics of the batch, with the mean's sum in f64. */
Node *step_batch_norm(Maker *m)
{
    static const int64_t axes[] = {0, 2, 3};
    Node *x = images(m);
    Dims channel = {.rank = 3, .d = {x->dims.d[1], dim_of(1), dim_of(1)}};
    Node *wide = build_cast(&m->b, x, DT_f64);
    Node *mean = build_reduce(&m->b, OP_mean, wide, 3, axes, true);
    mean = build_cast(&m->b, mean, x->dtype == DT_f64 ? DT_f64 : DT_f32);
    Node *far = op1(m, OP_square, op2(m, OP_sub, x, op1(m, OP_detach, mean)));
    Node *spread = build_reduce(&m->b, OP_mean, far, 3, axes, true);
    Node *root = op1(m, OP_rsqrt, op2(m, OP_add, spread, constant(m, 0.5)));
    Node *y = op2(m, OP_mul, op2(m, OP_sub, x, mean), root);
    return once_in(m, 2) ? y : op2(m, OP_mul, y, float_input(m, &channel));
}
