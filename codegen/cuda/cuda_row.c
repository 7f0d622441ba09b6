/* cuda_row.c: kernels that reduce along rows: a warp has a row, or a block has a long one.
 *
 * A row is passed once for each reduction that needs the one before it. One whose length is known and not too large
 * stays in registers, a thread's part of it in an array that is indexed by constants only: memory is read once and
 * what is dear is computed once. Others are passed again. */
#include "codegen/cuda/cuda.h"
#include "codegen/target.h"

enum {
    ELEMENTS = 16,  /* of a row that a thread holds at most */
    REGISTERS = 64, /* for such elements */
    WARP_ROW = 1024 /* longer rows get a block */
};

typedef struct Rows {
    Body b;
    Emit *e;
    Unit *u;
    RowParts parts;
    bool *wanted;
    bool is_const;     /* the row's length */
    int64_t length;    /* its bound */
    const char *count; /* as text */
    CudaGroup group;
    int each;          /* elements of a thread, where the row is held; 0: it is not */
    const char **kept; /* scalar -> array that holds it */
    int registers;     /* that arrays take */
} Rows;

static const Scalar *scalar(const Rows *r, int s)
{
    return &r->b.k->scalars[s];
}

/* What this stage's loop is to leave in registers: elements read, and values that are dear. */
static bool is_to_keep(const Rows *r, int s, int stage)
{
    const Body *b = &r->b;
    bool worth = scalar(r, s)->kind == SC_load || body_is_costly(b, s);
    return r->each > 0 && r->registers + r->each <= REGISTERS && r->wanted[s] && b->needed[s] &&
           b->depth[s] == 2 && b->stage[s] <= stage && r->kept[s] == NULL && worth &&
           scalar(r, s)->kind != SC_cast && row_needed_later(&r->parts, s, stage);
}

static void keep(Rows *r, int s)
{
    const Scalar *v = scalar(r, s);
    const char *base = v->kind == SC_load ? r->u->pointer[v->at.operand]
                       : v->name != NULL  ? v->name
                       : v->kind == SC_op ? op_info[v->op].name
                                          : "value";
    r->kept[s] = names_take(&r->b.names, arena_printf(r->e->arena, "%s_row", base));
    r->registers += r->each;
    r->b.wide_uses[s] += 2; /* so that it has a name */
    ln(r->e, "%s %s[%d];", wide_ctype(v->dtype), r->kept[s], r->each);
}

static void open_loop(Rows *r)
{
    Emit *e = r->e;
    const char *type = unit_index_type(e, r->u);
    if (r->each == 0) {
        ln_open(e, "for (%s j = %s; j < %s; j += %d)", type, r->group.me, r->count,
                r->group.threads);
        return;
    }
    ln(e, "MPC_UNROLL");
    ln_open(e, "for (int e = 0; e < %d; e++)", r->each);
    ln(e, "const %s j = e * %d + %s;", type, r->group.threads, r->group.me);
    ln_blank(e);
    if (r->length % r->group.threads != 0) {
        ln_in(e, "if (j >= %s)", r->count);
        ln(e, "break;");
        ln_out(e);
    }
}

static void stage_loop(Rows *r, int stage, const char *const *acc, const bool *fresh)
{
    Body *b = &r->b;
    bool stores = false;
    for (int i = 0; i < b->k->noutputs; i++) {
        stores |= row_stores_at(&r->parts, i, stage);
    }
    if (stores && r->parts.late_stores) {
        ln(r->e, r->group.threads == CUDA_WARP ? "mpc_warp_barrier();" : "mpc_barrier();");
    }
    open_loop(r);
    body_emit(b, 2);
    for (int i = 0; i < b->k->noutputs; i++) {
        if (row_stores_at(&r->parts, i, stage)) {
            body_store(b, &b->k->outputs[i]);
        }
    }
    for (int s = 0; s < b->k->nscalars; s++) {
        if (fresh[s]) {
            ln(r->e, "%s[e] = %s;", r->kept[s], body_bare(b, s));
        }
    }
    for (int s = 0; s < b->k->nscalars; s++) {
        if (acc[s] != NULL) {
            reduce_add(b, scalar(r, s), acc[s], body_wide(b, scalar(r, s)->in[0]));
        }
    }
    ln_close(r->e, "");
}

