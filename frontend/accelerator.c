/* accelerator.c: a program with Accelerate's objects becomes the explicit loop that it stands for.
 *
 *     accelerator.backward(loss)          backward(scaler.scale(loss), average = true)
 *     optimizer.step()                    if (micro + 1) % 4 == 0 or micro + 1 == len(train) {
 *     scheduler.step()               ->       scaler.step(optimizer)
 *     optimizer.zero_grad()                   scaler.update(); scheduler.step(); zero_grad(optimizer) }
 *
 * What belongs to an update (clipping, steps, schedules, clearing, the bodies of `if accelerator.sync_gradients`)
 * is gathered in one block behind its backward, wherever in the body of the loop it stood: the window that it
 * closes may end early, at the end of the epoch, and has the exact mean. Forward and loss are computed under autocast, from the first
 * statement that calls a prepared model to the backward. The tree is rewritten; nothing is looked up in scopes.
 */
#include "frontend/accelerator.h"

#include <string.h>

#include "frontend/builtins.h"

static const char *const methods[] = {
    "prepare",
    "backward",
    "clip_grad_norm_",
    "clip_grad_norm",
    "clip_grad_value_",
    "clip_grad_value",
    "accumulate",
    "no_sync",
    "autocast",
    "print",
    "log",
    "save_state",
    "save_model",
    "save",
    "unwrap_model",
    "gather",
    "gather_for_metrics",
    "reduce",
    "wait_for_everyone",
    "end_training",
    "init_trackers",
    "free_memory",
    "sync_gradients",
    "optimizer_step_was_skipped",
    "is_main_process",
    "is_local_main_process",
    "num_processes",
    "process_index",
    "gradient_accumulation_steps",
};
enum { METHODS = sizeof methods / sizeof *methods };

static Ast *new_name(Accel *x, Loc loc, const char *name)
{
    return ast_name(&x->m, loc, name);
}

static Ast *call_of(Accel *x, Loc loc, Ast *callee, Ast *arg)
{
    return ast_call(&x->m, loc, callee, ast_list(&x->m, arg));
}

/* The NAME of accelerator.NAME; NULL for anything else. */
const char *accel_own_member(const Accel *x, const Ast *n)
{
    bool own = n && n->kind == AST_member && n->object->kind == AST_name &&
               str_eq(n->object->name, x->name);
    return own ? n->name : NULL;
}

const char *accel_own_call(const Accel *x, const Ast *n)
{
    return n && n->kind == AST_call ? accel_own_member(x, n->callee) : NULL;
}

static bool is_method_call(const Ast *n, const char *name)
{
    return n->kind == AST_call && n->callee->kind == AST_member && str_eq(n->callee->name, name);
}

const char *accel_path(Accel *x, const Ast *n)
{
    if (is_method_call(n, "parameters") && !n->list.n)
        n = n->callee->object;
    const Ast *root = n;
    while (root->kind == AST_member)
        root = root->object;
    if (root->kind != AST_name)
        return NULL;
    const char *path = ast_expr_text(x->m.arena, n);
    const AccelThing *t = accel_find(x, root->name);
    return t && t->was ? arena_printf(x->m.arena, "%s%s", t->was, path + strlen(root->name)) : path;
}

/* ---- what is prepared ---- */

AccelThing *accel_find(const Accel *x, const char *name)
{
    for (int i = 0; i < x->known.n; i++)
        if (str_eq(x->known.at[i].name, name))
            return &x->known.at[i];
    return NULL;
}

const AccelThing *accel_thing(const Accel *x, const Ast *n, AccelKind kind)
{
    const AccelThing *p = n && n->kind == AST_name ? accel_find(x, n->name) : NULL;
    return p && p->kind == kind ? p : NULL;
}

static AccelKind kind_of(const Ast *value)
{
    if (value->kind != AST_call || value->callee->kind != AST_name)
        return ACCEL_other;
    const Builtin *fn = builtin_find(value->callee->name);
    static const struct {
        BuiltinFn *fn;
        AccelKind kind;
    } makers[] = {
        {fn_sgd, ACCEL_optimizer},
        {fn_adam, ACCEL_optimizer},
        {fn_loader, ACCEL_loader},
        {fn_get_scheduler, ACCEL_scheduler},
        {fn_torch_schedule, ACCEL_scheduler},
        {fn_multistep, ACCEL_scheduler},
        {fn_plateau, ACCEL_scheduler},
        {fn_wsd, ACCEL_scheduler},
        {fn_ema, ACCEL_ema},
    };
    for (size_t i = 0; fn && i < sizeof makers / sizeof *makers; i++)
        if (makers[i].fn == fn->fn)
            return makers[i].kind;
    return fn ? ACCEL_other : ACCEL_model;
}

