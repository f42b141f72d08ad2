/* Functions: what their bodies are written with, and the table of them. */
#include "generator/front/expand.h"
#include <string.h>

#define MOST_COPIES (1 << 16) /* of nodes of bodies: loops within loops multiply them */

struct Expansion {
  Inference *inference;
  GraphNode *node;
  unsigned first;  /* of the body, among the nodes that were inferred */
  GPtrArray *made; /* tensors of the body that are not the node's own outputs */
  bool failed;
  const GraphLoop *loop; /* that nodes are made in */
};

#define FUNCTION(op, name)       void expand_##name(Expansion *at);
#define NAMED_FUNCTION(id, name) void expand_##name(Expansion *at);
#include "generator/front/expand.def"
#undef FUNCTION
#undef NAMED_FUNCTION

static const struct {
  OperatorId op;
  void (*write)(Expansion *at);
} functions[] = {
#define FUNCTION(op, name)       {ONNX_##op, expand_##name},
#define NAMED_FUNCTION(id, name) {id, expand_##name},
#include "generator/front/expand.def"
#undef FUNCTION
#undef NAMED_FUNCTION
};

/* What a function computes with in f32 whatever its input is would be of unlike types, or less exact than f64. */
static bool refuses_f64(Inference *inference)
{
  const GraphNode *node = inference->node;
  const Operator *op = graph_written_operator(node);
  bool wide = node->n_inputs && node->inputs[0] && node->inputs[0]->type == NUMBER_F64;
  if (!wide || !(op->types >> NUMBER_F64 & 1) || (op->generated >> NUMBER_F64 & 1)) return false;
  g_autofree char *hint = operator_kernels_text(op);
  infer_refuse(inference, ERROR_UNSUPPORTED, &node->mark, "unsupported-type", hint,
               "%s of f64 is not supported", op->name);
  return true;
}

bool expand_function(Inference *inference)
{
  Expansion at = {inference,         inference->node, inference->builder->expanded->len,
                  g_ptr_array_new(), false,           inference->node->loop};
  graph_note_indices(inference->node);
  if (refuses_f64(inference)) {
    g_ptr_array_unref(at.made);
    return false;
  }
  for (unsigned i = 0; i < G_N_ELEMENTS(functions); i++)
    if (functions[i].op == at.node->op->id) {
      functions[i].write(&at);
      g_ptr_array_unref(at.made);
      return !at.failed;
    }
  g_error("%s has no row in expand.def", at.node->op->name);
}

/* ---- what there is ---- */

const GraphNode *expand_written(const Expansion *at)
{
  return at->node;
}

Arena *expand_arena(const Expansion *at)
{
  return at->inference->graph->arena;
}

GraphTensor *expand_input(const Expansion *at, unsigned i)
{
  return i < at->node->n_inputs ? at->node->inputs[i] : NULL;
}

bool expand_wants(const Expansion *at, unsigned i)
{
  const GraphTensor *output = i < at->node->n_outputs ? at->node->outputs[i] : NULL;
  return output && (output->is_output || output->n_consumers);
}

bool expand_has_output(const Expansion *at, unsigned i)
{
  return i < at->node->n_outputs && at->node->outputs[i];
}

unsigned expand_opset(const Expansion *at)
{
  return at->inference->graph->opset;
}

bool expand_same(Expansion *at, const Symbolic *a, const Symbolic *b)
{
  return infer_same(at->inference, a, b);
}

const Graph *expand_graph(const Expansion *at)
{
  return at->inference->graph;
}

const SymbolicFacts *expand_facts(const Expansion *at)
{
  return &at->inference->graph->facts;
}

bool expand_failed(const Expansion *at)
{
  return at->failed;
}

/* ---- faults ---- */

void expand_fail(Expansion *at)
{
  at->failed = true;
}

