/* decompose.h: decompositions in files of their own; what each leaves is said in decompose.c. */
#ifndef MPC_DECOMPOSE_H
#define MPC_DECOMPOSE_H

#include "ir/ir.h"

Node *decompose_conv2d(Builder *b, const Node *n);
Node *decompose_conv_transpose2d(Builder *b, const Node *n);
Node *decompose_conv2d_weight_grad(Builder *b, const Node *n);
Node *decompose_max_pool2d(Builder *b, const Node *n);
Node *decompose_max_pool2d_grad(Builder *b, const Node *n);
Node *decompose_avg_pool2d(Builder *b, const Node *n);
Node *decompose_avg_pool2d_grad(Builder *b, const Node *n);

#endif
