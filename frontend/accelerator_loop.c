/* accelerator_loop.c: statements of a program with an accelerator, and how those of an update are gathered.
 *
 * A list of statements is walked once. Three things are collected on the way: the forward (assignments from the
 * first that calls a prepared model on), which goes under autocast; the update, which goes into one block where
 * its first statement stood; and all else, which stays in its order.
 */
#include "frontend/accelerator.h"

#include <string.h>

typedef struct Body {
    Accel *x;
    AstList out;
    AstList forward;  /* under way */
    AstList update;   /* of the last backward */
    AstList clear;    /* zero_grad before the first backward of a window: goes to its end */
    AstList unscaled; /* optimizers, as names */
    int at;           /* where in `out` the update goes; -1: nowhere yet */
    bool backward;    /* seen in this list */
    Loc loc;          /* of the update's first statement */
} Body;

static void put(Body *b, Ast *s)
{
    b->out = ast_append(&b->x->m, b->out, s);
}

static Ast *name_of(Accel *x, Loc loc, const char *name)
{
    return ast_name(&x->m, loc, name);
}

/* NAME(ARGS) as a statement */
static Ast *do_call(Accel *x, Loc loc, const char *name, AstList args)
{
    return ast_expr(&x->m, loc, ast_call(&x->m, loc, name_of(x, loc, name), args));
}

static Ast *do_method(Accel *x, Loc loc, const char *object, const char *name, Ast *arg)
{
    Ast *callee = ast_member(&x->m, loc, name_of(x, loc, object), name, loc);
    return ast_expr(&x->m, loc, ast_call(&x->m, loc, callee, ast_list(&x->m, arg)));
}

/* ---- looking into statements ---- */

typedef bool Question(const Accel *x, const Ast *n);

static bool any_in(const Accel *x, const Ast *n, Question *q);

static bool any_of(const Accel *x, AstList list, Question *q)
{
    bool found = false;
    for (int i = 0; i < list.n && !found; i++)
        found = any_in(x, list.at[i], q);
    return found;
}

static bool any_in(const Accel *x, const Ast *n, Question *q)
{
    return n && (q(x, n) || any_in(x, n->a, q) || any_in(x, n->b, q) || any_in(x, n->c, q) ||
                 any_of(x, n->list, q) || any_of(x, n->list2, q));
}

static bool is_backward(const Accel *x, const Ast *n)
{
    return str_eq(accel_own_call(x, n), "backward");
}

/* A call of a model, its forward or another function, prepared or not. */
static bool calls_model(const Accel *x, const Ast *n)
{
    static const char *const others[] = {"parameters", "zero_grad", "train", "eval"};
    if (n->kind != AST_call)
        return false;
    const Ast *root = n->callee;
    for (size_t i = 0; root->kind == AST_member && i < sizeof others / sizeof *others; i++)
        if (str_eq(root->name, others[i]))
            return false;
    while (root->kind == AST_member || root->kind == AST_index)
        root = root->object;
    return accel_thing(x, root, ACCEL_model) != NULL;
}

static bool calls_unprepared(const Accel *x, const Ast *n)
{
    if (!calls_model(x, n))
        return false;
    const Ast *root = n->callee;
    while (root->kind == AST_member || root->kind == AST_index)
        root = root->object;
    return !accel_thing(x, root, ACCEL_model)->ready;
}

/* The optimizer or schedule of NAME.step(); NULL for other statements. */
static const AccelThing *stepped(const Accel *x, const Ast *s, AccelKind kind)
{
    bool step = s->kind == AST_expr && s->value->kind == AST_call &&
                s->value->callee->kind == AST_member && str_eq(s->value->callee->name, "step");
    return step ? accel_thing(x, s->value->callee->object, kind) : NULL;
}

/* ema.update(), ema.update_parameters(model) */
static bool is_average(const Accel *x, const Ast *s)
{
    const Ast *callee = s->kind == AST_expr && s->value->kind == AST_call ? s->value->callee : NULL;
    return callee && callee->kind == AST_member && accel_thing(x, callee->object, ACCEL_ema) &&
           str_starts(callee->name, "update");
}

