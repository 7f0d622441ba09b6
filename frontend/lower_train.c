/* lower_train.c: optimizers and loss scaling: the calls that become declarations. What is done with
 * gradients is in lower_gradients.c, schedules are in lower_schedule.c. */
#include "frontend/builtins.h"

#include <math.h>

/* ---- declarations ---------------------------------------------------------------------------------- */

Decl *train_declare(Lower *l, Call *c, DeclKind kind, const char *wish)
{
    if (l->frame != NULL || l->loops > 0) {
        lower_error(l, c->loc, "`%s` is made once, at the top level and outside of loops",
                    c->fn->name);
        return NULL;
    }
    const char *name = l->assigning != NULL ? l->assigning : wish;
    Decl *d = module_decl(l->m, kind, decl_fresh_name(l, kind, name));
    d->loc = lower_loc(l, c->loc);
    return d;
}

/* A number that the program may compute once, before its first statement. */
static HostExpr *start_value(Lower *l, Val v, const char *what, Loc loc)
{
    if (!val_is_number(v) && v.kind != VAL_host) {
        if (!val_is_poison(v)) {
            lower_error(l, loc, "%s must be a number, but is %s", what, val_describe(l, v));
        }
        return NULL;
    }
    HostExpr *e = host_of(l, v, loc);
    for (int i = 0; e != NULL && i < l->m->nvars; i++) {
        if (host_mentions(e, l->m->vars[i].name)) {
            lower_error(l, loc,
                        "%s is needed when the program starts, but `%s` changes while it runs",
                        what, l->m->vars[i].name);
            return NULL;
        }
    }
    return e;
}

bool train_number(Lower *l, Call *c, int arg, Decl *d, AttrId id, double least)
{
    const char *what = attr_info[id].name;
    HostExpr *e = start_value(l, c->args[arg], what, c->locs[arg]);
    if (e == NULL) {
        return false;
    }
    if (e->kind == HE_num && !(e->num >= least)) {
        lower_error(l, c->locs[arg], "%s is %g, but must be at least %g",
                    c->args[arg].kind == VAL_none ? "it" : what, e->num, least);
        return false;
    }
    attrs_set_expr(l->arena, &d->attrs, id, e);
    return true;
}

/* groups: the number of the argument */
static Val optimizer_value(Lower *l, Call *c, Decl *d, int groups)
{
    Optimizer *o = ARENA_NEW(l->arena, Optimizer);
    if (!params_groups(l, c, groups, d, c->args[0].instance)) {
        return val_poison();
    }
    o->decl = d;
    o->model = c->args[0].instance;
    vec_push(l->arena, &l->optimizers, o);
    return (Val){.kind = VAL_optimizer, .optimizer = o};
}

Val fn_sgd(Lower *l, Call *c)
{
    bool nesterov;
    Decl *d = train_declare(l, c, DECL_optimizer, "optimizer");
    if (d == NULL || !params_of_optimizer(l, c, d) || !train_number(l, c, 1, d, ATTR_base_lr, 0) ||
        !train_number(l, c, 2, d, ATTR_momentum, 0) ||
        !train_number(l, c, 3, d, ATTR_dampening, -INFINITY) ||
        !train_number(l, c, 4, d, ATTR_weight_decay, 0) || !call_bool(l, c, 5, &nesterov)) {
        return val_poison();
    }
    const HostExpr *momentum = attrs_expr(&d->attrs, ATTR_momentum);
    const HostExpr *dampening = attrs_expr(&d->attrs, ATTR_dampening);
    bool plain = momentum->kind == HE_num && momentum->num == 0;
    if (nesterov && (plain || dampening->kind != HE_num || dampening->num != 0)) {
        return lower_error(l, c->loc, "Nesterov momentum needs a momentum and no dampening");
    }
    attrs_set_str(l->arena, &d->attrs, ATTR_kind, "sgd");
    attrs_set_bool(l->arena, &d->attrs, ATTR_nesterov, nesterov);
    return optimizer_value(l, c, d, 6);
}

bool train_betas(Lower *l, Call *c, int arg, Decl *d)
{
    static const AttrId ids[2] = {ATTR_beta1, ATTR_beta2};
    Val defaults[2] = {val_float(0.9), val_float(0.999)};
    Val v = c->args[arg];
    if (v.kind != VAL_none && ((v.kind != VAL_tuple && v.kind != VAL_list) || v.list->n != 2)) {
        lower_error(l, c->locs[arg], "betas are two numbers: (0.9, 0.999)");
        return false;
    }
    for (int i = 0; i < 2; i++) {
        HostExpr *e = start_value(l, v.kind == VAL_none ? defaults[i] : v.list->at[i],
                                  attr_info[ids[i]].name, c->locs[arg]);
        if (e == NULL) {
            return false;
        }
        if (e->kind == HE_num && !(e->num >= 0 && e->num < 1)) {
            lower_error(l, c->locs[arg], "%s is %g, but must be at least 0 and below 1",
                        attr_info[ids[i]].name, e->num);
            return false;
        }
        attrs_set_expr(l->arena, &d->attrs, ids[i], e);
    }
    return true;
}

