/* round.c: the nearest value of an element type, straight from the definition of the type: how many
 * bits, where the exponents end, what lies beyond. Made without scalar.h on purpose, so that each
 * can be tested against the other. */
#include "ir/ir.h"

#include <math.h>

typedef struct FloatShape {
    int bits;      /* of the significand, the hidden one included */
    int least;     /* exponent of the smallest normal number */
    double most;   /* largest finite value */
    bool infinite; /* beyond it comes infinity, not `most` again */
} FloatShape;

static const FloatShape float_shape[DT_COUNT] = {
    [DT_f16] = {11, -14, 65504, true},
    [DT_bf16] = {8, -126, 0x1.fep127, true},
    [DT_f8e4m3] = {4, -6, 448, false},
    [DT_f8e5m2] = {3, -14, 57344, true},
};

static double round_short(const FloatShape *s, double x)
{
    if (x == 0 || isnan(x)) {
        return x;
    }
    double m = fabs(x);
    if (!isinf(m)) {
        int exponent;
        frexp(m, &exponent);
        int last = exponent - s->bits;
        last = last < s->least - (s->bits - 1) ? s->least - (s->bits - 1) : last;
        m = ldexp(nearbyint(ldexp(m, -last)), last);
    }
    if (m > s->most) {
        m = s->infinite ? (double)INFINITY : s->most;
    }
    return copysign(m, x);
}

static double saturated(double x, double lo, double hi)
{
    return isnan(x) ? 0 : x < lo ? lo : x > hi ? hi : trunc(x) + 0.0; /* no -0 */
}

/* The low 8 bits of an integer, with a sign or without. */
static double byte_of(double x, bool is_signed)
{
    double low = x - 256 * floor(x / 256);
    return is_signed && low >= 128 ? low - 256 : low;
}

double round_to(DType dt, double x)
{
    double word = saturated(x, -2147483648.0, 2147483647.0);
    switch (dt) {
    case DT_f32: return (double)(float)x;
    case DT_f16:
    case DT_bf16:
    case DT_f8e4m3:
    case DT_f8e5m2: return round_short(&float_shape[dt], x);
    case DT_i64: return saturated(x, -0x1p63, 0x1p63);
    case DT_i32: return word;
    case DT_i8: return byte_of(word, true);
    case DT_u8: return byte_of(word, false);
    case DT_bool: return x != 0;
    case DT_f64:
    case DT_none:
    case DT_grads:
    case DT_COUNT: break;
    }
    return x;
}
