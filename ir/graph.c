/* graph.c: graphs and their builder: adding, replacing, ordering and dropping nodes.
 *
 * A graph's nodes stand in order of definition, operands first; passes may break that order between
 * two calls of graph_sort(). Types and shapes of new nodes come from shape.c.
 */
#include "ir/ir.h"

#include <string.h>

#include "ir/base/strutil.h"
#include "ir/base/vec.h"

Graph *graph_new(Arena *arena, const char *name, GraphRole role)
{
    Graph *g = ARENA_NEW(arena, Graph);
    g->arena = arena;
    g->name = arena_strdup(arena, name);
    g->role = role;
    return g;
}

int graph_sym(Graph *g, const char *name, int64_t bound)
{
    for (int i = 0; i < g->nsyms; i++) {
        if (str_eq(g->syms[i].name, name)) {
            return i + 1;
        }
    }
    if (g->nsyms == MAX_SYMS) {
        ICE("graph %s has more than %d symbolic dimensions", g->name, MAX_SYMS);
    }
    g->syms[g->nsyms] = (Sym){arena_strdup(g->arena, name), bound, 1};
    return ++g->nsyms;
}

static void graph_append(Graph *g, Node *n)
{
    g->nodes = vec_room(g->arena, g->nodes, g->nnodes, &g->cap, sizeof g->nodes[0]);
    n->id = g->nnodes;
    bool first = g->nnodes == 0 || g->nodes[g->nnodes - 1]->op == OP_arg;
    g->late_args = g->late_args || (n->op == OP_arg && !first);
    g->nodes[g->nnodes++] = n;
}

/* ---- building -------------------------------------------------------------------------------- */

/* dt and dims are what the rule of the op wants to know beforehand; DT_none and NULL for nothing.
 */
static Node *build_typed(Builder *b, Op op, int nin, Node *const *in, Attrs attrs, DType dt,
                         const Dims *dims)
{
    for (int i = 0; i < nin; i++) {
        if (in[i] == NULL) {
            return NULL;
        }
    }
    Graph *g = b->graph;
    Node *n = ARENA_NEW(g->arena, Node);
    n->op = op;
    n->dtype = dt;
    if (dims != NULL) {
        n->dims = *dims;
    }
    n->nin = nin;
    n->in = ARENA_ARRAY(g->arena, Node *, nin);
    for (int i = 0; i < nin; i++) {
        n->in[i] = in[i];
    }
    n->attrs = attrs;
    n->name = b->name;
    n->loc = b->loc;
    n->why = b->why;
    n->amp = b->amp;
    n->region = op == OP_arg || op_info[op].kind == KIND_Mark ? 0 : b->region;
    if (!infer_node(g, n, b->diag)) {
        return NULL;
    }
    graph_append(g, n);
    return n;
}

Node *build(Builder *b, Op op, int nin, Node *const *in, Attrs attrs)
{
    return build_typed(b, op, nin, in, attrs, DT_none, NULL);
}

Node *build_arg(Builder *b, DType dt, const Dims *dims, Attrs attrs)
{
    return build_typed(b, OP_arg, 0, NULL, attrs, dt, dims);
}

Node *build_again(Builder *b, const Node *n, Node **in)
{
    Node *copy = ARENA_NEW(b->graph->arena, Node);
    *copy = *n;
    copy->in = in;
    copy->loc = b->loc;
    copy->name = b->name;
    copy->why = b->why;
    copy->amp = b->amp;
    copy->region = b->region;
    graph_append(b->graph, copy);
    return copy;
}

Node *build_const(Builder *b, DType dt, double value)
{
    Attrs attrs = {0};
    attrs_set_float(b->graph->arena, &attrs, ATTR_value, value);
    return build_typed(b, OP_const, 0, NULL, attrs, dt, NULL);
}

/* The graph's argument of random keys, i64[B]; made at the first use, before all else. */
static Node *rng_arg(Builder *b)
{
    Graph *g = b->graph;
    Node *arg = graph_find_arg(g, ATTR_rng, NULL);
    if (arg == NULL) {
        Dims dims = {.rank = 1, .d = {{.k = 1, .sym = {(uint8_t)graph_sym(g, "B", 1), 0}}}};
        Attrs attrs = {0};
        attrs_set_bool(g->arena, &attrs, ATTR_rng, true);
        Builder plain = {.graph = g, .diag = b->diag, .loc = b->loc};
        arg = build_arg(&plain, DT_i64, &dims, attrs);
        graph_insert(g, 0, 1);
    }
    return arg;
}

