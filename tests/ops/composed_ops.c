/* composed_ops.c: see composed_ops.h. */
#include "tests/ops/composed_ops.h"

#include <math.h>
#include <string.h>

#include "ir/base/strutil.h"

/* A case in the making: the reference graph with its inputs as f32. */
typedef struct Composed {
    GoldenGraph *g;
    Builder *b;
    Node *wide[GOLDEN_MAX_INPUTS];
} Composed;

/* ---- pieces ---------------------------------------------------------------------------------- */

static Node *in(const Composed *c, const char *name)
{
    for (int i = 0; i < c->g->nin; i++) {
        if (str_eq(c->g->in_name[i], name)) {
            return c->wide[i];
        }
    }
    return NULL;
}

static Node *num(const Composed *c, double x)
{
    return build_const(c->b, DT_f32, x);
}

static Node *attr(const Composed *c, const char *key)
{
    return num(c, golden_number(c->g->attrs, key, 0));
}

static Node *op1(const Composed *c, Op op, Node *x)
{
    return build1(c->b, op, x);
}

static Node *op2(const Composed *c, Op op, Node *x, Node *y)
{
    return build2(c->b, op, x, y);
}

static Node *reduce_last(const Composed *c, Op op, Node *x, int naxes)
{
    int64_t axes[MAX_RANK] = {0};
    for (int i = 0; i < naxes; i++) {
        axes[i] = x->dims.rank - naxes + i;
    }
    return build_reduce(c->b, op, x, naxes, axes, true);
}

/* (x - mean) / sqrt(var + eps) over the last axes */
static Node *normalised(const Composed *c, Node *x, int naxes)
{
    Node *centred = op2(c, OP_sub, x, reduce_last(c, OP_mean, x, naxes));
    Node *var = reduce_last(c, OP_var, x, naxes);
    return op2(c, OP_mul, centred, op1(c, OP_rsqrt, op2(c, OP_add, var, attr(c, "eps"))));
}

static Node *scaled(const Composed *c, Node *x, Node *weight, Node *bias)
{
    x = weight != NULL ? op2(c, OP_mul, x, weight) : x;
    return bias != NULL ? op2(c, OP_add, x, bias) : x;
}

/* "none", "mean" or "sum" of the losses of all elements */
static Node *reduced(const Composed *c, Node *x)
{
    const char *how = golden_string(c->g->attrs, "reduction");
    if (str_eq(how, "none")) {
        return x;
    }
    return build_reduce(c->b, str_eq(how, "mean") ? OP_mean : OP_sum, x, -1, NULL, false);
}

static Node *iota(const Composed *c, const Dims *dims, int axis)
{
    Attrs as = {0};
    attrs_set_int(c->b->graph->arena, &as, ATTR_axis, axis);
    return build_like(c->b, DT_i32, dims, OP_iota, as);
}

/* column <= row + diagonal */
static Node *lower_triangle(const Composed *c, const Dims *dims, double diagonal)
{
    Node *row = iota(c, dims, dims->rank - 2), *column = iota(c, dims, dims->rank - 1);
    return op2(c, OP_le, column, op2(c, OP_add, row, build_const(c->b, DT_i32, diagonal)));
}

static Node *softmax(const Composed *c, Node *x)
{
    Attrs as = {0};
    attrs_set_int(c->b->graph->arena, &as, ATTR_axis, x->dims.rank - 1);
    return build(c->b, OP_softmax, 1, &x, as);
}

/* ---- norms ----------------------------------------------------------------------------------- */

static Node *layernorm(Composed *c)
{
    int naxes = cJSON_GetArraySize(cJSON_GetObjectItem(c->g->attrs, "normalized_shape"));
    return scaled(c, normalised(c, in(c, "input"), naxes), in(c, "weight"), in(c, "bias"));
}

static Node *add_layernorm(Composed *c)
{
    Node *sum = op2(c, OP_add, in(c, "x"), in(c, "residual"));
    c->g->out[1] = scaled(c, normalised(c, sum, 1), in(c, "weight"), in(c, "bias"));
    return sum;
}

static Node *rmsnorm(Composed *c)
{
    Node *x = in(c, "input");
    Node *mean = reduce_last(c, OP_mean, op1(c, OP_square, x), 1);
    Node *scale = op1(c, OP_rsqrt, op2(c, OP_add, mean, attr(c, "eps")));
    return scaled(c, op2(c, OP_mul, x, scale), in(c, "weight"), NULL);
}

