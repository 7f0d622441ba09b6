/* ir.h: the intermediate representation that everything between the frontend and the planner
 * speaks.
 *
 * A Module is one training program: declarations (options, data sets, tensors, optimizers, ...),
 * graphs and the host program. A Graph is pure SSA over tensors: every node is a value, arguments
 * bring state in and results carry it out, nothing is updated in place. The host program is
 * structured control flow over plain numbers that calls graphs. All of it lives in the module's
 * arena and has one text form (print.c, read.c), which is complete: reading it back gives the same
 * module.
 *
 * Shapes are row-major; dim 0 is the outermost. A dim is a constant or a multiple of symbols of the
 * graph. Read next: ops.def (the table), shape.c (type rules), passes/pass.h (who changes graphs),
 * plan.h. */
#ifndef MPC_IR_H
#define MPC_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ir/base/arena.h"
#include "ir/base/diag.h"

/* ---- tables ---------------------------------------------------------------------------------- */

enum { MAX_RANK = 8, MAX_SYMS = 8 };

typedef enum DType {
    DT_none,
#define DTYPE(name, ctype, bytes, kind, st, doc) DT_##name,
#include "runtime/abi/dtypes.def"
    DT_grads, /* the set of gradients that markers pass on; none is left after the scaling pass */
    DT_COUNT
} DType;

typedef enum Op {
#define MAP(name, in, cast, gradient, expression, meaning) OP_##name,
#define OP(name, in, attributes, shape, cast, gradient, kind, meaning) OP_##name,
#define MARK(name, in, attributes, meaning) OP_##name,
#include "ir/ops.def"
    OP_COUNT
} Op;

typedef enum CastClass { CAST_None, CAST_Low, CAST_Float, CAST_Widest, CAST_Follow } CastClass;

/* What the fuser makes of an op. */
typedef enum OpKind {
    KIND_Map,
    KIND_Leaf,
    KIND_Cast,
    KIND_Alias,
    KIND_Move,
    KIND_Contract,
    KIND_Reduce,
    KIND_Gather,
    KIND_Scatter,
    KIND_Mark
} OpKind;

/* What an evaluation measures. */
typedef enum MetricFeed {
#define METRIC_FEED(name, values, cells, meaning) FEED_##name,
#define METRIC(name, feed, better, formals, meaning)
#include "runtime/abi/metrics.def"
} MetricFeed;

typedef enum Metric {
    METRIC_mean,
#define METRIC_FEED(name, values, cells, meaning)
#define METRIC(name, feed, better, formals, meaning) METRIC_##name,
#include "runtime/abi/metrics.def"
    METRIC_COUNT
} Metric;

typedef enum AttrId {
#define ATTR(name, type, meaning) ATTR_##name,
#include "ir/attrs.def"
    ATTR_COUNT
} AttrId;

typedef enum AttrType {
    AT_Int,
    AT_Float,
    AT_Bool,
    AT_Str,
    AT_Ints,
    AT_Floats,
    AT_Strs,
    AT_Dtype,
    AT_Expr
} AttrType;

/* Rows of the tables, as data. */
typedef struct OpInfo {
    const char *name, *meaning, *expression; /* expression: NULL unless KIND_Map */
    int nin;                                 /* -1: one or more */
    CastClass cast;
    OpKind kind;
    const AttrId *attrs; /* those it may carry */
    int nattrs;
} OpInfo;
extern const OpInfo op_info[OP_COUNT];

typedef struct AttrInfo {
    const char *name, *meaning;
    AttrType type;
} AttrInfo;
extern const AttrInfo attr_info[ATTR_COUNT];

typedef struct MetricInfo {
    const char *name;
    MetricFeed feed;
    int nfrom;    /* results of the graph that it takes */
    bool greater; /* is better */
} MetricInfo;
extern const MetricInfo metric_info[METRIC_COUNT];
bool metric_find(const char *name, Metric *metric);
int64_t metric_cells(Metric metric, int64_t n); /* doubles that it is added up in */

typedef struct DTypeInfo {
    const char *name, *ctype, *safetensors;
    int bytes; /* 0 for none and grads */
    bool is_float, is_int, is_bool;
} DTypeInfo;
extern const DTypeInfo dtype_info[DT_COUNT];

