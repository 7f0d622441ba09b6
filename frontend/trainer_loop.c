/* trainer_loop.c: the lines of a trainer's loop, from the optimizer to the end of the last epoch.
 *
 * What is decided here is only the shape; docs/LANGUAGE.md has the table of keys and defaults. The
 * order inside an update is backward (of each of its batches), unscale, clip, step, update of the
 * scale, schedule, clear.
 */
#include "frontend/loops.h"

/* ", groups = [...]" or nothing: the user's, and behind them the vectors, which do not decay. */
static const char *groups(Loop *l)
{
    Trainer *t = &l->t;
    bool decays = t->given[KEY_weight_decay] && !trainer_is_zero(t, KEY_weight_decay);
    const char *own = t->given[KEY_groups] ? "__groups__" : "";
    const char *vectors = decays && trainer_is(t, KEY_weight_decay_of, "matrices")
                              ? "group(max_ndim = 1, weight_decay = 0.0)"
                              : "";
    if (!*vectors)
        return *own ? ", groups = __groups__" : "";
    return arena_printf(l->m.arena, ", groups = [%s%s%s]", own, *own ? ", " : "", vectors);
}

static void optimizer(Loop *l)
{
    Trainer *t = &l->t;
    bool sgd = trainer_is(t, KEY_optim, "sgd"), adamw = trainer_is(t, KEY_optim, "adamw");
    Text *args = text_new(l->m.arena);
    if (t->given[KEY_momentum])
        text_puts(args, ", momentum = __momentum__");
    if (trainer_flag(t, KEY_nesterov))
        text_puts(args, ", nesterov = true");
    if (t->given[KEY_adam_beta1] || t->given[KEY_adam_beta2])
        text_puts(args, ", betas = (__adam_beta1__, __adam_beta2__)");
    if (t->given[KEY_adam_epsilon])
        text_puts(args, ", eps = __adam_epsilon__");
    if (adamw || t->given[KEY_weight_decay])
        text_puts(args, ", weight_decay = __weight_decay__"); /* AdamW's own default is not 0 */
    text_puts(args, groups(l));
    loop_line(l, KEY_optim, "%s = %s(%s, lr = __learning_rate__%s)", l->optimizer,
              sgd     ? "SGD"
              : adamw ? "AdamW"
                      : "Adam",
              l->model, args->at);
}

static bool limited(const Loop *l)
{
    const Ast *n = l->t.given[KEY_max_steps];
    bool negative = n && n->kind == AST_unary && n->op == AST_OP_neg; /* -1: not limited */
    return n && !negative;
}

static bool accumulates(const Loop *l)
{
    const Ast *n = l->t.value[KEY_gradient_accumulation_steps];
    return n->kind != AST_int || n->ival != 1;
}

/* The updates of an epoch; the last one may have fewer batches than the others. */
static const char *updates(Loop *l)
{
    return arena_printf(l->m.arena,
                        accumulates(l) ? "((len(%s) + __gradient_accumulation_steps__ - 1) // "
                                         "__gradient_accumulation_steps__)"
                                       : "len(%s)",
                        l->train);
}

static bool one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (str_eq(name, *names))
            return true;
    return false;
}

static bool warms(const char *name)
{
    static const char *const others[] = {"constant", "step", NULL};
    return !one_of(name, others);
}

static bool counts_to_the_end(const char *name)
{
    static const char *const names[] = {"linear",
                                        "cosine",
                                        "cosine_with_restarts",
                                        "cosine_with_min_lr",
                                        "polynomial",
                                        "warmup_stable_decay",
                                        NULL};
    return one_of(name, names);
}

/* What is given goes to the schedule, which says what it does not take. */
static void schedule_arguments(Loop *l, bool plateau, Text *args)
{
    static const struct {
        TrainerKey key;
        const char *name, *of_plateau;
    } all[] = {
        {KEY_lr_step_size, "step_size", NULL},
        {KEY_lr_gamma, "gamma", "factor"},
        {KEY_lr_num_cycles, "num_cycles", NULL},
        {KEY_lr_end, "lr_end", NULL},
        {KEY_lr_power, "power", NULL},
        {KEY_lr_min, "min_lr", "min_lr"},
        {KEY_lr_decay_steps, "num_decay_steps", NULL},
        {KEY_lr_decay_type, "decay_type", NULL},
        {KEY_lr_min_ratio, "min_lr_ratio", NULL},
        {KEY_lr_patience, "patience", "patience"},
        {KEY_lr_cooldown, "cooldown", "cooldown"},
    };
    bool step = trainer_is(&l->t, KEY_lr_scheduler_type, "step");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (l->t.given[all[i].key] || (step && all[i].key == KEY_lr_gamma))
            text_printf(args, ", %s = __%s__",
                        plateau && all[i].of_plateau ? all[i].of_plateau : all[i].name,
                        trainer_key_name(all[i].key));
}

