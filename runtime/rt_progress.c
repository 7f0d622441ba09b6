/* rt_progress.c: what a person sees while it runs. On a terminal one bar that is drawn over itself; elsewhere
 * lines of key=value, at least one every ten seconds, without colour or carriage return. Progress goes to
 * stderr, what was found out (evaluations, files) to stdout. The remaining time is that of the whole run,
 * with training and evaluation estimated apart.
 */
#include "rt_loader.h"
#include "rt_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR = 20, LINE = 512 };

static const double bar_every = 0.1, line_every = 5;

/* ---- clocks ---- */

void rt_clock_start(RtClock *c)
{
    if (c->since < 0)
        c->since = rt_seconds();
}

void rt_clock_stop(RtClock *c)
{
    c->total = rt_clock_read(c);
    c->since = -1;
}

double rt_clock_read(const RtClock *c)
{
    return c->total + (c->since < 0 ? 0 : rt_seconds() - c->since);
}

/* ---- estimate ---- */

/* Batches of the whole run, or -1. */
static int64_t all_batches(const MpcRun *r)
{
    const RtProgress *p = &r->rt->progress;
    int64_t most = r->rt->options.max_steps;
    int64_t all = p->epochs >= 0 && p->batches ? p->epochs * p->batches : -1;
    /* A step may take several batches: the ratio seen so far holds. */
    if (most >= 0 && r->step > 0) {
        int64_t needed = (int64_t)ceil((double)most * (double)p->batches_done / (double)r->step);
        if (all < 0 || needed < all)
            all = needed;
    }
    return all;
}

/* Seconds that the first evaluations will take: forward alone is about a third of a training step. */
static double guessed_evaluation(const MpcRun *r)
{
    const RtProgress *p = &r->rt->progress;
    double sample = p->samples ? rt_clock_read(&p->training) / (double)p->samples : 0, all = 0;
    for (int i = 0; i < r->program->n_loaders; i++)
        if (!r->program->loaders[i].training)
            all += 0.35 * sample * (double)r->rt->sets[r->program->loaders[i].set].count;
    return all;
}

/* Seconds of the evaluations to come: within passes as often as so far, and as many behind each pass. */
static double evaluations_left(const MpcRun *r, int64_t all)
{
    const RtProgress *p = &r->rt->progress;
    double passes = p->batches ? ceil((double)all / (double)p->batches - 1e-9) : 0, number = 0;
    if (!p->evaluations)
        return guessed_evaluation(r) * (passes - (double)p->passes_done);
    if (p->inside.n)
        number += floor((double)((all - p->inside.at) * p->inside.n) / (double)p->inside.at);
    if (p->behind.n)
        number += (double)p->behind.n / (double)p->behind.at * (passes - (double)p->behind.at);
    return number * p->evaluating / (double)p->evaluations;
}

/* The rate of training and that of evaluations are apart; what neither clock counts (checkpoints, saving)
 * goes with the batches of this process. */
double rt_progress_remaining(const MpcRun *r, double now)
{
    const RtProgress *p = &r->rt->progress;
    int64_t all = all_batches(r);
    if (all < 0 || !p->batches_done)
        return -1;
    double training = rt_clock_read(&p->training), left = (double)(all - p->batches_done);
    double other =
        now - p->started - (training - p->training_before) - (p->evaluating - p->evaluating_before);
    int64_t here = p->batches_done - p->batches_before;
    double batch = training / (double)p->batches_done + (here > 0 ? other / (double)here : 0);
    double seconds = left * batch + evaluations_left(r, all);
    return seconds > 0 ? seconds : 0;
}

/* ---- pieces of text ---- */

typedef struct Line {
    char text[LINE];
    size_t used;
} Line;

static void add(Line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(Line *l, const char *format, ...)
{
    __builtin_va_list args;
    __builtin_va_start(args, format);
    int n = vsnprintf(l->text + l->used, sizeof l->text - l->used, format, args);
    __builtin_va_end(args);
    if (n > 0)
        l->used = l->used + (size_t)n < sizeof l->text ? l->used + (size_t)n : sizeof l->text - 1;
}

static const char *short_number(char buffer[RT_NUMBER_CHARS], double v)
{
    double size = fabs(v);
    if (!isfinite(v))
        return rt_number(buffer, v);
    if (size != 0 && (size < 1e-2 || size >= 1e6))
        snprintf(buffer, RT_NUMBER_CHARS, "%.1e", v);
    else
        snprintf(buffer, RT_NUMBER_CHARS, size >= 100 ? "%.1f" : size >= 10 ? "%.2f" : "%.3f", v);
    return buffer;
}

static void add_time(Line *l, double seconds)
{
    if (seconds < 99.5)
        add(l, "%.0f s", seconds);
    else if (seconds < 5400)
        add(l, "%.0f min", seconds / 60);
    else
        add(l, "%.1f h", seconds / 3600);
}

/* Mean loss since the last line; a loss that is not finite shows. */
static double shown_loss(const RtProgress *p)
{
    return p->loss_sum / (double)p->loss_n;
}

static void add_bar(Line *l, int cells, double share)
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    double filled = share < 0 ? 0 : share > 1 ? cells : share * cells;
    for (int i = 0; i < cells; i++) {
        double part = filled - i;
        add(l, "%s", part >= 1 ? "█" : eighths[part <= 0 ? 0 : (int)(part * 8)]);
    }
}

