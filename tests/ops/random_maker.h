/* random_maker.h: what the steps of random graphs are made with: random choices, inputs, the values so far. */
#ifndef MPC_TEST_RANDOM_MAKER_H
#define MPC_TEST_RANDOM_MAKER_H

#include "tests/ops/random_graph.h"

enum { MOST_ELEMENTS = 3000 };

typedef struct Maker {
    Program *p;
    Builder b;
    uint64_t state; /* of the random numbers */
    VEC(Node *) pool;
    VEC(Node *) states; /* inputs that may be updated in place */
    const RandomField *fields;
    const char *prefix;
    int inputs;
    bool exact, batch, gradients;
} Maker;

int pick(Maker *m, int n);
bool once_in(Maker *m, int n);
/* About normal; now and then a whole number, a zero of either sign, or a tiny or large one. */
double number(Maker *m);
double value_of(Maker *m, DType dt);
int64_t length(Maker *m);
int64_t count_of(const Dims *d);
Dims some_dims(Maker *m);
bool is_constant(const Dims *d);
/* A new parameter or state. */
Node *input(Maker *m, DType dt, const Dims *dims);
DType float_type(Maker *m);
Node *float_input(Maker *m, const Dims *dims);
/* Of the batch. */
Node *field(Maker *m, const char *name);
/* One of the values so far; real: of a floating-point type. */
Node *any(Maker *m);
Node *real(Maker *m);
Node *constant(Maker *m, double x);
Node *op1(Maker *m, Op op, Node *x);
Node *op2(Maker *m, Op op, Node *x, Node *y);
Node *with_axis(Maker *m, Op op, Node *x, int axis);

/* random_images.c: convolutions, pools and norms of images. NULL: nothing fits. */
Node *step_conv(Maker *m);
Node *step_conv_transpose(Maker *m);
Node *step_max_pool(Maker *m);
Node *step_avg_pool(Maker *m);
Node *step_batch_norm(Maker *m);

#endif
