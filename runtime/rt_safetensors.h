/* rt_safetensors.h: the .safetensors format: a JSON header of names, types, shapes and places, then the data.
 * The reader trusts nothing in the file; the writer's file is complete or absent. */
#ifndef MPC_RT_SAFETENSORS_H
#define MPC_RT_SAFETENSORS_H

#include "abi/mpc_rt.h"
#include "rt_util.h"

typedef struct RtStored {
    char *name;
    MpcDType dtype;
    int rank;
    int64_t dims[MPC_MAX_RANK];
    uint64_t begin, end; /* from the first byte of the data */
} RtStored;

typedef struct RtSafetensors {
    char *path;
    int fd;
    uint64_t data; /* where the data begin in the file */
    RtStored *tensors;
    int n;
} RtSafetensors;

bool rt_safetensors_open(RtSafetensors *st, const char *path, RtErr *e);
void rt_safetensors_close(RtSafetensors *st);
const RtStored *rt_safetensors_find(const RtSafetensors *st, const char *name);

/* Reads a tensor and converts it to `dtype`. Floats to floats and equal types only. */
bool rt_safetensors_read(const RtSafetensors *st, const RtStored *t, MpcDType dtype, void *out,
                         RtErr *e);

/* One tensor to be written: floats become f32, other types stay as they are. */
typedef struct RtSaved {
    const char *name;
    MpcDType dtype;
    int rank;
    const int64_t *dims;
    const void *data;
} RtSaved;
bool rt_safetensors_write(const char *path, const RtSaved *tensors, int n, RtErr *e);
/* The same with every type as it is: a checkpoint's. */
bool rt_safetensors_write_exact(const char *path, const RtSaved *tensors, int n, RtErr *e);

#endif
