/* infer.c: types and shapes of every node, and what --precision asks for.
 *
 * Needs:   a lowered module. Types are as if every parameter were f32, nothing is cast for autocast yet.
 * Leaves:  every node's type and dims as its rule says; node->amp as the command line wants it;
 *          module->precision; with fp16 a scaler around every backward (a file that has f16 and none is
 *          refused, unless it switches one off); logarithms of softmax and sigmoid in
 *          their stable forms.
 *
 * --precision=X on a file with autocast of its own retypes those regions; f32 and bf16 also switch scalers
 * off. On a file without, the whole forward becomes one region:
 *
 *   %g = backward %l             %s = scale_loss %l {scaler="scaler"}
 *   %t = optimizer_step %g  ->   %g = backward %s
 *                                %t = optimizer_step %g {scaler="scaler"}
 *                                %u = scaler_update %t {scaler="scaler"}   (tests/passes/infer-fp16.ir) */
#include "passes/ctx.h"

static bool is_marker(const Node *n)
{
    return op_info[n->op].kind == KIND_Mark;
}

/* ---- regions ------------------------------------------------------------------------------------- */

static bool has_autocast(const Module *m)
{
    for (int i = 0; i < m->ngraphs; i++) {
        const Graph *g = m->graphs[i];
        for (int k = 0; k < g->nnodes; k++) {
            if (g->nodes[k]->amp != DT_none) {
                return true;
            }
        }
    }
    return false;
}

/* Data preparation is no part of the model: its types are the file's. */
static void retype_regions(Module *m, DType precision, bool everything)
{
    for (int i = 0; i < m->ngraphs; i++) {
        Graph *g = m->graphs[i];
        for (int k = 0; k < g->nnodes; k++) {
            Node *n = g->nodes[k];
            bool joins = everything && g->role != GRAPH_Prepare && !is_marker(n) && n->op != OP_arg;
            n->amp = n->amp != DT_none || joins ? precision : DT_none;
        }
    }
}

static DType regions_type(const Module *m)
{
    DType found = DT_none;
    for (int i = 0; i < m->ngraphs; i++) {
        const Graph *g = m->graphs[i];
        for (int k = 0; k < g->nnodes; k++) {
            DType amp = g->nodes[k]->amp;
            if (amp != DT_none && (found == DT_none || dtype_is_low(amp))) {
                found = amp;
            }
        }
    }
    return found;
}

/* ---- scalers ------------------------------------------------------------------------------------- */

static void disable_scalers(Module *m)
{
    for (int i = 0; i < m->ndecls; i++) {
        if (m->decls[i]->kind == DECL_scaler) {
            attrs_set_bool(m->arena, &m->decls[i]->attrs, ATTR_enabled, false);
        }
    }
}

static const char *free_scaler_name(const Module *m)
{
    const char *name = "scaler";
    for (int i = 2; module_find(m, DECL_scaler, name) != NULL; i++) {
        name = arena_printf(m->arena, "scaler_%d", i);
    }
    return name;
}

/* GradScaler() with PyTorch's defaults and our bounds. */
static Decl *declare_scaler(Module *m, Loc loc)
{
    Decl *d = module_decl(m, DECL_scaler, free_scaler_name(m));
    d->loc = loc;
    attrs_set_float(m->arena, &d->attrs, ATTR_init_scale, 65536.0);
    attrs_set_float(m->arena, &d->attrs, ATTR_growth_factor, 2.0);
    attrs_set_float(m->arena, &d->attrs, ATTR_backoff_factor, 0.5);
    attrs_set_int(m->arena, &d->attrs, ATTR_growth_interval, 2000);
    attrs_set_float(m->arena, &d->attrs, ATTR_scale_min, 1.0);
    attrs_set_float(m->arena, &d->attrs, ATTR_scale_max, 16777216.0);
    attrs_set_int(m->arena, &d->attrs, ATTR_max_skips, 20);
    attrs_set_bool(m->arena, &d->attrs, ATTR_enabled, true);
    return d;
}

