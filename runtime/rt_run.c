/* rt_run.c: a training program from its command line to its exit status, and how it ends when something goes
 * wrong. What happens in between is the generated `run`. */
#include "rt_run.h"
#include "rt_loader.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATUS_failed = 1, STATUS_usage = 2, STATUS_signal = 128 };

static volatile sig_atomic_t signalled;

int rt_signal(void)
{
    return signalled;
}

/* The first signal lets the step end and the model be written; a second one ends the program at once. */
static void on_signal(int number)
{
    signalled = number;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal,
                               .sa_flags = (int)(SA_RESTART | SA_RESETHAND)};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* A pipe without a reader and a file that grows too large are errors of write. */
static void ignore_signals(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

/* ---- ends ---- */

_Noreturn void rt_die(const MpcProgram *program, int status, const RtErr *e)
{
    fflush(stdout);
    fprintf(stderr, "%s: error: %s\n", program->name, e->text);
    if (e->hint[0])
        fprintf(stderr, "  %s\n", e->hint);
    fflush(stderr);
    _exit(status);
}

_Noreturn void rt_end_early(MpcRun *r, int status, const RtErr *e)
{
    rt_unlock_folder(r->rt->options.out ? r->rt->options.out : "", r->rt->lock);
    rt_die(r->program, status, e);
}

_Noreturn void rt_fail_with(MpcRun *r, const RtErr *e)
{
    rt_progress_clear(r);
    rt_log_end(r, STATUS_failed, e->text);
    rt_report_write(r);
    rt_unlock_folder(r->rt->out_dir ? r->rt->out_dir : "", r->rt->lock);
    rt_die(r->program, STATUS_failed, e);
}

/* ---- phases ---- */

static void load_data(MpcRun *r)
{
    const MpcProgram *p = r->program;
    MpcRuntime *rt = r->rt;
    RtPlaces places = {rt->options.data_dir, p->home};
    RtErr e;
    double start = rt_seconds();
    if (places.data_dir && !rt_is_folder(places.data_dir)) {
        rt_err(&e, "--data: there is no folder '%s'", places.data_dir);
        rt_hint(&e,
                "without --data the files are looked for beside the program's source, and here");
        rt_end_early(r, STATUS_failed, &e);
    }
    rt->tables = rt_alloc_zero((size_t)p->n_data, sizeof *rt->tables);
    rt->sets = rt_alloc_zero((size_t)p->n_sets, sizeof *rt->sets);
    /* A missing file is said before the first one, however long, is read. */
    for (int i = 0; i < p->n_data; i++)
        for (int k = 0; k < p->data[i].n_paths; k++) {
            char *path = rt_find_data(&places, p->data[i].paths[k], &e);
            if (!path)
                rt_end_early(r, STATUS_failed, &e);
            free(path);
        }
    for (int i = 0; i < p->n_data; i++)
        if (!rt_table_load(&rt->tables[i], &p->data[i], &places, &e))
            rt_end_early(r, STATUS_failed, &e);
    for (int i = 0; i < p->n_sets; i++)
        if (!rt_set_make(&rt->sets[i], &p->sets[i], rt->tables, rt->sets, &e))
            rt_end_early(r, STATUS_failed, &e);
    for (int i = 0; i < p->n_label_checks; i++)
        if (!rt_check_labels(&rt->sets[p->label_checks[i].set], &p->label_checks[i], &e))
            rt_end_early(r, STATUS_failed, &e);
    rt->data_seconds = rt_seconds() - start;
}

static size_t table_bytes(const MpcRun *r)
{
    size_t bytes = 0;
    for (int i = 0; i < r->program->n_data && r->rt->tables; i++) {
        const RtTable *t = &r->rt->tables[i];
        size_t row = t->line ? sizeof *t->line : 0;
        for (int f = 0; f < t->decl->n_fields; f++)
            row += t->stride[f];
        bytes += row * (size_t)t->rows;
    }
    return bytes;
}

static size_t device_batch_bytes(const MpcProgram *p)
{
    size_t bytes = 0;
    for (int i = 0; i < p->n_loaders; i++) {
        const MpcData *data = rt_set_data(p, p->loaders[i].set);
        bytes += rt_loader_device_bytes(&p->loaders[i], data->fields, data->n_fields);
    }
    return bytes;
}

/* Where the run takes place, and why not on a GPU where there could be one. */
static void choose_device(MpcRun *r, RtErr *e)
{
    const RtOptions *o = &r->rt->options;
    RtErr why = {.text = "", .hint = ""};
    r->arena = r->mirror;
    if (!rt_options_allow_gpu(o))
        return;
    r->rt->device = rt_device_open(r, o->gpu, device_batch_bytes(r->program), &why);
    if (r->rt->device) {
        char name[RT_NUMBER_CHARS];
        r->arena = rt_device_arena(r->rt->device);
        rt_device_pin(r->rt->device, r->mirror + r->rt->memory.loaders,
                      r->rt->memory.bytes - r->rt->memory.loaders);
        rt_warn(r, "on %s (%s)", rt_device_log_name(r->rt->device, name),
                rt_device_name(r->rt->device));
    } else if (rt_options_need_gpu(o)) {
        rt_err(e, "--device %s: %s", o->device ? o->device : "auto", why.text);
        if (r->program->gpu_only)
            rt_hint(
                e, "the program was compiled for a GPU only; --target=cpu+cuda makes one for both");
        else
            rt_hint(e, "--device auto takes the CPU where no GPU can be used");
        rt_end_early(r, STATUS_failed, e);
    } else {
        rt_warn(r, "on the CPU: %s", why.text);
    }
}

static void prepare_run(MpcRun *r, int threads, RtErr *e)
{
    const MpcProgram *p = r->program;
    MpcRuntime *rt = r->rt;
    rt->plan_bytes = rt_plan_without_data(p, threads, rt->base_bytes) + table_bytes(r);
    rt->loaders = rt_alloc_zero((size_t)p->n_loaders, sizeof *rt->loaders);
    rt->prefetch = rt_cpus() > 1;
    rt->memory = rt_memory_plan(p, threads);
    r->mirror = rt_memory_map(&rt->memory, e);
    if (!r->mirror)
        rt_end_early(r, STATUS_failed, e);
    r->host = r->mirror + rt->memory.host;
    rt->pool = rt_pool_new(threads, p->scratch_bytes, r->mirror + rt->memory.scratch, e);
    if (!rt->pool)
        rt_end_early(r, STATUS_failed, e);
    r->threads = rt_pool_threads(rt->pool);
    choose_device(r, e);
    if (rt->options.profile) {
        rt->profile = rt_profile_new(p, r->threads);
        rt_pool_profile(rt->pool, rt->profile);
    }
}

/* The weights to start from: --init; under --eval else those that a run has left. */
static void load_weights(MpcRun *r, RtErr *e)
{
    const RtOptions *o = &r->rt->options;
    char *path = o->init ? rt_copy_text(o->init) : NULL;
    if (!path && o->action != RT_ACTION_train) {
        char *folder = rt_out_name(o, true);
        path = rt_text("%s/model.safetensors", folder);
        free(folder);
        if (!rt_is_file(path)) {
            rt_err(e, "--%s: there are no weights: '%s' is not there",
                   o->action == RT_ACTION_eval      ? "eval"
                   : o->action == RT_ACTION_predict ? "predict"
                                                    : "export",
                   path);
            rt_hint(e, "name them with --init FILE.safetensors, or a run's folder with --out DIR");
            rt_end_early(r, STATUS_failed, e);
        }
    }
    if (path ? !rt_tensors_load(r, path, e) : !rt_tensors_check(r, e))
        rt_end_early(r, STATUS_failed, e);
    free(path);
}

/* A table after everything else; where stdout is for machines, with the messages. */
static void show_profile(MpcRun *r)
{
    const MpcRuntime *rt = r->rt;
    RtErr e;
    if (!rt->profile)
        return;
    bool text =
        rt->options.console == RT_CONSOLE_text || rt->options.console == RT_CONSOLE_tensorboard;
    rt_profile_print(rt->profile, text ? stdout : stderr);
    if (!rt->out_dir)
        return;
    char *path = rt_text("%s/profile.json", rt->out_dir);
    if (!rt_profile_write(rt->profile, path, &e))
        rt_warn(r, "%s", e.text);
    free(path);
}

static int finish(MpcRun *r)
{
    MpcRuntime *rt = r->rt;
    int status = signalled ? STATUS_signal + signalled : 0;
    RtErr e;
    char *path = rt_text("%s/model.safetensors", rt->out_dir);
    if (!rt_tensors_save(r, path, &e))
        rt_fail_with(r, &e);
    rt_log_save(r, path, false);
    free(path);
    rt_log_end(r, status, signalled ? strsignal(signalled) : NULL);
    rt_report_write(r);
    if (!status && !rt_checkpoint_finished(r, &e))
        rt_fail_with(r, &e);
    rt_unlock_folder(rt->out_dir, rt->lock);
    rt_progress_done(r, status);
    show_profile(r);
    return status;
}

_Noreturn void rt_interrupted(MpcRun *r)
{
    int status = finish(r);
    fflush(NULL);
    _exit(status);
}

static int train(MpcRun *r)
{
    MpcRuntime *rt = r->rt;
    RtErr e;
    if (!rt_out_make(r, &e) || !rt_config_write(r, &e))
        rt_end_early(r, STATUS_failed, &e);
    rt_progress_start(r);
    rt_resume_state(r);
    rt_log_start(r);
    rt_scalars_open(r);
    rt_report_open(r);
    rt->saves.at = rt_seconds();
    rt->steps_done = rt->options.max_steps >= 0 && r->step >= rt->options.max_steps;
    r->program->run(r);
    return finish(r);
}

static int evaluate(MpcRun *r)
{
    if (!r->program->evaluate) {
        RtErr e;
        rt_err(&e, "--eval: %s evaluates nothing", r->program->source);
        rt_die(r->program, STATUS_usage, &e);
    }
    rt_progress_start(r);
    rt_scalars_open(r);
    r->program->evaluate(r);
    rt_progress_done(r, 0);
    show_profile(r);
    return signalled ? STATUS_signal + signalled : 0;
}

/* False after a message: the results did not all reach the standard output. */
static bool said_all(const MpcProgram *program)
{
    bool earlier = ferror(stdout); /* the cause was said to nobody */
    if (fflush(stdout) == 0 && !earlier)
        return true;
    fprintf(stderr, "%s: error: cannot write to the standard output: %s\n", program->name,
            earlier ? "not all of it was taken" : strerror(errno));
    return false;
}

/* What is answered without data; -1: go on. */
static int answer(const RtOptions *o, const char *command, int threads, size_t base_bytes)
{
    char *folder;
    switch (o->action) {
    case RT_ACTION_help: rt_options_help(o, stdout); break;
    case RT_ACTION_version:
        printf("%s, made by mpc %s (%s, --cpu=%s)\n", o->program->name, o->program->version,
               o->program->precision, o->program->cpu);
        break;
    case RT_ACTION_plan: rt_plan_print(o, threads, base_bytes); break;
    case RT_ACTION_summary: rt_summary_print(o->program); break;
    case RT_ACTION_print_config:
        folder = rt_out_name(o, false);
        rt_options_print(o, threads, folder, stdout);
        free(folder);
        break;
    case RT_ACTION_completion: rt_completion(o, command, stdout); break;
    case RT_ACTION_train:
    case RT_ACTION_eval:
    case RT_ACTION_predict:
    case RT_ACTION_export: return -1;
    }
    return said_all(o->program) ? 0 : STATUS_failed;
}

/* Threads and memory are left to the end of the process. */
int rt_main(const MpcProgram *program, int argc, char **argv)
{
    RtErr e = {.text = "", .hint = ""};
    MpcRuntime rt = {.lock = -1,
                     .log_fd = -1,
                     .events.fd = -1,
                     .first_step = -1,
                     .started = rt_seconds(),
                     .base_bytes = rt_resident_bytes()};
    MpcRun run = {.program = program, .rt = &rt};
    if (!rt_options_parse(&rt.options, program, argc, argv, &e))
        rt_die(program, STATUS_usage, &e);
    if (rt.options.epochs >= 0 && !program->has_epochs) {
        rt_err(&e, "--epochs: %s has no loop over epochs", program->source);
        rt_hint(&e, "--max-steps N ends the run sooner");
        rt_die(program, STATUS_usage, &e);
    }
    int threads = rt.options.threads ? (int)rt.options.threads : rt_cpus();
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *command = slash ? slash + 1 : argc > 0 ? argv[0] : program->name;
    int status = answer(&rt.options, command, threads, rt.base_bytes);
    if (status >= 0)
        return status;
    if (!rt_cpu_check(program->cpu_needs, program->cpu, &e))
        rt_die(program, STATUS_failed, &e);

    run.training = rt.options.action == RT_ACTION_train;
    ignore_signals();
    if (run.training && rt.options.resume)
        rt_resume_open(&run);
    if (run.training && rt.lock < 0 && !rt_out_claim(&run, &e))
        rt_end_early(&run, STATUS_failed, &e);
    run.seed = rt.options.seed;
    RtTable asked;
    if (rt.options.action == RT_ACTION_predict)
        rt_predict_data(&run, &asked);
    else if (rt.options.action != RT_ACTION_export)
        load_data(&run);
    catch_signals(); /* from here on there is something to save */
    prepare_run(&run, threads, &e);
    if (rt.resume) {
        rt_resume_tensors(&run);
    } else {
        rt_tensors_init(&run);
        load_weights(&run, &e);
    }
    rt_tensors_to_device(&run);
    if (program->refresh)
        program->refresh(&run);
    switch (rt.options.action) {
    case RT_ACTION_predict: status = rt_predict(&run, &asked); break;
    case RT_ACTION_export: status = rt_export(&run); break;
    case RT_ACTION_eval: status = evaluate(&run); break;
    default: status = train(&run);
    }
    return said_all(program) || status != 0 ? status : STATUS_failed;
}
