/* simplify.c: small rewrites that keep every bit, until none applies.
 *
 * Needs:   any graph without markers; typed nodes.
 * Leaves:  the same results from fewer nodes; no dead node but arguments.
 *
 * Every rewrite has a name and a test of that name (test_pass_simplify.c). In exact mode a rounding at a type boundary
 * is part of the meaning, so only casts that lose nothing go, and x + 0 stays (it turns -0 into 0).
 *
 *   %2 = transpose %w {perm=[1,0]}      ->   %3 = matmul %x, %w {trans_b}
 *   %3 = matmul %x, %2 */
#include "passes/ctx.h"

#include <math.h>

#include "ir/base/strutil.h"

typedef struct Simplify {
    PassCtx *c;
    Graph *g;
    Builder b; /* place, name and reason of the node that is being rewritten */
} Simplify;

/* ---- questions ----------------------------------------------------------------------------------- */

static bool is_number(const Node *n, double x)
{
    double v = n->op == OP_const ? attrs_float(&n->attrs, ATTR_value, 0) : NAN;
    return v == x && signbit(v) == signbit(x);
}

static bool same_type(const Node *a, const Node *b)
{
    return a->dtype == b->dtype && dims_equal(&a->dims, &b->dims);
}

/* Every value of `narrow` is one of `wide`. */
static bool loses_nothing(DType narrow, DType wide)
{
    return pass_is_float(narrow) && pass_is_float(wide) && dtype_widest(narrow, wide) == wide;
}

/* ---- constants ----------------------------------------------------------------------------------- */

/* The value of n alone, all of whose operands are constants. */
static double evaluate(Simplify *s, const Node *n, InterpMode mode)
{
    Arena *arena = arena_new();
    Graph *g = graph_new(arena, "fold", GRAPH_Step);
    Builder b = {.graph = g};
    Node *in[3] = {NULL};
    for (int i = 0; i < n->nin; i++) {
        in[i] = build_const(&b, n->in[i]->dtype, attrs_float(&n->in[i]->attrs, ATTR_value, 0));
    }
    Node *x =
        n->op == OP_cast ? build_cast(&b, in[0], n->dtype) : build(&b, n->op, n->nin, in, n->attrs);
    Interp interp = {.mode = mode, .module = s->c->m, .arena = arena};
    double v = interp_graph(&interp, g, NULL)[x->id]->v[0];
    arena_free(arena);
    return v;
}

/* Folds where the exact value, once rounded, is the value in the node's type: then the constant may be written
 * unrounded and means the same in both modes of the interpreter. */
static Node *fold(Simplify *s, Node *n)
{
    bool folds = op_info[n->op].kind == KIND_Map || n->op == OP_cast;
    for (int i = 0; i < n->nin && folds; i++) {
        folds = n->in[i]->op == OP_const;
    }
    if (!folds) {
        return NULL;
    }
    double exact = evaluate(s, n, INTERP_f64), typed = evaluate(s, n, INTERP_typed);
    double rounded = round_to(n->dtype, exact);
    if (rounded != typed || signbit(rounded) != signbit(typed)) {
        return NULL; /* NaN, too */
    }
    return build_expand(&s->b, build_const(&s->b, n->dtype, exact), &n->dims);
}

static Node *where_const(Simplify *s, Node *n)
{
    if (n->op != OP_where || n->in[0]->op != OP_const) {
        return NULL;
    }
    Node *taken = n->in[is_number(n->in[0], 0) ? 2 : 1];
    return taken->dtype == n->dtype ? build_expand(&s->b, taken, &n->dims) : NULL;
}

static Node *where_same(Simplify *s, Node *n)
{
    (void)s;
    return n->op == OP_where && n->in[1] == n->in[2] && same_type(n, n->in[1]) ? n->in[1] : NULL;
}

/* ---- arithmetic ---------------------------------------------------------------------------------- */

static Node *times_one(Simplify *s, Node *n)
{
    (void)s;
    for (int i = 0; i < 2 && n->op == OP_mul; i++) {
        if (is_number(n->in[1 - i], 1) && same_type(n, n->in[i])) {
            return n->in[i];
        }
    }
    return n->op == OP_div && is_number(n->in[1], 1) && same_type(n, n->in[0]) ? n->in[0] : NULL;
}

