/* main.c: the stages of mpc, in order, and what stops after which.
 *
 *     source -> tokens | ast -> loop -> IR -> passes -> plan -> C -> program
 *
 * It decides nothing about any of them; options.c reads the command line, toolchain.c runs the C compiler. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codegen/codegen.h"
#include "driver/check_data.h"
#include "driver/completion.h"
#include "driver/dot.h"
#include "driver/explain.h"
#include "driver/fmt.h"
#include "driver/gpu.h"
#include "driver/manual.h"
#include "driver/nvrtc.h"
#include "driver/options.h"
#include "driver/toolchain.h"
#include "frontend/frontend.h"
#include "ir/base/strutil.h"
#include "ir/plan.h"
#include "mpc_version.h"
#include "passes/pass.h"

enum { STATUS_done = 0, STATUS_failed = 1, STATUS_usage = 2 };

typedef struct Job {
    Arena *arena;
    Options opt;
    Diag *diag;
    const SourceFile *source;
    Module *m;
    PassCounts counts;
    int checkpoint; /* level of that pass */
    Toolchain tools;
    Cpu cpu;
    Nvrtc *nvrtc;
    ExplainPage *page; /* --explain=html */
    double start;
} Job;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void stage(const Job *j, const char *what)
{
    if (j->opt.verbose) {
        fprintf(stderr, "mpc: %8.3f ms  %s\n", (seconds() - j->start) * 1e3, what);
    }
}

/* ---- lists ----------------------------------------------------------------------------------------- */

static void list_passes(void)
{
    for (int i = 0; i < PASS_COUNT; i++) {
        printf("%-12s %s\n", pass_info[i].name, pass_info[i].meaning);
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
        printf("%-18s %-7s %s\n", op->name, op->kind == KIND_Mark ? "mark" : cast[op->cast],
               op->meaning);
    }
}

static int emit_std(void)
{
    int n;
    const StdFile *files = frontend_std(&n);
    for (int i = 0; i < n; i++) {
        printf("%s# %s\n", i > 0 ? "\n" : "", files[i].name);
        fwrite(files[i].text, 1, files[i].size, stdout);
    }
    return STATUS_done;
}

/* ---- output ---------------------------------------------------------------------------------------- */

/* Where a text goes: -o, or the standard output. NULL after a message. */
static FILE *output_open(const Job *j)
{
    if (j->opt.output == NULL) {
        return stdout;
    }
    FILE *f = fopen(j->opt.output, "w");
    if (f == NULL) {
        fprintf(stderr, "mpc: cannot write %s: %s\n", j->opt.output, strerror(errno));
    }
    return f;
}

static int output_done(const Job *j, FILE *f)
{
    bool ok = fflush(f) == 0 && !ferror(f);
    int error = errno;
    if (f != stdout) {
        ok = fclose(f) == 0 && ok;
    }
    if (!ok) {
        fprintf(stderr, "mpc: cannot write %s: %s\n",
                j->opt.output != NULL ? j->opt.output : "the output", strerror(error));
    }
    return ok ? STATUS_done : STATUS_failed;
}

static int print_text(const Job *j, const Text *t)
{
    FILE *f = output_open(j);
    if (f == NULL) {
        return STATUS_failed;
    }
    text_write(t, f);
    return output_done(j, f);
}

/* ---- stages ---------------------------------------------------------------------------------------- */

static bool is_ir(const Job *j)
{
    return str_ends(j->opt.input, ".ir");
}

/* From the file to a module. True: go on; false: *status is the end. */
static bool front(Job *j, int *status)
{
    EmitKind emit = j->opt.emit;
    *status = STATUS_usage;
    if (is_ir(j)) {
        if (emit < EMIT_std) {
            fprintf(stderr, "mpc: --emit=tokens, ast and loop need a .mpt file\n");
            return false;
        }
        j->m = module_read_source(j->arena, j->diag, j->source);
        return j->m != NULL && !diag_failed(j->diag);
    }
    Text *out = text_new(j->arena);
    if (emit == EMIT_tokens) {
        frontend_print_tokens(j->arena, j->diag, j->source, out);
        *status = diag_failed(j->diag) ? STATUS_usage : print_text(j, out);
        return false;
    }
    AstFile *file = frontend_parse(j->arena, j->diag, j->source);
    if (diag_failed(j->diag)) {
        return false;
    }
    if (emit == EMIT_ast) {
        ast_print_tree(out, file->root);
        *status = print_text(j, out);
        return false;
    }
    if (!frontend_include(j->arena, j->diag, file, j->opt.folders.n, j->opt.folders.at)) {
        return false;
    }
    file = frontend_expand_levels(j->arena, j->diag, file);
    if (diag_failed(j->diag)) {
        return false;
    }
    if (emit == EMIT_loop) {
        ast_print(out, file->root, file);
        *status = print_text(j, out);
        return false;
    }
    const LowerOptions lower = {j->opt.names.n, j->opt.names.at, j->opt.values.at};
    j->m = frontend_lower(j->arena, j->diag, file, &lower);
    return j->m != NULL && !diag_failed(j->diag);
}

