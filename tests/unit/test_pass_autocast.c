/* test_pass_autocast.c: which type every op runs in, against what PyTorch's CUDA policy gives for whole chains,
 * and where the casts stand. */
#include "pass_golden.h"

typedef struct Region {
    Machine mc;
    Graph *g;
    Builder b;
    PassCounts counts;
} Region;

static Region region_new(DType amp)
{
    Region r = {.mc = machine_new("region")};
    r.mc.diag = diag_new(r.mc.arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
    r.g = graph_new(r.mc.arena, "step", GRAPH_Step);
    module_graph(r.mc.m, r.g);
    r.b = (Builder){.graph = r.g, .diag = r.mc.diag, .amp = amp};
    return r;
}

static void region_end(Region *r)
{
    arena_free(r->mc.arena);
}

static void autocast(Region *r)
{
    r->counts = machine_compile(&r->mc, DT_none, "autocast", true);
}

static Node *tensor(Region *r, AttrId role, const char *name, DType dt, int64_t rows,
                    int64_t columns)
{
    Dims dims = {columns > 0 ? 2 : 1, {dim_of(rows), dim_of(columns)}};
    return add_arg(&r->mc, &r->b, role, name, dt, &dims);
}

static Node *batch(Region *r, const char *name)
{
    return tensor(r, ATTR_batch, name, DT_f32, 4, 8);
}

static Node *weight(Region *r, const char *name)
{
    return tensor(r, ATTR_param, name, DT_f32, 8, 8);
}

static Node *linear(Region *r, Node *x, const char *name)
{
    Node *bias = tensor(r, ATTR_param, arena_printf(r->mc.arena, "%s.bias", name), DT_f32, 8, 0);
    Node *w = weight(r, arena_printf(r->mc.arena, "%s.weight", name));
    return build_linear(&r->b, x, w, bias, DT_none);
}

static Node *number(Region *r, double x)
{
    return build_const(&r->b, DT_f32, x);
}

static Node *op2(Region *r, Op op, Node *x, Node *y)
{
    return build2(&r->b, op, x, y);
}

/* x * rsqrt(mean(x^2) + eps) * gain, and with `centre` the mean taken out first */
static Node *norm(Region *r, Node *x, bool centre)
{
    int64_t last = x->dims.rank - 1;
    if (centre) {
        x = op2(r, OP_sub, x, build_reduce(&r->b, OP_mean, x, 1, &last, true));
    }
    Node *square = build_reduce(&r->b, OP_mean, build1(&r->b, OP_square, x), 1, &last, true);
    Node *scale = build1(&r->b, OP_rsqrt, op2(r, OP_add, square, number(r, 1e-5)));
    return op2(r, OP_mul, op2(r, OP_mul, x, scale), tensor(r, ATTR_param, "gain", DT_f32, 8, 0));
}

static Node *with_axis(Region *r, Op op, Node *x, int64_t axis)
{
    Attrs attrs = {0};
    attrs_set_int(r->mc.arena, &attrs, ATTR_axis, axis);
    return build(&r->b, op, 1, &x, attrs);
}

static int count_casts(const Graph *g, const Node *of)
{
    int n = 0;
    for (int i = 0; i < g->nnodes; i++) {
        n += g->nodes[i]->op == OP_cast && (of == NULL || g->nodes[i]->in[0] == of);
    }
    return n;
}

/* ---- chains -------------------------------------------------------------------------------------- */

enum { MAX_STEPS = 16 };

static int chain_mlp(Region *r, Node **step)
{
    int n = 0;
    step[n++] = linear(r, batch(r, "x"), "a");
    step[n++] = build1(&r->b, OP_gelu, step[0]);
    step[n++] = norm(r, step[1], true);
    step[n++] = linear(r, step[2], "b");
    Node *operands[] = {step[3], tensor(r, ATTR_batch, "y", DT_i64, 4, 0)};
    step[n++] = build(&r->b, OP_cross_entropy, 2, operands, (Attrs){0});
    return n;
}

static int chain_attention(Region *r, Node **step)
{
    int n = 0;
    Node *x = batch(r, "x"), *q, *p;
    step[n++] = q = linear(r, x, "q");
    Node *k = linear(r, x, "k"), *v = linear(r, x, "v");
    Node *mask = tensor(r, ATTR_batch, "mask", DT_bool, 4, 4);
    step[n++] = build_matmul(&r->b, q, k, false, true, DT_none);
    step[n++] = op2(r, OP_mul, step[1], number(r, 0.25));
    step[n++] = build3(&r->b, OP_where, mask, number(r, -INFINITY), step[2]);
    step[n++] = p = with_axis(r, OP_softmax, step[3], 1);
    step[n++] = build_matmul(&r->b, p, v, false, false, DT_none);
    step[n++] = linear(r, step[5], "o");
    step[n++] = op2(r, OP_add, x, step[6]);
    step[n++] = norm(r, step[7], true);
    step[n++] = build_reduce(&r->b, OP_mean, step[8], -1, NULL, false);
    return n;
}

static int chain_gated(Region *r, Node **step)
{
    int n = 0;
    Node *x = batch(r, "x");
    step[n++] = norm(r, x, false);
    step[n++] = linear(r, step[0], "gate");
    Node *up = linear(r, step[0], "up");
    step[n++] = op2(r, OP_mul, build1(&r->b, OP_silu, step[1]), up);
    step[n++] = op2(r, OP_add, x, linear(r, step[2], "down"));
    Node *error = op2(r, OP_sub, step[3], batch(r, "y"));
    step[n++] = build_reduce(&r->b, OP_mean, build1(&r->b, OP_square, error), -1, NULL, false);
    return n;
}

static int chain_shared(Region *r, Node **step)
{
    Node *w = weight(r, "w"), *x = batch(r, "x");
    for (int i = 0; i < 3; i++) {
        x = build_linear(&r->b, x, w, NULL, DT_none);
    }
    step[0] = x;
    step[1] = build_reduce(&r->b, OP_sum, x, -1, NULL, false);
    return 2;
}

static void test_chains(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        int (*build)(Region *, Node **);
        int casts;
    } chains[] = {
        /* as many casts as weights, biases, inputs and changes between f16 and f32 */
        {"mlp", chain_mlp, 8},
        {"attention", chain_attention, 12},
        {"gated", chain_gated, 8},
        {"shared_weight", chain_shared, 3},
    };
    GoldenFile *file = golden_open("autocast", "chains");
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        Region r = region_new(DT_f16);
        Node *step[MAX_STEPS];
        int n = chains[i].build(&r, step);
        autocast(&r);
        const cJSON *chain = cJSON_GetObjectItem(file->json, chains[i].name);
        const cJSON *want = cJSON_GetObjectItem(cJSON_GetObjectItem(chain, "cuda_fp16"), "steps");
        assert_int_equal(cJSON_GetArraySize(want), n);
        for (int k = 0; k < n; k++) {
            const cJSON *pair = cJSON_GetArrayItem(want, k);
            bool low = str_eq(cJSON_GetStringValue(cJSON_GetArrayItem(pair, 1)), "float16");
            if (step[k]->dtype != (low ? DT_f16 : DT_f32)) {
                fail_msg("%s: %s runs in %s", chains[i].name,
                         cJSON_GetStringValue(cJSON_GetArrayItem(pair, 0)),
                         dtype_info[step[k]->dtype].name);
            }
            assert_non_null(step[k]->why);
            assert_int_equal(step[k]->amp, DT_none);
        }
        assert_int_equal(count_casts(r.g, NULL), chains[i].casts);
        assert_int_equal(r.counts.casts_made, chains[i].casts);
        region_end(&r);
    }
    golden_close(file);
}

