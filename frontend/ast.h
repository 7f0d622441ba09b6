/* ast.h: the syntax tree of a .mpt file.
 *
 * One uniform node, so that printing, comparing, copying and walking need no table of shapes; what
 * each kind keeps in which slot is in ast.def, and the slots have second names for reading. A tree
 * is never deeper than AST_MAX_DEPTH: the constructors refuse (with a message) what would be, so
 * every recursive walk over a tree is safe. Trees are immutable once built and may share subtrees.
 *
 * The grammar calls only ast_* functions of this header; names are not resolved and types not
 * checked here (lower.c).
 */
#ifndef MPC_FRONTEND_AST_H
#define MPC_FRONTEND_AST_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/base/vec.h"

enum { AST_MAX_DEPTH = 1000 };

typedef enum AstKind {
#define AST(kind, slots, example) AST_##kind,
#include "frontend/ast.def"
    AST_KIND_COUNT
} AstKind;

/* clang-format off */
/*     name  text   precedence (higher binds tighter), as in Python */
#define AST_OPS(OP)          \
    OP(none, "",    0)       \
    OP(or,   "or",  2)       \
    OP(and,  "and", 3)       \
    OP(not,  "not", 4)       \
    OP(eq,   "==",  5)       \
    OP(ne,   "!=",  5)       \
    OP(lt,   "<",   5)       \
    OP(le,   "<=",  5)       \
    OP(gt,   ">",   5)       \
    OP(ge,   ">=",  5)       \
    OP(add,  "+",   7)       \
    OP(sub,  "-",   7)       \
    OP(mul,  "*",   8)       \
    OP(div,  "/",   8)       \
    OP(fdiv, "//",  8)       \
    OP(mod,  "%",   8)       \
    OP(matmul, "@", 8)       \
    OP(neg,  "-",   9)       \
    OP(pow,  "**",  10)
/* clang-format on */

typedef enum AstOp {
#define OP(name, text, prec) AST_OP_##name,
    AST_OPS(OP)
#undef OP
        AST_OP_COUNT
} AstOp;

typedef struct Ast Ast;
typedef VEC(Ast *) AstList;

struct Ast {
    uint8_t kind;   /* AstKind */
    uint8_t op;     /* AstOp */
    uint16_t depth; /* 1 + the deepest child's, at most AST_MAX_DEPTH */
    Loc loc;        /* the whole construct; of an assign, its target; of blocks, their head */
    const char *name;
    Loc name_loc; /* of the name alone, where a construct has one */
    union {
        int64_t ival;
        double num;
    };
    union {
        Ast *a, *object, *callee, *target, *lo, *left, *type, *iter, *otherwise, *transform;
    };
    union {
        Ast *b, *value, *hi, *right, *then;
    };
    union {
        Ast *c, *test, *step;
    };
    AstList list, list2;
};

/* A comment, kept beside the tree for the printer. */
typedef struct AstComment {
    int line;
    bool alone;       /* nothing but blanks before it on its line */
    const char *text; /* with its '#' */
} AstComment;

typedef struct AstFile {
    const SourceFile *source;
    Ast *root;        /* AST_file */
    AstList included; /* modules and constants (assign) of the files that it includes: include.c */
    VEC(AstComment) comments;
} AstFile;

/* What the constructors need: where to allocate, where to complain. */
typedef struct AstMaker {
    Arena *arena;
    Diag *diag;
    bool too_deep; /* said once */
} AstMaker;

const char *ast_kind_name(AstKind kind);
const char *ast_kind_slots(AstKind kind);
const char *ast_op_text(AstOp op);
int ast_op_precedence(AstOp op);

