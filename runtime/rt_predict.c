/* rt_predict.c: --predict: asks the model about the samples of a file and prints one JSON object a line. Samples
 * are read as the data declaration of the evaluation reads them, or from JSON lines; of its fields only those must be there that the
 * answer follows from. --export: the weights as a file of their own. */
#include "abi/scalar.h"
#include "rt_run.h"

#include <errno.h>
#include <math.h>
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

/* Only the fields that are needed: a declaration of its own, which the readers can be given. */
static void keep_needed(MpcData *d, const bool *needs)
{
    MpcField *fields = rt_alloc_zero((size_t)d->n_fields, sizeof *fields);
    int n = 0;
    for (int i = 0; i < d->n_fields; i++)
        if (needs[i])
            fields[n++] = d->fields[i];
    d->fields = fields;
    d->n_fields = n;
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
    if (says_jsonl(r->rt->options.predict) || (full->kind != MPC_DATA_bin && rt_is_jsonl(path)))
        narrow->kind = MPC_DATA_jsonl;
    bool *needs = rt_alloc((size_t)full->n_fields * sizeof *needs);
    /* A record without one of its fields would be another record. */
    for (int i = 0; i < full->n_fields; i++)
        needs[i] = p->needs[i] || narrow->kind == MPC_DATA_bin;
    keep_needed(narrow, needs);
    narrow->paths = &path;
    narrow->n_paths = 1;
    if (narrow->kind == MPC_DATA_idx && narrow->n_fields != 1)
        return rt_err(
            e,
            "--predict: a sample of %s has %d fields in files of their own; JSON lines can hold "
            "them",
            full->name, narrow->n_fields);
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

static void put_class(MpcRun *r, RtJson *j, int64_t best)
{
    rt_json_int(j, "label", best);
    if (best < r->program->n_classes)
        rt_json_text(j, "class", r->program->classes[best]);
}

/* To the digits that an f32 has. */
static void put_numbers(RtJson *j, const char *key, const double *v, int64_t n)
{
    rt_json_open_list(j, key);
    for (int64_t i = 0; i < n; i++)
        rt_json_number(j, NULL, (double)(float)v[i]);
    rt_json_close_list(j);
}

/* Softmax of the n numbers in place; the index of the largest, the first where there are several. */
static int64_t softmax(double *v, int64_t n)
{
    int64_t best = 0;
    double sum = 0;
    for (int64_t i = 1; i < n; i++)
        best = v[i] > v[best] || (isnan(v[best]) && !isnan(v[i])) ? i : best;
    double top = v[best];
    for (int64_t i = 0; i < n; i++)
        sum += v[i] = exp(v[i] - top);
    for (int64_t i = 0; i < n; i++)
        v[i] /= sum;
    return best;
}

static void put_answer(MpcRun *r, RtJson *j, double *v, int64_t n)
{
    const MpcPredict *p = r->program->predict;
    int64_t classes = p->rank ? p->dims[p->rank - 1] : 1;
    if (p->kind == MPC_PREDICT_logits && p->rank == 1) {
        put_class(r, j, softmax(v, n));
        put_numbers(j, "probabilities", v, n);
    } else if (p->kind == MPC_PREDICT_logits && p->rank > 1) {
        rt_json_open_list(j, "labels");
        for (int64_t i = 0; i + classes <= n; i += classes)
            rt_json_int(j, NULL, softmax(v + i, classes));
        rt_json_close_list(j);
    } else if (p->kind == MPC_PREDICT_logit) {
        for (int64_t i = 0; i < n; i++)
            v[i] = 1 / (1 + exp(-v[i]));
        if (n == 1)
            put_class(r, j, v[0] > 0.5);
        if (n == 1)
            rt_json_number(j, "probability", (double)(float)v[0]);
        else
            put_numbers(j, "probabilities", v, n);
    } else if (n == 1) {
        rt_json_number(j, "output", (double)(float)v[0]);
    } else {
        put_numbers(j, "output", v, n);
    }
}

static void print_batch(MpcRun *r, double *v, int64_t each, const MpcBatch *batch)
{
    const MpcPredict *p = r->program->predict;
    const unsigned char *answer = r->mirror + p->offset;
    RtJson *j = &r->rt->line;
    for (int64_t i = 0; i < batch->n; i++) {
        for (int64_t k = 0; k < each; k++)
            v[k] = number_at(p, answer, i * each + k);
        rt_json_start(j);
        rt_json_open(j, NULL);
        put_answer(r, j, v, each);
        if (!j->finite)
            rt_json_bool(j, "finite", false);
        rt_json_close(j);
        fwrite(j->text, 1, j->length, stdout);
        putchar('\n');
    }
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
    RtErr e;
    MpcBatch batch;
    int64_t each = 1;
    for (int i = 0; i < p->rank; i++)
        each *= p->dims[i];
    decl.shuffle = decl.drop_last = decl.training = false;
    decl.sampler = MPC_SAMPLER_none;
    if (!table->rows)
        return 0;
    double *v = rt_alloc((size_t)each * sizeof *v);
    MpcLoader *l = rt_loader_new(&decl, &all, decl.batch_max, r->seed,
                                 r->rt->prefetch ? RT_PREFETCH_auto : RT_PREFETCH_never, NULL,
                                 r->rt->device, &e);
    if (!l)
        rt_end_early(r, 1, &e);
    mpc_loader_begin(l, 0);
    while (!rt_signal() && !ferror(stdout) && mpc_loader_next(l, &batch)) {
        p->run(r, &batch);
        rt_device_read(r->rt->device, p->offset,
                       (size_t)(batch.n * each) * rt_dtype_bytes(p->dtype));
        print_batch(r, v, each, &batch);
    }
    mpc_loader_end(l);
    rt_loader_free(l);
    free(v);
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
