/* plan_text.h: the text of a memory plan: mpc --plan and a program's --plan print the same.
 *
 * Every buffer with its life, what it is for and where it comes from; then what the arena is made of at its
 * fullest moment. Long lists are folded to the largest buffers unless everything is asked for. 100 columns.
 */
#ifndef MPC_PLAN_TEXT_H
#define MPC_PLAN_TEXT_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "plan_table.h"

enum { PLAN_FOLD = 16, PLAN_COLUMNS = 100 };

/* 1234567 as 1,234,567. */
static inline const char *plan_count(char text[32], int64_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)n), at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = 0;
    return text;
}

/* Cuts a line at PLAN_COLUMNS; UTF-8 stays whole. */
static inline void plan_line(FILE *out, const char *line)
{
    size_t n = strlen(line), cut = PLAN_COLUMNS - 3;
    if (n <= PLAN_COLUMNS) {
        fprintf(out, "%s\n", line);
        return;
    }
    while (cut > 0 && ((unsigned char)line[cut] & 0xc0) == 0x80)
        cut--;
    fprintf(out, "%.*s...\n", (int)cut, line);
}

static inline void plan_row(FILE *out, const MpcPlanRow *r, bool full)
{
    static const char *const use[] = {
#define USE(name, plural) #name,
        MPC_PLAN_USES(USE)
#undef USE
    };
    char bytes[32], life[32] = "always", place[24] = "", origin[16] = "-", line[320];
    if (r->graph >= 0)
        snprintf(life, sizeof life, "%d..%d", r->first, r->last);
    if (full)
        snprintf(place, sizeof place, "0x%07llx ", (unsigned long long)r->offset);
    if (r->line > 0)
        snprintf(origin, sizeof origin, "%d", r->line);
    snprintf(line, sizeof line, "%s%13s  %-9s %-4s %5s  %-10s %-24s %s", place,
             plan_count(bytes, r->bytes), life, r->type, origin, use[r->use], r->name, r->what);
    plan_line(out, line);
}

/* The largest row of a graph that comes after `before` in the order of size; -1: there is none. */
static inline int plan_next(const MpcPlan *p, int graph, int before)
{
    int best = -1;
    for (int i = 0; i < p->nrows; i++) {
        int64_t bytes = p->rows[i].bytes, most = best >= 0 ? p->rows[best].bytes : -1;
        bool after = before < 0 || bytes < p->rows[before].bytes ||
                     (bytes == p->rows[before].bytes && i > before);
        if (p->rows[i].graph == graph && after && bytes > most)
            best = i;
    }
    return best;
}

static inline void plan_rows(FILE *out, const MpcPlan *p, int graph, bool full)
{
    char text[32];
    int rows = 0, shown = 0;
    int64_t left = 0;
    for (int i = 0; i < p->nrows; i++) {
        rows += p->rows[i].graph == graph;
        left += p->rows[i].graph == graph ? p->rows[i].bytes : 0;
    }
    fprintf(out, "%s%13s  %-9s %-4s %5s  %-10s %-24s %s\n", full ? "    place " : "", "bytes",
            "life", "type", "line", "use", "buffer", "what");
    for (int i = 0; i < p->nrows && full; i++)
        if (p->rows[i].graph == graph)
            plan_row(out, &p->rows[i], true);
    if (full)
        return;
    bool fold = rows > PLAN_FOLD + 1;
    for (int at = plan_next(p, graph, -1); at >= 0 && (!fold || shown < PLAN_FOLD);
         at = plan_next(p, graph, at), shown++) {
        plan_row(out, &p->rows[at], false);
        left -= p->rows[at].bytes;
    }
    if (fold)
        fprintf(out, "%13s  in %d smaller ones, which --plan=full lists\n", plan_count(text, left),
                rows - shown);
}

