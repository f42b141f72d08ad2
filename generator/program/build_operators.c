/* What operators of the graph are as nodes of a program. */
#include "generator/program/build_private.h"
#include <math.h>
#include <string.h>

static const ProgramValue none = {.kind = VALUE_ABSENT};

/* ---- steps ---- */

/* One operation of an operator that several make up. */
static ProgramValue part(ProgramBuilder *at, const GraphNode *source, OperatorId op, NumberType compute,
                         ProgramValue a, ProgramValue b)
{
  return program_add_map(at, source, op, compute, compute, (ProgramValue[]){a, b},
                         b.kind == VALUE_ABSENT ? 1 : 2);
}

/* (x - zero point) scale; the zero point of 8-bit floats is 0. */
static ProgramValue add_dequantize(ProgramBuilder *at, const GraphNode *node, ProgramValue x,
                                   ProgramValue scale, ProgramValue zero)
{
  bool integer = number_class(node->inputs[0]->type) != NUMBER_FLOAT;
  if (integer && zero.kind != VALUE_ABSENT) x = part(at, node, ONNX_Sub, NUMBER_S32, x, zero);
  return part(at, node, ONNX_Mul, NUMBER_F32, x, scale);
}

#define LARGEST_FACTOR 0x1p127

/* 1 / scale, by which to multiply instead of dividing by the scale. Where that would overflow,
 * LARGEST_FACTOR: results of 8 bits then saturate or are 0 as the quotient does or is. x / 0 is infinite or,
 * of 0, no number. */
static ProgramValue quantizing_factor(ProgramBuilder *at, const GraphNode *node, ProgramValue scale)
{
  if (scale.kind == VALUE_IMMEDIATE) {
    double inverse = 1 / scale.immediate;
    if (scale.immediate != 0) inverse = CLAMP(inverse, -LARGEST_FACTOR, LARGEST_FACTOR);
    return program_immediate((double)(float)inverse, NUMBER_F32);
  }
  ProgramValue most = program_immediate(LARGEST_FACTOR, NUMBER_F32);
  ProgramValue least = program_immediate(-LARGEST_FACTOR, NUMBER_F32);
  ProgramValue inverse = part(at, node, ONNX_Reciprocal, NUMBER_F32, scale, none);
  ProgramValue above = part(at, node, ONNX_Max, NUMBER_F32, inverse, least);
  ProgramValue bounded = part(at, node, ONNX_Min, NUMBER_F32, above, most);
  ProgramValue zero = program_add_map(at, node, ONNX_Equal, NUMBER_BOOL, NUMBER_F32,
                                      (ProgramValue[]){scale, program_immediate(0, NUMBER_F32)}, 2);
  return program_add_map(at, node, ONNX_Where, NUMBER_F32, NUMBER_F32,
                         (ProgramValue[]){zero, inverse, bounded}, 3);
}

/* x / scale, for integers rounded and moved by the zero point; the Cast saturates. A result of 8 bits does
 * not show that the quotient was made by a product with 1 / scale, but an integer must not be off by one. */
static ProgramValue add_quantize(ProgramBuilder *at, const GraphNode *node, ProgramValue x,
                                 ProgramValue scale, ProgramValue zero)
{
  NumberType type = node->outputs[0]->type;
  bool integer = number_class(type) != NUMBER_FLOAT;
  if (!integer) scale = quantizing_factor(at, node, scale);
  x = part(at, node, integer ? ONNX_Div : ONNX_Mul, NUMBER_F32, x, scale);
  if (integer) {
    x = part(at, node, ONNX_Round, NUMBER_F32, x, none);
    if (zero.kind != VALUE_ABSENT) x = part(at, node, ONNX_Add, NUMBER_F32, x, zero);
  }
  const GraphAttribute *saturate = graph_attribute_find(node, "saturate");
  const Operator *row = operator_of(ONNX_Cast);
  GraphAttribute *attributes = arena_new_array(at->program->arena, GraphAttribute, row->n_attributes);
  attributes[operator_attribute_index(row, "saturate")].integer = saturate ? saturate->integer : 1;
  attributes[operator_attribute_index(row, "to")].integer = type;
  ProgramNode cast = {.kind = NODE_MAP,
                      .source = node,
                      .op = ONNX_Cast,
                      .attributes = attributes,
                      .type = type,
                      .compute = NUMBER_F32};
  return program_add_node(at, cast, &x, 1, program_compute(type));
}

