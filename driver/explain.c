/* explain.c: says for every op of the forward which type it runs in and which rule decided.
 *
 * It only reads: the reasons are the sentences that autocast left on the nodes. Shape ops, arguments and the
 * casts themselves are not listed but counted; backward and update follow from the forward (docs/PRECISION.md).
 * The JSON form is stable for tools. */
#include "driver/explain.h"

#include <string.h>

#include "ir/base/strutil.h"
#include "ir/base/text.h"

#define WHY_CAST "feeds "

typedef struct Totals {
    int ops[DT_COUNT], casts, reads; /* reads: casts of parameters, made by what reads them */
} Totals;

/* ---- what is shown ------------------------------------------------------------------------------- */

/* Graphs that train; where there are none, those that evaluate. */
bool explain_graph(const Module *m, const Graph *g)
{
    bool trains = false;
    for (int i = 0; i < m->ngraphs; i++) {
        trains = trains || m->graphs[i]->role == GRAPH_Step;
    }
    return g->role == (trains ? GRAPH_Step : GRAPH_Eval);
}

/* No line of the file stands for it: backward and update follow from the forward. */
static bool follows(const char *why)
{
    return str_starts(why, WHY_UPDATE) ||
           (str_starts(why, WHY_BACKWARD) && strstr(why, WHY_OWN_GRAD ": ") == NULL);
}

bool explain_shows(const Node *n)
{
    OpKind kind = op_info[n->op].kind;
    bool hidden = kind == KIND_Leaf || kind == KIND_Alias || kind == KIND_Move || kind == KIND_Mark;
    return !hidden && n->why != NULL && !follows(n->why) &&
           !(n->op == OP_cast && strstr(n->why, WHY_CAST) != NULL);
}

bool explain_is_cast(const Node *n)
{
    return n->op == OP_cast && n->why != NULL && str_starts(n->why, WHY_CAST);
}

static bool is_cast_parameter(const Node *n)
{
    return explain_is_cast(n) && n->in[0]->op == OP_arg &&
           attrs_str(&n->in[0]->attrs, ATTR_param) != NULL;
}

const char *explain_class(const Node *n)
{
    static const char *const name[] = {
        [CAST_None] = "none",     [CAST_Low] = "low",       [CAST_Float] = "f32",
        [CAST_Widest] = "widest", [CAST_Follow] = "follow",
    };
    return n->forced ? "forced" : name[op_info[n->op].cast];
}

/* Type of the first floating operand, DT_none when there is none. */
DType explain_from(const Node *n)
{
    for (int i = 0; i < n->nin; i++) {
        if (dtype_info[n->in[i]->dtype].is_float) {
            return n->in[i]->dtype;
        }
    }
    return DT_none;
}

static const char *type_text(Arena *arena, const Node *n)
{
    DType in = explain_from(n);
    bool both = op_info[n->op].kind == KIND_Contract || in != n->dtype;
    const char *own = dtype_info[n->dtype].name;
    return both && in != DT_none ? arena_printf(arena, "%s -> %s", dtype_info[in].name, own) : own;
}

static Totals count(const Module *m)
{
    Totals t = {0};
    for (int i = 0; i < m->ngraphs; i++) {
        const Graph *g = m->graphs[i];
        for (int k = 0; k < g->nnodes && explain_graph(m, g); k++) {
            bool read = is_cast_parameter(g->nodes[k]);
            t.reads += read;
            t.casts += explain_is_cast(g->nodes[k]) && !read;
            t.ops[g->nodes[k]->dtype] += explain_shows(g->nodes[k]);
        }
    }
    return t;
}

/* Casts that autocast's rules ask for but that no step pays. */
static int casts_removed(const PassCounts *counts, const Totals *t)
{
    int paid = t->casts + t->reads;
    return counts->casts_wanted > paid ? counts->casts_wanted - paid : 0;
}

