/* trainer.c: reads the keys of a trainer block into a Trainer, by the table trainer_keys.def.
 *
 * Keys that decide the shape of the loop (flags, choices, names) must be literals; numbers may be
 * any expression, for example an option. The loop itself is written in loops.c.
 */
#include "frontend/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/strutil.h"

typedef enum KeyType {
    T_expr,
    T_names,
    T_flag,
    T_count,
    T_number,
    T_text,
    T_choice,
    T_metrics,
    T_time
} KeyType;

typedef struct KeyInfo {
    const char *name;
    KeyType type;
    const char *initial;
} KeyInfo;

static const KeyInfo keys[] = {
#define KEY(name, type, def, doc) [KEY_##name] = {#name, T_##type, def},
#define CHOICE(key, value)
#define ALIAS(other, key, old)
#define SPELLING(key, other, value)
#include "frontend/trainer_keys.def"
};

static const struct {
    TrainerKey key;
    const char *value;
} choices[] = {
#define KEY(name, type, def, doc)
#define CHOICE(key, value) {KEY_##key, value},
#define ALIAS(other, key, old)
#define SPELLING(key, other, value)
#include "frontend/trainer_keys.def"
};

static const struct {
    const char *other;
    TrainerKey key;
    bool old;
} aliases[] = {
#define KEY(name, type, def, doc)
#define CHOICE(key, value)
#define ALIAS(other, key, old) {#other, KEY_##key, old},
#define SPELLING(key, other, value)
#include "frontend/trainer_keys.def"
};

static const struct {
    TrainerKey key;
    const char *other, *value;
} spellings[] = {
#define KEY(name, type, def, doc)
#define CHOICE(key, value)
#define ALIAS(other, key, old)
#define SPELLING(key, other, value) {KEY_##key, other, value},
#include "frontend/trainer_keys.def"
};

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

const char *trainer_key_name(TrainerKey key)
{
    return keys[key].name;
}

int trainer_key_of(const char *name)
{
    for (int i = 0; i < KEY_COUNT; i++)
        if (strcmp(keys[i].name, name) == 0)
            return i;
    return -1;
}

/* The key that `item` names, with a note for an old spelling; -1 after an error. */
static int find_key(AstMaker *m, const Ast *item)
{
    int key = trainer_key_of(item->name);
    for (int i = 0; key < 0 && i < COUNT(aliases); i++) {
        if (strcmp(aliases[i].other, item->name) != 0)
            continue;
        key = (int)aliases[i].key;
        if (aliases[i].old)
            diag_warning(m->diag, item->loc, "'%s' is an old name of '%s'", item->name,
                         keys[key].name);
    }
    if (key >= 0)
        return key;
    const char *names[KEY_COUNT];
    for (int i = 0; i < KEY_COUNT; i++)
        names[i] = keys[i].name;
    const char *near = nearest_name(item->name, names, KEY_COUNT);
    diag_error(m->diag, item->loc, "trainer has no key '%s'", item->name);
    if (near)
        diag_note(m->diag, item->loc, "did you mean '%s'?", near);
    return -1;
}

static bool is_literal(const Ast *n)
{
    return n->kind == AST_str || n->kind == AST_bool || n->kind == AST_none ||
           n->kind == AST_list || n->kind == AST_comprehension || n->kind == AST_range;
}

static bool is_names(const Ast *n)
{
    if (n->kind == AST_name)
        return true;
    if (n->kind != AST_list || !n->list.n)
        return false;
    for (int i = 0; i < n->list.n; i++)
        if (n->list.at[i]->kind != AST_name)
            return false;
    return true;
}

/* accuracy, or f1(average = "macro") */
static bool is_metric(const Ast *n)
{
    if (n->kind != AST_call)
        return n->kind == AST_name;
    for (int i = 0; i < n->list.n; i++)
        if (n->list.at[i]->kind != AST_keyword)
            return false;
    return n->callee->kind == AST_name;
}

static bool is_metrics(const Ast *n)
{
    if (n->kind != AST_list)
        return is_metric(n);
    for (int i = 0; i < n->list.n; i++)
        if (!is_metric(n->list.at[i]))
            return false;
    return n->list.n > 0;
}

/* "1h30m", "90s", "45": seconds; negative when it is no time. */
static double seconds_of(const char *text)
{
    static const struct {
        char letter;
        double seconds;
    } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    double all = 0;
    for (const char *p = text; *p || p == text;) {
        char *end;
        double n = strtod(p, &end), unit = *end ? 0 : 1;
        for (int i = 0; i < COUNT(units); i++)
            unit = *end == units[i].letter ? units[i].seconds : unit;
        if (end == p || *p < '0' || *p > '9' || unit == 0)
            return -1;
        all += n * unit;
        p = *end ? end + 1 : end;
    }
    return all;
}

