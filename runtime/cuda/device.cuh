/* device.cuh: what kernels ask of the hardware, one function an instruction: the only file with inline PTX, builtins
 * of the compiler and words of CUDA C. All else that a kernel consists of is built on it and on abi/scalar.h, and
 * valid as C17 too.
 *
 * No NVIDIA header is needed; NVRTC compiles it for sm_80 and later. Pointers are to global memory unless they say
 * `shared`. What lanes exchange, all 32 of the warp must reach. */
#ifndef MPC_DEVICE_CUH
#define MPC_DEVICE_CUH

#include "abi/scalar.h"

/* ---- words of the language ---- */

#define MPC_KERNEL(name, threads, blocks)                                                          \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name##_kernel
#define MPC_SHARED __shared__ __align__(16)
#define MPC_CONSTANT static __device__ const
#define MPC_RESTRICT __restrict__
#define MPC_UNROLL _Pragma("unroll")
#define MPC_ONE_BY_ONE _Pragma("unroll 1")

#define INFINITY mpc_of_bits(0x7f800000u)
#define NAN mpc_of_bits(0x7fc00000u)
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_C(x) x
#define UINT8_MAX 255
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-9223372036854775807ll - 1)
#define INT64_MAX 9223372036854775807ll

/* ---- threads ---- */

MPC_FN int mpc_thread(void)
{
    return (int)threadIdx.x;
}

MPC_FN int mpc_block(void)
{
    return (int)blockIdx.x;
}

/* All threads of the block meet; what they wrote before, all see. */
MPC_FN void mpc_barrier(void)
{
    __syncthreads();
}

/* The same of a warp. */
MPC_FN void mpc_warp_barrier(void)
{
    __syncwarp();
}

MPC_FN uint32_t mpc_shuffle_xor(uint32_t word, int mask)
{
    return __shfl_xor_sync(0xffffffffu, word, mask);
}

MPC_FN uint32_t mpc_shuffle(uint32_t word, int lane)
{
    return __shfl_sync(0xffffffffu, word, lane);
}

/* Bit i: lane i's answer. */
MPC_FN uint32_t mpc_ballot(int answer)
{
    return __ballot_sync(0xffffffffu, answer);
}

MPC_FN int mpc_count_ones(uint32_t word)
{
    return __popc(word);
}

/* ---- arithmetic ---- */

/* a * b + c, rounded once */
MPC_FN float mpc_fma(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}

/* What abi/scalar.h does in software, but for the bits of a NaN. */
MPC_FN float mpc_fast_f16_to_f32(mpc_f16 h)
{
    float a;

    asm("cvt.f32.f16 %0, %1;" : "=f"(a) : "h"(h));
    return a;
}

MPC_FN mpc_f16 mpc_fast_f32_to_f16(float a)
{
    mpc_f16 h;

    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(a));
    return h;
}

MPC_FN mpc_bf16 mpc_fast_f32_to_bf16(float a)
{
    mpc_bf16 h;

    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(a));
    return h;
}

/* ---- memory ---- */

typedef struct __align__(16) MpcWords
{
    uint32_t word[4];
}
MpcWords;

/* 16 bytes at an address that is a multiple of 16, in global or shared memory */
MPC_FN MpcWords mpc_load_words(const void *from)
{
    return *(const MpcWords *)from;
}

MPC_FN void mpc_store_words(void *to, MpcWords words)
{
    *(MpcWords *)to = words;
}

MPC_FN uint32_t mpc_shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/* Starts a copy of 16 bytes; where `there` is 0, 16 zero bytes are written and nothing is read. */
MPC_FN void mpc_copy_async(void *shared, const void *from, int there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(mpc_shared_address(shared)),
                 "l"(__cvta_generic_to_global(from)), "r"(there ? 16 : 0)
                 : "memory");
}

/* Ends a group of copies that this thread started. */
MPC_FN void mpc_copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until all but the `left` newest groups of this thread have arrived; left is a constant. */
#define mpc_copy_wait(left) asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory")

/* ---- tensor cores ---- */

/* Four 8x8 matrices of 16-bit elements from shared memory: lane i gives the address of row i % 8 of matrix i / 8, and
 * gets elements 2 * (i % 4) and the next of row i / 4 of each. */
MPC_FN void mpc_load_matrix(uint32_t to[4], const void *shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(mpc_shared_address(shared))
                 : "memory");
}

/* The same of transposed matrices. */
MPC_FN void mpc_load_matrix_turned(uint32_t to[4], const void *shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(mpc_shared_address(shared))
                 : "memory");
}

/* sum (16x8) += a (16x16) * b (16x8) in f32. With g = lane / 4 and t = 2 * (lane % 4): sum holds (g, t), (g, t+1),
 * (g+8, t), (g+8, t+1); a pairs from (g, t), (g+8, t), (g, t+8), (g+8, t+8); b from (t, g), (t+8, g), downwards. */
MPC_FN void mpc_mma_f16(float sum[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

MPC_FN void mpc_mma_bf16(float sum[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
