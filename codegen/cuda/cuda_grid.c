/* cuda_grid.c: which thread does what. */
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "codegen/target.h"
#include "ir/base/strutil.h"

const char *const cuda_index[MAX_RANK] = {"i", "j", "k", "i3", "i4", "i5", "i6", "i7"};

bool cuda_divides(Dim d, int64_t n)
{
    return d.k % n == 0;
}

void cuda_open_grid(Emit *e, Unit *u, const char *name, const char *count, int each)
{
    const char *type = unit_index_type(e, u);
    int in_block = u->grid.threads / each;
    int64_t known = count == NULL                                  ? 1
                    : strspn(count, "0123456789") == strlen(count) ? atoll(count)
                                                                   : 0;
    u->grid.blocks =
        known > 0 ? arena_printf(e->arena, "%lld", (long long)((known + in_block - 1) / in_block))
        : in_block == 1 ? arena_printf(e->arena, "(int)(%s)", count)
                        : arena_printf(e->arena, "mpc_tiles(%s, %d)", count, in_block);
    const char *block = str_eq(type, "int") ? "mpc_block()" : "(int64_t)mpc_block()";
    const char *within =
        each == 1 ? "mpc_thread()" : arena_printf(e->arena, "mpc_thread() / %d", each);
    if (in_block == 1) {
        ln(e, "const %s %s = mpc_block();", type, name);
    } else {
        ln(e, "const %s %s = %s * %d + %s;", type, name, block, in_block, within);
    }
    if (in_block > 1 && (known == 0 || known % in_block != 0)) {
        ln_blank(e);
        ln_in(e, "if (%s >= %s)", name, count != NULL ? count : "1");
        ln(e, "return;");
        ln_out(e);
    }
}
