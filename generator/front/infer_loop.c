/* What comes into a loop's body, and goes out of it. */
#include "generator/front/infer_private.h"
#include <string.h>

/* An element of each time, along the first dimension. */
static bool infer_element(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphTensor *x = node->inputs[0];
  if (!x->rank || !infer_same(at, x->shape[0], node->loop->count)) {
    g_autofree char *have = graph_shape_text(x->shape, x->rank), *count = symbolic_text(node->loop->count);
    return infer_refuse(at, ERROR_INPUT, &node->input_marks[0], "shape", NULL,
                        "`%s`, %s, has no element for each of the %s times of the loop", x->name, have,
                        count);
  }
  shape->rank--;
  memmove(shape->dims, shape->dims + 1, shape->rank * sizeof *shape->dims);
  return true;
}

static bool infer_stack(Inference *at, Shape *shape)
{
  if (shape->rank == GRAPH_MAX_RANK)
    return infer_refuse(at, ERROR_UNSUPPORTED, &at->node->mark, "rank", NULL, "rank %u is not supported",
                        shape->rank + 1);
  memmove(shape->dims + 1, shape->dims, shape->rank * sizeof *shape->dims);
  shape->dims[0] = at->node->loop->count;
  shape->rank++;
  return true;
}

/* A state keeps its shape. */
static bool infer_next(Inference *at)
{
  const GraphTensor *value = at->node->inputs[0], *state = at->node->inputs[1];
  bool same = value->rank == state->rank;
  for (unsigned d = 0; same && d < state->rank; d++)
    same = infer_same(at, value->shape[d], state->shape[d]);
  if (same) return true;
  g_autofree char *have = graph_shape_text(value->shape, value->rank),
                  *want = graph_shape_text(state->shape, state->rank);
  return infer_refuse(at, ERROR_UNSUPPORTED, &at->node->input_marks[0], "shape", NULL,
                      "a loop whose state changes its shape, from %s to %s, is not supported", want, have);
}

bool infer_loop(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  if (!node->loop)
    return infer_refuse(at, ERROR_INPUT, &node->mark, "loop", "write LSTM, GRU or RNN",
                        "%s stands in bodies of loops only", node->op->name);
  *shape = infer_shape_of(node->inputs[0]);
  switch ((unsigned)node->op->id) {
  case ONNX_LoopElement: return infer_element(at, shape);
  case ONNX_LoopStack: return infer_stack(at, shape);
  case ONNX_LoopNext: return infer_next(at);
  default: return true;
  }
}
