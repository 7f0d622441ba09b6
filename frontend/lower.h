/* lower.h: what the files of the lowering share: values, scopes, instances, runs.
 *
 * Lowering is an evaluation of the tree. Every expression has a Value: a number known at compile time, a
 * number that the program computes (a host expression), a tensor (a node of a graph), a module's instance,
 * and so on. Operators look at the kinds of their operands: numbers fold, host numbers become host
 * expressions, and as soon as a tensor takes part, a node is built. `if` and `for` inside modules are
 * unrolled; at the top level those over numbers become statements of the host program.
 *
 * Who does what: lower.c the order of things · eval.c expressions · eval_number.c arithmetic without tensors ·
 * lower_args.c arguments to parameters · lower_module.c instances and their functions · lower_own_grad.c modules that
 * give their own derivative · lower_param.c parameters ·
 * lower_tensor.c nodes · lower_index.c subscripts · lower_math.c, lower_shape.c, lower_nn.c, lower_loss.c the
 * functions of builtins.def · lower_data.c data sets, preparation · lower_loader.c loaders · lower_host.c top-level
 * statements and runs · lower_train.c optimizers, scalers · lower_params.c groups of parameters, freezing ·
 * lower_gradients.c gradients and steps · lower_ema.c averages of parameters · sema.c names in code that is never reached.
 *
 * A Value of kind VAL_poison stands for what an error was reported for; whoever meets it says nothing.
 */
#ifndef MPC_FRONTEND_LOWER_H
#define MPC_FRONTEND_LOWER_H

#include "frontend/frontend.h"
#include "ir/base/strmap.h"
#include "ir/base/strutil.h"
#include "ir/ir.h"

enum {
    LOWER_MAX_DEPTH = 2500,       /* nested evaluations, over all modules */
    LOWER_MAX_UNROLL = 1000000,   /* iterations of compile-time loops, all together */
    LOWER_MAX_INSTANCES = 100000, /* modules in the program */
    LOWER_MAX_NODES = 1000000,    /* in one graph */
    LOWER_MAX_HOST_SIZE = 2000,   /* nodes of one host expression */
    LOWER_MAX_HOST_DEPTH = 200
};

/* ---- values ---------------------------------------------------------------------------------------- */

typedef struct Instance Instance;
typedef struct Run Run;
typedef struct DataSet DataSet;
typedef struct Loader Loader;
typedef struct Builtin Builtin;
typedef struct Values Values;
typedef struct Range Range;
typedef struct Method Method;
typedef struct ModuleDecl ModuleDecl;
typedef struct Optimizer Optimizer;

typedef enum ValueKind {
    VAL_poison,
    VAL_none,
    VAL_int,
    VAL_float,
    VAL_bool,
    VAL_str,
    VAL_dtype,
    VAL_dim, /* a symbolic size; a constant one is an int */
    VAL_list,
    VAL_tuple,
    VAL_range,   /* lo..hi of numbers or host numbers; of strings in columns() */
    VAL_host,    /* a number that the program computes */
    VAL_tensor,  /* node, in graph of run */
    VAL_param,   /* a parameter or state */
    VAL_builtin, /* a function of builtins.def */
    VAL_method,  /* a function with its receiver */
    VAL_module,  /* a module, to be called for an instance */
    VAL_instance,
    VAL_data,
    VAL_parts, /* result of split(): members train and validation */
    VAL_loader,
    VAL_batch, /* of a loader */
    VAL_optimizer,
    VAL_group,     /* of parameters: the call of group(...) */
    VAL_scheduler, /* decl */
    VAL_scaler,    /* decl */
    VAL_ema,       /* decl */
    VAL_measure,   /* what only an evaluation as a whole has: see measure */
    VAL_context,   /* autocast(...), precision(...), no_grad(): only in `with` */
    VAL_KINDS
} ValueKind;

