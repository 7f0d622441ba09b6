/* lower_schedule.c: learning-rate schedules, by transformers' names and by PyTorch's classes. The formulas are
 * the runtime's (runtime/schedule.c); here is which arguments each one takes. */
#include "frontend/builtins.h"

enum { MAX_ARGS = 8 };

static Decl *new_scheduler(Lower *l, Call *c, int optimizer_arg, const char *kind)
{
    if (l->frame != NULL || l->loops > 0) {
        lower_error(l, c->loc, "a schedule is made once, at the top level and outside of loops");
        return NULL;
    }
    if (c->args[optimizer_arg].kind != VAL_optimizer) {
        lower_error(l, c->locs[optimizer_arg], "a schedule belongs to an optimizer, but this is %s",
                    val_describe(l, c->args[optimizer_arg]));
        return NULL;
    }
    const char *optimizer = c->args[optimizer_arg].optimizer->decl->name;
    for (int i = 0; i < l->m->ndecls; i++) {
        const Decl *d = l->m->decls[i];
        if (d->kind == DECL_scheduler && str_eq(attrs_str(&d->attrs, ATTR_optimizer), optimizer)) {
            lower_error(l, c->loc, "`%s` has a schedule already", optimizer);
            lower_note(l, d->loc, "it is made here");
            return NULL;
        }
    }
    const char *name = l->assigning != NULL ? l->assigning : "scheduler";
    Decl *d = module_decl(l->m, DECL_scheduler, decl_fresh_name(l, DECL_scheduler, name));
    d->loc = lower_loc(l, c->loc);
    attrs_set_str(l->arena, &d->attrs, ATTR_kind, kind);
    attrs_set_str(l->arena, &d->attrs, ATTR_optimizer, optimizer);
    return d;
}

typedef struct Args {
    int n;
    const char *names[MAX_ARGS];
    HostExpr *values[MAX_ARGS];
} Args;

static bool add_arg(Lower *l, Args *args, const char *name, Val v, Loc loc)
{
    if (!val_is_number(v) && v.kind != VAL_host) {
        lower_error(l, loc, "%s must be a number, but is %s", name, val_describe(l, v));
        return false;
    }
    HostExpr *e = host_of(l, v, loc);
    for (int i = 0; e != NULL && i < l->m->nvars; i++) {
        if (host_mentions(e, l->m->vars[i].name)) {
            lower_error(l, loc,
                        "%s is needed when the program starts, but `%s` changes while it runs",
                        name, l->m->vars[i].name);
            return false;
        }
    }
    args->names[args->n] = name;
    args->values[args->n++] = e;
    return e != NULL;
}

static Val finish(Lower *l, Decl *d, const Args *args)
{
    attrs_set_strs(l->arena, &d->attrs, ATTR_args, args->n, args->names);
    d->nvalues = args->n;
    d->values = ARENA_ARRAY(l->arena, HostExpr *, args->n + 1);
    for (int i = 0; i < args->n; i++) {
        d->values[i] = args->values[i];
    }
    return (Val){.kind = VAL_scheduler, .decl = d};
}

/* ---- transformers ---------------------------------------------------------------------------------- */

/* Arguments of get_scheduler, as indices of its formals. */
enum {
    G_name,
    G_optimizer,
    G_warmup,
    G_steps,
    G_cycles,
    G_step_size,
    G_gamma,
    G_lr_end,
    G_power,
    G_min_lr,
    G_decay_steps,
    G_stable_steps,
    G_min_ratio,
    G_decay_type
};

typedef struct Named {
    const char *name, *kind;
    struct {
        const char *name; /* of the row's argument; NULL ends */
        int formal;       /* of get_scheduler; -1: always the default */
        double otherwise; /* NAN: must be given */
    } args[MAX_ARGS];
} Named;

