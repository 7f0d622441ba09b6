/* loops.c: a trainer block becomes the explicit loop that it stands for.
 *
 * The loop is written here as text, one line() each, and parsed; `__key__` in a line stands for the
 * value of that key and is replaced in the tree, so that a message about the value points at the
 * user's own words. Every other node of a line gets the place of the key that the line is about.
 *
 * What is decided here is only the shape; docs/LANGUAGE.md has the table of keys and defaults. The
 * order inside an update is backward (of each of its batches), unscale, clip, step, update of the scale, schedule, clear.
 */
#include <string.h>

#include "frontend/frontend.h"
#include "frontend/trainer.h"
#include "ir/base/strutil.h"

typedef VEC(Loc) LocVec;

typedef struct Loop {
    AstMaker m;
    const AstFile *file;
    Trainer t;
    Text *text;
    LocVec places;       /* of each line of text */
    const char *best_of; /* the metric that decides about the best weights, or NULL */
    const char *label;   /* the label's field */
    bool counts;         /* a counter of updates is needed */
    /* names of the loop that the file does not use already */
    const char *model, *optimizer, *train, *scheduler, *scaler, *best, *step, *epoch, *micro;
} Loop;

/* One line of the loop; key (or KEY_COUNT) says what it is about. */
static void line(Loop *l, TrainerKey key, const char *fmt, ...) MPC_PRINTF(3, 4);
static void line(Loop *l, TrainerKey key, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_vprintf(l->text, fmt, ap);
    va_end(ap);
    text_putc(l->text, '\n');
    Loc loc = key < KEY_COUNT ? l->t.loc[key] : l->t.block->loc;
    vec_push(l->m.arena, &l->places, loc);
}

/* ---- names ---- */

static bool declares(const Ast *item, const char *name)
{
    if (item->kind == AST_assign && item->target->kind == AST_tuple) {
        for (int i = 0; i < item->target->list.n; i++)
            if (str_eq(item->target->list.at[i]->name, name))
                return true;
        return false;
    }
    return str_eq(item->kind == AST_assign ? item->target->name : item->name, name);
}

/* `name`, or the first of name_2, name_3 ... that the file does not declare. */
static const char *fresh(Loop *l, const char *name)
{
    const char *tried = name;
    for (int i = 2;; i++) {
        bool taken = false;
        for (int k = 0; k < l->file->root->list.n; k++)
            taken |= declares(l->file->root->list.at[k], tried);
        if (!taken)
            return tried;
        tried = arena_printf(l->m.arena, "%s_%d", name, i);
    }
}

static void choose_names(Loop *l)
{
    l->model = fresh(l, "model");
    l->optimizer = fresh(l, "optimizer");
    l->train = fresh(l, "train");
    l->scheduler = fresh(l, "scheduler");
    l->scaler = fresh(l, "scaler");
    l->best = fresh(l, "best");
    l->step = fresh(l, "step");
    l->epoch = fresh(l, "epoch");
    l->micro = fresh(l, "micro");
}

/* ---- the fields of a sample ---- */

/* The declaration of a data set: by its name, or through `parts = set.split(...)`. */
static const Ast *find_data(const Loop *l, const Ast *set)
{
    const char *name = set->kind == AST_name ? set->name : NULL;
    if (set->kind == AST_member && set->object->kind == AST_name)
        name = set->object->name;
    for (int hops = 0; name && hops < 8; hops++) {
        const char *next = NULL;
        for (int i = 0; i < l->file->root->list.n; i++) {
            const Ast *n = l->file->root->list.at[i];
            if (n->kind == AST_data && str_eq(n->name, name))
                return n;
            if (n->kind == AST_assign && str_eq(n->target->name, name) &&
                n->value->kind == AST_call && n->value->callee->kind == AST_member &&
                n->value->callee->object->kind == AST_name)
                next = n->value->callee->object->name;
        }
        name = next;
    }
    return NULL;
}

static const char *default_label(const Ast *data)
{
    static const char *const usual[] = {"label", "labels", "target", "targets", "y"};
    for (size_t k = 0; k < sizeof usual / sizeof *usual; k++)
        for (int i = 0; i < data->list.n; i++)
            if (str_eq(data->list.at[i]->name, usual[k]))
                return usual[k];
    return data->list.at[data->list.n - 1]->name;
}

