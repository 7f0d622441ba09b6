/* lower_module.c: instances of modules, calls of their functions, and the statements in them.
 *
 * A module is evaluated once for each instance: its members get their full names ("h.3.attn.weight"), its
 * parameters are declared. Its functions are evaluated at each call; their `if` and `for` are decided here.
 */
#include "frontend/lower.h"

/* ---- names ----------------------------------------------------------------------------------------- */

ModuleDecl *module_lookup(Lower *l, const char *name)
{
    for (int i = 0; i < l->modules.n; i++) {
        if (str_eq(l->modules.at[i]->ast->name, name)) {
            return l->modules.at[i];
        }
    }
    return NULL;
}

const Ast *module_func(const ModuleDecl *decl, const char *name)
{
    for (int i = 0; i < decl->ast->list2.n; i++) {
        const Ast *m = decl->ast->list2.at[i];
        if (m->kind == AST_func && str_eq(m->name, name)) {
            return m;
        }
    }
    return NULL;
}

Val *instance_member(const Instance *self, const char *name)
{
    Val *v = scope_find(&self->members, name);
    return v != NULL ? v : scope_find(&self->args, name);
}

void instance_names(const Lower *l, const Instance *self, Names *names)
{
    for (int i = 0; i < self->members.n; i++) {
        vec_push(l->arena, names, self->members.at[i].name);
    }
    for (int i = 0; i < self->args.n; i++) {
        vec_push(l->arena, names, self->args.at[i].name);
    }
    for (int i = 0; i < self->decl->ast->list2.n; i++) {
        if (self->decl->ast->list2.at[i]->kind == AST_func) {
            vec_push(l->arena, names, self->decl->ast->list2.at[i]->name);
        }
    }
}

const char *path_join(Lower *l, const char *path, const char *name)
{
    return path == NULL || path[0] == '\0' ? name : arena_printf(l->arena, "%s.%s", path, name);
}

/* ---- arguments ------------------------------------------------------------------------------------- */

Formal *module_formals(Lower *l, const AstList *args)
{
    Formal *f = ARENA_ARRAY(l->arena, Formal, args->n + 1);
    for (int i = 0; i < args->n; i++) {
        f[i].name = args->at[i]->name;
        f[i].otherwise = args->at[i]->value;
        f[i].optional = args->at[i]->value != NULL;
    }
    return f;
}

/* A size of a typed argument: a number to be met, or a name that takes the size it finds. */
static bool meet_dim(Lower *l, const Ast *want, Dim have, bool *fits)
{
    Val known = val_none();
    if (want->kind == AST_name) {
        const Val *v = scope_find(&l->frame->locals, want->name);
        v = v != NULL || l->frame->self == NULL ? v : instance_member(l->frame->self, want->name);
        v = v != NULL || l->frame->is_std ? v : scope_find(&l->globals, want->name);
        if (v == NULL || (v->kind != VAL_int && v->kind != VAL_dim && v->kind != VAL_host &&
                          v->kind != VAL_poison)) {
            scope_add(l->arena, &l->frame->locals, want->name, val_dim(have));
            *fits = true;
            return true;
        }
        known = *v;
    } else {
        known = eval(l, want);
    }
    Dim d;
    if (!dim_of_val(l, known, want->loc, &d)) {
        return false;
    }
    *fits = dim_equal(d, have);
    return true;
}

static const char *type_text(Lower *l, const Ast *type)
{
    Text *t = text_new(l->arena);
    text_puts(t, type->name);
    for (int i = 0; i < type->list.n; i++) {
        text_printf(t, "%s%s", i == 0 ? "[" : ", ", ast_expr_text(l->arena, type->list.at[i]));
    }
    text_puts(t, type->list.n > 0 ? "]" : "");
    return t->at;
}

Val module_check_type(Lower *l, const Ast *arg, Val v, Loc loc)
{
    const Ast *type = arg->type;
    Dims dims;
    DType dt, want;
    if (type == NULL || val_is_poison(v)) {
        return v;
    }
    if (!eval_dtype(type->name, &want)) {
        return lower_error(l, type->loc, "unknown type `%s`", type->name);
    }
    if (!val_dims(v, &dims, &dt)) {
        return lower_error(l, loc, "`%s` must be a tensor %s, but is %s", arg->name,
                           type_text(l, type), val_describe(l, v));
    }
    bool fits = dt == want && dims.rank == type->list.n;
    for (int i = 0; fits && i < dims.rank; i++) {
        if (!meet_dim(l, type->list.at[i], dims.d[i], &fits)) {
            return val_poison();
        }
    }
    if (!fits) {
        lower_error(l, loc, "`%s` must be %s, but is %s", arg->name, type_text(l, type),
                    val_describe(l, v));
        lower_note(l, arg->loc, "it is declared here");
        return val_poison();
    }
    return v;
}

