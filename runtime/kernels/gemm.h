/* gemm.h: contractions, C(m,n) = sum over k of A(m,k) * B(k,n), in f32 whatever the operands' type.
 *
 * Two kernels a contraction, both cut into tiles that any thread may claim in any order:
 *   pack     widens operands to f32 and lays them out in panels, in the arena (MPC_GEMM_A_BYTES,
 *            MPC_GEMM_B_BYTES). It has no tiles where the compute tiles do that themselves.
 *   compute  packs what has not been packed into its thread's scratch (MPC_GEMM_OWN_BYTES), then yields
 *            finished register tiles `acc`; what becomes of them (bias, activation, cast, store) is
 *            written out by the caller.
 * Every sum runs over k from 0 upwards, cut only by MPC_GEMM_KC: no result depends on the number of
 * threads, on the tile grid, or on the other rows and columns. Any m, n >= 1; k = 0 gives zeros.
 *
 * What a generated program holds, here for h = relu(x @ w.T + b), x (M, 784) f16, w (512, 784) f16; the
 * kernels are run with mpc_gemm(M, 512, 784).pack_tiles and .tiles:
 *
 *     // A(m,k) = x[m*784 + k], B(k,n) = w[k + n*784]
 *     static void fc1_operands(const Fc1 *a, const MpcGemm *g)
 *     {
 *         mpc_pack_a_f16(g, a->x, 784, 1);
 *         mpc_pack_b_f16(g, a->w, 1, 784);
 *     }
 *
 *     static void fc1_pack(const void *args, int tile, const MpcWorker *w)
 *     {
 *         const Fc1 *a = args;
 *         const MpcGemm g = mpc_gemm_pack(a->M, 512, 784, tile, a->packed_a, a->packed_b);
 *
 *         (void)w;
 *         fc1_operands(a, &g);
 *     }
 *
 *     static void fc1_linear_relu(const void *args, int tile, const MpcWorker *w)
 *     {
 *         const Fc1 *a = args;
 *         const MpcGemm g =
 *             mpc_gemm_tile(a->M, 512, 784, tile, a->packed_a, a->packed_b, w->scratch);
 *         MpcTile t;
 *
 *         fc1_operands(a, &g);
 *         for (mpc_tile_open(&t, &g); mpc_tile_next(&t);)
 *             for (int i = 0; i < t.m; i++)
 *                 for (int j = 0; j < t.n; j++) {
 *                     float v0 = t.acc[i][j] + a->b[t.j + j];
 *                     float v1 = mpc_max(v0, 0);
 *
 *                     a->h[(t.i + i) * 512 + t.j + j] = mpc_f32_to_f16(v1);
 *                 }
 *     }
 *
 * Functions exist for f32, f16 and bf16, one stride being 1. Any other operand, and one that is an
 * expression (an activation's derivative, a cast image), fills the panels itself, in the place of
 * mpc_pack_a or mpc_pack_b, along whichever of its axes is contiguous:
 *
 *         MpcPanel p;
 *
 *         for (mpc_panel_a(&p, g, MPC_ALONG_K); mpc_panel_next(&p);)
 *             for (int u = 0; u < p.un; u++)
 *                 for (int k = 0; k < p.kn; k++)
 *                     p.in[u][k] = (float)a->image[(p.u + u) * 784 + p.k + k] * (1.0f / 255);
 *
 *         for (mpc_panel_b(&p, g, MPC_ACROSS_K); mpc_panel_next(&p);)
 *             for (int k = 0; k < p.kn; k++)
 *                 for (int u = 0; u < p.un; u++)
 *                     p.out[k * p.stride + u] = a->y[(p.k + k) * 512 + p.u + u] * 2.0f;
 *
 * Batches: run b * tiles tiles, `tile / g.tiles` being the batch and `tile % g.tiles` the tile, with a
 * packed operand each.
 *
 * Packed A: panels of rows as even as possible, at most MPC_MR (mpc_gemm_row); A(m,k) at
 * [panel][k][row], MPC_AS floats from k to k. Packed B: panels of MPC_NR columns; B(k,n) at
 * [panel][k][column], MPC_NR floats from k to k, columns past the last one zero up to a whole vector.
 */
#ifndef MPC_GEMM_H
#define MPC_GEMM_H

#include "kernels/simd.h"

#define MPC_MR MPC_GEMM_MR(MPC_ISA)
#define MPC_NR MPC_GEMM_NR(MPC_ISA)
#define MPC_AS MPC_GEMM_AS(MPC_ISA)
#define MPC_KC MPC_GEMM_KC(MPC_ISA)

/* Not inlined, so that a program holds each once; unused ones leave no trace. */
#define MPC_KERNEL static __attribute__((noinline, unused))

enum {
    MPC_TILE_PANELS = MPC_GEMM_PANELS(MPC_ISA),
    MPC_PACK_WORK = 32768,  /* elements that a pack tile handles, about */
    MPC_TILE_SPREAD = 16,   /* compute tiles wanted, for threads to share */
    MPC_TILE_WORK = 1 << 23 /* multiply-adds in a compute tile, at most, about */
};

