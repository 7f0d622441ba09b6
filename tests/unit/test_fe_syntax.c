/* Syntax trees: what is printed parses to an equal tree, for every example, the standard library and
 * a few thousand random expressions; comments survive; no random input crashes the parser. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/frontend.h"

static AstFile *parse(Arena *a, Diag *d, const char *text)
{
    return frontend_parse(a, d, source_from_text(a, "t.mpt", text, strlen(text)));
}

static Diag *quiet(Arena *a)
{
    return diag_new(a, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
}

/* Fails unless the tree, printed without and with comments, parses to an equal one. */
static void round_trip(Arena *a, const AstFile *file)
{
    for (int comments = 0; comments < 2; comments++) {
        Text *t = text_new(a);
        Diag *d = quiet(a);
        ast_print(t, file->root, comments ? file : NULL);
        AstFile *again = parse(a, d, t->at);
        if (diag_failed(d) || !ast_equal(file->root, again->root))
            fail_msg("not the same when read again:\n%s\n%s", t->at, diag_text(d));
        if (comments)
            assert_int_equal(again->comments.n, file->comments.n);
    }
}

static void library_comes_back(void **state)
{
    (void)state;
    int n;
    const StdFile *files = frontend_std(&n);
    assert_true(n >= 5);
    for (int i = 0; i < n; i++) {
        Arena *a = arena_new();
        Diag *d = quiet(a);
        AstFile *file =
            frontend_parse(a, d, source_from_text(a, files[i].name, files[i].text, files[i].size));
        assert_string_equal(diag_text(d), "");
        round_trip(a, file);
        arena_free(a);
    }
}

static void examples_come_back(void **state)
{
    (void)state;
    static const char *const names[] = {"digits", "fashion_mlp", "fashion_loop"};
    const char *root = getenv("MPC_SOURCE_DIR");
    for (size_t i = 0; root && i < sizeof names / sizeof *names; i++) {
        Arena *a = arena_new();
        Diag *d = quiet(a);
        SourceFile *s = source_read(a, d, arena_printf(a, "%s/examples/%s.mpt", root, names[i]));
        assert_non_null(s);
        AstFile *file = frontend_parse(a, d, s);
        assert_string_equal(diag_text(d), "");
        round_trip(a, file);
        file = frontend_expand_levels(a, d, file);
        assert_string_equal(diag_text(d), "");
        file->comments.n = 0; /* a loop's lines are not the source's */
        round_trip(a, file);
        arena_free(a);
    }
}

/* The loop that fashion_mlp's trainer stands for is the one that fashion_loop spells, but for the
 * value that the best accuracy starts from. */
static void trainer_is_the_loop(void **state)
{
    (void)state;
    const char *root = getenv("MPC_SOURCE_DIR");
    if (!root)
        skip();
    Arena *a = arena_new();
    Diag *d = quiet(a);
    AstFile *files[2];
    static const char *const names[] = {"fashion_mlp", "fashion_loop"};
    for (int i = 0; i < 2; i++) {
        SourceFile *s = source_read(a, d, arena_printf(a, "%s/examples/%s.mpt", root, names[i]));
        files[i] = frontend_expand_levels(a, d, frontend_parse(a, d, s));
    }
    assert_string_equal(diag_text(d), "");
    AstList x = files[0]->root->list, y = files[1]->root->list;
    assert_int_equal(x.n, y.n);
    for (int i = 0; i < x.n; i++) {
        bool best = x.at[i]->kind == AST_assign && strcmp(x.at[i]->target->name, "best") == 0;
        if (!best && !ast_equal(x.at[i], y.at[i]))
            fail_msg("statement %d differs", i);
    }
    arena_free(a);
}

/* ---- random expressions ---- */

