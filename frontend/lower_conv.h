/* lower_conv.h: what convolutions and pools have in common: arguments for rows and columns, signals as images. */
#ifndef MPC_LOWER_CONV_H
#define MPC_LOWER_CONV_H

#include "frontend/builtins.h"

bool of_signals(const Call *c); /* [n, channels, length]; else images */
bool steps_attr(Lower *l, Call *c, int i, Attrs *attrs, AttrId id);

/* Argument 0 of c as images, checked, and a result of the call as what it works on; NULL: there was an error. */
Node *as_images(Lower *l, Call *c, Node *x);
Val from_images(Lower *l, const Call *c, Node *y);

#endif
