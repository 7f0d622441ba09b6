/* low_rows.h: rows of 16-bit elements that a loop computes with in f32. See low_rows.c. */
#ifndef MPC_CODEGEN_LOW_ROWS_H
#define MPC_CODEGEN_LOW_ROWS_H

#include "codegen/body.h"

enum { LOW_ROWS_MAX = 16 }; /* buffers of a kernel */

/* Elements of one operand that lie between the first and the last of those that a row needs. */
typedef struct LowRow {
    Access first;   /* the first of them, the row's axis left out */
    int64_t step;   /* from one element of the row to the next */
    int64_t length; /* of the buffer */
    DType dtype;
    bool is_output;
    const char *name; /* of the buffer */
} LowRow;

/* How the loop runs: over all of an axis, of known length, or over part of it. */
typedef struct RowLoop {
    int axis;
    const char *index;                /* in the loop, from 0 */
    const char *start, *count, *most; /* "t.j", "t.n", "MPC_NR"; NULL: all of the axis */
} RowLoop;

typedef struct LowRows {
    Body *b;
    RowLoop loop;
    int count;
    LowRow row[LOW_ROWS_MAX];
} LowRows;

/* Which outputs of a loop are rounded behind it; before body_root(). */
LowRows low_rows_new(Body *b, RowLoop loop);
LowRows low_rows_none(Body *b);
void low_rows_roots(const LowRows *r);             /* body_root() of the kernel's outputs */
void low_rows_widen(LowRows *r);                   /* declares the buffers, before the loop */
void low_rows_store(const LowRows *r, int output); /* an element of any output, in the loop */
void low_rows_narrow(const LowRows *r);            /* behind the loop */

#endif
