/* plan_lower.c: a module whose passes have run becomes a plan.
 *
 * Needs:   decomposed graphs.
 * Leaves:  a plan that codegen can spell: every buffer has a place, every graph its launches.
 *
 * Here: buffers and their names, what a graph's caller moves in and out. Fusion is fuse.c, kernels kernel_build.c,
 * order schedule.c, offsets memory.c. */
#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "ir/base/strutil.h"
#include "passes/kernel_build.h"
#include "passes/schedule.h"

/* ---- names and buffers --------------------------------------------------------------------------------- */

const char *plan_identifier(Plan *p, const char *text)
{
    char *name = arena_strdup(p->arena, *text != '\0' ? text : "x");
    for (char *c = name; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) || (unsigned char)*c > 126) {
            *c = '_';
        }
    }
    if (isdigit((unsigned char)name[0])) {
        name = arena_printf(p->arena, "_%s", name);
    }
    int *next = strmap_get(&p->names, name);
    if (next == NULL) {
        strmap_put(p->arena, &p->names, name, 2);
        return name;
    }
    const char *unique;
    do {
        unique = arena_printf(p->arena, "%s_%d", name, (*next)++);
    } while (strmap_get(&p->names, unique) != NULL);
    strmap_put(p->arena, &p->names, unique, 2);
    return unique;
}

Buffer *plan_buffer(Plan *p, const char *name, const Graph *g, BufferPlace place, BufferRole role,
                    DType dt, const Dims *dims)
{
    Buffer *b = ARENA_NEW(p->arena, Buffer);
    b->name = plan_identifier(p, name);
    b->graph = g;
    b->place = place;
    b->role = role;
    b->dtype = dt;
    b->dims = *dims;
    b->bytes = dims_bytes(g, dims, dt);
    b->first = INT_MAX;
    b->last = -1;
    p->buffers = vec_room(p->arena, p->buffers, p->nbuffers, &p->bcap, sizeof p->buffers[0]);
    b->id = p->nbuffers;
    p->buffers[p->nbuffers++] = b;
    return b;
}

static const BufferRole role_of[TENSOR_ROLES] = {
    [TENSOR_param] = BUFFER_param,     [TENSOR_state] = BUFFER_state,
    [TENSOR_moment] = BUFFER_moment,   [TENSOR_scaler] = BUFFER_scaler,
    [TENSOR_working] = BUFFER_working, [TENSOR_grad] = BUFFER_gradient,
    [TENSOR_before] = BUFFER_state,    [TENSOR_ema] = BUFFER_ema,
};

/* What a reader calls it. */
static const char *what_of(TensorRole role)
{
    return role == TENSOR_ema ? "EMA" : tensor_role_name[role];
}

static void persistent_buffers(Plan *p)
{
    int64_t offset = 0;
    for (int i = 0; i < p->module->ntensors; i++) {
        const Tensor *t = p->module->tensors[i];
        Buffer *b =
            plan_buffer(p, t->name, NULL, PLACE_persistent, role_of[t->role], t->dtype, &t->dims);
        b->tensor = t;
        strmap_put(p->arena, &p->tensors, t->name, b->id);
        b->what =
            t->of != NULL ? arena_printf(p->arena, "%s of %s", what_of(t->role), t->of) : t->name;
        b->loc = t->loc;
        b->first = 0;
        b->last = INT_MAX;
        b->offset = offset;
        offset += arena_aligned(b->bytes);
    }
    p->persistent_bytes = offset;
}

static Buffer *tensor_buffer(Plan *p, const char *name)
{
    const int *id = strmap_get(&p->tensors, name);
    if (id == NULL) {
        ICE("no tensor %s in the module", name);
    }
    return p->buffers[*id];
}

/* ---- a graph's arguments ------------------------------------------------------------------------------- */

static Buffer *number_in(GraphBuild *b, GraphPlan *gp, const Node *arg)
{
    Plan *p = b->plan;
    const HostExpr *expr = attrs_expr(&arg->attrs, ATTR_host);
    const char *optimizer = attrs_str(&arg->attrs, ATTR_lr);
    const char *name = optimizer != NULL   ? arena_printf(p->arena, "%s_lr", optimizer)
                       : arg->name != NULL ? arg->name
                                           : host_expr_text(p->arena, expr);
    Buffer *buffer =
        plan_buffer(p, name, gp->graph, b->place, BUFFER_number, arg->dtype, &arg->dims);
    buffer->what = expr != NULL ? host_expr_text(p->arena, expr) : "learning rate";
    int n = gp->nnumbers_in++;
    gp->numbers_in[n].buffer = buffer;
    gp->numbers_in[n].expr = expr;
    gp->numbers_in[n].optimizer = optimizer;
    return buffer;
}

