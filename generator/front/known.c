/* What is known while the graph is read. Exporters write shapes as nodes: Shape, Gather, Concat, arithmetic, then Reshape. Integers that
 * so follow from shapes and constants are carried along as expressions (`values` of a tensor), few numbers of other types
 * as data; who reads them reads a constant, and the nodes that gave them are left out. */
#include "generator/front/infer_private.h"
#include <math.h>
#include <string.h>

/* Elements of a tensor whose shape is numbers, if they are few. */
static bool count(const GraphTensor *tensor, size_t *n)
{
  *n = 1;
  for (unsigned d = 0; d < tensor->rank; d++) {
    int64_t extent;
    if (!symbolic_is_constant(tensor->shape[d], &extent) || extent > KNOWN_INTEGERS_MAX) return false;
    *n *= (size_t)extent;
    if (*n > KNOWN_INTEGERS_MAX) return false;
  }
  return true;
}

/* Element i of what broadcasts to a list, or to what has one element. */
static size_t place(const GraphTensor *tensor, size_t i)
{
  return tensor->n_elements == 1 ? 0 : i;
}

/* ---- integers ---- */

/* 1 or 0, NULL where it depends on symbols. */
static const Symbolic *decide(const Inference *at, OperatorId op, const Symbolic *a, const Symbolic *b)
{
  Arena *arena = at->graph->arena;
  int64_t least, most;
  symbolic_range(symbolic_sub(arena, a, b), &at->graph->facts, &least, &most);
  bool apart = least > 0 || most < 0, same = !least && !most;
  if (op == ONNX_Equal) return apart || same ? symbolic_constant(arena, same) : NULL;
  if (op == ONNX_Less) return most < 0 || least >= 0 ? symbolic_constant(arena, most < 0) : NULL;
  return least > 0 || most <= 0 ? symbolic_constant(arena, least > 0) : NULL; /* Greater */
}

/* The sign of numbers is the divisor's; of expressions, both are extents. */
static const Symbolic *remainder_of(Arena *arena, const Symbolic *a, const Symbolic *b)
{
  int64_t x, y;
  if (!symbolic_is_constant(b, &y) || y < 0) return NULL;
  if (!symbolic_is_constant(a, &x)) return symbolic_binary(arena, SYMBOLIC_MOD, a, b);
  int64_t rest = x % y;
  return symbolic_constant(arena, rest < 0 ? rest + y : rest);
}

/* Of 0 and 1; one may decide although the other depends on symbols. */
static const Symbolic *logical(Arena *arena, OperatorId op, const Symbolic *a, const Symbolic *b)
{
  bool decides = op == ONNX_Or;
  if (symbolic_equals(a, decides) || symbolic_equals(b, decides)) return symbolic_constant(arena, decides);
  return symbolic_equals(a, !decides) && symbolic_equals(b, !decides) ? symbolic_constant(arena, !decides)
                                                                      : NULL;
}

static const Symbolic *binary(const Inference *at, OperatorId op, const Symbolic *a, const Symbolic *b)
{
  Arena *arena = at->graph->arena;
  switch ((unsigned)op) {
  case ONNX_Add: return symbolic_add(arena, a, b);
  case ONNX_Sub: return symbolic_sub(arena, a, b);
  case ONNX_Mul: return symbolic_mul(arena, a, b);
  case ONNX_Div: return symbolic_equals(b, 0) ? NULL : symbolic_binary(arena, SYMBOLIC_DIV, a, b);
  case ONNX_Mod: return symbolic_equals(b, 0) ? NULL : remainder_of(arena, a, b);
  case ONNX_And:
  case ONNX_Or: return logical(arena, op, a, b);
  case ONNX_Min: return infer_smaller(at->graph, a, b);
  case ONNX_Max: return infer_larger(at->graph, a, b);
  default: return decide(at, op, a, b);
  }
}

static const Symbolic *chosen(const GraphNode *node, size_t i)
{
  int64_t truth;
  const GraphTensor *condition = node->inputs[0];
  if (!symbolic_is_constant(condition->values[place(condition, i)], &truth)) return NULL;
  const GraphTensor *from = node->inputs[truth ? 1 : 2];
  return from->values[place(from, i)];
}

