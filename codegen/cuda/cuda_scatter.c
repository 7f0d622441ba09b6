/* cuda_scatter.c: rows added up by index (the gradient of a table): a block has some rows of the result, looks for their
 * numbers among the indices, 256 at a time, and adds what belongs there in order. Every block reads all indices, so
 * there are no more blocks than a GPU needs. */
#include "codegen/cuda/cuda.h"
#include "codegen/target.h"

enum { SOURCE, INDICES, RESULT };
enum { BLOCKS = 1024 };

void cuda_scatter_emit(Emit *e, Unit *u)
{
    DType from = u->k.operands[SOURCE].dtype, to = u->k.operands[RESULT].dtype;
    const char *source = unit_pointer(u, SOURCE), *indices = unit_pointer(u, INDICES);
    const char *result = unit_pointer(u, RESULT), *width = unit_dim(e, u, u->k.space.d[1]);
    const char *type = unit_index_type(e, u);
    Body b = body_new(e, u);
    if (dtype_is_low(to)) {
        ICE("%s: a scatter into %s", u->name, dtype_info[to].name);
    }
    u->grid = (UnitGrid){.threads = CUDA_THREADS, .blocks_per_sm = 1};
    u->used_n = u->ever_n = true;
    body_guard(&b);
    const char *rows = unit_axis(e, u, 0);
    int64_t bound = dim_bound(u->graph, u->k.space.d[0]);
    long long each = (long long)((bound + BLOCKS - 1) / BLOCKS);
    u->grid.blocks = arena_printf(e->arena, "mpc_tiles(%s, %lld)", rows, each);
    ln(e, "const %s low = mpc_block() * %lld;", type, each);
    ln(e, "const %s high = %s - low < %lld ? %s : low + %lld;", type, rows, each, rows, each);
    ln(e, "MPC_SHARED uint32_t hits[MPC_MAX_WARPS];");
    ln_blank(e);
    ln_in(e, "for (%s at = low * %s + mpc_thread(); at < high * %s; at += %d)", type, width, width,
          CUDA_THREADS);
    ln(e, "%s[at] = 0;", result);
    ln_out(e);
    ln_open(e, "for (%s first = 0; first < n; first += %d)", type, CUDA_THREADS);
    ln(e, "const %s at = first + mpc_thread();", type);
    ln(e, "const %s wanted = at < n ? (%s)%s[at] : -1;", type, type, indices);
    ln(e, "const uint32_t found = mpc_ballot(wanted >= low && wanted < high);");
    ln_blank(e);
    ln_in(e, "if (mpc_lane() == 0)");
    ln(e, "hits[mpc_warp()] = found;");
    ln_out(e);
    ln(e, "mpc_barrier();");
    ln_in(e, "for (int w = 0; w < %d; w++)", CUDA_THREADS / CUDA_WARP);
    ln_open(e, "for (uint32_t left = hits[w]; left != 0; left &= left - 1)");
    ln(e, "const %s i = first + w * MPC_WARP + mpc_lowest_one(left);", type);
    ln(e, "const %s row = (%s)%s[i];", type, type, indices);
    ln_blank(e);
    ln_in(e, "for (%s j = mpc_thread(); j < %s; j += %d)", type, width, CUDA_THREADS);
    ln(e, "%s[row * %s + j] += %s;", result, width,
       widened(e->arena, from, arena_printf(e->arena, "%s[i * %s + j]", source, width)));
    ln_out(e);
    ln_close(e, "");
    ln_out(e);
    ln(e, "mpc_barrier();");
    ln_close(e, "");
}