typedef struct Val Val;
struct Val {
    ValueKind kind;
    int tag;          /* context: ContextKind */
    const char *key;  /* what evaluate() logs it as: "loss", "accuracy"; NULL for nothing special */
    const char *name; /* tensor: the variable that holds it, at the top level */
    struct Measure *measure; /* how an evaluation counts it; NULL: the mean over its batches */
    union {
        int64_t i;
        double f;
        bool b;
        const char *s;
        DType dtype;
        Dim dim;
        Values *list;
        Range *range;
        HostExpr *host;
        struct {
            Node *node;
            Run *run;
        };
        Tensor *tensor;
        const Builtin *builtin;
        Method *method;
        ModuleDecl *module;
        Instance *instance;
        DataSet *data;
        Loader *loader;
        Optimizer *optimizer;
        Decl *decl;
        struct Call *group;
    };
};

/* A metric and the nodes that it is counted from. */
typedef struct Measure {
    Metric metric;
    Node *from[2];
    Attrs attrs;
} Measure;

struct Values {
    int n, cap;
    Val *at;
};

struct Range {
    Val lo, hi, step;
};

/* x.reshape: a builtin and its first argument; block.helper: a function of a module and its instance */
struct Method {
    Val self;
    const Builtin *builtin; /* or */
    const Ast *func;
};

typedef enum ContextKind {
    CONTEXT_autocast,
    CONTEXT_precision,
    CONTEXT_no_grad,
    CONTEXT_checkpoint
} ContextKind;

static inline Val val_poison(void)
{
    return (Val){.kind = VAL_poison};
}
static inline Val val_none(void)
{
    return (Val){.kind = VAL_none};
}
static inline Val val_int(int64_t i)
{
    return (Val){.kind = VAL_int, .i = i};
}
static inline Val val_float(double f)
{
    return (Val){.kind = VAL_float, .f = f};
}
static inline Val val_bool(bool b)
{
    return (Val){.kind = VAL_bool, .b = b};
}
static inline Val val_str(const char *s)
{
    return (Val){.kind = VAL_str, .s = s};
}
static inline Val val_host(HostExpr *e)
{
    return (Val){.kind = VAL_host, .host = e};
}
static inline bool val_is_poison(Val v)
{
    return v.kind == VAL_poison;
}
static inline bool val_is_number(Val v)
{
    return v.kind == VAL_int || v.kind == VAL_float || v.kind == VAL_bool;
}
static inline bool val_is_tensor(Val v)
{
    return v.kind == VAL_tensor || v.kind == VAL_param;
}
static inline double val_number(Val v)
{
    return v.kind == VAL_int ? (double)v.i : v.kind == VAL_bool ? (double)v.b : v.f;
}

/* ---- scopes ---------------------------------------------------------------------------------------- */

typedef struct Binding {
    const char *name;
    Val val;
    int before; /* the binding that this one hides, -1 */
} Binding;
typedef struct Scope {
    Binding *at;
    int n, cap;
    StrMap newest; /* by name: its number in `at`, -1 when it was cut off */
} Scope;

Val *scope_find(const Scope *s, const char *name); /* the newest; NULL for none */
void scope_cut(Scope *s, int n);                   /* forgets all but the first n */
void scope_add(Arena *a, Scope *s, const char *name, Val v);
void scope_set(Arena *a, Scope *s, const char *name, Val v); /* replaces, or adds */

/* ---- modules --------------------------------------------------------------------------------------- */

struct ModuleDecl {
    const Ast *ast;
    bool is_std;
    bool used;
    bool failed; /* an error was reported inside: no second one for the next instance */
    bool open;   /* being instantiated */
};

struct Instance {
    ModuleDecl *decl;
    const char *path; /* of its parameters: "h.3.attn"; "" for the program's only model */
    Scope args;
    Scope members;
    Loc loc; /* where the user wrote its construction */
};

/* A function that is being evaluated: forward of an instance, or the body of evaluate() or of a batch. */
typedef struct Frame Frame;
struct Frame {
    Frame *up;
    Instance *self; /* NULL in evaluate and batch */
    const Ast *func;
    Scope locals;
    bool is_std;       /* places are those of the call */
    bool members_only; /* evaluating a module's members: instances may be made, tensors not */
    bool of_grad;      /* evaluating grad: what it computes goes to own_grad alone */
    Val result;
    const Ast *returned; /* the statement that gave it; NULL: none did */
};

/* ---- graphs under construction --------------------------------------------------------------------- */

