/* scalar.h: the arithmetic of one element, the same bits wherever it is compiled.
 *
 * Conversions between the storage types of dtypes.def, and the functions that the expression column
 * of ir/ops.def may call. Valid as C17 (generated programs, the interpreter) and as CUDA C. All f32
 * code is branch-free and without fused operations, so that gcc and clang vectorise a loop over it
 * (-O3 -fno-math-errno -fno-trapping-math) and SSE2, AVX2, AVX-512, NEON and a GPU agree bit for bit;
 * compile with -ffp-contract=off (--fmad=false). Subnormals count: do not set flush-to-zero.
 *
 * One expression, three meanings. `mpc_exp(a)` names mpc_exp_f32; after
 *     #define MPC_SCALAR_F64
 *     #include "abi/scalar.h"
 * it names mpc_exp_f64 (libm, double) and MPC_REAL is double. The header may be included again without
 * MPC_SCALAR_F64 to switch back. Constants in an expression are written MPC_C(0.5). Error bounds are
 * in units in the last place, the greatest seen by tests/unit/test_scalar.c.
 */
#ifndef MPC_SCALAR_H
#define MPC_SCALAR_H

#ifdef __CUDACC__
#define MPC_FN static __device__ __forceinline__
#ifdef __CUDACC_RTC__ /* NVRTC has no C headers */
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#define MPC_FN static inline __attribute__((always_inline, unused))
#endif

typedef uint16_t mpc_f16;
typedef uint16_t mpc_bf16;
typedef uint8_t mpc_f8e4m3;
typedef uint8_t mpc_f8e5m2;

/* --- bit patterns --------------------------------------------------------------------------- */

MPC_FN uint32_t mpc_bits(float a)
{
#ifdef __CUDACC__
    return __float_as_uint(a);
#else
    uint32_t u;

    memcpy(&u, &a, sizeof u);
    return u;
#endif
}

MPC_FN float mpc_of_bits(uint32_t u)
{
#ifdef __CUDACC__
    return __uint_as_float(u);
#else
    float a;

    memcpy(&a, &u, sizeof a);
    return a;
#endif
}

MPC_FN uint64_t mpc_bits64(double a)
{
#ifdef __CUDACC__
    return (uint64_t)__double_as_longlong(a);
#else
    uint64_t u;

    memcpy(&u, &a, sizeof u);
    return u;
#endif
}

MPC_FN double mpc_of_bits64(uint64_t u)
{
#ifdef __CUDACC__
    return __longlong_as_double((long long)u);
#else
    double a;

    memcpy(&a, &u, sizeof a);
    return a;
#endif
}

#define MPC_INF_F32 mpc_of_bits(0x7f800000u)
#define MPC_NAN_F32 mpc_of_bits(0x7fc00000u)

/* --- conversions: every f32 value rounds to nearest even ------------------------------------ */

MPC_FN float mpc_f16_to_f32(mpc_f16 h)
{
    uint32_t u = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t normal = u + (112u << 23), special = u + (224u << 23);
    uint32_t tiny = mpc_bits(mpc_of_bits(u + (113u << 23)) - mpc_of_bits(113u << 23));
    uint32_t r = (int32_t)u >= 0x0f800000 ? special : normal;

    return mpc_of_bits(((int32_t)u < 0x00800000 ? tiny : r) | sign);
}

/* The sum in `tiny` puts the last place of a subnormal f16 at the last place of an f32. */
MPC_FN mpc_f16 mpc_f32_to_f16(float a)
{
    uint32_t u = mpc_bits(a), sign = u >> 16 & 0x8000;
    int32_t m = (int32_t)(u & 0x7fffffff);
    uint32_t normal = ((uint32_t)m - (112u << 23) + 0xfff + ((uint32_t)m >> 13 & 1)) >> 13;
    uint32_t tiny = mpc_bits(mpc_of_bits((uint32_t)m) + 0.5f) - 0x3f000000u;
    uint32_t nan = 0x7e00u | ((uint32_t)m >> 13 & 0x3ff);
    uint32_t r = m < 0x38800000 ? tiny : normal;

    r = m >= 0x47800000 ? 0x7c00u : r;
    r = m > 0x7f800000 ? nan : r;
    return (mpc_f16)(r | sign);
}

