/* test_pass_simplify.c: every rewrite of simplify, by its name: that it applies, that it keeps every bit (the
 * passes verify themselves here), and that it does not apply where a bit would change. */
#include "pass_golden.h"

typedef struct Case {
    Machine mc;
    Graph *g;
    Builder b;
    Node *x, *y; /* f32[4, 8] */
    Node *h;     /* f16[4, 8] */
} Case;

static Node *field(Case *c, const char *name, DType dt)
{
    Dims dims = {2, {dim_of(4), dim_of(8)}};
    return add_arg(&c->mc, &c->b, ATTR_batch, name, dt, &dims);
}

static Case case_new(void)
{
    Case c = {.mc = machine_new("case")};
    c.g = graph_new(c.mc.arena, "step", GRAPH_Step);
    module_graph(c.mc.m, c.g);
    c.b = (Builder){.graph = c.g, .diag = c.mc.diag};
    c.x = field(&c, "x", DT_f32);
    c.y = field(&c, "y", DT_f32);
    c.h = field(&c, "h", DT_f16);
    c.mc.m->last_pass = "master";
    return c;
}

/* Makes r the result and simplifies; the result's node afterwards. */
static Node *simplified(Case *c, Node *r)
{
    if (r->dims.rank > 0) { /* results for the host are scalars; amax changes no bit */
        r = build_reduce(&c->b, OP_amax, r, -1, NULL, false);
    }
    graph_result(c->g, RESULT_Host, "r", r);
    machine_compile(&c->mc, DT_none, NULL, true);
    Node *top = c->g->results[0].value;
    return top->op == OP_amax && top->nin == 1 ? top->in[0] : top;
}

static int computed(const Case *c)
{
    int n = 0;
    for (int i = 0; i < c->g->nnodes; i++) {
        n += op_info[c->g->nodes[i]->op].kind != KIND_Leaf;
    }
    return n;
}

static Node *number(Case *c, double x)
{
    return build_const(&c->b, DT_f32, x);
}

static Node *op1(Case *c, Op op, Node *x)
{
    return build1(&c->b, op, x);
}

static Node *op2(Case *c, Op op, Node *x, Node *y)
{
    return build2(&c->b, op, x, y);
}

/* ---- the rewrites -------------------------------------------------------------------------------- */

static void test_fold(void **unused)
{
    (void)unused;
    Case c = case_new();
    Node *n = op2(&c, OP_sub, build_const(&c.b, DT_f64, 1), build_const(&c.b, DT_f64, 0.9));
    n = simplified(&c, build_cast(&c.b, op1(&c, OP_sqrt, n), DT_f32));
    assert_int_equal(n->op, OP_const);
    assert_int_equal(n->dtype, DT_f32);
    assert_true((float)attrs_float(&n->attrs, ATTR_value, 0) == (float)sqrt(1 - 0.9));
    arena_free(c.mc.arena);

    c = case_new(); /* f16 would round twice: 1 + 2^-11 + 2^-40 is above the tie, its f32 on it */
    n = build_const(&c.b, DT_f32, 1 + 0x1p-11 + 0x1p-40);
    n = simplified(&c, build_cast(&c.b, n, DT_f16));
    assert_int_equal(n->op, OP_cast);
    arena_free(c.mc.arena);
}

static void test_where_const(void **unused)
{
    (void)unused;
    Case c = case_new();
    Node *n = build3(&c.b, OP_where, build_const(&c.b, DT_bool, 0), c.x, c.y);
    assert_ptr_equal(simplified(&c, n), c.y);
    arena_free(c.mc.arena);
}

static void test_where_same(void **unused)
{
    (void)unused;
    Case c = case_new();
    Node *n = build3(&c.b, OP_where, op2(&c, OP_lt, c.x, c.y), c.x, c.x);
    assert_ptr_equal(simplified(&c, n), c.x);
    arena_free(c.mc.arena);
}

static void test_times_one(void **unused)
{
    (void)unused;
    Case c = case_new();
    Node *n = op2(&c, OP_div, op2(&c, OP_mul, number(&c, 1), c.x), number(&c, 1));
    assert_ptr_equal(simplified(&c, n), c.x);
    arena_free(c.mc.arena);
}

static void test_minus_zero(void **unused)
{
    (void)unused;
    Case c = case_new();
    Node *n = op2(&c, OP_sub, op2(&c, OP_add, c.x, number(&c, -0.0)), number(&c, 0));
    assert_ptr_equal(simplified(&c, n), c.x);
    arena_free(c.mc.arena);

    c = case_new(); /* -0 + 0 is 0 */
    n = simplified(&c, op2(&c, OP_add, c.x, number(&c, 0)));
    assert_int_equal(n->op, OP_add);
    arena_free(c.mc.arena);
}

