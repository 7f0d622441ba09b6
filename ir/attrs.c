/* attrs.c: sets of attributes of nodes and declarations, kept sorted by id.
 *
 * What a set may hold is op.c's (op_info[].attrs) and the verifier's business.
 */
#include "ir/ir.h"

#include <string.h>

#include "ir/base/strutil.h"

const Attr *attrs_find(const Attrs *as, AttrId id)
{
    for (int i = 0; i < as->n; i++) {
        if (as->v[i].id == id) {
            return &as->v[i];
        }
    }
    return NULL;
}

int64_t attrs_int(const Attrs *as, AttrId id, int64_t otherwise)
{
    const Attr *a = attrs_find(as, id);
    return a != NULL ? a->i : otherwise;
}

double attrs_float(const Attrs *as, AttrId id, double otherwise)
{
    const Attr *a = attrs_find(as, id);
    return a != NULL ? a->f : otherwise;
}

bool attrs_bool(const Attrs *as, AttrId id)
{
    const Attr *a = attrs_find(as, id);
    return a != NULL && a->b;
}

const char *attrs_str(const Attrs *as, AttrId id)
{
    const Attr *a = attrs_find(as, id);
    return a != NULL ? a->s : NULL;
}

HostExpr *attrs_expr(const Attrs *as, AttrId id)
{
    const Attr *a = attrs_find(as, id);
    return a != NULL ? a->expr : NULL;
}

static void attrs_remove(Attrs *as, AttrId id)
{
    int kept = 0;
    for (int i = 0; i < as->n; i++) {
        if (as->v[i].id != id) {
            as->v[kept++] = as->v[i];
        }
    }
    as->n = kept;
}

/* Always a new array: sets are copied by value (Node to Node), so the old storage may be shared. */
void attrs_set(Arena *arena, Attrs *as, Attr attr)
{
    Attr *v = ARENA_ARRAY(arena, Attr, as->n + 1);
    int n = 0, i = 0;
    for (; i < as->n && as->v[i].id < attr.id; i++) {
        v[n++] = as->v[i];
    }
    v[n++] = attr;
    for (; i < as->n; i++) {
        if (as->v[i].id != attr.id) {
            v[n++] = as->v[i];
        }
    }
    *as = (Attrs){n, v};
    if (attr_info[attr.id].type == AT_Bool && !attr.b) {
        attrs_remove(as, attr.id);
    }
}

void attrs_set_int(Arena *arena, Attrs *as, AttrId id, int64_t i)
{
    attrs_set(arena, as, (Attr){.id = id, .i = i});
}

void attrs_set_float(Arena *arena, Attrs *as, AttrId id, double f)
{
    attrs_set(arena, as, (Attr){.id = id, .f = f});
}

void attrs_set_bool(Arena *arena, Attrs *as, AttrId id, bool b)
{
    attrs_set(arena, as, (Attr){.id = id, .b = b});
}

void attrs_set_str(Arena *arena, Attrs *as, AttrId id, const char *s)
{
    attrs_set(arena, as, (Attr){.id = id, .s = arena_strdup(arena, s)});
}

void attrs_set_ints(Arena *arena, Attrs *as, AttrId id, int n, const int64_t *v)
{
    int64_t *copy = ARENA_ARRAY(arena, int64_t, n);
    for (int i = 0; i < n; i++) {
        copy[i] = v[i];
    }
    attrs_set(arena, as, (Attr){.id = id, .ints = {n, copy}});
}

void attrs_set_floats(Arena *arena, Attrs *as, AttrId id, int n, const double *v)
{
    double *copy = ARENA_ARRAY(arena, double, n);
    for (int i = 0; i < n; i++) {
        copy[i] = v[i];
    }
    attrs_set(arena, as, (Attr){.id = id, .floats = {n, copy}});
}

void attrs_set_strs(Arena *arena, Attrs *as, AttrId id, int n, const char *const *v)
{
    const char **copy = ARENA_ARRAY(arena, const char *, n);
    for (int i = 0; i < n; i++) {
        copy[i] = arena_strdup(arena, v[i]);
    }
    attrs_set(arena, as, (Attr){.id = id, .strs = {n, copy}});
}

void attrs_set_expr(Arena *arena, Attrs *as, AttrId id, HostExpr *e)
{
    attrs_set(arena, as, (Attr){.id = id, .expr = e});
}

static bool float_equal(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

static bool attr_ints_equal(const Attr *a, const Attr *b)
{
    bool same = a->ints.n == b->ints.n;
    for (int i = 0; same && i < a->ints.n; i++) {
        same = a->ints.v[i] == b->ints.v[i];
    }
    return same;
}

static bool attr_floats_equal(const Attr *a, const Attr *b)
{
    bool same = a->floats.n == b->floats.n;
    for (int i = 0; same && i < a->floats.n; i++) {
        same = float_equal(a->floats.v[i], b->floats.v[i]);
    }
    return same;
}

static bool attr_strs_equal(const Attr *a, const Attr *b)
{
    bool same = a->strs.n == b->strs.n;
    for (int i = 0; same && i < a->strs.n; i++) {
        same = str_eq(a->strs.v[i], b->strs.v[i]);
    }
    return same;
}

static bool attr_equal(const Attr *a, const Attr *b)
{
    if (a->id != b->id) {
        return false;
    }
    switch (attr_info[a->id].type) {
    case AT_Int: return a->i == b->i;
    case AT_Float: return float_equal(a->f, b->f);
    case AT_Bool: return a->b == b->b;
    case AT_Str: return str_eq(a->s, b->s);
    case AT_Ints: return attr_ints_equal(a, b);
    case AT_Floats: return attr_floats_equal(a, b);
    case AT_Strs: return attr_strs_equal(a, b);
    case AT_Dtype: return a->dtype == b->dtype;
    case AT_Expr: return host_expr_equal(a->expr, b->expr);
    }
    return false;
}

bool attrs_equal(const Attrs *a, const Attrs *b)
{
    if (a->n != b->n) {
        return false;
    }
    for (int i = 0; i < a->n; i++) {
        if (!attr_equal(&a->v[i], &b->v[i])) {
            return false;
        }
    }
    return true;
}
