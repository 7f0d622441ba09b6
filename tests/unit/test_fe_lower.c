/* Lowering: compile-time arithmetic is Python's, initialisers have PyTorch's bounds, options take -D, the
 * limits hold, and no mutilated program crashes or gives IR that does not verify. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "ir/base/strutil.h"

typedef struct Lowered {
    Arena *arena;
    Module *m;
    const char *said;
} Lowered;

static Lowered lower_with(const char *text, const LowerOptions *options)
{
    Lowered r = {.arena = arena_new()};
    Diag *d = diag_new(r.arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
    AstFile *file =
        frontend_parse(r.arena, d, source_from_text(r.arena, "t.mpt", text, strlen(text)));
    if (!diag_failed(d)) {
        file = frontend_expand_levels(r.arena, d, file);
    }
    if (!diag_failed(d)) {
        r.m = frontend_lower(r.arena, d, file, options);
        assert_int_equal(r.m == NULL, diag_failed(d));
    }
    if (r.m != NULL) {
        bool fine = module_verify(r.m, d);
        if (!fine) {
            fail_msg("lowered to IR that does not verify: %s\n%s", diag_text(d), text);
        }
    }
    r.said = diag_text(d);
    return r;
}

static Lowered lower(const char *text)
{
    return lower_with(text, NULL);
}

#define DATA "data s = csv(\"s.csv\") -> (x: f32[4] = columns(\"a\"..\"d\"), y: u8)\n"
#define LOOP                                                                                       \
    "model = M()\n"                                                                                \
    "optimizer = SGD(model, lr = 0.1)\n"                                                           \
    "for batch in loader(s, batch_size = 8) {\n"                                                   \
    "    loss = cross_entropy(model(batch.x), batch.y)\n"                                          \
    "    backward(loss)\n"                                                                         \
    "    optimizer.step()\n"                                                                       \
    "    zero_grad(optimizer)\n"                                                                   \
    "}\n"

static void refused(const char *text, const char *why)
{
    Lowered r = lower(text);
    if (r.m != NULL || strstr(r.said, why) == NULL) {
        fail_msg("wanted \"%s\", but: %s\n%s", why, r.m != NULL ? "it lowers" : r.said, text);
    }
    arena_free(r.arena);
}

/* ---- arithmetic ------------------------------------------------------------------------------------ */

static void arithmetic_is_pythons(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"1 + 2 * 3", 7},
        {"7 / 2", 3.5},
        {"7 // 2", 3},
        {"-7 // 2", -4},
        {"-7 % 3", 2},
        {"7 % -3", -2},
        {"-7.5 % 2", 0.5},
        {"2 ** 10", 1024},
        {"2 ** -1", 0.5},
        {"-2 ** 2", -4},
        {"2 ** 3 ** 2", 512},
        {"sqrt(16)", 4},
        {"min(3, 1.5, 2)", 1.5},
        {"max([4, 9, 2])", 9},
        {"int(-2.7)", -2},
        {"floor(-2.1)", -3},
        {"ceil(2.1)", 3},
        {"abs(-3)", 3},
        {"len([1, 2, 3])", 3},
        {"len(\"abcd\")", 4},
        {"1 if 2 > 1 else 0", 1},
        {"true + true", 2},
        {"3 > 2 and 2 > 1", 1},
        {"not 0", 1},
        {"[5, 6, 7][-1]", 7},
        {"len([1, 2, 3][1:])", 2},
        {"len(0..10)", 10},
        {"sum([1, 2, 3.5])", 6.5},
        {"len([i for i in 0..9 if i % 2 == 0])", 5},
        {"len(range(10, 0, -3))", 4},
        {"(1, 2) == (1, 2)", 1},
        {"\"a\" + \"b\" == \"ab\"", 1},
        {"none == none", 1},
        {"1 == none", 0},
        {"len([1] * 4 + [2])", 5},
        {"float(3) / 2", 1.5},
        {"9223372036854775807 // 2 ** 62", 1},
        {"exp(0.0) + log(1)", 1},
        {"len(enumerate([4, 5]))", 2},
        {"zip([1, 2], [3, 4])[1][0]", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1000];
        snprintf(text, sizeof text,
                 DATA "module M() {\n param w: f32[10, 4] = constant(%s)\n"
                      " forward(x) { return x @ w.T }\n}\n" LOOP,
                 cases[i].text);
        Lowered r = lower(text);
        if (r.m == NULL) {
            fail_msg("%s: %s", cases[i].text, r.said);
        }
        double got = attrs_float(&r.m->tensors[0]->init, ATTR_low, NAN);
        if (got != cases[i].value) {
            fail_msg("%s is %g, not %g", cases[i].text, got, cases[i].value);
        }
        arena_free(r.arena);
    }
}

