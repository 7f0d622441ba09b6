/* verify_passes.c: does a pass keep what the graphs mean? (mpc --verify-passes)
 *
 * Each graph runs in the reference interpreter before and after the pass, on random inputs from each argument's
 * domain (labels within the classes, squares not negative, ...):
 *   - in f64 mode, where casts are the identity, all results agree up to the rounding of doubles;
 *   - master and simplify promise the same bits, so their results are compared bit for bit in typed mode, too;
 *   - autodiff's gradients are compared with central differences of the loss along a random direction; a module with
 *     its own grad counts as what that says of its inputs, at the gradient that differences give for its result;
 *   - scaling's plain ops are compared with what the interpreter makes of the markers, on a finite step, a step
 *     at which the scale grows, and one whose gradients are not finite.
 * A difference is a bug of ours; it is reported with the graph, the result and both numbers. */
#include <math.h>
#include <string.h>

#include "ir/base/strutil.h"
#include "ir/base/vec.h"
#include "passes/ctx.h"

enum { BATCH = 3, MAX_OWN_ELEMENTS = 1024 };
#define LEARNING_RATE 0.01

typedef enum Trial { TRIAL_plain, TRIAL_grow, TRIAL_overflow } Trial;

/* An input of own_grad and what grad gives for it, at the unmoved parameters. */
typedef struct GivenGrad {
    const Node *x;
    const Value *d;
} GivenGrad;

/* What the interpreter is asked with. */
typedef struct World {
    const Module *module; /* the later one: it has all tensors */
    const Graph *domain;  /* graph whose uses bound the integers */
    Arena *arena;
    InterpMode mode;
    Trial trial;
    uint64_t seed;
    int64_t syms[MAX_SYMS];
    double along; /* how far parameters are moved along their direction */
    const Attr *moved;
    Value **frozen; /* values of detach, own_grad and output_grad nodes in the unmoved run */
    VEC(GivenGrad) given;
} World;

/* ---- copies -------------------------------------------------------------------------------------- */

static Graph *copy_graph(Arena *arena, const Graph *g)
{
    Graph *copy = arena_copy(arena, g, sizeof *g);
    NodeMap map = {0};
    copy->arena = arena;
    copy->nodes = ARENA_ARRAY(arena, Node *, g->nnodes);
    copy->cap = g->nnodes;
    for (int i = 0; i < g->nnodes; i++) {
        Node *n = arena_copy(arena, g->nodes[i], sizeof *n);
        n->in = ARENA_ARRAY(arena, Node *, n->nin);
        n->id = i;
        for (int k = 0; k < n->nin; k++) {
            n->in[k] = node_map_get(&map, g->nodes[i]->in[k]);
        }
        node_map_put(arena, &map, g->nodes[i], n);
        copy->nodes[i] = n;
    }
    copy->results = ARENA_ARRAY(arena, Result, g->nresults);
    copy->rcap = g->nresults;
    for (int i = 0; i < g->nresults; i++) {
        copy->results[i] = g->results[i];
        copy->results[i].value = node_map_get(&map, g->results[i].value);
    }
    return copy;
}

Module *verify_copy(Arena *arena, const Module *m)
{
    Module *copy = arena_copy(arena, m, sizeof *m);
    copy->arena = arena;
    copy->decls = ARENA_ARRAY(arena, Decl *, m->ndecls);
    for (int i = 0; i < m->ndecls; i++) {
        copy->decls[i] = arena_copy(arena, m->decls[i], sizeof *m->decls[i]);
    }
    copy->tensors = ARENA_ARRAY(arena, Tensor *, m->ntensors);
    for (int i = 0; i < m->ntensors; i++) {
        copy->tensors[i] = arena_copy(arena, m->tensors[i], sizeof *m->tensors[i]);
    }
    copy->tcap = m->ntensors;
    copy->dcap = m->ndecls;
    copy->graphs = ARENA_ARRAY(arena, Graph *, m->ngraphs);
    copy->gcap = m->ngraphs;
    for (int i = 0; i < m->ngraphs; i++) {
        copy->graphs[i] = copy_graph(arena, m->graphs[i]);
    }
    return copy;
}

/* The forward alone: without markers, but for the multiplication of the loss. */
static void strip_markers(Graph *g)
{
    int kept = 0;
    for (int i = 0; i < g->nnodes; i++) {
        bool mark = op_info[g->nodes[i]->op].kind == KIND_Mark;
        if (g->nodes[i]->op == OP_stepped) { /* the steps are gone */
            graph_replace(g, g->nodes[i], g->nodes[i]->in[1]);
        }
        if (!mark || g->nodes[i]->op == OP_scale_loss) {
            g->nodes[kept++] = g->nodes[i];
        }
    }
    g->nnodes = kept;
    graph_renumber(g);
}

