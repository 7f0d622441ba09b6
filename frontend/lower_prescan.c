/* lower_prescan.c: which variables of the program are numbers that change.
 *
 * Before the first statement is lowered it must be known whether `best = 0.0` makes a variable of the host
 * program (because a later line changes it) or is a compile-time number, and of which type the variable is.
 * Both are read off the tree: a name is a variable when it is assigned more than once, or in a loop or an
 * `if`, and at least one of the values is a number.
 */
#include "frontend/lower.h"

typedef enum Guess { GUESS_int, GUESS_float, GUESS_bool, GUESS_str, GUESS_other } Guess;

HostName *host_name_find(Lower *l, const char *name)
{
    for (int i = 0; i < l->host_names.n; i++) {
        if (str_eq(l->host_names.at[i].name, name)) {
            return &l->host_names.at[i];
        }
    }
    return NULL;
}

bool host_name_varies(Lower *l, const char *name)
{
    const HostName *h = host_name_find(l, name);
    return h != NULL && h->number && h->assigned > 1;
}

static HostName *add(Lower *l, const char *name)
{
    HostName *h = host_name_find(l, name);
    if (h == NULL) {
        vec_push(l->arena, &l->host_names, ((HostName){.name = name}));
        h = &vec_last(&l->host_names);
    }
    return h;
}

static Guess join(Guess a, Guess b)
{
    if (a == b) {
        return a;
    }
    if (a == GUESS_other || b == GUESS_other || a == GUESS_str || b == GUESS_str) {
        return GUESS_other;
    }
    return a == GUESS_float || b == GUESS_float ? GUESS_float : GUESS_int;
}

static Guess guess(Lower *l, const Ast *e);

static Guess guess_name(Lower *l, const char *name)
{
    const Decl *d = module_find(l->m, DECL_option, name);
    if (d != NULL) {
        return (Guess)attrs_expr(&d->attrs, ATTR_default)->type;
    }
    const HostName *h = host_name_find(l, name);
    return h != NULL && h->number ? (Guess)h->type : GUESS_other;
}

static Guess guess_call(Lower *l, const Ast *e)
{
    if (e->callee->kind != AST_name) {
        return GUESS_other;
    }
    if (str_eq(e->callee->name, "elapsed")) {
        return GUESS_float;
    }
    if (str_eq(e->callee->name, "step_was_skipped")) {
        return GUESS_bool;
    }
    static const struct {
        const char *name;
        Guess gives; /* other: what its arguments are */
    } known[] = {
        {"len", GUESS_int},     {"int", GUESS_int},    {"floor", GUESS_int}, {"ceil", GUESS_int},
        {"float", GUESS_float}, {"sqrt", GUESS_float}, {"exp", GUESS_float}, {"log", GUESS_float},
        {"min", GUESS_other},   {"max", GUESS_other},  {"abs", GUESS_other},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!str_eq(known[i].name, e->callee->name)) {
            continue;
        }
        if (str_eq(known[i].name, "len")) {
            return GUESS_int;
        }
        Guess g = e->list.n == 0 ? GUESS_other : guess(l, e->list.at[0]);
        for (int k = 1; k < e->list.n; k++) {
            g = join(g, guess(l, e->list.at[k]));
        }
        return g == GUESS_other || known[i].gives == GUESS_other ? g : known[i].gives;
    }
    return GUESS_other;
}

static Guess guess_binary(Lower *l, const Ast *e)
{
    Guess a = guess(l, e->left), b = guess(l, e->right);
    if (e->op == AST_OP_matmul || a == GUESS_other || b == GUESS_other) {
        return GUESS_other;
    }
    if ((e->op >= AST_OP_eq && e->op <= AST_OP_ge) || e->op == AST_OP_and || e->op == AST_OP_or) {
        return GUESS_bool;
    }
    if (e->op == AST_OP_div) {
        return GUESS_float;
    }
    Guess g = join(a, b);
    return g == GUESS_bool ? GUESS_int : g;
}

