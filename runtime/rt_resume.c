/* rt_resume.c: continues a run from a checkpoint: finds it, compares it with this program and its options,
 * and puts everything back where it was. Nothing of the file is believed unread: what is missing or does not
 * fit is named. Writing: rt_checkpoint.c.
 *
 * The order: rt_resume_open before the data are read (a wrong checkpoint is said at once), the tensors
 * instead of their initial values, counters and variables before the loop is entered, each loader's place
 * when the loop opens it.
 */
#include "rt_json_read.h"
#include "rt_run.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATUS_failed = 1, STATUS_usage = 2 };

struct RtResume {
    char *folder; /* of the checkpoint */
    char *path;   /* of its host.json */
    json_t *host;
    RtSafetensors state;
    bool elsewhere; /* it belongs to another run's folder */
};

static _Noreturn void missing(MpcRun *r, const char *key)
{
    RtErr e;
    rt_err(&e, "'%s' is no valid checkpoint: '%s' is missing, or not what it should be",
           r->rt->resume->path, key);
    rt_hint(&e, "continue an earlier one: --resume DIR/checkpoints/step-N");
    rt_end_early(r, STATUS_failed, &e);
}

static int64_t need_int(MpcRun *r, const json_t *object, const char *key, int64_t least)
{
    int64_t v;
    if (!rt_json_get_int(object, key, &v) || v < least)
        missing(r, key);
    return v;
}

static double need_number(MpcRun *r, const json_t *object, const char *key)
{
    double v;
    if (!rt_json_get_number(object, key, &v))
        missing(r, key);
    return v;
}

static bool need_bool(MpcRun *r, const json_t *object, const char *key)
{
    bool v;
    if (!rt_json_get_bool(object, key, &v))
        missing(r, key);
    return v;
}

static const char *need_text(MpcRun *r, const json_t *object, const char *key)
{
    const char *text = rt_json_get_text(object, key);
    if (!text)
        missing(r, key);
    return text;
}

static const json_t *need_object(MpcRun *r, const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    if (!json_is_object(v))
        missing(r, key);
    return v;
}

/* ---- which checkpoint ---- */

/* `path` without its last `n` parts; NULL when it has fewer. */
static char *parent(const char *path, int n)
{
    char *text = rt_copy_text(path);
    for (; n; n--) {
        char *slash = strrchr(text, '/');
        if (!slash || slash == text) {
            free(text);
            return NULL;
        }
        *slash = 0;
    }
    return text;
}

/* The folder of the run that the checkpoint lies in; NULL: it lies somewhere else. */
static char *run_of(const char *checkpoint)
{
    char *absolute = realpath(checkpoint, NULL);
    char *folder = parent(checkpoint, 1), *run = parent(checkpoint, 2);
    if (!run && absolute) {
        free(folder);
        folder = parent(absolute, 1);
        run = parent(absolute, 2);
    }
    const char *name = folder ? strrchr(folder, '/') : NULL;
    if (run && (!name || strcmp(name, "/checkpoints") != 0)) {
        free(run);
        run = NULL;
    }
    free(absolute);
    free(folder);
    return run;
}

/* --resume PATH: a run's folder, a checkpoint, or a file in one. Sets *run (may be NULL) and *checkpoint (NULL:
 * the last one of the run). */
static bool read_path(const char *path, char **run, char **checkpoint, RtErr *e)
{
    char *text = rt_copy_text(path), *host;
    for (size_t n = strlen(text); n > 1 && text[n - 1] == '/'; n--)
        text[n - 1] = 0;
    if (rt_is_file(text)) {
        char *folder = parent(text, 1);
        free(text);
        text = folder ? folder : rt_copy_text(".");
    }
    host = rt_text("%s/host.json", text);
    if (rt_is_file(host)) {
        *checkpoint = text;
        *run = run_of(text);
    } else if (rt_is_folder(text)) {
        *checkpoint = NULL;
        *run = text;
    } else {
        rt_err(e, "--resume: there is no '%s'", path);
        rt_hint(e, "name the folder of a run, or a checkpoint in it: DIR/checkpoints/step-N");
        free(host);
        free(text);
        return false;
    }
    free(host);
    return true;
}

