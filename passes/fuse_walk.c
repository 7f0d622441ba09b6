/* fuse_walk.c: following operands through what is virtual, to what is in memory. See fuse.h. */
#include "passes/fuse.h"

#include <string.h>

#include "passes/conv_window.h"

bool fuse_is_root(const Fusion *f, const Cluster *in, const Node *n)
{
    if (n->op == OP_arg || in == NULL || !f->is_real[n->id] || f->of[n->id] == in->id) {
        return n->op == OP_arg || f->is_real[n->id];
    }
    for (int i = 0; i < in->reads.n; i++) {
        if (in->reads.at[i] == n) {
            return true;
        }
    }
    return false;
}

IndexMap random_key_map(const IndexMap *map)
{
    IndexMap keys = {.rank = 1, .space_rank = map->space_rank};
    if (map->rank > 0) {
        keys.off[0] = map->off[0];
        for (int i = 0; i < map->space_rank; i++) {
            keys.m[0][i] = map->m[0][i];
        }
    }
    return keys;
}

void gather_maps(const Node *embedding, const IndexMap *map, IndexMap *indices, IndexMap *row)
{
    int rank = embedding->in[1]->dims.rank;
    *indices = *map;
    indices->rank = rank;
    *row = (IndexMap){.rank = 2, .space_rank = map->space_rank};
    row->off[1] = map->off[rank];
    for (int i = 0; i < map->space_rank; i++) {
        row->m[1][i] = map->m[rank][i];
    }
}

void contract_maps(const Cluster *c, const Node *matmul, IndexMap *a, IndexMap *b)
{
    int rank = c->space.rank, nbatch = rank - 3;
    const Node *in[2] = {matmul->in[0], matmul->in[1]};
    bool trans[2] = {attrs_bool(&matmul->attrs, ATTR_trans_a),
                     attrs_bool(&matmul->attrs, ATTR_trans_b)};
    IndexMap *maps[2] = {a, b};
    for (int s = 0; s < 2; s++) {
        const Dims *dims = &in[s]->dims;
        IndexMap map = {.rank = dims->rank, .space_rank = rank};
        int added = nbatch - (dims->rank - 2);
        for (int d = 0; d < dims->rank - 2; d++) {
            map.m[d][d + added] = dim_of(dim_is_one(dims->d[d]) ? 0 : 1);
        }
        /* a is (m, k), b is (k, n); transposed the other way round */
        int rows = s == 0 ? rank - 3 : rank - 1, cols = s == 0 ? rank - 1 : rank - 2;
        map.m[dims->rank - 2][trans[s] ? cols : rows] = dim_of(1);
        map.m[dims->rank - 1][trans[s] ? rows : cols] = dim_of(1);
        *maps[s] = map;
    }
}

Node *conv_operand(const Fusion *f, const Cluster *in, const Node *n, int i)
{
    Node *x = n->in[i];
    while (!fuse_is_root(f, in, x)) {
        bool widens = x->op == OP_cast && x->dtype == DT_f32 && dtype_is_low(x->in[0]->dtype);
        bool same = x->op == OP_reshape || x->op == OP_detach || x->op == OP_recompute;
        if (!same && !widens) {
            break;
        }
        x = x->in[0];
    }
    return x;
}

/* Where an operand of a convolution is read does not follow from the point alone: all of it, from 0 on. */
static bool visit_convolution(Walk *w, const Cluster *c, const Node *n)
{
    for (int i = 0; i < 2; i++) {
        Node *x = conv_operand(w->f, c, n, i);
        if (!w->fn(w->ctx, x, &(Linear){0})) {
            return false;
        }
    }
    return true;
}

static bool visit(Walk *w, Node *root, const IndexMap *map, const Dims *dims)
{
    Linear at;
    if (!map_linear(map, dims, &at)) {
        w->blocked = NULL;
        return false;
    }
    return w->fn(w->ctx, root, &at);
}

static bool walk_move(Walk *w, Node *n, const IndexMap *map)
{
    Node *x = n->in[0];
    if (n->op == OP_recompute && w->after != NULL) {
        w->after(w->ctx, n);
    }
    if (n->op == OP_reshape && fuse_is_root(w->f, w->in, x)) {
        return visit(w, x, map, &n->dims); /* the element index does not change */
    }
    IndexMap in;
    if (!map_move(w->f->g, w->space, n, map, &in)) {
        w->blocked = fuse_is_root(w->f, w->in, x) ? n : x;
        return false;
    }
    return walk_node(w, x, &in);
}

