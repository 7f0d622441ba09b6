/* golden_program.c: the reference cases of ops as compiled programs.
 *
 *     ops_golden PART PARTS FLOATS CPU [FLAG...]        e.g.  0 4 f32 native -O1
 *
 * Each case becomes a graph: inputs are parameters (states where no gradient is wanted), loss = sum of output *
 * upstream gradient; outputs and gradients leave as states and are held to the tolerances that the reference
 * data state. FLOATS f32: the cases as they are; bf16, f16: the inputs are cast first, for the cases that have
 * results for narrow inputs. The cases of every PARTS-th op go into one program, from PART on; further flags go to
 * mpc. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/strutil.h"
#include "tests/ops/composed_ops.h"
#include "tests/ops/run_program.h"
#include "tests/unit/golden_ops.h"

typedef struct Case {
    const GoldenFile *file;
    const char *name; /* "softmax.last" */
    const char *test;
    const cJSON *json;
    int nout;
    const char *out[GOLDEN_MAX_OUTPUTS];
    int steps,
        grad_steps; /* roundings to the narrow type on the way to the output, to a gradient */
} Case;

typedef struct Run {
    Program *p;
    DType floats;
    const char *low; /* "bf16", "fp16": as the reference data call them; NULL */
    VEC(Case) cases;
    int compared, wrong;
} Run;

/* ---- building -------------------------------------------------------------------------------- */

static bool wants_gradient(const cJSON *test, const char *input)
{
    const cJSON *in;
    cJSON_ArrayForEach(in, cJSON_GetObjectItem(test, "inputs"))
    {
        if (str_eq(golden_string(in, "name"), input)) {
            return golden_bool(in, "grad");
        }
    }
    return false;
}

/* The field of a batch that the reference graph reads becomes a tensor, f32 behind a cast where it is narrow. */
static void feed(Run *r, const Case *c, GoldenGraph *g, int i)
{
    Program *p = r->p;
    Node *arg = g->in[i];
    const GoldenTensor *t = golden_find(c->file, "%s/in/%s", c->test, g->in_name[i]);
    const char *name = arena_printf(p->arena, "%s.in.%s", c->name, g->in_name[i]);
    DType dt = dtype_is_low(arg->dtype) ? DT_f32 : arg->dtype;
    Dims dims = arg->dims;
    Node *from = wants_gradient(c->json, g->in_name[i])
                     ? program_param(p, &g->b, name, dt, &dims, t->v)
                     : program_state(p, &g->b, name, dt, &dims, t->v);
    if (dt == arg->dtype) {
        arg->attrs = from->attrs;
        g->b.graph->nnodes--; /* arg itself is that argument */
        return;
    }
    arg->op = OP_cast;
    arg->attrs = (Attrs){0};
    arg->nin = 1;
    arg->in = ARENA_ARRAY(p->arena, Node *, 1);
    arg->in[0] = from;
}

static const double *upstream(Run *r, const GoldenTensor *t)
{
    if (r->low == NULL) {
        return t->v;
    }
    double *v = ARENA_ARRAY(r->p->arena, double, t->count);
    for (int64_t i = 0; i < t->count; i++) {
        v[i] = round_to(r->floats, t->v[i]);
    }
    return v;
}

static void add_loss(Run *r, const Case *c, GoldenGraph *g)
{
    Program *p = r->p;
    Node *loss = NULL;
    for (int i = 0; i < g->nout; i++) {
        const GoldenTensor *t = golden_find(c->file, "%s/gout/%s", c->test, g->out_name[i]);
        if (t == NULL || !dtype_info[g->out[i]->dtype].is_float) {
            continue;
        }
        const char *name = arena_printf(p->arena, "%s.gout.%s", c->name, g->out_name[i]);
        Node *gout = program_state(p, &g->b, name, DT_f32, &g->out[i]->dims, upstream(r, t));
        Node *product = build2(&g->b, OP_mul, g->out[i], gout);
        Node *sum = build_reduce(&g->b, OP_sum, product, -1, NULL, false);
        loss = loss == NULL ? sum : build2(&g->b, OP_add, loss, sum);
    }
    bool any = false;
    for (int i = 0; i < g->nin; i++) {
        any = any || wants_gradient(c->json, g->in_name[i]);
    }
    if (loss != NULL && any) {
        Attrs as = {0};
        attrs_set_str(p->arena, &as, ATTR_model, "");
        build(&g->b, OP_backward, 1, &loss, as);
    }
}

