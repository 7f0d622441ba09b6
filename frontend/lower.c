/* lower.c: a file's tree becomes a module: options, data and modules first, then the statements in order.
 * Also what all files of the lowering use: scopes, errors, limits.
 */
#include "frontend/lower.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- scopes ---------------------------------------------------------------------------------------- */

Val *scope_find(const Scope *s, const char *name)
{
    const int *i = strmap_get(&s->newest, name);
    return i != NULL && *i >= 0 ? &s->at[*i].val : NULL;
}

void scope_cut(Scope *s, int n)
{
    while (s->n > n) {
        const Binding *last = &s->at[--s->n];
        *strmap_get(&s->newest, last->name) = last->before;
    }
}

void scope_add(Arena *a, Scope *s, const char *name, Val v)
{
    int *newest = strmap_put(a, &s->newest, name, -1);
    vec_push(a, s, ((Binding){name, v, *newest}));
    *newest = s->n - 1;
}

void scope_set(Arena *a, Scope *s, const char *name, Val v)
{
    Val *old = scope_find(s, name);
    if (old != NULL) {
        *old = v;
    } else {
        scope_add(a, s, name, v);
    }
}

/* ---- errors ---------------------------------------------------------------------------------------- */

static bool in_std(const Lower *l)
{
    return l->frame != NULL && l->frame->is_std;
}

Loc lower_loc(const Lower *l, Loc loc)
{
    return in_std(l) ? l->loc : loc;
}

void lower_at(Lower *l, const Ast *ast)
{
    if (!in_std(l)) {
        l->loc = ast->loc;
    }
}

static const char *arguments_text(Lower *l, const Instance *self)
{
    Text *t = text_new(l->arena);
    char buf[32];
    for (int i = 0; i < self->args.n; i++) {
        const Binding *b = &self->args.at[i];
        if (b->val.kind != VAL_int && b->val.kind != VAL_float) {
            continue;
        }
        text_printf(t, "%s%s = ", t->n > 0 ? ", " : " with ", b->name);
        if (b->val.kind == VAL_int) {
            text_printf(t, "%lld", (long long)b->val.i);
        } else {
            text_puts(t, str_double(buf, b->val.f));
        }
    }
    return t->n > 0 ? t->at : "";
}

/* Says where the instance was made whose code, out of the user's sight, is being evaluated. */
void lower_frame_notes(Lower *l)
{
    const Frame *f = l->frame;
    while (f != NULL && f->is_std && f->up != NULL && f->up->is_std) {
        f = f->up;
    }
    if (f != NULL && f->is_std && f->self != NULL && !f->members_only) {
        const char *name = f->self->path[0] != '\0' ? f->self->path : f->self->decl->ast->name;
        diag_note(l->diag, f->self->loc, "%s was declared here%s", name,
                  arguments_text(l, f->self));
    }
}

Val lower_error(Lower *l, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(l->arena, fmt, ap);
    va_end(ap);
    diag_error(l->diag, lower_loc(l, loc), "%s", text);
    lower_frame_notes(l);
    return val_poison();
}

void lower_note(Lower *l, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(l->arena, fmt, ap);
    va_end(ap);
    diag_note(l->diag, lower_loc(l, loc), "%s", text);
}

static bool is_capital(const char *name)
{
    return name[0] >= 'A' && name[0] <= 'Z';
}

const char *lower_did_you_mean(Lower *l, const char *name, const Names *names)
{
    /* `relu` rather than `ReLU` for `reluu`: modules are spelled with a capital, all else without */
    Names alike = {0};
    for (int i = 0; i < names->n; i++) {
        if (names->at[i] != NULL && is_capital(names->at[i]) == is_capital(name)) {
            vec_push(l->arena, &alike, names->at[i]);
        }
    }
    const char *near = nearest_name(name, alike.at, alike.n);
    near = near != NULL ? near : nearest_name(name, names->at, names->n);
    near = name[0] != '\0' && name[1] == '\0' ? NULL
                                              : near; /* every short name is near to one letter */
    return near == NULL ? "" : arena_printf(l->arena, ": did you mean `%s`?", near);
}

static const char *tensor_text(Lower *l, Val v)
{
    static const Graph none;
    const Graph *g = v.kind == VAL_tensor ? v.run->graph : &none;
    Dims dims = {0};
    DType dt = DT_none;
    val_dims(v, &dims, &dt);
    if (dims.rank == 0) {
        return arena_printf(l->arena, "a scalar %s", dtype_info[dt].name);
    }
    return arena_printf(l->arena, "a tensor %s[%s]", dtype_info[dt].name,
                        dims_text(l->arena, g, &dims));
}

