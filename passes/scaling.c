/* scaling.c: expands the markers between the gradients and the next state.
 *
 * Needs:   gradients as `gradients %g1, .. {params}`; markers of scaler, clipping and optimizers behind it.
 * Leaves:  plain ops; results for parameters, moments, step counters and scalers; the host's "step.grad_norm",
 *          "step.skipped", "step.first_bad", "step.scale", "step.scale_next"; no marker.
 *
 *   %t = optimizer_step %g     ->   %s = sum of squares of the gradients, f64
 *     {optimizer, scaler}           %bad = not (isfinite %s)
 *                                   %g' = mul %g, f32(1 / f64(scale))
 *                                   %p' = sub %p, (lr * %g')
 *                                   result "w" = where %bad, %p, %p'     (tests/passes/scaling-sgd.ir)
 *
 * The finite check looks at the gradients before they are multiplied; it and the norm are one reduction, since
 * a sum of squares of f32 numbers in f64 is finite exactly when all of them are. On a bad step every state
 * result, the step counter and states written by the forward included, is the old value.
 * The rule of the scale is PyTorch's, with a floor and a ceiling.
 *
 * Proved on the way, an error otherwise: every gradient is unscaled exactly once between loss and optimizer, and
 * clipped only after that. */
#include <math.h>

#include "ir/base/strutil.h"
#include "ir/base/vec.h"
#include "passes/gradients.h"
#include "passes/update.h"

typedef struct Flag {
    const Decl *scaler, *optimizer;
    Node *bad;    /* bool: the gradients of the optimizer are not finite */
    bool counted; /* the scale has moved since */
} Flag;

typedef struct Scaling {
    PassCtx *c;
    Graph *g;
    Builder b;
    Node *first_bad; /* i32, see find_first_bad(); NULL before the first check */
    NodeMap sets;    /* marker -> GradSet */
    NodeMap scalers; /* gradients -> the scaler of its loss */
    VEC(Flag) flags;
    bool normed, failed;
} Scaling;

static const Dims no_dims = {0};

/* ---- words --------------------------------------------------------------------------------------- */

static Node *op1(Scaling *s, Op op, Node *x)
{
    return build1(&s->b, op, x);
}

static Node *op2(Scaling *s, Op op, Node *x, Node *y)
{
    return build2(&s->b, op, x, y);
}

static Node *f64(Scaling *s, Node *x)
{
    return build_cast(&s->b, x, DT_f64);
}

static Node *number(Scaling *s, DType dt, double x)
{
    return build_const(&s->b, dt, x);
}

static Node *where(Scaling *s, Node *cond, Node *x, Node *y)
{
    return build3(&s->b, OP_where, cond, x, y);
}

static void fail(Scaling *s, const Node *at, const char *message)
{
    diag_error(s->c->diag, at->loc, "%s: %s", op_info[at->op].name, message);
    s->failed = true;
}

/* ---- state --------------------------------------------------------------------------------------- */

static Tensor *state_tensor(Scaling *s, const char *name, TensorRole role, DType dt,
                            const Dims *dims, double init)
{
    Tensor *t = module_find_tensor(s->c->m, name);
    if (t == NULL) {
        t = module_tensor(s->c->m, name, role, dt, dims);
        t->loc = s->b.loc;
        attrs_set_str(s->c->arena, &t->init, ATTR_kind, init == 0 ? "zeros" : "constant");
        if (init != 0) {
            attrs_set_float(s->c->arena, &t->init, ATTR_low, init);
        }
    }
    return t;
}

/* The value of a tensor at this point of the graph. */
static Node *state_now(Scaling *s, const Tensor *t)
{
    for (int i = 0; i < s->g->nresults; i++) {
        if (s->g->results[i].kind == RESULT_State && str_eq(s->g->results[i].name, t->name)) {
            return s->g->results[i].value;
        }
    }
    return pass_arg(s->c, s->g, t->role == TENSOR_param ? ATTR_param : ATTR_state, t->name,
                    t->dtype, &t->dims);
}

/* The tensor's next value, unless the step is bad (NULL: nobody asks). */
static void set_state(Scaling *s, const Tensor *t, Node *bad, Node *next)
{
    next = build_cast(&s->b, next, t->dtype);
    graph_result(s->g, RESULT_State, t->name,
                 bad == NULL ? next : where(s, bad, state_now(s, t), next));
}

