/* cuda_contract.c: contractions and convolutions, by tiles in shared memory (runtime/cuda/contract.cuh). A convolution is
 * a contraction whose operand is read through a window, element by element as any other. */
#include "codegen/cuda/cuda.h"
#include "codegen/target.h"
#include "ir/base/strutil.h"

/* How a tile is multiplied. */
typedef struct TileKind {
    const char *name; /* of its functions in contract.cuh: "mma" */
    DType dtype;      /* of the elements in shared memory */
    int threads, k,
        elements; /* of the block; of a tile along k; that each thread brings of an operand */
    bool k_inner; /* k is the inner axis in shared memory */
    const char *macro;
} TileKind;

static const TileKind by_fma = {
    .name = "fma", .dtype = DT_f32, .threads = 256, .k = 16, .elements = 4, .macro = "FMA"};
static const TileKind by_mma[] = {
    {.name = "mma",
     .dtype = DT_f16,
     .threads = 128,
     .k = 32,
     .elements = 16,
     .k_inner = true,
     .macro = "MMA"},
    {.name = "mma",
     .dtype = DT_bf16,
     .threads = 128,
     .k = 32,
     .elements = 16,
     .k_inner = true,
     .macro = "MMA"},
};

static const TileKind *tile_kind(const Kernel *k)
{
    DType a = k->scalars[k->a].dtype, b = k->scalars[k->b].dtype;
    for (int i = 0; i < 2; i++) {
        if (a == by_mma[i].dtype && b == by_mma[i].dtype) {
            return &by_mma[i];
        }
    }
    return &by_fma;
}

static const char *const batch_name[MAX_RANK] = {"b", "b1", "b2", "b3", "b4", "b5", "b6", "b7"};

typedef struct Contraction {
    Emit *e;
    Unit *u;
    Body b;
    const TileKind *tile;
    bool stages;           /* two tiles of each operand */
    const char *type;      /* of indices */
    const char *m, *n, *k; /* lengths */
} Contraction;

/* One operand. */
typedef struct Side {
    const char *name, *index, *length; /* "a", "i", "B" */
    int along, sum, s;                 /* axes; scalar */
    const Scalar *load;                /* of a matrix, below casts; or NULL */
    bool k_first;                      /* neighbours in memory follow each other along k */
    int run;                           /* elements that are read at a time */
    bool async; /* they go to shared memory as they are, while the tile before is multiplied */
} Side;

/* ---- which tile ------------------------------------------------------------------------------------- */

/* Tiles along an axis: a number, or in brackets. */
static const char *tiles_along(Contraction *c, int axis)
{
    Dim d = c->u->k.space.d[axis];
    return dim_is_const(d)
               ? arena_printf(c->e->arena, "%lld", (long long)((d.k + 63) / 64))
               : arena_printf(c->e->arena, "((%s + 63) / 64)", unit_axis(c->e, c->u, axis));
}

static const char *times(Arena *a, const char *x, const char *y)
{
    return str_eq(x, "1") ? y : str_eq(y, "1") ? x : arena_printf(a, "(%s * %s)", x, y);
}

/* Declares the tile's first row and column, and the indices of the batch. */
static void open_tile(Contraction *c)
{
    Emit *e = c->e;
    Unit *u = c->u;
    int at = u->k.nbatch;
    const char *rows = tiles_along(c, at), *columns = tiles_along(c, at + 1);
    const char *count = times(e->arena, rows, columns), *tile = "mpc_block()";
    bool one_row = str_eq(rows, "1"), one_column = str_eq(columns, "1");
    u->grid = (UnitGrid){.threads = c->tile->threads, .blocks_per_sm = 2, .blocks = count};
    if (at > 0) {
        for (int i = 0; i < at; i++) {
            c->b.axis[i] = at == 1 ? "batch" : batch_name[i];
            c->b.letter[i] = "b";
            c->b.depth_of[i] = 0;
        }
        u->grid.blocks =
            times(e->arena, arena_printf(e->arena, "(%s)", unit_rows(e, u, 0, at)), count);
        bool alone = one_row && one_column;
        ln(e, alone ? "const %s batch = mpc_block();" : "const %s batch = mpc_block() / %s;",
           c->type, count);
        unit_unravel(e, u, "batch", 0, at, c->b.axis);
        tile = alone ? "0" : arena_printf(e->arena, "mpc_block() %% %s", count);
    }
    bool both = !one_row && !one_column;
    if (both) {
        ln(e, "const %s tile = %s;", c->type, tile);
        tile = "tile";
    }
    ln(e, "const %s i0 = %s, j0 = %s;", c->type,
       one_row ? "0"
       : both  ? arena_printf(e->arena, "tile / %s * MPC_TILE", columns)
               : arena_printf(e->arena, "%s * MPC_TILE", tile),
       one_column ? "0"
       : both     ? arena_printf(e->arena, "tile %% %s * MPC_TILE", columns)
                  : arena_printf(e->arena, "%s * MPC_TILE", tile));
    ln_blank(e);
}

