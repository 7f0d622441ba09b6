/* rt_random.h: random numbers that follow from keys alone (abi/philox.h): initial values, orders. */
#ifndef MPC_RT_RANDOM_H
#define MPC_RT_RANDOM_H

#include "abi/mpc_rt.h"

/* order[0..n-1] becomes a permutation that follows from (seed, epoch, purpose, n) alone. */
void rt_permutation(uint32_t *order, int64_t n, uint64_t seed, uint32_t epoch, const char *purpose);

/* Elements from..to-1 of a tensor, as MpcInitKind says. data is the tensor's first byte. */
void rt_init_range(const MpcTensor *t, uint64_t seed, void *data, int64_t from, int64_t to);

#endif
