/* schedule.h: order of kernels, and in-place writes of what outlives a step. */
#ifndef MPC_SCHEDULE_H
#define MPC_SCHEDULE_H

#include "passes/kernel_build.h"

/* May the cluster of `value` write it over `arg`, the old value (NULL: nobody reads it)? Then all other readers of
 * arg are ordered before it. */
bool schedule_in_place(Fusion *f, const Node *value, const Node *arg);

void schedule_launches(Arena *arena, const Fusion *f, const BuiltCalls *calls, GraphPlan *gp);

/* memory.c: lifetimes by launch, then offsets of one graph's transients. Sets the graph's bytes and their bound. */
void memory_plan(Arena *arena, Plan *p, GraphPlan *gp, BufferPlace place);

#endif
