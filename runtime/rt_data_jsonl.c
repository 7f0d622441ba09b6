/* rt_data_jsonl.c: reads JSON lines, one object a sample: {"image": [[0, 12, ..], ..], "label": 3}. A field is found
 * under its name, its numbers in lists of any nesting, in their order; one that is made of single columns may
 * also have a member for each of them. Other members are passed over. Used by --predict. */
#include "rt_data.h"
#include "rt_json_read.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_MOST = 256 << 20 };

typedef struct Jsonl {
    RtStream stream;
    RtTable *table;
    char *line;
    size_t length, cap;
    uint32_t number; /* of the line */
    int64_t cap_rows;
} Jsonl;

static bool fault(const Jsonl *s, RtErr *e, const char *field, const char *what)
{
    return rt_err(e, "%s:%u: %s%s%s%s", s->stream.path, s->number, field ? "\"" : "",
                  field ? field : "", field ? "\": " : "", what);
}

/* False at the end, or after an error (e->text). */
static bool next_line(Jsonl *s, RtErr *e)
{
    s->length = 0;
    e->text[0] = 0;
    for (;;) {
        if (s->stream.at == s->stream.end && !rt_stream_fill(&s->stream, e))
            return false;
        if (s->stream.at == s->stream.end)
            break;
        unsigned char *from = s->stream.buffer + s->stream.at;
        size_t n = s->stream.end - s->stream.at;
        unsigned char *end = memchr(from, '\n', n);
        size_t take = end ? (size_t)(end - from) : n;
        if (s->length + take > LINE_MOST)
            return fault(s, e, NULL, "the line is longer than 256 MiB");
        if (s->length + take > s->cap)
            s->line = rt_grow(s->line, s->cap = 2 * (s->length + take));
        memcpy(s->line + s->length, from, take);
        s->length += take;
        s->stream.at += take + (end != NULL);
        if (end) {
            s->number++;
            return true;
        }
    }
    s->number += s->length > 0;
    return s->length > 0;
}

/* ---- numbers ---- */

typedef struct Place {
    const MpcField *field;
    unsigned char *out;
    int64_t count, most;
    char what[RT_FAULT];
} Place;

static bool store(Place *p, const json_t *v)
{
    void *out = p->out + (size_t)p->count * rt_dtype_bytes(p->field->dtype);
    MpcDType dtype = p->field->dtype;
    if (p->count++ == p->most)
        return true; /* counted, and said */
    if (json_is_boolean(v))
        return rt_is_floating(dtype) ? rt_store_float(json_is_true(v), dtype, out, p->what)
                                     : rt_store_integer(json_is_true(v), dtype, out, p->what);
    if (!json_is_number(v)) {
        strcpy(p->what, "is not a number");
        return false;
    }
    return rt_is_floating(dtype) ? rt_store_float(json_number_value(v), dtype, out, p->what)
           : json_is_integer(v)  ? rt_store_integer(json_integer_value(v), dtype, out, p->what)
                                 : rt_store_whole(json_number_value(v), dtype, out, p->what);
}

/* The depth is bounded by rt_json_modest. */
static bool store_all(Place *p, const json_t *v)
{
    if (!json_is_array(v))
        return store(p, v);
    for (size_t i = 0; i < json_array_size(v) && p->count <= p->most; i++)
        if (!store_all(p, json_array_get(v, i)))
            return false;
    return true;
}

static bool read_field(Jsonl *s, const json_t *sample, const MpcField *f, unsigned char *out,
                       RtErr *e)
{
    Place p = {.field = f, .out = out, .most = rt_field_elements(f)};
    const json_t *v = json_object_get(sample, f->name);
    bool columns = !v && f->n_columns > 0;
    for (int i = 0; columns && i < f->n_columns; i++) {
        v = f->columns[i].last ? NULL : json_object_get(sample, f->columns[i].first);
        if (v && !store(&p, v))
            return fault(s, e, f->columns[i].first, p.what);
        columns = v != NULL;
    }
    if (!columns) {
        if (!(v = json_object_get(sample, f->name)))
            return fault(s, e, f->name, "the object has no such member");
        if (!store_all(&p, v))
            return fault(s, e, f->name, p.what);
    }
    if (p.count != p.most) {
        char what[RT_FAULT + 64];
        snprintf(what, sizeof what, "has %s%lld numbers, but a sample has %lld",
                 p.count > p.most ? "more than " : "",
                 (long long)(p.count > p.most ? p.most : p.count), (long long)p.most);
        return fault(s, e, f->name, what);
    }
    return true;
}

/* ---- rows ---- */

static void make_room(Jsonl *s)
{
    RtTable *t = s->table;
    if (t->rows < s->cap_rows)
        return;
    s->cap_rows = s->cap_rows ? 2 * s->cap_rows : 64;
    for (int f = 0; f < t->decl->n_fields; f++)
        t->column[f] = rt_grow(t->column[f], (size_t)s->cap_rows * t->stride[f]);
    t->line = rt_grow(t->line, (size_t)s->cap_rows * sizeof *t->line);
}

static bool read_sample(Jsonl *s, RtErr *e)
{
    RtTable *t = s->table;
    json_error_t error;
    if (!rt_json_modest(s->line, s->length))
        return fault(s, e, NULL, "the object has too many parts or nests too deeply");
    json_t *sample = json_loadb(s->line, s->length, JSON_REJECT_DUPLICATES, &error);
    bool ok = json_is_object(sample) ||
              fault(s, e, NULL, sample ? "this is no object" : "this is no valid JSON");
    make_room(s);
    for (int f = 0; ok && f < t->decl->n_fields; f++)
        ok = read_field(s, sample, &t->decl->fields[f],
                        t->column[f] + (size_t)t->rows * t->stride[f], e);
    json_decref(sample);
    t->line[t->rows] = s->number;
    t->rows += ok;
    return ok;
}

bool rt_table_read_jsonl(RtTable *t, RtErr *e)
{
    Jsonl s = {.table = t};
    bool ok = rt_stream_open(&s.stream, t->files[0], e);
    if (!ok)
        return false;
    while (ok && next_line(&s, e)) {
        size_t blank = 0;
        while (blank < s.length && strchr(" \t\r", s.line[blank]))
            blank++;
        ok = blank == s.length || read_sample(&s, e);
        if (ok && t->rows == UINT32_MAX)
            ok = rt_err(e, "'%s' holds more than 4294967295 samples", t->files[0]);
    }
    ok = ok && !e->text[0];
    free(s.line);
    rt_stream_close(&s.stream);
    return ok;
}

bool rt_is_jsonl(const char *path)
{
    RtStream s;
    RtErr e;
    bool found = false;
    if (!rt_stream_open(&s, path, &e))
        return false;
    if (rt_stream_fill(&s, &e))
        for (size_t i = s.at; i < s.end && strchr(" \t\r\n{", s.buffer[i]) && !found; i++)
            found = s.buffer[i] == '{';
    rt_stream_close(&s);
    return found;
}
