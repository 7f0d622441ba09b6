/* nvrtc.h: NVIDIA's run-time compiler, opened with dlopen: from the text of kernels to code for GPUs. mpc is never
 * linked with it; nothing of it is needed for programs that run on the CPU. */
#ifndef MPC_DRIVER_NVRTC_H
#define MPC_DRIVER_NVRTC_H

#include <stdbool.h>
#include <stddef.h>

#include "codegen/codegen.h"
#include "ir/base/arena.h"

/* Architectures that kernels can be made for, oldest first. */
typedef struct GpuArch {
    const char *name; /* "sm_90" */
    int number;       /* 90 */
    const char *what; /* "H100, H200" */
} GpuArch;
extern const GpuArch gpu_archs[];
extern const int gpu_narchs;

typedef struct Nvrtc Nvrtc;

/* NULL after a message that says how to get it. */
Nvrtc *nvrtc_open(Arena *a);
const char *nvrtc_version(const Nvrtc *n);  /* "13.0" */
const char *nvrtc_identity(const Nvrtc *n); /* version and file: another one may give other code */

/* Compiles `text` for each of n images, several at a time; with `figures` their logs tell registers and memory of every
 * kernel. include: the folder that has cuda/prelude.cuh. False after
 * a message. */
bool nvrtc_compile(const Nvrtc *n, const char *text, const char *name, const char *include,
                   bool figures, GpuImage *images, int count);

#endif
