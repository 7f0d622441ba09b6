/* lower_math.c: functions of builtins.def that work element by element, and reductions. */
#include "frontend/builtins.h"

#include <math.h>

/* ---- one operand ----------------------------------------------------------------------------------- */

/* Of numbers at compile time and of the host's numbers, too. */
static bool is_plain(const Call *c)
{
    for (int i = 0; i < c->n; i++) {
        if (val_is_tensor(c->args[i]) || c->args[i].kind == VAL_dim) {
            return false;
        }
    }
    return true;
}

Val fn_map1(Lower *l, Call *c)
{
    Node *x;
    if (is_plain(c)) {
        return number_call(l, c->fn->name, 1, c->args, c->loc);
    }
    return call_tensor(l, c, 0, &x) ? val_of_node(l, op1(l, c->fn->op, x)) : val_poison();
}

/* Functions that leave the whole numbers: integers become f32 first. */
Val fn_map1f(Lower *l, Call *c)
{
    Node *x;
    if (is_plain(c)) {
        return number_call(l, c->fn->name, 1, c->args, c->loc);
    }
    if (!call_tensor(l, c, 0, &x)) {
        return val_poison();
    }
    x = dtype_info[x->dtype].is_float ? x : op_cast(l, x, DT_f32);
    return val_of_node(l, op1(l, c->fn->op, x));
}

Val fn_ceil(Lower *l, Call *c)
{
    Node *x;
    if (is_plain(c)) {
        return number_call(l, c->fn->name, 1, c->args, c->loc);
    }
    return call_tensor(l, c, 0, &x)
               ? val_of_node(l, op1(l, OP_neg, op1(l, OP_floor, op1(l, OP_neg, x))))
               : val_poison();
}

Val fn_gelu(Lower *l, Call *c)
{
    Node *x;
    const char *how;
    if (!call_tensor(l, c, 0, &x) || !call_str(l, c, 1, &how)) {
        return val_poison();
    }
    if (!str_eq(how, "none") && !str_eq(how, "tanh")) {
        return lower_error(l, c->locs[1], "approximate is \"none\" or \"tanh\", not \"%s\"", how);
    }
    return val_of_node(l, op1(l, how[0] == 't' ? OP_gelu_tanh : OP_gelu, x));
}

Val fn_relu6(Lower *l, Call *c)
{
    Node *x;
    if (!call_tensor(l, c, 0, &x)) {
        return val_poison();
    }
    return val_of_node(l, op3(l, OP_clamp, x, op_const(l, x->dtype, 0), op_const(l, x->dtype, 6)));
}

Val fn_mish(Lower *l, Call *c)
{
    Node *x;
    if (!call_tensor(l, c, 0, &x)) {
        return val_poison();
    }
    return val_of_node(l, op2(l, OP_mul, x, op1(l, OP_tanh, op1(l, OP_softplus, x))));
}

/* ---- several operands ------------------------------------------------------------------------------ */

/* Operands 0 and 1; a number takes the type of the tensor beside it. */
static bool two(Lower *l, Call *c, Node **x, Node **y)
{
    bool left = val_is_tensor(c->args[0]);
    int first = left ? 0 : 1;
    Node *p, *q;
    if (!call_tensor(l, c, first, &p)) {
        return false;
    }
    q = tensor_like(l, c->args[1 - first], p->dtype, c->locs[1 - first]);
    *x = left ? p : q;
    *y = left ? q : p;
    return q != NULL;
}

Val fn_map2(Lower *l, Call *c)
{
    Node *x, *y;
    return two(l, c, &x, &y) ? val_of_node(l, op2(l, c->fn->op, x, y)) : val_poison();
}

Val fn_pow(Lower *l, Call *c)
{
    Ast e = {.kind = AST_binary, .op = AST_OP_pow, .loc = c->loc};
    Ast left = {.loc = c->locs[0]}, right = {.loc = c->locs[1]};
    e.left = &left;
    e.right = &right;
    if (is_plain(c)) {
        return number_binary(l, AST_OP_pow, c->args[0], c->args[1], c->loc);
    }
    return tensor_binary(l, AST_OP_pow, c->args[0], c->args[1], &e);
}

Val fn_clamp(Lower *l, Call *c)
{
    Node *x;
    if (!call_tensor(l, c, 0, &x)) {
        return val_poison();
    }
    Node *low =
        c->args[1].kind == VAL_none ? NULL : tensor_like(l, c->args[1], x->dtype, c->locs[1]);
    Node *high =
        c->args[2].kind == VAL_none ? NULL : tensor_like(l, c->args[2], x->dtype, c->locs[2]);
    if (low == NULL && high == NULL) {
        return lower_error(l, c->loc, "clamp needs min or max");
    }
    if (low != NULL && high != NULL) {
        return val_of_node(l, op3(l, OP_clamp, x, low, high));
    }
    return val_of_node(l, low != NULL ? op2(l, OP_maximum, x, low) : op2(l, OP_minimum, x, high));
}

