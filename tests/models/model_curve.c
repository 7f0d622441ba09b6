/* model_curve.c: a reference model as a compiled program, from the same initial weights on the same batches.
 *
 *     model_curve MODEL RUN PRECISION [FLAG...]        e.g.  mlp fp16_gradscaler fp16
 *
 * tests/models/MODEL.mpt finds the batches in table.csv, their first in first.csv. RUN is a run of
 * tests/golden/models/MODEL/curves.json. f32: losses and gradient norms within the stated tolerance of the f64 run;
 * so are, where they are known, the loss of the first batch in evaluation, and weights and running statistics, at
 * the end. Others: losses inside the stored band, norms as near to that run's as arithmetic inside the type comes.
 * Further flags go to mpc. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/arena.h"
#include "ir/base/strutil.h"
#include "tests/ops/run_program.h"

enum {
    STEPS = 20,
    /* What is stated for running statistics comes from one run of PyTorch. Adam makes steps of normal size out of the
     * noise of small gradients; with the images in its other layout PyTorch is up to twice that off, too. */
    STATISTICS = 4
};

typedef struct Curve {
    Arena *arena;
    const char *model;
    char *dir;
    const cJSON *runs, *run, *tolerance;
    const char *exact; /* of an f32 run the f64 run that it is held to; NULL */
    double loss[STEPS], norm[STEPS], eval_loss;
    int steps, wrong;
} Curve;

/* ---- files ----------------------------------------------------------------------------------- */

static FILE *create(const Curve *c, const char *name)
{
    FILE *f = fopen(arena_printf(c->arena, "%s/%s", c->dir, name), "w");
    if (f == NULL) {
        perror(name);
        exit(1);
    }
    return f;
}

static void write_table(const Curve *c, const char *name, const GoldenFile *batches, int64_t n)
{
    const GoldenTensor *x = golden_find(batches, "x"), *labels = golden_find(batches, "labels");
    int64_t columns = x->count / labels->count;
    FILE *f = create(c, name);
    for (int64_t i = 0; i < columns; i++) {
        fprintf(f, "x%lld,", (long long)i);
    }
    fputs("label\n", f);
    for (int64_t r = 0; r < n * labels->dims[1]; r++) {
        for (int64_t i = 0; i < columns; i++) {
            fprintf(f, "%.9g,", x->v[r * columns + i]);
        }
        fprintf(f, "%d\n", (int)labels->v[r]);
    }
    fclose(f);
}

/* The step records of log.jsonl. */
static void read_log(Curve *c)
{
    char line[4096];
    FILE *f = fopen(arena_printf(c->arena, "%s/out/log.jsonl", c->dir), "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        cJSON *record = cJSON_Parse(line);
        if (record != NULL && str_eq(golden_string(record, "event"), "step") && c->steps < STEPS) {
            c->loss[c->steps] = golden_number(record, "loss", NAN);
            c->norm[c->steps++] = golden_number(record, "grad_norm", NAN);
        } else if (record != NULL && str_eq(golden_string(record, "event"), "eval")) {
            c->eval_loss = golden_number(record, "loss", NAN);
        }
        cJSON_Delete(record);
    }
    if (f != NULL) {
        fclose(f);
    }
}

static bool run_here(const Curve *c, const char *const *argv, const char *what)
{
    char *log = arena_printf(c->arena, "%s/%s.log", c->dir, what);
    int status = run_command(argv, log);
    if (status != 0) {
        fprintf(stderr, "%s ended with status %d:\n", argv[0], status);
        show_log(log);
    }
    return status == 0;
}

static bool train(Curve *c, int argc, char **argv)
{
    const char *mpc = getenv("MPC"), *source = getenv("MPC_SOURCE_DIR");
    if (mpc == NULL || source == NULL) {
        fputs("MPC and MPC_SOURCE_DIR are not set\n", stderr);
        exit(1);
    }
    char *program = arena_printf(c->arena, "%s/%s", c->dir, c->model);
    const char **compile = ARENA_ARRAY(c->arena, const char *, argc + 8);
    int n = 0;
    compile[n++] = mpc;
    compile[n++] = arena_printf(c->arena, "%s/tests/models/%s.mpt", source, c->model);
    compile[n++] = "-o";
    compile[n++] = program;
    compile[n++] = arena_printf(c->arena, "--precision=%s", argv[0]);
    for (int i = 1; i < argc; i++) {
        compile[n++] = argv[i];
    }
    const char *run[] = {
        program,
        "--data",
        c->dir,
        "--init",
        arena_printf(c->arena, "%s/tests/golden/models/%s/model.safetensors", source, c->model),
        "--out",
        arena_printf(c->arena, "%s/out", c->dir),
        NULL};
    return run_here(c, compile, "mpc") && run_here(c, run, "run");
}

/* ---- comparing ------------------------------------------------------------------------------- */

static double at(const cJSON *run, const char *key, int step)
{
    return golden_item(cJSON_GetArrayItem(cJSON_GetObjectItem(run, key), step));
}

static void expect(Curve *c, const char *what, int step, double got, double low, double high)
{
    if (!(got >= low && got <= high)) {
        fprintf(stderr, "step %d: %s is %.9g, outside of %.9g .. %.9g\n", step, what, got, low,
                high);
        c->wrong++;
    }
}

