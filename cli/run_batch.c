#include "cli/run_batch.h"
#include "catalog/cases.h"
#include "cli/accumulate_option.h"
#include "cli/assembler_option.h"
#include "execute/data.h"
#include "execute/execute.h"
#include "execute/report.h"
#include <math.h>
#include <string.h>

typedef struct Batch {
  const Arguments *arguments;
  Assembler *assembler; /* on the GPU */
  Device *device;
  /* Of the last line, kept for those that compile the same. */
  char *key;
  Source *source;
  Gpu *gpu;
  Graph *plain;
  CompileResult *compiled;
} Batch;

/* One line: what is asked for, and what came of it. */
typedef struct Item {
  json_t *words;
  Arena *arena;
  GraphBinding *bindings;
  unsigned n_bindings;
  GraphBinding *constants; /* bound before compiling: all with "fixed", else none */
  unsigned n_constants;
  json_t *result;
  bool lost;
} Item;

/* ---- reading ---- */

static bool refuse(const char *what, GError **error)
{
  error_set(error, ERROR_INPUT, NULL, "bad-batch", "docs/cli.md describes the lines of a batch", "%s", what);
  return false;
}

static bool check_keys(const json_t *words, GError **error)
{
  static const char *const known[] = {"label",    "graph",      "gpu",        "dims", "set",
                                      "offset",   "skew",       "sms",        "seed", "fixed",
                                      "in_place", "accumulate", "admit_wide", NULL};
  const char *key;
  json_t *value;
  if (!json_is_object(words)) return refuse("a line of a batch is to be an object", error);
  json_object_foreach((json_t *)words, key, value)
  {
    if (g_strv_contains(known, key)) continue;
    g_autofree char *what = g_strdup_printf("a line of a batch has no key `%s`", key);
    return refuse(what, error);
  }
  if (!json_is_string(json_object_get(words, "gpu"))) return refuse("a line of a batch needs a `gpu`", error);
  const char *accumulate = json_string_value(json_object_get(words, "accumulate"));
  if (json_object_get(words, "accumulate") &&
      (!accumulate || !g_strv_contains(accumulate_choices, accumulate)))
    return refuse("`accumulate` of a line is exact or fast", error);
  return true;
}

static bool read_dims(Item *item, GError **error)
{
  json_t *dims = json_object_get(item->words, "dims"), *value;
  const char *name;
  if (dims && !json_is_object(dims)) return refuse("`dims` of a line is to be an object", error);
  item->bindings = arena_new_array(item->arena, GraphBinding, json_object_size(dims) + 1);
  json_object_foreach(dims, name, value)
  {
    if (!json_is_integer(value)) return refuse("a dimension of a line is to be a whole number", error);
    item->bindings[item->n_bindings++] =
        (GraphBinding){arena_strdup(item->arena, name), json_integer_value(value)};
  }
  item->constants = item->bindings;
  item->n_constants = json_is_true(json_object_get(item->words, "fixed")) ? item->n_bindings : 0;
  return true;
}

static char *text_of_graph(const json_t *words)
{
  char *text = json_dumps(json_object_get(words, "graph"), JSON_INDENT(1) | JSON_ENCODE_ANY);
  char *copy = g_strdup(text ? text : "");
  free(text);
  return copy;
}

/* What decides the kernels. */
static char *key_of(const Item *item, const char *graph)
{
  json_t *key = json_pack("[s, O, O?, O?, O?, O?]", graph, json_object_get(item->words, "gpu"),
                          json_object_get(item->words, "set"), json_object_get(item->words, "sms"),
                          json_object_get(item->words, "accumulate"),
                          item->n_constants ? json_object_get(item->words, "dims") : NULL);
  char *text = json_dumps(key, JSON_SORT_KEYS), *copy = g_strdup(text);
  free(text);
  json_decref(key);
  return copy;
}

/* ---- compiling ---- */

static void forget(Batch *batch)
{
  g_clear_pointer(&batch->compiled, compile_result_free);
  g_clear_pointer(&batch->plain, graph_free);
  g_clear_pointer(&batch->gpu, gpu_free);
  g_clear_pointer(&batch->source, source_unref);
  g_clear_pointer(&batch->key, g_free);
}

