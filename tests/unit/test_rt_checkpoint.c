/* test_rt_checkpoint.c: runs that are ended at every possible place and continued: what comes out is what an
 * unbroken run gives, and no failing call costs the last good checkpoint. The program is written out here; its
 * loop is entered again as generated ones are. Each run is a process of its own, in which the k-th call of the
 * functions below may fail.
 */
#include "rt_fixture.h"
#include "rt_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { ROWS = 20, BATCH = 4, EPOCHS = 3, STEPS = EPOCHS * ROWS / BATCH };

/* ---- calls that fail ---- */

static int calls, failing; /* the number of the call that fails; 0: none does */

static bool fails(void)
{
    if (!failing || ++calls != failing)
        return false;
    errno = ENOSPC;
    return true;
}

ssize_t write(int fd, const void *data, size_t n)
{
    return fd > 2 && fails() ? -1 : syscall(SYS_write, fd, data, n);
}

int fsync(int fd)
{
    return fails() ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    return fails() ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int mkdir(const char *path, mode_t mode)
{
    return fails() ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int rmdir(const char *path)
{
    return fails() ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int ftruncate(int fd, off_t n)
{
    return fails() ? -1 : (int)syscall(SYS_ftruncate, fd, n);
}

/* ---- a program ---- */

static const MpcOption options[] = {
    {.name = "lr", .type = MPC_OPTION_float, .number = 0.5, .origin = "c.mpt:1"},
    {.name = "epochs", .type = MPC_OPTION_int, .number = EPOCHS, .origin = "c.mpt:2"},
    {.name = "kill_at", .type = MPC_OPTION_int, .number = 0, .origin = "c.mpt:3"},
};
static const MpcField fields[] = {{.name = "x", .dtype = MPC_DT_f32},
                                  {.name = "label", .dtype = MPC_DT_i32}};
static const char *const paths[] = {"table.csv"};
static const MpcData data[] = {{.name = "t",
                                .kind = MPC_DATA_csv,
                                .paths = paths,
                                .n_paths = 1,
                                .fields = fields,
                                .n_fields = 2}};
static const MpcSet sets[] = {{.name = "t", .data = 0, .parent = -1}};
static const MpcLoaderDecl loaders[] = {
    {.name = "train", .set = 0, .batch_max = BATCH, .shuffle = true, .training = true}};
static const MpcTensor tensors[] = {
    {.name = "w",
     .role = MPC_ROLE_param,
     .dtype = MPC_DT_f32,
     .rank = 1,
     .dims = {3},
     .init = MPC_INIT_uniform,
     .a = -1,
     .b = 1},
    {.name = "m", .role = MPC_ROLE_moment, .dtype = MPC_DT_f64, .rank = 0, .offset = 64},
    {.name = "copy", .role = MPC_ROLE_working, .dtype = MPC_DT_f32, .rank = 0, .offset = 128},
};

struct Vars {
    int64_t epoch, epoch_end, seen;
    double best;
    bool odd;
    const char *name;
};
static const MpcVar vars_[] = {
    {"epoch", MPC_OPTION_int, offsetof(struct Vars, epoch)},
    {"epoch_end", MPC_OPTION_int, offsetof(struct Vars, epoch_end)},
    {"seen", MPC_OPTION_int, offsetof(struct Vars, seen)},
    {"best", MPC_OPTION_float, offsetof(struct Vars, best)},
    {"odd", MPC_OPTION_bool, offsetof(struct Vars, odd)},
    {"name", MPC_OPTION_string, offsetof(struct Vars, name)},
};

static void step(MpcRun *r, const MpcBatch *b)
{
    float *w = (float *)(void *)r->arena;
    double *m = (double *)(void *)(r->arena + 64);
    for (int64_t i = 0; i < b->n; i++)
        *m = *m * 0.9 + (double)((const float *)b->field[0])[i] / 3;
    for (int i = 0; i < 3; i++)
        w[i] = w[i] * 0.99f + (float)(*m * mpc_option_float(r, 0)) / (float)(i + 1);
    mpc_step_done(r, &(MpcStep){.samples = b->n, .has_loss = true, .loss = *m});
    mpc_log_step(r, NULL, 0);
}

static void run(MpcRun *r)
{
    struct Vars *vars = r->host;
    float *w = (float *)(void *)r->arena;
    MpcLoader *train = mpc_loader_open(r, 0, BATCH);
    MpcBatch b;
    if (r->place > 0)
        vars->epoch_end = mpc_epochs(r, mpc_option_int(r, 1));
    if (r->place == 1)
        goto resume_1;
    vars->name = "a \"name\"";
    vars->best = -0.0;
    vars->epoch_end = mpc_epochs(r, mpc_option_int(r, 1));
    for (vars->epoch = 0; vars->epoch < vars->epoch_end && !mpc_stopping(r); vars->epoch++) {
        mpc_loader_begin(train, 1);
    resume_1:
        while (mpc_loader_next(train, &b)) {
            step(r, &b);
            vars->seen += b.n;
            vars->odd = !vars->odd;
            if (r->step == mpc_option_int(r, 2) % 100)
                raise(mpc_option_int(r, 2) > 200   ? SIGKILL
                      : mpc_option_int(r, 2) > 100 ? SIGTERM
                                                   : SIGINT);
        }
        mpc_loader_end(train);
        w[2] += (float)vars->seen + (float)strlen(vars->name) + (vars->odd ? 0.5f : 0);
    }
}

static const MpcProgram program = {
    .name = "c",
    .source = "c.mpt",
    .home = ".",
    .version = "0.1",
    .precision = "f32",
    .precision_key = "f32",
    .math = "exact",
    .cpu = "generic",
    .cpu_needs = "",
    .options = options,
    .n_options = 3,
    .data = data,
    .n_data = 1,
    .sets = sets,
    .n_sets = 1,
    .loaders = loaders,
    .n_loaders = 1,
    .tensors = tensors,
    .n_tensors = 3,
    .vars = vars_,
    .n_vars = 6,
    .graphs = 1,
    .loop = 2,
    .parameters = 3,
    .arena_bytes = 4096,
    .scratch_bytes = 64,
    .host_bytes = sizeof(struct Vars),
    .run = run,
};

/* ---- one run ---- */

static char said[4000];

/* Status, or 128 + signal; the k-th call fails; files may have `most` bytes (0: any number). */
static int start(const MpcProgram *p, const char *line, int k, rlim_t most)
{
    char words[300], *argv[32] = {words}, *save = NULL;
    int argc = 1, status;
    snprintf(words, sizeof words, "c --threads 1 --log none %s", line);
    char *word = strtok_r(words, " ", &save);
    while ((word = strtok_r(NULL, " ", &save)) != NULL && argc < 31)
        argv[argc++] = word;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        if (!freopen("/dev/null", "w", stdout) || !freopen("stderr.txt", "w", stderr))
            _exit(99);
        setvbuf(stderr, NULL, _IONBF, 0); /* as it is for a process's own */
        if (most)
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){most, most});
        failing = k;
        _exit(rt_main(p, argc, argv));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    FILE *f = fopen("stderr.txt", "r");
    assert_non_null(f);
    said[fread(said, 1, sizeof said - 1, f)] = 0;
    fclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void runs(const char *line, int status)
{
    int got = start(&program, line, 0, 0);
    if (got != status)
        fail_msg("%s: status %d, not %d; it said: %s", line, got, status, said);
}

static void shell(const char *command)
{
    if (system(command) != 0)
        fail_msg("%s", command);
}

static int prepare(void **state)
{
    if (enter_folder(state) != 0)
        return -1;
    FILE *f = fopen("table.csv", "w");
    if (!f)
        return -1;
    fprintf(f, "x,label\n");
    for (int i = 0; i < ROWS; i++)
        fprintf(f, "%d,%d\n", i, i % 3);
    if (fclose(f) != 0)
        return -1;
    return start(&program, "--out whole", 0, 0) == 0 ? 0 : -1;
}

static void same(const char *run)
{
    char command[200];
    snprintf(command, sizeof command, "cmp whole/model.safetensors %s/model.safetensors", run);
    shell(command);
    snprintf(command, sizeof command,
             "test \"$(grep -c '\"event\":\"step\"' %s/log.jsonl)\" = %d && "
             "test ! -e %s/.lock && test \"$(ls -A %s/checkpoints | wc -l)\" -le 3",
             run, STEPS, run, run);
    shell(command);
}

/* ---- tests ---- */

/* The option would end the continued run again, and a run keeps its options: it is taken out of the file. */
static void no_longer_killed(void)
{
    shell("for f in a/checkpoints/*/host.json; do test ! -e $f || sed -i "
          "'s/\"kill_at\":{\"value\":\"[0-9]*\"/\"kill_at\":{\"value\":\"0\"/' $f; done");
}

static void every_step(void **state)
{
    (void)state;
    char line[100];
    for (int kind = 0; kind < 3; kind++)
        for (int k = 1; k <= STEPS; k++) {
            static const int status[] = {130, 143, 137};
            shell("rm -rf a");
            snprintf(line, sizeof line, "--out a --checkpoint-every 2 --kill_at %d",
                     100 * kind + k);
            runs(line, status[kind]);
            no_longer_killed();
            runs("--resume --out a", 0);
            same("a");
        }
}

static void every_call(void **state)
{
    (void)state;
    int k, failures = 0;
    for (k = 1; k < 2000; k++) {
        shell("rm -rf a");
        int status = start(&program, "--out a --checkpoint-every 4", k, 0);
        if (status > 1)
            fail_msg("call %d failed: status %d: %s", k, status, said);
        failures += status;
        bool never = !strstr(said, ": error:") && !strstr(said, "note:") && k > 100 && !status;
        if (status && !strstr(said, "No space left on device"))
            fail_msg("call %d failed: no cause in: %s", k, said);
        if (status) {
            runs("--resume --out a --checkpoint-every 4", 0);
            shell("cmp whole/model.safetensors a/model.safetensors");
        }
        if (never)
            break;
    }
    assert_true(failures > 20 && k < 2000);
}

static void full_disk(void **state)
{
    (void)state;
    shell("rm -rf a");
    runs("--out a --max-steps 3", 0);
    assert_int_equal(start(&program, "--resume --out a --max-steps 9 --checkpoint-every 1", 0, 900),
                     1);
    assert_says(said, "File too large");
    runs("--resume --out a --max-steps 100", 0);
    shell("cmp whole/model.safetensors a/model.safetensors");
}

static void rules(void **state)
{
    (void)state;
    shell("rm -rf a b c runs");
    runs("--resume --out b --max-steps 0", 0);
    assert_says(said, "no checkpoint in 'b'");
    runs("--resume --out whole", 0);
    assert_says(said, "finished (step 15)");
    runs("--resume nosuch", 2);
    assert_says(said, "there is no 'nosuch'");
    runs("--out a --kill_at 7 --checkpoint-every 2", 130);
    runs("--out a", 1);
    assert_says(said, "not finished");
    runs("--resume --out a --lr 0.25", 2);
    assert_says(said, "--lr is 0.25, the run has 0.5");
    runs("--resume --out a --seed 7", 2);
    assert_says(said, "--seed is 7, the run has 42");
    no_longer_killed();
    runs("--resume a/checkpoints/step-5 --epochs 2", 0);
    assert_says(said, "removed the later checkpoint 'a/checkpoints/step-7'");
    runs("--resume a --epochs 3", 0); /* one more */
    same("a");
    shell("cp -r whole/checkpoints/step-5 moved");
    runs("--resume moved", 2);
    assert_says(said, "lies in no folder of a run");
    runs("--resume moved --out c", 0);
    shell("cmp whole/model.safetensors c/model.safetensors");
}

static void other_programs(void **state)
{
    (void)state;
    MpcTensor other[3];
    MpcProgram p = program;
    memcpy(other, tensors, sizeof other);
    p.tensors = other;
    const char *line = "--resume whole --epochs 4";
    other[0].dims[0] = 4;
    assert_int_equal(start(&p, line, 0, 0), 1);
    assert_says(said, "'w' has the shape [3] there, [4] here");
    other[0] = tensors[0];
    other[1].dtype = MPC_DT_f32;
    assert_int_equal(start(&p, line, 0, 0), 1);
    assert_says(said, "'m' is f64 there, f32 here");
    other[1] = tensors[1];
    other[1].name = "n";
    assert_int_equal(start(&p, line, 0, 0), 1);
    assert_says(said, "it has no tensor 'n'");
    p.n_tensors = 1;
    assert_int_equal(start(&p, line, 0, 0), 1);
    assert_says(said, "it has a tensor 'm'");
    p = program;
    p.n_vars = 5;
    assert_int_equal(start(&p, line, 0, 0), 1);
    assert_says(said, "other variables");
    p = program;
    p.loop = 3;
    assert_int_equal(start(&p, line, 0, 0), 1);
    assert_says(said, "the statements are others");
}

/* Each member of host.json is needed; cut anywhere, it is refused. */
static void damaged(void **state)
{
    (void)state;
    static const char *const members[] = {"step",      "vars", "loaders", "options",  "seed",
                                          "max_steps", "last", "place",   "progress", "loop",
                                          "graphs",    "data", "skips",   "epoch",    "pass",
                                          "in_pass",   "taken"};
    char command[300];
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        shell("rm -rf a && cp -r whole a");
        snprintf(command, sizeof command, "sed -i 's/\"%s\":/\"x_%s\":/' a/checkpoints/*/host.json",
                 members[i], members[i]);
        shell(command);
        if (start(&program, "--resume a --epochs 4", 0, 0) != 1)
            fail_msg("continued without %s", members[i]);
        assert_says(said, members[i]);
    }
    for (int bytes = 0; bytes < 900; bytes += 97) {
        shell("rm -rf a && cp -r whole a");
        snprintf(command, sizeof command, "truncate -s %d a/checkpoints/step-15/host.json", bytes);
        shell(command);
        runs("--resume a --epochs 4", 1);
        assert_says(said, "host.json");
    }
}

static void one_at_a_time(void **state)
{
    (void)state;
    RtErr e;
    int lock = rt_lock_folder("whole", &e);
    char pid[40];
    assert_true(lock >= 0);
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    runs("--out whole", 1);
    assert_says(said, pid);
    runs("--resume whole", 1);
    assert_says(said, "in use by another run");
    rt_unlock_folder("whole", lock);
    runs("--resume whole", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step),     cmocka_unit_test(every_call),
        cmocka_unit_test(full_disk),      cmocka_unit_test(rules),
        cmocka_unit_test(damaged),        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(other_programs),
    };
    return cmocka_run_group_tests(tests, prepare, leave_folder);
}
