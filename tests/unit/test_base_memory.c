/* Arenas, arrays and text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/arena.h"
#include "ir/base/text.h"
#include "ir/base/vec.h"

static void memory_is_zeroed_and_aligned(void **state)
{
    (void)state;
    Arena *a = arena_new();
    for (size_t size = 0; size < 3000; size = size * 3 / 2 + 1) {
        unsigned char *p = arena_alloc(a, size);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, size);
    }
    unsigned char *large = arena_alloc(a, 20u << 20);
    assert_int_equal(large[0] | large[(20u << 20) - 1], 0);
    assert_true(arena_used(a) >= 20u << 20);
    arena_free(a);
    arena_free(NULL);
}

static void strings_are_copied(void **state)
{
    (void)state;
    Arena *a = arena_new();
    char word[] = "weights";
    char *copy = arena_strdup(a, word), *start = arena_strndup(a, word, 3);
    memset(word, 'x', 7);
    assert_string_equal(copy, "weights");
    assert_string_equal(start, "wei");
    assert_string_equal(arena_strndup(a, "ab", 10), "ab");
    assert_string_equal(arena_printf(a, "%s.%d", copy, 12), "weights.12");
    arena_free(a);
}

static void arrays_grow(void **state)
{
    (void)state;
    Arena *a = arena_new();
    VEC(int64_t) v = {0};
    for (int64_t i = 0; i < 10000; i++)
        vec_push(a, &v, i * i);
    assert_int_equal(v.n, 10000);
    for (int64_t i = 0; i < 10000; i++)
        assert_true(v.at[i] == i * i);
    assert_true(vec_last(&v) == 9999 * 9999);
    assert_true(vec_pop(&v) == 9999 * 9999);
    assert_int_equal(v.n, 9999);
    vec_clear(&v);
    assert_int_equal(v.n, 0);
    arena_free(a);
}

static void text_is_indented_by_line(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Text *t = text_new(a);
    text_open(t, "for (int i = 0; i < %d; i++) {", 3);
    text_line(t, "x[i] = %s;", "0");
    text_line(t, "%s", "");
    text_close(t, "}");
    text_puts(t, "ab");
    text_pad(t, 4);
    text_putc(t, '|');
    assert_string_equal(t->at, "for (int i = 0; i < 3; i++) {\n    x[i] = 0;\n    \n}\nab  |");
    for (int i = 0; i < 5000; i++)
        text_printf(t, "%d,", i);
    assert_int_equal(strlen(t->at), t->n);
    arena_free(a);
}

static void quoting_is_safe(void **state)
{
    (void)state;
    Arena *a = arena_new();
    static const char hostile[] = "a\"b\\\n\x01\x7f\xff\xc3\xa9?\?/1";
    Text *c = text_new(a), *json = text_new(a);
    text_quote(c, hostile, sizeof hostile - 1);
    text_quote_json(json, hostile, sizeof hostile - 1);
    assert_string_equal(c->at, "\"a\\\"b\\\\\\n\\001\\177\\377\xc3\xa9?\\?/1\"");
    assert_string_equal(json->at, "\"a\\\"b\\\\\\n\\u0001\\u007f\\ufffd\xc3\xa9?\?/1\"");
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(strings_are_copied),
        cmocka_unit_test(arrays_grow),
        cmocka_unit_test(text_is_indented_by_line),
        cmocka_unit_test(quoting_is_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
