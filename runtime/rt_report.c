/* rt_report.c: report.html in the folder of a run: the page of runtime/report with the run's data in it. Written
 * after evaluations and passes, not more often than a small share of the time allows, and at the end. What is in
 * the log comes from the log, read back (rt_digest.c); what the program is comes from its tables. A report that
 * cannot be written is said once and costs the run nothing else.
 */
#include "rt_report.h"
#include "abi/plan_text.h"
#include "rt_run.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double soonest = 2, most_share = 0.02; /* s; of the run's time */

struct RtReport {
    RtDigest digest;
    double at, took;
    atomic_flag busy; /* a failure may be said on any thread */
    bool failed;
};

typedef struct Page {
    RtWriter w;
    RtJson j, safe;
    RtErr *e;
    bool ok;
} Page;

/* ---- the one way of text into the page ---- */

void rt_html_json(RtJson *out, const char *json, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = json[i];
        if (c == '<' || c == '>' || c == '&') {
            char escape[8];
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
            rt_json_bytes(out, escape, 6);
        } else {
            rt_json_bytes(out, &c, 1);
        }
    }
}

static void flush(Page *p)
{
    p->safe.length = 0;
    rt_html_json(&p->safe, p->j.text, p->j.length);
    p->ok = p->ok && rt_writer_put(&p->w, p->safe.text, p->safe.length, p->e);
    p->j.length = 0;
}

/* ---- parts ---- */

/* A record of the log, as the digest has it. */
static void put_record(Page *p, const char *key, const char *json)
{
    rt_json_raw(&p->j, key, json ? json : "null");
    flush(p);
}

static void put_program(Page *p, const MpcRun *r)
{
    const MpcProgram *m = r->program;
    rt_json_open(&p->j, "program");
    rt_json_text(&p->j, "name", m->name);
    rt_json_text(&p->j, "source", m->source);
    rt_json_text(&p->j, "version", m->version);
    rt_json_text(&p->j, "precision", m->precision);
    rt_json_text(&p->j, "cpu", m->cpu);
    rt_json_int(&p->j, "parameters", m->parameters);
    rt_json_close(&p->j);
    rt_json_open(&p->j, "now");
    rt_json_int(&p->j, "step", r->step);
    rt_json_int(&p->j, "skips", r->skips);
    rt_json_int(&p->j, "epochs", r->rt->progress.epochs);
    rt_json_number(&p->j, "seconds", rt_seconds() - r->rt->started);
    rt_json_int(&p->j, "written", (int64_t)time(NULL));
    rt_json_close(&p->j);
}

enum { MEAN, LOW, HIGH };

static void put_numbers(Page *p, const char *key, const RtColumn *c, int used, int which)
{
    rt_json_open_list(&p->j, key);
    for (int i = 0; i < used; i++)
        if (!c->n[i])
            rt_json_null(&p->j, NULL);
        else
            rt_json_number(&p->j, NULL,
                           which == MEAN  ? (double)(float)(c->sum[i] / c->n[i])
                           : which == LOW ? (double)c->low[i]
                                          : (double)c->high[i]);
    rt_json_close_list(&p->j);
}

static void put_curves(Page *p, const RtCurves *v)
{
    rt_json_open(&p->j, "curves");
    rt_json_int(&p->j, "records", v->records);
    rt_json_int(&p->j, "each", v->each ? v->each : 1);
    rt_json_ints(&p->j, "step", v->step, v->used);
    rt_json_ints(&p->j, "epoch", v->epoch, v->used);
    rt_json_open_list(&p->j, "columns");
    for (int i = 0; i < v->n_columns; i++) {
        const RtColumn *c = v->column[i];
        rt_json_open(&p->j, NULL);
        rt_json_text(&p->j, "name", c->name);
        put_numbers(p, "mean", c, v->used, MEAN);
        if (v->each > 1) {
            put_numbers(p, "low", c, v->used, LOW);
            put_numbers(p, "high", c, v->used, HIGH);
        }
        rt_json_close(&p->j);
        flush(p);
    }
    rt_json_close_list(&p->j);
    rt_json_close(&p->j);
}

static void put_sets(Page *p, const RtDigest *d)
{
    rt_json_open_list(&p->j, "sets");
    for (int i = 0; i < d->n_sets; i++) {
        rt_json_open(&p->j, NULL);
        rt_json_text(&p->j, "set", d->sets[i]->set);
        rt_json_open_list(&p->j, "records");
        for (int k = 0; k < d->sets[i]->kept; k++)
            put_record(p, NULL, d->sets[i]->record[k]);
        rt_json_close_list(&p->j);
        put_record(p, "matrix", d->sets[i]->matrix);
        rt_json_close(&p->j);
    }
    rt_json_close_list(&p->j);
}

