/* test_rt_thread.c: the pool: every tile once, in whatever order; sums through slots do not depend on the
 * number of threads; scratch belongs to one thread at a time. */
#include "rt_fixture.h"
#include "rt_thread.h"

#include <math.h>
#include <stdatomic.h>
#include <time.h>

enum { TILES = 4096, REGIONS = 3000, MOST_THREADS = 7 };

static atomic_int hits[TILES];

static void count(const void *args, int tile, const MpcWorker *w)
{
    (void)args;
    (void)w;
    atomic_fetch_add(&hits[tile], 1);
}

static RtPool *new_pool(int threads)
{
    RtErr e;
    static _Alignas(64) unsigned char scratch[MOST_THREADS * 4096];
    assert_true((size_t)threads * rt_pool_scratch_bytes(1000) <= sizeof scratch);
    RtPool *pool = rt_pool_new(threads, 1000, scratch, &e);
    assert_non_null(pool);
    assert_int_equal(rt_pool_threads(pool), threads);
    return pool;
}

static void every_tile_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        RtPool *pool = new_pool(threads);
        for (int region = 0; region < REGIONS; region++) {
            int tiles = region * 7919 % 70;
            MpcCall call = {count, NULL, tiles};
            for (int i = 0; i < tiles; i++)
                atomic_store(&hits[i], 0);
            rt_pool_run(pool, &call, 1);
            for (int i = 0; i < tiles; i++)
                assert_int_equal(atomic_load(&hits[i]), 1);
        }
        rt_pool_free(pool);
    }
}

typedef struct Mark {
    int base;
} Mark;

static void mark(const void *args, int tile, const MpcWorker *w)
{
    (void)w;
    atomic_fetch_add(&hits[((const Mark *)args)->base + tile], 1);
}

static void several_calls(void **state)
{
    (void)state;
    RtPool *pool = new_pool(3);
    const Mark a = {0}, b = {100}, c = {200};
    const MpcCall calls[] = {{mark, &a, 37}, {mark, &b, 0}, {mark, &b, 1}, {mark, &c, 64}};
    for (int region = 0; region < REGIONS; region++) {
        for (int i = 0; i < 300; i++)
            atomic_store(&hits[i], 0);
        rt_pool_run(pool, calls, 4);
        for (int i = 0; i < 300; i++)
            assert_int_equal(atomic_load(&hits[i]), i < 37 || i == 100 || (i >= 200 && i < 264));
    }
    rt_pool_free(pool);
}

/* ---- sums ---- */

typedef struct Sum {
    const float *x;
    float *slot;
} Sum;

static void partial(const void *args, int tile, const MpcWorker *w)
{
    const Sum *s = args;
    float *scratch = w->scratch, sum = 0;
    for (int i = 0; i < 64; i++)
        scratch[i] = s->x[tile * 64 + i] * 1.1f;
    for (int i = 0; i < 64; i++)
        sum += scratch[i];
    s->slot[tile] = sum;
}

static float sum_with(int threads)
{
    static float x[64 * TILES], slot[TILES];
    RtPool *pool = new_pool(threads);
    for (int i = 0; i < 64 * TILES; i++)
        x[i] = sinf((float)i);
    Sum s = {x, slot};
    MpcCall call = {partial, &s, TILES};
    rt_pool_run(pool, &call, 1);
    float sum = 0;
    for (int i = 0; i < TILES; i++)
        sum += slot[i];
    rt_pool_free(pool);
    return sum;
}

static void same_sum(void **state)
{
    (void)state;
    float one = sum_with(1);
    for (int threads = 2; threads <= 7; threads++) {
        float other = sum_with(threads);
        assert_memory_equal(&one, &other, sizeof one);
    }
}

/* Threads that have gone to sleep are found again. */
static void after_a_pause(void **state)
{
    (void)state;
    RtPool *pool = new_pool(4);
    for (int region = 0; region < 20; region++) {
        MpcCall call = {count, NULL, 50};
        for (int i = 0; i < 50; i++)
            atomic_store(&hits[i], 0);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        rt_pool_run(pool, &call, 1);
        for (int i = 0; i < 50; i++)
            assert_int_equal(atomic_load(&hits[i]), 1);
    }
    rt_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_once),
        cmocka_unit_test(several_calls),
        cmocka_unit_test(same_sum),
        cmocka_unit_test(after_a_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
