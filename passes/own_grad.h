/* own_grad.h: modules that give their own derivative (op own_grad), for autodiff.c. */
#ifndef MPC_PASS_OWN_GRAD_H
#define MPC_PASS_OWN_GRAD_H

#include "passes/recompute.h"

/* By node id: some result or marker takes it, other than as a part of a module's own grad. */
bool *own_grad_forward(Arena *scratch, const Graph *g, Node *const *nodes, int n);
typedef struct OwnGrad {
    PassCtx *c;
    Graph *g;
    Node *const *nodes;  /* as they were, by id */
    const bool *forward; /* own_grad_forward() */
    const bool *wanted;  /* by id: a gradient of it is of use */
    Recompute *again;    /* has seen the own_grad */
} OwnGrad;

/* The gradients that `own`, one of these nodes, hands to its inputs, where dy comes in: by operand, NULL where the
 * input is not wanted. */
Node **own_grad_expand(OwnGrad *o, Node *own, Node *dy);
void own_grad_remove(PassCtx *c, Graph *g); /* each own_grad becomes its value */

#endif
