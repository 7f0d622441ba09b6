/* options.c: the table of options, and what follows from it. Values are checked here, so that nothing is done
 * before the whole command line is known to make sense. */
#include "driver/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/base/strutil.h"
#include "passes/pass.h"

typedef enum OptionId {
    OPT_output,
    OPT_emit,
    OPT_target,
    OPT_cpu,
    OPT_precision,
    OPT_level,
    OPT_define,
    OPT_explain,
    OPT_plan,
    OPT_dump_after,
    OPT_dump_dir,
    OPT_stop_after,
    OPT_verify_ir,
    OPT_verify_passes,
    OPT_pass,
    OPT_list_passes,
    OPT_list_ops,
    OPT_check_data,
    OPT_time_passes,
    OPT_verbose,
    OPT_color,
    OPT_diagnostics,
    OPT_version,
    OPT_help
} OptionId;

typedef enum ValueKind { VALUE_none, VALUE_joined, VALUE_optional, VALUE_next } ValueKind;

typedef struct OptionRow {
    OptionId id;
    const char *name;
    ValueKind value; /* none; --name=VALUE; --name[=VALUE]; -x VALUE or -xVALUE */
    const char *hint, *help;
} OptionRow;

/* clang-format off */
static const OptionRow table[] = {
    {OPT_output,        "-o",              VALUE_next,     "OUT",   "the program (default: the file's base name)"},
    {OPT_emit,          "--emit",          VALUE_joined,   "tokens|ast|loop|std|ir|dot|kernels|c|exe", "stop there and print it (exe: do not print)"},
    {OPT_target,        "--target",        VALUE_joined,   "cpu",   "what the program runs on"},
    {OPT_cpu,           "--cpu",           VALUE_joined,   "native|generic|x86-64-v3|x86-64-v4|NAME", "CPU the program is for; NAME is one of the C compiler's -march"},
    {OPT_precision,     "--precision",     VALUE_joined,   "f32|fp16|bf16", "type of the low-precision ops, instead of what the file says"},
    {OPT_level,         "-O",              VALUE_joined,   "0..3",  "optimisation by the C compiler (default 3)"},
    {OPT_define,        "-D",              VALUE_next,     "NAME=VALUE", "default of `option NAME`"},
    {OPT_explain,       "--explain",       VALUE_optional, "text|json", "the type of every op, and which rule decided"},
    {OPT_plan,          "--plan",          VALUE_optional, "full", "the memory of the program: every buffer, its life, what it is for"},
    {OPT_dump_after,    "--dump-after",    VALUE_joined,   "PASS|all", "print the IR after a pass"},
    {OPT_dump_dir,      "--dump-dir",      VALUE_joined,   "DIR",   "write dumps there, one file a pass"},
    {OPT_stop_after,    "--stop-after",    VALUE_joined,   "PASS",  "run no further pass"},
    {OPT_verify_ir,     "--verify-ir",     VALUE_none,     NULL,    "check the IR after every pass"},
    {OPT_verify_passes, "--verify-passes", VALUE_none,     NULL,    "run every graph before and after every pass and compare"},
    {OPT_pass,          "--pass",          VALUE_joined,   "-NAME", "leave a pass out"},
    {OPT_list_passes,   "--list-passes",   VALUE_none,     NULL,    "passes, in order"},
    {OPT_list_ops,      "--list-ops",      VALUE_none,     NULL,    "ops, with their precision class"},
    {OPT_check_data,    "--check-data",    VALUE_none,     NULL,    "also check that the files of `data` exist"},
    {OPT_time_passes,   "--time-passes",   VALUE_none,     NULL,    "milliseconds of every pass"},
    {OPT_verbose,       "-v",              VALUE_none,     NULL,    "say what is done"},
    {OPT_color,         "--color",         VALUE_joined,   "auto|always|never", "colour in messages"},
    {OPT_diagnostics,   "--diagnostics",   VALUE_joined,   "text|json", "form of messages"},
    {OPT_version,       "--version",       VALUE_none,     NULL,    "version"},
    {OPT_help,          "--help",          VALUE_none,     NULL,    "this text"},
};
/* clang-format on */

enum { ROWS = sizeof table / sizeof *table };

