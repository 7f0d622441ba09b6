/* host_expr.c: expressions of the host program in C. Division, remainder and power mean what they mean in the
 * language (and in Python); functions of runtime/abi/host_math.h say so. */
#include <string.h>

#include "codegen/program.h"
#include "ir/base/strutil.h"

static bool is_plain(const char *s)
{
    int depth = 0;
    for (; *s != 0; s++) {
        depth += *s == '(' || *s == '[';
        depth -= *s == ')' || *s == ']';
        if (depth == 0 && strchr(" ?:", *s) != NULL) {
            return false;
        }
    }
    return true;
}

static const char *operand(Emit *e, const HostText *h, const HostExpr *x)
{
    const char *text = host_value(e, h, x);
    return is_plain(text) ? text : arena_printf(e->arena, "(%s)", text);
}

static const char *number(Arena *a, const HostExpr *x)
{
    if (x->type == HT_bool) {
        return x->num != 0 ? "true" : "false";
    }
    return number_text(a, x->type == HT_float ? DT_f64 : DT_i64, x->num);
}

static const char *binary(Emit *e, const HostText *h, const HostExpr *x)
{
    Arena *a = e->arena;
    const char *l = operand(e, h, x->in[0]), *r = operand(e, h, x->in[1]);
    bool is_int = x->type == HT_int;
    if (str_eq(x->text, "/")) {
        return arena_printf(a, "(double)%s / (double)%s", l, r);
    }
    static const struct {
        const char *op, *whole, *real;
    } call[] = {{"//", "mpc_floor_div", "mpc_floor_div_f64"},
                {"%", "mpc_modulo", "mpc_modulo_f64"},
                {"**", "mpc_power", "mpc_power_f64"}};
    for (int i = 0; i < 3; i++) {
        if (str_eq(x->text, call[i].op)) {
            return arena_printf(a, "%s(%s, %s)", is_int ? call[i].whole : call[i].real, l, r);
        }
    }
    const char *op = str_eq(x->text, "and") ? "&&" : str_eq(x->text, "or") ? "||" : x->text;
    return arena_printf(a, "%s %s %s", l, op, r);
}

static const char *function(Emit *e, const HostText *h, const HostExpr *x)
{
    Arena *a = e->arena;
    bool is_int = x->type == HT_int;
    if (x->nin == 0) {
        return arena_printf(a, "mpc_%s(r)", x->text);
    }
    const char *first = operand(e, h, x->in[0]);
    if (str_eq(x->text, "int")) {
        return arena_printf(a, x->in[0]->type == HT_float ? "mpc_f64_to_i64(%s)" : "(int64_t)%s",
                            first);
    }
    if (str_eq(x->text, "float")) {
        return arena_printf(a, "(double)%s", first);
    }
    if (str_eq(x->text, "floor") || str_eq(x->text, "ceil")) {
        return arena_printf(a, "mpc_f64_to_i64(%s((double)%s))", x->text, first);
    }
    if (x->nin == 1) {
        bool magnitude = str_eq(x->text, "abs");
        const char *name = magnitude ? (is_int ? "mpc_abs_int" : "fabs") : x->text;
        return arena_printf(a, magnitude && is_int ? "%s(%s)" : "%s((double)%s)", name, first);
    }
    for (int i = 1; i < x->nin; i++) {
        first = arena_printf(a, "mpc_%s%s(%s, %s)", x->text, is_int ? "_int" : "_f64", first,
                             operand(e, h, x->in[i]));
    }
    return first;
}

static const char *option(Emit *e, const HostText *h, const HostExpr *x)
{
    static const char *const getter[] = {
        [HT_int] = "int", [HT_float] = "float", [HT_bool] = "bool", [HT_str] = "string"};
    int i = host_option(e, x->text);
    HostType type = x->type;
    Decl *d = module_find(e->m, DECL_option, x->text);
    option_type(d, &type);
    return arena_printf(e->arena, "mpc_option_%s(r, %s)", getter[type], h->option[i]);
}

static const char *variable(Emit *e, const HostText *h, const char *name)
{
    for (int i = 0; i < e->m->nvars; i++) {
        if (str_eq(e->m->vars[i].name, name)) {
            return arena_printf(e->arena, "vars->%s", h->var[i]);
        }
    }
    ICE("the host program has no variable %s", name);
}

const char *host_value(Emit *e, const HostText *h, const HostExpr *x)
{
    Arena *a = e->arena;
    switch (x->kind) {
    case HE_num: return number(a, x);
    case HE_str: return quoted(a, x->text);
    case HE_var: return variable(e, h, x->text);
    case HE_option: return option(e, h, x);
    case HE_len: {
        const Decl *d = module_find(e->m, DECL_loader, x->text);
        return arena_printf(a, "mpc_len(%s)", h->loader[host_loader(h, d)]);
    }
    case HE_count: return arena_printf(a, "mpc_count(r, %d)", data_set_number(e, x->text));
    case HE_unary:
        return arena_printf(a, "%s%s", str_eq(x->text, "not") ? "!" : "-", operand(e, h, x->in[0]));
    case HE_binary: return binary(e, h, x);
    case HE_call: return function(e, h, x);
    case HE_cond:
        return arena_printf(a, "%s ? %s : %s", operand(e, h, x->in[1]), operand(e, h, x->in[0]),
                            operand(e, h, x->in[2]));
    }
    ICE("host expression of unknown kind %d", (int)x->kind);
}
