/* test_rt_metrics.c: the metrics of an evaluation against values worked out by hand, at the edges where
 * definitions differ (scikit-learn's hold), and the same bits for any batches. */
#include "rt_fixture.h"
#include "rt_run.h"

#include <math.h>
#include <string.h>

enum { CELLS = 64 };

/* One metric of n rows, `batch` at a time. */
static double of_rows(MpcMetric m, const void *a, const void *b, size_t size_a, size_t size_b,
                      int64_t n, int64_t batch)
{
    double cells[CELLS] = {0};
    assert_true(rt_metric_cells(&m) <= CELLS);
    for (int64_t at = 0; at < n; at += batch) {
        int64_t rows = n - at < batch ? n - at : batch;
        MpcSeen seen = {
            .row = {(const char *)a + (size_t)at * size_a, (const char *)b + (size_t)at * size_b},
            .rows = rows};
        rt_metric_add(cells, &m, &seen, rows);
    }
    return rt_metric_value(cells, &m, n);
}

static double of_classes(MpcMetricKind kind, MpcAverage average, int64_t classes,
                         const int64_t *answer, const int64_t *label, int64_t n)
{
    MpcMetric m = {.kind = kind, .average = average, .n = classes};
    double whole = of_rows(m, answer, label, 8, 8, n, n);
    for (int64_t batch = 1; batch < n; batch++) {
        double parts = of_rows(m, answer, label, 8, 8, n, batch);
        assert_memory_equal(&whole, &parts, sizeof whole);
    }
    return whole;
}

#define CLOSE(a, b) assert_true(fabs((a) - (b)) <= 1e-15 * 4)

/* Class 3 is neither label nor answer: macro leaves it out. Class 2 is never an answer: its precision is 0. */
static void averages(void **state)
{
    (void)state;
    static const int64_t answer[] = {0, 1, 1, 0, 0, 1}, label[] = {0, 1, 0, 0, 2, 1};
    enum { N = 6 };
    CLOSE(of_classes(MPC_METRIC_precision, MPC_AVERAGE_macro, 4, answer, label, N),
          (2.0 / 3 + 2.0 / 3 + 0) / 3);
    CLOSE(of_classes(MPC_METRIC_recall, MPC_AVERAGE_macro, 4, answer, label, N),
          (2.0 / 3 + 1 + 0) / 3);
    CLOSE(of_classes(MPC_METRIC_f1, MPC_AVERAGE_macro, 4, answer, label, N),
          (2.0 / 3 + 0.8 + 0) / 3);
    CLOSE(of_classes(MPC_METRIC_f1, MPC_AVERAGE_micro, 4, answer, label, N), 4.0 / 6);
    CLOSE(of_classes(MPC_METRIC_f1, MPC_AVERAGE_weighted, 4, answer, label, N),
          (3 * 2.0 / 3 + 2 * 0.8) / 6);
    CLOSE(of_classes(MPC_METRIC_matthews_correlation, 0, 4, answer, label, N),
          (4 * 6 - (3 * 3 + 3 * 2)) / sqrt((36.0 - 18) * (36 - 14)));
}

static void binary(void **state)
{
    (void)state;
    static const int64_t answer[] = {1, 1, 0, 0, 1}, label[] = {1, 0, 0, 1, 1};
    static const int64_t none[] = {0, 0, 0, 0, 0};
    CLOSE(of_classes(MPC_METRIC_precision, MPC_AVERAGE_binary, 2, answer, label, 5), 2.0 / 3);
    CLOSE(of_classes(MPC_METRIC_recall, MPC_AVERAGE_binary, 2, answer, label, 5), 2.0 / 3);
    CLOSE(of_classes(MPC_METRIC_matthews_correlation, 0, 2, answer, label, 5), 1.0 / 6);
    /* nothing is answered with class 1: 0, not a division by zero */
    CLOSE(of_classes(MPC_METRIC_precision, MPC_AVERAGE_binary, 2, none, label, 5), 0);
    CLOSE(of_classes(MPC_METRIC_f1, MPC_AVERAGE_binary, 2, none, none, 5), 0);
    CLOSE(of_classes(MPC_METRIC_matthews_correlation, 0, 2, none, label, 5), 0);
}

/* An answer of -1 comes from logits that are not numbers; a label of -100 does not count. */
static void nan_and_ignored(void **state)
{
    (void)state;
    static const int64_t bad[] = {1, -1, 0}, answer[] = {1, 1, 0}, label[] = {1, 0, 0};
    static const int64_t some[] = {1, -100, 0};
    assert_true(isnan(of_classes(MPC_METRIC_f1, MPC_AVERAGE_macro, 2, bad, label, 3)));
    assert_true(isnan(of_classes(MPC_METRIC_matthews_correlation, 0, 2, bad, label, 3)));
    CLOSE(of_classes(MPC_METRIC_f1, MPC_AVERAGE_macro, 2, answer, some, 3), 1);
    static const double loss[] = {1, 100, 3};
    MpcMetric m = {.kind = MPC_METRIC_perplexity};
    CLOSE(of_rows(m, loss, some, 8, 8, 3, 2) / exp(2), 1);
}

static double of_numbers(MpcMetricKind kind, const double *x, const double *y, int64_t each,
                         int64_t n)
{
    MpcMetric m = {.kind = kind, .n = each};
    size_t size = 8 * (size_t)each;
    double whole = of_rows(m, x, y, size, size, n, n), parts = of_rows(m, x, y, size, size, n, 1);
    assert_memory_equal(&whole, &parts, sizeof whole);
    return whole;
}

static void regression(void **state)
{
    (void)state;
    /* far from 0, where a difference of sums of squares would have no digits left */
    static const double x[] = {1e9 + 1, 0, 1e9 + 2, 1, 1e9 + 4, 1},
                        y[] = {1e9 + 1, 0, 1e9 + 3, 0, 1e9 + 5, 3};
    static const double same[] = {2, 2}, other[] = {2, 3};
    double r2_first = 1 - 2.0 / 8, r2_second = 1 - 5.0 / 6;
    assert_true(fabs(of_numbers(MPC_METRIC_r2, x, y, 2, 3) - (r2_first + r2_second) / 2) < 1e-12);
    CLOSE(of_numbers(MPC_METRIC_mse, x, y, 2, 3), 7.0 / 6);
    CLOSE(of_numbers(MPC_METRIC_mae, x, y, 2, 3), 5.0 / 6);
    CLOSE(of_numbers(MPC_METRIC_r2, same, same, 1, 2), 1);
    CLOSE(of_numbers(MPC_METRIC_r2, other, same, 1, 2), 0);
    assert_true(isnan(of_numbers(MPC_METRIC_r2, same, same, 1, 1)));
    static const double bad[] = {2, NAN};
    assert_true(isnan(of_numbers(MPC_METRIC_mse, bad, other, 1, 2)));
    assert_true(isnan(of_numbers(MPC_METRIC_r2, bad, same, 1, 2)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages),
        cmocka_unit_test(binary),
        cmocka_unit_test(nan_and_ignored),
        cmocka_unit_test(regression),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
