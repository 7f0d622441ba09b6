/* cuda.h: what the emitters of CUDA kernels share: how threads find their work. */
#ifndef MPC_CODEGEN_CUDA_H
#define MPC_CODEGEN_CUDA_H

#include "codegen/body.h"

enum { CUDA_WARP = 32, CUDA_THREADS = 256 /* of a block, where nothing else is wanted */ };

extern const char *const cuda_index[MAX_RANK]; /* names of the indices of axes */

/* Is d a multiple of n at any size? */
bool cuda_divides(Dim d, int64_t n);
/* Declares `name`, the number of this thread, warp or block in the grid; `each` threads do one of `count` things, as
 * text (NULL: one). The function ends for those without one, unless the grid always fits. */
void cuda_open_grid(Emit *e, Unit *u, const char *name, const char *count, int each);

#endif
