/* host_run.c: the statements of the host program, the evaluations, and refresh, which makes the working copies
 * after parameters were initialised or loaded. */
#include <string.h>

#include "codegen/program.h"
#include "ir/base/strutil.h"

/* ---- calls of graphs ------------------------------------------------------------------------------- */

static int graph_number(const Emit *e, const char *name)
{
    for (int g = 0; g < e->plan->ngraphs; g++) {
        if (str_eq(e->plan->graphs[g].graph->name, name)) {
            return g;
        }
    }
    ICE("no graph %s", name);
}

/* Field of the result that has the number called `name`; NULL: none. */
static const char *number_field(const Emit *e, const HostText *h, int g, const char *name)
{
    const GraphPlan *gp = &e->plan->graphs[g];
    for (int i = 0; i < gp->nnumbers_out; i++) {
        if (str_eq(gp->numbers_out[i].name, name)) {
            return h->graphs[g].value[i];
        }
    }
    return NULL;
}

/* Does a call of the graph change a parameter? */
static bool is_update(const Emit *e, const Graph *g)
{
    for (int i = 0; i < g->nresults; i++) {
        const Tensor *t = module_find_tensor(e->m, g->results[i].name);
        if (g->results[i].kind == RESULT_State && t != NULL && t->role == TENSOR_param) {
            return true;
        }
    }
    return false;
}

static const char *loss_field(const Emit *e, const HostText *h, int g)
{
    const char *loss = number_field(e, h, g, "step.loss");
    return loss != NULL ? loss : number_field(e, h, g, "loss");
}

/* Where an update takes the gradients of other graphs: the newest of their losses, if the program keeps it. */
static const char *kept_loss(Emit *e, const HostText *h)
{
    bool computed = false;
    for (int g = 0; g < e->plan->ngraphs; g++) {
        const Graph *graph = e->plan->graphs[g].graph;
        computed = computed || (graph->role == GRAPH_Step && number_field(e, h, g, "loss") != NULL);
    }
    for (int i = 0; i < e->m->nvars && computed; i++) {
        if (str_eq(e->m->vars[i].name, "loss") && e->m->vars[i].type == HT_float) {
            return arena_printf(e->arena, "vars->%s", h->var[i]);
        }
    }
    return NULL;
}

static int64_t max_skips(Emit *e)
{
    int n;
    Decl **scalers = module_decls(e, DECL_scaler, &n);
    return n > 0 ? attrs_int(&scalers[0]->attrs, ATTR_max_skips, 0) : 0;
}

/* The gradients that the scaler looks at, by the number that step.first_bad has. */
static bool checked_emit(Emit *e)
{
    int n;
    Decl **scalers = module_decls(e, DECL_scaler, &n);
    const Attrs *as = n > 0 ? &scalers[0]->attrs : NULL;
    const Attr *names = as != NULL ? attrs_find(as, ATTR_checked) : NULL;
    const Attr *ops = as != NULL ? attrs_find(as, ATTR_checked_ops) : NULL;
    const Attr *lines = as != NULL ? attrs_find(as, ATTR_checked_lines) : NULL;
    if (names == NULL || ops == NULL || lines == NULL) {
        return false;
    }
    ln(e, "static const struct {");
    ln(e, "    const char *tensor, *op;");
    ln(e, "    int line;");
    ln_open(e, "} checked[] =");
    for (int i = 0; i < names->strs.n; i++) {
        ln(e, "{%s, %s, %lld},", quoted(e->arena, names->strs.v[i]),
           quoted(e->arena, ops->strs.v[i]), (long long)lines->ints.v[i]);
    }
    ln_close(e, ";");
    return true;
}

