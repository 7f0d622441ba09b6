/* test_ir_graph.c: changing graphs: order, uses, dead code, replacing; attributes; host types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/ir.h"

typedef struct World {
    Arena *arena;
    Graph *g;
    Builder b;
    Node *x;
} World;

static World world(void)
{
    World w = {.arena = arena_new()};
    w.g = graph_new(w.arena, "g", GRAPH_Step);
    w.b = (Builder){.graph = w.g};
    Attrs as = {0};
    attrs_set_str(w.arena, &as, ATTR_batch, "x");
    w.x = build_arg(&w.b, DT_f32, &(Dims){.rank = 1, .d = {{.k = 4}}}, as);
    return w;
}

static void sorting(void **state)
{
    (void)state;
    World w = world();
    Node *a = build1(&w.b, OP_neg, w.x), *b = build1(&w.b, OP_exp, a);
    Node *late = build1(&w.b, OP_abs, w.x);
    a->in[0] = late; /* a now needs what stands behind it */
    graph_sort(w.g);
    assert_int_equal(w.g->nnodes, 4);
    Node *want[] = {w.x, late, a, b};
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(w.g->nodes[i], want[i]);
        assert_int_equal(w.g->nodes[i]->id, i);
    }
    /* a chain too long for recursion */
    Node *n = b;
    for (int i = 0; i < 200000; i++) {
        n = build1(&w.b, OP_neg, n);
    }
    graph_result(w.g, RESULT_Host, "n", n);
    graph_dce(w.g);
    assert_int_equal(w.g->nnodes, 200004);
    arena_free(w.arena);
}

static void dead_code(void **state)
{
    (void)state;
    World w = world();
    Node *used = build1(&w.b, OP_neg, w.x);
    build1(&w.b, OP_exp, used);
    Attrs as = {0};
    attrs_set_strs(w.arena, &as, ATTR_params, 1, (const char *[]){"x"});
    Node *needed = build1(&w.b, OP_abs, w.x);
    Node *mark = build(&w.b, OP_gradients, 1, &needed, as); /* a root by itself */
    graph_result(w.g, RESULT_Host, "used", used);
    int *uses = graph_use_counts(w.g, w.arena);
    assert_int_equal(uses[w.x->id], 2);
    assert_int_equal(uses[used->id], 2);
    graph_dce(w.g);
    Node *want[] = {w.x, used, needed, mark};
    assert_int_equal(w.g->nnodes, 4);
    assert_memory_equal(w.g->nodes, want, sizeof want);
    arena_free(w.arena);
}

static void replacing(void **state)
{
    (void)state;
    World w = world();
    Node *a = build1(&w.b, OP_neg, w.x);
    Node *b = build2(&w.b, OP_add, a, a);
    graph_result(w.g, RESULT_Host, "a", a);
    Node *cast = build_cast(&w.b, a, DT_f16);
    graph_replace(w.g, a, cast);
    graph_insert(w.g, 2, 1);
    assert_ptr_equal(cast->in[0], a); /* its own operand stays */
    assert_ptr_equal(b->in[0], cast);
    assert_ptr_equal(b->in[1], cast);
    assert_ptr_equal(w.g->results[0].value, cast);
    assert_ptr_equal(w.g->nodes[2], cast);
    assert_ptr_equal(build_cast(&w.b, a, DT_f32), a);
    graph_result(w.g, RESULT_Host, "a", b);
    assert_int_equal(w.g->nresults, 1);
    assert_ptr_equal(w.g->results[0].value, b);
    arena_free(w.arena);
}

static void attributes(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    Attrs as = {0};
    attrs_set_int(arena, &as, ATTR_step, 2);
    attrs_set_int(arena, &as, ATTR_axis, 1);
    Attrs copy = as;
    attrs_set_int(arena, &as, ATTR_axis, 3);
    attrs_set_bool(arena, &as, ATTR_keepdim, true);
    assert_int_equal(as.n, 3);
    assert_int_equal(attrs_int(&as, ATTR_axis, 0), 3);
    assert_int_equal(attrs_int(&copy, ATTR_axis, 0), 1); /* copies do not change */
    assert_false(attrs_equal(&as, &copy));
    for (int i = 1; i < as.n; i++) {
        assert_true(as.v[i - 1].id < as.v[i].id);
    }
    attrs_set_bool(arena, &as, ATTR_keepdim, false);
    attrs_set_int(arena, &as, ATTR_axis, 1);
    assert_true(attrs_equal(&as, &copy));
    assert_null(attrs_str(&as, ATTR_path));
    arena_free(arena);
}

static void tables(void **state)
{
    (void)state;
    for (int i = 0; i < OP_COUNT; i++) {
        Op op;
        assert_true(op_find(op_info[i].name, &op) && (int)op == i);
        assert_true((op_info[i].expression != NULL) == (op_info[i].kind == KIND_Map));
        for (int k = 0; k < op_info[i].nattrs; k++) {
            assert_true(op_info[i].attrs[k] < ATTR_COUNT);
        }
    }
    for (int i = 0; i < ATTR_COUNT; i++) {
        AttrId id;
        assert_true(attr_find(attr_info[i].name, &id) && (int)id == i);
    }
    DType dt;
    assert_true(dtype_find("bool", &dt) && dt == DT_bool && dtype_info[dt].is_bool);
    assert_string_equal(dtype_info[DT_bf16].safetensors, "BF16");
    assert_false(dtype_find("float", &dt));
    assert_int_equal(dtype_widest(DT_i8, DT_u8), DT_i32);
    assert_int_equal(dtype_widest(DT_f8e4m3, DT_f8e5m2), DT_f16);
    assert_int_equal(dtype_widest(DT_i64, DT_f8e5m2), DT_f8e5m2);
}

static void host_types(void **state)
{
    (void)state;
    Arena *a = arena_new();
    HostExpr *i = host_num(a, 2, HT_int), *f = host_num(a, 2, HT_float);
    HostExpr *ii[2] = {i, i}, *fi[2] = {f, i};
    assert_int_equal(host_expr(a, HE_binary, "+", 2, ii)->type, HT_int);
    assert_int_equal(host_expr(a, HE_binary, "//", 2, ii)->type, HT_int);
    assert_int_equal(host_expr(a, HE_binary, "/", 2, ii)->type, HT_float);
    assert_int_equal(host_expr(a, HE_binary, "*", 2, fi)->type, HT_float);
    assert_int_equal(host_expr(a, HE_binary, "<", 2, fi)->type, HT_bool);
    assert_int_equal(host_expr(a, HE_call, "floor", 1, fi)->type, HT_int);
    assert_int_equal(host_expr(a, HE_call, "max", 2, fi)->type, HT_float);
    HostExpr *product = host_expr(a, HE_binary, "*", 2, ii);
    HostExpr *sum = host_expr(a, HE_binary, "+", 2, (HostExpr *[]){i, product});
    HostExpr *e = host_expr(a, HE_binary, "*", 2, (HostExpr *[]){sum, i});
    assert_string_equal(host_expr_text(a, e), "(2 + 2 * 2) * 2");
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorting),    cmocka_unit_test(dead_code), cmocka_unit_test(replacing),
        cmocka_unit_test(attributes), cmocka_unit_test(tables),    cmocka_unit_test(host_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
