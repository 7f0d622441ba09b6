/* body.c: spells the scalars of a kernel from the op table's expressions.
 *
 * `exact` arithmetic: a value of a 16- or 8-bit type is computed in f32 and rounded to its type at once, unless
 * it has that type's values already (a load, a selection such as relu), or the only one to use it rounds it. One
 * rounding serves both a store and further computation. */
#include "codegen/body.h"

#include <ctype.h>
#include <string.h>

#include "codegen/target.h"
#include "ir/base/strutil.h"

enum { INLINE_LENGTH = 48 };

/* Ops whose result is one of their operands, or a number of few digits: rounding it again changes nothing. */
static const bool keeps_type[OP_COUNT] = {
    [OP_neg] = true,     [OP_abs] = true,     [OP_sign] = true,  [OP_relu] = true,
    [OP_maximum] = true, [OP_minimum] = true, [OP_where] = true, [OP_clamp] = true,
};

/* Those of them that give the same if the result is rounded in place of the operands (not of a condition). */
static const bool selects[OP_COUNT] = {
    [OP_neg] = true,     [OP_abs] = true,     [OP_relu] = true,
    [OP_maximum] = true, [OP_minimum] = true, [OP_where] = true,
};

static Spelling plain_value(const char *text)
{
    return (Spelling){.wide = text, .atomic = true};
}

static const Scalar *scalar(const Body *b, int s)
{
    return &b->k->scalars[s];
}

Body body_new(Emit *e, Unit *u)
{
    int n = u->k.nscalars;
    Body b = {.e = e, .u = u, .k = &u->k, .names = names_new(e->arena, &u->names, true)};
    b.value = ARENA_ARRAY(e->arena, Spelling, n + 1);
    b.local = ARENA_ARRAY(e->arena, const char *, n + 1);
    b.place = ARENA_ARRAY(e->arena, const char *, n + 1);
    b.needed = ARENA_ARRAY(e->arena, bool, n + 1);
    b.depth = ARENA_ARRAY(e->arena, int, n + 1);
    b.stage = ARENA_ARRAY(e->arena, int, n + 1);
    b.unrounded = ARENA_ARRAY(e->arena, bool, n + 1);
    b.reduce_depth = 1;
    b.wide_uses = ARENA_ARRAY(e->arena, int, n + 1);
    b.narrow_uses = ARENA_ARRAY(e->arena, int, n + 1);
    return b;
}

bool access_varies(const Access *at, int axis)
{
    return at->stride[axis].k != 0;
}

void body_depths(Body *b)
{
    for (int s = 0; s < b->k->nscalars; s++) {
        const Scalar *v = scalar(b, s);
        int depth = 0, stage = 0;
        for (int i = 0; i < v->nin; i++) {
            depth = b->depth[v->in[i]] > depth ? b->depth[v->in[i]] : depth;
            stage = b->stage[v->in[i]] > stage ? b->stage[v->in[i]] : stage;
        }
        bool has_access = v->kind == SC_load || v->kind == SC_index || v->kind == SC_uniform;
        if (has_access && v->at.index >= 0) {
            int index = v->at.index;
            depth = b->depth[index] > depth ? b->depth[index] : depth;
            stage = b->stage[index] > stage ? b->stage[index] : stage;
        }
        b->stage[s] = stage + (v->kind == SC_reduce);
        for (int i = 0; has_access && i < b->k->space.rank; i++) {
            if (access_varies(&v->at, i) && b->depth_of[i] > depth) {
                depth = b->depth_of[i];
            }
        }
        if (v->kind == SC_acc) {
            depth = BODY_MAX_DEPTH - 1;
        } else if (v->kind == SC_reduce) {
            depth = b->reduce_depth;
        }
        b->depth[s] = depth;
    }
}

/* A cast that changes neither the number nor the type of the arithmetic. */
static bool is_alias(const Body *b, int s)
{
    const Scalar *v = scalar(b, s);
    if (v->kind != SC_cast) {
        return false;
    }
    DType from = scalar(b, v->in[0])->dtype;
    return from == v->dtype || (v->dtype == DT_f32 && dtype_is_low(from));
}

static void use_access(Body *b, const Access *at);

