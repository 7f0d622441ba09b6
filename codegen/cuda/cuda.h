/* cuda.h: what the emitters of CUDA kernels share: how threads find their work. */
#ifndef MPC_CODEGEN_CUDA_H
#define MPC_CODEGEN_CUDA_H

#include "codegen/reduce.h"

enum { CUDA_WARP = 32, CUDA_THREADS = 256 /* of a block, where nothing else is wanted */ };

extern const char *const cuda_index[MAX_RANK]; /* names of the indices of axes */

/* Is d a multiple of n at any size? */
bool cuda_divides(Dim d, int64_t n);
/* Declares `name`, the number of this thread, warp or block in the grid; `each` threads do one of `count` things, as
 * text (NULL: one). The function ends for those without one, unless the grid always fits. */
void cuda_open_grid(Emit *e, Unit *u, const char *name, const char *count, int each);

/* ---- cuda_sums.c: reductions over the threads of a group ---- */

typedef struct CudaGroup {
    int threads;
    const char *scope, *me; /* "warp", "mpc_lane()" */
} CudaGroup;
CudaGroup cuda_group(int threads); /* of a warp or a block */

/* Declares a thread's accumulator of reduction s; its name. */
const char *cuda_sum_open(Body *b, int s);
/* Joins those of all threads, who all get the result of `count` elements: a number of its type (is_const) or not. */
void cuda_sum_close(Body *b, int s, const char *acc, CudaGroup g, const char *count, bool is_const);

#endif
