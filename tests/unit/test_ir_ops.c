/* test_ir_ops.c: the reference interpreter against PyTorch's results for every op that both have:
 * in f64 mode to the last digits, in typed mode within the tolerance of the case, and with narrow
 * inputs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden_ops.h"

typedef struct Inputs {
    const GoldenFile *file;
    const char *test;
    DType rounded; /* inputs are rounded to it first; DT_none: not */
    Arena *arena;
} Inputs;

static Value *give_input(void *ctx, const Graph *g, const Node *n)
{
    const Inputs *in = ctx;
    const char *name = attrs_str(&n->attrs, ATTR_batch);
    const GoldenTensor *t = golden_find(in->file, "%s/in/%s", in->test, name);
    (void)g;
    if (t == NULL) {
        fail_msg("%s: no input %s", in->test, name);
    }
    Value *v = value_new(in->arena, n->dtype, t->rank, t->dims);
    for (int64_t i = 0; i < t->count; i++) {
        bool narrow = in->rounded != DT_none && dtype_info[n->dtype].is_float;
        v->v[i] = narrow ? round_to(in->rounded, t->v[i]) : t->v[i];
    }
    return v;
}

static void compare(const char *what, const Value *got, const GoldenTensor *want, double rtol,
                    double atol)
{
    assert_int_equal(got->rank, want->rank);
    for (int i = 0; i < got->rank; i++) {
        assert_int_equal(got->dims[i], want->dims[i]);
    }
    for (int64_t i = 0; i < got->count; i++) {
        double a = got->v[i], b = want->v[i];
        if (!(fabs(a - b) <= atol + rtol * fabs(b)) && !(isnan(a) && isnan(b)) && a != b) {
            fail_msg("%s: element %lld is %.17g, not %.17g", what, (long long)i, a, b);
        }
    }
}

static double tolerance(const cJSON *test, const char *out, const char *field)
{
    char key[64];
    snprintf(key, sizeof key, "out/%s", out);
    return golden_number(cJSON_GetObjectItem(cJSON_GetObjectItem(test, "tolerance"), key), field,
                         0);
}

static Value **run_case(GoldenGraph *g, Inputs *in, InterpMode mode)
{
    Interp interp = {.mode = mode, .arena = in->arena, .arg = give_input, .ctx = in};
    return interp_graph(&interp, g->b.graph, NULL);
}

static void check_narrow(GoldenGraph *g, Inputs *in, const char *low, DType dt)
{
    in->rounded = dt;
    Value **v = run_case(g, in, INTERP_typed);
    for (int i = 0; i < g->nout; i++) {
        const GoldenTensor *want =
            golden_find(in->file, "%s/out_%s/%s", in->test, low, g->out_name[i]);
        if (want == NULL) {
            continue;
        }
        Value *got = v[g->out[i]->id];
        double most = 0;
        for (int64_t k = 0; k < got->count; k++) {
            got->v[k] = round_to(dt, got->v[k]);
            most = fmax(most, fabs(want->v[k]));
        }
        compare(in->test, got, want, dt == DT_bf16 ? 0x1p-8 : 0x1p-11, 2e-6 * most + 0x1p-24);
    }
    in->rounded = DT_none;
}

static int check_case(const char *op, const GoldenFile *file, const cJSON *test)
{
    Arena *arena = arena_new();
    GoldenGraph g;
    char what[128];
    snprintf(what, sizeof what, "%s/%s", op, golden_string(test, "name"));
    bool ours = golden_graph(arena, op, test, DT_f32, &g);
    Inputs in = {file, golden_string(test, "name"), DT_none, arena};
    for (int mode = 0; ours && mode < 2; mode++) {
        Value **v = run_case(&g, &in, mode == 0 ? INTERP_f64 : INTERP_typed);
        for (int i = 0; i < g.nout; i++) {
            const GoldenTensor *want = golden_find(file, "%s/out/%s", in.test, g.out_name[i]);
            double most = tolerance(test, g.out_name[i], "max");
            assert_non_null(want);
            if (mode == 0) {
                /* relative to the largest element: sums may cancel */
                compare(what, v[g.out[i]->id], want, 1e-12, 1e-12 * most);
            } else {
                compare(what, v[g.out[i]->id], want, tolerance(test, g.out_name[i], "rtol"),
                        tolerance(test, g.out_name[i], "atol"));
            }
        }
    }
    if (ours && cJSON_GetObjectItem(test, "low") != NULL) {
        check_narrow(&g, &in, "bf16", DT_bf16);
        check_narrow(&g, &in, "fp16", DT_f16);
    }
    arena_free(arena);
    return ours;
}

static void golden_ops(void **state)
{
    (void)state;
    int checked = 0;
    for (int i = 0; golden_op_names[i] != NULL; i++) {
        GoldenFile *file = golden_open("ops", golden_op_names[i]);
        const cJSON *test;
        int here = 0;
        cJSON_ArrayForEach(test, cJSON_GetObjectItem(file->json, "cases"))
        {
            here += check_case(golden_op_names[i], file, test);
        }
        if (here == 0) {
            fail_msg("no case of %s was checked", golden_op_names[i]);
        }
        checked += here;
        golden_close(file);
    }
    assert_true(checked > 150);
}

