/* test_gemm.c: contractions of every form, type and awkward size against sums in f64.
 *
 * Built once for each instruction set; a machine that lacks the one it was built for skips. Operands,
 * packed panels, scratch and result lie between guard words, so that a write beside them is found.
 */
#include "kernels/gemm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { GUARD = 64 }; /* floats on either side of a block */

typedef enum Type { T_f32, T_f16, T_bf16, T_panels, TYPES } Type;

typedef struct Case {
    int64_t m, n, k;
    int a_turned, b_turned; /* A is stored (k, m), B (n, k) */
    Type type;
} Case;

/* --- memory with guards ---------------------------------------------------------------------------- */

typedef struct Block {
    float *at;
    int64_t count;
} Block;

static const float guard_word = -12345.75f;

static Block block(int64_t bytes)
{
    Block b = {.count = bytes / 4};
    int64_t total = ((b.count + 2 * GUARD) * 4 + 63) / 64 * 64;
    float *all = aligned_alloc(64, (size_t)total);

    assert_non_null(all);
    for (int64_t i = 0; i < total / 4; i++)
        all[i] = guard_word;
    b.at = all + GUARD;
    return b;
}

static void release(Block b)
{
    for (int i = 1; i <= GUARD; i++)
        assert_true(b.at[-i] == guard_word && b.at[b.count + i - 1] == guard_word);
    free(b.at - GUARD);
}

/* --- operands --------------------------------------------------------------------------------------- */

static uint32_t seed = 1;

static float random_value(void)
{
    seed = seed * 1664525 + 1013904223;
    return (float)(seed >> 8) * 0x1p-24f - 0.5f;
}

/* Values that every type holds exactly; the pointer is a 16-bit one for the 16-bit types. */
static Block operand(int64_t count, Type type)
{
    Block b = block((type == T_f16 || type == T_bf16 ? (count + 1) / 2 : count) * 4);
    uint16_t *h = (uint16_t *)b.at;

    for (int64_t i = 0; i < count; i++) {
        float v = mpc_bf16_to_f32(mpc_f32_to_bf16(mpc_f16_to_f32(mpc_f32_to_f16(random_value()))));

        if (type == T_f16)
            h[i] = mpc_f32_to_f16(v);
        else if (type == T_bf16)
            h[i] = mpc_f32_to_bf16(v);
        else
            b.at[i] = v;
    }
    return b;
}

static double element(const float *x, Type type, int64_t i)
{
    const uint16_t *h = (const uint16_t *)x;

    return type == T_f16 ? mpc_f16_to_f32(h[i]) : type == T_bf16 ? mpc_bf16_to_f32(h[i]) : x[i];
}

/* --- a contraction as a generated program has it ---------------------------------------------------- */

typedef struct Contraction {
    Case of;
    int64_t am, ak, bk, bn; /* strides */
    const float *x, *y;
    float *packed_a, *packed_b, *scratch, *c;
} Contraction;

/* An operand written into the panels by the caller, along whichever axis is contiguous. */
static void fill_panels(MpcPanel *p, const float *x, int64_t su, int64_t sk)
{
    while (mpc_panel_next(p)) {
        if (p->axis == MPC_ALONG_K)
            for (int u = 0; u < p->un; u++)
                for (int k = 0; k < p->kn; k++)
                    p->in[u][k] = x[(p->u + u) * su + (p->k + k) * sk];
        else
            for (int k = 0; k < p->kn; k++)
                for (int u = 0; u < p->un; u++)
                    p->out[k * p->stride + u] = x[(p->u + u) * su + (p->k + k) * sk];
    }
}

static void operands(const Contraction *c, const MpcGemm *g)
{
    const void *x = c->x, *y = c->y;
    MpcPanel p;

    switch (c->of.type) {
    case T_f32:
        mpc_pack_a_f32(g, x, c->am, c->ak);
        mpc_pack_b_f32(g, y, c->bk, c->bn);
        return;
    case T_f16:
        mpc_pack_a_f16(g, x, c->am, c->ak);
        mpc_pack_b_f16(g, y, c->bk, c->bn);
        return;
    case T_bf16:
        mpc_pack_a_bf16(g, x, c->am, c->ak);
        mpc_pack_b_bf16(g, y, c->bk, c->bn);
        return;
    default:
        mpc_panel_a(&p, g, c->ak == 1 ? MPC_ALONG_K : MPC_ACROSS_K);
        fill_panels(&p, c->x, c->am, c->ak);
        mpc_panel_b(&p, g, c->bk == 1 ? MPC_ALONG_K : MPC_ACROSS_K);
        fill_panels(&p, c->y, c->bn, c->bk);
    }
}

