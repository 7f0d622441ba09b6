/* rt_options.c: reads the command line: the flags that every program has (abi/flags.def), and --NAME for every
 * option of the file. A wrong name is answered with the nearest right one. */
#include "rt_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEED_DEFAULT = 42, THREADS_MOST = 1024, KEPT_DEFAULT = 2 };
static const double checkpoint_seconds = 60;

const char *const rt_console_name[RT_CONSOLE_none + 1] = {"text", "jsonl", "csv", "tensorboard",
                                                          "none"};
const char *const rt_shell_name[RT_SHELL_COUNT] = {"bash", "zsh", "fish"};

typedef struct Flag {
    const char *name, *value, *help; /* value NULL: the flag stands alone; [VALUE]: it may */
    bool (*set)(RtOptions *o, const char *text, RtErr *e);
} Flag;

/* ---- setters ---- */

static bool whole(const char *name, const char *text, int64_t low, int64_t high, int64_t *out,
                  RtErr *e)
{
    if (!rt_parse_int(text, strlen(text), out))
        return rt_err(e, "--%s: '%s' is not a whole number", name, text);
    if (*out < low || *out > high)
        return rt_err(e, "--%s: %s is outside %lld to %lld", name, text, (long long)low,
                      (long long)high);
    return true;
}

static bool set_data(RtOptions *o, const char *text, RtErr *e)
{
    (void)e;
    o->data_dir = text;
    return true;
}

static bool set_out(RtOptions *o, const char *text, RtErr *e)
{
    if (!*text)
        return rt_err(e, "--out: the name of the folder is empty");
    o->out = text;
    return true;
}

static bool is_cuda(const char *device)
{
    return device && !strncmp(device, "cuda", 4);
}

bool rt_options_allow_gpu(const RtOptions *o)
{
    return o->program->cuda && !(o->device && !strcmp(o->device, "cpu"));
}

bool rt_options_need_gpu(const RtOptions *o)
{
    return is_cuda(o->device) || o->program->gpu_only;
}

static bool set_device(RtOptions *o, const char *text, RtErr *e)
{
    int64_t gpu = -1;
    bool cuda = is_cuda(text) &&
                (!text[4] || (text[4] == ':' && rt_parse_int(text + 5, strlen(text + 5), &gpu) &&
                              gpu >= 0 && gpu < 1024));
    if (cuda && !o->program->cuda) {
        rt_err(e, "--device %s: this program was compiled for the CPU only", text);
        rt_hint(e, "run it with --device cpu, or compile it with mpc --target=cpu+cuda");
        return false;
    }
    if (!cuda && strcmp(text, "cpu") != 0 && strcmp(text, "auto") != 0)
        return rt_err(e, "--device: '%s' is none of auto, cpu, cuda, cuda:N", text);
    if (o->program->gpu_only && !strcmp(text, "cpu")) {
        rt_err(e, "--device cpu: this program was compiled for a GPU only");
        rt_hint(e, "mpc --target=cpu+cuda makes one for both");
        return false;
    }
    o->device = text;
    o->gpu = (int)gpu;
    return true;
}

static bool set_threads(RtOptions *o, const char *text, RtErr *e)
{
    return whole("threads", text, 1, THREADS_MOST, &o->threads, e);
}

static bool set_seed(RtOptions *o, const char *text, RtErr *e)
{
    int64_t seed;
    if (!whole("seed", text, 0, INT64_MAX, &seed, e))
        return false;
    o->seed = (uint64_t)seed;
    o->seed_from = "command line";
    return true;
}

static bool set_epochs(RtOptions *o, const char *text, RtErr *e)
{
    return whole("epochs", text, 0, 1000000000, &o->epochs, e);
}

static bool set_max_steps(RtOptions *o, const char *text, RtErr *e)
{
    return whole("max-steps", text, 0, INT64_MAX, &o->max_steps, e);
}

static bool set_init(RtOptions *o, const char *text, RtErr *e)
{
    (void)e;
    o->init = text;
    return true;
}

