/* options.h: the command line of mpc. One table (options.c) gives parsing, --help and the names that a typo may
 * have meant. */
#ifndef MPC_DRIVER_OPTIONS_H
#define MPC_DRIVER_OPTIONS_H

#include <stdbool.h>

#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/vec.h"
#include "ir/ir.h"

typedef enum EmitKind {
    EMIT_tokens,
    EMIT_ast,
    EMIT_loop,
    EMIT_std,
    EMIT_ir,
    EMIT_dot,
    EMIT_kernels,
    EMIT_c,
    EMIT_exe,
    EMIT_none /* only what --explain or --dump-after print */
} EmitKind;

typedef enum ExplainKind { EXPLAIN_no, EXPLAIN_text, EXPLAIN_json } ExplainKind;

typedef enum PlanView { PLAN_no, PLAN_folded, PLAN_full } PlanView;

typedef VEC(const char *) WordVec;

typedef struct Options {
    const char *input, *output; /* NULL: not given */
    EmitKind emit;
    bool emit_given;
    const char *cpu; /* as written */
    DType precision; /* DT_none: as the file says */
    const char *dump_after, *dump_dir, *stop_after;
    bool verify_ir, verify_passes, check_data, time_passes, verbose;
    WordVec disabled;      /* names of passes */
    WordVec names, values; /* of -D */
    ExplainKind explain;
    PlanView plan;
    int level; /* -O */
    DiagColor color;
    DiagFormat diagnostics;
    bool help, version, list_passes, list_ops;
} Options;

/* False after a message on stderr: wrong usage. */
bool options_parse(Arena *a, Options *o, int argc, char **argv);
void options_help(void);

#endif
