/* lower_shape.c: functions of builtins.def that lay elements out differently, make new tensors, or work on
 * compile-time sequences. */
#include "frontend/builtins.h"

/* ---- one tensor under another shape ---------------------------------------------------------------- */

Val fn_reshape(Lower *l, Call *c)
{
    Node *x;
    Dims dims;
    if (!call_tensor(l, c, 0, &x) || !call_dims(l, c, 1, &dims) ||
        !dims_reshape(l, x, &dims, c->loc)) {
        return val_poison();
    }
    return val_of_node(l, op_reshape(l, x, &dims));
}

Val fn_flatten(Lower *l, Call *c)
{
    Node *x;
    int64_t first, last;
    if (!call_tensor(l, c, 0, &x)) {
        return val_poison();
    }
    if (x->dims.rank == 0) {
        Dims one = {.rank = 1, .d = {dim_of(1)}};
        return val_of_node(l, op_reshape(l, x, &one));
    }
    if (!call_axis(l, c, 1, x->dims.rank, &first) || !call_axis(l, c, 2, x->dims.rank, &last)) {
        return val_poison();
    }
    if (first > last) {
        return lower_error(l, c->loc, "flatten: axis %lld comes after axis %lld", (long long)first,
                           (long long)last);
    }
    Dims dims = {0};
    Dim all = dim_of(1);
    for (int i = 0; i < x->dims.rank; i++) {
        if (i >= first && i <= last) {
            if (!dim_mul(all, x->dims.d[i], &all)) {
                return lower_error(l, c->loc,
                                   "flatten: too many symbolic sizes, or too many elements");
            }
            if (i < last) {
                continue;
            }
        }
        dims.d[dims.rank++] = i == last ? all : x->dims.d[i];
    }
    return val_of_node(l, op_reshape(l, x, &dims));
}

Val fn_squeeze(Lower *l, Call *c)
{
    Node *x;
    int64_t axes[MAX_RANK];
    int n;
    if (!call_tensor(l, c, 0, &x) || !call_axes(l, c, 1, x->dims.rank, axes, &n)) {
        return val_poison();
    }
    Dims dims = {0};
    for (int i = 0; i < x->dims.rank; i++) {
        bool named = false;
        for (int k = 0; k < n; k++) {
            named = named || axes[k] == i;
        }
        if (!named || !dim_equal(x->dims.d[i], dim_of(1))) {
            dims.d[dims.rank++] = x->dims.d[i];
        }
    }
    return val_of_node(l, op_reshape(l, x, &dims));
}

static Node *with_axis(Lower *l, Node *x, int64_t at, Loc loc)
{
    if (x->dims.rank == MAX_RANK) {
        lower_error(l, loc, "a tensor has at most %d axes", MAX_RANK);
        return NULL;
    }
    Dims dims = {.rank = x->dims.rank + 1};
    for (int i = 0; i < dims.rank; i++) {
        dims.d[i] = i < at ? x->dims.d[i] : i == at ? dim_of(1) : x->dims.d[i - 1];
    }
    return op_reshape(l, x, &dims);
}

Val fn_unsqueeze(Lower *l, Call *c)
{
    Node *x;
    int64_t axis;
    if (!call_tensor(l, c, 0, &x) || !call_axis(l, c, 1, x->dims.rank + 1, &axis)) {
        return val_poison();
    }
    return val_of_node(l, with_axis(l, x, axis, c->loc));
}

Val fn_transpose(Lower *l, Call *c)
{
    Node *x;
    int64_t a, b;
    if (!call_tensor(l, c, 0, &x) || !call_axis(l, c, 1, x->dims.rank, &a) ||
        !call_axis(l, c, 2, x->dims.rank, &b)) {
        return val_poison();
    }
    int perm[MAX_RANK];
    for (int i = 0; i < x->dims.rank; i++) {
        perm[i] = (int)(i == a ? b : i == b ? a : i);
    }
    return val_of_node(l, op_transpose(l, x, perm));
}

Val fn_permute(Lower *l, Call *c)
{
    Node *x;
    Dims order;
    if (!call_tensor(l, c, 0, &x) || !call_dims(l, c, 1, &order)) {
        return val_poison();
    }
    if (order.rank != x->dims.rank) {
        return lower_error(l, c->loc, "permute: %d axes for a tensor with %d", order.rank,
                           x->dims.rank);
    }
    int perm[MAX_RANK];
    for (int i = 0; i < order.rank; i++) {
        int64_t axis = order.d[i].k;
        if (!dim_is_const(order.d[i]) || axis < -order.rank || axis >= order.rank) {
            return lower_error(l, c->loc, "permute: %lld is no axis of a tensor with %d",
                               (long long)axis, order.rank);
        }
        perm[i] = (int)(axis < 0 ? axis + order.rank : axis);
    }
    return val_of_node(l, op_transpose(l, x, perm));
}

