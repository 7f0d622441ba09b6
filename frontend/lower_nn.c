/* lower_nn.c: layers as ops or compositions of ops. */
#include "frontend/builtins.h"

/* ---- layers ---------------------------------------------------------------------------------------- */

Val fn_linear(Lower *l, Call *c)
{
    Node *in[3];
    int n = c->args[2].kind == VAL_none ? 2 : 3;
    for (int i = 0; i < n; i++) {
        if (!call_tensor(l, c, i, &in[i])) {
            return val_poison();
        }
        if (i > 0 && dtype_info[in[0]->dtype].is_float) {
            in[i] = op_cast(l, in[i], dtype_widest(in[0]->dtype, in[i]->dtype));
        }
    }
    in[0] = op_cast(l, in[0], dtype_widest(in[0]->dtype, in[1]->dtype));
    return val_of_node(l, op_build(l, OP_linear, n, in, (Attrs){0}));
}

Val fn_matmul(Lower *l, Call *c)
{
    Node *x, *y;
    if (!call_tensor(l, c, 0, &x) || !call_tensor(l, c, 1, &y)) {
        return val_poison();
    }
    return val_of_node(l, op_matmul(l, x, y));
}

/* embedding(indices, weight), and embedding(weight, indices) is told apart by the types */
Val fn_embedding(Lower *l, Call *c)
{
    Node *at, *table;
    int64_t padding;
    Attrs attrs = {0};
    if (!call_tensor(l, c, 0, &at) || !call_tensor(l, c, 1, &table)) {
        return val_poison();
    }
    if (!dtype_info[at->dtype].is_int) {
        return lower_error(l, c->locs[0],
                           "the indices of an embedding are integers, but this is %s",
                           val_describe(l, c->args[0]));
    }
    if (c->args[2].kind != VAL_none) {
        if (!call_int(l, c, 2, &padding)) {
            return val_poison();
        }
        if (dim_is_const(table->dims.d[0]) && padding < 0) {
            padding += table->dims.d[0].k;
        }
        attrs_set_int(l->arena, &attrs, ATTR_padding_idx, padding);
    }
    return val_of_node(l, op_build(l, OP_embedding, 2, (Node *[]){table, at}, attrs));
}

static const char *random_path(Lower *l, const char *fn)
{
    const Frame *f = l->frame;
    while (f != NULL && f->self == NULL) {
        f = f->up;
    }
    return f != NULL && f->self->path[0] != '\0' ? f->self->path : fn;
}

/* where(uniform >= p, x / (1 - p), 0) in training, x in evaluation; a draw for each of the first `axes` axes, or all */
static Val drop(Lower *l, Call *c, int axes)
{
    Node *x;
    double p;
    if (!call_float(l, c, 1, &p) || !call_tensor(l, c, 0, &x)) {
        return val_poison();
    }
    if (!(p >= 0 && p <= 1)) {
        return lower_error(l, c->locs[1], "p of dropout is a probability, between 0 and 1");
    }
    if (l->run->graph->role == GRAPH_Prepare) {
        l->run->by_mode = true;
    }
    if (!l->training || p == 0) {
        return val_of_node(l, x);
    }
    x = dtype_info[x->dtype].is_float ? x : op_cast(l, x, DT_f32);
    Dims draws = x->dims;
    for (int i = axes; axes > 0 && i < draws.rank; i++) {
        draws.d[i] = dim_of(1);
    }
    Node *draw = op_uniform(l, &draws, random_path(l, "dropout"));
    if (draw == NULL) {
        return val_poison();
    }
    Node *kept = op2(l, OP_ge, draw, op_const(l, DT_f32, p));
    double scale = p < 1 ? 1 / (1 - p) : 0;
    Node *scaled = op2(l, OP_mul, x, op_const(l, x->dtype, scale));
    return val_of_node(l, op3(l, OP_where, kept, scaled, op_const(l, x->dtype, 0)));
}

Val fn_dropout(Lower *l, Call *c)
{
    return drop(l, c, 0);
}

Val fn_feature_dropout(Lower *l, Call *c)
{
    return drop(l, c, 2);
}

/* ---- norms ----------------------------------------------------------------------------------------- */

