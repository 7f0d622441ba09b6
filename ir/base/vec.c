/* vec.c: the growing of vec.h's arrays. */
#include "ir/base/vec.h"

#include <limits.h>
#include <string.h>

#include "ir/base/diag.h"

void *vec_room(Arena *a, void *at, int n, int *cap, size_t size)
{
    if (n < *cap)
        return at;
    if (*cap > INT_MAX / 2)
        ICE("an array has more than %d elements", *cap);
    int grown = *cap ? *cap * 2 : 4;
    void *p = arena_array(a, (size_t)grown, size);
    if (n)
        memcpy(p, at, (size_t)n * size);
    *cap = grown;
    return p;
}
