/* interp.h: what the parts of the reference interpreter share. Nothing here is fast; everything is
 * meant to be plainly what docs/IR.md says an op means. */
#ifndef MPC_IR_INTERP_H
#define MPC_IR_INTERP_H

#include "ir/ir.h"

typedef struct Run Run;

/* What the markers know of one optimizer within one run of a graph. */
typedef struct StepNote {
    const char *optimizer, *scaler;
    bool bad; /* a gradient was not finite */
    struct StepNote *next;
} StepNote;

struct Run {
    Interp *in;
    const Graph *g;
    Value **v;          /* by node id; NULL: cannot be known, see eval_backward */
    StateValue **state; /* the list's end; NULL: not wanted */
    StepNote *notes;
    Value *const *frozen; /* values of detach by node id while a loss is differentiated */
};

void run_node(Run *r, const Node *n);    /* sets r->v[n->id] */
Value *run_value(Run *r, const Node *n); /* a new one of the node's type and dims */

/* Arithmetic happens in double and is rounded to float where typed code computes in float; for + -
 * * / and sqrt that gives the bits of float arithmetic. */
typedef struct Reals {
    bool narrow; /* every intermediate is a float */
} Reals;
Reals reals_of(const Run *r, DType dt); /* for values of that type */
double reals_round(Reals k, double x);
double reals_exp(Reals k, double x);
double reals_log(Reals k, double x);
double reals_sqrt(Reals k, double x);

/* x, a value of type `from`, as one of type `to` in the run's mode. */
double run_convert(const Run *r, DType from, DType to, double x);
double map_apply(Op op, bool narrow, double a, double b, double c);

void strides_of(const Value *v, int64_t stride[MAX_RANK]);

/* clang-format off */
#define OP(name, nin, attributes, shape, cast, gradient, kind, meaning)                            \
    void eval_##name(Run *r, const Node *n, Value *const *in, Value *out);
#define MARK(name, nin, attributes, meaning)                                                       \
    Value *mark_##name(Run *r, const Node *n, Value *const *in);
/* clang-format on */
#include "ir/ops.def"

#endif