/* Evaluates the given arguments in the caller's frame; with a path, those that are modules get a name. */
static bool actual_values(Lower *l, const Match *m, const Formal *formals, const char *path,
                          Val *out)
{
    bool fine = true;
    const char *target = l->target;
    for (int i = 0; i < m->n; i++) {
        if (m->actual[i] != NULL) {
            l->target = path == NULL ? NULL : path_join(l, path, formals[i].name);
            out[i] = eval(l, m->actual[i]);
            fine = fine && !val_is_poison(out[i]);
        }
    }
    l->target = target;
    return fine;
}

/* ---- instances ------------------------------------------------------------------------------------- */

static Val recursion(Lower *l, const ModuleDecl *decl, Loc loc)
{
    Text *cycle = text_new(l->arena);
    const Frame *chain[32];
    int n = 0;
    for (const Frame *f = l->frame; f != NULL && n < 32; f = f->up) {
        chain[n++] = f;
        if (f->self != NULL && f->self->decl == decl) {
            break;
        }
    }
    while (n > 0) {
        text_printf(cycle, "%s -> ",
                    chain[--n]->self != NULL ? chain[n]->self->decl->ast->name : "?");
    }
    return lower_error(l, loc, "module %s contains itself: %s%s", decl->ast->name, cycle->at,
                       decl->ast->name);
}

static bool may_instantiate(Lower *l, ModuleDecl *decl, const Ast *call)
{
    if (l->frame != NULL && !l->frame->members_only) {
        lower_error(l, call->loc,
                    "module %s is made here at each call; make it a member, and call that",
                    decl->ast->name);
        lower_note(l, call->loc,
                   "for example `layer = %s(...)` beside forward, and `layer(x)` in it",
                   decl->ast->name);
        return false;
    }
    if (l->loops > 0) {
        lower_error(l, call->loc, "modules are made once, outside of loops");
        return false;
    }
    if (l->target == NULL) {
        lower_error(l, call->loc, "module %s has no name here that its parameters could bear",
                    decl->ast->name);
        lower_note(l, call->loc, "assign it to a variable or a member first");
        return false;
    }
    if (++l->instances > LOWER_MAX_INSTANCES) {
        lower_error(l, call->loc, "the program has more than %d modules", LOWER_MAX_INSTANCES);
        return false;
    }
    return true;
}

static void declare_member(Lower *l, Instance *self, const Ast *m)
{
    if (m->kind == AST_func || m->kind == AST_error) {
        return;
    }
    const char *name = m->kind == AST_assign ? m->target->name : m->name;
    if (m->kind != AST_assign) {
        param_declare(l, self, m);
        return;
    }
    l->target = path_join(l, self->path, name);
    scope_add(l->arena, &self->members, name, eval(l, m->value));
    l->target = NULL;
}

static void declare_members(Lower *l, Instance *self, const Match *m, const Formal *formals,
                            const Val *args)
{
    ModuleDecl *decl = self->decl;
    Frame frame = {.up = l->frame, .self = self, .is_std = decl->is_std, .members_only = true};
    l->frame = &frame;
    for (int i = 0; i < m->n; i++) {
        Val v = m->actual[i] != NULL ? args[i] : eval(l, formals[i].otherwise);
        scope_add(l->arena, &self->args, formals[i].name, v);
    }
    int errors = diag_errors(l->diag);
    for (int i = 0; i < decl->ast->list2.n; i++) {
        declare_member(l, self, decl->ast->list2.at[i]);
    }
    if (diag_errors(l->diag) > errors && !decl->is_std) {
        decl->failed = true;
    }
    l->frame = frame.up;
}

/* For --summary: which module stands at which path. */
static void declare_layer(Lower *l, const Instance *self)
{
    if (self->path == NULL || module_find(l->m, DECL_layer, self->path) != NULL) {
        return;
    }
    Decl *d = module_decl(l->m, DECL_layer, self->path);
    attrs_set_str(l->arena, &d->attrs, ATTR_kind, self->decl->ast->name);
    d->loc = self->loc;
}

