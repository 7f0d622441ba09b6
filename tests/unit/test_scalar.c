/* test_scalar.c: conversions bit for bit against PyTorch's, functions against libm's f64 over all floats.
 *
 * Everything is called from plain loops over arrays, so that what the C compiler vectorises is what is
 * tested. `test_scalar --report` prints the greatest error of each function; more floats are tried with a
 * smaller --step (default 1009; odd).
 */
#include "abi/scalar.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BLOCK = 1024 };

static uint32_t step = 1009;
static int report;

/* --- PyTorch's casts ---------------------------------------------------------------------------- */

typedef struct Casts {
    char *head;
    unsigned char *data;
} Casts;

static void open_casts(Casts *c)
{
    const char *root = getenv("MPC_SOURCE_DIR");
    char path[4096];
    unsigned char size[8];
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof path, "%s/tests/golden/casts/casts.safetensors", root ? root : ".");
    f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s", path);
    assert_int_equal(fread(size, 1, 8, f), 8);
    for (int i = 7; i >= 0; i--)
        n = n << 8 | size[i];
    c->head = calloc(n + 1, 1);
    c->data = malloc(1 << 20);
    assert_true(c->head && c->data);
    assert_int_equal(fread(c->head, 1, n, f), n);
    assert_true(fread(c->data, 1, 1 << 20, f) > 0);
    fclose(f);
}

static void close_casts(Casts *c)
{
    free(c->head);
    free(c->data);
}

/* A tensor's bytes, and how many elements of `bytes` it has. */
static void *casts_tensor(const Casts *c, const char *name, int bytes, int *count)
{
    char key[64];
    const char *at;
    unsigned long lo, hi;

    snprintf(key, sizeof key, "\"%s\":{", name);
    at = strstr(c->head, key);
    assert_non_null(at);
    at = strstr(at, "\"data_offsets\":[");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"data_offsets\":[%lu,%lu]", &lo, &hi), 2);
    *count = (int)((hi - lo) / (unsigned long)bytes);
    return c->data + lo;
}

static int is_nan16(uint32_t h, uint32_t inf)
{
    return (h & 0x7fff) > inf;
}

static void casts_to(void **state)
{
    Casts c;
    int n;

    (void)state;
    open_casts(&c);

    const float *x = casts_tensor(&c, "x", 4, &n);
    const uint16_t *f16 = casts_tensor(&c, "f16", 2, &n), *bf16 = casts_tensor(&c, "bf16", 2, &n);
    const uint8_t *e4m3 = casts_tensor(&c, "f8_e4m3fn", 1, &n);
    const uint8_t *e5m2 = casts_tensor(&c, "f8_e5m2", 1, &n);
    uint16_t h[2][4096];
    uint8_t b[2][4096];

    assert_true(n <= 4096);
    for (int i = 0; i < n; i++)
        h[0][i] = mpc_f32_to_f16(x[i]);
    for (int i = 0; i < n; i++)
        h[1][i] = mpc_f32_to_bf16(x[i]);
    for (int i = 0; i < n; i++)
        b[0][i] = mpc_f32_to_f8e4m3(x[i]);
    for (int i = 0; i < n; i++)
        b[1][i] = mpc_f32_to_f8e5m2(x[i]);
    for (int i = 0; i < n; i++) {
        if (x[i] != x[i]) {
            assert_true(is_nan16(h[0][i], 0x7c00) && is_nan16(h[1][i], 0x7f80));
            assert_true((b[0][i] & 0x7f) == 0x7f && (b[1][i] & 0x7f) > 0x7c);
            continue;
        }
        assert_int_equal(h[0][i], f16[i]);
        assert_int_equal(h[1][i], bf16[i]);
        assert_int_equal(b[0][i], e4m3[i]);
        assert_int_equal(b[1][i], e5m2[i]);
        assert_int_equal(mpc_f64_to_f16(x[i]), f16[i]);
        assert_int_equal(mpc_f64_to_bf16(x[i]), bf16[i]);
        assert_int_equal(mpc_f64_to_f8e4m3(x[i]), e4m3[i]);
        assert_int_equal(mpc_f64_to_f8e5m2(x[i]), e5m2[i]);
    }
    close_casts(&c);
}

