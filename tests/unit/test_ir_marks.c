/* test_ir_marks.c: the interpreter's own meaning of optimizers, clipping, loss scaling and
 * backward, against PyTorch's trajectories and against derivatives by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "golden_load.h"
#include "ir/base/strutil.h"
#include "ir/ir.h"

/* ---- a world of named values ----------------------------------------------------------------- */

typedef struct World {
    Arena *arena;
    Module *m;
    int n;
    const char *name[32];
    Value *value[32];
} World;

static void put(World *w, const char *name, Value *v)
{
    for (int i = 0; i < w->n; i++) {
        if (str_eq(w->name[i], name)) {
            w->value[i] = v;
            return;
        }
    }
    assert_true(w->n < 32);
    w->name[w->n] = name;
    w->value[w->n++] = v;
}

static Value *get(void *ctx, const char *name)
{
    World *w = ctx;
    for (int i = 0; i < w->n; i++) {
        if (str_eq(w->name[i], name)) {
            return w->value[i];
        }
    }
    return NULL;
}

static Value *give_arg(void *ctx, const Graph *g, const Node *n)
{
    (void)g;
    const Attr *a = &n->attrs.v[0];
    Value *v = get(ctx, a->s);
    if (v == NULL) {
        fail_msg("no value of %s", a->s);
    }
    return v;
}

static Value *vector(World *w, DType dt, int n, const double *v)
{
    Value *x = value_new(w->arena, dt, 1, &(int64_t){n});
    memcpy(x->v, v, (size_t)n * sizeof *v);
    return x;
}

static Node *arg(World *w, Builder *b, AttrId role, const char *name, DType dt, Dims dims)
{
    Attrs as = {0};
    attrs_set_str(w->arena, &as, role, name);
    return build_arg(b, dt, &dims, as);
}

static Node *mark(World *w, Builder *b, Op op, Node *x, Attrs as)
{
    (void)w;
    return build(b, op, 1, &x, as);
}

static void num(World *w, Decl *d, AttrId id, double x)
{
    attrs_set_expr(w->arena, &d->attrs, id, host_num(w->arena, x, HT_float));
}

static void run_step(World *w, const Graph *g, InterpMode mode)
{
    Interp in = {
        .mode = mode, .module = w->m, .arena = w->arena, .arg = give_arg, .tensor = get, .ctx = w};
    StateValue *state;
    interp_graph(&in, g, &state);
    for (; state != NULL; state = state->next) {
        put(w, state->name, state->value);
    }
}

/* ---- optimizers ------------------------------------------------------------------------------ */

static Dims w_dims(void)
{
    return (Dims){.rank = 2, .d = {dim_of(3), dim_of(5)}};
}

static Dims b_dims(void)
{
    return (Dims){.rank = 1, .d = {dim_of(5)}};
}

static void declare_optimizer(World *w, const cJSON *variant, const char *kind)
{
    const cJSON *args = cJSON_GetObjectItem(variant, "args");
    const cJSON *betas = cJSON_GetObjectItem(args, "betas");
    Decl *d = module_decl(w->m, DECL_optimizer, "opt");
    attrs_set_str(w->arena, &d->attrs, ATTR_kind, kind);
    num(w, d, ATTR_base_lr, golden_number(args, "lr", 0));
    num(w, d, ATTR_momentum, golden_number(args, "momentum", 0));
    num(w, d, ATTR_dampening, golden_number(args, "dampening", 0));
    num(w, d, ATTR_weight_decay, golden_number(args, "weight_decay", 0));
    num(w, d, ATTR_eps, golden_number(args, "eps", 0));
    attrs_set_bool(w->arena, &d->attrs, ATTR_nesterov, golden_bool(args, "nesterov"));
    if (betas != NULL) {
        num(w, d, ATTR_beta1, golden_item(cJSON_GetArrayItem(betas, 0)));
        num(w, d, ATTR_beta2, golden_item(cJSON_GetArrayItem(betas, 1)));
    }
}