static Source *source_of(const json_t *words, const char *text, GError **error)
{
  const json_t *graph = json_object_get(words, "graph"), *label = json_object_get(words, "label");
  if (json_is_string(graph)) return source_load(json_string_value(graph), error);
  return source_new(json_is_string(label) ? json_string_value(label) : "<batch>", text, strlen(text));
}

static Accumulate accumulation(const Item *item)
{
  return accumulate_parse(json_string_value(json_object_get(item->words, "accumulate")));
}

static bool compile(Batch *batch, const Item *item, GError **error)
{
  g_autofree char *text = text_of_graph(item->words), *key = key_of(item, text);
  if (batch->compiled && !strcmp(key, batch->key)) return true;
  forget(batch);
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
  size_t i;
  json_t *set;
  json_array_foreach(json_object_get(item->words, "set"), i, set)
  {
    if (!json_is_string(set)) return refuse("`set` of a line is to be a list of texts", error);
    g_strv_builder_add(builder, json_string_value(set));
  }
  g_auto(GStrv) sets = g_strv_builder_end(builder);
  const CompileOptions options = {.sets = (const char *const *)sets,
                                  .drop_ir = true,
                                  .accumulate = accumulation(item),
                                  .sm_budget =
                                      (unsigned)json_integer_value(json_object_get(item->words, "sms"))};
  batch->source = source_of(item->words, text, error);
  batch->plain = batch->source ? graph_read(batch->source, item->constants, item->n_constants, error) : NULL;
  batch->gpu = batch->plain ? gpu_load(json_string_value(json_object_get(item->words, "gpu")), error) : NULL;
  batch->compiled = batch->gpu ? generator_compile(batch->plain, batch->gpu, &options, error) : NULL;
  batch->key = g_steal_pointer(&key);
  return batch->compiled != NULL;
}

/* ---- running ---- */

static bool apply_offsets(const Item *item, Execution *x, GError **error)
{
  unsigned skew = (unsigned)json_integer_value(json_object_get(item->words, "skew"));
  for (unsigned i = 0; i < x->plan->n_tensors; i++)
    if (x->plan->tensors[i]->kind != PLAN_WORKSPACE)
      x->tensors[i].skew = catalog_tensor_skew(x->plan->tensors[i], skew);
  size_t i;
  json_t *text;
  json_array_foreach(json_object_get(item->words, "offset"), i, text)
  {
    g_autofree char *name = NULL, *value = NULL;
    if (!json_is_string(text)) return refuse("`offset` of a line is to be a list of texts", error);
    if (!argument_split("offset", json_string_value(text), &name, &value, error)) return false;
    ExecutionTensor *tensor = execution_tensor(x, name);
    if (!tensor || !tensor->data) return refuse("`offset` of a line names no tensor", error);
    tensor->skew = (unsigned)(g_ascii_strtoull(value, NULL, 10) % 4097);
  }
  return true;
}

static bool apply_sharing(const Item *item, Execution *x, GError **error)
{
  size_t i;
  json_t *text;
  json_array_foreach(json_object_get(item->words, "in_place"), i, text)
  {
    g_autofree char *output = NULL, *input = NULL;
    if (!json_is_string(text)) return refuse("`in_place` of a line is to be a list of texts", error);
    if (!argument_split("in-place", json_string_value(text), &output, &input, error) ||
        !execution_share(x, output, input, error))
      return false;
  }
  return true;
}

static bool carry_out(Batch *batch, Item *item, Execution *x, ExecutionFaults *faults, GError **error)
{
  if (batch->device) {
    if (execution_run(x, batch->device, batch->assembler, faults, error)) return true;
    item->lost = !device_wait(batch->device, NULL);
    return false;
  }
  SimOptions options;
  sim_options_default(&options);
  options.strict = true; /* these are our own kernels */
  return execution_simulate(x, &options, faults, error);
}

static json_t *outputs_json(const Graph *graph, const RunComparison *comparisons, bool *ok)
{
  json_t *outputs = json_array();
  for (unsigned i = 0; i < graph->n_outputs; i++) {
    if (!run_comparison_passes(&comparisons[i])) *ok = false;
    json_array_append_new(outputs, run_comparison_json(graph->outputs[i], &comparisons[i]));
  }
  return outputs;
}