static int count_steps(const Accel *x, AstList list)
{
    int n = 0;
    for (int i = 0; i < list.n; i++) {
        const Ast *s = list.at[i];
        n += stepped(x, s, ACCEL_optimizer) != NULL;
        if (s->kind == AST_if)
            n += count_steps(x, s->list) + count_steps(x, s->list2);
        if (s->kind == AST_with || s->kind == AST_for)
            n += count_steps(x, s->list2);
    }
    return n;
}

static bool is_zero_grad(const Ast *s)
{
    const Ast *callee = s->kind == AST_expr && s->value->kind == AST_call ? s->value->callee : NULL;
    return callee && (callee->kind == AST_member || callee->kind == AST_name) &&
           str_eq(callee->name, "zero_grad");
}

static bool is_sync_test(const Accel *x, const Ast *s)
{
    return s->kind == AST_if && str_eq(accel_own_member(x, s->test), "sync_gradients") &&
           !s->list2.n;
}

/* ---- the forward ---- */

static void end_forward(Body *b)
{
    Accel *x = b->x;
    if (!b->forward.n)
        return;
    Loc loc = b->forward.at[0]->loc;
    if (x->low) {
        put(b, ast_with(&x->m, loc, ast_list(&x->m, accel_autocast(x, loc)), b->forward));
    } else {
        for (int i = 0; i < b->forward.n; i++)
            put(b, b->forward.at[i]);
    }
    b->forward = (AstList){0};
}

static void check_prepared_model(const Accel *x, const Ast *s)
{
    if (any_in(x, s, calls_unprepared))
        diag_error(x->m.diag, s->loc,
                   "this calls a model that is not prepared: it would run in f32, its gradients "
                   "unscaled");
}

/* ---- the update ---- */

static void begin_update(Body *b, Loc loc)
{
    if (b->at < 0) {
        b->at = b->out.n;
        b->loc = loc;
    }
}

static void add_update(Body *b, Ast *s)
{
    begin_update(b, s->loc);
    b->update = ast_append(&b->x->m, b->update, s);
}

/* Puts the update where its first statement stood. */
static void end_update(Body *b)
{
    Accel *x = b->x;
    for (int i = 0; i < b->clear.n && b->backward; i++)
        add_update(b, b->clear.at[i]);
    b->clear = b->backward ? (AstList){0} : b->clear;
    if (b->at < 0)
        return;
    AstList before = {0}, behind = {0};
    for (int i = 0; i < b->out.n; i++)
        if (i < b->at)
            before = ast_append(&x->m, before, b->out.at[i]);
        else
            behind = ast_append(&x->m, behind, b->out.at[i]);
    Ast *test = x->in_batches ? accel_update_test(x, b->loc) : NULL;
    b->out = before;
    if (test)
        put(b, ast_if(&x->m, b->loc, test, b->update, (AstList){0}));
    for (int i = 0; i < b->update.n && !test; i++)
        put(b, b->update.at[i]);
    for (int i = 0; i < behind.n; i++)
        put(b, behind.at[i]);
    b->update = b->unscaled = (AstList){0};
    b->at = -1;
}

static void unscale(Body *b, const AccelThing *o, Loc loc)
{
    for (int i = 0; i < b->unscaled.n; i++)
        if (str_eq(b->unscaled.at[i]->name, o->name))
            return;
    b->unscaled = ast_append(&b->x->m, b->unscaled, name_of(b->x, loc, o->name));
    add_update(b, do_method(b->x, loc, b->x->scaler, "unscale", name_of(b->x, loc, o->name)));
}

static bool holds(const char *whole, const char *part)
{
    size_t n = strlen(whole);
    return strncmp(whole, part, n) == 0 && (part[n] == '\0' || part[n] == '.');
}