/* What the value of a key of this type must be, or NULL if it is. */
static const char *wanted(KeyType type, const Ast *value)
{
    switch (type) {
    case T_expr: return NULL;
    case T_names: return is_names(value) ? NULL : "a name or a list of names";
    case T_flag: return value->kind == AST_bool ? NULL : "true or false";
    case T_count: return is_literal(value) || value->kind == AST_float ? "a whole number" : NULL;
    case T_number: return is_literal(value) ? "a number" : NULL;
    case T_metrics: return is_metrics(value) ? NULL : "a metric or a list of metrics";
    case T_time:
        return value->kind == AST_str ? seconds_of(value->name) >= 0 ? NULL : "a time, as \"1h30m\""
               : is_literal(value)    ? "a number of seconds, or a time, as \"1h30m\""
                                      : NULL;
    case T_text:
    case T_choice: return value->kind == AST_str ? NULL : "a string";
    }
    ICE("a trainer key of type %d", (int)type);
}

static bool check_choice(AstMaker *m, Trainer *t, int key, const Ast *value)
{
    const char *names[COUNT(choices) + COUNT(spellings)];
    int n = 0;
    for (int i = 0; i < COUNT(spellings); i++) {
        if ((int)spellings[i].key == key && strcmp(spellings[i].other, value->name) == 0) {
            t->given[key] = ast_str(m, value->loc, spellings[i].value);
            return true;
        }
        if ((int)spellings[i].key == key)
            names[n++] = spellings[i].other;
    }
    Text *all = text_new(m->arena);
    for (int i = 0; i < COUNT(choices); i++) {
        if ((int)choices[i].key != key)
            continue;
        if (strcmp(choices[i].value, value->name) == 0)
            return true;
        text_printf(all, "%s\"%s\"", *all->at ? ", " : "", choices[i].value);
        names[n++] = choices[i].value;
    }
    const char *near = nearest_name(value->name, names, n);
    diag_error(m->diag, value->loc, "%s is one of %s", keys[key].name, all->at);
    if (near)
        diag_note(m->diag, value->loc, "did you mean \"%s\"?", near);
    return false;
}

static bool read_key(AstMaker *m, Trainer *t, const Ast *item)
{
    int key = find_key(m, item);
    if (key < 0)
        return false;
    if (t->given[key]) {
        diag_error(m->diag, item->loc, "'%s' is given twice", keys[key].name);
        diag_note(m->diag, t->loc[key], "the first time is here");
        return false;
    }
    t->given[key] = item->value;
    t->loc[key] = item->loc;
    const char *want = wanted(keys[key].type, item->value);
    if (want) {
        diag_error(m->diag, item->value->loc, "%s is %s", keys[key].name, want);
        return false;
    }
    if (keys[key].type == T_time && item->value->kind == AST_str)
        t->given[key] = ast_int(m, item->value->loc, (int64_t)ceil(seconds_of(item->value->name)));
    return keys[key].type != T_choice || check_choice(m, t, key, item->value);
}

static Ast *default_of(AstMaker *m, TrainerKey key, Loc loc)
{
    const char *text = keys[key].initial;
    if (!*text)
        return NULL;
    switch (keys[key].type) {
    case T_flag: return ast_bool(m, loc, strcmp(text, "true") == 0);
    case T_names:
    case T_expr: return ast_name(m, loc, text);
    case T_text:
    case T_choice: return ast_str(m, loc, text);
    default:
        if (*text == '-')
            return ast_unary(m, loc, AST_OP_neg, ast_number(m, loc, text + 1));
        return ast_number(m, loc, text);
    }
}

static void check_at_least_1(AstMaker *m, const Trainer *t)
{
    static const TrainerKey some[] = {
        KEY_gradient_accumulation_steps,
        KEY_per_device_train_batch_size,
        KEY_per_device_eval_batch_size,
        KEY_eval_steps,
        KEY_logging_steps,
        KEY_save_steps,
        KEY_save_total_limit,
        KEY_early_stopping_patience,
        KEY_lr_step_size,
        KEY_lr_decay_steps,
    };
    for (int i = 0; i < COUNT(some); i++) {
        const Ast *n = t->given[some[i]];
        bool negative = n && n->kind == AST_unary && n->op == AST_OP_neg;
        if (n && (negative || (n->kind == AST_int && n->ival < 1)))
            diag_error(m->diag, n->loc, "%s is at least 1", keys[some[i]].name);
    }
}

