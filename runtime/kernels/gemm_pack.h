/* gemm_pack.h: operands into panels, widened to f32. Part of gemm.h, which describes the layout.
 *
 * An operand is seen as X(u,k), u being a row of A or a column of B. Where k is contiguous in memory,
 * squares of vectors are transposed in registers; where u is, runs are copied. All else (8-bit types,
 * integers, expressions) goes through MpcPanel, whose user fills small blocks.
 */
#ifndef MPC_GEMM_PACK_H
#define MPC_GEMM_PACK_H

enum { MPC_PANEL_K = 64 }; /* k in a block of MpcPanel */

typedef enum MpcAxis { MPC_ACROSS_K, MPC_ALONG_K } MpcAxis;

/* Walks the blocks of what a tile packs of one operand. After mpc_panel_next: units u .. u+un-1, positions
 * k .. k+kn-1; X(u,k) goes to in[u][k] (along k) or to out[k * stride + u] (across). */
typedef struct MpcPanel {
    int64_t u, k;
    int un, kn, stride;
    float *out;
    MpcAxis axis;
    int is_a, width; /* rows of A; units with padding */
    int64_t panel, end;
    const MpcGemm *g;
    _Alignas(64) float in[MPC_NR][MPC_PANEL_K];
} MpcPanel;

/* The units of a panel: its first one, and how many there are. */
MPC_FN int mpc_panel_units(const MpcGemm *g, int is_a, int64_t panel, int64_t *first)
{
    *first = is_a ? mpc_gemm_row(g, panel) : panel * MPC_NR;
    return (int)(is_a ? mpc_gemm_row(g, panel + 1) - *first : mpc_min_i64(g->n - *first, MPC_NR));
}

MPC_FN float *mpc_panel_at(const MpcGemm *g, int is_a, int64_t panel)
{
    return is_a ? g->a + (panel - g->a_first) * g->k * MPC_AS
                : g->b + (panel - g->b_first) * g->k * MPC_NR;
}

MPC_FN int mpc_pad(int units)
{
    return (units + MPC_VL - 1) / MPC_VL * MPC_VL;
}

/* in[units][.] to out[.][stride], `un` of the units present, the rest of `width` zero */
MPC_KERNEL void mpc_pack_turn(const MpcPanel *p)
{
    for (int u = 0; u < p->width; u += MPC_VL)
        for (int k = 0; k < p->kn; k += MPC_VL) {
            mpc_vf r[MPC_VL];
            int left = p->kn - k;

            MPC_UNROLL
            for (int i = 0; i < MPC_VL; i++)
                r[i] = u + i < p->un ? vf_load(&p->in[u + i][k]) : vf_zero();
            vf_transpose(r);
            MPC_UNROLL
            for (int i = 0; i < MPC_VL; i++)
                if (i < left)
                    vf_store(p->out + (int64_t)(k + i) * p->stride + u, r[i]);
        }
}

MPC_KERNEL void mpc_panel_pad(const MpcPanel *p)
{
    for (int k = 0; k < p->kn; k++)
        for (int u = p->un; u < p->width; u++)
            p->out[(int64_t)k * p->stride + u] = 0;
}

MPC_FN void mpc_panel_start(MpcPanel *p, const MpcGemm *g, MpcAxis axis, int is_a)
{
    p->g = g;
    p->axis = axis;
    p->is_a = is_a;
    p->stride = is_a ? MPC_AS : MPC_NR;
    p->panel = (is_a ? g->pack_a : g->pack_b) - 1;
    p->end = is_a ? g->pack_a_end : g->pack_b_end;
    p->k = g->k;
    p->kn = 0;
}

MPC_FN void mpc_panel_a(MpcPanel *p, const MpcGemm *g, MpcAxis axis)
{
    mpc_panel_start(p, g, axis, 1);
}

MPC_FN void mpc_panel_b(MpcPanel *p, const MpcGemm *g, MpcAxis axis)
{
    mpc_panel_start(p, g, axis, 0);
}

/* Finishes the block that was filled and moves to the next one; false after the last. */
MPC_FN int mpc_panel_next(MpcPanel *p)
{
    if (p->kn > 0 && p->axis == MPC_ALONG_K)
        mpc_pack_turn(p);
    else if (p->kn > 0 && p->un < p->width)
        mpc_panel_pad(p);
    p->k += p->kn;
    if (p->k >= p->g->k) {
        if (++p->panel >= p->end || p->g->k == 0)
            return 0;
        p->k = 0;
        p->un = mpc_panel_units(p->g, p->is_a, p->panel, &p->u);
        p->width = mpc_pad(p->un);
    }
    p->kn = (int)mpc_min_i64(p->g->k - p->k, MPC_PANEL_K);
    p->out = mpc_panel_at(p->g, p->is_a, p->panel) + p->k * p->stride;
    return 1;
}

