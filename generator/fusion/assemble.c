/* From a group of nodes to a fused operator: steps, inputs, outputs, iteration space. */
#include "generator/fusion/private.h"
#include <string.h>

#define WHOLE_VECTORS 16 /* elements: at least 16 bytes, whatever the type */

/* Which dims an input's strides run over before merging. */
typedef enum {
  VIEW_POINT,    /* the iteration point: base dims, broadcast */
  VIEW_ROW,      /* epilogue of a reduction: one value a row */
  VIEW_MATRIX_A, /* batches, M, K */
  VIEW_MATRIX_B, /* batches, K, N */
} View;

typedef struct {
  Fuser *fuser;
  const Group *group;
  FusedOperator *fused;
  GHashTable *values; /* tensor -> FusedOperand of what the group computes */
  GPtrArray *views;   /* of inputs, View as pointer */
  GArray *inputs, *steps, *outputs;
  /* Base dims, before merging: the anchor's or the result's shape; GEMM: [batch..., M, N] even for vectors.
   */
  const Symbolic *base[FUSED_MAX_RANK + 1];
  unsigned rank;
  uint32_t columns;  /* ROW: bit per base dim */
  bool has_m, has_n; /* GEMM: the result has them; a vector operand has not */
} Assembly;

NumberType fuser_compute(NumberType type)
{
  switch (number_class(type)) {
  case NUMBER_FLOAT: return type == NUMBER_F64 ? NUMBER_F64 : NUMBER_F32;
  case NUMBER_BOOLEAN: return NUMBER_BOOL;
  default: return number_bits(type) == 64 ? NUMBER_S64 : NUMBER_S32;
  }
}

/* ---- operands and steps ---- */

static unsigned add_input(Assembly *at, const GraphTensor *tensor, View view)
{
  for (unsigned i = 0; view == VIEW_POINT && i < at->inputs->len; i++)
    if (g_array_index(at->inputs, FusedInput, i).tensor == tensor &&
        GPOINTER_TO_UINT(at->views->pdata[i]) == view)
      return i;
  FusedInput input = {.tensor = tensor};
  g_array_append_val(at->inputs, input);
  g_ptr_array_add(at->views, GUINT_TO_POINTER(view));
  return at->inputs->len - 1;
}

static FusedOperand immediate(double value, NumberType type)
{
  return (FusedOperand){OPERAND_IMMEDIATE, 0, value, type};
}

static FusedOperand operand_of(Assembly *at, const GraphTensor *tensor, View view)
{
  double value;
  if (!tensor) return (FusedOperand){.kind = OPERAND_ABSENT};
  FusedOperand *known = g_hash_table_lookup(at->values, tensor);
  if (known) return *known;
  if (graph_scalar(tensor, &value)) return immediate(value, tensor->type);
  return (FusedOperand){OPERAND_INPUT, add_input(at, tensor, view), 0, tensor->type};
}

static void set_value(Assembly *at, const GraphTensor *tensor, FusedOperand value)
{
  FusedOperand *stored = arena_memdup(at->fuser->arena, &value, sizeof value);
  g_hash_table_insert(at->values, (void *)tensor, stored);
}

static FusedOperand add_step(Assembly *at, FusedStep step, const FusedOperand *operands, unsigned n)
{
  step.operands = arena_memdup(at->fuser->arena, operands, n * sizeof *operands);
  step.n_operands = n;
  step.per_row = at->fused->kind == FUSED_ROW && at->fused->row.reduction && !step.prologue;
  g_array_append_val(at->steps, step);
  return (FusedOperand){OPERAND_STEP, at->steps->len - 1, 0, fuser_compute(step.type)};
}

/* One step of an operator that several make up. */
static FusedOperand part_step(Assembly *at, const GraphNode *node, OperatorId op, NumberType compute,
                              bool prologue, FusedOperand a, FusedOperand b)
{
  FusedStep step = {.op = op, .node = node, .type = compute, .compute = compute, .prologue = prologue};
  return add_step(at, step, (FusedOperand[]){a, b}, b.kind == OPERAND_ABSENT ? 1 : 2);
}

