/* ast.c: building, checking the depth of, and comparing syntax trees.
 *
 * The constructors check what the grammar leaves open: what may be assigned to, the order of
 * arguments, that an evaluate block has a result. Anything about names or types is lower.c's.
 */
#define _POSIX_C_SOURCE 200809L
#include "frontend/ast.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/strutil.h"

static const char *const kind_names[] = {
#define AST(kind, slots, example) [AST_##kind] = #kind,
#include "frontend/ast.def"
};

static const char *const kind_slots[] = {
#define AST(kind, slots, example) [AST_##kind] = slots,
#include "frontend/ast.def"
};

static const struct {
    const char *text;
    int precedence;
} ops[] = {
#define OP(name, text, prec) [AST_OP_##name] = {text, prec},
    AST_OPS(OP)
#undef OP
};

const char *ast_kind_name(AstKind kind)
{
    return kind_names[kind];
}

const char *ast_kind_slots(AstKind kind)
{
    return kind_slots[kind];
}

const char *ast_op_text(AstOp op)
{
    return ops[op].text;
}

int ast_op_precedence(AstOp op)
{
    return ops[op].precedence;
}

/* ---- nodes ---- */

Ast *ast_new(AstMaker *m, AstKind kind, Loc loc)
{
    Ast *n = ARENA_NEW(m->arena, Ast);
    n->kind = (uint8_t)kind;
    n->depth = 1;
    n->loc = n->name_loc = loc;
    return n;
}

static int deeper(int depth, const Ast *child)
{
    return child && child->depth >= depth ? child->depth + 1 : depth;
}

static int deepest(int depth, AstList list)
{
    /* a list is walked in a loop: only its members' own depth counts */
    for (int i = 0; i < list.n; i++)
        depth = deeper(depth, list.at[i]);
    return depth;
}

Ast *ast_seal(AstMaker *m, Ast *n)
{
    int depth = deeper(deeper(deeper(1, n->a), n->b), n->c);
    depth = deepest(deepest(depth, n->list), n->list2);
    if (depth <= AST_MAX_DEPTH) {
        n->depth = (uint16_t)depth;
        return n;
    }
    if (!m->too_deep)
        diag_error(m->diag, n->loc, "this is nested more than %d levels deep", AST_MAX_DEPTH);
    m->too_deep = true;
    return ast_new(m, AST_error, n->loc);
}

Ast *ast_leaf(AstMaker *m, AstKind kind, Loc loc, const char *name)
{
    Ast *n = ast_new(m, kind, loc);
    n->name = name;
    return n;
}

AstList ast_list(AstMaker *m, Ast *first)
{
    AstList list = {0};
    if (first)
        vec_push(m->arena, &list, first);
    return list;
}

AstList ast_append(AstMaker *m, AstList list, Ast *item)
{
    vec_push(m->arena, &list, item);
    return list;
}

/* ---- expressions ---- */

Ast *ast_int(AstMaker *m, Loc loc, int64_t value)
{
    Ast *n = ast_new(m, AST_int, loc);
    /* a literal has no sign; the smallest number has no positive spelling and is never asked for */
    n->ival = value < 0 ? -value : value;
    n->name = arena_printf(m->arena, "%lld", (long long)n->ival);
    return value < 0 ? ast_unary(m, loc, AST_OP_neg, n) : n;
}

Ast *ast_float(AstMaker *m, Loc loc, double value)
{
    char buf[32];
    Ast *n = ast_new(m, AST_float, loc);
    n->num = fabs(value);
    n->name = arena_strdup(m->arena, str_double(buf, n->num));
    return signbit(value) ? ast_unary(m, loc, AST_OP_neg, n) : n;
}

Ast *ast_number(AstMaker *m, Loc loc, const char *spelling)
{
    char *digits = arena_strdup(m->arena, spelling), *to = digits;
    for (const char *c = spelling; *c; c++)
        if (*c != '_')
            *to++ = *c;
    *to = 0;
    bool hex = digits[0] == '0' && (digits[1] | 0x20) == 'x';
    bool is_float = !hex && strpbrk(digits, ".eE");
    Ast *n = ast_leaf(m, is_float ? AST_float : AST_int, loc, spelling);
    errno = 0;
    if (is_float) {
        n->num = strtod(digits, NULL);
        if (errno == ERANGE && (isinf(n->num) || n->num == 0))
            diag_error(m->diag, loc, "%s is too %s for f64", spelling,
                       n->num == 0 ? "small" : "large");
    } else {
        n->ival = (int64_t)strtoll(digits, NULL, hex ? 16 : 10);
        if (errno == ERANGE)
            diag_error(m->diag, loc, "%s does not fit in 64 bits", spelling);
    }
    return n;
}

