/* text_form.h: what the printer and the reader of the text form have to agree on.
 *
 * The form, by example (docs/IR.md has it in full):
 *
 *     mpc-ir 1 after lower
 *     module digits source("examples/digits.mpt") precision(f16)
 *     option epochs {default=5, type="int"} loc(3)
 *     tensor fc1.weight : f32[256,64] param {kind="uniform", low=-0.125, high=0.125} loc(9)
 *     var epoch : int
 *     graph @step step(B <= 128) loc(30) {
 *       %0 = arg {batch="image"} : f32[B,64] loc(31:5+6)
 *       return host loss = %0
 *     }
 *     host {
 *       for epoch in 0 .. epochs loc(29) {
 *       }
 *     }
 *
 * A line that starts with "# ", "; " or "//" is a comment. Elsewhere blanks and newlines only
 * separate, but an operator at the start of a line does not continue an expression. A name that
 * does not look like one, or is a word of the form, is written $"...". */
#ifndef MPC_IR_TEXT_FORM_H
#define MPC_IR_TEXT_FORM_H

#include "ir/base/text.h"
#include "ir/ir.h"

enum { TEXT_FORM_VERSION = 1 };

extern const char *const graph_role_name[3];
extern const char *const result_kind_name[RESULT_KINDS];

bool text_plain_name(const char *s); /* can stand without $"..." */

/* Binding strength of host expressions; a higher one binds tighter. */
enum {
    BIND_cond,
    BIND_or,
    BIND_and,
    BIND_not,
    BIND_compare, /* takes no comparison as an operand */
    BIND_add,
    BIND_mul,
    BIND_unary,
    BIND_pow, /* right-associative */
    BIND_atom
};
int host_operator_binding(const char *op); /* of a binary operator; BIND_cond for none */

/* m says what a variable's type is expected to be; NULL: whatever it has. */
void text_host_expr(Text *t, const Module *m, const HostExpr *e);
void text_host_program(Text *t, const Module *m);
void text_attrs(Text *t, const Module *m, const Attrs *as); /* " {..}", or nothing */
void text_name(Text *t, const char *name);
void text_loc(Text *t, const Module *m, Loc loc); /* " loc(..)", or nothing */

#endif
