/* std_files.h: what embed_std.cmake makes of std/, for std.c. */
#ifndef MPC_FRONTEND_STD_FILES_H
#define MPC_FRONTEND_STD_FILES_H

#include "frontend/frontend.h"

extern const StdFile mpc_std_files[]; /* ends with an empty row */

#endif
