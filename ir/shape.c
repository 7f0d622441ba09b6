/* shape.c: the type and shape of every op's result, one rule for each name in ops.def's shape
 * column.
 *
 * A rule also checks the operands; what it complains about is told to the user in terms of names
 * and shapes, so it serves as the type checker of the language. Rules marked "given" keep what the
 * builder put there (arg, const, iota, uniform, and the target of cast, reshape and expand).
 *
 * Types: an element-wise op has the widest type of its operands, where a constant adapts to the
 * others; functions that leave the integers give f32 for them; predicates give bool. A contraction
 * keeps the type it was given, or takes the widest. Autocast, not these rules, brings 16-bit
 * operands to f32.
 */
#include "ir/shape.h"

#include "ir/base/strutil.h"
#include "ir/base/text.h"

static Arena *scratch(Infer *f)
{
    f->scratch = f->scratch != NULL ? f->scratch : arena_new();
    return f->scratch;
}

/* ---- messages -------------------------------------------------------------------------------- */

MPC_PRINTF(2, 3) static bool fail(Infer *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *what = arena_vprintf(scratch(f), fmt, ap);
    va_end(ap);
    if (f->diag == NULL) {
        ICE("graph %s: %s: %s", f->g->name, op_info[f->n->op].name, what);
    }
    diag_error(f->diag, f->n->loc, "%s: %s", op_info[f->n->op].name, what);
    return false;
}

bool shape_fail(Infer *f, const char *what)
{
    return fail(f, "%s", what);
}

static void text_dim(Text *t, const Graph *g, Dim d)
{
    const char *times = "";
    for (int i = 1; i >= 0; i--) {
        if (d.sym[i] != 0) {
            text_puts(t, times);
            text_puts(t, d.sym[i] <= g->nsyms ? g->syms[d.sym[i] - 1].name : "?");
            times = "*";
        }
    }
    if (dim_is_const(d) || d.k != 1) {
        text_printf(t, "%s%lld", times, (long long)d.k);
    }
}

static const char *text_of_dims(Arena *arena, const Graph *g, const Dims *d, const char *comma)
{
    Text *t = text_new(arena);
    for (int i = 0; i < d->rank; i++) {
        text_puts(t, i > 0 ? comma : "");
        text_dim(t, g, d->d[i]);
    }
    return t->at != NULL ? t->at : "";
}

const char *dims_text(Arena *arena, const Graph *g, const Dims *d)
{
    return text_of_dims(arena, g, d, ",");
}

/* "[B, 512]" */
static const char *shown(Infer *f, const Dims *d)
{
    return arena_printf(scratch(f), "[%s]", text_of_dims(scratch(f), f->g, d, ", "));
}

static const char *node_name(Infer *f, const Node *x, int depth)
{
    if (x->op == OP_transpose && x->dims.rank == 2 && depth < 4) {
        const char *of = node_name(f, x->in[0], depth + 1);
        return of != NULL ? arena_printf(scratch(f), "%s.T", of) : NULL;
    }
    if (x->op == OP_arg) {
        const char *s = attrs_str(&x->attrs, ATTR_param);
        s = s != NULL ? s : attrs_str(&x->attrs, ATTR_state);
        if (s != NULL) {
            return s;
        }
        s = attrs_str(&x->attrs, ATTR_batch);
        if (s != NULL) {
            return arena_printf(scratch(f), "batch.%s", s);
        }
    }
    if (x->op == OP_const) {
        char buf[32];
        return arena_strdup(scratch(f), str_double(buf, attrs_float(&x->attrs, ATTR_value, 0)));
    }
    return x->name;
}

/* What a message calls operand i. */
static const char *called(Infer *f, int i)
{
    const char *name = node_name(f, f->n->in[i], 0);
    if (name != NULL) {
        return name;
    }
    if (f->n->nin == 1) {
        return "the operand";
    }
    if (f->n->nin == 2) {
        return i == 0 ? "the left operand" : "the right operand";
    }
    return arena_printf(scratch(f), "operand %d", i + 1);
}

