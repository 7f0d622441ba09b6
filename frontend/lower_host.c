/* lower_host.c: the statements of the top level: assignments, `if` and `for` of the host program, and those
 * that are settled at compile time.
 */
#include "frontend/builtins.h"

#include <string.h>

static void host_statements(Lower *l, const AstList *body);

HostStmt *host_emit(Lower *l, HostKind kind, Loc loc)
{
    return host_stmt(l->m, l->block, kind, lower_loc(l, loc));
}

/* ---- assignments ----------------------------------------------------------------------------------- */

/* A tensor is called by the variable that holds it. */
static Val named(Lower *l, Val v, const char *name)
{
    v = op_without_grad(l, v);
    if (v.kind != VAL_tensor) {
        return v;
    }
    if (v.node->name == NULL && v.node->op != OP_arg && v.node->op != OP_const) {
        v.node->name = name;
    }
    v.name = name;
    return v;
}

static void emit_assign(Lower *l, const char *name, HostExpr *e, Loc loc)
{
    if (e == NULL || (e->kind == HE_var && str_eq(e->text, name))) {
        return; /* evaluate() has set it */
    }
    HostStmt *s = host_emit(l, HS_assign, loc);
    s->var = name;
    s->expr = e;
    if (l->run != NULL) {
        vec_push(l->arena, &l->run->late, name);
    }
}

static void set_variable(Lower *l, const char *name, Val v, Loc loc)
{
    if (val_is_tensor(v)) {
        if (v.kind != VAL_tensor || v.node->dims.rank != 0 || v.run != l->run ||
            l->run->call == NULL) {
            HostExpr *e = tensor_to_host(l, v, NULL, loc);
            v = e == NULL ? val_poison() : val_host(e);
        } else {
            DType dt = v.node->dtype;
            HostType type = dt == DT_bool ? HT_bool : dtype_info[dt].is_float ? HT_float : HT_int;
            host_var(l, name, type, loc);
            v = named(l, v, name);
            run_host_result(l, l->run, name, v.node, loc);
            scope_set(l->arena, &l->globals, name,
                      v); /* until the end of the block, see leave_block() */
            return;
        }
    }
    HostExpr *e = host_of(l, v, loc);
    if (e == NULL) {
        scope_set(l->arena, &l->globals, name, val_poison());
        return;
    }
    Val var = host_var(l, name, e->type, loc);
    bool text = var.host->type == HT_str;
    if (text != (e->type == HT_str)) {
        lower_error(l, loc, "`%s` holds %s, but this is %s", name, text ? "a string" : "a number",
                    text ? "a number" : "a string");
        return;
    }
    emit_assign(l, name, e, loc);
    scope_set(l->arena, &l->globals, name, var);
}

/* What is declared to the program as a whole has one value. */
static bool is_settled(Lower *l, const char *name, Loc loc)
{
    const Val *old = scope_find(&l->globals, name);
    if (module_find(l->m, DECL_option, name) != NULL) {
        lower_error(l, loc, "`%s` is an option of the program, and is not assigned", name);
        return true;
    }
    if (old != NULL &&
        (old->kind == VAL_data || old->kind == VAL_instance || old->kind == VAL_optimizer ||
         old->kind == VAL_scheduler || old->kind == VAL_scaler || old->kind == VAL_ema ||
         old->kind == VAL_parts)) {
        lower_error(l, loc, "`%s` is %s already", name, val_describe(l, *old));
        return true;
    }
    return false;
}

void global_set(Lower *l, const char *name, Val v, Loc loc)
{
    if (is_settled(l, name, loc)) {
        return;
    }
    bool number = val_is_number(v) || v.kind == VAL_str || v.kind == VAL_host;
    if (host_name_varies(l, name) && (number || v.kind == VAL_tensor)) {
        set_variable(l, name, v, loc);
    } else if (v.kind == VAL_host && !host_is_constant(v.host)) {
        set_variable(l, name, v, loc); /* what it depends on may change later */
    } else {
        scope_set(l->arena, &l->globals, name, named(l, v, name));
    }
}

/* The instance of `model = Mlp()` has the path "" when it is the program's only one. */
static const char *instance_target(Lower *l, const Ast *s)
{
    bool direct = s->value->kind == AST_call && s->value->callee->kind == AST_name &&
                  module_lookup(l, s->value->callee->name) != NULL;
    return direct && l->one_model ? "" : s->target->name;
}

