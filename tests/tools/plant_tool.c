/* Would `run --check` notice? Reads a JSON object a line:
 *
 *   {"label", "graph", "dims": {"M": 3}, "faults": [{"name", "graph"}]}
 *
 * and prints one a fault: what a right kernel of the fault's graph gives (the reference, rounded) is checked as if
 * it came from a kernel of the first graph, of the same inputs. Two more faults of each are planted in results
 * themselves: the last row (of short ones several), and a tile, off by as much as a check must notice. `difference` is by how much of a result
 * the fault changes it, of all or of the part that it is planted in; integers: the part that differs. */
#include "execute/data.h"
#include "execute/report.h"
#include <math.h>
#include <string.h>

#define TILE 16

typedef struct Case {
  json_t *words;
  Arena *arena;
  GraphBinding *bindings;
  unsigned n_bindings;
  Source *source;
  Graph *graph;
  RunData *data;  /* its outputs are those of the fault */
  Tensor **good;  /* as graph->outputs */
  double *widest; /* as graph->outputs: limits of the good results */
} Case;

static Source *source_of(const json_t *graph)
{
  char *text = json_dumps(graph, JSON_INDENT(1));
  Source *source = source_new("<graph>", text, strlen(text));
  free(text);
  return source;
}

static void read_dims(Case *c)
{
  json_t *dims = json_object_get(c->words, "dims"), *value;
  const char *name;
  c->bindings = arena_new_array(c->arena, GraphBinding, json_object_size(dims) + 1);
  json_object_foreach(dims, name, value) c->bindings[c->n_bindings++] =
      (GraphBinding){arena_strdup(c->arena, name), json_integer_value(value)};
}

/* The graph's results of the case's inputs, by name, as its types hold them. */
static bool evaluate(const Case *c, const Graph *graph, Tensor **outputs, GError **error)
{
  g_autofree Tensor **inputs = g_new0(Tensor *, graph->n_inputs + 1);
  for (unsigned i = 0; i < graph->n_inputs; i++)
    for (unsigned j = 0; j < c->graph->n_inputs; j++)
      if (!strcmp(graph->inputs[i]->name, c->graph->inputs[j]->name)) inputs[i] = c->data->inputs[j];
  g_autoptr(GPtrArray) values = evaluate_graph(graph, inputs, error);
  for (unsigned i = 0; values && i < graph->n_outputs; i++)
    if (!(outputs[i] = value_to_tensor(values->pdata[i], graph->outputs[i]->name, error))) return false;
  return values != NULL;
}

static double element(const Tensor *tensor, size_t i)
{
  return number_to_double(tensor->type, tensor->data + i * number_bytes(tensor->type));
}

static double difference(const Tensor *good, const Tensor *wrong)
{
  double sum = 0, norm = 0;
  bool floats = number_class(good->type) == NUMBER_FLOAT;
  for (size_t i = 0; i < good->n; i++) {
    double x = element(good, i), y = element(wrong, i);
    if (!isfinite(x) || !isfinite(y)) continue;
    sum += floats ? (x - y) * (x - y) : x != y;
    norm += floats ? x * x : 1;
  }
  return norm > 0 ? sqrt(sum / norm) : sqrt(sum);
}

static bool report(Case *c, const char *fault, const double *planted, GError **error)
{
  const RunCheck check = {.tolerance = INFINITY};
  const RunComparison *comparisons = run_data_check(c->data, &check, c->arena, error);
  bool passes = true;
  json_t *outputs = json_array();
  for (unsigned i = 0; comparisons && i < c->graph->n_outputs; i++) {
    double off = planted ? planted[i] : difference(c->good[i], c->data->outputs[i]);
    passes = passes && run_comparison_passes(&comparisons[i]);
    if (!c->widest[i]) c->widest[i] = comparisons[i].whole.widest;
    json_t *output = run_comparison_json(c->graph->outputs[i], &comparisons[i]);
    json_object_set_new(output, "type", json_string(number_name(c->graph->outputs[i]->type)));
    json_object_set_new(output, "difference", isfinite(off) ? json_real(off) : json_null());
    json_array_append_new(outputs, output);
  }
  json_t *line = json_pack("{s:O, s:s, s:b, s:o}", "label", json_object_get(c->words, "label"), "fault",
                           fault, "passes", passes, "outputs", outputs);
  char *text = json_dumps(line, JSON_COMPACT);
  puts(text);
  free(text);
  json_decref(line);
  return comparisons != NULL;
}

static void take_good(const Case *c)
{
  for (unsigned i = 0; i < c->graph->n_outputs; i++)
    memcpy(c->data->outputs[i]->data, c->good[i]->data, c->good[i]->bytes);
}

/* ---- faults in the results ---- */