static void host_result(Scaling *s, const char *name, Node *value)
{
    graph_result(s->g, RESULT_Host, name, value);
}

/* ---- the scaler's numbers ------------------------------------------------------------------------ */

/* The declaration of a marker's scaler; NULL when it names none or a disabled one. */
static const Decl *enabled_scaler(const Scaling *s, const Node *n)
{
    const char *name = attrs_str(&n->attrs, ATTR_scaler);
    const Decl *d = name != NULL ? module_find(s->c->m, DECL_scaler, name) : NULL;
    if (name != NULL && d == NULL) {
        ICE("%s names the scaler %s, which is not declared", op_info[n->op].name, name);
    }
    return d != NULL && attrs_bool(&d->attrs, ATTR_enabled) ? d : NULL;
}

static const Tensor *scale_tensor(Scaling *s, const Decl *scaler)
{
    return state_tensor(s, arena_printf(s->c->arena, "%s.scale", scaler->name), TENSOR_scaler,
                        DT_f32, &no_dims, attrs_float(&scaler->attrs, ATTR_init_scale, 65536));
}

static const Tensor *tracker_tensor(Scaling *s, const Decl *scaler)
{
    return state_tensor(s, arena_printf(s->c->arena, "%s.tracker", scaler->name), TENSOR_scaler,
                        DT_i64, &no_dims, 0);
}

/* The scale of this call: multiplying the loss and unscaling use the same, whatever happens later. */
static Node *scale_arg(Scaling *s, const Decl *scaler)
{
    const Tensor *t = scale_tensor(s, scaler);
    return pass_arg(s->c, s->g, ATTR_state, t->name, t->dtype, &t->dims);
}

static Node *expand_scale_loss(Scaling *s, Node *n)
{
    const Decl *scaler = enabled_scaler(s, n);
    Node *x = n->in[0];
    if (scaler == NULL) {
        return x;
    }
    s->b.why = WHY_UPDATE "the loss scale keeps small gradients representable";
    DType type = x->dtype == DT_f64 ? DT_f64 : DT_f32;
    Node *scale = build_cast(&s->b, scale_arg(s, scaler), type);
    Node *scaled = op2(s, OP_mul, build_cast(&s->b, x, type), scale);
    return build_cast(&s->b, scaled, x->dtype);
}

/* ---- norms --------------------------------------------------------------------------------------- */

static Node *sum_of_squares(Scaling *s, Grad *g)
{
    if (g->squares == NULL) {
        s->b.why = WHY_UPDATE "norm and finite check in f64";
        const char *before = s->b.name;
        Node *square = op1(s, OP_square, f64(s, g->value));
        s->b.name = arena_printf(s->c->arena, "%s.sumsq", g->param);
        g->squares = build_reduce(&s->b, OP_sum, square, -1, NULL, false);
        s->b.name = before;
        g->inverse = NULL; /* the squares are those of the value as it is now */
    }
    return g->squares;
}

static Node *sum_all(Scaling *s, int n, Node *const *x)
{
    Node *sum = x[0];
    for (int i = 1; i < n; i++) {
        sum = op2(s, OP_add, sum, x[i]);
    }
    return sum;
}

/* Global norm of the true gradients of a model (NULL: of all), f64. */
static Node *norm_of(Scaling *s, GradSet *set, const char *model)
{
    Node **total = ARENA_ARRAY(s->c->scratch, Node *, set->n), *inverse = NULL;
    int groups = 0;
    s->b.why = WHY_UPDATE "norm and finite check in f64";
    for (int i = 0; i < set->n;) {
        /* Squares of one unscaling are added first: the scale leaves the sum as one factor. */
        Node **squares = ARENA_ARRAY(s->c->scratch, Node *, set->n);
        int n = 0;
        inverse = NULL;
        for (; i < set->n; i++) {
            if (!param_in_model(set->v[i].param, model) || !grad_is_true(&set->v[i])) {
                continue;
            }
            Node *of = sum_of_squares(s, &set->v[i]);
            if (n > 0 && set->v[i].inverse != inverse) {
                break;
            }
            inverse = set->v[i].inverse;
            squares[n++] = of;
        }
        if (n > 0) {
            Node *sum = sum_all(s, n, squares);
            total[groups++] =
                inverse == NULL ? sum : op2(s, OP_mul, sum, op2(s, OP_mul, inverse, inverse));
        }
    }
    return groups == 0 ? number(s, DT_f64, 0) : op1(s, OP_sqrt, sum_all(s, groups, total));
}

