/* gemm_bench.c: how near the contraction kernels come to the machine's own limit.
 *
 * For each shape, type and number of threads: packing and computing together as a generated program does
 * them (two runs over claimed tiles, result stored in f32), against the rate of bare multiply-adds of the
 * same instruction set, measured in turn with it in the same process. The ratio is what to compare
 * between machines; its median survives a noisy one.
 *
 *     gemm_bench [-t THREADS] [-r ROUNDS] [FORM M N K]...     FORM: NN NT TN TT, A's and B's; default a list
 */
#include "kernels/gemm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_THREADS = 64, MAX_ROUNDS = 101 };

typedef struct Job {
    const char *form;
    int64_t m, n, k;
    int dtype; /* 0 f32, 1 f16, 2 bf16 */
    const void *x, *y;
    float *a, *b, *c;
} Job;

typedef void Kernel(const Job *job, int64_t tile, float *scratch);

/* --- threads: spin for work, claim tiles ----------------------------------------------------- */

static struct {
    int threads;
    Kernel *kernel;
    const Job *job;
    int64_t tiles;
    float *scratch[MAX_THREADS]; /* each thread's own */
    atomic_long next, generation, done;
} pool;

static void work(float *scratch)
{
    for (int64_t tile; (tile = atomic_fetch_add(&pool.next, 1)) < pool.tiles;)
        pool.kernel(pool.job, tile, scratch);
}

static void *worker(void *scratch)
{
    long seen = 0;

    for (;;) {
        while (atomic_load_explicit(&pool.generation, memory_order_acquire) == seen)
            ;
        seen++;
        if (pool.tiles < 0)
            return NULL;
        work(scratch);
        atomic_fetch_add(&pool.done, 1);
    }
}

static void run(const Job *job, Kernel *kernel, int64_t tiles)
{
    pool.kernel = kernel;
    pool.job = job;
    pool.tiles = tiles;
    atomic_store(&pool.next, 0);
    atomic_store(&pool.done, 0);
    atomic_fetch_add_explicit(&pool.generation, 1, memory_order_release);
    if (tiles < 0)
        return;
    work(pool.scratch[0]);
    while (atomic_load(&pool.done) < pool.threads - 1)
        ;
}

/* --- what is measured -------------------------------------------------------------------------- */

static void operands(const Job *job, const MpcGemm *g)
{
    int64_t am = job->form[0] == 'N' ? job->k : 1, ak = job->form[0] == 'N' ? 1 : job->m;
    int64_t bk = job->form[1] == 'N' ? job->n : 1, bn = job->form[1] == 'N' ? 1 : job->k;

    switch (job->dtype) {
    case 0:
        mpc_pack_a_f32(g, job->x, am, ak);
        mpc_pack_b_f32(g, job->y, bk, bn);
        return;
    case 1:
        mpc_pack_a_f16(g, job->x, am, ak);
        mpc_pack_b_f16(g, job->y, bk, bn);
        return;
    default: mpc_pack_a_bf16(g, job->x, am, ak); mpc_pack_b_bf16(g, job->y, bk, bn);
    }
}

static void pack(const Job *job, int64_t tile, float *scratch)
{
    const MpcGemm g = mpc_gemm_pack(job->m, job->n, job->k, tile, job->a, job->b);

    (void)scratch;
    operands(job, &g);
}

static void compute(const Job *job, int64_t tile, float *scratch)
{
    const MpcGemm g = mpc_gemm_tile(job->m, job->n, job->k, tile, job->a, job->b, scratch);
    MpcTile t;

    operands(job, &g);
    for (mpc_tile_open(&t, &g); mpc_tile_next(&t);)
        for (int i = 0; i < t.m; i++)
            for (int j = 0; j < t.n; j++)
                job->c[(t.i + i) * job->n + t.j + j] = t.acc[i][j];
}

enum { CHAINS = MPC_VL == 16 ? 24 : MPC_VL == 8 ? 12 : 8, FMA_STEPS = 20000, FMA_TILES = 16 };

/* Independent chains of multiply-adds, enough to hide their latency. */
static void fma_peak(const Job *job, int64_t tile, float *scratch)
{
    mpc_vf c[CHAINS], x = vf_set1(0.999f), y = vf_set1(0.001f * (float)tile);

    MPC_UNROLL
    for (int i = 0; i < CHAINS; i++)
        c[i] = vf_set1((float)i);
    for (int step = 0; step < FMA_STEPS; step++) {
        MPC_UNROLL
        for (int i = 0; i < CHAINS; i++)
            c[i] = vf_fma(c[i], x, y);
    }
    MPC_UNROLL
    for (int i = 1; i < CHAINS; i++)
        c[0] = vf_add(c[0], c[i]);
    vf_storeu(scratch, c[0]);
    (void)job;
}

/* --- measuring --------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

static void *room(int64_t bytes)
{
    void *p = aligned_alloc(64, (size_t)((bytes + 4096) / 64 * 64));

    if (!p) {
        fprintf(stderr, "gemm_bench: out of memory\n");
        exit(1);
    }
    memset(p, 0, (size_t)bytes);
    return p;
}

static void *operand(int64_t count, int dtype)
{
    uint32_t seed = 1;
    float *f = room(count * 4);
    uint16_t *h = (uint16_t *)f;

    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;

        float v = (float)(seed >> 8) * 0x1p-24f - 0.5f;

        if (dtype == 0)
            f[i] = v;
        else
            h[i] = dtype == 1 ? mpc_f32_to_f16(v) : mpc_f32_to_bf16(v);
    }
    return f;
}

static double pack_share; /* of the last measured job's time */

