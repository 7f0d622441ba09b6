/* cuda_sums.c: sums and the like over the threads of a warp or a block: each thread's own accumulators, joined as a fixed
 * tree by the functions of runtime/cuda/prelude.cuh. */
#include "codegen/cuda/cuda.h"
#include "codegen/target.h"

static const Scalar *scalar(const Body *b, int s)
{
    return &b->k->scalars[s];
}

CudaGroup cuda_group(int threads)
{
    return threads == CUDA_WARP ? (CudaGroup){CUDA_WARP, "warp", "mpc_lane()"}
                                : (CudaGroup){threads, "block", "mpc_thread()"};
}

const char *cuda_sum_open(Body *b, int s)
{
    const Scalar *v = scalar(b, s);
    const char *acc = names_take(&b->names, arena_printf(b->e->arena, "%s_acc", body_name(b, s)));
    ln(b->e, "%s %s = %s;", wide_ctype(v->dtype), acc, reduce_start(b->e->arena, v));
    return acc;
}

/* Integers are joined in 64 bits. */
static const char *joined_text(Body *b, const Scalar *v, const char *acc, CudaGroup g)
{
    Arena *a = b->e->arena;
    DType dt = wide_type(v->dtype);
    bool is_float = dtype_info[dt].is_float;
    const char *warps = g.threads > CUDA_WARP ? arena_printf(a, ", %d", g.threads / CUDA_WARP) : "";
    const char *call = arena_printf(a, "mpc_%s_%s_%s(%s%s)", g.scope, reduce_lanes[v->op],
                                    is_float ? dtype_info[dt].name : "i64", acc, warps);
    return is_float || dt == DT_i64 ? call : arena_printf(a, "(%s)%s", wide_ctype(v->dtype), call);
}

void cuda_sum_close(Body *b, int s, const char *acc, CudaGroup g, const char *count, bool is_const)
{
    const Scalar *v = scalar(b, s);
    const char *text = reduce_finish(b, v, joined_text(b, v, acc, g), count, is_const);
    ln(b->e, "const %s %s = %s;", wide_ctype(v->dtype), body_name(b, s), text);
    body_set(b, s, body_name(b, s));
}
