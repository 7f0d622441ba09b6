/* contract.c: contractions on the micro-kernels of runtime/kernels/gemm.h: a function that packs both operands and
 * one that multiplies and finishes what comes out of the register tiles. */
#include "codegen/body.h"
#include "codegen/low_rows.h"
#include "codegen/target.h"

typedef struct Sides {
    const char *m, *n, *k;
    int batch; /* number of batch axes */
} Sides;

static Sides sides(Emit *e, Unit *u)
{
    int at = u->k.nbatch;
    return (Sides){.m = unit_axis(e, u, at),
                   .n = unit_axis(e, u, at + 1),
                   .k = unit_axis(e, u, at + 2),
                   .batch = at};
}

static const char *const batch_name[MAX_RANK] = {"b", "b1", "b2", "b3", "b4", "b5", "b6", "b7"};

/* Where the packed panels of an operand lie; NULL where each tile packs what it needs. */
static const char *packed(Emit *e, Unit *u, bool is_a)
{
    int operand = is_a ? u->k.packed_a : u->k.packed_b;
    if (operand < 0) {
        return "NULL";
    }
    const char *name = unit_pointer(u, operand);
    if (u->k.nbatch == 0) {
        return name;
    }
    Sides s = sides(e, u);
    return arena_printf(e->arena, "%s + batch * (MPC_GEMM_%s_BYTES(MPC_ISA, %s, %s, %s) / 4)", name,
                        is_a ? "A" : "B", s.m, s.n, s.k);
}

/* Declares the tile of either function, and the indices of the batch. */
static void open_gemm(Emit *e, Unit *u, Body *b, bool pack)
{
    Sides s = sides(e, u);
    const char *tile = "tile";
    if (s.batch > 0) {
        ln(e, "const MpcGemm cut = mpc_gemm(%s, %s, %s);", s.m, s.n, s.k);
        ln(e, "const int64_t batch = tile / cut.%s;", pack ? "pack_tiles" : "tiles");
        tile = pack ? "tile % cut.pack_tiles" : "tile % cut.tiles";
        for (int i = 0; i < s.batch; i++) {
            b->axis[i] = s.batch == 1 ? "batch" : batch_name[i];
            b->letter[i] = "b";
            b->depth_of[i] = 0;
        }
        unit_unravel(e, u, "batch", 0, s.batch, b->axis);
    }
    ln(e,
       pack ? "const MpcGemm g = mpc_gemm_pack(%s, %s, %s, %s, %s, %s);"
            : "const MpcGemm g = mpc_gemm_tile(%s, %s, %s, %s, %s, %s, w->scratch);",
       s.m, s.n, s.k, tile, packed(e, u, true), packed(e, u, false));
}

/* The load behind an operand when packing needs no arithmetic: an f32, f16 or bf16 matrix with one unit stride. */
static const Scalar *plain_matrix(const Kernel *k, int s, int along, int sum)
{
    const Scalar *v = &k->scalars[s];
    while (v->kind == SC_cast && v->dtype == DT_f32 &&
           (k->scalars[v->in[0]].dtype == DT_f32 || dtype_is_low(k->scalars[v->in[0]].dtype))) {
        v = &k->scalars[v->in[0]];
    }
    bool type = v->dtype == DT_f32 || v->dtype == DT_f16 || v->dtype == DT_bf16;
    bool unit =
        dim_equal(v->at.stride[along], dim_of(1)) || dim_equal(v->at.stride[sum], dim_of(1));
    return v->kind == SC_load && v->at.index < 0 && type && unit ? v : NULL;
}