Node *build_like(Builder *b, DType dt, const Dims *dims, Op op, Attrs attrs)
{
    if (op == OP_uniform) {
        Node *keys = rng_arg(b);
        return build_typed(b, op, 1, &keys, attrs, dt, dims);
    }
    return build_typed(b, op, 0, NULL, attrs, dt, dims);
}

Node *build1(Builder *b, Op op, Node *x)
{
    return build(b, op, 1, &x, (Attrs){0});
}

Node *build2(Builder *b, Op op, Node *x, Node *y)
{
    return build(b, op, 2, (Node *[]){x, y}, (Attrs){0});
}

Node *build3(Builder *b, Op op, Node *x, Node *y, Node *z)
{
    return build(b, op, 3, (Node *[]){x, y, z}, (Attrs){0});
}

Node *build_cast(Builder *b, Node *x, DType dt)
{
    if (x == NULL || x->dtype == dt) {
        return x;
    }
    return build_typed(b, OP_cast, 1, &x, (Attrs){0}, dt, NULL);
}

Node *build_reshape(Builder *b, Node *x, const Dims *dims)
{
    if (x == NULL || dims_equal(&x->dims, dims)) {
        return x;
    }
    return build_typed(b, OP_reshape, 1, &x, (Attrs){0}, DT_none, dims);
}

Node *build_expand(Builder *b, Node *x, const Dims *dims)
{
    if (x == NULL || dims_equal(&x->dims, dims)) {
        return x;
    }
    return build_typed(b, OP_expand, 1, &x, (Attrs){0}, DT_none, dims);
}

Node *build_transpose(Builder *b, Node *x, const int *perm)
{
    if (x == NULL) {
        return NULL;
    }
    int64_t wide[MAX_RANK];
    for (int i = 0; i < x->dims.rank; i++) {
        wide[i] = perm[i];
    }
    Attrs attrs = {0};
    attrs_set_ints(b->graph->arena, &attrs, ATTR_perm, x->dims.rank, wide);
    return build(b, OP_transpose, 1, &x, attrs);
}

Node *build_slice(Builder *b, Node *x, int axis, int64_t start, int64_t stop, int64_t step)
{
    Attrs attrs = {0};
    if (start == 0 && step == 1 && dim_is_const(x->dims.d[axis]) && stop == x->dims.d[axis].k) {
        return x;
    }
    attrs_set_int(b->graph->arena, &attrs, ATTR_axis, axis);
    attrs_set_int(b->graph->arena, &attrs, ATTR_start, start);
    attrs_set_int(b->graph->arena, &attrs, ATTR_stop, stop);
    attrs_set_int(b->graph->arena, &attrs, ATTR_step, step);
    return build(b, OP_slice, 1, &x, attrs);
}

Node *build_pad(Builder *b, Node *x, int axis, int64_t before, int64_t after)
{
    Attrs attrs = {0};
    if (before == 0 && after == 0) {
        return x;
    }
    attrs_set_int(b->graph->arena, &attrs, ATTR_axis, axis);
    attrs_set_int(b->graph->arena, &attrs, ATTR_before, before);
    attrs_set_int(b->graph->arena, &attrs, ATTR_after, after);
    return build(b, OP_pad, 1, &x, attrs);
}

Node *build_spread(Builder *b, Node *x, int axis, int64_t step)
{
    Dims apart = {.rank = x->dims.rank + 1}, together = x->dims;
    if (step == 1) {
        return x;
    }
    for (int i = 0, k = 0; i < x->dims.rank; i++) {
        apart.d[k++] = x->dims.d[i];
        if (i == axis) {
            apart.d[k++] = dim_of(1);
        }
    }
    together.d[axis].k *= step;
    Node *wide = build_pad(b, build_reshape(b, x, &apart), axis + 1, 0, step - 1);
    return build_reshape(b, wide, &together);
}

