/* data_tables.c: the data sets of a program, their parts, what their labels may be, and the loaders. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/program.h"
#include "ir/base/strutil.h"

static bool is_part(const Decl *d)
{
    return attrs_str(&d->attrs, ATTR_of) != NULL;
}

const Decl *data_source(Emit *e, const Decl *d)
{
    for (int depth = 0; d != NULL && is_part(d) && depth < 100; depth++) {
        d = module_find(e->m, DECL_data, attrs_str(&d->attrs, ATTR_of));
    }
    if (d == NULL) {
        ICE("a data set is part of one that does not exist");
    }
    return d;
}

int data_set_number(Emit *e, const char *name)
{
    int n;
    Decl **sets = module_decls(e, DECL_data, &n);
    for (int i = 0; i < n; i++) {
        if (str_eq(sets[i]->name, name)) {
            return i;
        }
    }
    ICE("no data set %s", name);
}

static FieldDecl parse_field(Emit *e, const char *text)
{
    FieldDecl f = {0};
    size_t n;
    if (!field_of_text(text, &n, &f.dtype, &f.dims)) {
        ICE("%s is no field", text);
    }
    f.name = arena_strndup(e->arena, text, n);
    return f;
}

FieldDecl *data_fields(Emit *e, const Decl *data, int *n)
{
    const Attr *fields = attrs_find(&data_source(e, data)->attrs, ATTR_fields);
    *n = fields != NULL ? fields->strs.n : 0;
    FieldDecl *list = ARENA_ARRAY(e->arena, FieldDecl, *n + 1);
    for (int i = 0; i < *n; i++) {
        list[i] = parse_field(e, fields->strs.v[i]);
    }
    return list;
}

static const char *dims_list(Emit *e, const Dims *d)
{
    Text *t = text_new(e->arena);
    for (int i = 0; i < d->rank; i++) {
        text_printf(t, "%s%lld", i > 0 ? ", " : "", (long long)d->d[i].k);
    }
    return t->n > 0 ? t->at : "0";
}

static void field_row(Emit *e, const FieldDecl *f, const char *columns)
{
    ln(e, "{.name = %s, .dtype = MPC_DT_%s, .rank = %d, .dims = {%s}%s},",
       quoted(e->arena, f->name), dtype_info[f->dtype].name, f->dims.rank, dims_list(e, &f->dims),
       columns);
}

/* Columns of field f: an array of its own, where the file names any. */
static const char *columns_emit(Emit *e, const Decl *d, int number, int f)
{
    const Attr *columns = attrs_find(&d->attrs, ATTR_columns);
    const char *text = columns != NULL && f < columns->strs.n ? columns->strs.v[f] : "";
    if (text[0] == 0) {
        return "";
    }
    const char *name = arena_printf(e->arena, "data%d_columns%d", number, f);
    Text *rows = text_new(e->arena);
    int n = 0;
    for (const char *at = text; *at != 0; n++) { /* one a line: "name" or "first..last" */
        size_t len = strcspn(at, "\n");
        const char *one = arena_strndup(e->arena, at, len);
        const char *dots = strstr(one, "..");
        const char *first = dots != NULL ? arena_strndup(e->arena, one, (size_t)(dots - one)) : one;
        text_printf(rows, "%s{%s, %s}", n > 0 ? ", " : "", quoted(e->arena, first),
                    quoted(e->arena, dots != NULL ? dots + 2 : NULL));
        at += len + (at[len] != 0);
    }
    ln(e, "static const MpcColumns %s[] = {%s};", name, rows->at);
    return arena_printf(e->arena, ", .columns = %s, .n_columns = %d", name, n);
}

