/* cuda_col.c: sums over all but some axes (Col), and over everything (Full).
 *
 * Where neighbours along the last kept axis are neighbours in memory, a block has 32 columns; its warps share the rows and
 * add up what each has. Where the reduced axis is the contiguous one, a warp or a block has a point of the result. */
#include "codegen/cuda/cuda.h"
#include "codegen/target.h"

enum { BLOCK_SUM = 2048 /* elements from which on a block sums for a point */ };

typedef struct Columns {
    Body b;
    Emit *e;
    Unit *u;
    int kept, rank;
    bool *wanted;
    const char **acc;
    const char *count, *type; /* elements of a sum; of indices */
} Columns;

static const Scalar *scalar(const Columns *c, int s)
{
    return &c->u->k.scalars[s];
}

static bool is_sum(const Columns *c, int s)
{
    return c->wanted[s] && scalar(c, s)->kind == SC_reduce;
}

static void open_sums(Columns *c)
{
    for (int s = 0; s < c->u->k.nscalars; s++) {
        if (is_sum(c, s)) {
            if (c->b.stage[s] > 1) {
                ICE("%s: a column reduction of a reduction", c->u->name);
            }
            c->acc[s] = cuda_sum_open(&c->b, s);
            body_root(&c->b, scalar(c, s)->in[0], false);
        }
    }
}

static void add_elements(Columns *c)
{
    body_emit(&c->b, 2);
    for (int s = 0; s < c->u->k.nscalars; s++) {
        if (is_sum(c, s)) {
            reduce_add(&c->b, scalar(c, s), c->acc[s], body_bare(&c->b, scalar(c, s)->in[0]));
        }
    }
}

/* The loop over the elements that are summed, every `step`-th from `first` on. */
static void sum_loop(Columns *c, const char *first, int step)
{
    Emit *e = c->e;
    int reduced = c->rank - c->kept;
    const char *index = reduced == 1 ? c->b.axis[c->kept] : "at";
    ln_open(e, "for (%s %s = %s; %s < %s; %s += %d)", c->type, index, first, index, c->count, index,
            step);
    unit_unravel(e, c->u, index, c->kept, c->rank, c->b.axis);
    add_elements(c);
    ln_close(e, "");
}

/* ---- a point of the result for a warp or a block ------------------------------------------------------ */

static void points(Columns *c)
{
    Emit *e = c->e;
    int64_t elements = 1;
    for (int i = c->kept; i < c->rank; i++) {
        elements *= dim_bound(c->u->graph, c->u->k.space.d[i]);
    }
    CudaGroup g = cuda_group(elements >= BLOCK_SUM ? CUDA_THREADS : CUDA_WARP);
    const char *point = c->kept == 1 ? c->b.axis[0] : "point";
    cuda_open_grid(e, c->u, point, c->kept > 0 ? unit_rows(e, c->u, 0, c->kept) : NULL, g.threads);
    unit_unravel(e, c->u, point, 0, c->kept, c->b.axis);
    open_sums(c);
    body_emit(&c->b, 1);
    ln_blank(e);
    sum_loop(c, g.me, g.threads);
    body_forget(&c->b, 1);
    for (int s = 0; s < c->u->k.nscalars; s++) {
        if (is_sum(c, s)) {
            cuda_sum_close(&c->b, s, c->acc[s], g, c->count, false);
        }
    }
    ln_blank(e);
    ln_open(e, "if (%s == 0)", g.me);
    reduce_store(&c->b, c->kept);
    ln_close(e, "");
}

/* ---- 32 columns for a block ---------------------------------------------------------------------------- */

/* Accumulators of all warps, side by side; the first warp adds them up, in order. */
static void join_warps(Columns *c, int warps)
{
    Emit *e = c->e;
    for (int s = 0; s < c->u->k.nscalars; s++) {
        if (!is_sum(c, s)) {
            continue;
        }
        const char *name = body_name(&c->b, s), *type = wide_ctype(scalar(c, s)->dtype);
        const char *part = names_take(&c->b.names, arena_printf(e->arena, "%s_part", name));
        ln(e, "MPC_SHARED %s %s[%d][MPC_WARP];", type, part, warps);
        ln(e, "%s[mpc_warp()][mpc_lane()] = %s;", part, c->acc[s]);
        c->acc[s] = part;
    }
    ln(e, "mpc_barrier();");
}

