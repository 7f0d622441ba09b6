/* test_pass_random.c: random training steps through all passes, in every precision, each pass verified: results
 * in the interpreter before and after, gradients by differences, master and simplify bit for bit. A failing
 * program is printed with its seed. */
#include "pass_golden.h"

enum { PROGRAMS = 300, MAX_VALUES = 40, WIDTH = 4 };

typedef struct Gen {
    Machine mc;
    Graph *g;
    Builder b;
    uint64_t seed;
    int n; /* values so far, all f32[B, WIDTH] */
    Node *v[MAX_VALUES];
    int nparams;
    const char *params[MAX_VALUES];
} Gen;

static int pick(Gen *g, int n)
{
    g->seed = g->seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((g->seed >> 33) % (uint64_t)n);
}

static Node *any(Gen *g)
{
    return g->v[pick(g, g->n)];
}

static Node *param(Gen *g, int rows, int columns)
{
    const char *name = arena_printf(g->mc.arena, "p%d", g->nparams);
    Dims dims = {columns > 0 ? 2 : 1, {dim_of(rows), dim_of(columns)}};
    g->params[g->nparams++] = name;
    return add_arg(&g->mc, &g->b, ATTR_param, name, DT_f32, &dims);
}

static Node *number(Gen *g, double x)
{
    return build_const(&g->b, DT_f32, x);
}

static Node *with_axis(Gen *g, Op op, Node *x, int64_t axis, int64_t start, int64_t stop)
{
    Attrs as = {0};
    attrs_set_int(g->mc.arena, &as, ATTR_axis, axis);
    if (op == OP_slice) {
        attrs_set_int(g->mc.arena, &as, ATTR_start, start);
        attrs_set_int(g->mc.arena, &as, ATTR_stop, stop);
        attrs_set_int(g->mc.arena, &as, ATTR_step, 1);
    }
    if (op == OP_pad) {
        attrs_set_int(g->mc.arena, &as, ATTR_before, start);
        attrs_set_int(g->mc.arena, &as, ATTR_after, stop);
    }
    return build(&g->b, op, 1, &x, as);
}

/* ---- statements, each from f32[B, WIDTH] to the same ---------------------------------------------- */

static Node *make_map(Gen *g)
{
    static const Op ops[] = {OP_tanh, OP_sigmoid, OP_relu, OP_gelu, OP_silu,  OP_softplus,
                             OP_neg,  OP_abs,     OP_sin,  OP_erf,  OP_square};
    return build1(&g->b, OP_tanh, build1(&g->b, ops[pick(g, 11)], any(g)));
}

static Node *make_binary(Gen *g)
{
    static const Op ops[] = {OP_add, OP_sub, OP_mul, OP_maximum, OP_minimum};
    return build2(&g->b, ops[pick(g, 5)], any(g), any(g));
}

static Node *make_where(Gen *g)
{
    Node *cond = build2(&g->b, OP_gt, any(g), number(g, 0.1));
    return build3(&g->b, OP_where, cond, any(g), build2(&g->b, OP_mul, any(g), number(g, 0.5)));
}

static Node *make_linear(Gen *g)
{
    Node *w = param(g, WIDTH, WIDTH), *bias = pick(g, 2) ? param(g, WIDTH, 0) : NULL;
    return build_linear(&g->b, any(g), w, bias, DT_none);
}

static Node *make_matmul(Gen *g)
{
    Node *w = param(g, WIDTH, WIDTH);
    if (pick(g, 2)) {
        w = build_transpose(&g->b, w, (int[]){1, 0});
    }
    return build_matmul(&g->b, any(g), w, false, pick(g, 2) != 0, DT_none);
}

/* attention without scaling: softmax(x y^T) z */
static Node *make_attention(Gen *g)
{
    Node *scores = build_matmul(&g->b, any(g), any(g), false, true, DT_none);
    Node *p = with_axis(g, OP_softmax, scores, 1, 0, 0);
    return build_matmul(&g->b, p, any(g), false, false, DT_none);
}

static Node *make_norm(Gen *g)
{
    Node *x = any(g);
    int64_t last = 1;
    Node *mean = build_reduce(&g->b, OP_mean, x, 1, &last, true);
    Node *var = build_reduce(&g->b, OP_var, x, 1, &last, true);
    Node *scale = build1(&g->b, OP_rsqrt, build2(&g->b, OP_add, var, number(g, 0.1)));
    Node *y = build2(&g->b, OP_mul, build2(&g->b, OP_sub, x, mean), scale);
    return build2(&g->b, OP_mul, y, param(g, WIDTH, 0));
}

static Node *make_reduce(Gen *g)
{
    static const Op ops[] = {OP_sum, OP_mean, OP_amax, OP_amin};
    Node *x = any(g);
    int64_t axis = pick(g, 2);
    Node *r = build_reduce(&g->b, ops[pick(g, 4)], x, 1, &axis, true);
    return build_expand(&g->b, build1(&g->b, OP_tanh, r), &x->dims);
}

static Node *make_moves(Gen *g)
{
    Node *x = any(g), *y = any(g);
    Node *left = with_axis(g, OP_slice, x, 1, 0, 1), *right = with_axis(g, OP_slice, y, 1, 1, 3);
    Node *in[] = {left, with_axis(g, OP_pad, right, 1, 1, 0)};
    Attrs as = {0};
    attrs_set_int(g->mc.arena, &as, ATTR_axis, 1);
    return build(&g->b, OP_concat, 2, in, as);
}

