/* random_program.c: random graphs as compiled programs, against the typed interpreter.
 *
 *     ops_random SEED GRAPHS EACH CPU [FLAG...]       e.g.  1 96 12 native
 *
 * Graphs SEED .. SEED + GRAPHS - 1, EACH of them to a program; further flags go to mpc. Every state that a graph
 * leaves must be what the interpreter gives, within error_bound.h: to the last bit where nothing is summed. The
 * plan of every program is checked as well. A graph that fails alone: ops_random SEED 1 1 CPU. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/strutil.h"
#include "passes/pass.h"
#include "runtime/abi/gemm_params.h"
#include "tests/ops/error_bound.h"
#include "tests/ops/plan_check.h"
#include "tests/ops/random_graph.h"

typedef struct Run {
    Program *p;
    const RandomField *fields;
    int64_t exact, bounded, free; /* elements compared to the bit, within a bound, and not at all */
    double worst;                 /* largest share of a bound that was needed */
    int wrong;
    bool on_gpu; /* which of 0 and -0 is the larger depends on the order of threads */
} Run;

/* ---- the interpreter ------------------------------------------------------------------------- */

static Value *shaped(Run *r, const Node *n)
{
    int64_t dims[MAX_RANK];
    for (int i = 0; i < n->dims.rank; i++) {
        dims[i] = n->dims.d[i].sym[0] != 0 ? RANDOM_ROWS : n->dims.d[i].k;
    }
    return value_new(r->p->arena, n->dtype, n->dims.rank, dims);
}

