/* options.h: mpc's command line, parsed and checked. */
#ifndef MPC_DRIVER_OPTIONS_H
#define MPC_DRIVER_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "ir/base/arena.h"

typedef enum OptionId {
#define OPTION(id, letter, name, argument, repeats, choices, help) OPT_##id,
#include "driver/options.def"
    OPT_COUNT
} OptionId;

typedef struct OptionValues {
    int n;
    const char **v; /* of a flag: NULL */
} OptionValues;

typedef struct Options {
    const char *input; /* NULL: none was given */
    OptionValues of[OPT_COUNT];
    const char *command; /* the command line as one would type it, for the banner */
} Options;

/* False after a message on stderr: wrong usage. */
bool options_parse(Arena *a, int argc, char **argv, Options *o);
bool option_given(const Options *o, OptionId id);
const char *option_value(const Options *o, OptionId id, const char *otherwise); /* the last one */
void options_help(FILE *out);

#endif
