/* rt_loader.h: the part of a loader that does not need a run, so that it can be tested alone. */
#ifndef MPC_RT_LOADER_H
#define MPC_RT_LOADER_H

#include "abi/mpc_rt.h"
#include "rt_data.h"
#include "rt_device.h"

/* Does a thread make the next batch while one is in use? auto: where it is worth it. */
typedef enum RtPrefetch { RT_PREFETCH_never, RT_PREFETCH_auto, RT_PREFETCH_always } RtPrefetch;

/* memory: rt_loader_bytes(), aligned to 64. run may be NULL. device: where the batches handed out lie; NULL: in the host's memory. */
MpcLoader *rt_loader_new(const MpcLoaderDecl *decl, const RtSet *set, int64_t batch_size,
                         uint64_t seed, RtPrefetch prefetch, unsigned char *memory, MpcRun *run,
                         RtDevice *device, RtErr *e);
void rt_loader_free(MpcLoader *l);
const MpcLoaderDecl *rt_loader_decl(const MpcLoader *l);
int64_t rt_loader_pass(const MpcLoader *l);    /* the current or last one, from 0 */
int64_t rt_loader_samples(const MpcLoader *l); /* of a pass */
/* Where a pass stands, as a checkpoint keeps it. */
typedef struct RtCursor {
    int64_t batch_size;
    int64_t pass;  /* the current or last one; -1 before the first */
    int64_t taken; /* batches of it that were handed out */
    bool in_pass;
    int place; /* of the loop, where in_pass */
} RtCursor;
RtCursor rt_loader_cursor(const MpcLoader *l);
/* Goes there without reading what lies before it: the order is a function of the pass's number. */
void rt_loader_seek(MpcLoader *l, const RtCursor *c);
/* Bytes of its buffers, which are not its own. */
size_t rt_loader_bytes(const MpcLoaderDecl *decl, const MpcField *fields, int n_fields);
/* The same on a GPU. */
size_t rt_loader_device_bytes(const MpcLoaderDecl *decl, const MpcField *fields, int n_fields);

#endif