/* ---- where casts stand --------------------------------------------------------------------------- */

/* Once for a value that is used often; below transpose and expand; none on the way back. */
static void test_placement(void **unused)
{
    (void)unused;
    Region r = region_new(DT_bf16);
    Node *x = batch(&r, "x"), *w = weight(&r, "w"), *v = tensor(&r, ATTR_param, "v", DT_f32, 8, 0);
    Node *wt = build_transpose(&r.b, w, (int[]){1, 0});
    Node *y = build_matmul(&r.b, x, wt, false, false, DT_none);
    Node *z = build_matmul(&r.b, x, w, false, false, DT_none);
    Node *wide = build_expand(&r.b, v, &(Dims){2, {dim_of(8), dim_of(8)}});
    Node *u = build_matmul(&r.b, y, wide, false, false, DT_none);
    Node *up = build_cast(&r.b, z, DT_f64); /* the file's own: cast(z, f32) */
    up->dtype = DT_f32;
    up->forced = true;
    Node *t = build_matmul(&r.b, up, w, false, false, DT_none);
    autocast(&r);
    assert_int_equal(count_casts(r.g, x), 1);
    assert_int_equal(count_casts(r.g, w), 1);
    assert_int_equal(count_casts(r.g, wt), 0);
    assert_int_equal(count_casts(r.g, v), 1);
    assert_int_equal(u->in[1]->op, OP_expand);
    assert_int_equal(u->in[1]->in[0]->op, OP_cast);
    assert_ptr_equal(t->in[0], z); /* bf16 -> f32 -> bf16 is nothing */
    assert_int_equal(r.counts.casts_made, 3);
    assert_int_equal(r.counts.casts_wanted, 7);
    region_end(&r);
}