bool op_find(const char *name, Op *op);
bool dtype_find(const char *name, DType *dt);
bool attr_find(const char *name, AttrId *id);
/* gives bool whatever its operands are: lt .. ne, and, or, not, isfinite */
bool op_is_predicate(Op op);
bool dtype_is_low(DType dt); /* f16, bf16, f8* */
/* f64 > f32 > 16-bit; f16 with bf16 is f32; float beats int; bool loses; none is neutral */
DType dtype_widest(DType a, DType b);

/* ---- dims ------------------------------------------------------------------------------------ */

/* k * sym[0] * sym[1]; a symbol is an index into the graph's syms plus one, 0 for none;
 * sym[0] >= sym[1]. */
typedef struct Dim {
    int64_t k;
    uint8_t sym[2];
} Dim;

typedef struct Dims {
    int rank;
    Dim d[MAX_RANK];
} Dims;

static inline Dim dim_of(int64_t k)
{
    return (Dim){.k = k};
}
bool dim_is_const(Dim a);
bool dim_equal(Dim a, Dim b);
bool dim_mul(Dim a, Dim b, Dim *out); /* false: more than two symbols or an overflow */
bool dim_div(Dim a, Dim b, Dim *out); /* false: does not divide */
bool dims_equal(const Dims *a, const Dims *b);
bool dims_count(const Dims *a, Dim *out); /* number of elements */

/* ---- attributes ------------------------------------------------------------------------------ */

typedef struct HostExpr HostExpr;

typedef struct Attr {
    AttrId id;
    union {
        int64_t i;
        double f;
        bool b;
        const char *s;
        DType dtype;
        HostExpr *expr;
        struct {
            int n;
            const int64_t *v;
        } ints;
        struct {
            int n;
            const double *v;
        } floats;
        struct {
            int n;
            const char *const *v;
        } strs;
    };
} Attr;

/* Sorted by id; small, so searched in order. */
typedef struct Attrs {
    int n;
    Attr *v;
} Attrs;

const Attr *attrs_find(const Attrs *as, AttrId id);
int64_t attrs_int(const Attrs *as, AttrId id, int64_t otherwise);
double attrs_float(const Attrs *as, AttrId id, double otherwise);
bool attrs_bool(const Attrs *as, AttrId id);
const char *attrs_str(const Attrs *as, AttrId id); /* NULL when absent */
HostExpr *attrs_expr(const Attrs *as, AttrId id);  /* NULL when absent */
/* Replaces one of the same id; a false Bool removes it. The set gets storage of its own, so copies
 * of an Attrs stay as they are. */
void attrs_set(Arena *arena, Attrs *as, Attr attr);
void attrs_set_int(Arena *arena, Attrs *as, AttrId id, int64_t i);
void attrs_set_float(Arena *arena, Attrs *as, AttrId id, double f);
void attrs_set_bool(Arena *arena, Attrs *as, AttrId id, bool b);
void attrs_set_str(Arena *arena, Attrs *as, AttrId id, const char *s);
void attrs_set_ints(Arena *arena, Attrs *as, AttrId id, int n, const int64_t *v);
void attrs_set_floats(Arena *arena, Attrs *as, AttrId id, int n, const double *v);
void attrs_set_strs(Arena *arena, Attrs *as, AttrId id, int n, const char *const *v);
void attrs_set_expr(Arena *arena, Attrs *as, AttrId id, HostExpr *e);
bool attrs_equal(const Attrs *a, const Attrs *b);

/* ---- graphs ---------------------------------------------------------------------------------- */

/* How Node.why begins on nodes that no line of the file stands for. */
#define WHY_BACKWARD "backward of "
#define WHY_OWN_GRAD ": its own gradient" /* in the middle: after WHY_BACKWARD and a module */
#define WHY_UPDATE "update: "
#define WHY_AGAIN WHY_BACKWARD "a checkpoint: " /* the forward's ops, computed again */
#define WHY_SHORT WHY_BACKWARD "a segment: "    /* the same because memory is short */

