/* A bound graph as JSON. */
#pragma once
#include "generator/front/graph.h"
#include <jansson.h>

/* The caller's. Every dimension is bound. */
json_t *bench_graph_json(const Graph *graph);
