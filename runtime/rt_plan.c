/* rt_plan.c: what a run will take, said before anything is allocated (--plan), and what the model is made of
 * (--summary). */
#include "rt_loader.h"
#include "rt_run.h"

#include "abi/plan_text.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Stacks, libraries' buffers and code pages that a run touches beyond its start. */
enum { TOUCHED = 700 << 10, TOUCHED_BY_THREAD = 40 << 10, REPORT = 160 << 10 };

size_t rt_resident_bytes(void)
{
    long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f) {
        if (fscanf(f, "%*s %lld", &pages) != 1)
            pages = 0;
        fclose(f);
    }
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

size_t rt_peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

const MpcData *rt_set_data(const MpcProgram *p, int set)
{
    while (p->sets[set].parent >= 0)
        set = p->sets[set].parent;
    return &p->data[p->sets[set].data];
}

size_t rt_plan_without_data(const MpcProgram *p, int threads, size_t base_bytes)
{
    return rt_memory_plan(p, threads).bytes + base_bytes + TOUCHED + REPORT +
           TOUCHED_BY_THREAD * (size_t)(threads + p->n_loaders);
}

static void print_part(const char *name, size_t bytes)
{
    char size[RT_NUMBER_CHARS], exact[RT_NUMBER_CHARS];
    printf("%-28s %10s  %14s bytes\n", name, rt_bytes_text(size, (double)bytes),
           rt_count_text(exact, (int64_t)bytes));
}

void rt_plan_print(const RtOptions *o, int threads, size_t base_bytes)
{
    const MpcProgram *p = o->program;
    RtPlaces places = {o->data_dir, p->home};
    const RtMemory memory = rt_memory_plan(p, threads);
    size_t peak = rt_plan_without_data(p, threads, base_bytes);
    printf("plan of %s, %s\n", p->name, p->precision);
    plan_text(stdout, &p->plan, o->plan_full);
    printf("\nthe program\n");
    print_part("arena", memory.scratch);
    print_part("scratch of the threads", memory.host - memory.scratch);
    print_part("variables and metrics", memory.loaders - memory.host);
    print_part("batches", memory.bytes - memory.loaders);
    print_part("in one piece", memory.bytes);
    for (int i = 0; i < p->n_data; i++) {
        RtErr e;
        size_t bytes;
        char name[64];
        snprintf(name, sizeof name, "data %s", p->data[i].name);
        if (rt_table_bytes(&p->data[i], &places, &bytes, &e)) {
            print_part(name, bytes);
            peak += bytes;
        } else {
            printf("%-28s not counted: %s\n", name, e.text);
        }
    }
    print_part("program and libraries",
               rt_plan_without_data(p, threads, base_bytes) - memory.bytes);
    print_part("peak", peak);
}

/* ---- summary ---- */

static bool is_inside(const char *path, const char *outer)
{
    size_t n = strlen(outer);
    return !n || !strcmp(path, outer) || (!strncmp(path, outer, n) && path[n] == '.');
}

void rt_summary_print(const MpcProgram *p)
{
    char count[RT_NUMBER_CHARS], dims[160];
    printf("%-32s %-24s %14s\n", "module", "kind", "parameters");
    for (int i = 0; i < p->n_modules; i++) {
        const MpcModuleRow *m = &p->modules[i];
        int64_t params = 0;
        for (int k = i; k < p->n_modules; k++)
            if (is_inside(p->modules[k].path, m->path))
                params += p->modules[k].params;
        printf("%-32s %-24s %14s  %s\n", *m->path ? m->path : "(model)", m->kind,
               rt_count_text(count, params), m->shape ? m->shape : "");
    }
    printf("\n%-32s %-16s %-7s %14s\n", "parameter", "shape", "type", "numbers");
    for (int i = 0; i < p->n_tensors; i++) {
        const MpcTensor *t = &p->tensors[i];
        int64_t n = 1;
        if (t->role != MPC_ROLE_param && t->role != MPC_ROLE_state)
            continue;
        for (int d = 0; d < t->rank; d++)
            n *= t->dims[d];
        printf("%-32s %-16s %-7s %14s%s\n", t->name,
               rt_dims_text(dims, sizeof dims, t->rank, t->dims), rt_dtype_name(t->dtype),
               rt_count_text(count, n), t->role == MPC_ROLE_state ? "  state" : "");
    }
    printf("\n%s parameters, %s\n", rt_count_text(count, p->parameters), p->precision);
}
