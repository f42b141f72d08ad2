/* Which reader a file is for. */
#include "generator/front/read.h"
#include "base/document.h"
#include "base/foreign.h"

Graph *graph_read_counted(Source *source, const GraphBinding *bindings, unsigned n_bindings,
                          GraphCensus *census, GError **error)
{
  if (foreign_is_onnx(source->text, source->length))
    return graph_read_onnx(source, bindings, n_bindings, census, error);
  if (document_is_foreign(source, 0, error)) return NULL;
  return graph_read_text(source, bindings, n_bindings, census, error);
}

Graph *graph_read(Source *source, const GraphBinding *bindings, unsigned n_bindings, GError **error)
{
  return graph_read_counted(source, bindings, n_bindings, NULL, error);
}