static bool set_resume(RtOptions *o, const char *text, RtErr *e)
{
    if (text && !*text)
        return rt_err(e, "--resume: the name of the checkpoint is empty");
    o->resume = true;
    o->resume_path = text;
    return true;
}

static bool set_checkpoint_every(RtOptions *o, const char *text, RtErr *e)
{
    size_t length = strlen(text);
    bool seconds = length && text[length - 1] == 's';
    o->checkpoint_steps = 0;
    o->checkpoint_never = !strcmp(text, "never");
    if (o->checkpoint_never)
        return true;
    if (seconds) {
        if (!rt_parse_double(text, length - 1, &o->checkpoint_seconds) ||
            !(o->checkpoint_seconds > 0 && o->checkpoint_seconds <= 1e9))
            return rt_err(e, "--checkpoint-every: '%s' is no number of seconds above 0", text);
        return true;
    }
    if (rt_parse_int(text, length, &o->checkpoint_steps) && o->checkpoint_steps > 0)
        return true;
    rt_err(e, "--checkpoint-every: '%s' is no number of updates above 0", text);
    rt_hint(e, "seconds are written with an s: --checkpoint-every 60s");
    return false;
}

static bool set_keep_checkpoints(RtOptions *o, const char *text, RtErr *e)
{
    return whole("keep-checkpoints", text, 1, 1000000, &o->keep_checkpoints, e);
}

static bool set_log(RtOptions *o, const char *text, RtErr *e)
{
    for (int i = 0; i <= RT_CONSOLE_none; i++)
        if (!strcmp(text, rt_console_name[i])) {
            o->console = (RtConsole)i;
            return true;
        }
    return rt_err(e, "--log: '%s' is none of text, jsonl, csv, tensorboard, none", text);
}

