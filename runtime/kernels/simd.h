/* simd.h: the vector type of the contraction kernels, chosen by what the C compiler may use.
 *
 * Each variant defines the same names, so that kernels/gemm.h is written once:
 *     MPC_ISA            its level (runtime/abi/gemm_params.h)
 *     mpc_vf, MPC_VL     a vector of MPC_VL floats
 *     vf_zero set1 load loadu store storeu add fma transpose
 *     vf_load_f16 vf_load_bf16      MPC_VL 16-bit floats, unaligned, widened
 *     vf_part vf_part_f16 vf_part_bf16   the first n < MPC_VL of them, the rest zero and not read
 *     vf_some_f32 _f16 _bf16        x[i] where bit i of a mask is set, the rest zero and not read
 *     vf_pick_f32 _f16 _bf16        x[at[i]] likewise
 *     vf_below                      a mask: which 0 <= a[i] + add < limit
 *     vf_store_f16 vf_store_bf16    rounded to nearest even, bit for bit as abi/scalar.h does it
 * `vf_load*` and `vf_store*` of 16-bit types need no alignment; vf_load and vf_store need a vector's.
 * Nothing here depends on the model; element-wise code is plain C and needs none of this.
 */
#ifndef MPC_SIMD_H
#define MPC_SIMD_H

#include "abi/gemm_params.h"
#include "abi/scalar.h"

/* Before a loop of constant length that must disappear (arrays of vectors live in registers then). */
#ifdef __clang__
#define MPC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MPC_UNROLL _Pragma("GCC unroll 32")
#endif

/* vf_some and vf_pick for types that a level has no instructions for. */
#define MPC_DEFINE_SOME(name, type, widen, load)                                                   \
    MPC_FN mpc_vf vf_some_##name(const type *x, unsigned in)                                       \
    {                                                                                              \
        _Alignas(64) float out[MPC_VL];                                                            \
                                                                                                   \
        if (in == (1u << MPC_VL) - 1)                                                              \
            return load(x);                                                                        \
        for (int i = 0; i < MPC_VL; i++)                                                           \
            out[i] = in >> i & 1 ? widen(x[i]) : 0;                                                \
        return vf_load(out);                                                                       \
    }
#define MPC_DEFINE_PICK(name, type, widen)                                                         \
    MPC_FN mpc_vf vf_pick_##name(const type *x, const int *at, unsigned in)                        \
    {                                                                                              \
        _Alignas(64) float out[MPC_VL];                                                            \
                                                                                                   \
        for (int i = 0; i < MPC_VL; i++)                                                           \
            out[i] = in >> i & 1 ? widen(x[at[i]]) : 0;                                            \
        return vf_load(out);                                                                       \
    }

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "kernels/simd_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "kernels/simd_avx2.h"
#else
#include "kernels/simd_generic.h"
#endif

#endif
