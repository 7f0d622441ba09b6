/* pass_golden.h: for the tests of the passes: building small modules and running their graphs in the interpreter
 * step by step, with states that carry over. Every test that includes it uses a part; hence the unused
 * attributes. */
#ifndef MPC_TEST_PASS_GOLDEN_H
#define MPC_TEST_PASS_GOLDEN_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden_load.h"
#include "ir/base/strutil.h"
#include "ir/ir.h"
#include "passes/pass.h"

#define HELPER __attribute__((unused)) static

/* ---- reference results --------------------------------------------------------------------------- */

/* A tensor of a file, or row i of it (i >= 0); NULL when there is none of that name. */
HELPER Value *golden_value(Arena *arena, const GoldenFile *f, const char *name, DType dt, int row)
{
    const GoldenTensor *t = golden_find(f, "%s", name);
    if (t == NULL) {
        return NULL;
    }
    int drop = row >= 0 ? 1 : 0;
    Value *v = value_new(arena, dt, t->rank - drop, t->dims + drop);
    memcpy(v->v, t->v + (drop ? row * v->count : 0), (size_t)v->count * sizeof v->v[0]);
    return v;
}

/* ---- modules ------------------------------------------------------------------------------------- */

typedef struct Named {
    const char *name;
    Value *value;
    struct Named *next;
} Named;

/* A module with the state of its tensors and the inputs of the next call. */
typedef struct Machine {
    Arena *arena;
    Diag *diag;
    Module *m;
    InterpMode mode;
    Named *values; /* batch fields, parameters, states, under their names */
    double lr;
    int64_t batch;
} Machine;

HELPER Value *machine_get(const Machine *mc, const char *name)
{
    for (Named *n = mc->values; n != NULL; n = n->next) {
        if (str_eq(n->name, name)) {
            return n->value;
        }
    }
    return NULL;
}

HELPER void machine_set(Machine *mc, const char *name, Value *value)
{
    for (Named *n = mc->values; n != NULL; n = n->next) {
        if (str_eq(n->name, name)) {
            n->value = value;
            return;
        }
    }
    Named *n = ARENA_NEW(mc->arena, Named);
    *n = (Named){arena_strdup(mc->arena, name), value, mc->values};
    mc->values = n;
}

HELPER void machine_set_scalar(Machine *mc, const char *name, DType dt, double x)
{
    Value *v = value_new(mc->arena, dt, 0, NULL);
    v->v[0] = x;
    machine_set(mc, name, v);
}

HELPER Value *machine_first_value(Machine *mc, const char *name)
{
    const Tensor *t = module_find_tensor(mc->m, name);
    if (t == NULL) {
        fail_msg("nothing is called %s", name);
    }
    int64_t dims[MAX_RANK];
    for (int i = 0; i < t->dims.rank; i++) {
        dims[i] = t->dims.d[i].k;
    }
    Value *v = value_new(mc->arena, t->dtype, t->dims.rank, dims);
    const Value *of = t->role == TENSOR_working ? machine_get(mc, t->of) : NULL;
    for (int64_t i = 0; i < v->count; i++) {
        v->v[i] = of == NULL                 ? attrs_float(&t->init, ATTR_low, 0)
                  : mc->mode == INTERP_typed ? round_to(t->dtype, of->v[i])
                                             : of->v[i];
    }
    return v;
}

HELPER Value *machine_arg(void *ctx, const Graph *g, const Node *n)
{
    Machine *mc = ctx;
    const Attr *a = &n->attrs.v[0];
    (void)g;
    if (a->id == ATTR_lr) {
        Value *v = value_new(mc->arena, DT_f64, 0, NULL);
        v->v[0] = mc->lr;
        return v;
    }
    assert_true(a->id == ATTR_param || a->id == ATTR_state || a->id == ATTR_batch);
    Value *v = machine_get(mc, a->s);
    if (v == NULL) {
        v = machine_first_value(mc, a->s);
        machine_set(mc, a->s, v);
    }
    return v;
}

/* Runs a graph and commits its states; host results are set under their names. */
HELPER Value **machine_call(Machine *mc, const char *graph)
{
    Graph *g = module_find_graph(mc->m, graph);
    Interp in = {
        .mode = mc->mode, .module = mc->m, .arena = mc->arena, .arg = machine_arg, .ctx = mc};
    in.syms[0] = mc->batch;
    Value **v = interp_graph(&in, g, NULL);
    for (int i = 0; i < g->nresults; i++) {
        machine_set(mc, g->results[i].name, v[g->results[i].value->id]);
    }
    return v;
}

