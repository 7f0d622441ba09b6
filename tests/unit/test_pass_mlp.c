/* test_pass_mlp.c: a whole small training, from the lowered graph through all passes, in the interpreter,
 * against PyTorch's loss curves: f64 to the last digits, f32, bf16 and fp16 with a loss scaler within the
 * reference's tolerance and bands. */
#include "pass_golden.h"

enum { STEPS = 20 };

static const char *const params[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};

static void build_mlp(Machine *mc, DType amp)
{
    Graph *g = graph_new(mc->arena, "step", GRAPH_Step);
    module_graph(mc->m, g);
    uint8_t sym = (uint8_t)graph_sym(g, "B", 64);
    Dims x_dims = {2, {{.k = 1, .sym = {sym, 0}}, dim_of(16)}}, y_dims = {1, {x_dims.d[0]}};
    Dims w1_dims = {2, {dim_of(32), dim_of(16)}}, b1_dims = {1, {dim_of(32)}};
    Dims w2_dims = {2, {dim_of(4), dim_of(32)}}, b2_dims = {1, {dim_of(4)}};
    Builder b = {.graph = g, .diag = mc->diag, .amp = amp};
    Node *x = add_arg(mc, &b, ATTR_batch, "x", DT_f32, &x_dims);
    Node *y = add_arg(mc, &b, ATTR_batch, "labels", DT_i64, &y_dims);
    Node *w1 = add_arg(mc, &b, ATTR_param, params[0], DT_f32, &w1_dims);
    Node *b1 = add_arg(mc, &b, ATTR_param, params[1], DT_f32, &b1_dims);
    Node *w2 = add_arg(mc, &b, ATTR_param, params[2], DT_f32, &w2_dims);
    Node *b2 = add_arg(mc, &b, ATTR_param, params[3], DT_f32, &b2_dims);
    Node *h = build1(&b, OP_relu, build_linear(&b, x, w1, b1, DT_none));
    Node *logits = build_linear(&b, h, w2, b2, DT_none);
    Node *loss = build(&b, OP_cross_entropy, 2, (Node *[]){logits, y}, (Attrs){0});
    graph_result(g, RESULT_Host, "loss", loss);
    b.amp = DT_none;
    const char *scaler = amp == DT_f16 ? "scaler" : NULL;
    if (scaler != NULL) {
        add_scaler(mc, scaler, 1024, 2, 0.5, 2000);
        loss = add_mark(mc, &b, OP_scale_loss, loss, NULL, scaler);
    }
    Node *t = add_mark(mc, &b, OP_backward, loss, NULL, NULL);
    t = add_mark(mc, &b, OP_optimizer_step, t, "opt", scaler);
    if (scaler != NULL) {
        add_mark(mc, &b, OP_scaler_update, t, NULL, scaler);
    }
    add_optimizer(mc, "opt", "sgd", 4, params);
}

static Machine start(InterpMode mode, DType amp, DType precision, const GoldenFile *weights,
                     const GoldenFile *batches)
{
    Machine mc = machine_new("mlp");
    mc.mode = mode;
    mc.lr = 0.2;
    mc.batch = 64;
    build_mlp(&mc, amp);
    machine_compile(&mc, precision, NULL, true);
    for (int i = 0; i < 4; i++) {
        machine_set(&mc, params[i], golden_value(mc.arena, weights, params[i], DT_f32, -1));
    }
    machine_set(&mc, "x", golden_value(mc.arena, batches, "x", DT_f32, 0));
    machine_set(&mc, "labels", golden_value(mc.arena, batches, "labels", DT_i64, 0));
    return mc;
}

static double item(const cJSON *run, const char *key, int i)
{
    return golden_item(cJSON_GetArrayItem(cJSON_GetObjectItem(run, key), i));
}

typedef struct Files {
    GoldenFile *curves, *weights, *batches, *final;
} Files;

static Files open_files(void)
{
    return (Files){golden_open("models/mlp", "curves"), golden_open("models/mlp", "model"),
                   golden_open("models/mlp", "batches"), golden_open("models/mlp", "final")};
}

static void close_files(Files *f)
{
    golden_close(f->curves);
    golden_close(f->weights);
    golden_close(f->batches);
    golden_close(f->final);
}

static const cJSON *variant(const Files *f)
{
    return cJSON_GetObjectItem(cJSON_GetObjectItem(f->curves->json, "variants"), "default");
}

static const cJSON *run_of(const Files *f, const char *name)
{
    return cJSON_GetObjectItem(cJSON_GetObjectItem(variant(f), "runs"), name);
}

