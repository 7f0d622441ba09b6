/* lower_augment.c: random changes of samples, in the preparation of batches. Images are [batch, .., rows, columns].
 *
 * All of them are compositions of ops: random numbers are drawn for each sample, and what moves is read at
 * computed places. The numbers are keyed by the sample, so a picture is changed in the same way wherever it
 * stands in an epoch, and in another way in the next one. In evaluation the random ones change nothing; a random
 * crop takes the middle, which undoes a pad before it.
 */
#include "frontend/builtins.h"

#include <math.h>

/* ---- places ---------------------------------------------------------------------------------------- */

static Node *number(Lower *l, const Node *like, double v)
{
    return like == NULL ? NULL : op_const(l, like->dtype, v);
}

/* x + v, x * v: in x's type */
static Node *plus(Lower *l, Node *x, double v)
{
    return op2(l, OP_add, x, number(l, x, v));
}

static Node *times(Lower *l, Node *x, double v)
{
    return op2(l, OP_mul, x, number(l, x, v));
}

/* 0, 1, .. along one axis of dims, of length 1 along the others. */
static Node *along(Lower *l, const Dims *dims, int axis)
{
    Dims d = {.rank = dims->rank};
    for (int i = 0; i < dims->rank; i++) {
        d.d[i] = i == axis ? dims->d[i] : dim_of(1);
    }
    return op_iota(l, &d, axis);
}

/* The elements of x at rows y and columns c (i64, within x; broadcast to the result's shape). */
static Node *picked(Lower *l, Node *x, Node *y, Node *c)
{
    if (x == NULL || y == NULL || c == NULL) {
        return NULL;
    }
    int rank = x->dims.rank;
    double stride = (double)x->dims.d[rank - 1].k;
    Node *at = op2(l, OP_add, times(l, y, stride), c);
    for (int i = rank - 3; i >= 0; i--) {
        stride *= (double)x->dims.d[i + 1].k;
        at = op2(l, OP_add, times(l, along(l, &x->dims, i), stride), at);
    }
    Dims table = {.rank = 2, .d = {{0}, dim_of(1)}};
    if (at == NULL || !dims_count(&x->dims, &table.d[0])) {
        return NULL;
    }
    Node *r = op_build(l, OP_embedding, 2, (Node *[]){op_reshape(l, x, &table), at}, (Attrs){0});
    return r == NULL ? NULL : op_reshape(l, r, &at->dims);
}

/* ---- what is drawn --------------------------------------------------------------------------------- */

/* An image in a preparation; draws are for the samples of its batch. */
static bool call_image(Lower *l, Call *c, int i, Node **out)
{
    if (!call_tensor(l, c, i, out)) {
        return false;
    }
    const Dims *d = &(*out)->dims;
    if (l->run->graph->role != GRAPH_Prepare) {
        lower_error(l, c->loc, "`%s` prepares batches: it stands in `batch of DATA { ... }`",
                    c->fn->name);
        return false;
    }
    bool fits = d->rank >= 3 && d->d[0].k == 1 && d->d[0].sym[0] == 1 && d->d[0].sym[1] == 0;
    for (int k = 1; fits && k < d->rank; k++) {
        fits = dim_is_const(d->d[k]);
    }
    if (!fits) {
        lower_error(l, c->locs[i], "%s takes images [batch, .., rows, columns], but this is %s",
                    c->fn->name, val_describe(l, c->args[i]));
        return false;
    }
    l->run->by_mode = true;
    return true;
}

/* n random numbers for each sample; number k of them as [batch, 1, ..] */
static Node *draws(Lower *l, Call *c, const Node *x, int n)
{
    return op_uniform(l, &(Dims){.rank = 2, .d = {x->dims.d[0], dim_of(n)}}, c->fn->name);
}

static Node *draw(Lower *l, Node *all, int k, int rank)
{
    Dims dims = {.rank = rank};
    if (all == NULL) {
        return NULL;
    }
    for (int i = 0; i < rank; i++) {
        dims.d[i] = i == 0 ? all->dims.d[0] : dim_of(1);
    }
    Node *one = op_slice(l, all, 1, k, k + 1, 1);
    return one == NULL ? NULL : op_reshape(l, one, &dims);
}

/* ---- pad, crop ------------------------------------------------------------------------------------- */