/* One behind another only where what is in front of the axis is 1. */
static const Symbolic *concatenated(const GraphNode *node, size_t i)
{
  const GraphTensor *output = node->outputs[0];
  int64_t axis = graph_attribute(node, "axis")->integer;
  unsigned j = 0;
  for (unsigned d = 0; d < (axis < 0 ? axis + output->rank : axis); d++)
    if (!symbolic_equals(output->shape[d], 1)) return NULL;
  for (; i >= node->inputs[j]->n_elements; j++)
    i -= node->inputs[j]->n_elements;
  return node->inputs[j]->values[i];
}

static const Symbolic *gathered(const GraphNode *node, size_t i)
{
  const GraphTensor *list = node->inputs[0];
  int64_t index;
  if (list->rank != 1 || !symbolic_is_constant(node->inputs[1]->values[i], &index)) return NULL;
  if (index < 0) index += (int64_t)list->n_elements;
  return index >= 0 && index < (int64_t)list->n_elements ? list->values[index] : NULL;
}

static const Symbolic *sliced(const GraphNode *node, size_t i)
{
  int64_t first;
  if (node->inputs[0]->rank != 1 || !symbolic_is_constant(node->firsts[0], &first)) return NULL;
  return node->inputs[0]->values[first + (int64_t)i * node->steps[0]];
}

/* With `fmod` the sign of numbers is the dividend's. */
static const Symbolic *truncated_remainder(Arena *arena, const Symbolic *a, const Symbolic *b)
{
  int64_t x, y;
  bool known = symbolic_is_constant(a, &x) && symbolic_is_constant(b, &y) && y && y != -1;
  return known ? symbolic_constant(arena, x % y) : NULL;
}

/* Element i of the result; NULL: it is not known. */
static const Symbolic *element(const Inference *at, size_t i)
{
  const GraphNode *node = at->node;
  const GraphTensor *a = node->inputs[0], *b = node->n_inputs > 1 ? node->inputs[1] : NULL;
  switch ((unsigned)node->op->id) {
  case ONNX_Identity:
  case ONNX_Cast:
  case ONNX_Reshape:
  case ONNX_Flatten:
  case ONNX_Squeeze:
  case ONNX_Unsqueeze: return a->values[i];
  case ONNX_Transpose: return a->rank <= 1 || a->n_elements == 1 ? a->values[i] : NULL;
  case ONNX_Expand: return a->values[place(a, i)];
  case ONNX_Neg: return symbolic_sub(at->graph->arena, symbolic_constant(at->graph->arena, 0), a->values[i]);
  case ONNX_Not: return symbolic_sub(at->graph->arena, symbolic_constant(at->graph->arena, 1), a->values[i]);
  case ONNX_Where: return chosen(node, i);
  case ONNX_Concat: return concatenated(node, i);
  case ONNX_Gather: return gathered(node, i);
  case ONNX_Slice: return sliced(node, i);
  case ONNX_Add:
  case ONNX_Sub:
  case ONNX_Mul:
  case ONNX_Div:
  case ONNX_Mod:
  case ONNX_And:
  case ONNX_Or:
  case ONNX_Min:
  case ONNX_Max:
  case ONNX_Equal:
  case ONNX_Less:
  case ONNX_Greater:
    if (node->op->id == ONNX_Mod && graph_attribute(node, "fmod")->integer)
      return truncated_remainder(at->graph->arena, a->values[place(a, i)], b->values[place(b, i)]);
    return node->n_inputs == 2 ? binary(at, node->op->id, a->values[place(a, i)], b->values[place(b, i)])
                               : NULL;
  default: return NULL;
  }
}

/* Lists, and numbers: what has more dimensions has one element for each place, or one in all. */
static bool are_lists(const GraphNode *node, size_t n)
{
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const GraphTensor *input = node->inputs[i];
    if (!input || !input->values) return false;
    bool spreads = node->op->class_ == OPERATOR_ELEMENTWISE || node->op->id == ONNX_Expand;
    if (spreads && i < (node->op->id == ONNX_Expand ? 1u : 3u) && input->n_elements != 1 &&
        input->n_elements != n)
      return false;
  }
  return node->outputs[0]->rank <= 1 || node->op->class_ == OPERATOR_VIEW;
}

