/* eval.c: the value of an expression: names, literals, operators, members, subscripts of lists, conditions,
 * comprehensions. What a tensor makes of an operator is lower_tensor.c's, arithmetic eval_number.c's, and
 * calls are handed to lower_args.c and lower_module.c.
 */
#include "frontend/lower.h"

#include <string.h>

/* ---- lists ----------------------------------------------------------------------------------------- */

Val val_list(Lower *l, ValueKind list_or_tuple)
{
    return (Val){.kind = list_or_tuple, .list = ARENA_NEW(l->arena, Values)};
}

void val_push(Lower *l, Val *list, Val v)
{
    vec_push(l->arena, list->list, v);
}

bool eval_iterable(Lower *l, Val v, Loc loc, int64_t *n)
{
    int64_t lo, hi, step;
    switch (v.kind) {
    case VAL_poison: return false;
    case VAL_list:
    case VAL_tuple: *n = v.list->n; return true;
    case VAL_range:
        if (!val_int_of(l, v.range->lo, "the start of a range", loc, &lo) ||
            !val_int_of(l, v.range->hi, "the end of a range", loc, &hi) ||
            !val_int_of(l, v.range->step, "the step of a range", loc, &step)) {
            return false;
        }
        if (step == 0) {
            lower_error(l, loc, "the step of a range is 0");
            return false;
        }
        v.range->lo = val_int(lo);
        v.range->hi = val_int(hi);
        v.range->step = val_int(step);
        double count = ((double)hi - (double)lo) / (double)step;
        if (count > LOWER_MAX_UNROLL) {
            lower_error(l, loc,
                        "this loop is unrolled at compile time and has more than %d iterations",
                        LOWER_MAX_UNROLL);
            return false;
        }
        /* in unsigned arithmetic the distance of any two fits */
        uint64_t far = step > 0 ? (uint64_t)hi - (uint64_t)lo : (uint64_t)lo - (uint64_t)hi;
        uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
        *n = (step > 0 ? hi <= lo : hi >= lo) ? 0 : (int64_t)((far - 1) / by + 1);
        return true;
    default:
        lower_error(l, loc, "a loop runs over a list or a range, but this is %s",
                    val_describe(l, v));
        return false;
    }
}

Val eval_element(Lower *l, Val v, int64_t at)
{
    (void)l;
    return v.kind == VAL_range ? val_int(v.range->lo.i + at * v.range->step.i) : v.list->at[at];
}

static Scope *current_scope(Lower *l)
{
    return l->frame != NULL ? &l->frame->locals : &l->globals;
}

static void bind_one(Lower *l, const Ast *target, Val v, bool fresh)
{
    if (target->kind != AST_name) {
        return;
    }
    if (fresh) {
        scope_add(l->arena, current_scope(l), target->name, v);
    } else {
        scope_set(l->arena, current_scope(l), target->name, v);
    }
}

bool lower_bind(Lower *l, const AstList *targets, Val v, Loc loc, bool fresh)
{
    if (targets->n == 1) {
        bind_one(l, targets->at[0], v, fresh);
        return true;
    }
    if ((v.kind != VAL_list && v.kind != VAL_tuple) || v.list->n != targets->n) {
        if (v.kind == VAL_list || v.kind == VAL_tuple) {
            lower_error(l, loc, "%d names for %d values", targets->n, v.list->n);
        } else if (!val_is_poison(v)) {
            lower_error(l, loc, "%d names, but each value is %s", targets->n, val_describe(l, v));
        }
        for (int i = 0; i < targets->n; i++) {
            bind_one(l, targets->at[i], val_poison(), fresh);
        }
        return false;
    }
    for (int i = 0; i < targets->n; i++) {
        bind_one(l, targets->at[i], v.list->at[i], fresh);
    }
    return true;
}

/* ---- names ----------------------------------------------------------------------------------------- */

bool eval_dtype(const char *name, DType *out)
{
    /* clang-format off */
    static const struct { const char *name; DType dtype; } spellings[] = {
        {"float64", DT_f64}, {"double", DT_f64}, {"float32", DT_f32}, {"float16", DT_f16},
        {"half", DT_f16}, {"fp16", DT_f16}, {"bfloat16", DT_bf16}, {"fp32", DT_f32},
        {"int64", DT_i64}, {"long", DT_i64}, {"int32", DT_i32}, {"int8", DT_i8}, {"uint8", DT_u8},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        if (str_eq(spellings[i].name, name)) {
            *out = spellings[i].dtype;
            return true;
        }
    }
    return !str_eq(name, "grads") && !str_eq(name, "none") && dtype_find(name, out);
}

