/* rt_data_csv.c: tables of text. csv: commas, cells may be quoted (RFC 4180); tsv: tabs, quotes mean nothing.
 * The first line names the columns. Read as a stream: beside the table itself no more than one row and the
 * header are in memory. Every fault is reported with file, line and column. */
#include "abi/scalar.h"
#include "rt_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MOST = 16 << 20, FIRST_ROWS = 1024 };

typedef struct Csv {
    RtStream stream;
    char separator;
    bool quotes;
    uint32_t line, row_line; /* of the next byte; of the row's first byte */
    char *text;              /* the row's cells, each ended by 0 */
    size_t used, cap;
    size_t *cell; /* where they begin in text */
    int cells, cell_cap;
} Csv;

typedef struct Column {
    int index; /* in the file */
    const char *name;
} Column;

/* ---- rows and cells ---- */

static bool fault(Csv *c, RtErr *e, const char *what)
{
    return rt_err(e, "%s:%u: %s", c->stream.path, c->row_line, what);
}

static bool put_char(Csv *c, char ch, RtErr *e)
{
    if (c->used == c->cap) {
        if (c->cap >= ROW_MOST)
            return fault(c, e, "the row is longer than 16 MiB; is a quote left open?");
        c->cap = c->cap ? c->cap * 2 : 4096;
        c->text = rt_grow(c->text, c->cap);
    }
    c->text[c->used++] = ch;
    return true;
}

static void open_cell(Csv *c)
{
    if (c->cells == c->cell_cap) {
        c->cell_cap = c->cell_cap ? c->cell_cap * 2 : 64;
        c->cell = rt_grow(c->cell, (size_t)c->cell_cap * sizeof *c->cell);
    }
    c->cell[c->cells++] = c->used;
}

/* The next byte, or -1 at the end. */
static bool next_byte(Csv *c, int *byte, RtErr *e)
{
    if (c->stream.at == c->stream.end && !rt_stream_fill(&c->stream, e))
        return false;
    *byte = c->stream.at < c->stream.end ? c->stream.buffer[c->stream.at++] : -1;
    if (*byte == '\n')
        c->line++;
    return true;
}

/* A quoted cell up to its closing quote; *byte is the one after it. */
static bool read_quoted(Csv *c, int *byte, RtErr *e)
{
    for (;;) {
        if (!next_byte(c, byte, e))
            return false;
        if (*byte < 0)
            return fault(c, e, "a quote is opened but never closed");
        if (*byte == '"') {
            if (!next_byte(c, byte, e))
                return false;
            if (*byte != '"')
                break;
        }
        if (!put_char(c, (char)*byte, e))
            return false;
    }
    while (*byte == ' ' || *byte == '\r')
        if (!next_byte(c, byte, e))
            return false;
    if (*byte >= 0 && *byte != c->separator && *byte != '\n')
        return fault(c, e, "there is text between a closing quote and the end of its cell");
    return true;
}

static bool read_plain(Csv *c, int *byte, RtErr *e)
{
    while (*byte >= 0 && *byte != c->separator && *byte != '\n') {
        if (*byte == 0)
            return fault(c, e, "this is no text file: it holds a zero byte");
        if (!put_char(c, (char)*byte, e) || !next_byte(c, byte, e))
            return false;
    }
    if (*byte != c->separator && c->used > c->cell[c->cells - 1] && c->text[c->used - 1] == '\r')
        c->used--;
    return true;
}

static bool is_blank(const Csv *c)
{
    return c->cells == 1 && c->text[strspn(c->text, " \t")] == 0;
}

/* The next row that is not blank; no cells at the end of the file. */
static bool read_row(Csv *c, RtErr *e)
{
    int byte;
    do {
        c->used = 0;
        c->cells = 0;
        c->row_line = c->line;
        if (!next_byte(c, &byte, e))
            return false;
        if (byte < 0)
            return true;
        for (;;) {
            open_cell(c);
            bool ok;
            if (c->quotes && byte == '"')
                ok = read_quoted(c, &byte, e);
            else
                ok = read_plain(c, &byte, e);
            if (!ok || !put_char(c, 0, e))
                return false;
            if (byte != c->separator)
                break;
            if (!next_byte(c, &byte, e))
                return false;
        }
    } while (is_blank(c));
    return true;
}

static bool open_csv(Csv *c, const char *path, bool tabs, RtErr *e)
{
    *c = (Csv){.separator = tabs ? '\t' : ',', .quotes = !tabs, .line = 1, .row_line = 1};
    if (!rt_stream_open(&c->stream, path, e))
        return false;
    if (!rt_stream_fill(&c->stream, e))
        return false;
    if (c->stream.end - c->stream.at >= 3 && memcmp(c->stream.buffer, "\xef\xbb\xbf", 3) == 0)
        c->stream.at = 3;
    return true;
}