Node *build_reduce(Builder *b, Op op, Node *x, int naxes, const int64_t *axes, bool keepdim)
{
    if (x == NULL) {
        return NULL;
    }
    int64_t sorted[MAX_RANK];
    int n = naxes < 0 ? x->dims.rank : naxes;
    if (n > MAX_RANK) {
        ICE("%s over %d axes", op_info[op].name, n);
    }
    for (int i = 0; i < n; i++) {
        int64_t axis = naxes < 0 ? i : axes[i];
        axis = axis < 0 ? axis + x->dims.rank : axis;
        int at = i;
        for (; at > 0 && sorted[at - 1] > axis; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = axis;
    }
    Attrs attrs = {0};
    attrs_set_ints(b->graph->arena, &attrs, ATTR_axes, n, sorted);
    attrs_set_bool(b->graph->arena, &attrs, ATTR_keepdim, keepdim);
    return build(b, op, 1, &x, attrs);
}

Node *build_matmul(Builder *b, Node *x, Node *y, bool trans_a, bool trans_b, DType result)
{
    Attrs attrs = {0};
    attrs_set_bool(b->graph->arena, &attrs, ATTR_trans_a, trans_a);
    attrs_set_bool(b->graph->arena, &attrs, ATTR_trans_b, trans_b);
    return build_typed(b, OP_matmul, 2, (Node *[]){x, y}, attrs, result, NULL);
}

Node *build_linear(Builder *b, Node *x, Node *weight, Node *bias, DType result)
{
    return build_typed(b, OP_linear, bias != NULL ? 3 : 2, (Node *[]){x, weight, bias}, (Attrs){0},
                       result, NULL);
}

Node *build_conv(Builder *b, Op op, int nin, Node *const *in, Attrs attrs, DType result)
{
    return build_typed(b, op, nin, in, attrs, result, NULL);
}

Node *build_sum_to(Builder *b, Node *x, const Dims *dims)
{
    if (x == NULL || dims_equal(&x->dims, dims)) {
        return x;
    }
    int64_t axes[MAX_RANK];
    int n = 0, added = x->dims.rank - dims->rank;
    for (int i = 0; i < x->dims.rank; i++) {
        if (i < added || !dim_equal(x->dims.d[i], dims->d[i - added])) {
            axes[n++] = i;
        }
    }
    return build_reshape(b, build_reduce(b, OP_sum, x, n, axes, false), dims);
}

void graph_result(Graph *g, ResultKind kind, const char *name, Node *value)
{
    for (int i = 0; i < g->nresults; i++) {
        if (g->results[i].kind == kind && str_eq(g->results[i].name, name)) {
            g->results[i].value = value;
            return;
        }
    }
    g->results = vec_room(g->arena, g->results, g->nresults, &g->rcap, sizeof g->results[0]);
    g->results[g->nresults++] = (Result){kind, arena_strdup(g->arena, name), value};
}

void graph_add_print(Graph *g, Print print)
{
    g->prints = vec_room(g->arena, g->prints, g->nprints, &g->prcap, sizeof g->prints[0]);
    g->prints[g->nprints++] = print;
}

/* ---- changing -------------------------------------------------------------------------------- */

void graph_replace(Graph *g, Node *from, Node *to)
{
    for (int i = 0; i < g->nnodes; i++) {
        Node *n = g->nodes[i];
        if (n == to) {
            continue; /* so that a node can be put behind its only operand */
        }
        for (int k = 0; k < n->nin; k++) {
            if (n->in[k] == from) {
                n->in[k] = to;
            }
        }
    }
    for (int i = 0; i < g->nresults; i++) {
        if (g->results[i].value == from) {
            g->results[i].value = to;
        }
    }
}

void graph_renumber(Graph *g)
{
    for (int i = 0; i < g->nnodes; i++) {
        g->nodes[i]->id = i;
    }
}

void graph_insert(Graph *g, int at, int n)
{
    int old = g->nnodes - n;
    if (at < 0 || n < 0 || at > old) {
        ICE("cannot move %d of %d nodes to %d", n, g->nnodes, at);
    }
    Node **last = arena_copy(g->arena, g->nodes + old, (size_t)n * sizeof *last);
    memmove(g->nodes + at + n, g->nodes + at, (size_t)(old - at) * sizeof *last);
    memcpy(g->nodes + at, last, (size_t)n * sizeof *last);
    graph_renumber(g);
    bool others = false;
    g->late_args = false;
    for (int i = 0; i < g->nnodes; i++) {
        bool is_arg = g->nodes[i]->op == OP_arg;
        g->late_args = g->late_args || (is_arg && others);
        others = others || !is_arg;
    }
}

Node *graph_first_arg(Builder *b, DType dt, const Dims *dims, Attrs attrs)
{
    Graph *g = b->graph;
    bool late = g->late_args;
    Node *n = build_arg(b, dt, dims, attrs);
    int at = 0;
    while (g->nodes[at]->op == OP_arg && at < g->nnodes - 1) {
        at++;
    }
    memmove(g->nodes + at + 1, g->nodes + at, (size_t)(g->nnodes - 1 - at) * sizeof *g->nodes);
    g->nodes[at] = n;
    g->late_args = late;
    return n;
}

static bool graph_has(const Graph *g, const Node *n)
{
    return n->id >= 0 && n->id < g->nnodes && g->nodes[n->id] == n;
}

void graph_sort(Graph *g)
{
    enum { NEW, OPEN, DONE };
    graph_renumber(g);
    Arena *scratch = arena_new();
    unsigned char *state = ARENA_ARRAY(scratch, unsigned char, g->nnodes);
    Node **stack = ARENA_ARRAY(scratch, Node *, g->nnodes);
    int *next = ARENA_ARRAY(scratch, int, g->nnodes); /* operand that is looked at next */
    Node **sorted = ARENA_ARRAY(g->arena, Node *, g->nnodes);
    int n = 0;
    for (int i = 0; i < g->nnodes; i++) {
        int depth = 0;
        if (state[i] == NEW) {
            state[i] = OPEN;
            stack[depth++] = g->nodes[i];
        }
        while (depth > 0) {
            Node *top = stack[depth - 1];
            if (next[top->id] == top->nin) {
                state[top->id] = DONE;
                sorted[n++] = top;
                depth--;
                continue;
            }
            Node *operand = top->in[next[top->id]++];
            if (!graph_has(g, operand) || state[operand->id] == DONE) {
                continue;
            }
            if (state[operand->id] == OPEN) {
                ICE("graph %s: %%%d depends on itself", g->name, operand->id);
            }
            state[operand->id] = OPEN;
            stack[depth++] = operand;
        }
    }
    g->nodes = sorted;
    g->cap = g->nnodes;
    graph_renumber(g);
    arena_free(scratch);
}

void graph_dce(Graph *g)
{
    graph_sort(g);
    Arena *scratch = arena_new();
    bool *live = ARENA_ARRAY(scratch, bool, g->nnodes);
    for (int i = 0; i < g->nresults; i++) {
        if (graph_has(g, g->results[i].value)) {
            live[g->results[i].value->id] = true;
        }
    }
    for (int i = g->nnodes - 1; i >= 0; i--) {
        Node *n = g->nodes[i];
        live[i] = live[i] || n->op == OP_arg || op_info[n->op].kind == KIND_Mark;
        for (int k = 0; live[i] && k < n->nin; k++) {
            if (graph_has(g, n->in[k])) {
                live[n->in[k]->id] = true;
            }
        }
    }
    int kept = 0;
    for (int i = 0; i < g->nnodes; i++) {
        if (live[i]) {
            g->nodes[kept++] = g->nodes[i];
        }
    }
    g->nnodes = kept;
    graph_renumber(g);
    arena_free(scratch);
}

int *graph_use_counts(Graph *g, Arena *scratch)
{
    graph_renumber(g);
    int *uses = ARENA_ARRAY(scratch, int, g->nnodes);
    for (int i = 0; i < g->nnodes; i++) {
        Node *n = g->nodes[i];
        for (int k = 0; k < n->nin; k++) {
            if (graph_has(g, n->in[k])) {
                uses[n->in[k]->id]++;
            }
        }
    }
    for (int i = 0; i < g->nresults; i++) {
        if (graph_has(g, g->results[i].value)) {
            uses[g->results[i].value->id]++;
        }
    }
    return uses;
}

Node *graph_find_arg(Graph *g, AttrId role, const char *name)
{
    for (int i = 0; i < g->nnodes; i++) {
        Node *n = g->nodes[i];
        if (n->op != OP_arg && !g->late_args) {
            break;
        }
        const Attr *a = n->op == OP_arg ? attrs_find(&n->attrs, role) : NULL;
        if (a != NULL && (name == NULL || (attr_info[role].type == AT_Str && str_eq(a->s, name)))) {
            return n;
        }
    }
    return NULL;
}
