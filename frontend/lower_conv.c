/* lower_conv.c: convolutions of images [n, channels, rows, columns] and of signals [n, channels, length].
 *
 * What works on signals has a name that ends in 1d. A signal is an image of one row. */
#include "frontend/lower_conv.h"

#include "ir/base/strutil.h"

bool of_signals(const Call *c)
{
    return str_ends(c->fn->name, "1d");
}

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

/* The same for images; for signals one number, beside what means nothing for the only row. */
static bool call_steps(Lower *l, Call *c, int i, int64_t row, int64_t out[2])
{
    Val v = c->args[i];
    if (!of_signals(c)) {
        return call_pair(l, c, i, out);
    }
    v = (v.kind == VAL_list || v.kind == VAL_tuple) && v.list->n == 1 ? v.list->at[0] : v;
    out[0] = row;
    return val_int_of(l, v, "this number for signals", c->locs[i], &out[1]);
}

/* Sets an attribute from argument i. */
bool steps_attr(Lower *l, Call *c, int i, Attrs *attrs, AttrId id)
{
    int64_t both[2];
    bool border = id == ATTR_padding || id == ATTR_output_padding;
    if (!call_steps(l, c, i, border ? 0 : 1, both)) {
        return false;
    }
    attrs_set_ints(l->arena, attrs, id, 2, both);
    return true;
}

static Node *with_rows(Lower *l, Node *x)
{
    Dims d = {.rank = 4, .d = {x->dims.d[0], x->dims.d[1], dim_of(1), x->dims.d[2]}};
    return op_reshape(l, x, &d);
}

Node *as_images(Lower *l, Call *c, Node *x)
{
    int rank = of_signals(c) ? 3 : 4;
    bool fits = x->dims.rank == rank;
    for (int i = 1; fits && i < rank; i++) {
        fits = dim_is_const(x->dims.d[i]);
    }
    if (!fits) {
        lower_error(l, c->loc, "%s wants %s, but this is %s", c->fn->name,
                    rank == 3 ? "signals [n, channels, length]"
                              : "images [n, channels, rows, columns]",
                    val_describe(l, c->args[0]));
        return NULL;
    }
    return rank == 3 ? with_rows(l, x) : x;
}

Val from_images(Lower *l, const Call *c, Node *y)
{
    if (y != NULL && of_signals(c)) {
        Dims d = {.rank = 3, .d = {y->dims.d[0], y->dims.d[1], y->dims.d[3]}};
        y = op_reshape(l, y, &d);
    }
    return val_of_node(l, y);
}
/* ---- padding --------------------------------------------------------------------------------------- */

/* Which element stands at place i outside of an axis; -1: none. */
static int64_t mirror(const char *mode, int64_t i, int64_t length)
{
    int64_t last = length - 1;
    if (str_eq(mode, "replicate")) {
        return i < 0 ? 0 : last;
    }
    int64_t at =
        str_eq(mode, "circular") ? (i < 0 ? i + length : i - length) : (i < 0 ? -i : 2 * last - i);
    return at >= 0 && at <= last ? at : -1;
}

/* The border of a convolution, rows and columns. */
typedef struct Border {
    int64_t before[2], after[2];
} Border;

static Node *padded(Lower *l, Call *c, Node *x, int i, const Border *b, const char *mode)
{
    int axis = 2 + i;
    int64_t length = x->dims.d[axis].k, n = b->before[i] + b->after[i];
    Node **part = ARENA_ARRAY(l->arena, Node *, n + 1);
    for (int64_t k = 0; k < n; k++) {
        bool first = k < b->before[i];
        int64_t at = mirror(mode, first ? k - b->before[i] : length + k - b->before[i], length);
        if (at < 0) {
            lower_error(l, c->locs[4], "a border of %lld is too wide for padding_mode \"%s\": %s",
                        (long long)b->before[i], mode, val_describe(l, c->args[0]));
            return NULL;
        }
        part[first ? k : k + 1] = op_slice(l, x, axis, at, at + 1, 1);
    }
    part[b->before[i]] = x;
    Attrs attrs = {0};
    attrs_set_int(l->arena, &attrs, ATTR_axis, axis);
    return n == 0 ? x : op_build(l, OP_concat, (int)(n + 1), part, attrs);
}

static Node *zeros_behind(Lower *l, Node *x, int axis, int64_t n)
{
    Attrs pad = {0};
    attrs_set_int(l->arena, &pad, ATTR_axis, axis);
    attrs_set_int(l->arena, &pad, ATTR_before, 0);
    attrs_set_int(l->arena, &pad, ATTR_after, n);
    return n == 0 ? x : op_build(l, OP_pad, 1, &x, pad);
}

