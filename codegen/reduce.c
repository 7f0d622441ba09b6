/* reduce.c: kernels that reduce columns (sums over the batch) and everything; rows are in row.c.
 *
 * The order of additions follows from the shape alone: columns that lie side by side are added one by one; the
 * points of a full reduction, and of a column that lies along memory, go through the lanes of runtime/kernels/rows.h,
 * block after block. */
#include "codegen/reduce.h"

#include <string.h>

#include "codegen/target.h"

enum { ROW_MAX = 1024 }; /* elements that are held at once */

static const char *const index_name[MAX_RANK] = {"i", "j", "k", "i3", "i4", "i5", "i6", "i7"};

/* What the reducing ops are called in rows.h. */
const char *const reduce_lanes[OP_COUNT] = {
    [OP_sum] = "sum",
    [OP_mean] = "sum",
    [OP_amax] = "max",
    [OP_amin] = "min",
};

static const Scalar *scalar(const Body *b, int s)
{
    return &b->k->scalars[s];
}

const char *reduce_start(Arena *a, const Scalar *v)
{
    DType dt = wide_type(v->dtype);
    if (v->op == OP_sum || v->op == OP_mean) {
        return dtype_info[dt].is_float ? number_text(a, dt, 0) : "0";
    }
    bool largest = v->op == OP_amax;
    if (dtype_info[dt].is_float) {
        return number_text(a, dt, largest ? -1.0 / 0.0 : 1.0 / 0.0);
    }
    if (dt == DT_bool) {
        return largest ? "0" : "1";
    }
    int bits = dtype_info[dt].bytes * 8;
    return arena_printf(a, "%sINT%d_%s", dt == DT_u8 ? "U" : "", bits,
                        dt == DT_u8 && largest ? "C(0)"
                        : largest              ? "MIN"
                                               : "MAX");
}

/* One more element for an accumulator. */
void reduce_add(Body *b, const Scalar *v, const char *to, const char *element)
{
    Arena *a = b->e->arena;
    DType dt = wide_type(v->dtype);
    if (v->op == OP_sum || v->op == OP_mean) {
        size_t n = strlen(element);
        bool wrapped = element[0] == '(' && strchr(element, ')') == element + n - 1;
        ln(b->e, "%s += %.*s;", to, wrapped ? (int)n - 2 : (int)n, element + wrapped);
    } else if (dtype_info[dt].is_float) {
        ln(b->e, "%s = mpc_%s%s(%s, %s);", to, reduce_lanes[v->op], function_suffix(dt), element,
           to);
    } else {
        const char *sign = v->op == OP_amax ? ">" : "<";
        element = strchr(element, ' ') != NULL ? arena_printf(a, "(%s)", element) : element;
        ln(b->e, "%s = %s;", to,
           arena_printf(a, "%s %s %s ? %s : %s", element, sign, to, element, to));
    }
}

/* The result of a reduction of `count` elements whose joined value is `text`. */
const char *reduce_finish(Body *b, const Scalar *v, const char *text, const char *count,
                          bool is_const)
{
    Arena *a = b->e->arena;
    if (v->op == OP_mean) {
        text = is_const ? arena_printf(a, "%s / %s", text, count)
                        : arena_printf(a, "%s / (%s)(%s)", text, wide_ctype(v->dtype), count);
    }
    if (dtype_is_low(v->dtype)) {
        const char *bits = narrowed(a, v->dtype, DT_f32, text);
        text = widened(a, v->dtype, bits);
    }
    return text;
}

/* Scalars that some output needs. */
bool *reduce_wanted(Body *b)
{
    bool *wanted = ARENA_ARRAY(b->e->arena, bool, b->k->nscalars + 1);
    for (int i = 0; i < b->k->noutputs; i++) {
        wanted[b->k->outputs[i].scalar] = true;
    }
    for (int s = b->k->nscalars - 1; s >= 0; s--) {
        const Scalar *v = scalar(b, s);
        for (int i = 0; wanted[s] && i < v->nin; i++) {
            wanted[v->in[i]] = true;
        }
        bool has_access = v->kind == SC_load || v->kind == SC_index || v->kind == SC_uniform;
        if (wanted[s] && has_access && v->at.index >= 0) {
            wanted[v->at.index] = true;
        }
    }
    return wanted;
}

