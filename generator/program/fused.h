/* A program as its family sees it: the binding of the family's parameters, computed from the program and from
 * nothing else (match_*.c).
 *
 * A fused operator has an anchor (a matrix product, a row operator, or none) and elementwise steps around it.
 * A step is one MAP of the program; its operands are loaded inputs, earlier steps, the anchor's value or
 * immediates. Everything that the family's templates do not do themselves is a step: Gemm's alpha, beta and C,
 * the scale and bias of a normalisation; the cast to the output's type on store is not (stores round to the
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
 * Everything lives in the program's arena, immutable. */
#pragma once
#include "generator/program/build.h"
#include "generator/program/program.h"

#define FUSED_MAX_RANK GRAPH_MAX_RANK
/* One for each row of families.def. */
typedef enum {
#define FAMILY(kind, ...) FUSED_##kind,
#include "generator/program/families.def"
#undef FAMILY
  FUSED_KIND_COUNT
} FusedKind;

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
  const Program *program; /* what it computes; all but names and nodes follows from it */
  FusedKind kind;         /* the family that matches the program */
  const char *chain;      /* its nodes' operators, a C identifier: "matmul_add_gelu" */
  const char *name;       /* the chain, numbered where the fusion has it several times: "softmax_1" */
  unsigned index;
  const GraphNode *anchor; /* NULL for ELEMENTWISE; of a dual product the first */
  const GraphNode **nodes; /* every graph node it computes, in graph order */
  unsigned n_nodes;
  const char **joined_by; /* of each node the rewrite that put it here; NULL: the kernel began with it */
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