static Graph *optimizer_graph(World *w, const cJSON *variant)
{
    Graph *g = graph_new(w->arena, "step", GRAPH_Step);
    Builder b = {.graph = g};
    Dims dw = w_dims(), db = b_dims();
    module_tensor(w->m, "w", TENSOR_param, DT_f32, &dw);
    module_tensor(w->m, "b", TENSOR_param, DT_f32, &db);
    arg(w, &b, ATTR_param, "w", DT_f32, dw);
    arg(w, &b, ATTR_param, "b", DT_f32, db);
    Node *grads[2] = {arg(w, &b, ATTR_batch, "grad_w", DT_f32, dw),
                      arg(w, &b, ATTR_batch, "grad_b", DT_f32, db)};
    Attrs as = {0};
    attrs_set_strs(w->arena, &as, ATTR_params, 2, (const char *[]){"w", "b"});
    Node *token = build(&b, OP_gradients, 2, grads, as);
    const cJSON *clip = cJSON_GetObjectItem(variant, "clip");
    if (clip != NULL) {
        bool norm = str_eq(golden_string(clip, "by"), "norm");
        Attrs limit = {0};
        attrs_set_float(w->arena, &limit, norm ? ATTR_max_norm : ATTR_clip_value,
                        golden_number(clip, "limit", 0));
        token = mark(w, &b, norm ? OP_clip_grad_norm : OP_clip_grad_value, token, limit);
    }
    Attrs of = {0};
    attrs_set_str(w->arena, &of, ATTR_optimizer, "opt");
    mark(w, &b, OP_optimizer_step, token, of);
    return g;
}

static void close_to(const char *what, const Value *got, const double *want, double rtol,
                     double atol)
{
    for (int64_t i = 0; i < got->count; i++) {
        if (!(fabs(got->v[i] - want[i]) <= atol + rtol * fabs(want[i]))) {
            fail_msg("%s[%lld] is %.17g, not %.17g", what, (long long)i, got->v[i], want[i]);
        }
    }
}

static void check_variant(const GoldenFile *f, const cJSON *variant, const char *kind,
                          InterpMode mode)
{
    static const char *const params[2] = {"w", "b"};
    const char *name = golden_string(variant, "name");
    World w = {.arena = arena_new()};
    w.m = module_new(w.arena, "test", "test.mpt");
    declare_optimizer(&w, variant, kind);
    Graph *g = optimizer_graph(&w, variant);
    const GoldenTensor *want[2], *grad[2];
    int64_t size[2] = {15, 5};
    for (int p = 0; p < 2; p++) {
        want[p] = golden_find(f, "%s/%s", name, params[p]);
        grad[p] = golden_find(f, "problem/grad_%s", params[p]);
        put(&w, params[p], vector(&w, DT_f32, (int)size[p], want[p]->v));
    }
    for (int step = 1; step <= 10; step++) {
        put(&w, "grad_w", vector(&w, DT_f32, 15, grad[0]->v + (step - 1) * 15));
        put(&w, "grad_b", vector(&w, DT_f32, 5, grad[1]->v + (step - 1) * 5));
        run_step(&w, g, mode);
        for (int p = 0; p < 2; p++) {
            const cJSON *t =
                cJSON_GetObjectItem(cJSON_GetObjectItem(variant, "tolerance"), params[p]);
            bool wide = mode == INTERP_f64;
            close_to(name, get(&w, params[p]), want[p]->v + step * size[p],
                     wide ? 1e-12 : golden_number(t, "rtol", 0),
                     wide ? 1e-14 : golden_number(t, "atol", 0));
        }
    }
    assert_true(get(&w, "opt.step")->v[0] == 10);
    const GoldenTensor *v = golden_find(f, "%s/state/w/exp_avg_sq", name);
    if (v != NULL && mode == INTERP_f64) {
        close_to(name, get(&w, "opt.exp_avg_sq.w"), v->v, 1e-12, 0);
    }
    arena_free(w.arena);
}

