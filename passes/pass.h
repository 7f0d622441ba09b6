/* pass.h: what happens to a module between the frontend and the planner.
 *
 * passes_run() runs the passes of passes.def in order, from the one after module->last_pass on, and is the only
 * one that verifies, dumps, times and stops; a pass itself prints nothing but diagnostics. Fusion and the plan
 * (fuse.c, plan_lower.c) come after and are not passes: they make something other than a module.
 * Read next: passes.def, then a pass's head comment. */
#ifndef MPC_PASS_H
#define MPC_PASS_H

#include <stdbool.h>
#include <stdio.h>

#include "ir/ir.h"
#include "ir/plan.h"

typedef enum PassId {
#define PASS(name, meaning) PASS_##name,
#include "passes/passes.def"
    PASS_COUNT
} PassId;

typedef struct PassInfo {
    const char *name, *meaning;
} PassInfo;
extern const PassInfo pass_info[PASS_COUNT];
bool pass_find(const char *name, PassId *id);
bool pass_is_needed(const char *name); /* without it no plan can be made */

/* What --explain adds up. Counted over the step graphs; zero where a pass did not run. */
typedef struct PassCounts {
    int casts_wanted; /* operands that an op wanted in another type */
    int casts_made;   /* cast nodes that were made for them */
    int copies;       /* of those, the ones that became working copies of parameters */
    int rewrites;     /* by simplify */
} PassCounts;

typedef struct PassOptions {
    DType precision;        /* DT_none: as the file says; f32, f16 or bf16 override it */
    bool verify_ir;         /* module_verify() after every pass */
    bool verify_passes;     /* the interpreter before and after every pass */
    bool verbose;           /* a line for each check that verify_passes makes */
    bool time_passes;       /* a line with the milliseconds of each pass */
    const char *dump_after; /* a pass's name or "all"; NULL: nothing */
    FILE *dump;             /* where dumps go; NULL: files "NN-PASS.ir" in dump_dir */
    const char *dump_dir;   /* also where the IR that broke a pass goes; NULL: the current folder */
    FILE *report;           /* lines of verbose and time_passes; NULL: stderr */
    int checkpoint;         /* level of the pass checkpoint */
    int ndisabled;
    const char *const *disabled; /* names */
    const char *stop_after;      /* NULL: all passes run */
    uint64_t seed;               /* of verify_passes' inputs */
    PassCounts *counts;          /* filled when not NULL */
} PassOptions;

/* False when an error was reported (through diag); the module is then no longer of use. */
bool passes_run(Module *m, const PassOptions *opt, Diag *diag);

/* ---- the plan (plan_lower.c) --------------------------------------------------------------------------- */

typedef struct PlanOptions {
    int isa; /* enum MpcIsa of runtime/abi/gemm_params.h: sizes of packed panels */
} PlanOptions;

/* Needs all passes run. The graphs are used up: fusion adds nodes to them. */
Plan *plan_module(Arena *arena, Module *m, const PlanOptions *opt);

/* The lowest level of the pass checkpoint, which is still to come, with which the arena takes no more than m->memory;
 * -1 after an error message: there is none (fit.c). 0 where the passes fail: running them says why. */
int passes_fit(const Module *m, const PassOptions *opt, const PlanOptions *plan, Diag *diag);

#endif
