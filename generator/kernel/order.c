/* Keys in order: the template's tensors and extents are the graph's. */
#include "generator/program/order.h"
#include "generator/kernel/kernel.h"

enum { KEYS, COUNTS, TALLIES, ENDS, SOURCE, PLACE, TENSORS };

/* One that the kernel does not touch stands for another. */
static const GraphTensor *tensor_of(const KernelBuild *build, unsigned parameter)
{
  static const OrderResult results[TENSORS] = {[COUNTS] = ORDER_TALLIES,
                                               [TALLIES] = ORDER_TALLIES,
                                               [ENDS] = ORDER_ENDS,
                                               [SOURCE] = ORDER_SOURCES,
                                               [PLACE] = ORDER_PLACES};
  const FusedOperator *op = build->op;
  if (parameter == KEYS) return op->inputs[0].tensor;
  if (parameter == COUNTS && order_of(op)->known) return op->inputs[1].tensor;
  int output = order_of(op)->output[results[parameter]];
  return output == PROGRAM_NONE ? op->outputs[0].tensor : op->outputs[output].tensor;
}

bool kernel_write_order(KernelBuild *build)
{
  const FusedOrder *order = order_of(build->op);
  kernel_bind_dim(build, "N", order->elements);
  kernel_bind_dim(build, "K", order->each);
  kernel_bind_dim(build, "R", order->rows);
  kernel_bind_dim(build, "P", order->parts);
  kernel_bind_dim(build, "S0", order->strides[0]);
  kernel_bind_dim(build, "S1", order->strides[1]);
  for (unsigned i = 0; i < TENSORS; i++) {
    IrValue *value = build->kernel->parameters[i];
    const GraphTensor *tensor = tensor_of(build, i);
    value->type.align = choice_align(build->choice, tensor);
    g_hash_table_insert(build->tensors, (gpointer)value->name, (gpointer)tensor);
  }
  return true;
}
