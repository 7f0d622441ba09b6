/* tables.c: what a program says of itself to the runtime: options, tensors, modules, MpcProgram. */
#include <limits.h>
#include <string.h>

#include "codegen/program.h"
#include "codegen/unit.h"
#include "ir/base/strutil.h"

static bool options_emit(Emit *e)
{
    int n;
    Decl **options = module_decls(e, DECL_option, &n);
    if (n == 0) {
        return false;
    }
    ln_open(e, "static const MpcOption options[] =");
    for (int i = 0; i < n; i++) {
        HostType type = HT_float;
        option_type(options[i], &type);
        static const char *const name[] = {
            [HT_int] = "int", [HT_float] = "float", [HT_bool] = "bool", [HT_str] = "string"};
        const HostExpr *value = attrs_expr(&options[i]->attrs, ATTR_default);
        Text *t = text_new(e->arena);
        if (type == HT_str) {
            text_printf(t, ".text = %s", quoted(e->arena, value != NULL ? value->text : ""));
        } else {
            bool minus = value != NULL && value->kind == HE_unary;
            double number = value == NULL ? 0 : minus ? -value->in[0]->num : value->num;
            text_printf(t, ".number = %s", number_text(e->arena, DT_f64, number));
        }
        Loc loc = options[i]->loc;
        const char *origin = loc.line > 0 && loc.file != NULL
                                 ? arena_printf(e->arena, "%s:%d", loc.file->path, loc.line)
                                 : "-D";
        ln(e, "{.name = %s, .type = MPC_OPTION_%s, %s, .origin = %s%s%s},",
           quoted(e->arena, options[i]->name), name[type], t->at, quoted(e->arena, origin),
           attrs_bool(&options[i]->attrs, ATTR_shape_bound) ? ", .bounded = true" : "",
           attrs_bool(&options[i]->attrs, ATTR_fixed) ? ", .fixed = true" : "");
    }
    ln_close(e, ";");
    ln_blank(e);
    return true;
}

/* ---- tensors --------------------------------------------------------------------------------------- */

static const Node *behind_moves(const Node *n)
{
    while (n->nin == 1 && op_info[n->op].kind == KIND_Move) {
        n = n->in[0];
    }
    return n;
}

/* The types that the graphs cast parameters to, by name: a working copy's, or that of a cast. */
static StrMap find_used_as(const Emit *e)
{
    StrMap used = {0};
    for (int i = 0; i < e->m->ntensors; i++) {
        const Tensor *copy = e->m->tensors[i];
        if (copy->role == TENSOR_working) {
            strmap_put(e->arena, &used, copy->of, copy->dtype);
        }
    }
    for (int i = 0; i < e->m->ngraphs; i++) {
        const Graph *g = e->m->graphs[i];
        for (int k = 0; k < g->nnodes; k++) {
            const Node *n = g->nodes[k];
            const Node *arg =
                n->op == OP_cast && dtype_is_low(n->dtype) ? behind_moves(n->in[0]) : NULL;
            const char *param = arg != NULL ? attrs_str(&arg->attrs, ATTR_param) : NULL;
            if (param != NULL) {
                strmap_put(e->arena, &used, param, n->dtype);
            }
        }
    }
    return used;
}

static const char *init_text(Emit *e, const Tensor *t)
{
    const char *kind = attrs_str(&t->init, ATTR_kind);
    double low = attrs_float(&t->init, ATTR_low, 0), high = attrs_float(&t->init, ATTR_high, 0);
    if (kind == NULL || str_eq(kind, "zeros")) {
        return ".init = MPC_INIT_constant";
    }
    if (str_eq(kind, "ones")) {
        low = 1;
        kind = "constant";
    }
    return arena_printf(e->arena, ".init = MPC_INIT_%s, .a = %s, .b = %s", kind,
                        number_text(e->arena, DT_f64, low), number_text(e->arena, DT_f64, high));
}

