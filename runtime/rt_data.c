/* rt_data.c: from a `data` declaration to a table in memory: finds the files, hands them to the reader of
 * their kind, checks labels. Sets and splits: rt_split.c. */
#include "rt_data.h"
#include "abi/scalar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- types ---- */

size_t rt_dtype_bytes(MpcDType dtype)
{
    static const size_t bytes[MPC_DT_COUNT] = {
#define DTYPE(name, ctype, size, kind, st, doc) [MPC_DT_##name] = size,
#include "abi/dtypes.def"
    };
    return bytes[dtype];
}

const char *rt_dtype_name(MpcDType dtype)
{
    static const char *const names[MPC_DT_COUNT] = {
        [MPC_DT_none] = "none",
#define DTYPE(name, ctype, size, kind, st, doc) [MPC_DT_##name] = #name,
#include "abi/dtypes.def"
    };
    return names[dtype];
}

int64_t rt_field_elements(const MpcField *f)
{
    int64_t n = 1;
    for (int i = 0; i < f->rank; i++)
        n *= f->dims[i];
    return n;
}

size_t rt_field_bytes(const MpcField *f)
{
    return (size_t)rt_field_elements(f) * rt_dtype_bytes(f->dtype);
}

const char *rt_dims_text(char *buffer, size_t size, int rank, const int64_t *dims)
{
    size_t used = (size_t)snprintf(buffer, size, "[");
    for (int i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%lld", i ? ", " : "",
                                 (long long)dims[i]);
    if (used < size)
        snprintf(buffer + used, size - used, "]");
    return buffer;
}

/* ---- places ---- */

static char *joined(const char *folder, const char *path)
{
    size_t n = strlen(folder);
    return n ? rt_text("%s%s%s", folder, folder[n - 1] == '/' ? "" : "/", path)
             : rt_copy_text(path);
}

/* Where a path as written may lie, in order of preference; at most 4, to be freed. */
static int candidates(const RtPlaces *places, const char *path, char *list[4])
{
    const char *slash = strrchr(path, '/');
    int n = 0;
    if (places->data_dir) {
        if (path[0] != '/')
            list[n++] = joined(places->data_dir, path);
        /* --data is for data that were moved: the file's own name is enough. */
        if (slash)
            list[n++] = joined(places->data_dir, slash + 1);
    }
    if (path[0] != '/' && places->home)
        list[n++] = joined(places->home, path);
    list[n++] = rt_copy_text(path);
    return n;
}

char *rt_find_data(const RtPlaces *places, const char *path, RtErr *e)
{
    char *list[4], *found = NULL;
    int n = candidates(places, path, list);
    for (int i = 0; i < n && !found; i++)
        if (access(list[i], F_OK) == 0)
            found = rt_copy_text(list[i]);
    if (!found) {
        char cwd[512];
        rt_err(e, "cannot find the data file '%s'", path);
        size_t used = (size_t)snprintf(e->hint, sizeof e->hint, "looked for");
        for (int i = 0; i < n && used < sizeof e->hint; i++) {
            bool here = i == n - 1 && path[0] != '/' && getcwd(cwd, sizeof cwd);
            used += (size_t)snprintf(e->hint + used, sizeof e->hint - used, "%s %s%s%s",
                                     i ? "," : "", here ? cwd : "", here ? "/" : "", list[i]);
        }
        if (used < sizeof e->hint)
            snprintf(e->hint + used, sizeof e->hint - used, "; say where it is with --data DIR");
    }
    for (int i = 0; i < n; i++)
        free(list[i]);
    return found;
}

/* ---- tables ---- */

static bool read_table(RtTable *t, RtErr *e)
{
    switch (t->decl->kind) {
    case MPC_DATA_idx: return rt_table_read_idx(t, e);
    case MPC_DATA_bin: return rt_table_read_bin(t, e);
    case MPC_DATA_jsonl: return rt_table_read_jsonl(t, e);
    case MPC_DATA_csv:
    case MPC_DATA_tsv: break;
    }
    return rt_table_read_csv(t, e);
}

bool rt_table_load(RtTable *t, const MpcData *decl, const RtPlaces *places, RtErr *e)
{
    *t = (RtTable){.decl = decl};
    t->files = rt_alloc_zero((size_t)decl->n_paths, sizeof *t->files);
    t->column = rt_alloc_zero((size_t)decl->n_fields, sizeof *t->column);
    t->stride = rt_alloc_zero((size_t)decl->n_fields, sizeof *t->stride);
    for (int i = 0; i < decl->n_fields; i++)
        t->stride[i] = rt_field_bytes(&decl->fields[i]);
    for (int i = 0; i < decl->n_paths; i++)
        if (!(t->files[i] = rt_find_data(places, decl->paths[i], e)))
            return false;
    if (!read_table(t, e))
        return false;
    if (t->rows > UINT32_MAX)
        return rt_err(e, "'%s' holds more than 4294967295 samples", t->files[0]);
    return true;
}

void rt_table_free(RtTable *t)
{
    for (int i = 0; t->decl && i < t->decl->n_paths && t->files; i++)
        free(t->files[i]);
    for (int i = 0; t->decl && i < t->decl->n_fields && t->column; i++)
        free(t->column[i]);
    free(t->files);
    free(t->column);
    free(t->stride);
    free(t->line);
    free(t->first_row);
    *t = (RtTable){0};
}

/* What one file adds to the table. */
static bool file_bytes(const MpcData *decl, const char *path, size_t *bytes, RtErr *e)
{
    if (decl->kind == MPC_DATA_idx)
        return rt_idx_bytes(path, bytes, e);
    if (decl->kind == MPC_DATA_bin)
        return rt_bin_bytes(decl, path, bytes, e);
    size_t row = sizeof(uint32_t);
    int64_t rows;
    for (int i = 0; i < decl->n_fields; i++)
        row += rt_field_bytes(&decl->fields[i]);
    bool ok = rt_csv_rows(path, decl->kind == MPC_DATA_tsv, &rows, e);
    *bytes = ok ? (size_t)rows * row : 0;
    return ok;
}

