/* plan.h: what stands between the IR and text. The fuser and the planner decide everything in it; code
 * generation spells it and decides nothing.
 *
 * A Plan has buffers (where every byte lies, from when to when), kernels (an iteration space and a small DAG of
 * scalar expressions), and for each graph the launches that run it. Kernels speak of operands by number; a call
 * binds operands to buffers, so equal kernels are spelled once and called often.
 *
 * Units: offsets and bytes in bytes, strides in elements. Axis 0 of a space is the outermost. */
#ifndef MPC_PLAN_H
#define MPC_PLAN_H

#include "ir/base/strmap.h"
#include "ir/ir.h"
#include "runtime/abi/gemm_params.h" /* enum MpcIsa: the CPU levels that a plan is made for */

/* ---- buffers --------------------------------------------------------------------------------------- */

typedef enum BufferPlace {
    PLACE_persistent, /* at offset in the arena: tensors that outlive a step */
    PLACE_transient, /* at persistent_bytes + offset in the arena, shared by all graphs the host program calls */
    PLACE_prepare, /* at offset in the scratch of a loader: transients of Prepare graphs, which run beside a step */
    PLACE_field /* a field of the batch (raw in Prepare graphs, prepared elsewhere); the runtime's memory */
} BufferPlace;

typedef enum BufferRole {
    BUFFER_param,
    BUFFER_state,
    BUFFER_moment,
    BUFFER_scaler,
    BUFFER_working,
    BUFFER_ema,
    BUFFER_input, /* field of the batch */
    BUFFER_number, /* scalar that the host writes before the call (lr, host expressions) or reads after it */
    BUFFER_activation, /* needed by the backward or by the next kernel */
    BUFFER_gradient,
    BUFFER_scratch, /* packed panels, partial sums */
    BUFFER_output,  /* prepared field */
    BUFFER_ROLES
} BufferRole;
extern const char *const buffer_role_name[BUFFER_ROLES];

typedef struct Buffer {
    int id;             /* in Plan.buffers */
    const char *name;   /* a C identifier, unique in the plan: "fc1_weight", "h1" */
    const char *what;   /* for readers: "relu(fc1(x))", "packed panels of fc1.weight" */
    const Graph *graph; /* NULL: persistent */
    BufferPlace place;
    BufferRole role;
    DType dtype;
    Dims dims; /* symbols of graph; bytes are at their bounds */
    int64_t bytes, offset;
    const Tensor *tensor; /* persistent ones */
    const char *field;    /* PLACE_field: its name; RNG keys: "rng" */
    int first,
        last; /* launches of the graph that write it first and need it last; persistent: 0, INT_MAX */
    Loc loc;
} Buffer;

/* ---- kernels --------------------------------------------------------------------------------------- */

typedef enum KernelKind {
    /* space [..]: every point evaluates the body and stores the outputs; tiles split the outermost axes. */
    KERNEL_Map,
    /* space [.., C]: the last axis is reduced, one or more times, within a row; per-element and per-row values
     * mix freely (softmax, norms, cross entropy). Rows are independent; tiles are blocks of rows. */
    KERNEL_Row,
    /* space [K.., R..]: the last nreduce axes are reduced in order, outputs have the kept axes. Where the last kept
     * axis has stride 1 the loop runs along it (sums over the batch). Tiles split the kept axes. */
    KERNEL_Col,
    /* space [N, ..], everything reduced: tile i sums indices [i * ceil(N / ntiles), ...) of axis 0, in order, into
     * element i of output 0. */
    KERNEL_Full,
    /* space [batch.., M, N, K]: acc = sum over K of a * b in f32; then the epilogue on [batch.., M, N]. */
    KERNEL_Contract,
    /* space [rows, D]: output row r = sum of source rows i, ascending, whose index is r.
     * operand 0 the source [n, D], operand 1 the indices [n], operand 2 the output; count is n. */
    KERNEL_Scatter,
    KERNEL_KINDS
} KernelKind;
extern const char *const kernel_kind_name[KERNEL_KINDS];

/* How an operand of a convolution is read. Element (u, k) of a contraction, u along M or N, is at the sum of what its
 * parts step: an axis stands for several indices, the outermost first, each of `size` (of the outermost it does not
 * matter), which step `stride` in memory, `row` rows and `col` columns. Row and column, from those of element (0, 0)
 * on, say where in an image of rows x cols, a row `row_stride` long, the element lies; outside of it, and where they
 * are no multiples of the steps (they are divided by them), it is 0. rows 0: there is no image. */
enum { WINDOW_PARTS = 3 };
typedef struct WindowPart {
    int64_t size, stride, row, col;
} WindowPart;
typedef struct Window {
    int nu, nk;
    WindowPart u[WINDOW_PARTS], k[WINDOW_PARTS];
    int64_t row, col, rows, cols, row_step, col_step, row_stride;
    int64_t elements; /* of the tensor, at the bounds */
} Window;

/* Element offset + sum over axes of index[axis] * stride[axis] + value(index) * index_stride of an operand. */
typedef struct Access {
    int operand;
    Dim offset;
    Dim stride[MAX_RANK];
    int index; /* a scalar of the body, -1 for none */
    Dim index_stride;
    const Window *window; /* Contract: on top of that, along M or N and K; NULL for none */
} Access;

typedef enum ScalarKind {
    SC_load,  /* at */
    SC_const, /* value */
    SC_index, /* the number at.offset + sum of index[axis] * at.stride[axis], in dtype: iota */
    SC_dim,   /* dim, as a number */
    SC_op,    /* op of KIND_Map over in[] */
    SC_cast,  /* in[0] in dtype */
    SC_uniform, /* in[0]: the sample's key; path; the element within the sample is what SC_index would give */
    SC_acc, /* the contraction's f32 accumulator */
    SC_reduce, /* op (sum mean amax amin) of in[0]: Row: along the last axis; Col, Full: along reduced axes */
} ScalarKind;

