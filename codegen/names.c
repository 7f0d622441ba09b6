/* names.c: identifiers of the emitted program: valid, unique in their scope, and nobody else's. */
#include <ctype.h>
#include <string.h>

#include "codegen/emit.h"
#include "ir/base/strutil.h"

/* Words that no name from a model may become: C's keywords, and macros in lower case. */
static const char *const reserved[] = {
    "alignas",  "alignof",  "asm",          "auto",          "bool",     "break",  "case",
    "char",     "complex",  "const",        "continue",      "default",  "do",     "double",
    "else",     "enum",     "errno",        "extern",        "false",    "float",  "for",
    "goto",     "if",       "imaginary",    "inline",        "int",      "linux",  "long",
    "noreturn", "nullptr",  "offsetof",     "register",      "restrict", "return", "short",
    "signed",   "sizeof",   "static",       "static_assert", "stderr",   "stdin",  "stdout",
    "struct",   "switch",   "thread_local", "true",          "typedef",  "typeof", "union",
    "unix",     "unsigned", "void",         "volatile",      "while",    "isnan",  "isinf",
    "isfinite", "isnormal", "isgreater",    "isless",        "signbit",  "assert", "fpclassify",
};

/* And what C++ adds: a kernel is CUDA C, too. */
static const char *const of_cpp[] = {
    "alignof",     "and",       "and_eq",    "bitand",
    "bitor",       "catch",     "class",     "compl",
    "concept",     "consteval", "constexpr", "constinit",
    "const_cast",  "decltype",  "delete",    "dynamic_cast",
    "explicit",    "export",    "friend",    "mutable",
    "namespace",   "new",       "noexcept",  "not",
    "not_eq",      "operator",  "or",        "or_eq",
    "private",     "protected", "public",    "requires",
    "static_cast", "template",  "this",      "throw",
    "try",         "typeid",    "typename",  "using",
    "virtual",     "xor",       "xor_eq",    "reinterpret_cast",
};

/* Functions and types of the headers that an emitted program includes; a local variable may hide them. */
static const char *const library[] = {
    "abort",       "abs",       "acos",        "acosh",    "alloca",   "asin",      "asinh",
    "atan",        "atan2",     "atanh",       "atexit",   "atof",     "atoi",      "atol",
    "bcmp",        "bcopy",     "bsearch",     "bzero",    "calloc",   "cbrt",      "ceil",
    "clock",       "copysign",  "cos",         "cosh",     "div",      "drand48",   "drem",
    "erf",         "erfc",      "exit",        "exp",      "exp10",    "exp2",      "expm1",
    "fabs",        "fdim",      "ffs",         "floor",    "fma",      "fmax",      "fmin",
    "fmod",        "free",      "frexp",       "gamma",    "getenv",   "half",      "hypot",
    "ilogb",       "index",     "isinf",       "isnan",    "j0",       "j1",        "jn",
    "labs",        "ldexp",     "ldiv",        "lgamma",   "llabs",    "log",       "log10",
    "log1p",       "log2",      "logb",        "lrint",    "lround",   "main",      "malloc",
    "max_align_t", "memchr",    "memcmp",      "memcpy",   "memmove",  "memset",    "modf",
    "nan",         "nearbyint", "nextafter",   "pow",      "printf",   "puts",      "qsort",
    "quick_exit",  "raise",     "rand",        "random",   "realloc",  "remainder", "remove",
    "remquo",      "rename",    "rindex",      "rint",     "round",    "scalb",     "setenv",
    "sigmoid",     "signal",    "significand", "sin",      "sinh",     "sqrt",      "srand",
    "strcat",      "strchr",    "strcmp",      "strcpy",   "strdup",   "strlen",    "strtok",
    "system",      "tan",       "tanh",        "tgamma",   "time",     "trunc",     "wait",
    "write",       "read",      "open",        "close",    "y0",       "y1",        "yn",
    "size_t",      "ptrdiff_t", "wchar_t",     "memccpy",  "int8_t",   "int16_t",   "int32_t",
    "int64_t",     "uint8_t",   "uint16_t",    "uint32_t", "uint64_t", "intptr_t",  "uintptr_t",
    "intmax_t",    "uintmax_t",
};

/* What emitted functions call their own variables; kernels and buffers must not hide them. */
static const char *const local_words[] = {
    "a",     "arena",  "args", "b",   "batch",  "at",       "block",   "calls", "col",
    "cut",   "done",   "e",    "end", "first",  "g",        "hi",      "i",     "j",
    "k",     "lane",   "left", "lo",  "means",  "measured", "metrics", "n",     "p",
    "packs", "part",   "q",    "r",   "result", "row",      "run",     "s",     "seed",
    "t",     "thread", "tile", "u",   "values", "vars",     "w",       "warp",
};

static bool is_taken(const Names *n, const char *name)
{
    for (; n != NULL; n = n->outer) {
        if (strmap_get(&n->taken, name) != NULL) {
            return true;
        }
    }
    return false;
}

static bool is_listed(const char *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(list[i], name)) {
            return true;
        }
    }
    return false;
}

Names names_new(Arena *arena, const Names *outer, bool local)
{
    Names n = {.arena = arena, .outer = outer, .local = local};
    for (size_t i = 0; outer == NULL && i < sizeof local_words / sizeof *local_words; i++) {
        strmap_put(arena, &n.taken, local_words[i], 2);
    }
    return n;
}

void names_reserve(Names *n, const char *name)
{
    strmap_put(n->arena, &n->taken, name, 2);
}

/* Letters, digits and single underscores; never all capitals, which macros are. */
static char *cleaned(Arena *a, const char *wanted)
{
    size_t length = strlen(wanted), at = 0;
    char *name = arena_alloc(a, length + 3);
    bool lower = false;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)wanted[i];
        bool fits = c < 128 && (isalnum(c) || c == '_');
        if (!fits || c == '_') {
            if (at > 0 && name[at - 1] != '_') {
                name[at++] = '_';
            }
            continue;
        }
        if (at == 0 && isdigit(c)) {
            name[at++] = 'n';
        }
        lower |= islower(c) != 0;
        name[at++] = (char)c;
    }
    while (at > 0 && name[at - 1] == '_') {
        at--;
    }
    name[at] = 0;
    for (size_t i = 0; !lower && at > 1 && i < at; i++) {
        name[i] = (char)tolower((unsigned char)name[i]);
    }
    return name;
}

const char *names_take(Names *n, const char *wanted)
{
    const char *name = cleaned(n->arena, wanted);
    if (name[0] == 0) {
        name = "value";
    }
    if (strlen(name) > 48) {
        name = arena_strndup(n->arena, name, 48);
    }
    if (is_listed(reserved, sizeof reserved / sizeof *reserved, name) ||
        is_listed(of_cpp, sizeof of_cpp / sizeof *of_cpp, name) ||
        (!n->local && is_listed(library, sizeof library / sizeof *library, name)) ||
        str_starts(name, "mpc_") || str_starts(name, "Mpc") || str_starts(name, "vf_")) {
        name = arena_printf(n->arena, "my_%s", name);
    }
    const char *unique = name;
    if (is_taken(n, name)) {
        bool digit = isdigit((unsigned char)name[strlen(name) - 1]) != 0;
        int i = *strmap_put(n->arena, &n->taken, name, 2);
        do {
            unique = arena_printf(n->arena, digit ? "%s_%d" : "%s%d", name, i++);
        } while (is_taken(n, unique));
        *strmap_get(&n->taken, name) = i;
    }
    names_reserve(n, unique);
    return unique;
}
