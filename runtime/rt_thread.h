/* rt_thread.h: the pool of threads that runs tiles (rt_thread.c says how). */
#ifndef MPC_RT_THREAD_H
#define MPC_RT_THREAD_H

#include "abi/mpc_rt.h"
#include "rt_profile.h"
#include "rt_util.h"

typedef struct RtPool RtPool;

/* threads - 1 threads are started; the caller is the first worker. Each worker gets its own scratch, which is
 * rt_pool_scratch_bytes() of the memory given. */
size_t rt_pool_scratch_bytes(size_t scratch_bytes);
RtPool *rt_pool_new(int threads, size_t scratch_bytes, unsigned char *scratch, RtErr *e);
void rt_pool_free(RtPool *pool);
void rt_pool_run(RtPool *pool, const MpcCall *calls, int n);
void rt_pool_profile(RtPool *pool, RtProfile *profile); /* from here on; not while it runs */
int rt_pool_threads(const RtPool *pool);

/* CPUs this process may use: the affinity mask, cut to the control group's quota. */
int rt_cpus(void);

/* A thread that blocks every signal, so that signals reach the main thread. */
bool rt_thread_start(void *thread /* pthread_t * */, void *(*main)(void *), void *arg, RtErr *e);

#endif