Val module_instantiate(Lower *l, ModuleDecl *decl, const Ast *call)
{
    Match m;
    decl->used = true;
    if (decl->open) {
        return recursion(l, decl, call->loc);
    }
    if (!may_instantiate(l, decl, call)) {
        return val_poison();
    }
    Formal *formals = module_formals(l, &decl->ast->list);
    int n = decl->ast->list.n;
    if (!args_match(l, arena_printf(l->arena, "module %s", decl->ast->name), formals, n, 0, call,
                    &m)) {
        return val_poison();
    }
    Val *args = ARENA_ARRAY(l->arena, Val, n + 1);
    if (!actual_values(l, &m, formals, l->target, args) || decl->failed) {
        return val_poison();
    }
    Instance *self = ARENA_NEW(l->arena, Instance);
    self->decl = decl;
    self->path = l->target;
    lower_at(l, call);
    self->loc = l->loc;
    const char *target = l->target;
    int errors = diag_errors(l->diag);
    if (!lower_enter(l, call->loc)) {
        return val_poison();
    }
    decl->open = true;
    declare_layer(l, self);
    declare_members(l, self, &m, formals, args);
    decl->open = false;
    lower_leave(l);
    l->target = target;
    return diag_errors(l->diag) > errors ? val_poison()
                                         : (Val){.kind = VAL_instance, .instance = self};
}

/* ---- calls ----------------------------------------------------------------------------------------- */

static bool listed(const AstList *list, const Ast *func)
{
    for (int i = 0; i < list->n; i++) {
        if (list->at[i] == func) {
            return true;
        }
    }
    return false;
}

static void note_tried(Lower *l, const Ast *func)
{
    if (!listed(&l->tried, func)) {
        vec_push(l->arena, &l->tried, (Ast *)func);
    }
}

static const char *instance_label(const Instance *self)
{
    return self->path[0] != '\0' ? self->path : self->decl->ast->name;
}

/* Evaluates the function; args become what it is called with, defaults and all. */
static Val run_function(Lower *l, Frame *frame, const Match *m, const Formal *formals, Val *args)
{
    const Ast *func = frame->func;
    for (int i = 0; i < m->n; i++) {
        const Ast *arg = func->list.at[i];
        Val v = m->actual[i] != NULL ? args[i] : eval(l, formals[i].otherwise);
        v = module_check_type(l, arg, v, m->actual[i] != NULL ? m->actual[i]->loc : arg->loc);
        if (val_is_poison(v)) {
            return v;
        }
        scope_add(l->arena, &frame->locals, arg->name, v);
        args[i] = v;
    }
    Flow flow = exec_block(l, &func->list2);
    const Ast *grad = module_func(frame->self->decl, "grad");
    bool own = grad != NULL && str_eq(func->name, "forward");
    if (flow == FLOW_stop || val_is_poison(frame->result) || !own) {
        return flow == FLOW_stop ? val_poison() : frame->result;
    }
    note_tried(l, grad);
    return own_grad_apply(l, frame, args, frame->result);
}

Val instance_call(Lower *l, Instance *self, const Ast *func, const Ast *call, DType force)
{
    for (const Frame *f = l->frame; f != NULL; f = f->up) {
        if (f->self == self && f->func == func) {
            return lower_error(l, call->loc, "`%s` of %s calls itself", func->name,
                               instance_label(self));
        }
    }
    if (l->frame != NULL && l->frame->members_only) {
        return lower_error(l, call->loc,
                           "%s is called in forward, not where a module declares its members",
                           instance_label(self));
    }
    Match m;
    Formal *formals = module_formals(l, &func->list);
    const char *what = arena_printf(l->arena, "`%s` of %s", func->name, self->decl->ast->name);
    if (!args_match(l, what, formals, func->list.n, 0, call, &m)) {
        return val_poison();
    }
    Val *args = ARENA_ARRAY(l->arena, Val, m.n + 1);
    if (!actual_values(l, &m, formals, NULL, args) || listed(&l->failed, func) ||
        !tensor_need_run(l, call->loc) || !lower_enter(l, call->loc)) {
        return val_poison();
    }
    lower_at(l, call);
    Frame frame = {.up = l->frame, .self = self, .func = func, .is_std = self->decl->is_std};
    frame.result = val_none();
    DType outer = l->force;
    const char *target = l->target;
    int errors = diag_errors(l->diag);
    l->frame = &frame;
    l->target = NULL;
    l->force = force != DT_none ? force : outer;
    note_tried(l, func);
    Val v = run_function(l, &frame, &m, formals, args);
    l->force = outer;
    l->target = target;
    l->frame = frame.up;
    lower_leave(l);
    if (diag_errors(l->diag) > errors) {
        if (!self->decl->is_std) {
            vec_push(l->arena, &l->failed, (Ast *)func);
        }
        return val_poison();
    }
    return v;
}

