/* gemm_tile.h: packed panels to finished register tiles. Part of gemm.h.
 *
 * The micro-kernel keeps rows x vectors accumulators in registers and adds, for each k, one broadcast
 * element of A times the vectors of B. It exists for every number of rows up to MPC_MR and for one and
 * two vectors of columns, so that edges cost no more than they are worth.
 */
#ifndef MPC_GEMM_TILE_H
#define MPC_GEMM_TILE_H

enum { MPC_AHEAD_A = 32, MPC_AHEAD_B = 16, MPC_LINE = 16 }; /* k; k; floats in a cache line */

typedef float MpcRow[MPC_NR];

/* Walks the register tiles of one compute tile. After mpc_tile_next: acc[x][y] is C(i + x, j + y) for
 * x < m, y < n. */
typedef struct MpcTile {
    int64_t i, j;
    int m, n;
    MpcRow *acc;
    int64_t row, col;    /* panels, the next ones */
    int64_t parts, part; /* k's passes, and the longest of them */
    const MpcGemm *g;
    _Alignas(64) float sums[MPC_TILE_PANELS][MPC_MR][MPC_NR];
} MpcTile;

typedef void MpcMicro(int64_t kn, const float *a, const float *b, float *acc, int add);

MPC_FN void mpc_micro(int rows, int vectors, int64_t kn, const float *a, const float *b, float *acc,
                      int add)
{
    mpc_vf c[MPC_MR][MPC_NR / MPC_VL];

    MPC_UNROLL
    for (int i = 0; i < rows; i++)
        MPC_UNROLL
    for (int v = 0; v < vectors; v++)
        c[i][v] = vf_zero();
    for (int64_t k = 0; k < kn; k++, a += MPC_AS, b += MPC_NR) {
        mpc_vf x[MPC_NR / MPC_VL];

        /* Panels lie in the second-level cache, or were packed by another core. */
        __builtin_prefetch(a + MPC_AHEAD_A * MPC_AS);
        for (int f = 0; f < vectors * MPC_VL; f += MPC_LINE)
            __builtin_prefetch(b + MPC_AHEAD_B * MPC_NR + f);
        MPC_UNROLL
        for (int v = 0; v < vectors; v++)
            x[v] = vf_load(b + v * MPC_VL);
        MPC_UNROLL
        for (int i = 0; i < rows; i++) {
            mpc_vf y = vf_set1(a[i]);

            MPC_UNROLL
            for (int v = 0; v < vectors; v++)
                c[i][v] = vf_fma(y, x[v], c[i][v]);
        }
    }
    MPC_UNROLL
    for (int i = 0; i < rows; i++)
        MPC_UNROLL
    for (int v = 0; v < vectors; v++) {
        float *to = acc + i * MPC_NR + v * MPC_VL;

        vf_store(to, add ? vf_add(vf_load(to), c[i][v]) : c[i][v]);
    }
}

#define MPC_MICRO(rows)                                                                            \
    MPC_KERNEL void mpc_micro_##rows##x1(int64_t kn, const float *a, const float *b, float *acc,   \
                                         int add)                                                  \
    {                                                                                              \
        mpc_micro(rows, 1, kn, a, b, acc, add);                                                    \
    }                                                                                              \
    MPC_KERNEL void mpc_micro_##rows##x2(int64_t kn, const float *a, const float *b, float *acc,   \
                                         int add)                                                  \
    {                                                                                              \
        mpc_micro(rows, 2, kn, a, b, acc, add);                                                    \
    }
#define MPC_MICRO_PAIR(rows)                                                                       \
    {                                                                                              \
        mpc_micro_##rows##x1, mpc_micro_##rows##x2                                                 \
    }

MPC_MICRO(1)
MPC_MICRO(2)
MPC_MICRO(3)
MPC_MICRO(4)
#if MPC_MR >= 6
MPC_MICRO(5)
MPC_MICRO(6)
#endif
#if MPC_MR >= 14
MPC_MICRO(7)
MPC_MICRO(8)
MPC_MICRO(9)
MPC_MICRO(10)
MPC_MICRO(11)
MPC_MICRO(12)
MPC_MICRO(13)
MPC_MICRO(14)
#endif

static MpcMicro *const mpc_micro_table[MPC_MR][2] __attribute__((unused)) = {
    MPC_MICRO_PAIR(1),  MPC_MICRO_PAIR(2),  MPC_MICRO_PAIR(3),  MPC_MICRO_PAIR(4),
#if MPC_MR >= 6
    MPC_MICRO_PAIR(5),  MPC_MICRO_PAIR(6),
#endif
#if MPC_MR >= 14
    MPC_MICRO_PAIR(7),  MPC_MICRO_PAIR(8),  MPC_MICRO_PAIR(9),  MPC_MICRO_PAIR(10),
    MPC_MICRO_PAIR(11), MPC_MICRO_PAIR(12), MPC_MICRO_PAIR(13), MPC_MICRO_PAIR(14),
#endif
};

MPC_FN void mpc_tile_open(MpcTile *t, const MpcGemm *g)
{
    t->g = g;
    t->row = g->row;
    t->col = g->col;
    t->parts = mpc_max_i64(MPC_CEIL_DIV(g->k, MPC_KC), 1);
    t->part = MPC_CEIL_DIV(g->k, t->parts);
}

/* Adds pass `part` of k to the sums of panel `row`. */
MPC_FN void mpc_tile_part(MpcTile *t, int64_t row, int64_t part)
{
    const MpcGemm *g = t->g;
    int64_t k0 = part * t->part, kn = mpc_min_i64(g->k - k0, t->part);
    int rows = (int)(mpc_gemm_row(g, row + 1) - mpc_gemm_row(g, row));

    mpc_micro_table[rows - 1][t->n > MPC_VL](kn, mpc_panel_at(g, 1, row) + k0 * MPC_AS,
                                             mpc_panel_at(g, 0, t->col) + k0 * MPC_NR,
                                             t->sums[row - g->row][0], part > 0);
}

/* Completes the next register tile; false after the last. */
MPC_KERNEL int mpc_tile_next(MpcTile *t)
{
    const MpcGemm *g = t->g;

    if (t->row == g->row_end) {
        t->row = g->row;
        t->col++;
    }
    if (t->col == g->col_end)
        return 0;
    t->j = t->col * MPC_NR;
    t->n = (int)mpc_min_i64(g->n - t->j, MPC_NR);
    if (t->row == g->row)
        for (int64_t part = 0; part < t->parts - 1; part++)
            for (int64_t row = g->row; row < g->row_end; row++)
                mpc_tile_part(t, row, part);
    mpc_tile_part(t, t->row, t->parts - 1);
    t->i = mpc_gemm_row(g, t->row);
    t->m = (int)(mpc_gemm_row(g, t->row + 1) - t->i);
    t->acc = t->sums[t->row - g->row];
    t->row++;
    return 1;
}

#endif