static Buffer *field_in(GraphBuild *b, GraphPlan *gp, const Node *arg, const char *field)
{
    Buffer *buffer =
        plan_buffer(b->plan, field, gp->graph, PLACE_field, BUFFER_input, arg->dtype, &arg->dims);
    buffer->field = field;
    buffer->what = "from the loader";
    gp->fields[gp->nfields++] = buffer;
    return buffer;
}

static Buffer *argument(GraphBuild *b, GraphPlan *gp, const Node *arg)
{
    const char *param = attrs_str(&arg->attrs, ATTR_param),
               *state = attrs_str(&arg->attrs, ATTR_state);
    const char *field = attrs_str(&arg->attrs, ATTR_batch);
    if (param != NULL || state != NULL) {
        return tensor_buffer(b->plan, param != NULL ? param : state);
    }
    if (field != NULL) {
        return field_in(b, gp, arg, field);
    }
    if (attrs_bool(&arg->attrs, ATTR_rng)) {
        return field_in(b, gp, arg, "rng");
    }
    return number_in(b, gp, arg);
}

/* ---- a graph's results --------------------------------------------------------------------------------- */

static Buffer *transient(GraphBuild *b, const Node *n)
{
    bool again = n->why != NULL && (str_starts(n->why, WHY_AGAIN) || str_starts(n->why, WHY_SHORT));
    bool backward = !again && n->why != NULL && str_starts(n->why, WHY_BACKWARD);
    const char *name = n->name != NULL ? n->name : op_info[n->op].name;
    Buffer *buffer =
        plan_buffer(b->plan, name, b->f->g, b->place,
                    backward ? BUFFER_gradient : BUFFER_activation, n->dtype, &n->dims);
    const char *of = n->name != NULL ? arena_printf(b->plan->arena, " of %s", n->name) : "";
    buffer->what = arena_printf(b->plan->arena, "%s%s", op_info[n->op].name, of);
    buffer->loc = n->loc;
    return buffer;
}

typedef struct CopyBack {
    const Buffer *from, *to;
} CopyBack;
typedef VEC(CopyBack) CopyBacks;

static void state_result(GraphBuild *b, const Result *r, CopyBacks *copies)
{
    Node *v = r->value;
    if (v->op == OP_arg) {
        return; /* unchanged */
    }
    Node *arg = graph_find_arg(b->f->g, ATTR_param, r->name);
    arg = arg != NULL ? arg : graph_find_arg(b->f->g, ATTR_state, r->name);
    Buffer *to = tensor_buffer(b->plan, r->name);
    if (schedule_in_place(b->f, v, arg)) {
        b->buffer[v->id] = to;
        return;
    }
    b->buffer[v->id] = transient(b, v);
    vec_push(b->plan->arena, copies, ((CopyBack){b->buffer[v->id], to}));
}

/* Two results may be one value, and one may be an argument as it came. */
static const Buffer *host_result(GraphBuild *b, GraphPlan *gp, const Result *r)
{
    Node *v = r->value;
    Buffer *out = b->buffer[v->id];
    if (out == NULL && v->op == OP_arg) {
        out = argument(b, gp, v);
    } else if (out == NULL) {
        out = plan_buffer(b->plan, r->name, gp->graph, b->place, BUFFER_number, v->dtype, &v->dims);
        out->what = "for the host";
    }
    b->buffer[v->id] = out;
    return out;
}

static void results(GraphBuild *b, GraphPlan *gp, CopyBacks *copies)
{
    const Graph *g = gp->graph;
    for (int i = 0; i < g->nresults; i++) {
        const Result *r = &g->results[i];
        Node *v = r->value;
        if (r->kind == RESULT_State) {
            state_result(b, r, copies);
        } else if (r->kind == RESULT_Field) {
            bool prepares = g->role == GRAPH_Prepare;
            Buffer *out = plan_buffer(b->plan, r->name, g, prepares ? PLACE_field : b->place,
                                      BUFFER_output, v->dtype, &v->dims);
            out->field = r->name;
            out->what = prepares ? "prepared" : "the model's answer";
            b->buffer[v->id] = out;
            gp->outputs[gp->noutputs++] = out;
        } else {
            gp->numbers_out[gp->nnumbers_out].buffer = host_result(b, gp, r);
            gp->numbers_out[gp->nnumbers_out].printed = r->kind == RESULT_Print;
            gp->numbers_out[gp->nnumbers_out++].name = r->name;
        }
    }
}

