/* read.c: reads the text form of a module; print.c is the inverse. What comes in may be anything:
 * the first thing that does not fit is reported with its place, and what was read passes the
 * verifier before anyone sees it. Tokens: read_lex.c. Host programs: read_host.c. */
#include <limits.h>
#include <string.h>

#include "ir/base/strutil.h"
#include "ir/base/vec.h"
#include "ir/reader.h"

/* Index of a name in a table, or -1 after an error. */
static int read_one_of(Reader *r, const char *const *table, int n, const char *what)
{
    const char *name = r->token.text;
    for (int i = 0; i < n; i++) {
        if (r->token.kind == TOKEN_name && !r->token.quoted && str_eq(name, table[i])) {
            read_advance(r);
            return i;
        }
    }
    const char *near = nearest_name(name, table, n);
    if (near != NULL && r->token.kind == TOKEN_name) {
        read_fail(r, "'%.40s' is no %s; did you mean '%s'?", name, what, near);
    } else {
        read_fail(r, "expected %s %s", strchr("aeiou", what[0]) != NULL ? "an" : "a", what);
    }
    return -1;
}

/* ---- types and attributes -------------------------------------------------------------------- */

static DType read_dtype(Reader *r)
{
    DType dt = DT_none;
    if (r->token.kind != TOKEN_name || !dtype_find(r->token.text, &dt)) {
        read_fail(r, "expected a type of elements");
        return DT_none;
    }
    read_advance(r);
    return dt;
}

static Dim read_factor(Reader *r)
{
    if (r->token.kind == TOKEN_int) {
        return dim_of(read_int(r, 0, INT64_MAX));
    }
    const char *name = r->token.text;
    for (int i = 0; r->graph != NULL && i < r->graph->nsyms; i++) {
        if (r->token.kind == TOKEN_name && str_eq(r->graph->syms[i].name, name)) {
            read_advance(r);
            return (Dim){.k = 1, .sym = {(uint8_t)(i + 1), 0}};
        }
    }
    read_fail(r, "expected a dimension: a number or a symbol of the graph");
    return dim_of(1);
}

static Dims read_dims(Reader *r)
{
    Dims dims = {0};
    if (!read_is_sign(r, "[") || !r->token.glued) {
        return dims;
    }
    read_advance(r);
    do {
        if (dims.rank == MAX_RANK) {
            read_fail(r, "more than %d dimensions", MAX_RANK);
            return dims;
        }
        Dim d = read_factor(r);
        while (read_accept_sign(r, "*")) {
            if (!dim_mul(d, read_factor(r), &d)) {
                read_fail(r, "a dimension is a number times two symbols at most");
            }
        }
        dims.d[dims.rank++] = d;
    } while (read_accept_sign(r, ","));
    read_expect_sign(r, "]");
    return dims;
}

static void read_list(Reader *r, Attr *a)
{
    typedef VEC(int64_t) Ints;
    typedef VEC(double) Floats;
    typedef VEC(const char *) Strs;
    Ints ints = {0};
    Floats floats = {0};
    Strs strs = {0};
    AttrType type = attr_info[a->id].type;
    read_expect_sign(r, "[");
    while (!r->failed && !read_is_sign(r, "]")) {
        if (type == AT_Ints) {
            vec_push(r->arena, &ints, read_signed(r));
        } else if (type == AT_Floats) {
            vec_push(r->arena, &floats, read_number(r));
        } else {
            vec_push(r->arena, &strs, read_string(r));
        }
        if (!read_accept_sign(r, ",")) {
            break;
        }
    }
    read_expect_sign(r, "]");
    if (type == AT_Ints) {
        a->ints.n = ints.n;
        a->ints.v = ints.at;
    } else if (type == AT_Floats) {
        a->floats.n = floats.n;
        a->floats.v = floats.at;
    } else {
        a->strs.n = strs.n;
        a->strs.v = strs.at;
    }
}

