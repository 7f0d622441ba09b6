/* rt_events.c: writes TensorBoard's event files (rt_events.h says what they are made of).
 *
 *   Event    1 wall_time double   2 step int64   3 file_version string   5 summary   7 session_log
 *   Summary  1 value: 1 tag string   2 simple_value float
 *   SessionLog  1 status: 1 is START
 */
#include "rt_events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 12, TAIL = 4, NAMES_MOST = 1000 };
static const uint32_t crc_mask = 0xa282ead8;
enum { WIRE_varint, WIRE_64, WIRE_bytes, WIRE_32 = 5 };

/* ---- bytes ---- */

static void put(RtEvents *v, const void *bytes, size_t n)
{
    if (v->length + n > v->cap) {
        v->cap = (v->length + n) * 2;
        v->record = rt_grow(v->record, v->cap);
    }
    memcpy(v->record + v->length, bytes, n);
    v->length += n;
}

static void little(unsigned char *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> 8 * i);
}

static void put_little(RtEvents *v, uint64_t value, int bytes)
{
    unsigned char out[8];
    little(out, value, bytes);
    put(v, out, (size_t)bytes);
}

static int varint_bytes(uint64_t value)
{
    int n = 1;
    while (value >>= 7)
        n++;
    return n;
}

static void put_varint(RtEvents *v, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_little(v, (value & 0x7f) | 0x80, 1);
    put_little(v, value, 1);
}

static void put_key(RtEvents *v, int field, int wire)
{
    put_varint(v, (uint64_t)(field << 3 | wire));
}

static void put_double(RtEvents *v, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(v, field, WIRE_64);
    put_little(v, bits, 8);
}

/* ---- records ---- */

static void make_crc_table(uint32_t table[256])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0x82f63b78 : c >> 1;
        table[i] = c;
    }
}

static uint32_t masked_crc(const RtEvents *v, const unsigned char *bytes, size_t n)
{
    uint32_t c = UINT32_MAX;
    for (size_t i = 0; i < n; i++)
        c = v->crc[(c ^ bytes[i]) & 0xff] ^ c >> 8;
    c = ~c;
    return (c >> 15 | c << 17) + crc_mask;
}

static void begin(RtEvents *v)
{
    static const unsigned char frame[HEAD];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    v->length = 0;
    put(v, frame, HEAD);
    put_double(v, 1, (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
}

void rt_events_begin(RtEvents *v, int64_t step)
{
    begin(v);
    put_key(v, 2, WIRE_varint);
    put_varint(v, (uint64_t)step);
}

/* A Summary of one value; repeated ones are joined by whoever reads. */
void rt_events_scalar(RtEvents *v, const char *tag, double value)
{
    size_t length = strlen(tag);
    float number = (float)value;
    uint32_t bits;
    size_t inner = 1 + (size_t)varint_bytes(length) + length + 1 + 4;
    memcpy(&bits, &number, sizeof bits);
    put_key(v, 5, WIRE_bytes);
    put_varint(v, 1 + (uint64_t)varint_bytes(inner) + inner);
    put_key(v, 1, WIRE_bytes);
    put_varint(v, inner);
    put_key(v, 1, WIRE_bytes);
    put_varint(v, length);
    put(v, tag, length);
    put_key(v, 2, WIRE_32);
    put_little(v, bits, 4);
}

bool rt_events_write(RtEvents *v)
{
    size_t n = v->length - HEAD;
    little(v->record, n, 8);
    little(v->record + 8, masked_crc(v, v->record, 8), 4);
    put_little(v, masked_crc(v, v->record + HEAD, n), TAIL);
    return rt_write_all(v->fd, v->record, v->length);
}

/* ---- files ---- */

/* TensorBoard reads the files of a folder in the order of their names: by time. */
static int create(const char *folder)
{
    char host[256] = "";
    long long now = (long long)time(NULL);
    if (gethostname(host, sizeof host - 1) != 0 || !host[0] || strchr(host, '/'))
        strcpy(host, "localhost");
    for (int i = 0; i < NAMES_MOST; i++) {
        char *path = i ? rt_text("%s/events.out.tfevents.%010lld.%s.%d", folder, now, host, i)
                       : rt_text("%s/events.out.tfevents.%010lld.%s", folder, now, host);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
        int error = errno;
        free(path);
        errno = error;
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

bool rt_events_open(RtEvents *v, const char *folder, int64_t step, RtErr *e)
{
    static const char version[] = "brain.Event:2";
    *v = (RtEvents){.fd = create(folder)};
    if (v->fd < 0)
        return rt_err_errno(e, "cannot write an event file into '%s'", folder);
    make_crc_table(v->crc);
    begin(v);
    put_key(v, 3, WIRE_bytes);
    put_varint(v, sizeof version - 1);
    put(v, version, sizeof version - 1);
    bool ok = rt_events_write(v);
    rt_events_begin(v, step);
    put_key(v, 7, WIRE_bytes);
    put_varint(v, 2);
    put_key(v, 1, WIRE_varint);
    put_varint(v, 1);
    ok = ok && rt_events_write(v);
    return ok || rt_err_errno(e, "cannot write an event file into '%s'", folder);
}

void rt_events_close(RtEvents *v)
{
    if (v->fd >= 0)
        close(v->fd);
    free(v->record);
    *v = (RtEvents){.fd = -1};
}