static bool run_item(Batch *batch, Item *item, GError **error)
{
  if (!check_keys(item->words, error) || !read_dims(item, error) || !compile(batch, item, error))
    return false;
  g_autoptr(Graph) graph = graph_read(batch->source, item->bindings, item->n_bindings, error);
  g_autoptr(Execution) x =
      graph ? execution_new(batch->compiled, batch->gpu, item->bindings, item->n_bindings, error) : NULL;
  cli_add_warnings(item->result, graph ? graph->warnings : NULL);
  if (!x || !apply_offsets(item, x, error) || !apply_sharing(item, x, error)) return false;
  uint64_t seed = (uint64_t)json_integer_value(json_object_get(item->words, "seed"));
  g_autoptr(RunData) data = run_data_new(graph, NULL, seed, error);
  if (!data) return false;
  run_data_put_inputs(data, x);
  g_autoptr(ExecutionFaults) faults = execution_faults_new();
  if (!carry_out(batch, item, x, faults, error)) return false;
  bool ok = faults->n_errors == 0;
  json_object_set(item->result, "faults", faults->list);
  if (ok) {
    const RunCheck check = {.fast = accumulation(item) == ACCUMULATE_FAST,
                            .tolerance = INFINITY,
                            .admit_wide = json_is_true(json_object_get(item->words, "admit_wide")) ||
                                          argument_flag(batch->arguments, "admit-wide")};
    const RunComparison *comparisons =
        run_data_take_outputs(data, x, error) ? run_data_check(data, &check, item->arena, error) : NULL;
    if (!comparisons) return false;
    json_object_set_new(item->result, "outputs", outputs_json(graph, comparisons, &ok));
  }
  json_object_set_new(item->result, "ok", json_boolean(ok));
  return true;
}

static bool run_line(Batch *batch, const char *line, size_t number, bool *lost)
{
  json_error_t fault;
  Item item = {.words = json_loads(line, JSON_REJECT_DUPLICATES, &fault), .arena = arena_new()};
  g_autoptr(GError) error = NULL;
  const json_t *label = json_object_get(item.words, "label");
  item.result = json_pack("{s:I, s:s?}", "line", (json_int_t)number, "label", json_string_value(label));
  if (!item.words) error_set(&error, ERROR_INPUT, NULL, "syntax", NULL, "%s", fault.text);
  if (error || !run_item(batch, &item, &error)) {
    json_object_set_new(item.result, "ok", json_false());
    json_object_set_new(item.result, "exit", json_integer(error_exit_code(error)));
    json_object_set_new(item.result, "message", json_string(error->message));
  }
  if (item.lost) json_object_set_new(item.result, "context", json_string("lost"));
  bool ok = json_is_true(json_object_get(item.result, "ok"));
  char *text = json_dumps(item.result, JSON_COMPACT);
  puts(text ? text : "{}");
  fflush(stdout);
  free(text);
  *lost = item.lost;
  json_decref(item.result);
  json_decref(item.words);
  arena_free(item.arena);
  return ok;
}

static bool open_place(Batch *batch, const Cli *cli, GError **error)
{
  unsigned number = 0;
  if (strcmp(argument_value(batch->arguments, "on"), "gpu") != 0) return true;
  if (!argument_unsigned(batch->arguments, "device", &number, error)) return false;
  batch->assembler = assembler_of_options(cli, batch->arguments, error);
  batch->device = batch->assembler ? device_open(number, error) : NULL;
  return batch->device != NULL;
}

bool run_batch(const Cli *cli, const Arguments *arguments, unsigned *n_failed, GError **error)
{
  Batch batch = {.arguments = arguments};
  g_autoptr(Source) lines = source_load(argument_value(arguments, "batch"), error);
  bool ok = lines && open_place(&batch, cli, error);
  g_auto(GStrv) list = ok ? g_strsplit(lines->text, "\n", -1) : NULL;
  bool lost = false;
  *n_failed = 0;
  for (size_t i = 0; ok && !lost && list[i]; i++)
    if (*list[i] && !run_line(&batch, list[i], i + 1, &lost)) ++*n_failed;
  forget(&batch);
  device_close(batch.device);
  assembler_free(batch.assembler);
  return ok;
}
