/* eval_number.c: arithmetic on what is no tensor: numbers, strings, lists, symbolic sizes, and the numbers
 * that only the running program knows (host expressions).
 *
 * Numbers follow Python: int / int is a float, // and % round down, bools count as ints.
 */
#include "frontend/lower.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- integers and floats --------------------------------------------------------------------------- */

static Val overflow(Lower *l, Loc loc)
{
    return lower_error(l, loc, "this is too large for a 64-bit integer");
}

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static Val int_pow(Lower *l, int64_t base, int64_t exponent, Loc loc)
{
    int64_t r = 1;
    while (exponent > 0) {
        if ((exponent & 1) && __builtin_mul_overflow(r, base, &r)) {
            return overflow(l, loc);
        }
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
            return overflow(l, loc);
        }
    }
    return val_int(r);
}

static bool compare(AstOp op, double a, double b)
{
    switch (op) {
    case AST_OP_eq: return a == b;
    case AST_OP_ne: return a != b;
    case AST_OP_lt: return a < b;
    case AST_OP_le: return a <= b;
    case AST_OP_gt: return a > b;
    default: return a >= b;
    }
}

static bool is_comparison(AstOp op)
{
    return op >= AST_OP_eq && op <= AST_OP_ge;
}

static Val int_binary(Lower *l, AstOp op, int64_t a, int64_t b, Loc loc)
{
    int64_t r = 0;
    bool bad = false;
    switch (op) {
    case AST_OP_eq: return val_bool(a == b);
    case AST_OP_ne: return val_bool(a != b);
    case AST_OP_lt: return val_bool(a < b);
    case AST_OP_le: return val_bool(a <= b);
    case AST_OP_gt: return val_bool(a > b);
    case AST_OP_ge: return val_bool(a >= b);
    case AST_OP_add: bad = __builtin_add_overflow(a, b, &r); break;
    case AST_OP_sub: bad = __builtin_sub_overflow(a, b, &r); break;
    case AST_OP_mul: bad = __builtin_mul_overflow(a, b, &r); break;
    case AST_OP_div:
        if (b == 0) {
            return lower_error(l, loc, "division by zero");
        }
        return val_float((double)a / (double)b);
    case AST_OP_fdiv:
    case AST_OP_mod:
        if (b == 0) {
            return lower_error(l, loc, "division by zero");
        }
        if (b == -1 && a == INT64_MIN) {
            return overflow(l, loc);
        }
        r = a % b;
        return val_int(op == AST_OP_fdiv              ? floor_div(a, b)
                       : r != 0 && (r < 0) != (b < 0) ? r + b
                                                      : r);
    case AST_OP_pow: return b < 0 ? val_float(pow((double)a, (double)b)) : int_pow(l, a, b, loc);
    default: return lower_error(l, loc, "`%s` needs tensors", ast_op_text(op));
    }
    return bad ? overflow(l, loc) : val_int(r);
}

static Val float_binary(Lower *l, AstOp op, double a, double b, Loc loc)
{
    if (is_comparison(op)) {
        return val_bool(compare(op, a, b));
    }
    if ((op == AST_OP_div || op == AST_OP_fdiv || op == AST_OP_mod) && b == 0) {
        return lower_error(l, loc, "division by zero");
    }
    switch (op) {
    case AST_OP_add: return val_float(a + b);
    case AST_OP_sub: return val_float(a - b);
    case AST_OP_mul: return val_float(a * b);
    case AST_OP_div: return val_float(a / b);
    case AST_OP_fdiv: return val_float(floor(a / b));
    case AST_OP_mod: return val_float(a - floor(a / b) * b);
    case AST_OP_pow: return val_float(pow(a, b));
    default: return lower_error(l, loc, "`%s` needs tensors", ast_op_text(op));
    }
}