#define MUST (0.0 / 0.0)
/* clang-format off */
static const Named named[] = {
    {"constant",             "constant",        {{"factor", -1, 1}, {"total_iters", -1, 0}}},
    {"constant_with_warmup", "constant_warmup", {{"num_warmup_steps", G_warmup, 0}}},
    {"linear",               "linear_warmup",   {{"num_warmup_steps", G_warmup, 0}, {"num_training_steps", G_steps, MUST}}},
    {"cosine",               "cosine_warmup",   {{"num_warmup_steps", G_warmup, 0}, {"num_training_steps", G_steps, MUST},
                                                 {"num_cycles", G_cycles, 0.5}}},
    {"cosine_with_restarts", "cosine_warmup_cycles", {{"num_warmup_steps", G_warmup, 0}, {"num_training_steps", G_steps, MUST},
                                                 {"num_cycles", G_cycles, 1}}},
    {"cosine_with_min_lr",   "cosine_min_lr",   {{"num_warmup_steps", G_warmup, 0}, {"num_training_steps", G_steps, MUST},
                                                 {"num_cycles", G_cycles, 0.5}, {"min_lr", G_min_lr, 0}}},
    {"polynomial",           "polynomial_warmup", {{"num_warmup_steps", G_warmup, 0}, {"num_training_steps", G_steps, MUST},
                                                 {"lr_end", G_lr_end, 1e-7}, {"power", G_power, 1}}},
    {"inverse_sqrt",         "inverse_sqrt",    {{"num_warmup_steps", G_warmup, 0}, {"timescale", -1, 0}}},
    {"warmup_stable_decay",  "wsd",             {{"num_warmup_steps", G_warmup, 0}, {"num_stable_steps", G_stable_steps, 0},
                                                 {"num_decay_steps", G_decay_steps, MUST}, {"min_lr_ratio", G_min_ratio, 0},
                                                 {"linear", G_decay_type, 0}}},
    {"reduce_lr_on_plateau", "plateau",         {{"factor", G_gamma, 0.1}, {"min_lr", G_min_lr, 0}}},
    {"step",                 "step",            {{"step_size", G_step_size, MUST}, {"gamma", G_gamma, 0.1}}},
};
/* clang-format on */
enum { NAMED = sizeof named / sizeof *named };

static const Named *find_named(Lower *l, Call *c)
{
    const char *name;
    const char *names[NAMED];
    if (!call_str(l, c, G_name, &name)) {
        return NULL;
    }
    for (int i = 0; i < NAMED; i++) {
        names[i] = named[i].name;
        if (str_eq(names[i], name)) {
            return &named[i];
        }
    }
    const char *near = nearest_name(name, names, NAMED);
    lower_error(l, c->locs[G_name], "unknown schedule \"%s\"%s", name,
                near == NULL ? "" : arena_printf(l->arena, ": did you mean \"%s\"?", near));
    return NULL;
}

/* An argument that this schedule does not know would be dropped in silence. */
static bool takes_all(Lower *l, Call *c, const Named *s)
{
    for (int i = G_warmup; i < c->n; i++) {
        bool known = !c->given[i] || (i == G_steps) ||
                     (i == G_warmup && val_is_number(c->args[i]) && val_number(c->args[i]) == 0);
        for (int k = 0; k < MAX_ARGS && s->args[k].name != NULL; k++) {
            known = known || s->args[k].formal == i;
        }
        if (!known) {
            lower_error(l, c->locs[i], "the schedule \"%s\" does not take this argument", s->name);
            return false;
        }
    }
    return true;
}

static bool one_of_two(Lower *l, Call *c, int arg, const char *no, const char *yes, double *out)
{
    const char *text;
    if (!call_str(l, c, arg, &text)) {
        return false;
    }
    *out = str_eq(text, yes);
    if (*out != 0 || str_eq(text, no)) {
        return true;
    }
    lower_error(l, c->locs[arg], "this is \"%s\" or \"%s\"", no, yes);
    return false;
}

/* Which arguments of a call are those of warmup_stable_decay. */
typedef struct StableArgs {
    int warmup, decay, total, stable, type;
} StableArgs;

/* The updates between warm-up and decay, where only the number of all is given; the type of decay as the row's
 * flag. */