static inline void plan_graph(FILE *out, const MpcPlan *p, int graph, bool full)
{
    const MpcPlanGraph *g = &p->graphs[graph];
    char bytes[32], bound[32], line[320];
    bool named = g->launches && g->fullest >= 0 && g->fullest < g->nlaunches;
    snprintf(line, sizeof line, "of @%s, %d launches: %s bytes, %s of them live at launch %d%s%s",
             g->name, g->nlaunches, plan_count(bytes, g->bytes), plan_count(bound, g->bound),
             g->fullest, named ? ", " : "", named ? g->launches[g->fullest] : "");
    fputs("\n", out);
    plan_line(out, line);
    plan_rows(out, p, graph, full);
    for (int i = 0; i < g->nlaunches && g->launches && full; i++)
        fprintf(out, "%13s %4d  %s\n", i ? "" : "launches", i, g->launches[i]);
}

/* The graph whose transients are the largest, -1: none has any. */
static inline int plan_largest(const MpcPlan *p)
{
    int largest = -1;
    for (int i = 0; i < p->ngraphs; i++)
        if (p->graphs[i].bytes > 0 &&
            (largest < 0 || p->graphs[i].bytes > p->graphs[largest].bytes))
            largest = i;
    return largest;
}

static inline void plan_share(FILE *out, const MpcPlan *p, const char *name, int64_t bytes)
{
    char text[32], each[32] = "";
    if (p->parameters > 0)
        snprintf(each, sizeof each, "%.2f", (double)bytes / (double)p->parameters);
    fprintf(out, "%-28s %14s bytes  %6.1f %%  %10s\n", name, plan_count(text, bytes),
            p->arena > 0 ? 100.0 * (double)bytes / (double)p->arena : 0.0, each);
}

/* What the arena holds when it is fullest, by use; the sum. */
static inline int64_t plan_at_fullest(const MpcPlan *p, int64_t of[MPC_USES])
{
    int64_t used = 0;
    int at = plan_largest(p);
    memset(of, 0, MPC_USES * sizeof *of);
    for (int i = 0; i < p->nrows; i++) {
        const MpcPlanRow *r = &p->rows[i];
        int moment = at >= 0 ? p->graphs[at].fullest : 0;
        if (r->graph < 0 || (r->graph == at && r->first <= moment && moment <= r->last)) {
            of[r->use] += r->bytes;
            used += r->bytes;
        }
    }
    return used;
}

static const char *const plan_use_plural[] = {
#define USE(name, words) words,
    MPC_PLAN_USES(USE)
#undef USE
};

static inline void plan_totals(FILE *out, const MpcPlan *p)
{
    int64_t of[MPC_USES], used = plan_at_fullest(p, of);
    char text[32];
    fprintf(out, "\n%-28s %14s        %7s   %10s\n", "the arena at its fullest", "", "share",
            "a parameter");
    for (int i = 0; i < MPC_USES; i++)
        if (of[i] > 0)
            plan_share(out, p, plan_use_plural[i], of[i]);
    plan_share(out, p, "between buffers", p->arena - used);
    plan_share(out, p, "arena", p->arena);
    fprintf(out, "%-28s %14s bytes  the plan is %.1f %% above it\n", "lower bound",
            plan_count(text, p->bound),
            p->bound > 0 ? 100.0 * (double)(p->arena - p->bound) / (double)p->bound : 0.0);
    if (p->again > 0)
        fprintf(out, "%-28s %14d ops    as `with checkpoint` says\n", "recomputed in the backward",
                p->again);
    if (p->again_short > 0)
        fprintf(out, "%-28s %14d ops    so that the arena fits into the memory given\n",
                "recomputed in the backward", p->again_short);
}

static inline void plan_text(FILE *out, const MpcPlan *p, bool full)
{
    char text[32];
    fprintf(out, "\noutlives the steps: %s bytes\n", plan_count(text, p->lasting));
    plan_rows(out, p, -1, full);
    for (int i = 0; i < p->ngraphs; i++)
        if (p->graphs[i].bytes > 0)
            plan_graph(out, p, i, full);
    plan_totals(out, p);
}

#endif
