/* plan.c: sizes, look-ups and the text of a plan (mpc --emit=kernels). */
#include "ir/plan.h"

#include <inttypes.h>
#include <limits.h>

#include "ir/base/strutil.h"

const char *const buffer_role_name[BUFFER_ROLES] = {
    [BUFFER_param] = "param",          [BUFFER_state] = "state",
    [BUFFER_moment] = "moment",        [BUFFER_scaler] = "scaler",
    [BUFFER_working] = "working copy", [BUFFER_input] = "input",
    [BUFFER_number] = "number",        [BUFFER_activation] = "activation",
    [BUFFER_gradient] = "gradient",    [BUFFER_scratch] = "scratch",
    [BUFFER_output] = "output",        [BUFFER_ema] = "average",
};

const char *const kernel_kind_name[KERNEL_KINDS] = {
    [KERNEL_Map] = "map",   [KERNEL_Row] = "row",           [KERNEL_Col] = "col",
    [KERNEL_Full] = "full", [KERNEL_Contract] = "contract", [KERNEL_Scatter] = "scatter",
};

int64_t dim_bound(const Graph *g, Dim d)
{
    int64_t n = d.k;
    for (int i = 0; i < 2; i++) {
        if (d.sym[i] != 0 && g != NULL) {
            n *= g->syms[d.sym[i] - 1].bound;
        }
    }
    return n;
}

int64_t dims_bytes(const Graph *g, const Dims *d, DType dt)
{
    int64_t n = dtype_info[dt].bytes;
    for (int i = 0; i < d->rank; i++) {
        n *= dim_bound(g, d->d[i]);
    }
    return n;
}

PackedBytes plan_packed_bytes(int isa, int64_t m, int64_t n, int64_t k)
{
    return (PackedBytes){.a = MPC_GEMM_A_BYTES(isa, m, n, k),
                         .b = MPC_GEMM_B_BYTES(isa, m, n, k),
                         .thread = MPC_GEMM_OWN_BYTES(isa, k)};
}

PackedBytes plan_conv_bytes(int isa, int64_t m, int64_t k)
{
    return (PackedBytes){.a = MPC_CONV_A_BYTES(isa, m, k), .thread = MPC_CONV_OWN_BYTES(isa)};
}

bool kernel_is_conv(const Kernel *k)
{
    return k->kind == KERNEL_Contract && k->scalars[k->b].at.window != NULL;
}

static bool parts_equal(const WindowPart *a, const WindowPart *b, int n)
{
    for (int i = 0; i < n; i++) {
        if (a[i].size != b[i].size || a[i].stride != b[i].stride || a[i].row != b[i].row ||
            a[i].col != b[i].col) {
            return false;
        }
    }
    return true;
}

bool windows_equal(const Window *a, const Window *b)
{
    if (a == NULL || b == NULL) {
        return a == b;
    }
    return a->nu == b->nu && a->nk == b->nk && parts_equal(a->u, b->u, a->nu) &&
           parts_equal(a->k, b->k, a->nk) && a->row == b->row && a->col == b->col &&
           a->rows == b->rows && a->cols == b->cols && a->row_step == b->row_step &&
           a->col_step == b->col_step && a->row_stride == b->row_stride &&
           a->elements == b->elements;
}

const GraphPlan *plan_find_graph(const Plan *p, const char *name)
{
    for (int i = 0; i < p->ngraphs; i++) {
        if (str_eq(p->graphs[i].graph->name, name)) {
            return &p->graphs[i];
        }
    }
    return NULL;
}

/* ---- text ---------------------------------------------------------------------------------------------- */

static const Graph no_graph = {.name = ""};

/* Symbols are the same in all graphs by convention (B first), so one graph's names do for a shared kernel. */
static const char *dims_of(const Plan *p, const Graph *g, const Dims *d)
{
    if (g == NULL && p->ngraphs > 0) {
        g = p->graphs[0].graph;
    }
    return dims_text(p->arena, g != NULL ? g : &no_graph, d);
}

static const char *dim_one(const Plan *p, Dim d)
{
    Dims one = {.rank = 1, .d = {d}};
    return dims_of(p, NULL, &one);
}

static const char *index_text(const Plan *p, const Kernel *k, const Access *a)
{
    const char *text = "", *sep = "";
    for (int i = 0; i < k->space.rank; i++) {
        if (a->stride[i].k != 0) {
            bool one = dim_is_const(a->stride[i]) && a->stride[i].k == 1;
            text =
                one ? arena_printf(p->arena, "%s%si%d", text, sep, i)
                    : arena_printf(p->arena, "%s%si%d*%s", text, sep, i, dim_one(p, a->stride[i]));
            sep = " + ";
        }
    }
    if (a->index >= 0) {
        text =
            arena_printf(p->arena, "%s%sv%d*%s", text, sep, a->index, dim_one(p, a->index_stride));
        sep = " + ";
    }
    if (a->offset.k != 0 || *text == '\0') {
        text = arena_printf(p->arena, "%s%s%s", text, sep, dim_one(p, a->offset));
    }
    return text;
}

static void print_parts(FILE *out, const char *axis, const WindowPart *parts, int n)
{
    fprintf(out, " %s", axis);
    for (int i = 0; i < n; i++) {
        fprintf(out, " (%" PRId64 " x %" PRId64, parts[i].size, parts[i].stride);
        if (parts[i].row != 0 || parts[i].col != 0) {
            fprintf(out, " rows %" PRId64 " columns %" PRId64, parts[i].row, parts[i].col);
        }
        fputc(')', out);
    }
}