Val fn_expand(Lower *l, Call *c)
{
    Node *x;
    Dims dims;
    if (!call_tensor(l, c, 0, &x) || !call_dims(l, c, 1, &dims)) {
        return val_poison();
    }
    int added = dims.rank - x->dims.rank;
    for (int i = 0; i < dims.rank; i++) {
        if (dim_equal(dims.d[i], dim_of(-1))) {
            if (i < added) {
                return lower_error(l, c->loc, "expand: -1 keeps a size, but axis %d is new", i);
            }
            dims.d[i] = x->dims.d[i - added];
        }
    }
    return val_of_node(l, op_expand(l, x, &dims));
}

/* ---- parts ----------------------------------------------------------------------------------------- */

static bool const_axis(Lower *l, Node *x, int64_t axis, Loc loc, int64_t *n)
{
    if (!dim_is_const(x->dims.d[axis])) {
        lower_error(l, loc, "the length of this axis is only known when the program runs");
        return false;
    }
    *n = x->dims.d[axis].k;
    return true;
}

Val fn_select(Lower *l, Call *c)
{
    Node *x;
    int64_t axis, at, n = 0;
    if (!call_tensor(l, c, 0, &x) || !call_axis(l, c, 1, x->dims.rank, &axis) ||
        !call_int(l, c, 2, &at)) {
        return val_poison();
    }
    if (at < 0 && !const_axis(l, x, axis, c->locs[1], &n)) {
        return val_poison();
    }
    if (at > INT32_MAX) {
        return lower_error(l, c->locs[2], "index %lld is too large", (long long)at);
    }
    at += at < 0 ? n : 0;
    Node *one = op_slice(l, x, axis, at, at + 1, 1);
    if (one == NULL) {
        return val_poison();
    }
    Dims dims = {0};
    for (int i = 0; i < x->dims.rank; i++) {
        if (i != axis) {
            dims.d[dims.rank++] = x->dims.d[i];
        }
    }
    return val_of_node(l, op_reshape(l, one, &dims));
}

Val fn_narrow(Lower *l, Call *c)
{
    Node *x;
    int64_t axis, start, length;
    if (!call_tensor(l, c, 0, &x) || !call_axis(l, c, 1, x->dims.rank, &axis) ||
        !call_int(l, c, 2, &start) || !call_int(l, c, 3, &length)) {
        return val_poison();
    }
    if (start < 0 || length < 1 || start > INT32_MAX || length > INT32_MAX) {
        return lower_error(l, c->loc, "narrow takes a start from 0 and a positive length");
    }
    return val_of_node(l, op_slice(l, x, axis, start, start + length, 1));
}

static Val parts(Lower *l, Call *c, Node *x, int64_t axis, int64_t n, int64_t size)
{
    Val r = val_list(l, VAL_list);
    if (size < 1) {
        return lower_error(l, c->locs[1], "the size of a part must be positive");
    }
    size = size > n ? n : size;
    for (int64_t at = 0; at < n; at += size) {
        if (!lower_unroll(l, c->loc)) {
            return val_poison();
        }
        int64_t end = size < n - at ? at + size : n;
        val_push(l, &r, val_of_node(l, op_slice(l, x, axis, at, end, 1)));
    }
    return r;
}

Val fn_split(Lower *l, Call *c)
{
    Node *x;
    int64_t axis, n, size, at = 0;
    if (!call_tensor(l, c, 0, &x) || !call_axis(l, c, 2, x->dims.rank, &axis) ||
        !const_axis(l, x, axis, c->locs[0], &n)) {
        return val_poison();
    }
    Val sizes = c->args[1];
    if (sizes.kind != VAL_list && sizes.kind != VAL_tuple) {
        return call_int(l, c, 1, &size) ? parts(l, c, x, axis, n, size) : val_poison();
    }
    Val r = val_list(l, VAL_list);
    for (int i = 0; i < sizes.list->n; i++) {
        if (!val_int_of(l, sizes.list->at[i], "the size of a part", c->locs[1], &size)) {
            return val_poison();
        }
        if (size < 1 || size > n - at) {
            return lower_error(l, c->locs[1], "the parts must fill an axis with %lld elements",
                               (long long)n);
        }
        val_push(l, &r, val_of_node(l, op_slice(l, x, axis, at, at + size, 1)));
        at += size;
    }
    return at == n ? r
                   : lower_error(l, c->locs[1], "the parts must fill an axis with %lld elements",
                                 (long long)n);
}

