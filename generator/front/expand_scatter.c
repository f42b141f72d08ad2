/* ScatterND of parts that have several elements: for each part the last of the updates that name it is found once, and not for each
 * of its elements.
 *
 *   place  = of each update the part that it names; behind the last one where some index lies outside, which updates nothing
 *   latest = of each part the number of the last update of it, -1: none
 *   result = latest < 0 ? data : updates[latest] */
#include "generator/front/expand.h"
#include <string.h>

#define FEW_UPDATES 16 /* which each element looks through sooner than a kernel of their own is launched */

bool expand_scatters_parts(const GraphNode *node)
{
  if (node->op->id != ONNX_ScatterND || node->inputs[1]->rank < 1) return false;
  const GraphAttribute *reduction = graph_attribute_find(node, "reduction");
  const GraphTensor *data = node->inputs[0], *indices = node->inputs[1];
  int64_t told = 0, extent, updates = 1;
  if (reduction && strcmp(reduction->text, "none")) return false;
  symbolic_is_constant(indices->shape[indices->rank - 1], &told);
  for (unsigned d = 0; d + 1 < indices->rank; d++)
    updates = symbolic_is_constant(indices->shape[d], &extent) ? updates * MIN(extent, FEW_UPDATES + 1)
                                                               : FEW_UPDATES + 1;
  return told < data->rank && updates > FEW_UPDATES;
}

static const Symbolic *product(Expansion *at, const Symbolic *const *extents, unsigned n)
{
  const Symbolic *all = symbolic_constant(expand_arena(at), 1);
  for (unsigned i = 0; i < n; i++)
    all = symbolic_mul(expand_arena(at), all, extents[i]);
  return all;
}

static GraphTensor *known(Expansion *at, const char *part, const Symbolic *value)
{
  return expand_known(at, part, &value, 1, 0);
}

/* Index d of each update, from the front, [updates]; *inside: is it one of the dimension's? */
static GraphTensor *index_of(Expansion *at, unsigned d, const Symbolic *updates, GraphTensor **inside)
{
  GraphTensor *data = expand_input(at, 0), *indices = expand_input(at, 1);
  GraphTensor *index = expand_slice(at, "column", indices, indices->rank - 1, d, d + 1);
  index = expand_cast(at, "wide", expand_reshape(at, "column", index, &updates, 1), NUMBER_S64);
  GraphTensor *zero = expand_number(at, "zero", NUMBER_S64, 0), *extent = known(at, "extent", data->shape[d]);
  GraphTensor *turned = expand(at, ONNX_Add, "turned", index, extent);
  index = expand_node(
      at,
      &(ExpandNode){ONNX_Where, "index", 3, {expand(at, ONNX_Less, "behind", index, zero), turned, index}});
  *inside = expand(at, ONNX_And, "inside", expand(at, ONNX_GreaterOrEqual, "from", index, zero),
                   expand(at, ONNX_Less, "below", index, extent));
  return index;
}

/* The part that each update names, s64; `parts`: none. */
static GraphTensor *place_of(Expansion *at, unsigned told, const Symbolic *updates, const Symbolic *parts)
{
  GraphTensor *data = expand_input(at, 0), *place = NULL, *inside = NULL;
  for (unsigned d = 0; d < told; d++) {
    GraphTensor *fits, *index = index_of(at, d, updates, &fits);
    place = !d ? index
               : expand(at, ONNX_Add, "place",
                        expand(at, ONNX_Mul, "row", place, known(at, "extent", data->shape[d])), index);
    inside = !d ? fits : expand(at, ONNX_And, "inside", inside, fits);
  }
  return expand_node(at, &(ExpandNode){ONNX_Where, "place", 3, {inside, place, known(at, "outside", parts)}});
}

void expand_scatter_parts(Expansion *at)
{
  GraphTensor *data = expand_input(at, 0), *indices = expand_input(at, 1), *updates = expand_input(at, 2);
  unsigned lists = indices->rank - 1, told = data->rank - (updates->rank - lists), inner = data->rank - told;
  const Symbolic *n = product(at, indices->shape, lists), *parts = product(at, data->shape, told);
  GraphTensor *none = expand_number(at, "none", NUMBER_S32, -1);
  GraphTensor *blank = expand(at, ONNX_Expand, "blank", none, expand_known(at, "parts", &parts, 1, 1));
  GraphTensor *latest = expand_node(
      at, &(ExpandNode){ONNX_ScatterElements,
                        "latest",
                        3,
                        {blank, place_of(at, told, n, parts), expand_index(at, "number", &n, 1, 0)},
                        .attributes = {{"axis", 0}}});
  const Symbolic *shape[GRAPH_MAX_RANK + 1] = {n};
  for (unsigned d = 0; d < inner; d++)
    shape[d + 1] = data->shape[told + d];
  GraphTensor *list = expand_reshape(at, "list", updates, shape, inner + 1);
  GraphTensor *given = expand_reshape(at, "given", latest, (const Symbolic *const *)data->shape, told);
  GraphTensor *taken =
      expand_node(at, &(ExpandNode){ONNX_Gather, "taken", 2, {list, given}, .attributes = {{"axis", 0}}});
  int64_t axes[GRAPH_MAX_RANK];
  for (unsigned d = 0; d < inner; d++)
    axes[d] = told + d;
  GraphTensor *found =
      expand(at, ONNX_GreaterOrEqual, "found", given, expand_number(at, "first", NUMBER_S32, 0));
  found = expand(at, ONNX_Unsqueeze, "found", found, expand_integers(at, "axes", axes, inner));
  expand_give(at, 0, expand_node(at, &(ExpandNode){ONNX_Where, "updated", 3, {found, taken, data}}));
}

/* ---- TensorScatter in place: new rows alone are stored ---- */

bool expand_inserts_in_place(const GraphNode *node)
{
  return node->op->id == ONNX_TensorScatter && node->outputs[0]->memory;
}

void expand_insert_in_place(Expansion *at)
{
  const GraphNode *node = expand_written(at);
  expand_give(
      at, 0,
      expand_node(at, &(ExpandNode){ONNX_AppendRows,
                                    "cache",
                                    3,
                                    {expand_input(at, 2), expand_input(at, 0), expand_input(at, 1)},
                                    .attributes = {{"places", .text = "begins"},
                                                   {"axis", graph_attribute(node, "axis")->integer},
                                                   {"mode", .text = graph_attribute(node, "mode")->text}}}));
}
