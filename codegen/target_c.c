/* target_c.c: the C target: functions that run on the workers of libmpcrt.a. */
#include "codegen/target.h"
#include "codegen/unit.h"

static void open_kernel(Emit *e, const Unit *u, UnitPart part, bool uses_tile, bool uses_worker)
{
    const Kernel *k = &u->k;
    if (part == PART_operands) {
        ln(e, "static void %s(const struct %s *a, const MpcGemm *g%s)", u->operands_name, u->name,
           k->nbatch > 0 ? ", int64_t batch" : "");
        ln_in(e, "{");
        uses_tile = uses_worker = true; /* it has neither */
    } else {
        ln(e, "static void %s(const void *args, int tile, const MpcWorker *w)",
           part == PART_pack ? u->pack_name : u->name);
        ln_in(e, "{");
        ln(e, "const struct %s *a = args;", u->name);
    }
    for (int i = 1; i <= MAX_SYMS; i++) {
        if (u->used_sym[i]) {
            const char *sym = u->graph->syms[i - 1].name;
            ln(e, "const int64_t %s = a->%s;", sym, sym);
        }
    }
    for (int i = 0; i < k->noperands; i++) {
        if (u->used_pointer[i]) {
            bool packed = k->kind == KERNEL_Contract && (i == k->packed_a || i == k->packed_b);
            bool writes = packed || u->written[i];
            ln(e, "%s%s *%s%s = a->%s;", writes ? "" : "const ", memory_ctype(k->operands[i].dtype),
               u->overlaps[i] ? "" : "restrict ", u->pointer[i], u->pointer[i]);
        }
    }
    if (!uses_tile) {
        ln(e, "(void)tile;");
    }
    if (!uses_worker) {
        ln(e, "(void)w;");
    }
    ln_blank(e);
}

static void close_kernel(Emit *e)
{
    ln_close(e, "");
}

static const char *index_type(const Unit *u)
{
    (void)u;
    return "int64_t";
}

// clang-format off
const Target target_c = {
    .name = "c",
    .open_kernel = open_kernel,
    .close_kernel = close_kernel,
    .kind = {
        [KERNEL_Map]      = {[PART_kernel] = map_emit},
        [KERNEL_Row]      = {[PART_kernel] = row_emit},
        [KERNEL_Col]      = {[PART_kernel] = col_emit},
        [KERNEL_Full]     = {[PART_kernel] = full_emit},
        [KERNEL_Contract] = {[PART_operands] = contract_operands_emit, [PART_pack] = contract_pack_emit,
                             [PART_kernel] = contract_emit},
        [KERNEL_Scatter]  = {[PART_kernel] = scatter_emit},
        [KIND_conv]       = {[PART_pack] = conv_pack_emit, [PART_kernel] = conv_emit},
    },
    .index_type = index_type,
    .count = "a->n",
};
// clang-format on
