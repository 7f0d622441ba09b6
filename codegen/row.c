/* row.c: kernels that reduce along rows: softmax, norms, losses.
 *
 * A row is passed once for each reduction that needs the one before it. Rows of 32 elements and more go through
 * the lanes of runtime/kernels/rows.h, shorter ones are added one by one. A row that fits is held on the stack, so
 * that costly values are computed once; a longer one is passed in blocks and recomputed. */
#include "codegen/reduce.h"
#include "codegen/target.h"

enum { LANES = 32, ROW_MAX = 4096 };

static const char *const index_name[MAX_RANK] = {"i", "j", "k", "i3", "i4", "i5", "i6", "i7"};

static const Scalar *scalar(const Body *b, int s)
{
    return &b->k->scalars[s];
}

typedef struct Rows {
    Body b;
    Emit *e;
    Unit *u;
    RowParts parts;
    bool *wanted;
    bool is_const;     /* the row's length */
    int64_t length;    /* when it is */
    const char *count; /* as text */
    const char **kept; /* scalar -> row buffer that holds it, once a loop filled it */
} Rows;

static bool on_lanes(const Rows *r, const Scalar *v)
{
    bool is_float = dtype_info[v->dtype].is_float;
    return is_float && (!r->is_const || r->length >= LANES);
}

static bool in_blocks(const Rows *r)
{
    return !r->is_const || r->length > ROW_MAX;
}

/* A row of f32 or f64 that lies in memory as it is. */
static bool is_row_in_memory(const Rows *r, int s, DType dt)
{
    const Scalar *v = scalar(&r->b, s);
    return v->kind == SC_load && v->dtype == dt &&
           dim_equal(v->at.stride[r->parts.last], dim_of(1)) &&
           (v->at.index < 0 || r->b.depth[v->at.index] < 2);
}

/* Values of the loop that go into a buffer: what lanes sum, and what is dear to compute again. */
static bool wants_buffer(const Rows *r, int s, int stage)
{
    const Body *b = &r->b;
    const Scalar *v = scalar(b, s);
    if (!r->wanted[s] || b->depth[s] != 2 || b->stage[s] > stage || r->kept[s] != NULL ||
        v->kind == SC_cast || !b->needed[s]) {
        return false;
    }
    return !in_blocks(r) && dtype_info[v->dtype].is_float && body_is_costly(b, s) &&
           row_needed_later(&r->parts, s, stage);
}

static void restore_kept(Rows *r)
{
    for (int s = 0; s < r->b.k->nscalars; s++) {
        if (r->kept[s] != NULL) {
            body_set(&r->b, s, arena_printf(r->e->arena, "%s[j]", r->kept[s]));
        }
    }
}

static const char *new_buffer(Rows *r, int s, DType dt, const char *length)
{
    const Scalar *v = scalar(&r->b, s);
    const char *base = v->name != NULL      ? v->name
                       : v->kind == SC_op   ? op_info[v->op].name
                       : v->kind == SC_load ? r->u->pointer[v->at.operand]
                                            : "value";
    const char *name = names_take(&r->b.names, arena_printf(r->e->arena, "%s_row", base));
    ln(r->e, "%s %s[%s];", wide_ctype(dt), name, length);
    return name;
}

typedef struct Sum {
    int scalar;
    const char *buffer;    /* filled by the loop; NULL: accumulates in place, or lies in memory */
    const char *in_memory; /* the row itself */
    const char *lanes;
} Sum;

static void open_sums(Rows *r, Sum *sums, int n)
{
    for (int i = 0; i < n; i++) {
        const Scalar *v = scalar(&r->b, sums[i].scalar);
        DType dt = wide_type(v->dtype);
        const char *name = body_name(&r->b, sums[i].scalar);
        if (!on_lanes(r, v)) {
            ln(r->e, "%s %s = %s;", wide_ctype(v->dtype), name, reduce_start(r->e->arena, v));
        } else if (is_row_in_memory(r, v->in[0], dt) && !in_blocks(r)) {
            Access at = scalar(&r->b, v->in[0])->at;
            at.stride[r->parts.last] = dim_of(0);
            sums[i].in_memory = arena_printf(r->e->arena, "&%s", body_element(&r->b, &at));
        } else if (r->kept[v->in[0]] != NULL && wide_type(scalar(&r->b, v->in[0])->dtype) == dt) {
            sums[i].in_memory = r->kept[v->in[0]];
        } else if (in_blocks(r)) {
            sums[i].lanes = names_take(&r->b.names, arena_printf(r->e->arena, "%s_lanes", name));
            ln(r->e, "MpcLanes_%s_%s %s = mpc_%s_begin_%s();", reduce_lanes[v->op],
               dtype_info[dt].name, sums[i].lanes, reduce_lanes[v->op], dtype_info[dt].name);
        } else {
            sums[i].buffer = new_buffer(r, v->in[0], dt, r->count);
        }
    }
}

