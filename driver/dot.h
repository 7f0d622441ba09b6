/* dot.h: mpc --emit=dot: the graphs for Graphviz. */
#ifndef MPC_DRIVER_DOT_H
#define MPC_DRIVER_DOT_H

#include "ir/base/text.h"
#include "ir/ir.h"

void dot_print(Text *out, const Module *m);

#endif
