/* allocations.c: preloaded into a program by allocations.sh, it writes a line to stderr for each allocation of more
 * than 64 KiB: the function and the bytes. What libc maps by itself (stacks of threads) does not come by here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGE = 64 << 10 };

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

static void say(const char *what, size_t bytes)
{
    char line[64];
    if (bytes <= LARGE)
        return;
    int n = snprintf(line, sizeof line, "allocates %s %zu\n", what, bytes);
    if (write(STDERR_FILENO, line, (size_t)n) != n)
        _exit(99);
}

void *malloc(size_t bytes)
{
    say("malloc", bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    say("calloc", count * bytes);
    return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    say("realloc", bytes);
    return __libc_realloc(old, bytes);
}

int posix_memalign(void **p, size_t align, size_t bytes)
{
    say("posix_memalign", bytes);
    *p = __libc_memalign(align, bytes);
    return *p == NULL;
}

void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "mmap");
    say(fd < 0 ? "mmap" : "file", bytes);
    return next(at, bytes, prot, flags, fd, offset);
}
