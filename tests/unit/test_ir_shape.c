/* test_ir_shape.c: result types and shapes, and what a user is told when operands do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/ir.h"

typedef struct World {
    Arena *arena;
    Diag *diag;
    Builder b;
    uint8_t batch; /* the symbol B */
} World;

static World world(void)
{
    World w = {.arena = arena_new()};
    w.diag = diag_new(w.arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
    w.b = (Builder){.graph = graph_new(w.arena, "g", GRAPH_Step), .diag = w.diag};
    w.batch = (uint8_t)graph_sym(w.b.graph, "B", 64);
    return w;
}

/* Dims from numbers, -1 for B. */
static Dims dims(const World *w, int rank, const int64_t *k)
{
    Dims d = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        d.d[i] = k[i] < 0 ? (Dim){.k = 1, .sym = {w->batch, 0}} : dim_of(k[i]);
    }
    return d;
}

#define DIMS(w, ...)                                                                               \
    dims(w, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

static Node *arg(World *w, const char *name, DType dt, Dims d)
{
    Attrs as = {0};
    attrs_set_str(w->arena, &as, ATTR_batch, name);
    w->b.name = name;
    Node *n = build_arg(&w->b, dt, &d, as);
    w->b.name = NULL;
    n->attrs.n = 0;
    return n;
}

static void expect_dims(const World *w, const Node *n, DType dt, Dims want)
{
    assert_non_null(n);
    assert_int_equal(n->dtype, dt);
    if (!dims_equal(&n->dims, &want)) {
        fail_msg("[%s] instead of [%s]", dims_text(w->arena, w->b.graph, &n->dims),
                 dims_text(w->arena, w->b.graph, &want));
    }
}

static void expect_error(World *w, const Node *n, const char *says)
{
    assert_null(n);
    if (strstr(diag_text(w->diag), says) == NULL) {
        fail_msg("no '%s' in:\n%s", says, diag_text(w->diag));
    }
}

static void types(void **state)
{
    (void)state;
    World w = world();
    Node *f = arg(&w, "f", DT_f32, DIMS(&w, 3)), *h = arg(&w, "h", DT_f16, DIMS(&w, 3));
    Node *bf = arg(&w, "b", DT_bf16, DIMS(&w, 3)), *i = arg(&w, "i", DT_i32, DIMS(&w, 3));
    Node *t = arg(&w, "t", DT_bool, DIMS(&w, 3));
    Node *c = build_const(&w.b, DT_f32, 0.5), *n = build_const(&w.b, DT_i64, 2);
    Dims d = DIMS(&w, 3);
    expect_dims(&w, build2(&w.b, OP_add, f, h), DT_f32, d);
    expect_dims(&w, build2(&w.b, OP_add, h, bf), DT_f32, d);
    expect_dims(&w, build2(&w.b, OP_mul, h, c), DT_f16, d);
    expect_dims(&w, build2(&w.b, OP_mul, build_expand(&w.b, c, &d), h), DT_f16, d);
    expect_dims(&w, build2(&w.b, OP_mul, i, c), DT_f32, d);
    expect_dims(&w, build2(&w.b, OP_mul, i, n), DT_i32, d);
    expect_dims(&w, build2(&w.b, OP_mul, h, n), DT_f16, d);
    expect_dims(&w, build2(&w.b, OP_div, i, n), DT_f32, d);
    expect_dims(&w, build1(&w.b, OP_exp, i), DT_f32, d);
    expect_dims(&w, build2(&w.b, OP_add, t, t), DT_i64, d);
    expect_dims(&w, build2(&w.b, OP_lt, h, c), DT_bool, d);
    assert_int_equal(map_dtype(build2(&w.b, OP_lt, h, c)), DT_f16);
    expect_dims(&w, build3(&w.b, OP_where, t, h, c), DT_f16, d);
    expect_dims(&w, build_reduce(&w.b, OP_sum, h, -1, NULL, false), DT_f16, (Dims){0});
    expect_dims(&w, build_reduce(&w.b, OP_mean, t, -1, NULL, true), DT_f32, DIMS(&w, 1));
    expect_dims(&w, build_matmul(&w.b, h, h, false, false, DT_f32), DT_f32, (Dims){0});
    arena_free(w.arena);
}

static void shapes(void **state)
{
    (void)state;
    World w = world();
    Node *x = arg(&w, "x", DT_f32, DIMS(&w, -1, 28, 28)),
         *y = arg(&w, "y", DT_f32, DIMS(&w, 28, 5));
    Dims flat = DIMS(&w, -1, 784);
    expect_dims(&w, build_reshape(&w.b, x, &flat), DT_f32, flat);
    expect_dims(&w, build_matmul(&w.b, x, y, false, false, DT_none), DT_f32, DIMS(&w, -1, 28, 5));
    expect_dims(&w, build_matmul(&w.b, y, x, true, true, DT_none), DT_f32, DIMS(&w, -1, 5, 28));
    expect_dims(&w, build_transpose(&w.b, x, (int[]){1, 0, 2}), DT_f32, DIMS(&w, 28, -1, 28));
    expect_dims(&w, build_reduce(&w.b, OP_amax, x, 2, (int64_t[]){-1, 0}, false), DT_f32,
                DIMS(&w, 28));
    Dims row = DIMS(&w, 1, 28);
    expect_dims(&w, build_sum_to(&w.b, x, &row), DT_f32, row);
    Node *u = build_like(&w.b, DT_f32, &flat, OP_uniform, (Attrs){0});
    expect_dims(&w, u, DT_f32, flat);
    assert_ptr_equal(w.b.graph->nodes[0], graph_find_arg(w.b.graph, ATTR_rng, NULL));
    Node *z = build1(&w.b, OP_neg, NULL);
    assert_null(z);
    assert_int_equal(diag_errors(w.diag), 0);
    arena_free(w.arena);
}

static void messages(void **state)
{
    (void)state;
    World w = world();
    Node *x = arg(&w, "x", DT_f32, DIMS(&w, -1, 512));
    Node *weight = arg(&w, "fc2.weight", DT_f32, DIMS(&w, 128, 256));
    Node *bias = arg(&w, "bias", DT_f32, DIMS(&w, 256));
    Node *labels = arg(&w, "labels", DT_f32, DIMS(&w, -1));
    expect_error(&w, build_matmul(&w.b, x, weight, false, true, DT_none),
                 "matmul: inner dimensions differ: x is [B, 512], fc2.weight wants [.., 256]");
    expect_error(
        &w,
        build_matmul(&w.b, x, build_transpose(&w.b, weight, (int[]){1, 0}), false, false, DT_none),
        "x is [B, 512], fc2.weight.T wants [.., 256]");
    expect_error(&w, build_linear(&w.b, x, weight, NULL, DT_none),
                 "linear: inner dimensions differ: x is [B, 512], fc2.weight wants [.., 256]");
    expect_error(&w, build2(&w.b, OP_add, x, bias),
                 "add: shapes do not broadcast: x is [B, 512], bias is [256]");
    Dims flat = DIMS(&w, -1, 3);
    expect_error(&w, build_reshape(&w.b, x, &flat),
                 "reshape: x is [B, 512], which has not as many elements as [B, 3]");
    expect_error(&w, build2(&w.b, OP_cross_entropy, x, labels),
                 "labels must be of an integer type, and is f32");
    expect_error(&w, build3(&w.b, OP_where, x, x, x), "the condition must be bool, and x is f32");
    Attrs as = {0};
    attrs_set_int(w.arena, &as, ATTR_axis, 2);
    expect_error(&w, build(&w.b, OP_softmax, 1, &x, as), "softmax: axis 2: x is [B, 512]");
    expect_error(&w, build1(&w.b, OP_backward, x), "wants a scalar loss");
    expect_error(&w, build1(&w.b, OP_unscale, x), "wants gradients");
    arena_free(w.arena);
}

static void dim_arithmetic(void **state)
{
    (void)state;
    Dim b = {.k = 1, .sym = {1, 0}}, t = {.k = 2, .sym = {2, 0}}, out;
    assert_true(dim_mul(b, t, &out));
    assert_true(out.k == 2 && out.sym[0] == 2 && out.sym[1] == 1);
    assert_false(dim_mul(out, b, &(Dim){0}));
    assert_true(dim_div(out, b, &out) && dim_equal(out, t));
    assert_false(dim_div(b, t, &out));
    assert_true(dim_mul(dim_of(0), b, &out) && dim_equal(out, dim_of(0)));
    assert_false(dim_mul(dim_of(INT64_MAX), dim_of(2), &out));
    assert_false(dim_div(dim_of(6), dim_of(0), &out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types),
        cmocka_unit_test(shapes),
        cmocka_unit_test(messages),
        cmocka_unit_test(dim_arithmetic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
