/* rt_util.c: error texts, memory that must be had, numbers in the C locale, nearest names.
 * Files: rt_file.c. JSON: rt_json.c. */
#include "rt_util.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

/* ---- errors ---- */

bool rt_err(RtErr *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    e->hint[0] = 0;
    return false;
}

bool rt_err_errno(RtErr *e, const char *format, ...)
{
    int error = errno;
    va_list args;
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    size_t used = strlen(e->text);
    snprintf(e->text + used, sizeof e->text - used, ": %s", strerror(error));
    e->hint[0] = 0;
    return false;
}

void rt_hint(RtErr *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(e->hint, sizeof e->hint, format, args);
    va_end(args);
}

/* ---- memory ---- */

static _Noreturn void out_of_memory(size_t bytes)
{
    fprintf(stderr, "error: out of memory: %zu bytes more were needed\n", bytes);
    _exit(1);
}

void *rt_alloc(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p)
        out_of_memory(bytes);
    return p;
}

void *rt_alloc_zero(size_t count, size_t bytes)
{
    void *p = calloc(count ? count : 1, bytes ? bytes : 1);
    if (!p)
        out_of_memory(count * bytes);
    return p;
}

void *rt_alloc_aligned(size_t bytes)
{
    void *p = NULL;
    if (bytes > SIZE_MAX - 64 || posix_memalign(&p, 64, (bytes + 63) / 64 * 64 + 64))
        out_of_memory(bytes);
    return p;
}

void *rt_grow(void *old, size_t bytes)
{
    void *p = realloc(old, bytes ? bytes : 1);
    if (!p)
        out_of_memory(bytes);
    return p;
}

char *rt_copy_text(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(rt_alloc(bytes), text, bytes);
}

char *rt_text(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = rt_alloc((size_t)(length < 0 ? 0 : length) + 1);
    text[0] = 0;
    if (length >= 0)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

double rt_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- numbers ---- */

/* The library calls below follow the locale's decimal sign, should a program's host set one. */
static char decimal_sign(void)
{
    const char *sign = localeconv()->decimal_point;
    return sign && sign[0] && !sign[1] ? sign[0] : '.';
}

static double to_double(const char *text, char **end)
{
    char sign = decimal_sign();
    if (sign == '.')
        return strtod(text, end);
    char local[400];
    size_t n = strlen(text);
    if (n >= sizeof local)
        n = sizeof local - 1;
    memcpy(local, text, n);
    local[n] = 0;
    for (char *c = local; *c; c++)
        if (*c == '.')
            *c = sign;
        else if (*c == sign)
            *c = '?';
    char *stop;
    double v = strtod(local, &stop);
    *end = (char *)text + (stop - local);
    return v;
}

const char *rt_number(char buffer[RT_NUMBER_CHARS], double v)
{
    if (isnan(v))
        return strcpy(buffer, "nan");
    if (isinf(v))
        return strcpy(buffer, v > 0 ? "inf" : "-inf");
    if (fabs(v) < 1e15 && v == floor(v)) {
        snprintf(buffer, RT_NUMBER_CHARS, "%.0f", v);
        return strcmp(buffer, "-0") ? buffer : strcpy(buffer, "-0.0");
    }
    bool narrow = (double)(float)v == v;
    char sign = decimal_sign();
    for (int digits = narrow ? 6 : 15; digits <= 17; digits++) {
        snprintf(buffer, RT_NUMBER_CHARS, "%.*g", digits, v);
        double back = strtod(buffer, NULL);
        if (narrow ? (float)back == (float)v : back == v)
            break;
    }
    char *comma = sign == '.' ? NULL : strchr(buffer, sign);
    if (comma)
        *comma = '.';
    return buffer;
}

const char *rt_bytes_text(char buffer[RT_NUMBER_CHARS], double bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1023.95 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(buffer, RT_NUMBER_CHARS, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return buffer;
}

const char *rt_count_text(char buffer[RT_NUMBER_CHARS], int64_t n)
{
    char digits[RT_NUMBER_CHARS];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)n), at = 0;
    for (int i = 0; i < length && at < RT_NUMBER_CHARS - 2; i++) {
        if (i && digits[i - 1] != '-' && (length - i) % 3 == 0)
            buffer[at++] = ',';
        buffer[at++] = digits[i];
    }
    buffer[at] = 0;
    return buffer;
}

