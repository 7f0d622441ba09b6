/* test_pass_gradients.c: what autodiff makes, against PyTorch's gradients of every op that both have, in f64 to
 * the last digits; and the types of gradients, which parameters get one, and what has no derivative. */
#include "golden_ops.h"
#include "pass_golden.h"

/* ---- values -------------------------------------------------------------------------------------- */

static bool has_gradient(const cJSON *test, const char *input)
{
    const cJSON *in;
    cJSON_ArrayForEach(in, cJSON_GetObjectItem(test, "inputs"))
    {
        if (str_eq(golden_string(in, "name"), input)) {
            return golden_bool(in, "grad");
        }
    }
    return false;
}

/* Turns a case's inputs into parameters and adds loss = sum of out * gout over the outputs, and backward. */
static bool add_loss(Machine *mc, GoldenGraph *g, const GoldenFile *file, const char *test)
{
    for (int i = 0; i < g->nin; i++) {
        if (has_gradient(g->test, g->in_name[i])) {
            g->in[i]->attrs = (Attrs){0};
            attrs_set_str(mc->arena, &g->in[i]->attrs, ATTR_param, g->in_name[i]);
            module_tensor(mc->m, g->in_name[i], TENSOR_param, DT_f32, &g->in[i]->dims);
        }
    }
    Node *loss = NULL;
    for (int i = 0; i < g->nout; i++) {
        char *name = arena_printf(mc->arena, "%s/gout/%s", test, g->out_name[i]);
        if (golden_find(file, "%s", name) == NULL) {
            continue;
        }
        Node *gout = add_arg(mc, &g->b, ATTR_batch, name, DT_f32, &g->out[i]->dims);
        Node *product = build2(&g->b, OP_mul, g->out[i], gout);
        Node *sum = build_reduce(&g->b, OP_sum, product, -1, NULL, false);
        loss = loss == NULL ? sum : build2(&g->b, OP_add, loss, sum);
        machine_set(mc, name, golden_value(mc->arena, file, name, DT_f32, -1));
    }
    if (loss != NULL) {
        add_mark(mc, &g->b, OP_backward, loss, NULL, NULL);
    }
    return loss != NULL;
}

static void check_gradients(Machine *mc, const char *op, const GoldenFile *file, const char *test)
{
    Graph *g = mc->m->graphs[0];
    const Node *gradients = NULL;
    for (int i = 0; i < g->nnodes; i++) {
        gradients = g->nodes[i]->op == OP_gradients ? g->nodes[i] : gradients;
    }
    assert_non_null(gradients);
    const Attr *params = attrs_find(&gradients->attrs, ATTR_params);
    Value **v = machine_call(mc, g->name);
    for (int i = 0; i < gradients->nin; i++) {
        char *name = arena_printf(mc->arena, "%s/gin/%s", test, params->strs.v[i]);
        char *what = arena_printf(mc->arena, "%s/%s", op, name);
        const Value *want = golden_value(mc->arena, file, name, DT_f64, -1);
        assert_non_null(want);
        double most = 0;
        for (int64_t k = 0; k < want->count; k++) {
            most = fmax(most, fabs(want->v[k]));
        }
        assert_int_equal(gradients->in[i]->dtype, DT_f32);
        assert_close(what, v[gradients->in[i]->id], want, 1e-10, 1e-12 * most + 1e-300);
    }
}

static int check_case(const char *op, const GoldenFile *file, const cJSON *test)
{
    const char *name = golden_string(test, "name");
    Machine mc = machine_new(op);
    GoldenGraph g;
    bool ours = golden_graph(mc.arena, op, test, DT_f32, &g);
    if (ours) {
        module_graph(mc.m, g.b.graph);
        g.b.diag = mc.diag;
        for (int i = 0; i < g.nin; i++) {
            char *in = arena_printf(mc.arena, "%s/in/%s", name, g.in_name[i]);
            machine_set(&mc, g.in_name[i], golden_value(mc.arena, file, in, g.in[i]->dtype, -1));
        }
        ours = add_loss(&mc, &g, file, name);
    }
    if (ours) {
        machine_compile(&mc, DT_none, "autodiff", false);
        check_gradients(&mc, op, file, name);
        machine_compile(&mc, DT_none, "simplify", false);
    }
    arena_free(mc.arena);
    return ours;
}

static void test_golden_gradients(void **unused)
{
    (void)unused;
    int checked = 0;
    for (int i = 0; golden_op_names[i] != NULL; i++) {
        GoldenFile *file = golden_open("ops", golden_op_names[i]);
        const cJSON *test;
        cJSON_ArrayForEach(test, cJSON_GetObjectItem(file->json, "cases"))
        {
            checked += check_case(golden_op_names[i], file, test);
        }
        golden_close(file);
    }
    assert_true(checked > 150);
}

