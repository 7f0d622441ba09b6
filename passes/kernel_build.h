/* kernel_build.h: from a cluster of nodes to kernels and calls of the plan. */
#ifndef MPC_KERNEL_BUILD_H
#define MPC_KERNEL_BUILD_H

#include "passes/fuse.h"
#include "passes/pass.h"

/* The scalar of a node in the body that evaluated it last. */
typedef struct ScalarOf {
    int body, scalar;
} ScalarOf;

/* What the kernels of one graph are built with. */
typedef struct GraphBuild {
    Plan *plan;
    Fusion *f;
    int isa;          /* enum MpcIsa of runtime/abi/gemm_params.h */
    Buffer **buffer;  /* by node id: of arguments and of real nodes that are in memory; else NULL */
    ScalarOf *scalar; /* by node id */
    int bodies;       /* begun so far */
    BufferPlace place; /* of transients: PLACE_transient or PLACE_prepare */
} GraphBuild;

/* A call and the launch it may join at the earliest, counted from the cluster's own level. */
typedef struct BuiltCall {
    KCall call;
    int cluster, level;
} BuiltCall;
typedef VEC(BuiltCall) BuiltCalls;

/* Levels that a cluster's kernels take: 2 for partial sums, else 1. */
int cluster_levels(const Cluster *c);
void build_cluster(GraphBuild *b, Cluster *c, BuiltCalls *out);

/* Moves a whole buffer to another one of the same shape. */
KCall build_copy(Plan *p, const Graph *g, const Buffer *from, const Buffer *to);

Buffer *plan_buffer(Plan *p, const char *name, const Graph *g, BufferPlace place, BufferRole role,
                    DType dt, const Dims *dims);
const char *plan_identifier(Plan *p, const char *text); /* unique in the plan */

/* kernel_shape.c: fewer axes where all accesses allow it; then what a call costs. */
void kernel_coalesce(Kernel *k);
void kernel_cost(const Graph *g, Kernel *k);
bool access_equal(const Access *a, const Access *b);
bool scalar_equal(const Scalar *a, const Scalar *b);
bool kernel_equal(const Kernel *a, const Kernel *b);

#endif
