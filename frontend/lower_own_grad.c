/* lower_own_grad.c: modules that give their own derivative: grad(x, y, dy) beside forward(x).
 *
 * At each call of forward, grad is evaluated behind it, over the same inputs, the result and a node that stands for the
 * gradient of the result. What it returns is tied to the inputs by own_grad (ir/shape_own_grad.c); autodiff puts the true
 * gradient in. So grad is typed by autocast as any other code, and where nothing is differentiated, it is dropped. */
#include "frontend/lower.h"

/* ---- declaration ----------------------------------------------------------------------------------- */

static const char *grad_formals(Lower *l, const Ast *forward)
{
    Text *t = text_new(l->arena);
    for (int i = 0; i < forward->list.n; i++) {
        text_printf(t, "%s, ", forward->list.at[i]->name);
    }
    text_puts(t, "y, dy");
    return t->at;
}

/* `backward` and the like, where nothing is called `grad`. */
static const char *nearest_function(Lower *l, const Ast *module)
{
    Names names = {0};
    for (int i = 0; i < module->list2.n; i++) {
        if (module->list2.at[i]->kind == AST_func && !str_eq(module->list2.at[i]->name, "grad")) {
            vec_push(l->arena, &names, module->list2.at[i]->name);
        }
    }
    return lower_did_you_mean(l, "forward", &names);
}

void own_grad_check(Lower *l, const Ast *module)
{
    const ModuleDecl decl = {.ast = module};
    const Ast *grad = module_func(&decl, "grad"), *forward = module_func(&decl, "forward");
    if (grad == NULL) {
        return;
    }
    if (forward == NULL) {
        lower_error(l, grad->loc, "module %s has grad, the derivative of forward, but no forward%s",
                    module->name, nearest_function(l, module));
        return;
    }
    if (grad->list.n != forward->list.n + 2) {
        lower_error(l, grad->loc,
                    "grad of %s takes the %d input%s of forward, its result and the gradient of "
                    "that: grad(%s)",
                    module->name, forward->list.n, forward->list.n == 1 ? "" : "s",
                    grad_formals(l, forward));
        lower_note(l, forward->loc, "forward is here");
        return;
    }
    for (int i = 0; i < grad->list.n; i++) {
        if (grad->list.at[i]->value != NULL) {
            lower_error(l, grad->list.at[i]->loc, "`%s`: what grad takes has no defaults",
                        grad->list.at[i]->name);
        }
    }
}

/* ---- what forward may depend on -------------------------------------------------------------------- */

/* A parameter that y depends on, but not by way of the inputs; NULL for none. */
static const char *hidden_parameter(Lower *l, const Node *y, Node *const *inputs, int n)
{
    const Graph *g = l->run->graph;
    Arena *scratch = arena_new();
    enum { UNSEEN, REACHED, INPUT };
    char *seen = ARENA_ARRAY(scratch, char, g->nnodes + 1);
    const char *found = NULL;
    for (int i = 0; i < n; i++) {
        if (inputs[i] != NULL) {
            seen[inputs[i]->id] = INPUT;
        }
    }
    seen[y->id] = seen[y->id] == INPUT ? INPUT : REACHED;
    for (int i = y->id; i >= 0 && found == NULL; i--) {
        const Node *at = g->nodes[i];
        if (seen[i] != REACHED) {
            continue;
        }
        const char *param = at->op == OP_arg ? attrs_str(&at->attrs, ATTR_param) : NULL;
        const Tensor *t = param != NULL ? module_find_tensor(l->m, param) : NULL;
        found = t != NULL && !attrs_bool(&t->init, ATTR_frozen) ? param : NULL;
        for (int k = 0; k < at->nin; k++) {
            int id = at->in[k]->id;
            bool flows = seen[id] == UNSEEN && node_passes_gradient(at, k);
            seen[id] = flows ? REACHED : seen[id];
        }
    }
    arena_free(scratch);
    return found;
}

static bool closed(Lower *l, const Ast *forward, const Instance *self, const Node *y,
                   Node *const *inputs)
{
    const char *param = hidden_parameter(l, y, inputs, forward->list.n);
    if (param == NULL) {
        return true;
    }
    lower_error(
        l, forward->loc,
        "%s has its own grad, which gives no gradient to the parameter %s that forward uses",
        self->decl->ast->name, param);
    lower_note(l, forward->loc,
               "hand it over as an input, forward(x, weight), for which grad returns a gradient, "
               "or use detach(...) of it");
    return false;
}

/* ---- a call ---------------------------------------------------------------------------------------- */

/* Input i as a tensor that can have a gradient; NULL where it is none. */
static Node *input_node(Lower *l, const Ast *forward, int i, Val v, bool *fine)
{
    if (v.kind == VAL_list || v.kind == VAL_tuple) {
        lower_error(l, forward->list.at[i]->loc,
                    "`%s` is %s; beside grad, forward takes each tensor by a name of its own",
                    forward->list.at[i]->name, val_describe(l, v));
        *fine = false;
        return NULL;
    }
    if (!val_is_tensor(v)) {
        return NULL;
    }
    Node *n = tensor_of(l, v, forward->list.at[i]->loc);
    *fine = *fine && n != NULL;
    return n != NULL && dtype_info[n->dtype].is_float ? n : NULL;
}

static Val part_of(Val returned, int i, int n)
{
    bool several = returned.kind == VAL_tuple || returned.kind == VAL_list;
    return n == 1 && !several ? returned : returned.list->at[i];
}

/* The expression of part i of what is returned, for messages. */
static Loc part_loc(const Frame *frame, int i, int n)
{
    const Ast *e = frame->returned->value;
    bool spelled = e->kind == AST_tuple && e->list.n == n;
    return spelled ? e->list.at[i]->loc : e->loc;
}

