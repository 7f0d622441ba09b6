/* mpc_rt.h: everything that a generated training program and the runtime (libmpcrt.a) know of each other.
 *
 * The generated C defines `const MpcProgram mpc_program` (tables that describe the program) and the functions
 * it points to; main() lies in the runtime. In order, main
 *     reads the command line, checks the CPU, answers --help, --plan and the like,
 *     reads the data, maps the arena, initialises every tensor that outlives a step, loads --init or, under
 *     --resume, a checkpoint,
 *     calls mpc_program.refresh (working copies), then mpc_program.run (or .evaluate under --eval),
 *     writes model.safetensors and the closing records.
 * The services below are what `run` calls. Those that can fail print a message and end the program with the
 * right exit status: generated code checks nothing.
 *
 * Not here: arithmetic (scalar.h, philox.h) and micro-kernels (kernels/).
 */
#ifndef MPC_RT_H
#define MPC_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan_table.h"

enum { MPC_MAX_RANK = 8 };

typedef struct MpcRun MpcRun;
typedef struct MpcLoader MpcLoader;
typedef struct MpcBatch MpcBatch;
typedef struct MpcWorker MpcWorker;
typedef void MpcKernel(const void *args, int tile, const MpcWorker *w); /* section 3 */

typedef enum MpcDType {
    MPC_DT_none,
#define DTYPE(name, ctype, bytes, kind, st, doc) MPC_DT_##name,
#include "dtypes.def"
    MPC_DT_COUNT
} MpcDType;

/* ---- 1. What the generated program says of itself ------------------------------------------------------ */

typedef enum MpcOptionType {
    MPC_OPTION_int,
    MPC_OPTION_float,
    MPC_OPTION_bool,
    MPC_OPTION_string
} MpcOptionType;

/* `option NAME = default` of the file: the flag --NAME. An option called seed, epochs or threads is also the
 * value of that flag of every program. */
typedef struct MpcOption {
    const char *name;
    MpcOptionType type;
    double number;      /* default of int, float, bool */
    const char *text;   /* default of string */
    const char *origin; /* where the default was set: "fashion.mpt:5" or "-D" */
    const char *help;   /* or NULL */
    bool
        bounded; /* used as a bound (batch size): the program was compiled for at most this default */
    bool fixed; /* compiled in (a layer's width): any other value is refused */
} MpcOption;

typedef enum MpcDataKind {
    MPC_DATA_idx,
    MPC_DATA_csv,
    MPC_DATA_tsv,
    MPC_DATA_bin,
    MPC_DATA_jsonl
} MpcDataKind;

/* One column, or all from `first` to `last` in the order of the file; last is NULL for one. */
typedef struct MpcColumns {
    const char *first, *last;
} MpcColumns;

typedef struct MpcField {
    const char *name;
    MpcDType dtype;
    int rank; /* without the sample dimension */
    int64_t dims[MPC_MAX_RANK];
    const MpcColumns *columns; /* csv, tsv: their sum fills dims; NULL: the column called `name` */
    int n_columns;
} MpcField;

/* A `data` declaration. idx: file i holds field i. csv, tsv: one file. bin: any number of files, one after the
 * other, of records that hold the fields in their order. */
typedef struct MpcData {
    const char *name;
    MpcDataKind kind;
    const char *const *paths; /* as written; looked for under --data, home, the current folder */
    int n_paths;
    const MpcField *fields;
    int n_fields;
    int line;
} MpcData;

/* What can be iterated over: a whole declaration, or a part of another set. A split permutes the rows of its
 * parent by `seed`; a part is the rows from round(begin * rows) to round(end * rows) of that permutation, in
 * the parent's order. parts = s.split(validation = 0.1): validation is 0..0.1, train 0.1..1. */
typedef struct MpcSet {
    const char *name;
    int data;   /* index into data */
    int parent; /* index into sets of the set it is a part of; -1: all of data */
    double begin, end;
    uint64_t seed;
} MpcSet;

