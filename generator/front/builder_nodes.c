/* Nodes: operators, attributes, links, order. */
#include "generator/front/order.h"
#include "generator/front/private.h"
#include <limits.h>
#include <string.h>

/* ---- operators ---- */

/* An operator that we lack. Of a domain that is not ONNX's nobody knows the operators. */
static void refuse_operator(GraphBuilder *b, const Mark *mark, const char *domain, const char *name,
                            const OnnxOperator *onnx)
{
  unsigned opset = b->graph->opset;
  const OnnxOperator *newer = onnx_newer(domain, name, opset);
  bool own = !*domain || !strcmp(domain, "ai.onnx");
  if (onnx && !onnx->inputs) {
    graph_builder_report(b, ERROR_INPUT, mark, "opset", NULL,
                         "%s is no operator since opset %u, and this graph is of %u", name, onnx->since,
                         opset);
  } else if (onnx && own) {
    const char *note = operator_note(name);
    const Operator *ours;
    g_autofree char *of_opset =
        operator_find(domain, name, opset, &ours) || ours ? g_strdup_printf("%u", opset) : NULL;
    graph_builder_report(b, ERROR_UNSUPPORTED, mark, "unsupported-operator",
                         note ? note : "`adlgen ops` lists what is",
                         "ONNX operator `%s`%s%s is not supported", name, of_opset ? " of opset " : "",
                         of_opset ? of_opset : "");
  } else if (onnx || !onnx_has_domain(domain)) {
    graph_builder_report(b, ERROR_UNSUPPORTED, mark, "unsupported-operator",
                         "adlgen has operators of ONNX's own domain, \"\"; `adlgen ops` lists them",
                         "operator `%s` of domain `%s` is not supported", name, domain);
  } else if (own && newer) {
    g_autofree char *hint = g_strdup_printf("set `opset` to %u or more", newer->since);
    const char *note = operator_note(name);
    graph_builder_report(b, ERROR_INPUT, mark, "opset", note ? note : hint,
                         "%s is an operator since opset %u, not in %u", name, newer->since, opset);
  } else if (own) {
    const Operator *ignored;
    bool ours = operator_find(OPERATOR_DOMAIN, name, opset, &ignored) != NULL;
    g_autofree char *hint = ours ? g_strdup("set `domain` to `" OPERATOR_DOMAIN "`: it is none of ONNX's")
                                 : operator_suggest(name);
    graph_builder_report(b, ERROR_INPUT, mark, "unknown-operator",
                         hint ? hint : "`adlgen ops` lists the operators", "unknown operator `%s`", name);
  } else {
    graph_builder_report(b, ERROR_INPUT, mark, "unknown-operator", "ONNX's own domain is \"\"",
                         "unknown operator `%s` in domain `%s`", name, domain);
  }
}

/* ONNX changed nothing up to the opset that the table begins with, or added attributes only. */
static bool is_unchanged(const OnnxOperator *old, const OnnxOperator *floor)
{
  if (!old || !floor || old == floor) return old && floor;
  if (old->min_inputs != floor->min_inputs || old->max_inputs != floor->max_inputs ||
      old->min_outputs != floor->min_outputs || old->max_outputs != floor->max_outputs)
    return false;
  g_auto(GStrv) words = g_strsplit(old->attributes, " ", -1);
  for (char **word = words; *word; word++) {
    g_auto(GStrv) parts = g_strsplit(*word, ":", 2);
    bool required = false;
    if (!**word) continue;
    char kind = onnx_attribute(floor, parts[0], &required);
    if (kind != parts[1][0] || required != (strchr(parts[1], '!') != NULL)) return false;
  }
  return true;
}

static const Operator *find_version(const char *domain, const char *name, unsigned opset)
{
  const Operator *newer, *found = operator_find(domain, name, opset, &newer);
  if (found || opset >= OPERATOR_OPSET_FLOOR || !newer) return found;
  bool same = is_unchanged(onnx_find(domain, name, opset), onnx_find(domain, name, OPERATOR_OPSET_FLOOR));
  return same ? operator_find(domain, name, OPERATOR_OPSET_FLOOR, &newer) : NULL;
}

