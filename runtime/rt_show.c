/* rt_show.c: print(...) of tensors, as PyTorch shows them: four digits, three elements at each end of what is long. */
#include "rt_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/scalar.h"

enum { MOST = 1000, EDGE = 3, CHARS = 32 };

typedef struct Shown {
    FILE *out;
    const MpcShown *part;
    bool is_float, short_digits; /* all finite numbers are whole, or of like size */
    bool whole, cut;             /* cut: only the ends of long dims */
    int width;
} Shown;

static double number_at(const MpcShown *p, int64_t i)
{
    switch (p->dtype) {
    case MPC_DT_f64: return ((const double *)p->data)[i];
    case MPC_DT_f32: return (double)((const float *)p->data)[i];
    case MPC_DT_f16: return (double)mpc_f16_to_f32(((const mpc_f16 *)p->data)[i]);
    case MPC_DT_bf16: return (double)mpc_bf16_to_f32(((const mpc_bf16 *)p->data)[i]);
    case MPC_DT_f8e4m3: return (double)mpc_f8e4m3_to_f32(((const mpc_f8e4m3 *)p->data)[i]);
    case MPC_DT_f8e5m2: return (double)mpc_f8e5m2_to_f32(((const mpc_f8e5m2 *)p->data)[i]);
    default: return NAN;
    }
}

static int64_t whole_at(const MpcShown *p, int64_t i)
{
    switch (p->dtype) {
    case MPC_DT_i64: return ((const int64_t *)p->data)[i];
    case MPC_DT_i32: return ((const int32_t *)p->data)[i];
    case MPC_DT_i8: return ((const int8_t *)p->data)[i];
    default: return ((const uint8_t *)p->data)[i]; /* u8, bool */
    }
}

static void element_text(const Shown *s, char text[CHARS], int64_t i)
{
    if (s->part->dtype == MPC_DT_bool)
        snprintf(text, CHARS, "%s", whole_at(s->part, i) ? "true" : "false");
    else if (!s->is_float)
        snprintf(text, CHARS, "%lld", (long long)whole_at(s->part, i));
    else if (!isfinite(number_at(s->part, i)))
        snprintf(text, CHARS, "%g", number_at(s->part, i));
    else
        snprintf(text, CHARS,
                 s->whole          ? "%.0f."
                 : s->short_digits ? "%.4f"
                                   : "%.4e",
                 number_at(s->part, i));
}

/* Calls `visit` for every element that is shown. */
static void each_shown(Shown *s, int axis, int64_t first, void (*visit)(Shown *s, int64_t i))
{
    int64_t n = axis < s->part->rank ? s->part->dims[axis] : 1;
    if (axis == s->part->rank) {
        visit(s, first);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (s->cut && n > 2 * EDGE && i == EDGE)
            i = n - EDGE;
        each_shown(s, axis + 1, first * n + i, visit);
    }
}

static void measure(Shown *s, int64_t i)
{
    char text[CHARS];
    element_text(s, text, i);
    int width = (int)strlen(text);
    s->width = width > s->width ? width : s->width;
}

typedef struct Range {
    double least, most;
    bool whole;
} Range;

/* PyTorch's rule: powers of ten where numbers are far apart, large or small. */
static void choose_digits(Shown *s, int64_t count)
{
    Range r = {.least = INFINITY, .whole = true};
    for (int64_t i = 0; i < count && s->is_float; i++) {
        double x = fabs(number_at(s->part, i));
        if (!isfinite(x))
            continue;
        r.whole &= x == floor(x);
        r.least = x > 0 && x < r.least ? x : r.least;
        r.most = x > r.most ? x : r.most;
    }
    s->short_digits = r.most == 0 || !(r.most / r.least > 1000 || r.most >= 1e8 || r.least < 1e-4);
    s->whole = r.whole && r.most < 1e8;
}

static void write_axis(const Shown *s, int axis, int64_t first)
{
    const MpcShown *p = s->part;
    char text[CHARS];
    if (axis == p->rank) {
        element_text(s, text, first);
        fprintf(s->out, "%*s", s->width, text);
        return;
    }
    int64_t n = p->dims[axis];
    fputc('[', s->out);
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 && axis == p->rank - 1)
            fputs(", ", s->out);
        else if (i > 0)
            fprintf(s->out, ",\n%*s", axis + 1, "");
        if (s->cut && n > 2 * EDGE && i == EDGE) {
            fputs(axis == p->rank - 1 ? "..., " : "...,\n", s->out);
            if (axis < p->rank - 1)
                fprintf(s->out, "%*s", axis + 1, "");
            i = n - EDGE;
        }
        write_axis(s, axis + 1, first * n + i);
    }
    fputc(']', s->out);
}

static void write_dims(FILE *out, const MpcShown *p)
{
    fputs(p->bare ? "" : "[", out);
    for (int i = 0; i < p->rank; i++)
        fprintf(out, "%s%lld", i > 0 ? ", " : "", (long long)p->dims[i]);
    fputs(p->bare ? "" : "]", out);
}

static void write_tensor(FILE *out, const MpcShown *p)
{
    int64_t count = 1;
    for (int i = 0; i < p->rank; i++)
        count *= p->dims[i];
    Shown s = {.out = out, .part = p, .cut = count > MOST};
    s.is_float = p->dtype == MPC_DT_f64 || p->dtype == MPC_DT_f32 || p->dtype == MPC_DT_f16 ||
                 p->dtype == MPC_DT_bf16 || p->dtype == MPC_DT_f8e4m3 || p->dtype == MPC_DT_f8e5m2;
    choose_digits(&s, count);
    each_shown(&s, 0, 0, measure);
    s.width = p->rank > 0 ? s.width : 0;
    write_axis(&s, 0, 0);
    if (p->dtype != MPC_DT_f32 && p->dtype != MPC_DT_i64 && p->rank > 0) {
        fputc(' ', out);
        fputs(rt_dtype_name(p->dtype), out);
    }
}

void mpc_show(MpcRun *r, const MpcShown *parts, int n)
{
    if (r->rt->options.action == RT_ACTION_predict)
        return;
    rt_progress_clear(r);
    for (int i = 0; i < n; i++) {
        if (i > 0)
            putchar(parts[i].data && parts[i].rank > 1 ? '\n' : ' ');
        if (parts[i].text)
            fputs(parts[i].text, stdout);
        else if (parts[i].data)
            write_tensor(stdout, &parts[i]);
        else
            write_dims(stdout, &parts[i]);
    }
    putchar('\n');
    fflush(stdout);
}