/* Labels that index something: every value of the field must lie in 0..classes-1 (or equal `ignore` where
 * has_ignore). Checked over the whole set before training; the message names file and row. */
typedef struct MpcLabelCheck {
    int set;
    int field;
    int64_t classes;
    bool has_ignore;
    int64_t ignore;
    int line;
} MpcLabelCheck;

/* One batch on its way through preparation. Arrays are (n, dims of the field), contiguous, aligned to 64;
 * behind the n-th row there is room up to the loader's bound, but nothing meaningful. */
typedef struct MpcPrepare {
    int64_t n;
    const void *const *in; /* one a field of the set */
    void *const *out;      /* one an `out` field of the loader */
    const int64_t
        *rng; /* (n): epoch << 32 | row, the keys of random ops; a row that a sampler draws again in
                              the same epoch has another key (bits 52 and up) */
    uint64_t seed;
    void *scratch; /* scratch_bytes of the loader, aligned to 64 */
} MpcPrepare;

/* How the samples of a pass are chosen, with replacement: by the values of a field. */
typedef enum MpcSampler {
    MPC_SAMPLER_none,     /* each once */
    MPC_SAMPLER_balanced, /* all values of an integer field equally often */
    MPC_SAMPLER_weighted  /* the field's number, relative to that of others, says how often */
} MpcSampler;

/* `loader(set, batch_size, shuffle, drop_last)`, or the loader inside an `evaluate`. */
typedef struct MpcLoaderDecl {
    const char *name;
    int set;
    int64_t
        batch_max; /* bound the arena was planned for; the size itself is given to mpc_loader_open */
    bool shuffle, drop_last;
    MpcSampler sampler;
    int sampled_by; /* field of the set */
    bool training;  /* its passes are the epochs that progress counts */
    void (*prepare)(const MpcPrepare
                        *p); /* called on the loader's thread, serially; NULL: fields as they are */
    const MpcField *out;     /* what `prepare` writes (name, dtype, rank, dims); NULL without it */
    int n_out;
    size_t scratch_bytes;
    int line;
} MpcLoaderDecl;

typedef enum MpcRole {
    MPC_ROLE_param,   /* trained; saved under its name */
    MPC_ROLE_state,   /* a module's state; saved under its name */
    MPC_ROLE_moment,  /* an optimizer's state */
    MPC_ROLE_scaler,  /* scale, tracker, skips */
    MPC_ROLE_working, /* derived copy of a parameter; written by refresh, never saved */
    MPC_ROLE_grad,    /* accumulated over several calls */
    MPC_ROLE_before,  /* a state as it was before these calls */
    MPC_ROLE_ema /* an average of a parameter, which is saved in its place; the count of its updates */
} MpcRole;

/* constant(a) · uniform in [a, b) · normal(mean a, deviation b) · trunc_normal: normal cut to a-2b..a+2b.
 * Element e of the tensor `name` draws from Philox with key seed and counter (e / 4, 0, 0, fnv1a(name)):
 * uniform takes lane e % 4; normals take lanes 0,1 for e % 4 < 2, else 2,3 (Box-Muller: cosine, then sine). */
typedef enum MpcInitKind {
    MPC_INIT_constant, /* zeros and ones are constant(0) and constant(1) */
    MPC_INIT_uniform,
    MPC_INIT_normal,
    MPC_INIT_trunc_normal
} MpcInitKind;

typedef struct MpcTensor {
    const char *name;
    MpcRole role;
    MpcDType dtype;
    int rank;
    int64_t dims[MPC_MAX_RANK];
    size_t offset; /* in the arena */
    MpcInitKind init;
    double a, b;
    const char *of; /* average: its parameter, whose value it begins with; NULL for all else */
    MpcDType
        used_as; /* type of the parameter's casts: a loaded value that is inf there is refused by name */
    int line;
} MpcTensor;

/* A row of --summary, in order of declaration; the path's dots give the depth. */
typedef struct MpcModuleRow {
    const char *path;  /* "" for the model itself */
    const char *kind;  /* "Linear" */
    const char *shape; /* "in 784, out 512, bias" */
    int64_t params;    /* its own, without those of modules inside */
} MpcModuleRow;