typedef struct Node Node;
struct Node {
    Op op;
    DType dtype;
    Dims dims;
    int nin;
    Node **in;
    Attrs attrs;
    const char *name; /* what the user would call it: "h.0.attn.q"; NULL for none */
    Loc loc;          /* in the user's file, also for nodes that come from the standard library */
    const char *why;  /* the sentence of --explain; NULL before autocast */
    DType amp;  /* type of the surrounding autocast region; DT_none outside and after autocast */
    int region; /* that the backward computes again: of the file from 1 up, of the pass checkpoint from -1 down; 0: none */
    bool forced; /* the user wrote its type: cast(...), @f32, with precision(...) */
    int id;      /* index in graph->nodes; graph_renumber() keeps it true */
};

/* A result of a graph: the next value of a tensor, a number for the host, or something for each sample: a field of a
 * prepared batch, or, of an Eval graph, the model's answer (`logits`, `logit` or `output`), which --predict reads; or a
 * tensor that is printed. */
typedef enum ResultKind {
    RESULT_Host,
    RESULT_State,
    RESULT_Field,
    RESULT_Print,
    RESULT_KINDS
} ResultKind;
typedef struct Result {
    ResultKind kind;
    const char *name; /* host variable; parameter or state; field */
    Node *value;
} Result;

/* print(...) in a graph: a line after each call of it. A part is a text, a result of the kind Print, or dims: a shape,
 * or, bare, one number. */
typedef struct PrintPart {
    const char *text, *result;
    bool bare;
    Dims dims;
} PrintPart;
typedef struct Print {
    int nparts;
    PrintPart *parts;
    Loc loc;
} Print;

/* How the runtime calls a graph. */
typedef enum GraphRole {
    GRAPH_Step,    /* called by the host program with a batch */
    GRAPH_Eval,    /* called by an evaluate statement with a batch; means weighted by its size */
    GRAPH_Prepare, /* called by the loader: raw fields in, prepared fields out */
} GraphRole;

typedef struct Sym {
    const char *name;
    int64_t bound;   /* largest value; memory is planned for it */
    int multiple_of; /* 1 when nothing is known */
} Sym;

typedef struct Graph {
    const char *name;
    GraphRole role;
    int nsyms;
    Sym syms[MAX_SYMS]; /* syms[0] is the batch size where there is one */
    int nnodes, cap;
    Node **nodes;   /* in order of definition: operands come first */
    bool late_args; /* an argument may stand behind a node of another kind */
    int nresults, rcap;
    Result *results;
    int nprints, prcap;
    Print *prints; /* in the order of the lines */
    Loc loc;
    Arena *arena;
} Graph;

Graph *graph_new(Arena *arena, const char *name, GraphRole role);
/* Finds or adds; returns the symbol for Dim.sym. */
int graph_sym(Graph *g, const char *name, int64_t bound);

/* Builds nodes at the end of a graph; loc, amp, why and name are taken from the builder. Type and
 * shape come from the op's rule in shape.c; when the operands do not fit, an error is reported at
 * loc and NULL is returned. Any NULL operand gives NULL without a further error. */
typedef struct Builder {
    Graph *graph;
    Diag *diag; /* NULL: operands that do not fit are an internal error */
    Loc loc;
    DType amp;
    const char *name;
    const char *why;
    int region;
} Builder;

Node *build(Builder *b, Op op, int nin, Node *const *in, Attrs attrs);
Node *build_arg(Builder *b, DType dt, const Dims *dims, Attrs attrs);
Node *build_const(Builder *b, DType dt, double value);
/* iota, uniform: of given dims. uniform takes the graph's {rng} argument, made if it has none. */
Node *build_like(Builder *b, DType dt, const Dims *dims, Op op, Attrs attrs);
/* What n is, over other operands, which have the types of n's; at the Builder's place. */
Node *build_again(Builder *b, const Node *n, Node **in);
Node *build1(Builder *b, Op op, Node *x);
Node *build2(Builder *b, Op op, Node *x, Node *y);
Node *build3(Builder *b, Op op, Node *x, Node *y, Node *z);
Node *build_cast(Builder *b, Node *x, DType dt); /* x itself when it has the type already */
Node *build_reshape(Builder *b, Node *x, const Dims *dims);
Node *build_expand(Builder *b, Node *x, const Dims *dims);
Node *build_transpose(Builder *b, Node *x, const int *perm);
/* x itself where nothing is left out, nothing is added */
Node *build_slice(Builder *b, Node *x, int axis, int64_t start, int64_t stop, int64_t step);
Node *build_pad(Builder *b, Node *x, int axis, int64_t before, int64_t after);
/* step - 1 zeros after each element along axis: [.., m, ..] -> [.., m * step, ..] */
Node *build_spread(Builder *b, Node *x, int axis, int64_t step);
/* Axes in any order, negative ones from the end; naxes -1: all. */
Node *build_reduce(Builder *b, Op op, Node *x, int naxes, const int64_t *axes, bool keepdim);
/* Contractions have a result type of their own; DT_none: the widest operand's. bias may be NULL. */
Node *build_matmul(Builder *b, Node *x, Node *y, bool trans_a, bool trans_b, DType result);
Node *build_linear(Builder *b, Node *x, Node *weight, Node *bias, DType result);
Node *build_conv(Builder *b, Op op, int nin, Node *const *in, Attrs attrs, DType result);
/* Reverse of broadcasting: sums the added axes. */
Node *build_sum_to(Builder *b, Node *x, const Dims *dims);

