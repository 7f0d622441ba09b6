/* index_map.h: which element of a tensor a point of an iteration space needs, as an affine map.
 *
 * Fusion never moves data for a reshape, transpose, expand or slice: it follows the map through them to the tensor
 * that is in memory. A map that is no longer affine (a reshape across transposed axes) says so, and the caller
 * materialises there. */
#ifndef MPC_INDEX_MAP_H
#define MPC_INDEX_MAP_H

#include "ir/ir.h"

/* index of axis d = off[d] + sum over axes i of the space: m[d][i] * index[i] */
typedef struct IndexMap {
    int rank, space_rank;
    Dim off[MAX_RANK];
    Dim m[MAX_RANK][MAX_RANK];
} IndexMap;

/* Row-major element index: offset + sum of stride[i] * index[i]. */
typedef struct Linear {
    Dim offset;
    Dim stride[MAX_RANK];
} Linear;

IndexMap map_identity(const Dims *space);
bool map_moves(Op op); /* a move that a map can follow: not pad, not concat */
/* The map to the operand of a move, from the map to its result. false: not affine. g gives the symbols' bounds. */
bool map_move(const Graph *g, const Dims *space, const Node *move, const IndexMap *map,
              IndexMap *in);
bool map_reshape(const Graph *g, const Dims *space, const Dims *from, const Dims *to,
                 const IndexMap *map, IndexMap *in);
/* The map to an operand that broadcasts to `dims`. */
IndexMap map_operand(const Dims *dims, const Dims *operand, const IndexMap *map);
bool map_linear(const IndexMap *map, const Dims *dims, Linear *out);
bool linear_equal(const Linear *a, const Linear *b, int rank);
bool dim_add(Dim a, Dim b, Dim *out); /* false: not a multiple of the same symbols */
bool dim_is_one(Dim d);

#endif
