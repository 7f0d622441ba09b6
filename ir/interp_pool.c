/* interp_pool.c: the reference meaning of pools, and of what their gradients are put together with. */
#include "ir/interp.h"

#include <math.h>

/* The windows of a pool over planes; what means divide by. */
typedef struct Pool {
    Reals k;
    ConvSteps s;
    bool exclude_pad;
    int64_t divisor; /* 0: what a window counts */
    int64_t image[2], result[2];
} Pool;

static Pool pool_of(Run *r, const Node *n, const Value *x, const Value *y)
{
    Pool p = {.k = reals_of(r, n->dtype),
              .s = conv_steps(&n->attrs),
              .exclude_pad = attrs_bool(&n->attrs, ATTR_exclude_pad),
              .divisor = attrs_int(&n->attrs, ATTR_divisor, 0)};
    for (int i = 0; i < 2; i++) {
        p.image[i] = x->dims[2 + i];
        p.result[i] = y->dims[2 + i];
    }
    return p;
}

/* Element k of window i in its plane; -1: outside. */
static int64_t element_at(const Pool *p, int64_t i, int64_t k)
{
    int64_t row =
        i / p->result[1] * p->s.stride[0] - p->s.padding[0] + k / p->s.kernel[1] * p->s.dilation[0];
    int64_t col =
        i % p->result[1] * p->s.stride[1] - p->s.padding[1] + k % p->s.kernel[1] * p->s.dilation[1];
    bool inside = row >= 0 && row < p->image[0] && col >= 0 && col < p->image[1];
    return inside ? row * p->image[1] + col : -1;
}

/* ---- largest ----------------------------------------------------------------------------------------------- */

void eval_max_pool2d(Run *r, const Node *n, Value *const *in, Value *out)
{
    Pool p = pool_of(r, n, in[0], out);
    int64_t area = p.image[0] * p.image[1], results = p.result[0] * p.result[1];
    for (int64_t i = 0; i < out->count; i++) {
        const double *plane = in[0]->v + i / results * area;
        double most = -(double)INFINITY;
        for (int64_t k = 0; k < p.s.kernel[0] * p.s.kernel[1]; k++) {
            int64_t at = element_at(&p, i % results, k);
            most = at < 0 ? most : map_apply(OP_maximum, false, most, plane[at], 0);
        }
        out->v[i] = most;
    }
}

/* Where the first largest element of window i is in its plane; -1: there is none. */
static int64_t first_largest(const Pool *p, const double *x, int64_t i)
{
    int64_t best = -1;
    for (int64_t k = 0; k < p->s.kernel[0] * p->s.kernel[1]; k++) {
        int64_t at = element_at(p, i, k);
        if (at >= 0 && (best < 0 || x[at] > x[best] || (isnan(x[at]) && !isnan(x[best])))) {
            best = at;
        }
    }
    return best;
}

void eval_max_pool2d_grad(Run *r, const Node *n, Value *const *in, Value *out)
{
    const Value *dy = in[0], *x = in[1];
    Pool p = pool_of(r, n, x, dy);
    int64_t area = p.image[0] * p.image[1], results = p.result[0] * p.result[1];
    for (int64_t i = 0; i < dy->count; i++) {
        int64_t start = i / results * area;
        int64_t at = first_largest(&p, x->v + start, i % results);
        if (at >= 0) {
            out->v[start + at] = reals_round(p.k, out->v[start + at] + dy->v[i]);
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

static double divisor_of(const Pool *p, int64_t i)
{
    int64_t rows = pool_count(&p->s, p->exclude_pad, 0, p->image[0], i / p->result[1]);
    int64_t cols = pool_count(&p->s, p->exclude_pad, 1, p->image[1], i % p->result[1]);
    return (double)(p->divisor != 0 ? p->divisor : rows * cols);
}

void eval_avg_pool2d(Run *r, const Node *n, Value *const *in, Value *out)
{
    Pool p = pool_of(r, n, in[0], out);
    int64_t area = p.image[0] * p.image[1], results = p.result[0] * p.result[1];
    for (int64_t i = 0; i < out->count; i++) {
        const double *plane = in[0]->v + i / results * area;
        double sum = 0;
        for (int64_t k = 0; k < p.s.kernel[0] * p.s.kernel[1]; k++) {
            int64_t at = element_at(&p, i % results, k);
            sum = at < 0 ? sum : reals_round(p.k, sum + plane[at]);
        }
        double mean = reals_round(p.k, sum / divisor_of(&p, i % results));
        out->v[i] = run_convert(r, DT_f64, n->dtype, mean);
    }
}

void eval_avg_pool2d_grad(Run *r, const Node *n, Value *const *in, Value *out)
{
    const Value *dy = in[0];
    Pool p = pool_of(r, n, in[1], dy);
    int64_t area = p.image[0] * p.image[1], results = p.result[0] * p.result[1];
    for (int64_t i = 0; i < dy->count; i++) {
        double *plane = out->v + i / results * area;
        double share = reals_round(p.k, dy->v[i] / divisor_of(&p, i % results));
        for (int64_t k = 0; k < p.s.kernel[0] * p.s.kernel[1]; k++) {
            int64_t at = element_at(&p, i % results, k);
            if (at >= 0) {
                plane[at] = reals_round(p.k, plane[at] + share);
            }
        }
    }
    for (int64_t i = 0; i < out->count; i++) {
        out->v[i] = run_convert(r, DT_f64, n->dtype, out->v[i]);
    }
}
