/* rt_safetensors.c: reads .safetensors files of any origin. Refused, with a reason: headers longer than the
 * file or 16 MiB, JSON that nests or repeats a key, unknown types, shapes that do not fit the bytes, ranges
 * that overlap, leave gaps or reach beyond the file. Writing: rt_safetensors_write.c.
 */
#include "rt_safetensors.h"
#include "abi/scalar.h"
#include "rt_data.h"
#include "rt_json_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_MOST = 16 << 20, PIECE = 1 << 16 };

static bool bad(const RtSafetensors *st, RtErr *e, const char *what)
{
    return rt_err(e, "'%s' is not a valid .safetensors file: %s", st->path, what);
}

static bool read_at(const RtSafetensors *st, void *out, size_t bytes, uint64_t at, RtErr *e)
{
    unsigned char *p = out;
    while (bytes) {
        ssize_t n = pread(st->fd, p, bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return rt_err_errno(e, "cannot read '%s'", st->path);
        if (n == 0)
            return bad(st, e, "it ends too soon");
        p += n;
        bytes -= (size_t)n;
        at += (uint64_t)n;
    }
    return true;
}

/* ---- header ---- */

static MpcDType dtype_of(const char *name)
{
    static const char *const names[MPC_DT_COUNT] = {
#define DTYPE(name, ctype, bytes, kind, st, doc) [MPC_DT_##name] = st,
#include "abi/dtypes.def"
    };
    for (int i = 1; i < MPC_DT_COUNT; i++)
        if (!strcmp(name, names[i]))
            return (MpcDType)i;
    return MPC_DT_none;
}

static bool bad_tensor(const RtSafetensors *st, const char *name, RtErr *e, const char *what)
{
    char text[64];
    size_t n = strnlen(name, sizeof text - 1);
    for (size_t i = 0; i < n; i++)
        text[i] = (unsigned char)name[i] < 0x20 ? '?' : name[i];
    text[n] = 0;
    return rt_err(e, "'%s' is not a valid .safetensors file: tensor '%s' %s", st->path, text, what);
}

static bool read_shape(const RtSafetensors *st, RtStored *t, const json_t *shape,
                       uint64_t *elements, RtErr *e)
{
    if (!json_is_array(shape))
        return bad_tensor(st, t->name, e, "has no shape");
    if (json_array_size(shape) > MPC_MAX_RANK)
        return bad_tensor(st, t->name, e, "has more than 8 dimensions");
    t->rank = (int)json_array_size(shape);
    *elements = 1;
    for (int i = 0; i < t->rank; i++) {
        const json_t *d = json_array_get(shape, (size_t)i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return bad_tensor(st, t->name, e, "has a dimension that is no natural number");
        t->dims[i] = json_integer_value(d);
        if (__builtin_mul_overflow(*elements, (uint64_t)t->dims[i], elements))
            return bad_tensor(st, t->name, e, "is absurdly large");
    }
    return true;
}

static bool read_entry(const RtSafetensors *st, RtStored *t, const json_t *entry,
                       uint64_t data_bytes, RtErr *e)
{
    const json_t *dtype = json_object_get(entry, "dtype"),
                 *range = json_object_get(entry, "data_offsets");
    uint64_t elements = 0;
    if (!json_is_string(dtype))
        return bad_tensor(st, t->name, e, "has no dtype");
    t->dtype = dtype_of(json_string_value(dtype));
    if (t->dtype == MPC_DT_none)
        return bad_tensor(st, t->name, e, "has a type that is not supported");
    if (!read_shape(st, t, json_object_get(entry, "shape"), &elements, e))
        return false;
    const json_t *begin = json_array_get(range, 0), *end = json_array_get(range, 1);
    if (!json_is_array(range) || json_array_size(range) != 2 || !json_is_integer(begin) ||
        !json_is_integer(end) || json_integer_value(begin) < 0 ||
        json_integer_value(end) < json_integer_value(begin))
        return bad_tensor(st, t->name, e, "has no valid data_offsets");
    t->begin = (uint64_t)json_integer_value(begin);
    t->end = (uint64_t)json_integer_value(end);
    if (t->end > data_bytes)
        return bad_tensor(st, t->name, e, "lies beyond the end of the file");
    uint64_t bytes;
    if (__builtin_mul_overflow(elements, (uint64_t)rt_dtype_bytes(t->dtype), &bytes) ||
        bytes != t->end - t->begin)
        return bad_tensor(st, t->name, e, "has data_offsets that do not fit its shape");
    return true;
}

static int by_begin(const void *a, const void *b)
{
    const RtStored *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* The data are exactly the tensors, one after the other. */
static bool check_ranges(const RtSafetensors *st, uint64_t data_bytes, RtErr *e)
{
    uint64_t at = 0;
    for (int i = 0; i < st->n; i++) {
        if (st->tensors[i].begin < at)
            return bad_tensor(st, st->tensors[i].name, e, "overlaps another one");
        if (st->tensors[i].begin > at)
            return bad_tensor(st, st->tensors[i].name, e, "leaves a gap before it");
        at = st->tensors[i].end;
    }
    if (at != data_bytes)
        return bad(st, e, "there are data that belong to no tensor");
    return true;
}

static bool read_entries(RtSafetensors *st, json_t *root, uint64_t data_bytes, RtErr *e)
{
    const char *name;
    json_t *entry;
    st->tensors = rt_alloc_zero(json_object_size(root), sizeof *st->tensors);
    json_object_foreach(root, name, entry)
    {
        if (!strcmp(name, "__metadata__"))
            continue;
        RtStored *t = &st->tensors[st->n++];
        t->name = rt_copy_text(name);
        if (!json_is_object(entry))
            return bad_tensor(st, name, e, "is no object");
        if (!read_entry(st, t, entry, data_bytes, e))
            return false;
    }
    qsort(st->tensors, (size_t)st->n, sizeof *st->tensors, by_begin);
    return check_ranges(st, data_bytes, e);
}

static bool read_header(RtSafetensors *st, uint64_t size, RtErr *e)
{
    unsigned char n8[8];
    uint64_t length = 0;
    if (size < 8)
        return bad(st, e, "it is shorter than 8 bytes");
    if (!read_at(st, n8, 8, 0, e))
        return false;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | n8[i];
    if (length > size - 8)
        return bad(st, e, "its header is longer than the file");
    if (length > HEADER_MOST)
        return bad(st, e, "its header is longer than 16 MiB");
    char *text = malloc((size_t)length + 1);
    if (!text)
        return rt_err(e, "'%s': not enough memory for its header", st->path);
    json_error_t error;
    json_t *root = NULL;
    bool ok = read_at(st, text, (size_t)length, 8, e);
    if (ok && !rt_json_modest(text, (size_t)length))
        ok = bad(st, e, "its header has too many parts or nests too deeply");
    if (ok && !(root = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error)))
        ok = rt_err(e, "'%s' is not a valid .safetensors file: its header is no valid JSON (%s)",
                    st->path, error.text);
    if (ok && !json_is_object(root))
        ok = bad(st, e, "its header is no JSON object");
    st->data = 8 + length;
    if (ok)
        ok = read_entries(st, root, size - 8 - length, e);
    json_decref(root);
    free(text);
    return ok;
}

bool rt_safetensors_open(RtSafetensors *st, const char *path, RtErr *e)
{
    struct stat info;
    *st = (RtSafetensors){.path = rt_copy_text(path), .fd = open(path, O_RDONLY | O_CLOEXEC)};
    bool ok = true;
    if (st->fd < 0 || fstat(st->fd, &info) != 0)
        ok = rt_err_errno(e, "cannot open '%s'", path);
    else if (!S_ISREG(info.st_mode))
        ok = rt_err(e, "'%s' is not a file", path);
    if (ok)
        ok = read_header(st, (uint64_t)info.st_size, e);
    if (!ok)
        rt_safetensors_close(st);
    return ok;
}

void rt_safetensors_close(RtSafetensors *st)
{
    for (int i = 0; i < st->n; i++)
        free(st->tensors[i].name);
    free(st->tensors);
    free(st->path);
    if (st->fd >= 0)
        close(st->fd);
    *st = (RtSafetensors){.fd = -1};
}

const RtStored *rt_safetensors_find(const RtSafetensors *st, const char *name)
{
    for (int i = 0; i < st->n; i++)
        if (!strcmp(st->tensors[i].name, name))
            return &st->tensors[i];
    return NULL;
}

/* ---- data ---- */

static double load(MpcDType dtype, const unsigned char *p, size_t i)
{
    float f32;
    double f64;
    uint16_t half = 0;
    if (rt_dtype_bytes(dtype) == 2)
        memcpy(&half, p + 2 * i, sizeof half);
    switch (dtype) {
    case MPC_DT_f64: memcpy(&f64, p + 8 * i, sizeof f64); return f64;
    case MPC_DT_f32: memcpy(&f32, p + 4 * i, sizeof f32); return (double)f32;
    case MPC_DT_f16: return (double)mpc_f16_to_f32(half);
    default: return (double)mpc_bf16_to_f32(half);
    }
}

static void store(MpcDType dtype, unsigned char *p, size_t i, double v)
{
    float f32 = (float)v;
    uint16_t half;
    switch (dtype) {
    case MPC_DT_f64: memcpy(p + 8 * i, &v, sizeof v); return;
    case MPC_DT_f32: memcpy(p + 4 * i, &f32, sizeof f32); return;
    case MPC_DT_f16: half = mpc_f64_to_f16(v); break;
    default: half = mpc_f64_to_bf16(v); break;
    }
    memcpy(p + 2 * i, &half, sizeof half);
}

static bool converts(MpcDType dtype)
{
    return dtype == MPC_DT_f64 || dtype == MPC_DT_f32 || dtype == MPC_DT_f16 ||
           dtype == MPC_DT_bf16;
}

bool rt_safetensors_read(const RtSafetensors *st, const RtStored *t, MpcDType dtype, void *out,
                         RtErr *e)
{
    if (t->dtype == dtype)
        return read_at(st, out, (size_t)(t->end - t->begin), st->data + t->begin, e);
    if (!converts(t->dtype) || !converts(dtype))
        return rt_err(e, "'%s': '%s' is stored as %s and cannot become %s", st->path, t->name,
                      rt_dtype_name(t->dtype), rt_dtype_name(dtype));
    unsigned char piece[PIECE];
    size_t from = rt_dtype_bytes(t->dtype), each = PIECE / from, done = 0;
    size_t total = (size_t)(t->end - t->begin) / from;
    while (done < total) {
        size_t n = total - done < each ? total - done : each;
        if (!read_at(st, piece, n * from, st->data + t->begin + done * from, e))
            return false;
        for (size_t i = 0; i < n; i++)
            store(dtype, out, done + i, load(t->dtype, piece, i));
        done += n;
    }
    return true;
}
