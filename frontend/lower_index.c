/* lower_index.c: shapes of tensors as values, members such as x.T and x.shape, and subscripts. */
#include "frontend/lower.h"

bool dim_of_val(Lower *l, Val v, Loc loc, Dim *out)
{
    if (v.kind == VAL_dim) {
        *out = v.dim;
        return true;
    }
    int64_t k;
    if (!val_int_of(l, v, "a size", loc, &k)) {
        return false;
    }
    *out = dim_of(k);
    return true;
}

/* One dim may be -1: what is left of x's elements. */
bool dims_reshape(Lower *l, Node *x, Dims *want, Loc loc)
{
    int open = -1;
    Dims known = {0};
    for (int i = 0; i < want->rank; i++) {
        if (dim_equal(want->d[i], dim_of(-1))) {
            if (open >= 0) {
                lower_error(l, loc, "only one size may be -1");
                return false;
            }
            open = i;
        } else if (dim_is_const(want->d[i]) && want->d[i].k < 0) {
            lower_error(l, loc, "%lld is no size", (long long)want->d[i].k);
            return false;
        } else {
            known.d[known.rank++] = want->d[i];
        }
    }
    Dim all, part;
    if (open >= 0) {
        if (!dims_count(&x->dims, &all) || !dims_count(&known, &part) ||
            !dim_div(all, part, &want->d[open])) {
            lower_error(l, loc, "%s cannot be laid out as %s",
                        dims_text(l->arena, l->run->graph, &x->dims),
                        dims_text(l->arena, l->run->graph, want));
            return false;
        }
    }
    return true;
}

/* ---- members --------------------------------------------------------------------------------------- */

static Val transposed(Lower *l, Val v, Loc loc)
{
    Node *x = tensor_of(l, v, loc);
    if (x == NULL) {
        return val_poison();
    }
    if (x->dims.rank < 2) {
        return lower_error(l, loc, "T swaps the last two axes, but this has %d", x->dims.rank);
    }
    int perm[MAX_RANK];
    for (int i = 0; i < x->dims.rank; i++) {
        perm[i] = i;
    }
    perm[x->dims.rank - 1] = x->dims.rank - 2;
    perm[x->dims.rank - 2] = x->dims.rank - 1;
    return val_of_node(l, op_transpose(l, x, perm));
}

Val tensor_member(Lower *l, Val v, const char *name, Loc loc, bool *found)
{
    Dims dims;
    DType dt;
    val_dims(v, &dims, &dt);
    *found = true;
    if (str_eq(name, "T") || str_eq(name, "mT")) {
        return transposed(l, v, loc);
    }
    if (str_eq(name, "shape")) {
        Val r = val_list(l, VAL_list);
        for (int i = 0; i < dims.rank; i++) {
            val_push(l, &r, val_dim(dims.d[i]));
        }
        return r;
    }
    if (str_eq(name, "dtype")) {
        return (Val){.kind = VAL_dtype, .dtype = dt};
    }
    if (str_eq(name, "ndim")) {
        return val_int(dims.rank);
    }
    *found = false;
    return val_poison();
}

/* ---- subscripts ------------------------------------------------------------------------------------ */

/* State of one x[...]: the axis of `x` that comes next, and the dims that the result will have. */
typedef struct Subscript {
    Node *x;
    int axis; /* of x as it is now; dropped axes stay until the end, with length 1 */
    Dims dims;
} Subscript;

static bool keep_dim(Lower *l, Subscript *s, Dim d, Loc loc)
{
    if (s->dims.rank == MAX_RANK) {
        lower_error(l, loc, "a tensor has at most %d axes", MAX_RANK);
        return false;
    }
    s->dims.d[s->dims.rank++] = d;
    return true;
}

static bool take_element(Lower *l, Subscript *s, int64_t at, Loc loc)
{
    Dim d = s->x->dims.d[s->axis];
    if (dim_is_const(d) && (at < -d.k || at >= d.k)) {
        lower_error(l, loc, "index %lld of an axis with %lld elements", (long long)at,
                    (long long)d.k);
        return false;
    }
    if (!dim_is_const(d) && at < 0) {
        lower_error(
            l, loc,
            "an axis whose length is only known when the program runs counts from the front");
        return false;
    }
    at += at < 0 ? d.k : 0;
    if (at > INT32_MAX) {
        lower_error(l, loc, "index %lld is too large", (long long)at);
        return false;
    }
    s->x = op_slice(l, s->x, s->axis++, at, at + 1, 1);
    return s->x != NULL;
}

