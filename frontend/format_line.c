/* format_line.c: a statement as text: where spaces stand, and where it breaks when it is too long.
 *
 * It breaks after a comma of the outermost bracket that does not fit, before `->`, and after
 * operators where an element alone is too long; what follows stands below the first element. A
 * comma before the closing bracket asks for one element a line.
 */
#include "frontend/format.h"

#include <string.h>

#include "ir/base/strutil.h"
#include "parser.h"

enum { DEEPEST = 60 }; /* column behind which a bracket's elements go back to the left */

static bool opens(int kind)
{
    return kind == '(' || kind == '[';
}

static bool closes(int kind)
{
    return kind == ')' || kind == ']';
}

static bool ends_operand(int kind)
{
    return token_ends_operand(kind) || kind == T_ELLIPSIS;
}

/* How weakly an operator binds, 1 the weakest; 0: a line never breaks after it. */
static int looseness(int kind)
{
    switch (kind) {
    case T_OR: return 1;
    case T_AND: return 2;
    case T_EQ:
    case T_NE:
    case '<':
    case T_LE:
    case '>':
    case T_GE: return 3;
    case '+':
    case '-': return 4;
    case '*':
    case '/':
    case T_FDIV:
    case '%':
    case '@': return 5;
    default: return 0;
    }
}

