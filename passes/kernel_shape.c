/* kernel_shape.c: a kernel's iteration space with as few axes as its accesses allow; its cost; equality.
 *
 *   relu over [B, 28, 28], all contiguous   ->   [B*784]
 *   add a row over [B, 512]                 ->   stays [B, 512]
 *
 * Two neighbouring axes become one where every access steps through the outer one in strides of the whole inner
 * one. Kept and reduced axes never merge with each other; M, N and K of a contraction stay. */
#include "passes/kernel_build.h"

#include <string.h>

#include "ir/base/strutil.h"

/* Axes from..to-1 that may merge among themselves. */
typedef struct Group {
    int from, to;
} Group;

static void drop_axis(Kernel *k, int axis)
{
    for (int i = axis; i + 1 < k->space.rank; i++) {
        k->space.d[i] = k->space.d[i + 1];
    }
    k->space.d[k->space.rank - 1] = (Dim){0};
    for (int s = 0; s < k->nscalars + k->noutputs; s++) {
        Access *a = s < k->nscalars ? &k->scalars[s].at : &k->outputs[s - k->nscalars].at;
        for (int i = axis; i + 1 < MAX_RANK; i++) {
            a->stride[i] = a->stride[i + 1];
        }
        a->stride[MAX_RANK - 1] = (Dim){0};
    }
    k->space.rank--;
}

static bool has_access(const Kernel *k, int s)
{
    if (s >= k->nscalars) {
        return true;
    }
    ScalarKind kind = k->scalars[s].kind;
    return kind == SC_load || kind == SC_index || kind == SC_uniform;
}

static bool mergeable(const Kernel *k, int outer)
{
    for (int s = 0; s < k->nscalars + k->noutputs; s++) {
        const Access *a = s < k->nscalars ? &k->scalars[s].at : &k->outputs[s - k->nscalars].at;
        Dim whole;
        if (has_access(k, s) && (!dim_mul(a->stride[outer + 1], k->space.d[outer + 1], &whole) ||
                                 !dim_equal(whole, a->stride[outer]))) {
            return false;
        }
    }
    Dim product;
    return dim_mul(k->space.d[outer], k->space.d[outer + 1], &product);
}

/* Returns how many axes went. */
static int merge_group(Kernel *k, Group g)
{
    int gone = 0;
    for (int i = g.to - 1; i >= g.from && g.to - gone - g.from > 1; i--) {
        if (dim_is_one(k->space.d[i])) {
            drop_axis(k, i);
            gone++;
        }
    }
    for (int i = g.to - gone - 2; i >= g.from; i--) {
        if (mergeable(k, i)) {
            if (!dim_mul(k->space.d[i], k->space.d[i + 1], &k->space.d[i + 1])) {
                ICE("a merged axis of too many symbols");
            }
            drop_axis(k, i);
            gone++;
        }
    }
    return gone;
}

static bool any_size(const Kernel *k)
{
    if (k->kind != KERNEL_Map || k->space.rank != 1 || !dim_is_const(k->space.d[0])) {
        return false;
    }
    for (int s = 0; s < k->nscalars + k->noutputs; s++) {
        const Access *a = s < k->nscalars ? &k->scalars[s].at : &k->outputs[s - k->nscalars].at;
        bool plain = a->offset.k == 0 && a->index < 0 && dim_is_const(a->stride[0]) &&
                     (a->stride[0].k == 0 || a->stride[0].k == 1);
        if (has_access(k, s) && !plain) {
            return false;
        }
    }
    return true;
}

void kernel_coalesce(Kernel *k)
{
    int kept = k->space.rank - k->nreduce;
    if (k->kind == KERNEL_Contract) {
        k->nbatch -= merge_group(k, (Group){0, k->nbatch});
        if (k->nbatch == 1 && dim_is_one(k->space.d[0])) {
            drop_axis(k, 0);
            k->nbatch = 0;
        }
        merge_group(k, (Group){k->nbatch + 1, k->space.rank - 1});
        if (k->space.rank != k->nbatch + 3) {
            ICE("a contraction whose columns do not lie in one line");
        }
    } else if (k->kind != KERNEL_Scatter) {
        k->nreduce -= merge_group(k, (Group){kept, k->space.rank});
        merge_group(k, (Group){0, kept});
    }
    if (k->kind == KERNEL_Row && k->nreduce > 1) {
        k->kind = KERNEL_Col; /* its elements do not lie in one line */
    }
    k->any_size = any_size(k);
}

