/* The reference of a whole graph: its nodes one after the other, each as reference/ defines it. */
#include "cli/run_data.h"
#include <math.h>
#include <string.h>

typedef struct Evaluation {
  const Graph *graph;
  const Tensor **given; /* as graph->tensors: inputs and constants */
  Value **values;       /* as graph->tensors: made when first needed, freed after the last use */
  unsigned *uses;       /* as graph->tensors: still to come */
} Evaluation;

static void evaluation_init(Evaluation *e, const RunData *data)
{
  unsigned n = data->graph->n_tensors;
  *e = (Evaluation){.graph = data->graph};
  e->given = g_new0(const Tensor *, n + 1);
  e->values = g_new0(Value *, n + 1);
  e->uses = g_new0(unsigned, n + 1);
  for (unsigned i = 0; i < data->graph->n_inputs; i++)
    e->given[data->graph->inputs[i]->index] = data->inputs[i];
  for (unsigned i = 0; i < data->graph->n_constants; i++)
    e->given[data->graph->constants[i]->index] = data->constants[i];
  for (unsigned i = 0; i < n; i++) {
    const GraphTensor *tensor = data->graph->tensors[i];
    e->uses[tensor->index] = tensor->n_consumers + tensor->is_output;
  }
}

static void evaluation_clear(Evaluation *e)
{
  for (unsigned i = 0; i < e->graph->n_tensors; i++)
    value_free(e->values[i]);
  g_free(e->given);
  g_free(e->values);
  g_free(e->uses);
}

static const Value *use(Evaluation *e, const GraphTensor *tensor, GError **error)
{
  unsigned i = tensor->index;
  if (!e->values[i] && e->given[i]) e->values[i] = value_from_tensor(e->given[i], error);
  return e->values[i];
}

static void release(Evaluation *e, const GraphTensor *tensor)
{
  unsigned i = tensor->index;
  if (--e->uses[i] == 0) g_clear_pointer(&e->values[i], value_free);
}

/* ---- nodes ---- */

static ReferenceAttribute *attributes_of(const GraphNode *node)
{
  ReferenceAttribute *attributes = g_new0(ReferenceAttribute, node->op->n_attributes + 1);
  for (unsigned i = 0; i < node->op->n_attributes; i++) {
    const GraphAttribute *from = &node->attributes[i];
    attributes[i] = (ReferenceAttribute){.name = node->op->attributes[i].name,
                                         .integer = from->integer,
                                         .number = from->number,
                                         .text = from->text,
                                         .integers = from->integers,
                                         .n = from->n};
  }
  return attributes;
}

static bool call_node(Evaluation *e, const GraphNode *node, const Value **inputs, GError **error)
{
  g_autofree ReferenceAttribute *attributes = attributes_of(node);
  ReferenceCall call = {.op = node->op->name,
                        .opset = e->graph->opset,
                        .inputs = inputs,
                        .n_inputs = node->n_inputs,
                        .attributes = attributes,
                        .n_attributes = node->op->n_attributes};
  Value *outputs[OPERATOR_MAX_OUTPUTS] = {NULL};
  if (node->n_outputs && node->outputs[0]) call.result = node->outputs[0]->type;
  if (!reference_run(&call, outputs, node->n_outputs, error)) return false;
  for (unsigned i = 0; i < node->n_outputs; i++)
    if (node->outputs[i])
      e->values[node->outputs[i]->index] = outputs[i];
    else
      value_free(outputs[i]);
  return true;
}

static bool run_node(Evaluation *e, const GraphNode *node, GError **error)
{
  g_autofree const Value **inputs = g_new0(const Value *, node->n_inputs + 1);
  for (unsigned i = 0; i < node->n_inputs; i++) {
    if (!node->inputs[i]) continue;
    inputs[i] = use(e, node->inputs[i], error);
    if (!inputs[i]) return false;
  }
  if (!call_node(e, node, inputs, error)) return false;
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i]) release(e, node->inputs[i]);
  return true;
}

/* ---- outputs ---- */

static bool has_tf32(const Graph *graph)
{
  for (unsigned i = 0; i < graph->n_tensors; i++)
    if (graph->tensors[i]->type == NUMBER_TF32) return true;
  return false;
}

static RunComparison compare_output(const Tensor *out, const Value *reference, double limit)
{
  RunComparison c = {.whole = compare_values(out, reference, limit)};
  if (c.whole.worst >= out->n) return c;
  c.out = number_to_double(out->type, out->data + c.whole.worst * number_bytes(out->type));
  c.reference =
      reference->floats ? reference->floats[c.whole.worst] : (double)reference->integers[c.whole.worst];
  return c;
}

static RunComparison *compare_all(Evaluation *e, const RunData *data, double tolerance, Arena *arena,
                                  GError **error)
{
  const Graph *graph = data->graph;
  bool tf32 = has_tf32(graph);
  for (unsigned i = 0; i < graph->n_nodes; i++)
    if (!run_node(e, graph->nodes[i], error)) return NULL;
  RunComparison *comparisons = arena_new_array(arena, RunComparison, graph->n_outputs);
  for (unsigned i = 0; i < graph->n_outputs; i++) {
    const Value *reference = use(e, graph->outputs[i], error);
    if (!reference) return NULL;
    double limit = fmin(comparison_limit(graph->outputs[i]->type, tf32), tolerance);
    comparisons[i] = compare_output(data->outputs[i], reference, limit);
  }
  return comparisons;
}

RunComparison *run_data_check(const RunData *data, double tolerance, Arena *arena, GError **error)
{
  Evaluation e;
  evaluation_init(&e, data);
  RunComparison *comparisons = compare_all(&e, data, tolerance, arena, error);
  evaluation_clear(&e);
  return comparisons;
}
