/* rt_answer.c: answers of the model (rt_answer.h): logits become probabilities and labels, and each sample an object
 * of JSON or a row of a table. rt_predict.c asks for them. */
#include "rt_answer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- from numbers to answers ---- */

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

static bool is_one_class(const MpcPredict *p)
{
    return p->kind == MPC_PREDICT_logits && p->rank == 1;
}

static bool is_classes_by_place(const MpcPredict *p)
{
    return p->kind == MPC_PREDICT_logits && p->rank > 1;
}

static void answer(RtAnswers *a, double *v)
{
    const MpcPredict *p = a->program->predict;
    int64_t classes = p->rank ? p->dims[p->rank - 1] : 1;
    if (p->kind == MPC_PREDICT_logits)
        for (int64_t i = 0; i < a->n_labels; i++)
            a->label[i] = softmax(v + i * classes, classes);
    if (p->kind == MPC_PREDICT_logit)
        for (int64_t i = 0; i < a->each; i++)
            v[i] = 1 / (1 + exp(-v[i]));
    if (p->kind == MPC_PREDICT_logit && a->n_labels)
        a->label[0] = v[0] > 0.5;
}

static const char *class_of(const RtAnswers *a)
{
    return a->label[0] < a->program->n_classes ? a->program->classes[a->label[0]] : NULL;
}

/* ---- JSON lines ---- */

/* To the digits that an f32 has. */
static void put_numbers(RtJson *j, const char *one, const char *several, const double *v, int64_t n)
{
    if (one && n == 1) {
        rt_json_number(j, one, (double)(float)v[0]);
        return;
    }
    rt_json_open_list(j, several);
    for (int64_t i = 0; i < n; i++)
        rt_json_number(j, NULL, (double)(float)v[i]);
    rt_json_close_list(j);
}

static void put_object(RtAnswers *a, const double *v)
{
    const MpcPredict *p = a->program->predict;
    RtJson *j = &a->line;
    rt_json_open(j, NULL);
    if (is_classes_by_place(p)) {
        rt_json_open_list(j, "labels");
        for (int64_t i = 0; i < a->n_labels; i++)
            rt_json_int(j, NULL, a->label[i]);
        rt_json_close_list(j);
    } else if (a->n_labels) {
        rt_json_int(j, "label", a->label[0]);
        if (class_of(a))
            rt_json_text(j, "class", class_of(a));
    }
    if (is_one_class(p))
        put_numbers(j, NULL, "probabilities", v, a->each);
    else if (p->kind == MPC_PREDICT_logit)
        put_numbers(j, "probability", "probabilities", v, a->each);
    else if (!is_classes_by_place(p))
        put_numbers(j, "output", "output", v, a->each);
    if (!j->finite)
        rt_json_bool(j, "finite", false);
    rt_json_close(j);
}

/* ---- a table ---- */

static void put_text(RtJson *j, const char *text)
{
    rt_json_bytes(j, text, strlen(text));
}

static void put_cell(RtJson *j, const char *text)
{
    if (j->length)
        put_text(j, ",");
    if (!text[strcspn(text, ",\"\r\n")]) {
        put_text(j, text);
        return;
    }
    put_text(j, "\"");
    for (; *text; text++)
        put_text(j, *text == '"' ? "\"\"" : (char[]){*text, 0});
    put_text(j, "\"");
}

static void put_heads(RtJson *j, const char *name, int64_t n)
{
    char head[64];
    for (int64_t i = 0; i < n; i++) {
        snprintf(head, sizeof head, n == 1 ? "%s" : "%s_%" PRId64, name, i);
        put_cell(j, head);
    }
}

static void put_header(RtAnswers *a)
{
    const MpcPredict *p = a->program->predict;
    put_heads(&a->line, "label", a->n_labels);
    if (a->n_labels && !is_classes_by_place(p) && a->program->n_classes)
        put_cell(&a->line, "class");
    if (!is_classes_by_place(p))
        put_heads(&a->line, p->kind == MPC_PREDICT_output ? "output" : "probability", a->each);
}

static void put_row(RtAnswers *a, const double *v)
{
    char number[RT_NUMBER_CHARS];
    for (int64_t i = 0; i < a->n_labels; i++)
        put_cell(&a->line, rt_number(number, (double)a->label[i]));
    if (is_classes_by_place(a->program->predict))
        return;
    if (a->n_labels && a->program->n_classes)
        put_cell(&a->line, class_of(a) ? class_of(a) : "");
    for (int64_t i = 0; i < a->each; i++)
        put_cell(&a->line, rt_number(number, (double)(float)v[i]));
}

/* ---- out ---- */

static bool write_line(RtAnswers *a, RtErr *e)
{
    put_text(&a->line, "\n");
    if (a->to_file)
        return rt_writer_put(&a->file, a->line.text, a->line.length, e);
    fwrite(a->line.text, 1, a->line.length, stdout);
    return !ferror(stdout) || rt_err_errno(e, "--predict: cannot write the answers");
}

static bool ends_in_csv(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".csv");
}

bool rt_answers_open(RtAnswers *a, const MpcProgram *program, const RtOptions *options, RtErr *e)
{
    const MpcPredict *p = program->predict;
    const char *path = options->output;
    *a = (RtAnswers){.program = program, .each = 1};
    for (int i = 0; i < p->rank; i++)
        a->each *= p->dims[i];
    int64_t classes = p->rank ? p->dims[p->rank - 1] : 1;
    a->n_labels = p->kind == MPC_PREDICT_logits                  ? a->each / classes
                  : p->kind == MPC_PREDICT_logit && a->each == 1 ? 1
                                                                 : 0;
    a->label = rt_alloc_zero((size_t)a->n_labels + 1, sizeof *a->label);
    a->to_file = path && strcmp(path, "-") != 0;
    a->csv = a->to_file ? ends_in_csv(path) : options->console == RT_CONSOLE_csv;
    if (a->to_file && !rt_writer_open(&a->file, path, e))
        return false;
    if (!a->csv)
        return true;
    rt_json_start(&a->line);
    put_header(a);
    return write_line(a, e);
}

bool rt_answers_put(RtAnswers *a, double *v, RtErr *e)
{
    answer(a, v);
    rt_json_start(&a->line);
    if (a->csv)
        put_row(a, v);
    else
        put_object(a, v);
    return write_line(a, e);
}

bool rt_answers_close(RtAnswers *a, bool complete, RtErr *e)
{
    bool ok = true;
    if (a->to_file && complete)
        ok = rt_writer_commit(&a->file, e);
    else if (a->to_file)
        rt_writer_abort(&a->file);
    free(a->line.text);
    free(a->label);
    return ok;
}