static void casts_from(void **state)
{
    Casts c;
    int n;

    (void)state;
    open_casts(&c);

    const uint16_t *bits = casts_tensor(&c, "half_bits", 2, &n);
    const float *f16 = casts_tensor(&c, "half_as_f16", 4, &n);
    const float *bf16 = casts_tensor(&c, "half_as_bf16", 4, &n);

    for (int i = 0; i < n; i++) {
        float a = mpc_f16_to_f32(bits[i]), b = mpc_bf16_to_f32(bits[i]);

        assert_true(mpc_bits(a) == mpc_bits(f16[i]) || (a != a && f16[i] != f16[i]));
        assert_true(mpc_bits(b) == mpc_bits(bf16[i]) || (b != b && bf16[i] != bf16[i]));
    }
    close_casts(&c);
}

/* Every pattern of every small type survives the way to f32 and back. */
static void round_trips(void **state)
{
    (void)state;
    for (int i = 0; i < 65536; i++) {
        float a = mpc_f16_to_f32((mpc_f16)i), b = mpc_bf16_to_f32((mpc_bf16)i);

        assert_true(a != a ? is_nan16(mpc_f32_to_f16(a), 0x7c00) : mpc_f32_to_f16(a) == i);
        assert_true(b != b ? is_nan16(mpc_f32_to_bf16(b), 0x7f80) : mpc_f32_to_bf16(b) == i);
    }
    for (int i = 0; i < 256; i++) {
        float a = mpc_f8e4m3_to_f32((mpc_f8e4m3)i), b = mpc_f8e5m2_to_f32((mpc_f8e5m2)i);

        assert_true(a != a ? (i & 0x7f) == 0x7f : mpc_f32_to_f8e4m3(a) == i);
        assert_true(b != b ? (i & 0x7f) > 0x7c : mpc_f32_to_f8e5m2(b) == i);
    }
    assert_true(mpc_f8e4m3_to_f32(0x7e) == 448.0f && mpc_f8e4m3_to_f32(1) == 0x1p-9f);
    assert_true(mpc_f8e5m2_to_f32(0x7b) == 57344.0f && mpc_f8e5m2_to_f32(1) == 0x1p-16f);
}

/* An f64 just beside the middle of two f16 must not be rounded to the middle first. */
static void single_rounding(void **state)
{
    (void)state;
    for (int i = 0; i < 0x7bff; i++) {
        double lo = mpc_f16_to_f32((mpc_f16)i), hi = mpc_f16_to_f32((mpc_f16)(i + 1));
        double mid = (lo + hi) / 2, by = (hi - lo) * 0x1p-40;

        assert_int_equal(mpc_f64_to_f16(mid - by), i);
        assert_int_equal(mpc_f64_to_f16(mid + by), i + 1);
        assert_int_equal(mpc_f64_to_f16(mid), i + (i & 1));
        assert_int_equal(mpc_f64_to_f16(-mid - by), (i + 1) | 0x8000);
    }
    assert_int_equal(mpc_f64_to_f16(1e300), 0x7c00);
    assert_int_equal(mpc_f64_to_f16(-1e-300), 0x8000);
    assert_int_equal(mpc_f64_to_bf16(3.5e38), 0x7f80);
    assert_int_equal(mpc_f64_to_bf16((double)NAN) & 0x7fff, 0x7fc0);
}

static void to_integers(void **state)
{
    (void)state;
    assert_int_equal(mpc_f32_to_i32(-2.9f), -2);
    assert_int_equal(mpc_f32_to_i32(1e20f), INT32_MAX);
    assert_int_equal(mpc_f32_to_i32(-1e20f), INT32_MIN);
    assert_int_equal(mpc_f32_to_i32(NAN), 0);
    assert_int_equal(mpc_f32_to_i32(2147483520.0f), 2147483520);
    assert_true(mpc_f64_to_i64(1e30) == INT64_MAX && mpc_f64_to_i64(-1e30) == INT64_MIN);
    assert_true(mpc_f64_to_i64(-4503599627370497.0) == -4503599627370497);
    assert_int_equal(mpc_f32_to_u8(300.7f), 44);
    assert_int_equal(mpc_f32_to_i8(200.0f), -56);
    assert_int_equal(mpc_f32_to_i8(-3.5f), -3);
}

