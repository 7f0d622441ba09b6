/* rt_data_number.c: a number as the type that a field is declared in, or why it cannot be that. */
#include "abi/scalar.h"
#include "rt_data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool rt_is_floating(MpcDType dtype)
{
    static const bool floating[MPC_DT_COUNT] = {
#define Float true
#define Int false
#define Bool false
#define DTYPE(name, ctype, size, kind, st, doc) [MPC_DT_##name] = kind,
#include "abi/dtypes.def"
#undef Float
#undef Int
#undef Bool
    };
    return floating[dtype];
}

void rt_bytes_to_native(unsigned char *data, size_t bytes, size_t element, bool big_endian)
{
    const uint16_t probe = 1;
    bool native_is_big = *(const unsigned char *)&probe == 0;
    if (element == 1 || native_is_big == big_endian)
        return;
    for (size_t i = 0; i < bytes; i += element)
        for (size_t a = 0, b = element - 1; a < b; a++, b--) {
            unsigned char swap = data[i + a];
            data[i + a] = data[i + b];
            data[i + b] = swap;
        }
}

static bool no(char fault[RT_FAULT], const char *what, const char *type)
{
    snprintf(fault, RT_FAULT, "%s%s", what, type);
    return false;
}

bool rt_store_float(double v, MpcDType dtype, void *out, char fault[RT_FAULT])
{
    if (!isfinite(v))
        return no(fault, "is not finite", "");
    float f32 = (float)v, kept = f32;
    mpc_f16 f16 = mpc_f64_to_f16(v);
    mpc_bf16 bf16 = mpc_f64_to_bf16(v);
    mpc_f8e4m3 f8e4m3 = mpc_f64_to_f8e4m3(v);
    mpc_f8e5m2 f8e5m2 = mpc_f64_to_f8e5m2(v);
    const void *from = &f32;
    switch (dtype) {
    case MPC_DT_f64: from = &v, kept = 0; break;
    case MPC_DT_f16: from = &f16, kept = mpc_f16_to_f32(f16); break;
    case MPC_DT_bf16: from = &bf16, kept = mpc_bf16_to_f32(bf16); break;
    case MPC_DT_f8e4m3: from = &f8e4m3, kept = mpc_f8e4m3_to_f32(f8e4m3); break;
    case MPC_DT_f8e5m2: from = &f8e5m2, kept = mpc_f8e5m2_to_f32(f8e5m2); break;
    default: break;
    }
    if (!isfinite(kept))
        return no(fault, "is too large for ", rt_dtype_name(dtype));
    memcpy(out, from, rt_dtype_bytes(dtype));
    return true;
}

bool rt_store_integer(int64_t v, MpcDType dtype, void *out, char fault[RT_FAULT])
{
    int64_t low = INT64_MIN, high = INT64_MAX;
    switch (dtype) {
    case MPC_DT_i32: low = INT32_MIN, high = INT32_MAX; break;
    case MPC_DT_i8: low = INT8_MIN, high = INT8_MAX; break;
    case MPC_DT_u8: low = 0, high = UINT8_MAX; break;
    case MPC_DT_bool: low = 0, high = 1; break;
    default: break;
    }
    if (v < low || v > high)
        return no(fault, "does not fit ", rt_dtype_name(dtype));
    int32_t i32 = (int32_t)v;
    unsigned char byte = (unsigned char)v;
    memcpy(out,
           dtype == MPC_DT_i64   ? (const void *)&v
           : dtype == MPC_DT_i32 ? (const void *)&i32
                                 : &byte,
           rt_dtype_bytes(dtype));
    return true;
}

bool rt_store_whole(double v, MpcDType dtype, void *out, char fault[RT_FAULT])
{
    if (!isfinite(v))
        return no(fault, "is not finite", "");
    if (v != floor(v))
        return no(fault, "is not a whole number", "");
    if (fabs(v) >= 9007199254740992.0)
        return no(fault, "is too large", "");
    return rt_store_integer((int64_t)v, dtype, out, fault);
}
