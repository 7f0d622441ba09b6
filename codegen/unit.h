/* unit.h: a kernel as it is spelled: its axes merged where memory allows, its names, its tiles. */
#ifndef MPC_CODEGEN_UNIT_H
#define MPC_CODEGEN_UNIT_H

#include "codegen/emit.h"

/* How a GPU runs it. */
typedef struct UnitGrid {
    int threads, blocks_per_sm; /* of a block; that are to fit, registers are kept few for */
    const char *blocks;         /* their number, in terms of the members of the arguments */
} UnitGrid;

struct Unit {
    Kernel k;           /* axes merged; scalars and outputs are copies */
    const Kernel *of;   /* as planned */
    const Graph *graph; /* of the first call: names of symbols */
    const KCall *first; /* NULL: never called */
    int ncalls;
    const char *name; /* of the C function and of the struct of its arguments */
    const char *pack_name, *operands_name; /* Contract */
    const char **pointer;                  /* of each operand */
    int *
        shared; /* operand whose pointer this one uses: itself, or one that always lies in the same place */
    bool *written;  /* through the pointer */
    bool *overlaps; /* lies, in some call, over one that is written: no restrict */
    int64_t each;   /* rows, elements or columns in a tile */
    int64_t most;   /* elements of the largest operand or space of a call, at the bounds */
    bool on_gpu;    /* some call is by a graph that a GPU runs */
    UnitGrid grid;
    Names names; /* of the functions */
    /* What the text of the function being written has named so far, and what any of its functions has. */
    bool *used_pointer, *ever_pointer;
    bool used_sym[MAX_SYMS + 1], ever_sym[MAX_SYMS + 1];
    bool used_n, ever_n, used_seed, ever_seed;
};

void units_make(Emit *e);
void unit_emit(Emit *e, Unit *u); /* comment, struct, functions */
const char *unit_dim(Emit *e, Unit *u,
                     Dim d); /* as text of a function of u, which then needs its symbols */
const char *unit_axis(Emit *e, Unit *u, int axis); /* length of an axis */
const char *unit_rows(Emit *e, Unit *u, int from,
                      int to); /* product of the lengths of axes [from, to) */
const char *unit_pointer(Unit *u, int operand);
const char *unit_index_type(const Emit *e, const Unit *u);
/* Axes [from, to) of a row number, as indices with these names: declares them. */
void unit_unravel(Emit *e, Unit *u, const char *row, int from, int to, const char *const *names);
/* The number of tiles of a call, as text in terms of the graph's symbols; *most is their number at the bounds. */
const char *unit_tiles(Emit *e, const Unit *u, const KCall *call, const Graph *g, bool pack,
                       int64_t *most);
double unit_work(const Unit *u, const KCall *call,
                 const Graph *g); /* about, in simple operations */

bool unit_packs(const Unit *u); /* has a function that packs */
bool unit_spans(const Unit *u); /* more than one tile is possible */

/* Emitters of what a function does, by kind. */
void map_emit(Emit *e, Unit *u);
void row_emit(Emit *e, Unit *u);
void col_emit(Emit *e, Unit *u);
void full_emit(Emit *e, Unit *u);
void contract_emit(Emit *e, Unit *u);
void contract_operands_emit(Emit *e, Unit *u);
void contract_pack_emit(Emit *e, Unit *u);
void conv_emit(Emit *e, Unit *u);
void conv_pack_emit(Emit *e, Unit *u);
void cuda_map_emit(Emit *e, Unit *u);
void cuda_row_emit(Emit *e, Unit *u);
void cuda_col_emit(Emit *e, Unit *u);
void cuda_full_emit(Emit *e, Unit *u);
void cuda_scatter_emit(Emit *e, Unit *u);
void cuda_contract_emit(Emit *e, Unit *u); /* convolutions, too */
const char *conv_tiles(Emit *e, const Unit *u, const KCall *call, const Graph *g, bool pack);
void scatter_emit(Emit *e, Unit *u);

#endif
