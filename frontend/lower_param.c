/* lower_param.c: parameters and states of modules, and their initialisers.
 *
 * An initialiser is resolved to a distribution with numbers: what kaiming_uniform means for this shape, by
 * PyTorch's rules for fans and gains, is settled here.
 */
#include "frontend/lower.h"

#include <math.h>
#include <string.h>

typedef struct ParamInit {
    Dims dims;
    const char *kind;
    double low, high;
} ParamInit;

/* ---- initialisers ---------------------------------------------------------------------------------- */

static Val set_init(Lower *l, const char *kind, double low, double high)
{
    l->init->kind = kind;
    l->init->low = low;
    l->init->high = high;
    return val_none();
}

static Val init_zeros(Lower *l, Call *c)
{
    (void)c;
    return set_init(l, "zeros", 0, 0);
}

static Val init_ones(Lower *l, Call *c)
{
    (void)c;
    return set_init(l, "ones", 0, 0);
}

static Val init_constant(Lower *l, Call *c)
{
    double v;
    return call_float(l, c, 0, &v) ? set_init(l, "constant", v, 0) : val_poison();
}

static Val init_uniform(Lower *l, Call *c)
{
    double low, high;
    if (!call_float(l, c, 0, &low) || !call_float(l, c, 1, &high)) {
        return val_poison();
    }
    if (!(low <= high)) {
        return lower_error(l, c->loc, "uniform from %g to %g: the bounds are in the wrong order",
                           low, high);
    }
    return set_init(l, "uniform", low, high);
}

static Val init_normal(Lower *l, Call *c)
{
    double mean, deviation;
    if (!call_float(l, c, 0, &mean) || !call_float(l, c, 1, &deviation)) {
        return val_poison();
    }
    if (!(deviation >= 0)) {
        return lower_error(l, c->loc, "a deviation of %g is negative", deviation);
    }
    return set_init(l, str_starts(c->fn->name, "trunc") ? "trunc_normal" : "normal", mean,
                    deviation);
}

/* Numbers of inputs and outputs of one element of the result, as torch.nn.init counts them. */
static bool fans(Lower *l, Loc loc, double *in, double *out)
{
    const Dims *d = &l->init->dims;
    if (d->rank < 2) {
        lower_error(l, loc, "this initialiser needs a parameter with at least two axes");
        return false;
    }
    double field = 1;
    for (int i = 2; i < d->rank; i++) {
        field *= (double)d->d[i].k;
    }
    *in = (double)d->d[1].k * field;
    *out = (double)d->d[0].k * field;
    return true;
}

static bool gain_of(Lower *l, Call *c, const char *nonlinearity, double slope, double *gain)
{
    static const char *const names[] = {"linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"};
    double gains[] = {1, 1, 5.0 / 3, sqrt(2.0), sqrt(2.0 / (1 + slope * slope)), 0.75};
    for (int i = 0; i < 6; i++) {
        if (str_eq(names[i], nonlinearity)) {
            *gain = gains[i];
            return true;
        }
    }
    const char *near = nearest_name(nonlinearity, names, 6);
    lower_error(l, c->locs[2], "unknown nonlinearity \"%s\"%s", nonlinearity,
                near != NULL ? arena_printf(l->arena, ": did you mean \"%s\"?", near) : "");
    return false;
}

static Val init_kaiming(Lower *l, Call *c)
{
    double slope, in, out, gain;
    const char *mode, *nonlinearity;
    if (!call_float(l, c, 0, &slope) || !fans(l, c->loc, &in, &out)) {
        return val_poison();
    }
    mode = "fan_in";
    nonlinearity = "leaky_relu";
    if ((c->given[1] && !call_str(l, c, 1, &mode)) ||
        (c->given[2] && !call_str(l, c, 2, &nonlinearity)) ||
        !gain_of(l, c, nonlinearity, slope, &gain)) {
        return val_poison();
    }
    if (!str_eq(mode, "fan_in") && !str_eq(mode, "fan_out")) {
        return lower_error(l, c->locs[1], "mode is \"fan_in\" or \"fan_out\", not \"%s\"", mode);
    }
    double deviation = gain / sqrt(str_eq(mode, "fan_in") ? in : out);
    double bound = sqrt(3.0) * deviation;
    return str_ends(c->fn->name, "uniform") ? set_init(l, "uniform", -bound, bound)
                                            : set_init(l, "normal", 0, deviation);
}