static void test_twice(void **unused)
{
    (void)unused;
    Case c = case_new();
    Node *less = op2(&c, OP_lt, c.x, c.y);
    Node *n = build3(&c.b, OP_where, op1(&c, OP_not, op1(&c, OP_not, less)),
                     op1(&c, OP_neg, op1(&c, OP_neg, c.x)), c.y);
    n = simplified(&c, n);
    assert_ptr_equal(n->in[0], less);
    assert_ptr_equal(n->in[1], c.x);
    arena_free(c.mc.arena);
}

static void test_cast_same(void **unused)
{
    (void)unused;
    Case c = case_new();
    Node *n = build_cast(&c.b, c.x, DT_f16);
    n->dtype = DT_f32; /* what autocast leaves of the file's cast(x, f32) */
    assert_ptr_equal(simplified(&c, n), c.x);
    arena_free(c.mc.arena);
}

static void test_cast_pair(void **unused)
{
    (void)unused;
    Case c = case_new();
    assert_ptr_equal(simplified(&c, build_cast(&c.b, build_cast(&c.b, c.h, DT_f32), DT_f16)), c.h);
    arena_free(c.mc.arena);

    c = case_new(); /* f16 -> f32 -> bf16 is one rounding */
    Node *n = simplified(&c, build_cast(&c.b, build_cast(&c.b, c.h, DT_f32), DT_bf16));
    assert_ptr_equal(n->in[0], c.h);
    arena_free(c.mc.arena);

    c = case_new(); /* the rounding to f16 is part of the meaning */
    n = simplified(&c, build_cast(&c.b, build_cast(&c.b, c.x, DT_f16), DT_f32));
    assert_int_equal(n->in[0]->op, OP_cast);
    arena_free(c.mc.arena);
}

static Node *transpose(Case *c, Node *x)
{
    return build_transpose(&c->b, x, (int[]){1, 0});
}

static void test_transposes(void **unused)
{
    (void)unused;
    Case c = case_new(); /* transpose-same */
    assert_ptr_equal(simplified(&c, build_transpose(&c.b, c.x, (int[]){0, 1})), c.x);
    arena_free(c.mc.arena);

    c = case_new(); /* transpose-twice */
    assert_ptr_equal(simplified(&c, transpose(&c, transpose(&c, c.x))), c.x);
    arena_free(c.mc.arena);

    c = case_new(); /* transpose-into-matmul */
    Node *n = build_matmul(&c.b, transpose(&c, c.x), transpose(&c, c.y), true, false, DT_none);
    n = simplified(&c, n);
    assert_ptr_equal(n->in[0], c.x);
    assert_ptr_equal(n->in[1], c.y);
    assert_false(attrs_bool(&n->attrs, ATTR_trans_a));
    assert_true(attrs_bool(&n->attrs, ATTR_trans_b));
    arena_free(c.mc.arena);
}

static void test_reshape_and_expand_twice(void **unused)
{
    (void)unused;
    Case c = case_new();
    Dims flat = {1, {dim_of(32)}}, other = {2, {dim_of(8), dim_of(4)}};
    Node *n = build_reshape(&c.b, build_reshape(&c.b, c.x, &flat), &c.x->dims);
    assert_ptr_equal(simplified(&c, n), c.x);
    arena_free(c.mc.arena);

    c = case_new();
    n = simplified(&c, build_reshape(&c.b, build_reshape(&c.b, c.x, &flat), &other));
    assert_ptr_equal(n->in[0], c.x);
    arena_free(c.mc.arena);

    c = case_new();
    int64_t last = 1;
    Node *column = build_reduce(&c.b, OP_amax, c.x, 1, &last, true);
    Dims more = {3, {dim_of(2), dim_of(4), dim_of(8)}};
    n = build_expand(&c.b, build_expand(&c.b, column, &c.x->dims), &more);
    n = simplified(&c, n);
    assert_int_equal(n->op, OP_expand);
    assert_ptr_equal(n->in[0], column);
    arena_free(c.mc.arena);
}

static void test_expand_into_map(void **unused)
{
    (void)unused;
    Case c = case_new();
    int64_t last = 1;
    Node *column = build_reduce(&c.b, OP_amax, c.x, 1, &last, true);
    Node *n = op2(&c, OP_mul, c.y, build_expand(&c.b, column, &c.x->dims));
    assert_ptr_equal(simplified(&c, n)->in[1], column);
    arena_free(c.mc.arena);

    c = case_new(); /* one of them must give the shape */
    column = build_reduce(&c.b, OP_amax, c.x, 1, &last, true);
    Node *wide = build_expand(&c.b, column, &c.x->dims);
    n = simplified(&c, op2(&c, OP_mul, wide, op1(&c, OP_neg, wide)));
    assert_int_equal(n->dims.rank, 2);
    assert_true(dim_equal(n->dims.d[1], dim_of(8)));
    arena_free(c.mc.arena);
}