Val fn_chunk(Lower *l, Call *c)
{
    Node *x;
    int64_t axis, n, count;
    if (!call_tensor(l, c, 0, &x) || !call_axis(l, c, 2, x->dims.rank, &axis) ||
        !const_axis(l, x, axis, c->locs[0], &n) || !call_int(l, c, 1, &count)) {
        return val_poison();
    }
    if (count < 1) {
        return lower_error(l, c->locs[1], "the number of parts must be positive");
    }
    return parts(l, c, x, axis, n, n > 0 ? (n - 1) / count + 1 : 1);
}

Val fn_size(Lower *l, Call *c)
{
    Node *x;
    int64_t axis;
    if (!call_tensor(l, c, 0, &x)) {
        return val_poison();
    }
    if (c->args[1].kind != VAL_none) {
        return call_axis(l, c, 1, x->dims.rank, &axis) ? val_dim(x->dims.d[axis]) : val_poison();
    }
    bool found;
    return tensor_member(l, c->args[0], "shape", c->loc, &found);
}

/* ---- several tensors ------------------------------------------------------------------------------- */

static bool tensor_list(Lower *l, Call *c, Values **list)
{
    if ((c->args[0].kind != VAL_list && c->args[0].kind != VAL_tuple) || c->args[0].list->n == 0) {
        lower_error(l, c->locs[0], "`%s` takes a list of tensors", c->fn->name);
        return false;
    }
    *list = c->args[0].list;
    return true;
}

static Val concat(Lower *l, Call *c, Values *list, int64_t axis, bool stacked)
{
    Node **in = ARENA_ARRAY(l->arena, Node *, list->n);
    DType dt = DT_none;
    for (int i = 0; i < list->n; i++) {
        in[i] = tensor_of(l, list->at[i], c->locs[0]);
        in[i] = in[i] != NULL && stacked ? with_axis(l, in[i], axis, c->locs[0]) : in[i];
        if (in[i] == NULL) {
            return val_poison();
        }
        dt = i == 0 ? in[i]->dtype : dtype_widest(dt, in[i]->dtype);
    }
    for (int i = 0; i < list->n; i++) {
        in[i] = op_cast(l, in[i], dt);
    }
    Attrs attrs = {0};
    attrs_set_int(l->arena, &attrs, ATTR_axis, axis);
    return val_of_node(l, op_build(l, OP_concat, list->n, in, attrs));
}

static Val joined(Lower *l, Call *c, bool stacked)
{
    Values *list;
    int64_t axis;
    if (!tensor_list(l, c, &list)) {
        return val_poison();
    }
    Node *first = tensor_of(l, list->at[0], c->locs[0]);
    if (first == NULL || !call_axis(l, c, 1, first->dims.rank + stacked, &axis)) {
        return val_poison();
    }
    return concat(l, c, list, axis, stacked);
}

Val fn_cat(Lower *l, Call *c)
{
    return joined(l, c, false);
}

Val fn_stack(Lower *l, Call *c)
{
    return joined(l, c, true);
}

/* ---- new tensors ----------------------------------------------------------------------------------- */

static Node *filled(Lower *l, double v, const Dims *dims)
{
    Node *x = op_const(l, DT_f32, v);
    Dims ones = {.rank = dims->rank};
    for (int i = 0; i < dims->rank; i++) {
        ones.d[i] = dim_of(1);
    }
    return op_expand(l, op_reshape(l, x, &ones), dims);
}

Val fn_fill(Lower *l, Call *c)
{
    Dims dims;
    if (!call_dims(l, c, 0, &dims) || !tensor_need_run(l, c->loc)) {
        return val_poison();
    }
    return val_of_node(l, filled(l, str_eq(c->fn->name, "ones"), &dims));
}

Val fn_full(Lower *l, Call *c)
{
    Dims dims;
    double v;
    if (!call_dims(l, c, 0, &dims) || !call_float(l, c, 1, &v) || !tensor_need_run(l, c->loc)) {
        return val_poison();
    }
    return val_of_node(l, filled(l, v, &dims));
}

Val fn_fill_like(Lower *l, Call *c)
{
    Node *x;
    if (!call_tensor(l, c, 0, &x)) {
        return val_poison();
    }
    return val_of_node(l,
                       op_cast(l, filled(l, str_eq(c->fn->name, "ones_like"), &x->dims), x->dtype));
}