static Val both_numbers(Lower *l, AstOp op, Val a, Val b, Loc loc)
{
    if (op == AST_OP_and || op == AST_OP_or) { /* options of the program that were folded */
        bool x = val_number(a) != 0, y = val_number(b) != 0;
        return val_bool(op == AST_OP_and ? x && y : x || y);
    }
    if (a.kind == VAL_float || b.kind == VAL_float) {
        return float_binary(l, op, val_number(a), val_number(b), loc);
    }
    return int_binary(l, op, a.kind == VAL_bool ? a.b : a.i, b.kind == VAL_bool ? b.b : b.i, loc);
}

/* ---- host expressions ------------------------------------------------------------------------------ */

/* What the frontend keeps beside each expression it makes, so that none grows without limit. */
typedef struct Sized {
    HostExpr e;
    int size, depth;
} Sized;

HostExpr *host_node(Lower *l, HostExprKind kind, HostType type, const char *text, int nin,
                    HostExpr *const *in, Loc loc)
{
    Sized *s = ARENA_NEW(l->arena, Sized);
    s->e =
        (HostExpr){.kind = kind, .type = type, .text = text, .nin = nin, .loc = lower_loc(l, loc)};
    s->e.in = ARENA_ARRAY(l->arena, HostExpr *, nin);
    s->size = 1;
    for (int i = 0; i < nin; i++) {
        if (in[i] == NULL) {
            return NULL;
        }
        const Sized *child = (const Sized *)in[i];
        s->e.in[i] = in[i];
        s->size += child->size;
        s->depth = child->depth + 1 > s->depth ? child->depth + 1 : s->depth;
    }
    if (s->size > LOWER_MAX_HOST_SIZE || s->depth > LOWER_MAX_HOST_DEPTH) {
        lower_error(l, loc, "this computation outside the graphs is too long");
        return NULL;
    }
    return &s->e;
}

HostExpr *host_of(Lower *l, Val v, Loc loc)
{
    HostExpr *e;
    switch (v.kind) {
    case VAL_host: return v.host;
    case VAL_int:
        if (v.i > (int64_t)1 << 53 || v.i < -((int64_t)1 << 53)) {
            lower_error(l, loc, "%lld is too large for a number of the program", (long long)v.i);
            return NULL;
        }
        /* fall through */
    case VAL_float:
    case VAL_bool:
        e = host_node(l, HE_num,
                      v.kind == VAL_int     ? HT_int
                      : v.kind == VAL_float ? HT_float
                                            : HT_bool,
                      NULL, 0, NULL, loc);
        e->num = val_number(v);
        return e;
    case VAL_str: return host_node(l, HE_str, HT_str, v.s, 0, NULL, loc);
    case VAL_tensor:
    case VAL_param: return tensor_to_host(l, v, NULL, loc);
    case VAL_poison: return NULL;
    default: lower_error(l, loc, "a number is needed here, but this is %s", val_describe(l, v));
    }
    return NULL;
}

/* The type of a variable is settled by all its assignments, wherever it is met first. */
Val host_var(Lower *l, const char *name, HostType type, Loc loc)
{
    const HostName *h = host_name_find(l, name);
    bool settled = h != NULL && h->number && h->type != HT_str && type != HT_str;
    const HostVar *v = module_var(l->m, name, settled ? h->type : type);
    return val_host(host_node(l, HE_var, v->type, v->name, 0, NULL, loc));
}

static HostType arithmetic_type(AstOp op, HostType a, HostType b)
{
    if (op == AST_OP_div) {
        return HT_float;
    }
    return a == HT_float || b == HT_float ? HT_float : HT_int;
}