static void assign_name(Lower *l, const Ast *s)
{
    if (is_settled(l, s->target->name, s->target->loc)) {
        return;
    }
    l->assigning = s->value->kind == AST_call ? s->target->name : NULL;
    l->target = instance_target(l, s);
    Val v = eval(l, s->value);
    l->assigning = l->target = NULL;
    global_set(l, s->target->name, v, s->target->loc);
}

static void assign_tuple(Lower *l, const Ast *s, Val v)
{
    const AstList *targets = &s->target->list;
    bool fits = (v.kind == VAL_tuple || v.kind == VAL_list) && v.list->n == targets->n;
    if (!fits && !val_is_poison(v)) {
        if (v.kind == VAL_tuple || v.kind == VAL_list) {
            lower_error(l, s->target->loc, "%d names for %d values", targets->n, v.list->n);
        } else {
            lower_error(l, s->target->loc, "%d names, but the value is %s", targets->n,
                        val_describe(l, v));
        }
    }
    for (int i = 0; i < targets->n; i++) {
        if (targets->at[i]->kind != AST_name) {
            lower_error(l, targets->at[i]->loc, "only variables are assigned");
            continue;
        }
        global_set(l, targets->at[i]->name, fits ? v.list->at[i] : val_poison(),
                   targets->at[i]->loc);
    }
}

static void assign_operator(Lower *l, const Ast *s)
{
    Ast *e = ARENA_NEW(l->arena, Ast);
    e->kind = AST_binary;
    e->op = s->op;
    e->loc = loc_span(s->target->loc, s->value->loc);
    e->left = s->target;
    e->right = s->value;
    global_set(l, s->target->name, eval(l, e), s->target->loc);
}

