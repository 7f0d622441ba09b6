/* lower_evaluate.c: evaluate, log, print, save, and the contexts of `with`. */
#include "frontend/builtins.h"

/* ---- evaluate -------------------------------------------------------------------------------------- */

enum { MOST_MEASURES = 32 }; /* of the runtime, MPC_MAX_METRICS */

typedef struct Outcome {
    int n;
    Val *values;
    Loc *locs;
} Outcome;

/* What evaluate(...) is given; weights: an EMA, whose averages are evaluated. */
static Loader *evaluation_loader(Lower *l, const Ast *e, const Decl **weights)
{
    static const Formal formals[3] = {{.name = "dataset"},
                                      {.name = "batch_size", .optional = true},
                                      {.name = "weights", .optional = true}};
    Match m;
    if (!args_match(l, "evaluate", formals, 3, 0, e, &m)) {
        return NULL;
    }
    Val ema = m.actual[2] != NULL ? eval(l, m.actual[2]) : val_none();
    if (ema.kind != VAL_ema && ema.kind != VAL_none) {
        if (!val_is_poison(ema)) {
            lower_error(l, m.actual[2]->loc,
                        "weights is an EMA, whose averages are evaluated, but this is %s",
                        val_describe(l, ema));
        }
        return NULL;
    }
    *weights = ema.kind == VAL_ema ? ema.decl : NULL;
    Val set = eval(l, m.actual[0]);
    if (set.kind == VAL_loader) {
        if (m.actual[1] != NULL) {
            lower_error(l, m.actual[1]->loc, "a loader has a batch_size already");
            return NULL;
        }
        return loader_for(l, set.loader, false);
    }
    if (set.kind != VAL_data) {
        if (!val_is_poison(set)) {
            lower_error(l, m.actual[0]->loc, "evaluate reads a data set, but this is %s",
                        val_describe(l, set));
        }
        return NULL;
    }
    Val size = m.actual[1] != NULL ? eval(l, m.actual[1])
                                   : val_int(l->train_bound > 0 ? l->train_bound : 256);
    Loc loc = m.actual[1] != NULL ? m.actual[1]->loc : e->loc;
    Loader *r =
        loader_new(l, set.data, arena_printf(l->arena, "eval_%s", set.data->decl->name), size, loc);
    return r == NULL ? NULL : loader_for(l, r, false);
}

/* Lowers the body; false after an error. */
static bool evaluation_body(Lower *l, const Ast *e, Outcome *out)
{
    AstList before = e->list2;
    const Ast *last = before.n > 0 ? before.at[before.n - 1] : NULL;
    if (last == NULL || last->kind != AST_expr) {
        if (last == NULL || last->kind != AST_error) {
            lower_error(l, last != NULL ? last->loc : e->loc,
                        "an evaluation ends with what it measures, for example `accuracy(logits, "
                        "batch.label)`");
        }
        return false;
    }
    before.n--;
    int errors = diag_errors(l->diag);
    if (exec_block(l, &before) != FLOW_next && diag_errors(l->diag) > errors) {
        return false;
    }
    bool tuple = last->value->kind == AST_tuple;
    out->n = tuple ? last->value->list.n : 1;
    out->values = ARENA_ARRAY(l->arena, Val, out->n);
    out->locs = ARENA_ARRAY(l->arena, Loc, out->n);
    for (int i = 0; i < out->n; i++) {
        const Ast *one = tuple ? last->value->list.at[i] : last->value;
        out->values[i] = eval(l, one);
        out->locs[i] = one->loc;
        if (out->values[i].key == NULL && one->kind == AST_name) {
            out->values[i].name = one->name;
        }
    }
    return diag_errors(l->diag) == errors;
}

/* A confusion matrix is no number: it goes to the log, and to no variable. */
static bool is_logged_only(Val v)
{
    return v.measure != NULL && v.measure->metric == METRIC_confusion_matrix;
}

static const char *variable_of(const Ast *target, int i)
{
    if (target == NULL) {
        return NULL;
    }
    const Ast *t = target->kind == AST_tuple ? target->list.at[i] : target;
    return t->kind == AST_name ? t->name : NULL;
}

