/* rt_run.h: the runtime's own part of a run, and what its files call of each other.
 *
 * rt_run.c        the order of things, from the command line to the exit status
 * rt_tensors.c    initial values, --init, safetensors files of the model
 * rt_memory.c     the one large allocation
 * rt_step.c       updates, evaluation, the services that generated code calls
 * rt_metrics.c    what an evaluation counts, and what it makes of it
 * rt_log.c        log.jsonl and config.json
 * rt_scalars.c    the same numbers as csv and for TensorBoard
 * rt_checkpoint.c when a checkpoint is written, and what stands in it
 * rt_resume.c     continuing from one
 * rt_progress.c   what the terminal shows
 * rt_predict.c    --predict, --export
 * rt_report.c     report.html
 * rt_show.c       print(...) of tensors
 * rt_plan.c       --plan, --summary
 */
#ifndef MPC_RT_RUN_H
#define MPC_RT_RUN_H

#include "abi/mpc_rt.h"
#include "rt_data.h"
#include "rt_device.h"
#include "rt_events.h"
#include "rt_loader.h"
#include "rt_memory.h"
#include "rt_options.h"
#include "rt_safetensors.h"
#include "rt_thread.h"

enum { RT_SHOWN_VALUES = 6, RT_CHECKPOINT_FORMAT = 1 };

/* A clock that can stand still: training time without evaluation. */
typedef struct RtClock {
    double total, since; /* since < 0: it stands */
} RtClock;

/* So many things until a count stood at `at`. */
typedef struct RtOften {
    int64_t n, at;
} RtOften;

typedef struct RtProgress {
    bool terminal; /* stderr is one: a bar; otherwise lines of key=value */
    bool bar_shown;
    unsigned launches; /* of kernels */
    int columns;
    double shown_at, pass_started;
    RtClock training;
    int64_t epochs;                /* of the whole run; -1: not known */
    int64_t batch, batches;        /* of the pass */
    int64_t batches_done, samples; /* of all training passes */
    int64_t evaluations, passes_done;
    double evaluating; /* seconds of all evaluations */
    RtOften inside,
        behind;     /* evaluations within passes, by batches_done; behind them, by passes_done */
    double started; /* when this process began to train, and what stood on the clocks then */
    double training_before, evaluating_before;
    int64_t batches_before;
    double loss_sum; /* since the last line */
    int64_t loss_n;
    int n_values; /* the last record's, besides loss */
    char name[RT_SHOWN_VALUES][32];
    double value[RT_SHOWN_VALUES];
    const char *table_of; /* the set of the last confusion matrix; NULL: none */
    const double *table;  /* table_n rows */
    int64_t table_n;
} RtProgress;

/* Checkpoints of this process. */
typedef struct RtSaves {
    double at, took; /* when the last one was complete, seconds that it took */
    int64_t batches; /* handed out since */
    int64_t step;    /* of the last one */
    bool any;        /* there is one: written, or continued from */
} RtSaves;

typedef struct RtReport RtReport;
typedef struct RtResume RtResume; /* the checkpoint that is continued from */

enum { RT_STEP_VALUES = 16 }; /* of several optimizers and scalers */

struct MpcRuntime {
    RtOptions options;
    RtPool *pool;
    RtDevice *device; /* NULL: the CPU */
    RtTable *tables;
    RtSet *sets;
    MpcLoader **loaders;
    char *out_dir;
    int lock, log_fd;
    int64_t log_bytes; /* of whole records */
    RtJson line;
    RtEvents events;                          /* fd < 0: none */
    RtProfile *profile;                       /* NULL: not wanted */
    RtReport *report;                         /* NULL: no folder to write it into */
    double started, data_seconds, first_step; /* first_step < 0: not yet */
    double elapsed_before;                    /* seconds of the processes that this one continues */
    size_t base_bytes, plan_bytes;
    RtMemory memory; /* behind MpcRun.mirror */
    bool steps_done; /* --max-steps reached */
    bool prefetch;
    int skips_in_row;
    int open_passes; /* of training loaders */
    RtSaves saves;
    RtResume *resume;
    bool has_last;
    MpcStep last; /* whose own values are these */
    MpcValue own[RT_STEP_VALUES];
    int64_t log_samples; /* state of progress at the last record */
    double log_training;
    int64_t batch_samples; /* handed out since mpc_step_done */
    RtProgress progress;
};