/* A plain name that nothing in the file declares. */
static bool is_unknown(const Loop *l, const Ast *set)
{
    if (set->kind != AST_name)
        return false;
    const char *names[64];
    int n = 0;
    for (int i = 0; i < l->file->root->list.n; i++) {
        const Ast *a = l->file->root->list.at[i];
        const char *name = a->kind == AST_data                                    ? a->name
                           : a->kind == AST_assign && a->target->kind == AST_name ? a->target->name
                                                                                  : NULL;
        if (name && str_eq(name, set->name))
            return false;
        if (name && n < 64)
            names[n++] = name;
    }
    diag_error(l->m.diag, set->loc, "unknown data set '%s'", set->name);
    const char *near = nearest_name(set->name, names, n);
    if (near)
        diag_note(l->m.diag, set->loc, "did you mean '%s'?", near);
    return true;
}

/* Fills label and returns the arguments of the model's call, "batch.image"; NULL after an error. */
static const char *find_fields(Loop *l)
{
    const Ast *inputs = l->t.given[KEY_inputs], *labels = l->t.given[KEY_labels];
    const Ast *set = l->t.value[KEY_train_dataset];
    const Ast *data = find_data(l, set);
    if (is_unknown(l, set))
        return NULL;
    if ((!inputs || !labels) && (!data || data->list.n < 2)) {
        diag_error(l->m.diag, set->loc,
                   "cannot tell which fields of this set are the model's inputs and the label");
        diag_note(l->m.diag, set->loc, "say it with the keys inputs and labels");
        return NULL;
    }
    if (labels && labels->kind != AST_name) {
        diag_error(l->m.diag, labels->loc, "labels is one field");
        return NULL;
    }
    l->label = labels ? labels->name : default_label(data);
    if (inputs && inputs->kind == AST_name)
        return arena_printf(l->m.arena, "batch.%s", inputs->name);
    if (inputs) {
        Text *t = text_new(l->m.arena);
        for (int i = 0; i < inputs->list.n; i++)
            text_printf(t, "%sbatch.%s", i ? ", " : "", inputs->list.at[i]->name);
        return t->at;
    }
    for (int i = 0; i < data->list.n; i++)
        if (!str_eq(data->list.at[i]->name, l->label))
            return arena_printf(l->m.arena, "batch.%s", data->list.at[i]->name);
    diag_error(l->m.diag, set->loc, "this set has no field beside the label '%s'", l->label);
    return NULL;
}

/* ---- metrics ---- */

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

/* metric_for_best_model, or the loss if save_strategy asks for the best; false after an error. */
static bool find_best(Loop *l)
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

