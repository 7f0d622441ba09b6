/* lower_tensor.c: nodes of the graph under construction: values as nodes, operands brought to one type, forced
 * types, and the operators of tensors.
 *
 * Types and shapes are checked by the builder (ir/shape.c); this file adds, after its message, where the
 * modules on the way were declared.
 */
#include "frontend/lower.h"

/* ---- building -------------------------------------------------------------------------------------- */

static void builder_ready(Lower *l)
{
    Frame *f = l->frame;
    l->b.graph = l->run->graph;
    l->b.diag = l->diag;
    l->b.loc = l->loc;
    l->b.name = f != NULL && f->self != NULL && f->self->path[0] != '\0' ? f->self->path : NULL;
    l->b.why = l->force != DT_none ? l->force_why : NULL;
}

static Node *built(Lower *l, Node *n, int errors)
{
    if (n == NULL && diag_errors(l->diag) > errors) {
        lower_frame_notes(l);
    }
    if (n != NULL && l->run->graph->nnodes > LOWER_MAX_NODES) {
        lower_error(l, l->loc, "one graph has more than %d operations", LOWER_MAX_NODES);
        return NULL;
    }
    return n;
}

/* Whether a forced type says something about this op: not about moves, whose type is their operand's. */
static bool takes_force(Op op)
{
    switch (op_info[op].kind) {
    case KIND_Map:
    case KIND_Contract:
    case KIND_Reduce: return !op_is_predicate(op) && op != OP_argmax;
    default: return false;
    }
}

Node *op_build(Lower *l, Op op, int nin, Node *const *in, Attrs attrs)
{
    Node **operands = ARENA_ARRAY(l->arena, Node *, nin + 1);
    bool forced = l->force != DT_none && takes_force(op);
    for (int i = 0; i < nin; i++) {
        if (in[i] == NULL) {
            return NULL;
        }
        operands[i] =
            forced && dtype_info[in[i]->dtype].is_float ? op_cast(l, in[i], l->force) : in[i];
    }
    builder_ready(l);
    int errors = diag_errors(l->diag);
    Node *n = built(l, build(&l->b, op, nin, operands, attrs), errors);
    if (n != NULL && forced) {
        n->forced = true;
    }
    return n;
}

Val val_of_node(Lower *l, Node *n)
{
    return n == NULL ? val_poison() : (Val){.kind = VAL_tensor, .node = n, .run = l->run};
}

Node *op_const(Lower *l, DType dt, double v)
{
    builder_ready(l);
    return build_const(&l->b, dt, v);
}

Node *op_cast(Lower *l, Node *x, DType dt)
{
    if (x == NULL || x->dtype == dt) {
        return x;
    }
    builder_ready(l);
    int errors = diag_errors(l->diag);
    return built(l, build_cast(&l->b, x, dt), errors);
}

/* A value of `with no_grad`, or a list of some. */
Val op_without_grad(Lower *l, Val v)
{
    if (l->no_grad && (v.kind == VAL_list || v.kind == VAL_tuple)) {
        Val parts = val_list(l, v.kind);
        for (int i = 0; i < v.list->n; i++) {
            val_push(l, &parts, op_without_grad(l, v.list->at[i]));
        }
        v.list = parts.list;
        return v;
    }
    bool flows = v.kind == VAL_tensor && v.run == l->run && v.node->op != OP_detach &&
                 dtype_info[v.node->dtype].is_float;
    if (l->no_grad && flows) {
        v.node = op1(l, OP_detach, v.node);
    }
    return v;
}

Node *op_forced_cast(Lower *l, Node *x, DType dt)
{
    if (x == NULL) {
        return NULL;
    }
    /* A cast to the type that the value has now still says what it is to be after autocast. */
    bool same = x->dtype == dt;
    if (same && !dtype_info[dt].is_float) {
        return x;
    }
    Node *n = op_cast(l, x, same ? (dt == DT_f32 ? DT_f64 : DT_f32) : dt);
    if (n != NULL) {
        n->dtype = dt;
        n->forced = true;
    }
    return n;
}

Node *op1(Lower *l, Op op, Node *x)
{
    return op_build(l, op, 1, &x, (Attrs){0});
}

/* The type in which operands of different types meet. A bool among numbers counts as an integer. */
static DType common(DType a, DType b)
{
    return a == b ? a : dtype_widest(a, b);
}