/* Constructors. Lists are taken over, not copied. */
Ast *ast_new(AstMaker *m, AstKind kind, Loc loc);
Ast *ast_seal(AstMaker *m, Ast *n); /* sets depth after the slots are filled; may return an error */
Ast *ast_leaf(AstMaker *m, AstKind kind, Loc loc, const char *name);
Ast *ast_int(AstMaker *m, Loc loc, int64_t value);
Ast *ast_float(AstMaker *m, Loc loc, double value);
Ast *ast_number(AstMaker *m, Loc loc, const char *spelling); /* int or float */
Ast *ast_bool(AstMaker *m, Loc loc, bool value);
Ast *ast_str(AstMaker *m, Loc loc, const char *value);
Ast *ast_name(AstMaker *m, Loc loc, const char *name);
Ast *ast_member(AstMaker *m, Loc loc, Ast *object, const char *name, Loc name_loc);
Ast *ast_call(AstMaker *m, Loc loc, Ast *callee, AstList args);
Ast *ast_keyword(AstMaker *m, Loc loc, const char *name, Ast *value);
Ast *ast_index(AstMaker *m, Loc loc, Ast *object, AstList subscripts);
Ast *ast_subscript(AstMaker *m, Ast *expr); /* a range in brackets is a slice */
Ast *ast_slice(AstMaker *m, Loc loc, Ast *lo, Ast *hi, Ast *step);
Ast *ast_range(AstMaker *m, Loc loc, Ast *lo, Ast *hi);
Ast *ast_unary(AstMaker *m, Loc loc, AstOp op, Ast *value);
Ast *ast_binary(AstMaker *m, Loc loc, AstOp op, Ast *left, Ast *right);
Ast *ast_cond(AstMaker *m, Loc loc, Ast *then, Ast *test, Ast *otherwise);
Ast *ast_sequence(AstMaker *m, AstKind list_or_tuple, Loc loc, AstList items);
Ast *ast_tuple(AstMaker *m, Loc loc, AstList items); /* one item: the item itself */
Ast *ast_comprehension(AstMaker *m, Loc loc, Ast *value, AstList targets, Ast *iter, Ast *test);
Ast *ast_retype(AstMaker *m, Loc loc, Ast *value, const char *dtype);
Ast *ast_evaluate(AstMaker *m, Loc loc, AstList args, AstList body);
Ast *ast_type(AstMaker *m, Loc loc, const char *dtype, AstList dims);
Ast *ast_assign(AstMaker *m, Loc loc, Ast *target, AstOp op, Ast *value);
Ast *ast_expr(AstMaker *m, Loc loc, Ast *value);
Ast *ast_if(AstMaker *m, Loc loc, Ast *test, AstList then, AstList otherwise);
Ast *ast_for(AstMaker *m, Loc loc, AstList targets, Ast *iter, AstList body);
Ast *ast_return(AstMaker *m, Loc loc, Ast *value);
Ast *ast_with(AstMaker *m, Loc loc, AstList contexts, AstList body);
/* A named declaration: module, func, batch (no name), data, trainer, file */
Ast *ast_decl(AstMaker *m, AstKind kind, Loc loc, const char *name, AstList list, AstList list2);
/* arg, field, option, param, state */
Ast *ast_typed(AstMaker *m, AstKind kind, Loc loc, const char *name, Ast *type, Ast *value,
               Ast *test);
Ast *ast_data(AstMaker *m, Loc loc, const char *name, Ast *source, AstList fields, Ast *transform);

AstList ast_list(AstMaker *m, Ast *first); /* first NULL: empty */
AstList ast_append(AstMaker *m, AstList list, Ast *item);

/* Same meaning: places, spelling of numbers and comments do not count. */
bool ast_equal(const Ast *x, const Ast *y);

/* Canonical .mpt text: parsing it gives an equal tree. With comments (NULL: without) those of the
 * source are kept at their statements. */
void ast_print(Text *out, const Ast *n, const AstFile *comments);
void ast_print_tree(Text *out, const Ast *n); /* --emit=ast: one node a line, indented */
/* One expression on one line, for messages and --explain. */
const char *ast_expr_text(Arena *a, const Ast *expr);

#endif
