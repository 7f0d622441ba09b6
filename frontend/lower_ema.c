/* lower_ema.c: EMA(model): averages of a model's parameters, as tensors of their own.
 *
 *     ema = EMA(model, decay = 0.999)  ->  ema ema {params=["fc1.weight", ..] decay=0.999}
 *                                          tensor "ema.fc1.weight" : f32[..] ema of(fc1.weight)
 *                                          tensor ema.updates : i64 ema
 *     evaluate(set, weights = ema)     ->  its graph reads "ema.fc1.weight" where it would read fc1.weight
 *
 * Frozen parameters have no average: it would be what they are. States (running statistics) have none either; an
 * evaluation reads those of the model, as PyTorch's AveragedModel, which copies buffers. */
#include "frontend/builtins.h"

static Tensor *average_of(const Lower *l, const Decl *ema, const Tensor *param)
{
    return module_find_tensor(l->m, arena_printf(l->arena, "%s.%s", ema->name, param->name));
}

Tensor *ema_of_param(const Lower *l, Tensor *t)
{
    Tensor *average = l->ema != NULL && t->role == TENSOR_param ? average_of(l, l->ema, t) : NULL;
    return average != NULL ? average : t;
}

static const Tensor *averaged_already(const Lower *l, const Tensor *param)
{
    for (int i = 0; i < l->m->ntensors; i++) {
        const Tensor *t = l->m->tensors[i];
        if (t->role == TENSOR_ema && t->of != NULL && str_eq(t->of, param->name)) {
            return t;
        }
    }
    return NULL;
}

static Tensor *declare_average(Lower *l, const Decl *ema, const char *of, DType dt,
                               const Dims *dims)
{
    const char *name = arena_printf(l->arena, "%s.%s", ema->name, of);
    const Tensor *other = module_find_tensor(l->m, name);
    if (other != NULL) {
        lower_error(l, ema->loc, "there is a parameter `%s`, so this EMA needs another name", name);
        lower_note(l, other->loc, "it is declared here");
        return NULL;
    }
    Tensor *t = module_tensor(l->m, name, TENSOR_ema, dt, dims);
    attrs_set_str(l->arena, &t->init, ATTR_kind, "zeros");
    t->loc = ema->loc;
    return t;
}

/* The averages of all parameters that are trained; false after an error. */
static bool declare_averages(Lower *l, Call *c, Decl *ema, const Instance *model)
{
    const char **names = ARENA_ARRAY(l->arena, const char *, l->m->ntensors + 1);
    int n = 0, all = l->m->ntensors;
    for (int i = 0; i < all; i++) {
        const Tensor *t = l->m->tensors[i];
        if (t->role != TENSOR_param || !param_in_model(t->name, model->path) ||
            attrs_bool(&t->init, ATTR_frozen)) {
            continue;
        }
        const Tensor *other = averaged_already(l, t);
        if (other != NULL) {
            lower_error(l, c->loc, "`%s` has an average already", t->name);
            lower_note(l, other->loc, "the first one is made here");
            return false;
        }
        Tensor *average =
            declare_average(l, ema, t->name, t->dtype == DT_f64 ? DT_f64 : DT_f32, &t->dims);
        if (average == NULL) {
            return false;
        }
        average->of = t->name;
        names[n++] = t->name;
    }
    if (n == 0) {
        lower_error(l, c->locs[0], "this model has no parameters to average");
        return false;
    }
    attrs_set_strs(l->arena, &ema->attrs, ATTR_params, n, names);
    return declare_average(l, ema, "updates", DT_i64, &(Dims){0}) != NULL;
}

Val fn_ema(Lower *l, Call *c)
{
    bool warmup;
    Decl *d = train_declare(l, c, DECL_ema, "ema");
    if (d == NULL) {
        return val_poison();
    }
    if (c->args[0].kind != VAL_instance) {
        return lower_error(l, c->locs[0],
                           "an EMA takes the model or model.parameters(), but this is %s",
                           val_describe(l, c->args[0]));
    }
    if (!train_number(l, c, 1, d, ATTR_decay, 0) || !call_bool(l, c, 2, &warmup)) {
        return val_poison();
    }
    const HostExpr *decay = attrs_expr(&d->attrs, ATTR_decay);
    if (decay->kind == HE_num && decay->num >= 1) {
        return lower_error(l, c->locs[1], "decay is %g, but must be below 1", decay->num);
    }
    attrs_set_bool(l->arena, &d->attrs, ATTR_warmup, warmup);
    if (!declare_averages(l, c, d, c->args[0].instance)) {
        return val_poison();
    }
    return (Val){.kind = VAL_ema, .decl = d};
}
