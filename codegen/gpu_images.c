/* gpu_images.c: the GPU's code as C text, deflated: string literals, which C compilers read faster than lists of
 * numbers. */
#include <string.h>
#include <zlib.h>

#include "codegen/codegen.h"
#include "ir/base/text.h"

enum { BYTES_A_LINE = 28 };

/* Three octal digits: what follows cannot become part of them. */
static void literal(Text *t, const unsigned char *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i % BYTES_A_LINE == 0) {
            text_puts(t, i > 0 ? "\"\n    \"" : "    \"");
        }
        text_printf(t, "\\%03o", data[i]);
    }
    text_puts(t, n > 0 ? "\";\n" : "    \"\";\n");
}

void codegen_gpu_images(Text *t, const GpuImage *images, int n)
{
    Arena *a = t->arena;
    size_t *sizes = ARENA_ARRAY(a, size_t, n + 1);
    for (int i = 0; i < n; i++) {
        uLongf bytes = compressBound(images[i].bytes);
        unsigned char *deflated = arena_alloc(a, bytes);
        if (compress2(deflated, &bytes, (const unsigned char *)images[i].data, images[i].bytes,
                      Z_BEST_COMPRESSION) != Z_OK) {
            ICE("zlib cannot deflate %zu bytes", images[i].bytes);
        }
        sizes[i] = bytes;
        text_printf(t, "\n/* for the GPU, %s%d: %zu bytes, %zu deflated */\n",
                    images[i].ptx ? "compute_" : "sm_", images[i].arch, images[i].bytes, sizes[i]);
        text_printf(t, "static const unsigned char gpu_image_%d[] =\n", i);
        literal(t, deflated, bytes);
    }
    text_puts(t, "\nstatic const MpcCudaImage gpu_images[] = {\n");
    for (int i = 0; i < n; i++) {
        text_printf(t, "    {%d, %s, gpu_image_%d, %zu, %zu},\n", images[i].arch,
                    images[i].ptx ? "true" : "false", i, sizes[i], images[i].bytes);
    }
    text_puts(t, "};\n");
}
