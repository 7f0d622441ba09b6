/* host.c: the host program: its variables, the learning rates, evaluations, the loops. Numbers lie in one record
 * that the runtime owns (MpcRun.host); loaders are opened once, when `run` starts. */
#include <string.h>

#include "codegen/program.h"
#include "ir/base/strutil.h"

/* ---- names ----------------------------------------------------------------------------------------- */

Decl **module_decls(Emit *e, DeclKind kind, int *n)
{
    Decl **list = ARENA_ARRAY(e->arena, Decl *, e->m->ndecls + 1);
    *n = 0;
    for (int i = 0; i < e->m->ndecls; i++) {
        if (e->m->decls[i]->kind == kind) {
            list[(*n)++] = e->m->decls[i];
        }
    }
    return list;
}

int host_option(const Emit *e, const char *name)
{
    int n = 0;
    for (int i = 0; i < e->m->ndecls; i++) {
        if (e->m->decls[i]->kind == DECL_option) {
            if (str_eq(e->m->decls[i]->name, name)) {
                return n;
            }
            n++;
        }
    }
    ICE("no option %s", name);
}

int host_loader(const HostText *h, const Decl *loader)
{
    for (int i = 0; i < h->nloaders; i++) {
        if (h->loaders[i] == loader) {
            return i;
        }
    }
    ICE("loader %s is not listed", loader != NULL ? loader->name : "(none)");
}

typedef void Visit(void *ctx, HostStmt *s, HostStmt *loop);

static void walk(const HostBlock *b, HostStmt *loop, Visit *visit, void *ctx)
{
    for (int i = 0; i < b->n; i++) {
        HostStmt *s = b->v[i];
        visit(ctx, s, loop);
        HostStmt *inner = s->kind == HS_batches || s->kind == HS_evaluate ? s : loop;
        walk(&s->body, inner, visit, ctx);
        walk(&s->orelse, inner, visit, ctx);
    }
}

typedef struct Search {
    const Graph *g;
    const Module *m;
    const Decl *found;
} Search;

static void visit_graph(void *ctx, HostStmt *s, HostStmt *loop)
{
    Search *search = ctx;
    if (search->found != NULL) {
        return;
    }
    if (s->kind == HS_evaluate && str_eq(s->graph, search->g->name)) {
        search->found = s->loader;
    } else if (s->kind == HS_call && str_eq(s->target, search->g->name) && loop != NULL) {
        search->found = loop->kind == HS_evaluate
                            ? loop->loader
                            : module_find(search->m, DECL_loader, loop->target);
    }
}

static void visit_prepared(void *ctx, HostStmt *s, HostStmt *loop)
{
    Search *search = ctx;
    (void)loop;
    const Decl *loader = s->kind == HS_evaluate  ? s->loader
                         : s->kind == HS_batches ? module_find(search->m, DECL_loader, s->target)
                                                 : NULL;
    if (loader == NULL || search->found != NULL) {
        return;
    }
    if (loader_prepare(search->m, loader) == search->g) {
        search->found = loader;
    }
}

const Decl *graph_loader(Emit *e, const Graph *g)
{
    Search search = {.g = g, .m = e->m};
    walk(&e->m->host, NULL, g->role == GRAPH_Prepare ? visit_prepared : visit_graph, &search);
    return search.found;
}

int batch_field(Emit *e, const Decl *loader, const char *name)
{
    const Decl *data = module_find(e->m, DECL_data, attrs_str(&loader->attrs, ATTR_dataset));
    const Graph *prepare = loader_prepare(e->m, loader);
    if (prepare != NULL) {
        int n = 0;
        for (int i = 0; i < prepare->nresults; i++) {
            if (prepare->results[i].kind == RESULT_Field) {
                if (str_eq(prepare->results[i].name, name)) {
                    return n;
                }
                n++;
            }
        }
    } else {
        int n;
        FieldDecl *fields = data_fields(e, data, &n);
        for (int i = 0; i < n; i++) {
            if (str_eq(fields[i].name, name)) {
                return i;
            }
        }
    }
    ICE("loader %s gives no field %s", loader->name, name);
}

typedef struct Naming {
    Emit *e;
    HostText *h;
} Naming;

int host_place(const HostText *h, const HostStmt *s)
{
    for (int i = 0; i < h->nplaces; i++) {
        if (h->places[i] == s) {
            return i + 1;
        }
    }
    ICE("a loop over batches is not listed");
}

