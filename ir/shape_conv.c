/* shape_conv.c: which images, weights and steps make a convolution, and the shape of what comes of it. */
#include "ir/shape.h"

MPC_PRINTF(2, 3) static bool fail(Infer *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    f->scratch = f->scratch != NULL ? f->scratch : arena_new();
    const char *what = arena_vprintf(f->scratch, fmt, ap);
    va_end(ap);
    return shape_fail(f, what);
}

/* Images [n, channels, rows, columns] of a floating-point type and of known size. */
static bool want_images(Infer *f, int i)
{
    const Node *x = f->n->in[i];
    if (x->dims.rank != 4) {
        return fail(f, "wants images [n, channels, rows, columns]: %s", shape_is(f, i));
    }
    for (int k = 1; k < 4; k++) {
        if (!dim_is_const(x->dims.d[k])) {
            return fail(f, "axis %d has no fixed length: %s", k, shape_is(f, i));
        }
    }
    return dtype_info[x->dtype].is_float ||
           fail(f, "%s, and is not of a floating-point type", shape_is(f, i));
}

static bool want_steps(Infer *f, const ConvSteps *s)
{
    for (int i = 0; i < 2; i++) {
        if (s->stride[i] < 1 || s->dilation[i] < 1 || s->padding[i] < 0 ||
            s->output_padding[i] < 0 || s->kernel[i] < 1) {
            return fail(f, "stride, dilation and kernel are at least 1 and paddings at least 0");
        }
    }
    return s->groups > 0 || fail(f, "%lld groups", (long long)s->groups);
}

/* The weight of a convolution: of all its groups the channels of operand 0. */
static bool want_weight(Infer *f, const ConvSteps *s, bool transposed)
{
    const Dims *w = &f->n->in[1]->dims;
    int64_t have = f->n->in[0]->dims.d[1].k;
    if (w->rank != 4 || !dim_is_const(w->d[0]) || !dim_is_const(w->d[1]) ||
        !dim_is_const(w->d[2]) || !dim_is_const(w->d[3]) || w->d[2].k < 1 || w->d[3].k < 1) {
        return fail(f, "wants a weight [%s / groups, rows, columns]: %s",
                    transposed ? "in, out" : "out, in", shape_is(f, 1));
    }
    if (!dtype_info[f->n->in[1]->dtype].is_float) {
        return fail(f, "%s, and is not of a floating-point type", shape_is(f, 1));
    }
    int64_t want = transposed ? w->d[0].k : w->d[1].k * s->groups;
    if (have != want) {
        return fail(f, "channels differ: %s, %s wants %lld channels%s", shape_is(f, 0),
                    shape_is(f, 1), (long long)want, s->groups > 1 ? " in all groups" : "");
    }
    if (w->d[0].k % s->groups != 0) {
        return fail(f, "%lld channels do not make %lld groups: %s", (long long)w->d[0].k,
                    (long long)s->groups, shape_is(f, 1));
    }
    return true;
}

static bool conv_result(Infer *f, const ConvSteps *s, bool transposed)
{
    Node *n = f->n;
    const Dims *x = &n->in[0]->dims, *w = &n->in[1]->dims;
    Dims dims = {.rank = 4, .d = {x->d[0], transposed ? dim_of(w->d[1].k * s->groups) : w->d[0]}};
    for (int i = 0; i < 2; i++) {
        int64_t kernel = w->d[2 + i].k, length = x->d[2 + i].k;
        dims.d[2 + i] = dim_of(transposed ? conv_transpose_length(s, i, length, kernel)
                                          : conv_length(s, i, length, kernel));
        if (dims.d[2 + i].k < 1) {
            return fail(f, "the window does not fit: %s, %s", shape_is(f, 0), shape_is(f, 1));
        }
    }
    n->dims = dims;
    return true;
}

bool conv_shape(Infer *f)
{
    Node *n = f->n;
    ConvSteps s = conv_steps(&n->attrs);
    if (n->nin < 2 || n->nin > 3) {
        return fail(f, "takes x, weight and perhaps bias, not %d operands", n->nin);
    }
    if (!want_images(f, 0) || !want_steps(f, &s) || !want_weight(f, &s, false)) {
        return false;
    }
    const Dims *w = &n->in[1]->dims;
    if (n->nin == 3 && (n->in[2]->dims.rank != 1 || !dim_equal(n->in[2]->dims.d[0], w->d[0]))) {
        return fail(f, "%s, which does not fit the bias: %s", shape_is(f, 1), shape_is(f, 2));
    }
    return conv_result(f, &s, false);
}

