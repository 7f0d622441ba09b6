/* test_ir_text.c: the text form: printing what was read gives the same bytes, errors name their
 * place, and no junk does harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/strutil.h"
#include "ir/ir.h"

typedef struct Read {
    Arena *arena;
    Diag *diag;
    Module *m;
} Read;

static Read read_text(const char *text, size_t size)
{
    Read r = {.arena = arena_new()};
    r.diag = diag_new(r.arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
    r.m = module_read_source(r.arena, r.diag, source_from_text(r.arena, "a.ir", text, size));
    return r;
}

static char *printed(const Module *m, size_t *size)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    module_print(f, m);
    fclose(f);
    return text;
}

static char *load_case(size_t *size)
{
    const char *root = getenv("MPC_SOURCE_DIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/ir/step.ir", root != NULL ? root : ".");
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = malloc(1 << 20);
    *size = fread(text, 1, (1 << 20) - 1, f);
    text[*size] = 0;
    fclose(f);
    return text;
}

static void round_trip(void **state)
{
    (void)state;
    size_t size, again_size;
    char *text = load_case(&size);
    Read r = read_text(text, size);
    if (r.m == NULL) {
        fail_msg("%s", diag_text(r.diag));
    }
    char *again = printed(r.m, &again_size);
    assert_string_equal(text, again);
    assert_string_equal(r.m->graphs[0]->nodes[4]->why, "low list");
    assert_int_equal(r.m->graphs[0]->nodes[4]->loc.col, 18);
    assert_string_equal(r.m->graphs[0]->nodes[4]->loc.file->path, "examples/digits.mpt");
    free(again);
    free(text);
    arena_free(r.arena);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static HostExpr *var(Arena *a, const char *name, HostType type)
{
    HostExpr *e = host_expr(a, HE_var, name, 0, NULL);
    e->type = type;
    return e;
}

static HostExpr *random_expr(Arena *a, uint64_t *s, int depth)
{
    static const char *const binary[] = {"+",  "-", "*",  "/",  "//", "%",   "**", "<",
                                         "<=", ">", ">=", "==", "!=", "and", "or"};
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    unsigned pick = (unsigned)(*s >> 40);
    HostExpr *in[3];
    int kind = depth <= 0 ? (int)(pick % 4) : (int)(pick % 9);
    for (int i = 0; i < 3 && kind >= 4; i++) {
        in[i] = random_expr(a, s, depth - 1);
    }
    switch (kind) {
    case 0: return host_num(a, (double)(pick % 100) - 50, HT_int);
    case 1: return host_num(a, ((double)pick - 8e6) / 3, HT_float);
    case 2: return host_num(a, pick >> 3 & 1, HT_bool);
    case 3: return var(a, "weird name", HT_int);
    case 4: return host_expr(a, HE_unary, pick & 16 ? "-" : "not", 1, in);
    case 5: return host_expr(a, HE_call, pick & 16 ? "max" : "min", 2 + (pick >> 5 & 1), in);
    case 6: return host_expr(a, HE_cond, NULL, 3, in);
    default: {
        HostExpr *e = host_expr(a, HE_binary, binary[pick / 9 % 15], 2, in);
        if (pick % 31 == 0) {
            e->type = HT_int; /* not what the rule gives: must survive */
        }
        return e;
    }
    }
}

static void expressions(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int i = 0; i < 400; i++) {
        Arena *a = arena_new();
        Module *m = module_new(a, "not-a-plain name", "dir/\"quoted\"\n.mpt");
        module_var(m, "weird name", HT_int);
        module_var(m, "x", HT_float);
        HostStmt *s = host_stmt(m, &m->host, HS_assign, loc_none());
        s->var = "x";
        s->expr = random_expr(a, &seed, 4);
        s = host_stmt(m, &m->host, HS_if, loc_none()); /* must not be read as part of the above */
        s->expr = random_expr(a, &seed, 3);
        size_t size, again_size;
        char *text = printed(m, &size);
        Read r = read_text(text, size);
        if (r.m == NULL) {
            fail_msg("%s\n%s", text, diag_text(r.diag));
        }
        char *again = printed(r.m, &again_size);
        assert_string_equal(text, again);
        assert_true(host_expr_equal(m->host.v[0]->expr, r.m->host.v[0]->expr));
        assert_true(host_expr_equal(m->host.v[1]->expr, r.m->host.v[1]->expr));
        assert_string_equal(m->source, r.m->source);
        free(text);
        free(again);
        arena_free(r.arena);
        arena_free(a);
    }
}

/* ---- errors ---------------------------------------------------------------------------------- */

#define HEAD "mpc-ir 1 after lower\nmodule m source(\"m.mpt\")\n"

