/* A graph evaluated node by node by the reference: what `run --check` holds kernels against. Knows of neither
 * fusion nor plan. */
#pragma once
#include "generator/graph.h"
#include "reference/errors.h"

/* Tensor with the default data for input `index` of the graph. The graph must be bound: all shapes are
 * numbers. */
Tensor *evaluate_default_input(const Graph *graph, unsigned index, uint64_t seed, GError **error);
/* Tensor of constant `index`: its data, or what its file holds. */
Tensor *evaluate_constant(const Graph *graph, unsigned index, GError **error);
/* Values of the graph's outputs, in their order; free with g_ptr_array_unref. inputs: Tensor *, in the order
 * of graph->inputs, dense. */
GPtrArray *evaluate_graph(const Graph *graph, Tensor *const *inputs, GError **error);
/* The same, and how far right results may be off: *errors (g_ptr_array_unref; NULL on error) has a double *
 * for each output, an error an element, or NULL where the output is exact. Takes several times as long. */
GPtrArray *evaluate_graph_errors(const Graph *graph, Tensor *const *inputs, const ErrorModel *model,
                                 GPtrArray **errors, GError **error);