static bool settle_stable(Lower *l, Call *c, const StableArgs *at)
{
    double linear = 0;
    if (c->args[at->total].kind != VAL_none && c->args[at->stable].kind != VAL_none) {
        lower_error(l, c->locs[at->stable],
                    "num_stable_steps and num_training_steps say the same: one of them is given");
        return false;
    }
    if (c->args[at->total].kind == VAL_none && c->args[at->stable].kind == VAL_none) {
        lower_error(l, c->loc, "this schedule needs num_training_steps or num_stable_steps");
        return false;
    }
    if (c->args[at->stable].kind == VAL_none) {
        Loc loc = c->locs[at->total];
        Val rest = number_binary(l, AST_OP_sub, c->args[at->total], c->args[at->warmup], loc);
        c->args[at->stable] = number_binary(l, AST_OP_sub, rest, c->args[at->decay], loc);
        c->given[at->stable] = true;
        c->locs[at->stable] = loc;
    }
    if (c->args[at->type].kind != VAL_none &&
        !one_of_two(l, c, at->type, "cosine", "linear", &linear)) {
        return false;
    }
    c->args[at->type] = val_float(linear);
    return !val_is_poison(c->args[at->stable]);
}

Val fn_get_scheduler(Lower *l, Call *c)
{
    static const StableArgs stable = {G_warmup, G_decay_steps, G_steps, G_stable_steps,
                                      G_decay_type};
    const Named *s = find_named(l, c);
    Args args = {0};
    if (s == NULL || !takes_all(l, c, s)) {
        return val_poison();
    }
    if (str_eq(s->kind, "wsd") && c->given[G_decay_steps] && !settle_stable(l, c, &stable)) {
        return val_poison();
    }
    for (int i = 0; i < MAX_ARGS && s->args[i].name != NULL; i++) {
        int formal = s->args[i].formal;
        bool given = formal >= 0 && c->given[formal];
        if (!given && s->args[i].otherwise != s->args[i].otherwise) {
            return lower_error(l, c->loc, "the schedule \"%s\" needs %s", s->name, s->args[i].name);
        }
        Val v = given ? c->args[formal] : val_float(s->args[i].otherwise);
        if (!add_arg(l, &args, s->args[i].name, v, given ? c->locs[formal] : c->loc)) {
            return val_poison();
        }
    }
    Decl *d = new_scheduler(l, c, G_optimizer, s->kind);
    return d == NULL ? val_poison() : finish(l, d, &args);
}

/* ---- PyTorch's classes ----------------------------------------------------------------------------- */

/* The row for a class; its arguments are the formals behind the optimizer, in the same order. */
Val fn_torch_schedule(Lower *l, Call *c)
{
    /* clang-format off */
    static const struct { const char *name, *kind; } rows[] = {
        {"ConstantLR", "constant"}, {"StepLR", "step"}, {"ExponentialLR", "exponential"},
        {"LinearLR", "linear"}, {"CosineAnnealingLR", "cosine"},
        {"CosineAnnealingWarmRestarts", "cosine_restarts"}, {"PolynomialLR", "polynomial"},
        {"get_constant_schedule_with_warmup", "constant_warmup"},
        {"get_linear_schedule_with_warmup", "linear_warmup"},
        {"get_cosine_schedule_with_warmup", "cosine_warmup"},
        {"get_cosine_with_hard_restarts_schedule_with_warmup", "cosine_warmup_cycles"},
        {"get_polynomial_decay_schedule_with_warmup", "polynomial_warmup"},
        {"get_inverse_sqrt_schedule", "inverse_sqrt"},
    };
    /* clang-format on */
    Formal formals[MAX_FORMALS];
    Args args = {0};
    builtin_formals(l, c->fn, formals);
    for (int i = 1; i < c->n; i++) {
        if (!add_arg(l, &args, formals[i].name, c->args[i], c->locs[i])) {
            return val_poison();
        }
    }
    const char *kind = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kind = str_eq(rows[i].name, c->fn->name) ? rows[i].kind : kind;
    }
    if (kind == NULL) {
        ICE("no schedule for %s", c->fn->name);
    }
    Decl *d = new_scheduler(l, c, 0, kind);
    return d == NULL ? val_poison() : finish(l, d, &args);
}

