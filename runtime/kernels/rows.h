/* rows.h: what the element-wise and the reducing kernels of a generated program have in common.
 *
 * Spans of work for a tile, and sums and maxima whose order of additions is fixed: element i of a row
 * goes into lane i modulo MPC_LANES, the lanes are added as a tree. So no result depends on the
 * instruction set or on the number of threads. Not here: arithmetic of one element (abi/scalar.h).
 */
#ifndef MPC_ROWS_H
#define MPC_ROWS_H

#include "abi/mpc_rt.h"
#include "abi/scalar.h"

enum {
    MPC_LANES = 32,
    MPC_BLOCK = 1024 /* elements of a row that are held at a time; a multiple of MPC_LANES */
};

typedef struct MpcSpan {
    int64_t lo, hi;
} MpcSpan;

/* Which of n things tile number `tile` handles, `each` at a time. */
MPC_FN MpcSpan mpc_span(int tile, int64_t each, int64_t n)
{
    int64_t lo = tile * each;

    return (MpcSpan){lo, n - lo < each ? n : lo + each};
}

/* The span after s. */
MPC_FN MpcSpan mpc_next_span(MpcSpan s, int64_t each, int64_t n)
{
    return (MpcSpan){s.hi, n - s.hi < each ? n : s.hi + each};
}

MPC_FN int mpc_tiles(int64_t n, int64_t each)
{
    return (int)((n + each - 1) / each);
}

/* A kernel's tiles one after the other, on this thread: in `prepare`, where there are no others. */
MPC_FN void mpc_here(const MpcWorker *w, MpcKernel *kernel, const void *args, int tiles)
{
    for (int tile = 0; tile < tiles; tile++)
        kernel(args, tile, w);
}

/* Not inlined: a program holds each once; what it does not use leaves no trace. */
#define MPC_ROW_FN static __attribute__((noinline, unused))

#define MPC_DEFINE_LANES(name, s, real, start, join)                                               \
    typedef struct MpcLanes_##name##_##s {                                                         \
        real lane[MPC_LANES];                                                                      \
    } MpcLanes_##name##_##s;                                                                       \
                                                                                                   \
    MPC_FN MpcLanes_##name##_##s mpc_##name##_begin_##s(void)                                      \
    {                                                                                              \
        MpcLanes_##name##_##s a;                                                                   \
                                                                                                   \
        for (int l = 0; l < MPC_LANES; l++)                                                        \
            a.lane[l] = start;                                                                     \
        return a;                                                                                  \
    }                                                                                              \
                                                                                                   \
    /* n more elements, from the first lane on */                                                  \
    MPC_ROW_FN void mpc_##name##_add_##s(MpcLanes_##name##_##s *a, const real *x, int64_t n)       \
    {                                                                                              \
        MpcLanes_##name##_##s b = *a;                                                              \
        int64_t i = 0;                                                                             \
                                                                                                   \
        for (; i + MPC_LANES <= n; i += MPC_LANES)                                                 \
            for (int l = 0; l < MPC_LANES; l++)                                                    \
                b.lane[l] = join(x[i + l], b.lane[l]);                                             \
        for (int l = 0; l < MPC_LANES && i + l < n; l++)                                           \
            b.lane[l] = join(x[i + l], b.lane[l]);                                                 \
        *a = b;                                                                                    \
    }                                                                                              \
                                                                                                   \
    MPC_ROW_FN real mpc_##name##_end_##s(MpcLanes_##name##_##s a)                                  \
    {                                                                                              \
        for (int w = MPC_LANES / 2; w > 0; w /= 2)                                                 \
            for (int l = 0; l < w; l++)                                                            \
                a.lane[l] = join(a.lane[l], a.lane[l + w]);                                        \
        return a.lane[0];                                                                          \
    }                                                                                              \
                                                                                                   \
    /* of a whole row */                                                                           \
    MPC_ROW_FN real mpc_##name##_row_##s(const real *x, int64_t n)                                 \
    {                                                                                              \
        MpcLanes_##name##_##s a = mpc_##name##_begin_##s();                                        \
                                                                                                   \
        mpc_##name##_add_##s(&a, x, n);                                                            \
        return mpc_##name##_end_##s(a);                                                            \
    }

#define MPC_JOIN_SUM(a, b) ((a) + (b))

MPC_DEFINE_LANES(sum, f32, float, 0, MPC_JOIN_SUM)
MPC_DEFINE_LANES(sum, f64, double, 0, MPC_JOIN_SUM)
MPC_DEFINE_LANES(max, f32, float, -INFINITY, mpc_max_f32)
MPC_DEFINE_LANES(max, f64, double, -(double)INFINITY, mpc_max_f64)
MPC_DEFINE_LANES(min, f32, float, INFINITY, mpc_min_f32)
MPC_DEFINE_LANES(min, f64, double, (double)INFINITY, mpc_min_f64)

#endif