/* "{"lr/d_opt", s.lr_d_opt}, ...": of several optimizers and scalers each. */
static void own_values(Emit *e, const HostText *h, int g)
{
    const GraphPlan *gp = &e->plan->graphs[g];
    Text *t = text_new(e->arena);
    int n = 0;
    for (int i = 0; i < gp->nnumbers_in; i++) {
        if (h->graphs[g].rates[i] != NULL) {
            const char *name = arena_printf(e->arena, "lr/%s", gp->numbers_in[i].optimizer);
            text_printf(t, "%s{%s, s.%s}", n++ > 0 ? ", " : "", quoted(e->arena, name),
                        h->graphs[g].rates[i]);
        }
    }
    for (int i = 0; i < gp->nnumbers_out; i++) {
        const char *name = gp->numbers_out[i].name, *of = "step.scale.";
        if (str_starts(name, of)) {
            name = arena_printf(e->arena, "scale/%s", name + strlen(of));
            text_printf(t, "%s{%s, s.%s}", n++ > 0 ? ", " : "", quoted(e->arena, name),
                        h->graphs[g].value[i]);
        }
    }
    if (n > 0) {
        ln(e, ".n_own = %d, .own = (const MpcValue[]){%s},", n, t->at);
    }
}

static void step_done(Emit *e, const HostText *h, int g, int line)
{
    const char *loss = loss_field(e, h, g), *rate = h->graphs[g].rate;
    const char *norm = number_field(e, h, g, "step.grad_norm");
    const char *scale = number_field(e, h, g, "step.scale");
    const char *next = number_field(e, h, g, "step.scale_next");
    const char *skipped = number_field(e, h, g, "step.skipped");
    const char *bad = number_field(e, h, g, "step.first_bad");
    bool named = bad != NULL && checked_emit(e);
    loss = loss != NULL ? arena_printf(e->arena, "s.%s", loss) : kept_loss(e, h);
    ln_open(e, "const MpcStep done =");
    ln(e, ".samples = vars->samples,");
    if (loss != NULL) {
        ln(e, ".has_loss = true, .loss = %s,", loss);
    }
    if (rate != NULL) {
        ln(e, ".has_lr = true, .lr = s.%s,", rate);
    }
    if (norm != NULL) {
        ln(e, ".has_grad_norm = true, .grad_norm = s.%s,", norm);
    }
    if (scale != NULL && next != NULL) {
        ln(e, ".has_scale = true, .scale = s.%s, .scale_next = s.%s,", scale, next);
    }
    own_values(e, h, g);
    if (skipped != NULL) {
        ln(e, ".skipped = s.%s, .max_skips = %lld,", skipped, (long long)max_skips(e));
    }
    if (named) {
        ln(e, ".tensor = s.%s < 0 ? NULL : checked[s.%s].tensor,", bad, bad);
        ln(e, ".op = s.%s < 0 ? NULL : checked[s.%s].op,", bad, bad);
        ln(e, ".line = s.%s < 0 ? %d : checked[s.%s].line,", bad, line, bad);
    } else {
        ln(e, ".line = %d,", line);
    }
    ln_close(e, ";");
    ln_blank(e);
    ln(e, "mpc_step_done(r, &done);");
    ln(e, "vars->samples = 0;");
    if (skipped != NULL) {
        ln(e, "vars->skipped = s.%s;", skipped);
        ln(e, "vars->updates += !s.%s;", skipped);
    }
    for (int i = 0; i < h->nschedulers; i++) {
        const char *own = host_skips(e, h, i) ? host_skip(e, h, g, i) : NULL;
        if (own != NULL) {
            ln(e, "vars->%s_skipped = s.%s;", h->steps[i], own);
            ln(e, "vars->%s_made += !s.%s;", h->steps[i], own);
        }
    }
}

