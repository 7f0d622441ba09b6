/* Messages: their form, their number, and that nothing in a source can spoil them. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/diag.h"

static Diag *quiet(Arena *a, DiagFormat format)
{
    return diag_new(a, NULL, DIAG_COLOR_never, format);
}

static SourceFile *source(Arena *a, const char *text)
{
    return source_from_text(a, "a.mpt", text, strlen(text));
}

static void carets_stand_under_the_span(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Diag *d = quiet(a, DIAG_FORMAT_text);
    SourceFile *s = source(a, "fc2 = Linear(256, 10)\n        x = relu(fc2(x))\n");
    diag_error(d, (Loc){s, 2, 18, 6}, "x is [B, %d]", 512);
    diag_note(d, (Loc){s, 1, 1, 3}, "declared here");
    assert_string_equal(diag_text(d), "a.mpt:2:18: error: x is [B, 512]\n"
                                      "    2 |         x = relu(fc2(x))\n"
                                      "      |                  ^~~~~~\n"
                                      "a.mpt:1:1: note: declared here\n"
                                      "    1 | fc2 = Linear(256, 10)\n"
                                      "      | ^~~\n");
    assert_int_equal(diag_errors(d), 1);
    assert_true(diag_failed(d));
    arena_free(a);
}

static void tabs_and_letters_keep_columns(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Diag *d = quiet(a, DIAG_FORMAT_text);
    SourceFile *s = source(a, "\t\"\xc3\xa9\" + x\r\n");
    diag_warning(d, (Loc){s, 1, 9, 1}, "m");
    assert_string_equal(diag_text(d), "a.mpt:1:9: warning: m\n"
                                      "    1 |     \"\xc3\xa9\" + x\n"
                                      "      |           ^\n");
    assert_false(diag_failed(d));
    arena_free(a);
}

static void hostile_bytes_are_escaped(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Diag *d = quiet(a, DIAG_FORMAT_text);
    SourceFile *s = source(a, "x \x1b[2J \xff \xc2\x9b y\n");
    diag_error(d, (Loc){s, 1, 3, 1}, "bad '%s'", "\x1b[31m\n");
    assert_string_equal(diag_text(d), "a.mpt:1:3: error: bad '\\x1b[31m\\x0a'\n"
                                      "    1 | x \\x1b[2J \\xff \\xc2\\x9b y\n"
                                      "      |   ^~~~\n");
    arena_free(a);
}

static void long_lines_are_cut_around_the_span(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Diag *d = quiet(a, DIAG_FORMAT_text);
    char text[10001];
    memset(text, 'a', 10000);
    text[10000] = 0;
    memcpy(text + 5000, "HERE", 4);
    diag_error(d, (Loc){source(a, text), 1, 5001, 4}, "m");
    const char *shown = diag_text(d);
    assert_true(strlen(shown) < 400);
    const char *here = strstr(shown, "HERE"), *caret = strstr(shown, "^~~~\n");
    assert_non_null(here);
    assert_non_null(caret);
    const char *first = strchr(shown, '\n') + 1, *second = strchr(first, '\n') + 1;
    assert_int_equal(here - first, caret - second);
    arena_free(a);
}

/* Whatever the place is, also one outside the file, a message comes out whole. */
static void any_place_is_safe(void **state)
{
    (void)state;
    Arena *a = arena_new();
    SourceFile *s = source(a, "ab\n\nlast");
    static const int lens[] = {INT_MIN, -1, 0, 1, 2, 3, 100, INT_MAX / 2, INT_MAX};
    for (int line = -1; line < 6; line++)
        for (int col = -1; col < 8; col++)
            for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
                Diag *d = quiet(a, i % 2 ? DIAG_FORMAT_json : DIAG_FORMAT_text);
                diag_error(d, (Loc){s, line, col, lens[i]}, "m");
                assert_int_equal(diag_text(d)[strlen(diag_text(d)) - 1], '\n');
            }
    Diag *d = quiet(a, DIAG_FORMAT_text);
    diag_error(d, loc_none(), "no file");
    diag_error(d, (Loc){s, 0, 0, 0}, "no line");
    assert_string_equal(diag_text(d), "mpc: error: no file\na.mpt: error: no line\n");
    arena_free(a);
}

