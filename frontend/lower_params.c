/* lower_params.c: which parameters: of an optimizer, of its groups, and those that are frozen.
 *
 * A pattern means parameters by their names within the model, as named_parameters() of PyTorch gives them: `*` is
 * any text, `?` any character, and a pattern that ends where a name has a dot takes all below it, so "encoder" is
 * the whole encoder. A pattern without any parameter is an error: it would change nothing in silence.
 *
 *     AdamW(model, weight_decay = 0.01, groups = [group("*.bias", weight_decay = 0.0)])
 *         ->  optimizer o {params=[..] weight_decay=0.01}, group "o.1" {optimizer="o" params=[..] weight_decay=0}
 */
#include "frontend/builtins.h"

#include <string.h>

/* ---- patterns -------------------------------------------------------------------------------------- */

/* All of the name, or what comes before one of its dots. */
static bool matches(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL; /* the newest star, and where what follows it began */
    for (;;) {
        if (*pattern == '\0' && (*name == '\0' || *name == '.')) {
            return true;
        }
        if (*pattern == '*') {
            star = ++pattern;
            from = name;
        } else if (*pattern != '\0' && *name != '\0' && (*pattern == '?' || *pattern == *name)) {
            pattern++;
            name++;
        } else if (star == NULL || *from == '\0') {
            return false;
        } else {
            pattern = star;
            name = ++from;
        }
    }
}

/* A parameter's name within the model; NULL: it is none of the model's. */
static const char *name_within(const Tensor *t, const Instance *model)
{
    size_t n = strlen(model->path);
    if (t->role != TENSOR_param) {
        return NULL;
    }
    if (n == 0) {
        return t->name;
    }
    return strncmp(t->name, model->path, n) == 0 && t->name[n] == '.' ? t->name + n + 1 : NULL;
}

static void no_parameter(Lower *l, const char *pattern, const Instance *model, Loc loc)
{
    Names names = {0};
    for (int i = 0; i < l->m->ntensors; i++) {
        const char *name = name_within(l->m->tensors[i], model);
        const char *dot = name != NULL ? strchr(name, '.') : NULL;
        vec_push(l->arena, &names, name);
        for (; dot != NULL; dot = strchr(dot + 1, '.')) { /* modules on the way, and their ends */
            vec_push(l->arena, &names, arena_strndup(l->arena, name, (size_t)(dot - name)));
            vec_push(l->arena, &names, arena_printf(l->arena, "*%s", dot));
        }
    }
    lower_error(l, loc, "no parameter of %s is called \"%s\"%s", model->decl->ast->name, pattern,
                lower_did_you_mean(l, pattern, &names));
}

/* Marks the parameters of the model that a pattern means. */
static bool find_matching(Lower *l, const Instance *model, const char *pattern, Loc loc,
                          bool *chosen)
{
    bool any = false;
    for (int i = 0; i < l->m->ntensors; i++) {
        const char *name = name_within(l->m->tensors[i], model);
        if (name != NULL && matches(pattern, name)) {
            chosen[i] = any = true;
        }
    }
    if (!any) {
        no_parameter(l, pattern, model, loc);
    }
    return any;
}

/* The same of strings, and of lists of them. */
static bool find_all(Lower *l, const Instance *model, const Values *patterns, const AstList *places,
                     Loc loc, bool *chosen)
{
    for (int i = 0; i < patterns->n; i++) {
        Val v = patterns->at[i];
        Loc at = places != NULL && i < places->n ? places->at[i]->loc : loc;
        bool fine = v.kind == VAL_str    ? find_matching(l, model, v.s, at, chosen)
                    : v.kind == VAL_list ? find_all(l, model, v.list, NULL, at, chosen)
                                         : false;
        if (!fine) {
            if (v.kind != VAL_str && v.kind != VAL_list) {
                lower_error(l, at, "a pattern of parameters' names is a string, but this is %s",
                            val_describe(l, v));
            }
            return false;
        }
    }
    return true;
}

/* Positional arguments behind the first n, which are the patterns. */
static AstList places_of(Lower *l, const Call *c, int skip)
{
    AstList out = {0};
    for (int i = 0; i < c->ast->list.n; i++) {
        if (c->ast->list.at[i]->kind != AST_keyword && skip-- <= 0) {
            vec_push(l->arena, &out, c->ast->list.at[i]);
        }
    }
    return out;
}

/* ---- groups ---------------------------------------------------------------------------------------- */

enum {
    GROUP_patterns,
    GROUP_max_ndim,
    GROUP_lr,
    GROUP_decay,
    GROUP_momentum,
    GROUP_betas,
    GROUP_eps
};