Val fn_adam(Lower *l, Call *c)
{
    Decl *d = train_declare(l, c, DECL_optimizer, "optimizer");
    if (d == NULL || !params_of_optimizer(l, c, d) || !train_number(l, c, 1, d, ATTR_base_lr, 0) ||
        !train_betas(l, c, 2, d) || !train_number(l, c, 3, d, ATTR_eps, 0) ||
        !train_number(l, c, 4, d, ATTR_weight_decay, 0)) {
        return val_poison();
    }
    attrs_set_str(l->arena, &d->attrs, ATTR_kind, str_eq(c->fn->name, "Adam") ? "adam" : "adamw");
    return optimizer_value(l, c, d, 5);
}

static bool set_float(Lower *l, Call *c, int arg, Decl *d, AttrId id, double least, double most)
{
    double v;
    if (!call_float(l, c, arg, &v)) {
        return false;
    }
    if (!(v >= least && v <= most)) {
        lower_error(l, c->locs[arg], "%s is %g, but must be between %g and %g", attr_info[id].name,
                    v, least, most);
        return false;
    }
    attrs_set_float(l->arena, &d->attrs, id, v);
    return true;
}

static bool set_int(Lower *l, Call *c, int arg, Decl *d, AttrId id, int64_t least)
{
    int64_t v;
    if (!call_int(l, c, arg, &v)) {
        return false;
    }
    if (v < least) {
        lower_error(l, c->locs[arg], "%s is %lld, but must be at least %lld", attr_info[id].name,
                    (long long)v, (long long)least);
        return false;
    }
    attrs_set_int(l->arena, &d->attrs, id, v);
    return true;
}

enum { SKIPS_AT_FLOOR = 4 };

/* Where the file does not say it, so many skips end a run that the scale can go from its start to its floor
 * before that. */
static void default_max_skips(Lower *l, Decl *d)
{
    double low = attrs_float(&d->attrs, ATTR_scale_min, 0);
    double halvings = log(low / attrs_float(&d->attrs, ATTR_init_scale, 1)) /
                      log(attrs_float(&d->attrs, ATTR_backoff_factor, 0.5));
    int64_t most = attrs_int(&d->attrs, ATTR_max_skips, 0);
    if (low > 0 && halvings + SKIPS_AT_FLOOR > (double)most && halvings < 1e6) {
        most = (int64_t)ceil(halvings) + SKIPS_AT_FLOOR;
        attrs_set_int(l->arena, &d->attrs, ATTR_max_skips, most);
    }
}

Val fn_scaler(Lower *l, Call *c)
{
    bool enabled;
    Decl *d = train_declare(l, c, DECL_scaler, "scaler");
    if (d == NULL || !set_float(l, c, 0, d, ATTR_init_scale, 1e-30, 3e38) ||
        !set_float(l, c, 1, d, ATTR_growth_factor, 1, 1e30) ||
        !set_float(l, c, 2, d, ATTR_backoff_factor, 1e-30, 1) ||
        !set_int(l, c, 3, d, ATTR_growth_interval, 1) || !call_bool(l, c, 4, &enabled) ||
        !set_float(l, c, 5, d, ATTR_scale_min, 0, INFINITY) ||
        !set_float(l, c, 6, d, ATTR_scale_max, 0, INFINITY) ||
        !set_int(l, c, 7, d, ATTR_max_skips, 0)) {
        return val_poison();
    }
    if (attrs_float(&d->attrs, ATTR_scale_min, 0) > attrs_float(&d->attrs, ATTR_scale_max, 0)) {
        return lower_error(l, c->loc, "scale_min is greater than scale_max");
    }
    if (!c->given[7]) {
        default_max_skips(l, d);
    }
    attrs_set_bool(l->arena, &d->attrs, ATTR_enabled, enabled);
    return (Val){.kind = VAL_scaler, .decl = d};
}

Val fn_parameters(Lower *l, Call *c)
{
    (void)l;
    return c->args[0];
}

Val fn_mode(Lower *l, Call *c)
{
    return lower_error(
        l, c->loc,
        "model.%s() is not needed: evaluate(...) { } runs in evaluation mode, all else trains",
        c->fn->name);
}
