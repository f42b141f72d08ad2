#include "cli/emit_graph.h"
#include "cli/constants.h"
#include "execute/evaluate.h"
#include "generator/front/onnx.h"
#include "plan/plan.h"
#include <jansson.h>
#include <math.h>

#define SHORT          64 /* elements of a constant that are written in the text */
#define SHORT_INTEGERS (1 << 16)

typedef struct Emission {
  const Graph *graph;
  GPtrArray *kept; /* Tensor *: constants that go into the file */
  GError **error;
} Emission;

/* ---- shapes ---- */

static json_t *extent_json(const Symbolic *extent)
{
  int64_t number;
  if (symbolic_is_constant(extent, &number)) return json_integer(number);
  g_autofree char *text = symbolic_text(extent);
  return json_string(text);
}

static json_t *extents_json(const Symbolic *const *extents, size_t n)
{
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++)
    json_array_append_new(list, extent_json(extents[i]));
  return list;
}

static json_t *dims_json(const Graph *graph)
{
  json_t *dims = json_object();
  for (unsigned i = 0; i < graph->n_dims; i++) {
    const GraphDim *dim = &graph->dims[i];
    if (dim->bound) continue;
    json_object_set_new(dims, dim->name,
                        json_pack("{s:I, s:I, s:I}", "min", (json_int_t)dim->min, "max", (json_int_t)dim->max,
                                  "multiple", (json_int_t)dim->multiple));
  }
  return dims;
}

/* ---- tensors ---- */

static json_t *tensor_json(const GraphTensor *tensor)
{
  json_t *object = json_object();
  json_object_set_new(object, "type", json_string(number_name(tensor->type)));
  json_object_set_new(object, "shape", extents_json((const Symbolic *const *)tensor->shape, tensor->rank));
  return object;
}

static json_t *inputs_json(const Graph *graph)
{
  json_t *inputs = json_object();
  for (unsigned i = 0; i < graph->n_inputs; i++) {
    const GraphTensor *input = graph->inputs[i];
    json_t *object = tensor_json(input);
    if (!graph_is_row_major(input))
      json_object_set_new(object, "strides",
                          extents_json((const Symbolic *const *)input->strides, input->rank));
    json_object_set_new(object, "align", json_integer(input->align));
    json_object_set_new(inputs, input->name, object);
  }
  return inputs;
}

/* An element as descriptions have it: of s64 no double holds each. */
static json_t *element_json(const GraphTensor *constant, size_t place)
{
  if (constant->type == NUMBER_S64)
    return json_integer((json_int_t)number_get_bits(constant->type, constant->data, place));
  double value = number_read(constant->type, constant->data, place);
  switch (number_class(constant->type)) {
  case NUMBER_BOOLEAN: return json_boolean(value != 0);
  case NUMBER_SIGNED:
  case NUMBER_UNSIGNED: return json_integer((json_int_t)value);
  case NUMBER_BITS:
  case NUMBER_FLOAT: break;
  }
  if (isnan(value)) return json_string("nan");
  return isinf(value) ? json_string(value < 0 ? "-inf" : "inf") : json_real(value);
}

/* Integers may be more: fusion sees masks and indices whose values stand in the description. NaN of another payload stays in the file. */
static bool is_short(const GraphTensor *constant)
{
  bool whole = number_class(constant->type) != NUMBER_FLOAT && number_class(constant->type) != NUMBER_BITS;
  if (!constant->data || constant->n_elements > (whole ? SHORT_INTEGERS : SHORT)) return false;
  for (size_t i = 0; i < constant->n_elements && !whole; i++)
    if (isnan(number_read(constant->type, constant->data, i))) return false;
  return true;
}

static json_t *constant_json(Emission *emission, unsigned index)
{
  const GraphTensor *constant = emission->graph->constants[index];
  json_t *object = tensor_json(constant);
  if (constant->values && !constant->data && !constant->file) {
    json_object_set_new(object, "data", extents_json(constant->values, constant->n_elements));
    return object;
  }
  if (is_short(constant)) {
    json_t *data = json_array();
    for (size_t i = 0; i < constant->n_elements; i++)
      json_array_append_new(data, element_json(constant, i));
    json_object_set_new(object, "data", data);
    return object;
  }
  Tensor *tensor = evaluate_constant(emission->graph, index, emission->error);
  if (!tensor) {
    json_decref(object);
    return NULL;
  }
  g_free(tensor->name); /* one of a file may have another there */
  tensor->name = g_strdup(constant->name);
  g_ptr_array_add(emission->kept, tensor);
  json_object_set_new(object, "file", json_sprintf(CONSTANTS_FILE "#%s", constant->name));
  return object;
}

