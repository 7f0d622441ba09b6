/* rt_predict.c: --predict: asks the model about the samples of a file or folder. They are read as the data
 * declaration of the evaluation reads its own, or from JSON lines; of its fields only those must be there that the
 * answer follows from. What is printed of an answer is rt_answer.c's. --export: the weights as a file of their
 * own. */
#include "abi/scalar.h"
#include "rt_answer.h"
#include "rt_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE = 1 << 16, TEXT_MOST = 1 << 30 };

/* ---- the file ---- */

/* The standard input as a file that can be opened by name. */
static const char *spooled(char name[64], RtErr *e)
{
    static char piece[PIECE];
    int fd = memfd_create("standard input", MFD_CLOEXEC);
    ssize_t n;
    bool ok = fd >= 0;
    while (ok && (n = read(STDIN_FILENO, piece, sizeof piece)) != 0)
        ok = n > 0 ? rt_write_all(fd, piece, (size_t)n) : errno == EINTR;
    if (!ok) {
        rt_err_errno(e, "--predict: cannot read the standard input");
        return NULL;
    }
    snprintf(name, 64, "/proc/self/fd/%d", fd);
    return name;
}

/* Its name in messages. */
static void name_input(char *text, size_t size, const char *path)
{
    const char *at = strstr(text, path);
    if (at) {
        char *whole =
            rt_text("%.*sthe standard input%s", (int)(at - text), text, at + strlen(path));
        snprintf(text, size, "%s", whole);
        free(whole);
    }
}

/* Only the fields that are needed, and their files: a declaration of its own, which the readers can be given. */
static void keep_needed(MpcData *d, const bool *needs)
{
    MpcField *fields = rt_alloc_zero((size_t)d->n_fields, sizeof *fields);
    const char **paths = rt_alloc_zero((size_t)d->n_paths, sizeof *paths);
    bool each = d->kind == MPC_DATA_idx; /* a file for each field */
    int n = 0;
    for (int i = 0; i < d->n_paths; i++)
        paths[i] = d->paths[i];
    for (int i = 0; i < d->n_fields; i++)
        if (needs[i]) {
            paths[each ? n : 0] = d->paths[each ? i : 0];
            fields[n++] = d->fields[i];
        }
    d->fields = fields;
    d->n_fields = n;
    d->paths = paths;
    d->n_paths = each ? n : d->n_paths;
}

/* A folder holds the files that the declaration names, as they are written there or under their bare names; what
 * lies elsewhere is not meant. */
static bool find_in_folder(MpcData *d, const char *folder, RtErr *e)
{
    const char **found = rt_alloc_zero((size_t)d->n_paths, sizeof *found);
    for (int i = 0; i < d->n_paths; i++) {
        const char *slash = strrchr(d->paths[i], '/');
        char *path = rt_text("%s/%s", folder, d->paths[i]);
        if (slash && access(path, F_OK) != 0) {
            free(path);
            path = rt_text("%s/%s", folder, slash + 1);
        }
        if (access(path, F_OK) != 0) {
            rt_err(e, "--predict: the folder '%s' has no file '%s'", folder,
                   slash ? slash + 1 : d->paths[i]);
            rt_hint(e, "a folder must hold the files that the declaration of %s names", d->name);
            free(path);
            return false;
        }
        found[i] = path;
    }
    d->paths = found;
    return true;
}

/* The rows of the file as a table of the declaration `full`, zero where a field need not be there. */
static bool widen(RtTable *table, const RtTable *read, const MpcData *full, const bool *needs)
{
    *table = (RtTable){.decl = full, .rows = read->rows, .files = read->files, .line = read->line};
    table->column = rt_alloc_zero((size_t)full->n_fields, sizeof *table->column);
    table->stride = rt_alloc_zero((size_t)full->n_fields, sizeof *table->stride);
    for (int i = 0, k = 0; i < full->n_fields; i++) {
        table->stride[i] = rt_field_bytes(&full->fields[i]);
        table->column[i] =
            needs[i] ? read->column[k++] : rt_alloc_zero((size_t)read->rows, table->stride[i]);
    }
    return true;
}

static bool says_jsonl(const char *path)
{
    size_t n = strlen(path);
    return n > 6 && !strcmp(path + n - 6, ".jsonl");
}

