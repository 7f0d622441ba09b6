/* twin_driver.c: a stand-in for libcuda.so.1 that runs kernels on the CPU.
 *
 * It has what runtime/cuda_api.def lists. A module is the shared object that the stand-in for NVRTC (twin_nvrtc.c) made of
 * a program's kernels; streams run at once, graphs are lists of what was captured. Wrong use is an error that the
 * real driver would give, or ends the program: launches with more threads or shared memory than there may be, copies
 * outside of an allocation. The environment says what GPU it plays:
 *
 *     TWIN_DEVICES=N         GPUs that it finds (1)
 *     TWIN_ARCH=sm_90        compute capability (sm_80)
 *     TWIN_MEMORY=BYTES      memory of each (1 GiB)
 *     TWIN_ORDER=reverse     order of threads and blocks: forward, reverse or random
 *     TWIN_LACKS=cuXyz       a function that it does not have
 *     TWIN_FAIL=cuXyz:N[:E]  call number N of that function fails with error E (700)
 *     TWIN_COUNTS=FILE       how often each function was called, written at the end
 */
#include "rt_cuda.h"
#include "twin.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    INVALID_VALUE = 1,
    INVALID_IMAGE = 200,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    INVALID_CAPTURE = 901,
    MOST_STATIC_SHARED = 48 << 10
};

/* ---- counting and failing -------------------------------------------------------------------------- */

typedef enum Call {
#define CUDA_CALL(symbol, version, arguments) CALL_##symbol,
#include "cuda_api.def"
    CALL_COUNT
} Call;

static const char *const call_name[CALL_COUNT] = {
#define CUDA_CALL(symbol, version, arguments) [CALL_##symbol] = #symbol,
#include "cuda_api.def"
};

static long calls[CALL_COUNT];
static long launched; /* kernels, those of graphs included */

static void write_counts(void)
{
    const char *path = getenv("TWIN_COUNTS");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f)
        return;
    for (int i = 0; i < CALL_COUNT; i++)
        fprintf(f, "%s %ld\n", call_name[i], calls[i]);
    fprintf(f, "kernels %ld\n", launched);
    fclose(f);
}

/* Takes a call down; the error that it is to give, or CUDA_SUCCESS. */
static CUresult begin(Call call)
{
    const char *fault = getenv("TWIN_FAIL");
    size_t n = strlen(call_name[call]);
    calls[call]++;
    if (!fault || strncmp(fault, call_name[call], n) || fault[n] != ':')
        return CUDA_SUCCESS;
    char *end;
    long at = strtol(fault + n + 1, &end, 10);
    CUresult error = *end == ':' ? (CUresult)strtol(end + 1, NULL, 10) : ILLEGAL_ADDRESS;
    return at == calls[call] ? error : CUDA_SUCCESS;
}

#define BEGIN(name)                                                                                \
    do {                                                                                           \
        CUresult fault_ = begin(CALL_##name);                                                      \
        if (fault_ != CUDA_SUCCESS)                                                                \
            return fault_;                                                                         \
    } while (0)

/* ---- devices --------------------------------------------------------------------------------------- */

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && text[0] ? strtol(text, NULL, 10) : otherwise;
}

static CUresult cuInit(unsigned flags)
{
    BEGIN(cuInit);
    static bool begun;
    if (!begun)
        atexit(write_counts);
    begun = true;
    return flags == 0 ? CUDA_SUCCESS : INVALID_VALUE;
}

static CUresult cuGetErrorString(CUresult error, const char **text)
{
    static char other[64];
    BEGIN(cuGetErrorString);
    snprintf(other, sizeof other, "error %d of the stand-in", error);
    *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory"
            : error == ILLEGAL_ADDRESS        ? "an illegal memory access was encountered"
                                              : other;
    return CUDA_SUCCESS;
}

static CUresult cuDeviceGetCount(int *count)
{
    BEGIN(cuDeviceGetCount);
    *count = (int)number("TWIN_DEVICES", 1);
    return CUDA_SUCCESS;
}

static CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    BEGIN(cuDeviceGet);
    *device = ordinal;
    return ordinal < number("TWIN_DEVICES", 1) ? CUDA_SUCCESS : INVALID_VALUE;
}

static CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    BEGIN(cuDeviceGetName);
    snprintf(name, (size_t)size, "stand-in %d", device);
    return CUDA_SUCCESS;
}

static CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    const char *arch = getenv("TWIN_ARCH");
    long sm = arch && !strncmp(arch, "sm_", 3) ? strtol(arch + 3, NULL, 10) : 80;
    BEGIN(cuDeviceGetAttribute);
    (void)device;
    if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        *value = (int)(sm / 10);
    else if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        *value = (int)(sm % 10);
    else
        return INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    static char contexts[64];
    BEGIN(cuDevicePrimaryCtxRetain);
    *context = (CUcontext)(void *)&contexts[device];
    return CUDA_SUCCESS;
}

static CUresult cuCtxSetCurrent(CUcontext context)
{
    BEGIN(cuCtxSetCurrent);
    return context ? CUDA_SUCCESS : INVALID_VALUE;
}

/* ---- memory ---------------------------------------------------------------------------------------- */

typedef struct Memory {
    unsigned char *at;
    size_t bytes;
} Memory;

static Memory memories[256];
static int n_memories;
static size_t used;

static size_t memory_size(void)
{
    return (size_t)number("TWIN_MEMORY", 1L << 30);
}

/* All bits set: NaN in every float type. */
static unsigned char *new_memory(size_t bytes)
{
    unsigned char *p =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || n_memories == (int)(sizeof memories / sizeof *memories))
        return NULL;
    memset(p, 0xff, bytes);
    memories[n_memories++] = (Memory){p, bytes};
    return p;
}

static bool on_gpu(CUdeviceptr at, size_t bytes)
{
    for (int i = 0; i < n_memories; i++) {
        size_t from = (size_t)at - (size_t)memories[i].at;
        if (from <= memories[i].bytes && bytes <= memories[i].bytes - from)
            return true;
    }
    fprintf(stderr, "twin: a copy of %zu bytes is outside of every allocation\n", bytes);
    abort();
}

static CUresult cuMemGetInfo(size_t *free_bytes, size_t *total)
{
    BEGIN(cuMemGetInfo);
    *total = memory_size();
    *free_bytes = *total - used;
    return CUDA_SUCCESS;
}

static CUresult cuMemAlloc(CUdeviceptr *memory, size_t bytes)
{
    BEGIN(cuMemAlloc);
    if (bytes == 0)
        return INVALID_VALUE;
    unsigned char *p = used + bytes <= memory_size() ? new_memory(bytes) : NULL;
    used += p ? bytes : 0;
    *memory = (CUdeviceptr)(size_t)p;
    return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    BEGIN(cuMemHostAlloc);
    *memory = bytes > 0 && flags == 0 ? aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : NULL;
    if (*memory)
        memset(*memory, 0xff, bytes);
    return *memory ? CUDA_SUCCESS : INVALID_VALUE;
}

static CUresult cuMemHostRegister(void *memory, size_t bytes, unsigned flags)
{
    BEGIN(cuMemHostRegister);
    bool pages = (size_t)memory % 4096 == 0 && bytes % 4096 == 0;
    return pages && bytes > 0 && flags == 0 ? CUDA_SUCCESS : INVALID_VALUE;
}

static void *host(CUdeviceptr at)
{
    return (void *)(size_t)at;
}

static CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    BEGIN(cuMemcpyHtoD);
    if (on_gpu(to, bytes))
        memcpy(host(to), from, bytes);
    return CUDA_SUCCESS;
}

static CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    BEGIN(cuMemcpyDtoH);
    if (on_gpu(from, bytes))
        memcpy(to, host(from), bytes);
    return CUDA_SUCCESS;
}

static CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t bytes)
{
    BEGIN(cuMemsetD8);
    if (on_gpu(to, bytes))
        memset(host(to), value, bytes);
    return CUDA_SUCCESS;
}

/* ---- modules --------------------------------------------------------------------------------------- */

struct CUmod_st {
    void *library;
    unsigned char *shared, *shared_end;
};

struct CUfunc_st {
    CUmodule module;
    const TwinKernel *kernel;
    char name[256];
    int most_shared;
};