/* ---- lanes ----------------------------------------------------------------------------------------- */

/* Summed in the lanes of rows.h, block after block; else in one variable. */
static bool in_lanes(const Body *b, const bool *wanted, int s)
{
    return wanted[s] && scalar(b, s)->kind == SC_reduce && dtype_info[scalar(b, s)->dtype].is_float;
}

/* One accumulator for each sum. */
static void lanes_begin(Body *b, const bool *wanted)
{
    for (int s = 0; s < b->k->nscalars; s++) {
        const Scalar *v = scalar(b, s);
        const char *type = dtype_info[wide_type(v->dtype)].name;
        if (in_lanes(b, wanted, s)) {
            ln(b->e, "MpcLanes_%s_%s %s_lanes = mpc_%s_begin_%s();", reduce_lanes[v->op], type,
               body_name(b, s), reduce_lanes[v->op], type);
        } else if (wanted[s] && v->kind == SC_reduce) {
            ln(b->e, "%s %s = %s;", wide_ctype(v->dtype), body_name(b, s),
               reduce_start(b->e->arena, v));
        }
    }
}

/* Room for a block of elements. */
static void lanes_block(Body *b, const bool *wanted, const char *size)
{
    for (int s = 0; s < b->k->nscalars; s++) {
        if (in_lanes(b, wanted, s)) {
            ln(b->e, "%s %s_block[%s];", wide_ctype(scalar(b, s)->dtype), body_name(b, s), size);
        }
    }
}

/* Adds an element, or keeps it as number `index` of a block. */
static void lanes_keep(Body *b, const bool *wanted, const char *index)
{
    for (int s = 0; s < b->k->nscalars; s++) {
        const Scalar *v = scalar(b, s);
        if (in_lanes(b, wanted, s)) {
            ln(b->e, "%s_block[%s] = %s;", body_name(b, s), index, body_bare(b, v->in[0]));
        } else if (wanted[s] && v->kind == SC_reduce) {
            reduce_add(b, v, body_name(b, s), body_wide(b, v->in[0]));
        }
    }
}

static void lanes_add(Body *b, const bool *wanted, const char *count)
{
    for (int s = 0; s < b->k->nscalars; s++) {
        const Scalar *v = scalar(b, s);
        if (in_lanes(b, wanted, s)) {
            ln(b->e, "mpc_%s_add_%s(&%s_lanes, %s_block, %s);", reduce_lanes[v->op],
               dtype_info[wide_type(v->dtype)].name, body_name(b, s), body_name(b, s), count);
        }
    }
}

/* The results, of `count` elements each. */
static void lanes_end(Body *b, const bool *wanted, const char *count)
{
    for (int s = 0; s < b->k->nscalars; s++) {
        const Scalar *v = scalar(b, s);
        if (!wanted[s] || v->kind != SC_reduce) {
            continue;
        }
        const char *name = body_name(b, s), *text = name;
        if (in_lanes(b, wanted, s)) {
            text = arena_printf(b->e->arena, "mpc_%s_end_%s(%s_lanes)", reduce_lanes[v->op],
                                dtype_info[wide_type(v->dtype)].name, name);
        }
        text = reduce_finish(b, v, text, count, false);
        if (text != name) {
            ln(b->e, "const %s %s = %s;", wide_ctype(v->dtype), name, text);
        }
        body_set(b, s, name);
    }
}

/* ---- everything ------------------------------------------------------------------------------------ */

