/* test_cg_kernels.c: kernels of every kind, planned by hand, spelled as C, compiled by the C compiler without a
 * warning, run, and compared with plain loops: broadcasting, 16-bit roundings, rows short and long, columns, a full
 * sum, a contraction with an epilogue and one whose operand is an expression, a scatter, a guard, sharing in place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/gemm_params.h"
#include "abi/scalar.h"
#include "codegen/codegen.h"
#include "ir/base/text.h"
#include "ir/base/vec.h"

enum { MAX_PARTS = 16 };

/* A plan with one graph, whose kernels run one after the other on buffers in the arena. */
typedef struct Build {
    Arena *arena;
    Plan plan;
    Module *m;
    Graph *g;
    GraphPlan gp;
    Launch launches[MAX_PARTS];
    int64_t bound;
} Build;

static Build *build_new(int64_t bound)
{
    Arena *arena = arena_new();
    Build *b = ARENA_NEW(arena, Build);
    b->arena = arena;
    b->bound = bound;
    b->m = module_new(arena, "hand", "hand.mpt");
    b->g = graph_new(arena, "graph", GRAPH_Step);
    graph_sym(b->g, "B", bound);
    module_graph(b->m, b->g);
    b->plan.module = b->m;
    b->plan.arena = arena;
    b->plan.ngraphs = 1;
    b->plan.graphs = &b->gp;
    b->plan.thread_scratch = 1 << 21;
    b->gp.graph = b->g;
    b->gp.launches = b->launches;
    return b;
}

static Dim size_b(void)
{
    return (Dim){.k = 1, .sym = {1, 0}};
}

static Dims dims_of(int rank, Dim a, Dim b, Dim c)
{
    return (Dims){.rank = rank, .d = {a, b, c}};
}

static Buffer *buffer(Build *b, const char *name, DType dt, Dims dims)
{
    Buffer *x = ARENA_NEW(b->arena, Buffer);
    *x = (Buffer){.name = name,
                  .what = name,
                  .graph = b->g,
                  .place = PLACE_transient,
                  .dtype = dt,
                  .dims = dims};
    x->bytes = dims_bytes(b->g, &dims, dt);
    x->offset = b->plan.transient_bytes;
    b->plan.transient_bytes += (x->bytes + 63) / 64 * 64;
    b->plan.arena_bytes = b->plan.transient_bytes;
    b->plan.buffers =
        vec_room(b->arena, b->plan.buffers, b->plan.nbuffers, &b->plan.bcap, sizeof(Buffer *));
    x->id = b->plan.nbuffers;
    b->plan.buffers[b->plan.nbuffers++] = x;
    return x;
}

/* ---- kernels --------------------------------------------------------------------------------------- */

typedef struct Making {
    Build *b;
    Kernel *k;
    const Buffer **buffers;
} Making;

static Making kernel(Build *b, const char *name, KernelKind kind, Dims space)
{
    Making m = {.b = b, .k = ARENA_NEW(b->arena, Kernel)};
    m.buffers = ARENA_ARRAY(b->arena, const Buffer *, 16);
    *m.k = (Kernel){.name = name,
                    .kind = kind,
                    .space = space,
                    .what = name,
                    .guard = -1,
                    .nreduce = 1,
                    .packed_a = -1,
                    .packed_b = -1,
                    .ntiles = 1,
                    .id = b->plan.nkernels};
    m.k->operands = ARENA_ARRAY(b->arena, KOperand, 16);
    m.k->scalars = ARENA_ARRAY(b->arena, Scalar, 32);
    m.k->outputs = ARENA_ARRAY(b->arena, KOutput, 8);
    b->plan.kernels =
        vec_room(b->arena, b->plan.kernels, b->plan.nkernels, &b->plan.kcap, sizeof(Kernel *));
    b->plan.kernels[b->plan.nkernels++] = m.k;
    return m;
}

static int operand(Making *m, const Buffer *x, bool written)
{
    int i = m->k->noperands++;
    m->k->operands[i] = (KOperand){x->name, x->dtype, written};
    m->buffers[i] = x;
    return i;
}

static Access access_of(int at, Dim s0, Dim s1, Dim s2)
{
    return (Access){.operand = at, .stride = {s0, s1, s2}, .index = -1};
}

static int scalar(Making *m, Scalar s)
{
    m->k->scalars[m->k->nscalars] = s;
    return m->k->nscalars++;
}

