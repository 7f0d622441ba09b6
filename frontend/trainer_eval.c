/* trainer_eval.c: the evaluations of a trainer's loop, and what depends on them: the best weights, an early end,
 * a schedule that follows a metric.
 */
#include "frontend/loops.h"

#include <stdlib.h>

/* ---- metrics ---- */

static int metric_count(const Loop *l)
{
    const Ast *n = l->t.value[KEY_compute_metrics];
    return !n ? 0 : n->kind == AST_list ? n->list.n : 1;
}

static Ast *metric_at(const Loop *l, int i)
{
    Ast *n = l->t.value[KEY_compute_metrics];
    return n->kind == AST_list ? n->list.at[i] : n;
}

static const char *function_of(const Ast *metric)
{
    return metric->kind == AST_call ? metric->callee->name : metric->name;
}

static const Ast *argument(const Ast *metric, const char *name)
{
    for (int i = 0; metric->kind == AST_call && i < metric->list.n; i++)
        if (str_eq(metric->list.at[i]->name, name))
            return metric->list.at[i]->value;
    return NULL;
}

/* What the log calls it: f1, top_3_accuracy; of several f1 each f1_macro and so on. */
static const char *metric_name(const Loop *l, int i)
{
    const Ast *metric = metric_at(l, i);
    const char *name = function_of(metric);
    if (str_eq(name, "top_k_accuracy")) {
        const Ast *k = argument(metric, "k");
        return arena_printf(l->m.arena, "top_%lld_accuracy",
                            k && k->kind == AST_int ? (long long)k->ival : 5LL);
    }
    const Ast *average = argument(metric, "average");
    for (int j = 0; j < metric_count(l); j++)
        if (j != i && str_eq(function_of(metric_at(l, j)), name) && average &&
            average->kind == AST_str)
            return arena_printf(l->m.arena, "%s_%s", name, average->name);
    return name;
}

static bool is_number(const Loop *l, int i)
{
    return !str_eq(function_of(metric_at(l, i)), "confusion_matrix");
}

Ast *trainer_metric(Loop *l, const Ast *callee)
{
    bool ours = callee->kind == AST_name && str_starts(callee->name, "__metric_");
    return ours ? metric_at(l, atoi(callee->name + 9)) : NULL;
}

/* ---- what is decided by them ---- */

static bool greater_is_better(const Loop *l, const char *function)
{
    Metric metric;
    if (l->t.given[KEY_greater_is_better])
        return trainer_flag(&l->t, KEY_greater_is_better);
    if (str_eq(function, "loss") || str_ends(function, "_error"))
        return false;
    return !metric_find(function, &metric) || metric_info[metric].greater;
}

/* metric_for_best_model among "loss" and compute_metrics. */
static bool find_metric(Loop *l)
{
    const Ast *given = l->t.given[KEY_metric_for_best_model];
    const char *names[64] = {"loss"}, *function = "loss";
    int n = 1;
    l->metric = "loss";
    const char *name = given ? given->name : "loss";
    name = str_starts(name, "eval_") ? name + 5 : name; /* the Trainer takes both */
    for (int i = 0; i < metric_count(l) && n < 64; i++) {
        if (!is_number(l, i))
            continue;
        names[n++] = metric_name(l, i);
        if (str_eq(names[n - 1], name)) {
            l->metric = names[n - 1];
            function = function_of(metric_at(l, i));
        }
    }
    l->greater = greater_is_better(l, function);
    if (str_eq(l->metric, name))
        return true;
    const char *near = nearest_name(name, names, n);
    diag_error(l->m.diag, given->loc, "\"%s\" is neither \"loss\" nor in compute_metrics", name);
    if (near)
        diag_note(l->m.diag, given->loc, "did you mean \"%s\"?", near);
    return false;
}

bool trainer_plan_evaluations(Loop *l)
{
    Trainer *t = &l->t;
    bool any = t->given[KEY_eval_dataset] != NULL;
    bool plateau = trainer_is(t, KEY_lr_scheduler_type, "reduce_lr_on_plateau");
    bool patient = t->given[KEY_early_stopping_patience] != NULL;
    const struct {
        TrainerKey key;
        bool asks;
        const char *what;
    } wants[] = {
        {KEY_metric_for_best_model, t->given[KEY_metric_for_best_model] != NULL,
         "the best weights"},
        {KEY_save_strategy, trainer_is(t, KEY_save_strategy, "best"), "the best weights"},
        {KEY_load_best_model_at_end, trainer_flag(t, KEY_load_best_model_at_end),
         "the best weights"},
        {KEY_early_stopping_patience, patient, "early stopping"},
        {KEY_lr_scheduler_type, plateau, "reduce_lr_on_plateau"},
        {KEY_eval_on_start, trainer_flag(t, KEY_eval_on_start), "eval_on_start"},
    };
    l->by_steps = any && trainer_is(t, KEY_eval_strategy, "steps");
    l->by_epoch =
        any && (!t->given[KEY_eval_strategy] || trainer_is(t, KEY_eval_strategy, "epoch"));
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        bool start = wants[i].key == KEY_eval_on_start;
        if (wants[i].asks && !(start ? any : l->by_steps || l->by_epoch)) {
            diag_error(l->m.diag, t->loc[wants[i].key],
                       start ? "%s needs an eval_dataset"
                             : "%s need%s evaluations: eval_dataset and eval_strategy",
                       wants[i].what, i < 3 ? "" : "s");
            return false;
        }
        l->best_kept |= i < 4 && wants[i].asks;
    }
    l->stops = (patient && l->by_steps) || t->given[KEY_max_time] != NULL;
    return find_metric(l);
}

