/* reduce.h: what the reducing kernels share: names, starts and steps of their accumulators. */
#ifndef MPC_CODEGEN_REDUCE_H
#define MPC_CODEGEN_REDUCE_H

#include "codegen/body.h"

extern const char
    *const reduce_lanes[OP_COUNT]; /* what a reducing op is called in kernels/rows.h */

bool *reduce_wanted(Body *b);                        /* scalars that some output needs */
const char *reduce_start(Arena *a, const Scalar *v); /* first value of an accumulator */
void reduce_add(Body *b, const Scalar *v, const char *to, const char *element);
/* The result of `count` elements whose joined value is `text`; is_const: count is a number of v's type. */
const char *reduce_finish(Body *b, const Scalar *v, const char *text, const char *count,
                          bool is_const);

/* ---- reduce_parts.c: rows, by stages: number n of them is what can be done once n reductions are complete ---- */

typedef struct RowParts {
    const Body *b;
    const bool *wanted;
    int last, stages; /* the axis; the last stage */
    bool late_stores; /* results lie over operands: nothing is stored before the last loop */
} RowParts;
RowParts row_parts(const Body *b, const bool *wanted); /* after body_depths */
bool row_element_output(const RowParts *r,
                        int i); /* output i has an element for each of the row's */
bool row_stores_at(const RowParts *r, int i, int stage);
bool row_reduces_at(const RowParts *r, int s, int stage);
/* Does a later loop use element value s, which the loop of this stage computes? */
bool row_needed_later(const RowParts *r, int s, int stage);
/* What there is one of in a row, once all is reduced: is there any? Then it is needed, and stored. */
bool row_need_results(Body *b, const RowParts *r);
void row_store_results(Body *b, const RowParts *r);

/* ---- and columns: the first `kept` axes are ---- */

/* Sums go on along the last kept axis, side by side, unless only the reduced axis is contiguous. */
bool reduce_along_columns(const Body *b, const bool *wanted, int kept);
void reduce_store(Body *b, int kept); /* the outputs, once the sums are complete */

#endif
