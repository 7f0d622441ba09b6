/* interp_marks.c: the reference meaning of the markers: what training loops call and passes expand.
 *
 * Written from PyTorch's rules (docs/PRECISION.md), not from the passes, so that each checks the
 * other. State that a marker changes is handed out by name, as the expanded graph would return it.
 * The gradients of `backward` come from central differences: in f64 mode, for at most
 * MAX_DIFFERENCED numbers; otherwise the marker, and all that follows from it, has no value (NULL).
 */
#include "ir/interp.h"

#include <math.h>
#include <string.h>

#include "ir/base/strutil.h"

enum { MAX_DIFFERENCED = 4096 };

/* ---- state ----------------------------------------------------------------------------------- */

static Value *copy_value(Run *r, const Value *x)
{
    Value *v = value_new(r->in->arena, x->dtype, x->rank, x->dims);
    memcpy(v->v, x->v, (size_t)x->count * sizeof v->v[0]);
    return v;
}

static void set_state(Run *r, const char *name, Value *value)
{
    if (r->state == NULL) {
        return;
    }
    StateValue **end = r->state;
    while (*end != NULL) {
        if (str_eq((*end)->name, name)) {
            (*end)->value = value;
            return;
        }
        end = &(*end)->next;
    }
    *end = ARENA_NEW(r->in->arena, StateValue);
    **end = (StateValue){name, value, NULL};
}

static const Node *find_arg(const Run *r, AttrId role, const char *name)
{
    return graph_find_arg((Graph *)r->g, role, name);
}

/* The value that a state has before the step; NULL: nobody knows it. */
static Value *state_before(Run *r, AttrId role, const char *name)
{
    const Node *arg = find_arg(r, role, name);
    if (arg != NULL && r->v[arg->id] != NULL) {
        return r->v[arg->id];
    }
    return r->in->tensor != NULL ? r->in->tensor(r->in->ctx, name) : NULL;
}

/* After the steps so far; in a run whose states nobody wants, before them. */
static Value *state_now(Run *r, AttrId role, const char *name)
{
    for (StateValue *s = r->state != NULL ? *r->state : NULL; s != NULL; s = s->next) {
        if (str_eq(s->name, name)) {
            return s->value;
        }
    }
    return state_before(r, role, name);
}

static double number_now(Run *r, const char *name, double otherwise)
{
    Value *v = state_now(r, ATTR_state, name);
    return v != NULL ? v->v[0] : otherwise;
}

static double number_before(Run *r, const char *name, double otherwise)
{
    Value *v = state_before(r, ATTR_state, name);
    return v != NULL ? v->v[0] : otherwise;
}

static Value *scalar(Run *r, DType dt, double x)
{
    Value *v = value_new(r->in->arena, dt, 0, NULL);
    v->v[0] = x;
    return v;
}

static const char *state_name(Run *r, const char *owner, const char *field, const char *of)
{
    return of != NULL ? arena_printf(r->in->arena, "%s.%s.%s", owner, field, of)
                      : arena_printf(r->in->arena, "%s.%s", owner, field);
}

static const Decl *decl_of(Run *r, const Node *n, AttrId id, DeclKind kind)
{
    const char *name = attrs_str(&n->attrs, id);
    const Decl *d = name != NULL ? module_find(r->in->module, kind, name) : NULL;
    if (d == NULL && name != NULL) {
        ICE("there is no %s '%s'", decl_name[kind], name);
    }
    return d;
}

/* An enabled scaler, or NULL. */
static const Decl *scaler_of(Run *r, const Node *n)
{
    const Decl *d = decl_of(r, n, ATTR_scaler, DECL_scaler);
    return d != NULL && attrs_bool(&d->attrs, ATTR_enabled) ? d : NULL;
}

static double scale_of(Run *r, const Decl *scaler)
{
    double first = attrs_float(&scaler->attrs, ATTR_init_scale, 65536);
    return number_before(r, state_name(r, scaler->name, "scale", NULL), first);
}

