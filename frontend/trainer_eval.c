/* trainer_eval.c: the evaluations of a trainer's loop, and what depends on them: the best weights. */
#include "frontend/loops.h"

static int metric_count(const Loop *l)
{
    const Ast *n = l->t.value[KEY_compute_metrics];
    return !n ? 0 : n->kind == AST_name ? 1 : n->list.n;
}

static const char *metric(const Loop *l, int i)
{
    const Ast *n = l->t.value[KEY_compute_metrics];
    return n->kind == AST_name ? n->name : n->list.at[i]->name;
}

/* metric_for_best_model, or the loss if save_strategy asks for the best. */
bool trainer_find_best(Loop *l)
{
    const Ast *given = l->t.given[KEY_metric_for_best_model];
    if (!given && !trainer_is(&l->t, KEY_save_strategy, "best"))
        return true;
    TrainerKey key = given ? KEY_metric_for_best_model : KEY_save_strategy;
    if (!l->t.given[KEY_eval_dataset] || trainer_is(&l->t, KEY_eval_strategy, "no")) {
        diag_error(l->m.diag, l->t.loc[key],
                   "the best weights need evaluations: eval_dataset and "
                   "eval_strategy");
        return false;
    }
    l->best_of = "loss";
    if (!given)
        return true;
    const char *name = given->name;
    name = str_starts(name, "eval_") ? name + 5 : name; /* the Trainer takes both */
    const char *names[64] = {"loss"};
    int n = 1;
    for (int i = 0; i < metric_count(l) && n < 64; i++)
        names[n++] = metric(l, i);
    for (int i = 0; i < n; i++)
        if (str_eq(names[i], name))
            l->best_of = names[i];
    if (str_eq(l->best_of, name))
        return true;
    const char *near = nearest_name(name, names, n);
    diag_error(l->m.diag, given->loc, "\"%s\" is neither \"loss\" nor in compute_metrics", name);
    if (near)
        diag_note(l->m.diag, given->loc, "did you mean \"%s\"?", near);
    return false;
}

static bool better_is_greater(const Loop *l)
{
    if (l->t.given[KEY_greater_is_better])
        return trainer_flag(&l->t, KEY_greater_is_better);
    return !str_eq(l->best_of, "loss");
}

void trainer_best_start(Loop *l)
{
    if (l->best_of)
        loop_line(l, KEY_metric_for_best_model, "%s = %s", l->best,
                  !better_is_greater(l) ? "1e30" : "-1e30");
}

void trainer_evaluation(Loop *l)
{
    Text *targets = text_new(l->m.arena), *results = text_new(l->m.arena);
    for (int i = 0; i < metric_count(l); i++) {
        text_printf(targets, ", eval_%s", metric(l, i));
        text_printf(results, ", %s(logits, batch.%s)", metric(l, i), l->label);
    }
    loop_line(l, KEY_eval_dataset,
              "eval_loss%s = evaluate(__eval_dataset__, batch_size = __%s__) {", targets->at,
              trainer_key_name(l->t.given[KEY_per_device_eval_batch_size]
                                   ? KEY_per_device_eval_batch_size
                                   : KEY_per_device_train_batch_size));
    trainer_forward(l);
    loop_line(l, KEY_compute_metrics, "loss%s", results->at);
    loop_line(l, KEY_COUNT, "}");
    if (!l->best_of)
        return;
    loop_line(l, KEY_metric_for_best_model, "if eval_%s %c %s {", l->best_of,
              better_is_greater(l) ? '>' : '<', l->best);
    loop_line(l, KEY_metric_for_best_model, "%s = eval_%s", l->best, l->best_of);
    loop_line(l, KEY_metric_for_best_model, "save(\"best\")");
    loop_line(l, KEY_metric_for_best_model, "}");
}