/* One graph, from its first tensor to the end of the run of statements. */
struct Run {
    Graph *graph;
    HostStmt *call; /* HS_call; NULL for evaluate and prepare */
    DataSet *data;
    HostBlock *block;
    bool open;
    Scope states;            /* values that were assigned to states in this run, by full name */
    VEC(const char *) late;  /* host variables that are set behind the call */
    VEC(const char *) paths; /* of random ops so far */
    /* the chain of markers */
    Node *token;               /* newest marker; NULL before backward and after zero_grad */
    const char *scaler;        /* whose scale the newest gradients carry; NULL: none */
    VEC(const char *) scalers; /* of all gradients in it */
    Node *last_step;           /* NULL: none yet */
    Scope stepped; /* parameters that a step has changed: their value now, none before it is read */
    bool marked;   /* it has any marker */
    bool by_mode;  /* in evaluation it would be another one */
    int chains;    /* backward calls */
    VEC(const char *) scheduled; /* optimizers whose schedule moved on behind the call */
};

struct DataSet {
    Decl *decl;
    DataSet *of; /* split: the whole */
    int nfields;
    const char **names; /* raw fields */
    DType *dtypes;
    Dims *dims;       /* without the batch */
    const Ast *batch; /* preparation, or NULL */
    bool in_use;      /* something reads it */
    bool counted;     /* len(set) */
    bool failed;
    struct Prepared *
        ready[2]; /* fields after the preparation, for evaluation and for training, which may be the
                                  same; NULL before the first use */
};

typedef struct Prepared {
    Graph *graph; /* NULL: fields unchanged */
    bool by_mode; /* evaluation has another one */
    int n;
    const char **names;
    DType *dtypes;
    Dims *dims; /* with the batch */
} Prepared;

/* What reads batches: a loop over a loader, or an evaluation. A loader that both use has a declaration for each. */
struct Loader {
    Decl *decl;
    DataSet *data;
    int64_t bound;
    bool training;
    bool used;            /* by a loop or an evaluation, as `training` says */
    struct Loader *other; /* the declaration for the other use; NULL: none yet */
};

struct Optimizer {
    Decl *decl;
    Instance *model;
    /* Its gradients, in one run; nothing of it holds in another. */
    Run *run;
    bool live;          /* there are some */
    bool changed;       /* they are unscaled, clipped, or taken by a step */
    bool unscaled;      /* by scaler.unscale or with a step */
    bool mixed;         /* a further backward has added to them after that */
    const char *scaler; /* whose scale they carry; NULL: none */
    Loc made;           /* the newest backward */
};

/* ---- the whole ------------------------------------------------------------------------------------- */

/* A variable of the program that holds a number and changes. */
typedef struct HostName {
    const char *name;
    HostType type;
    int assigned; /* how often, nested ones count twice */
    bool number;  /* at least one assignment gives a number */
    bool tensor;  /* at least one may give a tensor */
} HostName;

typedef struct Lower {
    Arena *arena;
    Diag *diag;
    const AstFile *file;
    const LowerOptions *options;
    Module *m;
    VEC(ModuleDecl *) modules;
    VEC(HostName) host_names;
    VEC(DataSet *) data;
    Scope globals;
    Frame *frame;                /* NULL at the top level */
    Run *run;                    /* the open one, or the one of evaluate or batch; NULL for none */
    HostBlock *block;            /* where host statements go */
    Loader *loader;              /* of the surrounding `for batch in` or evaluate */
    int loops;                   /* host loops around */
    struct Gradients *gradients; /* of the host block, see lower_gradients.c */
    bool accumulates;            /* some gradients are kept in states */
    const char *cleared_var;     /* the host variable that says that none are; NULL: none yet */
    VEC(HostBlock *) clears;     /* blocks with assignments to it */
    VEC(Run *) runs;
    VEC(Optimizer *) optimizers;
    const char
        *assigning;     /* the top-level variable that takes the value of the call; NULL for none */
    const char *target; /* path of the instance that the expression makes; NULL: it has none */
    bool one_model;     /* the program has one model: its path is "" */
    Builder b;
    Loc loc; /* the user's place of what is being evaluated */
    bool training;
    int regions; /* of `with checkpoint`, so far */
    bool no_grad;
    const Decl *ema; /* evaluate(..., weights = ema): parameters are read from its averages; NULL */
    DType force;     /* `with precision`, `@f32` */
    const char *force_why;
    int depth, unrolled, instances;
    bool too_deep;
    int steps, evals, loaders; /* made so far, for names */
    int64_t train_bound;       /* largest batch of the loops so far */
    AstList tried, failed;     /* functions that were evaluated, and those with an error inside */
    struct ParamInit *init;    /* the parameter whose initialiser is being evaluated */
} Lower;