/* ---- one operand's tile ------------------------------------------------------------------------------ */

/* The load behind the operand's casts; NULL: it is computed, or read through a window. */
static const Scalar *plain_load(const Kernel *k, int s)
{
    const Scalar *v = &k->scalars[s];
    while (v->kind == SC_cast) {
        v = &k->scalars[v->in[0]];
    }
    return v->kind == SC_load && v->at.window == NULL && v->at.index < 0 ? v : NULL;
}

/* Neighbours in memory follow each other along k rather than along u. */
static bool runs_along_k(const Kernel *k, int s, int along)
{
    const Scalar *v = &k->scalars[s];
    while (v->kind == SC_cast || v->kind == SC_op) {
        v = &k->scalars[v->in[0]];
    }
    if (v->kind == SC_load && v->at.window != NULL) {
        const Window *w = v->at.window;
        const WindowPart *last = &w->u[w->nu - 1];
        return last->stride != 1 && last->col == 0;
    }
    return v->kind != SC_load || !dim_equal(v->at.stride[along], dim_of(1));
}

/* `run` elements along the axis, from a multiple of it on, are one piece of memory that begins at a multiple of its size
 * and lies within the matrix or without. */
static bool is_run(const Kernel *k, const Scalar *v, int axis, int run)
{
    bool fits = v != NULL && dim_equal(v->at.stride[axis], dim_of(1)) &&
                cuda_divides(k->space.d[axis], run) && cuda_divides(v->at.offset, run);
    for (int i = 0; i < k->space.rank && fits; i++) {
        fits = i == axis || cuda_divides(v->at.stride[i], run);
    }
    return fits;
}

static Side side_of(const Contraction *c, bool is_a)
{
    const Kernel *k = &c->u->k;
    int at = k->nbatch;
    Side d = {.name = is_a ? "a" : "b",
              .index = is_a ? "i" : "j",
              .length = is_a ? c->m : c->n,
              .along = is_a ? at : at + 1,
              .sum = at + 2,
              .s = is_a ? k->a : k->b,
              .run = 1};
    d.k_first = runs_along_k(k, d.s, d.along);
    d.load = plain_load(k, d.s);
    int run = 16 / dtype_info[c->tile->dtype].bytes;
    if (is_run(k, d.load, d.k_first ? d.sum : d.along, run)) {
        d.run = run;
        d.async = d.k_first == c->tile->k_inner && d.load->dtype == c->tile->dtype &&
                  &k->scalars[d.s] == d.load;
    }
    return d;
}

/* Adds up what the parts of an index mean in memory, in rows and in columns. */
typedef struct Sums {
    const char *at, *row, *col;
} Sums;

static const char *plus(Arena *a, const char *sum, const char *index, int64_t times)
{
    if (times == 0) {
        return sum;
    }
    return joined(a, sum, "+",
                  times == 1 ? index : arena_printf(a, "%s * %lld", index, (long long)times));
}