static Val init_xavier(Lower *l, Call *c)
{
    double gain, in, out;
    if (!call_float(l, c, 0, &gain) || !fans(l, c->loc, &in, &out)) {
        return val_poison();
    }
    double deviation = gain * sqrt(2.0 / (in + out));
    double bound = sqrt(3.0) * deviation;
    return str_ends(c->fn->name, "uniform") ? set_init(l, "uniform", -bound, bound)
                                            : set_init(l, "normal", 0, deviation);
}

/* clang-format off */
static const Builtin initialisers[] = {
    {"zeros",           init_zeros,    VAL_none, OP_arg, "", "0"},
    {"ones",            init_ones,     VAL_none, OP_arg, "", "1"},
    {"constant",        init_constant, VAL_none, OP_arg, "value|val", "a number"},
    {"uniform",         init_uniform,  VAL_none, OP_arg, "low|a = 0.0, high|b = 1.0", "even within low .. high"},
    {"normal",          init_normal,   VAL_none, OP_arg, "mean = 0.0, std = 1.0", "normal"},
    {"trunc_normal",    init_normal,   VAL_none, OP_arg, "mean = 0.0, std = 1.0", "normal, within two deviations"},
    {"kaiming_uniform", init_kaiming,  VAL_none, OP_arg, "a = 0.0, mode = none, nonlinearity = none", "He, even"},
    {"kaiming_normal",  init_kaiming,  VAL_none, OP_arg, "a = 0.0, mode = none, nonlinearity = none", "He, normal"},
    {"xavier_uniform",  init_xavier,   VAL_none, OP_arg, "gain = 1.0", "Glorot, even"},
    {"xavier_normal",   init_xavier,   VAL_none, OP_arg, "gain = 1.0", "Glorot, normal"},
};
/* clang-format on */
enum { INITIALISERS = sizeof initialisers / sizeof *initialisers };

/* `uniform(..)`, also by PyTorch's `uniform_(..)` */
static const Builtin *find_initialiser(const char *name)
{
    for (int i = 0; i < INITIALISERS; i++) {
        size_t n = strlen(initialisers[i].name);
        if (strncmp(name, initialisers[i].name, n) == 0 &&
            (name[n] == '\0' || str_eq(name + n, "_"))) {
            return &initialisers[i];
        }
    }
    return NULL;
}

const Builtin *param_initialiser(Lower *l, const Ast *call)
{
    const Builtin *fn =
        call->callee->kind == AST_name ? find_initialiser(call->callee->name) : NULL;
    if (fn == NULL) {
        Names names = {0};
        for (int i = 0; i < INITIALISERS; i++) {
            vec_push(l->arena, &names, initialisers[i].name);
        }
        const char *name = ast_expr_text(l->arena, call->callee);
        lower_error(l, call->callee->loc, "unknown initialiser `%s`%s", name,
                    lower_did_you_mean(l, name, &names));
    }
    return fn;
}

static bool initialise(Lower *l, const Ast *value)
{
    bool truth;
    if (value->kind == AST_cond) {
        return eval_truth(l, eval(l, value->test), value->test->loc, &truth) &&
               initialise(l, truth ? value->then : value->otherwise);
    }
    if (value->kind == AST_call) {
        const Builtin *fn = param_initialiser(l, value);
        return fn != NULL && !val_is_poison(builtin_call(l, fn, value, NULL, value->loc, DT_none));
    }
    double v;
    if (!val_float_of(l, eval(l, value), "the value of a parameter", value->loc, &v)) {
        return false;
    }
    set_init(l, "constant", v, 0);
    return true;
}

