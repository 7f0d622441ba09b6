/* manual.h: the manual pages mpc(1) and mpc-program(1). */
#ifndef MPC_DRIVER_MANUAL_H
#define MPC_DRIVER_MANUAL_H

#include <stdbool.h>
#include <stdio.h>

void manual_print(FILE *out, bool program);

#endif
