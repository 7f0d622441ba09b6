/* dot.c: the graphs of a module for Graphviz: a cluster for each graph, inside it one for each module of the model,
 * for the arguments and for the update.
 *
 * Colours are types; the backward has dashed frames. The reason of an op is its tooltip (dot -Tsvg). */
#include "driver/dot.h"

#include <string.h>

#include "ir/base/strutil.h"
#include "passes/pass.h"

typedef struct Dot {
    Arena *arena;
    Text *out;
    const Module *m;
    const Graph *g;
    int graph;          /* number of g */
    const char **paths; /* of modules, each after the one it lies in */
    int npaths;
    int *inside; /* of each node: number of a path, or one of these */
} Dot;

enum { IN_GRAPH = -1, IN_ARGUMENTS = -2, IN_UPDATE = -3 };

static const char *const fill[DT_COUNT] = {
    [DT_f64] = "#d9d2e9",  [DT_f32] = "#cfe2f3",    [DT_f16] = "#fce5cd",
    [DT_bf16] = "#d9ead3", [DT_f8e4m3] = "#f4cccc", [DT_f8e5m2] = "#f4cccc",
};

/* ---- text ------------------------------------------------------------------------------------------- */

/* A string of the dot language. A backslash would begin an escape; "\n" between lines is ours. */
static void quote(Text *t, const char *s)
{
    text_putc(t, '"');
    for (; *s != '\0'; s++) {
        if (*s == '\n') {
            text_puts(t, "\\n");
        } else if (*s == '"' || *s == '\\') {
            text_printf(t, "\\%c", *s);
        } else {
            text_putc(t, *s);
        }
    }
    text_putc(t, '"');
}

static void attribute(Text *t, const char *key, const char *value)
{
    text_printf(t, " %s=", key);
    quote(t, value);
}

/* ---- clusters --------------------------------------------------------------------------------------- */

static bool lies_in(const char *name, const char *path)
{
    size_t n = strlen(path);
    return strncmp(name, path, n) == 0 && (name[n] == '.' || name[n] == '\0');
}

static int find_path(const Dot *d, const char *path, size_t n)
{
    for (int i = 0; i < d->npaths; i++) {
        if (strlen(d->paths[i]) == n && strncmp(d->paths[i], path, n) == 0) {
            return i;
        }
    }
    return -1;
}

/* Modules are what the parameters' names lead through. */
static void find_paths(Dot *d)
{
    int most = 0;
    for (int i = 0; i < d->m->ntensors; i++) {
        for (const char *c = d->m->tensors[i]->name; *c != '\0'; c++) {
            most += *c == '.';
        }
    }
    d->paths = ARENA_ARRAY(d->arena, const char *, most + 1);
    for (int i = 0; i < d->m->ntensors; i++) {
        const Tensor *t = d->m->tensors[i];
        if (t->role != TENSOR_param) {
            continue;
        }
        for (const char *c = strchr(t->name, '.'); c != NULL; c = strchr(c + 1, '.')) {
            size_t n = (size_t)(c - t->name);
            if (find_path(d, t->name, n) < 0) {
                d->paths[d->npaths++] = arena_strndup(d->arena, t->name, n);
            }
        }
    }
}

static int place_of(const Dot *d, const Node *n)
{
    const char *param = attrs_str(&n->attrs, ATTR_param), *name = param != NULL ? param : n->name;
    if (n->op == OP_arg && param == NULL) {
        return IN_ARGUMENTS;
    }
    if (n->why != NULL && str_starts(n->why, WHY_UPDATE)) {
        return IN_UPDATE;
    }
    int best = IN_GRAPH;
    for (int i = 0; i < d->npaths && name != NULL; i++) {
        bool deeper = best < 0 || strlen(d->paths[i]) > strlen(d->paths[best]);
        best = lies_in(name, d->paths[i]) && deeper ? i : best;
    }
    return best;
}

/* The path that a path lies in. */
static int outside(const Dot *d, int path)
{
    const char *dot = strrchr(d->paths[path], '.');
    return dot == NULL ? IN_GRAPH : find_path(d, d->paths[path], (size_t)(dot - d->paths[path]));
}

/* ---- nodes ------------------------------------------------------------------------------------------ */

static const char *argument_name(const Node *n)
{
    static const AttrId roles[] = {ATTR_param, ATTR_state, ATTR_batch, ATTR_lr};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const char *name = attrs_str(&n->attrs, roles[i]);
        if (name != NULL) {
            return roles[i] == ATTR_lr ? "learning rate" : name;
        }
    }
    return n->name != NULL ? n->name : "number";
}

