/* kernel_trim.c: what a kernel need not do: select when a flag says that nothing changes, or compute what no output
 * needs.
 *
 *   out = where(skip, out, new)   ->   if (skip) return; out = new   (tests/passes/fuse-update.ir) */
#include "passes/kernel_body.h"

#include <string.h>

/* skip of where(skip, what the output holds now, new), -1 if the output is nothing of the kind. A working copy holds
 * the cast of its master, so a cast of the master's where() will do. */
static int guard_of(const Body *y, const Kernel *k, const KOutput *o)
{
    const Scalar *s = &k->scalars[o->scalar];
    bool copy = s->kind == SC_cast && y->operands.at[o->at.operand]->role == BUFFER_working;
    s = copy ? &k->scalars[s->in[0]] : s;
    if (s->kind != SC_op || s->op != OP_where) {
        return -1;
    }
    const Scalar *skip = &k->scalars[s->in[0]], *old = &k->scalars[s->in[1]];
    bool scalar = skip->kind == SC_load && skip->at.offset.k == 0 && skip->at.index < 0;
    for (int d = 0; scalar && d < k->space.rank; d++) {
        scalar = skip->at.stride[d].k == 0;
    }
    Access there = o->at;
    there.operand = copy ? old->at.operand : there.operand;
    bool master = !copy || k->operands[old->at.operand].written;
    return scalar && master && old->kind == SC_load && access_equal(&old->at, &there) ? s->in[0]
                                                                                      : -1;
}

/* Every output keeps what is there when a flag is set: the kernel may return at once, and need not select. */
void kernel_find_guard(const Body *y, Kernel *k)
{
    int guard = -1;
    for (int i = 0; i < k->noutputs; i++) {
        int g = k->kind == KERNEL_Map ? guard_of(y, k, &k->outputs[i]) : -1;
        if (g < 0 || (guard >= 0 && guard != g)) {
            return;
        }
        guard = g;
    }
    k->guard = guard;
    Scalar *all = ARENA_ARRAY(y->b->plan->arena, Scalar, k->nscalars + k->noutputs);
    memcpy(all, k->scalars, (size_t)k->nscalars * sizeof *all);
    k->scalars = all;
    for (int i = 0; i < k->noutputs; i++) {
        Scalar *s = &all[k->outputs[i].scalar];
        if (s->kind != SC_cast) {
            k->outputs[i].scalar = s->in[2];
            continue;
        }
        Scalar cast = *s;
        cast.in[0] = all[s->in[0]].in[2];
        k->outputs[i].scalar = k->nscalars;
        all[k->nscalars++] = cast;
    }
}

/* Scalars that no output, guard or operand needs are dropped; order stays. */
void kernel_drop_dead(Kernel *k)
{
    Arena *scratch = arena_new();
    bool *live = ARENA_ARRAY(scratch, bool, k->nscalars);
    for (int i = 0; i < k->noutputs; i++) {
        live[k->outputs[i].scalar] = true;
    }
    int extra[3] = {k->guard, k->kind == KERNEL_Contract ? k->a : -1,
                    k->kind == KERNEL_Contract ? k->b : -1};
    for (int i = 0; i < 3; i++) {
        if (extra[i] >= 0) {
            live[extra[i]] = true;
        }
    }
    int *to = ARENA_ARRAY(scratch, int, k->nscalars), n = 0;
    for (int i = k->nscalars - 1; i >= 0; i--) {
        Scalar *s = &k->scalars[i];
        for (int j = 0; live[i] && j < s->nin; j++) {
            live[s->in[j]] = true;
        }
        if (live[i] && s->at.index >= 0) {
            live[s->at.index] = true;
        }
    }
    for (int i = 0; i < k->nscalars; i++) {
        if (!live[i]) {
            continue;
        }
        Scalar s = k->scalars[i];
        for (int j = 0; j < s.nin; j++) {
            s.in[j] = to[s.in[j]];
        }
        s.at.index = s.at.index >= 0 ? to[s.at.index] : -1;
        to[i] = n;
        k->scalars[n++] = s;
    }
    k->nscalars = n;
    for (int i = 0; i < k->noutputs; i++) {
        k->outputs[i].scalar = to[k->outputs[i].scalar];
    }
    k->guard = k->guard >= 0 ? to[k->guard] : -1;
    if (k->kind == KERNEL_Contract) {
        k->a = to[k->a];
        k->b = to[k->b];
    }
    arena_free(scratch);
}