static void call_emit(Emit *e, const HostText *h, const HostStmt *s)
{
    int g = graph_number(e, s->target);
    const GraphPlan *gp = &e->plan->graphs[g];
    const GraphText *t = &h->graphs[g];
    bool update = is_update(e, gp->graph), has_result = gp->nnumbers_out > 0 || t->rate != NULL;
    ln_in(e, "{");
    if (has_result) {
        ln(e, "const struct %s_result s = %s(r, &batch);", t->name, t->name);
        ln_blank(e);
    } else {
        ln(e, "%s(r, &batch);", t->name);
    }
    if (gp->nfields > 0) { /* an update of accumulated gradients has no samples of its own */
        ln(e, "vars->samples += batch.n;");
    }
    for (int i = 0; i < gp->nnumbers_out; i++) {
        for (int v = 0; v < e->m->nvars; v++) {
            if (str_eq(e->m->vars[v].name, gp->numbers_out[i].name)) {
                ln(e, "vars->%s = s.%s;", h->var[v], t->value[i]);
            }
        }
    }
    if (update) {
        step_done(e, h, g, s->loc.line);
    } else if (has_result && gp->nnumbers_out == 0) {
        ln(e, "(void)s;");
    }
    ln_close(e, "");
}

/* ---- statements ------------------------------------------------------------------------------------ */

static void block(Emit *e, HostText *h, const HostBlock *b);

static const char *var_field(const Emit *e, const HostText *h, const char *name)
{
    for (int i = 0; i < e->m->nvars; i++) {
        if (str_eq(e->m->vars[i].name, name)) {
            return h->var[i];
        }
    }
    ICE("the host program has no variable %s", name);
}

/* A negative number stands in parentheses; alone on its side it needs none. */
static void assign_emit(Emit *e, const char *field, const char *value)
{
    size_t n = strlen(value);
    bool wrapped = value[0] == '(' && strchr(value, ')') == value + n - 1;
    ln(e, "vars->%s = %.*s;", field, wrapped ? (int)n - 2 : (int)n, value + wrapped);
}

static void for_emit(Emit *e, HostText *h, const HostStmt *s)
{
    const char *var = arena_printf(e->arena, "vars->%s", var_field(e, h, s->var));
    const char *lo = host_value(e, h, s->expr), *hi = host_value(e, h, s->hi);
    const char *end = host_end(h, s);
    if (s == h->epochs) {
        ln(e, "vars->%s = mpc_epochs(r, %s);", end, hi);
    } else {
        assign_emit(e, end, hi);
    }
    ln_open(e, "for (%s = %s; %s < vars->%s && !mpc_stopping(r); %s++)", var, lo, var, end, var);
    block(e, h, &s->body);
    ln_close(e, "");
}

static bool is_around(const HostText *h, const HostStmt *loop, int place)
{
    for (const HostStmt *s = h->outside[place]; s != NULL; s = h->outside[host_place(h, s) - 1]) {
        if (s == loop) {
            return true;
        }
    }
    return false;
}

/* How a continued run gets from the loop over batches `around` (NULL: from the start) to the place of its
 * checkpoint: by way of the loops in between, which have their batch in hands already. */
static void resume_emit(Emit *e, const HostText *h, const HostStmt *around)
{
    for (int i = 0; i < h->nplaces; i++) {
        if (h->outside[i] != around) {
            continue;
        }
        ln_open(e, "if (r->place == %d)", i + 1);
        ln(e, "r->place = 0;");
        ln(e, "goto resume_%d;", i + 1);
        ln_close(e, "");
        for (int k = i + 1; k < h->nplaces; k++) {
            if (is_around(h, h->places[i], k)) {
                ln_in(e, "if (r->place == %d)", k + 1);
                ln(e, "goto resume_%d;", i + 1);
                ln_out(e);
            }
        }
    }
}

/* --epochs may be another one than that of the run before. */
static void resume_run_emit(Emit *e, const HostText *h)
{
    if (h->nplaces == 0) {
        return;
    }
    ln(e, "/* A run that continues goes to where its checkpoint was made. */");
    if (h->epochs != NULL) {
        ln_in(e, "if (r->place > 0)");
        ln(e, "vars->%s = mpc_epochs(r, %s);", host_end(h, h->epochs),
           host_value(e, h, h->epochs->hi));
        ln_out(e);
    }
    resume_emit(e, h, NULL);
    ln_blank(e);
}