/* The log's name: the function's, or the variable's; of a second loss the variable's. NULL: said. */
static const char *measure_key(Lower *l, const HostStmt *s, const char *key, const char *var,
                               Loc loc)
{
    if (key == NULL) {
        lower_error(
            l, loc,
            "this has no name for the log: assign it, as in `error = evaluate(...) { ... }`");
        return NULL;
    }
    const char *second = var != NULL && str_starts(var, "eval_") ? var + 5 : var;
    for (int k = 0; k < s->nmeasures; k++) {
        if (!str_eq(s->measures[k].key, key)) {
            continue;
        }
        if (second == NULL || str_eq(second, key)) {
            lower_error(l, loc, "this evaluation measures `%s` twice", key);
            return NULL;
        }
        key = second;
        k = -1;
    }
    return key;
}

/* The mean of a scalar. */
static bool add_mean(Lower *l, HostMeasure *of, const char *var, Val v, Loc loc)
{
    Node *n = tensor_of(l, v, loc);
    if (n == NULL) {
        return false;
    }
    if (n->dims.rank != 0) {
        lower_error(l, loc, "an evaluation measures numbers, but this is %s", val_describe(l, v));
        lower_note(l, loc, "mean() makes one number of a tensor");
        return false;
    }
    n = dtype_info[n->dtype].is_float ? n : op_cast(l, n, DT_f32);
    graph_result(l->run->graph, RESULT_Host, var, n);
    of->from[0] = var;
    return true;
}

static void add_counted(Lower *l, HostMeasure *of, const char *var, const Measure *m)
{
    static const char *const part[] = {"answers", "labels"};
    int n = metric_info[m->metric].nfrom;
    of->metric = m->metric;
    of->attrs = m->attrs;
    for (int i = 0; i < n; i++) {
        of->from[i] = n == 1 ? var : arena_printf(l->arena, "%s.%s", var, part[i]);
        graph_result(l->run->graph, RESULT_Host, of->from[i], m->from[i]);
    }
}

/* One measure of the evaluation: results of the graph, a variable, a key of the log. */
static bool add_measure(Lower *l, HostStmt *s, const char *var, Val v, Loc loc)
{
    if (val_is_poison(v)) {
        return false;
    }
    const char *key = v.key != NULL ? v.key : v.name != NULL ? v.name : var;
    key = measure_key(l, s, key, var, loc);
    if (key == NULL) {
        return false;
    }
    HostMeasure *of = &s->measures[s->nmeasures];
    *of = (HostMeasure){.key = key};
    var = var != NULL ? var : arena_printf(l->arena, "eval_%s", key);
    if (v.measure != NULL) {
        add_counted(l, of, var, v.measure);
    } else if (!add_mean(l, of, var, v, loc)) {
        return false;
    }
    s->nmeasures++;
    if (!is_logged_only(v)) {
        s->vars[s->nvars++] = var;
    }
    return true;
}

/* The batch comes first: what is merged with it, as the positions of a text, is seen before that. */
static Node *with_batch_axis(Node *x)
{
    while (x != NULL && (x->dims.rank < 1 || dim_is_const(x->dims.d[0]) || x->dims.d[0].k != 1)) {
        x = x->op == OP_reshape || x->op == OP_cast ? x->in[0] : NULL;
    }
    return x;
}

void evaluation_answer(Lower *l, const char *kind, Node *x)
{
    Graph *g = l->run != NULL ? l->run->graph : NULL;
    x = with_batch_axis(x);
    if (g == NULL || g->role != GRAPH_Eval || x == NULL || !dtype_info[x->dtype].is_float) {
        return;
    }
    for (int i = 0; i < g->nresults; i++) {
        Result *r = &g->results[i];
        if (r->kind == RESULT_Field) {
            if (str_eq(kind, ANSWER_LOGITS) && !str_eq(r->name, kind)) {
                *r = (Result){RESULT_Field, kind, x};
            }
            return;
        }
    }
    graph_result(g, RESULT_Field, kind, x);
}

static bool target_fits(Lower *l, const Ast *target, int n)
{
    int names = target == NULL ? n : target->kind == AST_tuple ? target->list.n : 1;
    if (names == n) {
        return true;
    }
    lower_error(l, target->loc, "%d name%s for %d number%s of the evaluation", names,
                names == 1 ? "" : "s", n, n == 1 ? "" : "s");
    return false;
}

