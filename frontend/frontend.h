/* frontend.h: from .mpt text to a syntax tree, and on to the IR.
 *
 * Everything else of the language (lexing, the standard library's text, the expansion of a trainer
 * block to the loop it stands for) is behind these calls. All results live in the arena given.
 */
#ifndef MPC_FRONTEND_H
#define MPC_FRONTEND_H

#include "frontend/ast.h"
#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/ir.h"

/* The tree of a file, and errors in d. Never NULL: after errors it holds what could be read. */
AstFile *frontend_parse(Arena *a, Diag *d, const SourceFile *source);

/* Reads what the file includes, from beside it and from dirs (-I), into file->included; false after errors. */
bool frontend_include(Arena *a, Diag *d, AstFile *file, int ndirs, const char *const *dirs);

/* The tokens of a file, one a line (--emit=tokens). */
void frontend_print_tokens(Arena *a, Diag *d, const SourceFile *source, Text *out);

/* The file in its canonical layout (mpc fmt); false after errors. */
bool frontend_format(Arena *a, Diag *d, const SourceFile *source, Text *out);

/* Rewrites a trainer block, and statements with an accelerator, to the explicit loop; the result is a new file
 * whose other items are shared with the old one. */
AstFile *frontend_expand_levels(Arena *a, Diag *d, const AstFile *file);

/* `-D NAME=VALUE`: other defaults of options. */
typedef struct LowerOptions {
    int ndefines;
    const char *const *names;
    const char *const *values; /* as written */
} LowerOptions;

/* The program as IR: graphs, host program, declarations. NULL after an error. The file has no trainer block
 * or accelerator any more (frontend_expand_levels). */
Module *frontend_lower(Arena *a, Diag *d, const AstFile *file, const LowerOptions *options);

/* The embedded standard library: its files in order, name and text (--emit=std). */
typedef struct StdFile {
    const char *name; /* "linear.mpt" */
    const char *text;
    size_t size;
} StdFile;
const StdFile *frontend_std(int *count);

#endif
