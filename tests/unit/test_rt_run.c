/* test_rt_run.c: whole runs of a program that is written out here: what they leave behind, how they stop,
 * with which status. Each run is a process of its own. */
#include "rt_fixture.h"
#include "rt_run.h"
#include "rt_safetensors.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>

enum { ROWS = 50, BATCH = 8 };
enum { OPT_behave, OPT_epochs };

static const MpcOption options[] = {
    {.name = "behave", .type = MPC_OPTION_string, .text = "well", .origin = "r.mpt:1"},
    {.name = "epochs", .type = MPC_OPTION_int, .number = 3, .origin = "r.mpt:2"},
};
static const MpcColumns x_columns[] = {{"x0", "x2"}};
static const MpcField fields[] = {
    {.name = "x",
     .dtype = MPC_DT_f32,
     .rank = 1,
     .dims = {3},
     .columns = x_columns,
     .n_columns = 1},
    {.name = "label", .dtype = MPC_DT_i32},
};
static const char *const paths[] = {"table.csv"};
static const MpcData data[] = {{.name = "t",
                                .kind = MPC_DATA_csv,
                                .paths = paths,
                                .n_paths = 1,
                                .fields = fields,
                                .n_fields = 2}};
static const MpcSet sets[] = {{.name = "t", .data = 0, .parent = -1},
                              {.name = "part", .parent = 0, .begin = 0, .end = 0.3, .seed = 1}};
static const MpcLabelCheck checks[] = {{.set = 0, .field = 1, .classes = 3, .line = 12}};
static const MpcLoaderDecl loaders[] = {
    {.name = "train", .set = 0, .batch_max = BATCH, .shuffle = true, .training = true},
    {.name = "test", .set = 1, .batch_max = 4},
};
static const MpcTensor tensors[] = {
    {.name = "fc.weight",
     .role = MPC_ROLE_param,
     .dtype = MPC_DT_f32,
     .rank = 1,
     .dims = {300},
     .offset = 0,
     .init = MPC_INIT_uniform,
     .a = -1,
     .b = 1,
     .used_as = MPC_DT_f16},
    {.name = "bn.mean",
     .role = MPC_ROLE_state,
     .dtype = MPC_DT_f32,
     .rank = 1,
     .dims = {5},
     .offset = 4096,
     .init = MPC_INIT_normal,
     .a = 0,
     .b = 1},
    {.name = "scale",
     .role = MPC_ROLE_scaler,
     .dtype = MPC_DT_f32,
     .rank = 0,
     .offset = 8192,
     .init = MPC_INIT_constant,
     .a = 65536},
};

static float *weight(MpcRun *r)
{
    return (float *)(void *)r->arena;
}

static void refresh(MpcRun *r)
{
    /* A working copy behind the master. */
    weight(r)[400] = weight(r)[0];
}

static const MpcMetric metrics[] = {{.name = "loss", .kind = MPC_METRIC_mean},
                                    {.name = "accuracy", .kind = MPC_METRIC_accuracy}};

static double evaluate(MpcRun *r)
{
    MpcLoader *l = mpc_loader_open(r, 1, 4);
    MpcEval e;
    MpcBatch b;
    double means[2], cells[2];
    mpc_eval_begin(r, &e, "part", metrics, 2, cells, l);
    while (mpc_loader_next(l, &b)) {
        double n = (double)b.n;
        MpcSeen seen[2] = {{.number = n}, {.number = (double)(float)(1 / n)}}; /* one hit a batch */
        mpc_eval_add(r, &e, seen, b.n);
    }
    mpc_eval_end(r, &e, l, means);
    return means[1];
}

static void evaluate_all(MpcRun *r)
{
    evaluate(r);
}

static void one_step(MpcRun *r, const MpcBatch *b, const char *behave)
{
    bool nan = !strcmp(behave, "nan") && r->step == 4,
         skip = !strcmp(behave, "skip") && r->step >= 2;
    bool once = !strcmp(behave, "once") && r->step == 2;
    double loss = nan ? (double)NAN : 1.0 / (1 + (double)r->step);
    if (!strcmp(behave, "term") && r->step == 4)
        raise(SIGTERM);
    if (!strcmp(behave, "fail") && r->step == 4)
        mpc_fail(r, "do something", "it went wrong at %d", 4);
    weight(r)[0] += (float)((const int32_t *)b->field[1])[0];
    mpc_step_done(r, &(MpcStep){.samples = b->n,
                                .has_loss = true,
                                .loss = loss,
                                .has_lr = true,
                                .lr = 0.5,
                                .has_scale = true,
                                .scale = 1024,
                                .scale_next = skip || once ? 512 : 1024,
                                .skipped = skip || once,
                                .max_skips = 20,
                                .tensor = "fc.weight",
                                .op = "linear",
                                .line = 12,
                                .n_own = 1,
                                .own = r->step % 2 ? &(MpcValue){"lr/a", 0.5 + (double)r->step}
                                                   : &(MpcValue){"lr/b", 0.25}});
    mpc_log_step(r, (MpcValue[]){{"loss", loss}, {"extra", 2}}, 2);
}