static bool bound(Lower *l, const Ast *e, int64_t n, int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    if (e == NULL) {
        return true;
    }
    if (!val_int_of(l, eval(l, e), "an index", e->loc, out)) {
        return false;
    }
    *out += *out < 0 ? n : 0;
    *out = *out < 0 ? 0 : *out > n ? n : *out;
    return true;
}

static bool take_slice(Lower *l, Subscript *s, const Ast *e)
{
    Dim d = s->x->dims.d[s->axis];
    int64_t lo, hi, step = 1;
    if (e->lo == NULL && e->hi == NULL && e->step == NULL) {
        return keep_dim(l, s, s->x->dims.d[s->axis++], e->loc);
    }
    if (!dim_is_const(d)) {
        lower_error(
            l, e->loc,
            "an axis whose length is only known when the program runs is taken whole, with `:`");
        return false;
    }
    if (!bound(l, e->lo, d.k, 0, &lo) || !bound(l, e->hi, d.k, d.k, &hi) ||
        (e->step != NULL && !val_int_of(l, eval(l, e->step), "a step", e->step->loc, &step))) {
        return false;
    }
    if (step <= 0) {
        lower_error(l, e->loc, "the step of a slice must be positive");
        return false;
    }
    if (lo >= hi) {
        lower_error(l, e->loc, "this slice of an axis with %lld elements is empty", (long long)d.k);
        return false;
    }
    s->x = lo == 0 && hi == d.k && step == 1 ? s->x : op_slice(l, s->x, s->axis, lo, hi, step);
    return s->x != NULL && keep_dim(l, s, s->x->dims.d[s->axis++], e->loc);
}

static bool take(Lower *l, Subscript *s, const Ast *e, int skip)
{
    if (e->kind == AST_ellipsis) {
        for (int i = 0; i < skip; i++) {
            if (!keep_dim(l, s, s->x->dims.d[s->axis++], e->loc)) {
                return false;
            }
        }
        return true;
    }
    if (e->kind == AST_none) {
        return keep_dim(l, s, dim_of(1), e->loc);
    }
    if (e->kind == AST_slice) {
        return take_slice(l, s, e);
    }
    int64_t at;
    Val v = eval(l, e);
    if (val_is_tensor(v)) {
        lower_error(
            l, e->loc,
            "a tensor of indices stands alone in the brackets, and picks along the first axis");
        return false;
    }
    return val_int_of(l, v, "an index", e->loc, &at) && take_element(l, s, at, e->loc);
}

/* x[indices]: elements of x's first axis */
static Val take_rows(Lower *l, Node *x, Node *at)
{
    return val_of_node(l, op_build(l, OP_embedding, 2, (Node *[]){x, at}, (Attrs){0}));
}

Val tensor_index(Lower *l, Val v, const Ast *e)
{
    const AstList *subs = &e->list;
    if (subs->n == 1 && subs->at[0]->kind != AST_slice && subs->at[0]->kind != AST_none &&
        subs->at[0]->kind != AST_ellipsis) {
        Val at = eval(l, subs->at[0]);
        if (val_is_poison(at) || val_is_poison(v)) {
            return val_poison();
        }
        if (val_is_tensor(at)) {
            lower_at(l, e);
            Node *x = tensor_of(l, v, e->object->loc);
            return take_rows(l, x, tensor_of(l, at, subs->at[0]->loc));
        }
    }
    Node *x = tensor_of(l, v, e->object->loc);
    if (x == NULL) {
        return val_poison();
    }
    int used = 0, ellipses = 0;
    for (int i = 0; i < subs->n; i++) {
        ellipses += subs->at[i]->kind == AST_ellipsis;
        used += subs->at[i]->kind != AST_ellipsis && subs->at[i]->kind != AST_none;
    }
    if (ellipses > 1) {
        return lower_error(l, e->loc, "only one `...` may stand in brackets");
    }
    if (used > x->dims.rank) {
        return lower_error(l, e->loc, "%d indices for a tensor with %d ax%s", used, x->dims.rank,
                           x->dims.rank == 1 ? "is" : "es");
    }
    lower_at(l, e);
    Subscript s = {.x = x};
    for (int i = 0; i < subs->n; i++) {
        if (!take(l, &s, subs->at[i], x->dims.rank - used)) {
            return val_poison();
        }
    }
    while (s.axis < s.x->dims.rank) {
        if (!keep_dim(l, &s, s.x->dims.d[s.axis++], e->loc)) {
            return val_poison();
        }
    }
    lower_at(l, e);
    return val_of_node(l, op_reshape(l, s.x, &s.dims));
}
