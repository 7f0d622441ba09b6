/* cache.h: what was compiled before, by a digest of all that went into it: $MPC_CACHE, or mpc in the user's folder for
 * such files ($XDG_CACHE_HOME, ~/.cache), at most 256 MiB. A cache that cannot be read or written is an empty one; MPC_CACHE= turns it
 * off. */
#ifndef MPC_DRIVER_CACHE_H
#define MPC_DRIVER_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/base/arena.h"

/* 128 bits of FNV-1a. */
typedef struct CacheKey {
    uint64_t high, low;
} CacheKey;

CacheKey cache_key(void);
void cache_key_add(CacheKey *k, const void *data, size_t bytes); /* its length counts, too */
void cache_key_text(CacheKey *k, const char *text);              /* NULL is not "" */
void cache_key_file(CacheKey *k, const char *path);     /* its bytes; or that it cannot be read */
void cache_key_files(CacheKey *k, const char *pattern); /* names and bytes of all that match */

/* The bytes of an entry, in the arena; NULL: there is none. */
void *cache_get(Arena *a, const CacheKey *k, size_t *bytes);
void cache_put(Arena *a, const CacheKey *k, const void *data, size_t bytes);
void cache_put_file(Arena *a, const CacheKey *k,
                    const char *path); /* its bytes; path NULL: nothing */

#endif