/* ---- the loop, line by line ---- */

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
    line(l, KEY_optim, "%s = %s(%s, lr = __learning_rate__%s)", l->optimizer,
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

static void schedule(Loop *l)
{
    Trainer *t = &l->t;
    const char *name = t->value[KEY_lr_scheduler_type]->name;
    const char *total = limited(l)
                            ? "__max_steps__"
                            : arena_printf(l->m.arena, "__num_train_epochs__ * %s", updates(l));
    const char *warmup = "__warmup_steps__";
    if (t->given[KEY_warmup_ratio] && trainer_is_zero(t, KEY_warmup_steps))
        warmup = arena_printf(l->m.arena, "ceil(__warmup_ratio__ * (%s))", total);
    Text *args = text_new(l->m.arena);
    if (!str_eq(name, "constant"))
        text_printf(args, ", num_warmup_steps = %s", warmup);
    if (str_eq(name, "linear") || str_eq(name, "cosine"))
        text_printf(args, ", num_training_steps = %s", total);
    if (str_eq(name, "step"))
        text_puts(args, ", step_size = __lr_step_size__, gamma = __lr_gamma__");
    line(l, KEY_lr_scheduler_type, "%s = get_scheduler(\"%s\", %s%s)", l->scheduler, name,
         l->optimizer, args->at);
}

static bool better_is_greater(const Loop *l)
{
    if (l->t.given[KEY_greater_is_better])
        return trainer_flag(&l->t, KEY_greater_is_better);
    return !str_eq(l->best_of, "loss");
}

static void setup(Loop *l)
{
    Trainer *t = &l->t;
    if (t->given[KEY_seed])
        line(l, KEY_seed, "set_seed(__seed__)");
    if (t->given[KEY_output_dir])
        line(l, KEY_output_dir, "set_output_dir(__output_dir__)");
    line(l, KEY_model, "%s = __model__", l->model);
    optimizer(l);
    line(l, KEY_train_dataset,
         "%s = loader(__train_dataset__, batch_size = __per_device_train_batch_size__, "
         "shuffle = __shuffle__%s)",
         l->train, trainer_flag(t, KEY_dataloader_drop_last) ? ", drop_last = true" : "");
    schedule(l);
    if (trainer_flag(t, KEY_fp16))
        line(l, KEY_fp16, "%s = GradScaler()", l->scaler);
    if (l->best_of)
        line(l, KEY_metric_for_best_model, "%s = %s", l->best,
             !better_is_greater(l) ? "1e30" : "-1e30");
    if (l->counts)
        line(l, KEY_COUNT, "%s = 0", l->step);
}

/* logits and loss of a batch, in the precision asked for */
static void forward(Loop *l, const char *inputs)
{
    Trainer *t = &l->t;
    bool fp16 = trainer_flag(t, KEY_fp16), bf16 = trainer_flag(t, KEY_bf16);
    const char *smoothing = t->given[KEY_label_smoothing_factor]
                                ? ", label_smoothing = __label_smoothing_factor__"
                                : "";
    if (fp16 || bf16)
        line(l, fp16 ? KEY_fp16 : KEY_bf16, "with autocast(%s) {", fp16 ? "f16" : "bf16");
    line(l, KEY_model, "logits = %s(%s)", l->model, inputs);
    line(l, KEY_loss, "loss = __loss__(logits, batch.%s%s)", l->label, smoothing);
    if (fp16 || bf16)
        line(l, KEY_COUNT, "}");
}

/* Gradients are those of the mean over all samples of an update. */
static void backward(Loop *l)
{
    const char *average = accumulates(l) ? ", average = true" : "";
    if (trainer_flag(&l->t, KEY_fp16))
        line(l, KEY_fp16, "backward(%s.scale(loss)%s)", l->scaler, average);
    else
        line(l, KEY_loss, "backward(loss%s)", average);
    if (accumulates(l))
        line(l, KEY_gradient_accumulation_steps,
             "if (%s + 1) %% __gradient_accumulation_steps__ == 0 or %s + 1 == len(%s) {", l->micro,
             l->micro, l->train);
}

static void update(Loop *l)
{
    Trainer *t = &l->t;
    bool scaled = trainer_flag(t, KEY_fp16);
    if (scaled)
        line(l, KEY_fp16, "%s.unscale(%s)", l->scaler, l->optimizer);
    if (!trainer_is_zero(t, KEY_max_grad_norm))
        line(l, KEY_max_grad_norm, "clip_grad_norm(%s, __max_grad_norm__)", l->model);
    if (scaled) {
        line(l, KEY_fp16, "%s.step(%s)", l->scaler, l->optimizer);
        line(l, KEY_fp16, "%s.update()", l->scaler);
    } else {
        line(l, KEY_optim, "%s.step()", l->optimizer);
    }
    line(l, KEY_lr_scheduler_type, "%s.step()", l->scheduler);
    line(l, KEY_optim, "zero_grad(%s)", l->optimizer);
}

static void evaluation(Loop *l, const char *inputs)
{
    Text *targets = text_new(l->m.arena), *results = text_new(l->m.arena);
    for (int i = 0; i < metric_count(l); i++) {
        text_printf(targets, ", eval_%s", metric(l, i));
        text_printf(results, ", %s(logits, batch.%s)", metric(l, i), l->label);
    }
    line(l, KEY_eval_dataset, "eval_loss%s = evaluate(__eval_dataset__, batch_size = __%s__) {",
         targets->at,
         trainer_key_name(l->t.given[KEY_per_device_eval_batch_size]
                              ? KEY_per_device_eval_batch_size
                              : KEY_per_device_train_batch_size));
    forward(l, inputs);
    line(l, KEY_compute_metrics, "loss%s", results->at);
    line(l, KEY_COUNT, "}");
    if (!l->best_of)
        return;
    line(l, KEY_metric_for_best_model, "if eval_%s %c %s {", l->best_of,
         better_is_greater(l) ? '>' : '<', l->best);
    line(l, KEY_metric_for_best_model, "%s = eval_%s", l->best, l->best_of);
    line(l, KEY_metric_for_best_model, "save(\"best\")");
    line(l, KEY_metric_for_best_model, "}");
}

static bool logs_every_step(const Loop *l)
{
    const Ast *n = l->t.value[KEY_logging_steps];
    return n->kind == AST_int && n->ival == 1;
}

static void loop(Loop *l, const char *inputs)
{
    Trainer *t = &l->t;
    bool by_steps = trainer_is(t, KEY_eval_strategy, "steps");
    bool by_epoch = t->given[KEY_eval_strategy] ? trainer_is(t, KEY_eval_strategy, "epoch")
                                                : t->given[KEY_eval_dataset] != NULL;
    l->counts = by_steps || limited(l) || !logs_every_step(l);
    setup(l);
    if (limited(l))
        line(l, KEY_max_steps, "for %s in 0..(__max_steps__ + %s - 1) // %s {", l->epoch,
             updates(l), updates(l));
    else
        line(l, KEY_num_train_epochs, "for %s in 0..__num_train_epochs__ {", l->epoch);
    if (accumulates(l))
        line(l, KEY_train_dataset, "for %s, batch in enumerate(%s) {", l->micro, l->train);
    else
        line(l, KEY_train_dataset, "for batch in %s {", l->train);
    forward(l, inputs);
    backward(l);
    update(l);
    if (l->counts)
        line(l, KEY_COUNT, "%s += 1", l->step);
    if (logs_every_step(l))
        line(l, KEY_logging_steps, "log(loss)");
    else
        line(l, KEY_logging_steps, "if %s %% __logging_steps__ == 0 { log(loss) }", l->step);
    if (by_steps) {
        line(l, KEY_eval_steps, "if %s %% __eval_steps__ == 0 {", l->step);
        evaluation(l, inputs);
        line(l, KEY_COUNT, "}");
    }
    if (limited(l))
        line(l, KEY_max_steps, "if %s == __max_steps__ { break }", l->step);
    if (accumulates(l))
        line(l, KEY_COUNT, "}");
    line(l, KEY_COUNT, "}");
    if (by_epoch)
        evaluation(l, inputs);
    line(l, KEY_COUNT, "}");
}

/* ---- text to tree ---- */

/* The value that `__key__` stands for, or NULL. */
static Ast *placeholder(const Loop *l, const Ast *n)
{
    size_t len = n->kind == AST_name ? strlen(n->name) : 0;
    if (len < 5 || !str_starts(n->name, "__") || !str_ends(n->name, "__"))
        return NULL;
    int key = trainer_key_of(arena_strndup(l->m.arena, n->name + 2, len - 4));
    return key < 0 ? NULL : l->t.value[key];
}

static Ast *settle(Loop *l, Ast *n);

static void settle_list(Loop *l, AstList list)
{
    for (int i = 0; i < list.n; i++)
        list.at[i] = settle(l, list.at[i]);
}

/* Gives a parsed node its place and its values. */
static Ast *settle(Loop *l, Ast *n)
{
    if (!n)
        return NULL;
    Ast *value = placeholder(l, n);
    if (value)
        return value;
    n->loc = n->name_loc = l->places.at[n->loc.line - 1];
    n->a = settle(l, n->a);
    n->b = settle(l, n->b);
    n->c = settle(l, n->c);
    settle_list(l, n->list);
    settle_list(l, n->list2);
    return ast_seal(&l->m, n);
}

static AstList expand(Loop *l, const Ast *block)
{
    AstList none = {0};
    if (!trainer_read(&l->m, block, &l->t))
        return none;
    choose_names(l);
    const char *inputs = find_fields(l);
    if (!inputs || !find_best(l))
        return none;
    loop(l, inputs);
    /* the text is ours: an error in it is an internal one */
    Diag *quiet = diag_new(l->m.arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
    SourceFile *source = source_from_text(l->m.arena, "<trainer>", l->text->at, l->text->n);
    AstFile *file = frontend_parse(l->m.arena, quiet, source);
    if (diag_failed(quiet))
        ICE("the loop of a trainer does not parse: %s", diag_text(quiet));
    settle_list(l, file->root->list);
    return file->root->list;
}

AstFile *frontend_expand_trainer(Arena *a, Diag *d, const AstFile *file)
{
    AstFile *out = ARENA_NEW(a, AstFile);
    AstMaker m = {.arena = a, .diag = d};
    AstList items = {0};
    const Ast *first = NULL;
    *out = *file;
    for (int i = 0; i < file->root->list.n; i++) {
        Ast *n = file->root->list.at[i];
        if (n->kind != AST_trainer) {
            items = ast_append(&m, items, n);
        } else if (first) {
            diag_error(d, n->loc, "a file has one trainer block");
            diag_note(d, first->loc, "the first one is here");
        } else {
            Loop l = {.m = m, .file = file, .text = text_new(a)};
            AstList loop_items = expand(&l, n);
            for (int k = 0; k < loop_items.n; k++)
                items = ast_append(&m, items, loop_items.at[k]);
            first = n;
        }
    }
    out->root = ast_decl(&m, AST_file, file->root->loc, NULL, items, (AstList){0});
    return out;
}
