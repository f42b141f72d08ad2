/* Which reader a file is for. */
#include "generator/front/read.h"
#include "base/document.h"
#include "base/foreign.h"

#define MAX_READINGS 64 /* each but the last takes more for granted */

static Graph *read_once(Source *source, const GraphReading *reading, GError **error)
{
  if (foreign_is_onnx(source->text, source->length)) return graph_read_onnx(source, reading, error);
  if (document_is_foreign(source, 0, error)) return NULL;
  return graph_read_text(source, reading, error);
}

/* Again, as long as a reading finds what is taken for granted of symbols. */
Graph *graph_read_with(Source *source, const GraphReading *reading, GError **error)
{
  g_autoptr(Assumptions) assumptions = assumptions_new();
  GraphReading again = *reading;
  again.assumptions = assumptions;
  for (unsigned i = 1;; i++) {
    GError *local = NULL;
    unsigned known = assumptions->known = assumptions->list->len;
    Graph *graph = read_once(source, &again, &local);
    if (assumptions->list->len == known || i == MAX_READINGS) {
      if (local) g_propagate_error(error, local);
      return graph;
    }
    g_clear_error(&local);
    graph_free(graph);
    again.census = NULL; /* the nodes are counted */
  }
}

Graph *graph_read(Source *source, const GraphBinding *bindings, unsigned n_bindings, GError **error)
{
  return graph_read_with(source, &(GraphReading){.bindings = bindings, .n_bindings = n_bindings}, error);
}
