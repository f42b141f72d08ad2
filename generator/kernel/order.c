/* Keys in order: the template's tensors and extents are the graph's. */
#include "generator/program/order.h"
#include "generator/kernel/kernel.h"

/* What a parameter of the templates is: an input, or a result. One that the kernel does not touch stands for another. */
typedef struct {
  const char *name;
  int input; /* -1: none */
  OrderResult result;
} OrderParameter;

static OrderParameter parameter_of(const FusedOrder *order, const char *name)
{
  const OrderParameter parameters[] = {
      {"KEYS", 0, ORDER_PLACES},
      {"FLOATS", 0, ORDER_PLACES},
      {"BASE", order->based ? 1 : -1, ORDER_TALLIES},
      {"COUNTS",
       order->taken   ? 2
       : order->known ? 1
                      : -1,
       ORDER_TALLIES},
      {"ROOM", order->taken ? 3 : -1, ORDER_TALLIES},
      {"TALLIES", -1, ORDER_TALLIES},
      {"ENDS", -1, ORDER_ENDS},
      {"SOURCE", -1, ORDER_SOURCES},
      {"PLACE", -1, ORDER_PLACES},
  };
  for (unsigned i = 0; i + 1 < G_N_ELEMENTS(parameters); i++)
    if (g_str_equal(parameters[i].name, name)) return parameters[i];
  return parameters[G_N_ELEMENTS(parameters) - 1];
}

static const GraphTensor *tensor_of(const KernelBuild *build, const char *name)
{
  const FusedOperator *op = build->op;
  OrderParameter parameter = parameter_of(order_of(op), name);
  if (parameter.input >= 0) return op->inputs[parameter.input].tensor;
  int output = order_of(op)->output[parameter.result];
  return output == PROGRAM_NONE ? op->outputs[0].tensor : op->outputs[output].tensor;
}

bool kernel_write_order(KernelBuild *build)
{
  const FusedOrder *order = order_of(build->op);
  kernel_bind_dim(build, "N", order->elements);
  kernel_bind_dim(build, "R", order->rows);
  kernel_bind_dim(build, "P", order->parts);
  if (!order->taken) {
    kernel_bind_dim(build, "K", order->each);
    kernel_bind_dim(build, "S0", order->strides[0]);
    kernel_bind_dim(build, "S1", order->strides[1]);
  }
  for (unsigned i = 0; i < build->kernel->n_parameters; i++) {
    IrValue *value = build->kernel->parameters[i];
    const GraphTensor *tensor = tensor_of(build, value->name);
    value->type.align = choice_align(build->choice, tensor);
    g_hash_table_insert(build->tensors, (gpointer)value->name, (gpointer)tensor);
  }
  return true;
}
