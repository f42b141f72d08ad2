/* Extents: which are equal, and which is larger. */
#include "generator/front/infer_private.h"

const Symbolic *infer_larger(const Graph *graph, const Symbolic *a, const Symbolic *b)
{
  int64_t least, most;
  symbolic_range(symbolic_sub(graph->arena, a, b), &graph->facts, &least, &most);
  return least >= 0 ? a : most <= 0 ? b : symbolic_binary(graph->arena, SYMBOLIC_MAX, a, b);
}

const Symbolic *infer_smaller(const Graph *graph, const Symbolic *a, const Symbolic *b)
{
  int64_t least, most;
  symbolic_range(symbolic_sub(graph->arena, a, b), &graph->facts, &least, &most);
  return most <= 0 ? a : least >= 0 ? b : symbolic_binary(graph->arena, SYMBOLIC_MIN, a, b);
}

bool infer_assume(Inference *at, const Symbolic *a, const Symbolic *b)
{
  Assumptions *assumptions = at->builder->reading.assumptions;
  return assumptions && assume_equal(assumptions, &at->graph->facts, a, b);
}

bool infer_one(Inference *at, const Symbolic *a)
{
  Assumptions *assumptions = at->builder->reading.assumptions;
  return assumptions && at->builder->trusting && assume_one(assumptions, &at->graph->facts, a);
}

bool infer_same(Inference *at, const Symbolic *a, const Symbolic *b)
{
  return symbolic_same(a, b) || (at->builder->trusting && infer_assume(at, a, b));
}