Node *op2(Lower *l, Op op, Node *x, Node *y)
{
    if (x == NULL || y == NULL) {
        return NULL;
    }
    if (op != OP_and && op != OP_or) {
        DType dt = common(x->dtype, y->dtype);
        bool arithmetic = dt == DT_bool && !op_is_predicate(op);
        dt = arithmetic ? DT_i32 : dt;
        if (op == OP_div || op == OP_pow || op == OP_leaky_relu || op == OP_elu) {
            dt = dtype_info[dt].is_float ? dt : DT_f32;
        }
        x = op_cast(l, x, dt);
        y = op_cast(l, y, dt);
    }
    return op_build(l, op, 2, (Node *[]){x, y}, (Attrs){0});
}

Node *op3(Lower *l, Op op, Node *x, Node *y, Node *z)
{
    if (x == NULL || y == NULL || z == NULL) {
        return NULL;
    }
    DType dt = common(y->dtype, z->dtype);
    if (op == OP_clamp) {
        dt = common(dt, x->dtype);
        x = op_cast(l, x, dt);
    }
    y = op_cast(l, y, dt);
    z = op_cast(l, z, dt);
    return op_build(l, op, 3, (Node *[]){x, y, z}, (Attrs){0});
}

DType op_enter_wide(Lower *l, const Node *x, const char *why)
{
    DType outer = l->force;
    if (outer == DT_none) {
        l->force = x->dtype == DT_f64 ? DT_f64 : DT_f32;
        l->force_why = why;
    }
    return outer;
}

void op_leave_wide(Lower *l, DType outer)
{
    l->force = outer;
    if (outer == DT_none) {
        l->force_why = NULL;
    }
}

Node *op_axis(Lower *l, Op op, Node *x, int64_t axis)
{
    Attrs attrs = {0};
    attrs_set_int(l->arena, &attrs, ATTR_axis, axis);
    return op_build(l, op, 1, &x, attrs);
}

Node *op_reduce(Lower *l, Op op, Node *x, int n, const int64_t *axes, bool keepdim)
{
    if (x == NULL) {
        return NULL;
    }
    if (l->force != DT_none && dtype_info[x->dtype].is_float) {
        x = op_cast(l, x, l->force);
    }
    if (x == NULL) {
        return NULL;
    }
    builder_ready(l);
    int errors = diag_errors(l->diag);
    Node *r = built(l, build_reduce(&l->b, op, x, n, axes, keepdim), errors);
    if (r != NULL && l->force != DT_none) {
        r->forced = true;
    }
    return r;
}

Node *op_reshape(Lower *l, Node *x, const Dims *dims)
{
    builder_ready(l);
    int errors = diag_errors(l->diag);
    return built(l, build_reshape(&l->b, x, dims), errors);
}

Node *op_expand(Lower *l, Node *x, const Dims *dims)
{
    builder_ready(l);
    int errors = diag_errors(l->diag);
    return built(l, build_expand(&l->b, x, dims), errors);
}

Node *op_transpose(Lower *l, Node *x, const int *perm)
{
    builder_ready(l);
    int errors = diag_errors(l->diag);
    return built(l, build_transpose(&l->b, x, perm), errors);
}

Node *op_slice(Lower *l, Node *x, int64_t axis, int64_t start, int64_t stop, int64_t step)
{
    Attrs attrs = {0};
    attrs_set_int(l->arena, &attrs, ATTR_axis, axis);
    attrs_set_int(l->arena, &attrs, ATTR_start, start);
    attrs_set_int(l->arena, &attrs, ATTR_stop, stop);
    attrs_set_int(l->arena, &attrs, ATTR_step, step);
    return op_build(l, OP_slice, 1, &x, attrs);
}

Node *op_iota(Lower *l, const Dims *dims, int64_t axis)
{
    Attrs attrs = {0};
    attrs_set_int(l->arena, &attrs, ATTR_axis, axis);
    builder_ready(l);
    return build_like(&l->b, DT_i64, dims, OP_iota, attrs);
}

/* Each random op of a graph has a path of its own, so that no two draw the same numbers. */
static const char *unique_path(Lower *l, const char *path)
{
    int before = 0;
    for (int i = 0; i < l->run->paths.n; i++) {
        before += str_eq(l->run->paths.at[i], path);
    }
    vec_push(l->arena, &l->run->paths, path);
    return before == 0 ? path : arena_printf(l->arena, "%s#%d", path, before + 1);
}