static void columns(Columns *c)
{
    Emit *e = c->e;
    const int warps = CUDA_THREADS / CUDA_WARP;
    const char *column = c->kept == 1 ? c->b.axis[0] : "column";
    const char *all = unit_rows(e, c->u, 0, c->kept);
    c->u->grid.blocks = arena_printf(e->arena, "mpc_tiles(%s, %d)", all, CUDA_WARP);
    ln(e, "const %s %s = mpc_block() * MPC_WARP + mpc_lane();", c->type, column);
    unit_unravel(e, c->u, column, 0, c->kept, c->b.axis);
    open_sums(c);
    ln_blank(e);
    ln_open(e, "if (%s < %s)", column, all);
    body_emit(&c->b, 1);
    sum_loop(c, "mpc_warp()", warps);
    ln_close(e, "");
    body_forget(&c->b, 0);
    join_warps(c, warps);
    ln_blank(e);
    ln_open(e, "if (mpc_warp() == 0 && %s < %s)", column, all);
    for (int s = 0; s < c->u->k.nscalars; s++) {
        if (!is_sum(c, s)) {
            continue;
        }
        const Scalar *v = scalar(c, s);
        const char *total = names_take(&c->b.names, body_name(&c->b, s));
        ln(e, "%s %s = %s[0][mpc_lane()];", wide_ctype(v->dtype), total, c->acc[s]);
        ln_in(e, "for (int w = 1; w < %d; w++)", warps);
        reduce_add(&c->b, v, total, arena_printf(e->arena, "%s[w][mpc_lane()]", c->acc[s]));
        ln_out(e);
        const char *text = reduce_finish(&c->b, v, total, c->count, false);
        body_set(&c->b, s, text == total ? total : arena_printf(e->arena, "(%s)", text));
    }
    reduce_store(&c->b, c->kept);
    ln_close(e, "");
}

static Columns columns_new(Emit *e, Unit *u, int kept)
{
    Columns c = {.b = body_new(e, u), .e = e, .u = u, .rank = u->k.space.rank, .kept = kept};
    for (int i = 0; i < c.rank; i++) {
        c.b.axis[i] = c.b.letter[i] = cuda_index[i];
        c.b.depth_of[i] = i < kept ? 1 : 2;
    }
    c.b.reduce_depth = 1;
    c.type = unit_index_type(e, u);
    c.acc = ARENA_ARRAY(e->arena, const char *, u->k.nscalars + 1);
    u->grid = (UnitGrid){.threads = CUDA_THREADS, .blocks_per_sm = 1};
    body_guard(&c.b);
    body_depths(&c.b);
    c.wanted = reduce_wanted(&c.b);
    c.count = u->k.any_size ? unit_axis(e, u, 0) : unit_rows(e, u, kept, c.rank);
    c.count = c.count != NULL ? c.count : "1";
    return c;
}

void cuda_col_emit(Emit *e, Unit *u)
{
    Columns c = columns_new(e, u, u->k.space.rank - u->k.nreduce);
    if (c.kept > 0 && reduce_along_columns(&c.b, c.wanted, c.kept)) {
        columns(&c);
    } else {
        points(&c);
    }
}

/* ---- everything ------------------------------------------------------------------------------------------ */

/* Block i sums a piece of axis 0 into element i of the results. */
void cuda_full_emit(Emit *e, Unit *u)
{
    Columns c = columns_new(e, u, 0);
    CudaGroup g = cuda_group(CUDA_THREADS);
    const char *index = c.rank == 1 ? c.b.axis[0] : "at", *end = c.count, *first = g.me;
    bool pieces = u->k.ntiles > 1;
    u->grid.blocks = arena_printf(e->arena, "%d", u->k.ntiles);
    if (pieces) {
        ln(e, "const %s each = (%s + %d) / %d;", c.type, c.count, u->k.ntiles - 1, u->k.ntiles);
        ln(e, "const %s low = mpc_block() * each;", c.type);
        ln(e, "const %s high = %s - low < each ? %s : low + each;", c.type, c.count, c.count);
        first = "low + mpc_thread()";
        end = "high";
    }
    open_sums(&c);
    body_emit(&c.b, 1);
    ln_blank(e);
    ln_open(e, "for (%s %s = %s; %s < %s; %s += %d)", c.type, index, first, index, end, index,
            CUDA_THREADS);
    unit_unravel(e, u, index, 0, c.rank, c.b.axis);
    add_elements(&c);
    ln_close(e, "");
    body_forget(&c.b, 1);
    for (int s = 0; s < u->k.nscalars; s++) {
        if (is_sum(&c, s)) {
            cuda_sum_close(&c.b, s, c.acc[s], g, c.count, false);
        }
    }
    c.b.stage_now = 1;
    for (int i = 0; i < u->k.noutputs; i++) {
        body_root(&c.b, u->k.outputs[i].scalar, true);
    }
    ln_blank(e);
    ln_open(e, "if (mpc_thread() == 0)");
    body_emit(&c.b, 1);
    for (int i = 0; i < u->k.noutputs; i++) {
        const KOutput *out = &u->k.outputs[i];
        ln(e, "%s[%s] = %s;", unit_pointer(u, out->at.operand), pieces ? "mpc_block()" : "0",
           body_memory(&c.b, out->scalar, u->k.operands[out->at.operand].dtype));
    }
    ln_close(e, "");
}
