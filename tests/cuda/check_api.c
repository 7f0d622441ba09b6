/* check_api.c: compiled where cuda.h is installed, never run: every line of cuda_api.def has exactly the type that
 * cuda.h declares, and the constants of rt_cuda.h have its values. */
#include <cuda.h>

#define RT_CUDA_DRIVER(symbol, version, arguments) CUresult(*symbol##_) arguments;
typedef struct Declared {
#define CUDA_CALL(symbol, version, arguments) RT_CUDA_DRIVER(symbol, version, arguments)
#include "cuda_api.def"
} Declared;

#define SAME(name, value) _Static_assert((int)(name) == (value), #name)
SAME(CUDA_SUCCESS, 0);
SAME(CUDA_ERROR_OUT_OF_MEMORY, 2);
SAME(CUDA_ERROR_NO_DEVICE, 100);
SAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222);
SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75);
SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76);
SAME(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8);
SAME(CU_STREAM_NON_BLOCKING, 1);
SAME(CU_EVENT_DISABLE_TIMING, 2);
SAME(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1);
_Static_assert(sizeof(CUresult) == 4 && sizeof(CUdevice) == 4 && sizeof(CUdeviceptr) == 8, "sizes");

int main(void)
{
    const Declared driver = {
#define CUDA_CALL(symbol, version, arguments) symbol,
#include "cuda_api.def"
    };
    return sizeof driver == 0;
}