static bool visible_in_modules(Val v)
{
    return val_is_number(v) || v.kind == VAL_host || v.kind == VAL_str || v.kind == VAL_dtype ||
           v.kind == VAL_none || v.kind == VAL_list || v.kind == VAL_tuple || v.kind == VAL_poison;
}

static bool find_in_frame(Lower *l, const char *name, Val *out)
{
    Frame *f = l->frame;
    Val *v = scope_find(&f->locals, name);
    if (v == NULL && f->self != NULL) {
        v = instance_member(f->self, name);
    }
    if (v != NULL) {
        *out = *v;
        return true;
    }
    bool prepares = l->run != NULL && l->run->graph->role == GRAPH_Prepare;
    if (f->self == NULL && !prepares) {
        return false;
    }
    if (str_eq(name, "training")) {
        *out = val_bool(l->training);
        if (prepares) {
            l->run->by_mode = true;
        }
        return true;
    }
    if (f->self == NULL) {
        return false;
    }
    if (str_eq(name, "self")) {
        *out = (Val){.kind = VAL_instance, .instance = f->self};
        return true;
    }
    const Ast *func = module_func(f->self->decl, name);
    if (func != NULL) {
        Method *m = ARENA_NEW(l->arena, Method);
        m->self = (Val){.kind = VAL_instance, .instance = f->self};
        m->func = func;
        *out = (Val){.kind = VAL_method, .method = m};
        return true;
    }
    return false;
}

/* A number of a graph whose call is over is a variable of the program. */
static Val settled_number(Lower *l, Val v)
{
    if (v.kind != VAL_tensor || v.run == l->run || v.run->call == NULL || v.node->dims.rank != 0) {
        return v;
    }
    HostExpr *e = tensor_to_host(l, v, v.name, v.node->loc);
    return e == NULL ? val_poison() : val_host(e);
}

static bool find_name(Lower *l, const char *name, Val *out)
{
    if (l->frame != NULL && find_in_frame(l, name, out)) {
        return true;
    }
    bool in_module = l->frame != NULL && l->frame->self != NULL;
    if (!in_module || !l->frame->is_std) {
        const Val *v = scope_find(&l->globals, name);
        if (v != NULL && (!in_module || visible_in_modules(*v))) {
            *out = settled_number(l, *v);
            return true;
        }
    }
    ModuleDecl *decl = module_lookup(l, name);
    const Builtin *fn = builtin_find(name);
    DType dt;
    if (decl != NULL) {
        *out = (Val){.kind = VAL_module, .module = decl};
    } else if (fn != NULL) {
        *out = (Val){.kind = VAL_builtin, .builtin = fn};
    } else if (eval_dtype(name, &dt)) {
        *out = (Val){.kind = VAL_dtype, .dtype = dt};
    } else {
        return false;
    }
    return true;
}

static void add_scope(Lower *l, Names *names, const Scope *s, bool in_module)
{
    for (int i = 0; i < s->n; i++) {
        if (!in_module || visible_in_modules(s->at[i].val)) {
            vec_push(l->arena, names, s->at[i].name);
        }
    }
}

void eval_visible(Lower *l, Names *names)
{
    bool in_module = l->frame != NULL && l->frame->self != NULL;
    if (l->frame != NULL) {
        add_scope(l, names, &l->frame->locals, false);
    }
    if (in_module) {
        instance_names(l, l->frame->self, names);
    }
    add_scope(l, names, &l->globals, in_module);
    for (int i = 0; i < l->modules.n; i++) {
        vec_push(l->arena, names, l->modules.at[i]->ast->name);
    }
    builtin_names(l, names, VAL_none);
}

static Val unknown_name(Lower *l, const Ast *e, const char *what)
{
    Names names = {0};
    eval_visible(l, &names);
    return lower_error(l, e->loc, "unknown %s `%s`%s", what, e->name,
                       lower_did_you_mean(l, e->name, &names));
}

Val eval_name(Lower *l, const Ast *e)
{
    Val v;
    return find_name(l, e->name, &v) ? v : unknown_name(l, e, "name");
}

/* ---- members --------------------------------------------------------------------------------------- */

static Val method_of(Lower *l, Val self, const Builtin *fn)
{
    Method *m = ARENA_NEW(l->arena, Method);
    m->self = self;
    m->builtin = fn;
    return (Val){.kind = VAL_method, .method = m};
}

