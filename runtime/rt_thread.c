/* rt_thread.c: runs the tiles of kernels on a few threads.
 *
 * A region is the list of calls of one mpc_run_many. Its tiles are claimed one by one from a single word
 * that holds (generation, next tile), so a claim can only succeed in the region it was looked up in; the
 * region ends when every tile is done, not when every thread has looked in: a thread that the system has
 * put aside holds up nobody unless it is in the middle of a tile. Two records take turns, because a late
 * thread may still read the last region's while the next one is being written.
 *
 * Waiting threads spin for some 50 microseconds, the usual gap between two kernels, and then sleep.
 * What a tile computes never depends on the thread or the order, so neither do the results.
 */
#include "rt_thread.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SPINS = 1000, CACHE_LINE = 64 };

typedef struct Region {
    _Alignas(CACHE_LINE) _Atomic(const MpcCall *) calls;
    atomic_int total;
    uint64_t number; /* for a profile */
    _Alignas(CACHE_LINE) atomic_int done;
} Region;

struct RtPool {
    _Alignas(CACHE_LINE) atomic_ullong claim; /* generation << 32 | next tile */
    Region region[2];                         /* by the generation's last bit */
    _Alignas(CACHE_LINE) atomic_int sleepers;
    atomic_bool quit;
    int threads, spins;
    uint64_t regions; /* so far */
    RtProfile *profile;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t *ids;
    MpcWorker *workers;
};

typedef struct ThreadArg {
    RtPool *pool;
    MpcWorker *worker;
} ThreadArg;

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Claims a tile of the current region; -1 when none is left. */
static int claim_tile(RtPool *pool, Region **region)
{
    unsigned long long word = atomic_load_explicit(&pool->claim, memory_order_acquire);
    for (;;) {
        Region *r = &pool->region[(word >> 32) & 1];
        int tile = (int)(uint32_t)word;
        if (tile >= atomic_load_explicit(&r->total, memory_order_relaxed))
            return -1;
        if (atomic_compare_exchange_weak_explicit(&pool->claim, &word, word + 1,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            *region = r;
            return tile;
        }
    }
}

/* Sequentially consistent, as are the store of a new claim word and both uses of `sleepers`: either a thread
 * about to sleep sees the new region, or the region's starter sees the sleeper. */
static bool work_waits(RtPool *pool)
{
    unsigned long long word = atomic_load(&pool->claim);
    Region *r = &pool->region[(word >> 32) & 1];
    return (int)(uint32_t)word < atomic_load_explicit(&r->total, memory_order_relaxed);
}

/* Works until no tile is left. A region stays as it is from the claim of a tile until `done` counts it. */
static void work_measured(RtPool *pool, const MpcWorker *worker)
{
    Region *region;
    int tile;
    while ((tile = claim_tile(pool, &region)) >= 0) {
        const MpcCall *calls = atomic_load_explicit(&region->calls, memory_order_relaxed);
        const MpcCall *call = calls;
        for (; tile >= call->tiles; call++)
            tile -= call->tiles;
        uint64_t begin = rt_profile_now();
        call->kernel(call->args, tile, worker);
        rt_profile_tile(pool->profile, worker->index, region->number, (int)(call - calls),
                        call->kernel, begin, rt_profile_now());
        atomic_fetch_add_explicit(&region->done, 1, memory_order_release);
    }
}

static void work(RtPool *pool, const MpcWorker *worker)
{
    Region *region;
    int tile;
    if (pool->profile) {
        work_measured(pool, worker);
        return;
    }
    while ((tile = claim_tile(pool, &region)) >= 0) {
        const MpcCall *call = atomic_load_explicit(&region->calls, memory_order_relaxed);
        while (tile >= call->tiles) {
            tile -= call->tiles;
            call++;
        }
        call->kernel(call->args, tile, worker);
        atomic_fetch_add_explicit(&region->done, 1, memory_order_release);
    }
}

static void sleep_until_work(RtPool *pool)
{
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!work_waits(pool) && !atomic_load(&pool->quit))
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *p)
{
    ThreadArg arg = *(ThreadArg *)p;
    free(p);
    RtPool *pool = arg.pool;
    while (!atomic_load_explicit(&pool->quit, memory_order_relaxed)) {
        bool found = false;
        for (int i = 0; i < pool->spins && !found; i++) {
            found = work_waits(pool);
            if (!found)
                relax();
        }
        if (!found)
            sleep_until_work(pool);
        work(pool, arg.worker);
    }
    return NULL;
}

static void wake_sleepers(RtPool *pool)
{
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
    }
}

