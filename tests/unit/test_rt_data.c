/* test_rt_data.c: the readers of csv, tsv and idx: what they take, and how they refuse what is wrong: with
 * the file, the line and the column, never with a crash. */
#include "rt_data.h"
#include "rt_fixture.h"

#include <zlib.h>

static RtErr said;

static size_t packed(const void *bytes, size_t n, unsigned char *out, size_t size)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)(uintptr_t)bytes;
    z.avail_in = (unsigned)n;
    z.next_out = out;
    z.avail_out = (unsigned)size;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t used = z.total_out;
    deflateEnd(&z);
    return used;
}

/* ---- csv ---- */

static const MpcColumns a_to_c[] = {{"a", "c"}};
static const MpcField csv_fields[] = {
    {.name = "x", .dtype = MPC_DT_f32, .rank = 1, .dims = {3}, .columns = a_to_c, .n_columns = 1},
    {.name = "label", .dtype = MPC_DT_i32},
};
static const char *const csv_paths[] = {"t.csv"};
static const MpcData csv = {.name = "t",
                            .kind = MPC_DATA_csv,
                            .paths = csv_paths,
                            .n_paths = 1,
                            .fields = csv_fields,
                            .n_fields = 2};

static bool load(RtTable *t, const MpcData *decl)
{
    RtPlaces places = {NULL, NULL};
    memset(&said, 0, sizeof said);
    return rt_table_load(t, decl, &places, &said);
}

static void takes(const char *text, int64_t rows, const float *x, const int32_t *labels)
{
    RtTable t;
    write_text("t.csv", text);
    if (!load(&t, &csv))
        fail_msg("refused: %s", said.text);
    assert_int_equal(t.rows, rows);
    assert_memory_equal(t.column[0], x, (size_t)rows * 3 * sizeof *x);
    assert_memory_equal(t.column[1], labels, (size_t)rows * sizeof *labels);
    rt_table_free(&t);
}

static void refuses_bytes(const void *bytes, size_t n, const char *part)
{
    RtTable t;
    write_file("t.csv", bytes, n);
    assert_false(load(&t, &csv));
    assert_says(said.text, "t.csv");
    assert_says(said.text, part);
    rt_table_free(&t);
}

static void refuses(const char *text, const char *part)
{
    refuses_bytes(text, strlen(text), part);
}

static void csv_taken(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, -0.5f, 1e-3f, 4e5f};
    const int32_t labels[] = {7, -2};
    takes("a,b,c,label\n1,2,3,7\n-0.5,1e-3,4e5,-2\n", 2, x, labels);
    takes("a,b,c,label\r\n1,2,3,7\r\n-0.5,1e-3,4e5,-2", 2, x, labels);
    takes("\xef\xbb\xbf"
          "a,b,c,label\n\n1,2,3,7\n   \n-0.5,1e-3,4e5,-2\n\n",
          2, x, labels);
    takes("label, a ,b,c,extra\n7,1,2,3,words\n-2,-.5,.001,400000,\n", 2, x, labels);
    takes("\"a\",\"b\",\"c\",\"label\"\n\"1\",\"2\",\"3\",7\n\"-0.5\",\" 1e-3 \",+4E5,\"-2\"\r\n",
          2, x, labels);
    takes("a,b,c,label,note\n1,2,3,7,\"two\nlines, \"\"quoted\"\"\"\n-0.5,0.001,4e5,-2.0,\n", 2, x,
          labels);
}

static void csv_refused(void **state)
{
    (void)state;
    refuses("", "empty");
    refuses("\n\n", "empty");
    refuses("a,b,c,label\n", "no rows");
    refuses("a,b,C,label\n1,2,3,4\n", "no column \"c\"");
    assert_says(said.hint, "\"C\"");
    refuses("a,b,c,lable\n1,2,3,4\n", "no column \"label\"");
    assert_says(said.hint, "did you mean \"lable\"");
    refuses("a,b,c,label,label\n1,2,3,4,5\n", "2 columns are called");
    refuses("c,b,a,label\n1,2,3,4\n", "comes after");
    refuses("a,b,b2,c,label\n1,2,3,4,5\n", "takes 4 columns");
    refuses("a,b,c,label\n1,2,3,4\n1,2x,3,4\n", "t.csv:3: column \"b\": '2x' is not a number");
    refuses("a,b,c,label\n\n1,,3,4\n", "t.csv:3: column \"b\": '' is empty");
    refuses("a,b,c,label\n1,2,nan,4\n", "is not finite");
    refuses("a,b,c,label\n1,2,-inf,4\n", "is not finite");
    refuses("a,b,c,label\n1,2,Infinity,4\n", "is not finite");
    refuses("a,b,c,label\n1,2,1e39,4\n", "too large for f32");
    refuses("a,b,c,label\n1,2,0x10,4\n", "is not a number");
    refuses("a,b,c,label\n1,2,3,1.5\n", "is not a whole number");
    refuses("a,b,c,label\n1,2,3,2147483648\n", "does not fit i32");
    refuses("a,b,c,label\n1,2,3,99999999999999999999\n", "is too large");
    refuses("a,b,c,label\n1,2,3,cat\n", "is not a number");
    refuses("a,b,c,label\n1,2,3\n", "t.csv:2: the row has 3 cells");
    refuses("a,b,c,label\n1,2,3,4\n1,2,3,4,5\n", "t.csv:3: the row has 5 cells");
    refuses("a,b,c,label\n1,2,3,\"4\n", "t.csv:2: a quote is opened");
    refuses("a,b,c,label\n1,\"2\"2,3,4\n", "between a closing quote");
    refuses_bytes("a,b,c,label\n1,2,\0003,4\n", 21, "zero byte");
}

