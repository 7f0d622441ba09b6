/* codegen.h: spells a plan as the C file of a training program.
 *
 * Everything is decided before (plan.h); nothing here looks at the IR's graphs. The text goes into `out`
 * complete: tables for the runtime (runtime/abi/mpc_rt.h), kernels, a function for each graph, the host
 * program. Text that does not depend on the model is a real file of runtime/kernels or runtime/abi. */
#ifndef MPC_CODEGEN_H
#define MPC_CODEGEN_H

#include <stdbool.h>
#include <stdio.h>

#include "ir/base/text.h"
#include "ir/plan.h"

/* Instruction sets that contractions exist for; the numbers of runtime/abi/gemm_params.h. */
typedef enum CpuLevel { CPU_generic, CPU_avx2, CPU_avx512 } CpuLevel;

typedef struct CodegenOptions {
    const char *version; /* of mpc */
    const char *command; /* for the banner: "mpc fashion.mpt -o fashion" */
    const char *home;    /* absolute folder of the .mpt */
    const char *cpu;     /* "x86-64-v4" */
    const char *needs;   /* features, by a space: "avx2 fma f16c"; "" for any CPU */
    int isa;             /* CpuLevel that the plan was made for */
    bool gpu;            /* the program can run on a GPU, too */
    bool gpu_only;       /* it refuses to run elsewhere */
    int gpu_images;      /* GpuImage's that follow its text */
} CodegenOptions;

/* The program of `plan` for the CPU. False: the plan has something that cannot be spelled; an error was
 * reported through diag. */
bool codegen_c(FILE *out, const Plan *plan, const CodegenOptions *opt, Diag *diag);
/* Its kernels in CUDA C: what `codegen_c` with opt->gpu calls by the same names. */
bool codegen_cuda(FILE *out, const Plan *plan, const CodegenOptions *opt, Diag *diag);
/* The text of each kernel's functions, comment included, by its number; NULL: it is never called. */
const char **codegen_kernel_texts(Arena *arena, const Plan *plan, const CodegenOptions *opt,
                                  Diag *diag);
/* The kernels compiled for one architecture of GPUs: a cubin, or PTX, which the driver of a later GPU compiles. */
typedef struct GpuImage {
    int arch; /* 90: sm_90, or compute_90 */
    bool ptx;
    char *data; /* of malloc; PTX ends in 0, which counts */
    size_t bytes;
    char *log; /* of malloc: what the compiler said, or NULL */
} GpuImage;
/* What follows the text of a program with gpu_images, for the C compiler. */
void codegen_gpu_images(Text *t, const GpuImage *images, int n);
/* The memory plan as a program prints it under --plan (mpc --plan); full: no list is folded. */
void codegen_plan(FILE *out, const Plan *plan, bool full);

/* The flags that every program takes: --name value. */
typedef struct ProgramFlag {
    const char *name, *value; /* value NULL: none; "[VALUE]": it may be left out */
    const char *meaning;
} ProgramFlag;
const ProgramFlag *codegen_flags(int *n);

#endif