/* ---- what the reference data lack ------------------------------------------------------------ */

static double values[8];

static Value *give_values(void *ctx, const Graph *g, const Node *n)
{
    (void)g;
    Value *v = value_new(ctx, n->dtype, 1, &(int64_t){8});
    memcpy(v->v, values, sizeof values);
    return v;
}

static Value *apply1(Arena *arena, Op op, DType dt, InterpMode mode)
{
    Graph *g = graph_new(arena, "g", GRAPH_Step);
    Builder b = {.graph = g};
    Attrs as = {0};
    attrs_set_str(arena, &as, ATTR_batch, "x");
    Node *x = build_arg(&b, dt, &(Dims){.rank = 1, .d = {{.k = 8}}}, as);
    Node *y = build1(&b, op, x);
    Interp in = {.mode = mode, .arena = arena, .arg = give_values, .ctx = arena};
    return interp_graph(&in, g, NULL)[y->id];
}

static void simple_functions(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    const double given[8] = {-2.5, -0.0, 0.25, 3, INFINITY, -INFINITY, NAN, 1e30};
    memcpy(values, given, sizeof given);
    const double floors[5] = {-3, 0, 0, 3, INFINITY};
    const double signs[6] = {-1, 0, 1, 1, 1, -1};
    const double finite[8] = {1, 1, 1, 1, 0, 0, 0, 1};
    for (int mode = 0; mode < 2; mode++) {
        Value *f = apply1(arena, OP_floor, DT_f32, (InterpMode)mode);
        Value *s = apply1(arena, OP_sign, DT_f32, (InterpMode)mode);
        Value *i = apply1(arena, OP_isfinite, DT_f32, (InterpMode)mode);
        assert_int_equal(i->dtype, DT_bool);
        for (int k = 0; k < 8; k++) {
            assert_true(i->v[k] == finite[k]);
            assert_true(k >= 5 || f->v[k] == floors[k]);
            assert_true(k >= 6 || s->v[k] == signs[k]);
        }
        assert_true(isnan(apply1(arena, OP_relu, DT_f32, (InterpMode)mode)->v[6]));
    }
    arena_free(arena);
}

static void integers(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    const double given[8] = {0, 1, 2, 100, 200, 255, 7, 3};
    memcpy(values, given, sizeof given);
    Graph *g = graph_new(arena, "g", GRAPH_Step);
    Builder b = {.graph = g};
    Attrs as = {0};
    attrs_set_str(arena, &as, ATTR_batch, "x");
    Node *x = build_arg(&b, DT_u8, &(Dims){.rank = 1, .d = {{.k = 8}}}, as);
    Node *sum = build2(&b, OP_add, x, build_const(&b, DT_i64, 100));
    Node *half = build2(&b, OP_mul, x, build_const(&b, DT_f32, 0.5));
    Node *ratio = build2(&b, OP_div, x, build_const(&b, DT_i64, 2));
    Node *back = build_cast(&b, half, DT_u8);
    Node *total = build_reduce(&b, OP_sum, x, -1, NULL, false);
    Node *mean = build_reduce(&b, OP_mean, x, -1, NULL, false);
    assert_int_equal(sum->dtype, DT_u8);
    assert_int_equal(half->dtype, DT_f32);
    assert_int_equal(ratio->dtype, DT_f32);
    assert_int_equal(total->dtype, DT_i64);
    assert_int_equal(mean->dtype, DT_f32);
    Interp in = {.mode = INTERP_typed, .arena = arena, .arg = give_values, .ctx = arena};
    Value **v = interp_graph(&in, g, NULL);
    assert_true(v[sum->id]->v[4] == 44); /* 300 in a byte */
    assert_true(v[half->id]->v[5] == 127.5);
    assert_true(v[ratio->id]->v[1] == 0.5);
    assert_true(v[back->id]->v[5] == 127);
    assert_true(v[total->id]->v[0] == 568);
    assert_true(v[mean->id]->v[0] == 71);
    arena_free(arena);
}

/* 0.1 beside an f16 is the f16 nearest to 0.1, and the product is rounded once. */
static void constants_adapt(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    for (int i = 0; i < 8; i++) {
        values[i] = i + 0.5;
    }
    Graph *g = graph_new(arena, "g", GRAPH_Step);
    Builder b = {.graph = g};
    Attrs as = {0};
    attrs_set_str(arena, &as, ATTR_batch, "x");
    Node *x = build_arg(&b, DT_f16, &(Dims){.rank = 1, .d = {{.k = 8}}}, as);
    Node *y = build2(&b, OP_mul, x, build_const(&b, DT_f32, 0.1));
    assert_int_equal(y->dtype, DT_f16);
    Interp in = {.mode = INTERP_typed, .arena = arena, .arg = give_values, .ctx = arena};
    Value **v = interp_graph(&in, g, NULL);
    for (int i = 0; i < 8; i++) {
        double want = round_to(DT_f16, (double)((float)values[i] * (float)round_to(DT_f16, 0.1)));
        assert_true(v[y->id]->v[i] == want);
    }
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_ops),
        cmocka_unit_test(simple_functions),
        cmocka_unit_test(integers),
        cmocka_unit_test(constants_adapt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
