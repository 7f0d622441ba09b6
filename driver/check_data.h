/* check_data.h: mpc --check-data: are the files that `data` declarations name where a program would look? */
#ifndef MPC_DRIVER_CHECK_DATA_H
#define MPC_DRIVER_CHECK_DATA_H

#include "ir/ir.h"

/* Errors at the declarations, for files that are neither in `home` (the folder of the .mpt) nor here. */
void check_data(const Module *m, const char *home, Diag *diag);

#endif
