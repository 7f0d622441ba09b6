/* options.c: reads the command line by the table of options.def, and --help. Values are checked here, so that nothing is done
 * before the whole command line is known to make sense. */
#include "driver/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "driver/nvrtc.h"
#include "ir/base/strutil.h"
#include "passes/pass.h"

const OptionRow option_table[OPTIONS] = {
#define OPTION(id, group, name, value, hint, meaning)                                              \
    {OPT_##id, GROUP_##group, name, VALUE_##value, hint, meaning},
#include "driver/options.def"
};

const char *const option_group_name[GROUPS] = {
    [GROUP_Make] = "The program",
    [GROUP_Look] = "Looking inside",
    [GROUP_Check] = "Checking",
    [GROUP_Say] = "Messages, and this command",
};

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

const char *option_usage(Arena *a, const OptionRow *r)
{
    const char *hint = r->hint != NULL ? r->hint : "";
    bool is_long = r->name[1] == '-';
    switch (r->value) {
    case VALUE_none: return r->name;
    case VALUE_optional: return arena_printf(a, "%s[=%s]", r->name, hint);
    case VALUE_next: return arena_printf(a, "%s %s", r->name, hint);
    case VALUE_joined: break;
    }
    return arena_printf(a, is_long ? "%s=%s" : "%s%s", r->name, hint);
}

void options_help(Arena *a)
{
    puts("usage: mpc FILE.mpt|FILE.ir [-o OUT] [options]\n"
         "       mpc fmt [-w | --check] FILE.mpt...\n\n"
         "Compiles a model and its training loop to one native training program.");
    for (int g = 0; g < GROUPS; g++) {
        printf("\n%s:\n", option_group_name[g]);
        for (int i = 0; i < OPTIONS; i++) {
            const OptionRow *r = &option_table[i];
            const char *left = option_usage(a, r);
            if (r->group != (OptionGroup)g) {
                continue;
            }
            printf(strlen(left) > 28 ? "  %s\n  %-28s %s\n" : "  %-28s%.0s %s\n", left, "",
                   r->meaning);
        }
    }
    puts("\nThe C compiler is $MPC_CC, $CC, or the first of cc, gcc, clang; $MPC_CFLAGS\n"
         "are further flags of it. What was compiled before is kept in $MPC_CACHE (default\n"
         "~/.cache/mpc; MPC_CACHE= keeps nothing).\n"
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
    static const char *const words[] = {"tokens",  "ast", "loop", "std", "ir",    "dot",
                                        "kernels", "c",   "cuda", "ptx", "cubin", "exe"};
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

static bool set_target(Options *o, const char *value)
{
    int i = one_of("--target", value, (const char *const[]){"cpu", "cuda", "cpu+cuda"}, 3);
    o->target = i > 0 ? (TargetKind)i : TARGET_cpu;
    return i >= 0;
}

static bool set_gpu(Arena *a, Options *o, const char *value)
{
    const char *names[32];
    unsigned wanted = 0;
    for (int i = 0; i < gpu_narchs; i++) {
        names[i] = gpu_archs[i].name;
    }
    o->gpu.n = 0;
    for (const char *at = value; at != NULL;
         at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL) {
        int i = one_of("--gpu", arena_strndup(a, at, strcspn(at, ",")), names, gpu_narchs);
        if (i < 0) {
            return false;
        }
        wanted |= 1u << i;
    }
    for (int i = 0; i < gpu_narchs; i++) { /* oldest first, each once */
        if (wanted >> i & 1) {
            vec_push(a, &o->gpu, gpu_archs[i].number);
        }
    }
    return true;
}

static bool set(Arena *a, Options *o, const OptionRow *r, const char *value)
{
    int i;
    switch (r->id) {
    case OPT_output: o->output = value; return value[0] != 0 || usage("-o: empty name");
    case OPT_emit: return set_emit(o, value);
    case OPT_target: return set_target(o, value);
    case OPT_cpu: o->cpu = value; return true;
    case OPT_gpu: return set_gpu(a, o, value);
    case OPT_precision: return set_precision(o, value);
    case OPT_memory:
        return str_bytes(value, &o->memory) ||
               usage("--memory=%s: expected a size, for example 64MiB or 2GB", value);
    case OPT_level:
        i = one_of("-O", value, (const char *const[]){"0", "1", "2", "3"}, 4);
        o->level = i;
        return i >= 0;
    case OPT_define: return define(a, o, value);
    case OPT_include: vec_push(a, &o->folders, value); return true;
    case OPT_explain:
        i = value == NULL
                ? 0
                : one_of("--explain", value, (const char *const[]){"text", "json", "html"}, 3);
        o->explain = i == 1 ? EXPLAIN_json : i == 2 ? EXPLAIN_html : EXPLAIN_text;
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
    case OPT_completion:
        o->shell = one_of("--completion", value, (const char *const[]){"bash", "zsh", "fish"}, 3);
        return o->shell >= 0;
    case OPT_manual:
        o->manual = one_of("--manual", value, (const char *const[]){"mpc", "program"}, 2);
        return o->manual >= 0;
    case OPT_version: o->version = true; return true;
    case OPT_help: o->help = true; return true;
    case OPTIONS: break;
    }
    return false;
}

static bool unknown(const char *word)
{
    const char *names[OPTIONS];
    for (int i = 0; i < OPTIONS; i++) {
        names[i] = option_table[i].name;
    }
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    const char *near = nearest_name(name, names, OPTIONS);
    if (near != NULL) {
        return usage("unknown option %s; did you mean %s?", word, near);
    }
    return usage("unknown option %s", word);
}

/* One word of the command line that begins with '-'; *used words are taken beyond it. */
static bool option(Arena *a, Options *o, const char *word, const char *next, int *used)
{
    for (int i = 0; i < OPTIONS; i++) {
        const OptionRow *r = &option_table[i];
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
    *o = (Options){.emit = EMIT_exe, .cpu = "native", .level = 3, .shell = -1, .manual = -1};
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
    if (o->explain == EXPLAIN_html && o->emit_given) {
        return usage("--explain=html is a page of its own, without --emit");
    }
    if (o->gpu.n == 0 && !set_gpu(a, o, "sm_80,sm_90")) {
        return false;
    }
    bool views = o->explain != EXPLAIN_no || o->plan != PLAN_no || o->dump_after != NULL ||
                 o->stop_after != NULL;
    if ((views && o->output == NULL && !o->emit_given) || o->explain == EXPLAIN_html) {
        o->emit = EMIT_none;
    }
    return true;
}
