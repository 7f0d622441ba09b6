/* test_rt_util.c: numbers as text whatever the locale, nearest names, JSON lines, files written whole. */
#include "rt_fixture.h"
#include "rt_util.h"

#include <locale.h>
#include <math.h>

static void number_is(double v, const char *text)
{
    char buffer[RT_NUMBER_CHARS];
    assert_string_equal(rt_number(buffer, v), text);
}

static void numbers(void **state)
{
    (void)state;
    number_is(0, "0");
    number_is(-3, "-3");
    number_is(65536, "65536");
    number_is(0.001, "0.001");
    number_is((double)0.1f, "0.1");
    number_is(0.1, "0.1");
    number_is(1.0 / 3, "0.3333333333333333");
    number_is(1e300, "1e+300");
    number_is((double)NAN, "nan");
    number_is(-(double)INFINITY, "-inf");
    unsigned long long seed = 1;
    for (int i = 0; i < 20000; i++) {
        double v, back;
        char buffer[RT_NUMBER_CHARS];
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        memcpy(&v, &seed, sizeof v);
        if (!isfinite(v))
            continue;
        rt_number(buffer, v);
        assert_true(rt_parse_double(buffer, strlen(buffer), &back));
        assert_true(back == v);
    }
}

static bool parses(const char *text, double want)
{
    double v;
    return rt_parse_double(text, strlen(text), &v) && v == want;
}

static void parsing(void **state)
{
    (void)state;
    double v;
    int64_t n;
    assert_true(parses("1", 1) && parses("-0.5", -0.5) && parses(".5", 0.5) && parses("5.", 5));
    assert_true(parses(" 1e-3 ", 1e-3) && parses("+4E5", 4e5) &&
                parses("123456789012345678", 123456789012345678.0));
    assert_true(parses("0.1234567890123456789", 0.1234567890123456789));
    assert_true(rt_parse_double("nan", 3, &v) && isnan(v));
    const char *const bad[] = {"",    " ",    ".",   "-",  "1x",  "x",
                               "1 2", "0x10", "1,5", "1e", "--1", "nan(1)"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (rt_parse_double(bad[i], strlen(bad[i]), &v))
            fail_msg("'%s' is taken for a number", bad[i]);
    assert_true(rt_parse_int("-9223372036854775808", 20, &n) && n == INT64_MIN);
    assert_true(rt_parse_int("9223372036854775807", 19, &n) && n == INT64_MAX);
    assert_false(rt_parse_int("9223372036854775808", 19, &n));
    assert_false(rt_parse_int("-9223372036854775809", 20, &n));
    assert_false(rt_parse_int("1.0", 3, &n) || rt_parse_int("", 0, &n) || rt_parse_int("-", 1, &n));
}

/* Where a comma is the decimal sign, files are written and read as everywhere. */
static void other_locale(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    bool found = false;
    for (size_t i = 0; i < 4 && !found; i++)
        found = setlocale(LC_ALL, names[i]) != NULL;
    if (!found) {
        print_message("no locale with a decimal comma is installed\n");
        return;
    }
    number_is(0.1, "0.1");
    number_is(1.5e-9, "1.5e-09");
    double v;
    assert_true(parses("0.1234567890123456789", 0.1234567890123456789));
    assert_false(rt_parse_double("0,5", 3, &v));
    setlocale(LC_ALL, "C");
}

static const char *nearest(const char *word)
{
    static const char *const names[] = {"epochs", "seed", "threads", "max-steps",
                                        "lr",     "data", "out"};
    RtNear near;
    rt_near_start(&near, word);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        rt_near_try(&near, names[i]);
    return near.best ? near.best : "";
}

static void names(void **state)
{
    (void)state;
    assert_int_equal(rt_distance("abc", "abc"), 0);
    assert_int_equal(rt_distance("abc", "acb"), 1);
    assert_int_equal(rt_distance("abc", "ab"), 1);
    assert_int_equal(rt_distance("", "abc"), 3);
    assert_string_equal(nearest("epoch"), "epochs");
    assert_string_equal(nearest("sede"), "seed");
    assert_string_equal(nearest("thread"), "threads");
    assert_string_equal(nearest("max-step"), "max-steps");
    assert_string_equal(nearest("l"), "lr");
    assert_string_equal(nearest("EPOCHS"), "epochs");
    assert_string_equal(nearest("wxyz"), "");
}

static void json(void **state)
{
    (void)state;
    RtJson j = {0};
    const int64_t dims[] = {2, 3};
    for (int round = 0; round < 2; round++) {
        rt_json_start(&j);
        rt_json_open(&j, NULL);
        rt_json_text(&j, "a", "q\"\\\n\x01 \xc3\xa4 \xff");
        rt_json_number(&j, "b", 0.5);
        rt_json_open(&j, "c");
        rt_json_bool(&j, "d", true);
        rt_json_null(&j, "e");
        rt_json_close(&j);
        rt_json_ints(&j, "f", dims, 2);
        rt_json_ints(&j, "g", dims, 0);
        assert_true(j.finite);
        rt_json_number(&j, "h", (double)NAN);
        rt_json_close(&j);
        assert_false(j.finite);
        assert_string_equal(j.text,
                            "{\"a\":\"q\\\"\\\\\\u000a\\u0001 \xc3\xa4 \\ufffd\",\"b\":0.5,"
                            "\"c\":{\"d\":true,\"e\":null},\"f\":[2,3],\"g\":[],\"h\":\"nan\"}");
    }
    free(j.text);
}

static void whole_files(void **state)
{
    (void)state;
    RtErr e;
    RtWriter w;
    char big[1 << 19];
    memset(big, 'x', sizeof big);
    write_text("f", "old");
    assert_true(rt_writer_open(&w, "f", &e));
    assert_true(rt_writer_put(&w, "new", 3, &e));
    assert_true(rt_writer_put(&w, big, sizeof big, &e));
    rt_writer_abort(&w);
    assert_int_equal(system("test \"$(cat f)\" = old && test \"$(ls -A)\" = f"), 0);
    assert_true(rt_writer_open(&w, "f", &e));
    assert_true(rt_writer_put(&w, "new", 3, &e));
    assert_true(rt_writer_put(&w, big, sizeof big, &e));
    assert_true(rt_writer_put(&w, "end", 3, &e));
    assert_true(rt_writer_commit(&w, &e));
    assert_int_equal(system("test $(wc -c <f) = 524294 && test \"$(ls -A)\" = f"), 0);
    assert_true(rt_make_folders("a/b c/d", &e));
    assert_true(rt_make_folders("a/b c/d", &e));
    assert_true(rt_is_folder("a/b c/d"));
    assert_false(rt_make_folders("f/g", &e));
    assert_says(e.text, "'f'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers), cmocka_unit_test(parsing), cmocka_unit_test(other_locale),
        cmocka_unit_test(names),   cmocka_unit_test(json),    cmocka_unit_test(whole_files),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
