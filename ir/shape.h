/* shape.h: what the files of shape rules share. A rule sets dims and dtype of a node from its operands, or says to the
 * user what does not fit. */
#ifndef MPC_IR_SHAPE_H
#define MPC_IR_SHAPE_H

#include "ir/ir.h"

typedef struct Infer {
    Graph *g;
    Node *n;
    Diag *diag;     /* NULL: a misfit is our own bug */
    Arena *scratch; /* of messages, made for the first one */
} Infer;

bool shape_fail(Infer *f, const char *what); /* false */
const char *shape_is(Infer *f, int i);       /* "batch.image is [B, 784]": operand i */

/* shape_conv.c: dims of the convolutions. */
bool conv_shape(Infer *f);
bool conv_transpose_shape(Infer *f);
bool conv_weight_shape(Infer *f);
bool shape_max_pool2d(Infer *f);
bool shape_max_pool2d_grad(Infer *f);
bool shape_interleave(Infer *f);
bool shape_avg_pool2d(Infer *f);
bool shape_avg_pool2d_grad(Infer *f);
/* shape_own_grad.c */
bool shape_own_grad(Infer *f);

#endif
