/* The nodes of an op description: operators, attributes, links, order. */
#include "generator/front/order.h"
#include "generator/front/private.h"
#include <limits.h>
#include <string.h>

/* ---- operators ---- */

/* An operator that we lack. Of a domain that is not ONNX's nobody knows the operators. */
static void refuse_operator(Reader *reader, Node *op, const char *domain, const char *name,
                            const OnnxOperator *onnx)
{
  unsigned opset = reader->graph->opset;
  const OnnxOperator *newer = onnx_newer(domain, name, opset);
  bool own = !*domain || !strcmp(domain, "ai.onnx");
  if (onnx && !onnx->inputs) {
    reader_report(reader, ERROR_INPUT, &op->mark, "opset", NULL,
                  "%s is no operator since opset %u, and this graph is of %u", name, onnx->since, opset);
  } else if (onnx && own) {
    const char *note = operator_note(name);
    reader_report(reader, ERROR_UNSUPPORTED, &op->mark, "unsupported-operator",
                  note ? note : "`adlgen ops` lists what is", "ONNX operator `%s` is not supported", name);
  } else if (onnx || !onnx_has_domain(domain)) {
    reader_report(reader, ERROR_UNSUPPORTED, &op->mark, "unsupported-operator",
                  "adlgen has operators of ONNX's own domain, \"\"; `adlgen ops` lists them",
                  "operator `%s` of domain `%s` is not supported", name, domain);
  } else if (own && newer) {
    g_autofree char *hint = g_strdup_printf("set `opset` to %u or more", newer->since);
    const char *note = operator_note(name);
    reader_report(reader, ERROR_INPUT, &op->mark, "opset", note ? note : hint,
                  "%s is an operator since opset %u, not in %u", name, newer->since, opset);
  } else if (own) {
    g_autofree char *hint = operator_suggest(name);
    reader_report(reader, ERROR_INPUT, &op->mark, "unknown-operator",
                  hint ? hint : "`adlgen ops` lists the operators", "unknown operator `%s`", name);
  } else {
    reader_report(reader, ERROR_INPUT, &op->mark, "unknown-operator", "ONNX's own domain is \"\"",
                  "unknown operator `%s` in domain `%s`", name, domain);
  }
}

static void read_operator(Reader *reader, Node *node, GraphNode *result)
{
  const char *name, *domain = "";
  Node *op = reader_require(reader, node, "op"), *domain_node = node_get(node, "domain");
  if (!op || !reader_string(reader, op, &name)) return;
  if (domain_node && !reader_string(reader, domain_node, &domain)) return;
  const Operator *newer;
  result->onnx = onnx_find(domain, name, reader->graph->opset);
  result->op = operator_find(domain, name, reader->graph->opset, &newer);
  if (result->op) return;
  refuse_operator(reader, op, domain, name, result->onnx);
  if (result->onnx && !result->onnx->inputs) result->onnx = NULL;
}

/* ---- attributes ---- */

/* 0, ONNX's number for no type, is as good as absent where a type is optional. */
static void read_type_attribute(Reader *reader, Node *node, const OperatorAttribute *row,
                                GraphAttribute *attribute)
{
  NumberType type = NUMBER_F32;
  int64_t number;
  bool is_number = node->kind == NODE_SCALAR && !node->quoted && g_ascii_isdigit(node->text[0]);
  if (!is_number) {
    reader_type(reader, node, &type);
  } else if (!reader_integer(reader, node, &number)) {
    return;
  } else if (!number && !row->required) {
    attribute->integer = OPERATOR_NO_TYPE;
    return;
  } else if (!onnx_type_name(number)) {
    reader_report(reader, ERROR_INPUT, &node->mark, "unknown-type", NULL,
                  "ONNX has no type number %" G_GINT64_FORMAT, number);
  } else if (!onnx_type_ours(number, &type)) {
    reader_report(reader, ERROR_UNSUPPORTED, &node->mark, "unsupported-type", NULL,
                  "type %s (ONNX's number %" G_GINT64_FORMAT ") is not supported", onnx_type_name(number),
                  number);
  }
  attribute->integer = type;
}

