/* rt_cpu.c: does this CPU have what the program was compiled for? Asked before any generated code runs, so
 * that the answer is a sentence and not an illegal instruction. */
#include "rt_run.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

enum { EAX, EBX, ECX, EDX };

typedef struct Feature {
    const char *name;
    unsigned leaf, subleaf;
    int reg, bit;
    unsigned state; /* bits of XCR0 that the system must have enabled */
} Feature;

enum { STATE_sse = 0, STATE_avx = 0x6, STATE_avx512 = 0xe6, STATE_amx = 0x60000 };

static const Feature features[] = {
    {"sse3", 1, 0, ECX, 0, STATE_sse},
    {"ssse3", 1, 0, ECX, 9, STATE_sse},
    {"fma", 1, 0, ECX, 12, STATE_avx},
    {"sse4.1", 1, 0, ECX, 19, STATE_sse},
    {"sse4.2", 1, 0, ECX, 20, STATE_sse},
    {"popcnt", 1, 0, ECX, 23, STATE_sse},
    {"avx", 1, 0, ECX, 28, STATE_avx},
    {"f16c", 1, 0, ECX, 29, STATE_avx},
    {"bmi", 7, 0, EBX, 3, STATE_sse},
    {"avx2", 7, 0, EBX, 5, STATE_avx},
    {"bmi2", 7, 0, EBX, 8, STATE_sse},
    {"avx512f", 7, 0, EBX, 16, STATE_avx512},
    {"avx512dq", 7, 0, EBX, 17, STATE_avx512},
    {"avx512ifma", 7, 0, EBX, 21, STATE_avx512},
    {"avx512cd", 7, 0, EBX, 28, STATE_avx512},
    {"avx512bw", 7, 0, EBX, 30, STATE_avx512},
    {"avx512vl", 7, 0, EBX, 31, STATE_avx512},
    {"avx512vbmi", 7, 0, ECX, 1, STATE_avx512},
    {"avx512vnni", 7, 0, ECX, 11, STATE_avx512},
    {"amx-bf16", 7, 0, EDX, 22, STATE_amx},
    {"avx512fp16", 7, 0, EDX, 23, STATE_avx512},
    {"amx-tile", 7, 0, EDX, 24, STATE_amx},
    {"avxvnni", 7, 1, EAX, 4, STATE_avx},
    {"avx512bf16", 7, 1, EAX, 5, STATE_avx512},
    {"lzcnt", 0x80000001, 0, ECX, 5, STATE_sse},
};

static unsigned enabled_state(void)
{
    unsigned r[4];
    if (!__get_cpuid(1, &r[EAX], &r[EBX], &r[ECX], &r[EDX]) || !(r[ECX] >> 27 & 1))
        return 0;
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool has(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        const Feature *f = &features[i];
        if (strlen(f->name) != length || memcmp(f->name, name, length) != 0)
            continue;
        unsigned r[4];
        if (!__get_cpuid_count(f->leaf, f->subleaf, &r[EAX], &r[EBX], &r[ECX], &r[EDX]))
            return false;
        return (r[f->reg] >> f->bit & 1) && (enabled_state() & f->state) == f->state;
    }
    return false;
}
#else
/* Elsewhere programs are compiled from plain C for the machine's base instruction set. */
static bool has(const char *name, size_t length)
{
    (void)name;
    (void)length;
    return false;
}
#endif

bool rt_cpu_check(const char *needs, const char *cpu, RtErr *e)
{
    char missing[256] = "";
    size_t used = 0;
    for (const char *word = needs; word && *word;) {
        size_t length = strcspn(word, " ");
        if (length && !has(word, length) && used + length + 2 < sizeof missing) {
            if (used)
                missing[used++] = ' ';
            memcpy(missing + used, word, length);
            used += length;
            missing[used] = 0;
        }
        word += length;
        word += strspn(word, " ");
    }
    if (!used)
        return true;
    rt_err(e, "this program was compiled for --cpu=%s; this machine's CPU lacks %s", cpu, missing);
    rt_hint(e, "compile it on this machine, or anywhere with mpc --cpu=generic (any CPU) or "
               "--cpu=x86-64-v3 (AVX2)");
    return false;
}
