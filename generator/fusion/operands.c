/* Rewrite copy_operands: operands of products that no kernel reads where they lie are copied. */
#include "generator/fusion/private.h"

/* One of the last two strides is 1 and no other is 0; an extent of 1 has whatever stride is needed. */
static bool has_unit_stride(const GraphTensor *tensor)
{
  unsigned from = tensor->rank > 2 ? tensor->rank - 2 : 0;
  bool unit = false;
  for (unsigned i = from; i < tensor->rank; i++) {
    bool single = symbolic_equals(tensor->shape[i], 1);
    if (!single && symbolic_equals(tensor->strides[i], 0)) return false;
    unit = unit || single || symbolic_equals(tensor->strides[i], 1);
  }
  return unit;
}

/* The operand's dimension along k. */
static unsigned inner_dimension(const GraphNode *node, unsigned operand)
{
  const GraphTensor *tensor = node->inputs[operand];
  bool transposed = graph_is_transposed(node, operand);
  if (tensor->rank == 1) return 0;
  return tensor->rank - ((operand == 0) == transposed ? 2 : 1);
}

/* Elements of the operand lie side by side along k. */
static bool lies_along_k(const GraphNode *node, unsigned operand)
{
  const GraphTensor *tensor = node->inputs[operand];
  unsigned k = inner_dimension(node, operand);
  return symbolic_equals(tensor->strides[k], 1) || symbolic_equals(tensor->shape[k], 1);
}

/* Does some kernel read the operands as they lie? All do along k. *why: if not. */
static bool is_readable(Fuser *fuser, GraphNode *node, const char **why)
{
  if (lies_along_k(node, 0) && lies_along_k(node, 1)) return true;
  const Program *program = fuser_program(fuser, node, node->outputs[0]);
  ProgramVerdict verdict = fuser_judge_all(fuser, &program, 1, false);
  *why = verdict.why;
  return verdict.taken;
}

/* With k innermost, in rows of whole 16 bytes. */
static void copy_along_k(Fuser *fuser, GraphNode *node, unsigned operand, const char *why)
{
  GraphTensor *tensor = node->inputs[operand];
  GraphTensor *copy = fuser_make_copy(fuser, node, tensor, tensor->shape, tensor->rank,
                                      inner_dimension(node, operand), number_elements(tensor->type, 16));
  fuser_insert_copy(fuser, node, tensor, copy, why);
  node->inputs[operand] = copy;
}

static void copy_operands(Fuser *fuser, GraphNode *node)
{
  for (unsigned i = 0; i < 2; i++)
    if (!number_is_packed(node->inputs[i]->type) && !has_unit_stride(node->inputs[i]))
      copy_along_k(fuser, node, i, "no stride of its matrices is 1");
  /* A is the one that may stay: its rows are what a product takes through registers */
  const char *why = NULL;
  for (unsigned i = 2; i-- > 0 && !is_readable(fuser, node, &why);)
    if (!number_is_packed(node->inputs[i]->type) && !lies_along_k(node, i)) copy_along_k(fuser, node, i, why);
}

bool fusion_copy_operands(Fuser *fuser, unsigned place)
{
  GraphNode *node = fuser->live->pdata[place];
  if (node->op->class_ == OPERATOR_GEMM) copy_operands(fuser, node);
  return false;
}
