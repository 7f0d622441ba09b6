/* conv.h: convolutions as contractions, C(m,n) = sum over k of A(m,k) * B(k,n), on the micro-kernels of gemm.h.
 *
 * B is what windows see of images: many times as large as these, so it is never in memory whole. A compute tile
 * packs a piece of it, MPC_NR columns by at most MPC_KC, multiplies all its panels of A by that, and goes on. A (the
 * weight; the result's gradient) is packed in the arena by a kernel of its own, once for all images if it is one for
 * all. Sums run over k upwards, cut only by MPC_KC, as in gemm.h.
 *
 *     static const MpcWindow window = {...};
 *     const MpcGemm g = mpc_conv_tile(32, 784, 9, tile % cut.tiles, a->packed, w->scratch);
 *     MpcTile t;
 *
 *     for (mpc_tile_open(&t, &g); mpc_conv_next_f32(&t, a->x + batch * 784, &window);)
 *         for (int i = 0; i < t.m; i++)
 *             for (int j = 0; j < t.n; j++)
 *                 a->y[batch * 25088 + (t.i + i) * 784 + t.j + j] = t.acc[i][j];
 */
#ifndef MPC_CONV_H
#define MPC_CONV_H

#include "kernels/gemm.h"

/* One of the indices that u or k stands for, the outermost first: what a step of it means in memory and in the
 * image. The size of the outermost does not matter. */
typedef struct MpcPart {
    int64_t size, stride;
    int row, col;
} MpcPart;

/* Element (u, k) lies where its parts lead, if its row and column are in the image: within rows x cols, and multiples
 * of the steps (by which they are divided then). It is 0 elsewhere. rows 0: no image, everything exists. */
typedef struct MpcWindow {
    int nu, nk;
    MpcPart u[3], k[3];
    int row, col, rows, cols; /* of element (0, 0); of the image */
    int row_step, col_step;
    int64_t row_stride; /* in memory */
} MpcWindow;

/* Where an index has got to. */
typedef struct MpcCursor {
    int64_t index[3], at;
    int row, col;
} MpcCursor;

MPC_FN void mpc_cursor_set(MpcCursor *c, const MpcPart *parts, int n, int64_t i)
{
    *c = (MpcCursor){.at = 0};
    for (int p = n - 1; p >= 0; p--) {
        c->index[p] = p > 0 ? i % parts[p].size : i;
        i = p > 0 ? i / parts[p].size : 0;
        c->at += c->index[p] * parts[p].stride;
        c->row += (int)c->index[p] * parts[p].row;
        c->col += (int)c->index[p] * parts[p].col;
    }
}

MPC_FN void mpc_cursor_next(MpcCursor *c, const MpcPart *parts, int n)
{
    for (int p = n - 1; p >= 0; p--) {
        c->at += parts[p].stride;
        c->row += parts[p].row;
        c->col += parts[p].col;
        if (++c->index[p] < parts[p].size || p == 0)
            return;
        c->at -= parts[p].size * parts[p].stride;
        c->row -= (int)parts[p].size * parts[p].row;
        c->col -= (int)parts[p].size * parts[p].col;
        c->index[p] = 0;
    }
}

/* The columns of a panel. What there is none of lies outside of every image. */
typedef struct MpcUnits {
    _Alignas(64) int at[MPC_NR];
    _Alignas(64) int row[MPC_NR];
    _Alignas(64) int col[MPC_NR];
    int count, width;         /* with padding to whole vectors */
    int run[MPC_NR / MPC_VL]; /* the vector's elements are neighbours in memory */
} MpcUnits;

