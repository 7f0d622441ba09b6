/* gemm_params.h: tile sizes and scratch sizes of the contraction kernels, by instruction set.
 *
 * Read from both sides: kernels/gemm.h (compiled into the generated program) blocks by these numbers,
 * and the planner, which is compiled for some other CPU, reserves the packed operands' scratch by them.
 * Hence plain macros of a level `isa`, usable in constant expressions and for sizes known at run time.
 * The sizes grow with each of m, n and k, so a symbolic dimension is planned at its greatest value.
 *
 * The packed forms are described in kernels/gemm.h.
 */
#ifndef MPC_GEMM_PARAMS_H
#define MPC_GEMM_PARAMS_H

/* Instruction-set levels of the CPU target. AVX2 means AVX2 + FMA + F16C; AVX-512 means F, BW, DQ and
 * VL besides. Generic is any CPU. */
#define MPC_ISA_generic 0
#define MPC_ISA_avx2    1
#define MPC_ISA_avx512  2

/* The level's constants: floats in a vector, rows and columns of the register tile. */
#define MPC_GEMM_PICK(isa, avx512, avx2, generic)                                                  \
    ((isa) == MPC_ISA_avx512 ? (avx512) : (isa) == MPC_ISA_avx2 ? (avx2) : (generic))
#define MPC_GEMM_VL(isa) MPC_GEMM_PICK(isa, 16, 8, 4)
#define MPC_GEMM_MR(isa) MPC_GEMM_PICK(isa, 14, 6, 4)
#define MPC_GEMM_NR(isa) MPC_GEMM_PICK(isa, 32, 16, 8)

/* Floats from one k to the next in a panel of A: MR rounded up to whole vectors. (In B it is NR.) */
#define MPC_GEMM_AS(isa) MPC_GEMM_PICK(isa, 16, 8, 4)

/* Longest run of k that one pass of the micro-kernel takes; longer sums are cut into equal parts. */
#define MPC_GEMM_KC(isa) MPC_GEMM_PICK(isa, 512, 384, 256)

/* Alignment of both packed operands, in bytes. */
#define MPC_GEMM_ALIGN 64

#define MPC_CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

/* Bytes of a packed A (m x k) and of a packed B (k x n). */
#define MPC_GEMM_A_BYTES(isa, m, k)                                                                \
    (MPC_CEIL_DIV(m, MPC_GEMM_MR(isa)) * MPC_GEMM_AS(isa) * (k) * 4)
#define MPC_GEMM_B_BYTES(isa, n, k)                                                                \
    (MPC_CEIL_DIV(n, MPC_GEMM_NR(isa)) * MPC_GEMM_NR(isa) * (k) * 4)

#endif
