/* test_pass_optimizers.c: the plain ops that the scaling pass makes of optimizers, clipping and loss scaling,
 * against PyTorch's trajectories and GradScaler's traces. */
#include "pass_golden.h"

/* ---- optimizers ---------------------------------------------------------------------------------- */

static bool is_implemented(const cJSON *variant)
{
    const cJSON *args = cJSON_GetObjectItem(variant, "args");
    const char *class = golden_string(variant, "class");
    bool known = str_eq(class, "torch.optim.SGD") || str_eq(class, "torch.optim.Adam") ||
                 str_eq(class, "torch.optim.AdamW");
    return known && !golden_bool(args, "maximize") && !golden_bool(args, "amsgrad") &&
           cJSON_GetObjectItem(variant, "groups") == NULL &&
           cJSON_GetObjectItem(variant, "note") == NULL;
}

static void declare_optimizer(Machine *mc, const cJSON *variant)
{
    static const char *const params[] = {"w", "b"};
    const cJSON *args = cJSON_GetObjectItem(variant, "args");
    const char *class = golden_string(variant, "class");
    const char *kind = str_eq(class, "torch.optim.SGD")    ? "sgd"
                       : str_eq(class, "torch.optim.Adam") ? "adam"
                                                           : "adamw";
    Decl *d = add_optimizer(mc, "opt", kind, 2, params);
    mc->lr = golden_number(args, "lr", 0);
    set_hyper(mc, d, ATTR_weight_decay, golden_number(args, "weight_decay", 0));
    if (str_eq(kind, "sgd")) {
        set_hyper(mc, d, ATTR_momentum, golden_number(args, "momentum", 0));
        set_hyper(mc, d, ATTR_dampening, golden_number(args, "dampening", 0));
        attrs_set_bool(mc->arena, &d->attrs, ATTR_nesterov, golden_bool(args, "nesterov"));
    } else {
        const cJSON *betas = cJSON_GetObjectItem(args, "betas");
        set_hyper(mc, d, ATTR_beta1, cJSON_GetArrayItem(betas, 0)->valuedouble);
        set_hyper(mc, d, ATTR_beta2, cJSON_GetArrayItem(betas, 1)->valuedouble);
        set_hyper(mc, d, ATTR_eps, golden_number(args, "eps", 1e-8));
    }
}

/* gradients (of the batch) -> clipping -> step, as after autodiff. In f64 mode everything is f64 anyway. */
static void build_step(Machine *mc, const cJSON *variant)
{
    static const char *const params[] = {"w", "b"};
    const cJSON *clip = cJSON_GetObjectItem(variant, "clip");
    Graph *g = graph_new(mc->arena, "step", GRAPH_Step);
    Builder b = {.graph = g, .diag = mc->diag};
    Dims w = {2, {dim_of(3), dim_of(5)}}, bias = {1, {dim_of(5)}};
    module_graph(mc->m, g);
    add_arg(mc, &b, ATTR_param, "w", DT_f32, &w);
    add_arg(mc, &b, ATTR_param, "b", DT_f32, &bias);
    Node *grads[] = {add_arg(mc, &b, ATTR_batch, "grad_w", DT_f32, &w),
                     add_arg(mc, &b, ATTR_batch, "grad_b", DT_f32, &bias)};
    Attrs attrs = {0};
    attrs_set_strs(mc->arena, &attrs, ATTR_params, 2, params);
    Node *token = build(&b, OP_gradients, 2, grads, attrs);
    if (clip != NULL) {
        bool by_norm = str_eq(golden_string(clip, "by"), "norm");
        Attrs limit = {0};
        attrs_set_str(mc->arena, &limit, ATTR_model, "");
        attrs_set_float(mc->arena, &limit, by_norm ? ATTR_max_norm : ATTR_clip_value,
                        golden_number(clip, "limit", 0));
        token = build(&b, by_norm ? OP_clip_grad_norm : OP_clip_grad_value, 1, &token, limit);
    }
    add_mark(mc, &b, OP_optimizer_step, token, "opt", NULL);
    mc->m->last_pass = "autodiff";
}

static void check_norm(Machine *mc, const cJSON *variant, int step)
{
    const cJSON *norms = cJSON_GetObjectItem(cJSON_GetObjectItem(variant, "clip"), "norms");
    if (norms != NULL) {
        double want = golden_item(cJSON_GetArrayItem(norms, step));
        double got = machine_get(mc, "step.grad_norm")->v[0];
        assert_true(fabs(got - want) <= 1e-6 * want);
    }
}