/* Multiplies elements of the last `rows` rows from column `first` on; by how much that changes them. */
static double scale_part(Tensor *tensor, size_t rows, size_t columns, double factor)
{
  size_t row = tensor->rank ? (size_t)tensor->shape[tensor->rank - 1] : 1, changed = 0;
  size_t all = row ? tensor->n / row : 0;
  double sum = 0, norm = 0;
  for (size_t r = all - MIN(all, rows); r < all; r++)
    for (size_t k = row - MIN(row, columns); k < row; k++, changed++) {
      uint8_t *at = tensor->data + (r * row + k) * number_bytes(tensor->type);
      double x = number_to_double(tensor->type, at);
      number_from_double(tensor->type, factor * x, true, at);
      double y = number_to_double(tensor->type, at);
      if (!isfinite(x)) continue;
      sum += (x - y) * (x - y);
      norm += x * x;
    }
  return norm > 0 ? sqrt(sum / norm) : 0;
}

static bool plant_in_results(Case *c, bool tile, GError **error)
{
  g_autofree double *off = g_new0(double, c->graph->n_outputs + 1);
  take_good(c);
  for (unsigned i = 0; i < c->graph->n_outputs; i++) {
    Tensor *out = c->data->outputs[i];
    if (number_class(out->type) != NUMBER_FLOAT) continue;
    size_t row = out->rank ? (size_t)out->shape[out->rank - 1] : 1, rows = row ? (TILE + row - 1) / row : 1;
    off[i] = scale_part(out, tile ? TILE : rows, tile ? TILE : SIZE_MAX, 1 + c->widest[i]);
  }
  return report(c, tile ? "tile" : "row", off, error);
}

/* ---- faults in the graph ---- */

static bool plant_graph(Case *c, const json_t *fault, GError **error)
{
  g_autofree Tensor **wrong = g_new0(Tensor *, c->graph->n_outputs + 1);
  Source *source = source_of(json_object_get(fault, "graph"));
  g_autoptr(Graph) graph = graph_read(source, c->bindings, c->n_bindings, error);
  bool ok = graph && evaluate(c, graph, wrong, error);
  for (unsigned i = 0; ok && i < c->graph->n_outputs; i++)
    if (wrong[i]->bytes != c->good[i]->bytes) {
      error_set(error, ERROR_INPUT, NULL, "shape", NULL, "the fault has other shapes");
      ok = false;
    } else {
      memcpy(c->data->outputs[i]->data, wrong[i]->data, wrong[i]->bytes);
    }
  for (unsigned i = 0; i < c->graph->n_outputs; i++)
    tensor_free(wrong[i]);
  source_unref(source);
  return ok && report(c, json_string_value(json_object_get(fault, "name")), NULL, error);
}

static bool prepare(Case *c, GError **error)
{
  read_dims(c);
  c->source = source_of(json_object_get(c->words, "graph"));
  c->graph = graph_read(c->source, c->bindings, c->n_bindings, error);
  c->data = c->graph ? run_data_new(c->graph, NULL, 0, error) : NULL;
  if (!c->data) return false;
  c->good = arena_new_array(c->arena, Tensor *, c->graph->n_outputs + 1);
  c->widest = arena_new_array(c->arena, double, c->graph->n_outputs + 1);
  return evaluate(c, c->graph, c->good, error) && evaluate(c, c->graph, c->data->outputs, error);
}

static bool run_case(json_t *words)
{
  Case c = {.words = words, .arena = arena_new()};
  g_autoptr(GError) error = NULL;
  size_t i;
  json_t *fault;
  bool ok = prepare(&c, &error) && report(&c, "none", NULL, &error) && plant_in_results(&c, false, &error) &&
            plant_in_results(&c, true, &error);
  json_array_foreach(json_object_get(words, "faults"), i, fault)
  {
    if (!ok || plant_graph(&c, fault, &error)) continue;
    fprintf(stderr, "%s, %s:\n", json_string_value(json_object_get(words, "label")),
            json_string_value(json_object_get(fault, "name")));
    ok = false;
  }
  if (error) fprintf(stderr, "%s: %s\n", json_string_value(json_object_get(words, "label")), error->message);
  for (unsigned k = 0; c.good && k < c.graph->n_outputs; k++)
    tensor_free(c.good[k]);
  run_data_free(c.data);
  graph_free(c.graph);
  source_unref(c.source);
  arena_free(c.arena);
  return ok;
}

int main(void)
{
  g_autoptr(GString) line = g_string_new(NULL);
  int c, failed = 0;
  while ((c = getchar()) != EOF) {
    if (c != '\n') {
      g_string_append_c(line, (char)c);
      continue;
    }
    json_t *words = json_loads(line->str, 0, NULL);
    if (!words || !run_case(words)) failed = 1;
    json_decref(words);
    g_string_truncate(line, 0);
  }
  return failed;
}
