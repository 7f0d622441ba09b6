/* strutil.c: see strutil.h. */
#include "ir/base/strutil.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool str_eq(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

enum { NEAREST_MAX = 63 }; /* longer names get no suggestion */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, substitutions and swaps of neighbours that turn a into b. */
static int edit_distance(const char *a, int n, const char *b, int m)
{
    int row[3][NEAREST_MAX + 1];
    int *before = row[0], *last = row[1], *now = row[2];
    for (int j = 0; j <= m; j++)
        last[j] = before[j] = j;
    for (int i = 1; i <= n; i++) {
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            char x = lower(a[i - 1]), y = lower(b[j - 1]);
            int d = least(least(last[j], now[j - 1]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y)
                d = least(d, before[j - 2] + 1);
            now[j] = d;
        }
        int *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[m];
}

const char *nearest_name(const char *name, const char *const *names, int count)
{
    size_t n = strlen(name);
    const char *best = NULL;
    if (n > NEAREST_MAX)
        return NULL;
    int limit = n <= 2 ? 1 : n <= 5 ? 2 : (int)n / 3 + 1;
    for (int i = 0; i < count; i++) {
        size_t m = names[i] ? strlen(names[i]) : SIZE_MAX;
        if (m > NEAREST_MAX || m == 0)
            continue;
        int d = edit_distance(name, (int)n, names[i], (int)m);
        /* a suggestion must share something with what was written */
        if (d <= limit && d < (int)(n > m ? n : m)) {
            best = names[i];
            limit = d - 1;
        }
    }
    return best;
}

uint32_t str_fnv1a(const char *s)
{
    uint32_t h = 2166136261u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

int str_utf8(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    if (n < 1 || p[0] < 0x80)
        return n < 1 ? 0 : 1;
    int len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n < (size_t)len)
        return 0;
    for (int i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    /* overlong forms, surrogates, beyond U+10FFFF */
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return len;
}

bool str_bytes(const char *s, int64_t *bytes)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {
        {"", 1},         {"B", 1},        {"kB", 1e3},     {"KB", 1e3},
        {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},    {"KiB", 1024.0},
        {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
    };
    size_t digits = strspn(s, "0123456789.");
    char number[32] = "", *end;
    if (digits == 0 || digits >= sizeof number || strspn(s, ".") == digits)
        return false;
    memcpy(number, s, digits);
    double value = strtod(number, &end);
    const char *unit = s + digits + strspn(s + digits, " ");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (*end == 0 && strcmp(unit, units[i].name) == 0) {
            value *= units[i].factor;
            *bytes = value >= 1 && value < 0x1p63 ? (int64_t)value : 0;
            return *bytes > 0;
        }
    }
    return false;
}

const char *str_double(char buf[32], double x)
{
    if (isnan(x) || isinf(x)) {
        snprintf(buf, 32, "%s", isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return buf;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, 32, "%.*g", digits, x);
        if (strtod(buf, NULL) == x)
            break;
    }
    if (!strpbrk(buf, ".e"))
        strcat(buf, ".0");
    return buf;
}