static void wrong_arithmetic_is_refused(void **state)
{
    (void)state;
    refused("x = 1 // 0\n", "division by zero");
    refused("x = 9223372036854775807 + 1\n", "too large for a 64-bit integer");
    refused("x = 2 ** 64\n", "too large for a 64-bit integer");
    refused("x = sqrt(-1)\n", "square root of a negative number");
    refused("x = \"a\" - 1\n", "does not work on a string");
    refused("x = [1, 2][2]\n", "index 2 of a list of 2");
    refused("x = 1 @ 2\n", "`@` needs tensors");
    refused("a, b = [1, 2, 3]\n", "2 names for 3 values");
}

/* ---- initialisers ---------------------------------------------------------------------------------- */

static void initialisers_are_pytorchs(void **state)
{
    (void)state;
    static const struct {
        const char *text, *kind;
        double low, high;
    } cases[] = {
        /* of a weight [10, 4]: fan_in 4, fan_out 10 */
        {"kaiming_uniform(a = sqrt(5.0))", "uniform", -0.5, 0.5},
        {"kaiming_uniform()", "uniform", -1.224744871391589, 1.224744871391589},
        {"kaiming_uniform_(mode = \"fan_out\", nonlinearity = \"relu\")", "uniform",
         -0.7745966692414834, 0.7745966692414834},
        {"kaiming_normal()", "normal", 0, 0.7071067811865476},
        {"kaiming_normal(nonlinearity = \"tanh\")", "normal", 0, 0.8333333333333334},
        {"xavier_uniform()", "uniform", -0.6546536707079772, 0.6546536707079772},
        {"xavier_normal(gain = 2.0)", "normal", 0, 0.7559289460184545},
        {"uniform(-1/sqrt(4), 1/sqrt(4))", "uniform", -0.5, 0.5},
        {"normal(mean = 1.0, std = 0.02)", "normal", 1, 0.02},
        {"uniform()", "uniform", 0, 1},
        {"normal()", "normal", 0, 1},
        {"0.25", "constant", 0.25, NAN},
        {"constant(2)", "constant", 2, NAN},
        {"zeros()", "zeros", NAN, NAN},
        {"ones() if 2 > 1 else zeros()", "ones", NAN, NAN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1000];
        snprintf(
            text, sizeof text,
            DATA
            "module M() {\n param w: f32[10, 4] = %s\n forward(x) { return x @ w.T }\n}\n" LOOP,
            cases[i].text);
        Lowered r = lower(text);
        if (r.m == NULL) {
            fail_msg("%s: %s", cases[i].text, r.said);
        }
        const Attrs *init = &r.m->tensors[0]->init;
        double low = attrs_float(init, ATTR_low, NAN), high = attrs_float(init, ATTR_high, NAN);
        bool fine = str_eq(attrs_str(init, ATTR_kind), cases[i].kind);
        fine = fine && (isnan(cases[i].low) ? isnan(low) : fabs(low - cases[i].low) < 1e-15);
        fine = fine && (isnan(cases[i].high) ? isnan(high) : fabs(high - cases[i].high) < 1e-15);
        if (!fine) {
            fail_msg("%s: %s %.17g %.17g", cases[i].text, attrs_str(init, ATTR_kind), low, high);
        }
        arena_free(r.arena);
    }
}

/* ---- options --------------------------------------------------------------------------------------- */

static const char options_text[] =
    "option width = 3\noption lr = 0.5\noption on = false\noption name = \"a\"\n" DATA
    "module M() {\n fc = Linear(4, width)\n forward(x) { return fc(x) }\n}\n"
    "rate = lr * 2\n" LOOP;

static HostExpr *default_of(const Module *m, const char *name)
{
    return attrs_expr(&module_find(m, DECL_option, name)->attrs, ATTR_default);
}

static void options_take_defines(void **state)
{
    (void)state;
    const char *names[] = {"width", "lr", "on", "name"}, *values[] = {"7", "1e-3", "true", "b c"};
    LowerOptions defines = {4, names, values};
    Lowered r = lower_with(options_text, &defines);
    assert_non_null(r.m);
    assert_int_equal(default_of(r.m, "width")->num, 7);
    assert_true(default_of(r.m, "lr")->num == 1e-3);
    assert_int_equal(default_of(r.m, "on")->num, 1);
    assert_string_equal(default_of(r.m, "name")->text, "b c");
    assert_int_equal(module_find_tensor(r.m, "fc.weight")->dims.d[0].k, 7);
    /* what sizes a tensor is compiled in; the rest is the program's to choose */
    assert_true(attrs_bool(&module_find(r.m, DECL_option, "width")->attrs, ATTR_fixed));
    assert_false(attrs_bool(&module_find(r.m, DECL_option, "lr")->attrs, ATTR_fixed));
    arena_free(r.arena);
}