/* Bytes of the weights in f32 over the bytes that the forward reads. */
static double weight_traffic(const Module *m)
{
    double masters = 0, read = 0;
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = m->tensors[i];
        Dim n = dim_of(0);
        dims_count(&t->dims, &n);
        if (t->role == TENSOR_param) {
            masters += (double)n.k * dtype_info[t->dtype].bytes;
            read += (double)n.k * dtype_info[t->dtype].bytes;
        } else if (t->role == TENSOR_working) {
            const Tensor *of = module_find_tensor(m, t->of);
            read -= (double)n.k * (dtype_info[of->dtype].bytes - dtype_info[t->dtype].bytes);
        }
    }
    return read > 0 ? masters / read : 1;
}

static const char *precision_name(DType dt)
{
    return dt == DT_f16 ? "fp16" : dt == DT_none ? "f32" : dtype_info[dt].name;
}

static bool has_scaler(const Module *m)
{
    for (int i = 0; i < m->ndecls; i++) {
        if (m->decls[i]->kind == DECL_scaler && attrs_bool(&m->decls[i]->attrs, ATTR_enabled)) {
            return true;
        }
    }
    return false;
}

static bool has_masters(const Module *m)
{
    for (int i = 0; i < m->ntensors && dtype_is_low(m->precision); i++) {
        if (m->tensors[i]->role == TENSOR_param && m->tensors[i]->dtype == DT_f32) {
            return true;
        }
    }
    return false;
}

/* ---- text ---------------------------------------------------------------------------------------- */

void explain_head(Text *t, const Module *m)
{
    text_printf(t, "precision  %s", precision_name(m->precision));
    const char *before = " (";
    if (dtype_is_low(m->precision)) {
        text_printf(t, "%sautocast", before);
        before = ", ";
    }
    if (has_scaler(m)) {
        text_printf(t, "%sdynamic loss scale", before);
        before = ", ";
    }
    if (has_masters(m)) {
        text_printf(t, "%sfp32 master weights", before);
        before = ", ";
    }
    text_puts(t, before[0] == ',' ? ")\n" : "\n");
}

static const char *line_of(Arena *a, const Module *m, const Node *n)
{
    return n->loc.line > 0 ? line_text(a, m, n->loc) : "-";
}

static void text_op(Text *t, const Module *m, const Node *n, int line_width, int op_width)
{
    const char *line = line_of(t->arena, m, n);
    const char *what = n->name == NULL
                           ? op_info[n->op].name
                           : arena_printf(t->arena, "%s %s", op_info[n->op].name, n->name);
    text_printf(t, "%*s  %-*s  %-11s  %s\n", line_width, line, op_width, what,
                type_text(t->arena, n), n->why);
}

static int op_width(const Module *m)
{
    size_t width = strlen("cross_entropy");
    for (int i = 0; i < m->ngraphs; i++) {
        const Graph *g = m->graphs[i];
        for (int k = 0; k < g->nnodes && explain_graph(m, g); k++) {
            const Node *n = g->nodes[k];
            size_t w = strlen(op_info[n->op].name) + (n->name != NULL ? 1 + strlen(n->name) : 0);
            width = explain_shows(n) && w > width ? w : width;
        }
    }
    return width > 40 ? 40 : (int)width;
}

static int line_width(Arena *a, const Module *m)
{
    size_t width = strlen("line");
    for (int i = 0; i < m->ngraphs; i++) {
        const Graph *g = m->graphs[i];
        for (int k = 0; k < g->nnodes && explain_graph(m, g); k++) {
            size_t w = explain_shows(g->nodes[k]) ? strlen(line_of(a, m, g->nodes[k])) : 0;
            width = w > width ? w : width;
        }
    }
    return (int)width;
}

