/* test_pass_pool.c: pools and their gradients, decomposed: the passes verify themselves against the reference
 * interpreter, over windows that overlap, touch, leave places out, reach over the edge or are spread. And what is left
 * is what fusion wants: one kernel where windows do not overlap. */
#include "pass_golden.h"

typedef struct Windows {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    bool apart; /* one interleave, no pad */
} Windows;

static const Windows windows[] = {
    {{2, 3}, {2, 3}, {0, 0}, {1, 1}, true},  {{2, 2}, {2, 3}, {0, 0}, {1, 1}, true},
    {{1, 2}, {2, 3}, {0, 0}, {1, 2}, true},  {{3, 3}, {2, 2}, {1, 1}, {1, 1}, false},
    {{3, 2}, {1, 1}, {1, 0}, {1, 1}, false}, {{2, 3}, {3, 2}, {1, 0}, {1, 2}, false},
    {{2, 2}, {2, 2}, {0, 0}, {1, 1}, false}, {{3, 3}, {3, 4}, {0, 1}, {1, 1}, false},
    {{2, 2}, {1, 3}, {0, 1}, {3, 2}, false},
};

/* Results over 6 rows and 9 columns. */
static Dims result_dims(const Windows *w)
{
    Dims d = {4, {dim_of(2), dim_of(3), dim_of(6), dim_of(9)}};
    for (int i = 0; i < 2; i++) {
        int64_t over = d.d[2 + i].k + 2 * w->padding[i] - w->dilation[i] * (w->kernel[i] - 1) - 1;
        d.d[2 + i].k = over / w->stride[i] + 1;
    }
    return d;
}

static int count(const Graph *g, Op op)
{
    int n = 0;
    for (int i = 0; i < g->nnodes; i++) {
        n += g->nodes[i]->op == op;
    }
    return n;
}

static void check(const Windows *w, DType dt)
{
    Machine mc = machine_new("pool");
    Graph *g = graph_new(mc.arena, "step", GRAPH_Step);
    module_graph(mc.m, g);
    Builder b = {.graph = g, .diag = mc.diag};
    Dims image = {4, {dim_of(2), dim_of(3), dim_of(6), dim_of(9)}}, result = result_dims(w);
    Node *x = add_arg(&mc, &b, ATTR_batch, "x", dt, &image);
    Node *dy = add_arg(&mc, &b, ATTR_batch, "dy", dt, &result);
    Attrs as = {0};
    attrs_set_ints(mc.arena, &as, ATTR_kernel, 2, w->kernel);
    attrs_set_ints(mc.arena, &as, ATTR_stride, 2, w->stride);
    attrs_set_ints(mc.arena, &as, ATTR_padding, 2, w->padding);
    attrs_set_ints(mc.arena, &as, ATTR_dilation, 2, w->dilation);
    Node *dx = build(&b, OP_max_pool2d_grad, 2, (Node *[]){dy, x}, as);
    assert_non_null(dx);
    assert_true(dims_equal(&dx->dims, &image));
    Node *y = build(&b, OP_max_pool2d, 1, &x, as);
    graph_result(g, RESULT_Host, "dx",
                 build_reduce(&b, OP_sum, build2(&b, OP_mul, dx, x), -1, NULL, false));
    graph_result(g, RESULT_Host, "y", build_reduce(&b, OP_sum, y, -1, NULL, false));
    mc.m->last_pass = "master";
    machine_compile(&mc, DT_none, "decompose", true);
    assert_int_equal(count(g, OP_max_pool2d) + count(g, OP_max_pool2d_grad), 0);
    if (w->apart) {
        assert_int_equal(count(g, OP_pad), 0);
        assert_int_equal(count(g, OP_interleave), 1);
    }
    arena_free(mc.arena);
}

static void test_windows(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        check(&windows[i], DT_f32);
        check(&windows[i], DT_f16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_windows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