static void close_sums(Rows *r, const Sum *sums, int n)
{
    Arena *a = r->e->arena;
    for (int i = 0; i < n; i++) {
        int s = sums[i].scalar;
        const Scalar *v = scalar(&r->b, s);
        DType dt = wide_type(v->dtype);
        const char *name = body_name(&r->b, s), *type = dtype_info[dt].name;
        const char *count = r->is_const ? number_text(a, dt, (double)r->length) : r->count;
        if (!on_lanes(r, v)) {
            const char *text = reduce_finish(&r->b, v, name, count, r->is_const);
            body_set(&r->b, s, name);
            if (text != name) {
                ln(r->e, "%s = %s;", name, text);
            }
            continue;
        }
        const char *row = sums[i].in_memory != NULL ? sums[i].in_memory : sums[i].buffer;
        const char *text =
            sums[i].lanes != NULL
                ? arena_printf(a, "mpc_%s_end_%s(%s)", reduce_lanes[v->op], type, sums[i].lanes)
                : arena_printf(a, "mpc_%s_row_%s(%s, %s)", reduce_lanes[v->op], type, row,
                               r->count);
        ln(r->e, "const %s %s = %s;", wide_ctype(v->dtype), name,
           reduce_finish(&r->b, v, text, count, r->is_const));
        body_set(&r->b, s, name);
        if (sums[i].buffer != NULL && r->kept[v->in[0]] == NULL &&
            wide_type(scalar(&r->b, v->in[0])->dtype) == dt) {
            r->kept[v->in[0]] = sums[i].buffer;
        }
    }
}

/* The inside of one loop along the row. */
static void row_loop_body(Rows *r, const Sum *sums, int nsums, int stage,
                          const char *const *buffers)
{
    Body *b = &r->b;
    body_emit(b, 2);
    const char *at = in_blocks(r) ? "j - s.lo" : "j";
    for (int i = 0; i < b->k->noutputs; i++) {
        if (row_stores_at(&r->parts, i, stage)) {
            body_store(b, &b->k->outputs[i]);
        }
    }
    for (int s = 0; s < b->k->nscalars; s++) {
        if (buffers[s] != NULL) {
            ln(r->e, "%s[j] = %s;", buffers[s], body_bare(b, s));
        }
    }
    for (int i = 0; i < nsums; i++) {
        const Scalar *v = scalar(b, sums[i].scalar);
        const char *element = sums[i].in_memory != NULL ? NULL : body_bare(b, v->in[0]);
        if (!on_lanes(r, v)) {
            reduce_add(b, v, body_name(b, sums[i].scalar), body_wide(b, v->in[0]));
        } else if (sums[i].lanes != NULL) {
            ln(r->e, "%s_block[%s] = %s;", sums[i].lanes, at, element);
        } else if (sums[i].buffer != NULL) {
            ln(r->e, "%s[%s] = %s;", sums[i].buffer, at, element);
        }
    }
}

static void row_loop(Rows *r, const Sum *sums, int nsums, int stage, const char *const *buffers)
{
    if (!in_blocks(r)) {
        ln_open(r->e, "for (int64_t j = 0; j < %s; j++)", r->count);
        row_loop_body(r, sums, nsums, stage, buffers);
        ln_close(r->e, "");
        return;
    }
    ln_open(r->e,
            "for (MpcSpan s = mpc_span(0, MPC_BLOCK, %s); s.lo < s.hi; s = mpc_next_span(s, "
            "MPC_BLOCK, %s))",
            r->count, r->count);
    for (int i = 0; i < nsums; i++) {
        if (sums[i].lanes != NULL) {
            ln(r->e, "%s %s_block[MPC_BLOCK];", wide_ctype(scalar(&r->b, sums[i].scalar)->dtype),
               sums[i].lanes);
        }
    }
    ln_open(r->e, "for (int64_t j = s.lo; j < s.hi; j++)");
    row_loop_body(r, sums, nsums, stage, buffers);
    ln_close(r->e, "");
    for (int i = 0; i < nsums; i++) {
        const Scalar *v = scalar(&r->b, sums[i].scalar);
        if (sums[i].lanes != NULL) {
            ln(r->e, "mpc_%s_add_%s(&%s, %s_block, s.hi - s.lo);", reduce_lanes[v->op],
               dtype_info[wide_type(v->dtype)].name, sums[i].lanes, sums[i].lanes);
        }
    }
    ln_close(r->e, "");
}

