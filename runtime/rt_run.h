/* rt_run.h: the runtime's own part of a run, and what its files call of each other.
 *
 * rt_run.c        the order of things, from the command line to the exit status
 * rt_tensors.c    initial values, --init, safetensors files of the model
 * rt_step.c       updates, evaluation, the services that generated code calls
 * rt_log.c        log.jsonl and config.json
 * rt_progress.c   what the terminal shows
 * rt_plan.c       --plan, --summary
 */
#ifndef MPC_RT_RUN_H
#define MPC_RT_RUN_H

#include "abi/mpc_rt.h"
#include "rt_data.h"
#include "rt_options.h"
#include "rt_thread.h"

enum { RT_SHOWN_VALUES = 6 };

/* A clock that can stand still: training time without evaluation. */
typedef struct RtClock {
    double total, since; /* since < 0: it stands */
} RtClock;

typedef struct RtProgress {
    bool terminal; /* stderr is one: a bar; otherwise lines of key=value */
    bool bar_shown;
    int columns;
    double shown_at, pass_started;
    RtClock training;
    int64_t epochs;                /* of the whole run; -1: not known */
    int64_t batch, batches;        /* of the pass */
    int64_t batches_done, samples; /* of all training passes */
    int64_t evaluations, passes_done;
    double evaluating; /* seconds of all evaluations */
    double loss_sum;   /* since the last line */
    int64_t loss_n;
    int n_values; /* the last record's, besides loss */
    char name[RT_SHOWN_VALUES][32];
    double value[RT_SHOWN_VALUES];
} RtProgress;

struct MpcRuntime {
    RtOptions options;
    RtPool *pool;
    RtTable *tables;
    RtSet *sets;
    MpcLoader **loaders;
    char *out_dir;
    int log_fd;
    RtJson line;
    double started, data_seconds, first_step; /* first_step < 0: not yet */
    size_t base_bytes, plan_bytes;
    bool steps_done; /* --max-steps reached */
    bool prefetch;
    int skips_in_row;
    bool has_last;
    MpcStep last;
    int64_t log_samples; /* state of progress at the last record */
    double log_training;
    int64_t batch_samples; /* handed out since mpc_step_done */
    RtProgress progress;
};

/* ---- rt_run.c ---- */
int rt_main(const MpcProgram *program, int argc, char **argv);
int rt_signal(void); /* SIGINT or SIGTERM once it came, else 0 */
_Noreturn void rt_die(const MpcProgram *program, int status, const RtErr *e);
_Noreturn void rt_fail_with(MpcRun *r, const RtErr *e); /* status 1, with an `end` record */

/* ---- rt_cpu.c ---- */
bool rt_cpu_check(const char *needs, const char *cpu, RtErr *e);

/* ---- rt_tensors.c ---- */
void rt_tensors_init(MpcRun *r);
bool rt_tensors_check(MpcRun *r,
                      RtErr *e); /* initial values that the type they are used in cannot hold */
bool rt_tensors_load(MpcRun *r, const char *path, RtErr *e);
bool rt_tensors_save(MpcRun *r, const char *path, RtErr *e);

/* ---- rt_loader.c calls these ---- */
void rt_pass_begins(MpcRun *r, MpcLoader *l);
void rt_pass_ends(MpcRun *r, MpcLoader *l);
void rt_batch_begins(MpcRun *r, MpcLoader *l, int64_t n);
bool rt_pass_stops(const MpcRun *r, const MpcLoader *l);

int64_t rt_epochs_begun(const MpcRun *r);

/* ---- rt_log.c ---- */
bool rt_out_check(const RtOptions *o, RtErr *e); /* before the data are read: can it be made? */
bool rt_out_make(MpcRun *r, RtErr *e);           /* the run's folder and an empty log in it */
char *rt_out_name(const RtOptions *o, bool existing); /* to be freed */
bool rt_config_write(MpcRun *r, RtErr *e);
void rt_log_start(MpcRun *r);
void rt_log_values(MpcRun *r, const MpcValue *values, int n);
void rt_log_overflow(MpcRun *r, const MpcStep *s);
void rt_log_eval(MpcRun *r, const MpcEval *e, const double *means);
void rt_log_save(MpcRun *r, const char *path, bool best);
void rt_log_end(MpcRun *r, int status, const char *reason);
void rt_warn(MpcRun *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- rt_progress.c ---- */
void rt_clock_start(RtClock *c);
void rt_clock_stop(RtClock *c);
double rt_clock_read(const RtClock *c);
void rt_progress_start(MpcRun *r);
void rt_progress_tick(MpcRun *r); /* often; shows something only when it is time */
void rt_progress_pass_ends(MpcRun *r);
void rt_progress_values(MpcRun *r, const MpcValue *values, int n);
void rt_progress_eval(MpcRun *r, const MpcEval *e, const double *means);
void rt_progress_done(MpcRun *r, int status);
void rt_progress_clear(MpcRun *r); /* before anything else is printed */

/* ---- rt_plan.c ---- */
size_t rt_resident_bytes(void);
size_t rt_peak_bytes(void);
/* Bytes of everything but the data: arena, scratch, loaders, the program itself. */
size_t rt_plan_without_data(const MpcProgram *p, int threads, size_t base_bytes);
void rt_plan_print(const RtOptions *o, int threads, size_t base_bytes);
void rt_summary_print(const MpcProgram *p);

#endif
