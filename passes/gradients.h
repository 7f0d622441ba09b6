/* gradients.h: the gradients that a marker stands for, on their way from the loss to the optimizers. */
#ifndef MPC_PASS_GRADIENTS_H
#define MPC_PASS_GRADIENTS_H

#include "passes/ctx.h"

typedef struct Grad {
    const char *param;
    Node *value;
    Node *squares; /* f64, sum of squares before unscaling; NULL after clipping */
    Node *inverse; /* f64, what unscaling multiplied by; NULL: not unscaled, or clipped since */
    const Decl *scaler; /* the loss was multiplied by its scale; NULL: it was not */
    Node *bad;          /* after unscaling: the gradients of its optimizer are not finite */
    bool mixed; /* a sum of gradients of which one was unscaled or clipped; good for nothing */
    bool changed;
} Grad;

/* What a token stands for. Markers change it in order. */
typedef struct GradSet {
    int n;
    Grad *v;
} GradSet;

/* It is what the loss has for a gradient, clipped perhaps, but not scaled. */
bool grad_is_true(const Grad *g);
/* The union; a parameter in both sets has the sum, unless one of the gradients is not what backward gave. */
GradSet *grads_join(PassCtx *c, Builder *b, const GradSet *x, const GradSet *y);
GradSet *grads_without(PassCtx *c, const GradSet *x, const Decl *optimizer);

#endif
