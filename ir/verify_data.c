/* verify_data.c: what graphs take from batches against what data sets and prepare graphs give. */
#include "ir/verify.h"

#include <string.h>

#include "ir/base/strutil.h"

typedef struct Field {
    DType dtype;
    Dims dims; /* of one sample */
} Field;

/* The data set whose files a part of it has. Parts are of earlier ones (verify_data), so this ends.
 */
static const Decl *source_of(const Module *m, const Decl *d)
{
    while (d != NULL && attrs_str(&d->attrs, ATTR_of) != NULL) {
        d = module_find(m, DECL_data, attrs_str(&d->attrs, ATTR_of));
    }
    return d;
}

static bool find_raw(const Module *m, const Decl *data, const char *name, Field *f)
{
    const Decl *source = source_of(m, data);
    const Attr *fields = source != NULL ? attrs_find(&source->attrs, ATTR_fields) : NULL;
    for (int i = 0; fields != NULL && i < fields->strs.n; i++) {
        size_t n;
        if (field_of_text(fields->strs.v[i], &n, &f->dtype, &f->dims) && strlen(name) == n &&
            strncmp(fields->strs.v[i], name, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool find_prepared(const Graph *prepare, const char *name, Field *f)
{
    for (int i = 0; i < prepare->nresults; i++) {
        const Node *value = prepare->results[i].value;
        if (str_eq(prepare->results[i].name, name) && value != NULL && value->dims.rank > 0) {
            f->dtype = value->dtype;
            f->dims = (Dims){.rank = value->dims.rank - 1};
            memcpy(f->dims.d, value->dims.d + 1, (size_t)f->dims.rank * sizeof f->dims.d[0]);
            return true;
        }
    }
    return false;
}

static bool takes(const Node *arg, const Field *f)
{
    if (arg->dtype != f->dtype || arg->dims.rank != f->dims.rank + 1) {
        return false;
    }
    for (int i = 0; i < f->dims.rank; i++) {
        if (!dim_equal(arg->dims.d[i + 1], f->dims.d[i])) {
            return false;
        }
    }
    return true;
}

static void verify_fields(Verify *v, const Graph *g, const Decl *data, const Graph *prepare)
{
    for (int i = 0; i < g->nnodes; i++) {
        const Node *n = g->nodes[i];
        const char *name = n->op == OP_arg ? attrs_str(&n->attrs, ATTR_batch) : NULL;
        Field f;
        if (name == NULL) {
            continue;
        }
        if (!(prepare != NULL ? find_prepared(prepare, name, &f)
                              : find_raw(v->m, data, name, &f))) {
            verify_fail(v, n->loc, "graph @%s: data set %s gives no field '%s'", g->name,
                        data->name, name);
        } else if (!takes(n, &f)) {
            verify_fail(v, n->loc, "graph @%s: field '%s' of data set %s has another type or shape",
                        g->name, name, data->name);
        }
    }
}

void verify_batch(Verify *v, const Graph *g, const char *loader)
{
    const Decl *d = loader != NULL ? module_find(v->m, DECL_loader, loader) : NULL;
    const char *name = d != NULL ? attrs_str(&d->attrs, ATTR_dataset) : NULL;
    const Decl *data = name != NULL ? module_find(v->m, DECL_data, name) : NULL;
    if (data != NULL) {
        verify_fields(v, g, data, loader_prepare(v->m, d));
    }
}

void verify_loader(Verify *v, const Decl *d)
{
    const char *sampler = attrs_str(&d->attrs, ATTR_sampler);
    const char *by = attrs_str(&d->attrs, ATTR_sampled_by);
    const Decl *data = module_find(v->m, DECL_data, attrs_str(&d->attrs, ATTR_dataset));
    Field f;
    if (sampler == NULL || data == NULL) {
        return;
    }
    bool balanced = str_eq(sampler, "balanced");
    if (!balanced && !str_eq(sampler, "weighted")) {
        verify_fail(v, d->loc, "loader %s: there is no sampler %s", d->name, sampler);
    } else if (by == NULL || !find_raw(v->m, data, by, &f) || f.dims.rank > 0 ||
               (balanced && !dtype_info[f.dtype].is_int)) {
        verify_fail(v, d->loc, "loader %s: %s is no field to sample by", d->name,
                    by != NULL ? by : "none");
    }
}

void verify_data(Verify *v, const Decl *d)
{
    const Attr *fields = attrs_find(&d->attrs, ATTR_fields);
    const Attr *columns = attrs_find(&d->attrs, ATTR_columns);
    const char *of = attrs_str(&d->attrs, ATTR_of);
    for (int i = 0; fields != NULL && i < fields->strs.n; i++) {
        Field f;
        size_t n;
        if (!field_of_text(fields->strs.v[i], &n, &f.dtype, &f.dims)) {
            verify_fail(v, d->loc, "data %s: '%s' is no field", d->name, fields->strs.v[i]);
        }
    }
    if (columns != NULL && (fields == NULL || columns->strs.n != fields->strs.n)) {
        verify_fail(v, d->loc, "data %s: not one entry of columns for each field", d->name);
    }
    for (int i = 0; of != NULL && i < v->m->ndecls && v->m->decls[i] != d; i++) {
        if (v->m->decls[i]->kind == DECL_data && str_eq(v->m->decls[i]->name, of)) {
            of = NULL;
        }
    }
    if (of != NULL) {
        verify_fail(v, d->loc, "data %s: it is a part of %s, which is not declared above", d->name,
                    of);
    }
    const AttrId prepares[2] = {ATTR_prepare, ATTR_prepare_eval};
    for (int i = 0; i < 2; i++) {
        const char *prepare = attrs_str(&d->attrs, prepares[i]);
        const Graph *g = prepare != NULL && v->ok ? module_find_graph(v->m, prepare) : NULL;
        if (g != NULL) {
            verify_fields(v, g, d, NULL);
        }
    }
}
