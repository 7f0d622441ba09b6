/* test_rt_progress.c: the remaining time, after a fifth of a run whose clocks are set by hand, is within a tenth
 * of what is left, at any batch: evaluations behind each pass or every so many updates, checkpoints, --max-steps,
 * a run that was continued. */
#include "rt_fixture.h"
#include "rt_run.h"

#include <math.h>

enum { EPOCHS = 10, BATCHES = 100 };
static const double batch_s = 0.01, evaluation_s = 0.7, save_s = 0.2;

typedef struct Plan {
    int every; /* an evaluation every so many batches; 0: behind each pass */
    int most;  /* --max-steps; 0: none */
    int from;  /* batches of the process before */
    bool evaluates;
} Plan;

static const MpcLoaderDecl loaders[] = {{.name = "train", .training = true}};
static const MpcProgram program = {.name = "p", .loaders = loaders, .n_loaders = 1};

/* The clocks behind `n` batches; seconds of this process so far. */
static double set_clocks(MpcRun *r, const Plan *plan, int n)
{
    RtProgress *p = &r->rt->progress;
    int passes = n / BATCHES, inside = plan->every ? n / plan->every : 0;
    int behind = plan->evaluates && !plan->every ? passes : 0;
    *p = (RtProgress){.epochs = EPOCHS,
                      .batches = BATCHES,
                      .batches_done = n,
                      .samples = n * 8,
                      .passes_done = passes,
                      .evaluations = inside + behind,
                      .training = {.total = n * batch_s, .since = -1},
                      .evaluating = (inside + behind) * evaluation_s,
                      .inside = {inside, inside * plan->every},
                      .behind = {behind, behind}};
    r->step = n;
    r->rt->options.max_steps = plan->most ? plan->most : -1;
    return n * batch_s + (inside + behind) * evaluation_s + passes * save_s;
}

static void estimates(const Plan *plan)
{
    MpcRuntime rt = {.lock = -1};
    MpcRun run = {.program = &program, .rt = &rt};
    int all = plan->most ? plan->most : EPOCHS * BATCHES;
    double whole = set_clocks(&run, plan, all), before = set_clocks(&run, plan, plan->from);
    RtProgress then = rt.progress;
    for (int n = plan->from + 1; n < all; n++) {
        double now = set_clocks(&run, plan, n);
        if (now < whole / 5)
            continue;
        rt.progress.started = before;
        rt.progress.batches_before = then.batches_done;
        rt.progress.training_before = then.training.total;
        rt.progress.evaluating_before = then.evaluating;
        double left = rt_progress_remaining(&run, now), total = now + left;
        if (!(fabs(total - whole) <= whole / 10))
            fail_msg("after %d batches of %d the run is said to take %g s, but takes %g", n, all,
                     total, whole);
    }
}

static void whole_runs(void **state)
{
    static const Plan plans[] = {
        {.evaluates = false},
        {.evaluates = true},
        {.evaluates = true, .every = 30},
        {.evaluates = true, .most = 450},
        {.evaluates = true, .every = 70, .most = 900},
        {.evaluates = true, .from = 430},
        {.evaluates = true, .every = 30, .from = 210},
    };
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        estimates(&plans[i]);
}

static size_t columns_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Wide: everything. Narrow: no part is cut, and the loss and the remaining time stay longest. */
static void bars_fit(void **state)
{
    (void)state;
    MpcRuntime rt = {.lock = -1};
    MpcRun run = {.program = &program, .rt = &rt, .epoch = 4};
    static const Plan plan = {.evaluates = true};
    char text[512];
    double so_far = set_clocks(&run, &plan, 450);
    RtProgress *p = &rt.progress;
    p->started = rt_seconds() - so_far; /* however long the machine has been up */
    p->batch = 50;
    p->loss_sum = 1.25;
    p->loss_n = 1;
    p->n_values = 1;
    strcpy(p->name[0], "accuracy");
    p->value[0] = 0.5;
    rt.last = (MpcStep){.has_lr = true, .lr = 0.002, .has_scale = true, .scale = 65536};
    for (int columns = 120; columns >= 24; columns--) {
        p->columns = columns;
        rt_progress_bar(&run, text, sizeof text);
        if (columns_of(text) >= (size_t)columns)
            fail_msg("%d columns: %zu: \"%s\"", columns, columns_of(text), text);
        assert_true(strstr(text, "epoch 5/10"));
        assert_true(strstr(text, "loss 1.250"));
        assert_true(!strstr(text, "scale") || strstr(text, "scale 65536"));
        assert_true(!strstr(text, "lr") || strstr(text, "lr 2.0e-03"));
        assert_true(columns < 40 || strstr(text, "ETA "));
        assert_true(columns < 110 || (strstr(text, "50/100") && strstr(text, "accuracy 0.500") &&
                                      strstr(text, "scale 65536") && strstr(text, "samples/s")));
    }
    /* several optimizers: the rate of each instead */
    static const MpcValue own[] = {{"lr/g", 0.25}, {"lr/d", 0.5}};
    rt.last.own = own;
    rt.last.n_own = 2;
    p->columns = 160;
    rt_progress_bar(&run, text, sizeof text);
    assert_true(strstr(text, "  lr/g 0.25  lr/d 0.5  scale 65536"));
    assert_null(strstr(text, "lr 2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_runs), cmocka_unit_test(bars_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