/* ---- a finished run ---- */

/* More epochs or updates than the run had are a reason to go on. */
static bool wants_more(const RtOptions *o, int64_t epochs, int64_t max_steps)
{
    bool given = o->epochs >= 0;
    for (int i = 0; i < o->program->n_options; i++)
        given |= !strcmp(o->program->options[i].name, "epochs") &&
                 !strcmp(o->values[i].from, "command line");
    return (given && epochs >= 0 && rt_options_epochs(o) > epochs) ||
           (max_steps >= 0 && o->max_steps > max_steps);
}

static char *finished_path(const char *run)
{
    return rt_text("%s/checkpoints/finished.json", run);
}

static void end_if_finished(MpcRun *r, const char *run)
{
    RtErr e;
    int64_t step = 0, epochs = -1, max_steps = -1;
    char *path = finished_path(run);
    json_t *mark = rt_is_file(path) ? rt_json_load(path, &e) : NULL;
    bool known = mark && rt_json_get_int(mark, "step", &step) &&
                 rt_json_get_int(mark, "epochs", &epochs) &&
                 rt_json_get_int(mark, "max_steps", &max_steps);
    json_decref(mark);
    free(path);
    if (!known || wants_more(&r->rt->options, epochs, max_steps))
        return;
    rt_unlock_folder(run, r->rt->lock);
    rt_warn(r, "the run in '%s' is finished (step %lld): there is nothing left to do", run,
            (long long)step);
    exit(0);
}

/* ---- does it fit? ---- */

static void compare_vars(MpcRun *r)
{
    static const char *const type[] = {"int", "float", "bool", "string"};
    const MpcProgram *p = r->program;
    const json_t *vars = need_object(r, r->rt->resume->host, "vars");
    char hash[20];
    RtErr e = {.text = ""};
    for (int i = 0; !e.text[0] && i < p->n_vars; i++) {
        const json_t *v = json_object_get(vars, p->vars[i].name);
        const char *there = rt_json_get_text(v, "type");
        if (!there)
            rt_err(&e, "it has no variable '%s'", p->vars[i].name);
        else if (strcmp(there, type[p->vars[i].type]) != 0)
            rt_err(&e, "the variable '%s' is %s there, %s here", p->vars[i].name, there,
                   type[p->vars[i].type]);
    }
    if (!e.text[0] && json_object_size(vars) != (size_t)p->n_vars)
        rt_err(&e, "it has other variables");
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)p->loop);
    if (!e.text[0] && strcmp(need_text(r, r->rt->resume->host, "loop"), hash) != 0)
        rt_err(&e, "the statements are others");
    if (!e.text[0])
        return;
    RtErr whole;
    rt_err(&whole, "'%s' is of a program with another training loop: %.900s", r->rt->resume->folder,
           e.text);
    rt_hint(&whole, "begin a run of its own from the weights: --init %.900s/state.safetensors",
            r->rt->resume->folder);
    rt_end_early(r, STATUS_failed, &whole);
}

static void note_differences(MpcRun *r)
{
    const MpcProgram *p = r->program;
    const json_t *host = r->rt->resume->host;
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)p->graphs);
    if (strcmp(need_text(r, host, "graphs"), hash) != 0)
        rt_warn(r, "the checkpoint is of a program that computes otherwise: the result is not that "
                   "of an unbroken run");
    else if (strcmp(need_text(r, host, "cpu"), p->cpu) != 0)
        rt_warn(r,
                "the checkpoint is of a program for --cpu=%s, this one is for --cpu=%s: results "
                "may differ within rounding",
                need_text(r, host, "cpu"), p->cpu);
}

/* ---- options ---- */