static void run_variant(const cJSON *variant, const GoldenFile *t, InterpMode mode)
{
    const char *name = golden_string(variant, "name");
    const cJSON *tolerance = cJSON_GetObjectItem(variant, "tolerance");
    Machine mc = machine_new("optimizer");
    mc.mode = mode;
    declare_optimizer(&mc, variant);
    build_step(&mc, variant);
    machine_compile(&mc, DT_none, NULL, true);
    machine_set(&mc, "w", golden_value(mc.arena, t, "problem/w0", DT_f32, -1));
    machine_set(&mc, "b", golden_value(mc.arena, t, "problem/b0", DT_f32, -1));
    for (int step = 0; step < 10; step++) {
        machine_set(&mc, "grad_w", golden_value(mc.arena, t, "problem/grad_w", DT_f32, step));
        machine_set(&mc, "grad_b", golden_value(mc.arena, t, "problem/grad_b", DT_f32, step));
        machine_call(&mc, "step");
        check_norm(&mc, variant, step);
        for (const char *p = "wb"; *p != 0; p++) {
            char param[2] = {*p, 0}, what[128];
            snprintf(what, sizeof what, "%s/%s", name, param);
            const cJSON *limit = cJSON_GetObjectItem(tolerance, param);
            Value *want = golden_value(mc.arena, t, what, DT_f64, step + 1);
            assert_close(what, machine_get(&mc, param), want,
                         mode == INTERP_f64 ? 1e-12 : golden_number(limit, "rtol", 0),
                         mode == INTERP_f64 ? 1e-13 : golden_number(limit, "atol", 0));
        }
    }
    assert_true(machine_get(&mc, "opt.step")->v[0] == 10);
    arena_free(mc.arena);
}

static void test_optimizers(void **unused)
{
    (void)unused;
    GoldenFile *file = golden_open("optimizers", "optimizers");
    const cJSON *variant;
    int n = 0;
    cJSON_ArrayForEach(variant, cJSON_GetObjectItem(file->json, "variants"))
    {
        if (is_implemented(variant)) {
            run_variant(variant, file, INTERP_f64);
            run_variant(variant, file, INTERP_typed);
            n++;
        }
    }
    assert_true(n >= 16);
    golden_close(file);
}

/* Hyperparameters that are options of the program come in as arguments, one for each expression. */
static void test_hyperparameters_of_the_host(void **unused)
{
    (void)unused;
    static const char *const params[] = {"w", "b"};
    Machine mc = machine_new("hyper");
    Decl *d = add_optimizer(&mc, "opt", "adamw", 2, params);
    HostExpr *e = host_expr(mc.arena, HE_option, "decay", 0, NULL);
    e->type = HT_float;
    Decl *option = module_decl(mc.m, DECL_option, "decay");
    attrs_set_str(mc.arena, &option->attrs, ATTR_type, "float");
    attrs_set_expr(mc.arena, &option->attrs, ATTR_default, host_num(mc.arena, 0.1, HT_float));
    attrs_set_expr(mc.arena, &d->attrs, ATTR_weight_decay, e);
    cJSON *none = cJSON_CreateObject();
    build_step(&mc, none);
    machine_compile(&mc, DT_none, NULL, true);
    Graph *g = module_find_graph(mc.m, "step");
    int args = 0;
    for (int i = 0; i < g->nnodes; i++) {
        args += g->nodes[i]->op == OP_arg && attrs_expr(&g->nodes[i]->attrs, ATTR_host) != NULL;
    }
    assert_int_equal(args, 1);
    cJSON_Delete(none);
    arena_free(mc.arena);
}

/* ---- the loss scale ------------------------------------------------------------------------------ */

/* loss = sum(w * g): the gradient of w is g, times the scale. */
static void build_scaled_step(Machine *mc, const char *param, const char *field,
                              const char *optimizer, Builder *b, Node **loss)
{
    Dims three = {1, {dim_of(3)}};
    (void)optimizer;
    Node *w = add_arg(mc, b, ATTR_param, param, DT_f32, &three);
    Node *g = add_arg(mc, b, ATTR_batch, field, DT_f32, &three);
    Node *sum = build_reduce(b, OP_sum, build2(b, OP_mul, w, g), -1, NULL, false);
    *loss = *loss == NULL ? sum : build2(b, OP_add, *loss, sum);
}

