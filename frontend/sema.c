/* sema.c: names in code that lowering never reached: modules that nothing makes, functions that nothing
 * calls. A misspelt name there is an error all the same; types and shapes are only known for what is used.
 */
#include "frontend/lower.h"

typedef struct Sema {
    Lower *l;
    const ModuleDecl *decl;
    Names names; /* what is declared in the module and the function */
} Sema;

static void declare(Sema *s, const char *name)
{
    if (name != NULL) {
        vec_push(s->l->arena, &s->names, name);
    }
}

static void declare_targets(Sema *s, const AstList *targets)
{
    for (int i = 0; i < targets->n; i++) {
        declare(s, targets->at[i]->kind == AST_name ? targets->at[i]->name : NULL);
    }
}

/* Everything that a body assigns, wherever in it. */
static void declare_assigned(Sema *s, const AstList *body)
{
    for (int i = 0; i < body->n; i++) {
        const Ast *a = body->at[i];
        if (a->kind == AST_assign) {
            declare(s, a->target->kind == AST_name ? a->target->name : NULL);
            if (a->target->kind == AST_tuple) {
                declare_targets(s, &a->target->list);
            }
        }
        if (a->kind == AST_for) {
            declare_targets(s, &a->list);
        }
        if (a->kind == AST_if || a->kind == AST_for || a->kind == AST_with) {
            declare_assigned(s, &a->list2);
        }
        if (a->kind == AST_if) {
            declare_assigned(s, &a->list);
        }
    }
}

static bool known(Sema *s, const char *name)
{
    DType dt;
    for (int i = 0; i < s->names.n; i++) {
        if (str_eq(s->names.at[i], name)) {
            return true;
        }
    }
    return str_eq(name, "training") || str_eq(name, "self") ||
           scope_find(&s->l->globals, name) != NULL || host_name_find(s->l, name) != NULL ||
           module_lookup(s->l, name) != NULL || builtin_find(name) != NULL || eval_dtype(name, &dt);
}

static void check_name(Sema *s, const Ast *e, bool called)
{
    if (known(s, e->name)) {
        return;
    }
    Names all = {0};
    eval_visible(s->l, &all);
    for (int i = 0; i < s->names.n; i++) {
        vec_push(s->l->arena, &all, s->names.at[i]);
    }
    const char *what = !called                                  ? "name"
                       : e->name[0] >= 'A' && e->name[0] <= 'Z' ? "module"
                                                                : "function";
    lower_error(s->l, e->loc, "unknown %s `%s`%s", what, e->name,
                lower_did_you_mean(s->l, e->name, &all));
    declare(s, e->name); /* once is enough */
}

/* Names and number of the arguments of a call by name. */
static void check_arguments(Sema *s, const Ast *call)
{
    Formal formals[MAX_FORMALS];
    Match m;
    const char *name = call->callee->name;
    for (int i = 0; i < s->names.n; i++) {
        if (str_eq(s->names.at[i], name)) {
            return; /* a member or a variable: nobody knows what is in it */
        }
    }
    const ModuleDecl *decl = module_lookup(s->l, name);
    const Builtin *fn = builtin_find(name);
    if (decl != NULL) {
        Formal *of = module_formals(s->l, &decl->ast->list);
        args_match(s->l, arena_printf(s->l->arena, "module %s", name), of, decl->ast->list.n, 0,
                   call, &m);
    } else if (fn != NULL) {
        int n = builtin_formals(s->l, fn, formals);
        args_match(s->l, arena_printf(s->l->arena, "`%s`", name), formals, n, 0, call, &m);
    }
}

static void check(Sema *s, const Ast *e);

static void check_list(Sema *s, const AstList *list)
{
    for (int i = 0; i < list->n; i++) {
        check(s, list->at[i]);
    }
}

/* Trees are at most AST_MAX_DEPTH deep. */
static void check(Sema *s, const Ast *e)
{
    if (e == NULL || diag_full(s->l->diag)) {
        return;
    }
    switch ((AstKind)e->kind) {
    case AST_name: check_name(s, e, false); return;
    case AST_call:
        if (e->callee->kind == AST_name) {
            check_name(s, e->callee, true);
            check_arguments(s, e);
        } else {
            check(s, e->callee);
        }
        check_list(s, &e->list);
        return;
    case AST_comprehension:
        check(s, e->iter);
        declare_targets(s, &e->list);
        check(s, e->test);
        check(s, e->value);
        return;
    case AST_assign: check(s, e->value); return;
    case AST_for:
        check(s, e->iter);
        check_list(s, &e->list2);
        return;
    case AST_error: return;
    default: break;
    }
    check(s, e->a);
    check(s, e->b);
    check(s, e->c);
    check_list(s, &e->list);
    check_list(s, &e->list2);
}

static void check_function(Sema *s, const Ast *func)
{
    int mark = s->names.n;
    for (int i = 0; i < func->list.n; i++) {
        const Ast *arg = func->list.at[i];
        declare(s, arg->name);
        check(s, arg->value);
        for (int k = 0; arg->type != NULL && k < arg->type->list.n; k++) {
            const Ast *dim = arg->type->list.at[k];
            declare(s, dim->kind == AST_name ? dim->name : NULL); /* it may bind a size */
        }
    }
    declare_assigned(s, &func->list2);
    check_list(s, &func->list2);
    s->names.n = mark;
}

static void check_members(Sema *s)
{
    const AstList *members = &s->decl->ast->list2;
    for (int i = 0; i < members->n; i++) {
        const Ast *m = members->at[i];
        if (m->kind == AST_assign) {
            check(s, m->value);
        }
        if (m->kind == AST_param || m->kind == AST_state) {
            check_list(s, &m->type->list);
            check(s, m->test);
            if (m->value != NULL && m->value->kind == AST_call) {
                param_initialiser(s->l, m->value);
                check_list(s, &m->value->list);
            }
        }
    }
}

static bool tried(const Lower *l, const Ast *func)
{
    for (int i = 0; i < l->tried.n; i++) {
        if (l->tried.at[i] == func) {
            return true;
        }
    }
    return false;
}

void sema_unused_modules(Lower *l)
{
    for (int i = 0; i < l->modules.n && !diag_full(l->diag); i++) {
        const ModuleDecl *decl = l->modules.at[i];
        if (decl->is_std) {
            continue;
        }
        Sema s = {.l = l, .decl = decl};
        const Ast *ast = decl->ast;
        for (int k = 0; k < ast->list.n; k++) {
            declare(&s, ast->list.at[k]->name);
        }
        for (int k = 0; k < ast->list2.n; k++) {
            const Ast *m = ast->list2.at[k];
            declare(&s, m->kind == AST_assign ? m->target->name : m->name);
        }
        if (!decl->used) {
            check_members(&s);
        }
        for (int k = 0; k < ast->list2.n; k++) {
            if (ast->list2.at[k]->kind == AST_func && !tried(l, ast->list2.at[k])) {
                check_function(&s, ast->list2.at[k]);
            }
        }
    }
}