/* x - 0 and x + -0 are x, whatever its sign. */
static Node *minus_zero(Simplify *s, Node *n)
{
    (void)s;
    bool identity = (n->op == OP_sub && is_number(n->in[1], 0.0)) ||
                    (n->op == OP_add && is_number(n->in[1], -0.0));
    return identity && same_type(n, n->in[0]) ? n->in[0] : NULL;
}

static Node *twice(Simplify *s, Node *n)
{
    (void)s;
    return (n->op == OP_neg || n->op == OP_not) && n->in[0]->op == n->op ? n->in[0]->in[0] : NULL;
}

/* ---- casts --------------------------------------------------------------------------------------- */

static Node *cast_same(Simplify *s, Node *n)
{
    (void)s;
    return n->op == OP_cast && n->in[0]->dtype == n->dtype ? n->in[0] : NULL;
}

/* A cast that lost nothing before another cast; with it pairs like f16 -> f32 -> f16. */
static Node *cast_pair(Simplify *s, Node *n)
{
    if (n->op != OP_cast || n->in[0]->op != OP_cast) {
        return NULL;
    }
    Node *x = n->in[0]->in[0];
    return loses_nothing(x->dtype, n->in[0]->dtype) ? build_cast(&s->b, x, n->dtype) : NULL;
}

/* ---- shapes -------------------------------------------------------------------------------------- */

static Node *transpose_same(Simplify *s, Node *n)
{
    (void)s;
    const Attr *perm = n->op == OP_transpose ? attrs_find(&n->attrs, ATTR_perm) : NULL;
    for (int i = 0; perm != NULL && i < perm->ints.n; i++) {
        if (perm->ints.v[i] != i) {
            return NULL;
        }
    }
    return perm != NULL ? n->in[0] : NULL;
}

static Node *transpose_twice(Simplify *s, Node *n)
{
    if (n->op != OP_transpose || n->in[0]->op != OP_transpose) {
        return NULL;
    }
    const Attr *outer = attrs_find(&n->attrs, ATTR_perm);
    const Attr *inner = attrs_find(&n->in[0]->attrs, ATTR_perm);
    int perm[MAX_RANK] = {0};
    for (int i = 0; i < outer->ints.n; i++) {
        perm[i] = (int)inner->ints.v[outer->ints.v[i]];
    }
    return build_transpose(&s->b, n->in[0]->in[0], perm);
}

static bool swaps_last(const Node *n)
{
    const Attr *perm = n->op == OP_transpose ? attrs_find(&n->attrs, ATTR_perm) : NULL;
    int rank = perm != NULL ? perm->ints.n : 0;
    for (int i = 0; i < rank; i++) {
        int64_t want = i == rank - 1 ? rank - 2 : i == rank - 2 ? rank - 1 : i;
        if (perm->ints.v[i] != want) {
            return false;
        }
    }
    return rank >= 2;
}

static Node *transpose_into_matmul(Simplify *s, Node *n)
{
    if (n->op != OP_matmul || (!swaps_last(n->in[0]) && !swaps_last(n->in[1]))) {
        return NULL;
    }
    bool ta = attrs_bool(&n->attrs, ATTR_trans_a), tb = attrs_bool(&n->attrs, ATTR_trans_b);
    Node *a = n->in[0], *b = n->in[1];
    if (swaps_last(a)) {
        ta = !ta;
        a = a->in[0];
    }
    if (swaps_last(b)) {
        tb = !tb;
        b = b->in[0];
    }
    return build_matmul(&s->b, a, b, ta, tb, n->dtype);
}

static Node *reshape_twice(Simplify *s, Node *n)
{
    if (n->op != OP_reshape) {
        return NULL;
    }
    if (dims_equal(&n->dims, &n->in[0]->dims)) {
        return n->in[0];
    }
    return n->in[0]->op == OP_reshape ? build_reshape(&s->b, n->in[0]->in[0], &n->dims) : NULL;
}

static Node *expand_twice(Simplify *s, Node *n)
{
    if (n->op != OP_expand) {
        return NULL;
    }
    if (dims_equal(&n->dims, &n->in[0]->dims)) {
        return n->in[0];
    }
    return n->in[0]->op == OP_expand ? build_expand(&s->b, n->in[0]->in[0], &n->dims) : NULL;
}