/* Does any tensor follow from both? Nodes stand behind what they take. */
static bool share_a_tensor(const ProgramBuilder *at, ProgramValue one, ProgramValue other)
{
  if (one.kind != VALUE_NODE || other.kind != VALUE_NODE) return false;
  g_autofree uint8_t *reached = g_new0(uint8_t, at->nodes->len);
  g_autoptr(GHashTable) tensors = g_hash_table_new(NULL, NULL);
  reached[one.node] |= 1;
  reached[other.node] |= 2;
  for (unsigned i = MAX(one.node, other.node) + 1; i-- > 0;) {
    const ProgramNode *node = &g_array_index(at->nodes, ProgramNode, i);
    if (!reached[i]) continue;
    for (unsigned k = 0; k < node->n_operands; k++)
      if (node->operands[k].kind == VALUE_NODE) reached[node->operands[k].node] |= reached[i];
    if (node->kind != NODE_READ) continue;
    gpointer tensor = (gpointer)node->access.tensor;
    unsigned by = GPOINTER_TO_UINT(g_hash_table_lookup(tensors, tensor)) | reached[i];
    if (by == (1 | 2)) return true;
    g_hash_table_insert(tensors, tensor, GUINT_TO_POINTER(by));
  }
  return false;
}

/* ln of a row's sum of powers as what program_add_log_sum() adds up, beside a number of that row: the maximum, and the logarithm of what is
 * relative to it. */
static bool take_log_sum_apart(ProgramBuilder *at, ProgramValue value, ProgramValue other,
                               ProgramValue *largest, ProgramValue *log)
{
  if (value.kind != VALUE_NODE) return false;
  const ProgramNode *all = &g_array_index(at->nodes, ProgramNode, value.node);
  const GraphNode *source = all->source;
  if (all->op != ONNX_Where || all->kind != NODE_MAP || source->op->id != ONNX_ReduceLogSumExp) return false;
  if (all->compute != NUMBER_F32) return false;
  ProgramValue infinite = all->operands[0], sum = all->operands[2];
  *largest = all->operands[1];
  if (!share_a_tensor(at, *largest, other)) return false;
  ProgramValue parts[] = {infinite, program_immediate(0, NUMBER_F32),
                          g_array_index(at->nodes, ProgramNode, sum.node).operands[0]};
  *log = program_add_map(at, source, ONNX_Where, NUMBER_F32, NUMBER_F32, parts, G_N_ELEMENTS(parts));
  return true;
}

/* log + maximum - x, or x less both, as losses ask for it: x and the maximum first, so that what is large in both takes no digits of the
 * logarithm along. Of numbers that are none of the row's nothing cancels, and kernels of attention have their logarithm whole. */
static ProgramValue add_difference(ProgramBuilder *at, const GraphNode *node, const ProgramValue *operands)
{
  ProgramValue largest, log;
  if (node->op->id != ONNX_Sub || node->outputs[0]->type != NUMBER_F32) return none;
  if (take_log_sum_apart(at, operands[0], operands[1], &largest, &log))
    return part(at, node, ONNX_Add, NUMBER_F32, log,
                part(at, node, ONNX_Sub, NUMBER_F32, largest, operands[1]));
  if (take_log_sum_apart(at, operands[1], operands[0], &largest, &log))
    return part(at, node, ONNX_Sub, NUMBER_F32, part(at, node, ONNX_Sub, NUMBER_F32, operands[0], largest),
                log);
  return none;
}

static ProgramValue add_step(ProgramBuilder *at, const GraphNode *node, ProgramValue *operands)
{
  ProgramValue difference = add_difference(at, node, operands);
  if (difference.kind != VALUE_ABSENT) return difference;
  unsigned n = node->n_inputs;
  if (node->op->id == ONNX_Clip && node->op->n_attributes) { /* older versions: bounds are attributes */
    operands[n++] = program_immediate(graph_attribute(node, "min")->number, NUMBER_F32);
    operands[n++] = program_immediate(graph_attribute(node, "max")->number, NUMBER_F32);
  }
  ProgramNode step = {.kind = NODE_MAP,
                      .source = node,
                      .op = node->op->id,
                      .attributes = n == node->n_inputs && node->op->n_attributes ? node->attributes : NULL,
                      .type = node->outputs[0]->type,
                      .compute = program_compute(node->inputs[node->op->id == ONNX_Where ? 1 : 0]->type)};
  return program_add_node(at, step, operands, n, program_compute(step.type));
}