static void read_choice(Reader *reader, Node *node, const OperatorAttribute *row, GraphAttribute *attribute)
{
  const char *text;
  if (!reader_string(reader, node, &text)) return;
  for (unsigned i = 0; row->choices[i]; i++)
    if (!strcmp(row->choices[i], text)) {
      attribute->text = row->choices[i];
      return;
    }
  g_autofree char *choices = g_strjoinv(", ", (char **)row->choices);
  g_autofree char *list = g_strdup_printf("one of: %s", choices);
  reader_report(reader, ERROR_INPUT, &node->mark, "bad-attribute", list,
                "`%s` is not a value of attribute `%s`", text, row->name);
}

static void read_integers(Reader *reader, Node *node, GraphAttribute *attribute)
{
  if (!reader_is(reader, node, NODE_SEQUENCE, "integers")) return;
  int64_t *integers = arena_new_array(reader->graph->arena, int64_t, node->n);
  for (unsigned i = 0; i < node->n; i++)
    reader_integer(reader, node->items[i], &integers[i]);
  attribute->integers = integers;
  attribute->n = node->n;
}

static void read_attribute(Reader *reader, Node *node, const OperatorAttribute *row,
                           GraphAttribute *attribute)
{
  attribute->given = true;
  attribute->mark = node->mark;
  switch (row->kind) {
  case ATTRIBUTE_INT: reader_integer(reader, node, &attribute->integer); return;
  case ATTRIBUTE_FLOAT:
    if (!node_number(node, &attribute->number, reader->error)) reader->failed = true;
    return;
  case ATTRIBUTE_INTS: read_integers(reader, node, attribute); return;
  case ATTRIBUTE_STRING: read_choice(reader, node, row, attribute); return;
  case ATTRIBUTE_TYPE: read_type_attribute(reader, node, row, attribute); return;
  }
}

static void refuse_attribute(Reader *reader, const GraphNode *node, const char *name, const Mark *mark)
{
  const Operator *op = node->op;
  if (node->onnx && onnx_attribute(node->onnx, name, NULL)) {
    reader_report(reader, ERROR_UNSUPPORTED, mark, "unsupported-attribute", NULL,
                  "attribute `%s` of %s is not supported", name, op->name);
    return;
  }
  const char *known[OPERATOR_MAX_ATTRIBUTES + 1] = {NULL};
  for (unsigned i = 0; i < op->n_attributes; i++)
    known[i] = op->attributes[i].name;
  g_autofree char *list = g_strjoinv(", ", (char **)known);
  g_autofree char *all = *list ? g_strdup_printf("its attributes: %s", list) : g_strdup("it takes none");
  const char *meant = operator_suggest_attribute(op, name);
  g_autofree char *hint =
      meant ? g_strdup_printf("did you mean `%s`?", meant) : reader_suggest(name, known, all);
  reader_report(reader, ERROR_INPUT, mark, "unknown-attribute", hint, "%s has no attribute `%s`", op->name,
                name);
}

static void read_attributes(Reader *reader, Node *mapping, Node *node, GraphNode *result)
{
  const Operator *op = result->op;
  result->attributes = arena_new_array(reader->graph->arena, GraphAttribute, op->n_attributes);
  for (unsigned i = 0; i < op->n_attributes; i++)
    result->attributes[i] = (GraphAttribute){.integer = op->attributes[i].integer,
                                             .number = op->attributes[i].number,
                                             .text = op->attributes[i].text,
                                             .mark = result->mark};
  if (mapping && !reader_is(reader, mapping, NODE_MAPPING, "name: value")) return;
  for (unsigned i = 0; mapping && i < mapping->n; i++) {
    const char *name = mapping->keys[i];
    int index = operator_attribute_index(op, name);
    if (reader_refuse_attribute_of_version(reader, result, name, &mapping->key_marks[i])) continue;
    if (index >= 0)
      read_attribute(reader, mapping->items[i], &op->attributes[index], &result->attributes[index]);
    else
      refuse_attribute(reader, result, name, &mapping->key_marks[i]);
  }
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].required && !result->attributes[i].given)
      reader_report(reader, ERROR_INPUT, &node->mark, "missing-attribute", NULL,
                    "%s needs the attribute `%s`", op->name, op->attributes[i].name);
}

