/* lower_train.c: optimizers, schedules, loss scaling, gradients: the calls that become declarations and
 * markers in the graph of a step.
 *
 * Checked here: every chain of markers starts with one backward, unscales before it clips, steps as it was
 * scaled, and is cleared before the next batch.
 */
#include "frontend/builtins.h"

#include <math.h>

/* ---- declarations ---------------------------------------------------------------------------------- */

static Decl *declare(Lower *l, Call *c, DeclKind kind, const char *wish)
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

static bool set_number(Lower *l, Call *c, int arg, Decl *d, AttrId id, double least)
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

static bool belongs(const Tensor *t, const Instance *model)
{
    size_t n = 0;
    while (model->path[n] != '\0') {
        n++;
    }
    return t->role == TENSOR_param &&
           (n == 0 || (str_starts(t->name, model->path) && t->name[n] == '.'));
}

static bool set_params(Lower *l, Call *c, Decl *d)
{
    if (c->args[0].kind != VAL_instance) {
        lower_error(l, c->locs[0],
                    "an optimizer takes the model or model.parameters(), but this is %s",
                    val_describe(l, c->args[0]));
        return false;
    }
    const char **names = ARENA_ARRAY(l->arena, const char *, l->m->ntensors + 1);
    int n = 0;
    for (int i = 0; i < l->m->ntensors; i++) {
        if (belongs(l->m->tensors[i], c->args[0].instance)) {
            names[n++] = l->m->tensors[i]->name;
        }
    }
    if (n == 0) {
        lower_error(l, c->locs[0], "this model has no parameters to train");
        return false;
    }
    attrs_set_strs(l->arena, &d->attrs, ATTR_params, n, names);
    return true;
}

static Val optimizer_value(Lower *l, Call *c, Decl *d)
{
    Optimizer *o = ARENA_NEW(l->arena, Optimizer);
    o->decl = d;
    o->model = c->args[0].instance;
    vec_push(l->arena, &l->optimizers, o);
    return (Val){.kind = VAL_optimizer, .optimizer = o};
}

