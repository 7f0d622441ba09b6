/* rt_checkpoint.c: when a checkpoint is written, and what stands in it. A checkpoint is a folder
 * checkpoints/step-N of the run's: state.safetensors, every tensor that outlives a step in its own type, and
 * host.json, everything else that the run is made of. It is written under another name, synced, and renamed
 * when it is complete, so that it appears whole or not at all, and the one before it stays until then.
 *
 * Continuing from one: rt_resume.c. How the loop of the file is entered again: MpcRun.place.
 */
#include "rt_run.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The share of a run that checkpoints at the ends of short epochs may take. */
static const double most_share = 0.1;

/* ---- names ---- */

/* step-120, or step-120.2 where there was a checkpoint of step 120 already: two batches may lie between two
 * updates. */
static bool read_name(const char *name, int64_t *step, int64_t *again)
{
    const char *dot = strchr(name, '.');
    *again = 1;
    return !strncmp(name, "step-", 5) &&
           rt_parse_int(name + 5, dot ? (size_t)(dot - name) - 5 : strlen(name + 5), step) &&
           (!dot || rt_parse_int(dot + 1, strlen(dot + 1), again));
}

static int by_step(const void *a, const void *b)
{
    int64_t x[2], y[2];
    read_name(*(char *const *)a, &x[0], &x[1]);
    read_name(*(char *const *)b, &y[0], &y[1]);
    return x[0] != y[0] ? (x[0] > y[0] ? 1 : -1) : (x[1] > y[1]) - (x[1] < y[1]);
}

static char *folder_in(const char *run)
{
    return rt_text("%s/checkpoints", run);
}

/* Names in the folder `run`/checkpoints that `wanted` likes; no folder has none. */
static bool list_names(const char *run, bool (*wanted)(const char *), RtFolders *list, RtErr *e)
{
    char *root = folder_in(run);
    DIR *folder = opendir(root);
    const struct dirent *entry;
    int error = folder || errno == ENOENT ? 0 : errno;
    *list = (RtFolders){.n = 0};
    while (folder && (errno = 0, entry = readdir(folder)) != NULL) {
        if (!wanted(entry->d_name))
            continue;
        list->name = rt_grow(list->name, (size_t)(list->n + 1) * sizeof *list->name);
        list->name[list->n++] = rt_copy_text(entry->d_name);
    }
    error = folder && errno ? errno : error;
    if (folder)
        closedir(folder);
    errno = error;
    bool ok = !error || rt_err_errno(e, "cannot read the folder '%s'", root);
    free(root);
    return ok;
}

void rt_checkpoint_list_free(RtFolders *list)
{
    for (int i = 0; i < list->n; i++)
        free(list->name[i]);
    free(list->name);
    *list = (RtFolders){.n = 0};
}

static bool is_checkpoint(const char *name)
{
    int64_t step, again;
    return read_name(name, &step, &again);
}

static bool is_leftover(const char *name)
{
    return !strncmp(name, ".step-", 6);
}

bool rt_checkpoint_list(const char *folder, RtFolders *list, RtErr *e)
{
    bool ok = list_names(folder, is_checkpoint, list, e);
    if (list->n)
        qsort(list->name, (size_t)list->n, sizeof *list->name, by_step);
    return ok;
}

bool rt_checkpoint_tidy(const char *folder, RtErr *e)
{
    RtFolders list;
    bool ok = list_names(folder, is_leftover, &list, e);
    for (int i = 0; ok && i < list.n; i++) {
        char *path = rt_text("%s/checkpoints/%s", folder, list.name[i]);
        ok = rt_remove_folder(path, e);
        free(path);
    }
    rt_checkpoint_list_free(&list);
    return ok;
}

/* Renamed first: a folder of which half is gone must not look like a checkpoint. */
bool rt_checkpoint_remove(const char *folder, const char *name, RtErr *e)
{
    char *path = rt_text("%s/checkpoints/%s", folder, name);
    char *aside = rt_text("%s/checkpoints/.%s.old", folder, name);
    bool ok = rename(path, aside) == 0 || rt_err_errno(e, "cannot remove '%s'", path);
    ok = ok && rt_remove_folder(aside, e);
    free(path);
    free(aside);
    return ok;
}

static bool remove_but(const char *folder, int kept, RtErr *e)
{
    RtFolders list;
    bool ok = rt_checkpoint_list(folder, &list, e);
    for (int i = 0; ok && i < list.n - kept; i++)
        ok = rt_checkpoint_remove(folder, list.name[i], e);
    rt_checkpoint_list_free(&list);
    return ok;
}

