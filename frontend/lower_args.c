/* lower_args.c: arguments meet parameters: by position, by name, by PyTorch's other spelling, by default; and
 * what functions of builtins.def ask of their arguments.
 */
#include "frontend/lower.h"

#include <stdlib.h>
#include <string.h>

/* ---- matching -------------------------------------------------------------------------------------- */

static int formal_find(const Formal *formals, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (str_eq(formals[i].name, name)) {
            return i;
        }
        for (int k = 0; k < 3; k++) {
            if (formals[i].aliases[k] != NULL && str_eq(formals[i].aliases[k], name)) {
                return i;
            }
        }
    }
    return -1;
}

static void unknown_argument(Lower *l, const char *what, const Formal *formals, int n,
                             const Ast *arg)
{
    Names names = {0};
    Text *all = text_new(l->arena);
    for (int i = 0; i < n; i++) {
        vec_push(l->arena, &names, formals[i].name);
        for (int k = 0; k < 3; k++) {
            vec_push(l->arena, &names, formals[i].aliases[k]);
        }
        text_printf(all, "%s%s", i > 0 ? ", " : "", formals[i].name);
    }
    const char *near = lower_did_you_mean(l, arg->name, &names);
    lower_error(l, arg->loc, "%s has no argument `%s`%s", what, arg->name, near);
    if (near[0] == '\0') {
        lower_note(l, loc_none(), n == 0 ? "it takes no arguments" : "its arguments are: %s",
                   all->at);
    }
}

static bool match_keyword(Lower *l, const char *what, const Formal *formals, int n, const Ast *arg,
                          Match *out)
{
    int at = formal_find(formals, n, arg->name);
    if (at < 0) {
        unknown_argument(l, what, formals, n, arg);
        return false;
    }
    if (out->actual[at] != NULL || (formals[at].rest && out->rest.n > 0)) {
        lower_error(l, arg->loc, "%s: the argument `%s` is given twice", what, formals[at].name);
        return false;
    }
    out->actual[at] = arg->value;
    return true;
}

bool args_match(Lower *l, const char *what, const Formal *formals, int n, int first,
                const Ast *call, Match *out)
{
    *out = (Match){.n = n, .actual = ARENA_ARRAY(l->arena, const Ast *, n)};
    bool fine = true;
    int next = first;
    for (int i = 0; i < call->list.n; i++) {
        Ast *arg = call->list.at[i];
        if (arg->kind == AST_keyword) {
            fine = match_keyword(l, what, formals, n, arg, out) && fine;
        } else if (next < n && formals[next].rest) {
            vec_push(l->arena, &out->rest, arg);
        } else if (next < n) {
            out->actual[next++] = arg;
        } else {
            lower_error(l, arg->loc, "%s takes %d argument%s, but here is one more", what,
                        n - first, n - first == 1 ? "" : "s");
            return false;
        }
    }
    for (int i = first; i < n && fine; i++) {
        bool has = out->actual[i] != NULL || (formals[i].rest && out->rest.n > 0);
        if (!has && !formals[i].optional && !formals[i].rest) {
            lower_error(l, call->loc, "%s needs the argument `%s`", what, formals[i].name);
            fine = false;
        }
    }
    return fine;
}

/* ---- builtins -------------------------------------------------------------------------------------- */

static const char *trimmed(Lower *l, const char *from, const char *to)
{
    while (from < to && *from == ' ') {
        from++;
    }
    while (to > from && to[-1] == ' ') {
        to--;
    }
    return arena_strndup(l->arena, from, (size_t)(to - from));
}

/* "dim|axis = -1" */
static Formal formal_parse(Lower *l, const char *from, const char *to)
{
    Formal f = {0};
    const char *equals = memchr(from, '=', (size_t)(to - from));
    if (equals != NULL) {
        f.preset = trimmed(l, equals + 1, to);
        f.optional = true;
        to = equals;
    }
    const char *name = trimmed(l, from, to);
    if (name[0] == '*') {
        f.rest = true;
        name++;
    }
    int alias = 0;
    const char *bar = strchr(name, '|');
    f.name = bar == NULL ? name : arena_strndup(l->arena, name, (size_t)(bar - name));
    while (bar != NULL && alias < 3) {
        const char *next = strchr(bar + 1, '|');
        f.aliases[alias++] =
            next == NULL ? bar + 1 : arena_strndup(l->arena, bar + 1, (size_t)(next - bar - 1));
        bar = next;
    }
    return f;
}

