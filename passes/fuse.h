/* fuse.h: a decomposed graph as clusters of nodes that will be one kernel each.
 *
 * A node is one of three things:
 *   real     computed by exactly one cluster; in memory if another cluster needs it
 *   virtual  computed wherever it is used: constants, indices, random numbers, moves, casts that widen or that
 *            narrow an argument, comparisons of labels, and maps that only one other node needs
 *   argument in memory from the start
 * A cluster has an iteration space; its nodes are evaluated at its points in order. */
#ifndef MPC_FUSE_H
#define MPC_FUSE_H

#include "ir/base/vec.h"
#include "ir/ir.h"
#include "ir/plan.h"
#include "passes/index_map.h"

typedef VEC(Node *) NodeVec;
typedef VEC(int) IntVec;
typedef VEC(uint64_t) BitVec;

typedef struct Cluster {
    int id;
    KernelKind kind;
    Dims space;    /* Contract: batch.., M, N, K; Col: kept.., reduced..; see plan.h */
    int nreduce;   /* trailing axes of space that results do not have */
    int nn;        /* Contract: axes that N is made of, which the kernel passes as one */
    IndexMap base; /* from space to the node that set it up; for reductions to its operand */
    NodeVec nodes; /* real ones, in order */
    NodeVec reads; /* what it reads from memory: arguments and real nodes of other clusters */
    IntVec needs;  /* clusters of those */
    BitVec after;  /* all clusters that it needs, also through others: one bit each */
    bool copies;   /* a Map whose one node is put together of parts: a pad, concat or interleave */
} Cluster;

typedef VEC(Cluster *) ClusterVec;

typedef struct Fusion {
    Graph *g;
    Arena *arena;
    ClusterVec clusters;
    int *of;       /* by node id: its cluster, -1 for arguments and virtual nodes */
    bool *is_real; /* by node id */
    bool *per_row; /* by node id: real and without the reduced axes of its cluster */
    bool *cheap;   /* by node id: a comparison of labels or the like, made of arguments alone */
    uint8_t *
        light; /* by node id: steps of arithmetic from a value in a low type, see fuse.c; 0: none */
    Node **sink;     /* by node id: virtual because this node alone needs it */
    int cap;         /* of the arrays by node id */
    IntVec *readers; /* by node id: the clusters that read it from memory, once all are made */
} Fusion;

Fusion *fuse_graph(Arena *arena, Graph *g);

/* A space's points seen from a node: the map from the cluster's space to the node's dims. per_row: the node does
 * not vary along the reduced axes. false: the node does not fit the space. */
bool cluster_map(const Fusion *f, const Cluster *c, const Dims *dims, bool *per_row, IndexMap *map);

/* Where a real node of the cluster puts the element of a point: row-major over the space, or over its kept axes. */
bool cluster_canonical(const Cluster *c, bool per_row, Linear *out);

/* Calls fn for each argument and real node that n needs at `map` (from space to n's dims), through what is virtual,
 * with the element it needs. false: fn said so, or there is a move that no map can follow (`blocked` is then the
 * node that must become real). */
typedef bool Visit(void *ctx, Node *root, const Linear *at);
typedef struct Walk {
    const Fusion *f;
    const Cluster *in; /* whose node it is; NULL: of none yet */
    const Dims *space;
    Visit *fn;
    Visit *
        leaf; /* for each iota and uniform, with the number that stands for its element; NULL: not wanted */
    /* for each recompute on the way: its value may be there only once this node is. NULL: not wanted */
    void (*after)(void *ctx, Node *recompute);
    void *ctx;
    Node *blocked;
} Walk;
bool walk_node(Walk *w, Node *n, const IndexMap *map);     /* n itself, if it is a root */
bool walk_operands(Walk *w, Node *n, const IndexMap *map); /* what n is computed from */
bool walk_cluster_node(Walk *w, const Cluster *c,
                       Node *n); /* a real node of c, at all points of c */
/* Maps from a contraction's space to its operands. */
void contract_maps(const Cluster *c, const Node *matmul, IndexMap *a, IndexMap *b);
/* Maps to the indices and the (row 0 of the) table of an embedding. */
void gather_maps(const Node *embedding, const IndexMap *map, IndexMap *indices, IndexMap *row);
/* The tensor in memory that operand i of a convolution is, or is to be: behind reshapes and casts that widen. */
Node *conv_operand(const Fusion *f, const Cluster *in, const Node *n, int i);
/* The map from a cluster's space to the operand of one of its reductions. */
bool reduction_map(const Fusion *f, const Cluster *c, const Node *n, IndexMap *map);
IndexMap random_key_map(const IndexMap *map); /* to the keys of a uniform */
/* What an iota counts, or which element within its sample a uniform is. false: not affine. */
bool leaf_linear(const Node *leaf, const IndexMap *map, Linear *at);
/* fuse_line.c: may n join c, as far as the reduced axes of its kernel must become one? per_row: n does not vary
 * along them. */
bool axes_in_line(const Dims *space, int from, int to,
                  const Dim *stride); /* axes [from, to) are one */
bool fuse_in_line(const Fusion *f, const Cluster *c, Node *n, bool per_row);

/* In memory, or of the cluster itself. What became real after the cluster had computed it for itself, it goes on
 * computing. in NULL: as it is now. */
bool fuse_is_root(const Fusion *f, const Cluster *in, const Node *n);
bool fuse_needs(const Fusion *f, int from, int target); /* also through others */
void fuse_order(Fusion *f, Cluster *c, int id);         /* c runs after cluster id */

#endif