static void close_csv(Csv *c)
{
    rt_stream_close(&c->stream);
    free(c->text);
    free(c->cell);
}

/* ---- columns ---- */

/* What is quoted in messages comes from files: control characters become '?', long texts are cut. */
static const char *shown(char buffer[48], const char *text)
{
    size_t n = strnlen(text, 44);
    for (size_t i = 0; i < n; i++)
        buffer[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
    strcpy(buffer + n, text[n] ? "..." : "");
    return buffer;
}

static const char *trimmed(char *text)
{
    text += strspn(text, " \t");
    for (size_t n = strlen(text); n && (text[n - 1] == ' ' || text[n - 1] == '\t'); n--)
        text[n - 1] = 0;
    return text;
}

static bool find_column(Csv *c, const char **header, int n, const char *name, int *index, RtErr *e)
{
    RtNear near;
    char text[48];
    int found = 0;
    rt_near_start(&near, name);
    for (int i = 0; i < n; i++) {
        if (strcmp(header[i], name) == 0) {
            *index = i;
            found++;
        }
        rt_near_try(&near, header[i]);
    }
    if (found == 1)
        return true;
    if (found)
        return rt_err(e, "%s:%u: %d columns are called \"%s\"", c->stream.path, c->row_line, found,
                      name);
    rt_err(e, "%s:%u: there is no column \"%s\"", c->stream.path, c->row_line, name);
    if (near.best)
        rt_hint(e, "did you mean \"%s\"?", shown(text, near.best));
    else if (n)
        rt_hint(e, "the first line names %d columns; the first is \"%s\"", n,
                shown(text, header[0]));
    return false;
}

/* The file's columns for a field, in the order of its elements. */
static bool resolve_field(Csv *c, const char **header, int n, const MpcField *f, Column *out,
                          RtErr *e)
{
    MpcColumns self = {f->name, NULL};
    const MpcColumns *list = f->columns ? f->columns : &self;
    int parts = f->columns ? f->n_columns : 1;
    int64_t want = rt_field_elements(f), have = 0;
    for (int p = 0; p < parts; p++) {
        int first, last;
        if (!find_column(c, header, n, list[p].first, &first, e))
            return false;
        last = first;
        if (list[p].last && !find_column(c, header, n, list[p].last, &last, e))
            return false;
        if (last < first)
            return rt_err(e, "%s:%u: column \"%s\" comes after \"%s\"", c->stream.path, c->row_line,
                          list[p].first, list[p].last);
        for (int i = first; i <= last; i++, have++)
            if (have < want)
                out[have] = (Column){i, header[i]};
    }
    if (have != want)
        return rt_err(e, "%s:%u: %s takes %lld columns, but is declared with %lld elements",
                      c->stream.path, c->row_line, f->name, (long long)have, (long long)want);
    return true;
}

/* ---- cells to numbers ---- */

static bool bad_cell(Csv *c, const Column *column, const char *cell, const char *what, RtErr *e)
{
    char a[48], b[48];
    return rt_err(e, "%s:%u: column \"%s\": '%s' %s", c->stream.path, c->row_line,
                  shown(a, column->name), shown(b, cell), what);
}

static bool store_float(Csv *c, const Column *column, const char *cell, double v, MpcDType dtype,
                        unsigned char *out, RtErr *e)
{
    char what[RT_FAULT];
    return rt_store_float(v, dtype, out, what) || bad_cell(c, column, cell, what, e);
}

static bool store_integer(Csv *c, const Column *column, const char *cell, size_t length,
                          MpcDType dtype, unsigned char *out, RtErr *e)
{
    int64_t v;
    double wide;
    char what[RT_FAULT];
    if (rt_parse_int(cell, length, &v))
        return rt_store_integer(v, dtype, out, what) || bad_cell(c, column, cell, what, e);
    if (!rt_parse_double(cell, length, &wide))
        return bad_cell(c, column, cell, "is not a number", e);
    return rt_store_whole(wide, dtype, out, what) || bad_cell(c, column, cell, what, e);
}

static bool store_cell(Csv *c, const Column *column, MpcDType dtype, unsigned char *out, RtErr *e)
{
    const char *cell = c->text + c->cell[column->index];
    size_t length = strlen(cell);
    double v;
    if (strspn(cell, " \t") == length)
        return bad_cell(c, column, cell, "is empty: a number is missing", e);
    if (!rt_is_floating(dtype)) {
        if (dtype == MPC_DT_bool && (!strcmp(cell, "true") || !strcmp(cell, "false"))) {
            *out = cell[0] == 't';
            return true;
        }
        return store_integer(c, column, cell, length, dtype, out, e);
    }
    if (!rt_parse_double(cell, length, &v))
        return bad_cell(c, column, cell, "is not a number", e);
    return store_float(c, column, cell, v, dtype, out, e);
}

/* ---- tables ---- */

typedef struct Layout {
    int columns;      /* in the file */
    Column *of_field; /* all fields' columns, one after the other */
} Layout;

/* Reads the header and finds every field's columns in it. *names keeps the header's text. */
static bool read_layout(Csv *c, const MpcData *decl, Layout *layout, char **names,
                        const char ***header, RtErr *e)
{
    if (!read_row(c, e))
        return false;
    if (!c->cells)
        return rt_err(e, "'%s' is empty: not even a header", c->stream.path);
    *names = rt_alloc(c->used);
    *header = rt_alloc((size_t)c->cells * sizeof **header);
    memcpy(*names, c->text, c->used);
    for (int i = 0; i < c->cells; i++)
        (*header)[i] = trimmed(*names + c->cell[i]);
    layout->columns = c->cells;
    size_t total = 0;
    for (int i = 0; i < decl->n_fields; i++)
        total += (size_t)rt_field_elements(&decl->fields[i]);
    layout->of_field = rt_alloc(total * sizeof *layout->of_field);
    Column *at = layout->of_field;
    for (int i = 0; i < decl->n_fields; i++) {
        if (!resolve_field(c, *header, c->cells, &decl->fields[i], at, e))
            return false;
        at += rt_field_elements(&decl->fields[i]);
    }
    return true;
}

static bool resize(RtTable *t, int64_t rows, RtErr *e)
{
    for (int i = 0; i < t->decl->n_fields; i++) {
        unsigned char *p = realloc(t->column[i], (size_t)rows * t->stride[i] + 1);
        if (!p)
            return rt_err(e, "'%s': not enough memory for %lld rows", t->files[0], (long long)rows);
        t->column[i] = p;
    }
    uint32_t *lines = realloc(t->line, (size_t)rows * sizeof *lines + 1);
    if (!lines)
        return rt_err(e, "'%s': not enough memory for %lld rows", t->files[0], (long long)rows);
    t->line = lines;
    return true;
}

static bool store_row(RtTable *t, Csv *c, const Layout *layout, RtErr *e)
{
    if (c->cells != layout->columns)
        return rt_err(e, "%s:%u: the row has %d cells, the header %d columns", c->stream.path,
                      c->row_line, c->cells, layout->columns);
    const Column *column = layout->of_field;
    for (int i = 0; i < t->decl->n_fields; i++) {
        const MpcField *f = &t->decl->fields[i];
        unsigned char *out = t->column[i] + (size_t)t->rows * t->stride[i];
        size_t element = rt_dtype_bytes(f->dtype);
        for (int64_t k = rt_field_elements(f); k > 0; k--, out += element)
            if (!store_cell(c, column++, f->dtype, out, e))
                return false;
    }
    t->line[t->rows++] = c->row_line;
    return true;
}

static bool read_rows(RtTable *t, Csv *c, const Layout *layout, RtErr *e)
{
    int64_t cap = 0;
    for (;;) {
        if (!read_row(c, e))
            return false;
        if (!c->cells)
            break;
        if (t->rows == cap) {
            cap = cap ? cap + cap / 2 : FIRST_ROWS;
            if (!resize(t, cap, e))
                return false;
        }
        if (!store_row(t, c, layout, e))
            return false;
    }
    if (!t->rows)
        return rt_err(e, "'%s' is empty: it has a header but no rows", c->stream.path);
    return resize(t, t->rows, e);
}

bool rt_table_read_csv(RtTable *t, RtErr *e)
{
    Csv c;
    Layout layout = {0};
    char *names = NULL;
    const char **header = NULL;
    bool ok = open_csv(&c, t->files[0], t->decl->kind == MPC_DATA_tsv, e) &&
              read_layout(&c, t->decl, &layout, &names, &header, e) && read_rows(t, &c, &layout, e);
    close_csv(&c);
    free(layout.of_field);
    free(header);
    free(names);
    return ok;
}

bool rt_csv_rows(const char *path, bool tabs, int64_t *rows, RtErr *e)
{
    Csv c;
    *rows = -1;
    bool ok = open_csv(&c, path, tabs, e);
    while (ok) {
        ok = read_row(&c, e);
        if (ok && !c.cells)
            break;
        ++*rows;
    }
    close_csv(&c);
    if (*rows < 0)
        *rows = 0;
    return ok;
}
