/* plan_check.h: whether a plan's memory holds: a second opinion on passes/memory.c and passes/schedule.c. */
#ifndef MPC_TEST_PLAN_CHECK_H
#define MPC_TEST_PLAN_CHECK_H

#include <stdbool.h>

#include "ir/plan.h"

/* Lays the graphs' transients out byte by byte and follows the launches: every byte that a call reads must still
 * belong to the buffer that it reads; calls of one launch must not write what another one touches; offsets are
 * aligned and inside. Says what is wrong on stderr. */
bool plan_check(const Plan *p);

#endif
