/* strmap.c: open addressing, doubled when half full. */
#include "ir/base/strmap.h"

#include <string.h>

#include "ir/base/strutil.h"

static struct StrSlot *find(const StrMap *map, const char *key)
{
    uint32_t mask = (uint32_t)map->cap - 1;
    for (uint32_t h = str_fnv1a(key);; h++) {
        struct StrSlot *s = &map->slot[h & mask];
        if (s->key == NULL || strcmp(s->key, key) == 0)
            return s;
    }
}

int *strmap_get(const StrMap *map, const char *key)
{
    struct StrSlot *s = map->cap > 0 ? find(map, key) : NULL;
    return s != NULL && s->key != NULL ? &s->value : NULL;
}

int *strmap_put(Arena *a, StrMap *map, const char *key, int value)
{
    if (map->n * 2 >= map->cap) {
        StrMap bigger = {.n = map->n, .cap = map->cap > 0 ? map->cap * 2 : 16};
        bigger.slot = arena_array(a, (size_t)bigger.cap, sizeof *bigger.slot);
        for (int i = 0; i < map->cap; i++)
            if (map->slot[i].key != NULL)
                *find(&bigger, map->slot[i].key) = map->slot[i];
        *map = bigger;
    }
    struct StrSlot *s = find(map, key);
    if (s->key == NULL) {
        *s = (struct StrSlot){key, value};
        map->n++;
    }
    return &s->value;
}