static bool is_free(const char *name)
{
    static const char *const names[] = {
        "epochs", "threads", "device",           "log",
        "out",    "data",    "checkpoint_every", "keep_checkpoints"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

static bool was_given(const char *from)
{
    return from && (!strcmp(from, "command line") || !strcmp(from, "checkpoint"));
}

static void differs(RtErr *e, const char *name, const char *here, const char *there)
{
    size_t used = strlen(e->text);
    snprintf(e->text + used, sizeof e->text - used, "%s--%s is %.60s, the run has %.60s",
             used ? "; " : "", name, here, there);
}

/* What the run was told and this command line leaves out stays as it was. */
static void take_options(MpcRun *r, RtErr *wrong)
{
    RtOptions *o = &r->rt->options;
    const json_t *stored = need_object(r, r->rt->resume->host, "options");
    char number[RT_NUMBER_CHARS];
    RtErr e;
    for (int i = 0; i < o->program->n_options; i++) {
        const char *name = o->program->options[i].name;
        const json_t *option = json_object_get(stored, name);
        const char *value = rt_json_get_text(option, "value");
        bool given = was_given(o->values[i].from);
        if (!value) {
            differs(wrong, name, rt_option_text(o, i, number), "no such option");
        } else if (!given && was_given(rt_json_get_text(option, "from"))) {
            if (!rt_option_set(o, i, rt_copy_text(value), "checkpoint", &e))
                rt_end_early(r, STATUS_usage, &e);
        } else if (!is_free(name) && strcmp(rt_option_text(o, i, number), value) != 0) {
            differs(wrong, name, rt_option_text(o, i, number), value);
        }
    }
}

static void take_flags(MpcRun *r, RtErr *wrong)
{
    RtOptions *o = &r->rt->options;
    const json_t *host = r->rt->resume->host;
    char here[RT_NUMBER_CHARS], there[RT_NUMBER_CHARS];
    int64_t seed = need_int(r, host, "seed", 0), epochs = need_int(r, host, "epochs", -1),
            max_steps = need_int(r, host, "max_steps", -1);
    const char *init = rt_json_get_text(host, "init");
    if (!was_given(o->seed_from) && was_given(need_text(r, host, "seed_from"))) {
        o->seed = (uint64_t)seed;
        o->seed_from = "checkpoint";
    }
    snprintf(here, sizeof here, "%llu", (unsigned long long)o->seed);
    snprintf(there, sizeof there, "%lld", (long long)seed);
    if (o->seed != (uint64_t)seed)
        differs(wrong, "seed", here, there);
    if (o->epochs < 0)
        o->epochs = epochs;
    if (o->max_steps < 0)
        o->max_steps = max_steps;
    if (o->init && (!init || strcmp(o->init, init) != 0))
        differs(wrong, "init", o->init, init ? init : "none");
    else if (init)
        o->init = rt_copy_text(init);
}

static void take_command_line(MpcRun *r)
{
    RtErr wrong = {.text = "", .hint = ""}, e;
    take_options(r, &wrong);
    take_flags(r, &wrong);
    if (!wrong.text[0])
        return;
    rt_err(&e, "--resume: %.1100s", wrong.text);
    rt_hint(&e, "a run keeps its options, but epochs, threads, device and log; leave these out, or "
                "begin another run with --out DIR");
    rt_end_early(r, STATUS_usage, &e);
}

/* ---- open ---- */

/* Going back to an earlier checkpoint: what lies behind it is made again. */
static bool remove_later(MpcRun *r, const char *run, const char *checkpoint, RtErr *e)
{
    RtFolders list;
    const char *slash = strrchr(checkpoint, '/'), *name = slash ? slash + 1 : checkpoint;
    bool ok = rt_checkpoint_list(run, &list, e), later = false;
    for (int i = 0; ok && i < list.n; i++) {
        if (later) {
            rt_warn(r, "removed the later checkpoint '%s/checkpoints/%s'", run, list.name[i]);
            ok = rt_checkpoint_remove(run, list.name[i], e);
        }
        later |= !strcmp(list.name[i], name);
    }
    rt_checkpoint_list_free(&list);
    char *mark = finished_path(run);
    if (ok && unlink(mark) != 0 && errno != ENOENT)
        ok = rt_err_errno(e, "cannot remove '%s'", mark);
    free(mark);
    return ok;
}

static void open_checkpoint(MpcRun *r, char *checkpoint)
{
    RtErr e;
    RtResume *resume = rt_alloc_zero(1, sizeof *resume);
    r->rt->resume = resume;
    resume->folder = checkpoint;
    resume->path = rt_text("%s/host.json", checkpoint);
    resume->host = rt_json_load(resume->path, &e);
    if (!resume->host)
        rt_end_early(r, STATUS_failed, &e);
    int64_t format = need_int(r, resume->host, "format", 1);
    if (format > RT_CHECKPOINT_FORMAT) {
        rt_err(&e, "'%s' has the format %lld, this program knows %d", checkpoint, (long long)format,
               RT_CHECKPOINT_FORMAT);
        rt_hint(&e, "it was written by a program of mpc %s; continue with that one",
                need_text(r, resume->host, "version"));
        rt_end_early(r, STATUS_failed, &e);
    }
    char *state = rt_text("%s/state.safetensors", checkpoint);
    if (!rt_safetensors_open(&resume->state, state, &e))
        rt_end_early(r, STATUS_failed, &e);
    if (!rt_tensors_compare(r->program, &resume->state, &e)) {
        rt_hint(&e,
                "continue it with the program that wrote it (%.300s), or begin another run with "
                "--out DIR",
                need_text(r, resume->host, "source"));
        rt_end_early(r, STATUS_failed, &e);
    }
    free(state);
    compare_vars(r);
    take_command_line(r);
    note_differences(r);
}

static char *last_checkpoint(MpcRun *r, const char *run)
{
    RtFolders list;
    RtErr e;
    if (!rt_checkpoint_list(run, &list, &e))
        rt_end_early(r, STATUS_failed, &e);
    char *path = list.n ? rt_text("%s/checkpoints/%s", run, list.name[list.n - 1]) : NULL;
    rt_checkpoint_list_free(&list);
    return path;
}

static bool is_same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return !strcmp(a, b) ||
           (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

/* Which run, and which of its checkpoints (NULL: there is none). The run's folder is locked, unless the
 * continued run gets one of its own. */
static char *choose(MpcRun *r)
{
    RtOptions *o = &r->rt->options;
    RtErr e;
    char *run = NULL, *checkpoint = NULL;
    if (o->resume_path && !read_path(o->resume_path, &run, &checkpoint, &e))
        rt_end_early(r, STATUS_usage, &e);
    if (!run && !checkpoint)
        run = rt_out_name(o, true);
    bool elsewhere = o->out && (!run || !is_same_folder(o->out, run));
    if (!elsewhere && !run) {
        rt_err(&e, "--resume: '%s' lies in no folder of a run", checkpoint);
        rt_hint(&e, "name the folder that the run shall go on in with --out DIR");
        rt_end_early(r, STATUS_usage, &e);
    }
    if (elsewhere) {
        return checkpoint ? checkpoint : last_checkpoint(r, run);
    }
    if (!rt_is_folder(run))
        return NULL;
    o->out = run;
    r->rt->lock = rt_lock_folder(run, &e);
    if (r->rt->lock < 0)
        rt_end_early(r, STATUS_failed, &e);
    if (!checkpoint) {
        end_if_finished(r, run);
        checkpoint = last_checkpoint(r, run);
    }
    if (!rt_checkpoint_tidy(run, &e))
        rt_end_early(r, STATUS_failed, &e);
    return checkpoint;
}

void rt_resume_open(MpcRun *r)
{
    RtErr e;
    char *checkpoint = choose(r);
    const char *out = r->rt->options.out;
    if (!checkpoint) {
        char *name = rt_out_name(&r->rt->options, true);
        rt_warn(r, "there is no checkpoint in '%s': the run begins at the beginning", name);
        free(name);
        return;
    }
    open_checkpoint(r, checkpoint);
    r->rt->resume->elsewhere = r->rt->lock < 0;
    if (!r->rt->resume->elsewhere && !remove_later(r, out, checkpoint, &e))
        rt_end_early(r, STATUS_failed, &e);
    rt_warn(r, "continues '%s'", checkpoint);
}

/* ---- put back ---- */

void rt_resume_tensors(MpcRun *r)
{
    RtErr e;
    if (!rt_tensors_load_all(r, &r->rt->resume->state, &e))
        rt_end_early(r, STATUS_failed, &e);
    rt_safetensors_close(&r->rt->resume->state);
}

static void set_vars(MpcRun *r)
{
    const json_t *vars = need_object(r, r->rt->resume->host, "vars");
    for (int i = 0; i < r->program->n_vars; i++) {
        const MpcVar *v = &r->program->vars[i];
        const json_t *value = json_object_get(vars, v->name);
        void *at = (unsigned char *)r->host + v->offset;
        switch (v->type) {
        case MPC_OPTION_int: *(int64_t *)at = need_int(r, value, "value", INT64_MIN); break;
        case MPC_OPTION_float: *(double *)at = need_number(r, value, "value"); break;
        case MPC_OPTION_bool: *(bool *)at = need_bool(r, value, "value"); break;
        case MPC_OPTION_string:
            /* not set yet: null */
            *(const char **)at = json_is_null(json_object_get(value, "value"))
                                     ? NULL
                                     : rt_copy_text(need_text(r, value, "value"));
            break;
        }
    }
}

static bool number_of(MpcRun *r, const json_t *object, const char *key, double *v)
{
    bool has = !json_is_null(json_object_get(object, key));
    *v = has ? need_number(r, object, key) : 0;
    return has;
}

static void set_last(MpcRun *r)
{
    MpcRuntime *rt = r->rt;
    const json_t *last = need_object(r, rt->resume->host, "last");
    MpcStep *s = &rt->last;
    s->has_loss = number_of(r, last, "loss", &s->loss);
    s->has_lr = number_of(r, last, "lr", &s->lr);
    s->has_grad_norm = number_of(r, last, "grad_norm", &s->grad_norm);
    s->has_scale = number_of(r, last, "scale", &s->scale);
    s->skipped = need_bool(r, last, "skipped");
    rt->skips_in_row = (int)need_int(r, last, "skips_in_row", 0);
    need_object(r, last, "own");
    json_t *own = json_object_get(last, "own");
    s->own = rt->own;
    for (void *at = json_object_iter(own); at; at = json_object_iter_next(own, at)) {
        const char *name = json_object_iter_key(at);
        double value = need_number(r, own, name);
        if (s->n_own < RT_STEP_VALUES)
            rt->own[s->n_own++] = (MpcValue){rt_copy_text(name), value};
    }
    const json_t *done = need_object(r, rt->resume->host, "progress");
    RtProgress *p = &rt->progress;
    p->batches_done = need_int(r, done, "batches", 0);
    p->samples = rt->log_samples = need_int(r, done, "samples", 0);
    p->passes_done = need_int(r, done, "passes", 0);
    p->evaluations = need_int(r, done, "evaluations", 0);
    p->training.total = rt->log_training = need_number(r, done, "training_s");
    p->evaluating = need_number(r, done, "evaluating_s");
    p->training_before = p->training.total;
    p->evaluating_before = p->evaluating;
    p->batches_before = p->batches_done;
    /* only estimates: a checkpoint of an older version lacks them */
    rt_json_get_number(done, "elapsed_s", &rt->elapsed_before);
    rt_json_get_int(done, "inside", &p->inside.n);
    rt_json_get_int(done, "inside_at", &p->inside.at);
    rt_json_get_int(done, "behind", &p->behind.n);
    rt_json_get_int(done, "behind_at", &p->behind.at);
    p->inside = p->inside.at > 0 ? p->inside : (RtOften){0, 0};
    p->behind = p->behind.at > 0 ? p->behind : (RtOften){0, 0};
}

static void compare_data(MpcRun *r)
{
    const json_t *data = need_object(r, r->rt->resume->host, "data");
    RtErr e;
    for (int i = 0; i < r->program->n_sets; i++) {
        const char *name = r->program->sets[i].name;
        int64_t there = need_int(r, data, name, 0), here = r->rt->sets[i].count;
        if (here == there)
            continue;
        rt_err(&e, "the data are not those of the run: %s had %lld samples, now it has %lld", name,
               (long long)there, (long long)here);
        rt_hint(&e, "--data DIR says where the run's data lie; with others begin another run");
        rt_end_early(r, STATUS_failed, &e);
    }
}

/* What save() wrote goes with a run that continues in another folder: load() may ask for it. */
static void copy_saved(MpcRun *r)
{
    char *run = run_of(r->rt->resume->folder);
    DIR *folder = run ? opendir(run) : NULL;
    const struct dirent *entry;
    RtErr e;
    while (folder && (entry = readdir(folder)) != NULL) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".safetensors") != 0 || entry->d_name[0] == '.')
            continue;
        char *from = rt_text("%s/%s", run, entry->d_name);
        char *to = rt_text("%s/%s", r->rt->out_dir, entry->d_name);
        if (!rt_copy_file(from, to, &e))
            rt_end_early(r, STATUS_failed, &e);
        free(from);
        free(to);
    }
    if (folder)
        closedir(folder);
    free(run);
}