/* ---- nodes ---- */

/* By our definition, or ONNX's where we lack the operator. */
static void check_arity(Reader *reader, const GraphNode *node, bool output, const Node *list)
{
  const Operator *op = node->op;
  const OnnxOperator *onnx = node->onnx;
  if (!op && !onnx) return;
  unsigned min = output ? (op ? op->min_outputs : onnx->min_outputs) : op ? op->min_inputs : onnx->min_inputs;
  unsigned max = output ? (op ? op->max_outputs : onnx->max_outputs) : op ? op->max_inputs : onnx->max_inputs;
  if (list->n >= min && list->n <= max) return;
  g_autofree char *range = max == UINT_MAX ? g_strdup_printf("at least %u", min)
                           : min == max    ? g_strdup_printf("%u", min)
                                           : g_strdup_printf("%u to %u", min, max);
  reader_report(reader, ERROR_INPUT, &list->mark, "arity", NULL, "%s takes %s %s%s, not %u",
                op ? op->name : onnx->name, range, output ? "output" : "input", max == 1 ? "" : "s", list->n);
}

static bool is_required(const GraphNode *node, unsigned input)
{
  if (node->op) return input < node->op->min_inputs;
  return node->onnx && input < node->onnx->min_inputs && !onnx_input(node->onnx, input).optional;
}

/* The outputs are defined even when the node is faulty: what reads them is not to blame. */
static void read_outputs(Reader *reader, Node *list, GraphNode *node)
{
  if (!list || !reader_is(reader, list, NODE_SEQUENCE, "names of tensors")) return;
  check_arity(reader, node, true, list);
  node->n_outputs = list->n;
  node->outputs = arena_new_array(reader->graph->arena, GraphTensor *, list->n);
  for (unsigned i = 0; i < list->n; i++) {
    const char *name;
    if (!reader_string(reader, list->items[i], &name)) continue;
    if (!*name) {
      if (i == 0)
        reader_report(reader, ERROR_INPUT, &list->items[i]->mark, "bad-name", NULL,
                      "the first output needs a name");
      continue;
    }
    node->outputs[i] = graph_tensor_new(reader->graph, name, TENSOR_COMPUTED, list->items[i]->mark);
    node->outputs[i]->producer = node;
    reader_define(reader, node->outputs[i], reader->computed);
  }
}

/* Names only; the tensors are looked up when all are known. */
static const char **read_input_names(Reader *reader, Node *list, GraphNode *node)
{
  if (!list || !reader_is(reader, list, NODE_SEQUENCE, "names of tensors")) return NULL;
  check_arity(reader, node, false, list);
  Arena *arena = reader->graph->arena;
  const char **names = arena_new_array(arena, const char *, list->n);
  Mark *marks = arena_new_array(arena, Mark, list->n);
  node->n_inputs = list->n;
  node->inputs = arena_new_array(arena, GraphTensor *, list->n);
  node->input_marks = marks;
  for (unsigned i = 0; i < list->n; i++) {
    marks[i] = list->items[i]->mark;
    if (!reader_string(reader, list->items[i], &names[i])) continue;
    names[i] = arena_strdup(arena, names[i]);
    if (!*names[i] && is_required(node, i))
      reader_report(reader, ERROR_INPUT, &marks[i], "missing-input", NULL, "input %u of %s is required",
                    i + 1, node->op ? node->op->name : node->onnx->name);
  }
  return names;
}

