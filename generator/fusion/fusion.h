/* Fusion: the graph's nodes grouped into fused operators, one kernel (or one list of guarded variants) each.
 *
 * A fused operator has an anchor (a matrix product, a row operator, or none) and a program of elementwise
 * steps around it. A step is one scalar operation; its operands are loaded inputs, earlier steps, the
 * anchor's value or immediates. Everything that is not the anchor itself is a step: Gemm's alpha, beta and C,
 * the scale and bias of a normalisation, the cast to the output's type on store is not (stores round to the
 * output tensor's type).
 *
 * Steps run in the order of the list, in the precision `compute`; intermediates are not rounded to their
 * graph type except at Cast steps, as in the reference.
 *
 * The iteration space is `dims`, outermost first, and every input and output has one stride per dim
 * (elements; constant 0 = broadcast, also where the extent is the constant 1):
 *   ELEMENTWISE  dims are the output's, adjacent ones merged wherever every operand allows it.
 *   GEMM         dims are [batch..., M, N] for steps and outputs; A has strides over [batch..., M, K], B over
 *                [batch..., K, N]. Batches are merged as far as possible, and into M where B has none.
 *   ROW          dims are [R, C]: always two. An input of prologue and epilogue has strides over both.
 *                Outputs of reductions (and of their epilogues), Mean and InvStdDev have C-stride 0: one value
 *                a row.
 *
 * Everything lives in the fusion's arena. Immutable after fusion_build(). */
#pragma once
#include "generator/front/graph.h"

#define FUSED_MAX_RANK GRAPH_MAX_RANK
/* Of a product's result its kernel reduces so many to one value: columns of a row, or rows of a column, which
 * are those that one warp has of it. */
#define REDUCED_COLUMNS 64
#define REDUCED_ROWS    16

typedef enum { FUSED_ELEMENTWISE, FUSED_GEMM, FUSED_ROW } FusedKind;

typedef struct FusedInput {
  const GraphTensor *tensor;
  const Symbolic *strides[FUSED_MAX_RANK + 1]; /* over the iteration dims (GEMM's A and B: see FusedGemm) */
} FusedInput;

typedef enum {
  OPERAND_ABSENT,    /* an optional input that was not given */
  OPERAND_INPUT,     /* inputs[index], element at the iteration point */
  OPERAND_STEP,      /* result of steps[index], index < own index */
  OPERAND_ANCHOR,    /* the anchor's value at the iteration point: accumulator (index: of a dual product's
                        two), normalised or reduced value */
  OPERAND_IMMEDIATE, /* `immediate`, already rounded to `type` */
} FusedOperandKind;

typedef struct FusedOperand {
  FusedOperandKind kind;
  unsigned index;
  double immediate;
  /* Type of the value before conversion to the step's `compute`: the tensor's for INPUT and IMMEDIATE; for
   * ANCHOR and STEP what it is held in: f32, f64, s32, s64 or bool. */
  NumberType type;
} FusedOperand;

typedef struct FusedStep {
  OperatorId op; /* elementwise operator: ONNX_Add, ONNX_Gelu, ONNX_Cast ... */
  const GraphNode
      *node; /* where it came from; a step that stands for part of the anchor has the anchor's node */
  const GraphAttribute *attributes; /* in the order of operator_of(op)->attributes; NULL: takes none */
  FusedOperand *operands;
  unsigned n_operands;
  NumberType type;    /* the result's type in the graph: what a Cast rounds to; bool for comparisons */
  NumberType compute; /* what the arithmetic is done in: f32 (f16, bf16, tf32, f32, fp8), f64, s32 (s8, u8,
                         s32), s64, bool */
  bool prologue;      /* ROW: before the anchor, per element of the anchor's input */
  bool per_row;       /* ROW: the value is one per row (epilogue of a reduction) */
} FusedStep;

typedef struct FusedOutput {
  const GraphTensor *tensor;
  FusedOperand value; /* STEP, ANCHOR, or INPUT and IMMEDIATE for plain copies */
  const Symbolic *strides[FUSED_MAX_RANK + 1];
  /* ROW: which of the anchor's values, when value is ANCHOR: 0 main, 1 mean, 2 inverse standard deviation */
  unsigned anchor_output;
  /* GEMM: not the values, but parts of them reduced, by ONNX_ReduceMax, Min or Sum: each row's
   * REDUCED_COLUMNS columns, and the tensor has a column for each of these parts, of stride 1; or, `by_rows`,
   * each column's REDUCED_ROWS rows, and it has a row for each. */
  bool reduced, by_rows;
  OperatorId reduction;
} FusedOutput;

typedef struct FusedGemm {
  const Symbolic *m, *n, *k;
  unsigned n_batch; /* leading iteration dims */
  unsigned a, b;    /* inputs[] of A and B */
  bool dual;        /* a second product with the same A: ANCHOR operands of index 1 */
  unsigned b2; /* dual: inputs[] of its other operand, which lies as B does (in a transposed operator as A) */
  const Symbolic *a_batch[FUSED_MAX_RANK], *b_batch[FUSED_MAX_RANK];
  const Symbolic *a_m, *a_k, *b_k, *b_n; /* strides in elements; of each pair one is the constant 1 */
  bool a_m_major;                        /* a_m is 1 (and a_k is the leading dimension) */
  bool b_n_major;                        /* b_n is 1 (and b_k is the leading dimension) */
  NumberType a_type, b_type, acc_type;   /* acc: f32, f64 or s32 */
} FusedGemm;

typedef enum {
  ROW_SOFTMAX,
  ROW_LOG_SOFTMAX,
  ROW_LAYER_NORM, /* (x - mean) / sqrt(variance + epsilon); scale and bias are epilogue steps */
  ROW_RMS_NORM,   /* x / sqrt(mean(x^2) + epsilon); scale is an epilogue step */
  ROW_REDUCE_SUM,
  ROW_REDUCE_MEAN,
  ROW_REDUCE_MAX,
  ROW_REDUCE_MIN,
} RowKind;

typedef struct FusedRow {
  RowKind kind;
  bool reduction;                 /* one value a row comes out */
  double epsilon;                 /* normalisations */
  const Symbolic *rows, *columns; /* dims[0], dims[1] */
  FusedOperand source;            /* what the anchor reads: INPUT or a prologue STEP */
  NumberType compute;             /* type of the arithmetic */
} FusedRow;

typedef struct FusedOperator {
  FusedKind kind;
  const char *chain; /* its nodes' operators, a C identifier: "matmul_add_gelu" */
  const char *name;  /* the chain, numbered where the fusion has it several times: "softmax_1" */
  unsigned index;
  const GraphNode *anchor; /* NULL for ELEMENTWISE; of a dual product the first */
  const GraphNode **nodes; /* every graph node it computes, in graph order */
  unsigned n_nodes;
  const Symbolic *dims[FUSED_MAX_RANK + 1];
  unsigned rank;
  FusedInput *inputs;
  unsigned n_inputs;
  FusedStep *steps; /* prologue first */
  unsigned n_steps;
  FusedOutput *outputs;
  unsigned n_outputs;
  FusedGemm gemm;
  FusedRow row;
  const char **symbols; /* the run-time symbols its shapes and strides use, in the order of graph->dims */
  unsigned n_symbols;
  const unsigned *depends_on; /* fused operators whose outputs it reads */
  unsigned n_depends;
} FusedOperator;

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
