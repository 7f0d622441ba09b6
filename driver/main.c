/* main.c: mpc, from a file to a training program. The stages in order; each may be the last one.
 *
 *   source -> tokens -> tree -> loop -> IR -> passes -> plan -> C -> program
 *
 * Options: options.def. The C compiler: toolchain.c. --explain: explain.c. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "driver/explain.h"
#include "driver/options.h"
#include "driver/toolchain.h"
#include "frontend/frontend.h"
#include "ir/base/strutil.h"
#include "mpc_version.h"
#include "passes/pass.h"

enum { STATUS_done = 0, STATUS_machine = 1, STATUS_input = 2 };

typedef struct Driver {
    Options o;
    Arena *arena;
    Diag *diag;
    const char *emit; /* "exe" by default */
    double started;
    PassCounts counts;
} Driver;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void stage_time(Driver *d, const char *stage)
{
    double now = seconds();
    if (option_given(&d->o, OPT_time_passes)) {
        fprintf(stderr, "%-10s %8.3f ms\n", stage, 1e3 * (now - d->started));
    }
    d->started = now;
}

/* Output to stdout, or to -o where a stage is printed. */
static FILE *open_output(Driver *d)
{
    const char *path = option_value(&d->o, OPT_output, NULL);
    if (path == NULL) {
        return stdout;
    }
    FILE *f = fopen(path, "w");
    if (f == NULL) {
        fprintf(stderr, "mpc: cannot write %s: %s\n", path, strerror(errno));
    }
    return f;
}

static int close_output(Driver *d, FILE *f)
{
    bool bad = ferror(f) != 0;
    bad = (f == stdout ? fflush(f) : fclose(f)) != 0 || bad;
    if (bad) {
        fprintf(stderr, "mpc: cannot write %s: %s\n", option_value(&d->o, OPT_output, "to stdout"),
                strerror(errno));
    }
    return bad ? STATUS_machine : STATUS_done;
}

static int print_text(Driver *d, const Text *t)
{
    FILE *f = open_output(d);
    if (f == NULL) {
        return STATUS_machine;
    }
    text_write(t, f);
    int status = close_output(d, f);
    return status == STATUS_done && diag_failed(d->diag) ? STATUS_input : status;
}

/* ---- what needs no file -------------------------------------------------------------------------------- */

static void list_passes(void)
{
    for (int i = 0; i < PASS_COUNT; i++) {
        printf("%-10s %s\n", pass_info[i].name, pass_info[i].meaning);
    }
}

static void list_ops(void)
{
    static const char *const cast[] = {[CAST_None] = "-",
                                       [CAST_Low] = "low",
                                       [CAST_Float] = "f32",
                                       [CAST_Widest] = "widest",
                                       [CAST_Follow] = "follow"};
    for (int i = 0; i < OP_COUNT; i++) {
        const OpInfo *op = &op_info[i];
        char operands[16] = "1..";
        if (op->nin >= 0) {
            snprintf(operands, sizeof operands, "%d", op->nin);
        }
        printf("%-18s %-4s %-7s %s\n", op->name, operands, cast[op->cast], op->meaning);
    }
}

static int print_std(Driver *d)
{
    int n;
    const StdFile *files = frontend_std(&n);
    Text *t = text_new(d->arena);
    for (int i = 0; i < n; i++) {
        text_printf(t, "%s# std/%s\n", i > 0 ? "\n" : "", files[i].name);
        text_putn(t, files[i].text, files[i].size);
    }
    return print_text(d, t);
}

/* ---- frontend ------------------------------------------------------------------------------------------ */

static LowerOptions defines(Driver *d, bool *ok)
{
    const OptionValues *given = &d->o.of[OPT_define];
    const char **names = ARENA_ARRAY(d->arena, const char *, given->n + 1);
    const char **values = ARENA_ARRAY(d->arena, const char *, given->n + 1);
    for (int i = 0; i < given->n; i++) {
        const char *equals = strchr(given->v[i], '=');
        if (equals == NULL || equals == given->v[i]) {
            fprintf(stderr, "mpc: -D%s: it takes NAME=VALUE\n", given->v[i]);
            *ok = false;
            break;
        }
        names[i] = arena_strndup(d->arena, given->v[i], (size_t)(equals - given->v[i]));
        values[i] = equals + 1;
    }
    return (LowerOptions){given->n, names, values};
}