int builtin_formals(Lower *l, const Builtin *fn, Formal *out)
{
    int n = 0;
    for (const char *at = fn->formals; *at != '\0';) {
        const char *end = strchr(at, ',');
        end = end == NULL ? at + strlen(at) : end;
        if (n == MAX_FORMALS) {
            ICE("%s has too many arguments", fn->name);
        }
        out[n++] = formal_parse(l, at, end);
        at = *end == ',' ? end + 1 : end;
    }
    return n;
}

/* The literal that a row of the table gives as a default. */
static Val preset_value(Lower *l, const char *text)
{
    size_t n = strlen(text);
    if (text[0] == '"') {
        return val_str(arena_strndup(l->arena, text + 1, n - 2));
    }
    if (str_eq(text, "none")) {
        return val_none();
    }
    if (str_eq(text, "true") || str_eq(text, "false")) {
        return val_bool(text[0] == 't');
    }
    char *end;
    int64_t i = strtoll(text, &end, 10);
    return *end == '\0' ? val_int(i) : val_float(strtod(text, NULL));
}

bool call_poisoned(const Call *c)
{
    for (int i = 0; i < c->n; i++) {
        if (val_is_poison(c->args[i])) {
            return true;
        }
    }
    for (int i = 0; c->rest.kind == VAL_list && i < c->rest.list->n; i++) {
        if (val_is_poison(c->rest.list->at[i])) {
            return true;
        }
    }
    return false;
}

static void evaluate_arguments(Lower *l, Call *c, const Formal *formals, const Match *m,
                               const Val *self, Loc self_loc)
{
    for (int i = 0; i < c->n; i++) {
        c->locs[i] = c->loc;
        if (self != NULL && i == 0) {
            c->args[0] = *self;
            c->locs[0] = self_loc;
            c->given[0] = true;
        } else if (m->actual[i] != NULL) {
            c->args[i] = eval(l, m->actual[i]);
            c->locs[i] = m->actual[i]->loc;
            c->given[i] = true;
        } else if (formals[i].rest) {
            c->args[i] = val_none();
            c->rest = val_list(l, VAL_list);
            for (int k = 0; k < m->rest.n; k++) {
                val_push(l, &c->rest, eval(l, m->rest.at[k]));
                c->locs[i] = m->rest.at[k]->loc;
            }
            c->given[i] = m->rest.n > 0;
        } else {
            c->args[i] = preset_value(l, formals[i].preset);
        }
    }
}

Val builtin_call(Lower *l, const Builtin *fn, const Ast *call, const Val *self, Loc self_loc,
                 DType force)
{
    Formal formals[MAX_FORMALS];
    Call *c = ARENA_NEW(l->arena, Call);
    Match m;
    c->fn = fn;
    c->ast = call;
    c->loc = call->loc;
    c->n = builtin_formals(l, fn, formals);
    const char *what = arena_printf(l->arena, "`%s`", fn->name);
    if (!args_match(l, what, formals, c->n, self != NULL, call, &m)) {
        return val_poison();
    }
    const char *target = l->target;
    l->target = NULL;
    evaluate_arguments(l, c, formals, &m, self, self_loc);
    l->target = target;
    if (call_poisoned(c)) {
        return val_poison();
    }
    DType outer = l->force;
    const char *outer_why = l->force_why;
    if (force != DT_none) {
        l->force = force;
        l->force_why = NULL;
    }
    lower_at(l, call);
    run_settle(l, c->args, c->n);
    run_settle(l, &c->rest, 1);
    Val v = fn->fn(l, c);
    l->force = outer;
    l->force_why = outer_why;
    return v;
}

/* ---- what a function asks of an argument ----------------------------------------------------------- */

static const char *arg_name(Lower *l, const Call *c, int i)
{
    Formal formals[MAX_FORMALS];
    builtin_formals(l, c->fn, formals);
    return arena_printf(l->arena, "`%s` of `%s`", formals[i].name, c->fn->name);
}

