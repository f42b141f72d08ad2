/* What an op description says to no effect: mistakes, as a rule. The graph keeps it; its kernels do without.
 */
#include "generator/front/private.h"
#include <limits.h>

static void warn(Graph *graph, const Mark *mark, const char *code, const char *hint, const char *format, ...)
    G_GNUC_PRINTF(5, 6);
static void warn(Graph *graph, const Mark *mark, const char *code, const char *hint, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  error_add(&graph->warnings, ERROR_INPUT, SEVERITY_WARNING, mark, code, hint, "%s", message);
}

/* What a loop's next time needs, where some time is needed: true if that was not known. */
static bool find_next(GraphNode *const *nodes, unsigned n, bool *live)
{
  bool found = false;
  for (unsigned i = 0; i < n; i++) {
    if (nodes[i]->op->id != ONNX_LoopNext || live[i] || !live[nodes[i]->inputs[1]->producer->index]) continue;
    live[i] = found = true;
  }
  return found;
}

static void find_live(GraphNode *const *nodes, unsigned n, bool *live)
{
  for (unsigned i = n; i-- > 0;) {
    const GraphNode *node = nodes[i];
    for (unsigned j = 0; j < node->n_outputs; j++) {
      const GraphTensor *tensor = node->outputs[j];
      if (!tensor) continue;
      live[i] = live[i] || tensor->is_output;
      for (unsigned k = 0; k < tensor->n_consumers && !live[i]; k++)
        live[i] = live[tensor->consumers[k]->index];
    }
  }
}

bool *graph_find_live(GraphNode *const *nodes, unsigned n)
{
  bool *live = g_new0(bool, n + 1);
  do
    find_live(nodes, n, live);
  while (find_next(nodes, n, live));
  return live;
}

static bool is_read(const GraphTensor *tensor, const bool *live)
{
  for (unsigned i = 0; i < tensor->n_consumers; i++)
    if (live[tensor->consumers[i]->index]) return true;
  return false;
}

/* One warning of a dead node whose results nobody reads; who only gives to dead nodes is dead because of
 * them. */
static void check_node(Graph *graph, const GraphNode *node)
{
  bool read = false;
  for (unsigned i = 0; i < node->n_outputs; i++)
    read = read || (node->outputs[i] && node->outputs[i]->n_consumers);
  if (read)
    warn(graph, &node->mark, "unused-node", NULL, "%s is left out: only nodes that are left out read `%s`",
         node->op->name, node->outputs[0]->name);
  else
    warn(graph, &node->mark, "unused-node", "remove it, or name its result under `outputs`",
         "%s is left out: nothing reads `%s`, and it is no output of the graph", node->op->name,
         node->outputs[0]->name);
}

/* A further result that may be absent costs memory and time. (Parts of a Split may not.) */
static void check_results(Graph *graph, const GraphNode *node, const bool *live)
{
  for (unsigned i = MAX(node->op->min_outputs, 1); i < node->n_outputs; i++) {
    const GraphTensor *tensor = node->outputs[i];
    if (!tensor || tensor->is_output || is_read(tensor, live) || node->op->max_outputs == UINT_MAX) continue;
    warn(graph, &tensor->mark, "unused-result", "write \"\" in its place if nothing needs it",
         "nothing reads the result `%s` of %s", tensor->name, node->op->name);
  }
}

static void check_tensors(Graph *graph, GraphTensor *const *tensors, unsigned n, const char *what,
                          const bool *live)
{
  for (unsigned i = 0; i < n; i++) {
    const GraphTensor *tensor = tensors[i];
    if (is_read(tensor, live)) continue;
    if (tensor->n_consumers)
      warn(graph, &tensor->mark, "unused-tensor", NULL, "only nodes that are left out read the %s `%s`", what,
           tensor->name);
    else
      warn(graph, &tensor->mark, "unused-tensor", "remove it, or give its name to the node that needs it",
           "no node reads the %s `%s`", what, tensor->name);
  }
}

void graph_warn_of_unused(Graph *graph)
{
  g_autofree bool *live = graph_find_live(graph->nodes, graph->n_nodes);
  check_tensors(graph, graph->inputs, graph->n_inputs, "input", live);
  check_tensors(graph, graph->constants, graph->n_constants, "constant", live);
  for (unsigned i = 0; i < graph->n_nodes; i++)
    if (live[i])
      check_results(graph, graph->nodes[i], live);
    else
      check_node(graph, graph->nodes[i]);
}
