/* interp_ops.c: the reference meaning of contractions, reductions and gathers.
 *
 * Typed mode accumulates in f32 in the order of the index (f64 for f64), and rounds the result to
 * its type; compiled code may add in another order and is held to a bound that follows from the
 * length. */
#include "ir/interp.h"

#include <math.h>
#include <string.h>

/* ---- contractions ---------------------------------------------------------------------------- */

static Reals accumulator(const Run *r, const Node *n)
{
    DType widest = n->dtype;
    for (int i = 0; i < n->nin; i++) {
        widest = dtype_widest(widest, n->in[i]->dtype);
    }
    return reals_of(r, widest);
}

void eval_linear(Run *r, const Node *n, Value *const *in, Value *out)
{
    const Value *x = in[0], *w = in[1];
    int64_t inner = w->dims[1], cols = w->dims[0];
    Reals k = accumulator(r, n);
    for (int64_t e = 0; e < out->count; e++) {
        const double *a = x->v + e / cols * inner, *b = w->v + e % cols * inner;
        double sum = 0;
        for (int64_t i = 0; i < inner; i++) {
            sum = reals_round(k, sum + reals_round(k, a[i] * b[i]));
        }
        if (n->nin == 3) {
            sum = reals_round(k, sum + in[2]->v[e % cols]);
        }
        out->v[e] = run_convert(r, DT_f64, n->dtype, sum);
    }
}

/* An operand of a matmul as [batch.., rows, columns], by strides. */
typedef struct Matrix {
    const Value *x;
    int64_t rows, columns, row_stride, column_stride;
    int nbatch;
} Matrix;

static Matrix matrix_of(const Value *x, bool left, bool transposed)
{
    int64_t stride[MAX_RANK];
    strides_of(x, stride);
    if (x->rank == 1) {
        return left ? (Matrix){x, 1, x->dims[0], 0, 1, 0} : (Matrix){x, x->dims[0], 1, 1, 0, 0};
    }
    int row = x->rank - 2, column = x->rank - 1;
    if (transposed) {
        row = x->rank - 1;
        column = x->rank - 2;
    }
    return (Matrix){x, x->dims[row], x->dims[column], stride[row], stride[column], x->rank - 2};
}

/* Where the matrix of a batch index starts; out's first nbatch dims are the batch. */
static int64_t matrix_start(const Matrix *m, const Value *out, int nbatch, int64_t batch)
{
    int64_t stride[MAX_RANK], at = 0;
    strides_of(m->x, stride);
    for (int i = nbatch - 1; i >= 0; i--) {
        int64_t index = batch % out->dims[i];
        batch /= out->dims[i];
        int k = i - (nbatch - m->nbatch);
        at += k >= 0 && m->x->dims[k] > 1 ? index * stride[k] : 0;
    }
    return at;
}

void eval_matmul(Run *r, const Node *n, Value *const *in, Value *out)
{
    Matrix a = matrix_of(in[0], true, attrs_bool(&n->attrs, ATTR_trans_a));
    Matrix b = matrix_of(in[1], false, attrs_bool(&n->attrs, ATTR_trans_b));
    Reals k = accumulator(r, n);
    int nbatch = out->rank - (in[0]->rank > 1) - (in[1]->rank > 1);
    int64_t each = a.rows * b.columns;
    for (int64_t e = 0; e < out->count; e++) {
        int64_t row = e % each / b.columns, column = e % b.columns;
        const double *x = a.x->v + matrix_start(&a, out, nbatch, e / each) + row * a.row_stride;
        const double *y =
            b.x->v + matrix_start(&b, out, nbatch, e / each) + column * b.column_stride;
        double sum = 0;
        for (int64_t i = 0; i < a.columns; i++) {
            double product = x[i * a.column_stride] * y[i * b.row_stride];
            sum = reals_round(k, sum + reals_round(k, product));
        }
        out->v[e] = run_convert(r, DT_f64, n->dtype, sum);
    }
}

/* ---- reductions over axes -------------------------------------------------------------------- */

/* The elements that go into one result, in order: a[0 .. count-1]. */
typedef double Fold(Reals k, const double *a, int64_t count, const Node *n);

