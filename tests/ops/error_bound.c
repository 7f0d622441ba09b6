/* error_bound.c: see error_bound.h. Linear ops (moves, sums, products) are run by the interpreter itself, with
 * bounds and magnitudes in place of values. */
#include "tests/ops/error_bound.h"

#include <math.h>
#include <string.h>

#include "ir/interp.h"

typedef struct Bounds {
    Arena *arena;
    const Interp *interp;
    const Graph *g;
    Value *const *v; /* values */
    Value **e;       /* bounds, by node id */
} Bounds;

/* Half a unit in the last place of 1. */
static double unit(DType dt)
{
    switch (dt) {
    case DT_f64: return 0x1p-53;
    case DT_f16: return 0x1p-11;
    case DT_bf16: return 0x1p-8;
    case DT_f32: return 0x1p-24;
    default: return 0;
    }
}

static double smallest(DType dt)
{
    return dt == DT_f64 ? 0x1p-1074 : dt == DT_f16 ? 0x1p-24 : dt == DT_bf16 ? 0x1p-133 : 0x1p-149;
}

/* Two roundings to dt of numbers that differ by `spread` around y. */
static double rounded(DType dt, double spread, double y)
{
    if (!dtype_info[dt].is_float) {
        return spread == 0 ? 0 : ceil(spread) + 1;
    }
    return spread + 2 * unit(dt) * (fabs(y) + spread) + smallest(dt);
}

static bool is_exact(const Value *e)
{
    for (int64_t i = 0; i < e->count; i++) {
        if (e->v[i] != 0) {
            return false;
        }
    }
    return true;
}

/* ---- element-wise ops ------------------------------------------------------------------------ */

/* Functions whose largest change within an interval is not at its ends, by their steepest slope. */
static double slope(Op op)
{
    switch (op) {
    case OP_sin:
    case OP_cos: return 1;
    case OP_gelu:
    case OP_gelu_tanh:
    case OP_silu: return 1.2;
    default: return 0;
    }
}

/* Errors of the functions of scalar.h, in units of the last place; 0 where one rounding is all. */
static double function_error(Op op)
{
    switch (op) {
    case OP_neg:
    case OP_abs:
    case OP_add:
    case OP_sub:
    case OP_mul:
    case OP_div:
    case OP_square:
    case OP_sqrt:
    case OP_relu:
    case OP_maximum:
    case OP_minimum:
    case OP_where:
    case OP_clamp:
    case OP_leaky_relu: return 0;
    default: return 16;
    }
}

static bool has_pole(Op op, const double *x, const double *e)
{
    int at = op == OP_div ? 1 : 0;
    bool pole = op == OP_div || op == OP_rsqrt || op == OP_reciprocal || op == OP_log;
    return (pole && fabs(x[at]) <= e[at]) || (op == OP_log1p && x[0] - e[0] <= -1) ||
           (op == OP_pow && e[1] > 0);
}

/* The largest change of op within the operands' bounds, at the ends of their intervals. */
static double spread(Op op, int nin, const double *x, const double *e)
{
    if (op == OP_where && e[0] == 0) {
        return e[x[0] != 0 ? 1 : 2];
    }
    if ((op == OP_eq || op == OP_ne) && fabs(x[0] - x[1]) <= e[0] + e[1]) {
        return 1;
    }
    if (has_pole(op, x, e)) {
        return INFINITY;
    }
    double most = slope(op) * e[0], y = map_apply(op, false, x[0], x[1], x[2]);
    for (int corner = 0; corner < 1 << nin; corner++) {
        double at[3] = {0};
        for (int i = 0; i < nin; i++) {
            at[i] = x[i] + (corner >> i & 1 ? e[i] : -e[i]);
        }
        double d = fabs(map_apply(op, false, at[0], at[1], at[2]) - y);
        most = isnan(d) ? INFINITY : fmax(most, d);
    }
    return most;
}

/* The element of an operand that broadcasts to element i of n. */
static int64_t element(const Value *out, const Value *x, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int k = out->rank - 1; k >= 0; k--) {
        int own = k - (out->rank - x->rank);
        int64_t index = i % out->dims[k];
        i /= out->dims[k];
        if (own >= 0) {
            at += x->dims[own] == 1 ? 0 : index * step;
            step *= x->dims[own];
        }
    }
    return at;
}

