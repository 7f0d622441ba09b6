/* vjp.c: one rule for each name in ops.def's gradient column, vector-Jacobian products in closed form.
 *
 * A rule is written for one operand and plain shapes: autodiff.c undoes broadcasting, casts to the wanted type
 * and adds up. Rules of several steps compute in f32 also for a 16-bit op, so that they round once, as the op
 * itself does; one-step rules stay in its type. Formulas and conventions (halves at ties of maximum, shares at
 * ties of amax, 0 at relu's 0) are PyTorch's. */
#include "passes/vjp.h"

#include <math.h>

#include "ir/base/diag.h"

/* ---- words the rules are written in -------------------------------------------------------------- */

static Node *op1(Vjp *v, Op op, Node *x)
{
    return build1(v->b, op, x);
}

static Node *op2(Vjp *v, Op op, Node *x, Node *y)
{
    return build2(v->b, op, x, y);
}

static Node *add(Vjp *v, Node *x, Node *y)
{
    return op2(v, OP_add, x, y);
}

static Node *sub(Vjp *v, Node *x, Node *y)
{
    return op2(v, OP_sub, x, y);
}

static Node *mul(Vjp *v, Node *x, Node *y)
{
    return op2(v, OP_mul, x, y);
}

static Node *quotient(Vjp *v, Node *x, Node *y)
{
    return op2(v, OP_div, x, y);
}

static Node *neg(Vjp *v, Node *x)
{
    return op1(v, OP_neg, x);
}

static Node *where(Vjp *v, Node *cond, Node *x, Node *y)
{
    return build3(v->b, OP_where, cond, x, y);
}

static Node *number(Vjp *v, double x)
{
    return build_const(v->b, v->type, x);
}

static Node *times(Vjp *v, double k, Node *x)
{
    return mul(v, x, number(v, k));
}

/* Operand k, the result, its gradient: in the type the rule computes in. */
static Node *in(Vjp *v, int k)
{
    Node *x = v->n->in[k];
    return x->dtype == DT_bool ? x : build_cast(v->b, x, v->type);
}

static Node *out(Vjp *v)
{
    return build_cast(v->b, v->n, v->type);
}

static Node *dout(Vjp *v)
{
    return build_cast(v->b, v->dy, v->type);
}

/* For rules of several steps. */
static void in_f32(Vjp *v)
{
    if (dtype_is_low(v->type)) {
        v->type = DT_f32;
    }
}

/* ---- element-wise, one operand ------------------------------------------------------------------- */

Node *vjp_zero(Vjp *v)
{
    (void)v;
    return NULL;
}

Node *vjp_none(Vjp *v)
{
    ICE("the derivative of %s was asked for", op_info[v->n->op].name);
}

static Node *vjp_neg(Vjp *v)
{
    return neg(v, dout(v));
}

static Node *vjp_abs(Vjp *v)
{
    return mul(v, dout(v), op1(v, OP_sign, in(v, 0)));
}

static Node *vjp_square(Vjp *v)
{
    in_f32(v);
    return mul(v, dout(v), times(v, 2, in(v, 0)));
}

static Node *vjp_sqrt(Vjp *v)
{
    in_f32(v);
    return quotient(v, dout(v), times(v, 2, out(v)));
}

/* -dy * y^3 / 2 */
static Node *vjp_rsqrt(Vjp *v)
{
    in_f32(v);
    Node *y = out(v);
    return mul(v, times(v, -0.5, dout(v)), mul(v, y, mul(v, y, y)));
}

/* -dy * y^2 */
static Node *vjp_reciprocal(Vjp *v)
{
    in_f32(v);
    Node *y = out(v);
    return mul(v, neg(v, dout(v)), mul(v, y, y));
}

static Node *vjp_exp(Vjp *v)
{
    return mul(v, dout(v), out(v));
}

static Node *vjp_expm1(Vjp *v)
{
    in_f32(v);
    return mul(v, dout(v), add(v, out(v), number(v, 1)));
}

