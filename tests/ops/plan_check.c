/* plan_check.c: see plan_check.h. */
#include "tests/ops/plan_check.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct Check {
    const Plan *p;
    const GraphPlan *gp;
    const Buffer **owner; /* by byte of the transient area: who wrote it last */
    bool ok;
} Check;

static void wrong(Check *c, int launch, const Buffer *b, const char *what)
{
    fprintf(stderr, "graph %s, launch %d: %s: %s\n", c->gp->graph->name, launch, b->name, what);
    c->ok = false;
}

static bool is_transient(const Buffer *b)
{
    return b->place == PLACE_transient || b->place == PLACE_prepare;
}

static int64_t area(const Check *c)
{
    bool prepares = c->gp->graph->role == GRAPH_Prepare;
    return prepares ? c->p->prepare_bytes : c->p->transient_bytes;
}

static void take(Check *c, int launch, const Buffer *b)
{
    if (!is_transient(b)) {
        return;
    }
    if (b->offset % ARENA_ALIGN != 0 || b->offset < 0 || b->offset + b->bytes > area(c)) {
        wrong(c, launch, b, "its place is not aligned or not inside");
        return;
    }
    for (int64_t i = 0; i < b->bytes; i++) {
        c->owner[b->offset + i] = b;
    }
}

static void need(Check *c, int launch, const Buffer *b)
{
    for (int64_t i = 0; is_transient(b) && i < b->bytes; i++) {
        if (c->owner[b->offset + i] != b) {
            wrong(c, launch, b, "is read, but another buffer was written over it, or nothing yet");
            return;
        }
    }
}

/* Operands that the kernel's scalars load; a scatter has none. */
static bool is_read(const Kernel *k, int operand)
{
    if (k->kind == KERNEL_Scatter) {
        return operand < 2;
    }
    for (int s = 0; s < k->nscalars; s++) {
        if (k->scalars[s].kind == SC_load && k->scalars[s].at.operand == operand) {
            return true;
        }
    }
    return false;
}

static bool overlap(const Buffer *a, const Buffer *b)
{
    if (a == b) {
        return true;
    }
    return a->place == b->place && is_transient(a) && a->graph == b->graph &&
           a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Within a launch all calls run at the same time. */
static void check_pair(Check *c, int launch, const KCall *x, const KCall *y)
{
    for (int i = 0; i < x->kernel->noperands; i++) {
        for (int k = 0; x->kernel->operands[i].written && k < y->kernel->noperands; k++) {
            const Buffer *a = x->buffers[i], *b = y->buffers[k];
            bool parts = a == b && !is_read(x->kernel, i) && !is_read(y->kernel, k);
            if (overlap(a, b) && !parts) {
                wrong(c, launch, a, "is written while another call of the launch uses it");
            }
        }
    }
}

static void check_launch(Check *c, int number)
{
    const Launch *l = &c->gp->launches[number];
    for (int i = 0; i < l->ncalls; i++) {
        const KCall *call = &l->calls[i];
        for (int k = 0; k < call->kernel->noperands; k++) {
            if (is_read(call->kernel, k)) {
                need(c, number, call->buffers[k]);
            }
        }
        for (int k = 0; k < l->ncalls; k++) {
            if (i != k) {
                check_pair(c, number, call, &l->calls[k]);
            }
        }
    }
    for (int i = 0; i < l->ncalls; i++) {
        const KCall *call = &l->calls[i];
        for (int k = 0; k < call->kernel->noperands; k++) {
            if (call->kernel->operands[k].written) {
                take(c, number, call->buffers[k]);
            }
        }
    }
}

static void check_graph(Check *c)
{
    const GraphPlan *gp = c->gp;
    c->owner = calloc((size_t)area(c) + 1, sizeof c->owner[0]);
    for (int i = 0; i < gp->nnumbers_in; i++) {
        take(c, -1, gp->numbers_in[i].buffer);
    }
    for (int l = 0; l < gp->nlaunches; l++) {
        check_launch(c, l);
    }
    for (int i = 0; i < gp->nnumbers_out; i++) {
        need(c, gp->nlaunches, gp->numbers_out[i].buffer);
    }
    free(c->owner);
}

static void check_persistent(Check *c)
{
    int64_t end = 0;
    for (int i = 0; i < c->p->nbuffers; i++) {
        const Buffer *b = c->p->buffers[i];
        if (b->place == PLACE_persistent) { /* laid out in order */
            c->ok = c->ok && b->offset % ARENA_ALIGN == 0 && b->offset >= end;
            end = b->offset + b->bytes;
        }
    }
    c->ok = c->ok && end <= c->p->persistent_bytes;
    c->ok = c->ok && c->p->lower_bound <= c->p->transient_bytes;
}

bool plan_check(const Plan *p)
{
    Check c = {.p = p, .ok = true};
    check_persistent(&c);
    if (!c.ok) {
        fputs("tensors that outlive a step overlap or are not aligned\n", stderr);
    }
    for (int i = 0; i < p->ngraphs; i++) {
        c.gp = &p->graphs[i];
        check_graph(&c);
    }
    return c.ok;
}
