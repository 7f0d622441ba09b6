/* rt_profile.c: --profile: a table of kernels and a trace.
 *
 * A region's time, from the call of mpc_run to its return, is divided among its kernels by the time that threads
 * were busy with each, so that the times of all kernels add up to what the training thread spent in them. The
 * trace keeps one segment for each kernel, thread and region; when its memory is full it ends, and says so. All
 * memory is taken at the start.
 */
#include "rt_profile.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PARTS_MOST = 512, SEGMENTS_MOST = 200000, SLOTS_PER_KERNEL = 4, WARM_UP = -2, BATCH = -1 };

/* kernel: a row of the times; RtSpan of the host's track. */
typedef struct Segment {
    uint64_t begin, end, region;
    int kernel, call, tiles;
} Segment;

typedef struct Track {
    Segment *at;
    int n, cap;
} Track;

typedef struct Times {
    const MpcKernelRow *row;
    MpcKernel *function;
    bool pack;
    int64_t calls, tiles, most_tiles;
    double seconds;
} Times;

struct RtProfile {
    const MpcProgram *program;
    int threads, n_times, n_slots;
    Times *times; /* a kernel, and its packing, each */
    int *slot;    /* hash table: 1 + index into times */
    int n_tracks; /* threads, loaders, the host */
    Track *tracks;
    atomic_ullong *busy; /* ns of all threads in each call of the region */
    atomic_bool cut;     /* a track is full */
    uint64_t warm_at;
    bool warm;
    double spans[RT_SPAN_COUNT];
};

uint64_t rt_profile_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- kernels by their functions ---- */

static int slot_of(const RtProfile *p, MpcKernel *function)
{
    int i = (int)(((uintptr_t)function >> 4) * 2654435761u % (unsigned)p->n_slots);
    while (p->slot[i] && p->times[p->slot[i] - 1].function != function)
        i = (i + 1) % p->n_slots;
    return i;
}

static int kernel_of(const RtProfile *p, MpcKernel *function)
{
    return p->slot[slot_of(p, function)] - 1;
}

static void add_kernel(RtProfile *p, const MpcKernelRow *row, MpcKernel *function)
{
    int slot = slot_of(p, function);
    if (p->slot[slot])
        return;
    p->times[p->n_times] = (Times){.row = row, .function = function, .pack = function == row->pack};
    p->slot[slot] = ++p->n_times;
}

RtProfile *rt_profile_new(const MpcProgram *program, int threads)
{
    RtProfile *p = rt_alloc_zero(1, sizeof *p);
    p->program = program;
    p->threads = threads;
    p->n_slots = SLOTS_PER_KERNEL * program->n_functions + 1;
    p->slot = rt_alloc_zero((size_t)p->n_slots, sizeof *p->slot);
    p->times = rt_alloc_zero(2 * (size_t)program->n_functions + 1, sizeof *p->times);
    for (int i = 0; i < program->n_functions; i++) {
        const MpcKernelRow *row = &program->functions[i];
        add_kernel(p, row, row->function);
        if (row->pack)
            add_kernel(p, row, row->pack);
    }
    p->busy = rt_alloc_zero(PARTS_MOST, sizeof *p->busy);
    p->n_tracks = threads + program->n_loaders + 1;
    p->tracks = rt_alloc_zero((size_t)p->n_tracks, sizeof *p->tracks);
    for (int i = 0; i < p->n_tracks; i++) {
        p->tracks[i].cap = SEGMENTS_MOST / p->n_tracks;
        p->tracks[i].at = rt_alloc((size_t)p->tracks[i].cap * sizeof(Segment));
    }
    return p;
}

/* ---- taking down ---- */

static void add_segment(RtProfile *p, int track, Segment s)
{
    Track *t = &p->tracks[track];
    if (atomic_load_explicit(&p->cut, memory_order_relaxed))
        return;
    if (t->n == t->cap)
        atomic_store_explicit(&p->cut, true, memory_order_relaxed);
    else
        t->at[t->n++] = s;
}

void rt_profile_tile(RtProfile *p, int worker, uint64_t region, int c, MpcKernel *kernel,
                     uint64_t begin, uint64_t end)
{
    Track *t = &p->tracks[worker];
    Segment *last = t->n ? &t->at[t->n - 1] : NULL;
    if (c < PARTS_MOST)
        atomic_fetch_add_explicit(&p->busy[c], end - begin, memory_order_relaxed);
    if (last && last->region == region && last->call == c) {
        last->end = end;
        last->tiles++;
    } else {
        add_segment(p, worker, (Segment){begin, end, region, kernel_of(p, kernel), c, 1});
    }
}

