/* test_rt_loader.c: the order of samples, whole passes, the last batch, and that the prefetch thread changes
 * nothing; splits. */
#include "rt_fixture.h"
#include "rt_loader.h"

#include <stdbool.h>

enum { ROWS = 103, BATCH = 16, LOADERS = 8 };

static const MpcField fields[] = {
    {.name = "x", .dtype = MPC_DT_f32, .rank = 1, .dims = {3}},
    {.name = "label", .dtype = MPC_DT_i32, .rank = 0},
};
static const MpcData data = {.name = "d", .kind = MPC_DATA_csv, .fields = fields, .n_fields = 2};

static float x[ROWS][3];
static int32_t labels[ROWS];
static unsigned char *columns[2] = {(unsigned char *)x, (unsigned char *)labels};
static size_t strides[2] = {sizeof x[0], sizeof labels[0]};
static const RtTable table = {.decl = &data, .rows = ROWS, .column = columns, .stride = strides};
static const RtSet whole = {.table = &table, .count = ROWS};

static const MpcField doubled_out[] = {{.name = "x", .dtype = MPC_DT_f64, .rank = 1, .dims = {3}}};

static void doubled(const MpcPrepare *p)
{
    const float *in = p->in[0];
    double *out = p->out[0];
    assert_non_null(p->scratch);
    for (int64_t i = 0; i < 3 * p->n; i++)
        out[i] = 2 * (double)in[i];
}

static int fill_table(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i;
        for (int k = 0; k < 3; k++)
            x[i][k] = (float)(i * 10 + k);
    }
    return 0;
}

static MpcLoaderDecl decl(bool shuffle, bool drop_last, bool prepared)
{
    MpcLoaderDecl d = {.name = "l", .batch_max = 32, .shuffle = shuffle, .drop_last = drop_last};
    if (prepared) {
        d.prepare = doubled;
        d.out = doubled_out;
        d.n_out = 1;
        d.scratch_bytes = 100;
    }
    return d;
}

static MpcLoader *open_loader(const MpcLoaderDecl *d, const RtSet *set, int64_t batch,
                              bool prefetch)
{
    static _Alignas(64) unsigned char memory[LOADERS][16 << 10];
    static int used;
    RtErr e;
    assert_true(rt_loader_bytes(d, set->table->decl->fields, set->table->decl->n_fields) <=
                sizeof memory[0]);
    MpcLoader *l =
        rt_loader_new(d, set, batch, 7, prefetch, memory[used++ % LOADERS], NULL, NULL, &e);
    assert_non_null(l);
    return l;
}

/* Rows of one pass in order; checks the batches' contents on the way. */
static int one_pass(MpcLoader *l, int64_t pass, uint32_t *rows)
{
    MpcBatch b;
    int n = 0;
    mpc_loader_begin(l, 0);
    for (int64_t index = 0; mpc_loader_next(l, &b); index++) {
        const float *fx = b.field[0];
        const int32_t *fl = b.field[1];
        assert_int_equal(b.index, index);
        for (int64_t i = 0; i < b.n; i++, n++) {
            rows[n] = (uint32_t)b.rng[i];
            assert_int_equal(b.rng[i] >> 32, pass);
            assert_int_equal(fl[i], rows[n]);
            for (int k = 0; k < 3; k++)
                assert_true(fx[3 * i + k] == (float)(rows[n] * 10 + (unsigned)k));
        }
        assert_int_equal(b.n, n < ROWS ? BATCH : ROWS % BATCH);
    }
    mpc_loader_end(l);
    return n;
}

static void in_order(void **state)
{
    (void)state;
    MpcLoaderDecl d = decl(false, false, false);
    uint32_t rows[ROWS];
    for (RtPrefetch prefetch = 0; prefetch <= RT_PREFETCH_always; prefetch++) {
        MpcLoader *l = open_loader(&d, &whole, BATCH, prefetch);
        assert_int_equal(mpc_len(l), 7);
        for (int pass = 0; pass < 3; pass++) {
            assert_int_equal(one_pass(l, pass, rows), ROWS);
            for (uint32_t i = 0; i < ROWS; i++)
                assert_int_equal(rows[i], i);
        }
        rt_loader_free(l);
    }
}

