/* reduce_parts.c: what there is to know of a reducing kernel before it is spelled, in any language: which stage of a row
 * does what, and along which axis columns are summed. */
#include "codegen/reduce.h"

static const Scalar *scalar(const Body *b, int s)
{
    return &b->k->scalars[s];
}

/* ---- rows ------------------------------------------------------------------------------------------- */

RowParts row_parts(const Body *b, const bool *wanted)
{
    RowParts r = {.b = b, .wanted = wanted, .last = b->k->space.rank - 1};
    for (int s = 0; s < b->k->nscalars; s++) {
        r.stages = wanted[s] && b->stage[s] > r.stages ? b->stage[s] : r.stages;
    }
    for (int i = 0; i < b->k->noperands; i++) {
        r.late_stores |= b->u->shared[i] != i || b->u->overlaps[i];
    }
    return r;
}

bool row_element_output(const RowParts *r, int i)
{
    const KOutput *out = &r->b->k->outputs[i];
    return access_varies(&out->at, r->last) || r->b->depth[out->scalar] == 2;
}

static int output_stage(const RowParts *r, int i)
{
    return r->late_stores ? r->stages : r->b->stage[r->b->k->outputs[i].scalar];
}

bool row_stores_at(const RowParts *r, int i, int stage)
{
    return row_element_output(r, i) && output_stage(r, i) == stage;
}

bool row_reduces_at(const RowParts *r, int s, int stage)
{
    const Scalar *v = scalar(r->b, s);
    return r->wanted[s] && v->kind == SC_reduce && r->b->stage[v->in[0]] == stage;
}

bool row_needed_later(const RowParts *r, int s, int stage)
{
    const Body *b = r->b;
    for (int c = s + 1; c < b->k->nscalars; c++) {
        const Scalar *v = scalar(b, c);
        for (int i = 0; r->wanted[c] && i < v->nin; i++) {
            if (v->in[i] == s && b->stage[c] > stage + (v->kind == SC_reduce)) {
                return true;
            }
        }
    }
    for (int i = 0; i < b->k->noutputs; i++) {
        if (b->k->outputs[i].scalar == s && output_stage(r, i) > stage) {
            return true;
        }
    }
    return false;
}

bool row_need_results(Body *b, const RowParts *r)
{
    bool any = false;
    b->stage_now = r->stages;
    for (int i = 0; i < b->k->noutputs; i++) {
        if (!row_element_output(r, i)) {
            body_root(b, b->k->outputs[i].scalar, true);
            any = true;
        }
    }
    return any;
}

void row_store_results(Body *b, const RowParts *r)
{
    body_emit(b, 1);
    for (int i = 0; i < b->k->noutputs; i++) {
        if (!row_element_output(r, i)) {
            body_store(b, &b->k->outputs[i]);
        }
    }
}

/* ---- columns ---------------------------------------------------------------------------------------- */

/* What the sums are of, not what is done with them. */
static bool *summed(const Body *b, const bool *wanted)
{
    bool *is = ARENA_ARRAY(b->e->arena, bool, b->k->nscalars + 1);
    for (int s = b->k->nscalars - 1; s >= 0; s--) {
        const Scalar *v = scalar(b, s);
        bool sum = v->kind == SC_reduce && wanted[s];
        for (int i = 0; (sum || is[s]) && i < v->nin; i++) {
            is[v->in[i]] = true;
        }
        if (is[s] && v->kind == SC_load && v->at.index >= 0) {
            is[v->at.index] = true;
        }
    }
    return is;
}

/* Does a load change where a sum goes on? What is the same for all of a column says nothing about the order: it may
 * stand in another kernel just as well, which would then add differently. */
static bool varies_within(const Body *b, const Scalar *load, int kept)
{
    for (int axis = kept; axis < b->k->space.rank; axis++) {
        if (access_varies(&load->at, axis)) {
            return true;
        }
    }
    return false;
}

bool reduce_along_columns(const Body *b, const bool *wanted, int kept)
{
    bool columns = false, reduced = false, *is = summed(b, wanted);
    for (int s = 0; s < b->k->nscalars; s++) {
        const Scalar *v = scalar(b, s);
        if (v->kind == SC_load && is[s] && varies_within(b, v, kept)) {
            columns |= dim_equal(v->at.stride[kept - 1], dim_of(1));
            reduced |= dim_equal(v->at.stride[b->k->space.rank - 1], dim_of(1));
        }
    }
    return columns || !reduced;
}

void reduce_store(Body *b, int kept)
{
    for (int i = kept; i < b->k->space.rank; i++) {
        b->axis[i] = NULL;
    }
    b->stage_now = 1;
    for (int i = 0; i < b->k->noutputs; i++) {
        body_root(b, b->k->outputs[i].scalar, true);
    }
    body_emit(b, 2);
    for (int i = 0; i < b->k->noutputs; i++) {
        body_store(b, &b->k->outputs[i]);
    }
}