static Val instance_attribute(Lower *l, Val object, const char *name, bool *found)
{
    *found = true;
    const Val *v = instance_member(object.instance, name);
    if (v != NULL) {
        return *v;
    }
    const Ast *func = module_func(object.instance->decl, name);
    if (func != NULL) {
        Method *m = ARENA_NEW(l->arena, Method);
        m->self = object;
        m->func = func;
        return (Val){.kind = VAL_method, .method = m};
    }
    *found = false;
    return val_poison();
}

static Val no_member(Lower *l, Val object, const char *name, Loc name_loc)
{
    Names names = {0};
    if (object.kind == VAL_instance) {
        instance_names(l, object.instance, &names);
    }
    if (val_is_tensor(object)) {
        vec_push(l->arena, &names, "shape");
        vec_push(l->arena, &names, "dtype");
    }
    builtin_names(l, &names, val_is_tensor(object) ? VAL_tensor : object.kind);
    return lower_error(l, name_loc, "%s has no member `%s`%s", val_describe(l, object), name,
                       lower_did_you_mean(l, name, &names));
}

Val val_member(Lower *l, Val object, const char *name, Loc loc, Loc name_loc)
{
    bool found = false;
    Val v = val_poison();
    switch (object.kind) {
    case VAL_poison: return object;
    case VAL_instance: v = instance_attribute(l, object, name, &found); break;
    case VAL_tensor:
    case VAL_param: v = tensor_member(l, object, name, loc, &found); break;
    case VAL_batch: return batch_member(l, object.loader, name, loc, name_loc);
    case VAL_parts:
        found = str_eq(name, "train") || str_eq(name, "validation");
        v = found ? object.list->at[str_eq(name, "validation")] : v;
        break;
    default: break;
    }
    if (found) {
        return v;
    }
    const Builtin *fn = builtin_method(val_is_tensor(object) ? VAL_tensor : object.kind, name);
    return fn != NULL ? method_of(l, object, fn) : no_member(l, object, name, name_loc);
}

/* ---- truth ----------------------------------------------------------------------------------------- */

bool eval_is_static_truth(Val v)
{
    return v.kind != VAL_host && v.kind != VAL_tensor && v.kind != VAL_poison;
}

bool eval_is_constant(Val v)
{
    if (v.kind == VAL_list || v.kind == VAL_tuple) {
        for (int i = 0; i < v.list->n; i++) {
            if (!eval_is_constant(v.list->at[i])) {
                return false;
            }
        }
        return true;
    }
    return val_is_number(v) || v.kind == VAL_str || v.kind == VAL_dtype || v.kind == VAL_none ||
           v.kind == VAL_range;
}

bool eval_truth(Lower *l, Val v, Loc loc, bool *out)
{
    if (v.kind == VAL_host) {
        v = host_fold(l, v, FOLD_fixed, loc);
    }
    switch (v.kind) {
    case VAL_poison: return false;
    case VAL_none: *out = false; return true;
    case VAL_int:
    case VAL_float:
    case VAL_bool: *out = val_number(v) != 0; return true;
    case VAL_str: *out = v.s[0] != '\0'; return true;
    case VAL_list:
    case VAL_tuple: *out = v.list->n > 0; return true;
    case VAL_tensor:
        lower_error(l, loc, "a condition must be known at compile time, but this is %s",
                    val_describe(l, v));
        lower_note(l, loc, "where(condition, x, y) chooses between tensors element by element");
        return false;
    case VAL_dim:
        lower_error(l, loc, "the truth of a size that is only known when the program runs");
        return false;
    default: *out = true; return true; /* an optional parameter that is there */
    }
}

/* ---- operators ------------------------------------------------------------------------------------- */

static Val with_force(Lower *l, DType force, AstOp op, Val a, Val b, const Ast *e)
{
    DType outer = l->force;
    const char *outer_why = l->force_why;
    if (force != DT_none) {
        l->force = force;
        l->force_why = NULL;
    }
    Val v = tensor_binary(l, op, a, b, e);
    l->force = outer;
    l->force_why = outer_why;
    return v;
}

