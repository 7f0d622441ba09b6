/* verify.h: what verify.c, verify_host.c and verify_data.c share. */
#ifndef MPC_IR_VERIFY_H
#define MPC_IR_VERIFY_H

#include "ir/ir.h"

typedef struct Verify {
    const Module *m;
    const Graph *g; /* the graph and the node that are looked at; NULL outside */
    const Node *n;
    Diag *diag;
    Arena *scratch;
    bool ok;
} Verify;

void verify_fail(Verify *v, Loc loc, const char *fmt, ...) MPC_PRINTF(3, 4);
void verify_expr(Verify *v, const HostExpr *e, Loc loc);
void verify_host(Verify *v);
void verify_data(Verify *v, const Decl *d);
void verify_loader(Verify *v, const Decl *d);
void verify_batch(Verify *v, const Graph *g,
                  const char *loader); /* what g takes from its batches */

#endif
