/* lower_gradients.c: backward, unscaling, clipping, steps, clearing: the markers in the graphs of an update.
 *
 * Checked here: every chain of markers starts with one backward, unscales before it clips, steps as it was
 * scaled, and is cleared by somebody.
 *
 * Usually one graph has the whole chain. A statement that takes the gradients in another graph, as in
 *
 *     backward(loss)
 *     if step % 4 == 0 { optimizer.step(); zero_grad(optimizer) }
 *
 * makes them states (spill): backward's graph ends with `accumulate`, the other begins with `accumulated`.
 * zero_grad then is an assignment to a variable of the host program, which says that the next accumulate
 * starts a new sum; so clearing costs nothing.
 */
#include "frontend/builtins.h"

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
    Node *n = op_build(l, op, in != NULL, &in, attrs);
    if (n != NULL) {
        n->amp = DT_none;
        l->run->marked = true;
    }
    return n;
}

/* ---- gradients that outlive their graph -------------------------------------------------------------- */

Gradients *gradients_live(Lower *l)
{
    Gradients *g = l->gradients;
    while (g != NULL && !g->live) {
        g = g->outer;
    }
    return g;
}

/* The host variable that is true while no gradients are kept. */
static const char *cleared_var(Lower *l)
{
    const char *name = "no_gradients";
    for (int i = 2; l->cleared_var == NULL; i++) {
        bool taken = host_name_find(l, name) != NULL || scope_find(&l->globals, name) != NULL;
        l->cleared_var = taken ? NULL : name;
        name = arena_printf(l->arena, "no_gradients_%d", i);
    }
    return l->cleared_var;
}

/* no_gradients = value, as statement number `at` of the block. */
static void assign_cleared(Lower *l, HostBlock *block, int at, bool value, Loc loc)
{
    HostStmt *s = host_stmt(l->m, block, HS_assign, lower_loc(l, loc));
    s->var = cleared_var(l);
    s->expr = host_num(l->arena, value, HT_bool);
    for (int i = block->n - 1; i > at; i--) {
        block->v[i] = block->v[i - 1];
    }
    block->v[at] = s;
    vec_push(l->arena, &l->clears, block);
}

static int place_of(const HostBlock *block, const HostStmt *s)
{
    int at = 0;
    while (block->v[at] != s) {
        at++;
    }
    return at;
}

/* What the mean of a loss is over: the labels that cross_entropy does not ignore, else the samples; f32. */
static Node *samples_of(Lower *l, const Node *loss)
{
    while (loss->op == OP_scale_loss || loss->op == OP_cast ||
           ((loss->op == OP_mul || loss->op == OP_div) && loss->in[1]->op == OP_const)) {
        loss = loss->in[0];
    }
    if (loss->op != OP_cross_entropy) {
        return op_dim(l, (Dim){.k = 1, .sym = {1}});
    }
    double ignored = (double)attrs_int(&loss->attrs, ATTR_ignore_index, -100);
    Node *labels = op_cast(l, loss->in[1], DT_i64);
    Node *counts = op_cast(l, op2(l, OP_ne, labels, op_const(l, DT_i64, ignored)), DT_f32);
    int64_t axes[MAX_RANK];
    for (int i = 0; i < counts->dims.rank; i++) {
        axes[i] = i;
    }
    return op_reduce(l, OP_sum, counts, counts->dims.rank, axes, false);
}

/* backward's graph adds its gradients to those that are kept. */
static void spill(Lower *l, Gradients *g)
{
    Run *run = l->run;
    HostBlock *block = g->run->block;
    Loc loc = l->loc;
    l->run = g->run;
    l->run->open = true;
    l->loc = g->made;
    Node *first = tensor_of(l, host_var(l, cleared_var(l), HT_bool, g->made), g->made);
    Node *in[3] = {l->run->token, first, g->average ? samples_of(l, g->loss) : NULL};
    Node *n = op_build(l, OP_accumulate, 2 + g->average, in, (Attrs){0});
    if (n != NULL) {
        n->amp = DT_none;
    }
    assign_cleared(l, block, place_of(block, g->run->call) + 1, false, g->made);
    l->run->open = false;
    l->accumulates = true;
    l->run = run;
    l->loc = loc;
}

/* ---- the gradients of each optimizer ----------------------------------------------------------------- */

