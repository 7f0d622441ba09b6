/* toolchain.h: what lies outside: the CPU, the installed runtime, the C compiler. */
#ifndef MPC_DRIVER_TOOLCHAIN_H
#define MPC_DRIVER_TOOLCHAIN_H

#include <stdbool.h>

#include "ir/base/arena.h"

/* A --cpu: what the C compiler is told, which micro-kernels, what the program checks at its start. */
typedef struct Cpu {
    const char *name;  /* "x86-64-v4"; never "native" */
    const char *march; /* NULL: the compiler's own default */
    const char *needs; /* features, by a space */
    int isa;           /* enum MpcIsa of runtime/abi/gemm_params.h */
} Cpu;

/* False after a message: no such CPU. */
bool cpu_find(const char *name, Cpu *cpu);

/* Where lib/mpc lies, relative to mpc's own executable; NULL after a message. */
const char *toolchain_home(Arena *a);

typedef struct Compile {
    const Cpu *cpu;
    const char *home;   /* toolchain_home() */
    const char *source; /* the C file */
    const char *output;
    const char *level; /* "3" */
    bool verbose;      /* print the command */
} Compile;

/* Runs the C compiler. Exit status of mpc: 0, or 1 after a message. */
int toolchain_compile(Arena *a, const Compile *c);

/* A new file NAME.c to write the program's text to, in $TMPDIR; NULL after a message. */
char *toolchain_temporary(Arena *a, const char *name, int *fd);

#endif
