/* lower_loader.c: loaders, what they draw, and the fields of their batches.
 *
 * A loader's declaration is for training or for evaluation: that decides which preparation of its data set it takes
 * (lower_data.c). One that a loop and an evaluation read has two of them, so that the evaluation consumes none of
 * the training's random numbers. */
#include "frontend/builtins.h"

/* The preparation that the loader's use takes. */
static bool loader_use(Lower *l, Loader *r, bool training)
{
    r->training = training;
    r->used = true;
    if (!data_ready(l, r->data, training)) {
        return false;
    }
    const Prepared *p = r->data->ready[training];
    if (p->graph != NULL && p->graph->syms[0].bound < r->bound) {
        p->graph->syms[0].bound = r->bound;
    }
    attrs_set_bool(l->arena, &r->decl->attrs, ATTR_evaluation, p->by_mode && !training);
    return true;
}

Loader *loader_for(Lower *l, Loader *loader, bool training)
{
    if (!loader->used) {
        return loader_use(l, loader, training) ? loader : NULL;
    }
    if (loader->training == training || loader->other != NULL) {
        return loader->training == training ? loader : loader->other;
    }
    Loader *r = ARENA_NEW(l->arena, Loader);
    const char *wish =
        arena_printf(l->arena, training ? "%s_train" : "eval_%s", loader->decl->name);
    *r = (Loader){.data = loader->data, .bound = loader->bound};
    r->decl = module_decl(l->m, DECL_loader, decl_fresh_name(l, DECL_loader, wish));
    r->decl->loc = loader->decl->loc;
    r->decl->attrs = loader->decl->attrs;
    loader->other = r;
    return loader_use(l, r, training) ? r : NULL;
}

Loader *loader_new(Lower *l, DataSet *d, const char *name, Val batch_size, Loc loc)
{
    int64_t bound;
    Val v = host_fold(l, batch_size, FOLD_bound, loc);
    HostExpr *size = host_of(l, batch_size, loc);
    if (size == NULL || !val_int_of(l, v, "batch_size", loc, &bound)) {
        return NULL;
    }
    if (bound < 1 || bound > 1 << 24) {
        lower_error(l, loc, "a batch of %lld samples", (long long)bound);
        return NULL;
    }
    d->in_use = true;
    Loader *r = ARENA_NEW(l->arena, Loader);
    r->decl = module_decl(l->m, DECL_loader, decl_fresh_name(l, DECL_loader, name));
    r->decl->loc = lower_loc(l, loc);
    r->data = d;
    r->bound = bound;
    attrs_set_str(l->arena, &r->decl->attrs, ATTR_dataset, d->decl->name);
    attrs_set_expr(l->arena, &r->decl->attrs, ATTR_batch_size, size);
    attrs_set_int(l->arena, &r->decl->attrs, ATTR_bound, bound);
    return r;
}

static bool may_sample_by(const DataSet *d, int i, bool balanced)
{
    bool whole = dtype_info[d->dtypes[i]].is_int;
    return d->dims[i].rank == 0 && (whole || (!balanced && dtype_info[d->dtypes[i]].is_float));
}

/* The field with the classes: by its usual names, or the only one that can be it. NULL: it must be said. */
static const char *class_field(const DataSet *d)
{
    static const char *const usual[] = {"label", "labels", "target", "targets", "y"};
    int found = -1, n = 0;
    for (int k = 0; k < 5; k++) {
        for (int i = 0; i < d->nfields; i++) {
            if (str_eq(d->names[i], usual[k]) && may_sample_by(d, i, true)) {
                return d->names[i];
            }
        }
    }
    for (int i = 0; i < d->nfields; i++) {
        n += may_sample_by(d, i, true);
        found = may_sample_by(d, i, true) ? i : found;
    }
    return n == 1 ? d->names[found] : NULL;
}

