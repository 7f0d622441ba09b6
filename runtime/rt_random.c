/* rt_random.c: initial values and orders, from keys alone: any thread may compute any part. */
#include "rt_random.h"
#include "abi/philox.h"
#include "abi/scalar.h"
#include "rt_data.h"

#include <math.h>
#include <string.h>

/* ---- orders ---- */

void rt_permutation(uint32_t *order, int64_t n, uint64_t seed, uint32_t epoch, const char *purpose)
{
    const uint32_t path = mpc_path_hash(purpose);
    uint32_t lanes[4];
    for (int64_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    /* Fisher-Yates from the end; step s draws lane s % 4 of block s / 4. */
    for (int64_t i = n - 1, s = 0; i > 0; i--, s++) {
        if (s % 4 == 0)
            mpc_philox(seed, (uint32_t)(s / 4), 0, epoch, path, lanes);
        uint32_t j = (uint32_t)((uint64_t)lanes[s % 4] * (uint64_t)(i + 1) >> 32);
        uint32_t swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

/* ---- initial values ---- */

static double unit(uint32_t lane)
{
    return (double)(lane >> 8) * 0x1p-24;
}

/* Box-Muller: two numbers of a normal distribution from two lanes. */
static void normal_pair(const uint32_t *lanes, double out[2])
{
    double radius = sqrt(-2 * log(1 - unit(lanes[0]))), angle = 6.283185307179586 * unit(lanes[1]);
    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

/* Cut at two deviations: drawn again under another counter, so that neighbours keep their numbers. */
static double cut_normal(double z, uint64_t seed, uint32_t block, uint32_t lane, uint32_t path)
{
    for (uint32_t again = 1; fabs(z) > 2 && again < 64; again++) {
        uint32_t lanes[4];
        double pair[2];
        mpc_philox(seed, block, again, 0, path, lanes);
        normal_pair(lanes + lane / 2 * 2, pair);
        z = pair[lane % 2];
    }
    return fabs(z) > 2 ? 0 : z;
}

/* The four elements of block `block`. */
static void draw(const MpcTensor *t, uint64_t seed, uint32_t block, uint32_t path, double out[4])
{
    uint32_t lanes[4];
    if (t->init == MPC_INIT_constant) {
        for (int i = 0; i < 4; i++)
            out[i] = t->a;
        return;
    }
    mpc_philox(seed, block, 0, 0, path, lanes);
    if (t->init == MPC_INIT_uniform) {
        for (int i = 0; i < 4; i++)
            out[i] = t->a + (t->b - t->a) * unit(lanes[i]);
        return;
    }
    normal_pair(lanes, out);
    normal_pair(lanes + 2, out + 2);
    for (uint32_t i = 0; i < 4; i++) {
        if (t->init == MPC_INIT_trunc_normal)
            out[i] = cut_normal(out[i], seed, block, i, path);
        out[i] = t->a + t->b * out[i];
    }
}

static void store(void *data, MpcDType dtype, int64_t i, double v)
{
    switch (dtype) {
    case MPC_DT_f64: ((double *)data)[i] = v; break;
    case MPC_DT_f32: ((float *)data)[i] = (float)v; break;
    case MPC_DT_f16: ((mpc_f16 *)data)[i] = mpc_f64_to_f16(v); break;
    case MPC_DT_bf16: ((mpc_bf16 *)data)[i] = mpc_f64_to_bf16(v); break;
    case MPC_DT_i64: ((int64_t *)data)[i] = (int64_t)v; break;
    case MPC_DT_i32: ((int32_t *)data)[i] = (int32_t)v; break;
    case MPC_DT_i8: ((int8_t *)data)[i] = (int8_t)v; break;
    default: ((uint8_t *)data)[i] = (uint8_t)v; break;
    }
}

void rt_init_range(const MpcTensor *t, uint64_t seed, void *data, int64_t from, int64_t to)
{
    const uint32_t path = mpc_path_hash(t->name);
    double values[4];
    for (int64_t i = from; i < to; i++) {
        if (i == from || i % 4 == 0)
            draw(t, seed, (uint32_t)(i / 4), path, values);
        store(data, t->dtype, i, values[i % 4]);
    }
}