MPC_FN float mpc_bf16_to_f32(mpc_bf16 h)
{
    return mpc_of_bits((uint32_t)h << 16);
}

MPC_FN mpc_bf16 mpc_f32_to_bf16(float a)
{
    uint32_t u = mpc_bits(a), r = (u + 0x7fff + (u >> 16 & 1)) >> 16;

    return (mpc_bf16)((int32_t)(u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : r);
}

MPC_FN float mpc_f8e4m3_to_f32(mpc_f8e4m3 h)
{
    uint32_t u = (uint32_t)(h & 0x7f) << 20, sign = (uint32_t)(h & 0x80) << 24;
    uint32_t tiny = mpc_bits(mpc_of_bits(u + (121u << 23)) - mpc_of_bits(121u << 23));
    uint32_t r = (int32_t)u < 0x00800000 ? tiny : u + (120u << 23);

    return mpc_of_bits(((int32_t)u == 0x07f00000 ? 0x7fc00000u : r) | sign);
}

/* Saturates: 448 for everything above, infinity included. */
MPC_FN mpc_f8e4m3 mpc_f32_to_f8e4m3(float a)
{
    uint32_t u = mpc_bits(a), sign = u >> 24 & 0x80;
    int32_t m = (int32_t)(u & 0x7fffffff);
    uint32_t normal = ((uint32_t)m - (120u << 23) + 0x7ffff + ((uint32_t)m >> 20 & 1)) >> 20;
    uint32_t tiny = mpc_bits(mpc_of_bits((uint32_t)m) + 16384.0f) - 0x46800000u;
    uint32_t r = m < 0x3c800000 ? tiny : normal;

    r = m >= 0x43e00000 ? 0x7eu : r;
    r = m > 0x7f800000 ? 0x7fu : r;
    return (mpc_f8e4m3)(r | sign);
}

MPC_FN float mpc_f8e5m2_to_f32(mpc_f8e5m2 h)
{
    return mpc_f16_to_f32((mpc_f16)(h << 8));
}

MPC_FN mpc_f8e5m2 mpc_f32_to_f8e5m2(float a)
{
    uint32_t u = mpc_bits(a), sign = u >> 24 & 0x80;
    int32_t m = (int32_t)(u & 0x7fffffff);
    uint32_t normal = ((uint32_t)m - (112u << 23) + 0xfffff + ((uint32_t)m >> 21 & 1)) >> 21;
    uint32_t tiny = mpc_bits(mpc_of_bits((uint32_t)m) + 128.0f) - 0x43000000u;
    uint32_t r = m < 0x38800000 ? tiny : normal;

    r = m >= 0x47800000 ? 0x7cu : r;
    r = m > 0x7f800000 ? 0x7fu : r;
    return (mpc_f8e5m2)(r | sign);
}

/* f64 to f32, inexact results to the odd neighbour: rounding that again to a shorter type gives the
 * f64 value correctly rounded. */
MPC_FN float mpc_f64_to_f32_odd(double a)
{
    float f = (float)a;
    double back = (double)f;
    uint32_t u = mpc_bits(f);
    uint32_t away = (back > 0 ? back > a : back < 0 && back < a) ? 1 : 0;

    return mpc_of_bits(back == a || a != a ? u : (u - away) | 1);
}

MPC_FN mpc_f16 mpc_f64_to_f16(double a)
{
    return mpc_f32_to_f16(mpc_f64_to_f32_odd(a));
}

MPC_FN mpc_bf16 mpc_f64_to_bf16(double a)
{
    return mpc_f32_to_bf16(mpc_f64_to_f32_odd(a));
}

MPC_FN mpc_f8e4m3 mpc_f64_to_f8e4m3(double a)
{
    return mpc_f32_to_f8e4m3(mpc_f64_to_f32_odd(a));
}

MPC_FN mpc_f8e5m2 mpc_f64_to_f8e5m2(double a)
{
    return mpc_f32_to_f8e5m2(mpc_f64_to_f32_odd(a));
}

/* To integers: towards zero, saturating, NaN gives 0. (A plain C cast is undefined out of range.) */
MPC_FN int32_t mpc_f32_to_i32(float a)
{
    float b = a < 2147483520.0f ? a : 2147483520.0f;
    float c = b > -2147483648.0f ? b : -2147483648.0f;

    return a != a ? 0 : a >= 2147483648.0f ? 2147483647 : (int32_t)c;
}

MPC_FN int64_t mpc_f64_to_i64(double a)
{
    double b = a < 9223372036854774784.0 ? a : 9223372036854774784.0;
    double c = b > -9223372036854775808.0 ? b : -9223372036854775808.0;

    return a != a ? 0 : a >= 9223372036854775808.0 ? (int64_t)0x7fffffffffffffff : (int64_t)c;
}

MPC_FN int64_t mpc_f32_to_i64(float a)
{
    return mpc_f64_to_i64((double)a);
}

/* Integers modulo 2^8, as C and PyTorch narrow them; floats that way after truncation. */
MPC_FN uint8_t mpc_f32_to_u8(float a)
{
    return (uint8_t)mpc_f32_to_i32(a);
}

MPC_FN int8_t mpc_f32_to_i8(float a)
{
    uint32_t low = (uint32_t)mpc_f32_to_i32(a) & 0xff;

    return (int8_t)((int32_t)(low ^ 0x80) - 0x80);
}

/* --- simple functions, in both precisions --------------------------------------------------- */

#define MPC_SIMPLE(real, s, fabs_, sqrt_, floor_, ceil_, trunc_, rint_)                                 \
    /* NaN if either is NaN, as torch.maximum; two selections, which compilers do for a whole vector */ \
    MPC_FN real mpc_max_##s(real a, real b)                                                             \
    {                                                                                                   \
        const real largest = a > b ? a : b;                                                             \
                                                                                                        \
        return a != a ? a : largest;                                                                    \
    }                                                                                                   \
    MPC_FN real mpc_min_##s(real a, real b)                                                             \
    {                                                                                                   \
        const real least = a < b ? a : b;                                                               \
                                                                                                        \
        return a != a ? a : least;                                                                      \
    }                                                                                                   \
    MPC_FN real mpc_abs_##s(real a)                                                                     \
    {                                                                                                   \
        return fabs_(a);                                                                                \
    }                                                                                                   \
    MPC_FN real mpc_sign_##s(real a)                                                                    \
    {                                                                                                   \
        return a > 0 ? (real)1 : a < 0 ? (real)-1 : a;                                                  \
    }                                                                                                   \
    MPC_FN real mpc_sqrt_##s(real a)                                                                    \
    {                                                                                                   \
        return sqrt_(a);                                                                                \
    }                                                                                                   \
    MPC_FN real mpc_rsqrt_##s(real a)                                                                   \
    {                                                                                                   \
        return 1 / sqrt_(a);                                                                            \
    }                                                                                                   \
    MPC_FN real mpc_floor_##s(real a)                                                                   \
    {                                                                                                   \
        return floor_(a);                                                                               \
    }                                                                                                   \
    MPC_FN real mpc_ceil_##s(real a)                                                                    \
    {                                                                                                   \
        return ceil_(a);                                                                                \
    }                                                                                                   \
    MPC_FN real mpc_trunc_##s(real a)                                                                   \
    {                                                                                                   \
        return trunc_(a);                                                                               \
    }                                                                                                   \
    /* halves to even */                                                                                \
    MPC_FN real mpc_round_##s(real a)                                                                   \
    {                                                                                                   \
        return rint_(a);                                                                                \
    }                                                                                                   \
    MPC_FN int mpc_isfinite_##s(real a)                                                                 \
    {                                                                                                   \
        return a - a == 0;                                                                              \
    }

MPC_SIMPLE(float, f32, fabsf, sqrtf, floorf, ceilf, truncf, rintf)
MPC_SIMPLE(double, f64, fabs, sqrt, floor, ceil, trunc, rint)

/* Of integers, computed in the widest. */
MPC_FN int64_t mpc_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

MPC_FN int64_t mpc_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

MPC_FN int64_t mpc_abs_i64(int64_t a)
{
    return a < 0 ? -a : a;
}

MPC_FN int64_t mpc_sign_i64(int64_t a)
{
    return (a > 0) - (a < 0);
}

/* a with the sign of b */
MPC_FN float mpc_copysign_f32(float a, float b)
{
    return mpc_of_bits((mpc_bits(a) & 0x7fffffffu) | (mpc_bits(b) & 0x80000000u));
}

MPC_FN double mpc_copysign_f64(double a, double b)
{
    return copysign(a, b);
}

/* --- f32 functions: polynomials fitted by weighted minimax, coefficients rounded to f32 ------ */

/* exp(r) - 1 - r over r*r, |r| <= ln(2)/2; relative error of exp 5e-9 */
MPC_FN float mpc_exp_tail(float r)
{
    return 0.5f +
           r * (0.166665152f + r * (0.0416661985f + r * (0.0083692437f + r * 0.0013951048f)));
}

/* The nearest integer to a, |a| < 2^22, as the low bits of a float (subtract 0x4b400000 from them). */
#define MPC_ROUND_MAGIC 12582912.0f
#define MPC_LN2_HI 0.693359375f
#define MPC_LN2_LO -2.12194440e-4f

/* 1.0 ulp. Overflows to inf above 88.72, underflows gradually to 0 below -103.97. */
MPC_FN float mpc_exp_f32(float a)
{
    float hi = a > 89.0f ? 89.0f : a, x = hi < -104.0f ? -104.0f : hi; /* NaN stays */
    float big = x * 1.44269504f + MPC_ROUND_MAGIC, n = big - MPC_ROUND_MAGIC;
    float r = (x - n * MPC_LN2_HI) - n * MPC_LN2_LO;
    float p = 1.0f + (r + r * r * mpc_exp_tail(r));
    int32_t i = (int32_t)(mpc_bits(big) - 0x4b400000u), half = i >> 1;

    /* 2^n in two factors: n reaches 128 and -150 */
    return p * mpc_of_bits(((uint32_t)half + 127u) << 23) *
           mpc_of_bits(((uint32_t)(i - half) + 127u) << 23);
}

/* 1.1 ulp */
MPC_FN float mpc_exp2_f32(float a)
{
    float hi = a > 129.0f ? 129.0f : a, x = hi < -151.0f ? -151.0f : hi;
    float big = x + MPC_ROUND_MAGIC, r = x - (big - MPC_ROUND_MAGIC);
    float p = 0.00961803645f + r * (0.0013333431f + r * (0.000154672423f + r * 1.5315014e-05f));
    float q = r * (0.693147182f + r * (0.240226507f + r * (0.0555041097f + r * p)));
    int32_t i = (int32_t)(mpc_bits(big) - 0x4b400000u), half = i >> 1;

    return (1.0f + q) * mpc_of_bits(((uint32_t)half + 127u) << 23) *
           mpc_of_bits(((uint32_t)(i - half) + 127u) << 23);
}

/* 1.7 ulp, also next to 0 */
MPC_FN float mpc_expm1_f32(float a)
{
    float hi = a > 89.0f ? 89.0f : a, x = hi < -18.0f ? -18.0f : hi;
    float big = x * 1.44269504f + MPC_ROUND_MAGIC, n = big - MPC_ROUND_MAGIC;
    float r = (x - n * MPC_LN2_HI) - n * MPC_LN2_LO;
    float p = r + r * r * mpc_exp_tail(r);
    float s = mpc_of_bits((mpc_bits(big) - 0x4b400000u + 126u) << 23); /* 2^(n-1) */

    return n == 0.0f ? p : 2.0f * (s * p + (s - 0.5f));
}

/* log(1 + f) - f over f*f, sqrt(1/2) <= 1 + f <= sqrt(2) */
MPC_FN float mpc_log_tail(float f)
{
    float p = -0.124038056f + f * (0.118909851f + f * (-0.116878502f + f * 0.0675509796f));

    p = 0.333333135f +
        f * (-0.250000089f + f * (0.200021505f + f * (-0.166680753f + f * (0.142189533f + f * p))));
    return f * p - 0.5f;
}

/* 0.9 ulp */
MPC_FN float mpc_log_f32(float a)
{
    int sub = a < 1.17549435e-38f;
    uint32_t u = mpc_bits(sub ? a * 8388608.0f : a);
    int32_t e = (int32_t)(u - 0x3f3504f3u) >> 23; /* sqrt(1/2) */
    float f = mpc_of_bits(u - ((uint32_t)e << 23)) - 1.0f;
    float n = (float)e - (sub ? 23.0f : 0.0f);
    float r = n * MPC_LN2_HI + (f + (f * f * mpc_log_tail(f) + n * MPC_LN2_LO));

    r = a < MPC_INF_F32 ? r : a; /* also NaN */
    r = a == 0.0f ? -MPC_INF_F32 : r;
    return a < 0.0f ? MPC_NAN_F32 : r;
}

/* 1.0 ulp, also next to 0 */
MPC_FN float mpc_log1p_f32(float a)
{
    float u = 1.0f + a;
    float lost = a > 1.0f ? 1.0f - (u - a) : a - (u - 1.0f); /* what the sum rounded away */
    int32_t e = (int32_t)(mpc_bits(u) - 0x3f3504f3u) >> 23;
    float m = mpc_of_bits(mpc_bits(u) - ((uint32_t)e << 23)) - 1.0f;
    float f = e == 0 ? a : m, n = (float)e;
    float c = e == 0 ? 0.0f : lost / u;
    float r = n * MPC_LN2_HI + (f + (f * f * mpc_log_tail(f) + (n * MPC_LN2_LO + c)));

    r = a < MPC_INF_F32 ? r : a;
    r = a == -1.0f ? -MPC_INF_F32 : r;
    return a < -1.0f ? MPC_NAN_F32 : r;
}

/* 1.3 ulp */
MPC_FN float mpc_tanh_f32(float a)
{
    float t = fabsf(a), s = a * a;
    float p = -0.333332688f +
              s * (0.133310914f + s * (-0.0537095778f + s * (0.020538602f + s * -0.00559080485f)));
    float big = 1.0f - 2.0f / (mpc_exp_f32(2.0f * t) + 1.0f);

    return t < 0.625f ? a + a * (s * p) : mpc_copysign_f32(big, a);
}

/* 2.3 ulp */
MPC_FN float mpc_sigmoid_f32(float a)
{
    float e = mpc_exp_f32(-fabsf(a));

    return (a < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* log(1 + exp(a)), no overflow; 1.7 ulp */
MPC_FN float mpc_softplus_f32(float a)
{
    return mpc_max_f32(a, 0.0f) + mpc_log1p_f32(mpc_exp_f32(-fabsf(a)));
}

/* log(sigmoid(a)); 1.7 ulp */
MPC_FN float mpc_logsigmoid_f32(float a)
{
    return mpc_min_f32(a, 0.0f) - mpc_log1p_f32(mpc_exp_f32(-fabsf(a)));
}

/* 1.2 ulp */
MPC_FN float mpc_erf_f32(float a)
{
    float s = a * a, t = fabsf(a) > 4.0f ? 4.0f : fabsf(a);
    float p = 0.00518832495f + s * (-0.000801016809f + s * 7.85377633e-05f);
    float q =
        0.000552410027f + t * (-0.000228806355f + t * (3.60637059e-05f + t * -2.25887425e-06f));

    p = 0.128379166f + s * (-0.37612626f + s * (0.112835854f + s * (-0.026853811f + s * p)));
    q = 0.636124909f + t * (0.104098901f + t * (-0.0211577937f + t * (0.00172227144f + t * q)));
    q = t + t * (0.128459811f + t * q); /* -log(erfc(t)) */
    return fabsf(a) < 0.95f ? a + a * p : mpc_copysign_f32(1.0f - mpc_exp_f32(-q), a);
}

/* a - n*pi/2 in [-pi/4, pi/4] and n modulo 4, by a three-part pi/2 in f64: exact enough to 3e9.
 * Farther out, where neighbouring floats are 256 apart, the angle is taken as 0. */
MPC_FN float mpc_reduce_angle(float a, uint32_t *quadrant)
{
    double x = fabsf(a) < 3.0e9f ? (double)a : 0.0;
    double big = x * 0.63661977236758134308 + 6755399441055744.0; /* 1.5 * 2^52: rounds */
    double n = big - 6755399441055744.0;

    *quadrant = (uint32_t)mpc_bits64(big);
    return (float)(((x - n * 1.57079601287841796875) - n * 3.139164164167596027e-07) -
                   n * 6.223372171896613e-14);
}

MPC_FN float mpc_sin_quadrant(float r, uint32_t q)
{
    float s = r * r;
    float sine = r + r * (s * (-0.166666672f + s * (0.00833332911f +
                                                    s * (-0.000198393042f + s * 2.71804424e-06f))));
    float cosine =
        1.0f - (0.5f * s - s * s * (0.0416666456f + s * (-0.00138873095f + s * 2.44323692e-05f)));
    float v = q & 1 ? cosine : sine;

    return mpc_of_bits(mpc_bits(v) ^ (q & 2) << 30);
}

/* 1.5 ulp for |a| < 3e9; inf gives NaN */
MPC_FN float mpc_sin_f32(float a)
{
    uint32_t q;
    float r = mpc_reduce_angle(a, &q), v = mpc_sin_quadrant(r, q);

    return mpc_isfinite_f32(a) ? v : MPC_NAN_F32;
}

MPC_FN float mpc_cos_f32(float a)
{
    uint32_t q;
    float r = mpc_reduce_angle(a, &q), v = mpc_sin_quadrant(r, q + 1);

    return mpc_isfinite_f32(a) ? v : MPC_NAN_F32;
}

/* log2 of a >= 0 to 1e-13; -inf at 0 */
MPC_FN double mpc_log2_wide(float a)
{
    int sub = a < 1.17549435e-38f;
    uint32_t u = mpc_bits(sub ? a * 8388608.0f : a);
    int32_t e = (int32_t)(u - 0x3f3504f3u) >> 23;
    double m = (double)mpc_of_bits(u - ((uint32_t)e << 23)), f = (m - 1.0) / (m + 1.0), s = f * f;
    double p = 0.4122092994731008 + s * (0.3199036409091601 + s * 0.2829311895857285);
    double n = (double)e - (sub ? 23.0 : 0.0);
    double r =
        n + f * (2.8853900817778495 + s * (0.9617966947116 + s * (0.5770779419313165 + s * p)));

    r = a < MPC_INF_F32 ? r : (double)a;
    return a == 0.0f ? (double)-MPC_INF_F32 : r;
}

/* 0.51 ulp, as log10 */
MPC_FN float mpc_log2_f32(float a)
{
    return a < 0.0f ? MPC_NAN_F32 : (float)mpc_log2_wide(a);
}

MPC_FN float mpc_log10_f32(float a)
{
    return a < 0.0f ? MPC_NAN_F32 : (float)(0.30102999566398119521 * mpc_log2_wide(a));
}

/* 0.51 ulp; the special cases of C's pow */
MPC_FN float mpc_pow_f32(float a, float b)
{
    double t = (double)b * mpc_log2_wide(fabsf(a));
    double hi = t > 140.0 ? 140.0 : t, x = hi < -160.0 ? -160.0 : hi;
    double big = x + 6755399441055744.0, r = x - (big - 6755399441055744.0);
    double p = 0.009618027175205568 + r * (0.0013333923208046605 +
                                           r * (0.000154693166566409 + r * 1.5201819927871848e-05));
    double q =
        0.9999999999616246 +
        r * (0.6931471807288498 + r * (0.24022651198731784 + r * (0.055504103523966654 + r * p)));
    float v = (float)(q * mpc_of_bits64((mpc_bits64(big) + 1023u) << 52));
    int whole = truncf(b) == b, odd = whole && truncf(0.5f * b) != 0.5f * b;

    v = fabsf(a) == 1.0f && b == b ? 1.0f : v;
    v = odd ? mpc_copysign_f32(v, a) : v;
    v = a < 0.0f && a > -MPC_INF_F32 && !whole ? MPC_NAN_F32 : v;
    return b == 0.0f || a == 1.0f ? 1.0f : v;
}

/* Rarely hot: by libm in f64, correctly rounded but for the last digit of the f64 result. */
#define MPC_VIA_F64(name)                                                                          \
    MPC_FN double mpc_##name##_f64(double a)                                                       \
    {                                                                                              \
        return name(a);                                                                            \
    }                                                                                              \
    MPC_FN float mpc_##name##_f32(float a)                                                         \
    {                                                                                              \
        return (float)name((double)a);                                                             \
    }

MPC_VIA_F64(tan)
MPC_VIA_F64(asin)
MPC_VIA_F64(acos)
MPC_VIA_F64(atan)
MPC_VIA_F64(sinh)
MPC_VIA_F64(cosh)
MPC_VIA_F64(asinh)
MPC_VIA_F64(acosh)
MPC_VIA_F64(atanh)
MPC_VIA_F64(erfc)

MPC_FN float mpc_atan2_f32(float a, float b)
{
    return (float)atan2((double)a, (double)b);
}

/* --- f64: the mathematical meaning, by libm -------------------------------------------------- */

#define MPC_LIBM_F64(name)                                                                         \
    MPC_FN double mpc_##name##_f64(double a)                                                       \
    {                                                                                              \
        return name(a);                                                                            \
    }

MPC_LIBM_F64(exp)
MPC_LIBM_F64(exp2)
MPC_LIBM_F64(expm1)
MPC_LIBM_F64(log)
MPC_LIBM_F64(log2)
MPC_LIBM_F64(log10)
MPC_LIBM_F64(log1p)
MPC_LIBM_F64(tanh)
MPC_LIBM_F64(erf)
MPC_LIBM_F64(sin)
MPC_LIBM_F64(cos)

MPC_FN double mpc_pow_f64(double a, double b)
{
    return pow(a, b);
}

MPC_FN double mpc_atan2_f64(double a, double b)
{
    return atan2(a, b);
}

MPC_FN double mpc_sigmoid_f64(double a)
{
    double e = exp(-fabs(a));

    return (a < 0 ? e : 1) / (1 + e);
}

MPC_FN double mpc_softplus_f64(double a)
{
    return mpc_max_f64(a, 0) + log1p(exp(-fabs(a)));
}

MPC_FN double mpc_logsigmoid_f64(double a)
{
    return mpc_min_f64(a, 0) - log1p(exp(-fabs(a)));
}

/* --- names without a suffix: MPC_SUFFIX, chosen below at every inclusion, completes them ------ */

#define MPC_JOIN(name, suffix) name##suffix
#define MPC_NAMED(name, suffix) MPC_JOIN(name, suffix)

#define mpc_max(a, b) MPC_NAMED(mpc_max, MPC_SUFFIX)(a, b)
#define mpc_min(a, b) MPC_NAMED(mpc_min, MPC_SUFFIX)(a, b)
#define mpc_abs(a) MPC_NAMED(mpc_abs, MPC_SUFFIX)(a)
#define mpc_sign(a) MPC_NAMED(mpc_sign, MPC_SUFFIX)(a)
#define mpc_sqrt(a) MPC_NAMED(mpc_sqrt, MPC_SUFFIX)(a)
#define mpc_rsqrt(a) MPC_NAMED(mpc_rsqrt, MPC_SUFFIX)(a)
#define mpc_floor(a) MPC_NAMED(mpc_floor, MPC_SUFFIX)(a)
#define mpc_ceil(a) MPC_NAMED(mpc_ceil, MPC_SUFFIX)(a)
#define mpc_trunc(a) MPC_NAMED(mpc_trunc, MPC_SUFFIX)(a)
#define mpc_round(a) MPC_NAMED(mpc_round, MPC_SUFFIX)(a)
#define mpc_isfinite(a) MPC_NAMED(mpc_isfinite, MPC_SUFFIX)(a)
#define mpc_copysign(a, b) MPC_NAMED(mpc_copysign, MPC_SUFFIX)(a, b)
#define mpc_exp(a) MPC_NAMED(mpc_exp, MPC_SUFFIX)(a)
#define mpc_exp2(a) MPC_NAMED(mpc_exp2, MPC_SUFFIX)(a)
#define mpc_expm1(a) MPC_NAMED(mpc_expm1, MPC_SUFFIX)(a)
#define mpc_log(a) MPC_NAMED(mpc_log, MPC_SUFFIX)(a)
#define mpc_log2(a) MPC_NAMED(mpc_log2, MPC_SUFFIX)(a)
#define mpc_log10(a) MPC_NAMED(mpc_log10, MPC_SUFFIX)(a)
#define mpc_log1p(a) MPC_NAMED(mpc_log1p, MPC_SUFFIX)(a)
#define mpc_tanh(a) MPC_NAMED(mpc_tanh, MPC_SUFFIX)(a)
#define mpc_sigmoid(a) MPC_NAMED(mpc_sigmoid, MPC_SUFFIX)(a)
#define mpc_softplus(a) MPC_NAMED(mpc_softplus, MPC_SUFFIX)(a)
#define mpc_logsigmoid(a) MPC_NAMED(mpc_logsigmoid, MPC_SUFFIX)(a)
#define mpc_erf(a) MPC_NAMED(mpc_erf, MPC_SUFFIX)(a)
#define mpc_erfc(a) MPC_NAMED(mpc_erfc, MPC_SUFFIX)(a)
#define mpc_sin(a) MPC_NAMED(mpc_sin, MPC_SUFFIX)(a)
#define mpc_cos(a) MPC_NAMED(mpc_cos, MPC_SUFFIX)(a)
#define mpc_tan(a) MPC_NAMED(mpc_tan, MPC_SUFFIX)(a)
#define mpc_asin(a) MPC_NAMED(mpc_asin, MPC_SUFFIX)(a)
#define mpc_acos(a) MPC_NAMED(mpc_acos, MPC_SUFFIX)(a)
#define mpc_atan(a) MPC_NAMED(mpc_atan, MPC_SUFFIX)(a)
#define mpc_sinh(a) MPC_NAMED(mpc_sinh, MPC_SUFFIX)(a)
#define mpc_cosh(a) MPC_NAMED(mpc_cosh, MPC_SUFFIX)(a)
#define mpc_asinh(a) MPC_NAMED(mpc_asinh, MPC_SUFFIX)(a)
#define mpc_acosh(a) MPC_NAMED(mpc_acosh, MPC_SUFFIX)(a)
#define mpc_atanh(a) MPC_NAMED(mpc_atanh, MPC_SUFFIX)(a)
#define mpc_atan2(a, b) MPC_NAMED(mpc_atan2, MPC_SUFFIX)(a, b)
#define mpc_pow(a, b) MPC_NAMED(mpc_pow, MPC_SUFFIX)(a, b)

/* a constant in the precision of the expression */
#define MPC_C(x) ((MPC_REAL)(x))

#endif /* MPC_SCALAR_H */

#undef MPC_REAL
#undef MPC_SUFFIX
#ifdef MPC_SCALAR_F64
#define MPC_REAL double
#define MPC_SUFFIX _f64
#else
#define MPC_REAL float
#define MPC_SUFFIX _f32
#endif