static void print_window(FILE *out, const Window *w)
{
    if (w == NULL) {
        return;
    }
    fputs(" window", out);
    print_parts(out, "u", w->u, w->nu);
    print_parts(out, "k", w->k, w->nk);
    if (w->rows > 0) {
        fprintf(out, " from (%" PRId64 ", %" PRId64 ") in %" PRId64 " x %" PRId64, w->row, w->col,
                w->rows, w->cols);
    }
    if (w->row_step > 1 || w->col_step > 1) {
        fprintf(out, " every %" PRId64 " x %" PRId64, w->row_step, w->col_step);
    }
}

static void print_scalar(FILE *out, const Plan *p, const Kernel *k, int at)
{
    const Scalar *s = &k->scalars[at];
    char number[32];
    fprintf(out, "    v%d: %s = ", at, dtype_info[s->dtype].name);
    switch (s->kind) {
    case SC_load:
        fprintf(out, "%s[%s]", k->operands[s->at.operand].name, index_text(p, k, &s->at));
        print_window(out, s->at.window);
        break;
    case SC_const: fputs(str_double(number, s->value), out); break;
    case SC_index: fprintf(out, "index(%s)", index_text(p, k, &s->at)); break;
    case SC_dim: fputs(dim_one(p, s->dim), out); break;
    case SC_uniform: fprintf(out, "uniform(v%d, %s)", s->in[0], index_text(p, k, &s->at)); break;
    case SC_acc: fprintf(out, "sum of v%d * v%d", k->a, k->b); break;
    case SC_cast: fprintf(out, "cast v%d", s->in[0]); break;
    case SC_reduce:
    case SC_op:
        fprintf(out, "%s%s", s->kind == SC_reduce ? "reduce " : "", op_info[s->op].name);
        for (int i = 0; i < s->nin; i++) {
            fprintf(out, " v%d", s->in[i]);
        }
        break;
    }
    fprintf(out, "%s\n", s->per_row && k->kind == KERNEL_Row ? "   (row)" : "");
}

static void print_kernel(FILE *out, const Plan *p, const Kernel *k)
{
    fprintf(out, "\nkernel %s: %s [%s]", k->name, kernel_kind_name[k->kind],
            dims_of(p, NULL, &k->space));
    if (k->any_size) {
        fputs(" any size", out);
    }
    fprintf(out, "   %s\n    line %s, %.3g flop, %.3g bytes\n", k->what,
            line_text(p->arena, p->module, k->loc), k->flops, k->bytes);
    for (int i = 0; i < k->nscalars; i++) {
        print_scalar(out, p, k, i);
    }
    if (k->guard >= 0) {
        fprintf(out, "    unless v%d:\n", k->guard);
    }
    for (int i = 0; i < k->noutputs; i++) {
        const KOutput *o = &k->outputs[i];
        fprintf(out, "    %s[%s] = v%d\n", k->operands[o->at.operand].name,
                index_text(p, k, &o->at), o->scalar);
    }
}

static void print_graph(FILE *out, const GraphPlan *gp)
{
    fprintf(out, "\ngraph @%s: %d launches, %.3g flop, %.3g bytes\n", gp->graph->name,
            gp->nlaunches, gp->flops, gp->bytes);
    for (int l = 0; l < gp->nlaunches; l++) {
        for (int c = 0; c < gp->launches[l].ncalls; c++) {
            const KCall *call = &gp->launches[l].calls[c];
            fprintf(out, "    %3d  %s(", l, call->kernel->name);
            for (int i = 0; i < call->kernel->noperands; i++) {
                fprintf(out, "%s%s", i > 0 ? ", " : "", call->buffers[i]->name);
            }
            fputs(")\n", out);
        }
    }
}

static const char *place_text(const Plan *p, const Buffer *b)
{
    switch (b->place) {
    case PLACE_persistent: return arena_printf(p->arena, "0x%06" PRIx64, (uint64_t)b->offset);
    case PLACE_transient:
        return arena_printf(p->arena, "0x%06" PRIx64, (uint64_t)(p->persistent_bytes + b->offset));
    case PLACE_prepare: return arena_printf(p->arena, "prepare 0x%06" PRIx64, (uint64_t)b->offset);
    case PLACE_field: return "field";
    }
    return "";
}

void plan_print(FILE *out, const Plan *p)
{
    fprintf(out,
            "plan: %" PRId64 " bytes (%" PRId64 " outlive a step, %" PRId64
            " transient, bound %" PRId64 ")\n",
            p->arena_bytes, p->persistent_bytes, p->transient_bytes, p->lower_bound);
    for (int i = 0; i < p->nbuffers; i++) {
        const Buffer *b = p->buffers[i];
        fprintf(out, "    %-18s %-8s %-24s %-16s %10" PRId64 "  ", place_text(p, b),
                dtype_info[b->dtype].name, b->name, dims_of(p, b->graph, &b->dims), b->bytes);
        if (b->last == INT_MAX) {
            fprintf(out, "always  %s\n", buffer_role_name[b->role]);
        } else {
            fprintf(out, "%d..%d  %s\n", b->first, b->last, buffer_role_name[b->role]);
        }
    }
    for (int i = 0; i < p->nkernels; i++) {
        print_kernel(out, p, p->kernels[i]);
    }
    for (int i = 0; i < p->ngraphs; i++) {
        print_graph(out, &p->graphs[i]);
    }
}