static void find_operator(GraphBuilder *b, const GraphNodeSpec *spec, GraphNode *node)
{
  unsigned opset = spec->opset ? spec->opset : b->graph->opset;
  if (!spec->op) return;
  node->onnx = onnx_find(spec->domain, spec->op, opset);
  bool gone = node->onnx && !node->onnx->inputs;
  node->op = gone ? NULL : find_version(spec->domain, spec->op, opset);
  if (b->reading.census) graph_census_count(b->reading.census, spec->domain, spec->op, node->op != NULL);
  if (node->op) return;
  /* One that a model has everywhere is reported where it comes first. */
  char *key = g_strjoin("\n", spec->domain, spec->op, NULL);
  if (g_hash_table_add(b->refused, key))
    refuse_operator(b, &spec->op_mark, spec->domain, spec->op, node->onnx);
  else
    graph_builder_note(b, false);
  if (node->onnx && !node->onnx->inputs) node->onnx = NULL;
}

/* ---- attributes ---- */

static bool integer_of(GraphBuilder *b, const void *value, int64_t *integer)
{
  return graph_builder_note(b, b->format->integer(value, integer, b->error));
}

/* 0, ONNX's number for no type, is as good as absent where a type is optional. */
static void set_type(GraphBuilder *b, const void *value, const OperatorAttribute *row,
                     GraphAttribute *attribute)
{
  NumberType type = NUMBER_F32;
  int64_t number;
  unsigned foreign;
  const char *name;
  if (!b->format->is_number(value)) {
    if (graph_builder_note(b, b->format->string(value, &name, b->error)))
      graph_builder_type(b, name, &attribute->mark, &type, &foreign);
  } else if (!integer_of(b, value, &number)) {
    return;
  } else if (!number && !row->required) {
    attribute->integer = OPERATOR_NO_TYPE;
    return;
  } else if (!onnx_type_name(number)) {
    graph_builder_report(b, ERROR_INPUT, &attribute->mark, "unknown-type", NULL,
                         "ONNX has no type number %" G_GINT64_FORMAT, number);
  } else if (!onnx_type_ours(number, &type)) {
    graph_builder_report(b, ERROR_UNSUPPORTED, &attribute->mark, "unsupported-type", NULL,
                         "type %s (ONNX's number %" G_GINT64_FORMAT ") is not supported",
                         onnx_type_name(number), number);
  }
  attribute->integer = type;
}

static void set_choice(GraphBuilder *b, const void *value, const OperatorAttribute *row,
                       GraphAttribute *attribute)
{
  const char *text;
  if (!graph_builder_note(b, b->format->string(value, &text, b->error))) return;
  if (!row->choices) {
    attribute->text = arena_strdup(b->graph->arena, text);
    return;
  }
  for (unsigned i = 0; row->choices[i]; i++)
    if (!strcmp(row->choices[i], text)) {
      attribute->text = row->choices[i];
      return;
    }
  g_autofree char *choices = g_strjoinv(", ", (char **)row->choices);
  g_autofree char *list = g_strdup_printf("one of: %s", choices);
  graph_builder_report(b, ERROR_INPUT, &attribute->mark, "bad-attribute", list,
                       "`%s` is not a value of attribute `%s`", text, row->name);
}

static void set_integers(GraphBuilder *b, const void *value, GraphAttribute *attribute)
{
  unsigned count;
  if (!graph_builder_note(b, b->format->list(value, "integers", &count, b->error))) return;
  int64_t *integers = arena_new_array(b->graph->arena, int64_t, count);
  for (unsigned i = 0; i < count; i++)
    integer_of(b, b->format->item(value, i), &integers[i]);
  attribute->integers = integers;
  attribute->n = count;
}

static void set_numbers(GraphBuilder *b, const void *value, GraphAttribute *attribute)
{
  unsigned count;
  if (!graph_builder_note(b, b->format->list(value, "numbers", &count, b->error))) return;
  double *numbers = arena_new_array(b->graph->arena, double, count);
  for (unsigned i = 0; i < count; i++)
    graph_builder_note(b, b->format->number(b->format->item(value, i), &numbers[i], b->error));
  attribute->numbers = numbers;
  attribute->n = count;
}