static void fold_axes(Run *r, const Node *n, const Value *x, Value *out, Reals k, Fold *fold)
{
    int64_t axes[MAX_RANK], stride[MAX_RANK], count = 1, outer = 1;
    int naxes = node_axes(n, axes), nkept = 0, kept[MAX_RANK];
    strides_of(x, stride);
    for (int i = 0, j = 0; i < x->rank; i++) {
        if (j < naxes && axes[j] == i) {
            count *= x->dims[i];
            j++;
        } else {
            outer *= x->dims[i];
            kept[nkept++] = i;
        }
    }
    Arena *scratch = arena_new();
    double *a = ARENA_ARRAY(scratch, double, count + 1);
    for (int64_t e = 0; e < outer; e++) {
        int64_t start = 0, rest = e;
        for (int i = nkept - 1; i >= 0; i--) {
            start += rest % x->dims[kept[i]] * stride[kept[i]];
            rest /= x->dims[kept[i]];
        }
        for (int64_t i = 0; i < count; i++) {
            int64_t at = start;
            rest = i;
            for (int j = naxes - 1; j >= 0; j--) {
                at += rest % x->dims[axes[j]] * stride[axes[j]];
                rest /= x->dims[axes[j]];
            }
            a[i] = x->v[at];
        }
        out->v[e] = run_convert(r, DT_f64, n->dtype, fold(k, a, count, n));
    }
    arena_free(scratch);
}

static double sum_of(Reals k, const double *a, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum = reals_round(k, sum + a[i]);
    }
    return sum;
}

static double fold_sum(Reals k, const double *a, int64_t count, const Node *n)
{
    (void)n;
    return sum_of(k, a, count);
}

static double fold_mean(Reals k, const double *a, int64_t count, const Node *n)
{
    (void)n;
    return reals_round(k, sum_of(k, a, count) / (double)count);
}

static double fold_var(Reals k, const double *a, int64_t count, const Node *n)
{
    double mean = fold_mean(k, a, count, n), sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double d = reals_round(k, a[i] - mean);
        sum = reals_round(k, sum + reals_round(k, d * d));
    }
    int64_t divisor = count - (attrs_bool(&n->attrs, ATTR_unbiased) ? 1 : 0);
    return reals_round(k, sum / (double)divisor);
}

static double fold_amax(Reals k, const double *a, int64_t count, const Node *n)
{
    (void)k;
    (void)n;
    double best = -(double)INFINITY;
    for (int64_t i = 0; i < count; i++) {
        best = a[i] > best || isnan(a[i]) ? a[i] : best;
    }
    return best;
}

static double fold_amin(Reals k, const double *a, int64_t count, const Node *n)
{
    (void)k;
    (void)n;
    double best = (double)INFINITY;
    for (int64_t i = 0; i < count; i++) {
        best = a[i] < best || isnan(a[i]) ? a[i] : best;
    }
    return best;
}

void eval_sum(Run *r, const Node *n, Value *const *in, Value *out)
{
    fold_axes(r, n, in[0], out, reals_of(r, n->dtype), fold_sum);
}

void eval_mean(Run *r, const Node *n, Value *const *in, Value *out)
{
    fold_axes(r, n, in[0], out, reals_of(r, n->dtype), fold_mean);
}

void eval_var(Run *r, const Node *n, Value *const *in, Value *out)
{
    fold_axes(r, n, in[0], out, reals_of(r, n->dtype), fold_var);
}

void eval_amax(Run *r, const Node *n, Value *const *in, Value *out)
{
    fold_axes(r, n, in[0], out, reals_of(r, n->dtype), fold_amax);
}

void eval_amin(Run *r, const Node *n, Value *const *in, Value *out)
{
    fold_axes(r, n, in[0], out, reals_of(r, n->dtype), fold_amin);
}

/* ---- along one axis -------------------------------------------------------------------------- */

/* The rows along an axis of x: row i has its elements at start(i) + j * step, j < length. */
typedef struct Rows {
    int64_t count, length, step;
} Rows;

static Rows rows_along(const Value *x, int64_t axis)
{
    int64_t stride[MAX_RANK];
    strides_of(x, stride);
    int64_t length = x->dims[axis];
    return (Rows){length > 0 ? x->count / length : 0, length, stride[axis]};
}

