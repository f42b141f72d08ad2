#include "cli/run_data_set.h"
#include <math.h>

#define RTOL 1e-3 /* ONNX's runner */
#define ATOL 1e-7

static bool number_option(const Arguments *arguments, const char *name, double otherwise, double *value,
                          GError **error)
{
  const char *text = argument_value(arguments, name);
  char *end = NULL;
  *value = text ? g_ascii_strtod(text, &end) : otherwise;
  if (!text || (end != text && !*end && *value >= 0)) return true;
  error_set(error, ERROR_USAGE, NULL, "bad-number", NULL, "--%s takes a number, not `%s`", name, text);
  return false;
}

bool run_data_set_of_options(const Arguments *arguments, RunDataSet *set, GError **error)
{
  const char *folder = argument_value(arguments, "data");
  if (!number_option(arguments, "rtol", RTOL, &set->rtol, error) ||
      !number_option(arguments, "atol", ATOL, &set->atol, error))
    return false;
  if (!folder) return true;
  if (*argument_values(arguments, "input")) {
    error_set(error, ERROR_USAGE, NULL, "bad-option", NULL, "--data has all inputs: leave out --input");
    return false;
  }
  set->folder = folder;
  return true;
}

/* A sequence is no tensor in its file either: what the model cannot do is said rather than what is wrong with its data. */
static bool load(RunDataSet *set, Source *model, GError **error)
{
  g_autoptr(GError) wrong = NULL, refusal = NULL;
  set->data = data_set_load(set->folder, &wrong);
  if (set->data) return true;
  g_autoptr(Graph) graph = graph_read(model, NULL, 0, &refusal);
  bool refused = !graph && error_exit_code(refusal) == ERROR_UNSUPPORTED;
  g_propagate_error(error, refused ? g_steal_pointer(&refusal) : g_steal_pointer(&wrong));
  return false;
}

bool run_data_set_load(RunDataSet *set, Source *model, GError **error)
{
  if (!set->folder) return true;
  if (!load(set, model, error)) return false;
  set->offers = data_set_offers(set->data);
  set->n_offers = set->data->inputs->len;
  return true;
}

void run_data_set_clear(RunDataSet *set)
{
  g_clear_pointer(&set->data, data_set_free);
  g_clear_pointer(&set->offers, g_free);
}

void run_data_set_compare(RunDataSet *set, const RunData *data, Arena *arena)
{
  set->n_comparisons = data->graph->n_outputs;
  set->comparisons = arena_new_array(arena, DataSetComparison, set->n_comparisons);
  for (unsigned i = 0; i < set->n_comparisons; i++)
    set->comparisons[i] =
        data_set_compare(data->outputs[i], set->data->outputs->pdata[i], set->rtol, set->atol);
}

bool run_data_set_passes(const RunDataSet *set)
{
  for (unsigned i = 0; i < set->n_comparisons; i++)
    if (!set->comparisons[i].ok) return false;
  return true;
}

static void print_reason(const RunDataSet *set, const GraphTensor *output, unsigned i)
{
  const DataSetComparison *c = &set->comparisons[i];
  const Tensor *wanted = set->data->outputs->pdata[i];
  if (c->other) {
    printf("%s: of another %s than output_%u.pb, %s[", output->name, c->other, i, number_name(wanted->type));
    for (unsigned d = 0; d < wanted->rank; d++)
      printf("%s%" G_GINT64_FORMAT, d ? ", " : "", wanted->shape[d]);
    puts("]");
  } else if (!c->ok) {
    printf("%s: %zu of %zu elements are off; element %zu is %.9g, wanted %.9g\n", output->name, c->n_wrong,
           wanted->n, c->worst, c->out, c->wanted);
  }
}

void run_data_set_print(const RunDataSet *set, const Cli *cli, const Graph *graph)
{
  if (!set->comparisons) return;
  static const char *const headers[] = {"output", "type", ">error", ">max abs", "as in the data", NULL};
  g_autoptr(Table) table = table_new(headers);
  for (unsigned i = 0; i < set->n_comparisons; i++) {
    const DataSetComparison *c = &set->comparisons[i];
    g_autofree char *abs = c->other ? g_strdup("") : g_strdup_printf("%.2e", c->max_abs);
    g_autofree char *error = c->other ? g_strdup("") : g_strdup_printf("%.2e", c->error);
    table_row(table, graph->outputs[i]->name, number_name(graph->outputs[i]->type), error, abs,
              c->ok ? "ok" : "WRONG", NULL);
  }
  table_print(table, cli);
  for (unsigned i = 0; i < set->n_comparisons; i++)
    print_reason(set, graph->outputs[i], i);
}

json_t *run_data_set_json(const RunDataSet *set, const Graph *graph)
{
  json_t *list = json_array();
  for (unsigned i = 0; i < set->n_comparisons; i++) {
    const DataSetComparison *c = &set->comparisons[i];
    json_array_append_new(list, json_pack("{s:s, s:b, s:s?, s:I, s:f, s:o}", "name", graph->outputs[i]->name,
                                          "ok", c->ok, "other", c->other, "wrong_elements",
                                          (json_int_t)c->n_wrong, "max_abs", c->max_abs, "error",
                                          isfinite(c->error) ? json_real(c->error) : json_null()));
  }
  return list;
}