static void set_texts(GraphBuilder *b, const void *value, GraphAttribute *attribute)
{
  unsigned count;
  const char *text = NULL;
  if (!graph_builder_note(b, b->format->list(value, "texts", &count, b->error))) return;
  const char **texts = arena_new_array(b->graph->arena, const char *, count);
  for (unsigned i = 0; i < count; i++) {
    bool ok = graph_builder_note(b, b->format->string(b->format->item(value, i), &text, b->error));
    texts[i] = ok ? arena_strdup(b->graph->arena, text) : "";
  }
  attribute->texts = texts;
  attribute->n = count;
}

static void set_body(GraphBuilder *b, const GraphAttributeSpec *spec, GraphAttribute *attribute)
{
  attribute->body = spec->body;
  if (!spec->body)
    graph_builder_report(b, ERROR_INPUT, &attribute->mark, "type", NULL, "attribute `%s` is a graph",
                         spec->name);
}

static void set_attribute(GraphBuilder *b, const GraphAttributeSpec *spec, const OperatorAttribute *row,
                          GraphAttribute *attribute)
{
  const void *value = spec->value;
  attribute->given = true;
  attribute->mark = b->format->mark(value);
  switch (row->kind) {
  case ATTRIBUTE_INT: integer_of(b, value, &attribute->integer); return;
  case ATTRIBUTE_FLOAT: graph_builder_note(b, b->format->number(value, &attribute->number, b->error)); return;
  case ATTRIBUTE_INTS: set_integers(b, value, attribute); return;
  case ATTRIBUTE_FLOATS: set_numbers(b, value, attribute); return;
  case ATTRIBUTE_STRINGS: set_texts(b, value, attribute); return;
  case ATTRIBUTE_STRING: set_choice(b, value, row, attribute); return;
  case ATTRIBUTE_TYPE: set_type(b, value, row, attribute); return;
  case ATTRIBUTE_GRAPH: set_body(b, spec, attribute); return;
  }
}

