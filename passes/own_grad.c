/* own_grad.c: the code of a module's own grad goes to where its gradient is wanted.
 *
 * Lowering writes it beside the forward, over output_grad, where it is of no use: nothing but own_grad takes it. Each
 * backward that comes by gets a copy, with the gradient that came in for output_grad. Only what grad alone needs is
 * copied, so what it computes of inputs is computed in backward, and lives no longer there than it must. What nobody
 * wants, all of it in an evaluation, falls away with own_grad.
 *
 *   %4 = output_grad %3            ->   (in backward)
 *   %5 = mul %4, %m                     %12 = mul %dy, %m
 *   %6 = own_grad %3, %4, %1, %5        the gradient of %1 += %12
 *                                       (tests/passes/autodiff-own-grad.ir; ir/shape_own_grad.c) */
#include "passes/own_grad.h"

bool *own_grad_forward(Arena *scratch, const Graph *g, Node *const *nodes, int n)
{
    bool *forward = ARENA_ARRAY(scratch, bool, n);
    for (int i = 0; i < g->nresults; i++) {
        forward[g->results[i].value->id] = true;
    }
    for (int i = n - 1; i >= 0; i--) {
        const Node *at = nodes[i];
        bool stays = at->op == OP_arg || op_info[at->op].kind == KIND_Mark;
        forward[i] = forward[i] || stays;
        for (int k = 0; k < at->nin && forward[i]; k++) {
            bool of_grad = at->op == OP_own_grad && k % 2 != 0;
            forward[at->in[k]->id] = forward[at->in[k]->id] || !of_grad;
        }
    }
    return forward;
}

/* What the copy of the grad code reads for x: its copy, or what the forward has, or computes again. */
static Node *operand_of(OwnGrad *o, const Node *own, Node *x, Node *const *copies)
{
    int at = x->id - own->in[1]->id;
    if (at >= 0 && copies[at] != NULL) {
        return copies[at];
    }
    return own->region != 0 && o->forward[x->id] ? recompute_operand(o->again, x) : x;
}

static Node *copy_node(OwnGrad *o, const Node *own, const Node *n, Node *const *copies)
{
    Arena *arena = o->c->arena;
    Builder b = {.graph = o->g, .diag = o->c->diag, .loc = n->loc, .name = n->name};
    b.why = arena_printf(arena, WHY_BACKWARD "%s" WHY_OWN_GRAD "%s%s",
                         attrs_str(&own->attrs, ATTR_module), n->why != NULL ? ": " : "",
                         n->why != NULL ? n->why : "");
    Node **in = ARENA_ARRAY(arena, Node *, n->nin);
    int nin = n->op == OP_own_grad ? 1 : n->nin;
    for (int i = 0; i < nin; i++) {
        in[i] = operand_of(o, own, n->in[i], copies);
    }
    return n->op == OP_own_grad ? in[0] : build_again(&b, n, in);
}

/* Of the n nodes from output_grad on those that grad alone needs, for inputs that are wanted. */
static bool *needed_nodes(const OwnGrad *o, const Node *own, int first, int n)
{
    bool *needed = ARENA_ARRAY(o->c->scratch, bool, n);
    for (int i = 2; i < own->nin; i += 2) {
        int at = own->in[i + 1]->id - first;
        if (o->wanted[own->in[i]->id] && at >= 0) {
            needed[at] = true;
        }
    }
    for (int i = n - 1; i > 0; i--) {
        const Node *at = o->nodes[first + i];
        needed[i] = needed[i] && !o->forward[at->id];
        for (int k = 0; k < at->nin && needed[i]; k++) {
            int in = at->in[k]->id - first;
            if (in >= 0 && (at->op != OP_own_grad || k == 0)) {
                needed[in] = true;
            }
        }
    }
    return needed;
}

Node **own_grad_expand(OwnGrad *o, Node *own, Node *dy)
{
    int first = own->in[1]->id, n = own->id - first; /* grad stands behind its output_grad */
    const bool *needed = needed_nodes(o, own, first, n);
    Node **copies = ARENA_ARRAY(o->c->scratch, Node *, n);
    Node **gradients = ARENA_ARRAY(o->c->scratch, Node *, own->nin);
    copies[0] = dy;
    for (int i = 1; i < n; i++) {
        if (needed[i]) {
            copies[i] = copy_node(o, own, o->nodes[first + i], copies);
        }
    }
    for (int i = 2; i < own->nin; i += 2) {
        bool wanted = o->wanted[own->in[i]->id];
        gradients[i] = wanted ? operand_of(o, own, own->in[i + 1], copies) : NULL;
    }
    return gradients;
}

void own_grad_remove(PassCtx *c, Graph *g)
{
    Rebuild r = rebuild_begin(g, c->scratch);
    for (int i = 0; i < r.n; i++) {
        rebuild_operands(&r, r.old[i]);
        if (r.old[i]->op == OP_own_grad) {
            rebuild_replace(&r, r.old[i], r.old[i]->in[0]);
        } else {
            rebuild_keep(&r, r.old[i]);
        }
    }
    rebuild_end(&r);
}