/* A constant beside a narrow operand is rounded to its type, too. */
static int roundings(const Node *n)
{
    OpKind kind = op_info[n->op].kind;
    if (!dtype_is_low(n->dtype) || kind == KIND_Leaf || kind == KIND_Move || kind == KIND_Alias ||
        kind == KIND_Gather || (n->op == OP_cast && n->in[0]->op == OP_arg)) {
        return 0;
    }
    int count = 1;
    for (int i = 0; i < n->nin; i++) {
        double x = attrs_float(&n->in[i]->attrs, ATTR_value, 0);
        count += n->in[i]->op == OP_const && round_to(n->dtype, x) != x;
    }
    return count;
}

/* Of the forward graph; the gradients' are counted after autodiff. */
static int count_roundings(const Graph *g)
{
    int n = 0;
    for (int i = 0; i < g->nnodes; i++) {
        n += roundings(g->nodes[i]);
    }
    return n;
}

static void add_case(Run *r, const GoldenFile *file, const char *op, const cJSON *json)
{
    Program *p = r->p;
    if (r->low != NULL && cJSON_GetObjectItem(json, "low") == NULL) {
        return;
    }
    GoldenGraph g;
    Case c = {.file = file, .json = json, .test = golden_string(json, "name")};
    if (!golden_graph(p->arena, op, json, r->floats, &g) &&
        !composed_graph(p->arena, op, json, r->floats, &g)) {
        return;
    }
    c.name = arena_printf(p->arena, "%s.%s", op, c.test);
    Graph *graph = program_graph(p, arena_printf(p->arena, "%s_%s", op, c.test));
    const char *name = graph->name;
    *graph = *g.b.graph;
    graph->name = name;
    g.b.graph = graph;
    g.b.diag = p->diag;
    for (int i = 0; i < g.nin; i++) {
        feed(r, &c, &g, i);
    }
    graph_sort(graph);
    c.steps = count_roundings(graph);
    for (int i = 0; i < g.nout; i++) {
        c.out[c.nout++] = g.out_name[i];
        program_result(p, graph, arena_printf(p->arena, "%s.out.%s", c.name, g.out_name[i]),
                       g.out[i]);
    }
    add_loss(r, &c, &g);
    vec_push(p->arena, &r->cases, c);
}

/* ---- comparing ------------------------------------------------------------------------------- */

typedef struct Bound {
    double rtol, atol;
} Bound;

static double largest(const GoldenTensor *t)
{
    double most = 0;
    for (int64_t i = 0; i < t->count; i++) {
        most = isfinite(t->v[i]) ? fmax(most, fabs(t->v[i])) : most;
    }
    return most;
}

/* The tolerances of the reference data. Narrow: one rounding at the end, or arithmetic inside the type. */
static Bound bound_of(const Run *r, const Case *c, const char *part, const char *tensor,
                      const GoldenTensor *want, int steps)
{
    char key[128];
    snprintf(key, sizeof key, "%s/%s", part, tensor);
    const cJSON *t = cJSON_GetObjectItem(cJSON_GetObjectItem(c->json, "tolerance"), key);
    if (r->low == NULL) {
        return (Bound){golden_number(t, "rtol", 0), golden_number(t, "atol", 0)};
    }
    bool bf16 = r->floats == DT_bf16;
    double most = largest(want);
    if (steps <= 1) {
        return (Bound){bf16 ? 0x1p-8 : 0x1p-11, 2e-6 * most + 0x1p-24};
    }
    return (Bound){bf16 ? 0x1p-6 : 0x1p-9, (bf16 ? 0x1p-7 : 0x1p-10) * most};
}

