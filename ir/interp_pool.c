/* interp_pool.c: the reference meaning of pools, and of what their gradients are put together with. */
#include "ir/interp.h"

#include <math.h>

/* Index of the first largest element of the window at result i of a plane; -1: there is none. */
static int64_t first_largest(const ConvSteps *s, const double *x, int64_t rows, int64_t cols,
                             int64_t row, int64_t col)
{
    int64_t best = -1;
    for (int64_t k = 0; k < s->kernel[0] * s->kernel[1]; k++) {
        int64_t r = row * s->stride[0] - s->padding[0] + k / s->kernel[1] * s->dilation[0];
        int64_t q = col * s->stride[1] - s->padding[1] + k % s->kernel[1] * s->dilation[1];
        if (r < 0 || r >= rows || q < 0 || q >= cols) {
            continue;
        }
        double v = x[r * cols + q];
        if (best < 0 || v > x[best] || (isnan(v) && !isnan(x[best]))) {
            best = r * cols + q;
        }
    }
    return best;
}

void eval_max_pool2d(Run *r, const Node *n, Value *const *in, Value *out)
{
    (void)r;
    const Value *x = in[0];
    ConvSteps s = conv_steps(&n->attrs);
    int64_t area = x->dims[2] * x->dims[3], results = out->dims[2] * out->dims[3];
    for (int64_t i = 0; i < out->count; i++) {
        const double *plane = x->v + i / results * area;
        int64_t at = first_largest(&s, plane, x->dims[2], x->dims[3], i % results / out->dims[3],
                                   i % out->dims[3]);
        out->v[i] = at < 0 ? -(double)INFINITY : plane[at];
    }
}

void eval_max_pool2d_grad(Run *r, const Node *n, Value *const *in, Value *out)
{
    const Value *dy = in[0], *x = in[1];
    ConvSteps s = conv_steps(&n->attrs);
    Reals k = reals_of(r, n->dtype);
    int64_t area = x->dims[2] * x->dims[3], results = dy->dims[2] * dy->dims[3];
    for (int64_t i = 0; i < dy->count; i++) {
        int64_t start = i / results * area;
        int64_t at = first_largest(&s, x->v + start, x->dims[2], x->dims[3],
                                   i % results / dy->dims[3], i % dy->dims[3]);
        if (at >= 0) {
            out->v[start + at] = reals_round(k, out->v[start + at] + dy->v[i]);
        }
    }
    for (int64_t i = 0; i < out->count; i++) {
        out->v[i] = run_convert(r, DT_f64, n->dtype, out->v[i]);
    }
}

void eval_interleave(Run *r, const Node *n, Value *const *in, Value *out)
{
    (void)r;
    ConvSteps s = conv_steps(&n->attrs);
    int64_t rows = out->dims[2], cols = out->dims[3];
    for (int64_t i = 0; i < out->count; i++) {
        int64_t row = i / cols % rows, col = i % cols, plane = i / cols / rows;
        const Value *part = in[row % s.stride[0] * s.stride[1] + col % s.stride[1]];
        out->v[i] = part->v[(plane * part->dims[2] + row / s.stride[0]) * part->dims[3] +
                            col / s.stride[1]];
    }
}

/* ---- means ------------------------------------------------------------------------------------------------- */

/* The windows over one plane: their sums into y, or a share of y into each of their elements. */
typedef struct Means {
    Reals k;
    ConvSteps s;
    bool exclude_pad;
    int64_t divisor; /* 0: what a window counts */
    int64_t image[2], result[2];
} Means;

static Means means_of(Run *r, const Node *n, const Value *x, const Value *y)
{
    Means m = {.k = reals_of(r, n->dtype),
               .s = conv_steps(&n->attrs),
               .exclude_pad = attrs_bool(&n->attrs, ATTR_exclude_pad),
               .divisor = attrs_int(&n->attrs, ATTR_divisor, 0)};
    for (int i = 0; i < 2; i++) {
        m.image[i] = x->dims[2 + i];
        m.result[i] = y->dims[2 + i];
    }
    return m;
}

/* Element k of window i in its plane; -1: outside. */
static int64_t element_at(const Means *m, int64_t i, int64_t k)
{
    int64_t row = i / m->result[1] * m->s.stride[0] - m->s.padding[0] + k / m->s.kernel[1];
    int64_t col = i % m->result[1] * m->s.stride[1] - m->s.padding[1] + k % m->s.kernel[1];
    bool inside = row >= 0 && row < m->image[0] && col >= 0 && col < m->image[1];
    return inside ? row * m->image[1] + col : -1;
}

static double divisor_of(const Means *m, int64_t i)
{
    int64_t rows = pool_count(&m->s, m->exclude_pad, 0, m->image[0], i / m->result[1]);
    int64_t cols = pool_count(&m->s, m->exclude_pad, 1, m->image[1], i % m->result[1]);
    return (double)(m->divisor != 0 ? m->divisor : rows * cols);
}

void eval_avg_pool2d(Run *r, const Node *n, Value *const *in, Value *out)
{
    Means m = means_of(r, n, in[0], out);
    int64_t area = m.image[0] * m.image[1], results = m.result[0] * m.result[1];
    for (int64_t i = 0; i < out->count; i++) {
        const double *plane = in[0]->v + i / results * area;
        double sum = 0;
        for (int64_t k = 0; k < m.s.kernel[0] * m.s.kernel[1]; k++) {
            int64_t at = element_at(&m, i % results, k);
            sum = at < 0 ? sum : reals_round(m.k, sum + plane[at]);
        }
        double mean = reals_round(m.k, sum / divisor_of(&m, i % results));
        out->v[i] = run_convert(r, DT_f64, n->dtype, mean);
    }
}

void eval_avg_pool2d_grad(Run *r, const Node *n, Value *const *in, Value *out)
{
    const Value *dy = in[0];
    Means m = means_of(r, n, in[1], dy);
    int64_t area = m.image[0] * m.image[1], results = m.result[0] * m.result[1];
    for (int64_t i = 0; i < dy->count; i++) {
        double *plane = out->v + i / results * area;
        double share = reals_round(m.k, dy->v[i] / divisor_of(&m, i % results));
        for (int64_t k = 0; k < m.s.kernel[0] * m.s.kernel[1]; k++) {
            int64_t at = element_at(&m, i % results, k);
            if (at >= 0) {
                plane[at] = reals_round(m.k, plane[at] + share);
            }
        }
    }
    for (int64_t i = 0; i < out->count; i++) {
        out->v[i] = run_convert(r, DT_f64, n->dtype, out->v[i]);
    }
}