static void schedule(Loop *l)
{
    Trainer *t = &l->t;
    const char *name = t->value[KEY_lr_scheduler_type]->name;
    bool plateau = str_eq(name, "reduce_lr_on_plateau");
    const char *total = limited(l)
                            ? "__max_steps__"
                            : arena_printf(l->m.arena, "__num_train_epochs__ * %s", updates(l));
    const Ast *steps = t->value[KEY_warmup_steps];
    const char *warmup = steps->kind == AST_float && steps->num < 1
                             ? arena_printf(l->m.arena, "ceil(__warmup_steps__ * (%s))", total)
                             : "__warmup_steps__";
    if (t->given[KEY_warmup_ratio] && trainer_is_zero(t, KEY_warmup_steps))
        warmup = arena_printf(l->m.arena, "ceil(__warmup_ratio__ * (%s))", total);
    Text *args = text_new(l->m.arena);
    if (!plateau &&
        (warms(name) || !trainer_is_zero(t, KEY_warmup_steps) || t->given[KEY_warmup_ratio]))
        text_printf(args, ", num_warmup_steps = %s", warmup);
    if (counts_to_the_end(name))
        text_printf(args, ", num_training_steps = %s", total);
    schedule_arguments(l, plateau, args);
    if (plateau)
        loop_line(l, KEY_lr_scheduler_type, "%s = ReduceLROnPlateau(%s, mode = \"%s\"%s)",
                  l->scheduler, l->optimizer, l->greater ? "max" : "min", args->at);
    else
        loop_line(l, KEY_lr_scheduler_type, "%s = get_scheduler(\"%s\", %s%s)", l->scheduler, name,
                  l->optimizer, args->at);
}

static void checkpoints(Loop *l)
{
    Trainer *t = &l->t;
    bool never = trainer_is(t, KEY_save_strategy, "no") || trainer_flag(t, KEY_save_only_model);
    const char *every = never                                       ? "every = \"never\""
                        : trainer_is(t, KEY_save_strategy, "steps") ? "every = __save_steps__"
                                                                    : "";
    const char *keep = t->given[KEY_save_total_limit] ? "keep = __save_total_limit__" : "";
    if (*every || *keep)
        loop_line(l, *every ? KEY_save_strategy : KEY_save_total_limit, "set_checkpoints(%s%s%s)",
                  every, *every && *keep ? ", " : "", keep);
}

static void setup(Loop *l)
{
    Trainer *t = &l->t;
    if (t->given[KEY_seed])
        loop_line(l, KEY_seed, "set_seed(__seed__)");
    if (t->given[KEY_memory])
        loop_line(l, KEY_memory, "set_memory(__memory__)");
    if (t->given[KEY_output_dir])
        loop_line(l, KEY_output_dir, "set_output_dir(__output_dir__)");
    checkpoints(l);
    if (limited(l))
        loop_line(l, KEY_max_steps, "set_max_steps(__max_steps__)");
    loop_line(l, KEY_model, "%s = __model__", l->model);
    if (t->given[KEY_freeze])
        loop_line(l, KEY_freeze, "freeze(%s, __freeze__)", l->model);
    optimizer(l);
    if (t->given[KEY_ema_decay])
        loop_line(l, KEY_ema_decay, "%s = EMA(%s, decay = __ema_decay__%s)", l->ema, l->model,
                  trainer_flag(t, KEY_ema_warmup) ? ", warmup = true" : "");
    const char *order = !t->given[KEY_sampler]     ? ", shuffle = __shuffle__"
                        : t->given[KEY_sampled_by] ? ", sampler = __sampler__, sampled_by = "
                                                     "__sampled_by__"
                                                   : ", sampler = __sampler__";
    loop_line(l, KEY_train_dataset,
              "%s = loader(__train_dataset__, batch_size = __per_device_train_batch_size__%s%s)",
              l->train, order,
              trainer_flag(t, KEY_dataloader_drop_last) ? ", drop_last = true" : "");
    schedule(l);
    if (trainer_flag(t, KEY_fp16))
        loop_line(l, KEY_fp16, "%s = GradScaler()", l->scaler);
    trainer_best_start(l);
    if (l->counts)
        loop_line(l, KEY_COUNT, "%s = 0", l->step);
}

void trainer_forward(Loop *l)
{
    Trainer *t = &l->t;
    bool fp16 = trainer_flag(t, KEY_fp16), bf16 = trainer_flag(t, KEY_bf16);
    const char *smoothing = t->given[KEY_label_smoothing_factor]
                                ? ", label_smoothing = __label_smoothing_factor__"
                                : "";
    if (fp16 || bf16)
        loop_line(l, fp16 ? KEY_fp16 : KEY_bf16, "with autocast(%s) {", fp16 ? "f16" : "bf16");
    loop_line(l, KEY_model, "logits = %s(%s)", l->model, l->inputs);
    loop_line(l, KEY_loss, "loss = __loss__(logits, batch.%s%s)", l->label, smoothing);
    if (fp16 || bf16)
        loop_line(l, KEY_COUNT, "}");
}

