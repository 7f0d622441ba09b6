/* rt_loader.c: batches in a fixed order, gathered and prepared by a thread of the loader while the batch
 * before is in use. The order of pass e is a permutation keyed by (seed, e); which thread does the work, and
 * when, changes nothing. Two slots: one in the caller's hands, one being filled.
 *
 * Handing a batch from thread to thread costs some microseconds and takes a CPU from the kernels, so batches
 * that are made more quickly than that are made by the caller. Decided anew for each pass.
 */
#include "rt_loader.h"
#include "rt_random.h"
#include "rt_run.h"
#include "rt_sampler.h"
#include "rt_thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct Slot {
    unsigned char **raw; /* one a field of the set */
    unsigned char **out; /* one a field handed out; raw's own without `prepare` */
    int64_t *rng;
    int64_t n;
    int64_t index;
    void **handed; /* where kernels find the fields handed out: `out`, or their places on the GPU */
    int64_t *handed_rng;
} Slot;

struct MpcLoader {
    const MpcLoaderDecl *decl;
    const RtSet *set;
    int64_t batch_size, batches;
    uint64_t seed;
    int64_t pass;    /* of the current or last one; -1 before the first */
    uint32_t *order; /* positions within the set, for this pass; NULL: ascending */
    RtSampler *sampler;
    uint32_t *again; /* with a sampler: how often the sample was drawn before in this pass */
    Slot slot[2];    /* batch b uses slot b % 2 */
    void *scratch;
    MpcRun *run;
    RtDevice *device;
    bool in_pass;
    int place; /* of the loop that the pass is for */
    int64_t handed_out;

    int64_t filled;  /* batches of this pass that have been made */
    double quickest; /* seconds that a batch took at best; 0: none was made yet */

    /* The thread, where this pass has one: it fills batches filled .. allowed - 1. */
    RtPrefetch prefetch;
    bool threaded, started, quit, idle;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t allowed;
};

static const double worth_a_thread = 40e-6;

/* ---- one batch ---- */

/* A NaN in what the preparation made of sound data: a division of 0 by 0, most often. Infinities may be meant. */
static int64_t first_nan(const MpcField *f, const unsigned char *data, int64_t n)
{
    const float *x = (const float *)(const void *)data;
    int64_t count = n * rt_field_elements(f), bad = 0;
    if (f->dtype != MPC_DT_f32)
        return -1;
    for (int64_t i = 0; i < count; i++)
        bad += x[i] != x[i];
    for (int64_t i = 0; bad && i < count; i++)
        if (x[i] != x[i])
            return i;
    return -1;
}

static void check_prepared(MpcLoader *l, const Slot *s)
{
    for (int i = 0; l->run && i < l->decl->n_out; i++) {
        const MpcField *f = &l->decl->out[i];
        int64_t at = first_nan(f, s->out[i], s->n), each = rt_field_elements(f);
        char where[700];
        if (at < 0)
            continue;
        rt_row_text(where, sizeof where, l->set->table, 0, s->rng[at / each] & UINT32_MAX);
        mpc_fail(l->run,
                 "0 / 0 is one: a column that is divided by its own deviation needs a small number "
                 "added to it, for it may be constant",
                 "%s: the preparation made a NaN of element %lld of %s", where,
                 (long long)(at % each), f->name);
    }
}

static void gather(MpcLoader *l, Slot *s, int64_t index)
{
    const RtSet *set = l->set;
    const RtTable *t = set->table;
    int64_t first = index * l->batch_size, left = set->count - first;
    s->index = index;
    s->n = left < l->batch_size ? left : l->batch_size;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t at = l->order ? l->order[first + i] : first + i;
        uint64_t key = (uint64_t)l->pass << 32 | (set->rows ? set->rows[at] : (uint64_t)at);
        s->rng[i] = (int64_t)(l->again ? key + ((uint64_t)l->again[first + i] << 52) : key);
    }
    for (int f = 0; f < t->decl->n_fields; f++) {
        size_t stride = t->stride[f];
        for (int64_t i = 0; i < s->n; i++) {
            size_t row = (size_t)(s->rng[i] & UINT32_MAX);
            memcpy(s->raw[f] + (size_t)i * stride, t->column[f] + row * stride, stride);
        }
    }
    if (!l->decl->prepare)
        return;
    l->decl->prepare(&(MpcPrepare){.n = s->n,
                                   .in = (const void *const *)s->raw,
                                   .out = (void *const *)s->out,
                                   .rng = s->rng,
                                   .seed = l->seed,
                                   .scratch = l->scratch});
    check_prepared(l, s);
}

