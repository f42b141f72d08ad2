/* TallyKeys and PlaceKeys: a counting sort of keys; TallyMagnitudes and PlaceMagnitudes: of floats by their bits. */
#include "generator/front/infer_private.h"

#define MOST_KEYS 65536
#define MOST_PART (1 << 30)

static bool check_number(Inference *at, const char *name, int64_t most)
{
  const GraphAttribute *attribute = graph_attribute(at->node, name);
  if (attribute->integer >= 1 && attribute->integer <= most) return true;
  return infer_refuse(at, ERROR_INPUT, &attribute->mark, name, NULL,
                      "`%s` is 1 to %" G_GINT64_FORMAT ", not %" G_GINT64_FORMAT, name, most,
                      attribute->integer);
}

/* What of magnitudes is asked for: their number, and what is taken off. */
static bool check_magnitudes(Inference *at)
{
  const GraphNode *node = at->node;
  const GraphTensor *keys = node->inputs[0];
  const GraphAttribute *shift = graph_attribute(node, "shift");
  if (shift->integer < 0 || shift->integer > 31)
    return infer_refuse(at, ERROR_INPUT, &shift->mark, "shift", NULL,
                        "`shift` is 0 to 31, not %" G_GINT64_FORMAT, shift->integer);
  if (!symbolic_equals(keys->shape[1], 1))
    return infer_refuse(at, ERROR_INPUT, &node->input_marks[0], "shape", NULL,
                        "magnitudes stand one in a row: `%s`", keys->name);
  for (unsigned i = 1; i < node->n_inputs; i += 2) {
    const GraphTensor *number = node->inputs[i];
    if (!number) continue;
    if (number->type != NUMBER_S32 || number->rank != 1 || !symbolic_equals(number->shape[0], 1))
      return infer_refuse(at, ERROR_INPUT, &node->input_marks[i], "shape", NULL,
                          "`%s` must be one number, s32 [1]", number->name);
  }
  return true;
}

static bool check_keys(Inference *at)
{
  const GraphTensor *keys = at->node->inputs[0];
  const GraphAttribute *part = graph_attribute(at->node, "part");
  if (keys->rank != 2)
    return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[0], "rank", NULL,
                        "keys are a matrix [tokens, choices]: `%s` has rank %u", keys->name, keys->rank);
  if (at->node->op->id != ONNX_PlaceMagnitudes && !check_number(at, "experts", MOST_KEYS)) return false;
  if (!check_number(at, "part", MOST_PART)) return false;
  return (part->integer & (part->integer - 1)) == 0 ||
         infer_refuse(at, ERROR_INPUT, &part->mark, "part", NULL,
                      "`part` is a power of two, not %" G_GINT64_FORMAT, part->integer);
}

/* One at least. */
static const Symbolic *parts_of(Inference *at)
{
  Arena *arena = at->graph->arena;
  const GraphTensor *keys = at->node->inputs[0];
  const Symbolic *part = symbolic_constant(arena, graph_attribute(at->node, "part")->integer),
                 *elements = symbolic_mul(arena, keys->shape[0], keys->shape[1]);
  return infer_larger(at->graph, symbolic_ceil_div(arena, elements, part), symbolic_constant(arena, 1));
}

bool infer_tallies(Inference *at, Shape *shape)
{
  if (!check_keys(at) || (at->node->op->id == ONNX_TallyMagnitudes && !check_magnitudes(at))) return false;
  const Symbolic *bins = symbolic_constant(at->graph->arena, graph_attribute(at->node, "experts")->integer);
  *shape = (Shape){2, {parts_of(at), bins}};
  return true;
}

/* Counts of so many keys in the node's parts. */
static bool check_known(Inference *at, unsigned input, int64_t keys)
{
  const GraphTensor *known = at->node->inputs[input];
  int64_t bins;
  bool fits = known->type == NUMBER_S32 && known->rank == 2 && symbolic_is_constant(known->shape[1], &bins) &&
              bins == keys && symbolic_same(known->shape[0], parts_of(at));
  return fits ||
         infer_refuse(at, ERROR_INPUT, &at->node->input_marks[input], "shape",
                      input == 1 ? "what TallyKeys gives" : "what TallyMagnitudes gives",
                      "`%s` does not count %" G_GINT64_FORMAT " keys in these parts", known->name, keys);
}

bool infer_places(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  if (!check_keys(at) || !check_number(at, "align", MOST_KEYS)) return false;
  *shape = infer_shape_of(node->inputs[0]);
  return node->n_inputs < 2 || !node->inputs[1] ||
         check_known(at, 1, graph_attribute(node, "experts")->integer);
}

bool infer_taken(Inference *at, Shape *shape)
{
  if (!check_keys(at) || !check_magnitudes(at) || !check_number(at, "count", INT32_MAX)) return false;
  *shape = infer_shape_of(at->node->inputs[0]);
  return check_known(at, 2, 2);
}

/* Rows of keys, which begin at multiples: each may end just behind one. */
const Symbolic *infer_rows_of_keys(const Graph *graph, const Symbolic *elements, int64_t keys, int64_t align)
{
  Arena *arena = graph->arena;
  if (align == 1) return elements;
  const Symbolic *step = symbolic_constant(arena, align);
  const Symbolic *most = symbolic_add(arena, elements, symbolic_constant(arena, keys * (align - 1)));
  return symbolic_mul(arena, symbolic_ceil_div(arena, most, step), step);
}

void infer_places_further(Inference *at, unsigned output, Shape *shape)
{
  const GraphNode *node = at->node;
  const GraphTensor *keys = node->inputs[0];
  Arena *arena = at->graph->arena;
  if (node->op->id == ONNX_PlaceMagnitudes) {
    *shape = (Shape){1, {symbolic_constant(arena, graph_attribute(node, "count")->integer)}};
    return;
  }
  int64_t bins = graph_attribute(node, "experts")->integer;
  const Symbolic *rows = infer_rows_of_keys(at->graph, symbolic_mul(arena, keys->shape[0], keys->shape[1]),
                                            bins, graph_attribute(node, "align")->integer);
  *shape = (Shape){1, {output == 1 ? symbolic_constant(arena, bins) : rows}};
}
