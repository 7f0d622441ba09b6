/* target.h: what differs between the languages that kernels are spelled in, as a record. No emitter asks
 * which target it works for; it calls the record. */
#ifndef MPC_CODEGEN_TARGET_H
#define MPC_CODEGEN_TARGET_H

#include "codegen/emit.h"

/* A contraction has three functions: what packs operands is called by the two kernels. */
typedef enum UnitPart { PART_kernel, PART_pack, PART_operands } UnitPart;

struct Target {
    const char *name;
    /* The head of a kernel's function down to its named pointers, of what its text uses; the end of it. */
    void (*open_kernel)(Emit *e, const Unit *u, UnitPart part, bool uses_tile, bool uses_worker);
    void (*close_kernel)(Emit *e);
    /* What an element in memory is in arithmetic, and back: "mpc_f16_to_f32(x[i])". */
    const char *(*widen)(Arena *a, DType dt, const char *element);
    const char *(*narrow)(Arena *a, DType dt, DType from, const char *value);
    const char *(*function_suffix)(DType dt); /* of the functions in the op table: "_f32" */
};

extern const Target target_c;

#endif
