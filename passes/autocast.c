/* autocast.c: decides the type of every node and inserts the casts.
 *
 * Needs:   types inferred, forward graph only (markers may stand behind it); node->amp and forced.
 * Leaves:  operands of a Low op in the region's type, of a Float op in f32, of a Widest op in the widest type
 *          among them (constants do not count), a Follow op in its operand's; the user's own types as they were;
 *          on every node the reason; no amp any more.
 *
 *   %2 = linear %x, %w : f32[B,10]   ->   %1 = cast %w : f16[10,64]   why("feeds linear")
 *                                         %2 = linear %x, %1 : f16[B,10]  why("on the low-precision list; ...")
 *                                         (tests/passes/autocast-linear.ir; after torch.autocast)
 *
 * A cast is made once per (value, type), as near to the source as may be: below shape ops, so that a parameter
 * is cast before it is transposed or broadcast, and a cast back to the type a value came from is no cast. */
#include "passes/ctx.h"

#include <math.h>

#include "ir/base/strutil.h"

typedef struct Autocast {
    PassCtx *c;
    Graph *g;
    Rebuild r;
    DType *was;             /* by old id: the type before this pass */
    NodeMap made[DT_COUNT]; /* value -> the same in another type */
    bool counted;           /* step graphs count for --explain */
} Autocast;

/* ---- reasons ------------------------------------------------------------------------------------- */

/* Why an op is on the float32 list. bf16 has f32's range and few digits; f16 more digits and a small range. */
typedef enum Loss { LOSS_powers, LOSS_exp, LOSS_range, LOSS_sums } Loss;

static const Loss float_loss[OP_COUNT] = {
    [OP_cross_entropy] = LOSS_exp, [OP_softmax] = LOSS_exp,  [OP_log_softmax] = LOSS_exp,
    [OP_logsumexp] = LOSS_exp,     [OP_softplus] = LOSS_exp, [OP_logsigmoid] = LOSS_exp,
    [OP_exp] = LOSS_range,         [OP_expm1] = LOSS_range,  [OP_log] = LOSS_range,
    [OP_log1p] = LOSS_range,       [OP_sum] = LOSS_sums,     [OP_mean] = LOSS_sums,
    [OP_var] = LOSS_sums,
};

static const char *float_reason(Autocast *a, Op op, DType low)
{
    static const char *const in_f16[] = {
        [LOSS_powers] = "powers and quotients overflow in",
        [LOSS_exp] = "exp and log lose range in",
        [LOSS_range] = "its range does not fit",
        [LOSS_sums] = "long sums lose digits in",
    };
    static const char *const in_bf16[] = {
        [LOSS_powers] = "powers and quotients lose digits in",
        [LOSS_exp] = "exp and log lose digits in",
        [LOSS_range] = "its digits do not fit",
        [LOSS_sums] = "long sums lose digits in",
    };
    return arena_printf(a->c->arena, "on the float32 list: %s %s",
                        (low == DT_bf16 ? in_bf16 : in_f16)[float_loss[op]], dtype_info[low].name);
}

static bool casts_parameter(const Node *n)
{
    for (int i = 0; i < n->nin; i++) {
        const Node *p = pass_behind_moves(n->in[i]);
        if (pass_param(p) != NULL && p->dtype == DT_f32) {
            return true;
        }
    }
    return false;
}

static const char *low_reason(Autocast *a, const Node *n, DType low)
{
    if (!casts_parameter(n)) {
        return "on the low-precision list";
    }
    return arena_printf(a->c->arena, "on the low-precision list; weights: %s copy of an f32 master",
                        dtype_info[low].name);
}

/* ---- casts --------------------------------------------------------------------------------------- */

static bool holds_exactly(DType wide, DType narrow)
{
    return pass_is_float(narrow) && (wide == narrow || dtype_widest(wide, narrow) == wide);
}

