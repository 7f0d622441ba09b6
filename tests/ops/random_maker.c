/* random_maker.c: see random_maker.h. */
#include "tests/ops/random_maker.h"

#include <string.h>

#include "ir/base/strutil.h"

/* ---- random choices -------------------------------------------------------------------------- */

static uint64_t next(Maker *m)
{
    uint64_t z = (m->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int pick(Maker *m, int n)
{
    return (int)(next(m) % (uint64_t)n);
}

bool once_in(Maker *m, int n)
{
    return pick(m, n) == 0;
}

/* About normal; now and then a whole number, a zero of either sign, or a tiny or large one. */
double number(Maker *m)
{
    double sum = 0;
    for (int i = 0; i < 6; i++) {
        sum += (double)(next(m) >> 11) * 0x1p-53 - 0.5;
    }
    switch (pick(m, 24)) {
    case 0: return pick(m, 2) ? 0.0 : -0.0;
    case 1: return pick(m, 9) - 4;
    case 2: return m->exact ? sum * 1e4 : sum;
    case 3: return sum * 1e-3;
    default: return sum * 1.4;
    }
}

double value_of(Maker *m, DType dt)
{
    if (dtype_info[dt].is_float) {
        double x = number(m);
        return round_to(dt, dt == DT_f64 ? x : round_to(DT_f32, x));
    }
    return dt == DT_bool ? pick(m, 2) : dt == DT_u8 ? pick(m, 12) : pick(m, 14) - 5;
}

int64_t length(Maker *m)
{
    static const int64_t lengths[] = {1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 33};
    return lengths[pick(m, 11)];
}

int64_t count_of(const Dims *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->rank; i++) {
        n *= d->d[i].k * (d->d[i].sym[0] ? RANDOM_BOUND : 1) * (d->d[i].sym[1] ? RANDOM_BOUND : 1);
    }
    return n;
}

Dims some_dims(Maker *m)
{
    Dims d = {.rank = pick(m, 5)};
    if (once_in(m, 24)) {
        d = (Dims){.rank = 1, .d = {dim_of(17000 + pick(m, 900))}};
    } else if (once_in(m, 12)) {
        d = (Dims){.rank = 2, .d = {dim_of(1 + pick(m, 4)), dim_of(100 + pick(m, 500))}};
    } else {
        do {
            for (int i = 0; i < d.rank; i++) {
                d.d[i] = dim_of(length(m));
            }
        } while (count_of(&d) > MOST_ELEMENTS / 2);
    }
    return d;
}

bool is_constant(const Dims *d)
{
    for (int i = 0; i < d->rank; i++) {
        if (!dim_is_const(d->d[i])) {
            return false;
        }
    }
    return true;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

Node *input(Maker *m, DType dt, const Dims *dims)
{
    Arena *arena = m->p->arena;
    double *v = ARENA_ARRAY(arena, double, count_of(dims) + 1);
    for (int64_t i = 0; i < count_of(dims); i++) {
        v[i] = value_of(m, dt);
    }
    const char *name = arena_printf(arena, "%s.x%d", m->prefix, m->inputs++);
    if (dt == DT_f32 && (m->gradients || once_in(m, 3))) {
        return program_param(m->p, &m->b, name, dt, dims, v);
    }
    Node *n = program_state(m->p, &m->b, name, dt, dims, v);
    vec_push(arena, &m->states, n);
    return n;
}

DType float_type(Maker *m)
{
    static const DType types[] = {DT_f32, DT_f32, DT_f32, DT_f16, DT_bf16, DT_f64};
    return m->gradients ? DT_f32 : types[pick(m, 6)];
}

Node *float_input(Maker *m, const Dims *dims)
{
    return input(m, float_type(m), dims);
}

Node *field(Maker *m, const char *name)
{
    const RandomField *f = m->fields;
    while (!str_eq(f->name, name)) {
        f++;
    }
    Node *known = graph_find_arg(m->b.graph, ATTR_batch, name);
    if (known != NULL) {
        return known;
    }
    Attrs as = {0};
    attrs_set_str(m->p->arena, &as, ATTR_batch, f->name);
    Dims d = {.rank = f->dims.rank + 1};
    d.d[0] = (Dim){.k = 1, .sym = {(uint8_t)graph_sym(m->b.graph, "B", RANDOM_BOUND), 0}};
    memcpy(d.d + 1, f->dims.d, sizeof d.d[0] * (size_t)f->dims.rank);
    return build_arg(&m->b, f->dtype, &d, as);
}

Node *any(Maker *m)
{
    int n = m->pool.n;
    return m->pool.at[once_in(m, 3) ? pick(m, n) : n - 1 - pick(m, n < 4 ? n : 4)];
}

Node *real(Maker *m)
{
    Node *x = any(m);
    return dtype_info[x->dtype].is_float ? x : build_cast(&m->b, x, float_type(m));
}

Node *constant(Maker *m, double x)
{
    return build_const(&m->b, DT_f32, x);
}

Node *op1(Maker *m, Op op, Node *x)
{
    return build1(&m->b, op, x);
}

Node *op2(Maker *m, Op op, Node *x, Node *y)
{
    return build2(&m->b, op, x, y);
}

Node *with_axis(Maker *m, Op op, Node *x, int axis)
{
    Attrs as = {0};
    attrs_set_int(m->p->arena, &as, ATTR_axis, axis);
    return build(&m->b, op, 1, &x, as);
}
