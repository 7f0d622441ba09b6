/* index_map.c: affine maps through moves. See index_map.h. */
#include "passes/index_map.h"

#include "ir/plan.h"

bool dim_is_one(Dim d)
{
    return dim_is_const(d) && d.k == 1;
}

bool dim_add(Dim a, Dim b, Dim *out)
{
    if (a.k == 0 || b.k == 0) {
        *out = a.k == 0 ? b : a;
        return true;
    }
    *out = a;
    out->k = a.k + b.k;
    return a.sym[0] == b.sym[0] && a.sym[1] == b.sym[1];
}

IndexMap map_identity(const Dims *space)
{
    IndexMap map = {.rank = space->rank, .space_rank = space->rank};
    for (int d = 0; d < space->rank; d++) {
        map.m[d][d] = dim_of(dim_is_one(space->d[d]) ? 0 : 1);
    }
    return map;
}

/* Strides of a row-major tensor. */
static bool row_major(const Dims *dims, Dim *stride)
{
    Dim run = dim_of(1);
    for (int d = dims->rank - 1; d >= 0; d--) {
        stride[d] = run;
        if (!dim_mul(run, dims->d[d], &run)) {
            return false;
        }
    }
    return true;
}

bool map_linear(const IndexMap *map, const Dims *dims, Linear *out)
{
    Dim stride[MAX_RANK], part;
    *out = (Linear){0};
    if (!row_major(dims, stride)) {
        return false;
    }
    for (int d = 0; d < dims->rank; d++) {
        if (!dim_mul(map->off[d], stride[d], &part) || !dim_add(out->offset, part, &out->offset)) {
            return false;
        }
        for (int i = 0; i < map->space_rank; i++) {
            if (!dim_mul(map->m[d][i], stride[d], &part) ||
                !dim_add(out->stride[i], part, &out->stride[i])) {
                return false;
            }
        }
    }
    return true;
}

bool linear_equal(const Linear *a, const Linear *b, int rank)
{
    for (int i = 0; i < rank; i++) {
        if (!dim_equal(a->stride[i], b->stride[i])) {
            return false;
        }
    }
    return dim_equal(a->offset, b->offset);
}

/* Splits one coefficient of the element index over the axes of `to`: the outermost axis whose stride divides it. */
static int owner(Dim coefficient, const Dims *to, const Dim *stride, Dim *quotient)
{
    for (int d = 0; d < to->rank; d++) {
        if (!dim_is_one(to->d[d]) && dim_div(coefficient, stride[d], quotient)) {
            return d;
        }
    }
    return -1;
}

/* The constant offset of a reshape: split like a coefficient, but over several axes. */
static bool split_offset(Dim offset, const Dims *to, const Dim *stride, Dim *off)
{
    if (!dim_is_const(offset)) {
        int d = owner(offset, to, stride, &offset);
        off[d < 0 ? 0 : d] = offset;
        return d >= 0;
    }
    int64_t left = offset.k;
    for (int d = 0; d < to->rank && left != 0; d++) {
        if (dim_is_const(stride[d]) && !dim_is_one(to->d[d])) {
            off[d] = dim_of(left / stride[d].k);
            left %= stride[d].k;
        }
    }
    return left == 0;
}

/* No carry from an axis into the one outside it, at the symbols' bounds. */
static bool stays_inside(const Graph *g, const Dims *space, const Dims *to, const IndexMap *in)
{
    for (int d = 0; d < to->rank; d++) {
        int64_t reach = dim_bound(g, in->off[d]);
        for (int i = 0; i < space->rank; i++) {
            reach += dim_bound(g, in->m[d][i]) * (dim_bound(g, space->d[i]) - 1);
        }
        if (reach >= dim_bound(g, to->d[d])) {
            return false;
        }
    }
    return true;
}

