/* Types and shapes of operators that put elements to indices that are loaded, or take them by several indices at once. */
#include "generator/front/infer_private.h"
#include <string.h>

/* Inputs 0 and i have one type. */
static bool one_type_with(Inference *at, unsigned i, NumberType *type)
{
  const GraphNode *node = at->node;
  if (infer_unify(node->inputs[0]->type, node->inputs[i]->type, type)) return true;
  return infer_refuse(at, ERROR_INPUT, &node->input_marks[i], "type", "insert a Cast",
                      "%s needs operands of one type: `%s` is %s, `%s` is %s", node->op->name,
                      node->inputs[0]->name, number_name(node->inputs[0]->type), node->inputs[i]->name,
                      number_name(node->inputs[i]->type));
}

bool infer_scatter_type(Inference *at, unsigned indices, NumberType *type)
{
  const GraphNode *node = at->node;
  unsigned updates = 3 - indices;
  if (!infer_check_type(at, 0, node->op->types) || !infer_check_type(at, updates, node->op->types))
    return false;
  bool elements = node->op->shape_rule == SHAPE_RULE_SCATTER_ELEMENTS;
  TypeMask whole = TYPE_BIT(S64) | (elements ? TYPE_BIT(S32) : 0);
  if (node->n_inputs > indices && !infer_check_type(at, indices, whole)) return false;
  return one_type_with(at, updates, type);
}

bool infer_segments_type(Inference *at, NumberType *type)
{
  const GraphNode *node = at->node;
  bool whole = infer_check_type(at, 1, TYPE_BIT(S32)) && infer_check_type(at, 3, TYPE_BIT(S32));
  if (!whole || !infer_check_type(at, 0, node->op->types) || !infer_check_type(at, 2, node->op->types))
    return false;
  return one_type_with(at, 2, type);
}

static bool shapes_fit(Inference *at, unsigned input, const Shape *want, const char *hint)
{
  const GraphTensor *tensor = at->node->inputs[input];
  bool fits = tensor->rank == want->rank;
  for (unsigned d = 0; fits && d < want->rank; d++)
    fits = symbolic_same(tensor->shape[d], want->dims[d]);
  if (fits) return true;
  g_autofree char *have = graph_shape_text(tensor->shape, tensor->rank);
  g_autofree char *wanted = graph_shape_text(want->dims, want->rank);
  return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[input], "shape", hint,
                      "`%s` of shape %s should be %s", tensor->name, have, wanted);
}

/* Truth values are put anywhere, and not added up. */
static bool check_reduction(Inference *at)
{
  const GraphNode *node = at->node;
  const GraphAttribute *reduction = graph_attribute_find(node, "reduction");
  NumberType type = node->inputs[0]->type;
  if (!reduction || !strcmp(reduction->text, "none")) return true;
  if (type != NUMBER_BOOL && !number_is_small_float(type)) return true;
  return infer_refuse(at, ERROR_UNSUPPORTED, &node->input_marks[0], "unsupported-type", NULL,
                      "%s of %s with the reduction %s is not supported: `%s`", node->op->name,
                      number_name(type), reduction->text, node->inputs[0]->name);
}

bool infer_scatter_elements(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  Shape indices = infer_shape_of(node->inputs[1]);
  if (!infer_indices_fit(at)) return false;
  *shape = infer_shape_of(node->inputs[0]);
  return shapes_fit(at, 2, &indices, "there is an update for each index") && check_reduction(at);
}

/* How many dimensions the last one of the indices tells; 0: reported. */
static unsigned told_dimensions(Inference *at, unsigned most)
{
  const GraphTensor *indices = at->node->inputs[1];
  const Mark *mark = &at->node->input_marks[1];
  int64_t n = 0;
  if (!indices->rank) {
    infer_refuse(at, ERROR_INPUT, mark, "rank", NULL, "the indices of %s are lists: `%s` has rank 0",
                 at->node->op->name, indices->name);
    return 0;
  }
  if (!symbolic_is_constant(indices->shape[indices->rank - 1], &n)) {
    infer_refuse(at, ERROR_UNSUPPORTED, mark, "shape", "bind the symbol: --dim",
                 "a last dimension of indices that is a symbol is not supported: `%s`", indices->name);
    return 0;
  }
  if (n >= 1 && n <= most) return (unsigned)n;
  infer_refuse(at, ERROR_INPUT, mark, "shape", NULL,
               "the last dimension of `%s` has %" G_GINT64_FORMAT " indices: 1 to %u are of `%s`",
               indices->name, n, most, at->node->inputs[0]->name);
  return 0;
}

#define MOST_AXES 10 /* of a kernel's points and what each of them walks along */