static void refuse(Expansion *at, ErrorCode code, const Mark *mark, const char *id, const char *hint,
                   const char *format, va_list arguments)
{
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  if (!at->failed) infer_refuse(at->inference, code, mark, id, hint, "%s", message);
  at->failed = true;
}

void expand_refuse(Expansion *at, ErrorCode code, unsigned input, const char *id, const char *hint,
                   const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  refuse(at, code, expand_input(at, input) ? &at->node->input_marks[input] : &at->node->mark, id, hint,
         format, arguments);
  va_end(arguments);
}

void expand_refuse_attribute(Expansion *at, ErrorCode code, const char *attribute, const char *hint,
                             const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  refuse(at, code, &graph_attribute(at->node, attribute)->mark,
         code == ERROR_UNSUPPORTED ? "unsupported-attribute" : "bad-attribute", hint, format, arguments);
  va_end(arguments);
}

/* ---- tensors ---- */

/* RESULT.PART, with a number where that name is taken. */
static GraphTensor *new_tensor(Expansion *at, const char *part, GraphTensorKind kind)
{
  GraphBuilder *b = at->inference->builder;
  const GraphTensor *result = at->node->outputs[0];
  g_autofree char *name = g_strdup_printf("%s.%s", result ? result->name : at->node->op->name, part);
  GraphTensor *tensor = graph_tensor_new(b->graph, builder_free_name(b, name, ""), kind, at->node->mark);
  builder_define(b, tensor, kind == TENSOR_CONSTANT ? b->constants : b->computed);
  if (kind == TENSOR_COMPUTED) g_ptr_array_add(at->made, tensor);
  return tensor;
}

/* Of rank 0 or 1. Without data: its values follow from symbols. */
static GraphTensor *new_constant(Expansion *at, const char *part, NumberType type, unsigned rank, size_t n,
                                 const void *data)
{
  GraphTensor *tensor = new_tensor(at, part, TENSOR_CONSTANT);
  tensor->type = type;
  tensor->align = (unsigned)number_bytes_of(type, 1);
  tensor->n_elements = n;
  tensor->rank = rank;
  tensor->shape[0] = symbolic_constant(expand_arena(at), (int64_t)n);
  graph_row_major(expand_arena(at), tensor);
  if (data) tensor->data = arena_memdup(expand_arena(at), data, number_bytes_of(type, n));
  graph_know_integers(expand_arena(at), tensor);
  return tensor;
}

GraphTensor *expand_number(Expansion *at, const char *part, NumberType type, double value)
{
  guint8 bytes[8];
  if (at->failed) return NULL;
  number_from_double(type, value, false, bytes);
  return new_constant(at, part, type, 0, 1, bytes);
}

GraphTensor *expand_integers(Expansion *at, const char *part, const int64_t *items, unsigned n)
{
  return at->failed ? NULL : new_constant(at, part, NUMBER_S64, 1, n, items);
}

GraphTensor *expand_known(Expansion *at, const char *part, const Symbolic *const *values, unsigned n,
                          unsigned rank)
{
  bool numbers = true;
  g_autofree int64_t *items = g_new0(int64_t, n + 1);
  if (at->failed) return NULL;
  for (unsigned i = 0; i < n; i++)
    numbers = symbolic_is_constant(values[i], &items[i]) && numbers;
  GraphTensor *tensor = new_constant(at, part, NUMBER_S64, rank, n, numbers ? items : NULL);
  tensor->values = arena_memdup(expand_arena(at), values, n * sizeof(const Symbolic *));
  return tensor;
}

GraphTensor *expand_table(Expansion *at, const char *part, NumberType type, size_t rows, size_t columns,
                          const void *data)
{
  if (at->failed) return NULL;
  GraphTensor *tensor = new_constant(at, part, type, 1, rows * columns, data);
  tensor->rank = 2;
  tensor->shape[0] = symbolic_constant(expand_arena(at), (int64_t)rows);
  tensor->shape[1] = symbolic_constant(expand_arena(at), (int64_t)columns);
  graph_row_major(expand_arena(at), tensor);
  return tensor;
}