typedef struct Border {
    int64_t top, bottom, left, right;
} Border;

/* torchvision's: a number; two: left and right, top and bottom; four: left, top, right, bottom. */
static bool call_border(Lower *l, Call *c, int i, Border *out)
{
    Val v = c->args[i];
    int64_t n[4] = {0};
    bool list = v.kind == VAL_list || v.kind == VAL_tuple;
    int count = list ? v.list->n : 1;
    bool fine = count == 1 || count == 2 || count == 4;
    for (int k = 0; fine && k < count; k++) {
        Val one = list ? v.list->at[k] : v;
        fine = one.kind == VAL_int && one.i >= 0 && one.i < 1 << 20;
        n[k] = one.i;
    }
    if (!fine) {
        if (!val_is_poison(v)) {
            lower_error(l, c->locs[i],
                        "a border is a number, two of them (left and right, top and bottom) or "
                        "four (left, top, right, bottom)");
        }
        return false;
    }
    for (int k = count; k < 4; k++) {
        n[k] = n[count == 2 ? k - 2 : 0];
    }
    *out = (Border){.left = n[0], .top = n[1], .right = n[2], .bottom = n[3]};
    return true;
}

static Node *pad_axis(Lower *l, Node *x, int axis, int64_t before, int64_t after)
{
    Attrs attrs = {0};
    if (x == NULL || before + after == 0) {
        return x;
    }
    attrs_set_int(l->arena, &attrs, ATTR_axis, axis);
    attrs_set_int(l->arena, &attrs, ATTR_before, before);
    attrs_set_int(l->arena, &attrs, ATTR_after, after);
    return op_build(l, OP_pad, 1, &x, attrs);
}

/* low <= at < high */
static Node *within(Lower *l, Node *at, double low, double high)
{
    return op2(l, OP_and, op2(l, OP_ge, at, number(l, at, low)),
               op2(l, OP_lt, at, number(l, at, high)));
}

static Node *padded(Lower *l, Node *x, const Border *b, double value)
{
    int rows = x->dims.rank - 2, columns = rows + 1;
    Node *r = pad_axis(l, x, rows, b->top, b->bottom);
    r = pad_axis(l, r, columns, b->left, b->right);
    if (r == NULL || r == x || value == 0) {
        return r;
    }
    double h = (double)x->dims.d[rows].k, w = (double)x->dims.d[columns].k;
    Node *y = along(l, &r->dims, rows), *c = along(l, &r->dims, columns);
    Node *inside = op2(l, OP_and, within(l, y, (double)b->top, (double)b->top + h),
                       within(l, c, (double)b->left, (double)b->left + w));
    return op3(l, OP_where, inside, r, number(l, r, value));
}

Val fn_pad(Lower *l, Call *c)
{
    Node *x;
    Border b;
    double value;
    if (!call_tensor(l, c, 0, &x) || !call_border(l, c, 1, &b) || !call_float(l, c, 2, &value)) {
        return val_poison();
    }
    int rank = x->dims.rank;
    if (rank < 2 || !dim_is_const(x->dims.d[rank - 2]) || !dim_is_const(x->dims.d[rank - 1])) {
        return lower_error(l, c->locs[0], "pad takes images [.., rows, columns], but this is %s",
                           val_describe(l, c->args[0]));
    }
    return val_of_node(l, padded(l, x, &b, value));
}

/* random_crop(image, 28, 28), (image, 28), (image, [28, 28]) */
static bool call_size(Lower *l, Call *c, int64_t size[2])
{
    Val v = c->args[1];
    bool list = (v.kind == VAL_list || v.kind == VAL_tuple) && v.list->n == 2;
    bool two = c->args[2].kind != VAL_none;
    Val both[2] = {list ? v.list->at[0] : v, list ? v.list->at[1] : two ? c->args[2] : v};
    for (int k = 0; k < 2; k++) {
        if (!val_int_of(l, both[k], "a size", c->locs[two ? 1 + k : 1], &size[k])) {
            return false;
        }
        if (size[k] < 1) {
            lower_error(l, c->locs[1], "a crop of %lld", (long long)size[k]);
            return false;
        }
    }
    return true;
}

