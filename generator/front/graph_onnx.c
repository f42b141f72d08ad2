/* A node against ONNX's definition of its operator. What breaks it is wrong (exit 1); what it admits and we lack is not
 * supported (exit 3). */
#include "generator/front/private.h"
#include <string.h>

/* ---- attributes ---- */

/* Tensors, graphs and types of sequences cannot be written in an op description: not looked into. */
static void check_value(Reader *reader, const Node *value, char kind, const char *name)
{
  bool list = strchr("IFS", kind) != NULL, looked_into = strchr("ifsIFS", kind) != NULL;
  double number;
  int64_t integer;
  const char *text;
  if (!looked_into || (list && !reader_is(reader, (Node *)value, NODE_SEQUENCE, name))) return;
  for (unsigned i = 0; i < (list ? value->n : 1); i++) {
    Node *item = list ? value->items[i] : (Node *)value;
    switch (g_ascii_tolower(kind)) {
    case 'i': reader_integer(reader, item, &integer); break;
    case 's': reader_string(reader, item, &text); break;
    default:
      if (!node_number(item, &number, reader->error)) reader->failed = true;
    }
  }
}

static void report_unknown(Reader *reader, const OnnxOperator *op, const char *name, const Mark *mark)
{
  g_autofree char *list = onnx_attribute_list(op);
  g_autofree char *hint = *list ? g_strdup_printf("its attributes: %s", list) : g_strdup("it takes none");
  reader_report(reader, ERROR_INPUT, mark, "unknown-attribute", hint, "%s has no attribute `%s`", op->name,
                name);
}

void reader_check_attributes(Reader *reader, Node *attributes, const Node *node, const OnnxOperator *op)
{
  if (attributes && !reader_is(reader, attributes, NODE_MAPPING, "name: value")) return;
  for (unsigned i = 0; attributes && i < attributes->n; i++) {
    char kind = onnx_attribute(op, attributes->keys[i], NULL);
    if (kind)
      check_value(reader, attributes->items[i], kind, attributes->keys[i]);
    else
      report_unknown(reader, op, attributes->keys[i], &attributes->key_marks[i]);
  }
  size_t length;
  const char *required;
  for (unsigned i = 0; (required = onnx_required(op, i, &length)); i++) {
    g_autofree char *name = g_strndup(required, length);
    if (attributes && node_get(attributes, name)) continue;
    reader_report(reader, ERROR_INPUT, &node->mark, "missing-attribute", NULL, "%s needs the attribute `%s`",
                  op->name, name);
  }
}

bool reader_refuse_attribute_of_version(Reader *reader, const GraphNode *node, const char *name,
                                        const Mark *mark)
{
  unsigned opset = reader->graph->opset;
  if (!node->onnx || onnx_attribute(node->onnx, name, NULL)) return false;
  unsigned since = onnx_attribute_since(node->onnx, name);
  if (!since) return false; /* ours */
  g_autofree char *hint = since > opset ? g_strdup_printf("set `opset` to %u or more", since)
                          : operator_attribute_index(node->op, name) < 0 && node->op->max_inputs > 1
                              ? g_strdup_printf("since opset %u it is an input", node->op->since)
                              : NULL;
  reader_report(reader, ERROR_INPUT, mark, "unknown-attribute", hint, "%s has no attribute `%s` in opset %u",
                node->onnx->name, name, opset);
  return true;
}

/* ---- types ---- */

/* ONNX's number of what an input is known to be; 0: not known. */
static unsigned type_number(const GraphTensor *input)
{
  if (!input) return 0;
  return input->type == TYPE_UNKNOWN ? input->foreign : onnx_type_number(input->type);
}

static void check_types(Reader *reader, const GraphNode *node)
{
  unsigned first[128] = {0}; /* input + 1 that gave a variable its type */
  for (unsigned i = 0; i < node->n_inputs; i++) {
    unsigned number = type_number(node->inputs[i]);
    if (!number) continue;
    OnnxInput input = onnx_input(node->onnx, i);
    const Mark *mark = &node->input_marks[i];
    unsigned *leader = &first[(unsigned char)input.variable & 127];
    if (!(input.types >> number & 1)) {
      reader_report(reader, ERROR_INPUT, mark, "type", NULL, "%s does not take %s: `%s`", node->onnx->name,
                    onnx_type_name(number), node->inputs[i]->name);
    } else if (input.variable && *leader && type_number(node->inputs[*leader - 1]) != number) {
      const GraphTensor *other = node->inputs[*leader - 1];
      reader_report(reader, ERROR_INPUT, mark, "type", "insert a Cast",
                    "%s needs operands of one type: `%s` is %s, `%s` is %s", node->onnx->name, other->name,
                    onnx_type_name(type_number(other)), node->inputs[i]->name, onnx_type_name(number));
    } else if (!*leader) {
      *leader = i + 1;
    }
  }
}

static bool lacks_type(const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] && node->inputs[i]->foreign) return true;
  return node->lacks_type;
}

void reader_check_types(Reader *reader)
{
  for (unsigned i = 0; i < reader->unsupported->len; i++)
    check_types(reader, reader->unsupported->pdata[i]);
  for (unsigned i = 0; i < reader->nodes->len; i++) {
    const GraphNode *node = reader->nodes->pdata[i];
    if (node->onnx && lacks_type(node)) check_types(reader, node);
  }
}