static uint32_t next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static Ast *random_expr(AstMaker *m, uint32_t *seed, int depth)
{
    Loc loc = loc_none();
    uint32_t pick = depth > 0 ? next(seed) % 13 : next(seed) % 4;
#define SUB random_expr(m, seed, depth - 1)
    switch (pick) {
    case 0: return ast_name(m, loc, "x");
    case 1: return ast_int(m, loc, next(seed) % 100);
    case 2: return ast_float(m, loc, next(seed) % 1000 / 8.0);
    case 3: return ast_str(m, loc, "a\"\\\n");
    case 4: {
        AstOp op = (AstOp)(1 + next(seed) % (AST_OP_COUNT - 1));
        return op == AST_OP_not || op == AST_OP_neg ? ast_unary(m, loc, op, SUB)
                                                    : ast_binary(m, loc, op, SUB, SUB);
    }
    case 5: return ast_unary(m, loc, next(seed) % 2 ? AST_OP_neg : AST_OP_not, SUB);
    case 6: return ast_cond(m, loc, SUB, SUB, SUB);
    case 7: return ast_member(m, loc, SUB, "T", loc);
    case 8: {
        AstList args = ast_list(m, SUB);
        return ast_call(m, loc, SUB, ast_append(m, args, ast_keyword(m, loc, "k", SUB)));
    }
    case 9: {
        AstList subs = ast_list(m, ast_slice(m, loc, NULL, SUB, NULL));
        subs = ast_append(m, subs, ast_slice(m, loc, SUB, NULL, SUB));
        return ast_index(m, loc, SUB, ast_append(m, subs, SUB));
    }
    case 10: {
        AstList items = ast_append(m, ast_list(m, SUB), SUB);
        return ast_sequence(m, next(seed) % 2 ? AST_list : AST_tuple, loc, items);
    }
    case 11:
        return ast_comprehension(m, loc, SUB, ast_list(m, ast_name(m, loc, "i")), SUB,
                                 next(seed) % 2 ? SUB : NULL);
    default: return ast_retype(m, loc, SUB, "f16");
    }
#undef SUB
}

static void random_expressions_come_back(void **state)
{
    (void)state;
    uint32_t seed = 20240607;
    for (int i = 0; i < 4000; i++) {
        Arena *a = arena_new();
        Diag *d = quiet(a);
        AstMaker m = {.arena = a, .diag = d};
        Ast *value = random_expr(&m, &seed, 5);
        AstFile file = {0};
        file.root = ast_decl(&m, AST_file, loc_none(), NULL,
                             ast_list(&m, ast_assign(&m, loc_none(), ast_name(&m, loc_none(), "y"),
                                                     AST_OP_none, value)),
                             (AstList){0});
        Text *t = text_new(a);
        ast_print(t, file.root, NULL);
        AstFile *again = parse(a, d, t->at);
        if (diag_failed(d) || !ast_equal(file.root, again->root))
            fail_msg("not the same when read again: %s\n%s", t->at, diag_text(d));
        arena_free(a);
    }
}

/* Random tokens, and programs with bytes changed: messages, never a crash. */
static void nothing_crashes(void **state)
{
    (void)state;
    static const char *const words[] = {
        "module ", "M",       "(",     ")",         "{",        "}",        "[",      "]",
        "\n",      "=",       ",",     ":",         ".",        "..",       "...",    "->",
        "@f32",    "@",       "if ",   "else ",     "for ",     "in",       "x ",     "1",
        "2.5",     "\"s\"",   "data ", "batch of ", "with ",    "trainer ", "param ", "-",
        "option ", "return ", "#c\n",  ";",         "evaluate", "not ",     "1.",     "\"",
    };
    uint32_t seed = 99;
    for (int i = 0; i < 3000; i++) {
        Arena *a = arena_new();
        Diag *d = quiet(a);
        Text *t = text_new(a);
        for (int k = 0; k < 60; k++)
            text_puts(t, words[next(&seed) % (sizeof words / sizeof *words)]);
        AstFile *file = parse(a, d, t->at);
        assert_non_null(file->root);
        if (!diag_failed(d)) {
            file = frontend_expand_levels(a, d, file);
            if (!diag_failed(d))
                round_trip(a, file);
        }
        arena_free(a);
    }
    int n;
    const StdFile *files = frontend_std(&n);
    for (int i = 0; i < 3000; i++) {
        Arena *a = arena_new();
        Diag *d = quiet(a);
        const StdFile *f = &files[next(&seed) % (uint32_t)n];
        char *text = arena_copy(a, f->text, f->size + 1);
        for (int k = 0; k < 3; k++)
            text[next(&seed) % f->size] = (char)(1 + next(&seed) % 255);
        assert_non_null(parse(a, d, text)->root);
        arena_free(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library_comes_back),  cmocka_unit_test(examples_come_back),
        cmocka_unit_test(trainer_is_the_loop), cmocka_unit_test(random_expressions_come_back),
        cmocka_unit_test(nothing_crashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