Val fn_sgd(Lower *l, Call *c)
{
    bool nesterov;
    Decl *d = declare(l, c, DECL_optimizer, "optimizer");
    if (d == NULL || !set_params(l, c, d) || !set_number(l, c, 1, d, ATTR_base_lr, 0) ||
        !set_number(l, c, 2, d, ATTR_momentum, 0) ||
        !set_number(l, c, 3, d, ATTR_dampening, -INFINITY) ||
        !set_number(l, c, 4, d, ATTR_weight_decay, 0) || !call_bool(l, c, 5, &nesterov)) {
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
    return optimizer_value(l, c, d);
}

static bool set_betas(Lower *l, Call *c, Decl *d)
{
    static const AttrId ids[2] = {ATTR_beta1, ATTR_beta2};
    Val defaults[2] = {val_float(0.9), val_float(0.999)};
    Val v = c->args[2];
    if (v.kind != VAL_none && ((v.kind != VAL_tuple && v.kind != VAL_list) || v.list->n != 2)) {
        lower_error(l, c->locs[2], "betas are two numbers: (0.9, 0.999)");
        return false;
    }
    for (int i = 0; i < 2; i++) {
        HostExpr *e = start_value(l, v.kind == VAL_none ? defaults[i] : v.list->at[i],
                                  attr_info[ids[i]].name, c->locs[2]);
        if (e == NULL) {
            return false;
        }
        if (e->kind == HE_num && !(e->num >= 0 && e->num < 1)) {
            lower_error(l, c->locs[2], "%s is %g, but must be at least 0 and below 1",
                        attr_info[ids[i]].name, e->num);
            return false;
        }
        attrs_set_expr(l->arena, &d->attrs, ids[i], e);
    }
    return true;
}

Val fn_adam(Lower *l, Call *c)
{
    Decl *d = declare(l, c, DECL_optimizer, "optimizer");
    if (d == NULL || !set_params(l, c, d) || !set_number(l, c, 1, d, ATTR_base_lr, 0) ||
        !set_betas(l, c, d) || !set_number(l, c, 3, d, ATTR_eps, 0) ||
        !set_number(l, c, 4, d, ATTR_weight_decay, 0)) {
        return val_poison();
    }
    attrs_set_str(l->arena, &d->attrs, ATTR_kind, str_eq(c->fn->name, "Adam") ? "adam" : "adamw");
    return optimizer_value(l, c, d);
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
    Decl *d = declare(l, c, DECL_scaler, "scaler");
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

/* ---- gradients and steps --------------------------------------------------------------------------- */

/* The statement stands in the program, not in a module; and in a loop over batches. */
static bool in_program(Lower *l, Call *c)
{
    if (l->frame != NULL) {
        lower_error(l, c->loc,
                    l->frame->self != NULL ? "`%s` is a statement of the program, not of a module"
                                           : "`%s` does not belong into an evaluation",
                    c->fn->name);
        return false;
    }
    return true;
}

static Node *marker(Lower *l, Op op, Node *in, Attrs attrs)
{
    Node *n = op_build(l, op, 1, &in, attrs);
    if (n != NULL) {
        n->amp = DT_none;
    }
    return n;
}

Val fn_backward(Lower *l, Call *c)
{
    Node *loss;
    if (!in_program(l, c) || !call_tensor(l, c, 0, &loss)) {
        return val_poison();
    }
    Gradients *g = l->gradients;
    if (g != NULL && g->live) {
        lower_error(l, c->loc,
                    "these gradients would be added to earlier ones, which is not supported yet");
        lower_note(l, g->made,
                   "the earlier ones are made here; add the losses, or clear them with zero_grad");
        return val_poison();
    }
    Attrs attrs = {0};
    attrs_set_str(l->arena, &attrs, ATTR_model, "");
    Node *n = marker(l, OP_backward, loss, attrs);
    if (n == NULL) {
        return val_poison();
    }
    l->run->token = n;
    l->run->scaler = loss->op == OP_scale_loss ? attrs_str(&loss->attrs, ATTR_scaler) : NULL;
    l->run->unscaled = l->run->clipped = false;
    if (g != NULL) {
        g->live = true;
        g->kept = !g->cleared;
        g->made = c->loc;
    }
    return val_none();
}

/* The gradients that a statement works on: those of this run. */
static bool have_gradients(Lower *l, Call *c)
{
    if (!in_program(l, c)) {
        return false;
    }
    if (l->run == NULL || l->run->token == NULL) {
        if (l->gradients != NULL && diag_errors(l->diag) > l->gradients->errors) {
            return false;
        }
        lower_error(
            l, c->loc,
            "there are no gradients here: backward(loss) must come before `%s`, in the same block",
            c->fn->name);
        if (l->gradients != NULL && l->gradients->live) {
            lower_note(l, l->gradients->made,
                       "those made here end with the run of statements around them");
        }
        return false;
    }
    return true;
}

static Val next_marker(Lower *l, Op op, Attrs attrs)
{
    Node *n = marker(l, op, l->run->token, attrs);
    if (n != NULL) {
        l->run->token = n;
    }
    return n == NULL ? val_poison() : val_none();
}

static bool optimizer_arg(Lower *l, Call *c, int i, Optimizer **out)
{
    if (c->args[i].kind != VAL_optimizer) {
        lower_error(l, c->locs[i], "an optimizer is needed here, but this is %s",
                    val_describe(l, c->args[i]));
        return false;
    }
    *out = c->args[i].optimizer;
    return true;
}

static bool same_scaler(Lower *l, Call *c, const char *scaler)
{
    if (l->run->scaler == NULL) {
        lower_error(l, c->loc, "the gradients are not scaled: backward(%s.scale(loss)) scales them",
                    scaler);
        return false;
    }
    if (!str_eq(l->run->scaler, scaler)) {
        lower_error(l, c->loc, "the gradients carry the scale of `%s`, not of `%s`", l->run->scaler,
                    scaler);
        return false;
    }
    return true;
}

Val fn_scale(Lower *l, Call *c)
{
    Node *loss;
    if (!in_program(l, c) || !call_tensor(l, c, 1, &loss)) {
        return val_poison();
    }
    Attrs attrs = {0};
    attrs_set_str(l->arena, &attrs, ATTR_scaler, c->args[0].decl->name);
    return val_of_node(l, marker(l, OP_scale_loss, loss, attrs));
}

/* By itself, or with a step. Each optimizer's gradients are unscaled on their own. */
static bool is_unscaled(const Node *token, const char *optimizer)
{
    for (const Node *n = token; n != NULL && n->nin > 0; n = n->in[0]) {
        const char *of = attrs_str(&n->attrs, ATTR_optimizer);
        if ((n->op == OP_unscale || n->op == OP_optimizer_step) && str_eq(of, optimizer)) {
            return true;
        }
        if (n->op == OP_backward) {
            break;
        }
    }
    return false;
}

Val fn_unscale(Lower *l, Call *c)
{
    Optimizer *o;
    if (!optimizer_arg(l, c, 1, &o) || !have_gradients(l, c) ||
        !same_scaler(l, c, c->args[0].decl->name)) {
        return val_poison();
    }
    if (is_unscaled(l->run->token, o->decl->name)) {
        return lower_error(l, c->loc, "the gradients of `%s` are unscaled already", o->decl->name);
    }
    Attrs attrs = {0};
    attrs_set_str(l->arena, &attrs, ATTR_optimizer, o->decl->name);
    attrs_set_str(l->arena, &attrs, ATTR_scaler, c->args[0].decl->name);
    l->run->unscaled = true;
    return next_marker(l, OP_unscale, attrs);
}

static Val clip(Lower *l, Call *c, Op op, AttrId limit)
{
    double v;
    if (c->args[0].kind != VAL_instance) {
        return lower_error(l, c->locs[0],
                           "the model whose gradients are clipped is needed here, but this is %s",
                           val_describe(l, c->args[0]));
    }
    if (!have_gradients(l, c) || !call_float(l, c, 1, &v)) {
        return val_poison();
    }
    if (!(v > 0)) {
        return lower_error(l, c->locs[1], "%s must be positive", attr_info[limit].name);
    }
    if (l->run->scaler != NULL && !l->run->unscaled) {
        lower_error(l, c->loc, "the gradients are clipped while they carry the loss scale");
        lower_note(l, c->loc, "%s.unscale(optimizer) comes before it", l->run->scaler);
        return val_poison();
    }
    Attrs attrs = {0};
    attrs_set_str(l->arena, &attrs, ATTR_model, c->args[0].instance->path);
    attrs_set_float(l->arena, &attrs, limit, v);
    l->run->clipped = true;
    return next_marker(l, op, attrs);
}

Val fn_clip_norm(Lower *l, Call *c)
{
    return clip(l, c, OP_clip_grad_norm, ATTR_max_norm);
}

Val fn_clip_value(Lower *l, Call *c)
{
    return clip(l, c, OP_clip_grad_value, ATTR_clip_value);
}

static Val take_step(Lower *l, Call *c, const Optimizer *o, const char *scaler)
{
    for (int i = 0; i < l->run->scheduled.n; i++) {
        if (str_eq(l->run->scheduled.at[i], o->decl->name)) {
            return lower_error(l, c->loc,
                               "the schedule of `%s` moved on before this step of the same batch",
                               o->decl->name);
        }
    }
    Attrs attrs = {0};
    attrs_set_str(l->arena, &attrs, ATTR_optimizer, o->decl->name);
    if (scaler != NULL) {
        attrs_set_str(l->arena, &attrs, ATTR_scaler, scaler);
    }
    return next_marker(l, OP_optimizer_step, attrs);
}

Val fn_step(Lower *l, Call *c)
{
    if (!have_gradients(l, c)) {
        return val_poison();
    }
    if (l->run->scaler != NULL) {
        return lower_error(l, c->loc, "the gradients carry a loss scale: %s.step(%s)",
                           l->run->scaler, c->args[0].optimizer->decl->name);
    }
    return take_step(l, c, c->args[0].optimizer, NULL);
}

Val fn_scaler_step(Lower *l, Call *c)
{
    Optimizer *o;
    if (!optimizer_arg(l, c, 1, &o) || !have_gradients(l, c) ||
        !same_scaler(l, c, c->args[0].decl->name)) {
        return val_poison();
    }
    return take_step(l, c, o, c->args[0].decl->name);
}

Val fn_update(Lower *l, Call *c)
{
    if (!have_gradients(l, c) || !same_scaler(l, c, c->args[0].decl->name)) {
        return val_poison();
    }
    Attrs attrs = {0};
    attrs_set_str(l->arena, &attrs, ATTR_scaler, c->args[0].decl->name);
    return next_marker(l, OP_scaler_update, attrs);
}

/* Marks which optimizers have forgotten their gradients; when all of them have, none are left. */
Val fn_zero_grad(Lower *l, Call *c)
{
    if (!in_program(l, c)) {
        return val_poison();
    }
    Val v = c->args[0];
    if (v.kind != VAL_optimizer && v.kind != VAL_instance) {
        return lower_error(l, c->locs[0], "an optimizer or a model is needed here, but this is %s",
                           val_describe(l, v));
    }
    Gradients *g = l->gradients;
    if (g == NULL) {
        return val_none();
    }
    bool all = true;
    for (int i = 0; i < l->optimizers.n && i < 64; i++) {
        const Optimizer *o = l->optimizers.at[i];
        if (v.kind == VAL_optimizer ? o == v.optimizer : o->model == v.instance) {
            g->zeroed |= (uint64_t)1 << i;
        }
        all = all && (g->zeroed >> i & 1);
    }
    if (all) {
        *g = (Gradients){.cleared = true, .errors = g->errors};
        if (l->run != NULL) {
            l->run->token = NULL;
        }
    }
    return val_none();
}

void gradients_check(Lower *l, const Gradients *g)
{
    if (g->kept && g->live) {
        lower_error(l, g->made,
                    "these gradients would be added to those of the next batch, which is not "
                    "supported yet");
        lower_note(l, g->made, "zero_grad(optimizer) clears them, in the same block");
    }
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
