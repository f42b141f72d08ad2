/* TopK: rows lie along the last dimension, brought there and back where `axis` is another one. */
#include "generator/front/expand_rows.h"

/* How many: an attribute in the first version, an input that is known in later ones. */
static bool read_count(Expansion *at, int64_t *k)
{
  const GraphAttribute *attribute = graph_attribute_find(expand_written(at), "k");
  double value;
  if (attribute) {
    *k = attribute->integer;
    return true;
  }
  const GraphTensor *count = expand_input(at, 1);
  if (graph_scalar(count, &value)) {
    *k = (int64_t)value;
    return true;
  }
  bool one = graph_has_one_element(count);
  expand_refuse(
      at, one ? ERROR_UNSUPPORTED : ERROR_INPUT, 1, "k", one ? "put it under `constants`, with `data`" : NULL,
      one ? "TopK of a number of elements that is not known while the graph is read is not supported: `%s`"
          : "how many elements TopK gives is one number: `%s` is not",
      count->name);
  return false;
}

/* The dimensions in order, but with two of them exchanged. */
static void exchange(int64_t *order, unsigned rank, unsigned a, unsigned b)
{
  for (unsigned d = 0; d < rank; d++)
    order[d] = d == a ? b : d == b ? a : d;
}

void expand_top_k(Expansion *at)
{
  GraphTensor *x = expand_input(at, 0), *places;
  const GraphAttribute *largest = graph_attribute_find(expand_written(at), "largest");
  unsigned axis;
  int64_t k, order[GRAPH_MAX_RANK];
  if (!read_count(at, &k) || !expand_read_axis(at, &axis)) return;
  bool along = axis + 1 == x->rank;
  exchange(order, x->rank, axis, x->rank - 1);
  GraphTensor *rows = along ? x : expand_transpose(at, "rows", x, order);
  GraphTensor *values = expand_node(
      at,
      &(ExpandNode){ONNX_TopRows,
                    "top",
                    1,
                    {rows},
                    .attributes = {{"k", k}, {"largest", largest ? largest->integer : 1}, {"wide", along}},
                    .further = &places,
                    .n_further = 1});
  if (expand_failed(at)) return;
  if (!along) { /* indices of 32 bits are moved */
    values = expand_transpose(at, "values", values, order);
    places = expand_cast(at, "wide", expand_transpose(at, "places", places, order), NUMBER_S64);
  }
  expand_give(at, 0, values);
  expand_give(at, 1, places);
}