/* What holds the tensor's elements, if a constant does; else NULL. */
static const GraphTensor *constant_of(const GraphTensor *tensor)
{
  while (tensor->kind == TENSOR_COMPUTED && tensor->producer && tensor->producer->op->id == ONNX_Identity)
    tensor = tensor->producer->inputs[0];
  return tensor->kind == TENSOR_CONSTANT && tensor->data ? tensor : NULL;
}

/* Numbers alone have neither a type nor a shape: one of them is loaded. */
static void load_a_number(ProgramBuilder *at, const GraphNode *node, ProgramValue *operands)
{
  const GraphTensor *number = NULL;
  unsigned place = 0;
  for (unsigned i = node->n_inputs; i-- > 0;) {
    if (operands[i].kind == VALUE_ABSENT) continue;
    if (operands[i].kind != VALUE_IMMEDIATE) return;
    const GraphTensor *constant = constant_of(node->inputs[i]);
    if (!constant) continue;
    number = constant;
    place = i;
  }
  if (number) operands[place] = program_read_once(at, node, program_point_access(at, number));
}

void program_add_elementwise(ProgramBuilder *at, const GraphNode *node)
{
  g_autofree ProgramValue *operands = g_new0(ProgramValue, node->n_inputs + 2);
  for (unsigned i = 0; i < node->n_inputs; i++)
    operands[i] = program_operand(at, node, node->inputs[i]);
  if (node->op->id != ONNX_Identity) load_a_number(at, node, operands);
  ProgramValue zero = node->n_inputs > 2 ? operands[2] : none;
  ProgramValue value = node->op->id == ONNX_Identity                 ? operands[0]
                       : node->op->shape_rule != SHAPE_RULE_QUANTIZE ? add_step(at, node, operands)
                       : node->op->id == ONNX_DequantizeLinear
                           ? add_dequantize(at, node, operands[0], operands[1], zero)
                           : add_quantize(at, node, operands[0], operands[1], zero);
  program_set_value(at, node->outputs[0], value);
}

/* ---- products ---- */

bool program_varies_by_group(const GraphNode *product, unsigned operand, const GraphTensor *scale)
{
  return product->op->id == ONNX_GroupedMatMul && operand == 1 && scale->rank == product->inputs[1]->rank;
}

/* What an operand has of all of k: a scale, or a zero point. */
static ProgramValue whole_value(ProgramBuilder *at, const GraphNode *node, unsigned operand,
                                const GraphTensor *of_whole)
{
  if (!of_whole || !program_varies_by_group(node, operand, of_whole))
    return program_operand(at, node, of_whole);
  ProgramAccess access = program_matrix_access(at, node, of_whole, operand == 1);
  for (unsigned d = 0; d < of_whole->rank; d++)
    if (symbolic_equals(of_whole->shape[d], 1))
      access.at[d] = (ProgramIndex){symbolic_constant(at->program->arena, 0), PROGRAM_NONE};
  return program_add_read(at, node, access);
}

/* A product's result by the scales of its operands. Two numbers are multiplied first: one multiplication less
 * of each result, which would keep the tensor cores of another warpgroup waiting. */
static ProgramValue add_scales(ProgramBuilder *at, const GraphNode *node, ProgramValue value)
{
  const GraphTensor *const *scales = (const GraphTensor *const *)node->inputs + PRODUCT_SCALES;
  bool whole = node->n_inputs > PRODUCT_SCALES && !node->blocks[1]; /* of all k */
  unsigned n = whole ? 2 : 0;
  ProgramValue operands[2];
  for (unsigned i = 0; i < n; i++)
    operands[i] = whole_value(at, node, i, scales[i]);
  if (n == 2 && scales[0] && scales[1] && graph_has_one_element(scales[0]) &&
      graph_has_one_element(scales[1])) {
    bool known = operands[0].kind == VALUE_IMMEDIATE && operands[1].kind == VALUE_IMMEDIATE;
    operands[0] = known
                      ? program_immediate((float)(operands[0].immediate * operands[1].immediate), NUMBER_F32)
                      : part(at, node, ONNX_Mul, NUMBER_F32, operands[0], operands[1]);
    n = 1;
  }
  for (unsigned i = 0; i < n; i++)
    if (operands[i].kind != VALUE_ABSENT) value = part(at, node, ONNX_Mul, NUMBER_F32, value, operands[i]);
  return value;
}