/* The norm that the log shows: of the true gradients, before the first clipping. */
static Node *report_norm(Scaling *s, GradSet *set, const char *model)
{
    Node *norm = norm_of(s, set, model);
    if (!s->normed) {
        host_result(s, "step.grad_norm", build_cast(&s->b, norm, DT_f32));
        s->normed = true;
    }
    return norm;
}

/* ---- unscaling and clipping ---------------------------------------------------------------------- */

static const Decl *marker_optimizer(const Scaling *s, const Node *n)
{
    const char *name = attrs_str(&n->attrs, ATTR_optimizer);
    const Decl *d = name != NULL ? module_find(s->c->m, DECL_optimizer, name) : NULL;
    if (d == NULL) {
        ICE("%s names an optimizer that is not declared", op_info[n->op].name);
    }
    return d;
}

/* Says of an unscaled optimizer whether its gradients are bad; NULL: they are not unscaled. */
static Node *find_bad(const GradSet *set, const Decl *optimizer)
{
    for (int i = 0; i < set->n; i++) {
        if (set->v[i].bad != NULL && optimizer_moves(optimizer, set->v[i].param)) {
            return set->v[i].bad;
        }
    }
    return NULL;
}

/* A gradient times a scalar that readers should find by its name. */
static void multiply(Scaling *s, Grad *g, Node *factor, const char *name)
{
    s->b.name = name;
    Node *cast = build_cast(&s->b, factor, g->value->dtype);
    s->b.name = arena_printf(s->c->arena, "%s.grad", g->param);
    g->value = op2(s, OP_mul, g->value, cast);
}

/* The number that a gradient has among those of all checks; says what and where it is. */
static int64_t note_checked(Scaling *s, const Grad *g)
{
    Decl *d = NULL; /* the first scaler has the list for all */
    for (int i = s->c->m->ndecls - 1; i >= 0; i--) {
        d = s->c->m->decls[i]->kind == DECL_scaler ? s->c->m->decls[i] : d;
    }
    const Attr *names = attrs_find(&d->attrs, ATTR_checked);
    const Attr *ops = attrs_find(&d->attrs, ATTR_checked_ops);
    const Attr *lines = attrs_find(&d->attrs, ATTR_checked_lines);
    int n = names != NULL && ops != NULL && lines != NULL ? names->strs.n : 0;
    const char **name = ARENA_ARRAY(s->c->arena, const char *, n + 1);
    const char **op = ARENA_ARRAY(s->c->arena, const char *, n + 1);
    int64_t *line = ARENA_ARRAY(s->c->arena, int64_t, n + 1);
    for (int i = 0; i < n; i++) {
        name[i] = names->strs.v[i];
        op[i] = ops->strs.v[i];
        line[i] = lines->ints.v[i];
    }
    name[n] = g->param;
    op[n] = arena_printf(s->c->arena, "%s%s", op_info[g->value->op].name,
                         in_file_text(s->c->arena, s->c->m, g->value->loc));
    line[n] = g->value->loc.line;
    attrs_set_strs(s->c->arena, &d->attrs, ATTR_checked, n + 1, name);
    attrs_set_strs(s->c->arena, &d->attrs, ATTR_checked_ops, n + 1, op);
    attrs_set_ints(s->c->arena, &d->attrs, ATTR_checked_lines, n + 1, line);
    return n;
}

/* For the log: the number of the first gradient that is not finite, -1 where all are. */
static void find_first_bad(Scaling *s, GradSet *set, const Decl *optimizer)
{
    int64_t *numbers = ARENA_ARRAY(s->c->scratch, int64_t, set->n);
    for (int i = 0; i < set->n; i++) {
        if (optimizer_moves(optimizer, set->v[i].param)) {
            numbers[i] = note_checked(s, &set->v[i]);
        }
    }
    Node *first = s->first_bad != NULL ? s->first_bad : number(s, DT_i32, -1);
    for (int i = set->n - 1; i >= 0; i--) {
        if (optimizer_moves(optimizer, set->v[i].param)) {
            Node *finite = op1(s, OP_isfinite, sum_of_squares(s, &set->v[i]));
            first = where(s, finite, first, number(s, DT_i32, (double)numbers[i]));
        }
    }
    s->first_bad = first;
}