/* Numbers first: they go to the variables. */
static bool add_measures(Lower *l, const Ast *target, const Outcome *out, HostStmt *s)
{
    bool fine = true;
    int at = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < out->n; i++) {
            if (is_logged_only(out->values[i]) == (pass == 1)) {
                const char *var = pass == 0 ? variable_of(target, at++) : NULL;
                fine = add_measure(l, s, var, out->values[i], out->locs[i]) && fine;
            }
        }
    }
    return fine;
}

static Val measures(Lower *l, const Ast *e, const Ast *target, Loader *loader, HostStmt *s)
{
    Outcome out = {0};
    int numbers = 0;
    if (!evaluation_body(l, e, &out)) {
        return val_poison();
    }
    if (out.n > MOST_MEASURES) {
        return lower_error(l, out.locs[MOST_MEASURES], "an evaluation measures at most %d things",
                           MOST_MEASURES);
    }
    for (int i = 0; i < out.n; i++) {
        numbers += !is_logged_only(out.values[i]);
    }
    if (!target_fits(l, target, numbers)) {
        return val_poison();
    }
    s->target = loader->data->decl->name;
    s->graph = l->run->graph->name;
    s->loader = loader->decl;
    s->vars = ARENA_ARRAY(l->arena, const char *, out.n);
    s->measures = ARENA_ARRAY(l->arena, HostMeasure, out.n);
    if (!add_measures(l, target, &out, s)) {
        return val_poison();
    }
    Val all = val_list(l, VAL_tuple);
    for (int i = 0; i < s->nvars; i++) {
        val_push(l, &all, host_var(l, s->vars[i], HT_float, e->loc));
    }
    return s->nvars == 1 ? all.list->at[0] : all;
}

Val eval_evaluate(Lower *l, const Ast *e, const Ast *target)
{
    if (l->frame != NULL) {
        return lower_error(l, e->loc, "evaluate is a statement of the program");
    }
    run_close(l);
    const Decl *weights = NULL;
    Loader *loader = evaluation_loader(l, e, &weights);
    if (loader == NULL) {
        return val_poison();
    }
    Loader *outer = l->loader;
    Builder b = l->b;
    bool training = l->training;
    Frame frame = {0};
    scope_add(l->arena, &frame.locals, "batch", (Val){.kind = VAL_batch, .loader = loader});
    l->run = run_new(l, "eval", GRAPH_Eval, loader->data, loader->bound, e->loc);
    l->loader = loader;
    l->frame = &frame;
    l->training = false;
    l->ema = weights;
    HostStmt *s = ARENA_NEW(l->arena, HostStmt);
    Val v = measures(l, e, target, loader, s);
    l->run->open = false;
    l->run = NULL;
    l->loader = outer;
    l->frame = NULL;
    l->ema = NULL;
    l->training = training;
    l->b = b;
    if (!val_is_poison(v)) {
        HostStmt *into = host_emit(l, HS_evaluate, e->loc);
        s->kind = into->kind;
        s->loc = into->loc;
        *into = *s;
    }
    return v;
}

/* ---- log, print, save ------------------------------------------------------------------------------ */

/* Makes sure that a host variable `name` holds v. */
static const char *as_variable(Lower *l, const char *name, Val v, Loc loc)
{
    if (val_is_tensor(v)) {
        HostExpr *e = tensor_to_host(l, v, name, loc);
        return e == NULL ? NULL : e->text;
    }
    if (v.kind == VAL_host && v.host->kind == HE_var && str_eq(v.host->text, name)) {
        return name;
    }
    HostExpr *e = host_of(l, v, loc);
    if (e == NULL) {
        return NULL;
    }
    if (e->type == HT_str) {
        lower_error(l, loc, "the log takes numbers, but this is a string");
        return NULL;
    }
    if (module_find(l->m, DECL_option, name) != NULL) {
        name = arena_printf(l->arena, "%s_value", name);
    }
    host_var(l, name, e->type, loc);
    HostStmt *s = host_emit(l, HS_assign, loc);
    s->var = name;
    s->expr = e;
    return name;
}

