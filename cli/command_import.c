#include "cli/cli.h"
#include "cli/constants.h"
#include "cli/emit_graph.h"
#include "generator/front/census.h"
#include <string.h>

static void print_census(const Cli *cli, const GraphCensus *census)
{
  g_autoptr(Table) table = table_new((const char *[]){"operator", "domain", ">nodes", "adlgen has it", NULL});
  g_autoptr(GPtrArray) rows = graph_census_sorted(census);
  unsigned nodes = 0, supported = 0;
  for (unsigned i = 0; i < rows->len; i++) {
    const GraphCensusRow *row = rows->pdata[i];
    g_autofree char *count = g_strdup_printf("%u", row->nodes);
    table_row(table, row->op, *row->domain ? row->domain : "ai.onnx", count, row->supported ? "yes" : "no",
              NULL);
    nodes += row->nodes;
    supported += row->supported ? row->nodes : 0;
  }
  if (rows->len) table_print(table, cli);
  printf("%s%u of %u nodes are of operators that adlgen has\n", rows->len ? "\n" : "", supported, nodes);
}

static json_t *census_json(const GraphCensus *census)
{
  json_t *list = json_array();
  g_autoptr(GPtrArray) rows = graph_census_sorted(census);
  for (unsigned i = 0; i < rows->len; i++) {
    const GraphCensusRow *row = rows->pdata[i];
    json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:b}", "op", row->op, "domain", row->domain,
                                          "nodes", (int)row->nodes, "supported", row->supported));
  }
  return list;
}

/* A graph that is refused has a report all the same, and what is wrong with it, in whose place the exit code stands. */
static void print_report(const Cli *cli, const Graph *graph, const GraphCensus *census, const GError *fault)
{
  if (fault) *cli->exit_code = error_exit_code(fault);
  if (!cli->json) {
    print_census(cli, census);
    fflush(stdout); /* the faults stand below */
    if (fault) cli_print_error(cli, fault);
    return;
  }
  json_t *object =
      json_pack("{s:i, s:b, s:o}", "version", 1, "readable", graph != NULL, "operators", census_json(census));
  cli_add_warnings(object, fault ? fault : graph->warnings);
  cli_print_json(object);
}

static bool write_graph(const Cli *cli, const Graph *graph, const char *kind, const char *folder,
                        GError **error)
{
  g_autoptr(Output) output = output_new(folder, error);
  bool onnx = !strcmp(kind, "onnx");
  if (!output || !(onnx ? emit_onnx : emit_graph)(graph, output, error) || !output_commit(output, error))
    return false;
  if (cli->json) {
    json_t *object = json_pack("{s:i, s:b, s:s}", "version", 1, "readable", true, "folder", folder);
    cli_add_warnings(object, graph->warnings);
    cli_print_json(object);
    return true;
  }
  cli_warn(cli, graph->warnings);
  return true;
}

static bool check_passes(const char *const *names, GError **error)
{
  const char *known[GRAPH_PASS_COUNT + 2] = {NULL}; /* and `all` */
  for (unsigned i = 0; i < GRAPH_PASS_COUNT; i++)
    known[i] = graph_passes[i].name;
  known[GRAPH_PASS_COUNT] = "all";
  for (; *names; names++) {
    if (g_strv_contains(known, *names)) continue;
    g_autofree char *list = g_strjoinv(", ", (char **)known),
                    *hint = g_strdup_printf("one of: %s; others are passes of compile", list);
    error_set(error, ERROR_USAGE, NULL, "unknown-pass", hint, "--print-after: reading a graph has no pass %s",
              *names);
    return false;
  }
  return true;
}

static bool check_emission(const Arguments *arguments, GError **error)
{
  static const char *const others[] = {"report", "emit"};
  for (unsigned i = 0; i < G_N_ELEMENTS(others); i++)
    if (argument_flag(arguments, "print-after") && argument_flag(arguments, others[i])) {
      error_set(error, ERROR_USAGE, NULL, "option", NULL, "--print-after and --%s exclude each other",
                others[i]);
      return false;
    }
  bool emits = argument_value(arguments, "emit") != NULL, out = argument_value(arguments, "out") != NULL;
  if (emits == out) return true;
  error_set(error, ERROR_USAGE, NULL, "option", NULL, "%s",
            emits ? "--emit needs a folder: --out DIR" : "--out is the folder of --emit");
  return false;
}

/* What --print-after asks for. */
typedef struct Printed {
  const char *const *passes;
  GString *text;
} Printed;

/* A reading that begins anew forgets what it gave. */
static void print_pass(unsigned pass, const Graph *graph, void *data)
{
  Printed *printed = data;
  if (pass == GRAPH_PASS_READ) g_string_truncate(printed->text, 0);
  if (!g_strv_contains(printed->passes, "all") && !g_strv_contains(printed->passes, graph_passes[pass].name))
    return;
  g_autofree char *text = graph_dump(graph);
  g_string_append_printf(printed->text, "; after %s: %s\n%s", graph_passes[pass].name,
                         graph_passes[pass].does, text);
}

static void print_graph(const Cli *cli, const Graph *graph, const char *text)
{
  if (cli->json) {
    json_t *object = json_pack("{s:i, s:b, s:s}", "version", 1, "readable", true, "graph", text);
    cli_add_warnings(object, graph->warnings);
    cli_print_json(object);
    return;
  }
  fputs(text, stdout);
  cli_warn(cli, graph->warnings);
}

bool command_import(const Cli *cli, const Arguments *arguments, GError **error)
{
  g_autoptr(Arena) arena = arena_new();
  const char *const *dims = argument_values(arguments, "dim");
  unsigned n = g_strv_length((char **)dims);
  GraphBinding *bindings = arena_new_array(arena, GraphBinding, n);
  for (unsigned i = 0; i < n; i++)
    if (!graph_binding_parse(arena, dims[i], &bindings[i], error)) return false;
  if (!check_passes(argument_values(arguments, "print-after"), error) || !check_emission(arguments, error))
    return false;
  g_autoptr(Source) source = source_load(argument_at(arguments, 0), error);
  if (!source) return false;
  g_autoptr(GraphCensus) census = graph_census_new();
  g_autoptr(GError) fault = NULL;
  g_autoptr(GString) passes = g_string_new(NULL);
  Printed printed = {argument_values(arguments, "print-after"), passes};
  const GraphReading reading = {.bindings = bindings,
                                .n_bindings = n,
                                .census = census,
                                .report = *printed.passes ? print_pass : NULL,
                                .data = &printed};
  g_autoptr(Graph) graph = graph_read_with(source, &reading, &fault);
  if (argument_flag(arguments, "report")) {
    print_report(cli, graph, census, fault);
    return true;
  }
  if (!graph) {
    if (!cli->json) fputs(passes->str, stdout);
    fflush(stdout); /* the faults stand below */
    g_propagate_error(error, g_steal_pointer(&fault));
    return false;
  }
  const char *folder = argument_value(arguments, "out");
  if (folder) return write_graph(cli, graph, argument_value(arguments, "emit"), folder, error);
  g_autofree char *text = *printed.passes ? NULL : graph_dump(graph);
  print_graph(cli, graph, text ? text : passes->str);
  return true;
}
