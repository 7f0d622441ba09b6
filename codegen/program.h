/* program.h: what the parts of an emitted program share beyond kernels: buffers, graphs, host, tables. */
#ifndef MPC_CODEGEN_PROGRAM_H
#define MPC_CODEGEN_PROGRAM_H

#include "codegen/emit.h"

/* program.c: a text begins with units made and names given, alike for every target; it ends in `out`. */
Emit program_open(const Plan *plan, const CodegenOptions *opt, const Target *target, Diag *diag);
bool program_close(Emit *e, FILE *out);

/* buffers.c */
void buffers_name(Emit *e);
void buffers_emit(Emit *e);
const char *buffer_place(Emit *e, const GraphPlan *gp,
                         const Buffer *b);           /* pointer, in a function of the graph */
const char *buffer_mirror(Emit *e, const Buffer *b); /* where the host has it, in such a function */

/* launch.c: a function for each graph. */
typedef struct GraphText {
    const char *name;   /* of the function */
    const char **value; /* field of the result struct for each number out */
    const char *rate;   /* field of the learning rate used, NULL: none */
    const char **
        rates; /* for each number in: of several optimizers, field of the rate of each; else NULL */
} GraphText;
GraphText *graphs_name(Emit *e); /* parallel to plan->graphs */
typedef struct HostText HostText;
void graphs_emit(Emit *e, const HostText *h);

/* host.c, host_expr.c, host_resume.c: variables, schedules, the loops. */
struct HostText {
    const GraphText *graphs;
    const char **var;    /* field of struct Vars for each module variable */
    const char **option; /* enum constant for each option */
    Decl **loaders;      /* all, those of evaluate statements last */
    int nloaders, ndeclared;
    const char **loader;   /* variable of each */
    HostStmt **evaluates;  /* every evaluate statement */
    const char **evaluate; /* function of each */
    int nevaluates;
    Decl **schedulers;
    const char **steps; /* field that counts each scheduler's steps */
    int nschedulers;
    Decl **rated;       /* optimizers, and their groups of parameters with a rate of their own */
    const char **rates; /* function that gives the rate of each */
    int nrated;
    const HostStmt *epochs; /* the loop over epochs */
    HostStmt **fors;        /* every `for` */
    const char **end;       /* field that keeps the end of each */
    int nfors;
    HostStmt **places;  /* every loop over batches: place i + 1 of a checkpoint */
    HostStmt **outside; /* the loop over batches around each, NULL: none */
    int nplaces;
    bool skips; /* an update can be skipped */
};
void host_name(Emit *e, HostText *h, const GraphText *graphs);
void host_declare(Emit *e, const HostText *h); /* struct Vars, loaders, rates: before the graphs */
void hosts_emit(Emit *e, HostText *h);         /* refresh, evaluates, run */
const char *host_value(Emit *e, const HostText *h, const HostExpr *x);
int host_loader(const HostText *h, const Decl *loader);
int host_place(const HostText *h, const HostStmt *s);       /* from 1 */
const char *host_end(const HostText *h, const HostStmt *s); /* field of a `for` */
int host_vars_emit(Emit *e, const HostText *h);             /* MpcVar's; returns their number */
/* Where a graph says whether the update of a schedule's optimizer was skipped; NULL: it does not. */
const char *host_skip(Emit *e, const HostText *h, int graph, int scheduler);
/* Some graph does. */
bool host_skips(Emit *e, const HostText *h, int scheduler);
bool host_plateau(const HostText *h, int scheduler); /* its rate follows a metric */
const char *schedule_arguments(Emit *e, const HostText *h, const Decl *d);
void host_fingerprints_emit(Emit *e, const HostText *h); /* of graphs and loop */
int host_option(const Emit *e, const char *name);
Decl **module_decls(Emit *e, DeclKind kind, int *n);
/* The loader whose batches a graph gets; NULL: none. */
const Decl *graph_loader(Emit *e, const Graph *g);
/* Fields of a batch as the graphs see them: those that a Prepare graph gives, or the data set's. */
int batch_field(Emit *e, const Decl *loader, const char *name);

/* kernel_table.c: MpcKernelRow's; returns their number. */
int kernel_table_emit(Emit *e);

/* gpu_tables.c: MpcGraphRow's and the GPU's side of the program; nothing in a program for the CPU only. */
void gpu_tables_emit(Emit *e, const HostText *h);
void gpu_tables_member(Emit *e);

/* predict.c: what --predict runs; false: the program has no answer to give. */
bool predict_emit(Emit *e, const HostText *h);

/* tables.c, data_tables.c: MpcProgram and what it points to. */
void tables_emit(Emit *e, const HostText *h);
const char *precision_key(const Module *m); /* "fp16" */
int label_checks_emit(Emit *e);
int class_names_emit(Emit *e);                    /* of the first data set that has any; how many */
int data_tables_emit(Emit *e, const HostText *h); /* returns the number of label checks */
/* memory_plan.c: the plan's table, before MpcProgram, and the member of it. */
void memory_plan_emit(Emit *e);
void memory_plan_member(Emit *e);
typedef struct FieldDecl {
    const char *name;
    DType dtype;
    Dims dims;
} FieldDecl;
FieldDecl *data_fields(Emit *e, const Decl *data,
                       int *n); /* of the set itself, a split's from its parent */
const Decl *data_source(Emit *e, const Decl *data); /* behind splits */
int data_set_number(Emit *e, const char *name);

#endif