static void bound_map(Bounds *b, const Node *n, Value *e)
{
    const Value *y = b->v[n->id];
    for (int64_t i = 0; i < e->count; i++) {
        double x[3] = {0}, d[3] = {0};
        bool moved = false;
        for (int k = 0; k < n->nin; k++) {
            const Value *in = b->v[n->in[k]->id];
            int64_t at = element(y, in, i);
            x[k] = in->v[at];
            d[k] = b->e[n->in[k]->id]->v[at];
            d[k] += d[k] > 0 && in->dtype != map_dtype(n) ? unit(map_dtype(n)) * fabs(x[k]) : 0;
            moved = moved || d[k] > 0;
        }
        if (!moved) {
            continue;
        }
        if (!isfinite(y->v[i])) {
            e->v[i] = INFINITY;
            continue;
        }
        double s = spread(n->op, n->nin, x, d);
        double f = function_error(n->op) * unit(map_dtype(n)) * (fabs(y->v[i]) + s);
        e->v[i] = op_is_predicate(n->op) ? (s > 0) : rounded(n->dtype, s + 2 * f, y->v[i]);
    }
}

static void bound_cast(Bounds *b, const Node *n, Value *e)
{
    const Value *d = b->e[n->in[0]->id];
    for (int64_t i = 0; i < e->count; i++) {
        e->v[i] = d->v[i] == 0 ? 0 : rounded(n->dtype, d->v[i], b->v[n->id]->v[i]);
    }
}

/* ---- by the interpreter ---------------------------------------------------------------------- */

typedef enum What { VALUE, BOUND, MAGNITUDE, WORST } What;

/* |x|, the bound e, or |x| + e in place of x */
static Value *as(Bounds *b, const Node *n, What what)
{
    const Value *v = b->v[n->id], *e = b->e[n->id];
    Value *r = value_new(b->arena, v->dtype, v->rank, v->dims);
    for (int64_t i = 0; i < r->count; i++) {
        double x = fabs(v->v[i]);
        r->v[i] = what == VALUE       ? v->v[i]
                  : what == BOUND     ? e->v[i]
                  : what == MAGNITUDE ? x
                                      : x + e->v[i];
    }
    return r;
}

/* op of n over such operands; what[k] says which. */
static Value *run_as(Bounds *b, const Node *n, Op op, const What *what)
{
    Interp interp = *b->interp;
    interp.mode = INTERP_f64;
    interp.arena = b->arena;
    Run r = {.in = &interp, .g = b->g};
    r.v = ARENA_ARRAY(b->arena, Value *, b->g->nnodes);
    Node copy = *n;
    copy.op = op;
    copy.dtype = dtype_info[n->dtype].is_float ? DT_f64 : n->dtype;
    copy.in = ARENA_ARRAY(b->arena, Node *, n->nin);
    for (int i = 0; i < n->nin; i++) { /* one operand may stand in two roles */
        Node *in = ARENA_NEW(b->arena, Node);
        *in = *n->in[i];
        in->id = i;
        copy.in[i] = in;
        r.v[i] = as(b, n->in[i], what[i < 2 ? i : 2]);
    }
    Value **all = ARENA_ARRAY(b->arena, Value *, b->g->nnodes + n->nin + 1);
    memcpy(all, r.v, sizeof all[0] * (size_t)n->nin);
    r.v = all;
    copy.id = n->nin;
    run_node(&r, &copy);
    return r.v[copy.id];
}

static const What bounds_all[] = {BOUND, BOUND, BOUND};
static const What magnitudes[] = {MAGNITUDE, MAGNITUDE, MAGNITUDE};
static const What worsts[] = {WORST, WORST, WORST};
static const What rows_of_bounds[] = {BOUND, VALUE, VALUE};
static const What rows_of_magnitudes[] = {WORST, VALUE, VALUE};

static DType accumulator(const Node *n)
{
    DType dt = n->dtype;
    for (int i = 0; i < n->nin; i++) {
        dt = dtype_widest(dt, n->in[i]->dtype);
    }
    return dt == DT_f64 ? DT_f64 : DT_f32;
}

static void bound_move(Bounds *b, const Node *n, Value *e)
{
    bool gather = n->op == OP_embedding;
    const Value *r = run_as(b, n, n->op, gather ? rows_of_bounds : bounds_all);
    for (int64_t i = 0; i < e->count; i++) {
        double d = r->v[i];
        e->v[i] = d == 0 ? 0 : n->op == OP_concat ? rounded(n->dtype, d, b->v[n->id]->v[i]) : d;
    }
    if (gather && !is_exact(b->e[n->in[1]->id])) {
        for (int64_t i = 0; i < e->count; i++) {
            e->v[i] = INFINITY;
        }
    }
}