/* A field of the record of host variables: what a checkpoint keeps of it, by name and type. */
typedef struct MpcVar {
    const char *name;
    MpcOptionType type; /* int: int64_t, float: double, bool: bool, string: const char * */
    size_t offset;      /* in MpcRun.host */
} MpcVar;

/* A kernel, for --profile and the report: who it is, where in the source, what it works on. */
typedef struct MpcKernelRow {
    MpcKernel *function, *pack; /* pack: brings operands into its order first; or NULL */
    const char *name, *what;    /* "fc1_matmul_relu", "fc1: matmul, cast, relu" */
    const char *types;          /* "f16, f32 -> f16" */
    const char *phase;          /* "forward", "backward", "update", "evaluation" */
    const char *why;            /* the precision's reason, or NULL */
    const char *module;         /* path of the module it belongs to, or NULL */
    int line;
    int64_t tiles; /* flops and bytes are those of so many tiles; 0: of one call at the bounds */
    double flops, bytes;
} MpcKernelRow;

/* What is made of the model's answer. */
typedef enum MpcPredictKind {
    MPC_PREDICT_logits, /* the last axis are classes: the largest, and softmax */
    MPC_PREDICT_logit,  /* yes or no: sigmoid */
    MPC_PREDICT_output  /* the numbers themselves */
} MpcPredictKind;

/* --predict: the answer of the model for each sample of a batch, from an evaluation of the file. */
typedef struct MpcPredict {
    void (*run)(MpcRun *r, const MpcBatch *batch);
    int loader;        /* whose data declaration and preparation the samples have */
    const bool *needs; /* for each field of that declaration: must it be there? */
    MpcPredictKind kind;
    MpcDType dtype;
    int rank; /* of one sample's answer */
    int64_t dims[MPC_MAX_RANK];
    size_t offset; /* in the arena: (n, dims) */
    int line;
} MpcPredict;

/* ---- the GPU's side of a program that has one ---- */

/* Blocks of a launch. */
typedef struct MpcGrid {
    unsigned x, y, z;
} MpcGrid;

/* A kernel as the GPU has it. It takes the same struct of arguments as `function`, by value. */
typedef struct MpcCudaKernel {
    MpcKernel *function;
    const char *name; /* in the images */
    int threads;      /* of a block */
    int shared_bytes; /* dynamic ones */
    MpcGrid (*grid)(const void *args);
} MpcCudaKernel;

/* All kernels, compiled for one architecture. */
typedef struct MpcCudaImage {
    int arch;                  /* 90: sm_90, or of PTX compute_90 */
    bool ptx;                  /* text that the driver compiles, for later architectures */
    const unsigned char *data; /* deflated */
    size_t bytes, full_bytes;  /* deflated, and not */
} MpcCudaImage;

typedef struct MpcCuda {
    const MpcCudaKernel *kernels;
    int n_kernels;
    const MpcCudaImage *images;
    int n_images;
} MpcCuda;

/* Bytes of the arena. */
typedef struct MpcRange {
    size_t offset, bytes;
} MpcRange;

/* A graph, by its number in mpc_graph_begin: what the host writes before it runs and reads afterwards. */
typedef struct MpcGraphRow {
    const char *name;
    const MpcRange *in, *out;
    int n_in, n_out;
    int line;
} MpcGraphRow;

