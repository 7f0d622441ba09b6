/* golden_ops.h: the graphs of the reference cases of ops: how a case of tests/golden/ops is written
 * in our ops. For tests of values and of gradients. */
#ifndef MPC_TEST_GOLDEN_OPS_H
#define MPC_TEST_GOLDEN_OPS_H

#include "golden_load.h"
#include "ir/ir.h"

enum { GOLDEN_MAX_INPUTS = 8, GOLDEN_MAX_OUTPUTS = 4 };

typedef struct GoldenGraph {
    Builder b; /* diag NULL: a case that does not fit is a bug of the builder */
    const cJSON *test, *attrs;
    int nin;
    const char *in_name[GOLDEN_MAX_INPUTS];
    Node *in[GOLDEN_MAX_INPUTS]; /* {batch="NAME"}; f32, i64 or bool as the case has them */
    int nout;
    const char *out_name[GOLDEN_MAX_OUTPUTS];
    Node *out[GOLDEN_MAX_OUTPUTS];
} GoldenGraph;

/* Names of the files, NULL at the end. */
extern const char *const golden_op_names[];

/* The graph of one case (an item of "cases"), with `floats` as the type of F32 inputs. False: it
 * needs an op that we have not. */
bool golden_graph(Arena *arena, const char *op, const cJSON *test, DType floats, GoldenGraph *out);

#endif
