/* rt_data_bin.c: files of records of one size, as CIFAR-10 has them: every record holds the fields one after
 * the other, without gaps, little-endian; there is no header. So nothing but the size of a file can tell that
 * it is another one: a file that is no whole number of records is refused. Several files follow each other. */
#include "rt_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_RECORDS = 256, FIRST_ROWS = 4096 };

static size_t record_bytes(const MpcData *decl)
{
    size_t bytes = 0;
    for (int i = 0; i < decl->n_fields; i++)
        bytes += rt_field_bytes(&decl->fields[i]);
    return bytes;
}

/* "1 + 3072" */
static const char *sum_text(char *text, size_t size, const MpcData *decl)
{
    size_t used = 0;
    for (int i = 0; i < decl->n_fields && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%zu", i ? " + " : "",
                                 rt_field_bytes(&decl->fields[i]));
    return text;
}

static bool whole_records(const MpcData *decl, const char *path, uint64_t bytes, RtErr *e)
{
    char sum[256];
    size_t record = record_bytes(decl);
    if (bytes == 0)
        return rt_err(e, "'%s' is empty: it holds no records", path);
    if (bytes % record == 0)
        return true;
    rt_err(e, "'%s' has %llu bytes, which are no whole number of records of %zu bytes", path,
           (unsigned long long)bytes, record);
    rt_hint(e, "%llu records take %llu bytes; a record holds the fields of %s: %s",
            (unsigned long long)(bytes / record), (unsigned long long)(bytes / record * record),
            decl->name, sum_text(sum, sizeof sum, decl));
    return false;
}

static bool resize(RtTable *t, int64_t rows, RtErr *e)
{
    for (int i = 0; i < t->decl->n_fields; i++) {
        unsigned char *p = realloc(t->column[i], (size_t)rows * t->stride[i]);
        if (!p)
            return rt_err(e, "'%s': not enough memory for %lld records", t->files[0],
                          (long long)rows);
        t->column[i] = p;
    }
    return true;
}

/* Takes records apart; there is room for them. */
static void store_records(RtTable *t, const unsigned char *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++, t->rows++)
        for (int f = 0; f < t->decl->n_fields; f++) {
            unsigned char *to = t->column[f] + (size_t)t->rows * t->stride[f];
            memcpy(to, from, t->stride[f]);
            rt_bytes_to_native(to, t->stride[f], rt_dtype_bytes(t->decl->fields[f].dtype), false);
            from += t->stride[f];
        }
}

static bool read_file(RtTable *t, RtStream *s, unsigned char *piece, int64_t *room, RtErr *e)
{
    size_t record = record_bytes(t->decl), got = PIECE_RECORDS * record;
    int64_t first = t->rows;
    uint64_t bytes = 0;
    /* The size of a packed file shows only at its end. */
    if (!s->packed && !whole_records(t->decl, s->path, s->size, e))
        return false;
    if (!s->packed && *room < t->rows + (int64_t)(s->size / record)) {
        *room = t->rows + (int64_t)(s->size / record);
        if (!resize(t, *room, e))
            return false;
    }
    while (got == PIECE_RECORDS * record) {
        if (!rt_stream_read(s, piece, PIECE_RECORDS * record, &got, e))
            return false;
        int64_t n = (int64_t)(got / record);
        bytes += got;
        if (t->rows + n > *room) {
            *room = t->rows + n > *room + *room / 2 ? t->rows + FIRST_ROWS : *room + *room / 2;
            if (!resize(t, *room, e))
                return false;
        }
        store_records(t, piece, n);
    }
    if (!whole_records(t->decl, s->path, bytes, e))
        return false;
    for (int f = 0; f < t->decl->n_fields; f++)
        if (!rt_values_fit(s->path, &t->decl->fields[f],
                           t->column[f] + (size_t)first * t->stride[f], 0, t->rows - first, e))
            return false;
    return true;
}

bool rt_table_read_bin(RtTable *t, RtErr *e)
{
    unsigned char *piece = rt_alloc(PIECE_RECORDS * record_bytes(t->decl));
    int64_t room = 0;
    bool ok = true;
    t->first_row = rt_alloc_zero((size_t)t->decl->n_paths, sizeof *t->first_row);
    for (int i = 0; ok && i < t->decl->n_paths; i++) {
        RtStream s;
        t->first_row[i] = t->rows;
        ok = rt_stream_open(&s, t->files[i], e) && read_file(t, &s, piece, &room, e);
        rt_stream_close(&s);
    }
    free(piece);
    return ok && resize(t, t->rows, e);
}

bool rt_bin_bytes(const MpcData *decl, const char *path, size_t *bytes, RtErr *e)
{
    RtStream s;
    bool ok = rt_stream_open(&s, path, e);
    uint64_t total = ok && !s.packed ? s.size : 0;
    while (ok && s.packed) {
        ok = rt_stream_fill(&s, e);
        total += s.end;
        if (s.end == 0)
            break;
    }
    rt_stream_close(&s);
    *bytes = ok ? (size_t)total : 0;
    return ok && whole_records(decl, path, total, e);
}