/* One value of a body. Low dtypes (f16, bf16, f8) are computed in f32 and rounded to dtype at once (exact). */
typedef struct Scalar {
    ScalarKind kind;
    DType dtype;
    Op op;
    int nin, in[3];
    Access at; /* load, index, uniform; the last two have no operand (-1) */
    double value;
    Dim dim;
    const char *path;
    bool per_row; /* Row: does not vary along the last axis. Col, Full: comes after the reduction */
    const char *name; /* "h1", "relu"; NULL for none */
    const char *why;
    Loc loc;
} Scalar;

typedef struct KOutput {
    Access at;
    int scalar;
} KOutput;

typedef struct KOperand {
    const char *name; /* of the buffer in the first call */
    DType dtype;
    bool written;
} KOperand;

typedef struct Kernel {
    const char *name; /* a C identifier, unique: "fc1_linear_relu" */
    KernelKind kind;
    int id;
    Dims space; /* symbols of the graph of the first call */
    bool
        any_size; /* space is [n], operands are contiguous or constant: calls give n (optimizer updates) */
    int nreduce; /* Col: trailing axes that are reduced; Row: 1; Full: all */
    int noperands;
    KOperand *operands;
    int nscalars;
    Scalar *scalars; /* operands first */
    int noutputs;
    KOutput *outputs;
    int guard; /* scalar (rank-0 load) that says: leave everything as it is and return; -1 for none */
    /* Contract: operand elements, each a load followed by casts, as scalars; batch axes come first in space. b read
     * through a window makes it a convolution: a is packed once for all of the batch along which it does not vary,
     * b by the compute tiles, a piece at a time. */
    int a, b; /* scalars: element (m, k) and (k, n) */
    int nbatch;
    int packed_a,
        packed_b; /* operands: scratch for the packed panels (runtime/abi/gemm_params.h); -1: the compute
                               tiles own them */
    int ntiles;       /* Full: number of partial sums */
    const char *what; /* "relu(fc1(x))" */
    const char *why;  /* precision sentence */
    Loc loc;
    double flops, bytes; /* a call at the bounds */
} Kernel;

typedef struct KCall {
    const Kernel *kernel;
    const Buffer **buffers; /* one an operand */
    Dims space;             /* of this call; symbols of the graph */
    const char *what;       /* "relu(fc1(x))" of this call */
    Loc loc;
} KCall;

/* Calls that do not depend on each other: one parallel region, tiles of all of them claimed together.
 * Contractions take two regions, packing and products; those of one launch share both. */
typedef struct Launch {
    int ncalls;
    KCall *calls;
} Launch;

typedef struct GraphPlan {
    const Graph *graph;
    int nlaunches;
    Launch *launches;
    /* Arguments and results that the caller moves: field buffers by name, numbers. */
    int nfields;
    const Buffer *
        *fields; /* batch fields read (or raw fields of a Prepare graph); "rng" among them */
    int noutputs;
    const Buffer **outputs; /* Prepare: fields written */
    int nnumbers_in;
    struct {
        const Buffer *buffer;
        const HostExpr *expr; /* NULL: the learning rate of */
        const char *optimizer;
    } * numbers_in;
    int nnumbers_out;
    struct {
        const Buffer *buffer;
        const char *name; /* host variable, "step.grad_norm", ... */
        bool printed;     /* not a number for the host program: something that is printed */
    } * numbers_out;
    double flops, bytes; /* a call at the bounds */
    int64_t transient_bytes,
        lower_bound; /* of its transients: as placed; largest sum of live ones */
    int fullest;     /* a launch at which that many live */
} GraphPlan;

typedef struct Plan {
    Module *module;
    Arena *arena;
    int nbuffers, bcap;
    Buffer **buffers;
    int nkernels, kcap;
    Kernel **kernels;
    StrMap names;   /* of buffers and kernels: the number that the next one of that name gets */
    StrMap tensors; /* buffers of tensors, by the tensors' names */
    int ngraphs;
    GraphPlan *graphs; /* parallel to module->graphs */
    int64_t persistent_bytes, transient_bytes, prepare_bytes, arena_bytes;
    int64_t lower_bound;    /* largest sum of live transients at any launch */
    int64_t thread_scratch; /* bytes of private scratch that each thread needs */
} Plan;

enum { ARENA_ALIGN = 64 };

static inline int64_t arena_aligned(int64_t bytes)
{
    return (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

/* Bytes at the bounds of g's symbols. */
int64_t dims_bytes(const Graph *g, const Dims *d, DType dt);
int64_t dim_bound(const Graph *g, Dim d);
/* Scratch of one m x n x k contraction on an instruction-set level of runtime/abi/gemm_params.h: bytes of packed a
 * and b (0 where compute tiles own them), and of each thread. */
typedef struct PackedBytes {
    int64_t a, b, thread;
} PackedBytes;
PackedBytes plan_packed_bytes(int isa, int64_t m, int64_t n, int64_t k);
/* The same of a convolution; its b is never in the arena. */
PackedBytes plan_conv_bytes(int isa, int64_t m, int64_t k);
bool kernel_is_conv(const Kernel *k);
bool windows_equal(const Window *a, const Window *b); /* NULL: none */
void plan_print(FILE *out, const Plan *p);            /* mpc --emit=kernels */
const GraphPlan *plan_find_graph(const Plan *p, const char *name);

#endif