static Dims map_dims(Node *const *in, int nin)
{
    Dims dims = in[0]->dims;
    for (int i = 1; i < nin; i++) {
        broadcast_dims(&dims, &in[i]->dims, &dims);
    }
    return dims;
}

/* A map broadcasts by itself. */
static Node *expand_into_map(Simplify *s, Node *n)
{
    if (op_info[n->op].kind != KIND_Map) {
        return NULL;
    }
    Node *in[3] = {NULL};
    bool changed = false;
    for (int i = 0; i < n->nin; i++) {
        in[i] = n->in[i];
    }
    for (int i = 0; i < n->nin; i++) {
        if (in[i]->op == OP_expand) {
            in[i] = in[i]->in[0];
            Dims dims = map_dims(in, n->nin);
            if (dims_equal(&dims, &n->dims)) {
                changed = true;
            } else {
                in[i] = n->in[i];
            }
        }
    }
    return changed ? build(&s->b, n->op, n->nin, in, n->attrs) : NULL;
}

static Node *move_nothing(Simplify *s, Node *n)
{
    (void)s;
    bool moves = n->op == OP_slice || n->op == OP_pad || n->op == OP_concat;
    return moves && n->nin == 1 && same_type(n, n->in[0]) && attrs_int(&n->attrs, ATTR_step, 1) == 1
               ? n->in[0]
               : NULL;
}

/* No gradient is taken any more. */
static Node *detach_done(Simplify *s, Node *n)
{
    (void)s;
    return n->op == OP_detach ? n->in[0] : NULL;
}

/* Sums, means and extrema over axes of length 1. */
static Node *reduce_nothing(Simplify *s, Node *n)
{
    if (n->op != OP_sum && n->op != OP_mean && n->op != OP_amax && n->op != OP_amin) {
        return NULL;
    }
    int64_t axes[MAX_RANK];
    int naxes = node_axes(n, axes);
    for (int i = 0; i < naxes; i++) {
        if (!dim_equal(n->in[0]->dims.d[axes[i]], dim_of(1))) {
            return NULL;
        }
    }
    return n->in[0]->dtype == n->dtype ? build_reshape(&s->b, n->in[0], &n->dims) : NULL;
}

/* The gradient of relu, x being its result, of what a pool of x lets through: x is the window's largest there, so the
 * windows are asked, of which there are fewer. */
static Node *relu_of_pool(Simplify *s, Node *n)
{
    Node *pool = n->op == OP_where ? n->in[2] : NULL, *dead = pool != NULL ? n->in[0] : NULL;
    if (pool == NULL || pool->op != OP_max_pool2d_grad || dead->op != OP_le ||
        dead->in[0] != pool->in[1] || !is_number(dead->in[1], 0) || !is_number(n->in[1], 0) ||
        !same_type(n, pool)) {
        return NULL;
    }
    s->b.name = pool->name;
    s->b.loc = pool->loc;
    Node *y = build(&s->b, OP_max_pool2d, 1, &pool->in[1], pool->attrs);
    Node *none = build2(&s->b, OP_le, y, dead->in[1]);
    Node *in[2] = {build3(&s->b, OP_where, none, n->in[1], pool->in[0]), pool->in[1]};
    return build(&s->b, OP_max_pool2d_grad, 2, in, pool->attrs);
}

/* clang-format off */
static const struct {
    const char *name;
    Node *(*fn)(Simplify *s, Node *n); /* what stands for n from now on; NULL: the rule does not apply */
} rules[] = {
    {"fold",                  fold},
    {"where-const",           where_const},
    {"where-same",            where_same},
    {"times-one",             times_one},
    {"minus-zero",            minus_zero},
    {"twice",                 twice},
    {"cast-same",             cast_same},
    {"cast-pair",             cast_pair},
    {"transpose-same",        transpose_same},
    {"transpose-twice",       transpose_twice},
    {"transpose-into-matmul", transpose_into_matmul},
    {"reshape-twice",         reshape_twice},
    {"expand-twice",          expand_twice},
    {"expand-into-map",       expand_into_map},
    {"move-nothing",          move_nothing},
    {"detach-done",           detach_done},
    {"reduce-nothing",        reduce_nothing},
    {"relu-of-pool",          relu_of_pool},
};
/* clang-format on */
enum { RULES = sizeof rules / sizeof *rules };

/* ---- common subexpressions ----------------------------------------------------------------------- */

