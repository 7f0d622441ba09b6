/* test_ir_round.c: round_to against PyTorch's conversions bit for bit, and against scalar.h, which
 * was written independently. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "golden_load.h"
#include "ir/ir.h"
#include "runtime/abi/scalar.h"

static double widened(DType dt, double bits)
{
    unsigned b = (unsigned)bits;
    switch (dt) {
    case DT_f16: return (double)mpc_f16_to_f32((mpc_f16)b);
    case DT_bf16: return (double)mpc_bf16_to_f32((mpc_bf16)b);
    case DT_f8e4m3: return (double)mpc_f8e4m3_to_f32((mpc_f8e4m3)b);
    default: return (double)mpc_f8e5m2_to_f32((mpc_f8e5m2)b);
    }
}

static bool same(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void golden_casts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        DType dt;
    } types[] = {
        {"f16", DT_f16}, {"bf16", DT_bf16}, {"f8_e4m3fn", DT_f8e4m3}, {"f8_e5m2", DT_f8e5m2}};
    GoldenFile *f = golden_open("casts", "casts");
    const GoldenTensor *x = golden_find(f, "x");
    assert_non_null(x);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        const GoldenTensor *bits = golden_find(f, "%s", types[t].name);
        assert_non_null(bits);
        for (int64_t i = 0; i < x->count; i++) {
            double want = widened(types[t].dt, bits->v[i]), got = round_to(types[t].dt, x->v[i]);
            if (!same(got, want)) {
                fail_msg("%a to %s is %a, not %a", x->v[i], types[t].name, got, want);
            }
        }
    }
    golden_close(f);
}

static uint64_t next(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    uint64_t z = *s ^ *s >> 33;
    return z * 0xff51afd7ed558ccdu;
}

static void against_scalar(void **state)
{
    (void)state;
    uint64_t s = 1;
    for (int i = 0; i < 2000000; i++) {
        uint64_t u = next(&s);
        double d = mpc_of_bits64(u);
        if (i % 2 == 0) { /* near the narrow types' range */
            d = ldexp(1 + (double)(u >> 12) * 0x1p-52, (int)(u & 63) - 40);
        }
        assert_true(same(round_to(DT_f16, d), widened(DT_f16, mpc_f64_to_f16(d))));
        assert_true(same(round_to(DT_bf16, d), widened(DT_bf16, mpc_f64_to_bf16(d))));
        assert_true(same(round_to(DT_f8e4m3, d), widened(DT_f8e4m3, mpc_f64_to_f8e4m3(d))));
        assert_true(same(round_to(DT_f8e5m2, d), widened(DT_f8e5m2, mpc_f64_to_f8e5m2(d))));
        float f = (float)d;
        assert_true(round_to(DT_i32, (double)f) == mpc_f32_to_i32(f));
        assert_true(round_to(DT_u8, (double)f) == mpc_f32_to_u8(f));
        assert_true(round_to(DT_i8, (double)f) == mpc_f32_to_i8(f));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_casts),
        cmocka_unit_test(against_scalar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
