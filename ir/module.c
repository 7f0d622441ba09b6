/* module.c: modules and their lists: declarations, tensors, graphs, variables. */
#include <string.h>

#include "ir/ir.h"

#include "ir/base/strutil.h"
#include "ir/base/vec.h"

const char *const decl_name[DECL_COUNT] = {
    [DECL_layer] = "layer",         [DECL_option] = "option",       [DECL_data] = "data",
    [DECL_loader] = "loader",       [DECL_optimizer] = "optimizer", [DECL_group] = "group",
    [DECL_scheduler] = "scheduler", [DECL_scaler] = "scaler",       [DECL_ema] = "ema",
};

const char *const tensor_role_name[TENSOR_ROLES] = {
    [TENSOR_param] = "param",   [TENSOR_state] = "state",     [TENSOR_moment] = "moment",
    [TENSOR_scaler] = "scaler", [TENSOR_working] = "working", [TENSOR_grad] = "grad",
    [TENSOR_before] = "before", [TENSOR_ema] = "ema",
};

Module *module_new(Arena *arena, const char *name, const char *source)
{
    Module *m = ARENA_NEW(arena, Module);
    m->arena = arena;
    m->name = arena_strdup(arena, name);
    m->source = arena_strdup(arena, source);
    m->last_pass = "lower";
    return m;
}

Decl *module_decl(Module *m, DeclKind kind, const char *name)
{
    Decl *d = ARENA_NEW(m->arena, Decl);
    d->kind = kind;
    d->name = arena_strdup(m->arena, name);
    m->decls = vec_room(m->arena, m->decls, m->ndecls, &m->dcap, sizeof m->decls[0]);
    m->decls[m->ndecls++] = d;
    return d;
}

Decl *module_find(const Module *m, DeclKind kind, const char *name)
{
    for (int i = 0; i < m->ndecls; i++) {
        if (m->decls[i]->kind == kind && str_eq(m->decls[i]->name, name)) {
            return m->decls[i];
        }
    }
    return NULL;
}

bool decl_lists_param(const Decl *d, const char *param)
{
    const Attr *params = attrs_find(&d->attrs, ATTR_params);
    for (int i = 0; params != NULL && i < params->strs.n; i++) {
        if (str_eq(params->strs.v[i], param)) {
            return true;
        }
    }
    return false;
}

bool optimizer_moves(const Decl *optimizer, const char *param)
{
    return attrs_find(&optimizer->attrs, ATTR_params) == NULL || decl_lists_param(optimizer, param);
}

bool param_in_model(const char *param, const char *model)
{
    size_t n = model != NULL ? strlen(model) : 0;
    return n == 0 || (strncmp(param, model, n) == 0 && (param[n] == '.' || param[n] == 0));
}

const Decl *module_group(const Module *m, const Decl *optimizer, const char *param)
{
    for (int i = 0; i < m->ndecls; i++) {
        const Decl *d = m->decls[i];
        bool owns =
            d->kind == DECL_group && str_eq(attrs_str(&d->attrs, ATTR_optimizer), optimizer->name);
        if (owns && decl_lists_param(d, param)) {
            return d;
        }
    }
    return NULL;
}

HostExpr *module_hyper(const Decl *optimizer, const Decl *group, AttrId id)
{
    HostExpr *e = group != NULL ? attrs_expr(&group->attrs, id) : NULL;
    return e != NULL ? e : attrs_expr(&optimizer->attrs, id);
}

Tensor *module_tensor(Module *m, const char *name, TensorRole role, DType dt, const Dims *dims)
{
    Tensor *t = ARENA_NEW(m->arena, Tensor);
    t->name = arena_strdup(m->arena, name);
    t->role = role;
    t->dtype = dt;
    if (dims != NULL) {
        t->dims = *dims;
    }
    m->tensors = vec_room(m->arena, m->tensors, m->ntensors, &m->tcap, sizeof m->tensors[0]);
    m->tensors[m->ntensors++] = t;
    return t;
}