static void pack_side(Emit *e, Unit *u, Body *b, bool is_a)
{
    const Kernel *k = &u->k;
    int at = k->nbatch, along = is_a ? at : at + 1, sum = at + 2;
    int s = is_a ? k->a : k->b;
    const Scalar *matrix = plain_matrix(k, s, along, sum);
    if (matrix != NULL) {
        Access start = matrix->at;
        start.stride[along] = start.stride[sum] = dim_of(0);
        const char *offset = body_index(b, &start);
        const char *from = unit_pointer(u, start.operand);
        if (offset[0] != '0' || offset[1] != 0) {
            from = arena_printf(e->arena, "%s + %s", from, offset);
        }
        const char *sm = unit_dim(e, u, matrix->at.stride[along]);
        const char *sk = unit_dim(e, u, matrix->at.stride[sum]);
        ln(e, "mpc_pack_%s_%s(g, %s, %s, %s);", is_a ? "a" : "b", dtype_info[matrix->dtype].name,
           from, is_a ? sm : sk, is_a ? sk : sm);
        return;
    }
    /* the sum's axis is the inner loop unless only the other one is contiguous in memory */
    const Scalar *v = &k->scalars[s];
    while (v->kind == SC_cast || v->kind == SC_op) {
        v = &k->scalars[v->in[0]];
    }
    bool k_first = v->kind != SC_load || !dim_equal(v->at.stride[along], dim_of(1));
    const char *p = is_a ? "p" : "q";
    ln(e, "MpcPanel %s;", p);
    ln_blank(e);
    ln_open(e, "for (mpc_panel_%s(&%s, g, %s); mpc_panel_next(&%s);)", is_a ? "a" : "b", p,
            k_first ? "MPC_ALONG_K" : "MPC_ACROSS_K", p);
    b->axis[along] = arena_printf(e->arena, "(%s.u + u)", p);
    b->axis[sum] = arena_printf(e->arena, "(%s.k + k)", p);
    b->letter[along] = "u";
    b->letter[sum] = "k";
    b->depth_of[along] = k_first ? 1 : 2;
    b->depth_of[sum] = k_first ? 2 : 1;
    body_depths(b);
    body_root(b, s, false);
    body_emit(b, 0);
    const char *units = arena_printf(e->arena, "for (int u = 0; u < %s.un; u++)", p);
    const char *steps = arena_printf(e->arena, "for (int k = 0; k < %s.kn; k++)", p);
    ln_open(e, "%s", k_first ? units : steps);
    body_emit(b, 1);
    ln_open(e, "%s", k_first ? steps : units);
    body_emit(b, 2);
    if (k_first) {
        ln(e, "%s.in[u][k] = %s;", p, body_wide(b, s));
    } else {
        ln(e, "%s.out[k * %s.stride + u] = %s;", p, p, body_wide(b, s));
    }
    ln_close(e, "");
    ln_close(e, "");
    ln_close(e, "");
    body_forget(b, 0);
}

/* What packs the operands' panels, as far as the tile of the pack or the compute function is to pack them. */
void contract_operands_emit(Emit *e, Unit *u)
{
    Body b = body_new(e, u);
    for (int i = 0; i < u->k.nbatch; i++) {
        b.axis[i] = b.letter[i] = u->k.nbatch == 1 ? "batch" : batch_name[i];
    }
    if (u->k.nbatch > 1) {
        unit_unravel(e, u, "batch", 0, u->k.nbatch, b.axis);
    }
    Text *out = e->out, *sides = text_new(e->arena);
    sides->indent = out->indent;
    e->out = sides;
    pack_side(e, u, &b, true);
    pack_side(e, u, &b, false);
    e->out = out;
    for (int i = 0; i < u->k.nbatch; i++) { /* one matrix for all of the batch, on both sides */
        if (!text_mentions(sides, b.axis[i])) {
            ln(e, "(void)%s;", b.axis[i]);
        }
    }
    text_puts(out, sides->at);
}

static void pack_call(Emit *e, Unit *u)
{
    ln(e, u->k.nbatch > 0 ? "%s(a, &g, batch);" : "%s(a, &g);", u->operands_name);
}

void contract_pack_emit(Emit *e, Unit *u)
{
    Body b = body_new(e, u);
    body_guard(&b);
    open_gemm(e, u, &b, true);
    ln_blank(e);
    pack_call(e, u);
}

/* The loops over finished register tiles, which `next` yields, and what is done with them. */
void contract_finish(Emit *e, Unit *u, Body *b, const char *next)
{
    const Kernel *k = &u->k;
    int at = k->nbatch;
    b->axis[at] = "(t.i + i)";
    b->letter[at] = "i";
    b->depth_of[at] = 1;
    b->axis[at + 1] = "(t.j + j)";
    b->letter[at + 1] = "j";
    b->depth_of[at + 1] = 2;
    body_depths(b);
    for (int s = 0; s < k->nscalars; s++) {
        if (k->scalars[s].kind == SC_acc) {
            body_set(b, s, "t.acc[i][j]");
        }
    }
    LowRows rows = low_rows_new(
        b,
        (RowLoop){.axis = at + 1, .index = "j", .start = "t.j", .count = "t.n", .most = "MPC_NR"});
    low_rows_roots(&rows);
    body_emit(b, 0);
    ln_blank(e);
    ln_in(e, "for (mpc_tile_open(&t, &g); %s;)", next);
    ln_open(e, "for (int i = 0; i < t.m; i++)");
    body_emit(b, 1);
    low_rows_widen(&rows);
    ln_open(e, "for (int j = 0; j < t.n; j++)");
    body_emit(b, 2);
    for (int i = 0; i < k->noutputs; i++) {
        low_rows_store(&rows, i);
    }
    ln_close(e, "");
    low_rows_narrow(&rows);
    ln_close(e, "");
    ln_out(e);
}

void contract_emit(Emit *e, Unit *u)
{
    Body b = body_new(e, u);
    body_guard(&b);
    open_gemm(e, u, &b, false);
    ln(e, "MpcTile t;");
    ln_blank(e);
    pack_call(e, u);
    contract_finish(e, u, &b, "mpc_tile_next(&t)");
}