/* ---- inputs -------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double next_uniform(uint64_t *state)
{
    return (double)(next_random(state) >> 11) * 0x1p-53;
}

/* The same numbers for the same argument, whatever else a pass has added. */
static uint64_t stream(const World *w, const char *role, const char *name)
{
    uint64_t h = w->seed * 0x9e3779b97f4a7c15u;
    h ^= (uint64_t)str_fnv1a(role) << 32 ^ str_fnv1a(name);
    return h;
}

static Value *new_value(const World *w, DType dt, const Dims *dims)
{
    int64_t n[MAX_RANK] = {0};
    for (int i = 0; i < dims->rank; i++) {
        n[i] = dims->d[i].k;
        for (int s = 0; s < 2; s++) {
            n[i] *= dims->d[i].sym[s] != 0 ? w->syms[dims->d[i].sym[s] - 1] : 1;
        }
    }
    return value_new(w->arena, dt, dims->rank, n);
}

static Value *scalar_value(const World *w, DType dt, double x)
{
    Dims none = {0};
    Value *v = new_value(w, dt, &none);
    v->v[0] = x;
    return v;
}

/* Below which number the integers of an argument must stay, 0 for no bound. */
static int64_t integer_bound(const World *w, const Node *arg)
{
    int64_t bound = 0;
    for (int i = 0; i < w->domain->nnodes; i++) {
        const Node *n = w->domain->nodes[i];
        int index = n->op == OP_cross_entropy || n->op == OP_embedding ? 1
                    : n->op == OP_cross_entropy_grad                   ? 2
                                                                       : -1;
        if (index < 0) {
            continue;
        }
        Node *of = n->in[index];
        while (of->nin == 1 && (op_info[of->op].kind == KIND_Move || of->op == OP_cast)) {
            of = of->in[0];
        }
        const Attr *a = attrs_find(&of->attrs, ATTR_batch),
                   *b = attrs_find(&arg->attrs, ATTR_batch);
        if (of->op == OP_arg && a != NULL && b != NULL && str_eq(a->s, b->s)) {
            const Dims *d = &n->in[n->op == OP_cross_entropy_grad ? 1 : 0]->dims;
            int64_t here = n->op == OP_embedding ? d->d[0].k : d->d[d->rank - 1].k;
            bound = bound == 0 || here < bound ? here : bound;
        }
    }
    return bound;
}

static Value *batch_value(const World *w, const Node *n, const char *name)
{
    Value *v = new_value(w, n->dtype, &n->dims);
    uint64_t state = stream(w, "batch", name);
    int64_t bound = dtype_info[n->dtype].is_bool ? 2 : integer_bound(w, n);
    bound = bound == 0 ? (dtype_info[n->dtype].bytes == 1 ? 100 : 8) : bound;
    for (int64_t i = 0; i < v->count; i++) {
        double u = next_uniform(&state);
        v->v[i] =
            pass_is_float(n->dtype) ? round_to(n->dtype, 2 * u - 1) : floor(u * (double)bound);
    }
    return v;
}

static bool is_moved(const World *w, const char *param)
{
    for (int i = 0; w->moved != NULL && i < w->moved->strs.n; i++) {
        if (str_eq(w->moved->strs.v[i], param)) {
            return true;
        }
    }
    return false;
}

/* Of the size that initialisers give: about 1 / sqrt(fan in). */
static Value *param_value(const World *w, DType dt, const Dims *dims, const char *name)
{
    Value *v = new_value(w, dt, dims);
    uint64_t state = stream(w, "param", name), direction = stream(w, "direction", name);
    double size = dims->rank > 1 ? sqrt(3.0 / (double)v->dims[dims->rank - 1]) : 0.5;
    for (int64_t i = 0; i < v->count; i++) {
        v->v[i] = round_to(dt, size * (2 * next_uniform(&state) - 1));
        double d = 2 * next_uniform(&direction) - 1;
        v->v[i] += is_moved(w, name) ? w->along * d : 0;
    }
    return v;
}