void module_drop_decl(Module *m, const Decl *d)
{
    int n = 0;
    for (int i = 0; i < m->ndecls; i++) {
        if (m->decls[i] != d) {
            m->decls[n++] = m->decls[i];
        }
    }
    m->ndecls = n;
}

Tensor *module_find_tensor(const Module *m, const char *name)
{
    for (int i = 0; i < m->ntensors; i++) {
        if (str_eq(m->tensors[i]->name, name)) {
            return m->tensors[i];
        }
    }
    return NULL;
}

static bool takes_kept_gradients(const Module *m, const Graph *g)
{
    bool takes = false;
    for (int i = 0; i < g->nnodes; i++) {
        const char *state =
            g->nodes[i]->op == OP_arg ? attrs_str(&g->nodes[i]->attrs, ATTR_state) : NULL;
        const Tensor *t = state != NULL ? module_find_tensor(m, state) : NULL;
        takes = takes || (t != NULL && t->role == TENSOR_grad);
    }
    return takes;
}

const Tensor *module_before(const Module *m, const Graph *g, const Tensor *t)
{
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *before = m->tensors[i];
        if (before->role == TENSOR_before && str_eq(before->of, t->name)) {
            return takes_kept_gradients(m, g) ? before : NULL;
        }
    }
    return NULL;
}

void module_graph(Module *m, Graph *g)
{
    m->graphs = vec_room(m->arena, m->graphs, m->ngraphs, &m->gcap, sizeof m->graphs[0]);
    m->graphs[m->ngraphs++] = g;
}

Graph *module_find_graph(const Module *m, const char *name)
{
    for (int i = 0; i < m->ngraphs; i++) {
        if (str_eq(m->graphs[i]->name, name)) {
            return m->graphs[i];
        }
    }
    return NULL;
}

const Graph *loader_prepare(const Module *m, const Decl *loader)
{
    AttrId first = attrs_bool(&loader->attrs, ATTR_evaluation) ? ATTR_prepare_eval : ATTR_prepare;
    const Decl *d = module_find(m, DECL_data, attrs_str(&loader->attrs, ATTR_dataset));
    /* Parts are of earlier sets (verify_data), so this ends. */
    for (int depth = 0; d != NULL && depth < m->ndecls; depth++) {
        const char *name = attrs_str(&d->attrs, first), *of = attrs_str(&d->attrs, ATTR_of);
        if (name != NULL) {
            return module_find_graph(m, name);
        }
        d = of != NULL ? module_find(m, DECL_data, of) : NULL;
    }
    return NULL;
}

HostVar *module_find_var(const Module *m, const char *name)
{
    for (int i = 0; i < m->nvars; i++) {
        if (str_eq(m->vars[i].name, name)) {
            return &m->vars[i];
        }
    }
    return NULL;
}

HostVar *module_var(Module *m, const char *name, HostType type)
{
    HostVar *found = module_find_var(m, name);
    if (found != NULL) {
        return found;
    }
    m->vars = vec_room(m->arena, m->vars, m->nvars, &m->vcap, sizeof m->vars[0]);
    m->vars[m->nvars] = (HostVar){arena_strdup(m->arena, name), type};
    return &m->vars[m->nvars++];
}

/* What only moves or converts values is not counted. */
int module_again(const Module *m, const char *why)
{
    int n = 0;
    for (int i = 0; i < m->ngraphs; i++) {
        const Graph *g = m->graphs[i];
        for (int k = 0; k < g->nnodes && g->role == GRAPH_Step; k++) {
            const Node *node = g->nodes[k];
            OpKind kind = op_info[node->op].kind;
            bool counts =
                kind != KIND_Leaf && kind != KIND_Move && kind != KIND_Alias && kind != KIND_Cast;
            n += counts && node->why != NULL && str_starts(node->why, why);
        }
    }
    return n;
}
