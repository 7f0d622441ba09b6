/* strmap.h: a map from strings to whole numbers, for names. Lives in an arena; keys are not copied. A zeroed one is
 * empty. */
#ifndef MPC_BASE_STRMAP_H
#define MPC_BASE_STRMAP_H

#include "ir/base/arena.h"

typedef struct StrMap {
    int n, cap;
    struct StrSlot {
        const char *key; /* NULL: free */
        int value;
    } * slot;
} StrMap;

/* The number of a key; NULL when it is not there. Valid until the next strmap_put(). */
int *strmap_get(const StrMap *map, const char *key);
/* The number of a key, which is added with `value` when it is not there. */
int *strmap_put(Arena *a, StrMap *map, const char *key, int value);

#endif