/* (x - zero point) scale; the zero point of 8-bit floats is 0. */
static FusedOperand add_dequantize(Assembly *at, const GraphNode *node, FusedOperand x, FusedOperand scale,
                                   FusedOperand zero, bool prologue)
{
  bool integer = number_class(node->inputs[0]->type) != NUMBER_FLOAT;
  if (integer && zero.kind != OPERAND_ABSENT)
    x = part_step(at, node, ONNX_Sub, NUMBER_S32, prologue, x, zero);
  return part_step(at, node, ONNX_Mul, NUMBER_F32, prologue, x, scale);
}

#define LARGEST_FACTOR 0x1p127

/* 1 / scale, by which to multiply instead of dividing by the scale. Where that would overflow,
 * LARGEST_FACTOR: results of 8 bits then saturate or are 0 as the quotient does or is. x / 0 is infinite or,
 * of 0, no number. */
static FusedOperand quantizing_factor(Assembly *at, const GraphNode *node, FusedOperand scale, bool prologue)
{
  if (scale.kind == OPERAND_IMMEDIATE) {
    double inverse = 1 / scale.immediate;
    if (scale.immediate != 0) inverse = CLAMP(inverse, -LARGEST_FACTOR, LARGEST_FACTOR);
    return immediate((double)(float)inverse, NUMBER_F32);
  }
  static const FusedOperand none = {.kind = OPERAND_ABSENT};
  FusedOperand most = immediate(LARGEST_FACTOR, NUMBER_F32), least = immediate(-LARGEST_FACTOR, NUMBER_F32);
  FusedOperand inverse = part_step(at, node, ONNX_Reciprocal, NUMBER_F32, prologue, scale, none);
  FusedOperand above = part_step(at, node, ONNX_Max, NUMBER_F32, prologue, inverse, least);
  FusedOperand bounded = part_step(at, node, ONNX_Min, NUMBER_F32, prologue, above, most);
  FusedStep equal = {
      .op = ONNX_Equal, .node = node, .type = NUMBER_BOOL, .compute = NUMBER_F32, .prologue = prologue};
  FusedOperand zero = add_step(at, equal, (FusedOperand[]){scale, immediate(0, NUMBER_F32)}, 2);
  FusedStep choose = {
      .op = ONNX_Where, .node = node, .type = NUMBER_F32, .compute = NUMBER_F32, .prologue = prologue};
  return add_step(at, choose, (FusedOperand[]){zero, inverse, bounded}, 3);
}

/* x / scale, for integers rounded and moved by the zero point; the Cast saturates. A result of 8 bits does
 * not show that the quotient was made by a product with 1 / scale, but an integer must not be off by one. */
static FusedOperand add_quantize(Assembly *at, const GraphNode *node, FusedOperand x, FusedOperand scale,
                                 FusedOperand zero, bool prologue)
{
  static const FusedOperand none = {.kind = OPERAND_ABSENT};
  NumberType type = node->outputs[0]->type;
  bool integer = number_class(type) != NUMBER_FLOAT;
  if (!integer) scale = quantizing_factor(at, node, scale, prologue);
  x = part_step(at, node, integer ? ONNX_Div : ONNX_Mul, NUMBER_F32, prologue, x, scale);
  if (integer) {
    x = part_step(at, node, ONNX_Round, NUMBER_F32, prologue, x, none);
    if (zero.kind != OPERAND_ABSENT) x = part_step(at, node, ONNX_Add, NUMBER_F32, prologue, x, zero);
  }
  const GraphAttribute *saturate = graph_attribute_find(node, "saturate");
  const Operator *row = operator_of(ONNX_Cast);
  GraphAttribute *attributes = arena_new_array(at->fuser->arena, GraphAttribute, row->n_attributes);
  attributes[operator_attribute_index(row, "saturate")].integer = saturate ? saturate->integer : 1;
  attributes[operator_attribute_index(row, "to")].integer = type;
  FusedStep cast = {.op = ONNX_Cast,
                    .node = node,
                    .attributes = attributes,
                    .type = type,
                    .compute = NUMBER_F32,
                    .prologue = prologue};
  return add_step(at, cast, &x, 1);
}