/* x = SGD(...), at the top level */
static void learn(Accel *x, const Ast *s)
{
    bool made = s->kind == AST_assign && s->target->kind == AST_name && s->op == AST_OP_none &&
                s->value->kind == AST_call && !accel_own_call(x, s->value);
    if (!made)
        return;
    AccelThing p = {.name = s->target->name, .kind = kind_of(s->value), .loc = s->loc};
    if (p.kind == ACCEL_optimizer && s->value->list.n)
        p.of = accel_path(x, s->value->list.at[0]);
    vec_push(x->m.arena, &x->known, p);
}

/* One of the things that prepare() takes and gives. */
static void prepare_one(Accel *x, Ast *target, Ast *arg, AstList *out)
{
    if (target->kind != AST_name) {
        diag_error(x->m.diag, target->loc, "only variables are assigned");
        return;
    }
    const AccelThing *old = arg->kind == AST_name ? accel_find(x, arg->name) : NULL;
    if (arg->kind == AST_name && !old) {
        const char *names[64];
        int n = 0;
        for (; n < x->known.n && n < 64; n++)
            names[n] = x->known.at[n].name;
        const char *near = nearest_name(arg->name, names, n);
        diag_error(x->m.diag, arg->loc, "there is no `%s` to prepare before this line", arg->name);
        if (near)
            diag_note(x->m.diag, arg->loc, "did you mean `%s`?", near);
        return;
    }
    AccelThing p = {.name = target->name, .kind = kind_of(arg), .ready = true, .loc = target->loc};
    if (old) {
        p.kind = old->kind;
        p.of = old->of;
        p.was = old->was ? old->was : old->name;
    } else if (p.kind == ACCEL_optimizer && arg->list.n) {
        p.of = accel_path(x, arg->list.at[0]);
    }
    if (p.kind == ACCEL_other || p.kind == ACCEL_ema) {
        diag_error(x->m.diag, arg->loc,
                   "prepare takes models, optimizers, loaders and schedules, and this is none");
        return;
    }
    if (!old || !str_eq(old->name, p.name))
        *out = ast_append(&x->m, *out, ast_assign(&x->m, target->loc, target, AST_OP_none, arg));
    AccelThing *same = accel_find(x, p.name);
    if (same)
        *same = p;
    else
        vec_push(x->m.arena, &x->known, p);
}

/* a, b = accelerator.prepare(a, b): any order, any subset */
AstList accel_prepare(Accel *x, const Ast *s, const Ast *call)
{
    AstList out = {0};
    AstList targets = s->kind != AST_assign          ? (AstList){0}
                      : s->target->kind == AST_tuple ? s->target->list
                                                     : ast_list(&x->m, s->target);
    if (s->kind != AST_assign || targets.n != call->list.n || !call->list.n) {
        diag_error(x->m.diag, call->loc, "prepare gives as many things as it takes: %s",
                   "model, optimizer = accelerator.prepare(model, optimizer)");
        return out;
    }
    for (int i = 0; i < targets.n; i++)
        prepare_one(x, targets.at[i], call->list.at[i], &out);
    return out;
}

/* ---- expressions ---- */

/* (micro + 1) % N == 0 or micro + 1 == len(train); NULL: every batch is an update */
Ast *accel_update_test(Accel *x, Loc loc)
{
    AstMaker *m = &x->m;
    if (!x->steps)
        return NULL;
    Ast *next = ast_binary(m, loc, AST_OP_add, new_name(x, loc, x->counter), ast_int(m, loc, 1));
    Ast *full = ast_binary(m, loc, AST_OP_eq, ast_binary(m, loc, AST_OP_mod, next, x->steps),
                           ast_int(m, loc, 0));
    Ast *length = call_of(x, loc, new_name(x, loc, "len"), x->loader);
    Ast *last = ast_binary(m, loc, AST_OP_eq, next, length);
    return ast_binary(m, loc, AST_OP_or, full, last);
}

static Ast *unknown_member(Accel *x, const Ast *n)
{
    const char *near = nearest_name(n->name, methods, METHODS);
    for (int i = 0; i < METHODS; i++)
        if (str_eq(methods[i], n->name)) {
            diag_error(x->m.diag, n->name_loc, "`%s.%s` cannot stand here", x->name, n->name);
            return ast_new(&x->m, AST_error, n->loc);
        }
    diag_error(x->m.diag, n->name_loc, "the accelerator has no `%s`", n->name);
    if (near)
        diag_note(x->m.diag, n->name_loc, "did you mean `%s`?", near);
    return ast_new(&x->m, AST_error, n->loc);
}

