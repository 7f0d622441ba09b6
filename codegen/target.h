/* target.h: what differs between the languages that kernels are spelled in, as a record. No emitter asks
 * which target it works for; it calls the record. */
#ifndef MPC_CODEGEN_TARGET_H
#define MPC_CODEGEN_TARGET_H

#include "codegen/emit.h"

/* The functions that a kernel may have, in the order of the text. A contraction's operands are packed by what the two
 * others call. */
typedef enum UnitPart { PART_operands, PART_pack, PART_kernel, UNIT_PARTS } UnitPart;

enum { KIND_conv = KERNEL_KINDS }; /* contractions through windows have a row of their own */

typedef void UnitEmitter(Emit *e, Unit *u);

struct Target {
    const char *name;
    /* The head of a kernel's function down to its named pointers, of what its text uses; the end of it. */
    void (*open_kernel)(Emit *e, const Unit *u, UnitPart part, bool uses_tile, bool uses_worker);
    void (*close_kernel)(Emit *e);
    UnitEmitter *kind[KERNEL_KINDS + 1][UNIT_PARTS]; /* what a function does; NULL: there is none */
    const char *(*index_type)(const Unit *u);        /* of indices and numbers of elements */
    const char *count; /* the number of elements of any_size kernels */
};

extern const Target target_c, target_cuda;

#endif
