#include "execute/default_data.h"
#include <math.h>
#include <string.h>

/* What a tensor may be, as a root of a mean of squares, before an input that makes it so is halved. */
#define LARGE 2.001 /* with what rounding makes of 2 */
/* The same of scores: a softmax of larger ones chooses a few elements. */
#define LARGE_SCORES 1.001
/* Halvings of a node's inputs at most. */
#define MOST_HALVINGS 64
/* What halving is to make of a size at least: something else, that is large by itself, is left alone. */
#define PROGRESS 0.9
/* Factors between a node and the input that is its weight. */
#define MOST_FACTORS 4
/* What a mask adds is this or less (-1e4 in 16 bits): it hides elements, and says nothing of their size. */
#define HIDES (-9e3)

typedef struct Sizing {
  const Graph *graph;
  double *sizes;  /* by tensor index: expected root of the mean of the squares */
  double *scales; /* by tensor index, of inputs */
  bool *given;    /* as scales: data that are not to be changed */
} Sizing;

static double extent_of(const GraphTensor *tensor, unsigned dimension)
{
  int64_t extent = 1;
  symbolic_is_constant(tensor->shape[dimension], &extent);
  return (double)extent;
}

static double elements_of(const GraphTensor *tensor)
{
  double n = 1;
  for (unsigned i = 0; i < tensor->rank; i++)
    n *= extent_of(tensor, i);
  return n;
}

/* ---- what is known of data ---- */

static double size_of_type(NumberType type)
{
  switch (number_class(type)) {
  case NUMBER_FLOAT: return 1;
  case NUMBER_SIGNED: return ldexp(1, (int)number_bits(type) - 1) / sqrt(3);
  case NUMBER_UNSIGNED: return ldexp(1, (int)number_bits(type)) / sqrt(3);
  default: return 1;
  }
}

static double size_of_data(const Tensor *tensor)
{
  double sum = 0;
  size_t n = 0;
  for (size_t i = 0; i < tensor->n; i++) {
    double x = number_read(tensor->type, tensor->data, i);
    if (!isfinite(x) || x <= HIDES) continue; /* such as the -infinity of a mask */
    sum += x * x;
    n++;
  }
  return n ? sqrt(sum / (double)n) : 0;
}

/* ---- what operators make of it ---- */

static double input_size(const Sizing *s, const GraphNode *node, unsigned i)
{
  return i < node->n_inputs && node->inputs[i] ? s->sizes[node->inputs[i]->index] : 0;
}

static double product_size(const Sizing *s, const GraphNode *node)
{
  const GraphTensor *a = node->inputs[0];
  const GraphAttribute *across = graph_attribute_find(node, "transA");
  unsigned from_last = across && across->integer ? 2 : 1;
  double terms = a->rank >= from_last ? extent_of(a, a->rank - from_last) : 1;
  double size = input_size(s, node, 0) * input_size(s, node, 1) * sqrt(terms);
  if (node->op->id != ONNX_Gemm) return size;
  return hypot(graph_attribute(node, "alpha")->number * size,
               graph_attribute(node, "beta")->number * input_size(s, node, 2));
}

/* Elements of the input for each of the output. */
static double reduced(const GraphNode *node)
{
  double out = elements_of(node->outputs[0]);
  return out > 0 ? elements_of(node->inputs[0]) / out : 1;
}

static double largest_input(const Sizing *s, const GraphNode *node)
{
  double most = 0;
  unsigned n = node->op->class_ == OPERATOR_VIEW && node->op->id != ONNX_Concat ? 1 : node->n_inputs;
  for (unsigned i = node->op->id == ONNX_Where; i < n; i++)
    most = fmax(most, input_size(s, node, i));
  return most;
}

static double root_of_squares(const Sizing *s, const GraphNode *node)
{
  double size = 0;
  for (unsigned i = 0; i < node->n_inputs; i++)
    size = hypot(size, input_size(s, node, i));
  return size;
}