typedef struct MpcProgram {
    const char *name;          /* "fashion_mlp": names the output folder */
    const char *source;        /* "examples/fashion_mlp.mpt" as given to mpc */
    const char *home;          /* absolute folder of the .mpt when it was compiled */
    const char *version;       /* of mpc */
    const char *precision;     /* "fp16 (autocast, dynamic loss scale, f32 masters)" */
    const char *precision_key; /* "fp16": what log and config say */
    const char *math;          /* "exact" or "fast" */
    const char *cpu;           /* the --cpu it was compiled for: "x86-64-v4" */
    const char *cpu_needs;     /* features, by a space: "avx2 fma f16c"; "" for any CPU */

    const MpcOption *options;
    int n_options;
    const MpcData *data;
    int n_data;
    const MpcSet *sets;
    int n_sets;
    const MpcLabelCheck *label_checks;
    int n_label_checks;
    const MpcLoaderDecl *loaders;
    int n_loaders;
    const MpcTensor *tensors;
    int n_tensors;
    const MpcModuleRow *modules;
    int n_modules;
    const MpcKernelRow *functions;
    int n_functions;
    const MpcGraphRow *graph_rows;
    int n_graph_rows;
    const MpcCuda *cuda; /* NULL: for the CPU only */
    bool gpu_only;       /* --target=cuda: the CPU is no alternative */
    MpcPlan plan;
    const char *const *classes; /* class names, or NULL */
    int n_classes;

    const MpcVar *vars;
    int n_vars;
    bool has_epochs; /* a loop over epochs, whose end --epochs may change */
    uint64_t graphs; /* fingerprint of what the graphs compute */
    uint64_t loop;   /* of the host program: a checkpoint's place means nothing in another one */

    int64_t parameters;   /* trained numbers */
    size_t arena_bytes;   /* aligned to 4096, zeroed at start */
    size_t scratch_bytes; /* for each thread */
    size_t host_bytes;    /* of the record of host variables */

    void (*refresh)(MpcRun *r); /* writes the working copies from the masters; or NULL */
    void (*run)(MpcRun *r);     /* the host program */
    void (*evaluate)(
        MpcRun *r);            /* every `evaluate` of the file once (--eval); NULL: there is none */
    const MpcPredict *predict; /* NULL: there is no model to ask */
} MpcProgram;

extern const MpcProgram mpc_program;

/* ---- 2. The run ---------------------------------------------------------------------------------------- */

typedef struct MpcRuntime MpcRuntime; /* the runtime's own part */

struct MpcRun {
    /* Where kernels work: MpcTensor.offset and the planned buffers count from here. On a GPU it is the GPU's memory;
     * `mirror` is the host's, of the same layout, and else the same place. Before a graph runs, what it takes of
     * MpcGraphRow.in is read from the mirror; afterwards its `out` is there. */
    unsigned char *arena, *mirror;
    void *host; /* host_bytes, zeroed: struct of the generated program */
    const MpcProgram *program;
    uint64_t seed;
    int threads;
    bool training; /* false under --eval */
    int64_t step;  /* updates tried so far: calls of mpc_step_done */
    int64_t skips; /* of these, skipped */
    int64_t epoch; /* pass of the training loader, from 0 */
    int place;     /* of the loop that a continued run enters; 0: it begins at the beginning */
    MpcRuntime *rt;
};

/* Options by their index in the table. */
int64_t mpc_option_int(const MpcRun *r, int option);
double mpc_option_float(const MpcRun *r, int option); /* of an int option too */
bool mpc_option_bool(const MpcRun *r, int option);
const char *mpc_option_string(const MpcRun *r, int option);

/* The end of the outermost loop over epochs: --epochs where it was given, else what the file says. Tells
 * progress how long the run is. Where several loops follow each other, only the first calls it. */
int64_t mpc_epochs(MpcRun *r, int64_t in_file);

/* True once the run has to end: --max-steps reached, or a signal. Every host `for` tests it beside its own
 * bound; loaders hand out no further training batch (after a signal: none at all). */
bool mpc_stopping(const MpcRun *r);

/* ---- 3. Kernels on threads ----------------------------------------------------------------------------- */

struct MpcWorker {
    int index;     /* 0 .. threads-1; 0 is the thread that called mpc_run */
    void *scratch; /* scratch_bytes, its own, aligned to 64, kept between calls */
};

/* A kernel computes one tile. Tiles of a call run in any order, on any thread, at the same time: what they write
 * must not overlap, and sums go into slots that are added in order by a later call. */

typedef struct MpcCall {
    MpcKernel *kernel;
    const void *args;
    int tiles; /* 0: nothing happens */
} MpcCall;

