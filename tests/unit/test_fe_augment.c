/* Augmentation: what the preparation of a batch computes, against plain loops over the same random numbers; what
 * it is in evaluation; that a sample is changed alike wherever it stands in a batch. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "ir/base/strutil.h"
#include "runtime/abi/philox.h"

enum { N = 40, C = 2, H = 5, W = 7, SIZE = C * H * W, CLASSES = 4 };

static const uint64_t seed = 11;

typedef struct Prepared {
    Arena *arena;
    const Graph *g;
    int n;
    const int *rows; /* of the batch */
    int64_t epoch;
    Value **v;
} Prepared;

static double pixel(int row, int at)
{
    return (row * 37 + at * 11) % 251;
}

static int label_of(int row)
{
    return row % CLASSES;
}

static Value *argument(void *ctx, const Graph *g, const Node *n)
{
    const Prepared *p = ctx;
    (void)g;
    int64_t dims[MAX_RANK];
    for (int i = 0; i < n->dims.rank; i++) {
        dims[i] = i == 0 ? p->n : n->dims.d[i].k;
    }
    Value *v = value_new(p->arena, n->dtype, n->dims.rank, dims);
    const char *field = attrs_str(&n->attrs, ATTR_batch);
    for (int64_t i = 0; i < v->count; i++) {
        int row = p->rows[i / (v->count / p->n)];
        v->v[i] = field == NULL        ? (double)(p->epoch << 32 | row)
                  : str_eq(field, "y") ? label_of(row)
                                       : pixel(row, (int)(i % SIZE));
    }
    return v;
}

static const char *const program_text =
    "data s = bin(\"s.bin\") -> (x: f32[2, 5, 7], y: u8)\n"
    "batch of s {\n"
    "    padded = pad(x, [1, 2, 3, 0], 9)\n"
    "    crop = random_crop(x, 3, 4)\n"
    "    crop2 = random_crop(x, [5, 7], padding = 1)\n"
    "    left = random_flip(x)\n"
    "    up = random_vertical_flip(x, p = 0.25)\n"
    "    turned = random_rotate(x, 180, fill = 5)\n"
    "    smooth = random_rotation(x, [10, 30], interpolation = \"bilinear\")\n"
    "    quarter = random_rotation(x[:, :, :, 0..5], [90, 90])\n"
    "    bytes = random_rotation(u8(x), [10, 30], interpolation = \"bilinear\")\n"
    "    u, soft = mixup(x, y, alpha = 0.3, num_classes = 4)\n"
    "    a, b = mixup(x, y, alpha = 2.0, num_classes = 4)\n"
    "}\n"
    "for batch in loader(s, batch_size = 64) { log(m = mean(batch.crop)) }\n"
    "m = evaluate(s, batch_size = 64) { mean(batch.crop) }\n"
    "loss, share = evaluate(s, batch_size = 64) {\n"
    "    logits = flatten(batch.x, 1)[:, 0..4] / 50\n"
    "    cross_entropy(logits, batch.soft, label_smoothing = 0.1), accuracy(logits, batch.soft)\n"
    "}\n";