/* --- functions of f32 ----------------------------------------------------------------------------- */

typedef void Loop(float *out, const float *in);

#define LOOP(name)                                                                                 \
    static void loop_##name(float *out, const float *in)                                           \
    {                                                                                              \
        for (int i = 0; i < BLOCK; i++)                                                            \
            out[i] = mpc_##name##_f32(in[i]);                                                      \
    }                                                                                              \
    static double exact_##name(double a)                                                           \
    {                                                                                              \
        return mpc_##name##_f64(a);                                                                \
    }

LOOP(exp)
LOOP(exp2)
LOOP(expm1)
LOOP(log)
LOOP(log2)
LOOP(log10)
LOOP(log1p)
LOOP(tanh)
LOOP(sigmoid)
LOOP(softplus)
LOOP(logsigmoid)
LOOP(erf)
LOOP(rsqrt)
LOOP(sqrt)
LOOP(tan)
LOOP(acosh)

/* Beyond what mpc_reduce_angle handles, the angle counts as 0. */
static double exact_sin(double a)
{
    return fabs(a) < 3e9f ? sin(a) : a - a == 0 ? 0.0 : (double)NAN;
}

static double exact_cos(double a)
{
    return fabs(a) < 3e9f ? cos(a) : a - a == 0 ? 1.0 : (double)NAN;
}

static void loop_sin(float *out, const float *in)
{
    for (int i = 0; i < BLOCK; i++)
        out[i] = mpc_sin_f32(in[i]);
}

static void loop_cos(float *out, const float *in)
{
    for (int i = 0; i < BLOCK; i++)
        out[i] = mpc_cos_f32(in[i]);
}

static const struct {
    const char *name;
    Loop *loop;
    double (*exact)(double);
    double bound; /* in units in the last place of the exact result */
} functions[] = {
#define ROW(name, bound)                                                                           \
    {                                                                                              \
#name, loop_##name, exact_##name, bound                                                    \
    }
    ROW(exp, 1.0),      ROW(exp2, 1.1),  ROW(expm1, 1.7),  ROW(log, 0.9),     ROW(log2, 0.6),
    ROW(log10, 0.6),    ROW(log1p, 1.0), ROW(tanh, 1.5),   ROW(sigmoid, 2.3), ROW(softplus, 2.0),
    ROW(logsigmoid, 2), ROW(erf, 2.0),   ROW(sin, 1.5),    ROW(cos, 1.5),     ROW(rsqrt, 1.5),
    ROW(sqrt, 0.5),     ROW(tan, 0.51),  ROW(acosh, 0.51),
};

/* |got - exact| in the spacing of floats at `exact`; infinities and NaN must agree. */
static double ulps(float got, double exact)
{
    double reach =
        fmax(-0x1p128, fmin(exact, 0x1p128)); /* inf counts as the float after the last */
    double value = isinf(got) ? copysign(0x1p128, got) : (double)got;
    int place = exact == 0 ? -149 : ilogb(reach) - 23;

    if (exact != exact || got != got)
        return (exact != exact) == (got != got) ? 0 : INFINITY;
    return fabs(value - reach) / ldexp(1, place < -149 ? -149 : place > 104 ? 104 : place);
}

static double worst(Loop *loop, double (*exact)(double), float *where)
{
    float in[BLOCK], out[BLOCK];
    double most = 0;

    for (uint64_t at = 0; at < (uint64_t)1 << 32; at += (uint64_t)step * BLOCK) {
        for (int i = 0; i < BLOCK; i++)
            in[i] = mpc_of_bits((uint32_t)(at + (uint64_t)step * (uint32_t)i));
        loop(out, in);
        for (int i = 0; i < BLOCK; i++) {
            double e = ulps(out[i], exact(in[i]));

            if (e > most) {
                most = e;
                *where = in[i];
            }
        }
    }
    return most;
}