/* The parts of a list. */
static void know_parts(Inference *at)
{
  const GraphNode *node = at->node;
  const GraphTensor *list = node->inputs[0];
  size_t first = 0;
  if (node->op->id != ONNX_Split || !list->values || list->rank != 1) return;
  for (unsigned i = 0; i < node->n_outputs; i++) {
    int64_t n;
    if (!symbolic_is_constant(node->sizes[i], &n) || first + (size_t)n > list->n_elements) return;
    GraphTensor *part = node->outputs[i];
    if (part) {
      part->values = list->values + first;
      part->n_elements = (size_t)n;
      part->offered = list->offered;
    }
    first += (size_t)n;
  }
}

/* A number that was computed as a float. */
static void know_whole(Inference *at)
{
  const GraphTensor *input = at->node->inputs[0];
  GraphTensor *output = at->node->outputs[0];
  const double most = 0x1p53;
  bool truth = output->type == NUMBER_BOOL;
  if (at->node->op->id != ONNX_Cast || (output->type != NUMBER_S64 && output->type != NUMBER_S32 && !truth))
    return;
  if (number_class(input->type) != NUMBER_FLOAT || !input->data || input->n_elements != 1) return;
  double value = number_to_double(input->type, input->data);
  if (!(value > -most && value < most) || (output->type == NUMBER_S32 && fabs(value) >= 0x1p31)) return;
  const Symbolic **values = arena_new_array(at->graph->arena, const Symbolic *, 1);
  bool is_zero = !(value < 0) && !(value > 0);
  values[0] = symbolic_constant(at->graph->arena, truth ? !is_zero : (int64_t)value);
  output->values = values;
  output->n_elements = 1;
}

/* An integer of the type. What is none wraps: kernels compute it. */
static bool is_held(const GraphNode *node, const Symbolic *value, size_t i)
{
  NumberType type = node->outputs[0]->type;
  unsigned bits = number_bits(type), sign = number_class(type) == NUMBER_SIGNED;
  int64_t number;
  if (symbolic_is_constant(value, &number))
    return bits >= 64 || (number >= -(int64_t)sign * (1ll << (bits - 1)) && number < 1ll << (bits - sign));
  for (unsigned j = 0; node->op->class_ == OPERATOR_ELEMENTWISE && j < node->n_inputs; j++)
    if (!symbolic_is_constant(node->inputs[j]->values[place(node->inputs[j], i)], &number)) return true;
  return node->op->class_ != OPERATOR_ELEMENTWISE;
}

static void know_integers(Inference *at, size_t n)
{
  GraphTensor *output = at->node->outputs[0];
  bool wraps = at->node->op->id == ONNX_Cast && output->type != NUMBER_S64 && output->type != NUMBER_S32;
  if (wraps || !are_lists(at->node, n)) return;
  const Symbolic **values =
      arena_new_array(at->graph->arena, const Symbolic *, n + 1); /* an empty list is known too */
  for (size_t i = 0; i < n; i++)
    if (!(values[i] = element(at, i)) || !is_held(at->node, values[i], i)) return;
  output->values = values;
  output->n_elements = n;
}

static void know_shape(Inference *at, size_t n)
{
  const GraphTensor *input = at->node->inputs[0];
  GraphTensor *output = at->node->outputs[0];
  const Symbolic **values = arena_new_array(at->graph->arena, const Symbolic *, n);
  int64_t first = 0;
  if (at->node->op->id == ONNX_Shape) {
    if (at->node->firsts) symbolic_is_constant(at->node->firsts[0], &first);
    for (size_t i = 0; i < n; i++)
      values[i] = input->shape[(size_t)first + i];
  } else {
    values[0] = symbolic_constant(at->graph->arena, 1);
    for (unsigned d = 0; d < input->rank; d++)
      values[0] = symbolic_mul(at->graph->arena, values[0], input->shape[d]);
  }
  output->values = values;
  output->n_elements = n;
}

/* ---- other numbers ---- */