static Val eval_logic(Lower *l, const Ast *e)
{
    Val a = eval(l, e->left);
    bool truth;
    if (eval_is_static_truth(a)) {
        if (!eval_truth(l, a, e->left->loc, &truth)) {
            return val_poison();
        }
        if (truth == (e->op == AST_OP_or)) {
            return val_bool(truth);
        }
        Val b = eval(l, e->right);
        if (!eval_is_static_truth(b)) {
            return b;
        }
        return eval_truth(l, b, e->right->loc, &truth) ? val_bool(truth) : val_poison();
    }
    Val b = eval(l, e->right);
    if (val_is_poison(a) || val_is_poison(b)) {
        return val_poison();
    }
    if (val_is_tensor(a) || val_is_tensor(b)) {
        return with_force(l, DT_none, e->op, a, b, e);
    }
    if (!val_is_number(b) && b.kind != VAL_host) {
        return eval_truth(l, b, e->right->loc, &truth)
                   ? number_binary(l, e->op, a, val_bool(truth), e->loc)
                   : val_poison();
    }
    return number_binary(l, e->op, a, b, e->loc);
}

/* A symbolic size among floats, or divided so that no size comes out, is a tensor of its own. */
static Val size_as_tensor(Lower *l, const Ast *e, Val v, Val other, bool left)
{
    if (v.kind != VAL_dim || l->run == NULL) {
        return v;
    }
    Dim whole;
    bool fraction = e->op == AST_OP_div && other.kind == VAL_int;
    bool divides = left && fraction && dim_div(v.dim, dim_of(other.i), &whole);
    return other.kind == VAL_float || other.kind == VAL_host || (fraction && !divides)
               ? val_of_node(l, op_dim(l, v.dim))
               : v;
}

static Val eval_binary(Lower *l, const Ast *e, DType force)
{
    if (e->op == AST_OP_and || e->op == AST_OP_or) {
        return eval_logic(l, e);
    }
    Val a = eval(l, e->left);
    Val b = eval(l, e->right);
    if (val_is_poison(a) || val_is_poison(b)) {
        return val_poison();
    }
    lower_at(l, e);
    Val size = size_as_tensor(l, e, b, a, false);
    a = size_as_tensor(l, e, a, b, true);
    b = size;
    bool none = a.kind == VAL_none || b.kind == VAL_none;
    if ((val_is_tensor(a) || val_is_tensor(b)) && !none) {
        return with_force(l, force, e->op, a, b, e);
    }
    if (none && (e->op == AST_OP_eq || e->op == AST_OP_ne)) {
        return val_bool((a.kind == b.kind) == (e->op == AST_OP_eq));
    }
    return number_binary(l, e->op, a, b, e->loc);
}

static Val eval_unary(Lower *l, const Ast *e, DType force)
{
    Val v = eval(l, e->value);
    lower_at(l, e);
    if (!val_is_tensor(v) || (v.kind == VAL_param && e->op == AST_OP_not)) {
        return val_is_poison(v) ? v : number_unary(l, e->op, v, e->loc);
    }
    DType outer = l->force;
    l->force = force != DT_none ? force : outer;
    Node *x = tensor_of(l, v, e->value->loc);
    Val r = val_of_node(l, op1(l, e->op == AST_OP_not ? OP_not : OP_neg, x));
    l->force = outer;
    return r;
}

static Val eval_cond(Lower *l, const Ast *e)
{
    Val test = eval(l, e->test);
    bool truth;
    bool top = l->frame == NULL;
    if (test.kind == VAL_tensor && top) {
        HostExpr *h = tensor_to_host(l, test, NULL, e->test->loc);
        test = h == NULL ? val_poison() : val_host(h);
    }
    if (test.kind != VAL_host || !top) {
        return eval_truth(l, test, e->test->loc, &truth) ? eval(l, truth ? e->then : e->otherwise)
                                                         : val_poison();
    }
    HostExpr *then = host_of(l, eval(l, e->then), e->then->loc);
    HostExpr *otherwise = host_of(l, eval(l, e->otherwise), e->otherwise->loc);
    if (then == NULL || otherwise == NULL) {
        return val_poison();
    }
    HostType type = then->type == otherwise->type ? then->type : HT_float;
    HostExpr *r =
        host_node(l, HE_cond, type, NULL, 3, (HostExpr *[]){then, test.host, otherwise}, e->loc);
    return r == NULL ? val_poison() : val_host(r);
}