/* A constant has no type of its own, unless it would become another number. */
static void test_constants(void **unused)
{
    (void)unused;
    static const struct {
        double value;
        DType low;
        bool survives;
    } cases[] = {
        {0.5, DT_f16, true},       {1e-12, DT_f16, false}, {1 - 1e-6, DT_f16, false},
        {-1e9, DT_f16, false},     {-1e9, DT_bf16, true},  {1e-12, DT_bf16, true},
        {-INFINITY, DT_f16, true}, {0, DT_f16, true},      {65504, DT_f16, true},
        {1.001, DT_bf16, false},   {1.001, DT_f16, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Region r = region_new(cases[i].low);
        Node *y = linear(&r, batch(&r, "x"), "a");
        r.b.loc.line = 12;
        Node *z = op2(&r, OP_mul, y, number(&r, cases[i].value));
        autocast(&r);
        assert_int_equal(z->dtype, cases[i].survives ? cases[i].low : DT_f32);
        assert_int_equal(z->in[1]->dtype, z->dtype);
        assert_int_equal(diag_warnings(r.mc.diag), cases[i].survives ? 0 : 1);
        region_end(&r);
    }
}

/* What the file says wins; outside a region nothing changes; f64 and integers pass. */
static void test_types_of_the_file(void **unused)
{
    (void)unused;
    Region r = region_new(DT_f16);
    Node *x = batch(&r, "x");
    Node *y = linear(&r, x, "a");
    Node *narrow = build_cast(&r.b, y, DT_f16), *soft = with_axis(&r, OP_softmax, narrow, 1);
    narrow->forced = soft->forced = true;
    Node *full = build_matmul(&r.b, x, weight(&r, "w"), false, false, DT_none);
    full->forced = true;
    Node *d = build1(&r.b, OP_exp, tensor(&r, ATTR_batch, "d", DT_f64, 4, 0));
    Node *i = tensor(&r, ATTR_batch, "i", DT_i32, 4, 0);
    Node *j = op2(&r, OP_add, i, i);
    r.b.amp = DT_none;
    Node *out = op2(&r, OP_add, y, x);
    Node *top = with_axis(&r, OP_argmax, y, 1);
    autocast(&r);
    assert_int_equal(soft->dtype, DT_f16);
    assert_string_equal(soft->why, "as the file says");
    assert_int_equal(full->dtype, DT_f32);
    assert_ptr_equal(full->in[0], x);
    assert_int_equal(d->dtype, DT_f64);
    assert_int_equal(j->dtype, DT_i32);
    assert_int_equal(out->dtype, DT_f32);
    assert_int_equal(out->in[0]->op, OP_cast);
    assert_string_equal(out->why, "outside autocast: keeps f32");
    assert_ptr_equal(top->in[0], y);
    region_end(&r);
}

/* Losses are f32 wherever they stand, and the loss scale multiplies an f32 number. */
static void test_scaled_loss_is_f32(void **unused)
{
    (void)unused;
    Region r = region_new(DT_f16);
    Node *w = tensor(&r, ATTR_param, "w", DT_f32, 8, 0);
    Node *dot = build_matmul(&r.b, w, w, false, false, DT_none);
    r.b.amp = DT_none;
    add_scaler(&r.mc, "scaler", 65536, 2, 0.5, 10);
    Node *scaled = add_mark(&r.mc, &r.b, OP_scale_loss, dot, NULL, "scaler");
    autocast(&r);
    assert_int_equal(dot->dtype, DT_f16);
    assert_int_equal(scaled->dtype, DT_f32);
    region_end(&r);
}

/* log(softmax), log(sigmoid), log(1 - sigmoid) where the arguments of exp are large. */
static void test_stable_logarithms(void **unused)
{
    (void)unused;
    Region r = region_new(DT_none);
    Node *x = batch(&r, "x");
    Node *s = build1(&r.b, OP_sigmoid, x);
    Node *logs[] = {build1(&r.b, OP_log, with_axis(&r, OP_softmax, x, 1)), build1(&r.b, OP_log, s),
                    build1(&r.b, OP_log, op2(&r, OP_sub, number(&r, 1), s))};
    const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        graph_result(r.g, RESULT_Host, names[i],
                     build_reduce(&r.b, OP_amin, logs[i], -1, NULL, false));
    }
    machine_compile(&r.mc, DT_none, "infer", true);
    assert_non_null(strstr(diag_text(r.mc.diag), "log(softmax(x)) is computed as log_softmax(x)"));
    Value *v = value_new(r.mc.arena, DT_f32, 2, (int64_t[]){4, 8});
    v->v[0] = 800;
    v->v[1] = -800;
    machine_set(&r.mc, "x", v);
    machine_call(&r.mc, "step");
    assert_true(machine_get(&r.mc, "a")->v[0] == -1600);
    assert_true(machine_get(&r.mc, "b")->v[0] == -800);
    assert_true(machine_get(&r.mc, "c")->v[0] == -800);
    region_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_placement),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_types_of_the_file),
        cmocka_unit_test(test_scaled_loss_is_f32),
        cmocka_unit_test(test_stable_logarithms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