static void accuracy(void **state)
{
    int bad = 0;

    (void)state;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        float where = 0;
        double e = worst(functions[i].loop, functions[i].exact, &where);

        if (report || e > functions[i].bound)
            printf("%-10s %.3f ulp at %.9g\n", functions[i].name, e, (double)where);
        bad += e > functions[i].bound;
    }
    assert_int_equal(bad, 0);
}

/* One number for the bits of all results; NaN counts as one value. */
static void digest(uint64_t *sum, const float *out)
{
    for (int i = 0; i < BLOCK; i++)
        *sum = (*sum ^ (out[i] != out[i] ? 0x7fc00000u : mpc_bits(out[i]))) * 1099511628211u;
}

/* What the functions without libm give, whatever the compiler and the instruction set. */
static void same_bits_everywhere(void **state)
{
    float in[BLOCK], other[BLOCK], out[BLOCK];
    uint64_t sum = 14695981039346656037u;

    (void)state;
    for (uint64_t at = 0; at < (uint64_t)1 << 32; at += (uint64_t)BLOCK * 4099) {
        for (int i = 0; i < BLOCK; i++) {
            in[i] = mpc_of_bits((uint32_t)at + 4099u * (uint32_t)i);
            other[i] = mpc_of_bits((uint32_t)at * 31u + 4099u * (uint32_t)i);
        }
        for (size_t f = 0; f < sizeof functions / sizeof *functions - 2; f++) {
            functions[f].loop(out, in);
            digest(&sum, out);
        }
        for (int i = 0; i < BLOCK; i++)
            out[i] = mpc_pow_f32(in[i], other[i]);
        digest(&sum, out);
    }
    if (report)
        printf("digest     %#llx\n", (unsigned long long)sum);
    assert_true(sum == 0xcb69a8844a0a30abu);
}

/* The values a function is asked for most: zeros, infinities, the ends of its range. */
static void special_values(void **state)
{
    float inf = INFINITY, nan = NAN;

    (void)state;
    assert_true(mpc_exp_f32(inf) == inf && mpc_exp_f32(-inf) == 0 && mpc_exp_f32(0) == 1);
    assert_true(mpc_exp_f32(88.72283f) < inf && mpc_exp_f32(88.72285f) == inf);
    assert_true(mpc_exp_f32(-103.9f) == 0x1p-149f && mpc_exp_f32(-104) == 0);
    assert_true(mpc_exp2_f32(127) == 0x1p127f && mpc_exp2_f32(-149) == 0x1p-149f);
    assert_true(mpc_log_f32(0) == -inf && mpc_log_f32(inf) == inf && mpc_log_f32(1) == 0);
    assert_true(isnan(mpc_log_f32(-1)) && isnan(mpc_log_f32(nan)) &&
                mpc_log2_f32(0x1p-149f) == -149);
    assert_true(mpc_log1p_f32(-1) == -inf && isnan(mpc_log1p_f32(-1.5f)) && mpc_log1p_f32(0) == 0);
    assert_true(mpc_tanh_f32(inf) == 1 && mpc_tanh_f32(-50) == -1 &&
                mpc_tanh_f32(1e-30f) == 1e-30f);
    assert_true(mpc_sigmoid_f32(-inf) == 0 && mpc_sigmoid_f32(inf) == 1 &&
                mpc_sigmoid_f32(0) == 0.5f);
    assert_true(mpc_sigmoid_f32(-100) > 0 && mpc_softplus_f32(200) == 200);
    assert_true(mpc_rsqrt_f32(0) == inf && mpc_rsqrt_f32(4) == 0.5f && mpc_erf_f32(-inf) == -1);
    assert_true(isnan(mpc_max_f32(nan, 1)) && isnan(mpc_max_f32(1, nan)) && mpc_max_f32(2, 1) == 2);
    assert_true(isnan(mpc_min_f32(nan, 1)) && isnan(mpc_min_f32(1, nan)) && mpc_min_f32(2, 1) == 1);
    assert_true(mpc_round_f32(2.5f) == 2 && mpc_round_f32(-1.5f) == -2 &&
                mpc_trunc_f32(-1.7f) == -1);
    assert_true(mpc_sign_f32(-3) == -1 && mpc_sign_f32(0) == 0 && isnan(mpc_sign_f32(nan)));
    assert_true(isnan(mpc_sin_f32(inf)) && mpc_sin_f32(1e30f) == 0 && mpc_cos_f32(1e30f) == 1);
}