static void add_elementwise(Assembly *at, const GraphNode *node, bool prologue)
{
  bool per_row = at->fused->kind == FUSED_ROW && at->fused->row.reduction && !prologue;
  View view = per_row ? VIEW_ROW : VIEW_POINT;
  g_autofree FusedOperand *operands = g_new0(FusedOperand, node->n_inputs + 2);
  unsigned n = node->n_inputs;
  for (unsigned i = 0; i < node->n_inputs; i++)
    operands[i] = operand_of(at, node->inputs[i], view);
  if (node->op->id == ONNX_Identity) {
    set_value(at, node->outputs[0], operands[0]);
    return;
  }
  if (node->op->shape_rule == SHAPE_RULE_QUANTIZE) {
    FusedOperand zero = n > 2 ? operands[2] : (FusedOperand){.kind = OPERAND_ABSENT};
    bool back = node->op->id == ONNX_DequantizeLinear;
    FusedOperand (*add)(Assembly *, const GraphNode *, FusedOperand, FusedOperand, FusedOperand, bool) =
        back ? add_dequantize : add_quantize;
    set_value(at, node->outputs[0], add(at, node, operands[0], operands[1], zero, prologue));
    return;
  }
  if (node->op->id == ONNX_Clip && node->op->n_attributes) { /* older versions: bounds are attributes */
    operands[n++] = immediate(graph_attribute(node, "min")->number, NUMBER_F32);
    operands[n++] = immediate(graph_attribute(node, "max")->number, NUMBER_F32);
  }
  NumberType source = node->inputs[node->op->id == ONNX_Where ? 1 : 0]->type;
  FusedStep step = {.op = node->op->id,
                    .node = node,
                    .attributes = n == node->n_inputs && node->op->n_attributes ? node->attributes : NULL,
                    .type = node->outputs[0]->type,
                    .compute = fuser_compute(source),
                    .prologue = prologue};
  set_value(at, node->outputs[0], add_step(at, step, operands, n));
}

/* A step that stands for a part of the anchor. */
static FusedOperand anchor_step(Assembly *at, OperatorId op, FusedOperand a, FusedOperand b)
{
  NumberType compute = at->fused->row.compute;
  if (at->fused->kind == FUSED_GEMM) compute = fuser_compute(at->group->anchor->outputs[0]->type);
  FusedStep step = {.op = op, .node = at->group->anchor, .type = compute, .compute = compute};
  return add_step(at, step, (FusedOperand[]){a, b}, 2);
}

/* ---- anchors ---- */

/* A product's result by the scales of its operands. Two numbers are multiplied first: one multiplication less
 * of each result, which would keep the tensor cores of another warpgroup waiting. */
static FusedOperand add_scales(Assembly *at, const GraphNode *node, FusedOperand value)
{
  const GraphTensor *const *scales = (const GraphTensor *const *)node->inputs + PRODUCT_SCALES;
  unsigned n = node->n_inputs > PRODUCT_SCALES ? node->n_inputs - PRODUCT_SCALES : 0;
  FusedOperand operands[2];
  for (unsigned i = 0; i < n; i++)
    operands[i] = operand_of(at, scales[i], VIEW_POINT);
  if (n == 2 && graph_has_one_element(scales[0]) && graph_has_one_element(scales[1])) {
    bool known = operands[0].kind == OPERAND_IMMEDIATE && operands[1].kind == OPERAND_IMMEDIATE;
    operands[0] = known ? immediate((float)(operands[0].immediate * operands[1].immediate), NUMBER_F32)
                        : part_step(at, node, ONNX_Mul, NUMBER_F32, false, operands[0], operands[1]);
    n = 1;
  }
  for (unsigned i = 0; i < n; i++)
    value = part_step(at, node, ONNX_Mul, NUMBER_F32, false, value, operands[i]);
  return value;
}

/* The product, or the second one of two. */
static void add_gemm(Assembly *at, const GraphNode *node)
{
  FusedGemm *gemm = &at->fused->gemm;
  bool second = node == at->group->second;
  if (second) {
    gemm->dual = true;
    gemm->b2 = add_input(at, node->inputs[1], VIEW_MATRIX_B);
  } else {
    gemm->a_type = node->inputs[0]->type;
    gemm->b_type = node->inputs[1]->type;
    bool integer = number_class(gemm->a_type) != NUMBER_FLOAT;
    gemm->acc_type = integer ? fuser_compute(gemm->a_type) : fuser_compute(node->outputs[0]->type);
    gemm->a = add_input(at, node->inputs[0], VIEW_MATRIX_A);
    gemm->b = add_input(at, node->inputs[1], VIEW_MATRIX_B);
  }
  FusedOperand value = {OPERAND_ANCHOR, second, 0, gemm->acc_type};
  value = add_scales(at, node, value);
  if (node->op->id == ONNX_Gemm) {
    double alpha = graph_attribute(node, "alpha")->number, beta = graph_attribute(node, "beta")->number;
    if (alpha != 1) value = anchor_step(at, ONNX_Mul, value, immediate(alpha, NUMBER_F32));
    if (node->n_inputs > 2 && node->inputs[2] && beta != 0) {
      FusedOperand c = operand_of(at, node->inputs[2], VIEW_POINT);
      if (beta != 1) c = anchor_step(at, ONNX_Mul, c, immediate(beta, NUMBER_F32));
      value = anchor_step(at, ONNX_Add, value, c);
    }
  }
  set_value(at, node->outputs[0], value);
}

