/* test_pass_manager.c: order, resuming from text, switching off, dumps; and that --verify-passes notices when a
 * pass changes what a graph means. */
#include <sys/wait.h>
#include <unistd.h>

#include "pass_golden.h"
#include "passes/ctx.h"

static const char *const params[] = {"w", "b"};

/* Two linear layers that share nothing but a loss, trained in fp16. */
static Machine program(void)
{
    Machine mc = machine_new("program");
    Graph *g = graph_new(mc.arena, "step", GRAPH_Step);
    module_graph(mc.m, g);
    uint8_t sym = (uint8_t)graph_sym(g, "B", 16);
    Dims x = {2, {{.k = 1, .sym = {sym, 0}}, dim_of(5)}}, y = {1, {x.d[0]}};
    Dims w = {2, {dim_of(3), dim_of(5)}}, b = {1, {dim_of(3)}};
    Builder at = {.graph = g, .diag = mc.diag, .amp = DT_f16};
    Node *in = add_arg(&mc, &at, ATTR_batch, "x", DT_f32, &x);
    Node *labels = add_arg(&mc, &at, ATTR_batch, "y", DT_u8, &y);
    Node *weight = add_arg(&mc, &at, ATTR_param, "w", DT_f32, &w);
    Node *bias = add_arg(&mc, &at, ATTR_param, "b", DT_f32, &b);
    Node *logits = build1(&at, OP_tanh, build_linear(&at, in, weight, bias, DT_none));
    Node *loss = build(&at, OP_cross_entropy, 2, (Node *[]){logits, labels}, (Attrs){0});
    graph_result(g, RESULT_Host, "loss", loss);
    at.amp = DT_none;
    add_scaler(&mc, "scaler", 1024, 2, 0.5, 10);
    Decl *d = add_optimizer(&mc, "opt", "adamw", 2, params);
    set_hyper(&mc, d, ATTR_weight_decay, 0.01);
    Node *t = add_mark(&mc, &at, OP_scale_loss, loss, NULL, "scaler");
    t = add_mark(&mc, &at, OP_backward, t, NULL, NULL);
    t = add_mark(&mc, &at, OP_unscale, t, "opt", "scaler");
    t = add_mark(&mc, &at, OP_clip_grad_norm, t, NULL, NULL);
    attrs_set_float(mc.arena, &t->attrs, ATTR_max_norm, 1);
    t = add_mark(&mc, &at, OP_optimizer_step, t, "opt", "scaler");
    add_mark(&mc, &at, OP_scaler_update, t, NULL, "scaler");
    return mc;
}

static char *text_of(const Module *m)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    module_print(f, m);
    fclose(f);
    return text;
}

static char *scratch_path(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "mpc-pass-%ld-%s", (long)getpid(), name);
    return path;
}

/* After each pass: print, read, go on: the same module as in one go. */
static void test_resumes_from_text(void **unused)
{
    (void)unused;
    Machine whole = program();
    PassOptions all = {.verify_ir = true};
    assert_true(passes_run(whole.m, &all, whole.diag));
    char *want = text_of(whole.m);
    Machine parts = program();
    Module *m = parts.m;
    for (int i = 0; i < PASS_COUNT; i++) {
        PassOptions one = {.verify_ir = true, .stop_after = pass_info[i].name};
        assert_true(passes_run(m, &one, parts.diag));
        assert_string_equal(m->last_pass, pass_info[i].name);
        char *path = scratch_path("part.ir");
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        module_print(f, m);
        fclose(f);
        m = module_read(parts.arena, parts.diag, path);
        unlink(path);
        assert_non_null(m);
    }
    char *got = text_of(m);
    /* the reader names the file that it read as the place of what has none */
    assert_int_equal(strlen(got), strlen(want));
    assert_string_equal(got, want);
    free(got);
    free(want);
    arena_free(whole.arena);
    arena_free(parts.arena);
}

static void test_switched_off(void **unused)
{
    (void)unused;
    Machine mc = program();
    const char *off[] = {"autocast", "master"};
    PassOptions opt = {.ndisabled = 2, .disabled = off, .verify_passes = true};
    assert_true(passes_run(mc.m, &opt, mc.diag));
    for (int i = 0; i < mc.m->ntensors; i++) {
        assert_int_not_equal(mc.m->tensors[i]->role, TENSOR_working);
    }
    assert_string_equal(mc.m->last_pass, pass_info[PASS_COUNT - 1].name);
    arena_free(mc.arena);
}