/* ---- nodes ---- */

static void set_attributes(Expansion *at, const ExpandNode *spec, GraphNode *node)
{
  const Operator *op = node->op;
  Arena *arena = expand_arena(at);
  node->attributes = op->n_attributes ? arena_new_array(arena, GraphAttribute, op->n_attributes) : NULL;
  for (unsigned i = 0; i < op->n_attributes; i++)
    node->attributes[i] = (GraphAttribute){.integer = op->attributes[i].integer,
                                           .number = op->attributes[i].number,
                                           .text = op->attributes[i].text,
                                           .mark = node->mark};
  for (const ExpandAttribute *given = spec->attributes; given->name; given++) {
    int index = operator_attribute_index(op, given->name);
    if (index < 0) g_error("%s has no attribute %s", op->name, given->name);
    GraphAttribute *attribute = &node->attributes[index];
    attribute->given = true;
    attribute->integer = given->integer;
    attribute->number = given->number;
    attribute->text = given->text;
    attribute->integers = arena_memdup(arena, given->integers, given->n * sizeof *given->integers);
    attribute->n = given->n;
  }
}

/* Where an input of the written node is named, or the node. */
static const Mark *mark_inputs(Expansion *at, const ExpandNode *spec)
{
  Mark *marks = arena_new_array(expand_arena(at), Mark, spec->n_inputs);
  for (unsigned i = 0; i < spec->n_inputs; i++) {
    marks[i] = at->node->mark;
    for (unsigned j = at->node->n_inputs; j-- > 0;)
      if (spec->inputs[i] && spec->inputs[i] == at->node->inputs[j]) marks[i] = at->node->input_marks[j];
  }
  return marks;
}

static GraphTensor *new_result(Expansion *at, GraphNode *node, const char *part, Mark mark)
{
  GraphTensor *tensor = new_tensor(at, part, TENSOR_COMPUTED);
  tensor->mark = mark;
  tensor->producer = node;
  tensor->n_consumers = 1; /* a function among the body gives it */
  return tensor;
}

static bool infer_made(Expansion *at, GraphNode *node)
{
  Inference inner = *at->inference;
  inner.node = node;
  at->failed = !infer_node(&inner);
  return !at->failed;
}

GraphTensor *expand_node(Expansion *at, const ExpandNode *spec)
{
  if (at->failed) return NULL;
  Arena *arena = expand_arena(at);
  GraphNode *node = arena_new_object(arena, GraphNode);
  node->op = operator_of(spec->op);
  node->written = graph_written_operator(at->node);
  node->name = at->node->name;
  node->mark = at->node->mark;
  node->loop = at->loop;
  node->n_inputs = spec->n_inputs;
  node->inputs = arena_memdup(arena, spec->inputs, spec->n_inputs * sizeof(GraphTensor *));
  node->input_marks = mark_inputs(at, spec);
  node->n_outputs = 1 + spec->n_further;
  node->outputs = arena_new_array(arena, GraphTensor *, node->n_outputs);
  for (unsigned i = 0; i < node->n_outputs; i++) {
    node->outputs[i] = new_result(at, node, spec->part, node->mark);
    if (i) spec->further[i - 1] = node->outputs[i];
  }
  set_attributes(at, spec, node);
  return infer_made(at, node) ? node->outputs[0] : NULL;
}

