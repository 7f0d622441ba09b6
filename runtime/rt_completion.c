/* rt_completion.c: --completion: a script by which a shell completes the flags of this program, made from
 * abi/flags.def and the options of the file. Values are completed by what flags.def says of them: DIR, FILE, words. */
#include "rt_options.h"

#include <stdlib.h>
#include <string.h>

typedef struct Completed {
    const char *name, *meaning;
    const char *words;             /* by blanks; NULL: none */
    bool folder, file, takes, may; /* may: a value can be left out */
} Completed;

static const struct {
    const char *name, *value, *meaning;
} flags[] = {
#define FLAG(set, name, value, meaning) {name, value, meaning},
#include "abi/flags.def"
};
enum { FLAGS = sizeof flags / sizeof flags[0] };

/* ---- what there is to complete ---- */

static const char *joined(const char *const *words, int n)
{
    char *all = rt_copy_text(words[0]);
    for (int i = 1; i < n; i++) {
        char *more = rt_text("%s %s", all, words[i]);
        free(all);
        all = more;
    }
    return all; /* until the program ends, which is soon */
}

static const char *words_of(const MpcProgram *p, const char *name)
{
    if (!strcmp(name, "log"))
        return joined(rt_console_name, RT_CONSOLE_none + 1);
    if (!strcmp(name, "completion"))
        return joined(rt_shell_name, RT_SHELL_COUNT);
    if (!strcmp(name, "device"))
        return p->cuda ? "auto cpu cuda" : "auto cpu";
    return !strcmp(name, "plan") ? "full" : NULL;
}

static bool is_option(const MpcProgram *p, const char *name)
{
    for (int i = 0; i < p->n_options; i++) {
        const char *a = p->options[i].name, *b = name;
        while (*a && (*a == *b || (*a == '_' && *b == '-')))
            a++, b++;
        if (!*a && !*b)
            return true;
    }
    return false;
}

/* The flags that an option of the file does not replace, then the options. */
static int completed(const MpcProgram *p, Completed *list)
{
    int n = 0;
    for (int i = 0; i < FLAGS; i++) {
        const char *value = flags[i].value ? flags[i].value : "";
        if (!is_option(p, flags[i].name))
            list[n++] = (Completed){.name = flags[i].name,
                                    .meaning = flags[i].meaning,
                                    .words = words_of(p, flags[i].name),
                                    .folder = strstr(value, "DIR") != NULL,
                                    .file = strstr(value, "FILE") != NULL,
                                    .takes = *value != 0,
                                    .may = *value == '['};
    }
    for (int i = 0; i < p->n_options; i++) {
        const MpcOption *option = &p->options[i];
        list[n++] = (Completed){.name = option->name,
                                .meaning = option->help ? option->help : "an option of the program",
                                .words = option->type == MPC_OPTION_bool ? "true false" : NULL,
                                .takes = true,
                                .may = option->type == MPC_OPTION_bool};
    }
    return n;
}

/* ---- shells ---- */

static void put_quoted(FILE *out, const char *text, const char *escaped, const char *quote)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs(quote, out);
        else
            fprintf(out, strchr(escaped, *text) ? "\\%c" : "%c", *text);
}

/* A name of a function. */
static void put_function(FILE *out, const char *command)
{
    fputs("_mpc_", out);
    for (; *command; command++)
        fputc(strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", *command)
                  ? *command
                  : '_',
              out);
}

static void put_command(FILE *out, const char *command)
{
    fputc('\'', out);
    put_quoted(out, command, "", "'\\''");
    fputc('\'', out);
}

static void bash(FILE *out, const char *command, const Completed *list, int n)
{
    fputs("# bash completion of a training program, made by its --completion=bash\n", out);
    put_function(out, command);
    fputs("()\n{\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} IFS=$'\\n'\n"
          "    if [[ $word == '=' ]]; then\n"
          "        word=\n"
          "    elif [[ $before == '=' ]]; then\n"
          "        before=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    COMPREPLY=()\n"
          "    case $before in\n",
          out);
    for (int i = 0; i < n; i++) {
        const Completed *c = &list[i];
        if (!c->takes)
            continue;
        fprintf(out, "    --%s)%s ", c->name, c->may ? " [[ $word == -* ]] ||" : "");
        if (c->words)
            fprintf(out, "{ IFS=' '; COMPREPLY=($(compgen -W '%s' -- \"$word\")); return; }",
                    c->words);
        else if (c->folder || c->file)
            fprintf(out, "{ COMPREPLY=($(compgen -%c -- \"$word\")); return; }",
                    c->folder ? 'd' : 'f');
        else
            fputs("return", out);
        fputs(" ;;\n", out);
    }
    fputs("    esac\n    COMPREPLY=($(compgen -W $'", out);
    for (int i = 0; i < n; i++)
        fprintf(out, "%s--%s", i ? "\\n" : "", list[i].name);
    fputs("' -- \"$word\"))\n}\ncomplete -o filenames -F ", out);
    put_function(out, command);
    fputs(" -- ", out);
    put_command(out, command);
    fputc('\n', out);
}

static void zsh(FILE *out, const char *command, const Completed *list, int n)
{
    fprintf(out,
            "#compdef %s\n# zsh completion of a training program, made by its "
            "--completion=zsh\n",
            command);
    put_function(out, command);
    fputs("()\n{\n    _arguments", out);
    for (int i = 0; i < n; i++) {
        const Completed *c = &list[i];
        fprintf(out, " \\\n    '--%s%s[", c->name, c->takes ? "=" : "");
        put_quoted(out, c->meaning, "[]:\\", "'\\''");
        fputc(']', out);
        if (c->takes)
            fprintf(out, "%s:", c->may ? "::value" : ":value");
        if (c->words)
            fprintf(out, "(%s)", c->words);
        else if (c->folder || c->file)
            fputs(c->folder ? "_files -/" : "_files", out);
        fputc('\'', out);
    }
    fputs("\n}\ncompdef ", out);
    put_function(out, command);
    fputc(' ', out);
    put_command(out, command);
    fputc('\n', out);
}

static void fish(FILE *out, const char *command, const Completed *list, int n)
{
    fputs("# fish completion of a training program, made by its --completion=fish\n", out);
    for (int i = 0; i < n; i++) {
        const Completed *c = &list[i];
        fputs("complete -c '", out);
        put_quoted(out, command, "\\", "\\'");
        fprintf(out, "' -l %s%s", c->name,
                c->takes && !c->may     ? c->file ? " -r" : " -x"
                : c->words || c->folder ? " -f"
                                        : "");
        if (c->words)
            fprintf(out, " -a '%s'", c->words);
        else if (c->folder)
            fputs(" -a '(__fish_complete_directories)'", out);
        fputs(" -d '", out);
        put_quoted(out, c->meaning, "\\", "\\'");
        fputs("'\n", out);
    }
}

void rt_completion(const RtOptions *o, const char *command, FILE *out)
{
    static void (*const of[RT_SHELL_COUNT])(FILE *, const char *, const Completed *, int) = {
        [RT_SHELL_bash] = bash, [RT_SHELL_zsh] = zsh, [RT_SHELL_fish] = fish};
    Completed *list = rt_alloc_zero((size_t)o->program->n_options + FLAGS, sizeof *list);
    of[o->shell](out, command, list, completed(o->program, list));
    free(list);
}