int format_width(const char *text, int size)
{
    int width = 0;
    for (int i = 0; i < size; i++)
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

/* ---- spaces ---- */

static bool is_unary(const Word *w, int i)
{
    return w[i].kind == '-' && (i == 0 || !ends_operand(w[i - 1].kind));
}

static bool space_before(const Word *w, int i, int bracket)
{
    int kind = w[i].kind, last = w[i - 1].kind;
    if (closes(kind) || kind == ',' || kind == '.' || kind == T_SUFFIX)
        return false;
    if (last == ',')
        return true;
    if (kind == ':')
        return false;
    if (opens(last) || last == '.' || is_unary(w, i - 1))
        return false;
    if (kind == T_DOTDOT || last == T_DOTDOT || (last == '{' && kind == '}'))
        return false;
    if (last == ':')
        return bracket != '[';
    if (opens(kind))
        return last != T_EVALUATE && (!ends_operand(last) || last == T_NUMBER);
    return true;
}

void format_space(Word *w, int n)
{
    char open[AST_MAX_DEPTH + 1];
    int depth = 0, at = 0;
    for (int i = 0; i < n; i++) {
        if (closes(w[i].kind) && depth > 0)
            depth--;
        w[i].spaced = i > 0 && space_before(w, i, depth > 0 ? open[depth - 1] : 0);
        at += w[i].spaced + w[i].pad;
        w[i].at = at;
        at += w[i].width;
        if (opens(w[i].kind) && depth < AST_MAX_DEPTH)
            open[depth++] = (char)w[i].kind;
    }
}

/* ---- breaks ---- */

typedef struct Group {
    int column;    /* where its elements begin */
    int base;      /* indentation of the line it was opened in */
    int end;       /* word that closes it */
    bool one_each; /* a comma before its end */
    int loosest;   /* the operator after which the element at hand may break; 0: none */
} Group;

typedef struct Writer {
    Text *out;
    const Word *w;
    int n;
    int column;        /* of the next character */
    int indent;        /* of the line being written */
    const int *closer; /* of each word that opens a bracket */
    Group *group;      /* those open, the statement itself first */
    int depth;
} Writer;

/* Columns of words [from, to) in one piece. */
static int width(const Word *w, int from, int to)
{
    return to > from ? w[to - 1].at + w[to - 1].width - w[from].at : 0;
}

static void line_break(Writer *t, int column)
{
    text_putc(t->out, '\n');
    for (int i = 0; i < column; i++)
        text_putc(t->out, ' ');
    t->column = t->indent = column;
}

/* The word behind the element that begins at `from`, in the group that ends at `end`. */
static int element_end(const Writer *t, int from, int end)
{
    int i = from;
    while (i < end && t->w[i].kind != ',')
        i = opens(t->w[i].kind) ? t->closer[i] + 1 : i + 1;
    return i < end ? i + 1 : i;
}

/* The word behind the next operator of the element that may break it, or the end of the element. */
static int part_end(const Writer *t, int from, int end, int loosest)
{
    int i = from;
    while (i < end) {
        if (looseness(t->w[i].kind) == loosest && !is_unary(t->w, i))
            return i + 1;
        i = opens(t->w[i].kind) ? t->closer[i] + 1 : i + 1;
    }
    return end;
}

/* The weakest operator of words [from, end) outside their brackets. */
static int loosest_of(const Writer *t, int from, int end)
{
    int least = 0;
    for (int i = from; i < end;) {
        int l = is_unary(t->w, i) ? 0 : looseness(t->w[i].kind);
        least = l > 0 && (least == 0 || l < least) ? l : least;
        i = opens(t->w[i].kind) ? t->closer[i] + 1 : i + 1;
    }
    return least;
}

/* Columns of what stands glued behind the group's end: `)` and what no line may break before. */
static int tail(const Writer *t, int end)
{
    int i = end;
    while (i < t->n && (closes(t->w[i].kind) || t->w[i].kind == ',' || t->w[i].kind == '{'))
        i++;
    return i > end ? width(t->w, end, i) : 0;
}

static void begin_element(Writer *t, int from)
{
    Group *g = &t->group[t->depth];
    int end = element_end(t, from, g->end);
    int rest = end == g->end ? tail(t, g->end) : 0;
    bool fits = g->column + width(t->w, from, end) + rest <= FORMAT_COLUMNS;
    g->loosest = fits ? 0 : loosest_of(t, from, end);
}

static void open_group(Writer *t, int opener)
{
    int end = t->closer[opener];
    Group *g = &t->group[++t->depth];
    *g = (Group){.column = t->column, .base = t->indent, .end = end};
    g->one_each = t->w[end - 1].kind == ',' && end - opener > 2;
    int widest = 0;
    for (int i = opener + 1; i < end;) {
        int next = element_end(t, i, end), cols = width(t->w, i, next);
        widest = cols > widest ? cols : widest;
        i = next;
    }
    bool whole = t->column + width(t->w, opener + 1, end) + tail(t, end) <= FORMAT_COLUMNS;
    if (g->one_each) {
        g->column = t->indent + FORMAT_INDENT;
        line_break(t, g->column);
    } else if (!whole && end > opener + 1 &&
               (g->column > DEEPEST || g->column + widest > FORMAT_COLUMNS) &&
               t->indent + FORMAT_INDENT + widest < g->column + widest) {
        g->column = t->indent + FORMAT_INDENT;
        line_break(t, g->column);
    }
    begin_element(t, opener + 1);
}

/* Is there to be a line break before word i? */
static bool breaks_before(Writer *t, int i)
{
    Group *g = &t->group[t->depth];
    int last = t->w[i - 1].kind;
    if (t->w[i].kind == T_ARROW && t->depth == 0)
        return width(t->w, 0, t->n) + t->group[0].base > FORMAT_COLUMNS;
    if (last == '=' && t->depth == 0)
        return t->column > DEEPEST && t->column + 1 + width(t->w, i, t->n) > FORMAT_COLUMNS;
    if (last == ',' && i <= g->end) {
        begin_element(t, i);
        if (i == g->end)
            return false;
        int end = element_end(t, i, g->end), rest = end == g->end ? tail(t, g->end) : 0;
        int at = t->column + t->w[i].spaced + width(t->w, i, end) + rest;
        return g->one_each || (at > FORMAT_COLUMNS && t->depth > 0);
    }
    if (g->loosest > 0 && looseness(last) == g->loosest && !is_unary(t->w, i - 1)) {
        int end = element_end(t, i, g->end), part = part_end(t, i, end, g->loosest);
        return t->column + t->w[i].spaced + width(t->w, i, part) > FORMAT_COLUMNS;
    }
    return false;
}

static void write_comments(Writer *t, const Word *w)
{
    int column = t->group[t->depth].column;
    for (int i = 0; i < w->ncomments; i++) {
        const AstComment *c = w->comments[i];
        if (c->alone)
            line_break(t, column);
        text_printf(t->out, "%s%s", c->alone ? "" : "  ", c->text);
    }
    line_break(t, column);
}

static const int *closers(Arena *a, const Word *w, int n)
{
    int *closer = ARENA_ARRAY(a, int, n + 1), *open = ARENA_ARRAY(a, int, n + 1);
    int depth = 0;
    for (int i = 0; i < n; i++) {
        if (opens(w[i].kind))
            open[depth++] = i;
        else if (closes(w[i].kind) && depth > 0)
            closer[open[--depth]] = i;
    }
    return closer;
}

/* Where what a statement breaks into begins: behind its `=`, or one level in. */
static int hanging_column(const Word *w, int n, int indent)
{
    if (n > 0 && w[0].kind == '}') /* before an else */
        return indent;
    int depth = 0;
    for (int i = 0; i + 1 < n; i++) {
        depth += opens(w[i].kind) - closes(w[i].kind);
        if (w[i].kind == '=' && depth == 0 && indent + w[i].at < DEEPEST)
            return indent + w[i + 1].at;
    }
    return indent + 2 * FORMAT_INDENT;
}

void format_words(Text *out, Arena *a, const Word *w, int n, int indent)
{
    Writer t = {.out = out, .w = w, .n = n, .column = indent, .indent = indent};
    t.closer = closers(a, w, n);
    t.group = ARENA_ARRAY(a, Group, n + 2);
    t.group[0] = (Group){.column = hanging_column(w, n, indent), .base = indent, .end = n};
    if (width(w, 0, n) + indent > FORMAT_COLUMNS)
        t.group[0].loosest = loosest_of(&t, 0, n);
    for (int i = 0; i < n; i++) {
        bool fresh = i == 0 || w[i - 1].ncomments > 0;
        if (closes(w[i].kind) && t.depth > 0) {
            Group *g = &t.group[t.depth--];
            if (g->one_each) {
                line_break(&t, g->base);
                fresh = true;
            }
        } else if (i > 0 && !opens(w[i - 1].kind) && breaks_before(&t, i) && !fresh) {
            Group *g = &t.group[t.depth];
            int base = t.depth > 0 ? g->column : t.group[0].column;
            line_break(&t, base);
            fresh = true;
        }
        bool behind_open = i > 0 && opens(w[i - 1].kind);
        int spaces = fresh || behind_open ? 0 : w[i].spaced + w[i].pad;
        for (int s = 0; s < spaces; s++)
            text_putc(out, ' ');
        text_putn(out, w[i].text, (size_t)w[i].size);
        t.column += spaces + w[i].width;
        if (opens(w[i].kind))
            open_group(&t, i);
        if (w[i].ncomments > 0)
            write_comments(&t, &w[i]);
    }
}