/* ---- statements in functions ----------------------------------------------------------------------- */

/* A tensor that a variable holds is called by its path: h.0.attn.q */
static Val named(Lower *l, Val v, const char *name)
{
    Frame *f = l->frame;
    v = op_without_grad(l, v);
    if (v.kind != VAL_tensor || f->is_std || v.run != l->run) {
        return v;
    }
    bool weak = v.node->name == NULL || (f->self != NULL && v.node->name == f->self->path);
    if (weak && v.node->op != OP_arg && v.node->op != OP_const) {
        v.node->name = path_join(l, f->self != NULL ? f->self->path : NULL, name);
    }
    return v;
}

static void write_state(Lower *l, Tensor *t, Val v, Loc loc)
{
    Node *n = tensor_of(l, v, loc);
    if (n == NULL) {
        return;
    }
    for (const Frame *f = l->frame; f != NULL; f = f->up) {
        if (f->of_grad) {
            lower_error(l, loc, "state `%s` cannot be changed in grad, only in forward", t->name);
            return;
        }
    }
    if (!l->training) {
        lower_error(l, loc, "state `%s` is changed in training only: put this under `if training`",
                    t->name);
        return;
    }
    if (!dims_equal(&n->dims, &t->dims)) {
        lower_error(l, loc, "state `%s` is %s[%s], but this is %s", t->name,
                    dtype_info[t->dtype].name, dims_text(l->arena, l->run->graph, &t->dims),
                    val_describe(l, v));
        return;
    }
    n = op_cast(l, n, t->dtype);
    scope_set(l->arena, &l->run->states, t->name, val_of_node(l, n));
    graph_result(l->run->graph, RESULT_State, t->name, n);
}

void assign_local(Lower *l, const char *name, Val v, Loc loc)
{
    Frame *f = l->frame;
    if (f->self != NULL && scope_find(&f->locals, name) == NULL) {
        const Val *member = scope_find(&f->self->members, name);
        if (member != NULL && member->kind == VAL_param && member->tensor->role == TENSOR_state) {
            write_state(l, member->tensor, v, loc);
            return;
        }
    }
    scope_set(l->arena, &f->locals, name, named(l, v, name));
}

static Val assigned_value(Lower *l, const Ast *s)
{
    if (s->op == AST_OP_none) {
        return eval(l, s->value);
    }
    Ast *e = ARENA_NEW(l->arena, Ast);
    e->kind = AST_binary;
    e->op = s->op;
    e->loc = loc_span(s->target->loc, s->value->loc);
    e->left = s->target;
    e->right = s->value;
    return eval(l, e);
}

static void exec_assign(Lower *l, const Ast *s)
{
    Val v = assigned_value(l, s);
    const Ast *t = s->target;
    if (t->kind == AST_name) {
        assign_local(l, t->name, v, s->value->loc);
        return;
    }
    if (t->kind != AST_tuple) {
        lower_error(l, t->loc,
                    "only variables are assigned; tensors and modules do not change in place");
        return;
    }
    int mark = l->frame->locals.n;
    if (!lower_bind(l, &t->list, v, s->value->loc, true)) {
        return;
    }
    int n = l->frame->locals.n - mark;
    Val *parts = ARENA_ARRAY(l->arena, Val, n);
    for (int i = 0; i < n; i++) {
        parts[i] = l->frame->locals.at[mark + i].val;
    }
    scope_cut(&l->frame->locals, mark);
    for (int i = 0; i < n && i < t->list.n; i++) {
        assign_local(l, t->list.at[i]->name, parts[i], s->value->loc);
    }
}

