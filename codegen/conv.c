/* conv.c: convolutions on runtime/kernels/conv.h: a function that packs a, and one that multiplies it by what windows
 * see of b and finishes what comes out of the register tiles. Plain contractions are in contract.c. */
#include "codegen/body.h"
#include "codegen/target.h"

static const Scalar *operand_of(const Unit *u, bool is_a)
{
    return &u->k.scalars[is_a ? u->k.a : u->k.b];
}

/* Batch axes along which a varies, each with a matrix of its own, as dims of that many axes. */
static Dims a_batch(const Unit *u)
{
    Dims d = {0};
    for (int i = 0; i < u->k.nbatch; i++) {
        if (access_varies(&operand_of(u, true)->at, i)) {
            d.d[d.rank++] = u->k.space.d[i];
        }
    }
    return d;
}

const char *conv_tiles(Emit *e, const Unit *u, const KCall *call, const Graph *g, bool pack)
{
    const Dims *space = &call->space;
    int at = u->of->nbatch;
    const char *one =
        arena_printf(e->arena, "mpc_conv(%s, %s, %s).%s", dim_text(e->arena, g, space->d[at]),
                     dim_text(e->arena, g, space->d[at + 1]),
                     dim_text(e->arena, g, space->d[at + 2]), pack ? "pack_tiles" : "tiles");
    Dims batch = pack ? a_batch(u) : *space;
    batch.rank = pack ? batch.rank : at;
    return batch.rank == 0
               ? arena_printf(e->arena, "(int)%s", one)
               : arena_printf(e->arena, "(int)(%s * %s)", product_text(e->arena, g, &batch), one);
}

/* ---- windows ----------------------------------------------------------------------------------------------- */

static void parts(Emit *e, const char *axis, const WindowPart *part, int n)
{
    ln_open(e, ".n%s = %d, .%s =", axis, n, axis);
    for (int i = 0; i < n; i++) {
        ln(e, "{%lld, %lld, %lld, %lld},", (long long)part[i].size, (long long)part[i].stride,
           (long long)part[i].row, (long long)part[i].col);
    }
    ln_close(e, ",");
}

/* static const MpcWindow window = {...}; */
static void window(Emit *e, const Window *w)
{
    ln_open(e, "static const MpcWindow window =");
    parts(e, "u", w->u, w->nu);
    parts(e, "k", w->k, w->nk);
    if (w->rows > 0) {
        ln(e, ".row = %lld, .col = %lld, .rows = %lld, .cols = %lld,", (long long)w->row,
           (long long)w->col, (long long)w->rows, (long long)w->cols);
        ln(e, ".row_step = %lld, .col_step = %lld, .row_stride = %lld,", (long long)w->row_step,
           (long long)w->col_step, (long long)w->row_stride);
    }
    ln_close(e, ";");
}

/* "x + batch * 784": where the images or the matrix of this tile start. */
static const char *start_of(Emit *e, Body *b, const Scalar *s, int nbatch)
{
    Access start = s->at;
    for (int i = nbatch; i < MAX_RANK; i++) {
        start.stride[i] = dim_of(0);
    }
    const char *offset = body_index(b, &start), *from = unit_pointer(b->u, start.operand);
    bool none = offset[0] == '0' && offset[1] == 0;
    return none ? from : arena_printf(e->arena, "%s + %s", from, offset);
}

/* ---- functions --------------------------------------------------------------------------------------------- */

static const char *const batch_name[MAX_RANK] = {"b", "b1", "b2", "b3", "b4", "b5", "b6", "b7"};

/* Names the indices of batch axes; those along which nothing varies here are not declared. */
static void name_batch(Emit *e, Unit *u, Body *b, bool pack)
{
    int named = 0;
    for (int i = 0; i < u->k.nbatch; i++) {
        bool wanted = !pack || access_varies(&operand_of(u, true)->at, i);
        named += wanted;
        b->axis[i] = wanted ? batch_name[i] : NULL;
        b->letter[i] = "b";
        b->depth_of[i] = 0;
    }
    if (named == 0) {
        return;
    }
    if (!pack || named == u->k.nbatch) {
        unit_unravel(e, u, "batch", 0, u->k.nbatch, b->axis);
        return;
    }
    for (int i = 0; i < u->k.nbatch; i++) { /* packed once for all along the other axes */
        if (b->axis[i] != NULL) {
            b->axis[i] = "batch";
        }
    }
    if (named > 1) {
        ICE("%s: a weight that varies along some axes of the batch", u->name);
    }
}

/* Where a lies packed, for the indices that are named. */
static const char *packed(Emit *e, Unit *u, const Body *b, const char *sizes)
{
    const char *name = unit_pointer(u, u->k.packed_a), *index = NULL;
    for (int i = 0; i < u->k.nbatch; i++) {
        if (!access_varies(&operand_of(u, true)->at, i)) {
            continue;
        }
        index = index == NULL ? b->axis[i]
                              : arena_printf(e->arena, "(%s * %s + %s)", index, unit_axis(e, u, i),
                                             b->axis[i]);
    }
    return index == NULL ? name
                         : arena_printf(e->arena, "%s + %s * (MPC_CONV_A_BYTES(MPC_ISA, %s) / 4)",
                                        name, index, sizes);
}

static void open_tile(Emit *e, Unit *u, Body *b, bool pack)
{
    int at = u->k.nbatch;
    const char *m = unit_axis(e, u, at), *n = unit_axis(e, u, at + 1), *k = unit_axis(e, u, at + 2);
    const char *tile = "tile", *count = pack ? "pack_tiles" : "tiles";
    bool many = pack ? a_batch(u).rank > 0 : at > 0;
    if (many) {
        ln(e, "const MpcGemm cut = mpc_conv(%s, %s, %s);", m, n, k);
        ln(e, "const int64_t batch = tile / cut.%s;", count);
        tile = arena_printf(e->arena, "tile %% cut.%s", count);
        name_batch(e, u, b, pack);
    }
    const char *a = packed(e, u, b, arena_printf(e->arena, "%s, %s", m, k));
    ln(e, "const MpcGemm g = mpc_conv_%s(%s, %s, %s, %s, %s%s);", pack ? "pack" : "tile", m, n, k,
       tile, a, pack ? "" : ", w->scratch");
}

void conv_pack_emit(Emit *e, Unit *u)
{
    Body b = body_new(e, u);
    const Scalar *a = operand_of(u, true);
    if (a->at.window != NULL) {
        window(e, a->at.window);
    }
    open_tile(e, u, &b, true);
    const char *from = start_of(e, &b, a, u->k.nbatch), *type = dtype_info[a->dtype].name;
    ln_blank(e);
    if (a->at.window != NULL) {
        ln(e, "mpc_window_a_%s(&g, %s, &window);", type, from);
    } else {
        ln(e, "mpc_pack_a_%s(&g, %s, %s, 1);", type, from,
           unit_dim(e, u, a->at.stride[u->k.nbatch]));
    }
}

void conv_emit(Emit *e, Unit *u)
{
    Body b = body_new(e, u);
    const Kernel *k = &u->k;
    const Scalar *images = operand_of(u, false);
    int at = k->nbatch;
    window(e, images->at.window);
    open_tile(e, u, &b, false);
    const char *from = start_of(e, &b, images, at);
    ln(e, "MpcTile t;");
    contract_finish(e, u, &b,
                    arena_printf(e->arena, "mpc_conv_next_%s(&t, %s, &window)",
                                 dtype_info[images->dtype].name, from));
}
