/* run_program.c: see run_program.h. */
#include "tests/ops/run_program.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/strutil.h"
#include "passes/pass.h"

/* ---- the module ------------------------------------------------------------------------------ */

Program *program_new(const char *name)
{
    Arena *arena = arena_new();
    Program *p = ARENA_NEW(arena, Program);
    const char *tmp = getenv("TMPDIR");
    p->arena = arena;
    p->diag = diag_new(arena, stderr, DIAG_COLOR_never, DIAG_FORMAT_text);
    p->m = module_new(arena, name, arena_printf(arena, "%s.ir", name));
    p->m->last_pass = "lower";
    p->table = text_new(arena);
    p->dir = arena_printf(arena, "%s/mpc-%s-XXXXXX", tmp != NULL ? tmp : P_tmpdir, name);
    if (mkdtemp(p->dir) == NULL) {
        perror(p->dir);
        exit(1);
    }
    HostStmt *epochs = host_stmt(p->m, &p->m->host, HS_for, loc_none());
    epochs->var = "epoch";
    module_var(p->m, "epoch", HT_int);
    epochs->expr = host_num(arena, 0, HT_int);
    epochs->hi = host_num(arena, 1, HT_int);
    HostStmt *batches = host_stmt(p->m, &epochs->body, HS_batches, loc_none());
    batches->var = "batch";
    batches->target = "train";
    p->calls = &batches->body;
    return p;
}

void program_done(Program *p, bool keep)
{
    if (keep) {
        fprintf(stderr, "left in %s\n", p->dir);
    } else {
        const char *const argv[] = {"rm", "-rf", p->dir, NULL};
        run_command(argv, NULL);
    }
    arena_free(p->arena);
}

void program_field(Program *p, const char *field, const char *columns)
{
    vec_push(p->arena, &p->fields, field);
    vec_push(p->arena, &p->columns, columns);
}

Graph *program_graph(Program *p, const char *name)
{
    Graph *g = graph_new(p->arena, name, GRAPH_Step);
    module_graph(p->m, g);
    host_stmt(p->m, p->calls, HS_call, loc_none())->target = name;
    return g;
}

const ProgramTensor *program_find(const Program *p, const char *name)
{
    for (int i = 0; i < p->tensors.n; i++) {
        if (str_eq(p->tensors.at[i].name, name)) {
            return &p->tensors.at[i];
        }
    }
    return NULL;
}

static void declare(Program *p, const char *name, TensorRole role, DType dt, const Dims *dims,
                    const double *v)
{
    if (program_find(p, name) != NULL) {
        return;
    }
    Dim count;
    if (!dims_count(dims, &count) || !dim_is_const(count)) {
        ICE("%s: no constant shape", name);
    }
    Tensor *t = module_tensor(p->m, name, role, dt, dims);
    attrs_set_str(p->arena, &t->init, ATTR_kind, "zeros");
    vec_push(p->arena, &p->tensors, ((ProgramTensor){name, dt, *dims, count.k, v}));
}

Node *program_param(Program *p, Builder *b, const char *name, DType dt, const Dims *dims,
                    const double *v)
{
    declare(p, name, TENSOR_param, dt, dims, v);
    Node *known = graph_find_arg(b->graph, ATTR_param, name);
    Attrs as = {0};
    attrs_set_str(p->arena, &as, ATTR_param, name);
    return known != NULL ? known : build_arg(b, dt, dims, as);
}

Node *program_state(Program *p, Builder *b, const char *name, DType dt, const Dims *dims,
                    const double *v)
{
    declare(p, name, TENSOR_state, dt, dims, v);
    Node *known = graph_find_arg(b->graph, ATTR_state, name);
    Attrs as = {0};
    attrs_set_str(p->arena, &as, ATTR_state, name);
    return known != NULL ? known : build_arg(b, dt, dims, as);
}

void program_result(Program *p, Graph *g, const char *name, Node *value)
{
    declare(p, name, TENSOR_state, value->dtype, &value->dims, NULL);
    graph_result(g, RESULT_State, name, value);
}

static Decl *declared(Program *p, DeclKind kind, const char *name)
{
    Decl *d = module_find(p->m, kind, name);
    return d != NULL ? d : module_decl(p->m, kind, name);
}

