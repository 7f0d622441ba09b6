/* test_base_strmap.c: the map from strings to numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/base/arena.h"
#include "ir/base/strmap.h"

static void finds_what_was_put(void **state)
{
    (void)state;
    Arena *a = arena_new();
    StrMap map = {0};
    assert_null(strmap_get(&map, "x"));
    enum { MANY = 5000 };
    const char *name[MANY];
    for (int i = 0; i < MANY; i++) {
        name[i] = arena_printf(a, "name%d", i * 7);
        assert_int_equal(*strmap_put(a, &map, name[i], i), i);
    }
    assert_int_equal(map.n, MANY);
    for (int i = 0; i < MANY; i++) {
        const int *found = strmap_get(&map, arena_printf(a, "name%d", i * 7)); /* equal, not same */
        assert_non_null(found);
        assert_int_equal(*found, i);
        assert_null(strmap_get(&map, arena_printf(a, "name%d", i * 7 + 1)));
    }
    arena_free(a);
}

static void keeps_the_first_number(void **state)
{
    (void)state;
    Arena *a = arena_new();
    StrMap map = {0};
    *strmap_put(a, &map, "", 3) = 4;
    assert_int_equal(*strmap_put(a, &map, "", 5), 4);
    assert_int_equal(map.n, 1);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_put),
        cmocka_unit_test(keeps_the_first_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