/* The passes that are left, up to stop_after (NULL: all). */
static bool run_passes(Job *j, const char *stop_after)
{
    const Options *o = &j->opt;
    PassOptions opt = {.precision = o->precision,
                       .verify_ir = o->verify_ir,
                       .verify_passes = o->verify_passes,
                       .verbose = o->verbose,
                       .time_passes = o->time_passes,
                       .dump_after = o->dump_after,
                       .dump = o->dump_dir == NULL ? stdout : NULL,
                       .dump_dir = o->dump_dir,
                       .checkpoint = j->checkpoint,
                       .ndisabled = o->disabled.n,
                       .disabled = o->disabled.at,
                       .stop_after = stop_after,
                       .counts = &j->counts};
    return passes_run(j->m, &opt, j->diag);
}

/* How much has to be computed again so that the arena fits into the memory it may take. */
static bool fit_memory(Job *j)
{
    const Options *o = &j->opt;
    PassId last, stop;
    bool late = pass_find(j->m->last_pass, &last) && last >= PASS_checkpoint;
    bool early = o->stop_after != NULL && pass_find(o->stop_after, &stop) && stop < PASS_checkpoint;
    for (int i = 0; i < o->disabled.n; i++) {
        early = early || pass_is_needed(o->disabled.at[i]);
    }
    if (o->memory > 0 && late) {
        diag_error(j->diag, loc_none(),
                   "--memory comes too late: %s is IR after the pass %s, what is computed again "
                   "is decided",
                   j->m->name, j->m->last_pass);
        return false;
    }
    if (j->m->memory == 0 || late || early) {
        return true;
    }
    const PassOptions opt = {
        .precision = o->precision, .ndisabled = o->disabled.n, .disabled = o->disabled.at};
    j->checkpoint = passes_fit(j->m, &opt, &(PlanOptions){.isa = j->cpu.isa}, j->diag);
    stage(j, "memory");
    return j->checkpoint >= 0;
}

/* In the ops of the file, so before decompose: what is left of the passes runs afterwards. */
static bool explain(Job *j)
{
    PassId last;
    bool early =
        j->opt.stop_after != NULL && pass_find(j->opt.stop_after, &last) && last < PASS_simplify;
    bool late = pass_find(j->m->last_pass, &last) && last >= PASS_simplify;
    if (!late && !run_passes(j, early ? j->opt.stop_after : pass_info[PASS_simplify].name)) {
        return false;
    }
    if (j->opt.explain == EXPLAIN_text) {
        explain_text(stdout, j->m, &j->counts);
    } else if (j->opt.explain == EXPLAIN_json) {
        explain_json(stdout, j->m, &j->counts);
    } else {
        j->page = explain_page(j->arena, j->m, &j->counts);
    }
    return true;
}

/* --dump-after=lower: what the frontend made, before any pass. */
static bool dump_lowered(Job *j)
{
    const char *after = j->opt.dump_after, *dir = j->opt.dump_dir;
    if (is_ir(j) || (!str_eq(after, "lower") && !str_eq(after, "all"))) {
        return true;
    }
    const char *path = dir != NULL ? arena_printf(j->arena, "%s/00-lower.ir", dir) : NULL;
    FILE *f = path != NULL ? fopen(path, "w") : stdout;
    if (f == NULL) {
        fprintf(stderr, "mpc: cannot write %s: %s\n", path, strerror(errno));
        return false;
    }
    module_print(f, j->m);
    bool ok = ferror(f) == 0;
    return (f == stdout || fclose(f) == 0) && ok;
}

