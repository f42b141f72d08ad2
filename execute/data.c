#include "execute/data.h"
#include "execute/data_set.h"
#include "execute/default_data.h"
#include "generator/front/append.h"
#include "generator/front/sequences.h"
#include <string.h>

/* ---- making ---- */

static Tensor *load(const GraphTensor *like, const char *path, GError **error)
{
  int64_t shape[GRAPH_MAX_RANK] = {0};
  for (unsigned i = 0; i < like->rank; i++)
    symbolic_is_constant(like->shape[i], &shape[i]);
  /* A file of one tensor serves whatever the name it has there. */
  g_autoptr(GError) by_name = NULL;
  bool onnx = g_str_has_suffix(path, ".pb");
  g_autoptr(Tensor) tensor = onnx ? data_set_tensor(path, &by_name) : tensor_load(path, like->name, &by_name);
  if (!tensor && !onnx) tensor = tensor_load(path, NULL, NULL);
  if (!tensor) {
    g_propagate_error(error, g_steal_pointer(&by_name));
    return NULL;
  }
  if (!tensor_check(tensor, like->type, like->rank, shape, error)) return NULL;
  g_free(tensor->name);
  tensor->name = g_strdup(like->name);
  return g_steal_pointer(&tensor);
}

static bool is_input(const Graph *graph, const char *name)
{
  for (unsigned i = 0; i < graph->n_inputs; i++)
    if (!strcmp(graph->inputs[i]->name, name)) return true;
  return false;
}

/* Every name of the table is an input. NULL stands for an empty table. */
static bool check_names(const Graph *graph, GHashTable *files, GError **error)
{
  GHashTableIter iter;
  void *name;
  if (files) g_hash_table_iter_init(&iter, files);
  while (files && g_hash_table_iter_next(&iter, &name, NULL)) {
    if (is_input(graph, name)) continue;
    error_set(error, ERROR_INPUT, NULL, "unknown-tensor", NULL, "--input: %s has no input %s", graph->name,
              (const char *)name);
    return false;
  }
  return true;
}

RunData *run_data_new(const Graph *graph, GHashTable *files, uint64_t seed, GError **error)
{
  if (!check_names(graph, files, error)) return NULL;
  g_autoptr(RunData) data = g_new0(RunData, 1);
  data->graph = graph;
  data->inputs = g_new0(Tensor *, graph->n_inputs + 1);
  data->constants = g_new0(Tensor *, graph->n_constants + 1);
  data->outputs = g_new0(Tensor *, graph->n_outputs + 1);
  for (unsigned i = 0; i < graph->n_inputs; i++) {
    const char *file = files ? g_hash_table_lookup(files, graph->inputs[i]->name) : NULL;
    if (file && !(data->inputs[i] = load(graph->inputs[i], file, error))) return NULL;
  }
  for (unsigned i = 0; i < graph->n_constants; i++)
    if (!(data->constants[i] = evaluate_constant(graph, i, error))) return NULL;
  data->scales = default_data_scales(graph, data->inputs, data->constants);
  for (unsigned i = 0; i < graph->n_inputs; i++)
    if (!data->inputs[i] &&
        !(data->inputs[i] = evaluate_default_input(graph, i, data->scales[i], seed, error)))
      return NULL;
  return g_steal_pointer(&data);
}

static void free_all(Tensor **tensors, unsigned n)
{
  for (unsigned i = 0; tensors && i < n; i++)
    tensor_free(tensors[i]);
  g_free(tensors);
}

void run_data_free(RunData *data)
{
  if (!data) return;
  free_all(data->inputs, data->graph->n_inputs);
  free_all(data->constants, data->graph->n_constants);
  free_all(data->outputs, data->graph->n_outputs);
  g_free(data->scales);
  g_free(data);
}

/* ---- lists ---- */

static const Tensor *values_of(const RunData *data, const GraphTensor *tensor)
{
  for (unsigned i = 0; i < data->graph->n_inputs; i++)
    if (data->graph->inputs[i] == tensor) return data->inputs[i];
  for (unsigned i = 0; i < data->graph->n_constants; i++)
    if (data->graph->constants[i] == tensor) return data->constants[i];
  return NULL;
}

static char *fault_of(const RunData *data, const GraphNode *node, unsigned input)
{
  const Tensor *list = node->inputs[input] ? values_of(data, node->inputs[input]) : NULL;
  if (!list) return NULL;
  if (node->op->id == ONNX_AppendRows)
    return input == APPEND_PLACES ? append_fault(node, list->type, list->data, list->n) : NULL;
  bool lengths = node->n_inputs > SEQUENCES_LENGTHS && node->inputs[SEQUENCES_LENGTHS];
  const Tensor *known = lengths ? values_of(data, node->inputs[SEQUENCES_LENGTHS]) : NULL;
  return input >= SEQUENCES_ENDS && input <= SEQUENCES_TABLE
             ? sequences_fault(node, input, list->type, list->data, list->n,
                               known ? (const int32_t *)known->data : NULL)
             : NULL;
}