/* v in type dt: v itself, what it was cast from, what was made before, or a new cast at its source. */
static Node *cast_value(Autocast *a, const Node *user, Node *v, DType dt)
{
    if (v->dtype == dt) {
        return v;
    }
    if (v->op == OP_cast && v->in[0]->dtype == dt && holds_exactly(v->dtype, dt)) {
        return v->in[0];
    }
    Node *made = node_map_get(&a->made[dt], v);
    if (made != NULL) {
        return made;
    }
    Builder b = {.graph = a->g,
                 .diag = a->c->diag,
                 .loc = v->loc,
                 .name = v->name,
                 .why = v->why,
                 .region = v->region};
    if (v->op == OP_const) {
        made = build_const(&b, dt, attrs_float(&v->attrs, ATTR_value, 0));
    } else if (v->op == OP_reshape || v->op == OP_expand) {
        Node *source = cast_value(a, user, v->in[0], dt);
        made = v->op == OP_reshape ? build_reshape(&b, source, &v->dims)
                                   : build_expand(&b, source, &v->dims);
    } else if (v->op == OP_transpose) {
        Node *source = cast_value(a, user, v->in[0], dt);
        made = build(&b, OP_transpose, 1, &source, v->attrs);
    } else {
        const Attr *param = pass_param(v);
        b.loc = user->loc;
        b.name = param != NULL ? param->s : v->name;
        b.why = arena_printf(a->c->arena, "feeds %s", op_info[user->op].name);
        made = build_cast(&b, v, dt);
        a->c->counts->casts_made += a->counted;
    }
    node_map_put(a->c->scratch, &a->made[dt], v, made);
    return made;
}

/* Operand i of n in type dt; integers, bools and f64 pass. */
static void cast_operand(Autocast *a, Node *n, int i, DType dt)
{
    Node *v = n->in[i];
    if (!pass_is_float(v->dtype) || v->dtype == DT_f64 || v->dtype == dt || dt == DT_f64) {
        return;
    }
    if (pass_behind_moves(v)->op != OP_const) {
        a->c->counts->casts_wanted += a->counted;
    }
    n->in[i] = cast_value(a, n, v, dt);
}

static void cast_operands(Autocast *a, Node *n, DType dt)
{
    for (int i = 0; i < n->nin; i++) {
        cast_operand(a, n, i, dt);
    }
}

/* ---- types --------------------------------------------------------------------------------------- */

static bool is_const(Node *n)
{
    return pass_behind_moves(n)->op == OP_const;
}

/* The widest floating type among the operands; constants count only where there is nothing else. */
static DType widest_operand(const Node *n)
{
    DType widest = DT_none, of_consts = DT_none;
    for (int i = 0; i < n->nin; i++) {
        DType dt = n->in[i]->dtype;
        if (pass_is_float(dt)) {
            DType *into = is_const(n->in[i]) ? &of_consts : &widest;
            *into = dtype_widest(*into, dt);
        }
    }
    return widest != DT_none ? widest : of_consts;
}

/* What may not change when a constant is rounded: vanishing, becoming 1, overflowing. */
static bool changes_class(double x, DType dt)
{
    double y = round_to(dt, x);
    return (x != 0 && y == 0) || (x != 1 && y == 1) || (isfinite(x) && !isfinite(y));
}

/* A constant operand that type dt would turn into something else, NULL for none. */
static Node *lost_const(const Node *n, DType dt)
{
    for (int i = 0; i < n->nin && dtype_is_low(dt); i++) {
        Node *k = pass_behind_moves(n->in[i]);
        if (k->op == OP_const && pass_is_float(k->dtype) &&
            changes_class(attrs_float(&k->attrs, ATTR_value, 0), dt)) {
            return k;
        }
    }
    return NULL;
}

static void warn_lost(Autocast *a, const Node *n, const Node *k, DType dt)
{
    double x = attrs_float(&k->attrs, ATTR_value, 0);
    char written[32], becomes[32];
    diag_warning(a->c->diag, n->loc, "the constant %s becomes %s in %s; %s runs in f32",
                 str_double(written, x), str_double(becomes, round_to(dt, x)), dtype_info[dt].name,
                 op_info[n->op].name);
}

static void retype(Autocast *a, Node *n, DType dt)
{
    if (pass_is_float(n->dtype) && n->dtype != DT_f64) {
        n->dtype = dt;
    }
    infer_node(a->g, n, a->c->diag);
}

