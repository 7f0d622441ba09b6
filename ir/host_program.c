/* host_program.c: the host program: what it measures, statements, expressions over plain numbers, and their
 * types. */
#include "ir/ir.h"

#include <string.h>

#include "ir/base/strutil.h"
#include "ir/base/vec.h"

const char *const host_type_name[4] = {
    [HT_int] = "int", [HT_float] = "float", [HT_bool] = "bool", [HT_str] = "str"};

/* ---- metrics --------------------------------------------------------------------------------- */

#define GREATER_greater true
#define GREATER_less false
#define METRIC_FEED(name, values, cells, meaning) enum { VALUES_##name = values };
#define METRIC(name, feed, better, formals, meaning)
#include "runtime/abi/metrics.def"

const MetricInfo metric_info[METRIC_COUNT] = {
    [METRIC_mean] = {"mean", FEED_number, VALUES_number, true},
#define METRIC_FEED(name, values, cells, meaning)
#define METRIC(name, feed, better, formals, meaning)                                               \
    [METRIC_##name] = {#name, FEED_##feed, VALUES_##feed, GREATER_##better},
#include "runtime/abi/metrics.def"
};

bool metric_find(const char *name, Metric *metric)
{
    for (int i = 0; i < METRIC_COUNT; i++) {
        if (str_eq(metric_info[i].name, name)) {
            *metric = (Metric)i;
            return true;
        }
    }
    return false;
}

int64_t metric_cells(Metric metric, int64_t n)
{
    const int64_t all[] = {
#define METRIC_FEED(name, values, cells, meaning) [FEED_##name] = cells,
#define METRIC(name, feed, better, formals, meaning)
#include "runtime/abi/metrics.def"
    };
    return all[metric_info[metric].feed];
}

/* ---- statements ------------------------------------------------------------------------------ */

HostStmt *host_stmt(Module *m, HostBlock *into, HostKind kind, Loc loc)
{
    HostStmt *s = ARENA_NEW(m->arena, HostStmt);
    s->kind = kind;
    s->loc = loc;
    into->v = vec_room(m->arena, into->v, into->n, &into->cap, sizeof into->v[0]);
    into->v[into->n++] = s;
    return s;
}

/* ---- expressions ----------------------------------------------------------------------------- */

HostExpr *host_num(Arena *arena, double num, HostType type)
{
    HostExpr *e = ARENA_NEW(arena, HostExpr);
    e->kind = HE_num;
    e->num = num;
    e->type = type;
    return e;
}

HostExpr *host_expr(Arena *arena, HostExprKind kind, const char *text, int nin, HostExpr *const *in)
{
    HostExpr *e = ARENA_NEW(arena, HostExpr);
    e->kind = kind;
    e->text = text != NULL ? arena_strdup(arena, text) : NULL;
    e->nin = nin;
    e->in = ARENA_ARRAY(arena, HostExpr *, nin);
    for (int i = 0; i < nin; i++) {
        e->in[i] = in[i];
    }
    e->type = host_expr_type(e);
    return e;
}

static bool one_of(const char *text, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (str_eq(text, *list)) {
            return true;
        }
    }
    return false;
}

/* int, or float if any operand is. */
static HostType widest_operand(const HostExpr *e)
{
    for (int i = 0; i < e->nin; i++) {
        if (e->in[i]->type == HT_float) {
            return HT_float;
        }
    }
    return HT_int;
}

HostType host_expr_type(const HostExpr *e)
{
    static const char *const gives_bool[] = {
        "<", "<=", ">", ">=", "==", "!=", "and", "or", "step_was_skipped", NULL};
    static const char *const gives_float[] = {"/",   "**",    "sqrt",    "exp",
                                              "log", "float", "elapsed", NULL};
    static const char *const gives_int[] = {"floor", "ceil", "int", NULL};
    switch (e->kind) {
    case HE_num:
    case HE_var:
    case HE_option: return e->type;
    case HE_str: return HT_str;
    case HE_len:
    case HE_count: return HT_int;
    case HE_unary: return str_eq(e->text, "not") ? HT_bool : widest_operand(e);
    case HE_binary:
        if (one_of(e->text, gives_bool)) {
            return HT_bool;
        }
        return one_of(e->text, gives_float) ? HT_float : widest_operand(e);
    case HE_call:
        if (one_of(e->text, gives_int)) {
            return HT_int;
        }
        if (one_of(e->text, gives_bool)) {
            return HT_bool;
        }
        return one_of(e->text, gives_float) ? HT_float : widest_operand(e);
    case HE_cond: {
        bool same = e->nin == 3 && e->in[0]->type == e->in[2]->type;
        return same ? e->in[0]->type : HT_float;
    }
    }
    return e->type;
}

bool host_expr_equal(const HostExpr *a, const HostExpr *b)
{
    if (a == b) {
        return true;
    }
    if (a == NULL || b == NULL || a->kind != b->kind || a->type != b->type || a->nin != b->nin ||
        !str_eq(a->text, b->text) || memcmp(&a->num, &b->num, sizeof a->num) != 0) {
        return false;
    }
    for (int i = 0; i < a->nin; i++) {
        if (!host_expr_equal(a->in[i], b->in[i])) {
            return false;
        }
    }
    return true;
}

bool option_type(const Decl *option, HostType *type)
{
    const char *name = attrs_str(&option->attrs, ATTR_type);
    for (int i = 0; name != NULL && i < 4; i++) {
        if (str_eq(name, host_type_name[i])) {
            *type = (HostType)i;
            return true;
        }
    }
    return false;
}