static void shuffled(void **state)
{
    (void)state;
    MpcLoaderDecl d = decl(true, false, false);
    uint32_t rows[3][5][ROWS];
    for (RtPrefetch prefetch = 0; prefetch <= RT_PREFETCH_always; prefetch++) {
        MpcLoader *l = open_loader(&d, &whole, BATCH, prefetch);
        for (int pass = 0; pass < 5; pass++) {
            bool seen[ROWS] = {false};
            assert_int_equal(one_pass(l, pass, rows[prefetch][pass]), ROWS);
            for (int i = 0; i < ROWS; i++) {
                assert_false(seen[rows[prefetch][pass][i]]);
                seen[rows[prefetch][pass][i]] = true;
            }
        }
        rt_loader_free(l);
    }
    assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
    assert_memory_equal(rows[0], rows[2], sizeof rows[0]);
    assert_memory_not_equal(rows[0][0], rows[0][1], sizeof rows[0][0]);
}

static void drops_the_last(void **state)
{
    (void)state;
    MpcLoaderDecl d = decl(true, true, false);
    MpcLoader *l = open_loader(&d, &whole, BATCH, RT_PREFETCH_always);
    MpcBatch b;
    int batches = 0;
    assert_int_equal(mpc_len(l), 6);
    mpc_loader_begin(l, 0);
    for (; mpc_loader_next(l, &b); batches++)
        assert_int_equal(b.n, BATCH);
    assert_int_equal(batches, 6);
    rt_loader_free(l);
}

/* Leaving a pass early, starting the next one, two loaders in turns. */
static void broken_passes(void **state)
{
    (void)state;
    MpcLoaderDecl d = decl(true, false, true);
    for (RtPrefetch prefetch = 0; prefetch <= RT_PREFETCH_always; prefetch++) {
        MpcLoader *l = open_loader(&d, &whole, 1, prefetch),
                  *other = open_loader(&d, &whole, 32, prefetch);
        for (int pass = 0; pass < 200; pass++) {
            MpcBatch a, b;
            mpc_loader_begin(l, 0);
            for (int i = 0; i < pass % 9; i++) {
                assert_true(mpc_loader_next(l, &a));
                mpc_loader_begin(other, 0);
                assert_true(mpc_loader_next(other, &b));
                mpc_loader_end(other);
                const double *v = a.field[0];
                assert_true(v[1] == 2 * (double)((a.rng[0] & UINT32_MAX) * 10 + 1));
                assert_int_equal(a.rng[0] >> 32, pass);
            }
            mpc_loader_end(l);
            assert_false(mpc_loader_next(l, &a));
        }
        rt_loader_free(l);
        rt_loader_free(other);
    }
}

/* ---- samplers ---- */

/* Classes 0, 1, 2 with 50, 43 and 10 samples; weights of 0, 1 and 3. */
static int class_of(int row)
{
    return row < 50 ? 0 : row < 93 ? 1 : 2;
}