static double terms(const Bounds *b, const Node *n)
{
    const Value *x = b->v[n->in[0]->id], *y = b->v[n->id];
    if (n->op == OP_embedding_grad) {
        return (double)b->v[n->in[1]->id]->count;
    }
    if (n->op == OP_conv2d || n->op == OP_conv_transpose2d || n->op == OP_conv2d_weight_grad) {
        Conv c = conv_of(n);
        int64_t window = c.steps.kernel[0] * c.steps.kernel[1], results = c.result[0] * c.result[1];
        int64_t channels = n->op == OP_conv2d ? c.in : c.out;
        return (double)(n->op == OP_conv2d_weight_grad ? x->dims[0] * results
                                                       : channels / c.steps.groups * window + 1);
    }
    if (attrs_find(&n->attrs, ATTR_kernel) != NULL) {
        ConvSteps s = conv_steps(&n->attrs);
        return (double)(s.kernel[0] * s.kernel[1]);
    }
    if (op_info[n->op].kind == KIND_Contract) {
        bool trans = attrs_bool(&n->attrs, ATTR_trans_a) && x->rank > 1;
        return (double)x->dims[trans ? x->rank - 2 : x->rank - 1] + 1;
    }
    return y->count > 0 ? (double)(x->count / y->count) : 0;
}

/* sum, mean, products and scatter: the operands' bounds, and another order of the additions */
static void bound_sum(Bounds *b, const Node *n, Value *e)
{
    bool product = op_info[n->op].kind == KIND_Contract;
    bool scatter =
        n->op == OP_embedding_grad || n->op == OP_max_pool2d_grad || n->op == OP_avg_pool2d_grad;
    if (!dtype_info[n->dtype].is_float) {
        return; /* integers add up the same in any order */
    }
    const Value *worst = run_as(b, n, n->op, scatter ? rows_of_magnitudes : worsts), *carried;
    carried = product ? run_as(b, n, n->op, magnitudes)
                      : run_as(b, n, n->op, scatter ? rows_of_bounds : bounds_all);
    double u = 2 * (terms(b, n) + 2) * unit(accumulator(n));
    for (int64_t i = 0; i < e->count; i++) {
        double d = product ? worst->v[i] - carried->v[i] : carried->v[i];
        d = product && d <= 0x1p-50 * worst->v[i] ? 0 : d;
        double s = d + u * worst->v[i] + smallest(accumulator(n)) * terms(b, n);
        e->v[i] =
            rounded(n->dtype, s, b->v[n->id]->v[i]); /* never 0: 0 + -0 is 0, -0 alone is not */
    }
}

/* Where a gradient goes is known when the elements that are compared are. */
static void bound_picked(Bounds *b, const Node *n, Value *e)
{
    bool known = is_exact(b->e[n->in[1]->id]);
    bound_sum(b, n, e);
    for (int64_t i = 0; i < e->count && !known; i++) {
        e->v[i] = INFINITY;
    }
}

static void bound_largest(Bounds *b, const Node *n, Value *e)
{
    const Value *r = run_as(b, n, OP_amax, bounds_all);
    memcpy(e->v, r->v, sizeof r->v[0] * (size_t)r->count);
}

static void bound_var(Bounds *b, const Node *n, Value *e)
{
    const Value *err = run_as(b, n, OP_amax, bounds_all), *most = run_as(b, n, OP_amax, magnitudes);
    double k = terms(b, n), u = (k + 4) * unit(accumulator(n));
    double share = attrs_bool(&n->attrs, ATTR_unbiased) ? k / (k - 1) : 1;
    for (int64_t i = 0; i < e->count; i++) {
        double far = 2 * most->v[i], off = 2 * (err->v[i] + 2 * u * most->v[i]);
        double s = 2 * far * off + off * off + 2 * u * far * far;
        e->v[i] = rounded(n->dtype, s * share, b->v[n->id]->v[i]);
    }
}

/* ---- along an axis --------------------------------------------------------------------------- */

/* Bounds of log softmax over groups along an axis: largest error and magnitude of the group of element i. */
typedef struct Group {
    double error, range, n;
} Group;

static Group group_at(const Value *x, const Value *e, int axis, int64_t outer, int64_t inner)
{
    int64_t n = x->dims[axis], step = 1;
    for (int k = axis + 1; k < x->rank; k++) {
        step *= x->dims[k];
    }
    Group g = {.n = (double)n};
    double low = INFINITY, high = -INFINITY;
    for (int64_t k = 0; k < n; k++) {
        int64_t at = (outer * n + k) * step + inner;
        g.error = fmax(g.error, e->v[at]);
        low = fmin(low, x->v[at]);
        high = fmax(high, x->v[at]);
    }
    g.range = high - low;
    return g;
}

