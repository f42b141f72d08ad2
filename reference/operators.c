#include "reference/operators.h"
#include "reference/private.h"
#include <string.h>

const ReferenceAttribute *reference_attribute(const ReferenceCall *call, const char *name)
{
  for (unsigned i = 0; i < call->n_attributes; i++)
    if (!strcmp(call->attributes[i].name, name)) return &call->attributes[i];
  return NULL;
}

double reference_number(const ReferenceCall *call, const char *name)
{
  const ReferenceAttribute *attribute = reference_attribute(call, name);
  if (!attribute) g_error("reference: %s lacks attribute %s", call->op, name);
  return attribute->number;
}

int64_t reference_integer(const ReferenceCall *call, const char *name)
{
  const ReferenceAttribute *attribute = reference_attribute(call, name);
  if (!attribute) g_error("reference: %s lacks attribute %s", call->op, name);
  return attribute->integer;
}

bool reference_refuse(GError **error, const ReferenceCall *call, const char *message)
{
  error_set(error, ERROR_INPUT, NULL, "reference", NULL, "%s: %s", call->op, message);
  return false;
}

static bool is_one_of(const char *op, const char *const *names)
{
  for (; *names; names++)
    if (!strcmp(*names, op)) return true;
  return false;
}

static const char *const products[] = {"MatMul", "MatMulInteger", "Gemm", "GroupedMatMul", NULL};
static const char *const rows[] = {"Softmax",
                                   "LogSoftmax",
                                   "LayerNormalization",
                                   "RMSNormalization",
                                   "ReduceSum",
                                   "ReduceMean",
                                   "ReduceMax",
                                   "ReduceMin",
                                   "ReduceProd",
                                   "ReduceLogSumExp",
                                   "ArgMax",
                                   "ArgMin",
                                   "Hardmax",
                                   "CumSum",
                                   "TopRows",
                                   NULL};

static const char *const views[] = {"Split", "Transpose", "Slice", "Concat", NULL};

bool reference_is_product(const char *op)
{
  return is_one_of(op, products);
}

bool reference_is_row(const char *op)
{
  return is_one_of(op, rows);
}

bool reference_is_view(const char *op)
{
  return is_one_of(op, views);
}

static const char *const lists[] = {"Shape", "Size", NULL};

/* Extents, or their product. */
static Value *list_of(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0];
  bool whole = !strcmp(call->op, "Size");
  const ReferenceAttribute *start = reference_attribute(call, "start"),
                           *end = reference_attribute(call, "end");
  int64_t rank = x->rank, first = start ? start->integer : 0, last = end ? end->integer : rank;
  first = CLAMP(first < 0 ? first + rank : first, 0, rank);
  last = CLAMP(last < 0 ? last + rank : last, first, rank);
  Value *result = value_new(NUMBER_S64, whole ? 0 : 1, (int64_t[]){last - first}, error);
  for (size_t i = 0; result && i < result->n; i++)
    result->integers[i] = whole ? (int64_t)x->n : x->shape[first + (int64_t)i];
  return result;
}

bool reference_knows(const char *op)
{
  return is_one_of(op, lists) || reference_is_product(op) || reference_is_sequences(op) ||
         reference_is_gradient(op) || reference_is_row(op) || reference_is_view(op) ||
         reference_is_reshape(op) || reference_is_index(op) || reference_is_window(op) ||
         reference_is_resample(op) || reference_is_scatter(op) || reference_is_append(op) ||
         reference_is_places(op) || reference_is_quantization(op) || reference_is_elementwise(op);
}

bool reference_run(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error)
{
  bool known;
  memset(outputs, 0, n_outputs * sizeof *outputs);
  bool row = reference_is_row(call->op), window = reference_is_window(call->op),
       sequences = reference_is_sequences(call->op), appends = reference_is_append(call->op),
       gradient = reference_is_gradient(call->op), places = reference_is_places(call->op);
  if (row || window || sequences || appends || gradient || places || reference_is_view(call->op)) {
    if ((row         ? reference_rows
         : window    ? reference_windows
         : sequences ? reference_sequences
         : appends   ? reference_append
         : gradient  ? reference_gradient
         : places    ? reference_places
                     : reference_views)(call, outputs, n_outputs, error))
      return true;
    for (unsigned i = 0; i < n_outputs; i++)
      g_clear_pointer(&outputs[i], value_free);
    return false;
  }
  if (reference_is_reshape(call->op) || reference_is_index(call->op)) {
    outputs[0] = (reference_is_reshape(call->op) ? reference_reshape : reference_index)(call, error);
    return outputs[0] != NULL;
  }
  if (reference_is_scatter(call->op)) {
    outputs[0] = reference_scatter(call, error);
    return outputs[0] != NULL;
  }
  if (reference_is_resample(call->op)) {
    outputs[0] = reference_resample(call, error);
    return outputs[0] != NULL;
  }
  if (is_one_of(call->op, lists)) {
    outputs[0] = list_of(call, error);
    return outputs[0] != NULL;
  }
  if (reference_is_quantization(call->op)) {
    outputs[0] = reference_quantization(call, error);
    return outputs[0] != NULL;
  }
  if (reference_is_product(call->op)) {
    outputs[0] = reference_product(call, error);
    return outputs[0] != NULL;
  }
  outputs[0] = reference_elementwise(call, &known, error);
  if (!known)
    error_set(error, ERROR_UNSUPPORTED, NULL, "unsupported-operator", NULL, "the reference does not know %s",
              call->op);
  return outputs[0] != NULL;
}