/* Checks, then multiplies an optimizer's gradients by float(1 / scale). */
static void unscale(Scaling *s, const Node *n, GradSet *set, const Decl *optimizer,
                    const Decl *scaler)
{
    if (find_bad(set, optimizer) != NULL) {
        fail(s, n, "the gradients of this optimizer are unscaled a second time");
        return;
    }
    for (int i = 0; i < set->n; i++) {
        if (optimizer_moves(optimizer, set->v[i].param) && set->v[i].scaler != scaler) {
            fail(s, n,
                 "the loss was not multiplied by the scale of this scaler: "
                 "backward(scaler.scale(loss))");
            return;
        }
    }
    Node **squares = ARENA_ARRAY(s->c->scratch, Node *, set->n);
    int found = 0;
    for (int i = 0; i < set->n; i++) {
        if (optimizer_moves(optimizer, set->v[i].param)) {
            squares[found++] = sum_of_squares(s, &set->v[i]);
        }
    }
    if (found == 0) {
        return;
    }
    s->b.why = WHY_UPDATE "the step is skipped when a gradient is not finite";
    s->b.name = "found_inf";
    Node *bad = op1(s, OP_not, op1(s, OP_isfinite, sum_all(s, found, squares)));
    s->b.name = NULL;
    find_first_bad(s, set, optimizer);
    vec_push(s->c->scratch, &s->flags, ((Flag){scaler, optimizer, bad, false}));
    s->b.why = WHY_UPDATE "gradients divided by the loss scale";
    Node *inverse64 = op2(s, OP_div, number(s, DT_f64, 1), f64(s, scale_arg(s, scaler)));
    s->b.name = "inv_scale";
    Node *inverse = build_cast(&s->b, inverse64, DT_f32);
    Node *factor = f64(s, inverse);
    for (int i = 0; i < set->n; i++) {
        Grad *g = &set->v[i];
        if (optimizer_moves(optimizer, g->param)) {
            multiply(s, g, inverse, "inv_scale");
            g->inverse = factor;
            g->bad = bad;
            g->changed = true;
        }
    }
    s->b.name = NULL;
}

static void check_true(Scaling *s, const Node *n, const Grad *g)
{
    bool step = n->op == OP_optimizer_step;
    if (g->mixed) {
        fail(s, n,
             "these gradients are added to earlier ones, of which some were unscaled, clipped or "
             "taken by a step");
    } else if (g->scaler != NULL && g->bad == NULL) {
        fail(s, n,
             step ? "the gradients are still multiplied by the loss scale: scaler.step(optimizer)"
                  : "the gradients are still multiplied by the loss scale: "
                    "scaler.unscale(optimizer) comes first");
    }
}

static void check_unscaled(Scaling *s, const Node *n, const GradSet *set, const char *model)
{
    for (int i = 0; i < set->n && !s->failed; i++) {
        if (param_in_model(set->v[i].param, model)) {
            check_true(s, n, &set->v[i]);
        }
    }
}

/* min(1, max_norm / (norm + 1e-6)) */
static void clip_norm(Scaling *s, const Node *n, GradSet *set)
{
    const char *model = attrs_str(&n->attrs, ATTR_model);
    check_unscaled(s, n, set, model);
    Node *norm = report_norm(s, set, model);
    s->b.why = WHY_UPDATE "clipped to the largest global norm";
    Node *limit = number(s, DT_f64, attrs_float(&n->attrs, ATTR_max_norm, INFINITY));
    Node *ratio = op2(s, OP_div, limit, op2(s, OP_add, norm, number(s, DT_f64, 1e-6)));
    Node *coefficient = op2(s, OP_minimum, number(s, DT_f64, 1), ratio);
    for (int i = 0; i < set->n; i++) {
        Grad *g = &set->v[i];
        if (param_in_model(g->param, model)) {
            multiply(s, g, coefficient, "clip_coef");
            g->squares = NULL;
            g->changed = true;
        }
    }
    s->b.name = NULL;
}

