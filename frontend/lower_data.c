/* lower_data.c: data sets, their parts, and the preparation of batches. Loaders: lower_loader.c.
 *
 * What the program sees of a batch are the fields after its preparation; the preparation itself becomes a
 * graph that the loader calls. It is lowered where the set is read first, so that it may use variables of the file
 * above that place. Where it does something at random, evaluations have another one.
 */
#include "frontend/builtins.h"

#include <string.h>

static const Dim batch_dim = {.k = 1, .sym = {1, 0}};

/* ---- declarations ---------------------------------------------------------------------------------- */

static bool data_kind(Lower *l, const Ast *source)
{
    static const char *const kinds[] = {"idx", "csv", "tsv", "bin"};
    static const char *const later[] = {"text", "safetensors"};
    const char *name =
        source->kind == AST_call && source->callee->kind == AST_name ? source->callee->name : NULL;
    for (int i = 0; name != NULL && i < 4; i++) {
        if (str_eq(kinds[i], name)) {
            return true;
        }
    }
    for (int i = 0; name != NULL && i < 2; i++) {
        if (str_eq(later[i], name)) {
            lower_error(l, source->loc, "data from `%s` cannot be read yet: idx, csv, tsv, bin",
                        name);
            return false;
        }
    }
    const char *near = name == NULL ? NULL : nearest_name(name, kinds, 4);
    lower_error(l, source->loc, "data comes from idx(...), csv(...), tsv(...) or bin(...)%s",
                near == NULL ? "" : arena_printf(l->arena, ": did you mean `%s`?", near));
    return false;
}

static bool data_files(Lower *l, const Ast *decl, Decl *d)
{
    const AstList *args = &decl->value->list;
    const char **files = ARENA_ARRAY(l->arena, const char *, args->n + 1);
    for (int i = 0; i < args->n; i++) {
        const Ast *arg = args->at[i];
        if (arg->kind == AST_keyword) {
            lower_error(l, arg->loc, "`%s` takes paths only, no argument `%s`",
                        decl->value->callee->name, arg->name);
            return false;
        }
        Val v = host_fold(l, eval(l, arg), FOLD_fixed, arg->loc);
        if (v.kind != VAL_str) {
            if (!val_is_poison(v)) {
                lower_error(l, arg->loc, "a path is a string, but this is %s", val_describe(l, v));
            }
            return false;
        }
        files[i] = v.s;
    }
    bool any = str_eq(decl->value->callee->name, "bin");
    int want = str_eq(decl->value->callee->name, "idx") ? decl->list.n : 1;
    if (any ? args->n < 1 : args->n != want) {
        lower_error(l, decl->value->loc,
                    any         ? "bin takes at least one file, but here are %d"
                    : want == 1 ? "one file is read here, but %d are given"
                                : "idx takes one file for each field, but here are %d",
                    args->n);
        return false;
    }
    attrs_set_strs(l->arena, &d->attrs, ATTR_files, args->n, files);
    return true;
}

static bool field_type(Lower *l, const Ast *field, DType *dt, Dims *dims)
{
    if (str_eq(field->type->name, "text")) {
        lower_error(l, field->type->loc, "fields of text cannot be read yet");
        return false;
    }
    if (!eval_dtype(field->type->name, dt)) {
        Names names = {0};
        for (int i = DT_none + 1; i < DT_grads; i++) {
            vec_push(l->arena, &names, dtype_info[i].name);
        }
        lower_error(l, field->type->loc, "unknown type `%s`%s", field->type->name,
                    lower_did_you_mean(l, field->type->name, &names));
        return false;
    }
    *dims = (Dims){.rank = field->type->list.n};
    if (dims->rank >= MAX_RANK) {
        lower_error(l, field->type->loc, "a field has at most %d axes", MAX_RANK - 1);
        return false;
    }
    for (int i = 0; i < dims->rank; i++) {
        int64_t n;
        const Ast *e = field->type->list.at[i];
        if (!val_int_of(l, eval(l, e), "a size", e->loc, &n)) {
            return false;
        }
        if (n < 1 || n > INT32_MAX) {
            lower_error(l, e->loc, "a size of %lld", (long long)n);
            return false;
        }
        dims->d[i] = dim_of(n);
    }
    Dim count;
    if (!dims_count(dims, &count) || count.k > INT32_MAX) {
        lower_error(l, field->type->loc, "this field is too large");
        return false;
    }
    return true;
}