static void run(MpcRun *r)
{
    const char *behave = mpc_option_string(r, OPT_behave);
    MpcLoader *l = mpc_loader_open(r, 0, BATCH);
    MpcBatch b;
    double best = 0;
    int64_t epochs = mpc_epochs(r, mpc_option_int(r, OPT_epochs));
    assert(weight(r)[400] == weight(r)[0]);
    for (int64_t epoch = 0; epoch < epochs && !mpc_stopping(r); epoch++) {
        mpc_loader_begin(l, 0);
        while (mpc_loader_next(l, &b))
            one_step(r, &b, behave);
        mpc_loader_end(l);
        double accuracy = evaluate(r);
        if (accuracy > best) {
            best = accuracy;
            mpc_save(r, "best");
        }
    }
}

static const MpcProgram program = {
    .name = "r",
    .source = "r.mpt",
    .home = ".",
    .version = "0.1",
    .precision = "fp16 (all of it)",
    .precision_key = "fp16",
    .math = "exact",
    .cpu = "generic",
    .cpu_needs = "",
    .options = options,
    .n_options = 2,
    .data = data,
    .n_data = 1,
    .sets = sets,
    .n_sets = 2,
    .label_checks = checks,
    .n_label_checks = 1,
    .loaders = loaders,
    .n_loaders = 2,
    .tensors = tensors,
    .n_tensors = 3,
    .parameters = 300,
    .arena_bytes = 8196,
    .scratch_bytes = 64,
    .host_bytes = 8,
    .refresh = refresh,
    .run = run,
    .evaluate = evaluate_all,
};

/* ---- one run ---- */

static char printed[2][20000]; /* stdout, stderr */

static void read_into(char *out, size_t size, const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    out[fread(out, 1, size - 1, f)] = 0;
    fclose(f);
}

/* Words are separated by blanks. Gives the exit status. */
static int start(const MpcProgram *p, const char *line)
{
    char words[300], *argv[32] = {words}, *save = NULL;
    int argc = 1, status;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok_r(words, " ", &save); word && argc < 31;
         word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        if (!freopen("stdout.txt", "w", stdout) || !freopen("stderr.txt", "w", stderr))
            _exit(99);
        setvbuf(stderr, NULL, _IONBF, 0); /* as it is for a process's own */
        _exit(rt_main(p, argc, argv));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    read_into(printed[0], sizeof printed[0], "stdout.txt");
    read_into(printed[1], sizeof printed[1], "stderr.txt");
    if (!WIFEXITED(status))
        fail_msg("%s: killed by signal %d", line, WTERMSIG(status));
    return WEXITSTATUS(status);
}

static void runs(const char *line, int status)
{
    int got = start(&program, line);
    if (got != status)
        fail_msg("%s: status %d, not %d; it said: %s", line, got, status, printed[1]);
}

typedef struct Log {
    cJSON *line[500];
    int n;
} Log;

static Log read_log(const char *path)
{
    static char text[200000];
    Log log = {.n = 0};
    read_into(text, sizeof text, path);
    for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
        *end = 0;
        log.line[log.n] = cJSON_Parse(at);
        if (!log.line[log.n])
            fail_msg("no JSON: %s", at);
        log.n++;
    }
    return log;
}

static void free_log(Log *log)
{
    for (int i = 0; i < log->n; i++)
        cJSON_Delete(log->line[i]);
}

static const char *event(const cJSON *line)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(line, "event"));
}

static int events(const Log *log, const char *name)
{
    int n = 0;
    for (int i = 0; i < log->n; i++)
        n += !strcmp(event(log->line[i]), name);
    return n;
}

static const cJSON *find(const Log *log, const char *name, int which)
{
    for (int i = 0; i < log->n; i++)
        if (!strcmp(event(log->line[i]), name) && which-- == 0)
            return log->line[i];
    fail_msg("no %s record", name);
    return NULL;
}

static double number(const cJSON *line, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(line, key);
    if (!cJSON_IsNumber(v))
        fail_msg("%s: no number %s", event(line), key);
    return v->valuedouble;
}

static int make_table(void **state)
{
    if (enter_folder(state) != 0)
        return -1;
    FILE *f = fopen("table.csv", "w");
    if (!f)
        return -1;
    fprintf(f, "x0,x1,x2,label\n");
    for (int i = 0; i < ROWS; i++)
        fprintf(f, "%d,0.5,-1,%d\n", i, i % 3);
    return fclose(f);
}

