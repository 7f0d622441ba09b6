/* rt_cuda.h: the CUDA driver, opened when a program starts and never linked.
 *
 * $MPC_CUDA_LIB, or libcuda.so.1 as the system finds it. cuda_api.def lists what is called of it. */
#ifndef MPC_RT_CUDA_H
#define MPC_RT_CUDA_H

#include "rt_util.h"

/* As in cuda.h, which is not needed for them. */
#ifndef CUDA_VERSION
typedef int CUresult;
typedef int CUdevice;
typedef int CUdevice_attribute;
typedef int CUfunction_attribute;
typedef int CUstreamCaptureMode;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1
};
#endif

typedef struct RtCuda {
#define CUDA_CALL(symbol, version, arguments) CUresult(*symbol) arguments;
#include "cuda_api.def"
} RtCuda;

/* False: there is no driver, or one that lacks a function; e says which, as the end of a sentence. */
bool rt_cuda_open(RtCuda *cuda, RtErr *e);
/* What the driver says of an error; never NULL. */
const char *rt_cuda_text(const RtCuda *cuda, CUresult error);

#endif