/* Everything that a cluster reads is in memory. */
static void needed_buffers(GraphBuild *b, GraphPlan *gp)
{
    for (int i = 0; i < b->f->clusters.n; i++) {
        const Cluster *c = b->f->clusters.at[i];
        for (int k = 0; k < c->reads.n; k++) {
            Node *root = c->reads.at[k];
            if (b->buffer[root->id] == NULL) {
                b->buffer[root->id] =
                    root->op == OP_arg ? argument(b, gp, root) : transient(b, root);
            }
        }
    }
}

/* The old value was still needed: the new one was made elsewhere and moves at the end. */
static void add_copies(Plan *p, GraphPlan *gp, const CopyBacks *copies)
{
    if (copies->n == 0) {
        return;
    }
    Launch *launches = ARENA_ARRAY(p->arena, Launch, gp->nlaunches + 1);
    memcpy(launches, gp->launches, (size_t)gp->nlaunches * sizeof *launches);
    gp->launches = launches;
    Launch *last = &launches[gp->nlaunches++];
    last->calls = ARENA_ARRAY(p->arena, KCall, copies->n);
    for (int i = 0; i < copies->n; i++) {
        last->calls[last->ncalls++] =
            build_copy(p, gp->graph, copies->at[i].from, copies->at[i].to);
    }
}

/* A kernel's cost is that of its first call; one of any size may be called with others. */
static double call_share(const Graph *g, const KCall *call)
{
    double first = (double)dim_bound(g, call->kernel->space.d[0]);
    return call->kernel->any_size ? (double)dim_bound(g, call->space.d[0]) / first : 1;
}

static void plan_graph(Plan *p, GraphPlan *gp, Graph *g, const PlanOptions *opt)
{
    gp->graph = g;
    Fusion *f = fuse_graph(p->arena, g);
    int most = g->nnodes + g->nresults;
    gp->fields = ARENA_ARRAY(p->arena, const Buffer *, most);
    gp->outputs = ARENA_ARRAY(p->arena, const Buffer *, most);
    gp->numbers_in = arena_array(p->arena, (size_t)most, sizeof *gp->numbers_in);
    gp->numbers_out = arena_array(p->arena, (size_t)most, sizeof *gp->numbers_out);
    GraphBuild b = {.plan = p, .f = f, .isa = opt->isa};
    b.place = g->role == GRAPH_Prepare ? PLACE_prepare : PLACE_transient;
    b.buffer = ARENA_ARRAY(p->arena, Buffer *, g->nnodes);
    b.scalar = ARENA_ARRAY(p->arena, ScalarOf, g->nnodes);
    CopyBacks copies = {0};
    results(&b, gp, &copies);
    needed_buffers(&b, gp);
    BuiltCalls calls = {0};
    for (int i = 0; i < f->clusters.n; i++) {
        build_cluster(&b, f->clusters.at[i], &calls);
    }
    schedule_launches(p->arena, f, &calls, gp);
    add_copies(p, gp, &copies);
    memory_plan(p->arena, p, gp, b.place);
    int64_t bytes = gp->transient_bytes, bound = gp->lower_bound;
    if (b.place == PLACE_prepare) {
        p->prepare_bytes = bytes > p->prepare_bytes ? bytes : p->prepare_bytes;
    } else {
        p->transient_bytes = bytes > p->transient_bytes ? bytes : p->transient_bytes;
        p->lower_bound = bound > p->lower_bound ? bound : p->lower_bound;
    }
    for (int l = 0; l < gp->nlaunches; l++) {
        for (int c = 0; c < gp->launches[l].ncalls; c++) {
            const KCall *call = &gp->launches[l].calls[c];
            double share = call_share(g, call);
            gp->flops += share * call->kernel->flops;
            gp->bytes += share * call->kernel->bytes;
        }
    }
}

Plan *plan_module(Arena *arena, Module *m, const PlanOptions *opt)
{
    Plan *p = ARENA_NEW(arena, Plan);
    p->module = m;
    p->arena = arena;
    p->ngraphs = m->ngraphs;
    p->graphs = ARENA_ARRAY(arena, GraphPlan, m->ngraphs);
    persistent_buffers(p);
    for (int i = 0; i < m->ngraphs; i++) {
        plan_graph(p, &p->graphs[i], m->graphs[i], opt);
    }
    p->arena_bytes = p->persistent_bytes + p->transient_bytes;
    return p;
}