/* Replaces one of the same kind and name. */
void graph_result(Graph *g, ResultKind kind, const char *name, Node *value);
void graph_add_print(Graph *g, Print print);
/* Every use, results included, except by `to` itself: a new node may stand behind `from`. */
void graph_replace(Graph *g, Node *from, Node *to);
void graph_insert(Graph *g, int at, int n); /* moves the last n nodes to index at */
/* A new argument, behind the others that stand first. Ids are those from before until graph_renumber(). */
Node *graph_first_arg(Builder *b, DType dt, const Dims *dims, Attrs attrs);
void graph_sort(Graph *g);     /* stable topological order; drops nothing */
void graph_dce(Graph *g);      /* sorts, drops what no result needs; arguments and markers stay */
void graph_renumber(Graph *g); /* node ids */
int *graph_use_counts(Graph *g, Arena *scratch);               /* by id; results count */
Node *graph_find_arg(Graph *g, AttrId role, const char *name); /* name NULL: any */

/* Sets dtype and dims of a node from its operands; the checks of shape.c. What an op is given (type
 * of cast and contractions, dims of reshape and expand, both of leaves) is kept as it stands in the
 * node. false: an error was reported. */
bool infer_node(Graph *g, Node *n, Diag *diag);
bool broadcast_dims(const Dims *a, const Dims *b, Dims *out);
/* The type in which a Map op computes: its operands are rounded to it (where's condition excepted),
 * then comes the expression, then rounding to the result's type, the same but for predicates.
 * A constant operand adapts to the others: 0.1 : f32 beside an f16 is rounded to f16. */
DType map_dtype(const Node *n);
/* shape_own_grad.c. false: what n depends on through its operand i is no matter of its gradient, by the file's own word. */
bool node_passes_gradient(const Node *n, int i);
/* convolution.c: what the convolutions' attributes say; one number for rows, one for columns. */
typedef struct ConvSteps {
    int64_t kernel[2], stride[2], padding[2], dilation[2], output_padding[2], groups;
    bool ceil_mode;
} ConvSteps;
/* Any of the three as image x [n, in, image] * weight [out, in / groups, kernel] -> y [n, out, result]. */
typedef struct Conv {
    ConvSteps steps;
    Dim n;
    int64_t in, out, image[2], result[2];
} Conv;
ConvSteps conv_steps(const Attrs *as); /* kernel: only where an attribute says it */
Conv conv_of(const Node *n);           /* whose dims are known */
/* Results along an axis; 0 where the window does not fit, 0 or less where nothing is left. */
int64_t conv_length(const ConvSteps *s, int axis, int64_t length, int64_t kernel);
/* What the mean of window i divides by, the part of rows (axis 0) or columns: those in the padded image, or in the
 * image alone. */
int64_t pool_count(const ConvSteps *s, bool exclude_pad, int axis, int64_t length, int64_t i);
int64_t conv_transpose_length(const ConvSteps *s, int axis, int64_t length, int64_t kernel);

int node_axes(const Node *n, int64_t axes[MAX_RANK]); /* of a reduction; all where it names none */

/* ---- declarations ---------------------------------------------------------------------------- */

