/* test_rt_report.c: what is kept of a log of any length, and how text gets into the page. */
#include "rt_fixture.h"
#include "rt_report.h"

#include <jansson.h>
#include <math.h>

static void add(RtDigest *d, const char *format, ...)
{
    char line[400];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    rt_digest_line(d, line, strlen(line));
}

static const RtColumn *column(const RtDigest *d, const char *name)
{
    for (int i = 0; i < d->curves.n_columns; i++)
        if (!strcmp(d->curves.column[i]->name, name))
            return d->curves.column[i];
    fail_msg("no column %s", name);
    return NULL;
}

/* Whatever the length: every record is in one bucket, in order, and extremes survive. */
static void curves_are_bounded(void **state)
{
    (void)state;
    static const int lengths[] = {1, RT_BUCKETS - 1, RT_BUCKETS, RT_BUCKETS + 1, 7777, 60000};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        RtDigest d = {.offset = 0};
        int n = lengths[k];
        double sum = 0;
        int64_t records = 0;
        for (int i = 1; i <= n; i++)
            add(&d, "{\"event\":\"step\",\"step\":%d,\"epoch\":1,\"loss\":%g,\"lr\":null}", i,
                i == n / 2 ? 1000.0 : (double)(i % 10));
        const RtColumn *loss = column(&d, "loss");
        assert_int_equal(d.curves.n_columns, 1);
        assert_in_range(d.curves.used, n < RT_BUCKETS ? n : RT_BUCKETS / 2, RT_BUCKETS);
        assert_int_equal(d.curves.step[d.curves.used - 1], n);
        double high = 0;
        for (int i = 0; i < d.curves.used; i++) {
            sum += loss->sum[i];
            records += loss->n[i];
            high = fmax(high, (double)loss->high[i]);
            assert_true(i == 0 || d.curves.step[i] > d.curves.step[i - 1]);
            assert_true(loss->low[i] <= loss->sum[i] / loss->n[i] &&
                        loss->sum[i] / loss->n[i] <= loss->high[i]);
        }
        double expected = 0;
        for (int i = 1; i <= n; i++)
            expected += i == n / 2 ? 1000.0 : (double)(i % 10);
        assert_int_equal(records, n);
        assert_true(sum == expected);
        assert_true(n < 2 || high == 1000.0);
        rt_digest_free(&d);
    }
}

/* A loss that is not a number is seen, however many finite ones are around it; the norm of a skipped update is
 * left out, and the skip counted. */
static void what_is_not_finite(void **state)
{
    (void)state;
    RtDigest d = {.offset = 0};
    for (int i = 1; i <= 4 * RT_BUCKETS; i++) {
        if (i == 9)
            add(&d, "{\"event\":\"overflow\",\"step\":9,\"scale_old\":2,\"scale_new\":1}");
        add(&d,
            "{\"event\":\"step\",\"step\":%d,\"epoch\":1,\"loss\":%s,\"grad_norm\":%s,\"skipped\":%"
            "s}",
            i, i == 700 ? "\"nan\"" : "1", i == 9 ? "\"inf\"" : "2", i == 9 ? "true" : "false");
    }
    const RtColumn *loss = column(&d, "loss"), *norm = column(&d, "grad_norm"),
                   *skips = column(&d, "skips");
    int nans = 0;
    double skipped = 0;
    for (int i = 0; i < d.curves.used; i++) {
        nans += isnan(loss->sum[i]);
        assert_true(!norm->n[i] || norm->sum[i] == 2.0 * norm->n[i]);
        skipped += skips->n[i] ? skips->sum[i] : 0;
    }
    assert_int_equal(nans, 1);
    assert_true(skipped == 1);
    assert_int_equal(d.n_overflows, 1);
    rt_digest_free(&d);
}