static void errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "a.ir:1:1: error: this is no IR"},
        {"module Linear {\n", "this is no IR"},
        {"mpc-ir 2 after lower\n", "a.ir:1:8: error: this is IR of version 2"},
        {HEAD, "expected a declaration, a graph or the host program"},
        {HEAD "host {\n", "expected a name but found the end of the file"},
        {HEAD "host {\n}\nhost {\n}\n", "a.ir:5:1: error: nothing may follow"},
        {HEAD "graph @g step {\n  %0 = foo : f32\n}\n", "a.ir:4:8: error: 'foo' is no op"},
        {HEAD "graph @g step {\n  %0 = 7 : f32\n}\n", "expected an op"},
        {HEAD "graph @g step {\n  %0 = matmull : f32\n}\n", "did you mean 'matmul'?"},
        {HEAD "graph @g step {\n  %0 = neg %0 : f32\n}\n", "%0 is not defined above"},
        {HEAD "graph @g step {\n  %1 = const {value=1.0} : f32\n}\n", "this is %0"},
        {HEAD "graph @g step {\n  %0 = const {valu=1.0} : f32\n}\n", "did you mean 'value'?"},
        {HEAD "graph @g step {\n  %0 = const {value=1.0, value=2.0} : f32\n}\n", "given twice"},
        {HEAD "graph @g step {\n  %0 = const {value=1.0} : f33\n}\n",
         "expected a type of elements"},
        {HEAD "graph @g step {\n  %0 = const {value=1.0} : f32[B]\n}\n", "expected a dimension"},
        {HEAD "graph @g step {\n  %0 = const {value=1.0} : f32[1,1,1,1,1,1,1,1,1]\n}\n",
         "more than 8"},
        {HEAD "graph @g step {\n  %0 = const {value=1.0} : f32 why(\"a\n", "has no end"},
        {HEAD "graph @g step {\n  %0 = const {value=1.0} : f32 why(\"\\q\")\n", "unknown escape"},
        {HEAD "tensor t : f32[99999999999999999999] param\n", "is too large"},
        {HEAD "tensor t : f32 parm\n", "did you mean 'param'?"},
        {HEAD "host {\n  x = 1 < 2 < 3\n}\n", "comparisons do not chain"},
        {HEAD "host {\n  evaluate = d @g with l\n}\n", "there is no loader 'l'"},
        {HEAD "\x01", "a byte of value 1"},
        {HEAD "?", "'?' does not belong here"},
        /* read, but refused by the verifier */
        {HEAD "host {\n  x = 1\n}\n", "there is no variable 'x'"},
        {HEAD "host {\n  call @g\n}\n", "there is no graph @g to call here"},
        {HEAD "host {\n  break loc(7)\n}\n", "error: invalid IR after lower: break"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Read r = read_text(cases[i].text, strlen(cases[i].text));
        assert_null(r.m);
        if (strstr(diag_text(r.diag), cases[i].says) == NULL) {
            fail_msg("case %zu: no '%s' in:\n%s", i, cases[i].says, diag_text(r.diag));
        }
        arena_free(r.arena);
    }
}

static void deep_nesting(void **state)
{
    (void)state;
    enum { DEEP = 10000 };
    char *text = malloc(sizeof HEAD + 20 + 12 * DEEP);
    strcpy(text, HEAD "host {\n  x = ");
    memset(text + strlen(text) + DEEP, 0, 1);
    memset(text + strlen(text), '(', DEEP);
    Read r = read_text(text, strlen(text));
    assert_null(r.m);
    assert_non_null(strstr(diag_text(r.diag), "nested more than"));
    arena_free(r.arena);
    strcpy(text, HEAD "host {\n");
    for (int i = 0; i < DEEP; i++) {
        strcat(text + strlen(HEAD) + (size_t)i * 9, "if true {");
    }
    r = read_text(text, strlen(text));
    assert_null(r.m);
    arena_free(r.arena);
    free(text);
}

/* ---- junk ------------------------------------------------------------------------------------ */

static void mutate(char *text, size_t *size, size_t cap, uint64_t *s)
{
    for (int n = 1 + (int)(*s >> 61); n > 0 && *size > 0; n--) {
        *s = *s * 6364136223846793005u + 1442695040888963407u;
        size_t at = (size_t)(*s >> 33) % *size, from = (size_t)(*s >> 20) % *size;
        size_t len = (size_t)(*s >> 13) % 12 + 1;
        len = at + len > *size ? *size - at : len;
        switch (*s >> 60 & 3) {
        case 0: text[at] = (char)(*s >> 50); break;
        case 1:
            memmove(text + at, text + at + len, *size - at - len);
            *size -= len;
            break;
        case 2:
            len = from + len > *size ? *size - from : len;
            if (*size + len < cap) {
                char piece[16];
                memcpy(piece, text + from, len);
                memmove(text + at + len, text + at, *size - at);
                memcpy(text + at, piece, len);
                *size += len;
            }
            break;
        default: text[at] = "{}()[],:=.%@-+*/<>$\"0123456789eBx\n"[(*s >> 24) % 34]; break;
        }
    }
}

/* What the reader takes must print and read back again, whatever it is. */
static void junk(void **state)
{
    (void)state;
    const char *rounds = getenv("MPC_FUZZ_ROUNDS");
    size_t size, cap = 1 << 16;
    char *text = load_case(&size), *copy = malloc(cap);
    uint64_t seed = rounds != NULL ? strtoull(rounds, NULL, 10) : 1;
    int taken = 0;
    for (long i = rounds != NULL ? atol(rounds) : 3000; i > 0; i--) {
        size_t n = size;
        memcpy(copy, text, size);
        mutate(copy, &n, cap, &seed);
        Read r = read_text(copy, n);
        if (r.m != NULL) {
            size_t once_size, twice_size;
            char *once = printed(r.m, &once_size);
            Read again = read_text(once, once_size);
            if (again.m == NULL) {
                fail_msg("%s\n%s", once, diag_text(again.diag));
            }
            char *twice = printed(again.m, &twice_size);
            assert_string_equal(once, twice);
            free(once);
            free(twice);
            arena_free(again.arena);
            taken++;
        } else {
            assert_true(diag_failed(r.diag));
        }
        arena_free(r.arena);
    }
    assert_true(taken > 0);
    free(copy);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),   cmocka_unit_test(expressions), cmocka_unit_test(errors),
        cmocka_unit_test(deep_nesting), cmocka_unit_test(junk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
