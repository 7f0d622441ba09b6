/* cuda_program.c: the kernels of a program as one file of CUDA C. What calls them is in the C text. */
#include "codegen/program.h"
#include "codegen/target.h"
#include "codegen/unit.h"

static void banner(Emit *e)
{
    ln(e, "/* %s.cu: made by mpc %s from %s: the kernels that a GPU runs",
       comment_text(e->arena, e->m->name), comment_text(e->arena, e->opt->version),
       comment_text(e->arena, e->m->source));
    ln(e, " *     %s      %s, math exact */", comment_text(e->arena, e->opt->command),
       e->m->precision == DT_none ? "f32" : dtype_info[e->m->precision].name);
    ln(e, "#include \"cuda/contract.cuh\"");
    ln_blank(e);
}

bool codegen_cuda(FILE *out, const Plan *plan, const CodegenOptions *opt, Diag *diag)
{
    Emit e = program_open(plan, opt, &target_cuda, diag);
    banner(&e);
    for (int i = 0; i < plan->nkernels; i++) {
        if (e.units[i].ncalls > 0 && e.units[i].on_gpu) {
            unit_emit(&e, &e.units[i]);
        }
    }
    return program_close(&e, out);
}
