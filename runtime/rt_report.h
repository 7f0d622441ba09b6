/* rt_report.h: report.html, and what is kept for it of a log of any length. */
#ifndef MPC_RT_REPORT_H
#define MPC_RT_REPORT_H

#include "rt_util.h"

#include <stdio.h>

enum { RT_BUCKETS = 500, RT_COLUMNS = 20, RT_EVALUATIONS = 300, RT_OVERFLOWS = 100, RT_SETS = 8 };
enum { RT_NAME = 160 }; /* of names with their end; what has a longer one is left out */

/* One number of the step records: of each bucket of steps the sum, the extremes and how many there were. */
typedef struct RtColumn {
    char name[RT_NAME];
    double sum[RT_BUCKETS];
    float low[RT_BUCKETS], high[RT_BUCKETS];
    int32_t n[RT_BUCKETS];
} RtColumn;

/* Step records in at most RT_BUCKETS buckets of the same number of records; when they are full, neighbours are
 * joined. A number that is not finite makes its bucket not finite: it is not averaged away. */
typedef struct RtCurves {
    int64_t each, records; /* records in a bucket; of the log so far */
    int used;              /* buckets */
    int64_t step[RT_BUCKETS], epoch[RT_BUCKETS];
    RtColumn *column[RT_COLUMNS];
    int n_columns;
} RtCurves;

/* Evaluations of a set: at most RT_EVALUATIONS, one in `every`, and the last one. */
typedef struct RtEvaluations {
    char set[RT_NAME];
    char *record[RT_EVALUATIONS]; /* as JSON, without lists */
    char *matrix;                 /* the last record with a list: a confusion matrix; or NULL */
    int kept;
    int64_t every, n;
} RtEvaluations;

/* What a log says, as far as it has been read. Memory is bounded, whatever its length. */
typedef struct RtDigest {
    int64_t offset; /* bytes of the log that are in it */
    RtCurves curves;
    RtEvaluations *sets[RT_SETS];
    int n_sets;
    char *start, *end;            /* the last record of each kind, or NULL */
    char *overflow[RT_OVERFLOWS]; /* the last ones: number i at i % RT_OVERFLOWS */
    int64_t n_overflows, pending_overflows, resumes;
} RtDigest;

void rt_digest_line(RtDigest *d, const char *line, size_t n); /* a record, without the newline */
bool rt_digest_read(RtDigest *d, const char *log, RtErr *e);
void rt_digest_free(RtDigest *d);

/* JSON inside of an HTML script element: nothing in it can end the element. */
void rt_html_json(RtJson *out, const char *json, size_t n);

/* report.html of CMake's making: `data` goes between the two parts. */
extern const unsigned char rt_report_head[], rt_report_tail[];
extern const size_t rt_report_head_size, rt_report_tail_size;

#endif