#define ACTION(name)                                                                               \
    static bool set_##name(RtOptions *o, const char *text, RtErr *e)                               \
    {                                                                                              \
        (void)text;                                                                                \
        (void)e;                                                                                   \
        if (RT_ACTION_##name > o->action)                                                          \
            o->action = RT_ACTION_##name;                                                          \
        return true;                                                                               \
    }
static bool set_profile(RtOptions *o, const char *text, RtErr *e)
{
    (void)text;
    (void)e;
    o->profile = true;
    return true;
}

ACTION(eval)

static bool set_predict(RtOptions *o, const char *text, RtErr *e)
{
    if (!*text)
        return rt_err(e, "--predict: the name of the file is empty");
    o->predict = text;
    o->action = o->action < RT_ACTION_predict ? RT_ACTION_predict : o->action;
    return true;
}

static bool set_output(RtOptions *o, const char *text, RtErr *e)
{
    if (!*text)
        return rt_err(e, "--output: the name of the file is empty");
    o->output = text;
    return true;
}

static bool set_export(RtOptions *o, const char *text, RtErr *e)
{
    if (!*text)
        return rt_err(e, "--export: the name of the file is empty");
    o->export_path = text;
    o->action = o->action < RT_ACTION_export ? RT_ACTION_export : o->action;
    return true;
}

ACTION(summary)
ACTION(print_config)
ACTION(help)
ACTION(version)

static bool set_completion(RtOptions *o, const char *text, RtErr *e)
{
    for (int i = 0; i < RT_SHELL_COUNT; i++)
        if (!strcmp(text, rt_shell_name[i])) {
            o->shell = (RtShell)i;
            o->action = o->action < RT_ACTION_completion ? RT_ACTION_completion : o->action;
            return true;
        }
    return rt_err(e, "--completion: '%s' is none of bash, zsh, fish", text);
}

static bool set_plan(RtOptions *o, const char *text, RtErr *e)
{
    o->plan_full = text && !strcmp(text, "full");
    if (text && !o->plan_full)
        return rt_err(e, "--plan: '%s' is not full; nothing behind --plan folds long lists", text);
    if (RT_ACTION_plan > o->action)
        o->action = RT_ACTION_plan;
    return true;
}

static const Flag flags[] = {
#define FLAG(set, name, value, meaning) {name, value, meaning, set_##set},
#include "abi/flags.def"
};
enum { FLAGS = sizeof flags / sizeof flags[0] };

/* ---- the file's options ---- */

static bool set_value(RtOptions *o, int i, const char *text, RtErr *e)
{
    const MpcOption *option = &o->program->options[i];
    RtValue *v = &o->values[i];
    size_t length = strlen(text);
    bool ok = true;
    v->from = "command line";
    switch (option->type) {
    case MPC_OPTION_int:
        if (!rt_parse_int(text, length, &v->whole))
            return rt_err(e, "--%s: '%s' is not a whole number", option->name, text);
        v->number = (double)v->whole;
        break;
    case MPC_OPTION_float:
        if (!rt_parse_double(text, length, &v->number) || !isfinite(v->number))
            return rt_err(e, "--%s: '%s' is not a number", option->name, text);
        break;
    case MPC_OPTION_bool:
        ok = !strcmp(text, "true") || !strcmp(text, "false") || !strcmp(text, "1") ||
             !strcmp(text, "0");
        if (!ok)
            return rt_err(e, "--%s: '%s' is neither true nor false", option->name, text);
        v->number = text[0] == 't' || text[0] == '1';
        v->whole = (int64_t)v->number;
        break;
    case MPC_OPTION_string: v->text = text; break;
    }
    bool other = option->type == MPC_OPTION_string ? strcmp(text, option->text) != 0
                                                   : v->number != option->number;
    if (option->fixed && other)
        rt_err(e, "--%s: the program was compiled for another value of it", option->name);
    else if (option->bounded && v->number > option->number)
        rt_err(e, "--%s: %s is more than the %.0f that the program was compiled for", option->name,
               text, option->number);
    else if (option->bounded && v->number < 1)
        return rt_err(e, "--%s: %s is less than 1", option->name, text);
    else
        return true;
    rt_hint(e, "compile it again: mpc %s -D %s=%s", o->program->source, option->name, text);
    return false;
}

/* The flag's name up to '=', with '_' for '-' (want '_') or the reverse. */
static bool same_name(const char *a, size_t length, const char *b)
{
    if (strlen(b) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (a[i] != b[i] && !((a[i] == '-' || a[i] == '_') && (b[i] == '-' || b[i] == '_')))
            return false;
    return true;
}

static int find_option(const RtOptions *o, const char *name, size_t length)
{
    for (int i = 0; i < o->program->n_options; i++)
        if (same_name(name, length, o->program->options[i].name))
            return i;
    return -1;
}

static const Flag *find_flag(const char *name, size_t length)
{
    for (int i = 0; i < FLAGS; i++)
        if (same_name(name, length, flags[i].name))
            return &flags[i];
    return NULL;
}

static bool unknown(const RtOptions *o, const char *argument, size_t length, RtErr *e)
{
    char name[64];
    RtNear near;
    size_t n = length < sizeof name - 1 ? length : sizeof name - 1;
    memcpy(name, argument, n);
    name[n] = 0;
    rt_near_start(&near, name);
    for (int i = 0; i < FLAGS; i++)
        rt_near_try(&near, flags[i].name);
    for (int i = 0; i < o->program->n_options; i++)
        rt_near_try(&near, o->program->options[i].name);
    rt_err(e, "unknown flag --%s", name);
    if (near.best)
        rt_hint(e, "did you mean --%s?", near.best);
    else
        rt_hint(e, "--help lists the flags");
    return false;
}

/* One flag; *next is the argument after it, taken where a value is needed. */
static bool take(RtOptions *o, const char *argument, char ***next, RtErr *e)
{
    const char *name = argument + 2, *equals = strchr(name, '='), *text = NULL;
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    int option = find_option(o, name, length);
    const Flag *flag = find_flag(name, length);
    if (option < 0 && !flag)
        return unknown(o, name, length, e);
    bool may = option < 0 && flag->value && flag->value[0] == '[';
    bool needs = option >= 0 || flag->value;
    if (equals) {
        text = equals + 1;
        if (!needs)
            return rt_err(e, "--%s takes no value", flag->name);
    } else if (needs) {
        bool there = **next && strncmp(**next, "--", 2) != 0;
        if (there)
            text = *(*next)++;
        else if (option >= 0 && o->program->options[option].type == MPC_OPTION_bool)
            text = "true";
        else if (!may)
            return rt_err(e, "--%.*s needs a value", (int)length, name);
    }
    if (option >= 0 && !set_value(o, option, text, e))
        return false;
    if (!flag)
        return true;
    int64_t epochs = o->epochs;
    bool fits = flag->set(o, text, e);
    /* An option of the file called epochs is used by the file itself; it must not apply twice. */
    if (option >= 0 && flag->set == set_epochs)
        o->epochs = epochs;
    return fits;
}

static void defaults(RtOptions *o, const MpcProgram *p)
{
    *o = (RtOptions){.program = p,
                     .epochs = -1,
                     .max_steps = -1,
                     .gpu = -1,
                     .seed = SEED_DEFAULT,
                     .seed_from = "default"};
    o->checkpoint_seconds = checkpoint_seconds;
    o->keep_checkpoints = KEPT_DEFAULT;
    o->values = rt_alloc_zero((size_t)p->n_options, sizeof *o->values);
    for (int i = 0; i < p->n_options; i++) {
        const MpcOption *option = &p->options[i];
        o->values[i] = (RtValue){.number = option->number,
                                 .text = option->text,
                                 .from = option->origin ? option->origin : "default"};
        if (option->type == MPC_OPTION_int || option->type == MPC_OPTION_bool)
            o->values[i].whole = (int64_t)option->number;
        if (!strcmp(option->name, "seed") && option->type == MPC_OPTION_int &&
            option->number >= 0) {
            o->seed = (uint64_t)option->number;
            o->seed_from = o->values[i].from;
        }
        if (!strcmp(option->name, "threads") && option->type == MPC_OPTION_int &&
            option->number >= 1)
            o->threads = (int64_t)fmin(option->number, THREADS_MOST);
        if (!strcmp(option->name, "keep_checkpoints") && option->type == MPC_OPTION_int &&
            option->number >= 1)
            o->keep_checkpoints = (int64_t)option->number;
        if (!strcmp(option->name, "checkpoint_every") && option->type == MPC_OPTION_string) {
            RtErr ignored; /* the compiler has looked at it */
            set_checkpoint_every(o, option->text, &ignored);
        }
        if (!strcmp(option->name, "out") && option->type == MPC_OPTION_string && option->text[0])
            o->out = option->text;
    }
}

bool rt_options_parse(RtOptions *o, const MpcProgram *p, int argc, char **argv, RtErr *e)
{
    defaults(o, p);
    char **next = argc > 0 ? argv + 1 : argv;
    while (*next) {
        const char *argument = *next++;
        if (!strcmp(argument, "-h"))
            argument = "--help";
        if (strncmp(argument, "--", 2) != 0 || !argument[2]) {
            rt_err(e, "unexpected argument '%s'", argument);
            rt_hint(e, "flags begin with --; --help lists them");
            return false;
        }
        if (!take(o, argument, &next, e))
            return false;
    }
    if (o->output && !o->predict)
        return rt_err(e, "--output: there is no --predict FILE whose answers could go there");
    return true;
}

void rt_options_free(RtOptions *o)
{
    free(o->values);
    o->values = NULL;
}

/* ---- what they look like ---- */

const char *rt_option_text(const RtOptions *o, int i, char buffer[RT_NUMBER_CHARS])
{
    const MpcOption *option = &o->program->options[i];
    const RtValue *v = &o->values[i];
    if (option->type == MPC_OPTION_string)
        return v->text;
    if (option->type == MPC_OPTION_bool)
        return v->number != 0 ? "true" : "false";
    return rt_number(buffer, v->number);
}

bool rt_option_set(RtOptions *o, int option, const char *text, const char *from, RtErr *e)
{
    bool ok = set_value(o, option, text, e);
    o->values[option].from = from;
    return ok;
}

int64_t rt_options_epochs(const RtOptions *o)
{
    int option = find_option(o, "epochs", 6);
    if (o->epochs >= 0 || option < 0 || o->program->options[option].type != MPC_OPTION_int)
        return o->epochs;
    return o->values[option].whole;
}

void rt_options_help(const RtOptions *o, FILE *out)
{
    static const char *const type[] = {"N", "X", "true|false", "TEXT"};
    const MpcProgram *p = o->program;
    char left[80], number[RT_NUMBER_CHARS];
    fprintf(out, "A training program, made by mpc %s from %s.\n\n", p->version, p->source);
    for (int i = 0; i < FLAGS; i++) {
        if (find_option(o, flags[i].name, strlen(flags[i].name)) >= 0)
            continue;
        snprintf(left, sizeof left, "--%s %s", flags[i].name, flags[i].value ? flags[i].value : "");
        fprintf(out, "  %-26s %s\n", left, flags[i].help);
    }
    if (p->n_options)
        fprintf(out, "\nOptions of %s:\n", p->source);
    for (int i = 0; i < p->n_options; i++) {
        const MpcOption *option = &p->options[i];
        snprintf(left, sizeof left, "--%s %s", option->name, type[option->type]);
        fprintf(out, "  %-26s %s%sdefault %s%s\n", left, option->help ? option->help : "",
                option->help ? "; " : "", rt_option_text(o, i, number),
                option->fixed     ? ", compiled in (mpc -D)"
                : option->bounded ? ", at most that (mpc -D)"
                                  : "");
    }
    fprintf(out,
            "\nExit status: 0 done, 1 the run failed, 2 wrong usage, 130 or 143 after a signal.\n");
}

static void print_line(FILE *out, const char *name, const char *value, const char *from)
{
    fprintf(out, "%-20s = %-28s # %s\n", name, value, from);
}

void rt_options_print(const RtOptions *o, int threads, const char *out_dir, FILE *out)
{
    const MpcProgram *p = o->program;
    char number[RT_NUMBER_CHARS];
    for (int i = 0; i < p->n_options; i++)
        print_line(out, p->options[i].name, rt_option_text(o, i, number), o->values[i].from);
    if (find_option(o, "seed", 4) < 0) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)o->seed);
        print_line(out, "seed", number, o->seed_from);
    }
    if (find_option(o, "epochs", 6) < 0)
        print_line(out, "epochs",
                   o->epochs < 0 ? "as in the source" : rt_number(number, (double)o->epochs),
                   o->epochs < 0 ? p->source : "command line");
    print_line(out, "max-steps",
               o->max_steps < 0 ? "none" : rt_number(number, (double)o->max_steps),
               o->max_steps < 0 ? "default" : "command line");
    print_line(out, "threads", rt_number(number, threads),
               o->threads ? "command line or source" : "CPUs");
    print_line(out, "device",
               !p->cuda    ? "cpu"
               : o->device ? o->device
                           : "auto",
               !p->cuda    ? "compiled for it"
               : o->device ? "command line"
                           : "default");
    print_line(out, "data", o->data_dir ? o->data_dir : p->home,
               o->data_dir ? "command line" : "source");
    print_line(out, "out", out_dir, o->out ? "command line" : "default");
    print_line(out, "init", o->init ? o->init : "none", o->init ? "command line" : "default");
    print_line(out, "log", rt_console_name[o->console], o->console ? "command line" : "default");
    print_line(out, "precision", p->precision, "compiled in");
    print_line(out, "math", p->math, "compiled in");
    print_line(out, "cpu", p->cpu, "compiled in");
}

void rt_options_json(const RtOptions *o, RtJson *j)
{
    rt_json_open(j, "options");
    for (int i = 0; i < o->program->n_options; i++) {
        const MpcOption *option = &o->program->options[i];
        rt_json_open(j, option->name);
        if (option->type == MPC_OPTION_string)
            rt_json_text(j, "value", o->values[i].text);
        else if (option->type == MPC_OPTION_bool)
            rt_json_bool(j, "value", o->values[i].number != 0);
        else if (option->type == MPC_OPTION_int)
            rt_json_int(j, "value", o->values[i].whole);
        else
            rt_json_number(j, "value", o->values[i].number);
        rt_json_text(j, "from", o->values[i].from);
        rt_json_close(j);
    }
    rt_json_close(j);
}