const char *shape_is(Infer *f, int i)
{
    return arena_printf(scratch(f), "%s is %s", called(f, i), shown(f, &f->n->in[i]->dims));
}

/* ---- types ----------------------------------------------------------------------------------- */

/* Element-wise ops that give integers for integers; the others give f32. */
static bool keeps_integers(Op op)
{
    static const bool keeps[OP_COUNT] = {
        [OP_neg] = true,      [OP_abs] = true,   [OP_sign] = true,    [OP_square] = true,
        [OP_relu] = true,     [OP_floor] = true, [OP_add] = true,     [OP_sub] = true,
        [OP_mul] = true,      [OP_where] = true, [OP_maximum] = true, [OP_minimum] = true,
        [OP_clamp] = true,    [OP_lt] = true,    [OP_le] = true,      [OP_gt] = true,
        [OP_ge] = true,       [OP_eq] = true,    [OP_ne] = true,      [OP_not] = true,
        [OP_isfinite] = true, [OP_and] = true,   [OP_or] = true,
    };
    return keeps[op];
}

/* Ops whose result may be bool when the operands are. */
static bool keeps_bools(Op op)
{
    return op == OP_where || op == OP_maximum || op == OP_minimum || op_is_predicate(op);
}

static bool is_constant(const Node *x)
{
    while (x->op == OP_expand || x->op == OP_reshape) {
        x = x->in[0];
    }
    return x->op == OP_const;
}

static DType constant_adapts(DType others, DType constant)
{
    if (dtype_info[others].is_float) {
        return others;
    }
    if (dtype_info[others].is_int && !dtype_info[constant].is_float) {
        return others;
    }
    return dtype_widest(others, constant);
}

DType map_dtype(const Node *n)
{
    DType others = DT_none, constants = DT_none;
    for (int i = n->op == OP_where ? 1 : 0; i < n->nin; i++) {
        DType *into = is_constant(n->in[i]) ? &constants : &others;
        *into = dtype_widest(*into, n->in[i]->dtype);
    }
    DType dt = others == DT_none      ? constants
               : constants == DT_none ? others
                                      : constant_adapts(others, constants);
    if (dtype_info[dt].is_int && !keeps_integers(n->op)) {
        return DT_f32;
    }
    if (dt == DT_bool && !keeps_bools(n->op)) {
        return keeps_integers(n->op) ? DT_i64 : DT_f32;
    }
    return dt;
}

static bool is_number(DType dt)
{
    return dt != DT_none && dt != DT_grads && dt < DT_COUNT;
}

/* Float operands keep their type, others become f32. */
static DType float_of(DType dt)
{
    return dtype_info[dt].is_float ? dt : DT_f32;
}

