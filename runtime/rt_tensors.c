/* rt_tensors.c: the tensors that outlive a step: their initial values, their values from a file, the file of
 * the final or best model. Where a parameter has an average, files of weights have that in its place. */
#include "abi/scalar.h"
#include "rt_random.h"
#include "rt_run.h"
#include "rt_safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INIT_TILE = 1 << 14 };

typedef struct InitArgs {
    const MpcTensor *tensor;
    void *data;
    uint64_t seed;
    int64_t elements;
} InitArgs;

static int64_t elements_of(const MpcTensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

static bool is_saved(const MpcTensor *t)
{
    return t->role == MPC_ROLE_param || t->role == MPC_ROLE_state;
}

/* What a checkpoint needs: a working copy is made from its master. */
static bool is_kept(const MpcTensor *t)
{
    return t->role != MPC_ROLE_working;
}

static size_t bytes_of(const MpcTensor *t)
{
    return (size_t)elements_of(t) * rt_dtype_bytes(t->dtype);
}

/* ---- averages ---- */

static const MpcTensor *find_tensor(const MpcProgram *p, const char *name)
{
    for (int i = 0; i < p->n_tensors; i++)
        if (!strcmp(p->tensors[i].name, name))
            return &p->tensors[i];
    return NULL;
}

/* What a file of weights holds under the tensor's name: its average, where there is one. */
static const MpcTensor *saved_as(const MpcProgram *p, const MpcTensor *t)
{
    for (int i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].of && !strcmp(p->tensors[i].of, t->name))
            return &p->tensors[i];
    return t;
}

static void widen(float *to, const MpcTensor *from, const void *data)
{
    for (int64_t i = 0; i < elements_of(from); i++)
        switch (from->dtype) {
        case MPC_DT_f16: to[i] = mpc_f16_to_f32(((const mpc_f16 *)data)[i]); break;
        case MPC_DT_bf16: to[i] = mpc_bf16_to_f32(((const mpc_bf16 *)data)[i]); break;
        case MPC_DT_f8e4m3: to[i] = mpc_f8e4m3_to_f32(((const mpc_f8e4m3 *)data)[i]); break;
        case MPC_DT_f8e5m2: to[i] = mpc_f8e5m2_to_f32(((const mpc_f8e5m2 *)data)[i]); break;
        default: to[i] = ((const float *)data)[i];
        }
}

/* Averages begin as what their parameters are. */
static void start_averages(MpcRun *r)
{
    for (int i = 0; i < r->program->n_tensors; i++) {
        const MpcTensor *t = &r->program->tensors[i];
        const MpcTensor *of = t->of ? find_tensor(r->program, t->of) : NULL;
        if (!of)
            continue;
        void *to = r->mirror + t->offset, *from = r->mirror + of->offset;
        if (of->dtype == t->dtype)
            memcpy(to, from, bytes_of(t));
        else
            widen(to, of, from);
    }
}

/* ---- initial values ---- */

void rt_tensors_to_device(MpcRun *r)
{
    size_t end = 0;
    for (int i = 0; i < r->program->n_tensors; i++) {
        const MpcTensor *t = &r->program->tensors[i];
        end = t->offset + bytes_of(t) > end ? t->offset + bytes_of(t) : end;
    }
    rt_device_write(r->rt->device, 0, end);
}

static void init_tile(const void *args, int tile, const MpcWorker *w)
{
    const InitArgs *a = args;
    int64_t from = (int64_t)tile * INIT_TILE, to = from + INIT_TILE;
    (void)w;
    rt_init_range(a->tensor, a->seed, a->data, from, to < a->elements ? to : a->elements);
}

void rt_tensors_init(MpcRun *r)
{
    const MpcProgram *p = r->program;
    InitArgs *args = rt_alloc((size_t)p->n_tensors * sizeof *args);
    MpcCall *calls = rt_alloc((size_t)p->n_tensors * sizeof *calls);
    int n = 0;
    for (int i = 0; i < p->n_tensors; i++) {
        const MpcTensor *t = &p->tensors[i];
        bool zero = t->init == MPC_INIT_constant && t->a == 0; /* the mirror is */
        if (zero || t->role == MPC_ROLE_working)
            continue;
        args[n] = (InitArgs){t, r->mirror + t->offset, r->seed, elements_of(t)};
        calls[n] =
            (MpcCall){init_tile, &args[n], (int)((args[n].elements + INIT_TILE - 1) / INIT_TILE)};
        n++;
    }
    rt_pool_run(r->rt->pool, calls, n);
    free(calls);
    free(args);
    start_averages(r);
}

