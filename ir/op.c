/* op.c: the tables of ops, attributes and element types as data, and questions about their rows.
 *
 * Every fact comes from ops.def, attrs.def and runtime/abi/dtypes.def; this file adds the sets of
 * attributes that ops.def names (A_...) and the order of the types. Shapes and result types:
 * shape.c.
 */
#include "ir/ir.h"

#include <string.h>

#include "ir/base/strutil.h"

/* ---- sets of attributes, each ended by ATTR_COUNT -------------------------------------------- */

#define ATTR_SET(name, ...) static const AttrId A_##name[] = {__VA_ARGS__}

ATTR_SET(none, ATTR_COUNT);
ATTR_SET(arg, ATTR_batch, ATTR_param, ATTR_state, ATTR_host, ATTR_rng, ATTR_lr, ATTR_seed,
         ATTR_COUNT);
ATTR_SET(value, ATTR_value, ATTR_COUNT);
ATTR_SET(axis, ATTR_axis, ATTR_COUNT);
ATTR_SET(path, ATTR_path, ATTR_COUNT);
ATTR_SET(module, ATTR_module, ATTR_COUNT);
ATTR_SET(perm, ATTR_perm, ATTR_COUNT);
ATTR_SET(slice, ATTR_axis, ATTR_start, ATTR_stop, ATTR_step, ATTR_COUNT);
ATTR_SET(pad, ATTR_axis, ATTR_before, ATTR_after, ATTR_COUNT);
ATTR_SET(stride, ATTR_stride, ATTR_COUNT);
ATTR_SET(matmul, ATTR_trans_a, ATTR_trans_b, ATTR_COUNT);
ATTR_SET(conv, ATTR_stride, ATTR_padding, ATTR_dilation, ATTR_groups, ATTR_COUNT);
ATTR_SET(conv_transpose, ATTR_stride, ATTR_padding, ATTR_dilation, ATTR_output_padding, ATTR_groups,
         ATTR_COUNT);
ATTR_SET(conv_weight, ATTR_kernel, ATTR_stride, ATTR_padding, ATTR_dilation, ATTR_groups,
         ATTR_COUNT);
ATTR_SET(pool, ATTR_kernel, ATTR_stride, ATTR_padding, ATTR_dilation, ATTR_ceil_mode, ATTR_COUNT);
ATTR_SET(avg_pool, ATTR_kernel, ATTR_stride, ATTR_padding, ATTR_ceil_mode, ATTR_exclude_pad,
         ATTR_divisor, ATTR_COUNT);
ATTR_SET(reduce, ATTR_axes, ATTR_keepdim, ATTR_COUNT);
ATTR_SET(var, ATTR_axes, ATTR_keepdim, ATTR_unbiased, ATTR_COUNT);
ATTR_SET(cross_entropy, ATTR_ignore_index, ATTR_label_smoothing, ATTR_COUNT);
ATTR_SET(padding_idx, ATTR_padding_idx, ATTR_COUNT);
ATTR_SET(rows, ATTR_rows, ATTR_padding_idx, ATTR_COUNT);
ATTR_SET(scaler, ATTR_scaler, ATTR_COUNT);
ATTR_SET(model, ATTR_model, ATTR_COUNT);
ATTR_SET(gradients, ATTR_params, ATTR_scaler, ATTR_COUNT);
ATTR_SET(accumulated, ATTR_scaler, ATTR_average, ATTR_COUNT);
ATTR_SET(optimizer, ATTR_optimizer, ATTR_COUNT);
ATTR_SET(unscale, ATTR_optimizer, ATTR_scaler, ATTR_COUNT);
ATTR_SET(max_norm, ATTR_model, ATTR_max_norm, ATTR_COUNT);
ATTR_SET(clip_value, ATTR_model, ATTR_clip_value, ATTR_COUNT);
ATTR_SET(step, ATTR_optimizer, ATTR_scaler, ATTR_COUNT);
ATTR_SET(ema, ATTR_ema, ATTR_COUNT);