static bool is_live(const Lower *l, const Optimizer *o)
{
    return o->live && o->run == l->run && l->run != NULL;
}

/* A backward reaches its parameters; it adds to what is there. */
static void give_gradients(Lower *l, Optimizer *o, const char *scaler, Loc loc)
{
    bool adds = is_live(l, o);
    bool mixed = adds && (o->mixed || o->changed || !str_eq(o->scaler, scaler));
    *o = (Optimizer){.decl = o->decl,
                     .model = o->model,
                     .run = l->run,
                     .live = true,
                     .changed = adds && o->changed,
                     .mixed = mixed,
                     .scaler = scaler,
                     .made = loc};
}

/* No number comes of gradients that were added to unscaled, clipped or used ones. */
static bool not_mixed(Lower *l, Call *c, const Optimizer *o)
{
    if (!is_live(l, o) || !o->mixed) {
        return true;
    }
    lower_error(l, c->loc,
                "the gradients of `%s` are a sum with earlier ones that were unscaled, clipped or "
                "taken by a step",
                o->decl->name);
    lower_note(l, o->made, "zero_grad(%s) clears the earlier ones before this adds to them",
               o->decl->name);
    return false;
}

static int optimizer_number(const Lower *l, const Optimizer *o)
{
    int i = 0;
    while (l->optimizers.at[i] != o) {
        i++;
    }
    return i;
}

/* Which optimizers have parameters that the loss depends on. */
static uint64_t reached_by(Lower *l, Node *loss, const char *scaler, Loc loc)
{
    Graph *g = l->run->graph;
    Arena *scratch = arena_new();
    bool *seen = ARENA_ARRAY(scratch, bool, g->nnodes + 1);
    bool *hit = ARENA_ARRAY(scratch, bool, l->optimizers.n + 1);
    uint64_t reached = 0;
    seen[loss->id] = true;
    for (int i = loss->id; i >= 0; i--) {
        const Node *n = g->nodes[i];
        const char *param = n->op == OP_arg ? attrs_str(&n->attrs, ATTR_param) : NULL;
        Optimizer *o = seen[i] && param != NULL ? optimizer_of(l, param) : NULL;
        int at = o != NULL ? optimizer_number(l, o) : -1;
        if (at >= 0 && !hit[at]) {
            hit[at] = true;
            give_gradients(l, o, scaler, loc);
            reached |= at < 64 ? (uint64_t)1 << at : 0;
        }
        for (int k = 0; k < n->nin && seen[i]; k++) {
            seen[n->in[k]->id] = seen[n->in[k]->id] || node_passes_gradient(n, k);
        }
    }
    arena_free(scratch);
    return reached != 0 ? reached : ~(uint64_t)0; /* nobody's: as everybody's */
}

/* Optimizers with gradients that the next turn of the loop would add to. */
static uint64_t left_over(const Gradients *g)
{
    return g->reached & ~g->zeroed & ~g->first;
}

/* Gradients of several losses are one sum for other graphs: none is weighted, forgotten or of another scale. */
static bool kept_alike(const Gradients *g)
{
    const Run *run = g->run;
    bool alike = !g->average && (run->scalers.n == 0 || run->scalers.n == run->chains);
    for (int i = 1; i < run->scalers.n; i++) {
        alike = alike && str_eq(run->scalers.at[i], run->scalers.at[0]);
    }
    for (const Node *n = run->token; n != NULL && n->op != OP_backward; n = n->in[0]) {
        alike = alike && n->op == OP_more_gradients;
    }
    return alike;
}

