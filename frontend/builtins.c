/* builtins.c: the functions of the language by name. */
#include "frontend/builtins.h"

static const Builtin builtins[] = {
#define FN(receiver, name, handler, op, formals, meaning)                                          \
    {#name, fn_##handler, VAL_##receiver, OP_##op, formals, meaning},
#include "frontend/builtins.def"
};
enum { COUNT = sizeof builtins / sizeof *builtins };

static bool is_function(const Builtin *b)
{
    return b->receiver == VAL_none || b->receiver == VAL_tensor;
}

const Builtin *builtin_find(const char *name)
{
    for (int i = 0; i < COUNT; i++) {
        if (is_function(&builtins[i]) && str_eq(builtins[i].name, name)) {
            return &builtins[i];
        }
    }
    return NULL;
}

const Builtin *builtin_method(ValueKind receiver, const char *name)
{
    for (int i = 0; i < COUNT; i++) {
        if (builtins[i].receiver == receiver && str_eq(builtins[i].name, name)) {
            return receiver == VAL_none ? NULL : &builtins[i];
        }
    }
    return NULL;
}

void builtin_names(Lower *l, Names *names, ValueKind receiver)
{
    for (int i = 0; i < COUNT; i++) {
        if (builtins[i].receiver == receiver ||
            (receiver == VAL_none && is_function(&builtins[i]))) {
            vec_push(l->arena, names, builtins[i].name);
        }
    }
}