static bool all_passes(Job *j)
{
    if (!dump_lowered(j)) {
        return false;
    }
    if (!fit_memory(j)) {
        return false;
    }
    if (j->opt.explain != EXPLAIN_no && !explain(j)) {
        return false;
    }
    PassId last, stop = PASS_COUNT - 1;
    if (j->opt.stop_after != NULL) {
        pass_find(j->opt.stop_after, &stop);
    }
    bool done = pass_find(j->m->last_pass, &last) && last >= stop;
    return done || run_passes(j, j->opt.stop_after);
}

/* The absolute folder of the .mpt, which programs look for their data in. */
static const char *home_folder(Job *j)
{
    char path[PATH_MAX];
    const char *file = j->m->source != NULL ? j->m->source : j->opt.input;
    if (realpath(file, path) == NULL && realpath(j->opt.input, path) == NULL) {
        return ".";
    }
    char *slash = strrchr(path, '/');
    if (slash != NULL) {
        slash[slash == path] = 0;
    }
    return arena_strdup(j->arena, path);
}

static const char *default_output(Job *j)
{
    const char *slash = strrchr(j->opt.input, '/');
    const char *base = slash != NULL ? slash + 1 : j->opt.input;
    const char *dot = strrchr(base, '.');
    return arena_strndup(j->arena, base, dot != NULL ? (size_t)(dot - base) : strlen(base));
}

static bool for_gpu(const Job *j)
{
    return j->opt.target != TARGET_cpu;
}

/* A program's images: code for each architecture asked for, and PTX of the oldest for those that come later. */
static int image_count(const Job *j)
{
    return for_gpu(j) ? j->opt.gpu.n + 1 : 0;
}

static CodegenOptions codegen_options(Job *j)
{
    return (CodegenOptions){
        .gpu = for_gpu(j),
        .gpu_only = j->opt.target == TARGET_cuda,
        .gpu_images = image_count(j),
        .version = MPC_VERSION,
        .command = arena_printf(j->arena, "mpc %s -o %s", j->m->source, j->m->name),
        .home = home_folder(j),
        .cpu = j->cpu.name,
        .needs = j->cpu.needs,
        .isa = j->cpu.isa,
    };
}

static bool make_c(Job *j, const Plan *plan, FILE *to)
{
    const CodegenOptions opt = codegen_options(j);
    return codegen_c(to, plan, &opt, j->diag);
}

/* The kernels' text in CUDA C; NULL after a message. To be freed. */
static char *kernels_text(Job *j, const Plan *plan, size_t *size)
{
    CodegenOptions opt = codegen_options(j);
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    opt.gpu = true;
    if (f == NULL) {
        fprintf(stderr, "mpc: out of memory\n");
        return NULL;
    }
    bool ok = codegen_cuda(f, plan, &opt, j->diag);
    ok = fclose(f) == 0 && ok;
    stage(j, "CUDA text");
    if (!ok) {
        free(text);
        text = NULL;
    }
    return text;
}

static const char *kernels_name(Job *j)
{
    return arena_printf(j->arena, "%s.cu", j->m->name);
}

/* --emit=cuda|ptx|cubin: of the oldest (PTX) or only (cubin) architecture asked for. */
static bool make_kernels(Job *j, const Plan *plan, FILE *to)
{
    size_t size = 0;
    char *text = kernels_text(j, plan, &size);
    if (text == NULL || j->opt.emit == EMIT_cuda) {
        bool ok = text != NULL && fwrite(text, 1, size, to) == size;
        free(text);
        return ok;
    }
    GpuImage image = {.arch = j->opt.gpu.at[0], .ptx = j->opt.emit == EMIT_ptx};
    bool ok = nvrtc_compile(j->nvrtc, text, kernels_name(j),
                            arena_printf(j->arena, "%s/include", j->tools.lib), j->opt.verbose,
                            &image, 1);
    stage(j, "kernels");
    if (ok && j->opt.verbose && image.log != NULL) {
        fputs(image.log, stderr);
    }
    if (ok) {
        fwrite(image.data, 1, image.bytes - image.ptx, to);
    }
    free(image.data);
    free(image.log);
    free(text);
    return ok;
}

/* The images of a program, as text that follows its own. */
static bool make_images(Job *j, const Plan *plan, FILE *to)
{
    int n = image_count(j);
    GpuImage *images = ARENA_ARRAY(j->arena, GpuImage, n + 1);
    size_t size = 0;
    for (int i = 0; i < n; i++) {
        bool ptx = i == n - 1;
        images[i] = (GpuImage){.arch = j->opt.gpu.at[ptx ? 0 : i], .ptx = ptx};
    }
    char *text = kernels_text(j, plan, &size);
    bool ok = text != NULL &&
              gpu_compile(j->arena, j->nvrtc, text, kernels_name(j), j->tools.lib, images, n);
    free(text);
    stage(j, "kernels");
    Text *t = text_new(j->arena);
    if (ok) {
        codegen_gpu_images(t, images, n);
        ok = text_write(t, to);
    }
    for (int i = 0; i < n; i++) {
        free(images[i].data);
        free(images[i].log);
    }
    return ok;
}