static void clip_value(Scaling *s, const Node *n, GradSet *set)
{
    const char *model = attrs_str(&n->attrs, ATTR_model);
    check_unscaled(s, n, set, model);
    report_norm(s, set, model);
    s->b.why = WHY_UPDATE "each element clipped";
    double limit = attrs_float(&n->attrs, ATTR_clip_value, INFINITY);
    for (int i = 0; i < set->n; i++) {
        Grad *g = &set->v[i];
        if (param_in_model(g->param, model)) {
            DType dt = g->value->dtype;
            g->value =
                build3(&s->b, OP_clamp, g->value, number(s, dt, -limit), number(s, dt, limit));
            g->squares = NULL;
            g->changed = true;
        }
    }
}

/* ---- optimizer ----------------------------------------------------------------------------------- */

static void update_param(Scaling *s, Update *u, const OptimizerRule *rule, Grad *g, Node *bad)
{
    const Tensor *param = module_find_tensor(s->c->m, g->param);
    Node *p = state_now(s, param), *buf[MAX_BUFFERS] = {NULL};
    const Tensor *kept[MAX_BUFFERS] = {NULL};
    u->type = param->dtype == DT_f64 ? DT_f64 : DT_f32;
    bool keeps = rule->keeps == NULL || rule->keeps(u);
    for (int i = 0; i < MAX_BUFFERS && rule->buffer[i] != NULL && keeps; i++) {
        Tensor *t = state_tensor(
            s, arena_printf(s->c->arena, "%s.%s.%s", u->optimizer->name, rule->buffer[i], g->param),
            TENSOR_moment, u->type, &param->dims, 0);
        t->of = param->name;
        kept[i] = t;
        buf[i] = state_now(s, t);
    }
    Node *next =
        rule->update(u, build_cast(&s->b, p, u->type), build_cast(&s->b, g->value, u->type), buf);
    set_state(s, param, bad, next);
    for (int i = 0; i < MAX_BUFFERS && kept[i] != NULL; i++) {
        set_state(s, kept[i], bad, buf[i]);
    }
}

/* With several optimizers each has its own word about the skip, for its schedule. */
static void report_skip(Scaling *s, const Decl *optimizer, Node *bad)
{
    int optimizers = 0, scalers = 0;
    for (int i = 0; i < s->c->m->ndecls; i++) {
        optimizers += s->c->m->decls[i]->kind == DECL_optimizer;
        scalers += s->c->m->decls[i]->kind == DECL_scaler;
    }
    if (optimizers > 1 && scalers > 0) {
        host_result(s, arena_printf(s->c->arena, "step.skipped.%s", optimizer->name),
                    bad != NULL ? bad : number(s, DT_bool, 0));
    }
}

static void step_optimizer(Scaling *s, const Node *n, GradSet *set)
{
    const Decl *optimizer = marker_optimizer(s, n), *scaler = enabled_scaler(s, n);
    const char *kind = attrs_str(&optimizer->attrs, ATTR_kind);
    const OptimizerRule *rule = optimizer_rule(kind);
    if (rule == NULL) {
        fail(s, n, arena_printf(s->c->scratch, "there is no optimizer of the kind '%s'", kind));
        return;
    }
    if (scaler != NULL && find_bad(set, optimizer) == NULL) {
        unscale(s, n, set, optimizer, scaler);
    }
    for (int i = 0; i < set->n && !s->failed; i++) {
        if (optimizer_moves(optimizer, set->v[i].param)) {
            check_true(s, n, &set->v[i]);
            set->v[i].changed = true;
        }
    }
    if (!s->normed) {
        report_norm(s, set, NULL);
    }
    Node *bad = scaler != NULL ? find_bad(set, optimizer) : NULL;
    report_skip(s, optimizer, bad);
    s->b.why = arena_printf(s->c->arena, WHY_UPDATE "%s in f32", kind);
    const Tensor *step = state_tensor(s, arena_printf(s->c->arena, "%s.step", optimizer->name),
                                      TENSOR_moment, DT_i64, &no_dims, 0);
    Update u = {s->c, s->g, &s->b, optimizer, NULL, state_now(s, step), DT_f32};
    for (int i = 0; i < set->n && !s->failed; i++) {
        if (optimizer_moves(optimizer, set->v[i].param)) {
            s->b.name = set->v[i].param;
            u.group = module_group(s->c->m, optimizer, set->v[i].param);
            update_param(s, &u, rule, &set->v[i], bad);
        }
    }
    s->b.name = NULL;
    set_state(s, step, bad, op2(s, OP_add, u.step, number(s, DT_i64, 1)));
}

