/* lower_settings.c: what a file says about its run as a whole: seed, folder, length, checkpoints. Mostly the
 * default of one of the program's own flags, which the command line still decides. */
#include "frontend/builtins.h"

/* An option of that name is what the program's own flag sets, too. */
static Val default_of_flag(Lower *l, Call *c, const char *flag, const char *type, HostExpr *value)
{
    if (l->frame != NULL || l->loops > 0) {
        return lower_error(l, c->loc, "`%s` stands at the top level, outside of loops",
                           c->fn->name);
    }
    if (module_find(l->m, DECL_option, flag) != NULL) {
        bool itself = value->kind == HE_option && str_eq(value->text, flag);
        return itself ? val_none()
                      : lower_error(l, c->loc, "the file has an option `%s`, which says it", flag);
    }
    Decl *d = module_decl(l->m, DECL_option, flag);
    d->loc = lower_loc(l, c->loc);
    attrs_set_str(l->arena, &d->attrs, ATTR_type, type);
    attrs_set_expr(l->arena, &d->attrs, ATTR_default, value);
    return val_none();
}

Val fn_set_seed(Lower *l, Call *c)
{
    HostExpr *e = host_of(l, c->args[0], c->locs[0]);
    int64_t seed = 0;
    if (e == NULL || (e->kind != HE_option && !call_int(l, c, 0, &seed))) {
        return val_poison();
    }
    if (seed < 0) {
        return lower_error(l, c->locs[0], "a seed is not negative");
    }
    e = e->kind == HE_option && str_eq(e->text, "seed") ? e : NULL;
    if (e == NULL) {
        if (!call_int(l, c, 0, &seed)) {
            return val_poison();
        }
        e = host_of(l, val_int(seed), c->locs[0]);
    }
    return default_of_flag(l, c, "seed", "int", e);
}

Val fn_set_out(Lower *l, Call *c)
{
    const char *path;
    if (!call_str(l, c, 0, &path)) {
        return val_poison();
    }
    return default_of_flag(l, c, "out", "str", host_of(l, val_str(path), c->locs[0]));
}

/* 500, "500", "90s", "never": as --checkpoint-every takes it. NULL: said. */
static const char *interval(Lower *l, Call *c)
{
    Val v = host_fold(l, c->args[0], FOLD_fixed, c->locs[0]);
    if (v.kind == VAL_int && v.i > 0) {
        return arena_printf(l->arena, "%lld", (long long)v.i);
    }
    if (val_is_poison(v)) {
        return NULL;
    }
    int digits = 0;
    const char *p = v.kind == VAL_str ? v.s : "";
    while (*p >= '0' && *p <= '9' && digits < 10) {
        p++;
        digits++;
    }
    bool whole = digits > 0 && v.s[0] != '0' && (*p == '\0' || (p[0] == 's' && p[1] == '\0'));
    if (whole || (v.kind == VAL_str && str_eq(v.s, "never"))) {
        return v.s;
    }
    lower_error(l, c->locs[0],
                "every is a number of updates, or of seconds as \"60s\", or \"never\"");
    return NULL;
}

Val fn_set_checkpoints(Lower *l, Call *c)
{
    Val v = val_none();
    if (c->given[0]) {
        const char *text = interval(l, c);
        v = text == NULL ? val_poison()
                         : default_of_flag(l, c, "checkpoint_every", "str",
                                           host_of(l, val_str(text), c->locs[0]));
    }
    if (c->given[1] && !val_is_poison(v)) {
        int64_t keep;
        if (!call_int(l, c, 1, &keep)) {
            return val_poison();
        }
        if (keep < 1) {
            return lower_error(l, c->locs[1], "at least 1 checkpoint is kept");
        }
        v = default_of_flag(l, c, "keep_checkpoints", "int", host_of(l, val_int(keep), c->locs[1]));
    }
    return v;
}

Val fn_set_max_steps(Lower *l, Call *c)
{
    if (l->frame != NULL || l->loops > 0) {
        return lower_error(l, c->loc, "`%s` stands at the top level, outside of loops",
                           c->fn->name);
    }
    HostExpr *e = host_of(l, c->args[0], c->locs[0]);
    if (e == NULL) {
        return val_poison();
    }
    if (e->type != HT_int) {
        return lower_error(l, c->locs[0], "a run has a whole number of updates");
    }
    run_close(l);
    host_emit(l, HS_limit, c->loc)->expr = e;
    return val_none();
}

Val fn_set_memory(Lower *l, Call *c)
{
    const char *size;
    if (!call_str(l, c, 0, &size)) {
        return val_poison();
    }
    if (l->frame != NULL || l->loops > 0) {
        return lower_error(l, c->loc, "`%s` stands at the top level, outside of loops",
                           c->fn->name);
    }
    if (!str_bytes(size, &l->m->memory)) {
        return lower_error(l, c->locs[0], "'%s' is no size of memory, as \"64 MiB\" or \"2 GB\"",
                           size);
    }
    l->m->memory_loc = lower_loc(l, c->locs[0]);
    return val_none();
}

Val fn_elapsed(Lower *l, Call *c)
{
    if (l->frame != NULL) {
        return lower_error(l, c->loc, "elapsed is for the program, not for a module");
    }
    return val_host(host_node(l, HE_call, HT_float, "elapsed", 0, NULL, c->loc));
}

/* The steps before it are made when it is asked: what stands behind them is another run. */
Val fn_step_was_skipped(Lower *l, Call *c)
{
    if (l->frame != NULL) {
        return lower_error(l, c->loc, "%s is for the program, not for a module", c->fn->name);
    }
    run_close(l);
    return val_host(host_node(l, HE_call, HT_bool, c->fn->name, 0, NULL, c->loc));
}
