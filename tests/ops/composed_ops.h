/* composed_ops.h: reference cases of what is no op of ours but a composition of ops: norms, losses, attention,
 * activations. See golden_ops.h for the others. */
#ifndef MPC_TEST_COMPOSED_OPS_H
#define MPC_TEST_COMPOSED_OPS_H

#include "tests/unit/golden_ops.h"

extern const char *const composed_op_names[]; /* NULL at the end */

/* As golden_graph(). Arithmetic is in f32 whatever `floats` is, and rounded once at the end. */
bool composed_graph(Arena *arena, const char *op, const cJSON *test, DType floats, GoldenGraph *g);

#endif