static Node *vjp_log(Vjp *v)
{
    return quotient(v, dout(v), in(v, 0));
}

static Node *vjp_log1p(Vjp *v)
{
    in_f32(v);
    return quotient(v, dout(v), add(v, in(v, 0), number(v, 1)));
}

static Node *vjp_sin(Vjp *v)
{
    in_f32(v);
    return mul(v, dout(v), op1(v, OP_cos, in(v, 0)));
}

static Node *vjp_cos(Vjp *v)
{
    in_f32(v);
    return mul(v, dout(v), neg(v, op1(v, OP_sin, in(v, 0))));
}

/* dy * 2 / sqrt(pi) * exp(-x^2) */
static Node *vjp_erf(Vjp *v)
{
    in_f32(v);
    Node *x = in(v, 0);
    Node *bell = op1(v, OP_exp, neg(v, mul(v, x, x)));
    return mul(v, dout(v), times(v, 2 / sqrt(M_PI), bell));
}

/* dy * (1 - y^2) */
static Node *vjp_tanh(Vjp *v)
{
    in_f32(v);
    Node *y = out(v);
    return mul(v, dout(v), sub(v, number(v, 1), mul(v, y, y)));
}

/* dy * y * (1 - y) */
static Node *vjp_sigmoid(Vjp *v)
{
    in_f32(v);
    Node *y = out(v);
    return mul(v, dout(v), mul(v, y, sub(v, number(v, 1), y)));
}

/* Asks the result, so that the operand need not be kept. */
static Node *vjp_relu(Vjp *v)
{
    Node *dead = op2(v, OP_le, out(v), number(v, 0));
    return where(v, dead, number(v, 0), dout(v));
}

/* dy * (Phi(x) + x * phi(x)) */
static Node *vjp_gelu(Vjp *v)
{
    in_f32(v);
    Node *x = in(v, 0);
    Node *phi = times(v, 1 / sqrt(2 * M_PI), op1(v, OP_exp, times(v, -0.5, mul(v, x, x))));
    Node *erf_x = op1(v, OP_erf, times(v, sqrt(0.5), x));
    Node *big_phi = times(v, 0.5, add(v, number(v, 1), erf_x));
    return mul(v, dout(v), add(v, big_phi, mul(v, x, phi)));
}

/* With u = k (x + c x^3), t = tanh(u): dy * ((1 + t) / 2 + x / 2 * (1 - t^2) * k (1 + 3 c x^2)) */
static Node *vjp_gelu_tanh(Vjp *v)
{
    in_f32(v);
    const double k = sqrt(2 / M_PI), c = 0.044715;
    Node *x = in(v, 0);
    Node *xx = mul(v, x, x);
    Node *one = number(v, 1);
    Node *u = times(v, k, mul(v, x, add(v, one, times(v, c, xx))));
    Node *t = op1(v, OP_tanh, u);
    Node *slope = times(v, k, add(v, one, times(v, 3 * c, xx)));
    Node *inner = mul(v, sub(v, one, mul(v, t, t)), slope);
    Node *left = times(v, 0.5, add(v, one, t));
    return mul(v, dout(v), add(v, left, mul(v, times(v, 0.5, x), inner)));
}

/* With s = sigmoid(x): dy * s * (1 + x (1 - s)) */
static Node *vjp_silu(Vjp *v)
{
    in_f32(v);
    Node *x = in(v, 0);
    Node *s = op1(v, OP_sigmoid, x);
    Node *one = number(v, 1);
    return mul(v, dout(v), mul(v, s, add(v, one, mul(v, x, sub(v, one, s)))));
}

static Node *vjp_softplus(Vjp *v)
{
    in_f32(v);
    return mul(v, dout(v), op1(v, OP_sigmoid, in(v, 0)));
}