static void evaluations_are_thinned(void **state)
{
    (void)state;
    RtDigest d = {.offset = 0};
    for (int i = 1; i <= 5000; i++) {
        add(&d, "{\"event\":\"eval\",\"step\":%d,\"set\":\"a\",\"loss\":1,\"m\":[[1,2],[3,%d]]}", i,
            i);
        if (i % 100 == 0)
            add(&d, "{\"event\":\"eval\",\"step\":%d,\"set\":\"b\",\"loss\":1}", i);
        add(&d, "{\"event\":\"overflow\",\"step\":%d}", i);
    }
    assert_int_equal(d.n_sets, 2);
    assert_in_range(d.sets[0]->kept, RT_EVALUATIONS / 2, RT_EVALUATIONS);
    assert_int_equal(d.sets[1]->kept, 50);
    assert_says(d.sets[0]->record[0], "\"step\":1,");
    assert_says(d.sets[0]->record[d.sets[0]->kept - 1], "\"step\":5000,");
    assert_null(strchr(d.sets[0]->record[0], '['));
    assert_says(d.sets[0]->matrix, "[[1,2],[3,5000]]");
    assert_null(d.sets[1]->matrix);
    assert_int_equal(d.n_overflows, 5000);
    assert_says(d.overflow[(d.n_overflows - 1) % RT_OVERFLOWS], "5000");
    rt_digest_free(&d);
}

/* What is not whole yet is read when it is; what is no record is passed over; a run that continues has no end. */
static void the_log_is_read_on(void **state)
{
    (void)state;
    RtDigest d = {.offset = 0};
    RtErr e;
    write_text("log.jsonl",
               "{\"event\":\"start\",\"seed\":7}\nnonsense\n[1]\n{\"event\":\"step\",\"st");
    assert_true(rt_digest_read(&d, "log.jsonl", &e));
    assert_says(d.start, "\"seed\":7");
    assert_int_equal(d.curves.records, 0);
    write_text("log.jsonl",
               "{\"event\":\"start\",\"seed\":7}\nnonsense\n[1]\n{\"event\":\"step\",\"step\":3,"
               "\"loss\":1}\n{\"event\":\"end\",\"status\":0}\n");
    assert_true(rt_digest_read(&d, "log.jsonl", &e));
    assert_int_equal(d.curves.records, 1);
    assert_int_equal(d.curves.step[0], 3);
    assert_non_null(d.end);
    /* Cut at any place, or of other members, a step is no step. */
    static const char whole[] = "{\"event\":\"step\",\"step\":4,\"loss\":\"nan\",\"skipped\":true}";
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        char *copy = malloc(n + 1);
        memcpy(copy, whole, n);
        rt_digest_line(&d, copy, n);
        free(copy);
    }
    add(&d, "{\"event\":\"step\",\"st\\u0065p\":1,\"loss\":2}");
    add(&d, "{\"event\":\"step\",\"step\":{\"a\":[1]},\"loss\":2");
    assert_int_equal(d.curves.records, 1);
    add(&d, "{\"event\":\"resume\",\"seed\":7}");
    assert_null(d.end);
    assert_int_equal(d.resumes, 1);
    assert_false(rt_digest_read(&d, "absent.jsonl", &e));
    assert_says(e.text, "absent.jsonl");
    rt_digest_free(&d);
}

static void nothing_ends_the_script(void **state)
{
    (void)state;
    static const char evil[] = "{\"a\":\"</script><!-- <script> & \\u003c\"}";
    RtJson out = {0};
    rt_json_start(&out);
    rt_html_json(&out, evil, sizeof evil - 1);
    assert_null(strpbrk(out.text, "<>&"));
    json_t *before = json_loads(evil, 0, NULL), *after = json_loads(out.text, 0, NULL);
    assert_true(json_equal(before, after));
    json_decref(before);
    json_decref(after);
    free(out.text);
    assert_true(rt_report_head_size > 1000 && rt_report_tail_size > 1000);
    assert_memory_equal(rt_report_tail, "</script>", 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curves_are_bounded),      cmocka_unit_test(what_is_not_finite),
        cmocka_unit_test(evaluations_are_thinned), cmocka_unit_test(the_log_is_read_on),
        cmocka_unit_test(nothing_ends_the_script),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
