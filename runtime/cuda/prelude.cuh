/* prelude.cuh: what the emitted kernels of a GPU are built from, beyond the instructions of device.cuh: runs of
 * elements in memory, sums and maxima of warps and blocks.
 *
 * The order of every sum is fixed by the shape. A warp's is that of kernels/rows.h: element i in lane i modulo 32,
 * lanes added as a tree. */
#ifndef MPC_PRELUDE_CUH
#define MPC_PRELUDE_CUH

#include "cuda/device.cuh"

#include "abi/philox.h"

/* From here on: by the hardware. */
#define mpc_f16_to_f32 mpc_fast_f16_to_f32
#define mpc_f32_to_f16 mpc_fast_f32_to_f16
#define mpc_f32_to_bf16 mpc_fast_f32_to_bf16

#define MPC_WARP 32
#define MPC_MAX_WARPS 32

MPC_FN int mpc_lane(void)
{
    return mpc_thread() % MPC_WARP;
}

MPC_FN int mpc_warp(void)
{
    return mpc_thread() / MPC_WARP;
}

/* The number of the lowest bit that is set. */
MPC_FN int mpc_lowest_one(uint32_t word)
{
    return mpc_count_ones((word & (0 - word)) - 1);
}

/* ---- runs: n elements that one thread reads or writes, 16 bytes at a time where that is possible ---- */

/* `n` bytes, 1 to 16 a power of two, at an address that is a multiple of it; n is a constant. */
MPC_FN void mpc_copy_bytes(void *to, const void *from, int n)
{
    if (n == 16)
        mpc_store_words(to, mpc_load_words(from));
    else if (n == 8)
        *(uint64_t *)to = *(const uint64_t *)from;
    else if (n == 4)
        *(uint32_t *)to = *(const uint32_t *)from;
    else if (n == 2)
        *(uint16_t *)to = *(const uint16_t *)from;
    else
        *(uint8_t *)to = *(const uint8_t *)from;
}

#define MPC_RUN_BYTES 16

/* `bytes` of one run; they are a constant. */
MPC_FN void mpc_copy_run(void *to, const void *from, int bytes)
{
    const int piece = bytes < MPC_RUN_BYTES ? bytes : MPC_RUN_BYTES;

    MPC_UNROLL
    for (int i = 0; i < bytes; i += piece)
        mpc_copy_bytes((char *)to + i, (const char *)from + i, piece);
}

/* n elements of `size` bytes, of which `left` are there (zeros instead of the others). Size and n are constants. */
MPC_FN void mpc_read_run(void *to, const void *from, int size, int n, int64_t left)
{
    if (left >= n) {
        mpc_copy_run(to, from, n * size);
        return;
    }
    MPC_UNROLL
    for (int i = 0; i < n; i++) {
        const uint64_t none = 0;

        mpc_copy_bytes((char *)to + i * size,
                       i < left ? (const char *)from + i * size : (const char *)&none, size);
    }
}

MPC_FN void mpc_write_run(void *to, const void *from, int size, int n, int64_t left)
{
    if (left >= n) {
        mpc_copy_run(to, from, n * size);
        return;
    }
    MPC_UNROLL
    for (int i = 0; i < n; i++)
        if (i < left)
            mpc_copy_bytes((char *)to + i * size, (const char *)from + i * size, size);
}

/* What mpc_uniform gives for elements from .. from + 3; from is a multiple of 4. */
MPC_FN void mpc_uniform_four(float out[4], uint64_t seed, uint32_t path, int64_t rng, int64_t from)
{
    uint32_t words[4];

    mpc_philox(seed, (uint32_t)(from >> 2), (uint32_t)rng, (uint32_t)((uint64_t)rng >> 32), path,
               words);
    MPC_UNROLL
    for (int i = 0; i < 4; i++)
        out[i] = mpc_unit(words[i]);
}

/* ---- warps ---- */

MPC_FN float mpc_shuffle_xor_f32(float a, int mask)
{
    return mpc_of_bits(mpc_shuffle_xor(mpc_bits(a), mask));
}

MPC_FN int64_t mpc_shuffle_xor_i64(int64_t a, int mask)
{
    uint32_t low = mpc_shuffle_xor((uint32_t)(uint64_t)a, mask);
    uint32_t high = mpc_shuffle_xor((uint32_t)((uint64_t)a >> 32), mask);

    return (int64_t)((uint64_t)high << 32 | low);
}

MPC_FN double mpc_shuffle_xor_f64(double a, int mask)
{
    return mpc_of_bits64((uint64_t)mpc_shuffle_xor_i64((int64_t)mpc_bits64(a), mask));
}

#define MPC_JOIN_SUM(a, b) ((a) + (b))

/* The upper half of the lanes joins from the right: all lanes get the bits of one tree. */
#define MPC_DEFINE_REDUCE(name, s, real, start, join)                                              \
    MPC_FN real mpc_warp_##name##_##s(real a)                                                      \
    {                                                                                              \
        const int lane = mpc_lane();                                                               \
                                                                                                   \
        MPC_UNROLL                                                                                 \
        for (int w = MPC_WARP / 2; w > 0; w /= 2) {                                                \
            const real b = mpc_shuffle_xor_##s(a, w);                                              \
                                                                                                   \
            a = (lane & w) ? join(b, a) : join(a, b);                                              \
        }                                                                                          \
        return a;                                                                                  \
    }                                                                                              \
                                                                                                   \
    /* Of `warps` warps, the block's: each warp's first, then these as a tree. */                  \
    MPC_FN real mpc_block_##name##_##s(real a, int warps)                                          \
    {                                                                                              \
        MPC_SHARED real part[MPC_MAX_WARPS];                                                       \
                                                                                                   \
        a = mpc_warp_##name##_##s(a);                                                              \
        if (mpc_lane() == 0)                                                                       \
            part[mpc_warp()] = a;                                                                  \
        mpc_barrier();                                                                             \
        a = mpc_warp_##name##_##s(mpc_lane() < warps ? part[mpc_lane()] : (real)(start));          \
        mpc_barrier();                                                                             \
        return a;                                                                                  \
    }

MPC_DEFINE_REDUCE(sum, f32, float, 0, MPC_JOIN_SUM)
MPC_DEFINE_REDUCE(sum, f64, double, 0, MPC_JOIN_SUM)
MPC_DEFINE_REDUCE(sum, i64, int64_t, 0, MPC_JOIN_SUM)
MPC_DEFINE_REDUCE(max, f32, float, -INFINITY, mpc_max_f32)
MPC_DEFINE_REDUCE(max, f64, double, -(double)INFINITY, mpc_max_f64)
MPC_DEFINE_REDUCE(max, i64, int64_t, INT64_MIN, mpc_max_i64)
MPC_DEFINE_REDUCE(min, f32, float, INFINITY, mpc_min_f32)
MPC_DEFINE_REDUCE(min, f64, double, (double)INFINITY, mpc_min_f64)
MPC_DEFINE_REDUCE(min, i64, int64_t, INT64_MAX, mpc_min_i64)

#endif
