#include "cli/run_batch.h"
#include "catalog/cases.h"
#include "cli/assembler_option.h"
#include "cli/run_batch_line.h"
#include "execute/data.h"
#include "execute/execute.h"
#include "execute/report.h"
#include "generator/choose/choose.h"
#include <math.h>
#include <string.h>

typedef struct Batch {
  const Arguments *arguments;
  bool colour;          /* on standard error */
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
  BatchLine line;
  Arena *arena;
  Source *source; /* of the graph, with this line's places */
  json_t *result;
  bool lost;
} Item;

/* ---- compiling ---- */

static void forget(Batch *batch)
{
  g_clear_pointer(&batch->compiled, compile_result_free);
  g_clear_pointer(&batch->plain, graph_free);
  g_clear_pointer(&batch->gpu, gpu_free);
  g_clear_pointer(&batch->source, source_unref);
  g_clear_pointer(&batch->key, g_free);
}

/* Texts of `set`, each checked at its place. */
static GStrv sets_of(const BatchLine *line, GError **error)
{
  unsigned n = line->set ? line->set->n : 0;
  g_auto(GStrv) sets = g_new0(char *, n + 1);
  for (unsigned i = 0; i < n; i++) {
    sets[i] = g_strdup(line->set->items[i]->text);
    if (choose_check_sets(&(CompileOptions){.sets = (const char *const *)sets}, error)) continue;
    batch_line_place(line, line->set->items[i], error);
    return NULL;
  }
  return g_steal_pointer(&sets);
}

static bool compile_new(Batch *batch, const BatchLine *line, GError **error)
{
  g_auto(GStrv) sets = sets_of(line, error);
  if (!sets) return false;
  const CompileOptions options = {.sets = (const char *const *)sets,
                                  .drop_ir = true,
                                  .accumulate = line->accumulate,
                                  .sm_budget = line->sms};
  batch->source = batch_line_graph(line, error);
  if (!batch->source) return false;
  batch->plain = graph_read(batch->source, line->bindings, line->n_constants, error);
  if (!batch->plain) return batch_line_place(line, line->dims, error);
  batch->gpu = gpu_load(line->gpu, error);
  if (!batch->gpu) return batch_line_place(line, node_get(line->words, "gpu"), error);
  batch->compiled = generator_compile(batch->plain, batch->gpu, &options, error);
  return batch->compiled || batch_line_place(line, node_get(line->words, "sms"), error);
}

/* Lines with the same key share what is compiled; the graph of each has the places of its own line. */
static bool compile(Batch *batch, Item *item, GError **error)
{
  g_autofree char *key = batch_line_key(&item->line);
  if (!batch->compiled || strcmp(key, batch->key) != 0) {
    forget(batch);
    batch->key = g_steal_pointer(&key);
    if (!compile_new(batch, &item->line, error)) return false;
  }
  bool inside = item->line.graph->kind == NODE_MAPPING;
  item->source = inside ? batch_line_graph(&item->line, error) : source_ref(batch->source);
  return item->source != NULL;
}

/* ---- running ---- */

static bool apply_offset(const Item *item, const Node *node, Execution *x, GError **error)
{
  g_autofree char *name = NULL, *value = NULL;
  if (!argument_split("offset", node->text, &name, &value, error))
    return batch_line_place(&item->line, node, error);
  ExecutionTensor *tensor = execution_tensor(x, name);
  if (tensor && tensor->data) {
    tensor->skew = (unsigned)(g_ascii_strtoull(value, NULL, 10) % 4097);
    return true;
  }
  error_set(error, ERROR_INPUT, &node->mark, "unknown-tensor", NULL, "the graph has no tensor `%s` in memory",
            name);
  return false;
}

static bool apply_offsets(const Item *item, Execution *x, GError **error)
{
  const Node *list = item->line.offset;
  for (unsigned i = 0; i < x->plan->n_tensors; i++)
    if (x->plan->tensors[i]->kind != PLAN_WORKSPACE)
      x->tensors[i].skew = catalog_tensor_skew(x->plan->tensors[i], item->line.skew);
  for (unsigned i = 0; list && i < list->n; i++)
    if (!apply_offset(item, list->items[i], x, error)) return false;
  return true;
}

static bool apply_sharing(const Item *item, Execution *x, GError **error)
{
  const Node *list = item->line.in_place;
  for (unsigned i = 0; list && i < list->n; i++) {
    g_autofree char *output = NULL, *input = NULL;
    if (!argument_split("in-place", list->items[i]->text, &output, &input, error) ||
        !execution_share(x, output, input, error))
      return batch_line_place(&item->line, list->items[i], error);
  }
  return true;
}