static int load(Making *m, const Buffer *x, int64_t s0, int64_t s1, int64_t s2)
{
    Access at = access_of(operand(m, x, false), dim_of(s0), dim_of(s1), dim_of(s2));
    return scalar(m, (Scalar){.kind = SC_load, .dtype = x->dtype, .at = at});
}

static int constant(Making *m, DType dt, double value)
{
    return scalar(m, (Scalar){.kind = SC_const, .dtype = dt, .value = value});
}

static int op(Making *m, Op o, DType dt, int nin, int x, int y, int z)
{
    return scalar(m, (Scalar){.kind = SC_op, .op = o, .dtype = dt, .nin = nin, .in = {x, y, z}});
}

static int cast(Making *m, DType dt, int x)
{
    return scalar(m, (Scalar){.kind = SC_cast, .dtype = dt, .nin = 1, .in = {x}});
}

static int reduce(Making *m, Op o, DType dt, int x)
{
    return scalar(m, (Scalar){.kind = SC_reduce, .op = o, .dtype = dt, .nin = 1, .in = {x}});
}

static void output(Making *m, const Buffer *x, int s, int64_t s0, int64_t s1, int64_t s2)
{
    Access at = access_of(operand(m, x, true), dim_of(s0), dim_of(s1), dim_of(s2));
    m->k->outputs[m->k->noutputs++] = (KOutput){.at = at, .scalar = s};
}

static void call(Making *m)
{
    Build *b = m->b;
    KCall *c = ARENA_NEW(b->arena, KCall);
    *c = (KCall){.kernel = m->k, .buffers = m->buffers, .space = m->k->space, .what = m->k->what};
    b->launches[b->gp.nlaunches++] = (Launch){.ncalls = 1, .calls = c};
}

/* ---- running --------------------------------------------------------------------------------------- */

/* What stands for the runtime: tiles one after the other, last first, since no tile may need another. */
static const char harness[] =
    "#include \"hand.c\"\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "static _Alignas(64) unsigned char scratch[1 << 21];\n"
    "void mpc_run(MpcRun *r, MpcKernel *k, const void *args, int tiles)\n"
    "{\n"
    "    const MpcWorker w = {0, scratch};\n"
    "    (void)r;\n"
    "    while (tiles-- > 0)\n"
    "        k(args, tiles, &w);\n"
    "}\n"
    "void mpc_run_many(MpcRun *r, const MpcCall *c, int n)\n"
    "{\n"
    "    for (int i = 0; i < n; i++)\n"
    "        mpc_run(r, c[i].kernel, c[i].args, c[i].tiles);\n"
    "}\n"
    "int main(int argc, char **argv)\n"
    "{\n"
    "    size_t bytes = mpc_program.arena_bytes;\n"
    "    MpcRun r = {.arena = aligned_alloc(4096, bytes), .seed = 7};\n"
    "    MpcBatch batch = {.n = atoi(argv[argc - 2])};\n"
    "    FILE *f = fopen(argv[argc - 1], \"r+b\");\n"
    "    if (fread(r.arena, 1, bytes, f) != bytes)\n"
    "        return 1;\n"
    "    graph(&r, &batch);\n"
    "    rewind(f);\n"
    "    return fwrite(r.arena, 1, bytes, f) != bytes || fclose(f) != 0;\n"
    "}\n";

static char folder[] = "cg_kernels_XXXXXX";