/* dims begin with the batch or a multiple of it: what belongs to a sample is drawn with the sample's key. */
Node *op_uniform(Lower *l, const Dims *dims, const char *path)
{
    Dim batch = {.k = 1, .sym = {1, 0}}, rows;
    if (dims->rank == 0 || l->run->graph->nsyms == 0 || !dim_div(dims->d[0], batch, &rows) ||
        !dim_is_const(rows) || dims->rank == MAX_RANK) {
        lower_error(
            l, l->loc,
            "random numbers are drawn for each sample, but the first axis is not the batch");
        return NULL;
    }
    Attrs attrs = {0};
    attrs_set_str(l->arena, &attrs, ATTR_path, unique_path(l, path));
    Dims drawn = {.rank = dims->rank};
    drawn.d[0] = batch;
    if (rows.k != 1) {
        drawn.d[drawn.rank++] = rows;
        drawn.d[1] = rows;
    }
    for (int i = 1; i < dims->rank; i++) {
        drawn.d[i + (rows.k != 1)] = dims->d[i];
    }
    builder_ready(l);
    return op_reshape(l, build_like(&l->b, DT_f32, &drawn, OP_uniform, attrs), dims);
}

Node *op_matmul(Lower *l, Node *x, Node *y)
{
    if (x == NULL || y == NULL) {
        return NULL;
    }
    DType dt = common(x->dtype, y->dtype);
    dt = dtype_info[dt].is_float ? dt : DT_f32;
    dt = l->force != DT_none ? l->force : dt;
    /* x @ w.T reads w as it lies */
    bool trans_b = y->op == OP_transpose && y->dims.rank == 2;
    x = op_cast(l, x, dt);
    y = op_cast(l, trans_b ? y->in[0] : y, dt);
    builder_ready(l);
    int errors = diag_errors(l->diag);
    Node *n = built(l, build_matmul(&l->b, x, y, false, trans_b, DT_none), errors);
    if (n != NULL && l->force != DT_none) {
        n->forced = true;
    }
    return n;
}

Node *op_dim(Lower *l, Dim d)
{
    Dims dims = {.rank = 1, .d = {d}}, one = {.rank = 1, .d = {dim_of(1)}};
    Node *ones = op_expand(l, op_reshape(l, op_const(l, DT_f32, 1), &one), &dims);
    return op_reduce(l, OP_sum, ones, 1, (int64_t[]){0}, false);
}

/* ---- values as nodes ------------------------------------------------------------------------------- */

bool tensor_need_run(Lower *l, Loc loc)
{
    if (l->frame != NULL && l->frame->members_only) {
        lower_error(l, loc,
                    "tensors are computed in forward, not where a module declares its members");
        return false;
    }
    if (l->run != NULL && l->run->open) {
        return true;
    }
    return run_open(l, loc) != NULL;
}

/* An argument of the graph stands before all other nodes. */
static Node *add_arg(Lower *l, const char *name, DType dt, const Dims *dims, Attrs attrs, Loc loc)
{
    Graph *g = l->run->graph;
    Builder b = {.graph = g, .diag = l->diag, .loc = loc, .name = name};
    Node *n = build_arg(&b, dt, dims, attrs);
    int args = 0;
    while (args < g->nnodes - 1 && g->nodes[args]->op == OP_arg) {
        args++;
    }
    graph_insert(g, args, 1);
    return n;
}

static Node *param_node(Lower *l, Tensor *t)
{
    t = ema_of_param(l, t);
    bool is_param = t->role == TENSOR_param;
    const Val *written = is_param ? NULL : scope_find(&l->run->states, t->name);
    if (written != NULL) {
        return written->node;
    }
    AttrId role = is_param ? ATTR_param : ATTR_state;
    Node *n = graph_find_arg(l->run->graph, role, t->name);
    if (n == NULL) {
        Attrs attrs = {0};
        attrs_set_str(l->arena, &attrs, role, t->name);
        n = add_arg(l, t->name, t->dtype, &t->dims, attrs, t->loc);
    }
    Val *now = is_param ? scope_find(&l->run->stepped, t->name) : NULL;
    if (now != NULL && now->kind == VAL_none) {
        Node *in[2] = {l->run->last_step, n};
        *now = val_of_node(l, op_build(l, OP_stepped, 2, in, (Attrs){0}));
    }
    return now != NULL && now->kind == VAL_tensor ? now->node : n;
}