static bool carry_out(Batch *batch, Item *item, Execution *x, const RunData *data, ExecutionFaults *faults,
                      GError **error)
{
  if (batch->device) {
    if (execution_run(x, batch->device, batch->assembler, faults, error)) return true;
    item->lost = !device_wait(batch->device, NULL);
    return false;
  }
  SimOptions options;
  sim_options_default(&options);
  options.strict = true; /* these are our own kernels */
  if (item->line.checkers && !sim_options_checkers(&options, item->line.checkers, error))
    return batch_line_place(&item->line, node_get(item->line.words, "checkers"), error);
  if (options.checkers >> SIM_FAULT_OPERAND & 1) run_data_check_lists(data, faults);
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

/* The graph with this line's dimensions, ready to run. */
static Execution *prepare(Batch *batch, Item *item, Graph **graph, GError **error)
{
  const BatchLine *line = &item->line;
  *graph = graph_read(item->source, line->bindings, line->n_bindings, error);
  g_autoptr(Execution) x =
      *graph ? execution_new(batch->compiled, batch->gpu, line->bindings, line->n_bindings, error) : NULL;
  cli_add_warnings(item->result, *graph ? (*graph)->warnings : NULL);
  if (!x) batch_line_place(line, line->dims, error);
  return x && apply_offsets(item, x, error) && apply_sharing(item, x, error) ? g_steal_pointer(&x) : NULL;
}

static bool run_item(Batch *batch, Item *item, GError **error)
{
  if (!compile(batch, item, error)) return false;
  g_autoptr(Graph) graph = NULL;
  g_autoptr(Execution) x = prepare(batch, item, &graph, error);
  if (!x) return false;
  g_autoptr(RunData) data = run_data_new(graph, NULL, item->line.seed, error);
  if (!data || !run_data_put_inputs(data, batch->plain, x, error)) return false;
  g_autoptr(ExecutionFaults) faults = execution_faults_new();
  if (!carry_out(batch, item, x, data, faults, error)) return false;
  bool ok = faults->n_errors == 0;
  json_object_set(item->result, "faults", faults->list);
  if (ok) {
    const RunCheck check = {.fast = item->line.accumulate == ACCUMULATE_FAST,
                            .tolerance = INFINITY,
                            .admit_wide =
                                item->line.admit_wide || argument_flag(batch->arguments, "admit-wide")};
    const RunComparison *comparisons =
        run_data_take_outputs(data, x, error) ? run_data_check(data, &check, item->arena, error) : NULL;
    if (!comparisons) return false;
    json_object_set_new(item->result, "outputs", outputs_json(graph, comparisons, &ok));
  }
  json_object_set_new(item->result, "ok", json_boolean(ok));
  return true;
}

/* What a line ended with: its places in JSON, and for people what is wrong in it as well. */
static void tell(const Batch *batch, json_t *result, const GError *error)
{
  json_t *whole = error_to_json(error), *warnings = json_object_get(result, "errors");
  json_t *errors = warnings ? json_incref(warnings) : json_array();
  json_array_extend(errors, json_object_get(whole, "errors"));
  json_object_set_new(result, "ok", json_false());
  json_object_set_new(result, "exit", json_integer(error_exit_code(error)));
  json_object_set_new(result, "message", json_string(error->message));
  json_object_set_new(result, "errors", errors);
  json_decref(whole);
  bool wrong = error_exit_code(error) == ERROR_INPUT || error_exit_code(error) == ERROR_USAGE;
  if (wrong) error_print(error, stderr, batch->colour);
}

static bool run_line(Batch *batch, const Source *file, const char *text, unsigned number, bool *lost)
{
  Item item = {.arena = arena_new()};
  g_autoptr(GError) error = NULL;
  bool read = batch_line_read(&item.line, file, text, number, &error);
  item.result = json_pack("{s:I, s:s?}", "line", (json_int_t)number, "label", item.line.label);
  if (!read || !run_item(batch, &item, &error)) tell(batch, item.result, error);
  if (item.lost) json_object_set_new(item.result, "context", json_string("lost"));
  bool ok = json_is_true(json_object_get(item.result, "ok"));
  char *line = json_dumps(item.result, JSON_COMPACT);
  puts(line ? line : "{}");
  fflush(stdout);
  free(line);
  *lost = item.lost;
  json_decref(item.result);
  batch_line_clear(&item.line);
  source_unref(item.source);
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
  Batch batch = {.arguments = arguments, .colour = cli->error_colour};
  g_autoptr(Source) lines = source_load(argument_value(arguments, "batch"), error);
  bool ok = lines && open_place(&batch, cli, error);
  g_auto(GStrv) list = ok ? g_strsplit(lines->text, "\n", -1) : NULL;
  bool lost = false;
  *n_failed = 0;
  for (size_t i = 0; ok && !lost && list[i]; i++)
    if (*list[i] && !run_line(&batch, lines, list[i], (unsigned)i + 1, &lost)) ++*n_failed;
  forget(&batch);
  device_close(batch.device);
  assembler_free(batch.assembler);
  return ok;
}