void rt_profile_region(RtProfile *p, const MpcCall *calls, int n, uint64_t begin)
{
    uint64_t wall = rt_profile_now() - begin, all = 0;
    n = n < PARTS_MOST ? n : PARTS_MOST;
    for (int c = 0; c < n; c++)
        all += atomic_load_explicit(&p->busy[c], memory_order_relaxed);
    for (int c = 0; c < n; c++) {
        int kernel = kernel_of(p, calls[c].kernel);
        uint64_t busy = atomic_exchange_explicit(&p->busy[c], 0, memory_order_relaxed);
        if (kernel < 0 || !calls[c].tiles)
            continue;
        Times *t = &p->times[kernel];
        t->calls++;
        t->tiles += calls[c].tiles;
        t->most_tiles = calls[c].tiles > t->most_tiles ? calls[c].tiles : t->most_tiles;
        t->seconds += all ? (double)wall * 1e-9 * (double)busy / (double)all : 0;
    }
}

void rt_profile_warm(RtProfile *p)
{
    if (!p || p->warm)
        return;
    p->warm = true;
    p->warm_at = rt_profile_now();
    uint64_t first = p->warm_at;
    for (int i = 0; i < p->threads; i++)
        if (p->tracks[i].n && p->tracks[i].at[0].begin < first)
            first = p->tracks[i].at[0].begin;
    for (int i = 0; i < p->n_times; i++)
        p->times[i].calls = p->times[i].tiles = 0, p->times[i].seconds = 0;
    memset(p->spans, 0, sizeof p->spans);
    add_segment(p, p->n_tracks - 1, (Segment){first, p->warm_at, 0, WARM_UP, 0, 0});
}

/* Of the same clock as rt_seconds(). */
static uint64_t ns_of(double seconds)
{
    return (uint64_t)(seconds * 1e9);
}

void rt_profile_batch(RtProfile *p, int loader, double begin)
{
    if (p)
        add_segment(p, p->threads + loader,
                    (Segment){ns_of(begin), rt_profile_now(), 0, BATCH, 0, 0});
}

void rt_profile_span(RtProfile *p, RtSpan span, double begin)
{
    if (!p)
        return;
    uint64_t end = rt_profile_now();
    p->spans[span] += (double)end * 1e-9 - begin;
    add_segment(p, p->n_tracks - 1, (Segment){ns_of(begin), end, 0, (int)span, 0, 0});
}

/* ---- the table ---- */

static int by_time(const void *a, const void *b)
{
    const Times *x = *(Times *const *)a, *y = *(Times *const *)b;
    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : 0;
}

/* What the row counts work by, of what ran. */
static double calls_worth(const Times *t)
{
    int64_t each = t->row->tiles ? t->row->tiles : t->most_tiles;
    return each && !t->pack ? (double)t->tiles / (double)each : 0;
}

static void print_rate(FILE *out, double amount, double seconds)
{
    if (amount > 0 && seconds > 0)
        fprintf(out, " %9.2f", amount / seconds * 1e-9);
    else
        fprintf(out, " %9s", "-");
}

static void print_row(FILE *out, const Times *t, double whole)
{
    char count[RT_NUMBER_CHARS];
    double worth = calls_worth(t);
    fprintf(out, "%5.1f %% %10.3f ms %9s %9.2f us", 100 * t->seconds / whole, t->seconds * 1e3,
            rt_count_text(count, t->calls), t->seconds * 1e6 / (double)t->calls);
    print_rate(out, worth * t->row->flops, t->seconds);
    print_rate(out, worth * t->row->bytes, t->seconds);
    if (t->row->line > 0)
        fprintf(out, " %5d", t->row->line);
    else
        fprintf(out, " %5s", "-");
    fprintf(out, "  %s%s\n", t->row->name, t->pack ? " (packing)" : "");
}

static void print_part(FILE *out, const char *name, double seconds, double whole)
{
    if (seconds > 0)
        fprintf(out, "%5.1f %% %10.3f ms  %s\n", 100 * seconds / whole, seconds * 1e3, name);
}

void rt_profile_print(const RtProfile *p, FILE *out)
{
    double whole = p->warm ? (double)(rt_profile_now() - p->warm_at) * 1e-9 : 0, kernels = 0;
    Times **order = rt_alloc_zero((size_t)p->n_times + 1, sizeof *order);
    int n = 0;
    for (int i = 0; i < p->n_times; i++)
        if (p->times[i].calls)
            order[n++] = &p->times[i];
    if (!n || whole <= 0) {
        fprintf(out, "profile: nothing ran after the first step, which does not count\n");
        free(order);
        return;
    }
    qsort(order, (size_t)n, sizeof *order, by_time);
    fprintf(out, "\n%7s %13s %9s %12s %9s %9s %5s  %s\n", "share", "time", "calls", "a call",
            "GFLOP/s", "GB/s", "line", "kernel");
    for (int i = 0; i < n; i++) {
        print_row(out, order[i], whole);
        kernels += order[i]->seconds;
    }
    free(order);
    double other = whole - kernels - p->spans[RT_SPAN_wait] - p->spans[RT_SPAN_checkpoint] -
                   p->spans[RT_SPAN_report];
    fprintf(out, "\n");
    print_part(out, "kernels", kernels, whole);
    print_part(out, "waiting for batches", p->spans[RT_SPAN_wait], whole);
    print_part(out, "checkpoints", p->spans[RT_SPAN_checkpoint], whole);
    print_part(out, "report", p->spans[RT_SPAN_report], whole);
    print_part(out, "between kernels: host, log", other, whole);
    fprintf(out, "%5.1f %% %10.3f ms  from the end of the first step, on %d thread%s\n", 100.0,
            whole * 1e3, p->threads, p->threads == 1 ? "" : "s");
}

