/* program.c: the whole file, in the order in which it is read: what it is, where its bytes lie, the variables of
 * the loop, kernels, graphs, host program, tables. */
#include "codegen/program.h"

#include "codegen/target.h"
#include "codegen/unit.h"
#include "runtime/abi/gemm_params.h"

_Static_assert((int)CPU_generic == MPC_ISA_generic && (int)CPU_avx2 == MPC_ISA_avx2 &&
                   (int)CPU_avx512 == MPC_ISA_avx512,
               "one numbering of instruction sets");

static void banner(Emit *e)
{
    const Plan *p = e->plan;
    static const char *const level[] = {"any CPU", "AVX2", "AVX-512"};
    ln(e, "/* %s.c: made by mpc %s from %s", comment_text(e->arena, e->m->name),
       comment_text(e->arena, e->opt->version), comment_text(e->arena, e->m->source));
    ln(e, " *     %s      %s, math exact, %s", comment_text(e->arena, e->opt->command),
       e->m->precision == DT_none ? "f32" : dtype_info[e->m->precision].name, level[e->opt->isa]);
    ln(e, " *");
    for (int g = 0; g < p->ngraphs; g++) {
        const GraphPlan *gp = &p->graphs[g];
        ln(e, " * %s: %d launches, %s, %s moved%s", gp->graph->name, gp->nlaunches,
           size_text(e->arena, gp->flops, "FLOP"), size_text(e->arena, gp->bytes, "B"),
           gp->graph->nsyms > 0 ? arena_printf(e->arena, " at %s = %lld", gp->graph->syms[0].name,
                                               (long long)gp->graph->syms[0].bound)
                                : "");
    }
    double by_role[BUFFER_ROLES] = {0};
    for (int i = 0; i < p->nbuffers; i++) {
        by_role[p->buffers[i]->role] +=
            p->buffers[i]->place == PLACE_persistent ? (double)p->buffers[i]->bytes : 0;
    }
    Text *t = text_new(e->arena);
    for (int r = 0; r < BUFFER_ROLES; r++) {
        if (by_role[r] > 0) {
            text_printf(t, "   %s %s", buffer_role_name[r], size_text(e->arena, by_role[r], "B"));
        }
    }
    ln(e, " * Arena %s:%s   transients %s */", size_text(e->arena, (double)p->arena_bytes, "B"),
       t->n > 0 ? t->at : "", size_text(e->arena, (double)p->transient_bytes, "B"));
}

static bool has_kind(const Plan *p, KernelKind kind)
{
    for (int i = 0; i < p->nkernels; i++) {
        if (p->kernels[i]->kind == kind) {
            return true;
        }
    }
    return false;
}

static bool has_conv(const Plan *p)
{
    for (int i = 0; i < p->nkernels; i++) {
        if (kernel_is_conv(p->kernels[i])) {
            return true;
        }
    }
    return false;
}

static bool has_16_bit(const Plan *p)
{
    for (int i = 0; i < p->nkernels; i++) {
        for (int j = 0; j < p->kernels[i]->noperands; j++) {
            DType dt = p->kernels[i]->operands[j].dtype;
            if (dt == DT_f16 || dt == DT_bf16) {
                return true;
            }
        }
    }
    return false;
}

static void includes(Emit *e)
{
    static const char *const isa[] = {"generic", "avx2", "avx512"};
    ln(e, "#include \"abi/host_math.h\"");
    ln(e, "#include \"abi/mpc_rt.h\"");
    ln(e, "#include \"abi/philox.h\"");
    if (has_kind(e->plan, KERNEL_Contract)) {
        ln(e, "#include \"kernels/gemm.h\"");
    }
    if (has_conv(e->plan)) {
        ln(e, "#include \"kernels/conv.h\"");
    }
    ln(e, "#include \"kernels/rows.h\"");
    if (has_16_bit(e->plan)) {
        ln(e, "#include \"kernels/rows16.h\"");
    }
    ln_blank(e);
    if (has_kind(e->plan, KERNEL_Contract)) {
        ln(e,
           "_Static_assert(MPC_ISA == MPC_ISA_%s, \"compiled for another CPU than it was planned "
           "for\");",
           isa[e->opt->isa]);
        ln_blank(e);
    }
}

Emit program_open(const Plan *plan, const CodegenOptions *opt, const Target *target, Diag *diag)
{
    Arena *arena = arena_new();
    Emit e = {.arena = arena,
              .out = text_new(arena),
              .plan = plan,
              .m = plan->module,
              .opt = opt,
              .target = target,
              .diag = diag};
    e.names = names_new(arena, NULL, false);
    static const char *const words[] = {
        "run",         "refresh",      "evaluate",   "options",       "data",       "sets",
        "loaders",     "label_checks", "tensors",    "plan",          "modules",    "kernels",
        "variables",   "predict",      "prediction", "predict_needs", "functions",  "plan_rows",
        "plan_graphs", "graph_rows",   "gpu",        "gpu_images",    "gpu_kernels"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        names_reserve(&e.names, words[i]);
    }
    for (int i = 0; i < plan->ngraphs; i++) {
        names_reserve(&e.names, arena_printf(arena, "launches_%d", i));
        names_reserve(&e.names, arena_printf(arena, "numbers_in_%d", i));
        names_reserve(&e.names, arena_printf(arena, "numbers_out_%d", i));
    }
    for (int i = 0; i < opt->gpu_images; i++) {
        names_reserve(&e.names, arena_printf(arena, "gpu_image_%d", i));
    }
    units_make(&e);
    return e;
}

bool program_close(Emit *e, FILE *out)
{
    bool ok = text_write(e->out, out);
    if (!ok) {
        diag_error(e->diag, loc_none(), "the text could not be written");
    }
    arena_free(e->arena);
    return ok;
}

bool codegen_c(FILE *out, const Plan *plan, const CodegenOptions *opt, Diag *diag)
{
    Emit e = program_open(plan, opt, &target_c, diag);
    HostText host;
    GraphText *graphs = graphs_name(&e);
    host_name(&e, &host, graphs);
    buffers_name(&e);

    banner(&e);
    includes(&e);
    buffers_emit(&e);
    host_declare(&e, &host);
    for (int i = 0; i < plan->nkernels; i++) {
        if (e.units[i].ncalls > 0) {
            unit_emit(&e, &e.units[i]);
        }
    }
    graphs_emit(&e, &host);
    hosts_emit(&e, &host);
    tables_emit(&e, &host);
    return program_close(&e, out);
}

const char **codegen_kernel_texts(Arena *arena, const Plan *plan, const CodegenOptions *opt,
                                  Diag *diag)
{
    Emit e = program_open(plan, opt, &target_c, diag);
    const char **texts = ARENA_ARRAY(arena, const char *, plan->nkernels + 1);
    for (int i = 0; i < plan->nkernels; i++) {
        e.out = text_new(e.arena);
        if (e.units[i].ncalls > 0) {
            unit_emit(&e, &e.units[i]);
            texts[i] = arena_strdup(arena, e.out->at);
        }
    }
    arena_free(e.arena);
    return texts;
}
