/* Reads an op description and prints what the front of the generator makes of it:
 *
 *   graph_tool check|graph|fusion FILE [M=4096]...
 *
 * check prints nothing but errors. fusion also groups the nodes. */
#include "generator/fusion.h"
#include <string.h>

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
  g_autoptr(Fusion) fusion = fusion_build(graph, NULL, error);
  if (!fusion) return 1;
  if (!strcmp(command, "check")) return 0;
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