static void power(void **state)
{
    static const float edge[] = {0,        -0.0f,     1,   -1,       2,       -2,       0.5f,
                                 -0.5f,    3,         -3,  1e30f,    -1e30f,  1e-40f,   -1e-40f,
                                 INFINITY, -INFINITY, NAN, 16777216, 8388607, -8388607, 127.5f};
    enum { EDGES = sizeof edge / sizeof *edge };
    uint32_t seed = 7;
    double most = 0;

    (void)state;
    for (int i = 0; i < EDGES; i++)
        for (int j = 0; j < EDGES; j++) {
            float got = mpc_pow_f32(edge[i], edge[j]);
            double exact = pow(edge[i], edge[j]);

            if (ulps(got, exact) > 0.6)
                fail_msg("pow(%g, %g) = %g, not %g", (double)edge[i], (double)edge[j], (double)got,
                         exact);
        }
    for (int i = 0; i < 4000; i++) {
        float a[BLOCK], b[BLOCK], out[BLOCK];

        for (int j = 0; j < BLOCK; j++) {
            seed = seed * 1664525 + 1013904223;
            a[j] = i % 2 ? mpc_of_bits(seed & 0x7fffffff) : 0.5f + (float)(seed >> 8) * 0x1p-24f;
            seed = seed * 1664525 + 1013904223;
            b[j] = ((float)(seed >> 8) * 0x1p-24f - 0.5f) * (i % 2 ? 4.0f : 400.0f);
        }
        for (int j = 0; j < BLOCK; j++)
            out[j] = mpc_pow_f32(a[j], b[j]);
        for (int j = 0; j < BLOCK; j++)
            most = fmax(most, ulps(out[j], pow(a[j], b[j])));
    }
    if (report)
        printf("%-10s %.3f ulp\n", "pow", most);
    assert_true(most <= 0.6);
}

/* --- one expression, three meanings --------------------------------------------------------------- */

#define EXPRESSION mpc_tanh(a) * MPC_C(0.5) + mpc_max(a, 0)

static MPC_REAL single(MPC_REAL a)
{
    return EXPRESSION;
}

#define MPC_SCALAR_F64
#include "abi/scalar.h"

static MPC_REAL twice(MPC_REAL a)
{
    return EXPRESSION;
}

#undef MPC_SCALAR_F64
#include "abi/scalar.h"

static void precisions(void **state)
{
    (void)state;
    assert_int_equal(sizeof single(1), 4);
    assert_int_equal(sizeof twice(1), 8);
    assert_int_equal(sizeof(MPC_REAL), 4);
    assert_true(fabs(twice(0.3) - (tanh(0.3) * 0.5 + 0.3)) < 1e-15);
    assert_true(fabsf(single(0.3f) - (float)twice((double)0.3f)) < 1e-6f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(casts_to),       cmocka_unit_test(casts_from),
        cmocka_unit_test(round_trips),    cmocka_unit_test(single_rounding),
        cmocka_unit_test(to_integers),    cmocka_unit_test(accuracy),
        cmocka_unit_test(special_values), cmocka_unit_test(power),
        cmocka_unit_test(precisions),     cmocka_unit_test(same_bits_everywhere),
    };

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--report") == 0)
            report = 1;
        else if (strcmp(argv[i], "--step") == 0 && i + 1 < argc)
            step = (uint32_t)atol(argv[++i]) | 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