/* What no single key can be wrong about. */
static bool check_together(AstMaker *m, const Trainer *t)
{
    static const TrainerKey required[] = {KEY_model, KEY_train_dataset};
    int before = diag_errors(m->diag);
    for (int i = 0; i < COUNT(required); i++)
        if (!t->given[required[i]])
            diag_error(m->diag, t->block->loc, "trainer needs a %s", keys[required[i]].name);
    check_at_least_1(m, t);
    if (trainer_flag(t, KEY_fp16) && trainer_flag(t, KEY_bf16))
        diag_error(m->diag, t->loc[KEY_bf16], "fp16 and bf16 exclude each other");
    bool sgd = trainer_is(t, KEY_optim, "sgd");
    static const TrainerKey of_sgd[] = {KEY_momentum, KEY_nesterov};
    static const TrainerKey of_adam[] = {KEY_adam_beta1, KEY_adam_beta2, KEY_adam_epsilon};
    for (int i = 0; i < COUNT(of_sgd); i++)
        if (t->given[of_sgd[i]] && !sgd)
            diag_error(m->diag, t->loc[of_sgd[i]], "%s is for optim = \"sgd\", but optim is \"%s\"",
                       keys[of_sgd[i]].name, t->value[KEY_optim]->name);
    for (int i = 0; i < COUNT(of_adam); i++)
        if (t->given[of_adam[i]] && sgd)
            diag_error(m->diag, t->loc[of_adam[i]], "%s is not for optim = \"sgd\"",
                       keys[of_adam[i]].name);
    bool step = trainer_is(t, KEY_lr_scheduler_type, "step");
    if (step && !t->given[KEY_lr_step_size])
        diag_error(m->diag, t->loc[KEY_lr_scheduler_type], "the step schedule needs lr_step_size");
    bool stable = trainer_is(t, KEY_lr_scheduler_type, "warmup_stable_decay");
    if (stable && !t->given[KEY_lr_decay_steps])
        diag_error(m->diag, t->loc[KEY_lr_scheduler_type],
                   "the warmup_stable_decay schedule needs lr_decay_steps");
    if (t->given[KEY_ema_warmup] && !t->given[KEY_ema_decay])
        diag_error(m->diag, t->loc[KEY_ema_warmup], "ema_warmup needs ema_decay");
    if (trainer_flag(t, KEY_save_only_model) && t->given[KEY_save_total_limit])
        diag_error(m->diag, t->loc[KEY_save_total_limit],
                   "save_total_limit is of checkpoints, and save_only_model writes none");
    if (trainer_is(t, KEY_eval_strategy, "steps") && !t->given[KEY_eval_steps])
        diag_error(m->diag, t->loc[KEY_eval_strategy],
                   "eval_strategy = \"steps\" needs eval_steps");
    if (t->given[KEY_early_stopping_threshold] && !t->given[KEY_early_stopping_patience])
        diag_error(m->diag, t->loc[KEY_early_stopping_threshold],
                   "early_stopping_threshold needs early_stopping_patience");
    if (t->given[KEY_save_steps] && !trainer_is(t, KEY_save_strategy, "steps"))
        diag_error(m->diag, t->loc[KEY_save_steps], "save_steps needs save_strategy = \"steps\"");
    if (t->given[KEY_eval_strategy] && !trainer_is(t, KEY_eval_strategy, "no") &&
        !t->given[KEY_eval_dataset])
        diag_error(m->diag, t->loc[KEY_eval_strategy], "there is no eval_dataset to evaluate on");
    return diag_errors(m->diag) == before;
}

bool trainer_read(AstMaker *m, const Ast *block, Trainer *t)
{
    bool ok = true;
    *t = (Trainer){.block = block};
    for (int i = 0; i < KEY_COUNT; i++)
        t->loc[i] = block->loc;
    for (int i = 0; i < block->list.n; i++)
        ok &= read_key(m, t, block->list.at[i]);
    for (int i = 0; i < KEY_COUNT; i++)
        t->value[i] = t->given[i] ? t->given[i] : default_of(m, (TrainerKey)i, t->loc[i]);
    return ok && check_together(m, t);
}

bool trainer_flag(const Trainer *t, TrainerKey key)
{
    return t->value[key] && t->value[key]->kind == AST_bool && t->value[key]->ival;
}

bool trainer_is(const Trainer *t, TrainerKey key, const char *text)
{
    return t->value[key] && t->value[key]->kind == AST_str && str_eq(t->value[key]->name, text);
}

bool trainer_is_zero(const Trainer *t, TrainerKey key)
{
    const Ast *n = t->value[key];
    return n && ((n->kind == AST_int && n->ival == 0) || (n->kind == AST_float && n->num == 0));
}
