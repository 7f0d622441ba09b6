/* test_rt_events.c: event files, read back by a decoder that is written from the formats' descriptions and
 * shares nothing with the writer: the CRC bit by bit, protocol buffers field by field. */
#include "rt_events.h"
#include "rt_fixture.h"

#include <glob.h>
#include <math.h>
#include <time.h>

typedef struct Scalar {
    char tag[64];
    float value;
} Scalar;

typedef struct Event {
    double wall;
    int64_t step;
    char version[32];
    int session; /* status, 0: none */
    Scalar scalar[8];
    int n;
} Event;

typedef struct Bytes {
    const unsigned char *at, *end;
} Bytes;

static uint32_t crc32c(const unsigned char *p, size_t n)
{
    uint32_t c = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? (c >> 1) ^ 0x82f63b78 : c >> 1;
    }
    return c ^ 0xffffffff;
}

static uint64_t little(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static uint64_t varint(Bytes *b)
{
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(b->at < b->end && shift < 64);
        v |= (uint64_t)(*b->at & 0x7f) << shift;
        if (!(*b->at++ & 0x80))
            return v;
    }
}

static uint64_t fixed(Bytes *b, int n)
{
    assert_true(b->end - b->at >= n);
    b->at += n;
    return little(b->at - n, n);
}

static Bytes message(Bytes *b)
{
    uint64_t n = varint(b);
    assert_true((uint64_t)(b->end - b->at) >= n);
    b->at += n;
    return (Bytes){b->at - n, b->at};
}

static void text(Bytes *b, char *out, size_t size)
{
    Bytes t = message(b);
    assert_true((size_t)(t.end - t.at) < size);
    memcpy(out, t.at, (size_t)(t.end - t.at));
    out[t.end - t.at] = 0;
}

static void read_summary(Bytes b, Event *e)
{
    while (b.at < b.end) {
        assert_int_equal(varint(&b), 1 << 3 | 2);
        Bytes v = message(&b);
        Scalar *s = &e->scalar[e->n++];
        assert_true(e->n <= 8);
        while (v.at < v.end) {
            uint64_t key = varint(&v);
            if (key == (1 << 3 | 2)) {
                text(&v, s->tag, sizeof s->tag);
            } else {
                assert_int_equal(key, 2 << 3 | 5);
                uint32_t bits = (uint32_t)fixed(&v, 4);
                memcpy(&s->value, &bits, 4);
            }
        }
    }
}

static Event read_event(Bytes b)
{
    Event e = {0};
    while (b.at < b.end) {
        uint64_t key = varint(&b), bits;
        switch (key) {
        case 1 << 3 | 1:
            bits = fixed(&b, 8);
            memcpy(&e.wall, &bits, 8);
            break;
        case 2 << 3 | 0: e.step = (int64_t)varint(&b); break;
        case 3 << 3 | 2: text(&b, e.version, sizeof e.version); break;
        case 5 << 3 | 2: read_summary(message(&b), &e); break;
        case 7 << 3 | 2: {
            Bytes log = message(&b);
            assert_int_equal(varint(&log), 1 << 3);
            e.session = (int)varint(&log);
            break;
        }
        default: fail_msg("key %llu", (unsigned long long)key);
        }
    }
    return e;
}

static uint32_t masked(const unsigned char *p, size_t n)
{
    uint32_t c = crc32c(p, n);
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

/* All events of a file; their number. */
static int read_file(const char *path, Event *events, int most)
{
    static unsigned char bytes[1 << 16];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    int n = 0;
    for (size_t at = 0; at < size; n++) {
        assert_true(n < most && size - at >= 16);
        size_t length = (size_t)little(bytes + at, 8);
        assert_true(length <= size - at - 16);
        assert_int_equal(little(bytes + at + 8, 4), masked(bytes + at, 8));
        assert_int_equal(little(bytes + at + 12 + length, 4), masked(bytes + at + 12, length));
        events[n] = read_event((Bytes){bytes + at + 12, bytes + at + 12 + length});
        at += length + 16;
    }
    return n;
}

static void scalars_come_back(void **state)
{
    (void)state;
    RtEvents v;
    RtErr e;
    Event event[8];
    glob_t files;
    assert_true(rt_events_open(&v, ".", 301, &e));
    rt_events_begin(&v, 301);
    rt_events_scalar(&v, "train/loss", 0.1);
    rt_events_scalar(&v, "train/lr", 1e-3);
    assert_true(rt_events_write(&v));
    rt_events_begin(&v, INT64_C(1) << 40);
    rt_events_scalar(&v, "eval/test/accuracy", (double)NAN);
    assert_true(rt_events_write(&v));
    rt_events_close(&v);
    assert_int_equal(glob("events.out.tfevents.*", 0, NULL, &files), 0);
    assert_int_equal(files.gl_pathc, 1);
    assert_int_equal(read_file(files.gl_pathv[0], event, 8), 4);
    globfree(&files);
    assert_string_equal(event[0].version, "brain.Event:2");
    assert_true(fabs(event[0].wall - (double)time(NULL)) < 3600);
    assert_int_equal(event[1].session, 1);
    assert_int_equal(event[1].step, 301);
    assert_int_equal(event[2].step, 301);
    assert_int_equal(event[2].n, 2);
    assert_string_equal(event[2].scalar[0].tag, "train/loss");
    assert_true(event[2].scalar[0].value == 0.1f);
    assert_string_equal(event[2].scalar[1].tag, "train/lr");
    assert_true(event[2].scalar[1].value == 1e-3f);
    assert_int_equal(event[3].step, INT64_C(1) << 40);
    assert_string_equal(event[3].scalar[0].tag, "eval/test/accuracy");
    assert_true(isnan(event[3].scalar[0].value));
}

/* The check values of RFC 3720, so that the decoder itself is not taken on trust. */
static void the_decoder_knows_crc32c(void **state)
{
    (void)state;
    unsigned char zeros[32] = {0};
    assert_int_equal(crc32c((const unsigned char *)"123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(zeros, sizeof zeros), 0x8a9136aa);
}

static void each_start_has_a_file(void **state)
{
    (void)state;
    RtEvents v[3];
    RtErr e;
    glob_t files;
    for (int i = 0; i < 3; i++)
        assert_true(rt_events_open(&v[i], ".", 0, &e));
    for (int i = 0; i < 3; i++)
        rt_events_close(&v[i]);
    assert_int_equal(glob("events.out.tfevents.*", 0, NULL, &files), 0);
    assert_int_equal(files.gl_pathc, 4); /* that of the first test is there, too */
    globfree(&files);
    assert_false(rt_events_open(&v[0], "nowhere", 0, &e));
    assert_says(e.text, "nowhere");
    rt_events_close(&v[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_decoder_knows_crc32c),
        cmocka_unit_test(scalars_come_back),
        cmocka_unit_test(each_start_has_a_file),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