static json_t *constants_json(Emission *emission)
{
  json_t *constants = json_object();
  for (unsigned i = 0; i < emission->graph->n_constants; i++) {
    if (!emission->graph->constants[i]->n_consumers) continue;
    json_t *constant = constant_json(emission, i);
    if (!constant) {
      json_decref(constants);
      return NULL;
    }
    json_object_set_new(constants, emission->graph->constants[i]->name, constant);
  }
  return constants;
}

/* ---- nodes ---- */

static json_t *names_json(GraphTensor *const *tensors, unsigned n)
{
  json_t *list = json_array();
  while (n && !tensors[n - 1])
    n--;
  for (unsigned i = 0; i < n; i++)
    json_array_append_new(list, json_string(tensors[i] ? tensors[i]->name : ""));
  return list;
}

static json_t *attribute_json(const OperatorAttribute *row, const GraphAttribute *attribute)
{
  json_t *list;
  switch (row->kind) {
  case ATTRIBUTE_INT: return json_integer(attribute->integer);
  case ATTRIBUTE_FLOAT: return json_real(attribute->number);
  case ATTRIBUTE_STRING: return json_string(attribute->text);
  case ATTRIBUTE_TYPE: return json_string(number_name((NumberType)attribute->integer));
  case ATTRIBUTE_INTS:
  case ATTRIBUTE_FLOATS:
  case ATTRIBUTE_STRINGS:
  case ATTRIBUTE_GRAPH: break;
  }
  list = json_array();
  for (unsigned i = 0; i < attribute->n; i++)
    json_array_append_new(list, row->kind == ATTRIBUTE_INTS     ? json_integer(attribute->integers[i])
                                : row->kind == ATTRIBUTE_FLOATS ? json_real(attribute->numbers[i])
                                                                : json_string(attribute->texts[i]));
  return list;
}

bool emit_has_attribute(const GraphNode *node, unsigned attribute)
{
  const GraphAttribute *value = &node->attributes[attribute];
  bool absent = node->op->attributes[attribute].kind == ATTRIBUTE_TYPE && value->integer == OPERATOR_NO_TYPE;
  return value->given && !absent;
}

static json_t *attributes_json(const GraphNode *node)
{
  json_t *attributes = json_object();
  for (unsigned i = 0; i < node->op->n_attributes; i++) {
    const OperatorAttribute *row = &node->op->attributes[i];
    if (emit_has_attribute(node, i))
      json_object_set_new(attributes, row->name, attribute_json(row, &node->attributes[i]));
  }
  return attributes;
}

static bool has_attributes(const GraphNode *node)
{
  bool given = false;
  for (unsigned i = 0; i < node->op->n_attributes; i++)
    given |= emit_has_attribute(node, i);
  return given;
}

/* The opset that a node is read with; 0: the graph's. Nodes of a function's body are of the newest version whatever the graph's opset. */
static unsigned opset_of(const Graph *graph, const GraphNode *node)
{
  const Operator *op = node->op, *newer;
  bool same = operator_find(op->domain, op->name, graph->opset, &newer) == op;
  if (node->written && op == operator_of(op->id) && (!same || has_attributes(node))) return onnx_opset();
  return same ? 0 : op->since;
}

static json_t *node_json(const Graph *graph, const GraphNode *node)
{
  const Operator *op = node->op;
  json_t *object = json_object(), *attributes = attributes_json(node);
  unsigned opset = opset_of(graph, node);
  json_object_set_new(object, "op", json_string(op->name));
  if (*op->domain) json_object_set_new(object, "domain", json_string(op->domain));
  if (opset && opset != graph->opset) json_object_set_new(object, "opset", json_integer(opset));
  if (*node->name) json_object_set_new(object, "name", json_string(node->name));
  json_object_set_new(object, "inputs", names_json(node->inputs, node->n_inputs));
  json_object_set_new(object, "outputs", names_json(node->outputs, node->n_outputs));
  json_object_set_new(object, "attributes", attributes);
  return object;
}