Ast *ast_bool(AstMaker *m, Loc loc, bool value)
{
    Ast *n = ast_new(m, AST_bool, loc);
    n->ival = value;
    return n;
}

Ast *ast_str(AstMaker *m, Loc loc, const char *value)
{
    return ast_leaf(m, AST_str, loc, value);
}

Ast *ast_name(AstMaker *m, Loc loc, const char *name)
{
    return ast_leaf(m, AST_name, loc, name);
}

Ast *ast_member(AstMaker *m, Loc loc, Ast *object, const char *name, Loc name_loc)
{
    Ast *n = ast_leaf(m, AST_member, loc, name);
    n->object = object;
    n->name_loc = name_loc;
    return ast_seal(m, n);
}

Ast *ast_call(AstMaker *m, Loc loc, Ast *callee, AstList args)
{
    Ast *n = ast_new(m, AST_call, loc);
    n->callee = callee;
    n->list = args;
    for (int i = 1; i < args.n; i++)
        if (args.at[i]->kind != AST_keyword && args.at[i - 1]->kind == AST_keyword)
            diag_error(m->diag, args.at[i]->loc,
                       "an argument without a name follows one with a name");
    return ast_seal(m, n);
}

Ast *ast_keyword(AstMaker *m, Loc loc, const char *name, Ast *value)
{
    Ast *n = ast_leaf(m, AST_keyword, loc, name);
    n->value = value;
    return ast_seal(m, n);
}

Ast *ast_index(AstMaker *m, Loc loc, Ast *object, AstList subscripts)
{
    Ast *n = ast_new(m, AST_index, loc);
    n->object = object;
    n->list = subscripts;
    return ast_seal(m, n);
}

Ast *ast_subscript(AstMaker *m, Ast *expr)
{
    if (expr->kind != AST_range)
        return expr;
    return ast_slice(m, expr->loc, expr->lo, expr->hi, NULL);
}

Ast *ast_slice(AstMaker *m, Loc loc, Ast *lo, Ast *hi, Ast *step)
{
    Ast *n = ast_new(m, AST_slice, loc);
    n->lo = lo;
    n->hi = hi;
    n->step = step;
    return ast_seal(m, n);
}

Ast *ast_range(AstMaker *m, Loc loc, Ast *lo, Ast *hi)
{
    Ast *n = ast_new(m, AST_range, loc);
    n->lo = lo;
    n->hi = hi;
    return ast_seal(m, n);
}

Ast *ast_unary(AstMaker *m, Loc loc, AstOp op, Ast *value)
{
    Ast *n = ast_new(m, AST_unary, loc);
    n->op = (uint8_t)op;
    n->value = value;
    return ast_seal(m, n);
}

Ast *ast_binary(AstMaker *m, Loc loc, AstOp op, Ast *left, Ast *right)
{
    Ast *n = ast_new(m, AST_binary, loc);
    n->op = (uint8_t)op;
    n->left = left;
    n->right = right;
    return ast_seal(m, n);
}

Ast *ast_cond(AstMaker *m, Loc loc, Ast *then, Ast *test, Ast *otherwise)
{
    Ast *n = ast_new(m, AST_cond, loc);
    n->then = then;
    n->test = test;
    n->otherwise = otherwise;
    return ast_seal(m, n);
}

Ast *ast_sequence(AstMaker *m, AstKind list_or_tuple, Loc loc, AstList items)
{
    Ast *n = ast_new(m, list_or_tuple, loc);
    n->list = items;
    return ast_seal(m, n);
}

Ast *ast_tuple(AstMaker *m, Loc loc, AstList items)
{
    return items.n == 1 ? items.at[0] : ast_sequence(m, AST_tuple, loc, items);
}

Ast *ast_comprehension(AstMaker *m, Loc loc, Ast *value, AstList targets, Ast *iter, Ast *test)
{
    Ast *n = ast_new(m, AST_comprehension, loc);
    n->value = value;
    n->list = targets;
    n->iter = iter;
    n->test = test;
    return ast_seal(m, n);
}

Ast *ast_retype(AstMaker *m, Loc loc, Ast *value, const char *dtype)
{
    Ast *n = ast_leaf(m, AST_retype, loc, dtype);
    n->value = value;
    return ast_seal(m, n);
}

Ast *ast_evaluate(AstMaker *m, Loc loc, AstList args, AstList body)
{
    Ast *n = ast_new(m, AST_evaluate, loc);
    n->list = args;
    n->list2 = body;
    int last = body.n ? vec_last(&body)->kind : AST_none;
    if (last != AST_expr && last != AST_error)
        diag_error(m->diag, body.n ? vec_last(&body)->loc : loc,
                   "evaluate needs its results as the last thing in its block");
    return ast_seal(m, n);
}