static void cast_widest(Autocast *a, Node *n)
{
    DType dt = widest_operand(n);
    Node *lost = lost_const(n, dt);
    n->why = n->nin > 1 ? "takes the widest of its inputs" : "follows its input";
    if (lost != NULL) {
        warn_lost(a, n, lost, dt);
        n->why = arena_printf(a->c->arena, "in f32: its constant does not survive in %s",
                              dtype_info[dt].name);
        dt = DT_f32;
    }
    if (dt != DT_none) {
        cast_operands(a, n, dt);
    }
    retype(a, n, dt);
}

static void cast_by_class(Autocast *a, Node *n, DType low)
{
    switch (op_info[n->op].cast) {
    case CAST_None:
        n->why = n->op == OP_cast ? "as the file says" : "no arithmetic in floating point";
        break;
    case CAST_Low:
        n->why = low_reason(a, n, low);
        cast_operands(a, n, low);
        retype(a, n, low);
        break;
    case CAST_Float:
        n->why = float_reason(a, n->op, low);
        cast_operands(a, n, DT_f32);
        retype(a, n, DT_f32);
        break;
    case CAST_Widest: cast_widest(a, n); break;
    case CAST_Follow:
        n->why = "follows its input";
        retype(a, n, n->in[0]->dtype);
        break;
    }
}

/* Outside of a region a value has the type the file gives it; what a region made smaller is cast back. */
static void keep_type(Autocast *a, Node *n, const Node *const *operands)
{
    bool follows = op_info[n->op].cast == CAST_Follow;
    for (int i = 0; i < n->nin && !follows; i++) {
        if (pass_is_float(n->in[i]->dtype)) {
            cast_operand(a, n, i, a->was[operands[i]->id]);
        }
    }
    if (follows) {
        retype(a, n, n->in[0]->dtype);
    }
    if (n->amp == DT_f32) {
        n->why = "autocast in f32: keeps f32";
    } else if (!pass_is_float(n->dtype) || n->dtype == DT_f32) {
        n->why = "outside autocast: keeps f32";
    } else {
        n->why = arena_printf(a->c->arena, "outside autocast: keeps %s", dtype_info[n->dtype].name);
    }
}

static void cast_node(Autocast *a, Node *n)
{
    const Node **operands = ARENA_ARRAY(a->c->scratch, const Node *, n->nin);
    for (int i = 0; i < n->nin; i++) {
        operands[i] = n->in[i];
    }
    if (op_info[n->op].kind == KIND_Mark) {
        /* a loss in a low type would overflow under the loss scale */
        for (int i = 0; i < n->nin && n->op == OP_scale_loss; i++) {
            cast_operand(a, n, i, DT_f32);
        }
        n->why = NULL;
        if (n->op == OP_scale_loss) {
            infer_node(a->g, n, a->c->diag);
        }
    } else if (n->op == OP_arg) {
        n->why = NULL;
    } else if (op_info[n->op].kind == KIND_Leaf) {
        n->why = n->op == OP_const ? NULL : "the type it is made in";
    } else if (n->forced) {
        n->why = n->why != NULL ? n->why : "as the file says"; /* losses say more */
        if (n->op != OP_cast) {
            DType own =
                op_is_predicate(n->op) || !pass_is_float(n->dtype) ? widest_operand(n) : n->dtype;
            cast_operands(a, n, own);
            retype(a, n, own);
        }
    } else if (n->amp == DT_none || n->amp == DT_f32) {
        keep_type(a, n, operands);
    } else {
        cast_by_class(a, n, n->amp);
    }
    n->amp = DT_none;
}

static void cast_graph(PassCtx *c, Graph *g)
{
    Autocast a = {.c = c, .g = g, .counted = g->role == GRAPH_Step};
    a.r = rebuild_begin(g, c->scratch);
    a.was = ARENA_ARRAY(c->scratch, DType, a.r.n);
    for (int i = 0; i < a.r.n; i++) {
        a.was[i] = a.r.old[i]->dtype;
    }
    for (int i = 0; i < a.r.n; i++) {
        cast_node(&a, a.r.old[i]);
        rebuild_keep(&a.r, a.r.old[i]);
    }
    rebuild_end(&a.r);
}

bool pass_autocast(PassCtx *c)
{
    for (int i = 0; i < c->m->ngraphs; i++) {
        cast_graph(c, c->m->graphs[i]);
    }
    return true;
}
