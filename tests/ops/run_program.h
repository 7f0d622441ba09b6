/* run_program.h: a training program made of many graphs for a test: module, compilation by mpc, run, and what
 * it left behind.
 *
 * Values go in as parameters (a file for --init) and come out as states (model.safetensors), so the program
 * under test is an ordinary one. Its host program calls every graph once, with one batch. States that are not
 * given a value start out poisoned: an element that no kernel writes is seen. */
#ifndef MPC_TEST_RUN_PROGRAM_H
#define MPC_TEST_RUN_PROGRAM_H

#include <stdbool.h>

#include "ir/base/text.h"
#include "ir/base/vec.h"
#include "ir/ir.h"
#include "tests/unit/golden_load.h"

#define POISON (-98765.0)

typedef struct ProgramTensor {
    const char *name;
    DType dtype;
    Dims dims;
    int64_t count;
    const double *v; /* NULL: poisoned */
} ProgramTensor;

typedef struct Program {
    Arena *arena;
    Diag *diag;
    Module *m;
    HostBlock *calls;
    VEC(ProgramTensor) tensors;
    VEC(const char *) fields, columns; /* of the table; at least one */
    Text *table;                       /* csv */
    int64_t rows, batch;               /* samples in it, and in a batch: 0: all of them */
    char *dir;                         /* a fresh folder, removed by program_done */
} Program;

Program *program_new(const char *name);
void program_done(Program *p, bool keep); /* keep: says where the folder is */

/* A field of the batch: "x: f32[3]", with "x0..x2" or "" as columns. */
void program_field(Program *p, const char *field, const char *columns);

Graph *program_graph(Program *p, const char *name);
/* The argument for a parameter, declared with its value when it is new; v is kept, not copied. */
Node *program_param(Program *p, Builder *b, const char *name, DType dt, const Dims *dims,
                    const double *v);
Node *program_state(Program *p, Builder *b, const char *name, DType dt, const Dims *dims,
                    const double *v);
/* `value` leaves the graph as a state of that name. Floats narrower than f32 come out as the f32 they are. */
void program_result(Program *p, Graph *g, const char *name, Node *value);
const ProgramTensor *program_find(const Program *p, const char *name);

/* Runs the passes up to autodiff; the gradients become states: of parameter "a.in.x" the state "a.gin.x". */
bool program_differentiate(Program *p);

/* mpc DIR/NAME.ir FLAGS -o DIR/NAME. False: what mpc said went to stderr. */
bool program_compile(Program *p, const char *const *flags);
/* Runs it; what model.safetensors holds, NULL if the run failed. */
GoldenFile *program_run(Program *p, const char *const *flags);

/* CPU FLAG... of a test's command line as flags for mpc; whether this machine runs such programs. */
const char *const *cpu_flags(Arena *arena, int argc, char **argv);
bool cpu_runs(const char *cpu);

/* Waits; output goes to the file `log`. The exit status, 128 + n after signal n. */
int run_command(const char *const *argv, const char *log);
void show_log(const char *path); /* the end of it, to stderr */

#endif
