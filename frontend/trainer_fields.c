/* trainer_fields.c: which fields of a sample a trainer gives to the model, and which is the label. */
#include "frontend/loops.h"

/* The declaration of a data set: by its name, or through `parts = set.split(...)`. */
static const Ast *find_data(const Loop *l, const Ast *set)
{
    const char *name = set->kind == AST_name ? set->name : NULL;
    if (set->kind == AST_member && set->object->kind == AST_name)
        name = set->object->name;
    for (int hops = 0; name && hops < 8; hops++) {
        const char *next = NULL;
        for (int i = 0; i < l->file->root->list.n; i++) {
            const Ast *n = l->file->root->list.at[i];
            if (n->kind == AST_data && str_eq(n->name, name))
                return n;
            if (n->kind == AST_assign && str_eq(n->target->name, name) &&
                n->value->kind == AST_call && n->value->callee->kind == AST_member &&
                n->value->callee->object->kind == AST_name)
                next = n->value->callee->object->name;
        }
        name = next;
    }
    return NULL;
}

static const char *default_label(const Ast *data)
{
    static const char *const usual[] = {"label", "labels", "target", "targets", "y"};
    for (size_t k = 0; k < sizeof usual / sizeof *usual; k++)
        for (int i = 0; i < data->list.n; i++)
            if (str_eq(data->list.at[i]->name, usual[k]))
                return usual[k];
    return data->list.at[data->list.n - 1]->name;
}

/* A plain name that nothing in the file declares. */
static bool is_unknown(const Loop *l, const Ast *set)
{
    if (set->kind != AST_name)
        return false;
    const char *names[64];
    int n = 0;
    for (int i = 0; i < l->file->root->list.n; i++) {
        const Ast *a = l->file->root->list.at[i];
        const char *name = a->kind == AST_data                                    ? a->name
                           : a->kind == AST_assign && a->target->kind == AST_name ? a->target->name
                                                                                  : NULL;
        if (name && str_eq(name, set->name))
            return false;
        if (name && n < 64)
            names[n++] = name;
    }
    diag_error(l->m.diag, set->loc, "unknown data set '%s'", set->name);
    const char *near = nearest_name(set->name, names, n);
    if (near)
        diag_note(l->m.diag, set->loc, "did you mean '%s'?", near);
    return true;
}

/* "batch.image", or what `inputs` lists. */
static const char *listed(Loop *l, const Ast *inputs)
{
    if (inputs->kind == AST_name)
        return arena_printf(l->m.arena, "batch.%s", inputs->name);
    Text *t = text_new(l->m.arena);
    for (int i = 0; i < inputs->list.n; i++)
        text_printf(t, "%sbatch.%s", i ? ", " : "", inputs->list.at[i]->name);
    return t->at;
}

bool trainer_fields(Loop *l)
{
    const Ast *inputs = l->t.given[KEY_inputs], *labels = l->t.given[KEY_labels];
    const Ast *set = l->t.value[KEY_train_dataset];
    const Ast *data = find_data(l, set);
    if (is_unknown(l, set))
        return false;
    if ((!inputs || !labels) && (!data || data->list.n < 2)) {
        diag_error(l->m.diag, set->loc,
                   "cannot tell which fields of this set are the model's inputs and the label");
        diag_note(l->m.diag, set->loc, "say it with the keys inputs and labels");
        return false;
    }
    if (labels && labels->kind != AST_name) {
        diag_error(l->m.diag, labels->loc, "labels is one field");
        return false;
    }
    l->label = labels ? labels->name : default_label(data);
    l->inputs = inputs ? listed(l, inputs) : NULL;
    for (int i = 0; !l->inputs && i < data->list.n; i++)
        if (!str_eq(data->list.at[i]->name, l->label))
            l->inputs = arena_printf(l->m.arena, "batch.%s", data->list.at[i]->name);
    if (!l->inputs)
        diag_error(l->m.diag, set->loc, "this set has no field beside the label '%s'", l->label);
    return l->inputs != NULL;
}