typedef enum DeclKind {
    DECL_layer,
    DECL_option,
    DECL_data,
    DECL_loader,
    DECL_optimizer,
    DECL_group,
    DECL_scheduler,
    DECL_scaler,
    DECL_ema,
    DECL_COUNT
} DeclKind;
extern const char *const decl_name[DECL_COUNT];

/* One line of the text form: KIND NAME {attributes}. What each kind carries:
 *   layer      kind(the module's name); its own name is the path of its parameters, the root's is empty
 *   option     type default [shape_bound]
 *   data       kind(idx csv tsv bin split) files fields columns prepare prepare_eval label_fields ...
 *              | of part fraction split_seed
 *   loader     dataset batch_size bound [shuffle] [drop_last] [evaluation] [sampler sampled_by]
 *   optimizer  kind(sgd adam adamw) params base_lr momentum ... [nesterov]
 *   group      optimizer params, and what is other for them: base_lr weight_decay momentum beta1 ...
 *   scheduler  kind(a row of runtime/abi/schedules.def) optimizer args values(of args, as exprs)
 *              [advance_on_skip]
 *   scaler     init_scale growth_factor backoff_factor growth_interval scale_min scale_max
 *              max_skips enabled
 *   ema        params decay [warmup] */
typedef struct Decl {
    DeclKind kind;
    const char *name;
    Attrs attrs;
    int nvalues;
    HostExpr **values; /* scheduler: one a name in args */
    Loc loc;
} Decl;

/* A tensor that outlives a step. */
typedef enum TensorRole {
    TENSOR_param,   /* trained; saved under its name */
    TENSOR_state,   /* a module's state; saved under its name */
    TENSOR_moment,  /* an optimizer's: "<optimizer>.<buffer>.<parameter>", "<optimizer>.step" */
    TENSOR_scaler,  /* "<scaler>.scale", "<scaler>.tracker", "<scaler>.skips" */
    TENSOR_working, /* a parameter's copy in the type it is used in; derived, never saved */
    TENSOR_grad,    /* a gradient that is accumulated over several calls: "<parameter>.grad" */
    TENSOR_before,  /* a state before the first of these calls: "<state>.before" */
    TENSOR_ema,     /* "<ema>.<parameter>", its average; "<ema>.updates" */
    TENSOR_ROLES
} TensorRole;
extern const char *const tensor_role_name[TENSOR_ROLES];
/* The sum of the weights of accumulated gradients, which are called "<parameter>.grad". */
#define ACCUMULATED_WEIGHT "accumulated.weight"

typedef struct Tensor {
    const char *name;
    TensorRole role;
    DType dtype;
    Dims dims;      /* constant */
    Attrs init;     /* kind (zeros ones constant uniform normal), low, high */
    const char *of; /* working copy, moment, gradient, average: the parameter; before: the state */
    Loc loc;
} Tensor;

/* ---- host program ---------------------------------------------------------------------------- */

typedef enum HostType { HT_int, HT_float, HT_bool, HT_str } HostType;

typedef enum HostExprKind {
    HE_num, /* num, type int, float or bool */
    HE_str,
    HE_var, /* a host variable, loops' counters included */
    HE_option,
    HE_len,    /* batches of a loader */
    HE_count,  /* samples of a data set */
    HE_unary,  /* op: "-" "not" */
    HE_binary, /* op: + - * / // % ** < <= > >= == != and or */
    HE_call,   /* op: min max abs floor ceil sqrt exp log int float */
    HE_cond    /* in[0] if in[1] else in[2] */
} HostExprKind;

struct HostExpr {
    HostExprKind kind;
    HostType type;
    double num;
    const char *text; /* operator, function, name, string */
    int nin;
    HostExpr **in;
    Loc loc;
};

typedef enum HostKind {
    HS_assign,  /* var = expr */
    HS_for,     /* for var in lo..hi { body } */
    HS_batches, /* for batch in loader { body } */
    HS_if,      /* if expr { body } else { orelse } */
    HS_break,
    HS_continue,
    HS_call,     /* call @graph: results of kind Host become variables; inside HS_batches */
    HS_schedule, /* scheduler.step(), or .step(expr): a metric */
    HS_log,      /* log(names): variables, under their names */
    HS_evaluate, /* vars = evaluate(dataset) { @graph }: what `measures` lists */
    HS_save,     /* save("best"): expr is the string */
    HS_load,     /* load("best"): the same */
    HS_limit,    /* set_max_steps(expr): the run ends after so many updates */
    HS_print     /* print(exprs) */
} HostKind;

