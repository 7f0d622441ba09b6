/* lower_metric.c: what an evaluation measures (runtime/abi/metrics.def). A metric that is no mean over batches is
 * counted by the runtime over the whole set, from tensors that the graph gives for each batch: answers and labels,
 * outputs and targets, losses and labels. Here are these tensors.
 *
 * A logit that is not a number is never an answer: a row with one makes the metric NaN.
 */
#include <math.h>

#include "frontend/builtins.h"

enum { MOST_CLASSES = 4096 }; /* whose confusion matrix is 128 MiB */

/* ---- rows ------------------------------------------------------------------------------------------- */

static Val measured(Lower *l, Val v, const char *key, Metric metric, Node *a, Node *b)
{
    Measure *m = ARENA_NEW(l->arena, Measure);
    *m = (Measure){.metric = metric, .from = {a, b}};
    v.key = key;
    v.measure = m;
    return a == NULL || (b == NULL && metric_info[metric].nfrom > 1) ? val_poison() : v;
}

/* `x` where its row has no NaN, else `otherwise`. */
static Node *unless_nan(Lower *l, Node *x, Node *logits, double otherwise)
{
    int64_t last = logits->dims.rank - 1;
    Node *finite =
        op_reduce(l, OP_sum, op_cast(l, op2(l, OP_ne, logits, logits), DT_f32), 1, &last, false);
    Node *fine = op2(l, OP_eq, finite, op_const(l, DT_f32, 0));
    return op3(l, OP_where, fine, x, op_const(l, x == NULL ? DT_f32 : x->dtype, otherwise));
}

/* Logits [.., classes] and labels [..], or labels of probabilities; false: said. */
static bool class_operands(Lower *l, Call *c, Node **logits, Node **labels)
{
    if (!call_tensor(l, c, 0, logits) || !call_tensor(l, c, 1, labels)) {
        return false;
    }
    if (loss_of_probabilities(*logits, *labels)) {
        *labels = op_axis(l, OP_argmax, *labels, (*labels)->dims.rank - 1);
    }
    Dims want = (*logits)->dims;
    want.rank -= want.rank > 0;
    if (*labels == NULL || (*logits)->dims.rank < 1 || !dims_equal(&want, &(*labels)->dims)) {
        lower_error(l, c->loc, "%s: logits [%s] need labels [%s], but these are [%s]", c->fn->name,
                    dims_text(l->arena, l->run->graph, &(*logits)->dims),
                    dims_text(l->arena, l->run->graph, &want),
                    dims_text(l->arena, l->run->graph, &(*labels)->dims));
        return false;
    }
    if (!dtype_info[(*labels)->dtype].is_int) {
        lower_error(l, c->locs[1], "labels are integers, but this is %s",
                    val_describe(l, c->args[1]));
        return false;
    }
    Node *before = loss_logits(l, *logits, OP_softmax);
    evaluation_answer(l, ANSWER_LOGITS, before != NULL ? before : *logits);
    return true;
}

/* ---- shares ----------------------------------------------------------------------------------------- */

static Val share(Lower *l, Node *hit, Node *logits, const char *key, Metric metric)
{
    Node *counted = unless_nan(l, op_cast(l, hit, DT_f32), logits, NAN);
    Node *mean = op_reduce(l, OP_mean, counted, -1, NULL, false);
    if (mean == NULL) {
        return val_poison();
    }
    /* A share of labels is counted exactly where it is known how many a sample has. */
    Dim all, each;
    bool known = dims_count(&counted->dims, &all) && counted->dims.rank > 0 &&
                 dim_div(all, counted->dims.d[0], &each) && dim_is_const(each);
    Val v = measured(l, val_of_node(l, mean), key, known ? metric : METRIC_mean, mean, NULL);
    if (known && each.k > 1) {
        attrs_set_int(l->arena, &v.measure->attrs, ATTR_classes, each.k);
    }
    return v;
}

static Val accuracy(Lower *l, Call *c)
{
    Node *logits, *labels;
    if (!class_operands(l, c, &logits, &labels)) {
        return val_poison();
    }
    Node *best = op_axis(l, OP_argmax, logits, logits->dims.rank - 1);
    Node *hit = op2(l, OP_eq, best, op_cast(l, labels, DT_i64));
    return share(l, hit, logits, "accuracy", METRIC_accuracy);
}

static Node *last_axis(Lower *l, Node *x)
{
    Dims dims = x->dims;
    dims.d[dims.rank++] = dim_of(1);
    return op_reshape(l, x, &dims);
}

/* The label is among the k largest logits if fewer than k come before it: the larger ones, and of equal ones
 * those in front of it, as argmax has it. */
