/* random_graph.c: see random_graph.h. The values so far lie in a pool; each step of `steps` takes some of them
 * and adds one. What a step cannot use it makes fit: casts, reshapes, new inputs. */
#include "tests/ops/random_maker.h"

#include <math.h>
#include <string.h>

#include "ir/base/strutil.h"

/* ---- element-wise ---------------------------------------------------------------------------- */

/* Positive, so that roots and logarithms are numbers. */
static Node *positive(Maker *m, Node *x)
{
    return op2(m, OP_add, op1(m, OP_abs, x), constant(m, 0.5));
}

static Node *bounded(Maker *m, Node *x)
{
    return build3(&m->b, OP_clamp, x, constant(m, -4), constant(m, 4));
}

static Node *step_unary(Maker *m)
{
    static const Op plain[] = {OP_neg,  OP_abs,       OP_square,   OP_sin,       OP_cos,
                               OP_erf,  OP_tanh,      OP_sigmoid,  OP_relu,      OP_gelu,
                               OP_silu, OP_gelu_tanh, OP_softplus, OP_logsigmoid};
    static const Op root[] = {OP_sqrt, OP_rsqrt, OP_reciprocal, OP_log, OP_log1p, OP_pow};
    static const Op steep[] = {OP_exp, OP_expm1};
    static const Op jumps[] = {OP_sign, OP_floor, OP_isfinite};
    Node *x = real(m);
    bool guard = !m->exact || !once_in(m, 4);
    switch (pick(m, 6)) {
    case 0: {
        Op op = root[pick(m, 6)];
        x = guard ? positive(m, x) : x;
        return op == OP_pow ? op2(m, op, x, constant(m, 1.5)) : op1(m, op, x);
    }
    case 1: return op1(m, steep[pick(m, 2)], guard ? bounded(m, x) : x);
    case 2: return m->exact ? op1(m, jumps[pick(m, 3)], x) : op1(m, OP_tanh, x);
    default: return op1(m, plain[pick(m, 14)], x);
    }
}

/* Dims that broadcast to d: axes of 1, or missing at the front. */
static Dims narrower(Maker *m, const Dims *d)
{
    int from = d->rank > 0 && once_in(m, 3) ? pick(m, d->rank) : 0;
    Dims out = {.rank = d->rank - from};
    for (int i = 0; i < out.rank; i++) {
        bool one = once_in(m, 3) || !dim_is_const(d->d[i + from]);
        out.d[i] = one ? dim_of(1) : d->d[i + from];
    }
    return out;
}

static Node *partner(Maker *m, const Node *x)
{
    for (int tries = 0; tries < 4; tries++) {
        Node *y = any(m);
        Dims d;
        if (dtype_info[y->dtype].is_float && broadcast_dims(&x->dims, &y->dims, &d) &&
            count_of(&d) <= MOST_ELEMENTS) {
            return y;
        }
    }
    if (once_in(m, 4)) {
        return constant(m, number(m));
    }
    Dims d = narrower(m, &x->dims);
    return float_input(m, &d);
}

static Node *step_binary(Maker *m)
{
    static const Op ops[] = {OP_add, OP_sub, OP_mul, OP_div, OP_maximum, OP_minimum};
    Node *x = real(m), *y = partner(m, x);
    Op op = ops[pick(m, 6)];
    y = op == OP_div && !(m->exact && once_in(m, 4)) ? positive(m, y) : y;
    return once_in(m, 2) || op == OP_div ? op2(m, op, x, y) : op2(m, op, y, x);
}

static Node *condition(Maker *m, Node *x)
{
    static const Op ops[] = {OP_lt, OP_le, OP_gt, OP_ge, OP_eq, OP_ne};
    Node *c = op2(m, ops[pick(m, 6)], x, partner(m, x));
    if (once_in(m, 4)) {
        c = op1(m, OP_not, c);
    }
    if (once_in(m, 4)) {
        Node *other = op2(m, OP_gt, x, constant(m, 0.1));
        c = op2(m, once_in(m, 2) ? OP_and : OP_or, c, other);
    }
    return c;
}

