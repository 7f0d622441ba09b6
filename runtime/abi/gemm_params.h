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
#define MPC_ISA_avx2 1
#define MPC_ISA_avx512 2

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

/* Panels of A in one compute tile, at most: about 140 rows. */
#define MPC_GEMM_PANELS(isa) MPC_GEMM_PICK(isa, 10, 24, 35)

/* An operand of which each panel serves but few compute tiles is packed by those themselves, into their
 * thread's scratch: it need not travel from core to core. So A where there is one panel of B, and B where
 * there are few rows. Such a tile takes fewer panels of A; k is bounded so that the scratch is. */
#define MPC_GEMM_OWN_K 4096
#define MPC_GEMM_OWN_PANELS(isa) MPC_GEMM_PICK(isa, 4, 8, 16)
#define MPC_GEMM_OWNS_A(isa, m, n, k) ((n) <= MPC_GEMM_NR(isa) && (k) <= MPC_GEMM_OWN_K)
#define MPC_GEMM_OWNS_B(isa, m, n, k)                                                              \
    ((m) <= MPC_GEMM_PANELS(isa) * MPC_GEMM_MR(isa) && (k) <= MPC_GEMM_OWN_K)

/* Alignment of all packed operands, in bytes. */
#define MPC_GEMM_ALIGN 64

#define MPC_CEIL_DIV(a, b) (((a) + (b)-1) / (b))

/* Bytes in the arena for a packed A (m x k) and a packed B (k x n) of a contraction. */
#define MPC_GEMM_A_BYTES(isa, m, n, k)                                                             \
    (MPC_GEMM_OWNS_A(isa, m, n, k) ? 0                                                             \
                                   : MPC_CEIL_DIV(m, MPC_GEMM_MR(isa)) * MPC_GEMM_AS(isa) * (k)*4)
#define MPC_GEMM_B_BYTES(isa, m, n, k)                                                             \
    (MPC_GEMM_OWNS_B(isa, m, n, k) ? 0                                                             \
                                   : MPC_CEIL_DIV(n, MPC_GEMM_NR(isa)) * MPC_GEMM_NR(isa) * (k)*4)

/* A convolution: its packed A (m x k), and the piece of B that a thread packs at a time. */
#define MPC_CONV_A_BYTES(isa, m, k) (MPC_CEIL_DIV(m, MPC_GEMM_MR(isa)) * MPC_GEMM_AS(isa) * (k)*4)
#define MPC_CONV_OWN_BYTES(isa) (MPC_GEMM_NR(isa) * MPC_GEMM_KC(isa) * 4)

/* Bytes of each thread's scratch. */
#define MPC_GEMM_OWN_BYTES(isa, k)                                                                 \
    ((MPC_GEMM_OWN_PANELS(isa) * MPC_GEMM_AS(isa) + MPC_GEMM_NR(isa)) *                            \
     ((k) < MPC_GEMM_OWN_K ? (k) : MPC_GEMM_OWN_K) * 4)

#endif
