/* format.c: the canonical layout of a .mpt file (mpc fmt, --emit=loop).
 *
 * Works on tokens, so that what a file says cannot change: spaces, line ends and indentation are
 * made anew, comments, blank lines (one at most), the spelling of numbers and strings and brackets
 * stay. A block stays on one line if it is so written, is one statement, and fits. `=` of
 * neighbouring assignments stand below each other, and so do the comments behind them.
 * How a line is spaced and broken is in format_line.c.
 */
#include "frontend/format.h"

#include <string.h>

#include "frontend/frontend.h"
#include "frontend/parse.h"
#include "parser.h"

/* Assignments are aligned where their names differ by no more than this; keys of a trainer always. */
enum { ALIGN_MOST = 8 };

/* A line of the result, before it is broken: words, or only a comment. */
typedef struct Line {
    WordVec words;
    const AstComment *comment; /* behind the words, or alone */
    int level;
    int first_line, last_line; /* of the source */
    bool blank_before;
    bool in_trainer;
    const char *text; /* as written */
    size_t size;
} Line;

typedef VEC(Line) LineVec;

typedef struct Block {
    bool inlined, trainer;
} Block;

typedef struct Format {
    Arena *arena;
    const SourceFile *source;
    TokenVec tokens;
    const AstFile *file; /* its comments */
    int comment;         /* the next of them */
    LineVec lines;
    Line now; /* the line being filled */
    int level;
    VEC(Block) blocks;
} Format;

/* ---- words ---- */

static const char *source_at(const Format *f, Loc loc)
{
    return f->source->text + f->source->line[loc.line - 1] + loc.col - 1;
}

static Word word_of(const Format *f, const Token *t)
{
    Word w = {.kind = t->kind, .text = source_at(f, t->loc), .size = t->loc.len};
    if (t->kind == T_BATCH) { /* two words, however far apart */
        w.text = "batch of";
        w.size = (int)strlen(w.text);
    }
    w.width = format_width(w.text, w.size);
    return w;
}

/* Line of the source on which token t ends; only `batch of` may span lines. */
static int last_line_of(const Format *f, const Token *t)
{
    int line = t->loc.line;
    const char *text = source_at(f, t->loc);
    for (int i = 0; t->kind == T_BATCH && i < t->loc.len; i++)
        line += text[i] == '\n';
    return line;
}

static bool comment_is_before(const Format *f, const Token *t)
{
    if (f->comment >= f->file->comments.n)
        return false;
    const AstComment *c = &f->file->comments.at[f->comment];
    return c->line < t->loc.line;
}

static bool is_blank_line(const SourceFile *s, int line)
{
    size_t at = s->line[line - 1], end = line < s->lines ? s->line[line] : s->size;
    while (at < end && strchr(" \t\r\n", s->text[at]))
        at++;
    return at == end;
}

/* ---- lines ---- */

static void end_line(Format *f)
{
    Line *l = &f->now;
    if (!l->words.n && !l->comment)
        return;
    const Line *before = f->lines.n ? &vec_last(&f->lines) : NULL;
    bool opened = before && before->words.n && vec_last(&before->words).kind == '{';
    bool closing = l->words.n && l->words.at[0].kind == '}';
    l->blank_before = before && !opened && !closing && l->first_line > before->last_line + 1 &&
                      is_blank_line(f->source, l->first_line - 1);
    vec_push(f->arena, &f->lines, *l);
    f->now = (Line){0};
}

static void alone(Format *f, const AstComment *c)
{
    end_line(f);
    f->now = (Line){.comment = c, .level = f->level, .first_line = c->line, .last_line = c->line};
    f->now.in_trainer = f->blocks.n && vec_last(&f->blocks).trainer;
    end_line(f);
}

/* A comment in the middle of a statement belongs to the word before it. */
static void inside(Format *f, const AstComment *c)
{
    Word *w = &vec_last(&f->now.words);
    const AstComment **all = ARENA_ARRAY(f->arena, const AstComment *, w->ncomments + 1);
    for (int i = 0; i < w->ncomments; i++)
        all[i] = w->comments[i];
    all[w->ncomments++] = c;
    w->comments = all;
    f->now.last_line = c->line;
}

