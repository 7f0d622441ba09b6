/* rt_digest.c: reads a log back and keeps of it what a page can show: curves of bounded length, evaluations, the
 * last overflows. Reading goes on where it stopped, so a report in the middle of a run costs what is new. */
#include "rt_json_read.h"
#include "rt_report.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 16, LINE_MOST = 8 << 20 };

/* ---- curves ---- */

static void join(RtColumn *c, int to, int from)
{
    c->sum[to] = c->sum[from];
    c->low[to] = c->low[from];
    c->high[to] = c->high[from];
    c->n[to] = c->n[from];
}

/* Half as many buckets, each of twice as many records. */
static void halve(RtCurves *v)
{
    for (int i = 0; i < RT_BUCKETS / 2; i++) {
        v->step[i] = v->step[2 * i + 1];
        v->epoch[i] = v->epoch[2 * i + 1];
        for (int k = 0; k < v->n_columns; k++) {
            RtColumn *c = v->column[k];
            int a = 2 * i, b = a + 1;
            if (!c->n[a]) {
                join(c, i, b);
            } else {
                int32_t n = c->n[a] + c->n[b];
                double sum = c->sum[a] + (c->n[b] ? c->sum[b] : 0);
                float low = c->n[b] ? fminf(c->low[a], c->low[b]) : c->low[a];
                float high = c->n[b] ? fmaxf(c->high[a], c->high[b]) : c->high[a];
                c->sum[i] = sum;
                c->low[i] = low;
                c->high[i] = high;
                c->n[i] = n;
            }
        }
    }
    v->used = RT_BUCKETS / 2;
    v->each *= 2;
    for (int k = 0; k < v->n_columns; k++)
        memset(v->column[k]->n + v->used, 0, sizeof v->column[k]->n / 2);
}

static RtColumn *column(RtCurves *v, const char *name)
{
    for (int i = 0; i < v->n_columns; i++)
        if (!strcmp(v->column[i]->name, name))
            return v->column[i];
    if (v->n_columns == RT_COLUMNS || strlen(name) >= RT_NAME)
        return NULL;
    RtColumn *c = rt_alloc_zero(1, sizeof *c);
    strcpy(c->name, name);
    return v->column[v->n_columns++] = c;
}

static void add_number(RtColumn *c, int bucket, double value)
{
    bool first = !c->n[bucket]++;
    c->sum[bucket] = (first ? 0 : c->sum[bucket]) + value;
    c->low[bucket] = first ? (float)value : fminf(c->low[bucket], (float)value);
    c->high[bucket] = first ? (float)value : fmaxf(c->high[bucket], (float)value);
}

/* ---- step records: many, and of numbers only, so they are read without making objects of them ---- */

enum { NUMBERS_MOST = RT_COLUMNS + 4 };

typedef struct Step {
    int64_t step, epoch;
    bool skipped;
    int n;
    char key[NUMBERS_MOST][RT_NAME];
    double value[NUMBERS_MOST];
} Step;

static void set_number(Step *s, const char *key, double value)
{
    if (!strcmp(key, "step")) {
        s->step = (int64_t)value;
    } else if (!strcmp(key, "epoch")) {
        s->epoch = (int64_t)value;
    } else if (s->n < NUMBERS_MOST) {
        strcpy(s->key[s->n], key);
        s->value[s->n++] = value;
    }
}

/* `"key":value` at *at, as rt_json.c writes it, which it then is behind. False: it is something else. */
static bool scan_member(Step *s, const char **at, const char *end)
{
    const char *key = *at + 1, *quote = **at == '"' ? memchr(key, '"', (size_t)(end - key)) : NULL;
    char name[RT_NAME] = "";
    double value;
    if (!quote || end - quote < 3 || quote[1] != ':' || memchr(key, '\\', (size_t)(quote - key)))
        return false;
    if (quote - key < RT_NAME)
        memcpy(name, key, (size_t)(quote - key));
    const char *from = quote + 2, *to = from;
    while (to < end && *to != ',' && *to != '}')
        to++;
    *at = to;
    bool quoted = *from == '"' && to - from > 2 && to[-1] == '"';
    if (*name && rt_parse_double(from + quoted, (size_t)(to - from) - 2 * quoted, &value))
        set_number(s, name, value);
    else if (!strcmp(name, "skipped"))
        s->skipped = *from == 't';
    return to < end;
}

static bool scan_step(Step *s, const char *line, size_t n)
{
    const char *end = line + n, *at = line;
    s->step = s->epoch = s->n = 0;
    s->skipped = false;
    do
        at++;
    while (end - at > 2 && scan_member(s, &at, end) && *at == ',');
    return end - at == 1 && *at == '}';
}

/* The norm of gradients that overflowed says nothing of the others: that the update was skipped is counted. */
static void add_step(RtDigest *d, const Step *s)
{
    RtCurves *v = &d->curves;
    if (!v->each)
        v->each = 1;
    if (v->records % v->each == 0 && v->used == RT_BUCKETS)
        halve(v);
    if (v->records % v->each == 0)
        v->used++;
    int bucket = v->used - 1;
    v->records++;
    v->step[bucket] = s->step;
    v->epoch[bucket] = s->epoch;
    for (int i = 0; i < s->n; i++) {
        RtColumn *c = isfinite(s->value[i]) || !s->skipped ? column(v, s->key[i]) : NULL;
        if (c)
            add_number(c, bucket, s->value[i]);
    }
    RtColumn *c = d->n_overflows ? column(v, "skips") : NULL;
    if (c)
        add_number(c, bucket, (double)d->pending_overflows);
    d->pending_overflows = 0;
}

