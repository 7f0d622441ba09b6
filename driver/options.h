/* options.h: the command line of mpc. One table (options.def) gives parsing, --help, completion scripts, the manual
 * page and the names that a typo may have meant. */
#ifndef MPC_DRIVER_OPTIONS_H
#define MPC_DRIVER_OPTIONS_H

#include <stdbool.h>

#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/vec.h"
#include "ir/ir.h"

typedef enum OptionId {
#define OPTION(id, group, name, value, hint, meaning) OPT_##id,
#include "driver/options.def"
    OPTIONS
} OptionId;

typedef enum OptionGroup { GROUP_Make, GROUP_Look, GROUP_Check, GROUP_Say, GROUPS } OptionGroup;
extern const char *const option_group_name[GROUPS];

typedef enum OptionValue { VALUE_none, VALUE_joined, VALUE_optional, VALUE_next } OptionValue;

typedef struct OptionRow {
    OptionId id;
    OptionGroup group;
    const char *name;
    OptionValue value;
    const char *hint, *meaning; /* hint NULL: no value */
} OptionRow;
extern const OptionRow option_table[OPTIONS];

const char *option_usage(Arena *a, const OptionRow *r); /* "--explain[=text|json]" */

typedef enum EmitKind {
    EMIT_tokens,
    EMIT_ast,
    EMIT_loop,
    EMIT_std,
    EMIT_ir,
    EMIT_dot,
    EMIT_kernels,
    EMIT_c,
    EMIT_cuda,
    EMIT_ptx,
    EMIT_cubin,
    EMIT_exe,
    EMIT_none /* only what --explain or --dump-after print */
} EmitKind;

typedef enum ExplainKind { EXPLAIN_no, EXPLAIN_text, EXPLAIN_json, EXPLAIN_html } ExplainKind;

/* What the program runs on. cuda: on a GPU only. */
typedef enum TargetKind { TARGET_cpu, TARGET_cuda, TARGET_both } TargetKind;

typedef enum PlanView { PLAN_no, PLAN_folded, PLAN_full } PlanView;

typedef VEC(const char *) WordVec;
typedef VEC(int) IntVec;

typedef struct Options {
    const char *input, *output; /* NULL: not given */
    EmitKind emit;
    bool emit_given;
    const char *cpu; /* as written */
    TargetKind target;
    IntVec gpu;      /* architectures: 80, 90 */
    int64_t memory;  /* bytes that the arena may take; 0: as the file says */
    DType precision; /* DT_none: as the file says */
    const char *dump_after, *dump_dir, *stop_after;
    bool verify_ir, verify_passes, check_data, time_passes, verbose;
    WordVec disabled;      /* names of passes */
    WordVec names, values; /* of -D */
    WordVec folders;       /* of -I */
    ExplainKind explain;
    PlanView plan;
    int level; /* -O */
    DiagColor color;
    DiagFormat diagnostics;
    int shell, manual; /* --completion, --manual: number of the word; -1: not given */
    bool help, version, list_passes, list_ops;
} Options;

/* False after a message on stderr: wrong usage. */
bool options_parse(Arena *a, Options *o, int argc, char **argv);
void options_help(Arena *a);

#endif
