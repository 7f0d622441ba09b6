/* interp.c: the reference interpreter: runs a graph node by node in double precision, or with every
 * value rounded to its type. Here: the run, leaves, element-wise ops, casts and moves. Reductions
 * and contractions: interp_ops.c. Optimizers and scalers: interp_marks.c. */
#include "ir/interp.h"

#include <math.h>
#include <string.h>

#include "ir/base/strutil.h"
#include "runtime/abi/philox.h"

Value *value_new(Arena *arena, DType dt, int rank, const int64_t *dims)
{
    Value *v = ARENA_NEW(arena, Value);
    v->dtype = dt;
    v->rank = rank;
    v->count = 1;
    for (int i = 0; i < rank; i++) {
        v->dims[i] = dims[i];
        v->count *= dims[i];
    }
    v->v = ARENA_ARRAY(arena, double, v->count);
    return v;
}

Value *run_value(Run *r, const Node *n)
{
    int64_t dims[MAX_RANK];
    for (int i = 0; i < n->dims.rank; i++) {
        dims[i] = n->dims.d[i].k;
        for (int k = 0; k < 2; k++) {
            int sym = n->dims.d[i].sym[k];
            dims[i] *= sym > 0 ? r->in->syms[sym - 1] : 1;
        }
    }
    return value_new(r->in->arena, n->dtype, n->dims.rank, dims);
}

/* Row-major strides, in elements. */
void strides_of(const Value *v, int64_t stride[MAX_RANK])
{
    int64_t step = 1;
    for (int i = v->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= v->dims[i];
    }
}

Reals reals_of(const Run *r, DType dt)
{
    bool floats = dtype_info[dt].is_float && dt != DT_f64;
    return (Reals){r->in->mode == INTERP_typed && floats};
}

double run_convert(const Run *r, DType from, DType to, double x)
{
    if (dtype_info[to].is_float) {
        return r->in->mode == INTERP_typed ? round_to(to, x) : x;
    }
    /* Between integers the low bits stay; only floats saturate. */
    if (dtype_info[from].is_int && to == DT_i32) {
        double low = x - 4294967296.0 * floor(x / 4294967296.0);
        return low >= 2147483648.0 ? low - 4294967296.0 : low;
    }
    if (dtype_info[from].is_int && (to == DT_i8 || to == DT_u8)) {
        x = x - 256 * floor(x / 256);
    }
    return round_to(to, x);
}

/* ---- leaves ---------------------------------------------------------------------------------- */

void eval_arg(Run *r, const Node *n, Value *const *in, Value *out)
{
    (void)in;
    Value *given = r->in->arg(r->in->ctx, r->g, n);
    if (given == NULL || given->count != out->count) {
        ICE("graph %s: argument %%%d has no value of its size", r->g->name, n->id);
    }
    for (int64_t i = 0; i < out->count; i++) {
        out->v[i] = run_convert(r, DT_f64, n->dtype, given->v[i]);
    }
}

void eval_const(Run *r, const Node *n, Value *const *in, Value *out)
{
    (void)in;
    double x = attrs_float(&n->attrs, ATTR_value, 0);
    for (int64_t i = 0; i < out->count; i++) {
        out->v[i] = run_convert(r, DT_f64, n->dtype, x);
    }
}

void eval_iota(Run *r, const Node *n, Value *const *in, Value *out)
{
    (void)in;
    int64_t stride[MAX_RANK];
    strides_of(out, stride);
    int axis = (int)attrs_int(&n->attrs, ATTR_axis, 0);
    for (int64_t i = 0; i < out->count; i++) {
        double index = (double)(i / stride[axis] % out->dims[axis]);
        out->v[i] = run_convert(r, DT_i64, n->dtype, index);
    }
}

void eval_uniform(Run *r, const Node *n, Value *const *in, Value *out)
{
    const char *path = attrs_str(&n->attrs, ATTR_path);
    uint32_t hash = mpc_path_hash(path != NULL ? path : "");
    int64_t each = out->dims[0] > 0 ? out->count / out->dims[0] : 1;
    for (int64_t i = 0; i < out->count; i++) {
        int64_t key = (int64_t)in[0]->v[i / each];
        double x = (double)mpc_uniform(r->in->seed, hash, key, i % each);
        out->v[i] = run_convert(r, DT_f32, n->dtype, x);
    }
}