static double node_size(const Sizing *s, const GraphNode *node)
{
  double first = input_size(s, node, 0), second = input_size(s, node, 1);
  if (node->op->class_ == OPERATOR_GEMM) return product_size(s, node);
  switch (node->op->id) {
  case ONNX_Mul:
  case ONNX_DequantizeLinear: return first * second;
  case ONNX_Div: return second > 0 ? first / second : first;
  case ONNX_QuantizeLinear:
    return second > 0 ? fmin(first / second, size_of_type(node->outputs[0]->type)) : 0;
  case ONNX_Add:
  case ONNX_Sub:
  case ONNX_Sum: return root_of_squares(s, node);
  case ONNX_Mean: return root_of_squares(s, node) / node->n_inputs;
  case ONNX_Sigmoid:
  case ONNX_HardSigmoid:
  case ONNX_Tanh:
  case ONNX_Erf:
  case ONNX_Softsign:
  case ONNX_Sin:
  case ONNX_Cos:
  case ONNX_Sign: return fmin(first, 1);
  case ONNX_Exp: return exp(first);
  case ONNX_Sqrt: return sqrt(first);
  case ONNX_Softmax: return 1 / fmax(1, extent_of(node->inputs[0], node->inputs[0]->rank - 1));
  case ONNX_LayerNormalization: return hypot(second, input_size(s, node, 2));
  case ONNX_RMSNormalization: return second;
  case ONNX_CumSum:
  case ONNX_ReduceSum: return first * sqrt(reduced(node));
  case ONNX_ReduceMean: return first / sqrt(fmax(1, reduced(node)));
  case ONNX_Clip:
  case ONNX_Pow: return first;
  default: return largest_input(s, node);
  }
}

static void size_node(Sizing *s, const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_outputs; i++)
    if (node->outputs[i]) s->sizes[node->outputs[i]->index] = node_size(s, node);
}

/* ---- what multiplies ---- */

static bool may_be_scaled(const Sizing *s, const GraphTensor *tensor)
{
  return tensor->kind == TENSOR_INPUT && !s->given[tensor->index] &&
         number_class(tensor->type) == NUMBER_FLOAT && number_bits(tensor->type) >= 16;
}

static bool multiplies(const GraphNode *node)
{
  return node->op->class_ == OPERATOR_GEMM || node->op->id == ONNX_Mul ||
         node->op->id == ONNX_DequantizeLinear;
}

/* The input that an operand is, but for views, casts and factors. NULL: it is something computed. */
static const GraphTensor *direct_input(const Sizing *s, const GraphTensor *operand, unsigned factors)
{
  for (;;) {
    if (!operand) return NULL;
    if (may_be_scaled(s, operand)) return operand;
    const GraphNode *node = operand->producer;
    if (!node) return NULL;
    bool passes = node->op->class_ == OPERATOR_VIEW || node->op->id == ONNX_Cast ||
                  node->op->id == ONNX_Identity || node->op->id == ONNX_Neg;
    bool factor = node->op->id == ONNX_Mul || node->op->id == ONNX_DequantizeLinear;
    if (!passes && (!factor || !factors--)) return NULL;
    const GraphTensor *second = factor ? direct_input(s, node->inputs[1], factors) : NULL;
    if (second) return second;
    operand = node->inputs[0];
  }
}

/* The weight of a node that multiplies: its second operand if that is an input, else the first. */
static const GraphTensor *weight_of(const Sizing *s, const GraphNode *node)
{
  const GraphTensor *weight = direct_input(s, node->inputs[1], MOST_FACTORS);
  return weight ? weight : direct_input(s, node->inputs[0], MOST_FACTORS);
}

static bool forgets_size(const GraphNode *node)
{
  static const OperatorId bounded[] = {ONNX_Softmax,
                                       ONNX_Sigmoid,
                                       ONNX_HardSigmoid,
                                       ONNX_Tanh,
                                       ONNX_Erf,
                                       ONNX_Softsign,
                                       ONNX_Sin,
                                       ONNX_Cos,
                                       ONNX_LayerNormalization,
                                       ONNX_Sign,
                                       ONNX_RMSNormalization,
                                       ONNX_QuantizeLinear};
  for (unsigned i = 0; i < G_N_ELEMENTS(bounded); i++)
    if (bounded[i] == node->op->id) return true;
  return false;
}

/* Marks the inputs that are nearest to a tensor, back along all that its size follows from: of what multiplies
 * the weight, of all else what is added or chosen. */
static void mark_weights(const Sizing *s, const GraphTensor *tensor, bool *seen, bool *weights)
{
  g_autoptr(GPtrArray) stack = g_ptr_array_new();
  g_ptr_array_add(stack, (void *)tensor);
  while (stack->len) {
    const GraphTensor *top = g_ptr_array_steal_index_fast(stack, stack->len - 1);
    if (may_be_scaled(s, top)) weights[top->index] = true;
    if (seen[top->index] || !top->producer || forgets_size(top->producer)) continue;
    seen[top->index] = true;
    const GraphNode *node = top->producer;
    const GraphTensor *weight = multiplies(node) ? weight_of(s, node) : NULL;
    if (weight) weights[weight->index] = true;
    for (unsigned i = weight ? 2 : 0; i < node->n_inputs; i++)
      if (node->inputs[i]) g_ptr_array_add(stack, node->inputs[i]);
  }
}

