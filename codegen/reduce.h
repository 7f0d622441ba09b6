/* reduce.h: what the reducing kernels share: names, starts and steps of their accumulators. */
#ifndef MPC_CODEGEN_REDUCE_H
#define MPC_CODEGEN_REDUCE_H

#include "codegen/body.h"

extern const char
    *const reduce_lanes[OP_COUNT]; /* what a reducing op is called in kernels/rows.h */

bool *reduce_wanted(Body *b);                        /* scalars that some output needs */
const char *reduce_start(Arena *a, const Scalar *v); /* first value of an accumulator */
void reduce_add(Body *b, const Scalar *v, const char *to, const char *element);
/* The result of `count` elements whose joined value is `text`; is_const: count is a number of v's type. */
const char *reduce_finish(Body *b, const Scalar *v, const char *text, const char *count,
                          bool is_const);

#endif
