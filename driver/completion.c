/* completion.c: completion scripts for bash, zsh and fish (mpc --completion=SHELL).
 *
 * Everything follows from options.def: a hint's words are what a value may be; those in capitals say what kind of
 * thing stands there. */
#include "driver/completion.h"

#include <ctype.h>
#include <string.h>

#include "driver/options.h"
#include "ir/base/strutil.h"
#include "ir/base/text.h"
#include "passes/pass.h"

/* ---- what a value may be ---------------------------------------------------------------------------- */

typedef struct Values {
    Text *words; /* by spaces */
    bool file, folder;
} Values;

static void pass_words(Text *t, const char *before)
{
    for (int i = 0; i < PASS_COUNT; i++) {
        text_printf(t, "%s%s%s", t->n > 0 ? " " : "", before, pass_info[i].name);
    }
}

static void word(Values *v, const char *w, size_t n)
{
    static const char pass[] = "PASS";
    if (n >= 4 && strncmp(w + n - 4, pass, 4) == 0) {
        pass_words(v->words, n > 4 ? "-" : "");
    } else if (n == 3 && strncmp(w, "DIR", 3) == 0) {
        v->folder = true;
    } else if (n == 3 && strncmp(w, "OUT", 3) == 0) {
        v->file = true;
    } else if (!isupper((unsigned char)w[0])) {
        text_printf(v->words, "%s%.*s", v->words->n > 0 ? " " : "", (int)n, w);
    }
}

static Values values_of(Arena *a, const OptionRow *r)
{
    Values v = {.words = text_new(a)};
    for (const char *w = r->hint; w != NULL && *w != '\0';) {
        size_t n = strcspn(w, "|");
        word(&v, w, n);
        w += n + (w[n] == '|');
    }
    return v;
}

static bool is_long(const OptionRow *r)
{
    return r->name[1] == '-';
}

/* ---- bash ------------------------------------------------------------------------------------------- */

static const char bash_head[] =
    "# bash completion for mpc, made by mpc --completion=bash\n"
    "_mpc()\n"
    "{\n"
    "    local line=${COMP_LINE:0:COMP_POINT}\n"
    "    local word=${line##*[[:space:]]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    local value=${word#*=} IFS=$'\\n'\n"
    "    COMPREPLY=()\n"
    "    case $before in\n"
    "    -o) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
    "    -D) return ;;\n"
    "    esac\n"
    "    case $word in\n";

static const char bash_tail[] =
    "    *)\n"
    "        COMPREPLY=($(compgen -d -- \"$word\") $(compgen -f -- \"$word\" | grep -E "
    "'\\.(mpt|ir)$'))\n"
    "        ((COMP_CWORD == 1)) && COMPREPLY+=($(compgen -W 'fmt' -- \"$word\"))\n"
    "        return ;;\n"
    "    esac\n"
    "    if [[ $word == *=* && $COMP_WORDBREAKS != *=* ]]; then\n"
    "        COMPREPLY=(\"${COMPREPLY[@]/#/${word%%=*}=}\")\n"
    "    fi\n"
    "    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then\n"
    "        compopt -o nospace 2>/dev/null\n"
    "    fi\n"
    "}\n"
    "complete -o filenames -F _mpc mpc\n";

static void bash(Text *t)
{
    Text *names = text_new(t->arena);
    text_puts(t, bash_head);
    for (int i = 0; i < OPTIONS; i++) {
        const OptionRow *r = &option_table[i];
        Values v = values_of(t->arena, r);
        const char *equals = is_long(r) ? "=" : "";
        if (r->value == VALUE_none || r->value == VALUE_optional) {
            text_printf(names, "%s%s", names->n > 0 ? "\\n" : "", r->name);
        }
        if (r->value == VALUE_joined || r->value == VALUE_optional || r->value == VALUE_next) {
            text_printf(names, "%s%s%s", names->n > 0 ? "\\n" : "", r->name,
                        r->value == VALUE_next ? "" : equals);
        }
        if (r->value == VALUE_next || r->value == VALUE_none) {
            continue;
        }
        if (v.words->n > 0) {
            Text *lines = text_new(t->arena);
            for (const char *c = v.words->at; *c != '\0'; c++) {
                text_puts(lines, *c == ' ' ? "\\n" : (char[]){*c, 0});
            }
            text_printf(t, "    %s%s*) COMPREPLY=($(compgen %s -W $'%s' -- \"%s\"))", r->name,
                        equals, is_long(r) ? "" : arena_printf(t->arena, "-P %s", r->name),
                        lines->at, is_long(r) ? "$value" : "${word:2}");
        } else {
            text_printf(t, "    %s%s*) COMPREPLY=($(compgen %s -- \"$value\"))", r->name, equals,
                        v.folder ? "-d" : "-f");
        }
        text_puts(t, " ;;\n");
    }
    text_printf(t, "    -*) COMPREPLY=($(compgen -W $'%s' -- \"$word\")) ;;\n", names->at);
    text_puts(t, bash_tail);
}

