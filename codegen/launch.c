/* launch.c: a function for each graph: numbers in, launches in order, numbers out.
 *
 * Each launch is one parallel region; one whose calls are small runs on the calling thread. Prepare graphs run on
 * the loader's thread, tile after tile. */
#include <string.h>

#include "codegen/program.h"
#include "codegen/unit.h"
#include "ir/base/strutil.h"

enum { SERIAL_WORK = 16384 }; /* simple operations below which waking a thread does not pay */

/* The number of the learning rate that the log shows: the optimizer's rather than one of its groups'; -1: none. */
static int shown_rate(const Emit *e, const GraphPlan *gp)
{
    int shown = -1;
    for (int i = gp->nnumbers_in - 1; i >= 0; i--) {
        const char *of = gp->numbers_in[i].expr == NULL ? gp->numbers_in[i].optimizer : NULL;
        bool whole = of != NULL && module_find(e->m, DECL_optimizer, of) != NULL;
        shown = of != NULL && (whole || shown < 0) ? i : shown;
    }
    return shown;
}

/* Of an optimizer, not of one of its groups. */
static bool is_rate(const Emit *e, const GraphPlan *gp, int i)
{
    return gp->numbers_in[i].expr == NULL && gp->numbers_in[i].optimizer != NULL &&
           module_find(e->m, DECL_optimizer, gp->numbers_in[i].optimizer) != NULL;
}

static const char **rates_name(Emit *e, const GraphPlan *gp, Names *fields)
{
    const char **rates = ARENA_ARRAY(e->arena, const char *, gp->nnumbers_in + 1);
    int optimizers;
    module_decls(e, DECL_optimizer, &optimizers);
    for (int i = 0; i < gp->nnumbers_in && optimizers > 1; i++) {
        if (is_rate(e, gp, i)) {
            rates[i] =
                names_take(fields, arena_printf(e->arena, "lr_%s", gp->numbers_in[i].optimizer));
        }
    }
    return rates;
}

GraphText *graphs_name(Emit *e)
{
    const Plan *p = e->plan;
    GraphText *texts = ARENA_ARRAY(e->arena, GraphText, p->ngraphs + 1);
    for (int g = 0; g < p->ngraphs; g++) {
        const GraphPlan *gp = &p->graphs[g];
        Names fields = names_new(e->arena, NULL, true);
        texts[g].name = names_take(&e->names, gp->graph->name);
        texts[g].value = ARENA_ARRAY(e->arena, const char *, gp->nnumbers_out + 1);
        for (int i = 0; i < gp->nnumbers_out; i++) {
            const char *name = gp->numbers_out[i].name;
            name = str_starts(name, "step.") ? name + 5 : name;
            texts[g].value[i] = names_take(&fields, name);
        }
        texts[g].rate = shown_rate(e, gp) >= 0 ? names_take(&fields, "lr") : NULL;
        texts[g].rates = rates_name(e, gp, &fields);
    }
    return texts;
}

static const char *number_type(DType dt)
{
    return dt == DT_bool ? "bool" : dtype_info[dt].is_int ? "int64_t" : "double";
}

/* Of a field of the result: a number, or where the elements of a tensor are. */
static const char *result_type(Emit *e, const Buffer *b)
{
    return b->dims.rank > 0 ? arena_printf(e->arena, "const %s *", memory_ctype(b->dtype))
                            : arena_printf(e->arena, "%s ", number_type(b->dtype));
}

static bool has_result(const GraphPlan *gp, const GraphText *t)
{
    bool any = t->rate != NULL;
    for (int i = 0; i < gp->nnumbers_out; i++) {
        any |= !gp->numbers_out[i].printed;
    }
    return any;
}

static const Buffer *printed_buffer(const GraphPlan *gp, const char *name)
{
    for (int i = 0; i < gp->nnumbers_out; i++) {
        if (gp->numbers_out[i].printed && str_eq(gp->numbers_out[i].name, name)) {
            return gp->numbers_out[i].buffer;
        }
    }
    ICE("graph %s: %s is printed and not there", gp->graph->name, name);
}

static void result_struct(Emit *e, const GraphPlan *gp, const GraphText *t)
{
    ln_open(e, "struct %s_result", t->name);
    for (int i = 0; i < gp->nnumbers_out; i++) {
        if (gp->numbers_out[i].printed) {
            continue;
        }
        ln(e, "%s%s;", result_type(e, gp->numbers_out[i].buffer), t->value[i]);
    }
    if (t->rate != NULL) {
        ln(e, "double %s; /* learning rate */", t->rate);
    }
    for (int i = 0; i < gp->nnumbers_in; i++) {
        if (t->rates[i] != NULL) {
            ln(e, "double %s;", t->rates[i]);
        }
    }
    ln_close(e, ";");
    ln_blank(e);
}

