/* decompose_pool.c: the largest of each window of an image, as maps over slices.
 *
 * Element (i, j) of all windows at once is a strided slice of the image, which no kernel copies; the result is the
 * largest of these. The gradient goes where the first of the largest is, in row-major order: its number within the
 * window is computed beside the result. Windows that do not overlap tile the image, so that the gradient is one map
 * over it; else each element's share is put in its place and the shares are added in f32. */
#include "passes/decompose.h"

#include <math.h>

typedef struct Pool {
    Builder *b;
    Node *x; /* with zeros around it */
    ConvSteps s;
    int64_t image[2], result[2];
    Dims dims; /* of the result */
} Pool;

static Node *with_ints(Builder *b, Op op, Node *x, int n, const AttrId *ids, const int64_t *values)
{
    Attrs attrs = {0};
    for (int i = 0; i < n; i++) {
        attrs_set_int(b->graph->arena, &attrs, ids[i], values[i]);
    }
    return build(b, op, 1, &x, attrs);
}

static Node *padded(Builder *b, Node *x, int axis, int64_t before, int64_t after)
{
    static const AttrId ids[] = {ATTR_axis, ATTR_before, ATTR_after};
    return before == 0 && after == 0
               ? x
               : with_ints(b, OP_pad, x, 3, ids, (int64_t[]){axis, before, after});
}

static Node *sliced(Builder *b, Node *x, int axis, int64_t start, int64_t stop, int64_t step)
{
    static const AttrId ids[] = {ATTR_axis, ATTR_start, ATTR_stop, ATTR_step};
    return with_ints(b, OP_slice, x, 4, ids, (int64_t[]){axis, start, stop, step});
}

static Node *indices(Builder *b, const Dims *dims, int axis)
{
    Attrs attrs = {0};
    attrs_set_int(b->graph->arena, &attrs, ATTR_axis, axis);
    return build_like(b, DT_i32, dims, OP_iota, attrs);
}

/* How long the image and what is around it are. */
static int64_t reach(const Pool *p, int i)
{
    int64_t last =
        (p->result[i] - 1) * p->s.stride[i] + p->s.dilation[i] * (p->s.kernel[i] - 1) + 1;
    int64_t all = p->image[i] + p->s.padding[i];
    return last > all ? last : all;
}

static Pool pool_of(Builder *b, const Node *n, Node *x, const Dims *result)
{
    Pool p = {.b = b, .s = conv_steps(&n->attrs), .dims = *result, .x = x};
    for (int i = 0; i < 2; i++) {
        p.image[i] = x->dims.d[2 + i].k;
        p.result[i] = result->d[2 + i].k;
    }
    for (int i = 0; i < 2; i++) {
        int64_t before = p.s.padding[i];
        p.x = padded(b, p.x, 2 + i, before, reach(&p, i) - before - p.image[i]);
    }
    return p;
}

/* Where row (axis 2) or column (axis 3) `at` of the windows lies in the image; NULL: everywhere. */
static Node *exists(const Pool *p, int i, int64_t at)
{
    int64_t first = at - p->s.padding[i], last = first + (p->result[i] - 1) * p->s.stride[i];
    Dims line = {.rank = 4, .d = {dim_of(1), dim_of(1), dim_of(1), dim_of(1)}};
    if (first >= 0 && last < p->image[i]) {
        return NULL;
    }
    line.d[2 + i] = dim_of(p->result[i]);
    Builder *b = p->b;
    Node *step = build_const(b, DT_i32, (double)p->s.stride[i]);
    Node *row = build2(b, OP_add, build2(b, OP_mul, indices(b, &line, 2 + i), step),
                       build_const(b, DT_i32, (double)first));
    return build2(b, OP_and, build2(b, OP_ge, row, build_const(b, DT_i32, 0)),
                  build2(b, OP_lt, row, build_const(b, DT_i32, (double)p->image[i])));
}

/* Element k of all windows; minus infinity outside of the image. */
static Node *element(const Pool *p, int64_t k)
{
    int64_t at[2] = {k / p->s.kernel[1] * p->s.dilation[0], k % p->s.kernel[1] * p->s.dilation[1]};
    Node *x = p->x;
    for (int i = 0; i < 2; i++) {
        int64_t stop = at[i] + (p->result[i] - 1) * p->s.stride[i] + 1;
        x = sliced(p->b, x, 2 + i, at[i], stop, p->s.stride[i]);
    }
    for (int i = 0; i < 2; i++) {
        Node *there = exists(p, i, at[i]);
        if (there != NULL) {
            x = build3(p->b, OP_where, there, x, build_const(p->b, x->dtype, -INFINITY));
        }
    }
    return x;
}

static int64_t elements(const Pool *p)
{
    return p->s.kernel[0] * p->s.kernel[1];
}

