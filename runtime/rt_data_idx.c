/* rt_data_idx.c: the IDX format of the MNIST family. Big-endian: two zero bytes, type of element, number of
 * axes, a 32-bit size for each axis, the elements. Nothing is allocated before the header has been compared
 * with the declaration and the size of the file. */
#include "rt_data.h"

#include <stdlib.h>
#include <string.h>

enum { DEFLATE_MOST = 1032 }; /* bytes that one packed byte can stand for, at most */

typedef struct IdxHeader {
    MpcDType dtype;
    int axes;
    int64_t dims[MPC_MAX_RANK + 1];
} IdxHeader;

static MpcDType type_of_code(unsigned code)
{
    switch (code) {
    case 0x08: return MPC_DT_u8;
    case 0x09: return MPC_DT_i8;
    case 0x0c: return MPC_DT_i32;
    case 0x0d: return MPC_DT_f32;
    case 0x0e: return MPC_DT_f64;
    }
    return MPC_DT_none;
}

static bool read_header(RtStream *s, IdxHeader *h, RtErr *e)
{
    unsigned char b[4 * (MPC_MAX_RANK + 1)];
    size_t got;
    if (!rt_stream_read(s, b, 4, &got, e))
        return false;
    if (got == 0)
        return rt_err(e, "'%s' is empty", s->path);
    if (got < 4)
        return rt_err(e, "'%s' is too short for an IDX file: it ends after %zu bytes", s->path,
                      got);
    h->dtype = b[0] || b[1] ? MPC_DT_none : type_of_code(b[2]);
    h->axes = b[3];
    if (h->dtype == MPC_DT_none || h->axes < 1 || h->axes > MPC_MAX_RANK + 1) {
        rt_err(e, "'%s' is not an IDX file: wrong magic number 0x%02x%02x%02x%02x", s->path, b[0],
               b[1], b[2], b[3]);
        rt_hint(e, "IDX files begin with 00 00, the type (08 for bytes) and the number of axes");
        return false;
    }
    size_t bytes = 4 * (size_t)h->axes;
    if (!rt_stream_read(s, b, bytes, &got, e))
        return false;
    if (got < bytes)
        return rt_err(e, "'%s' ends within its IDX header", s->path);
    for (int i = 0; i < h->axes; i++)
        h->dims[i] =
            (int64_t)b[4 * i] << 24 | b[4 * i + 1] << 16 | b[4 * i + 2] << 8 | b[4 * i + 3];
    return true;
}

static bool fits_field(const RtStream *s, const IdxHeader *h, const MpcField *f, RtErr *e)
{
    char want[128], have[128];
    if (h->dtype != f->dtype) {
        rt_err(e, "'%s' holds elements of type %s, but %s is declared as %s", s->path,
               rt_dtype_name(h->dtype), f->name, rt_dtype_name(f->dtype));
        rt_hint(e, "declare it as the file has it and convert it in the `batch of` block");
        return false;
    }
    bool same = h->axes == f->rank + 1;
    for (int i = 0; same && i < f->rank; i++)
        same = h->dims[i + 1] == f->dims[i];
    if (same)
        return true;
    return rt_err(e, "'%s' has %d axes, %s; %s is declared as %s%s for each sample", s->path,
                  h->axes, rt_dims_text(have, sizeof have, h->axes, h->dims), f->name,
                  rt_dtype_name(f->dtype), rt_dims_text(want, sizeof want, f->rank, f->dims));
}

/* The elements in bytes; refuses sizes that the file cannot hold. */
static bool data_bytes(const RtStream *s, const IdxHeader *h, size_t *bytes, RtErr *e)
{
    char text[128];
    uint64_t n = rt_dtype_bytes(h->dtype), most = s->packed ? s->size * DEFLATE_MOST : s->size;
    bool fits = true;
    for (int i = 0; i < h->axes; i++)
        fits = fits && !__builtin_mul_overflow(n, (uint64_t)h->dims[i], &n);
    if (!fits || n > most)
        return rt_err(e,
                      "'%s' is too short: its header announces %s elements, more than its %llu "
                      "bytes can hold",
                      s->path, rt_dims_text(text, sizeof text, h->axes, h->dims),
                      (unsigned long long)s->size);
    if (n == 0)
        return rt_err(e, "'%s' is empty: it holds no samples", s->path);
    *bytes = (size_t)n;
    return true;
}

static bool read_field(RtTable *t, int field, RtStream *s, RtErr *e)
{
    const MpcField *f = &t->decl->fields[field];
    IdxHeader h;
    size_t bytes, got, more;
    unsigned char extra;
    if (!read_header(s, &h, e) || !fits_field(s, &h, f, e) || !data_bytes(s, &h, &bytes, e))
        return false;
    if (field && h.dims[0] != t->rows)
        return rt_err(e, "'%s' holds %lld samples, but '%s' holds %lld", s->path,
                      (long long)h.dims[0], t->files[0], (long long)t->rows);
    t->rows = h.dims[0];
    t->column[field] = malloc(bytes);
    if (!t->column[field])
        return rt_err(e, "'%s': not enough memory for its %zu bytes", s->path, bytes);
    if (!rt_stream_read(s, t->column[field], bytes, &got, e))
        return false;
    if (got < bytes)
        return rt_err(
            e, "'%s' is too short: its header announces %zu bytes of data, it ends after %zu",
            s->path, bytes, got);
    if (!rt_stream_read(s, &extra, 1, &more, e))
        return false;
    if (more)
        return rt_err(e,
                      "'%s' is longer than its header says: there is more after %zu bytes of data",
                      s->path, bytes);
    rt_bytes_to_native(t->column[field], bytes, rt_dtype_bytes(h.dtype), true);
    return rt_values_fit(s->path, f, t->column[field], 0, t->rows, e);
}

bool rt_table_read_idx(RtTable *t, RtErr *e)
{
    for (int i = 0; i < t->decl->n_fields; i++) {
        RtStream s;
        if (!rt_stream_open(&s, t->files[i], e))
            return false;
        bool ok = read_field(t, i, &s, e);
        rt_stream_close(&s);
        if (!ok)
            return false;
    }
    return true;
}

bool rt_idx_bytes(const char *path, size_t *bytes, RtErr *e)
{
    RtStream s;
    IdxHeader h;
    if (!rt_stream_open(&s, path, e))
        return false;
    bool ok = read_header(&s, &h, e) && data_bytes(&s, &h, bytes, e);
    rt_stream_close(&s);
    return ok;
}
