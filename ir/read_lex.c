/* read_lex.c: tokens of the text form of IR. Anything may come in: a byte that fits nowhere, a
 * string without an end, a number out of range is an error with its place. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/strutil.h"
#include "ir/base/vec.h"
#include "ir/reader.h"

void read_fail(Reader *r, const char *fmt, ...)
{
    if (!r->failed) {
        va_list ap;
        va_start(ap, fmt);
        const char *what = arena_vprintf(r->arena, fmt, ap);
        va_end(ap);
        diag_error(r->diag, r->token.loc, "%s", what);
    }
    r->failed = true;
    r->at = r->source->size;
    r->token = r->next = (Token){.kind = TOKEN_end, .text = "", .loc = r->token.loc};
}

/* ---- characters ------------------------------------------------------------------------------ */

static char peek(const Reader *r, size_t ahead)
{
    return r->at + ahead < r->source->size ? r->source->text[r->at + ahead] : 0;
}

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_line(Reader *r)
{
    while (r->at < r->source->size && peek(r, 0) != '\n') {
        r->at++;
    }
}

/* Blanks, newlines, and comments, which stand at the start of a line. True: a newline was among
 * them. */
static bool skip_blank(Reader *r)
{
    bool first = r->at == 0;
    while (r->at < r->source->size) {
        char c = peek(r, 0), d = peek(r, 1);
        if (c == '\n') {
            first = true;
            r->line++;
            r->at++;
        } else if (c == ' ' || c == '\t' || c == '\r') {
            r->at++;
        } else if (first && (((c == '#' || c == ';') && d == ' ') || (c == '/' && d == '/'))) {
            skip_line(r);
        } else {
            break;
        }
    }
    return first;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static int octal(const Reader *r, size_t ahead)
{
    int value = 0;
    for (size_t i = 0; i < 3; i++) {
        char c = peek(r, ahead + i);
        if (c < '0' || c > '7') {
            return -1;
        }
        value = value * 8 + (c - '0');
    }
    return value < 1 || value > 255 ? -1 : value;
}

static void lex_string(Reader *r, Token *t)
{
    static const char escapes[] = "\"\\ntr?", values[] = "\"\\\n\t\r?";
    Text *s = text_new(r->arena);
    text_puts(s, "");
    r->at++;
    for (;;) {
        char c = peek(r, 0);
        if (r->at >= r->source->size || c == '\n' || c == 0) {
            r->token.loc = t->loc;
            read_fail(r, "this string has no end on its line");
            return;
        }
        if (c == '"') {
            r->at++;
            break;
        }
        if (c != '\\') {
            text_putc(s, c);
            r->at++;
            continue;
        }
        const char *e = peek(r, 1) != 0 ? strchr(escapes, peek(r, 1)) : NULL;
        int code = octal(r, 1);
        if (e == NULL && code < 0) {
            r->token.loc = t->loc;
            read_fail(r, "unknown escape in a string");
            return;
        }
        text_putc(s, e != NULL ? values[e - escapes] : (char)code);
        r->at += e != NULL ? 2 : 4;
    }
    t->kind = TOKEN_string;
    t->text = s->at != NULL ? s->at : "";
}

static void lex_name(Reader *r, Token *t)
{
    size_t start = r->at;
    for (;;) {
        char c = peek(r, 0), d = peek(r, 1);
        if (!letter(c) && !digit(c) && (c != '.' || (!letter(d) && !digit(d)))) {
            break;
        }
        r->at++;
    }
    t->kind = TOKEN_name;
    t->text = arena_strndup(r->arena, r->source->text + start, r->at - start);
}

static void lex_digits(Reader *r)
{
    while (digit(peek(r, 0))) {
        r->at++;
    }
}

static void lex_number(Reader *r, Token *t)
{
    size_t start = r->at;
    t->kind = TOKEN_int;
    lex_digits(r);
    if (peek(r, 0) == '.' && digit(peek(r, 1))) {
        t->kind = TOKEN_float;
        r->at++;
        lex_digits(r);
    }
    bool sign = peek(r, 1) == '+' || peek(r, 1) == '-';
    if (peek(r, 0) == 'e' && digit(peek(r, sign ? 2 : 1))) {
        t->kind = TOKEN_float;
        r->at += sign ? 2 : 1;
        lex_digits(r);
    }
    t->text = arena_strndup(r->arena, r->source->text + start, r->at - start);
    t->f = strtod(t->text, NULL);
    if (t->kind == TOKEN_int) {
        errno = 0;
        t->i = strtoll(t->text, NULL, 10);
        if (errno != 0) {
            r->token.loc = t->loc;
            read_fail(r, "%s is too large", t->text);
        }
    }
}

static void lex_sign(Reader *r, Token *t)
{
    static const char *const signs[] = {"**", "//", "<=", ">=", "==", "!=", "->", "..", "{",
                                        "}",  "(",  ")",  "[",  "]",  ",",  ":",  "=",  "@",
                                        "%",  "+",  "-",  "*",  "/",  "<",  ">",  "$"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        size_t n = strlen(signs[i]);
        if (r->source->size - r->at >= n && memcmp(r->source->text + r->at, signs[i], n) == 0) {
            t->kind = TOKEN_sign;
            t->text = signs[i];
            r->at += n;
            return;
        }
    }
    unsigned char c = (unsigned char)peek(r, 0);
    r->token.loc = t->loc;
    if (c > 0x20 && c < 0x7f) {
        read_fail(r, "'%c' does not belong here", c);
    } else {
        read_fail(r, "a byte of value %d does not belong here", c);
    }
}

static void lex(Reader *r, Token *t)
{
    size_t before = r->at;
    *t = (Token){.kind = TOKEN_end, .text = ""};
    t->first = skip_blank(r);
    t->glued = r->at == before && before != 0;
    size_t start = r->at, line_start = r->source->line[r->line - 1];
    int col = start - line_start < INT_MAX ? (int)(start - line_start) + 1 : INT_MAX;
    t->loc = (Loc){r->source, r->line, col, 1};
    if (r->at >= r->source->size) {
        return;
    }
    char c = peek(r, 0);
    if (c == '$' && peek(r, 1) == '"') {
        r->at++;
        lex_string(r, t);
        t->kind = r->failed ? TOKEN_end : TOKEN_name;
        t->quoted = true;
    } else if (c == '"') {
        lex_string(r, t);
    } else if (letter(c)) {
        lex_name(r, t);
    } else if (digit(c)) {
        lex_number(r, t);
    } else {
        lex_sign(r, t);
    }
    t->loc.len = r->at - start < INT_MAX ? (int)(r->at - start) : INT_MAX;
}

void read_advance(Reader *r)
{
    if (r->failed) {
        return;
    }
    r->token = r->next;
    Token t;
    lex(r, &t);
    if (!r->failed) {
        r->next = t;
    }
}

void read_start(Reader *r)
{
    r->line = 1;
    r->token = r->next = (Token){.kind = TOKEN_end, .text = ""};
    read_advance(r);
    read_advance(r);
}

/* ---- small pieces of grammar ----------------------------------------------------------------- */

bool read_is_sign(const Reader *r, const char *sign)
{
    return r->token.kind == TOKEN_sign && strcmp(r->token.text, sign) == 0;
}

bool read_is_word(const Reader *r, const char *word)
{
    return r->token.kind == TOKEN_name && !r->token.quoted && strcmp(r->token.text, word) == 0;
}

bool read_accept_sign(Reader *r, const char *sign)
{
    bool is = read_is_sign(r, sign);
    if (is) {
        read_advance(r);
    }
    return is;
}

bool read_accept_word(Reader *r, const char *word)
{
    bool is = read_is_word(r, word);
    if (is) {
        read_advance(r);
    }
    return is;
}

static const char *found(Reader *r)
{
    switch (r->token.kind) {
    case TOKEN_end: return "the end of the file";
    case TOKEN_string: return "a string";
    default: return arena_printf(r->arena, "'%.40s'", r->token.text);
    }
}

void read_expect_sign(Reader *r, const char *sign)
{
    if (!read_accept_sign(r, sign)) {
        read_fail(r, "expected '%s' but found %s", sign, found(r));
    }
}

void read_expect_word(Reader *r, const char *word)
{
    if (!read_accept_word(r, word)) {
        read_fail(r, "expected '%s' but found %s", word, found(r));
    }
}

const char *read_name(Reader *r)
{
    if (r->token.kind != TOKEN_name) {
        read_fail(r, "expected a name but found %s", found(r));
        return "";
    }
    const char *name = r->token.text;
    read_advance(r);
    return name;
}

const char *read_string(Reader *r)
{
    if (r->token.kind != TOKEN_string) {
        read_fail(r, "expected a string but found %s", found(r));
        return "";
    }
    const char *s = r->token.text;
    read_advance(r);
    return s;
}

int64_t read_int(Reader *r, int64_t lo, int64_t hi)
{
    int64_t i = r->token.i;
    if (r->token.kind != TOKEN_int) {
        read_fail(r, "expected a whole number but found %s", found(r));
        return lo;
    }
    if (i < lo || i > hi) {
        read_fail(r, "%" PRId64 " is not between %" PRId64 " and %" PRId64, i, lo, hi);
        return lo;
    }
    read_advance(r);
    return i;
}

int64_t read_signed(Reader *r)
{
    bool minus = read_accept_sign(r, "-");
    int64_t i = read_int(r, 0, INT64_MAX);
    return minus ? -i : i;
}

double read_number(Reader *r)
{
    bool minus = read_accept_sign(r, "-");
    double x = r->token.f;
    if (read_is_word(r, "inf")) {
        x = strtod("inf", NULL);
    } else if (read_is_word(r, "nan")) {
        x = strtod("nan", NULL);
    } else if (r->token.kind != TOKEN_int && r->token.kind != TOKEN_float) {
        read_fail(r, "expected a number but found %s", found(r));
        return 0;
    }
    read_advance(r);
    return minus ? -x : x;
}

static SourceFile *file_of(Reader *r, const char *path)
{
    for (int i = 0; i < r->nfiles; i++) {
        if (str_eq(r->files[i]->path, path)) {
            return r->files[i];
        }
    }
    SourceFile *file = ARENA_NEW(r->arena, SourceFile);
    file->path = path;
    r->files = vec_room(r->arena, r->files, r->nfiles, &r->fcap, sizeof r->files[0]);
    r->files[r->nfiles++] = file;
    return file;
}

Loc read_loc(Reader *r)
{
    Loc loc = {0};
    if (!read_accept_word(r, "loc")) {
        return loc;
    }
    read_expect_sign(r, "(");
    loc.file = r->main;
    if (r->token.kind == TOKEN_string) {
        loc.file = file_of(r, read_string(r));
        read_expect_sign(r, ":");
    }
    loc.line = (int)read_int(r, 1, INT_MAX / 2);
    if (read_accept_sign(r, ":")) {
        loc.col = (int)read_int(r, 0, INT_MAX / 2);
        read_expect_sign(r, "+");
        loc.len = (int)read_int(r, 0, INT_MAX / 2);
    }
    read_expect_sign(r, ")");
    return loc;
}