/* "index" taken apart, the outermost part first. */
static void add_parts(Contraction *c, Sums *sums, const WindowPart *parts, int n, const char *index)
{
    Arena *a = c->e->arena;
    int64_t below = 1;
    for (int p = n - 1; p >= 0; p--) {
        const char *part =
            below > 1 ? arena_printf(a, "%s / %lld", index, (long long)below) : index;
        if (p > 0) {
            part = arena_printf(a, "%s %% %lld", part, (long long)parts[p].size);
        }
        bool plain = part == index;
        if (parts[p].stride != 0 || parts[p].row != 0 || parts[p].col != 0) {
            if (!plain) {
                const char *name = names_take(&c->b.names, "part");
                ln(c->e, "const int %s = %s;", name, part);
                part = name;
            }
            sums->at = plus(a, sums->at, part, parts[p].stride);
            sums->row = plus(a, sums->row, part, parts[p].row);
            sums->col = plus(a, sums->col, part, parts[p].col);
        }
        below *= parts[p].size;
    }
}

/* Where the operand of this tile's batch begins: "x + batch * 784". */
static const char *operand_start(Contraction *c, const Scalar *v)
{
    Access start = v->at;
    for (int i = c->u->k.nbatch; i < MAX_RANK; i++) {
        start.stride[i] = dim_of(0);
    }
    const char *offset = body_index(&c->b, &start);
    const char *from = unit_pointer(c->u, start.operand);
    bool none = offset[0] == '0' && offset[1] == 0;
    return none ? from : arena_printf(c->e->arena, "(%s + %s)", from, offset);
}

static const char *offset_text(Arena *a, const char *sum, int64_t plus_this)
{
    if (plus_this < 0 && sum != NULL) {
        return arena_printf(a, "%s - %lld", sum, -(long long)plus_this);
    }
    return plus_this == 0 ? (sum != NULL ? sum : "0")
                          : arena_printf(a, "%s%s%lld", sum != NULL ? sum : "",
                                         sum != NULL ? " + " : "", (long long)plus_this);
}

/* value = the element that the window sees, if there is one. */
static void window_element(Contraction *c, const Scalar *v, const char *u, const char *k)
{
    Emit *e = c->e;
    const Window *w = v->at.window;
    Sums s = {0};
    add_parts(c, &s, w->u, w->nu, u);
    add_parts(c, &s, w->k, w->nk, k);
    const char *from = operand_start(c, v), *at = s.at != NULL ? s.at : "0";
    if (w->rows == 0) {
        ln(e, "value = %s[%s];", from, at);
        return;
    }
    ln(e, "const int there = mpc_in_image(%s, %s, %lld, %lld, %lld, %lld, %lld);",
       offset_text(e->arena, s.row, w->row), offset_text(e->arena, s.col, w->col),
       (long long)w->rows, (long long)w->cols, (long long)w->row_step, (long long)w->col_step,
       (long long)w->row_stride);
    ln_blank(e);
    ln_in(e, "if (there >= 0)");
    ln(e, "value = %s[%s + there];", from, at);
    ln_out(e);
}

/* The element's value, as the tile has it. */
static void element(Contraction *c, const Side *d)
{
    Body *b = &c->b;
    const Scalar *v = &c->u->k.scalars[d->s];
    if (v->kind == SC_load && v->at.window != NULL) {
        window_element(c, v, d->index, "k");
        return;
    }
    body_root(b, d->s, c->tile->dtype != DT_f32);
    body_emit(b, 2);
    ln(c->e, "value = %s;", body_memory(b, d->s, c->tile->dtype));
}

/* A run's values: read at once, cast one by one. */
static void run_elements(Contraction *c, const Side *d)
{
    Emit *e = c->e;
    Body *b = &c->b;
    int bytes = dtype_info[d->load->dtype].bytes;
    const char *from = body_element(b, &d->load->at);
    if (&c->u->k.scalars[d->s] == d->load && d->load->dtype == c->tile->dtype) {
        ln(e, "mpc_read_run(value, &%s, %d, %d, %d);", from, bytes, d->run, d->run);
        return;
    }
    int load = (int)(d->load - c->u->k.scalars);
    const char *name = names_take(
        &b->names, arena_printf(e->arena, "%s_in", unit_pointer(c->u, d->load->at.operand)));
    ln(e, "%s %s[%d];", memory_ctype(d->load->dtype), name, d->run);
    ln(e, "mpc_read_run(%s, &%s, %d, %d, %d);", name, from, bytes, d->run, d->run);
    ln(e, "MPC_UNROLL");
    ln_open(e, "for (int r = 0; r < %d; r++)", d->run);
    b->place[load] = arena_printf(e->arena, "%s[r]", name);
    body_root(b, d->s, c->tile->dtype != DT_f32);
    body_emit(b, 2);
    ln(e, "value[r] = %s;", body_memory(b, d->s, c->tile->dtype));
    b->place[load] = NULL;
    ln_close(e, "");
}

