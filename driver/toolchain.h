/* toolchain.h: the C compiler that turns the emitted text into a program, and which CPU it does so for. */
#ifndef MPC_DRIVER_TOOLCHAIN_H
#define MPC_DRIVER_TOOLCHAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "ir/base/arena.h"

/* What --cpu comes to. */
typedef struct Cpu {
    const char *name;  /* as the program tells it: "x86-64-v4" */
    const char *march; /* flag of the C compiler; NULL: none */
    const char *needs; /* features that the program asks for at its start */
    int isa;           /* CpuLevel */
} Cpu;

typedef struct Toolchain {
    Arena *arena;
    const char *lib;       /* folder with libmpcrt.a and include/ */
    const char *const *cc; /* words of the C compiler's command, ending in NULL */
    int level;             /* -O */
    bool verbose;
} Toolchain;

/* Each of these gives false after a message on stderr. */
bool toolchain_find(Toolchain *t, Arena *a);
bool toolchain_cpu(const Toolchain *t, const char *name, Cpu *cpu);
/* Compiles `text` to the program `out`; leaves nothing behind when it cannot. */
bool toolchain_compile(const Toolchain *t, const Cpu *cpu, const char *text, size_t size,
                       const char *out);
/* May a program be written there? Asked before time is spent. */
bool toolchain_can_write(const char *out);

#endif
