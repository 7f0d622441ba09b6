/* rebuild.c: what the passes share: a map from nodes, rebuilding a graph in order, arguments, small questions.
 * Contracts in ctx.h. */
#include "passes/ctx.h"

#include <math.h>
#include <string.h>

#include "ir/base/strutil.h"

/* ---- map from nodes ------------------------------------------------------------------------------ */

static struct NodeSlot *map_slot(const NodeMap *map, const Node *key)
{
    uintptr_t h = (uintptr_t)key >> 4;
    h ^= h >> 15;
    h *= (uintptr_t)0x9e3779b97f4a7c15u;
    h ^= h >> 21;
    for (;; h++) {
        struct NodeSlot *s = &map->slot[h & (uintptr_t)(map->cap - 1)];
        if (s->key == key || s->key == NULL) {
            return s;
        }
    }
}

void *node_map_get(const NodeMap *map, const Node *key)
{
    return map->cap == 0 ? NULL : map_slot(map, key)->value;
}

void node_map_put(Arena *arena, NodeMap *map, const Node *key, void *value)
{
    if (map->n * 2 >= map->cap) {
        NodeMap bigger = {.cap = map->cap == 0 ? 64 : map->cap * 2};
        bigger.slot = arena_array(arena, (size_t)bigger.cap, sizeof *bigger.slot);
        for (int i = 0; i < map->cap; i++) {
            if (map->slot[i].key != NULL) {
                *map_slot(&bigger, map->slot[i].key) = map->slot[i];
                bigger.n++;
            }
        }
        *map = bigger;
    }
    struct NodeSlot *s = map_slot(map, key);
    if (s->key == NULL) {
        s->key = key;
        map->n++;
    }
    s->value = value;
}

/* ---- rebuilding ---------------------------------------------------------------------------------- */

Rebuild rebuild_begin(Graph *g, Arena *scratch)
{
    graph_renumber(g);
    Rebuild r = {.g = g, .n = g->nnodes, .scratch = scratch};
    r.old = ARENA_ARRAY(scratch, Node *, g->nnodes);
    for (int i = 0; i < g->nnodes; i++) {
        r.old[i] = g->nodes[i];
    }
    g->nnodes = 0;
    return r;
}

static Node *rebuild_now(const Rebuild *r, Node *n)
{
    Node *by = node_map_get(&r->to, n);
    return by != NULL ? by : n;
}

void rebuild_operands(Rebuild *r, Node *n)
{
    for (int i = 0; i < n->nin; i++) {
        n->in[i] = rebuild_now(r, n->in[i]);
    }
}

void rebuild_keep(Rebuild *r, Node *n)
{
    Graph *g = r->g;
    if (g->nnodes == g->cap) {
        int cap = g->cap * 2 + 16;
        Node **nodes = ARENA_ARRAY(g->arena, Node *, cap);
        for (int i = 0; i < g->nnodes; i++) {
            nodes[i] = g->nodes[i];
        }
        g->nodes = nodes;
        g->cap = cap;
    }
    g->nodes[g->nnodes++] = n;
}

void rebuild_replace(Rebuild *r, const Node *n, Node *by)
{
    node_map_put(r->scratch, &r->to, n, by);
}

void rebuild_end(Rebuild *r)
{
    for (int i = 0; i < r->g->nresults; i++) {
        r->g->results[i].value = rebuild_now(r, r->g->results[i].value);
    }
    graph_renumber(r->g);
}

/* ---- arguments ----------------------------------------------------------------------------------- */

Node *pass_arg(PassCtx *c, Graph *g, AttrId role, const char *name, DType dt, const Dims *dims)
{
    Node *found = graph_find_arg(g, role, name);
    if (found != NULL) {
        return found;
    }
    Builder b = {.graph = g, .loc = g->loc};
    Attrs attrs = {0};
    attrs_set_str(c->arena, &attrs, role, name);
    return graph_first_arg(&b, dt, dims, attrs);
}

/* ---- questions ----------------------------------------------------------------------------------- */

bool pass_is_float(DType dt)
{
    return dtype_info[dt].is_float;
}

Node *pass_behind_moves(Node *n)
{
    while (n->op == OP_reshape || n->op == OP_transpose || n->op == OP_expand) {
        n = n->in[0];
    }
    return n;
}

const Attr *pass_param(const Node *n)
{
    return n->op == OP_arg ? attrs_find(&n->attrs, ATTR_param) : NULL;
}

double pass_expr_const(const HostExpr *e, bool *known)
{
    if (e != NULL && e->kind == HE_num) {
        *known = true;
        return e->num;
    }
    if (e != NULL && e->kind == HE_unary && str_eq(e->text, "-")) {
        return -pass_expr_const(e->in[0], known);
    }
    *known = false;
    return 0;
}