/* ---- one call -------------------------------------------------------------------------------------- */

/* "{.x = x(arena), .B = B}" */
static const char *arguments(Emit *e, const GraphPlan *gp, const Unit *u, const KCall *call)
{
    Text *t = text_new(e->arena);
    const char *sep = "";
    text_putc(t, '{');
    for (int i = 0; i < u->k.noperands; i++) {
        if (u->ever_pointer[i]) {
            text_printf(t, "%s.%s = %s", sep, u->pointer[i], buffer_place(e, gp, call->buffers[i]));
            sep = ", ";
        }
    }
    for (int i = 1; i <= MAX_SYMS; i++) {
        if (u->ever_sym[i]) {
            text_printf(t, "%s.%s = %s", sep, u->graph->syms[i - 1].name,
                        gp->graph->syms[i - 1].name);
            sep = ", ";
        }
    }
    if (u->ever_n) {
        const Dims *n = u->k.kind == KERNEL_Scatter ? &call->buffers[1]->dims : &call->space;
        text_printf(t, "%s.n = %s", sep, n->rank > 0 ? product_text(e->arena, gp->graph, n) : "1");
        sep = ", ";
    }
    if (u->ever_seed) {
        text_printf(t, "%s.seed = %s->seed", sep, gp->graph->role == GRAPH_Prepare ? "p" : "r");
    }
    text_putc(t, '}');
    return t->at;
}

static void call_comment(Emit *e, const KCall *call, int number)
{
    const char *what = call->what != NULL ? call->what : call->kernel->name;
    if (call->loc.line > 0) {
        what = arena_printf(e->arena, "line %s: %s", line_text(e->arena, e->m, call->loc), what);
        ln(e, "/* %d, %s */", number, comment_text(e->arena, what));
    } else {
        ln(e, "/* %d: %s */", number, comment_text(e->arena, what));
    }
}

static bool is_small(Emit *e, const GraphPlan *gp, const Launch *launch)
{
    double work = 0;
    for (int c = 0; c < launch->ncalls; c++) {
        work += unit_work(&e->units[launch->calls[c].kernel->id], &launch->calls[c], gp->graph);
    }
    return work <= SERIAL_WORK;
}

static void declare_arguments(Emit *e, const GraphPlan *gp, const Unit *u, const KCall *call,
                              const char *name)
{
    const char *values = arguments(e, gp, u, call);
    const char *brace = strstr(values, ", ");
    if (strlen(values) + strlen(u->name) < 68 || brace == NULL) {
        ln(e, "const struct %s %s = %s;", u->name, name, values);
        return;
    }
    ln_open(e, "const struct %s %s =", u->name, name);
    for (const char *at = values + 1; at != NULL && *at != '}';) {
        const char *end = strstr(at, ", ");
        size_t n = end != NULL ? (size_t)(end - at) : strlen(at) - 1;
        ln(e, "%.*s,", (int)n, at);
        at = end != NULL ? end + 2 : NULL;
    }
    ln_close(e, ";");
}

/* A region over calls; those of contractions that pack come first, in a region of their own. */
static void region(Emit *e, const GraphPlan *gp, const Launch *launch, bool pack)
{
    int n = 0;
    Text *t = text_new(e->arena);
    const char *only = NULL;
    for (int c = 0; c < launch->ncalls; c++) {
        const KCall *call = &launch->calls[c];
        const Unit *u = &e->units[call->kernel->id];
        if (pack && !unit_packs(u)) {
            continue;
        }
        int64_t most;
        const char *tiles = unit_tiles(e, u, call, gp->graph, pack, &most);
        only = arena_printf(e->arena, "%s, &%s, %s", pack ? u->pack_name : u->name,
                            launch->ncalls > 1 ? arena_printf(e->arena, "c%d", c) : "c", tiles);
        text_printf(t, "%s{%s}", n > 0 ? "\n" : "", only);
        n++;
    }
    if (n == 0) {
        return;
    }
    if (n == 1) {
        ln(e, "mpc_run(r, %s);", only);
        return;
    }
    const char *name = pack ? "packs" : "calls";
    ln_open(e, "const MpcCall %s[] =", name);
    for (const char *at = t->at; at != NULL;) {
        const char *end = strchr(at, '\n');
        ln(e, "%.*s,", (int)(end != NULL ? (size_t)(end - at) : strlen(at)), at);
        at = end != NULL ? end + 1 : NULL;
    }
    ln_close(e, ";");
    ln_blank(e);
    ln(e, "mpc_run_many(r, %s, %d);", name, n);
}