static void source_emit(Emit *e, const Decl *d, int number)
{
    const Attr *files = attrs_find(&d->attrs, ATTR_files);
    int n;
    FieldDecl *fields = data_fields(e, d, &n);
    const char **columns = ARENA_ARRAY(e->arena, const char *, n + 1);
    for (int f = 0; f < n; f++) {
        columns[f] = columns_emit(e, d, number, f);
    }
    ln_open(e, "static const char *const data%d_paths[] =", number);
    for (int i = 0; files != NULL && i < files->strs.n; i++) {
        ln(e, "%s,", quoted(e->arena, files->strs.v[i]));
    }
    ln_close(e, ";");
    ln_open(e, "static const MpcField data%d_fields[] =", number);
    for (int f = 0; f < n; f++) {
        field_row(e, &fields[f], columns[f]);
    }
    ln_close(e, ";");
    ln_blank(e);
}

static void sources_emit(Emit *e, Decl **sets, int n, int *source)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (!is_part(sets[i])) {
            source_emit(e, sets[i], count);
            source[i] = count++;
        }
    }
    ln_open(e, "static const MpcData data[] =");
    for (int i = 0; i < n; i++) {
        if (is_part(sets[i])) {
            continue;
        }
        int fields;
        data_fields(e, sets[i], &fields);
        const Attr *files = attrs_find(&sets[i]->attrs, ATTR_files);
        ln(e,
           "{%s, MPC_DATA_%s, .paths = data%d_paths, .n_paths = %d, .fields = data%d_fields, "
           ".n_fields = %d, "
           ".line = %d},",
           quoted(e->arena, sets[i]->name), attrs_str(&sets[i]->attrs, ATTR_kind), source[i],
           files != NULL ? files->strs.n : 0, source[i], fields, sets[i]->loc.line);
    }
    ln_close(e, ";");
    ln_blank(e);
}

static void sets_emit(Emit *e, Decl **sets, int n, const int *source)
{
    ln_open(e, "static const MpcSet sets[] =");
    for (int i = 0; i < n; i++) {
        const Attrs *as = &sets[i]->attrs;
        if (!is_part(sets[i])) {
            ln(e, "{.name = %s, .data = %d, .parent = -1, .begin = 0, .end = 1},",
               quoted(e->arena, sets[i]->name), source[i]);
            continue;
        }
        char begin[32], end[32];
        double share = attrs_float(as, ATTR_fraction, 0);
        bool first = str_eq(attrs_str(as, ATTR_part), "validation");
        str_double(begin, first ? 0 : share);
        str_double(end, first ? share : 1);
        int data = source[data_set_number(e, data_source(e, sets[i])->name)];
        ln(e, "{.name = %s, .data = %d, .parent = %d, .begin = %s, .end = %s, .seed = %lld},",
           quoted(e->arena, sets[i]->name), data, data_set_number(e, attrs_str(as, ATTR_of)), begin,
           end, (long long)attrs_int(as, ATTR_split_seed, 0));
    }
    ln_close(e, ";");
    ln_blank(e);
}

/* ---- loaders --------------------------------------------------------------------------------------- */

static bool is_training(Emit *e, const Decl *loader)
{
    for (int g = 0; g < e->plan->ngraphs; g++) {
        const Graph *graph = e->plan->graphs[g].graph;
        if (graph->role == GRAPH_Step && graph_loader(e, graph) == loader) {
            return true;
        }
    }
    return false;
}

static const char *prepared_fields(Emit *e, const Graph *g, int loader, int *count)
{
    *count = 0;
    if (g == NULL) {
        return NULL;
    }
    const char *name = arena_printf(e->arena, "loader%d_out", loader);
    ln_open(e, "static const MpcField %s[] =", name);
    for (int i = 0; i < g->nresults; i++) {
        const Result *r = &g->results[i];
        if (r->kind != RESULT_Field) {
            continue;
        }
        FieldDecl f = {.name = r->name, .dtype = r->value->dtype};
        for (int k = 1; k < r->value->dims.rank; k++) {
            f.dims.d[f.dims.rank++] = r->value->dims.d[k];
        }
        field_row(e, &f, "");
        ++*count;
    }
    ln_close(e, ";");
    ln_blank(e);
    return name;
}