static int make_page(Job *j, const Plan *plan)
{
    const CodegenOptions opt = codegen_options(j);
    const char **texts = codegen_kernel_texts(j->arena, plan, &opt, j->diag);
    FILE *f = output_open(j);
    if (f == NULL) {
        return STATUS_failed;
    }
    explain_page_write(f, j->page, plan, texts);
    return output_done(j, f);
}

static int make_program(Job *j, const Plan *plan)
{
    const char *out = j->opt.output != NULL ? j->opt.output : default_output(j);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL) {
        fprintf(stderr, "mpc: out of memory\n");
        return STATUS_failed;
    }
    bool ok = make_c(j, plan, f);
    ok = ok && (!for_gpu(j) || make_images(j, plan, f));
    ok = fclose(f) == 0 && ok;
    stage(j, "C text");
    ok = ok && toolchain_compile(&j->tools, &j->cpu, text, size, out);
    stage(j, "program");
    free(text);
    return ok ? STATUS_done : STATUS_failed;
}

static bool block_calls(const HostBlock *b, const char *graph)
{
    for (int i = 0; i < b->n; i++) {
        const HostStmt *s = b->v[i];
        if ((s->kind == HS_call && str_eq(s->target, graph)) || str_eq(s->graph, graph) ||
            block_calls(&s->body, graph) || block_calls(&s->orelse, graph)) {
            return true;
        }
    }
    return false;
}

/* A graph that wants a batch gets it from the loop that calls it; an .ir file may lack that loop. */
static bool batches_arrive(Job *j)
{
    for (int i = 0; i < j->m->ngraphs; i++) {
        Graph *g = j->m->graphs[i];
        bool wants = graph_find_arg(g, ATTR_batch, NULL) != NULL ||
                     graph_find_arg(g, ATTR_rng, NULL) != NULL;
        if (g->role != GRAPH_Prepare && wants && !block_calls(&j->m->host, g->name)) {
            diag_error(j->diag, g->loc,
                       "graph @%s wants a batch, but no loop of the host program calls it",
                       g->name);
        }
    }
    return !diag_failed(j->diag);
}

/* What is asked of the module after the passes. */
static int back(Job *j)
{
    const Options *o = &j->opt;
    if (o->emit == EMIT_dot) {
        Text *out = text_new(j->arena);
        dot_print(out, j->m);
        return print_text(j, out);
    }
    if ((o->emit == EMIT_none && o->plan == PLAN_no && j->page == NULL) || o->emit == EMIT_ir) {
        FILE *f = o->emit == EMIT_ir ? output_open(j) : stdout;
        if (f == NULL) {
            return STATUS_failed;
        }
        if (o->emit == EMIT_ir) {
            module_print(f, j->m);
        }
        return output_done(j, f);
    }
    for (int i = 0; i < o->disabled.n; i++) {
        if (pass_is_needed(o->disabled.at[i])) {
            fprintf(stderr,
                    "mpc: without the pass %s there is no program; --emit=ir shows the IR\n",
                    o->disabled.at[i]);
            return STATUS_usage;
        }
    }
    if (o->emit != EMIT_kernels && o->emit != EMIT_none && !batches_arrive(j)) {
        return STATUS_usage;
    }
    const PlanOptions opt = {.isa = j->cpu.isa};
    Plan *plan = plan_module(j->arena, j->m, &opt);
    stage(j, "plan");
    if (o->plan != PLAN_no) {
        codegen_plan(stdout, plan, o->plan == PLAN_full);
    }
    if (j->page != NULL) {
        return make_page(j, plan);
    }
    if (o->emit == EMIT_none) {
        return STATUS_done;
    }
    if (o->emit == EMIT_exe) {
        int status = make_program(j, plan);
        return fflush(stdout) == 0 ? status : STATUS_failed;
    }
    FILE *f = output_open(j);
    if (f == NULL) {
        return STATUS_failed;
    }
    bool ok = true;
    if (o->emit == EMIT_kernels) {
        plan_print(f, plan);
    } else if (o->emit == EMIT_c) {
        ok = make_c(j, plan, f);
    } else {
        ok = make_kernels(j, plan, f);
    }
    int status = output_done(j, f);
    return ok ? status : STATUS_failed;
}