static void near(Curve *c, const char *what, int step, double got, double want, double rtol)
{
    double room = rtol * fabs(want);
    expect(c, what, step, got, want - room, want + room);
}

/* How far PyTorch's own run in this type is from the f64 run, relatively. Another one may be as far on the other
 * side, and so twice that away. */
static double run_spread(const Curve *c, const cJSON *f64)
{
    double most = 0;
    for (int s = 0; s < STEPS; s++) {
        double exact = at(f64, "grad_norm", s);
        most = fmax(most, fabs(at(c->run, "grad_norm", s) - exact) / exact);
    }
    return most;
}

static void compare_curves(Curve *c, double narrow)
{
    const cJSON *f64 = cJSON_GetObjectItem(c->runs, c->exact != NULL ? c->exact : "f64");
    narrow += 2 * run_spread(c, f64);
    double rtol = golden_number(cJSON_GetObjectItem(c->tolerance, "loss"), "rtol", 0);
    double norm_rtol = golden_number(cJSON_GetObjectItem(c->tolerance, "grad_norm"), "rtol", 0);
    for (int s = 0; s < c->steps; s++) {
        if (c->exact) {
            near(c, "loss", s, c->loss[s], at(f64, "loss", s), rtol);
            near(c, "gradient norm", s, c->norm[s], at(f64, "grad_norm", s), norm_rtol);
        } else {
            expect(c, "loss", s, c->loss[s], at(c->run, "lo", s), at(c->run, "hi", s));
            near(c, "gradient norm", s, c->norm[s], at(c->run, "grad_norm", s), narrow);
        }
    }
}

static void compare_weights(Curve *c)
{
    GoldenFile *want = golden_open(arena_printf(c->arena, "models/%s", c->model), "final");
    GoldenFile *got = golden_read(arena_printf(c->arena, "%s/out/model.safetensors", c->dir));
    const cJSON *final = cJSON_GetObjectItem(c->tolerance, "final");
    for (int i = 0; i < want->ntensors; i++) {
        const GoldenTensor *w = &want->tensors[i], *g = golden_find(got, "%s", w->name);
        double atol = golden_number(cJSON_GetObjectItem(final, w->name), "atol", 0);
        atol *= strstr(w->name, ".running_") != NULL ? STATISTICS : 1;
        for (int64_t k = 0; k < w->count; k++) {
            double x = g != NULL && g->count == w->count ? g->v[k] : NAN;
            expect(c, w->name, STEPS, x, w->v[k] - atol, w->v[k] + atol);
        }
    }
    golden_close(got);
    golden_close(want);
}

static void compare(Curve *c, const char *run)
{
    compare_curves(c, str_eq(run, "bf16") ? 0x1p-6 : 0x1p-9);
    if (c->exact != NULL && !isnan(c->eval_loss)) {
        const cJSON *f64 = cJSON_GetObjectItem(c->runs, c->exact);
        near(c, "loss in evaluation", STEPS, c->eval_loss, golden_number(f64, "eval_loss", NAN),
             golden_number(cJSON_GetObjectItem(c->tolerance, "loss"), "rtol", 0));
    }
    if (str_eq(run, "f32")) {
        compare_weights(c);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fputs("usage: model_curve MODEL RUN PRECISION [FLAG...]\n", stderr);
        return 2;
    }
    const char *run = argv[2], *tmp = getenv("TMPDIR");
    Curve c = {.arena = arena_new(), .model = argv[1], .eval_loss = NAN};
    c.exact = str_eq(run, "f32") ? "f64" : str_eq(run, "f32_accum4") ? "f64_accum4" : NULL;
    c.dir = arena_printf(c.arena, "%s/mpc-curve-XXXXXX", tmp != NULL ? tmp : P_tmpdir);
    if (mkdtemp(c.dir) == NULL) {
        perror(c.dir);
        return 1;
    }
    const char *golden = arena_printf(c.arena, "models/%s", c.model);
    GoldenFile *curves = golden_open(golden, "curves");
    GoldenFile *batches = golden_open(golden, "batches");
    const cJSON *variant =
        cJSON_GetObjectItem(cJSON_GetObjectItem(curves->json, "variants"), "default");
    c.runs = cJSON_GetObjectItem(variant, "runs");
    c.run = cJSON_GetObjectItem(c.runs, run);
    c.tolerance = cJSON_GetObjectItem(variant, "tolerance");
    write_table(&c, "table.csv", batches, golden_find(batches, "labels")->dims[0]);
    write_table(&c, "first.csv", batches, 1);
    bool ok = c.run != NULL && train(&c, argc - 3, argv + 3);
    if (ok) {
        read_log(&c);
        compare(&c, run);
        printf("%s %s: %d steps, loss %.6f to %.6f, %d values wrong\n", c.model, run, c.steps,
               c.loss[0], c.loss[STEPS - 1], c.wrong);
    }
    ok = ok && c.steps == STEPS && c.wrong == 0;
    const char *const clean[] = {"rm", "-rf", c.dir, NULL};
    if (ok) {
        run_command(clean, NULL);
    } else {
        fprintf(stderr, "left in %s\n", c.dir);
    }
    return ok ? 0 : 1;
}
