/* adlgen.NonZero: ONNX's, whose result has as many columns as there are elements that are not 0, in a result of a size that is known:
 * what is not filled is -1, and how much is filled stays on the device. */
#include "generator/front/expand_rows.h"
#include "generator/front/expand_search.h"

/* Of an element's number its index along each dimension, a row of the result each; -1 where there is none. */
static GraphTensor *coordinates(Expansion *at, GraphTensor *number, GraphTensor *filled)
{
  const GraphTensor *x = expand_input(at, 0);
  GraphTensor *rows = NULL, *rest = number, *index;
  for (unsigned d = x->rank; d-- > 0;
       rest = d ? expand(at, ONNX_Div, "rest", rest, expand_known_s32(at, "extent", x->shape[d])) : rest) {
    GraphTensor *extent = expand_known_s32(at, "extent", x->shape[d]);
    index = d ? expand(at, ONNX_Mod, "index", rest, extent) : rest;
    index = expand_where(at, "index", filled, index, expand_number_s32(at, "none", -1));
    index = expand(at, ONNX_Unsqueeze, "row", expand_cast(at, "index", index, NUMBER_S64),
                   expand_integers(at, "axes", (int64_t[]){0}, 1));
    rows = rows ? expand_node(
                      at, &(ExpandNode){ONNX_Concat, "rows", 2, {index, rows}, .attributes = {{"axis", 0}}})
                : index;
  }
  return rows;
}

void expand_non_zero(Expansion *at)
{
  GraphTensor *x = expand_input(at, 0);
  Arena *arena = expand_arena(at);
  int64_t size = graph_attribute(expand_written(at), "size")->integer;
  const Symbolic *n = symbolic_constant(arena, 1), *slots;
  for (unsigned d = 0; d < x->rank; d++)
    n = symbolic_mul(arena, n, x->shape[d]);
  if (!x->rank || size < 0 || size > G_MAXINT32) {
    if (!x->rank)
      expand_refuse(at, ERROR_INPUT, 0, "rank", "Reshape it to [1]",
                    "NonZero of a number has no indices: `%s`", x->name);
    else
      expand_refuse_attribute(at, ERROR_INPUT, "size", "0 is as many as `x` has elements",
                              "%" G_GINT64_FORMAT " is no number of columns", size);
    return;
  }
  if (!expand_is_at_most(at, n, G_MAXINT32)) {
    expand_refuse(at, ERROR_UNSUPPORTED, 0, "shape", "say under `dims` how large they become at most",
                  "NonZero of more than 2^31 - 1 elements is not supported: `%s`", x->name);
    return;
  }
  slots = size ? symbolic_constant(arena, size) : n;
  GraphTensor *flat = expand_reshape(at, "flat", x, &n, 1);
  GraphTensor *zero = x->type == NUMBER_BOOL ? NULL : expand_number(at, "zero", x->type, 0);
  GraphTensor *mask =
      zero ? expand(at, ONNX_Not, "mask", expand(at, ONNX_Equal, "null", flat, zero), NULL) : flat;
  Selection selection;
  expand_select(at, mask, n, &selection);
  GraphTensor *place = expand_index(at, "place", &slots, 1, 0);
  GraphTensor *number = expand_selected(at, &selection, place),
              *filled = expand(at, ONNX_Less, "filled", place, selection.count);
  expand_give(at, 0, coordinates(at, number, filled));
  expand_give(at, 1, expand_cast(at, "count", selection.count, NUMBER_S64));
}