/* The axes along which something varies; the others (of a broadcast) need no index. */
static void used_axes(Body *b, const bool *wanted, const char *names[static MAX_RANK])
{
    for (int s = 0; s < b->k->nscalars; s++) {
        const Scalar *v = scalar(b, s);
        bool has_access = v->kind == SC_load || v->kind == SC_index || v->kind == SC_uniform;
        for (int i = 0; wanted[s] && has_access && i < b->k->space.rank; i++) {
            names[i] = access_varies(&v->at, i) ? b->axis[i] : names[i];
        }
    }
}

void full_emit(Emit *e, Unit *u)
{
    Body b = body_new(e, u);
    int rank = u->k.space.rank;
    const char *n = u->k.any_size ? unit_axis(e, u, 0) : unit_rows(e, u, 0, rank);
    const char *flat = rank <= 1 ? "i" : "at";
    for (int i = 0; i < rank; i++) {
        b.axis[i] = b.letter[i] = index_name[i];
        b.depth_of[i] = 2;
    }
    body_guard(&b);
    b.reduce_depth = 0;
    body_depths(&b);
    bool *wanted = reduce_wanted(&b);
    for (int s = 0; s < u->k.nscalars; s++) {
        if (wanted[s] && scalar(&b, s)->kind == SC_reduce) {
            body_root(&b, scalar(&b, s)->in[0], false);
        }
    }
    body_emit(&b, 0);
    ln(e, "const int64_t n = %s;", n != NULL ? n : "1");
    if (u->k.ntiles > 1) {
        ln(e, "const MpcSpan t = mpc_span(tile, (n + %d) / %d, n);", u->k.ntiles - 1, u->k.ntiles);
    } else {
        ln(e, "const MpcSpan t = {0, n};");
    }
    lanes_begin(&b, wanted);
    ln_blank(e);
    ln_open(e, "for (int64_t first = t.lo; first < t.hi; first += MPC_BLOCK)");
    ln(e, "const MpcSpan s = {first, first + MPC_BLOCK < t.hi ? first + MPC_BLOCK : t.hi};");
    lanes_block(&b, wanted, "MPC_BLOCK");
    ln_blank(e);
    ln_open(e, "for (int64_t %s = s.lo; %s < s.hi; %s++)", flat, flat, flat);
    const char *names[MAX_RANK] = {NULL};
    used_axes(&b, wanted, names);
    unit_unravel(e, u, flat, 0, rank, names);
    body_emit(&b, 2);
    lanes_keep(&b, wanted, arena_printf(e->arena, "%s - s.lo", flat));
    ln_close(e, "");
    lanes_add(&b, wanted, "s.hi - s.lo");
    ln_close(e, "");
    body_forget(&b, 1);
    lanes_end(&b, wanted, "n");
    b.stage_now = 1;
    for (int i = 0; i < u->k.noutputs; i++) {
        body_root(&b, u->k.outputs[i].scalar, true);
    }
    body_emit(&b, 0);
    for (int i = 0; i < u->k.noutputs; i++) {
        const KOutput *out = &u->k.outputs[i];
        ln(e, "%s[%s] = %s;", unit_pointer(u, out->at.operand), u->k.ntiles > 1 ? "tile" : "0",
           body_memory(&b, out->scalar, u->k.operands[out->at.operand].dtype));
    }
}

/* ---- columns --------------------------------------------------------------------------------------- */

typedef struct Columns {
    Body b;
    Emit *e;
    Unit *u;
    int kept, rank;
    bool *wanted;
    const char *count; /* elements of a sum */
    bool is_const;
} Columns;

static void declare_sums(Columns *c)
{
    for (int s = 0; s < c->u->k.nscalars; s++) {
        const Scalar *v = scalar(&c->b, s);
        if (c->wanted[s] && v->kind == SC_reduce) {
            ln(c->e, "%s %s[%lld];", wide_ctype(v->dtype), body_name(&c->b, s),
               (long long)c->u->each);
        }
    }
}