/* What is an expression of its own: sync_gradients, is_main_process, ... */
static Ast *own_value(Accel *x, const Ast *n)
{
    AstMaker *m = &x->m;
    if (str_eq(n->name, "sync_gradients") && (!x->steps || x->counter))
        return x->steps ? accel_update_test(x, n->loc) : ast_bool(m, n->loc, true);
    if (str_eq(n->name, "optimizer_step_was_skipped"))
        return x->scaler
                   ? ast_call(m, n->loc, new_name(x, n->loc, "step_was_skipped"), (AstList){0})
                   : ast_bool(m, n->loc, false);
    if (str_eq(n->name, "is_main_process") || str_eq(n->name, "is_local_main_process"))
        return ast_bool(m, n->loc, true);
    if (str_eq(n->name, "num_processes"))
        return ast_int(m, n->loc, 1);
    if (str_eq(n->name, "process_index"))
        return ast_int(m, n->loc, 0);
    if (str_eq(n->name, "gradient_accumulation_steps"))
        return x->steps ? x->steps : ast_int(m, n->loc, 1);
    return unknown_member(x, n);
}

AstList accel_arguments(Accel *x, AstList list)
{
    AstList out = {0};
    for (int i = 0; i < list.n; i++)
        out = ast_append(&x->m, out, accel_expr(x, list.at[i]));
    return out;
}

/* One process: what the others would give is nothing. */
static Ast *gathered(Accel *x, const Ast *call)
{
    AstList all = accel_arguments(x, call->list);
    for (int i = 0; i < all.n; i++)
        if (all.at[i]->kind == AST_keyword)
            all.n = i;
    if (!all.n)
        return unknown_member(x, call->callee);
    return ast_tuple(&x->m, call->loc, all);
}

Ast *accel_expr(Accel *x, Ast *n)
{
    static const char *const same[] = {"unwrap_model", "gather", "gather_for_metrics", "reduce"};
    if (!n || n->kind == AST_error)
        return n;
    const char *method = accel_own_call(x, n);
    for (size_t i = 0; method && i < sizeof same / sizeof *same; i++)
        if (str_eq(method, same[i]))
            return gathered(x, n);
    if (method)
        return unknown_member(x, n->callee);
    if (accel_own_member(x, n))
        return own_value(x, n);
    Ast *copy = ast_new(&x->m, n->kind, n->loc);
    *copy = *n;
    if (n->kind == AST_evaluate) { /* its body is a list of statements of its own */
        copy->list = accel_arguments(x, n->list);
        copy->list2 = accel_evaluation(x, n->list2);
        return ast_seal(&x->m, copy);
    }
    copy->a = accel_expr(x, n->a);
    copy->b = accel_expr(x, n->b);
    copy->c = accel_expr(x, n->c);
    copy->list = accel_arguments(x, n->list);
    copy->list2 = accel_arguments(x, n->list2);
    return ast_seal(&x->m, copy);
}

Ast *accel_autocast(Accel *x, Loc loc)
{
    return x->low ? call_of(x, loc, new_name(x, loc, "autocast"), new_name(x, loc, x->low)) : NULL;
}

/* ---- names ---- */

static bool uses(const Ast *n, const char *name)
{
    if (!n)
        return false;
    bool found = str_eq(n->name, name) || uses(n->a, name) || uses(n->b, name) || uses(n->c, name);
    for (int i = 0; i < n->list.n && !found; i++)
        found = uses(n->list.at[i], name);
    for (int i = 0; i < n->list2.n && !found; i++)
        found = uses(n->list2.at[i], name);
    return found;
}

static bool is_taken(const Accel *x, const char *name)
{
    bool found = uses(x->file->root, name);
    for (int i = 0; i < x->file->included.n && !found; i++)
        found = uses(x->file->included.at[i], name);
    return found;
}

const char *accel_fresh(const Accel *x, const char *name)
{
    const char *tried = name;
    for (int i = 2; is_taken(x, tried); i++)
        tried = arena_printf(x->m.arena, "%s_%d", name, i);
    return tried;
}

/* ---- the accelerator itself ---- */

