/* plan_table.h: the memory plan of a program as a table: what mpc plans, a program carries, and both print.
 *
 * Buffers that outlive a step come first, then those of each graph in order of their place; lives count the
 * launches of the graph. The text is made by plan_text.h.
 */
#ifndef MPC_PLAN_TABLE_H
#define MPC_PLAN_TABLE_H

#include <stdint.h>

/* What a buffer is for: USE(name, in the plural). */
#define MPC_PLAN_USES(USE)                                                                         \
    USE(parameter, "parameters")                                                                   \
    USE(copy, "working copies")                                                                    \
    USE(state, "states")                                                                           \
    USE(moment, "moments")                                                                         \
    USE(average, "averages")                                                                       \
    USE(scaler, "loss scale")                                                                      \
    USE(gradient, "gradients")                                                                     \
    USE(activation, "activations")                                                                 \
    USE(workspace, "workspace")                                                                    \
    USE(number, "numbers of the host")

typedef enum MpcUse {
#define USE(name, plural) MPC_USE_##name,
    MPC_PLAN_USES(USE)
#undef USE
        MPC_USES
} MpcUse;

typedef struct MpcPlanRow {
    const char *name; /* "fc1.weight", "x" */
    const char *what; /* "(512, 784)", "(B, 512) matmul of fc1" */
    const char *type; /* "f16" */
    MpcUse use;
    int line;  /* of the source; 0: none */
    int graph; /* -1: outlives the steps */
    int first, last;
    int64_t offset, bytes;
} MpcPlanRow;

typedef struct MpcPlanGraph {
    const char *name;
    int64_t bytes; /* its transients together, as they are placed */
    int64_t bound; /* largest sum of transients that live at once */
    int fullest;   /* a launch at which they do */
    int nlaunches;
    const char *const *launches; /* names of kernels; NULL: not listed */
} MpcPlanGraph;

typedef struct MpcPlan {
    int nrows, ngraphs;
    const MpcPlanRow *rows;
    const MpcPlanGraph *graphs;
    int64_t lasting;    /* bytes that outlive the steps */
    int64_t arena;      /* those, and the transients of the largest graph */
    int64_t bound;      /* no placing can do with less: lasting and the largest bound of a graph */
    int64_t parameters; /* trained numbers */
    int again;          /* ops that the backward computes again as `with checkpoint` says */
    int again_short;    /* and so that the arena fits into the memory it may take */
} MpcPlan;

#endif
