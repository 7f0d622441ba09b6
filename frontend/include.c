/* include.c: `include "blocks.mpt"`: the modules and constants of other files.
 *
 * An included file has modules, constants (`name = value`, known at compile time) and further includes; what
 * makes a program (options, data, loops, a trainer) belongs to the file that is compiled. A path is looked for
 * beside the file that includes it, then in the folders of -I, in their order. A file that is met again is not
 * read again. The tree of the file itself stays as it is: what comes in goes to AstFile.included, in order.
 */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/base/strmap.h"
#include "ir/base/strutil.h"

enum { INCLUDE_MAX_DEPTH = 100 };

/* A file that is being read: the chain of them is what a cycle is told by. */
typedef struct Open {
    const struct Open *up; /* includes it; NULL: the file that is compiled */
    const AstFile *file;
    const char *identity; /* one for all spellings of its path */
    const Ast *at;        /* the include in `up` */
    int depth;
} Open;

typedef struct Declared {
    Loc loc;
    bool included;
} Declared;

typedef struct Include {
    AstMaker m;
    AstFile *to;
    int ndirs;
    const char *const *dirs;
    StrMap read;  /* identities of all files so far */
    StrMap names; /* name to its number in declared */
    VEC(Declared) declared;
} Include;

/* ---- names ----------------------------------------------------------------------------------------- */

/* A name of an included file is declared once. What the compiled file does with its own names is lowering's. */
static void declare(Include *x, const char *name, Loc loc, bool included)
{
    int *old = strmap_put(x->m.arena, &x->names, name, x->declared.n);
    if (*old == x->declared.n) {
        vec_push(x->m.arena, &x->declared, ((Declared){loc, included}));
    } else if (included || x->declared.at[*old].included) {
        diag_error(x->m.diag, loc, "`%s` is declared twice", name);
        diag_note(x->m.diag, x->declared.at[*old].loc, "the first one is here");
    }
}

static void declare_targets(Include *x, const AstList *targets)
{
    for (int i = 0; i < targets->n; i++) {
        if (targets->at[i]->kind == AST_name) {
            declare(x, targets->at[i]->name, targets->at[i]->loc, false);
        }
    }
}

/* What the compiled file names, wherever in its statements. */
static void declare_own(Include *x, const AstList *items)
{
    for (int i = 0; i < items->n; i++) {
        const Ast *n = items->at[i];
        switch ((AstKind)n->kind) {
        case AST_module:
        case AST_option:
        case AST_data: declare(x, n->name, n->loc, false); break;
        case AST_assign: {
            AstList one = {.at = (Ast **)&n->target, .n = 1};
            declare_targets(x, n->target->kind == AST_tuple ? &n->target->list : &one);
            break;
        }
        case AST_for:
            declare_targets(x, &n->list);
            declare_own(x, &n->list2);
            break;
        case AST_if:
            declare_own(x, &n->list);
            declare_own(x, &n->list2);
            break;
        case AST_with: declare_own(x, &n->list2); break;
        default: break;
        }
    }
}

/* ---- files ----------------------------------------------------------------------------------------- */

static const char *identity_of(Arena *a, const char *path)
{
    char real[PATH_MAX];
    return realpath(path, real) != NULL ? arena_strdup(a, real) : path;
}

/* "models/" of models/blocks.mpt */
static const char *folder_of(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? "" : arena_strndup(a, path, (size_t)(slash - path) + 1);
}

/* Where the i-th look is: beside the file, then in the folders of -I. NULL: there is no further one. */
static const char *candidate(Include *x, const Open *from, const char *path, int i)
{
    if (path[0] == '/') {
        return i == 0 ? path : NULL;
    }
    if (i == 0) {
        return arena_printf(x->m.arena, "%s%s", folder_of(x->m.arena, from->file->source->path),
                            path);
    }
    if (i > x->ndirs) {
        return NULL;
    }
    const char *dir = x->dirs[i - 1];
    return arena_printf(x->m.arena, "%s%s%s", dir, str_ends(dir, "/") ? "" : "/", path);
}