/* ---- types and structure ------------------------------------------------------------------------- */

typedef struct Small {
    Machine mc;
    Graph *g;
    Builder b;
    Dims batch; /* [B, 4] */
} Small;

static Small small_new(DType amp)
{
    Small s = {.mc = machine_new("small")};
    s.mc.diag = diag_new(s.mc.arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
    s.mc.batch = 3;
    s.g = graph_new(s.mc.arena, "step", GRAPH_Step);
    module_graph(s.mc.m, s.g);
    uint8_t sym = (uint8_t)graph_sym(s.g, "B", 8);
    s.batch = (Dims){2, {{.k = 1, .sym = {sym, 0}}, dim_of(4)}};
    s.b = (Builder){.graph = s.g, .diag = s.mc.diag, .amp = amp};
    Decl *off = module_decl(s.mc.m, DECL_scaler, "off"); /* f16 without a scale is meant */
    attrs_set_float(s.mc.arena, &off->attrs, ATTR_init_scale, 1);
    attrs_set_bool(s.mc.arena, &off->attrs, ATTR_enabled, false);
    return s;
}

static Node *param(Small *s, const char *name, int64_t rows, int64_t columns)
{
    Dims dims = {columns > 0 ? 2 : 1, {dim_of(rows), dim_of(columns)}};
    return add_arg(&s->mc, &s->b, ATTR_param, name, DT_f32, &dims);
}

static Node *mean_all(Small *s, Node *x)
{
    return build_reduce(&s->b, OP_mean, x, -1, NULL, false);
}

/* The gradient of a parameter after autodiff; NULL when there is none. */
static Node *gradient_of(const Small *s, const char *name)
{
    for (int i = 0; i < s->g->nnodes; i++) {
        Node *n = s->g->nodes[i];
        const Attr *params = n->op == OP_gradients ? attrs_find(&n->attrs, ATTR_params) : NULL;
        for (int k = 0; params != NULL && k < params->strs.n; k++) {
            if (str_eq(params->strs.v[k], name)) {
                return n->in[k];
            }
        }
    }
    return NULL;
}

static bool differentiates(Small *s, Node *loss, bool verify)
{
    add_mark(&s->mc, &s->b, OP_backward, loss, NULL, NULL);
    PassOptions opt = {.verify_ir = true, .verify_passes = verify, .stop_after = "autodiff"};
    return passes_run(s->mc.m, &opt, s->mc.diag);
}

static void assert_says(const Small *s, const char *text)
{
    if (strstr(diag_text(s->mc.diag), text) == NULL) {
        fail_msg("said: %s", diag_text(s->mc.diag));
    }
}

/* A weight that is used twice, transposed once: its f16 uses add up in f32, straight from accumulators. */
static void test_shared_weight_in_f32(void **unused)
{
    (void)unused;
    Small s = small_new(DT_f16);
    Node *x = add_arg(&s.mc, &s.b, ATTR_batch, "x", DT_f32, &s.batch);
    Node *w = param(&s, "w", 4, 4);
    Node *h = build1(&s.b, OP_relu, build_matmul(&s.b, x, w, false, false, DT_none));
    Node *wt = build_transpose(&s.b, w, (int[]){1, 0});
    Node *y = build_matmul(&s.b, h, wt, false, false, DT_none);
    assert_true(differentiates(&s, mean_all(&s, y), true));
    Node *sum = gradient_of(&s, "w");
    assert_int_equal(sum->dtype, DT_f32);
    assert_int_equal(sum->op, OP_add);
    assert_string_equal(sum->name, "w.grad");
    int low = 0, casts = 0;
    for (int i = 0; i < s.g->nnodes; i++) {
        Node *n = s.g->nodes[i];
        low += n->op == OP_matmul && n->dtype == DT_f16;
        casts += n->op == OP_cast && n->in[0] == w;
        /* products of the weight's gradient leave the accumulator in f32 */
        assert_false(n->op == OP_matmul && n->dtype == DT_f32 && n->in[0]->dtype != DT_f16);
    }
    assert_int_equal(casts, 1);
    assert_int_equal(
        low, 2); /* x @ w, and the gradient of h; x needs none, and y itself is not returned */
    arena_free(s.mc.arena);
}

/* Everything at once: symbolic means, broadcasting, embedding, normalisation, in f16, against differences. */
static void test_finite_differences(void **unused)
{
    (void)unused;
    for (int amp = 0; amp < 3; amp++) {
        Small s = small_new((DType[]){DT_none, DT_f16, DT_bf16}[amp]);
        Dims ids = {1, {s.batch.d[0]}};
        Node *table = param(&s, "table", 5, 4), *gain = param(&s, "gain", 4, 0);
        Node *w = param(&s, "w", 6, 4), *bias = param(&s, "bias", 6, 0);
        Node *index = add_arg(&s.mc, &s.b, ATTR_batch, "index", DT_i32, &ids);
        Node *labels = add_arg(&s.mc, &s.b, ATTR_batch, "labels", DT_u8, &ids);
        Node *e = build(&s.b, OP_embedding, 2, (Node *[]){table, index}, (Attrs){0});
        int64_t last = 1;
        Node *mean = build_reduce(&s.b, OP_mean, e, 1, &last, true);
        Node *var = build_reduce(&s.b, OP_var, e, 1, &last, true);
        Node *eps = build_const(&s.b, DT_f32, 1e-5);
        Node *scale = build1(&s.b, OP_rsqrt, build2(&s.b, OP_add, var, eps));
        Node *centred = build2(&s.b, OP_sub, e, mean);
        Node *normed = build2(&s.b, OP_mul, build2(&s.b, OP_mul, centred, scale), gain);
        Node *logits = build_linear(&s.b, build1(&s.b, OP_gelu, normed), w, bias, DT_none);
        Node *loss = build(&s.b, OP_cross_entropy, 2, (Node *[]){logits, labels}, (Attrs){0});
        Node *penalty = mean_all(&s, build1(&s.b, OP_square, logits));
        assert_true(differentiates(&s, build2(&s.b, OP_add, loss, penalty), true));
        const char *const all[] = {"table", "gain", "w", "bias"};
        for (int i = 0; i < 4; i++) {
            assert_non_null(gradient_of(&s, all[i]));
            assert_int_equal(gradient_of(&s, all[i])->dtype, DT_f32);
        }
        machine_compile(&s.mc, DT_none, NULL, true);
        arena_free(s.mc.arena);
    }
}

static void test_detach_stops(void **unused)
{
    (void)unused;
    Small s = small_new(DT_none);
    Node *v = param(&s, "v", 4, 0), *w = param(&s, "w", 4, 0);
    Node *y = build2(&s.b, OP_mul, build1(&s.b, OP_detach, v), w);
    assert_true(differentiates(&s, mean_all(&s, y), true));
    assert_null(gradient_of(&s, "v"));
    assert_non_null(gradient_of(&s, "w"));
    arena_free(s.mc.arena);
}

static void test_unreached_parameters(void **unused)
{
    (void)unused;
    static const char *const names[] = {"v", "w"};
    Small s = small_new(DT_none);
    Node *w = param(&s, "w", 4, 0);
    param(&s, "v", 4, 0);
    add_optimizer(&s.mc, "opt", "sgd", 2, names);
    Node *t = add_mark(&s.mc, &s.b, OP_backward, mean_all(&s, w), NULL, NULL);
    add_mark(&s.mc, &s.b, OP_optimizer_step, t, "opt", NULL);
    machine_compile(&s.mc, DT_none, "autodiff", true);
    assert_int_equal(diag_warnings(s.mc.diag), 1);
    assert_says(&s, "the loss does not depend on v");
    arena_free(s.mc.arena);

    s = small_new(DT_none);
    Node *x = add_arg(&s.mc, &s.b, ATTR_batch, "x", DT_f32, &s.batch);
    assert_false(differentiates(&s, mean_all(&s, x), false));
    assert_says(&s, "no parameter reaches this loss");
    arena_free(s.mc.arena);
}

static void test_no_derivative(void **unused)
{
    (void)unused;
    Small s = small_new(DT_none);
    Dims ids = {1, {s.batch.d[0]}};
    Node *w = param(&s, "w", 4, 0);
    Node *labels = add_arg(&s.mc, &s.b, ATTR_batch, "labels", DT_i64, &ids);
    Node *x = build_expand(&s.b, w, &s.batch);
    s.b.loc.line = 7;
    Node *seed = build_const(&s.b, DT_f32, 1);
    Node *g = build(&s.b, OP_cross_entropy_grad, 3, (Node *[]){seed, x, labels}, (Attrs){0});
    assert_false(differentiates(&s, mean_all(&s, g), false));
    assert_says(&s, "cross_entropy_grad has no derivative");
    arena_free(s.mc.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_gradients),     cmocka_unit_test(test_shared_weight_in_f32),
        cmocka_unit_test(test_finite_differences),   cmocka_unit_test(test_detach_stops),
        cmocka_unit_test(test_unreached_parameters), cmocka_unit_test(test_no_derivative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
