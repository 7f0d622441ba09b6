/* rt_step.c: the services that the generated host program calls between its kernels: options, loaders, what
 * an update came to, evaluation, saving. Each is short; the work is in the files that rt_run.h lists. */
#include "rt_loader.h"
#include "rt_run.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options, kernels ---- */

int64_t mpc_option_int(const MpcRun *r, int option)
{
    return r->rt->options.values[option].whole;
}

double mpc_option_float(const MpcRun *r, int option)
{
    return r->rt->options.values[option].number;
}

bool mpc_option_bool(const MpcRun *r, int option)
{
    return r->rt->options.values[option].number != 0;
}

const char *mpc_option_string(const MpcRun *r, int option)
{
    return r->rt->options.values[option].text;
}

int64_t mpc_epochs(MpcRun *r, int64_t in_file)
{
    int64_t epochs = r->rt->options.epochs >= 0 ? r->rt->options.epochs : in_file;
    r->rt->progress.epochs = epochs;
    return epochs;
}

void mpc_limit(MpcRun *r, int64_t updates)
{
    RtOptions *o = &r->rt->options;
    if (o->max_steps < 0 && updates >= 0)
        o->max_steps = updates;
    r->rt->steps_done = o->max_steps >= 0 && r->step >= o->max_steps;
}

double mpc_elapsed(const MpcRun *r)
{
    return r->rt->elapsed_before + rt_seconds() - r->rt->started;
}

bool mpc_step_was_skipped(const MpcRun *r)
{
    return r->rt->last.skipped;
}

bool mpc_stopping(const MpcRun *r)
{
    return r->rt->steps_done || rt_signal() != 0;
}

/* A step may take longer than a line of progress may be late; asking for the time at each kernel would cost more
 * than small ones take. */
static void between_kernels(MpcRun *r)
{
    if (++r->rt->progress.launches % 16 == 0)
        rt_progress_tick(r);
}

void mpc_run(MpcRun *r, MpcKernel *kernel, const void *args, int tiles)
{
    MpcCall call = {kernel, args, tiles};
    mpc_run_many(r, &call, 1);
}

void mpc_run_many(MpcRun *r, const MpcCall *calls, int n)
{
    if (r->rt->device)
        rt_device_run(r->rt->device, calls, n);
    else
        rt_pool_run(r->rt->pool, calls, n);
    between_kernels(r);
}

bool mpc_graph_begin(MpcRun *r, int graph, const MpcBatch *batch)
{
    return !r->rt->device || rt_device_graph_begin(r->rt->device, graph, batch);
}

void mpc_graph_end(MpcRun *r, int graph)
{
    if (r->rt->device)
        rt_device_graph_end(r->rt->device, graph);
}

/* ---- loaders ---- */

MpcLoader *mpc_loader_open(MpcRun *r, int loader, int64_t batch_size)
{
    MpcRuntime *rt = r->rt;
    RtErr e;
    if (!rt->loaders[loader]) {
        const MpcLoaderDecl *decl = &r->program->loaders[loader];
        rt->loaders[loader] = rt_loader_new(
            decl, &rt->sets[decl->set], batch_size, r->seed,
            rt->prefetch ? RT_PREFETCH_auto : RT_PREFETCH_never,
            r->mirror + rt_memory_of_loader(&rt->memory, r->program, loader), r, rt->device, &e);
        if (!rt->loaders[loader])
            rt_fail_with(r, &e);
        rt_resume_loader(r, loader);
    }
    return rt->loaders[loader];
}

int64_t mpc_count(const MpcRun *r, int set)
{
    return r->rt->sets[set].count;
}

void rt_pass_begins(MpcRun *r, MpcLoader *l)
{
    RtProgress *p = &r->rt->progress;
    if (!rt_loader_decl(l)->training)
        return;
    r->epoch = rt_loader_pass(l);
    r->rt->open_passes++;
    p->batch = rt_loader_cursor(l).taken;
    p->batches = mpc_len(l);
    rt_clock_start(&p->training);
}

