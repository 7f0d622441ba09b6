/* philox.h: random numbers that are functions of what they are for: Philox 4x32-10 (Salmon, Moraes, Dror,
 * Shaw: Parallel random numbers, as easy as 1, 2, 3; SC11).
 *
 * A number follows from the seed, the place that draws (a hash of its path), the sample and epoch that it
 * is drawn for, and its position within the sample. Nothing is stored and nothing depends on order: a
 * mask is drawn again in the backward pass, on any thread, on any device.
 *
 *     key      the seed, low word first
 *     counter  position / 4, sample, epoch, path
 *     lane     position % 4
 *
 * Valid as C17 and as CUDA C; branch-free, so that loops over it are vectorised.
 */
#ifndef MPC_PHILOX_H
#define MPC_PHILOX_H

#include "scalar.h"

/* One round on the counter c[4] with the key (k0, k1). */
#define MPC_PHILOX_ROUND(c, k0, k1)                                                                \
    do {                                                                                           \
        uint64_t even_ = (uint64_t)(c)[0] * 0xd2511f53u, odd_ = (uint64_t)(c)[2] * 0xcd9e8d57u;    \
        uint32_t c1_ = (c)[1], c3_ = (c)[3];                                                       \
                                                                                                   \
        (c)[0] = (uint32_t)(odd_ >> 32) ^ c1_ ^ (k0);                                              \
        (c)[1] = (uint32_t)odd_;                                                                   \
        (c)[2] = (uint32_t)(even_ >> 32) ^ c3_ ^ (k1);                                             \
        (c)[3] = (uint32_t)even_;                                                                  \
        (k0) += 0x9e3779b9u;                                                                       \
        (k1) += 0xbb67ae85u;                                                                       \
    } while (0)

/* The four words of counter (c0, c1, c2, c3) under a key. */
MPC_FN void mpc_philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3,
                       uint32_t lanes[4])
{
    uint32_t c[4] = {c0, c1, c2, c3}, k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    MPC_PHILOX_ROUND(c, k0, k1);
    MPC_PHILOX_ROUND(c, k0, k1);
    MPC_PHILOX_ROUND(c, k0, k1);
    MPC_PHILOX_ROUND(c, k0, k1);
    MPC_PHILOX_ROUND(c, k0, k1);
    MPC_PHILOX_ROUND(c, k0, k1);
    MPC_PHILOX_ROUND(c, k0, k1);
    MPC_PHILOX_ROUND(c, k0, k1);
    MPC_PHILOX_ROUND(c, k0, k1);
    MPC_PHILOX_ROUND(c, k0, k1);
    lanes[0] = c[0];
    lanes[1] = c[1];
    lanes[2] = c[2];
    lanes[3] = c[3];
}

/* A random word to [0, 1), a multiple of 2^-24: exact in f32. */
MPC_FN float mpc_unit(uint32_t word)
{
    return (float)(int32_t)(word >> 8) * 5.9604644775390625e-08f;
}

/* Uniform in [0, 1). rng: epoch << 32 | sample; path: mpc_path_hash of the drawing op's name. */
MPC_FN float mpc_uniform(uint64_t seed, uint32_t path, int64_t rng, int64_t element)
{
    uint32_t lanes[4], lane = (uint32_t)element & 3;

    mpc_philox(seed, (uint32_t)(element >> 2), (uint32_t)rng, (uint32_t)((uint64_t)rng >> 32), path,
               lanes);

    uint32_t low = lane & 1 ? lanes[1] : lanes[0], high = lane & 1 ? lanes[3] : lanes[2];

    return mpc_unit(lane & 2 ? high : low);
}

/* The numbers of elements from .. from + n - 1, four for each counter: what a loop over mpc_uniform gives,
 * in a third of the time. */
MPC_FN void mpc_uniform_run(float *out, uint64_t seed, uint32_t path, int64_t rng, int64_t from,
                            int64_t n)
{
    int64_t i = 0;

    for (; i < n && (from + i) % 4 != 0; i++)
        out[i] = mpc_uniform(seed, path, rng, from + i);
    for (; i + 4 <= n; i += 4) {
        uint32_t lanes[4];

        mpc_philox(seed, (uint32_t)((from + i) >> 2), (uint32_t)rng,
                   (uint32_t)((uint64_t)rng >> 32), path, lanes);
        out[i] = mpc_unit(lanes[0]);
        out[i + 1] = mpc_unit(lanes[1]);
        out[i + 2] = mpc_unit(lanes[2]);
        out[i + 3] = mpc_unit(lanes[3]);
    }
    for (; i < n; i++)
        out[i] = mpc_uniform(seed, path, rng, from + i);
}

/* FNV-1a of a path such as "fc1.weight" */
MPC_FN uint32_t mpc_path_hash(const char *path)
{
    uint32_t h = 2166136261u;

    for (; *path; path++)
        h = (h ^ (unsigned char)*path) * 16777619u;
    return h;
}

#endif