/* The value by the scale of keys or values that the group widens, if that varies along what is contracted, or if it does not. */
static ProgramValue by_widened_scale(ProgramBuilder *at, const GraphNode *node, ProgramValue value,
                                     bool along)
{
  const GraphNode *widener = program_widener_of(at, node->inputs[1]);
  if (!widener) return value;
  ProgramAccess access = program_matrix_access(at, node, node->inputs[1], true);
  ProgramValue scale = program_widened_scale(at, widener, &access, along);
  return scale.kind == VALUE_ABSENT ? value : part(at, node, ONNX_Mul, NUMBER_F32, value, scale);
}

/* What a result is added up in. */
static NumberType accumulator(const GraphNode *node)
{
  NumberType type = node->inputs[0]->type;
  return program_compute(number_class(type) != NUMBER_FLOAT ? type : node->outputs[0]->type);
}

static ProgramValue matrix(ProgramBuilder *at, const GraphNode *node, unsigned input)
{
  ProgramAccess access = program_matrix_access(at, node, node->inputs[input], input == 1);
  const GraphNode *gather = program_pages_of(at, node->inputs[input]),
                  *widener = program_widener_of(at, node->inputs[input]);
  const GraphNode *joiner = program_joiner_of(at, widener ? widener->inputs[0] : node->inputs[input]);
  if (joiner && widener) access = program_access_widened(at->program->arena, widener, &access);
  if (joiner) return program_read_joined(at, joiner, &access);
  if (widener) return program_read_widened(at, widener, &access);
  return gather ? program_read_page(at, gather, &access) : program_add_read(at, node, access);
}

/* An operand, each element less the zero point of its block, times its scale. */
static ProgramValue scaled_operand(ProgramBuilder *at, const GraphNode *node, unsigned operand)
{
  ProgramValue x = matrix(at, node, operand);
  const GraphBlocks *blocks = node->blocks[operand];
  const GraphTensor *zero = operand == 1 && node->n_inputs > PRODUCT_ZERO ? node->inputs[PRODUCT_ZERO] : NULL;
  if (zero) {
    bool each = blocks && !graph_has_one_element(zero);
    x = part(at, node, ONNX_Sub, NUMBER_S32, x,
             each ? program_block_value(at, node, operand, zero) : whole_value(at, node, operand, zero));
  }
  return blocks ? part(at, node, ONNX_Mul, NUMBER_F32, x,
                       program_block_value(at, node, operand, node->inputs[PRODUCT_SCALES + operand]))
                : x;
}

/* Two products of one A read it once; one behind the other takes what was computed. */
static ProgramValue left_operand(ProgramBuilder *at, const GraphNode *node)
{
  if (node == at->second) return program_operand(at, node, node->inputs[0]);
  for (unsigned i = 0; node != at->anchor && i < at->nodes->len; i++) {
    const ProgramNode *dot = &g_array_index(at->nodes, ProgramNode, i);
    if (dot->reduction == REDUCTION_DOT && dot->kind == NODE_REDUCE && dot->source == at->anchor &&
        node->inputs[0] == at->anchor->inputs[0])
      return dot->operands[0];
  }
  return scaled_operand(at, node, 0);
}

/* A product beside the first, of another left operand, is summed along an axis of its own. */
static int contracted_axis(ProgramBuilder *at, const GraphNode *node)
{
  const GraphTensor *a = node->inputs[0];
  bool own = node != at->anchor && !at->second && a != at->anchor->inputs[0];
  return own ? program_add_axis(at, 'k', 1, a->shape[a->rank - (graph_is_transposed(node, 0) ? 2 : 1)])
             : at->k;
}