static int64_t row_start(const Rows *rows, int64_t i)
{
    return i / rows->step * rows->step * rows->length + i % rows->step;
}

static double largest(const double *x, const Rows *rows)
{
    double best = -(double)INFINITY;
    for (int64_t j = 0; j < rows->length; j++) {
        double a = x[j * rows->step];
        best = a > best || isnan(a) ? a : best;
    }
    return best;
}

/* The sum of exp(x - max), added in order. */
static double exp_sum(Reals k, const double *x, const Rows *rows, double max)
{
    double sum = 0;
    for (int64_t j = 0; j < rows->length; j++) {
        sum = reals_round(k, sum + reals_exp(k, reals_round(k, x[j * rows->step] - max)));
    }
    return sum;
}

void eval_argmax(Run *r, const Node *n, Value *const *in, Value *out)
{
    (void)r;
    Rows rows = rows_along(in[0], attrs_int(&n->attrs, ATTR_axis, 0));
    for (int64_t i = 0; i < rows.count; i++) {
        const double *x = in[0]->v + row_start(&rows, i);
        int64_t best = 0;
        for (int64_t j = 1; j < rows.length; j++) {
            double a = x[j * rows.step], b = x[best * rows.step];
            best = a > b || (isnan(a) && !isnan(b)) ? j : best;
        }
        out->v[i] = (double)best;
    }
}

static void softmax_rows(Run *r, const Node *n, const Value *x, Value *out, bool logarithm)
{
    Reals k = reals_of(r, n->dtype);
    Rows rows = rows_along(x, attrs_int(&n->attrs, ATTR_axis, 0));
    for (int64_t i = 0; i < rows.count; i++) {
        int64_t start = row_start(&rows, i);
        double max = largest(x->v + start, &rows);
        double sum = exp_sum(k, x->v + start, &rows, max);
        double log_sum = logarithm ? reals_log(k, sum) : 0;
        for (int64_t j = 0; j < rows.length; j++) {
            int64_t at = start + j * rows.step;
            double d = reals_round(k, x->v[at] - max);
            double y = logarithm ? d - log_sum : reals_exp(k, d) / sum;
            out->v[at] = run_convert(r, DT_f64, n->dtype, reals_round(k, y));
        }
    }
}

void eval_softmax(Run *r, const Node *n, Value *const *in, Value *out)
{
    softmax_rows(r, n, in[0], out, false);
}

void eval_log_softmax(Run *r, const Node *n, Value *const *in, Value *out)
{
    softmax_rows(r, n, in[0], out, true);
}

void eval_logsumexp(Run *r, const Node *n, Value *const *in, Value *out)
{
    Reals k = reals_of(r, n->dtype);
    Rows rows = rows_along(in[0], attrs_int(&n->attrs, ATTR_axis, 0));
    for (int64_t i = 0; i < rows.count; i++) {
        const double *x = in[0]->v + row_start(&rows, i);
        double max = largest(x, &rows);
        double sum = isinf(max) ? 1 : exp_sum(k, x, &rows, max);
        double y = reals_round(k, max + reals_log(k, sum));
        out->v[i] = run_convert(r, DT_f64, n->dtype, y);
    }
}

/* ---- cross entropy --------------------------------------------------------------------------- */

typedef struct Entropy {
    Reals k;
    const Value *logits, *labels;
    Rows rows;
    double ignore, smoothing, count; /* count: labels that take part */
} Entropy;

static Entropy entropy_of(Run *r, const Node *n, const Value *logits, const Value *labels)
{
    Entropy e = {.k = reals_of(r, logits->dtype), .logits = logits, .labels = labels};
    e.rows = rows_along(logits, logits->rank - 1);
    e.ignore = (double)attrs_int(&n->attrs, ATTR_ignore_index, -100);
    e.smoothing = attrs_float(&n->attrs, ATTR_label_smoothing, 0);
    for (int64_t i = 0; i < labels->count; i++) {
        e.count += labels->v[i] != e.ignore;
    }
    return e;
}