static Node *step_where(Maker *m)
{
    Node *x = real(m), *y = partner(m, x), *c = condition(m, x);
    Dims d;
    if (!broadcast_dims(&c->dims, &y->dims, &d) || count_of(&d) > MOST_ELEMENTS) {
        return c;
    }
    switch (pick(m, 4)) {
    case 0: return c;
    case 1: return build3(&m->b, OP_clamp, x, constant(m, -0.75), constant(m, 1.25));
    case 2: return op2(m, once_in(m, 2) ? OP_leaky_relu : OP_elu, x, constant(m, 0.25));
    default: return build3(&m->b, OP_where, c, x, y);
    }
}

static Node *step_integer(Maker *m)
{
    static const DType types[] = {DT_i32, DT_i64, DT_u8, DT_i32};
    static const Op ops[] = {OP_add, OP_sub, OP_maximum, OP_minimum, OP_eq, OP_lt};
    Node *x = any(m);
    DType dt = types[pick(m, 4)];
    x = dtype_info[x->dtype].is_int ? x : build_cast(&m->b, x, dt);
    Node *y = once_in(m, 2) ? build_const(&m->b, x->dtype, pick(m, 5)) : NULL;
    if (y == NULL) {
        Dims d = narrower(m, &x->dims);
        y = input(m, dt, &d);
    }
    return op2(m, ops[pick(m, 6)], x, y);
}

static Node *step_cast(Maker *m)
{
    static const DType types[] = {DT_f16,  DT_bf16, DT_f32, DT_f16,
                                  DT_bf16, DT_f64,  DT_i32, DT_bool};
    int n = m->gradients ? 5 : m->exact ? 8 : 5;
    return build_cast(&m->b, any(m), types[pick(m, n)]);
}

static Node *step_iota(Maker *m)
{
    Node *x = real(m);
    if (x->dims.rank == 0) {
        return NULL;
    }
    Attrs as = {0};
    attrs_set_int(m->p->arena, &as, ATTR_axis, pick(m, x->dims.rank));
    Node *i = build_like(&m->b, once_in(m, 2) ? DT_i32 : DT_f32, &x->dims, OP_iota, as);
    return op2(m, once_in(m, 2) ? OP_add : OP_mul, x, i);
}

static Node *step_uniform(Maker *m)
{
    Node *x = real(m);
    if (x->dims.rank == 0 || !m->batch || dim_is_const(x->dims.d[0]) || x->dims.d[0].k != 1) {
        return NULL;
    }
    Attrs as = {0};
    attrs_set_str(m->p->arena, &as, ATTR_path, arena_printf(m->p->arena, "d%d", pick(m, 3)));
    Node *u = build_like(&m->b, DT_f32, &x->dims, OP_uniform, as);
    Node *keep = op2(m, OP_ge, u, constant(m, 0.3));
    return build3(&m->b, OP_where, keep, op2(m, OP_div, x, constant(m, 0.7)), constant(m, 0));
}

/* ---- moves ----------------------------------------------------------------------------------- */

static Node *step_reshape(Maker *m)
{
    Node *x = any(m);
    Dims d = {0};
    int64_t left = 1;
    for (int i = 0; i < x->dims.rank; i++) {
        left *= x->dims.d[i].k;
    }
    if (!is_constant(&x->dims)) {
        if (!dim_is_const(x->dims.d[0]) && x->dims.d[0].sym[1] == 0) {
            for (int i = 1; i < x->dims.rank; i++) {
                if (!dim_is_const(x->dims.d[i])) {
                    return NULL;
                }
            }
            d.d[d.rank++] = (Dim){.k = 1, .sym = {x->dims.d[0].sym[0], 0}};
        } else {
            return NULL;
        }
    }
    int symbols = d.rank;
    while (left > 1 && d.rank < 5) {
        int64_t f = d.rank == 4 ? left : 1 + pick(m, 6);
        if (left % f == 0) {
            d.d[d.rank++] = dim_of(f);
            left /= f;
        }
    }
    if (d.rank > symbols && symbols > 0 && once_in(m, 3)) { /* [B, 4, ..] -> [B*4, ..] */
        d.d[0].k = d.d[1].k;
        memmove(d.d + 1, d.d + 2, sizeof d.d[0] * (size_t)(d.rank - 2));
        d.rank--;
    }
    if (left > 1) {
        return NULL;
    }
    return build_reshape(&m->b, x, &d);
}