static double scaler_number(const World *w, const char *name)
{
    for (int i = 0; i < w->module->ndecls; i++) {
        const Decl *d = w->module->decls[i];
        if (d->kind == DECL_scaler && str_starts(name, d->name)) {
            double interval = (double)attrs_int(&d->attrs, ATTR_growth_interval, 2000);
            if (str_ends(name, ".tracker")) {
                return w->trial == TRIAL_grow ? interval - 1 : 0;
            }
        }
    }
    return w->trial == TRIAL_overflow ? INFINITY : 1024;
}

static Value *state_value(const World *w, const Node *n, const char *name)
{
    const Tensor *t = module_find_tensor(w->module, name);
    if (t != NULL && t->role == TENSOR_working) {
        const Tensor *of = module_find_tensor(w->module, t->of);
        Value *v = param_value(w, of->dtype, &of->dims, of->name);
        for (int64_t i = 0; i < v->count && w->mode == INTERP_typed; i++) {
            v->v[i] = round_to(n->dtype, v->v[i]);
        }
        v->dtype = n->dtype;
        return v;
    }
    if (t != NULL && t->role == TENSOR_scaler) {
        return scalar_value(w, n->dtype, scaler_number(w, name));
    }
    Value *v = new_value(w, n->dtype, &n->dims);
    uint64_t state = stream(w, "state", name);
    for (int64_t i = 0; i < v->count; i++) {
        /* not negative: second moments and variances are states, too; step counters are whole */
        double u = next_uniform(&state);
        v->v[i] = pass_is_float(n->dtype) ? round_to(n->dtype, 0.1 * u) : 2;
    }
    if (t != NULL && t->role == TENSOR_grad && t->of != NULL && w->trial == TRIAL_overflow) {
        v->v[0] = INFINITY;
    }
    return v;
}

/* A plausible value of a host expression; only that it is the same before and after matters. */
static double host_value(void *ctx, const HostExpr *e)
{
    const World *w = ctx;
    bool known;
    double x = pass_expr_const(e, &known);
    if (known) {
        return x;
    }
    if (e->kind == HE_option) {
        const Decl *d = module_find(w->module, DECL_option, e->text);
        HostExpr *value = d != NULL ? attrs_expr(&d->attrs, ATTR_default) : NULL;
        return value != NULL ? host_value(ctx, value) : 0.5;
    }
    return 0.5;
}

/* State that markers know by name alone. */
static Value *tensor_value(void *ctx, const char *name)
{
    const World *w = ctx;
    const Tensor *t = module_find_tensor(w->module, name);
    if (t == NULL) {
        return str_ends(name, ".lr") ? scalar_value(w, DT_f64, LEARNING_RATE) : NULL;
    }
    Node n = {.dtype = t->dtype, .dims = t->dims};
    return t->role == TENSOR_param ? param_value(w, t->dtype, &t->dims, name)
                                   : state_value(w, &n, name);
}

static Value *arg_value(void *ctx, const Graph *g, const Node *n)
{
    World *w = ctx;
    (void)g;
    for (int i = 0; i < n->attrs.n; i++) {
        const Attr *a = &n->attrs.v[i];
        switch (a->id) {
        case ATTR_batch: return batch_value(w, n, a->s);
        case ATTR_param: return param_value(w, n->dtype, &n->dims, a->s);
        case ATTR_state: return state_value(w, n, a->s);
        case ATTR_host: return scalar_value(w, n->dtype, host_value(ctx, a->expr));
        case ATTR_lr: return scalar_value(w, n->dtype, LEARNING_RATE);
        case ATTR_seed: return scalar_value(w, n->dtype, 1);
        case ATTR_start: return w->frozen[a->i]; /* a detached value, see freeze() */
        case ATTR_rng: {
            Value *v = new_value(w, n->dtype, &n->dims);
            for (int64_t k = 0; k < v->count; k++) {
                v->v[k] = 4294967296.0 + (double)(7 + 3 * k);
            }
            return v;
        }
        default: break;
        }
    }
    ICE("an argument of %s has no role", g->name);
}

/* ---- running ------------------------------------------------------------------------------------- */

static Value **run(World *w, const Module *m, const Graph *g, StateValue **state)
{
    Interp in = {.mode = w->mode,
                 .module = m,
                 .arena = w->arena,
                 .seed = w->seed,
                 .arg = arg_value,
                 .host = host_value,
                 .tensor = tensor_value,
                 .ctx = w};
    memcpy(in.syms, w->syms, sizeof in.syms);
    return interp_graph(&in, g, state);
}