/* One panel, u contiguous: X(u,k) = x[u + k*step], `units` of them present, `width` with padding. */
#define MPC_DEFINE_COPY(name, type, load, part)                                                    \
    MPC_FN void mpc_copy_##name(float *out, int stride, const type *x, int64_t step, int units,    \
                                int width, int64_t kn)                                             \
    {                                                                                              \
        for (int64_t k = 0; k < kn; k++, x += step, out += stride)                                 \
            for (int u = 0; u < width; u += MPC_VL)                                                \
                vf_store(out + u, units - u < MPC_VL ? part(x + u, units - u) : load(x + u));      \
    }

/* One panel, k contiguous: X(u,k) = x[u*step + k]. */
#define MPC_DEFINE_TURN(name, type, load, part)                                                    \
    MPC_FN void mpc_turn_##name(float *out, int stride, const type *x, int64_t step, int units,    \
                                int width, int64_t kn)                                             \
    {                                                                                              \
        for (int u = 0; u < width; u += MPC_VL)                                                    \
            for (int64_t k = 0; k < kn; k += MPC_VL) {                                             \
                int have = units - u, left = (int)mpc_min_i64(kn - k, MPC_VL);                     \
                const type *from = x + u * step + k;                                               \
                mpc_vf r[MPC_VL];                                                                  \
                                                                                                   \
                MPC_UNROLL                                                                         \
                for (int i = 0; i < MPC_VL; i++)                                                   \
                    r[i] = i >= have       ? vf_zero()                                             \
                           : left < MPC_VL ? part(from + i * step, left)                           \
                                           : load(from + i * step);                                \
                vf_transpose(r);                                                                   \
                MPC_UNROLL                                                                         \
                for (int i = 0; i < MPC_VL; i++)                                                   \
                    if (i < left)                                                                  \
                        vf_store(out + (k + i) * stride + u, r[i]);                                \
            }                                                                                      \
    }

/* All that a tile packs of one operand: X(u,k) = x[u*su + k*sk]; one of the strides is 1. */
#define MPC_DEFINE_PACK(name, type)                                                                \
    MPC_KERNEL void mpc_pack_##name(const MpcGemm *g, int is_a, const type *x, int64_t su,         \
                                    int64_t sk)                                                    \
    {                                                                                              \
        int64_t end = is_a ? g->pack_a_end : g->pack_b_end, u;                                     \
        int stride = is_a ? MPC_AS : MPC_NR;                                                       \
                                                                                                   \
        for (int64_t p = is_a ? g->pack_a : g->pack_b; p < end; p++) {                             \
            int units = mpc_panel_units(g, is_a, p, &u), width = mpc_pad(units);                   \
            float *out = mpc_panel_at(g, is_a, p);                                                 \
                                                                                                   \
            if (sk == 1)                                                                           \
                mpc_turn_##name(out, stride, x + u * su, su, units, width, g->k);                  \
            else                                                                                   \
                mpc_copy_##name(out, stride, x + u, sk, units, width, g->k);                       \
        }                                                                                          \
    }                                                                                              \
    /* A(m,k) = x[m*sm + k*sk] */                                                                  \
    MPC_FN void mpc_pack_a_##name(const MpcGemm *g, const type *x, int64_t sm, int64_t sk)         \
    {                                                                                              \
        mpc_pack_##name(g, 1, x, sm, sk);                                                          \
    }                                                                                              \
    /* B(k,n) = x[k*sk + n*sn] */                                                                  \
    MPC_FN void mpc_pack_b_##name(const MpcGemm *g, const type *x, int64_t sk, int64_t sn)         \
    {                                                                                              \
        mpc_pack_##name(g, 0, x, sn, sk);                                                          \
    }

MPC_DEFINE_COPY(f32, float, vf_loadu, vf_part)
MPC_DEFINE_TURN(f32, float, vf_loadu, vf_part)
MPC_DEFINE_PACK(f32, float)
MPC_DEFINE_COPY(f16, mpc_f16, vf_load_f16, vf_part_f16)
MPC_DEFINE_TURN(f16, mpc_f16, vf_load_f16, vf_part_f16)
MPC_DEFINE_PACK(f16, mpc_f16)
MPC_DEFINE_COPY(bf16, mpc_bf16, vf_load_bf16, vf_part_bf16)
MPC_DEFINE_TURN(bf16, mpc_bf16, vf_load_bf16, vf_part_bf16)
MPC_DEFINE_PACK(bf16, mpc_bf16)

#endif