/* ---- errors ---------------------------------------------------------------------------------------- */

/* Reports at loc, or, inside the standard library, at the user's call, with notes about the instances on the
 * way. Gives VAL_poison. */
Val lower_error(Lower *l, Loc loc, const char *fmt, ...) MPC_PRINTF(3, 4);
void lower_note(Lower *l, Loc loc, const char *fmt, ...) MPC_PRINTF(3, 4);
void lower_frame_notes(Lower *l);
const char *val_describe(Lower *l, Val v); /* "a list", "a tensor f32[B, 10]" */
Loc lower_loc(const Lower *l, Loc loc);
void lower_at(Lower *l, const Ast *ast); /* nodes made from now on come from here */
bool lower_enter(Lower *l, Loc loc); /* one level deeper; false: too deep, an error was reported */
static inline void lower_leave(Lower *l)
{
    l->depth--;
}
bool lower_unroll(Lower *l, Loc loc); /* counts an iteration */

/* `name` among names: ": did you mean `x`?" or "" */
typedef VEC(const char *) Names;
const char *lower_did_you_mean(Lower *l, const char *name, const Names *names);

/* ---- eval.c, eval_number.c ------------------------------------------------------------------------- */

Val eval(Lower *l, const Ast *e);
Val eval_call(Lower *l, const Ast *e, DType force);
Val eval_name(Lower *l, const Ast *e);
Val val_member(Lower *l, Val object, const char *name, Loc loc, Loc name_loc);
bool eval_truth(Lower *l, Val v, Loc loc,
                bool *out); /* at compile time; false: error was reported */
bool eval_is_static_truth(Val v);
bool eval_is_constant(Val v); /* numbers, strings, types, none, and lists of them */
Val val_list(Lower *l, ValueKind list_or_tuple);
void val_push(Lower *l, Val *list, Val v);
bool eval_iterable(Lower *l, Val v, Loc loc, int64_t *n); /* elements of what is unrolled */
Val eval_element(Lower *l, Val v, int64_t at);
Val val_dim(Dim d);
bool lower_bind(Lower *l, const AstList *targets, Val v, Loc loc,
                bool fresh);                   /* fresh: hides others */
bool eval_dtype(const char *name, DType *out); /* f32, and PyTorch's float32, half, ... */
void eval_visible(Lower *l, Names *names);     /* every name that means something here */

Val number_binary(Lower *l, AstOp op, Val a, Val b, Loc loc); /* anything but tensors */
Val number_unary(Lower *l, AstOp op, Val v, Loc loc);
Val number_call(Lower *l, const char *fn, int n, const Val *args, Loc loc); /* min, sqrt, ... */
HostExpr *host_of(Lower *l, Val v, Loc loc); /* number to expression; NULL after an error */
HostExpr *host_node(Lower *l, HostExprKind kind, HostType type, const char *text, int nin,
                    HostExpr *const *in, Loc loc);
Val host_var(Lower *l, const char *name, HostType type, Loc loc);
typedef enum FoldUse {
    FOLD_quiet,
    FOLD_bound,
    FOLD_fixed
} FoldUse;                                            /* what becomes of options in it */
Val host_fold(Lower *l, Val v, FoldUse use, Loc loc); /* to a compile-time number, or poison */
bool host_is_static(const HostExpr *e);               /* options and numbers only */
bool val_int_of(Lower *l, Val v, const char *what, Loc loc, int64_t *out);
bool val_float_of(Lower *l, Val v, const char *what, Loc loc, double *out);
bool host_is_constant(const HostExpr *e); /* in a run: lengths of loaders and data, too */
bool host_mentions(const HostExpr *e, const char *var);

/* ---- lower_args.c ---------------------------------------------------------------------------------- */

/* One parameter of a function or module. */
typedef struct Formal {
    const char *name;
    const char *aliases[3]; /* PyTorch's other spellings */
    const Ast *otherwise;   /* default, of functions in .mpt files */
    const char *preset;     /* default, of builtins: text of a literal; NULL: must be given */
    bool optional, rest;    /* rest: takes all further positional arguments */
} Formal;