static void write_file(const char *name, const void *bytes, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void shell(const char *fmt, ...)
{
    char command[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    int status = system(command);
    if (status != 0) {
        fail_msg("%s ended with %d", command, status);
    }
}

static int best_isa(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq")) {
        return MPC_ISA_avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return MPC_ISA_avx2;
    }
#endif
    return MPC_ISA_generic;
}

/* The arena after the graph ran on it with a batch of n, for an instruction set and a compiler. */
static void run(Build *b, unsigned char *arena, int64_t n, int isa, const char *cc)
{
    static const char *const flags[] = {"", "-march=x86-64-v3", "-march=x86-64-v4"};
    const char *root = getenv("MPC_SOURCE_DIR");
    const CodegenOptions opt = {
        .version = "0", .command = "mpc", .home = ".", .cpu = "x", .needs = "", .isa = isa};
    Diag *d = diag_new(b->arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_true(codegen_c(f, &b->plan, &opt, d));
    fclose(f);
    write_file("hand.c", text, size);
    free(text);
    write_file("harness.c", harness, sizeof harness - 1);
    size_t bytes = ((size_t)b->plan.arena_bytes + 4095) / 4096 * 4096;
    write_file("arena", arena, bytes);
    shell("cd %s && %s -std=gnu17 -O2 -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall "
          "-Wextra "
          "-Werror %s -I '%s/runtime' harness.c -o program -lm",
          folder, cc, flags[isa], root != NULL ? root : ".");
    shell("cd %s && ./program %lld arena", folder, (long long)n);
    char path[256];
    snprintf(path, sizeof path, "%s/arena", folder);
    f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(arena, 1, bytes, f), bytes);
    fclose(f);
}

/* Every instruction set that this machine has, with every compiler there is. */
static void run_all(Build *b, unsigned char *arena, int64_t n,
                    void (*check)(Build *b, const unsigned char *before, const unsigned char *after,
                                  int64_t n))
{
    size_t bytes = ((size_t)b->plan.arena_bytes + 4095) / 4096 * 4096;
    unsigned char *after = malloc(bytes);
    for (int isa = MPC_ISA_generic; isa <= best_isa(); isa++) {
        const char *const compilers[] = {"gcc", "clang"};
        for (int c = 0; c < 2; c++) {
            char probe[64];
            snprintf(probe, sizeof probe, "command -v %s >/dev/null", compilers[c]);
            if (system(probe) != 0) {
                continue;
            }
            memcpy(after, arena, bytes);
            run(b, after, n, isa, compilers[c]);
            check(b, arena, after, n);
        }
    }
    free(after);
}

/* ---- values ---------------------------------------------------------------------------------------- */

static unsigned char *new_arena(const Build *b)
{
    size_t bytes = ((size_t)b->plan.arena_bytes + 4095) / 4096 * 4096;
    unsigned char *arena = calloc(1, bytes);
    assert_non_null(arena);
    return arena;
}

static double value_at(const unsigned char *arena, const Buffer *x, int64_t i)
{
    const unsigned char *p = arena + x->offset;
    switch (x->dtype) {
    case DT_f64: return ((const double *)(const void *)p)[i];
    case DT_f32: return (double)((const float *)(const void *)p)[i];
    case DT_f16: return (double)mpc_f16_to_f32(((const mpc_f16 *)(const void *)p)[i]);
    case DT_i32: return ((const int32_t *)(const void *)p)[i];
    default: return p[i];
    }
}

static void fill(unsigned char *arena, const Buffer *x, unsigned seed)
{
    int64_t n = x->bytes / dtype_info[x->dtype].bytes;
    unsigned char *p = arena + x->offset;
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        float v = (float)((int)(seed >> 16) % 2001 - 1000) / 500.0f;
        switch (x->dtype) {
        case DT_f32: ((float *)(void *)p)[i] = v; break;
        case DT_f16: ((mpc_f16 *)(void *)p)[i] = mpc_f32_to_f16(v); break;
        case DT_i32: ((int32_t *)(void *)p)[i] = (int32_t)(seed >> 20) % 7; break;
        default: p[i] = (unsigned char)(seed >> 28); break;
        }
    }
}

static void close_to(double got, double want, double bound, const char *what, int64_t i)
{
    if (!(fabs(got - want) <= bound)) {
        fail_msg("%s[%lld] is %.9g, expected %.9g", what, (long long)i, got, want);
    }
}

/* ---- cases ----------------------------------------------------------------------------------------- */

/* y = relu(x * scale + bias) in f16, bias along columns; z = x > bias */
static Buffer *map_x, *map_bias, *map_y, *map_z;

static void check_map(Build *b, const unsigned char *before, const unsigned char *after, int64_t n)
{
    (void)b;
    for (int64_t i = 0; i < n * 70; i++) {
        float x = (float)value_at(before, map_x, i),
              bias = (float)value_at(before, map_bias, i % 70);
        float mul = (float)round_to(DT_f16, (double)(x * 1.5f));
        float sum = (float)round_to(DT_f16, (double)(mul + bias));
        close_to(value_at(after, map_y, i), sum > 0 ? (double)sum : 0, 0, "y", i);
        close_to(value_at(after, map_z, i), x > bias, 0, "z", i);
    }
    assert_true(value_at(after, map_y, n * 70) == 0);
}

