/* Operators as they were before opset 7: the second operand did not broadcast as in numpy, it stood somewhere among the first's
 * dimensions. */
#include "generator/front/expand.h"

/* The operand with `n` dimensions of 1 behind its own. */
static GraphTensor *with_trailing(Expansion *at, GraphTensor *x, unsigned n)
{
  int64_t axes[GRAPH_MAX_RANK];
  if (!n) return x;
  for (unsigned i = 0; i < n; i++)
    axes[i] = x->rank + i;
  return expand(at, ONNX_Unsqueeze, "aligned", x, expand_integers(at, "axes", axes, n));
}

void expand_former_broadcast(Expansion *at)
{
  const GraphNode *node = expand_written(at);
  const GraphAttribute *axis = graph_attribute(node, "axis");
  GraphTensor *a = expand_input(at, 0), *b = expand_input(at, 1);
  if (!graph_attribute(node, "broadcast")->integer && !graph_same_shape(a, b)) {
    expand_refuse(at, ERROR_INPUT, 1, "shape", "set the attribute `broadcast` to 1",
                  "the operands of %s have one shape in opset 6", node->op->name);
    return;
  }
  if (axis->given && b->rank && b->rank != a->rank && !graph_has_one_element(b)) {
    int64_t first = axis->integer < 0 ? axis->integer + a->rank : axis->integer;
    if (first < 0 || first + b->rank > a->rank) {
      expand_refuse_attribute(at, ERROR_INPUT, "axis", NULL,
                              "axis %d of a tensor of rank %u, for one of rank %u", (int)axis->integer,
                              a->rank, b->rank);
      return;
    }
    b = with_trailing(at, b, a->rank - (unsigned)first - b->rank);
  }
  expand_give(at, 0, expand(at, node->op->id, "result", a, b));
}

/* One slope for all elements, or one for each channel, which is dimension 1. */
void expand_former_prelu(Expansion *at)
{
  GraphTensor *x = expand_input(at, 0), *slope = expand_input(at, 1);
  bool channels = slope->rank == 1 && x->rank > 1 && !graph_has_one_element(slope);
  if (channels) slope = with_trailing(at, slope, x->rank - 2);
  expand_give(at, 0, expand(at, ONNX_PRelu, "result", x, slope));
}

/* C broadcast where `broadcast` said so; now it always may. */
void expand_former_gemm(Expansion *at)
{
  const GraphNode *node = expand_written(at);
  expand_give(at, 0,
              expand_node(at, &(ExpandNode){
                                  ONNX_Gemm,
                                  "result",
                                  3,
                                  {expand_input(at, 0), expand_input(at, 1), expand_input(at, 2)},
                                  .attributes = {{"alpha", .number = graph_attribute(node, "alpha")->number},
                                                 {"beta", .number = graph_attribute(node, "beta")->number},
                                                 {"transA", graph_attribute(node, "transA")->integer},
                                                 {"transB", graph_attribute(node, "transB")->integer}}}));
}