static bool want_int(Infer *f, int i)
{
    if (!dtype_info[f->n->in[i]->dtype].is_int) {
        return fail(f, "%s must be of an integer type, and is %s", called(f, i),
                    dtype_info[f->n->in[i]->dtype].name);
    }
    return true;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool get_axis(Infer *f, int rank, int *axis)
{
    const Attr *a = attrs_find(&f->n->attrs, ATTR_axis);
    if (a == NULL) {
        return fail(f, "no axis is given");
    }
    if (a->i < 0 || a->i >= rank) {
        return f->n->nin == 0 ? fail(f, "axis %lld of %s", (long long)a->i, shown(f, &f->n->dims))
                              : fail(f, "axis %lld: %s", (long long)a->i, shape_is(f, 0));
    }
    *axis = (int)a->i;
    return true;
}

static bool shape_given(Infer *f)
{
    Node *n = f->n;
    if (n->op == OP_iota) {
        n->dtype = n->dtype == DT_none ? DT_i64 : n->dtype;
        int axis;
        if (!get_axis(f, n->dims.rank, &axis)) {
            return false;
        }
    }
    if (n->op == OP_uniform) {
        const Node *keys = n->in[0];
        n->dtype = n->dtype == DT_none ? DT_f32 : n->dtype;
        if (keys->dims.rank != 1 || keys->dtype != DT_i64) {
            return fail(f, "the keys must be i64[B]");
        }
        if (n->dims.rank < 1 || !dim_equal(n->dims.d[0], keys->dims.d[0])) {
            return fail(
                f,
                "random numbers are drawn for each sample: the first dimension must be that "
                "of the batch, and the shape is %s",
                shown(f, &n->dims));
        }
        if (!dtype_info[n->dtype].is_float) {
            return fail(f, "gives floating-point numbers, not %s", dtype_info[n->dtype].name);
        }
    }
    return is_number(n->dtype) || fail(f, "no type is given");
}

static bool shape_same(Infer *f)
{
    Node *n = f->n;
    const Node *x = n->in[0];
    n->dims = x->dims;
    if (n->op == OP_cast) {
        return is_number(n->dtype) || fail(f, "no type is given");
    }
    n->dtype = op_info[n->op].cast == CAST_Float ? float_of(x->dtype) : x->dtype;
    int axis = 0;
    return op_info[n->op].kind != KIND_Reduce || get_axis(f, x->dims.rank, &axis);
}

static bool shape_map(Infer *f)
{
    Node *n = f->n;
    if (n->op == OP_where && n->in[0]->dtype != DT_bool) {
        return fail(f, "the condition must be bool, and %s is %s", called(f, 0),
                    dtype_info[n->in[0]->dtype].name);
    }
    n->dims = n->in[0]->dims;
    for (int i = 1; i < n->nin; i++) {
        if (!broadcast_dims(&n->dims, &n->in[i]->dims, &n->dims)) {
            /* The operand that differs may be an earlier one than the first. */
            int other = 0;
            Dims pair;
            while (other < i - 1 && broadcast_dims(&n->in[other]->dims, &n->in[i]->dims, &pair)) {
                other++;
            }
            return fail(f, "shapes do not broadcast: %s, %s", shape_is(f, other), shape_is(f, i));
        }
    }
    n->dtype = op_is_predicate(n->op) ? DT_bool : map_dtype(n);
    return true;
}

static bool shape_reshape(Infer *f)
{
    Node *n = f->n;
    Dim have, want;
    if (!dims_count(&n->in[0]->dims, &have) || !dims_count(&n->dims, &want) ||
        !dim_equal(have, want)) {
        return fail(f, "%s, which has not as many elements as %s", shape_is(f, 0),
                    shown(f, &n->dims));
    }
    n->dtype = n->in[0]->dtype;
    return true;
}

static bool shape_transpose(Infer *f)
{
    Node *n = f->n;
    const Dims *x = &n->in[0]->dims;
    const Attr *perm = attrs_find(&n->attrs, ATTR_perm);
    bool seen[MAX_RANK] = {false};
    if (perm == NULL || perm->ints.n != x->rank) {
        return fail(f, "%s, and %d axes are listed", shape_is(f, 0), perm ? perm->ints.n : 0);
    }
    Dims dims = {.rank = x->rank};
    for (int i = 0; i < x->rank; i++) {
        int64_t axis = perm->ints.v[i];
        if (axis < 0 || axis >= x->rank || seen[axis]) {
            return fail(f, "the axes listed are no permutation of the %d axes of %s", x->rank,
                        called(f, 0));
        }
        seen[axis] = true;
        dims.d[i] = x->d[axis];
    }
    n->dims = dims;
    n->dtype = n->in[0]->dtype;
    return true;
}

static bool shape_expand(Infer *f)
{
    Node *n = f->n;
    Dims dims;
    if (!broadcast_dims(&n->in[0]->dims, &n->dims, &dims) || !dims_equal(&dims, &n->dims)) {
        return fail(f, "%s, which does not broadcast to %s", shape_is(f, 0), shown(f, &n->dims));
    }
    n->dtype = n->in[0]->dtype;
    return true;
}

static bool shape_slice(Infer *f)
{
    Node *n = f->n;
    int axis = 0;
    if (!get_axis(f, n->in[0]->dims.rank, &axis)) {
        return false;
    }
    Dim d = n->in[0]->dims.d[axis];
    /* Of a symbolic dimension only this is known: it is at least 1. */
    int64_t length = dim_is_const(d) ? d.k : 1;
    int64_t start = attrs_int(&n->attrs, ATTR_start, 0);
    int64_t stop = attrs_int(&n->attrs, ATTR_stop, length);
    int64_t step = attrs_int(&n->attrs, ATTR_step, 1);
    if (step < 1 || start < 0 || stop < start) {
        return fail(f, "elements %lld to %lld in steps of %lld", (long long)start, (long long)stop,
                    (long long)step);
    }
    if (stop > length) {
        return fail(f, "elements %lld to %lld of axis %d: %s", (long long)start, (long long)stop,
                    axis, shape_is(f, 0));
    }
    n->dims = n->in[0]->dims;
    n->dims.d[axis] = dim_of((stop - start) / step + ((stop - start) % step != 0));
    n->dtype = n->in[0]->dtype;
    return true;
}

static bool shape_pad(Infer *f)
{
    Node *n = f->n;
    int axis = 0;
    if (!get_axis(f, n->in[0]->dims.rank, &axis)) {
        return false;
    }
    int64_t before = attrs_int(&n->attrs, ATTR_before, 0);
    int64_t after = attrs_int(&n->attrs, ATTR_after, 0);
    n->dims = n->in[0]->dims;
    n->dtype = n->in[0]->dtype;
    Dim *d = &n->dims.d[axis];
    if (before < 0 || after < 0) {
        return fail(f, "%lld elements before and %lld after", (long long)before, (long long)after);
    }
    if (!dim_is_const(*d) && before + after > 0) {
        return fail(f, "axis %d has no fixed length: %s", axis, shape_is(f, 0));
    }
    if (__builtin_add_overflow(d->k, before, &d->k) || __builtin_add_overflow(d->k, after, &d->k)) {
        return fail(f, "more elements than can be counted");
    }
    return true;
}

static bool shape_concat(Infer *f)
{
    Node *n = f->n;
    int axis = 0;
    if (!get_axis(f, n->in[0]->dims.rank, &axis)) {
        return false;
    }
    Dims dims = n->in[0]->dims;
    DType dt = n->in[0]->dtype;
    for (int i = 1; i < n->nin; i++) {
        const Dims *x = &n->in[i]->dims;
        bool fits = x->rank == dims.rank;
        for (int k = 0; fits && k < dims.rank; k++) {
            fits = k == axis
                       ? dims.d[k].sym[0] == x->d[k].sym[0] && dims.d[k].sym[1] == x->d[k].sym[1]
                       : dim_equal(dims.d[k], x->d[k]);
        }
        if (!fits || __builtin_add_overflow(dims.d[axis].k, x->d[axis].k, &dims.d[axis].k)) {
            return fail(f, "shapes differ outside of axis %d: %s, %s", axis, shape_is(f, 0),
                        shape_is(f, i));
        }
        dt = dtype_widest(dt, n->in[i]->dtype);
    }
    n->dims = dims;
    n->dtype = dt;
    return true;
}

/* The result type of a contraction: its own when it has one. */
static bool contraction_dtype(Infer *f)
{
    Node *n = f->n;
    DType widest = DT_none;
    for (int i = 0; i < n->nin; i++) {
        if (n->in[i]->dtype == DT_bool) {
            return fail(f, "%s is bool", called(f, i));
        }
        widest = dtype_widest(widest, n->in[i]->dtype);
    }
    if (n->dtype != DT_none && dtype_info[n->dtype].is_float != dtype_info[widest].is_float) {
        return fail(f, "gives %s, not %s", dtype_info[widest].name, dtype_info[n->dtype].name);
    }
    n->dtype = n->dtype == DT_none ? widest : n->dtype;
    return true;
}

static bool shape_linear(Infer *f)
{
    Node *n = f->n;
    if (n->nin < 2 || n->nin > 3) {
        return fail(f, "takes x, weight and perhaps bias, not %d operands", n->nin);
    }
    const Dims *x = &n->in[0]->dims, *w = &n->in[1]->dims;
    if (x->rank < 1 || w->rank != 2) {
        return fail(f, "wants x [.., in] and weight [out, in]: %s, %s", shape_is(f, 0),
                    shape_is(f, 1));
    }
    if (!dim_equal(x->d[x->rank - 1], w->d[1])) {
        Text *t = text_new(scratch(f));
        text_dim(t, f->g, w->d[1]);
        return fail(f, "inner dimensions differ: %s, %s wants [.., %s]", shape_is(f, 0),
                    called(f, 1), t->at);
    }
    if (n->nin == 3 && (n->in[2]->dims.rank != 1 || !dim_equal(n->in[2]->dims.d[0], w->d[0]))) {
        return fail(f, "%s, which does not fit the bias: %s", shape_is(f, 1), shape_is(f, 2));
    }
    n->dims = *x;
    n->dims.d[x->rank - 1] = w->d[0];
    return contraction_dtype(f);
}

static bool shape_matmul(Infer *f)
{
    Node *n = f->n;
    const Dims *x = &n->in[0]->dims, *y = &n->in[1]->dims;
    if (x->rank < 1 || y->rank < 1) {
        return fail(f, "takes no scalar: %s, %s", shape_is(f, 0), shape_is(f, 1));
    }
    bool ta = attrs_bool(&n->attrs, ATTR_trans_a) && x->rank > 1;
    bool tb = attrs_bool(&n->attrs, ATTR_trans_b) && y->rank > 1;
    Dim inner_x = x->d[x->rank - (ta ? 2 : 1)];
    Dim inner_y = y->d[y->rank - (tb || y->rank == 1 ? 1 : 2)];
    if (!dim_equal(inner_x, inner_y)) {
        Text *t = text_new(scratch(f));
        text_dim(t, f->g, inner_y);
        return fail(f, "inner dimensions differ: %s, %s wants [.., %s]", shape_is(f, 0),
                    called(f, 1), t->at);
    }
    Dims bx = *x, by = *y, dims;
    bx.rank = x->rank > 2 ? x->rank - 2 : 0;
    by.rank = y->rank > 2 ? y->rank - 2 : 0;
    if (!broadcast_dims(&bx, &by, &dims)) {
        return fail(f, "batch dimensions do not broadcast: %s, %s", shape_is(f, 0), shape_is(f, 1));
    }
    if (x->rank > 1) {
        dims.d[dims.rank++] = x->d[x->rank - (ta ? 1 : 2)];
    }
    if (y->rank > 1) {
        dims.d[dims.rank++] = y->d[y->rank - (tb ? 2 : 1)];
    }
    n->dims = dims;
    return contraction_dtype(f);
}

static bool shape_conv2d(Infer *f)
{
    return conv_shape(f) && contraction_dtype(f);
}

static bool shape_conv_transpose2d(Infer *f)
{
    return conv_transpose_shape(f) && contraction_dtype(f);
}

static bool shape_conv2d_weight_grad(Infer *f)
{
    return conv_weight_shape(f) && contraction_dtype(f);
}

int node_axes(const Node *n, int64_t axes[MAX_RANK])
{
    const Attr *a = attrs_find(&n->attrs, ATTR_axes);
    int rank = n->in[0]->dims.rank;
    int count = a != NULL ? a->ints.n : rank;
    for (int i = 0; i < count && i < MAX_RANK; i++) {
        axes[i] = a != NULL ? a->ints.v[i] : i;
    }
    return count;
}

static bool shape_reduce(Infer *f)
{
    Node *n = f->n;
    const Dims *x = &n->in[0]->dims;
    int64_t axes[MAX_RANK];
    int naxes = node_axes(n, axes);
    bool reduced[MAX_RANK] = {false};
    for (int i = 0; i < naxes; i++) {
        if (i >= MAX_RANK || axes[i] < 0 || axes[i] >= x->rank || reduced[axes[i]]) {
            return fail(f, "axis %lld: %s", (long long)axes[i < MAX_RANK ? i : 0], shape_is(f, 0));
        }
        reduced[axes[i]] = true;
    }
    Dims dims = {0};
    bool keepdim = attrs_bool(&n->attrs, ATTR_keepdim);
    for (int i = 0; i < x->rank; i++) {
        if (!reduced[i] || keepdim) {
            dims.d[dims.rank++] = reduced[i] ? dim_of(1) : x->d[i];
        }
    }
    n->dims = dims;
    DType dt = n->in[0]->dtype;
    bool whole = n->op == OP_sum && !dtype_info[dt].is_float;
    n->dtype = whole ? DT_i64 : op_info[n->op].cast == CAST_Float ? float_of(dt) : dt;
    return true;
}

static bool drop_axis(Infer *f)
{
    Node *n = f->n;
    int axis = 0;
    if (!get_axis(f, n->in[0]->dims.rank, &axis)) {
        return false;
    }
    Dims dims = {0};
    for (int i = 0; i < n->in[0]->dims.rank; i++) {
        if (i != axis) {
            dims.d[dims.rank++] = n->in[0]->dims.d[i];
        }
    }
    n->dims = dims;
    return true;
}

static bool shape_argmax(Infer *f)
{
    f->n->dtype = DT_i64;
    return drop_axis(f);
}

static bool shape_reduce_axis(Infer *f)
{
    f->n->dtype = float_of(f->n->in[0]->dtype);
    return drop_axis(f);
}

/* Logits [.., C] and their labels [..]. */
static bool fits_labels(Infer *f, int logits, int labels)
{
    Node *n = f->n;
    const Dims *x = &n->in[logits]->dims;
    Dims want = *x;
    if (x->rank < 1) {
        return fail(f, "the logits need an axis of classes: %s", shape_is(f, logits));
    }
    want.rank--;
    if (!dtype_info[n->in[logits]->dtype].is_float) {
        return fail(f, "the logits must be of a floating-point type, and %s is %s",
                    called(f, logits), dtype_info[n->in[logits]->dtype].name);
    }
    if (!dims_equal(&want, &n->in[labels]->dims)) {
        return fail(f, "%s, which wants labels %s, but %s", shape_is(f, logits), shown(f, &want),
                    shape_is(f, labels));
    }
    return want_int(f, labels);
}

static bool shape_scalar(Infer *f)
{
    f->n->dims = (Dims){0};
    f->n->dtype = f->n->in[0]->dtype == DT_f64 ? DT_f64 : DT_f32;
    return fits_labels(f, 0, 1);
}

static bool shape_second(Infer *f)
{
    if (f->n->in[0]->dims.rank != 0) {
        return fail(f, "the gradient of the loss must be a scalar: %s", shape_is(f, 0));
    }
    f->n->dims = f->n->in[1]->dims;
    f->n->dtype = f->n->in[1]->dtype;
    return fits_labels(f, 1, 2);
}

static bool shape_embedding(Infer *f)
{
    Node *n = f->n;
    const Dims *table = &n->in[0]->dims;
    if (table->rank < 1) {
        return fail(f, "the table has no rows: %s", shape_is(f, 0));
    }
    Dims dims = n->in[1]->dims;
    if (dims.rank + table->rank - 1 > MAX_RANK) {
        return fail(f, "more than %d axes: %s, %s", MAX_RANK, shape_is(f, 0), shape_is(f, 1));
    }
    for (int i = 1; i < table->rank; i++) {
        dims.d[dims.rank++] = table->d[i];
    }
    n->dims = dims;
    n->dtype = n->in[0]->dtype;
    return want_int(f, 1);
}

static bool shape_scatter(Infer *f)
{
    Node *n = f->n;
    const Dims *rows = &n->in[0]->dims, *index = &n->in[1]->dims;
    int64_t count = attrs_int(&n->attrs, ATTR_rows, 0);
    bool fits = rows->rank >= index->rank && rows->rank - index->rank < MAX_RANK;
    Dims dims = {.rank = 1, .d = {dim_of(count)}};
    for (int i = 0; fits && i < rows->rank; i++) {
        if (i < index->rank) {
            fits = dim_equal(rows->d[i], index->d[i]);
        } else {
            dims.d[dims.rank++] = rows->d[i];
        }
    }
    if (!fits || count < 1) {
        return fail(f, "rows and indices do not fit: %s, %s", shape_is(f, 0), shape_is(f, 1));
    }
    n->dims = dims;
    n->dtype = float_of(n->in[0]->dtype);
    return want_int(f, 1);
}

/* Markers pass the set of gradients on; it starts at a scalar loss, at the gradients themselves, or
 * at what earlier calls have kept of them. */
static bool shape_mark(Infer *f)
{
    Node *n = f->n;
    bool from_loss = n->op == OP_scale_loss || n->op == OP_backward;
    n->dims = (Dims){0};
    n->dtype = n->op == OP_scale_loss ? n->in[0]->dtype : DT_grads;
    if (from_loss) {
        if (n->in[0]->dims.rank != 0 || !dtype_info[n->in[0]->dtype].is_float) {
            return fail(f, "wants a scalar loss of a floating-point type: %s, of type %s",
                        shape_is(f, 0), dtype_info[n->in[0]->dtype].name);
        }
        return true;
    }
    if (n->op == OP_accumulated) {
        return true;
    }
    if (n->op == OP_stepped) {
        n->dims = n->in[1]->dims;
        n->dtype = n->in[1]->dtype;
    }
    if (n->op == OP_more_gradients && n->in[1]->dtype != DT_grads) {
        return fail(f, "wants two sets of gradients");
    }
    for (int i = 1; n->op == OP_accumulate && i < n->nin; i++) {
        if (n->in[i]->dtype != (i == 1 ? DT_bool : DT_f32) || n->in[i]->dims.rank != 0 || i > 2) {
            return fail(f, "wants gradients, a bool and perhaps a weight of type f32");
        }
    }
    if (n->op == OP_accumulate && n->nin < 2) {
        return fail(f, "wants gradients and a bool");
    }
    if (n->op != OP_gradients) {
        return n->in[0]->dtype == DT_grads || fail(f, "wants gradients, which backward() gives");
    }
    const Attr *params = attrs_find(&n->attrs, ATTR_params);
    if (params == NULL || params->strs.n != n->nin) {
        return fail(f, "wants one name for each operand");
    }
    return true;
}

static bool (*const shape_rule[OP_COUNT])(Infer *) = {
#define MAP(name, in, cast, gradient, expression, meaning) [OP_##name] = shape_map,
#define OP(name, in, attributes, shape, cast, gradient, kind, meaning) [OP_##name] = shape_##shape,
#define MARK(name, in, attributes, meaning) [OP_##name] = shape_mark,
#include "ir/ops.def"
};

bool infer_node(Graph *g, Node *n, Diag *diag)
{
    Infer f = {g, n, diag, NULL};
    int nin = op_info[n->op].nin;
    bool ok = true;
    if (nin >= 0 ? n->nin != nin : n->nin < 1) {
        ok = fail(&f, "takes %d operand%s, not %d", nin < 0 ? 1 : nin, nin == 1 ? "" : "s", n->nin);
    }
    for (int i = 0; ok && i < n->nin; i++) {
        bool mark = op_info[n->op].kind == KIND_Mark;
        if (n->in[i] == NULL || n->in[i]->dtype == DT_none) {
            ok = fail(&f, "operand %d has no value", i + 1);
        } else if (n->in[i]->dtype == DT_grads && !mark) {
            ok = fail(&f, "operand %d is a set of gradients, not a tensor", i + 1);
        }
    }
    ok = ok && n->dims.rank >= 0 && n->dims.rank <= MAX_RANK && shape_rule[n->op](&f);
    for (int i = 0; ok && i < n->dims.rank; i++) {
        ok = n->dims.d[i].k >= 0 || fail(&f, "the shape %s", shown(&f, &n->dims));
    }
    arena_free(f.scratch);
    return ok;
}
