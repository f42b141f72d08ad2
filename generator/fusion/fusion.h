/* Fusion: the graph's nodes grouped into fused operators, one kernel (or one list of guarded variants) each: a
 * program (generator/program/program.h), and what the family that matches it makes of it
 * (generator/program/fused.h).
 *
 * Everything lives in the fusion's arena. Immutable after fusion_build(). */
#pragma once
#include "generator/program/fused.h"

typedef struct Fusion {
  Arena *arena;
  const Graph *graph;
  FusedOperator **operators; /* topological order */
  unsigned n;
  const GraphTensor *
      *intermediates; /* tensors in global memory that are neither input, constant nor output */
  unsigned n_intermediates;
  const char **notes; /* what was fused or not and why, for --explain, in order */
  unsigned n_notes;
} Fusion;

typedef struct FusedCopies {
  bool a, b;      /* of a product's operands: a copy has yet to be made */
  unsigned bytes; /* what rows and addresses of the operands are multiples of, at most 16 */
} FusedCopies;

typedef struct FusionOptions {
  bool none;          /* one kernel a node: for tests and bisection */
  unsigned max_steps; /* elementwise steps a kernel; 0: 64 */
  /* Whether two products of one A, as one fused operator, are better than two kernels. NULL: always. `why`:
   * for a note, allocated in `arena`; may be left. */
  bool (*accept_dual)(const FusedOperator *fused, Arena *arena, const char **why, void *data);
  /* Whether a product, alone, of copies of operands in rows of whole 16 bytes is better, copying included,
   * than of the operands themselves, whose rows allow accesses of copies->bytes only. NULL: never. */
  bool (*accept_copies)(const FusedOperator *product, const FusedCopies *copies, Arena *arena,
                        const char **why, void *data);
  /* Whether some kernel reads a product's operands as they lie: bit 0 of `across`: A is not contiguous along
   * k, bit 1: B. NULL: all but floats of 8 bits. */
  bool (*reads_across)(NumberType a, NumberType b, NumberType result, unsigned across, void *data);
  /* Whether all kernels for products of these types have them in fragments whose rows come in blocks of
   * REDUCED_ROWS, each one warp's. NULL: of no types. */
  bool (*has_row_blocks)(NumberType a, NumberType b, void *data);
  void *data;
} FusionOptions;

/* Does a product leave an output reduced by parts? */
bool fused_is_reduced(const FusedOperator *op);

/* The graph must outlive the fusion. options may be NULL. ERROR_UNSUPPORTED for what no kernel exists. */
Fusion *fusion_build(const Graph *graph, const FusionOptions *options, GError **error);
void fusion_free(Fusion *fusion);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Fusion, fusion_free)
/* A GEMM as its transpose: rows and columns change places in dims and strides, and A and B their roles. Lives
 * in `arena` and shares what it points to with `op`, which must outlive it. */
const FusedOperator *fused_gemm_transposed(Arena *arena, const FusedOperator *op);
/* An elementwise operator whose outputs are contiguous along one dimension and some input along another: with
 * these two last, the outputs' the very last. NULL if it is no such operator, has more than one dimension
 * besides, or truth values. Lives and shares as above. */
const FusedOperator *fused_elementwise_turned(Arena *arena, const FusedOperator *op);
/* Text for tests and --explain; g_free. */
char *fusion_dump(const Fusion *fusion);
char *fused_dump(const FusedOperator *fused);