static void put_memory(Page *p, const MpcRun *r)
{
    int64_t of[MPC_USES], used = plan_at_fullest(&r->program->plan, of);
    rt_json_open(&p->j, "memory");
    rt_json_int(&p->j, "arena", (int64_t)r->program->arena_bytes);
    rt_json_int(&p->j, "planned", (int64_t)r->rt->plan_bytes);
    rt_json_int(&p->j, "used", used);
    rt_json_open_list(&p->j, "uses");
    for (int i = 0; i < MPC_USES; i++) {
        rt_json_open(&p->j, NULL);
        rt_json_text(&p->j, "use", plan_use_plural[i]);
        rt_json_int(&p->j, "bytes", of[i]);
        rt_json_close(&p->j);
    }
    rt_json_close_list(&p->j);
    rt_json_close(&p->j);
}

static void put_model(Page *p, const MpcProgram *m)
{
    rt_json_open_list(&p->j, "modules");
    for (int i = 0; i < m->n_modules; i++) {
        rt_json_open(&p->j, NULL);
        rt_json_text(&p->j, "path", m->modules[i].path);
        rt_json_text(&p->j, "kind", m->modules[i].kind);
        rt_json_text(&p->j, "shape", m->modules[i].shape);
        rt_json_int(&p->j, "params", m->modules[i].params);
        rt_json_close(&p->j);
    }
    rt_json_close_list(&p->j);
    rt_json_open_list(&p->j, "kernels");
    for (int i = 0; i < m->n_functions; i++) {
        const MpcKernelRow *k = &m->functions[i];
        rt_json_open(&p->j, NULL);
        rt_json_text(&p->j, "module", k->module);
        rt_json_text(&p->j, "what", k->what);
        rt_json_text(&p->j, "types", k->types);
        rt_json_text(&p->j, "phase", k->phase);
        rt_json_text(&p->j, "why", k->why);
        rt_json_int(&p->j, "line", k->line);
        rt_json_close(&p->j);
        flush(p);
    }
    rt_json_close_list(&p->j);
    rt_json_open_list(&p->j, "classes");
    for (int i = 0; i < m->n_classes; i++)
        rt_json_text(&p->j, NULL, m->classes[i]);
    rt_json_close_list(&p->j);
}

static void put_data(Page *p, const MpcRun *r, const RtDigest *d)
{
    rt_json_start(&p->j);
    rt_json_start(&p->safe);
    rt_json_open(&p->j, NULL);
    put_program(p, r);
    put_record(p, "start", d->start);
    put_record(p, "end", d->end);
    rt_json_int(&p->j, "resumes", d->resumes);
    put_curves(p, &d->curves);
    put_sets(p, d);
    rt_json_int(&p->j, "overflows", d->n_overflows);
    rt_json_open_list(&p->j, "last_overflows");
    for (int64_t i = d->n_overflows - RT_OVERFLOWS; i < d->n_overflows; i++)
        if (i >= 0)
            put_record(p, NULL, d->overflow[i % RT_OVERFLOWS]);
    rt_json_close_list(&p->j);
    put_memory(p, r);
    put_model(p, r->program);
    rt_json_close(&p->j);
    flush(p);
}

/* ---- writing ---- */

static bool write_page(MpcRun *r, RtErr *e)
{
    RtReport *report = r->rt->report;
    char *log = rt_text("%s/log.jsonl", r->rt->out_dir);
    char *path = rt_text("%s/report.html", r->rt->out_dir);
    Page p = {.e = e};
    p.ok = rt_digest_read(&report->digest, log, e) && rt_writer_open(&p.w, path, e);
    bool open = p.ok;
    if (open) {
        p.ok = rt_writer_put(&p.w, rt_report_head, rt_report_head_size, e);
        put_data(&p, r, &report->digest);
        p.ok = p.ok && rt_writer_put(&p.w, rt_report_tail, rt_report_tail_size, e);
        if (!p.ok)
            rt_writer_abort(&p.w);
    }
    bool ok = p.ok && rt_writer_commit(&p.w, e);
    free(p.j.text);
    free(p.safe.text);
    free(log);
    free(path);
    return ok;
}

void rt_report_write(MpcRun *r)
{
    MpcRuntime *rt = r->rt;
    RtErr e;
    if (!rt->out_dir || !rt->report || atomic_flag_test_and_set(&rt->report->busy))
        return;
    double start = rt_seconds();
    if (!rt->report->failed && !write_page(r, &e)) {
        rt->report->failed = true;
        rt_warn(r, "there is no report: %s", e.text);
    }
    rt_profile_span(rt->profile, RT_SPAN_report, start);
    rt->report->at = rt_seconds();
    rt->report->took = rt->report->at - start;
    atomic_flag_clear(&rt->report->busy);
}

bool rt_report_is_there(const MpcRun *r)
{
    return r->rt->report && !r->rt->report->failed;
}

void rt_report_refresh(MpcRun *r)
{
    const RtReport *report = r->rt->report;
    double passed = report ? rt_seconds() - report->at : 0;
    if (report && passed >= soonest && report->took <= most_share * passed)
        rt_report_write(r);
}

void rt_report_open(MpcRun *r)
{
    RtReport *report = rt_alloc_zero(1, sizeof *report);
    atomic_flag_clear(&report->busy);
    report->at = rt_seconds();
    r->rt->report = report;
}