static void add_elements(Columns *c, const char *at)
{
    body_emit(&c->b, 2);
    for (int s = 0; s < c->u->k.nscalars; s++) {
        const Scalar *v = scalar(&c->b, s);
        if (c->wanted[s] && v->kind == SC_reduce) {
            const char *to = arena_printf(c->e->arena, "%s%s", body_name(&c->b, s), at);
            reduce_add(&c->b, v, to, body_bare(&c->b, v->in[0]));
        }
    }
}

/* Loops over reduced axes, the first `n`. */
static void open_reduced(Columns *c, int n)
{
    for (int i = c->kept; i < c->kept + n; i++) {
        const char *x = c->b.axis[i];
        ln_open(c->e, "for (int64_t %s = 0; %s < %s; %s++)", x, x, unit_axis(c->e, c->u, i), x);
    }
}

static void close_reduced(Columns *c, int n)
{
    for (int i = 0; i < n; i++) {
        ln_close(c->e, "");
    }
}

/* The sums of a column are complete. */
static void set_columns(Columns *c, const char *at)
{
    Body *b = &c->b;
    body_forget(b, 1);
    for (int s = 0; s < c->u->k.nscalars; s++) {
        const Scalar *v = scalar(b, s);
        if (c->wanted[s] && v->kind == SC_reduce) {
            const char *sum = arena_printf(c->e->arena, "%s%s", body_name(b, s), at);
            const char *text = reduce_finish(b, v, sum, c->count, false);
            body_set(b, s, text == sum ? sum : arena_printf(c->e->arena, "(%s)", text));
        }
    }
}

static void need_elements(Columns *c)
{
    for (int s = 0; s < c->u->k.nscalars; s++) {
        const Scalar *v = scalar(&c->b, s);
        if (c->wanted[s] && v->kind == SC_reduce) {
            body_root(&c->b, v->in[0], false);
        }
    }
}

static void clear_columns(Columns *c, const char *j)
{
    ln_open(c->e, "for (int64_t %s = t.lo; %s < t.hi; %s++)", j, j, j);
    for (int s = 0; s < c->u->k.nscalars; s++) {
        const Scalar *v = scalar(&c->b, s);
        if (c->wanted[s] && v->kind == SC_reduce) {
            ln(c->e, "%s[%s - t.lo] = %s;", body_name(&c->b, s), j, reduce_start(c->e->arena, v));
        }
    }
    ln_close(c->e, "");
}

static void emit_columns(Columns *c)
{
    Emit *e = c->e;
    const char *j = c->b.axis[c->kept - 1];
    const char *columns = unit_axis(e, c->u, c->kept - 1);
    Dim length = c->u->k.space.d[c->kept - 1];
    long long each = (long long)c->u->each;
    const char *at = "tile";
    if (c->kept > 1) {
        const char *across = dim_is_const(length)
                                 ? arena_printf(e->arena, "%lld", (length.k + each - 1) / each)
                                 : arena_printf(e->arena, "mpc_tiles(%s, %lld)", columns, each);
        ln(e, "const int64_t row = tile / %s;", across);
        at = arena_printf(e->arena, "tile %% %s", across);
    }
    ln(e, "const MpcSpan t = mpc_span(%s, %lld, %s);", at, each, columns);
    if (c->kept > 1) {
        unit_unravel(e, c->u, "row", 0, c->kept - 1, c->b.axis);
    }
    declare_sums(c);
    ln_blank(e);
    clear_columns(c, j);
    need_elements(c);
    body_emit(&c->b, 0);
    open_reduced(c, c->rank - c->kept);
    body_emit(&c->b, 1);
    ln_open(e, "for (int64_t %s = t.lo; %s < t.hi; %s++)", j, j, j);
    add_elements(c, arena_printf(e->arena, "[%s - t.lo]", j));
    ln_close(e, "");
    close_reduced(c, c->rank - c->kept);
    ln_open(e, "for (int64_t %s = t.lo; %s < t.hi; %s++)", j, j, j);
    set_columns(c, arena_printf(e->arena, "[%s - t.lo]", j));
    reduce_store(&c->b, c->kept);
    ln_close(e, "");
}

