/* rt_device.h: the GPU of a run, where it has one. A NULL device is the CPU: nothing happens, true is returned.
 *
 * One stream, one allocation. What the host has to see of the arena is copied to MpcRun.mirror and back; kernels
 * run in order, without the host waiting for them, until somebody reads what they made. */
#ifndef MPC_RT_DEVICE_H
#define MPC_RT_DEVICE_H

#include "abi/mpc_rt.h"
#include "rt_util.h"

typedef struct RtDevice RtDevice;

/* GPU number `ordinal` (-1: the first that will do) with memory for the arena and `batch_bytes` more. NULL: there is
 * none; e says why. */
RtDevice *rt_device_open(MpcRun *r, int ordinal, size_t batch_bytes, RtErr *e);
const char *rt_device_name(const RtDevice *d); /* "NVIDIA H200"; "" of the CPU */
const char *rt_device_log_name(const RtDevice *d, char text[RT_NUMBER_CHARS]); /* "cpu", "cuda:0" */
unsigned char *rt_device_arena(const RtDevice *d);

/* What a piece of so many bytes takes of the batch memory. */
static inline size_t rt_device_bytes(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}
/* Part of the batch memory; the caller asks for no more than it said. */
void *rt_device_take(RtDevice *d, size_t bytes);
/* Memory of the host that copies to the GPU come from, so that they run beside all else. */
void rt_device_pin(RtDevice *d, unsigned char *memory, size_t bytes);
/* Starts a copy; what was launched before still sees the old bytes, what is launched later the new ones. */
void rt_device_copy_in(RtDevice *d, void *to, const void *from, size_t bytes);

void rt_device_run(RtDevice *d, const MpcCall *calls, int n);
bool rt_device_graph_begin(RtDevice *d, int graph, const MpcBatch *batch);
void rt_device_graph_end(RtDevice *d, int graph);

/* Bytes of the arena, from the mirror and to it. The second waits for all that was launched. */
void rt_device_write(RtDevice *d, size_t offset, size_t bytes);
void rt_device_read(RtDevice *d, size_t offset, size_t bytes);

#endif