static void trim(const char **text, size_t *length)
{
    while (*length && (**text == ' ' || **text == '\t')) {
        ++*text;
        --*length;
    }
    while (*length && ((*text)[*length - 1] == ' ' || (*text)[*length - 1] == '\t'))
        --*length;
}

/* Up to 15 digits and a power of ten up to 22 are exact in a double, so one operation rounds correctly. */
static bool parse_short(const char *text, size_t length, double *v)
{
    static const double ten[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    size_t i = 0;
    bool minus = false;
    if (i < length && (text[i] == '-' || text[i] == '+'))
        minus = text[i++] == '-';
    uint64_t digits = 0;
    int n = 0, after = 0;
    bool point = false;
    for (; i < length; i++) {
        if (text[i] == '.' && !point) {
            point = true;
        } else if (text[i] >= '0' && text[i] <= '9') {
            digits = digits * 10 + (uint64_t)(text[i] - '0');
            after += point;
            if (++n > 15)
                return false;
        } else {
            return false;
        }
    }
    if (!n)
        return false;
    double value = (double)digits / ten[after];
    *v = minus ? -value : value;
    return true;
}

bool rt_parse_double(const char *text, size_t length, double *v)
{
    trim(&text, &length);
    if (parse_short(text, length, v))
        return true;
    char local[400];
    if (!length || length >= sizeof local || memchr(text, 0, length))
        return false;
    /* strtod also takes hexadecimal and nan(...), which no data file means. */
    for (size_t i = 0; i < length; i++)
        if (!strchr("0123456789+-.eEinftyaINFTYA", text[i]))
            return false;
    memcpy(local, text, length);
    local[length] = 0;
    char *end;
    *v = to_double(local, &end);
    return end == local + length;
}

bool rt_parse_int(const char *text, size_t length, int64_t *v)
{
    trim(&text, &length);
    size_t i = 0;
    bool minus = false;
    if (i < length && (text[i] == '-' || text[i] == '+'))
        minus = text[i++] == '-';
    if (i == length)
        return false;
    int64_t value = 0;
    for (; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, text[i] - '0', &value))
            return false;
    }
    if (!minus && value == INT64_MIN)
        return false;
    *v = minus ? value : -value;
    return true;
}

/* ---- names ---- */

enum { NAME_MAX_COMPARED = 63 };

int rt_distance(const char *a, const char *b)
{
    int n = (int)strnlen(a, NAME_MAX_COMPARED), m = (int)strnlen(b, NAME_MAX_COMPARED);
    int row[3][NAME_MAX_COMPARED + 1];
    for (int j = 0; j <= m; j++)
        row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3], *above = row[(i + 2) % 3], *above2 = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                above2[j - 2] + 1 < best)
                best = above2[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

void rt_near_start(RtNear *near, const char *word)
{
    *near = (RtNear){.word = word, .distance = 1 + (int)strlen(word) / 3};
    if (near->distance > 4)
        near->distance = 4;
}

void rt_near_try(RtNear *near, const char *name)
{
    int distance = strcasecmp(near->word, name) ? rt_distance(near->word, name) : 0, prefix = 0;
    while (near->word[prefix] && near->word[prefix] == name[prefix])
        prefix++;
    bool better = near->best ? distance < near->distance ||
                                   (distance == near->distance && prefix > near->prefix)
                             : distance <= near->distance;
    if (better) {
        near->best = name;
        near->distance = distance;
        near->prefix = prefix;
    }
}
