/* explain.h: mpc --explain: the type of every op of the forward, and why. */
#ifndef MPC_DRIVER_EXPLAIN_H
#define MPC_DRIVER_EXPLAIN_H

#include <stdio.h>

#include "codegen/codegen.h"
#include "ir/base/text.h"
#include "ir/ir.h"
#include "passes/pass.h"

/* Of a module after `simplify`. Counts are those of passes_run(). */
void explain_text(FILE *out, const Module *m, const PassCounts *counts);
void explain_json(FILE *out, const Module *m, const PassCounts *counts);

/* As a page: the ops are taken down after `simplify`, the kernels that they became come from the plan.
 * texts: codegen_kernel_texts of it. */
typedef struct ExplainPage ExplainPage;
ExplainPage *explain_page(Arena *arena, const Module *m, const PassCounts *counts);
void explain_page_write(FILE *out, ExplainPage *page, const Plan *plan, const char *const *texts);

/* What all forms show: graphs that train or, without them, evaluate; ops of the forward that do arithmetic; casts
 * that autocast made. */
bool explain_graph(const Module *m, const Graph *g);
bool explain_shows(const Node *n);
bool explain_is_cast(const Node *n);
const char *explain_class(const Node *n);
DType explain_from(const Node *n); /* type of the first floating operand, DT_none without one */
void explain_head(Text *t, const Module *m);
void explain_totals(Text *t, const Module *m, const PassCounts *counts);

#endif
