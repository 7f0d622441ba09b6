/* completion.h: completion scripts for shells, from the table of options. */
#ifndef MPC_DRIVER_COMPLETION_H
#define MPC_DRIVER_COMPLETION_H

#include <stdio.h>

typedef enum Shell { SHELL_bash, SHELL_zsh, SHELL_fish } Shell;

void completion_print(FILE *out, Shell shell);

#endif
