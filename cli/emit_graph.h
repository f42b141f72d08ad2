/* A graph as an op description, as it stands after reading: shapes evaluated, functions expanded, nodes in order. */
#pragma once
#include "base/output.h"
#include "generator/front/graph.h"

#define GRAPH_FILE "graph.json"

/* Writes GRAPH_FILE and, where constants are not short, CONSTANTS_FILE (constants.h) beside it. What is read back gives the same
 * kernels and plan. */
bool emit_graph(const Graph *graph, Output *output, GError **error);
/* The same as model.onnx, long constants in model.data. ERROR_UNSUPPORTED "onnx", "loop", "symbol" for what a model cannot say. */
bool emit_onnx(const Graph *graph, Output *output, GError **error);

/* Is the attribute written? What is not holds the default. */
bool emit_has_attribute(const GraphNode *node, unsigned attribute);

/* ERROR_UNSUPPORTED "loop", with `which WHY`, where the graph has one. */
bool emit_without_loops(const Graph *graph, const char *why, GError **error);
