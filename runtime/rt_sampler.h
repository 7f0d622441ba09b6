/* rt_sampler.h: draws of samples with replacement, for loaders with a sampler. */
#ifndef MPC_RT_SAMPLER_H
#define MPC_RT_SAMPLER_H

#include "rt_data.h"

typedef struct RtSampler RtSampler;

/* balanced: every value of the field equally often, in the long run; weighted: a sample as often as the field
 * says, relative to the others. NULL: an error. */
RtSampler *rt_sampler_new(MpcSampler kind, const RtSet *set, int field, const char *loader,
                          RtErr *e);
void rt_sampler_free(RtSampler *s);
/* The draws of pass `epoch`: as many positions in the set as it has samples, and how often each was drawn before
 * in this pass. A function of (seed, epoch) alone. */
void rt_sampler_draw(const RtSampler *s, uint32_t *order, uint32_t *again, uint64_t seed,
                     uint32_t epoch);

#endif
