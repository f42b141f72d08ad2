/* Graphs as text, for people and tests. */
#include "generator/front/dump.h"
#include "generator/front/private.h"
#include <inttypes.h>
#include <string.h>

void graph_dump_tensor(GString *text, const GraphTensor *tensor, const char *kind, const char *name)
{
  bool typed = tensor->type < NUMBER_TYPE_COUNT; /* while it is read, types of what is computed come later */
  g_string_append_printf(text, "%s %s", kind, name);
  if (!typed) {
    g_string_append_c(text, '\n');
    return;
  }
  g_autofree char *shape = graph_shape_text((const Symbolic *const *)tensor->shape, tensor->rank),
                  *strides = graph_shape_text((const Symbolic *const *)tensor->strides, tensor->rank);
  g_string_append_printf(text, ": %s %s", number_name(tensor->type), shape);
  if (!graph_is_row_major(tensor)) g_string_append_printf(text, " strides %s", strides);
  if (tensor->begins) {
    g_autofree char *begins = symbolic_text(tensor->begins);
    g_string_append_printf(text, " begins %s", begins);
  }
  g_string_append_printf(text, " align %u\n", tensor->align);
}

const char *graph_dump_kind(const GraphTensor *tensor)
{
  static const char *const kinds[] = {"input", "constant", "tensor"};
  return tensor->is_output ? "output" : kinds[tensor->kind];
}

static void dump_attribute(GString *text, const OperatorAttribute *row, const GraphAttribute *attribute)
{
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append_printf(text, " %s=", row->name);
  switch (row->kind) {
  case ATTRIBUTE_INT: g_string_append_printf(text, "%" PRId64, attribute->integer); return;
  case ATTRIBUTE_FLOAT:
    g_string_append(text, g_ascii_formatd(number, sizeof number, "%.9g", attribute->number));
    return;
  case ATTRIBUTE_TYPE:
    g_string_append(
        text, attribute->integer == OPERATOR_NO_TYPE ? "none" : number_name((NumberType)attribute->integer));
    return;
  case ATTRIBUTE_STRING: g_string_append(text, attribute->text); return;
  case ATTRIBUTE_FLOATS:
    for (unsigned i = 0; i < attribute->n; i++)
      g_string_append_printf(text, "%s%s", i ? "," : "",
                             g_ascii_formatd(number, sizeof number, "%.9g", attribute->numbers[i]));
    return;
  case ATTRIBUTE_STRINGS:
    for (unsigned i = 0; i < attribute->n; i++)
      g_string_append_printf(text, "%s%s", i ? "," : "", attribute->texts[i]);
    return;
  case ATTRIBUTE_GRAPH: return;
  case ATTRIBUTE_INTS: break;
  }
  for (unsigned i = 0; i < attribute->n; i++)
    g_string_append_printf(text, "%s%" PRId64, i ? "," : "", attribute->integers[i]);
}

static const char *own_name(const GraphTensor *tensor, void *data)
{
  (void)data;
  return tensor->name;
}

static void dump_names(GString *text, GraphTensor *const *tensors, unsigned n, GraphTensorName name,
                       void *data)
{
  for (unsigned i = 0; i < n; i++)
    g_string_append_printf(text, "%s%s", i ? ", " : "", tensors[i] ? name(tensors[i], data) : "-");
}

void graph_dump_node(GString *text, const GraphNode *node, GraphTensorName name, void *data)
{
  if (!name) name = own_name;
  g_string_append(text, "node ");
  dump_names(text, node->outputs, node->n_outputs, name, data);
  g_string_append_printf(text, " = %s(", node->op->name);
  dump_names(text, node->inputs, node->n_inputs, name, data);
  g_string_append_c(text, ')');
  for (unsigned i = 0; i < node->op->n_attributes; i++) {
    const OperatorAttribute *row = &node->op->attributes[i];
    bool extension = !strcmp(row->name, "accumulate") ||
                     !strcmp(row->name, "block_shape"); /* not ONNX's: only where it is used */
    if (!extension || node->attributes[i].given) dump_attribute(text, row, &node->attributes[i]);
  }
  g_string_append_c(text, '\n');
}

char *graph_dump(const Graph *graph)
{
  GString *text = g_string_new(NULL);
  g_string_append_printf(text, "graph %s opset %u\n", graph->name, graph->opset);
  for (unsigned i = 0; i < graph->n_dims; i++) {
    const GraphDim *dim = &graph->dims[i];
    g_string_append_printf(text, "dim %s %" PRId64 " .. %" PRId64 " multiple %" PRId64 "%s\n", dim->name,
                           dim->min, dim->max, dim->multiple, dim->bound ? " bound" : "");
  }
  for (unsigned i = 0; i < graph->n_tensors; i++)
    graph_dump_tensor(text, graph->tensors[i], graph_dump_kind(graph->tensors[i]), graph->tensors[i]->name);
  for (unsigned i = 0; i < graph->n_nodes; i++)
    graph_dump_node(text, graph->nodes[i], NULL, NULL);
  return g_string_free(text, FALSE);
}