static void wrong_defines_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[][3] = {{"width", "1.5", "a whole number"},
                                           {"width", "", "a whole number"},
                                           {"lr", "fast", "a number"},
                                           {"on", "yes", "true or false"},
                                           {"widht", "3", "did you mean `width`?"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        LowerOptions defines = {1, &wrong[i][0], &wrong[i][1]};
        Lowered r = lower_with(options_text, &defines);
        assert_null(r.m);
        assert_non_null(strstr(r.said, wrong[i][2]));
        arena_free(r.arena);
    }
}

/* ---- limits ---------------------------------------------------------------------------------------- */

static void limits_hold(void **state)
{
    (void)state;
    refused("x = [i for i in 0..1000000000000]\n", "more than 1000000 iterations");
    refused("x = [[j for j in 0..2000] for i in 0..2000]\n", "more than 1000000 iterations");
    refused("x = [1] * 1000000000\n", "more than 1000000 iterations");
    refused(DATA "module M() {\n param w: f32[1000000000, 1000000000] = zeros()\n forward(x) { "
                 "return x }\n}\n" LOOP,
            "too large");
    refused(DATA "module M() {\n param w: f32[0] = zeros()\n forward(x) { return x }\n}\n" LOOP,
            "a size of 0");
    /* doubling: 2^40 operations if nobody counted */
    Arena *a = arena_new();
    Text *t = text_new(a);
    text_puts(t, "option x0 = 1.0\n");
    for (int i = 0; i < 40; i++) {
        text_printf(t, "x%d = x%d + x%d\n", i + 1, i, i);
    }
    refused(t->at, "too long");
    /* a chain of 10,000 modules, each in the next */
    t = text_new(a);
    text_puts(t, DATA "module M0() { forward(x) { return x } }\n");
    for (int i = 1; i < 10000; i++) {
        text_printf(t, "module M%d() {\n m = M%d()\n forward(x) { return m(x) }\n}\n", i, i - 1);
    }
    text_puts(t, "model = M9999()\n");
    refused(t->at, "nested too deeply");
    arena_free(a);
}

/* ---- mutilation ------------------------------------------------------------------------------------ */

static const char whole[] =
    "option n = 3\n" DATA "batch of s {\n x = (x - 0.5) / n\n}\n"
    "module M(hidden = 8, p = 0.1) {\n"
    " fc = [Linear(4, hidden), Linear(hidden, 10)]\n drop = Dropout(p)\n"
    " forward(x: f32[B, 4]) {\n  for f in fc { x = f(drop(x)) }\n  return x\n }\n}\n"
    "model = M()\noptimizer = AdamW(model, lr = 1e-3)\nscaler = GradScaler()\n"
    "train = loader(s, batch_size = 8, shuffle = true)\n"
    "scheduler = get_scheduler(\"cosine\", optimizer, 0, n * len(train))\nbest = 0.0\n"
    "for epoch in 0..n {\n for batch in train {\n"
    "  with autocast(f16) { loss = cross_entropy(model(batch.x), batch.y) }\n"
    "  backward(scaler.scale(loss))\n  scaler.unscale(optimizer)\n  clip_grad_norm(model, 1.0)\n"
    "  scaler.step(optimizer)\n  scaler.update()\n  scheduler.step()\n  zero_grad(optimizer)\n"
    "  if epoch > 0 { log(loss, twice = 2 * loss) }\n }\n"
    " acc = evaluate(s) { accuracy(model(batch.x), batch.y) }\n"
    " if acc > best {\n  best = acc\n  save(\"best\")\n }\n}\n";

static void mutilated_programs_are_refused(void **state)
{
    (void)state;
    Lowered r = lower(whole);
    assert_non_null(r.m);
    arena_free(r.arena);
    char text[sizeof whole];
    for (size_t cut = 0; cut < sizeof whole - 1; cut += 3) { /* an end too early */
        memcpy(text, whole, cut);
        text[cut] = '\0';
        arena_free(lower(text).arena);
    }
    for (size_t cut = 0; cut < sizeof whole - 8; cut += 2) { /* a piece lost */
        memcpy(text, whole, cut);
        size_t gap = 1 + cut % 7;
        memcpy(text + cut, whole + cut + gap, sizeof whole - cut - gap);
        arena_free(lower(text).arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_is_pythons),
        cmocka_unit_test(wrong_arithmetic_is_refused),
        cmocka_unit_test(initialisers_are_pytorchs),
        cmocka_unit_test(options_take_defines),
        cmocka_unit_test(wrong_defines_are_refused),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(mutilated_programs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