#define ATTRS_OF(set) set, (int)(sizeof(set) / sizeof(set)[0]) - 1

const OpInfo op_info[OP_COUNT] = {
#define MAP(name, in, cast, gradient, expression, meaning)                                         \
    [OP_##name] = {#name, meaning, #expression, in, CAST_##cast, KIND_Map, ATTRS_OF(A_none)},
#define OP(name, in, attributes, shape, cast, gradient, kind, meaning)                             \
    [OP_##name] = {#name, meaning, NULL, in, CAST_##cast, KIND_##kind, ATTRS_OF(attributes)},
#define MARK(name, in, attributes, meaning)                                                        \
    [OP_##name] = {#name, meaning, NULL, in, CAST_None, KIND_Mark, ATTRS_OF(attributes)},
#include "ir/ops.def"
};

const AttrInfo attr_info[ATTR_COUNT] = {
#define ATTR(name, type, meaning) [ATTR_##name] = {#name, meaning, AT_##type},
#include "ir/attrs.def"
};

enum { IS_Float, IS_Int, IS_Bool };

const DTypeInfo dtype_info[DT_COUNT] = {
    [DT_none] = {"none", "void", "", 0, false, false, false},
#define DTYPE(name, ctype, bytes, kind, st, doc)                                                   \
    [DT_##name] = {#name,                                                                          \
                   #ctype,                                                                         \
                   st,                                                                             \
                   bytes,                                                                          \
                   IS_##kind == IS_Float,                                                          \
                   IS_##kind == IS_Int,                                                            \
                   IS_##kind == IS_Bool},
#include "runtime/abi/dtypes.def"
    [DT_grads] = {"grads", "void", "", 0, false, false, false},
};

/* ---- questions ------------------------------------------------------------------------------- */

bool op_find(const char *name, Op *op)
{
    for (int i = 0; i < OP_COUNT; i++) {
        if (str_eq(op_info[i].name, name)) {
            *op = (Op)i;
            return true;
        }
    }
    return false;
}

bool dtype_find(const char *name, DType *dt)
{
    for (int i = DT_none + 1; i < DT_COUNT; i++) {
        if (str_eq(dtype_info[i].name, name)) {
            *dt = (DType)i;
            return true;
        }
    }
    return false;
}

bool attr_find(const char *name, AttrId *id)
{
    for (int i = 0; i < ATTR_COUNT; i++) {
        if (str_eq(attr_info[i].name, name)) {
            *id = (AttrId)i;
            return true;
        }
    }
    return false;
}

bool op_is_predicate(Op op)
{
    static const bool predicate[OP_COUNT] = {
        [OP_isfinite] = true, [OP_not] = true, [OP_lt] = true, [OP_le] = true,  [OP_gt] = true,
        [OP_ge] = true,       [OP_eq] = true,  [OP_ne] = true, [OP_and] = true, [OP_or] = true,
    };
    return op < OP_COUNT && predicate[op];
}

bool dtype_is_low(DType dt)
{
    return dtype_info[dt].is_float && dtype_info[dt].bytes < 4;
}

/* Position in the order "bool, integers by size, floats by size". */
static int dtype_rank(DType dt)
{
    const DTypeInfo *t = &dtype_info[dt];
    int kind = t->is_float ? 2 : t->is_int ? 1 : 0;
    return kind * 16 + t->bytes;
}

DType dtype_widest(DType a, DType b)
{
    if (a == b || b == DT_none) {
        return a;
    }
    if (a == DT_none) {
        return b;
    }
    int ra = dtype_rank(a), rb = dtype_rank(b);
    if (ra != rb) {
        return ra > rb ? a : b;
    }
    /* Two types of one size, neither of which holds the other: the next size that holds both. */
    if (dtype_info[a].is_float) {
        return dtype_info[a].bytes == 1 ? DT_f16 : DT_f32;
    }
    return dtype_info[a].is_int ? DT_i32 : a;
}