/* No row, however long, makes the reader take more than 16 MiB for it. */
static void csv_without_end(void **state)
{
    (void)state;
    size_t n = 20 << 20;
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, 'x', n);
    text[0] = '"';
    refuses_bytes(text, n, "longer than 16 MiB");
    free(text);
}

static void csv_noise(void **state)
{
    (void)state;
    unsigned seed = 1;
    char bytes[400];
    for (int round = 0; round < 2000; round++) {
        static const char some[] = "a,b,c,label\n1,2.5e3,-3,4\n\"\"\"\t\r\0nan";
        for (size_t i = 0; i < sizeof bytes; i++) {
            seed = seed * 1103515245 + 12345;
            bytes[i] = some[(seed >> 16) % (sizeof some - 1)];
        }
        memcpy(bytes, "a,b,c,label\n", 12);
        RtTable t;
        write_file("t.csv", bytes, seed % sizeof bytes);
        if (!load(&t, &csv))
            assert_says(said.text, "t.csv");
        rt_table_free(&t);
    }
}

static void tsv_and_types(void **state)
{
    (void)state;
    static const MpcField fields[] = {
        {.name = "a", .dtype = MPC_DT_f64}, {.name = "b", .dtype = MPC_DT_i64},
        {.name = "c", .dtype = MPC_DT_u8},  {.name = "d", .dtype = MPC_DT_bool},
        {.name = "e", .dtype = MPC_DT_i8},
    };
    static const MpcData tsv = {.name = "t",
                                .kind = MPC_DATA_tsv,
                                .paths = csv_paths,
                                .n_paths = 1,
                                .fields = fields,
                                .n_fields = 5};
    RtTable t;
    write_text("t.csv",
               "a\tb\tc\td\te\ttext\n0.1\t-9223372036854775808\t255\ttrue\t-128\tsay \"hi\n");
    if (!load(&t, &tsv))
        fail_msg("refused: %s", said.text);
    assert_true(*(double *)(void *)t.column[0] == 0.1);
    assert_true(*(int64_t *)(void *)t.column[1] == INT64_MIN);
    assert_int_equal(t.column[2][0], 255);
    assert_int_equal(t.column[3][0], 1);
    assert_int_equal((int8_t)t.column[4][0], -128);
    rt_table_free(&t);
    write_text("t.csv", "a\tb\tc\td\te\n0.1\t1\t256\t0\t0\n");
    assert_false(load(&t, &tsv));
    assert_says(said.text, "does not fit u8");
    rt_table_free(&t);
}

/* ---- bin ---- */

static const MpcField bin_fields[] = {
    {.name = "label", .dtype = MPC_DT_u8},
    {.name = "x", .dtype = MPC_DT_i32, .rank = 1, .dims = {2}},
    {.name = "z", .dtype = MPC_DT_f32},
};
static const char *const bin_paths[] = {"one.bin", "two.bin"};
static const MpcData bin = {.name = "b",
                            .kind = MPC_DATA_bin,
                            .paths = bin_paths,
                            .n_paths = 2,
                            .fields = bin_fields,
                            .n_fields = 3};

/* Record i: label i, x = (i, -1), z = 1.5; little-endian. */
static size_t bin_records(unsigned char *out, int from, int n)
{
    for (int i = from; i < from + n; i++, out += 13) {
        const unsigned char record[13] = {
            (unsigned char)i, (unsigned char)i, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0xc0, 0x3f};
        memcpy(out, record, sizeof record);
    }
    return (size_t)n * 13;
}