static Val host_binary(Lower *l, AstOp op, Val a, Val b, Loc loc)
{
    HostExpr *in[2] = {host_of(l, a, loc), host_of(l, b, loc)};
    if (in[0] == NULL || in[1] == NULL) {
        return val_poison();
    }
    bool strings = in[0]->type == HT_str || in[1]->type == HT_str;
    if (strings && (in[0]->type != in[1]->type || (op != AST_OP_eq && op != AST_OP_ne))) {
        return lower_error(l, loc, "`%s` does not work on a string and %s", ast_op_text(op),
                           in[0]->type == in[1]->type ? "a string" : "a number");
    }
    if (op == AST_OP_matmul) {
        return lower_error(l, loc, "`@` needs tensors");
    }
    bool logic = is_comparison(op) || op == AST_OP_and || op == AST_OP_or;
    HostType type = logic ? HT_bool : arithmetic_type(op, in[0]->type, in[1]->type);
    if (op == AST_OP_pow && type == HT_int && in[1]->kind != HE_num) {
        type = HT_float;
    }
    HostExpr *e = host_node(l, HE_binary, type, ast_op_text(op), 2, in, loc);
    return e == NULL ? val_poison() : val_host(e);
}

bool host_is_static(const HostExpr *e)
{
    bool asks = e->kind == HE_call && e->nin == 0; /* elapsed(), step_was_skipped() */
    if (e->kind == HE_var || e->kind == HE_len || e->kind == HE_count || asks) {
        return false;
    }
    for (int i = 0; i < e->nin; i++) {
        if (!host_is_static(e->in[i])) {
            return false;
        }
    }
    return true;
}

bool host_is_constant(const HostExpr *e)
{
    bool asks = e->kind == HE_call && e->nin == 0;
    for (int i = 0; i < e->nin; i++) {
        asks = asks || !host_is_constant(e->in[i]);
    }
    return e->kind != HE_var && !asks;
}

bool host_mentions(const HostExpr *e, const char *var)
{
    if (e->kind == HE_var && str_eq(e->text, var)) {
        return true;
    }
    for (int i = 0; i < e->nin; i++) {
        if (host_mentions(e->in[i], var)) {
            return true;
        }
    }
    return false;
}

static AstOp op_of_text(const char *text)
{
    for (int op = 1; op < AST_OP_COUNT; op++) {
        if (str_eq(ast_op_text((AstOp)op), text)) {
            return (AstOp)op;
        }
    }
    ICE("no operator %s", text);
}

static Val fold_option(Lower *l, const HostExpr *e, FoldUse use)
{
    Decl *d = module_find(l->m, DECL_option, e->text);
    if (d == NULL) {
        ICE("no option %s", e->text);
    }
    if (use != FOLD_quiet) {
        attrs_set_bool(l->arena, &d->attrs, ATTR_shape_bound, true);
    }
    if (use == FOLD_fixed) {
        attrs_set_bool(l->arena, &d->attrs, ATTR_fixed, true);
    }
    const HostExpr *v = attrs_expr(&d->attrs, ATTR_default);
    switch (v->type) {
    case HT_int: return val_int((int64_t)v->num);
    case HT_bool: return val_bool(v->num != 0);
    case HT_str: return val_str(v->text);
    default: return val_float(v->num);
    }
}

static Val fold(Lower *l, const HostExpr *e, FoldUse use)
{
    Val in[3] = {0};
    for (int i = 0; i < e->nin && i < 3; i++) {
        in[i] = fold(l, e->in[i], use);
        if (val_is_poison(in[i])) {
            return in[i];
        }
    }
    bool truth;
    switch (e->kind) {
    case HE_num:
        return e->type == HT_int    ? val_int((int64_t)e->num)
               : e->type == HT_bool ? val_bool(e->num != 0)
                                    : val_float(e->num);
    case HE_str: return val_str(e->text);
    case HE_option: return fold_option(l, e, use);
    case HE_unary:
        return number_unary(l, str_eq(e->text, "not") ? AST_OP_not : AST_OP_neg, in[0], e->loc);
    case HE_binary: return number_binary(l, op_of_text(e->text), in[0], in[1], e->loc);
    case HE_call: return number_call(l, e->text, e->nin, in, e->loc);
    case HE_cond: return eval_truth(l, in[1], e->loc, &truth) ? in[truth ? 0 : 2] : val_poison();
    default: ICE("a host expression that is not static");
    }
}