/* ---- the scale's next value ---------------------------------------------------------------------- */

/* Any optimizer's gradients that this scaler unscaled since its last update were bad (NULL scaler: any at all);
 * NULL: none was checked. */
static Node *any_bad(Scaling *s, const Decl *scaler)
{
    Node *any = NULL;
    for (int i = 0; i < s->flags.n; i++) {
        const Flag *f = &s->flags.at[i];
        if (scaler == NULL || (f->scaler == scaler && !f->counted)) {
            any = any == NULL ? f->bad : op2(s, OP_or, any, f->bad);
        }
    }
    return any;
}

/* float(scale * factor), the product formed in double */
static Node *rescaled(Scaling *s, Node *scale, double factor)
{
    Node *product = op2(s, OP_mul, f64(s, scale), number(s, DT_f64, factor));
    return build_cast(&s->b, product, DT_f32);
}

static bool several_scalers(const Module *m)
{
    int n = 0;
    for (int i = 0; i < m->ndecls; i++) {
        n += m->decls[i]->kind == DECL_scaler && attrs_bool(&m->decls[i]->attrs, ATTR_enabled);
    }
    return n > 1;
}

static void update_scaler(Scaling *s, const Node *n, GradSet *set)
{
    (void)set;
    const Decl *scaler = enabled_scaler(s, n);
    if (scaler == NULL) {
        return;
    }
    const Tensor *scale_t = scale_tensor(s, scaler), *tracker_t = tracker_tensor(s, scaler);
    Node *scale = state_now(s, scale_t), *tracker = state_now(s, tracker_t);
    Node *bad = any_bad(s, scaler);
    if (bad == NULL) {
        fail(s, n, "no optimizer was stepped by this scaler before");
        return;
    }
    for (int i = 0; i < s->flags.n; i++) {
        s->flags.at[i].counted |= s->flags.at[i].scaler == scaler;
    }
    const Attrs *as = &scaler->attrs;
    s->b.why = WHY_UPDATE "the rule of the loss scale";
    Node *floor_ = number(s, DT_f32, attrs_float(as, ATTR_scale_min, 1));
    Node *ceiling = number(s, DT_f32, attrs_float(as, ATTR_scale_max, 16777216));
    s->b.name = "scale_down";
    Node *lower = rescaled(s, scale, attrs_float(as, ATTR_backoff_factor, 0.5));
    s->b.name = "scale_up";
    Node *higher = rescaled(s, scale, attrs_float(as, ATTR_growth_factor, 2));
    s->b.name = NULL;
    Node *backed_off = op2(s, OP_maximum, lower, floor_);
    Node *grown = where(s, op1(s, OP_isfinite, higher), op2(s, OP_minimum, higher, ceiling), scale);
    Node *count = op2(s, OP_add, tracker, number(s, DT_i64, 1));
    Node *interval = number(s, DT_i64, (double)attrs_int(as, ATTR_growth_interval, 2000));
    Node *full = op2(s, OP_eq, count, interval), *zero = number(s, DT_i64, 0);
    Node *next = where(s, bad, backed_off, where(s, full, grown, scale));
    set_state(s, scale_t, NULL, next);
    set_state(s, tracker_t, NULL, where(s, op2(s, OP_or, bad, full), zero, count));
    if (scaler ==
        s->flags.at[0].scaler) { /* the bar and what is said of an overflow show one scale */
        host_result(s, "step.scale_next", next);
    }
    if (several_scalers(s->c->m)) {
        host_result(s, arena_printf(s->c->arena, "step.scale.%s", scaler->name), scale);
    }
}

/* ---- averages ------------------------------------------------------------------------------------ */

/* An optimizer of this call that trains some of the parameters was skipped; NULL: none can be. */
static Node *any_skipped(Scaling *s, const Attr *params)
{
    Node *any = NULL;
    for (int i = 0; i < s->flags.n; i++) {
        const Flag *f = &s->flags.at[i];
        bool trains = false;
        for (int k = 0; k < params->strs.n && !trains; k++) {
            trains = optimizer_moves(f->optimizer, params->strs.v[k]);
        }
        if (trains) {
            any = any == NULL ? f->bad : op2(s, OP_or, any, f->bad);
        }
    }
    return any;
}

