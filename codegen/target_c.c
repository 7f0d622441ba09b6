/* target_c.c: the C target: functions that run on the workers of libmpcrt.a. */
#include <string.h>

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

static const char *widen(Arena *a, DType dt, const char *element)
{
    return dtype_is_low(dt) ? arena_printf(a, "mpc_%s_to_f32(%s)", dtype_info[dt].name, element)
                            : element;
}

static const char *narrow(Arena *a, DType dt, DType from, const char *value)
{
    if (dtype_is_low(dt)) {
        if (from == DT_f32) {
            return arena_printf(a, "mpc_f32_to_%s(%s)", dtype_info[dt].name, value);
        }
        /* every integer below 2^53 is exact in double, and rounded once from there */
        return arena_printf(a, "mpc_f64_to_%s(%s)", dtype_info[dt].name, value);
    }
    if (dt == DT_bool) {
        return from == DT_bool ? value : arena_printf(a, "(%s) != 0", value);
    }
    if (dtype_info[dt].is_int && dtype_info[from].is_float) {
        if (from == DT_f64 && dt != DT_i64) {
            return arena_printf(a, "(%s)mpc_f64_to_i64(%s)", dtype_info[dt].ctype, value);
        }
        return arena_printf(a, "mpc_%s_to_%s(%s)", dtype_info[from].name, dtype_info[dt].name,
                            value);
    }
    bool simple = strpbrk(value, " ?") == NULL;
    return arena_printf(a, simple ? "(%s)%s" : "(%s)(%s)", dtype_info[dt].ctype, value);
}

static const char *function_suffix(DType dt)
{
    return dt == DT_f32 ? "" : dt == DT_f64 ? "_f64" : "_i64";
}

const Target target_c = {
    .name = "c",
    .open_kernel = open_kernel,
    .close_kernel = close_kernel,
    .widen = widen,
    .narrow = narrow,
    .function_suffix = function_suffix,
};