/* ---- tests ---- */

static void whole_run(void **state)
{
    (void)state;
    runs("--seed 3", 0);
    Log log = read_log("runs/r/log.jsonl");
    static const char *const keys[] = {"program",   "version",    "device",     "threads",
                                       "precision", "parameters", "plan_bytes", "seed"};
    assert_string_equal(event(log.line[0]), "start");
    assert_string_equal(event(log.line[log.n - 1]), "end");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_non_null(cJSON_GetObjectItemCaseSensitive(log.line[0], keys[i]));
    assert_int_equal(events(&log, "step"), 21);
    assert_int_equal(events(&log, "eval"), 3);
    assert_int_equal(events(&log, "save"), 2); /* the best one is the first, then the final model */
    const cJSON *s = find(&log, "step", 8), *e = find(&log, "eval", 1), *end = find(&log, "end", 0);
    assert_true(number(s, "step") == 9 && number(s, "epoch") == 2 && number(s, "lr") == 0.5);
    assert_true(number(s, "lr/a") == 7.5 &&
                number(s, "lr/b") == 0.25); /* as the last of each left it */
    assert_true(number(s, "loss") == 1.0 / 9 && number(s, "scale") == 1024 &&
                number(s, "extra") == 2);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(s, "grad_norm")) &&
                cJSON_IsFalse(cJSON_GetObjectItem(s, "skipped")));
    assert_true(number(s, "samples_per_s") >= 0);
    /* 15 samples in batches of 4, 4, 4, 3: weighted mean of the batches' sizes; 4 hits. */
    assert_true(fabs(number(e, "loss") - 57.0 / 15) < 1e-12);
    assert_true(number(e, "accuracy") == 4.0 / 15 && number(e, "step") == 14 &&
                number(e, "epoch") == 2);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(e, "set")), "part");
    assert_true(number(end, "status") == 0 && number(end, "steps") == 21 &&
                number(end, "skips") == 0);
    assert_true(number(end, "first_step_s") > 0 && number(end, "peak_bytes") > 1e5);
    free_log(&log);
    assert_says(printed[0], "eval set=part epoch=3 step=21");
    assert_says(printed[0], "model=runs/r/model.safetensors");
    assert_says(printed[1], "epoch=3/3 batch=7/7 step=21 loss=");
    assert_null(strchr(printed[1], '\r'));
    assert_null(strchr(printed[1], '\033'));
    assert_int_equal(system("test -s runs/r/config.json -a -s runs/r/best.safetensors"), 0);

    runs("--seed 3 --threads 1 --log none", 0);
    assert_string_equal(printed[0], "");
    assert_int_equal(system("cmp runs/r/model.safetensors runs/r-2/model.safetensors"), 0);
    runs("--seed 4 --threads 1 --out other --log jsonl", 0);
    assert_says(printed[0], "{\"event\":\"end\"");
    assert_int_equal(system("cmp -s runs/r/model.safetensors other/model.safetensors"), 256);
}

static void max_steps(void **state)
{
    (void)state;
    runs("--max-steps 9 --out m9", 0);
    Log log = read_log("m9/log.jsonl");
    assert_int_equal(events(&log, "step"), 9);
    assert_int_equal(events(&log, "eval"), 2);
    free_log(&log);
    runs("--max-steps 0 --out m0", 0);
    log = read_log("m0/log.jsonl");
    assert_int_equal(events(&log, "step"), 0);
    free_log(&log);
    runs("--epochs 1 --out e1", 0);
    log = read_log("e1/log.jsonl");
    assert_int_equal(events(&log, "step"), 7);
    free_log(&log);
}

static void loss_that_is_none(void **state)
{
    (void)state;
    runs("--behave nan --out n", 1);
    assert_says(printed[1], "the loss is nan at step 5 (epoch 1)");
    Log log = read_log("n/log.jsonl");
    const cJSON *s = find(&log, "step", 4);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(s, "loss")), "nan");
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(s, "finite")));
    assert_true(number(find(&log, "end", 0), "status") == 1);
    free_log(&log);
    assert_int_equal(system("test ! -e n/model.safetensors"), 0);
}

static void overflows(void **state)
{
    (void)state;
    runs("--behave once --out o", 0);
    Log log = read_log("o/log.jsonl");
    const cJSON *o = find(&log, "overflow", 0);
    assert_int_equal(events(&log, "overflow"), 1);
    assert_true(number(o, "step") == 3 && number(o, "scale_old") == 1024 &&
                number(o, "scale_new") == 512);
    assert_true(number(o, "line") == 12);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(o, "tensor")), "fc.weight");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(o, "op")), "linear");
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(find(&log, "step", 2), "skipped")));
    assert_true(number(find(&log, "end", 0), "skips") == 1);
    free_log(&log);
    runs("--behave skip --epochs 9 --out s", 1);
    assert_says(printed[1], "20 updates in a row were skipped");
    assert_says(printed[1], "fc.weight is not finite (linear, line 12)");
}

