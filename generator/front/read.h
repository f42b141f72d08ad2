/* Between the readers of front/ only: one function for each format. */
#pragma once
#include "generator/front/census.h"

/* JSON or YAML: docs/graph.md. */
Graph *graph_read_text(Source *source, const GraphReading *reading, GError **error);
/* A .onnx file. */
Graph *graph_read_onnx(Source *source, const GraphReading *reading, GError **error);