void rt_batch_begins(MpcRun *r, MpcLoader *l, int64_t n)
{
    RtProgress *p = &r->rt->progress;
    rt_progress_tick(r);
    if (!rt_loader_decl(l)->training)
        return;
    r->rt->saves.batches++;
    p->batch++;
    p->batches_done++;
    p->samples += n;
}

void rt_pass_ends(MpcRun *r, MpcLoader *l)
{
    if (!rt_loader_decl(l)->training)
        return;
    rt_clock_stop(&r->rt->progress.training);
    r->rt->open_passes--;
    r->rt->progress.passes_done++;
    rt_progress_pass_ends(r);
    rt_report_refresh(r);
}

int64_t rt_epochs_begun(const MpcRun *r)
{
    return r->rt->progress.batches_done ? r->epoch + 1 : 0;
}

/* An evaluation in the middle of a training pass runs to its end, also after a signal: what follows of the
 * batch must find its result. */
bool rt_pass_stops(const MpcRun *r, const MpcLoader *l)
{
    bool training = rt_loader_decl(l)->training;
    return training ? rt_signal() != 0 || r->rt->steps_done
                    : rt_signal() != 0 && !r->rt->open_passes;
}

/* ---- updates ---- */

static void check_finite(MpcRun *r, const MpcStep *s)
{
    bool loss = s->has_loss && !isfinite(s->loss);
    bool norm = s->has_grad_norm && !isfinite(s->grad_norm);
    char number[RT_NUMBER_CHARS];
    if (s->skipped || !(loss || norm))
        return;
    rt_log_values(r, NULL, 0);
    mpc_fail(r,
             "try a smaller learning rate, clip the gradients, or look for a division by zero or a "
             "logarithm "
             "of zero in the model",
             "the %s is %s at step %lld (epoch %lld); the weights are lost",
             loss ? "loss" : "gradients' norm", rt_number(number, loss ? s->loss : s->grad_norm),
             (long long)r->step, (long long)r->epoch + 1);
}

static void check_skips(MpcRun *r, const MpcStep *s)
{
    MpcRuntime *rt = r->rt;
    char number[RT_NUMBER_CHARS], where[400] = "";
    rt->skips_in_row = s->skipped ? rt->skips_in_row + 1 : 0;
    if (!s->max_skips || rt->skips_in_row < s->max_skips)
        return;
    if (s->tensor)
        snprintf(where, sizeof where, ": the gradient of %s is not finite (%s, line %d)", s->tensor,
                 s->op ? s->op : "its op", s->line);
    rt_log_values(r, NULL, 0);
    mpc_fail(r, "a smaller learning rate, or --precision=bf16, may help",
             "%d updates in a row were skipped, the last at step %lld with loss scale %s%s",
             rt->skips_in_row, (long long)r->step, rt_number(number, s->scale), where);
}

/* Optimizers may step in turn: what this update does not say stays. */
static void keep_last(MpcRuntime *rt, const MpcStep *s)
{
    int n = rt->last.n_own;
    for (int i = 0; i < s->n_own; i++) {
        int at = 0;
        while (at < n && strcmp(rt->own[at].name, s->own[i].name) != 0)
            at++;
        if (at < n)
            rt->own[at].value = s->own[i].value;
        else if (n < RT_STEP_VALUES)
            rt->own[n++] = s->own[i];
    }
    rt->last = *s;
    rt->last.own = rt->own;
    rt->last.n_own = n;
}

void mpc_step_done(MpcRun *r, const MpcStep *s)
{
    MpcRuntime *rt = r->rt;
    RtProgress *p = &rt->progress;
    if (rt->first_step < 0)
        rt->first_step = rt_seconds() - rt->started - rt->data_seconds;
    keep_last(rt, s);
    r->step++;
    if (s->skipped) {
        r->skips++;
        rt_log_overflow(r, s);
    }
    /* A loss that overflowed in a skipped step is reported by the overflow record; it is no loss of the model. */
    if (s->has_loss && !s->skipped) {
        p->loss_sum += s->loss;
        p->loss_n++;
    }
    check_finite(r, s);
    check_skips(r, s);
    if (rt->options.max_steps >= 0 && r->step >= rt->options.max_steps)
        rt->steps_done = true;
    rt_profile_warm(rt->profile);
}