/* "MedInc..Longitude", or names one a line */
static const char *column_text(Lower *l, const Ast *e)
{
    if (e->kind == AST_str) {
        return e->name;
    }
    if (e->kind == AST_range && e->lo != NULL && e->lo->kind == AST_str && e->hi->kind == AST_str) {
        return arena_printf(l->arena, "%s..%s", e->lo->name, e->hi->name);
    }
    lower_error(l, e->loc, "a column is a string, or a range of two: \"first\"..\"last\"");
    return NULL;
}

static bool has_columns(const char *kind)
{
    return str_eq(kind, "csv") || str_eq(kind, "tsv");
}

static bool names_classes(const Ast *e)
{
    return e != NULL && e->kind == AST_call && e->callee->kind == AST_name &&
           str_eq(e->callee->name, "classes");
}

/* label: u8 = classes("cat", "dog"): what 0 and 1 are called, in predictions and reports */
static bool class_names(Lower *l, const Ast *field, DataSet *d)
{
    const AstList *list = &field->value->list;
    const char **names = ARENA_ARRAY(l->arena, const char *, list->n + 1);
    Attrs *as = &d->decl->attrs;
    if (!dtype_info[d->dtypes[d->nfields]].is_int || d->dims[d->nfields].rank > 0) {
        lower_error(l, field->loc, "classes are the values of a field of integers, one a sample");
        return false;
    }
    if (list->n == 0 || attrs_find(as, ATTR_class_names) != NULL) {
        lower_error(l, field->value->loc,
                    list->n == 0 ? "here are no classes: classes(\"first\", \"second\")"
                                 : "another field of this data set has the classes already");
        return false;
    }
    for (int i = 0; i < list->n; i++) {
        if (list->at[i]->kind != AST_str) {
            lower_error(l, list->at[i]->loc, "the name of a class is a string");
            return false;
        }
        names[i] = list->at[i]->name;
    }
    attrs_set_strs(l->arena, as, ATTR_class_names, list->n, names);
    return true;
}

static const char *field_columns(Lower *l, const Ast *field, const char *kind, int64_t count)
{
    const Ast *e = names_classes(field->value) ? NULL : field->value;
    if (e == NULL) {
        if (has_columns(kind) && count != 1) {
            lower_error(l, field->loc,
                        "field `%s` has %lld values: say with columns(...) which they are",
                        field->name, (long long)count);
            return NULL;
        }
        return "";
    }
    if (!has_columns(kind)) {
        lower_error(l, e->loc, "a file of %s has no columns", kind);
        return NULL;
    }
    bool call = e->kind == AST_call && e->callee->kind == AST_name &&
                (str_eq(e->callee->name, "column") || str_eq(e->callee->name, "columns"));
    if (!call || e->list.n == 0) {
        lower_error(l, e->loc,
                    "columns are given by column(\"name\") or columns(\"first\"..\"last\")");
        return NULL;
    }
    Text *t = text_new(l->arena);
    bool ranges = false;
    for (int i = 0; i < e->list.n; i++) {
        const char *one = column_text(l, e->list.at[i]);
        if (one == NULL) {
            return NULL;
        }
        ranges = ranges || e->list.at[i]->kind == AST_range;
        text_printf(t, "%s%s", i > 0 ? "\n" : "", one);
    }
    if (!ranges && e->list.n != count) {
        lower_error(l, e->loc, "field `%s` has %lld values, but here are %d columns", field->name,
                    (long long)count, e->list.n);
        return NULL;
    }
    return t->at;
}