/* The last axes, as many as normalized_shape has; checks their sizes. */
static bool normal_axes(Lower *l, Call *c, const Node *x, int64_t *axes, int *n)
{
    Dims want;
    if (!call_dims(l, c, 1, &want)) {
        return false;
    }
    bool fits = want.rank <= x->dims.rank && want.rank > 0;
    for (int i = 0; fits && i < want.rank; i++) {
        fits = dim_equal(want.d[i], x->dims.d[x->dims.rank - want.rank + i]);
        axes[i] = x->dims.rank - want.rank + i;
    }
    *n = want.rank;
    if (!fits) {
        lower_error(l, c->loc, "%s: the last axes must be [%s], but this is %s", c->fn->name,
                    dims_text(l->arena, l->run->graph, &want), val_describe(l, c->args[0]));
    }
    return fits;
}

static Node *affine(Lower *l, Call *c, Node *y, int weight, int bias)
{
    Node *w;
    if (c->args[weight].kind != VAL_none) {
        y = call_tensor(l, c, weight, &w) ? op2(l, OP_mul, y, w) : NULL;
    }
    if (bias > 0 && c->args[bias].kind != VAL_none) {
        y = call_tensor(l, c, bias, &w) ? op2(l, OP_add, y, w) : NULL;
    }
    return y;
}

static const char statistics_why[] = "statistics are computed in f32";

static Node *normalised(Lower *l, Node *x, int n, const int64_t *axes, double eps)
{
    Attrs attrs = {0};
    attrs_set_ints(l->arena, &attrs, ATTR_axes, n, axes);
    attrs_set_bool(l->arena, &attrs, ATTR_keepdim, true);
    Node *centred = op2(l, OP_sub, x, op_reduce(l, OP_mean, x, n, axes, true));
    Node *spread = op_build(l, OP_var, 1, &x, attrs);
    Node *root = op1(l, OP_rsqrt, op2(l, OP_add, spread, op_const(l, DT_f32, eps)));
    return op2(l, OP_mul, centred, root);
}

Val fn_layer_norm(Lower *l, Call *c)
{
    Node *x;
    int64_t axes[MAX_RANK];
    int n;
    double eps;
    if (!call_tensor(l, c, 0, &x) || !normal_axes(l, c, x, axes, &n) ||
        !call_float(l, c, 4, &eps)) {
        return val_poison();
    }
    DType outer = op_enter_wide(l, x, statistics_why);
    Node *y = normalised(l, x, n, axes, eps);
    op_leave_wide(l, outer);
    return val_of_node(l, affine(l, c, y, 2, 3));
}

Val fn_rms_norm(Lower *l, Call *c)
{
    Node *x;
    int64_t axes[MAX_RANK];
    int n;
    double eps;
    if (!call_tensor(l, c, 0, &x) || !normal_axes(l, c, x, axes, &n) ||
        !call_float(l, c, 3, &eps)) {
        return val_poison();
    }
    DType outer = op_enter_wide(l, x, statistics_why);
    Node *power = op_reduce(l, OP_mean, op1(l, OP_square, x), n, axes, true);
    Node *root = op1(l, OP_rsqrt, op2(l, OP_add, power, op_const(l, DT_f32, eps)));
    Node *y = op2(l, OP_mul, x, root);
    op_leave_wide(l, outer);
    return val_of_node(l, affine(l, c, y, 2, -1));
}

/* x [n, channels, ..] of a floating-point type and of known sizes */
static bool channels_of(Lower *l, Call *c, Node **x)
{
    if (!call_tensor(l, c, 0, x)) {
        return false;
    }
    bool fits = (*x)->dims.rank >= 2;
    for (int i = 1; fits && i < (*x)->dims.rank; i++) {
        fits = dim_is_const((*x)->dims.d[i]);
    }
    if (!fits) {
        lower_error(l, c->loc, "%s wants [n, channels, ..], but this is %s", c->fn->name,
                    val_describe(l, c->args[0]));
        return false;
    }
    *x = dtype_info[(*x)->dtype].is_float ? *x : op_cast(l, *x, DT_f32);
    return true;
}