static void run_alone(RtPool *pool, const MpcCall *calls, int n)
{
    for (int c = 0; c < n; c++)
        for (int tile = 0; tile < calls[c].tiles; tile++)
            calls[c].kernel(calls[c].args, tile, &pool->workers[0]);
}

static void run_alone_measured(RtPool *pool, const MpcCall *calls, int n)
{
    uint64_t number = pool->regions++;
    for (int c = 0; c < n; c++)
        for (int tile = 0; tile < calls[c].tiles; tile++) {
            uint64_t begin = rt_profile_now();
            calls[c].kernel(calls[c].args, tile, &pool->workers[0]);
            rt_profile_tile(pool->profile, 0, number, c, calls[c].kernel, begin, rt_profile_now());
        }
}

static void run_together(RtPool *pool, const MpcCall *calls, int total)
{
    unsigned long long word = atomic_load_explicit(&pool->claim, memory_order_relaxed);
    unsigned long long next = ((word >> 32) + 1) << 32;
    Region *region = &pool->region[(next >> 32) & 1];
    atomic_store_explicit(&region->calls, calls, memory_order_relaxed);
    atomic_store_explicit(&region->done, 0, memory_order_relaxed);
    atomic_store_explicit(&region->total, total, memory_order_relaxed);
    region->number = pool->regions++;
    atomic_store(&pool->claim, next);
    wake_sleepers(pool);

    work(pool, &pool->workers[0]);
    for (int i = 0; atomic_load_explicit(&region->done, memory_order_acquire) < total; i++) {
        if (i < SPINS)
            relax();
        else
            sched_yield(); /* the thread with the last tile may be waiting for this CPU */
    }
}

void rt_pool_run(RtPool *pool, const MpcCall *calls, int n)
{
    uint64_t begin = pool->profile ? rt_profile_now() : 0;
    int total = 0;
    for (int c = 0; c < n; c++)
        total += calls[c].tiles;
    if (total > 1 && pool->threads > 1)
        run_together(pool, calls, total);
    else if (pool->profile)
        run_alone_measured(pool, calls, n);
    else
        run_alone(pool, calls, n);
    if (pool->profile)
        rt_profile_region(pool->profile, calls, n, begin);
}

void rt_pool_profile(RtPool *pool, RtProfile *profile)
{
    pool->profile = profile;
}

bool rt_thread_start(void *thread, void *(*start)(void *), void *arg, RtErr *e)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(thread, NULL, start, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error) {
        errno = error;
        return rt_err_errno(e, "cannot start a thread");
    }
    return true;
}

size_t rt_pool_scratch_bytes(size_t scratch_bytes)
{
    return (scratch_bytes + 4095) / 4096 * 4096;
}

RtPool *rt_pool_new(int threads, size_t scratch_bytes, unsigned char *scratch, RtErr *e)
{
    RtPool *pool = rt_alloc_aligned(sizeof *pool);
    memset(pool, 0, sizeof *pool);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    size_t each = rt_pool_scratch_bytes(scratch_bytes);
    pool->workers = rt_alloc_zero((size_t)threads, sizeof *pool->workers);
    pool->ids = rt_alloc_zero((size_t)threads, sizeof *pool->ids);
    /* With more threads than CPUs, a spinning thread would keep a working one from running. */
    pool->spins = threads <= rt_cpus() ? SPINS : 0;
    pool->threads = 1;
    for (int i = 0; i < threads; i++)
        pool->workers[i] = (MpcWorker){.index = i, .scratch = scratch + (size_t)i * each};
    for (int i = 1; i < threads; i++) {
        ThreadArg *arg = rt_alloc(sizeof *arg);
        *arg = (ThreadArg){pool, &pool->workers[i]};
        if (!rt_thread_start(&pool->ids[i], worker_main, arg, e)) {
            free(arg);
            rt_pool_free(pool);
            return NULL;
        }
        pool->threads = i + 1;
    }
    return pool;
}

void rt_pool_free(RtPool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->quit, true);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i < pool->threads; i++)
        pthread_join(pool->ids[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->ids);
    free(pool->workers);
    free(pool);
}

int rt_pool_threads(const RtPool *pool)
{
    return pool->threads;
}

/* cpu.max of the control group: "quota period", or "max period". */
static int quota_cpus(int cpus)
{
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    long quota, period;
    if (f) {
        if (fscanf(f, "%ld %ld", &quota, &period) == 2 && quota > 0 && period > 0) {
            long whole = (quota + period - 1) / period;
            if (whole < cpus)
                cpus = (int)whole;
        }
        fclose(f);
    }
    return cpus;
}

int rt_cpus(void)
{
    int cpus = 0;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cpus = CPU_COUNT(&set);
    else
        cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return quota_cpus(cpus > 0 ? cpus : 1);
}