/* Adds what lies along the innermost axis: at once, or block after block where it may be long. */
static void add_row(Columns *c)
{
    Body *b = &c->b;
    Emit *e = c->e;
    int last = c->rank - 1;
    Dim length = c->u->k.space.d[last];
    const char *n = unit_axis(e, c->u, last), *at = b->axis[last];
    bool whole = dim_is_const(length) && length.k <= ROW_MAX;
    if (!whole) {
        ln_open(e,
                "for (MpcSpan s = mpc_span(0, MPC_BLOCK, %s); s.lo < s.hi; "
                "s = mpc_next_span(s, MPC_BLOCK, %s))",
                n, n);
    }
    lanes_block(b, c->wanted, whole ? n : "MPC_BLOCK");
    ln_blank(e);
    ln_open(e, "for (int64_t %s = %s; %s < %s; %s++)", at, whole ? "0" : "s.lo", at,
            whole ? n : "s.hi", at);
    body_emit(b, 2);
    lanes_keep(b, c->wanted, whole ? at : arena_printf(e->arena, "%s - s.lo", at));
    ln_close(e, "");
    lanes_add(b, c->wanted, whole ? n : "s.hi - s.lo");
    if (!whole) {
        ln_close(e, "");
    }
}

/* A sum after the other, each row of its elements in lanes. */
static void emit_points(Columns *c)
{
    Emit *e = c->e;
    const char *j = c->kept > 0 ? c->b.axis[c->kept - 1] : NULL;
    if (c->kept > 1) {
        const char *columns = unit_axis(e, c->u, c->kept - 1);
        const char *across =
            arena_printf(e->arena, "mpc_tiles(%s, %lld)", columns, (long long)c->u->each);
        ln(e, "const int64_t row = tile / %s;", across);
        ln(e, "const MpcSpan t = mpc_span(tile %% %s, %lld, %s);", across, (long long)c->u->each,
           columns);
        unit_unravel(e, c->u, "row", 0, c->kept - 1, c->b.axis);
    } else if (c->kept == 1) {
        ln(e, "const MpcSpan t = mpc_span(tile, %lld, %s);", (long long)c->u->each,
           unit_axis(e, c->u, 0));
    }
    if (j != NULL) {
        ln_blank(e);
        ln_open(e, "for (int64_t %s = t.lo; %s < t.hi; %s++)", j, j, j);
    }
    Body *b = &c->b;
    lanes_begin(b, c->wanted);
    need_elements(c);
    body_emit(b, 0);
    open_reduced(c, c->rank - c->kept - 1);
    add_row(c);
    close_reduced(c, c->rank - c->kept - 1);
    body_forget(b, 1);
    lanes_end(b, c->wanted, c->count);
    reduce_store(&c->b, c->kept);
    if (j != NULL) {
        ln_close(e, "");
    }
}

void col_emit(Emit *e, Unit *u)
{
    Columns c = {.b = body_new(e, u), .e = e, .u = u, .rank = u->k.space.rank};
    c.kept = c.rank - u->k.nreduce;
    for (int i = 0; i < c.rank; i++) {
        c.b.axis[i] = c.b.letter[i] = index_name[i];
        c.b.depth_of[i] = i == c.kept - 1 ? 2 : 1;
    }
    body_guard(&c.b);
    c.b.reduce_depth = 2;
    body_depths(&c.b);
    c.wanted = reduce_wanted(&c.b);
    c.count = unit_rows(e, u, c.kept, c.rank);
    if (c.count == NULL) {
        c.count = "1";
    }
    if (c.kept > 0 && reduce_along_columns(&c.b, c.wanted, c.kept)) {
        emit_columns(&c);
    } else {
        emit_points(&c);
    }
}
