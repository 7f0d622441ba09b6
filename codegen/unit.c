/* unit.c: from a planned kernel to how it is spelled: merged axes, shared pointers, names and tiles. What a
 * tile does is in map.c, reduce.c, contract.c and scatter.c; comments and structs are in unit_text.c. */
#include "codegen/unit.h"

#include <string.h>

#include "codegen/body.h"
#include "codegen/target.h"
#include "ir/base/strutil.h"

enum {
    TILE_WORK = 8192, /* elements of a tile, about */
    COLUMNS_MIN = 16, /* columns of a Col tile */
    COLUMNS_MAX = 512
};

/* ---- merging axes ---------------------------------------------------------------------------------- */

typedef struct Accesses {
    int n;
    Access **at;
} Accesses;

static Accesses all_accesses(Arena *a, Kernel *k)
{
    Accesses all = {.at = ARENA_ARRAY(a, Access *, k->nscalars + k->noutputs + 1)};
    for (int i = 0; i < k->nscalars; i++) {
        ScalarKind kind = k->scalars[i].kind;
        if (kind == SC_load || kind == SC_index || kind == SC_uniform) {
            all.at[all.n++] = &k->scalars[i].at;
        }
    }
    for (int i = 0; i < k->noutputs; i++) {
        all.at[all.n++] = &k->outputs[i].at;
    }
    return all;
}

/* Axis i and the one after it are one run in every operand. */
static bool merges(const Accesses *all, const Dims *space, int i)
{
    for (int n = 0; n < all->n; n++) {
        Dim run;
        if (!dim_mul(all->at[n]->stride[i + 1], space->d[i + 1], &run) ||
            !dim_equal(run, all->at[n]->stride[i])) {
            return false;
        }
    }
    return true;
}

static void drop_axis(const Accesses *all, Dims *space, int i)
{
    for (int n = 0; n < all->n; n++) {
        memmove(&all->at[n]->stride[i], &all->at[n]->stride[i + 1],
                sizeof(Dim) * (size_t)(MAX_RANK - 1 - i));
        all->at[n]->stride[MAX_RANK - 1] = dim_of(0);
    }
    memmove(&space->d[i], &space->d[i + 1], sizeof(Dim) * (size_t)(MAX_RANK - 1 - i));
    space->rank--;
}

/* Merges within axes [from, from + count); returns how many are left there. */
static int merge_group(const Accesses *all, Dims *space, int from, int count)
{
    for (int i = from; i < from + count && count > 1;) {
        if (dim_equal(space->d[i], dim_of(1))) {
            drop_axis(all, space, i);
            count--;
            continue;
        }
        Dim both;
        if (i + 1 < from + count && merges(all, space, i) &&
            dim_mul(space->d[i], space->d[i + 1], &both)) {
            drop_axis(all, space, i); /* the strides of the inner one stay */
            space->d[i] = both;
            count--;
            i = i > from ? i - 1 : i;
            continue;
        }
        i++;
    }
    return count;
}

static void merge_axes(Arena *a, Kernel *k)
{
    Accesses all = all_accesses(a, k);
    int rank = k->space.rank;
    switch (k->kind) {
    case KERNEL_Map:
    case KERNEL_Full: merge_group(&all, &k->space, 0, rank); break;
    case KERNEL_Row: merge_group(&all, &k->space, 0, rank - 1); break;
    case KERNEL_Col:
        k->nreduce = merge_group(&all, &k->space, rank - k->nreduce, k->nreduce);
        merge_group(&all, &k->space, 0, k->space.rank - k->nreduce);
        break;
    case KERNEL_Contract: k->nbatch = merge_group(&all, &k->space, 0, k->nbatch); break;
    case KERNEL_Scatter:
    case KERNEL_KINDS: break;
    }
}

/* ---- pointers that lie over each other ------------------------------------------------------------- */

static bool same_place(const Buffer *a, const Buffer *b)
{
    return a == b || (a->place == b->place && a->place != PLACE_field && a->offset == b->offset);
}

