/* gradients.c: sets of gradients, as PyTorch's .grad of all parameters: what a further backward adds to them, and
 * what zero_grad takes out. scaling.c does all else with them. */
#include "passes/gradients.h"

#include "ir/base/strutil.h"

bool grad_is_true(const Grad *g)
{
    return !g->mixed && (g->scaler == NULL || g->bad != NULL);
}

GradSet *grads_join(PassCtx *c, Builder *b, const GradSet *x, const GradSet *y)
{
    GradSet *set = ARENA_NEW(c->scratch, GradSet);
    set->v = ARENA_ARRAY(c->scratch, Grad, x->n + y->n + 1);
    for (int i = 0; i < x->n; i++) {
        set->v[set->n++] = x->v[i];
    }
    for (int i = 0; i < y->n; i++) {
        Grad *g = NULL;
        for (int k = 0; k < x->n && g == NULL; k++) {
            g = str_eq(set->v[k].param, y->v[i].param) ? &set->v[k] : NULL;
        }
        if (g == NULL) {
            set->v[set->n++] = y->v[i];
            continue;
        }
        b->why = WHY_UPDATE "gradients of several losses add up";
        b->name = arena_printf(c->arena, "%s.grad", g->param);
        g->mixed = g->mixed || g->changed || g->scaler != y->v[i].scaler;
        g->value = g->mixed ? y->v[i].value : build2(b, OP_add, g->value, y->v[i].value);
        g->squares = NULL;
        b->name = NULL;
    }
    return set;
}

GradSet *grads_without(PassCtx *c, const GradSet *x, const Decl *optimizer)
{
    GradSet *set = ARENA_NEW(c->scratch, GradSet);
    set->v = ARENA_ARRAY(c->scratch, Grad, x->n + 1);
    for (int i = 0; i < x->n; i++) {
        if (!optimizer_moves(optimizer, x->v[i].param)) {
            set->v[set->n++] = x->v[i];
        }
    }
    return set;
}