bool map_reshape(const Graph *g, const Dims *space, const Dims *from, const Dims *to,
                 const IndexMap *map, IndexMap *in)
{
    if (dims_equal(from, to)) {
        *in = *map;
        return true;
    }
    Linear at;
    Dim stride[MAX_RANK];
    if (!map_linear(map, from, &at) || !row_major(to, stride)) {
        return false;
    }
    *in = (IndexMap){.rank = to->rank, .space_rank = map->space_rank};
    for (int i = 0; i < map->space_rank; i++) {
        if (at.stride[i].k == 0 || dim_is_one(space->d[i])) {
            continue;
        }
        Dim quotient;
        int d = owner(at.stride[i], to, stride, &quotient);
        if (d < 0) {
            return false;
        }
        in->m[d][i] = quotient;
    }
    return split_offset(at.offset, to, stride, in->off) && stays_inside(g, space, to, in);
}

/* ---- moves: each from the map to its result to the map to its operand ---------------------------------- */

typedef struct Space {
    const Graph *g;
    const Dims *dims;
} Space;
typedef bool Follow(Space s, const Node *move, const IndexMap *map, IndexMap *in);

static bool follow_slice(Space s, const Node *move, const IndexMap *map, IndexMap *in)
{
    (void)s;
    int axis = (int)attrs_int(&move->attrs, ATTR_axis, 0);
    Dim step = dim_of(attrs_int(&move->attrs, ATTR_step, 1));
    Dim start = dim_of(attrs_int(&move->attrs, ATTR_start, 0));
    *in = *map;
    bool ok = dim_mul(map->off[axis], step, &in->off[axis]) &&
              dim_add(in->off[axis], start, &in->off[axis]);
    for (int i = 0; ok && i < map->space_rank; i++) {
        ok = dim_mul(map->m[axis][i], step, &in->m[axis][i]);
    }
    return ok;
}

static bool follow_transpose(Space s, const Node *move, const IndexMap *map, IndexMap *in)
{
    (void)s;
    const Attr *perm = attrs_find(&move->attrs, ATTR_perm);
    *in = *map;
    for (int d = 0; d < map->rank; d++) {
        int to = (int)perm->ints.v[d];
        in->off[to] = map->off[d];
        for (int i = 0; i < map->space_rank; i++) {
            in->m[to][i] = map->m[d][i];
        }
    }
    return true;
}

static bool follow_expand(Space s, const Node *move, const IndexMap *map, IndexMap *in)
{
    (void)s;
    *in = map_operand(&move->dims, &move->in[0]->dims, map);
    return true;
}

static bool follow_reshape(Space s, const Node *move, const IndexMap *map, IndexMap *in)
{
    return map_reshape(s.g, s.dims, &move->dims, &move->in[0]->dims, map, in);
}

static bool follow_same(Space s, const Node *move, const IndexMap *map, IndexMap *in)
{
    (void)s;
    (void)move;
    *in = *map;
    return true;
}

static Follow *const follow[OP_COUNT] = {
    [OP_slice] = follow_slice,     [OP_transpose] = follow_transpose, [OP_expand] = follow_expand,
    [OP_reshape] = follow_reshape, [OP_detach] = follow_same,         [OP_recompute] = follow_same,
};

bool map_moves(Op op)
{
    return follow[op] != NULL;
}

bool map_move(const Graph *g, const Dims *space, const Node *move, const IndexMap *map,
              IndexMap *in)
{
    return follow[move->op]((Space){g, space}, move, map, in);
}

IndexMap map_operand(const Dims *dims, const Dims *operand, const IndexMap *map)
{
    IndexMap in = {.rank = operand->rank, .space_rank = map->space_rank};
    int added = dims->rank - operand->rank;
    for (int d = 0; d < operand->rank; d++) {
        if (dim_is_one(operand->d[d])) {
            continue;
        }
        in.off[d] = map->off[d + added];
        for (int i = 0; i < map->space_rank; i++) {
            in.m[d][i] = map->m[d + added][i];
        }
    }
    return in;
}