static bool overlap(const Buffer *a, const Buffer *b)
{
    if (a == b) {
        return true;
    }
    return a->place == b->place && a->place != PLACE_field && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

typedef struct Meeting {
    bool always_same, ever_overlap;
} Meeting;

static void share_pointers(Emit *e, Unit *u, Meeting **met)
{
    for (int j = 0; j < u->k.noperands; j++) {
        for (int i = 0; i < j && u->shared[j] == j; i++) {
            const KOperand *p = &u->k.operands[i], *q = &u->k.operands[j];
            if (u->shared[i] == i && met[i][j].always_same && p->dtype == q->dtype &&
                (p->written || q->written) && u->ncalls > 0) {
                u->shared[j] = i;
                u->written[i] |= q->written;
            }
        }
    }
    for (int j = 0; j < u->k.noperands; j++) {
        for (int i = 0; i < j; i++) {
            if (met[i][j].ever_overlap && u->shared[i] != u->shared[j] &&
                (u->written[u->shared[i]] || u->written[u->shared[j]])) {
                u->overlaps[u->shared[i]] = u->overlaps[u->shared[j]] = true;
            }
        }
    }
    (void)e;
}

static void count_elements(Unit *u, const Graph *g, const KCall *call)
{
    for (int i = -1; i < u->k.noperands; i++) {
        const Dims *d = i < 0 ? &call->space : &call->buffers[i]->dims;
        int64_t n = 1;
        for (int axis = 0; axis < d->rank; axis++) {
            n *= dim_bound(g, d->d[axis]);
        }
        u->most = n > u->most ? n : u->most;
    }
}

/* Calls of every kernel, and how their operands lie to each other. */
static void find_calls(Emit *e, Meeting ***met)
{
    const Plan *p = e->plan;
    for (int g = 0; g < p->ngraphs; g++) {
        for (int l = 0; l < p->graphs[g].nlaunches; l++) {
            const Launch *launch = &p->graphs[g].launches[l];
            for (int c = 0; c < launch->ncalls; c++) {
                const KCall *call = &launch->calls[c];
                Unit *u = &e->units[call->kernel->id];
                if (u->first == NULL) {
                    u->first = call;
                    u->graph = p->graphs[g].graph;
                }
                for (int j = 0; j < u->k.noperands; j++) {
                    for (int i = 0; i < j; i++) {
                        Meeting *m = &met[u->of->id][i][j];
                        bool same = same_place(call->buffers[i], call->buffers[j]);
                        m->always_same = same && (u->ncalls == 0 || m->always_same);
                        m->ever_overlap |= overlap(call->buffers[i], call->buffers[j]);
                    }
                }
                count_elements(u, p->graphs[g].graph, call);
                u->on_gpu |= p->graphs[g].graph->role != GRAPH_Prepare;
                u->ncalls++;
            }
        }
    }
}

/* ---- tiles ----------------------------------------------------------------------------------------- */

static int64_t clamp_to(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* Simple operations an element takes, about. */
static double element_work(const Kernel *k)
{
    double work = 1;
    for (int i = 0; i < k->nscalars; i++) {
        const Scalar *v = &k->scalars[i];
        if (v->kind == SC_op) {
            work += strstr(op_info[v->op].expression, "mpc_") != NULL ? 6 : 1;
        } else if (v->kind == SC_uniform) {
            work += 12;
        } else if (v->kind == SC_cast || v->kind == SC_load || v->kind == SC_reduce) {
            work += 1;
        }
    }
    return work / 4;
}

static int64_t axis_bound(const Unit *u, int axis)
{
    return u->graph != NULL ? dim_bound(u->graph, u->k.space.d[axis]) : u->k.space.d[axis].k;
}

static int64_t tile_size(const Unit *u)
{
    const Kernel *k = &u->k;
    int last = k->space.rank - 1;
    int64_t work = clamp_to((int64_t)(TILE_WORK / element_work(k)), 512, TILE_WORK) / 64 * 64;
    int64_t inner = last >= 0 ? axis_bound(u, last) : 1;
    switch (k->kind) {
    case KERNEL_Map: return k->space.rank <= 1 ? work : clamp_to(work / inner, 1, work);
    case KERNEL_Row: return clamp_to(work / inner, 1, work);
    case KERNEL_Col: {
        int kept = k->space.rank - k->nreduce;
        int64_t reduced = 1;
        for (int i = kept; i <= last; i++) {
            reduced *= axis_bound(u, i);
        }
        int64_t columns = kept > 0 ? axis_bound(u, kept - 1) : 1;
        int64_t wide =
            clamp_to(work / (reduced > 0 ? reduced : 1), COLUMNS_MIN, COLUMNS_MAX) / 16 * 16;
        return wide < columns ? wide : columns;
    }
    case KERNEL_Scatter: return clamp_to((axis_bound(u, 0) + 7) / 8, 1, 1 << 20);
    case KERNEL_Full:
    case KERNEL_Contract:
    case KERNEL_KINDS: break;
    }
    return 1;
}

/* Without the number that makes a buffer's name unique in the plan: a kernel has few of them. */
static const char *short_name(Arena *a, const char *name)
{
    size_t n = strlen(name);
    size_t end = n;
    while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') {
        end--;
    }
    bool numbered = end < n && end > 1 && name[end - 1] == '_';
    return numbered ? arena_strndup(a, name, end - 1) : name;
}

static void name_pointers(Emit *e, Unit *u)
{
    NameVec used = {0};
    for (int pass = 0; pass < 3; pass++) { /* first who needs no change, then what is read */
        for (int j = 0; j < u->k.noperands; j++) {
            const KOperand *op = &u->k.operands[j];
            const char *name = short_name(e->arena, op->name);
            int turn = str_eq(name, op->name) ? 0 : op->written ? 2 : 1;
            if (u->shared[j] != j || turn != pass) {
                continue;
            }
            for (int i = 0; pass == 2 && i < used.n; i++) {
                if (str_eq(used.at[i], name)) {
                    name = arena_printf(e->arena, "%s_out", name);
                    break;
                }
            }
            vec_push(e->arena, &used, name);
            u->pointer[j] = names_take(&u->names, name);
        }
    }
    for (int j = 0; j < u->k.noperands; j++) {
        u->pointer[j] = u->pointer[u->shared[j]];
    }
}

void units_make(Emit *e)
{
    int n = e->plan->nkernels;
    Meeting ***met = ARENA_ARRAY(e->arena, Meeting **, n + 1);
    e->units = ARENA_ARRAY(e->arena, Unit, n + 1);
    for (int i = 0; i < n; i++) {
        Unit *u = &e->units[i];
        u->of = e->plan->kernels[i];
        u->k = *u->of;
        if (u->of->id != i) {
            ICE("kernel %s has number %d, expected %d", u->of->name, u->of->id, i);
        }
        u->k.scalars = arena_copy(e->arena, u->k.scalars, sizeof(Scalar) * (size_t)u->k.nscalars);
        u->k.outputs = arena_copy(e->arena, u->k.outputs, sizeof(KOutput) * (size_t)u->k.noutputs);
        merge_axes(e->arena, &u->k);
        int ops = u->k.noperands;
        u->pointer = ARENA_ARRAY(e->arena, const char *, ops + 1);
        u->shared = ARENA_ARRAY(e->arena, int, ops + 1);
        u->written = ARENA_ARRAY(e->arena, bool, ops + 1);
        u->overlaps = ARENA_ARRAY(e->arena, bool, ops + 1);
        u->used_pointer = ARENA_ARRAY(e->arena, bool, ops + 1);
        u->ever_pointer = ARENA_ARRAY(e->arena, bool, ops + 1);
        met[i] = ARENA_ARRAY(e->arena, Meeting *, ops + 1);
        for (int j = 0; j < ops; j++) {
            u->shared[j] = j;
            u->written[j] = u->k.operands[j].written;
            met[i][j] = ARENA_ARRAY(e->arena, Meeting, ops);
        }
    }
    find_calls(e, met);
    for (int i = 0; i < n; i++) {
        Unit *u = &e->units[i];
        if (u->ncalls == 0) {
            continue;
        }
        share_pointers(e, u, met[i]);
        u->name = names_take(&e->names, u->k.name);
        if (u->k.kind == KERNEL_Contract) {
            u->pack_name = names_take(&e->names, arena_printf(e->arena, "%s_pack", u->k.name));
            u->operands_name =
                names_take(&e->names, arena_printf(e->arena, "%s_operands", u->k.name));
        }
        u->each = tile_size(u);
        u->names = names_new(e->arena, NULL, true);
        for (int s = 0; s < u->graph->nsyms; s++) {
            names_reserve(&u->names, u->graph->syms[s].name);
        }
        if (u->operands_name != NULL) { /* cut to the same length, they may be the operand's name */
            names_reserve(&u->names, u->operands_name);
            names_reserve(&u->names, u->pack_name);
        }
        name_pointers(e, u);
    }
}

/* ---- texts of a function --------------------------------------------------------------------------- */

const char *unit_dim(Emit *e, Unit *u, Dim d)
{
    for (int i = 0; i < 2; i++) {
        if (d.sym[i] != 0) {
            u->used_sym[d.sym[i]] = u->ever_sym[d.sym[i]] = true;
        }
    }
    return dim_text(e->arena, u->graph, d);
}

const char *unit_axis(Emit *e, Unit *u, int axis)
{
    if (u->k.any_size) {
        u->used_n = u->ever_n = true;
        return e->target->count;
    }
    return unit_dim(e, u, u->k.space.d[axis]);
}

const char *unit_index_type(const Emit *e, const Unit *u)
{
    return e->target->index_type(u);
}

const char *unit_rows(Emit *e, Unit *u, int from, int to)
{
    Dims d = {0};
    Dim n;
    for (int i = from; i < to; i++) {
        d.d[d.rank++] = u->k.space.d[i];
    }
    if (dims_count(&d, &n)) {
        return unit_dim(e, u, n);
    }
    const char *text = NULL;
    for (int i = 0; i < d.rank; i++) {
        text = joined(e->arena, text, "*", unit_dim(e, u, d.d[i]));
    }
    return text;
}

const char *unit_pointer(Unit *u, int operand)
{
    int at = u->shared[operand];
    u->used_pointer[at] = u->ever_pointer[at] = true;
    return u->pointer[at];
}

void unit_unravel(Emit *e, Unit *u, const char *row, int from, int to, const char *const *names)
{
    const char *type = unit_index_type(e, u);
    for (int i = to - 1; i >= from; i--) {
        bool is_last = i == to - 1, is_first = i == from;
        if (names[i] == NULL) {
            continue;
        }
        if (is_last && is_first) {
            if (!str_eq(names[i], row)) {
                ln(e, "const %s %s = %s;", type, names[i], row);
            }
            continue;
        }
        const char *at = row;
        if (!is_last) {
            const char *below = unit_rows(e, u, i + 1, to);
            at = arena_printf(e->arena, strchr(below, ' ') != NULL ? "%s / (%s)" : "%s / %s", row,
                              below);
        }
        if (is_first) { /* nobody asks for its size */
            ln(e, "const %s %s = %s;", type, names[i], at);
            continue;
        }
        const char *size = unit_axis(e, u, i);
        bool product = strchr(size, ' ') != NULL;
        ln(e, product ? "const %s %s = %s %% (%s);" : "const %s %s = %s %% %s;", type, names[i], at,
           size);
    }
}

/* ---- tiles of a call ------------------------------------------------------------------------------- */

static const char *tiles_text(Emit *e, const char *n, bool known, int64_t bound, int64_t each,
                              int64_t *most)
{
    *most = bound > 0 ? (bound + each - 1) / each : 0;
    if (each == 1 && !known) {
        return arena_printf(e->arena, "(int)(%s)", n);
    }
    return known ? arena_printf(e->arena, "%lld", (long long)*most)
                 : arena_printf(e->arena, "mpc_tiles(%s, %lld)", n, (long long)each);
}

const char *unit_tiles(Emit *e, const Unit *u, const KCall *call, const Graph *g, bool pack,
                       int64_t *most)
{
    const Kernel *k = &u->k;
    Arena *a = e->arena;
    int rank = k->space.rank;
    Dims rows = {0};
    switch (k->kind) {
    case KERNEL_Map:
        rows = k->space;
        rows.rank = rank > 1 ? rank - 1 : rank;
        if (k->any_size) {
            rows = call->space;
        }
        break;
    case KERNEL_Row:
        rows = k->space;
        rows.rank = rank - 1;
        break;
    case KERNEL_Col:
        rows = k->space;
        rows.rank = rank - k->nreduce - 1;
        if (rows.rank < 0) {
            *most = 1;
            return "1";
        }
        {
            int columns = rows.rank;
            int64_t across;
            const char *inner = tiles_text(e, dim_text(a, g, k->space.d[columns]),
                                           dim_is_const(k->space.d[columns]),
                                           dim_bound(g, k->space.d[columns]), u->each, &across);
            int64_t outer = 1;
            for (int i = 0; i < columns; i++) {
                outer *= dim_bound(g, k->space.d[i]);
            }
            *most = outer * across;
            if (columns == 0) {
                return inner;
            }
            return arena_printf(a, "(int)(%s) * %s", product_text(a, g, &rows), inner);
        }
    case KERNEL_Full: *most = k->ntiles; return arena_printf(a, "%d", k->ntiles);
    case KERNEL_Scatter:
        rows = k->space;
        rows.rank = 1;
        break;
    case KERNEL_Contract: {
        if (kernel_is_conv(k)) {
            *most = 16;
            return conv_tiles(e, u, call, g, pack);
        }
        const Dim *d = &call->space.d[u->of->nbatch];
        Dims batch = call->space;
        batch.rank = u->of->nbatch;
        *most = 16;
        const char *one =
            arena_printf(a, "mpc_gemm(%s, %s, %s).%s", dim_text(a, g, d[0]), dim_text(a, g, d[1]),
                         dim_text(a, g, d[2]), pack ? "pack_tiles" : "tiles");
        return batch.rank == 0 ? arena_printf(a, "(int)%s", one)
                               : arena_printf(a, "(int)(%s * %s)", product_text(a, g, &batch), one);
    }
    case KERNEL_KINDS: break;
    }
    int64_t bound = 1;
    bool known = true;
    for (int i = 0; i < rows.rank; i++) {
        bound *= dim_bound(g, rows.d[i]);
        known &= dim_is_const(rows.d[i]);
    }
    const char *n = rows.rank > 0 ? product_text(a, g, &rows) : "1";
    return tiles_text(e, n, known || bound <= u->each, bound, u->each, most);
}

double unit_work(const Unit *u, const KCall *call, const Graph *g)
{
    double n = 1;
    for (int i = 0; i < call->space.rank; i++) {
        n *= (double)dim_bound(g, call->space.d[i]);
    }
    return u->k.kind == KERNEL_Contract ? n / 16 : n * element_work(&u->k);
}
