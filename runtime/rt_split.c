/* rt_split.c: sets: whole tables, and parts of other sets. Which rows a part has follows from the seed of
 * the split and the number of rows alone. */
#include "rt_data.h"
#include "rt_random.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

bool rt_set_make(RtSet *set, const MpcSet *decl, const RtTable *tables, const RtSet *sets, RtErr *e)
{
    if (decl->parent < 0) {
        *set = (RtSet){.table = &tables[decl->data], .count = tables[decl->data].rows};
        return true;
    }
    const RtSet *parent = &sets[decl->parent];
    int64_t n = parent->count;
    int64_t begin = llround(decl->begin * (double)n), end = llround(decl->end * (double)n);
    *set = (RtSet){.table = parent->table, .count = end - begin};
    if (set->count <= 0)
        return rt_err(e, "%s has no samples: %lld samples are too few for this split", decl->name,
                      (long long)n);
    uint32_t *order = rt_alloc((size_t)n * sizeof *order);
    rt_permutation(order, n, decl->seed, 0, "split");
    set->rows = rt_alloc((size_t)set->count * sizeof *set->rows);
    for (int64_t i = 0; i < set->count; i++)
        set->rows[i] = parent->rows ? parent->rows[order[begin + i]] : order[begin + i];
    free(order);
    qsort(set->rows, (size_t)set->count, sizeof *set->rows, ascending);
    return true;
}

void rt_set_free(RtSet *set)
{
    free(set->rows);
    *set = (RtSet){0};
}