Val fn_group(Lower *l, Call *c)
{
    if (c->rest.kind != VAL_list || (c->rest.list->n == 0 && !c->given[GROUP_max_ndim])) {
        return lower_error(l, c->loc,
                           "a group needs patterns of parameters' names, or max_ndim: "
                           "group(\"*.bias\", weight_decay = 0.0)");
    }
    Call *copy = ARENA_NEW(l->arena, Call);
    *copy = *c;
    return (Val){.kind = VAL_group, .group = copy};
}

static bool choose(Lower *l, Call *c, const Instance *model, bool *chosen)
{
    int64_t most;
    AstList places = places_of(l, c, 0);
    if (!find_all(l, model, c->rest.list, &places, c->loc, chosen)) {
        return false;
    }
    if (!c->given[GROUP_max_ndim]) {
        return true;
    }
    if (!call_int(l, c, GROUP_max_ndim, &most)) {
        return false;
    }
    for (int i = 0; i < l->m->ntensors; i++) {
        const Tensor *t = l->m->tensors[i];
        chosen[i] = chosen[i] || (name_within(t, model) != NULL && t->dims.rank <= most);
    }
    return true;
}

/* What the optimizer has no use for would be dropped in silence. */
static bool suits(Lower *l, const Call *c, const char *kind)
{
    bool sgd = str_eq(kind, "sgd");
    for (int i = GROUP_momentum; i <= GROUP_eps; i++) {
        if (c->given[i] && (i == GROUP_momentum) != sgd) {
            lower_error(l, c->locs[i],
                        sgd ? "this argument is none of SGD's"
                            : "momentum is an argument of SGD only");
            return false;
        }
    }
    return true;
}

static bool set_hypers(Lower *l, Call *c, Decl *d)
{
    return (!c->given[GROUP_lr] || train_number(l, c, GROUP_lr, d, ATTR_base_lr, 0)) &&
           (!c->given[GROUP_decay] || train_number(l, c, GROUP_decay, d, ATTR_weight_decay, 0)) &&
           (!c->given[GROUP_momentum] || train_number(l, c, GROUP_momentum, d, ATTR_momentum, 0)) &&
           (!c->given[GROUP_betas] || train_betas(l, c, GROUP_betas, d)) &&
           (!c->given[GROUP_eps] || train_number(l, c, GROUP_eps, d, ATTR_eps, 0));
}

/* Takes what no group before it has taken. */
static bool declare_group(Lower *l, Call *c, const Decl *optimizer, const Instance *model,
                          int number, bool *taken)
{
    bool *chosen = ARENA_ARRAY(l->arena, bool, l->m->ntensors + 1);
    if (!suits(l, c, attrs_str(&optimizer->attrs, ATTR_kind)) || !choose(l, c, model, chosen)) {
        return false;
    }
    const char **names = ARENA_ARRAY(l->arena, const char *, l->m->ntensors + 1);
    int n = 0;
    for (int i = 0; i < l->m->ntensors; i++) {
        if (chosen[i] && !taken[i] && decl_lists_param(optimizer, l->m->tensors[i]->name)) {
            names[n++] = l->m->tensors[i]->name;
            taken[i] = true;
        }
    }
    if (n == 0 && c->rest.list->n == 0) {
        return true; /* a model without vectors */
    }
    if (n == 0) {
        lower_error(l, c->loc, "the groups before this one have all of its parameters");
        return false;
    }
    Decl *d =
        module_decl(l->m, DECL_group, arena_printf(l->arena, "%s.%d", optimizer->name, number));
    d->loc = lower_loc(l, c->loc);
    attrs_set_str(l->arena, &d->attrs, ATTR_optimizer, optimizer->name);
    attrs_set_strs(l->arena, &d->attrs, ATTR_params, n, names);
    return set_hypers(l, c, d);
}

typedef struct Grouping {
    const Decl *optimizer;
    const Instance *model;
    int n;
    bool *taken;
} Grouping;

/* A group, or a list of groups. */
static bool declare_groups(Lower *l, Grouping *g, Val v, Loc loc)
{
    if (v.kind == VAL_group) {
        return declare_group(l, v.group, g->optimizer, g->model, ++g->n, g->taken);
    }
    if (v.kind != VAL_list && v.kind != VAL_tuple) {
        if (!val_is_poison(v)) {
            lower_error(l, loc, "groups is a list of group(\"pattern\", ...), but here is %s",
                        val_describe(l, v));
        }
        return false;
    }
    bool fine = true;
    for (int i = 0; i < v.list->n && fine; i++) {
        fine = declare_groups(l, g, v.list->at[i], loc);
    }
    return fine;
}