/* of log(sum(exp)), and of x - that */
static double log_error(Group g, DType dt)
{
    double u = unit(dt == DT_f64 ? DT_f64 : DT_f32);
    return 2 * g.error + 2 * u * (g.range + g.n + 40);
}

static void bound_softmax(Bounds *b, const Node *n, Value *e)
{
    const Value *x = b->v[n->in[0]->id], *d = b->e[n->in[0]->id];
    int axis = (int)attrs_int(&n->attrs, ATTR_axis, 0);
    int64_t step = 1, len = x->dims[axis];
    for (int k = axis + 1; k < x->rank; k++) {
        step *= x->dims[k];
    }
    for (int64_t outer = 0; outer < x->count / (len * step); outer++) {
        for (int64_t inner = 0; inner < step; inner++) {
            Group g = group_at(x, d, axis, outer, inner);
            double s = log_error(g, n->dtype);
            bool drops = n->op == OP_logsumexp;
            for (int64_t k = 0; k < (drops ? 1 : len); k++) {
                int64_t at = drops ? outer * step + inner : (outer * len + k) * step + inner;
                double y = b->v[n->id]->v[at];
                double spread =
                    n->op == OP_softmax ? y * expm1(s) : s + 40 * unit(DT_f32) * fabs(y);
                e->v[at] = rounded(n->dtype, spread, y);
            }
        }
    }
}

/* All rows together: the mean of log errors, and of the rounding of the rows' sum. */
static void bound_cross_entropy(Bounds *b, const Node *n, Value *e)
{
    bool grad = n->op == OP_cross_entropy_grad;
    const Node *logits = n->in[grad ? 1 : 0];
    const Value *x = b->v[logits->id], *d = b->e[logits->id];
    int64_t rows = x->count / x->dims[x->rank - 1];
    double worst = 0, range = 0;
    for (int64_t r = 0; r < rows; r++) {
        Group g = group_at(x, d, x->rank - 1, r, 0);
        worst = fmax(worst, log_error(g, n->dtype));
        range = fmax(range, g.range + log(g.n));
    }
    double u = unit(DT_f32), down = grad ? fabs(b->v[n->in[0]->id]->v[0]) : 1;
    double s = grad ? down * (expm1(worst) + 8 * u) + b->e[n->in[0]->id]->v[0] * 2
                    : worst + 2 * u * (double)(rows + 8) * range;
    for (int64_t i = 0; i < e->count; i++) {
        e->v[i] = rounded(n->dtype, s, b->v[n->id]->v[i]);
    }
}

static void bound_argmax(Bounds *b, const Node *n, Value *e)
{
    for (int64_t i = 0; i < e->count && !is_exact(b->e[n->in[0]->id]); i++) {
        e->v[i] = INFINITY;
    }
}

static void bound_node(Bounds *b, const Node *n, Value *e)
{
    switch (n->op) {
    case OP_arg:
    case OP_const:
    case OP_iota:
    case OP_uniform: return;
    case OP_cast: bound_cast(b, n, e); return;
    case OP_amax:
    case OP_amin: bound_largest(b, n, e); return;
    case OP_argmax: bound_argmax(b, n, e); return;
    case OP_var: bound_var(b, n, e); return;
    case OP_softmax:
    case OP_log_softmax:
    case OP_logsumexp: bound_softmax(b, n, e); return;
    case OP_cross_entropy:
    case OP_cross_entropy_grad: bound_cross_entropy(b, n, e); return;
    case OP_sum:
    case OP_mean:
    case OP_linear:
    case OP_matmul:
    case OP_conv2d:
    case OP_conv_transpose2d:
    case OP_conv2d_weight_grad:
    case OP_avg_pool2d:
    case OP_avg_pool2d_grad:
    case OP_embedding_grad: bound_sum(b, n, e); return;
    case OP_max_pool2d_grad: bound_picked(b, n, e); return;
    default: break;
    }
    if (op_info[n->op].kind == KIND_Map) {
        bound_map(b, n, e);
    } else {
        bound_move(b, n, e);
    }
}

Value **error_bounds(Arena *arena, const Interp *interp, const Graph *g, Value *const *values)
{
    Bounds b = {.arena = arena, .interp = interp, .g = g, .v = values};
    b.e = ARENA_ARRAY(arena, Value *, g->nnodes);
    for (int i = 0; i < g->nnodes; i++) {
        const Value *v = values[i];
        b.e[i] = value_new(arena, v->dtype, v->rank, v->dims);
        bound_node(&b, g->nodes[i], b.e[i]);
        for (int64_t k = 0; k < v->count; k++) {
            b.e[i]->v[k] = isnan(b.e[i]->v[k]) ? INFINITY : b.e[i]->v[k];
        }
    }
    return b.e;
}