/* The tools that the last stage needs are looked for first: their absence costs no time. */
static bool find_tools(Job *j)
{
    const Options *o = &j->opt;
    if ((o->emit == EMIT_exe && for_gpu(j)) || o->emit == EMIT_ptx || o->emit == EMIT_cubin) {
        j->nvrtc = nvrtc_open(j->arena);
        if (j->nvrtc == NULL) {
            return false;
        }
    }
    if (o->emit == EMIT_exe) {
        return toolchain_can_write(o->output != NULL ? o->output : default_output(j)) &&
               toolchain_find(&j->tools, j->arena) && toolchain_cpu(&j->tools, o->cpu, &j->cpu);
    }
    if (o->emit == EMIT_ptx || o->emit == EMIT_cubin) {
        return toolchain_find(&j->tools, j->arena) && toolchain_cpu(&j->tools, o->cpu, &j->cpu);
    }
    if (o->emit == EMIT_c || o->emit == EMIT_cuda || o->emit == EMIT_kernels ||
        o->plan != PLAN_no || o->explain == EXPLAIN_html || j->m->memory > 0) {
        return (str_eq(o->cpu, "native") || toolchain_find(&j->tools, j->arena)) &&
               toolchain_cpu(&j->tools, o->cpu, &j->cpu);
    }
    return true;
}

static int compile(Job *j)
{
    const Options *o = &j->opt;
    if (o->input == NULL) {
        fprintf(stderr, "mpc: no file given: mpc FILE.mpt -o OUT (mpc --help says more)\n");
        return STATUS_usage;
    }
    if (!is_ir(j) && !str_ends(o->input, ".mpt") && !str_eq(o->input, "-")) {
        fprintf(stderr, "mpc: %s: expected a .mpt or .ir file\n", o->input);
        return STATUS_usage;
    }
    j->source = source_read(j->arena, j->diag, o->input);
    if (j->source == NULL) {
        return STATUS_usage;
    }
    int status;
    if (!front(j, &status)) {
        return status;
    }
    stage(j, "IR");
    if (o->memory > 0) {
        j->m->memory = o->memory;
        j->m->memory_loc = loc_none();
    }
    if (o->check_data) {
        check_data(j->m, home_folder(j), j->diag);
        if (diag_failed(j->diag)) {
            return STATUS_usage;
        }
    }
    j->tools.level = o->level;
    j->tools.verbose = o->verbose;
    if (!find_tools(j)) {
        return STATUS_failed;
    }
    /* an .ir file is printed as it is, unless a pass is asked for */
    bool as_read = is_ir(j) && (o->emit == EMIT_ir || o->emit == EMIT_dot) &&
                   o->stop_after == NULL && o->dump_after == NULL && o->explain == EXPLAIN_no &&
                   !o->verify_ir && !o->verify_passes;
    if (!as_read && !all_passes(j)) {
        return STATUS_usage;
    }
    stage(j, "passes");
    return back(j);
}

int main(int argc, char **argv)
{
    if (argc > 1 && str_eq(argv[1], "fmt")) {
        return fmt_main(argc - 1, argv + 1);
    }
    Job j = {.arena = arena_new(), .start = seconds()};
    int status = STATUS_done;
    if (!options_parse(j.arena, &j.opt, argc, argv)) {
        return STATUS_usage;
    }
    j.diag = diag_new(j.arena, stderr, j.opt.color, j.opt.diagnostics);
    if (j.opt.help) {
        options_help(j.arena);
    } else if (j.opt.shell >= 0) {
        completion_print(stdout, (Shell)j.opt.shell);
    } else if (j.opt.manual >= 0) {
        manual_print(stdout, j.opt.manual == 1);
    } else if (j.opt.version) {
        puts("mpc " MPC_VERSION);
    } else if (j.opt.list_passes) {
        list_passes();
    } else if (j.opt.list_ops) {
        list_ops();
    } else if (j.opt.emit == EMIT_std) {
        status = emit_std();
    } else {
        status = compile(&j);
    }
    if (status == STATUS_done && (fflush(stdout) != 0 || ferror(stdout))) {
        fprintf(stderr, "mpc: cannot write the output: %s\n", strerror(errno));
        status = STATUS_failed;
    }
    arena_free(j.arena);
    return status;
}