static bool data_field(Lower *l, const Ast *field, DataSet *d, const char *kind, const char **text,
                       const char **columns)
{
    int i = d->nfields;
    for (int k = 0; k < i; k++) {
        if (str_eq(d->names[k], field->name)) {
            lower_error(l, field->loc, "there are two fields called `%s`", field->name);
            return false;
        }
    }
    if (!field_type(l, field, &d->dtypes[i], &d->dims[i])) {
        return false;
    }
    if (names_classes(field->value) && !class_names(l, field, d)) {
        return false;
    }
    Dim count;
    dims_count(&d->dims[i], &count);
    columns[i] = field_columns(l, field, kind, count.k);
    if (columns[i] == NULL) {
        return false;
    }
    Text *t = text_new(l->arena);
    text_printf(t, "%s: %s", field->name, dtype_info[d->dtypes[i]].name);
    for (int k = 0; k < d->dims[i].rank; k++) {
        text_printf(t, "%s%lld", k == 0 ? "[" : ",", (long long)d->dims[i].d[k].k);
    }
    text_puts(t, d->dims[i].rank > 0 ? "]" : "");
    text[i] = t->at;
    d->names[i] = field->name;
    d->nfields++;
    return true;
}

static DataSet *data_new(Lower *l, const char *name, int nfields, Loc loc)
{
    DataSet *d = ARENA_NEW(l->arena, DataSet);
    d->decl = module_decl(l->m, DECL_data, name);
    d->decl->loc = loc;
    d->names = ARENA_ARRAY(l->arena, const char *, nfields + 1);
    d->dtypes = ARENA_ARRAY(l->arena, DType, nfields + 1);
    d->dims = ARENA_ARRAY(l->arena, Dims, nfields + 1);
    vec_push(l->arena, &l->data, d);
    return d;
}

void data_declare(Lower *l, const Ast *decl)
{
    if (scope_find(&l->globals, decl->name) != NULL) {
        lower_error(l, decl->loc, "`%s` is declared twice", decl->name);
        return;
    }
    scope_set(l->arena, &l->globals, decl->name, val_poison());
    if (decl->transform != NULL) {
        lower_error(l, decl->transform->loc, "data in windows cannot be read yet");
        return;
    }
    if (!data_kind(l, decl->value)) {
        return;
    }
    const char *kind = decl->value->callee->name;
    DataSet *d = data_new(l, decl->name, decl->list.n, decl->loc);
    const char **text = ARENA_ARRAY(l->arena, const char *, decl->list.n + 1);
    const char **columns = ARENA_ARRAY(l->arena, const char *, decl->list.n + 1);
    attrs_set_str(l->arena, &d->decl->attrs, ATTR_kind, kind);
    bool fine = data_files(l, decl, d->decl);
    for (int i = 0; i < decl->list.n; i++) {
        fine = data_field(l, decl->list.at[i], d, kind, text, columns) && fine;
    }
    if (!fine) {
        return;
    }
    attrs_set_strs(l->arena, &d->decl->attrs, ATTR_fields, d->nfields, text);
    if (has_columns(kind)) {
        attrs_set_strs(l->arena, &d->decl->attrs, ATTR_columns, d->nfields, columns);
    }
    scope_set(l->arena, &l->globals, decl->name, (Val){.kind = VAL_data, .data = d});
}