/* The chain of another graph goes on in this one. */
static bool borrow(Lower *l, Call *c, Gradients *from)
{
    if (l->gradients->changed) {
        lower_error(l, c->loc,
                    "the gradients were unscaled or clipped in an earlier part of this block");
        lower_note(l, l->gradients->made, "only numbers may stand between that and this statement");
        return false;
    }
    if (from->perhaps_cleared || from->loops != l->loops) {
        lower_error(l, c->loc,
                    from->loops != l->loops
                        ? "a loop over `%s` would take the same gradients again"
                        : "the gradients may be cleared already where `%s` takes them",
                    c->fn->name);
        lower_note(l, from->made, "they are made here");
        return false;
    }
    if (from->run->chains > 1 && !kept_alike(from)) {
        lower_error(
            l, from->made,
            "these gradients follow others in the same run of statements, and some are averaged, "
            "cleared, used by a step, or of another scale");
        lower_note(l, c->loc,
                   "a statement in another block takes both; add the losses for one backward");
        return false;
    }
    if (run_open(l, c->loc) == NULL) {
        return false;
    }
    Attrs attrs = {0};
    if (from->scaler != NULL) {
        attrs_set_str(l->arena, &attrs, ATTR_scaler, from->scaler);
    }
    attrs_set_bool(l->arena, &attrs, ATTR_average, from->average);
    Node *n = marker(l, OP_accumulated, NULL, attrs);
    l->run->token = n;
    l->run->scaler = from->scaler;
    for (int i = 0; i < l->optimizers.n; i++) {
        give_gradients(l, l->optimizers.at[i], from->scaler, c->loc);
    }
    from->spilled = l->gradients->borrowed = true;
    if (l->gradients != from) {
        l->gradients->made = c->loc;
    }
    return n != NULL;
}

void gradients_leave(Lower *l, Gradients *g)
{
    if (g->borrowed && (g->changed || g->zeroed != 0)) {
        lower_error(l, g->made,
                    g->changed ? "these gradients are unscaled or clipped and kept"
                               : "of these gradients, only those of some optimizers are cleared");
        lower_note(l, g->made, "zero_grad(optimizer) clears them, in the same block");
    } else if (g->live && left_over(g) != 0 && (g->touched || !g->spilled)) {
        lower_error(l, g->made,
                    g->spilled ? "these gradients are kept, but changed or used before that"
                               : "these gradients would be added to those of the next batch");
        lower_note(l, g->made, "zero_grad(optimizer) clears them, in the same block");
    } else if (g->live && g->spilled) {
        spill(l, g);
    }
}

void gradients_jump(Lower *l)
{
    Gradients *live = gradients_live(l);
    if (live != NULL) {
        live->left_early = true;
    }
}

/* Before the first statement there are none; where nothing is kept, nobody needs to know. */
void gradients_finish(Lower *l)
{
    if (l->accumulates) {
        Loc loc = l->m->host.v[0]->loc;
        assign_cleared(l, &l->m->host, 0, true, loc);
        return;
    }
    for (int i = 0; i < l->clears.n; i++) {
        HostBlock *b = l->clears.at[i];
        int n = 0;
        for (int k = 0; k < b->n; k++) {
            if (b->v[k]->kind != HS_assign || !str_eq(b->v[k]->var, l->cleared_var)) {
                b->v[n++] = b->v[k];
            }
        }
        b->n = n;
    }
}

/* ---- statements -------------------------------------------------------------------------------------- */

