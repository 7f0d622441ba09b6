/* cuda_map.c: element-wise kernels. A thread computes a run of neighbouring elements: what lies in one piece in memory is
 * read and written 16 bytes at a time, the rest element by element. */
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "codegen/target.h"
#include "ir/base/strutil.h"

enum {
    LONGEST_RUN = 8,
    RUN_VALUES = 64,       /* of all operands, that a thread holds */
    ENOUGH_THREADS = 32768 /* below which runs get shorter */
};

typedef struct Map {
    Body b;
    Emit *e;
    Unit *u;
    int last;         /* axis of the runs; -1: no axes */
    int run;          /* elements of a thread */
    bool *staged;     /* loads that are read as runs */
    const char **out; /* array of each output that is written as a run */
    bool tail;        /* the last run may be shorter */
} Map;

/* `run` elements from a multiple of `run` on are neighbours in memory, the first one at a multiple of their bytes. */
static bool is_run(const Map *m, const Access *at, int run)
{
    if (at->index >= 0 || !dim_equal(at->stride[m->last], dim_of(1)) ||
        !cuda_divides(at->offset, run)) {
        return false;
    }
    for (int i = 0; i < m->last; i++) {
        if (!cuda_divides(at->stride[i], run)) {
            return false;
        }
    }
    return true;
}

static int access_bytes(const Map *m, const Access *at)
{
    return dtype_info[m->u->k.operands[at->operand].dtype].bytes;
}

/* How many elements a thread takes: as many as fill 16 bytes of the shortest type. */
static int run_length(const Map *m)
{
    const Kernel *k = &m->u->k;
    if (m->last < 0) {
        return 1;
    }
    for (int run = LONGEST_RUN; run > 1; run /= 2) {
        int least = 16, values = 0;
        for (int s = 0; s < k->nscalars; s++) {
            const Access *at = &k->scalars[s].at;
            if (k->scalars[s].kind == SC_load && is_run(m, at, run)) {
                least = access_bytes(m, at) < least ? access_bytes(m, at) : least;
                values += run;
            }
        }
        for (int i = 0; i < k->noutputs; i++) {
            if (is_run(m, &k->outputs[i].at, run)) {
                int bytes = access_bytes(m, &k->outputs[i].at);
                least = bytes < least ? bytes : least;
                values += run;
            }
        }
        bool fits = k->any_size || m->last == 0 || cuda_divides(k->space.d[m->last], run);
        if (fits && values > 0 && run * least <= 16 && values <= RUN_VALUES &&
            (m->u->most / run >= ENOUGH_THREADS || run * least <= 4)) {
            return run;
        }
    }
    return 1;
}

/* ---- reading and writing runs ---- */

static const char *run_start(Map *m, const Access *at)
{
    return arena_printf(m->e->arena, "&%s", body_element(&m->b, at));
}

static void read_runs(Map *m)
{
    const Kernel *k = &m->u->k;
    for (int s = 0; s < k->nscalars; s++) {
        const Scalar *v = &k->scalars[s];
        if (v->kind != SC_load || !m->b.needed[s] || m->b.depth[s] < 2 ||
            !is_run(m, &v->at, m->run)) {
            continue;
        }
        const char *name = names_take(
            &m->b.names, arena_printf(m->e->arena, "%s_in", m->u->pointer[v->at.operand]));
        ln(m->e, "%s %s[%d];", memory_ctype(v->dtype), name, m->run);
        ln(m->e, "mpc_read_run(%s, %s, %d, %d, %s);", name, run_start(m, &v->at),
           access_bytes(m, &v->at), m->run,
           m->tail ? "left" : arena_printf(m->e->arena, "%d", m->run));
        m->b.place[s] = arena_printf(m->e->arena, "%s[e]", name);
    }
}

static void declare_results(Map *m)
{
    const Kernel *k = &m->u->k;
    for (int i = 0; i < k->noutputs; i++) {
        const Access *at = &k->outputs[i].at;
        if (is_run(m, at, m->run)) {
            m->out[i] = names_take(&m->b.names,
                                   arena_printf(m->e->arena, "%s_out", m->u->pointer[at->operand]));
            ln(m->e, "%s %s[%d];", memory_ctype(k->operands[at->operand].dtype), m->out[i], m->run);
        }
    }
}

static void write_runs(Map *m)
{
    const Kernel *k = &m->u->k;
    for (int i = 0; i < k->noutputs; i++) {
        const Access *at = &k->outputs[i].at;
        if (m->out[i] != NULL) {
            ln(m->e, "mpc_write_run(%s, %s, %d, %d, %s);", run_start(m, at), m->out[i],
               access_bytes(m, at), m->run,
               m->tail ? "left" : arena_printf(m->e->arena, "%d", m->run));
        }
    }
}

static void element(Map *m)
{
    const Kernel *k = &m->u->k;
    body_emit(&m->b, BODY_MAX_DEPTH - 1);
    for (int i = 0; i < k->noutputs; i++) {
        const KOutput *out = &k->outputs[i];
        if (m->out[i] != NULL) {
            ln(m->e, "%s[e] = %s;", m->out[i],
               body_memory(&m->b, out->scalar, k->operands[out->at.operand].dtype));
        } else {
            body_store(&m->b, out);
        }
    }
}

/* ---- kernels ---- */

