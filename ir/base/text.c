/* text.c: see text.h. */
#include "ir/base/text.h"

#include <string.h>

#include "ir/base/diag.h"
#include "ir/base/strutil.h"

Text *text_new(Arena *a)
{
    Text *t = ARENA_NEW(a, Text);
    t->arena = a;
    t->cap = 256;
    t->at = arena_alloc(a, t->cap);
    return t;
}

static void make_room(Text *t, size_t more)
{
    if (t->cap - t->n > more)
        return;
    size_t cap = t->cap;
    while (cap - t->n <= more)
        cap *= 2;
    char *p = arena_alloc(t->arena, cap);
    memcpy(p, t->at, t->n + 1);
    t->at = p;
    t->cap = cap;
}

void text_putn(Text *t, const char *s, size_t n)
{
    make_room(t, n);
    memcpy(t->at + t->n, s, n);
    t->n += n;
    t->at[t->n] = 0;
}

void text_puts(Text *t, const char *s)
{
    text_putn(t, s, strlen(s));
}

void text_putc(Text *t, char c)
{
    text_putn(t, &c, 1);
}

void text_vprintf(Text *t, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = fmt ? vsnprintf(NULL, 0, fmt, again) : -1;
    va_end(again);
    if (n < 0)
        ICE("cannot format \"%s\"", fmt);
    make_room(t, (size_t)n);
    vsnprintf(t->at + t->n, (size_t)n + 1, fmt, ap);
    t->n += (size_t)n;
}

void text_printf(Text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_vprintf(t, fmt, ap);
    va_end(ap);
}

void text_pad(Text *t, size_t column)
{
    size_t start = t->n;
    while (start > 0 && t->at[start - 1] != '\n')
        start--;
    while (t->n - start < column)
        text_putc(t, ' ');
}

void text_margin(Text *t)
{
    for (int i = 0; i < t->indent; i++)
        text_putn(t, "    ", 4);
}

static void line(Text *t, const char *fmt, va_list ap)
{
    if (*fmt)
        text_margin(t);
    text_vprintf(t, fmt, ap);
    text_putc(t, '\n');
}

void text_line(Text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line(t, fmt, ap);
    va_end(ap);
}

void text_open(Text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line(t, fmt, ap);
    va_end(ap);
    t->indent++;
}

void text_close(Text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (--t->indent < 0)
        ICE("text_close without a text_open");
    line(t, fmt, ap);
    va_end(ap);
}

/* The escape that C, JSON and .mpt have in common for c, or NULL. */
static const char *common_escape(unsigned char c)
{
    switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\t': return "\\t";
    case '\r': return "\\r";
    default: return NULL;
    }
}

void text_quote(Text *t, const char *s, size_t n)
{
    text_putc(t, '"');
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        int len = str_utf8(s + i, n - i);
        if (common_escape(c))
            text_puts(t, common_escape(c));
        else if (c == '?' && i && s[i - 1] == '?')
            text_puts(t, "\\?"); /* no trigraph in the generated C */
        else if (c < 0x20 || c == 0x7f || !len)
            text_printf(t, "\\%03o", c); /* always three digits: nothing can be swallowed */
        else
            text_putn(t, s + i, (size_t)len);
        i += len > 1 ? (size_t)len : 1;
    }
    text_putc(t, '"');
}

void text_quote_json(Text *t, const char *s, size_t n)
{
    text_putc(t, '"');
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        int len = str_utf8(s + i, n - i);
        if (common_escape(c))
            text_puts(t, common_escape(c));
        else if (c < 0x20 || c == 0x7f || !len)
            text_printf(t, "\\u%04x", len ? c : 0xfffdu);
        else
            text_putn(t, s + i, (size_t)len);
        i += len > 1 ? (size_t)len : 1;
    }
    text_putc(t, '"');
}

bool text_write(const Text *t, FILE *to)
{
    return fwrite(t->at, 1, t->n, to) == t->n && fflush(to) == 0;
}
