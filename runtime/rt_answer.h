/* rt_answer.h: what --predict says of each sample, as JSON lines or as a csv table, to stdout or a file. */
#ifndef MPC_RT_ANSWER_H
#define MPC_RT_ANSWER_H

#include "rt_options.h"

typedef struct RtAnswers {
    const MpcProgram *program;
    int64_t each; /* numbers that the model gives for a sample */
    bool csv, to_file;
    RtWriter file;
    RtJson line;
    int64_t *label; /* of the sample, and how many it has: one, one a place, or none */
    int64_t n_labels;
} RtAnswers;

/* --output names the file, whole or not there; a name that ends in .csv makes it a table, as `--log csv` does on
 * stdout. */
bool rt_answers_open(RtAnswers *a, const MpcProgram *program, const RtOptions *options, RtErr *e);
/* The `each` numbers of the next sample, which are changed. False: they cannot be written. */
bool rt_answers_put(RtAnswers *a, double *v, RtErr *e);
bool rt_answers_close(RtAnswers *a, bool complete, RtErr *e);

#endif