static void use(Body *b, int s, bool narrow)
{
    while (is_alias(b, s)) {
        narrow = narrow && scalar(b, s)->dtype == scalar(b, scalar(b, s)->in[0])->dtype;
        s = scalar(b, s)->in[0];
    }
    const Scalar *v = scalar(b, s);
    if (narrow) {
        b->narrow_uses[s]++;
    } else {
        b->wide_uses[s]++;
    }
    if (b->needed[s] || b->value[s].wide != NULL || b->value[s].narrow != NULL) {
        return;
    }
    b->needed[s] = true;
    for (int i = 0; i < v->nin && v->kind != SC_reduce; i++) {
        use(b, v->in[i], false);
    }
    if (v->kind == SC_load || v->kind == SC_index || v->kind == SC_uniform) {
        use_access(b, &v->at);
    }
}

static void use_access(Body *b, const Access *at)
{
    if (at->index >= 0) {
        use(b, at->index, false);
    }
}

void body_root(Body *b, int s, bool narrow)
{
    use(b, s, narrow && dtype_is_low(scalar(b, s)->dtype));
}

/* s has no uses but these, which round what they are given. */
static void round_late(Body *b, int s, int uses)
{
    while (is_alias(b, s)) {
        s = scalar(b, s)->in[0];
    }
    const Scalar *v = scalar(b, s);
    if (!dtype_is_low(v->dtype) || b->wide_uses[s] + b->narrow_uses[s] != uses) {
        return;
    }
    b->unrounded[s] = b->narrow_uses[s] == 0;
    for (int i = v->op == OP_where; v->kind == SC_op && selects[v->op] && i < v->nin; i++) {
        int times = 0;
        for (int j = v->op == OP_where; j < v->nin; j++) {
            times += v->in[j] == v->in[i];
        }
        round_late(b, v->in[i], times);
    }
}

void body_round_late(Body *b)
{
    for (int i = 0; i < b->k->noutputs; i++) {
        int times = 0, s = b->k->outputs[i].scalar;
        for (int j = 0; j < b->k->noutputs; j++) {
            times += b->k->outputs[j].scalar == s;
        }
        bool low = dtype_is_low(b->k->operands[b->k->outputs[i].at.operand].dtype);
        if (low && scalar(b, s)->dtype == b->k->operands[b->k->outputs[i].at.operand].dtype) {
            round_late(b, s, times);
        }
    }
}

void body_set(Body *b, int s, const char *text)
{
    b->value[s] = plain_value(text);
}

void body_guard(Body *b)
{
    if (b->k->guard >= 0) {
        ln_in(b->e, "if (%s)", body_element(b, &scalar(b, b->k->guard)->at));
        ln(b->e, "return;");
        ln_out(b->e);
    }
}

void body_forget(Body *b, int depth)
{
    for (int s = 0; s < b->k->nscalars; s++) {
        b->needed[s] = false;
        b->wide_uses[s] = b->narrow_uses[s] = 0;
        if (b->depth[s] >= depth) {
            b->value[s] = (Spelling){0};
        }
    }
}

/* ---- addresses ------------------------------------------------------------------------------------- */

const char *body_index(Body *b, const Access *at)
{
    Arena *a = b->e->arena;
    const char *text = NULL;
    for (int i = 0; i < b->k->space.rank; i++) {
        Dim stride = at->stride[i];
        if (stride.k == 0 || b->axis[i] == NULL) {
            continue;
        }
        const char *term = b->axis[i];
        if (!dim_is_const(stride)) {
            bool plain = stride.k == 1 && stride.sym[1] == 0;
            term = arena_printf(a, plain ? "%s * %s" : "%s * (%s)", term,
                                unit_dim(b->e, b->u, stride));
        } else if (stride.k != 1) {
            term = arena_printf(a, stride.k < 0 ? "%s * (%lld)" : "%s * %lld", term,
                                (long long)stride.k);
        }
        bool whole = term == b->axis[i] && term[0] == '(' && strchr(term, ')')[1] == 0;
        if (whole) { /* "(t.j + j)" stands for itself in a sum */
            term = arena_strndup(a, term + 1, strlen(term) - 2);
        }
        text = joined(a, text, "+", term);
    }
    if (at->index >= 0) {
        const char *term = arena_printf(a, "(int64_t)%s", body_wide(b, at->index));
        if (!dim_equal(at->index_stride, dim_of(1))) {
            term = arena_printf(a, "%s * %s", term, unit_dim(b->e, b->u, at->index_stride));
        }
        text = joined(a, text, "+", term);
    }
    if (at->offset.k > 0) {
        text = joined(a, text, "+", unit_dim(b->e, b->u, at->offset));
    } else if (at->offset.k < 0) {
        Dim minus = at->offset;
        minus.k = -minus.k;
        text = joined(a, text != NULL ? text : "0", "-", unit_dim(b->e, b->u, minus));
    }
    return text != NULL ? text : "0";
}