static Val part(Lower *l, DataSet *of, const char *name, const char *part, double fraction,
                int64_t seed, Loc loc)
{
    DataSet *d = data_new(l, arena_printf(l->arena, "%s.%s", name, part), of->nfields, loc);
    d->of = of;
    d->nfields = of->nfields;
    memcpy(d->names, of->names, (size_t)of->nfields * sizeof *d->names);
    memcpy(d->dtypes, of->dtypes, (size_t)of->nfields * sizeof *d->dtypes);
    memcpy(d->dims, of->dims, (size_t)of->nfields * sizeof *d->dims);
    Attrs *a = &d->decl->attrs;
    attrs_set_str(l->arena, a, ATTR_kind, "split");
    attrs_set_str(l->arena, a, ATTR_of, of->decl->name);
    attrs_set_str(l->arena, a, ATTR_part, part);
    attrs_set_float(l->arena, a, ATTR_fraction, fraction);
    attrs_set_int(l->arena, a, ATTR_split_seed, seed);
    return (Val){.kind = VAL_data, .data = d};
}

Val fn_split_data(Lower *l, Call *c)
{
    double fraction;
    int64_t seed;
    if (!call_float(l, c, 1, &fraction) || !call_int(l, c, 2, &seed)) {
        return val_poison();
    }
    if (!(fraction > 0 && fraction < 1)) {
        return lower_error(l, c->locs[1], "validation is the share of the rows, between 0 and 1");
    }
    if (seed < 0) {
        return lower_error(l, c->locs[2], "a seed is not negative");
    }
    if (l->frame != NULL || l->loops > 0 || l->assigning == NULL) {
        return lower_error(l, c->loc,
                           "a split gets a name, outside of loops: parts = %s.split(...)",
                           c->args[0].data->decl->name);
    }
    if (module_find(l->m, DECL_data, arena_printf(l->arena, "%s.train", l->assigning)) != NULL) {
        return lower_error(l, c->loc, "there are parts called `%s` already", l->assigning);
    }
    Val r = val_list(l, VAL_parts);
    val_push(l, &r, part(l, c->args[0].data, l->assigning, "train", fraction, seed, c->loc));
    val_push(l, &r, part(l, c->args[0].data, l->assigning, "validation", fraction, seed, c->loc));
    return r;
}

/* ---- preparation ----------------------------------------------------------------------------------- */

void data_prepare_block(Lower *l, const Ast *batch)
{
    for (int i = 0; i < batch->list.n; i++) {
        const Ast *name = batch->list.at[i];
        Val v = eval(l, name);
        if (v.kind != VAL_data) {
            if (!val_is_poison(v)) {
                lower_error(l, name->loc, "a batch is prepared of a data set, but this is %s",
                            val_describe(l, v));
            }
            continue;
        }
        if (v.data->batch != NULL) {
            lower_error(l, name->loc, "batches of `%s` are prepared twice", v.data->decl->name);
            lower_note(l, v.data->batch->loc, "the first preparation is here");
        } else if (v.data->in_use) {
            lower_error(l, name->loc, "`%s` is used above: its batches are prepared before that",
                        v.data->decl->name);
        } else {
            v.data->batch = batch;
        }
    }
}

static Dims with_batch(const Dims *d)
{
    Dims r = {.rank = d->rank + 1, .d = {batch_dim}};
    for (int i = 0; i < d->rank; i++) {
        r.d[i + 1] = d->d[i];
    }
    return r;
}

static void prepared_field(Lower *l, Prepared *p, const Binding *b, Loc loc)
{
    Val v = b->val;
    Dims dims;
    DType dt;
    if (!val_dims(v, &dims, &dt)) {
        return; /* a number for use in the block */
    }
    if (v.kind != VAL_tensor || dims.rank == 0 || !dim_equal(dims.d[0], batch_dim)) {
        lower_error(l, loc, "field `%s` must have the batch as its first axis, but is %s", b->name,
                    val_describe(l, v));
        return;
    }
    if (dims.rank > 1) {
        for (int i = 1; i < dims.rank; i++) {
            if (!dim_is_const(dims.d[i])) {
                lower_error(l, loc, "field `%s` has an axis of unknown size: %s", b->name,
                            val_describe(l, v));
                return;
            }
        }
    }
    p->names[p->n] = b->name;
    p->dtypes[p->n] = dt;
    p->dims[p->n++] = dims;
    graph_result(p->graph, RESULT_Field, b->name, v.node);
}