static void compare(Run *r, const Case *c, const GoldenFile *got_file, const char *part,
                    const char *tensor, int steps)
{
    const GoldenTensor *got = golden_find(got_file, "%s.%s.%s", c->name, part, tensor);
    const GoldenTensor *want =
        r->low == NULL ? golden_find(c->file, "%s/%s/%s", c->test, part, tensor)
                       : golden_find(c->file, "%s/%s_%s/%s", c->test, part, r->low, tensor);
    if (want == NULL) {
        return;
    }
    if (got == NULL || got->count != want->count) {
        fprintf(stderr, "%s: no %s of %s\n", c->name, part, tensor);
        r->wrong++;
        return;
    }
    Bound b = bound_of(r, c, part, tensor, want, steps);
    int bad = 0;
    r->compared++;
    for (int64_t i = 0; i < got->count; i++) {
        double x = got->v[i], y = want->v[i];
        bool close = x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= b.atol + b.rtol * fabs(y);
        if (!close && bad++ < 3) {
            fprintf(stderr, "%s: %s of %s: element %lld is %.9g, not %.9g (+- %.3g)\n", c->name,
                    part, tensor, (long long)i, x, y, b.atol + b.rtol * fabs(y));
        }
    }
    r->wrong += bad > 0;
}

static void compare_case(Run *r, const Case *c, const GoldenFile *got)
{
    for (int i = 0; i < c->nout; i++) {
        compare(r, c, got, "out", c->out[i], c->steps);
    }
    const cJSON *in;
    cJSON_ArrayForEach(in, cJSON_GetObjectItem(c->json, "inputs"))
    {
        if (golden_bool(in, "grad") && cJSON_GetObjectItem(c->json, "outputs") != NULL) {
            compare(r, c, got, "gin", golden_string(in, "name"), c->grad_steps);
        }
    }
}

/* ---- the test -------------------------------------------------------------------------------- */

static void add_cases(Run *r, const char *const *names, int part, int parts)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (i % parts != part) {
            continue;
        }
        GoldenFile *file = golden_open("ops", names[i]);
        const cJSON *test;
        cJSON_ArrayForEach(test, cJSON_GetObjectItem(file->json, "cases"))
        {
            add_case(r, file, names[i], test);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fputs("usage: ops_golden PART PARTS f32|bf16|f16 CPU [FLAG...]\n", stderr);
        return 2;
    }
    if (!cpu_runs(argv[4])) {
        return 77;
    }
    Run r = {.p = program_new("golden")};
    dtype_find(argv[3], &r.floats);
    r.low = r.floats == DT_f32 ? NULL : r.floats == DT_bf16 ? "bf16" : "fp16";
    add_cases(&r, golden_op_names, atoi(argv[1]), atoi(argv[2]));
    add_cases(&r, composed_op_names, atoi(argv[1]), atoi(argv[2]));
    bool ok = program_differentiate(r.p);
    for (int i = 0; ok && i < r.cases.n; i++) {
        r.cases.at[i].grad_steps = count_roundings(r.p->m->graphs[i]);
    }
    ok = ok && program_compile(r.p, cpu_flags(r.p->arena, argc - 4, argv + 4));
    GoldenFile *got = ok ? program_run(r.p, NULL) : NULL;
    for (int i = 0; got != NULL && i < r.cases.n; i++) {
        compare_case(&r, &r.cases.at[i], got);
    }
    ok = got != NULL && r.wrong == 0 && r.compared > r.cases.n;
    printf("%d cases, %d tensors compared, %d wrong\n", r.cases.n, r.compared, r.wrong);
    program_done(r.p, !ok);
    return ok ? 0 : 1;
}