static void test_map(void **state)
{
    (void)state;
    Build *b = build_new(300);
    Dims space = dims_of(2, size_b(), dim_of(70), dim_of(0));
    map_x = buffer(b, "x", DT_f16, space);
    map_bias = buffer(b, "bias", DT_f16, dims_of(1, dim_of(70), dim_of(0), dim_of(0)));
    map_y = buffer(b, "y", DT_f16, space);
    map_z = buffer(b, "z", DT_bool, space);
    Making m = kernel(b, "scale_bias", KERNEL_Map, space);
    int x = load(&m, map_x, 70, 1, 0), bias = load(&m, map_bias, 0, 1, 0);
    int mul = op(&m, OP_mul, DT_f16, 2, x, constant(&m, DT_f16, 1.5), 0);
    int sum = op(&m, OP_add, DT_f16, 2, mul, bias, 0);
    output(&m, map_y, op(&m, OP_relu, DT_f16, 1, sum, 0, 0), 70, 1, 0);
    output(&m, map_z, op(&m, OP_gt, DT_bool, 2, x, bias, 0), 70, 1, 0);
    call(&m);
    unsigned char *arena = new_arena(b);
    fill(arena, map_x, 1);
    fill(arena, map_bias, 2);
    run_all(b, arena, 299, check_map);
    free(arena);
    arena_free(b->arena);
}

/* softmax of rows, in place, for a short row, a longer one and one too long for the stack */
static Buffer *row_x;
static int64_t row_length;

static void check_softmax(Build *b, const unsigned char *before, const unsigned char *after,
                          int64_t n)
{
    (void)b;
    for (int64_t r = 0; r < n; r++) {
        double max = -INFINITY, sum = 0;
        for (int64_t j = 0; j < row_length; j++) {
            max = fmax(max, value_at(before, row_x, r * row_length + j));
        }
        for (int64_t j = 0; j < row_length; j++) {
            sum += exp(value_at(before, row_x, r * row_length + j) - max);
        }
        for (int64_t j = 0; j < row_length; j++) {
            double want = exp(value_at(before, row_x, r * row_length + j) - max) / sum;
            close_to(value_at(after, row_x, r * row_length + j), want, 1e-6 * want, "softmax", j);
        }
    }
}

static void softmax_of(int64_t length)
{
    Build *b = build_new(5);
    Dims space = dims_of(2, size_b(), dim_of(length), dim_of(0));
    row_length = length;
    row_x = buffer(b, "x", DT_f32, space);
    Making m = kernel(b, "softmax", KERNEL_Row, space);
    int x = load(&m, row_x, length, 1, 0);
    int e = op(&m, OP_exp, DT_f32, 1,
               op(&m, OP_sub, DT_f32, 2, x, reduce(&m, OP_amax, DT_f32, x), 0), 0, 0);
    int y = op(&m, OP_div, DT_f32, 2, e, reduce(&m, OP_sum, DT_f32, e), 0);
    output(&m, row_x, y, length, 1, 0);
    call(&m);
    unsigned char *arena = new_arena(b);
    fill(arena, row_x, 3);
    run_all(b, arena, 5, check_softmax);
    free(arena);
    arena_free(b->arena);
}

static void test_rows(void **state)
{
    (void)state;
    softmax_of(10);
    softmax_of(777);
    softmax_of(5000);
}

/* column means of f16 over the batch, a full f64 sum of squares in 8 parts, and a guarded in-place update */
static Buffer *col_x, *col_mean, *full_parts, *guard_on, *guard_off, *kept, *moved;

static void check_sums(Build *b, const unsigned char *before, const unsigned char *after, int64_t n)
{
    (void)b;
    double square = 0, got = 0;
    for (int64_t j = 0; j < 50; j++) {
        float sum = 0;
        for (int64_t i = 0; i < n; i++) {
            double x = value_at(before, col_x, i * 50 + j);
            sum += (float)x;
            square += x * x;
        }
        close_to(value_at(after, col_mean, j), (double)(sum / (float)n), 0, "mean", j);
        close_to(value_at(after, kept, j), value_at(before, kept, j), 0, "kept", j);
        close_to(value_at(after, moved, j), 2 * value_at(before, moved, j), 0, "moved", j);
    }
    for (int i = 0; i < 8; i++) {
        got += value_at(after, full_parts, i);
    }
    close_to(got, square, 1e-12 * square, "sum of squares", 0);
}