static void serial(Emit *e, const GraphPlan *gp, const Launch *launch)
{
    bool prepares = gp->graph->role == GRAPH_Prepare;
    for (int c = 0; c < launch->ncalls; c++) {
        const KCall *call = &launch->calls[c];
        const Unit *u = &e->units[call->kernel->id];
        const char *name = launch->ncalls > 1 ? arena_printf(e->arena, "c%d", c) : "c";
        for (int pack = unit_packs(u); pack >= 0; pack--) {
            int64_t most;
            const char *tiles = unit_tiles(e, u, call, gp->graph, pack == 1, &most);
            ln(e, prepares ? "mpc_here(&w, %s, &%s, %s);" : "mpc_run(r, %s, &%s, %s);",
               pack == 1 ? u->pack_name : u->name, name, tiles);
        }
    }
}

static void launch_emit(Emit *e, const GraphPlan *gp, int number)
{
    const Launch *launch = &gp->launches[number];
    bool one_by_one = gp->graph->role == GRAPH_Prepare || is_small(e, gp, launch);
    for (int c = 0; c < launch->ncalls; c++) {
        call_comment(e, &launch->calls[c], number);
    }
    ln_in(e, "{");
    for (int c = 0; c < launch->ncalls; c++) {
        const KCall *call = &launch->calls[c];
        const char *name = launch->ncalls > 1 ? arena_printf(e->arena, "c%d", c) : "c";
        declare_arguments(e, gp, &e->units[call->kernel->id], call, name);
    }
    ln_blank(e);
    if (one_by_one) {
        serial(e, gp, launch);
    } else {
        region(e, gp, launch, true);
        region(e, gp, launch, false);
    }
    ln_close(e, "");
    ln_blank(e);
}

/* ---- one graph ------------------------------------------------------------------------------------- */

static void numbers_in(Emit *e, const HostText *h, const GraphPlan *gp, const GraphText *t)
{
    bool any = false;
    for (int i = 0; i < gp->nnumbers_in; i++) {
        const Buffer *b = gp->numbers_in[i].buffer;
        const char *value = NULL;
        if (gp->numbers_in[i].expr != NULL) {
            value = host_value(e, h, gp->numbers_in[i].expr);
        } else {
            for (int o = 0; o < h->nrated; o++) {
                if (str_eq(h->rated[o]->name, gp->numbers_in[i].optimizer)) {
                    value = arena_printf(e->arena, "%s(r)", h->rates[o]);
                }
            }
            if (value == NULL) {
                ICE("graph %s: no optimizer %s", gp->graph->name, gp->numbers_in[i].optimizer);
            }
            if (i == shown_rate(e, gp)) {
                ln(e, "result.%s = %s;", t->rate, value);
                value = arena_printf(e->arena, "result.%s", t->rate);
            }
            if (t->rates[i] != NULL) {
                ln(e, "result.%s = %s;", t->rates[i], value);
            }
        }
        const char *bits =
            dtype_is_low(b->dtype)
                ? arena_printf(e->arena, "mpc_f64_to_%s(%s)", dtype_info[b->dtype].name, value)
                : arena_printf(e->arena, "(%s)(%s)", memory_ctype(b->dtype), value);
        ln(e, "*%s = %s;", buffer_mirror(e, b), bits);
        any = true;
    }
    if (any) {
        ln_blank(e);
    }
}

/* The line of a print(...): its parts as a table. */
static void print_emit(Emit *e, const GraphPlan *gp, const Print *p)
{
    ln_in(e, "{");
    ln_open(e, "const MpcShown shown[] =");
    for (int i = 0; i < p->nparts; i++) {
        const PrintPart *part = &p->parts[i];
        const Buffer *b = part->result != NULL ? printed_buffer(gp, part->result) : NULL;
        const Dims *d = b != NULL ? &b->dims : &part->dims;
        if (part->text != NULL) {
            ln(e, "{.text = %s},", quoted(e->arena, part->text));
            continue;
        }
        Text *t = text_new(e->arena);
        text_puts(t, b == NULL && part->bare ? "{.bare = true, " : "{");
        if (b != NULL) {
            text_printf(t, ".data = %s, .dtype = MPC_DT_%s, ", buffer_mirror(e, b),
                        dtype_info[b->dtype].name);
        }
        text_printf(t, ".rank = %d", d->rank);
        for (int k = 0; k < d->rank; k++) {
            text_printf(t, "%s%s", k == 0 ? ", .dims = {" : ", ",
                        dim_text(e->arena, gp->graph, d->d[k]));
        }
        ln(e, "%s%s},", t->at, d->rank > 0 ? "}" : "");
    }
    ln_close(e, ";");
    ln_blank(e);
    ln(e, "mpc_show(r, shown, %d);", p->nparts);
    ln_close(e, "");
}