static void read_attr(Reader *r, Attrs *as)
{
    const char *all[ATTR_COUNT];
    for (int i = 0; i < ATTR_COUNT; i++) {
        all[i] = attr_info[i].name;
    }
    int id = read_one_of(r, all, ATTR_COUNT, "attribute");
    if (id < 0) {
        return;
    }
    Attr a = {.id = (AttrId)id};
    if (attrs_find(as, a.id) != NULL) {
        read_fail(r, "'%s' is given twice", all[id]);
        return;
    }
    if (attr_info[id].type != AT_Bool) {
        read_expect_sign(r, "=");
    }
    switch (attr_info[id].type) {
    case AT_Int: a.i = read_signed(r); break;
    case AT_Float: a.f = read_number(r); break;
    case AT_Bool: a.b = true; break;
    case AT_Str: a.s = read_string(r); break;
    case AT_Dtype: a.dtype = read_dtype(r); break;
    case AT_Expr: a.expr = read_host_expr(r); break;
    case AT_Ints:
    case AT_Floats:
    case AT_Strs: read_list(r, &a); break;
    }
    attrs_set(r->arena, as, a);
}

Attrs read_attrs(Reader *r)
{
    Attrs as = {0};
    if (read_accept_sign(r, "{")) {
        do {
            read_attr(r, &as);
        } while (read_accept_sign(r, ","));
        read_expect_sign(r, "}");
    }
    return as;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static Node *read_ref(Reader *r)
{
    read_expect_sign(r, "%");
    int64_t id = r->token.i;
    if (!r->failed && r->token.kind == TOKEN_int && id >= r->graph->nnodes) {
        read_fail(r, "%%%lld is not defined above", (long long)id);
        return NULL;
    }
    id = read_int(r, 0, INT_MAX);
    return r->failed ? NULL : r->graph->nodes[id];
}

static Op read_op(Reader *r)
{
    const char *all[OP_COUNT];
    for (int i = 0; i < OP_COUNT; i++) {
        all[i] = op_info[i].name;
    }
    int op = read_one_of(r, all, OP_COUNT, "op");
    return op < 0 ? OP_const : (Op)op;
}

static const char *read_note(Reader *r)
{
    read_expect_sign(r, "(");
    const char *s = read_string(r);
    read_expect_sign(r, ")");
    return s;
}

static void read_node(Reader *r)
{
    typedef VEC(Node *) Nodes;
    Graph *g = r->graph;
    read_expect_sign(r, "%");
    int64_t id = read_int(r, 0, INT_MAX);
    if (!r->failed && id != g->nnodes) {
        read_fail(r, "values are numbered in order: this is %%%d", g->nnodes);
    }
    read_expect_sign(r, "=");
    Node *n = ARENA_NEW(r->arena, Node);
    Nodes in = {0};
    n->op = read_op(r);
    while (read_is_sign(r, "%")) {
        Node *x = read_ref(r);
        vec_push(r->arena, &in, x);
        if (!read_accept_sign(r, ",")) {
            break;
        }
    }
    n->in = in.at;
    n->nin = in.n;
    n->attrs = read_attrs(r);
    read_expect_sign(r, ":");
    n->dtype = read_dtype(r);
    n->dims = read_dims(r);
    n->loc = read_loc(r);
    n->name = read_accept_word(r, "name") ? read_note(r) : NULL;
    if (read_accept_word(r, "amp")) {
        read_expect_sign(r, "(");
        n->amp = read_dtype(r);
        read_expect_sign(r, ")");
    }
    if (read_accept_word(r, "checkpoint")) {
        read_expect_sign(r, "(");
        int sign = read_accept_sign(r, "-") ? -1 : 1;
        n->region = sign * (int)read_int(r, 1, INT_MAX);
        read_expect_sign(r, ")");
    }
    n->forced = read_accept_word(r, "forced");
    n->why = read_accept_word(r, "why") ? read_note(r) : NULL;
    if (!r->failed) {
        g->nodes = vec_room(r->arena, g->nodes, g->nnodes, &g->cap, sizeof g->nodes[0]);
        n->id = g->nnodes;
        bool first = g->nnodes == 0 || g->nodes[g->nnodes - 1]->op == OP_arg;
        g->late_args = g->late_args || (n->op == OP_arg && !first);
        g->nodes[g->nnodes++] = n;
    }
}

static void read_result(Reader *r)
{
    int kind = read_one_of(r, result_kind_name, RESULT_KINDS, "kind of result");
    const char *name = read_name(r);
    read_expect_sign(r, "=");
    Node *value = read_ref(r);
    if (!r->failed) {
        graph_result(r->graph, (ResultKind)kind, name, value);
    }
}

static void read_print(Reader *r)
{
    typedef VEC(PrintPart) Parts;
    Parts parts = {0};
    bool is_loc = false;
    while (!r->failed && !is_loc &&
           (r->token.kind == TOKEN_string || r->token.kind == TOKEN_name)) {
        PrintPart part = {0};
        if (r->token.kind == TOKEN_string) {
            part.text = read_string(r);
        } else if (read_accept_word(r, "shape") || (part.bare = read_accept_word(r, "size"))) {
            part.dims = read_dims(r);
        } else if (str_eq(r->token.text, "loc") || str_eq(r->token.text, "return") ||
                   str_eq(r->token.text, "print")) {
            is_loc = true;
        } else {
            part.result = read_name(r);
        }
        if (!is_loc) {
            vec_push(r->arena, &parts, part);
        }
    }
    Loc loc = read_loc(r);
    if (!r->failed) {
        graph_add_print(r->graph, (Print){parts.n, parts.at, loc});
    }
}

static void read_symbols(Reader *r)
{
    Graph *g = r->graph;
    do {
        if (g->nsyms == MAX_SYMS) {
            read_fail(r, "more than %d symbols", MAX_SYMS);
            return;
        }
        int before = g->nsyms;
        const char *name = read_name(r);
        read_expect_sign(r, "<=");
        int sym = graph_sym(g, name, read_int(r, 0, INT64_MAX));
        if (sym <= before) {
            read_fail(r, "'%s' is given twice", name);
            return;
        }
        if (read_accept_sign(r, "%")) {
            g->syms[sym - 1].multiple_of = (int)read_int(r, 1, INT_MAX);
        }
    } while (read_accept_sign(r, ","));
}

static void read_graph(Reader *r)
{
    read_expect_sign(r, "@");
    const char *name = read_name(r);
    int role = read_one_of(r, graph_role_name, 3, "role of a graph");
    r->graph = graph_new(r->arena, name, role < 0 ? GRAPH_Step : (GraphRole)role);
    if (read_accept_sign(r, "(")) {
        read_symbols(r);
        read_expect_sign(r, ")");
    }
    r->graph->loc = read_loc(r);
    read_expect_sign(r, "{");
    while (!r->failed && !read_is_sign(r, "}")) {
        if (read_accept_word(r, "return")) {
            read_result(r);
        } else if (read_accept_word(r, "print")) {
            read_print(r);
        } else {
            read_node(r);
        }
    }
    read_expect_sign(r, "}");
    module_graph(r->module, r->graph);
    r->graph = NULL;
}

/* ---- modules --------------------------------------------------------------------------------- */

static void read_decl(Reader *r, DeclKind kind)
{
    typedef VEC(HostExpr *) Exprs;
    Exprs values = {0};
    Decl *d = module_decl(r->module, kind, read_name(r));
    d->attrs = read_attrs(r);
    if (read_accept_word(r, "values")) {
        read_expect_sign(r, "(");
        do {
            HostExpr *e = read_host_expr(r);
            vec_push(r->arena, &values, e);
        } while (read_accept_sign(r, ","));
        read_expect_sign(r, ")");
    }
    d->values = values.at;
    d->nvalues = values.n;
    d->loc = read_loc(r);
}

static void read_tensor(Reader *r)
{
    const char *name = read_name(r);
    read_expect_sign(r, ":");
    DType dt = read_dtype(r);
    Dims dims = read_dims(r);
    int role = read_one_of(r, tensor_role_name, TENSOR_ROLES, "role of a tensor");
    Tensor *t =
        module_tensor(r->module, name, role < 0 ? TENSOR_state : (TensorRole)role, dt, &dims);
    t->init = read_attrs(r);
    if (read_accept_word(r, "of")) {
        read_expect_sign(r, "(");
        t->of = read_name(r);
        read_expect_sign(r, ")");
    }
    t->loc = read_loc(r);
}

static void read_var(Reader *r)
{
    const char *name = read_name(r);
    read_expect_sign(r, ":");
    int type = read_one_of(r, host_type_name, 4, "type of a number");
    if (module_find_var(r->module, name) != NULL && !r->failed) {
        read_fail(r, "'%s' is given twice", name);
    }
    module_var(r->module, name, type < 0 ? HT_int : (HostType)type);
}

static void read_header(Reader *r)
{
    if (!read_is_word(r, "mpc") || r->next.text == NULL || strcmp(r->next.text, "-") != 0) {
        read_fail(r, "this is no IR: the first line must be 'mpc-ir %d after PASS'",
                  TEXT_FORM_VERSION);
        return;
    }
    read_advance(r);
    read_expect_sign(r, "-");
    read_expect_word(r, "ir");
    if (r->token.kind == TOKEN_int && r->token.i != TEXT_FORM_VERSION) {
        read_fail(r, "this is IR of version %lld, and this program reads version %d",
                  (long long)r->token.i, TEXT_FORM_VERSION);
    }
    read_int(r, TEXT_FORM_VERSION, TEXT_FORM_VERSION);
    read_expect_word(r, "after");
    r->module->last_pass = read_name(r);
    read_expect_word(r, "module");
    r->module->name = read_name(r);
    read_expect_word(r, "source");
    r->module->source = read_note(r);
    r->main->path = r->module->source;
    if (read_accept_word(r, "precision")) {
        read_expect_sign(r, "(");
        r->module->precision = read_dtype(r);
        read_expect_sign(r, ")");
    }
    if (read_accept_word(r, "memory")) {
        read_expect_sign(r, "(");
        r->module->memory = read_int(r, 1, INT64_MAX);
        read_expect_sign(r, ")");
        r->module->memory_loc = read_loc(r);
    }
}

static void read_item(Reader *r)
{
    for (int i = 0; i < DECL_COUNT; i++) {
        if (read_accept_word(r, decl_name[i])) {
            read_decl(r, (DeclKind)i);
            return;
        }
    }
    if (read_accept_word(r, "tensor")) {
        read_tensor(r);
    } else if (read_accept_word(r, "var")) {
        read_var(r);
    } else if (read_accept_word(r, "graph")) {
        read_graph(r);
    } else {
        read_fail(r, "expected a declaration, a graph or the host program");
    }
}

Module *module_read(Arena *arena, Diag *diag, const char *path)
{
    SourceFile *source = source_read(arena, diag, path);
    return source != NULL ? module_read_source(arena, diag, source) : NULL;
}

Module *module_read_source(Arena *arena, Diag *diag, const SourceFile *source)
{
    if (!source_is_text(diag, source)) {
        return NULL;
    }
    Reader r = {.arena = arena, .diag = diag, .source = source};
    r.module = module_new(arena, "", "");
    r.main = ARENA_NEW(arena, SourceFile);
    r.main->path = "";
    read_start(&r);
    read_header(&r);
    while (!r.failed && !read_is_word(&r, "host")) {
        read_item(&r);
    }
    read_expect_word(&r, "host");
    read_host_program(&r);
    if (!r.failed && r.token.kind != TOKEN_end) {
        read_fail(&r, "nothing may follow the host program");
    }
    return !r.failed && module_verify(r.module, diag) ? r.module : NULL;
}