static void batches_emit(Emit *e, HostText *h, const HostStmt *s)
{
    const Decl *d = module_find(e->m, DECL_loader, s->target);
    const char *loader = h->loader[host_loader(h, d)];
    int place = host_place(h, s);
    ln_in(e, "{");
    ln(e, "MpcBatch batch;");
    ln_blank(e);
    ln(e, "mpc_loader_begin(%s, %d);", loader, place);
    e->out->indent--;
    ln(e, "resume_%d:", place);
    e->out->indent++;
    ln_open(e, "while (mpc_loader_next(%s, &batch))", loader);
    resume_emit(e, h, s);
    block(e, h, &s->body);
    ln_close(e, "");
    ln(e, "mpc_loader_end(%s);", loader);
    ln_close(e, "");
}

static void if_emit(Emit *e, HostText *h, const HostStmt *s)
{
    ln_open(e, "if (%s)", host_value(e, h, s->expr));
    block(e, h, &s->body);
    if (s->orelse.n > 0) {
        e->out->indent--;
        ln_open(e, "} else");
        block(e, h, &s->orelse);
    }
    ln_close(e, "");
}

static void log_emit(Emit *e, HostText *h, const HostStmt *s)
{
    if (s->nvars == 0) {
        ln(e, "mpc_log_step(r, NULL, 0);");
        return;
    }
    ln_open(e, "const MpcValue values[] =");
    for (int i = 0; i < s->nvars; i++) {
        ln(e, "{%s, (double)vars->%s},", quoted(e->arena, s->vars[i]), var_field(e, h, s->vars[i]));
    }
    ln_close(e, ";");
    ln_blank(e);
    ln(e, "mpc_log_step(r, values, %d);", s->nvars);
}

static void print_emit(Emit *e, HostText *h, const HostStmt *s)
{
    Text *format = text_new(e->arena), *values = text_new(e->arena);
    for (int i = 0; i < s->nexprs; i++) {
        const HostExpr *x = s->exprs[i];
        const char *value = host_value(e, h, x);
        HostType type = x->type;
        if (i > 0) {
            text_putc(format, ' ');
        }
        text_puts(format, type == HT_int ? "%lld" : type == HT_float ? "%.6g" : "%s");
        text_printf(values,
                    type == HT_int    ? ", (long long)(%s)"
                    : type == HT_bool ? ", (%s) ? \"true\" : \"false\""
                                      : ", %s",
                    value);
    }
    ln(e, "mpc_print(r, \"%s\"%s);", format->n > 0 ? format->at : "%s",
       values->n > 0 ? values->at : ", \"\"");
}

/* Its rate follows a metric: how often it has fallen is what `steps` counts. */
static void plateau_emit(Emit *e, const HostText *h, int i, const char *metric)
{
    ln(e, "vars->%s += mpc_plateau(&vars->%s_state, (const double[]){%s}, %s);", h->steps[i],
       h->steps[i], schedule_arguments(e, h, h->schedulers[i]), metric);
}

static void schedule_emit(Emit *e, HostText *h, const HostStmt *s)
{
    for (int i = 0; i < h->nschedulers; i++) {
        if (!str_eq(h->schedulers[i]->name, s->target)) {
            continue;
        }
        const char *steps = h->steps[i];
        if (s->expr != NULL) {
            plateau_emit(e, h, i, host_value(e, h, s->expr));
            return;
        }
        if (!h->skips || attrs_bool(&h->schedulers[i]->attrs, ATTR_advance_on_skip)) {
            ln(e, "vars->%s++;", steps);
            return;
        }
        /* it waits while every update since its last step was skipped */
        bool own = host_skips(e, h, i);
        const char *skipped = own ? arena_printf(e->arena, "%s_skipped", steps) : "skipped";
        const char *made = own ? arena_printf(e->arena, "%s_made", steps) : "updates";
        ln_open(e, "if (!vars->%s || vars->%s > vars->%s_updates)", skipped, made, steps);
        ln(e, "vars->%s++;", steps);
        ln(e, "vars->%s_updates = vars->%s;", steps, made);
        ln_close(e, "");
        return;
    }
    ICE("no scheduler %s", s->target);
}