static void measure(Job *job, int rounds)
{
    static double rate[MAX_ROUNDS], peak[MAX_ROUNDS], ratio[MAX_ROUNDS], packing[MAX_ROUNDS];
    const MpcGemm g = mpc_gemm(job->m, job->n, job->k);
    double flops = 2.0 * (double)job->m * (double)job->n * (double)job->k;
    double fma = 2.0 * CHAINS * MPC_VL * FMA_STEPS * FMA_TILES;
    int repeat = (int)(1e9 / flops) + 1;

    for (int r = -1; r < rounds; r++) {
        double start = now(), mid, end, in_pack = 0;

        run(job, fma_peak, FMA_TILES);
        mid = now();
        for (int i = 0; i < repeat; i++) {
            double t = now();

            if (g.pack_tiles > 0)
                run(job, pack, g.pack_tiles);
            in_pack += now() - t;
            run(job, compute, g.tiles);
        }
        end = now();
        if (r < 0)
            continue;
        peak[r] = fma / (mid - start) * 1e-9;
        rate[r] = flops * repeat / (end - mid) * 1e-9;
        ratio[r] = rate[r] / peak[r];
        packing[r] = in_pack / (end - mid);
    }
    pack_share = median(packing, rounds);
    printf("%-5s %2d thread%s  %s %5lld x %5lld x %5lld  %7.1f GFLOP/s  %5.1f us  peak %6.1f  "
           "ratio %.2f  packing %2.0f %%\n",
           job->dtype == 0   ? "f32"
           : job->dtype == 1 ? "f16"
                             : "bf16",
           pool.threads, pool.threads == 1 ? " " : "s", job->form, (long long)job->m,
           (long long)job->n, (long long)job->k, median(rate, rounds),
           flops / median(rate, rounds) * 1e-3, median(peak, rounds), median(ratio, rounds),
           100 * pack_share);
    fflush(stdout);
}

static void measure_shape(const char *form, int64_t m, int64_t n, int64_t k, int rounds)
{
    for (int dtype = 0; dtype < 3; dtype++) {
        Job job = {.form = form, .m = m, .n = n, .k = k, .dtype = dtype};
        void *x = operand(m * k, dtype), *y = operand(k * n, dtype);

        job.x = x;
        job.y = y;
        job.a = room(MPC_GEMM_A_BYTES(MPC_ISA, m, n, k));
        job.b = room(MPC_GEMM_B_BYTES(MPC_ISA, m, n, k));
        job.c = room(m * n * 4);
        measure(&job, rounds);
        free(x);
        free(y);
        free(job.a);
        free(job.b);
        free(job.c);
    }
}

/* The layers of a 784-512-512-10 network at batch 128: forward, input's and weight's gradient; squares. */
static const struct {
    const char *form;
    int m, n, k;
} shapes[] = {{"NT", 128, 512, 784}, {"NT", 128, 512, 512}, {"NT", 128, 10, 512},
              {"NN", 128, 512, 512}, {"TN", 512, 784, 128}, {"TN", 512, 512, 128},
              {"NN", 512, 512, 512}, {"NT", 512, 512, 512}, {"NN", 1024, 1024, 1024}};

int main(int argc, char **argv)
{
    int only = 0, rounds = 15, arg = 1;
    pthread_t id[MAX_THREADS];

    for (; arg + 1 < argc && argv[arg][0] == '-'; arg += 2)
        *(argv[arg][1] == 't' ? &only : &rounds) = atoi(argv[arg + 1]);
    if (rounds < 1 || rounds > MAX_ROUNDS || only < 0 || only > MAX_THREADS || (argc - arg) % 4) {
        fprintf(stderr, "usage: gemm_bench [-t THREADS] [-r ROUNDS] [FORM M N K]...\n");
        return 2;
    }
    for (int i = 0; i < (only > 2 ? only : 2); i++)
        pool.scratch[i] = room(MPC_GEMM_OWN_BYTES(MPC_ISA, MPC_GEMM_OWN_K));
    for (int threads = only ? only : 1; threads <= (only ? only : 2); threads++) {
        pool.threads = threads;
        atomic_store(&pool.generation, 0);
        for (int i = 1; i < threads; i++)
            pthread_create(&id[i], NULL, worker, pool.scratch[i]);
        for (int i = arg; i < argc; i += 4)
            measure_shape(argv[i], atol(argv[i + 1]), atol(argv[i + 2]), atol(argv[i + 3]), rounds);
        for (size_t i = 0; arg == argc && i < sizeof shapes / sizeof *shapes; i++)
            measure_shape(shapes[i].form, shapes[i].m, shapes[i].n, shapes[i].k, rounds);
        run(NULL, NULL, -1);
        for (int i = 1; i < threads; i++)
            pthread_join(id[i], NULL);
    }
    return 0;
}
