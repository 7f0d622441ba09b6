/* Nearest names, UTF-8, hashes, the shortest decimal text of a number. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/strutil.h"

static void nearest_names_help(void **state)
{
    (void)state;
    static const char *const ops[] = {"relu", "gelu", "softmax", "log_softmax", NULL, "matmul"};
    assert_string_equal(nearest_name("reluu", ops, 6), "relu");
    assert_string_equal(nearest_name("RELU", ops, 6), "relu");
    assert_string_equal(nearest_name("sofmtax", ops, 6), "softmax"); /* a swap is one step */
    assert_string_equal(nearest_name("logsoftmax", ops, 6), "log_softmax");
    assert_null(nearest_name("convolution", ops, 6));
    assert_null(nearest_name("xy", ops, 6));
    assert_null(nearest_name("", ops, 6));
    char long_name[300];
    memset(long_name, 'a', sizeof long_name);
    long_name[299] = 0;
    assert_null(nearest_name(long_name, ops, 6));
}

static void utf8_is_checked(void **state)
{
    (void)state;
    assert_int_equal(str_utf8("a", 1), 1);
    assert_int_equal(str_utf8("\xc3\xa9", 2), 2);
    assert_int_equal(str_utf8("\xe2\x82\xac", 3), 3);
    assert_int_equal(str_utf8("\xf0\x9f\x98\x80", 4), 4);
    assert_int_equal(str_utf8("\xc3", 1), 0);         /* cut off */
    assert_int_equal(str_utf8("\xc0\x80", 2), 0);     /* overlong */
    assert_int_equal(str_utf8("\xed\xa0\x80", 3), 0); /* a surrogate */
    assert_int_equal(str_utf8("\xf4\x90\x80\x80", 4), 0);
    assert_int_equal(str_utf8("\xff", 1), 0);
    assert_int_equal(str_utf8("", 0), 0);
}

static void hash_is_fnv1a(void **state)
{
    (void)state;
    /* from the FNV reference test vectors */
    assert_int_equal(str_fnv1a(""), 0x811c9dc5u);
    assert_int_equal(str_fnv1a("a"), 0xe40c292cu);
    assert_int_equal(str_fnv1a("foobar"), 0xbf9cf968u);
}

static void decimals_read_back(void **state)
{
    (void)state;
    char buf[32];
    assert_string_equal(str_double(buf, 0.1), "0.1");
    assert_string_equal(str_double(buf, 1), "1.0");
    assert_string_equal(str_double(buf, -0.0), "-0.0");
    assert_string_equal(str_double(buf, 1e-5), "1e-05");
    assert_string_equal(str_double(buf, 65536), "65536.0");
    assert_string_equal(str_double(buf, 1.0 / 3), "0.3333333333333333");
    assert_string_equal(str_double(buf, (double)INFINITY), "inf");
    assert_string_equal(str_double(buf, -(double)INFINITY), "-inf");
    assert_string_equal(str_double(buf, (double)NAN), "nan");
    for (double x = 1.2345678901234567e-300; x < 1e300; x *= -7.7e9)
        assert_true(strtod(str_double(buf, x), NULL) == x);
}

static void sizes_of_memory(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes; /* 0: it is none */
    } cases[] = {
        {"4096", 4096},
        {"1B", 1},
        {"64 MiB", 64 << 20},
        {"64MiB", 64 << 20},
        {"1.5 KiB", 1536},
        {"2kB", 2000},
        {"2KB", 2000},
        {"3MB", 3000000},
        {"2 GB", 2000000000},
        {"1GiB", 1 << 30},
        {"0.25TiB", 1LL << 38},
        {"1TB", 1000000000000},
        {"", 0},
        {"MiB", 0},
        {"64 mib", 0},
        {"64 M", 0},
        {"-1MB", 0},
        {"0", 0},
        {"0.1", 0},
        {"1.2.3MB", 0},
        {"1e3", 0},
        {"64 MiB ", 0},
        {" 64 MiB", 0},
        {"9999999999TB", 0},
        {"64 MiB a day", 0},
        {".MB", 0},
        {"111111111111111111111111111111111111", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t bytes = 0;
        assert_int_equal(str_bytes(cases[i].text, &bytes), cases[i].bytes > 0);
        assert_int_equal(bytes, cases[i].bytes);
    }
}

static void starts_and_ends(void **state)
{
    (void)state;
    assert_true(str_starts("model.fc1", "model."));
    assert_false(str_starts("mod", "model"));
    assert_true(str_ends("a.mpt", ".mpt"));
    assert_false(str_ends("t", ".mpt"));
    assert_true(str_eq(NULL, NULL));
    assert_false(str_eq("a", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_names_help), cmocka_unit_test(utf8_is_checked),
        cmocka_unit_test(hash_is_fnv1a),      cmocka_unit_test(decimals_read_back),
        cmocka_unit_test(sizes_of_memory),    cmocka_unit_test(starts_and_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