static Node *make_softmax(Gen *g)
{
    return with_axis(g, pick(g, 2) ? OP_softmax : OP_log_softmax, any(g), pick(g, 2), 0, 0);
}

static Node *make_cast(Gen *g)
{
    Node *x = build_cast(&g->b, any(g), pick(g, 2) ? DT_f64 : DT_bf16);
    x->forced = true;
    x = build_cast(&g->b, x, DT_f32);
    x->forced = true;
    return x;
}

static Node *make_detach(Gen *g)
{
    return build2(&g->b, OP_mul, build1(&g->b, OP_detach, any(g)), any(g));
}

static Node *(*const statement[])(Gen *) = {
    make_map,  make_binary, make_where, make_linear,  make_matmul, make_attention,
    make_norm, make_reduce, make_moves, make_softmax, make_cast,   make_detach,
};
enum { STATEMENTS = sizeof statement / sizeof *statement };

/* ---- programs ------------------------------------------------------------------------------------ */

static Node *add_losses(Gen *g, const Dims *labels_dims)
{
    Node *labels = add_arg(&g->mc, &g->b, ATTR_batch, "labels", DT_i64, labels_dims);
    Node *operands[] = {g->v[g->n - 1], labels};
    Node *loss = build(&g->b, OP_cross_entropy, 2, operands, (Attrs){0});
    Node *rest = build_reduce(&g->b, OP_mean, build1(&g->b, OP_square, any(g)), -1, NULL, false);
    return build2(&g->b, OP_add, loss, rest);
}

static void add_update(Gen *g, Node *loss, bool scaled)
{
    static const char *const kinds[] = {"sgd", "adam", "adamw"};
    const char *scaler = scaled ? "scaler" : NULL;
    Decl *d = add_optimizer(&g->mc, "opt", kinds[pick(g, 3)], g->nparams, g->params);
    set_hyper(&g->mc, d, ATTR_momentum, pick(g, 2) ? 0.9 : 0);
    set_hyper(&g->mc, d, ATTR_weight_decay, pick(g, 2) ? 0.01 : 0);
    attrs_set_bool(g->mc.arena, &d->attrs, ATTR_nesterov, pick(g, 2) != 0);
    if (scaled) {
        add_scaler(&g->mc, scaler, 1024, 2, 0.5, 10);
        loss = add_mark(&g->mc, &g->b, OP_scale_loss, loss, NULL, scaler);
    }
    Node *t = add_mark(&g->mc, &g->b, OP_backward, loss, NULL, NULL);
    if (pick(g, 2)) {
        t = scaled ? add_mark(&g->mc, &g->b, OP_unscale, t, "opt", scaler) : t;
        t = add_mark(&g->mc, &g->b, OP_clip_grad_norm, t, NULL, NULL);
        attrs_set_float(g->mc.arena, &t->attrs, ATTR_max_norm, 0.1);
    }
    t = add_mark(&g->mc, &g->b, OP_optimizer_step, t, "opt", scaler);
    if (scaled) {
        add_mark(&g->mc, &g->b, OP_scaler_update, t, NULL, scaler);
    }
}

static void run_program(int seed, DType amp)
{
    Gen g = {.mc = machine_new("random"), .seed = (uint64_t)seed * 7919 + 17};
    g.mc.diag = diag_new(g.mc.arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
    g.g = graph_new(g.mc.arena, "step", GRAPH_Step);
    module_graph(g.mc.m, g.g);
    uint8_t sym = (uint8_t)graph_sym(g.g, "B", 8);
    Dims dims = {2, {{.k = 1, .sym = {sym, 0}}, dim_of(WIDTH)}}, labels = {1, {dims.d[0]}};
    g.b = (Builder){.graph = g.g, .diag = g.mc.diag, .amp = amp};
    g.v[g.n++] = add_arg(&g.mc, &g.b, ATTR_batch, "x", DT_f32, &dims);
    g.v[g.n] = make_linear(&g);
    g.n++;
    for (int i = 3 + pick(&g, 10); i > 0; i--) {
        g.v[g.n] = statement[pick(&g, STATEMENTS)](&g);
        g.n++;
    }
    g.v[g.n] = make_linear(&g);
    g.n++;
    Node *loss = add_losses(&g, &labels);
    graph_result(g.g, RESULT_Host, "loss", loss);
    g.b.amp = DT_none;
    add_update(&g, loss, amp == DT_f16);
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    graph_print(f, g.g);
    fclose(f);
    PassOptions opt = {.verify_ir = true, .verify_passes = true, .seed = (uint64_t)seed};
    if (!passes_run(g.mc.m, &opt, g.mc.diag)) {
        fail_msg("seed %d, %s: %s\n%s", seed, dtype_info[amp].name, diag_text(g.mc.diag), text);
    }
    free(text);
    arena_free(g.mc.arena);
}

static void test_random_programs(void **unused)
{
    (void)unused;
    static const DType amps[] = {DT_none, DT_f16, DT_bf16};
    for (int seed = 0; seed < PROGRAMS; seed++) {
        run_program(seed, amps[seed % 3]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
