/* rt_options.h: the command line of a training program. Every value knows where it came from. */
#ifndef MPC_RT_OPTIONS_H
#define MPC_RT_OPTIONS_H

#include "abi/mpc_rt.h"
#include "rt_util.h"

#include <stdio.h>

/* What main does; the later in the line wins over training only. */
typedef enum RtAction {
    RT_ACTION_train,
    RT_ACTION_eval,
    RT_ACTION_predict,
    RT_ACTION_export,
    RT_ACTION_plan,
    RT_ACTION_summary,
    RT_ACTION_print_config,
    RT_ACTION_completion,
    RT_ACTION_help,
    RT_ACTION_version
} RtAction;

/* What the terminal shows; tensorboard: text, and an event file in the folder of the run. */
typedef enum RtConsole {
    RT_CONSOLE_text,
    RT_CONSOLE_jsonl,
    RT_CONSOLE_csv,
    RT_CONSOLE_tensorboard,
    RT_CONSOLE_none
} RtConsole;

extern const char *const rt_console_name[RT_CONSOLE_none + 1];

typedef enum RtShell { RT_SHELL_bash, RT_SHELL_zsh, RT_SHELL_fish, RT_SHELL_COUNT } RtShell;
extern const char *const rt_shell_name[RT_SHELL_COUNT];

/* The value of one `option` of the file. */
typedef struct RtValue {
    double number;
    int64_t whole; /* of an int option */
    const char *text;
    const char *from; /* "default (fashion.mpt:5)", "command line" */
} RtValue;

typedef struct RtOptions {
    const MpcProgram *program;
    RtValue *values;
    RtAction action;
    RtConsole console;
    RtShell shell; /* of --completion */
    bool profile;
    const char *data_dir, *out, *init; /* NULL: not given */
    const char *device;                /* "auto", "cpu", "cuda", "cuda:1"; NULL: not given, auto */
    int gpu;                           /* of --device cuda:N; -1: any */
    const char *predict, *export_path;
    const char *output;        /* of --predict; NULL: stdout */
    int64_t epochs, max_steps; /* -1: not given */
    int64_t threads;           /* 0: as many as there are CPUs */
    uint64_t seed;
    const char *seed_from;
    bool plan_full; /* --plan=full */
    bool resume;
    const char *resume_path;  /* NULL: that of the folder of the run */
    int64_t checkpoint_steps; /* a checkpoint every so many updates; 0: by time */
    double checkpoint_seconds;
    bool checkpoint_never;    /* but on a signal */
    int64_t keep_checkpoints; /* the newest so many */
} RtOptions;

/* --device: may the run be on a GPU, and must it? */
bool rt_options_allow_gpu(const RtOptions *o);
bool rt_options_need_gpu(const RtOptions *o);

/* False: wrong usage, to be ended with status 2. */
bool rt_options_parse(RtOptions *o, const MpcProgram *p, int argc, char **argv, RtErr *e);
void rt_options_free(RtOptions *o);
const char *rt_option_text(const RtOptions *o, int option, char buffer[32]);
/* Of the whole run, where the command line or an option called epochs says it; else -1. */
int64_t rt_options_epochs(const RtOptions *o);
/* As on the command line; false when the program cannot take the value. */
bool rt_option_set(RtOptions *o, int option, const char *text, const char *from, RtErr *e);
void rt_options_help(const RtOptions *o, FILE *out);
void rt_options_print(const RtOptions *o, int threads, const char *out_dir, FILE *out);
/* rt_completion.c: the script of --completion for a program that is called `command`. */
void rt_completion(const RtOptions *o, const char *command, FILE *out);
/* The options as members of an object "options": {"lr":{"value":0.1,"from":"..."}}. */
void rt_options_json(const RtOptions *o, RtJson *j);

#endif
