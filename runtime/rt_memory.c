/* rt_memory.c: see rt_memory.h. */
#include "rt_memory.h"
#include "rt_loader.h"
#include "rt_run.h"
#include "rt_thread.h"

#include <sys/mman.h>

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

static size_t up_to(size_t align, size_t bytes)
{
    return (bytes + align - 1) / align * align;
}

static size_t bytes_of_loader(const MpcProgram *p, int loader)
{
    const MpcData *d = rt_set_data(p, p->loaders[loader].set);
    return rt_loader_bytes(&p->loaders[loader], d->fields, d->n_fields);
}

RtMemory rt_memory_plan(const MpcProgram *p, int threads)
{
    RtMemory m = {.scratch = up_to(PAGE, p->arena_bytes)};
    m.host = m.scratch + (size_t)threads * rt_pool_scratch_bytes(p->scratch_bytes);
    m.loaders = m.host + up_to(64, p->host_bytes);
    m.bytes = rt_memory_of_loader(&m, p, p->n_loaders);
    return m;
}

size_t rt_memory_of_loader(const RtMemory *m, const MpcProgram *p, int loader)
{
    size_t at = m->loaders;
    for (int i = 0; i < loader; i++)
        at += bytes_of_loader(p, i);
    return at;
}

/* Zeroed by the system; in huge pages where it is large enough to be worth one. */
unsigned char *rt_memory_map(const RtMemory *m, RtErr *e)
{
    size_t align = m->bytes >= 2 * (size_t)HUGE_PAGE ? HUGE_PAGE : PAGE;
    size_t size = up_to(PAGE, m->bytes) + align;
    unsigned char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char text[RT_NUMBER_CHARS];
    if (p == MAP_FAILED) {
        rt_err_errno(e, "cannot get %s of memory for the run",
                     rt_bytes_text(text, (double)m->bytes));
        rt_hint(e, "--plan shows what it is for; a smaller batch takes less");
        return NULL;
    }
    p += (align - (uintptr_t)p % align) % align;
    if (align == HUGE_PAGE)
        (void)madvise(p, m->bytes, MADV_HUGEPAGE);
    return p;
}
