/* interp_map.c: the scalar functions of the reference interpreter: the expression column of ops.def
 * pasted twice, once over double with libm, once over float with the functions of scalar.h. */
#include "ir/interp.h"

#define MPC_SCALAR_F64
#include "runtime/abi/scalar.h"

/* clang-format off */
#define MAP(name, in, cast, gradient, expression, meaning)                                         \
    static double wide_##name(double a, double b, double c)                                        \
    {                                                                                              \
        (void)a;                                                                                   \
        (void)b;                                                                                   \
        (void)c;                                                                                   \
        return (expression);                                                                       \
    }
/* clang-format on */
#include "ir/ops.def"

static double wide_exp_of(double a)
{
    return mpc_exp(a);
}

static double wide_log_of(double a)
{
    return mpc_log(a);
}

#undef MPC_SCALAR_F64
#include "runtime/abi/scalar.h"

/* clang-format off */
#define MAP(name, in, cast, gradient, expression, meaning)                                         \
    static float narrow_##name(float a, float b, float c)                                          \
    {                                                                                              \
        (void)a;                                                                                   \
        (void)b;                                                                                   \
        (void)c;                                                                                   \
        return (expression);                                                                       \
    }
/* clang-format on */
#include "ir/ops.def"

static const struct {
    double (*wide)(double a, double b, double c);
    float (*narrow)(float a, float b, float c);
} map_function[OP_COUNT] = {
#define MAP(name, in, cast, gradient, expression, meaning)                                         \
    [OP_##name] = {wide_##name, narrow_##name},
#include "ir/ops.def"
};

double map_apply(Op op, bool narrow, double a, double b, double c)
{
    return narrow ? (double)map_function[op].narrow((float)a, (float)b, (float)c)
                  : map_function[op].wide(a, b, c);
}

double reals_round(Reals k, double x)
{
    return k.narrow ? (double)(float)x : x;
}

double reals_exp(Reals k, double x)
{
    return k.narrow ? (double)mpc_exp((float)x) : wide_exp_of(x);
}

double reals_log(Reals k, double x)
{
    return k.narrow ? (double)mpc_log((float)x) : wide_log_of(x);
}

double reals_sqrt(Reals k, double x)
{
    return reals_round(k, mpc_sqrt_f64(x));
}
