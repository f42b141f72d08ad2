/* Any text as an op description, and as a plan: refused with a message or accepted, never more than that. */
#include "generator/front/cut.h"
#include "generator/fusion/fusion.h"
#include "plan/plan.h"
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_plan(Source *source)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Plan) plan = plan_read(source, &error);
  g_assert(!plan == (error != NULL));
  if (plan) g_free(plan_text(plan));
}

static void fuse(const Graph *graph)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Fusion) fusion = fusion_build(graph, NULL, &error);
  g_assert(!fusion == (error != NULL));
  if (fusion) g_free(fusion_dump(fusion));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  g_autoptr(Source) source = source_new("fuzz", (const char *)data, size);
  g_autoptr(GError) error = NULL;
  try_plan(source);
  g_autoptr(Graph) graph = graph_read(source, NULL, 0, &error);
  g_assert(!graph == (error != NULL));
  if (!graph) {
    g_free(error_to_text(error, false));
    return 0;
  }
  g_free(graph_dump(graph));
  if (!graph_has_loops(graph)) {
    fuse(graph);
    return 0;
  }
  g_autoptr(GPtrArray) parts = graph_cut(graph);
  for (unsigned i = 0; i < parts->len; i++)
    fuse(((const GraphPart *)parts->pdata[i])->graph);
  return 0;
}
