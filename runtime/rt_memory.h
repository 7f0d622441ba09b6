/* rt_memory.h: the one large allocation of a run, made before its first step.
 *
 *     arena | scratch of thread 0, 1, .. | the host's variables and cells of metrics | buffers of each loader
 *
 * Every size is known from the program and the number of threads, so --plan says what a run allocates. What is as
 * long as the data lies outside: its columns, the rows of splits, the order of a pass. */
#ifndef MPC_RT_MEMORY_H
#define MPC_RT_MEMORY_H

#include "abi/mpc_rt.h"
#include "rt_util.h"

typedef struct RtMemory {
    size_t scratch, host, loaders; /* places, from the start of the arena */
    size_t bytes;
} RtMemory;

RtMemory rt_memory_plan(const MpcProgram *p, int threads);
/* Of m->bytes, zeroed. NULL after an error. */
unsigned char *rt_memory_map(const RtMemory *m, RtErr *e);
/* The place of a loader's buffers, from the start of the arena. */
size_t rt_memory_of_loader(const RtMemory *m, const MpcProgram *p, int loader);

#endif