MPC_KERNEL void mpc_units(MpcUnits *c, const MpcWindow *w, int64_t u, int64_t n)
{
    MpcCursor at;

    c->count = (int)mpc_min_i64(n - u, MPC_NR);
    c->width = mpc_pad(c->count);
    mpc_cursor_set(&at, w->u, w->nu, u);
    for (int i = 0; i < c->width; i++) {
        c->at[i] = i < c->count ? (int)at.at : 0;
        c->row[i] = i < c->count ? at.row : INT32_MIN / 2;
        c->col[i] = i < c->count ? at.col : 0;
        mpc_cursor_next(&at, w->u, w->nu);
    }
    for (int v = 0; v < c->width / MPC_VL; v++) {
        const int *first = c->at + v * MPC_VL;

        c->run[v] = 1;
        for (int i = 1; i < MPC_VL && v * MPC_VL + i < c->count; i++)
            c->run[v] &= first[i] == first[0] + i;
    }
}

/* Where steps are 1, rows and columns are strides like any other. */
MPC_FN MpcWindow mpc_window_flat(const MpcWindow *w)
{
    MpcWindow f = *w;

    for (int i = 0; i < f.nu; i++)
        f.u[i].stride += f.u[i].row * f.row_stride + f.u[i].col;
    for (int i = 0; i < f.nk; i++)
        f.k[i].stride += f.k[i].row * f.row_stride + f.k[i].col;
    return f;
}

/* What a window's elements see, in a channel, and in all others too: how far from the columns it lies, and which of
 * these are inside of the image, a bit for each. */
typedef struct MpcTaps {
    int64_t at[MPC_KC];
    uint16_t in[MPC_KC][MPC_NR / MPC_VL];
} MpcTaps;

/* Elements k .. k + n. */
MPC_KERNEL void mpc_taps(MpcTaps *taps, const MpcWindow *f, const MpcUnits *c, int64_t k, int64_t n)
{
    MpcCursor at;

    mpc_cursor_set(&at, f->k, f->nk, k);
    for (int64_t t = 0; t < n; t++) {
        taps->at[t] = at.at;
        for (int v = 0; v < c->width; v += MPC_VL)
            taps->in[t][v / MPC_VL] = (uint16_t)(vf_below(c->row + v, f->row + at.row, f->rows) &
                                                 vf_below(c->col + v, f->col + at.col, f->cols));
        mpc_cursor_next(&at, f->k, f->nk);
    }
}

/* The same where rows and columns are divided: each column sees another distance. */
typedef struct MpcSpacedTaps {
    _Alignas(64) int column[MPC_KC][MPC_NR];
    int64_t at[MPC_KC];
    uint16_t in[MPC_KC][MPC_NR / MPC_VL];
} MpcSpacedTaps;

MPC_KERNEL void mpc_spaced_taps(MpcSpacedTaps *taps, const MpcWindow *w, const MpcUnits *c,
                                int64_t k, int64_t n)
{
    MpcCursor at;

    mpc_cursor_set(&at, w->k, w->nk, k);
    for (int64_t t = 0; t < n; t++) {
        taps->at[t] = at.at;
        for (int v = 0; v < c->width; v++) {
            int row = c->row[v] + w->row + at.row, col = c->col[v] + w->col + at.col;
            int r = row / w->row_step, q = col / w->col_step;
            int inside = row >= 0 && col >= 0 && r < w->rows && q < w->cols &&
                         r * w->row_step == row && q * w->col_step == col;
            uint16_t *in = &taps->in[t][v / MPC_VL];

            taps->column[t][v] = inside ? c->at[v] + r * (int)w->row_stride + q : 0;
            *in = (uint16_t)((v % MPC_VL > 0 ? *in : 0) | inside << v % MPC_VL);
        }
        mpc_cursor_next(&at, w->k, w->nk);
    }
}

/* Passes over `steps` steps in the innermost part, of which that many are left. */
MPC_FN void mpc_cursor_skip(MpcCursor *c, const MpcPart *parts, int n, int64_t steps)
{
    const MpcPart *last = &parts[n - 1];

    c->index[n - 1] += steps - 1;
    c->at += (steps - 1) * last->stride;
    c->row += (int)(steps - 1) * last->row;
    c->col += (int)(steps - 1) * last->col;
    mpc_cursor_next(c, parts, n);
}