/* The bar's cells count one column each, its bytes up to three. */
static size_t columns_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* What stands behind the bar; where the terminal is narrow, parts of the highest rank go first. */
typedef struct Part {
    char text[64];
    int rank;
} Part;

enum { RANK_loss, RANK_eta, RANK_count, RANK_values, RANK_lr, RANK_rate, RANK_scale, RANKS };
enum { PARTS_MOST = RT_SHOWN_VALUES + RT_STEP_VALUES + RANKS };

static void part(Part *parts, int *n, int rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void part(Part *parts, int *n, int rank, const char *format, ...)
{
    __builtin_va_list args;
    __builtin_va_start(args, format);
    vsnprintf(parts[*n].text, sizeof parts[*n].text, format, args);
    __builtin_va_end(args);
    parts[(*n)++].rank = rank;
}

static bool shows_own(const MpcStep *s, const char *prefix)
{
    bool shows = false;
    for (int i = 0; i < s->n_own; i++)
        shows = shows || !strncmp(s->own[i].name, prefix, strlen(prefix));
    return shows;
}

static int bar_parts(const MpcRun *r, Part *parts)
{
    const RtProgress *p = &r->rt->progress;
    const MpcStep *s = &r->rt->last;
    double seconds = rt_clock_read(&p->training), left = rt_progress_remaining(r, rt_seconds());
    char a[RT_NUMBER_CHARS];
    int n = 0;
    part(parts, &n, RANK_count, "%" PRId64 "/%" PRId64, p->batch, p->batches);
    if (p->loss_n)
        part(parts, &n, RANK_loss, "loss %s", short_number(a, shown_loss(p)));
    for (int i = 0; i < p->n_values; i++)
        part(parts, &n, RANK_values, "%s %s", p->name[i], short_number(a, p->value[i]));
    for (int i = 0; i < s->n_own; i++)
        part(parts, &n, RANK_lr, "%s %.3g", s->own[i].name, s->own[i].value);
    if (s->has_lr && !shows_own(s, "lr/"))
        part(parts, &n, RANK_lr, "lr %.1e", s->lr);
    if (s->has_scale && !shows_own(s, "scale/"))
        part(parts, &n, RANK_scale, "scale %.6g", s->scale);
    if (seconds > 0)
        part(parts, &n, RANK_rate, "%s samples/s",
             rt_count_text(a, (int64_t)((double)p->samples / seconds)));
    if (left >= 0) {
        Line time = {.used = 0};
        add_time(&time, left);
        part(parts, &n, RANK_eta, "ETA %s", time.text);
    }
    return n;
}

static size_t parts_columns(const Part *parts, int n)
{
    size_t columns = 0;
    for (int i = 0; i < n; i++)
        columns += 2 + columns_of(parts[i].text);
    return columns;
}

/* The last one of the highest rank; -1: there is only the loss. */
static int worst_part(const Part *parts, int n)
{
    int worst = -1;
    for (int i = 0; i < n; i++)
        if (parts[i].rank > RANK_loss && (worst < 0 || parts[i].rank >= parts[worst].rank))
            worst = i;
    return worst;
}

/* Half a bar is better than a part less, but the remaining time better than more than a few cells. */
static int fit_parts(Part *parts, int *n, size_t room)
{
    int cells = BAR;
    while (cells && (size_t)cells + parts_columns(parts, *n) > room) {
        int worst = worst_part(parts, *n);
        int least = worst < 0 ? 0 : parts[worst].rank > RANK_eta ? BAR / 2 : BAR / 5;
        if (cells > least) {
            cells--;
        } else {
            memmove(parts + worst, parts + worst + 1, (size_t)(*n - worst - 1) * sizeof *parts);
            --*n;
        }
    }
    return cells;
}

void rt_progress_bar(const MpcRun *r, char *text, size_t size)
{
    const RtProgress *p = &r->rt->progress;
    Line l = {.used = 0};
    Part parts[PARTS_MOST];
    int n = bar_parts(r, parts);
    add(&l, "epoch %" PRId64, r->epoch + 1);
    if (p->epochs >= 0)
        add(&l, "/%" PRId64, p->epochs);
    size_t begin = columns_of(l.text) + 2, width = (size_t)p->columns - 1;
    int cells = fit_parts(parts, &n, width > begin ? width - begin : 0);
    if (cells) {
        add(&l, "  ");
        add_bar(&l, cells, p->batches ? (double)p->batch / (double)p->batches : 0);
    }
    for (int i = 0; i < n; i++)
        add(&l, "  %s", parts[i].text);
    snprintf(text, size, "%s", l.text);
}

static void draw_bar(MpcRun *r)
{
    char text[LINE];
    rt_progress_bar(r, text, sizeof text);
    fprintf(stderr, "\r\033[K%s", text);
    fflush(stderr);
    r->rt->progress.bar_shown = true;
}

static void print_line(MpcRun *r)
{
    RtProgress *p = &r->rt->progress;
    const MpcStep *s = &r->rt->last;
    Line l = {.used = 0};
    char a[RT_NUMBER_CHARS];
    double seconds = rt_clock_read(&p->training), left = rt_progress_remaining(r, rt_seconds());
    add(&l, "epoch=%" PRId64, r->epoch + 1);
    if (p->epochs >= 0)
        add(&l, "/%" PRId64, p->epochs);
    add(&l, " batch=%" PRId64 "/%" PRId64 " step=%" PRId64, p->batch, p->batches, r->step);
    if (p->loss_n)
        add(&l, " loss=%s", short_number(a, shown_loss(p)));
    for (int i = 0; i < p->n_values; i++)
        add(&l, " %s=%s", p->name[i], short_number(a, p->value[i]));
    for (int i = 0; i < s->n_own; i++)
        add(&l, " %s=%s", s->own[i].name, rt_number(a, s->own[i].value));
    if (s->has_lr && !shows_own(s, "lr/"))
        add(&l, " lr=%s", rt_number(a, s->lr));
    if (s->has_scale && !shows_own(s, "scale/"))
        add(&l, " scale=%s", rt_number(a, s->scale));
    if (r->skips)
        add(&l, " skips=%" PRId64, r->skips);
    if (seconds > 0)
        add(&l, " samples_per_s=%.0f", (double)p->samples / seconds);
    if (left >= 0)
        add(&l, " eta_s=%.1f", left);
    fprintf(stderr, "%s\n", l.text);
}

static bool is_text(const MpcRun *r)
{
    RtConsole console = r->rt->options.console;
    return console == RT_CONSOLE_text || console == RT_CONSOLE_tensorboard;
}

static void show(MpcRun *r, double now)
{
    RtProgress *p = &r->rt->progress;
    if (p->terminal)
        draw_bar(r);
    else
        print_line(r);
    p->shown_at = now;
}

/* ---- what others call ---- */

void rt_progress_start(MpcRun *r)
{
    RtProgress *p = &r->rt->progress;
    struct winsize size;
    char a[RT_NUMBER_CHARS], b[RT_NUMBER_CHARS];
    *p = (RtProgress){.terminal = isatty(STDERR_FILENO) == 1,
                      .columns = 100,
                      .epochs = -1,
                      .training.since = -1,
                      .started = rt_seconds(),
                      .shown_at = rt_seconds()};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20)
        p->columns = size.ws_col;
    if (!is_text(r))
        return;
    const MpcProgram *m = r->program;
    if (p->terminal)
        fprintf(stderr, "%s: %s, %s parameters, %d thread%s, %s, seed %llu\n", m->name,
                m->precision, rt_count_text(a, m->parameters), r->threads,
                r->threads == 1 ? "" : "s", rt_bytes_text(b, (double)r->rt->plan_bytes),
                (unsigned long long)r->seed);
    else
        fprintf(stderr,
                "program=%s precision=%s parameters=%" PRId64
                " threads=%d plan_bytes=%zu seed=%llu\n",
                m->name, m->precision_key, m->parameters, r->threads, r->rt->plan_bytes,
                (unsigned long long)r->seed);
}