Val host_fold(Lower *l, Val v, FoldUse use, Loc loc)
{
    if (v.kind != VAL_host) {
        return v;
    }
    if (!host_is_static(v.host)) {
        return lower_error(
            l, loc,
            "this must be known at compile time, but `%s` is only known when the program runs",
            host_expr_text(l->arena, v.host));
    }
    return fold(l, v.host, use);
}

/* ---- sizes, strings, lists ------------------------------------------------------------------------- */

Val val_dim(Dim d)
{
    return dim_is_const(d) ? val_int(d.k) : (Val){.kind = VAL_dim, .dim = d};
}

static Val dim_binary(Lower *l, AstOp op, Val a, Val b, Loc loc)
{
    Dim x, y, r;
    if (!dim_of_val(l, a, loc, &x) || !dim_of_val(l, b, loc, &y)) {
        return val_poison();
    }
    switch (op) {
    case AST_OP_mul:
        if (dim_mul(x, y, &r)) {
            return val_dim(r);
        }
        break;
    case AST_OP_fdiv:
    case AST_OP_div:
        if (dim_div(x, y, &r)) {
            return val_dim(r);
        }
        break;
    case AST_OP_eq:
    case AST_OP_ne:
        if (dim_equal(x, y)) {
            return val_bool(op == AST_OP_eq);
        }
        break;
    default: break;
    }
    return lower_error(
        l, loc, "`%s` of a size that is only known when the program runs (the batch's, for one)",
        ast_op_text(op));
}

static Val list_binary(Lower *l, AstOp op, Val a, Val b, Loc loc)
{
    if (op == AST_OP_add && a.kind == b.kind) {
        Val r = val_list(l, a.kind);
        for (int i = 0; i < a.list->n; i++) {
            val_push(l, &r, a.list->at[i]);
        }
        for (int i = 0; i < b.list->n; i++) {
            val_push(l, &r, b.list->at[i]);
        }
        return r;
    }
    if (op == AST_OP_mul && b.kind == VAL_int) {
        Val r = val_list(l, a.kind);
        for (int64_t k = 0; k < b.i; k++) {
            if (!lower_unroll(l, loc)) {
                return val_poison();
            }
            for (int i = 0; i < a.list->n; i++) {
                val_push(l, &r, a.list->at[i]);
            }
        }
        return r;
    }
    if ((op == AST_OP_eq || op == AST_OP_ne) && a.kind == b.kind) {
        bool same = a.list->n == b.list->n;
        for (int i = 0; same && i < a.list->n; i++) {
            Val e = number_binary(l, AST_OP_eq, a.list->at[i], b.list->at[i], loc);
            if (e.kind != VAL_bool) {
                return val_poison();
            }
            same = e.b;
        }
        return val_bool(same == (op == AST_OP_eq));
    }
    return lower_error(l, loc, "`%s` does not work on %s and %s", ast_op_text(op),
                       val_describe(l, a), val_describe(l, b));
}

static Val str_binary(Lower *l, AstOp op, Val a, Val b, Loc loc)
{
    if (a.kind == VAL_str && b.kind == VAL_str) {
        if (op == AST_OP_add) {
            if (strlen(a.s) + strlen(b.s) > 1 << 20) {
                return lower_error(l, loc, "this string is too long");
            }
            return val_str(arena_printf(l->arena, "%s%s", a.s, b.s));
        }
        if (is_comparison(op)) {
            return val_bool(compare(op, strcmp(a.s, b.s), 0));
        }
    }
    return lower_error(l, loc, "`%s` does not work on %s and %s", ast_op_text(op),
                       val_describe(l, a), val_describe(l, b));
}