/* ---- halving ---- */

static void scale(Sizing *s, const GraphTensor *input, double by)
{
  s->scales[input->index] *= by;
  s->sizes[input->index] *= by;
}

/* Of all nodes up to one, those that come first in the graph. */
static void size_up_to(Sizing *s, unsigned from, const GraphNode *last)
{
  for (unsigned i = from; i <= last->index; i++)
    size_node(s, s->graph->nodes[i]);
}

static unsigned first_reader(const GraphTensor *tensor)
{
  return tensor->n_consumers ? tensor->consumers[0]->index : 0;
}

/* Multiplies the inputs and sizes all nodes that follow, up to one. */
static void scale_inputs(Sizing *s, const bool *inputs, double by, const GraphNode *last)
{
  unsigned first = last->index;
  for (unsigned i = 0; i < s->graph->n_inputs; i++) {
    const GraphTensor *input = s->graph->inputs[i];
    if (!inputs[input->index]) continue;
    scale(s, input, by);
    first = MIN(first, first_reader(input));
  }
  size_up_to(s, first, last);
}

/* Halves the inputs until a tensor, which `last` or what comes before it makes, is small enough. */
static void halve_until(Sizing *s, const bool *inputs, const GraphTensor *tensor, double most,
                        const GraphNode *last)
{
  for (unsigned i = 0; i < MOST_HALVINGS && s->sizes[tensor->index] > most; i++) {
    double before = s->sizes[tensor->index];
    scale_inputs(s, inputs, 0.5, last);
    if (s->sizes[tensor->index] <= PROGRESS * before) continue;
    scale_inputs(s, inputs, 2, last);
    return;
  }
}

static void size_product(Sizing *s, const GraphNode *node)
{
  size_node(s, node);
  if (!(s->sizes[node->outputs[0]->index] > LARGE)) return;
  const GraphTensor *weight = weight_of(s, node);
  g_autofree bool *inputs = g_new0(bool, s->graph->n_tensors + 1);
  if (weight) inputs[weight->index] = true;
  halve_until(s, inputs, node->outputs[0], LARGE, node);
}

static void size_scores(Sizing *s, const GraphNode *node)
{
  const GraphTensor *scores = node->inputs[0];
  if (!(s->sizes[scores->index] > LARGE_SCORES)) return;
  g_autofree bool *seen = g_new0(bool, s->graph->n_tensors + 1);
  g_autofree bool *inputs = g_new0(bool, s->graph->n_tensors + 1);
  mark_weights(s, scores, seen, inputs);
  halve_until(s, inputs, scores, LARGE_SCORES, node);
}

/* Where a size beyond order 1 hides what follows: probabilities of one element, powers beyond the type. */
static bool takes_scores(const GraphNode *node)
{
  return node->op->id == ONNX_Softmax || node->op->id == ONNX_LogSoftmax || node->op->id == ONNX_Exp;
}

double *default_data_scales(const Graph *graph, Tensor *const *inputs, Tensor *const *constants)
{
  Sizing s = {.graph = graph,
              .sizes = g_new0(double, graph->n_tensors + 1),
              .scales = g_new0(double, graph->n_tensors + 1),
              .given = g_new0(bool, graph->n_tensors + 1)};
  for (unsigned i = 0; i < graph->n_inputs; i++) {
    const GraphTensor *input = graph->inputs[i];
    s.given[input->index] = inputs[i] != NULL;
    s.scales[input->index] = 1;
    s.sizes[input->index] = inputs[i] ? size_of_data(inputs[i]) : size_of_type(input->type);
  }
  for (unsigned i = 0; i < graph->n_constants; i++)
    s.sizes[graph->constants[i]->index] = size_of_data(constants[i]);
  for (unsigned i = 0; i < graph->n_nodes; i++) {
    const GraphNode *node = graph->nodes[i];
    if (takes_scores(node)) size_scores(&s, node);
    if (multiplies(node))
      size_product(&s, node);
    else
      size_node(&s, node);
  }
  double *scales = g_new0(double, graph->n_inputs + 1);
  for (unsigned i = 0; i < graph->n_inputs; i++)
    scales[i] = s.scales[graph->inputs[i]->index];
  g_free(s.sizes);
  g_free(s.scales);
  g_free(s.given);
  return scales;
}