void program_add_product(ProgramBuilder *at, const GraphNode *node)
{
  int k = at->k;
  at->k = contracted_axis(at, node);
  ProgramValue a = by_widened_scale(at, node, left_operand(at, node), true), b = scaled_operand(at, node, 1);
  NumberType held = accumulator(node), compute = program_compute(at->anchor->outputs[0]->type);
  ProgramNode dot = {.kind = NODE_REDUCE,
                     .source = node,
                     .reduction = REDUCTION_DOT,
                     .axes = 1u << at->k | (at->batch != PROGRAM_NONE ? 1u << at->batch : 0),
                     .type = held,
                     .compute = held};
  ProgramValue value = program_add_node(at, dot, (ProgramValue[]){a, b}, 2, held);
  at->k = k;
  value = by_widened_scale(at, node, add_scales(at, node, value), false);
  const GraphAttribute *alpha = graph_attribute_find(node, "alpha");
  if (alpha && alpha->number != 1)
    value = part(at, at->anchor, ONNX_Mul, compute, value, program_immediate(alpha->number, NUMBER_F32));
  if (node->op->id == ONNX_Gemm && node->n_inputs > 2 && node->inputs[2]) {
    double beta = graph_attribute(node, "beta")->number;
    ProgramValue c = beta != 0 ? program_operand(at, node, node->inputs[2]) : none;
    if (beta != 0 && beta != 1)
      c = c.kind == VALUE_IMMEDIATE
              ? program_immediate(beta * c.immediate, compute) /* numbers alone have no shape */
              : part(at, at->anchor, ONNX_Mul, compute, c, program_immediate(beta, NUMBER_F32));
    if (beta != 0) value = part(at, at->anchor, ONNX_Add, compute, value, c);
  }
  program_set_value(at, node->outputs[0], value);
}

/* ---- rows ---- */

ProgramReduction program_reduction_of(OperatorId op)
{
  switch ((unsigned)op) {
  case ONNX_ReduceSum: return REDUCTION_SUM;
  case ONNX_ReduceMean: return REDUCTION_MEAN;
  case ONNX_ReduceMax: return REDUCTION_MAX;
  case ONNX_ReduceMin: return REDUCTION_MIN;
  case ONNX_ReduceProd: return REDUCTION_PROD;
  case ONNX_Hardmax:
  case ONNX_ArgMax: return REDUCTION_ARG_MAX;
  case ONNX_ArgMin: return REDUCTION_ARG_MIN;
  case ONNX_Softmax:
  case ONNX_ReduceLogSumExp:
  case ONNX_LogSoftmax: return REDUCTION_MAX_SUM;
  case ONNX_LayerNormalization: return REDUCTION_MOMENTS;
  case ONNX_RMSNormalization: return REDUCTION_MEAN;
  default: g_error("%s has no program", operator_of(op)->name);
  }
}

typedef struct {
  const GraphNode *node;
  NumberType compute;
  ProgramValue x, first, second; /* what is reduced, the reduction's results */
} Row;

/* Does one reduction's first result hold what the other one gives? Who finds the place of an extreme has the extreme. */
static bool gives(const ProgramNode *node, const ProgramNode *reduce)
{
  bool place = reduce->reduction == REDUCTION_MAX   ? node->reduction == REDUCTION_ARG_MAX
               : reduce->reduction == REDUCTION_MIN ? node->reduction == REDUCTION_ARG_MIN
                                                    : false;
  return place || (node->reduction == reduce->reduction &&
                   node->source->outputs[0]->type == reduce->source->outputs[0]->type);
}

/* The same reduction of the same values, if there is one already. */
static ProgramValue known_reduction(const ProgramBuilder *at, const ProgramNode *reduce,
                                    const ProgramValue *operands)
{
  unsigned n = program_reduction_operands(reduce->reduction);
  for (unsigned i = 0; i < at->nodes->len; i++) {
    const ProgramNode *node = &g_array_index(at->nodes, ProgramNode, i);
    bool same = node->kind == NODE_REDUCE && node->axes == reduce->axes && node->compute == reduce->compute &&
                gives(node, reduce);
    for (unsigned j = 0; same && j < n; j++)
      same = operands[j].kind == VALUE_NODE && node->operands[j].kind == VALUE_NODE &&
             operands[j].node == node->operands[j].node && operands[j].result == node->operands[j].result;
    if (same) return (ProgramValue){VALUE_NODE, i, 0, 0, reduce->compute};
  }
  return none;
}

/* Whole rows, or parts of them. */
static uint32_t reduced_axes(const ProgramBuilder *at, const GraphNode *node)
{
  uint32_t axes = 0;
  for (unsigned d = 0; d < at->whole_rank && !at->second; d++)
    if (node->axes >> d & 1) axes |= 1u << at->whole[d];
  return at->second ? at->reduced : axes;
}