static Node *vjp_logsigmoid(Vjp *v)
{
    in_f32(v);
    return mul(v, dout(v), op1(v, OP_sigmoid, neg(v, in(v, 0))));
}

/* ---- element-wise, more operands ----------------------------------------------------------------- */

static Node *vjp_add(Vjp *v)
{
    return dout(v);
}

static Node *vjp_sub(Vjp *v)
{
    return v->i == 0 ? dout(v) : neg(v, dout(v));
}

static Node *vjp_mul(Vjp *v)
{
    return mul(v, dout(v), in(v, 1 - v->i));
}

/* dy / b, -dy * a / b^2 */
static Node *vjp_div(Vjp *v)
{
    if (v->i == 0) {
        return quotient(v, dout(v), in(v, 1));
    }
    in_f32(v);
    return neg(v, quotient(v, mul(v, dout(v), quotient(v, in(v, 0), in(v, 1))), in(v, 1)));
}

/* dy * b * a^(b - 1), and 0 where b is; dy * y * log(a), and 0 where a is and b >= 0 */
static Node *vjp_pow(Vjp *v)
{
    in_f32(v);
    Node *a = in(v, 0), *b = in(v, 1), *zero = number(v, 0);
    if (v->i == 0) {
        Node *power = op2(v, OP_pow, a, sub(v, b, number(v, 1)));
        return where(v, op2(v, OP_eq, b, zero), zero, mul(v, dout(v), mul(v, b, power)));
    }
    Node *flat = op2(v, OP_and, op2(v, OP_eq, a, zero), op2(v, OP_ge, b, zero));
    return where(v, flat, zero, mul(v, dout(v), mul(v, out(v), op1(v, OP_log, a))));
}

/* All of dy where this operand won, half where both are equal. */
static Node *extremum(Vjp *v, Op won)
{
    Node *mine = in(v, v->i), *other = in(v, 1 - v->i), *dy = dout(v);
    Node *tie = where(v, op2(v, OP_eq, mine, other), times(v, 0.5, dy), number(v, 0));
    return where(v, op2(v, won, mine, other), dy, tie);
}

static Node *vjp_maximum(Vjp *v)
{
    return extremum(v, OP_gt);
}

static Node *vjp_minimum(Vjp *v)
{
    return extremum(v, OP_lt);
}

static Node *vjp_leaky_relu(Vjp *v)
{
    Node *alive = op2(v, OP_gt, in(v, 0), number(v, 0)), *dy = dout(v);
    return v->i == 0 ? where(v, alive, dy, mul(v, dy, in(v, 1)))
                     : where(v, alive, number(v, 0), mul(v, dy, in(v, 0)));
}

/* Below 0: dy * b * exp(a); dy * (exp(a) - 1) */
static Node *vjp_elu(Vjp *v)
{
    in_f32(v);
    Node *a = in(v, 0), *dy = dout(v);
    Node *alive = op2(v, OP_gt, a, number(v, 0));
    return v->i == 0 ? where(v, alive, dy, mul(v, dy, mul(v, in(v, 1), op1(v, OP_exp, a))))
                     : where(v, alive, number(v, 0), mul(v, dy, op1(v, OP_expm1, a)));
}

static Node *vjp_where(Vjp *v)
{
    Node *zero = number(v, 0);
    switch (v->i) {
    case 1: return where(v, v->n->in[0], dout(v), zero);
    case 2: return where(v, v->n->in[0], zero, dout(v));
    default: return NULL;
    }
}

static Node *vjp_clamp(Vjp *v)
{
    Node *x = in(v, 0), *low = in(v, 1), *high = in(v, 2), *zero = number(v, 0);
    Node *inside = op2(v, OP_and, op2(v, OP_ge, x, low), op2(v, OP_le, x, high));
    switch (v->i) {
    case 0: return where(v, inside, dout(v), zero);
    case 1: return where(v, op2(v, OP_lt, x, low), dout(v), zero);
    default: return where(v, op2(v, OP_gt, x, high), dout(v), zero);
    }
}

