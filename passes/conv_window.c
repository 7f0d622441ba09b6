/* conv_window.c: a convolution as a contraction whose operands are read through windows. See plan.h for windows.
 *
 * With g groups, O and C the channels of result and image in a group, a row of the weight being one channel of y:
 *
 *   conv2d              [n, g, O, (rows, columns of y), C * kernel]      a = weight, b = windows of x
 *   conv_transpose2d    [n, g, C, (rows, columns of x), O * kernel]      a = weight turned, b = y between the steps
 *   conv2d_weight_grad  [g, O, (C, kernel), n * rows * columns of y]     a = dy, b = windows of x
 *
 * a is packed once; b, many times as large as the image that it is read from, is packed where it is used. */
#include "passes/conv_window.h"

bool is_convolution(const Node *n)
{
    return n->op == OP_conv2d || n->op == OP_conv_transpose2d || n->op == OP_conv2d_weight_grad;
}

static WindowPart step_through(int64_t size, int64_t stride)
{
    return (WindowPart){.size = size, .stride = stride};
}

static WindowPart down(int64_t size, int64_t rows)
{
    return (WindowPart){.size = size, .row = rows};
}

static WindowPart across(int64_t size, int64_t columns)
{
    return (WindowPart){.size = size, .col = columns};
}

static void add_axis(ConvSpace *s, Dim d)
{
    s->space.d[s->space.rank++] = d;
}

/* The windows over x: position (row, column) of y at u or k, element of the window on the other side. */
static Window windows_of(const Conv *c)
{
    return (Window){.row = -c->steps.padding[0],
                    .col = -c->steps.padding[1],
                    .rows = c->image[0],
                    .cols = c->image[1],
                    .row_step = 1,
                    .col_step = 1,
                    .row_stride = c->image[1]};
}

/* batch axes n and g of an image of so many channels in a group. */
static void image_batch(const Conv *c, ConvSide *side, int64_t channels, int64_t area)
{
    side->batch[0] = dim_of(channels * c->steps.groups * area);
    side->batch[1] = dim_of(channels * area);
}

static ConvSpace forward_space(const Conv *c)
{
    const ConvSteps *t = &c->steps;
    int64_t in = c->in / t->groups, out = c->out / t->groups;
    int64_t kernel = t->kernel[0] * t->kernel[1], area = c->image[0] * c->image[1];
    ConvSpace s = {.nbatch = 2, .nn = 2, .a = {.operand = 1}, .b = {.operand = 0}};
    add_axis(&s, c->n);
    add_axis(&s, dim_of(t->groups));
    add_axis(&s, dim_of(out));
    add_axis(&s, dim_of(c->result[0]));
    add_axis(&s, dim_of(c->result[1]));
    add_axis(&s, dim_of(in * kernel));
    s.a.batch[1] = dim_of(out * in * kernel);
    s.a.plain = true;
    s.a.along = in * kernel;
    image_batch(c, &s.b, in, area);
    s.b.window = windows_of(c);
    s.b.window.nu = 2;
    s.b.window.u[0] = down(c->result[0], t->stride[0]);
    s.b.window.u[1] = across(c->result[1], t->stride[1]);
    s.b.window.nk = 3;
    s.b.window.k[0] = step_through(in, area);
    s.b.window.k[1] = down(t->kernel[0], t->dilation[0]);
    s.b.window.k[2] = across(t->kernel[1], t->dilation[1]);
    return s;
}

/* x[row] = sum over windows of y[(row + padding - element * dilation) / stride], where that is whole. */
static ConvSpace transposed_space(const Conv *c)
{
    const ConvSteps *t = &c->steps;
    int64_t in = c->in / t->groups, out = c->out / t->groups;
    int64_t kernel = t->kernel[0] * t->kernel[1], area = c->result[0] * c->result[1];
    ConvSpace s = {.nbatch = 2, .nn = 2, .a = {.operand = 1}, .b = {.operand = 0}};
    add_axis(&s, c->n);
    add_axis(&s, dim_of(t->groups));
    add_axis(&s, dim_of(in));
    add_axis(&s, dim_of(c->image[0]));
    add_axis(&s, dim_of(c->image[1]));
    add_axis(&s, dim_of(out * kernel));
    s.a.batch[1] = dim_of(out * in * kernel);
    s.a.window.nu = 1;
    s.a.window.u[0] = step_through(in, kernel);
    s.a.window.nk = 2;
    s.a.window.k[0] = step_through(out, in * kernel);
    s.a.window.k[1] = step_through(kernel, 1);
    image_batch(c, &s.b, out, area);
    s.b.window = (Window){.row = t->padding[0],
                          .col = t->padding[1],
                          .rows = c->result[0],
                          .cols = c->result[1],
                          .row_step = t->stride[0],
                          .col_step = t->stride[1],
                          .row_stride = c->result[1]};
    s.b.window.nu = 2;
    s.b.window.u[0] = down(c->image[0], 1);
    s.b.window.u[1] = across(c->image[1], 1);
    s.b.window.nk = 3;
    s.b.window.k[0] = step_through(out, area);
    s.b.window.k[1] = down(t->kernel[0], -t->dilation[0]);
    s.b.window.k[2] = across(t->kernel[1], -t->dilation[1]);
    return s;
}

static ConvSpace weight_space(const Conv *c)
{
    const ConvSteps *t = &c->steps;
    int64_t in = c->in / t->groups, out = c->out / t->groups;
    int64_t area = c->image[0] * c->image[1], results = c->result[0] * c->result[1];
    ConvSpace s = {.nbatch = 1, .nn = 3, .a = {.operand = 0}, .b = {.operand = 1}};
    Dim depth;
    if (!dim_mul(c->n, dim_of(results), &depth)) {
        ICE("a convolution over more than two symbolic dimensions");
    }
    add_axis(&s, dim_of(t->groups));
    add_axis(&s, dim_of(out));
    add_axis(&s, dim_of(in));
    add_axis(&s, dim_of(t->kernel[0]));
    add_axis(&s, dim_of(t->kernel[1]));
    add_axis(&s, depth);
    s.a.batch[0] = dim_of(out * results);
    s.a.window.nu = 1;
    s.a.window.u[0] = step_through(out, results);
    s.a.window.nk = 2;
    s.a.window.k[0] = step_through(0, c->out * results); /* as many as there are images */
    s.a.window.k[1] = step_through(results, 1);
    s.b.batch[0] = dim_of(in * area);
    s.b.window = windows_of(c);
    s.b.window.nu = 3;
    s.b.window.u[0] = step_through(in, area);
    s.b.window.u[1] = down(t->kernel[0], t->dilation[0]);
    s.b.window.u[2] = across(t->kernel[1], t->dilation[1]);
    s.b.window.nk = 3;
    s.b.window.k[0] = step_through(0, c->in * area);
    s.b.window.k[1] = down(c->result[0], t->stride[0]);
    s.b.window.k[2] = across(c->result[1], t->stride[1]);
    return s;
}

ConvSpace conv_space(const Node *n)
{
    Conv c = conv_of(n);
    return n->op == OP_conv2d             ? forward_space(&c)
           : n->op == OP_conv_transpose2d ? transposed_space(&c)
                                          : weight_space(&c);
}
