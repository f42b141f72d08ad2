#include "execute/evaluate.h"
#include "generator/front/append.h"
#include "generator/front/groups.h"
#include <string.h>

static bool extents_of(const GraphTensor *tensor, int64_t *shape, GError **error)
{
  for (unsigned i = 0; i < tensor->rank; i++)
    if (!symbolic_is_constant(tensor->shape[i], &shape[i])) {
      g_autofree char *text = symbolic_text(tensor->shape[i]);
      error_set(error, ERROR_INPUT, &tensor->mark, "unbound-symbol",
                "give every symbol a value, such as --dim M=4096", "dimension %u of `%s` is %s, not a number",
                i, tensor->name, text);
      return false;
    }
  return true;
}

Tensor *evaluate_default_input(const Graph *graph, unsigned index, double scale, uint64_t seed,
                               GError **error)
{
  const GraphTensor *input = graph->inputs[index];
  int64_t shape[GRAPH_MAX_RANK];
  if (!extents_of(input, shape, error)) return NULL;
  Tensor *tensor = tensor_new(input->name, input->type, input->rank, shape, error);
  const GraphNode *grouped = graph_groups_reader(input);
  if (tensor && grouped && input->type == NUMBER_S32) {
    tensor_fill_range(tensor, seed, index, 0, G_MAXINT32);
    graph_fill_groups(grouped, (int32_t *)tensor->data, tensor->n, false);
    return tensor;
  }
  int64_t slots = append_slots(input);
  if (tensor && slots) {
    tensor_fill_range(tensor, seed, index, 0, slots);
    append_fill_slots(input->type, tensor->data, tensor->n, slots);
    return tensor;
  }
  int64_t n = number_class(input->type) == NUMBER_FLOAT ? 0 : graph_indexed_elements(input);
  if (tensor && n)
    tensor_fill_range(tensor, seed, index, -n, n);
  else if (tensor)
    tensor_fill_random(tensor, seed, index, scale);
  return tensor;
}

Tensor *evaluate_constant(const Graph *graph, unsigned index, GError **error)
{
  const GraphTensor *constant = graph->constants[index];
  int64_t shape[GRAPH_MAX_RANK];
  if (!extents_of(constant, shape, error)) return NULL;
  if (constant->file && constant->file_is_raw)
    return tensor_load_raw(constant->file, constant->file_offset, constant->name, constant->type,
                           constant->rank, shape, error);
  if (constant->file) {
    /* Under its own name, or as the file's only tensor. */
    g_autoptr(Tensor) loaded = tensor_load(constant->file, constant->name, NULL);
    if (!loaded) loaded = tensor_load(constant->file, NULL, error);
    if (!loaded || !tensor_check(loaded, constant->type, constant->rank, shape, error)) return NULL;
    return g_steal_pointer(&loaded);
  }
  Tensor *tensor = tensor_new(constant->name, constant->type, constant->rank, shape, error);
  if (tensor && tensor->bytes) memcpy(tensor->data, constant->data, tensor->bytes);
  return tensor;
}

static Tensor *constant_called(const Graph *graph, const char *name, GError **error)
{
  for (unsigned i = 0; i < graph->n_constants; i++)
    if (!strcmp(graph->constants[i]->name, name)) return evaluate_constant(graph, i, error);
  error_set(error, ERROR_INTERNAL, NULL, "constant", NULL, "the graph has no constant %s", name);
  return NULL;
}

Tensor *evaluate_plan_constant(const Graph *graph, const PlanTensor *constant, GError **error)
{
  if (!constant->n_stacks) return constant_called(graph, constant->name, error);
  g_autoptr(GPtrArray) parts = g_ptr_array_new_with_free_func((GDestroyNotify)tensor_free);
  for (unsigned i = 0; i < constant->n_stacks; i++) {
    Tensor *part = constant_called(graph, constant->stacks[i].name, error);
    if (!part) return NULL;
    g_ptr_array_add(parts, part);
  }
  return tensor_stack(constant->name, (Tensor *const *)(void *)parts->pdata, parts->len, error);
}

/* ---- walking the nodes ---- */

typedef struct {
  const Graph *graph;
  Value **values;    /* by tensor index; freed behind the last reader */
  unsigned *readers; /* by tensor index: reads to come */
  Errors *errors;    /* by tensor index, freed with the values; NULL: not asked for */
  double *widths;    /* by tensor index: comparison_width(); NULL as `errors` */
  double *coarsest;  /* by tensor index: the largest plain limit of the types it was rounded to on its way */
  const double *plain;
  ErrorModel model;
} Evaluation;

