/* kernel_body.h: a kernel in the making: nodes of a cluster evaluated at a point of its space, as scalars. */
#ifndef MPC_KERNEL_BODY_H
#define MPC_KERNEL_BODY_H

#include "passes/kernel_build.h"

typedef VEC(const Buffer *) BufferVec;
typedef VEC(Scalar) ScalarVec;
typedef VEC(KOutput) OutputVec;
typedef VEC(bool) BoolVec;

typedef struct Body {
    GraphBuild *b;
    Cluster *c;
    Dims space;
    int nreduce;
    BufferVec operands;
    BoolVec written;   /* by operand */
    ScalarVec scalars; /* equal ones once */
    OutputVec outputs;
    int number; /* among the bodies of the graph, from 1 */
} Body;

Body kernel_body_new(GraphBuild *b, Cluster *c, const Dims *space, int nreduce);
int kernel_body_operand(Body *y, const Buffer *buffer); /* finds or adds */
int kernel_body_scalar(Body *y, Scalar s);              /* finds or adds */
Scalar scalar_of_node(const Node *n, ScalarKind kind);
Linear node_linear(const Node *n, const IndexMap *map, const Dims *dims);

/* The scalar of any node at the points of `map`: a load where it is in memory, else what it is computed from. */
int kernel_body_eval(Body *y, Node *n, const IndexMap *map);
int kernel_body_eval_reduction(Body *y, Node *n);
/* A real node of the cluster; for a contraction k gets its operands. */
void kernel_body_eval_node(Body *y, Node *n, Kernel *k);

void kernel_body_output(Body *y, int scalar, const Buffer *buffer, const Linear *at);
void kernel_body_output_node(Body *y, Node *n); /* where others need it */

/* kernel_trim.c: a flag by which the whole kernel may return; scalars that nothing needs. */
void kernel_find_guard(const Body *y, Kernel *k);
void kernel_drop_dead(Kernel *k);

#endif