/* accelerator.clip_grad_norm_(model.parameters(), 1.0) */
static void clip(Body *b, const char *name, const Ast *call)
{
    Accel *x = b->x;
    const char *of = call->list.n ? accel_path(x, call->list.at[0]) : NULL;
    bool found = of == NULL; /* the function itself says what is wrong */
    for (int i = 0; i < x->known.n && of; i++) {
        const AccelThing *o = &x->known.at[i];
        bool meant = o->kind == ACCEL_optimizer && o->ready && o->of &&
                     (holds(of, o->of) || holds(o->of, of));
        if (meant && x->scaler)
            unscale(b, o, call->loc);
        found |= meant;
    }
    if (!found)
        diag_error(x->m.diag, call->loc, "no prepared optimizer trains the parameters of `%s`", of);
    const char *plain = str_starts(name, "clip_grad_norm") ? "clip_grad_norm" : "clip_grad_value";
    add_update(b, do_call(x, call->loc, plain, accel_arguments(x, call->list)));
}

static void step(Body *b, const AccelThing *o, const Ast *s)
{
    Accel *x = b->x;
    if (!o->ready) {
        diag_error(x->m.diag, s->loc, "`%s` steps, but is not prepared", o->name);
        diag_note(x->m.diag, o->loc, "%s = %s.prepare(%s) prepares it", o->name, x->name, o->name);
    }
    x->steps_left--;
    if (!x->scaler) {
        add_update(b, do_method(x, s->loc, o->name, "step", NULL));
        return;
    }
    add_update(b, do_method(x, s->loc, x->scaler, "step", name_of(x, s->loc, o->name)));
    if (x->steps_left <= 0)
        add_update(b, do_method(x, s->loc, x->scaler, "update", NULL));
}

static Ast *cleared(Accel *x, const Ast *s)
{
    const Ast *call = s->value;
    Ast *what = call->callee->kind == AST_member ? call->callee->object
                : call->list.n == 1              ? call->list.at[0]
                                                 : NULL;
    return what ? do_call(x, s->loc, "zero_grad", ast_list(&x->m, what)) : accel_expr(x, (Ast *)s);
}

static void statement(Body *b, Ast *s);

/* Does the statement belong to an update? Then it is gathered. */
static bool update_statement(Body *b, Ast *s)
{
    Accel *x = b->x;
    const char *own = s->kind == AST_expr ? accel_own_call(x, s->value) : NULL;
    const AccelThing *o = stepped(x, s, ACCEL_optimizer);
    const AccelThing *schedule = stepped(x, s, ACCEL_scheduler);
    if (!x->in_batches)
        return false;
    if (own && str_starts(own, "clip_grad_")) {
        clip(b, own, s->value);
    } else if (o) {
        step(b, o, s);
    } else if ((schedule && schedule->ready) || is_average(x, s)) {
        add_update(b, accel_expr(x, s));
    } else if (is_zero_grad(s) && b->backward) {
        add_update(b, cleared(x, s));
    } else if (is_zero_grad(s) && !x->steps) {
        put(b, cleared(x, s));
    } else if (is_zero_grad(s)) {
        b->clear = ast_append(&x->m, b->clear, cleared(x, s));
    } else if (is_sync_test(x, s)) {
        begin_update(b, s->loc);
        for (int i = 0; i < s->list.n; i++)
            if (!update_statement(b, s->list.at[i])) {
                AstList others = accel_statements(x, ast_list(&x->m, s->list.at[i]));
                for (int k = 0; k < others.n; k++)
                    add_update(b, others.at[k]);
            }
    } else {
        return false;
    }
    return true;
}

static void backward(Body *b, const Ast *s)
{
    Accel *x = b->x;
    const Ast *call = s->value;
    AstList args = accel_arguments(x, call->list);
    end_update(b);
    if (!x->in_batches)
        diag_error(x->m.diag, s->loc, "`%s.backward` stands in a loop over a prepared loader",
                   x->name);
    if (args.n && x->scaler) {
        Ast *callee = ast_member(&x->m, s->loc, name_of(x, s->loc, x->scaler), "scale", s->loc);
        args.at[0] = ast_call(&x->m, s->loc, callee, ast_list(&x->m, args.at[0]));
    }
    if (x->steps)
        args = ast_append(&x->m, args,
                          ast_keyword(&x->m, s->loc, "average", ast_bool(&x->m, s->loc, true)));
    put(b, do_call(x, s->loc, "backward", args));
    b->backward = true;
}