/* ---- rt_run.c ---- */
int rt_main(const MpcProgram *program, int argc, char **argv);
int rt_signal(void); /* SIGINT or SIGTERM once it came, else 0 */
_Noreturn void rt_die(const MpcProgram *program, int status, const RtErr *e);
_Noreturn void rt_end_early(MpcRun *r, int status, const RtErr *e); /* before there is a log */
_Noreturn void rt_fail_with(MpcRun *r, const RtErr *e); /* status 1, with an `end` record */
_Noreturn void rt_interrupted(MpcRun *r);               /* ends the run after a signal */

/* ---- rt_cpu.c ---- */
bool rt_cpu_check(const char *needs, const char *cpu, RtErr *e);

/* ---- rt_tensors.c ---- */
void rt_tensors_init(MpcRun *r);
void rt_tensors_to_device(MpcRun *r); /* all, from the mirror */
bool rt_tensors_check(MpcRun *r,
                      RtErr *e); /* initial values that the type they are used in cannot hold */
bool rt_tensors_load(MpcRun *r, const char *path, RtErr *e);
bool rt_tensors_save(MpcRun *r, const char *path, RtErr *e);
bool rt_tensors_save_all(MpcRun *r, const char *path, RtErr *e); /* but the working copies */
bool rt_tensors_load_all(MpcRun *r, const RtSafetensors *st, RtErr *e);
/* The first difference between what the file holds and what the program has. */
bool rt_tensors_compare(const MpcProgram *p, const RtSafetensors *st, RtErr *e);

/* ---- rt_checkpoint.c ---- */
/* Between two batches of a loader, at the end of a pass, and where a loop was left: writes a checkpoint where
 * it is time for one; after a signal it ends the program. */
void rt_between_batches(MpcRun *r, MpcLoader *l, bool left);
bool rt_checkpoint_finished(MpcRun *r, RtErr *e); /* says that the run is complete */
/* A new run must not write over one that could be continued. */
bool rt_checkpoint_fresh(const char *out, RtErr *e);
bool rt_checkpoint_clear(const char *out, RtErr *e); /* those of a finished run */
/* Checkpoints of a folder, oldest first, as names in it. */
typedef struct RtFolders {
    char **name;
    int n;
} RtFolders;
bool rt_checkpoint_list(const char *folder, RtFolders *list, RtErr *e);
bool rt_checkpoint_tidy(const char *folder, RtErr *e); /* what a killed run left half written */
bool rt_checkpoint_remove(const char *folder, const char *name, RtErr *e);
void rt_checkpoint_list_free(RtFolders *list);

/* ---- rt_resume.c ---- */
/* Before the data are read: finds the checkpoint, compares it with the program, takes over the options. Where
 * there is none the run begins afresh. Ends the program where the run is finished already. */
void rt_resume_open(MpcRun *r);
void rt_resume_tensors(MpcRun *r);            /* instead of initial weights */
void rt_resume_state(MpcRun *r);              /* counters, variables, place */
void rt_resume_loader(MpcRun *r, int loader); /* once it is open */
int64_t rt_resume_log_bytes(const MpcRun *r); /* of the log, at the checkpoint; -1: not continued */
const char *rt_resume_folder(const MpcRun *r);