/* One thing that an evaluation measures. */
typedef struct HostMeasure {
    const char *key; /* of the log */
    Metric metric;
    const char *from[2]; /* host results of the graph */
    Attrs attrs;         /* averaged, classes, of the metric */
} HostMeasure;

typedef struct HostStmt HostStmt;
typedef struct HostBlock {
    int n, cap;
    HostStmt **v;
} HostBlock;

struct HostStmt {
    HostKind kind;
    const char *var;    /* assign, for */
    const char *target; /* loader, graph, scheduler, dataset */
    const char *graph;  /* evaluate */
    int nvars;
    const char **vars; /* call: the host results it sets; log: its names; evaluate: what it sets */
    int nmeasures;     /* evaluate; the first nvars go to vars, the others to the log alone */
    HostMeasure *measures;
    HostExpr *expr, *hi;
    int nexprs;
    HostExpr **exprs; /* print */
    Decl *loader;     /* evaluate: batch size and bound */
    HostBlock body, orelse;
    Loc loc;
};

typedef struct HostVar {
    const char *name;
    HostType type;
} HostVar;

/* ---- modules --------------------------------------------------------------------------------- */

typedef struct Module {
    const char *name;      /* of the program: the .mpt's base name */
    const char *source;    /* path of the .mpt as given to mpc */
    const char *last_pass; /* the last one that ran: "lower" after the frontend */
    int64_t memory;        /* bytes that its arena may take; 0: as many as it wants */
    Loc memory_loc;        /* where the file says so */
    DType precision; /* type of the program's autocast regions: f16, bf16, f32; DT_none for none */
    Arena *arena;
    int ndecls, dcap;
    Decl **decls;
    int ntensors, tcap;
    Tensor **tensors;
    int ngraphs, gcap;
    Graph **graphs;
    int nvars, vcap;
    HostVar *vars;
    HostBlock host;
} Module;

Module *module_new(Arena *arena, const char *name, const char *source);
Decl *module_decl(Module *m, DeclKind kind, const char *name); /* adds */
int module_again(
    const Module *m,
    const char *why); /* ops of its steps that are computed again: WHY_AGAIN, WHY_SHORT */
void module_drop_decl(Module *m, const Decl *d);
Decl *module_find(const Module *m, DeclKind kind, const char *name);
/* Adds. */
Tensor *module_tensor(Module *m, const char *name, TensorRole role, DType dt, const Dims *dims);
/* Is it one of the params of an optimizer or a group? */
bool decl_lists_param(const Decl *d, const char *param);
bool optimizer_moves(const Decl *optimizer, const char *param); /* without params: all of them */
/* A prefix of whole words: "fc" of fc.weight and not of fc1.weight; NULL and "" of all. */
bool param_in_model(const char *param, const char *model);
/* The first group of the optimizer that this parameter is in; NULL: none. */
const Decl *module_group(const Module *m, const Decl *optimizer, const char *param);
/* A hyperparameter as the group (may be NULL) says it, else the optimizer; NULL: neither does. */
HostExpr *module_hyper(const Decl *optimizer, const Decl *group, AttrId id);
Tensor *module_find_tensor(const Module *m, const char *name);
/* What the state t was before the calls whose gradients the update in g takes; NULL: before this call. */
const Tensor *module_before(const Module *m, const Graph *g, const Tensor *t);
void module_graph(Module *m, Graph *g);
Graph *module_find_graph(const Module *m, const char *name);
/* Reads "image: u8[28, 28]", an entry of a data set's fields: length of the name, type and dims of a sample. */
bool field_of_text(const char *text, size_t *name_len, DType *dtype, Dims *dims);
int64_t data_record_bytes(const Decl *data); /* all fields of a sample */
/* What prepares the loader's batches; NULL: they are the fields as they are read. */
const Graph *loader_prepare(const Module *m, const Decl *loader);
HostVar *module_find_var(const Module *m, const char *name);
HostVar *module_var(Module *m, const char *name, HostType type); /* finds or adds */
HostStmt *host_stmt(Module *m, HostBlock *into, HostKind kind, Loc loc);
HostExpr *host_num(Arena *arena, double num, HostType type);
/* Any kind; its type is set by host_expr_type(), but of var and option, which the caller types. */
HostExpr *host_expr(Arena *arena, HostExprKind kind, const char *text, int nin,
                    HostExpr *const *in);
