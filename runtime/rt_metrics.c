/* rt_metrics.c: what an evaluation measures: abi/metrics.def says what is added up for each metric, here is how,
 * and what becomes of it. All in double, sample after sample: neither the batch size nor the number of threads is
 * seen in the result. Definitions as in scikit-learn, a division by zero gives 0 as there. Nothing hides a NaN.
 */
#include "rt_run.h"

#include <math.h>
#include <string.h>

typedef void Count(double *cells, const MpcMetric *m, const MpcSeen *s, int64_t n);
typedef double Finish(const double *cells, const MpcMetric *m, int64_t samples);

int64_t rt_metric_cells(const MpcMetric *m)
{
    const int64_t n = m->n;
    enum {
#define METRIC_FEED(name, values, cells, meaning) CELLS_##name,
#define METRIC(name, feed, better, formals, meaning)
#include "abi/metrics.def"
    };
    const int64_t all[] = {
#define METRIC_FEED(name, values, cells, meaning) [CELLS_##name] = cells,
#define METRIC(name, feed, better, formals, meaning)
#include "abi/metrics.def"
    };
    static const int feed[MPC_METRIC_COUNT] = {
        [MPC_METRIC_mean] = CELLS_number,
#define METRIC_FEED(name, values, cells, meaning)
#define METRIC(name, feed, better, formals, meaning) [MPC_METRIC_##name] = CELLS_##feed,
#include "abi/metrics.def"
    };
    return all[feed[m->kind]];
}

/* ---- adding up ---- */

static void count_number(double *cells, const MpcMetric *m, const MpcSeen *s, int64_t n)
{
    (void)m;
    cells[0] += s->number * (double)n;
}

/* Labels of a sample: 1, or those of a text. */
static double each(const MpcMetric *m)
{
    return m->n > 1 ? (double)m->n : 1;
}

/* A share of n samples is a whole number of hits, whatever f32 made of the quotient. */
static void count_share(double *cells, const MpcMetric *m, const MpcSeen *s, int64_t n)
{
    double hits = s->number * ((double)n * each(m));
    cells[0] += isfinite(hits) ? rint(hits) : hits;
}

static void count_classes(double *cells, const MpcMetric *m, const MpcSeen *s, int64_t n)
{
    const int64_t *answer = s->row[0], *label = s->row[1];
    (void)n;
    for (int64_t i = 0; i < s->rows; i++) {
        if (label[i] < 0 || label[i] >= m->n)
            continue; /* a label that is ignored */
        if (answer[i] < 0 || answer[i] >= m->n)
            cells[0]++;
        else
            cells[1 + label[i] * m->n + answer[i]]++;
    }
}

/* Mean and squared distances by Welford's recurrence: no difference of large sums. */
static void count_numbers(double *cells, const MpcMetric *m, const MpcSeen *s, int64_t n)
{
    const double *x = s->row[0], *y = s->row[1];
    (void)n;
    for (int64_t i = 0; i < s->rows; i++) {
        cells[0]++;
        for (int64_t k = 0; k < m->n; k++, x++, y++) {
            double *c = cells + 1 + 4 * k, from_mean = *y - c[0], error = *x - *y;
            c[0] += from_mean / cells[0];
            c[1] += from_mean * (*y - c[0]);
            c[2] += error * error;
            c[3] += fabs(error);
        }
    }
}

static void count_losses(double *cells, const MpcMetric *m, const MpcSeen *s, int64_t n)
{
    const double *loss = s->row[0];
    const int64_t *label = s->row[1];
    (void)m;
    (void)n;
    for (int64_t i = 0; i < s->rows; i++)
        if (label[i] >= 0) {
            cells[0] += loss[i];
            cells[1]++;
        }
}

/* ---- classes ---- */

static double ratio(double a, double b)
{
    return b != 0 ? a / b : 0;
}

typedef struct Tally {
    double right, answered, labelled;
} Tally;

static Tally tally(const double *table, int64_t n, int64_t class)
{
    Tally t = {.right = table[class * n + class]};
    for (int64_t i = 0; i < n; i++) {
        t.answered += table[i * n + class];
        t.labelled += table[class * n + i];
    }
    return t;
}

static double precision_of(Tally t)
{
    return ratio(t.right, t.answered);
}

static double recall_of(Tally t)
{
    return ratio(t.right, t.labelled);
}

static double f1_of(Tally t)
{
    return ratio(2 * t.right, t.answered + t.labelled);
}