static void check_final(Machine *mc, const Files *f, bool exact)
{
    const cJSON *tolerance =
        cJSON_GetObjectItem(cJSON_GetObjectItem(variant(f), "tolerance"), "final");
    for (int i = 0; i < 4; i++) {
        const cJSON *of = cJSON_GetObjectItem(tolerance, params[i]);
        const Value *want = golden_value(mc->arena, f->final, params[i], DT_f64, -1);
        assert_close(params[i], machine_get(mc, params[i]), want, exact ? 1e-12 : 0,
                     exact ? 1e-13 : golden_number(of, "atol", 0));
    }
}

/* Against the f64 curve, relative to rtol; the weights at the end, too. */
static void follows(InterpMode mode, double rtol)
{
    Files f = open_files();
    const cJSON *run = run_of(&f, "f64");
    Machine mc = start(mode, DT_none, DT_none, f.weights, f.batches);
    for (int i = 0; i < STEPS; i++) {
        machine_call(&mc, "step");
        double loss = machine_get(&mc, "loss")->v[0], want = item(run, "loss", i);
        double norm = machine_get(&mc, "step.grad_norm")->v[0],
               want_norm = item(run, "grad_norm", i);
        if (fabs(loss - want) > rtol * want || fabs(norm - want_norm) > rtol * want_norm) {
            fail_msg("step %d: loss %.17g, not %.17g; norm %.17g, not %.17g", i, loss, want, norm,
                     want_norm);
        }
    }
    check_final(&mc, &f, mode == INTERP_f64);
    arena_free(mc.arena);
    close_files(&f);
}

static void test_f64(void **unused)
{
    (void)unused;
    follows(INTERP_f64, 1e-12);
}

static void test_f32(void **unused)
{
    (void)unused;
    follows(INTERP_typed, 1e-5);
}

/* Inside the band of a reduced-precision run; amp or --precision asks for it. */
static void stays_in_band(const char *name, DType amp, DType precision)
{
    Files f = open_files();
    const cJSON *run = run_of(&f, name);
    Machine mc = start(INTERP_typed, amp, precision, f.weights, f.batches);
    for (int i = 0; i < STEPS; i++) {
        machine_call(&mc, "step");
        double loss = machine_get(&mc, "loss")->v[0];
        if (loss < item(run, "lo", i) || loss > item(run, "hi", i)) {
            fail_msg("%s, step %d: loss %.9g is outside of %.9g .. %.9g", name, i, loss,
                     item(run, "lo", i), item(run, "hi", i));
        }
        const Value *copy = machine_get(
            &mc, precision == DT_bf16 || amp == DT_bf16 ? "fc1.weight.bf16" : "fc1.weight.f16");
        const Value *master = machine_get(&mc, "fc1.weight");
        for (int64_t k = 0; k < copy->count; k++) {
            assert_true(copy->v[k] == round_to(copy->dtype, master->v[k]));
        }
    }
    arena_free(mc.arena);
    close_files(&f);
}

static void test_bf16(void **unused)
{
    (void)unused;
    stays_in_band("bf16", DT_bf16, DT_none);
    stays_in_band("bf16", DT_none, DT_bf16);
}

static void test_fp16_with_scaler(void **unused)
{
    (void)unused;
    stays_in_band("fp16_gradscaler", DT_f16, DT_none);
    stays_in_band("fp16_gradscaler", DT_none, DT_f16); /* with the scaler that the pass adds */
}

/* f32 asked for on a program with fp16 of its own is the f32 program, bit for bit. */
static void test_precision_f32(void **unused)
{
    (void)unused;
    Files f = open_files();
    Machine own = start(INTERP_typed, DT_none, DT_none, f.weights, f.batches);
    Machine retyped = start(INTERP_typed, DT_f16, DT_f32, f.weights, f.batches);
    for (int i = 0; i < STEPS; i++) {
        machine_call(&own, "step");
        machine_call(&retyped, "step");
    }
    for (int i = 0; i < 4; i++) {
        assert_close(params[i], machine_get(&retyped, params[i]), machine_get(&own, params[i]), 0,
                     0);
    }
    assert_null(machine_get(&retyped, "step.skipped"));
    arena_free(own.arena);
    arena_free(retyped.arena);
    close_files(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f64),           cmocka_unit_test(test_f32),
        cmocka_unit_test(test_bf16),          cmocka_unit_test(test_fp16_with_scaler),
        cmocka_unit_test(test_precision_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