/* Zeros that are the same on both sides are an attribute; other borders become a part of the image. */
static bool apply_border(Lower *l, Call *c, Border *b, Attrs *attrs, Node **x)
{
    static const char *const modes[] = {"zeros", "reflect", "replicate", "circular"};
    const char *mode;
    bool known = false;
    if (!call_str(l, c, 7, &mode)) {
        return false;
    }
    for (int k = 0; k < 4; k++) {
        known = known || str_eq(mode, modes[k]);
    }
    if (!known) {
        lower_error(l, c->locs[7],
                    "padding_mode is \"zeros\", \"reflect\", \"replicate\" or \"circular\"");
        return false;
    }
    for (int k = 0; k < 2 && *x != NULL; k++) {
        if (str_eq(mode, modes[0])) {
            *x = zeros_behind(l, *x, 2 + k, b->after[k] - b->before[k]);
        } else {
            *x = padded(l, c, *x, k, b, mode);
            b->before[k] = 0;
        }
    }
    attrs_set_ints(l->arena, attrs, ATTR_padding, 2, b->before);
    return *x != NULL;
}

/* padding = "same": as many results as elements, the stride being 1; of an odd number of places one more behind. */
static bool same_border(Lower *l, Call *c, const Attrs *attrs, const Node *w, Border *b)
{
    ConvSteps s = conv_steps(attrs);
    for (int i = 0; i < 2; i++) {
        int64_t whole = w->dims.rank == 4 ? s.dilation[i] * (w->dims.d[2 + i].k - 1) : 0;
        if (s.stride[i] != 1) {
            lower_error(l, c->locs[4], "padding \"same\" wants stride 1");
            return false;
        }
        b->before[i] = whole / 2;
        b->after[i] = whole - whole / 2;
    }
    return true;
}

static bool conv_border(Lower *l, Call *c, const Attrs *attrs, const Node *w, Border *b)
{
    *b = (Border){0};
    if (c->args[4].kind != VAL_str) {
        bool ok = call_steps(l, c, 4, 0, b->before);
        if (ok && (b->before[0] < 0 || b->before[1] < 0)) {
            lower_error(l, c->locs[4], "padding is at least 0");
            return false;
        }
        b->after[0] = b->before[0];
        b->after[1] = b->before[1];
        return ok;
    }
    if (str_eq(c->args[4].s, "same")) {
        return same_border(l, c, attrs, w, b);
    }
    if (!str_eq(c->args[4].s, "valid")) {
        lower_error(l, c->locs[4], "padding is a number%s, \"same\" or \"valid\"",
                    of_signals(c) ? "" : ", two numbers");
        return false;
    }
    return true;
}

/* ---- convolutions ---------------------------------------------------------------------------------- */

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
    in[0] = as_images(l, c, op_cast(l, in[0], dtype_widest(in[0]->dtype, in[1]->dtype)));
    if (of_signals(c) && in[1]->dims.rank != 3) {
        lower_error(l, c->locs[1], "the weight of %s has three axes, but this is %s", c->fn->name,
                    val_describe(l, c->args[1]));
        return false;
    }
    in[1] = of_signals(c) ? with_rows(l, in[1]) : in[1];
    return in[0] != NULL && in[1] != NULL;
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

Val fn_conv(Lower *l, Call *c)
{
    Node *in[3];
    int n;
    Border border;
    Attrs attrs = {0};
    if (!conv_operands(l, c, in, &n) || !steps_attr(l, c, 3, &attrs, ATTR_stride) ||
        !steps_attr(l, c, 5, &attrs, ATTR_dilation) || !groups_attr(l, c, 6, &attrs) ||
        !conv_border(l, c, &attrs, in[1], &border) || !apply_border(l, c, &border, &attrs, in)) {
        return val_poison();
    }
    return from_images(l, c, op_build(l, OP_conv2d, n, in, attrs));
}

Val fn_conv_transpose(Lower *l, Call *c)
{
    Node *in[3];
    int n;
    Attrs attrs = {0};
    if (!conv_operands(l, c, in, &n) || !steps_attr(l, c, 3, &attrs, ATTR_stride) ||
        !steps_attr(l, c, 4, &attrs, ATTR_padding) ||
        !steps_attr(l, c, 5, &attrs, ATTR_output_padding) || !groups_attr(l, c, 6, &attrs) ||
        !steps_attr(l, c, 7, &attrs, ATTR_dilation)) {
        return val_poison();
    }
    Node *y = op_build(l, OP_conv_transpose2d, 2, in, attrs);
    if (n == 3 && y != NULL) {
        Dims channel = {.rank = 3, .d = {in[2]->dims.d[0], dim_of(1), dim_of(1)}};
        y = op2(l, OP_add, y, op_reshape(l, in[2], &channel));
    }
    return from_images(l, c, y);
}
