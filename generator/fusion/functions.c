/* Rewrite read_functions: functions as exporters write them, of many operations an element, become those of few.
 *
 *   Pow(x, 2), Pow(x, 3)                                        Mul(x, x), Mul(Mul(x, x), x): an RMSNorm's squares are no logarithms
 *   1/2 x (1 + Erf(x / sqrt 2))                                 Gelu(x)
 *   1/2 x (1 + Tanh(sqrt(2 / pi) (x + 0.044715 x^3)))           Gelu(x) by tanh
 *
 * Factors of a Gelu may stand in any order; what tanh is taken of is read as a polynomial of x. Its numbers are those of the formula as
 * the graph's type rounds them. */
#include "generator/fusion/attention.h"
#include <math.h>
#include <string.h>

#define MOST_DEEP 8 /* nodes between a Gelu's result and x */
#define DEGREE    3

typedef struct {
  const AttentionPattern *at;
  GraphNode *node;        /* which gives the result */
  GraphTensor *leaves[2]; /* whose product it is, times the factor */
  unsigned n;
  double factor;
} Factors;

static GraphNode *producer(const AttentionPattern *at, const GraphTensor *tensor, OperatorId op)
{
  GraphNode *node = tensor ? at->producers[tensor->index] : NULL;
  return node && node->op->id == op ? node : NULL;
}

static bool is_alike(const GraphTensor *a, const GraphTensor *b)
{
  return a->type == b->type && graph_same_shape(a, b);
}

static void become(Fuser *fuser, GraphNode *node, OperatorId op, unsigned n_inputs, GraphTensor *a,
                   GraphTensor *b)
{
  GraphTensor *const inputs[] = {a, b};
  node->op = operator_of(op);
  node->onnx = NULL;
  node->written = NULL;
  node->inputs = arena_memdup(fuser->arena, inputs, sizeof inputs);
  node->n_inputs = n_inputs;
  node->attributes = fuser_default_attributes(fuser, node->op);
}

/* ---- powers ---- */

/* x of Pow(x, exponent); NULL: it is otherwise. */
static GraphTensor *power_of(const GraphNode *node, double *exponent)
{
  bool known = node->op->id == ONNX_Pow && node->n_inputs == 2 && graph_scalar(node->inputs[1], exponent);
  return known && is_alike(node->inputs[0], node->outputs[0]) ? node->inputs[0] : NULL;
}

static GraphTensor *square_of(Fuser *fuser, GraphNode *node, GraphTensor *x)
{
  const char *name = arena_printf(fuser->arena, "%s.square%u", node->outputs[0]->name, fuser->tensors->len);
  GraphTensor *square = fuser_new_tensor(fuser, name, x->type, node->mark, x->shape, x->rank);
  GraphNode *mul = fuser_copy_node(fuser, node, x, square);
  become(fuser, mul, ONNX_Mul, 2, x, x);
  mul->loop = node->loop;
  square->producer = mul;
  square->n_consumers = 1;
  fuser_insert_before(fuser, node, mul);
  return square;
}

static void read_powers(AttentionPattern *at)
{
  Fuser *fuser = at->fuser;
  g_autoptr(GPtrArray) nodes = g_ptr_array_copy(fuser->live, NULL, NULL);
  for (unsigned i = 0; i < nodes->len; i++) {
    double exponent;
    GraphNode *node = nodes->pdata[i];
    GraphTensor *x = power_of(node, &exponent);
    if (!x || (exponent != 2 && exponent != 3)) continue;
    become(fuser, node, ONNX_Mul, 2, exponent == 2 ? x : square_of(fuser, node, x), x);
    fuser_note(fuser, "`%s` is `%s` times itself", node->outputs[0]->name, x->name);
  }
}

/* ---- Gelu ---- */

/* A product that others read as well is a factor by itself: x may be one. */
static bool collect(Factors *of, GraphTensor *tensor, unsigned deep)
{
  double number;
  bool inside =
      tensor == of->node->outputs[0] || (!tensor->is_output && of->at->readers[tensor->index]->len == 1);
  if (graph_scalar(tensor, &number)) {
    of->factor *= number;
    return true;
  }
  const GraphNode *mul = producer(of->at, tensor, ONNX_Mul), *div = producer(of->at, tensor, ONNX_Div);
  if (deep && inside && mul)
    return collect(of, mul->inputs[0], deep - 1) && collect(of, mul->inputs[1], deep - 1);
  if (deep && inside && div && graph_scalar(div->inputs[1], &number)) {
    of->factor /= number;
    return collect(of, div->inputs[0], deep - 1);
  }
  if (of->n == G_N_ELEMENTS(of->leaves) || !is_alike(tensor, of->node->outputs[0])) return false;
  of->leaves[of->n++] = tensor;
  return true;
}

static bool times(const double *a, const double *b, double *product)
{
  memset(product, 0, (DEGREE + 1) * sizeof *product);
  for (unsigned i = 0; i <= DEGREE; i++)
    for (unsigned j = 0; j <= DEGREE; j++) {
      double term = a[i] * b[j];
      if (term != 0 && i + j > DEGREE) return false;
      if (i + j <= DEGREE) product[i + j] += term;
    }
  return true;
}