static int print_tree(Driver *d, const AstFile *file, bool tree)
{
    Text *t = text_new(d->arena);
    if (tree) {
        ast_print_tree(t, file->root);
    } else {
        ast_print(t, file->root, file);
    }
    return print_text(d, t);
}

/* The module of an .mpt, or the status that ends mpc in *status. */
static Module *from_source(Driver *d, int *status)
{
    SourceFile *source = source_read(d->arena, d->diag, d->o.input);
    *status = STATUS_input;
    if (source == NULL) {
        return NULL;
    }
    if (str_eq(d->emit, "tokens")) {
        Text *t = text_new(d->arena);
        frontend_print_tokens(d->arena, d->diag, source, t);
        *status = print_text(d, t);
        return NULL;
    }
    AstFile *file = frontend_parse(d->arena, d->diag, source);
    stage_time(d, "parse");
    if (str_eq(d->emit, "ast") && !diag_failed(d->diag)) {
        *status = print_tree(d, file, true);
        return NULL;
    }
    if (diag_failed(d->diag)) {
        return NULL;
    }
    file = frontend_expand_trainer(d->arena, d->diag, file);
    if (str_eq(d->emit, "loop") && !diag_failed(d->diag)) {
        *status = print_tree(d, file, false);
        return NULL;
    }
    bool ok = true;
    LowerOptions lower = defines(d, &ok);
    if (!ok || diag_failed(d->diag)) {
        return NULL;
    }
    Module *m = frontend_lower(d->arena, d->diag, file, &lower);
    stage_time(d, "lower");
    return diag_failed(d->diag) ? NULL : m;
}

static bool is_ir(const char *path)
{
    return str_ends(path, ".ir");
}

static Module *load(Driver *d, int *status)
{
    if (!is_ir(d->o.input)) {
        return from_source(d, status);
    }
    *status = STATUS_input;
    if (str_eq(d->emit, "tokens") || str_eq(d->emit, "ast") || str_eq(d->emit, "loop")) {
        fprintf(stderr, "mpc: --emit=%s is for .mpt files; %s is IR\n", d->emit, d->o.input);
        return NULL;
    }
    if (option_given(&d->o, OPT_define)) {
        fprintf(stderr, "mpc: -D is for .mpt files; in %s options have their values\n", d->o.input);
        return NULL;
    }
    Module *m = module_read(d->arena, d->diag, d->o.input);
    stage_time(d, "read");
    return m;
}

/* ---- passes -------------------------------------------------------------------------------------------- */

static bool dump_lowered(Driver *d, const Module *m)
{
    const char *pass = option_value(&d->o, OPT_dump_after, NULL),
               *dir = option_value(&d->o, OPT_dump_dir, NULL);
    if (is_ir(d->o.input) || pass == NULL || (!str_eq(pass, "lower") && !str_eq(pass, "all"))) {
        return true;
    }
    FILE *out = stdout;
    if (dir != NULL) {
        const char *path = arena_printf(d->arena, "%s/00-lower.ir", dir);
        out = fopen(path, "w");
        if (out == NULL) {
            fprintf(stderr, "mpc: cannot write %s: %s\n", path, strerror(errno));
            return false;
        }
    }
    module_print(out, m);
    return out == stdout || fclose(out) == 0;
}

static DType precision_of(const char *name)
{
    return name == NULL           ? DT_none
           : str_eq(name, "fp16") ? DT_f16
           : str_eq(name, "bf16") ? DT_bf16
                                  : DT_f32;
}