/* ---- shapes -------------------------------------------------------------------------------------- */

/* autodiff.c's cast to the wanted type is the whole rule. */
static Node *vjp_cast(Vjp *v)
{
    return v->dy;
}

static Node *vjp_reshape(Vjp *v)
{
    return build_reshape(v->b, v->dy, &v->n->in[0]->dims);
}

static Node *vjp_transpose(Vjp *v)
{
    const Attr *perm = attrs_find(&v->n->attrs, ATTR_perm);
    int back[MAX_RANK] = {0};
    for (int i = 0; i < perm->ints.n; i++) {
        back[perm->ints.v[i]] = i;
    }
    return build_transpose(v->b, v->dy, back);
}

/* autodiff.c sums over what was broadcast. */
static Node *vjp_expand(Vjp *v)
{
    return dout(v);
}

static Node *pad(Vjp *v, Node *x, int axis, int64_t before, int64_t after)
{
    return build_pad(v->b, x, axis, before, after);
}

static Node *slice(Vjp *v, Node *x, int axis, int64_t start, int64_t stop)
{
    return build_slice(v->b, x, axis, start, stop, 1);
}

static Node *vjp_slice(Vjp *v)
{
    const Attrs *as = &v->n->attrs;
    int axis = (int)attrs_int(as, ATTR_axis, 0);
    int64_t start = attrs_int(as, ATTR_start, 0), step = attrs_int(as, ATTR_step, 1);
    int64_t length = v->n->in[0]->dims.d[axis].k, covered = v->n->dims.d[axis].k * step;
    Node *dy = v->dy;
    if (step > 1) {
        dy = build_spread(v->b, dy, axis, step);
        if (start + covered > length) { /* zeros behind the last element that do not exist */
            dy = slice(v, dy, axis, 0, length - start);
            covered = length - start;
        }
    }
    return pad(v, dy, axis, start, length - start - covered);
}

static Node *vjp_pad(Vjp *v)
{
    int axis = (int)attrs_int(&v->n->attrs, ATTR_axis, 0);
    int64_t before = attrs_int(&v->n->attrs, ATTR_before, 0);
    if (before == 0 && attrs_int(&v->n->attrs, ATTR_after, 0) == 0) {
        return v->dy;
    }
    return slice(v, v->dy, axis, before, before + v->n->in[0]->dims.d[axis].k);
}

static Node *vjp_concat(Vjp *v)
{
    int axis = (int)attrs_int(&v->n->attrs, ATTR_axis, 0);
    int64_t start = 0;
    for (int i = 0; i < v->i; i++) {
        start += v->n->in[i]->dims.d[axis].k;
    }
    return slice(v, v->dy, axis, start, start + v->n->in[v->i]->dims.d[axis].k);
}

/* ---- contractions -------------------------------------------------------------------------------- */

/* [.., n] -> [rows, n]: one large product instead of many small ones; false when rows is no Dim. */
static bool flat_dims(const Node *x, Dims *flat)
{
    Dims lead = x->dims;
    lead.rank--;
    flat->rank = 2;
    flat->d[1] = x->dims.d[lead.rank];
    return dims_count(&lead, &flat->d[0]);
}

static Node *flat(Vjp *v, Node *x)
{
    Dims dims = {0};
    if (!flat_dims(x, &dims)) {
        ICE("more than two symbolic dimensions in front of a linear layer");
    }
    return build_reshape(v->b, x, &dims);
}

/* dx = dy W; dW = dy^T x; db = sum of dy */
static Node *vjp_linear(Vjp *v)
{
    Node *x = v->n->in[0], *w = v->n->in[1];
    switch (v->i) {
    case 0: {
        Node *dx = build_matmul(v->b, flat(v, v->dy), w, false, false, v->wanted);
        return build_reshape(v->b, dx, &x->dims);
    }
    case 1: return build_matmul(v->b, flat(v, v->dy), flat(v, x), true, false, v->wanted);
    default: return dout(v);
    }
}