const char *host_end(const HostText *h, const HostStmt *s)
{
    for (int i = 0; i < h->nfors; i++) {
        if (h->fors[i] == s) {
            return h->end[i];
        }
    }
    ICE("the loop over %s is not listed", s->var);
}

static void visit_names(void *ctx, HostStmt *s, HostStmt *loop)
{
    Naming *n = ctx;
    HostText *h = n->h;
    if (s->kind == HS_for) {
        h->fors[h->nfors++] = s;
    } else if (s->kind == HS_batches) {
        h->outside[h->nplaces] = loop;
        h->places[h->nplaces++] = s;
    }
    if (s->kind == HS_for && loop == NULL) {
        for (int i = 0; h->epochs == NULL && i < s->body.n; i++) {
            h->epochs = s->body.v[i]->kind == HS_batches ? s : NULL;
        }
    }
    if (s->kind != HS_evaluate) {
        return;
    }
    h->evaluates[h->nevaluates] = s;
    h->evaluate[h->nevaluates++] =
        names_take(&n->e->names, arena_printf(n->e->arena, "evaluate_%s", s->target));
    bool known = false;
    for (int i = 0; i < h->nloaders; i++) {
        known |= h->loaders[i] == s->loader;
    }
    if (!known) {
        h->loaders[h->nloaders++] = s->loader;
    }
}

static void count_statement(void *ctx, HostStmt *s, HostStmt *loop)
{
    (void)s;
    (void)loop;
    ++*(int *)ctx;
}

/* Can an update be skipped at all? */
static bool has_skips(const Plan *p)
{
    for (int g = 0; g < p->ngraphs; g++) {
        for (int i = 0; i < p->graphs[g].nnumbers_out; i++) {
            if (str_eq(p->graphs[g].numbers_out[i].name, "step.skipped")) {
                return true;
            }
        }
    }
    return false;
}

static void find_rated(Emit *e, HostText *h)
{
    int noptimizers, ngroups;
    Decl **optimizers = module_decls(e, DECL_optimizer, &noptimizers);
    Decl **groups = module_decls(e, DECL_group, &ngroups);
    h->rated = ARENA_ARRAY(e->arena, Decl *, noptimizers + ngroups + 1);
    for (int i = 0; i < noptimizers; i++) {
        h->rated[h->nrated++] = optimizers[i];
    }
    for (int i = 0; i < ngroups; i++) {
        if (attrs_expr(&groups[i]->attrs, ATTR_base_lr) != NULL) {
            h->rated[h->nrated++] = groups[i];
        }
    }
}

void host_name(Emit *e, HostText *h, const GraphText *graphs)
{
    int statements = 0, noptions;
    walk(&e->m->host, NULL, count_statement, &statements);
    *h = (HostText){.graphs = graphs, .skips = has_skips(e->plan)};
    h->evaluates = ARENA_ARRAY(e->arena, HostStmt *, statements + 1);
    h->evaluate = ARENA_ARRAY(e->arena, const char *, statements + 1);
    h->fors = ARENA_ARRAY(e->arena, HostStmt *, statements + 1);
    h->end = ARENA_ARRAY(e->arena, const char *, statements + 1);
    h->places = ARENA_ARRAY(e->arena, HostStmt *, statements + 1);
    h->outside = ARENA_ARRAY(e->arena, HostStmt *, statements + 1);
    int ndeclared;
    Decl **declared = module_decls(e, DECL_loader, &ndeclared);
    h->loaders = ARENA_ARRAY(e->arena, Decl *, statements + ndeclared + 1);
    memcpy(h->loaders, declared, sizeof(Decl *) * (size_t)ndeclared);
    h->nloaders = h->ndeclared = ndeclared;
    walk(&e->m->host, NULL, visit_names, &(Naming){e, h});
    h->loader = ARENA_ARRAY(e->arena, const char *, h->nloaders + 1);
    for (int i = 0; i < h->nloaders; i++) {
        const char *name = h->loaders[i]->name;
        if (name == NULL || name[0] == 0) {
            name = attrs_str(&h->loaders[i]->attrs, ATTR_dataset);
        }
        h->loader[i] = names_take(
            &e->names, str_ends(name, "loader") ? name : arena_printf(e->arena, "%s_loader", name));
    }
    Decl **options = module_decls(e, DECL_option, &noptions);
    h->option = ARENA_ARRAY(e->arena, const char *, noptions + 1);
    for (int i = 0; i < noptions; i++) {
        h->option[i] = names_take(&e->names, arena_printf(e->arena, "option_%s", options[i]->name));
    }
    Names fields = names_new(e->arena, NULL, true);
    static const char *const own[] = {"samples", "updates", "skipped"};
    for (int i = 0; i < 3; i++) {
        names_reserve(&fields, own[i]);
    }
    h->var = ARENA_ARRAY(e->arena, const char *, e->m->nvars + 1);
    for (int i = 0; i < e->m->nvars; i++) {
        h->var[i] = names_take(&fields, e->m->vars[i].name);
    }
    for (int i = 0; i < h->nfors; i++) {
        h->end[i] = names_take(&fields, arena_printf(e->arena, "%s_end", h->fors[i]->var));
    }
    h->schedulers = module_decls(e, DECL_scheduler, &h->nschedulers);
    h->steps = ARENA_ARRAY(e->arena, const char *, h->nschedulers + 1);
    for (int i = 0; i < h->nschedulers; i++) {
        h->steps[i] =
            names_take(&fields, arena_printf(e->arena, "%s_steps", h->schedulers[i]->name));
    }
    find_rated(e, h);
    h->rates = ARENA_ARRAY(e->arena, const char *, h->nrated + 1);
    for (int i = 0; i < h->nrated; i++) {
        h->rates[i] = names_take(&e->names, arena_printf(e->arena, "%s_rate", h->rated[i]->name));
    }
}