Ast *ast_type(AstMaker *m, Loc loc, const char *dtype, AstList dims)
{
    Ast *n = ast_leaf(m, AST_type, loc, dtype);
    n->list = dims;
    return ast_seal(m, n);
}

/* ---- statements ---- */

/* Says what cannot be assigned to, and returns false. */
static bool assignable(AstMaker *m, const Ast *target, bool in_tuple)
{
    switch (target->kind) {
    case AST_name:
    case AST_error: return true;
    case AST_member:
    case AST_index:
        if (!in_tuple)
            return true;
        diag_error(m->diag, target->loc, "in a list of targets only plain names are allowed");
        return false;
    case AST_tuple:
        if (in_tuple)
            break;
        for (int i = 0; i < target->list.n; i++)
            if (!assignable(m, target->list.at[i], true))
                return false;
        return true;
    default: break;
    }
    diag_error(m->diag, target->loc, "this cannot be assigned to");
    return false;
}

Ast *ast_assign(AstMaker *m, Loc loc, Ast *target, AstOp op, Ast *value)
{
    if (!assignable(m, target, false))
        return ast_new(m, AST_error, loc);
    if (op != AST_OP_none && target->kind == AST_tuple) {
        diag_error(m->diag, loc, "'%s=' takes one target", ast_op_text(op));
        return ast_new(m, AST_error, loc);
    }
    Ast *n = ast_new(m, AST_assign, loc);
    n->target = target;
    n->op = (uint8_t)op;
    n->value = value;
    return ast_seal(m, n);
}

Ast *ast_expr(AstMaker *m, Loc loc, Ast *value)
{
    Ast *n = ast_new(m, AST_expr, loc);
    n->value = value;
    return ast_seal(m, n);
}

Ast *ast_if(AstMaker *m, Loc loc, Ast *test, AstList then, AstList otherwise)
{
    Ast *n = ast_new(m, AST_if, loc);
    n->test = test;
    n->list = then;
    n->list2 = otherwise;
    return ast_seal(m, n);
}

Ast *ast_for(AstMaker *m, Loc loc, AstList targets, Ast *iter, AstList body)
{
    Ast *n = ast_new(m, AST_for, loc);
    n->list = targets;
    n->iter = iter;
    n->list2 = body;
    return ast_seal(m, n);
}

Ast *ast_return(AstMaker *m, Loc loc, Ast *value)
{
    Ast *n = ast_new(m, AST_return, loc);
    n->value = value;
    return ast_seal(m, n);
}

Ast *ast_with(AstMaker *m, Loc loc, AstList contexts, AstList body)
{
    Ast *n = ast_new(m, AST_with, loc);
    n->list = contexts;
    n->list2 = body;
    return ast_seal(m, n);
}

/* ---- declarations ---- */

Ast *ast_decl(AstMaker *m, AstKind kind, Loc loc, const char *name, AstList list, AstList list2)
{
    Ast *n = ast_leaf(m, kind, loc, name);
    n->list = list;
    n->list2 = list2;
    return ast_seal(m, n);
}

Ast *ast_typed(AstMaker *m, AstKind kind, Loc loc, const char *name, Ast *type, Ast *value,
               Ast *test)
{
    Ast *n = ast_leaf(m, kind, loc, name);
    n->type = type;
    n->value = value;
    n->test = test;
    return ast_seal(m, n);
}

Ast *ast_data(AstMaker *m, Loc loc, const char *name, Ast *source, AstList fields, Ast *transform)
{
    Ast *n = ast_leaf(m, AST_data, loc, name);
    n->value = source;
    n->list = fields;
    n->transform = transform;
    if (source->kind != AST_call && source->kind != AST_error)
        diag_error(m->diag, source->loc,
                   "a data set is read by a call such as csv(\"train.csv\") or idx(...)");
    return ast_seal(m, n);
}

/* ---- comparing ---- */

static bool equal_lists(AstList x, AstList y)
{
    if (x.n != y.n)
        return false;
    for (int i = 0; i < x.n; i++)
        if (!ast_equal(x.at[i], y.at[i]))
            return false;
    return true;
}

static bool equal_own(const Ast *x, const Ast *y)
{
    if (x->kind != y->kind || x->op != y->op)
        return false;
    if (x->kind == AST_float)
        return x->num == y->num;
    if (x->kind == AST_int || x->kind == AST_bool)
        return x->ival == y->ival;
    return str_eq(x->name, y->name);
}

bool ast_equal(const Ast *x, const Ast *y)
{
    if (!x || !y)
        return x == y;
    return equal_own(x, y) && ast_equal(x->a, y->a) && ast_equal(x->b, y->b) &&
           ast_equal(x->c, y->c) && equal_lists(x->list, y->list) &&
           equal_lists(x->list2, y->list2);
}