static World new_world(PassCtx *c, const Graph *domain, Arena *arena, InterpMode mode, Trial trial)
{
    World w = {.module = c->m,
               .domain = domain,
               .arena = arena,
               .mode = mode,
               .trial = trial,
               .seed = c->opt->seed + 1};
    for (int i = 0; i < MAX_SYMS; i++) {
        int64_t n = i < domain->nsyms && domain->syms[i].multiple_of > 1
                        ? domain->syms[i].multiple_of
                        : BATCH;
        bool bounded = i < domain->nsyms && domain->syms[i].bound > 0 && domain->syms[i].bound < n;
        w.syms[i] = bounded ? domain->syms[i].bound : n;
    }
    return w;
}

/* ---- comparing ----------------------------------------------------------------------------------- */

typedef struct Finding {
    double worst; /* largest difference, relative to the result's largest magnitude */
    int compared;
    const char *wrong; /* name of a result beyond the bound */
    double before, after;
} Finding;

static void compare(Finding *f, const char *name, const Value *a, const Value *b, double bound)
{
    double size = 0;
    for (int64_t i = 0; i < a->count; i++) {
        size = isfinite(a->v[i]) && fabs(a->v[i]) > size ? fabs(a->v[i]) : size;
    }
    f->compared++;
    if (a->count != b->count) {
        f->wrong = name;
        return;
    }
    for (int64_t i = 0; i < a->count; i++) {
        double x = a->v[i], y = b->v[i];
        if (x == y || (isnan(x) && isnan(y))) {
            continue;
        }
        double d = size > 0 ? fabs(x - y) / size : fabs(x - y);
        f->worst = d > f->worst ? d : f->worst;
        if (!(d <= bound) && f->wrong == NULL) {
            f->wrong = name;
            f->before = x;
            f->after = y;
        }
    }
}

static const Result *find_result(const Graph *g, ResultKind kind, const char *name)
{
    for (int i = 0; i < g->nresults; i++) {
        if (g->results[i].kind == kind && str_eq(g->results[i].name, name)) {
            return &g->results[i];
        }
    }
    return NULL;
}

static void missing(Finding *f, const char *name)
{
    f->wrong = name;
    f->before = f->after = NAN;
}

/* Everything that comes out of `before`, results and what its markers change, must come out of `after`. */
static Finding compare_graphs(World *w, const Module *mb, Graph *before, const Module *ma,
                              Graph *after, double bound)
{
    Finding f = {0};
    StateValue *state_b = NULL, *state_a = NULL;
    Value **vb = run(w, mb, before, &state_b), **va = run(w, ma, after, &state_a);
    for (int i = 0; i < before->nresults; i++) {
        const Result *b = &before->results[i], *a = find_result(after, b->kind, b->name);
        bool marked = false; /* what a marker changes comes from the list below */
        for (const StateValue *s = state_b; s != NULL; s = s->next) {
            marked = marked || (b->kind == RESULT_State && str_eq(s->name, b->name));
        }
        if (a == NULL) {
            missing(&f, b->name);
        } else if (!marked) {
            compare(&f, b->name, vb[b->value->id], va[a->value->id], bound);
        }
    }
    for (const StateValue *s = state_b; s != NULL; s = s->next) {
        const Result *a = find_result(after, RESULT_State, s->name);
        const Value *v = a != NULL ? va[a->value->id] : NULL;
        for (const StateValue *t = state_a; t != NULL && v == NULL; t = t->next) {
            v = str_eq(t->name, s->name) ? t->value : NULL;
        }
        if (v == NULL) {
            missing(&f, s->name);
        } else {
            compare(&f, s->name, s->value, v, bound);
        }
    }
    return f;
}

/* ---- derivatives --------------------------------------------------------------------------------- */

/* By id: what a module's own grad makes of the gradient that comes in. */
static bool *of_output_grad(const World *w, const Graph *g)
{
    bool *is = ARENA_ARRAY(w->arena, bool, g->nnodes);
    for (int i = 0; i < g->nnodes; i++) {
        const Node *n = g->nodes[i];
        is[i] = n->op == OP_output_grad;
        for (int k = 0; k < (n->op == OP_own_grad ? 1 : n->nin); k++) {
            is[i] = is[i] || is[n->in[k]->id];
        }
    }
    return is;
}

