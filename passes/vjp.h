/* vjp.h: the derivative of every op, as a table that autodiff.c walks. */
#ifndef MPC_PASS_VJP_H
#define MPC_PASS_VJP_H

#include "ir/ir.h"

/* One question: given the gradient dy of n's result, what is the gradient of its operand i? */
typedef struct Vjp {
    Builder *b;
    Node *n;
    Node *dy;
    int i;
    DType
        type; /* the rule computes in it: that of the forward op; f32 where a parameter is on the other side */
    DType
        wanted; /* type of the answer; autodiff casts and sums over broadcast axes, contractions give it themselves */
} Vjp;

typedef Node *VjpFn(Vjp *v);
extern VjpFn *const vjp_rule[OP_COUNT];

VjpFn vjp_zero; /* the derivative is 0 wherever there is one */
VjpFn vjp_none; /* none is known; for leaves and detach: nothing flows */

#endif
