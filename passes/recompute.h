/* recompute.h: values of checkpoint regions, computed a second time for the backward.
 *
 * A region's nodes are copied where the backward first needs one of them; what the region takes from outside (but
 * for parameters and constants) goes through `recompute`, which waits for the gradient that arrives there. So only
 * what goes into a region is kept, and the second computation stands as late as it can. Random numbers are keyed,
 * so the copies have the same values. After Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016. */
#ifndef MPC_RECOMPUTE_H
#define MPC_RECOMPUTE_H

#include "passes/ctx.h"

typedef struct Recompute {
    Graph *g;
    Arena *scratch;
    NodeMap copies; /* of one backward */
    NodeMap inputs; /* of the region at hand */
    int region;
    Node *after; /* the gradient that arrived there first */
} Recompute;

/* n, or its copy if it stands in a region; dy is n's gradient. */
Node *recompute_node(Recompute *r, Node *n, Node *dy);
/* What something computed for that node's backward reads for x. */
Node *recompute_operand(Recompute *r, Node *x);

#endif
