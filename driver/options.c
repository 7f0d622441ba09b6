/* options.c: mpc's command line: parsing, help and messages from the table options.def. */
#include "driver/options.h"

#include <string.h>

#include "ir/base/strutil.h"
#include "ir/base/text.h"
#include "ir/base/vec.h"

typedef struct OptionInfo {
    const char *name, *argument, *choices, *help;
    char letter;
    bool repeats;
} OptionInfo;

static const OptionInfo info[OPT_COUNT] = {
#define OPTION(id, letter, name, argument, repeats, choices, help)                                 \
    [OPT_##id] = {name, argument, choices, help, letter, repeats},
#include "driver/options.def"
};

bool option_given(const Options *o, OptionId id)
{
    return o->of[id].n > 0;
}

const char *option_value(const Options *o, OptionId id, const char *otherwise)
{
    const OptionValues *v = &o->of[id];
    return v->n > 0 && v->v[v->n - 1] != NULL ? v->v[v->n - 1] : otherwise;
}

static void add_value(Arena *a, Options *o, OptionId id, const char *value)
{
    OptionValues *v = &o->of[id];
    const char **more = ARENA_ARRAY(a, const char *, v->n + 1);
    if (v->n > 0) {
        memcpy(more, v->v, (size_t)v->n * sizeof *more);
    }
    more[v->n] = value;
    v->v = more;
    v->n++;
}

/* ---- messages ------------------------------------------------------------------------------------------ */

static bool wrong(const char *what, const char *near)
{
    fprintf(stderr, "mpc: %s", what);
    if (near != NULL) {
        fprintf(stderr, "; did you mean %s?", near);
    }
    fputs("\ntry 'mpc --help'\n", stderr);
    return false;
}

static bool unknown_option(Arena *a, const char *name)
{
    const char *names[OPT_COUNT];
    for (int i = 0; i < OPT_COUNT; i++) {
        names[i] = info[i].name;
    }
    const char *near = nearest_name(name, names, OPT_COUNT);
    return wrong(arena_printf(a, "unknown option --%s", name),
                 near != NULL ? arena_printf(a, "--%s", near) : NULL);
}

static const char *spelling(Arena *a, OptionId id)
{
    return info[id].name != NULL ? arena_printf(a, "--%s", info[id].name)
                                 : arena_printf(a, "-%c", info[id].letter);
}

static bool check_choice(Arena *a, OptionId id, const char *value)
{
    if (info[id].choices == NULL || value == NULL) {
        return true;
    }
    const char *names[16];
    int n = 0;
    char *rest = arena_strdup(a, info[id].choices);
    for (char *word = strtok(rest, "|"); word != NULL; word = strtok(NULL, "|")) {
        if (str_eq(word, value)) {
            return true;
        }
        names[n++] = word;
    }
    return wrong(arena_printf(a, "%s=%s: it takes %s", spelling(a, id), value, info[id].choices),
                 nearest_name(value, names, n));
}

/* ---- parsing ------------------------------------------------------------------------------------------- */

typedef struct Args {
    int argc, at;
    char **argv;
} Args;

static bool optional_argument(OptionId id)
{
    return info[id].argument != NULL && info[id].argument[0] == '[';
}

/* value: what stood glued to the option, or NULL. */
static bool take(Arena *a, Options *o, OptionId id, const char *value, Args *args)
{
    if (info[id].argument == NULL && value != NULL) {
        return wrong(arena_printf(a, "%s takes no value", spelling(a, id)), NULL);
    }
    if (info[id].argument != NULL && !optional_argument(id) && value == NULL) {
        if (args->at + 1 >= args->argc) {
            return wrong(
                arena_printf(a, "%s wants a value: %s", spelling(a, id), info[id].argument), NULL);
        }
        value = args->argv[++args->at];
    }
    if (!check_choice(a, id, value)) {
        return false;
    }
    add_value(a, o, id, value);
    return true;
}

static bool long_option(Arena *a, Options *o, const char *text, Args *args)
{
    const char *equals = strchr(text, '=');
    const char *name =
        arena_strndup(a, text, equals != NULL ? (size_t)(equals - text) : strlen(text));
    for (int i = 0; i < OPT_COUNT; i++) {
        if (str_eq(info[i].name, name)) {
            return take(a, o, (OptionId)i, equals != NULL ? equals + 1 : NULL, args);
        }
    }
    return unknown_option(a, name);
}

static bool short_option(Arena *a, Options *o, const char *text, Args *args)
{
    for (int i = 0; i < OPT_COUNT; i++) {
        if (info[i].letter == text[0]) {
            return take(a, o, (OptionId)i, text[1] != '\0' ? text + 1 : NULL, args);
        }
    }
    return wrong(arena_printf(a, "unknown option -%c", text[0]), NULL);
}

/* As one would type it: arguments with other than plain characters in single quotes. */
static const char *as_typed(Arena *a, int argc, char **argv)
{
    Text *t = text_new(a);
    text_puts(t, "mpc");
    for (int i = 1; i < argc; i++) {
        bool plain = argv[i][0] != '\0' && argv[i][strspn(argv[i], "abcdefghijklmnopqrstuvwxyz"
                                                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                                   "0123456789_-+=./,:@%")] == '\0';
        text_printf(t, plain ? " %s" : " '%s'", argv[i]);
    }
    return t->at;
}

bool options_parse(Arena *a, int argc, char **argv, Options *o)
{
    Args args = {argc, 1, argv};
    bool only_files = false;
    o->command = as_typed(a, argc, argv);
    for (; args.at < argc; args.at++) {
        const char *arg = argv[args.at];
        bool ok = true;
        if (!only_files && str_eq(arg, "--")) {
            only_files = true;
        } else if (!only_files && str_starts(arg, "--")) {
            ok = long_option(a, o, arg + 2, &args);
        } else if (!only_files && arg[0] == '-' && arg[1] != '\0') {
            ok = short_option(a, o, arg + 1, &args);
        } else if (o->input != NULL) {
            ok = wrong(arena_printf(a, "one file at a time: %s and %s", o->input, arg), NULL);
        } else {
            o->input = arg;
        }
        if (!ok) {
            return false;
        }
    }
    return true;
}

/* ---- help ---------------------------------------------------------------------------------------------- */

static void help_line(FILE *out, Arena *a, const OptionInfo *i)
{
    const char *left = "";
    if (i->letter != 0) {
        bool flag = i->argument == NULL || i->name != NULL;
        left = arena_printf(a, "-%c%s", i->letter, flag ? "" : i->argument);
    }
    if (i->name != NULL) {
        bool optional = i->argument != NULL && i->argument[0] == '[';
        left = arena_printf(a, "%s%s--%s%s%s", left, *left != '\0' ? ", " : "", i->name,
                            i->argument != NULL && !optional ? "=" : "",
                            i->argument != NULL ? i->argument : "");
    }
    fprintf(out, "    %-24s %s\n", left, i->help);
    if (i->choices != NULL && strchr(i->choices, '|') != NULL) {
        fprintf(out, "    %-24s     %s\n", "", i->choices);
    }
}

void options_help(FILE *out)
{
    Arena *a = arena_new();
    fputs("usage: mpc FILE.mpt|FILE.ir [-o OUT] [options]\n"
          "Compiles a model and its training loop into a native training program.\n\n",
          out);
    for (int i = 0; i < OPT_COUNT; i++) {
        help_line(out, a, &info[i]);
    }
    fputs("\nThe C compiler is $MPC_CC, $CC, or cc, gcc or clang on the PATH.\n"
          "Exit status: 0 done, 1 the machine failed us, 2 wrong usage or an error in the file.\n",
          out);
    arena_free(a);
}
