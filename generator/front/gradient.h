/* AttentionGradPart: its inputs, and what it gives. */
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
};

typedef enum {
  GRADIENT_OF_QUERIES, /* dQ */
  GRADIENT_OF_KEYS,    /* dK, and dV if there is a second output */
  GRADIENT_OF_VALUES,  /* dV */
} GraphGradient;

static inline GraphGradient graph_gradient(const GraphNode *node)
{
  const char *of = graph_attribute(node, "of")->text;
  return !strcmp(of, "queries") ? GRADIENT_OF_QUERIES
         : !strcmp(of, "keys")  ? GRADIENT_OF_KEYS
                                : GRADIENT_OF_VALUES;
}
