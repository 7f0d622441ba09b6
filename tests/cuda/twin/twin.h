/* twin.h: what runs a CUDA kernel's source on the CPU: one fiber a thread of the block, blocks one after the other.
 *
 * A kernel is compiled by the C compiler against the twin's device.cuh, whose primitives are the functions here.
 * Threads run until they wait for others; then the next one runs. Found are: threads that wait at different
 * barriers or collectives or leave while others wait, shared memory that is read before it is written (it holds
 * NaNs), results that depend on the order of threads and blocks. Not found: what only hardware does. */
#ifndef MPC_TWIN_H
#define MPC_TWIN_H

#include <stddef.h>
#include <stdint.h>

enum {
    TWIN_WARP = 32,
    TWIN_MAX_THREADS = 1024,
    TWIN_WORDS = 8,                  /* that a lane shows the others at a time */
    TWIN_DYNAMIC_SHARED = 227 * 1024 /* bytes, the most that a block of sm_90 gets */
};

/* The thread that runs. */
typedef struct TwinNow {
    unsigned thread, threads; /* number in the block; of the block */
    unsigned block[3], grid[3];
} TwinNow;
extern TwinNow twin_now;

/* Of the block that runs; poisoned before each. */
extern unsigned char twin_dynamic_shared[TWIN_DYNAMIC_SHARED];

/* __syncthreads(). `line` names the place: all threads must wait at the same one. */
void twin_barrier(int line);

/* All lanes of the warp meet: each shows n words, and sees those of the others until the meeting after next. */
typedef struct TwinWords {
    uint32_t word[TWIN_WORDS];
} TwinWords;
const TwinWords *twin_meet(const uint32_t *mine, int n, int line);

/* cp.async: 16 bytes to shared memory (zeros from NULL), which arrive when their group is waited for, not before. */
void twin_copy_async(void *shared, const void *from);
void twin_copy_commit(void);
void twin_copy_wait(int left); /* until all but the `left` newest groups of this thread are there */

/* What device.cuh makes of a kernel; its symbol is NAME_kernel_twin. */
typedef struct TwinKernel {
    void (*body)(const void *args);
    size_t args_bytes;
    int threads; /* the most that a block may have */
} TwinKernel;

/* Ends the program with the kernel, the block, the thread and what it did. */
_Noreturn void twin_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- for the stand-in of the driver ---- */

typedef enum TwinOrder { TWIN_forward, TWIN_reverse, TWIN_random } TwinOrder;

typedef struct TwinLaunch {
    const char *name;
    void (*body)(const void *args); /* of one thread */
    const void *args;
    unsigned grid[3], threads;
    unsigned char *shared, *shared_end; /* static shared variables of the module */
    size_t dynamic;                     /* bytes of dynamic shared memory */
    TwinOrder order;
} TwinLaunch;
void twin_launch(const TwinLaunch *launch);

#endif
