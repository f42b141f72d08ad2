/* Reads an op description and prints what the front of the generator makes of it:
 *
 *   graph_tool check|graph|fusion|evaluate|verify FILE [M=4096]...
 *
 * check prints nothing but errors. fusion groups the nodes. evaluate prints what the reference makes of the
 * default data: per output the sum, the sum of squares and the first elements. verify carries out the fused
 * operators and compares them with the reference. */
#include "cli/evaluate.h"
#include "generator/fusion.h"
#include "tests/tools/interpret.h"
#include <math.h>
#include <string.h>

static void print_value(const char *name, const Value *value)
{
  double sum = 0, squares = 0;
  for (size_t i = 0; i < value->n; i++) {
    double x = value->floats ? value->floats[i] : (double)value->integers[i];
    sum += x;
    squares += x * x;
  }
  printf("%s: %s", name, number_name(value->type));
  for (unsigned i = 0; i < value->rank; i++)
    printf("%s%" G_GINT64_FORMAT, i ? " x " : " ", value->shape[i]);
  /* Sums that cancel out are 0 up to rounding. */
  if (fabs(sum) < 1e-9 * (double)value->n) sum = 0;
  printf(" sum %.6g squares %.6g first", sum, squares);
  for (size_t i = 0; i < value->n && i < 4; i++)
    printf(" %.6g", value->floats ? value->floats[i] : (double)value->integers[i]);
  printf("\n");
}

static int evaluate(const Graph *graph, GError **error)
{
  g_autoptr(GPtrArray) inputs = g_ptr_array_new_with_free_func((GDestroyNotify)tensor_free);
  for (unsigned i = 0; i < graph->n_inputs; i++) {
    Tensor *tensor = evaluate_default_input(graph, i, 0, error);
    if (!tensor) return 1;
    g_ptr_array_add(inputs, tensor);
  }
  g_autoptr(GPtrArray) outputs = evaluate_graph(graph, (Tensor *const *)inputs->pdata, error);
  if (!outputs) return 1;
  for (unsigned i = 0; i < outputs->len; i++)
    print_value(graph->outputs[i]->name, outputs->pdata[i]);
  return 0;
}

static int verify(const Fusion *fusion, GError **error)
{
  double difference;
  if (!interpret_fusion(fusion, 0, &difference, error)) return 1;
  if (difference < 1e-9) return 0;
  error_set(error, ERROR_VERIFY, NULL, "fusion", NULL, "the fused operators differ from the graph by %.3g",
            difference);
  return 1;
}

static int run(const char *command, const char *path, char **bindings_text, int n, GError **error)
{
  g_autoptr(Arena) arena = arena_new();
  g_autofree GraphBinding *bindings = g_new0(GraphBinding, n + 1);
  for (int i = 0; i < n; i++)
    if (!graph_binding_parse(arena, bindings_text[i], &bindings[i], error)) return 1;
  g_autoptr(Source) source = source_load(path, error);
  if (!source) return 1;
  g_autoptr(Graph) graph = graph_read(source, bindings, (unsigned)n, error);
  if (!graph) return 1;
  if (!strcmp(command, "graph")) {
    g_autofree char *text = graph_dump(graph);
    fputs(text, stdout);
    return 0;
  }
  if (!strcmp(command, "evaluate")) return evaluate(graph, error);
  g_autoptr(Fusion) fusion = fusion_build(graph, NULL, error);
  if (!fusion) return 1;
  if (!strcmp(command, "check")) return 0;
  if (!strcmp(command, "verify")) return verify(fusion, error);
  g_autofree char *text = fusion_dump(fusion);
  fputs(text, stdout);
  return 0;
}

int main(int argc, char **argv)
{
  g_autoptr(GError) error = NULL;
  if (argc < 3) return ERROR_USAGE;
  if (!run(argv[1], argv[2], argv + 3, argc - 3, &error)) return 0;
  error_print(error, stderr, false);
  return error_exit_code(error);
}