static Guess guess(Lower *l, const Ast *e)
{
    switch ((AstKind)e->kind) {
    case AST_int: return GUESS_int;
    case AST_float:
    case AST_evaluate: return GUESS_float;
    case AST_bool: return GUESS_bool;
    case AST_str: return GUESS_str;
    case AST_name: return guess_name(l, e->name);
    case AST_unary: {
        Guess g = guess(l, e->value);
        return g == GUESS_other || e->op == AST_OP_neg ? g : GUESS_bool;
    }
    case AST_binary: return guess_binary(l, e);
    case AST_cond: return join(guess(l, e->then), guess(l, e->otherwise));
    case AST_call: return guess_call(l, e);
    default: return GUESS_other;
    }
}

/* ---- walking --------------------------------------------------------------------------------------- */

typedef struct Scan {
    Lower *l;
    bool count; /* the first walk counts assignments */
    bool changed;
} Scan;

static void assigned(Scan *s, const char *name, Guess g, bool nested)
{
    HostName *h = add(s->l, name);
    if (s->count) {
        h->assigned += nested ? 2 : 1;
    }
    if (g == GUESS_other) {
        if (!h->tensor) {
            h->tensor = s->changed = true;
        }
    } else {
        Guess now = h->number ? join((Guess)h->type, g) : g;
        now = now == GUESS_other ? (Guess)h->type : now;
        if (!h->number || (HostType)now != h->type) {
            h->number = s->changed = true;
            h->type = (HostType)now;
        }
    }
    if (h->number && h->tensor && h->type == HT_int) {
        h->type = HT_float; /* what a graph computes is mostly a mean */
        s->changed = true;
    }
}

static void scan_block(Scan *s, const AstList *body, bool nested);

static void scan_assign(Scan *s, const Ast *a, bool nested)
{
    const Ast *t = a->target;
    if (t->kind == AST_name) {
        Guess g = guess(s->l, a->value);
        if (a->op != AST_OP_none) {
            g = g == GUESS_other      ? g
                : a->op == AST_OP_div ? GUESS_float
                                      : join(g, guess_name(s->l, t->name));
        }
        assigned(s, t->name, g, nested || a->op != AST_OP_none);
    } else if (t->kind == AST_tuple) {
        bool numbers = a->value->kind == AST_evaluate;
        for (int i = 0; i < t->list.n; i++) {
            if (t->list.at[i]->kind == AST_name) {
                Guess g = numbers ? GUESS_float
                          : a->value->kind == AST_tuple && i < a->value->list.n
                              ? guess(s->l, a->value->list.at[i])
                              : GUESS_other;
                assigned(s, t->list.at[i]->name, g, nested);
            }
        }
    }
}

static bool counts(const Ast *iter)
{
    return iter->kind == AST_range ||
           (iter->kind == AST_call && iter->callee->kind == AST_name &&
            (str_eq(iter->callee->name, "range") || str_eq(iter->callee->name, "enumerate")));
}

static void scan_statement(Scan *s, const Ast *a, bool nested)
{
    switch ((AstKind)a->kind) {
    case AST_assign: scan_assign(s, a, nested); break;
    case AST_if:
        scan_block(s, &a->list, true);
        scan_block(s, &a->list2, true);
        break;
    case AST_for:
        for (int i = 0; i < a->list.n; i++) {
            if (a->list.at[i]->kind == AST_name) {
                assigned(s, a->list.at[i]->name,
                         counts(a->iter) && i == 0 ? GUESS_int : GUESS_other, true);
            }
        }
        scan_block(s, &a->list2, true);
        break;
    case AST_with: scan_block(s, &a->list2, nested); break;
    default: break;
    }
}

static void scan_block(Scan *s, const AstList *body, bool nested)
{
    for (int i = 0; i < body->n; i++) {
        scan_statement(s, body->at[i], nested);
    }
}

void host_prescan(Lower *l, const AstList *items)
{
    Scan s = {.l = l, .count = true, .changed = true};
    /* types only rise (int, then float), so this ends; the limit is for the reader's peace */
    for (int round = 0; s.changed && round < 20; round++) {
        s.changed = false;
        scan_block(&s, items, false);
        s.count = false;
    }
}