static void raw_fields(Lower *l, DataSet *d, Run *run, Frame *frame)
{
    for (int i = 0; i < d->nfields; i++) {
        Dims dims = with_batch(&d->dims[i]);
        Attrs attrs = {0};
        attrs_set_str(l->arena, &attrs, ATTR_batch, d->names[i]);
        Builder b = {
            .graph = run->graph, .diag = l->diag, .loc = d->batch->loc, .name = d->names[i]};
        Node *n = build_arg(&b, d->dtypes[i], &dims, attrs);
        scope_add(l->arena, &frame->locals, d->names[i],
                  (Val){.kind = VAL_tensor, .node = n, .run = run});
    }
}

/* Lowers the block of d with a state of its own; what surrounds the first use has no part in it. */
static void prepare(Lower *l, DataSet *d, Prepared *p, bool training)
{
    const char *name = arena_printf(l->arena, "prepare_%s", d->decl->name);
    Run *run = run_new(l, name, GRAPH_Prepare, d, 1, d->batch->loc);
    Frame frame = {.func = d->batch};
    Lower outer = *l;
    l->frame = &frame;
    l->run = run;
    l->loader = NULL;
    l->b = (Builder){0};
    l->force = DT_none;
    l->no_grad = false;
    l->training = training;
    l->target = NULL;
    p->graph = run->graph;
    raw_fields(l, d, run, &frame);
    exec_block(l, &d->batch->list2);
    p->names = ARENA_ARRAY(l->arena, const char *, frame.locals.n);
    p->dtypes = ARENA_ARRAY(l->arena, DType, frame.locals.n);
    p->dims = ARENA_ARRAY(l->arena, Dims, frame.locals.n);
    for (int i = 0; i < frame.locals.n; i++) {
        prepared_field(l, p, &frame.locals.at[i], d->batch->loc);
    }
    p->by_mode = run->by_mode;
    if (p->by_mode && !training) {
        run->graph->name = graph_fresh_name(l, arena_printf(l->arena, "%s_eval", name));
    }
    l->frame = outer.frame;
    l->run = outer.run;
    l->loader = outer.loader;
    l->b = outer.b;
    l->force = outer.force;
    l->no_grad = outer.no_grad;
    l->training = outer.training;
    l->target = outer.target;
    l->loc = outer.loc;
}

/* An error in a block that prepares several sets is reported for the first of them only. */
static bool block_failed(const Lower *l, const DataSet *d)
{
    for (int i = 0; i < l->data.n; i++) {
        if (l->data.at[i]->failed && l->data.at[i]->batch == d->batch) {
            return true;
        }
    }
    return false;
}

static Prepared *unprepared(Lower *l, const DataSet *d)
{
    Prepared *p = ARENA_NEW(l->arena, Prepared);
    p->n = d->nfields;
    p->names = d->names;
    p->dtypes = d->dtypes;
    p->dims = ARENA_ARRAY(l->arena, Dims, d->nfields + 1);
    for (int i = 0; i < d->nfields; i++) {
        p->dims[i] = with_batch(&d->dims[i]);
    }
    return p;
}

/* p is d's preparation for one use; for both, where they do not differ. */
static void set_ready(Lower *l, DataSet *d, Prepared *p, bool training)
{
    AttrId attr = p->by_mode && !training ? ATTR_prepare_eval : ATTR_prepare;
    d->ready[training] = p;
    if (!p->by_mode) {
        d->ready[!training] = p;
    }
    if (p->graph != NULL) {
        attrs_set_str(l->arena, &d->decl->attrs, attr, p->graph->name);
    }
}