static void compute(const Contraction *c, int64_t tile)
{
    const Case *of = &c->of;
    const MpcGemm g =
        mpc_gemm_tile(of->m, of->n, of->k, tile, c->packed_a, c->packed_b, c->scratch);
    MpcTile t;

    operands(c, &g);
    for (mpc_tile_open(&t, &g); mpc_tile_next(&t);)
        for (int i = 0; i < t.m; i++)
            for (int j = 0; j < t.n; j++)
                c->c[(t.i + i) * of->n + t.j + j] = t.acc[i][j];
}

/* All tiles, last one first: their order must not matter. */
static void contract(Contraction *c)
{
    const Case *of = &c->of;
    const MpcGemm g = mpc_gemm(of->m, of->n, of->k);
    Block a = block(MPC_GEMM_A_BYTES(MPC_ISA, of->m, of->n, of->k));
    Block b = block(MPC_GEMM_B_BYTES(MPC_ISA, of->m, of->n, of->k));
    Block own = block(MPC_GEMM_OWN_BYTES(MPC_ISA, of->k));

    c->am = of->a_turned ? 1 : of->k;
    c->ak = of->a_turned ? of->m : 1;
    c->bk = of->b_turned ? 1 : of->n;
    c->bn = of->b_turned ? of->k : 1;
    c->packed_a = a.at;
    c->packed_b = b.at;
    c->scratch = own.at;
    for (int64_t tile = g.pack_tiles; tile-- > 0;) {
        const MpcGemm p = mpc_gemm_pack(of->m, of->n, of->k, tile, a.at, b.at);

        operands(c, &p);
    }
    for (int64_t tile = g.tiles; tile-- > 0;)
        compute(c, tile);
    release(a);
    release(b);
    release(own);
}

static void check(const Case *of)
{
    Block x = operand(of->m * of->k, of->type), y = operand(of->k * of->n, of->type);
    Block result = block(of->m * of->n * 4);
    Contraction c = {.of = *of, .x = x.at, .y = y.at, .c = result.at};
    int64_t wrong = 0;

    contract(&c);
    for (int64_t i = 0; i < of->m; i++)
        for (int64_t j = 0; j < of->n; j++) {
            double sum = 0, size = 0;

            for (int64_t k = 0; k < of->k; k++) {
                double p = element(x.at, of->type, i * c.am + k * c.ak) *
                           element(y.at, of->type, k * c.bk + j * c.bn);

                sum += p;
                size += fabs(p);
            }
            wrong += !(fabs(result.at[i * of->n + j] - sum) <= 0x1p-22 * sqrt(of->k + 4.0) * size);
        }
    if (wrong)
        fail_msg("%lld of %lld wrong: m %lld n %lld k %lld type %d turned %d %d", (long long)wrong,
                 (long long)(of->m * of->n), (long long)of->m, (long long)of->n, (long long)of->k,
                 (int)of->type, of->a_turned, of->b_turned);
    release(x);
    release(y);
    release(result);
}

/* Every form and type at one size. */
static void check_all(int64_t m, int64_t n, int64_t k)
{
    for (int form = 0; form < 4; form++)
        for (int type = 0; type < TYPES; type++)
            check(&(Case){m, n, k, form & 1, form >> 1, (Type)type});
}

/* --- tests ------------------------------------------------------------------------------------------- */

static int can_run(void)
{
#if MPC_ISA == MPC_ISA_avx512
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif MPC_ISA == MPC_ISA_avx2
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 1;
#endif
}

/* Each of 1 .. 70 for each of the three sizes, the others varied beside it. */
static void tails(void **state)
{
    (void)state;
    for (int i = 1; i <= 70; i++) {
        check_all(i, (i * 29 + 3) % 70 + 1, (i * 13 + 5) % 70 + 1);
        check_all((i * 31 + 7) % 70 + 1, i, (i * 17 + 1) % 70 + 1);
        check_all((i * 37 + 11) % 70 + 1, (i * 41 + 13) % 70 + 1, i);
    }
}

/* Where both operands, one of them or neither is packed beforehand, and where k takes several passes. */
static void larger(void **state)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1},       {1, 300, 40},   {300, 1, 40},    {300, 10, 33},  {141, 33, 7},
        {140, 600, 65},  {145, 600, 65}, {289, 100, 129}, {17, 19, 1500}, {150, 40, 900},
        {130, 10, 1030}, {9, 9, 5000},   {200, 70, 4100}};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_all(sizes[i][0], sizes[i][1], sizes[i][2]);
}