bool expand_copy(Expansion *at, const GraphNode *of, GraphTensor *const *inputs, GraphTensor **outputs)
{
  if (!at->failed && at->inference->builder->n_copies++ >= MOST_COPIES)
    expand_refuse(at, ERROR_UNSUPPORTED, 0, "too-large", NULL,
                  "%s of a graph whose loops, written out, have more than %d nodes is not supported",
                  at->node->op->name, MOST_COPIES);
  if (at->failed) return false;
  Arena *arena = expand_arena(at);
  GraphNode *node = arena_memdup(arena, of, sizeof *of);
  node->written = graph_written_operator(of);
  node->loop = at->loop;
  node->inputs = arena_memdup(arena, inputs, of->n_inputs * sizeof(GraphTensor *));
  node->outputs = arena_new_array(arena, GraphTensor *, of->n_outputs);
  for (unsigned i = 0; i < of->n_outputs; i++)
    if (of->outputs[i]) node->outputs[i] = new_result(at, node, of->outputs[i]->name, of->outputs[i]->mark);
  memcpy(outputs, node->outputs, of->n_outputs * sizeof(GraphTensor *));
  return infer_made(at, node);
}

GraphTensor *expand(Expansion *at, OperatorId op, const char *part, GraphTensor *a, GraphTensor *b)
{
  return expand_node(at, &(ExpandNode){op, part, b ? 2 : 1, {a, b}});
}

GraphTensor *expand_cast(Expansion *at, const char *part, GraphTensor *x, NumberType type)
{
  if (at->failed || x->type == type) return x;
  return expand_node(at,
                     &(ExpandNode){ONNX_Cast, part, 1, {x}, .attributes = {{"saturate", 1}, {"to", type}}});
}

GraphTensor *expand_index(Expansion *at, const char *part, const Symbolic *const *shape, unsigned rank,
                          unsigned axis)
{
  GraphTensor *blank = expand(at, ONNX_Expand, "blank", expand_number(at, "nothing", NUMBER_S32, 0),
                              expand_known(at, "extents", shape, rank, 1));
  return expand_node(at, &(ExpandNode){ONNX_IndexAlong, part, 1, {blank}, .attributes = {{"axis", axis}}});
}

GraphTensor *expand_reshape(Expansion *at, const char *part, GraphTensor *x, const Symbolic *const *shape,
                            unsigned rank)
{
  g_autofree char *name = g_strdup_printf("%s_shape", part);
  bool empty = false;
  for (unsigned d = 0; d < rank; d++)
    empty |= symbolic_equals(shape[d], 0);
  const ExpandNode spec = {
      ONNX_Reshape,
      part,
      2,
      {x, expand_known(at, name, shape, rank, 1)},
      .attributes = {{empty ? "allowzero" : NULL, 1}}}; /* else 0 is the extent that was there */
  return expand_node(at, &spec);
}

GraphTensor *expand_where(Expansion *at, const char *part, GraphTensor *condition, GraphTensor *a,
                          GraphTensor *b)
{
  return expand_node(at, &(ExpandNode){ONNX_Where, part, 3, {condition, a, b}});
}

GraphTensor *expand_slice(Expansion *at, const char *part, GraphTensor *x, int64_t axis, int64_t from,
                          int64_t to)
{
  return expand_node(
      at, &(ExpandNode){ONNX_Slice,
                        part,
                        4,
                        {x, expand_integers(at, "from", &from, 1), expand_integers(at, "to", &to, 1),
                         expand_integers(at, "axis", &axis, 1)}});
}

GraphTensor *expand_squeeze(Expansion *at, const char *part, GraphTensor *x, int64_t axis)
{
  return expand(at, ONNX_Squeeze, part, x, expand_integers(at, "axis", &axis, 1));
}

GraphTensor *expand_unsqueeze(Expansion *at, const char *part, GraphTensor *x, int64_t axis)
{
  return expand(at, ONNX_Unsqueeze, part, x, expand_integers(at, "axis", &axis, 1));
}

GraphTensor *expand_transpose(Expansion *at, const char *part, GraphTensor *x, const int64_t *perm)
{
  if (at->failed) return NULL;
  return expand_node(
      at,
      &(ExpandNode){ONNX_Transpose, part, 1, {x}, .attributes = {{"perm", .integers = perm, .n = x->rank}}});
}

/* ---- loops ---- */

