/* arena.c: see arena.h. Blocks are chained; each new one is at least as large as all before it
 * together up to a limit, so that small arenas stay small and large ones have few blocks. */
#define _POSIX_C_SOURCE 200809L
#include "ir/base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BLOCK = 16 * 1024, MAX_BLOCK = 4 * 1024 * 1024 };

typedef struct Block {
    struct Block *next;
    size_t size, used;
    max_align_t at[];
} Block;

struct Arena {
    Block *blocks; /* the newest first */
    size_t total;  /* bytes handed out */
};

static void out_of_memory(size_t size)
{
    fprintf(stderr, "mpc: error: out of memory (%zu bytes asked for)\n", size);
    exit(1);
}

Arena *arena_new(void)
{
    Arena *a = calloc(1, sizeof *a);
    if (!a)
        out_of_memory(sizeof *a);
    return a;
}

void arena_free(Arena *a)
{
    if (!a)
        return;
    for (Block *b = a->blocks; b;) {
        Block *next = b->next;
        free(b);
        b = next;
    }
    free(a);
}

size_t arena_used(const Arena *a)
{
    return a->total;
}

static Block *add_block(Arena *a, size_t size)
{
    size_t want = a->blocks ? a->blocks->size * 2 : FIRST_BLOCK;
    if (want > MAX_BLOCK)
        want = MAX_BLOCK;
    if (want < size)
        want = size;
    Block *b = size > SIZE_MAX - sizeof *b ? NULL : calloc(1, sizeof *b + want);
    if (!b)
        out_of_memory(size);
    b->size = want;
    b->next = a->blocks;
    a->blocks = b;
    return b;
}

void *arena_alloc(Arena *a, size_t size)
{
    enum { ALIGN = sizeof(max_align_t) };
    if (size > SIZE_MAX - ALIGN)
        out_of_memory(size);
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    Block *b = a->blocks;
    if (!b || b->size - b->used < size)
        b = add_block(a, size);
    void *p = (char *)b->at + b->used;
    b->used += size;
    a->total += size;
    return p;
}

void *arena_array(Arena *a, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        out_of_memory(SIZE_MAX);
    return arena_alloc(a, count * size);
}

void *arena_copy(Arena *a, const void *from, size_t size)
{
    void *p = arena_alloc(a, size);
    if (size)
        memcpy(p, from, size);
    return p;
}

char *arena_strdup(Arena *a, const char *s)
{
    return arena_copy(a, s, strlen(s) + 1);
}

char *arena_strndup(Arena *a, const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *p = arena_alloc(a, len + 1);
    memcpy(p, s, len);
    return p;
}

char *arena_vprintf(Arena *a, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = fmt ? vsnprintf(NULL, 0, fmt, again) : -1;
    va_end(again);
    if (n < 0)
        n = 0;
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    return p;
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *p = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return p;
}