static Node *mark(Builder *b, Op op, Node *in, const char *scaler, const char *optimizer)
{
    Attrs attrs = {0};
    attrs_set_str(b->graph->arena, &attrs, ATTR_scaler, scaler);
    if (optimizer != NULL) {
        attrs_set_str(b->graph->arena, &attrs, ATTR_optimizer, optimizer);
    }
    return build(b, op, 1, &in, attrs);
}

static bool is_unscaled_backward(const Node *n)
{
    return n->op == OP_backward && n->in[0]->op != OP_scale_loss;
}

/* Clipping wants true gradients, so they are unscaled before it, for every optimizer that steps later. */
static Node *unscale_all(Rebuild *r, Builder *b, Node *grads, const char *scaler)
{
    bool clips = false;
    for (int i = 0; i < r->n; i++) {
        clips = clips || r->old[i]->op == OP_clip_grad_norm || r->old[i]->op == OP_clip_grad_value;
    }
    for (int i = 0; i < r->n && clips; i++) {
        if (r->old[i]->op == OP_optimizer_step) {
            const char *optimizer = attrs_str(&r->old[i]->attrs, ATTR_optimizer);
            grads = mark(b, OP_unscale, grads, scaler, optimizer);
        }
    }
    return grads;
}

static bool is_unscaled_sum(const Node *n)
{
    return n->op == OP_accumulated && attrs_str(&n->attrs, ATTR_scaler) == NULL;
}

static void scale_graph(PassCtx *c, Graph *g, const char *scaler)
{
    Rebuild r = rebuild_begin(g, c->scratch);
    const Node *last = NULL;
    for (int i = 0; i < r.n; i++) {
        last = r.old[i]->op == OP_optimizer_step ? r.old[i] : last;
    }
    for (int i = 0; i < r.n; i++) {
        Node *n = r.old[i];
        Builder b = {.graph = g, .diag = c->diag, .loc = n->loc};
        rebuild_operands(&r, n);
        if (is_unscaled_backward(n)) {
            n->in[0] = mark(&b, OP_scale_loss, n->in[0], scaler, NULL);
            rebuild_keep(&r, n);
            rebuild_replace(&r, n, unscale_all(&r, &b, n, scaler));
            continue;
        }
        if (is_unscaled_sum(n)) {
            attrs_set_str(c->arena, &n->attrs, ATTR_scaler, scaler);
            rebuild_keep(&r, n);
            rebuild_replace(&r, n, unscale_all(&r, &b, n, scaler));
            continue;
        }
        if (n->op == OP_optimizer_step) {
            attrs_set_str(c->arena, &n->attrs, ATTR_scaler, scaler);
        }
        rebuild_keep(&r, n);
        if (n == last) {
            rebuild_replace(&r, n, mark(&b, OP_scaler_update, n, scaler, NULL));
        }
    }
    rebuild_end(&r);
}

/* fp16 asked for where the file has no scaler: f16 gradients without one underflow. */
static void add_scaler(PassCtx *c)
{
    const char *scaler = NULL;
    for (int i = 0; i < c->m->ngraphs; i++) {
        Graph *g = c->m->graphs[i];
        for (int k = 0; k < g->nnodes; k++) {
            if (is_unscaled_backward(g->nodes[k]) || is_unscaled_sum(g->nodes[k])) {
                if (scaler == NULL) {
                    scaler = declare_scaler(c->m, g->nodes[k]->loc)->name;
                }
                scale_graph(c, g, scaler);
                break;
            }
        }
    }
}

/* ---- f16 without a scale -------------------------------------------------------------------------- */

/* A node of an f16 region that the loss is computed from; NULL if there is none. */
static const Node *low_source(PassCtx *c, const Graph *g, const Node *loss)
{
    bool *reached = ARENA_ARRAY(c->scratch, bool, g->nnodes);
    const Node *found = NULL;
    reached[loss->id] = true;
    for (int i = loss->id; i >= 0; i--) {
        const Node *n = g->nodes[i];
        bool low = op_info[n->op].cast == CAST_Low && n->amp == DT_f16 && !n->forced;
        found = reached[i] && low ? n : found;
        for (int k = 0; reached[i] && k < n->nin; k++) {
            reached[n->in[k]->id] = true;
        }
    }
    return found;
}