void rt_progress_clear(MpcRun *r)
{
    RtProgress *p = &r->rt->progress;
    if (p->bar_shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        p->bar_shown = false;
    }
}

void rt_progress_tick(MpcRun *r)
{
    RtProgress *p = &r->rt->progress;
    if (!is_text(r) || p->shown_at == 0) /* predictions have no progress */
        return;
    double now = rt_seconds();
    if (now - p->shown_at < (p->terminal ? bar_every : line_every))
        return;
    show(r, now);
    if (!p->terminal) {
        p->loss_sum = 0;
        p->loss_n = 0;
    }
}

/* The last state of a pass stays on the screen. */
void rt_progress_pass_ends(MpcRun *r)
{
    RtProgress *p = &r->rt->progress;
    if (is_text(r) && p->batch) {
        show(r, rt_seconds());
        if (p->bar_shown)
            fputc('\n', stderr);
        p->bar_shown = false;
    }
    p->loss_sum = 0;
    p->loss_n = 0;
}

void rt_progress_values(MpcRun *r, const MpcValue *values, int n)
{
    RtProgress *p = &r->rt->progress;
    p->n_values = 0;
    for (int i = 0; i < n && p->n_values < RT_SHOWN_VALUES; i++) {
        if (!strcmp(values[i].name, "loss"))
            continue;
        snprintf(p->name[p->n_values], sizeof p->name[0], "%s", values[i].name);
        p->value[p->n_values++] = values[i].value;
    }
}