Val fn_wsd(Lower *l, Call *c)
{
    static const StableArgs at = {1, 2, 3, 4, 5};
    static const struct {
        const char *name;
        int formal;
    } order[] = {{"num_warmup_steps", 1},
                 {"num_stable_steps", 4},
                 {"num_decay_steps", 2},
                 {"min_lr_ratio", 6},
                 {"linear", 5}};
    Args args = {0};
    if (!settle_stable(l, c, &at)) {
        return val_poison();
    }
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        int formal = order[i].formal;
        if (!add_arg(l, &args, order[i].name, c->args[formal], c->locs[formal])) {
            return val_poison();
        }
    }
    Decl *d = new_scheduler(l, c, 0, "wsd");
    return d == NULL ? val_poison() : finish(l, d, &args);
}

Val fn_multistep(Lower *l, Call *c)
{
    Args args = {0};
    Val list = c->args[1];
    if ((list.kind != VAL_list && list.kind != VAL_tuple) || list.list->n < 1 ||
        list.list->n > MAX_ARGS - 1) {
        return lower_error(l, c->locs[1], "milestones are a list of 1 to %d numbers of steps",
                           MAX_ARGS - 1);
    }
    if (!add_arg(l, &args, "gamma", c->args[2], c->locs[2])) {
        return val_poison();
    }
    for (int i = 0; i < list.list->n; i++) {
        const char *name = arena_printf(l->arena, "milestone_%d", i + 1);
        if (!add_arg(l, &args, name, list.list->at[i], c->locs[1])) {
            return val_poison();
        }
    }
    Decl *d = new_scheduler(l, c, 0, "multistep");
    return d == NULL ? val_poison() : finish(l, d, &args);
}

/* The row's last two arguments are flags. */
Val fn_plateau(Lower *l, Call *c)
{
    enum { P_mode = 1, P_threshold_mode = 5 };
    Formal formals[MAX_FORMALS];
    Args args = {0};
    double greater, absolute;
    builtin_formals(l, c->fn, formals);
    if (!one_of_two(l, c, P_mode, "min", "max", &greater) ||
        !one_of_two(l, c, P_threshold_mode, "rel", "abs", &absolute)) {
        return val_poison();
    }
    for (int i = P_mode + 1; i < c->n; i++) {
        if (i != P_threshold_mode && !add_arg(l, &args, formals[i].name, c->args[i], c->locs[i])) {
            return val_poison();
        }
    }
    if (!add_arg(l, &args, "greater", val_float(greater), c->loc) ||
        !add_arg(l, &args, "absolute", val_float(absolute), c->loc)) {
        return val_poison();
    }
    Decl *d = new_scheduler(l, c, 0, "plateau");
    return d == NULL ? val_poison() : finish(l, d, &args);
}

/* ---- scheduler.step() ------------------------------------------------------------------------------ */

/* The number of a metric; false: said. Only a plateau's schedule follows one. */
static bool step_metric(Lower *l, Call *c, HostExpr **out)
{
    bool follows = str_eq(attrs_str(&c->args[0].decl->attrs, ATTR_kind), "plateau");
    Val v = c->args[1];
    *out = NULL;
    if (follows != (v.kind != VAL_none)) {
        lower_error(l, c->loc,
                    follows ? "`%s` follows a metric: %s.step(loss)"
                            : "`%s` takes no metric: %s.step()",
                    c->args[0].decl->name, c->args[0].decl->name);
        return false;
    }
    if (follows) {
        *out =
            val_is_tensor(v) ? tensor_to_host(l, v, NULL, c->locs[1]) : host_of(l, v, c->locs[1]);
    }
    return !follows || *out != NULL;
}

/* Goes behind the call of the run: the step before it has used the old rate. */
Val fn_schedule(Lower *l, Call *c)
{
    Decl *d = c->args[0].decl;
    if (l->frame != NULL) {
        return lower_error(l, c->loc,
                           "a schedule moves on in the program, not in a module or an evaluation");
    }
    HostExpr *metric;
    if (!step_metric(l, c, &metric)) {
        return val_poison();
    }
    HostStmt *s = host_emit(l, HS_schedule, c->loc);
    s->target = d->name;
    s->expr = metric;
    if (l->run != NULL) {
        vec_push(l->arena, &l->run->scheduled, attrs_str(&d->attrs, ATTR_optimizer));
    }
    return val_none();
}