static StepNote *note_of(Run *r, const char *optimizer)
{
    for (StepNote *s = r->notes; s != NULL; s = s->next) {
        if (str_eq(s->optimizer, optimizer)) {
            return s;
        }
    }
    StepNote *s = ARENA_NEW(r->in->arena, StepNote);
    *s = (StepNote){.optimizer = optimizer, .next = r->notes};
    r->notes = s;
    return s;
}

/* ---- sets of gradients ----------------------------------------------------------------------- */

static Value *new_set(Run *r, int n)
{
    Value *v = value_new(r->in->arena, DT_grads, 0, NULL);
    v->nmembers = n;
    v->members = ARENA_ARRAY(r->in->arena, Value *, n);
    v->names = ARENA_ARRAY(r->in->arena, const char *, n);
    v->unscaled = ARENA_ARRAY(r->in->arena, bool, n + 1);
    v->bad = ARENA_ARRAY(r->in->arena, bool, n + 1);
    return v;
}

static void copy_member(Run *r, Value *to, int at, const Value *from, int i)
{
    to->members[at] = copy_value(r, from->members[i]);
    to->names[at] = from->names[i];
    to->unscaled[at] = from->unscaled[i];
    to->bad[at] = from->bad[i];
}

/* The members themselves are copied: markers change them. */
static Value *copy_set(Run *r, const Value *x)
{
    Value *v = new_set(r, x->nmembers);
    for (int i = 0; i < x->nmembers; i++) {
        copy_member(r, v, i, x, i);
    }
    return v;
}

/* Arithmetic of gradients and optimizers: f32 in typed mode, f64 for f64. */
static Reals reals_for(const Run *r, const Value *x)
{
    return reals_of(r, x->dtype == DT_f64 ? DT_f64 : DT_f32);
}

static void multiply(Run *r, Value *x, double factor)
{
    Reals k = reals_for(r, x);
    for (int64_t i = 0; i < x->count; i++) {
        x->v[i] = reals_round(k, x->v[i] * reals_round(k, factor));
    }
}

Value *mark_gradients(Run *r, const Node *n, Value *const *in)
{
    Value *v = new_set(r, n->nin);
    const Attr *params = attrs_find(&n->attrs, ATTR_params);
    for (int i = 0; i < n->nin; i++) {
        v->members[i] = in[i];
        v->names[i] = params->strs.v[i];
    }
    return v;
}

static int member_of(const Value *set, const char *name)
{
    for (int i = 0; i < set->nmembers; i++) {
        if (str_eq(set->names[i], name)) {
            return i;
        }
    }
    return -1;
}

Value *mark_more_gradients(Run *r, const Node *n, Value *const *in)
{
    (void)n;
    Value *v = new_set(r, in[0]->nmembers + in[1]->nmembers);
    v->nmembers = 0;
    for (int i = 0; i < in[0]->nmembers; i++) {
        copy_member(r, v, v->nmembers++, in[0], i);
    }
    for (int i = 0; i < in[1]->nmembers; i++) {
        int at = member_of(v, in[1]->names[i]);
        if (at < 0) {
            copy_member(r, v, v->nmembers++, in[1], i);
            continue;
        }
        Value *sum = v->members[at];
        Reals k = reals_for(r, sum);
        for (int64_t e = 0; e < sum->count; e++) {
            sum->v[e] = reals_round(k, sum->v[e] + in[1]->members[i]->v[e]);
        }
    }
    return v;
}

Value *mark_forget(Run *r, const Node *n, Value *const *in)
{
    const Decl *optimizer = decl_of(r, n, ATTR_optimizer, DECL_optimizer);
    Value *v = new_set(r, in[0]->nmembers);
    v->nmembers = 0;
    for (int i = 0; i < in[0]->nmembers; i++) {
        if (!optimizer_moves(optimizer, in[0]->names[i])) {
            copy_member(r, v, v->nmembers++, in[0], i);
        }
    }
    return v;
}