static bool read_samples(MpcRun *r, RtTable *table, RtErr *e)
{
    const MpcPredict *p = r->program->predict;
    const MpcData *full = rt_set_data(r->program, r->program->loaders[p->loader].set);
    const char *path = r->rt->options.predict;
    char name[64];
    if (!strcmp(path, "-") && !(path = spooled(name, e)))
        return false;
    RtPlaces here = {NULL, NULL};
    RtTable *read = rt_alloc_zero(1, sizeof *read);
    MpcData *narrow = rt_alloc(sizeof *narrow);
    *narrow = *full;
    bool folder = rt_is_folder(path);
    if (!folder &&
        (says_jsonl(r->rt->options.predict) || (full->kind != MPC_DATA_bin && rt_is_jsonl(path))))
        narrow->kind = MPC_DATA_jsonl;
    bool *needs = rt_alloc((size_t)full->n_fields * sizeof *needs);
    /* A record without one of its fields would be another record. */
    for (int i = 0; i < full->n_fields; i++)
        needs[i] = p->needs[i] || narrow->kind == MPC_DATA_bin;
    keep_needed(narrow, needs);
    if (folder) {
        if (!find_in_folder(narrow, path, e))
            return false;
    } else if (narrow->kind == MPC_DATA_idx && narrow->n_fields != 1) {
        rt_err(e, "--predict: a sample of %s has %d fields in files of their own", full->name,
               narrow->n_fields);
        rt_hint(e, "name a folder that holds them, or a file of JSON lines");
        return false;
    } else {
        narrow->paths = &path;
        narrow->n_paths = 1;
    }
    if (rt_table_load(read, narrow, &here, e))
        return widen(table, read, full, needs);
    if (path == name)
        name_input(e->text, sizeof e->text, path);
    return false;
}

/* ---- answers ---- */

static double number_at(const MpcPredict *p, const unsigned char *at, int64_t i)
{
    switch (p->dtype) {
    case MPC_DT_f64: return ((const double *)(const void *)at)[i];
    case MPC_DT_f16: return (double)mpc_f16_to_f32(((const mpc_f16 *)(const void *)at)[i]);
    case MPC_DT_bf16: return (double)mpc_bf16_to_f32(((const mpc_bf16 *)(const void *)at)[i]);
    default: return (double)((const float *)(const void *)at)[i];
    }
}

static bool print_batch(MpcRun *r, RtAnswers *out, double *v, const MpcBatch *batch, RtErr *e)
{
    const MpcPredict *p = r->program->predict;
    const unsigned char *answer = r->mirror + p->offset;
    for (int64_t i = 0; i < batch->n; i++) {
        for (int64_t k = 0; k < out->each; k++)
            v[k] = number_at(p, answer, i * out->each + k);
        if (!rt_answers_put(out, v, e))
            return false;
    }
    return true;
}

void rt_predict_data(MpcRun *r, RtTable *table)
{
    const MpcPredict *p = r->program->predict;
    RtErr e = {.hint = ""};
    if (!p) {
        rt_err(&e, "--predict: %s has no model to ask", r->program->source);
        rt_hint(&e, "it takes the model from an evaluation that measures a loss or the accuracy");
        rt_die(r->program, 2, &e);
    }
    if (!read_samples(r, table, &e))
        rt_end_early(r, 1, &e);
    RtSet all = {.table = table, .count = table->rows};
    int set = r->program->loaders[p->loader].set;
    for (int i = 0; i < r->program->n_label_checks; i++) {
        const MpcLabelCheck *check = &r->program->label_checks[i];
        if (check->set == set && p->needs[check->field] && !rt_check_labels(&all, check, &e))
            rt_end_early(r, 1, &e);
    }
}

int rt_predict(MpcRun *r, const RtTable *table)
{
    const MpcPredict *p = r->program->predict;
    MpcLoaderDecl decl = r->program->loaders[p->loader];
    RtSet all = {.table = table, .count = table->rows};
    RtErr e = {.hint = ""};
    MpcBatch batch;
    RtAnswers out;
    decl.shuffle = decl.drop_last = decl.training = false;
    decl.sampler = MPC_SAMPLER_none;
    if (!rt_answers_open(&out, r->program, &r->rt->options, &e))
        rt_end_early(r, 1, &e);
    double *v = rt_alloc((size_t)out.each * sizeof *v);
    bool ok = true;
    if (table->rows) {
        MpcLoader *l =
            rt_loader_new(&decl, &all, decl.batch_max, r->seed,
                          r->rt->prefetch ? RT_PREFETCH_auto : RT_PREFETCH_never,
                          r->mirror + rt_memory_of_loader(&r->rt->memory, r->program, p->loader),
                          NULL, r->rt->device, &e);
        if (!l)
            rt_end_early(r, 1, &e);
        mpc_loader_begin(l, 0);
        while (ok && !rt_signal() && mpc_loader_next(l, &batch)) {
            p->run(r, &batch);
            rt_device_read(r->rt->device, p->offset,
                           (size_t)(batch.n * out.each) * rt_dtype_bytes(p->dtype));
            ok = print_batch(r, &out, v, &batch, &e);
        }
        mpc_loader_end(l);
        rt_loader_free(l);
    }
    free(v);
    ok = rt_answers_close(&out, ok && !rt_signal(), &e) && ok;
    if (!ok)
        rt_end_early(r, 1, &e);
    if (out.to_file && !rt_signal())
        fprintf(stderr, "%s: wrote %s\n", r->program->name, r->rt->options.output);
    return rt_signal() ? 128 + rt_signal() : 0;
}

int rt_export(MpcRun *r)
{
    const char *path = r->rt->options.export_path;
    RtErr e = {.hint = ""};
    if (!rt_tensors_save(r, path, &e))
        rt_end_early(r, 1, &e);
    fprintf(stderr, "%s: wrote %s\n", r->program->name, path);
    return 0;
}