/* At most a vector of steps along a row of windows: what the first one sees, how many there are, a bit for each, and
 * the first of them. */
typedef struct MpcStretch {
    int64_t at;
    int row, col;
    unsigned steps;
    int first;
} MpcStretch;

/* Positions k .. k + n as such; how many they are. */
MPC_KERNEL int mpc_stretches(MpcStretch *s, const MpcWindow *f, int64_t k, int64_t n)
{
    MpcCursor at;
    int count = 0;

    mpc_cursor_set(&at, f->k, f->nk, k);
    for (int64_t i = 0, steps; i < n; i += steps) {
        steps = mpc_min_i64(f->k[f->nk - 1].size - at.index[f->nk - 1], MPC_VL);
        s[count++] = (MpcStretch){.at = at.at,
                                  .row = f->row + at.row,
                                  .col = f->col + at.col,
                                  .steps = (1u << steps) - 1,
                                  .first = (int)i};
        mpc_cursor_skip(&at, f->k, f->nk, steps);
    }
    return count;
}

typedef float
    MpcAlong[MPC_PANEL_K + MPC_VL]; /* what a column sees along k; whole vectors are written */

MPC_KERNEL void mpc_along_turn(float *out, const float *in, const MpcUnits *c, int64_t kn)
{
    mpc_turn_f32(out, MPC_NR, in, sizeof(MpcAlong) / sizeof(float), c->count, c->width, kn);
}