Val fn_iota(Lower *l, Call *c)
{
    Dims dims = {.rank = 1};
    if (!dim_of_val(l, c->args[0], c->locs[0], &dims.d[0]) || !tensor_need_run(l, c->loc)) {
        return val_poison();
    }
    return val_of_node(l, op_iota(l, &dims, 0));
}

/* i == x along a new last axis */
Node *one_hot(Lower *l, Node *x, int64_t n, Loc loc)
{
    data_check_classes(l, x, n);
    Node *classes = op_iota(l, &(Dims){.rank = 1, .d = {dim_of(n)}}, 0);
    Node *rows = with_axis(l, x, x->dims.rank, loc);
    return op_cast(l, op2(l, OP_eq, rows, classes), DT_f32);
}

Val fn_one_hot(Lower *l, Call *c)
{
    Node *x;
    int64_t n;
    if (!call_tensor(l, c, 0, &x) || !call_int(l, c, 1, &n)) {
        return val_poison();
    }
    if (!dtype_info[x->dtype].is_int) {
        return lower_error(l, c->locs[0], "classes are integers, but this is %s",
                           val_describe(l, c->args[0]));
    }
    return val_of_node(l, one_hot(l, x, n, c->loc));
}

/* ---- compile-time sequences ------------------------------------------------------------------------ */

Val fn_len(Lower *l, Call *c)
{
    Val v = c->args[0];
    int64_t n;
    Dims dims;
    DType dt;
    if (val_dims(v, &dims, &dt)) {
        return dims.rank > 0 ? val_dim(dims.d[0])
                             : lower_error(l, c->locs[0], "the length of a scalar");
    }
    switch (v.kind) {
    case VAL_str: {
        int bytes = 0;
        while (v.s[bytes] != '\0') {
            bytes++;
        }
        return val_int(bytes);
    }
    case VAL_list:
    case VAL_tuple:
    case VAL_range: return eval_iterable(l, v, c->locs[0], &n) ? val_int(n) : val_poison();
    case VAL_loader:
        return val_host(host_node(l, HE_len, HT_int, v.loader->decl->name, 0, NULL, c->loc));
    case VAL_data:
        v.data->counted = true;
        return val_host(host_node(l, HE_count, HT_int, v.data->decl->name, 0, NULL, c->loc));
    default: return lower_error(l, c->locs[0], "%s has no length", val_describe(l, v));
    }
}

Val fn_range(Lower *l, Call *c)
{
    Range *r = ARENA_NEW(l->arena, Range);
    bool one = c->args[1].kind == VAL_none;
    r->lo = one ? val_int(0) : c->args[0];
    r->hi = one ? c->args[0] : c->args[1];
    r->step = c->args[2];
    for (int i = 0; i < 3; i++) {
        Val v = i == 0 ? r->lo : i == 1 ? r->hi : r->step;
        if (!val_is_number(v) && v.kind != VAL_host) {
            return lower_error(l, c->loc, "a range runs over whole numbers, not %s",
                               val_describe(l, v));
        }
    }
    return (Val){.kind = VAL_range, .range = r};
}

Val fn_enumerate(Lower *l, Call *c)
{
    int64_t n;
    if (!eval_iterable(l, c->args[0], c->locs[0], &n)) {
        return val_poison();
    }
    Val r = val_list(l, VAL_list);
    for (int64_t i = 0; i < n && lower_unroll(l, c->loc); i++) {
        Val pair = val_list(l, VAL_tuple);
        val_push(l, &pair, val_int(i));
        val_push(l, &pair, eval_element(l, c->args[0], i));
        val_push(l, &r, pair);
    }
    return r;
}

Val fn_zip(Lower *l, Call *c)
{
    int64_t n, m;
    if (!eval_iterable(l, c->args[0], c->locs[0], &n) ||
        !eval_iterable(l, c->args[1], c->locs[1], &m)) {
        return val_poison();
    }
    Val r = val_list(l, VAL_list);
    for (int64_t i = 0; i < (n < m ? n : m) && lower_unroll(l, c->loc); i++) {
        Val pair = val_list(l, VAL_tuple);
        val_push(l, &pair, eval_element(l, c->args[0], i));
        val_push(l, &pair, eval_element(l, c->args[1], i));
        val_push(l, &r, pair);
    }
    return r;
}

Val fn_number(Lower *l, Call *c)
{
    return number_call(l, c->fn->name, 1, c->args, c->loc);
}