/* torchvision's centre: half of what is left over, rounded to even */
static double middle(int64_t left_over)
{
    int64_t half = left_over / 2;
    return (double)(half + (left_over % 2 != 0 && half % 2 != 0));
}

Val fn_random_crop(Lower *l, Call *c)
{
    Node *x;
    int64_t size[2];
    Border b;
    if (!call_image(l, c, 0, &x) || !call_size(l, c, size) || !call_border(l, c, 3, &b)) {
        return val_poison();
    }
    x = padded(l, x, &b, 0);
    if (x == NULL) {
        return val_poison();
    }
    int rank = x->dims.rank;
    Dims dims = x->dims;
    Node *at[2], *all = l->training ? draws(l, c, x, 2) : NULL;
    for (int k = 0; k < 2; k++) {
        int axis = rank - 2 + k;
        int64_t left_over = x->dims.d[axis].k - size[k];
        if (left_over < 0) {
            return lower_error(l, c->loc, "a crop of %lld by %lld is larger than the image: %s",
                               (long long)size[0], (long long)size[1],
                               val_describe(l, val_of_node(l, x)));
        }
        dims.d[axis] = dim_of(size[k]);
        Node *from = op_const(l, DT_i64, middle(left_over));
        if (l->training) {
            Node *u = times(l, draw(l, all, k, rank), (double)left_over + 1);
            from = op_cast(l, op1(l, OP_floor, u), DT_i64);
        }
        at[k] = op2(l, OP_add, along(l, &dims, axis), from);
    }
    return val_of_node(l, picked(l, x, at[0], at[1]));
}

/* ---- flips ----------------------------------------------------------------------------------------- */

static Val flip(Lower *l, Call *c, int back)
{
    Node *x;
    double p;
    if (!call_image(l, c, 0, &x) || !call_float(l, c, 1, &p)) {
        return val_poison();
    }
    if (!(p >= 0 && p <= 1)) {
        return lower_error(l, c->locs[1], "p of %s is a probability, between 0 and 1", c->fn->name);
    }
    if (!l->training) {
        return val_of_node(l, x);
    }
    int rank = x->dims.rank, axis = rank - back;
    Node *at[2] = {along(l, &x->dims, rank - 2), along(l, &x->dims, rank - 1)};
    Node *same = at[2 - back];
    Node *turned = op2(l, OP_sub, op_const(l, DT_i64, (double)x->dims.d[axis].k - 1), same);
    Node *u = draw(l, draws(l, c, x, 1), 0, rank);
    at[2 - back] = op3(l, OP_where, op2(l, OP_lt, u, number(l, u, p)), turned, same);
    return val_of_node(l, picked(l, x, at[0], at[1]));
}

Val fn_random_hflip(Lower *l, Call *c)
{
    return flip(l, c, 1);
}

Val fn_random_vflip(Lower *l, Call *c)
{
    return flip(l, c, 2);
}

/* ---- rotation -------------------------------------------------------------------------------------- */

/* degrees: a number d for -d .. d, or two. */
static bool call_range(Lower *l, Call *c, int i, double range[2])
{
    Val v = c->args[i];
    bool list = (v.kind == VAL_list || v.kind == VAL_tuple) && v.list->n == 2;
    for (int k = 0; k < 2; k++) {
        Val one = list ? v.list->at[k] : v;
        if (!val_float_of(l, one, "degrees", c->locs[i], &range[k])) {
            return false;
        }
    }
    if (!list) {
        range[0] = -range[1];
    }
    if (!(range[0] <= range[1])) {
        lower_error(l, c->locs[i], "degrees are a number that is not negative, or two: [from, to]");
        return false;
    }
    return true;
}

typedef struct Taps {
    Node *x;
    Node *y, *c; /* f32: where a pixel comes from, rows and columns */
    double fill;
} Taps;

/* x at whole rows and columns, fill outside of it */
static Node *tap(Lower *l, const Taps *t, Node *y, Node *c)
{
    const Dims *d = &t->x->dims;
    double h = (double)d->d[d->rank - 2].k, w = (double)d->d[d->rank - 1].k;
    Node *inside = op2(l, OP_and, within(l, y, 0, h), within(l, c, 0, w));
    Node *row = op3(l, OP_clamp, y, number(l, y, 0), number(l, y, h - 1));
    Node *column = op3(l, OP_clamp, c, number(l, c, 0), number(l, c, w - 1));
    Node *v = picked(l, t->x, op_cast(l, row, DT_i64), op_cast(l, column, DT_i64));
    return op3(l, OP_where, inside, v, number(l, v, t->fill));
}