static void node(const Dot *d, const Node *n)
{
    Text *t = d->out;
    const char *type = dtype_info[n->dtype].name;
    if (n->dims.rank > 0) {
        type = arena_printf(d->arena, "%s[%s]", type, dims_text(d->arena, d->g, &n->dims));
    }
    const char *op = n->op == OP_arg ? argument_name(n) : op_info[n->op].name;
    bool named = n->name != NULL && !str_eq(n->name, op);
    char number[32];
    const char *label =
        arena_printf(d->arena, "%s%s%s\n%s", op, named ? " " : "", named ? n->name : "", type);
    if (n->op == OP_const) {
        label = arena_printf(d->arena, "%s\n%s",
                             str_double(number, attrs_float(&n->attrs, ATTR_value, 0)), type);
    }
    text_margin(t);
    text_printf(t, "g%d_%d [", d->graph, n->id);
    attribute(t, "label", label);
    attribute(t, "fillcolor", fill[n->dtype] != NULL ? fill[n->dtype] : "#eeeeee");
    if (n->op == OP_arg) {
        text_puts(t, " shape=box");
    } else if (n->op == OP_const) {
        text_puts(t, " shape=plaintext");
    }
    if (n->why != NULL && str_starts(n->why, WHY_BACKWARD)) {
        text_puts(t, " style=\"filled,dashed\"");
    }
    const char *place = n->loc.line > 0
                            ? arena_printf(d->arena, "line %s: ", line_text(d->arena, d->m, n->loc))
                            : "";
    attribute(t, "tooltip", arena_printf(d->arena, "%s%s", place, n->why != NULL ? n->why : op));
    text_puts(t, " ];\n");
}

static void nodes_of(const Dot *d, int place)
{
    for (int i = 0; i < d->g->nnodes; i++) {
        if (d->inside[i] == place) {
            node(d, d->g->nodes[i]);
        }
    }
}

static void open_cluster(const Dot *d, const char *id, const char *label)
{
    text_open(d->out, "subgraph \"cluster_g%d_%s\" {", d->graph, id);
    text_margin(d->out);
    text_puts(d->out, "label=");
    quote(d->out, label);
    text_puts(d->out, ";\n");
}

static void plain_cluster(const Dot *d, int place, const char *name)
{
    bool empty = true;
    for (int i = 0; i < d->g->nnodes; i++) {
        empty = empty && d->inside[i] != place;
    }
    if (empty) {
        return;
    }
    open_cluster(d, name, name);
    nodes_of(d, place);
    text_close(d->out, "}");
}

static bool is_empty(const Dot *d, int path)
{
    for (int i = 0; i < d->g->nnodes; i++) {
        if (d->inside[i] >= 0 && lies_in(d->paths[d->inside[i]], d->paths[path])) {
            return false;
        }
    }
    return true;
}

static void modules(const Dot *d, int within)
{
    for (int i = 0; i < d->npaths; i++) {
        if (outside(d, i) == within && !is_empty(d, i)) {
            open_cluster(d, arena_printf(d->arena, "m%d", i), d->paths[i]);
            nodes_of(d, i);
            modules(d, i);
            text_close(d->out, "}");
        }
    }
}

/* ---- graphs ----------------------------------------------------------------------------------------- */

static void edges(const Dot *d)
{
    for (int i = 0; i < d->g->nnodes; i++) {
        const Node *n = d->g->nodes[i];
        for (int k = 0; k < n->nin; k++) {
            text_line(d->out, "g%d_%d -> g%d_%d;", d->graph, n->in[k]->id, d->graph, n->id);
        }
    }
    for (int i = 0; i < d->g->nresults; i++) {
        const Result *r = &d->g->results[i];
        text_margin(d->out);
        text_printf(d->out, "g%d_r%d [shape=cds", d->graph, i);
        attribute(d->out, "label", r->name);
        text_printf(d->out, " fillcolor=\"#ffffff\"]; g%d_%d -> g%d_r%d;\n", d->graph, r->value->id,
                    d->graph, i);
    }
}

static void graph(Dot *d)
{
    d->inside = ARENA_ARRAY(d->arena, int, d->g->nnodes);
    for (int i = 0; i < d->g->nnodes; i++) {
        d->g->nodes[i]->id = i;
        d->inside[i] = place_of(d, d->g->nodes[i]);
    }
    open_cluster(d, "", arena_printf(d->arena, "@%s", d->g->name));
    plain_cluster(d, IN_ARGUMENTS, "arguments");
    nodes_of(d, IN_GRAPH);
    modules(d, IN_GRAPH);
    plain_cluster(d, IN_UPDATE, "update");
    edges(d);
    text_close(d->out, "}");
}

void dot_print(Text *out, const Module *m)
{
    Dot d = {.arena = out->arena, .out = out, .m = m};
    find_paths(&d);
    text_puts(out, "digraph ");
    quote(out, m->name);
    text_puts(out, " {\n");
    out->indent++;
    text_line(out, "rankdir=TB; compound=true; fontname=\"sans-serif\";");
    text_line(out, "node [shape=ellipse style=filled fontname=\"sans-serif\" fontsize=10];");
    text_line(out, "edge [arrowsize=0.6];");
    for (int i = 0; i < m->ngraphs; i++) {
        d.g = m->graphs[i];
        d.graph = i;
        graph(&d);
    }
    text_close(out, "}");
}
