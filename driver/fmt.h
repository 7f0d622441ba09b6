/* fmt.h: `mpc fmt`, the canonical layout of .mpt files. */
#ifndef MPC_DRIVER_FMT_H
#define MPC_DRIVER_FMT_H

/* argv[0] is "fmt". Returns the exit status: 0 done, 1 a file is not in the canonical layout (--check) or
 * could not be written, 2 wrong usage or an error in a file. */
int fmt_main(int argc, char **argv);

#endif