enum { MAX_FORMALS = 16 };

/* Which argument goes to which parameter; actual[i] NULL where none was given. */
typedef struct Match {
    int n;
    const Ast **actual;
    AstList rest;
} Match;

bool args_match(Lower *l, const char *what, const Formal *formals, int n, int first,
                const Ast *call, Match *out);

/* A call of a builtin. */
typedef struct Call {
    const Builtin *fn;
    const Ast *ast;
    Loc loc;
    int n;
    Val args[MAX_FORMALS];
    Loc locs[MAX_FORMALS];
    bool given[MAX_FORMALS];
    Val rest; /* list of what a *rest parameter took */
} Call;

typedef Val BuiltinFn(Lower *l, Call *c);

struct Builtin {
    const char *name;
    BuiltinFn *fn;
    ValueKind
        receiver; /* VAL_none: a function; VAL_tensor: also x.name(...); others: a method of these */
    Op op;        /* of element-wise functions */
    const char *formals; /* "x, dim|axis = -1, *shape" */
    const char *meaning;
};

const Builtin *builtin_find(const char *name);                       /* functions */
const Builtin *builtin_method(ValueKind receiver, const char *name); /* NULL for none */
void builtin_names(Lower *l, Names *names, ValueKind receiver);      /* VAL_none: functions */
int builtin_formals(Lower *l, const Builtin *fn, Formal *out);
Val builtin_call(Lower *l, const Builtin *fn, const Ast *call, const Val *self, Loc self_loc,
                 DType force);

/* Arguments of a call; after false an error was reported (or poison was met). */
bool call_tensor(Lower *l, Call *c, int i, Node **out);
bool call_int(Lower *l, Call *c, int i, int64_t *out);
bool call_float(Lower *l, Call *c, int i, double *out);
bool call_bool(Lower *l, Call *c, int i, bool *out);
bool call_str(Lower *l, Call *c, int i, const char **out);
bool call_dtype(Lower *l, Call *c, int i, DType *out);
bool call_axis(Lower *l, Call *c, int i, int rank, int64_t *out);
bool call_axes(Lower *l, Call *c, int i, int rank, int64_t *axes, int *n); /* none: all */
bool call_dims(Lower *l, Call *c, int i, Dims *out);                       /* a list, or the rest */
bool call_poisoned(const Call *c);

/* ---- lower_module.c, lower_param.c ----------------------------------------------------------------- */

ModuleDecl *module_lookup(Lower *l, const char *name);
Val module_instantiate(Lower *l, ModuleDecl *decl, const Ast *call);
Val instance_call(Lower *l, Instance *self, const Ast *func, const Ast *call, DType force);
const Ast *module_func(const ModuleDecl *decl, const char *name);
Val *instance_member(const Instance *self, const char *name);
const char *path_join(Lower *l, const char *path, const char *name);
void instance_names(const Lower *l, const Instance *self, Names *names);
Formal *module_formals(Lower *l, const AstList *args);
const Builtin *param_initialiser(Lower *l,
                                 const Ast *call); /* NULL: unknown, an error was reported */
bool param_declare(Lower *l, Instance *self, const Ast *decl);
typedef enum Flow { FLOW_next, FLOW_return, FLOW_break, FLOW_continue, FLOW_stop } Flow;
Flow exec_block(Lower *l, const AstList *body);
Flow exec_with(Lower *l, const Ast *s, Flow (*body)(Lower *l, const AstList *body));
void assign_local(Lower *l, const char *name, Val v, Loc loc);
bool dims_of_type(Lower *l, const Ast *type, DType *dt, Dims *dims, bool bind_names);
/* v, as `arg` of a function declares it; poison after an error at loc */
Val module_check_type(Lower *l, const Ast *arg, Val v, Loc loc);

/* ---- lower_own_grad.c ------------------------------------------------------------------------------ */

void own_grad_check(Lower *l,
                    const Ast *module); /* its functions grad and forward, if it has grad */
/* The result of forward (its frame; what its inputs were), with the derivative that grad gives. */
Val own_grad_apply(Lower *l, Frame *forward, const Val *inputs, Val result);