void expand_open_loop(Expansion *at, const Symbolic *count)
{
  GraphLoop *loop = arena_new_object(expand_arena(at), GraphLoop);
  loop->count = count;
  if (at->loop) {
    g_autofree char *times = symbolic_text(count);
    expand_refuse(at, ERROR_UNSUPPORTED, 0, "loop", "see docs/graph.md, control flow",
                  "%s of %s times in a loop is not supported: a loop within a loop", at->node->op->name,
                  times);
  }
  at->loop = loop;
}

void expand_close_loop(Expansion *at)
{
  at->loop = at->node->loop;
}

bool expand_in_loop(const Expansion *at)
{
  return at->loop != NULL;
}

GraphTensor *expand_element(Expansion *at, const char *part, GraphTensor *x, bool reverse)
{
  return expand_node(at, &(ExpandNode){ONNX_LoopElement, part, 1, {x}, .attributes = {{"reverse", reverse}}});
}

GraphTensor *expand_stack(Expansion *at, const char *part, GraphTensor *x, bool reverse)
{
  return expand_node(at, &(ExpandNode){ONNX_LoopStack, part, 1, {x}, .attributes = {{"reverse", reverse}}});
}

/* ---- results ---- */

/* In the body the output stands where the tensor stood. */
static void replace(Expansion *at, GraphTensor *tensor, GraphTensor *output)
{
  GPtrArray *nodes = at->inference->builder->expanded;
  for (unsigned i = at->first; i < nodes->len; i++) {
    GraphNode *node = nodes->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++)
      if (node->inputs[j] == tensor) node->inputs[j] = output;
    for (unsigned j = 0; j < node->n_outputs; j++)
      if (node->outputs[j] == tensor) node->outputs[j] = output;
  }
  output->producer = tensor->producer;
  output->type = tensor->type;
  output->align = tensor->align;
  output->rank = tensor->rank;
  memcpy(output->shape, tensor->shape, sizeof tensor->shape);
  memcpy(output->strides, tensor->strides, sizeof tensor->strides);
  output->values = tensor->values;
  output->data = tensor->data;
  output->n_elements = tensor->n_elements;
  output->offered = tensor->offered;
  if (tensor->blocks) output->blocks = tensor->blocks;
}

void expand_give(Expansion *at, unsigned i, GraphTensor *tensor)
{
  if (at->failed || !expand_wants(at, i)) return;
  if (!g_ptr_array_remove(at->made, tensor)) tensor = expand(at, ONNX_Identity, "copy", tensor, NULL);
  if (at->failed) return;
  g_ptr_array_remove(at->made, tensor);
  replace(at, tensor, at->node->outputs[i]);
}

void expand_share(Expansion *at, unsigned i, unsigned input)
{
  GraphTensor *memory = expand_input(at, input);
  GraphTensor *output = expand_has_output(at, i) ? at->node->outputs[i] : NULL;
  if (at->failed || (output && output->memory)) return;
  if (!output || !output->is_output || memory->kind != TENSOR_INPUT) {
    expand_refuse(at, ERROR_INPUT, input, "in-place", "name it among the outputs of node and graph",
                  "%s writes `%s` in place: its output %u is to be one of the graph, and this an input",
                  at->node->op->name, memory->name, i);
    return;
  }
  output->memory = memory;
  const BuilderSharing sharing = {output->name, memory->name, at->node->mark};
  g_array_append_val(at->inference->builder->sharing, sharing);
}

/* ---- small ones ---- */

void expand_cast_like(Expansion *at)
{
  const GraphNode *node = expand_written(at);
  GraphTensor *x = expand_input(at, 0);
  expand_give(
      at, 0,
      expand_node(at, &(ExpandNode){ONNX_Cast,
                                    "cast",
                                    1,
                                    {x},
                                    .attributes = {
                                        {"to", expand_input(at, 1)->type},
                                        {"saturate", graph_attribute(node, "saturate")->integer},
                                        {"round_mode", .text = graph_attribute(node, "round_mode")->text}}}));
}
