/* rt_profile.h: --profile: what each kernel took, and when everything happened. Used by rt_thread.c, which tells it
 * of tiles, and by whoever has a span of time to show. A NULL profile takes nothing down. */
#ifndef MPC_RT_PROFILE_H
#define MPC_RT_PROFILE_H

#include "abi/mpc_rt.h"
#include "rt_util.h"

#include <stdio.h>

typedef struct RtProfile RtProfile;

RtProfile *rt_profile_new(const MpcProgram *p, int threads);
uint64_t rt_profile_now(void); /* ns */

/* The first step is behind: what was measured up to here is shown in the trace, but does not count. */
void rt_profile_warm(RtProfile *p);

/* On the worker's own thread: a tile of call c has run. `region` tells regions apart. */
void rt_profile_tile(RtProfile *p, int worker, uint64_t region, int c, MpcKernel *kernel,
                     uint64_t begin, uint64_t end);
/* On the calling thread: a region has ended, which began then. */
void rt_profile_region(RtProfile *p, const MpcCall *calls, int n, uint64_t begin);

/* What is no kernel, and began at that second: batches that loader `i` makes (one thread at a time), and what the host does. */
void rt_profile_batch(RtProfile *p, int loader, double begin);
typedef enum RtSpan {
    RT_SPAN_wait, /* for a batch */
    RT_SPAN_evaluation,
    RT_SPAN_checkpoint,
    RT_SPAN_report,
    RT_SPAN_COUNT
} RtSpan;
void rt_profile_span(RtProfile *p, RtSpan span, double begin);

void rt_profile_print(const RtProfile *p, FILE *out);
bool rt_profile_write(const RtProfile *p, const char *path, RtErr *e); /* Chrome trace events */

#endif