/* ---- element-wise ops ------------------------------------------------------------------------ */

/* For each element of out the element of an operand that broadcasts to it. */
static void broadcast_index(const Value *out, const Value *x, int64_t *index)
{
    int64_t step[MAX_RANK], stride[MAX_RANK], at[MAX_RANK] = {0};
    strides_of(x, stride);
    for (int i = 0; i < out->rank; i++) {
        int k = i - (out->rank - x->rank);
        step[i] = k < 0 || x->dims[k] == 1 ? 0 : stride[k];
    }
    int64_t where = 0;
    for (int64_t i = 0; i < out->count; i++) {
        index[i] = where;
        for (int k = out->rank - 1; k >= 0; k--) {
            where += step[k];
            if (++at[k] < out->dims[k]) {
                break;
            }
            where -= step[k] * out->dims[k];
            at[k] = 0;
        }
    }
}

static void eval_map(Run *r, const Node *n, Value *const *in, Value *out)
{
    Arena *scratch = arena_new();
    DType dt = map_dtype(n);
    Reals k = reals_of(r, dt);
    int64_t *index[3] = {NULL};
    for (int i = 0; i < n->nin; i++) {
        index[i] = ARENA_ARRAY(scratch, int64_t, out->count);
        broadcast_index(out, in[i], index[i]);
    }
    for (int64_t e = 0; e < out->count; e++) {
        double x[3] = {0};
        for (int i = 0; i < n->nin; i++) {
            bool condition = n->op == OP_where && i == 0;
            double y = in[i]->v[index[i][e]];
            x[i] = condition ? y : run_convert(r, in[i]->dtype, dt, y);
        }
        double y = map_apply(n->op, k.narrow, x[0], x[1], x[2]);
        out->v[e] = run_convert(r, dtype_info[dt].is_float ? DT_f64 : DT_i64, n->dtype, y);
    }
    arena_free(scratch);
}

void eval_cast(Run *r, const Node *n, Value *const *in, Value *out)
{
    for (int64_t i = 0; i < out->count; i++) {
        out->v[i] = run_convert(r, in[0]->dtype, n->dtype, in[0]->v[i]);
    }
}

/* ---- moves ----------------------------------------------------------------------------------- */

void eval_reshape(Run *r, const Node *n, Value *const *in, Value *out)
{
    (void)r;
    (void)n;
    memcpy(out->v, in[0]->v, (size_t)out->count * sizeof out->v[0]);
}

void eval_detach(Run *r, const Node *n, Value *const *in, Value *out)
{
    eval_reshape(r, n, r->frozen != NULL ? &r->frozen[n->id] : in, out);
}

void eval_recompute(Run *r, const Node *n, Value *const *in, Value *out)
{
    eval_reshape(r, n, in, out);
}

void eval_output_grad(Run *r, const Node *n, Value *const *in, Value *out)
{
    (void)r;
    (void)n;
    (void)in;
    memset(out->v, 0, (size_t)out->count * sizeof out->v[0]);
}

void eval_own_grad(Run *r, const Node *n, Value *const *in, Value *out)
{
    eval_reshape(r, n, in, out);
}

void eval_expand(Run *r, const Node *n, Value *const *in, Value *out)
{
    (void)r;
    (void)n;
    Arena *scratch = arena_new();
    int64_t *index = ARENA_ARRAY(scratch, int64_t, out->count);
    broadcast_index(out, in[0], index);
    for (int64_t i = 0; i < out->count; i++) {
        out->v[i] = in[0]->v[index[i]];
    }
    arena_free(scratch);
}

