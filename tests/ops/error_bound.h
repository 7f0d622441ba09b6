/* error_bound.h: by how much a compiled graph may differ from the typed interpreter, element by element.
 *
 * Both round every value to its type, so what is element-wise, moved or compared is the same to the last bit: the
 * bound is 0. Sums, products of matrices and what is made of them may be added in another order: n terms of
 * absolute sum S differ by at most 2 n u S (u: half a unit in the last place of the type that adds up). From there
 * on the bound is carried through the graph: by the largest change of each op within its operands' bounds, plus
 * the roundings. Infinite: anything goes (a comparison that the bound can turn over). */
#ifndef MPC_TEST_ERROR_BOUND_H
#define MPC_TEST_ERROR_BOUND_H

#include "ir/ir.h"

/* values: of all nodes, by the typed interpreter. The bounds by node id, shaped like the values. */
Value **error_bounds(Arena *arena, const Interp *interp, const Graph *g, Value *const *values);

#endif
