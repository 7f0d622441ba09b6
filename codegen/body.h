/* body.h: a kernel's scalars as C expressions.
 *
 * The emitter of a kind opens its loops and says by which index each axis is known and how deep its loop is;
 * body_emit() then declares what that depth can compute and no shallower one could. So what does not vary
 * along an inner loop stands before it. */
#ifndef MPC_CODEGEN_BODY_H
#define MPC_CODEGEN_BODY_H

#include "codegen/emit.h"
#include "codegen/unit.h"

enum { BODY_MAX_DEPTH = 3 };

/* The texts of a value: in arithmetic, and as memory holds it (NULL: made from the other on demand). */
typedef struct Spelling {
    const char *wide, *narrow;
    bool atomic; /* wide needs no parentheses */
} Spelling;

typedef struct Body {
    Emit *e;
    Unit *u;
    const Kernel *k;
    Names names;
    const char *axis[MAX_RANK];   /* index of each axis */
    const char *letter[MAX_RANK]; /* short form for names of values: "i" */
    int depth_of[MAX_RANK];       /* of each axis' loop, from 0 */
    Spelling *value;              /* by scalar */
    const char **place;           /* of a load: where it has been put; NULL: in memory */
    const char **local;           /* name once given */
    bool *needed;
    int *depth, *wide_uses, *narrow_uses;
    bool *unrounded;  /* who uses it rounds it */
    int *stage;       /* reductions that must be complete before it: 0, 1, ... */
    int stage_now;    /* those that are */
    int reduce_depth; /* of reductions' results: 1 where they belong to a row */
} Body;

Body body_new(Emit *e, Unit *u);
void body_depths(Body *b); /* after axis and depth_of are set */
void body_root(Body *b, int scalar,
               bool narrow);        /* needed, for a store (narrow) or a computation */
void body_emit(Body *b, int depth); /* declares what is needed down to that depth */
void body_guard(Body *b);           /* returns early where the kernel says so */
void body_set(Body *b, int scalar, const char *text); /* its value, as the emitter computed it */
void body_forget(Body *b, int depth); /* values at that depth and deeper, and what is needed */
const char *body_wide(Body *b, int scalar);             /* as an operand */
const char *body_bare(Body *b, int scalar);             /* where a whole expression may stand */
const char *body_memory(Body *b, int scalar, DType dt); /* as memory of that type holds it */
const char *body_element(Body *b, const Access *at);    /* "x[i * 512 + j]" */
const char *body_index(Body *b, const Access *at);      /* "i * 512 + j" */
const char *body_name(Body *b, int scalar);             /* of the variable that holds it */
void body_store(Body *b, const KOutput *out);
/* After all roots of a kernel that is computed in one go: what is rounded when it is stored is not rounded before. */
void body_round_late(Body *b);
/* Draws the random numbers of a loop along `axis`, `length` long, before it, four with one counter. */
void body_draw(Body *b, int axis, int64_t length);
bool body_is_costly(const Body *b, int scalar); /* worth keeping rather than computing twice */
/* contract.c, also for convolutions: loops over the register tiles that `next` yields. */
void contract_finish(Emit *e, Unit *u, Body *b, const char *next);
bool access_varies(const Access *at, int axis);

#endif