static void test_move_nothing(void **unused)
{
    (void)unused;
    Case c = case_new();
    Attrs cut = {0}, join = {0}, none = {0};
    attrs_set_int(c.mc.arena, &cut, ATTR_axis, 1);
    attrs_set_int(c.mc.arena, &cut, ATTR_start, 0);
    attrs_set_int(c.mc.arena, &cut, ATTR_stop, 8);
    attrs_set_int(c.mc.arena, &cut, ATTR_step, 1);
    attrs_set_int(c.mc.arena, &join, ATTR_axis, 0);
    attrs_set_int(c.mc.arena, &none, ATTR_axis, 0);
    attrs_set_int(c.mc.arena, &none, ATTR_before, 0);
    attrs_set_int(c.mc.arena, &none, ATTR_after, 0);
    Node *n = build(&c.b, OP_slice, 1, &c.x, cut);
    n = build(&c.b, OP_concat, 1, &n, join);
    n = build(&c.b, OP_pad, 1, &n, none);
    assert_ptr_equal(simplified(&c, n), c.x);
    arena_free(c.mc.arena);
}

static void test_detach_done(void **unused)
{
    (void)unused;
    Case c = case_new();
    assert_ptr_equal(simplified(&c, op1(&c, OP_detach, c.x)), c.x);
    arena_free(c.mc.arena);
}

static void test_reduce_nothing(void **unused)
{
    (void)unused;
    Case c = case_new();
    Dims tall = {3, {dim_of(4), dim_of(1), dim_of(8)}};
    int64_t middle = 1;
    Node *n = build_reduce(&c.b, OP_sum, build_reshape(&c.b, c.x, &tall), 1, &middle, false);
    assert_ptr_equal(simplified(&c, n), c.x);
    arena_free(c.mc.arena);
}

/* ---- common and dead nodes ----------------------------------------------------------------------- */

/* where(masked <= 0, 0, gradient of the pool of relu) */
static Node *masked_pool(Case *c, bool of_another)
{
    Dims image = {4, {dim_of(1), dim_of(2), dim_of(4), dim_of(4)}}, half = image;
    half.d[2] = half.d[3] = dim_of(2);
    Attrs as = {0};
    attrs_set_ints(c->mc.arena, &as, ATTR_kernel, 2, (int64_t[]){2, 2});
    attrs_set_ints(c->mc.arena, &as, ATTR_stride, 2, (int64_t[]){2, 2});
    Node *x = op1(c, OP_relu, add_arg(&c->mc, &c->b, ATTR_batch, "image", DT_f32, &image));
    Node *dy = add_arg(&c->mc, &c->b, ATTR_batch, "dy", DT_f32, &half);
    Node *pool = build(&c->b, OP_max_pool2d_grad, 2, (Node *[]){dy, x}, as);
    Node *dead = op2(c, OP_le, of_another ? op1(c, OP_tanh, x) : x, number(c, 0));
    return simplified(c, build3(&c->b, OP_where, dead, number(c, 0), pool));
}

static void test_relu_of_pool(void **unused)
{
    (void)unused;
    Case c = case_new();
    Node *n = masked_pool(&c, false);
    assert_int_equal(n->op, OP_max_pool2d_grad);
    assert_int_equal(n->in[0]->op, OP_where);
    arena_free(c.mc.arena);

    c = case_new();
    assert_int_equal(masked_pool(&c, true)->op, OP_where);
    arena_free(c.mc.arena);
}

static void test_common(void **unused)
{
    (void)unused;
    Case c = case_new();
    Node *a = op2(&c, OP_mul, op1(&c, OP_tanh, c.x), number(&c, 3));
    Node *b = op2(&c, OP_mul, op1(&c, OP_tanh, c.x), number(&c, 3));
    op1(&c, OP_exp, c.y); /* dead */
    Node *n = simplified(&c, op2(&c, OP_sub, a, b));
    assert_ptr_equal(n->in[0], n->in[1]);
    assert_int_equal(computed(&c), 4); /* tanh, mul, sub, amax */
    arena_free(c.mc.arena);

    c = case_new(); /* constants of one value and two signs are not common */
    a = op2(&c, OP_mul, c.x, number(&c, 0.0));
    b = op2(&c, OP_mul, c.x, number(&c, -0.0));
    n = simplified(&c, op2(&c, OP_maximum, a, b));
    assert_ptr_not_equal(n->in[0], n->in[1]);
    arena_free(c.mc.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fold),
        cmocka_unit_test(test_where_const),
        cmocka_unit_test(test_where_same),
        cmocka_unit_test(test_times_one),
        cmocka_unit_test(test_minus_zero),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_cast_same),
        cmocka_unit_test(test_cast_pair),
        cmocka_unit_test(test_transposes),
        cmocka_unit_test(test_reshape_and_expand_twice),
        cmocka_unit_test(test_expand_into_map),
        cmocka_unit_test(test_move_nothing),
        cmocka_unit_test(test_detach_done),
        cmocka_unit_test(test_reduce_nothing),
        cmocka_unit_test(test_relu_of_pool),
        cmocka_unit_test(test_common),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