static Flow exec_for(Lower *l, const Ast *s)
{
    Val over = eval(l, s->iter);
    int64_t n;
    if (!eval_iterable(l, over, s->iter->loc, &n)) {
        return FLOW_stop;
    }
    int errors = diag_errors(l->diag);
    for (int64_t i = 0; i < n; i++) {
        if (!lower_unroll(l, s->loc) ||
            !lower_bind(l, &s->list, eval_element(l, over, i), s->iter->loc, false)) {
            return FLOW_stop;
        }
        Flow flow = exec_block(l, &s->list2);
        if (flow == FLOW_break) {
            break;
        }
        if (flow == FLOW_return || flow == FLOW_stop) {
            return flow;
        }
        if (diag_errors(l->diag) > errors) {
            return FLOW_stop; /* the next iteration would say the same */
        }
    }
    return FLOW_next;
}

static Flow exec_if(Lower *l, const Ast *s)
{
    bool truth;
    if (!eval_truth(l, eval(l, s->test), s->test->loc, &truth)) {
        return FLOW_stop;
    }
    return exec_block(l, truth ? &s->list : &s->list2);
}

static Flow exec_return(Lower *l, const Ast *s)
{
    Val v = s->value == NULL ? val_none() : eval(l, s->value);
    if (l->frame->self == NULL) {
        lower_error(l, s->loc, "`return` stands in a function of a module");
        return FLOW_stop;
    }
    l->frame->result = op_without_grad(l, v);
    l->frame->returned = s;
    return val_is_poison(v) ? FLOW_stop : FLOW_return;
}

/* One within another is part of it. */
static void enter_checkpoint(Lower *l)
{
    if (l->b.region == 0) {
        l->b.region = ++l->regions;
    }
}

/* Enters the contexts, calls body, leaves them. */
Flow exec_with(Lower *l, const Ast *s, Flow (*body)(Lower *l, const AstList *body))
{
    DType amp = l->b.amp, force = l->force;
    const char *why = l->force_why;
    bool no_grad = l->no_grad;
    int region = l->b.region;
    bool fine = true;
    for (int i = 0; i < s->list.n; i++) {
        Val v = eval(l, s->list.at[i]);
        if (v.kind == VAL_builtin && str_eq(v.builtin->name, "no_grad")) {
            l->no_grad = true; /* with no_grad { }, as well as with no_grad() { } */
        } else if (v.kind == VAL_builtin && str_eq(v.builtin->name, "checkpoint")) {
            enter_checkpoint(l);
        } else if (v.kind != VAL_context) {
            fine = false;
            if (!val_is_poison(v)) {
                lower_error(l, s->list.at[i]->loc,
                            "`with` takes autocast(...), precision(...), no_grad or checkpoint");
            }
        } else if (v.tag == CONTEXT_autocast) {
            l->b.amp = v.dtype;
        } else if (v.tag == CONTEXT_precision) {
            l->force = v.dtype;
            l->force_why =
                l->frame != NULL && l->frame->is_std ? "statistics are computed in f32" : NULL;
        } else if (v.tag == CONTEXT_checkpoint) {
            enter_checkpoint(l);
        } else {
            l->no_grad = true;
        }
    }
    Flow flow = body(l, &s->list2);
    l->b.amp = amp;
    l->force = force;
    l->force_why = why;
    l->no_grad = no_grad;
    l->b.region = region;
    return fine ? flow : FLOW_stop;
}

static Flow exec_statement(Lower *l, const Ast *s)
{
    switch ((AstKind)s->kind) {
    case AST_assign: exec_assign(l, s); return FLOW_next;
    case AST_expr: eval(l, s->value); return FLOW_next;
    case AST_if: return exec_if(l, s);
    case AST_for: return exec_for(l, s);
    case AST_return: return exec_return(l, s);
    case AST_with: return exec_with(l, s, exec_block);
    case AST_break: return FLOW_break;
    case AST_continue: return FLOW_continue;
    case AST_error: return FLOW_stop;
    default: lower_error(l, s->loc, "this cannot stand here"); return FLOW_stop;
    }
}

Flow exec_block(Lower *l, const AstList *body)
{
    for (int i = 0; i < body->n; i++) {
        if (!lower_enter(l, body->at[i]->loc)) {
            return FLOW_stop;
        }
        Flow flow = exec_statement(l, body->at[i]);
        lower_leave(l);
        if (flow != FLOW_next) {
            return flow;
        }
    }
    return FLOW_next;
}
