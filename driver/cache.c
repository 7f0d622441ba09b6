/* cache.c: files named by their keys, each with a head that says its size and digest, so that a damaged one is none.
 * Written aside and renamed: several mpc's may use it at once. */
#include "driver/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

__extension__ typedef unsigned __int128 Wide;

typedef struct Head {
    char magic[8];
    uint64_t bytes, high, low; /* digest of what follows */
} Head;

enum { CACHE_BYTES = 256 << 20 };

static const char magic[8] = "mpc\ncch1";

/* ---- keys ------------------------------------------------------------------------------------------ */

CacheKey cache_key(void)
{
    return (CacheKey){0x6c62272e07bb0142u, 0x62b821756295c58du};
}

static void digest(CacheKey *k, const void *data, size_t bytes)
{
    const Wide prime = (Wide)1 << 88 | 0x13b;
    const unsigned char *at = data;
    Wide h = (Wide)k->high << 64 | k->low;
    for (size_t i = 0; i < bytes; i++) {
        h = (h ^ at[i]) * prime;
    }
    k->high = (uint64_t)(h >> 64);
    k->low = (uint64_t)h;
}

void cache_key_add(CacheKey *k, const void *data, size_t bytes)
{
    uint64_t n = bytes;
    digest(k, &n, sizeof n);
    digest(k, data, bytes);
}

void cache_key_text(CacheKey *k, const char *text)
{
    cache_key_add(k, text != NULL ? text : "\0", text != NULL ? strlen(text) : 1);
}

static void *read_file(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (f == NULL || fstat(fileno(f), &st) != 0) {
        if (f != NULL) {
            fclose(f);
        }
        return NULL;
    }
    *bytes = (size_t)st.st_size;
    void *data = malloc(*bytes + 1);
    bool ok = data != NULL && fread(data, 1, *bytes, f) == *bytes;
    fclose(f);
    if (!ok) {
        free(data);
        data = NULL;
    }
    return data;
}

void cache_key_file(CacheKey *k, const char *path)
{
    size_t bytes;
    void *data = read_file(path, &bytes);
    if (data == NULL) {
        cache_key_text(k, NULL);
        return;
    }
    cache_key_add(k, data, bytes);
    free(data);
}

void cache_key_files(CacheKey *k, const char *pattern)
{
    glob_t found;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            cache_key_text(k, strrchr(found.gl_pathv[i], '/'));
            cache_key_file(k, found.gl_pathv[i]);
        }
    }
    globfree(&found);
}

/* ---- files ----------------------------------------------------------------------------------------- */

/* The folder; NULL: no cache is wanted, or there is no place for one. */
static const char *folder(Arena *a)
{
    const char *own = getenv("MPC_CACHE"), *user = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own != NULL) {
        return own[0] != 0 ? own : NULL;
    }
    if (user != NULL && user[0] == '/') {
        return arena_printf(a, "%s/mpc", user);
    }
    return home != NULL && home[0] == '/' ? arena_printf(a, "%s/.cache/mpc", home) : NULL;
}

static const char *path_of(Arena *a, const char *in, const CacheKey *k)
{
    return arena_printf(a, "%s/%016" PRIx64 "%016" PRIx64, in, k->high, k->low);
}

void *cache_get(Arena *a, const CacheKey *k, size_t *bytes)
{
    const char *in = folder(a);
    size_t size;
    unsigned char *file = in != NULL ? read_file(path_of(a, in, k), &size) : NULL;
    Head head;
    void *data = NULL;
    if (file != NULL && size >= sizeof head) {
        memcpy(&head, file, sizeof head);
        CacheKey sum = cache_key();
        cache_key_add(&sum, file + sizeof head, size - sizeof head);
        if (memcmp(head.magic, magic, sizeof magic) == 0 && head.bytes == size - sizeof head &&
            head.high == sum.high && head.low == sum.low) {
            utimensat(AT_FDCWD, path_of(a, in, k), NULL, 0); /* taken just now */
            *bytes = (size_t)head.bytes;
            data = arena_alloc(a, *bytes + 1);
            memcpy(data, file + sizeof head, *bytes);
        }
    }
    free(file);
    return data;
}

static void make_folders(Arena *a, const char *path)
{
    char *part = arena_strdup(a, path);
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(part, 0777);
        *slash = '/';
    }
    mkdir(part, 0777);
}

static bool write_whole(int fd, const void *data, size_t bytes)
{
    for (const char *at = data; bytes > 0;) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

typedef struct Entry {
    char *path;
    time_t used;
    off_t bytes;
} Entry;

static int older_first(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    return (x->used > y->used) - (x->used < y->used);
}

/* Keeps the folder below its limit: the entries that were not taken for longest go. */
static void tidy(Arena *a, const char *in)
{
    glob_t found;
    off_t all = 0;
    if (glob(arena_printf(a, "%s/*", in), 0, NULL, &found) == 0) {
        Entry *entries = ARENA_ARRAY(a, Entry, found.gl_pathc + 1);
        size_t n = 0;
        for (size_t i = 0; i < found.gl_pathc; i++) {
            struct stat st;
            if (stat(found.gl_pathv[i], &st) == 0 && S_ISREG(st.st_mode)) {
                entries[n++] = (Entry){found.gl_pathv[i], st.st_mtime, st.st_size};
                all += st.st_size;
            }
        }
        qsort(entries, n, sizeof *entries, older_first);
        for (size_t i = 0; i < n && all > CACHE_BYTES; i++) {
            all -= entries[i].bytes;
            unlink(entries[i].path);
        }
    }
    globfree(&found);
}

void cache_put(Arena *a, const CacheKey *k, const void *data, size_t bytes)
{
    const char *in = folder(a);
    if (in == NULL) {
        return;
    }
    make_folders(a, in);
    CacheKey sum = cache_key();
    cache_key_add(&sum, data, bytes);
    Head head = {.bytes = bytes, .high = sum.high, .low = sum.low};
    memcpy(head.magic, magic, sizeof magic);
    char *aside = arena_printf(a, "%s/new.XXXXXX", in);
    int fd = mkstemp(aside);
    if (fd < 0) {
        return;
    }
    bool ok = write_whole(fd, &head, sizeof head) && write_whole(fd, data, bytes);
    ok = close(fd) == 0 && ok;
    if (!ok || rename(aside, path_of(a, in, k)) != 0) {
        unlink(aside);
    }
    tidy(a, in);
}

void cache_put_file(Arena *a, const CacheKey *k, const char *path)
{
    size_t bytes;
    void *data = path != NULL && folder(a) != NULL ? read_file(path, &bytes) : NULL;
    if (data != NULL) {
        cache_put(a, k, data, bytes);
    }
    free(data);
}
