/* emit.h: what the emitters share: the writer of lines, names, and the texts of dims, types and values.
 *
 * ln() is the one way to make a line of output; indentation is the writer's. Names that come from a model
 * pass through names_take(), text from a file through text_quote() (strings) or comment_text() (comments);
 * nothing else of a file reaches the output. */
#ifndef MPC_CODEGEN_EMIT_H
#define MPC_CODEGEN_EMIT_H

#include "codegen/codegen.h"
#include "ir/base/text.h"
#include "ir/base/vec.h"

typedef struct Target Target;
typedef struct Unit Unit;

typedef VEC(const char *) NameVec;

/* Identifiers of a scope; those of the scopes around it are taken, too. */
typedef struct Names {
    Arena *arena;
    const struct Names *outer;
    bool local;   /* inside a function or a struct */
    StrMap taken; /* by name: the number that the next of that name gets */
} Names;

typedef struct Emit {
    Arena *arena;
    Text *out;
    const Plan *plan;
    const Module *m;
    const CodegenOptions *opt;
    const Target *target;
    Diag *diag;
    Names names;         /* at file scope */
    Unit *units;         /* one a kernel of the plan */
    const char **buffer; /* names of the plan's buffers at file scope, by their number */
} Emit;

/* ---- lines ----------------------------------------------------------------------------------------- */

void ln(Emit *e, const char *fmt, ...) MPC_PRINTF(2, 3);
void ln_open(Emit *e, const char *fmt, ...) MPC_PRINTF(2, 3); /* a line and " {", one level in */
void ln_close(Emit *e, const char *tail);                     /* one level out, "}" and tail */
void ln_in(Emit *e, const char *fmt, ...)
    MPC_PRINTF(2, 3); /* a line without a brace, one level in */
void ln_out(Emit *e); /* one level out */
void ln_blank(Emit *e);

/* ---- names ----------------------------------------------------------------------------------------- */

Names names_new(Arena *arena, const Names *outer, bool local);
/* `wanted` made an identifier that is neither C's nor the runtime's nor taken; takes it. */
const char *names_take(Names *n, const char *wanted);
void names_reserve(Names *n, const char *name);

/* ---- texts ----------------------------------------------------------------------------------------- */

/* s without what would end or break a comment. */
const char *comment_text(Arena *a, const char *s);
const char *quoted(Arena *a, const char *s); /* a C string, or NULL for NULL */

const char *dim_text(Arena *a, const Graph *g, Dim d);             /* "784", "B", "28 * B" */
const char *product_text(Arena *a, const Graph *g, const Dims *d); /* number of elements */
const char *shape_text(Arena *a, const Graph *g, const Dims *d);   /* for comments: "(B, 784)" */
const char *number_text(Arena *a, DType dt, double v); /* a constant of the type's arithmetic */
const char *size_text(Arena *a, double n, const char *unit); /* "103 M" + unit */
const char *joined(Arena *a, const char *x, const char *op,
                   const char *y); /* x op y; x or y may be NULL */

bool text_mentions(const Text *t, const char *word); /* as a C identifier that is no field */

/* ---- types ----------------------------------------------------------------------------------------- */

DType wide_type(DType dt);          /* in which its arithmetic is done: f32 for the low ones */
const char *memory_ctype(DType dt); /* "mpc_f16" */
const char *wide_ctype(DType dt);   /* "float" */
/* What an element in memory is in arithmetic, and back: "mpc_f16_to_f32(x[i])". */
const char *widened(Arena *a, DType dt, const char *element);
const char *narrowed(Arena *a, DType dt, DType from, const char *value);
const char *function_suffix(DType dt); /* of the functions in the op table: "_f64" */

#endif
