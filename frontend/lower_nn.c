/* lower_nn.c: layers, losses and metrics as ops or compositions of ops.
 *
 * What a loss computes it computes in float32, whatever region it stands in: its operands are brought there
 * and its ops keep that type.
 */
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

/* where(uniform >= p, x / (1 - p), 0) in training, x in evaluation */
Val fn_dropout(Lower *l, Call *c)
{
    Node *x;
    double p;
    if (!call_float(l, c, 1, &p) || !call_tensor(l, c, 0, &x)) {
        return val_poison();
    }
    if (!(p >= 0 && p <= 1)) {
        return lower_error(l, c->locs[1], "p of dropout is a probability, between 0 and 1");
    }
    if (!l->training || p == 0) {
        return val_of_node(l, x);
    }
    x = dtype_info[x->dtype].is_float ? x : op_cast(l, x, DT_f32);
    Node *draw = op_uniform(l, &x->dims, random_path(l, "dropout"));
    if (draw == NULL) {
        return val_poison();
    }
    Node *kept = op2(l, OP_ge, draw, op_const(l, DT_f32, p));
    double scale = p < 1 ? 1 / (1 - p) : 0;
    Node *scaled = op2(l, OP_mul, x, op_const(l, x->dtype, scale));
    return val_of_node(l, op3(l, OP_where, kept, scaled, op_const(l, x->dtype, 0)));
}

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
    Attrs attrs = {0};
    attrs_set_ints(l->arena, &attrs, ATTR_axes, n, axes);
    attrs_set_bool(l->arena, &attrs, ATTR_keepdim, true);
    Node *centred = op2(l, OP_sub, x, op_reduce(l, OP_mean, x, n, axes, true));
    Node *spread = op_build(l, OP_var, 1, &x, attrs);
    Node *root = op1(l, OP_rsqrt, op2(l, OP_add, spread, op_const(l, DT_f32, eps)));
    return val_of_node(l, affine(l, c, op2(l, OP_mul, centred, root), 2, 3));
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
    Node *power = op_reduce(l, OP_mean, op1(l, OP_square, x), n, axes, true);
    Node *root = op1(l, OP_rsqrt, op2(l, OP_add, power, op_const(l, DT_f32, eps)));
    return val_of_node(l, affine(l, c, op2(l, OP_mul, x, root), 2, -1));
}

/* ---- losses ---------------------------------------------------------------------------------------- */

static Val keyed(Lower *l, Node *n, const char *key)
{
    Val v = val_of_node(l, n);
    v.key = key;
    return v;
}

/* A loss in a log is `loss`; a metric is called by its name. */
static DType enter_loss(Lower *l, const Node *x)
{
    DType outer = l->force;
    if (outer == DT_none) {
        l->force = x->dtype == DT_f64 ? DT_f64 : DT_f32;
        l->force_why = "losses are computed in f32";
    }
    return outer;
}

static void leave_loss(Lower *l, DType outer)
{
    l->force = outer;
    if (outer == DT_none) {
        l->force_why = NULL;
    }
}

Val fn_cross_entropy(Lower *l, Call *c)
{
    Node *logits, *labels;
    int64_t ignore;
    double smoothing;
    if (!call_tensor(l, c, 0, &logits) || !call_tensor(l, c, 1, &labels) ||
        !call_int(l, c, 2, &ignore) || !call_float(l, c, 3, &smoothing)) {
        return val_poison();
    }
    if (!(smoothing >= 0 && smoothing <= 1)) {
        return lower_error(l, c->locs[3], "label_smoothing is a share, between 0 and 1");
    }
    Attrs attrs = {0};
    attrs_set_int(l->arena, &attrs, ATTR_ignore_index, ignore);
    attrs_set_float(l->arena, &attrs, ATTR_label_smoothing, smoothing);
    return keyed(l, op_build(l, OP_cross_entropy, 2, (Node *[]){logits, labels}, attrs), "loss");
}

static Node *unit_axis(Lower *l, Node *x)
{
    if (x == NULL || x->dims.rank == MAX_RANK) {
        return NULL;
    }
    Dims dims = x->dims;
    dims.d[dims.rank++] = dim_of(1);
    return op_reshape(l, x, &dims);
}

/* -sum(log_probs[label]) / count, over the labels that are not ignored */
Val fn_nll(Lower *l, Call *c)
{
    Node *logp, *labels;
    int64_t ignore;
    if (!call_tensor(l, c, 0, &logp) || !call_tensor(l, c, 1, &labels) ||
        !call_int(l, c, 2, &ignore)) {
        return val_poison();
    }
    if (logp->dims.rank < 1 || !dtype_info[labels->dtype].is_int) {
        return lower_error(
            l, c->loc, "nll_loss takes log probabilities [.., classes] and integer labels [..]");
    }
    DType outer = enter_loss(l, logp);
    int64_t last = logp->dims.rank - 1;
    Node *classes = op_iota(l, &(Dims){.rank = 1, .d = {logp->dims.d[last]}}, 0);
    labels = op_cast(l, labels, DT_i64);
    Node *hit = op2(l, OP_eq, unit_axis(l, labels), classes);
    Node *zero = op_const(l, DT_f32, 0);
    Node *picked = op_reduce(l, OP_sum, op3(l, OP_where, hit, logp, zero), 1, &last, false);
    Node *counted = op2(l, OP_ne, labels, op_const(l, DT_i64, (double)ignore));
    Node *n = op_reduce(l, OP_sum, op_cast(l, counted, DT_f32), -1, NULL, false);
    Node *total = op_reduce(l, OP_sum, op3(l, OP_where, counted, picked, zero), -1, NULL, false);
    n = op2(l, OP_maximum, n, op_const(l, DT_f32, 1));
    Node *loss = op1(l, OP_neg, op2(l, OP_div, total, n));
    leave_loss(l, outer);
    return keyed(l, loss, "loss");
}