/* ---- rt_metrics.c ---- */
int64_t rt_metric_cells(const MpcMetric *m);
bool rt_metric_is_share(MpcMetricKind kind);
void rt_metric_add(double *cells, const MpcMetric *m, const MpcSeen *s, int64_t n);
double rt_metric_value(const double *cells, const MpcMetric *m, int64_t samples);

/* ---- rt_loader.c calls these ---- */
void rt_pass_begins(MpcRun *r, MpcLoader *l);
void rt_pass_ends(MpcRun *r, MpcLoader *l);
void rt_batch_begins(MpcRun *r, MpcLoader *l, int64_t n);
bool rt_pass_stops(const MpcRun *r, const MpcLoader *l);

int64_t rt_epochs_begun(const MpcRun *r);

/* ---- rt_log.c ---- */
/* Before the data are read: can the run's folder be made? Is it free, and no unfinished run in it? */
bool rt_out_claim(MpcRun *r, RtErr *e);
bool rt_out_make(MpcRun *r, RtErr *e);                /* the run's folder and an empty log in it */
char *rt_out_name(const RtOptions *o, bool existing); /* to be freed */
bool rt_config_write(MpcRun *r, RtErr *e);
void rt_log_start(MpcRun *r); /* or `resume` */
void rt_log_values(MpcRun *r, const MpcValue *values, int n);
void rt_log_overflow(MpcRun *r, const MpcStep *s);
void rt_log_eval(MpcRun *r, const MpcEval *e, const double *values);
void rt_log_save(MpcRun *r, const char *path, bool best);
void rt_log_load(MpcRun *r, const char *path);
void rt_log_end(MpcRun *r, int status, const char *reason);
void rt_warn(MpcRun *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- rt_scalars.c ---- */
void rt_scalars_open(MpcRun *r);
/* Those of one step or evaluation stand between begin and end. set may be NULL. */
void rt_scalars_begin(MpcRun *r);
void rt_scalar(MpcRun *r, const char *group, const char *set, const char *name, double value);
void rt_scalars_end(MpcRun *r);

/* ---- rt_report.c ---- */
void rt_report_open(MpcRun *r);
void rt_report_refresh(MpcRun *r); /* between two things, often; written only when it is time */
void rt_report_write(MpcRun *r);
bool rt_report_is_there(const MpcRun *r);

/* ---- rt_progress.c ---- */
void rt_clock_start(RtClock *c);
void rt_clock_stop(RtClock *c);
double rt_clock_read(const RtClock *c);
/* The bar and what stands beside it, no wider than the terminal: narrower bars first, then fewer parts. */
void rt_progress_bar(const MpcRun *r, char *text, size_t size);
void rt_progress_start(MpcRun *r);
void rt_progress_tick(MpcRun *r); /* often; shows something only when it is time */
void rt_progress_pass_ends(MpcRun *r);
void rt_progress_values(MpcRun *r, const MpcValue *values, int n);
void rt_progress_eval(MpcRun *r, const MpcEval *e, const double *values);
double rt_progress_remaining(const MpcRun *r, double now); /* seconds of the run; -1: not known */
void rt_progress_done(MpcRun *r, int status);
void rt_progress_clear(MpcRun *r); /* before anything else is printed */

/* ---- rt_predict.c ---- */
void rt_predict_data(MpcRun *r,
                     RtTable *table); /* reads the file of --predict, or ends the program */
int rt_predict(MpcRun *r, const RtTable *table); /* the exit status, as of the next one */
int rt_export(MpcRun *r);

/* ---- rt_plan.c ---- */
const MpcData *rt_set_data(const MpcProgram *p, int set); /* the declaration it is a part of */
size_t rt_resident_bytes(void);
size_t rt_peak_bytes(void);
/* Bytes of everything but the data: arena, scratch, loaders, the program itself. */
size_t rt_plan_without_data(const MpcProgram *p, int threads, size_t base_bytes);
void rt_plan_print(const RtOptions *o, int threads, size_t base_bytes);
void rt_summary_print(const MpcProgram *p);

#endif