/* A vector as a matrix with an axis of 1 where matmul reads one. */
static Node *as_matrix(Vjp *v, Node *x, bool left)
{
    if (x->dims.rank != 1) {
        return x;
    }
    Dims dims = {.rank = 2};
    dims.d[left ? 1 : 0] = x->dims.d[0];
    dims.d[left ? 0 : 1] = dim_of(1);
    return build_reshape(v->b, x, &dims);
}

/* dy with the axes of 1 that vectors lost. */
static Node *matrix_dy(Vjp *v)
{
    bool row = v->n->in[0]->dims.rank == 1, column = v->n->in[1]->dims.rank == 1;
    Dims dims = v->dy->dims;
    if (row) { /* [.., N] -> [.., 1, N] */
        int at = dims.rank - (column ? 0 : 1);
        for (int i = dims.rank; i > at; i--) {
            dims.d[i] = dims.d[i - 1];
        }
        dims.d[at] = dim_of(1);
        dims.rank++;
    }
    if (column) {
        dims.d[dims.rank++] = dim_of(1);
    }
    return build_reshape(v->b, v->dy, &dims);
}

/* With A' and B' as they are read: dA' = dC B'^T, dB' = A'^T dC, transposed again for a flag. */
static Node *vjp_matmul(Vjp *v)
{
    Node *a = v->n->in[0], *b = v->n->in[1];
    bool ta = attrs_bool(&v->n->attrs, ATTR_trans_a) && a->dims.rank > 1;
    bool tb = attrs_bool(&v->n->attrs, ATTR_trans_b) && b->dims.rank > 1;
    Node *ma = as_matrix(v, a, true), *mb = as_matrix(v, b, false), *dy = matrix_dy(v), *d;
    const Node *operand = v->i == 0 ? ma : mb;
    if (v->i == 0) {
        d = ta ? build_matmul(v->b, mb, dy, tb, true, v->wanted)
               : build_matmul(v->b, dy, mb, false, !tb, v->wanted);
    } else {
        Dims rows;
        if (mb->dims.rank == 2 && ma->dims.rank > 2 && !ta && flat_dims(ma, &rows) &&
            flat_dims(dy, &rows)) {
            ma = flat(v, ma);
            dy = flat(v, dy);
        }
        d = tb ? build_matmul(v->b, dy, ma, true, ta, v->wanted)
               : build_matmul(v->b, ma, dy, !ta, false, v->wanted);
    }
    Dims matrix = operand->dims;
    return build_reshape(v->b, build_sum_to(v->b, d, &matrix), &v->n->in[v->i]->dims);
}

static Node *conv(Vjp *v, Op op, Node *x, Node *w, Attrs attrs)
{
    return build_conv(v->b, op, 2, (Node *[]){x, w}, attrs, v->wanted);
}

/* The attributes that all of the convolutions share. */
static Attrs conv_attrs(Vjp *v)
{
    static const AttrId shared[] = {ATTR_stride, ATTR_padding, ATTR_dilation, ATTR_groups};
    Attrs attrs = {0};
    for (int i = 0; i < 4; i++) {
        const Attr *a = attrs_find(&v->n->attrs, shared[i]);
        if (a != NULL) {
            attrs_set(v->b->graph->arena, &attrs, *a);
        }
    }
    return attrs;
}

/* The image that gave y; the stride may have left rows and columns at its end unread. */
static Node *conv_image(Vjp *v, Node *y, Node *w, const Conv *c)
{
    Attrs attrs = conv_attrs(v);
    int64_t rest[2];
    for (int i = 0; i < 2; i++) {
        rest[i] =
            c->image[i] - conv_transpose_length(&c->steps, i, c->result[i], c->steps.kernel[i]);
    }
    attrs_set_ints(v->b->graph->arena, &attrs, ATTR_output_padding, 2, rest);
    return conv(v, OP_conv_transpose2d, y, w, attrs);
}