/* Columns of B, k .. k + kn, to out[k][MPC_NR]; zeros up to the width. */
#define MPC_DEFINE_WINDOWS(name, type, widen)                                                      \
    /* A row of B is what one element of all windows sees, channel after channel. */               \
    MPC_KERNEL void mpc_across_##name(float *out, const type *x, const MpcWindow *f,               \
                                      const MpcUnits *c, int64_t k, int64_t kn)                    \
    {                                                                                              \
        int64_t elements = f->k[1].size * f->k[2].size;                                            \
        MpcTaps taps;                                                                              \
                                                                                                   \
        mpc_taps(&taps, f, c, k, mpc_min_i64(elements, kn));                                       \
        for (int64_t i = 0; i < kn; i += elements, x += f->k[0].stride)                            \
            for (int64_t t = 0; t < mpc_min_i64(elements, kn - i); t++, out += MPC_NR) {           \
                const type *from = x + taps.at[t];                                                 \
                                                                                                   \
                for (int v = 0; v < c->width / MPC_VL; v++) {                                      \
                    const int *at = c->at + v * MPC_VL;                                            \
                                                                                                   \
                    vf_store(out + v * MPC_VL, c->run[v]                                           \
                                                   ? vf_some_##name(from + *at, taps.in[t][v])     \
                                                   : vf_pick_##name(from, at, taps.in[t][v]));     \
                }                                                                                  \
            }                                                                                      \
    }                                                                                              \
    /* A column of B is what all windows see of one element: rows of the image. */                 \
    MPC_KERNEL void mpc_along_##name(float *out, const type *x, const MpcWindow *f,                \
                                     const MpcUnits *c, int64_t k, int64_t kn)                     \
    {                                                                                              \
        _Alignas(64) MpcAlong in[MPC_NR];                                                          \
        _Alignas(64) int col[MPC_VL];                                                              \
        MpcStretch stretch[MPC_PANEL_K];                                                           \
        int step = f->k[f->nk - 1].col;                                                            \
                                                                                                   \
        for (int i = 0; i < MPC_VL; i++)                                                           \
            col[i] = i * step;                                                                     \
        for (int64_t i = 0, n; i < kn; i += n, out += n * MPC_NR) {                                \
            n = mpc_min_i64(kn - i, MPC_PANEL_K);                                                  \
            int stretches = mpc_stretches(stretch, f, k + i, n);                                   \
                                                                                                   \
            for (int u = 0; u < c->count; u++)                                                     \
                for (const MpcStretch *s = stretch; s < stretch + stretches; s++) {                \
                    int inside = (unsigned)(s->row + c->row[u]) < (unsigned)f->rows;               \
                    unsigned some = vf_below(col, s->col + c->col[u], f->cols) & s->steps;         \
                    const type *from = x + s->at + c->at[u];                                       \
                                                                                                   \
                    some = inside ? some : 0;                                                      \
                    vf_storeu(in[u] + s->first, step == 1 ? vf_some_##name(from, some)             \
                                                          : vf_pick_##name(from, col, some));      \
                }                                                                                  \
            mpc_along_turn(out, in[0], c, n);                                                      \
        }                                                                                          \
    }                                                                                              \
    /* Between the elements of the image there are zeros. */                                       \
    MPC_KERNEL void mpc_spaced_##name(float *out, const type *x, const MpcWindow *w,               \
                                      const MpcUnits *c, int64_t k, int64_t kn)                    \
    {                                                                                              \
        int64_t elements = w->k[1].size * w->k[2].size;                                            \
        MpcSpacedTaps taps;                                                                        \
                                                                                                   \
        mpc_spaced_taps(&taps, w, c, k, mpc_min_i64(elements, kn));                                \
        for (int64_t i = 0; i < kn; i += elements, x += w->k[0].stride)                            \
            for (int64_t t = 0; t < mpc_min_i64(elements, kn - i); t++, out += MPC_NR)             \
                for (int v = 0; v < c->width; v += MPC_VL)                                         \
                    vf_store(out + v, vf_pick_##name(x + taps.at[t], taps.column[t] + v,           \
                                                     taps.in[t][v / MPC_VL]));                     \
    }                                                                                              \
    /* Completes the next register tile; false after the last. */                                  \
    MPC_KERNEL int mpc_conv_next_##name(MpcTile *t, const type *x, const MpcWindow *w)             \
    {                                                                                              \
        const MpcGemm *g = t->g;                                                                   \
                                                                                                   \
        if (mpc_conv_turn(t)) {                                                                    \
            int spaced = w->row_step > 1 || w->col_step > 1;                                       \
            int along = w->u[0].row == 0 && w->u[0].col == 0; /* channels */                       \
            const MpcWindow f = spaced ? *w : mpc_window_flat(w);                                  \
            const type *from = spaced ? x : x + f.row * f.row_stride + f.col;                      \
            MpcUnits c;                                                                            \
                                                                                                   \
            mpc_units(&c, &f, t->col *MPC_NR, g->n);                                               \
            for (int64_t part = 0; part < t->parts; part++) {                                      \
                int64_t k = part * t->part, kn = mpc_min_i64(g->k - k, t->part);                   \
                                                                                                   \
                if (spaced)                                                                        \
                    mpc_spaced_##name(g->b, from, &f, &c, k, kn);                                  \
                else if (along)                                                                    \
                    mpc_along_##name(g->b, from, &f, &c, k, kn);                                   \
                else                                                                               \
                    mpc_across_##name(g->b, from, &f, &c, k, kn);                                  \
                mpc_conv_part(t, c.width, part, k, kn);                                            \
            }                                                                                      \
        }                                                                                          \
        return mpc_conv_take(t);                                                                   \
    }                                                                                              \
    /* All that a tile packs of A: one part of u; along k, runs of contiguous elements. */         \
    MPC_KERNEL void mpc_window_a_##name(const MpcGemm *g, const type *x, const MpcWindow *w)       \
    {                                                                                              \
        const MpcPart *run = &w->k[w->nk - 1];                                                     \
        int64_t su = w->u[0].stride, u;                                                            \
                                                                                                   \
        for (int64_t p = g->pack_a; p < g->pack_a_end; p++) {                                      \
            int units = mpc_panel_units(g, 1, p, &u);                                              \
            float *out = mpc_panel_at(g, 1, p);                                                    \
                                                                                                   \
            for (int64_t k = 0; k < g->k; k += run->size)                                          \
                mpc_turn_##name(out + k * MPC_AS, MPC_AS,                                          \
                                x + u * su + k / run->size * w->k[0].stride, su, units,            \
                                mpc_pad(units), run->size);                                        \
        }                                                                                          \
    }