/* ---- host.json ---- */

static void put_loaders(MpcRun *r, RtJson *j, const MpcLoader *left)
{
    rt_json_open(j, "loaders");
    for (int i = 0; i < r->program->n_loaders; i++) {
        const MpcLoader *l = r->rt->loaders[i];
        if (!l)
            continue;
        RtCursor c = rt_loader_cursor(l);
        rt_json_open(j, r->program->loaders[i].name);
        rt_json_int(j, "batch_size", c.batch_size);
        rt_json_int(j, "batches", mpc_len(l));
        rt_json_int(j, "pass", c.pass);
        rt_json_int(j, "taken", l == left ? mpc_len(l) : c.taken);
        rt_json_bool(j, "in_pass", c.in_pass);
        rt_json_int(j, "place", c.in_pass ? c.place : 0);
        rt_json_close(j);
    }
    rt_json_close(j);
    rt_json_open(j, "data");
    for (int i = 0; i < r->program->n_sets; i++)
        rt_json_int(j, r->program->sets[i].name, r->rt->sets[i].count);
    rt_json_close(j);
}

static void put_vars(MpcRun *r, RtJson *j)
{
    static const char *const type[] = {"int", "float", "bool", "string"};
    rt_json_open(j, "vars");
    for (int i = 0; i < r->program->n_vars; i++) {
        const MpcVar *v = &r->program->vars[i];
        const unsigned char *at = (const unsigned char *)r->host + v->offset;
        rt_json_open(j, v->name);
        rt_json_text(j, "type", type[v->type]);
        switch (v->type) {
        case MPC_OPTION_int: rt_json_int(j, "value", *(const int64_t *)(const void *)at); break;
        case MPC_OPTION_float: rt_json_number(j, "value", *(const double *)(const void *)at); break;
        case MPC_OPTION_bool: rt_json_bool(j, "value", *(const bool *)(const void *)at); break;
        case MPC_OPTION_string:
            rt_json_text(j, "value", *(const char *const *)(const void *)at);
            break;
        }
        rt_json_close(j);
    }
    rt_json_close(j);
}

/* Values as text, as they would stand on the command line. */
static void put_options(const RtOptions *o, RtJson *j)
{
    char number[RT_NUMBER_CHARS];
    rt_json_open(j, "options");
    for (int i = 0; i < o->program->n_options; i++) {
        rt_json_open(j, o->program->options[i].name);
        rt_json_text(j, "value", rt_option_text(o, i, number));
        rt_json_text(j, "from", o->values[i].from);
        rt_json_close(j);
    }
    rt_json_close(j);
    rt_json_int(j, "seed", (int64_t)o->seed);
    rt_json_text(j, "seed_from", o->seed_from);
    rt_json_int(j, "epochs", o->epochs);
    rt_json_int(j, "max_steps", o->max_steps);
    rt_json_text(j, "init", o->init);
}

/* What log records are made of. */
static void put_last(const MpcRuntime *rt, RtJson *j)
{
    const MpcStep *s = &rt->last;
    const struct {
        const char *name;
        bool has;
        double value;
    } number[] = {{"loss", s->has_loss, s->loss},
                  {"lr", s->has_lr, s->lr},
                  {"grad_norm", s->has_grad_norm, s->grad_norm},
                  {"scale", s->has_scale, s->scale}};
    rt_json_open(j, "last");
    for (int i = 0; i < 4; i++)
        if (number[i].has)
            rt_json_number(j, number[i].name, number[i].value);
        else
            rt_json_null(j, number[i].name);
    rt_json_bool(j, "skipped", s->skipped);
    rt_json_int(j, "skips_in_row", rt->skips_in_row);
    rt_json_open(j, "own");
    for (int i = 0; i < s->n_own; i++)
        rt_json_number(j, s->own[i].name, s->own[i].value);
    rt_json_close(j);
    rt_json_close(j);
    const RtProgress *p = &rt->progress;
    rt_json_open(j, "progress");
    rt_json_int(j, "batches", p->batches_done);
    rt_json_int(j, "samples", p->samples);
    rt_json_int(j, "passes", p->passes_done);
    rt_json_int(j, "evaluations", p->evaluations);
    rt_json_int(j, "inside", p->inside.n);
    rt_json_int(j, "inside_at", p->inside.at);
    rt_json_int(j, "behind", p->behind.n);
    rt_json_int(j, "behind_at", p->behind.at);
    rt_json_number(j, "training_s", rt_clock_read(&p->training));
    rt_json_number(j, "evaluating_s", p->evaluating);
    rt_json_number(j, "elapsed_s", rt->elapsed_before + rt_seconds() - rt->started);
    rt_json_close(j);
}