static ReferenceAttribute *attributes_of(const GraphNode *node)
{
  ReferenceAttribute *list = g_new0(ReferenceAttribute, node->op->n_attributes + 1);
  for (unsigned i = 0; i < node->op->n_attributes; i++) {
    const GraphAttribute *attribute = &node->attributes[i];
    list[i] = (ReferenceAttribute){.name = node->op->attributes[i].name,
                                   .integer = attribute->integer,
                                   .number = attribute->number,
                                   .text = attribute->text,
                                   .integers = attribute->integers,
                                   .n = attribute->n};
  }
  return list;
}

/* The reference finds shapes by itself: they must agree with inference, and the value takes the graph's type.
 */
static bool check_output(const GraphTensor *tensor, Value *value, GError **error)
{
  int64_t shape[GRAPH_MAX_RANK];
  if (!extents_of(tensor, shape, error)) return false;
  bool same = value->rank == tensor->rank;
  for (unsigned i = 0; same && i < value->rank; i++)
    same = value->shape[i] == shape[i];
  if (same && value_is_float(value) == (number_class(tensor->type) == NUMBER_FLOAT)) {
    value->type = tensor->type;
    return true;
  }
  error_set(error, ERROR_INTERNAL, &tensor->mark, "inference", NULL,
            "`%s` has another shape or type than was inferred", tensor->name);
  return false;
}

static void release_inputs(Evaluation *evaluation, const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const GraphTensor *tensor = node->inputs[i];
    if (!tensor || --evaluation->readers[tensor->index] || tensor->is_output) continue;
    g_clear_pointer(&evaluation->values[tensor->index], value_free);
    if (evaluation->errors) g_clear_pointer(&evaluation->errors[tensor->index].each, g_free);
  }
}

/* What is computed from coarser numbers than its own type's has their limit. */
static double widest_of(const Evaluation *evaluation, const GraphTensor *tensor)
{
  return comparison_widest(MAX(evaluation->plain[tensor->type], evaluation->coarsest[tensor->index]));
}

/* Errors of a node's outputs, which have the graph's types by now. */
static bool find_errors(const Evaluation *evaluation, const GraphNode *node, const ReferenceCall *call,
                        Value **outputs, GError **error)
{
  g_autofree Errors *inputs = g_new0(Errors, node->n_inputs + 1);
  g_autofree Errors *errors = g_new0(Errors, node->n_outputs + 1);
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i]) inputs[i] = evaluation->errors[node->inputs[i]->index];
  if (!reference_errors(call, inputs, outputs, node->n_outputs, &evaluation->model, errors, error))
    return false;
  double coarsest = 0;
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i]) coarsest = MAX(coarsest, evaluation->coarsest[node->inputs[i]->index]);
  for (unsigned i = 0; i < node->n_outputs; i++) {
    const GraphTensor *tensor = node->outputs[i];
    if (!tensor) {
      g_free(errors[i].each);
      continue;
    }
    double plain = evaluation->plain[tensor->type];
    evaluation->errors[tensor->index] = errors[i];
    evaluation->coarsest[tensor->index] =
        reference_rounds(call, outputs[i]) ? MAX(coarsest, plain) : coarsest;
    evaluation->widths[tensor->index] =
        comparison_width(outputs[i], errors[i].each, plain, widest_of(evaluation, tensor));
  }
  return true;
}

static bool run_node(Evaluation *evaluation, const GraphNode *node, GError **error)
{
  g_autofree const Value **inputs = g_new0(const Value *, node->n_inputs + 1);
  for (unsigned i = 0; i < node->n_inputs; i++)
    inputs[i] = node->inputs[i] ? evaluation->values[node->inputs[i]->index] : NULL;
  g_autofree ReferenceAttribute *attributes = attributes_of(node);
  ReferenceCall call = {.op = node->op->name,
                        .opset = MAX(evaluation->graph->opset, node->op->since),
                        .inputs = inputs,
                        .n_inputs = node->n_inputs,
                        .attributes = attributes,
                        .n_attributes = node->op->n_attributes,
                        .result = node->outputs[0]->type};
  g_autofree Value **outputs = g_new0(Value *, node->n_outputs + 1);
  if (!reference_run(&call, outputs, node->n_outputs, error)) return false;
  bool ok = true;
  for (unsigned i = 0; i < node->n_outputs; i++)
    ok = ok && (!node->outputs[i] || check_output(node->outputs[i], outputs[i], error));
  if (ok && evaluation->errors) ok = find_errors(evaluation, node, &call, outputs, error);
  for (unsigned i = 0; i < node->n_outputs; i++) {
    const GraphTensor *tensor = node->outputs[i];
    bool kept = tensor && (tensor->is_output || tensor->n_consumers);
    if (kept)
      evaluation->values[tensor->index] = outputs[i];
    else
      value_free(outputs[i]);
  }
  release_inputs(evaluation, node);
  return ok;
}