static Prepared run_graph(const char *graph, int n, const int *rows, int64_t epoch)
{
    Prepared p = {.arena = arena_new(), .n = n, .rows = rows, .epoch = epoch};
    Diag *d = diag_new(p.arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
    AstFile *file = frontend_parse(
        p.arena, d, source_from_text(p.arena, "t.mpt", program_text, strlen(program_text)));
    Module *m = diag_failed(d) ? NULL : frontend_lower(p.arena, d, file, NULL);
    if (m == NULL || !module_verify(m, d)) {
        fail_msg("%s", diag_text(d));
    }
    p.g = module_find_graph(m, graph);
    assert_non_null(p.g);
    Interp in = {.mode = INTERP_typed,
                 .module = m,
                 .arena = p.arena,
                 .seed = seed,
                 .syms = {n},
                 .arg = argument,
                 .ctx = &p};
    p.v = interp_graph(&in, p.g, NULL);
    return p;
}

static Prepared prepare(bool training, int n, const int *rows, int64_t epoch)
{
    return run_graph(training ? "prepare_s" : "prepare_s_eval", n, rows, epoch);
}

static const Value *field(const Prepared *p, const char *name)
{
    for (int i = 0; i < p->g->nresults; i++) {
        if (str_eq(p->g->results[i].name, name)) {
            return p->v[p->g->results[i].value->id];
        }
    }
    fail_msg("no field %s", name);
    return NULL;
}

static double drawn(const Prepared *p, const char *path, int sample, int k)
{
    return (double)mpc_uniform(seed, mpc_path_hash(path), p->epoch << 32 | p->rows[sample], k);
}

static const int *some_rows(void)
{
    static int rows[N];
    for (int i = 0; i < N; i++) {
        rows[i] = (i * 29 + 3) % 100;
    }
    return rows;
}

/* The sample's pixel, or what is outside. */
static double at(int row, int c, int y, int x, double outside)
{
    return y < 0 || y >= H || x < 0 || x >= W ? outside : pixel(row, (c * H + y) * W + x);
}

typedef double Reference(const Prepared *p, int sample, int c, int y, int x);

static double ref_padded(const Prepared *p, int s, int c, int y, int x)
{
    return at(p->rows[s], c, y - 2, x - 1, 9);
}

static double ref_crop(const Prepared *p, int s, int c, int y, int x)
{
    int down = (int)(drawn(p, "random_crop", s, 0) * (H - 3 + 1));
    int right = (int)(drawn(p, "random_crop", s, 1) * (W - 4 + 1));
    return at(p->rows[s], c, y + down, x + right, 0);
}

static double ref_crop2(const Prepared *p, int s, int c, int y, int x)
{
    int down = (int)(drawn(p, "random_crop#2", s, 0) * 3);
    int right = (int)(drawn(p, "random_crop#2", s, 1) * 3);
    return at(p->rows[s], c, y + down - 1, x + right - 1, 0);
}

static double ref_left(const Prepared *p, int s, int c, int y, int x)
{
    bool flip = drawn(p, "random_flip", s, 0) < 0.5;
    return at(p->rows[s], c, y, flip ? W - 1 - x : x, 0);
}

static double ref_up(const Prepared *p, int s, int c, int y, int x)
{
    bool flip = drawn(p, "random_vertical_flip", s, 0) < 0.25;
    return at(p->rows[s], c, flip ? H - 1 - y : y, x, 0);
}

/* Where the pixel (y, x) comes from when the picture is turned counter-clockwise: torchvision's rotate. */
static void turned_from(double angle, int y, int x, int w, double *from_y, double *from_x)
{
    double cy = y - (H - 1) / 2.0, cx = x - (w - 1) / 2.0, a = angle * acos(-1) / 180;
    *from_x = cos(a) * cx - sin(a) * cy + (w - 1) / 2.0;
    *from_y = sin(a) * cx + cos(a) * cy + (H - 1) / 2.0;
}

static double ref_turned(const Prepared *p, int s, int c, int y, int x)
{
    double fy, fx;
    turned_from(360 * drawn(p, "random_rotate", s, 0) - 180, y, x, W, &fy, &fx);
    return at(p->rows[s], c, (int)floor(fy + 0.5), (int)floor(fx + 0.5), 5);
}

static double ref_quarter(const Prepared *p, int s, int c, int y, int x)
{
    return at(p->rows[s], c, x, 4 - y, 0); /* 5 by 5: counter-clockwise, the right side goes up */
}

static double smooth(const Prepared *p, const char *path, int s, int c, int y, int x)
{
    double fy, fx;
    turned_from(20 * drawn(p, path, s, 0) + 10, y, x, W, &fy, &fx);
    int y0 = (int)floor(fy), x0 = (int)floor(fx), row = p->rows[s];
    double dy = fy - y0, dx = fx - x0;
    double above = at(row, c, y0, x0, 0) * (1 - dx) + at(row, c, y0, x0 + 1, 0) * dx;
    double below = at(row, c, y0 + 1, x0, 0) * (1 - dx) + at(row, c, y0 + 1, x0 + 1, 0) * dx;
    return above * (1 - dy) + below * dy;
}

static double ref_smooth(const Prepared *p, int s, int c, int y, int x)
{
    return smooth(p, "random_rotation", s, c, y, x);
}

static double ref_bytes(const Prepared *p, int s, int c, int y, int x)
{
    return floor(smooth(p, "random_rotation#3", s, c, y, x) + 0.5);
}

/* Off: how much a pixel may differ; wrong: how many may differ by more (those at a tie of rounding). */
static void check(const Prepared *p, const char *name, int h, int w, Reference *ref, double off,
                  int wrong)
{
    const Value *v = field(p, name);
    int bad = 0;
    assert_int_equal(v->count, p->n * C * h * w);
    for (int i = 0; i < v->count; i++) {
        int x = i % w, y = i / w % h, c = i / w / h % C, s = i / w / h / C;
        double want = ref(p, s, c, y, x);
        if (!(fabs(v->v[i] - want) <= off) && ++bad > wrong) {
            fail_msg("%s[%d, %d, %d, %d]: %g, not %g", name, s, c, y, x, v->v[i], want);
        }
    }
}

static void images_are_the_references(void **state)
{
    (void)state;
    Prepared p = prepare(true, N, some_rows(), 3);
    check(&p, "padded", H + 2, W + 4, ref_padded, 0, 0);
    check(&p, "crop", 3, 4, ref_crop, 0, 0);
    check(&p, "crop2", H, W, ref_crop2, 0, 0);
    check(&p, "left", H, W, ref_left, 0, 0);
    check(&p, "up", H, W, ref_up, 0, 0);
    check(&p, "turned", H, W, ref_turned, 0, 2);
    check(&p, "quarter", 5, 5, ref_quarter, 0, 0);
    check(&p, "smooth", H, W, ref_smooth, 0.01, 0);
    check(&p, "bytes", H, W, ref_bytes, 0, 4);
    arena_free(p.arena);
}

/* Nothing random: pictures as they are, a crop from the middle, labels as probabilities. */
static void evaluation_is_plain(void **state)
{
    (void)state;
    Prepared p = prepare(false, N, some_rows(), 3);
    static const char *const same[] = {"crop2", "left", "up", "turned", "smooth", "u", "a"};
    for (size_t k = 0; k < sizeof same / sizeof same[0]; k++) {
        const Value *v = field(&p, same[k]);
        assert_int_equal(v->count, N * SIZE);
        for (int i = 0; i < v->count; i++) {
            assert_true(v->v[i] == pixel(p.rows[i / SIZE], i % SIZE));
        }
    }
    check(&p, "padded", H + 2, W + 4, ref_padded, 0, 0);
    const Value *crop = field(&p, "crop"), *soft = field(&p, "soft");
    for (int i = 0; i < crop->count; i++) {
        int x = i % 4, y = i / 4 % 3, c = i / 12 % C, s = i / 12 / C;
        assert_true(crop->v[i] == at(p.rows[s], c, y + 1, x + 2, 0)); /* 1.5 is rounded to even */
    }
    for (int i = 0; i < soft->count; i++) {
        assert_true(soft->v[i] == (label_of(p.rows[i / CLASSES]) == i % CLASSES));
    }
    arena_free(p.arena);
}

/* Every row is a mixture of its own and the next one by one share, for picture and label alike; the shares are
 * those of Beta(alpha, alpha): symmetric, with its variance. */
static void mixup_mixes(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    static int rows[MANY];
    for (int i = 0; i < MANY; i++) {
        rows[i] = i;
    }
    Prepared p = prepare(true, MANY, rows, 0);
    const Value *x = field(&p, "u"), *soft = field(&p, "soft"), *other = field(&p, "b");
    double sum[2] = {0}, squares[2] = {0};
    for (int i = 0; i < MANY; i++) {
        int next = (i + 1) % MANY;
        double share[2] = {soft->v[i * CLASSES + label_of(i)], other->v[i * CLASSES + label_of(i)]};
        if (label_of(i) == label_of(next)) {
            assert_float_equal(share[0], 1, 1e-6);
            continue;
        }
        assert_float_equal(soft->v[i * CLASSES + label_of(next)], 1 - share[0], 1e-6);
        for (int k = 0; k < SIZE; k++) {
            double want = share[0] * pixel(i, k) + (1 - share[0]) * pixel(next, k);
            assert_float_equal(x->v[i * SIZE + k], want, 1e-3);
        }
        for (int k = 0; k < 2; k++) {
            assert_true(share[k] >= 0 && share[k] <= 1);
            sum[k] += share[k];
            squares[k] += (share[k] - 0.5) * (share[k] - 0.5);
        }
    }
    /* Within 5 deviations of the mean and of the variance 1 / (4 (2 alpha + 1)). */
    double alpha[2] = {0.3, 2};
    for (int k = 0; k < 2; k++) {
        double variance = 1 / (4 * (2 * alpha[k] + 1));
        assert_float_equal(sum[k] / MANY, 0.5, 5 * sqrt(variance / MANY));
        assert_float_equal(squares[k] / MANY, variance, 5 * 0.125 / sqrt(MANY));
    }
    arena_free(p.arena);
}

/* What a sample becomes depends on the sample and the epoch, not on its batch. */
static void keyed_by_sample(void **state)
{
    (void)state;
    int turned[N];
    for (int i = 0; i < N; i++) {
        turned[i] = some_rows()[N - 1 - i];
    }
    Prepared p = prepare(true, N, some_rows(), 3), q = prepare(true, N, turned, 3);
    Prepared later = prepare(true, N, some_rows(), 4);
    static const char *const names[] = {"crop", "crop2", "left", "up", "turned", "smooth"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        const Value *a = field(&p, names[k]), *b = field(&q, names[k]);
        const Value *c = field(&later, names[k]);
        size_t each = (size_t)a->count / N, bytes = each * sizeof(double);
        int moved = 0;
        for (size_t i = 0; i < N; i++) {
            assert_memory_equal(a->v + i * each, b->v + (N - 1 - i) * each, bytes);
            moved += memcmp(a->v + i * each, c->v + i * each, bytes) != 0;
        }
        assert_true(moved > N / 8);
    }
    arena_free(p.arena);
    arena_free(q.arena);
    arena_free(later.arena);
}

/* Labels that are probabilities (here: any numbers), smoothed; logits are the sample's first pixels / 50. */
static void losses_of_probabilities(void **state)
{
    (void)state;
    Prepared p = run_graph("eval_2", N, some_rows(), 3);
    double loss = 0, hits = 0;
    for (int i = 0; i < N; i++) {
        double x[CLASSES], t[CLASSES], sum = 0;
        int best_x = 0, best_t = 0;
        for (int k = 0; k < CLASSES; k++) {
            x[k] = pixel(p.rows[i], k) / 50;
            t[k] = pixel(p.rows[i], (i * CLASSES + k) % SIZE);
            sum += exp(x[k]);
            best_x = x[k] > x[best_x] ? k : best_x;
            best_t = t[k] > t[best_t] ? k : best_t;
        }
        for (int k = 0; k < CLASSES; k++) {
            loss -= (0.9 * t[k] + 0.1 / CLASSES) * (x[k] - log(sum)) / N;
        }
        hits += best_x == best_t;
    }
    assert_float_equal(field(&p, "loss")->v[0], loss, 1e-5 * loss);
    assert_float_equal(field(&p, "share")->v[0], hits / N, 1e-6);
    assert_true(hits > 0 && hits < N);
    arena_free(p.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_the_references),
        cmocka_unit_test(evaluation_is_plain),
        cmocka_unit_test(mixup_mixes),
        cmocka_unit_test(keyed_by_sample),
        cmocka_unit_test(losses_of_probabilities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