static void set_gradient(Machine *mc, int i, const cJSON *iteration)
{
    int64_t three[] = {3};
    Value *g = value_new(mc->arena, DT_f32, 1, three);
    const double base[] = {0.25, -0.5, 0.125};
    for (int k = 0; k < 3; k++) {
        g->v[k] = base[k] * (1 + i % 3);
    }
    const cJSON *bad = cJSON_GetObjectItem(iteration, "bad");
    if (cJSON_IsString(bad)) { /* which element: the one that is not finite once unscaled */
        const cJSON *unscaled = cJSON_GetObjectItem(iteration, "unscaled");
        for (int k = 0; k < 3; k++) {
            if (cJSON_IsString(cJSON_GetArrayItem(unscaled, k))) {
                g->v[k] = strtod(bad->valuestring, NULL);
            }
        }
    }
    machine_set(mc, "g", g);
}

static void check_state(Machine *mc, const char *trace, int i, const char *name, double want)
{
    double got = machine_get(mc, name)->v[0];
    if (got != want) {
        fail_msg("%s, iteration %d: %s is %.17g, not %.17g", trace, i, name, got, want);
    }
}

static void run_trace(const cJSON *trace, InterpMode mode)
{
    static const char *const params[] = {"w"};
    const char *name = golden_string(trace, "name");
    const cJSON *args = cJSON_GetObjectItem(trace, "args");
    Machine mc = machine_new("scaler");
    mc.mode = mode;
    mc.lr = golden_number(trace, "lr", 0);
    add_optimizer(&mc, "opt", "sgd", 1, params);
    add_scaler(&mc, "scaler", golden_number(args, "init_scale", 0),
               golden_number(args, "growth_factor", 0), golden_number(args, "backoff_factor", 0),
               golden_number(args, "growth_interval", 0));
    Graph *g = graph_new(mc.arena, "step", GRAPH_Step);
    Builder b = {.graph = g, .diag = mc.diag};
    module_graph(mc.m, g);
    Node *loss = NULL;
    build_scaled_step(&mc, "w", "g", "opt", &b, &loss);
    Node *t = add_mark(&mc, &b, OP_scale_loss, loss, NULL, "scaler");
    t = add_mark(&mc, &b, OP_backward, t, NULL, NULL);
    t = add_mark(&mc, &b, OP_optimizer_step, t, "opt", "scaler");
    add_mark(&mc, &b, OP_scaler_update, t, NULL, "scaler");
    machine_compile(&mc, DT_none, NULL, true);
    int64_t three[] = {3};
    Value *w = value_new(mc.arena, DT_f32, 1, three);
    memcpy(w->v, (double[]){1, -2, 3}, 3 * sizeof(double));
    machine_set(&mc, "w", w);
    const cJSON *iteration;
    int i = 0;
    cJSON_ArrayForEach(iteration, cJSON_GetObjectItem(trace, "iterations"))
    {
        set_gradient(&mc, i, iteration);
        machine_call(&mc, "step");
        check_state(&mc, name, i, "step.scale", golden_number(iteration, "scale", -1));
        check_state(&mc, name, i, "scaler.scale", golden_number(iteration, "scale_after", -1));
        check_state(&mc, name, i, "step.scale_next", golden_number(iteration, "scale_after", -1));
        check_state(&mc, name, i, "scaler.tracker", golden_number(iteration, "growth_tracker", -1));
        check_state(&mc, name, i, "step.skipped", golden_bool(iteration, "skipped"));
        for (int k = 0; k < 3 && mode == INTERP_typed; k++) {
            double want = cJSON_GetArrayItem(cJSON_GetObjectItem(iteration, "w"), k)->valuedouble;
            if (machine_get(&mc, "w")->v[k] != want) {
                fail_msg("%s, iteration %d: w[%d] is %.17g, not %.17g", name, i, k,
                         machine_get(&mc, "w")->v[k], want);
            }
        }
        i++;
    }
    arena_free(mc.arena);
}

static void test_scaler_traces(void **unused)
{
    (void)unused;
    GoldenFile *file = golden_open("gradscaler", "traces");
    const cJSON *trace;
    int n = 0;
    cJSON_ArrayForEach(trace, cJSON_GetObjectItem(file->json, "traces"))
    {
        const char *name = golden_string(trace, "name");
        if (!str_eq(name, "zero_scale")) { /* a scale of 0 is refused, not reproduced */
            run_trace(trace, INTERP_typed);
            n++;
        }
    }
    assert_true(n >= 11);
    golden_close(file);
}