static const char *tile_place(Contraction *c, const Side *d, const char *u, const char *q)
{
    bool k_inner = c->tile->k_inner;
    return arena_printf(c->e->arena, "%s_tile%s[%s][%s]", d->name, c->stages ? "[stage]" : "",
                        k_inner ? u : q, k_inner ? q : u);
}

static void store_run(Contraction *c, const Side *d)
{
    int bytes = dtype_info[c->tile->dtype].bytes;
    if (d->k_first == c->tile->k_inner) {
        ln(c->e, "mpc_write_run(&%s, value, %d, %d, %d);", tile_place(c, d, "u", "q"), bytes,
           d->run, d->run);
        return;
    }
    ln(c->e, "MPC_UNROLL");
    ln_in(c->e, "for (int r = 0; r < %d; r++)", d->run);
    ln(c->e, "%s = value[r];",
       d->k_first ? tile_place(c, d, "u", "q + r") : tile_place(c, d, "u + r", "q"));
    ln_out(c->e);
}

static void operand_tile(Contraction *c, const Side *d)
{
    Emit *e = c->e;
    Body *b = &c->b;
    const TileKind *t = c->tile;
    int width = (d->k_first ? t->k : 64) / d->run; /* runs along the contiguous axis */
    const char *first = d->run == 1 ? arena_printf(e->arena, "%% %d", width)
                                    : arena_printf(e->arena, "%% %d * %d", width, d->run);
    const char *rest = arena_printf(e->arena, "/ %d", width);
    b->axis[d->along] = b->letter[d->along] = d->index;
    b->axis[d->sum] = b->letter[d->sum] = "k";
    b->depth_of[d->along] = b->depth_of[d->sum] = 2;
    body_depths(b);
    ln(e, "MPC_UNROLL");
    ln_open(e, "for (int e = 0; e < %d; e++)", t->elements / d->run);
    ln(e, "const int at = e * %d + mpc_thread(), u = at %s, q = at %s;", t->threads,
       d->k_first ? rest : first, d->k_first ? first : rest);
    ln(e, "const %s %s = %s0 + u, k = k0 + q;", c->type, d->index, d->index);
    const char *there = arena_printf(e->arena, "%s < %s && k < %s", d->index, d->length, c->k);
    if (d->async) {
        ln_blank(e);
        ln(e, "mpc_copy_async(&%s, &%s, %s);", tile_place(c, d, "u", "q"),
           body_element(b, &d->load->at), there);
    } else {
        ln(e, d->run > 1 ? "%s value[%d] = {0};" : "%s value = 0;", memory_ctype(t->dtype), d->run);
        ln_blank(e);
        ln_open(e, "if (%s)", there);
        if (d->run > 1) {
            run_elements(c, d);
        } else {
            element(c, d);
        }
        ln_close(e, "");
        if (d->run > 1) {
            store_run(c, d);
        } else {
            ln(e, "%s = value;", tile_place(c, d, "u", "q"));
        }
    }
    body_forget(b, 0);
    ln_close(e, "");
}

/* ---- the kernel --------------------------------------------------------------------------------------- */

static void declare_tile(Contraction *c, const Side *d)
{
    const TileKind *t = c->tile;
    const char *stages = c->stages ? "[2]" : "", *type = memory_ctype(t->dtype);
    if (t->k_inner) {
        ln(c->e, "MPC_SHARED %s %s_tile%s[MPC_TILE][MPC_%s_ROW];", type, d->name, stages, t->macro);
    } else {
        ln(c->e, "MPC_SHARED %s %s_tile%s[MPC_%s_K][MPC_%s_ROW];", type, d->name, stages, t->macro,
           t->macro);
    }
}