/* ---- zsh -------------------------------------------------------------------------------------------- */

/* For _arguments, in single quotes: `:` and brackets separate. */
static void zsh_text(Text *t, const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s == '\'') {
            text_puts(t, "'\\''");
        } else {
            text_printf(t, strchr("[]:\\", *s) != NULL ? "\\%c" : "%c", *s);
        }
    }
}

static void zsh(Text *t)
{
    text_puts(
        t,
        "#compdef mpc\n# zsh completion for mpc, made by mpc --completion=zsh\n\n_arguments \\\n");
    for (int i = 0; i < OPTIONS; i++) {
        const OptionRow *r = &option_table[i];
        Values v = values_of(t->arena, r);
        text_printf(t, "    '%s%s%s[", r->value == VALUE_none ? "" : "*", r->name,
                    r->value == VALUE_joined || r->value == VALUE_optional ? is_long(r) ? "=-" : "-"
                    : r->value == VALUE_next                               ? "+"
                                                                           : "");
        zsh_text(t, r->meaning);
        text_putc(t, ']');
        if (r->value != VALUE_none) {
            text_puts(t, r->value == VALUE_optional ? "::" : ":");
            zsh_text(t, r->hint);
            text_putc(t, ':');
        }
        if (v.words->n > 0) {
            text_printf(t, "(%s)", v.words->at);
        } else if (v.file || v.folder) {
            text_puts(t, v.folder ? "_files -/" : "_files");
        }
        text_puts(t, "' \\\n");
    }
    text_puts(t, "    '*:file:_files -g \"*.(mpt|ir)\"'\n");
}

/* ---- fish ------------------------------------------------------------------------------------------- */

static void fish_text(Text *t, const char *s)
{
    text_putc(t, '\'');
    for (; *s != '\0'; s++) {
        text_printf(t, *s == '\'' || *s == '\\' ? "\\%c" : "%c", *s);
    }
    text_putc(t, '\'');
}

static void fish(Text *t)
{
    text_puts(
        t, "# fish completion for mpc, made by mpc --completion=fish\n"
           "complete -c mpc -f -a '(__fish_complete_suffix .mpt) (__fish_complete_suffix .ir)'\n"
           "complete -c mpc -f -n 'test (count (commandline -opc)) = 1' -a fmt -d 'the canonical "
           "layout'\n");
    for (int i = 0; i < OPTIONS; i++) {
        const OptionRow *r = &option_table[i];
        Values v = values_of(t->arena, r);
        text_printf(t, "complete -c mpc %s %s", is_long(r) ? "-l" : "-s",
                    r->name + (is_long(r) ? 2 : 1));
        if (r->value != VALUE_none && r->value != VALUE_optional) {
            text_puts(t, v.file || v.folder ? " -r" : " -x");
        }
        if (v.folder) {
            text_puts(t, " -a '(__fish_complete_directories)'");
        } else if (v.words->n > 0) {
            text_puts(t, " -a ");
            fish_text(t, v.words->at);
        }
        text_puts(t, " -d ");
        fish_text(t, r->meaning);
        text_putc(t, '\n');
    }
}

void completion_print(FILE *out, Shell shell)
{
    static void (*const of[])(Text *) = {
        [SHELL_bash] = bash, [SHELL_zsh] = zsh, [SHELL_fish] = fish};
    Arena *a = arena_new();
    Text *t = text_new(a);
    of[shell](t);
    text_write(t, out);
    arena_free(a);
}
