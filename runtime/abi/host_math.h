/* host_math.h: operators and functions of the host program that C has no, or another, meaning for: quotients
 * towards minus infinity, remainders with the sign of the divisor, powers; all as in Python. */
#ifndef MPC_HOST_MATH_H
#define MPC_HOST_MATH_H

#include "scalar.h"

/* Division by 0 gives 0: a host program has no exceptions. */
MPC_FN int64_t mpc_floor_div(int64_t a, int64_t b)
{
    if (b == 0 || (b == -1 && a == INT64_MIN))
        return 0;
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

MPC_FN int64_t mpc_modulo(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    int64_t r = a % b;

    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

MPC_FN double mpc_floor_div_f64(double a, double b)
{
    return floor(a / b);
}

MPC_FN double mpc_modulo_f64(double a, double b)
{
    double r = fmod(a, b);

    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* By squaring, modulo 2^64; a negative exponent gives 0 but for 1 and -1. */
MPC_FN int64_t mpc_power(int64_t a, int64_t b)
{
    uint64_t r = 1, x = (uint64_t)a;

    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 != 0 ? -1 : 1) : 0;
    for (; b > 0; b /= 2, x *= x)
        r *= b % 2 != 0 ? x : 1;
    return (int64_t)r;
}

MPC_FN double mpc_power_f64(double a, double b)
{
    return pow(a, b);
}

MPC_FN int64_t mpc_abs_int(int64_t a)
{
    return a < 0 ? -a : a;
}

MPC_FN int64_t mpc_min_int(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

MPC_FN int64_t mpc_max_int(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