static void tensors_emit(Emit *e)
{
    const StrMap used_as = find_used_as(e);
    ln_open(e, "static const MpcTensor tensors[] =");
    for (int i = 0; i < e->plan->nbuffers; i++) {
        const Buffer *b = e->plan->buffers[i];
        const Tensor *t = b->tensor;
        if (t == NULL) {
            continue;
        }
        Text *dims = text_new(e->arena);
        for (int k = 0; k < t->dims.rank; k++) {
            text_printf(dims, "%s%lld", k > 0 ? ", " : "", (long long)t->dims.d[k].k);
        }
        ln_in(e, "{");
        ln(e, ".name = %s, .role = MPC_ROLE_%s, .dtype = MPC_DT_%s,", quoted(e->arena, t->name),
           tensor_role_name[t->role], dtype_info[t->dtype].name);
        ln(e, ".rank = %d, .dims = {%s}, .offset = 0x%06llx,", t->dims.rank,
           dims->n > 0 ? dims->at : "0", (long long)b->offset);
        const int *low = t->role == TENSOR_param ? strmap_get(&used_as, t->name) : NULL;
        ln(e, "%s, .used_as = MPC_DT_%s, .line = %d,", init_text(e, t),
           low == NULL ? "none" : dtype_info[*low].name, own_line(e->m, t->loc));
        if (t->role == TENSOR_ema && t->of != NULL) {
            ln(e, ".of = %s,", quoted(e->arena, t->of));
        }
        ln_close(e, ",");
    }
    ln_close(e, ";");
    ln_blank(e);
}

/* ---- modules ------------------------------------------------------------------------------ */

static const char *module_path(Arena *a, const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL ? arena_strndup(a, name, (size_t)(dot - name)) : "";
}

static int64_t elements(const Tensor *t)
{
    Dim n = dim_of(1);
    dims_count(&t->dims, &n);
    return n.k;
}

/* "weight (512, 784), bias (512)": the parameters that a layer itself owns; *params counts their numbers. */
static const char *own_parameters(Emit *e, const char *path, int64_t *params)
{
    Text *shape = text_new(e->arena);
    for (int i = 0; i < e->m->ntensors; i++) {
        const Tensor *t = e->m->tensors[i];
        if (t->role == TENSOR_param && str_eq(module_path(e->arena, t->name), path)) {
            const char *leaf = t->name + (path[0] != 0 ? strlen(path) + 1 : 0);
            text_printf(shape, "%s%s %s", shape->n > 0 ? ", " : "", leaf,
                        shape_text(e->arena, NULL, &t->dims));
            *params += elements(t);
        }
    }
    return shape->at;
}

static int modules_emit(Emit *e)
{
    int rows;
    Decl **layers = module_decls(e, DECL_layer, &rows);
    if (rows == 0) {
        return 0;
    }
    ln_open(e, "static const MpcModuleRow modules[] =");
    for (int i = 0; i < rows; i++) {
        int64_t params = 0;
        const char *shape = own_parameters(e, layers[i]->name, &params);
        ln(e, "{%s, %s, %s, %lld},", quoted(e->arena, layers[i]->name),
           quoted(e->arena, attrs_str(&layers[i]->attrs, ATTR_kind)), quoted(e->arena, shape),
           (long long)params);
    }
    ln_close(e, ";");
    ln_blank(e);
    return rows;
}

/* ---- the whole ------------------------------------------------------------------------------------- */

const char *precision_key(const Module *m)
{
    return m->precision == DT_f16    ? "fp16"
           : m->precision == DT_none ? "f32"
                                     : dtype_info[m->precision].name;
}

static const char *precision_text(Emit *e)
{
    if (e->m->precision == DT_none || e->m->precision == DT_f32) {
        return "f32";
    }
    int scalers;
    module_decls(e, DECL_scaler, &scalers);
    bool masters = false;
    for (int i = 0; i < e->m->ntensors; i++) {
        const Tensor *t = e->m->tensors[i];
        masters |= t->role == TENSOR_param && t->dtype == DT_f32;
    }
    return arena_printf(e->arena, "%s (autocast%s%s)", precision_key(e->m),
                        scalers > 0 ? ", dynamic loss scale" : "", masters ? ", f32 masters" : "");
}