static void link_inputs(Reader *reader, GraphNode *node, const char **names)
{
  for (unsigned i = 0; i < node->n_inputs; i++) {
    if (!names[i] || !*names[i]) continue;
    node->inputs[i] = g_hash_table_lookup(reader->tensors, names[i]);
    if (node->inputs[i]) continue;
    g_autofree const char **known = reader_tensor_names(reader);
    g_autofree char *hint = reader_suggest(names[i], known, NULL);
    reader_report(reader, ERROR_INPUT, &node->input_marks[i], "undefined-tensor", hint,
                  "tensor `%s` is not defined", names[i]);
  }
}

static GraphNode *read_node(Reader *reader, Node *node, const char ***names, bool *well_formed)
{
  static const char *const known[] = {"op", "domain", "name", "inputs", "outputs", "attributes", NULL};
  if (!reader_is(reader, node, NODE_MAPPING, "op, inputs, outputs")) return NULL;
  bool failed_before = reader->failed;
  reader->failed = false;
  GraphNode *result = arena_new_object(reader->graph->arena, GraphNode);
  result->mark = node->mark;
  read_operator(reader, node, result);
  const char *name = "";
  Node *name_node = node_get(node, "name");
  if (name_node) reader_string(reader, name_node, &name);
  result->name = arena_strdup(reader->graph->arena, name);
  *names = read_input_names(reader, reader_require(reader, node, "inputs"), result);
  Node *attributes = node_get(node, "attributes");
  if (result->op)
    read_attributes(reader, attributes, node, result);
  else if (result->onnx)
    reader_check_attributes(reader, attributes, node, result->onnx);
  read_outputs(reader, reader_require(reader, node, "outputs"), result);
  reader_finish(reader, node, known);
  *well_formed = !reader->failed;
  reader->failed = reader->failed || failed_before;
  return result;
}

/* ---- order ---- */

/* An input whose producer is not done. */
static GraphTensor *waits_for(const GraphNode *node, const bool *done)
{
  for (unsigned i = 0; i < node->n_inputs; i++) {
    GraphTensor *input = node->inputs[i];
    if (input && input->producer && !done[input->producer->index]) return input;
  }
  return NULL;
}

/* Follows what is waited for until a node comes up again: from there on it is a cycle. */
static void report_cycle(Reader *reader, GPtrArray *nodes, const bool *done)
{
  GraphNode *node = NULL;
  g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < nodes->len && !node; i++)
    if (!done[i]) node = nodes->pdata[i];
  while (g_hash_table_add(seen, node))
    node = waits_for(node, done)->producer;
  GraphNode *start = node;
  g_autoptr(GString) path = g_string_new(NULL);
  unsigned n = 0;
  do {
    GraphTensor *tensor = waits_for(node, done);
    if (n++ < 8) g_string_append_printf(path, "%s`%s`", n > 1 ? " from " : "", tensor->name);
    node = tensor->producer;
  } while (node != start);
  g_string_append(path, n > 8 ? " from ... from itself" : " from itself");
  reader_report(reader, ERROR_INPUT, &start->mark, "cycle", NULL, "the nodes form a cycle: %s", path->str);
}

/* A sorted file keeps its order. */
static void order_nodes(Reader *reader, GPtrArray *nodes)
{
  g_autofree bool *done = g_new0(bool, nodes->len + 1);
  g_autofree unsigned *order = g_new(unsigned, nodes->len + 1);
  g_autoptr(GArray) edges = g_array_new(FALSE, FALSE, sizeof(OrderEdge));
  for (unsigned i = 0; i < nodes->len; i++)
    ((GraphNode *)nodes->pdata[i])->index = i;
  for (unsigned i = 0; i < nodes->len; i++) {
    const GraphNode *node = nodes->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++) {
      OrderEdge edge = {.second = i};
      if (!node->inputs[j] || !node->inputs[j]->producer) continue;
      edge.first = node->inputs[j]->producer->index;
      g_array_append_val(edges, edge);
    }
  }
  unsigned n = order_by_rounds(nodes->len, (const OrderEdge *)(void *)edges->data, edges->len, order);
  for (unsigned i = 0; i < n; i++) {
    done[order[i]] = true;
    g_ptr_array_add(reader->nodes, nodes->pdata[order[i]]);
  }
  if (n < nodes->len) report_cycle(reader, nodes, done);
  for (unsigned i = 0; i < reader->nodes->len; i++)
    ((GraphNode *)reader->nodes->pdata[i])->index = i;
}