static void set_row_kind(const GraphNode *node, FusedRow *row)
{
  switch (node->op->id) {
  case ONNX_Softmax: row->kind = ROW_SOFTMAX; break;
  case ONNX_LogSoftmax: row->kind = ROW_LOG_SOFTMAX; break;
  case ONNX_LayerNormalization: row->kind = ROW_LAYER_NORM; break;
  case ONNX_RMSNormalization: row->kind = ROW_RMS_NORM; break;
  case ONNX_ReduceSum: row->kind = ROW_REDUCE_SUM; break;
  case ONNX_ReduceMean: row->kind = ROW_REDUCE_MEAN; break;
  case ONNX_ReduceMax: row->kind = ROW_REDUCE_MAX; break;
  case ONNX_ReduceMin: row->kind = ROW_REDUCE_MIN; break;
  default: g_error("%s is not a row operator", node->op->name);
  }
  row->reduction = row->kind >= ROW_REDUCE_SUM;
  bool norm = row->kind == ROW_LAYER_NORM || row->kind == ROW_RMS_NORM;
  row->epsilon = norm ? graph_attribute(node, "epsilon")->number : 0;
  row->compute = fuser_compute(node->inputs[0]->type);
}

static void add_row(Assembly *at)
{
  const GraphNode *node = at->group->anchor;
  FusedRow *row = &at->fused->row;
  row->source = operand_of(at, node->inputs[0], VIEW_POINT);
  FusedOperand value = {OPERAND_ANCHOR, 0, 0, row->compute};
  if (node->op->shape_rule == SHAPE_RULE_NORM) {
    value = anchor_step(at, ONNX_Mul, value, operand_of(at, node->inputs[1], VIEW_POINT));
    if (node->n_inputs > 2 && node->inputs[2])
      value = anchor_step(at, ONNX_Add, value, operand_of(at, node->inputs[2], VIEW_POINT));
  }
  if (at->group->mean_of)
    value = anchor_step(at, ONNX_Div, value, immediate((double)at->group->mean_of, NUMBER_F32));
  set_value(at, node->outputs[0], value);
}

/* ---- base dims ---- */

static void set_base(Assembly *at)
{
  const Group *group = at->group;
  const GraphNode *node = group->anchor;
  if (!node) node = group->nodes->pdata[group->nodes->len - 1];
  const GraphTensor *shaped = group->kind == FUSED_ROW ? node->inputs[0] : node->outputs[0];
  at->rank = shaped->rank;
  memcpy(at->base, shaped->shape, shaped->rank * sizeof *shaped->shape);
  if (group->kind == FUSED_ROW) at->columns = node->axes;
  if (group->kind != FUSED_GEMM) return;
  const Symbolic *one = symbolic_constant(at->fuser->arena, 1);
  at->has_m = node->inputs[0]->rank > 1;
  at->has_n = node->inputs[1]->rank > 1;
  unsigned batches = shaped->rank - at->has_m - at->has_n;
  at->rank = batches + 2;
  at->base[batches + 1] = at->has_n ? shaped->shape[shaped->rank - 1] : one;
  at->base[batches] = at->has_m ? shaped->shape[batches] : one;
}

/* Strides over the base dims of a tensor that broadcasts to a GEMM's result, which may lack M or N. */
static void gemm_point_strides(const Assembly *at, const GraphTensor *tensor, const Symbolic **strides)
{
  Arena *arena = at->fuser->arena;
  const Symbolic *dims[FUSED_MAX_RANK + 1], *own[FUSED_MAX_RANK + 1];
  unsigned batches = at->rank - 2, n = batches;
  memcpy(dims, at->base, batches * sizeof *dims);
  if (at->has_m) dims[n++] = at->base[batches];
  if (at->has_n) dims[n++] = at->base[batches + 1];
  space_broadcast(arena, tensor, dims, n, own);
  memcpy(strides, own, batches * sizeof *own);
  strides[batches] = at->has_m ? own[batches] : symbolic_constant(arena, 0);
  strides[batches + 1] = at->has_n ? own[batches + at->has_m] : symbolic_constant(arena, 0);
}

