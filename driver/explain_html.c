/* explain_html.c: --explain=html: one page with the model as a graph, its ops coloured by type; each says why, from
 * which line it comes and which kernels it became. The page draws itself from the JSON that is put into it
 * (explain_page/explain.js). */
#include <string.h>

#include "driver/explain.h"
#include "driver/explain_page.h"
#include "ir/base/strutil.h"

struct ExplainPage {
    Text *text; /* the JSON so far */
};

static void json_text(Text *t, const char *s)
{
    s = s != NULL ? s : "";
    text_quote_json(t, s, strlen(s));
}

static void member(Text *t, const char *key, const char *value)
{
    text_printf(t, ", \"%s\": ", key);
    json_text(t, value);
}

/* ---- ops ------------------------------------------------------------------------------------------- */

typedef enum Part { PART_none, PART_op, PART_cast, PART_move, PART_input, PART_param } Part;

static const char *const part_name[] = {
    [PART_op] = "op",       [PART_cast] = "cast",   [PART_move] = "move",
    [PART_input] = "input", [PART_param] = "param", [PART_none] = ""};

/* What a node is on the page; backward, update and constants are no part of it. */
static Part part_of(const Node *n)
{
    OpKind kind = op_info[n->op].kind;
    bool later =
        n->why != NULL && (str_starts(n->why, WHY_BACKWARD) || str_starts(n->why, WHY_UPDATE));
    if (n->op == OP_arg) {
        bool lasts =
            attrs_str(&n->attrs, ATTR_param) != NULL || attrs_str(&n->attrs, ATTR_state) != NULL;
        return lasts                                      ? PART_param
               : attrs_str(&n->attrs, ATTR_batch) != NULL ? PART_input
                                                          : PART_none;
    }
    return explain_is_cast(n)                              ? PART_cast
           : explain_shows(n)                              ? PART_op
           : !later && kind == KIND_Move && n->why != NULL ? PART_move
                                                           : PART_none;
}

/* Working copies have no name of their own. */
static const char *node_name(const Node *n)
{
    const char *state = n->op == OP_arg ? attrs_str(&n->attrs, ATTR_state) : NULL;
    return n->name != NULL || state == NULL ? n->name : state;
}

static void op(Text *t, const Module *m, const Graph *g, const Node *n, Part part)
{
    DType from = explain_from(n);
    text_printf(t, "{\"id\": %d, \"part\": \"%s\", \"line\": %d, \"col\": %d", n->id,
                part_name[part], own_line(m, n->loc), n->loc.col);
    member(t, "op", op_info[n->op].name);
    member(t, "name", node_name(n));
    member(t, "type", dtype_info[n->dtype].name);
    member(t, "from", from != DT_none ? dtype_info[from].name : "");
    member(t, "class", part == PART_op ? explain_class(n) : "");
    member(t, "why", n->why);
    member(t, "shape", dims_text(t->arena, g, &n->dims));
    text_puts(t, ", \"in\": [");
    const char *sep = "";
    for (int i = 0; i < n->nin; i++) {
        if (part_of(n->in[i]) != PART_none) {
            text_printf(t, "%s%d", sep, n->in[i]->id);
            sep = ", ";
        }
    }
    text_puts(t, "]}");
}

static void graph(Text *t, const Module *m, const Graph *g)
{
    const char *sep = "\n  ";
    text_puts(t, "{\"name\": ");
    json_text(t, g->name);
    text_puts(t, ", \"ops\": [");
    for (int i = 0; i < g->nnodes; i++) {
        Part part = part_of(g->nodes[i]);
        if (part != PART_none) {
            text_puts(t, sep);
            op(t, m, g, g->nodes[i], part);
            sep = ",\n  ";
        }
    }
    text_puts(t, "]}");
}

/* ---- what the graphs refer to ----------------------------------------------------------------------- */

static void modules(Text *t, const Module *m)
{
    const char *sep = "";
    text_puts(t, ",\n\"modules\": [");
    for (int i = 0; i < m->ndecls; i++) {
        if (m->decls[i]->kind == DECL_layer && m->decls[i]->name[0] != 0) {
            text_puts(t, sep);
            json_text(t, m->decls[i]->name);
            sep = ", ";
        }
    }
    text_puts(t, "]");
}