/* ---- other statements ---- */

/* What the accelerator does as a statement; false: it is no such statement. */
static bool own_statement(Body *b, const Ast *s)
{
    static const char *const nothing[] = {"wait_for_everyone", "end_training", "init_trackers",
                                          "free_memory"};
    Accel *x = b->x;
    const char *own = s->kind == AST_expr ? accel_own_call(x, s->value) : NULL;
    if (!own)
        return false;
    AstList args = s->value->list;
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
        if (str_eq(own, nothing[i]))
            return true;
    if (str_eq(own, "print") || str_eq(own, "log")) {
        put(b, do_call(x, s->loc, own, accel_arguments(x, args)));
    } else if (str_eq(own, "save_state") || str_eq(own, "save_model") || str_eq(own, "save")) {
        AstList last = args.n ? ast_list(&x->m, accel_expr(x, args.at[args.n - 1])) : args;
        put(b, do_call(x, s->loc, "save", last));
    } else {
        return false;
    }
    return true;
}

static void for_statement(Body *b, const Ast *s)
{
    Accel *x = b->x, outer = *x;
    bool counted = s->iter->kind == AST_call && s->iter->callee->kind == AST_name &&
                   str_eq(s->iter->callee->name, "enumerate") && s->iter->list.n == 1;
    Ast *over = counted ? s->iter->list.at[0] : s->iter;
    const AccelThing *loader = accel_thing(x, over, ACCEL_loader);
    bool batches = loader != NULL || accel_own_call(x, over) != NULL;
    bool trains = any_of(x, s->list2, is_backward);
    Ast *iter = accel_expr(x, s->iter);
    AstList targets = s->list;
    if (trains && loader && !loader->ready)
        diag_error(x->m.diag, over->loc, "`%s` is not prepared", loader->name);
    if (batches && trains) {
        x->in_batches = true;
        x->steps_left = count_steps(x, s->list2);
        x->loader = over;
        x->counter = counted && s->list.n == 2 ? s->list.at[0]->name : NULL;
    }
    if (batches && trains && x->steps && !x->counter) {
        x->counter = accel_fresh(x, "micro");
        targets = ast_list(&x->m, name_of(x, s->loc, x->counter));
        for (int i = 0; i < s->list.n; i++)
            targets = ast_append(&x->m, targets, s->list.at[i]);
        iter =
            ast_call(&x->m, over->loc, name_of(x, over->loc, "enumerate"), ast_list(&x->m, over));
    }
    put(b, ast_for(&x->m, s->loc, targets, iter, accel_statements(x, s->list2)));
    x->in_batches = outer.in_batches;
    x->steps_left = outer.steps_left;
    x->loader = outer.loader;
    x->counter = outer.counter;
}

static void with_statement(Body *b, const Ast *s)
{
    Accel *x = b->x;
    AstList contexts = {0};
    for (int i = 0; i < s->list.n; i++) {
        const char *own = accel_own_call(x, s->list.at[i]);
        if (str_eq(own, "accumulate") || str_eq(own, "no_sync"))
            continue; /* one process: there is nothing to wait for */
        Ast *context = str_eq(own, "autocast") ? accel_autocast(x, s->list.at[i]->loc)
                                               : accel_expr(x, s->list.at[i]);
        if (context)
            contexts = ast_append(&x->m, contexts, context);
    }
    if (!contexts.n) {
        for (int i = 0; i < s->list2.n; i++)
            statement(b, s->list2.at[i]);
        return;
    }
    const char *low = x->low;
    x->low = NULL; /* inside the user's own autocast nothing is added */
    AstList body = accel_statements(x, s->list2);
    x->low = low;
    put(b, ast_with(&x->m, s->loc, contexts, body));
}

