/* recompute.c: see recompute.h. Which nodes form a region is the file's or the pass checkpoint's decision. */
#include "passes/recompute.h"

static Node *copy_of(Recompute *r, Node *n);

/* Parameters in any type, and constants, do not wait. What else is in memory anyway does, or copies that read nothing
 * but that would be the same nodes as the first ones, and kept. */
static bool stays(Node *x)
{
    while (op_info[x->op].kind == KIND_Move || x->op == OP_cast) {
        x = x->in[0];
    }
    return x->op == OP_const || pass_param(x) != NULL;
}

/* What a copy reads: a copy, or a value from outside that waits. */
Node *recompute_operand(Recompute *r, Node *x)
{
    if (x->region == r->region) {
        return copy_of(r, x);
    }
    if (stays(x)) {
        return x;
    }
    Node *input = node_map_get(&r->inputs, x);
    if (input == NULL) {
        Builder b = {.graph = r->g, .loc = x->loc, .name = x->name};
        b.why = r->region > 0 ? WHY_AGAIN "what goes into it" : WHY_SHORT "what goes into it";
        input = build2(&b, OP_recompute, x, r->after);
        node_map_put(r->scratch, &r->inputs, x, input);
    }
    return input;
}

static Node *copy_of(Recompute *r, Node *n)
{
    Node *copy = node_map_get(&r->copies, n);
    if (copy != NULL) {
        return copy;
    }
    Arena *arena = r->g->arena;
    Node **in = ARENA_ARRAY(arena, Node *, n->nin);
    for (int i = 0; i < n->nin; i++) {
        in[i] = recompute_operand(r, n->in[i]);
    }
    Builder b = {.graph = r->g, .loc = n->loc, .name = n->name};
    b.why = arena_printf(arena, "%s%s, computed again", n->region > 0 ? WHY_AGAIN : WHY_SHORT,
                         op_info[n->op].name);
    copy = build_again(&b, n, in);
    node_map_put(r->scratch, &r->copies, n, copy);
    return copy;
}

Node *recompute_node(Recompute *r, Node *n, Node *dy)
{
    if (n->region == 0) {
        return n;
    }
    if (n->region != r->region) {
        r->region = n->region;
        r->after = dy;
        r->inputs = (NodeMap){0};
    }
    return copy_of(r, n);
}