static void refuse_attribute(GraphBuilder *b, const GraphNode *node, const char *name, const Mark *mark)
{
  const Operator *op = node->op;
  if (node->onnx && onnx_attribute(node->onnx, name, NULL)) {
    graph_builder_report(b, ERROR_UNSUPPORTED, mark, "unsupported-attribute", NULL,
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
      meant ? g_strdup_printf("did you mean `%s`?", meant) : builder_suggest(name, known, all);
  graph_builder_report(b, ERROR_INPUT, mark, "unknown-attribute", hint, "%s has no attribute `%s`", op->name,
                       name);
}

static void set_attributes(GraphBuilder *b, const GraphNodeSpec *spec, GraphNode *node)
{
  const Operator *op = node->op;
  node->attributes =
      op->n_attributes ? arena_new_array(b->graph->arena, GraphAttribute, op->n_attributes) : NULL;
  for (unsigned i = 0; i < op->n_attributes; i++)
    node->attributes[i] = (GraphAttribute){.integer = op->attributes[i].integer,
                                           .number = op->attributes[i].number,
                                           .text = op->attributes[i].text,
                                           .mark = node->mark};
  for (unsigned i = 0; i < spec->n_attributes; i++) {
    const GraphAttributeSpec *attribute = &spec->attributes[i];
    int index = operator_attribute_index(op, attribute->name);
    if (builder_refuse_attribute_of_version(b, node, attribute->name, &attribute->name_mark)) continue;
    if (index >= 0)
      set_attribute(b, attribute, &op->attributes[index], &node->attributes[index]);
    else
      refuse_attribute(b, node, attribute->name, &attribute->name_mark);
  }
  for (unsigned i = 0; i < op->n_attributes && !spec->attributes_faulty; i++)
    if (op->attributes[i].required && !node->attributes[i].given)
      graph_builder_report(b, ERROR_INPUT, &spec->mark, "missing-attribute", NULL,
                           "%s needs the attribute `%s`", op->name, op->attributes[i].name);
}

/* ---- nodes ---- */

/* By our definition, or ONNX's where we lack the operator. */
static void check_arity(GraphBuilder *b, const GraphNode *node, bool output, unsigned n, const Mark *mark)
{
  const Operator *op = node->op;
  const OnnxOperator *onnx = node->onnx;
  if (!op && !onnx) return;
  unsigned min = output ? (op ? op->min_outputs : onnx->min_outputs) : op ? op->min_inputs : onnx->min_inputs;
  unsigned max = output ? (op ? op->max_outputs : onnx->max_outputs) : op ? op->max_inputs : onnx->max_inputs;
  if (n >= min && n <= max) return;
  g_autofree char *range = max == UINT_MAX ? g_strdup_printf("at least %u", min)
                           : min == max    ? g_strdup_printf("%u", min)
                                           : g_strdup_printf("%u to %u", min, max);
  graph_builder_report(b, ERROR_INPUT, mark, "arity", NULL, "%s takes %s %s%s, not %u",
                       op ? op->name : onnx->name, range, output ? "output" : "input", max == 1 ? "" : "s",
                       n);
}

/* The outputs are defined even when the node is faulty: what reads them is not to blame. */
static void add_outputs(GraphBuilder *b, const GraphNodeSpec *spec, GraphNode *node)
{
  if (!spec->outputs) return;
  check_arity(b, node, true, spec->n_outputs, &spec->outputs_mark);
  node->n_outputs = spec->n_outputs;
  node->outputs = arena_new_array(b->graph->arena, GraphTensor *, spec->n_outputs);
  for (unsigned i = 0; i < spec->n_outputs; i++) {
    const GraphNameSpec *output = &spec->outputs[i];
    if (!output->name) continue;
    if (!*output->name) {
      if (i == 0 && node->op && node->op->min_outputs)
        graph_builder_report(b, ERROR_INPUT, &output->mark, "bad-name", NULL,
                             "the first output needs a name");
      continue;
    }
    node->outputs[i] = graph_tensor_new(b->graph, output->name, TENSOR_COMPUTED, output->mark);
    node->outputs[i]->producer = node;
    builder_define(b, node->outputs[i], b->body ? b->body->results : b->computed);
  }
}

/* Names only; the tensors are looked up when all are known. */
static const char **add_inputs(GraphBuilder *b, const GraphNodeSpec *spec, GraphNode *node)
{
  if (!spec->inputs) return NULL;
  check_arity(b, node, false, spec->n_inputs, &spec->inputs_mark);
  Arena *arena = b->graph->arena;
  const char **names = arena_new_array(arena, const char *, spec->n_inputs);
  Mark *marks = arena_new_array(arena, Mark, spec->n_inputs);
  node->n_inputs = spec->n_inputs;
  node->inputs = arena_new_array(arena, GraphTensor *, spec->n_inputs);
  node->input_marks = marks;
  for (unsigned i = 0; i < spec->n_inputs; i++) {
    marks[i] = spec->inputs[i].mark;
    if (!spec->inputs[i].name) continue;
    names[i] = arena_strdup(arena, spec->inputs[i].name);
    if (!*names[i] && builder_requires(node, i))
      graph_builder_report(b, ERROR_INPUT, &marks[i], "missing-input", NULL, "input %u of %s is required",
                           i + 1, node->op ? node->op->name : node->onnx->name);
  }
  return names;
}

static void link_inputs(GraphBuilder *b, GraphNode *node, const char **names, const GraphBody *body)
{
  for (unsigned i = 0; i < node->n_inputs; i++) {
    if (!names[i] || !*names[i]) continue;
    node->inputs[i] = builder_find(b, body, names[i]);
    if (!node->inputs[i]) builder_report_undefined(b, body, names[i], &node->input_marks[i]);
  }
}

void graph_builder_open_node(GraphBuilder *b)
{
  b->failed_before = b->failed_before || b->failed;
  b->failed = false;
}

void graph_builder_close_node(GraphBuilder *b, const GraphNodeSpec *spec)
{
  GraphNode *node = arena_new_object(b->graph->arena, GraphNode);
  node->mark = spec->mark;
  node->name = arena_strdup(b->graph->arena, spec->name);
  find_operator(b, spec, node);
  const char **names = add_inputs(b, spec, node);
  if (node->op)
    set_attributes(b, spec, node);
  else if (node->onnx && !spec->attributes_faulty)
    builder_check_attributes(b, spec, node->onnx);
  add_outputs(b, spec, node);
  const BuilderNodes *read = b->body ? &b->body->read : &b->read;
  g_ptr_array_add(read->all, node);
  g_ptr_array_add(read->input_names, names);
  if (!node->op && node->onnx) g_ptr_array_add(b->unsupported, node);
  if (!b->failed)
    g_ptr_array_add(read->formed, node);
  else
    for (unsigned i = 0; i < node->n_outputs; i++)
      if (node->outputs[i]) node->outputs[i]->producer = NULL;
  b->failed = b->failed || b->failed_before;
  b->failed_before = false;
}

/* ---- order ---- */

/* One of these nodes, not of what is around them. */
static bool is_among(const GPtrArray *nodes, const GraphNode *node)
{
  return node && node->index < nodes->len && nodes->pdata[node->index] == node;
}

/* An input whose producer is not done. */
static GraphTensor *waits_for(const GPtrArray *nodes, const GraphNode *node, const bool *done)
{
  for (unsigned i = 0; i < node->n_inputs; i++) {
    GraphTensor *input = node->inputs[i];
    if (input && is_among(nodes, input->producer) && !done[input->producer->index]) return input;
  }
  return NULL;
}

/* Follows what is waited for until a node comes up again: from there on it is a cycle. */
static void report_cycle(GraphBuilder *b, GPtrArray *nodes, const bool *done)
{
  GraphNode *node = NULL;
  g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < nodes->len && !node; i++)
    if (!done[i]) node = nodes->pdata[i];
  while (g_hash_table_add(seen, node))
    node = waits_for(nodes, node, done)->producer;
  GraphNode *start = node;
  g_autoptr(GString) path = g_string_new(NULL);
  unsigned n = 0;
  do {
    GraphTensor *tensor = waits_for(nodes, node, done);
    if (n++ < 8) g_string_append_printf(path, "%s`%s`", n > 1 ? " from " : "", tensor->name);
    node = tensor->producer;
  } while (node != start);
  g_string_append(path, n > 8 ? " from ... from itself" : " from itself");
  graph_builder_report(b, ERROR_INPUT, &start->mark, "cycle", NULL, "the nodes form a cycle: %s", path->str);
}

/* A sorted file keeps its order. */
static void order_nodes(GraphBuilder *b, GPtrArray *nodes, GPtrArray *into)
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
      if (!node->inputs[j] || !is_among(nodes, node->inputs[j]->producer)) continue;
      edge.first = node->inputs[j]->producer->index;
      g_array_append_val(edges, edge);
    }
  }
  unsigned n = order_by_rounds(nodes->len, (const OrderEdge *)(void *)edges->data, edges->len, order);
  for (unsigned i = 0; i < n; i++) {
    done[order[i]] = true;
    g_ptr_array_add(into, nodes->pdata[order[i]]);
  }
  if (n < nodes->len) report_cycle(b, nodes, done);
}

