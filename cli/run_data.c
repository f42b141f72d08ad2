#include "cli/run_data.h"
#include "cli/cli.h"
#include <string.h>

/* ---- making ---- */

static Tensor *new_like(const GraphTensor *like, GError **error)
{
  int64_t shape[GRAPH_MAX_RANK] = {0};
  for (unsigned i = 0; i < like->rank; i++)
    symbolic_is_constant(like->shape[i], &shape[i]);
  return tensor_new(like->name, like->type, like->rank, shape, error);
}

static Tensor *load(const GraphTensor *like, const char *path, GError **error)
{
  int64_t shape[GRAPH_MAX_RANK] = {0};
  for (unsigned i = 0; i < like->rank; i++)
    symbolic_is_constant(like->shape[i], &shape[i]);
  g_autoptr(Tensor) tensor = NULL;
  /* A file of one tensor serves whatever its name. */
  g_autoptr(GError) by_name = NULL;
  tensor = tensor_load(path, like->name, &by_name);
  if (!tensor) tensor = tensor_load(path, NULL, NULL);
  if (!tensor) {
    g_propagate_error(error, g_steal_pointer(&by_name));
    return NULL;
  }
  if (!tensor_check(tensor, like->type, like->rank, shape, error)) return NULL;
  g_free(tensor->name);
  tensor->name = g_strdup(like->name);
  return g_steal_pointer(&tensor);
}

static Tensor *make_tensor(const GraphTensor *like, const char *file, uint64_t seed, unsigned index,
                           GError **error)
{
  if (!file) file = like->file;
  if (file) return load(like, file, error);
  Tensor *tensor = new_like(like, error);
  if (!tensor) return NULL;
  if (like->data)
    memcpy(tensor->data, like->data, tensor->bytes);
  else
    tensor_fill_random(tensor, seed, index);
  return tensor;
}

/* NAME=FILE pairs as a table; every name must be one of the graph's. */
static GHashTable *read_files(const Graph *graph, const char *const *files, GError **error)
{
  g_autoptr(GHashTable) table = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  for (; *files; files++) {
    char *name = NULL, *path = NULL;
    if (!argument_split("input", *files, &name, &path, error)) return NULL;
    const GraphTensor *tensor = graph_tensor(graph, name);
    g_hash_table_insert(table, name, path);
    if (tensor && tensor->kind != TENSOR_COMPUTED) continue;
    error_set(error, ERROR_INPUT, NULL, "unknown-tensor", NULL, "--input: %s has no input or constant %s",
              graph->name, name);
    return NULL;
  }
  return g_steal_pointer(&table);
}

static bool make_all(Tensor **tensors, GraphTensor *const *like, unsigned n, GHashTable *files, uint64_t seed,
                     GError **error)
{
  for (unsigned i = 0; i < n; i++) {
    tensors[i] = make_tensor(like[i], g_hash_table_lookup(files, like[i]->name), seed, i, error);
    if (!tensors[i]) return false;
  }
  return true;
}

RunData *run_data_new(const Graph *graph, const char *const *files, uint64_t seed, GError **error)
{
  g_autoptr(GHashTable) table = read_files(graph, files, error);
  if (!table) return NULL;
  g_autoptr(RunData) data = g_new0(RunData, 1);
  data->graph = graph;
  data->inputs = g_new0(Tensor *, graph->n_inputs + 1);
  data->constants = g_new0(Tensor *, graph->n_constants + 1);
  data->outputs = g_new0(Tensor *, graph->n_outputs + 1);
  if (!make_all(data->inputs, graph->inputs, graph->n_inputs, table, seed, error) ||
      !make_all(data->constants, graph->constants, graph->n_constants, table, seed, error))
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
  g_free(data);
}

/* ---- moving ---- */

static void put_all(Tensor *const *tensors, unsigned n, Execution *execution)
{
  for (unsigned i = 0; i < n; i++) {
    /* What the compiler folded into kernels is no tensor of the plan. */
    ExecutionTensor *memory = execution_tensor(execution, tensors[i]->name);
    if (memory && memory->data) execution_scatter(memory, tensors[i]->data);
  }
}

void run_data_put_inputs(const RunData *data, Execution *execution)
{
  put_all(data->inputs, data->graph->n_inputs, execution);
  put_all(data->constants, data->graph->n_constants, execution);
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
    data->outputs[i] = new_like(output, error);
    if (!data->outputs[i]) return false;
    execution_gather(memory, data->outputs[i]->data);
  }
  return true;
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