void log_statement(Lower *l, const Ast *call)
{
    const char **vars = ARENA_ARRAY(l->arena, const char *, call->list.n + 1);
    int n = 0;
    if (call->list.n == 0) {
        lower_error(l, call->loc, "log takes what is to be logged: log(loss)");
    }
    for (int i = 0; i < call->list.n; i++) {
        const Ast *arg = call->list.at[i];
        const Ast *value = arg->kind == AST_keyword ? arg->value : arg;
        Val v = eval(l, value);
        const char *name = arg->kind == AST_keyword || arg->kind == AST_name ? arg->name : v.key;
        if (val_is_poison(v)) {
            continue;
        }
        if (name == NULL) {
            lower_error(l, arg->loc, "this needs a name in the log: log(name = ...)");
            continue;
        }
        vars[n] = as_variable(l, name, v, value->loc);
        n += vars[n] != NULL;
    }
    if (n > 0) {
        HostStmt *s = host_emit(l, HS_log, call->loc);
        s->nvars = n;
        s->vars = vars;
    }
}

/* ---- print: of numbers that the host has, or of what a graph computes ---- */

/* Modules and evaluations know only their graph; tensors and shapes are a graph's anywhere. */
static bool prints_in_graph(Lower *l, const Values *list)
{
    bool in_graph = l->frame != NULL;
    for (int i = 0; i < list->n; i++) {
        Val v = list->at[i];
        bool tensor = v.kind == VAL_tensor && v.node->dims.rank > 0;
        in_graph |= tensor || v.kind == VAL_param || v.kind == VAL_dim || v.kind == VAL_list ||
                    v.kind == VAL_tuple;
    }
    return in_graph;
}

static const char *constant_text(Lower *l, Val v)
{
    char digits[32];
    return v.kind == VAL_str     ? v.s
           : v.kind == VAL_dtype ? dtype_info[v.dtype].name
           : v.kind == VAL_none  ? "none"
           : v.kind == VAL_bool  ? (v.b ? "true" : "false")
           : v.kind == VAL_int   ? arena_printf(l->arena, "%lld", (long long)v.i)
                                 : arena_strdup(l->arena, str_double(digits, v.f));
}

/* A list of sizes; false: it holds something else. */
static bool shape_part(const Values *list, PrintPart *part)
{
    bool fine = list->n <= MAX_RANK;
    for (int i = 0; i < list->n && fine; i++) {
        Val v = list->at[i];
        fine = v.kind == VAL_int || v.kind == VAL_dim;
        part->dims.d[part->dims.rank++] = v.kind == VAL_int ? dim_of(v.i) : v.dim;
    }
    part->text = list->n == 0 ? "[]" : NULL;
    return fine;
}

/* The result of the graph that has the tensor's value. */
static const char *printed_result(Lower *l, Node *n)
{
    Graph *g = l->run->graph;
    int count = 0;
    for (int i = 0; i < g->nresults; i++) {
        if (g->results[i].kind == RESULT_Print && g->results[i].value == n) {
            return g->results[i].name;
        }
        count += g->results[i].kind == RESULT_Print;
    }
    const char *name = arena_printf(l->arena, "print.%d", count);
    graph_result(g, RESULT_Print, name, n);
    return name;
}

static bool print_part(Lower *l, Val v, Loc loc, PrintPart *part)
{
    if (v.kind == VAL_list || v.kind == VAL_tuple) {
        if (!shape_part(v.list, part)) {
            lower_error(l, loc, "print takes tensors, shapes, numbers and texts, not %s",
                        val_describe(l, v));
            return false;
        }
    } else if (v.kind == VAL_dim) {
        part->dims = (Dims){.rank = 1, .d = {v.dim}};
        part->bare = true;
    } else if (val_is_number(v) || v.kind == VAL_str || v.kind == VAL_dtype || v.kind == VAL_none) {
        part->text = constant_text(l, v);
    } else {
        Node *n = tensor_of(l, v, loc);
        part->result = n != NULL ? printed_result(l, n) : NULL;
        return n != NULL;
    }
    return true;
}

