/* decompose_pool.c: the largest of each window of an image, as maps over slices.
 *
 * Element (i, j) of all windows at once is a strided slice of the image, which no kernel copies; the result is the
 * largest of these. The gradient goes where the first of the largest is, in row-major order. Of the gradient's
 * image, too, all that lies `stride` apart is computed at once, and the parts are woven together. Where windows do not
 * overlap, a part is what one element of all windows gets, and one kernel does it all. Else the number of the largest
 * is kept for each window, and a part adds, in f32, what the few windows that reach it have for it. */
#include "passes/decompose.h"

#include <math.h>

typedef struct Pool {
    Builder *b;
    Node *x; /* with zeros around it */
    ConvSteps s;
    int64_t image[2], result[2];
    Dims dims; /* of the result */
} Pool;

static Node *indices(Builder *b, const Dims *dims, int axis)
{
    Attrs attrs = {0};
    attrs_set_int(b->graph->arena, &attrs, ATTR_axis, axis);
    return build_like(b, DT_i32, dims, OP_iota, attrs);
}

int64_t window_reach(const ConvSteps *s, int axis, int64_t image, int64_t result)
{
    int64_t last = (result - 1) * s->stride[axis] + s->dilation[axis] * (s->kernel[axis] - 1) + 1;
    int64_t all = image + s->padding[axis];
    return last > all ? last : all;
}

Node *window_slice(Builder *b, Node *x, const ConvSteps *s, int axis, int64_t from, int64_t result)
{
    int64_t step = s->stride[axis];
    return build_slice(b, x, 2 + axis, from, from + (result - 1) * step + 1, step);
}

