/* diag.c: how a message looks, how many there are; and ICE.
 *
 * Everything printed is made safe first: a source line or a name in a message may hold control
 * characters or broken UTF-8, which come out as \x1b. Long lines are shown around their span.
 */
#define _POSIX_C_SOURCE 200809L
#include "ir/base/diag.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/strutil.h"
#include "ir/base/text.h"

enum {
    SHOWN_COLUMNS = 100, /* of a source line, at most */
    SHOWN_BEFORE = 40,   /* of them before a span in a long line */
    MAX_MESSAGE = 1000,  /* bytes of one message */
    TAB = 4,
};

typedef enum Severity { ERROR, WARNING, NOTE } Severity;

static const char *const severity_name[] = {"error", "warning", "note"};
static const char *const severity_color[] = {"\033[1;31m", "\033[1;35m", "\033[1;36m"};

struct Diag {
    Arena *arena;
    FILE *out;
    bool color;
    DiagFormat format;
    Text *said;
    int errors, warnings;
    bool overflowed; /* the "too many errors" line is out */
    bool dropped;    /* the last error or warning was: so are its notes */
    Text *seen;      /* the heads of all messages, to say each thing once */
};

static bool wants_color(FILE *out, DiagColor color)
{
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
    if (color != DIAG_COLOR_auto)
        return color == DIAG_COLOR_always;
    return out && isatty(fileno(out)) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

Diag *diag_new(Arena *a, FILE *out, DiagColor color, DiagFormat format)
{
    Diag *d = ARENA_NEW(a, Diag);
    d->arena = a;
    d->out = out;
    d->color = wants_color(out, color);
    d->format = format;
    d->said = text_new(a);
    d->seen = text_new(a);
    return d;
}

/* Appends the character at s as it may be shown; returns its bytes, adds its columns to *width. */
static size_t put_safe(Text *t, const char *s, size_t n, int *width)
{
    unsigned char c = (unsigned char)*s;
    int len = str_utf8(s, n);
    bool c1 = len == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0; /* 8-bit control codes */
    size_t before = t->n;
    if (c == '\t') {
        text_printf(t, "%*s", TAB, "");
        *width += TAB;
    } else if (c < 0x20 || c == 0x7f || !len || c1) {
        for (int i = 0; i < (c1 ? 2 : 1); i++)
            text_printf(t, "\\x%02x", (unsigned char)s[i]);
        *width += (int)(t->n - before);
    } else {
        text_putn(t, s, (size_t)len);
        *width += 1;
    }
    return len > 1 ? (size_t)len : 1;
}

/* The source line with its gutter, and the line of carets under it. */
static void put_source(Diag *d, Text *t, Loc loc, const char *color)
{
    const SourceFile *f = loc.file;
    if (!f || !f->text || loc.line < 1 || loc.line > f->lines)
        return;
    const char *at = f->text + f->line[loc.line - 1];
    size_t n = strcspn(at, "\n");
    if (n && at[n - 1] == '\r')
        n--;
    size_t first = loc.col > 0 ? (size_t)loc.col - 1 : 0;
    first = first > n ? n : first;
    size_t last = loc.len > 0 && (size_t)loc.len < n - first ? first + (size_t)loc.len : n;
    if (loc.len <= 1)
        last = first + 1;
    /* a window into a long line */
    size_t from = n > SHOWN_COLUMNS && first > SHOWN_BEFORE ? first - SHOWN_BEFORE : 0;
    while (from > 0 && from < n && ((unsigned char)at[from] & 0xc0) == 0x80)
        from--; /* not inside a character */

    Text *line = text_new(d->arena);
    int width = 0, start = 0, end = -1;
    text_puts(line, from ? "..." : "");
    width += from ? 3 : 0;
    start = width;
    for (size_t i = from; i < n;) {
        if (i <= first)
            start = width;
        if (width >= SHOWN_COLUMNS) {
            text_puts(line, "...");
            break;
        }
        i += put_safe(line, at + i, n - i, &width);
        if (i <= last)
            end = width;
    }
    if (first >= n)
        start = width;
    if (end <= start)
        end = start + 1;
    text_printf(t, " %4d | %s\n", loc.line, line->at);
    text_printf(t, "      | %*s%s^", start, "", color);
    for (int i = start + 1; i < end; i++)
        text_putc(t, '~');
    text_printf(t, "%s\n", *color ? "\033[0m" : "");
}

static void put_place(Text *t, Loc loc)
{
    if (!loc.file)
        text_puts(t, "mpc:");
    else if (loc.line < 1)
        text_printf(t, "%s:", loc.file->path);
    else if (loc.col < 1) /* places that an .ir file gives may be lines alone */
        text_printf(t, "%s:%d:", loc.file->path, loc.line);
    else
        text_printf(t, "%s:%d:%d:", loc.file->path, loc.line, loc.col);
}

static void put_text(Diag *d, Text *t, Severity severity, Loc loc, const char *message, bool color)
{
    const char *tint = color ? severity_color[severity] : "";
    const char *bold = color ? "\033[1m" : "", *off = color ? "\033[0m" : "";
    text_puts(t, bold);
    put_place(t, loc);
    text_printf(t, "%s %s%s:%s %s%s%s\n", off, tint, severity_name[severity], off, bold, message,
                off);
    put_source(d, t, loc, tint);
}

static void put_json(Text *t, Severity severity, Loc loc, const char *message)
{
    text_printf(t, "{\"severity\":\"%s\"", severity_name[severity]);
    if (loc.file) {
        text_puts(t, ",\"file\":");
        text_quote_json(t, loc.file->path, strlen(loc.file->path));
    }
    if (loc.file && loc.line > 0) {
        size_t room = (size_t)loc.len;
        if (loc.file->text && loc.line <= loc.file->lines) {
            size_t n = strcspn(loc.file->text + loc.file->line[loc.line - 1], "\n");
            size_t left = (size_t)loc.col <= n ? n - (size_t)loc.col + 1 : 1;
            room = room < left ? room : left;
        }
        text_printf(t, ",\"line\":%d,\"column\":%d,\"length\":%zu", loc.line, loc.col, room);
    }
    text_puts(t, ",\"message\":");
    text_quote_json(t, message, strlen(message));
    text_puts(t, "}\n");
}

static void say(Diag *d, Severity severity, Loc loc, const char *message)
{
    size_t before = d->said->n;
    if (d->format == DIAG_FORMAT_json)
        put_json(d->said, severity, loc, message);
    else
        put_text(d, d->said, severity, loc, message, false);
    if (!d->out)
        return;
    const char *shown = d->said->at + before;
    if (d->color && d->format == DIAG_FORMAT_text) {
        Text *t = text_new(d->arena);
        put_text(d, t, severity, loc, message, true);
        shown = t->at;
    }
    fputs(shown, d->out);
    fflush(d->out);
}

/* The message, formatted and made safe. */
static const char *format(Diag *d, const char *fmt, va_list ap)
{
    const char *raw = arena_vprintf(d->arena, fmt, ap);
    size_t n = strlen(raw);
    Text *t = text_new(d->arena);
    int width = 0;
    for (size_t i = 0; i < n && t->n < MAX_MESSAGE;)
        i += put_safe(t, raw + i, n - i, &width);
    if (t->n >= MAX_MESSAGE)
        text_puts(t, "...");
    return t->at;
}

/* The same thing at the same place is said once: unrolled code would repeat it. */
static bool said_before(Diag *d, Loc loc, const char *message)
{
    Text *head = text_new(d->arena);
    text_putc(head, '\n');
    put_place(head, loc);
    text_printf(head, " %s\n", message);
    if (strstr(d->seen->at, head->at))
        return true;
    text_puts(d->seen, head->at);
    return false;
}

/* Counts and says a message, unless it stands there already; notes that follow share its fate. */
static void say_once(Diag *d, int *count, Severity severity, Loc loc, const char *message)
{
    d->dropped = said_before(d, loc, message);
    if (d->dropped)
        return;
    ++*count;
    say(d, severity, loc, message);
}

void diag_error(Diag *d, Loc loc, const char *fmt, ...)
{
    if (d->errors >= DIAG_MAX_ERRORS) {
        d->dropped = true;
        if (!d->overflowed) {
            d->overflowed = true;
            say(d, ERROR, loc_none(), "too many errors, the rest is not shown");
        }
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    say_once(d, &d->errors, ERROR, loc, format(d, fmt, ap));
    va_end(ap);
}

void diag_warning(Diag *d, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say_once(d, &d->warnings, WARNING, loc, format(d, fmt, ap));
    va_end(ap);
}

void diag_note(Diag *d, Loc loc, const char *fmt, ...)
{
    if (d->dropped)
        return;
    va_list ap;
    va_start(ap, fmt);
    say(d, NOTE, loc, format(d, fmt, ap));
    va_end(ap);
}

int diag_errors(const Diag *d)
{
    return d->errors;
}

int diag_warnings(const Diag *d)
{
    return d->warnings;
}

bool diag_failed(const Diag *d)
{
    return d->errors > 0;
}

bool diag_full(const Diag *d)
{
    return d->errors >= DIAG_MAX_ERRORS;
}

const char *diag_text(const Diag *d)
{
    return d->said->at;
}

/* The one mutable global of the compiler: an ICE can happen where no context is at hand. */
static struct {
    void (*fn)(void *ctx);
    void *ctx;
} hook;

void ice_hook(void (*fn)(void *ctx), void *ctx)
{
    hook.fn = fn;
    hook.ctx = ctx;
}

void ice_at(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fflush(stdout);
    fprintf(stderr, "mpc: internal compiler error: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, " (%s:%d)\nmpc: this is a fault of mpc, please report it\n", file, line);
    va_end(ap);
    void (*fn)(void *) = hook.fn;
    hook.fn = NULL; /* an ICE inside the hook must not run it again */
    if (fn)
        fn(hook.ctx);
    exit(70);
}