static Val print_in_graph(Lower *l, Call *c)
{
    Values *list = c->rest.list;
    if (!tensor_need_run(l, c->loc)) {
        return val_poison();
    }
    if (l->run->graph->role == GRAPH_Prepare) {
        return lower_error(l, c->loc,
                           "print has no place in the preparation of batches, which "
                           "runs beside the program");
    }
    Print p = {
        .nparts = list->n, .parts = ARENA_ARRAY(l->arena, PrintPart, list->n + 1), .loc = c->loc};
    for (int i = 0; i < list->n; i++) {
        if (!print_part(l, list->at[i], c->loc, &p.parts[i])) {
            return val_poison();
        }
    }
    graph_add_print(l->run->graph, p);
    return val_none();
}

Val fn_print(Lower *l, Call *c)
{
    Values *list = c->rest.list;
    if (prints_in_graph(l, list)) {
        return print_in_graph(l, c);
    }
    HostExpr **exprs = ARENA_ARRAY(l->arena, HostExpr *, list->n + 1);
    for (int i = 0; i < list->n; i++) {
        exprs[i] = host_of(l, list->at[i], c->locs[0]);
        if (exprs[i] == NULL) {
            return val_poison();
        }
    }
    HostStmt *s = host_emit(l, HS_print, c->loc);
    s->nexprs = list->n;
    s->exprs = exprs;
    return val_none();
}

/* save and load: a name that is one of a file, too. */
static Val file_statement(Lower *l, Call *c, HostKind kind)
{
    const char *name;
    if (l->frame != NULL) {
        return lower_error(l, c->loc, "%s is a statement of the program", c->fn->name);
    }
    if (!call_str(l, c, 0, &name)) {
        return val_poison();
    }
    for (const char *p = name; *p != '\0'; p++) {
        bool fine = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                    (*p >= '0' && *p <= '9') || *p == '_' || *p == '-';
        if (!fine) {
            return lower_error(l, c->locs[0],
                               "a name to save under has letters, digits, `_` and `-`");
        }
    }
    if (name[0] == '\0') {
        return lower_error(l, c->locs[0], "a name to save under is empty");
    }
    run_close(l);
    HostStmt *s = host_emit(l, kind, c->loc);
    s->expr = host_of(l, val_str(name), c->locs[0]);
    return val_none();
}

Val fn_save(Lower *l, Call *c)
{
    return file_statement(l, c, HS_save);
}

Val fn_load(Lower *l, Call *c)
{
    return file_statement(l, c, HS_load);
}

/* ---- with ------------------------------------------------------------------------------------------ */

static Val context(ContextKind kind, DType dt)
{
    return (Val){.kind = VAL_context, .tag = (int)kind, .dtype = dt};
}

Val fn_autocast(Lower *l, Call *c)
{
    DType dt;
    bool enabled;
    if (!call_bool(l, c, 1, &enabled)) {
        return val_poison();
    }
    if (!enabled) {
        return context(CONTEXT_autocast, DT_none);
    }
    if (c->args[0].kind == VAL_none) {
        return lower_error(l, c->loc, "autocast needs a type: autocast(f16) or autocast(bf16)");
    }
    if (!call_dtype(l, c, 0, &dt)) {
        return val_poison();
    }
    if (dt != DT_f16 && dt != DT_bf16 && dt != DT_f32) {
        return lower_error(l, c->locs[0], "autocast goes to f16, bf16 or f32, not to %s",
                           dtype_info[dt].name);
    }
    if (l->m->precision == DT_none) {
        l->m->precision = dt;
    }
    return context(CONTEXT_autocast, dt);
}

Val fn_precision(Lower *l, Call *c)
{
    DType dt;
    if (!call_dtype(l, c, 0, &dt)) {
        return val_poison();
    }
    if (!dtype_info[dt].is_float) {
        return lower_error(l, c->locs[0], "precision is a floating type, not %s",
                           dtype_info[dt].name);
    }
    return context(CONTEXT_precision, dt);
}

Val fn_checkpoint(Lower *l, Call *c)
{
    (void)l;
    (void)c;
    return context(CONTEXT_checkpoint, DT_none);
}

Val fn_no_grad(Lower *l, Call *c)
{
    (void)l;
    (void)c;
    return context(CONTEXT_no_grad, DT_none);
}