/* ---- other records ---- */

static char *text_of(const json_t *record)
{
    char *text = json_dumps(record, JSON_COMPACT);
    return text ? text : rt_copy_text("null");
}

static RtEvaluations *evaluations_of(RtDigest *d, const char *set)
{
    for (int i = 0; i < d->n_sets; i++)
        if (!strcmp(d->sets[i]->set, set))
            return d->sets[i];
    if (d->n_sets == RT_SETS || strlen(set) >= RT_NAME)
        return NULL;
    RtEvaluations *v = d->sets[d->n_sets++] = rt_alloc_zero(1, sizeof *v);
    v->every = 1;
    strcpy(v->set, set);
    return v;
}

static const char *list_in(json_t *record)
{
    const char *key;
    json_t *member;
    json_object_foreach(record, key, member)
    {
        if (json_is_array(member))
            return key;
    }
    return NULL;
}

/* Every second one goes. */
static void thin(RtEvaluations *v)
{
    int kept = 0;
    for (int i = 0; i < v->kept; i++)
        if (i % 2)
            free(v->record[i]);
        else
            v->record[kept++] = v->record[i];
    v->kept = kept;
    v->every *= 2;
}

static void add_evaluation(RtDigest *d, json_t *record)
{
    const char *key, *set = rt_json_get_text(record, "set");
    RtEvaluations *v = set ? evaluations_of(d, set) : NULL;
    if (!v)
        return;
    if (list_in(record)) {
        free(v->matrix);
        v->matrix = text_of(record);
    }
    while ((key = list_in(record)))
        json_object_del(record, key);
    /* The last one gives its place to the next, unless it is one to be kept. */
    if (v->kept > 1 && (v->n - 1) % v->every)
        free(v->record[--v->kept]);
    if (v->kept == RT_EVALUATIONS)
        thin(v);
    v->n++;
    v->record[v->kept++] = text_of(record);
}

static void keep(char **place, const json_t *record)
{
    free(*place);
    *place = record ? text_of(record) : NULL;
}

static void add_overflow(RtDigest *d, const json_t *record)
{
    keep(&d->overflow[d->n_overflows++ % RT_OVERFLOWS], record);
    d->pending_overflows++;
}

static void add_record(RtDigest *d, json_t *record)
{
    const char *event = rt_json_get_text(record, "event");
    if (!event)
        event = "";
    if (!strcmp(event, "eval"))
        add_evaluation(d, record);
    else if (!strcmp(event, "overflow"))
        add_overflow(d, record);
    else if (!strcmp(event, "start") || !strcmp(event, "resume"))
        keep(&d->start, record);
    else if (!strcmp(event, "end"))
        keep(&d->end, record);
    if (!strcmp(event, "resume")) {
        d->resumes++;
        keep(&d->end, NULL);
    }
}

/* ---- the file ---- */

void rt_digest_line(RtDigest *d, const char *line, size_t n)
{
    static const char step[] = "{\"event\":\"step\",";
    Step s;
    if (n > sizeof step && !memcmp(line, step, sizeof step - 1)) {
        if (scan_step(&s, line, n))
            add_step(d, &s);
        return;
    }
    json_t *record = rt_json_modest(line, n) ? json_loadb(line, n, 0, NULL) : NULL;
    if (json_is_object(record))
        add_record(d, record);
    json_decref(record);
}

/* Whole lines only: one that is still being written is read the next time. */
bool rt_digest_read(RtDigest *d, const char *log, RtErr *e)
{
    int fd = open(log, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return rt_err_errno(e, "cannot read '%s'", log);
    size_t cap = PIECE, used = 0;
    char *text = rt_alloc(cap);
    ssize_t n;
    while ((n = pread(fd, text + used, cap - used, (off_t)(d->offset + (int64_t)used))) > 0) {
        used += (size_t)n;
        char *from = text, *end;
        while ((end = memchr(from, '\n', used - (size_t)(from - text)))) {
            rt_digest_line(d, from, (size_t)(end - from));
            from = end + 1;
        }
        size_t read = (size_t)(from - text);
        d->offset += (int64_t)read;
        used -= read;
        memmove(text, from, used);
        if (used == cap && cap < LINE_MOST)
            text = rt_grow(text, cap *= 2);
        else if (used == cap) /* no record of ours: go on behind it */
            d->offset += (int64_t)used, used = 0;
    }
    bool ok = n == 0 || rt_err_errno(e, "cannot read '%s'", log);
    free(text);
    close(fd);
    return ok;
}

void rt_digest_free(RtDigest *d)
{
    for (int i = 0; i < d->curves.n_columns; i++)
        free(d->curves.column[i]);
    free(d->start);
    free(d->end);
    for (int i = 0; i < RT_OVERFLOWS; i++)
        free(d->overflow[i]);
    for (int i = 0; i < d->n_sets; i++) {
        for (int k = 0; k < d->sets[i]->kept; k++)
            free(d->sets[i]->record[k]);
        free(d->sets[i]->matrix);
        free(d->sets[i]);
    }
    *d = (RtDigest){.offset = 0};
}