static void put_host(MpcRun *r, RtJson *j, const MpcLoader *l, bool left)
{
    const MpcProgram *p = r->program;
    char hash[20];
    rt_json_start(j);
    rt_json_open(j, NULL);
    rt_json_int(j, "format", RT_CHECKPOINT_FORMAT);
    rt_json_text(j, "program", p->name);
    rt_json_text(j, "source", p->source);
    rt_json_text(j, "version", p->version);
    rt_json_text(j, "precision", p->precision_key);
    rt_json_text(j, "cpu", p->cpu);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)p->graphs);
    rt_json_text(j, "graphs", hash);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)p->loop);
    rt_json_text(j, "loop", hash);
    rt_json_int(j, "step", r->step);
    rt_json_int(j, "skips", r->skips);
    rt_json_int(j, "epoch", r->epoch);
    rt_json_int(j, "place", rt_loader_cursor(l).place);
    put_loaders(r, j, left ? l : NULL);
    put_vars(r, j);
    put_options(&r->rt->options, j);
    put_last(r->rt, j);
    rt_json_int(j, "log_bytes", r->rt->log_bytes);
    rt_json_close(j);
}

/* ---- writing ---- */

static bool write_json(const char *path, RtJson *j, RtErr *e)
{
    RtWriter w;
    j->text[j->length] = '\n'; /* the end's 0 is not needed in a file */
    if (!rt_writer_open(&w, path, e))
        return false;
    if (rt_writer_put(&w, j->text, j->length + 1, e))
        return rt_writer_commit(&w, e);
    rt_writer_abort(&w);
    return false;
}

static bool make_root(const char *run, const char *root, RtErr *e)
{
    if (rt_is_folder(root))
        return true;
    return (mkdir(root, 0777) == 0 || rt_err_errno(e, "cannot create the folder '%s'", root)) &&
           rt_sync_folder(run, e);
}

static char *new_name(const MpcRun *r, const RtFolders *there)
{
    int64_t step, again, most = 0;
    for (int i = 0; i < there->n; i++)
        if (read_name(there->name[i], &step, &again) && step == r->step && again > most)
            most = again;
    return most ? rt_text("step-%lld.%lld", (long long)r->step, (long long)most + 1)
                : rt_text("step-%lld", (long long)r->step);
}

/* state.safetensors and host.json; their writers sync them. */
static bool fill_folder(MpcRun *r, const char *folder, const MpcLoader *l, bool left, RtErr *e)
{
    RtJson *j = &r->rt->line;
    char *state = rt_text("%s/state.safetensors", folder), *host = rt_text("%s/host.json", folder);
    put_host(r, j, l, left);
    bool ok = rt_tensors_save_all(r, state, e) && write_json(host, j, e);
    free(state);
    free(host);
    return ok;
}

/* What the log holds so far is what the checkpoint says that it holds. */
static bool sync_log(const MpcRuntime *rt, RtErr *e)
{
    return rt->log_fd < 0 || fsync(rt->log_fd) == 0 || errno == EINVAL || errno == EROFS ||
           rt_err_errno(e, "cannot write '%s/log.jsonl'", rt->out_dir);
}

static bool write_checkpoint(MpcRun *r, const MpcLoader *l, bool left, RtErr *e)
{
    const char *run = r->rt->out_dir;
    char *root = folder_in(run);
    RtFolders there = {.n = 0};
    bool ok = make_root(run, root, e) && rt_checkpoint_tidy(run, e) &&
              rt_checkpoint_list(run, &there, e) && sync_log(r->rt, e);
    char *name = new_name(r, &there);
    char *path = rt_text("%s/%s", root, name), *aside = rt_text("%s/.%s.new", root, name);
    if (ok && mkdir(aside, 0777) != 0)
        ok = rt_err_errno(e, "cannot create the folder '%s'", aside);
    if (ok) {
        RtErr ignored;
        ok = fill_folder(r, aside, l, left, e) &&
             (rename(aside, path) == 0 || rt_err_errno(e, "cannot write '%s'", path));
        if (!ok)
            rt_remove_folder(aside, &ignored);
        ok = ok && rt_sync_folder(root, e);
    }
    if (!ok && !e->hint[0]) {
        if (there.n)
            rt_hint(e, "mend that, then --resume continues the last checkpoint, '%s/%s'", root,
                    there.name[there.n - 1]);
        else
            rt_hint(e, "mend that, or name another folder with --out DIR");
    }
    rt_checkpoint_list_free(&there);
    free(root);
    free(name);
    free(path);
    free(aside);
    return ok;
}

