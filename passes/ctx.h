/* ctx.h: what the passes share: their context, a map from nodes, and rebuilding a graph in order.
 *
 * Most passes rewrite a graph by walking its nodes once: rebuild_begin() empties the list, each old node is
 * looked at with its operands already new, and is either kept or replaced by nodes that the Builder appends.
 * So whatever a pass inserts stands right before its first use, and no pass computes positions. */
#ifndef MPC_PASS_CTX_H
#define MPC_PASS_CTX_H

#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/ir.h"
#include "passes/pass.h"

typedef struct PassCtx {
    Module *m;
    const PassOptions *opt;
    Diag *diag;
    Arena *arena;       /* the module's */
    Arena *scratch;     /* freed after the pass */
    PassCounts *counts; /* never NULL */
} PassCtx;

#define PASS(name, meaning) bool pass_##name(PassCtx *c);
#include "passes/passes.def"

/* Node -> pointer, by address. A zeroed one is empty. */
typedef struct NodeMap {
    int n, cap;
    struct NodeSlot {
        const Node *key;
        void *value;
    } * slot;
} NodeMap;
void *node_map_get(const NodeMap *map, const Node *key); /* NULL when absent */
void node_map_put(Arena *arena, NodeMap *map, const Node *key, void *value);

typedef struct Rebuild {
    Graph *g;
    int n;
    Node **old; /* the nodes as they were, ids 0 .. n-1 */
    NodeMap to; /* replaced nodes */
    Arena *scratch;
} Rebuild;

Rebuild rebuild_begin(Graph *g, Arena *scratch);
void rebuild_operands(Rebuild *r, Node *n); /* looks the operands of n up in `to` */
void rebuild_keep(Rebuild *r, Node *n);     /* appends n to the graph */
void rebuild_replace(Rebuild *r, const Node *n, Node *by);
void rebuild_end(Rebuild *r); /* results look up, too; ids renumbered */

/* The argument of a role, made in front of the graph's other nodes when there is none yet. */
Node *pass_arg(PassCtx *c, Graph *g, AttrId role, const char *name, DType dt, const Dims *dims);

bool pass_is_float(DType dt);          /* f64, f32 and the low types */
Node *pass_behind_moves(Node *n);      /* below reshape, transpose and expand */
const Attr *pass_param(const Node *n); /* the param attribute of an argument, else NULL */
double pass_expr_const(const HostExpr *e, bool *known); /* the number of a constant expression */

int checkpoint_levels(const Module *m); /* the highest of the pass checkpoint; 0: no graph trains */

/* verify_passes.c. `before` is a copy made by verify_copy(). */
Module *verify_copy(Arena *arena, const Module *m);
bool verify_pass(PassCtx *c, PassId id, const Module *before);

#endif