static void guarded_double(Build *b, const char *name, const Buffer *guard, const Buffer *x)
{
    Making m = kernel(b, name, KERNEL_Map, x->dims);
    m.k->any_size = true;
    m.k->guard = load(&m, guard, 0, 0, 0);
    int at = load(&m, x, 1, 0, 0);
    output(&m, x, op(&m, OP_add, DT_f32, 2, at, at, 0), 1, 0, 0);
    call(&m);
}

static void test_sums(void **state)
{
    (void)state;
    Build *b = build_new(64);
    Dims space = dims_of(2, size_b(), dim_of(50), dim_of(0)),
         row = dims_of(1, dim_of(50), dim_of(0), dim_of(0));
    Dims none = dims_of(0, dim_of(0), dim_of(0), dim_of(0));
    col_x = buffer(b, "x", DT_f16, space);
    col_mean = buffer(b, "mean", DT_f32, row);
    full_parts = buffer(b, "parts", DT_f64, dims_of(1, dim_of(8), dim_of(0), dim_of(0)));
    guard_on = buffer(b, "skip", DT_bool, none);
    guard_off = buffer(b, "go", DT_bool, none);
    kept = buffer(b, "kept", DT_f32, row);
    moved = buffer(b, "moved", DT_f32, row);
    Dims columns = dims_of(2, dim_of(50), size_b(), dim_of(0));
    Making m = kernel(b, "column_mean", KERNEL_Col, columns);
    output(&m, col_mean, reduce(&m, OP_mean, DT_f32, cast(&m, DT_f32, load(&m, col_x, 1, 50, 0))),
           1, 0, 0);
    call(&m);
    m = kernel(b, "squares", KERNEL_Full, space);
    m.k->ntiles = 8;
    int x = cast(&m, DT_f64, load(&m, col_x, 50, 1, 0));
    output(&m, full_parts, reduce(&m, OP_sum, DT_f64, op(&m, OP_mul, DT_f64, 2, x, x, 0)), 0, 0, 0);
    call(&m);
    guarded_double(b, "kept_update", guard_on, kept);
    guarded_double(b, "moved_update", guard_off, moved);
    unsigned char *arena = new_arena(b);
    fill(arena, col_x, 4);
    fill(arena, kept, 5);
    fill(arena, moved, 6);
    arena[guard_on->offset] = 1;
    run_all(b, arena, 61, check_sums);
    free(arena);
    arena_free(b->arena);
}

/* h = relu(x @ w.T + bias) in f16; x is u8 and scaled while packing */
static Buffer *mm_x, *mm_w, *mm_bias, *mm_h;
enum { MM_K = 75, MM_N = 40 };

static void check_contract(Build *b, const unsigned char *before, const unsigned char *after,
                           int64_t n)
{
    (void)b;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < MM_N; j++) {
            double acc = 0;
            for (int64_t k = 0; k < MM_K; k++) {
                double x =
                    round_to(DT_f16, (double)((float)value_at(before, mm_x, i * MM_K + k) * 0.25f));
                acc += x * value_at(before, mm_w, j * MM_K + k);
            }
            double want = fmax(acc + value_at(before, mm_bias, j), 0);
            close_to(value_at(after, mm_h, i * MM_N + j), want, 1e-3 * want + 1e-3, "h",
                     i * MM_N + j);
        }
    }
}

static void contract(int64_t bound, int64_t n, bool packs)
{
    Build *b = build_new(bound);
    Dims space = dims_of(3, size_b(), dim_of(MM_N), dim_of(MM_K));
    mm_x = buffer(b, "image", DT_u8, dims_of(2, size_b(), dim_of(MM_K), dim_of(0)));
    mm_w = buffer(b, "weight", DT_f16, dims_of(2, dim_of(MM_N), dim_of(MM_K), dim_of(0)));
    mm_bias = buffer(b, "bias", DT_f32, dims_of(1, dim_of(MM_N), dim_of(0), dim_of(0)));
    mm_h = buffer(b, "h", DT_f16, dims_of(2, size_b(), dim_of(MM_N), dim_of(0)));
    Making m = kernel(b, "linear_relu", KERNEL_Contract, space);
    int image = cast(&m, DT_f32, load(&m, mm_x, MM_K, 0, 1));
    int scaled = op(&m, OP_mul, DT_f32, 2, image, constant(&m, DT_f32, 0.25), 0);
    m.k->a = cast(&m, DT_f32, cast(&m, DT_f16, scaled));
    m.k->b = cast(&m, DT_f32, load(&m, mm_w, 0, MM_K, 1));
    int acc = scalar(&m, (Scalar){.kind = SC_acc, .dtype = DT_f32});
    int sum = op(&m, OP_add, DT_f32, 2, acc, load(&m, mm_bias, 0, 1, 0), 0);
    output(&m, mm_h, op(&m, OP_relu, DT_f16, 1, cast(&m, DT_f16, sum), 0, 0), MM_N, 1, 0);
    if (packs) {
        int64_t panels = 1 << 18;
        Dims room = dims_of(1, dim_of(panels), dim_of(0), dim_of(0));
        m.k->packed_a = operand(&m, buffer(b, "packed_a", DT_f32, room), true);
        m.k->packed_b = operand(&m, buffer(b, "packed_b", DT_f32, room), true);
    }
    call(&m);
    unsigned char *arena = new_arena(b);
    fill(arena, mm_x, 7);
    fill(arena, mm_w, 8);
    fill(arena, mm_bias, 9);
    run_all(b, arena, n, check_contract);
    free(arena);
    arena_free(b->arena);
}

