/* manual.c: the manual pages, in man(7)'s macros (mpc --manual=mpc|program): options from the tables, and what stands
 * around them. No date, so that equal sources give equal bytes. */
#include "driver/manual.h"

#include "codegen/codegen.h"
#include "driver/options.h"
#include "ir/base/text.h"
#include "mpc_version.h"

/* Running text: no hyphens of the typesetter, no escapes, no requests. */
static void roff(Text *t, const char *s)
{
    for (; *s != '\0'; s++) {
        switch (*s) {
        case '\\': text_puts(t, "\\e"); break;
        case '-': text_puts(t, "\\-"); break;
        case '\'': text_puts(t, "\\(aq"); break;
        case '`': text_puts(t, "\\(ga"); break;
        case '.': text_puts(t, t->n == 0 || t->at[t->n - 1] == '\n' ? "\\&." : "."); break;
        default: text_putc(t, *s); break;
        }
    }
}

static void head(Text *t, const char *title, const char *name, const char *meaning)
{
    text_printf(t, ".TH %s 1 \"\" \"mpc " MPC_VERSION "\" \"mpc\"\n.SH NAME\n", title);
    roff(t, name);
    text_puts(t, " \\- ");
    roff(t, meaning);
    text_putc(t, '\n');
}

static void section(Text *t, const char *name, const char *text)
{
    text_printf(t, ".SH %s\n", name);
    roff(t, text);
    text_putc(t, '\n');
}

static void entry(Text *t, const char *left, const char *text)
{
    text_puts(t, ".TP\n.B ");
    roff(t, left);
    text_putc(t, '\n');
    roff(t, text);
    text_putc(t, '\n');
}

static void example(Text *t, const char *lines)
{
    text_puts(t, ".PP\n.nf\n.RS\n");
    roff(t, lines);
    text_puts(t, "\n.RE\n.fi\n");
}

static void compiler(Text *t)
{
    head(t, "MPC", "mpc", "compile a model and its training loop to a native training program");
    text_puts(t, ".SH SYNOPSIS\n.B mpc\n.IR FILE .mpt | FILE .ir\n.RB [ \\-o\n.IR OUT ]\n.RI [ "
                 "options ]\n.br\n"
                 ".B mpc fmt\n.RB [ \\-w \" | \" \\-\\-check ]\n.IR FILE .mpt ...\n");
    section(t, "DESCRIPTION",
            "A .mpt file describes data, a model and how it is trained. mpc compiles it ahead of "
            "time to one\n"
            "program, in which mixed precision was decided op by op; every decision can be read\n"
            "(--explain) and overridden. The program needs the C library and nothing else:\n"
            "mpc-program(1) tells its flags.");
    text_puts(t, ".PP\n");
    roff(t, "mpc fmt prints files in the canonical layout, rewrites them (-w) or compares "
            "(--check).\n");
    text_puts(t, ".SH OPTIONS\n");
    for (int g = 0; g < GROUPS; g++) {
        text_puts(t, ".SS ");
        roff(t, option_group_name[g]);
        text_putc(t, '\n');
        for (int i = 0; i < OPTIONS; i++) {
            if (option_table[i].group == (OptionGroup)g) {
                entry(t, option_usage(t->arena, &option_table[i]), option_table[i].meaning);
            }
        }
    }
    text_puts(t, ".SH ENVIRONMENT\n");
    entry(t, "MPC_CC, CC", "the C compiler; otherwise the first of cc, gcc, clang");
    entry(t, "MPC_CFLAGS", "further flags of it");
    entry(t, "MPC_CACHE",
          "the folder in which compiled programs and kernels are kept, at most 256 MiB (default: "
          "mpc in "
          "$XDG_CACHE_HOME or ~/.cache); empty: none are kept");
    entry(t, "MPC_NVRTC_LIB",
          "NVIDIA's compiler of kernels, libnvrtc.so.12 or 13, for --target=cuda");
    text_puts(t, ".SH \"EXIT STATUS\"\n");
    entry(t, "0", "done");
    entry(t, "1", "the program could not be made; of mpc fmt --check: a file differs");
    entry(t, "2", "wrong usage, or an error in the file");
    text_puts(t, ".SH EXAMPLES\n");
    roff(t, "Make a program, and train:\n");
    example(t, "mpc digits.mpt -o train\n./train");
    roff(t, "Which type does each op run in, and why?\n");
    example(t, "mpc digits.mpt --precision=bf16 --explain");
    text_puts(t, ".SH \"SEE ALSO\"\n.BR mpc\\-program (1)\n");
}

static void program(Text *t)
{
    int n;
    const ProgramFlag *flags = codegen_flags(&n);
    head(t, "MPC\\-PROGRAM", "mpc-program", "a training program that mpc made");
    text_puts(
        t, ".SH SYNOPSIS\n.I ./PROGRAM\n.RI [ flags ]\n.RB [ \\-\\-\\c\n.IR NAME\\ VALUE ]...\n");
    section(t, "DESCRIPTION",
            "Trains the model it was compiled from, and leaves the weights, a log and checkpoints "
            "in a\n"
            "folder of its own. Every option that the .mpt file declares is a flag, too: --NAME "
            "VALUE;\n"
            "--help lists them with their defaults. Values can be joined: --seed=7.");
    text_puts(t, ".SH FLAGS\n");
    for (int i = 0; i < n; i++) {
        const char *value = flags[i].value;
        entry(t,
              arena_printf(t->arena, "--%s%s%s", flags[i].name, value != NULL ? " " : "",
                           value != NULL ? value : ""),
              flags[i].meaning);
    }
    text_puts(t, ".SH FILES\n");
    entry(t, "runs/NAME/model.safetensors", "the final weights");
    entry(t, "runs/NAME/log.jsonl", "one JSON object for each event, written as it happens");
    entry(t, "runs/NAME/config.json", "the settings of the run");
    entry(t, "runs/NAME/checkpoints/", "what --resume continues from");
    text_puts(t, ".SH \"EXIT STATUS\"\n");
    entry(t, "0", "done");
    entry(t, "1", "the run failed: data, memory, numbers that are not finite");
    entry(t, "2", "wrong usage");
    entry(t, "130, 143", "ended by SIGINT or SIGTERM, after a checkpoint was written");
    text_puts(t, ".SH \"SEE ALSO\"\n.BR mpc (1)\n");
}

void manual_print(FILE *out, bool of_program)
{
    Arena *a = arena_new();
    Text *t = text_new(a);
    if (of_program) {
        program(t);
    } else {
        compiler(t);
    }
    text_write(t, out);
    arena_free(a);
}