static void test_dumps(void **unused)
{
    (void)unused;
    Machine mc = program();
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    PassOptions opt = {.dump_after = "autodiff", .dump = f, .stop_after = "scaling"};
    assert_true(passes_run(mc.m, &opt, mc.diag));
    fclose(f);
    assert_non_null(strstr(text, "mpc-ir 1 after autodiff"));
    assert_null(strstr(text, "after scaling"));
    assert_string_equal(mc.m->last_pass, "scaling");
    free(text);
    arena_free(mc.arena);
}

/* An internal error leaves the IR that went into the pass. */
static void test_reproducer(void **unused)
{
    (void)unused;
    Machine mc = program();
    PassOptions opt = {.stop_after = "autodiff"};
    assert_true(passes_run(mc.m, &opt, mc.diag));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL) {
            _exit(1);
        }
        opt.stop_after = NULL;
        mc.m->ndecls = 0; /* markers now name what is not there */
        passes_run(mc.m, &opt, mc.diag);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 70);
    FILE *f = fopen("program.before-scaling.ir", "r");
    assert_non_null(f);
    char line[64];
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "mpc-ir 1 after accumulate\n");
    fclose(f);
    unlink("program.before-scaling.ir");
    arena_free(mc.arena);
}

/* ---- verification -------------------------------------------------------------------------------- */

static Node *find(const Module *m, Op op)
{
    const Graph *g = m->graphs[0];
    for (int i = 0; i < g->nnodes; i++) {
        if (g->nodes[i]->op == op) {
            return g->nodes[i];
        }
    }
    fail_msg("there is no %s", op_info[op].name);
    return NULL;
}

static bool verified(const Machine *mc, PassId id, const Module *before)
{
    PassCounts counts = {0};
    PassOptions opt = {.seed = 1};
    Diag *silent = diag_new(mc->arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
    PassCtx c = {mc->m, &opt, silent, mc->arena, mc->arena, &counts};
    return verify_pass(&c, id, before);
}

/* Runs up to `id`, lets `spoil` change the module, and asks the verification. */
static void notices(PassId id, void (*spoil)(Module *m))
{
    Machine mc = program();
    PassOptions opt = {.stop_after = id > 0 ? pass_info[id - 1].name : NULL};
    if (id > 0) {
        assert_true(passes_run(mc.m, &opt, mc.diag));
    }
    Module *before = verify_copy(mc.arena, mc.m);
    opt.stop_after = pass_info[id].name;
    assert_true(passes_run(mc.m, &opt, mc.diag));
    assert_true(verified(&mc, id, before));
    spoil(mc.m);
    assert_false(verified(&mc, id, before));
    arena_free(mc.arena);
}

static void other_function(Module *m)
{
    find(m, OP_tanh)->op = OP_sigmoid;
}

static void other_backward(Module *m)
{
    find(m, OP_sum)->op = OP_mean;
}

static void no_epsilon(Module *m)
{
    for (int i = 0; i < m->graphs[0]->nnodes; i++) {
        Node *n = m->graphs[0]->nodes[i];
        if (n->op == OP_const && attrs_float(&n->attrs, ATTR_value, 0) == 1e-8) {
            attrs_set_float(m->arena, &n->attrs, ATTR_value, 1e-3);
        }
    }
}

/* isfinite(sum) becomes sum != 1, which also holds for infinities and NaN. */
static void no_skip(Module *m)
{
    Node *n = find(m, OP_isfinite), *one = find(m, OP_const);
    n->op = OP_ne;
    n->nin = 2;
    n->in = arena_copy(m->arena, (Node *[]){n->in[0], one}, 2 * sizeof *n->in);
}

/* The working copy is no longer the master's next value. */
static void other_copy(Module *m)
{
    const Graph *g = m->graphs[0];
    for (int i = 0; i < g->nresults; i++) {
        Node *n = g->results[i].value;
        if (str_eq(g->results[i].name, "w.f16") && n->op == OP_cast) {
            n->in[0] = n->in[0]->in[1]; /* where(bad, old, new): the old one */
        }
    }
}

static void other_order(Module *m)
{
    Node *n = find(m, OP_div);
    Node *first = n->in[0];
    n->in[0] = n->in[1];
    n->in[1] = first;
}

static void test_notices_changes(void **unused)
{
    (void)unused;
    notices(PASS_autocast, other_function);
    notices(PASS_scaling, no_epsilon);
    notices(PASS_scaling, no_skip);
    notices(PASS_autodiff, other_backward);
    notices(PASS_simplify, other_order);
    notices(PASS_simplify, other_copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resumes_from_text),
        cmocka_unit_test(test_switched_off),
        cmocka_unit_test(test_dumps),
        cmocka_unit_test(test_reproducer),
        cmocka_unit_test(test_notices_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
