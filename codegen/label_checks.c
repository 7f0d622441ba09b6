/* label_checks.c: fields of a data set that a graph uses as indices, and how far they may go: labels of a loss,
 * rows of a table. The runtime looks at every value of such a field before the training begins.
 *
 * Seen in the kernels, where nothing can be forgotten: the class axis' index compared with a loaded label (and the
 * label that takes no part), or a load whose row another load gives. */
#include "codegen/program.h"
#include "ir/base/strutil.h"

typedef struct LabelCheck {
    int set, field;
    int64_t classes;
    bool has_ignore;
    double ignore;
    int line;
} LabelCheck;

typedef struct Checks {
    Emit *e;
    const GraphPlan *gp;
    VEC(LabelCheck) found;
} Checks;

/* The field of the batch behind a scalar, through casts; NULL: something else. */
static const Buffer *field_behind(const KCall *call, int s)
{
    const Kernel *k = call->kernel;
    while (k->scalars[s].kind == SC_cast) {
        s = k->scalars[s].in[0];
    }
    const Scalar *v = &k->scalars[s];
    const Buffer *b = v->kind == SC_load ? call->buffers[v->at.operand] : NULL;
    bool is_field =
        b != NULL && b->place == PLACE_field && b->field != NULL && dtype_info[b->dtype].is_int;
    return is_field && !str_eq(b->field, "rng") ? b : NULL;
}

/* A constant that the field is compared with for being unequal: the label without a part in the loss. */
static bool ignored_label(const GraphPlan *gp, const Buffer *field, double *value)
{
    for (int l = 0; l < gp->nlaunches; l++) {
        for (int c = 0; c < gp->launches[l].ncalls; c++) {
            const KCall *call = &gp->launches[l].calls[c];
            const Kernel *k = call->kernel;
            for (int s = 0; s < k->nscalars; s++) {
                const Scalar *v = &k->scalars[s];
                if (v->kind == SC_op && v->op == OP_ne && k->scalars[v->in[1]].kind == SC_const &&
                    field_behind(call, v->in[0]) == field) {
                    *value = k->scalars[v->in[1]].value;
                    return true;
                }
            }
        }
    }
    return false;
}

static void add_check(Checks *c, const KCall *call, const Buffer *field, int64_t classes)
{
    const Decl *loader = graph_loader(c->e, c->gp->graph);
    if (loader == NULL) {
        return;
    }
    const Decl *data = module_find(c->e->m, DECL_data, attrs_str(&loader->attrs, ATTR_dataset));
    int n;
    FieldDecl *fields = data_fields(c->e, data, &n);
    LabelCheck check = {.set = data_set_number(c->e, data->name), .field = -1, .classes = classes};
    for (int i = 0; i < n; i++) {
        if (str_eq(fields[i].name, field->field) && dtype_info[fields[i].dtype].is_int) {
            check.field = i;
        }
    }
    if (check.field < 0) {
        return; /* made by the preparation */
    }
    check.has_ignore = ignored_label(c->gp, field, &check.ignore);
    check.line = call->loc.line;
    for (int i = 0; i < c->found.n; i++) {
        LabelCheck *other = &c->found.at[i];
        if (other->set == check.set && other->field == check.field) {
            other->classes = other->classes < classes ? other->classes : classes;
            return;
        }
    }
    vec_push(c->e->arena, &c->found, check);
}

static void look_at_call(Checks *c, const KCall *call)
{
    const Kernel *k = call->kernel;
    for (int s = 0; s < k->nscalars; s++) {
        const Scalar *v = &k->scalars[s];
        if (k->kind == KERNEL_Row && v->kind == SC_op && v->op == OP_eq) {
            for (int i = 0; i < 2; i++) {
                const Buffer *field = field_behind(call, v->in[1 - i]);
                Dim classes = k->space.d[k->space.rank - 1];
                if (k->scalars[v->in[i]].kind == SC_index && field != NULL &&
                    dim_is_const(classes)) {
                    add_check(c, call, field, classes.k);
                }
            }
        }
        if (v->kind == SC_load && v->at.index >= 0) {
            const Buffer *field = field_behind(call, v->at.index);
            const Dims *table = &call->buffers[v->at.operand]->dims;
            if (field != NULL && table->rank > 0 && dim_is_const(table->d[0])) {
                add_check(c, call, field, table->d[0].k);
            }
        }
    }
}

int label_checks_emit(Emit *e)
{
    Checks c = {.e = e};
    for (int g = 0; g < e->plan->ngraphs; g++) {
        c.gp = &e->plan->graphs[g];
        for (int l = 0; l < c.gp->nlaunches; l++) {
            for (int i = 0; i < c.gp->launches[l].ncalls; i++) {
                look_at_call(&c, &c.gp->launches[l].calls[i]);
            }
        }
    }
    if (c.found.n == 0) {
        return 0;
    }
    ln_open(e, "static const MpcLabelCheck label_checks[] =");
    for (int i = 0; i < c.found.n; i++) {
        const LabelCheck *check = &c.found.at[i];
        const char *ignore =
            check->has_ignore
                ? arena_printf(e->arena, ".has_ignore = true, .ignore = %.0f, ", check->ignore)
                : "";
        ln(e, "{.set = %d, .field = %d, .classes = %lld, %s.line = %d},", check->set, check->field,
           (long long)check->classes, ignore, check->line);
    }
    ln_close(e, ";");
    ln_blank(e);
    return c.found.n;
}