void eval_transpose(Run *r, const Node *n, Value *const *in, Value *out)
{
    (void)r;
    const Attr *perm = attrs_find(&n->attrs, ATTR_perm);
    int64_t to[MAX_RANK], from[MAX_RANK];
    strides_of(out, to);
    strides_of(in[0], from);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t at = 0;
        for (int k = 0; k < out->rank; k++) {
            at += i / to[k] % out->dims[k] * from[perm->ints.v[k]];
        }
        out->v[i] = in[0]->v[at];
    }
}

void eval_slice(Run *r, const Node *n, Value *const *in, Value *out)
{
    (void)r;
    int axis = (int)attrs_int(&n->attrs, ATTR_axis, 0);
    int64_t start = attrs_int(&n->attrs, ATTR_start, 0), step = attrs_int(&n->attrs, ATTR_step, 1);
    int64_t to[MAX_RANK], from[MAX_RANK];
    strides_of(out, to);
    strides_of(in[0], from);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t at = 0;
        for (int k = 0; k < out->rank; k++) {
            int64_t index = i / to[k] % out->dims[k];
            at += (k == axis ? start + index * step : index) * from[k];
        }
        out->v[i] = in[0]->v[at];
    }
}

/* Puts x into out with its first element along axis at `start`. */
static void place(const Value *x, Value *out, int axis, int64_t start)
{
    int64_t to[MAX_RANK], from[MAX_RANK];
    strides_of(out, to);
    strides_of(x, from);
    for (int64_t i = 0; i < x->count; i++) {
        int64_t at = start * to[axis];
        for (int k = 0; k < out->rank; k++) {
            at += i / from[k] % x->dims[k] * to[k];
        }
        out->v[at] = x->v[i];
    }
}

void eval_pad(Run *r, const Node *n, Value *const *in, Value *out)
{
    (void)r;
    place(in[0], out, (int)attrs_int(&n->attrs, ATTR_axis, 0),
          attrs_int(&n->attrs, ATTR_before, 0));
}

void eval_concat(Run *r, const Node *n, Value *const *in, Value *out)
{
    int axis = (int)attrs_int(&n->attrs, ATTR_axis, 0);
    int64_t start = 0;
    for (int i = 0; i < n->nin; i++) {
        place(in[i], out, axis, start);
        start += in[i]->dims[axis];
    }
    for (int64_t i = 0; i < out->count; i++) {
        out->v[i] = run_convert(r, DT_f64, n->dtype, out->v[i]);
    }
}

/* ---- the run --------------------------------------------------------------------------------- */

static void (*const eval_op[OP_COUNT])(Run *, const Node *, Value *const *, Value *) = {
#define MAP(name, in, cast, gradient, expression, meaning) [OP_##name] = eval_map,
#define OP(name, in, attributes, shape, cast, gradient, kind, meaning) [OP_##name] = eval_##name,
#include "ir/ops.def"
};

static Value *(*const eval_mark[OP_COUNT])(Run *, const Node *, Value *const *) = {
#define MARK(name, in, attributes, meaning) [OP_##name] = mark_##name,
#include "ir/ops.def"
};

void run_node(Run *r, const Node *n)
{
    Value **in = ARENA_ARRAY(r->in->arena, Value *, n->nin + 1);
    for (int i = 0; i < n->nin; i++) {
        in[i] = r->v[n->in[i]->id];
        if (in[i] == NULL) {
            r->v[n->id] = NULL;
            return;
        }
    }
    if (op_info[n->op].kind == KIND_Mark) {
        r->v[n->id] = eval_mark[n->op](r, n, in);
        return;
    }
    Value *out = run_value(r, n);
    eval_op[n->op](r, n, in, out);
    r->v[n->id] = out;
}

Value **interp_graph(Interp *in, const Graph *g, StateValue **state)
{
    Run r = {.in = in, .g = g, .state = state};
    r.v = ARENA_ARRAY(in->arena, Value *, g->nnodes);
    if (state != NULL) {
        *state = NULL;
    }
    for (int i = 0; i < g->nnodes; i++) {
        g->nodes[i]->id = i;
    }
    for (int i = 0; i < g->nnodes; i++) {
        run_node(&r, g->nodes[i]);
    }
    return r.v;
}
