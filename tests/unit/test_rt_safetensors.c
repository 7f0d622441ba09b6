/* test_rt_safetensors.c: what is written is read back bit for bit; what is malformed is refused with a
 * reason, whatever it is. */
#include "rt_fixture.h"
#include "rt_safetensors.h"

#include <math.h>

static RtErr said;

static const int64_t dims_w[] = {2, 3}, dims_n[] = {0, 5};
static const float w[] = {1, -2, 3.5f, 1e-40f, -0.0f, 3e38f};
static const double d[] = {0.1, -1e300};
static const int64_t count = -7;
static const uint8_t flag = 1;

static void round_trip(void **state)
{
    (void)state;
    const int64_t two = 2;
    const RtSaved saved[] = {
        {"fc.weight", MPC_DT_f32, 2, dims_w, w},  {"flag", MPC_DT_bool, 0, NULL, &flag},
        {"count", MPC_DT_i64, 0, NULL, &count},   {"wide", MPC_DT_f64, 1, &two, d},
        {"none \"q\"", MPC_DT_f32, 2, dims_n, w},
    };
    assert_true(rt_safetensors_write("a.safetensors", saved, 5, &said));
    RtSafetensors st;
    if (!rt_safetensors_open(&st, "a.safetensors", &said))
        fail_msg("%s", said.text);
    assert_int_equal(st.n, 5);
    assert_int_equal(st.data % 8, 0);
    const RtStored *t = rt_safetensors_find(&st, "fc.weight");
    assert_non_null(t);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->dims[1], 3);
    float back[6];
    double wide[6];
    assert_true(rt_safetensors_read(&st, t, MPC_DT_f32, back, &said));
    assert_memory_equal(back, w, sizeof w);
    assert_true(rt_safetensors_read(&st, t, MPC_DT_f64, wide, &said));
    assert_true(wide[2] == 3.5);
    t = rt_safetensors_find(&st, "wide");
    assert_int_equal(t->dtype, MPC_DT_f32); /* models are stored as f32 */
    assert_true(rt_safetensors_read(&st, t, MPC_DT_f32, back, &said));
    assert_true(back[0] == 0.1f && isinf(back[1]));
    t = rt_safetensors_find(&st, "count");
    int64_t n;
    assert_true(rt_safetensors_read(&st, t, MPC_DT_i64, &n, &said));
    assert_int_equal(n, -7);
    assert_false(rt_safetensors_read(&st, t, MPC_DT_f32, back, &said));
    assert_says(said.text, "cannot become f32");
    assert_non_null(rt_safetensors_find(&st, "none \"q\""));
    assert_null(rt_safetensors_find(&st, "fc.bias"));
    rt_safetensors_close(&st);
}

static size_t make(unsigned char *out, const char *header, size_t data)
{
    size_t n = strlen(header);
    for (int i = 0; i < 8; i++)
        out[i] = (unsigned char)(n >> (8 * i));
    memcpy(out + 8, header, n);
    memset(out + 8 + n, 0, data);
    return 8 + n + data;
}

static bool opens(const char *header, size_t data)
{
    static unsigned char bytes[4096];
    RtSafetensors st;
    write_file("b.safetensors", bytes, make(bytes, header, data));
    bool ok = rt_safetensors_open(&st, "b.safetensors", &said);
    if (ok)
        rt_safetensors_close(&st);
    return ok;
}

static void refuses(const char *header, size_t data, const char *part)
{
    if (opens(header, data))
        fail_msg("taken: %s", header);
    assert_says(said.text, "b.safetensors");
    assert_says(said.text, part);
}

static void narrow_types(void **state)
{
    (void)state;
    static const char header[] = "{\"h\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                                 "\"b\":{\"shape\":[1],\"dtype\":\"BF16\",\"data_offsets\":[4,6]}}";
    unsigned char bytes[300];
    size_t n = make(bytes, header, 6);
    memcpy(bytes + n - 6, "\x00\x3c\x01\x00\x80\x3f", 6); /* 1, 2^-24; 1 */
    write_file("c.safetensors", bytes, n);
    RtSafetensors st;
    float v[2];
    assert_true(rt_safetensors_open(&st, "c.safetensors", &said));
    assert_true(rt_safetensors_read(&st, rt_safetensors_find(&st, "h"), MPC_DT_f32, v, &said));
    assert_true(v[0] == 1 && v[1] == 0x1p-24f);
    assert_true(rt_safetensors_read(&st, rt_safetensors_find(&st, "b"), MPC_DT_f32, v, &said));
    assert_true(v[0] == 1);
    rt_safetensors_close(&st);
}

#define T(name, rest) "\"" name "\":{\"dtype\":\"F32\"," rest "}"