/* ---- declarations ---------------------------------------------------------------------------------- */

typedef struct Schedule {
    const char *name;
    const char *args[10];
    double defaults[10];
} Schedule;

#define SCHEDULE_LIST(...)                                                                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define NAN (0.0 / 0.0)
static const Schedule schedules[] = {
#define SCHEDULE(name, args, defaults, torch) {#name, SCHEDULE_LIST args, SCHEDULE_LIST defaults},
#include "runtime/abi/schedules.def"
};

static const Schedule *find_schedule(const char *name)
{
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        if (str_eq(schedules[i].name, name)) {
            return &schedules[i];
        }
    }
    ICE("no schedule is called %s", name);
}

/* `milestones` of the table stands for their number and then each, as the declaration lists them. */
static void milestones_emit(Emit *e, const HostText *h, const Decl *d, const Attr *names, Text *t)
{
    Text *all = text_new(e->arena);
    int n = 0;
    for (int k = 0; names != NULL && k < names->strs.n && k < d->nvalues; k++) {
        if (strncmp(names->strs.v[k], "milestone_", 10) == 0) {
            text_printf(all, ", (double)(%s)", host_value(e, h, d->values[k]));
            n++;
        }
    }
    text_printf(t, "%d%s", n, n > 0 ? all->at : "");
}

/* All arguments of a schedule, in the order of the table. */
const char *schedule_arguments(Emit *e, const HostText *h, const Decl *d)
{
    const Schedule *s = find_schedule(attrs_str(&d->attrs, ATTR_kind));
    Text *t = text_new(e->arena);
    const Attr *names = attrs_find(&d->attrs, ATTR_args);
    for (int i = 0; s->args[i] != NULL; i++) {
        text_printf(t, "%s", i > 0 ? ", " : "");
        if (str_eq(s->args[i], "milestones")) {
            milestones_emit(e, h, d, names, t);
            continue;
        }
        const char *value = number_text(e->arena, DT_f64, s->defaults[i]);
        for (int k = 0; names != NULL && k < names->strs.n && k < d->nvalues; k++) {
            if (str_eq(names->strs.v[k], s->args[i])) {
                const HostExpr *x = d->values[k];
                value = arena_printf(e->arena, x->type == HT_float ? "%s" : "(double)(%s)",
                                     host_value(e, h, x));
            }
        }
        text_printf(t, "%s", value);
    }
    return t->at;
}

const char *host_skip(Emit *e, const HostText *h, int graph, int scheduler)
{
    const GraphPlan *gp = &e->plan->graphs[graph];
    const char *optimizer = attrs_str(&h->schedulers[scheduler]->attrs, ATTR_optimizer);
    for (int i = 0; i < gp->nnumbers_out; i++) {
        const char *name = gp->numbers_out[i].name;
        if (str_starts(name, "step.skipped.") && str_eq(name + 13, optimizer)) {
            return h->graphs[graph].value[i];
        }
    }
    return NULL;
}

bool host_skips(Emit *e, const HostText *h, int scheduler)
{
    bool any = false;
    for (int g = 0; g < e->plan->ngraphs && h->skips; g++) {
        any = any || host_skip(e, h, g, scheduler) != NULL;
    }
    return any && !host_plateau(h, scheduler);
}