MPC_PRINTF(1, 2) static bool usage(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("mpc: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputs("\nmpc --help lists the options\n", stderr);
    va_end(ap);
    return false;
}

void options_help(void)
{
    puts("usage: mpc FILE.mpt|FILE.ir [-o OUT] [options]\n"
         "       mpc fmt [-w | --check] FILE.mpt...\n\n"
         "Compiles a model and its training loop to one native training program.\n");
    for (int i = 0; i < ROWS; i++) {
        const OptionRow *r = &table[i];
        char left[128];
        const char *hint = r->hint != NULL ? r->hint : "";
        snprintf(left, sizeof left,
                 r->value == VALUE_none                   ? "%s%s"
                 : r->value == VALUE_optional             ? "%s[=%s]"
                 : r->value == VALUE_next                 ? "%s %s"
                 : r->name[0] == '-' && r->name[1] == '-' ? "%s=%s"
                                                          : "%s%s",
                 r->name, hint);
        if (strlen(left) > 28) {
            printf("  %s\n  %-28s %s\n", left, "", r->help);
        } else {
            printf("  %-28s %s\n", left, r->help);
        }
    }
    puts("\nThe C compiler is $MPC_CC, $CC, or the first of cc, gcc, clang; $MPC_CFLAGS\n"
         "are further flags of it.\n"
         "Exit status: 0 done, 1 the program could not be made, 2 wrong usage or an error in the "
         "file.");
}

/* Index of `value` among n words, or -1 after a message. */
static int one_of(const char *option, const char *value, const char *const *words, int n)
{
    for (int i = 0; i < n; i++) {
        if (str_eq(words[i], value)) {
            return i;
        }
    }
    char list[256] = "";
    for (int i = 0; i < n; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", words[i]);
    }
    const char *near = nearest_name(value, words, n);
    usage("%s=%s: expected one of %s%s%s%s", option, value, list,
          near != NULL ? "; did you mean " : "", near != NULL ? near : "", near != NULL ? "?" : "");
    return -1;
}

/* dump: "all" and "lower", the IR before any pass, will do, too. */
static bool check_pass(const char *option, const char *name, bool dump)
{
    const char *names[PASS_COUNT + 2];
    for (int i = 0; i < PASS_COUNT; i++) {
        names[i] = pass_info[i].name;
    }
    names[PASS_COUNT] = "lower";
    names[PASS_COUNT + 1] = "all";
    return one_of(option, name, names, PASS_COUNT + (dump ? 2 : 0)) >= 0;
}

static bool define(Arena *a, Options *o, const char *value)
{
    const char *equals = strchr(value, '=');
    if (equals == NULL || equals == value) {
        return usage("-D %s: expected NAME=VALUE", value);
    }
    vec_push(a, &o->names, arena_strndup(a, value, (size_t)(equals - value)));
    vec_push(a, &o->values, arena_strdup(a, equals + 1));
    return true;
}

static bool set_emit(Options *o, const char *value)
{
    static const char *const words[] = {"tokens", "ast",     "loop", "std", "ir",
                                        "dot",    "kernels", "c",    "exe"};
    int i = one_of("--emit", value, words, sizeof words / sizeof *words);
    o->emit = (EmitKind)(i >= 0 ? i : 0);
    o->emit_given = true;
    return i >= 0;
}

static bool set_precision(Options *o, const char *value)
{
    static const char *const words[] = {"f32", "fp16", "bf16"};
    static const DType types[] = {DT_f32, DT_f16, DT_bf16};
    int i = one_of("--precision", value, words, 3);
    o->precision = i >= 0 ? types[i] : DT_none;
    return i >= 0;
}

static bool set_target(const char *value)
{
    if (str_eq(value, "cuda") || str_eq(value, "cpu+cuda")) {
        return usage("--target=%s: this version makes programs for the CPU only", value);
    }
    return one_of("--target", value, (const char *const[]){"cpu"}, 1) >= 0;
}

static bool set(Arena *a, Options *o, const OptionRow *r, const char *value)
{
    int i;
    switch (r->id) {
    case OPT_output: o->output = value; return value[0] != 0 || usage("-o: empty name");
    case OPT_emit: return set_emit(o, value);
    case OPT_target: return set_target(value);
    case OPT_cpu: o->cpu = value; return true;
    case OPT_precision: return set_precision(o, value);
    case OPT_level:
        i = one_of("-O", value, (const char *const[]){"0", "1", "2", "3"}, 4);
        o->level = i;
        return i >= 0;
    case OPT_define: return define(a, o, value);
    case OPT_explain:
        i = value == NULL ? 0
                          : one_of("--explain", value, (const char *const[]){"text", "json"}, 2);
        o->explain = i == 1 ? EXPLAIN_json : EXPLAIN_text;
        return i >= 0;
    case OPT_plan:
        i = value == NULL ? 0 : one_of("--plan", value, (const char *const[]){"full"}, 1);
        o->plan = value == NULL ? PLAN_folded : PLAN_full;
        return i >= 0;
    case OPT_dump_after: o->dump_after = value; return check_pass("--dump-after", value, true);
    case OPT_dump_dir: o->dump_dir = value; return true;
    case OPT_stop_after: o->stop_after = value; return check_pass("--stop-after", value, false);
    case OPT_verify_ir: o->verify_ir = true; return true;
    case OPT_verify_passes: o->verify_passes = true; return true;
    case OPT_pass:
        if (value[0] != '-') {
            return usage("--pass=%s: expected --pass=-NAME", value);
        }
        vec_push(a, &o->disabled, value + 1);
        return check_pass("--pass", value + 1, false);
    case OPT_list_passes: o->list_passes = true; return true;
    case OPT_list_ops: o->list_ops = true; return true;
    case OPT_check_data: o->check_data = true; return true;
    case OPT_time_passes: o->time_passes = true; return true;
    case OPT_verbose: o->verbose = true; return true;
    case OPT_color:
        i = one_of("--color", value, (const char *const[]){"auto", "always", "never"}, 3);
        o->color = (DiagColor)(i >= 0 ? i : 0);
        return i >= 0;
    case OPT_diagnostics:
        i = one_of("--diagnostics", value, (const char *const[]){"text", "json"}, 2);
        o->diagnostics = i == 1 ? DIAG_FORMAT_json : DIAG_FORMAT_text;
        return i >= 0;
    case OPT_version: o->version = true; return true;
    case OPT_help: o->help = true; return true;
    }
    return false;
}

static bool unknown(const char *word)
{
    const char *names[ROWS];
    for (int i = 0; i < ROWS; i++) {
        names[i] = table[i].name;
    }
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    const char *near = nearest_name(name, names, ROWS);
    if (near != NULL) {
        return usage("unknown option %s; did you mean %s?", word, near);
    }
    return usage("unknown option %s", word);
}

/* One word of the command line that begins with '-'; *used words are taken beyond it. */
static bool option(Arena *a, Options *o, const char *word, const char *next, int *used)
{
    for (int i = 0; i < ROWS; i++) {
        const OptionRow *r = &table[i];
        size_t n = strlen(r->name);
        if (strncmp(word, r->name, n) != 0) {
            continue;
        }
        const char *rest = word + n;
        bool is_long = r->name[1] == '-';
        if (rest[0] == 0) {
            if (r->value == VALUE_none || r->value == VALUE_optional) {
                return set(a, o, r, NULL);
            }
            if (r->value == VALUE_joined) {
                return usage(is_long ? "%s needs a value: %s=%s" : "%s needs a value: %s%s",
                             r->name, r->name, r->hint);
            }
            if (next == NULL) {
                return usage("%s needs a value: %s %s", r->name, r->name, r->hint);
            }
            *used = 1;
            return set(a, o, r, next);
        }
        if (is_long && rest[0] == '=') {
            if (r->value == VALUE_none) {
                return usage("%s takes no value", r->name);
            }
            return set(a, o, r, rest + 1);
        }
        if (!is_long && (r->value == VALUE_next || r->value == VALUE_joined)) {
            return set(a, o, r, rest);
        }
    }
    return unknown(word);
}

bool options_parse(Arena *a, Options *o, int argc, char **argv)
{
    *o = (Options){.emit = EMIT_exe, .cpu = "native", .level = 3};
    bool only_files = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (only_files || word[0] != '-' || word[1] == 0) {
            if (o->input != NULL) {
                return usage("two files: %s and %s", o->input, word);
            }
            o->input = word;
            continue;
        }
        if (str_eq(word, "--")) {
            only_files = true;
            continue;
        }
        int used = 0;
        if (!option(a, o, word, i + 1 < argc ? argv[i + 1] : NULL, &used)) {
            return false;
        }
        i += used;
    }
    bool views = o->explain != EXPLAIN_no || o->plan != PLAN_no || o->dump_after != NULL ||
                 o->stop_after != NULL;
    if (views && o->output == NULL && !o->emit_given) {
        o->emit = EMIT_none;
    }
    return true;
}