/* Names of passes that exist, on the command line. */
static bool check_pass_names(Driver *d, const char **disabled)
{
    const char *names[PASS_COUNT + 2];
    for (int i = 0; i < PASS_COUNT; i++) {
        names[i] = pass_info[i].name;
    }
    names[PASS_COUNT] = "lower";
    names[PASS_COUNT + 1] = "all";
    const OptionValues *off = &d->o.of[OPT_pass];
    for (int i = 0; i <= off->n; i++) {
        const char *name = i < off->n ? off->v[i] : option_value(&d->o, OPT_dump_after, "all");
        if (i < off->n && name[0] != '-') {
            fprintf(stderr, "mpc: --pass=%s: it takes -NAME, the pass to leave out\n", name);
            return false;
        }
        name += i < off->n;
        bool known = false;
        for (int k = 0; k < PASS_COUNT + 2; k++) {
            known = known || (str_eq(names[k], name) && (i == off->n || k < PASS_COUNT));
        }
        if (!known) {
            const char *near = nearest_name(name, names, PASS_COUNT + 2);
            fprintf(stderr, "mpc: there is no pass '%s'%s%s%s; --list-passes prints them\n", name,
                    near != NULL ? "; did you mean " : "", near != NULL ? near : "",
                    near != NULL ? "?" : "");
            return false;
        }
        if (i < off->n) {
            disabled[i] = name;
        }
    }
    return true;
}

/* stop_after: the last pass, NULL for all. */
static bool run_passes(Driver *d, Module *m, const char *stop_after)
{
    const char **disabled = ARENA_ARRAY(d->arena, const char *, d->o.of[OPT_pass].n + 1);
    if (!check_pass_names(d, disabled)) {
        return false;
    }
    PassOptions p = {
        .precision = precision_of(option_value(&d->o, OPT_precision, NULL)),
        .verify_ir = option_given(&d->o, OPT_verify_ir) || option_given(&d->o, OPT_verify_passes),
        .verify_passes = option_given(&d->o, OPT_verify_passes),
        .verbose = option_given(&d->o, OPT_verbose),
        .time_passes = option_given(&d->o, OPT_time_passes),
        .dump_after = option_value(&d->o, OPT_dump_after, NULL),
        .dump = option_given(&d->o, OPT_dump_dir) ? NULL : stdout,
        .dump_dir = option_value(&d->o, OPT_dump_dir, NULL),
        .ndisabled = d->o.of[OPT_pass].n,
        .disabled = disabled,
        .stop_after = stop_after,
        .counts = &d->counts,
    };
    return dump_lowered(d, m) && passes_run(m, &p, d->diag);
}

/* ---- program ------------------------------------------------------------------------------------------- */

static const char *base_name(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    return arena_strndup(a, name, dot != NULL && dot != name ? (size_t)(dot - name) : strlen(name));
}

/* The folder of the module's .mpt, absolute. */
static const char *source_home(Driver *d, const Module *m)
{
    const char *slash = strrchr(m->source, '/');
    const char *dir =
        slash != NULL ? arena_strndup(d->arena, m->source, (size_t)(slash - m->source) + 1) : ".";
    char real[PATH_MAX];
    return arena_strdup(d->arena, realpath(dir, real) != NULL ? real : ".");
}

static int make_program(Driver *d, const Plan *plan, const CodegenOptions *gen, const Cpu *cpu)
{
    const char *home = toolchain_home(d->arena);
    int fd;
    const char *path = home != NULL ? toolchain_temporary(d->arena, "mpc", &fd) : NULL;
    if (path == NULL) {
        return STATUS_machine;
    }
    FILE *f = fdopen(fd, "w");
    bool spelled = f != NULL && codegen_c(f, plan, gen, d->diag);
    bool written = f != NULL && ferror(f) == 0;
    written = f != NULL && fclose(f) == 0 && written;
    stage_time(d, "codegen");
    int status = STATUS_input;
    if (!written) {
        fprintf(stderr, "mpc: cannot write %s: %s\n", path, strerror(errno));
        status = STATUS_machine;
    } else if (spelled) {
        Compile c = {.cpu = cpu,
                     .home = home,
                     .source = path,
                     .output = option_value(&d->o, OPT_output, base_name(d->arena, d->o.input)),
                     .level = option_value(&d->o, OPT_optimize, "3"),
                     .verbose = option_given(&d->o, OPT_verbose)};
        status = toolchain_compile(d->arena, &c);
        stage_time(d, "cc");
    }
    unlink(path);
    return status;
}