static const char *pointer(const Body *b, int operand)
{
    return unit_pointer(b->u, operand);
}

const char *body_element(Body *b, const Access *at)
{
    return arena_printf(b->e->arena, "%s[%s]", pointer(b, at->operand), body_index(b, at));
}

/* ---- values ---------------------------------------------------------------------------------------- */

const char *body_wide(Body *b, int s)
{
    while (is_alias(b, s)) {
        s = scalar(b, s)->in[0];
    }
    Spelling *v = &b->value[s];
    if (v->wide == NULL) {
        if (v->narrow == NULL) {
            ICE("%s: scalar %d is used before it is computed", b->u->name, s);
        }
        return widened(b->e->arena, scalar(b, s)->dtype, v->narrow);
    }
    return v->atomic ? v->wide : arena_printf(b->e->arena, "(%s)", v->wide);
}

const char *body_bare(Body *b, int s)
{
    while (is_alias(b, s)) {
        s = scalar(b, s)->in[0];
    }
    return b->value[s].wide != NULL ? b->value[s].wide : body_wide(b, s);
}

const char *body_memory(Body *b, int s, DType dt)
{
    while (is_alias(b, s) && scalar(b, s)->dtype == scalar(b, scalar(b, s)->in[0])->dtype) {
        s = scalar(b, s)->in[0];
    }
    DType from = scalar(b, s)->dtype;
    if (dtype_is_low(dt)) {
        if (from == dt && !is_alias(b, s) && b->value[s].narrow != NULL) {
            return b->value[s].narrow;
        }
        return narrowed(b->e->arena, dt, wide_type(from), body_bare(b, s));
    }
    if (from == dt || (dt == DT_f32 && dtype_is_low(from))) {
        return body_bare(b, s);
    }
    return narrowed(b->e->arena, dt, wide_type(from), body_bare(b, s));
}

void body_store(Body *b, const KOutput *out)
{
    DType dt = b->k->operands[out->at.operand].dtype;
    ln(b->e, "%s = %s;", body_element(b, &out->at), body_memory(b, out->scalar, dt));
}

void body_draw(Body *b, int axis, int64_t length)
{
    Arena *a = b->e->arena;
    for (int s = 0; s < b->k->nscalars; s++) {
        const Scalar *v = scalar(b, s);
        if (v->kind != SC_uniform || !b->needed[s] || b->value[s].wide != NULL ||
            !dim_equal(v->at.stride[axis], dim_of(1)) || b->depth[v->in[0]] >= b->depth_of[axis]) {
            continue;
        }
        const char *name = names_take(&b->names, "random");
        const char *index = b->axis[axis];
        b->axis[axis] = NULL;
        b->u->used_seed = b->u->ever_seed = true;
        ln(b->e, "float %s[%lld];", name, (long long)length);
        ln(b->e, "mpc_uniform_run(%s, a->seed, 0x%08xu, %s, %s, %lld);", name, str_fnv1a(v->path),
           body_wide(b, v->in[0]), body_index(b, &v->at), (long long)length);
        b->axis[axis] = index;
        body_set(b, s, arena_printf(a, "%s[%s]", name, index));
    }
}

/* ---- expressions ----------------------------------------------------------------------------------- */

static int word_length(const char *s)
{
    int n = 0;
    while (isalnum((unsigned char)s[n]) || s[n] == '_') {
        n++;
    }
    return n;
}

/* How often operand number i stands in an expression of the op table. */
static int occurrences(const char *expression, int i)
{
    int count = 0;
    for (const char *s = expression; *s != 0;) {
        int n = word_length(s);
        count += n == 1 && *s == 'a' + i;
        s += n > 0 ? n : 1;
    }
    return count;
}

/* The op table's expression with operands put in and functions of the right type named. */
static const char *spelled(Body *b, const Scalar *v, DType arithmetic)
{
    Text *t = text_new(b->e->arena);
    for (const char *s = op_info[v->op].expression; *s != 0;) {
        int n = word_length(s);
        if (n == 1 && *s >= 'a' && *s < 'a' + v->nin) {
            text_puts(t, body_wide(b, v->in[*s - 'a']));
        } else if (n > 4 && strncmp(s, "mpc_", 4) == 0) {
            text_putn(t, s, (size_t)n);
            text_puts(t, function_suffix(arithmetic));
        } else if (n == 5 && strncmp(s, "MPC_C", 5) == 0) {
            text_printf(t, "(%s)", wide_ctype(arithmetic));
        } else {
            text_putn(t, s, (size_t)(n > 0 ? n : 1));
        }
        s += n > 0 ? n : 1;
    }
    return t->at;
}