static Node *choose(Lower *l, Node *condition, Val a, Loc a_loc, Val b, Loc b_loc)
{
    bool left = val_is_tensor(a);
    Node *p = tensor_of(l, left ? a : b, left ? a_loc : b_loc);
    Node *q = p == NULL ? NULL : tensor_like(l, left ? b : a, p->dtype, left ? b_loc : a_loc);
    if (condition != NULL && condition->dtype != DT_bool) {
        condition = op2(l, OP_ne, condition, op_const(l, condition->dtype, 0));
    }
    return op3(l, OP_where, condition, left ? p : q, left ? q : p);
}

Val fn_where(Lower *l, Call *c)
{
    Node *condition;
    if (!call_tensor(l, c, 0, &condition)) {
        return val_poison();
    }
    return val_of_node(l, choose(l, condition, c->args[1], c->locs[1], c->args[2], c->locs[2]));
}

Val fn_masked_fill(Lower *l, Call *c)
{
    Node *mask;
    if (!call_tensor(l, c, 1, &mask)) {
        return val_poison();
    }
    return val_of_node(l, choose(l, mask, c->args[2], c->locs[2], c->args[0], c->locs[0]));
}

/* ---- types and gradients --------------------------------------------------------------------------- */

Val fn_cast(Lower *l, Call *c)
{
    Node *x;
    DType dt;
    if (!call_dtype(l, c, 1, &dt) || !call_tensor(l, c, 0, &x)) {
        return val_poison();
    }
    return val_of_node(l, op_forced_cast(l, x, dt));
}

Val fn_type_as(Lower *l, Call *c)
{
    Node *x, *y;
    if (!call_tensor(l, c, 0, &x) || !call_tensor(l, c, 1, &y)) {
        return val_poison();
    }
    return val_of_node(l, op_cast(l, x, y->dtype));
}

Val fn_detach(Lower *l, Call *c)
{
    Node *x;
    return call_tensor(l, c, 0, &x) ? val_of_node(l, op1(l, OP_detach, x)) : val_poison();
}

Val fn_item(Lower *l, Call *c)
{
    if (c->args[0].kind != VAL_tensor || c->args[0].node->dims.rank != 0) {
        return lower_error(l, c->loc, "item() is the number of a scalar, but this is %s",
                           val_describe(l, c->args[0]));
    }
    return c->args[0];
}

/* ---- reductions ------------------------------------------------------------------------------------ */

static Val reduce(Lower *l, Call *c, Op op, int axis_arg, int keep_arg)
{
    Node *x;
    int64_t axes[MAX_RANK];
    int n;
    bool keep = false;
    if (!call_tensor(l, c, 0, &x) || !call_axes(l, c, axis_arg, x->dims.rank, axes, &n) ||
        (keep_arg >= 0 && !call_bool(l, c, keep_arg, &keep))) {
        return val_poison();
    }
    return val_of_node(l, op_reduce(l, op, x, n, axes, keep));
}

/* sum of a list of numbers or tensors: one after the other */
static Val sum_of_list(Lower *l, Call *c)
{
    Val list = c->args[0], total = val_int(0);
    Ast e = {.kind = AST_binary, .op = AST_OP_add, .loc = c->loc};
    e.left = e.right = &e;
    for (int i = 0; i < list.list->n && !val_is_poison(total); i++) {
        Val v = list.list->at[i];
        bool tensors = val_is_tensor(v) || val_is_tensor(total);
        total = i == 0    ? v
                : tensors ? tensor_binary(l, AST_OP_add, total, v, &e)
                          : number_binary(l, AST_OP_add, total, v, c->loc);
    }
    return total;
}

Val fn_reduce(Lower *l, Call *c)
{
    if (c->fn->op == OP_sum && (c->args[0].kind == VAL_list || c->args[0].kind == VAL_tuple)) {
        return sum_of_list(l, c);
    }
    return reduce(l, c, c->fn->op, 1, 2);
}

/* max(a, b, ...) of numbers, max(x, y) of tensors, max(x) and max(x, dim) of one tensor */
Val fn_minmax(Lower *l, Call *c)
{
    bool max = c->fn->op == OP_amax;
    Val second = c->args[1];
    if (val_is_tensor(c->args[0]) || val_is_tensor(second)) {
        /* max(loss, 1.0) is of two numbers, max(x, 1) along an axis */
        Dims dims = {0};
        DType dt;
        bool scalar = val_dims(c->args[0], &dims, &dt) && dims.rank == 0 && second.kind != VAL_none;
        if (val_is_tensor(second) || val_is_number(c->args[0]) || second.kind == VAL_float ||
            second.kind == VAL_host || scalar) {
            Node *x, *y;
            return two(l, c, &x, &y) ? val_of_node(l, op2(l, max ? OP_maximum : OP_minimum, x, y))
                                     : val_poison();
        }
        return reduce(l, c, c->fn->op, 1, -1);
    }
    Val numbers[MAX_FORMALS];
    int n = 0;
    Val list = c->args[0];
    if (list.kind == VAL_list || list.kind == VAL_tuple) {
        list = list.list->n > 0 ? list : val_poison();
    } else {
        list = val_list(l, VAL_list);
        val_push(l, &list, c->args[0]);
        if (second.kind != VAL_none) {
            val_push(l, &list, second);
        }
        for (int i = 0; i < c->rest.list->n; i++) {
            val_push(l, &list, c->rest.list->at[i]);
        }
    }
    if (val_is_poison(list)) {
        return lower_error(l, c->loc, "%s of an empty list", c->fn->name);
    }
    Val best = list.list->at[0];
    for (int i = 1; i < list.list->n; i++) {
        numbers[0] = best;
        numbers[1] = list.list->at[i];
        n = 2;
        best = number_call(l, c->fn->name, n, numbers, c->loc);
    }
    return n == 0 ? number_call(l, c->fn->name, 1, &best, c->loc) : best;
}

