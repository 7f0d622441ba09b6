/* gemm.h: contractions, C(m,n) = sum over k of A(m,k) * B(k,n), in f32 whatever the operands' type.
 *
 * Two kernels a contraction, both cut into tiles that any thread may claim in any order:
 *   pack     widens both operands to f32 and lays them out in panels (scratch of MPC_GEMM_A_BYTES and
 *            MPC_GEMM_B_BYTES, aligned to MPC_GEMM_ALIGN). An operand that stays the same, such as a
 *            weight in evaluation, need not be packed again.
 *   compute  one tile at a time yields finished register tiles `acc`; what becomes of them (bias,
 *            activation, cast, store) is written out by the caller.
 * Every sum runs over k from 0 upwards, cut only by MPC_GEMM_KC: no result depends on the number of
 * threads, on the tile grid, or on the other rows and columns. Any m, n >= 1; k = 0 gives zeros.
 *
 * What a generated program holds, here for h = relu(x @ w.T + b), x (M, 784) f16, w (512, 784) f16:
 *
 *     static void fc1_pack(const Args *a, int64_t tile)           // mpc_gemm(M, 512, 784).pack_tiles
 *     {
 *         const MpcGemm g = mpc_gemm(a->M, 512, 784);
 *
 *         if (tile < g.a_tiles)
 *             mpc_pack_a_f16(&g, tile, scratch_a, x, 784, 1);               // A(m,k) = x[m*784 + k]
 *         else
 *             mpc_pack_b_f16(&g, tile - g.a_tiles, scratch_b, fc1_w, 1, 784); // B(k,n) = w[k + n*784]
 *     }
 *
 *     static void fc1_linear_relu(const Args *a, int64_t tile)         // mpc_gemm(M, 512, 784).tiles
 *     {
 *         const MpcGemm g = mpc_gemm(a->M, 512, 784);
 *         MpcTile t;
 *
 *         for (mpc_tile_open(&t, &g, tile, scratch_a, scratch_b); mpc_tile_next(&t);)
 *             for (int i = 0; i < t.m; i++)
 *                 for (int j = 0; j < t.n; j++) {
 *                     float v0 = t.acc[i][j] + fc1_b[t.j + j];
 *                     float v1 = mpc_max(v0, 0);
 *
 *                     h[(t.i + i) * 512 + t.j + j] = mpc_f32_to_f16(v1);
 *                 }
 *     }
 *
 * An operand that is an expression (an activation's derivative, a cast image) fills the panels itself:
 *
 *         MpcPanel p;
 *
 *         for (mpc_panel_a(&p, &g, tile, scratch_a, 1); mpc_panel_next(&p);)   // 1: k is contiguous
 *             for (int u = 0; u < p.un; u++)
 *                 for (int k = 0; k < p.kn; k++)
 *                     p.in[u][k] = image[(p.u + u) * 784 + p.k + k] * (1.0f / 255);
 *
 *         for (mpc_panel_b(&p, &g, tile - g.a_tiles, scratch_b, 0); mpc_panel_next(&p);) // n is
 *             for (int k = 0; k < p.kn; k++)
 *                 for (int u = 0; u < p.un; u++)
 *                     p.out[k * p.stride + u] = y[(p.k + k) * 512 + p.u + u] * mask(...);
 *
 * Batches: run b * tiles tiles, with tile / g.tiles the batch, and scratch for as many operands.
 *
 * Packed A: panels of g.m's rows, mpc_gemm_rows() says which; A(m,k) at [panel][k][row], MPC_AS floats
 * from k to k. Packed B: panels of MPC_NR columns; B(k,n) at [panel][k][column], MPC_NR floats from k to
 * k, columns past the last one zero up to a whole vector.
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
    MPC_PACK_WORK = 32768,  /* elements that a pack tile handles, about */
    MPC_TILE_PANELS = 10,   /* panels of A in a compute tile, at most */
    MPC_TILE_SPREAD = 16,   /* compute tiles wanted, for threads to share */
    MPC_TILE_WORK = 1 << 23 /* multiply-adds in a compute tile, at most, about */
};

/* How a contraction is cut; follows from the sizes alone. */
typedef struct {
    int64_t m, n, k;
    int64_t a_panels, b_panels; /* of the packed operands */
    int64_t a_group, b_group;   /* panels in a pack tile */
    int64_t a_tiles, pack_tiles; /* pack tiles of A, of both */
    int64_t rows, cols;          /* panels of A and of B in a compute tile */
    int64_t col_tiles, tiles;    /* compute tiles across, and in all */
} MpcGemm;

MPC_FN int64_t mpc_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

MPC_FN int64_t mpc_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

MPC_FN MpcGemm mpc_gemm(int64_t m, int64_t n, int64_t k)
{
    MpcGemm g = {.m = m, .n = n, .k = k};
    int64_t row_tiles, panel_work = mpc_max_i64(k, 1) * MPC_NR;

    g.a_panels = MPC_CEIL_DIV(m, MPC_MR);
    g.b_panels = MPC_CEIL_DIV(n, MPC_NR);
    g.a_group = MPC_CEIL_DIV(MPC_PACK_WORK, panel_work * MPC_AS / MPC_NR);
    g.b_group = MPC_CEIL_DIV(MPC_PACK_WORK, panel_work);
    g.a_tiles = MPC_CEIL_DIV(g.a_panels, g.a_group);
    g.pack_tiles = g.a_tiles + MPC_CEIL_DIV(g.b_panels, g.b_group);

    row_tiles = MPC_CEIL_DIV(g.a_panels, MPC_TILE_PANELS);
    g.rows = MPC_CEIL_DIV(g.a_panels, row_tiles);
    row_tiles = MPC_CEIL_DIV(g.a_panels, g.rows);
    g.cols = mpc_min_i64(g.b_panels * row_tiles / MPC_TILE_SPREAD,
                         MPC_TILE_WORK / (panel_work * MPC_MR * g.rows));
    g.cols = mpc_max_i64(g.cols, 1);
    g.col_tiles = MPC_CEIL_DIV(g.b_panels, g.cols);
    g.tiles = row_tiles * g.col_tiles;
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
