/* AttentionGradPart: its inputs, and what it gives. Its third output, of `keys`, is what changes with products, [batch, heads, keys, rows]. */
#pragma once
#include "generator/front/graph.h"
#include <string.h>

enum {
  GRADIENT_GRAD,
  GRADIENT_Q,
  GRADIENT_K,
  GRADIENT_V,
  GRADIENT_SUMS,
  GRADIENT_DELTA,
  GRADIENT_MASK,
  GRADIENT_CHANGES, /* what changes with products, as `keys` gave it: dQ is computed of it and K alone */
};

typedef enum {
  GRADIENT_OF_QUERIES, /* dQ */
  GRADIENT_OF_KEYS,    /* dK, and dV if there is a second output */
  GRADIENT_OF_VALUES,  /* dV */
} GraphGradient;

/* Is dQ computed of what `keys` left? */
static inline bool graph_gradient_of_changes(const GraphNode *node)
{
  return node->n_inputs > GRADIENT_CHANGES && node->inputs[GRADIENT_CHANGES];
}

static inline GraphGradient graph_gradient(const GraphNode *node)
{
  const char *of = graph_attribute(node, "of")->text;
  return !strcmp(of, "queries") ? GRADIENT_OF_QUERIES
         : !strcmp(of, "keys")  ? GRADIENT_OF_KEYS
                                : GRADIENT_OF_VALUES;
}