static Node *largest(const Pool *p)
{
    Node *y = element(p, 0);
    for (int64_t k = 1; k < elements(p); k++) {
        y = build2(p->b, OP_maximum, y, element(p, k));
    }
    return y;
}

Node *decompose_max_pool2d(Builder *b, const Node *n)
{
    Pool p = pool_of(b, n, n->in[0], &n->dims);
    return largest(&p);
}

/* The number of the first largest element of each window. */
static Node *first_largest(const Pool *p)
{
    Node *y = largest(p), *first = build_const(p->b, DT_i32, (double)(elements(p) - 1));
    for (int64_t k = elements(p) - 2; k >= 0; k--) {
        first = build3(p->b, OP_where, build2(p->b, OP_eq, element(p, k), y),
                       build_const(p->b, DT_i32, (double)k), first);
    }
    return build_expand(p->b, first, &p->dims);
}

/* [n, c, rows, columns] as [n, c, rows, 1, columns, 1] */
static Node *apart(const Pool *p, Node *x)
{
    Dims d = {.rank = 6, .d = {x->dims.d[0], x->dims.d[1], x->dims.d[2], dim_of(1), x->dims.d[3]}};
    d.d[5] = dim_of(1);
    return build_reshape(p->b, x, &d);
}

static Node *tiled_grad(const Pool *p, Node *dy, Node *first)
{
    Builder *b = p->b;
    Dims place = {.rank = 6}, image = p->dims;
    for (int i = 0; i < 6; i++) {
        place.d[i] = dim_of(1);
    }
    place.d[3] = dim_of(p->s.kernel[0]);
    place.d[5] = dim_of(p->s.kernel[1]);
    Node *width = build_const(b, DT_i32, (double)p->s.kernel[1]);
    Node *number =
        build2(b, OP_add, build2(b, OP_mul, indices(b, &place, 3), width), indices(b, &place, 5));
    Node *hit = build2(b, OP_eq, apart(p, first), number);
    Node *dx = build3(b, OP_where, hit, apart(p, dy), build_const(b, dy->dtype, 0));
    for (int i = 0; i < 2; i++) {
        image.d[2 + i].k *= p->s.kernel[i];
    }
    dx = build_reshape(b, dx, &image);
    for (int i = 0; i < 2; i++) {
        dx = padded(b, dx, 2 + i, 0, p->image[i] - image.d[2 + i].k);
    }
    return dx;
}

/* x[.., i, ..] at start + i * step of an axis of the padded image's length, then without the padding. */
static Node *placed(const Pool *p, Node *x, int i, int64_t start)
{
    int axis = 2 + i;
    int64_t step = p->s.stride[i], length = reach(p, i);
    Dims wide = {.rank = 5}, flat = x->dims;
    for (int k = 0, to = 0; k < 4; k++) {
        wide.d[to++] = x->dims.d[k];
        if (k == axis) {
            wide.d[to++] = dim_of(1);
        }
    }
    flat.d[axis].k *= step;
    x = build_reshape(p->b, padded(p->b, build_reshape(p->b, x, &wide), axis + 1, 0, step - 1),
                      &flat);
    x = sliced(p->b, x, axis, 0, (p->result[i] - 1) * step + 1, 1);
    x = padded(p->b, x, axis, start, length - start - x->dims.d[axis].k);
    return sliced(p->b, x, axis, p->s.padding[i], p->s.padding[i] + p->image[i], 1);
}

static Node *scattered_grad(const Pool *p, Node *dy, Node *first)
{
    Builder *b = p->b;
    Node *sum = NULL;
    dy = build_cast(b, dy, dy->dtype == DT_f64 ? DT_f64 : DT_f32);
    for (int64_t k = 0; k < elements(p); k++) {
        Node *hit = build2(b, OP_eq, first, build_const(b, DT_i32, (double)k));
        Node *x = build3(b, OP_where, hit, dy, build_const(b, dy->dtype, 0));
        x = placed(p, x, 0, k / p->s.kernel[1] * p->s.dilation[0]);
        x = placed(p, x, 1, k % p->s.kernel[1] * p->s.dilation[1]);
        sum = sum == NULL ? x : build2(b, OP_add, sum, x);
    }
    return sum;
}

Node *decompose_max_pool2d_grad(Builder *b, const Node *n)
{
    Node *dy = n->in[0];
    Pool p = pool_of(b, n, n->in[1], &dy->dims);
    bool tiles = true;
    for (int i = 0; i < 2; i++) {
        tiles = tiles && p.s.stride[i] == p.s.kernel[i] && p.s.padding[i] == 0 &&
                p.s.dilation[i] == 1 && p.result[i] * p.s.kernel[i] <= p.image[i];
    }
    Node *first = first_largest(&p);
    return tiles ? tiled_grad(&p, dy, first) : scattered_grad(&p, dy, first);
}
