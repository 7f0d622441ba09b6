/* rt_sampler.c: as PyTorch's WeightedRandomSampler, with replacement and as many draws as there are samples.
 *
 * balanced is the sampler whose weights are 1 / (samples of the class): a class is drawn, all alike, then one of
 * its samples. weighted draws from the running sum of the weights. Two words of a Philox block make a draw. */
#include "rt_sampler.h"
#include "abi/philox.h"
#include "abi/scalar.h"

#include <stdlib.h>
#include <string.h>

struct RtSampler {
    int64_t count;      /* samples of the set */
    uint32_t *by_class; /* balanced: positions, those of a class together, ascending */
    uint32_t *first;    /* balanced: (classes + 1), where each begins in by_class */
    uint32_t classes;
    double *sum;     /* weighted: (count), of the weights up to here */
    uint32_t *times; /* (count): scratch of a pass */
};

typedef struct Keyed {
    int64_t value;
    uint32_t at;
} Keyed;

static int by_value(const void *a, const void *b)
{
    const Keyed *x = a, *y = b;
    return x->value != y->value ? (x->value > y->value) - (x->value < y->value)
                                : (x->at > y->at) - (x->at < y->at);
}

static const unsigned char *cell(const RtSet *set, int field, int64_t i)
{
    const RtTable *t = set->table;
    size_t row = set->rows ? set->rows[i] : (size_t)i;
    return t->column[field] + row * t->stride[field];
}

static void group(RtSampler *s, const RtSet *set, int field)
{
    MpcDType dtype = set->table->decl->fields[field].dtype;
    Keyed *all = rt_alloc((size_t)s->count * sizeof *all);
    for (int64_t i = 0; i < s->count; i++)
        all[i] = (Keyed){rt_integer_at(cell(set, field, i), dtype), (uint32_t)i};
    qsort(all, (size_t)s->count, sizeof *all, by_value);
    s->by_class = rt_alloc((size_t)s->count * sizeof *s->by_class);
    s->first = rt_alloc(((size_t)s->count + 1) * sizeof *s->first);
    for (int64_t i = 0; i < s->count; i++) {
        s->by_class[i] = all[i].at;
        if (i == 0 || all[i].value != all[i - 1].value)
            s->first[s->classes++] = (uint32_t)i;
    }
    s->first[s->classes] = (uint32_t)s->count;
    free(all);
}

static bool add_up(RtSampler *s, const RtSet *set, int field, const char *loader, RtErr *e)
{
    const MpcField *f = &set->table->decl->fields[field];
    double sum = 0;
    s->sum = rt_alloc((size_t)s->count * sizeof *s->sum);
    for (int64_t i = 0; i < s->count; i++) {
        double w = rt_number_at(cell(set, field, i), f->dtype);
        if (!(w >= 0)) {
            char where[700];
            int64_t row = set->rows ? set->rows[i] : i;
            rt_err(e, "%s: the weight %s is %g, below 0",
                   rt_row_text(where, sizeof where, set->table, field, row), f->name, w);
            return false;
        }
        s->sum[i] = sum += w;
    }
    if (sum > 0 && __builtin_isfinite(sum))
        return true;
    rt_err(e, "%s: the weights %s of %s add up to %g, so nothing can be drawn", loader, f->name,
           set->table->decl->name, sum);
    return false;
}

RtSampler *rt_sampler_new(MpcSampler kind, const RtSet *set, int field, const char *loader,
                          RtErr *e)
{
    RtSampler *s = rt_alloc_zero(1, sizeof *s);
    s->count = set->count;
    s->times = rt_alloc((size_t)s->count * sizeof *s->times);
    if (kind == MPC_SAMPLER_balanced) {
        group(s, set, field);
    } else if (!add_up(s, set, field, loader, e)) {
        rt_sampler_free(s);
        return NULL;
    }
    return s;
}

void rt_sampler_free(RtSampler *s)
{
    if (!s)
        return;
    free(s->by_class);
    free(s->first);
    free(s->sum);
    free(s->times);
    free(s);
}

/* 0 .. n - 1 */
static uint32_t below(uint32_t word, uint32_t n)
{
    return (uint32_t)((uint64_t)word * n >> 32);
}

/* The first position whose running sum is above u * the whole: one with a weight of 0 has none. */
static uint32_t weighted(const RtSampler *s, double u)
{
    double at = u * s->sum[s->count - 1];
    int64_t low = 0, high = s->count - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (s->sum[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    /* Rounding of u * sum may reach the whole: the last sample with a weight is meant. */
    while (low > 0 && s->sum[low] == s->sum[low - 1])
        low--;
    return (uint32_t)low;
}

void rt_sampler_draw(const RtSampler *s, uint32_t *order, uint32_t *again, uint64_t seed,
                     uint32_t epoch)
{
    const uint32_t path = mpc_path_hash("sampler");
    uint32_t lanes[4];
    memset(s->times, 0, (size_t)s->count * sizeof *s->times);
    for (int64_t i = 0; i < s->count; i++) {
        if (i % 2 == 0)
            mpc_philox(seed, (uint32_t)(i / 2), 0, epoch, path, lanes);
        uint32_t a = lanes[i % 2 * 2], b = lanes[i % 2 * 2 + 1];
        if (s->by_class) {
            uint32_t class = below(a, s->classes), first = s->first[class];
            order[i] = s->by_class[first + below(b, s->first[class + 1] - first)];
        } else {
            uint64_t bits = (uint64_t)a << 21 | b >> 11; /* 53 of them */
            order[i] = weighted(s, (double)bits * 0x1p-53);
        }
        again[i] = s->times[order[i]]++;
    }
}