/* Makes the next batch of the pass. One thread at a time, by turns of `threaded`. */
static void fill(MpcLoader *l, int64_t index)
{
    double start = rt_seconds();
    gather(l, &l->slot[index % 2], index);
    double took = rt_seconds() - start;
    if (l->run)
        rt_profile_batch(l->run->rt->profile, (int)(l->decl - l->run->program->loaders), start);
    if (l->quickest <= 0 || took < l->quickest)
        l->quickest = took;
}

/* ---- the thread ---- */

static void *loader_main(void *arg)
{
    MpcLoader *l = arg;
    pthread_mutex_lock(&l->lock);
    while (!l->quit) {
        if (l->filled >= l->allowed) {
            l->idle = true;
            pthread_cond_broadcast(&l->changed);
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        l->idle = false;
        int64_t next = l->filled;
        pthread_mutex_unlock(&l->lock);
        fill(l, next);
        pthread_mutex_lock(&l->lock);
        l->filled = next + 1;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Without the means for a thread, the caller does its work. */
static bool has_thread(MpcLoader *l)
{
    RtErr e;
    if (!l->started)
        l->started = rt_thread_start(&l->thread, loader_main, l, &e);
    return l->started;
}

static int64_t fewer(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- passes ---- */

static void let_fill(MpcLoader *l, int64_t allowed)
{
    l->allowed = fewer(allowed, l->batches);
    l->idle = l->idle && l->filled >= l->allowed;
    pthread_cond_broadcast(&l->changed);
}

/* The pass l->pass from its batch number `first` on. */
static void start_pass(MpcLoader *l, int64_t first, int place)
{
    l->in_pass = true;
    l->place = place;
    l->handed_out = l->filled = l->allowed = first;
    if (l->sampler)
        rt_sampler_draw(l->sampler, l->order, l->again, l->seed, (uint32_t)l->pass);
    else if (l->order)
        rt_permutation(l->order, l->set->count, l->seed, (uint32_t)l->pass, "shuffle");
    if (l->quickest <= 0 && first < l->batches)
        fill(l, l->filled++);
    l->threaded = (l->prefetch == RT_PREFETCH_always ||
                   (l->prefetch == RT_PREFETCH_auto && l->quickest > worth_a_thread)) &&
                  has_thread(l);
    if (l->threaded) {
        pthread_mutex_lock(&l->lock);
        let_fill(l, first + 2);
        pthread_mutex_unlock(&l->lock);
    }
    if (l->run)
        rt_pass_begins(l->run, l);
}

static void end_pass(MpcLoader *l);

void mpc_loader_begin(MpcLoader *l, int place)
{
    end_pass(l);
    l->pass++;
    start_pass(l, 0, place);
}

RtCursor rt_loader_cursor(const MpcLoader *l)
{
    return (RtCursor){l->batch_size, l->pass, l->handed_out, l->in_pass, l->place};
}

void rt_loader_seek(MpcLoader *l, const RtCursor *c)
{
    end_pass(l);
    l->pass = c->pass;
    l->handed_out = c->taken;
    if (c->in_pass)
        start_pass(l, fewer(c->taken, l->batches), c->place);
}

static const MpcField *fields_out(const MpcLoaderDecl *decl, const MpcField *fields, int n_fields,
                                  int *n)
{
    *n = decl->prepare ? decl->n_out : n_fields;
    return decl->prepare ? decl->out : fields;
}

static Slot *next_slot(MpcLoader *l)
{
    int64_t index = l->handed_out;
    if (l->threaded) {
        pthread_mutex_lock(&l->lock);
        /* The batch handed out before is given back now, so its slot may be filled again. */
        let_fill(l, index + 2);
        while (l->filled <= index)
            pthread_cond_wait(&l->changed, &l->lock);
        pthread_mutex_unlock(&l->lock);
    } else if (l->filled <= index) {
        fill(l, l->filled++);
    }
    return &l->slot[index % 2];
}

static int handed_fields(const MpcLoader *l, const MpcField **fields)
{
    const MpcData *data = l->set->table->decl;
    int n;
    *fields = fields_out(l->decl, data->fields, data->n_fields, &n);
    return n;
}

/* Keys and fields lie one after the other, here as there: one copy, as far as the batch reaches. */
static void to_device(MpcLoader *l, const Slot *s)
{
    const MpcField *fields;
    int n = handed_fields(l, &fields);
    const unsigned char *from = (const unsigned char *)s->rng;
    size_t bytes = (size_t)s->n * sizeof *s->rng;
    if (n > 0)
        bytes = (size_t)(s->out[n - 1] - from) + (size_t)s->n * rt_field_bytes(&fields[n - 1]);
    rt_device_copy_in(l->device, s->handed_rng, from, bytes);
}

bool mpc_loader_next(MpcLoader *l, MpcBatch *batch)
{
    if (!l->in_pass)
        return false;
    if (l->run)
        rt_between_batches(l->run, l, false);
    if (l->handed_out >= l->batches || (l->run && rt_pass_stops(l->run, l))) {
        end_pass(l);
        return false;
    }
    double start = l->run && l->run->rt->profile ? rt_seconds() : 0;
    Slot *s = next_slot(l);
    if (l->run)
        rt_profile_span(l->run->rt->profile, RT_SPAN_wait, start);
    l->handed_out++;
    if (l->device)
        to_device(l, s);
    *batch = (MpcBatch){.n = s->n,
                        .index = s->index,
                        .field = (const void *const *)s->handed,
                        .rng = s->handed_rng};
    if (l->run)
        rt_batch_begins(l->run, l, s->n);
    return true;
}

static void end_pass(MpcLoader *l)
{
    if (!l->in_pass)
        return;
    l->in_pass = false;
    if (l->threaded) {
        pthread_mutex_lock(&l->lock);
        /* It may still be waking up from an earlier broadcast: it has to say anew that it is idle. */
        l->allowed = 0;
        l->idle = false;
        pthread_cond_broadcast(&l->changed);
        while (!l->idle)
            pthread_cond_wait(&l->changed, &l->lock);
        pthread_mutex_unlock(&l->lock);
        l->threaded = false;
    }
    if (l->run)
        rt_pass_ends(l->run, l);
}

/* In a pass still: the loop was left before its end. */
void mpc_loader_end(MpcLoader *l)
{
    if (l->in_pass && l->run)
        rt_between_batches(l->run, l, true);
    end_pass(l);
}

/* ---- making ---- */

static size_t room(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

size_t rt_loader_bytes(const MpcLoaderDecl *decl, const MpcField *fields, int n_fields)
{
    size_t bound = (size_t)decl->batch_max, bytes = room(bound * sizeof(int64_t));
    for (int i = 0; i < n_fields; i++)
        bytes += room(bound * rt_field_bytes(&fields[i]));
    for (int i = 0; decl->prepare && i < decl->n_out; i++)
        bytes += room(bound * rt_field_bytes(&decl->out[i]));
    return 2 * bytes + room(decl->scratch_bytes);
}

/* Of what a batch hands out. */
static size_t handed_bytes(const MpcLoaderDecl *decl, const MpcField *fields, int n_fields)
{
    int n;
    const MpcField *out = fields_out(decl, fields, n_fields, &n);
    size_t bytes = room((size_t)decl->batch_max * sizeof(int64_t));
    for (int i = 0; i < n; i++)
        bytes += room((size_t)decl->batch_max * rt_field_bytes(&out[i]));
    return bytes;
}

size_t rt_loader_device_bytes(const MpcLoaderDecl *decl, const MpcField *fields, int n_fields)
{
    return 2 * rt_device_bytes(handed_bytes(decl, fields, n_fields));
}

static void place_slot(MpcLoader *l, Slot *s)
{
    const MpcData *data = l->set->table->decl;
    const MpcField *fields;
    int n = handed_fields(l, &fields);
    s->handed = (void **)s->out;
    s->handed_rng = s->rng;
    if (!l->device)
        return;
    unsigned char *there =
        rt_device_take(l->device, handed_bytes(l->decl, data->fields, data->n_fields));
    s->handed = rt_alloc_zero((size_t)n, sizeof *s->handed);
    for (int i = 0; i < n; i++)
        s->handed[i] = there + (s->out[i] - (unsigned char *)s->rng);
    s->handed_rng = (int64_t *)(void *)there;
}

/* The next bytes of the loader's memory. */
static void *take(unsigned char **memory, size_t bytes)
{
    void *at = *memory;
    *memory += room(bytes);
    return at;
}

static void make_slot(MpcLoader *l, Slot *s, unsigned char **memory)
{
    const MpcData *data = l->set->table->decl;
    size_t bound = (size_t)l->decl->batch_max;
    int n_out;
    const MpcField *out = fields_out(l->decl, data->fields, data->n_fields, &n_out);
    s->raw = rt_alloc_zero((size_t)data->n_fields, sizeof *s->raw);
    for (int i = 0; i < data->n_fields && l->decl->prepare; i++)
        s->raw[i] = take(memory, bound * rt_field_bytes(&data->fields[i]));
    s->rng = take(memory, bound * sizeof *s->rng);
    for (int i = 0; i < data->n_fields && !l->decl->prepare; i++)
        s->raw[i] = take(memory, bound * rt_field_bytes(&data->fields[i]));
    s->out = s->raw;
    if (l->decl->prepare) { /* behind the keys: what is handed out is in one piece */
        s->out = rt_alloc_zero((size_t)n_out, sizeof *s->out);
        for (int i = 0; i < n_out; i++)
            s->out[i] = take(memory, bound * rt_field_bytes(&out[i]));
    }
    place_slot(l, s);
}

static void free_slot(Slot *s)
{
    if (s->handed != (void **)s->out)
        free(s->handed);
    if (s->out != s->raw)
        free(s->out);
    free(s->raw);
}

MpcLoader *rt_loader_new(const MpcLoaderDecl *decl, const RtSet *set, int64_t batch_size,
                         uint64_t seed, RtPrefetch prefetch, unsigned char *memory, MpcRun *run,
                         RtDevice *device, RtErr *e)
{
    if (batch_size < 1 || batch_size > decl->batch_max) {
        rt_err(e, "%s: batch size %lld is outside 1 to %lld", decl->name, (long long)batch_size,
               (long long)decl->batch_max);
        rt_hint(e, "the program's memory was planned for %lld; compile it again for more",
                (long long)decl->batch_max);
        return NULL;
    }
    MpcLoader *l = rt_alloc_zero(1, sizeof *l);
    *l = (MpcLoader){.decl = decl,
                     .set = set,
                     .batch_size = batch_size,
                     .seed = seed,
                     .pass = -1,
                     .run = run,
                     .device = device,
                     .idle = true};
    l->batches =
        decl->drop_last ? set->count / batch_size : (set->count + batch_size - 1) / batch_size;
    if (!l->batches) {
        rt_err(e, "%s: %lld samples do not fill one batch of %lld, and drop_last drops the rest",
               decl->name, (long long)set->count, (long long)batch_size);
        free(l);
        return NULL;
    }
    if (decl->sampler) {
        l->sampler = rt_sampler_new(decl->sampler, set, decl->sampled_by, decl->name, e);
        if (!l->sampler) {
            free(l);
            return NULL;
        }
        l->again = rt_alloc((size_t)set->count * sizeof *l->again);
    }
    if (decl->sampler || decl->shuffle)
        l->order = rt_alloc((size_t)set->count * sizeof *l->order);
    l->scratch = take(&memory, decl->scratch_bytes);
    make_slot(l, &l->slot[0], &memory);
    make_slot(l, &l->slot[1], &memory);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->prefetch = prefetch;
    return l;
}

void rt_loader_free(MpcLoader *l)
{
    if (!l)
        return;
    if (l->started) {
        pthread_mutex_lock(&l->lock);
        l->quit = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free_slot(&l->slot[0]);
    free_slot(&l->slot[1]);
    free(l->order);
    free(l->again);
    rt_sampler_free(l->sampler);
    free(l);
}

const MpcLoaderDecl *rt_loader_decl(const MpcLoader *l)
{
    return l->decl;
}

int64_t rt_loader_pass(const MpcLoader *l)
{
    return l->pass;
}

int64_t rt_loader_samples(const MpcLoader *l)
{
    int64_t n = l->batches * l->batch_size;
    return n < l->set->count ? n : l->set->count;
}

int64_t mpc_len(const MpcLoader *l)
{
    return l->batches;
}