static void reduce_as(ProgramBuilder *at, Row *row, ProgramReduction reduction, const ProgramValue *operands)
{
  ProgramNode reduce = {.kind = NODE_REDUCE,
                        .source = row->node,
                        .reduction = reduction,
                        .axes = reduced_axes(at, row->node),
                        .type = row->compute,
                        .compute = row->compute};
  row->first = known_reduction(at, &reduce, operands);
  if (row->first.kind == VALUE_ABSENT)
    row->first = program_add_node(at, reduce, operands, program_reduction_operands(reduction), row->compute);
  row->second = row->first;
  row->second.result = 1;
  row->second.type = program_result_type(&reduce, 1);
}

static void reduce_row(ProgramBuilder *at, Row *row, ProgramValue operand)
{
  reduce_as(at, row, program_reduction_of(row->node->op->id), &operand);
}

static ProgramValue row_part(ProgramBuilder *at, const Row *row, OperatorId op, ProgramValue a,
                             ProgramValue b)
{
  return part(at, row->node, op, row->compute, a, b);
}

ProgramValue program_add_weights(ProgramBuilder *at, const GraphNode *node, NumberType compute,
                                 ProgramValue x, ProgramValue largest, ProgramValue sum, bool guarded)
{
  ProgramValue below = part(at, node, ONNX_Sub, compute, x, largest);
  ProgramValue share = part(at, node, ONNX_Div, compute, part(at, node, ONNX_Exp, compute, below, none), sum);
  if (!guarded) return share;
  ProgramValue hidden = program_add_map(at, node, ONNX_Equal, NUMBER_BOOL, compute,
                                        (ProgramValue[]){largest, program_immediate(-INFINITY, compute)}, 2);
  return program_add_map(at, node, ONNX_Where, compute, compute,
                         (ProgramValue[]){hidden, program_immediate(0, compute), share}, 3);
}

/* In f64 what others reduce in one way through a row is taken apart: its maximum and the sum of powers, its mean and that of squares. */
static void reduce_apart(ProgramBuilder *at, Row *row, ProgramReduction first, OperatorId then)
{
  reduce_as(at, row, first, &row->x);
  ProgramValue centre = row->first, below = row_part(at, row, ONNX_Sub, row->x, centre);
  ProgramValue each = row_part(at, row, then, below, then == ONNX_Mul ? below : none);
  reduce_as(at, row, then == ONNX_Mul ? REDUCTION_MEAN : REDUCTION_SUM, &each);
  row->second = row->first;
  row->first = centre;
}

static void reduce_powers(ProgramBuilder *at, Row *row)
{
  if (row->compute == NUMBER_F64)
    reduce_apart(at, row, REDUCTION_MAX, ONNX_Exp);
  else
    reduce_row(at, row, row->x);
}

/* e^(x - largest) / sum, or x - largest - ln sum */
static ProgramValue add_softmax(ProgramBuilder *at, Row *row, bool logarithm)
{
  reduce_powers(at, row);
  if (logarithm) {
    ProgramValue below = row_part(at, row, ONNX_Sub, row->x, row->first);
    return row_part(at, row, ONNX_Sub, below, row_part(at, row, ONNX_Log, row->second, none));
  }
  const GraphAttribute *masked = graph_attribute_find(row->node, "masked_rows");
  return program_add_weights(at, row->node, row->compute, row->x, row->first, row->second,
                             masked && !strcmp(masked->text, "zero"));
}

/* 1 / sqrt(square + epsilon) */
static ProgramValue add_inverse(ProgramBuilder *at, const Row *row, ProgramValue square)
{
  double epsilon = graph_attribute(row->node, "epsilon")->number;
  ProgramValue sum = row_part(at, row, ONNX_Add, square, program_immediate(epsilon, row->compute));
  return row_part(at, row, ONNX_Reciprocal, row_part(at, row, ONNX_Sqrt, sum, none), none);
}

static ProgramValue add_norm(ProgramBuilder *at, Row *row, bool centred)
{
  const GraphNode *node = row->node;
  ProgramValue x = row->x, value, inverse;
  if (centred && row->compute == NUMBER_F64)
    reduce_apart(at, row, REDUCTION_MEAN, ONNX_Mul);
  else
    reduce_row(at, row, centred ? x : row_part(at, row, ONNX_Mul, x, x));
  inverse = add_inverse(at, row, centred ? row->second : row->first);
  if (centred) x = row_part(at, row, ONNX_Sub, x, row->first);
  value = row_part(at, row, ONNX_Mul, x, inverse);
  ProgramValue further[] = {row->first, inverse};
  for (unsigned i = 1; i < node->n_outputs; i++)
    program_set_value(at, node->outputs[i], further[i - 1]);
  value = row_part(at, row, ONNX_Mul, value, program_operand(at, node, node->inputs[1]));
  if (node->n_inputs > 2 && node->inputs[2])
    value = row_part(at, row, ONNX_Add, value, program_operand(at, node, node->inputs[2]));
  return value;
}

