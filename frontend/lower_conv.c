/* lower_conv.c: convolutions and pools of images [n, channels, rows, columns]. */
#include "frontend/builtins.h"

/* A number for both, or two: rows, columns. */
static bool call_pair(Lower *l, Call *c, int i, int64_t out[2])
{
    Val v = c->args[i];
    bool list = (v.kind == VAL_list || v.kind == VAL_tuple) && v.list->n == 2;
    for (int k = 0; k < 2; k++) {
        Val one = list ? v.list->at[k] : v;
        if (one.kind != VAL_int) {
            if (!val_is_poison(v)) {
                lower_error(l, c->locs[i],
                            "this is a whole number, or two of them for rows and columns, not %s",
                            val_describe(l, v));
            }
            return false;
        }
        out[k] = one.i;
    }
    return true;
}

Val fn_pair(Lower *l, Call *c)
{
    int64_t both[2];
    if (!call_pair(l, c, 0, both)) {
        return val_poison();
    }
    Val r = val_list(l, VAL_list);
    val_push(l, &r, val_int(both[0]));
    val_push(l, &r, val_int(both[1]));
    return r;
}

/* Sets an attribute from argument i. */
static bool pair_attr(Lower *l, Call *c, int i, Attrs *attrs, AttrId id)
{
    int64_t both[2];
    if (!call_pair(l, c, i, both)) {
        return false;
    }
    attrs_set_ints(l->arena, attrs, id, 2, both);
    return true;
}

/* padding = "same" of a convolution: as many results as elements, the stride being 1. */
static bool same_padding(Lower *l, Call *c, Attrs *attrs, const Node *w)
{
    ConvSteps s = conv_steps(attrs);
    int64_t both[2];
    for (int i = 0; i < 2; i++) {
        int64_t whole = w->dims.rank == 4 ? s.dilation[i] * (w->dims.d[2 + i].k - 1) : 0;
        if (s.stride[i] != 1 || whole % 2 != 0) {
            lower_error(l, c->locs[4], "padding \"same\" wants stride 1 and a window of odd size");
            return false;
        }
        both[i] = whole / 2;
    }
    attrs_set_ints(l->arena, attrs, ATTR_padding, 2, both);
    return true;
}

static bool conv_padding(Lower *l, Call *c, Attrs *attrs, const Node *w)
{
    if (c->args[4].kind != VAL_str) {
        return pair_attr(l, c, 4, attrs, ATTR_padding);
    }
    if (str_eq(c->args[4].s, "same")) {
        return same_padding(l, c, attrs, w);
    }
    if (!str_eq(c->args[4].s, "valid")) {
        lower_error(l, c->locs[4], "padding is a number, two numbers, \"same\" or \"valid\"");
        return false;
    }
    return true;
}

/* x, weight and perhaps bias, in one type. */
static bool conv_operands(Lower *l, Call *c, Node *in[3], int *n)
{
    *n = c->args[2].kind == VAL_none ? 2 : 3;
    for (int i = 0; i < *n; i++) {
        if (!call_tensor(l, c, i, &in[i])) {
            return false;
        }
        if (i > 0 && dtype_info[in[0]->dtype].is_float) {
            in[i] = op_cast(l, in[i], dtype_widest(in[0]->dtype, in[i]->dtype));
        }
    }
    in[0] = op_cast(l, in[0], dtype_widest(in[0]->dtype, in[1]->dtype));
    return true;
}

static bool groups_attr(Lower *l, Call *c, int i, Attrs *attrs)
{
    int64_t groups;
    if (!call_int(l, c, i, &groups)) {
        return false;
    }
    attrs_set_int(l->arena, attrs, ATTR_groups, groups);
    return true;
}

Val fn_conv2d(Lower *l, Call *c)
{
    Node *in[3];
    int n;
    Attrs attrs = {0};
    if (!conv_operands(l, c, in, &n) || !pair_attr(l, c, 3, &attrs, ATTR_stride) ||
        !pair_attr(l, c, 5, &attrs, ATTR_dilation) || !groups_attr(l, c, 6, &attrs) ||
        !conv_padding(l, c, &attrs, in[1])) {
        return val_poison();
    }
    return val_of_node(l, op_build(l, OP_conv2d, n, in, attrs));
}

Val fn_conv_transpose2d(Lower *l, Call *c)
{
    Node *in[3];
    int n;
    Attrs attrs = {0};
    if (!conv_operands(l, c, in, &n) || !pair_attr(l, c, 3, &attrs, ATTR_stride) ||
        !pair_attr(l, c, 4, &attrs, ATTR_padding) ||
        !pair_attr(l, c, 5, &attrs, ATTR_output_padding) || !groups_attr(l, c, 6, &attrs) ||
        !pair_attr(l, c, 7, &attrs, ATTR_dilation)) {
        return val_poison();
    }
    Node *y = op_build(l, OP_conv_transpose2d, 2, in, attrs);
    if (n == 3 && y != NULL) {
        Dims channel = {.rank = 3, .d = {in[2]->dims.d[0], dim_of(1), dim_of(1)}};
        y = op2(l, OP_add, y, op_reshape(l, in[2], &channel));
    }
    return val_of_node(l, y);
}