/* Argument i, a number for each channel of x, as [channels, 1, ..]; NULL after an error. */
static Node *per_channel(Lower *l, Call *c, int i, const Node *x)
{
    Node *v;
    Dim n;
    if (!call_tensor(l, c, i, &v)) {
        return NULL;
    }
    if (!dims_count(&v->dims, &n) || !dim_equal(n, x->dims.d[1])) {
        lower_error(l, c->locs[i],
                    "a number for each of %lld channels is needed here, but this is %s",
                    (long long)x->dims.d[1].k, val_describe(l, c->args[i]));
        return NULL;
    }
    Dims channel = {.rank = x->dims.rank - 1, .d = {x->dims.d[1]}};
    for (int k = 1; k < channel.rank; k++) {
        channel.d[k] = dim_of(1);
    }
    return op_reshape(l, v, &channel);
}

/* y * weight + bias, channel by channel. */
static Node *channel_affine(Lower *l, Call *c, Node *y, int weight)
{
    static const Op ops[] = {OP_mul, OP_add};
    for (int i = 0; i < 2 && y != NULL; i++) {
        if (c->args[weight + i].kind != VAL_none) {
            Node *w = per_channel(l, c, weight + i, y);
            y = w != NULL ? op2(l, ops[i], y, w) : NULL;
        }
    }
    return y;
}

Val fn_channel_moments(Lower *l, Call *c)
{
    Node *x;
    int64_t axes[MAX_RANK] = {0};
    int naxes = 1;
    double rest = 1;
    if (!channels_of(l, c, &x)) {
        return val_poison();
    }
    for (int i = 2; i < x->dims.rank; i++) {
        axes[naxes++] = i;
        rest *= (double)x->dims.d[i].k;
    }
    /* A mean far from 0 loses in an f32 sum what the spread around it consists of. */
    Node *mean = op_reduce(l, OP_mean, op_cast(l, x, DT_f64), naxes, axes, true);
    mean = op_cast(l, mean, x->dtype == DT_f64 ? DT_f64 : DT_f32);
    DType outer = op_enter_wide(l, x, statistics_why);
    Node *far =
        op2(l, OP_sub, x, op1(l, OP_detach, mean)); /* the spread is least around the mean */
    Node *moment[3] = {mean, op_reduce(l, OP_mean, op1(l, OP_square, far), naxes, axes, true),
                       op2(l, OP_mul, op_dim(l, x->dims.d[0]), op_const(l, DT_f32, rest))};
    op_leave_wide(l, outer);
    Val r = val_list(l, VAL_tuple);
    for (int i = 0; i < 3; i++) {
        val_push(l, &r, val_of_node(l, moment[i]));
    }
    return r;
}

Val fn_batch_norm(Lower *l, Call *c)
{
    Node *x;
    double eps;
    if (!channels_of(l, c, &x) || !call_float(l, c, 5, &eps)) {
        return val_poison();
    }
    Node *mean = per_channel(l, c, 1, x), *var = per_channel(l, c, 2, x);
    if (mean == NULL || var == NULL) {
        return val_poison();
    }
    Node *root = op1(l, OP_rsqrt, op2(l, OP_add, var, op_const(l, var->dtype, eps)));
    Node *y = op2(l, OP_mul, op2(l, OP_sub, x, mean), root);
    return val_of_node(l, channel_affine(l, c, y, 3));
}

Val fn_group_norm(Lower *l, Call *c)
{
    Node *x;
    int64_t groups, axis = 2, each = 1;
    double eps;
    if (!channels_of(l, c, &x) || !call_int(l, c, 1, &groups) || !call_float(l, c, 4, &eps)) {
        return val_poison();
    }
    if (groups < 1 || x->dims.d[1].k % groups != 0) {
        return lower_error(l, c->locs[1], "%lld channels do not make %lld groups",
                           (long long)x->dims.d[1].k, (long long)groups);
    }
    for (int i = 1; i < x->dims.rank; i++) {
        each *= x->dims.d[i].k;
    }
    Dims flat = {.rank = 3, .d = {x->dims.d[0], dim_of(groups), dim_of(each / groups)}};
    DType outer = op_enter_wide(l, x, statistics_why);
    Node *y = normalised(l, op_reshape(l, x, &flat), 1, &axis, eps);
    op_leave_wide(l, outer);
    return val_of_node(l, channel_affine(l, c, op_reshape(l, y, &x->dims), 2));
}