/* Strides over the base dims of a tensor that broadcasts to a reduction's result. */
static void row_result_strides(const Assembly *at, const GraphTensor *tensor, const Symbolic **strides)
{
  Arena *arena = at->fuser->arena;
  const Symbolic *dims[FUSED_MAX_RANK + 1], *own[FUSED_MAX_RANK + 1];
  const GraphTensor *result = at->group->anchor->outputs[0];
  memcpy(dims, result->shape, result->rank * sizeof *dims);
  space_broadcast(arena, tensor, dims, result->rank, own);
  for (unsigned i = 0, from = 0; i < at->rank; i++) {
    bool column = at->columns >> i & 1;
    strides[i] = column ? symbolic_constant(arena, 0) : own[from];
    from += !column || result->rank == at->rank;
  }
}

/* Strides over [batch..., rows, columns] of a matrix operand; a vector lacks rows (A) or columns (B). */
static void matrix_strides(const Assembly *at, const GraphTensor *tensor, bool is_b, const Symbolic **strides)
{
  Arena *arena = at->fuser->arena;
  const GraphNode *node = at->group->anchor;
  const Symbolic *zero = symbolic_constant(arena, 0);
  unsigned batches = at->rank - 2, own_batches = tensor->rank > 2 ? tensor->rank - 2 : 0;
  for (unsigned i = 0; i < batches; i++) {
    unsigned from_last = batches - i;
    bool has = from_last <= own_batches;
    unsigned own = has ? own_batches - from_last : 0;
    bool walks = has && !symbolic_equals(tensor->shape[own], 1);
    strides[i] = walks ? tensor->strides[own] : zero;
  }
  const Symbolic **row = &strides[batches], **column = &strides[batches + 1];
  if (tensor->rank == 1) {
    *row = is_b ? tensor->strides[0] : zero;
    *column = is_b ? zero : tensor->strides[0];
  } else {
    *row = tensor->strides[tensor->rank - 2];
    *column = tensor->strides[tensor->rank - 1];
  }
  bool transposed = node->op->id == ONNX_Gemm && graph_attribute(node, is_b ? "transB" : "transA")->integer;
  if (!transposed) return;
  const Symbolic *swapped = *row;
  *row = *column;
  *column = swapped;
}

/* ---- merging ---- */

/* All inputs, then all outputs, over the base dims. A GEMM's A and B take part with their batches only. */
static void fill_space(Assembly *at, Space *space)
{
  Arena *arena = at->fuser->arena;
  space_init(arena, space, at->rank, at->base, at->inputs->len + at->outputs->len);
  const Symbolic *strides[FUSED_MAX_RANK + 1];
  for (unsigned i = 0; i < space->n_operands; i++) {
    bool input = i < at->inputs->len;
    const GraphTensor *tensor = input ? g_array_index(at->inputs, FusedInput, i).tensor
                                      : g_array_index(at->outputs, FusedOutput, i - at->inputs->len).tensor;
    View view = input ? GPOINTER_TO_UINT(at->views->pdata[i]) : VIEW_POINT;
    bool reduced = at->group->kind == FUSED_ROW && at->fused->row.reduction;
    if (view == VIEW_MATRIX_A || view == VIEW_MATRIX_B) {
      matrix_strides(at, tensor, view == VIEW_MATRIX_B, strides);
      const Symbolic *zero = symbolic_constant(arena, 0);
      /* Along M only A moves, along N only B. */
      if (view == VIEW_MATRIX_A)
        strides[at->rank - 1] = zero;
      else
        strides[at->rank - 2] = zero;
    } else if (at->group->kind == FUSED_GEMM) {
      gemm_point_strides(at, tensor, strides);
      bool reduced = !input && g_array_index(at->outputs, FusedOutput, i - at->inputs->len).reduced;
      /* also where it has one column, or one row */
      if (reduced) strides[at->rank - 1] = symbolic_constant(arena, 1);
      if (reduced && tensor->rank >= 2) strides[at->rank - 2] = tensor->strides[tensor->rank - 2];
    } else if (view == VIEW_ROW || (!input && reduced)) {
      row_result_strides(at, tensor, strides);
    } else {
      space_broadcast(arena, tensor, at->base, at->rank, strides);
    }
    for (unsigned d = 0; d < at->rank; d++)
      space->strides[d][i] = strides[d];
  }
}