/* [N, C, ..] as [N, groups, C / groups, ..] */
static Node *groupnorm(Composed *c)
{
    Node *x = in(c, "input"), *weight = in(c, "weight"), *bias = in(c, "bias");
    int64_t groups = (int64_t)golden_number(c->g->attrs, "num_groups", 1);
    Dims split = {.rank = x->dims.rank + 1, .d = {x->dims.d[0], dim_of(groups)}};
    split.d[2] = dim_of(x->dims.d[1].k / groups);
    Dims channel = {.rank = x->dims.rank - 1, .d = {x->dims.d[1]}};
    for (int i = 2; i < x->dims.rank; i++) {
        split.d[i + 1] = x->dims.d[i];
        channel.d[i - 1] = dim_of(1);
    }
    Node *y = normalised(c, build_reshape(c->b, x, &split), split.rank - 2);
    y = build_reshape(c->b, y, &x->dims);
    return scaled(c, y, weight != NULL ? build_reshape(c->b, weight, &channel) : NULL,
                  bias != NULL ? build_reshape(c->b, bias, &channel) : NULL);
}

/* [channels] as [channels, 1, ..] */
static Node *per_channel(Composed *c, Node *v, const Node *x)
{
    Dims d = {.rank = x->dims.rank - 1, .d = {x->dims.d[1]}};
    for (int i = 1; i < d.rank; i++) {
        d.d[i] = dim_of(1);
    }
    return v == NULL ? NULL : build_reshape(c->b, v, &d);
}

/* Training: normalised by the batch, whose statistics move the running ones; else by these. */
static Node *batchnorm(Composed *c)
{
    Node *x = in(c, "x"), *stats[2] = {in(c, "running_mean"), in(c, "running_var")}, *used[2];
    int64_t axes[MAX_RANK] = {0};
    double n = (double)x->dims.d[0].k;
    int naxes = 1;
    for (int i = 2; i < x->dims.rank; i++) {
        axes[naxes++] = i;
        n *= (double)x->dims.d[i].k;
    }
    bool training = golden_bool(c->g->attrs, "training");
    if (training) { /* sums of what is far from 0 want f64 */
        Node *mean = build_reduce(c->b, OP_mean, build_cast(c->b, x, DT_f64), naxes, axes, true);
        used[0] = build_cast(c->b, mean, DT_f32);
        Node *far = op1(c, OP_square, op2(c, OP_sub, x, op1(c, OP_detach, used[0])));
        used[1] = build_reduce(c->b, OP_mean, far, naxes, axes, true);
    }
    for (int i = 0; i < 2; i++) {
        Node *seen = training ? build_reshape(c->b, used[i], &stats[i]->dims) : stats[i];
        seen = i == 0 ? seen : op2(c, OP_mul, seen, num(c, n / (n - 1)));
        Node *moved = op2(c, OP_mul, op2(c, OP_sub, seen, stats[i]), attr(c, "momentum"));
        c->g->out[1 + i] = training ? op2(c, OP_add, stats[i], moved) : stats[i];
        used[i] = per_channel(c, training ? used[i] : stats[i], x);
    }
    Node *root = op1(c, OP_rsqrt, op2(c, OP_add, used[1], attr(c, "eps")));
    Node *y = op2(c, OP_mul, op2(c, OP_sub, x, used[0]), root);
    return scaled(c, y, per_channel(c, in(c, "weight"), x), per_channel(c, in(c, "bias"), x));
}

static Node *batchnorm1d(Composed *c)
{
    return batchnorm(c);
}

static Node *batchnorm2d(Composed *c)
{
    return batchnorm(c);
}

static Node *over_dims(Composed *c, Op op, Node *x)
{
    const cJSON *dim = cJSON_GetObjectItem(c->g->attrs, "dim");
    int64_t axes[MAX_RANK];
    int n = cJSON_GetArraySize(dim);
    for (int i = 0; i < n; i++) {
        axes[i] = (int64_t)golden_item(cJSON_GetArrayItem(dim, i));
    }
    return build_reduce(c->b, op, x, n, axes, golden_bool(c->g->attrs, "keepdim"));
}

static Node *norm2(Composed *c)
{
    return op1(c, OP_sqrt, over_dims(c, OP_sum, op1(c, OP_square, in(c, "x"))));
}

static Node *std(Composed *c)
{
    Node *var = over_dims(c, OP_var, in(c, "x"));
    if (golden_number(c->g->attrs, "correction", 1) == 1) {
        attrs_set_bool(c->b->graph->arena, &var->attrs, ATTR_unbiased, true);
    }
    Node *none =
        op2(c, OP_eq, var, num(c, 0)); /* where the derivative is 0, not infinite times 0 */
    Node *root = op1(c, OP_sqrt, build3(c->b, OP_where, none, num(c, 1), var));
    return build3(c->b, OP_where, none, num(c, 0), root);
}

/* ---- losses ---------------------------------------------------------------------------------- */

static Node *difference(const Composed *c)
{
    return op2(c, OP_sub, in(c, "input"), in(c, "target"));
}

static Node *mse(Composed *c)
{
    return reduced(c, op1(c, OP_square, difference(c)));
}

