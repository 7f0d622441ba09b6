/* print.c: the text form of modules and graphs; read.c is its inverse. Host programs: print_host.c.
 */
#include <inttypes.h>
#include <string.h>

#include "ir/base/strutil.h"
#include "ir/text_form.h"

const char *const graph_role_name[3] = {
    [GRAPH_Step] = "step", [GRAPH_Eval] = "eval", [GRAPH_Prepare] = "prepare"};
const char *const result_kind_name[RESULT_KINDS] = {[RESULT_Host] = "host",
                                                    [RESULT_State] = "state",
                                                    [RESULT_Field] = "field",
                                                    [RESULT_Print] = "print"};

enum { TYPE_COLUMN = 40, NOTES_COLUMN = 58 };

/* ---- names and places ------------------------------------------------------------------------ */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool text_plain_name(const char *s)
{
    static const char *const words[] = {
        "true",     "false", "and",    "or",       "not",      "if",      "else",
        "inf",      "nan",   "len",    "count",    "for",      "batches", "break",
        "continue", "call",  "log",    "schedule", "evaluate", "save",    "load",
        "limit",    "print", "return", "in",       "loc",      "with",    "measures"};
    if (s == NULL || !is_letter(*s)) {
        return false;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(s, words[i]) == 0) {
            return false;
        }
    }
    for (; *s != 0; s++) {
        if (!is_letter(*s) && !is_digit(*s) &&
            (*s != '.' || (!is_letter(s[1]) && !is_digit(s[1])))) {
            return false;
        }
    }
    return true;
}

static void text_string(Text *t, const char *s)
{
    text_quote(t, s, strlen(s));
}

void text_name(Text *t, const char *name)
{
    if (text_plain_name(name)) {
        text_puts(t, name);
        return;
    }
    text_putc(t, '$');
    text_string(t, name != NULL ? name : "");
}

static bool is_elsewhere(const Module *m, Loc loc)
{
    return m != NULL && loc.file != NULL && !str_eq(loc.file->path, m->source);
}

const char *line_text(Arena *arena, const Module *m, Loc loc)
{
    const char *file = is_elsewhere(m, loc) ? loc.file->path : "";
    return arena_printf(arena, "%s%s%d", file, *file != 0 ? ":" : "", loc.line);
}

const char *in_file_text(Arena *arena, const Module *m, Loc loc)
{
    return is_elsewhere(m, loc) ? arena_printf(arena, " in %s", loc.file->path) : "";
}

int own_line(const Module *m, Loc loc)
{
    return is_elsewhere(m, loc) ? 0 : loc.line;
}