ProgramValue program_add_log_sum(ProgramBuilder *at, const GraphNode *node, NumberType compute,
                                 ProgramValue largest, ProgramValue total)
{
  ProgramValue sum =
      part(at, node, ONNX_Add, compute, part(at, node, ONNX_Log, compute, total, none), largest);
  const Operator *op = operator_of(ONNX_IsInf);
  GraphAttribute *both = arena_new_array(at->program->arena, GraphAttribute, op->n_attributes);
  for (unsigned i = 0; i < op->n_attributes; i++)
    both[i].integer = op->attributes[i].integer;
  ProgramNode infinite = {.kind = NODE_MAP,
                          .source = node,
                          .op = ONNX_IsInf,
                          .attributes = both,
                          .type = NUMBER_BOOL,
                          .compute = compute};
  ProgramValue is_infinite = program_add_node(at, infinite, &largest, 1, NUMBER_BOOL);
  return program_add_map(at, node, ONNX_Where, compute, compute, (ProgramValue[]){is_infinite, largest, sum},
                         3);
}

static ProgramValue add_log_sum_exp(ProgramBuilder *at, Row *row)
{
  reduce_powers(at, row);
  return program_add_log_sum(at, row->node, row->compute, row->first, row->second);
}

/* Where the extreme is, of numbers that f32 does not tell apart: among those of more bits, the first NaN if there is one. */
static ProgramValue place_of_equal(ProgramBuilder *at, Row *row, bool largest, bool last, ProgramValue place)
{
  reduce_as(at, row, largest ? REDUCTION_MAX : REDUCTION_MIN, &row->x);
  ProgramValue equal = program_add_map(at, row->node, ONNX_Equal, NUMBER_BOOL, row->compute,
                                       (ProgramValue[]){row->x, row->first}, 2);
  if (row->compute == NUMBER_F64) {
    ProgramValue nan = program_add_map(at, row->node, ONNX_IsNaN, NUMBER_BOOL, NUMBER_F64, &row->x, 1);
    equal =
        program_add_map(at, row->node, ONNX_Or, NUMBER_BOOL, NUMBER_BOOL, (ProgramValue[]){equal, nan}, 2);
  }
  ProgramValue nowhere = program_immediate(last ? -1 : G_MAXINT32, NUMBER_S32);
  ProgramValue places = program_add_map(at, row->node, ONNX_Where, NUMBER_S32, NUMBER_S32,
                                        (ProgramValue[]){equal, place, nowhere}, 3);
  row->compute = NUMBER_S32;
  reduce_as(at, row, last ? REDUCTION_MAX : REDUCTION_MIN, &places);
  return row->first;
}

/* Index along the columns; the last of equal ones is the first if these are counted downwards. */
static ProgramValue add_arg(ProgramBuilder *at, Row *row)
{
  const GraphNode *node = row->node;
  const GraphAttribute *which = graph_attribute_find(node, "select_last_index");
  bool last = which && which->integer, largest = node->op->id != ONNX_ArgMin;
  ProgramValue place = program_column(at, node);
  if (number_bits(node->inputs[0]->type) > number_bits(NUMBER_F32) || node->inputs[0]->type == NUMBER_S32)
    return place_of_equal(at, row, largest, last, place);
  row->compute = NUMBER_F32;
  if (last) place = part(at, node, ONNX_Neg, NUMBER_S32, place, none);
  reduce_as(at, row, program_reduction_of(node->op->id), (ProgramValue[]){row->x, place});
  return last ? part(at, node, ONNX_Neg, NUMBER_S32, row->second, none) : row->second;
}

static ProgramValue add_hardmax(ProgramBuilder *at, Row *row)
{
  ProgramValue place = program_column(at, row->node);
  ProgramValue best = add_arg(at, row);
  ProgramValue is_best =
      program_add_map(at, row->node, ONNX_Equal, NUMBER_BOOL, NUMBER_S32, (ProgramValue[]){place, best}, 2);
  return program_add_map(
      at, row->node, ONNX_Where, NUMBER_F32, NUMBER_F32,
      (ProgramValue[]){is_best, program_immediate(1, NUMBER_F32), program_immediate(0, NUMBER_F32)}, 3);
}