static void take_comments(Format *f, const Token *before)
{
    while (comment_is_before(f, before)) {
        const AstComment *c = &f->file->comments.at[f->comment++];
        if (f->now.words.n)
            inside(f, c);
        else if (!c->alone && f->lines.n && vec_last(&f->lines).last_line == c->line &&
                 !vec_last(&f->lines).comment)
            vec_last(&f->lines).comment = c;
        else
            alone(f, c);
    }
}

static void add_word(Format *f, const Token *t)
{
    Line *l = &f->now;
    if (!l->words.n) {
        l->level = f->level;
        l->first_line = t->loc.line;
        l->in_trainer = f->blocks.n && vec_last(&f->blocks).trainer;
    }
    l->last_line = last_line_of(f, t);
    Word w = word_of(f, t);
    vec_push(f->arena, &l->words, w);
}

/* ---- blocks ---- */

/* The token that closes the block opened at `open`. */
static int block_end(const Format *f, int open)
{
    int depth = 0;
    for (int i = open;; i++) {
        depth += f->tokens.at[i].kind == '{';
        depth -= f->tokens.at[i].kind == '}';
        if (depth == 0)
            return i;
    }
}

/* Columns of the statement of which token `open` opens a block, in one line. */
static int statement_width(const Format *f, int open)
{
    WordVec words = f->now.words;
    int depth = 0;
    WordVec all = {0};
    for (int i = 0; i < words.n; i++)
        vec_push(f->arena, &all, words.at[i]);
    for (int i = open; f->tokens.at[i].kind; i++) {
        const Token *t = &f->tokens.at[i];
        depth += t->kind == '{';
        depth -= t->kind == '}';
        if (t->kind == T_NEWLINE && depth == 0)
            break;
        if (t->kind == T_NEWLINE)
            continue;
        Word w = word_of(f, t);
        vec_push(f->arena, &all, w);
    }
    format_space(all.at, all.n);
    return vec_last(&all).at + vec_last(&all).width + f->level * FORMAT_INDENT;
}

/* As it is written: on one line, one statement without a block, no comment. */
static bool stays_inline(const Format *f, int open)
{
    int end = block_end(f, open), statements = 0;
    if (f->tokens.at[open].loc.line != f->tokens.at[end].loc.line)
        return false;
    for (int i = open + 1; i < end; i++) {
        int kind = f->tokens.at[i].kind, next = f->tokens.at[i + 1].kind;
        if (kind == '{' || (kind == ',' && (next == ')' || next == ']')))
            return false;
        statements += f->tokens.at[i].kind == T_NEWLINE;
    }
    for (int i = 0; i < f->now.words.n; i++)
        if (f->now.words.at[i].ncomments)
            return false;
    bool declares = f->now.words.n &&
                    (f->now.words.at[0].kind == T_MODULE || f->now.words.at[0].kind == T_TRAINER);
    return statements <= 1 && (!declares || statements == 0) &&
           statement_width(f, open) <= FORMAT_COLUMNS;
}

static void open_block(Format *f, int at)
{
    Block b = {.inlined = stays_inline(f, at)};
    b.trainer = f->now.words.n && f->now.words.at[0].kind == T_TRAINER;
    add_word(f, &f->tokens.at[at]);
    vec_push(f->arena, &f->blocks, b);
    if (!b.inlined) {
        end_line(f);
        f->level++;
    }
}

static void close_block(Format *f, const Token *t)
{
    Block b = vec_pop(&f->blocks);
    if (!b.inlined) {
        end_line(f);
        f->level--;
    }
    add_word(f, t);
}

static void make_lines(Format *f)
{
    for (int i = 0; i < f->tokens.n; i++) {
        const Token *t = &f->tokens.at[i];
        bool inlined = f->blocks.n && vec_last(&f->blocks).inlined;
        if (t->kind == T_NEWLINE) {
            if (!inlined)
                end_line(f);
            continue;
        }
        take_comments(f, t);
        if (t->kind == '{')
            open_block(f, i);
        else if (t->kind == '}')
            close_block(f, t);
        else if (t->kind)
            add_word(f, t);
    }
    end_line(f);
    while (f->comment < f->file->comments.n) {
        Token end = {.loc = {.line = f->source->lines + 2}};
        take_comments(f, &end);
    }
}