void run_data_check_lists(const RunData *data, ExecutionFaults *faults)
{
  for (unsigned i = 0; i < data->graph->n_nodes; i++) {
    const GraphNode *node = data->graph->nodes[i];
    if (node->op->id != ONNX_AppendRows && node->op->id != ONNX_VarlenAttention) continue;
    for (unsigned j = 0; j < node->n_inputs; j++) {
      g_autofree char *text = fault_of(data, node, j);
      if (text) execution_add_fault(faults, sim_fault_name(SIM_FAULT_OPERAND), text);
    }
  }
}

/* ---- moving ---- */

/* Unless each dimension, from the smallest step up, steps past all that the ones before it reach. */
static bool may_overlap(const ResolvedTensor *resolved)
{
  unsigned rank = resolved->tensor->rank;
  bool taken[PLAN_MAX_RANK] = {false};
  int64_t reach = 1;
  for (unsigned n = 0; n < rank; n++) {
    unsigned least = rank;
    for (unsigned d = 0; d < rank; d++)
      if (!taken[d] && (least == rank || resolved->strides[d] < resolved->strides[least])) least = d;
    taken[least] = true;
    if (resolved->shape[least] <= 1) continue;
    if (resolved->strides[least] < reach) return true;
    reach += (resolved->shape[least] - 1) * resolved->strides[least];
  }
  return false;
}

static void put_all(Tensor *const *tensors, GraphTensor *const *names, unsigned n, Execution *execution)
{
  for (unsigned i = 0; i < n; i++) {
    /* What the compiler folded into kernels is no tensor of the plan. */
    ExecutionTensor *memory = execution_tensor(execution, names[i]->name);
    if (!memory || !memory->data) continue;
    execution_scatter(memory, tensors[i]->data);
    /* Where strides let elements share memory the last one written holds, for the reference too. */
    if (may_overlap(&memory->resolved)) execution_gather(memory, tensors[i]->data);
  }
}

static bool has_constant(const Graph *graph, const char *name)
{
  for (unsigned i = 0; i < graph->n_constants; i++)
    if (!strcmp(graph->constants[i]->name, name)) return true;
  return false;
}

/* The plan's constants that the bound graph has not: what the compiler made of several, and what is folded into a larger constant
 * where all dimensions are known. */
static bool put_other_constants(const RunData *data, const Graph *compiled, Execution *execution,
                                GError **error)
{
  for (unsigned i = 0; i < execution->plan->n_tensors; i++) {
    const PlanTensor *constant = execution->plan->tensors[i];
    if (constant->kind != PLAN_CONSTANT || has_constant(data->graph, constant->name)) continue;
    g_autoptr(Tensor) tensor = evaluate_plan_constant(compiled, constant, error);
    if (!tensor) return false;
    execution_scatter(execution_tensor(execution, constant->name), tensor->data);
  }
  return true;
}

bool run_data_put_inputs(const RunData *data, const Graph *compiled, Execution *execution, GError **error)
{
  if (!put_other_constants(data, compiled, execution, error)) return false;
  put_all(data->inputs, data->graph->inputs, data->graph->n_inputs, execution);
  put_all(data->constants, data->graph->constants, data->graph->n_constants, execution);
  return true;
}

bool run_data_take_reference(RunData *data, GError **error)
{
  g_autoptr(GPtrArray) values = evaluate_graph(data->graph, data->inputs, error);
  for (unsigned i = 0; values && i < data->graph->n_outputs; i++)
    if (!(data->outputs[i] = value_to_tensor(values->pdata[i], data->graph->outputs[i]->name, error)))
      return false;
  return values != NULL;
}

bool run_data_take_outputs(RunData *data, const Execution *execution, GError **error)
{
  for (unsigned i = 0; i < data->graph->n_outputs; i++) {
    const GraphTensor *output = data->graph->outputs[i];
    const ExecutionTensor *memory = execution_tensor(execution, output->name);
    if (!memory || !memory->data) {
      error_set(error, ERROR_INTERNAL, NULL, "no-output", NULL, "the plan has no output %s", output->name);
      return false;
    }
    data->outputs[i] = tensor_new(output->name, output->type, output->rank, memory->resolved.shape, error);
    if (!data->outputs[i]) return false;
    execution_gather(memory, data->outputs[i]->data);
  }
  return true;
}

/* ---- against the reference ---- */

static RunComparison with_worst(const Tensor *out, const Value *reference, const Comparison *whole)
{
  RunComparison c = {.whole = *whole};
  size_t worst = whole->worst;
  if (worst >= out->n) return c;
  c.out = number_read(out->type, out->data, worst);
  c.reference = reference->floats ? reference->floats[worst] : (double)reference->integers[worst];
  return c;
}

/* What an open dimension has, by the shapes of the inputs. */
static bool open_dimension(const Symbolic *leaf, int64_t *value, void *user)
{
  const RunData *data = user;
  for (unsigned i = 0; i < data->graph->n_inputs; i++) {
    const GraphTensor *input = data->graph->inputs[i];
    for (unsigned d = 0; d < input->rank; d++) {
      if (!symbolic_same(input->shape[d], leaf)) continue;
      *value = data->inputs[i]->shape[d];
      return true;
    }
  }
  return false;
}