static void take_space(Assembly *at, const Space *space)
{
  FusedOperator *fused = at->fused;
  fused->rank = space->rank;
  memcpy(fused->dims, space->dims, space->rank * sizeof *space->dims);
  for (unsigned d = 0; d < space->rank; d++) {
    for (unsigned i = 0; i < at->inputs->len; i++)
      g_array_index(at->inputs, FusedInput, i).strides[d] = space->strides[d][i];
    for (unsigned i = 0; i < at->outputs->len; i++)
      g_array_index(at->outputs, FusedOutput, i).strides[d] = space->strides[d][at->inputs->len + i];
  }
}

/* A matrix that lies column by column and is stored so is walked so too: its contiguous dimension goes last.
 */
static void walk_along_memory(const Assembly *at, Space *space)
{
  unsigned last = space->rank, result = at->inputs->len; /* the first output follows the inputs */
  for (unsigned d = 0; d < space->rank; d++)
    if (symbolic_equals(space->strides[d][result], 1) && symbolic_equals(space->strides[d][0], 1)) last = d;
  if (!at->inputs->len || last + 1 >= space->rank || symbolic_equals(space->dims[last], 1)) return;
  const Symbolic *dim = space->dims[last], **strides = space->strides[last];
  for (unsigned d = last; d + 1 < space->rank; d++) {
    space->dims[d] = space->dims[d + 1];
    space->strides[d] = space->strides[d + 1];
  }
  space->dims[space->rank - 1] = dim;
  space->strides[space->rank - 1] = strides;
}

static void settle_elementwise(Assembly *at, Space *space)
{
  walk_along_memory(at, space);
  if (!space_merge(at->fuser->arena, space, 0, space->rank)) space_insert(at->fuser->arena, space, 0);
}

/* Rows and columns to one dim each; false if an operand does not allow it. */
static bool settle_row(Assembly *at, Space *space)
{
  Arena *arena = at->fuser->arena;
  /* Axes of extent 1 may stand anywhere: bring the columns to the end. */
  Space sorted = *space;
  unsigned rows = 0, n = 0;
  for (unsigned part = 0; part < 2; part++) {
    for (unsigned d = 0; d < space->rank; d++)
      if ((at->columns >> d & 1) == part) {
        sorted.dims[n] = space->dims[d];
        sorted.strides[n++] = space->strides[d];
      }
    if (!part) rows = n;
  }
  *space = sorted;
  unsigned n_columns = space_merge(arena, space, rows, space->rank);
  unsigned n_rows = space_merge(arena, space, 0, rows);
  if (n_rows > 1 || n_columns > 1) return false;
  if (!n_columns) space_insert(arena, space, space->rank);
  if (!n_rows) space_insert(arena, space, 0);
  at->fused->row.rows = space->dims[0];
  at->fused->row.columns = space->dims[1];
  return true;
}

/* A single row has any leading dimension: its own where rows begin at whole vectors, as those of a padded
 * copy do, else the one of a dense matrix. */
static const Symbolic *leading_dimension(const Fuser *fuser, const Symbolic *own, const Symbolic *extent)
{
  bool usable = !symbolic_equals(own, 0) && symbolic_divisible(own, WHOLE_VECTORS, &fuser->graph->facts);
  return usable ? own : extent;
}

/* Of each pair one stride is the constant 1; an extent of 1 takes what is needed. */
static void settle_pair(const Fuser *fuser, const Symbolic **outer, const Symbolic **inner,
                        const Symbolic *outer_extent, const Symbolic *inner_extent, bool *outer_is_unit)
{
  Arena *arena = fuser->arena;
  bool unit = symbolic_equals(*inner, 1);
  if (!unit && symbolic_equals(inner_extent, 1) && !symbolic_equals(*outer, 1)) {
    *inner = symbolic_constant(arena, 1);
    unit = true;
  }
  *outer_is_unit = !unit;
  if (!unit && !symbolic_equals(*outer, 1)) *outer = symbolic_constant(arena, 1); /* its extent is 1 */
  if (unit && symbolic_equals(outer_extent, 1)) *outer = leading_dimension(fuser, *outer, inner_extent);
  if (!unit && symbolic_equals(inner_extent, 1)) *inner = leading_dimension(fuser, *inner, outer_extent);
}

