/* gpu.c: what was compiled before is taken from the cache; all else is compiled at once. */
#include "driver/gpu.h"

#include <stdlib.h>
#include <string.h>

#include "driver/cache.h"

static CacheKey key_of(CacheKey k, const GpuImage *image)
{
    cache_key_add(&k, &image->arch, sizeof image->arch);
    cache_key_add(&k, &image->ptx, sizeof image->ptx);
    return k;
}

static bool take(Arena *a, const CacheKey *k, GpuImage *image)
{
    const void *data = cache_get(a, k, &image->bytes);
    image->data = data != NULL ? malloc(image->bytes + 1) : NULL;
    if (image->data != NULL) {
        memcpy(image->data, data, image->bytes);
    }
    return image->data != NULL;
}

bool gpu_compile(Arena *a, const Nvrtc *n, const char *text, const char *name, const char *lib,
                 GpuImage *images, int count)
{
    const char *include = arena_printf(a, "%s/include", lib);
    GpuImage *left = ARENA_ARRAY(a, GpuImage, count + 1);
    int *place = ARENA_ARRAY(a, int, count + 1), nleft = 0;
    CacheKey key = cache_key();
    cache_key_text(&key, "kernels");
    cache_key_text(&key, nvrtc_identity(n));
    cache_key_text(&key, text);
    cache_key_files(&key, arena_printf(a, "%s/cuda/*", include));
    cache_key_files(&key, arena_printf(a, "%s/abi/*", include));
    for (int i = 0; i < count; i++) {
        CacheKey own = key_of(key, &images[i]);
        if (!take(a, &own, &images[i])) {
            place[nleft] = i;
            left[nleft++] = images[i];
        }
    }
    if (nleft > 0 && !nvrtc_compile(n, text, name, include, false, left, nleft)) {
        return false;
    }
    for (int i = 0; i < nleft; i++) {
        CacheKey own = key_of(key, &left[i]);
        images[place[i]] = left[i];
        cache_put(a, &own, left[i].data, left[i].bytes);
    }
    return true;
}