/* Kinds that differ are not equal; none, types and instances equal themselves. */
static bool identity(AstOp op, Val a, Val b, Val *out)
{
    if (op != AST_OP_eq && op != AST_OP_ne) {
        return false;
    }
    bool same;
    if (a.kind == VAL_none || b.kind == VAL_none) {
        same = a.kind == b.kind;
    } else if (a.kind == VAL_dtype && b.kind == VAL_dtype) {
        same = a.dtype == b.dtype;
    } else if (a.kind == VAL_instance && b.kind == VAL_instance) {
        same = a.instance == b.instance;
    } else if (a.kind != b.kind && (a.kind == VAL_str || b.kind == VAL_str) && a.kind != VAL_host &&
               b.kind != VAL_host) {
        same = false;
    } else {
        return false;
    }
    *out = val_bool(same == (op == AST_OP_eq));
    return true;
}

Val number_binary(Lower *l, AstOp op, Val a, Val b, Loc loc)
{
    Val r;
    if (val_is_poison(a) || val_is_poison(b)) {
        return val_poison();
    }
    if (identity(op, a, b, &r)) {
        return r;
    }
    if (a.kind == VAL_host || b.kind == VAL_host) {
        return host_binary(l, op, a, b, loc);
    }
    if (val_is_number(a) && val_is_number(b)) {
        return both_numbers(l, op, a, b, loc);
    }
    if ((a.kind == VAL_dim || b.kind == VAL_dim) && (a.kind == VAL_dim || a.kind == VAL_int) &&
        (b.kind == VAL_dim || b.kind == VAL_int)) {
        return dim_binary(l, op, a, b, loc);
    }
    if (a.kind == VAL_str || b.kind == VAL_str) {
        return str_binary(l, op, a, b, loc);
    }
    if (a.kind == VAL_list || a.kind == VAL_tuple) {
        return list_binary(l, op, a, b, loc);
    }
    return lower_error(l, loc, "`%s` does not work on %s and %s", ast_op_text(op),
                       val_describe(l, a), val_describe(l, b));
}

Val number_unary(Lower *l, AstOp op, Val v, Loc loc)
{
    bool truth;
    if (v.kind == VAL_host) {
        HostType type = op == AST_OP_not          ? HT_bool
                        : v.host->type == HT_bool ? HT_int
                                                  : v.host->type;
        if (v.host->type == HT_str && op != AST_OP_not) {
            return lower_error(l, loc, "`-` does not work on a string");
        }
        HostExpr *e = host_node(l, HE_unary, type, ast_op_text(op), 1, &v.host, loc);
        return e == NULL ? val_poison() : val_host(e);
    }
    if (op == AST_OP_not) {
        return eval_truth(l, v, loc, &truth) ? val_bool(!truth) : val_poison();
    }
    switch (v.kind) {
    case VAL_poison: return v;
    case VAL_int: return v.i == INT64_MIN ? overflow(l, loc) : val_int(-v.i);
    case VAL_bool: return val_int(-(int64_t)v.b);
    case VAL_float: return val_float(-v.f);
    default: return lower_error(l, loc, "`-` does not work on %s", val_describe(l, v));
    }
}

/* ---- functions ------------------------------------------------------------------------------------- */

static Val whole(Lower *l, double x, Loc loc)
{
    if (!(x >= -9.2e18 && x <= 9.2e18)) {
        return overflow(l, loc);
    }
    return val_int((int64_t)x);
}