/* The first of the places that has the file; NULL after an error. */
static const SourceFile *find(Include *x, const Open *from, const Ast *at)
{
    Text *tried = text_new(x->m.arena);
    const char *path;
    for (int i = 0; (path = candidate(x, from, at->name, i)) != NULL; i++) {
        const SourceFile *source = source_load(x->m.arena, path);
        if (source != NULL) {
            return source;
        }
        if (errno != ENOENT && errno != ENOTDIR) {
            diag_error(x->m.diag, at->loc, "cannot read `%s`: %s", path, strerror(errno));
            return NULL;
        }
        text_printf(tried, "%s%s", i > 0 ? ", " : "", path);
    }
    diag_error(x->m.diag, at->loc, "there is no file `%s`", at->name);
    diag_note(x->m.diag, at->loc, "looked for %s%s", tried->at,
              x->ndirs > 0 || at->name[0] == '/' ? "" : "; -I DIR names further folders");
    return NULL;
}

/* Is the file one of those that are being read? Then an error shows the way from it to itself. */
static bool is_cycle(Include *x, const Open *from, const Ast *at, const char *identity)
{
    const Open *first = from;
    while (first != NULL && !str_eq(first->identity, identity)) {
        first = first->up;
    }
    if (first == NULL) {
        return false;
    }
    diag_error(x->m.diag, at->loc, "`%s` includes itself", first->file->source->path);
    for (const Open *f = from; f != first; f = f->up) {
        diag_note(x->m.diag, f->at->loc, "%s is included here", f->file->source->path);
    }
    return true;
}

static void include_all(Include *x, const Open *from);

static void include_one(Include *x, const Open *from, const Ast *at)
{
    if (at->name[0] == 0) {
        diag_error(x->m.diag, at->loc, "include needs the path of a file");
        return;
    }
    if (from->depth >= INCLUDE_MAX_DEPTH) {
        diag_error(x->m.diag, at->loc, "files include each other more than %d deep",
                   INCLUDE_MAX_DEPTH);
        return;
    }
    const SourceFile *source = find(x, from, at);
    const char *identity = source != NULL ? identity_of(x->m.arena, source->path) : NULL;
    if (source == NULL || is_cycle(x, from, at, identity) ||
        strmap_get(&x->read, identity) != NULL) {
        return;
    }
    strmap_put(x->m.arena, &x->read, identity, 1);
    int errors = diag_errors(x->m.diag);
    Open open = {.up = from, .identity = identity, .at = at, .depth = from->depth + 1};
    open.file = frontend_parse(x->m.arena, x->m.diag, source);
    if (diag_errors(x->m.diag) > errors) {
        diag_note(x->m.diag, at->loc, "%s is included here", source->path);
        return;
    }
    include_all(x, &open);
}

static void take(Include *x, const Open *from, Ast *n)
{
    bool constant = n->kind == AST_assign && n->op == AST_OP_none && n->target->kind == AST_name &&
                    n->value->kind != AST_evaluate;
    if (n->kind != AST_module && !constant) {
        diag_error(x->m.diag, n->loc,
                   "an included file has modules, constants and includes; this belongs to the file "
                   "that is compiled");
        diag_note(x->m.diag, from->at->loc, "%s is included here", from->file->source->path);
        return;
    }
    declare(x, constant ? n->target->name : n->name, n->loc, true);
    x->to->included = ast_append(&x->m, x->to->included, n);
}

static void include_all(Include *x, const Open *from)
{
    const AstList *items = &from->file->root->list;
    for (int i = 0; i < items->n && !diag_full(x->m.diag); i++) {
        if (items->at[i]->kind == AST_include) {
            include_one(x, from, items->at[i]);
        } else if (from->up != NULL) {
            take(x, from, items->at[i]);
        }
    }
}

bool frontend_include(Arena *a, Diag *d, AstFile *file, int ndirs, const char *const *dirs)
{
    Include x = {.m = {.arena = a, .diag = d}, .to = file, .ndirs = ndirs, .dirs = dirs};
    const Open top = {.file = file, .identity = identity_of(a, file->source->path)};
    include_all(&x, &top);
    declare_own(&x, &file->root->list);
    return !diag_failed(d);
}