static Node *step_transpose(Maker *m)
{
    Node *x = any(m);
    int perm[MAX_RANK];
    for (int i = 0; i < x->dims.rank; i++) {
        perm[i] = i;
    }
    for (int i = x->dims.rank - 1; i > 0; i--) {
        int k = pick(m, i + 1), t = perm[i];
        perm[i] = perm[k];
        perm[k] = t;
    }
    return x->dims.rank < 2 ? NULL : build_transpose(&m->b, x, perm);
}

static Node *step_expand(Maker *m)
{
    Node *x = any(m);
    Dims d = x->dims;
    for (int i = 0; i < d.rank; i++) {
        d.d[i] = dim_is_const(d.d[i]) && d.d[i].k == 1 ? dim_of(length(m)) : d.d[i];
    }
    if (d.rank < 5 && once_in(m, 2)) {
        memmove(d.d + 1, d.d, sizeof d.d[0] * (size_t)d.rank);
        d.d[0] = dim_of(1 + pick(m, 4));
        d.rank++;
    }
    return count_of(&d) > MOST_ELEMENTS ? NULL : build_expand(&m->b, x, &d);
}

/* An axis of constant length of at least `least`, -1: there is none. */
static int constant_axis(Maker *m, const Dims *d, int64_t least)
{
    int start = d->rank > 0 ? pick(m, d->rank) : 0;
    for (int i = 0; i < d->rank; i++) {
        int axis = (start + i) % d->rank;
        if (dim_is_const(d->d[axis]) && d->d[axis].k >= least) {
            return axis;
        }
    }
    return -1;
}

static Node *step_slice(Maker *m)
{
    Node *x = any(m);
    int axis = constant_axis(m, &x->dims, 2);
    if (axis < 0) {
        return NULL;
    }
    int64_t n = x->dims.d[axis].k, start = pick(m, (int)n);
    int64_t stop = start + 1 + pick(m, (int)(n - start)),
            step = 1 + (once_in(m, 3) ? pick(m, 3) : 0);
    Attrs as = {0};
    attrs_set_int(m->p->arena, &as, ATTR_axis, axis);
    attrs_set_int(m->p->arena, &as, ATTR_start, start);
    attrs_set_int(m->p->arena, &as, ATTR_stop, stop);
    attrs_set_int(m->p->arena, &as, ATTR_step, step);
    return build(&m->b, OP_slice, 1, &x, as);
}

static Node *step_pad(Maker *m)
{
    Node *x = any(m);
    int axis = constant_axis(m, &x->dims, 1);
    if (axis < 0 || count_of(&x->dims) > MOST_ELEMENTS / 2) {
        return NULL;
    }
    Attrs as = {0};
    attrs_set_int(m->p->arena, &as, ATTR_axis, axis);
    attrs_set_int(m->p->arena, &as, ATTR_before, pick(m, 3));
    attrs_set_int(m->p->arena, &as, ATTR_after, pick(m, 3));
    return build(&m->b, OP_pad, 1, &x, as);
}

static Node *step_concat(Maker *m)
{
    Node *x = real(m);
    int axis = constant_axis(m, &x->dims, 1);
    if (axis < 0 || count_of(&x->dims) > MOST_ELEMENTS / 3) {
        return NULL;
    }
    Node *parts[3] = {x, x, x};
    int n = 2 + pick(m, 2);
    for (int i = 0; i < n; i++) {
        if (once_in(m, 2)) {
            parts[i] = op1(m, once_in(m, 2) ? OP_neg : OP_relu, x);
        } else if (is_constant(&x->dims) && once_in(m, 2)) {
            Dims d = x->dims;
            d.d[axis] = dim_of(1 + pick(m, 3));
            parts[i] = float_input(m, &d);
        }
    }
    Attrs as = {0};
    attrs_set_int(m->p->arena, &as, ATTR_axis, axis);
    return build(&m->b, OP_concat, n, parts, as);
}

static Node *indices(Maker *m, int64_t rows)
{
    Node *x = m->batch && once_in(m, 2) ? field(m, "label") : NULL;
    if (x == NULL) {
        Dims d = {.rank = 1 + pick(m, 2), .d = {dim_of(length(m)), dim_of(1 + pick(m, 5))}};
        x = input(m, once_in(m, 2) ? DT_i32 : DT_u8, &d);
    }
    Node *low = build_const(&m->b, x->dtype, 0),
         *high = build_const(&m->b, x->dtype, (double)rows - 1);
    return build3(&m->b, OP_clamp, x, low, high);
}