static void make_checkpoint(MpcRun *r, const MpcLoader *l, bool left)
{
    RtSaves *s = &r->rt->saves;
    RtErr e = {.hint = ""};
    double start = rt_seconds();
    if (!write_checkpoint(r, l, left, &e))
        rt_fail_with(r, &e);
    if (!remove_but(r->rt->out_dir, (int)r->rt->options.keep_checkpoints, &e))
        rt_warn(r, "an old checkpoint stays: %s", e.text);
    rt_profile_span(r->rt->profile, RT_SPAN_checkpoint, start);
    double now = rt_seconds();
    *s = (RtSaves){.at = now, .took = now - start, .step = r->step, .any = true};
}

/* ---- when ---- */

/* The end of each epoch; but of epochs that take less than ten times as long as a checkpoint, only some. */
static bool wanted_at_end(const MpcRun *r)
{
    const RtSaves *s = &r->rt->saves;
    if (r->rt->options.checkpoint_never)
        return false;
    bool last = r->rt->progress.epochs >= 0 && r->epoch + 1 >= r->rt->progress.epochs;
    return last || r->rt->options.checkpoint_steps ||
           s->took <= most_share * (rt_seconds() - s->at);
}

static bool is_due(const MpcRun *r)
{
    const RtOptions *o = &r->rt->options;
    const RtSaves *s = &r->rt->saves;
    if (o->checkpoint_never)
        return false;
    return o->checkpoint_steps ? r->step - s->step >= o->checkpoint_steps
                               : rt_seconds() - s->at >= o->checkpoint_seconds;
}

void rt_between_batches(MpcRun *r, MpcLoader *l, bool left)
{
    MpcRuntime *rt = r->rt;
    if (!r->training || !rt->out_dir)
        return;
    if (!rt_loader_decl(l)->training) {
        /* Outside of a pass nothing would be gained: the checkpoint of its end leads to here. */
        if (rt_signal() && !rt->open_passes)
            rt_interrupted(r);
        return;
    }
    RtCursor c = rt_loader_cursor(l);
    if (!c.place)
        return;
    bool ends = left || c.taken >= mpc_len(l);
    bool again = rt->saves.any && !rt->saves.batches; /* of what the last one holds */
    if (!again && (rt_signal() || (rt->steps_done && !rt->options.checkpoint_never) ||
                   (ends && wanted_at_end(r)) || (!ends && is_due(r))))
        make_checkpoint(r, l, left);
    if (rt_signal())
        rt_interrupted(r);
}

/* ---- ends ---- */

bool rt_checkpoint_finished(MpcRun *r, RtErr *e)
{
    RtJson *j = &r->rt->line;
    char *root = folder_in(r->rt->out_dir), *path = rt_text("%s/finished.json", root);
    rt_json_start(j);
    rt_json_open(j, NULL);
    rt_json_int(j, "format", RT_CHECKPOINT_FORMAT);
    rt_json_int(j, "step", r->step);
    rt_json_int(j, "epochs", rt_options_epochs(&r->rt->options));
    rt_json_int(j, "max_steps", r->rt->options.max_steps);
    rt_json_close(j);
    bool ok = make_root(r->rt->out_dir, root, e) && write_json(path, j, e);
    free(path);
    free(root);
    return ok;
}

bool rt_checkpoint_fresh(const char *out, RtErr *e)
{
    RtFolders list;
    char *finished = rt_text("%s/checkpoints/finished.json", out);
    bool ok = rt_checkpoint_list(out, &list, e);
    if (ok && list.n && !rt_is_file(finished)) {
        ok = rt_err(e, "'%s' holds a run that is not finished: its last checkpoint is %s", out,
                    list.name[list.n - 1]);
        rt_hint(e,
                "--resume continues it; to begin anew remove '%s/checkpoints', or name another "
                "folder with --out DIR",
                out);
    }
    rt_checkpoint_list_free(&list);
    free(finished);
    return ok;
}

/* The mark goes last: what is left when this is cut short must not look like a run to be continued. */
bool rt_checkpoint_clear(const char *out, RtErr *e)
{
    char *finished = rt_text("%s/checkpoints/finished.json", out);
    bool ok = rt_checkpoint_tidy(out, e) && remove_but(out, 0, e);
    if (ok && unlink(finished) != 0 && errno != ENOENT && errno != ENOTDIR)
        ok = rt_err_errno(e, "cannot remove '%s'", finished);
    free(finished);
    return ok;
}