/* How long the image and what is around it are. */
static int64_t reach(const Pool *p, int i)
{
    return window_reach(&p->s, i, p->image[i], p->result[i]);
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
        p.x = build_pad(b, p.x, 2 + i, before, reach(&p, i) - before - p.image[i]);
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
        x = window_slice(p->b, x, &p->s, i, at[i], p->result[i]);
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

/* ---- the gradient ------------------------------------------------------------------------------------------ */

static Node *nothing(const Pool *p, DType dt, const int64_t *size)
{
    Dims dims = p->dims;
    for (int i = 0; i < 2; i++) {
        dims.d[2 + i] = dim_of(size[i]);
    }
    return build_expand(p->b, build_const(p->b, dt, 0), &dims);
}

/* Each place belongs to one window, or to none, and each window to all of its places. */
static bool is_apart(const Pool *p)
{
    bool apart = true;
    for (int i = 0; i < 2; i++) {
        int64_t step = p->s.stride[i];
        apart = apart && p->s.dilation[i] * (p->s.kernel[i] - 1) < step && p->s.padding[i] == 0 &&
                p->result[i] == (p->image[i] + step - 1) / step;
    }
    return apart;
}

/* Element after element takes all of the gradient, if it is the largest; to the last one goes what is left. */
static void share_out(const Pool *p, Node *dy, Node **parts)
{
    Builder *b = p->b;
    Node *y = largest(p), *zero = build_const(b, dy->dtype, 0), *rest = dy;
    for (int64_t k = 0; k < elements(p); k++) {
        int64_t row = k / p->s.kernel[1] * p->s.dilation[0];
        Node **part = &parts[row * p->s.stride[1] + k % p->s.kernel[1] * p->s.dilation[1]];
        if (k == elements(p) - 1) {
            *part = rest;
            return;
        }
        Node *hit = build2(b, OP_eq, element(p, k), y);
        *part = build3(b, OP_where, hit, rest, zero);
        rest = build3(b, OP_where, hit, zero, rest);
    }
}

/* The number of the first largest element of each window, from 1 on; as f32, which is what it is compared beside. */
static Node *first_largest(const Pool *p)
{
    Node *y = largest(p), *first = build_const(p->b, DT_f32, (double)elements(p));
    for (int64_t k = elements(p) - 2; k >= 0; k--) {
        Node *number = build_const(p->b, DT_f32, (double)(k + 1));
        first = build3(p->b, OP_where, build2(p->b, OP_eq, element(p, k), y), number, first);
    }
    return build_expand(p->b, first, &p->dims);
}

/* Along one axis, which windows reach the places i * stride + place of the image: by its element k window number
 * i + shift(k), if that is whole. */
static bool shift(const Pool *p, int axis, int64_t place, int64_t k, int64_t *windows)
{
    int64_t from = place + p->s.padding[axis] - k * p->s.dilation[axis];
    int64_t step = p->s.stride[axis];
    *windows = from / step;
    return from % step == 0;
}

/* Values at windows, with zeros where windows are asked for that there are none of. */
typedef struct Around {
    int64_t before[2], after[2],
        places[2]; /* places: in an image for each that a stride leads to */
} Around;

static Around around(const Pool *p)
{
    Around a = {0};
    for (int i = 0; i < 2; i++) {
        a.places[i] = (p->image[i] + p->s.stride[i] - 1) / p->s.stride[i];
        for (int64_t place = 0; place < p->s.stride[i]; place++) {
            for (int64_t k = 0, to; k < p->s.kernel[i]; k++) {
                if (!shift(p, i, place, k, &to)) {
                    continue;
                }
                int64_t over = to + a.places[i] - p->result[i];
                a.before[i] = -to > a.before[i] ? -to : a.before[i];
                a.after[i] = over > a.after[i] ? over : a.after[i];
            }
        }
    }
    return a;
}

static Node *surrounded(const Pool *p, const Around *a, Node *x)
{
    for (int i = 0; i < 2; i++) {
        x = build_pad(p->b, x, 2 + i, a->before[i], a->after[i]);
    }
    return x;
}

/* The windows that reach `place` by element k, one for each step through the image; NULL: there are none. */
static Node *reaching(const Pool *p, const Around *a, Node *x, const int64_t *place, int64_t k)
{
    int64_t at[2] = {k / p->s.kernel[1], k % p->s.kernel[1]}, windows;
    for (int i = 0; i < 2; i++) {
        if (!shift(p, i, place[i], at[i], &windows)) {
            return NULL;
        }
        int64_t start = a->before[i] + windows;
        x = build_slice(p->b, x, 2 + i, start, start + a->places[i], 1);
    }
    return x;
}

/* The gradient at one place of every step: the shares of all windows that reach it. */
static Node *gathered(const Pool *p, const Around *a, Node *dy, Node *first, const int64_t *place)
{
    Builder *b = p->b;
    Node *sum = NULL, *zero = build_const(b, dy->dtype, 0);
    for (int64_t k = elements(p) - 1; k >= 0; k--) { /* windows from the first to the last */
        Node *number = reaching(p, a, first, place, k);
        if (number == NULL) {
            continue;
        }
        Node *hit = build2(b, OP_eq, number, build_const(b, DT_f32, (double)(k + 1)));
        Node *share = build3(b, OP_where, hit, reaching(p, a, dy, place, k), zero);
        if (sum == NULL) {
            sum = share;
            continue;
        }
        DType wide = dy->dtype == DT_f64 ? DT_f64 : DT_f32;
        sum = build2(b, OP_add, build_cast(b, sum, wide), build_cast(b, share, wide));
    }
    sum = sum == NULL ? nothing(p, dy->dtype, a->places) : sum; /* between windows */
    return build_cast(b, sum, dy->dtype);
}

/* The image that has parts[i] at place i of every stride. */
static Node *woven(const Pool *p, Node **parts, int64_t nparts)
{
    Node *dx = parts[0];
    if (nparts > 1) {
        Attrs attrs = {0};
        attrs_set_ints(p->b->graph->arena, &attrs, ATTR_stride, 2, p->s.stride);
        dx = build(p->b, OP_interleave, (int)nparts, parts, attrs);
    }
    for (int i = 0; i < 2; i++) {
        if (dx->dims.d[2 + i].k > p->image[i]) {
            dx = build_slice(p->b, dx, 2 + i, 0, p->image[i], 1);
        }
    }
    return dx;
}

static void gather(const Pool *p, Node *dy, Node **parts, int64_t nparts)
{
    Around a = around(p);
    Node *first = surrounded(p, &a, first_largest(p));
    dy = surrounded(p, &a, dy);
    for (int64_t i = 0; i < nparts; i++) {
        int64_t place[2] = {i / p->s.stride[1], i % p->s.stride[1]};
        parts[i] = gathered(p, &a, dy, first, place);
    }
}

Node *decompose_max_pool2d_grad(Builder *b, const Node *n)
{
    Pool p = pool_of(b, n, n->in[1], &n->in[0]->dims);
    int64_t nparts = p.s.stride[0] * p.s.stride[1];
    Node **parts = arena_array(b->graph->arena, (size_t)nparts, sizeof(Node *));
    if (!is_apart(&p)) {
        gather(&p, n->in[0], parts, nparts);
        return woven(&p, parts, nparts);
    }
    share_out(&p, n->in[0], parts);
    for (int64_t i = 0; i < nparts; i++) {
        parts[i] = parts[i] == NULL ? nothing(&p, n->dtype, p.result) : parts[i];
    }
    return woven(&p, parts, nparts);
}
