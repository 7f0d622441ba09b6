/* accelerator.h: what the two files share that rewrite Accelerate's objects. Private to the frontend.
 *
 * accelerator.c the objects, what is prepared, expressions · accelerator_loop.c statements and loops
 */
#ifndef MPC_FRONTEND_ACCELERATOR_H
#define MPC_FRONTEND_ACCELERATOR_H

#include "frontend/ast.h"
#include "ir/base/strutil.h"

typedef enum AccelKind {
    ACCEL_model,
    ACCEL_optimizer,
    ACCEL_loader,
    ACCEL_scheduler,
    ACCEL_ema,
    ACCEL_other
} AccelKind;

/* A top-level variable that an accelerator may prepare. */
typedef struct AccelThing {
    const char *name;
    AccelKind kind;
    bool ready;      /* it is prepared */
    const char *was; /* its name before it was prepared; NULL: it has none */
    const char *of;  /* optimizer: the model, "model" or "model.head" */
    Loc loc;
} AccelThing;

typedef struct Accel {
    AstMaker m;
    const AstFile *file;
    const char *name;   /* of the accelerator; NULL before there is one */
    const char *low;    /* f16, bf16; NULL: f32 */
    const char *scaler; /* NULL: the loss is not scaled */
    Ast *steps;         /* batches in an update; NULL: 1 */
    VEC(AccelThing) known;
    /* of the loop over batches that is being rewritten */
    const char *counter; /* of its batches; NULL: none is needed, or there is no loop */
    Ast *loader;
    bool in_batches;
    int steps_left; /* optimizers that have not stepped yet: behind the last one the scale moves */
} Accel;

AccelThing *accel_find(const Accel *x, const char *name); /* NULL: none */
/* An expression without the accelerator; error nodes where that cannot be. */
Ast *accel_expr(Accel *x, Ast *n);
Ast *accel_autocast(Accel *x, Loc loc); /* autocast(f16); NULL in f32 */

const char *accel_own_member(const Accel *x, const Ast *n); /* NAME of accelerator.NAME, or NULL */
const char *accel_own_call(const Accel *x, const Ast *n);   /* of accelerator.NAME(...) */
const AccelThing *accel_thing(const Accel *x, const Ast *n,
                              AccelKind kind); /* known, ready or not */
Ast *accel_update_test(Accel *x,
                       Loc loc); /* is this batch the last one of its window? NULL: it always is */
const char *accel_path(Accel *x,
                       const Ast *n); /* "model.head" of model.head.parameters(), or NULL */
AstList accel_prepare(Accel *x, const Ast *s, const Ast *call);
/* `name`, or name_2 ...: none that the file uses */
const char *accel_fresh(const Accel *x, const char *name);
AstList accel_arguments(Accel *x, AstList list);

/* The whole: a file without an accelerator comes back as it is. */
AstFile *accel_expand(Arena *a, Diag *d, AstFile *file);

/* accelerator_loop.c */
AstList accel_statements(Accel *x, AstList in);
AstList accel_evaluation(Accel *x, AstList body);

#endif