static bool load_values(Evaluation *evaluation, Tensor *const *inputs, GError **error)
{
  const Graph *graph = evaluation->graph;
  int64_t shape[GRAPH_MAX_RANK];
  for (unsigned i = 0; i < graph->n_inputs; i++) {
    const GraphTensor *input = graph->inputs[i];
    if (!extents_of(input, shape, error) ||
        !tensor_check(inputs[i], input->type, input->rank, shape, error) ||
        !(evaluation->values[input->index] = value_from_tensor(inputs[i], error)))
      return false;
  }
  for (unsigned i = 0; i < graph->n_constants; i++) {
    g_autoptr(Tensor) constant = evaluate_constant(graph, i, error);
    if (!constant || !(evaluation->values[graph->constants[i]->index] = value_from_tensor(constant, error)))
      return false;
  }
  return true;
}

static void evaluation_clear(Evaluation *evaluation)
{
  for (unsigned i = 0; i < evaluation->graph->n_tensors; i++) {
    value_free(evaluation->values[i]);
    if (evaluation->errors) g_free(evaluation->errors[i].each);
  }
  g_free(evaluation->values);
  g_free(evaluation->readers);
  g_free(evaluation->errors);
  g_free(evaluation->widths);
  g_free(evaluation->coarsest);
}

static GPtrArray *evaluate(Evaluation *evaluation, Tensor *const *inputs, GError **error)
{
  const Graph *graph = evaluation->graph;
  evaluation->values = g_new0(Value *, graph->n_tensors + 1);
  evaluation->readers = g_new0(unsigned, graph->n_tensors + 1);
  for (unsigned i = 0; i < graph->n_tensors; i++)
    evaluation->readers[i] = graph->tensors[i]->n_consumers;
  bool ok = load_values(evaluation, inputs, error);
  for (unsigned i = 0; ok && i < graph->n_nodes; i++)
    ok = run_node(evaluation, graph->nodes[i], error);
  GPtrArray *outputs = ok ? g_ptr_array_new_with_free_func((GDestroyNotify)value_free) : NULL;
  for (unsigned i = 0; ok && i < graph->n_outputs; i++)
    g_ptr_array_add(outputs, g_steal_pointer(&evaluation->values[graph->outputs[i]->index]));
  return outputs;
}

GPtrArray *evaluate_graph(const Graph *graph, Tensor *const *inputs, GError **error)
{
  Evaluation evaluation = {.graph = graph};
  GPtrArray *outputs = evaluate(&evaluation, inputs, error);
  evaluation_clear(&evaluation);
  return outputs;
}

/* Back along the widest inputs to the first node whose result is wide and whose inputs are not. */
static const GraphNode *find_wider(const Evaluation *evaluation, const GraphTensor *tensor)
{
  if (!(evaluation->widths[tensor->index] > 1)) return NULL;
  for (;;) {
    const GraphNode *node = tensor->producer;
    const GraphTensor *widest = NULL;
    for (unsigned i = 0; i < node->n_inputs; i++) {
      const GraphTensor *input = node->inputs[i];
      if (!input || !input->producer || !(evaluation->widths[input->index] > 1)) continue;
      if (!widest || evaluation->widths[input->index] > evaluation->widths[widest->index]) widest = input;
    }
    if (!widest) return node;
    tensor = widest;
  }
}

void evaluation_errors_clear(EvaluationErrors *errors)
{
  g_clear_pointer(&errors->each, g_ptr_array_unref);
  g_clear_pointer(&errors->widest, g_free);
  g_clear_pointer(&errors->wider, g_free);
}

GPtrArray *evaluate_graph_errors(const Graph *graph, Tensor *const *inputs, const ErrorModel *model,
                                 const double *plain, EvaluationErrors *errors, GError **error)
{
  Evaluation evaluation = {.graph = graph, .plain = plain, .model = *model};
  evaluation.errors = g_new0(Errors, graph->n_tensors + 1);
  evaluation.widths = g_new0(double, graph->n_tensors + 1);
  evaluation.coarsest = g_new0(double, graph->n_tensors + 1);
  GPtrArray *outputs = evaluate(&evaluation, inputs, error);
  *errors = (EvaluationErrors){g_ptr_array_new_with_free_func(g_free), g_new0(double, graph->n_outputs + 1),
                               g_new0(const GraphNode *, graph->n_outputs + 1)};
  for (unsigned i = 0; outputs && i < graph->n_outputs; i++) {
    g_ptr_array_add(errors->each, g_steal_pointer(&evaluation.errors[graph->outputs[i]->index].each));
    errors->widest[i] = widest_of(&evaluation, graph->outputs[i]);
    errors->wider[i] = find_wider(&evaluation, graph->outputs[i]);
  }
  evaluation_clear(&evaluation);
  return outputs;
}