bool host_plateau(const HostText *h, int scheduler)
{
    return str_eq(attrs_str(&h->schedulers[scheduler]->attrs, ATTR_kind), "plateau");
}

static void rate_emit(Emit *e, const HostText *h, int rated)
{
    const Decl *o = h->rated[rated];
    const char *of =
        attrs_str(&o->attrs, ATTR_optimizer); /* a group follows its optimizer's schedule */
    of = of != NULL ? of : o->name;
    Text *out = e->out, *body = text_new(e->arena);
    body->indent = 1;
    e->out = body;
    HostExpr *base = attrs_expr(&o->attrs, ATTR_base_lr);
    ln(e, "double rate = %s;", base != NULL ? host_value(e, h, base) : "0");
    ln_blank(e);
    for (int i = 0; i < h->nschedulers; i++) {
        const Decl *d = h->schedulers[i];
        if (!str_eq(attrs_str(&d->attrs, ATTR_optimizer), of)) {
            continue;
        }
        const char *kind = attrs_str(&d->attrs, ATTR_kind);
        ln(e, "rate = mpc_schedule(MPC_SCHEDULE_%s, rate, (const double[]){%s}, vars->%s);", kind,
           schedule_arguments(e, h, d), h->steps[i]);
    }
    ln(e, "return rate;");
    e->out = out;
    if (o->loc.line > 0) {
        ln(e, "/* %d: learning rate of %s */", o->loc.line, comment_text(e->arena, o->name));
    }
    ln(e, "static double %s(const MpcRun *r)", h->rates[rated]);
    ln_in(e, "{");
    if (text_mentions(body, "vars")) {
        ln(e, "const struct Vars *vars = r->host;");
    } else if (!text_mentions(body, "r")) {
        ln(e, "(void)r;");
    }
    text_puts(out, body->at);
    ln_close(e, "");
    ln_blank(e);
}

static bool uses_rate(const Emit *e, const char *rated)
{
    for (int g = 0; g < e->plan->ngraphs; g++) {
        for (int i = 0; i < e->plan->graphs[g].nnumbers_in; i++) {
            if (e->plan->graphs[g].numbers_in[i].expr == NULL &&
                str_eq(e->plan->graphs[g].numbers_in[i].optimizer, rated)) {
                return true;
            }
        }
    }
    return false;
}

void host_declare(Emit *e, const HostText *h)
{
    static const char *const ctype[] = {
        [HT_int] = "int64_t", [HT_float] = "double", [HT_bool] = "bool", [HT_str] = "const char *"};
    int noptions;
    Decl **options = module_decls(e, DECL_option, &noptions);
    if (noptions > 0) {
        ln_open(e, "enum");
        for (int i = 0; i < noptions; i++) {
            ln(e, "%s,", h->option[i]);
        }
        ln_close(e, ";");
        ln_blank(e);
    }
    (void)options;
    ln(e, "/* Variables of the loop; a checkpoint keeps them. */");
    ln_open(e, "struct Vars");
    for (int i = 0; i < e->m->nvars; i++) {
        const char *type = ctype[e->m->vars[i].type];
        ln(e, "%s%s%s;", type, str_ends(type, "*") ? "" : " ", h->var[i]);
    }
    for (int i = 0; i < h->nfors; i++) {
        ln(e, "int64_t %s;", h->end[i]);
    }
    for (int i = 0; i < h->nschedulers; i++) {
        ln(e, "int64_t %s; /* of the schedule */", h->steps[i]);
        if (host_plateau(h, i)) {
            ln(e, "MpcPlateau %s_state;", h->steps[i]);
            continue;
        }
        if (h->skips) {
            ln(e, "int64_t %s_updates; /* made when it took its last step */", h->steps[i]);
        }
        if (host_skips(e, h, i)) {
            ln(e, "int64_t %s_made; /* updates of its optimizer */", h->steps[i]);
            ln(e, "bool %s_skipped; /* the last one */", h->steps[i]);
        }
    }
    ln(e, "int64_t samples; /* since the last update */");
    if (h->skips) {
        ln(e, "int64_t updates; /* that were made */");
        ln(e, "bool skipped;    /* the last one */");
    }
    ln_close(e, ";");
    ln_blank(e);
    if (h->nloaders > 0) {
        for (int i = 0; i < h->nloaders; i++) {
            ln(e, "static MpcLoader *%s;", h->loader[i]);
        }
        ln_blank(e);
    }
    for (int i = 0; i < h->nrated; i++) {
        if (uses_rate(e, h->rated[i]->name)) {
            rate_emit(e, h, i);
        }
    }
}