static DType host_dtype(HostType t)
{
    return t == HT_float ? DT_f32 : t == HT_bool ? DT_bool : DT_i64;
}

static Node *host_arg(Lower *l, HostExpr *e, Loc loc)
{
    run_settle(l, (Val[]){val_host(e)}, 1);
    if (!tensor_need_run(l, loc)) {
        return NULL;
    }
    const char *text = host_expr_text(l->arena, e);
    Graph *g = l->run->graph;
    for (int i = 0; i < g->nnodes && g->nodes[i]->op == OP_arg; i++) {
        HostExpr *have = attrs_expr(&g->nodes[i]->attrs, ATTR_host);
        if (have != NULL && str_eq(host_expr_text(l->arena, have), text)) {
            return g->nodes[i];
        }
    }
    Attrs attrs = {0};
    attrs_set_expr(l->arena, &attrs, ATTR_host, e);
    return add_arg(l, e->kind == HE_var || e->kind == HE_option ? e->text : NULL,
                   host_dtype(e->type), &(Dims){0}, attrs, l->loc);
}

/* A tensor of a run that is over: a scalar goes through the host program. */
static Node *from_other_run(Lower *l, Val v, Loc loc)
{
    if (v.node->dims.rank == 0 && v.run->call != NULL) {
        HostExpr *e = tensor_to_host(l, v, v.name, loc);
        return e == NULL ? NULL : host_arg(l, e, loc);
    }
    lower_error(
        l, loc,
        "this tensor was computed in another part of the program, whose values are gone here");
    lower_note(l, v.node->loc,
               "it was computed here; tensors stay within one run of statements of one block");
    return NULL;
}

Node *tensor_of(Lower *l, Val v, Loc loc)
{
    if (val_is_poison(v)) {
        return NULL;
    }
    if (!val_is_tensor(v) && v.kind != VAL_host && !val_is_number(v)) {
        lower_error(l, loc, "a tensor is needed here, but this is %s", val_describe(l, v));
        return NULL;
    }
    return tensor_like(l, v, DT_f32, loc);
}

Node *tensor_like(Lower *l, Val v, DType like, Loc loc)
{
    if (val_is_poison(v) || !tensor_need_run(l, loc)) {
        return NULL;
    }
    switch (v.kind) {
    case VAL_tensor: return v.run == l->run ? v.node : from_other_run(l, v, loc);
    case VAL_param: return param_node(l, v.tensor);
    case VAL_bool: return op_const(l, like == DT_bool ? DT_bool : like, v.b);
    case VAL_int: return op_const(l, like == DT_bool ? DT_i32 : like, (double)v.i);
    case VAL_float: return op_const(l, dtype_info[like].is_float ? like : DT_f32, v.f);
    case VAL_dim: return op_cast(l, op_dim(l, v.dim), like);
    case VAL_host: {
        if (v.host->type == HT_str) {
            break;
        }
        if (l->run->graph->role == GRAPH_Prepare) { /* loaders know nothing of the host program */
            return tensor_like(l, host_fold(l, v, FOLD_fixed, loc), like, loc);
        }
        Node *n = host_arg(l, v.host, loc);
        return n != NULL && v.host->type == HT_int && dtype_info[like].is_float
                   ? op_cast(l, n, like)
                   : n;
    }
    default: break;
    }
    lower_error(l, loc, "a tensor is needed here, but this is %s", val_describe(l, v));
    return NULL;
}

static const char *result_name(Lower *l, const Val *v, const char *name)
{
    if (name != NULL) {
        return name;
    }
    Graph *g = v->run->graph;
    for (int i = 0; i < g->nresults; i++) {
        if (g->results[i].kind == RESULT_Host && g->results[i].value == v->node) {
            return g->results[i].name;
        }
    }
    for (int n = 1;; n++) {
        const char *fresh = n == 1 ? "value" : arena_printf(l->arena, "value_%d", n);
        bool used = false;
        for (int i = 0; i < l->m->nvars; i++) {
            used = used || str_eq(l->m->vars[i].name, fresh);
        }
        if (!used) {
            return fresh;
        }
    }
}

