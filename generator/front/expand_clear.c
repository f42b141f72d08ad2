/* GroupedMatMul with `clear`: rows of no group are 0. The product's kernel has no tiles there, so that what it leaves is looked through
 * once more:
 *
 *   counts  row < counts[group]
 *   index   0 <= index[row] < groups
 *   ends    some group has begun, and not ended: highest[g] = the highest of ends[0] .. ends[g], no more than there are rows;
 *           begin[g] = the next multiple of `align` behind highest[g - 1]; begin[g] <= row < highest[g]. With `align` 1 no group leaves a
 *           gap: row < the highest of all
 *   result = where(somebody's, product, 0) */
#include "generator/front/expand_rows.h"
#include "generator/front/groups.h"

bool expand_clears_rows(const GraphNode *node)
{
  return node->op->id == ONNX_GroupedMatMul && node->inputs[1]->rank == 3 &&
         graph_attribute(node, "clear")->integer;
}

static GraphTensor *product(Expansion *x)
{
  const GraphNode *node = expand_written(x);
  return expand_node(
      x, &(ExpandNode){ONNX_GroupedMatMul,
                       "product",
                       3,
                       {node->inputs[0], node->inputs[1], node->inputs[2]},
                       .attributes = {{"groups", .text = graph_attribute(node, "groups")->text},
                                      {"accumulate", .text = graph_attribute(node, "accumulate")->text},
                                      {"align", graph_attribute(node, "align")->integer},
                                      {"expected", graph_attribute(node, "expected")->integer},
                                      {"transB", graph_attribute(node, "transB")->integer}}});
}

static GraphTensor *number(Expansion *x, const char *part, int64_t value)
{
  return expand_number(x, part, NUMBER_S32, (double)value);
}

GraphTensor *expand_highest_ends(Expansion *x, GraphTensor *ends, const Symbolic *rows, bool before)
{
  const Symbolic *const pairs[] = {ends->shape[0], ends->shape[0]};
  GraphTensor *most = expand_cast(x, "rows", expand_known(x, "rows", &rows, 1, 0), NUMBER_S32);
  GraphTensor *end = expand(x, ONNX_Min, "end", ends, most);
  GraphTensor *mine = expand_index(x, "mine", pairs, 2, 0), *other = expand_index(x, "other", pairs, 2, 1);
  GraphTensor *seen = expand(x, before ? ONNX_Less : ONNX_LessOrEqual, "seen", other, mine);
  GraphTensor *those =
      expand_where(x, "those", seen, expand_unsqueeze(x, "end", end, 0), number(x, "nothing", 0));
  return expand(x, ONNX_Max, "highest", expand_reduce_away(x, ONNX_ReduceMax, "highest", those, 1u << 1),
                number(x, "least", 0));
}

/* Of each element of `whole`, [1, rows, columns]: it costs no kernel. */
static GraphTensor *below_all_ends(Expansion *x, GraphTensor *ends, const GraphTensor *whole)
{
  GraphTensor *most = expand_cast(x, "rows", expand_known(x, "rows", &whole->shape[1], 1, 0), NUMBER_S32);
  GraphTensor *last =
      expand(x, ONNX_Min, "last", expand_reduce_away(x, ONNX_ReduceMax, "last", ends, 1), most);
  return expand(x, ONNX_Less, "somebody", expand_index(x, "row", whole->shape, 3, 1), last);
}

static GraphTensor *inside_ends(Expansion *x, GraphTensor *ends, const Symbolic *rows)
{
  int64_t align = graph_attribute(expand_written(x), "align")->integer;
  const Symbolic *const places[] = {rows, ends->shape[0]};
  GraphTensor *end = expand_highest_ends(x, ends, rows, false),
              *begin = expand_highest_ends(x, ends, rows, true);
  begin = expand(x, ONNX_Add, "up", begin, number(x, "more", align - 1));
  begin = expand(x, ONNX_Mul, "begin", expand(x, ONNX_Div, "units", begin, number(x, "align", align)),
                 number(x, "align", align));
  GraphTensor *row = expand_index(x, "row", places, 2, 0);
  GraphTensor *begun = expand(x, ONNX_GreaterOrEqual, "begun", row, expand_unsqueeze(x, "begin", begin, 0));
  GraphTensor *open = expand(x, ONNX_Less, "open", row, expand_unsqueeze(x, "end", end, 0));
  GraphTensor *here = expand_cast(x, "here", expand(x, ONNX_And, "both", begun, open), NUMBER_S32);
  GraphTensor *groups = expand_reduce_away(x, ONNX_ReduceSum, "groups", here, 1u << 1);
  return expand_unsqueeze(x, "somebody", expand(x, ONNX_Greater, "somebody", groups, number(x, "nobody", 0)),
                          1);
}

static GraphTensor *inside_index(Expansion *x, GraphTensor *index, const Symbolic *groups)
{
  GraphTensor *most = expand_cast(x, "groups", expand_known(x, "groups", &groups, 1, 0), NUMBER_S32);
  GraphTensor *from = expand(x, ONNX_GreaterOrEqual, "from", index, number(x, "first", 0));
  return expand_unsqueeze(x, "somebody",
                          expand(x, ONNX_And, "somebody", from, expand(x, ONNX_Less, "to", index, most)), 1);
}

static GraphTensor *inside_counts(Expansion *x, GraphTensor *counts, const Symbolic *rows)
{
  const Symbolic *const places[] = {counts->shape[0], rows};
  GraphTensor *row = expand_index(x, "row", places, 2, 1);
  return expand_unsqueeze(x, "somebody",
                          expand(x, ONNX_Less, "somebody", row, expand_unsqueeze(x, "count", counts, 1)), 2);
}

static GraphTensor *inside_of(Expansion *x, const GraphNode *node)
{
  const GraphTensor *a = node->inputs[0], *b = node->inputs[1];
  GraphTensor *sizes = node->inputs[2], *inside = NULL;
  switch (graph_groups(node)) {
  case GROUPS_ENDS: inside = inside_ends(x, sizes, a->shape[0]); break;
  case GROUPS_INDEX: inside = inside_index(x, sizes, b->shape[0]); break;
  case GROUPS_COUNTS: inside = inside_counts(x, sizes, a->shape[1]); break;
  case GROUPS_DEPTHS: break; /* every result is somebody's: expand_clears_rows() */
  }
  return expand_failed(x) ? NULL : expand_unsqueeze(x, "inside", inside, 0);
}

void expand_grouped_clear(Expansion *x)
{
  const GraphNode *node = expand_written(x);
  GraphTensor *y = product(x);
  if (expand_failed(x)) return;
  /* a view stands between: as a step of the product's kernel it would not come to rows without tiles */
  GraphTensor *whole = expand_unsqueeze(x, "whole", y, 0);
  bool closed = graph_groups(node) == GROUPS_ENDS && graph_attribute(node, "align")->integer == 1;
  GraphTensor *inside = closed ? below_all_ends(x, node->inputs[2], whole) : inside_of(x, node);
  if (expand_failed(x)) return;
  GraphTensor *cleared = expand_where(x, "cleared", inside, whole, expand_number(x, "zero", y->type, 0));
  expand_give(x, 0, expand_squeeze(x, "result", cleared, 0));
}