static Node *nearest(Lower *l, const Taps *t)
{
    return tap(l, t, op1(l, OP_floor, plus(l, t->y, 0.5)), op1(l, OP_floor, plus(l, t->c, 0.5)));
}

/* a + (b - a) * share */
static Node *between(Lower *l, Node *a, Node *b, Node *share)
{
    return op2(l, OP_add, a, op2(l, OP_mul, op2(l, OP_sub, b, a), share));
}

/* Rounded where the image has whole numbers. */
static Node *bilinear(Lower *l, const Taps *t)
{
    Node *y = op1(l, OP_floor, t->y), *c = op1(l, OP_floor, t->c), *v[4];
    for (int k = 0; k < 4; k++) {
        v[k] = op_cast(l, tap(l, t, plus(l, y, k / 2), plus(l, c, k % 2)), DT_f32);
    }
    Node *right = op2(l, OP_sub, t->c, c), *down = op2(l, OP_sub, t->y, y);
    Node *r = between(l, between(l, v[0], v[1], right), between(l, v[2], v[3], right), down);
    bool whole = !dtype_info[t->x->dtype].is_float;
    return op_cast(l, whole ? op1(l, OP_floor, plus(l, r, 0.5)) : r, t->x->dtype);
}

/* Counter-clockwise about the middle: the pixel at (y, c) from it comes from (c sin + y cos, c cos - y sin). */
Val fn_random_rotation(Lower *l, Call *c)
{
    Node *x;
    double degrees[2], fill;
    const char *how;
    if (!call_image(l, c, 0, &x) || !call_range(l, c, 1, degrees) || !call_str(l, c, 2, &how) ||
        !call_float(l, c, 3, &fill)) {
        return val_poison();
    }
    if (!str_eq(how, "nearest") && !str_eq(how, "bilinear")) {
        return lower_error(l, c->locs[2],
                           "interpolation is \"nearest\" or \"bilinear\", not \"%s\"", how);
    }
    if (!l->training) {
        return val_of_node(l, x);
    }
    int rank = x->dims.rank;
    const double radians = 0.017453292519943295;
    double half_h = ((double)x->dims.d[rank - 2].k - 1) / 2;
    double half_w = ((double)x->dims.d[rank - 1].k - 1) / 2;
    Node *turn = times(l, draw(l, draws(l, c, x, 1), 0, rank), radians * (degrees[1] - degrees[0]));
    turn = plus(l, turn, radians * degrees[0]);
    Node *sine = op1(l, OP_sin, turn), *cosine = op1(l, OP_cos, turn);
    Node *y = plus(l, op_cast(l, along(l, &x->dims, rank - 2), DT_f32), -half_h);
    Node *w = plus(l, op_cast(l, along(l, &x->dims, rank - 1), DT_f32), -half_w);
    Node *from_y = op2(l, OP_add, op2(l, OP_mul, w, sine), op2(l, OP_mul, y, cosine));
    Node *from_c = op2(l, OP_sub, op2(l, OP_mul, w, cosine), op2(l, OP_mul, y, sine));
    if (from_y == NULL || from_c == NULL) {
        return val_poison();
    }
    Taps t = {.x = x, .y = plus(l, from_y, half_h), .c = plus(l, from_c, half_w), .fill = fill};
    return val_of_node(l, how[0] == 'n' ? nearest(l, &t) : bilinear(l, &t));
}

/* ---- mixup ----------------------------------------------------------------------------------------- */

/* A sample's share of Beta(alpha, alpha), by one formula (L. Devroye, Random variate generation in one line
 * of code, 1996): with p = u^(1/alpha) and c = cos(2 pi v), 1/2 + 1/2 c sqrt(1 - p) / sqrt(c^2 (1 - p) + p). */
