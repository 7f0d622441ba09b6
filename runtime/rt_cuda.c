/* rt_cuda.c: opens the CUDA driver and takes its functions from it, each in the version that cuda_api.def names. */
#include "rt_cuda.h"

#include <dlfcn.h>
#include <stdlib.h>

/* cuGetProcAddress as of CUDA 11.3 and as of 12.0. */
typedef CUresult GetOld(const char *symbol, void **function, int version, uint64_t flags);
typedef CUresult GetNew(const char *symbol, void **function, int version, uint64_t flags, int *why);

typedef struct Driver {
    GetOld *get_old;
    GetNew *get_new;
} Driver;

/* A pointer to a function out of one to an object, as dlsym returns it. */
static void take(void *function, void *library, const char *name)
{
    *(void **)function = dlsym(library, name);
}

static void *find(const Driver *d, const char *symbol, int version)
{
    void *function = NULL;
    int why;
    CUresult got = d->get_new ? d->get_new(symbol, &function, version, 0, &why)
                              : d->get_old(symbol, &function, version, 0);
    return got == CUDA_SUCCESS ? function : NULL;
}

bool rt_cuda_open(RtCuda *cuda, RtErr *e)
{
    const char *path = getenv("MPC_CUDA_LIB");
    void *library = dlopen(path && path[0] ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    Driver d;
    if (!library)
        return rt_err(e, "there is no NVIDIA driver (%s)", dlerror());
    take(&d.get_new, library, "cuGetProcAddress_v2");
    take(&d.get_old, library, "cuGetProcAddress");
    if (!d.get_new && !d.get_old)
        return rt_err(e, "the NVIDIA driver is too old: CUDA 11.4 is the oldest that will do");
#define CUDA_CALL(symbol, version, arguments)                                                      \
    *(void **)(void *)&cuda->symbol = find(&d, #symbol, version);                                  \
    if (!cuda->symbol)                                                                             \
        return rt_err(e, "the NVIDIA driver is too old: it lacks %s", #symbol);
#include "cuda_api.def"
    return true;
}

const char *rt_cuda_text(const RtCuda *cuda, CUresult error)
{
    const char *text = NULL;
    if (cuda->cuGetErrorString(error, &text) != CUDA_SUCCESS || !text)
        text = "unknown error";
    return text;
}