static Node *l1(Composed *c)
{
    return reduced(c, op1(c, OP_abs, difference(c)));
}

/* d^2 / 2 up to |d| = k, then k (|d| - k / 2) */
static Node *huber_at(Composed *c, const char *key)
{
    Node *d = op1(c, OP_abs, difference(c)), *k = attr(c, key);
    Node *inner = op2(c, OP_mul, num(c, 0.5), op1(c, OP_square, d));
    Node *outer = op2(c, OP_mul, k, op2(c, OP_sub, d, op2(c, OP_mul, num(c, 0.5), k)));
    return build3(c->b, OP_where, op2(c, OP_lt, d, k), inner, outer);
}

static Node *huber(Composed *c)
{
    return reduced(c, huber_at(c, "delta"));
}

static Node *smooth_l1(Composed *c)
{
    return reduced(c, op2(c, OP_div, huber_at(c, "beta"), attr(c, "beta")));
}

/* -(p y log s(x) + (1 - y) log(1 - s(x))) */
static Node *bce_with_logits(Composed *c)
{
    Node *x = in(c, "input"), *y = in(c, "target");
    Node *yes = op2(c, OP_mul, y, op1(c, OP_logsigmoid, x));
    Node *no =
        op2(c, OP_mul, op2(c, OP_sub, num(c, 1), y), op1(c, OP_logsigmoid, op1(c, OP_neg, x)));
    yes = scaled(c, yes, in(c, "pos_weight"), NULL);
    Node *loss = op1(c, OP_neg, op2(c, OP_add, yes, no));
    return reduced(c, scaled(c, loss, in(c, "weight"), NULL));
}

static Node *linear_cross_entropy(Composed *c)
{
    Node *logits = build_linear(c->b, in(c, "x"), in(c, "weight"), NULL, DT_none);
    return build(c->b, OP_cross_entropy, 2, (Node *[]){logits, in(c, "target")}, (Attrs){0});
}

/* ---- activations and attention --------------------------------------------------------------- */

/* clamp to 0 .. 6 with the derivative 0 at both ends */
static Node *relu6_of(const Composed *c, Node *x)
{
    Node *above = op2(c, OP_ge, x, num(c, 6));
    return build3(c->b, OP_where, above, num(c, 6), op1(c, OP_relu, x));
}

static Node *relu6(Composed *c)
{
    return relu6_of(c, in(c, "x"));
}

static Node *hardswish(Composed *c)
{
    Node *x = in(c, "x");
    Node *gate = relu6_of(c, op2(c, OP_add, x, num(c, 3)));
    return op2(c, OP_mul, x, op2(c, OP_div, gate, num(c, 6)));
}

static Node *mish(Composed *c)
{
    Node *x = in(c, "x");
    return op2(c, OP_mul, x, op1(c, OP_tanh, op1(c, OP_softplus, x)));
}

static Node *swiglu(Composed *c)
{
    return op2(c, OP_mul, op1(c, OP_silu, in(c, "gate")), in(c, "up"));
}

static Node *bias_gelu(Composed *c)
{
    bool by_tanh = str_eq(golden_string(c->g->attrs, "approximate"), "tanh");
    return op1(c, by_tanh ? OP_gelu_tanh : OP_gelu, op2(c, OP_add, in(c, "x"), in(c, "bias")));
}

static Node *softmax_masked(Composed *c)
{
    return softmax(c, op2(c, OP_add, in(c, "x"), in(c, "bias")));
}

/* Each key and value head serves several query heads in a row. */
static Node *repeat_heads(const Composed *c, Node *x, Dim heads)
{
    Dims split = {.rank = 5, .d = {x->dims.d[0], x->dims.d[1], dim_of(1)}}, all, flat = x->dims;
    split.d[3] = x->dims.d[2];
    split.d[4] = x->dims.d[3];
    all = split;
    all.d[2] = dim_of(heads.k / x->dims.d[1].k);
    flat.d[1] = heads;
    return build_reshape(c->b, build_expand(c->b, build_reshape(c->b, x, &split), &all), &flat);
}

static Node *sdpa(Composed *c)
{
    Node *q = in(c, "q"), *k = in(c, "k"), *v = in(c, "v"), *mask = in(c, "mask");
    double scale = golden_number(c->g->attrs, "scale", 1 / sqrt((double)q->dims.d[3].k));
    if (golden_bool(c->g->attrs, "enable_gqa")) {
        k = repeat_heads(c, k, q->dims.d[1]);
        v = repeat_heads(c, v, q->dims.d[1]);
    }
    Node *s = build_matmul(c->b, q, k, false, true, DT_none);
    s = op2(c, OP_mul, s, num(c, scale));
    Node *allowed = mask != NULL && mask->dtype == DT_bool  ? mask
                    : golden_bool(c->g->attrs, "is_causal") ? lower_triangle(c, &s->dims, 0)
                                                            : NULL;
    s = mask != NULL && allowed == NULL ? op2(c, OP_add, s, mask) : s;
    s = allowed != NULL ? build3(c->b, OP_where, allowed, s, num(c, -INFINITY)) : s;
    return build_matmul(c->b, softmax(c, s), v, false, false, DT_none);
}

