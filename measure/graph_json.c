/* A bound graph as JSON, as libraries of peers are given it (include/adlgen/peer.h says what is in it). */
#include "measure/graph_json.h"
#include <string.h>

/* Larger constants are read from the device. */
#define MOST_ELEMENTS 4096

static json_t *numbers_json(const Symbolic *const *numbers, unsigned n)
{
  json_t *list = json_array();
  for (unsigned i = 0; i < n; i++) {
    int64_t value = 0;
    symbolic_is_constant(numbers[i], &value);
    json_array_append_new(list, json_integer(value));
  }
  return list;
}

static json_t *data_json(const GraphTensor *tensor)
{
  json_t *list = json_array();
  const uint8_t *data = tensor->data;
  for (size_t i = 0; i < tensor->n_elements; i++) {
    json_array_append_new(list, tensor->type == NUMBER_S64
                                    ? json_integer((int64_t)number_get_bits(tensor->type, data, i))
                                    : json_real(number_read(tensor->type, data, i)));
  }
  return list;
}

static json_t *tensor_json(const GraphTensor *tensor)
{
  static const char *const kinds[] = {"input", "constant", "computed"};
  json_t *json =
      json_pack("{s:s, s:s, s:b, s:o, s:o}", "type", number_name(tensor->type), "kind", kinds[tensor->kind],
                "output", tensor->is_output, "shape", numbers_json(tensor->shape, tensor->rank), "strides",
                numbers_json(tensor->strides, tensor->rank));
  if (tensor->kind == TENSOR_CONSTANT && tensor->data && tensor->n_elements <= MOST_ELEMENTS)
    json_object_set_new(json, "data", data_json(tensor));
  return json;
}

static json_t *attribute_json(const OperatorAttribute *known, const GraphAttribute *attribute)
{
  json_t *list;
  switch (known->kind) {
  case ATTRIBUTE_INT: return json_integer(attribute->integer);
  case ATTRIBUTE_FLOAT: return json_real(attribute->number);
  case ATTRIBUTE_STRING: return attribute->text ? json_string(attribute->text) : json_null();
  case ATTRIBUTE_TYPE:
    return attribute->integer == OPERATOR_NO_TYPE ? json_null()
                                                  : json_string(number_name((NumberType)attribute->integer));
  case ATTRIBUTE_INTS:
    if (!attribute->given) return json_null();
    list = json_array();
    for (unsigned i = 0; i < attribute->n; i++)
      json_array_append_new(list, json_integer(attribute->integers[i]));
    return list;
  case ATTRIBUTE_FLOATS:
  case ATTRIBUTE_STRINGS:
  case ATTRIBUTE_GRAPH: break; /* of functions alone, which no graph has */
  }
  return json_null();
}

static json_t *names_json(GraphTensor *const *tensors, unsigned n)
{
  json_t *list = json_array();
  for (unsigned i = 0; i < n; i++)
    json_array_append_new(list, tensors[i] ? json_string(tensors[i]->name) : json_null());
  return list;
}

static json_t *node_json(const GraphNode *node)
{
  json_t *attributes = json_object();
  for (unsigned i = 0; i < node->op->n_attributes; i++)
    json_object_set_new(attributes, node->op->attributes[i].name,
                        attribute_json(&node->op->attributes[i], &node->attributes[i]));
  return json_pack("{s:s, s:s, s:i, s:o, s:o, s:o}", "op", node->op->name, "domain", node->op->domain,
                   "since", (int)node->op->since, "inputs", names_json(node->inputs, node->n_inputs),
                   "outputs", names_json(node->outputs, node->n_outputs), "attributes", attributes);
}

json_t *bench_graph_json(const Graph *graph)
{
  json_t *tensors = json_object(), *nodes = json_array();
  for (unsigned i = 0; i < graph->n_tensors; i++)
    json_object_set_new(tensors, graph->tensors[i]->name, tensor_json(graph->tensors[i]));
  for (unsigned i = 0; i < graph->n_nodes; i++)
    json_array_append_new(nodes, node_json(graph->nodes[i]));
  return json_pack("{s:s, s:o, s:o, s:o}", "name", graph->name, "tensors", tensors, "nodes", nodes, "outputs",
                   names_json(graph->outputs, graph->n_outputs));
}
