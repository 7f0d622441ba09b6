/* emit.c: the writer of lines, and small texts: dims, shapes, numbers, types. Names are in names.c. */
#include "codegen/emit.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/strutil.h"

/* ---- lines ----------------------------------------------------------------------------------------- */

enum { WIDTH = 100 };

/* Where to break a line of C of which `room` columns fit: at a space outside strings, as far out of parentheses
 * as the second half allows. 0: nowhere. */
static size_t break_at(const char *s, size_t room)
{
    size_t at = 0;
    char quote = 0;
    int depth = 0, best = INT_MAX;
    for (size_t i = 0; s[i] != 0 && (i < room || at == 0); i++) {
        depth += s[i] == '(' || s[i] == '{' || s[i] == '[';
        depth -= s[i] == ')' || s[i] == '}' || s[i] == ']';
        if (quote != 0) {
            if (s[i] == '\\' && s[i + 1] != 0) {
                i++; /* an escaped quote ends nothing */
            } else if (s[i] == quote) {
                quote = 0;
            }
        } else if (s[i] == '"' || s[i] == '\'') {
            quote = s[i];
        } else if (s[i] == ' ' && i > 0 && (depth <= best || at < room / 2)) {
            at = i;
            best = i < room / 2 ? INT_MAX : depth;
        }
    }
    return at;
}

/* One line, broken where it is too long; comments and directives stay as they are. */
static void put_line(Emit *e, const char *s)
{
    bool as_is = s[0] == '#' || strncmp(s, "/*", 2) == 0 || strncmp(s, " *", 2) == 0;
    size_t room = WIDTH - 4 * (size_t)e->out->indent;
    text_margin(e->out);
    for (size_t at; !as_is && strlen(s) > room && (at = break_at(s, room)) > 0; s += at + 1) {
        text_putn(e->out, s, at);
        text_putc(e->out, '\n');
        text_margin(e->out);
        text_puts(e->out, "    ");
        room = WIDTH - 4 * (size_t)(e->out->indent + 1);
    }
    text_puts(e->out, s);
    text_putc(e->out, '\n');
}

void ln(Emit *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_line(e, arena_vprintf(e->arena, fmt, ap));
    va_end(ap);
}

void ln_open(Emit *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_line(e, arena_printf(e->arena, "%s {", arena_vprintf(e->arena, fmt, ap)));
    e->out->indent++;
    va_end(ap);
}

void ln_in(Emit *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_line(e, arena_vprintf(e->arena, fmt, ap));
    e->out->indent++;
    va_end(ap);
}

void ln_out(Emit *e)
{
    e->out->indent--;
}

void ln_close(Emit *e, const char *tail)
{
    e->out->indent--;
    text_margin(e->out);
    text_printf(e->out, "}%s\n", tail);
}

void ln_blank(Emit *e)
{
    text_putc(e->out, '\n');
}

/* ---- texts ----------------------------------------------------------------------------------------- */

const char *comment_text(Arena *a, const char *s)
{
    Text *t = text_new(a);
    for (; *s != 0; s++) {
        if (s[0] == '*' && s[1] == '/') {
            text_putc(t, '*');
            text_putc(t, ' ');
        } else if (s[0] == '/' && s[1] == '*') {
            text_putc(t, '/');
            text_putc(t, ' ');
        } else if ((unsigned char)*s < ' ' || *s == '\\') {
            text_putc(t, ' ');
        } else {
            text_putc(t, *s);
        }
    }
    return t->at != NULL ? t->at : "";
}

const char *quoted(Arena *a, const char *s)
{
    if (s == NULL) {
        return "NULL";
    }
    Text *t = text_new(a);
    text_quote(t, s, strlen(s));
    return t->at;
}

static const char *sym_name(const Graph *g, int sym)
{
    return g->syms[sym - 1].name;
}

const char *dim_text(Arena *a, const Graph *g, Dim d)
{
    const char *k = arena_printf(a, "%lld", (long long)d.k);
    if (d.sym[0] == 0) {
        return k;
    }
    const char *s = sym_name(g, d.sym[0]);
    if (d.sym[1] != 0) {
        s = arena_printf(a, "%s * %s", s, sym_name(g, d.sym[1]));
    }
    return d.k == 1 ? s : arena_printf(a, "%s * %s", s, k);
}

const char *product_text(Arena *a, const Graph *g, const Dims *d)
{
    Dim n;
    if (dims_count(d, &n)) {
        return dim_text(a, g, n);
    }
    const char *text = NULL;
    for (int i = 0; i < d->rank; i++) {
        text = joined(a, text, "*", dim_text(a, g, d->d[i]));
    }
    return text;
}