/* What holds before errors raise it. */
typedef struct Limits {
  double of[NUMBER_TYPE_COUNT];
  ErrorModel model;
} Limits;

static Limits find_limits(const RunData *data, bool fast)
{
  const Graph *graph = data->graph;
  bool coarse = graph_has_coarse_products(graph);
  int64_t longest = graph_longest_sum(graph, open_dimension, (void *)data);
  Limits limits;
  fast = graph_has_fast_sums(graph, fast);
  for (unsigned type = 0; type < NUMBER_TYPE_COUNT; type++)
    limits.of[type] = comparison_limit((NumberType)type, coarse, fast, longest);
  limits.model = (ErrorModel){coarse || fast ? limits.of[NUMBER_F32] : 0};
  return limits;
}

/* Where outputs are further off than results of their type usually are, errors carried along the graph say
 * whether that is what roundings lead to. */
static bool check_with_errors(const RunData *data, const RunCheck *check, const Limits *limits,
                              RunComparison *comparisons, GError **error)
{
  const Graph *graph = data->graph;
  g_auto(EvaluationErrors) errors = {NULL, NULL, NULL};
  g_autoptr(GPtrArray) references =
      evaluate_graph_errors(graph, data->inputs, &limits->model, limits->of, &errors, error);
  for (unsigned i = 0; references && i < graph->n_outputs; i++) {
    Comparison c =
        compare_with_errors(data->outputs[i], references->pdata[i], errors.each->pdata[i],
                            limits->of[graph->outputs[i]->type], errors.widest[i], check->tolerance);
    comparisons[i] = with_worst(data->outputs[i], references->pdata[i], &c);
    comparisons[i].wider = c.wide ? errors.wider[i] : NULL;
    comparisons[i].admitted = c.wide && check->admit_wide;
  }
  return references != NULL;
}

bool run_comparison_passes(const RunComparison *comparison)
{
  return comparison->whole.ok && (!comparison->whole.wide || comparison->admitted);
}

RunComparison *run_data_check(const RunData *data, const RunCheck *check, Arena *arena, GError **error)
{
  const Graph *graph = data->graph;
  bool doubtful = false;
  g_autoptr(GPtrArray) references = evaluate_graph(graph, data->inputs, error);
  if (!references) return NULL;
  const Limits limits = find_limits(data, check->fast);
  RunComparison *comparisons = arena_new_array(arena, RunComparison, graph->n_outputs);
  for (unsigned i = 0; i < graph->n_outputs; i++) {
    double limit = MIN(limits.of[graph->outputs[i]->type], check->tolerance);
    Comparison c = compare_values(data->outputs[i], references->pdata[i], limit);
    comparisons[i] = with_worst(data->outputs[i], references->pdata[i], &c);
    doubtful = doubtful || !c.ok || c.outliers || c.wrong_blocks;
  }
  if (doubtful && !check_with_errors(data, check, &limits, comparisons, error)) return NULL;
  return comparisons;
}

bool run_compare(const Graph *graph, Tensor *const *inputs, Tensor *const *outputs, bool fast,
                 Comparison *comparisons, GError **error)
{
  const RunData data = {.graph = graph, .inputs = (Tensor **)inputs, .outputs = (Tensor **)outputs};
  const RunCheck check = {.fast = fast, .tolerance = INFINITY};
  g_autoptr(GPtrArray) references = evaluate_graph(graph, inputs, error);
  if (!references) return false;
  const Limits limits = find_limits(&data, fast);
  bool ok = true;
  for (unsigned i = 0; i < graph->n_outputs; i++) {
    comparisons[i] = compare_values(outputs[i], references->pdata[i], limits.of[graph->outputs[i]->type]);
    ok &= comparisons[i].ok;
  }
  if (ok) return true;
  g_autoptr(Arena) arena = arena_new();
  const RunComparison *closer = run_data_check(&data, &check, arena, error);
  for (unsigned i = 0; closer && i < graph->n_outputs; i++) {
    comparisons[i] = closer[i].whole;
    comparisons[i].ok = run_comparison_passes(&closer[i]);
  }
  return closer != NULL;
}

json_t *run_data_scales(const RunData *data)
{
  json_t *scales = json_object();
  for (unsigned i = 0; i < data->graph->n_inputs; i++)
    if (data->scales[i] != 1)
      json_object_set_new(scales, data->graph->inputs[i]->name, json_real(data->scales[i]));
  return scales;
}

/* ---- to disk ---- */

static bool write_list(Tensor *const *tensors, unsigned n, const char *name, Output *output, GError **error)
{
  g_autoptr(GPtrArray) list = g_ptr_array_new();
  for (unsigned i = 0; i < n; i++)
    g_ptr_array_add(list, tensors[i]);
  g_autofree char *path = output_path(output, name, error);
  return path && tensors_save(list, path, error);
}

bool run_data_write(const RunData *data, Output *output, GError **error)
{
  return write_list(data->inputs, data->graph->n_inputs, "inputs.safetensors", output, error) &&
         write_list(data->outputs, data->graph->n_outputs, "outputs.safetensors", output, error);
}