void mpc_log_step(MpcRun *r, const MpcValue *values, int n)
{
    rt_progress_values(r, values, n);
    rt_log_values(r, values, n);
}

/* ---- evaluation ---- */

void mpc_eval_begin(MpcRun *r, MpcEval *e, const char *set, const MpcMetric *metrics, int n,
                    double *cells, MpcLoader *l)
{
    *e = (MpcEval){.set = set, .metrics = metrics, .n_metrics = n, .start = rt_seconds()};
    for (int i = 0; i < n; i++) {
        int64_t size = rt_metric_cells(&metrics[i]);
        memset(cells, 0, (size_t)size * sizeof *cells);
        e->cells[i] = cells;
        cells += size;
    }
    rt_clock_stop(&r->rt->progress.training);
    mpc_loader_begin(l, 0);
}

void mpc_eval_add(MpcRun *r, MpcEval *e, const MpcSeen *seen, int64_t n)
{
    if (!r->training)
        rt_profile_warm(r->rt->profile);
    for (int i = 0; i < e->n_metrics; i++)
        rt_metric_add(e->cells[i], &e->metrics[i], &seen[i], n);
    e->samples += n;
}

static bool in_training_pass(const MpcRun *r)
{
    return r->rt->progress.batch > 0 && r->rt->progress.batch < r->rt->progress.batches;
}

void mpc_eval_end(MpcRun *r, MpcEval *e, MpcLoader *l, double *values)
{
    RtProgress *p = &r->rt->progress;
    mpc_loader_end(l);
    bool cut = e->samples < rt_loader_samples(l);
    for (int i = 0; i < e->n_metrics; i++)
        values[i] = cut ? (double)NAN : rt_metric_value(e->cells[i], &e->metrics[i], e->samples);
    p->evaluations++;
    if (in_training_pass(r))
        p->inside = (RtOften){p->inside.n + 1, p->batches_done};
    else if (p->passes_done)
        p->behind = (RtOften){p->behind.n + 1, p->passes_done};
    p->evaluating += rt_seconds() - e->start;
    rt_profile_span(r->rt->profile, RT_SPAN_evaluation, e->start);
    if (!cut) {
        rt_log_eval(r, e, values);
        rt_progress_eval(r, e, values);
    }
    rt_report_refresh(r);
    if (in_training_pass(r))
        rt_clock_start(&p->training);
}

/* ---- files, text ---- */

void mpc_save(MpcRun *r, const char *name)
{
    RtErr e;
    if (!r->rt->out_dir)
        return;
    char *path = rt_text("%s/%s.safetensors", r->rt->out_dir, name);
    if (strchr(name, '/') || !*name || *name == '.') {
        rt_err(&e, "save(\"%s\"): this is no name for a file", name);
        rt_fail_with(r, &e);
    }
    if (!rt_tensors_save(r, path, &e))
        rt_fail_with(r, &e);
    rt_log_save(r, path, !strcmp(name, "best"));
    free(path);
}

void mpc_load(MpcRun *r, const char *name)
{
    RtErr e = {.hint = ""};
    if (!r->rt->out_dir)
        return;
    char *path = rt_text("%s/%s.safetensors", r->rt->out_dir, name);
    if (!rt_is_file(path)) {
        rt_err(&e, "load(\"%s\"): there is no '%s'", name, path);
        rt_hint(&e, "save(\"%s\") writes it", name);
        rt_fail_with(r, &e);
    }
    if (!rt_tensors_load(r, path, &e))
        rt_fail_with(r, &e);
    if (r->program->refresh)
        r->program->refresh(r);
    rt_log_load(r, path);
    free(path);
}

void mpc_print(MpcRun *r, const char *format, ...)
{
    va_list args;
    rt_progress_clear(r);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

_Noreturn void mpc_fail(MpcRun *r, const char *hint, const char *format, ...)
{
    RtErr e = {.hint = ""};
    va_list args;
    va_start(args, format);
    vsnprintf(e.text, sizeof e.text, format, args);
    va_end(args);
    if (hint)
        rt_hint(&e, "%s", hint);
    rt_fail_with(r, &e);
}