/* ---- what stands below each other ---- */

/* The `=` of `name = ...`, `option name = ...`, `data name = ...`; -1: another statement. */
static int equals_of(const Line *l)
{
    const WordVec *w = &l->words;
    int name = w->n && (w->at[0].kind == T_OPTION || w->at[0].kind == T_DATA);
    bool assigns = w->n > name + 2 && w->at[name].kind == T_NAME && w->at[name + 1].kind == '=';
    return assigns && vec_last(w).kind != '{' ? name + 1 : -1;
}

static bool goes_on(const Line *first, const Line *l)
{
    return l->level == first->level && !l->blank_before && equals_of(l) > 0 &&
           l->words.at[0].kind == first->words.at[0].kind;
}

/* Lines from `from` on whose `=` are aligned; returns the one behind them. */
static int align_run(Format *f, int from)
{
    Line *first = &f->lines.at[from];
    int least = 1 << 20, most = 0, to = from;
    for (; to < f->lines.n; to++) {
        const Line *l = &f->lines.at[to];
        if (first->in_trainer && !l->words.n && !l->blank_before)
            continue;
        if (to > from && !goes_on(first, l))
            break;
        int at = l->words.at[equals_of(l)].at;
        int lo = at < least ? at : least, hi = at > most ? at : most;
        if (!first->in_trainer && hi - lo > ALIGN_MOST)
            break;
        least = lo;
        most = hi;
    }
    for (int i = from; i < to; i++) {
        Line *l = &f->lines.at[i];
        if (l->words.n) {
            Word *equals = &l->words.at[equals_of(l)];
            equals->pad = most - equals->at;
            format_space(l->words.at, l->words.n);
        }
    }
    return to;
}

static void align_equals(Format *f)
{
    for (int i = 0; i < f->lines.n; i++)
        format_space(f->lines.at[i].words.at, f->lines.at[i].words.n);
    for (int i = 0; i < f->lines.n;)
        i = equals_of(&f->lines.at[i]) > 0 ? align_run(f, i) : i + 1;
}

/* Columns of the last line of l's text. */
static int last_width(const Line *l)
{
    size_t at = l->size;
    while (at > 0 && l->text[at - 1] != '\n')
        at--;
    return format_width(l->text + at, (int)(l->size - at));
}

/* The column of the comments of lines from `from` on, and the line behind them. */
static int comment_column(const Format *f, int from, int *to)
{
    int column = 0;
    for (*to = from; *to < f->lines.n; (*to)++) {
        const Line *l = &f->lines.at[*to];
        if (!l->words.n || !l->comment || (*to > from && l->blank_before))
            break;
        int width = last_width(l);
        column = width > column ? width : column;
    }
    return column + 2;
}

/* ---- the text ---- */

static void write_lines(Format *f, Text *out)
{
    for (int i = 0; i < f->lines.n; i++) {
        Line *l = &f->lines.at[i];
        Text *t = text_new(f->arena);
        for (int s = 0; s < l->level * FORMAT_INDENT; s++)
            text_putc(t, ' ');
        format_words(t, f->arena, l->words.at, l->words.n, l->level * FORMAT_INDENT);
        l->text = t->at;
        l->size = t->n;
    }
    int run_end = 0, column = 0;
    for (int i = 0; i < f->lines.n; i++) {
        const Line *l = &f->lines.at[i];
        if (i >= run_end && l->words.n && l->comment)
            column = comment_column(f, i, &run_end);
        text_puts(out, l->blank_before ? "\n" : "");
        text_putn(out, l->text, l->size);
        if (l->comment) {
            for (int s = l->words.n ? last_width(l) : column; s < column; s++)
                text_putc(out, ' ');
            text_puts(out, l->comment->text);
        }
        text_putc(out, '\n');
    }
}

bool frontend_format(Arena *a, Diag *d, const SourceFile *source, Text *out)
{
    TokenVec tokens;
    const AstFile *file = parse_tokens(a, d, source, &tokens);
    if (diag_failed(d))
        return false;
    Format f = {.arena = a, .source = source, .tokens = tokens, .file = file};
    make_lines(&f);
    align_equals(&f);
    write_lines(&f, out);
    return true;
}