bool rt_table_bytes(const MpcData *decl, const RtPlaces *places, size_t *bytes, RtErr *e)
{
    *bytes = 0;
    for (int i = 0; i < decl->n_paths; i++) {
        size_t one;
        char *path = rt_find_data(places, decl->paths[i], e);
        bool ok = path && file_bytes(decl, path, &one, e);
        free(path);
        if (!ok)
            return false;
        *bytes += one;
    }
    return true;
}

const char *rt_row_text(char *buffer, size_t size, const RtTable *t, int field, int64_t row)
{
    int file = t->first_row ? 0 : field;
    if (t->line) {
        snprintf(buffer, size, "%s:%u", t->files[0], t->line[row]);
        return buffer;
    }
    for (; t->first_row && file + 1 < t->decl->n_paths && row >= t->first_row[file + 1]; file++)
        ;
    if (t->first_row)
        row -= t->first_row[file];
    snprintf(buffer, size, "'%s', row %lld (counted from 1)", t->files[file], (long long)row + 1);
    return buffer;
}

/* ---- values ---- */

static bool finite_at(const unsigned char *p, MpcDType dtype)
{
    double f64;
    float f32;
    uint16_t half;
    switch (dtype) {
    case MPC_DT_f64: memcpy(&f64, p, sizeof f64); return __builtin_isfinite(f64);
    case MPC_DT_f32: memcpy(&f32, p, sizeof f32); return __builtin_isfinite(f32);
    case MPC_DT_f16: memcpy(&half, p, sizeof half); return (half & 0x7c00) != 0x7c00;
    case MPC_DT_bf16: memcpy(&half, p, sizeof half); return (half & 0x7f80) != 0x7f80;
    case MPC_DT_f8e4m3: return (*p & 0x7f) != 0x7f;
    case MPC_DT_f8e5m2: return (*p & 0x7c) != 0x7c;
    default: return true;
    }
}

bool rt_values_fit(const char *path, const MpcField *f, const unsigned char *data, int64_t first,
                   int64_t rows, RtErr *e)
{
    size_t element = rt_dtype_bytes(f->dtype);
    int64_t each = rt_field_elements(f);
    enum { is_Float = true, is_Int = false, is_Bool = true };
    static const bool looked_at[MPC_DT_COUNT] = {
#define DTYPE(name, ctype, size, kind, st, doc) [MPC_DT_##name] = is_##kind,
#include "abi/dtypes.def"
    };
    bool is_bool = f->dtype == MPC_DT_bool;
    if (!looked_at[f->dtype])
        return true;
    for (int64_t i = 0; i < rows * each; i++, data += element) {
        if (is_bool ? *data > 1 : !finite_at(data, f->dtype))
            return rt_err(e, "'%s', row %lld (counted from 1): %s holds %s", path,
                          (long long)(first + i / each) + 1, f->name,
                          is_bool ? "a byte that is neither 0 nor 1, which is no bool"
                                  : "a value that is not finite");
    }
    return true;
}

/* ---- labels ---- */

int64_t rt_integer_at(const unsigned char *p, MpcDType dtype)
{
    int32_t i32;
    int64_t i64;
    switch (dtype) {
    case MPC_DT_i64: memcpy(&i64, p, sizeof i64); return i64;
    case MPC_DT_i32: memcpy(&i32, p, sizeof i32); return i32;
    case MPC_DT_i8: return *(const int8_t *)p;
    default: return *p;
    }
}

double rt_number_at(const unsigned char *p, MpcDType dtype)
{
    double f64;
    float f32;
    uint16_t half;
    switch (dtype) {
    case MPC_DT_f64: memcpy(&f64, p, sizeof f64); return f64;
    case MPC_DT_f32: memcpy(&f32, p, sizeof f32); return (double)f32;
    case MPC_DT_f16: memcpy(&half, p, sizeof half); return (double)mpc_f16_to_f32(half);
    case MPC_DT_bf16: memcpy(&half, p, sizeof half); return (double)mpc_bf16_to_f32(half);
    case MPC_DT_f8e4m3: return (double)mpc_f8e4m3_to_f32(*p);
    case MPC_DT_f8e5m2: return (double)mpc_f8e5m2_to_f32(*p);
    default: return (double)rt_integer_at(p, dtype);
    }
}

bool rt_check_labels(const RtSet *set, const MpcLabelCheck *check, RtErr *e)
{
    const RtTable *t = set->table;
    const MpcField *f = &t->decl->fields[check->field];
    size_t element = rt_dtype_bytes(f->dtype);
    int64_t each = rt_field_elements(f);
    for (int64_t i = 0; i < set->count; i++) {
        int64_t row = set->rows ? set->rows[i] : i;
        const unsigned char *p = t->column[check->field] + (size_t)row * t->stride[check->field];
        for (int64_t k = 0; k < each; k++, p += element) {
            int64_t v = rt_integer_at(p, f->dtype);
            if ((v >= 0 && v < check->classes) || (check->has_ignore && v == check->ignore))
                continue;
            char where[700];
            rt_err(e, "%s: %s is %lld, but the model has %lld classes (0 to %lld)",
                   rt_row_text(where, sizeof where, t, check->field, row), f->name, (long long)v,
                   (long long)check->classes, (long long)check->classes - 1);
            rt_hint(
                e, "mend the row, or give the model more outputs (line %d of the program's source)",
                check->line);
            return false;
        }
    }
    return true;
}