bool data_ready(Lower *l, DataSet *d, bool training)
{
    d->in_use = true;
    if (d->ready[training] != NULL || d->failed) {
        return !d->failed;
    }
    if (d->batch == NULL && d->of != NULL && d->of->batch != NULL) {
        d->failed = !data_ready(l, d->of, training);
        if (!d->failed) {
            set_ready(l, d, d->of->ready[training], training);
        }
        return !d->failed;
    }
    if (d->batch == NULL) {
        set_ready(l, d, unprepared(l, d), training);
        return true;
    }
    if (d->ready[!training] == NULL && block_failed(l, d)) {
        d->failed = true;
        return false;
    }
    Prepared *p = ARENA_NEW(l->arena, Prepared);
    int errors = diag_errors(l->diag);
    prepare(l, d, p, training);
    d->failed = diag_errors(l->diag) > errors;
    set_ready(l, d, p, training);
    return !d->failed;
}

/* Is d, or a part of it, read or counted? */
static bool is_read(const Lower *l, const DataSet *d)
{
    bool read = d->in_use || d->counted;
    for (int i = 0; i < l->data.n && !read; i++) {
        read = l->data.at[i]->of == d && is_read(l, l->data.at[i]);
    }
    return read;
}

static void drop_unread(Lower *l)
{
    for (int i = 0; i < l->data.n; i++) {
        if (!is_read(l, l->data.at[i])) {
            module_drop_decl(l->m, l->data.at[i]->decl);
        }
    }
}

/* Sets that nothing reads are no part of the program; their preparation is lowered for its errors. */
void data_finish(Lower *l)
{
    drop_unread(l);
    for (int i = 0; i < l->data.n; i++) {
        DataSet *d = l->data.at[i];
        bool ready = d->ready[0] != NULL || d->ready[1] != NULL;
        if (d->batch == NULL || ready || d->failed || block_failed(l, d)) {
            continue;
        }
        Prepared p = {0};
        int errors = diag_errors(l->diag);
        prepare(l, d, &p, true);
        d->failed = diag_errors(l->diag) > errors;
        if (l->m->graphs[l->m->ngraphs - 1] != p.graph) {
            ICE("the preparation of %s made more than one graph", d->decl->name);
        }
        l->m->ngraphs--;
    }
}

void data_check_classes(Lower *l, const Node *x, int64_t n)
{
    while (x != NULL && (x->op == OP_reshape || x->op == OP_cast)) {
        x = x->in[0];
    }
    const char *field = x != NULL && x->op == OP_arg && dtype_info[x->dtype].is_int
                            ? attrs_str(&x->attrs, ATTR_batch)
                            : NULL;
    if (field == NULL || l->run->graph->role != GRAPH_Prepare) {
        return;
    }
    Attrs *as = &l->run->data->decl->attrs;
    const Attr *fields = attrs_find(as, ATTR_label_fields);
    int count = fields == NULL ? 0 : fields->strs.n;
    const char **names = ARENA_ARRAY(l->arena, const char *, count + 1);
    int64_t *numbers[3]; /* classes, what is ignored, lines */
    const AttrId ids[3] = {ATTR_label_classes, ATTR_label_ignore, ATTR_label_lines};
    for (int k = 0; k < 3; k++) {
        numbers[k] = ARENA_ARRAY(l->arena, int64_t, count + 1);
        for (int i = 0; i < count; i++) {
            numbers[k][i] = attrs_find(as, ids[k])->ints.v[i];
        }
    }
    for (int i = 0; i < count; i++) {
        names[i] = fields->strs.v[i];
        if (str_eq(names[i], field) && numbers[0][i] == n) {
            return;
        }
    }
    names[count] = field;
    numbers[0][count] = n;
    numbers[1][count] = -1;
    numbers[2][count] = l->loc.line;
    attrs_set_strs(l->arena, as, ATTR_label_fields, count + 1, names);
    for (int k = 0; k < 3; k++) {
        attrs_set_ints(l->arena, as, ids[k], count + 1, numbers[k]);
    }
}