/* The kernels call twin_barrier and the like, which are here. */
static void show_symbols(void)
{
    Dl_info me;
    if (dladdr((void *)(size_t)&twin_barrier, &me) != 0)
        dlopen(me.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

/* The size of a shared object: where its table of sections ends. */
static size_t object_bytes(const unsigned char *elf)
{
    uint64_t sections;
    uint16_t each, n;
    memcpy(&sections, elf + 40, sizeof sections);
    memcpy(&each, elf + 58, sizeof each);
    memcpy(&n, elf + 60, sizeof n);
    return (size_t)sections + (size_t)each * n;
}

static CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    BEGIN(cuModuleLoadData);
    if (memcmp(image, "\177ELF", 4) != 0)
        return INVALID_IMAGE;
    int fd = memfd_create("kernels", 0);
    size_t bytes = object_bytes(image);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || write(fd, image, bytes) != (ssize_t)bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    show_symbols();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    close(fd);
    if (!library) {
        fprintf(stderr, "twin: %s\n", dlerror());
        return INVALID_IMAGE;
    }
    unsigned char *const *shared = dlsym(library, "twin_shared");
    *module = calloc(1, sizeof **module);
    (*module)->library = library;
    (*module)->shared = shared ? shared[0] : NULL;
    (*module)->shared_end = shared ? shared[1] : NULL;
    return CUDA_SUCCESS;
}

static CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    char symbol[300];
    BEGIN(cuModuleGetFunction);
    snprintf(symbol, sizeof symbol, "%s_twin", name);
    const TwinKernel *kernel = dlsym(module->library, symbol);
    if (!kernel)
        return NOT_FOUND;
    *function = calloc(1, sizeof **function);
    (*function)->module = module;
    (*function)->kernel = kernel;
    (*function)->most_shared = MOST_STATIC_SHARED;
    snprintf((*function)->name, sizeof(*function)->name, "%s", name);
    return CUDA_SUCCESS;
}

static CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    BEGIN(cuFuncSetAttribute);
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > TWIN_DYNAMIC_SHARED)
        return INVALID_VALUE;
    function->most_shared = value;
    return CUDA_SUCCESS;
}

/* ---- streams and graphs ---------------------------------------------------------------------------- */

typedef enum WorkKind { WORK_kernel, WORK_copy } WorkKind;

typedef struct Work {
    WorkKind kind;
    CUfunction function;
    unsigned grid[3], threads;
    size_t shared;
    unsigned char *args; /* a copy */
    void *to;
    const void *from;
    size_t bytes;
} Work;

struct CUgraph_st {
    Work *work;
    int n, cap;
};

struct CUgraphExec_st {
    CUgraph graph;
};

struct CUstream_st {
    CUgraph captured; /* NULL: works at once */
};

struct CUevent_st {
    int unused;
};

static TwinOrder order(void)
{
    const char *text = getenv("TWIN_ORDER");
    return !text || !text[0]          ? TWIN_forward
           : !strcmp(text, "reverse") ? TWIN_reverse
           : !strcmp(text, "random")  ? TWIN_random
                                      : TWIN_forward;
}

static void do_work(const Work *w)
{
    if (w->kind == WORK_copy) {
        memcpy(w->to, w->from, w->bytes);
        return;
    }
    const CUfunction f = w->function;
    TwinLaunch launch = {.name = f->name,
                         .body = f->kernel->body,
                         .args = w->args,
                         .grid = {w->grid[0], w->grid[1], w->grid[2]},
                         .threads = w->threads,
                         .shared = f->module->shared,
                         .shared_end = f->module->shared_end,
                         .dynamic = w->shared,
                         .order = order()};
    launched++;
    twin_launch(&launch);
}

static void submit(CUstream stream, const Work *w)
{
    CUgraph g = stream ? stream->captured : NULL;
    if (!g) {
        do_work(w);
        return;
    }
    if (g->n == g->cap) {
        g->cap = 2 * g->cap + 16;
        g->work = realloc(g->work, (size_t)g->cap * sizeof *g->work);
    }
    g->work[g->n++] = *w;
}

static CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    BEGIN(cuMemcpyHtoDAsync);
    if (on_gpu(to, bytes))
        submit(stream, &(Work){.kind = WORK_copy, .to = host(to), .from = from, .bytes = bytes});
    return CUDA_SUCCESS;
}

static CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    BEGIN(cuMemcpyDtoHAsync);
    if (on_gpu(from, bytes))
        submit(stream, &(Work){.kind = WORK_copy, .to = to, .from = host(from), .bytes = bytes});
    return CUDA_SUCCESS;
}

static CUresult cuLaunchKernel(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z,
                               unsigned shared_bytes, CUstream stream, void **parameters,
                               void **extra)
{
    BEGIN(cuLaunchKernel);
    if (grid_x == 0 || grid_y == 0 || grid_z == 0 || grid_y > 65535 || grid_z > 65535 ||
        block_x == 0 || block_y != 1 || block_z != 1 || (int)block_x > f->kernel->threads ||
        (int)shared_bytes > f->most_shared || extra)
        return INVALID_VALUE;
    Work w = {.kind = WORK_kernel,
              .function = f,
              .grid = {grid_x, grid_y, grid_z},
              .threads = block_x,
              .shared = shared_bytes};
    w.args = malloc(f->kernel->args_bytes);
    memcpy(w.args, parameters[0], f->kernel->args_bytes);
    submit(stream, &w);
    if (!stream || !stream->captured)
        free(w.args);
    return CUDA_SUCCESS;
}

static CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    BEGIN(cuStreamCreate);
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    return CUDA_SUCCESS;
}

static CUresult cuStreamSynchronize(CUstream stream)
{
    BEGIN(cuStreamSynchronize);
    return stream->captured ? INVALID_CAPTURE : CUDA_SUCCESS;
}

static CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    BEGIN(cuStreamWaitEvent);
    return stream && event && flags == 0 ? CUDA_SUCCESS : INVALID_VALUE;
}

static CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    BEGIN(cuEventCreate);
    (void)flags;
    *event = calloc(1, sizeof **event);
    return CUDA_SUCCESS;
}

static CUresult cuEventRecord(CUevent event, CUstream stream)
{
    BEGIN(cuEventRecord);
    return event && stream ? CUDA_SUCCESS : INVALID_VALUE;
}

static CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    BEGIN(cuStreamBeginCapture);
    (void)mode;
    if (stream->captured)
        return INVALID_CAPTURE;
    stream->captured = calloc(1, sizeof *stream->captured);
    return CUDA_SUCCESS;
}

static CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    BEGIN(cuStreamEndCapture);
    *graph = stream->captured;
    stream->captured = NULL;
    return *graph ? CUDA_SUCCESS : INVALID_CAPTURE;
}

static CUresult cuGraphInstantiateWithFlags(CUgraphExec *instance, CUgraph graph,
                                            unsigned long long flags)
{
    BEGIN(cuGraphInstantiateWithFlags);
    *instance = calloc(1, sizeof **instance);
    (*instance)->graph = graph;
    return flags == 0 ? CUDA_SUCCESS : INVALID_VALUE;
}

static CUresult cuGraphLaunch(CUgraphExec instance, CUstream stream)
{
    BEGIN(cuGraphLaunch);
    for (int i = 0; i < instance->graph->n; i++)
        submit(stream, &instance->graph->work[i]);
    return CUDA_SUCCESS;
}

/* ---- the one symbol that a program asks for --------------------------------------------------------- */

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                             int *why);

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                             int *why)
{
    /* as the runtime declares them */
    static const RtCuda driver = {
#define CUDA_CALL(symbol, version, arguments) .symbol = symbol,
#include "cuda_api.def"
    };
    static const size_t place[CALL_COUNT] = {
#define CUDA_CALL(symbol, version, arguments) [CALL_##symbol] = offsetof(RtCuda, symbol),
#include "cuda_api.def"
    };
    static const int since[CALL_COUNT] = {
#define CUDA_CALL(symbol, version, arguments) [CALL_##symbol] = version,
#include "cuda_api.def"
    };
    const char *lacks = getenv("TWIN_LACKS");
    *why = 0;
    *function = NULL;
    for (int i = 0; i < CALL_COUNT; i++)
        if (!strcmp(symbol, call_name[i]) && version >= since[i] && flags == 0 &&
            !(lacks && !strcmp(lacks, symbol)))
            memcpy(function, (const char *)&driver + place[i], sizeof *function);
    return *function ? CUDA_SUCCESS : NOT_FOUND;
}