static Node *beta(Lower *l, Call *c, const Node *x, double alpha)
{
    Node *all = draws(l, c, x, 2), *u = draw(l, all, 0, 1), *v = draw(l, all, 1, 1);
    Node *p = plus(l, times(l, u, -1), 1);
    p = op2(l, OP_pow, p, number(l, p, 1 / alpha));
    Node *rest = plus(l, times(l, p, -1), 1);
    Node *wave = op1(l, OP_cos, times(l, v, 6.283185307179586));
    Node *below = op2(l, OP_add, op2(l, OP_mul, op1(l, OP_square, wave), rest), p);
    below = op2(l, OP_maximum, below, number(l, below, 1e-30));
    Node *share =
        op2(l, OP_mul, op2(l, OP_mul, wave, op1(l, OP_sqrt, rest)), op1(l, OP_rsqrt, below));
    share = plus(l, times(l, share, 0.5), 0.5);
    return op3(l, OP_clamp, share, number(l, share, 0), number(l, share, 1));
}

/* The rows of x, each the next one of the batch; the last one's is the first. */
static Node *partners(Lower *l, Node *x)
{
    Dims batch = {.rank = 1, .d = {x->dims.d[0]}};
    Node *next = plus(l, op_iota(l, &batch, 0), 1);
    Node *n = op_cast(l, op_dim(l, batch.d[0]), DT_i64);
    next = op3(l, OP_where, op2(l, OP_lt, next, n), next, op_const(l, DT_i64, 0));
    Dims flat = {.rank = 2, .d = {batch.d[0], dim_of(1)}};
    for (int i = 1; i < x->dims.rank; i++) {
        flat.d[1].k *= x->dims.d[i].k;
    }
    Node *rows = op_reshape(l, x, &flat);
    if (rows == NULL || next == NULL) {
        return NULL;
    }
    Node *r = op_build(l, OP_embedding, 2, (Node *[]){rows, next}, (Attrs){0});
    return r == NULL ? NULL : op_reshape(l, r, &x->dims);
}

static Node *mixed(Lower *l, Node *x, Node *share)
{
    if (x == NULL || share == NULL) {
        return NULL;
    }
    Dims dims = {.rank = x->dims.rank, .d = {x->dims.d[0]}};
    for (int i = 1; i < dims.rank; i++) {
        dims.d[i] = dim_of(1);
    }
    Node *other = partners(l, x);
    share = op_reshape(l, share, &dims);
    return other == NULL ? NULL : between(l, other, x, op_cast(l, share, x->dtype));
}

/* mixup(image, label, alpha, num_classes): the pair of both, mixed with those of the next sample. */
Val fn_mixup(Lower *l, Call *c)
{
    Node *x, *label;
    double alpha;
    if (!call_tensor(l, c, 0, &x) || !call_tensor(l, c, 1, &label) ||
        !call_float(l, c, 2, &alpha)) {
        return val_poison();
    }
    if (!(alpha >= 0) || isinf(alpha)) {
        return lower_error(l, c->locs[2], "alpha of mixup is a number that is not negative");
    }
    if (l->run->graph->role != GRAPH_Prepare) {
        return lower_error(l, c->loc,
                           "`mixup` prepares batches: it stands in `batch of DATA "
                           "{ ... }`");
    }
    l->run->by_mode = true;
    x = dtype_info[x->dtype].is_float ? x : op_cast(l, x, DT_f32);
    if (dtype_info[label->dtype].is_int) {
        int64_t classes;
        if (c->args[3].kind == VAL_none) {
            return lower_error(l, c->loc, "mixup needs num_classes, the number of classes of %s",
                               val_describe(l, c->args[1]));
        }
        if (!call_int(l, c, 3, &classes) || (label = one_hot(l, label, classes, c->loc)) == NULL) {
            return val_poison();
        }
    }
    if (x->dims.rank < 1 || label->dims.rank < 1 || !dim_equal(x->dims.d[0], label->dims.d[0])) {
        return lower_error(l, c->loc, "mixup takes two fields of the batch, not %s and %s",
                           val_describe(l, c->args[0]), val_describe(l, c->args[1]));
    }
    Val pair = val_list(l, VAL_tuple);
    Node *share = l->training && alpha > 0 ? beta(l, c, x, alpha) : NULL;
    val_push(l, &pair, val_of_node(l, share != NULL ? mixed(l, x, share) : x));
    val_push(l, &pair, val_of_node(l, share != NULL ? mixed(l, label, share) : label));
    return pair;
}
