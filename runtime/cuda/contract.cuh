/* contract.cuh: sums of products of tiles that lie in shared memory: what the emitted contractions and convolutions
 * are built on.
 *
 * A block has 64 x 64 elements of the result. It brings pieces of 64 x MPC_..._K of both operands to shared memory,
 * multiplies them, and goes on along k; then each thread finishes the elements that it owns. Operands in f32 are
 * multiplied by fma, the sum's order being that of k; operands in f16 and bf16 by tensor cores.
 *
 * A tile of a holds element (u, k) of the operand, u along m; one of b element (k, u), u along n. */
#ifndef MPC_CONTRACT_CUH
#define MPC_CONTRACT_CUH

#include "cuda/prelude.cuh"

#define MPC_TILE 64

/* ---- by fma: 256 threads, each with 4 x 4 elements ---- */

#define MPC_FMA_K 16
#define MPC_FMA_OWN 16
#define MPC_FMA_ROW (MPC_TILE + 4)

MPC_FN int mpc_fma_row(int e)
{
    return mpc_thread() / 16 * 4 + e / 4;
}

MPC_FN int mpc_fma_column(int e)
{
    return mpc_thread() % 16 * 4 + e % 4;
}

MPC_FN void mpc_fma_tile(float acc[MPC_FMA_OWN], const float a[MPC_FMA_K][MPC_FMA_ROW],
                         const float b[MPC_FMA_K][MPC_FMA_ROW])
{
    MPC_UNROLL
    for (int k = 0; k < MPC_FMA_K; k++) {
        float x[4], y[4];

        mpc_copy_bytes(x, &a[k][mpc_fma_row(0)], 16);
        mpc_copy_bytes(y, &b[k][mpc_fma_column(0)], 16);
        MPC_UNROLL
        for (int e = 0; e < MPC_FMA_OWN; e++)
            acc[e] = mpc_fma(x[e / 4], y[e % 4], acc[e]);
    }
}

/* ---- by tensor cores: 4 warps, each with 32 x 32 elements in 2 x 4 pieces of 16 x 8 ---- */

#define MPC_MMA_K 32
#define MPC_MMA_OWN 32
#define MPC_MMA_ROW                                                                                \
    (MPC_MMA_K + 8) /* eight rows of 16 bytes lie in eight different groups of banks */

/* Element e is number e % 4 of the thread's in piece (e / 16, e / 4 % 4). */
MPC_FN int mpc_mma_row(int e)
{
    return mpc_warp() / 2 * 32 + e / 16 * 16 + mpc_lane() / 4 + e % 4 / 2 * 8;
}

MPC_FN int mpc_mma_column(int e)
{
    return mpc_warp() % 2 * 32 + e / 4 % 4 * 8 + mpc_lane() % 4 * 2 + e % 2;
}

#define MPC_DEFINE_MMA_TILE(s)                                                                     \
    MPC_FN void mpc_mma_tile_##s(float acc[MPC_MMA_OWN], const mpc_##s a[MPC_TILE][MPC_MMA_ROW],   \
                                 const mpc_##s b[MPC_TILE][MPC_MMA_ROW])                           \
    {                                                                                              \
        const int lane = mpc_lane(), m = mpc_warp() / 2 * 32, n = mpc_warp() % 2 * 32;             \
                                                                                                   \
        MPC_UNROLL                                                                                 \
        for (int k = 0; k < MPC_MMA_K; k += 16) {                                                  \
            uint32_t x[2][4], y[2][4];                                                             \
                                                                                                   \
            MPC_UNROLL                                                                             \
            for (int i = 0; i < 2; i++) {                                                          \
                mpc_load_matrix(x[i], &a[m + 16 * i + lane % 16][k + lane / 16 * 8]);              \
                mpc_load_matrix(y[i],                                                              \
                                &b[n + 16 * i + lane % 8 + lane / 16 * 8][k + lane / 8 % 2 * 8]);  \
            }                                                                                      \
            MPC_UNROLL                                                                             \
            for (int e = 0; e < 8; e++)                                                            \
                mpc_mma_##s(acc + 4 * e, x[e / 4], y[e / 2 % 2][e % 2 * 2],                        \
                            y[e / 2 % 2][e % 2 * 2 + 1]);                                          \
        }                                                                                          \
    }

MPC_DEFINE_MMA_TILE(f16)
MPC_DEFINE_MMA_TILE(bf16)

/* ---- operands read through windows ---- */

/* Where row `row` and column `column` of an image lie in it, if they are there; -1 if not. They are numbers of steps,
 * and there is something at multiples of them only. */
MPC_FN int mpc_in_image(int row, int column, int rows, int columns, int row_step, int column_step,
                        int row_stride)
{
    const int r = row / row_step, c = column / column_step;
    const int there = row >= 0 && column >= 0 && r < rows && c < columns && r * row_step == row &&
                      c * column_step == column;

    return there ? r * row_stride + c : -1;
}

#endif