static int finish(Driver *d, Module *m)
{
    Cpu cpu;
    if (!cpu_find(option_value(&d->o, OPT_cpu, "native"), &cpu)) {
        return STATUS_input;
    }
    PlanOptions options = {.isa = cpu.isa};
    Plan *plan = plan_module(d->arena, m, &options);
    stage_time(d, "plan");
    CodegenOptions gen = {.version = MPC_VERSION,
                          .command = d->o.command,
                          .home = source_home(d, m),
                          .cpu = cpu.name,
                          .needs = cpu.needs,
                          .isa = cpu.isa};
    if (str_eq(d->emit, "exe")) {
        return make_program(d, plan, &gen, &cpu);
    }
    FILE *f = open_output(d);
    if (f == NULL) {
        return STATUS_machine;
    }
    bool ok = true;
    if (str_eq(d->emit, "kernels")) {
        plan_print(f, plan);
    } else {
        ok = codegen_c(f, plan, &gen, d->diag);
    }
    int status = close_output(d, f);
    return ok ? status : STATUS_input;
}

/* Without -o, a command that asks to see something makes no program. */
static bool only_looks(const Driver *d)
{
    bool looks = option_given(&d->o, OPT_explain) || option_given(&d->o, OPT_dump_after) ||
                 option_given(&d->o, OPT_verify_passes);
    return looks && !option_given(&d->o, OPT_output) && !option_given(&d->o, OPT_emit);
}

static int print_ir(Driver *d, Module *m)
{
    if (!is_ir(d->o.input) && !run_passes(d, m, "simplify")) {
        return STATUS_input;
    }
    FILE *f = open_output(d);
    if (f == NULL) {
        return STATUS_machine;
    }
    module_print(f, m);
    return close_output(d, f);
}

static int compile(Driver *d)
{
    int status;
    Module *m = load(d, &status);
    if (m == NULL) {
        return status;
    }
    if (str_eq(d->emit, "ir")) {
        return print_ir(d, m);
    }
    if (!run_passes(d, m, "simplify")) {
        return STATUS_input;
    }
    if (option_given(&d->o, OPT_explain)) {
        bool json = str_eq(option_value(&d->o, OPT_explain, "text"), "json");
        (json ? explain_json : explain_text)(stdout, m, &d->counts);
    }
    d->started = seconds();
    if (only_looks(d) && !option_given(&d->o, OPT_verify_passes) &&
        !str_eq(option_value(&d->o, OPT_dump_after, ""), "decompose") &&
        !str_eq(option_value(&d->o, OPT_dump_after, ""), "all")) {
        return STATUS_done;
    }
    if (!run_passes(d, m, NULL)) {
        return STATUS_input;
    }
    return only_looks(d) ? STATUS_done : finish(d, m);
}

static DiagColor color_of(const char *name)
{
    return str_eq(name, "always")  ? DIAG_COLOR_always
           : str_eq(name, "never") ? DIAG_COLOR_never
                                   : DIAG_COLOR_auto;
}

static int run(Driver *d)
{
    if (option_given(&d->o, OPT_help)) {
        options_help(stdout);
        return STATUS_done;
    }
    if (option_given(&d->o, OPT_version)) {
        puts("mpc " MPC_VERSION);
        return STATUS_done;
    }
    if (option_given(&d->o, OPT_list_passes) || option_given(&d->o, OPT_list_ops)) {
        (option_given(&d->o, OPT_list_passes) ? list_passes : list_ops)();
        return STATUS_done;
    }
    if (str_eq(d->emit, "std")) {
        return print_std(d);
    }
    if (d->o.input == NULL) {
        fputs("mpc: no file given\n", stderr);
        options_help(stderr);
        return STATUS_input;
    }
    const char *target = option_value(&d->o, OPT_target, "cpu");
    if (!str_eq(target, "cpu")) {
        fprintf(stderr, "mpc: --target=%s: this mpc compiles for the CPU only\n", target);
        return STATUS_input;
    }
    return compile(d);
}

int main(int argc, char **argv)
{
    Driver d = {.arena = arena_new(), .started = seconds()};
    if (!options_parse(d.arena, argc, argv, &d.o)) {
        return STATUS_input;
    }
    bool json = str_eq(option_value(&d.o, OPT_diagnostics, "text"), "json");
    d.diag = diag_new(d.arena, stderr, color_of(option_value(&d.o, OPT_color, "auto")),
                      json ? DIAG_FORMAT_json : DIAG_FORMAT_text);
    d.emit = option_value(&d.o, OPT_emit, "exe");
    int status = run(&d);
    arena_free(d.arena);
    return status;
}