static Value *give(void *ctx, const Graph *g, const Node *n)
{
    Run *r = ctx;
    Value *v = shaped(r, n);
    const Attr *role = &n->attrs.v[0];
    (void)g;
    if (role->id == ATTR_rng) {
        for (int64_t i = 0; i < v->count; i++) {
            v->v[i] = (double)i; /* epoch 0, row i */
        }
        return v;
    }
    const double *from = NULL;
    for (const RandomField *f = r->fields; role->id == ATTR_batch && f->name != NULL; f++) {
        from = str_eq(f->name, role->s) ? f->v : from;
    }
    const ProgramTensor *t = role->id == ATTR_batch ? NULL : program_find(r->p, role->s);
    from = t != NULL ? t->v : from;
    for (int64_t i = 0; i < v->count; i++) {
        v->v[i] = from != NULL ? from[i] : POISON;
    }
    return v;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void compare(Run *r, const Graph *g, const char *name, const Value *want, const Value *bound,
                    const GoldenFile *file)
{
    const GoldenTensor *got = golden_find(file, "%s", name);
    if (got == NULL || got->count != want->count) {
        fprintf(stderr, "%s: no %s\n", g->name, name);
        r->wrong++;
        return;
    }
    int bad = 0;
    for (int64_t i = 0; i < want->count; i++) {
        double x = got->v[i], y = want->v[i], most = bound->v[i];
        bool signs = r->on_gpu || signbit(x) == signbit(y);
        bool same = (x == y && signs) || (isnan(x) && isnan(y));
        r->exact += most == 0;
        r->free += isinf(most);
        r->bounded += most > 0 && !isinf(most);
        if (most > 0 && isfinite(most)) {
            r->worst = fmax(r->worst, fabs(x - y) / most);
        }
        if (!same && (most == 0 || !(fabs(x - y) <= most)) && !isinf(most) && bad++ < 3) {
            fprintf(stderr, "%s: %s: element %lld is %.9g, not %.9g (+- %.3g)\n", g->name, name,
                    (long long)i, x, y, most);
        }
    }
    r->wrong += bad > 0;
}

static void compare_graph(Run *r, const Graph *g, const GoldenFile *file)
{
    Interp in = {.mode = INTERP_typed,
                 .module = r->p->m,
                 .arena = r->p->arena,
                 .seed = 42, /* of programs that are given none */
                 .arg = give,
                 .ctx = r};
    in.syms[0] = RANDOM_ROWS;
    Value **v = interp_graph(&in, g, NULL);
    Value **e = error_bounds(r->p->arena, &in, g, v);
    for (int i = 0; i < g->nresults; i++) {
        const Result *result = &g->results[i];
        compare(r, g, result->name, v[result->value->id], e[result->value->id], file);
    }
}

/* The number of threads changes nothing. */
static bool same_bits(const Run *r, const GoldenFile *one)
{
    static const char *const flags[] = {"--threads", "3", NULL};
    GoldenFile *other = program_run(r->p, flags);
    bool same = other != NULL;
    for (int i = 0; same && i < one->ntensors; i++) {
        const GoldenTensor *x = &one->tensors[i], *y = golden_find(other, "%s", x->name);
        for (int64_t k = 0; same && k < x->count; k++) {
            same = x->v[k] == y->v[k] || (isnan(x->v[k]) && isnan(y->v[k]));
        }
        if (!same) {
            fprintf(stderr, "%s differs with three threads\n", x->name);
        }
    }
    if (other != NULL) {
        golden_close(other);
    }
    return same;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static bool check_plan(const Run *r)
{
    Arena *arena = arena_new();
    Diag *diag = diag_new(arena, stderr, DIAG_COLOR_never, DIAG_FORMAT_text);
    char *path = arena_printf(arena, "%s/%s.ir", r->p->dir, r->p->m->name);
    Module *m = module_read(arena, diag, path);
    bool ok = m != NULL && passes_run(m, &(PassOptions){.verify_ir = true}, diag);
    ok = ok && plan_check(plan_module(arena, m, &(PlanOptions){.isa = MPC_ISA_avx512}));
    arena_free(arena);
    return ok;
}

/* ---- the test -------------------------------------------------------------------------------- */

static bool run_program(Run *r, uint64_t seed, int graphs, const char *const *flags)
{
    r->p = program_new("random");
    r->fields = random_fields(r->p, seed);
    int before = r->wrong;
    for (int i = 0; i < graphs; i++) {
        random_graph(r->p, r->fields, seed + (uint64_t)i);
    }
    bool ok = program_differentiate(r->p) && program_compile(r->p, flags) && check_plan(r);
    static const char *const single[] = {"--threads", "1", NULL};
    GoldenFile *got = ok ? program_run(r->p, single) : NULL;
    for (int i = 0; got != NULL && i < r->p->m->ngraphs; i++) {
        compare_graph(r, r->p->m->graphs[i], got);
    }
    ok = got != NULL && r->wrong == before && same_bits(r, got);
    if (got != NULL) {
        golden_close(got);
    }
    if (!ok) {
        fprintf(stderr, "graphs %llu to %llu\n", (unsigned long long)seed,
                (unsigned long long)seed + (unsigned long long)graphs - 1);
    }
    program_done(r->p, !ok);
    return ok;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fputs("usage: ops_random SEED GRAPHS EACH CPU [FLAG...]\n", stderr);
        return 2;
    }
    uint64_t seed = strtoull(argv[1], NULL, 10);
    int graphs = atoi(argv[2]), each = atoi(argv[3]), failed = 0;
    if (!cpu_runs(argv[4])) {
        return 77;
    }
    Arena *arena = arena_new();
    const char *const *flags = cpu_flags(arena, argc - 4, argv + 4);
    Run r = {.on_gpu = strcmp(argv[argc - 1], "--target=cuda") == 0};
    for (int i = 0; i < graphs; i += each) {
        int n = graphs - i < each ? graphs - i : each;
        failed += !run_program(&r, seed + (uint64_t)i, n, flags);
    }
    printf(
        "%d graphs: %lld elements the same, %lld within their bounds (at most %.2f of one), %lld "
        "without one\n",
        graphs, (long long)r.exact, (long long)r.bounded, r.worst, (long long)r.free);
    bool enough = r.exact > 0 && r.bounded > 0 && r.exact + r.bounded > r.free;
    if (failed == 0 && graphs >= 20 && !enough) {
        fputs("too little of it was compared\n", stderr);
        failed = 1;
    }
    return failed > 0;
}