static bool right_number(Lower *l, const Frame *frame, const Ast *forward)
{
    Val v = frame->result;
    int n = forward->list.n;
    if (frame->returned == NULL || frame->returned->value == NULL) {
        lower_error(l, frame->func->loc,
                    "grad of %s returns nothing; it returns a gradient for each input of forward, "
                    "or none for one without",
                    frame->self->decl->ast->name);
        return false;
    }
    int got = v.kind == VAL_tuple || v.kind == VAL_list ? v.list->n : 1;
    if (got != n) {
        lower_error(l, frame->returned->value->loc,
                    "grad of %s returns %d gradient%s for %d input%s of forward",
                    frame->self->decl->ast->name, got, got == 1 ? "" : "s", n, n == 1 ? "" : "s");
        lower_note(l, forward->loc, "forward is here; an input without a gradient gets none");
    }
    return got == n;
}

/* The gradient d that grad returned for an input, x as a tensor; NULL for none, or after an error. */
static Node *gradient_for(Lower *l, const Frame *frame, const Ast *input, Val given, const Node *x,
                          Val d, Loc loc)
{
    const char *module = frame->self->decl->ast->name;
    if (d.kind == VAL_none || val_is_poison(d)) {
        return NULL;
    }
    if (x == NULL) {
        lower_error(l, loc, "`%s` of %s is %s: its gradient is none, not %s", input->name, module,
                    val_describe(l, given), val_describe(l, d));
        return NULL;
    }
    Node *n = tensor_of(l, d, loc);
    if (n != NULL && !dtype_info[n->dtype].is_float) {
        lower_error(l, loc,
                    "the gradient of `%s` in %s must be of a floating-point type, but is %s",
                    input->name, module, val_describe(l, d));
        return NULL;
    }
    if (n != NULL && !dims_equal(&n->dims, &x->dims)) {
        lower_error(l, loc, "the gradient of `%s` in %s must have the shape of `%s`, %s, but is %s",
                    input->name, module, input->name, val_describe(l, given), val_describe(l, d));
        return NULL;
    }
    return n;
}

/* Evaluates grad; its frame says what it returned. False: an error was reported. */
static bool run_grad(Lower *l, Frame *frame, const Val *inputs, int n, Node *y, Node *dy)
{
    const AstList *formals = &frame->func->list;
    const char *target = l->target;
    l->frame = frame;
    l->target = NULL;
    if (lower_enter(l, frame->func->loc)) {
        bool fine = true;
        for (int i = 0; i < formals->n && fine; i++) {
            Val v = i < n ? inputs[i] : val_of_node(l, i == n ? y : dy);
            v = module_check_type(l, formals->at[i], v, formals->at[i]->loc);
            scope_add(l->arena, &frame->locals, formals->at[i]->name, v);
            fine = !val_is_poison(v);
        }
        frame->result =
            fine && exec_block(l, &frame->func->list2) != FLOW_stop ? frame->result : val_poison();
        lower_leave(l);
    } else {
        frame->result = val_poison();
    }
    l->frame = frame->up;
    l->target = target;
    return !val_is_poison(frame->result);
}

/* own_grad of in[0] and in[1], the result and its output_grad, and of what grad returned. */
static Val tied(Lower *l, const Frame *frame, const Ast *forward, const Val *inputs, Node *const *x,
                Node **in)
{
    int n = forward->list.n, nin = 2, errors = diag_errors(l->diag);
    for (int i = 0; i < n; i++) {
        Node *d = gradient_for(l, frame, forward->list.at[i], inputs[i], x[i],
                               part_of(frame->result, i, n), part_loc(frame, i, n));
        if (d != NULL) {
            in[nin++] = x[i];
            in[nin++] = d;
        }
    }
    if (diag_errors(l->diag) > errors) {
        return val_poison();
    }
    Attrs attrs = {0};
    attrs_set_str(l->arena, &attrs, ATTR_module, frame->self->decl->ast->name);
    return val_of_node(l, op_build(l, OP_own_grad, nin, in, attrs));
}

Val own_grad_apply(Lower *l, Frame *caller, const Val *inputs, Val result)
{
    Instance *self = caller->self;
    const Ast *forward = caller->func, *grad = module_func(self->decl, "grad");
    int n = forward->list.n;
    Node *y = val_is_tensor(result) ? tensor_of(l, result, forward->loc) : NULL;
    if (y == NULL || !dtype_info[y->dtype].is_float) {
        return lower_error(l, forward->loc,
                           "forward of %s returns %s; beside grad it returns one tensor of "
                           "floating-point type",
                           self->decl->ast->name, val_describe(l, result));
    }
    bool fine = true;
    Node **x = ARENA_ARRAY(l->arena, Node *, n + 1);
    for (int i = 0; i < n; i++) {
        x[i] = input_node(l, forward, i, inputs[i], &fine);
    }
    if (!fine || !closed(l, forward, self, y, x)) {
        return val_poison();
    }
    Loc loc = l->loc;
    lower_at(l, grad);
    Node **in = ARENA_ARRAY(l->arena, Node *, 2 + 2 * n);
    in[0] = y;
    in[1] = op1(l, OP_output_grad, y);
    l->loc = loc;
    Frame frame = {.up = caller->up, .self = self, .func = grad, .is_std = caller->is_std};
    frame.of_grad = true;
    frame.result = val_none();
    if (!run_grad(l, &frame, inputs, n, y, in[1]) || !right_number(l, &frame, forward)) {
        return val_poison();
    }
    l->loc = loc;
    return tied(l, &frame, forward, inputs, x, in);
}