/* Runs all tiles and returns when they are done. A single tile runs at once on the calling thread. Not from
 * within a kernel and not from `prepare`. */
void mpc_run(MpcRun *r, MpcKernel *kernel, const void *args, int tiles);

/* The same for several calls that do not depend on each other, in one parallel region. */
void mpc_run_many(MpcRun *r, const MpcCall *calls, int n);

/* Around the kernels of a graph: `if (mpc_graph_begin(...)) { mpc_run...; mpc_graph_end(...); }`. False: the graph was
 * run by other means; a GPU keeps the launches that it has seen. */
bool mpc_graph_begin(MpcRun *r, int graph, const MpcBatch *batch);
void mpc_graph_end(MpcRun *r, int graph);

/* ---- 4. Data ------------------------------------------------------------------------------------------- */

struct MpcBatch {
    int64_t n;     /* samples in it: the batch size, or what is left for the last one */
    int64_t index; /* 0, 1, ... within the pass */
    const void *const
        *field;         /* (n, dims), one an `out` field (or field of the set without `prepare`) */
    const int64_t *rng; /* (n): epoch << 32 | row */
};

/* Opened once, at the start of `run`; the same index gives the same loader. Batch sizes below 1 or above the
 * bound end the program. */
MpcLoader *mpc_loader_open(MpcRun *r, int loader, int64_t batch_size);

/* One pass: begin, next until false, end (also after `break`). The batch stays valid until the next call of
 * next or end. The order of pass e follows from (seed, e) alone; e counts the passes of this loader.
 *
 * `place` is the number of the loop in the host program, from 1: where a checkpoint that is written between
 * its batches says it was made. A run that continues there finds MpcRun.place set, its variables as they were,
 * and the pass begun: it goes to the loop's next at once. Loops around that one get the batch again that they
 * had in hands. 0: no checkpoint is written in this loop. */
void mpc_loader_begin(MpcLoader *l, int place);
bool mpc_loader_next(MpcLoader *l, MpcBatch *batch);
void mpc_loader_end(MpcLoader *l);

int64_t mpc_len(const MpcLoader *l);         /* batches of a pass */
int64_t mpc_count(const MpcRun *r, int set); /* samples of a set */

/* ---- 5. Steps, logs, evaluation, files ----------------------------------------------------------------- */

typedef struct MpcValue {
    const char *name;
    double value;
} MpcValue;

/* What one update came to. Called once after each, with has_X false for what the program does not have. */
typedef struct MpcStep {
    int64_t samples; /* since the last call */
    bool has_loss, has_lr, has_grad_norm, has_scale;
    double loss, lr, grad_norm;
    double scale, scale_next; /* this step's, and the next one's */
    bool skipped;             /* found_inf: nothing was updated */
    int max_skips;            /* consecutive skips after which the run fails; 0: never */
    const char *tensor,
        *op; /* skipped: the first gradient that is not finite and the op that made it, or NULL */
    int line;
    /* of several optimizers the rate of each, "lr/NAME", and of several scalers "scale/NAME"; what is not said
     * stays as the last update that said it left it */
    int n_own;
    const MpcValue *own;
} MpcStep;

/* Counts the step, logs an overflow, moves progress, stops the run on a loss that is not finite though the
 * update was made, or on max_skips; keeps the values for mpc_log_step. */
void mpc_step_done(MpcRun *r, const MpcStep *s);

/* log(a, b): a `step` record of the last step's values and these; one called loss replaces the step's own. */
void mpc_log_step(MpcRun *r, const MpcValue *values, int n);

typedef enum MpcMetricKind {
    MPC_METRIC_mean, /* of the batches' means, weighted by n */
#define METRIC_FEED(name, values, cells, meaning)
#define METRIC(name, feed, better, formals, meaning) MPC_METRIC_##name,
#include "metrics.def"
    MPC_METRIC_COUNT
} MpcMetricKind;

typedef enum MpcAverage {
    MPC_AVERAGE_none,
    MPC_AVERAGE_binary, /* class 1 */
    MPC_AVERAGE_macro,
    MPC_AVERAGE_micro,
    MPC_AVERAGE_weighted
} MpcAverage;

