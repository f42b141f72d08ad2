/* Between the readers of front/ only: one function for each format. census may be NULL. */
#pragma once
#include "generator/front/census.h"

/* JSON or YAML: docs/graph.md. */
Graph *graph_read_text(Source *source, const GraphBinding *bindings, unsigned n_bindings, GraphCensus *census,
                       GError **error);
/* A .onnx file. */
Graph *graph_read_onnx(Source *source, const GraphBinding *bindings, unsigned n_bindings, GraphCensus *census,
                       GError **error);