static void bin_taken(void **state)
{
    (void)state;
    enum { FIRST = 700, SECOND = 3 }; /* more than a piece, and less */
    static unsigned char bytes[FIRST * 13], gz[sizeof bytes];
    for (int pack = 0; pack < 2; pack++) {
        size_t n = bin_records(bytes, 0, FIRST);
        write_file("one.bin", pack ? gz : bytes, pack ? packed(bytes, n, gz, sizeof gz) : n);
        write_file("two.bin", bytes, bin_records(bytes, 250, SECOND));
        RtTable t;
        if (!load(&t, &bin))
            fail_msg("refused: %s", said.text);
        assert_int_equal(t.rows, FIRST + SECOND);
        for (int i = 0; i < FIRST + SECOND; i++) {
            int want = i < FIRST ? i : 250 + i - FIRST;
            const int32_t *x = (const int32_t *)(const void *)t.column[1];
            assert_int_equal(t.column[0][i], (unsigned char)want);
            assert_int_equal(x[2 * i], want & 255);
            assert_int_equal(x[2 * i + 1], -1);
            assert_true(((const float *)(const void *)t.column[2])[i] == 1.5f);
        }
        char where[100];
        assert_string_equal(rt_row_text(where, sizeof where, &t, 2, 0),
                            "'one.bin', row 1 (counted from 1)");
        assert_string_equal(rt_row_text(where, sizeof where, &t, 0, FIRST + 1),
                            "'two.bin', row 2 (counted from 1)");
        rt_table_free(&t);
        size_t size = 0;
        RtPlaces here = {NULL, NULL};
        assert_true(rt_table_bytes(&bin, &here, &size, &said));
        assert_int_equal(size, (FIRST + SECOND) * 13);
    }
}

static void bin_refuses(const void *bytes, size_t n, const char *part)
{
    RtTable t;
    write_file("two.bin", bytes, n);
    assert_false(load(&t, &bin));
    assert_says(said.text, "two.bin");
    assert_says(said.text, part);
    rt_table_free(&t);
}

static void bin_refused(void **state)
{
    (void)state;
    unsigned char bytes[13 * 4], gz[200];
    size_t n = bin_records(bytes, 0, 4);
    write_file("one.bin", bytes, n);
    bin_refuses(bytes, 0, "empty");
    for (int pack = 0; pack < 2; pack++) {
        const void *cut = pack ? gz : bytes;
        bin_refuses(cut, pack ? packed(bytes, n - 1, gz, sizeof gz) : n - 1,
                    "has 51 bytes, which are no whole number of records of 13 bytes");
        assert_says(said.hint, "3 records take 39 bytes");
        assert_says(said.hint, "1 + 8 + 4");
    }
    bytes[13 + 12] = 0x7f; /* z of record 2 becomes a NaN */
    bin_refuses(bytes, n, "row 2 (counted from 1): z holds a value that is not finite");
}

/* ---- idx ---- */

static const MpcField idx_fields[] = {
    {.name = "image", .dtype = MPC_DT_u8, .rank = 2, .dims = {2, 2}},
    {.name = "label", .dtype = MPC_DT_u8},
};
static const char *const idx_paths[] = {"images", "labels"};
static const MpcData idx = {.name = "i",
                            .kind = MPC_DATA_idx,
                            .paths = idx_paths,
                            .n_paths = 2,
                            .fields = idx_fields,
                            .n_fields = 2};

static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2,  0,  0,
                                       0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const unsigned char labels_file[] = {0, 0, 8, 1, 0, 0, 0, 3, 0, 1, 2};

static void idx_taken(void **state)
{
    (void)state;
    RtTable t;
    unsigned char gz[200];
    for (int pack = 0; pack < 2; pack++) {
        write_file("labels", labels_file, sizeof labels_file);
        write_file("images", pack ? gz : images,
                   pack ? packed(images, sizeof images, gz, sizeof gz) : sizeof images);
        if (!load(&t, &idx))
            fail_msg("refused: %s", said.text);
        assert_int_equal(t.rows, 3);
        assert_memory_equal(t.column[0], images + 16, 12);
        assert_memory_equal(t.column[1], labels_file + 8, 3);
        rt_table_free(&t);
    }
}

static void idx_refuses(const void *bytes, size_t n, const char *part)
{
    RtTable t;
    write_file("images", bytes, n);
    assert_false(load(&t, &idx));
    assert_says(said.text, "images");
    assert_says(said.text, part);
    rt_table_free(&t);
}