/* ---- from a file ---- */

static bool missing(const RtSafetensors *st, const MpcTensor *t, const char *path, RtErr *e)
{
    RtNear near;
    rt_err(e, "'%s' has no tensor '%s'", path, t->name);
    rt_near_start(&near, t->name);
    for (int i = 0; i < st->n; i++)
        rt_near_try(&near, st->tensors[i].name);
    if (near.best)
        rt_hint(e, "the nearest name in the file is '%.200s'", near.best);
    else
        rt_hint(e, "the file holds %d tensors of other names; --summary lists this model's", st->n);
    return false;
}

static bool fits(const RtStored *s, const MpcTensor *t, const char *path, RtErr *e)
{
    char a[160], b[160];
    bool same = s->rank == t->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = s->dims[i] == t->dims[i];
    return same || rt_err(e, "'%s': '%s' has the shape %s, the model needs %s", path, t->name,
                          rt_dims_text(a, sizeof a, s->rank, s->dims),
                          rt_dims_text(b, sizeof b, t->rank, t->dims));
}

/* The smallest magnitude that rounds to inf in the type that the parameter is used in. */
static float too_large(const MpcTensor *t)
{
    switch (t->used_as) {
    case MPC_DT_f16: return 65520.0f;
    case MPC_DT_bf16: return 0x1.ffp127f;
    default: return INFINITY;
    }
}

/* Refuses what would be inf or NaN in that type. */
static bool usable(const MpcTensor *t, const void *data, const char *path, RtErr *e)
{
    if (t->dtype != MPC_DT_f32)
        return true;
    const float *v = data;
    float most = too_large(t);
    for (int64_t i = 0; i < elements_of(t); i++) {
        if (!isfinite(v[i]))
            return rt_err(e, "'%s': '%s' holds a value that is not finite (element %lld)", path,
                          t->name, (long long)i);
        if (fabsf(v[i]) >= most) {
            bool half = t->used_as == MPC_DT_f16;
            char number[RT_NUMBER_CHARS];
            rt_err(e,
                   "'%s': '%s' holds %s (element %lld), which is infinite in %s, the type it is "
                   "used in",
                   path, t->name, rt_number(number, (double)v[i]), (long long)i,
                   half ? "f16" : "bf16");
            rt_hint(e,
                    half ? "compile with --precision=bf16 or f32" : "compile with --precision=f32");
            return false;
        }
    }
    return true;
}

bool rt_tensors_check(MpcRun *r, RtErr *e)
{
    for (int i = 0; i < r->program->n_tensors; i++) {
        const MpcTensor *t = &r->program->tensors[i];
        double reach = fabs(t->a) + (t->init == MPC_INIT_constant ? 0 : 10 * fabs(t->b));
        if (t->role == MPC_ROLE_param && !(reach < too_large(t)) &&
            !usable(t, r->mirror + t->offset, r->program->source, e))
            return false;
    }
    return true;
}

/* Of a checkpoint's tensors the averages, too. */
static int load_averages(MpcRun *r, const RtSafetensors *st, const char *path, bool *ok, RtErr *e)
{
    int used = 0;
    start_averages(r);
    for (int i = 0; *ok && i < r->program->n_tensors; i++) {
        const MpcTensor *t = &r->program->tensors[i];
        const RtStored *s = t->of ? rt_safetensors_find(st, t->name) : NULL;
        if (!s)
            continue;
        void *data = r->mirror + t->offset;
        *ok = fits(s, t, path, e) && rt_safetensors_read(st, s, t->dtype, data, e) &&
              usable(t, data, path, e);
        used++;
    }
    return used;
}

static void note_extra(MpcRun *r, const RtSafetensors *st, int used, const char *path)
{
    if (used < st->n)
        rt_warn(r, "'%s' holds %d tensors that this model does not have; they are not used", path,
                st->n - used);
}