bool infer_scatter_nd(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphTensor *data = node->inputs[0], *indices = node->inputs[1];
  unsigned told = told_dimensions(at, data->rank), lists = indices->rank - 1;
  if (!told || !check_reduction(at)) return false;
  *shape = infer_shape_of(data);
  Shape updates = {.rank = lists + data->rank - told};
  if (lists + data->rank > MOST_AXES || updates.rank > GRAPH_MAX_RANK)
    return infer_refuse(at, ERROR_UNSUPPORTED, &node->input_marks[1], "rank", "Reshape the indices",
                        "indices of rank %u of a tensor of rank %u are not supported", indices->rank,
                        data->rank);
  memcpy(updates.dims, indices->shape, lists * sizeof *updates.dims);
  memcpy(updates.dims + lists, data->shape + told, (data->rank - told) * sizeof *updates.dims);
  return shapes_fit(at, 2, &updates, "for each list of indices what it stands for");
}

/* Updates are parts as the data has them, in a list. */
bool infer_segments(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphTensor *data = node->inputs[0], *updates = node->inputs[2];
  if (!data->rank || !updates->rank)
    return infer_refuse(at, ERROR_INPUT, &node->input_marks[data->rank ? 2 : 0], "rank", NULL,
                        "%s takes lists of parts, not one number", node->op->name);
  *shape = infer_shape_of(data);
  Shape given = *shape, list = {1, {updates->shape[0]}}, ends = {1, {data->shape[0]}};
  given.dims[0] = updates->shape[0];
  return shapes_fit(at, 2, &given, "parts as the data has them") &&
         shapes_fit(at, 1, &list, "a number for each update") &&
         shapes_fit(at, 3, &ends, "a number for each part of the data");
}

bool infer_gather_nd(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphTensor *data = node->inputs[0], *indices = node->inputs[1];
  const GraphAttribute *attribute = graph_attribute_find(node, "batch_dims");
  int64_t batches = attribute ? attribute->integer : 0;
  if (batches < 0 || batches >= MIN((int64_t)data->rank, (int64_t)indices->rank))
    return infer_refuse(at, ERROR_INPUT, attribute && attribute->given ? &attribute->mark : &node->mark,
                        "bad-attribute", NULL, "there are no %" G_GINT64_FORMAT " batch dimensions", batches);
  unsigned told = told_dimensions(at, data->rank - (unsigned)batches), skipped = (unsigned)batches + told;
  if (!told) return false;
  for (unsigned d = 0; d < batches; d++)
    if (!symbolic_same(data->shape[d], indices->shape[d]))
      return infer_refuse(at, ERROR_INPUT, &node->input_marks[1], "shape", NULL,
                          "batch dimension %u of `%s` and `%s` differs", d, data->name, indices->name);
  *shape = (Shape){.rank = indices->rank - 1 + data->rank - skipped};
  if (shape->rank > GRAPH_MAX_RANK) return true; /* reported for all operators alike */
  memcpy(shape->dims, indices->shape, (indices->rank - 1) * sizeof *shape->dims);
  memcpy(shape->dims + indices->rank - 1, data->shape + skipped,
         (data->rank - skipped) * sizeof *shape->dims);
  return true;
}

/* One number for each index of a dimension. */
static bool check_one_each(Inference *at, unsigned input, unsigned axis)
{
  Shape want = {1, {at->node->inputs[0]->shape[axis]}};
  return shapes_fit(at, input, &want, "one number for each batch");
}

bool infer_tensor_scatter(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphTensor *past = node->inputs[0], *update = node->inputs[1];
  const GraphAttribute *attribute = graph_attribute(node, "axis");
  const Mark *mark = attribute->given ? &attribute->mark : &node->input_marks[0];
  unsigned axis = 0;
  if (!infer_axis(at, attribute->integer, past->rank, mark, &axis)) return false;
  if (!axis)
    return infer_refuse(at, ERROR_UNSUPPORTED, mark, "axis", "axis 0 is that of batches",
                        "%s along axis 0 is not supported", node->op->name);
  node->axes = 1u << axis;
  *shape = infer_shape_of(past);
  Shape part = *shape;
  if (update->rank == past->rank) part.dims[axis] = update->shape[axis];
  return shapes_fit(at, 1, &part, "as the cache, but along `axis`") &&
         (node->n_inputs < 3 || !node->inputs[2] || check_one_each(at, 2, 0));
}

bool infer_reverse_sequence(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphAttribute *time = graph_attribute(node, "time_axis"),
                       *batch = graph_attribute(node, "batch_axis");
  unsigned time_axis = 0, batch_axis = 0, rank = node->inputs[0]->rank;
  if (!infer_axis(at, time->integer, rank, time->given ? &time->mark : &node->input_marks[0], &time_axis) ||
      !infer_axis(at, batch->integer, rank, batch->given ? &batch->mark : &node->input_marks[0], &batch_axis))
    return false;
  if (time_axis == batch_axis)
    return infer_refuse(at, ERROR_INPUT, time->given ? &time->mark : &node->mark, "axis", NULL,
                        "axis %u is named twice", time_axis);
  node->axes = 1u << time_axis;
  node->order[0] = batch_axis;
  *shape = infer_shape_of(node->inputs[0]);
  return check_one_each(at, 1, batch_axis);
}