static Val apply(Lower *l, const char *fn, int n, const Val *args, Loc loc)
{
    if (str_eq(fn, "min") || str_eq(fn, "max")) {
        Val best = args[0];
        for (int i = 1; i < n; i++) {
            double a = val_number(args[i]), b = val_number(best);
            if (fn[1] == 'i' ? a < b : a > b) {
                best = args[i];
            }
        }
        return best;
    }
    double x = val_number(args[0]);
    if (str_eq(fn, "abs")) {
        return args[0].kind == VAL_float ? val_float(fabs(x))
               : x < 0                   ? number_unary(l, AST_OP_neg, args[0], loc)
                                         : args[0];
    }
    if (str_eq(fn, "floor")) {
        return args[0].kind == VAL_float ? whole(l, floor(x), loc) : args[0];
    }
    if (str_eq(fn, "ceil")) {
        return args[0].kind == VAL_float ? whole(l, ceil(x), loc) : args[0];
    }
    if (str_eq(fn, "int")) {
        return args[0].kind == VAL_float ? whole(l, trunc(x), loc) : val_int((int64_t)x);
    }
    if (str_eq(fn, "float")) {
        return val_float(x);
    }
    if (str_eq(fn, "sqrt")) {
        return x < 0 ? lower_error(l, loc, "the square root of a negative number")
                     : val_float(sqrt(x));
    }
    if (str_eq(fn, "log")) {
        return x <= 0 ? lower_error(l, loc, "the logarithm of a number that is not positive")
                      : val_float(log(x));
    }
    if (str_eq(fn, "exp")) {
        return val_float(exp(x));
    }
    return lower_error(l, loc, "`%s` needs a tensor", fn);
}

static HostType call_type(const char *fn, int n, HostExpr *const *in)
{
    if (str_eq(fn, "int") || str_eq(fn, "floor") || str_eq(fn, "ceil")) {
        return HT_int;
    }
    if (str_eq(fn, "min") || str_eq(fn, "max") || str_eq(fn, "abs")) {
        for (int i = 0; i < n; i++) {
            if (in[i]->type == HT_float) {
                return HT_float;
            }
        }
        return HT_int;
    }
    return HT_float;
}

Val number_call(Lower *l, const char *fn, int n, const Val *args, Loc loc)
{
    bool host = false;
    HostExpr *in[MAX_FORMALS];
    for (int i = 0; i < n; i++) {
        if (val_is_poison(args[i])) {
            return args[i];
        }
        host = host || args[i].kind == VAL_host;
        if (!val_is_number(args[i]) && args[i].kind != VAL_host) {
            return lower_error(l, loc, "`%s` does not work on %s", fn, val_describe(l, args[i]));
        }
    }
    if (!host) {
        return apply(l, fn, n, args, loc);
    }
    static const char *const known[] = {"min",  "max", "abs", "floor", "ceil",
                                        "sqrt", "exp", "log", "int",   "float"};
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        found = found || str_eq(known[i], fn);
    }
    if (!found || n > 2) {
        return lower_error(l, loc, "`%s` needs a tensor", fn);
    }
    for (int i = 0; i < n; i++) {
        in[i] = host_of(l, args[i], loc);
        if (in[i] == NULL) {
            return val_poison();
        }
    }
    HostExpr *e = host_node(l, HE_call, call_type(fn, n, in), fn, n, in, loc);
    return e == NULL ? val_poison() : val_host(e);
}

/* ---- asking for a number --------------------------------------------------------------------------- */

bool val_int_of(Lower *l, Val v, const char *what, Loc loc, int64_t *out)
{
    v = host_fold(l, v, FOLD_fixed, loc);
    if (v.kind == VAL_float && v.f == floor(v.f) && fabs(v.f) < 9e15) {
        v = val_int((int64_t)v.f); /* 4.0 * d, as people write it */
    }
    if (v.kind == VAL_int) {
        *out = v.i;
        return true;
    }
    if (v.kind != VAL_poison) {
        lower_error(l, loc, "%s must be a whole number, but is %s", what, val_describe(l, v));
    }
    return false;
}

bool val_float_of(Lower *l, Val v, const char *what, Loc loc, double *out)
{
    v = host_fold(l, v, FOLD_fixed, loc);
    if (val_is_number(v)) {
        *out = val_number(v);
        return true;
    }
    if (v.kind != VAL_poison) {
        lower_error(l, loc, "%s must be a number, but is %s", what, val_describe(l, v));
    }
    return false;
}