static void check_draws(MpcSampler kind, const double share[3])
{
    static int32_t classes[ROWS];
    static float weights[ROWS][3];
    static const MpcField two[] = {{.name = "w", .dtype = MPC_DT_f32},
                                   {.name = "label", .dtype = MPC_DT_i32}};
    const MpcData d2 = {.name = "d", .kind = MPC_DATA_csv, .fields = two, .n_fields = 2};
    unsigned char *c2[2] = {(unsigned char *)weights, (unsigned char *)classes};
    size_t s2[2] = {sizeof(float), sizeof(int32_t)};
    const RtTable t2 = {.decl = &d2, .rows = ROWS, .column = c2, .stride = s2};
    const RtSet set = {.table = &t2, .count = ROWS};
    enum { PASSES = 60 };
    static int64_t keys[RT_PREFETCH_always + 1][PASSES][ROWS];
    for (int i = 0; i < ROWS; i++) {
        classes[i] = class_of(i);
        ((float *)weights)[i] = class_of(i) == 0 ? 0 : class_of(i) == 1 ? 1 : 3;
    }
    MpcLoaderDecl d = {.name = "l",
                       .batch_max = 32,
                       .sampler = kind,
                       .sampled_by = kind == MPC_SAMPLER_balanced ? 1 : 0};
    for (RtPrefetch prefetch = 0; prefetch <= RT_PREFETCH_always; prefetch++) {
        MpcLoader *l = open_loader(&d, &set, BATCH, prefetch);
        double drawn[3] = {0}, n = (double)PASSES * ROWS;
        for (int pass = 0; pass < PASSES; pass++) {
            MpcBatch b;
            int at = 0;
            mpc_loader_begin(l, 0);
            while (mpc_loader_next(l, &b))
                for (int64_t i = 0; i < b.n; i++, at++) {
                    uint32_t row = (uint32_t)b.rng[i];
                    keys[prefetch][pass][at] = b.rng[i];
                    drawn[class_of((int)row)]++;
                    assert_int_equal(((const int32_t *)b.field[1])[i], class_of((int)row));
                    assert_int_equal(b.rng[i] >> 32 & 0xfffff, pass);
                }
            assert_int_equal(at, ROWS);
        }
        for (int k = 0; k < 3; k++) { /* within 5 deviations */
            double off = drawn[k] / n - share[k];
            assert_true(off * off <= 25 * share[k] * (1 - share[k]) / n);
        }
        /* The second half of a pass alone, as a continued run reads it. */
        rt_loader_seek(l, &(RtCursor){.batch_size = BATCH, .pass = 7, .taken = 3, .in_pass = true});
        MpcBatch b;
        assert_true(mpc_loader_next(l, &b));
        assert_memory_equal(b.rng, &keys[prefetch][7][3 * BATCH], BATCH * sizeof b.rng[0]);
        rt_loader_free(l);
    }
    assert_memory_equal(keys[0], keys[1], sizeof keys[0]);
    assert_memory_equal(keys[0], keys[2], sizeof keys[0]);
    /* No key twice in a pass: what is drawn again is augmented in another way. */
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < i; k++)
            assert_true(keys[0][0][i] != keys[0][0][k]);
}

static void samplers(void **state)
{
    (void)state;
    check_draws(MPC_SAMPLER_balanced, (double[3]){1 / 3.0, 1 / 3.0, 1 / 3.0});
    check_draws(MPC_SAMPLER_weighted, (double[3]){0, 43 / 73.0, 30 / 73.0});
}

static void no_weights(void **state)
{
    (void)state;
    MpcLoaderDecl d = {
        .name = "l", .batch_max = 32, .sampler = MPC_SAMPLER_weighted, .sampled_by = 1};
    const RtSet first = {.table = &table, .count = 1}; /* whose label is 0 */
    RtErr e;
    assert_null(rt_loader_new(&d, &first, 1, 7, RT_PREFETCH_auto, NULL, NULL, NULL, &e));
    assert_says(e.text, "l: the weights label of d add up to 0");
    char *files[] = {(char *)"a.csv", (char *)"a.csv"};
    RtTable t = table;
    t.files = files;
    const RtSet set = {.table = &t, .count = ROWS};
    labels[3] = -2;
    assert_null(rt_loader_new(&d, &set, 1, 7, RT_PREFETCH_auto, NULL, NULL, NULL, &e));
    assert_says(e.text, "row 4 (counted from 1): the weight label is -2, below 0");
    labels[3] = 3;
}

/* One sample, and a batch that is larger than the set. */
static void few_samples(void **state)
{
    (void)state;
    const RtSet one = {.table = &table, .count = 1};
    for (MpcSampler sampler = 0; sampler <= MPC_SAMPLER_balanced; sampler++) {
        MpcLoaderDecl d = {.name = "l",
                           .batch_max = 32,
                           .shuffle = sampler == MPC_SAMPLER_none,
                           .sampler = sampler,
                           .sampled_by = 1};
        MpcLoader *l = open_loader(&d, &one, 32, RT_PREFETCH_always);
        MpcBatch b;
        assert_int_equal(mpc_len(l), 1);
        mpc_loader_begin(l, 0);
        assert_true(mpc_loader_next(l, &b));
        assert_int_equal(b.n, 1);
        assert_false(mpc_loader_next(l, &b));
        rt_loader_free(l);
    }
}

