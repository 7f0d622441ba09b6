/* test_rt_options.c: the command line: values, where they came from, and answers to what is wrong. */
#include "rt_fixture.h"
#include "rt_options.h"

static const MpcOption options[] = {
    {.name = "lr", .type = MPC_OPTION_float, .number = 0.001, .origin = "m.mpt:5"},
    {.name = "batch_size", .type = MPC_OPTION_int, .number = 128, .origin = "-D", .bounded = true},
    {.name = "width", .type = MPC_OPTION_int, .number = 64, .origin = "m.mpt:6", .fixed = true},
    {.name = "shuffle", .type = MPC_OPTION_bool, .number = 1, .origin = "m.mpt:7"},
    {.name = "name", .type = MPC_OPTION_string, .text = "x", .origin = "m.mpt:8"},
    {.name = "epochs", .type = MPC_OPTION_int, .number = 3, .origin = "m.mpt:9"},
};
static const MpcProgram with = {.name = "m",
                                .source = "m.mpt",
                                .home = "h",
                                .version = "0.1",
                                .math = "exact",
                                .precision = "f32",
                                .cpu = "generic",
                                .options = options,
                                .n_options = 6};
static const MpcProgram bare = {.name = "m",
                                .source = "m.mpt",
                                .home = "h",
                                .version = "0.1",
                                .math = "exact",
                                .precision = "f32",
                                .cpu = "generic"};

static RtOptions o;
static RtErr said;

enum { ARGS = 32 };

/* Words are separated by blanks; "''" is an empty word. */
static bool parse(const MpcProgram *p, const char *line)
{
    static char words[400];
    char *argv[ARGS + 2] = {words}, *save = NULL;
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok_r(words, " ", &save); word && argc < ARGS;
         word = strtok_r(NULL, " ", &save))
        argv[argc++] = strcmp(word, "''") ? word : word + 2;
    rt_options_free(&o);
    return rt_options_parse(&o, p, argc, argv, &said);
}

static void takes(const char *line)
{
    if (!parse(&with, line))
        fail_msg("%s: %s", line, said.text);
}

static void refuses(const char *line, const char *part)
{
    if (parse(&with, line))
        fail_msg("taken: %s", line);
    assert_says(said.text, part);
}

static void defaults(void **state)
{
    (void)state;
    takes("");
    assert_true(o.values[0].number == 0.001);
    assert_string_equal(o.values[0].from, "m.mpt:5");
    assert_int_equal(o.values[1].whole, 128);
    assert_string_equal(o.values[1].from, "-D");
    assert_int_equal(o.epochs, -1);
    assert_int_equal(o.max_steps, -1);
    assert_int_equal(o.action, RT_ACTION_train);
    assert_string_equal(o.seed_from, "default");
}

static void values(void **state)
{
    (void)state;
    takes("--lr 1e-2 --batch-size=32 --shuffle false --name= --seed 7 --max-steps 10 --threads 2 "
          "--out a/b");
    assert_true(o.values[0].number == 0.01);
    assert_string_equal(o.values[0].from, "command line");
    assert_int_equal(o.values[1].whole, 32);
    assert_true(o.values[3].number == 0);
    assert_string_equal(o.values[4].text, "");
    assert_int_equal(o.seed, 7);
    assert_int_equal(o.max_steps, 10);
    assert_int_equal(o.threads, 2);
    assert_string_equal(o.out, "a/b");
    takes("--batch_size 1 --width 64 --shuffle --eval");
    assert_int_equal(o.values[1].whole, 1);
    assert_int_equal(o.action, RT_ACTION_eval);
    takes("--device auto --log jsonl --lr -0.5 --print-config");
    assert_true(o.values[0].number == -0.5);
    assert_int_equal(o.console, RT_CONSOLE_jsonl);
    assert_int_equal(o.action, RT_ACTION_print_config);
}

