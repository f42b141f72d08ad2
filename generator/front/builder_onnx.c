/* A node against ONNX's definition of its operator. What breaks it is wrong (exit 1); what it admits and we lack is not
 * supported (exit 3). */
#include "generator/front/private.h"
#include <string.h>

/* ---- attributes ---- */

/* Tensors, graphs and types of sequences are not looked into. */
static void check_value(GraphBuilder *b, const void *value, char kind, const char *name)
{
  const GraphValueFormat *format = b->format;
  bool list = strchr("IFS", kind) != NULL, looked_into = strchr("ifsIFS", kind) != NULL;
  double number;
  int64_t integer;
  const char *text;
  unsigned n = 1;
  if (!looked_into || (list && !graph_builder_note(b, format->list(value, name, &n, b->error)))) return;
  for (unsigned i = 0; i < n; i++) {
    const void *item = list ? format->item(value, i) : value;
    switch (g_ascii_tolower(kind)) {
    case 'i': graph_builder_note(b, format->integer(item, &integer, b->error)); break;
    case 's': graph_builder_note(b, format->string(item, &text, b->error)); break;
    default: graph_builder_note(b, format->number(item, &number, b->error));
    }
  }
}

static void report_unknown(GraphBuilder *b, const OnnxOperator *op, const char *name, const Mark *mark)
{
  g_autofree char *list = onnx_attribute_list(op);
  g_autofree char *hint = *list ? g_strdup_printf("its attributes: %s", list) : g_strdup("it takes none");
  graph_builder_report(b, ERROR_INPUT, mark, "unknown-attribute", hint, "%s has no attribute `%s`", op->name,
                       name);
}

static bool is_given(const GraphNodeSpec *spec, const char *name)
{
  for (unsigned i = 0; i < spec->n_attributes; i++)
    if (!strcmp(spec->attributes[i].name, name)) return true;
  return false;
}

void builder_check_attributes(GraphBuilder *b, const GraphNodeSpec *spec, const OnnxOperator *op)
{
  for (unsigned i = 0; i < spec->n_attributes; i++) {
    const GraphAttributeSpec *attribute = &spec->attributes[i];
    char kind = onnx_attribute(op, attribute->name, NULL);
    if (kind)
      check_value(b, attribute->value, kind, attribute->name);
    else
      report_unknown(b, op, attribute->name, &attribute->name_mark);
  }
  size_t length;
  const char *required;
  for (unsigned i = 0; (required = onnx_required(op, i, &length)); i++) {
    g_autofree char *name = g_strndup(required, length);
    if (is_given(spec, name)) continue;
    graph_builder_report(b, ERROR_INPUT, &spec->mark, "missing-attribute", NULL,
                         "%s needs the attribute `%s`", op->name, name);
  }
}

bool builder_refuse_attribute_of_version(GraphBuilder *b, const GraphNode *node, const char *name,
                                         const Mark *mark)
{
  unsigned opset = b->graph->opset;
  if (!node->onnx || onnx_attribute(node->onnx, name, NULL)) return false;
  unsigned since = onnx_attribute_since(node->onnx, name);
  if (!since) return false; /* ours */
  g_autofree char *hint = since > opset ? g_strdup_printf("set `opset` to %u or more", since)
                          : operator_attribute_index(node->op, name) < 0 && node->op->max_inputs > 1
                              ? g_strdup_printf("since opset %u it is an input", node->op->since)
                              : NULL;
  graph_builder_report(b, ERROR_INPUT, mark, "unknown-attribute", hint,
                       "%s has no attribute `%s` in opset %u", node->onnx->name, name, opset);
  return true;
}

bool builder_requires(const GraphNode *node, unsigned input)
{
  OnnxInput onnx = node->onnx ? onnx_input(node->onnx, input) : (OnnxInput){0};
  unsigned least = node->op ? node->op->min_inputs : node->onnx ? node->onnx->min_inputs : 0;
  return input < least && (!onnx.optional || onnx.variadic);
}

/* ---- types ---- */

/* ONNX's number of what an input is known to be; 0: not known. */
static unsigned type_number(const GraphTensor *input)
{
  if (!input) return 0;
  return input->type == TYPE_UNKNOWN ? input->foreign : onnx_type_number(input->type);
}

static bool check_types(GraphBuilder *b, const GraphNode *node, const OnnxOperator *onnx)
{
  bool ok = true;
  unsigned first[128] = {0}; /* input + 1 that gave a variable its type */
  for (unsigned i = 0; i < node->n_inputs - node->n_captured; i++) {
    unsigned number = type_number(node->inputs[i]);
    if (!number) continue;
    OnnxInput input = onnx_input(onnx, i);
    const Mark *mark = &node->input_marks[i];
    unsigned *leader = &first[(unsigned char)input.variable & 127];
    bool other_type = *leader && input.variable && type_number(node->inputs[*leader - 1]) != number;
    if (!(input.types >> number & 1)) {
      graph_builder_report(b, ERROR_INPUT, mark, "type", NULL, "%s does not take %s: `%s`", onnx->name,
                           onnx_type_name(number), node->inputs[i]->name);
    } else if (other_type) {
      const GraphTensor *other = node->inputs[*leader - 1];
      graph_builder_report(b, ERROR_INPUT, mark, "type", "insert a Cast",
                           "%s needs operands of one type: `%s` is %s, `%s` is %s", onnx->name, other->name,
                           onnx_type_name(type_number(other)), node->inputs[i]->name, onnx_type_name(number));
    } else if (!*leader) {
      *leader = i + 1;
    }
    ok = ok && input.types >> number & 1 && !other_type;
  }
  return ok;
}

bool builder_check_node_types(GraphBuilder *b, const GraphNode *node)
{
  const OnnxOperator *onnx = onnx_find(node->op->domain, node->op->name, onnx_opset());
  if (onnx && !onnx->inputs) onnx = node->onnx; /* which newer opsets do not have */
  return !onnx || check_types(b, node, onnx);   /* of our own domain the body's nodes check */
}

static bool lacks_type(const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] && node->inputs[i]->foreign) return true;
  return node->lacks_type;
}

void builder_check_types(GraphBuilder *b)
{
  for (unsigned i = 0; i < b->unsupported->len; i++)
    check_types(b, b->unsupported->pdata[i], ((const GraphNode *)b->unsupported->pdata[i])->onnx);
  for (unsigned i = 0; i < b->nodes->len; i++) {
    const GraphNode *node = b->nodes->pdata[i];
    if (node->onnx && lacks_type(node)) check_types(b, node, node->onnx);
  }
}