static Node *conv_weight(Vjp *v, Node *y, Node *x, const Conv *c)
{
    Attrs attrs = conv_attrs(v);
    attrs_set_ints(v->b->graph->arena, &attrs, ATTR_kernel, 2, c->steps.kernel);
    return conv(v, OP_conv2d_weight_grad, y, x, attrs);
}

static Conv conv_without_output_padding(const Node *n)
{
    Conv c = conv_of(n);
    c.steps.output_padding[0] = c.steps.output_padding[1] = 0;
    return c;
}

/* Sums of products are linear in both: each derivative is another one of the three. */
static Node *vjp_conv2d(Vjp *v)
{
    Conv c = conv_without_output_padding(v->n);
    switch (v->i) {
    case 0: return conv_image(v, v->dy, v->n->in[1], &c);
    case 1: return conv_weight(v, v->dy, v->n->in[0], &c);
    default: return build_reduce(v->b, OP_sum, dout(v), 3, (int64_t[]){0, 2, 3}, false);
    }
}

static Node *vjp_conv_transpose2d(Vjp *v)
{
    Conv c = conv_without_output_padding(v->n);
    return v->i == 0 ? conv(v, OP_conv2d, v->dy, v->n->in[1], conv_attrs(v))
                     : conv_weight(v, v->n->in[0], v->dy, &c);
}

static Node *vjp_conv2d_weight_grad(Vjp *v)
{
    Conv c = conv_without_output_padding(v->n);
    return v->i == 0 ? conv(v, OP_conv2d, v->n->in[1], v->dy, conv_attrs(v))
                     : conv_image(v, v->n->in[0], v->dy, &c);
}

static Node *vjp_max_pool2d(Vjp *v)
{
    return build(v->b, OP_max_pool2d_grad, 2, (Node *[]){v->dy, v->n->in[0]}, v->n->attrs);
}

static Node *vjp_avg_pool2d(Vjp *v)
{
    return build(v->b, OP_avg_pool2d_grad, 2, (Node *[]){v->dy, v->n->in[0]}, v->n->attrs);
}

/* ---- reductions ---------------------------------------------------------------------------------- */

/* A value per reduced group, spread over the operand again. */
static Node *unreduce(Vjp *v, Node *x)
{
    const Node *n = v->n;
    int64_t axes[MAX_RANK];
    int naxes = op_info[n->op].attrs[0] == ATTR_axes ? node_axes(n, axes) : 1;
    if (op_info[n->op].attrs[0] == ATTR_axis) {
        axes[0] = attrs_int(&n->attrs, ATTR_axis, 0);
    }
    Dims kept = n->in[0]->dims;
    for (int i = 0; i < naxes; i++) {
        kept.d[axes[i]] = dim_of(1);
    }
    return build_expand(v->b, build_reshape(v->b, x, &kept), &n->in[0]->dims);
}

/* How many elements a group has, as a number; a symbolic axis is counted by summing ones. */
static Node *group_size(Vjp *v, double less)
{
    int64_t axes[MAX_RANK];
    int naxes = node_axes(v->n, axes);
    double k = 1;
    Dims symbols = {0};
    for (int i = 0; i < naxes; i++) {
        Dim d = v->n->in[0]->dims.d[axes[i]];
        k *= (double)d.k;
        for (int s = 0; s < 2; s++) {
            if (d.sym[s] != 0) {
                symbols.d[symbols.rank++] = (Dim){.k = 1, .sym = {d.sym[s], 0}};
            }
        }
    }
    if (symbols.rank == 0) {
        return number(v, k - less);
    }
    Node *ones = build_expand(v->b, number(v, 1), &symbols);
    Node *n = times(v, k, build_reduce(v->b, OP_sum, ones, -1, NULL, false));
    return less == 0 ? n : sub(v, n, number(v, less));
}