static Node *step_embedding(Maker *m)
{
    int64_t rows = 3 + pick(m, 6);
    Dims d = {.rank = 2, .d = {dim_of(rows), dim_of(length(m))}};
    Node *table = float_input(m, &d);
    Attrs as = {0};
    if (once_in(m, 3)) {
        attrs_set_int(m->p->arena, &as, ATTR_padding_idx, pick(m, (int)rows));
    }
    return build(&m->b, OP_embedding, 2, (Node *[]){table, indices(m, rows)}, as);
}

/* ---- reductions and products ----------------------------------------------------------------- */

static Node *step_reduce(Maker *m)
{
    static const Op ops[] = {OP_amax, OP_amin, OP_sum, OP_mean, OP_sum, OP_mean, OP_var};
    Node *x = real(m);
    int64_t axes[MAX_RANK];
    int n = 0;
    for (int i = 0; i < x->dims.rank; i++) {
        if (once_in(m, 2)) {
            axes[n++] = i;
        }
    }
    if (n == 0) {
        return NULL;
    }
    return build_reduce(&m->b, ops[pick(m, m->exact ? 2 : 7)], x, n, axes, once_in(m, 2));
}

static Node *step_softmax(Maker *m)
{
    static const Op ops[] = {OP_softmax, OP_log_softmax, OP_logsumexp, OP_softmax};
    Node *x = real(m);
    int axis = constant_axis(m, &x->dims, 1);
    return axis < 0 ? NULL : with_axis(m, ops[pick(m, 4)], x, axis);
}

static Node *step_argmax(Maker *m)
{
    Node *x = real(m);
    int axis = constant_axis(m, &x->dims, 1);
    return axis < 0 ? NULL : with_axis(m, OP_argmax, x, axis);
}

/* [.., K] times a new or an old matrix, from either side. */
static Node *step_matmul(Maker *m)
{
    Node *x = real(m);
    if (x->dims.rank < 2) {
        return NULL;
    }
    bool ta = once_in(m, 3), tb = once_in(m, 3);
    Dim inner = x->dims.d[x->dims.rank - (ta ? 2 : 1)];
    if (!dim_is_const(inner) || once_in(m, 5)) { /* with itself: x x^T */
        return build_matmul(&m->b, x, x, ta, !ta, DT_none);
    }
    Dims d = {.rank = 2};
    if (once_in(m, 3) && x->dims.rank > 2 && is_constant(&x->dims)) {
        d.rank = x->dims.rank;
        for (int i = 0; i < d.rank - 2; i++) {
            d.d[i] = once_in(m, 3) ? dim_of(1) : x->dims.d[i];
        }
    }
    int64_t columns = once_in(m, 5) ? 40 + pick(m, 60) : length(m);
    d.d[d.rank - 2] = tb ? dim_of(columns) : inner;
    d.d[d.rank - 1] = tb ? inner : dim_of(columns);
    if (once_in(m, 8) && !ta) {
        d = (Dims){.rank = 1, .d = {inner}};
        tb = false;
    }
    Node *y = float_input(m, &d);
    y = x->dtype != y->dtype && once_in(m, 2) ? build_cast(&m->b, y, x->dtype) : y;
    bool wide = dtype_is_low(x->dtype) && once_in(m, 3);
    return build_matmul(&m->b, x, y, ta, tb, wide ? DT_f32 : DT_none);
}

/* Larger than a tile and than a block of the sum. */
static Node *step_large_matmul(Maker *m)
{
    int64_t rows = 20 + pick(m, 130), inner = 20 + pick(m, 400), columns = 20 + pick(m, 130);
    bool ta = once_in(m, 2), tb = once_in(m, 2);
    Dims a = {.rank = 2, .d = {dim_of(ta ? inner : rows), dim_of(ta ? rows : inner)}};
    Dims b = {.rank = 2, .d = {dim_of(tb ? columns : inner), dim_of(tb ? inner : columns)}};
    Node *x = float_input(m, &a), *y = float_input(m, &b);
    if (once_in(m, 2)) { /* arithmetic while packing */
        x = op1(m, OP_tanh, x);
    }
    Node *c = build_matmul(&m->b, x, y, ta, tb, DT_none);
    return once_in(m, 2) ? op1(m, OP_relu, c) : c;
}

