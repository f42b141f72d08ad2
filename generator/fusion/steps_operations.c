/* How much arithmetic the steps of a fused operator are: what the cost model wants to know before there is a
 * kernel. tests/unit/test_cli_operations.c holds the numbers against the templates. */
#include "generator/fusion/steps_operations.h"
#include <string.h>

/* Functions of more than one operation: brief, narrow, full forms. */
/* clang-format off */
static const StepOperations counted[] = {
    {ONNX_Gelu, "gelu", {12, 12, 45}},
    {ONNX_Gelu, "gelu_tanh", {13, 13, 30}},
    {ONNX_Tanh, "tanh", {14, 24, 38}},
    {ONNX_Erf, "erf", {14, 14, 46}},
    {ONNX_Swish, "silu", {16, 19, 27}},
    {ONNX_Swish, "swish", {18, 21, 28}},
    {ONNX_Sigmoid, "sigmoid", {16, 19, 26}},
    {ONNX_Exp, "exp", {22, 22, 22}},
    {ONNX_Log, "log", {28, 28, 28}},
    {ONNX_LeakyRelu, "leaky_relu", {3, 3, 3}},
    {ONNX_PRelu, "prelu", {3, 3, 3}},
    {ONNX_ThresholdedRelu, "thresholded_relu", {2, 2, 2}},
    {ONNX_Elu, "elu", {29, 29, 29}},
    {ONNX_Selu, "selu", {30, 30, 30}},
    {ONNX_Celu, "celu", {31, 31, 31}},
    {ONNX_HardSigmoid, "hard_sigmoid", {3, 3, 3}},
    {ONNX_HardSwish, "hard_swish", {4, 4, 4}},
    {ONNX_Mish, "mish", {28, 28, 28}},
    {ONNX_Softplus, "softplus", {57, 57, 57}},
    {ONNX_Softsign, "softsign", {2, 2, 2}},
    {ONNX_Pow, "pow", {112, 112, 112}},
    {ONNX_Pow, "pow_integer", {201, 201, 201}},
    {ONNX_Sin, "sin", {88, 88, 88}},
    {ONNX_Cos, "cos", {87, 87, 87}},
    {ONNX_Tan, "tan", {87, 87, 87}},
    {ONNX_Asin, "asin", {18, 18, 18}},
    {ONNX_Acos, "acos", {23, 23, 23}},
    {ONNX_Atan, "atan", {20, 20, 20}},
    {ONNX_Sinh, "sinh", {54, 54, 54}},
    {ONNX_Cosh, "cosh", {25, 25, 25}},
    {ONNX_Asinh, "asinh", {72, 72, 72}},
    {ONNX_Acosh, "acosh", {71, 71, 71}},
    {ONNX_Atanh, "atanh", {40, 40, 40}},
    {ONNX_Mod, "mod", {38, 38, 38}},
    {ONNX_Mod, "mod_integer", {11, 11, 11}},
    {ONNX_Mod, "fmod", {30, 30, 30}},
    {ONNX_Mod, "fmod_integer", {5, 5, 5}},
    {ONNX_Div, "div_integer", {7, 7, 7}},
    {ONNX_Shrink, "shrink", {6, 6, 6}},
    {ONNX_Sign, "sign", {4, 4, 4}},
    {ONNX_Sign, "sign_integer", {2, 2, 2}},
    {ONNX_IsInf, "is_inf", {7, 7, 7}},
    {ONNX_Philox, "philox", {146, 146, 146}},
};
/* clang-format on */

StepPrecision step_precision(NumberType result)
{
  if (number_class(result) != NUMBER_FLOAT || number_bits(result) > 16) return STEP_FULL;
  return result == NUMBER_F16 ? STEP_NARROW : STEP_BRIEF;
}

const StepOperations *steps_operations_table(unsigned *n)
{
  *n = G_N_ELEMENTS(counted);
  return counted;
}

/* Which of its operator's functions a step calls, as step_write() chooses: those of integers, and by an attribute. */
static bool calls(const FusedStep *step, const StepOperations *entry)
{
  bool integer = number_class(step->compute) != NUMBER_FLOAT;
  const GraphAttribute *first = step->attributes; /* of these operators only: others may have none */
  bool of_integers = g_str_has_suffix(entry->name, "_integer");
  if (step->op == ONNX_Gelu)
    return (first && first->text && !strcmp(first->text, "tanh")) == !strcmp(entry->name, "gelu_tanh");
  if (step->op == ONNX_Swish) return (first && first->number == 1) == !strcmp(entry->name, "silu");
  if (step->op == ONNX_Mod && (first && first->integer) != g_str_has_prefix(entry->name, "fmod"))
    return false;
  if (step->op == ONNX_Mod || step->op == ONNX_Div || step->op == ONNX_Sign || step->op == ONNX_Pow)
    return integer == of_integers;
  return true;
}

unsigned step_operations_of(const GraphNode *node)
{
  const NumberType compute = node->n_inputs && node->inputs[0] ? node->inputs[0]->type : NUMBER_F32;
  const FusedStep step = {.op = node->op->id, .attributes = node->attributes, .compute = compute};
  if (node->op->class_ != OPERATOR_ELEMENTWISE) return 0;
  unsigned operations = MAX(node->n_inputs, 2) - 1;
  for (unsigned j = 0; j < G_N_ELEMENTS(counted); j++)
    if (counted[j].id == step.op && calls(&step, &counted[j]))
      operations = counted[j].n[step_precision(node->outputs[0]->type)];
  return operations;
}

/* Does an operand differ from element to element? `steps`: which of the steps before it do. */
static bool varies(const FusedOperator *op, const FusedOperand *operand, const bool *steps)
{
  switch (operand->kind) {
  case OPERAND_IMMEDIATE:
  case OPERAND_ABSENT: return false;
  case OPERAND_STEP: return steps[operand->index];
  case OPERAND_INPUT:
    for (unsigned d = 0; d < op->rank; d++)
      if (!symbolic_equals(op->inputs[operand->index].strides[d], 0)) return true;
    return false;
  case OPERAND_INDEX:
  case OPERAND_ANCHOR:
  case OPERAND_REDUCED: return true;
  }
  return true;
}

double steps_operations(const FusedOperator *op)
{
  double sum = 0;
  g_autofree bool *varying = g_new0(bool, op->n_steps + 1);
  for (unsigned i = 0; i < op->n_steps; i++) {
    const FusedStep *step = &op->steps[i];
    for (unsigned j = 0; j < step->n_operands; j++)
      varying[i] |= varies(op, &step->operands[j], varying);
    if (!varying[i]) continue; /* once a thread */
    unsigned operations = step->op == ONNX_Cast || step->op == ONNX_Identity ? 0 : 1;
    StepPrecision precision = step_precision(step->type);
    for (unsigned j = 0; operations && j < G_N_ELEMENTS(counted); j++)
      if (counted[j].id == step->op && calls(step, &counted[j])) {
        operations = counted[j].n[precision];
        break;
      }
    sum += operations;
  }
  return sum;
}
