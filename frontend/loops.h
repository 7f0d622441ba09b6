/* loops.h: what the files that write a trainer's loop share. Private to the frontend.
 *
 * loops.c the text and how it becomes a tree · trainer_loop.c its lines · trainer_fields.c what a sample
 * gives to the model and to the loss · trainer_eval.c evaluations and what depends on them.
 */
#ifndef MPC_FRONTEND_LOOPS_H
#define MPC_FRONTEND_LOOPS_H

#include "frontend/trainer.h"
#include "ir/base/strutil.h"
#include "ir/ir.h"

typedef VEC(Loc) LocVec;

typedef struct Loop {
    AstMaker m;
    const AstFile *file;
    Trainer t;
    Text *text;
    LocVec places;           /* of each line of text */
    const char *metric;      /* that decides what is better: "loss", "f1" */
    bool greater;            /* is better */
    bool best_kept;          /* the weights with the best one are */
    bool by_steps, by_epoch; /* it evaluates */
    bool stops;              /* a flag says that the run ends inside of an epoch */
    const char *inputs;      /* the arguments of the model's call, "batch.image" */
    const char *label;       /* the label's field */
    bool counts;             /* a counter of updates is needed */
    /* names of the loop that the file does not use already */
    const char *model, *optimizer, *train, *scheduler, *scaler, *best, *step, *epoch, *micro, *ema;
    const char *waited, *stopped;
} Loop;

/* One line of the loop; key (or KEY_COUNT) says what it is about. */
void loop_line(Loop *l, TrainerKey key, const char *fmt, ...) MPC_PRINTF(3, 4);

/* trainer_fields.c: fills inputs and label; false after an error. */
bool trainer_fields(Loop *l);

/* trainer_loop.c: all lines. */
void trainer_loop(Loop *l);
void trainer_forward(Loop *l); /* logits and loss of a batch, in the precision asked for */

/* trainer_eval.c */
bool trainer_plan_evaluations(Loop *l); /* fills metric to stops; false after an error */
void trainer_best_start(Loop *l);
void trainer_measure(Loop *l);    /* an evaluation */
void trainer_evaluation(Loop *l); /* and what follows from it */
void trainer_best_end(Loop *l);
/* The callee of a metric's call in the text stands for the user's own, with its arguments. */
Ast *trainer_metric(Loop *l, const Ast *callee);

#endif