static bool number_of(const GraphTensor *tensor, double *value)
{
  int64_t whole;
  if (!tensor || tensor->n_elements != 1) return false;
  if (tensor->values) {
    if (!symbolic_is_constant(tensor->values[0], &whole)) return false;
    *value = (double)whole;
    return true;
  }
  if (!tensor->data) return false;
  *value = number_to_double(tensor->type, tensor->data);
  return true;
}

static bool compute(const GraphNode *node, double a, double b, double *value)
{
  switch ((unsigned)node->op->id) {
  case ONNX_Identity:
  case ONNX_Cast:
  case ONNX_Reshape:
  case ONNX_Squeeze:
  case ONNX_Unsqueeze: *value = a; return true;
  case ONNX_Sqrt: *value = sqrt(a); return true;
  case ONNX_Ceil: *value = ceil(a); return true;
  case ONNX_Floor: *value = floor(a); return true;
  case ONNX_Relu: *value = a > 0 ? a : 0; return true;
  case ONNX_Reciprocal: *value = 1 / a; return true;
  case ONNX_Neg: *value = -a; return true;
  case ONNX_Add: *value = a + b; return true;
  case ONNX_Sub: *value = a - b; return true;
  case ONNX_Mul: *value = a * b; return true;
  case ONNX_Div: *value = a / b; return true;
  case ONNX_Pow: *value = pow(a, b); return true;
  default: return false;
  }
}

/* One number of one or two, such as the scale of attention. */
static void know_number(Inference *at)
{
  const GraphNode *node = at->node;
  GraphTensor *output = node->outputs[0];
  double a, b = 0, value;
  bool list = node->op->class_ == OPERATOR_VIEW; /* its second input is a shape */
  if (!number_of(node->inputs[0], &a) || node->n_inputs > 2) return;
  if (node->n_inputs == 2 && !list && !number_of(node->inputs[1], &b)) return;
  if (!compute(node, a, b, &value)) return;
  guint8 *data = arena_alloc(at->graph->arena, number_bytes_of(output->type, 1));
  number_from_double(output->type, value, false, data);
  output->data = data;
  output->n_elements = 1;
}

static bool is_offered(const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] && node->inputs[i]->offered) return true;
  return false;
}

void infer_known(Inference *at)
{
  const GraphNode *node = at->node;
  GraphTensor *output = node->outputs[0];
  size_t n;
  know_parts(at);
  if (node->n_outputs != 1 || !node->n_inputs || !count(output, &n)) return;
  if (node->op->id == ONNX_Shape || node->op->id == ONNX_Size)
    know_shape(at, n);
  else if (number_class(output->type) != NUMBER_FLOAT)
    know_integers(at, n);
  else if (n == 1)
    know_number(at);
  if (n == 1 && !output->values && !output->data) know_whole(at);
  bool by_shape = node->op->id == ONNX_Shape || node->op->id == ONNX_Size;
  output->offered = (output->values || output->data) && !by_shape && is_offered(node);
}

/* ---- what inputs will hold ---- */

/* Operators whose meaning depends on what an input holds, beside views: a bit for each such input. */
static const struct {
  OperatorId op;
  uint32_t inputs;
} needs[] = {
    {ONNX_Loop, 1u},
    {ONNX_Range, 7u},
    {ONNX_HannWindow, 1u},
    {ONNX_HammingWindow, 1u},
    {ONNX_BlackmanWindow, 1u},
    {ONNX_AffineGrid, 1u << 1},
    {ONNX_CenterCropPad, 1u << 1},
    {ONNX_Compress, 1u << 1},
    {ONNX_Pad, 1u << 1 | 1u << 2 | 1u << 3},
    {ONNX_Tile, 1u << 1},
    {ONNX_Trilu, 1u << 1},
    {ONNX_CumSum, 1u << 1},
    {ONNX_TopK, 1u << 1},
    {ONNX_OneHot, 1u << 1},
    {ONNX_Upsample, 1u << 1},
    {ONNX_Resize, 1u << 1 | 1u << 2 | 1u << 3},
};

bool infer_must_know(const GraphNode *node, unsigned input)
{
  ShapeRule rule = node->op->shape_rule;
  if (node->op->class_ == OPERATOR_VIEW || rule == SHAPE_RULE_REDUCE)
    return input > 0 && node->op->id != ONNX_Concat;
  for (unsigned i = 0; i < G_N_ELEMENTS(needs); i++)
    if (needs[i].op == node->op->id) return input < 32 && needs[i].inputs >> input & 1;
  return false;
}