static void evaluate_call(Emit *e, HostText *h, const HostStmt *s)
{
    for (int i = 0; i < h->nevaluates; i++) {
        if (h->evaluates[i] == s) {
            ln(e, "%s(r);", h->evaluate[i]);
            return;
        }
    }
    ICE("an evaluate statement is not listed");
}

static void statement(Emit *e, HostText *h, const HostStmt *s)
{
    switch (s->kind) {
    case HS_assign: assign_emit(e, var_field(e, h, s->var), host_value(e, h, s->expr)); return;
    case HS_for: for_emit(e, h, s); return;
    case HS_batches: batches_emit(e, h, s); return;
    case HS_if: if_emit(e, h, s); return;
    case HS_break: ln(e, "break;"); return;
    case HS_continue: ln(e, "continue;"); return;
    case HS_call: call_emit(e, h, s); return;
    case HS_schedule: schedule_emit(e, h, s); return;
    case HS_log:
        ln_in(e, "{");
        log_emit(e, h, s);
        ln_close(e, "");
        return;
    case HS_evaluate: evaluate_call(e, h, s); return;
    case HS_save: ln(e, "mpc_save(r, %s);", host_value(e, h, s->expr)); return;
    case HS_load: ln(e, "mpc_load(r, %s);", host_value(e, h, s->expr)); return;
    case HS_limit: ln(e, "mpc_limit(r, %s);", host_value(e, h, s->expr)); return;
    case HS_print: print_emit(e, h, s); return;
    }
}

/* The line of the loop that a statement stands for; NULL where the C says it as well. */
static const char *source_text(Emit *e, const HostStmt *s)
{
    if (s->loc.line <= 0) {
        return NULL;
    }
    if (s->kind == HS_for) {
        return arena_printf(e->arena, "for %s in %s .. %s", s->var,
                            host_expr_text(e->arena, s->expr), host_expr_text(e->arena, s->hi));
    }
    if (s->kind == HS_batches) {
        return arena_printf(e->arena, "for batch in %s", s->target);
    }
    if (s->kind == HS_evaluate) {
        return arena_printf(e->arena, "evaluate(%s)", s->target);
    }
    return NULL;
}

static void block(Emit *e, HostText *h, const HostBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const HostStmt *s = b->v[i];
        const char *text = source_text(e, s);
        if (text != NULL) {
            ln(e, "/* %d: %s */", s->loc.line, comment_text(e->arena, text));
        }
        statement(e, h, s);
    }
}

/* ---- evaluations ----------------------------------------------------------------------------------- */

/* {.name = "f1", .kind = MPC_METRIC_f1, .average = MPC_AVERAGE_macro, .n = 10} */
static const char *metric_text(Emit *e, const HostMeasure *of)
{
    const char *how = attrs_str(&of->attrs, ATTR_averaged);
    int64_t n = attrs_int(&of->attrs, ATTR_classes, 0);
    return arena_printf(e->arena, "{.name = %s, .kind = MPC_METRIC_%s%s%s%s}",
                        quoted(e->arena, of->key), metric_info[of->metric].name,
                        how != NULL ? ", .average = MPC_AVERAGE_" : "", how != NULL ? how : "",
                        n > 0 ? arena_printf(e->arena, ", .n = %lld", (long long)n) : "");
}