const char *shape_text(Arena *a, const Graph *g, const Dims *d)
{
    Text *t = text_new(a);
    text_putc(t, '(');
    for (int i = 0; i < d->rank; i++) {
        text_printf(t, "%s%s", i > 0 ? ", " : "", dim_text(a, g, d->d[i]));
    }
    text_putc(t, ')');
    return t->at;
}

const char *number_text(Arena *a, DType dt, double v)
{
    char buf[32];
    if (!dtype_info[dt].is_float) {
        /* the most negative number has no literal of its own */
        if (v <= -9223372036854775808.0) {
            return "INT64_MIN";
        }
        return arena_printf(a, v < 0 ? "(%.0f)" : "%.0f", v);
    }
    v = round_to(dt, v);
    if (isnan(v)) {
        return wide_type(dt) == DT_f64 ? "(double)NAN" : "NAN";
    }
    const char *sign = signbit(v) ? "-" : "";
    const char *text;
    if (isinf(v)) {
        text = wide_type(dt) == DT_f64 ? "(double)INFINITY" : "INFINITY";
    } else if (wide_type(dt) == DT_f64) {
        text = arena_strdup(a, str_double(buf, fabs(v)));
    } else {
        int digits =
            1; /* the fewest that read back as the same float, and no exponent where it is short */
        bool is_short = fabs(v) >= 1 && fabs(v) < 1e7;
        do {
            snprintf(buf, sizeof buf, "%.*g", digits, fabs(v));
        } while (digits++ < 9 &&
                 (strtof(buf, NULL) != (float)fabs(v) || (is_short && strchr(buf, 'e') != NULL)));
        bool whole = strpbrk(buf, ".e") == NULL;
        text = arena_printf(a, "%s%sf", buf, whole ? ".0" : "");
    }
    return sign[0] != 0 ? arena_printf(a, "(-%s)", text) : text;
}

const char *size_text(Arena *a, double n, const char *unit)
{
    static const char *const prefix[] = {"", "K", "M", "G", "T"};
    int i = 0;
    for (; n >= 999.5 && i < 4; i++) {
        n /= 1000;
    }
    return arena_printf(a, n < 9.95 && i > 0 ? "%.1f %s%s" : "%.0f %s%s", n, prefix[i], unit);
}

const char *joined(Arena *a, const char *x, const char *op, const char *y)
{
    if (x == NULL || y == NULL) {
        return x != NULL ? x : y;
    }
    return arena_printf(a, "%s %s %s", x, op, y);
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

bool text_mentions(const Text *t, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = t->at; at != NULL && (at = strstr(at, word)) != NULL; at += n) {
        bool field = at > t->at && (at[-1] == '.' || at[-1] == '>');
        if (!field && (at == t->at || !in_word(at[-1])) && !in_word(at[n])) {
            return true;
        }
    }
    return false;
}

/* ---- types ----------------------------------------------------------------------------------------- */

DType wide_type(DType dt)
{
    return dtype_is_low(dt) ? DT_f32 : dt;
}

const char *memory_ctype(DType dt)
{
    return dtype_info[dt].ctype;
}

const char *wide_ctype(DType dt)
{
    return dt == DT_bool ? "bool" : dtype_info[wide_type(dt)].ctype;
}

const char *widened(Arena *a, DType dt, const char *element)
{
    return dtype_is_low(dt) ? arena_printf(a, "mpc_%s_to_f32(%s)", dtype_info[dt].name, element)
                            : element;
}

const char *narrowed(Arena *a, DType dt, DType from, const char *value)
{
    if (dtype_is_low(dt)) {
        if (from == DT_f32) {
            return arena_printf(a, "mpc_f32_to_%s(%s)", dtype_info[dt].name, value);
        }
        /* every integer below 2^53 is exact in double, and rounded once from there */
        return arena_printf(a, "mpc_f64_to_%s(%s)", dtype_info[dt].name, value);
    }
    if (dt == DT_bool) {
        return from == DT_bool ? value : arena_printf(a, "(%s) != 0", value);
    }
    if (dtype_info[dt].is_int && dtype_info[from].is_float) {
        if (from == DT_f64 && dt != DT_i64) {
            return arena_printf(a, "(%s)mpc_f64_to_i64(%s)", dtype_info[dt].ctype, value);
        }
        return arena_printf(a, "mpc_%s_to_%s(%s)", dtype_info[from].name, dtype_info[dt].name,
                            value);
    }
    bool simple = strpbrk(value, " ?") == NULL;
    return arena_printf(a, simple ? "(%s)%s" : "(%s)(%s)", dtype_info[dt].ctype, value);
}

const char *function_suffix(DType dt)
{
    return dt == DT_f32 ? "" : dt == DT_f64 ? "_f64" : "_i64";
}