/* What gradients do not pass becomes an argument that keeps the value of the unmoved run. */
static void freeze(World *w, const Module *m, Graph *g)
{
    const bool *of_grad = of_output_grad(w, g);
    w->frozen = run(w, m, g, NULL);
    for (int i = 0; i < g->nnodes; i++) {
        Node *n = g->nodes[i];
        bool stops = !of_grad[i] && (n->op == OP_detach || n->op == OP_own_grad);
        if (stops || n->op == OP_output_grad) {
            n->op = OP_arg;
            n->nin = 0;
            n->attrs = (Attrs){0};
            attrs_set_int(w->arena, &n->attrs, ATTR_start, i);
        }
    }
}

static const Node *find_op(const Graph *g, Op op)
{
    for (int i = 0; i < g->nnodes; i++) {
        if (g->nodes[i]->op == op) {
            return g->nodes[i];
        }
    }
    return NULL;
}

/* The loss, plus what grows with the inputs of modules with their own grad as those say it does. */
static double loss_at(World *w, const Module *m, const Graph *g, const Node *loss, double along)
{
    Arena *arena = w->arena;
    w->arena = arena_new();
    w->along = along;
    Value **v = run(w, m, g, NULL);
    double sum = v[loss->id]->v[0];
    for (int i = 0; i < w->given.n; i++) {
        const Value *x = v[w->given.at[i].x->id], *d = w->given.at[i].d;
        for (int64_t k = 0; k < d->count; k++) {
            sum += d->v[k] * x->v[k];
        }
    }
    w->along = 0;
    arena_free(w->arena);
    w->arena = arena;
    return sum;
}

/* The gradient of the value `y` of a frozen node. False: at a kink, where relu is given a 0 that was rounded to it. */
static bool gradient_of(World *w, const Module *m, Graph *g, const Node *loss, Value *y, Value *dy)
{
    const double h = 1e-6, here = loss_at(w, m, g, loss, 0);
    double bend = 0, size = 0;
    for (int64_t k = 0; k < y->count; k++) {
        double at = y->v[k];
        y->v[k] = at + h;
        double up = (loss_at(w, m, g, loss, 0) - here) / h;
        y->v[k] = at - h;
        double down = (here - loss_at(w, m, g, loss, 0)) / h;
        y->v[k] = at;
        dy->v[k] = (up + down) / 2;
        bend = fmax(bend, fabs(up - down));
        size = fmax(size, fabs(dy->v[k]));
    }
    return bend <= 1e-4 * size + 1e-8 * fabs(here);
}

/* own_grad's, from the last to the first. */
static bool give_gradients(World *w, const Module *m, Graph *g, const Node *loss, Node *const *owns,
                           const int *nin, int n)
{
    while (n-- > 0) {
        Value *y = w->frozen[owns[n]->id], *dy = w->frozen[owns[n]->in[1]->id];
        if (!gradient_of(w, m, g, loss, y, dy)) {
            return false;
        }
        Value **v = run(w, m, g, NULL);
        for (int i = 2; i < nin[n]; i += 2) {
            GivenGrad given = {owns[n]->in[i], v[owns[n]->in[i + 1]->id]};
            vec_push(w->arena, &w->given, given);
        }
    }
    return true;
}

/* Freezes what gradients do not pass. False: too much of it to take differences for each element, or none to take. */
static bool freeze_and_give(World *w, const Module *m, Graph *g, const Node *loss)
{
    Node **owns = ARENA_ARRAY(w->arena, Node *, g->nnodes);
    int *nin = ARENA_ARRAY(w->arena, int, g->nnodes), n = 0;
    int64_t elements = 0;
    const bool *of_grad = of_output_grad(w, g);
    for (int i = 0; i < g->nnodes; i++) {
        if (g->nodes[i]->op == OP_own_grad && !of_grad[i]) {
            owns[n] = g->nodes[i];
            nin[n++] = g->nodes[i]->nin;
        }
    }
    freeze(w, m, g);
    for (int i = 0; i < n; i++) {
        elements += w->frozen[owns[i]->id]->count;
    }
    return elements <= MAX_OWN_ELEMENTS && give_gradients(w, m, g, loss, owns, nin, n);
}

/* Sum over the gradients of gradient times direction. */
static double directional(World *w, const Module *m, Graph *g, const Node *gradients)
{
    Value **v = run(w, m, g, NULL);
    double sum = 0;
    for (int i = 0; i < gradients->nin; i++) {
        uint64_t direction = stream(w, "direction", w->moved->strs.v[i]);
        const Value *d = v[gradients->in[i]->id];
        for (int64_t k = 0; k < d->count; k++) {
            sum += d->v[k] * (2 * next_uniform(&direction) - 1);
        }
    }
    return sum;
}