bool walk_node(Walk *w, Node *n, const IndexMap *map)
{
    if (fuse_is_root(w->f, w->in, n)) {
        return visit(w, n, map, &n->dims);
    }
    if (map_moves(n->op)) {
        return walk_move(w, n, map);
    }
    return walk_operands(w, n, map);
}

static bool walk_embedding(Walk *w, Node *n, const IndexMap *map)
{
    IndexMap indices, row;
    gather_maps(n, map, &indices, &row);
    if (!fuse_is_root(w->f, w->in, n->in[0])) {
        w->blocked = n->in[0];
        return false;
    }
    return visit(w, n->in[0], &row, &n->in[0]->dims) && walk_node(w, n->in[1], &indices);
}

bool leaf_linear(const Node *leaf, const IndexMap *map, Linear *at)
{
    *at = (Linear){0};
    if (leaf->op == OP_uniform) {
        IndexMap element = *map;
        element.off[0] = dim_of(0);
        memset(element.m[0], 0, sizeof element.m[0]);
        return map_linear(&element, &leaf->dims, at);
    }
    int axis = (int)attrs_int(&leaf->attrs, ATTR_axis, 0);
    at->offset = map->off[axis];
    memcpy(at->stride, map->m[axis], sizeof at->stride);
    return true;
}

bool walk_operands(Walk *w, Node *n, const IndexMap *map)
{
    OpKind kind = op_info[n->op].kind;
    if (w->leaf != NULL && (n->op == OP_iota || n->op == OP_uniform)) {
        Linear at;
        if (!leaf_linear(n, map, &at) || !w->leaf(w->ctx, n, &at)) {
            return false;
        }
    }
    if (kind == KIND_Gather) {
        return walk_embedding(w, n, map);
    }
    if (map_moves(n->op)) {
        return walk_move(w, n, map);
    }
    for (int i = 0; i < n->nin; i++) {
        IndexMap in =
            kind == KIND_Leaf ? random_key_map(map) : map_operand(&n->dims, &n->in[i]->dims, map);
        if (!walk_node(w, n->in[i], &in)) {
            return false;
        }
    }
    return true;
}

/* ---- clusters seen from a node ------------------------------------------------------------------------- */

static Dims kept_dims(const Cluster *c)
{
    Dims kept = c->space;
    kept.rank -= c->nreduce;
    return kept;
}

static bool same_count(const Dims *a, const Dims *b)
{
    Dim na, nb;
    return dims_count(a, &na) && dims_count(b, &nb) && dim_equal(na, nb);
}

bool cluster_map(const Fusion *f, const Cluster *c, const Dims *dims, bool *per_row, IndexMap *map)
{
    IndexMap id = map_identity(&c->space);
    if ((c->kind == KERNEL_Map || c->kind == KERNEL_Row) && same_count(&c->space, dims)) {
        *per_row = false;
        return map_reshape(f->g, &c->space, &c->space, dims, &id, map);
    }
    if (c->kind == KERNEL_Map || c->kind == KERNEL_Scatter) {
        return false;
    }
    Dims kept = kept_dims(c);
    id.rank = kept.rank;
    *per_row = true;
    return same_count(&kept, dims) && map_reshape(f->g, &c->space, &kept, dims, &id, map);
}

bool cluster_canonical(const Cluster *c, bool per_row, Linear *out)
{
    IndexMap id = map_identity(&c->space);
    Dims dims = c->space;
    if (per_row) {
        dims = kept_dims(c);
        id.rank = dims.rank;
    }
    return map_linear(&id, &dims, out);
}

bool reduction_map(const Fusion *f, const Cluster *c, const Node *n, IndexMap *map)
{
    *map = c->base;
    if (c->kind != KERNEL_Row) {
        return true;
    }
    IndexMap id = map_identity(&c->space);
    return map_reshape(f->g, &c->space, &c->space, &n->in[0]->dims, &id, map);
}

bool walk_cluster_node(Walk *w, const Cluster *c, Node *n)
{
    OpKind kind = op_info[n->op].kind;
    IndexMap a, b;
    bool per_row;
    if (is_convolution(n)) {
        return visit_convolution(w, c, n);
    }
    if (kind == KIND_Contract) {
        contract_maps(c, n, &a, &b);
        return walk_node(w, n->in[0], &a) && walk_node(w, n->in[1], &b);
    }
    if (kind == KIND_Reduce) {
        return reduction_map(w->f, c, n, &a) && walk_node(w, n->in[0], &a);
    }
    return cluster_map(w->f, c, &n->dims, &per_row, &a) && walk_operands(w, n, &a);
}