/* What the newest step has set, else the parameter itself. */
Value *mark_stepped(Run *r, const Node *n, Value *const *in)
{
    Value *now =
        r->state != NULL ? state_now(r, ATTR_param, attrs_str(&n->in[1]->attrs, ATTR_param)) : NULL;
    return now != NULL ? now : in[1];
}

/* ---- accumulation ---------------------------------------------------------------------------- */

/* The sum so far, plus what is new: weight * x. */
static void keep_sum(Run *r, const char *name, const Value *x, double weight, bool first)
{
    const Value *old = first ? NULL : state_before(r, ATTR_state, name);
    Value *sum = copy_value(r, x);
    Reals k = reals_for(r, x);
    for (int64_t i = 0; i < sum->count; i++) {
        sum->v[i] = reals_round(k, x->v[i] * weight);
        sum->v[i] = old != NULL ? reals_round(k, old->v[i] + sum->v[i]) : sum->v[i];
    }
    set_state(r, name, sum);
}

Value *mark_accumulate(Run *r, const Node *n, Value *const *in)
{
    bool first = in[1]->v[0] != 0;
    double weight = n->nin > 2 ? in[2]->v[0] : 1;
    for (int i = 0; i < in[0]->nmembers; i++) {
        keep_sum(r, state_name(r, in[0]->names[i], "grad", NULL), in[0]->members[i], weight, first);
    }
    if (n->nin > 2) {
        keep_sum(r, ACCUMULATED_WEIGHT, in[2], 1, first);
    }
    return in[0];
}