/* A scaler that the file switches off says that it is meant. */
static bool unscaled_on_purpose(const Module *m)
{
    for (int i = 0; i < m->ndecls; i++) {
        const Decl *d = m->decls[i];
        if (d->kind == DECL_scaler && !attrs_bool(&d->attrs, ATTR_enabled)) {
            return true;
        }
    }
    return false;
}

static bool check_scaled(PassCtx *c, const Graph *g)
{
    bool ok = true;
    for (int i = 0; i < g->nnodes; i++) {
        const Node *n = g->nodes[i];
        const Node *low = is_unscaled_backward(n) ? low_source(c, g, n->in[0]) : NULL;
        if (low == NULL || unscaled_on_purpose(c->m)) {
            continue;
        }
        diag_error(c->diag, n->loc,
                   "gradients in f16 without a loss scale: those below 6e-8 would become 0");
        diag_note(c->diag, low->loc, "%s is in f16 here", op_info[low->op].name);
        diag_note(
            c->diag, n->loc,
            "scaler = GradScaler(), then backward(scaler.scale(loss)), scaler.step(optimizer) and "
            "scaler.update(); GradScaler(enabled = false) trains without a scale");
        ok = false;
    }
    return ok;
}

/* ---- stable forms -------------------------------------------------------------------------------- */

static bool is_one(const Node *n)
{
    return n->op == OP_const && attrs_float(&n->attrs, ATTR_value, 0) == 1;
}

/* What a logarithm is better computed as, because its operand underflows first; NULL: as it stands. */
static Node *stable_log(Builder *b, const Node *log, const char **what)
{
    Node *x = log->in[0];
    if (x->op == OP_softmax) {
        *what = "log(softmax(x)) is computed as log_softmax(x)";
        return build(b, OP_log_softmax, 1, x->in, x->attrs);
    }
    if (x->op == OP_sigmoid) {
        *what = "log(sigmoid(x)) is computed as logsigmoid(x)";
        return build1(b, OP_logsigmoid, x->in[0]);
    }
    if (x->op == OP_sub && is_one(x->in[0]) && x->in[1]->op == OP_sigmoid) {
        *what = "log(1 - sigmoid(x)) is computed as logsigmoid(-x)";
        return build1(b, OP_logsigmoid, build1(b, OP_neg, x->in[1]->in[0]));
    }
    return NULL;
}

static void stabilize(PassCtx *c, Graph *g)
{
    Rebuild r = rebuild_begin(g, c->scratch);
    bool changed = false;
    for (int i = 0; i < r.n; i++) {
        Node *n = r.old[i];
        rebuild_operands(&r, n);
        Builder b = {.graph = g,
                     .diag = c->diag,
                     .loc = n->loc,
                     .amp = n->amp,
                     .name = n->name,
                     .region = n->region};
        const char *what = NULL;
        Node *stable = n->op == OP_log ? stable_log(&b, n, &what) : NULL;
        if (stable == NULL) {
            rebuild_keep(&r, n);
            continue;
        }
        changed = true;
        stable->forced = n->forced;
        diag_note(c->diag, n->loc, "%s, which does not underflow", what);
        rebuild_replace(&r, n, stable);
    }
    rebuild_end(&r);
    if (changed) {
        graph_dce(g);
    }
}

bool pass_infer(PassCtx *c)
{
    DType precision = c->opt->precision;
    if (precision != DT_none) {
        retype_regions(c->m, precision, !has_autocast(c->m));
        if (precision == DT_f16) {
            add_scaler(c);
        } else {
            disable_scalers(c->m);
        }
        c->m->precision = precision;
    } else if (c->m->precision == DT_none) {
        c->m->precision = regions_type(c->m);
    }
    bool ok = true;
    for (int i = 0; i < c->m->ngraphs; i++) {
        Graph *g = c->m->graphs[i];
        for (int k = 0; k < g->nnodes; k++) {
            ok = infer_node(g, g->nodes[k], c->diag) && ok;
        }
        ok = ok && check_scaled(c, g);
        if (ok) {
            stabilize(c, g);
        }
    }
    return ok;
}
