/* low_rows.c: rows of 16-bit elements, widened before the loop that computes with them and rounded behind it.
 *
 * C compilers do not see the instructions that convert a vector of f16, and where a row is short or its elements lie
 * apart they convert one after the other. runtime/kernels/rows16.h converts what lies between the first and the last
 * element that a row needs, at once, to a buffer of f32; what is computed in between is the same. */
#include "codegen/low_rows.h"

#include "codegen/target.h"

enum {
    ROW_LEAST = 4,    /* elements; a shorter row is not worth a buffer */
    BUFFER_MAX = 4096 /* elements on the stack */
};

static bool is_16_bit(DType dt)
{
    return dt == DT_f16 || dt == DT_bf16;
}

/* Along the row a fixed distance from each other, and from the other elements of the row a fixed one. */
static bool is_regular(const LowRows *r, const Access *at)
{
    Dim step = at->stride[r->loop.axis];
    return at->index < 0 && at->window == NULL && dim_is_const(at->offset) && dim_is_const(step) &&
           (r->loop.count == NULL ? step.k > 0 : step.k == 1);
}

/* Of the same operand, each row as far from the next one. */
static bool beside(const Access *a, const Access *b)
{
    bool same = a->operand == b->operand;
    for (int i = 0; same && i < MAX_RANK; i++) {
        same = dim_equal(a->stride[i], b->stride[i]);
    }
    return same;
}

/* Some of the accesses of a kernel: what its needed loads read, or what its outputs write. */
typedef struct Accesses {
    const Access **at;
    int n;
} Accesses;

static Accesses loads_of(const LowRows *r)
{
    Accesses all = {ARENA_ARRAY(r->b->e->arena, const Access *, r->b->k->nscalars + 1), 0};
    for (int s = 0; s < r->b->k->nscalars; s++) {
        const Scalar *v = &r->b->k->scalars[s];
        bool used = v->kind == SC_load && is_16_bit(v->dtype) && r->b->wide_uses[s] > 0;
        if (used && r->b->value[s].wide == NULL && is_regular(r, &v->at)) {
            all.at[all.n++] = &v->at;
        }
    }
    return all;
}

static Accesses outputs_of(const LowRows *r)
{
    Accesses all = {ARENA_ARRAY(r->b->e->arena, const Access *, r->b->k->noutputs + 1), 0};
    for (int i = 0; i < r->b->k->noutputs; i++) {
        const Access *at = &r->b->k->outputs[i].at;
        if (is_16_bit(r->b->k->operands[at->operand].dtype) && is_regular(r, at)) {
            all.at[all.n++] = at;
        }
    }
    return all;
}

static const LowRow *buffer_of(const LowRows *r, const Access *at, bool is_output)
{
    for (int i = 0; i < r->count; i++) {
        if (r->row[i].is_output == is_output && beside(&r->row[i].first, at)) {
            return &r->row[i];
        }
    }
    return NULL;
}

/* A buffer for `at` and all that lie beside it; nothing where most of it would not be used, or, of an output, where
 * something of it would not be written. */
static void add_buffer(LowRows *r, const Accesses *all, const Access *at, bool is_output)
{
    int64_t n = r->loop.count == NULL ? r->b->k->space.d[r->loop.axis].k : 1;
    int64_t step = at->stride[r->loop.axis].k, lo = at->offset.k, hi = lo;
    bool seen[BUFFER_MAX] = {false};
    for (int i = 0; i < all->n; i++) {
        int64_t offset = all->at[i]->offset.k;
        lo = beside(at, all->at[i]) && offset < lo ? offset : lo;
        hi = beside(at, all->at[i]) && offset > hi ? offset : hi;
    }
    int64_t length = hi - lo + (n - 1) * step + 1, used = 0;
    bool one = r->loop.count == NULL || lo == hi; /* where the length is not known */
    if (length > BUFFER_MAX || r->count == LOW_ROWS_MAX || !one) {
        return;
    }
    for (int i = 0; i < all->n; i++) {
        for (int64_t j = 0; beside(at, all->at[i]) && j < n; j++) {
            bool *is = &seen[all->at[i]->offset.k - lo + j * step];
            used += !*is;
            *is = true;
        }
    }
    if (is_output ? used < length : used * 2 < length) {
        return;
    }
    LowRow *row = &r->row[r->count++];
    *row = (LowRow){.first = *at, .length = length, .is_output = is_output};
    row->first.offset = dim_of(lo);
    row->dtype = r->b->k->operands[at->operand].dtype;
    row->name = names_take(
        &r->b->names, arena_printf(r->b->e->arena, "%s_row", unit_pointer(r->b->u, at->operand)));
}

