/* conv_window.h: a convolution as a contraction whose operands are read through windows. */
#ifndef MPC_CONV_WINDOW_H
#define MPC_CONV_WINDOW_H

#include "ir/plan.h"

/* One operand: which of the node's, where an image of the batch starts, and what an element reads. */
typedef struct ConvSide {
    int operand;
    Dim batch[MAX_RANK]; /* strides of the batch's axes */
    bool plain; /* a matrix: element (u, k) lies at u * along + k, and there is no window */
    int64_t along;
    Window window;
} ConvSide;

/* space [batch.., M, N.., K]; all axes of N are one for the kernel. a is (M, K), b is (K, N). */
typedef struct ConvSpace {
    Dims space;
    int nbatch, nn;
    ConvSide a, b;
} ConvSpace;

bool is_convolution(const Node *n);
ConvSpace conv_space(const Node *n);

#endif