bool rt_tensors_load(MpcRun *r, const char *path, RtErr *e)
{
    RtSafetensors st;
    if (!rt_safetensors_open(&st, path, e))
        return false;
    bool ok = true;
    int used = 0;
    for (int i = 0; ok && i < r->program->n_tensors; i++) {
        const MpcTensor *t = &r->program->tensors[i];
        if (!is_saved(t))
            continue;
        const RtStored *s = rt_safetensors_find(&st, t->name);
        void *data = r->mirror + t->offset;
        ok = s ? fits(s, t, path, e) && rt_safetensors_read(&st, s, t->dtype, data, e) &&
                     usable(t, data, path, e)
               : missing(&st, t, path, e);
        used++;
    }
    used += ok ? load_averages(r, &st, path, &ok, e) : 0;
    for (int i = 0; ok && i < r->program->n_tensors; i++) {
        const MpcTensor *t = &r->program->tensors[i];
        if (is_saved(t) || t->of)
            rt_device_write(r->rt->device, t->offset, bytes_of(t));
    }
    if (ok)
        note_extra(r, &st, used, path);
    rt_safetensors_close(&st);
    return ok;
}

static bool save(MpcRun *r, const char *path, bool all, RtErr *e)
{
    const MpcProgram *p = r->program;
    RtSaved *saved = rt_alloc((size_t)p->n_tensors * sizeof *saved);
    int n = 0;
    for (int i = 0; i < p->n_tensors; i++) {
        const MpcTensor *t = &p->tensors[i];
        if (!(all ? is_kept(t) : is_saved(t)))
            continue;
        const MpcTensor *from = all ? t : saved_as(p, t);
        rt_device_read(r->rt->device, from->offset, bytes_of(from));
        saved[n++] = (RtSaved){t->name, from->dtype, t->rank, t->dims, r->mirror + from->offset};
    }
    bool ok = all ? rt_safetensors_write_exact(path, saved, n, e)
                  : rt_safetensors_write(path, saved, n, e);
    free(saved);
    return ok;
}

bool rt_tensors_save(MpcRun *r, const char *path, RtErr *e)
{
    return save(r, path, false, e);
}

/* ---- checkpoints ---- */

bool rt_tensors_save_all(MpcRun *r, const char *path, RtErr *e)
{
    return save(r, path, true, e);
}

static const MpcTensor *find_kept(const MpcProgram *p, const char *name)
{
    for (int i = 0; i < p->n_tensors; i++)
        if (is_kept(&p->tensors[i]) && !strcmp(p->tensors[i].name, name))
            return &p->tensors[i];
    return NULL;
}

bool rt_tensors_compare(const MpcProgram *p, const RtSafetensors *st, RtErr *e)
{
    char a[160], b[160];
    for (int i = 0; i < p->n_tensors; i++) {
        const MpcTensor *t = &p->tensors[i];
        if (!is_kept(t))
            continue;
        const RtStored *s = rt_safetensors_find(st, t->name);
        if (!s)
            return rt_err(e, "'%s' is of another model: it has no tensor '%s'", st->path, t->name);
        bool same = s->rank == t->rank;
        for (int k = 0; same && k < t->rank; k++)
            same = s->dims[k] == t->dims[k];
        if (!same)
            return rt_err(e, "'%s' is of another model: '%s' has the shape %s there, %s here",
                          st->path, t->name, rt_dims_text(a, sizeof a, s->rank, s->dims),
                          rt_dims_text(b, sizeof b, t->rank, t->dims));
        if (s->dtype != t->dtype)
            return rt_err(e, "'%s' is of another model: '%s' is %s there, %s here", st->path,
                          t->name, rt_dtype_name(s->dtype), rt_dtype_name(t->dtype));
    }
    for (int i = 0; i < st->n; i++)
        if (!find_kept(p, st->tensors[i].name))
            return rt_err(e, "'%s' is of another model: it has a tensor '%.200s', this one has not",
                          st->path, st->tensors[i].name);
    return true;
}

bool rt_tensors_load_all(MpcRun *r, const RtSafetensors *st, RtErr *e)
{
    bool ok = true;
    for (int i = 0; ok && i < r->program->n_tensors; i++) {
        const MpcTensor *t = &r->program->tensors[i];
        if (is_kept(t))
            ok = rt_safetensors_read(st, rt_safetensors_find(st, t->name), t->dtype,
                                     r->mirror + t->offset, e);
    }
    return ok;
}