/* The table and its loader as they are by now. */
static void declare_data(Program *p)
{
    if (p->fields.n == 0) {
        program_field(p, "nothing: f32", "");
        text_puts(p->table, "nothing\n0\n");
        p->rows = 1;
    }
    Decl *data = declared(p, DECL_data, "table");
    static const char *const file = "table.csv";
    attrs_set_str(p->arena, &data->attrs, ATTR_kind, "csv");
    attrs_set_strs(p->arena, &data->attrs, ATTR_files, 1, &file);
    attrs_set_strs(p->arena, &data->attrs, ATTR_fields, p->fields.n, p->fields.at);
    attrs_set_strs(p->arena, &data->attrs, ATTR_columns, p->columns.n, p->columns.at);
    Decl *train = declared(p, DECL_loader, "train");
    attrs_set_str(p->arena, &train->attrs, ATTR_dataset, "table");
    int64_t bound = p->batch > 0 ? p->batch : p->rows;
    for (int i = 0; i < p->m->ngraphs; i++) {
        const Graph *g = p->m->graphs[i];
        bound = g->nsyms > 0 && g->syms[0].bound > bound ? g->syms[0].bound : bound;
    }
    attrs_set_expr(p->arena, &train->attrs, ATTR_batch_size,
                   host_num(p->arena, (double)bound, HT_int));
    attrs_set_int(p->arena, &train->attrs, ATTR_bound, bound);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static const char *gradient_name(Arena *arena, const char *param)
{
    const char *in = strstr(param, ".in.");
    if (in == NULL) {
        return arena_printf(arena, "%s.grad", param);
    }
    return arena_printf(arena, "%.*s.gin.%s", (int)(in - param), param, in + 4);
}

static void gradients_out(Program *p, Graph *g)
{
    for (int i = 0; i < g->nnodes; i++) {
        const Node *n = g->nodes[i];
        const Attr *params = n->op == OP_gradients ? attrs_find(&n->attrs, ATTR_params) : NULL;
        for (int k = 0; params != NULL && k < params->strs.n; k++) {
            program_result(p, g, gradient_name(p->arena, params->strs.v[k]), n->in[k]);
        }
    }
    int kept = 0;
    for (int i = 0; i < g->nnodes; i++) {
        if (op_info[g->nodes[i]->op].kind != KIND_Mark) {
            g->nodes[kept++] = g->nodes[i];
        }
    }
    g->nnodes = kept;
    graph_dce(g);
}

bool program_differentiate(Program *p)
{
    PassOptions opt = {.verify_ir = true, .stop_after = "autodiff"};
    declare_data(p);
    if (!passes_run(p->m, &opt, p->diag)) {
        return false;
    }
    for (int i = 0; i < p->m->ngraphs; i++) {
        gradients_out(p, p->m->graphs[i]);
    }
    return true;
}

/* ---- files ----------------------------------------------------------------------------------- */

static FILE *open_file(const Program *p, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", p->dir, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL) {
        perror(path);
        exit(1);
    }
    return f;
}

static void close_file(FILE *f)
{
    if (ferror(f) || fclose(f) != 0) {
        perror("writing");
        exit(1);
    }
}

static void write_element(FILE *f, DType dt, double x)
{
    union {
        float f;
        double d;
        int64_t i;
        int32_t w;
        uint8_t b;
    } bits = {0};
    if (dt == DT_f64) {
        bits.d = x;
    } else if (dtype_info[dt].is_float) {
        bits.f = (float)x;
    } else if (dt == DT_i64) {
        bits.i = (int64_t)x;
    } else if (dt == DT_i32) {
        bits.w = (int32_t)x;
    } else {
        bits.b = (uint8_t)(int64_t)x;
    }
    bool narrow = dtype_info[dt].is_float && dt != DT_f64; /* stored as f32 */
    fwrite(&bits, narrow ? 4 : (size_t)dtype_info[dt].bytes, 1, f);
}

/* Types of a row lie together, the widest first, so that every tensor is aligned. */
static void write_inputs(Program *p)
{
    Text *head = text_new(p->arena);
    FILE *f = open_file(p, "inputs.safetensors");
    int64_t at = 0;
    for (int i = 0; i < p->tensors.n; i++) {
        const ProgramTensor *t = &p->tensors.at[i];
        bool narrow = dtype_info[t->dtype].is_float && t->dtype != DT_f64;
        int64_t bytes = t->count * (narrow ? 4 : dtype_info[t->dtype].bytes);
        text_printf(head, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}",
                    i > 0 ? "," : "{", t->name, narrow ? "F32" : dtype_info[t->dtype].safetensors,
                    dims_text(p->arena, &(Graph){0}, &t->dims), (long long)at,
                    (long long)(at + bytes));
        at += bytes;
    }
    text_puts(head, "}");
    while (head->n % 8 != 0) {
        text_puts(head, " ");
    }
    uint64_t n = head->n;
    fwrite(&n, sizeof n, 1, f); /* this test runs where mpc does: little-endian */
    fwrite(head->at, 1, head->n, f);
    for (int i = 0; i < p->tensors.n; i++) {
        const ProgramTensor *t = &p->tensors.at[i];
        for (int64_t k = 0; k < t->count; k++) {
            bool is_bool = dtype_info[t->dtype].is_bool;
            write_element(f, t->dtype, t->v != NULL ? t->v[k] : is_bool ? 1 : POISON);
        }
    }
    close_file(f);
}