static void malformed(void **state)
{
    (void)state;
    assert_true(opens("{" T("a", "\"shape\":[2],\"data_offsets\":[0,8]") "}   ", 8));
    assert_true(opens("{\"__metadata__\":{\"format\":\"pt\"}}", 0));
    refuses("", 0, "JSON");
    refuses("[]", 0, "no JSON object");
    refuses("{", 0, "JSON");
    refuses("{}x", 0, "JSON");
    refuses("{}", 4, "belong to no tensor");
    refuses("{\"a\":1}", 0, "is no object");
    refuses("{\"a\":{}}", 0, "no dtype");
    refuses("{\"a\":{\"dtype\":\"F3\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "not supported");
    refuses("{" T("a", "\"data_offsets\":[0,4]") "}", 4, "no shape");
    refuses("{" T("a", "\"shape\":[-1],\"data_offsets\":[0,4]") "}", 4, "natural number");
    refuses("{" T("a", "\"shape\":[1.5],\"data_offsets\":[0,4]") "}", 4, "natural number");
    refuses("{" T("a", "\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]") "}", 4,
            "8 dimensions");
    refuses("{" T("a", "\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]") "}", 4,
            "absurdly large");
    refuses("{" T("a", "\"shape\":[4611686018427387904],\"data_offsets\":[0,4]") "}", 4,
            "do not fit");
    refuses("{" T("a", "\"shape\":[1]") "}", 4, "data_offsets");
    refuses("{" T("a", "\"shape\":[1],\"data_offsets\":[4,0]") "}", 4, "data_offsets");
    refuses("{" T("a", "\"shape\":[1],\"data_offsets\":[0]") "}", 4, "data_offsets");
    refuses("{" T("a", "\"shape\":[1],\"data_offsets\":[-4,0]") "}", 4, "data_offsets");
    refuses("{" T("a", "\"shape\":[2],\"data_offsets\":[0,4]") "}", 4, "do not fit");
    refuses("{" T("a", "\"shape\":[2],\"data_offsets\":[0,8]") "}", 4, "beyond the end");
    refuses("{" T("a", "\"shape\":[1],\"data_offsets\":[0,4]") "," T(
                "b", "\"shape\":[1],\"data_offsets\":[0,4]") "}",
            4, "overlaps");
    refuses("{" T("a", "\"shape\":[1],\"data_offsets\":[0,4]") "," T(
                "b", "\"shape\":[1],\"data_offsets\":[8,12]") "}",
            12, "gap");
    refuses("{" T("a", "\"shape\":[1],\"data_offsets\":[0,4]") "," T(
                "a", "\"shape\":[1],\"data_offsets\":[4,8]") "}",
            8, "JSON");
    refuses("{\"a\":[[[[[[[[[[[[]]]]]]]]]]]]}", 0, "nests too deeply");
}

static void broken_files(void **state)
{
    (void)state;
    RtSafetensors st;
    unsigned char bytes[300];
    size_t n = make(bytes, "{" T("a", "\"shape\":[2],\"data_offsets\":[0,8]") "}", 8);
    for (size_t cut = 0; cut < n; cut++) {
        write_file("d.safetensors", bytes, cut);
        assert_false(rt_safetensors_open(&st, "d.safetensors", &said));
    }
    for (size_t at = 0; at < n - 8; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes[at] ^= (unsigned char)(1u << bit);
            write_file("d.safetensors", bytes, n);
            if (rt_safetensors_open(&st, "d.safetensors", &said))
                rt_safetensors_close(&st);
            bytes[at] ^= (unsigned char)(1u << bit);
        }
    memset(bytes, 255, 8);
    write_file("d.safetensors", bytes, n);
    assert_false(rt_safetensors_open(&st, "d.safetensors", &said));
    assert_says(said.text, "longer than the file");
    assert_false(rt_safetensors_open(&st, "nosuch.safetensors", &said));
    assert_says(said.text, "nosuch.safetensors");
    assert_false(rt_safetensors_open(&st, ".", &said));
    assert_says(said.text, "not a file");
}

/* A header of two million empty arrays must not become two million objects. */
static void costly_header(void **state)
{
    (void)state;
    size_t n = 6 << 20;
    char *bytes = malloc(n + 8);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(n >> (8 * i));
    memcpy(bytes + 8, "{\"a\":[", 6);
    for (size_t i = 14; i < n + 8; i += 3)
        memcpy(bytes + i, "[],", n + 8 - i < 3 ? n + 8 - i : 3);
    write_file("e.safetensors", bytes, n + 8);
    RtSafetensors st;
    assert_false(rt_safetensors_open(&st, "e.safetensors", &said));
    assert_says(said.text, "too many parts");
    free(bytes);
}

/* Nothing half-written is left under the name, or beside it. */
static void not_writable(void **state)
{
    (void)state;
    const RtSaved saved = {"w", MPC_DT_f32, 2, dims_w, w};
    assert_false(rt_safetensors_write("nofolder/a.safetensors", &saved, 1, &said));
    assert_says(said.text, "nofolder/a.safetensors");
    assert_int_equal(system("mkdir taken.safetensors"), 0);
    assert_false(rt_safetensors_write("taken.safetensors", &saved, 1, &said));
    assert_int_equal(system("test -z \"$(ls -A | grep '^\\.taken')\""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),    cmocka_unit_test(narrow_types),
        cmocka_unit_test(malformed),     cmocka_unit_test(broken_files),
        cmocka_unit_test(costly_header), cmocka_unit_test(not_writable),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
