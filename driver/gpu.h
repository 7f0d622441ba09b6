/* gpu.h: the kernels of a program compiled for GPUs, by NVRTC or from the cache. */
#ifndef MPC_DRIVER_GPU_H
#define MPC_DRIVER_GPU_H

#include "driver/nvrtc.h"

/* Fills the images, whose arch and ptx say what for, with the code of `text`. lib: the folder with include/. False
 * after a message. */
bool gpu_compile(Arena *a, const Nvrtc *n, const char *text, const char *name, const char *lib,
                 GpuImage *images, int count);

#endif