void rt_resume_state(MpcRun *r)
{
    if (!r->rt->resume)
        return;
    const json_t *host = r->rt->resume->host;
    compare_data(r);
    if (r->rt->resume->elsewhere)
        copy_saved(r);
    r->step = need_int(r, host, "step", 0);
    r->skips = need_int(r, host, "skips", 0);
    r->epoch = need_int(r, host, "epoch", 0);
    r->place = (int)need_int(r, host, "place", 1);
    set_vars(r);
    set_last(r);
    r->rt->saves.step = r->step;
    r->rt->saves.any = !r->rt->resume->elsewhere;
}

void rt_resume_loader(MpcRun *r, int loader)
{
    MpcLoader *l = r->rt->loaders[loader];
    RtErr e;
    if (!r->rt->resume)
        return;
    const char *name = r->program->loaders[loader].name;
    const json_t *host = r->rt->resume->host;
    const json_t *stored = need_object(r, need_object(r, host, "loaders"), name);
    RtCursor c = {.batch_size = need_int(r, stored, "batch_size", 1),
                  .pass = need_int(r, stored, "pass", -1),
                  .taken = need_int(r, stored, "taken", 0),
                  .in_pass = need_bool(r, stored, "in_pass"),
                  .place = (int)need_int(r, stored, "place", 0)};
    if (c.batch_size != rt_loader_cursor(l).batch_size) {
        rt_err(&e, "%s: the run has batches of %lld, not %lld", name, (long long)c.batch_size,
               (long long)rt_loader_cursor(l).batch_size);
        rt_end_early(r, STATUS_failed, &e);
    }
    /* A loop around the one that is entered has a batch in hands: it gets that one again. */
    if (c.in_pass && c.place != need_int(r, host, "place", 1) && c.taken > 0) {
        c.taken--;
        r->rt->progress.batches_done--;
    }
    rt_loader_seek(l, &c);
}

int64_t rt_resume_log_bytes(const MpcRun *r)
{
    int64_t bytes;
    const RtResume *resume = r->rt->resume;
    return resume && !resume->elsewhere && rt_json_get_int(resume->host, "log_bytes", &bytes) &&
                   bytes >= 0
               ? bytes
               : -1;
}

const char *rt_resume_folder(const MpcRun *r)
{
    return r->rt->resume->folder;
}