static void add_buffers(LowRows *r, const Accesses *all, bool is_output)
{
    for (int i = 0; i < all->n; i++) {
        if (buffer_of(r, all->at[i], is_output) == NULL) {
            add_buffer(r, all, all->at[i], is_output);
        }
    }
}

/* "relu_row[j * 2 + 29]" */
static const char *element(const LowRows *r, const LowRow *row, const Access *at)
{
    Arena *a = r->b->e->arena;
    const char *index = r->loop.index;
    int64_t from = at->offset.k - row->first.offset.k, step = at->stride[r->loop.axis].k;
    if (step > 1) {
        index = arena_printf(a, "%s * %lld", index, (long long)step);
    }
    return from == 0 ? arena_printf(a, "%s[%s]", row->name, index)
                     : arena_printf(a, "%s[%s + %lld]", row->name, index, (long long)from);
}

/* Where in memory the elements of a buffer are. */
static const char *memory(const LowRows *r, const LowRow *row)
{
    const char **axis = &r->b->axis[r->loop.axis], *whole = *axis;
    *axis = r->loop.start;
    const char *offset = body_index(r->b, &row->first);
    const char *from = unit_pointer(r->b->u, row->first.operand);
    *axis = whole;
    bool none = offset[0] == '0' && offset[1] == 0;
    return none ? from : arena_printf(r->b->e->arena, "%s + %s", from, offset);
}

static const char *length(const LowRows *r, const LowRow *row)
{
    return r->loop.count != NULL ? r->loop.count
                                 : arena_printf(r->b->e->arena, "%lld", (long long)row->length);
}

LowRows low_rows_none(Body *b)
{
    return (LowRows){.b = b, .loop = {.axis = -1}};
}

LowRows low_rows_new(Body *b, RowLoop loop)
{
    LowRows r = {.b = b, .loop = loop};
    Dim n = b->k->space.d[loop.axis];
    if (loop.count == NULL && (!dim_is_const(n) || n.k < ROW_LEAST)) {
        return low_rows_none(b);
    }
    Accesses all = outputs_of(&r);
    add_buffers(&r, &all, true);
    return r;
}

static bool has_output(const LowRows *r, int output)
{
    const Access *at = &r->b->k->outputs[output].at;
    return r->loop.axis >= 0 && is_regular(r, at) && buffer_of(r, at, true) != NULL;
}

void low_rows_roots(const LowRows *r)
{
    for (int i = 0; i < r->b->k->noutputs; i++) {
        body_root(r->b, r->b->k->outputs[i].scalar, !has_output(r, i));
    }
    body_round_late(r->b);
}

void low_rows_widen(LowRows *r)
{
    Body *b = r->b;
    Emit *e = b->e;
    if (r->loop.axis < 0) {
        return;
    }
    Accesses all = loads_of(r);
    add_buffers(r, &all, false);
    for (int i = 0; i < r->count; i++) {
        const LowRow *row = &r->row[i];
        if (r->loop.most != NULL) {
            ln(e, "float %s[%s];", row->name, r->loop.most);
        } else {
            ln(e, "float %s[MPC_WHOLE(%lld)];", row->name, (long long)row->length);
        }
    }
    for (int i = 0; i < r->count; i++) {
        const LowRow *row = &r->row[i];
        if (!row->is_output) {
            ln(e, "mpc_widen_%s(%s, %s, %s);", dtype_info[row->dtype].name, row->name,
               memory(r, row), length(r, row));
        }
    }
    for (int s = 0; s < b->k->nscalars; s++) {
        const Access *at = &b->k->scalars[s].at;
        const LowRow *row = NULL;
        for (int i = 0; i < all.n; i++) {
            row = all.at[i] == at ? buffer_of(r, at, false) : row;
        }
        if (row != NULL) {
            body_set(b, s, element(r, row, at));
        }
    }
}

void low_rows_store(const LowRows *r, int output)
{
    const KOutput *out = &r->b->k->outputs[output];
    if (has_output(r, output)) {
        ln(r->b->e, "%s = %s;", element(r, buffer_of(r, &out->at, true), &out->at),
           body_bare(r->b, out->scalar));
    } else {
        body_store(r->b, out);
    }
}

void low_rows_narrow(const LowRows *r)
{
    for (int i = 0; i < r->count; i++) {
        const LowRow *row = &r->row[i];
        if (row->is_output) {
            ln(r->b->e, "mpc_narrow_%s(%s, %s, %s);", dtype_info[row->dtype].name, memory(r, row),
               row->name, length(r, row));
        }
    }
}
