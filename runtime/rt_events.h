/* rt_events.h: event files as TensorBoard reads them, scalars only. Knows nothing of a run.
 *
 * A file is a row of records: length (u64), masked CRC-32C of it, the bytes of one Event, masked CRC-32C of
 * them; all little-endian. An Event is a protocol buffer; the few fields that are used stand in rt_events.c. */
#ifndef MPC_RT_EVENTS_H
#define MPC_RT_EVENTS_H

#include "rt_util.h"

typedef struct RtEvents {
    int fd;
    uint32_t crc[256];
    unsigned char *record; /* with its frame */
    size_t length, cap;
} RtEvents;

/* A new file in the folder, that says: what older files there tell of steps from `step` on no longer holds. */
bool rt_events_open(RtEvents *v, const char *folder, int64_t step, RtErr *e);
void rt_events_close(RtEvents *v);

/* One Event: begin, any number of scalars, write. False: errno says why. */
void rt_events_begin(RtEvents *v, int64_t step);
void rt_events_scalar(RtEvents *v, const char *tag, double value);
bool rt_events_write(RtEvents *v);

#endif