/* In one piece: a word, a number, an element, a call. */
static bool is_atomic(const char *s)
{
    int depth = 0;
    for (; *s != 0; s++) {
        depth += *s == '(' || *s == '[';
        depth -= *s == ')' || *s == ']';
        if (depth == 0 && !isalnum((unsigned char)*s) && strchr("_.[]()", *s) == NULL) {
            return false;
        }
    }
    return true;
}

/* The single use of s is by an op that mentions it once and at the same depth. */
static bool fits_inline(const Body *b, int s, const char *text)
{
    if (b->wide_uses[s] + b->narrow_uses[s] != 1 || strlen(text) > INLINE_LENGTH) {
        return false;
    }
    for (int c = s + 1; c < b->k->nscalars; c++) {
        const Scalar *v = scalar(b, c);
        for (int i = 0; b->needed[c] && !is_alias(b, c) && i < v->nin; i++) {
            int in = v->in[i];
            while (is_alias(b, in)) {
                in = scalar(b, in)->in[0];
            }
            if (in != s) {
                continue;
            }
            bool once = v->kind != SC_op || occurrences(op_info[v->op].expression, i) == 1;
            return once && b->depth[c] == b->depth[s];
        }
        if (b->needed[c] && (v->kind == SC_load || v->kind == SC_uniform) && v->at.index == s) {
            return false;
        }
    }
    return true;
}

/* What the user calls a value is the last of the steps that make it. */
static bool owns_name(const Body *b, int s)
{
    for (int i = s + 1; i < b->k->nscalars; i++) {
        if (scalar(b, i)->kind != SC_load && str_eq(scalar(b, i)->name, scalar(b, s)->name)) {
            return false;
        }
    }
    return true;
}

const char *body_name(Body *b, int s)
{
    if (b->local[s] == NULL) {
        const Scalar *v = scalar(b, s);
        const char *name = owns_name(b, s) ? v->name : NULL;
        if (v->kind == SC_load) {
            Text *t = text_new(b->e->arena);
            text_printf(t, "%s_", pointer(b, v->at.operand));
            for (int i = 0; i < b->k->space.rank; i++) {
                if (access_varies(&v->at, i) && b->letter[i] != NULL) {
                    text_puts(t, b->letter[i]);
                }
            }
            if (t->at[t->n - 1] == '_') {
                text_puts(t, "now");
            }
            name = t->at;
        } else if (v->kind == SC_cast && scalar(b, v->in[0])->kind == SC_load) {
            name = arena_printf(b->e->arena, "%s_%s", pointer(b, scalar(b, v->in[0])->at.operand),
                                dtype_info[v->dtype].name);
        } else if (name == NULL) {
            name = v->kind == SC_uniform ? "random"
                   : v->kind == SC_index ? "index"
                   : v->kind == SC_cast
                       ? arena_printf(b->e->arena, "as_%s", dtype_info[v->dtype].name)
                       : op_info[v->op].name;
        }
        b->local[s] = names_take(&b->names, name);
    }
    return b->local[s];
}

/* Declares s as `text`, or keeps the text for its one use. */
static void bind_wide(Body *b, int s, const char *text, bool must)
{
    if (!must && fits_inline(b, s, text)) {
        b->value[s] = (Spelling){.wide = text, .atomic = is_atomic(text)};
        return;
    }
    const char *name = body_name(b, s);
    ln(b->e, "const %s %s = %s;", wide_ctype(scalar(b, s)->dtype), name, text);
    b->value[s] = plain_value(name);
}

/* Binds s, whose bits in memory would be `text`. */
static void bind_narrow(Body *b, int s, const char *text, bool must)
{
    DType dt = scalar(b, s)->dtype;
    const char *wide = widened(b->e->arena, dt, text);
    if (b->narrow_uses[s] == 0) {
        bind_wide(b, s, wide, must);
        return;
    }
    if (must || b->wide_uses[s] + b->narrow_uses[s] > 1) {
        const char *name = body_name(b, s);
        ln(b->e, "const %s %s = %s;", memory_ctype(dt), name, text);
        text = name;
        wide = widened(b->e->arena, dt, text);
    }
    b->value[s] = (Spelling){.wide = wide, .narrow = text, .atomic = true};
}