static Node *step_linear(Maker *m)
{
    Node *x = real(m);
    if (x->dims.rank < 1 || !dim_is_const(x->dims.d[x->dims.rank - 1])) {
        return NULL;
    }
    Dims w = {.rank = 2, .d = {dim_of(length(m)), x->dims.d[x->dims.rank - 1]}};
    Dims bias = {.rank = 1, .d = {w.d[0]}};
    Node *weight = build_cast(&m->b, float_input(m, &w), x->dtype);
    Node *b = once_in(m, 3) ? NULL : build_cast(&m->b, float_input(m, &bias), x->dtype);
    return build_linear(&m->b, x, weight, b, DT_none);
}

static Node *step_cross_entropy(Maker *m)
{
    Node *x = real(m);
    if (x->dims.rank != 2 || !dim_is_const(x->dims.d[1]) || x->dims.d[1].k < 2) {
        return NULL;
    }
    Node *labels;
    if (dim_is_const(x->dims.d[0])) {
        Dims d = {.rank = 1, .d = {x->dims.d[0]}};
        labels = input(m, DT_i32, &d);
    } else if (x->dims.d[0].k == 1) {
        labels = field(m, "label");
    } else {
        return NULL;
    }
    Node *most = build_const(&m->b, labels->dtype, (double)x->dims.d[1].k - 1);
    labels = build3(&m->b, OP_clamp, labels, build_const(&m->b, labels->dtype, 0), most);
    Attrs as = {0};
    if (once_in(m, 3)) {
        attrs_set_int(m->p->arena, &as, ATTR_ignore_index, pick(m, 2));
    }
    if (once_in(m, 3)) {
        attrs_set_float(m->p->arena, &as, ATTR_label_smoothing, 0.1);
    }
    return build(&m->b, OP_cross_entropy, 2, (Node *[]){x, labels}, as);
}

/* ---- the graph ------------------------------------------------------------------------------- */

static const struct {
    Node *(*make)(Maker *m);
    int weight;
    bool exact; /* the same bits in any order of evaluation */
} steps[] = {
    {step_unary, 6, true},
    {step_binary, 7, true},
    {step_where, 4, true},
    {step_integer, 2, true},
    {step_cast, 4, true},
    {step_iota, 1, true},
    {step_uniform, 2, true},
    {step_reshape, 3, true},
    {step_transpose, 3, true},
    {step_expand, 2, true},
    {step_slice, 3, true},
    {step_pad, 1, true},
    {step_concat, 2, true},
    {step_embedding, 2, true},
    {step_reduce, 5, true},
    {step_argmax, 1, true},
    {step_softmax, 3, false},
    {step_matmul, 5, false},
    {step_linear, 2, false},
    {step_large_matmul, 1, false},
    {step_cross_entropy, 1, false},
    {step_conv, 2, false},
    {step_conv_transpose, 1, false},
    {step_max_pool, 2, true},
    {step_avg_pool, 1, false},
    {step_batch_norm, 1, false},
};

static Node *step(Maker *m)
{
    int total = 0, n = sizeof steps / sizeof steps[0];
    for (int i = 0; i < n; i++) {
        total += steps[i].exact || !m->exact ? steps[i].weight : 0;
    }
    int at = pick(m, total);
    for (int i = 0; i < n; i++) {
        at -= steps[i].exact || !m->exact ? steps[i].weight : 0;
        if (at < 0) {
            return steps[i].make(m);
        }
    }
    return NULL;
}

/* What has a symbol leaves row by row: the row's number says where it goes. */
static Node *storable(Maker *m, Node *x)
{
    if (is_constant(&x->dims)) {
        return x;
    }
    Dim b = x->dims.d[0];
    Dims flat = {.rank = 2, .d = {{.k = 1, .sym = {b.sym[0], 0}}, dim_of(b.k)}};
    for (int i = 1; i < x->dims.rank; i++) {
        if (dim_is_const(b) || !dim_is_const(x->dims.d[i])) {
            return NULL;
        }
        flat.d[1].k *= x->dims.d[i].k;
    }
    if (dim_is_const(b) || b.sym[1] != 0) {
        return NULL;
    }
    Attrs as = {0};
    attrs_set_int(m->p->arena, &as, ATTR_rows, RANDOM_BOUND);
    Node *rows = build_reshape(&m->b, build_cast(&m->b, x, DT_f32), &flat);
    return build(&m->b, OP_embedding_grad, 2, (Node *[]){rows, field(m, "row")}, as);
}