Val fn_var(Lower *l, Call *c)
{
    Node *x;
    int64_t axes[MAX_RANK];
    int n;
    bool keep, unbiased;
    if (!call_tensor(l, c, 0, &x) || !call_axes(l, c, 1, x->dims.rank, axes, &n) ||
        !call_bool(l, c, 2, &unbiased) || !call_bool(l, c, 3, &keep)) {
        return val_poison();
    }
    x = dtype_info[x->dtype].is_float ? x : op_cast(l, x, DT_f32);
    Attrs attrs = {0};
    for (int i = 1; i < n; i++) { /* ascending, as the attribute wants them */
        for (int k = i; k > 0 && axes[k] < axes[k - 1]; k--) {
            int64_t t = axes[k];
            axes[k] = axes[k - 1];
            axes[k - 1] = t;
        }
    }
    attrs_set_ints(l->arena, &attrs, ATTR_axes, n, axes);
    attrs_set_bool(l->arena, &attrs, ATTR_keepdim, keep);
    attrs_set_bool(l->arena, &attrs, ATTR_unbiased, unbiased);
    Node *v = op_build(l, OP_var, 1, &x, attrs);
    return val_of_node(l, c->fn->op == OP_sqrt ? op1(l, OP_sqrt, v) : v);
}

Val fn_norm(Lower *l, Call *c)
{
    Node *x;
    int64_t axes[MAX_RANK];
    int n;
    bool keep;
    double p;
    if (!call_tensor(l, c, 0, &x) || !call_float(l, c, 1, &p) ||
        !call_axes(l, c, 2, x->dims.rank, axes, &n) || !call_bool(l, c, 3, &keep)) {
        return val_poison();
    }
    if (p == 1) {
        return val_of_node(l, op_reduce(l, OP_sum, op1(l, OP_abs, x), n, axes, keep));
    }
    if (p != 2) {
        return lower_error(l, c->locs[1], "norm has p = 1 and p = 2");
    }
    return val_of_node(l,
                       op1(l, OP_sqrt, op_reduce(l, OP_sum, op1(l, OP_square, x), n, axes, keep)));
}

Val fn_argmax(Lower *l, Call *c)
{
    Node *x;
    int64_t axis = 0;
    bool keep;
    if (!call_tensor(l, c, 0, &x) || !call_bool(l, c, 2, &keep)) {
        return val_poison();
    }
    if (c->args[1].kind == VAL_none) {
        Dims flat = {.rank = 1};
        if (!dims_count(&x->dims, &flat.d[0])) {
            return lower_error(l, c->loc, "too many symbolic sizes");
        }
        x = op_reshape(l, x, &flat);
    } else if (!call_axis(l, c, 1, x->dims.rank, &axis)) {
        return val_poison();
    }
    Node *r = op_axis(l, OP_argmax, x, axis);
    if (keep && r != NULL && c->args[1].kind != VAL_none) {
        Dims dims = x->dims;
        dims.d[axis] = dim_of(1);
        r = op_reshape(l, r, &dims);
    }
    return val_of_node(l, r);
}

Val fn_axis(Lower *l, Call *c)
{
    Node *x;
    int64_t axis;
    if (!call_tensor(l, c, 0, &x) || !call_axis(l, c, 1, x->dims.rank, &axis)) {
        return val_poison();
    }
    return val_of_node(l, op_axis(l, c->fn->op, x, axis));
}

Val fn_logsumexp(Lower *l, Call *c)
{
    Node *x;
    int64_t axis;
    bool keep;
    if (!call_tensor(l, c, 0, &x) || !call_axis(l, c, 1, x->dims.rank, &axis) ||
        !call_bool(l, c, 2, &keep)) {
        return val_poison();
    }
    Node *r = op_axis(l, OP_logsumexp, x, axis);
    if (keep && r != NULL) {
        Dims dims = x->dims;
        dims.d[axis] = dim_of(1);
        r = op_reshape(l, r, &dims);
    }
    return val_of_node(l, r);
}
