/* test_philox.c: the counter-based generator against Random123's known answers, and what is built on it. */
#include "abi/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct Answer {
    uint64_t key;
    uint32_t counter[4], words[4];
} Answer;

/* kat_vectors of Random123, philox4x32 with 10 rounds */
static const Answer answers[] = {
    {0, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {0xffffffffffffffff,
     {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {0x299f31d0a4093822,
     {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void known_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const Answer *a = &answers[i];
        uint32_t words[4];

        mpc_philox(a->key, a->counter[0], a->counter[1], a->counter[2], a->counter[3], words);
        for (int j = 0; j < 4; j++)
            assert_int_equal(words[j], a->words[j]);
    }
}

/* The counter's layout is part of a program's promise of equal bits; so it is spelled out here again. */
static void layout(void **state)
{
    uint64_t seed = 0x0123456789abcdef;
    uint32_t path = mpc_path_hash("encoder.drop"), words[4];
    int64_t rng = (int64_t)7 << 32 | 12345;

    (void)state;
    for (int64_t element = 0; element < 64; element++) {
        mpc_philox(seed, (uint32_t)element / 4, 12345, 7, path, words);
        assert_true(mpc_uniform(seed, path, rng, element) ==
                    (float)(words[element % 4] >> 8) / 16777216.0f);
    }
    assert_int_equal(mpc_path_hash(""), 0x811c9dc5);
    assert_int_equal(mpc_path_hash("a"), 0xe40c292c);
    assert_int_equal(mpc_path_hash("foobar"), 0xbf9cf968);
}

static void runs(void **state)
{
    float out[41];

    (void)state;
    for (int64_t from = 0; from < 9; from++)
        for (int64_t n = 0; n < 41; n++) {
            mpc_uniform_run(out, 5, 6, 7, from, n);
            for (int64_t i = 0; i < n; i++)
                assert_true(out[i] == mpc_uniform(5, 6, 7, from + i));
        }
}

/* Mean and variance of a million numbers, and each sixteenth of [0, 1) as full as it should be. */
static void uniform(void **state)
{
    enum { N = 1 << 20 };
    double sum = 0, squares = 0;
    int bins[16] = {0};

    (void)state;
    for (int64_t i = 0; i < N; i++) {
        float u = mpc_uniform(1, 2, i / 1000, i % 1000);

        assert_true(u >= 0 && u < 1);
        sum += u;
        squares += (double)u * u;
        bins[(int)(u * 16)]++;
    }
    assert_true(fabs(sum / N - 0.5) < 5 * 0.2887 / 1024);
    assert_true(fabs(squares / N - 1.0 / 3) < 5 * 0.2981 / 1024);
    for (int i = 0; i < 16; i++)
        assert_true(fabs(bins[i] - N / 16.0) < 5 * 248);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(layout),
        cmocka_unit_test(runs),
        cmocka_unit_test(uniform),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