static bool polynomial(const AttentionPattern *at, const GraphTensor *x, const GraphTensor *of,
                       double *coefficients, unsigned deep);

static bool polynomial_of_node(const AttentionPattern *at, const GraphTensor *x, const GraphNode *node,
                               double *coefficients, unsigned deep)
{
  double a[DEGREE + 1], b[DEGREE + 1], exponent;
  OperatorId op = node->op->id;
  if (power_of(node, &exponent)) {
    if ((exponent != 2 && exponent != 3) || !polynomial(at, x, node->inputs[0], a, deep)) return false;
    if (!times(a, a, b)) return false;
    if (exponent == 3) return times(a, b, coefficients);
    memcpy(coefficients, b, sizeof b);
    return true;
  }
  if (op != ONNX_Add && op != ONNX_Mul && op != ONNX_Div) return false;
  if (node->n_inputs != 2 || !polynomial(at, x, node->inputs[0], a, deep) ||
      !polynomial(at, x, node->inputs[1], b, deep))
    return false;
  if (op == ONNX_Mul) return times(a, b, coefficients);
  if (op == ONNX_Div && (b[0] == 0 || b[1] != 0 || b[2] != 0 || b[3] != 0)) return false;
  for (unsigned i = 0; i <= DEGREE; i++)
    coefficients[i] = op == ONNX_Add ? a[i] + b[i] : a[i] / b[0];
  return true;
}

/* What is computed, as a polynomial of x: its coefficients, from the lowest power on. */
static bool polynomial(const AttentionPattern *at, const GraphTensor *x, const GraphTensor *of,
                       double *coefficients, unsigned deep)
{
  memset(coefficients, 0, (DEGREE + 1) * sizeof *coefficients);
  if (of == x) {
    coefficients[1] = 1;
    return true;
  }
  if (graph_scalar(of, &coefficients[0])) return true;
  const GraphNode *node = at->producers[of->index];
  return node && deep && polynomial_of_node(at, x, node, coefficients, deep - 1);
}

/* The number as it may be written: rounded to the type, as may be another that it was multiplied by, or with seven digits. */
static bool is_near(double number, double wanted, NumberType type)
{
  double error = type == NUMBER_F64    ? 1e-12
                 : type == NUMBER_F16  ? 0x1p-10
                 : type == NUMBER_BF16 ? 0x1p-7
                                       : 1e-6;
  return fabs(number - wanted) <= error * fabs(wanted);
}

/* The function whose result and 1 are added; NULL: it is otherwise. */
static const GraphNode *gate_of(const AttentionPattern *at, const GraphTensor *tensor)
{
  const GraphNode *add = producer(at, tensor, ONNX_Add);
  double one;
  for (unsigned i = 0; add && add->n_inputs == 2 && i < 2; i++) {
    const GraphNode *node = at->producers[add->inputs[i]->index];
    bool gate = node && (node->op->id == ONNX_Erf || node->op->id == ONNX_Tanh);
    if (gate && graph_scalar(add->inputs[1 - i], &one) && one == 1) return node;
  }
  return NULL;
}

static bool is_gelu(const AttentionPattern *at, const GraphNode *gate, const GraphTensor *x)
{
  double c[DEGREE + 1];
  bool tanh = gate->op->id == ONNX_Tanh;
  if (!polynomial(at, x, gate->inputs[0], c, MOST_DEEP) || c[0] != 0 || c[2] != 0) return false;
  if (!tanh) return c[3] == 0 && is_near(c[1], G_SQRT2 / 2, x->type);
  double first = sqrt(2 / G_PI);
  return is_near(c[1], first, x->type) && is_near(c[3], 0.044715 * first, x->type);
}

static void read_gelu(AttentionPattern *at, GraphNode *node)
{
  Factors of = {.at = at, .node = node, .factor = 1};
  bool floats = number_class(node->outputs[0]->type) == NUMBER_FLOAT;
  if (!floats || !collect(&of, node->outputs[0], MOST_DEEP) || of.n != 2 || of.factor != 0.5) return;
  for (unsigned i = 0; i < 2; i++) {
    const GraphNode *gate = gate_of(at, of.leaves[i]);
    GraphTensor *x = of.leaves[1 - i];
    if (!gate || !is_gelu(at, gate, x)) continue;
    become(at->fuser, node, ONNX_Gelu, 1, x, NULL);
    int place = operator_attribute_index(node->op, "approximate");
    if (gate->op->id == ONNX_Tanh && place >= 0) node->attributes[place].text = "tanh";
    fuser_note(at->fuser, "`%s` is Gelu of `%s`", node->outputs[0]->name, x->name);
    return;
  }
}

static void read_functions(AttentionPattern *at)
{
  for (unsigned i = 0; i < at->fuser->live->len; i++) {
    GraphNode *node = at->fuser->live->pdata[i];
    if (node->op->id == ONNX_Mul && node->n_inputs == 2) read_gelu(at, node);
  }
  read_powers(at);
}

void fusion_read_functions(Fuser *fuser)
{
  attention_visit_nodes(fuser, read_functions);
  fusion_drop_unread(fuser);
}
