/* GroupedMatMul: rows of A, each times the matrix of its group; or each group's part of k, a result each. */
#include "generator/front/groups.h"
#include "generator/front/infer_private.h"
#include <string.h>

static bool check_rank(Inference *at, unsigned input, unsigned rank, const char *shape)
{
  const GraphTensor *tensor = at->node->inputs[input];
  if (tensor->rank == rank) return true;
  g_autofree char *text = graph_shape_text(tensor->shape, tensor->rank);
  return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[input], "rank", NULL,
                      "`%s` is %s; with groups \"%s\" it is %s", tensor->name, text,
                      graph_attribute(at->node, "groups")->text, shape);
}

/* Dimension d of an input is as long as that of another one. */
static bool check_same(Inference *at, unsigned input, unsigned d, unsigned other, unsigned other_d,
                       const char *what)
{
  const GraphTensor *a = at->node->inputs[input], *b = at->node->inputs[other];
  if (symbolic_same(a->shape[d], b->shape[other_d])) return true;
  g_autofree char *have = symbolic_text(a->shape[d]), *want = symbolic_text(b->shape[other_d]);
  return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[input], "shape", NULL,
                      "`%s` has %s %s, `%s` has %s", a->name, have, what, b->name, want);
}

/* A tile of rows has one group where groups begin at multiples of its rows. */
#define LEAST_INDEX_ALIGN 64
#define MOST_ALIGN        65536

static bool check_attributes(Inference *at, GraphGroups kind)
{
  const GraphNode *node = at->node;
  const GraphAttribute *align = graph_attribute(node, "align"), *expected = graph_attribute(node, "expected");
  if (align->integer < 1 || align->integer > MOST_ALIGN)
    return infer_refuse(at, ERROR_INPUT, &align->mark, "align", NULL,
                        "align is 1 to %d, not %" G_GINT64_FORMAT, MOST_ALIGN, align->integer);
  if (kind == GROUPS_INDEX && align->integer % LEAST_INDEX_ALIGN)
    return infer_refuse(at, ERROR_UNSUPPORTED, align->given ? &align->mark : &node->mark, "align",
                        "groups \"ends\" may begin anywhere",
                        "groups \"index\" that begin at multiples of %" G_GINT64_FORMAT
                        " are not supported, only of multiples of %d",
                        align->integer, LEAST_INDEX_ALIGN);
  if (expected->integer < 0)
    return infer_refuse(at, ERROR_INPUT, &expected->mark, "expected", NULL,
                        "a group cannot have %" G_GINT64_FORMAT " rows", expected->integer);
  return true;
}

/* A [M, K] and B [K, N], of which each group has a part of k: [G, M, N]. */
static bool infer_depths(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const bool turned = graph_attribute(node, "transB")->integer != 0;
  if (!check_rank(at, 0, 2, "[M, K]") || !check_rank(at, 2, 1, "[G]") ||
      !check_attributes(at, GROUPS_DEPTHS) || !check_same(at, 1, turned ? 1 : 0, 0, 1, "elements along k"))
    return false;
  *shape = (Shape){.rank = 3};
  shape->dims[0] = node->inputs[2]->shape[0];
  shape->dims[1] = node->inputs[0]->shape[0];
  shape->dims[2] = node->inputs[1]->shape[turned ? 0 : 1];
  return true;
}

bool infer_grouped(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphGroups kind = graph_groups(node);
  if (kind == GROUPS_DEPTHS) return infer_depths(at, shape);
  const bool batched = kind == GROUPS_COUNTS, turned = graph_attribute(node, "transB")->integer != 0;
  const GraphTensor *a = node->inputs[0], *b = node->inputs[1];
  if (!check_rank(at, 0, batched ? 3 : 2, batched ? "[G, R, K]" : "[M, K]") ||
      !check_rank(at, 1, 3, turned ? "[G, N, K]" : "[G, K, N]") ||
      !check_rank(at, 2, 1, kind == GROUPS_INDEX ? "[M]" : "[G]") || !check_attributes(at, kind))
    return false;
  if (!check_same(at, 1, turned ? 2 : 1, 0, a->rank - 1, "elements along k") ||
      (batched && !check_same(at, 1, 0, 0, 0, "groups")) ||
      (kind == GROUPS_INDEX ? !check_same(at, 2, 0, 0, 0, "rows") : !check_same(at, 2, 0, 1, 0, "groups")))
    return false;
  *shape = infer_shape_of(a);
  shape->dims[a->rank - 1] = b->shape[turned ? 1 : 2];
  return true;
}
