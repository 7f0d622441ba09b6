/* loops.h: what the files that write a trainer's loop share. Private to the frontend.
 *
 * loops.c the text and how it becomes a tree · trainer_loop.c its lines · trainer_fields.c what a sample
 * gives to the model and to the loss · trainer_eval.c evaluations and what depends on them.
 */
#ifndef MPC_FRONTEND_LOOPS_H
#define MPC_FRONTEND_LOOPS_H

#include "frontend/trainer.h"
#include "ir/base/strutil.h"

typedef VEC(Loc) LocVec;

typedef struct Loop {
    AstMaker m;
    const AstFile *file;
    Trainer t;
    Text *text;
    LocVec places;       /* of each line of text */
    const char *best_of; /* the metric that decides about the best weights, or NULL */
    const char *inputs;  /* the arguments of the model's call, "batch.image" */
    const char *label;   /* the label's field */
    bool counts;         /* a counter of updates is needed */
    /* names of the loop that the file does not use already */
    const char *model, *optimizer, *train, *scheduler, *scaler, *best, *step, *epoch, *micro;
} Loop;

/* One line of the loop; key (or KEY_COUNT) says what it is about. */
void loop_line(Loop *l, TrainerKey key, const char *fmt, ...) MPC_PRINTF(3, 4);

/* trainer_fields.c: fills inputs and label; false after an error. */
bool trainer_fields(Loop *l);

/* trainer_loop.c: all lines. */
void trainer_loop(Loop *l);
void trainer_forward(Loop *l); /* logits and loss of a batch, in the precision asked for */

/* trainer_eval.c */
bool trainer_find_best(Loop *l); /* fills best_of; false after an error */
void trainer_best_start(Loop *l);
void trainer_evaluation(Loop *l);

#endif
