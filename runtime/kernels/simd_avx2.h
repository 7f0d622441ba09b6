/* simd_avx2.h: eight floats in a register (AVX2, FMA, F16C). See simd.h for the names. */
#ifndef MPC_SIMD_AVX2_H
#define MPC_SIMD_AVX2_H

#include <immintrin.h>
#include <string.h>

#define MPC_ISA MPC_ISA_avx2
#define MPC_VL 8

typedef __m256 mpc_vf;

MPC_FN mpc_vf vf_zero(void)
{
    return _mm256_setzero_ps();
}

MPC_FN mpc_vf vf_set1(float a)
{
    return _mm256_set1_ps(a);
}

MPC_FN mpc_vf vf_load(const float *p)
{
    return _mm256_load_ps(p);
}

MPC_FN mpc_vf vf_loadu(const float *p)
{
    return _mm256_loadu_ps(p);
}

MPC_FN void vf_store(float *p, mpc_vf v)
{
    _mm256_store_ps(p, v);
}

MPC_FN void vf_storeu(float *p, mpc_vf v)
{
    _mm256_storeu_ps(p, v);
}

MPC_FN mpc_vf vf_add(mpc_vf a, mpc_vf b)
{
    return _mm256_add_ps(a, b);
}

/* a * b + c, rounded once */
MPC_FN mpc_vf vf_fma(mpc_vf a, mpc_vf b, mpc_vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

MPC_FN mpc_vf vf_load_f16(const mpc_f16 *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

MPC_FN void vf_store_f16(mpc_f16 *p, mpc_vf v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

MPC_FN mpc_vf vf_load_bf16(const mpc_bf16 *p)
{
    __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));

    return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
}

MPC_FN void vf_store_bf16(mpc_bf16 *p, mpc_vf v)
{
    __m256i u = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i nan = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));

    r = _mm256_srli_epi32(_mm256_blendv_epi8(r, nan, is_nan), 16);
    r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x08);
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_castsi256_si128(r));
}

MPC_FN mpc_vf vf_part(const float *p, int n)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
}

/* n 16-bit words, by a pair of overlapping loads of the greatest power of two below n */
MPC_FN __m128i vf_part_words(const uint16_t *p, int n)
{
    uint64_t low = 0, high = 0;

    if (n >= 4) {
        memcpy(&low, p, 8);
        memcpy(&high, p + n - 4, 8);
        high = n == 4 ? 0 : high >> 16 * (8 - n);
    } else if (n >= 2) {
        uint32_t a, b;

        memcpy(&a, p, 4);
        memcpy(&b, p + n - 2, 4);
        low = (uint64_t)b << 16 * (n - 2) | a;
    } else if (n == 1) {
        low = p[0];
    }
    return _mm_set_epi64x((long long)high, (long long)low);
}

MPC_FN mpc_vf vf_part_f16(const mpc_f16 *p, int n)
{
    return _mm256_cvtph_ps(vf_part_words(p, n));
}

MPC_FN mpc_vf vf_part_bf16(const mpc_bf16 *p, int n)
{
    __m256i w = _mm256_cvtepu16_epi32(vf_part_words(p, n));

    return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
}

/* bit i: 0 <= a[i] + add < limit */
MPC_FN unsigned vf_below(const int *a, int add, int limit)
{
    __m256i sum = _mm256_add_epi32(_mm256_load_si256((const __m256i *)(const void *)a),
                                   _mm256_set1_epi32(add));
    __m256i in = _mm256_cmpeq_epi32(_mm256_min_epu32(sum, _mm256_set1_epi32(limit - 1)), sum);

    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(in));
}

/* all bits of lane i where bit i of `in` is set */
MPC_FN __m256i vf_lanes(unsigned in)
{
    __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);

    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)in), bit), bit);
}

/* x[i] where bit i of `in` is set, else 0 and not read */
MPC_FN mpc_vf vf_some_f32(const float *x, unsigned in)
{
    return _mm256_maskload_ps(x, vf_lanes(in));
}

/* x[at[i]] where bit i of `in` is set, else 0 and not read */
MPC_FN mpc_vf vf_pick_f32(const float *x, const int *at, unsigned in)
{
    return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), x,
                                    _mm256_load_si256((const __m256i *)(const void *)at),
                                    _mm256_castsi256_ps(vf_lanes(in)), 4);
}

MPC_DEFINE_SOME(f16, mpc_f16, mpc_f16_to_f32, vf_load_f16)
MPC_DEFINE_SOME(bf16, mpc_bf16, mpc_bf16_to_f32, vf_load_bf16)
/* 16-bit elements in the upper halves of 32 bits, by the aligned pairs that they lie in. */
MPC_FN __m256i vf_pick_words(const uint16_t *x, const int *at, unsigned in)
{
    uintptr_t odd = (uintptr_t)x >> 1 & 1;
    __m256i i = _mm256_add_epi32(_mm256_load_si256((const __m256i *)(const void *)at),
                                 _mm256_set1_epi32((int)odd));
    __m256i pair =
        _mm256_mask_i32gather_epi32(_mm256_setzero_si256(), (const int *)(const void *)(x - odd),
                                    _mm256_srai_epi32(i, 1), vf_lanes(in), 4);
    __m256i one = _mm256_set1_epi32(1), even = _mm256_andnot_si256(i, one);

    pair = _mm256_sllv_epi32(pair, _mm256_slli_epi32(even, 4));
    return _mm256_and_si256(pair, _mm256_set1_epi32(-0x10000));
}

MPC_FN mpc_vf vf_pick_f16(const mpc_f16 *x, const int *at, unsigned in)
{
    __m256i w = _mm256_srli_epi32(vf_pick_words(x, at, in), 16);

    w = _mm256_permute4x64_epi64(_mm256_packus_epi32(w, w), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(w));
}

MPC_FN mpc_vf vf_pick_bf16(const mpc_bf16 *x, const int *at, unsigned in)
{
    return _mm256_castsi256_ps(vf_pick_words(x, at, in));
}

/* r[i][j] <-> r[j][i]: pairs of floats, pairs of doubles, then halves */
MPC_FN void vf_transpose(mpc_vf r[MPC_VL])
{
    __m256 t[8];

    MPC_UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    MPC_UNROLL
    for (int i = 0; i < 8; i += 4)
        MPC_UNROLL
    for (int h = 0; h < 2; h++) {
        __m256d a = _mm256_castps_pd(t[i + h]), b = _mm256_castps_pd(t[i + 2 + h]);

        r[i + 2 * h] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
        r[i + 2 * h + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
    }
    MPC_UNROLL
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    MPC_UNROLL
    for (int i = 0; i < 8; i++)
        r[i] = t[i];
}

#endif