static void update_ema(Scaling *s, const Node *n, GradSet *set)
{
    (void)set;
    const Decl *ema = module_find(s->c->m, DECL_ema, attrs_str(&n->attrs, ATTR_ema));
    const Attr *params = attrs_find(&ema->attrs, ATTR_params);
    const Tensor *count =
        module_find_tensor(s->c->m, arena_printf(s->c->arena, "%s.updates", ema->name));
    s->b.why = WHY_UPDATE "exponential moving average in f32";
    Node *bad = any_skipped(s, params);
    Update u = {s->c, s->g, &s->b, ema, NULL, state_now(s, count), DT_f32};
    for (int i = 0; i < params->strs.n; i++) {
        const Tensor *param = module_find_tensor(s->c->m, params->strs.v[i]);
        const Tensor *average =
            module_find_tensor(s->c->m, arena_printf(s->c->arena, "%s.%s", ema->name, param->name));
        u.type = average->dtype;
        s->b.name = average->name;
        Node *p = build_cast(&s->b, state_now(s, param), u.type);
        set_state(s, average, bad, ema_next(&u, p, state_now(s, average)));
    }
    s->b.name = NULL;
    set_state(s, count, bad, op2(s, OP_add, u.step, number(s, DT_i64, 1)));
}

/* ---- graphs -------------------------------------------------------------------------------------- */

/* The scale_loss that the gradients were computed from, NULL for none. */
static const Decl *scaler_behind(Scaling *s, const Node *n, NodeMap *seen)
{
    if (node_map_get(seen, n) != NULL) {
        return NULL;
    }
    node_map_put(s->c->scratch, seen, n, s);
    if (n->op == OP_scale_loss) {
        return enabled_scaler(s, n);
    }
    const Decl *found = NULL;
    for (int i = 0; i < n->nin && found == NULL; i++) {
        found = scaler_behind(s, n->in[i], seen);
    }
    return found;
}

static GradSet *new_set(Scaling *s, const Node *n)
{
    const Attr *params = attrs_find(&n->attrs, ATTR_params);
    GradSet *set = ARENA_NEW(s->c->scratch, GradSet);
    set->n = n->nin;
    set->v = ARENA_ARRAY(s->c->scratch, Grad, n->nin);
    const Decl *scaler = node_map_get(&s->scalers, n);
    scaler = scaler != NULL ? scaler : enabled_scaler(s, n);
    for (int i = 0; i < n->nin; i++) {
        set->v[i] = (Grad){.param = params->strs.v[i], .value = n->in[i], .scaler = scaler};
    }
    return set;
}

static void expand_unscale(Scaling *s, const Node *n, GradSet *set)
{
    const Decl *scaler = enabled_scaler(s, n);
    if (scaler != NULL) {
        unscale(s, n, set, marker_optimizer(s, n), scaler);
    }
}

/* where(none yet, x, sum + x), x = weight * gradient; the sum starts anew without being written before. */
static void keep_sum(Scaling *s, const char *name, Node *x, Node *first)
{
    const Tensor *t = module_find_tensor(s->c->m, name);
    if (t == NULL) {
        ICE("nothing keeps the gradients %s", name);
    }
    Node *old = pass_arg(s->c, s->g, ATTR_state, name, t->dtype, &t->dims);
    set_state(s, t, NULL, where(s, first, x, op2(s, OP_add, old, x)));
}

static void accumulate(Scaling *s, const Node *n, GradSet *set)
{
    Node *weight = n->nin > 2 ? n->in[2] : NULL;
    s->b.why = WHY_UPDATE "gradients add up in f32";
    for (int i = 0; i < set->n; i++) {
        const Grad *g = &set->v[i];
        s->b.name = arena_printf(s->c->arena, "%s.grad", g->param);
        Node *x = weight == NULL
                      ? g->value
                      : op2(s, OP_mul, g->value, build_cast(&s->b, weight, g->value->dtype));
        keep_sum(s, s->b.name, x, n->in[1]);
    }
    s->b.name = NULL;
    if (weight != NULL) {
        keep_sum(s, ACCUMULATED_WEIGHT, weight, n->in[1]);
    }
}

static void (*const expand[OP_COUNT])(Scaling *s, const Node *n, GradSet *set) = {
    [OP_unscale] = expand_unscale,      [OP_clip_grad_norm] = clip_norm,
    [OP_clip_grad_value] = clip_value,  [OP_optimizer_step] = step_optimizer,
    [OP_scaler_update] = update_scaler, [OP_accumulate] = accumulate,
    [OP_ema_update] = update_ema,
};