/* The last batch dim may become rows: B does not move along it, and A's rows keep a unit stride. */
static bool rows_take_batch(const Space *space, const FusedGemm *gemm, unsigned m)
{
  bool b_stays = symbolic_equals(space->strides[m - 1][gemm->b], 0);
  return b_stays && (!symbolic_equals(space->dims[m], 1) || symbolic_equals(gemm->a_k, 1));
}

static void settle_gemm(Assembly *at, Space *space)
{
  Arena *arena = at->fuser->arena;
  FusedGemm *gemm = &at->fused->gemm;
  const GraphTensor *a = g_array_index(at->inputs, FusedInput, gemm->a).tensor;
  const GraphTensor *b = g_array_index(at->inputs, FusedInput, gemm->b).tensor;
  const Symbolic *a_strides[FUSED_MAX_RANK + 1], *b_strides[FUSED_MAX_RANK + 1];
  matrix_strides(at, a, false, a_strides);
  matrix_strides(at, b, true, b_strides);
  unsigned batches = at->rank - 2;
  gemm->a_m = a_strides[batches];
  gemm->a_k = a_strides[batches + 1];
  gemm->b_k = b_strides[batches];
  gemm->b_n = b_strides[batches + 1];
  bool a_transposed =
      at->group->anchor->op->id == ONNX_Gemm && graph_attribute(at->group->anchor, "transA")->integer;
  gemm->k = a->shape[a->rank - (a_transposed ? 2 : 1)];
  gemm->n_batch = space_merge(arena, space, 0, batches);
  /* Batches that B does not have are more rows, where everything walks on evenly. B has stride 0 along M. */
  unsigned m = gemm->n_batch;
  if (m && rows_take_batch(space, gemm, m) && space_merge(arena, space, m - 1, m + 1) == 1) gemm->n_batch--;
  if (gemm->n_batch < m) gemm->a_m = space->strides[gemm->n_batch][gemm->a];
  gemm->m = space->dims[gemm->n_batch];
  gemm->n = space->dims[gemm->n_batch + 1];
  for (unsigned i = 0; i < gemm->n_batch; i++) {
    gemm->a_batch[i] = space->strides[i][gemm->a];
    gemm->b_batch[i] = space->strides[i][gemm->b];
  }
  settle_pair(at->fuser, &gemm->a_m, &gemm->a_k, gemm->m, gemm->k, &gemm->a_m_major);
  bool k_is_unit;
  settle_pair(at->fuser, &gemm->b_k, &gemm->b_n, gemm->k, gemm->n, &k_is_unit);
  gemm->b_n_major = !k_is_unit;
}

/* ---- outputs, symbols, names ---- */

/* Some node that is not inside reads the tensor, or a view of it. Before grouping, when who reads a node's
 * results comes behind it, nobody does. */
static bool is_read_outside(const Fuser *fuser, const GraphTensor *tensor, GHashTable *inside)
{
  const GPtrArray *readers = fuser->readers ? fuser->readers[tensor->index] : NULL;
  for (unsigned i = 0; readers && i < readers->len; i++)
    if (!g_hash_table_contains(inside, readers->pdata[i])) return true;
  return false;
}

/* Tensors that the graph gives or that nodes of other groups read. */
static void add_outputs(Assembly *at)
{
  const Group *group = at->group;
  g_autoptr(GHashTable) inside = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < group->nodes->len; i++)
    g_hash_table_add(inside, group->nodes->pdata[i]);
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_outputs; j++) {
      const GraphTensor *tensor = node->outputs[j];
      if (!tensor) continue;
      if (!tensor->is_output && !is_read_outside(at->fuser, tensor, inside)) continue;
      bool reduced = group->kind == FUSED_GEMM && node->op->class_ == OPERATOR_ROW;
      FusedOutput output = {.tensor = tensor,
                            .anchor_output = node == group->anchor ? j : 0,
                            .reduced = reduced,
                            .by_rows = reduced && !(node->axes >> (node->inputs[0]->rank - 1) & 1),
                            .reduction = node->op->id};
      FusedOperand *value = g_hash_table_lookup(at->values, tensor);
      output.value = value ? *value : (FusedOperand){OPERAND_ANCHOR, 0, 0, NUMBER_F32};
      g_array_append_val(at->outputs, output);
    }
  }
}

