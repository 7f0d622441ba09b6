/* pass.c: runs the passes in order. It alone knows about order, resuming, verification, dumps, times and
 * stopping; and when a pass meets a bug of ours it leaves the IR that went in, with the command that runs just
 * that pass again. The small helpers that passes share (ctx.h) are in rebuild.c. */
#include "passes/pass.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ir/base/strutil.h"
#include "passes/ctx.h"

const PassInfo pass_info[PASS_COUNT] = {
#define PASS(name, meaning) [PASS_##name] = {#name, meaning},
#include "passes/passes.def"
};

static bool (*const pass_fn[PASS_COUNT])(PassCtx *) = {
#define PASS(name, meaning) [PASS_##name] = pass_##name,
#include "passes/passes.def"
};

bool pass_find(const char *name, PassId *id)
{
    for (int i = 0; i < PASS_COUNT; i++) {
        if (str_eq(pass_info[i].name, name)) {
            *id = (PassId)i;
            return true;
        }
    }
    return false;
}

/* They take away what the planner does not know: markers and composite ops. */
bool pass_is_needed(const char *name)
{
    static const bool needed[PASS_COUNT] = {[PASS_autodiff] = true,
                                            [PASS_accumulate] = true,
                                            [PASS_scaling] = true,
                                            [PASS_decompose] = true};
    PassId id;
    return pass_find(name, &id) && needed[id];
}

/* The pass that comes next: the one after the last that ran, the first one after the frontend. */
static int first_pass(const Module *m)
{
    PassId last;
    return m->last_pass != NULL && pass_find(m->last_pass, &last) ? (int)last + 1 : 0;
}

static bool is_disabled(const PassOptions *opt, const char *name)
{
    for (int i = 0; i < opt->ndisabled; i++) {
        if (str_eq(opt->disabled[i], name)) {
            return true;
        }
    }
    return false;
}

/* ---- the reproducer ------------------------------------------------------------------------------ */

typedef struct Crash {
    const PassOptions *opt;
    const char *pass;
    Arena *arena;
    const Module *before; /* the module before the pass */
} Crash;

static void crash_capture(Crash *crash, const Module *m, const char *pass)
{
    Arena *arena = arena_new();
    crash->before = verify_copy(arena, m);
    crash->pass = pass;
    arena_free(crash->arena);
    crash->arena = arena;
}

/* Also runs inside ICE(); a second one ends there. */
static void crash_report(void *ctx)
{
    const Crash *crash = ctx;
    char path[1024];
    const char *dir = crash->opt->dump_dir != NULL ? crash->opt->dump_dir : ".";
    snprintf(path, sizeof path, "%s/%s.before-%s.ir", dir, crash->before->name, crash->pass);
    fprintf(stderr, "mpc: in pass %s\n", crash->pass);
    FILE *f = fopen(path, "w");
    if (f != NULL) {
        module_print(f, crash->before);
    }
    if (f == NULL || fflush(f) != 0 || ferror(f)) {
        fprintf(stderr, "mpc: the IR that went in could not be written to %s: %s\n", path,
                strerror(errno));
    } else {
        fprintf(stderr,
                "mpc: the IR that went in is in %s; this runs the pass alone:\n"
                "     mpc %s --dump-after=%s\n",
                path, path, crash->pass);
    }
    if (f != NULL) {
        fclose(f);
    }
}

/* ---- one pass ------------------------------------------------------------------------------------ */

static bool dump_module(const Module *m, const PassOptions *opt, Diag *diag, int number)
{
    const char *name = pass_info[number].name;
    if (opt->dump_after == NULL ||
        (!str_eq(opt->dump_after, "all") && !str_eq(opt->dump_after, name))) {
        return true;
    }
    if (opt->dump != NULL) {
        module_print(opt->dump, m);
        return true;
    }
    char path[1024];
    snprintf(path, sizeof path, "%s/%02d-%s.ir", opt->dump_dir != NULL ? opt->dump_dir : ".",
             number + 1, name);
    FILE *f = fopen(path, "w");
    if (f == NULL) {
        diag_error(diag, loc_none(), "cannot write %s: %s", path, strerror(errno));
        return false;
    }
    module_print(f, m);
    bool ok = !ferror(f);
    if (fclose(f) != 0 || !ok) {
        diag_error(diag, loc_none(), "cannot write %s: %s", path, strerror(errno));
        return false;
    }
    return true;
}

static double milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static FILE *report_file(const PassOptions *opt)
{
    return opt->report != NULL ? opt->report : stderr;
}

/* Runs pass `id` unless it is switched off, then checks what it left; *wrong: that was not right. */
static bool run_one(Module *m, const PassOptions *opt, Diag *diag, PassCounts *counts, PassId id,
                    bool *wrong)
{
    const char *name = pass_info[id].name;
    PassCtx c = {.m = m, .opt = opt, .diag = diag, .arena = m->arena, .counts = counts};
    bool ok = true;
    if (!is_disabled(opt, name)) {
        c.scratch = arena_new();
        Module *before = opt->verify_passes ? verify_copy(c.scratch, m) : NULL;
        double start = milliseconds();
        ok = pass_fn[id](&c) && !diag_failed(diag);
        double end = milliseconds();
        if (opt->time_passes) {
            fprintf(report_file(opt), "%-10s %8.3f ms\n", name, end - start);
        }
        m->last_pass = name;
        if (ok && opt->verify_ir) {
            ok = module_verify(m, diag);
            *wrong = !ok;
        }
        if (ok && before != NULL) {
            ok = verify_pass(&c, id, before);
            *wrong = !ok;
        }
        arena_free(c.scratch);
    }
    m->last_pass = name;
    return ok;
}

bool passes_run(Module *m, const PassOptions *opt, Diag *diag)
{
    PassCounts local = {0};
    PassCounts *counts = opt->counts != NULL ? opt->counts : &local;
    Crash crash = {.opt = opt};
    bool ok = !opt->verify_ir || module_verify(m, diag);
    if (opt->precision != DT_none && first_pass(m) > PASS_infer && opt->precision != m->precision) {
        diag_error(diag, loc_none(),
                   "--precision comes too late: %s is IR after the pass %s, its types are decided",
                   m->name, m->last_pass);
        ok = false;
    }
    ice_hook(crash_report, &crash);
    for (int id = first_pass(m); id < PASS_COUNT && ok; id++) {
        crash_capture(&crash, m, pass_info[id].name);
        bool wrong = false;
        ok = run_one(m, opt, diag, counts, (PassId)id, &wrong);
        if (wrong) {
            crash_report(&crash);
        }
        if (ok) {
            ok = dump_module(m, opt, diag, id);
        }
        if (opt->stop_after != NULL && str_eq(opt->stop_after, pass_info[id].name)) {
            break;
        }
    }
    ice_hook(NULL, NULL);
    arena_free(crash.arena);
    return ok;
}