typedef struct Common {
    int cap;
    Node **slot;
} Common;

static uint64_t mix(uint64_t h, uint64_t x)
{
    return (h ^ x) * 0x9e3779b97f4a7c15u ^ (h >> 29);
}

static uint64_t hash_node(const Node *n)
{
    uint64_t h = mix(mix(1, (uint64_t)n->op), (uint64_t)n->dtype);
    for (int i = 0; i < n->nin; i++) {
        h = mix(h, (uint64_t)(uintptr_t)n->in[i]);
    }
    for (int i = 0; i < n->attrs.n; i++) {
        h = mix(h, (uint64_t)n->attrs.v[i].id);
    }
    if (n->op == OP_const) { /* the usual chain of equals that differ in nothing else */
        union {
            double d;
            uint64_t u;
        } bits = {attrs_float(&n->attrs, ATTR_value, 0)};
        h = mix(h, bits.u);
    }
    return h;
}

static bool same_node(const Node *a, const Node *b)
{
    if (a->op != b->op || !same_type(a, b) || a->nin != b->nin ||
        !attrs_equal(&a->attrs, &b->attrs)) {
        return false;
    }
    for (int i = 0; i < a->nin; i++) {
        if (a->in[i] != b->in[i]) {
            return false;
        }
    }
    return a->op != OP_const || signbit(attrs_float(&a->attrs, ATTR_value, 0)) ==
                                    signbit(attrs_float(&b->attrs, ATTR_value, 0));
}

/* An equal node that came before, or n itself, which is remembered. */
static Node *first_of(Common *common, Node *n)
{
    uint64_t mask = (uint64_t)common->cap - 1;
    uint64_t h = hash_node(n);
    for (h ^= h >> 32;; h++) {
        Node **slot = &common->slot[h & mask];
        if (*slot == NULL) {
            *slot = n;
        }
        if (*slot == n || same_node(*slot, n)) {
            return *slot;
        }
    }
}

/* ---- rounds -------------------------------------------------------------------------------------- */

static Node *rewrite(Simplify *s, Node *n)
{
    s->b.loc = n->loc;
    s->b.name = n->name;
    s->b.why = n->why;
    for (int i = 0; i < RULES; i++) {
        Node *by = rules[i].fn(s, n);
        if (by != NULL) {
            return by;
        }
    }
    return NULL;
}

/* An operand that became a constant would adapt to the others from now on, where it was the wider one before. */
static void keep_arithmetic(Simplify *s, Node *n, DType dt)
{
    if (op_info[n->op].kind != KIND_Map || map_dtype(n) == dt) {
        return;
    }
    for (int i = n->op == OP_where ? 1 : 0; i < n->nin; i++) {
        if (n->in[i]->op != OP_const) {
            n->in[i] = build_cast(&s->b, n->in[i], dt);
        }
    }
}

/* True when anything changed. */
static bool simplify_round(PassCtx *c, Graph *g)
{
    Simplify s = {.c = c, .g = g, .b = {.graph = g}};
    Rebuild r = rebuild_begin(g, c->scratch);
    Common common = {.cap = 64};
    while (common.cap < r.n * 2) {
        common.cap *= 2;
    }
    common.slot = ARENA_ARRAY(c->scratch, Node *, common.cap);
    int rewrites = 0;
    for (int i = 0; i < r.n; i++) {
        Node *n = r.old[i];
        DType dt = op_info[n->op].kind == KIND_Map ? map_dtype(n) : DT_none;
        rebuild_operands(&r, n);
        keep_arithmetic(&s, n, dt);
        bool fixed = n->op == OP_arg || op_info[n->op].kind == KIND_Mark;
        Node *by = fixed ? NULL : rewrite(&s, n);
        if (by == NULL && !fixed) {
            by = first_of(&common, n);
            by = by == n ? NULL : by;
        }
        if (by == NULL) {
            rebuild_keep(&r, n);
        } else {
            rebuild_replace(&r, n, by);
            rewrites++;
        }
    }
    rebuild_end(&r);
    graph_dce(g);
    c->counts->rewrites += rewrites;
    return rewrites > 0;
}

bool pass_simplify(PassCtx *c)
{
    for (int i = 0; i < c->m->ngraphs; i++) {
        while (simplify_round(c, c->m->graphs[i])) {
        }
    }
    return true;
}