/* sampler = "balanced" or "weighted", sampled_by = "field" */
static bool call_sampler(Lower *l, Call *c, bool shuffle, const char **kind, const char **by)
{
    const DataSet *d = c->args[0].data;
    *kind = *by = NULL;
    if (c->args[4].kind == VAL_none) {
        if (c->args[5].kind != VAL_none) {
            lower_error(l, c->locs[5],
                        "sampled_by goes with a sampler: \"balanced\" or "
                        "\"weighted\"");
        }
        return c->args[5].kind == VAL_none;
    }
    if (!call_str(l, c, 4, kind) || (c->args[5].kind != VAL_none && !call_str(l, c, 5, by))) {
        return false;
    }
    bool balanced = str_eq(*kind, "balanced");
    if (!balanced && !str_eq(*kind, "weighted")) {
        lower_error(l, c->locs[4], "a sampler is \"balanced\" or \"weighted\", not \"%s\"", *kind);
        return false;
    }
    if (shuffle) {
        lower_error(l, c->locs[2], "a sampler draws at random already: without shuffle");
        return false;
    }
    if (*by == NULL) {
        *by = balanced ? class_field(d) : NULL;
        if (*by == NULL) {
            lower_error(l, c->locs[4], "say with sampled_by = \"...\" which field has the %s",
                        balanced ? "classes" : "weights");
        }
        return *by != NULL;
    }
    Names names = {0};
    for (int i = 0; i < d->nfields; i++) {
        if (str_eq(d->names[i], *by) && may_sample_by(d, i, balanced)) {
            return true;
        }
        vec_push(l->arena, &names, d->names[i]);
    }
    lower_error(l, c->locs[5], "`%s` has no field `%s` of %s, one a sample%s", d->decl->name, *by,
                balanced ? "integers" : "numbers", lower_did_you_mean(l, *by, &names));
    return false;
}

Val fn_loader(Lower *l, Call *c)
{
    const char *sampler, *by;
    bool shuffle, drop;
    if (c->args[0].kind != VAL_data) {
        return lower_error(l, c->locs[0], "a loader reads a data set, but this is %s",
                           val_describe(l, c->args[0]));
    }
    if (!call_bool(l, c, 2, &shuffle) || !call_bool(l, c, 3, &drop)) {
        return val_poison();
    }
    if (l->frame != NULL) {
        return lower_error(l, c->loc, "loaders are made at the top level");
    }
    if (!call_sampler(l, c, shuffle, &sampler, &by)) {
        return val_poison();
    }
    const char *name = l->assigning != NULL ? l->assigning : "loader";
    Loader *r = loader_new(l, c->args[0].data, name, c->args[1], c->locs[1]);
    if (r == NULL) {
        return val_poison();
    }
    attrs_set_bool(l->arena, &r->decl->attrs, ATTR_shuffle, shuffle);
    attrs_set_bool(l->arena, &r->decl->attrs, ATTR_drop_last, drop);
    if (sampler != NULL) {
        attrs_set_str(l->arena, &r->decl->attrs, ATTR_sampler, sampler);
        attrs_set_str(l->arena, &r->decl->attrs, ATTR_sampled_by, by);
    }
    return (Val){.kind = VAL_loader, .loader = r};
}

Val batch_member(Lower *l, Loader *loader, const char *name, Loc loc, Loc name_loc)
{
    const Prepared *p = loader->data->ready[loader->training];
    for (int i = 0; i < p->n; i++) {
        if (!str_eq(p->names[i], name)) {
            continue;
        }
        if (loader != l->loader) {
            return lower_error(l, loc,
                               "this batch is of another loop than the one around this statement");
        }
        if (!tensor_need_run(l, loc)) {
            return val_poison();
        }
        Node *n = graph_find_arg(l->run->graph, ATTR_batch, name);
        if (n == NULL) {
            Attrs attrs = {0};
            attrs_set_str(l->arena, &attrs, ATTR_batch, name);
            Builder b = {
                .graph = l->run->graph, .diag = l->diag, .loc = lower_loc(l, loc), .name = name};
            n = build_arg(&b, p->dtypes[i], &p->dims[i], attrs);
            int args = 0;
            while (args < b.graph->nnodes - 1 && b.graph->nodes[args]->op == OP_arg) {
                args++;
            }
            graph_insert(b.graph, args, 1);
        }
        return val_of_node(l, n);
    }
    Names names = {0};
    for (int i = 0; i < p->n; i++) {
        vec_push(l->arena, &names, p->names[i]);
    }
    return lower_error(l, name_loc, "batches of `%s` have no field `%s`%s",
                       loader->data->decl->name, name, lower_did_you_mean(l, name, &names));
}