/* -log softmax(row)[label], smoothed over all classes; NaN for a label that is no class. */
static double entropy_row(const Entropy *e, int64_t i)
{
    const double *x = e->logits->v + i * e->rows.length;
    double label = e->labels->v[i];
    if (label < 0 || label >= (double)e->rows.length) {
        return (double)NAN;
    }
    double max = largest(x, &e->rows);
    double log_sum = reals_log(e->k, exp_sum(e->k, x, &e->rows, max));
    double loss = reals_round(e->k, log_sum - reals_round(e->k, x[(int64_t)label] - max));
    if (e->smoothing != 0) {
        double all = 0;
        for (int64_t j = 0; j < e->rows.length; j++) {
            double each = reals_round(e->k, log_sum - reals_round(e->k, x[j] - max));
            all = reals_round(e->k, all + each);
        }
        double share = e->smoothing / (double)e->rows.length;
        loss = reals_round(e->k, reals_round(e->k, (1 - e->smoothing) * loss) +
                                     reals_round(e->k, share * all));
    }
    return loss;
}

void eval_cross_entropy(Run *r, const Node *n, Value *const *in, Value *out)
{
    Entropy e = entropy_of(r, n, in[0], in[1]);
    double sum = 0;
    for (int64_t i = 0; i < e.rows.count; i++) {
        if (e.labels->v[i] != e.ignore) {
            sum = reals_round(e.k, sum + entropy_row(&e, i));
        }
    }
    double mean = e.count > 0 ? reals_round(e.k, sum / e.count) : 0;
    out->v[0] = run_convert(r, DT_f64, n->dtype, mean);
}

void eval_cross_entropy_grad(Run *r, const Node *n, Value *const *in, Value *out)
{
    Entropy e = entropy_of(r, n, in[1], in[2]);
    double dloss = in[0]->v[0], classes = (double)e.rows.length;
    for (int64_t i = 0; i < e.rows.count; i++) {
        const double *x = e.logits->v + i * e.rows.length;
        if (e.labels->v[i] == e.ignore) {
            continue;
        }
        double max = largest(x, &e.rows), sum = exp_sum(e.k, x, &e.rows, max);
        double scale = reals_round(e.k, dloss / e.count);
        for (int64_t j = 0; j < e.rows.length; j++) {
            double p = reals_exp(e.k, reals_round(e.k, x[j] - max));
            p = reals_round(e.k, p / sum);
            double target = (double)j == e.labels->v[i] ? 1 - e.smoothing : 0;
            target = reals_round(e.k, target + e.smoothing / classes);
            double y = reals_round(e.k, reals_round(e.k, p - target) * scale);
            out->v[i * e.rows.length + j] = run_convert(r, DT_f64, n->dtype, y);
        }
    }
}

/* ---- gathers --------------------------------------------------------------------------------- */

void eval_embedding(Run *r, const Node *n, Value *const *in, Value *out)
{
    (void)r;
    (void)n;
    const Value *table = in[0], *index = in[1];
    int64_t width = table->dims[0] > 0 ? table->count / table->dims[0] : 0;
    for (int64_t i = 0; i < index->count; i++) {
        bool there = index->v[i] >= 0 && index->v[i] < (double)table->dims[0];
        for (int64_t j = 0; j < width; j++) {
            out->v[i * width + j] =
                there ? table->v[(int64_t)index->v[i] * width + j] : (double)NAN;
        }
    }
}

void eval_embedding_grad(Run *r, const Node *n, Value *const *in, Value *out)
{
    const Value *rows = in[0], *index = in[1];
    int64_t width = out->dims[0] > 0 ? out->count / out->dims[0] : 0;
    double padding = (double)attrs_int(&n->attrs, ATTR_padding_idx, -1);
    Reals k = reals_of(r, n->dtype);
    for (int64_t i = 0; i < index->count; i++) {
        double at = index->v[i];
        if (at < 0 || at >= (double)out->dims[0] || at == padding) {
            continue;
        }
        for (int64_t j = 0; j < width; j++) {
            double *sum = &out->v[(int64_t)at * width + j];
            *sum = reals_round(k, *sum + rows->v[i * width + j]);
        }
    }
    for (int64_t i = 0; i < out->count; i++) {
        out->v[i] = run_convert(r, DT_f64, n->dtype, out->v[i]);
    }
}
