#include "execute/evaluate.h"
#include "generator/front/append.h"
#include "generator/front/groups.h"
#include "generator/front/sequences.h"
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
  unsigned list;
  const GraphNode *sequences = sequences_reader(input, &list);
  if (tensor && sequences) {
    tensor_fill_range(tensor, seed, index, 0, G_MAXINT32);
    sequences_fill(sequences, list, input->type, tensor->data, tensor->n);
    return tensor;
  }
  if (tensor && sequences_read_tree(input)) {
    tensor_fill_range(tensor, seed, index, G_MININT32, G_MAXINT32);
    return tensor;
  }
  int64_t slots = append_slots(input);
  if (tensor && slots) {
    tensor_fill_range(tensor, seed, index, 0, slots);
    append_fill_slots(input->type, tensor->data, tensor->n, slots);
    return tensor;
  }
  int64_t n = number_class(input->type) == NUMBER_FLOAT ? 0 : graph_indexed_elements(input);
  if (tensor && n && append_is_table(input)) {
    append_fill_table(input->type, tensor->data, tensor->n, n);
    return tensor;
  }
  int64_t begins = append_begins(input);
  if (tensor && n)
    tensor_fill_range(tensor, seed, index, begins ? 0 : -n, begins ? MIN(begins, n) : n);
  else if (tensor)
    tensor_fill_random(tensor, seed, index, scale);
  return tensor;
}

