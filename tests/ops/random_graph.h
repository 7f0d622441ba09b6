/* random_graph.h: a graph of any ops that fit together, made from a number alone.
 *
 * Which kind is the number modulo 4: 0 element-wise ops, moves, gathers and comparisons only (exact); 1 all ops;
 * 2 all ops, over a batch of symbolic size; 3 all ops and the gradients of what they come to. */
#ifndef MPC_TEST_RANDOM_GRAPH_H
#define MPC_TEST_RANDOM_GRAPH_H

#include "tests/ops/run_program.h"

enum { RANDOM_ROWS = 7, RANDOM_BOUND = 9 }; /* samples in the batch, and the most there could be */

/* The fields of a batch as numbers, row after row. */
typedef struct RandomField {
    const char *name, *type, *columns; /* "u: f32[5]" is name u, type f32[5] */
    DType dtype;
    Dims dims; /* without the sample */
    double *v;
} RandomField;

/* Fills the program's table; NULL at the end (name). */
const RandomField *random_fields(Program *p, uint64_t seed);
void random_graph(Program *p, const RandomField *fields, uint64_t seed);

#endif