/* ---- the trace ---- */

static const char *span_name(const RtProfile *p, const Segment *s)
{
    static const char *const spans[RT_SPAN_COUNT] = {
        [RT_SPAN_wait] = "waiting for a batch",
        [RT_SPAN_evaluation] = "evaluation",
        [RT_SPAN_checkpoint] = "checkpoint",
        [RT_SPAN_report] = "report",
    };
    (void)p;
    return s->kernel == WARM_UP ? "first step (warm-up)"
           : s->kernel == BATCH ? "batch"
                                : spans[s->kernel];
}

static void put_segment(const RtProfile *p, RtJson *j, int track, const Segment *s, uint64_t zero)
{
    const Times *t = track < p->threads && s->kernel >= 0 ? &p->times[s->kernel] : NULL;
    rt_json_open(j, NULL);
    rt_json_text(j, "name",
                 t                    ? t->row->name
                 : track < p->threads ? "initial values"
                                      : span_name(p, s));
    rt_json_text(j, "ph", "X");
    rt_json_number(j, "ts", (double)(s->begin - zero) / 1000);
    rt_json_number(j, "dur", (double)(s->end - s->begin) / 1000);
    rt_json_int(j, "pid", 1);
    rt_json_int(j, "tid", track + 1);
    if (track < p->threads)
        rt_json_text(j, "cat", s->begin < p->warm_at || !p->warm ? "warm-up" : "kernel");
    if (t) {
        rt_json_open(j, "args");
        rt_json_text(j, "what", t->pack ? "packing" : t->row->what);
        rt_json_text(j, "types", t->row->types);
        rt_json_int(j, "line", t->row->line);
        rt_json_int(j, "tiles", s->tiles);
        rt_json_close(j);
    }
    rt_json_close(j);
}

static void put_name(RtJson *j, const char *kind, int tid, const char *name)
{
    rt_json_open(j, NULL);
    rt_json_text(j, "name", kind);
    rt_json_text(j, "ph", "M");
    rt_json_int(j, "pid", 1);
    rt_json_int(j, "tid", tid);
    rt_json_open(j, "args");
    rt_json_text(j, "name", name);
    rt_json_close(j);
    rt_json_close(j);
}

static void put_track_name(const RtProfile *p, RtJson *j, int track)
{
    char name[160];
    if (track < p->threads)
        snprintf(name, sizeof name, track ? "thread %d" : "thread %d (main)", track);
    else if (track < p->n_tracks - 1)
        snprintf(name, sizeof name, "%s", p->program->loaders[track - p->threads].name);
    else
        snprintf(name, sizeof name, "run");
    put_name(j, "thread_name", track + 1, name);
}

static bool put_out(RtWriter *w, RtJson *j, const char *end, RtErr *e)
{
    bool ok = rt_writer_put(w, j->text, j->length, e) && rt_writer_put(w, end, strlen(end), e);
    rt_json_start(j);
    return ok;
}

static bool put_all(const RtProfile *p, RtWriter *w, RtJson *j, RtErr *e)
{
    uint64_t zero = UINT64_MAX;
    for (int i = 0; i < p->n_tracks; i++)
        for (int k = 0; k < p->tracks[i].n; k++)
            zero = p->tracks[i].at[k].begin < zero ? p->tracks[i].at[k].begin : zero;
    static const char head[] = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    bool ok = rt_writer_put(w, head, sizeof head - 1, e);
    for (int i = 0; ok && i < p->n_tracks; i++) {
        put_track_name(p, j, i);
        ok = put_out(w, j, ",\n", e);
        for (int k = 0; ok && k < p->tracks[i].n; k++) {
            put_segment(p, j, i, &p->tracks[i].at[k], zero);
            ok = put_out(w, j, ",\n", e);
        }
    }
    put_name(j, "process_name", 0,
             atomic_load(&p->cut) ? "training (the trace was full before the run ended)"
                                  : "training");
    return ok && put_out(w, j, "\n]}\n", e);
}

bool rt_profile_write(const RtProfile *p, const char *path, RtErr *e)
{
    RtWriter w;
    RtJson j = {0};
    if (!rt_writer_open(&w, path, e))
        return false;
    rt_json_start(&j);
    bool ok = put_all(p, &w, &j, e);
    free(j.text);
    if (!ok) {
        rt_writer_abort(&w);
        return false;
    }
    return rt_writer_commit(&w, e);
}