/* The type by the rule: int with int stays int, but "/" and "**" give float; comparisons and logic
 * bool; floor, ceil, int: int; sqrt, exp, log, float: float; len, count: int. */
HostType host_expr_type(const HostExpr *e);
bool host_expr_equal(const HostExpr *a, const HostExpr *b); /* places aside */
bool option_type(const Decl *option, HostType *type);       /* its attribute "type" */
extern const char *const host_type_name[4];

/* ---- text ------------------------------------------------------------------------------------ */

/* Inverse to each other, byte for byte. The first line is "mpc-ir 1 after PASS". */
void module_print(FILE *out, const Module *m);
void graph_print(FILE *out, const Graph *g);
/* NULL after an error; what comes back has passed the verifier. */
Module *module_read(Arena *arena, Diag *diag, const char *path);
Module *module_read_source(Arena *arena, Diag *diag, const SourceFile *source);
/* Dims and exprs as the text form writes them: "B*28,512", "epochs * len(train)". */
const char *dims_text(Arena *arena, const Graph *g, const Dims *d);
/* The line of a place as messages name it: "12" in the module's own file, "blocks.mpt:12" in an included one. */
const char *line_text(Arena *arena, const Module *m, Loc loc);
const char *in_file_text(Arena *arena, const Module *m, Loc loc); /* "", or " in blocks.mpt" */
int own_line(const Module *m, Loc loc); /* 0 where the place is in another file, or none */
const char *host_expr_text(Arena *arena, const HostExpr *e);

/* ---- checks ---------------------------------------------------------------------------------- */

/* Structure, types, shapes, attributes, names; reports through diag as internal errors with the
 * node's line. True when all holds. */
bool module_verify(const Module *m, Diag *diag);

/* ---- reference interpreter ------------------------------------------------------------------- */

typedef enum InterpMode {
    INTERP_f64,  /* every float in double, libm: what the graph means */
    INTERP_typed /* values rounded to their dtypes, scalar.h in float: what `exact` code gives */
} InterpMode;

/* A tensor in the interpreter: always doubles (integers up to 2^53 are exact), dims evaluated. */
typedef struct Value {
    DType dtype;
    int rank;
    int64_t dims[MAX_RANK];
    int64_t count;
    double *v;
    /* DT_grads: the members, parallel to names */
    int nmembers;
    struct Value **members;
    const char **names;
    bool *unscaled, *bad; /* bad: unscaling found that its optimizer must not step */
} Value;

typedef struct Interp {
    InterpMode mode;
    const Module *module; /* for optimizers and scalers, whose markers it knows (interp_marks.c) */
    Arena *arena;
    uint64_t seed;
    int64_t syms[MAX_SYMS];                                  /* values of the graph's symbols */
    Value *(*arg)(void *ctx, const Graph *g, const Node *n); /* the value of an argument */
    double (*host)(void *ctx, const HostExpr *e);            /* the value of a host expression */
    /* The state that markers read without an argument in the graph: parameters, moments, scalers
     * and "<optimizer>.lr", under their names; NULL (or no callback): its first value. */
    Value *(*tensor)(void *ctx, const char *name);
    void *ctx;
} Interp;

Value *value_new(Arena *arena, DType dt, int rank, const int64_t *dims);
/* Values of all nodes by id; NULL for what needs the gradients of `backward`, which only f64 mode
 * knows, by differences and of at most 4096 numbers. State that optimizer markers change comes back
 * through `state` (NULL: not wanted): name and next value, for what the expanded graph would give
 * as RESULT_State. */
typedef struct StateValue {
    const char *name;
    Value *value;
    struct StateValue *next;
} StateValue;
Value **interp_graph(Interp *in, const Graph *g, StateValue **state);
/* Nearest value of the type, ties to even. Integers truncate and saturate at 64 and 32 bits, bytes
 * keep the low 8 bits of that; NaN becomes 0 in them. As scalar.h converts. */
double round_to(DType dt, double x);

#endif