bool call_tensor(Lower *l, Call *c, int i, Node **out)
{
    if (!val_is_tensor(c->args[i]) && !val_is_number(c->args[i]) && c->args[i].kind != VAL_host) {
        lower_error(l, c->locs[i], "%s must be a tensor, but is %s", arg_name(l, c, i),
                    val_describe(l, c->args[i]));
        return false;
    }
    *out = tensor_like(l, c->args[i], DT_f32, c->locs[i]);
    return *out != NULL;
}

bool call_int(Lower *l, Call *c, int i, int64_t *out)
{
    return val_int_of(l, c->args[i], arg_name(l, c, i), c->locs[i], out);
}

bool call_float(Lower *l, Call *c, int i, double *out)
{
    return val_float_of(l, c->args[i], arg_name(l, c, i), c->locs[i], out);
}

bool call_bool(Lower *l, Call *c, int i, bool *out)
{
    return eval_truth(l, c->args[i], c->locs[i], out);
}

bool call_str(Lower *l, Call *c, int i, const char **out)
{
    Val v = host_fold(l, c->args[i], FOLD_fixed, c->locs[i]);
    if (v.kind == VAL_str) {
        *out = v.s;
        return true;
    }
    if (!val_is_poison(v)) {
        lower_error(l, c->locs[i], "%s must be a string, but is %s", arg_name(l, c, i),
                    val_describe(l, v));
    }
    return false;
}

bool call_dtype(Lower *l, Call *c, int i, DType *out)
{
    Val v = c->args[i];
    if (v.kind == VAL_dtype) {
        *out = v.dtype;
        return true;
    }
    if (v.kind == VAL_str && eval_dtype(v.s, out)) {
        return true;
    }
    lower_error(l, c->locs[i], "%s must be a type such as f32, but is %s", arg_name(l, c, i),
                val_describe(l, v));
    return false;
}

static bool normal_axis(Lower *l, Loc loc, int rank, int64_t *axis)
{
    if (*axis < -rank || *axis >= rank) {
        lower_error(l, loc, "axis %lld of a tensor with %d ax%s", (long long)*axis, rank,
                    rank == 1 ? "is" : "es");
        return false;
    }
    *axis += *axis < 0 ? rank : 0;
    return true;
}

bool call_axis(Lower *l, Call *c, int i, int rank, int64_t *out)
{
    return call_int(l, c, i, out) && normal_axis(l, c->locs[i], rank, out);
}

bool call_axes(Lower *l, Call *c, int i, int rank, int64_t *axes, int *n)
{
    Val v = c->args[i];
    if (v.kind == VAL_none) {
        *n = rank;
        for (int k = 0; k < rank; k++) {
            axes[k] = k;
        }
        return true;
    }
    if (v.kind != VAL_list && v.kind != VAL_tuple) {
        *n = 1;
        return call_axis(l, c, i, rank, &axes[0]);
    }
    *n = 0;
    for (int k = 0; k < v.list->n; k++) {
        int64_t axis;
        if (!val_int_of(l, v.list->at[k], "an axis", c->locs[i], &axis) ||
            !normal_axis(l, c->locs[i], rank, &axis)) {
            return false;
        }
        for (int j = 0; j < *n; j++) {
            if (axes[j] == axis) {
                lower_error(l, c->locs[i], "axis %lld is given twice", (long long)axis);
                return false;
            }
        }
        axes[(*n)++] = axis; /* no more than rank different ones */
    }
    return true;
}

bool call_dims(Lower *l, Call *c, int i, Dims *out)
{
    Val v = c->args[i];
    if (v.kind == VAL_none && c->rest.kind == VAL_list) {
        v = c->rest;
        if (v.list->n == 1 && (v.list->at[0].kind == VAL_list || v.list->at[0].kind == VAL_tuple)) {
            v = v.list->at[0];
        }
    }
    if (v.kind != VAL_list && v.kind != VAL_tuple) {
        Val one = val_list(l, VAL_list);
        val_push(l, &one, v);
        v = one;
    }
    if (v.list->n > MAX_RANK) {
        lower_error(l, c->locs[i], "a tensor has at most %d axes", MAX_RANK);
        return false;
    }
    out->rank = v.list->n;
    for (int k = 0; k < v.list->n; k++) {
        if (!dim_of_val(l, v.list->at[k], c->locs[i], &out->d[k])) {
            return false;
        }
    }
    return true;
}