const char *val_describe(Lower *l, Val v)
{
    char buf[32];
    switch (v.kind) {
    case VAL_int: return arena_printf(l->arena, "the number %lld", (long long)v.i);
    case VAL_float: return arena_printf(l->arena, "the number %s", str_double(buf, v.f));
    case VAL_bool: return v.b ? "true" : "false";
    case VAL_host:
        return arena_printf(l->arena, "the program's number `%s`",
                            host_expr_text(l->arena, v.host));
    case VAL_tensor:
    case VAL_param: return tensor_text(l, v);
    case VAL_instance: return arena_printf(l->arena, "a module %s", v.instance->decl->ast->name);
    case VAL_module:
        return arena_printf(l->arena, "the module %s, not yet made", v.module->ast->name);
    case VAL_builtin: return arena_printf(l->arena, "the function `%s`", v.builtin->name);
    case VAL_data: return arena_printf(l->arena, "the data set `%s`", v.data->decl->name);
    default: break;
    }
    static const char *const kinds[VAL_KINDS] = {
        [VAL_poison] = "an error",
        [VAL_none] = "none",
        [VAL_str] = "a string",
        [VAL_dtype] = "a type",
        [VAL_dim] = "a size",
        [VAL_list] = "a list",
        [VAL_tuple] = "a tuple",
        [VAL_range] = "a range",
        [VAL_method] = "a function",
        [VAL_parts] = "a split, with the parts train and validation",
        [VAL_loader] = "a loader",
        [VAL_batch] = "a batch",
        [VAL_optimizer] = "an optimizer",
        [VAL_group] = "a group of parameters",
        [VAL_scheduler] = "a schedule",
        [VAL_scaler] = "a scaler",
        [VAL_ema] = "an EMA",
        [VAL_measure] = "a metric of a whole set",
        [VAL_context] = "a context of `with`",
    };
    return kinds[v.kind];
}

/* ---- limits ---------------------------------------------------------------------------------------- */

bool lower_enter(Lower *l, Loc loc)
{
    if (diag_full(l->diag)) {
        return false;
    }
    if (l->depth >= LOWER_MAX_DEPTH) {
        if (!l->too_deep) {
            lower_error(l, loc, "this is nested too deeply");
        }
        l->too_deep = true;
        return false;
    }
    l->depth++;
    return true;
}

bool lower_unroll(Lower *l, Loc loc)
{
    if (l->unrolled++ < LOWER_MAX_UNROLL) {
        return !diag_full(l->diag);
    }
    if (l->unrolled == LOWER_MAX_UNROLL + 1) {
        lower_error(l, loc, "loops unroll to more than %d iterations at compile time",
                    LOWER_MAX_UNROLL);
    }
    return false;
}

/* ---- options --------------------------------------------------------------------------------------- */

static const char *define_of(const Lower *l, const char *name)
{
    const char *value = NULL;
    for (int i = 0; l->options != NULL && i < l->options->ndefines; i++) {
        value = str_eq(l->options->names[i], name) ? l->options->values[i] : value;
    }
    return value;
}

/* The text of a -D as a value of the option's type; VAL_poison when it is none. */
static Val define_value(const char *text, ValueKind kind)
{
    char *end;
    errno = 0;
    if (kind == VAL_bool) {
        bool yes = str_eq(text, "true") || str_eq(text, "1");
        return yes || str_eq(text, "false") || str_eq(text, "0") ? val_bool(yes) : val_poison();
    }
    if (kind == VAL_int) {
        int64_t i = strtoll(text, &end, 10);
        return *text != '\0' && *end == '\0' && errno == 0 ? val_int(i) : val_poison();
    }
    if (kind == VAL_float) {
        double f = strtod(text, &end);
        return *text != '\0' && *end == '\0' ? val_float(f) : val_poison();
    }
    return val_str(text);
}

