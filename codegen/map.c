/* map.c: element-wise kernels: loops over the space, the innermost one along contiguous memory. */
#include "codegen/body.h"
#include "codegen/low_rows.h"
#include "codegen/target.h"

enum { DRAW_MAX = 4096 }; /* random numbers that a row holds on the stack */

static const char *const index_name[MAX_RANK] = {"i", "j", "k", "i3", "i4", "i5", "i6", "i7"};

static void stores(Body *b, const LowRows *rows)
{
    body_emit(b, BODY_MAX_DEPTH - 1);
    for (int i = 0; i < b->k->noutputs; i++) {
        low_rows_store(rows, i);
    }
}

void map_emit(Emit *e, Unit *u)
{
    Body b = body_new(e, u);
    const Kernel *k = &u->k;
    int last = k->space.rank - 1;
    for (int i = 0; i <= last; i++) {
        b.axis[i] = b.letter[i] = index_name[i];
        b.depth_of[i] = i == last ? 2 : 1;
    }
    body_guard(&b);
    body_depths(&b);
    LowRows low = last > 0 ? low_rows_new(&b, (RowLoop){.axis = last, .index = b.axis[last]})
                           : low_rows_none(&b);
    low_rows_roots(&low);
    body_emit(&b, 0);
    if (last < 0) {
        stores(&b, &low);
        return;
    }
    const char *row = last == 1 ? "i" : "row";
    const char *rows = last == 0 ? unit_axis(e, u, 0) : unit_rows(e, u, 0, last);
    if (unit_spans(u)) {
        ln(e, "const MpcSpan t = mpc_span(tile, %lld, %s);", (long long)u->each, rows);
        ln_blank(e);
    }
    const char *lo = unit_spans(u) ? "t.lo" : "0", *hi = unit_spans(u) ? "t.hi" : rows;
    if (last == 0) {
        ln_open(e, "for (int64_t i = %s; i < %s; i++)", lo, hi);
        stores(&b, &low);
        ln_close(e, "");
        return;
    }
    ln_open(e, "for (int64_t %s = %s; %s < %s; %s++)", row, lo, row, hi, row);
    unit_unravel(e, u, row, 0, last, b.axis);
    body_emit(&b, 1);
    if (dim_is_const(k->space.d[last]) && k->space.d[last].k <= DRAW_MAX) {
        body_draw(&b, last, k->space.d[last].k);
    }
    low_rows_widen(&low);
    const char *inner = b.axis[last];
    ln_open(e, "for (int64_t %s = 0; %s < %s; %s++)", inner, inner, unit_axis(e, u, last), inner);
    stores(&b, &low);
    ln_close(e, "");
    low_rows_narrow(&low);
    ln_close(e, "");
}