static Node *vjp_sum(Vjp *v)
{
    return unreduce(v, dout(v));
}

static Node *vjp_mean(Vjp *v)
{
    in_f32(v);
    return unreduce(v, quotient(v, dout(v), group_size(v, 0)));
}

/* dy * 2 (x - mean) / n */
static Node *vjp_var(Vjp *v)
{
    in_f32(v);
    Node *x = in(v, 0), *dy = dout(v);
    int64_t axes[MAX_RANK];
    int naxes = node_axes(v->n, axes);
    Node *centred = sub(v, x, build_reduce(v->b, OP_mean, x, naxes, axes, true));
    Node *n = group_size(v, attrs_bool(&v->n->attrs, ATTR_unbiased) ? 1 : 0);
    return mul(v, centred, unreduce(v, quotient(v, times(v, 2, dy), n)));
}

/* amax and amin: equals share */
static Node *vjp_amax(Vjp *v)
{
    in_f32(v);
    Node *hit = op2(v, OP_eq, in(v, 0), unreduce(v, out(v)));
    Node *share = where(v, hit, number(v, 1), number(v, 0));
    int64_t axes[MAX_RANK];
    int naxes = node_axes(v->n, axes);
    Node *hits =
        build_reduce(v->b, OP_sum, share, naxes, axes, attrs_bool(&v->n->attrs, ATTR_keepdim));
    return mul(v, share, unreduce(v, quotient(v, dout(v), hits)));
}

static Node *sum_along(Vjp *v, Node *x)
{
    int64_t axis = attrs_int(&v->n->attrs, ATTR_axis, 0);
    return build_reduce(v->b, OP_sum, x, 1, &axis, true);
}

/* y (dy - sum(dy y)) */
static Node *vjp_softmax(Vjp *v)
{
    in_f32(v);
    Node *y = out(v), *dy = dout(v);
    return mul(v, y, sub(v, dy, sum_along(v, mul(v, dy, y))));
}

/* dy - exp(y) sum(dy) */
static Node *vjp_log_softmax(Vjp *v)
{
    in_f32(v);
    Node *dy = dout(v);
    return sub(v, dy, mul(v, op1(v, OP_exp, out(v)), sum_along(v, dy)));
}

static Node *vjp_logsumexp(Vjp *v)
{
    in_f32(v);
    Node *x = in(v, 0);
    Node *share = build(v->b, OP_softmax, 1, &x, v->n->attrs);
    return mul(v, share, unreduce(v, dout(v)));
}

static Node *vjp_cross_entropy(Vjp *v)
{
    if (v->i != 0) {
        return NULL;
    }
    Node *operands[] = {v->dy, v->n->in[0], v->n->in[1]};
    return build(v->b, OP_cross_entropy_grad, 3, operands, v->n->attrs);
}

static Node *vjp_embedding(Vjp *v)
{
    if (v->i != 0) {
        return NULL;
    }
    if (!dim_is_const(v->n->in[0]->dims.d[0])) {
        diag_error(v->b->diag, v->n->loc,
                   "rows are picked from a tensor whose number of rows is known only at run time: "
                   "it has no derivative");
        return NULL;
    }
    Attrs attrs = v->n->attrs;
    attrs_set_int(v->b->graph->arena, &attrs, ATTR_rows, v->n->in[0]->dims.d[0].k);
    Node *operands[] = {build_cast(v->b, v->dy, v->wanted), v->n->in[1]};
    return build(v->b, OP_embedding_grad, 2, operands, attrs);
}

VjpFn *const vjp_rule[OP_COUNT] = {
#define MAP(name, in, cast, gradient, expression, meaning) [OP_##name] = vjp_##gradient,
#define OP(name, in, attributes, shape, cast, gradient, kind, meaning) [OP_##name] = vjp_##gradient,
#define MARK(name, in, attributes, meaning) [OP_##name] = vjp_none,
#include "ir/ops.def"
};
