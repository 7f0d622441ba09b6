/* update.h: between scaling.c, which knows about scales, norms and skips, and optimizers.c, which knows the
 * formulas of one parameter's update. */
#ifndef MPC_PASS_UPDATE_H
#define MPC_PASS_UPDATE_H

#include "passes/ctx.h"

enum { MAX_BUFFERS = 2 };

/* One optimizer's step. */
typedef struct Update {
    PassCtx *c;
    Graph *g;
    Builder *b;
    const Decl *optimizer; /* or what averages the parameter: an ema */
    const Decl *group;     /* of its parameters that this one is in; NULL: none */
    Node *step;            /* i64: updates made before this one */
    DType type;            /* of the arithmetic: f32, f64 for an f64 parameter */
} Update;

typedef struct OptimizerRule {
    const char *kind;                /* as the declaration says */
    const char *buffer[MAX_BUFFERS]; /* names of what it keeps for a parameter; NULL for none */
    bool (*keeps)(const Update *u); /* does it keep them with these hyperparameters? NULL: always */
    /* The parameter's next value; buf: the buffers before, and after. */
    Node *(*update)(Update *u, Node *p, Node *grad, Node *buf[MAX_BUFFERS]);
} OptimizerRule;

const OptimizerRule *optimizer_rule(const char *kind); /* NULL: no such optimizer */
/* The average of a parameter that is p at this update; average: the one before. */
Node *ema_next(Update *u, Node *p, Node *average);

#endif