static Val eval_retype(Lower *l, const Ast *e)
{
    DType dt;
    if (!eval_dtype(e->name, &dt) || !dtype_info[dt].is_float) {
        return lower_error(l, e->loc, "`@%s` is no floating type: f64, f32, f16, bf16", e->name);
    }
    switch (e->value->kind) {
    case AST_call: return eval_call(l, e->value, dt);
    case AST_binary: return eval_binary(l, e->value, dt);
    case AST_unary: return eval_unary(l, e->value, dt);
    default: break;
    }
    Val v = eval(l, e->value);
    lower_at(l, e);
    return val_of_node(l, op_forced_cast(l, tensor_of(l, v, e->value->loc), dt));
}

/* ---- sequences ------------------------------------------------------------------------------------- */

static Val eval_sequence(Lower *l, const Ast *e, ValueKind kind)
{
    Val r = val_list(l, kind);
    const char *target = l->target;
    for (int i = 0; i < e->list.n; i++) {
        l->target = target == NULL ? NULL : path_join(l, target, arena_printf(l->arena, "%d", i));
        val_push(l, &r, eval(l, e->list.at[i]));
    }
    l->target = target;
    return r;
}

static Val eval_range(Lower *l, const Ast *e)
{
    Range *r = ARENA_NEW(l->arena, Range);
    r->lo = e->lo == NULL ? val_int(0) : eval(l, e->lo);
    r->hi = eval(l, e->hi);
    r->step = val_int(1);
    if (val_is_poison(r->lo) || val_is_poison(r->hi)) {
        return val_poison();
    }
    return (Val){.kind = VAL_range, .range = r};
}

static Val eval_comprehension(Lower *l, const Ast *e)
{
    const char *target = l->target;
    l->target = NULL;
    Val over = eval(l, e->iter);
    int64_t n;
    if (!eval_iterable(l, over, e->iter->loc, &n)) {
        l->target = target;
        return val_poison();
    }
    Val r = val_list(l, VAL_list);
    int mark = current_scope(l)->n, errors = diag_errors(l->diag);
    bool fine = true;
    for (int64_t i = 0; i < n && fine; i++) {
        bool wanted = true;
        fine = lower_unroll(l, e->loc) &&
               lower_bind(l, &e->list, eval_element(l, over, i), e->iter->loc, true) &&
               (e->test == NULL || eval_truth(l, eval(l, e->test), e->test->loc, &wanted));
        if (fine && wanted) {
            const char *index = arena_printf(l->arena, "%d", r.list->n);
            l->target = target == NULL ? NULL : path_join(l, target, index);
            val_push(l, &r, eval(l, e->value));
            l->target = NULL;
        }
        scope_cut(current_scope(l), mark);
        fine = fine && diag_errors(l->diag) == errors; /* the next ones would say the same */
    }
    l->target = target;
    return fine ? r : val_poison();
}

static bool slice_bounds(Lower *l, const Ast *s, int n, int64_t *lo, int64_t *hi, int64_t *step)
{
    *step = 1;
    *lo = 0;
    *hi = n;
    if ((s->step != NULL && !val_int_of(l, eval(l, s->step), "a step", s->step->loc, step)) ||
        (s->lo != NULL && !val_int_of(l, eval(l, s->lo), "an index", s->lo->loc, lo)) ||
        (s->hi != NULL && !val_int_of(l, eval(l, s->hi), "an index", s->hi->loc, hi))) {
        return false;
    }
    if (*step <= 0) {
        lower_error(l, s->loc, "the step of a slice must be positive");
        return false;
    }
    *step = *step > n ? n + 1 : *step;
    *lo = *lo < 0 ? *lo + n : *lo;
    *hi = *hi < 0 ? *hi + n : *hi;
    *lo = *lo < 0 ? 0 : *lo;
    *hi = *hi > n ? n : *hi;
    return true;
}

static Val list_index(Lower *l, Val v, const Ast *e)
{
    if (e->list.n != 1) {
        return lower_error(l, e->loc, "%s takes one index", val_describe(l, v));
    }
    const Ast *s = e->list.at[0];
    int64_t at, lo, hi, step;
    if (s->kind == AST_slice) {
        if (!slice_bounds(l, s, v.list->n, &lo, &hi, &step)) {
            return val_poison();
        }
        Val r = val_list(l, v.kind);
        for (int64_t i = lo; i < hi; i += step) {
            val_push(l, &r, v.list->at[i]);
        }
        return r;
    }
    if (!val_int_of(l, eval(l, s), "an index", s->loc, &at)) {
        return val_poison();
    }
    if (at < -v.list->n || at >= v.list->n) {
        return lower_error(l, s->loc, "index %lld of a list of %d", (long long)at, v.list->n);
    }
    return v.list->at[at < 0 ? at + v.list->n : at];
}