/* A test that is known goes away: `if accelerator.is_main_process`. */
static void if_statement(Body *b, const Ast *s)
{
    Accel *x = b->x;
    Ast *test = accel_expr(x, s->test);
    bool known = test->kind == AST_bool && s->test->kind != AST_bool;
    if (!known) {
        put(b, ast_if(&x->m, s->loc, test, accel_statements(x, s->list),
                      accel_statements(x, s->list2)));
        return;
    }
    const AstList *body = test->ival ? &s->list : &s->list2;
    for (int i = 0; i < body->n; i++)
        statement(b, body->at[i]);
}

static void other_statement(Body *b, Ast *s)
{
    Accel *x = b->x;
    bool model = any_in(x, s, calls_model);
    if (s->kind == AST_assign && s->value->kind != AST_evaluate && x->in_batches &&
        (model || b->forward.n)) {
        check_prepared_model(x, s);
        b->forward = ast_append(&x->m, b->forward, accel_expr(x, s));
        return;
    }
    end_forward(b);
    if (s->kind == AST_if)
        if_statement(b, s);
    else if (!own_statement(b, s))
        put(b, accel_expr(x, s));
}

static void statement(Body *b, Ast *s)
{
    Accel *x = b->x;
    const Ast *value = s->kind == AST_expr || s->kind == AST_assign ? s->value : NULL;
    if (s->kind == AST_expr && is_backward(x, s->value)) {
        end_forward(b);
        backward(b, s);
    } else if (str_eq(accel_own_call(x, value), "prepare")) {
        AstList made = accel_prepare(x, s, value);
        for (int i = 0; i < made.n; i++)
            put(b, made.at[i]);
    } else if (s->kind == AST_assign) {
        other_statement(b, s);
    } else {
        end_forward(b);
        if (update_statement(b, s))
            return;
        if (s->kind == AST_for)
            for_statement(b, s);
        else if (s->kind == AST_with)
            with_statement(b, s);
        else
            other_statement(b, s);
    }
}

AstList accel_statements(Accel *x, AstList in)
{
    Body b = {.x = x, .at = -1};
    for (int i = 0; i < in.n; i++)
        statement(&b, in.at[i]);
    end_forward(&b);
    end_update(&b);
    for (int i = 0; i < b.clear.n; i++) /* no backward here: they stay where they are */
        put(&b, b.clear.at[i]);
    return b.out;
}

/* ---- evaluations ---- */

/* Calls of models in the results become variables, so that they can stand under autocast. */
static Ast *hoist(Accel *x, Ast *n, AstList *before)
{
    if (!n || n->kind == AST_error)
        return n;
    if (calls_model(x, n)) {
        const char *name = accel_fresh(x, "outputs");
        name = before->n ? arena_printf(x->m.arena, "%s_%d", name, before->n + 1) : name;
        *before = ast_append(&x->m, *before,
                             ast_assign(&x->m, n->loc, name_of(x, n->loc, name), AST_OP_none, n));
        return name_of(x, n->loc, name);
    }
    Ast *copy = ast_new(&x->m, n->kind, n->loc);
    *copy = *n;
    copy->a = hoist(x, n->a, before);
    copy->b = hoist(x, n->b, before);
    copy->c = hoist(x, n->c, before);
    copy->list = (AstList){0};
    for (int i = 0; i < n->list.n; i++)
        copy->list = ast_append(&x->m, copy->list, hoist(x, n->list.at[i], before));
    return ast_seal(&x->m, copy);
}

AstList accel_evaluation(Accel *x, AstList body)
{
    Body b = {.x = x, .at = -1};
    AstList called = {0};
    for (int i = 0; i < body.n; i++) {
        Ast *s = body.at[i];
        bool last = i == body.n - 1;
        if (last && x->low)
            s = hoist(x, s, &called);
        for (int k = 0; last && k < called.n; k++)
            b.forward = ast_append(&x->m, b.forward, accel_expr(x, called.at[k]));
        if (s->kind == AST_assign && (b.forward.n || any_in(x, s, calls_model))) {
            b.forward = ast_append(&x->m, b.forward, accel_expr(x, s));
        } else {
            end_forward(&b);
            put(&b, accel_expr(x, s));
        }
    }
    return b.out;
}
