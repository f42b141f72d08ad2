/* Which reader a file is for. */
#include "generator/front/read.h"
#include "base/document.h"
#include "base/foreign.h"

Graph *graph_read_with(Source *source, const GraphReading *reading, GError **error)
{
  if (foreign_is_onnx(source->text, source->length)) return graph_read_onnx(source, reading, error);
  if (document_is_foreign(source, 0, error)) return NULL;
  return graph_read_text(source, reading, error);
}

Graph *graph_read(Source *source, const GraphBinding *bindings, unsigned n_bindings, GError **error)
{
  return graph_read_with(source, &(GraphReading){.bindings = bindings, .n_bindings = n_bindings}, error);
}
