/* shape_own_grad.c: own_grad, the value whose derivative a module gives itself, and what it is tied together by.
 *
 *   %3 = where %2, %c, %1              what forward gave
 *   %4 = output_grad %3                its gradient; nobody knows it before autodiff
 *   %5 = mul %4, %m                    what grad makes of it
 *   %6 = own_grad %3, %4, %1, %5       the value of %3; for %1 the gradient is %5
 *
 * Replacing output_grad is passes/own_grad.c's part. */
#include "ir/shape.h"

#include "ir/base/strutil.h"

bool node_passes_gradient(const Node *n, int i)
{
    return n->op == OP_own_grad ? i >= 2 && i % 2 == 0 : n->op != OP_detach;
}

static bool pair_fits(Infer *f, int i)
{
    const Node *x = f->n->in[i], *d = f->n->in[i + 1];
    if (!dtype_info[x->dtype].is_float || !dtype_info[d->dtype].is_float) {
        return shape_fail(f, "an input and its gradient are of floating-point types");
    }
    return dims_equal(&x->dims, &d->dims) ||
           shape_fail(f, "the gradient for an input has the input's shape");
}

bool shape_own_grad(Infer *f)
{
    Node *n = f->n;
    if (n->nin < 2 || n->nin % 2 != 0) {
        return shape_fail(f, "wants a value, its output_grad and pairs of an input and a gradient");
    }
    if (n->in[1]->op != OP_output_grad || n->in[1]->in[0] != n->in[0]) {
        return shape_fail(f, "the second operand is not output_grad of the first");
    }
    if (!dtype_info[n->in[0]->dtype].is_float) {
        return shape_fail(f, "the value is of a floating-point type");
    }
    bool ok = true;
    for (int i = 2; ok && i < n->nin; i += 2) {
        ok = pair_fits(f, i);
    }
    n->dtype = n->in[0]->dtype;
    n->dims = n->in[0]->dims;
    return ok;
}