static Val eval_index(Lower *l, const Ast *e)
{
    Val v = eval(l, e->object);
    switch (v.kind) {
    case VAL_poison: return v;
    case VAL_list:
    case VAL_tuple: return list_index(l, v, e);
    case VAL_tensor:
    case VAL_param: return tensor_index(l, v, e);
    case VAL_batch:
        if (e->list.n == 1 && e->list.at[0]->kind == AST_str) {
            return batch_member(l, v.loader, e->list.at[0]->name, e->loc, e->list.at[0]->loc);
        }
        return lower_error(l, e->loc,
                           "a batch is indexed by a field's name: batch.image or batch[\"image\"]");
    default: return lower_error(l, e->loc, "%s has no elements", val_describe(l, v));
    }
}

/* ---- calls ----------------------------------------------------------------------------------------- */

static Val call_dtype_as_cast(Lower *l, const Ast *e, DType dt)
{
    if (e->list.n != 1 || e->list.at[0]->kind == AST_keyword) {
        return lower_error(l, e->loc, "a type called as a function takes one argument");
    }
    Val v = eval(l, e->list.at[0]);
    lower_at(l, e);
    if (val_is_number(v) && dtype_info[dt].is_float) {
        return val_float(val_number(v));
    }
    return val_of_node(l, op_forced_cast(l, tensor_of(l, v, e->list.at[0]->loc), dt));
}

Val eval_call(Lower *l, const Ast *e, DType force)
{
    Val f;
    if (e->callee->kind == AST_name) {
        const char *what =
            e->callee->name[0] >= 'A' && e->callee->name[0] <= 'Z' ? "module" : "function";
        if (!find_name(l, e->callee->name, &f)) {
            return unknown_name(l, e->callee, what);
        }
    } else {
        const char *target = l->target;
        l->target = NULL;
        f = eval(l, e->callee);
        l->target = target;
    }
    switch (f.kind) {
    case VAL_poison: return f;
    case VAL_builtin: return builtin_call(l, f.builtin, e, NULL, e->callee->loc, force);
    case VAL_dtype: return call_dtype_as_cast(l, e, f.dtype);
    case VAL_module: return module_instantiate(l, f.module, e);
    case VAL_instance: {
        const Ast *forward = module_func(f.instance->decl, "forward");
        if (forward == NULL) {
            return lower_error(l, e->loc, "module %s has no forward", f.instance->decl->ast->name);
        }
        return instance_call(l, f.instance, forward, e, force);
    }
    case VAL_method:
        if (f.method->func != NULL) {
            return instance_call(l, f.method->self.instance, f.method->func, e, force);
        }
        return builtin_call(l, f.method->builtin, e, &f.method->self, e->callee->object->loc,
                            force);
    default: return lower_error(l, e->callee->loc, "%s cannot be called", val_describe(l, f));
    }
}

/* ---- all kinds ------------------------------------------------------------------------------------- */

static Val eval_kind(Lower *l, const Ast *e)
{
    switch ((AstKind)e->kind) {
    case AST_int: return val_int(e->ival);
    case AST_float: return val_float(e->num);
    case AST_str: return val_str(e->name);
    case AST_bool: return val_bool(e->ival != 0);
    case AST_none: return val_none();
    case AST_name: return eval_name(l, e);
    case AST_member: return val_member(l, eval(l, e->object), e->name, e->loc, e->name_loc);
    case AST_call: return eval_call(l, e, DT_none);
    case AST_index: return eval_index(l, e);
    case AST_range: return eval_range(l, e);
    case AST_unary: return eval_unary(l, e, DT_none);
    case AST_binary: return eval_binary(l, e, DT_none);
    case AST_cond: return eval_cond(l, e);
    case AST_list: return eval_sequence(l, e, VAL_list);
    case AST_tuple: return eval_sequence(l, e, VAL_tuple);
    case AST_comprehension: return eval_comprehension(l, e);
    case AST_retype: return eval_retype(l, e);
    case AST_evaluate: return eval_evaluate(l, e, NULL);
    case AST_error: return val_poison();
    default: return lower_error(l, e->loc, "this has no value");
    }
}

Val eval(Lower *l, const Ast *e)
{
    if (!lower_enter(l, e->loc)) {
        return val_poison();
    }
    Val v = eval_kind(l, e);
    lower_leave(l);
    return v;
}