/* The file's own `epochs` is what --epochs sets; without one it is the runtime's. */
static void epochs_apply_once(void **state)
{
    (void)state;
    takes("--epochs 9");
    assert_int_equal(o.values[5].whole, 9);
    assert_int_equal(o.epochs, -1);
    assert_true(parse(&bare, "--epochs 9"));
    assert_int_equal(o.epochs, 9);
}

static void wrong_values(void **state)
{
    (void)state;
    const char *const bad[] = {"x", "1.5", "''", "99999999999999999999", "1e3", "0x5"};
    char line[100];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(line, sizeof line, "--epochs %s", bad[i]);
        refuses(line, "--epochs");
        assert_false(parse(&bare, line));
        assert_says(said.text, "--epochs");
        snprintf(line, sizeof line, "--max-steps %s", bad[i]);
        refuses(line, "--max-steps");
    }
    assert_false(parse(&bare, "--epochs -1"));
    refuses("--seed -1", "--seed");
    refuses("--seed seven", "'seven'");
    refuses("--threads 0", "--threads");
    refuses("--threads 100000", "--threads");
    refuses("--threads", "--threads needs a value");
    refuses("--out --seed", "--out needs a value");
    refuses("--out ''", "--out");
    refuses("--lr fast", "'fast' is not a number");
    refuses("--lr nan", "--lr");
    refuses("--shuffle maybe", "neither true nor false");
    refuses("--log xml", "none of text, jsonl, csv, tensorboard, none");
    refuses("--device gpu", "--device");
    refuses("--device cuda:1", "CPU only");
    refuses("--eval=1", "takes no value");
    refuses("--batch_size 129", "more than the 128");
    assert_says(said.hint, "mpc m.mpt -D batch_size=129");
    refuses("--batch_size 0", "less than 1");
    refuses("--width 32", "compiled for another value");
    refuses("stray", "'stray'");
    refuses("--", "'--'");
    refuses("-x", "'-x'");
}

static void typos(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"--epoch", "--epochs"},
        {"--sed", "--seed"},
        {"--max-step", "--max-steps"},
        {"--thread", "--threads"},
        {"--lrr", "--lr"},
        {"--bach_size", "--batch_size"},
        {"--intit", "--init"},
        {"--evla", "--eval"},
        {"--summry", "--summary"},
        {"--print-confg", "--print-config"},
        {"--hlep", "--help"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        refuses(pairs[i][0], pairs[i][0]);
        assert_says(said.hint, "did you mean ");
        assert_says(said.hint, pairs[i][1]);
    }
    refuses("--quetzalcoatl", "unknown flag");
    assert_says(said.hint, "--help");
}

/* Every one-letter typo of every flag: at least 95 of 100 are answered with the right name. */
static void all_typos(void **state)
{
    (void)state;
    static const char *const names[] = {
        "data",    "out",          "device",  "threads",    "seed",    "max-steps", "init",
        "summary", "print-config", "version", "batch_size", "shuffle", "width",     "epochs"};
    int asked = 0, right = 0;
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
        for (size_t at = 0; at < strlen(names[n]); at++)
            for (char c = 'a'; c <= 'z'; c++) {
                char line[64], want[64];
                snprintf(line, sizeof line, "--%s", names[n]);
                if (line[2 + at] == c)
                    continue;
                line[2 + at] = c;
                snprintf(want, sizeof want, "--%s?", names[n]);
                asked++;
                right += !parse(&with, line) && strstr(said.hint, want);
            }
    assert_true(right * 100 >= asked * 95);
}

static void shown(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    takes("--seed 7 --lr 0.25");
    rt_options_print(&o, 2, "runs/m", f);
    rt_options_help(&o, f);
    fclose(f);
    const char *const parts[] = {
        "lr                   = 0.25                         # command line",
        "batch_size           = 128                          # -D",
        "seed                 = 7                            # command line",
        "threads              = 2",
        "--max-steps N",
        "--batch_size N",
        "at most that"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_says(text, parts[i]);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(values),
        cmocka_unit_test(epochs_apply_once),
        cmocka_unit_test(wrong_values),
        cmocka_unit_test(typos),
        cmocka_unit_test(all_typos),
        cmocka_unit_test(shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
