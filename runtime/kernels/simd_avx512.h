/* simd_avx512.h: sixteen floats in a register (AVX-512 F, BW, DQ, VL). See simd.h for the names. */
#ifndef MPC_SIMD_AVX512_H
#define MPC_SIMD_AVX512_H

#include <immintrin.h>

#define MPC_ISA MPC_ISA_avx512
#define MPC_VL 16

typedef __m512 mpc_vf;

MPC_FN mpc_vf vf_zero(void)
{
    return _mm512_setzero_ps();
}

MPC_FN mpc_vf vf_set1(float a)
{
    return _mm512_set1_ps(a);
}

MPC_FN mpc_vf vf_load(const float *p)
{
    return _mm512_load_ps(p);
}

MPC_FN mpc_vf vf_loadu(const float *p)
{
    return _mm512_loadu_ps(p);
}

MPC_FN void vf_store(float *p, mpc_vf v)
{
    _mm512_store_ps(p, v);
}

MPC_FN void vf_storeu(float *p, mpc_vf v)
{
    _mm512_storeu_ps(p, v);
}

MPC_FN mpc_vf vf_add(mpc_vf a, mpc_vf b)
{
    return _mm512_add_ps(a, b);
}

/* a * b + c, rounded once */
MPC_FN mpc_vf vf_fma(mpc_vf a, mpc_vf b, mpc_vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

MPC_FN mpc_vf vf_load_f16(const mpc_f16 *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

MPC_FN void vf_store_f16(mpc_f16 *p, mpc_vf v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

MPC_FN mpc_vf vf_load_bf16(const mpc_bf16 *p)
{
    __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));

    return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
}

/* Integer rounding, not vcvtneps2bf16: that instruction flushes subnormals. */
MPC_FN void vf_store_bf16(mpc_bf16 *p, mpc_vf v)
{
    __m512i u = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __m512i nan = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));

    r = _mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}

/* x[i] where bit i of `in` is set, else 0 and not read */
MPC_FN mpc_vf vf_some_f32(const float *x, unsigned in)
{
    return _mm512_maskz_loadu_ps((__mmask16)in, x);
}

MPC_FN mpc_vf vf_some_f16(const mpc_f16 *x, unsigned in)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)in, x));
}

MPC_FN mpc_vf vf_some_bf16(const mpc_bf16 *x, unsigned in)
{
    __m256i h = _mm256_maskz_loadu_epi16((__mmask16)in, x);

    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

MPC_FN mpc_vf vf_part(const float *p, int n)
{
    return vf_some_f32(p, (1u << n) - 1);
}

MPC_FN mpc_vf vf_part_f16(const mpc_f16 *p, int n)
{
    return vf_some_f16(p, (1u << n) - 1);
}

MPC_FN mpc_vf vf_part_bf16(const mpc_bf16 *p, int n)
{
    return vf_some_bf16(p, (1u << n) - 1);
}

/* bit i: 0 <= a[i] + add < limit */
MPC_FN unsigned vf_below(const int *a, int add, int limit)
{
    __m512i sum = _mm512_add_epi32(_mm512_load_si512(a), _mm512_set1_epi32(add));

    return _mm512_cmplt_epu32_mask(sum, _mm512_set1_epi32(limit));
}

/* x[at[i]] where bit i of `in` is set, else 0 and not read */
MPC_FN mpc_vf vf_pick_f32(const float *x, const int *at, unsigned in)
{
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), (__mmask16)in, _mm512_load_si512(at), x,
                                    4);
}

/* 16-bit elements, by the aligned pairs that they lie in. */
MPC_FN __m512i vf_pick_words(const uint16_t *x, const int *at, unsigned in)
{
    uintptr_t odd = (uintptr_t)x >> 1 & 1;
    __m512i i = _mm512_add_epi32(_mm512_load_si512(at), _mm512_set1_epi32((int)odd));
    __m512i pair = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), (__mmask16)in,
                                               _mm512_srai_epi32(i, 1), x - odd, 4);
    __m512i shift = _mm512_slli_epi32(_mm512_and_si512(i, _mm512_set1_epi32(1)), 4);

    return _mm512_srlv_epi32(pair, shift);
}

MPC_FN mpc_vf vf_pick_f16(const mpc_f16 *x, const int *at, unsigned in)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(vf_pick_words(x, at, in)));
}

MPC_FN mpc_vf vf_pick_bf16(const mpc_bf16 *x, const int *at, unsigned in)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(vf_pick_words(x, at, in), 16));
}

/* r[i][j] <-> r[j][i]: pairs of floats, pairs of doubles, then quarters, each twice as far apart */
MPC_FN void vf_transpose(mpc_vf r[MPC_VL])
{
    __m512 t[16];

    MPC_UNROLL
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    MPC_UNROLL
    for (int i = 0; i < 16; i += 4)
        MPC_UNROLL
    for (int h = 0; h < 2; h++) {
        __m512d a = _mm512_castps_pd(t[i + h]), b = _mm512_castps_pd(t[i + 2 + h]);

        r[i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
        r[i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
    MPC_UNROLL
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    MPC_UNROLL
    for (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    }
}

#endif