/* ---- declarations ---------------------------------------------------------------------------------- */

/* Sizes of a parameter: whole numbers, or a list of them. */
static bool param_dims(Lower *l, const Ast *type, DType *dt, Dims *dims)
{
    if (!eval_dtype(type->name, dt)) {
        Names names = {0};
        for (int i = DT_none + 1; i < DT_grads; i++) {
            vec_push(l->arena, &names, dtype_info[i].name);
        }
        lower_error(l, type->loc, "unknown type `%s`%s", type->name,
                    lower_did_you_mean(l, type->name, &names));
        return false;
    }
    *dims = (Dims){0};
    for (int i = 0; i < type->list.n; i++) {
        Val v = eval(l, type->list.at[i]);
        bool many = v.kind == VAL_list || v.kind == VAL_tuple;
        for (int k = 0; k < (many ? v.list->n : 1); k++) {
            int64_t n;
            if (!val_int_of(l, many ? v.list->at[k] : v, "a size", type->list.at[i]->loc, &n)) {
                return false;
            }
            if (n < 1 || n > INT32_MAX) {
                lower_error(l, type->list.at[i]->loc, "a size of %lld", (long long)n);
                return false;
            }
            if (dims->rank == MAX_RANK) {
                lower_error(l, type->loc, "a tensor has at most %d axes", MAX_RANK);
                return false;
            }
            dims->d[dims->rank++] = dim_of(n);
        }
    }
    Dim count;
    if (!dims_count(dims, &count) || count.k > (int64_t)1 << 40) {
        lower_error(l, type->loc, "this tensor is too large");
        return false;
    }
    return true;
}

static bool declare(Lower *l, Instance *self, const Ast *decl)
{
    ParamInit init = {.kind = "zeros"};
    DType dt;
    if (!param_dims(l, decl->type, &dt, &init.dims)) {
        return false;
    }
    if (decl->kind == AST_param && !dtype_info[dt].is_float) {
        lower_error(l, decl->type->loc,
                    "a parameter is trained, so its type is a floating one, not %s",
                    dtype_info[dt].name);
        return false;
    }
    if (decl->value == NULL && decl->kind == AST_param) {
        lower_error(l, decl->loc, "parameter `%s` needs an initialiser, for example `= zeros()`",
                    decl->name);
        return false;
    }
    ParamInit *outer = l->init;
    l->init = &init;
    bool fine = decl->value == NULL || initialise(l, decl->value);
    l->init = outer;
    if (!fine) {
        return false;
    }
    const char *name = path_join(l, self->path, decl->name);
    if (module_find_tensor(l->m, name) != NULL) {
        lower_error(l, decl->loc, "there is a second parameter called `%s`", name);
        return false;
    }
    TensorRole role = decl->kind == AST_param ? TENSOR_param : TENSOR_state;
    Tensor *t = module_tensor(l->m, name, role, dt, &init.dims);
    t->loc = l->frame->is_std ? self->loc : decl->loc;
    attrs_set_str(l->arena, &t->init, ATTR_kind, init.kind);
    if (!str_eq(init.kind, "zeros") && !str_eq(init.kind, "ones")) {
        attrs_set_float(l->arena, &t->init, ATTR_low, init.low);
        if (!str_eq(init.kind, "constant")) {
            attrs_set_float(l->arena, &t->init, ATTR_high, init.high);
        }
    }
    scope_add(l->arena, &self->members, decl->name, (Val){.kind = VAL_param, .tensor = t});
    return true;
}

bool param_declare(Lower *l, Instance *self, const Ast *decl)
{
    bool wanted = true;
    bool fine = decl->test == NULL || eval_truth(l, eval(l, decl->test), decl->test->loc, &wanted);
    if (fine && !wanted) {
        scope_add(l->arena, &self->members, decl->name, val_none());
        return true;
    }
    fine = fine && declare(l, self, decl);
    if (!fine) {
        scope_add(l->arena, &self->members, decl->name, val_poison());
    }
    return fine;
}