void text_loc(Text *t, const Module *m, Loc loc)
{
    if (loc.line == 0) {
        return;
    }
    text_puts(t, " loc(");
    if (is_elsewhere(m, loc)) {
        text_string(t, loc.file->path);
        text_putc(t, ':');
    }
    text_printf(t, "%d", loc.line);
    if (loc.col != 0 || loc.len != 0) {
        text_printf(t, ":%d+%d", loc.col, loc.len);
    }
    text_putc(t, ')');
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void text_double(Text *t, double x)
{
    char buf[32];
    text_puts(t, str_double(buf, x));
}

static void text_attr(Text *t, const Module *m, const Attr *a)
{
    const AttrInfo *info = &attr_info[a->id];
    text_puts(t, info->name);
    if (info->type != AT_Bool) {
        text_putc(t, '=');
    }
    switch (info->type) {
    case AT_Int: text_printf(t, "%" PRId64, a->i); break;
    case AT_Float: text_double(t, a->f); break;
    case AT_Bool: break;
    case AT_Str: text_string(t, a->s != NULL ? a->s : ""); break;
    case AT_Dtype: text_puts(t, dtype_info[a->dtype].name); break;
    case AT_Expr: text_host_expr(t, m, a->expr); break;
    case AT_Ints:
        text_putc(t, '[');
        for (int i = 0; i < a->ints.n; i++) {
            text_printf(t, "%s%" PRId64, i > 0 ? "," : "", a->ints.v[i]);
        }
        text_putc(t, ']');
        break;
    case AT_Floats:
        text_putc(t, '[');
        for (int i = 0; i < a->floats.n; i++) {
            text_puts(t, i > 0 ? "," : "");
            text_double(t, a->floats.v[i]);
        }
        text_putc(t, ']');
        break;
    case AT_Strs:
        text_putc(t, '[');
        for (int i = 0; i < a->strs.n; i++) {
            text_puts(t, i > 0 ? ", " : "");
            text_string(t, a->strs.v[i]);
        }
        text_putc(t, ']');
        break;
    }
}

void text_attrs(Text *t, const Module *m, const Attrs *as)
{
    if (as->n == 0) {
        return;
    }
    text_puts(t, " {");
    for (int i = 0; i < as->n; i++) {
        text_puts(t, i > 0 ? ", " : "");
        text_attr(t, m, &as->v[i]);
    }
    text_putc(t, '}');
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* "f32[B,784]"; a scalar has no brackets. */
static void text_type(Text *t, const Graph *g, DType dt, const Dims *dims)
{
    text_puts(t, dtype_info[dt].name);
    if (dims->rank > 0) {
        text_printf(t, "[%s]", dims_text(t->arena, g, dims));
    }
}

/* A value that is not in the graph shows as %?, which no reader takes: only broken graphs have one.
 */
static void text_ref(Text *t, const Graph *g, const Node *n)
{
    if (n != NULL && n->id >= 0 && n->id < g->nnodes && g->nodes[n->id] == n) {
        text_printf(t, "%%%d", n->id);
    } else {
        text_puts(t, "%?");
    }
}

static void text_node(Text *t, const Module *m, const Graph *g, const Node *n)
{
    text_printf(t, "  %%%d = %s", n->id, op_info[n->op].name);
    for (int i = 0; i < n->nin; i++) {
        text_puts(t, i > 0 ? ", " : " ");
        text_ref(t, g, n->in[i]);
    }
    text_attrs(t, m, &n->attrs);
    text_pad(t, TYPE_COLUMN - 1);
    text_puts(t, " : ");
    text_type(t, g, n->dtype, &n->dims);
    if (n->name != NULL || n->loc.line != 0 || n->amp != DT_none || n->region != 0 || n->forced ||
        n->why != NULL) {
        text_pad(t, NOTES_COLUMN);
    }
    text_loc(t, m, n->loc);
    if (n->name != NULL) {
        text_puts(t, " name(");
        text_string(t, n->name);
        text_putc(t, ')');
    }
    if (n->amp != DT_none) {
        text_printf(t, " amp(%s)", dtype_info[n->amp].name);
    }
    if (n->region != 0) {
        text_printf(t, " checkpoint(%d)", n->region);
    }
    text_puts(t, n->forced ? " forced" : "");
    if (n->why != NULL) {
        text_puts(t, " why(");
        text_string(t, n->why);
        text_putc(t, ')');
    }
    text_putc(t, '\n');
}

/*   print "h" print.0 shape[B,512] size[B] loc(..) */
static void text_print(Text *t, const Module *m, const Graph *g, const Print *p)
{
    text_puts(t, "  print");
    for (int i = 0; i < p->nparts; i++) {
        const PrintPart *part = &p->parts[i];
        text_putc(t, ' ');
        if (part->text != NULL) {
            text_quote(t, part->text, strlen(part->text));
        } else if (part->result != NULL) {
            text_name(t, part->result);
        } else {
            text_printf(t, "%s[%s]", part->bare ? "size" : "shape",
                        dims_text(t->arena, g, &part->dims));
        }
    }
    text_loc(t, m, p->loc);
    text_putc(t, '\n');
}

static void text_graph(Text *t, const Module *m, const Graph *g)
{
    for (int i = 0; i < g->nnodes; i++) {
        g->nodes[i]->id = i;
    }
    text_puts(t, "graph @");
    text_name(t, g->name);
    text_printf(t, " %s", graph_role_name[g->role]);
    for (int i = 0; i < g->nsyms; i++) {
        text_puts(t, i > 0 ? ", " : "(");
        text_name(t, g->syms[i].name);
        text_printf(t, " <= %" PRId64, g->syms[i].bound);
        if (g->syms[i].multiple_of != 1) {
            text_printf(t, " %% %d", g->syms[i].multiple_of);
        }
    }
    text_puts(t, g->nsyms > 0 ? ")" : "");
    text_loc(t, m, g->loc);
    text_puts(t, " {\n");
    for (int i = 0; i < g->nnodes; i++) {
        text_node(t, m, g, g->nodes[i]);
    }
    for (int i = 0; i < g->nresults; i++) {
        const Result *r = &g->results[i];
        text_printf(t, "  return %s ", result_kind_name[r->kind]);
        text_name(t, r->name);
        text_puts(t, " = ");
        text_ref(t, g, r->value);
        text_putc(t, '\n');
    }
    for (int i = 0; i < g->nprints; i++) {
        text_print(t, m, g, &g->prints[i]);
    }
    text_puts(t, "}\n");
}

/* ---- modules --------------------------------------------------------------------------------- */

static void text_decl(Text *t, const Module *m, const Decl *d)
{
    text_printf(t, "%s ", decl_name[d->kind]);
    text_name(t, d->name);
    text_attrs(t, m, &d->attrs);
    if (d->nvalues > 0) {
        text_puts(t, " values(");
        for (int i = 0; i < d->nvalues; i++) {
            text_puts(t, i > 0 ? ", " : "");
            text_host_expr(t, m, d->values[i]);
        }
        text_putc(t, ')');
    }
    text_loc(t, m, d->loc);
    text_putc(t, '\n');
}

static void text_tensor(Text *t, const Module *m, const Tensor *x)
{
    static const Graph no_symbols;
    text_puts(t, "tensor ");
    text_name(t, x->name);
    text_puts(t, " : ");
    text_type(t, &no_symbols, x->dtype, &x->dims);
    text_printf(t, " %s", tensor_role_name[x->role]);
    text_attrs(t, m, &x->init);
    if (x->of != NULL) {
        text_puts(t, " of(");
        text_name(t, x->of);
        text_putc(t, ')');
    }
    text_loc(t, m, x->loc);
    text_putc(t, '\n');
}

static void text_module(Text *t, const Module *m)
{
    text_printf(t, "mpc-ir %d after ", TEXT_FORM_VERSION);
    text_name(t, m->last_pass);
    text_puts(t, "\nmodule ");
    text_name(t, m->name);
    text_puts(t, " source(");
    text_string(t, m->source);
    text_putc(t, ')');
    if (m->precision != DT_none) {
        text_printf(t, " precision(%s)", dtype_info[m->precision].name);
    }
    if (m->memory > 0) {
        text_printf(t, " memory(%lld)", (long long)m->memory);
        text_loc(t, m, m->memory_loc);
    }
    text_puts(t, "\n");
    for (int i = 0; i < m->ndecls; i++) {
        text_puts(t, i == 0 ? "\n" : "");
        text_decl(t, m, m->decls[i]);
    }
    for (int i = 0; i < m->ntensors; i++) {
        text_puts(t, i == 0 ? "\n" : "");
        text_tensor(t, m, m->tensors[i]);
    }
    for (int i = 0; i < m->nvars; i++) {
        text_puts(t, i == 0 ? "\nvar " : "var ");
        text_name(t, m->vars[i].name);
        text_printf(t, " : %s\n", host_type_name[m->vars[i].type]);
    }
    for (int i = 0; i < m->ngraphs; i++) {
        text_putc(t, '\n');
        text_graph(t, m, m->graphs[i]);
    }
    text_putc(t, '\n');
    text_host_program(t, m);
}

void module_print(FILE *out, const Module *m)
{
    Arena *scratch = arena_new();
    Text *t = text_new(scratch);
    text_module(t, m);
    text_write(t, out);
    arena_free(scratch);
}

void graph_print(FILE *out, const Graph *g)
{
    Arena *scratch = arena_new();
    Text *t = text_new(scratch);
    text_graph(t, NULL, g);
    text_write(t, out);
    arena_free(scratch);
}