/* ---- moves ----------------------------------------------------------------------------------- */

static Node *reshape_transposed(Composed *c)
{
    Node *x = build_transpose(c->b, in(c, "x"), (int[]){0, 2, 1, 3});
    Dims d = {.rank = 3, .d = {x->dims.d[0], x->dims.d[1]}};
    d.d[2] = dim_of(x->dims.d[2].k * x->dims.d[3].k);
    return build_reshape(c->b, x, &d);
}

/* [m, n] -> [a m, b n] */
static Node *repeat(Composed *c)
{
    Node *x = in(c, "x");
    const cJSON *times = cJSON_GetObjectItem(c->g->attrs, "times");
    int64_t a = (int64_t)golden_item(cJSON_GetArrayItem(times, 0));
    int64_t b = (int64_t)golden_item(cJSON_GetArrayItem(times, 1));
    Dims apart = {.rank = 4, .d = {dim_of(1), x->dims.d[0], dim_of(1), x->dims.d[1]}};
    Dims all = apart;
    all.d[0] = dim_of(a);
    all.d[2] = dim_of(b);
    Dims flat = {.rank = 2, .d = {dim_of(a * x->dims.d[0].k), dim_of(b * x->dims.d[1].k)}};
    return build_reshape(c->b, build_expand(c->b, build_reshape(c->b, x, &apart), &all), &flat);
}

/* Rows of x with its axis 1 first and the others flat; the axis then goes back to its place. */
static Node *index_select(Composed *c)
{
    Node *x = build_transpose(c->b, in(c, "x"), (int[]){1, 0, 2}), *index = in(c, "index");
    Dims table = {.rank = 2, .d = {x->dims.d[0], dim_of(x->dims.d[1].k * x->dims.d[2].k)}};
    Node *operands[] = {build_reshape(c->b, x, &table), index};
    Node *rows = build(c->b, OP_embedding, 2, operands, (Attrs){0});
    Dims apart = {.rank = 3, .d = {index->dims.d[0], x->dims.d[1], x->dims.d[2]}};
    return build_transpose(c->b, build_reshape(c->b, rows, &apart), (int[]){1, 0, 2});
}

static Node *tril(Composed *c)
{
    Node *x = in(c, "x");
    Node *inside = lower_triangle(c, &x->dims, golden_number(c->g->attrs, "diagonal", 0));
    return build3(c->b, OP_where, inside, x, num(c, 0));
}

static Node *global_avgpool2d(Composed *c)
{
    return build_reduce(c->b, OP_mean, in(c, "input"), 2, (int64_t[]){2, 3}, false);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* clang-format off */
#define COMPOSED(ROW)                                                                              \
    ROW(layernorm) ROW(add_layernorm) ROW(rmsnorm) ROW(groupnorm) ROW(norm2) ROW(std)              \
    ROW(batchnorm1d) ROW(batchnorm2d)                                                              \
    ROW(mse) ROW(l1) ROW(huber) ROW(smooth_l1) ROW(bce_with_logits) ROW(linear_cross_entropy)      \
    ROW(relu6) ROW(hardswish) ROW(mish) ROW(swiglu) ROW(bias_gelu) ROW(softmax_masked) ROW(sdpa)   \
    ROW(reshape_transposed) ROW(repeat) ROW(index_select) ROW(tril) ROW(global_avgpool2d)
/* clang-format on */

#define NAME(op) #op,
const char *const composed_op_names[] = {COMPOSED(NAME) NULL};

#define ENTRY(op) {#op, op},
static const struct {
    const char *name;
    Node *(*build)(Composed *c);
} table[] = {COMPOSED(ENTRY)};

bool composed_graph(Arena *arena, const char *op, const cJSON *test, DType floats, GoldenGraph *g)
{
    golden_graph(arena, op, test, floats, g); /* its inputs and names; it knows no such op */
    Composed c = {.g = g, .b = &g->b};
    for (int i = 0; i < g->nin; i++) {
        bool narrow = dtype_is_low(g->in[i]->dtype);
        c.wide[i] = narrow ? build_cast(c.b, g->in[i], DT_f32) : g->in[i];
    }
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (str_eq(table[i].name, op)) {
            g->out[0] = table[i].build(&c);
        }
    }
    for (int i = 0; i < g->nout && g->out[0] != NULL; i++) {
        g->out[i] = dtype_is_low(floats) ? build_cast(c.b, g->out[i], floats) : g->out[i];
    }
    return g->out[0] != NULL;
}
