/* explain.h: mpc --explain: the type of every op of the forward, and why. */
#ifndef MPC_DRIVER_EXPLAIN_H
#define MPC_DRIVER_EXPLAIN_H

#include <stdio.h>

#include "ir/ir.h"
#include "passes/pass.h"

/* Of a module after `simplify`. Counts are those of passes_run(). */
void explain_text(FILE *out, const Module *m, const PassCounts *counts);
void explain_json(FILE *out, const Module *m, const PassCounts *counts);

#endif