static void write_table(Program *p)
{
    FILE *f = open_file(p, "table.csv");
    text_write(p->table, f);
    close_file(f);
}

/* ---- commands -------------------------------------------------------------------------------- */

int run_command(const char *const *argv, const char *log)
{
    pid_t child = fork();
    if (child == 0) {
        int out = open(log != NULL ? log : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0666);
        int none = open("/dev/null", O_RDONLY);
        dup2(none, 0);
        dup2(out, 1);
        dup2(out, 2);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        perror(argv[0]);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0) {
        perror(argv[0]);
        exit(1);
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void show_log(const char *path)
{
    enum { MOST = 6000 };
    char text[MOST + 1];
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        return;
    }
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    fseek(f, size > MOST ? size - MOST : 0, SEEK_SET);
    size_t n = fread(text, 1, MOST, f);
    fwrite(text, 1, n, stderr);
    fclose(f);
}

static bool run_here(Program *p, const char *const *first, const char *const *flags,
                     const char *what)
{
    const char *argv[32];
    int n = 0;
    for (int i = 0; first[i] != NULL; i++) {
        argv[n++] = first[i];
    }
    for (int i = 0; flags != NULL && flags[i] != NULL && n < 31; i++) {
        argv[n++] = flags[i];
    }
    argv[n] = NULL;
    char *log = arena_printf(p->arena, "%s/%s.log", p->dir, what);
    int status = run_command(argv, log);
    if (status != 0) {
        for (int i = 0; i < n; i++) {
            fprintf(stderr, "%s%s", i > 0 ? " " : "", argv[i]);
        }
        fprintf(stderr, "\nended with status %d:\n", status);
        show_log(log);
    }
    return status == 0;
}

bool program_compile(Program *p, const char *const *flags)
{
    const char *mpc = getenv("MPC");
    if (mpc == NULL) {
        fputs("MPC does not name the compiler\n", stderr);
        exit(1);
    }
    declare_data(p);
    write_table(p);
    write_inputs(p);
    if (!module_verify(p->m, p->diag)) {
        return false;
    }
    const char *name = p->m->name;
    FILE *f = open_file(p, arena_printf(p->arena, "%s.ir", name));
    module_print(f, p->m);
    close_file(f);
    const char *argv[] = {mpc, arena_printf(p->arena, "%s/%s.ir", p->dir, name), "-o",
                          arena_printf(p->arena, "%s/%s", p->dir, name), NULL};
    return run_here(p, argv, flags, "mpc");
}

GoldenFile *program_run(Program *p, const char *const *flags)
{
    char *out = arena_printf(p->arena, "%s/out", p->dir);
    const char *clean[] = {"rm", "-rf", out, NULL};
    run_command(clean, NULL);
    const char *argv[] = {arena_printf(p->arena, "%s/%s", p->dir, p->m->name),
                          "--init",
                          arena_printf(p->arena, "%s/inputs.safetensors", p->dir),
                          "--data",
                          p->dir,
                          "--out",
                          out,
                          NULL};
    return run_here(p, argv, flags, "run")
               ? golden_read(arena_printf(p->arena, "%s/model.safetensors", out))
               : NULL;
}

const char *const *cpu_flags(Arena *arena, int argc, char **argv)
{
    const char **flags = ARENA_ARRAY(arena, const char *, argc + 1);
    flags[0] = arena_printf(arena, "--cpu=%s", argv[0]);
    for (int i = 1; i < argc; i++) {
        flags[i] = argv[i];
    }
    return flags;
}

bool cpu_runs(const char *cpu)
{
#if defined(__x86_64__)
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd");
#else
    bool v3 = false, v4 = false;
#endif
    bool runs = str_eq(cpu, "x86-64-v3") ? v3 : str_eq(cpu, "x86-64-v4") ? v4 : true;
    if (!runs) {
        printf("skipped: this machine is no %s\n", cpu);
    }
    return runs;
}