static void empty_sum(void **state)
{
    Block result = block(5 * 40 * 4);
    Contraction c = {.of = {5, 40, 0, 0, 0, T_f32}, .x = result.at, .y = result.at, .c = result.at};

    (void)state;
    contract(&c);
    for (int i = 0; i < 5 * 40; i++)
        assert_true(result.at[i] == 0 && !signbit(result.at[i]));
    release(result);
}

/* Row i of a large contraction has the bits of row i of a small one: a batch's size changes nothing. */
static void rows_stand_alone(void **state)
{
    enum { M = 300, N = 75, K = 1100 };
    Block x = operand(M * K, T_f32), y = operand(K * N, T_f32), all = block(M * N * 4);
    Contraction c = {.of = {M, N, K, 0, 1, T_f32}, .x = x.at, .y = y.at, .c = all.at};

    (void)state;
    contract(&c);
    for (int m = 1; m < M; m += 23) {
        Block part = block(m * N * 4);

        c.of.m = m;
        c.c = part.at;
        contract(&c);
        assert_memory_equal(part.at, all.at, (size_t)m * N * 4);
        release(part);
    }
    release(x);
    release(y);
    release(all);
}

static void infinities_and_nan(void **state)
{
    float x[2 * 3] = {1, INFINITY, 0, 0, NAN, 2}, y[3 * 2] = {1, 1, 1, -1, 1, 1}, out[4];
    Contraction c = {.of = {2, 2, 3, 0, 0, T_f32}, .x = x, .y = y, .c = out};

    (void)state;
    contract(&c);
    assert_true(isinf(out[0]) && out[0] > 0 && isinf(out[1]) && out[1] < 0);
    assert_true(isnan(out[2]) && isnan(out[3]));
}

/* --- vectors: 16-bit loads and stores have the bits of scalar.h --------------------------------------- */

static void widening(void **state)
{
    (void)state;
    for (int i = 0; i < 65536; i += MPC_VL) {
        uint16_t h[MPC_VL];
        float f16[MPC_VL], bf16[MPC_VL];

        for (int j = 0; j < MPC_VL; j++)
            h[j] = (uint16_t)(i + j);
        vf_storeu(f16, vf_load_f16(h));
        vf_storeu(bf16, vf_load_bf16(h));
        for (int j = 0; j < MPC_VL; j++) {
            float a = mpc_f16_to_f32(h[j]), b = mpc_bf16_to_f32(h[j]);

            assert_true(a != a ? f16[j] != f16[j] : mpc_bits(a) == mpc_bits(f16[j]));
            assert_true(mpc_bits(b) == mpc_bits(bf16[j]));
        }
    }
}

static void narrowing(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < (uint64_t)1 << 32; at += 4093 * MPC_VL) {
        uint16_t f16[MPC_VL], bf16[MPC_VL];
        float v[MPC_VL];

        for (int j = 0; j < MPC_VL; j++)
            v[j] = mpc_of_bits((uint32_t)at + 4093u * (uint32_t)j);
        vf_store_f16(f16, vf_loadu(v));
        vf_store_bf16(bf16, vf_loadu(v));
        for (int j = 0; j < MPC_VL; j++) {
            assert_int_equal(f16[j], mpc_f32_to_f16(v[j]));
            assert_int_equal(bf16[j], mpc_f32_to_bf16(v[j]));
        }
    }
}

static void transposing(void **state)
{
    mpc_vf r[MPC_VL];
    float row[MPC_VL];

    (void)state;
    for (int i = 0; i < MPC_VL; i++) {
        for (int j = 0; j < MPC_VL; j++)
            row[j] = (float)(i * MPC_VL + j);
        r[i] = vf_loadu(row);
    }
    vf_transpose(r);
    for (int i = 0; i < MPC_VL; i++) {
        vf_storeu(row, r[i]);
        for (int j = 0; j < MPC_VL; j++)
            assert_true(row[j] == (float)(j * MPC_VL + i));
    }
}

static __attribute__((noinline)) int run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widening),         cmocka_unit_test(narrowing),
        cmocka_unit_test(transposing),      cmocka_unit_test(tails),
        cmocka_unit_test(larger),           cmocka_unit_test(empty_sum),
        cmocka_unit_test(rows_stand_alone), cmocka_unit_test(infinities_and_nan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    if (!can_run()) {
        puts("skipped: this CPU lacks the instructions that the test was built for");
        return 77;
    }
    return run_all();
}
