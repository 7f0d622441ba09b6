/* optimizer_program.c: ten updates by every reference optimizer that we have, compiled into one program.
 *
 * Each variant of tests/golden/optimizers gets parameters, an optimizer and a graph of its own. The prescribed
 * gradients are the batch, one row a step: loss = sum(w * grad_w) + sum(b * grad_b). A state holds what the
 * parameters were before each of the last ten steps. */
#include <math.h>
#include <string.h>

#include "ir/base/strutil.h"
#include "tests/ops/run_program.h"

enum { STEPS = 10 };

static const Dims dims_of[2] = {{.rank = 2, .d = {{.k = 3}, {.k = 5}}},
                                {.rank = 1, .d = {{.k = 5}}}};
static const char *const letter[2] = {"w", "b"};

/* ---- what there is --------------------------------------------------------------------------- */

static bool is_ours(const cJSON *variant)
{
    const cJSON *args = cJSON_GetObjectItem(variant, "args");
    const char *class = golden_string(variant, "class");
    bool known = str_eq(class, "torch.optim.SGD") || str_eq(class, "torch.optim.Adam") ||
                 str_eq(class, "torch.optim.AdamW");
    return known && !golden_bool(args, "maximize") && !golden_bool(args, "amsgrad") &&
           cJSON_GetObjectItem(variant, "groups") == NULL &&
           cJSON_GetObjectItem(variant, "note") == NULL;
}

static void set_number(Program *p, Decl *d, AttrId id, double x)
{
    attrs_set_expr(p->arena, &d->attrs, id, host_num(p->arena, x, HT_float));
}

static void declare_optimizer(Program *p, const cJSON *variant)
{
    const char *name = golden_string(variant, "name"), *class = golden_string(variant, "class");
    const cJSON *args = cJSON_GetObjectItem(variant, "args");
    const cJSON *betas = cJSON_GetObjectItem(args, "betas");
    Decl *d = module_decl(p->m, DECL_optimizer, name);
    const char *params[2] = {arena_printf(p->arena, "%s.w", name),
                             arena_printf(p->arena, "%s.b", name)};
    attrs_set_strs(p->arena, &d->attrs, ATTR_params, 2, params);
    set_number(p, d, ATTR_base_lr, golden_number(args, "lr", 0));
    set_number(p, d, ATTR_weight_decay, golden_number(args, "weight_decay", 0));
    if (betas != NULL) {
        attrs_set_str(p->arena, &d->attrs, ATTR_kind,
                      str_eq(class, "torch.optim.Adam") ? "adam" : "adamw");
        set_number(p, d, ATTR_beta1, golden_item(cJSON_GetArrayItem(betas, 0)));
        set_number(p, d, ATTR_beta2, golden_item(cJSON_GetArrayItem(betas, 1)));
        set_number(p, d, ATTR_eps, golden_number(args, "eps", 1e-8));
        return;
    }
    attrs_set_str(p->arena, &d->attrs, ATTR_kind, "sgd");
    set_number(p, d, ATTR_momentum, golden_number(args, "momentum", 0));
    set_number(p, d, ATTR_dampening, golden_number(args, "dampening", 0));
    attrs_set_bool(p->arena, &d->attrs, ATTR_nesterov, golden_bool(args, "nesterov"));
}

/* ---- the graph ------------------------------------------------------------------------------- */

static Node *field(Program *p, Builder *b, const char *name, const Dims *each)
{
    Attrs as = {0};
    attrs_set_str(p->arena, &as, ATTR_batch, name);
    Dims d = {.rank = each->rank + 1};
    d.d[0] = (Dim){.k = 1, .sym = {(uint8_t)graph_sym(b->graph, "B", 1), 0}};
    memcpy(d.d + 1, each->d, sizeof d.d[0] * (size_t)each->rank);
    return build_arg(b, DT_f32, &d, as);
}

static Node *with_ints(Program *p, Builder *b, Op op, int nin, Node **in, int64_t start,
                       int64_t stop)
{
    Attrs as = {0};
    attrs_set_int(p->arena, &as, ATTR_axis, 0);
    if (op == OP_slice) {
        attrs_set_int(p->arena, &as, ATTR_start, start);
        attrs_set_int(p->arena, &as, ATTR_stop, stop);
        attrs_set_int(p->arena, &as, ATTR_step, 1);
    }
    return build(b, op, nin, in, as);
}

/* [STEPS, ..]: the oldest row makes room for what x is now. */
static void remember(Program *p, Builder *b, const char *name, Node *x)
{
    Dims row = {.rank = x->dims.rank + 1, .d = {dim_of(1)}};
    memcpy(row.d + 1, x->dims.d, sizeof row.d[0] * (size_t)x->dims.rank);
    Dims all = row;
    all.d[0] = dim_of(STEPS);
    Node *old = program_state(p, b, name, DT_f32, &all, NULL);
    Node *rows[] = {with_ints(p, b, OP_slice, 1, &old, 1, STEPS), build_reshape(b, x, &row)};
    program_result(p, b->graph, name, with_ints(p, b, OP_concat, 2, rows, 0, 0));
}