/* What a batch gave for it: a number, or rows. */
static const char *seen_text(Emit *e, const HostText *h, const HostMeasure *of, int g)
{
    const GraphPlan *gp = &e->plan->graphs[g];
    const MetricInfo *info = &metric_info[of->metric];
    const char *first = number_field(e, h, g, of->from[0]);
    if (info->nfrom == 1) {
        return arena_printf(e->arena, "{.number = (double)s.%s}", first);
    }
    const char *rows = NULL;
    for (int i = 0; i < gp->nnumbers_out; i++) {
        if (str_eq(gp->numbers_out[i].name, of->from[0])) {
            rows = product_text(e->arena, gp->graph, &gp->numbers_out[i].buffer->dims);
        }
    }
    return arena_printf(e->arena, "{.row = {s.%s, s.%s}, .rows = %s}", first,
                        number_field(e, h, g, of->from[1]),
                        info->feed == FEED_numbers ? "batch.n" : rows);
}

static void metrics_emit(Emit *e, const HostStmt *s)
{
    int64_t cells = 0;
    ln_open(e, "static const MpcMetric metrics[] =");
    for (int i = 0; i < s->nmeasures; i++) {
        const HostMeasure *of = &s->measures[i];
        ln(e, "%s,", metric_text(e, of));
        cells += metric_cells(of->metric, attrs_int(&of->attrs, ATTR_classes, 0));
    }
    ln_close(e, ";");
    ln(e, "static double cells[%lld];", (long long)cells);
}

static void evaluate_emit(Emit *e, HostText *h, int number)
{
    const HostStmt *s = h->evaluates[number];
    int g = graph_number(e, s->graph);
    const char *loader = h->loader[host_loader(h, s->loader)];
    const Graph *graph = e->plan->graphs[g].graph;
    if (s->loc.line > 0) {
        ln(e, "/* %d: evaluate(%s) */", s->loc.line, comment_text(e->arena, s->target));
    }
    ln(e, "static void %s(MpcRun *r)", h->evaluate[number]);
    ln_in(e, "{");
    metrics_emit(e, s);
    if (s->nvars > 0) {
        ln(e, "struct Vars *vars = r->host;");
    }
    ln(e, "double values[%d];", s->nmeasures);
    ln(e, "MpcBatch batch;");
    ln(e, "MpcEval measured;");
    ln_blank(e);
    ln(e, "mpc_eval_begin(r, &measured, %s, metrics, %d, cells, %s);", quoted(e->arena, s->target),
       s->nmeasures, loader);
    ln_open(e, "while (mpc_loader_next(%s, &batch))", loader);
    ln(e, "const struct %s_result s = %s(r, &batch);", h->graphs[g].name, h->graphs[g].name);
    Text *seen = text_new(e->arena);
    for (int i = 0; i < s->nmeasures; i++) {
        text_printf(seen, "%s%s", i > 0 ? ", " : "", seen_text(e, h, &s->measures[i], g));
    }
    if (graph->nsyms > 0 && text_mentions(seen, graph->syms[0].name)) {
        ln(e, "const int64_t %s = batch.n;", graph->syms[0].name);
    }
    ln(e, "const MpcSeen seen[] = {%s};", seen->at);
    ln_blank(e);
    ln(e, "mpc_eval_add(r, &measured, seen, batch.n);");
    ln_close(e, "");
    ln(e, "mpc_eval_end(r, &measured, %s, values);", loader);
    for (int i = 0; i < s->nvars; i++) {
        ln(e, "vars->%s = values[%d];", var_field(e, h, s->vars[i]), i);
    }
    ln_close(e, "");
    ln_blank(e);
}

/* ---- the whole ------------------------------------------------------------------------------------- */

static const Buffer *tensor_buffer(const Emit *e, const Tensor *t, int *number)
{
    for (int i = 0; i < e->plan->nbuffers; i++) {
        if (e->plan->buffers[i]->tensor == t) {
            *number = i;
            return e->plan->buffers[i];
        }
    }
    ICE("tensor %s has no buffer", t->name);
}