static void test_contract(void **state)
{
    (void)state;
    contract(33, 32, true);
    contract(400, 391, true);
}

/* rows of a table's gradient */
static Buffer *sc_rows, *sc_index, *sc_table;

static void check_scatter(Build *b, const unsigned char *before, const unsigned char *after,
                          int64_t n)
{
    (void)b;
    for (int64_t r = 0; r < 7; r++) {
        for (int64_t j = 0; j < 12; j++) {
            float sum = 0;
            for (int64_t i = 0; i < n; i++) {
                sum += value_at(before, sc_index, i) == (double)r
                           ? (float)value_at(before, sc_rows, i * 12 + j)
                           : 0;
            }
            close_to(value_at(after, sc_table, r * 12 + j), (double)sum, 0, "table", r * 12 + j);
        }
    }
}

static void test_scatter(void **state)
{
    (void)state;
    Build *b = build_new(100);
    sc_rows = buffer(b, "rows", DT_f16, dims_of(2, size_b(), dim_of(12), dim_of(0)));
    sc_index = buffer(b, "index", DT_i32, dims_of(1, size_b(), dim_of(0), dim_of(0)));
    sc_table = buffer(b, "table", DT_f32, dims_of(2, dim_of(7), dim_of(12), dim_of(0)));
    Making m = kernel(b, "table_grad", KERNEL_Scatter, sc_table->dims);
    operand(&m, sc_rows, false);
    operand(&m, sc_index, false);
    operand(&m, sc_table, true);
    call(&m);
    unsigned char *arena = new_arena(b);
    fill(arena, sc_rows, 10);
    fill(arena, sc_index, 11);
    run_all(b, arena, 97, check_scatter);
    free(arena);
    arena_free(b->arena);
}

/* Names that are nobody's identifiers, and text that would end a comment or a string. */
static void test_names(void **state)
{
    (void)state;
    Build *b = build_new(4);
    Dims d = dims_of(1, dim_of(4), dim_of(0), dim_of(0));
    const char *odd[] = {"int", "x*/y", "a\"b\\", "mpc_run", "NULL", "12", "", "exp", "k", "linux"};
    b->m->name = "a*/\"b";
    b->m->source = "it's \"odd\"\n*/.mpt";
    for (size_t i = 0; i + 1 < sizeof odd / sizeof *odd; i += 2) {
        Buffer *x = buffer(b, odd[i], DT_f32, d), *y = buffer(b, odd[i + 1], DT_f32, d);
        Making m = kernel(b, odd[i], KERNEL_Map, d);
        int v = op(&m, OP_neg, DT_f32, 1, load(&m, x, 1, 0, 0), 0, 0);
        m.k->scalars[v].name = odd[i + 1];
        m.k->what = m.k->why = "*/ end \\";
        output(&m, y, v, 1, 0, 0);
        call(&m);
    }
    unsigned char *arena = new_arena(b);
    run(b, arena, 4, MPC_ISA_generic, "cc");
    assert_true(signbit(((float *)(void *)(arena + b->plan.buffers[1]->offset))[0]));
    free(arena);
    arena_free(b->arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),     cmocka_unit_test(test_rows),
        cmocka_unit_test(test_sums),    cmocka_unit_test(test_contract),
        cmocka_unit_test(test_scatter), cmocka_unit_test(test_names),
    };
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[256];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command) != 0 || failed != 0;
}
