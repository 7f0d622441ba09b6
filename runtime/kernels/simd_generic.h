/* simd_generic.h: four floats in a vector, for any CPU, by the compiler's vector extension.
 *
 * No intrinsics and no fused multiply-add: x86-64 without AVX2, aarch64 and the rest give the same
 * bits. 16-bit floats go through abi/scalar.h. See simd.h for the names.
 */
#ifndef MPC_SIMD_GENERIC_H
#define MPC_SIMD_GENERIC_H

#include <string.h>

#define MPC_ISA MPC_ISA_generic
#define MPC_VL 4

typedef float mpc_vf __attribute__((vector_size(16), may_alias));

MPC_FN mpc_vf vf_zero(void)
{
    return (mpc_vf){0, 0, 0, 0};
}

MPC_FN mpc_vf vf_set1(float a)
{
    return (mpc_vf){a, a, a, a};
}

MPC_FN mpc_vf vf_load(const float *p)
{
    return *(const mpc_vf *)(const void *)p;
}

MPC_FN mpc_vf vf_loadu(const float *p)
{
    mpc_vf v;

    memcpy(&v, p, sizeof v);
    return v;
}

MPC_FN void vf_store(float *p, mpc_vf v)
{
    *(mpc_vf *)(void *)p = v;
}

MPC_FN void vf_storeu(float *p, mpc_vf v)
{
    memcpy(p, &v, sizeof v);
}

MPC_FN mpc_vf vf_add(mpc_vf a, mpc_vf b)
{
    return a + b;
}

/* a * b + c, rounded twice: not every CPU has a fused form, and all shall agree */
MPC_FN mpc_vf vf_fma(mpc_vf a, mpc_vf b, mpc_vf c)
{
    return a * b + c;
}

MPC_FN mpc_vf vf_load_f16(const mpc_f16 *p)
{
    return (mpc_vf){mpc_f16_to_f32(p[0]), mpc_f16_to_f32(p[1]), mpc_f16_to_f32(p[2]),
                    mpc_f16_to_f32(p[3])};
}

MPC_FN void vf_store_f16(mpc_f16 *p, mpc_vf v)
{
    for (int i = 0; i < MPC_VL; i++)
        p[i] = mpc_f32_to_f16(v[i]);
}

MPC_FN mpc_vf vf_load_bf16(const mpc_bf16 *p)
{
    return (mpc_vf){mpc_bf16_to_f32(p[0]), mpc_bf16_to_f32(p[1]), mpc_bf16_to_f32(p[2]),
                    mpc_bf16_to_f32(p[3])};
}

MPC_FN void vf_store_bf16(mpc_bf16 *p, mpc_vf v)
{
    for (int i = 0; i < MPC_VL; i++)
        p[i] = mpc_f32_to_bf16(v[i]);
}

MPC_FN mpc_vf vf_part(const float *p, int n)
{
    return (mpc_vf){n > 0 ? p[0] : 0, n > 1 ? p[1] : 0, n > 2 ? p[2] : 0, 0};
}

MPC_FN mpc_vf vf_part_f16(const mpc_f16 *p, int n)
{
    return (mpc_vf){n > 0 ? mpc_f16_to_f32(p[0]) : 0, n > 1 ? mpc_f16_to_f32(p[1]) : 0,
                    n > 2 ? mpc_f16_to_f32(p[2]) : 0, 0};
}

MPC_FN mpc_vf vf_part_bf16(const mpc_bf16 *p, int n)
{
    return (mpc_vf){n > 0 ? mpc_bf16_to_f32(p[0]) : 0, n > 1 ? mpc_bf16_to_f32(p[1]) : 0,
                    n > 2 ? mpc_bf16_to_f32(p[2]) : 0, 0};
}

/* bit i: 0 <= a[i] + add < limit */
MPC_FN unsigned vf_below(const int *a, int add, int limit)
{
    unsigned in = 0;

    for (int i = 0; i < MPC_VL; i++)
        in |= ((unsigned)(a[i] + add) < (unsigned)limit ? 1u : 0u) << i;
    return in;
}

MPC_DEFINE_SOME(f32, float, , vf_loadu)
MPC_DEFINE_SOME(f16, mpc_f16, mpc_f16_to_f32, vf_load_f16)
MPC_DEFINE_SOME(bf16, mpc_bf16, mpc_bf16_to_f32, vf_load_bf16)
MPC_DEFINE_PICK(f32, float, )
MPC_DEFINE_PICK(f16, mpc_f16, mpc_f16_to_f32)
MPC_DEFINE_PICK(bf16, mpc_bf16, mpc_bf16_to_f32)

/* r[i][j] <-> r[j][i] */
MPC_FN void vf_transpose(mpc_vf r[MPC_VL])
{
    mpc_vf a = r[0], b = r[1], c = r[2], d = r[3];

    MPC_UNROLL
    for (int i = 0; i < MPC_VL; i++)
        r[i] = (mpc_vf){a[i], b[i], c[i], d[i]};
}

#endif