bool params_groups(Lower *l, Call *c, int arg, const Decl *optimizer, const Instance *model)
{
    Grouping g = {optimizer, model, 0, ARENA_ARRAY(l->arena, bool, l->m->ntensors + 1)};
    return c->args[arg].kind == VAL_none || declare_groups(l, &g, c->args[arg], c->locs[arg]);
}

/* ---- optimizers ------------------------------------------------------------------------------------ */

Optimizer *optimizer_of(const Lower *l, const char *param)
{
    for (int i = 0; i < l->optimizers.n; i++) {
        if (decl_lists_param(l->optimizers.at[i]->decl, param)) {
            return l->optimizers.at[i];
        }
    }
    return NULL;
}

bool optimizer_trains(const Optimizer *o, const Instance *model)
{
    const Attr *params = attrs_find(&o->decl->attrs, ATTR_params);
    bool any = model->path[0] == 0;
    for (int i = 0; params != NULL && i < params->strs.n && !any; i++) {
        any = param_in_model(params->strs.v[i], model->path);
    }
    return any;
}

bool params_of_optimizer(Lower *l, Call *c, Decl *d)
{
    if (c->args[0].kind != VAL_instance) {
        lower_error(l, c->locs[0],
                    "an optimizer takes the model or model.parameters(), but this is %s",
                    val_describe(l, c->args[0]));
        return false;
    }
    const char **names = ARENA_ARRAY(l->arena, const char *, l->m->ntensors + 1);
    int n = 0, frozen = 0;
    for (int i = 0; i < l->m->ntensors; i++) {
        const Tensor *t = l->m->tensors[i];
        const Optimizer *other = optimizer_of(l, t->name);
        if (name_within(t, c->args[0].instance) == NULL) {
            continue;
        }
        if (other != NULL) {
            lower_error(l, c->locs[0], "`%s` is trained by two optimizers", t->name);
            lower_note(l, other->decl->loc, "the first one is made here");
            return false;
        }
        if (attrs_bool(&t->init, ATTR_frozen)) {
            frozen++;
        } else {
            names[n++] = t->name;
        }
    }
    if (n == 0) {
        lower_error(l, c->locs[0],
                    frozen > 0 ? "all parameters of this model are frozen"
                               : "this model has no parameters to train");
        return false;
    }
    attrs_set_strs(l->arena, &d->attrs, ATTR_params, n, names);
    return true;
}

/* ---- freezing -------------------------------------------------------------------------------------- */

static bool set_frozen(Lower *l, Call *c, const bool *chosen, bool frozen)
{
    if (l->frame != NULL || l->loops > 0 || l->runs.n > 0 || l->optimizers.n > 0) {
        lower_error(l, c->loc,
                    "what is frozen is decided once, at the top level, before the optimizers");
        return false;
    }
    for (int i = 0; i < l->m->ntensors; i++) {
        if (chosen[i]) {
            attrs_set_bool(l->arena, &l->m->tensors[i]->init, ATTR_frozen, frozen);
        }
    }
    return true;
}

static bool instance_arg(Lower *l, const Call *c)
{
    if (c->args[0].kind != VAL_instance) {
        lower_error(l, c->locs[0], "a model or a part of one is needed here, but this is %s",
                    val_describe(l, c->args[0]));
        return false;
    }
    return true;
}

/* freeze(model), freeze(model, "conv*", ...) */
Val fn_freeze(Lower *l, Call *c)
{
    bool *chosen = ARENA_ARRAY(l->arena, bool, l->m->ntensors + 1);
    if (!instance_arg(l, c)) {
        return val_poison();
    }
    AstList places = places_of(l, c, 1);
    Val all = val_str("*");
    Values every = {1, 1, &all};
    const Values *patterns =
        c->rest.kind == VAL_list && c->rest.list->n > 0 ? c->rest.list : &every;
    bool fine = find_all(l, c->args[0].instance, patterns, &places, c->loc, chosen);
    return fine && set_frozen(l, c, chosen, true) ? val_none() : val_poison();
}

/* model.part.requires_grad_(false), as in PyTorch */
Val fn_requires_grad(Lower *l, Call *c)
{
    bool wanted, *chosen = ARENA_ARRAY(l->arena, bool, l->m->ntensors + 1);
    if (!instance_arg(l, c) || !call_bool(l, c, 1, &wanted) ||
        !find_matching(l, c->args[0].instance, "*", c->loc, chosen)) {
        return val_poison();
    }
    return set_frozen(l, c, chosen, !wanted) ? val_none() : val_poison();
}