static ProgramValue add_scan(ProgramBuilder *at, const Row *row)
{
  const GraphNode *node = row->node;
  ProgramNode scan = {.kind = NODE_SCAN,
                      .source = node,
                      .reduction = REDUCTION_SUM,
                      .axes = at->reduced,
                      .exclusive = graph_attribute(node, "exclusive")->integer != 0,
                      .reverse = graph_attribute(node, "reverse")->integer != 0,
                      .type = row->compute,
                      .compute = row->compute};
  return program_add_node(at, scan, &row->x, 1, row->compute);
}

/* The row in order, and where its elements stood. */
static ProgramValue add_order(ProgramBuilder *at, const Row *row)
{
  const GraphNode *node = row->node;
  bool largest = graph_attribute(node, "largest")->integer != 0;
  ProgramNode order = {.kind = NODE_SCAN,
                       .source = node,
                       .reduction = largest ? REDUCTION_LARGEST : REDUCTION_SMALLEST,
                       .axes = at->reduced,
                       .type = row->compute,
                       .compute = row->compute};
  ProgramValue value = program_add_node(at, order, &row->x, 1, row->compute), place = value;
  place.result = 1;
  place.type = program_result_type(&order, 1);
  program_set_value(at, node->outputs[1], place);
  return value;
}

/* Is a dimension that is reduced perhaps empty? */
static bool may_be_empty(const GraphNode *node)
{
  const GraphTensor *x = node->inputs[0];
  for (unsigned d = 0; d < x->rank; d++) {
    int64_t extent;
    if ((node->axes >> d & 1) && !(symbolic_is_constant(x->shape[d], &extent) && extent > 0)) return true;
  }
  return false;
}

/* The extreme of no integers is the type's, not that of the 32 bits in which they are compared. */
static ProgramValue within_type(ProgramBuilder *at, const Row *row, ProgramValue extreme)
{
  const GraphNode *node = row->node;
  NumberType type = node->outputs[0]->type;
  bool largest = node->op->id == ONNX_ReduceMax, is_signed = number_class(type) == NUMBER_SIGNED;
  if (!largest && node->op->id != ONNX_ReduceMin) return extreme;
  if (row->compute != NUMBER_S32 || number_bits(type) >= number_bits(NUMBER_S32) || type == NUMBER_BOOL ||
      !may_be_empty(node))
    return extreme;
  double half = exp2(number_bits(type) - 1), end = largest     ? (is_signed ? -half : 0)
                                                   : is_signed ? half - 1
                                                               : 2 * half - 1;
  return row_part(at, row, largest ? ONNX_Max : ONNX_Min, extreme, program_immediate(end, NUMBER_S32));
}

void program_add_row(ProgramBuilder *at, const GraphNode *node)
{
  Row row = {.node = node, .compute = program_compute(node->inputs[0]->type)};
  row.x = program_operand(at, node, node->inputs[0]);
  ProgramValue value;
  switch ((unsigned)node->op->id) {
  case ONNX_Softmax: value = add_softmax(at, &row, false); break;
  case ONNX_LogSoftmax: value = add_softmax(at, &row, true); break;
  case ONNX_LayerNormalization: value = add_norm(at, &row, true); break;
  case ONNX_RMSNormalization: value = add_norm(at, &row, false); break;
  case ONNX_ReduceLogSumExp: value = add_log_sum_exp(at, &row); break;
  case ONNX_ArgMax:
  case ONNX_ArgMin: value = add_arg(at, &row); break;
  case ONNX_Hardmax: value = add_hardmax(at, &row); break;
  case ONNX_CumSum: value = add_scan(at, &row); break;
  case ONNX_TopRows: value = add_order(at, &row); break;
  default:
    reduce_row(at, &row, row.x);
    value = within_type(at, &row, row.first);
    if (at->group->mean_of)
      value = row_part(at, &row, ONNX_Div, value, program_immediate((double)at->group->mean_of, NUMBER_F32));
  }
  if (at->second && node->outputs[0]->rank < node->inputs[0]->rank) at->row_sums = node->outputs[0];
  program_set_value(at, node->outputs[0], value);
}