/* The cut: g.tiles and g.pack_tiles are of one image. */
MPC_FN MpcGemm mpc_conv(int64_t m, int64_t n, int64_t k)
{
    MpcGemm g = {.m = m, .n = n, .k = k};
    int64_t panel_work = mpc_max_i64(k, 1) * MPC_AS;

    g.a_panels = MPC_CEIL_DIV(m, MPC_MR);
    g.b_panels = g.col_tiles = MPC_CEIL_DIV(n, MPC_NR);
    g.row_tiles = MPC_CEIL_DIV(g.a_panels, MPC_TILE_PANELS);
    g.rows = MPC_CEIL_DIV(g.a_panels, g.row_tiles);
    g.row_tiles = MPC_CEIL_DIV(g.a_panels, g.rows);
    g.cols = 1;
    g.tiles = g.row_tiles * g.col_tiles;
    g.a_group = MPC_CEIL_DIV(MPC_PACK_WORK, panel_work);
    g.pack_tiles = g.a_tiles = MPC_CEIL_DIV(g.a_panels, g.a_group);
    return g;
}

MPC_FN MpcGemm mpc_conv_pack(int64_t m, int64_t n, int64_t k, int64_t tile, void *packed)
{
    MpcGemm g = mpc_conv(m, n, k);

    g.a = (float *)packed;
    g.pack_a = tile * g.a_group;
    g.pack_a_end = mpc_min_i64(g.pack_a + g.a_group, g.a_panels);
    return g;
}

/* One tile of the compute kernel. scratch: MPC_CONV_OWN_BYTES of this thread. */
MPC_FN MpcGemm mpc_conv_tile(int64_t m, int64_t n, int64_t k, int64_t tile, void *packed,
                             void *scratch)
{
    MpcGemm g = mpc_conv(m, n, k);

    g.a = (float *)packed;
    g.b = (float *)scratch;
    g.row = tile / g.col_tiles * g.rows;
    g.row_end = mpc_min_i64(g.row + g.rows, g.a_panels);
    g.col = tile % g.col_tiles;
    g.col_end = g.col + 1;
    return g;
}

/* Moves on to the next panel of B where this one's panels of A are done; true where it is to be computed. */
MPC_FN int mpc_conv_turn(MpcTile *t)
{
    if (t->row == t->g->row_end) {
        t->row = t->g->row;
        t->col++;
    }
    return t->row == t->g->row && t->col < t->g->col_end;
}

/* Adds a packed piece of B, times all panels of A, to the sums. */
MPC_FN void mpc_conv_part(MpcTile *t, int width, int64_t part, int64_t k, int64_t kn)
{
    const MpcGemm *g = t->g;

    for (int64_t row = g->row; row < g->row_end; row++) {
        int rows = (int)(mpc_gemm_row(g, row + 1) - mpc_gemm_row(g, row));

        mpc_micro_table[rows - 1][width > MPC_VL](kn, mpc_panel_at(g, 1, row) + k * MPC_AS, g->b,
                                                  t->sums[row - g->row][0], part > 0);
    }
}

MPC_FN int mpc_conv_take(MpcTile *t)
{
    const MpcGemm *g = t->g;

    if (t->col == g->col_end)
        return 0;
    t->i = mpc_gemm_row(g, t->row);
    t->m = (int)(mpc_gemm_row(g, t->row + 1) - t->i);
    t->j = t->col * MPC_NR;
    t->n = (int)mpc_min_i64(g->n - t->j, MPC_NR);
    t->acc = t->sums[t->row - g->row];
    t->row++;
    return 1;
}

MPC_DEFINE_WINDOWS(f32, float, )
MPC_DEFINE_WINDOWS(f16, mpc_f16, mpc_f16_to_f32)
MPC_DEFINE_WINDOWS(bf16, mpc_bf16, mpc_bf16_to_f32)

#endif