static const char *graph_function(const Emit *e, const HostText *h, const Graph *g)
{
    for (int i = 0; i < e->plan->ngraphs; i++) {
        if (e->plan->graphs[i].graph == g) {
            return h->graphs[i].name;
        }
    }
    ICE("graph %s is not planned", g->name);
}

static void sampler_emit(Emit *e, const Decl *loader)
{
    const char *sampler = attrs_str(&loader->attrs, ATTR_sampler);
    const char *by = attrs_str(&loader->attrs, ATTR_sampled_by);
    int n;
    if (sampler == NULL) {
        return;
    }
    FieldDecl *fields =
        data_fields(e, module_find(e->m, DECL_data, attrs_str(&loader->attrs, ATTR_dataset)), &n);
    for (int f = 0; f < n; f++) {
        if (str_eq(fields[f].name, by)) {
            ln(e, ".sampler = MPC_SAMPLER_%s, .sampled_by = %d,", sampler, f);
            return;
        }
    }
    ICE("no field %s to sample by", by);
}

static void loaders_emit(Emit *e, const HostText *h)
{
    const char **out = ARENA_ARRAY(e->arena, const char *, h->nloaders + 1);
    const Graph **prepare = ARENA_ARRAY(e->arena, const Graph *, h->nloaders + 1);
    int *count = ARENA_ARRAY(e->arena, int, h->nloaders + 1);
    for (int i = 0; i < h->nloaders; i++) {
        prepare[i] = loader_prepare(e->m, h->loaders[i]);
        out[i] = prepared_fields(e, prepare[i], i, &count[i]);
    }
    ln_open(e, "static const MpcLoaderDecl loaders[] =");
    for (int i = 0; i < h->nloaders; i++) {
        const Decl *d = h->loaders[i];
        ln_in(e, "{");
        ln(e, ".name = %s,", quoted(e->arena, h->loader[i]));
        ln(e, ".set = %d,", data_set_number(e, attrs_str(&d->attrs, ATTR_dataset)));
        ln(e, ".batch_max = %lld,", (long long)attrs_int(&d->attrs, ATTR_bound, 1));
        ln(e, ".shuffle = %s, .drop_last = %s, .training = %s,",
           attrs_bool(&d->attrs, ATTR_shuffle) ? "true" : "false",
           attrs_bool(&d->attrs, ATTR_drop_last) ? "true" : "false",
           is_training(e, d) ? "true" : "false");
        sampler_emit(e, d);
        if (prepare[i] != NULL) {
            ln(e, ".prepare = %s, .out = %s, .n_out = %d, .scratch_bytes = %lld,",
               graph_function(e, h, prepare[i]), out[i], count[i],
               (long long)(e->plan->prepare_bytes + e->plan->thread_scratch));
        }
        ln(e, ".line = %d,", d->loc.line);
        ln_close(e, ",");
    }
    ln_close(e, ";");
    ln_blank(e);
}

int class_names_emit(Emit *e)
{
    int n;
    Decl **sets = module_decls(e, DECL_data, &n);
    for (int i = 0; i < n; i++) {
        const Attr *names = attrs_find(&sets[i]->attrs, ATTR_class_names);
        if (names == NULL) {
            continue;
        }
        ln_open(e, "static const char *const classes[] =");
        for (int k = 0; k < names->strs.n; k++) {
            ln(e, "%s,", quoted(e->arena, names->strs.v[k]));
        }
        ln_close(e, ";");
        ln_blank(e);
        return names->strs.n;
    }
    return 0;
}

int data_tables_emit(Emit *e, const HostText *h)
{
    int n;
    Decl **sets = module_decls(e, DECL_data, &n);
    int *source = ARENA_ARRAY(e->arena, int, n + 1);
    if (n > 0) {
        sources_emit(e, sets, n, source);
        sets_emit(e, sets, n, source);
    }
    if (h->nloaders > 0) {
        loaders_emit(e, h);
    }
    return label_checks_emit(e);
}