/* Each optimizer is skipped on its own, the scale moves once; states and counters of a skipped one stay. */
static void test_two_optimizers(void **unused)
{
    (void)unused;
    static const char *const v[] = {"v"}, *const w[] = {"w"};
    Machine mc = machine_new("two");
    mc.mode = INTERP_typed;
    mc.lr = 0.5;
    add_optimizer(&mc, "first", "sgd", 1, v);
    add_optimizer(&mc, "second", "adam", 1, w);
    add_scaler(&mc, "scaler", 1024, 2, 0.5, 10);
    Graph *g = graph_new(mc.arena, "step", GRAPH_Step);
    Builder b = {.graph = g, .diag = mc.diag};
    module_graph(mc.m, g);
    Node *loss = NULL;
    build_scaled_step(&mc, "v", "gv", "first", &b, &loss);
    build_scaled_step(&mc, "w", "gw", "second", &b, &loss);
    Node *t = add_mark(&mc, &b, OP_scale_loss, loss, NULL, "scaler");
    t = add_mark(&mc, &b, OP_backward, t, NULL, NULL);
    t = add_mark(&mc, &b, OP_optimizer_step, t, "first", "scaler");
    t = add_mark(&mc, &b, OP_optimizer_step, t, "second", "scaler");
    add_mark(&mc, &b, OP_scaler_update, t, NULL, "scaler");
    machine_compile(&mc, DT_none, NULL, true);
    int64_t three[] = {3};
    Value *good = value_new(mc.arena, DT_f32, 1, three),
          *bad = value_new(mc.arena, DT_f32, 1, three);
    good->v[0] = bad->v[0] = 1;
    bad->v[1] = INFINITY;
    machine_set(&mc, "gv", good);
    machine_set(&mc, "gw", bad);
    machine_call(&mc, "step");
    check_state(&mc, "two", 0, "v", -0.5);
    check_state(&mc, "two", 0, "w", 0);
    check_state(&mc, "two", 0, "first.step", 1);
    check_state(&mc, "two", 0, "second.step", 0);
    check_state(&mc, "two", 0, "second.exp_avg.w", 0);
    check_state(&mc, "two", 0, "scaler.scale", 512);
    check_state(&mc, "two", 0, "step.skipped", 1);
    arena_free(mc.arena);
}

/* ---- proofs -------------------------------------------------------------------------------------- */

/* A step with the given markers between backward and optimizer; true when the passes take it. */
static bool accepted(const Op *marks, int n, bool scaled, const char *says)
{
    static const char *const params[] = {"w"};
    Machine mc = machine_new("proof");
    mc.diag = diag_new(mc.arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
    add_optimizer(&mc, "opt", "sgd", 1, params);
    add_scaler(&mc, "scaler", 1024, 2, 0.5, 10);
    Graph *g = graph_new(mc.arena, "step", GRAPH_Step);
    Builder b = {.graph = g, .diag = mc.diag};
    module_graph(mc.m, g);
    Node *loss = NULL;
    build_scaled_step(&mc, "w", "g", "opt", &b, &loss);
    Node *t = scaled ? add_mark(&mc, &b, OP_scale_loss, loss, NULL, "scaler") : loss;
    t = add_mark(&mc, &b, OP_backward, t, NULL, NULL);
    for (int i = 0; i < n; i++) {
        bool steps = marks[i] == OP_optimizer_step || marks[i] == OP_unscale;
        bool plain = i > 0 && marks[i] == OP_optimizer_step && marks[i - 1] == OP_optimizer_step;
        t = add_mark(&mc, &b, marks[i], t, steps ? "opt" : NULL, steps && !plain ? "scaler" : NULL);
    }
    PassOptions opt = {.stop_after = "scaling"};
    bool ok = passes_run(mc.m, &opt, mc.diag);
    if (!ok && strstr(diag_text(mc.diag), says) == NULL) {
        fail_msg("said: %s", diag_text(mc.diag));
    }
    arena_free(mc.arena);
    return ok;
}

static void test_unscaled_exactly_once(void **unused)
{
    (void)unused;
    const Op right[] = {OP_unscale, OP_clip_grad_norm, OP_optimizer_step};
    const Op twice[] = {OP_unscale, OP_unscale, OP_optimizer_step};
    const Op early[] = {OP_clip_grad_norm, OP_optimizer_step};
    const Op step[] = {OP_optimizer_step};
    assert_true(accepted(right, 3, true, ""));
    assert_false(accepted(twice, 3, true, "second time"));
    assert_false(accepted(early, 2, true, "comes first"));
    assert_true(accepted(step, 1, true, ""));
    assert_false(accepted(step, 1, false, "scaler.scale(loss)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_hyperparameters_of_the_host),
        cmocka_unit_test(test_scaler_traces),
        cmocka_unit_test(test_two_optimizers),
        cmocka_unit_test(test_unscaled_exactly_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
