/* verify.c: whether a module is what every layer may rely on: structure, types and shapes (by the
 * rules of shape.c), attributes, names. Runs after the reader and between passes; what it finds in
 * a module that the compiler made is our own bug, and in an .ir file its writer's. Host programs:
 * verify_host.c. Batches: verify_data.c. */
#include "ir/verify.h"

#include <string.h>

#include "ir/base/strutil.h"

void verify_fail(Verify *v, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *what = arena_vprintf(v->scratch, fmt, ap);
    va_end(ap);
    v->ok = false;
    if (v->g == NULL) {
        diag_error(v->diag, loc, "invalid IR after %s: %s", v->m->last_pass, what);
    } else if (v->n == NULL) {
        diag_error(v->diag, loc, "invalid IR after %s: graph @%s: %s", v->m->last_pass, v->g->name,
                   what);
    } else {
        diag_error(v->diag, loc, "invalid IR after %s: graph @%s: %%%d (%s): %s", v->m->last_pass,
                   v->g->name, v->n->id, v->n->op < OP_COUNT ? op_info[v->n->op].name : "?", what);
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool is_node_of(const Graph *g, const Node *n)
{
    return n != NULL && n->id >= 0 && n->id < g->nnodes && g->nodes[n->id] == n;
}

static bool may_carry(Op op, AttrId id)
{
    for (int i = 0; i < op_info[op].nattrs; i++) {
        if (op_info[op].attrs[i] == id) {
            return true;
        }
    }
    return false;
}

/* Values that code after the verifier will use without a look. */
static void verify_attrs(Verify *v, const Attrs *as, Loc loc)
{
    for (int i = 0; i < as->n; i++) {
        const Attr *a = &as->v[i];
        if (a->id >= ATTR_COUNT || (i > 0 && as->v[i - 1].id >= a->id)) {
            verify_fail(v, loc, "attributes out of order");
            return;
        }
        switch (attr_info[a->id].type) {
        case AT_Str:
            if (a->s == NULL) {
                verify_fail(v, loc, "%s has no value", attr_info[a->id].name);
            }
            break;
        case AT_Dtype:
            if (a->dtype == DT_none || a->dtype >= DT_COUNT) {
                verify_fail(v, loc, "%s has no value", attr_info[a->id].name);
            }
            break;
        case AT_Expr: verify_expr(v, a->expr, loc); break;
        case AT_Bool:
            if (!a->b) {
                verify_fail(v, loc, "%s is false, and so must not be there", attr_info[a->id].name);
            }
            break;
        case AT_Int:
        case AT_Float:
        case AT_Ints:
        case AT_Floats:
        case AT_Strs: break;
        }
    }
}

static void verify_inference(Verify *v, const Node *n)
{
    Node again = *n;
    if (!infer_node((Graph *)v->g, &again, v->diag)) {
        v->ok = false;
        diag_note(v->diag, n->loc, "in graph @%s, %%%d, after %s", v->g->name, n->id,
                  v->m->last_pass);
        return;
    }
    if (again.dtype != n->dtype) {
        verify_fail(v, n->loc, "has type %s, and its operands give %s", dtype_info[n->dtype].name,
                    dtype_info[again.dtype].name);
    }
    if (!dims_equal(&again.dims, &n->dims)) {
        verify_fail(v, n->loc, "has shape [%s], and its operands give [%s]",
                    dims_text(v->scratch, v->g, &n->dims),
                    dims_text(v->scratch, v->g, &again.dims));
    }
}

static bool dims_valid(const Graph *g, const Dims *d)
{
    bool ok = d->rank >= 0 && d->rank <= MAX_RANK;
    for (int i = 0; ok && i < d->rank; i++) {
        ok = d->d[i].k >= 0 && d->d[i].sym[0] <= g->nsyms && d->d[i].sym[1] <= d->d[i].sym[0];
    }
    return ok;
}

static void verify_tensor_use(Verify *v, const char *name, const Node *n, Loc loc)
{
    const Tensor *t = module_find_tensor(v->m, name);
    if (t == NULL) {
        verify_fail(v, loc, "there is no tensor '%s'", name);
    } else if (t->dtype != n->dtype || !dims_equal(&t->dims, &n->dims)) {
        static const Graph none;
        verify_fail(v, loc, "'%s' is %s[%s], not %s[%s]", name, dtype_info[t->dtype].name,
                    dims_text(v->scratch, &none, &t->dims), dtype_info[n->dtype].name,
                    dims_text(v->scratch, v->g, &n->dims));
    }
}

static void verify_arg(Verify *v, const Node *n)
{
    if (n->attrs.n != 1) {
        verify_fail(v, n->loc, "an argument has exactly one role");
        return;
    }
    const Attr *role = &n->attrs.v[0];
    if (role->id == ATTR_param || role->id == ATTR_state) {
        verify_tensor_use(v, role->s, n, n->loc);
    }
    if (role->id == ATTR_lr && (n->dtype != DT_f64 || n->dims.rank != 0)) {
        verify_fail(v, n->loc, "a learning rate is a scalar of type f64");
    }
    if (role->id == ATTR_lr && module_find(v->m, DECL_optimizer, role->s) == NULL &&
        module_find(v->m, DECL_group, role->s) == NULL) {
        verify_fail(v, n->loc, "there is no optimizer '%s'", role->s);
    }
    if ((role->id == ATTR_host || role->id == ATTR_seed) && n->dims.rank != 0) {
        verify_fail(v, n->loc, "numbers of the host program are scalars");
    }
    if (role->id == ATTR_rng && (n->dtype != DT_i64 || n->dims.rank != 1)) {
        verify_fail(v, n->loc, "random keys are i64[B]");
    }
    for (int i = 0; i < n->id; i++) {
        const Node *other = v->g->nodes[i];
        if (other->op == OP_arg && attrs_equal(&other->attrs, &n->attrs)) {
            verify_fail(v, n->loc, "is the same argument as %%%d", i);
        }
    }
}

static void verify_mark(Verify *v, const Node *n)
{
    const char *optimizer = attrs_str(&n->attrs, ATTR_optimizer);
    const char *scaler = attrs_str(&n->attrs, ATTR_scaler);
    const char *ema = attrs_str(&n->attrs, ATTR_ema);
    if ((n->op == OP_optimizer_step || n->op == OP_unscale || n->op == OP_forget) &&
        optimizer == NULL) {
        verify_fail(v, n->loc, "no optimizer is given");
    }
    if ((n->op == OP_scale_loss || n->op == OP_scaler_update) && scaler == NULL) {
        verify_fail(v, n->loc, "no scaler is given");
    }
    if (optimizer != NULL && module_find(v->m, DECL_optimizer, optimizer) == NULL) {
        verify_fail(v, n->loc, "there is no optimizer '%s'", optimizer);
    }
    if (scaler != NULL && module_find(v->m, DECL_scaler, scaler) == NULL) {
        verify_fail(v, n->loc, "there is no scaler '%s'", scaler);
    }
    if (n->op == OP_ema_update && (ema == NULL || module_find(v->m, DECL_ema, ema) == NULL)) {
        verify_fail(v, n->loc, "there is no ema '%s'", ema != NULL ? ema : "");
    }
    const Attr *params = attrs_find(&n->attrs, ATTR_params);
    for (int i = 0; params != NULL && i < params->strs.n && i < n->nin; i++) {
        const Tensor *t = module_find_tensor(v->m, params->strs.v[i]);
        if (t == NULL || !dims_equal(&t->dims, &n->in[i]->dims)) {
            verify_fail(v, n->loc, "operand %d is no gradient of a tensor '%s'", i + 1,
                        params->strs.v[i]);
        }
    }
}

static void verify_node(Verify *v, const Node *n)
{
    bool before = v->ok;
    v->ok = true; /* the rules rely on what was checked before them, of this node */
    if (n->op >= OP_COUNT || n->dtype == DT_none || n->dtype >= DT_COUNT || n->amp >= DT_COUNT ||
        !dims_valid(v->g, &n->dims)) {
        verify_fail(v, n->loc, "its op, type or shape is none");
        return;
    }
    for (int i = 0; i < n->nin; i++) {
        if (!is_node_of(v->g, n->in[i]) || n->in[i]->id >= n->id) {
            verify_fail(v, n->loc, "operand %d is not defined above", i + 1);
            return;
        }
    }
    verify_attrs(v, &n->attrs, n->loc);
    for (int i = 0; i < n->attrs.n; i++) {
        if (n->attrs.v[i].id < ATTR_COUNT && !may_carry(n->op, n->attrs.v[i].id)) {
            verify_fail(v, n->loc, "does not take the attribute %s",
                        attr_info[n->attrs.v[i].id].name);
        }
    }
    if (n->op == OP_const && attrs_find(&n->attrs, ATTR_value) == NULL) {
        verify_fail(v, n->loc, "has no value");
    }
    if (n->op == OP_uniform && attrs_str(&n->attrs, ATTR_path) == NULL) {
        verify_fail(v, n->loc, "has no path");
    }
    if (n->op == OP_own_grad && attrs_str(&n->attrs, ATTR_module) == NULL) {
        verify_fail(v, n->loc, "has no module");
    }
    if (v->ok) {
        verify_inference(v, n);
    }
    if (v->ok && n->op == OP_arg) {
        verify_arg(v, n);
    }
    if (v->ok && op_info[n->op].kind == KIND_Mark) {
        verify_mark(v, n);
    }
    v->ok = v->ok && before;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void verify_print(Verify *v, const Print *p)
{
    for (int i = 0; i < p->nparts; i++) {
        bool found = p->parts[i].result == NULL;
        for (int k = 0; k < v->g->nresults && !found; k++) {
            found = v->g->results[k].kind == RESULT_Print &&
                    str_eq(v->g->results[k].name, p->parts[i].result);
        }
        if (!found) {
            verify_fail(v, p->loc, "%s is printed, and is no result of the kind print",
                        p->parts[i].result);
        }
    }
    if (v->g->role == GRAPH_Prepare) {
        verify_fail(v, p->loc, "a prepare graph prints nothing");
    }
}

static void verify_result(Verify *v, int i)
{
    const Result *r = &v->g->results[i];
    if (!is_node_of(v->g, r->value)) {
        verify_fail(v, v->g->loc, "result %s is not computed", r->name);
        return;
    }
    if (r->value->dtype == DT_grads) {
        verify_fail(v, v->g->loc, "result %s is a set of gradients", r->name);
    }
    if (r->kind == RESULT_State) {
        verify_tensor_use(v, r->name, r->value, v->g->loc);
    }
    if (r->kind == RESULT_Host && r->value->dims.rank != 0 && v->g->role != GRAPH_Eval) {
        verify_fail(v, v->g->loc, "result %s goes to the host program, and is no scalar", r->name);
    }
    if (v->g->role == GRAPH_Prepare ? r->kind != RESULT_Field
                                    : r->kind == RESULT_Field && v->g->role != GRAPH_Eval) {
        verify_fail(v, v->g->loc,
                    "result %s: a prepare graph gives fields and nothing else, a step none",
                    r->name);
    }
    for (int k = 0; k < i; k++) {
        if (v->g->results[k].kind == r->kind && str_eq(v->g->results[k].name, r->name)) {
            verify_fail(v, v->g->loc, "result %s is given twice", r->name);
        }
    }
}

static void verify_graph(Verify *v, const Graph *g)
{
    v->g = g;
    if (g->name == NULL || g->nsyms < 0 || g->nsyms > MAX_SYMS || g->role > GRAPH_Prepare) {
        verify_fail(v, g->loc, "its head is broken");
        return;
    }
    for (int i = 0; i < g->nsyms; i++) {
        if (g->syms[i].name == NULL || g->syms[i].bound < 1 || g->syms[i].multiple_of < 1) {
            verify_fail(v, g->loc, "symbol %d has no name or bound", i);
        }
    }
    for (int i = 0; i < g->nnodes; i++) {
        g->nodes[i]->id = i;
    }
    for (int i = 0; i < g->nnodes && !diag_full(v->diag); i++) {
        v->n = g->nodes[i];
        if (v->n->id != i) {
            verify_fail(v, v->n->loc, "stands in two places of the list");
        } else {
            verify_node(v, v->n);
        }
        v->n = NULL;
    }
    for (int i = 0; i < g->nresults && !diag_full(v->diag); i++) {
        verify_result(v, i);
    }
    for (int i = 0; i < g->nprints && !diag_full(v->diag); i++) {
        verify_print(v, &g->prints[i]);
    }
    v->g = NULL;
}

/* ---- declarations ---------------------------------------------------------------------------- */

/* What a declaration cannot do without. */
static const AttrId needed[DECL_COUNT][4] = {
    [DECL_layer] = {ATTR_kind, ATTR_COUNT},
    [DECL_option] = {ATTR_type, ATTR_default, ATTR_COUNT},
    [DECL_data] = {ATTR_kind, ATTR_COUNT},
    [DECL_loader] = {ATTR_dataset, ATTR_batch_size, ATTR_bound, ATTR_COUNT},
    [DECL_optimizer] = {ATTR_kind, ATTR_base_lr, ATTR_COUNT},
    [DECL_group] = {ATTR_optimizer, ATTR_params, ATTR_COUNT},
    [DECL_scheduler] = {ATTR_kind, ATTR_optimizer, ATTR_COUNT},
    [DECL_scaler] = {ATTR_init_scale, ATTR_COUNT},
    [DECL_ema] = {ATTR_params, ATTR_decay, ATTR_COUNT},
};

static void verify_named(Verify *v, const Decl *d, AttrId id, DeclKind kind)
{
    const char *name = attrs_str(&d->attrs, id);
    if (name != NULL && module_find(v->m, kind, name) == NULL) {
        verify_fail(v, d->loc, "%s %s: there is no %s '%s'", decl_name[d->kind], d->name,
                    decl_name[kind], name);
    }
}

/* An average of each of its parameters, of the same shape, and the count of its updates. */
static void verify_ema(Verify *v, const Decl *d)
{
    const Attr *params = attrs_find(&d->attrs, ATTR_params);
    for (int i = 0; params != NULL && i < params->strs.n; i++) {
        const Tensor *t = module_find_tensor(v->m, params->strs.v[i]);
        const Tensor *average = module_find_tensor(
            v->m, arena_printf(v->m->arena, "%s.%s", d->name, params->strs.v[i]));
        if (t == NULL || average == NULL || !str_eq(average->of, t->name) ||
            !dims_equal(&t->dims, &average->dims)) {
            verify_fail(v, d->loc, "ema %s: no tensor is the average of '%s'", d->name,
                        params->strs.v[i]);
        }
    }
    const Tensor *updates =
        module_find_tensor(v->m, arena_printf(v->m->arena, "%s.updates", d->name));
    if (updates == NULL || updates->dtype != DT_i64 || updates->dims.rank != 0) {
        verify_fail(v, d->loc, "ema %s: no tensor counts its updates", d->name);
    }
}

static void verify_decl(Verify *v, const Decl *d)
{
    if (d->kind >= DECL_COUNT || d->name == NULL) {
        verify_fail(v, d->loc, "a declaration without a kind or a name");
        return;
    }
    if (module_find(v->m, d->kind, d->name) != d) {
        verify_fail(v, d->loc, "%s %s is declared twice", decl_name[d->kind], d->name);
    }
    verify_attrs(v, &d->attrs, d->loc);
    for (const AttrId *id = needed[d->kind]; *id != ATTR_COUNT; id++) {
        if (attrs_find(&d->attrs, *id) == NULL) {
            verify_fail(v, d->loc, "%s %s: no %s is given", decl_name[d->kind], d->name,
                        attr_info[*id].name);
        }
    }
    if (d->kind == DECL_ema) {
        verify_ema(v, d);
    }
    HostType type;
    if (d->kind == DECL_option && !option_type(d, &type)) {
        verify_fail(v, d->loc, "option %s: its type is none", d->name);
    }
    verify_named(v, d, ATTR_dataset, DECL_data);
    verify_named(v, d, ATTR_of, DECL_data);
    verify_named(v, d, ATTR_optimizer, DECL_optimizer);
    const AttrId prepares[2] = {ATTR_prepare, ATTR_prepare_eval};
    for (int i = 0; i < 2; i++) {
        const char *prepare = attrs_str(&d->attrs, prepares[i]);
        const Graph *g = prepare != NULL ? module_find_graph(v->m, prepare) : NULL;
        if (prepare != NULL && (g == NULL || g->role != GRAPH_Prepare)) {
            verify_fail(v, d->loc, "%s: there is no prepare graph '%s'", d->name, prepare);
        }
    }
    const Attr *args = attrs_find(&d->attrs, ATTR_args);
    if (d->nvalues != (args != NULL ? args->strs.n : 0)) {
        verify_fail(v, d->loc, "%s: as many values as names are needed", d->name);
    }
    for (int i = 0; i < d->nvalues; i++) {
        verify_expr(v, d->values[i], d->loc);
    }
}

static void verify_tensor(Verify *v, const Tensor *t)
{
    if (t->name == NULL || t->role >= TENSOR_ROLES || t->dtype == DT_none || t->dtype >= DT_grads) {
        verify_fail(v, t->loc, "a tensor without name, role or type");
        return;
    }
    if (module_find_tensor(v->m, t->name) != t) {
        verify_fail(v, t->loc, "tensor %s is declared twice", t->name);
    }
    static const Graph none;
    Dim count;
    if (!dims_valid(&none, &t->dims) || !dims_count(&t->dims, &count)) {
        verify_fail(v, t->loc, "tensor %s: its shape is none", t->name);
    }
    if (t->of != NULL && module_find_tensor(v->m, t->of) == NULL) {
        verify_fail(v, t->loc, "tensor %s: there is no tensor '%s'", t->name, t->of);
    }
    verify_attrs(v, &t->init, t->loc);
}

bool module_verify(const Module *m, Diag *diag)
{
    Verify v = {.m = m, .diag = diag, .scratch = arena_new(), .ok = true};
    for (int i = 0; i < m->ndecls && !diag_full(diag); i++) {
        verify_decl(&v, m->decls[i]);
    }
    for (int i = 0; i < m->ntensors && !diag_full(diag); i++) {
        verify_tensor(&v, m->tensors[i]);
    }
    for (int i = 0; i < m->ngraphs && !diag_full(diag); i++) {
        if (module_find_graph(m, m->graphs[i]->name) != m->graphs[i]) {
            verify_fail(&v, m->graphs[i]->loc, "graph @%s is given twice", m->graphs[i]->name);
        }
        verify_graph(&v, m->graphs[i]);
    }
    for (int i = 0; v.ok && i < m->ndecls; i++) {
        if (m->decls[i]->kind == DECL_data) {
            verify_data(&v, m->decls[i]);
        } else if (m->decls[i]->kind == DECL_loader) {
            verify_loader(&v, m->decls[i]);
        }
    }
    verify_host(&v);
    arena_free(v.scratch);
    return v.ok;
}