/* A state of that type and shape, which x becomes the next value of. */
static const char *state_like(Maker *m, const Node *x)
{
    for (int i = 0; i < m->states.n; i++) {
        Node *s = m->states.at[i];
        if (s->dtype == x->dtype && dims_equal(&s->dims, &x->dims)) {
            m->states.at[i] = m->states.at[--m->states.n];
            return attrs_str(&s->attrs, ATTR_state);
        }
    }
    return NULL;
}

static void leave(Maker *m, Node *x, int number)
{
    Node *y = storable(m, x);
    if (y == NULL || y->dtype == DT_f64) {
        return;
    }
    const char *name = once_in(m, 2) ? state_like(m, y) : NULL;
    name = name != NULL ? name : arena_printf(m->p->arena, "%s.y%d", m->prefix, number);
    program_result(m->p, m->b.graph, name, y);
}

static Node *state_input(Maker *m, const char *name, const Dims *d)
{
    double *v = ARENA_ARRAY(m->p->arena, double, count_of(d) + 1);
    for (int64_t i = 0; i < count_of(d); i++) {
        v[i] = value_of(m, DT_f32);
    }
    return program_state(m->p, &m->b, name, DT_f32, d, v);
}

/* Two tensors change places, one of them changed as well; each needs the old value of the other. */
static void swap(Maker *m)
{
    Dims d = some_dims(m);
    const char *names[2] = {arena_printf(m->p->arena, "%s.a", m->prefix),
                            arena_printf(m->p->arena, "%s.b", m->prefix)};
    Node *a = state_input(m, names[0], &d), *b = state_input(m, names[1], &d);
    Node *changed = once_in(m, 2) ? a : op2(m, OP_add, a, constant(m, 1));
    program_result(m->p, m->b.graph, names[0], b);
    program_result(m->p, m->b.graph, names[1], changed);
    vec_push(m->p->arena, &m->pool, op2(m, OP_mul, a, b));
}

static void differentiate(Maker *m)
{
    Node *loss = NULL;
    for (int i = 0; i < 2; i++) {
        Node *x = build_cast(&m->b, real(m), DT_f32);
        Node *part = build_reduce(&m->b, OP_mean, op1(m, OP_tanh, x), -1, NULL, false);
        loss = loss == NULL ? part : op2(m, OP_add, loss, part);
    }
    Dims d = {.rank = 1, .d = {dim_of(3)}};
    Node *w = input(m, DT_f32, &d); /* a parameter that the loss depends on for sure */
    loss = op2(m, OP_add, loss, build_reduce(&m->b, OP_mean, w, -1, NULL, false));
    Attrs as = {0};
    attrs_set_str(m->p->arena, &as, ATTR_model, m->prefix);
    build(&m->b, OP_backward, 1, &loss, as);
}

void random_graph(Program *p, const RandomField *fields, uint64_t seed)
{
    const char *name = arena_printf(p->arena, "g%llu", (unsigned long long)seed);
    Maker m = {.p = p, .prefix = name, .fields = fields, .state = seed * 0x2545f4914f6cdd1du + 1};
    m.b = (Builder){.graph = program_graph(p, name), .diag = p->diag};
    m.exact = seed % 4 == 0;
    m.batch = seed % 4 == 2;
    m.gradients = seed % 4 == 3;
    int ninputs = 1 + pick(&m, 3), nsteps = 6 + pick(&m, 14), nresults = 2 + pick(&m, 4);
    for (int i = 0; i < ninputs; i++) {
        Dims d = some_dims(&m);
        vec_push(p->arena, &m.pool, float_input(&m, &d));
    }
    if (m.batch) {
        vec_push(p->arena, &m.pool, field(&m, "u"));
        vec_push(p->arena, &m.pool, field(&m, "v"));
    }
    if (once_in(&m, 4)) {
        swap(&m);
    }
    for (int made = 0, tries = 0; made < nsteps && tries < 200; tries++) {
        Node *n = step(&m);
        if (n != NULL && count_of(&n->dims) <= 20000) {
            vec_push(p->arena, &m.pool, n);
            made++;
        }
    }
    for (int i = 0; i < nresults; i++) {
        leave(&m, i == 0 ? m.pool.at[m.pool.n - 1] : any(&m), i);
    }
    if (m.gradients) {
        differentiate(&m);
    }
}