/* How a contraction is cut, which follows from its sizes alone, and what one tile of it does. */
typedef struct MpcGemm {
    int64_t m, n, k;
    int64_t tiles, pack_tiles;    /* of the two kernels */
    int64_t a_panels, b_panels;   /* of the packed operands */
    int64_t a_group, b_group;     /* panels in a pack tile */
    int64_t rows, cols;           /* panels of A and of B in a compute tile */
    int64_t row_tiles, col_tiles; /* the grid of compute tiles */
    int64_t a_tiles,
        b_tiles; /* pack tiles of A and of B; 0: each compute tile packs what it needs */
    /* This tile: panels to pack now, panels to compute, where the packed operands lie. */
    int64_t pack_a, pack_a_end, pack_b, pack_b_end;
    int64_t row, row_end, col, col_end;
    float *a, *b; /* of panel 0, or of this tile's first panel where the tile packs it */
    int64_t a_first, b_first; /* the panel at a and b */
} MpcGemm;

/* The cut: g.tiles and g.pack_tiles are what the kernels are launched with. */
MPC_FN MpcGemm mpc_gemm(int64_t m, int64_t n, int64_t k)
{
    MpcGemm g = {.m = m, .n = n, .k = k};
    int64_t panel_work = mpc_max_i64(k, 1) * MPC_NR, spread;
    int own_a = MPC_GEMM_OWNS_A(MPC_ISA, m, n, k), own_b = MPC_GEMM_OWNS_B(MPC_ISA, m, n, k);

    g.a_panels = MPC_CEIL_DIV(m, MPC_MR);
    g.b_panels = MPC_CEIL_DIV(n, MPC_NR);
    g.rows = own_a ? MPC_GEMM_OWN_PANELS(MPC_ISA) : MPC_TILE_PANELS;
    g.row_tiles = MPC_CEIL_DIV(g.a_panels, g.rows);
    g.rows = MPC_CEIL_DIV(g.a_panels, g.row_tiles);
    g.row_tiles = MPC_CEIL_DIV(g.a_panels, g.rows);
    spread = mpc_min_i64(g.b_panels * g.row_tiles / MPC_TILE_SPREAD,
                         MPC_TILE_WORK / (panel_work * MPC_MR * g.rows));
    g.cols = own_b ? 1 : mpc_max_i64(spread, 1);
    g.col_tiles = MPC_CEIL_DIV(g.b_panels, g.cols);
    g.tiles = g.row_tiles * g.col_tiles;

    g.a_group = MPC_CEIL_DIV(MPC_PACK_WORK, panel_work * MPC_AS / MPC_NR);
    g.b_group = MPC_CEIL_DIV(MPC_PACK_WORK, panel_work);
    g.a_tiles = own_a ? 0 : MPC_CEIL_DIV(g.a_panels, g.a_group);
    g.b_tiles = own_b ? 0 : MPC_CEIL_DIV(g.b_panels, g.b_group);
    g.pack_tiles = g.a_tiles + g.b_tiles;
    return g;
}

/* One tile of the pack kernel. */
MPC_FN MpcGemm mpc_gemm_pack(int64_t m, int64_t n, int64_t k, int64_t tile, void *packed_a,
                             void *packed_b)
{
    MpcGemm g = mpc_gemm(m, n, k);
    int64_t b_tile = tile - g.a_tiles;

    g.a = (float *)packed_a;
    g.b = (float *)packed_b;
    if (tile < g.a_tiles) {
        g.pack_a = tile * g.a_group;
        g.pack_a_end = mpc_min_i64(g.pack_a + g.a_group, g.a_panels);
    } else {
        g.pack_b = b_tile * g.b_group;
        g.pack_b_end = mpc_min_i64(g.pack_b + g.b_group, g.b_panels);
    }
    return g;
}

/* One tile of the compute kernel. scratch: MPC_GEMM_OWN_BYTES of this thread. */
MPC_FN MpcGemm mpc_gemm_tile(int64_t m, int64_t n, int64_t k, int64_t tile, void *packed_a,
                             void *packed_b, void *scratch)
{
    MpcGemm g = mpc_gemm(m, n, k);

    g.a = (float *)packed_a;
    g.b = (float *)packed_b;
    g.row = tile / g.col_tiles * g.rows;
    g.row_end = mpc_min_i64(g.row + g.rows, g.a_panels);
    g.col = tile % g.col_tiles * g.cols;
    g.col_end = mpc_min_i64(g.col + g.cols, g.b_panels);
    if (g.b_tiles == 0) {
        g.b = (float *)scratch;
        g.b_first = g.pack_b = g.col;
        g.pack_b_end = g.col_end;
    }
    if (g.a_tiles == 0) {
        g.a = (float *)scratch + (g.b_tiles == 0 ? MPC_NR * k : 0);
        g.a_first = g.pack_a = g.row;
        g.pack_a_end = g.row_end;
    }
    return g;
}

/* First row of a panel of A; the next panel's first row ends it. Panels differ by one row at most. */
MPC_FN int64_t mpc_gemm_row(const MpcGemm *g, int64_t panel)
{
    return panel * (g->m / g->a_panels) + mpc_min_i64(panel, g->m % g->a_panels);
}

#include "kernels/gemm_pack.h"
#include "kernels/gemm_tile.h"

#endif