static void golden_optimizers(void **state)
{
    (void)state;
    static const struct {
        const char *class, *kind;
    } kinds[] = {
        {"torch.optim.SGD", "sgd"}, {"torch.optim.Adam", "adam"}, {"torch.optim.AdamW", "adamw"}};
    GoldenFile *f = golden_open("optimizers", "optimizers");
    const cJSON *variant;
    int checked = 0;
    cJSON_ArrayForEach(variant, cJSON_GetObjectItem(f->json, "variants"))
    {
        const cJSON *args = cJSON_GetObjectItem(variant, "args");
        bool other = golden_bool(args, "maximize") || golden_bool(args, "amsgrad") ||
                     cJSON_GetObjectItem(variant, "groups") != NULL ||
                     cJSON_GetObjectItem(variant, "note") != NULL;
        for (int k = 0; k < 3 && !other; k++) {
            if (str_eq(golden_string(variant, "class"), kinds[k].class)) {
                check_variant(f, variant, kinds[k].kind, INTERP_f64);
                check_variant(f, variant, kinds[k].kind, INTERP_typed);
                checked++;
            }
        }
    }
    assert_true(checked >= 14);
    golden_close(f);
}

/* ---- loss scaling ---------------------------------------------------------------------------- */

static Graph *scaler_graph(World *w, const cJSON *trace)
{
    const cJSON *args = cJSON_GetObjectItem(trace, "args");
    Decl *opt = module_decl(w->m, DECL_optimizer, "opt");
    attrs_set_str(w->arena, &opt->attrs, ATTR_kind, "sgd");
    num(w, opt, ATTR_base_lr, golden_number(trace, "lr", 0));
    Decl *s = module_decl(w->m, DECL_scaler, "scaler");
    attrs_set_float(w->arena, &s->attrs, ATTR_init_scale, golden_number(args, "init_scale", 0));
    attrs_set_float(w->arena, &s->attrs, ATTR_growth_factor,
                    golden_number(args, "growth_factor", 0));
    attrs_set_float(w->arena, &s->attrs, ATTR_backoff_factor,
                    golden_number(args, "backoff_factor", 0));
    attrs_set_int(w->arena, &s->attrs, ATTR_growth_interval,
                  (int64_t)golden_number(args, "growth_interval", 0));
    attrs_set_float(w->arena, &s->attrs, ATTR_scale_min, 0);
    attrs_set_float(w->arena, &s->attrs, ATTR_scale_max, INFINITY);
    attrs_set_bool(w->arena, &s->attrs, ATTR_enabled, true);
    Graph *g = graph_new(w->arena, "step", GRAPH_Step);
    Builder b = {.graph = g};
    Dims dims = {.rank = 1, .d = {dim_of(3)}};
    arg(w, &b, ATTR_param, "w", DT_f32, dims);
    Node *grad = arg(w, &b, ATTR_batch, "grad", DT_f32, dims);
    Attrs as = {0}, by = {0}, of = {0};
    attrs_set_strs(w->arena, &as, ATTR_params, 1, (const char *[]){"w"});
    Node *token = build(&b, OP_gradients, 1, &grad, as);
    attrs_set_str(w->arena, &by, ATTR_scaler, "scaler");
    of = by;
    attrs_set_str(w->arena, &of, ATTR_optimizer, "opt");
    token = mark(w, &b, OP_optimizer_step, token, of);
    mark(w, &b, OP_scaler_update, token, by);
    return g;
}

static void check_trace(const cJSON *trace)
{
    World w = {.arena = arena_new()};
    w.m = module_new(w.arena, "test", "test.mpt");
    Graph *g = scaler_graph(&w, trace);
    put(&w, "w", vector(&w, DT_f32, 3, (double[]){1, -2, 3}));
    const double base[3] = {0.25, -0.5, 0.125};
    int i = 0;
    const cJSON *it;
    cJSON_ArrayForEach(it, cJSON_GetObjectItem(trace, "iterations"))
    {
        double scale = golden_number(it, "scale", 0), grad[3];
        const cJSON *bad = cJSON_GetObjectItem(it, "bad");
        assert_true(i == 0 || get(&w, "scaler.scale")->v[0] == scale);
        for (int k = 0; k < 3; k++) {
            grad[k] = round_to(DT_f32, scale * base[k] * (1 + i % 3));
        }
        if (cJSON_IsString(bad)) {
            grad[i % 3] = golden_item(bad);
        }
        put(&w, "grad", vector(&w, DT_f32, 3, grad));
        Value *before = get(&w, "w");
        double steps = i > 0 ? get(&w, "opt.step")->v[0] : 0;
        run_step(&w, g, INTERP_typed);
        if (golden_bool(it, "skipped")) {
            assert_memory_equal(before->v, get(&w, "w")->v, 3 * sizeof(double));
        }
        assert_true(get(&w, "opt.step")->v[0] == steps + !golden_bool(it, "skipped"));
        for (int k = 0; k < 3; k++) {
            double want = golden_item(cJSON_GetArrayItem(cJSON_GetObjectItem(it, "w"), k));
            assert_true(fabs(get(&w, "w")->v[k] - want) <= 1e-6 * (1 + fabs(want)));
        }
        assert_true(get(&w, "scaler.scale")->v[0] == golden_number(it, "scale_after", -1));
        assert_true(get(&w, "scaler.tracker")->v[0] == golden_number(it, "growth_tracker", -1));
        i++;
    }
    assert_true(i > 0);
    arena_free(w.arena);
}