void rt_progress_eval(MpcRun *r, const MpcEval *e, const double *values)
{
    RtProgress *p = &r->rt->progress;
    char a[RT_NUMBER_CHARS];
    bool terminal = isatty(STDOUT_FILENO) == 1;
    for (int i = 0; i < e->n_metrics; i++)
        if (e->metrics[i].kind == MPC_METRIC_confusion_matrix) {
            p->table = e->cells[i] + 1;
            p->table_n = e->metrics[i].n;
            p->table_of = e->set;
        }
    if (!is_text(r))
        return;
    rt_progress_clear(r);
    if (!terminal)
        printf("eval set=%s epoch=%" PRId64 " step=%" PRId64, e->set, rt_epochs_begun(r), r->step);
    else
        printf("            %s:", e->set);
    for (int i = 0; i < e->n_metrics; i++) {
        if (e->metrics[i].kind == MPC_METRIC_confusion_matrix)
            continue;
        if (terminal && rt_metric_is_share(e->metrics[i].kind))
            printf("  %s %.1f %%", e->metrics[i].name, 100 * values[i]);
        else if (terminal)
            printf("  %s %s", e->metrics[i].name, short_number(a, values[i]));
        else
            printf(" %s=%.6g", e->metrics[i].name, values[i]);
    }
    printf("\n");
    fflush(stdout);
    p->shown_at = rt_seconds();
}

/* The last confusion matrix, where a screen can hold it; the log has all. */
static void show_table(const MpcRun *r)
{
    const RtProgress *p = &r->rt->progress;
    const MpcProgram *m = r->program;
    enum { MOST = 20, NAME = 16 };
    int width = 5;
    if (!p->table_of || p->table_n > MOST || rt_signal())
        return;
    for (int64_t i = 0; i < p->table_n * p->table_n; i++) {
        int digits = snprintf(NULL, 0, "%.0f", p->table[i]);
        width = digits + 1 > width ? digits + 1 : width;
    }
    const char *const *names = m->n_classes == p->table_n ? m->classes : NULL;
    printf("confusion matrix of %s: a row for each label, a column for each answer\n%*s",
           p->table_of, names ? 6 + NAME : 6, "");
    for (int64_t k = 0; k < p->table_n; k++)
        printf("%*" PRId64, width, k);
    for (int64_t i = 0; i < p->table_n; i++) {
        printf("\n%6" PRId64, i);
        if (names)
            printf(" %-*.*s", NAME - 1, NAME - 1, names[i]);
        for (int64_t k = 0; k < p->table_n; k++)
            printf("%*.0f", width, p->table[i * p->table_n + k]);
    }
    printf("\n");
}

void rt_progress_done(MpcRun *r, int status)
{
    const MpcRuntime *rt = r->rt;
    double seconds = rt_seconds() - rt->started;
    rt_progress_clear(r);
    if (!is_text(r))
        return;
    show_table(r);
    if (!rt->out_dir)
        return;
    /* A log or a report that could not be written, on a full disk, is not promised. */
    const char *log = rt->log_fd >= 0 ? ",log.jsonl" : "";
    const char *report = rt_report_is_there(r) ? ",report.html" : "";
    if (isatty(STDOUT_FILENO) == 1) {
        printf("%" PRId64 " steps (%" PRId64
               " skipped) in %.1f s; wrote %s/%smodel.safetensors%s%s%s\n",
               r->step, r->skips, seconds, rt->out_dir, *log || *report ? "{" : "", log, report,
               *log || *report ? "}" : "");
    } else {
        printf("done status=%d steps=%" PRId64 " skips=%" PRId64
               " seconds=%.2f model=%s/model.safetensors",
               status, r->step, r->skips, seconds, rt->out_dir);
        if (*log)
            printf(" log=%s/log.jsonl", rt->out_dir);
        if (*report)
            printf(" report=%s/report.html", rt->out_dir);
        printf("\n");
    }
    fflush(stdout);
}