/* macro: over the classes that are among labels or answers; weighted: by how often they are labels. */
static double averaged(const double *cells, const MpcMetric *m, double (*score)(Tally))
{
    const double *table = cells + 1;
    double sum = 0, weight = 0;
    Tally all = {.right = 0};
    if (cells[0] > 0)
        return (double)NAN;
    if (m->average == MPC_AVERAGE_binary)
        return score(tally(table, m->n, 1));
    for (int64_t i = 0; i < m->n; i++) {
        Tally t = tally(table, m->n, i);
        double w = m->average == MPC_AVERAGE_weighted ? t.labelled : t.answered + t.labelled > 0;
        all.right += t.right;
        all.answered += t.answered;
        all.labelled += t.labelled;
        sum += w * score(t);
        weight += w;
    }
    return m->average == MPC_AVERAGE_micro ? score(all) : ratio(sum, weight);
}

static double finish_precision(const double *cells, const MpcMetric *m, int64_t samples)
{
    (void)samples;
    return averaged(cells, m, precision_of);
}

static double finish_recall(const double *cells, const MpcMetric *m, int64_t samples)
{
    (void)samples;
    return averaged(cells, m, recall_of);
}

static double finish_f1(const double *cells, const MpcMetric *m, int64_t samples)
{
    (void)samples;
    return averaged(cells, m, f1_of);
}

static double finish_matthews_correlation(const double *cells, const MpcMetric *m, int64_t samples)
{
    double right = 0, all = 0, both = 0, answers = 0, labels = 0;
    (void)samples;
    if (cells[0] > 0)
        return (double)NAN;
    for (int64_t i = 0; i < m->n; i++) {
        Tally t = tally(cells + 1, m->n, i);
        right += t.right;
        all += t.labelled;
        both += t.answered * t.labelled;
        answers += t.answered * t.answered;
        labels += t.labelled * t.labelled;
    }
    double norm = sqrt(all * all - answers) * sqrt(all * all - labels);
    return ratio(right * all - both, norm);
}

/* It is a table, and in the log; as a number the share of its diagonal. */
static double finish_confusion_matrix(const double *cells, const MpcMetric *m, int64_t samples)
{
    double right = 0;
    for (int64_t i = 0; i < m->n; i++)
        right += cells[1 + i * m->n + i];
    return cells[0] > 0 ? (double)NAN : ratio(right, (double)samples);
}

/* ---- the others ---- */

static double finish_mean(const double *cells, const MpcMetric *m, int64_t samples)
{
    (void)m;
    return cells[0] / (double)samples;
}

static double finish_accuracy(const double *cells, const MpcMetric *m, int64_t samples)
{
    return cells[0] / ((double)samples * each(m));
}

static double finish_top_k_accuracy(const double *cells, const MpcMetric *m, int64_t samples)
{
    return finish_accuracy(cells, m, samples);
}

/* Where the target does not vary, 1 for no error and else 0. */
static double finish_r2(const double *cells, const MpcMetric *m, int64_t samples)
{
    double sum = 0;
    (void)samples;
    for (int64_t k = 0; k < m->n; k++) {
        const double *c = cells + 1 + 4 * k;
        sum += c[1] != 0 ? 1 - c[2] / c[1] : c[2] == 0 ? 1 : c[2] > 0 ? 0 : (double)NAN;
    }
    return cells[0] < 2 ? (double)NAN : sum / (double)m->n;
}

static double mean_of(const double *cells, const MpcMetric *m, int which)
{
    double sum = 0;
    for (int64_t k = 0; k < m->n; k++)
        sum += cells[1 + 4 * k + which];
    return sum / (cells[0] * (double)m->n);
}

static double finish_mse(const double *cells, const MpcMetric *m, int64_t samples)
{
    (void)samples;
    return mean_of(cells, m, 2);
}

static double finish_mae(const double *cells, const MpcMetric *m, int64_t samples)
{
    (void)samples;
    return mean_of(cells, m, 3);
}

static double finish_perplexity(const double *cells, const MpcMetric *m, int64_t samples)
{
    (void)m;
    (void)samples;
    return exp(cells[0] / cells[1]);
}

/* ---- all ---- */

static const struct {
    Count *count;
    Finish *finish;
} metrics[MPC_METRIC_COUNT] = {
    [MPC_METRIC_mean] = {count_number, finish_mean},
#define METRIC_FEED(name, values, cells, meaning)
#define METRIC(name, feed, better, formals, meaning)                                               \
    [MPC_METRIC_##name] = {count_##feed, finish_##name},
#include "abi/metrics.def"
};

bool rt_metric_is_share(MpcMetricKind kind)
{
    return metrics[kind].count == count_share;
}

void rt_metric_add(double *cells, const MpcMetric *m, const MpcSeen *s, int64_t n)
{
    metrics[m->kind].count(cells, m, s, n);
}

double rt_metric_value(const double *cells, const MpcMetric *m, int64_t samples)
{
    return metrics[m->kind].finish(cells, m, samples);
}
