/* TallyKeys and PlaceKeys: a counting sort of keys. */
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

static bool check_keys(Inference *at)
{
  const GraphTensor *keys = at->node->inputs[0];
  const GraphAttribute *part = graph_attribute(at->node, "part");
  if (keys->rank != 2)
    return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[0], "rank", NULL,
                        "keys are a matrix [tokens, choices]: `%s` has rank %u", keys->name, keys->rank);
  if (!check_number(at, "experts", MOST_KEYS) || !check_number(at, "part", MOST_PART)) return false;
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
  if (!check_keys(at)) return false;
  const Symbolic *bins = symbolic_constant(at->graph->arena, graph_attribute(at->node, "experts")->integer);
  *shape = (Shape){2, {parts_of(at), bins}};
  return true;
}

bool infer_places(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  if (!check_keys(at) || !check_number(at, "align", MOST_KEYS)) return false;
  const GraphTensor *known = node->n_inputs > 1 ? node->inputs[1] : NULL;
  int64_t bins;
  bool fits =
      !known ||
      (known->type == NUMBER_S32 && known->rank == 2 && symbolic_is_constant(known->shape[1], &bins) &&
       bins == graph_attribute(node, "experts")->integer && symbolic_same(known->shape[0], parts_of(at)));
  *shape = infer_shape_of(node->inputs[0]);
  return fits || infer_refuse(at, ERROR_INPUT, &node->input_marks[1], "shape", "what TallyKeys gives",
                              "`%s` does not count %" G_GINT64_FORMAT " keys in these parts", known->name,
                              graph_attribute(node, "experts")->integer);
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
  int64_t bins = graph_attribute(node, "experts")->integer;
  const Symbolic *rows = infer_rows_of_keys(at->graph, symbolic_mul(arena, keys->shape[0], keys->shape[1]),
                                            bins, graph_attribute(node, "align")->integer);
  *shape = (Shape){1, {output == 1 ? symbolic_constant(arena, bins) : rows}};
}
