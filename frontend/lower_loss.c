/* lower_loss.c: losses as ops or compositions of ops.
 *
 * What a loss computes it computes in float32, whatever region it stands in: its operands are brought there
 * and its ops keep that type. A loss of probabilities that come from a sigmoid is computed from the logits, with a
 * note: log(sigmoid(x)) is -inf long before x is. (passes/infer.c does that for logarithms everywhere.)
 */
#include "frontend/builtins.h"

/* ---- losses ---------------------------------------------------------------------------------------- */

/* In a log it is `loss`. */
static Val keyed(Lower *l, Node *n)
{
    Val v = val_of_node(l, n);
    v.key = "loss";
    return v;
}

static DType enter_loss(Lower *l, const Node *x)
{
    return op_enter_wide(l, x, "losses are computed in f32");
}

/* Of probabilities: mean over the rows of -sum(target * log softmax(logits)); ignore_index has no meaning there,
 * as in PyTorch. */
static Node *soft_cross_entropy(Lower *l, Node *logits, Node *target, double smoothing)
{
    int64_t last = logits->dims.rank - 1;
    double classes = (double)logits->dims.d[last].k;
    DType outer = enter_loss(l, logits);
    if (smoothing > 0) {
        target = op2(l, OP_mul, target, op_const(l, target->dtype, 1 - smoothing));
        target = target == NULL
                     ? NULL
                     : op2(l, OP_add, target, op_const(l, target->dtype, smoothing / classes));
    }
    Node *logp = op_axis(l, OP_log_softmax, op_cast(l, logits, l->force), last);
    Node *each = op_reduce(l, OP_sum, op2(l, OP_mul, logp, target), 1, &last, false);
    Node *loss = op1(l, OP_neg, op_reduce(l, OP_mean, each, -1, NULL, false));
    op_leave_wide(l, outer);
    return loss;
}

/* Probabilities of the classes, one row for each row of logits. */
bool loss_of_probabilities(const Node *logits, const Node *target)
{
    return logits->dims.rank > 0 && dtype_info[target->dtype].is_float &&
           dims_equal(&logits->dims, &target->dims);
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
    if (loss_of_probabilities(logits, labels)) {
        return keyed(l, soft_cross_entropy(l, logits, labels, smoothing));
    }
    Attrs attrs = {0};
    attrs_set_int(l->arena, &attrs, ATTR_ignore_index, ignore);
    attrs_set_float(l->arena, &attrs, ATTR_label_smoothing, smoothing);
    evaluation_answer(l, ANSWER_LOGITS, logits);
    return keyed(l, op_build(l, OP_cross_entropy, 2, (Node *[]){logits, labels}, attrs));
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

/* ---- logits behind probabilities --------------------------------------------------------------------- */

/* What fn was applied to, under the moves and casts that followed, which move the result instead: the logits
 * of sigmoid(x)[:, 0]. NULL where x does not come from fn. */
Node *loss_logits(Lower *l, Node *x, Op fn)
{
    if (x == NULL || x->op == fn) {
        return x == NULL ? NULL : x->in[0];
    }
    bool moves = x->op == OP_reshape || x->op == OP_transpose || x->op == OP_slice;
    Node *before = moves || x->op == OP_cast ? loss_logits(l, x->in[0], fn) : NULL;
    if (before == NULL || !moves) {
        return before;
    }
    if (x->op == OP_reshape) {
        return op_reshape(l, before, &x->dims);
    }
    return op_build(l, x->op, 1, &before, x->attrs);
}

/* ---- losses of classes ------------------------------------------------------------------------------- */

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
    evaluation_answer(l, ANSWER_LOGITS, logp); /* whose softmax are the probabilities, too */
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
    op_leave_wide(l, outer);
    return keyed(l, loss);
}

/* ---- element-wise losses ----------------------------------------------------------------------------- */

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
    *y = op_cast(l, *y, (*x)->dtype == DT_f64 ? DT_f64 : DT_f32);
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
    evaluation_answer(l, ANSWER_OUTPUT, x);
    DType outer = enter_loss(l, x);
    Node *loss = reduced(l, c, 2, op1(l, c->fn->op, op2(l, OP_sub, x, y)));
    op_leave_wide(l, outer);
    return keyed(l, loss);
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
    evaluation_answer(l, ANSWER_OUTPUT, x);
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
    op_leave_wide(l, outer);
    return keyed(l, loss);
}

/* softplus(x) - x * y = log(1 + e^x) - x y, stable at both ends. Where y is 0 or 1 nothing is subtracted:
 * inf - inf has no value, and a class that is ruled out (a logit of -inf) costs nothing where it is not it. */
static Node *bce_of_logits(Lower *l, Node *x, Node *y)
{
    Node *zero = op_const(l, l->force, 0), *one = op_const(l, l->force, 1);
    Node *is_one = op2(l, OP_eq, y, one);
    Node *certain = op2(l, OP_or, op2(l, OP_eq, y, zero), is_one);
    Node *rises = op1(l, OP_softplus, op3(l, OP_where, is_one, op1(l, OP_neg, x), x));
    return op2(l, OP_sub, rises, op3(l, OP_where, certain, zero, op2(l, OP_mul, x, y)));
}

/* max(fn(p), -100), which is -100 and without a gradient where `exists` does not hold: as PyTorch. */
static Node *log_above(Lower *l, Op fn, Node *exists, Node *p, double inside)
{
    Node *safe = op3(l, OP_where, exists, p, op_const(l, l->force, inside));
    Node *floor = op_const(l, l->force, -100);
    return op3(l, OP_where, exists, op2(l, OP_maximum, op1(l, fn, safe), floor), floor);
}

/* -(y log p + (1 - y) log(1 - p)) */
static Node *bce_of_probabilities(Lower *l, Node *p, Node *y)
{
    Node *one = op_const(l, l->force, 1);
    Node *above = op2(l, OP_gt, p, op_const(l, l->force, 0)), *below = op2(l, OP_lt, p, one);
    Node *hit = op2(l, OP_mul, y, log_above(l, OP_log, above, p, 1));
    Node *miss =
        op2(l, OP_mul, op2(l, OP_sub, one, y), log_above(l, OP_log1p, below, op1(l, OP_neg, p), 0));
    return op1(l, OP_neg, op2(l, OP_add, hit, miss));
}

/* op: arg for logits, sigmoid for probabilities. */
Val fn_bce(Lower *l, Call *c)
{
    Node *x, *y;
    if (!loss_operands(l, c, &x, &y)) {
        return val_poison();
    }
    Node *logits = c->fn->op == OP_sigmoid ? loss_logits(l, x, OP_sigmoid) : x;
    evaluation_answer(l, logits != NULL ? ANSWER_LOGIT : ANSWER_OUTPUT,
                      logits != NULL ? logits : x);
    DType outer = enter_loss(l, x);
    x = op_cast(l, logits != NULL ? logits : x, l->force);
    y = op_cast(l, y, l->force);
    if (logits != NULL && c->fn->op == OP_sigmoid) {
        l->force_why = "bce of a sigmoid, rewritten: computed from its logits in f32";
        diag_note(l->diag, lower_loc(l, c->loc),
                  "%s of a sigmoid is computed from its logits, as bce_with_logits", c->fn->name);
    }
    Node *each = logits != NULL ? bce_of_logits(l, x, y) : bce_of_probabilities(l, x, y);
    Node *loss = reduced(l, c, 2, each);
    op_leave_wide(l, outer);
    return keyed(l, loss);
}