void explain_totals(Text *t, const Module *m, const PassCounts *counts)
{
    Totals totals = count(m);
    const char *before = "";
    for (int dt = DT_COUNT - 1; dt > DT_none; dt--) {
        if (totals.ops[dt] > 0 && dtype_is_low((DType)dt)) {
            text_printf(t, "%s%d ops in %s", before, totals.ops[dt], dtype_info[dt].name);
            before = ", ";
        }
    }
    int ops = totals.ops[DT_f32];
    text_printf(t, "%s%d%s in f32", before, ops, *before != 0 ? "" : ops == 1 ? " op" : " ops");
    text_printf(t, ", %d cast%s", totals.casts, totals.casts == 1 ? "" : "s");
    if (casts_removed(counts, &totals) > 0) {
        text_printf(t, " (%d removed as redundant)", casts_removed(counts, &totals));
    }
    if (totals.reads > 0) {
        text_printf(t, ", %d of parameters as they are read", totals.reads);
    }
    if (weight_traffic(m) > 1.05) {
        text_printf(t, ", %.1fx less weight traffic", weight_traffic(m));
    }
    int again = module_again(m, WHY_AGAIN) + module_again(m, WHY_SHORT);
    if (again > 0) {
        text_printf(t, ", %d computed again in the backward", again);
    }
    text_putc(t, '\n');
}

void explain_text(FILE *out, const Module *m, const PassCounts *counts)
{
    Arena *arena = arena_new();
    Text *t = text_new(arena);
    int width = op_width(m), lines = line_width(arena, m), shown = 0;
    explain_head(t, m);
    text_printf(t, "%*s  %-*s  %-11s  why\n", lines, "line", width, "op", "type");
    for (int i = 0; i < m->ngraphs; i++) {
        shown += explain_graph(m, m->graphs[i]);
    }
    for (int i = 0; i < m->ngraphs; i++) {
        const Graph *g = m->graphs[i];
        if (explain_graph(m, g) && shown > 1) {
            text_printf(t, "@%s\n", g->name);
        }
        for (int k = 0; k < g->nnodes && explain_graph(m, g); k++) {
            if (explain_shows(g->nodes[k])) {
                text_op(t, m, g->nodes[k], lines, width);
            }
        }
    }
    text_putc(t, '\n');
    explain_totals(t, m, counts);
    text_write(t, out);
    arena_free(arena);
}

/* ---- json ---------------------------------------------------------------------------------------- */

static void json_field(Text *t, const char *key, const char *value)
{
    const char *s = value != NULL ? value : "";
    text_printf(t, ", \"%s\": ", key);
    text_quote_json(t, s, strlen(s));
}

static void json_op(Text *t, const Module *m, const Graph *g, const Node *n)
{
    text_printf(t, "{\"line\": %d", n->loc.line);
    if (n->loc.line != own_line(m, n->loc)) {
        json_field(t, "file", n->loc.file->path);
    }
    json_field(t, "name", n->name);
    json_field(t, "op", op_info[n->op].name);
    json_field(t, "type", dtype_info[n->dtype].name);
    json_field(t, "from", explain_from(n) != DT_none ? dtype_info[explain_from(n)].name : "");
    json_field(t, "class", explain_class(n));
    json_field(t, "why", n->why);
    json_field(t, "graph", g->name);
    text_putc(t, '}');
}

void explain_json(FILE *out, const Module *m, const PassCounts *counts)
{
    Arena *arena = arena_new();
    Text *t = text_new(arena);
    Totals totals = count(m);
    const char *before = "\n  ";
    text_puts(t, "{\"program\": ");
    text_quote_json(t, m->name, strlen(m->name));
    json_field(t, "precision", precision_name(m->precision));
    text_printf(t, ", \"loss_scaling\": %s", has_scaler(m) ? "true" : "false");
    text_puts(t, ",\n\"ops\": [");
    for (int i = 0; i < m->ngraphs; i++) {
        const Graph *g = m->graphs[i];
        for (int k = 0; k < g->nnodes && explain_graph(m, g); k++) {
            if (explain_shows(g->nodes[k])) {
                text_puts(t, before);
                json_op(t, m, g, g->nodes[k]);
                before = ",\n  ";
            }
        }
    }
    text_printf(t,
                "],\n\"casts\": %d, \"casts_of_parameters\": %d, \"casts_removed\": %d, "
                "\"working_copies\": %d, ",
                totals.casts, totals.reads, casts_removed(counts, &totals), counts->copies);
    text_printf(t, "\"weight_traffic\": %.3f}\n", weight_traffic(m));
    text_write(t, out);
    arena_free(arena);
}
