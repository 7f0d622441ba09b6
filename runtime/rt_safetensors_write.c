/* rt_safetensors_write.c: writes tensors without gaps: a model with every float type as f32, so that any reader
 * of the format can load it; a checkpoint with the types as they are. Wider elements come first, which keeps
 * all of them aligned. */
#include "abi/scalar.h"
#include "rt_data.h"
#include "rt_safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 14 };

static bool is_float(MpcDType dtype)
{
    static const char kind[MPC_DT_COUNT][8] = {
#define DTYPE(name, ctype, bytes, kind_, st, doc) [MPC_DT_##name] = #kind_,
#include "abi/dtypes.def"
    };
    return !strcmp(kind[dtype], "Float");
}

static MpcDType stored_type(const RtSaved *t, bool exact)
{
    return is_float(t->dtype) && !exact ? MPC_DT_f32 : t->dtype;
}

static const char *format_name(MpcDType dtype)
{
    static const char *const names[MPC_DT_COUNT] = {
#define DTYPE(name, ctype, bytes, kind, st, doc) [MPC_DT_##name] = st,
#include "abi/dtypes.def"
    };
    return names[dtype];
}

static size_t elements(const RtSaved *t)
{
    size_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= (size_t)t->dims[i];
    return n;
}

static void put_header(RtJson *j, const RtSaved *tensors, const int *order, int n, bool exact)
{
    int64_t at = 0;
    rt_json_start(j);
    rt_json_open(j, NULL);
    rt_json_open(j, "__metadata__");
    rt_json_text(j, "format", "pt");
    rt_json_close(j);
    for (int i = 0; i < n; i++) {
        const RtSaved *t = &tensors[order[i]];
        MpcDType stored = stored_type(t, exact);
        int64_t range[2] = {at, at + (int64_t)(elements(t) * rt_dtype_bytes(stored))};
        rt_json_open(j, t->name);
        rt_json_text(j, "dtype", format_name(stored));
        rt_json_ints(j, "shape", t->dims, t->rank);
        rt_json_ints(j, "data_offsets", range, 2);
        rt_json_close(j);
        at = range[1];
    }
    rt_json_close(j);
}

static float narrow(const RtSaved *t, size_t i)
{
    switch (t->dtype) {
    case MPC_DT_f64: return (float)((const double *)t->data)[i];
    case MPC_DT_f16: return mpc_f16_to_f32(((const mpc_f16 *)t->data)[i]);
    case MPC_DT_bf16: return mpc_bf16_to_f32(((const mpc_bf16 *)t->data)[i]);
    case MPC_DT_f8e4m3: return mpc_f8e4m3_to_f32(((const mpc_f8e4m3 *)t->data)[i]);
    case MPC_DT_f8e5m2: return mpc_f8e5m2_to_f32(((const mpc_f8e5m2 *)t->data)[i]);
    default: return ((const float *)t->data)[i];
    }
}

static bool put_tensor(RtWriter *w, const RtSaved *t, bool exact, RtErr *e)
{
    size_t n = elements(t);
    if (stored_type(t, exact) == t->dtype)
        return rt_writer_put(w, t->data, n * rt_dtype_bytes(t->dtype), e);
    float piece[PIECE];
    for (size_t done = 0; done < n;) {
        size_t m = n - done < PIECE ? n - done : PIECE;
        for (size_t i = 0; i < m; i++)
            piece[i] = narrow(t, done + i);
        if (!rt_writer_put(w, piece, m * sizeof *piece, e))
            return false;
        done += m;
    }
    return true;
}

/* A stable order by size of element, widest first. */
static int *make_order(const RtSaved *tensors, int n, bool exact)
{
    int *order = rt_alloc((size_t)n * sizeof *order), at = 0;
    for (size_t bytes = 8; bytes; bytes /= 2)
        for (int i = 0; i < n; i++)
            if (rt_dtype_bytes(stored_type(&tensors[i], exact)) == bytes)
                order[at++] = i;
    return order;
}

static bool write_file(const char *path, const RtSaved *tensors, int n, bool exact, RtErr *e)
{
    RtWriter w;
    RtJson j = {0};
    if (!rt_writer_open(&w, path, e))
        return false;
    int *order = make_order(tensors, n, exact);
    put_header(&j, tensors, order, n, exact);
    unsigned char n8[8];
    size_t pad = (8 - j.length % 8) % 8;
    for (int i = 0; i < 8; i++)
        n8[i] = (unsigned char)((uint64_t)(j.length + pad) >> (8 * i));
    bool ok = rt_writer_put(&w, n8, 8, e) && rt_writer_put(&w, j.text, j.length, e) &&
              rt_writer_put(&w, "        ", pad, e);
    for (int i = 0; ok && i < n; i++)
        ok = put_tensor(&w, &tensors[order[i]], exact, e);
    free(order);
    free(j.text);
    if (!ok) {
        rt_writer_abort(&w);
        return false;
    }
    return rt_writer_commit(&w, e);
}

bool rt_safetensors_write(const char *path, const RtSaved *tensors, int n, RtErr *e)
{
    return write_file(path, tensors, n, false, e);
}

bool rt_safetensors_write_exact(const char *path, const RtSaved *tensors, int n, RtErr *e)
{
    return write_file(path, tensors, n, true, e);
}