/* Everything that can be done when `stage` reductions are complete. */
static void row_stage(Rows *r, int stage)
{
    Body *b = &r->b;
    Sum *sums = ARENA_ARRAY(r->e->arena, Sum, b->k->nscalars + 1);
    int nsums = 0;
    bool has_loop = false;
    b->stage_now = stage;
    body_forget(b, 2);
    restore_kept(r);
    for (int s = 0; s < b->k->nscalars; s++) {
        if (row_reduces_at(&r->parts, s, stage)) {
            sums[nsums++].scalar = s;
        }
    }
    for (int i = 0; i < b->k->noutputs; i++) {
        if (row_stores_at(&r->parts, i, stage)) {
            body_root(b, b->k->outputs[i].scalar, true);
            has_loop = true;
        }
    }
    for (int i = 0; i < nsums; i++) {
        body_root(b, scalar(b, sums[i].scalar)->in[0], false);
    }
    body_emit(b, 1);
    open_sums(r, sums, nsums);
    const char **buffers = ARENA_ARRAY(r->e->arena, const char *, b->k->nscalars + 1);
    for (int s = 0; s < b->k->nscalars; s++) {
        bool is_summed = false;
        for (int i = 0; i < nsums; i++) {
            is_summed |=
                sums[i].buffer != NULL && scalar(b, sums[i].scalar)->in[0] == s &&
                wide_type(scalar(b, s)->dtype) == wide_type(scalar(b, sums[i].scalar)->dtype);
        }
        if (!is_summed && wants_buffer(r, s, stage)) {
            b->wide_uses[s]++; /* its store */
            buffers[s] = new_buffer(r, s, wide_type(scalar(b, s)->dtype), r->count);
        }
    }
    for (int i = 0; i < nsums; i++) {
        has_loop |= sums[i].in_memory == NULL;
    }
    if (has_loop && !in_blocks(r)) {
        body_draw(b, r->parts.last, r->length);
    }
    if (has_loop) {
        row_loop(r, sums, nsums, stage, buffers);
    }
    for (int s = 0; s < b->k->nscalars; s++) {
        if (buffers[s] != NULL) {
            r->kept[s] = buffers[s];
        }
    }
    close_sums(r, sums, nsums);
}

static void row_results(Rows *r)
{
    body_forget(&r->b, 2);
    if (row_need_results(&r->b, &r->parts)) {
        row_store_results(&r->b, &r->parts);
    }
}

void row_emit(Emit *e, Unit *u)
{
    Rows r = {.b = body_new(e, u), .e = e, .u = u};
    const int last = u->k.space.rank - 1;
    Body *b = &r.b;
    Dim length = u->k.space.d[last];
    r.is_const = dim_is_const(length);
    r.length = length.k;
    r.count = unit_axis(e, u, last);
    r.kept = ARENA_ARRAY(e->arena, const char *, u->k.nscalars + 1);
    for (int i = 0; i < last; i++) {
        b->axis[i] = b->letter[i] = last == 1 ? "i" : i == 0 ? "i" : index_name[i + 1];
        b->depth_of[i] = 1;
    }
    b->axis[last] = b->letter[last] = "j";
    b->depth_of[last] = 2;
    body_guard(b);
    body_depths(b);
    r.wanted = reduce_wanted(b);
    r.parts = row_parts(b, r.wanted);
    for (int s = 0; s < u->k.nscalars; s++) {
        if (r.wanted[s] && scalar(b, s)->kind != SC_reduce) {
            body_root(b, s, false);
        }
    }
    body_emit(b, 0);
    const char *row = last == 1 ? "i" : "row";
    if (last > 0) {
        const char *rows = unit_rows(e, u, 0, last);
        if (unit_spans(u)) {
            ln(e, "const MpcSpan t = mpc_span(tile, %lld, %s);", (long long)u->each, rows);
            ln_blank(e);
        }
        ln_open(e, "for (int64_t %s = %s; %s < %s; %s++)", row, unit_spans(u) ? "t.lo" : "0", row,
                unit_spans(u) ? "t.hi" : rows, row);
        unit_unravel(e, u, row, 0, last, b->axis);
    }
    for (int stage = 0; stage <= r.parts.stages; stage++) {
        row_stage(&r, stage);
    }
    row_results(&r);
    if (last > 0) {
        ln_close(e, "");
    }
}