HELPER Machine machine_new(const char *name)
{
    Machine mc = {.arena = arena_new(), .mode = INTERP_f64, .batch = 1};
    mc.diag = diag_new(mc.arena, stderr, DIAG_COLOR_never, DIAG_FORMAT_text);
    mc.m = module_new(mc.arena, name, name);
    return mc;
}

/* Runs the passes up to `last` (NULL: up to simplify) and insists on their success. */
HELPER PassCounts machine_compile(Machine *mc, DType precision, const char *last, bool verify)
{
    PassCounts counts = {0};
    PassOptions opt = {.precision = precision,
                       .verify_ir = true,
                       .verify_passes = verify,
                       .stop_after = last != NULL ? last : "simplify",
                       .counts = &counts};
    if (!passes_run(mc->m, &opt, mc->diag)) {
        fail_msg("%s", diag_text(mc->diag));
    }
    return counts;
}

HELPER Node *add_arg(Machine *mc, Builder *b, AttrId role, const char *name, DType dt,
                     const Dims *dims)
{
    Attrs attrs = {0};
    attrs_set_str(mc->arena, &attrs, role, name);
    if (role == ATTR_param && module_find_tensor(mc->m, name) == NULL) {
        module_tensor(mc->m, name, TENSOR_param, dt, dims);
    }
    return build_arg(b, dt, dims, attrs);
}

HELPER Node *add_mark(Machine *mc, Builder *b, Op op, Node *x, const char *optimizer,
                      const char *scaler)
{
    Attrs attrs = {0};
    if (optimizer != NULL) {
        attrs_set_str(mc->arena, &attrs, ATTR_optimizer, optimizer);
    }
    if (scaler != NULL) {
        attrs_set_str(mc->arena, &attrs, ATTR_scaler, scaler);
    }
    if (op == OP_backward) {
        attrs_set_str(mc->arena, &attrs, ATTR_model, "");
    }
    return build(b, op, 1, &x, attrs);
}

HELPER void set_hyper(Machine *mc, Decl *d, AttrId id, double x)
{
    attrs_set_expr(mc->arena, &d->attrs, id, host_num(mc->arena, x, HT_float));
}

HELPER Decl *add_optimizer(Machine *mc, const char *name, const char *kind, int n,
                           const char *const *params)
{
    Decl *d = module_decl(mc->m, DECL_optimizer, name);
    attrs_set_str(mc->arena, &d->attrs, ATTR_kind, kind);
    attrs_set_strs(mc->arena, &d->attrs, ATTR_params, n, params);
    set_hyper(mc, d, ATTR_base_lr, 0.1);
    return d;
}

HELPER Decl *add_scaler(Machine *mc, const char *name, double scale, double growth, double backoff,
                        double interval)
{
    Decl *d = module_decl(mc->m, DECL_scaler, name);
    attrs_set_float(mc->arena, &d->attrs, ATTR_init_scale, scale);
    attrs_set_float(mc->arena, &d->attrs, ATTR_growth_factor, growth);
    attrs_set_float(mc->arena, &d->attrs, ATTR_backoff_factor, backoff);
    attrs_set_int(mc->arena, &d->attrs, ATTR_growth_interval, (int64_t)interval);
    attrs_set_float(mc->arena, &d->attrs, ATTR_scale_min, 0);
    attrs_set_float(mc->arena, &d->attrs, ATTR_scale_max, INFINITY);
    attrs_set_bool(mc->arena, &d->attrs, ATTR_enabled, true);
    return d;
}

HELPER Dims dims_of_value(const Value *v)
{
    Dims d = {.rank = v->rank};
    for (int i = 0; i < v->rank; i++) {
        d.d[i] = dim_of(v->dims[i]);
    }
    return d;
}

/* ---- comparing ----------------------------------------------------------------------------------- */

HELPER void assert_close(const char *what, const Value *got, const Value *want, double rtol,
                         double atol)
{
    if (got->count != want->count) {
        fail_msg("%s: %lld elements, not %lld", what, (long long)got->count,
                 (long long)want->count);
    }
    for (int64_t i = 0; i < got->count; i++) {
        double x = got->v[i], y = want->v[i];
        if (!(x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= atol + rtol * fabs(y))) {
            fail_msg("%s: element %lld is %.17g, not %.17g", what, (long long)i, x, y);
        }
    }
}

#endif