static void multiply(Contraction *c)
{
    const TileKind *t = c->tile;
    const char *stage = c->stages ? "[!stage]" : "";
    ln(c->e, "mpc_%s_tile%s%s(acc, a_tile%s, b_tile%s);", t->name, t->k_inner ? "_" : "",
       t->k_inner ? dtype_info[t->dtype].name : "", stage, stage);
}

static void products(Contraction *c)
{
    Emit *e = c->e;
    const TileKind *t = c->tile;
    const Side a = side_of(c, true), b = side_of(c, false);
    c->stages = a.async || b.async;
    declare_tile(c, &a);
    declare_tile(c, &b);
    ln(e, "float acc[MPC_%s_OWN] = {0};", t->macro);
    ln_blank(e);
    if (!c->stages) {
        ln_open(e, "for (%s k0 = 0; k0 < %s; k0 += MPC_%s_K)", c->type, c->k, t->macro);
        operand_tile(c, &a);
        operand_tile(c, &b);
        ln(e, "mpc_barrier();");
        multiply(c);
    } else { /* a tile is on its way while the one before is multiplied */
        ln_open(e, "for (%s k0 = 0; k0 < %s + MPC_%s_K; k0 += MPC_%s_K)", c->type, c->k, t->macro,
                t->macro);
        ln(e, "const int stage = k0 / MPC_%s_K %% 2;", t->macro);
        ln_blank(e);
        ln_open(e, "if (k0 < %s)", c->k);
        operand_tile(c, &a);
        operand_tile(c, &b);
        ln_close(e, "");
        ln(e, "mpc_copy_commit();");
        ln(e, "mpc_copy_wait(1);");
        ln(e, "mpc_barrier();");
        ln_in(e, "if (k0 > 0)");
        multiply(c);
        ln_out(e);
    }
    ln(e, "mpc_barrier();");
    ln_close(e, "");
}

static void finish(Contraction *c)
{
    Emit *e = c->e;
    Body *b = &c->b;
    const Kernel *k = &c->u->k;
    int at = k->nbatch;
    b->axis[at] = b->letter[at] = "i";
    b->axis[at + 1] = b->letter[at + 1] = "j";
    b->axis[at + 2] = NULL;
    b->depth_of[at] = b->depth_of[at + 1] = 2;
    body_depths(b);
    for (int s = 0; s < k->nscalars; s++) {
        if (k->scalars[s].kind == SC_acc) {
            body_set(b, s, "acc[e]");
        }
    }
    for (int i = 0; i < k->noutputs; i++) {
        body_root(b, k->outputs[i].scalar, true);
    }
    body_emit(b, 0);
    ln_blank(e);
    ln(e, "MPC_UNROLL");
    ln_open(e, "for (int e = 0; e < MPC_%s_OWN; e++)", c->tile->macro);
    ln(e, "const %s i = i0 + mpc_%s_row(e), j = j0 + mpc_%s_column(e);", c->type, c->tile->name,
       c->tile->name);
    ln_blank(e);
    ln_open(e, "if (i < %s && j < %s)", c->m, c->n);
    body_emit(b, 2);
    for (int i = 0; i < k->noutputs; i++) {
        body_store(b, &k->outputs[i]);
    }
    ln_close(e, "");
    ln_close(e, "");
}

void cuda_contract_emit(Emit *e, Unit *u)
{
    Contraction c = {.e = e,
                     .u = u,
                     .b = body_new(e, u),
                     .tile = tile_kind(&u->k),
                     .type = unit_index_type(e, u)};
    int at = u->k.nbatch;
    c.m = unit_axis(e, u, at);
    c.n = unit_axis(e, u, at + 1);
    c.k = unit_axis(e, u, at + 2);
    body_guard(&c.b);
    open_tile(&c);
    products(&c);
    finish(&c);
}
