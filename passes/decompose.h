/* decompose.h: decompositions in files of their own; what each leaves is said in decompose.c. */
#ifndef MPC_DECOMPOSE_H
#define MPC_DECOMPOSE_H

#include "ir/ir.h"

/* How long an axis of an image (0: rows, 1: columns) is with what windows reach around it. */
int64_t window_reach(const ConvSteps *s, int axis, int64_t image, int64_t result);
/* The element at `from` of all windows over an image, `result` of them along the axis. */
Node *window_slice(Builder *b, Node *x, const ConvSteps *s, int axis, int64_t from, int64_t result);

Node *decompose_conv2d(Builder *b, const Node *n);
Node *decompose_conv_transpose2d(Builder *b, const Node *n);
Node *decompose_conv2d_weight_grad(Builder *b, const Node *n);
Node *decompose_max_pool2d(Builder *b, const Node *n);
Node *decompose_max_pool2d_grad(Builder *b, const Node *n);
Node *decompose_avg_pool2d(Builder *b, const Node *n);
Node *decompose_avg_pool2d_grad(Builder *b, const Node *n);

#endif
