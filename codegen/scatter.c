/* scatter.c: rows added up by index (the gradient of a table). A tile owns some rows of the result and takes from
 * the source, in order, what belongs there: no two tiles write the same row, every sum has one order. */
#include "codegen/body.h"
#include "codegen/target.h"

enum { SOURCE, INDICES, RESULT };

void scatter_emit(Emit *e, Unit *u)
{
    DType from = u->k.operands[SOURCE].dtype, to = u->k.operands[RESULT].dtype;
    const char *source = unit_pointer(u, SOURCE), *indices = unit_pointer(u, INDICES);
    const char *result = unit_pointer(u, RESULT), *width = unit_dim(e, u, u->k.space.d[1]);
    Body b = body_new(e, u);
    u->used_n = u->ever_n = true;
    ln(e, "const MpcSpan t = mpc_span(tile, %lld, %s);", (long long)u->each, unit_axis(e, u, 0));
    body_guard(&b);
    ln_blank(e);
    ln_in(e, "for (int64_t i = t.lo * %s; i < t.hi * %s; i++)", width, width);
    ln(e, "%s[i] = 0;", result);
    ln_out(e);
    ln_open(e, "for (int64_t i = 0; i < a->n; i++)");
    ln(e, "const int64_t row = (int64_t)%s[i];", indices);
    ln_blank(e);
    ln_in(e, "if (row >= t.lo && row < t.hi)");
    ln_in(e, "for (int64_t j = 0; j < %s; j++)", width);
    ln(e, "%s[row * %s + j] += %s;", result, width,
       widened(e->arena, from, arena_printf(e->arena, "%s[i * %s + j]", source, width)));
    ln_out(e);
    ln_out(e);
    ln_close(e, "");
    if (dtype_is_low(to)) {
        ICE("%s: a scatter into %s", u->name, dtype_info[to].name);
    }
}
