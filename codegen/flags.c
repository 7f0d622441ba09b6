/* flags.c: the flags that every compiled program takes, for its manual page (runtime/abi/flags.def). */
#include "codegen/codegen.h"

#include <stddef.h>

static const ProgramFlag flags[] = {
#define FLAG(set, name, value, meaning) {name, value, meaning},
#include "runtime/abi/flags.def"
};

const ProgramFlag *codegen_flags(int *n)
{
    *n = sizeof flags / sizeof *flags;
    return flags;
}