/* The images with one byte changed. */
static void idx_changed(size_t at, unsigned char to, const char *part)
{
    unsigned char copy[sizeof images];
    memcpy(copy, images, sizeof copy);
    copy[at] = to;
    idx_refuses(copy, sizeof copy, part);
}

static void idx_refused(void **state)
{
    (void)state;
    unsigned char copy[sizeof images + 1] = {0};
    memcpy(copy, images, sizeof images);
    write_file("labels", labels_file, sizeof labels_file);
    idx_refuses("", 0, "empty");
    idx_refuses(images, 3, "too short");
    idx_refuses(images, 11, "ends within its IDX header");
    idx_refuses(images, sizeof images - 1, "too short");
    idx_refuses(copy, sizeof copy, "longer than its header says");
    idx_changed(0, 1, "wrong magic number");
    idx_changed(2, 0x0f, "wrong magic number");
    idx_changed(3, 0, "wrong magic number");
    idx_changed(3, 200, "wrong magic number");
    idx_changed(2, 9, "holds elements of type i8, but image is declared as u8");
    idx_changed(3, 2, "image is declared as u8[2, 2]");
    idx_changed(11, 3, "[3, 3, 2]");
    idx_changed(4, 255, "too short");
    idx_changed(7, 0, "empty");
    idx_changed(7, 2, "longer than its header says");
    write_file("images", images, sizeof images);
    RtTable t;
    write_file("labels", "\0\0\x08\1\0\0\0\2\0\1", 10);
    assert_false(load(&t, &idx));
    assert_says(said.text, "labels' holds 2 samples, but 'images' holds 3");
    rt_table_free(&t);
}

static void gz_refused(void **state)
{
    (void)state;
    unsigned char gz[200], copy[200];
    size_t n = packed(images, sizeof images, gz, sizeof gz);
    write_file("labels", labels_file, sizeof labels_file);
    for (size_t cut = 1; cut < n; cut++) {
        RtTable t;
        write_file("images", gz, cut);
        assert_false(load(&t, &idx));
        assert_says(said.text, "images");
        rt_table_free(&t);
    }
    idx_refuses(gz, n - 4, "truncated");
    memcpy(copy, gz, n);
    copy[n - 6] ^= 1;
    idx_refuses(copy, n, "damaged");
    /* A header that promises 4 GiB in a file of some bytes. */
    unsigned char liar[sizeof images];
    memcpy(liar, images, sizeof liar);
    liar[4] = 255;
    n = packed(liar, sizeof liar, gz, sizeof gz);
    idx_refuses(gz, n, "too short");
    for (unsigned byte = 0; byte < 30 && byte < n; byte++)
        for (unsigned bit = 0; bit < 8; bit++) {
            RtTable t;
            memcpy(copy, gz, n);
            copy[byte] ^= (unsigned char)(1u << bit);
            write_file("images", copy, n);
            assert_false(load(&t, &idx));
            rt_table_free(&t);
        }
}

/* ---- places ---- */

static void places(void **state)
{
    (void)state;
    RtErr e;
    assert_int_equal(system("mkdir -p home moved && touch home/f.csv moved/f.csv"), 0);
    char *path = rt_find_data(&(RtPlaces){NULL, "home"}, "f.csv", &e);
    assert_string_equal(path, "home/f.csv");
    free(path);
    path = rt_find_data(&(RtPlaces){"moved", "home"}, "f.csv", &e);
    assert_string_equal(path, "moved/f.csv");
    free(path);
    path = rt_find_data(&(RtPlaces){"moved", "home"}, "/nowhere/else/f.csv", &e);
    assert_string_equal(path, "moved/f.csv");
    free(path);
    path = rt_find_data(&(RtPlaces){"nowhere", "home"}, "t.csv", &e);
    assert_string_equal(path, "t.csv");
    free(path);
    assert_null(rt_find_data(&(RtPlaces){"moved", "home"}, "g.csv", &e));
    assert_says(e.text, "g.csv");
    assert_says(e.hint, "moved/g.csv");
    assert_says(e.hint, "home/g.csv");
    assert_says(e.hint, "--data");
    RtTable t;
    assert_int_equal(system("rm -f t.csv && mkdir t.csv"), 0);
    assert_false(load(&t, &csv));
    assert_says(said.text, "not a file");
    rt_table_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_taken),       cmocka_unit_test(csv_refused),
        cmocka_unit_test(csv_without_end), cmocka_unit_test(csv_noise),
        cmocka_unit_test(tsv_and_types),   cmocka_unit_test(bin_taken),
        cmocka_unit_test(bin_refused),     cmocka_unit_test(idx_taken),
        cmocka_unit_test(idx_refused),     cmocka_unit_test(gz_refused),
        cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
