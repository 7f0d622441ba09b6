/* random_fields.c: the batch that random graphs read: numbers, and the table that gives them to a program. */
#include "tests/ops/random_graph.h"

enum { FIELDS = 4 };

static const RandomField fields[FIELDS] = {
    {"row", "i32", "", DT_i32, {.rank = 0}, NULL},
    {"label", "i32", "", DT_i32, {.rank = 0}, NULL},
    {"u", "f32[5]", "u0..u4", DT_f32, {.rank = 1, .d = {{.k = 5}}}, NULL},
    {"v", "f32[3,4]", "v0..v11", DT_f32, {.rank = 2, .d = {{.k = 3}, {.k = 4}}}, NULL},
};

static int64_t elements(const RandomField *f)
{
    int64_t n = 1;
    for (int i = 0; i < f->dims.rank; i++) {
        n *= f->dims.d[i].k;
    }
    return n;
}

/* Rows are numbered in an order of their own, labels are 0 to 4. */
static double element(int field, int64_t i, uint64_t seed)
{
    uint64_t z = (seed + (uint64_t)i * 4 + (uint64_t)field + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9u;
    double x = (double)(z >> 11) * 0x1p-53;
    return field == 0   ? (double)(i * 5 % RANDOM_BOUND)
           : field == 1 ? (double)(z >> 40 & 0xffff) * 5 / 0x10000
                        : round_to(DT_f32, 4 * x - 2);
}

static void write_head(Program *p)
{
    for (int f = 0; f < FIELDS; f++) {
        int64_t each = elements(&fields[f]);
        for (int64_t i = 0; i < each; i++) {
            text_printf(p->table, "%s%s", f > 0 || i > 0 ? "," : "", fields[f].name);
            if (fields[f].columns[0] != '\0') {
                text_printf(p->table, "%lld", (long long)i);
            }
        }
    }
    text_puts(p->table, "\n");
}

static void write_rows(Program *p, const RandomField *made)
{
    for (int r = 0; r < RANDOM_ROWS; r++) {
        for (int f = 0; f < FIELDS; f++) {
            int64_t each = elements(&made[f]);
            for (int64_t i = 0; i < each; i++) {
                text_printf(p->table, "%s%.9g", f > 0 || i > 0 ? "," : "", made[f].v[r * each + i]);
            }
        }
        text_puts(p->table, "\n");
    }
}

const RandomField *random_fields(Program *p, uint64_t seed)
{
    RandomField *made = arena_array(p->arena, FIELDS + 1, sizeof *made);
    for (int f = 0; f < FIELDS; f++) {
        made[f] = fields[f];
        int64_t count = elements(&made[f]) * RANDOM_ROWS;
        made[f].v = ARENA_ARRAY(p->arena, double, count);
        for (int64_t i = 0; i < count; i++) {
            double x = element(f, i, seed);
            made[f].v[i] = f == 1 ? (double)(int)x : x;
        }
        program_field(p, arena_printf(p->arena, "%s: %s", made[f].name, made[f].type),
                      made[f].columns);
    }
    write_head(p);
    write_rows(p, made);
    p->rows = RANDOM_ROWS;
    return made;
}