bool conv_transpose_shape(Infer *f)
{
    ConvSteps s = conv_steps(&f->n->attrs);
    for (int i = 0; i < 2; i++) {
        if (s.output_padding[i] >= s.stride[i] && s.output_padding[i] >= s.dilation[i]) {
            return fail(f, "output_padding must be less than stride or dilation");
        }
    }
    return want_images(f, 0) && want_steps(f, &s) && want_weight(f, &s, true) &&
           conv_result(f, &s, true);
}

bool conv_weight_shape(Infer *f)
{
    Node *n = f->n;
    ConvSteps s = conv_steps(&n->attrs);
    if (!want_images(f, 0) || !want_images(f, 1) || !want_steps(f, &s)) {
        return false;
    }
    const Dims *y = &n->in[0]->dims, *x = &n->in[1]->dims;
    bool fits =
        dim_equal(y->d[0], x->d[0]) && x->d[1].k % s.groups == 0 && y->d[1].k % s.groups == 0;
    for (int i = 0; i < 2; i++) {
        fits = fits && y->d[2 + i].k == conv_length(&s, i, x->d[2 + i].k, s.kernel[i]);
    }
    if (!fits) {
        return fail(f, "%s, which is no result of windows over %s", shape_is(f, 0), shape_is(f, 1));
    }
    n->dims = (Dims){.rank = 4, .d = {y->d[1], dim_of(x->d[1].k / s.groups)}};
    n->dims.d[2] = dim_of(s.kernel[0]);
    n->dims.d[3] = dim_of(s.kernel[1]);
    return true;
}

static bool pool_dims(Infer *f, int i, Dims *dims)
{
    ConvSteps s = conv_steps(&f->n->attrs);
    if (!want_images(f, i) || !want_steps(f, &s)) {
        return false;
    }
    *dims = f->n->in[i]->dims;
    for (int k = 0; k < 2; k++) {
        if (2 * s.padding[k] > s.kernel[k]) {
            return fail(f, "padding is at most half of the window");
        }
        int64_t length = conv_length(&s, k, dims->d[2 + k].k, s.kernel[k]);
        if (length < 1) {
            return fail(f, "the window does not fit: %s", shape_is(f, i));
        }
        dims->d[2 + k] = dim_of(length);
    }
    return true;
}

bool shape_max_pool2d(Infer *f)
{
    f->n->dtype = f->n->in[0]->dtype;
    return pool_dims(f, 0, &f->n->dims);
}

bool shape_avg_pool2d(Infer *f)
{
    if (attrs_int(&f->n->attrs, ATTR_divisor, 1) == 0) {
        return fail(f, "divides by 0");
    }
    return shape_max_pool2d(f);
}

bool shape_avg_pool2d_grad(Infer *f)
{
    return shape_max_pool2d_grad(f);
}

bool shape_max_pool2d_grad(Infer *f)
{
    Node *n = f->n;
    Dims dims;
    if (!pool_dims(f, 1, &dims)) {
        return false;
    }
    if (!dims_equal(&dims, &n->in[0]->dims)) {
        return fail(f, "%s, which is no result of windows over %s", shape_is(f, 0), shape_is(f, 1));
    }
    n->dims = n->in[1]->dims;
    n->dtype = n->in[0]->dtype;
    return true;
}

bool shape_interleave(Infer *f)
{
    Node *n = f->n;
    ConvSteps s = conv_steps(&n->attrs);
    if (!want_images(f, 0) || !want_steps(f, &s)) {
        return false;
    }
    if (n->nin != s.stride[0] * s.stride[1]) {
        return fail(f, "%d operands, one for each of %lld x %lld places expected", n->nin,
                    (long long)s.stride[0], (long long)s.stride[1]);
    }
    n->dims = n->in[0]->dims;
    n->dtype = n->in[0]->dtype;
    for (int i = 1; i < n->nin; i++) {
        if (!dims_equal(&n->in[i]->dims, &n->dims) || n->in[i]->dtype != n->dtype) {
            return fail(f, "%s and %s cannot be woven", shape_is(f, 0), shape_is(f, i));
        }
    }
    for (int k = 0; k < 2; k++) {
        n->dims.d[2 + k].k *= s.stride[k];
    }
    return true;
}