/* The file's lines, where the nodes know it. */
static void source(Text *t, const Module *m)
{
    const SourceFile *file = NULL;
    for (int i = 0; i < m->ngraphs && file == NULL; i++) {
        for (int k = 0; k < m->graphs[i]->nnodes && file == NULL; k++) {
            const Loc at = m->graphs[i]->nodes[k]->loc;
            file = own_line(m, at) > 0 ? at.file : NULL;
        }
    }
    text_puts(t, ",\n\"source\": [");
    for (int i = 0; file != NULL && file->text != NULL && i < file->lines; i++) {
        const char *line = file->text + file->line[i];
        text_puts(t, i > 0 ? ",\n  " : "\n  ");
        text_quote_json(t, line, strcspn(line, "\n\r"));
    }
    text_puts(t, "]");
}

ExplainPage *explain_page(Arena *arena, const Module *m, const PassCounts *counts)
{
    ExplainPage *page = ARENA_NEW(arena, ExplainPage);
    Text *t = page->text = text_new(arena), *said = text_new(arena);
    text_puts(t, "{\"program\": ");
    json_text(t, m->name);
    member(t, "file", m->source);
    explain_head(said, m);
    member(t, "head", arena_strndup(arena, said->at, said->n - 1)); /* without its newline */
    said = text_new(arena);
    explain_totals(said, m, counts);
    member(t, "totals", arena_strndup(arena, said->at, said->n - 1));
    modules(t, m);
    source(t, m);
    text_puts(t, ",\n\"graphs\": [");
    const char *sep = "\n";
    for (int i = 0; i < m->ngraphs; i++) {
        if (explain_graph(m, m->graphs[i])) {
            text_puts(t, sep);
            graph(t, m, m->graphs[i]);
            sep = ",\n";
        }
    }
    text_puts(t, "]");
    return page;
}

/* ---- kernels ---------------------------------------------------------------------------------------- */

/* "24:9": where in the source the kernel's scalars come from, each place once. */
static void places(Text *t, const Kernel *k)
{
    const char *sep = "";
    text_puts(t, ", \"places\": [");
    for (int i = 0; i < k->nscalars; i++) {
        Loc at = k->scalars[i].loc;
        bool seen = at.line == 0;
        for (int j = 0; j < i && !seen; j++) {
            seen = k->scalars[j].loc.line == at.line && k->scalars[j].loc.col == at.col;
        }
        if (!seen) {
            text_printf(t, "%s\"%d:%d\"", sep, at.line, at.col);
            sep = ", ";
        }
    }
    text_puts(t, "]");
}

static void kernel(Text *t, const Kernel *k, const char *text)
{
    text_puts(t, "{\"name\": ");
    json_text(t, k->name);
    text_printf(t, ", \"line\": %d, \"flops\": %.0f, \"bytes\": %.0f", k->loc.line, k->flops,
                k->bytes);
    member(t, "what", k->what);
    member(t, "why", k->why);
    places(t, k);
    member(t, "text", text);
    text_puts(t, "}");
}

/* No "</" ends the element that the data stand in. */
static void write_data(FILE *out, const Text *t)
{
    for (size_t i = 0; i < t->n; i++) {
        if (t->at[i] == '<') {
            fputs("\\u003c", out);
        } else {
            fputc(t->at[i], out);
        }
    }
}

void explain_page_write(FILE *out, ExplainPage *page, const Plan *plan, const char *const *texts)
{
    Text *t = page->text;
    const char *sep = "\n";
    text_puts(t, ",\n\"kernels\": [");
    for (int i = 0; i < plan->nkernels; i++) {
        if (texts[i] != NULL) {
            text_puts(t, sep);
            kernel(t, plan->kernels[i], texts[i]);
            sep = ",\n";
        }
    }
    text_puts(t, "]}");
    fwrite(explain_page_head, 1, explain_page_head_size, out);
    write_data(out, t);
    fwrite(explain_page_tail, 1, explain_page_tail_size, out);
}
