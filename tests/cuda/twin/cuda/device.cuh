/* device.cuh of the stand-in: the functions of runtime/cuda/device.cuh, done by the fibers of twin.h. Kernels include
 * it in the place of that file and are compiled as C. */
#ifndef MPC_DEVICE_CUH
#define MPC_DEVICE_CUH

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "abi/scalar.h"
#include "twin.h"

/* ---- words of the language ---- */

/* The kernel, and the record by which the driver's stand-in finds it. */
#define MPC_KERNEL(name, threads_, blocks_)                                                        \
    static void name##_of_thread(const struct name args);                                          \
    static void name##_body(const void *args)                                                      \
    {                                                                                              \
        name##_of_thread(*(const struct name *)args);                                              \
    }                                                                                              \
    const TwinKernel name##_kernel_twin = {name##_body, sizeof(struct name), threads_};            \
    static void name##_of_thread

#define MPC_SHARED static __attribute__((section("mpc_shared"), aligned(16)))
#define MPC_CONSTANT static const
#define MPC_RESTRICT restrict
#define MPC_UNROLL
#define MPC_ONE_BY_ONE

/* Where the module's shared variables lie; the linker knows. */
extern unsigned char __start_mpc_shared[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_mpc_shared[] __attribute__((weak, visibility("hidden")));
unsigned char *const twin_shared[2] = {__start_mpc_shared, __stop_mpc_shared};

/* ---- threads ---- */

MPC_FN int mpc_thread(void)
{
    return (int)twin_now.thread;
}

MPC_FN int mpc_block(void)
{
    return (int)twin_now.block[0];
}

#define mpc_barrier() twin_barrier(__LINE__)
#define mpc_warp_barrier() ((void)twin_meet(NULL, 0, __LINE__))

MPC_FN uint32_t twin_shuffle(uint32_t word, int lane, int line)
{
    return twin_meet(&word, 1, line)[lane % TWIN_WARP].word[0];
}
#define mpc_shuffle(word, lane) twin_shuffle(word, lane, __LINE__)
#define mpc_shuffle_xor(word, mask) twin_shuffle(word, mpc_thread() ^ (mask), __LINE__)

MPC_FN uint32_t twin_ballot(int answer, int line)
{
    uint32_t mine = answer != 0, bits = 0;
    const TwinWords *all = twin_meet(&mine, 1, line);

    for (int i = 0; i < TWIN_WARP; i++)
        bits |= all[i].word[0] << i;
    return bits;
}
#define mpc_ballot(answer) twin_ballot(answer, __LINE__)

MPC_FN int mpc_count_ones(uint32_t word)
{
    return __builtin_popcount(word);
}

/* ---- arithmetic ---- */

MPC_FN float mpc_fma(float a, float b, float c)
{
    return fmaf(a, b, c);
}

MPC_FN float mpc_fast_f16_to_f32(mpc_f16 h)
{
    return mpc_f16_to_f32(h);
}

MPC_FN mpc_f16 mpc_fast_f32_to_f16(float a)
{
    return mpc_f32_to_f16(a);
}

MPC_FN mpc_bf16 mpc_fast_f32_to_bf16(float a)
{
    return mpc_f32_to_bf16(a);
}

/* ---- memory ---- */

typedef struct MpcWords {
    _Alignas(16) uint32_t word[4];
} MpcWords;

MPC_FN void twin_aligned(const void *at, int bytes)
{
    if ((uintptr_t)at % (uintptr_t)bytes != 0)
        twin_fault("takes %d bytes at an address that is no multiple of them", bytes);
}

MPC_FN MpcWords mpc_load_words(const void *from)
{
    MpcWords words;

    twin_aligned(from, 16);
    memcpy(&words, from, sizeof words);
    return words;
}

MPC_FN void mpc_store_words(void *to, MpcWords words)
{
    twin_aligned(to, 16);
    memcpy(to, &words, sizeof words);
}

MPC_FN void mpc_copy_async(void *shared, const void *from, int there)
{
    twin_aligned(shared, 16);
    twin_aligned(from, 16);
    twin_copy_async(shared, there ? from : NULL);
}
#define mpc_copy_commit twin_copy_commit
#define mpc_copy_wait twin_copy_wait

/* ---- tensor cores ---- */

/* Row i of the four matrices is where lane i says. */
MPC_FN void twin_load_matrix(uint32_t to[4], const void *shared, int turned, int line)
{
    uint64_t address = (uint64_t)(uintptr_t)shared;
    uint32_t mine[2] = {(uint32_t)address, (uint32_t)(address >> 32)};
    const TwinWords *all;
    int lane = mpc_thread() % TWIN_WARP, major = lane / 4, minor = 2 * (lane % 4);

    twin_aligned(shared, 16);
    all = twin_meet(mine, 2, line);
    for (int m = 0; m < 4; m++) {
        to[m] = 0;
        for (int i = 0; i < 2; i++) {
            int row = turned ? minor + i : major, column = turned ? major : minor + i;
            const uint32_t *said = all[8 * m + row].word;
            const uint16_t *from = (const uint16_t *)(uintptr_t)((uint64_t)said[1] << 32 | said[0]);

            to[m] |= (uint32_t)from[column] << 16 * i;
        }
    }
}
#define mpc_load_matrix(to, shared) twin_load_matrix(to, shared, 0, __LINE__)
#define mpc_load_matrix_turned(to, shared) twin_load_matrix(to, shared, 1, __LINE__)

MPC_FN float twin_element(uint32_t pair, int half, int is_bf16)
{
    uint16_t bits = (uint16_t)(pair >> 16 * half);

    return is_bf16 ? mpc_bf16_to_f32(bits) : mpc_f16_to_f32(bits);
}

/* Element (row, k) of a is with lane 4 * (row % 8) + k % 8 / 2, (k, column) of b with lane 4 * column + k % 8 / 2. */
MPC_FN void twin_mma(float sum[4], const uint32_t a[4], uint32_t b0, uint32_t b1, int is_bf16,
                     int line)
{
    uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    const TwinWords *all = twin_meet(mine, 6, line);
    int lane = mpc_thread() % TWIN_WARP;

    for (int i = 0; i < 4; i++) {
        int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;

        for (int k = 0; k < 16; k++) {
            uint32_t of_a = all[4 * (row % 8) + k % 8 / 2].word[row / 8 + 2 * (k / 8)];
            uint32_t of_b = all[4 * column + k % 8 / 2].word[4 + k / 8];

            sum[i] += twin_element(of_a, k % 2, is_bf16) * twin_element(of_b, k % 2, is_bf16);
        }
    }
}
#define mpc_mma_f16(sum, a, b0, b1) twin_mma(sum, a, b0, b1, 0, __LINE__)
#define mpc_mma_bf16(sum, a, b0, b1) twin_mma(sum, a, b0, b1, 1, __LINE__)

#endif