static void forget_consumers(GPtrArray *tensors)
{
  for (unsigned i = 0; i < tensors->len; i++) {
    GraphTensor *tensor = tensors->pdata[i];
    tensor->consumers = NULL;
    tensor->n_consumers = 0;
  }
}

void builder_index(GraphBuilder *b, GPtrArray *nodes)
{
  Arena *arena = b->graph->arena;
  forget_consumers(b->inputs);
  forget_consumers(b->constants);
  forget_consumers(b->computed);
  for (unsigned i = 0; i < nodes->len; i++)
    ((GraphNode *)nodes->pdata[i])->index = i;
  for (unsigned pass = 0; pass < 2; pass++)
    for (unsigned i = 0; i < nodes->len; i++) {
      GraphNode *node = nodes->pdata[i];
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

/* ---- outputs of the graph ---- */

void graph_builder_output(GraphBuilder *b, const char *name, const Mark *mark)
{
  BuilderOutput output = {arena_strdup(b->graph->arena, name), *mark};
  g_array_append_val(b->body ? b->body->wanted : b->wanted, output);
}

void graph_builder_share(GraphBuilder *b, const char *output, const char *input, const Mark *mark)
{
  BuilderSharing sharing = {arena_strdup(b->graph->arena, output), arena_strdup(b->graph->arena, input),
                            *mark};
  g_array_append_val(b->sharing, sharing);
}

/* Both are known by now, if they are there. */
static void share_memory(GraphBuilder *b, unsigned i)
{
  const BuilderSharing *sharing = &g_array_index(b->sharing, BuilderSharing, i);
  GraphTensor *output = g_hash_table_lookup(b->tensors, sharing->output),
              *input = g_hash_table_lookup(b->tensors, sharing->input);
  bool kinds = output && output->is_output && input && input->kind == TENSOR_INPUT, twice = false;
  for (unsigned j = 0; j < i; j++)
    twice = twice || !strcmp(g_array_index(b->sharing, BuilderSharing, j).input, sharing->input);
  if (!kinds || twice || output->memory)
    graph_builder_report(b, ERROR_INPUT, &sharing->mark, "in-place", NULL,
                         kinds ? "`%s` cannot lie in `%s`: one of them is named twice"
                               : "`%s` cannot lie in `%s`: these are no output and input of the graph",
                         sharing->output, sharing->input);
  else
    output->memory = input;
}

static void find_output(GraphBuilder *b, const char *name, const Mark *mark)
{
  GraphTensor *tensor = g_hash_table_lookup(b->tensors, name);
  if (!tensor) {
    g_autofree const char **known = builder_tensor_names(b, NULL);
    g_autofree char *hint = builder_suggest(name, known, NULL);
    graph_builder_report(b, ERROR_INPUT, mark, "undefined-tensor", hint, "no node produces the output `%s`",
                         name);
  } else if (tensor->kind != TENSOR_COMPUTED) {
    graph_builder_report(b, ERROR_INPUT, mark, "output", "copy it with an Identity node",
                         "the output `%s` is %s, which no node produces", name,
                         tensor->kind == TENSOR_INPUT ? "an input" : "a constant");
  } else if (tensor->is_output) {
    graph_builder_report(b, ERROR_INPUT, mark, "output", NULL, "the output `%s` is named twice", name);
  } else {
    tensor->is_output = true;
    g_ptr_array_add(b->outputs, tensor);
  }
}

/* What its bodies take from around them, as further inputs. */
static void take_captured(GraphBuilder *b, GraphNode *node)
{
  unsigned n = node->n_inputs, at = n;
  for (unsigned i = 0; node->op && node->attributes && i < node->op->n_attributes; i++)
    if (node->attributes[i].body) n += node->attributes[i].body->captured->len;
  if (n == at) return;
  GraphTensor **inputs = arena_new_array(b->graph->arena, GraphTensor *, n);
  Mark *marks = arena_new_array(b->graph->arena, Mark, n);
  for (unsigned i = 0; i < n; i++) {
    inputs[i] = i < at ? node->inputs[i] : NULL;
    marks[i] = i < at ? node->input_marks[i] : node->mark;
  }
  for (unsigned i = 0; i < node->op->n_attributes; i++) {
    const GraphBody *body = node->attributes[i].body;
    for (unsigned j = 0; body && j < body->captured->len; j++)
      inputs[at++] = body->captured->pdata[j];
  }
  node->n_captured = n - node->n_inputs;
  node->inputs = inputs;
  node->input_marks = marks;
  node->n_inputs = n;
}

void builder_open_nodes(BuilderNodes *nodes)
{
  *nodes = (BuilderNodes){g_ptr_array_new(), g_ptr_array_new(), g_ptr_array_new()};
}

void builder_free_nodes(const BuilderNodes *nodes)
{
  g_ptr_array_unref(nodes->all);
  g_ptr_array_unref(nodes->input_names);
  g_ptr_array_unref(nodes->formed);
}

void builder_link_nodes(GraphBuilder *b, const BuilderNodes *nodes, const GraphBody *body, GPtrArray *order)
{
  for (unsigned i = 0; i < nodes->all->len; i++)
    if (nodes->input_names->pdata[i]) {
      link_inputs(b, nodes->all->pdata[i], nodes->input_names->pdata[i], body);
      take_captured(b, nodes->all->pdata[i]);
    }
  order_nodes(b, nodes->formed, order);
}

void builder_link(GraphBuilder *b)
{
  builder_link_nodes(b, &b->read, NULL, b->nodes);
  builder_index(b, b->nodes);
  for (unsigned i = 0; i < b->wanted->len; i++) {
    const BuilderOutput *output = &g_array_index(b->wanted, BuilderOutput, i);
    find_output(b, output->name, &output->mark);
  }
  for (unsigned i = 0; i < b->sharing->len; i++)
    share_memory(b, i);
}