static void read_precision(Accel *x, const Ast *value)
{
    static const char *const names[] = {"no", "fp16", "bf16"};
    static const char *const types[] = {NULL, "f16", "bf16"};
    for (int i = 0; value->kind == AST_str && i < 3; i++)
        if (str_eq(names[i], value->name)) {
            x->low = types[i];
            x->scaler = i == 1 ? accel_fresh(x, "scaler") : NULL;
            return;
        }
    diag_error(x->m.diag, value->loc, "mixed_precision is \"no\", \"fp16\" or \"bf16\"");
    const char *near = value->kind == AST_str ? nearest_name(value->name, names, 3) : NULL;
    if (near)
        diag_note(x->m.diag, value->loc, "did you mean \"%s\"?", near);
}

static void read_steps(Accel *x, Ast *value)
{
    bool negative = value->kind == AST_unary && value->op == AST_OP_neg;
    if (negative || value->kind == AST_float || value->kind == AST_str ||
        (value->kind == AST_int && value->ival < 1))
        diag_error(x->m.diag, value->loc,
                   "gradient_accumulation_steps is a whole number of at least 1");
    x->steps = value->kind == AST_int && value->ival == 1 ? NULL : value;
}

static void read_argument(Accel *x, const Ast *arg, AstList *out)
{
    static const char *const names[] = {"mixed_precision", "gradient_accumulation_steps",
                                        "project_dir",     "step_scheduler_with_optimizer",
                                        "log_with",        "cpu"};
    const char *name = arg->kind == AST_keyword ? arg->name : "";
    if (str_eq(name, names[0])) {
        read_precision(x, arg->value);
    } else if (str_eq(name, names[1])) {
        read_steps(x, arg->value);
    } else if (str_eq(name, names[2])) {
        Ast *callee = new_name(x, arg->loc, "set_output_dir");
        *out = ast_append(&x->m, *out,
                          ast_expr(&x->m, arg->loc, call_of(x, arg->loc, callee, arg->value)));
    } else if (str_eq(name, names[3]) && (arg->value->kind != AST_bool || !arg->value->ival)) {
        diag_error(x->m.diag, arg->value->loc,
                   "a prepared schedule moves on once an update; one that is not prepared goes its "
                   "own way");
    } else if (!str_eq(name, names[3]) && !str_eq(name, names[4]) && !str_eq(name, names[5])) {
        diag_error(x->m.diag, arg->loc,
                   *name ? "Accelerator has no argument `%s`"
                         : "Accelerator takes its arguments by name%s",
                   name);
        const char *near = nearest_name(name, names, 6);
        if (near)
            diag_note(x->m.diag, arg->loc, "did you mean `%s`?", near);
    }
}

/* accelerator = Accelerator(...); true: it was that */
static bool read_accelerator(Accel *x, const Ast *s, AstList *out)
{
    bool is_it = s->kind == AST_assign && s->target->kind == AST_name &&
                 s->value->kind == AST_call && s->value->callee->kind == AST_name &&
                 str_eq(s->value->callee->name, "Accelerator");
    if (!is_it)
        return false;
    if (x->name) {
        diag_error(x->m.diag, s->loc, "a program has one accelerator, and that is `%s`", x->name);
        return true;
    }
    x->name = s->target->name;
    for (int i = 0; i < s->value->list.n; i++)
        read_argument(x, s->value->list.at[i], out);
    if (x->scaler) {
        Ast *made = ast_call(&x->m, s->loc, new_name(x, s->loc, "GradScaler"), (AstList){0});
        *out = ast_append(
            &x->m, *out,
            ast_assign(&x->m, s->loc, new_name(x, s->loc, x->scaler), AST_OP_none, made));
    }
    return true;
}

static bool is_statement(const Ast *n)
{
    return n->kind == AST_assign || n->kind == AST_expr || n->kind == AST_if ||
           n->kind == AST_for || n->kind == AST_with;
}

AstFile *accel_expand(Arena *a, Diag *d, AstFile *file)
{
    Accel x = {.m = {.arena = a, .diag = d}, .file = file};
    AstList out = {0};
    for (int i = 0; i < file->root->list.n; i++) {
        Ast *s = file->root->list.at[i];
        if (read_accelerator(&x, s, &out))
            continue;
        learn(&x, s);
        AstList one = ast_list(&x.m, s);
        one = x.name && is_statement(s) ? accel_statements(&x, one) : one;
        for (int k = 0; k < one.n; k++)
            out = ast_append(&x.m, out, one.at[k]);
    }
    if (x.name)
        file->root = ast_decl(&x.m, AST_file, file->root->loc, NULL, out, (AstList){0});
    return file;
}
