/* loops.c: a trainer block becomes the explicit loop that it stands for.
 *
 * The loop is written as text, one loop_line() each (trainer_loop.c, trainer_eval.c), and parsed here;
 * `__key__` in a line stands for the value of that key and is replaced in the tree, so that a message
 * about the value points at the user's own words. Every other node of a line gets the place of the key
 * that the line is about.
 */
#include "frontend/loops.h"

#include <string.h>

#include "frontend/accelerator.h"
#include "frontend/frontend.h"

void loop_line(Loop *l, TrainerKey key, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_vprintf(l->text, fmt, ap);
    va_end(ap);
    text_putc(l->text, '\n');
    Loc loc = key < KEY_COUNT ? l->t.loc[key] : l->t.block->loc;
    vec_push(l->m.arena, &l->places, loc);
}

/* ---- names ---- */

static bool declares(const Ast *item, const char *name)
{
    if (item->kind == AST_assign && item->target->kind == AST_tuple) {
        for (int i = 0; i < item->target->list.n; i++)
            if (str_eq(item->target->list.at[i]->name, name))
                return true;
        return false;
    }
    return str_eq(item->kind == AST_assign ? item->target->name : item->name, name);
}

/* `name`, or the first of name_2, name_3 ... that the file does not declare. */
static const char *fresh(Loop *l, const char *name)
{
    const char *tried = name;
    for (int i = 2;; i++) {
        bool taken = false;
        for (int k = 0; k < l->file->root->list.n; k++)
            taken |= declares(l->file->root->list.at[k], tried);
        for (int k = 0; k < l->file->included.n; k++)
            taken |= declares(l->file->included.at[k], tried);
        if (!taken)
            return tried;
        tried = arena_printf(l->m.arena, "%s_%d", name, i);
    }
}

static void choose_names(Loop *l)
{
    l->model = fresh(l, "model");
    l->optimizer = fresh(l, "optimizer");
    l->train = fresh(l, "train");
    l->scheduler = fresh(l, "scheduler");
    l->scaler = fresh(l, "scaler");
    l->ema = fresh(l, "ema");
    l->best = fresh(l, "best");
    l->step = fresh(l, "step");
    l->epoch = fresh(l, "epoch");
    l->micro = fresh(l, "micro");
    l->waited = fresh(l, "waited");
    l->stopped = fresh(l, "stopped");
}

/* ---- text to tree ---- */

/* The value that `__key__` stands for, or NULL. */
static Ast *placeholder(const Loop *l, const Ast *n)
{
    size_t len = n->kind == AST_name ? strlen(n->name) : 0;
    if (len < 5 || !str_starts(n->name, "__") || !str_ends(n->name, "__"))
        return NULL;
    int key = trainer_key_of(arena_strndup(l->m.arena, n->name + 2, len - 4));
    return key < 0 ? NULL : l->t.value[key];
}

static Ast *settle(Loop *l, Ast *n);

static void settle_list(Loop *l, AstList list)
{
    for (int i = 0; i < list.n; i++)
        list.at[i] = settle(l, list.at[i]);
}

/* Gives a parsed node its place and its values. */
static Ast *settle(Loop *l, Ast *n)
{
    if (!n)
        return NULL;
    Ast *value = placeholder(l, n);
    if (value)
        return value;
    Ast *metric = n->kind == AST_call ? trainer_metric(l, n->callee) : NULL;
    n->loc = n->name_loc = l->places.at[n->loc.line - 1];
    if (metric) {
        settle_list(l, n->list);
        for (int i = 0; metric->kind == AST_call && i < metric->list.n; i++)
            n->list = ast_append(&l->m, n->list, metric->list.at[i]);
        n->callee = metric->kind == AST_call ? metric->callee : metric;
        n->loc = metric->loc;
        return ast_seal(&l->m, n);
    }
    n->a = settle(l, n->a);
    n->b = settle(l, n->b);
    n->c = settle(l, n->c);
    settle_list(l, n->list);
    settle_list(l, n->list2);
    return ast_seal(&l->m, n);
}

static AstList expand(Loop *l, const Ast *block)
{
    AstList none = {0};
    if (!trainer_read(&l->m, block, &l->t))
        return none;
    choose_names(l);
    if (!trainer_fields(l) || !trainer_plan_evaluations(l))
        return none;
    trainer_loop(l);
    /* the text is ours: an error in it is an internal one */
    Diag *quiet = diag_new(l->m.arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
    SourceFile *source = source_from_text(l->m.arena, "<trainer>", l->text->at, l->text->n);
    AstFile *file = frontend_parse(l->m.arena, quiet, source);
    if (diag_failed(quiet))
        ICE("the loop of a trainer does not parse: %s", diag_text(quiet));
    settle_list(l, file->root->list);
    return file->root->list;
}

AstFile *frontend_expand_levels(Arena *a, Diag *d, const AstFile *file)
{
    AstFile *out = ARENA_NEW(a, AstFile);
    AstMaker m = {.arena = a, .diag = d};
    AstList items = {0};
    const Ast *first = NULL;
    *out = *file;
    for (int i = 0; i < file->root->list.n; i++) {
        Ast *n = file->root->list.at[i];
        if (n->kind != AST_trainer) {
            items = ast_append(&m, items, n);
        } else if (first) {
            diag_error(d, n->loc, "a file has one trainer block");
            diag_note(d, first->loc, "the first one is here");
        } else {
            Loop l = {.m = m, .file = file, .text = text_new(a)};
            AstList loop_items = expand(&l, n);
            for (int k = 0; k < loop_items.n; k++)
                items = ast_append(&m, items, loop_items.at[k]);
            first = n;
        }
    }
    out->root = ast_decl(&m, AST_file, file->root->loc, NULL, items, (AstList){0});
    return accel_expand(a, d, out);
}