static void wrong_sizes(void **state)
{
    (void)state;
    MpcLoaderDecl d = decl(false, true, false);
    RtErr e;
    assert_null(rt_loader_new(&d, &whole, 0, 7, RT_PREFETCH_auto, NULL, NULL, NULL, &e));
    assert_says(e.text, "batch size 0");
    assert_null(rt_loader_new(&d, &whole, 33, 7, RT_PREFETCH_auto, NULL, NULL, NULL, &e));
    assert_says(e.text, "outside 1 to 32");
    const RtSet small = {.table = &table, .count = 5};
    assert_null(rt_loader_new(&d, &small, 16, 7, RT_PREFETCH_auto, NULL, NULL, NULL, &e));
    assert_says(e.text, "drop_last");
}

/* ---- splits ---- */

static void splits(void **state)
{
    (void)state;
    const MpcSet decls[] = {
        {.name = "all", .data = 0, .parent = -1},
        {.name = "validation", .parent = 0, .begin = 0, .end = 0.1, .seed = 7},
        {.name = "train", .parent = 0, .begin = 0.1, .end = 1, .seed = 7},
        {.name = "inner", .parent = 2, .begin = 0.5, .end = 1, .seed = 1},
        {.name = "nothing", .parent = 1, .begin = 0, .end = 0.01, .seed = 1},
    };
    RtSet sets[5];
    RtErr e;
    bool seen[ROWS] = {false};
    for (int i = 0; i < 4; i++)
        assert_true(rt_set_make(&sets[i], &decls[i], &table, sets, &e));
    assert_int_equal(sets[0].count, ROWS);
    assert_int_equal(sets[1].count, 10);
    assert_int_equal(sets[2].count, ROWS - 10);
    for (int s = 1; s <= 2; s++)
        for (int64_t i = 0; i < sets[s].count; i++) {
            assert_true(sets[s].rows[i] < ROWS);
            assert_false(seen[sets[s].rows[i]]);
            seen[sets[s].rows[i]] = true;
            assert_true(!i || sets[s].rows[i] > sets[s].rows[i - 1]);
        }
    bool in_train[ROWS] = {false};
    for (int64_t i = 0; i < sets[2].count; i++)
        in_train[sets[2].rows[i]] = true;
    for (int64_t i = 0; i < sets[3].count; i++)
        assert_true(in_train[sets[3].rows[i]]);
    assert_false(rt_set_make(&sets[4], &decls[4], &table, sets, &e));
    assert_says(e.text, "nothing has no samples");

    /* A loader of a part hands out that part's rows. */
    MpcLoaderDecl d = decl(true, false, false);
    MpcLoader *l = open_loader(&d, &sets[1], 4, RT_PREFETCH_always);
    MpcBatch b;
    int n = 0;
    mpc_loader_begin(l, 0);
    for (; mpc_loader_next(l, &b); n += (int)b.n)
        for (int64_t i = 0; i < b.n; i++) {
            uint32_t row = ((const uint32_t *)b.field[1])[i];
            assert_false(in_train[row]);
        }
    assert_int_equal(n, 10);
    rt_loader_free(l);
    for (int i = 0; i < 4; i++)
        rt_set_free(&sets[i]);
}

/* A wrong label is reported with its row, and the value that is ignored is not. */
static void label_checks(void **state)
{
    (void)state;
    char *files[] = {(char *)"labels.gz", (char *)"labels.gz"};
    RtTable t = table;
    t.files = files;
    const RtSet set = {.table = &t, .count = ROWS};
    RtErr e;
    MpcLabelCheck check = {.field = 1, .classes = ROWS};
    assert_true(rt_check_labels(&set, &check, &e));
    check.classes = 40;
    assert_false(rt_check_labels(&set, &check, &e));
    assert_says(e.text, "row 41");
    assert_says(e.text, "label is 40");
    labels[3] = -100;
    check.classes = ROWS;
    assert_false(rt_check_labels(&set, &check, &e));
    assert_says(e.text, "label is -100");
    check.has_ignore = true;
    check.ignore = -100;
    assert_true(rt_check_labels(&set, &check, &e));
    labels[3] = 3;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),       cmocka_unit_test(shuffled),
        cmocka_unit_test(drops_the_last), cmocka_unit_test(broken_passes),
        cmocka_unit_test(wrong_sizes),    cmocka_unit_test(splits),
        cmocka_unit_test(label_checks),   cmocka_unit_test(samplers),
        cmocka_unit_test(no_weights),     cmocka_unit_test(few_samples),
    };
    return cmocka_run_group_tests(tests, fill_table, NULL);
}
