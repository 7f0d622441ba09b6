/* labels.c: what the data's labels and indices must lie within.
 *
 * Needs:   composite ops whole (before decompose).
 * Leaves:  on every loader: for each field of the data that reaches cross_entropy or embedding as it is, how many
 *          classes (or rows) there are. The program checks the whole set before it trains, and names the row.
 *
 *   cross_entropy %logits : f32[B,10], %label   ->   loader train {..., label_fields=["label"], label_classes=[10]}
 *
 * A field that the preparation computes is not checked. */
#include "passes/ctx.h"

#include "ir/base/strutil.h"
#include "passes/index_map.h"

enum { MAX_CHECKS = 64 };

typedef struct Checks {
    int n;
    const char *field[MAX_CHECKS];
    int64_t classes[MAX_CHECKS], ignore[MAX_CHECKS], line[MAX_CHECKS];
} Checks;

/* The batch's field that n is, but for moves and casts to other integers; NULL for anything else. */
static const char *field_of(const Node *n)
{
    while (map_moves(n->op) || (n->op == OP_cast && !dtype_info[n->in[0]->dtype].is_float)) {
        n = n->in[0];
    }
    return n->op == OP_arg && dtype_info[n->dtype].is_int ? attrs_str(&n->attrs, ATTR_batch) : NULL;
}

static void add_check(Checks *c, const char *field, int64_t classes, int64_t ignore, int line)
{
    for (int i = 0; i < c->n; i++) {
        if (str_eq(c->field[i], field) && c->classes[i] == classes && c->ignore[i] == ignore) {
            return;
        }
    }
    if (field != NULL && c->n < MAX_CHECKS) {
        c->field[c->n] = field;
        c->classes[c->n] = classes;
        c->ignore[c->n] = ignore;
        c->line[c->n++] = line;
    }
}

/* An index that is never ignored has -1 there: it is outside of every range. */
static void graph_checks(const Graph *g, Checks *c)
{
    for (int i = 0; i < g->nnodes; i++) {
        const Node *n = g->nodes[i];
        if (n->op == OP_cross_entropy) {
            const Dims *logits = &n->in[0]->dims;
            add_check(c, field_of(n->in[1]), logits->d[logits->rank - 1].k,
                      attrs_int(&n->attrs, ATTR_ignore_index, -100), n->loc.line);
        } else if (n->op == OP_embedding) {
            add_check(c, field_of(n->in[1]), n->in[0]->dims.d[0].k, -1, n->loc.line);
        }
    }
}

/* The field comes out of the preparation as it went in. */
static bool unprepared(const Module *m, const Decl *loader, const char *field)
{
    const Graph *g = loader_prepare(m, loader);
    for (int i = 0; g != NULL && i < g->nresults; i++) {
        if (str_eq(g->results[i].name, field)) {
            return str_eq(field_of(g->results[i].value), field);
        }
    }
    return g == NULL;
}

/* What the preparation itself says of fields: one_hot. */
static void prepare_checks(const Module *m, const Decl *loader, Checks *c)
{
    const Decl *d = module_find(m, DECL_data, attrs_str(&loader->attrs, ATTR_dataset));
    while (d != NULL) {
        const Attr *fields = attrs_find(&d->attrs, ATTR_label_fields);
        const char *of = attrs_str(&d->attrs, ATTR_of);
        for (int i = 0; fields != NULL && i < fields->strs.n; i++) {
            add_check(c, fields->strs.v[i], attrs_find(&d->attrs, ATTR_label_classes)->ints.v[i],
                      attrs_find(&d->attrs, ATTR_label_ignore)->ints.v[i],
                      (int)attrs_find(&d->attrs, ATTR_label_lines)->ints.v[i]);
        }
        d = of != NULL ? module_find(m, DECL_data, of) : NULL;
    }
}

static void loader_checks(PassCtx *c, Decl *loader, const Graph *g)
{
    Checks all = {0};
    prepare_checks(c->m, loader, &all);
    int n = all.n;
    graph_checks(g, &all);
    for (int i = n; i < all.n; i++) {
        if (unprepared(c->m, loader, all.field[i])) {
            all.field[n] = all.field[i];
            all.classes[n] = all.classes[i];
            all.ignore[n] = all.ignore[i];
            all.line[n++] = all.line[i];
        }
    }
    if (n > 0) {
        attrs_set_strs(c->arena, &loader->attrs, ATTR_label_fields, n, all.field);
        attrs_set_ints(c->arena, &loader->attrs, ATTR_label_classes, n, all.classes);
        attrs_set_ints(c->arena, &loader->attrs, ATTR_label_ignore, n, all.ignore);
        attrs_set_ints(c->arena, &loader->attrs, ATTR_label_lines, n, all.line);
    }
}

static void visit_block(PassCtx *c, const HostBlock *b, Decl *loader)
{
    for (int i = 0; i < b->n; i++) {
        const HostStmt *s = b->v[i];
        Decl *own = s->kind == HS_batches ? module_find(c->m, DECL_loader, s->target) : loader;
        const char *name = s->kind == HS_call       ? s->target
                           : s->kind == HS_evaluate ? s->graph
                                                    : NULL;
        const Graph *g = name != NULL ? module_find_graph(c->m, name) : NULL;
        Decl *fed = s->kind == HS_evaluate ? s->loader : own;
        if (g != NULL && fed != NULL) {
            loader_checks(c, fed, g);
        }
        visit_block(c, &s->body, own);
        visit_block(c, &s->orelse, own);
    }
}

bool pass_labels(PassCtx *c)
{
    visit_block(c, &c->m->host, NULL);
    return true;
}