static void errors_are_limited_and_not_repeated(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Diag *d = quiet(a, DIAG_FORMAT_text);
    SourceFile *s = source(a, "x\n");
    for (int i = 0; i < 5; i++) {
        diag_error(d, (Loc){s, 1, 1, 1}, "the same");
        diag_note(d, loc_none(), "its note");
    }
    assert_int_equal(diag_errors(d), 1);
    assert_null(strstr(strstr(diag_text(d), "its note") + 1, "its note"));
    for (int i = 0; i < 50; i++)
        diag_error(d, (Loc){s, 1, 1, 1}, "error %d", i);
    diag_note(d, loc_none(), "dropped with its error");
    assert_int_equal(diag_errors(d), DIAG_MAX_ERRORS);
    assert_true(diag_full(d));
    assert_non_null(strstr(diag_text(d), "error 18\n"));
    assert_null(strstr(diag_text(d), "error 19\n"));
    assert_non_null(strstr(diag_text(d), "too many errors"));
    assert_null(strstr(diag_text(d), "dropped with"));
    arena_free(a);
}

static void json_has_the_same_facts(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Diag *d = quiet(a, DIAG_FORMAT_json);
    SourceFile *s = source(a, "abc def\n");
    diag_error(d, (Loc){s, 1, 5, 900}, "a \"quoted\" thing");
    assert_string_equal(diag_text(d),
                        "{\"severity\":\"error\",\"file\":\"a.mpt\",\"line\":1,\"column\":5,"
                        "\"length\":3,\"message\":\"a \\\"quoted\\\" thing\"}\n");
    arena_free(a);
}

static void spans_join(void **state)
{
    (void)state;
    Arena *a = arena_new();
    SourceFile *s = source(a, "f(x,\n  y)\n");
    Loc one = loc_span((Loc){s, 1, 1, 1}, (Loc){s, 1, 3, 1});
    assert_int_equal(one.col, 1);
    assert_int_equal(one.len, 3);
    Loc two = loc_span((Loc){s, 1, 1, 1}, (Loc){s, 2, 4, 1});
    assert_true(two.len > 1000);
    Loc none = loc_span(loc_none(), one);
    assert_int_equal(none.len, 3);
    arena_free(a);
}

static void binary_is_told_from_text(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Diag *d = quiet(a, DIAG_FORMAT_text);
    assert_true(source_is_text(d, source(a, "x = \"\xc3\xa9\"\n")));
    assert_true(source_is_text(d, source_from_text(a, "e", "", 0)));
    assert_false(source_is_text(d, source_from_text(a, "nul.mpt", "a\nb\0c", 5)));
    assert_non_null(strstr(diag_text(d), "nul.mpt:2:2: error"));
    assert_false(
        source_is_text(d, source(a, "\x7f"
                                    "ELF\x02\x01\x01\x02\xff\xfe\xf0\x90\x80\x81\x03\x04\x05")));
    assert_null(source_read(a, d, "/nonexistent/a.mpt"));
    assert_non_null(strstr(diag_text(d), "No such file"));
    assert_null(source_read(a, d, "/"));
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carets_stand_under_the_span),
        cmocka_unit_test(tabs_and_letters_keep_columns),
        cmocka_unit_test(hostile_bytes_are_escaped),
        cmocka_unit_test(long_lines_are_cut_around_the_span),
        cmocka_unit_test(any_place_is_safe),
        cmocka_unit_test(errors_are_limited_and_not_repeated),
        cmocka_unit_test(json_has_the_same_facts),
        cmocka_unit_test(spans_join),
        cmocka_unit_test(binary_is_told_from_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