/* Everything that can be done when `stage` reductions are complete. */
static void row_stage(Rows *r, int stage)
{
    Body *b = &r->b;
    Arena *a = r->e->arena;
    bool has_loop = false;
    b->stage_now = stage;
    body_forget(b, 2);
    for (int s = 0; s < b->k->nscalars; s++) {
        if (r->kept[s] != NULL) {
            body_set(b, s, arena_printf(a, "%s[e]", r->kept[s]));
        }
    }
    for (int i = 0; i < b->k->noutputs; i++) {
        if (row_stores_at(&r->parts, i, stage)) {
            body_root(b, b->k->outputs[i].scalar, true);
            has_loop = true;
        }
    }
    for (int s = 0; s < b->k->nscalars; s++) {
        if (row_reduces_at(&r->parts, s, stage)) {
            body_root(b, scalar(r, s)->in[0], false);
            has_loop = true;
        }
    }
    body_emit(b, 1);
    if (!has_loop) {
        return;
    }
    const char **acc = ARENA_ARRAY(a, const char *, b->k->nscalars + 1);
    bool *fresh = ARENA_ARRAY(a, bool, b->k->nscalars + 1);
    for (int s = 0; s < b->k->nscalars; s++) {
        if (row_reduces_at(&r->parts, s, stage)) {
            acc[s] = cuda_sum_open(b, s);
        } else if (is_to_keep(r, s, stage)) {
            keep(r, s);
            fresh[s] = true;
        }
    }
    stage_loop(r, stage, acc, fresh);
    for (int s = 0; s < b->k->nscalars; s++) {
        if (acc[s] != NULL) {
            DType dt = wide_type(scalar(r, s)->dtype);
            const char *count = r->is_const ? number_text(a, dt, (double)r->length) : r->count;
            cuda_sum_close(b, s, acc[s], r->group, count, r->is_const);
        }
    }
}

/* What there is one of in a row. */
static void row_results(Rows *r)
{
    body_forget(&r->b, 2);
    if (row_need_results(&r->b, &r->parts)) {
        ln_blank(r->e);
        ln_open(r->e, "if (%s == 0)", r->group.me);
        row_store_results(&r->b, &r->parts);
        ln_close(r->e, "");
    }
}

static void choose_group(Rows *r)
{
    bool warp = r->is_const ? r->length <= ELEMENTS * CUDA_WARP : r->length <= WARP_ROW;
    r->group = cuda_group(warp ? CUDA_WARP : CUDA_THREADS);
    int64_t each = (r->length + r->group.threads - 1) / r->group.threads;
    r->each = r->is_const && each <= ELEMENTS ? (int)each : 0;
}

void cuda_row_emit(Emit *e, Unit *u)
{
    Rows r = {.b = body_new(e, u), .e = e, .u = u};
    const int last = u->k.space.rank - 1;
    Body *b = &r.b;
    Dim length = u->k.space.d[last];
    r.is_const = dim_is_const(length);
    r.length = dim_bound(u->graph, length);
    r.count = unit_axis(e, u, last);
    r.kept = ARENA_ARRAY(e->arena, const char *, u->k.nscalars + 1);
    choose_group(&r);
    u->grid = (UnitGrid){.threads = CUDA_THREADS, .blocks_per_sm = 1};
    for (int i = 0; i < last; i++) {
        b->axis[i] = b->letter[i] = i == 0 ? "i" : cuda_index[i + 1];
        b->depth_of[i] = 1;
    }
    b->axis[last] = b->letter[last] = "j";
    b->depth_of[last] = 2;
    body_guard(b);
    body_depths(b);
    r.wanted = reduce_wanted(b);
    r.parts = row_parts(b, r.wanted);
    const char *row = last == 1 ? "i" : "row";
    cuda_open_grid(e, u, row, last > 0 ? unit_rows(e, u, 0, last) : NULL, r.group.threads);
    if (last > 0) {
        unit_unravel(e, u, row, 0, last, b->axis);
    }
    for (int s = 0; s < u->k.nscalars; s++) {
        if (r.wanted[s] && u->k.scalars[s].kind != SC_reduce) {
            body_root(b, s, false);
        }
    }
    body_emit(b, 0);
    ln_blank(e);
    for (int stage = 0; stage <= r.parts.stages; stage++) {
        row_stage(&r, stage);
    }
    row_results(&r);
}