static void golden_scaler(void **state)
{
    (void)state;
    GoldenFile *f = golden_open("gradscaler", "traces");
    const cJSON *trace;
    int checked = 0;
    cJSON_ArrayForEach(trace, cJSON_GetObjectItem(f->json, "traces"))
    {
        /* At scale 0 PyTorch writes NaN into the parameters, which is refused here (scale_min). */
        if (!str_eq(golden_string(trace, "name"), "zero_scale")) {
            check_trace(trace);
            checked++;
        }
    }
    assert_true(checked >= 10);
    golden_close(f);
}

/* ---- backward -------------------------------------------------------------------------------- */

static void differences(void **state)
{
    (void)state;
    World w = {.arena = arena_new()};
    w.m = module_new(w.arena, "test", "test.mpt");
    Graph *g = graph_new(w.arena, "step", GRAPH_Step);
    Builder b = {.graph = g};
    Dims dx = {.rank = 2, .d = {dim_of(4), dim_of(3)}},
         dw = {.rank = 2, .d = {dim_of(5), dim_of(3)}};
    Dims dl = {.rank = 1, .d = {dim_of(4)}};
    Node *x = arg(&w, &b, ATTR_batch, "x", DT_f32, dx);
    Node *labels = arg(&w, &b, ATTR_batch, "labels", DT_i64, dl);
    Node *weight = arg(&w, &b, ATTR_param, "fc.weight", DT_f32, dw);
    Node *other = arg(&w, &b, ATTR_param, "fc2.weight", DT_f32, dw);
    Node *logits = build_linear(&b, x, weight, NULL, DT_none);
    /* what is detached takes no gradient */
    Node *sum = build2(&b, OP_add, logits, build1(&b, OP_detach, logits));
    Node *both = build2(&b, OP_add, sum, build_linear(&b, x, other, NULL, DT_none));
    Node *loss = build2(&b, OP_cross_entropy, both, labels);
    Attrs as = {0};
    attrs_set_str(w.arena, &as, ATTR_model, "fc");
    Node *token = mark(&w, &b, OP_backward, loss, as);
    Node *one = build_const(&b, DT_f32, 1);
    Node *dlogits = build3(&b, OP_cross_entropy_grad, one, both, labels);
    Node *want = build_matmul(&b, dlogits, x, true, false, DT_none);
    double values[30];
    for (int i = 0; i < 30; i++) {
        values[i] = sin(1.7 * i);
    }
    put(&w, "x", vector(&w, DT_f32, 12, values));
    put(&w, "labels", vector(&w, DT_i64, 4, (double[]){0, 3, 4, 1}));
    put(&w, "fc.weight", vector(&w, DT_f32, 15, values + 3));
    put(&w, "fc2.weight", vector(&w, DT_f32, 15, values + 7));
    Interp in = {.mode = INTERP_f64,
                 .module = w.m,
                 .arena = w.arena,
                 .arg = give_arg,
                 .tensor = get,
                 .ctx = &w};
    Value **v = interp_graph(&in, g, NULL);
    Value *set = v[token->id];
    assert_non_null(set);
    assert_int_equal(set->nmembers, 1); /* fc2 is another module */
    assert_string_equal(set->names[0], "fc.weight");
    close_to("gradient", set->members[0], v[want->id]->v, 1e-7, 1e-9);
    in.mode = INTERP_typed;
    assert_null(interp_graph(&in, g, NULL)[token->id]);
    arena_free(w.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_optimizers),
        cmocka_unit_test(golden_scaler),
        cmocka_unit_test(differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