/* Gradients are those of the mean over all samples of an update. */
static void backward(Loop *l)
{
    const char *average = accumulates(l) ? ", average = true" : "";
    if (trainer_flag(&l->t, KEY_fp16))
        loop_line(l, KEY_fp16, "backward(%s.scale(loss)%s)", l->scaler, average);
    else
        loop_line(l, KEY_loss, "backward(loss%s)", average);
    if (accumulates(l))
        loop_line(l, KEY_gradient_accumulation_steps,
                  "if (%s + 1) %% __gradient_accumulation_steps__ == 0 or %s + 1 == len(%s) {",
                  l->micro, l->micro, l->train);
}

static void update(Loop *l)
{
    Trainer *t = &l->t;
    bool scaled = trainer_flag(t, KEY_fp16);
    if (scaled)
        loop_line(l, KEY_fp16, "%s.unscale(%s)", l->scaler, l->optimizer);
    if (!trainer_is_zero(t, KEY_max_grad_norm))
        loop_line(l, KEY_max_grad_norm, "clip_grad_norm(%s, __max_grad_norm__)", l->model);
    if (scaled) {
        loop_line(l, KEY_fp16, "%s.step(%s)", l->scaler, l->optimizer);
        loop_line(l, KEY_fp16, "%s.update()", l->scaler);
    } else {
        loop_line(l, KEY_optim, "%s.step()", l->optimizer);
    }
    if (t->given[KEY_ema_decay])
        loop_line(l, KEY_ema_decay, "%s.update()", l->ema);
    if (!trainer_is(t, KEY_lr_scheduler_type, "reduce_lr_on_plateau"))
        loop_line(l, KEY_lr_scheduler_type, "%s.step()", l->scheduler);
    loop_line(l, KEY_optim, "zero_grad(%s)", l->optimizer);
}

static bool logs_every_step(const Loop *l)
{
    const Ast *n = l->t.value[KEY_logging_steps];
    return n->kind == AST_int && n->ival == 1;
}

static void logging(Loop *l)
{
    if (!trainer_is(&l->t, KEY_logging_strategy, "steps"))
        return;
    if (logs_every_step(l))
        loop_line(l, KEY_logging_steps, "log(loss)");
    else
        loop_line(l, KEY_logging_steps, "if %s%s %% __logging_steps__ == 0 { log(loss) }",
                  trainer_flag(&l->t, KEY_logging_first_step)
                      ? arena_printf(l->m.arena, "%s == 1 or ", l->step)
                      : "",
                  l->step);
}

/* Only the weights, in the place of checkpoints: by updates or by epochs. */
static bool saves_weights(const Loop *l, const char *strategy)
{
    return trainer_flag(&l->t, KEY_save_only_model) &&
           trainer_is(&l->t, KEY_save_strategy, strategy);
}

/* Behind an update: its line of the log, an evaluation, the end. */
static void after_update(Loop *l)
{
    if (l->counts)
        loop_line(l, KEY_COUNT, "%s += 1", l->step);
    logging(l);
    if (l->by_steps) {
        loop_line(l, KEY_eval_steps, "if %s %% __eval_steps__ == 0 {", l->step);
        trainer_evaluation(l);
        loop_line(l, KEY_COUNT, "}");
    }
    if (saves_weights(l, "steps"))
        loop_line(l, KEY_save_only_model, "if %s %% __save_steps__ == 0 { save(\"checkpoint\") }",
                  l->step);
    if (l->t.given[KEY_max_time]) {
        loop_line(l, KEY_max_time, "if elapsed() >= __max_time__ {");
        loop_line(l, KEY_max_time, "%s = true", l->stopped);
        loop_line(l, KEY_max_time, "break");
        loop_line(l, KEY_max_time, "}");
    }
}

void trainer_loop(Loop *l)
{
    Trainer *t = &l->t;
    bool logs_steps = trainer_is(t, KEY_logging_strategy, "steps") && !logs_every_step(l);
    l->counts = l->by_steps || logs_steps || saves_weights(l, "steps");
    setup(l);
    if (trainer_flag(t, KEY_eval_on_start))
        trainer_measure(l);
    if (limited(l))
        loop_line(l, KEY_max_steps, "for %s in 0..(__max_steps__ + %s - 1) // %s {", l->epoch,
                  updates(l), updates(l));
    else
        loop_line(l, KEY_num_train_epochs, "for %s in 0..__num_train_epochs__ {", l->epoch);
    if (accumulates(l))
        loop_line(l, KEY_train_dataset, "for %s, batch in enumerate(%s) {", l->micro, l->train);
    else
        loop_line(l, KEY_train_dataset, "for batch in %s {", l->train);
    trainer_forward(l);
    backward(l);
    update(l);
    after_update(l);
    if (accumulates(l))
        loop_line(l, KEY_COUNT, "}");
    loop_line(l, KEY_COUNT, "}");
    if (trainer_is(t, KEY_logging_strategy, "epoch"))
        loop_line(l, KEY_logging_strategy, "log(loss)");
    if (l->by_epoch)
        trainer_evaluation(l);
    if (saves_weights(l, "epoch"))
        loop_line(l, KEY_save_only_model, "save(\"checkpoint\")");
    if (l->stops)
        loop_line(l, KEY_COUNT, "if %s { break }", l->stopped);
    loop_line(l, KEY_COUNT, "}");
    trainer_best_end(l);
}