void infer_take_offers(GraphBuilder *b)
{
  const GraphReading *reading = &b->reading;
  for (unsigned i = 0; i < MIN(b->inputs->len, reading->n_offers); i++) {
    GraphTensor *input = b->inputs->pdata[i];
    const GraphOffer *offer = &reading->offers[i];
    size_t n;
    if (!offer->data || offer->type != input->type || !count(input, &n) || n != offer->n) continue;
    input->data = arena_memdup(b->graph->arena, offer->data, number_bytes_of(input->type, n));
    input->n_elements = n;
    input->offered = true;
    graph_know_integers(b->graph->arena, input);
  }
}

/* ---- who reads what is known ---- */

static GraphTensor *constant_of(Inference *at, const GraphTensor *known)
{
  GraphBuilder *b = at->builder;
  g_autofree char *name = g_strdup_printf("%s.known", known->name);
  GraphTensor *constant = g_hash_table_lookup(b->tensors, name);
  if (constant && constant->values == known->values && constant->kind == TENSOR_CONSTANT) return constant;
  constant = graph_tensor_new(b->graph, builder_free_name(b, name, ""), TENSOR_CONSTANT, known->mark);
  builder_define(b, constant, b->constants);
  constant->type = known->type;
  constant->align = known->align;
  constant->rank = known->rank;
  memcpy(constant->shape, known->shape, sizeof known->shape);
  memcpy(constant->strides, known->strides, sizeof known->strides);
  constant->n_elements = known->n_elements;
  constant->values = known->values;
  constant->data = known->data;
  return constant;
}

/* Data of integers that are all numbers. */
static void write_numbers(Inference *at, GraphTensor *tensor)
{
  guint8 *data = arena_alloc(at->graph->arena, number_bytes_of(tensor->type, tensor->n_elements) + 1);
  for (size_t i = 0; i < tensor->n_elements; i++) {
    int64_t value;
    if (!symbolic_is_constant(tensor->values[i], &value)) return;
    number_set_bits(tensor->type, (uint64_t)value, data, i);
  }
  tensor->data = data;
}

/* Outputs of the graph that are known are copies of constants, whatever computed them: an operator that only reading
 * evaluates may stand at the end. */
void infer_known_outputs(GraphBuilder *b)
{
  for (unsigned i = 0; i < b->expanded->len; i++) {
    GraphNode *node = b->expanded->pdata[i];
    GraphTensor *output = node->n_outputs == 1 ? node->outputs[0] : NULL;
    Inference at = {b->graph, node, b->error, b};
    if (!output || !output->is_output || output->offered) continue;
    if (output->values && !output->data) write_numbers(&at, output);
    if (!output->data) continue;
    GraphNode *copy = arena_memdup(b->graph->arena, node, sizeof *node);
    copy->written = graph_written_operator(node);
    copy->op = operator_of(ONNX_Identity);
    copy->onnx = NULL;
    copy->attributes = NULL;
    copy->n_inputs = 1;
    copy->inputs = arena_new_array(b->graph->arena, GraphTensor *, 1);
    copy->input_marks = arena_memdup(b->graph->arena, &node->mark, sizeof node->mark);
    copy->inputs[0] = constant_of(&at, output);
    output->producer = copy;
    b->expanded->pdata[i] = copy;
  }
}

void infer_read_known(Inference *at, bool symbolic)
{
  GraphNode *node = at->node;
  for (unsigned i = 0; i < node->n_inputs; i++) {
    GraphTensor *input = node->inputs[i];
    if (!input || input->kind == TENSOR_CONSTANT || input->is_output) continue;
    if (input->offered && !infer_must_know(node, i)) continue;
    if (input->values && !input->data) write_numbers(at, input);
    bool number = input->values && input->n_elements == 1 && node->op->class_ == OPERATOR_ELEMENTWISE;
    if (input->data || (symbolic && input->values && i) || number) node->inputs[i] = constant_of(at, input);
  }
}