static void host_assign(Lower *l, const Ast *s)
{
    if (s->target->kind != AST_name && s->target->kind != AST_tuple) {
        lower_error(l, s->target->loc,
                    "only variables are assigned; what belongs to an object does not change");
    } else if (s->value->kind == AST_evaluate && s->op == AST_OP_none) {
        Val v = eval_evaluate(l, s->value, s->target);
        if (s->target->kind == AST_name) {
            global_set(l, s->target->name, v, s->target->loc);
        } else {
            assign_tuple(l, s, v);
        }
    } else if (s->target->kind == AST_tuple) {
        assign_tuple(l, s, eval(l, s->value));
    } else if (s->op != AST_OP_none) {
        assign_operator(l, s);
    } else {
        assign_name(l, s);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------------- */

typedef struct Nested {
    HostBlock *block;
    Gradients gradients;
    Gradients *outer;
    Val *before; /* the globals as they were */
    int n;
} Nested;

static void enter_block(Lower *l, Nested *n, HostBlock *block)
{
    run_close(l);
    *n = (Nested){.block = l->block, .outer = l->gradients, .n = l->globals.n};
    n->gradients.outer = l->gradients;
    n->before = ARENA_ARRAY(l->arena, Val, n->n + 1);
    for (int i = 0; i < n->n; i++) {
        n->before[i] = l->globals.at[i].val;
    }
    l->block = block;
    n->gradients.errors = diag_errors(l->diag);
    l->gradients = &n->gradients;
}

/* Variables of the host program are read from it again: their value may come from before or from this block.
 * After a branch the same holds for every number that a graph in it has computed. */
static void leave_block(Lower *l, Nested *n, bool branch)
{
    run_close(l);
    for (int i = 0; i < l->globals.n; i++) {
        Binding *b = &l->globals.at[i];
        if (b->val.kind != VAL_tensor) {
            continue;
        }
        bool fresh =
            i >= n->n || n->before[i].kind != VAL_tensor || n->before[i].node != b->val.node;
        bool number = b->val.node->dims.rank == 0 && b->val.run->call != NULL;
        if (host_name_varies(l, b->name) && number) {
            b->val = host_var(l, b->name, HT_float, b->val.node->loc);
        } else if (branch && fresh && number) {
            HostExpr *e = tensor_to_host(l, b->val, b->name, b->val.node->loc);
            b->val = e == NULL ? val_poison() : val_host(e);
        }
    }
    gradients_leave(l, &n->gradients);
    l->block = n->block;
    l->gradients = n->outer;
}

static void nested_block(Lower *l, HostBlock *block, const AstList *body, bool branch)
{
    Nested n;
    enter_block(l, &n, block);
    host_statements(l, body);
    leave_block(l, &n, branch);
}

/* ---- control flow ---------------------------------------------------------------------------------- */

static void host_if(Lower *l, const Ast *s)
{
    Val test = eval(l, s->test);
    bool truth;
    if (test.kind == VAL_tensor) {
        HostExpr *e = tensor_to_host(l, test, NULL, s->test->loc);
        test = e == NULL ? val_poison() : val_host(e);
    }
    if (test.kind == VAL_host) {
        run_close(l);
        HostStmt *h = host_emit(l, HS_if, s->loc);
        h->expr = test.host;
        Gradients *live = gradients_live(l);
        bool cleared = live != NULL && live->perhaps_cleared;
        nested_block(l, &h->body, &s->list, true);
        bool in_body = live != NULL && live->perhaps_cleared;
        if (live != NULL) {
            live->perhaps_cleared = cleared; /* either branch starts with what was before */
        }
        nested_block(l, &h->orelse, &s->list2, true);
        if (live != NULL) {
            live->perhaps_cleared |= in_body;
        }
        return;
    }
    if (val_is_poison(test)) { /* the branches may have errors of their own */
        HostBlock *nowhere = ARENA_NEW(l->arena, HostBlock);
        nested_block(l, nowhere, &s->list, true);
        nested_block(l, nowhere, &s->list2, true);
        return;
    }
    if (eval_truth(l, test, s->test->loc, &truth)) {
        host_statements(l, truth ? &s->list : &s->list2);
    }
}

static bool single_target(Lower *l, const Ast *s)
{
    if (s->list.n == 1) {
        return true;
    }
    lower_error(l, s->list.at[1]->loc, "this loop has one variable");
    return false;
}

static void for_range(Lower *l, const Ast *s, Val range)
{
    HostExpr *lo = host_of(l, range.range->lo, s->iter->loc);
    HostExpr *hi = host_of(l, range.range->hi, s->iter->loc);
    if (lo == NULL || hi == NULL || !single_target(l, s)) {
        return;
    }
    if (range.range->step.kind != VAL_int || range.range->step.i != 1) {
        lower_error(l, s->iter->loc, "a loop of the program counts in steps of 1");
        return;
    }
    if (lo->type != HT_int || hi->type != HT_int) {
        lower_error(l, s->iter->loc, "a loop counts whole numbers; int(...) cuts off a fraction");
        return;
    }
    const char *name = s->list.at[0]->name;
    if (is_settled(l, name, s->list.at[0]->loc)) {
        return;
    }
    run_close(l);
    HostStmt *h = host_emit(l, HS_for, s->loc);
    h->var = name;
    h->expr = lo;
    h->hi = hi;
    scope_set(l->arena, &l->globals, name, host_var(l, name, HT_int, s->list.at[0]->loc));
    l->loops++;
    nested_block(l, &h->body, &s->list2, false);
    l->loops--;
}

/* for batch in loader; with a counter, for i, batch in enumerate(loader) */
static void for_batches(Lower *l, const Ast *s, Loader *loader, bool counted)
{
    if (s->list.n != (counted ? 2 : 1)) {
        lower_error(l, s->loc,
                    counted ? "enumerate gives two values: for i, batch in enumerate(...)"
                            : "this loop has one variable, the batch");
        return;
    }
    for (int i = 0; i < s->list.n; i++) {
        if (is_settled(l, s->list.at[i]->name, s->list.at[i]->loc)) {
            return;
        }
    }
    run_close(l);
    loader = loader_for(l, loader, true);
    if (loader == NULL) {
        return;
    }
    const char *counter = counted ? s->list.at[0]->name : NULL;
    const char *batch = s->list.at[counted]->name;
    if (counted) {
        emit_assign(l, counter, host_of(l, val_int(-1), s->loc), s->loc);
        scope_set(l->arena, &l->globals, counter, host_var(l, counter, HT_int, s->loc));
    }
    HostStmt *h = host_emit(l, HS_batches, s->loc);
    h->target = loader->decl->name;
    h->var = batch;
    Loader *outer = l->loader;
    l->loader = loader;
    l->train_bound = loader->bound > l->train_bound ? loader->bound : l->train_bound;
    scope_set(l->arena, &l->globals, batch, (Val){.kind = VAL_batch, .loader = loader});
    l->loops++;
    Nested n;
    enter_block(l, &n, &h->body);
    if (counted) {
        Val i = *scope_find(&l->globals, counter);
        emit_assign(l, counter,
                    host_of(l, number_binary(l, AST_OP_add, i, val_int(1), s->loc), s->loc),
                    s->loc);
    }
    host_statements(l, &s->list2);
    leave_block(l, &n, false);
    l->loops--;
    l->loader = outer;
}

static void for_unrolled(Lower *l, const Ast *s, Val over)
{
    int64_t n;
    if (!eval_iterable(l, over, s->iter->loc, &n)) {
        return;
    }
    int errors = diag_errors(l->diag);
    for (int64_t i = 0; i < n && diag_errors(l->diag) == errors; i++) {
        if (!lower_unroll(l, s->loc) ||
            !lower_bind(l, &s->list, eval_element(l, over, i), s->iter->loc, false)) {
            return;
        }
        host_statements(l, &s->list2);
    }
}

static bool is_call_of(const Ast *e, const char *name)
{
    return e->kind == AST_call && e->callee->kind == AST_name && str_eq(e->callee->name, name);
}

static void host_for(Lower *l, const Ast *s)
{
    bool counted = is_call_of(s->iter, "enumerate") && s->iter->list.n == 1;
    Val over = eval(l, counted ? s->iter->list.at[0] : s->iter);
    if (counted && over.kind != VAL_loader) {
        over = eval(l, s->iter);
    }
    switch (over.kind) {
    case VAL_poison: { /* the body may have errors of its own, but its batches are unknown */
        for (int i = 0; i < s->list.n; i++) {
            scope_set(l->arena, &l->globals, s->list.at[i]->name, val_poison());
        }
        Nested n;
        l->loops++;
        enter_block(l, &n, ARENA_NEW(l->arena, HostBlock));
        n.gradients.errors = -1; /* nor is it known what there are gradients of */
        host_statements(l, &s->list2);
        leave_block(l, &n, false);
        l->loops--;
        return;
    }
    case VAL_loader: for_batches(l, s, over.loader, counted); return;
    case VAL_range: for_range(l, s, over); return;
    case VAL_data:
        lower_error(l, s->iter->loc,
                    "a data set is read through a loader: loader(%s, batch_size = 32)",
                    over.data->decl->name);
        return;
    default: for_unrolled(l, s, over);
    }
}

static void host_jump(Lower *l, const Ast *s, HostKind kind)
{
    if (l->loops == 0) {
        lower_error(l, s->loc, "`%s` stands in a loop", kind == HS_break ? "break" : "continue");
        return;
    }
    run_close(l);
    gradients_jump(l);
    host_emit(l, kind, s->loc);
}

/* ---- all statements -------------------------------------------------------------------------------- */

static Flow with_body(Lower *l, const AstList *body)
{
    host_statements(l, body);
    return FLOW_next;
}

void host_statement(Lower *l, const Ast *s)
{
    if (!lower_enter(l, s->loc)) {
        return;
    }
    switch ((AstKind)s->kind) {
    case AST_assign: host_assign(l, s); break;
    case AST_expr:
        if (is_call_of(s->value, "log")) {
            log_statement(l, s->value);
        } else if (s->value->kind == AST_evaluate) {
            eval_evaluate(l, s->value, NULL);
        } else {
            eval(l, s->value);
        }
        break;
    case AST_if: host_if(l, s); break;
    case AST_for: host_for(l, s); break;
    case AST_with: exec_with(l, s, with_body); break;
    case AST_break: host_jump(l, s, HS_break); break;
    case AST_continue: host_jump(l, s, HS_continue); break;
    case AST_return: lower_error(l, s->loc, "`return` stands in a function of a module"); break;
    case AST_batch: data_prepare_block(l, s); break;
    case AST_include: /* read before */
    case AST_error:
    case AST_module:
    case AST_option:
    case AST_data: break; /* declared before */
    default: lower_error(l, s->loc, "this cannot stand here");
    }
    lower_leave(l);
}

static void host_statements(Lower *l, const AstList *body)
{
    for (int i = 0; i < body->n; i++) {
        host_statement(l, body->at[i]);
    }
}