static void define_load(Body *b, int s)
{
    const Scalar *v = scalar(b, s);
    const char *element = b->place[s] != NULL ? b->place[s] : body_element(b, &v->at);
    /* the store of another output must not come between this load and its use */
    bool must = b->place[s] == NULL && b->u->written[b->u->shared[v->at.operand]];
    if (dtype_is_low(v->dtype)) {
        bind_narrow(b, s, element, must);
    } else {
        bind_wide(b, s, element, must);
    }
}

static void define_op(Body *b, int s)
{
    const Scalar *v = scalar(b, s);
    DType arithmetic = wide_type(op_is_predicate(v->op) ? scalar(b, v->in[0])->dtype : v->dtype);
    const char *text = spelled(b, v, arithmetic);
    if (!dtype_is_low(v->dtype)) {
        bool promoted = dtype_info[v->dtype].is_int && dtype_info[v->dtype].bytes < 4;
        bind_wide(b, s, text, promoted);
    } else if (keeps_type[v->op] || b->unrounded[s]) {
        bind_wide(b, s, text, false);
    } else {
        bind_narrow(b, s, narrowed(b->e->arena, v->dtype, DT_f32, text), false);
    }
}

static void define_cast(Body *b, int s)
{
    const Scalar *v = scalar(b, s);
    DType from = wide_type(scalar(b, v->in[0])->dtype);
    const char *text = narrowed(b->e->arena, v->dtype, from, body_bare(b, v->in[0]));
    if (b->unrounded[s] && from == DT_f32) {
        bind_wide(b, s, body_bare(b, v->in[0]), false);
    } else if (dtype_is_low(v->dtype)) {
        bind_narrow(b, s, text, false);
    } else {
        /* a widened integer gets a name: compared in place, C compilers know its small range and warn */
        bind_wide(b, s, text, dtype_info[v->dtype].is_int && !dtype_info[from].is_float);
    }
}

static void define_index(Body *b, int s)
{
    const Scalar *v = scalar(b, s);
    const char *text = body_index(b, &v->at);
    if (v->dtype != DT_i64) {
        text = arena_printf(b->e->arena, is_atomic(text) ? "(%s)%s" : "(%s)(%s)",
                            wide_ctype(v->dtype), text);
    }
    bind_wide(b, s, text, false);
}

static void define_uniform(Body *b, int s)
{
    const Scalar *v = scalar(b, s);
    Arena *a = b->e->arena;
    b->u->used_seed = b->u->ever_seed = true;
    bind_wide(b, s,
              arena_printf(a, "mpc_uniform(a->seed, 0x%08xu, %s, %s)", str_fnv1a(v->path),
                           body_wide(b, v->in[0]), body_index(b, &v->at)),
              false);
}

static void define(Body *b, int s)
{
    const Scalar *v = scalar(b, s);
    switch (v->kind) {
    case SC_load: define_load(b, s); return;
    case SC_const: b->value[s] = plain_value(number_text(b->e->arena, v->dtype, v->value)); return;
    case SC_index: define_index(b, s); return;
    case SC_dim:
        b->value[s] = plain_value(arena_printf(b->e->arena, "(%s)(%s)", wide_ctype(v->dtype),
                                               unit_dim(b->e, b->u, v->dim)));
        return;
    case SC_op: define_op(b, s); return;
    case SC_cast: define_cast(b, s); return;
    case SC_uniform: define_uniform(b, s); return;
    case SC_acc:
    case SC_reduce: break;
    }
    ICE("%s: scalar %d has no value", b->u->name, s);
}

void body_emit(Body *b, int depth)
{
    for (int s = 0; s < b->k->nscalars; s++) {
        bool is_there = b->value[s].wide != NULL || b->value[s].narrow != NULL;
        if (b->needed[s] && b->depth[s] <= depth && b->stage[s] <= b->stage_now && !is_there) {
            define(b, s);
        }
    }
}

bool body_is_costly(const Body *b, int s)
{
    const Scalar *v = scalar(b, s);
    if (v->kind == SC_uniform) {
        return true;
    }
    bool costly = v->kind == SC_op &&
                  (strstr(op_info[v->op].expression, "mpc_") != NULL ||
                   strchr(op_info[v->op].expression, '/') != NULL) &&
                  !keeps_type[v->op];
    for (int i = 0; !costly && i < v->nin && v->kind != SC_reduce; i++) {
        costly = body_is_costly(b, v->in[i]);
    }
    return costly;
}
