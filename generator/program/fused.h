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
 *                a row. A row program's dims are [rows..., C]: as many dims of rows as do not merge.
 *
 * Everything lives in the program's arena, immutable. */
#pragma once
#include "generator/program/build.h"
#include "generator/program/program.h"

#define FUSED_MAX_RANK GRAPH_MAX_RANK

struct Family; /* generator/program/family.h */

typedef struct FusedInput {
  const GraphTensor *tensor;
  const Symbolic
      *strides[FUSED_MAX_RANK + 1]; /* over the iteration dims; of a contraction's operands see gemm.h */
  int64_t every; /* of row programs: one element of it is for so many of the last dim; 0: for each */
} FusedInput;

typedef enum {
  OPERAND_ABSENT, /* an optional input that was not given */
  OPERAND_INPUT,  /* inputs[index], element at the iteration point */
  OPERAND_STEP,   /* result of steps[index], index < own index */
  OPERAND_ANCHOR, /* the anchor's value at the iteration point: accumulator (index: of a dual product's
                        two), normalised or reduced value */
  OPERAND_INDEX, /* what follows from where a point or a score lies: values[index], indices[index] of the binding */
  OPERAND_IMMEDIATE, /* `immediate`, already rounded to `type` */
  OPERAND_REDUCED,   /* row programs: result `index` of all that their reductions have, in order */
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
  unsigned at;        /* its node of the program */
} FusedStep;

typedef struct FusedOutput {
  const GraphTensor *tensor;
  FusedOperand value; /* STEP, ANCHOR, or INPUT and IMMEDIATE for plain copies */
  const Symbolic *strides[FUSED_MAX_RANK + 1];
  /* Which of the anchor's values, when value is ANCHOR: of TOP 0 elements, 1 their places */
  unsigned anchor_output;
  /* GEMM: not the values, but parts of them reduced, by ONNX_ReduceMax, Min or Sum: each row's
   * `width` (REDUCED_COLUMNS) columns, and the tensor has a column for each of these parts, of stride 1; or, `by_rows`,
   * each column's REDUCED_ROWS rows, and it has a row for each. ROW: the same of as many rows as a block takes. */
  bool reduced, by_rows;
  int64_t width;
  OperatorId reduction;
  int64_t every; /* as of inputs */
} FusedOutput;

typedef struct FusedOperator {
  const Program *program;      /* what it computes; all but names and nodes follows from it */
  const struct Family *family; /* that matches the program */
  const void *binding; /* what the family needs besides, of its own type (gemm.h, row.h); NULL: nothing */
  const char *chain;   /* its nodes' operators, a C identifier: "matmul_add_gelu" */
  const char *name;    /* the chain, numbered where the fusion has it several times: "softmax_1" */
  unsigned index;
  const GraphNode *anchor; /* what its reduction came from; of two the first; NULL: there is none */
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
  const char **symbols; /* the run-time symbols its shapes and strides use, in the order of graph->dims */
  unsigned n_symbols;
  const GraphTimes
      *times; /* its first dim is the times of a loop, which one kernel walks (times.h); NULL: it has none */
  const unsigned *depends_on; /* fused operators whose outputs it reads */
  unsigned n_depends;
} FusedOperator;

/* A reduction is computed from the step's value: it is of the prologue. */
bool fused_step_is_in_front(const FusedOperator *op, const FusedStep *step);
/* Behind a reduction of rows that leaves one value of each, as the step's own is. */
bool fused_step_is_per_row(const FusedOperator *op, const FusedStep *step);
/* Does a product take what a softmax gives? */
bool fused_takes_weights(const FusedOperator *op);
/* A contraction takes the input: where its elements lie says the binding. */
bool fused_is_contracted(const FusedOperator *op, unsigned input);
/* And is it widened to the other operand's type before? */
bool fused_is_widened(const FusedOperator *op, unsigned input);
/* Does an output take parts of the results together? */
bool fused_is_reduced(const FusedOperator *op);
/* Nothing is computed: elements are stored as they are read. */
bool fused_is_copy(const FusedOperator *op);
/* Text for tests and --explain; g_free. */
char *fused_dump(const FusedOperator *fused);