static Val option_typed(Lower *l, const Ast *o, Val v)
{
    if (o->type == NULL) {
        return v;
    }
    const char *t = o->type->name;
    DType dt = DT_none;
    bool text = str_eq(t, "str");
    bool floating = str_eq(t, "float") || (eval_dtype(t, &dt) && dtype_info[dt].is_float);
    bool whole = str_eq(t, "int") || dtype_info[dt].is_int;
    if (text || floating || whole || str_eq(t, "bool")) {
        if (floating && v.kind == VAL_int) {
            return val_float((double)v.i);
        }
        ValueKind want = text ? VAL_str : floating ? VAL_float : whole ? VAL_int : VAL_bool;
        return v.kind == want
                   ? v
                   : lower_error(l, o->value->loc, "option `%s` is of type %s, but this is %s",
                                 o->name, t, val_describe(l, v));
    }
    return lower_error(l, o->type->loc, "an option is of type int, float, bool or str");
}

static void declare_option(Lower *l, const Ast *o)
{
    if (scope_find(&l->globals, o->name) != NULL) {
        lower_error(l, o->loc, "`%s` is declared twice", o->name);
        return;
    }
    scope_set(l->arena, &l->globals, o->name, val_poison());
    Val v = option_typed(l, o, eval(l, o->value));
    if (!val_is_number(v) && v.kind != VAL_str) {
        if (!val_is_poison(v)) {
            lower_error(l, o->value->loc,
                        "the default of an option is a number or a string that is written here");
        }
        return;
    }
    const char *text = define_of(l, o->name);
    if (text != NULL) {
        Val given = define_value(text, v.kind);
        if (val_is_poison(given)) {
            lower_error(l, o->loc, "-D %s=%s: option `%s` is %s", o->name, text, o->name,
                        v.kind == VAL_int     ? "a whole number"
                        : v.kind == VAL_float ? "a number"
                                              : "true or false");
            return;
        }
        v = given;
    }
    HostExpr *value = host_of(l, v, o->value->loc);
    if (value == NULL) {
        return;
    }
    static const char *const types[] = {
        [HT_int] = "int", [HT_float] = "float", [HT_bool] = "bool", [HT_str] = "str"};
    Decl *d = module_decl(l->m, DECL_option, o->name);
    d->loc = o->loc;
    attrs_set_str(l->arena, &d->attrs, ATTR_type, types[value->type]);
    attrs_set_expr(l->arena, &d->attrs, ATTR_default, value);
    HostExpr *e = host_node(l, HE_option, value->type, o->name, 0, NULL, o->loc);
    scope_set(l->arena, &l->globals, o->name, val_host(e));
}

static void check_defines(Lower *l)
{
    Names names = {0};
    for (int i = 0; i < l->m->ndecls; i++) {
        vec_push(l->arena, &names,
                 l->m->decls[i]->kind == DECL_option ? l->m->decls[i]->name : NULL);
    }
    for (int i = 0; l->options != NULL && i < l->options->ndefines; i++) {
        const char *name = l->options->names[i];
        if (module_find(l->m, DECL_option, name) == NULL && scope_find(&l->globals, name) == NULL) {
            lower_error(l, loc_none(), "-D %s: the file has no option of that name%s", name,
                        lower_did_you_mean(l, name, &names));
        }
    }
}

/* ---- modules --------------------------------------------------------------------------------------- */

static const char *member_name(const Ast *m)
{
    return m->kind == AST_assign ? m->target->name : m->name;
}

/* What a module declares, it declares once; arguments and members may share names. */
static void check_names(Lower *l, const Ast *module)
{
    for (int i = 0; i < module->list.n; i++) {
        for (int k = 0; k < i; k++) {
            if (str_eq(module->list.at[i]->name, module->list.at[k]->name)) {
                lower_error(l, module->list.at[i]->loc, "there are two arguments called `%s`",
                            module->list.at[i]->name);
            }
        }
    }
    for (int i = 0; i < module->list2.n; i++) {
        const char *name = member_name(module->list2.at[i]);
        for (int k = 0; k < i && name != NULL; k++) {
            const char *other = member_name(module->list2.at[k]);
            if (other != NULL && str_eq(name, other)) {
                lower_error(l, module->list2.at[i]->loc, "`%s` is declared twice in module %s",
                            name, module->name);
                lower_note(l, module->list2.at[k]->loc, "the first one is here");
                break;
            }
        }
    }
}

static void add_module(Lower *l, const Ast *ast, bool is_std)
{
    ModuleDecl *old = module_lookup(l, ast->name);
    if (old != NULL && !is_std) {
        lower_error(l, ast->loc, "module %s is declared twice", ast->name);
        lower_note(l, old->ast->loc, "the first one is here");
        return;
    }
    ModuleDecl *decl = ARENA_NEW(l->arena, ModuleDecl);
    decl->ast = ast;
    decl->is_std = is_std;
    vec_push(l->arena, &l->modules, decl);
    if (!is_std) {
        check_names(l, ast);
        own_grad_check(l, ast);
    }
}

