/* lower_pool.c: pools of images and signals. */
#include "frontend/lower_conv.h"

/* Kernel, stride (the kernel where none is said) and padding, from argument 1 on. */
static bool pool_steps(Lower *l, Call *c, Attrs *attrs)
{
    return steps_attr(l, c, 1, attrs, ATTR_kernel) &&
           steps_attr(l, c, c->args[2].kind == VAL_none ? 1 : 2, attrs, ATTR_stride) &&
           steps_attr(l, c, 3, attrs, ATTR_padding);
}

static bool flag_attr(Lower *l, Call *c, int i, Attrs *attrs, AttrId id, bool negated)
{
    bool on;
    if (!call_bool(l, c, i, &on)) {
        return false;
    }
    attrs_set_bool(l->arena, attrs, id, on != negated);
    return true;
}

/* x as images of a floating-point type. */
static Node *pool_image(Lower *l, Call *c)
{
    Node *x;
    if (!call_tensor(l, c, 0, &x)) {
        return NULL;
    }
    return as_images(l, c, dtype_info[x->dtype].is_float ? x : op_cast(l, x, DT_f32));
}

Val fn_max_pool(Lower *l, Call *c)
{
    Attrs attrs = {0};
    Node *x = pool_image(l, c);
    if (x == NULL || !pool_steps(l, c, &attrs) || !steps_attr(l, c, 4, &attrs, ATTR_dilation) ||
        !flag_attr(l, c, 5, &attrs, ATTR_ceil_mode, false)) {
        return val_poison();
    }
    return from_images(l, c, op_build(l, OP_max_pool2d, 1, &x, attrs));
}

Val fn_avg_pool(Lower *l, Call *c)
{
    Attrs attrs = {0};
    int64_t divisor;
    Node *x = pool_image(l, c);
    if (x == NULL || !pool_steps(l, c, &attrs) ||
        !flag_attr(l, c, 4, &attrs, ATTR_ceil_mode, false) ||
        !flag_attr(l, c, 5, &attrs, ATTR_exclude_pad, true)) {
        return val_poison();
    }
    if (!of_signals(c) && c->args[6].kind != VAL_none) {
        if (!call_int(l, c, 6, &divisor)) {
            return val_poison();
        }
        attrs_set_int(l->arena, &attrs, ATTR_divisor, divisor);
    }
    return from_images(l, c, op_build(l, OP_avg_pool2d, 1, &x, attrs));
}

/* ---- pools of a given result ------------------------------------------------------------------------- */

/* output_size: a number, or one for each axis; none keeps the axis as it is. */
static bool output_size(Lower *l, Call *c, const Node *x, int64_t size[2])
{
    Val v = c->args[1];
    int axes = of_signals(c) ? 1 : 2;
    bool list = (v.kind == VAL_list || v.kind == VAL_tuple) && v.list->n == axes;
    size[0] = 1;
    for (int i = 2 - axes; i < 2; i++) {
        Val one = list ? v.list->at[i - (2 - axes)] : v;
        if (one.kind == VAL_none) {
            size[i] = x->dims.d[2 + i].k;
        } else if (!val_int_of(l, one, "a size", c->locs[1], &size[i])) {
            return false;
        }
        if (size[i] < 1) {
            lower_error(l, c->locs[1], "output_size is at least 1");
            return false;
        }
    }
    return true;
}

static Node *pooled(Lower *l, Op op, Node *x, const int64_t kernel[2])
{
    Attrs attrs = {0};
    attrs_set_ints(l->arena, &attrs, ATTR_kernel, 2, kernel);
    attrs_set_ints(l->arena, &attrs, ATTR_stride, 2, kernel);
    return op_build(l, op, 1, &x, attrs);
}

static Node *joined(Lower *l, int n, Node *const *parts, int axis)
{
    Attrs attrs = {0};
    attrs_set_int(l->arena, &attrs, ATTR_axis, axis);
    return n == 1 ? parts[0] : op_build(l, OP_concat, n, parts, attrs);
}

/* Part i of n of an axis: from the last whole element before it to the first one behind. */
static Node *part_of(Lower *l, Node *x, int axis, int64_t i, int64_t n)
{
    int64_t length = x->dims.d[axis].k;
    int64_t start = i * length / n, stop = ((i + 1) * length + n - 1) / n;
    return start == 0 && stop == length ? x : op_slice(l, x, axis, start, stop, 1);
}

/* Parts that overlap or differ in length: each is a window by itself. */
static Node *uneven_parts(Lower *l, Op op, Node *x, const int64_t size[2])
{
    Node **rows = ARENA_ARRAY(l->arena, Node *, size[0]);
    Node **cells = ARENA_ARRAY(l->arena, Node *, size[1]);
    for (int64_t i = 0; i < size[0]; i++) {
        Node *row = part_of(l, x, 2, i, size[0]);
        for (int64_t k = 0; k < size[1]; k++) {
            Node *cell = row == NULL ? NULL : part_of(l, row, 3, k, size[1]);
            if (cell == NULL) {
                return NULL;
            }
            cells[k] = pooled(l, op, cell, (int64_t[]){cell->dims.d[2].k, cell->dims.d[3].k});
        }
        rows[i] = joined(l, (int)size[1], cells, 3);
    }
    return joined(l, (int)size[0], rows, 2);
}

Val fn_adaptive_pool(Lower *l, Call *c)
{
    int64_t size[2], kernel[2];
    Node *x = pool_image(l, c);
    if (x == NULL || !output_size(l, c, x, size)) {
        return val_poison();
    }
    bool even = true;
    for (int i = 0; i < 2; i++) {
        even = even && x->dims.d[2 + i].k % size[i] == 0;
        kernel[i] = x->dims.d[2 + i].k / size[i];
    }
    Op op = c->fn->op;
    return from_images(l, c, even ? pooled(l, op, x, kernel) : uneven_parts(l, op, x, size));
}
