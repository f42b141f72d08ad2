/* How large default data are. N(0, 1) everywhere would make products grow with the root of k, layer by layer:
 * a softmax behind them chooses one element, an activation saturates, a bias and a residual vanish, and no
 * comparison would see them wrong. So inputs that multiply are scaled by powers of two, from shapes alone,
 * until what they make is of order 1. docs/data.md has the rule, for others to reproduce it. */
#pragma once
#include "generator/front/graph.h"
#include "reference/tensor.h"

/* Factors of the graph's inputs, as graph->inputs: 1, or 2^-i for some that have default data. inputs: those
 * whose data are given, NULL for the others; constants: all; both are measured. The graph must be bound.
 * g_free.
 */
double *default_data_scales(const Graph *graph, Tensor *const *inputs, Tensor *const *constants);