Val fn_backward(Lower *l, Call *c)
{
    Node *loss;
    bool average;
    if (!in_program(l, c) || !call_tensor(l, c, 0, &loss) || !call_bool(l, c, 1, &average)) {
        return val_poison();
    }
    Gradients *g = l->gradients, *earlier = gradients_live(l);
    bool adds =
        earlier != NULL && earlier == g && g->run == l->run && !g->spilled && l->run->token != NULL;
    if (earlier != NULL && !adds) {
        lower_error(l, c->loc,
                    "these gradients would be added to those of another part of the program");
        lower_note(l, earlier->made,
                   "the earlier ones are made here; add the losses, or clear them with zero_grad");
        return val_poison();
    }
    Attrs attrs = {0};
    attrs_set_str(l->arena, &attrs, ATTR_model, "");
    Node *n = marker(l, OP_backward, loss, attrs);
    Node *both[2] = {l->run->token, n};
    Node *token = n != NULL && adds ? op_build(l, OP_more_gradients, 2, both, (Attrs){0}) : n;
    if (token == NULL) {
        return val_poison();
    }
    token->amp = DT_none;
    l->run->token = token;
    l->run->scaler = loss->op == OP_scale_loss ? attrs_str(&loss->attrs, ATTR_scaler) : NULL;
    if (l->run->scaler != NULL) {
        vec_push(l->arena, &l->run->scalers, l->run->scaler);
    }
    uint64_t reached = reached_by(l, loss, l->run->scaler, c->loc);
    if (g != NULL) {
        g->live = true;
        g->reached |= reached;
        g->zeroed &= ~reached;
        g->kept = (g->reached & ~g->first) != 0;
        g->average = average;
        g->made = c->loc;
        g->loops = l->loops;
        g->run = l->run;
        g->run->chains++;
        g->loss = loss;
        g->scaler = l->run->scaler;
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
        Gradients *from = gradients_live(l);
        if (from != NULL) {
            return borrow(l, c, from);
        }
        if (l->gradients != NULL && diag_errors(l->diag) > l->gradients->errors) {
            return false;
        }
        lower_error(
            l, c->loc,
            "there are no gradients here: backward(loss) must come before `%s`, in the same block "
            "or one around it",
            c->fn->name);
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
    Gradients *g = l->gradients;
    bool borrowed = g != NULL && g->borrowed;
    if (borrowed) {
        g->changed |= op == OP_unscale || op == OP_clip_grad_norm || op == OP_clip_grad_value;
    } else if (g != NULL) {
        g->touched = true;
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

/* o NULL: of the newest gradients. */
static bool same_scaler(Lower *l, Call *c, const char *scaler, const Optimizer *o)
{
    const char *carried = o != NULL && is_live(l, o) ? o->scaler : l->run->scaler;
    if (carried == NULL) {
        lower_error(l, c->loc, "the gradients are not scaled: backward(%s.scale(loss)) scales them",
                    scaler);
        return false;
    }
    if (!str_eq(carried, scaler)) {
        lower_error(l, c->loc, "the gradients carry the scale of `%s`, not of `%s`", carried,
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

Val fn_unscale(Lower *l, Call *c)
{
    Optimizer *o;
    if (!optimizer_arg(l, c, 1, &o) || !have_gradients(l, c) ||
        !same_scaler(l, c, c->args[0].decl->name, o) || !not_mixed(l, c, o)) {
        return val_poison();
    }
    if (is_live(l, o) && o->unscaled) {
        return lower_error(l, c->loc, "the gradients of `%s` are unscaled already", o->decl->name);
    }
    Attrs attrs = {0};
    attrs_set_str(l->arena, &attrs, ATTR_optimizer, o->decl->name);
    attrs_set_str(l->arena, &attrs, ATTR_scaler, c->args[0].decl->name);
    o->unscaled = o->changed = true;
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
    for (int i = 0; i < l->optimizers.n; i++) {
        Optimizer *o = l->optimizers.at[i];
        if (!is_live(l, o) || !optimizer_trains(o, c->args[0].instance)) {
            continue;
        }
        if (!not_mixed(l, c, o)) {
            return val_poison();
        }
        if (o->scaler != NULL && !o->unscaled) {
            lower_error(l, c->loc, "the gradients are clipped while they carry the loss scale");
            lower_note(l, c->loc, "%s.unscale(%s) comes before it", o->scaler, o->decl->name);
            return val_poison();
        }
        o->changed = true;
    }
    Attrs attrs = {0};
    attrs_set_str(l->arena, &attrs, ATTR_model, c->args[0].instance->path);
    attrs_set_float(l->arena, &attrs, limit, v);
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

/* What is computed from its parameters behind the step is computed from the new ones. */
static void set_stepped(Lower *l, const Optimizer *o)
{
    const Attr *params = attrs_find(&o->decl->attrs, ATTR_params);
    l->run->last_step = l->run->token;
    for (int i = 0; params != NULL && i < params->strs.n; i++) {
        scope_set(l->arena, &l->run->stepped, params->strs.v[i], val_none());
    }
}

static Val take_step(Lower *l, Call *c, Optimizer *o, const char *scaler)
{
    if (!not_mixed(l, c, o)) {
        return val_poison();
    }
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
    o->unscaled = o->unscaled || scaler != NULL;
    o->changed = true;
    Val v = next_marker(l, OP_optimizer_step, attrs);
    set_stepped(l, o);
    return v;
}

Val fn_step(Lower *l, Call *c)
{
    if (!have_gradients(l, c)) {
        return val_poison();
    }
    const Optimizer *o = c->args[0].optimizer;
    const char *scaler = is_live(l, o) ? o->scaler : l->run->scaler;
    if (scaler != NULL) {
        return lower_error(l, c->loc, "the gradients carry a loss scale: %s.step(%s)", scaler,
                           o->decl->name);
    }
    return take_step(l, c, c->args[0].optimizer, NULL);
}

Val fn_scaler_step(Lower *l, Call *c)
{
    Optimizer *o;
    if (!optimizer_arg(l, c, 1, &o) || !have_gradients(l, c) ||
        !same_scaler(l, c, c->args[0].decl->name, o)) {
        return val_poison();
    }
    return take_step(l, c, o, c->args[0].decl->name);
}

/* The scaler is that of some gradients here. */
static bool scales_any(Lower *l, Call *c)
{
    for (int i = 0; i < l->run->scalers.n; i++) {
        if (str_eq(l->run->scalers.at[i], c->args[0].decl->name)) {
            return true;
        }
    }
    return same_scaler(l, c, c->args[0].decl->name, NULL);
}

Val fn_update(Lower *l, Call *c)
{
    if (!have_gradients(l, c) || !scales_any(l, c)) {
        return val_poison();
    }
    Attrs attrs = {0};
    attrs_set_str(l->arena, &attrs, ATTR_scaler, c->args[0].decl->name);
    return next_marker(l, OP_scaler_update, attrs);
}

/* Behind the steps; zero_grad may stand between. */
Val fn_ema_update(Lower *l, Call *c)
{
    const Decl *ema = c->args[0].decl;
    if (!in_program(l, c)) {
        return val_poison();
    }
    if (c->args[1].kind != VAL_none && c->args[1].kind != VAL_instance) {
        return lower_error(l, c->locs[1], "`%s` takes the model, or nothing, but this is %s",
                           c->fn->name, val_describe(l, c->args[1]));
    }
    if (l->run == NULL || !l->run->open || l->run->last_step == NULL) {
        return lower_error(
            l, c->loc,
            "no step stands before `%s.%s` in its block: it follows optimizer.step() "
            "or scaler.step(optimizer)",
            ema->name, c->fn->name);
    }
    Attrs attrs = {0};
    attrs_set_str(l->arena, &attrs, ATTR_ema, ema->name);
    bool live = l->run->token != NULL;
    Node *n = marker(l, OP_ema_update, live ? l->run->token : l->run->last_step, attrs);
    if (n != NULL && live) {
        l->run->token = n;
    }
    return n == NULL ? val_poison() : val_none();
}

/* All are. In the usual case, where the graph of backward has the whole chain, they just end here. */
static void cleared(Lower *l, Gradients *g, Loc loc)
{
    bool plain = g->live && !g->spilled;
    if (plain && g->kept && g->left_early) {
        lower_error(l, g->made,
                    "these gradients would be added to those of the next batch where `break` or "
                    "`continue` leaves before zero_grad");
        lower_note(l, loc, "zero_grad is here; it may also come before backward");
    } else if (g->live && g->spilled) {
        spill(l, g);
    } else if (!g->live && gradients_live(l) != NULL) {
        gradients_live(l)->perhaps_cleared = true;
    }
    if (!plain) {
        /* statements that use tensors are one call, and what it reads is set before it */
        bool before = l->run != NULL && l->run->open && !l->run->marked;
        int at = before ? place_of(l->block, l->run->call) : l->block->n;
        assign_cleared(l, l->block, at, true, loc);
    }
    *g = (Gradients){.outer = g->outer,
                     .cleared = true,
                     .errors = g->errors,
                     .reached = g->reached,
                     .zeroed = g->zeroed,
                     .first = g->first};
    if (l->run != NULL) {
        l->run->token = NULL;
    }
}

/* One optimizer's. In the graph of its backward they leave the set. */
static void forget(Lower *l, Gradients *g, Optimizer *o, uint64_t bit)
{
    bool others = g->live && (g->reached & ~g->zeroed & ~bit) != 0;
    if ((g->reached & bit) == 0) {
        g->first |= bit;
    }
    g->zeroed |= bit;
    if (others && is_live(l, o) && l->run->token != NULL) {
        Attrs attrs = {0};
        attrs_set_str(l->arena, &attrs, ATTR_optimizer, o->decl->name);
        next_marker(l, OP_forget, attrs);
    }
    o->live = false;
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
        Optimizer *o = l->optimizers.at[i];
        uint64_t bit = (uint64_t)1 << i;
        if (v.kind == VAL_optimizer ? o == v.optimizer : optimizer_trains(o, v.instance)) {
            forget(l, g, o, bit);
        }
        all = all && ((g->zeroed & bit) != 0 || (g->live && (g->reached & bit) == 0));
    }
    if (all) {
        cleared(l, g, c->loc);
    }
    return val_none();
}