/* ---- lines ---- */

void trainer_best_start(Loop *l)
{
    if (l->best_kept)
        loop_line(l, KEY_metric_for_best_model, "%s = %s", l->best, l->greater ? "-1e30" : "1e30");
    if (l->t.given[KEY_early_stopping_patience])
        loop_line(l, KEY_early_stopping_patience, "%s = 0", l->waited);
    if (l->stops)
        loop_line(l, KEY_COUNT, "%s = false", l->stopped);
}

void trainer_measure(Loop *l)
{
    Text *targets = text_new(l->m.arena), *results = text_new(l->m.arena);
    for (int i = 0; i < metric_count(l); i++) {
        if (is_number(l, i))
            text_printf(targets, ", eval_%s", metric_name(l, i));
        text_printf(results, ", __metric_%d(logits, batch.%s)", i, l->label);
    }
    loop_line(l, KEY_eval_dataset,
              "eval_loss%s = evaluate(__eval_dataset__, batch_size = __%s__%s) {", targets->at,
              trainer_key_name(l->t.given[KEY_per_device_eval_batch_size]
                                   ? KEY_per_device_eval_batch_size
                                   : KEY_per_device_train_batch_size),
              l->t.given[KEY_ema_decay] ? arena_printf(l->m.arena, ", weights = %s", l->ema) : "");
    trainer_forward(l);
    loop_line(l, KEY_compute_metrics, "loss%s", results->at);
    loop_line(l, KEY_COUNT, "}");
}

static void better(Loop *l, bool counts)
{
    loop_line(l, KEY_metric_for_best_model, "if eval_%s %c %s {", l->metric, l->greater ? '>' : '<',
              l->best);
    loop_line(l, KEY_metric_for_best_model, "%s = eval_%s", l->best, l->metric);
    loop_line(l, KEY_metric_for_best_model, "save(\"best\")");
    if (counts) {
        loop_line(l, KEY_early_stopping_patience, "%s = 0", l->waited);
        loop_line(l, KEY_early_stopping_patience, "} else {");
        loop_line(l, KEY_early_stopping_patience, "%s += 1", l->waited);
    }
    loop_line(l, KEY_COUNT, "}");
}

/* An early end asks, before the best is known anew, whether the metric is better by the threshold. */
static void patience(Loop *l)
{
    loop_line(l, KEY_early_stopping_threshold,
              "if eval_%s %c %s and abs(eval_%s - %s) > __early_stopping_threshold__ {", l->metric,
              l->greater ? '>' : '<', l->best, l->metric, l->best);
    loop_line(l, KEY_early_stopping_patience, "%s = 0", l->waited);
    loop_line(l, KEY_early_stopping_patience, "} else {");
    loop_line(l, KEY_early_stopping_patience, "%s += 1", l->waited);
    loop_line(l, KEY_COUNT, "}");
}

void trainer_evaluation(Loop *l)
{
    Trainer *t = &l->t;
    bool patient = t->given[KEY_early_stopping_patience] != NULL;
    bool threshold = patient && !trainer_is_zero(t, KEY_early_stopping_threshold);
    trainer_measure(l);
    if (trainer_is(t, KEY_lr_scheduler_type, "reduce_lr_on_plateau"))
        loop_line(l, KEY_lr_scheduler_type, "%s.step(eval_%s)", l->scheduler, l->metric);
    if (threshold)
        patience(l);
    if (l->best_kept)
        better(l, patient && !threshold);
    if (!patient)
        return;
    loop_line(l, KEY_early_stopping_patience, "if %s >= __early_stopping_patience__ {", l->waited);
    if (l->by_steps)
        loop_line(l, KEY_early_stopping_patience, "%s = true", l->stopped);
    loop_line(l, KEY_early_stopping_patience, "break");
    loop_line(l, KEY_COUNT, "}");
}

void trainer_best_end(Loop *l)
{
    if (trainer_flag(&l->t, KEY_load_best_model_at_end))
        loop_line(l, KEY_load_best_model_at_end, "if %s %s { load(\"best\") }", l->best,
                  l->greater ? "> -1e30" : "< 1e30");
}