/* Integers that are written as expressions of symbols, which have values now. */
static bool write_values(const GraphTensor *constant, Tensor *tensor, GError **error)
{
  for (size_t i = 0; i < constant->n_elements; i++) {
    int64_t value;
    g_autofree char *text = symbolic_text(constant->values[i]);
    if (!symbolic_is_constant(constant->values[i], &value)) {
      error_set(error, ERROR_INPUT, &constant->mark, "unbound-symbol",
                "give every symbol a value, such as --dim M=4096", "element %zu of `%s` is %s, not a number",
                i, constant->name, text);
      return false;
    }
    if (constant->type == NUMBER_S32 && value != (int32_t)value) {
      error_set(error, ERROR_INPUT, &constant->mark, "out-of-range", "give it the type s64",
                "element %zu of `%s` is %s, which s32 does not hold", i, constant->name, text);
      return false;
    }
    number_set_bits(constant->type, (uint64_t)value, tensor->data, i);
  }
  return true;
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
  g_autoptr(Tensor) tensor = tensor_new(constant->name, constant->type, constant->rank, shape, error);
  if (!tensor) return NULL;
  if (constant->values && !constant->data)
    return write_values(constant, tensor, error) ? g_steal_pointer(&tensor) : NULL;
  if (tensor->bytes) memcpy(tensor->data, constant->data, tensor->bytes);
  return g_steal_pointer(&tensor);
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
  int64_t columns = 0;
  symbolic_is_constant(constant->shape[constant->rank - 1], &columns);
  for (unsigned i = 0; i < constant->n_stacks; i++) {
    Tensor *part = constant_called(graph, constant->stacks[i].name, error);
    if (!part) return NULL;
    g_ptr_array_add(parts, part);
  }
  return tensor_stack(constant->name, (Tensor *const *)(void *)parts->pdata, parts->len, constant->rank,
                      columns, error);
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

/* Is it asked which elements of a row are its largest, or smallest? */
static bool seeks_extreme(const GraphNode *node)
{
  if (node->op->id != ONNX_Equal) return false;
  const GraphTensor *row = node->inputs[0];
  const GraphNode *extreme = node->inputs[1]->producer;
  return extreme && (extreme->op->id == ONNX_ReduceMax || extreme->op->id == ONNX_ReduceMin) &&
         extreme->inputs[0] == row && extreme->axes == 1u << (row->rank - 1);
}

/* One that no other of its row is near to is it, however both are rounded. */
static void settle_extremes(const Value *row, double *each)
{
  size_t columns = (size_t)row->shape[row->rank - 1];
  for (size_t first = 0; each && first < row->n; first += columns) {
    size_t near = 0, last = 0;
    for (size_t i = first; i < first + columns; i++)
      if (each[i] > 0) near++, last = i;
    if (near == 1) each[last] = 0;
  }
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
  if (seeks_extreme(node)) settle_extremes(call->inputs[0], errors[0].each);
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
    g_free(evaluation->errors[tensor->index].each);
    evaluation->errors[tensor->index] = errors[i];
    double rounded = evaluation->plain[reference_rounds_to(call, outputs[i])];
    evaluation->coarsest[tensor->index] =
        reference_rounds(call, outputs[i]) ? MAX(coarsest, rounded) : coarsest;
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
  int64_t shape[GRAPH_MAX_RANK];
  bool told = node->op->id == ONNX_Reshape;
  if (told && !extents_of(node->outputs[0], shape, error)) return false;
  ReferenceCall call = {.op = node->op->name,
                        .opset = MAX(evaluation->graph->opset, node->op->since),
                        .inputs = inputs,
                        .n_inputs = node->n_inputs,
                        .attributes = attributes,
                        .n_attributes = node->op->n_attributes,
                        .result = node->outputs[0]->type,
                        .shape = told ? shape : NULL};
  g_autofree Value **outputs = g_new0(Value *, node->n_outputs + 1);
  if (!reference_run(&call, outputs, node->n_outputs, error)) return false;
  bool ok = true;
  for (unsigned i = 0; i < node->n_outputs; i++)
    ok = ok && (!node->outputs[i] || check_output(node->outputs[i], outputs[i], error));
  if (ok && evaluation->errors) ok = find_errors(evaluation, node, &call, outputs, error);
  for (unsigned i = 0; i < node->n_outputs; i++) {
    const GraphTensor *tensor = node->outputs[i];
    bool kept = tensor && (tensor->is_output || tensor->n_consumers);
    if (kept) value_free(evaluation->values[tensor->index]); /* of the time before, in a loop */
    if (kept)
      evaluation->values[tensor->index] = outputs[i];
    else
      value_free(outputs[i]);
  }
  if (!node->loop) release_inputs(evaluation, node);
  return ok;
}

/* ---- loops: their nodes one after the other, as often as they say ---- */

/* A value with what is known of its errors. */
typedef struct {
  Value *value;
  double *each; /* NULL: none, or they are not asked for */
} Held;

typedef struct {
  Evaluation *e;
  const GraphLoop *loop;
  GraphNode *const *nodes;
  unsigned n;
  int64_t count, time;
  Held *held; /* by nodes: of LoopNext the state to come, of LoopStack the stack */
} Loop;

static void held_clear(Held *held)
{
  value_free(held->value);
  g_free(held->each);
  *held = (Held){0};
}

/* Elements [from, from + n) of a value and of its errors, in another shape; from and n count elements. */
static bool copy_elements(const Value *of, const double *each, size_t from, unsigned rank,
                          const int64_t *shape, Held *to, GError **error)
{
  Value *value = value_new(of->type, rank, shape, error);
  if (!value) return false;
  if (value->n && value->floats) memcpy(value->floats, of->floats + from, value->n * sizeof *value->floats);
  if (value->n && value->integers)
    memcpy(value->integers, of->integers + from, value->n * sizeof *value->integers);
  *to = (Held){value, each ? g_memdup2(each + from, MAX(value->n, 1) * sizeof *each) : NULL};
  return true;
}

static const double *errors_of(const Loop *l, const GraphTensor *tensor)
{
  return l->e->errors ? l->e->errors[tensor->index].each : NULL;
}

/* Gives a tensor a value; what is known of how coarse it is comes from another one. */
static void give_value(const Loop *l, const GraphTensor *tensor, Held held, const GraphTensor *from)
{
  Evaluation *e = l->e;
  if (!tensor->is_output && !tensor->n_consumers) {
    held_clear(&held);
    return;
  }
  value_free(e->values[tensor->index]);
  e->values[tensor->index] = held.value;
  if (!e->errors) return;
  g_free(e->errors[tensor->index].each);
  e->errors[tensor->index] = (Errors){held.each, e->errors[from->index].shared, 0};
  e->coarsest[tensor->index] = MAX(e->coarsest[tensor->index], e->coarsest[from->index]);
  e->widths[tensor->index] = MAX(e->widths[tensor->index], e->widths[from->index]);
}

static int64_t place_of(const Loop *l, const GraphNode *node)
{
  return graph_attribute(node, "reverse")->integer ? l->count - 1 - l->time : l->time;
}

static bool take_element(Loop *l, const GraphNode *node, GError **error)
{
  const GraphTensor *x = node->inputs[0];
  const Value *whole = l->e->values[x->index];
  size_t n = l->count ? whole->n / (size_t)l->count : 0;
  Held held;
  if (!copy_elements(whole, errors_of(l, x), n * (size_t)place_of(l, node), whole->rank - 1, whole->shape + 1,
                     &held, error))
    return false;
  give_value(l, node->outputs[0], held, x);
  return true;
}

/* What LoopNext of this state holds. */
static Held *next_of(const Loop *l, const GraphTensor *state)
{
  for (unsigned i = 0; i < l->n; i++)
    if (l->nodes[i]->op->id == ONNX_LoopNext && l->nodes[i]->inputs[1] == state) return &l->held[i];
  return NULL;
}

static bool take_state(Loop *l, const GraphNode *node, GError **error)
{
  const GraphTensor *first = node->inputs[0], *state = node->outputs[0];
  const Value *value = l->e->values[first->index];
  Held *next = next_of(l, state), held;
  if (l->time && next) {
    held = *next;
    *next = (Held){0};
  } else if (!copy_elements(value, errors_of(l, first), 0, value->rank, value->shape, &held, error)) {
    return false;
  }
  give_value(l, state, held, first);
  return true;
}

static bool keep_next(Loop *l, const GraphNode *node, Held *held, GError **error)
{
  const GraphTensor *x = node->inputs[0];
  const Value *value = l->e->values[x->index];
  held_clear(held);
  return copy_elements(value, errors_of(l, x), 0, value->rank, value->shape, held, error);
}

static bool open_stack(const Loop *l, const GraphNode *node, Held *held, GError **error)
{
  const GraphTensor *x = node->inputs[0], *all = node->outputs[0];
  int64_t shape[GRAPH_MAX_RANK] = {l->count};
  for (unsigned d = 0; d < x->rank; d++)
    symbolic_is_constant(x->shape[d], &shape[d + 1]);
  held->value = value_new(all->type, all->rank, shape, error);
  if (held->value && l->e->errors) held->each = g_new0(double, MAX(held->value->n, 1));
  return held->value != NULL;
}

static void stack(const Loop *l, const GraphNode *node, const Held *held)
{
  const Value *value = l->e->values[node->inputs[0]->index];
  const double *each = errors_of(l, node->inputs[0]);
  size_t at = value->n * (size_t)place_of(l, node);
  if (value->n && value->floats)
    memcpy(held->value->floats + at, value->floats, value->n * sizeof *value->floats);
  if (value->n && value->integers)
    memcpy(held->value->integers + at, value->integers, value->n * sizeof *value->integers);
  if (value->n && each) memcpy(held->each + at, each, value->n * sizeof *each);
}

static bool run_in_loop(Loop *l, unsigned i, GError **error)
{
  const GraphNode *node = l->nodes[i];
  switch ((unsigned)node->op->id) {
  case ONNX_LoopElement: return take_element(l, node, error);
  case ONNX_LoopState: return take_state(l, node, error);
  case ONNX_LoopNext: return keep_next(l, node, &l->held[i], error);
  case ONNX_LoopStack: stack(l, node, &l->held[i]); return true;
  default: return run_node(l->e, node, error);
  }
}

/* What goes out. A loop of no times gives its initial states. */
static bool give_results(Loop *l, GError **error)
{
  for (unsigned i = 0; i < l->n; i++) {
    const GraphNode *node = l->nodes[i];
    bool next = node->op->id == ONNX_LoopNext;
    if (!next && node->op->id != ONNX_LoopStack) continue;
    const GraphTensor *from = next && !l->count ? node->inputs[1]->producer->inputs[0] : node->inputs[0];
    const Value *first = l->e->values[from->index];
    if (next && !l->count &&
        !copy_elements(first, errors_of(l, from), 0, first->rank, first->shape, &l->held[i], error))
      return false;
    give_value(l, node->outputs[0], l->held[i], from);
    l->held[i] = (Held){0};
  }
  return true;
}

static bool run_loop(Evaluation *evaluation, unsigned *at, GError **error)
{
  const Graph *graph = evaluation->graph;
  Loop l = {.e = evaluation, .loop = graph->nodes[*at]->loop, .nodes = graph->nodes + *at};
  while (*at + l.n < graph->n_nodes && l.nodes[l.n]->loop == l.loop)
    l.n++;
  if (!symbolic_is_constant(l.loop->count, &l.count)) {
    error_set(error, ERROR_INPUT, &l.nodes[0]->mark, "unbound-symbol",
              "give every symbol a value, such as --dim M=4096",
              "how often a loop is carried out is not a number");
    return false;
  }
  l.held = g_new0(Held, l.n + 1);
  bool ok = true;
  for (unsigned i = 0; ok && i < l.n; i++)
    if (l.nodes[i]->op->id == ONNX_LoopStack) ok = open_stack(&l, l.nodes[i], &l.held[i], error);
  for (; ok && l.time < l.count; l.time++)
    for (unsigned i = 0; ok && i < l.n; i++)
      ok = run_in_loop(&l, i, error);
  ok = ok && give_results(&l, error);
  for (unsigned i = 0; i < l.n; i++) {
    held_clear(&l.held[i]);
    if (ok) release_inputs(evaluation, l.nodes[i]);
  }
  g_free(l.held);
  *at += l.n - 1;
  return ok;
}

/* ---- the whole ---- */

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
    ok = graph->nodes[i]->loop ? run_loop(evaluation, &i, error)
                               : run_node(evaluation, graph->nodes[i], error);
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