/* The file's own modules hide those of the standard library: look-up takes the first. */
static void collect_modules(Lower *l)
{
    const AstList *const lists[] = {&l->file->included, &l->file->root->list};
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < lists[i]->n; k++) {
            if (lists[i]->at[k]->kind == AST_module) {
                add_module(l, lists[i]->at[k], false);
            }
        }
    }
    int n;
    const StdFile *std = frontend_std(&n);
    for (int i = 0; i < n; i++) {
        Diag *quiet = diag_new(l->arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
        SourceFile *source = source_from_text(l->arena, std[i].name, std[i].text, std[i].size);
        const AstFile *file = frontend_parse(l->arena, quiet, source);
        if (diag_failed(quiet)) {
            ICE("the standard library does not parse: %s", diag_text(quiet));
        }
        for (int k = 0; k < file->root->list.n; k++) {
            if (file->root->list.at[k]->kind == AST_module) {
                add_module(l, file->root->list.at[k], true);
            }
        }
    }
}

static int count_models(const Lower *l, const AstList *items)
{
    int n = 0;
    for (int i = 0; i < items->n; i++) {
        const Ast *s = items->at[i];
        if (s->kind == AST_assign && s->value->kind == AST_call &&
            s->value->callee->kind == AST_name) {
            for (int k = 0; k < l->modules.n; k++) {
                n += str_eq(l->modules.at[k]->ast->name, s->value->callee->name);
            }
        }
    }
    return n;
}

/* ---- the whole ------------------------------------------------------------------------------------- */

static const char *base_name(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t n = dot != NULL && dot != base ? (size_t)(dot - base) : strlen(base);
    return n > 0 ? arena_strndup(a, base, n) : "program";
}

/* The constants of included files are known to all of the program, and stay as they are. */
static void included_constants(Lower *l)
{
    for (int i = 0; i < l->file->included.n; i++) {
        const Ast *s = l->file->included.at[i];
        if (s->kind != AST_assign) {
            continue;
        }
        Val v = eval(l, s->value);
        bool known = eval_is_constant(v) || (v.kind == VAL_host && host_is_static(v.host));
        if (!known && !val_is_poison(v)) {
            v = lower_error(l, s->value->loc,
                            "the constants of an included file are known at compile time, but this "
                            "is %s",
                            val_describe(l, v));
        }
        scope_set(l->arena, &l->globals, s->target->name, v);
    }
}

static void declarations(Lower *l, const AstList *items)
{
    for (int i = 0; i < items->n; i++) {
        if (items->at[i]->kind == AST_option) {
            declare_option(l, items->at[i]);
        }
    }
    check_defines(l);
    included_constants(l);
    for (int i = 0; i < items->n; i++) {
        if (items->at[i]->kind == AST_data) {
            data_declare(l, items->at[i]);
        }
    }
}

static void nothing_to_train(Lower *l, const AstFile *file)
{
    Loc loc = {.file = file->source, .line = 1, .col = 1, .len = 1};
    lower_error(l, loc, "there is nothing to do: no loop over batches and no trainer block");
}

Module *frontend_lower(Arena *a, Diag *d, const AstFile *file, const LowerOptions *options)
{
    Lower *l = ARENA_NEW(a, Lower);
    Gradients gradients = {0};
    const AstList *items = &file->root->list;
    l->arena = a;
    l->diag = d;
    l->file = file;
    l->options = options;
    l->m = module_new(a, base_name(a, file->source->path), file->source->path);
    l->block = &l->m->host;
    l->gradients = &gradients;
    l->training = true;
    collect_modules(l);
    l->one_model = count_models(l, items) <= 1;
    declarations(l, items);
    host_prescan(l, items);
    for (int i = 0; i < items->n; i++) {
        host_statement(l, items->at[i]);
    }
    run_close(l);
    gradients_finish(l);
    data_finish(l);
    sema_unused_modules(l);
    if (!diag_failed(d) && l->m->host.n == 0) {
        nothing_to_train(l, file);
    }
    if (diag_failed(d)) {
        return NULL;
    }
    run_finish(l);
    return l->m;
}
