/* test_rt_schedule.c: every schedule of abi/schedules.def against the rates that PyTorch and transformers
 * give (tests/golden/schedules), to 1e-12. */
#include "abi/mpc_rt.h"
#include "rt_fixture.h"

#include <cjson/cJSON.h>
#include <math.h>

enum { ARGS = 16 };

typedef struct Row {
    const char *name;
    int n;
    const char *args[8];
    double defaults[8];
} Row;

#define LIST(...) __VA_ARGS__
#define COUNT(...) (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *))
static const Row rows[] = {
#define SCHEDULE(name, args, defaults, torch) {#name, COUNT args, {LIST args}, {LIST defaults}},
#include "abi/schedules.def"
};

/* Golden cases whose name is not the schedule's. */
static const char *const alias[][2] = {
    {"constant_then_full", "constant"},
    {"linear_down", "linear"},
    {"cosine_short", "cosine"},
    {"onecycle_linear", "onecycle"},
    {"linear_warmup_short", "linear_warmup"},
    {"wsd_linear", "wsd"},
};

static int kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof alias / sizeof alias[0]; i++)
        if (!strcmp(name, alias[i][0]))
            name = alias[i][1];
    for (int i = 0; i < MPC_SCHEDULE_COUNT; i++)
        if (!strcmp(name, rows[i].name))
            return i;
    return -1;
}

static double arg_value(const cJSON *args, const char *name)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(args, name);
    const cJSON *anneal = cJSON_GetObjectItemCaseSensitive(args, "anneal_strategy");
    const cJSON *decay = cJSON_GetObjectItemCaseSensitive(args, "decay_type");
    if (!strcmp(name, "linear"))
        return (anneal && !strcmp(anneal->valuestring, "linear")) ||
               (decay && !strcmp(decay->valuestring, "linear"));
    if (!strcmp(name, "halve"))
        return 1;
    if (cJSON_IsBool(v))
        return cJSON_IsTrue(v);
    return v ? v->valuedouble : (double)NAN;
}

static void fill_args(int kind, const cJSON *args, double *out)
{
    for (int i = 0; i < rows[kind].n; i++) {
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(args, rows[kind].args[i]);
        double v = arg_value(args, rows[kind].args[i]);
        if (cJSON_IsArray(list)) {
            out[i] = cJSON_GetArraySize(list);
            for (int k = 0; k < cJSON_GetArraySize(list); k++)
                out[i + 1 + k] = cJSON_GetArrayItem(list, k)->valuedouble;
            return;
        }
        out[i] = isnan(v) ? rows[kind].defaults[i] : v;
    }
}

static void compare(const char *name, double got, double want, int k)
{
    if (!(fabs(got - want) <= 1e-12 * fmax(fabs(want), 1e-3)))
        fail_msg("%s: rate of update %d is %.17g, expected %.17g", name, k, got, want);
}

static double composed(double base, int k)
{
    double warm[3] = {0.1, 1, 5}, rest[2] = {45, 0};
    return k < 5 ? mpc_schedule(MPC_SCHEDULE_linear, base, warm, k)
                 : mpc_schedule(MPC_SCHEDULE_cosine, base, rest, k - 5);
}

static cJSON *load(void)
{
    const char *root = getenv("MPC_SOURCE_DIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/golden/schedules/schedules.json", root ? root : ".");
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = calloc(1, 1 << 20);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    cJSON *root_item = cJSON_Parse(text);
    free(text);
    assert_non_null(root_item);
    return root_item;
}

static void golden_rates(void **state)
{
    (void)state;
    cJSON *file = load();
    const cJSON *s;
    bool seen[MPC_SCHEDULE_COUNT] = {false};
    int compared = 0;
    cJSON_ArrayForEach(s, cJSON_GetObjectItem(file, "schedules"))
    {
        const char *name = cJSON_GetObjectItem(s, "name")->valuestring;
        double base = cJSON_GetObjectItem(s, "base_lr")->valuedouble, args[ARGS] = {0};
        const cJSON *lr = cJSON_GetObjectItem(s, "lr"), *metric = cJSON_GetObjectItem(s, "metric");
        MpcPlateau plateau = {.begun = false};
        int falls = 0, kind = kind_of(name);
        if (kind >= 0)
            fill_args(kind, cJSON_GetObjectItem(s, "args"), args);
        else
            assert_string_equal(name, "warmup_then_cosine");
        for (int k = 0; k < cJSON_GetArraySize(lr); k++) {
            int64_t at = metric ? falls : k; /* a plateau follows a metric, not the updates */
            double got =
                kind < 0 ? composed(base, k) : mpc_schedule((MpcScheduleKind)kind, base, args, at);
            if (metric)
                falls += mpc_plateau(&plateau, args, cJSON_GetArrayItem(metric, k)->valuedouble);
            compare(name, got, cJSON_GetArrayItem(lr, k)->valuedouble, k);
            compared++;
        }
        if (kind >= 0)
            seen[kind] = true;
    }
    cJSON_Delete(file);
    for (int i = 0; i < MPC_SCHEDULE_COUNT; i++)
        if (!seen[i])
            fail_msg("no golden rates for %s", rows[i].name);
    assert_int_equal(compared, 26 * 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_rates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