/* The first backward of the graph; `before` still has it, `after` has its gradients. */
static Finding compare_gradients(World *w, const Module *mb, Graph *before, const Module *ma,
                                 Graph *after)
{
    Finding f = {.compared = 1};
    const Node *loss = find_op(before, OP_backward)->in[0];
    const Node *gradients = find_op(after, OP_gradients);
    w->moved = attrs_find(&gradients->attrs, ATTR_params);
    strip_markers(before);
    strip_markers(after);
    double exact = directional(w, ma, after, gradients);
    if (!freeze_and_give(w, mb, before, loss)) {
        return (Finding){0};
    }
    f.wrong = "gradients";
    /* Where a kink lies within one step, a smaller one misses it; a large convolutional network has many. */
    for (double h = 1e-4; h > 1e-9 && f.wrong != NULL; h /= 8) {
        double up = loss_at(w, mb, before, loss, h), down = loss_at(w, mb, before, loss, -h);
        double slope = (up - down) / (2 * h);
        double noise = 1e-15 * (fabs(up) + fabs(down)) / h;
        f.worst = fabs(slope - exact) / (fabs(exact) > 0 ? fabs(exact) : 1);
        f.before = slope;
        f.after = exact;
        if (fabs(slope - exact) <= 1e-5 * fabs(exact) + 16 * noise) {
            f.wrong = NULL;
        }
    }
    return f;
}

/* ---- a pass -------------------------------------------------------------------------------------- */

static bool report(PassCtx *c, PassId id, const Graph *g, const char *how, const Finding *f)
{
    if (c->opt->verbose) {
        fprintf(c->opt->report != NULL ? c->opt->report : stderr,
                "verify %-9s @%-24s %-18s %3d compared, largest difference %.1e\n",
                pass_info[id].name, g->name, how, f->compared, f->worst);
    }
    if (f->wrong != NULL) {
        diag_error(c->diag, g->loc,
                   "internal error: pass %s changes what @%s means (%s): %s is %.17g before and "
                   "%.17g after",
                   pass_info[id].name, g->name, how, f->wrong, f->before, f->after);
    }
    return f->wrong == NULL;
}

static bool verify_once(PassCtx *c, PassId id, const Module *mb, const Graph *gb, const Graph *ga,
                        InterpMode mode, Trial trial, const char *how)
{
    Arena *arena = arena_new();
    World w = new_world(c, gb, arena, mode, trial);
    Graph *before = copy_graph(arena, gb), *after = copy_graph(arena, ga);
    if (id <= PASS_accumulate) {
        strip_markers(before);
        strip_markers(after);
    }
    double bound = mode == INTERP_typed ? 0 : 1e-9;
    Finding f = compare_graphs(&w, mb, before, c->m, after, bound);
    bool ok = report(c, id, ga, how, &f);
    arena_free(arena);
    return ok;
}

static bool verify_derivatives(PassCtx *c, const Module *mb, const Graph *gb, const Graph *ga)
{
    Arena *arena = arena_new();
    World w = new_world(c, gb, arena, INTERP_f64, TRIAL_plain);
    Graph *before = copy_graph(arena, gb), *after = copy_graph(arena, ga);
    Finding f = compare_gradients(&w, mb, before, c->m, after);
    bool ok = report(c, PASS_autodiff, ga, "finite differences", &f);
    arena_free(arena);
    return ok;
}

bool verify_pass(PassCtx *c, PassId id, const Module *before)
{
    bool ok = true;
    for (int i = 0; i < before->ngraphs; i++) {
        const Graph *gb = before->graphs[i], *ga = c->m->graphs[i];
        ok = verify_once(c, id, before, gb, ga, INTERP_f64, TRIAL_plain, "f64") && ok;
        if (id == PASS_autodiff && find_op(gb, OP_backward) != NULL) {
            ok = verify_derivatives(c, before, gb, ga) && ok;
        }
        if (id == PASS_scaling && find_op(gb, OP_scaler_update) != NULL) {
            ok = verify_once(c, id, before, gb, ga, INTERP_f64, TRIAL_grow, "growing scale") && ok;
            ok = verify_once(c, id, before, gb, ga, INTERP_f64, TRIAL_overflow, "overflow") && ok;
        }
        if (id == PASS_master || id == PASS_simplify) {
            ok = verify_once(c, id, before, gb, ga, INTERP_typed, TRIAL_plain, "bit for bit") && ok;
        }
    }
    return ok;
}