static void expand_marker(Scaling *s, Node *n)
{
    GradSet *set = n->op == OP_gradients ? new_set(s, n) : node_map_get(&s->sets, n->in[0]);
    if (set == NULL) {
        ICE("%s without gradients", op_info[n->op].name);
    }
    if (n->op == OP_more_gradients) {
        set = grads_join(s->c, &s->b, set, node_map_get(&s->sets, n->in[1]));
    } else if (n->op == OP_forget) {
        set = grads_without(s->c, set, marker_optimizer(s, n));
    }
    node_map_put(s->c->scratch, &s->sets, n, set);
    if (expand[n->op] != NULL && !s->failed) {
        expand[n->op](s, n, set);
    }
}

/* States that the forward wrote stay as they were, too, when the step is bad: before its first batch. */
static void guard_forward_states(Scaling *s, int nresults)
{
    Node *bad = any_bad(s, NULL);
    for (int i = 0; i < nresults && bad != NULL; i++) {
        const Result *r = &s->g->results[i];
        const Tensor *t = r->kind == RESULT_State ? module_find_tensor(s->c->m, r->name) : NULL;
        if (t != NULL && t->role == TENSOR_state) {
            const Tensor *before = module_before(s->c->m, s->g, t);
            before = before != NULL ? before : t;
            Node *old = pass_arg(s->c, s->g, ATTR_state, before->name, t->dtype, &t->dims);
            graph_result(s->g, RESULT_State, t->name, where(s, bad, old, r->value));
        }
    }
}

static void report_scaler(Scaling *s)
{
    Node *bad = any_bad(s, NULL);
    if (bad == NULL) {
        return;
    }
    Node *scale = scale_arg(s, s->flags.at[0].scaler);
    host_result(s, "step.skipped", bad);
    host_result(s, "step.first_bad", s->first_bad);
    host_result(s, "step.scale", scale);
    for (int i = 0; i < s->g->nresults; i++) {
        if (str_eq(s->g->results[i].name, "step.scale_next")) {
            return;
        }
    }
    host_result(s, "step.scale_next", scale);
}

static bool expand_graph(PassCtx *c, Graph *g)
{
    Scaling s = {.c = c, .g = g};
    s.b = (Builder){.graph = g, .diag = c->diag};
    for (int i = 0; i < g->nnodes; i++) {
        if (g->nodes[i]->op == OP_backward) {
            return true; /* autodiff was left out: there is nothing to expand yet */
        }
        if (g->nodes[i]->op == OP_gradients) {
            NodeMap seen = {0};
            const Decl *d = scaler_behind(&s, g->nodes[i], &seen);
            node_map_put(c->scratch, &s.scalers, g->nodes[i], (void *)(uintptr_t)d);
        }
    }
    int nresults = g->nresults;
    Rebuild r = rebuild_begin(g, c->scratch);
    for (int i = 0; i < r.n; i++) { /* so that pass_arg() finds them all */
        if (r.old[i]->op == OP_arg) {
            rebuild_keep(&r, r.old[i]);
        }
    }
    for (int i = 0; i < r.n; i++) {
        Node *n = r.old[i];
        rebuild_operands(&r, n);
        s.b.loc = n->loc;
        if (n->op == OP_scale_loss) {
            rebuild_replace(&r, n, expand_scale_loss(&s, n));
        } else if (n->op == OP_stepped) {
            const char *param = attrs_str(&n->in[1]->attrs, ATTR_param);
            rebuild_replace(&r, n, state_now(&s, module_find_tensor(c->m, param)));
        } else if (op_info[n->op].kind == KIND_Mark) {
            expand_marker(&s, n);
        } else if (n->op != OP_arg) {
            rebuild_keep(&r, n);
        }
    }
    rebuild_end(&r);
    guard_forward_states(&s, nresults);
    report_scaler(&s);
    graph_dce(g);
    return !s.failed;
}

bool pass_scaling(PassCtx *c)
{
    bool ok = true;
    for (int i = 0; i < c->m->ngraphs; i++) {
        ok = expand_graph(c, c->m->graphs[i]) && ok;
    }
    return ok;
}
