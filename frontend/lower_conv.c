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

/* ---- pools ----------------------------------------------------------------------------------------- */

/* Kernel, stride (the kernel where none is said) and padding, from argument 1 on. */
static bool pool_steps(Lower *l, Call *c, Attrs *attrs)
{
    return pair_attr(l, c, 1, attrs, ATTR_kernel) &&
           pair_attr(l, c, c->args[2].kind == VAL_none ? 1 : 2, attrs, ATTR_stride) &&
           pair_attr(l, c, 3, attrs, ATTR_padding);
}

Val fn_max_pool2d(Lower *l, Call *c)
{
    Node *x;
    Attrs attrs = {0};
    if (!call_tensor(l, c, 0, &x) || !pool_steps(l, c, &attrs) ||
        !pair_attr(l, c, 4, &attrs, ATTR_dilation)) {
        return val_poison();
    }
    return val_of_node(l, op_build(l, OP_max_pool2d, 1, &x, attrs));
}

static Node *with_ints(Lower *l, Op op, Node *x, int n, const AttrId *ids, const int64_t *values)
{
    Attrs attrs = {0};
    for (int i = 0; i < n; i++) {
        attrs_set_int(l->arena, &attrs, ids[i], values[i]);
    }
    return op_build(l, op, 1, &x, attrs);
}

static bool is_images(Lower *l, Call *c, const Node *x)
{
    bool fits = x->dims.rank == 4 && dim_is_const(x->dims.d[2]) && dim_is_const(x->dims.d[3]);
    if (!fits) {
        lower_error(l, c->loc, "%s wants images [n, channels, rows, columns], but this is %s",
                    c->fn->name, val_describe(l, c->args[0]));
    }
    return fits;
}

/* Windows that tile the image: [n, c, rows, kernel, columns, kernel], whose means are taken. */
static Node *tile_means(Lower *l, Node *x, const ConvSteps *s, const int64_t *length)
{
    static const AttrId ids[] = {ATTR_axis, ATTR_start, ATTR_stop, ATTR_step};
    Dims apart = {.rank = 6, .d = {x->dims.d[0], x->dims.d[1]}};
    for (int i = 0; i < 2; i++) {
        int64_t used = length[i] * s->kernel[i];
        if (used < x->dims.d[2 + i].k) {
            x = with_ints(l, OP_slice, x, 4, ids, (int64_t[]){2 + i, 0, used, 1});
        }
        apart.d[2 + 2 * i] = dim_of(length[i]);
        apart.d[3 + 2 * i] = dim_of(s->kernel[i]);
    }
    return op_reduce(l, OP_mean, op_reshape(l, x, &apart), 2, (int64_t[]){3, 5}, false);
}

/* Any windows: element by element, the sum of slices. */
static Node *window_means(Lower *l, Node *x, const ConvSteps *s, const int64_t *length)
{
    static const AttrId pads[] = {ATTR_axis, ATTR_before, ATTR_after};
    static const AttrId slices[] = {ATTR_axis, ATTR_start, ATTR_stop, ATTR_step};
    Node *sum = NULL;
    for (int i = 0; i < 2; i++) {
        if (s->padding[i] > 0) {
            x = with_ints(l, OP_pad, x, 3, pads, (int64_t[]){2 + i, s->padding[i], s->padding[i]});
        }
    }
    for (int64_t k = 0; k < s->kernel[0] * s->kernel[1]; k++) {
        int64_t at[2] = {k / s->kernel[1], k % s->kernel[1]};
        Node *y = x;
        for (int i = 0; i < 2; i++) {
            int64_t stop = at[i] + (length[i] - 1) * s->stride[i] + 1;
            y = with_ints(l, OP_slice, y, 4, slices, (int64_t[]){2 + i, at[i], stop, s->stride[i]});
        }
        sum = sum == NULL ? y : op2(l, OP_add, sum, y);
    }
    double n = (double)(s->kernel[0] * s->kernel[1]);
    return op2(l, OP_mul, sum, op_const(l, x->dtype, 1 / n));
}

static Val window_pool(Lower *l, Call *c, Node *x, const ConvSteps *s)
{
    int64_t length[2];
    bool tiles = true;
    for (int i = 0; i < 2; i++) {
        bool fits = s->kernel[i] > 0 && s->stride[i] > 0 && 2 * s->padding[i] <= s->kernel[i] &&
                    s->padding[i] >= 0;
        length[i] = fits ? conv_length(s, i, x->dims.d[2 + i].k, s->kernel[i]) : 0;
        if (length[i] < 1) {
            return lower_error(l, c->loc, "%s: the window does not fit: %s", c->fn->name,
                               val_describe(l, c->args[0]));
        }
        tiles = tiles && s->stride[i] == s->kernel[i] && s->padding[i] == 0;
    }
    x = dtype_info[x->dtype].is_float ? x : op_cast(l, x, DT_f32);
    return val_of_node(l, tiles ? tile_means(l, x, s, length) : window_means(l, x, s, length));
}

Val fn_avg_pool2d(Lower *l, Call *c)
{
    Node *x;
    Attrs attrs = {0};
    if (!call_tensor(l, c, 0, &x) || !is_images(l, c, x) || !pool_steps(l, c, &attrs)) {
        return val_poison();
    }
    ConvSteps s = conv_steps(&attrs);
    return window_pool(l, c, x, &s);
}

Val fn_adaptive_pool(Lower *l, Call *c)
{
    Node *x;
    int64_t size[2];
    ConvSteps s = conv_steps(&(Attrs){0});
    if (!call_tensor(l, c, 0, &x) || !is_images(l, c, x) || !call_pair(l, c, 1, size)) {
        return val_poison();
    }
    for (int i = 0; i < 2; i++) {
        int64_t length = x->dims.d[2 + i].k;
        if (size[i] < 1 || length % size[i] != 0) {
            return lower_error(l, c->locs[1], "%lld equal parts of %lld cannot be made: %s",
                               (long long)size[i], (long long)length, val_describe(l, c->args[0]));
        }
        s.kernel[i] = s.stride[i] = length / size[i];
    }
    return window_pool(l, c, x, &s);
}