static void mark_symbol(const Symbolic *leaf, void *data)
{
  if (leaf->kind == SYMBOLIC_SYMBOL) g_hash_table_add(data, (void *)leaf->name);
}

static void add_symbols(Assembly *at)
{
  FusedOperator *fused = at->fused;
  const Graph *graph = at->fuser->graph;
  g_autoptr(GHashTable) used = g_hash_table_new(g_str_hash, g_str_equal);
  for (unsigned d = 0; d < fused->rank; d++) {
    symbolic_visit(fused->dims[d], mark_symbol, used);
    for (unsigned i = 0; i < at->inputs->len; i++)
      symbolic_visit(g_array_index(at->inputs, FusedInput, i).strides[d], mark_symbol, used);
  }
  if (fused->kind == FUSED_GEMM) {
    const FusedGemm *gemm = &fused->gemm;
    const Symbolic *const more[] = {gemm->k, gemm->a_m, gemm->a_k, gemm->b_k, gemm->b_n};
    for (unsigned i = 0; i < G_N_ELEMENTS(more); i++)
      symbolic_visit(more[i], mark_symbol, used);
  }
  fused->symbols = arena_new_array(at->fuser->arena, const char *, graph->n_dims);
  for (unsigned i = 0; i < graph->n_dims; i++)
    if (g_hash_table_contains(used, graph->dims[i].name))
      fused->symbols[fused->n_symbols++] = graph->dims[i].name;
}

static void take_lists(Assembly *at)
{
  FusedOperator *fused = at->fused;
  Arena *arena = at->fuser->arena;
  fused->n_inputs = at->inputs->len;
  fused->inputs = arena_memdup(arena, at->inputs->data, at->inputs->len * sizeof(FusedInput));
  fused->n_steps = at->steps->len;
  fused->steps = arena_memdup(arena, at->steps->data, at->steps->len * sizeof(FusedStep));
  fused->n_outputs = at->outputs->len;
  fused->outputs = arena_memdup(arena, at->outputs->data, at->outputs->len * sizeof(FusedOutput));
  fused->n_nodes = at->group->nodes->len;
  fused->nodes = arena_memdup(arena, at->group->nodes->pdata, fused->n_nodes * sizeof(GraphNode *));
}

static void add_nodes(Assembly *at)
{
  const Group *group = at->group;
  bool before = group->kind == FUSED_ROW;
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    if (group->kind == FUSED_GEMM && node->op->class_ == OPERATOR_ROW) {
      set_value(at, node->outputs[0], operand_of(at, node->inputs[0], VIEW_POINT));
      continue;
    }
    if (node != group->anchor && node != group->second) {
      add_elementwise(at, node, before && node->index < group->anchor->index);
      continue;
    }
    before = false;
    if (group->kind == FUSED_GEMM)
      add_gemm(at, node);
    else
      add_row(at);
  }
}

FusedOperator *fuser_assemble(Fuser *fuser, const Group *group)
{
  FusedOperator *fused = arena_new_object(fuser->arena, FusedOperator);
  g_autoptr(GHashTable) values = g_hash_table_new(NULL, NULL);
  g_autoptr(GPtrArray) views = g_ptr_array_new();
  g_autoptr(GArray) inputs = g_array_new(FALSE, TRUE, sizeof(FusedInput));
  g_autoptr(GArray) steps = g_array_new(FALSE, TRUE, sizeof(FusedStep));
  g_autoptr(GArray) outputs = g_array_new(FALSE, TRUE, sizeof(FusedOutput));
  Assembly at = {.fuser = fuser,
                 .group = group,
                 .fused = fused,
                 .values = values,
                 .views = views,
                 .inputs = inputs,
                 .steps = steps,
                 .outputs = outputs};
  fused->kind = group->kind;
  fused->anchor = group->anchor;
  if (group->kind == FUSED_ROW) set_row_kind(group->anchor, &fused->row);
  set_base(&at);
  add_nodes(&at);
  add_outputs(&at);
  Space space;
  fill_space(&at, &space);
  if (group->kind == FUSED_ELEMENTWISE) settle_elementwise(&at, &space);
  if (group->kind == FUSED_GEMM) settle_gemm(&at, &space);
  if (group->kind == FUSED_ROW && !settle_row(&at, &space)) return NULL;
  take_space(&at, &space);
  take_lists(&at);
  add_symbols(&at);
  return fused;
}