static void numbers_out(Emit *e, const GraphPlan *gp, const GraphText *t)
{
    for (int i = 0; i < gp->graph->nprints; i++) {
        print_emit(e, gp, &gp->graph->prints[i]);
    }
    for (int i = 0; i < gp->nnumbers_out; i++) {
        const Buffer *b = gp->numbers_out[i].buffer;
        if (gp->numbers_out[i].printed) {
            continue;
        }
        if (b->dims.rank > 0) {
            ln(e, "result.%s = %s;", t->value[i], buffer_mirror(e, b));
            continue;
        }
        const char *at = arena_printf(e->arena, "*%s", buffer_mirror(e, b));
        if (dtype_is_low(b->dtype)) {
            at = arena_printf(e->arena, "mpc_%s_to_f32(%s)", dtype_info[b->dtype].name, at);
        }
        ln(e, "result.%s = (%s)%s;", t->value[i], number_type(b->dtype), at);
    }
    if (has_result(gp, t)) {
        ln(e, "return result;");
    }
}

/* A GPU may replay them. */
static void launches(Emit *e, const GraphPlan *gp)
{
    int number = (int)(gp - e->plan->graphs);
    bool replays = e->opt->gpu && gp->graph->role != GRAPH_Prepare;
    if (replays) {
        ln_open(e, "if (mpc_graph_begin(r, %d, batch))", number);
    }
    for (int l = 0; l < gp->nlaunches; l++) {
        launch_emit(e, gp, l);
    }
    if (replays) {
        ln(e, "mpc_graph_end(r, %d);", number);
        ln_close(e, "");
    }
}

static void graph_emit(Emit *e, const HostText *h, const GraphPlan *gp, const GraphText *t)
{
    const Graph *g = gp->graph;
    bool prepares = g->role == GRAPH_Prepare;
    Text *out = e->out, *body = text_new(e->arena);
    body->indent = 1;
    e->out = body;
    numbers_in(e, h, gp, t);
    launches(e, gp);
    numbers_out(e, gp, t);
    if (body->n > 1 && body->at[body->n - 1] == '\n' && body->at[body->n - 2] == '\n') {
        body->at[--body->n] = 0;
    }
    e->out = out;
    if (has_result(gp, t)) {
        result_struct(e, gp, t);
    }
    if (g->loc.line > 0) {
        ln(e, "/* %d: %s: %d launches, %s, %s */", g->loc.line, t->name, gp->nlaunches,
           size_text(e->arena, gp->flops, "FLOP"), size_text(e->arena, gp->bytes, "B"));
    } else {
        ln(e, "/* %s: %d launches */", t->name, gp->nlaunches);
    }
    if (prepares) {
        ln(e, "static void %s(const MpcPrepare *p)", t->name);
    } else {
        ln(e, "static %s%s%s %s(MpcRun *r, const MpcBatch *batch)",
           has_result(gp, t) ? "struct " : "", has_result(gp, t) ? t->name : "void",
           has_result(gp, t) ? "_result" : "", t->name);
    }
    ln_in(e, "{");
    if (text_mentions(body, "arena")) {
        ln(e, prepares ? "unsigned char *const arena = p->scratch;"
                       : "unsigned char *const arena = r->arena;");
    }
    if (text_mentions(body, "mirror")) {
        ln(e, "unsigned char *const mirror = r->mirror;");
    }
    if (prepares && text_mentions(body, "w")) {
        ln(e, "const MpcWorker w = {0, (unsigned char *)p->scratch + %lld};",
           (long long)e->plan->prepare_bytes);
    }
    if (text_mentions(body, "vars")) {
        ln(e, "const struct Vars *vars = r->host;");
    }
    bool uses_size = g->nsyms > 0 && text_mentions(body, g->syms[0].name);
    if (uses_size) {
        ln(e, "const int64_t %s = %s->n;", g->syms[0].name, prepares ? "p" : "batch");
    }
    if (has_result(gp, t)) {
        ln(e, "struct %s_result result = {0};", t->name);
    }
    if (!prepares && !text_mentions(body, "batch") && !uses_size) {
        ln(e, "(void)batch;");
    }
    if (!text_mentions(body, "r") && !text_mentions(body, "arena") &&
        !text_mentions(body, "vars")) {
        ln(e, prepares ? "(void)p;" : "(void)r;");
    }
    ln_blank(e);
    text_puts(out, body->at != NULL ? body->at : "");
    ln_close(e, "");
    ln_blank(e);
}

void graphs_emit(Emit *e, const HostText *h)
{
    for (int g = 0; g < e->plan->ngraphs; g++) {
        graph_emit(e, h, &e->plan->graphs[g], &h->graphs[g]);
    }
}