static void signals(void **state)
{
    (void)state;
    runs("--behave term --out t", 143);
    Log log = read_log("t/log.jsonl");
    assert_int_equal(events(&log, "step"), 5);
    assert_int_equal(events(&log, "eval"), 0);
    assert_true(number(find(&log, "end", 0), "status") == 143);
    free_log(&log);
    assert_int_equal(system("test -s t/model.safetensors"), 0);
}

static void failures(void **state)
{
    (void)state;
    runs("--behave fail --out f", 1);
    assert_says(printed[1], "r: error: it went wrong at 4\n  do something\n");
    write_text("file", "");
    runs("--out file/x", 1);
    assert_says(printed[1], "file");
    runs("--data file --out d", 1);
    assert_says(printed[1], "r: error: --data: there is no folder 'file'\n");
    runs("--data t --out d", 0); /* found in the current folder */
    MpcProgram other = program;
    other.cpu_needs = "avx2 nosuchfeature";
    other.cpu = "x86-64-v9";
    assert_int_equal(start(&other, "--out c"), 1);
    assert_says(printed[1], "--cpu=x86-64-v9");
    assert_says(printed[1], "nosuchfeature");
    assert_int_equal(start(&other, "--version"), 0);
    const MpcLabelCheck narrow = {.set = 0, .field = 1, .classes = 2, .line = 12};
    other = program;
    other.label_checks = &narrow;
    assert_int_equal(start(&other, "--out l"), 1);
    assert_says(printed[1], "table.csv:4: label is 2");
    assert_int_equal(system("test ! -e l"), 0);
}

static void initial_weights(void **state)
{
    (void)state;
    runs("--max-steps 0 --seed 5 --out i", 0);
    runs("--max-steps 0 --init i/model.safetensors --out i2", 0);
    assert_int_equal(system("cmp i/model.safetensors i2/model.safetensors"), 0);
    runs("--eval --init i/model.safetensors", 0);
    assert_says(printed[0], "eval set=part epoch=0 step=0 loss=3.8");
    runs("--eval --out i", 0);
    runs("--eval --out nosuch", 1);
    assert_says(printed[1], "nosuch/model.safetensors");
    runs("--init nosuch.safetensors --out i3", 1);
    assert_says(printed[1], "nosuch.safetensors");

    static float w[300], mean[5];
    const int64_t n300 = 300, n5 = 5, n4 = 4;
    RtSaved saved[2] = {{"fc.weight", MPC_DT_f32, 1, &n300, w},
                        {"bn.means", MPC_DT_f32, 1, &n5, mean}};
    RtErr e;
    assert_true(rt_safetensors_write("x.safetensors", saved, 2, &e));
    runs("--init x.safetensors --out i4", 1);
    assert_says(printed[1], "no tensor 'bn.mean'");
    assert_says(printed[1], "bn.means");
    saved[1] = (RtSaved){"bn.mean", MPC_DT_f32, 1, &n4, mean};
    assert_true(rt_safetensors_write("x.safetensors", saved, 2, &e));
    runs("--init x.safetensors --out i4", 1);
    assert_says(printed[1], "has the shape [4], the model needs [5]");
    saved[1].dims = &n5;
    w[7] = 7e4f;
    assert_true(rt_safetensors_write("x.safetensors", saved, 2, &e));
    runs("--init x.safetensors --out i4", 1);
    assert_says(printed[1], "'fc.weight' holds 70000 (element 7), which is infinite in f16");
    w[7] = NAN;
    assert_true(rt_safetensors_write("x.safetensors", saved, 2, &e));
    runs("--init x.safetensors --out i4", 1);
    assert_says(printed[1], "not finite");
}

static void views(void **state)
{
    (void)state;
    assert_int_equal(system("rm -rf runs"), 0);
    runs("--plan", 0);
    assert_says(printed[0], "peak");
    runs("--summary", 0);
    assert_says(printed[0], "fc.weight");
    runs("--print-config --seed 7", 0);
    assert_says(printed[0], "seed                 = 7");
    runs("--help", 0);
    assert_string_equal(printed[1], "");
    runs("--epochz 1", 2);
    assert_says(printed[1], "did you mean --epochs?");
    assert_int_equal(system("test ! -e runs"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_run),         cmocka_unit_test(max_steps),
        cmocka_unit_test(loss_that_is_none), cmocka_unit_test(overflows),
        cmocka_unit_test(signals),           cmocka_unit_test(failures),
        cmocka_unit_test(initial_weights),   cmocka_unit_test(views),
    };
    return cmocka_run_group_tests(tests, make_table, leave_folder);
}