static void add_consumers(Reader *reader)
{
  Arena *arena = reader->graph->arena;
  for (unsigned pass = 0; pass < 2; pass++)
    for (unsigned i = 0; i < reader->nodes->len; i++) {
      GraphNode *node = reader->nodes->pdata[i];
      for (unsigned j = 0; j < node->n_inputs; j++) {
        GraphTensor *tensor = node->inputs[j];
        if (!tensor) continue;
        if (pass && !tensor->consumers) {
          tensor->consumers = arena_new_array(arena, GraphNode *, tensor->n_consumers);
          tensor->n_consumers = 0;
        }
        if (pass) tensor->consumers[tensor->n_consumers] = node;
        tensor->n_consumers++;
      }
    }
}

void reader_nodes(Reader *reader, Node *list)
{
  if (!reader_is(reader, list, NODE_SEQUENCE, "the nodes")) return;
  if (!list->n) reader_report(reader, ERROR_INPUT, &list->mark, "no-nodes", NULL, "the graph has no nodes");
  g_autoptr(GPtrArray) nodes = g_ptr_array_new(), names = g_ptr_array_new();
  g_autoptr(GPtrArray) formed = g_ptr_array_new();
  for (unsigned i = 0; i < list->n; i++) {
    const char **input_names = NULL;
    bool well_formed;
    GraphNode *node = read_node(reader, list->items[i], &input_names, &well_formed);
    if (!node) continue;
    g_ptr_array_add(nodes, node);
    g_ptr_array_add(names, input_names);
    if (!node->op && node->onnx) g_ptr_array_add(reader->unsupported, node);
    if (well_formed)
      g_ptr_array_add(formed, node);
    else
      for (unsigned j = 0; j < node->n_outputs; j++)
        if (node->outputs[j]) node->outputs[j]->producer = NULL;
  }
  for (unsigned i = 0; i < nodes->len; i++)
    if (names->pdata[i]) link_inputs(reader, nodes->pdata[i], names->pdata[i]);
  order_nodes(reader, formed);
  add_consumers(reader);
}

/* ---- outputs of the graph ---- */

void reader_outputs(Reader *reader, Node *list)
{
  if (!reader_is(reader, list, NODE_SEQUENCE, "names of tensors")) return;
  if (!list->n)
    reader_report(reader, ERROR_INPUT, &list->mark, "no-outputs", NULL, "the graph has no outputs");
  for (unsigned i = 0; i < list->n; i++) {
    const char *name;
    if (!reader_string(reader, list->items[i], &name)) continue;
    GraphTensor *tensor = g_hash_table_lookup(reader->tensors, name);
    const Mark *mark = &list->items[i]->mark;
    if (!tensor) {
      g_autofree const char **known = reader_tensor_names(reader);
      g_autofree char *hint = reader_suggest(name, known, NULL);
      reader_report(reader, ERROR_INPUT, mark, "undefined-tensor", hint, "no node produces the output `%s`",
                    name);
    } else if (tensor->kind != TENSOR_COMPUTED) {
      reader_report(reader, ERROR_INPUT, mark, "output", "copy it with an Identity node",
                    "the output `%s` is %s, which no node produces", name,
                    tensor->kind == TENSOR_INPUT ? "an input" : "a constant");
    } else if (tensor->is_output) {
      reader_report(reader, ERROR_INPUT, mark, "output", NULL, "the output `%s` is named twice", name);
    } else {
      tensor->is_output = true;
      g_ptr_array_add(reader->outputs, tensor);
    }
  }
}