/* ---- lower_tensor.c, lower_index.c ----------------------------------------------------------------- */

Node *tensor_of(Lower *l, Val v, Loc loc); /* in the open run; NULL after an error */
Node *tensor_like(Lower *l, Val v, DType like,
                  Loc loc); /* numbers too, as constants beside `like` */
bool tensor_need_run(Lower *l, Loc loc);
Val val_of_node(Lower *l, Node *n);
Node *op_build(Lower *l, Op op, int nin, Node *const *in,
               Attrs attrs); /* forced types, notes, limits */
Node *op1(Lower *l, Op op, Node *x);
Node *op2(Lower *l, Op op, Node *x, Node *y); /* operands brought to one type */
Node *op3(Lower *l, Op op, Node *x, Node *y, Node *z);
Node *op_const(Lower *l, DType dt, double v);
Node *op_axis(Lower *l, Op op, Node *x, int64_t axis);
Node *op_reduce(Lower *l, Op op, Node *x, int n, const int64_t *axes, bool keepdim);
Node *op_reshape(Lower *l, Node *x, const Dims *dims);
Node *op_expand(Lower *l, Node *x, const Dims *dims);
Node *op_transpose(Lower *l, Node *x, const int *perm);
Node *op_cast(Lower *l, Node *x, DType dt); /* nothing where it has the type */
Val op_without_grad(Lower *l, Val v);
Node *op_forced_cast(Lower *l, Node *x,
                     DType dt); /* the user wrote it: stays, whatever the type is */
Node *op_slice(Lower *l, Node *x, int64_t axis, int64_t start, int64_t stop, int64_t step);
Node *op_iota(Lower *l, const Dims *dims, int64_t axis);
Node *op_uniform(Lower *l, const Dims *dims, const char *path);
Node *op_matmul(Lower *l, Node *x, Node *y);
Node *op_dim(Lower *l, Dim d); /* a size as a tensor f32[] */
Node *one_hot(Lower *l, Node *x, int64_t n, Loc loc);
/* What follows is computed in f32 (f64 if x is), for this reason, unless the file says a type; until
 * op_leave_wide. Gives what that takes. */
DType op_enter_wide(Lower *l, const Node *x, const char *why);
void op_leave_wide(Lower *l, DType outer);
Val tensor_binary(Lower *l, AstOp op, Val a, Val b, const Ast *e);
Val tensor_member(Lower *l, Val v, const char *name, Loc loc, bool *found);
Val tensor_index(Lower *l, Val v, const Ast *e);
bool val_dims(Val v, Dims *dims, DType *dt);
HostExpr *tensor_to_host(Lower *l, Val v, const char *name,
                         Loc loc); /* scalar; NULL after an error */
bool dim_of_val(Lower *l, Val v, Loc loc, Dim *out);
bool dims_reshape(Lower *l, Node *x, Dims *want, Loc loc); /* resolves a -1 (k == -1) */

/* ---- lower_data.c ---------------------------------------------------------------------------------- */

void data_declare(Lower *l, const Ast *decl);
void data_prepare_block(Lower *l, const Ast *batch);
Loader *loader_new(Lower *l, DataSet *d, const char *name, Val batch_size, Loc loc);
Loader *loader_for(Lower *l, Loader *loader, bool training); /* NULL after an error */
Val batch_member(Lower *l, Loader *loader, const char *name, Loc loc, Loc name_loc);
bool data_ready(Lower *l, DataSet *d, bool training);
/* x is compared with classes 0 .. n - 1: a field that is x as it is read must lie in them. */
void data_check_classes(Lower *l, const Node *x, int64_t n);
void data_finish(Lower *l); /* lowers the preparations that nothing used */

/* ---- lower_params.c, lower_train.c ------------------------------------------------------------------- */

/* The parameters of the model in the first argument become those of the optimizer; false after an error. */
bool params_of_optimizer(Lower *l, Call *c, Decl *optimizer);
bool params_groups(Lower *l, Call *c, int arg, const Decl *optimizer, const Instance *model);
Optimizer *optimizer_of(const Lower *l, const char *param); /* that trains it; NULL: none */
/* Does it train parameters of this model? */
bool optimizer_trains(const Optimizer *o, const Instance *model);
/* Hyperparameters: an argument becomes an attribute of the declaration; false after an error. */
Decl *train_declare(Lower *l, Call *c, DeclKind kind,
                    const char *wish); /* NULL: an error was said */