/* Which parameters it has is not known before the pass that looks for its accumulate. */
Value *mark_accumulated(Run *r, const Node *n, Value *const *in)
{
    (void)r, (void)n, (void)in;
    return NULL;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The nodes that a value is computed from. */
static bool *cone_of(Run *r, const Node *value)
{
    bool *cone = ARENA_ARRAY(r->in->arena, bool, r->g->nnodes);
    cone[value->id] = true;
    for (int i = value->id; i >= 0; i--) {
        for (int k = 0; cone[i] && k < r->g->nodes[i]->nin; k++) {
            cone[r->g->nodes[i]->in[k]->id] = true;
        }
    }
    return cone;
}

static double loss_again(Run *r, Run *trial, const bool *cone, const Node *loss, const Node *param)
{
    for (int i = 0; i <= loss->id; i++) {
        if (cone[i] && r->g->nodes[i]->op != OP_arg) {
            run_node(trial, r->g->nodes[i]);
        } else {
            trial->v[i] = i == param->id ? trial->v[i] : r->v[i];
        }
    }
    return trial->v[loss->id]->v[0];
}

/* d loss / d param, element by element, by a central difference. */
static Value *differentiate(Run *r, const bool *cone, const Node *loss, const Node *param)
{
    Value *x = copy_value(r, r->v[param->id]), *gradient = run_value(r, param);
    for (int64_t i = 0; i < x->count; i++) {
        Interp in = *r->in;
        in.arena = arena_new();
        Run trial = {.in = &in, .g = r->g, .frozen = r->v};
        trial.v = ARENA_ARRAY(in.arena, Value *, r->g->nnodes);
        trial.v[param->id] = x;
        double at = x->v[i], h = 6e-6 * fmax(1, fabs(at));
        x->v[i] = at + h;
        double up = loss_again(r, &trial, cone, loss, param);
        x->v[i] = at - h;
        double down = loss_again(r, &trial, cone, loss, param);
        x->v[i] = at;
        gradient->v[i] = (up - down) / (2 * h);
        arena_free(in.arena);
    }
    return gradient;
}

Value *mark_backward(Run *r, const Node *n, Value *const *in)
{
    (void)in;
    const Node *loss = n->in[0];
    const char *model = attrs_str(&n->attrs, ATTR_model);
    const bool *cone = cone_of(r, loss);
    for (int i = 0; i < loss->id; i++) {
        if (cone[i] && r->g->nodes[i]->op == OP_own_grad) {
            return NULL; /* no difference of losses shows what the file calls a derivative */
        }
    }
    int nparams = 0;
    int64_t count = 0;
    Node **params = ARENA_ARRAY(r->in->arena, Node *, r->g->nnodes);
    for (int i = 0; i < loss->id; i++) {
        Node *p = r->g->nodes[i];
        const char *name = p->op == OP_arg ? attrs_str(&p->attrs, ATTR_param) : NULL;
        if (cone[i] && name != NULL && param_in_model(name, model)) {
            params[nparams++] = p;
            count += r->v[i]->count;
        }
    }
    if (r->in->mode != INTERP_f64 || count > MAX_DIFFERENCED) {
        return NULL;
    }
    Value *set = new_set(r, nparams);
    for (int i = 0; i < nparams; i++) {
        set->members[i] = differentiate(r, cone, loss, params[i]);
        set->names[i] = attrs_str(&params[i]->attrs, ATTR_param);
    }
    return set;
}

/* ---- scaling and clipping -------------------------------------------------------------------- */

Value *mark_scale_loss(Run *r, const Node *n, Value *const *in)
{
    const Decl *scaler = scaler_of(r, n);
    Value *v = copy_value(r, in[0]);
    if (scaler != NULL) {
        v->v[0] = run_convert(r, DT_f64, n->dtype, v->v[0] * scale_of(r, scaler));
    }
    return v;
}

/* Looks at the gradients of one optimizer before it multiplies them by float(1 / scale). */
static void unscale(Run *r, Value *set, const Decl *optimizer, const Decl *scaler)
{
    StepNote *note = note_of(r, optimizer->name);
    double inverse = round_to(DT_f32, 1 / scale_of(r, scaler));
    note->scaler = scaler->name;
    bool bad = false;
    for (int i = 0; i < set->nmembers; i++) {
        Value *g = set->members[i];
        if (!optimizer_moves(optimizer, set->names[i])) {
            continue;
        }
        for (int64_t k = 0; k < g->count; k++) {
            bad = bad || !isfinite(g->v[k]);
        }
        multiply(r, g, inverse);
    }
    for (int i = 0; i < set->nmembers; i++) {
        if (optimizer_moves(optimizer, set->names[i])) {
            set->unscaled[i] = true;
            set->bad[i] = bad;
        }
    }
    note->bad = note->bad || bad;
}

Value *mark_unscale(Run *r, const Node *n, Value *const *in)
{
    const Decl *scaler = scaler_of(r, n);
    Value *set = copy_set(r, in[0]);
    if (scaler != NULL) {
        unscale(r, set, decl_of(r, n, ATTR_optimizer, DECL_optimizer), scaler);
    }
    return set;
}

Value *mark_clip_grad_norm(Run *r, const Node *n, Value *const *in)
{
    Value *set = copy_set(r, in[0]);
    const char *model = attrs_str(&n->attrs, ATTR_model);
    double sum = 0;
    for (int i = 0; i < set->nmembers; i++) {
        const Value *g = set->members[i];
        for (int64_t k = 0; k < g->count && param_in_model(set->names[i], model); k++) {
            sum += g->v[k] * g->v[k];
        }
    }
    double coefficient = attrs_float(&n->attrs, ATTR_max_norm, INFINITY) / (sqrt(sum) + 1e-6);
    for (int i = 0; i < set->nmembers; i++) {
        if (param_in_model(set->names[i], model)) {
            multiply(r, set->members[i], coefficient > 1 ? 1 : coefficient);
        }
    }
    return set;
}

Value *mark_clip_grad_value(Run *r, const Node *n, Value *const *in)
{
    Value *set = copy_set(r, in[0]);
    const char *model = attrs_str(&n->attrs, ATTR_model);
    double limit = attrs_float(&n->attrs, ATTR_clip_value, INFINITY);
    for (int i = 0; i < set->nmembers; i++) {
        Value *g = set->members[i];
        double most = reals_round(reals_for(r, g), limit);
        for (int64_t k = 0; k < g->count && param_in_model(set->names[i], model); k++) {
            g->v[k] = g->v[k] > most ? most : g->v[k] < -most ? -most : g->v[k];
        }
    }
    return set;
}

/* ---- optimizers ------------------------------------------------------------------------------ */

/* Hyperparameters in double, as the host program gives them. */
typedef struct Hyper {
    double lr, momentum, dampening, beta1, beta2, eps, weight_decay;
    bool nesterov;
    double t; /* this step, counted from 1 */
} Hyper;

static double hyper(Run *r, const Decl *d, const Decl *group, AttrId id, double otherwise)
{
    const HostExpr *e = module_hyper(d, group, id);
    if (e != NULL && e->kind == HE_num) {
        return e->num;
    }
    return e != NULL && r->in->host != NULL ? r->in->host(r->in->ctx, e) : otherwise;
}

/* For the parameters of a group, NULL: for all others. */
static Hyper hyper_of(Run *r, const Decl *d, const Decl *group)
{
    Hyper h = {
        .momentum = hyper(r, d, group, ATTR_momentum, 0),
        .dampening = hyper(r, d, group, ATTR_dampening, 0),
        .beta1 = hyper(r, d, group, ATTR_beta1, 0.9),
        .beta2 = hyper(r, d, group, ATTR_beta2, 0.999),
        .eps = hyper(r, d, group, ATTR_eps, 1e-8),
        .weight_decay = hyper(r, d, group, ATTR_weight_decay, 0),
        .nesterov = attrs_bool(&d->attrs, ATTR_nesterov),
        .t = 1 + number_now(r, state_name(r, d->name, "step", NULL), 0),
    };
    bool own = group != NULL && attrs_expr(&group->attrs, ATTR_base_lr) != NULL;
    const char *rated = own ? group->name : d->name;
    const Node *arg = find_arg(r, ATTR_lr, rated);
    Value *lr = arg != NULL ? r->v[arg->id] : NULL;
    if (lr == NULL && r->in->tensor != NULL) {
        lr = r->in->tensor(r->in->ctx, state_name(r, rated, "lr", NULL));
    }
    h.lr = lr != NULL ? lr->v[0] : hyper(r, d, group, ATTR_base_lr, 0);
    return h;
}

/* One element: the parameter's and the buffers' next values. */
typedef double Rule(Reals k, const Hyper *h, double p, double g, double *m, double *v);

static double rule_sgd(Reals k, const Hyper *h, double p, double g, double *m, double *v)
{
    (void)v;
    double direction = g;
    if (h->weight_decay != 0) {
        g = reals_round(k, g + reals_round(k, reals_round(k, h->weight_decay) * p));
        direction = g;
    }
    if (h->momentum != 0) {
        double mu = reals_round(k, h->momentum), share = reals_round(k, 1 - h->dampening);
        *m = h->t == 1 ? g : reals_round(k, reals_round(k, mu * *m) + reals_round(k, share * g));
        direction = h->nesterov ? reals_round(k, g + reals_round(k, mu * *m)) : *m;
    }
    return reals_round(k, p - reals_round(k, reals_round(k, h->lr) * direction));
}

static double average(Reals k, double old, double x, double decay)
{
    return reals_round(k, reals_round(k, reals_round(k, decay) * old) +
                              reals_round(k, reals_round(k, 1 - decay) * x));
}

static double adam_update(Reals k, const Hyper *h, double p, double g, double *m, double *v)
{
    *m = average(k, *m, g, h->beta1);
    *v = average(k, *v, reals_round(k, g * g), h->beta2);
    double step = reals_round(k, h->lr / (1 - pow(h->beta1, h->t)));
    double root = reals_round(k, sqrt(1 - pow(h->beta2, h->t)));
    double spread = reals_round(k, reals_sqrt(k, *v) / root);
    double below = reals_round(k, spread + reals_round(k, h->eps));
    return reals_round(k, p - reals_round(k, step * reals_round(k, *m / below)));
}

static double rule_adam(Reals k, const Hyper *h, double p, double g, double *m, double *v)
{
    g = reals_round(k, g + reals_round(k, reals_round(k, h->weight_decay) * p));
    return adam_update(k, h, p, g, m, v);
}

static double rule_adamw(Reals k, const Hyper *h, double p, double g, double *m, double *v)
{
    p = reals_round(k, p * reals_round(k, 1 - h->lr * h->weight_decay));
    return adam_update(k, h, p, g, m, v);
}

static const struct OptimizerKind {
    const char *kind;
    Rule *rule;
    const char *buffers[2];
} optimizer_kinds[] = {
    {"sgd", rule_sgd, {"momentum_buffer", NULL}},
    {"adam", rule_adam, {"exp_avg", "exp_avg_sq"}},
    {"adamw", rule_adamw, {"exp_avg", "exp_avg_sq"}},
};

static const struct OptimizerKind *kind_of(const Decl *d)
{
    const char *kind = attrs_str(&d->attrs, ATTR_kind);
    for (size_t i = 0; i < sizeof optimizer_kinds / sizeof optimizer_kinds[0]; i++) {
        if (str_eq(kind, optimizer_kinds[i].kind)) {
            return &optimizer_kinds[i];
        }
    }
    ICE("there is no optimizer of the kind '%s'", kind != NULL ? kind : "");
}

static void step_param(Run *r, const Decl *d, const Hyper *h, const char *name, const Value *grad,
                       bool skip)
{
    const struct OptimizerKind *kind = kind_of(d);
    Value *old = state_now(r, ATTR_param, name);
    if (old == NULL) {
        ICE("nobody knows the value of parameter '%s'", name);
    }
    Value *p = copy_value(r, old), *buffer[2] = {NULL};
    const char *buffer_name[2] = {NULL};
    for (int i = 0; i < 2 && kind->buffers[i] != NULL; i++) {
        buffer_name[i] = state_name(r, d->name, kind->buffers[i], name);
        Value *before = state_now(r, ATTR_state, buffer_name[i]);
        buffer[i] = before != NULL ? copy_value(r, before)
                                   : value_new(r->in->arena, p->dtype, p->rank, p->dims);
    }
    bool keeps = kind->rule != rule_sgd || h->momentum != 0;
    Reals k = reals_for(r, p);
    for (int64_t i = 0; i < p->count && !skip; i++) {
        double none = 0;
        double *m = buffer[0] != NULL ? &buffer[0]->v[i] : &none;
        double *v = buffer[1] != NULL ? &buffer[1]->v[i] : &none;
        p->v[i] = run_convert(r, DT_f64, p->dtype, kind->rule(k, h, p->v[i], grad->v[i], m, v));
    }
    set_state(r, name, p);
    for (int i = 0; i < 2 && keeps && buffer[i] != NULL; i++) {
        set_state(r, buffer_name[i], buffer[i]);
    }
}

/* A step that is skipped leaves what the forward wrote, too: running statistics. */
static void keep_forward_states(Run *r)
{
    for (int i = 0; i < r->g->nresults; i++) {
        const Result *result = &r->g->results[i];
        const Tensor *t = result->kind == RESULT_State && r->in->module != NULL
                              ? module_find_tensor(r->in->module, result->name)
                              : NULL;
        if (t == NULL || t->role != TENSOR_state) {
            continue;
        }
        const Tensor *before = module_before(r->in->module, r->g, t);
        Value *old = state_before(r, ATTR_state, before != NULL ? before->name : t->name);
        if (old != NULL) {
            set_state(r, t->name, old);
        }
    }
}

Value *mark_optimizer_step(Run *r, const Node *n, Value *const *in)
{
    const Decl *d = decl_of(r, n, ATTR_optimizer, DECL_optimizer), *scaler = scaler_of(r, n);
    Value *set = copy_set(r, in[0]);
    bool unscaled = false, skip = false;
    for (int i = 0; i < set->nmembers; i++) {
        unscaled = unscaled || (set->unscaled[i] && optimizer_moves(d, set->names[i]));
    }
    if (scaler != NULL && !unscaled) {
        unscale(r, set, d, scaler);
    }
    for (int i = 0; i < set->nmembers && scaler != NULL; i++) {
        skip = skip || (set->bad[i] && optimizer_moves(d, set->names[i]));
    }
    if (skip) {
        keep_forward_states(r);
    }
    Hyper h = hyper_of(r, d, NULL);
    for (int i = 0; i < set->nmembers; i++) {
        if (optimizer_moves(d, set->names[i])) {
            h = hyper_of(r, d, module_group(r->in->module, d, set->names[i]));
            step_param(r, d, &h, set->names[i], set->members[i], skip);
        }
    }
    set_state(r, state_name(r, d->name, "step", NULL), scalar(r, DT_i64, skip ? h.t - 1 : h.t));
    return set;
}

Value *mark_scaler_update(Run *r, const Node *n, Value *const *in)
{
    const Decl *d = scaler_of(r, n);
    if (d == NULL) {
        return in[0];
    }
    bool bad = false;
    for (StepNote *s = r->notes; s != NULL; s = s->next) {
        bad = bad || (s->bad && str_eq(s->scaler, d->name));
    }
    const char *tracker_name = state_name(r, d->name, "tracker", NULL);
    double scale = scale_of(r, d), tracker = number_before(r, tracker_name, 0);
    double grown = round_to(DT_f32, scale * attrs_float(&d->attrs, ATTR_growth_factor, 2));
    if (bad) {
        scale = round_to(DT_f32, scale * attrs_float(&d->attrs, ATTR_backoff_factor, 0.5));
        scale = fmax(scale, attrs_float(&d->attrs, ATTR_scale_min, 1));
        tracker = 0;
    } else if (++tracker == (double)attrs_int(&d->attrs, ATTR_growth_interval, 2000)) {
        scale =
            isfinite(grown) ? fmin(grown, attrs_float(&d->attrs, ATTR_scale_max, 0x1p24)) : scale;
        tracker = 0;
    }
    set_state(r, state_name(r, d->name, "scale", NULL), scalar(r, DT_f32, scale));
    set_state(r, tracker_name, scalar(r, DT_i64, tracker));
    return in[0];
}

/* A step of an optimizer that moves some of these parameters was skipped. */
static bool skipped_any(Run *r, const Attr *params)
{
    bool any = false;
    for (const StepNote *s = r->notes; s != NULL; s = s->next) {
        const Decl *d = module_find(r->in->module, DECL_optimizer, s->optimizer);
        for (int i = 0; s->bad && !any && i < params->strs.n; i++) {
            any = optimizer_moves(d, params->strs.v[i]);
        }
    }
    return any;
}

Value *mark_ema_update(Run *r, const Node *n, Value *const *in)
{
    const Decl *d = decl_of(r, n, ATTR_ema, DECL_ema);
    const Attr *params = attrs_find(&d->attrs, ATTR_params);
    const char *counter = state_name(r, d->name, "updates", NULL);
    double t = number_now(r, counter, 0), decay = hyper(r, d, NULL, ATTR_decay, 0.999);
    decay = attrs_bool(&d->attrs, ATTR_warmup) ? fmin(decay, (1 + t) / (10 + t)) : decay;
    bool skip = skipped_any(r, params);
    for (int i = 0; i < params->strs.n && !skip; i++) {
        const Value *p = state_now(r, ATTR_param, params->strs.v[i]);
        const char *name = state_name(r, d->name, params->strs.v[i], NULL);
        const Value *old = state_now(r, ATTR_state, name);
        if (p == NULL || old == NULL) {
            ICE("nobody knows the average of parameter '%s'", params->strs.v[i]);
        }
        Value *next = copy_value(r, old);
        Reals k = reals_for(r, next);
        double share = reals_round(k, 1 - decay);
        for (int64_t e = 0; e < next->count; e++) {
            double step = reals_round(k, share * reals_round(k, p->v[e] - old->v[e]));
            next->v[e] = t == 0 ? p->v[e] : reals_round(k, old->v[e] + step);
        }
        set_state(r, name, next);
    }
    set_state(r, counter, scalar(r, DT_i64, skip ? t : t + 1));
    return in[0];
}