/* Operands of an element-wise loss: of one shape, in float. */
static bool loss_operands(Lower *l, Call *c, Node **x, Node **y)
{
    if (!call_tensor(l, c, 0, x) || !call_tensor(l, c, 1, y)) {
        return false;
    }
    if (!dims_equal(&(*x)->dims, &(*y)->dims)) {
        lower_error(l, c->loc, "%s: the shapes differ: [%s] and [%s]", c->fn->name,
                    dims_text(l->arena, l->run->graph, &(*x)->dims),
                    dims_text(l->arena, l->run->graph, &(*y)->dims));
        return false;
    }
    *x = dtype_info[(*x)->dtype].is_float ? *x : op_cast(l, *x, DT_f32);
    *y = op_cast(l, *y, (*x)->dtype);
    return true;
}

static Node *reduced(Lower *l, Call *c, int arg, Node *x)
{
    const char *how;
    if (!call_str(l, c, arg, &how)) {
        return NULL;
    }
    if (str_eq(how, "none")) {
        return x;
    }
    if (!str_eq(how, "mean") && !str_eq(how, "sum")) {
        lower_error(l, c->locs[arg], "reduction is \"mean\", \"sum\" or \"none\", not \"%s\"", how);
        return NULL;
    }
    return x == NULL ? NULL : op_reduce(l, how[0] == 'm' ? OP_mean : OP_sum, x, -1, NULL, false);
}

Val fn_loss(Lower *l, Call *c)
{
    Node *x, *y;
    if (!loss_operands(l, c, &x, &y)) {
        return val_poison();
    }
    DType outer = enter_loss(l, x);
    Node *loss = reduced(l, c, 2, op1(l, c->fn->op, op2(l, OP_sub, x, y)));
    leave_loss(l, outer);
    return keyed(l, loss, "loss");
}

/* huber(d) = d^2 / 2 below delta, delta * (|d| - delta / 2) beyond; smooth_l1 is that divided by beta */
Val fn_huber(Lower *l, Call *c)
{
    Node *x, *y;
    double delta;
    if (!loss_operands(l, c, &x, &y) || !call_float(l, c, 2, &delta)) {
        return val_poison();
    }
    if (!(delta > 0)) {
        return lower_error(l, c->locs[2], "this must be positive");
    }
    DType outer = enter_loss(l, x);
    DType dt = l->force;
    Node *d = op1(l, OP_abs, op2(l, OP_sub, x, y));
    Node *small = op2(l, OP_mul, op1(l, OP_square, d), op_const(l, dt, 0.5));
    Node *large =
        op2(l, OP_mul, op2(l, OP_sub, d, op_const(l, dt, delta / 2)), op_const(l, dt, delta));
    Node *each = op3(l, OP_where, op2(l, OP_lt, d, op_const(l, dt, delta)), small, large);
    if (c->fn->op == OP_div) {
        each = op2(l, OP_mul, each, op_const(l, dt, 1 / delta));
    }
    Node *loss = reduced(l, c, 3, each);
    leave_loss(l, outer);
    return keyed(l, loss, "loss");
}

/* softplus(x) - x * y: log(1 + e^x) - x y, stable at both ends */
Val fn_bce(Lower *l, Call *c)
{
    Node *x, *y;
    if (!loss_operands(l, c, &x, &y)) {
        return val_poison();
    }
    DType outer = enter_loss(l, x);
    Node *loss = reduced(l, c, 2, op2(l, OP_sub, op1(l, OP_softplus, x), op2(l, OP_mul, x, y)));
    leave_loss(l, outer);
    return keyed(l, loss, "loss");
}

/* ---- metrics --------------------------------------------------------------------------------------- */

Val fn_accuracy(Lower *l, Call *c)
{
    Node *logits, *labels;
    if (!call_tensor(l, c, 0, &logits) || !call_tensor(l, c, 1, &labels)) {
        return val_poison();
    }
    Dims want = logits->dims;
    want.rank -= want.rank > 0;
    if (logits->dims.rank < 1 || !dims_equal(&want, &labels->dims)) {
        return lower_error(l, c->loc, "accuracy: logits [%s] need labels [%s], but these are [%s]",
                           dims_text(l->arena, l->run->graph, &logits->dims),
                           dims_text(l->arena, l->run->graph, &want),
                           dims_text(l->arena, l->run->graph, &labels->dims));
    }
    if (!dtype_info[labels->dtype].is_int) {
        return lower_error(l, c->locs[1], "labels are integers, but this is %s",
                           val_describe(l, c->args[1]));
    }
    Node *best = op_axis(l, OP_argmax, logits, logits->dims.rank - 1);
    Node *hit = op2(l, OP_eq, best, op_cast(l, labels, DT_i64));
    return keyed(l, op_reduce(l, OP_mean, op_cast(l, hit, DT_f32), -1, NULL, false), "accuracy");
}

Val fn_metric(Lower *l, Call *c)
{
    Node *x, *y;
    if (!loss_operands(l, c, &x, &y)) {
        return val_poison();
    }
    DType outer = enter_loss(l, x);
    Node *r = op_reduce(l, OP_mean, op1(l, c->fn->op, op2(l, OP_sub, x, y)), -1, NULL, false);
    leave_loss(l, outer);
    return keyed(l, r, c->fn->name);
}