static int64_t parameter_count(const Module *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->ntensors; i++) {
        n += m->tensors[i]->role == TENSOR_param ? elements(m->tensors[i]) : 0;
    }
    return n;
}

static int count_tensors(const Plan *p)
{
    int n = 0;
    for (int i = 0; i < p->nbuffers; i++) {
        n += p->buffers[i]->tensor != NULL;
    }
    return n;
}

static void table(Emit *e, const char *name, int n)
{
    if (n > 0) {
        ln(e, ".%s = %s, .n_%s = %d,", name, name, name, n);
    }
}

void tables_emit(Emit *e, const HostText *h)
{
    const Plan *p = e->plan;
    int noptions, ndata, nsources = 0, ntensors = count_tensors(p);
    ln(e, "/* ---- what the program says of itself ---- */");
    ln_blank(e);
    options_emit(e);
    module_decls(e, DECL_option, &noptions);
    int nchecks = data_tables_emit(e, h);
    int nclasses = class_names_emit(e);
    Decl **data = module_decls(e, DECL_data, &ndata);
    for (int i = 0; i < ndata; i++) {
        nsources += attrs_str(&data[i]->attrs, ATTR_of) == NULL;
    }
    if (ntensors > 0) {
        tensors_emit(e);
    }
    int nvars = host_vars_emit(e, h);
    int nmodules = modules_emit(e);
    memory_plan_emit(e);
    int nfunctions = kernel_table_emit(e);
    gpu_tables_emit(e, h);
    bool refreshes = false, predicts = predict_emit(e, h);
    for (int i = 0; i < e->m->ntensors; i++) {
        refreshes |= e->m->tensors[i]->role == TENSOR_working;
    }
    ln_open(e, "const MpcProgram mpc_program =");
    ln(e, ".name = %s,", quoted(e->arena, e->m->name));
    ln(e, ".source = %s,", quoted(e->arena, e->m->source));
    ln(e, ".home = %s,", quoted(e->arena, e->opt->home));
    ln(e, ".version = %s,", quoted(e->arena, e->opt->version));
    ln(e, ".precision = %s,", quoted(e->arena, precision_text(e)));
    ln(e, ".precision_key = %s,", quoted(e->arena, precision_key(e->m)));
    ln(e, ".math = \"exact\",");
    ln(e, ".cpu = %s,", quoted(e->arena, e->opt->cpu));
    ln(e, ".cpu_needs = %s,", quoted(e->arena, e->opt->needs));
    table(e, "options", noptions);
    table(e, "data", nsources);
    table(e, "sets", ndata);
    table(e, "label_checks", nchecks);
    table(e, "loaders", h->nloaders);
    table(e, "tensors", ntensors);
    table(e, "modules", nmodules);
    table(e, "functions", nfunctions);
    table(e, "classes", nclasses);
    gpu_tables_member(e);
    memory_plan_member(e);
    ln(e, ".vars = variables, .n_vars = %d,", nvars);
    host_fingerprints_emit(e, h);
    ln(e, ".parameters = %lld,", (long long)parameter_count(e->m));
    ln(e, ".arena_bytes = %lld,", (long long)((p->arena_bytes + 4095) / 4096 * 4096));
    ln(e, ".scratch_bytes = %lld,", (long long)p->thread_scratch);
    ln(e, ".host_bytes = sizeof(struct Vars),");
    if (refreshes) {
        ln(e, ".refresh = refresh,");
    }
    ln(e, ".run = run,");
    if (h->nevaluates > 0) {
        ln(e, ".evaluate = evaluate,");
    }
    if (predicts) {
        ln(e, ".predict = &prediction,");
    }
    ln_close(e, ";");
}
