/* rt_log.c: the folder of a run: log.jsonl, one object a line, written as it happens; config.json.
 * A record leaves in one write, so that a killed run leaves whole lines. A log that cannot be written (disk
 * full) is reported once and costs the training nothing else. */
#include "rt_loader.h"
#include "rt_run.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUNS_MOST = 100000 };

void rt_warn(MpcRun *r, const char *format, ...)
{
    va_list args;
    rt_progress_clear(r);
    fprintf(stderr, "%s: note: ", r->program->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* ---- folder ---- */

char *rt_out_name(const RtOptions *o, bool existing)
{
    const char *name = o->program->name;
    if (o->out)
        return rt_copy_text(o->out);
    for (int i = 1; i < RUNS_MOST && !existing; i++) {
        char *path = i == 1 ? rt_text("runs/%s", name) : rt_text("runs/%s-%d", name, i);
        if (access(path, F_OK) != 0)
            return path;
        free(path);
    }
    return rt_text("runs/%s", name);
}

/* Two runs that start at the same time must not share a folder: who makes it has it. */
static bool make_fresh(MpcRun *r, RtErr *e)
{
    if (!rt_make_folders("runs", e))
        return false;
    for (int tries = 0; tries < RUNS_MOST; tries++) {
        char *path = rt_out_name(&r->rt->options, false);
        if (mkdir(path, 0777) == 0) {
            r->rt->out_dir = path;
            return true;
        }
        if (errno != EEXIST) {
            rt_err_errno(e, "cannot create the folder '%s'", path);
            free(path);
            return false;
        }
        free(path);
    }
    return rt_err(e, "there are too many folders runs/%s-N", r->program->name);
}

static bool can_write_out(const RtOptions *o, RtErr *e)
{
    char *path = rt_copy_text(o->out ? o->out : "runs");
    while (access(path, F_OK) != 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) {
            strcpy(path, slash ? "/" : ".");
            break;
        }
        *slash = 0;
    }
    int error = !rt_is_folder(path) ? ENOTDIR : access(path, W_OK | X_OK) != 0 ? errno : 0;
    if (error) {
        errno = error;
        rt_err_errno(e, "cannot write the folder of the run, '%s'", o->out ? o->out : "runs");
        rt_hint(e, "name another folder with --out DIR");
    }
    free(path);
    return !error;
}

/* A continued run's log goes on where the checkpoint was written; records behind it are made again. */
static bool open_log(MpcRun *r, RtErr *e)
{
    MpcRuntime *rt = r->rt;
    struct stat st;
    int64_t keep = rt_resume_log_bytes(r);
    char *path = rt_text("%s/log.jsonl", rt->out_dir);
    rt->log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    bool ok = rt->log_fd >= 0 && fstat(rt->log_fd, &st) == 0;
    if (ok) {
        rt->log_bytes = keep < 0 ? 0 : keep < st.st_size ? keep : st.st_size;
        ok = ftruncate(rt->log_fd, rt->log_bytes) == 0;
    }
    if (!ok)
        rt_err_errno(e, "cannot write '%s'", path);
    free(path);
    return ok;
}

bool rt_out_claim(MpcRun *r, RtErr *e)
{
    MpcRuntime *rt = r->rt;
    const char *out = rt->options.out;
    if (!can_write_out(&rt->options, e))
        return false;
    if (!out || !rt_is_folder(out))
        return true;
    rt->lock = rt->lock < 0 ? rt_lock_folder(out, e) : rt->lock;
    return rt->lock >= 0 && rt_checkpoint_fresh(out, e);
}

bool rt_out_make(MpcRun *r, RtErr *e)
{
    MpcRuntime *rt = r->rt;
    bool ok = true;
    if (!rt->options.out)
        ok = make_fresh(r, e);
    else if ((ok = rt_make_folders(rt->options.out, e)))
        rt->out_dir = rt_copy_text(rt->options.out);
    if (ok && rt->lock < 0) {
        rt->lock = rt_lock_folder(rt->out_dir, e);
        ok = rt->lock >= 0;
    }
    ok = ok && (rt->resume || rt_checkpoint_clear(rt->out_dir, e)) && open_log(r, e);
    if (!ok && !e->hint[0])
        rt_hint(e, "name another folder with --out DIR");
    return ok;
}

/* ---- records ---- */

static RtJson *record(MpcRun *r, const char *event)
{
    RtJson *j = &r->rt->line;
    rt_json_start(j);
    rt_json_open(j, NULL);
    rt_json_text(j, "event", event);
    return j;
}

static void write_record(MpcRun *r, RtJson *j)
{
    MpcRuntime *rt = r->rt;
    if (!j->finite)
        rt_json_bool(j, "finite", false);
    rt_json_close(j);
    j->text[j->length] = '\n'; /* the end's 0 is not needed in a file */
    if (rt->log_fd >= 0 && !rt_write_all(rt->log_fd, j->text, j->length + 1)) {
        int error = errno;
        close(rt->log_fd);
        rt->log_fd = -1;
        rt_warn(r, "cannot write %s/log.jsonl: %s; the run goes on without it", rt->out_dir,
                strerror(error));
    }
    if (rt->log_fd >= 0)
        rt->log_bytes += (int64_t)j->length + 1;
    if (rt->options.console == RT_CONSOLE_jsonl) {
        fwrite(j->text, 1, j->length + 1, stdout);
        fflush(stdout);
    }
}

static void number_or_null(RtJson *j, const char *key, bool has, double v)
{
    if (has)
        rt_json_number(j, key, v);
    else
        rt_json_null(j, key);
}

/* To the microsecond: more digits of a measured time say nothing. */
static void put_seconds(RtJson *j, const char *key, double seconds)
{
    rt_json_number(j, key, round(seconds * 1e6) / 1e6);
}

static void program_members(MpcRun *r, RtJson *j)
{
    const MpcProgram *p = r->program;
    char name[RT_NUMBER_CHARS];
    rt_json_text(j, "program", p->name);
    rt_json_text(j, "source", p->source);
    rt_json_text(j, "version", p->version);
    rt_json_text(j, "device", rt_device_log_name(r->rt->device, name));
    if (r->rt->device)
        rt_json_text(j, "gpu", rt_device_name(r->rt->device));
    rt_json_text(j, "cpu", p->cpu);
    rt_json_int(j, "threads", r->threads);
    rt_json_text(j, "precision", p->precision_key);
    rt_json_text(j, "math", p->math);
    rt_json_int(j, "parameters", p->parameters);
    rt_json_int(j, "plan_bytes", (int64_t)r->rt->plan_bytes);
    rt_json_int(j, "seed", (int64_t)r->seed);
    rt_json_text(j, "seed_from", r->rt->options.seed_from);
    rt_options_json(&r->rt->options, j);
}

void rt_log_start(MpcRun *r)
{
    RtJson *j = record(r, r->rt->resume ? "resume" : "start");
    if (r->rt->resume) {
        rt_json_int(j, "step", r->step);
        rt_json_text(j, "from", rt_resume_folder(r));
    }
    program_members(r, j);
    write_record(r, j);
}

bool rt_config_write(MpcRun *r, RtErr *e)
{
    RtJson *j = &r->rt->line;
    RtWriter w;
    rt_json_start(j);
    rt_json_open(j, NULL);
    program_members(r, j);
    rt_json_open(j, "model");
    for (int i = 0; i < r->program->n_modules; i++)
        if (*r->program->modules[i].path)
            rt_json_text(j, r->program->modules[i].path, r->program->modules[i].kind);
    rt_json_close(j);
    rt_json_close(j);
    j->text[j->length] = '\n';
    char *path = rt_text("%s/config.json", r->rt->out_dir);
    bool ok = rt_writer_open(&w, path, e);
    if (ok && !rt_writer_put(&w, j->text, j->length + 1, e)) {
        rt_writer_abort(&w);
        ok = false;
    }
    ok = ok && rt_writer_commit(&w, e);
    free(path);
    return ok;
}

/* Samples a second of training since the last record. */
static double rate(MpcRun *r)
{
    MpcRuntime *rt = r->rt;
    double now = rt_clock_read(&rt->progress.training), seconds = now - rt->log_training;
    int64_t samples = rt->progress.samples - rt->log_samples;
    rt->log_training = now;
    rt->log_samples = rt->progress.samples;
    return seconds > 0 ? round((double)samples / seconds) : 0;
}

void rt_log_values(MpcRun *r, const MpcValue *values, int n)
{
    const MpcStep *s = &r->rt->last;
    bool has_loss = s->has_loss;
    double loss = s->loss, samples_per_s = rate(r);
    for (int i = 0; i < n; i++)
        if (!strcmp(values[i].name, "loss")) {
            has_loss = true;
            loss = values[i].value;
        }
    RtJson *j = record(r, "step");
    rt_json_int(j, "step", r->step);
    rt_json_int(j, "epoch", r->epoch + 1);
    number_or_null(j, "loss", has_loss, loss);
    number_or_null(j, "lr", s->has_lr, s->lr);
    number_or_null(j, "grad_norm", s->has_grad_norm, s->grad_norm);
    number_or_null(j, "scale", s->has_scale, s->scale);
    rt_json_bool(j, "skipped", s->skipped);
    rt_json_number(j, "samples_per_s", samples_per_s);
    for (int i = 0; i < s->n_own; i++)
        rt_json_number(j, s->own[i].name, s->own[i].value);
    for (int i = 0; i < n; i++)
        if (strcmp(values[i].name, "loss") != 0)
            rt_json_number(j, values[i].name, values[i].value);
    write_record(r, j);
    rt_scalars_begin(r);
    if (has_loss)
        rt_scalar(r, "train", NULL, "loss", loss);
    if (s->has_lr)
        rt_scalar(r, "train", NULL, "lr", s->lr);
    if (s->has_grad_norm)
        rt_scalar(r, "train", NULL, "grad_norm", s->grad_norm);
    if (s->has_scale)
        rt_scalar(r, "train", NULL, "scale", s->scale);
    for (int i = 0; i < s->n_own; i++)
        rt_scalar(r, "train", NULL, s->own[i].name, s->own[i].value);
    rt_scalar(r, "train", NULL, "samples_per_s", samples_per_s);
    for (int i = 0; i < n; i++)
        if (strcmp(values[i].name, "loss") != 0)
            rt_scalar(r, "train", NULL, values[i].name, values[i].value);
    rt_scalars_end(r);
}

void rt_log_overflow(MpcRun *r, const MpcStep *s)
{
    RtJson *j = record(r, "overflow");
    rt_json_int(j, "step", r->step);
    number_or_null(j, "scale_old", s->has_scale, s->scale);
    number_or_null(j, "scale_new", s->has_scale, s->scale_next);
    rt_json_text(j, "tensor", s->tensor);
    rt_json_text(j, "op", s->op);
    if (s->line > 0)
        rt_json_int(j, "line", s->line);
    else
        rt_json_null(j, "line");
    write_record(r, j);
}

/* A row for each label: how often it was taken for each class. */
static void put_matrix(RtJson *j, const MpcMetric *m, const double *cells)
{
    rt_json_open_list(j, m->name);
    for (int64_t i = 0; i < m->n; i++) {
        rt_json_open_list(j, NULL);
        for (int64_t k = 0; k < m->n; k++)
            rt_json_int(j, NULL, (int64_t)cells[i * m->n + k]);
        rt_json_close_list(j);
    }
    rt_json_close_list(j);
}

void rt_log_eval(MpcRun *r, const MpcEval *e, const double *values)
{
    RtJson *j = record(r, "eval");
    rt_json_int(j, "step", r->step);
    rt_json_int(j, "epoch", rt_epochs_begun(r));
    rt_json_text(j, "set", e->set);
    for (int i = 0; i < e->n_metrics; i++)
        if (e->metrics[i].kind == MPC_METRIC_confusion_matrix)
            put_matrix(j, &e->metrics[i], e->cells[i] + 1);
        else
            rt_json_number(j, e->metrics[i].name, values[i]);
    rt_json_int(j, "samples", e->samples);
    put_seconds(j, "seconds", rt_seconds() - e->start);
    write_record(r, j);
    rt_scalars_begin(r);
    for (int i = 0; i < e->n_metrics; i++)
        if (e->metrics[i].kind != MPC_METRIC_confusion_matrix)
            rt_scalar(r, "eval", e->set, e->metrics[i].name, values[i]);
    rt_scalars_end(r);
}

void rt_log_save(MpcRun *r, const char *path, bool best)
{
    RtJson *j = record(r, "save");
    rt_json_int(j, "step", r->step);
    rt_json_text(j, "path", path);
    rt_json_bool(j, "best", best);
    write_record(r, j);
}

void rt_log_load(MpcRun *r, const char *path)
{
    RtJson *j = record(r, "load");
    rt_json_int(j, "step", r->step);
    rt_json_text(j, "path", path);
    write_record(r, j);
}

void rt_log_end(MpcRun *r, int status, const char *reason)
{
    MpcRuntime *rt = r->rt;
    RtJson *j = record(r, "end");
    rt_json_int(j, "status", status);
    if (reason)
        rt_json_text(j, "reason", reason);
    rt_json_int(j, "steps", r->step);
    rt_json_int(j, "skips", r->skips);
    put_seconds(j, "seconds", rt_seconds() - rt->started);
    if (rt->first_step >= 0)
        put_seconds(j, "first_step_s", rt->first_step);
    else
        rt_json_null(j, "first_step_s");
    put_seconds(j, "data_s", rt->data_seconds);
    rt_json_int(j, "peak_bytes", (int64_t)rt_peak_bytes());
    write_record(r, j);
}