typedef struct MpcMetric {
    const char *name; /* log key */
    MpcMetricKind kind;
    MpcAverage average;
    int64_t n; /* classes, or numbers in a sample; of shares: labels of a sample, 0 for one */
} MpcMetric;

/* What a batch gave for a metric: a number, or rows. */
typedef struct MpcSeen {
    double number;
    const void *row
        [2]; /* by the metric's feed: int64_t answers (-1: none), labels · double outputs, targets ·
                           double losses, int64_t labels (-1: does not count) */
    int64_t rows;
} MpcSeen;

enum { MPC_MAX_METRICS = 32 };

typedef struct MpcEval {
    const char *set;
    const MpcMetric *metrics;
    int n_metrics;
    int64_t samples;
    double *cells[MPC_MAX_METRICS]; /* of each metric, as metrics.def says */
    double start;                   /* s */
} MpcEval;

/* evaluate(set) { ... }:
 *     mpc_eval_begin(r, &e, "test_set", metrics, 2, cells, loader);   begins the pass, too
 *     while (mpc_loader_next(loader, &batch)) { graph; mpc_eval_add(r, &e, seen, batch.n); }
 *     mpc_eval_end(r, &e, loader, values);                            ends it, logs; values: one a metric
 * `cells` has room for those of all metrics. After a signal nothing is logged and the values are NaN. */
void mpc_eval_begin(MpcRun *r, MpcEval *e, const char *set, const MpcMetric *metrics, int n,
                    double *cells, MpcLoader *l);
void mpc_eval_add(MpcRun *r, MpcEval *e, const MpcSeen *seen, int64_t n);
void mpc_eval_end(MpcRun *r, MpcEval *e, MpcLoader *l, double *values);

/* save("best"): best.safetensors in the output folder, every param and state. load("best") reads it back. */
void mpc_save(MpcRun *r, const char *name);
void mpc_load(MpcRun *r, const char *name);

/* Ends the run after so many updates, as --max-steps does, which counts instead where it is given. */
void mpc_limit(MpcRun *r, int64_t updates);

/* Seconds of the run, those of the processes that it continues included. */
double mpc_elapsed(const MpcRun *r);
bool mpc_step_was_skipped(const MpcRun *r); /* the newest update was */

/* print(...): one line to stdout that the progress bar gives way to. */
void mpc_print(MpcRun *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A part of what print(...) in a graph shows: a text, a tensor, or a shape; bare: a single size. */
typedef struct MpcShown {
    const char *text;
    const void *data; /* NULL: only dims */
    MpcDType dtype;
    bool bare;
    int rank;
    int64_t dims[MPC_MAX_RANK];
} MpcShown;
/* One line of these to stdout, a tensor's on lines of its own; nothing under --predict. */
void mpc_show(MpcRun *r, const MpcShown *parts, int n);

/* Ends the program with status 1: what went wrong, and what to do about it (or NULL). From any thread. */
_Noreturn void mpc_fail(MpcRun *r, const char *hint, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- 6. Schedules: pure functions ---------------------------------------------------------------------- */

typedef enum MpcScheduleKind {
#define SCHEDULE(name, args, defaults, torch) MPC_SCHEDULE_##name,
#include "schedules.def"
    MPC_SCHEDULE_COUNT
} MpcScheduleKind;

/* The rate of update k (from 0: the number of updates made before), for the base rate `base`; `arg` in the
 * order of schedules.def, all given. */
double mpc_schedule(MpcScheduleKind kind, double base, const double *arg, int64_t k);

/* Of a schedule that waits for a metric to get better. */
typedef struct MpcPlateau {
    double best;
    int64_t bad, cooling; /* metrics in a row that were no better; metrics that do not count yet */
    bool begun;           /* there is a best one */
} MpcPlateau;

/* One more metric; true: the rate falls. `arg` is the schedule's. */
bool mpc_plateau(MpcPlateau *p, const double *arg, double metric);

#endif