static Node *mark(Program *p, Builder *b, Op op, Node *x, AttrId id, const char *s)
{
    Attrs as = {0};
    attrs_set_str(p->arena, &as, id, s);
    return build(b, op, 1, &x, as);
}

static void add_variant(Program *p, const GoldenFile *file, const cJSON *variant)
{
    const char *name = golden_string(variant, "name");
    const cJSON *clip = cJSON_GetObjectItem(variant, "clip");
    Builder b = {.graph = program_graph(p, name), .diag = p->diag};
    Node *loss = NULL;
    declare_optimizer(p, variant);
    for (int i = 0; i < 2; i++) {
        const char *param = arena_printf(p->arena, "%s.%s", name, letter[i]);
        Node *x = program_param(p, &b, param, DT_f32, &dims_of[i],
                                golden_find(file, "problem/%s0", letter[i])->v);
        Node *g = field(p, &b, i == 0 ? "gw" : "gb", &dims_of[i]);
        Node *part = build_reduce(&b, OP_sum, build2(&b, OP_mul, x, g), -1, NULL, false);
        loss = loss == NULL ? part : build2(&b, OP_add, loss, part);
        remember(p, &b, arena_printf(p->arena, "%s.before", param), x);
    }
    Node *grads = mark(p, &b, OP_backward, loss, ATTR_model, name);
    if (clip != NULL) {
        bool by_norm = str_eq(golden_string(clip, "by"), "norm");
        Attrs as = {0};
        attrs_set_str(p->arena, &as, ATTR_model, name);
        attrs_set_float(p->arena, &as, by_norm ? ATTR_max_norm : ATTR_clip_value,
                        golden_number(clip, "limit", 0));
        grads = build(&b, by_norm ? OP_clip_grad_norm : OP_clip_grad_value, 1, &grads, as);
    }
    mark(p, &b, OP_optimizer_step, grads, ATTR_optimizer, name);
}

static void write_gradients(Program *p, const GoldenFile *file)
{
    const GoldenTensor *w = golden_find(file, "problem/grad_w");
    const GoldenTensor *bias = golden_find(file, "problem/grad_b");
    program_field(p, "gw: f32[3,5]", "w0..w14");
    program_field(p, "gb: f32[5]", "b0..b4");
    for (int i = 0; i < 20; i++) {
        text_printf(p->table, i < 15 ? "w%d," : i < 19 ? "b%d," : "b%d\n", i < 15 ? i : i - 15);
    }
    for (int s = 0; s < STEPS; s++) {
        for (int i = 0; i < 20; i++) {
            double x = i < 15 ? w->v[s * 15 + i] : bias->v[s * 5 + i - 15];
            text_printf(p->table, "%.9g%s", x, i < 19 ? "," : "\n");
        }
    }
    p->rows = STEPS;
    p->batch = 1;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static int compare(const GoldenFile *file, const cJSON *variant, const GoldenFile *got, int which)
{
    const char *name = golden_string(variant, "name"), *param = letter[which];
    const cJSON *limit = cJSON_GetObjectItem(cJSON_GetObjectItem(variant, "tolerance"), param);
    double rtol = golden_number(limit, "rtol", 0), atol = golden_number(limit, "atol", 0);
    const GoldenTensor *want = golden_find(file, "%s/%s", name, param);
    const GoldenTensor *before = golden_find(got, "%s.%s.before", name, param);
    const GoldenTensor *last = golden_find(got, "%s.%s", name, param);
    int wrong = 0;
    for (int64_t i = 0; i < want->count; i++) {
        double x = i < before->count ? before->v[i] : last->v[i - before->count], y = want->v[i];
        if (!(fabs(x - y) <= atol + rtol * fabs(y)) && wrong++ < 3) {
            fprintf(stderr, "%s: %s after %d steps: element %d is %.9g, not %.9g (+- %.3g)\n", name,
                    param, (int)(i / last->count), (int)(i % last->count), x, y,
                    atol + rtol * fabs(y));
        }
    }
    return wrong > 0;
}

int main(int argc, char **argv)
{
    Program *p = program_new("optimizers");
    GoldenFile *file = golden_open("optimizers", "optimizers");
    const cJSON *variants = cJSON_GetObjectItem(file->json, "variants"), *variant;
    int n = 0, wrong = 0;
    write_gradients(p, file);
    cJSON_ArrayForEach(variant, variants)
    {
        if (is_ours(variant)) {
            add_variant(p, file, variant);
            n++;
        }
    }
    bool ok = program_compile(p, (const char *const *)(argc > 1 ? argv + 1 : NULL));
    GoldenFile *got = ok ? program_run(p, NULL) : NULL;
    cJSON_ArrayForEach(variant, variants)
    {
        for (int i = 0; got != NULL && is_ours(variant) && i < 2; i++) {
            wrong += compare(file, variant, got, i);
        }
    }
    printf("%d optimizers, %d trajectories wrong\n", n, wrong);
    ok = got != NULL && wrong == 0 && n >= 16;
    program_done(p, !ok);
    return ok ? 0 : 1;
}