static int working_copies(const Emit *e)
{
    int n = 0;
    for (int i = 0; i < e->m->ntensors; i++) {
        n += e->m->tensors[i]->role == TENSOR_working;
    }
    return n;
}

static void refresh_emit(Emit *e)
{
    if (working_copies(e) == 0) {
        return;
    }
    ln(e, "/* Working copies from their masters, after initialising and loading. */");
    ln(e, "static void refresh(MpcRun *r)");
    ln_in(e, "{");
    ln(e, "unsigned char *const arena = r->arena;");
    ln_blank(e);
    for (int i = 0; i < e->m->ntensors; i++) {
        const Tensor *t = e->m->tensors[i];
        if (t->role != TENSOR_working) {
            continue;
        }
        const Tensor *of = module_find_tensor(e->m, t->of);
        int to, from;
        const Buffer *copy = tensor_buffer(e, t, &to);
        tensor_buffer(e, of, &from);
        const char *a = dtype_info[of->dtype].name, *b = dtype_info[t->dtype].name;
        ln_in(e, "for (int64_t i = 0; i < %s; i++)", product_text(e->arena, NULL, &copy->dims));
        ln(e, "%s(arena)[i] = mpc_%s_to_%s(%s(arena)[i]);", e->buffer[to], a, b, e->buffer[from]);
        ln_out(e);
    }
    ln_close(e, "");
    ln_blank(e);
}

static const char *batch_size(Emit *e, const HostText *h, const Decl *loader)
{
    HostExpr *size = attrs_expr(&loader->attrs, ATTR_batch_size);
    return size != NULL ? host_value(e, h, size)
                        : arena_printf(e->arena, "%lld",
                                       (long long)attrs_int(&loader->attrs, ATTR_bound, 1));
}

static void open_loaders(Emit *e, const HostText *h, bool only_evaluated)
{
    for (int i = 0; i < h->nloaders; i++) {
        bool evaluated = false;
        for (int s = 0; s < h->nevaluates; s++) {
            evaluated |= h->evaluates[s]->loader == h->loaders[i];
        }
        if (evaluated || !only_evaluated) {
            ln(e, "%s = mpc_loader_open(r, %d, %s);", h->loader[i], i,
               batch_size(e, h, h->loaders[i]));
        }
    }
}

static void whole_function(Emit *e, const char *comment, const char *name, Text *body)
{
    ln(e, "/* %s */", comment);
    ln(e, "static void %s(MpcRun *r)", name);
    ln_in(e, "{");
    if (text_mentions(body, "vars")) {
        ln(e, "struct Vars *vars = r->host;");
        ln_blank(e);
    }
    text_puts(e->out, body->at != NULL ? body->at : "");
    if (!text_mentions(body, "r") && !text_mentions(body, "vars")) {
        ln(e, "(void)r;");
    }
    ln_close(e, "");
    ln_blank(e);
}

void hosts_emit(Emit *e, HostText *h)
{
    refresh_emit(e);
    for (int i = 0; i < h->nevaluates; i++) {
        evaluate_emit(e, h, i);
    }
    Text *out = e->out;
    if (h->nevaluates > 0) {
        Text *body = text_new(e->arena);
        body->indent = 1;
        e->out = body;
        open_loaders(e, h, true);
        for (int i = 0; i < h->nevaluates; i++) {
            ln(e, "%s(r);", h->evaluate[i]);
        }
        e->out = out;
        whole_function(e, "Every evaluation once: --eval.", "evaluate", body);
    }
    Text *body = text_new(e->arena);
    body->indent = 1;
    e->out = body;
    open_loaders(e, h, false);
    resume_run_emit(e, h);
    block(e, h, &e->m->host);
    e->out = out;
    whole_function(e, "The program.", "run", body);
}
