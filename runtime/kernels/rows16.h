/* rows16.h: rows of 16-bit floats to f32 and back, whole vectors at a time.
 *
 * What element-wise kernels of a generated program do before and behind the loop over a row: C compilers know no
 * instructions for it, and do it element by element where a row is short. The bits are those of abi/scalar.h.
 */
#ifndef MPC_ROWS16_H
#define MPC_ROWS16_H

#include "kernels/simd.h"

/* n floats rounded up to whole vectors, which is what is written to a buffer. */
#define MPC_WHOLE(n) (((n) + MPC_VL - 1) / MPC_VL * MPC_VL)

#define MPC_DEFINE_ROWS16(name, type)                                                              \
    MPC_FN void mpc_widen_##name(float *to, const type *from, int n)                               \
    {                                                                                              \
        int i = 0;                                                                                 \
                                                                                                   \
        for (; i + MPC_VL <= n; i += MPC_VL)                                                       \
            vf_storeu(to + i, vf_load_##name(from + i));                                           \
        if (i < n)                                                                                 \
            vf_storeu(to + i, vf_part_##name(from + i, n - i));                                    \
    }                                                                                              \
    MPC_FN void mpc_narrow_##name(type *to, const float *from, int n)                              \
    {                                                                                              \
        int i = 0;                                                                                 \
                                                                                                   \
        for (; i + MPC_VL <= n; i += MPC_VL)                                                       \
            vf_store_##name(to + i, vf_loadu(from + i));                                           \
        if (i < n) {                                                                               \
            type last[MPC_VL];                                                                     \
                                                                                                   \
            vf_store_##name(last, vf_part(from + i, n - i));                                       \
            memcpy(to + i, last, (size_t)(n - i) * sizeof *to);                                    \
        }                                                                                          \
    }

MPC_DEFINE_ROWS16(f16, mpc_f16)
MPC_DEFINE_ROWS16(bf16, mpc_bf16)

#endif