/* ---- the whole ---- */

static json_t *graph_json(Emission *emission)
{
  const Graph *graph = emission->graph;
  json_t *constants = constants_json(emission);
  if (!constants) return NULL;
  json_t *nodes = json_array(), *outputs = json_array(), *places = json_object();
  for (unsigned i = 0; i < graph->n_nodes; i++)
    json_array_append_new(nodes, node_json(graph, graph->nodes[i]));
  for (unsigned i = 0; i < graph->n_outputs; i++) {
    const GraphTensor *output = graph->outputs[i];
    json_array_append_new(outputs, json_string(output->name));
    if (output->memory) json_object_set_new(places, output->name, json_string(output->memory->name));
  }
  json_t *object =
      json_pack("{s:i, s:s, s:i, s:o, s:o, s:o, s:o, s:o}", "version", GRAPH_TEXT_VERSION, "name",
                graph->name, "opset", (int)graph->opset, "dims", dims_json(graph), "inputs",
                inputs_json(graph), "constants", constants, "nodes", nodes, "outputs", outputs);
  if (json_object_size(places))
    json_object_set_new(object, "in_place", places);
  else
    json_decref(places);
  return object;
}

/* One member a line, and one of each list or mapping of these. */
static char *lay_out(const json_t *object)
{
  GString *text = g_string_new("{");
  const char *key, *name;
  json_t *value, *member;
  size_t i;
  bool later = false;
  json_object_foreach((json_t *)object, key, value)
  {
    g_string_append_printf(text, "%s\n  \"%s\": ", later ? "," : "", key);
    later = true;
    bool more = false;
    if (json_is_object(value) && json_object_size(value)) {
      g_string_append_c(text, '{');
      json_object_foreach(value, name, member)
      {
        json_t *quoted = json_string(name);
        g_autofree char *before = json_dumps(quoted, JSON_ENCODE_ANY);
        g_autofree char *line = json_dumps(member, JSON_ENCODE_ANY);
        json_decref(quoted);
        g_string_append_printf(text, "%s\n    %s: %s", more ? "," : "", before, line);
        more = true;
      }
      g_string_append(text, "\n  }");
    } else if (json_is_array(value) && json_array_size(value) && json_is_object(json_array_get(value, 0))) {
      g_string_append_c(text, '[');
      json_array_foreach(value, i, member)
      {
        g_autofree char *line = json_dumps(member, JSON_ENCODE_ANY);
        g_string_append_printf(text, "%s\n    %s", more ? "," : "", line);
        more = true;
      }
      g_string_append(text, "\n  ]");
    } else {
      g_autofree char *line = json_dumps(value, JSON_ENCODE_ANY);
      g_string_append(text, line);
    }
  }
  g_string_append(text, "\n}\n");
  return g_string_free(text, FALSE);
}

bool emit_without_loops(const Graph *graph, const char *why, GError **error)
{
  for (unsigned i = 0; i < graph->n_nodes; i++)
    if (graph->nodes[i]->loop) {
      error_set(error, ERROR_UNSUPPORTED, &graph->nodes[i]->mark, "loop", NULL, "%s is a loop, which %s",
                graph_written_operator(graph->nodes[i])->name, why);
      return false;
    }
  return true;
}

bool emit_graph(const Graph *graph, Output *output, GError **error)
{
  g_autoptr(GPtrArray) kept = g_ptr_array_new_with_free_func((GDestroyNotify)tensor_free);
  Emission emission = {graph, kept, error};
  if (!emit_without_loops(graph, "an op description cannot say", error)) return false;
  json_t *object = graph_json(&emission);
  if (!object) return false;
  g_autofree char *text = lay_out(object);
  json_decref(object);
  if (!output_write_text(output, GRAPH_FILE, text, error)) return false;
  if (!kept->len) return true;
  g_autofree char *path = output_path(output, CONSTANTS_FILE, error);
  return path && tensors_save(kept, path, error);
}