bool train_number(Lower *l, Call *c, int arg, Decl *d, AttrId id, double least);
/* lower_ema.c: what stands for a parameter where the averages of l->ema are read: t itself without it. */
Tensor *ema_of_param(const Lower *l, Tensor *t);
bool train_betas(Lower *l, Call *c, int arg, Decl *d);

/* ---- lower_host.c, lower_prescan.c, lower_run.c ---------------------------------------------------- */

void host_prescan(Lower *l, const AstList *items);
HostName *host_name_find(Lower *l, const char *name);
bool host_name_varies(Lower *l,
                      const char *name); /* a number that changes: a variable of the host program */
void host_statement(Lower *l, const Ast *s);
void global_set(Lower *l, const char *name, Val v, Loc loc);
HostStmt *host_emit(Lower *l, HostKind kind, Loc loc);
Run *run_open(Lower *l, Loc loc); /* the open run, or a new one; NULL after an error */
void run_close(Lower *l);
/* Before nodes are taken of these values: ends the run when one of them is set only behind its call. */
void run_settle(Lower *l, const Val *v, int n);
Run *run_new(Lower *l, const char *name, GraphRole role, DataSet *d, int64_t bound, Loc loc);
void run_finish(Lower *l);
void run_host_result(Lower *l, Run *run, const char *name, Node *n, Loc loc);
const char *decl_fresh_name(Lower *l, DeclKind kind, const char *wish);
const char *graph_fresh_name(Lower *l, const char *wish);

/* ---- lower_train.c, lower_gradients.c, lower_evaluate.c --------------------------------------------------------------- */

/* Gradients in one block of the host program. What an update in another graph takes is kept in states
 * (spilled); so it adds up over the batches, unless zero_grad stands in backward's own block. */
typedef struct Gradients {
    struct Gradients *outer; /* of the block around */
    bool live;               /* made, and not cleared yet */
    bool cleared;            /* zero_grad came before */
    bool kept;               /* at the end of the block they would still be there */
    bool average;            /* backward(loss, average = true) */
    bool spilled;            /* another graph takes them */
    bool touched;            /* the graph of backward itself clips them or steps */
    bool perhaps_cleared;    /* a block inside clears them */
    bool left_early;         /* `break` or `continue` came since */
    bool borrowed;           /* this block takes those of a block around, */
    bool changed;            /* and unscales or clips them */
    int loops;               /* around backward */
    int errors;              /* before the block: after one in it, missing gradients are no news */
    Loc made;                /* backward; borrowed: the first statement that takes them */
    uint64_t reached;        /* optimizers that have gradients of this block's backward, */
    uint64_t zeroed;         /* and forgot them since, */
    uint64_t first;          /* or forget them in this block before they are made */
    Run *run;                /* of backward */
    Node *loss;
    const char *scaler; /* whose scale they carry; NULL: none */
} Gradients;

Gradients *gradients_live(Lower *l);          /* of this block or the next one around; NULL: none */
void gradients_leave(Lower *l, Gradients *g); /* at the end of a block */
void gradients_jump(Lower *l);                /* before break and continue */
void gradients_finish(Lower *l);              /* after everything */
Val eval_evaluate(Lower *l, const Ast *e, const Ast *target);
/* What a loss or a metric compares with the truth is the model's answer: inside of an evaluation it becomes a result
 * of the graph, which --predict reads. Logits of classes go before anything else; else the first one counts. */
#define ANSWER_LOGITS "logits"
#define ANSWER_LOGIT "logit"
#define ANSWER_OUTPUT "output"
void evaluation_answer(Lower *l, const char *kind, Node *x);

/* ---- lower_loss.c, for metrics ----------------------------------------------------------------------- */

bool loss_of_probabilities(const Node *logits, const Node *target); /* not of labels */
/* What fn was applied to, under the moves and casts that followed; NULL where x does not come from fn. */
Node *loss_logits(Lower *l, Node *x, Op fn);
void log_statement(Lower *l, const Ast *call);

/* ---- sema.c ---------------------------------------------------------------------------------------- */

void sema_unused_modules(Lower *l);

#endif