static Val top_k(Lower *l, Call *c)
{
    Node *logits, *labels;
    int64_t k;
    if (!class_operands(l, c, &logits, &labels) || !call_int(l, c, 2, &k)) {
        return val_poison();
    }
    if (k < 1) {
        return lower_error(l, c->locs[2], "k is at least 1");
    }
    int64_t last = logits->dims.rank - 1;
    Node *index = op_iota(l, &(Dims){.rank = 1, .d = {logits->dims.d[last]}}, 0);
    Node *label = last_axis(l, op_cast(l, labels, DT_i64));
    Node *here = op2(l, OP_eq, index, label);
    Node *low = op_const(l, logits->dtype, -INFINITY);
    Node *own = op_reduce(l, OP_amax, op3(l, OP_where, here, logits, low), 1, &last, true);
    Node *tie = op2(l, OP_and, op2(l, OP_eq, logits, own), op2(l, OP_lt, index, label));
    Node *before = op_cast(l, op2(l, OP_or, op2(l, OP_gt, logits, own), tie), DT_f32);
    Node *rank = op_reduce(l, OP_sum, before, 1, &last, false);
    Node *exists = op_reduce(l, OP_sum, op_cast(l, here, DT_f32), 1, &last, false);
    Node *hit = op2(l, OP_and, op2(l, OP_lt, rank, op_const(l, DT_f32, (double)k)),
                    op2(l, OP_gt, exists, op_const(l, DT_f32, 0)));
    const char *key = arena_printf(l->arena, "top_%lld_accuracy", (long long)k);
    return share(l, hit, logits, key, METRIC_top_k_accuracy);
}

/* ---- answers and labels ------------------------------------------------------------------------------ */

/* Two classes from one logit a row: the second where it is above 0. */
static Node *of_one_logit(Lower *l, Node *x)
{
    Node *above = op_cast(l, op2(l, OP_gt, x, op_const(l, x->dtype, 0)), DT_i64);
    return op3(l, OP_where, op2(l, OP_eq, x, x), above, op_const(l, DT_i64, -1));
}

static bool answers(Lower *l, Call *c, Node **answer, Node **label, int64_t *classes)
{
    Node *x;
    if (!call_tensor(l, c, 0, &x) || !call_tensor(l, c, 1, label)) {
        return false;
    }
    bool is_float = dtype_info[x->dtype].is_float;
    Dims flat = x->dims;
    flat.rank -= flat.rank > 1 && dim_equal(flat.d[flat.rank - 1], dim_of(1));
    if (is_float && flat.rank > 0 && dims_equal(&flat, &(*label)->dims)) {
        *classes = 2;
        evaluation_answer(l, ANSWER_LOGIT, x);
        *answer = of_one_logit(l, op_reshape(l, x, &flat));
    } else if (!is_float && dims_equal(&x->dims, &(*label)->dims)) {
        lower_error(l, c->locs[0], "%s takes logits: how many classes there are is their last size",
                    c->fn->name);
        return false;
    } else {
        if (!class_operands(l, c, &x, label)) {
            return false;
        }
        Dim last = x->dims.d[x->dims.rank - 1];
        *classes = dim_is_const(last) ? last.k : 0;
        *answer = unless_nan(l, op_axis(l, OP_argmax, x, x->dims.rank - 1), x, -1);
    }
    if (*classes < 1 || *classes > MOST_CLASSES) {
        lower_error(l, c->loc, "%s counts up to %d classes", c->fn->name, MOST_CLASSES);
        return false;
    }
    *label = op_cast(l, *label, DT_i64);
    return true;
}

/* How the classes are averaged: with none the second of two classes, or all of more. */
static const char *average(Lower *l, Call *c, int64_t classes)
{
    static const char *const names[] = {"binary", "macro", "micro", "weighted"};
    const char *name;
    if (c->args[2].kind == VAL_none) {
        return classes == 2 ? "binary" : "macro";
    }
    if (!call_str(l, c, 2, &name)) {
        return NULL;
    }
    if (str_eq(name, "binary") && classes != 2) {
        lower_error(l, c->locs[2], "\"binary\" is for two classes, but these are %lld",
                    (long long)classes);
        lower_note(l, c->locs[2], "of more, there are \"macro\", \"micro\" and \"weighted\"");
        return NULL;
    }
    for (int i = 0; i < 4; i++) {
        if (str_eq(names[i], name)) {
            return name;
        }
    }
    const char *near = nearest_name(name, names, 4);
    lower_error(l, c->locs[2], "average is \"binary\", \"macro\", \"micro\" or \"weighted\"%s",
                near == NULL ? "" : arena_printf(l->arena, ": did you mean \"%s\"?", near));
    return NULL;
}

static Val of_classes(Lower *l, Call *c, Metric metric)
{
    Node *answer, *label;
    int64_t classes;
    if (!answers(l, c, &answer, &label, &classes)) {
        return val_poison();
    }
    const char *how = c->n > 2 ? average(l, c, classes) : "";
    Val v = measured(l, (Val){.kind = VAL_measure}, c->fn->name, metric, answer, label);
    if (how == NULL || val_is_poison(v)) {
        return val_poison();
    }
    if (how[0] != '\0') {
        attrs_set_str(l->arena, &v.measure->attrs, ATTR_averaged, how);
    }
    attrs_set_int(l->arena, &v.measure->attrs, ATTR_classes, classes);
    return v;
}

/* ---- numbers ----------------------------------------------------------------------------------------- */