HostExpr *tensor_to_host(Lower *l, Val v, const char *name, Loc loc)
{
    if (v.kind == VAL_param || v.node->dims.rank != 0) {
        lower_error(l, loc, "the program's own statements work on numbers, but this is %s",
                    val_describe(l, v));
        lower_note(l, loc, "mean() or sum() make one number of a tensor");
        return NULL;
    }
    if (v.run->call == NULL) {
        lower_error(l, loc, "this number is not known outside of the evaluation or the batch");
        return NULL;
    }
    name = result_name(l, &v, name != NULL ? name : v.name);
    run_host_result(l, v.run, name, v.node, loc);
    DType dt = v.node->dtype;
    HostType type = dt == DT_bool ? HT_bool : dtype_info[dt].is_float ? HT_float : HT_int;
    return host_var(l, name, type, loc).host;
}

bool val_dims(Val v, Dims *dims, DType *dt)
{
    if (v.kind == VAL_tensor) {
        *dims = v.node->dims;
        *dt = v.node->dtype;
        return true;
    }
    if (v.kind == VAL_param) {
        *dims = v.tensor->dims;
        *dt = v.tensor->dtype;
        return true;
    }
    return false;
}

/* ---- operators ------------------------------------------------------------------------------------- */

static bool both_nodes(Lower *l, Val a, Val b, const Ast *e, Node **x, Node **y)
{
    /* the tensor first: a number beside it takes its type */
    bool left = val_is_tensor(a);
    Val first = left ? a : b, second = left ? b : a;
    Node *p = tensor_of(l, first, left ? e->left->loc : e->right->loc);
    if (p == NULL) {
        return false;
    }
    bool fraction = e->op == AST_OP_div || e->op == AST_OP_pow;
    DType like = fraction && !dtype_info[p->dtype].is_float ? DT_f32 : p->dtype;
    Node *q = tensor_like(l, second, like, left ? e->right->loc : e->left->loc);
    if (q == NULL) {
        return false;
    }
    *x = left ? p : q;
    *y = left ? q : p;
    return true;
}

static Val tensor_power(Lower *l, Node *x, Val b, Node *y)
{
    if (val_is_number(b)) {
        double e = val_number(b);
        DType dt = dtype_info[x->dtype].is_float ? x->dtype : DT_f32;
        if (e == 2) {
            return val_of_node(l, op1(l, OP_square, op_cast(l, x, dt)));
        }
        if (e == 0.5) {
            return val_of_node(l, op1(l, OP_sqrt, op_cast(l, x, dt)));
        }
        if (e == -1) {
            return val_of_node(l, op1(l, OP_reciprocal, op_cast(l, x, dt)));
        }
    }
    return val_of_node(l, op2(l, OP_pow, x, y));
}

Val tensor_binary(Lower *l, AstOp op, Val a, Val b, const Ast *e)
{
    static const Op ops[AST_OP_COUNT] = {
        [AST_OP_add] = OP_add, [AST_OP_sub] = OP_sub, [AST_OP_mul] = OP_mul, [AST_OP_div] = OP_div,
        [AST_OP_lt] = OP_lt,   [AST_OP_le] = OP_le,   [AST_OP_gt] = OP_gt,   [AST_OP_ge] = OP_ge,
        [AST_OP_eq] = OP_eq,   [AST_OP_ne] = OP_ne,   [AST_OP_and] = OP_and, [AST_OP_or] = OP_or,
    };
    Node *x, *y;
    run_settle(l, (Val[]){a, b}, 2);
    if (!both_nodes(l, a, b, e, &x, &y)) {
        return val_poison();
    }
    switch (op) {
    case AST_OP_matmul: return val_of_node(l, op_matmul(l, x, y));
    case AST_OP_pow: return tensor_power(l, x, b, y);
    case AST_OP_fdiv: {
        bool ints = dtype_info[x->dtype].is_int && dtype_info[y->dtype].is_int;
        DType dt = common(x->dtype, y->dtype);
        Node *q = op1(l, OP_floor, op2(l, OP_div, x, y));
        return val_of_node(l, ints ? op_cast(l, q, dt) : q);
    }
    case AST_OP_mod: {
        bool ints = dtype_info[x->dtype].is_int && dtype_info[y->dtype].is_int;
        Node *q = op1(l, OP_floor, op2(l, OP_div, x, y));
        q = ints ? op_cast(l, q, common(x->dtype, y->dtype)) : q;
        return val_of_node(l, op2(l, OP_sub, x, op2(l, OP_mul, q, y)));
    }
    default: return val_of_node(l, op2(l, ops[op], x, y));
    }
}
