/* target_cuda.c: the CUDA target: kernels of a grid of threads, on runtime/cuda/prelude.cuh. A kernel takes the struct
 * of arguments that its function in C takes, by value. */
#include "codegen/target.h"
#include "codegen/unit.h"
#include "ir/base/strutil.h"

/* 32 bits where they reach: dividing wider ones is slow on a GPU. */
static const char *index_type(const Unit *u)
{
    return u->most < INT32_MAX / 2 ? "int" : "int64_t";
}

static void open_kernel(Emit *e, const Unit *u, UnitPart part, bool uses_tile, bool uses_worker)
{
    const char *type = index_type(u);
    const char *cast = str_eq(type, "int") ? "(int)" : "";
    (void)part;
    (void)uses_tile;
    (void)uses_worker;
    ln(e, "MPC_KERNEL(%s, %d, %d)(const struct %s args)", u->name, u->grid.threads,
       u->grid.blocks_per_sm, u->name);
    ln_in(e, "{");
    ln(e, "const struct %s *const a = &args;", u->name);
    for (int i = 1; i <= MAX_SYMS; i++) {
        if (u->used_sym[i]) {
            const char *sym = u->graph->syms[i - 1].name;
            ln(e, "const %s %s = %sa->%s;", type, sym, cast, sym);
        }
    }
    if (u->used_n) {
        ln(e, "const %s %s = %sa->n;", type, target_cuda.count, cast);
    }
    for (int i = 0; i < u->k.noperands; i++) {
        if (u->used_pointer[i]) {
            ln(e, "%s%s *%s%s = a->%s;", u->written[i] ? "" : "const ",
               memory_ctype(u->k.operands[i].dtype), u->overlaps[i] ? "" : "MPC_RESTRICT ",
               u->pointer[i], u->pointer[i]);
        }
    }
    ln_blank(e);
}

static void close_kernel(Emit *e)
{
    ln_close(e, "");
}

// clang-format off
const Target target_cuda = {
    .name = "cuda",
    .open_kernel = open_kernel,
    .close_kernel = close_kernel,
    .kind = {
        [KERNEL_Map]      = {[PART_kernel] = cuda_map_emit},
        [KERNEL_Row]      = {[PART_kernel] = cuda_row_emit},
        [KERNEL_Col]      = {[PART_kernel] = cuda_col_emit},
        [KERNEL_Full]     = {[PART_kernel] = cuda_full_emit},
        [KERNEL_Contract] = {[PART_kernel] = cuda_contract_emit},
        [KERNEL_Scatter]  = {[PART_kernel] = cuda_scatter_emit},
        [KIND_conv]       = {[PART_kernel] = cuda_contract_emit},
    },
    .index_type = index_type,
    .count = "n",
};
// clang-format on