/* mse and mae are tensors, too, of the batch. */
static Val of_numbers(Lower *l, Call *c, Metric metric)
{
    Node *x, *y;
    Dim all, batch, each;
    if (!call_tensor(l, c, 0, &x) || !call_tensor(l, c, 1, &y)) {
        return val_poison();
    }
    if (!dims_equal(&x->dims, &y->dims)) {
        return lower_error(l, c->loc, "%s: the shapes differ: [%s] and [%s]", c->fn->name,
                           dims_text(l->arena, l->run->graph, &x->dims),
                           dims_text(l->arena, l->run->graph, &y->dims));
    }
    evaluation_answer(l, ANSWER_OUTPUT, x);
    x = op_cast(l, x, DT_f64);
    y = op_cast(l, y, DT_f64);
    Val v = {.kind = VAL_measure};
    if (metric != METRIC_r2) {
        Node *d = op_cast(l, op2(l, OP_sub, x, y), DT_f32);
        d = op_reduce(l, OP_mean, op1(l, metric == METRIC_mse ? OP_square : OP_abs, d), -1, NULL,
                      false);
        v = d == NULL ? val_poison() : val_of_node(l, d);
    }
    batch = x->dims.rank > 0 ? x->dims.d[0] : dim_of(1);
    bool rows = dims_count(&x->dims, &all) && dim_div(all, batch, &each) && dim_is_const(each) &&
                !dim_is_const(batch);
    if (!rows && v.kind == VAL_measure) {
        return lower_error(l, c->loc, "r2 takes a number, or some, of each sample: [B] or [B, n]");
    }
    if (!rows || val_is_poison(v)) {
        v.key = c->fn->name;
        return v;
    }
    v = measured(l, v, c->fn->name, metric, x, y);
    if (!val_is_poison(v)) {
        attrs_set_int(l->arena, &v.measure->attrs, ATTR_classes, each.k);
    }
    return v;
}

/* -log softmax(logits)[label] of each row, as cross_entropy of a batch of one. */
static Val perplexity(Lower *l, Call *c)
{
    Node *logits, *labels;
    int64_t ignore;
    if (!class_operands(l, c, &logits, &labels) || !call_int(l, c, 2, &ignore)) {
        return val_poison();
    }
    DType outer = op_enter_wide(l, logits, "losses are computed in f32");
    int64_t last = logits->dims.rank - 1;
    logits = op_cast(l, logits, l->force);
    Node *index = op_iota(l, &(Dims){.rank = 1, .d = {logits->dims.d[last]}}, 0);
    Node *label = op_cast(l, labels, DT_i64), *zero = op_const(l, l->force, 0);
    Node *counts = op2(l, OP_ne, label, op_const(l, DT_i64, (double)ignore));
    Node *here = op2(l, OP_eq, index, last_axis(l, label));
    Node *own = op_reduce(l, OP_sum, op3(l, OP_where, here, logits, zero), 1, &last, false);
    Node *loss = op2(l, OP_sub, op_axis(l, OP_logsumexp, logits, last), own);
    op_leave_wide(l, outer);
    loss = op_cast(l, loss, DT_f64);
    label = op3(l, OP_where, counts, label, op_const(l, DT_i64, -1));
    Val v = measured(l, (Val){.kind = VAL_measure}, "perplexity", METRIC_perplexity, loss, label);
    if (!val_is_poison(v)) {
        attrs_set_int(l->arena, &v.measure->attrs, ATTR_classes, 1);
    }
    return v;
}

/* ---- all --------------------------------------------------------------------------------------------- */

/* The rows of metrics.def, and scikit-learn's names for them. */
static Metric metric_of(const char *name)
{
    static const struct {
        const char *name;
        Metric metric;
    } others[] = {
        {"mean_squared_error", METRIC_mse},
        {"mean_absolute_error", METRIC_mae},
    };
    Metric metric;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (str_eq(others[i].name, name)) {
            return others[i].metric;
        }
    }
    if (!metric_find(name, &metric)) {
        ICE("no metric is called %s", name);
    }
    return metric;
}

Val fn_metric(Lower *l, Call *c)
{
    Metric metric = metric_of(c->fn->name);
    MetricFeed feed = metric_info[metric].feed;
    if (metric == METRIC_precision && c->args[0].kind == VAL_dtype) {
        return fn_precision(l, c);
    }
    bool tensors = feed == FEED_share || metric == METRIC_mse || metric == METRIC_mae;
    if (!tensors && (l->run == NULL || l->run->graph->role != GRAPH_Eval)) {
        lower_error(l, c->loc, "`%s` is counted over a whole set: in an evaluation", c->fn->name);
        lower_note(l, c->loc, "evaluate(...) { ...; %s(...) }", c->fn->name);
        return val_poison();
    }
    switch (feed) {
    case FEED_share: return metric == METRIC_accuracy ? accuracy(l, c) : top_k(l, c);
    case FEED_classes: return of_classes(l, c, metric);
    case FEED_numbers: return of_numbers(l, c, metric);
    case FEED_losses: return perplexity(l, c);
    case FEED_number: break;
    }
    ICE("%s is no function", c->fn->name);
}