static void single_elements(Map *m)
{
    Emit *e = m->e;
    const Kernel *k = &m->u->k;
    if (m->last < 0) {
        m->u->grid.blocks = "1";
        element(m);
        return;
    }
    bool flat = m->last == 0;
    const char *count = k->any_size ? unit_axis(e, m->u, 0) : unit_rows(e, m->u, 0, m->last + 1);
    cuda_open_grid(e, m->u, flat ? "i" : "at", count, 1);
    ln_blank(e);
    if (!flat) {
        unit_unravel(e, m->u, "at", 0, m->last + 1, m->b.axis);
    }
    element(m);
}

/* "first": the run's index along the last axis. */
static void open_runs(Map *m)
{
    Emit *e = m->e;
    Dim length = m->u->k.space.d[m->last];
    const char *type = unit_index_type(e, m->u);
    if (m->last == 0) {
        const char *n = unit_axis(e, m->u, 0);
        const char *runs =
            m->tail
                ? arena_printf(e->arena, "(%s + %d) / %d", n, m->run - 1, m->run)
                : unit_dim(e, m->u,
                           (Dim){.k = length.k / m->run, .sym = {length.sym[0], length.sym[1]}});
        cuda_open_grid(e, m->u, "run", runs, 1);
        ln(e, "const %s first = run * %d;", type, m->run);
        if (m->tail) {
            ln(e, "const %s left = %s - first;", type, n);
        }
        return;
    }
    Dims runs = m->u->k.space;
    runs.d[m->last].k /= m->run;
    const char *in_row = unit_dim(e, m->u, runs.d[m->last]);
    const char *rows = unit_rows(e, m->u, 0, m->last);
    Dim all, row_count = dim_of(1);
    bool known = true;
    for (int i = 0; i < m->last; i++) {
        known = known && dim_mul(row_count, runs.d[i], &row_count);
    }
    known = known && dim_mul(row_count, runs.d[m->last], &all);
    const char *count =
        known ? unit_dim(e, m->u, all) : arena_printf(e->arena, "%s * (%s)", rows, in_row);
    cuda_open_grid(e, m->u, "run", count, 1);
    if (strchr(in_row, ' ') != NULL) {
        in_row = arena_printf(e->arena, "(%s)", in_row);
    }
    ln(e, "const %s row = run / %s;", type, in_row);
    ln(e, "const %s first = run %% %s * %d;", type, in_row, m->run);
    unit_unravel(e, m->u, "row", 0, m->last, m->b.axis);
}

/* Random numbers of a run, four with one counter. */
static void draw(Map *m)
{
    const Kernel *k = &m->u->k;
    for (int s = 0; s < k->nscalars && m->run % 4 == 0; s++) {
        const Scalar *v = &k->scalars[s];
        if (v->kind != SC_uniform || !m->b.needed[s] || m->b.depth[v->in[0]] >= 2 ||
            !is_run(m, &v->at, 4)) {
            continue;
        }
        const char *name = names_take(&m->b.names, "random");
        m->u->used_seed = m->u->ever_seed = true;
        ln(m->e, "float %s[%d];", name, m->run);
        for (int q = 0; q < m->run; q += 4) {
            const char *at = body_index(&m->b, &v->at);
            ln(m->e, "mpc_uniform_four(%s, a->seed, 0x%08xu, %s, %s);",
               q == 0 ? name : arena_printf(m->e->arena, "%s + %d", name, q), str_fnv1a(v->path),
               body_wide(&m->b, v->in[0]),
               q == 0 ? at : arena_printf(m->e->arena, "%s + %d", at, q));
        }
        body_set(&m->b, s, arena_printf(m->e->arena, "%s[e]", name));
    }
}

static void runs(Map *m)
{
    Emit *e = m->e;
    Body *b = &m->b;
    const char *index = b->axis[m->last];
    open_runs(m);
    ln_blank(e);
    body_emit(b, 1);
    b->axis[m->last] = "first";
    read_runs(m);
    draw(m);
    declare_results(m);
    ln_blank(e);
    ln(e, "MPC_UNROLL");
    ln_open(e, "for (int e = 0; e < %d; e++)", m->run);
    if (m->tail) {
        ln_in(e, "if (e >= left)");
        ln(e, "break;");
        ln_out(e);
    }
    Text *out = e->out, *inner = text_new(e->arena);
    inner->indent = out->indent;
    e->out = inner;
    b->axis[m->last] = index;
    element(m);
    e->out = out;
    if (text_mentions(inner, index)) {
        ln(e, "const %s %s = first + e;", unit_index_type(e, m->u), index);
    }
    text_puts(out, inner->at);
    ln_close(e, "");
    b->axis[m->last] = "first";
    write_runs(m);
}

void cuda_map_emit(Emit *e, Unit *u)
{
    Map m = {.b = body_new(e, u), .e = e, .u = u, .last = u->k.space.rank - 1};
    m.run = run_length(&m);
    m.tail = m.run > 1 && m.last == 0 && (u->k.any_size || !cuda_divides(u->k.space.d[0], m.run));
    m.out = ARENA_ARRAY(e->arena, const char *, u->k.noutputs + 1);
    u->grid = (UnitGrid){.threads = m.last < 0 ? 1 : CUDA_THREADS, .blocks_per_sm = 1};
    for (int i = 0; i <= m.last; i++) {
        m.b.axis[i] = m.b.letter[i] = cuda_index[i];
        m.b.depth_of[i] = i == m.last ? 2 : 1;
    }
    body_guard(&m.b);
    body_depths(&m.b);
    for (int i = 0; i < u->k.noutputs; i++) {
        body_root(&m.b, u->k.outputs[i].scalar, true);
    }
    body_emit(&m.b, 0);
    if (m.run > 1) {
        runs(&m);
    } else {
        single_elements(&m);
    }
}