void kernel_cost(const Graph *g, Kernel *k)
{
    double points = 1, kept = 1;
    for (int i = 0; i < k->space.rank; i++) {
        points *= (double)dim_bound(g, k->space.d[i]);
        kept *= i < k->space.rank - k->nreduce ? (double)dim_bound(g, k->space.d[i]) : 1;
    }
    for (int s = 0; s < k->nscalars + k->noutputs; s++) {
        const Access *a = s < k->nscalars ? &k->scalars[s].at : &k->outputs[s - k->nscalars].at;
        if (s < k->nscalars && k->scalars[s].kind != SC_load) {
            bool works = k->scalars[s].kind == SC_op || k->scalars[s].kind == SC_reduce;
            bool once = k->scalars[s].per_row && k->scalars[s].kind != SC_reduce;
            k->flops += !works ? 0 : once ? kept : points;
            continue;
        }
        double elements = 1;
        for (int i = 0; i < k->space.rank; i++) {
            elements *= a->stride[i].k != 0 ? (double)dim_bound(g, k->space.d[i]) : 1;
        }
        elements = a->window != NULL ? (double)a->window->elements : elements;
        k->bytes += elements * dtype_info[k->operands[a->operand].dtype].bytes;
    }
    if (k->kind == KERNEL_Contract) {
        k->flops += 2 * points;
    } else if (k->kind == KERNEL_Scatter) {
        k->bytes = points * dtype_info[k->operands[2].dtype].bytes;
    }
}

bool access_equal(const Access *a, const Access *b)
{
    bool same = a->operand == b->operand && dim_equal(a->offset, b->offset) &&
                a->index == b->index && dim_equal(a->index_stride, b->index_stride) &&
                windows_equal(a->window, b->window);
    for (int i = 0; same && i < MAX_RANK; i++) {
        same = dim_equal(a->stride[i], b->stride[i]);
    }
    return same;
}

bool scalar_equal(const Scalar *a, const Scalar *b)
{
    bool same = a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->nin == b->nin &&
                memcmp(&a->value, &b->value, sizeof a->value) == 0 && dim_equal(a->dim, b->dim) &&
                str_eq(a->path, b->path) && a->per_row == b->per_row &&
                access_equal(&a->at, &b->at);
    for (int i = 0; same && i < a->nin; i++) {
        same = a->in[i] == b->in[i];
    }
    return same;
}

bool kernel_equal(const Kernel *a, const Kernel *b)
{
    if (a->kind != b->kind || a->any_size != b->any_size || a->nreduce != b->nreduce ||
        a->noperands != b->noperands || a->nscalars != b->nscalars || a->noutputs != b->noutputs ||
        a->guard != b->guard || a->a != b->a || a->b != b->b || a->nbatch != b->nbatch ||
        a->packed_a != b->packed_a || a->packed_b != b->packed_b || a->ntiles != b->ntiles ||
        (!a->any_size && !dims_equal(&a->space, &b->space))) {
        return false;
    }
    for (int i = 0; i < a->noperands; i++) {
        if (a->operands[i].dtype != b->operands[i].dtype ||
            a->operands[i].written != b->operands[i].written) {
            return false;
        }
    }
    for (int i = 0; i < a->nscalars; i++) {
        if (!scalar_equal(&a->scalars[i], &b->scalars[i])) {
            return false;
        }
    }
    for (int i = 0; i < a->noutputs; i++) {
        if (a->outputs[i].scalar != b->outputs[i].scalar ||
            !access_equal(&a->outputs[i].at, &b->outputs[i].at)) {
            return false;
        }
    }
    return true;
}
