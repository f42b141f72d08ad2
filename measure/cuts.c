/* Which dimensions of a case's tensors can be cut down to some of their places, the same ones in all tensors that have them
 * in common: those along which every node computes element by element. Nodes join dimensions to classes; what is summed, counted or
 * looked up is blocked. Where rows stand beside a diagonal they must follow one another, and the diagonal moves. */
#include "generator/front/groups.h"
#include "measure/check.h"
#include <string.h>

enum { BLOCKED = 1, PLACED = 2 };

typedef struct Classes {
  unsigned *parent; /* by dimension_of() */
  uint8_t *flags;   /* of roots */
} Classes;

static unsigned dimension_of(const GraphTensor *tensor, unsigned d)
{
  return tensor->index * GRAPH_MAX_RANK + d;
}

static int64_t extent(const GraphTensor *tensor, unsigned d)
{
  int64_t value = 0;
  symbolic_is_constant(tensor->shape[d], &value);
  return value;
}

static unsigned root_of(const Classes *at, unsigned i)
{
  while (at->parent[i] != i)
    i = at->parent[i] = at->parent[at->parent[i]];
  return i;
}

static void mark(Classes *at, const GraphTensor *tensor, unsigned d, uint8_t flag)
{
  at->flags[root_of(at, dimension_of(tensor, d))] |= flag;
}

static void block(Classes *at, const GraphTensor *tensor)
{
  for (unsigned d = 0; tensor && d < tensor->rank; d++)
    mark(at, tensor, d, BLOCKED);
}

/* A dimension of 1 is repeated, or is no more than one place. */
static void join(Classes *at, const GraphTensor *a, unsigned i, const GraphTensor *b, unsigned j)
{
  if (extent(a, i) == 1 || extent(b, j) == 1) return;
  unsigned x = root_of(at, dimension_of(a, i)), y = root_of(at, dimension_of(b, j));
  at->flags[y] |= at->flags[x] | (extent(a, i) == extent(b, j) ? 0 : BLOCKED);
  at->parent[x] = y;
}

/* From the last dimension on, but for `skip` of them. */
static void join_last(Classes *at, const GraphTensor *a, const GraphTensor *b, unsigned skip)
{
  for (unsigned i = skip; i < a->rank && i < b->rank; i++)
    join(at, a, a->rank - 1 - i, b, b->rank - 1 - i);
}

/* ---- nodes ---- */

static unsigned axis_of(const GraphNode *node, unsigned rank)
{
  int64_t axis = graph_attribute(node, "axis")->integer;
  return (unsigned)(axis < 0 ? axis + rank : axis);
}

/* Scales are one, a list along an axis, or repeated from the last dimension on: of blocks an Expansion has made views and lists. */
static void join_quantizer(Classes *at, const GraphNode *node)
{
  const GraphTensor *x = node->inputs[0];
  join_last(at, x, node->outputs[0], 0);
  for (unsigned i = 1; i < node->n_inputs; i++) {
    const GraphTensor *scale = node->inputs[i];
    const GraphAttribute *axis = graph_attribute_find(node, "axis");
    if (scale && scale->rank == 1 && axis && axis_of(node, x->rank) < x->rank)
      join(at, scale, 0, x, axis_of(node, x->rank));
    else if (scale)
      join_last(at, scale, x, 0);
  }
}

/* Rows of groups: sizes are counted anew for those that are kept (sample_groups); matrices of groups are not left out. */
static void join_groups(Classes *at, const GraphNode *node)
{
  const GraphTensor *a = node->inputs[0], *b = node->inputs[1], *sizes = node->inputs[2],
                    *d = node->outputs[0];
  unsigned turned = graph_attribute(node, "transB")->integer != 0;
  mark(at, a, a->rank - 1, BLOCKED);
  if (graph_groups(node) == GROUPS_DEPTHS) {
    mark(at, b, turned, BLOCKED);
    mark(at, d, 0, BLOCKED);
    block(at, sizes);
    join(at, a, 0, d, 1);
    join(at, b, 1 - turned, d, 2);
    return;
  }
  mark(at, b, 0, BLOCKED);
  mark(at, b, 1 + turned, BLOCKED);
  block(at, sizes);
  if (sizes->kind != TENSOR_INPUT) mark(at, a, a->rank - 2, BLOCKED);
  join(at, b, 2 - turned, d, d->rank - 1);
  join(at, a, a->rank - 2, d, d->rank - 2);
  if (a->rank > 2) mark(at, a, 0, BLOCKED);
  if (a->rank > 2) mark(at, d, 0, BLOCKED);
  for (unsigned i = 3; i < node->n_inputs; i++)
    block(at, node->inputs[i]);
}

/* Which rows are whose only all of them tell. */
static void keep_whole(Classes *at, const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i]) block(at, node->inputs[i]);
  for (unsigned i = 0; i < node->n_outputs; i++)
    if (node->outputs[i]) block(at, node->outputs[i]);
}

static void join_product(Classes *at, const GraphNode *node)
{
  if (node->op->id == ONNX_GroupedMatMul) {
    join_groups(at, node);
    return;
  }
  const GraphTensor *a = node->inputs[0], *b = node->inputs[1], *d = node->outputs[0];
  bool gemm = node->op->id == ONNX_Gemm;
  bool turned_a = gemm && graph_attribute(node, "transA")->integer,
       turned_b = gemm && graph_attribute(node, "transB")->integer;
  unsigned rows = a->rank > 1, columns = b->rank > 1, last = d->rank;
  mark(at, a, turned_a || !rows ? 0 : a->rank - 1, BLOCKED);
  mark(at, b, columns ? b->rank - 2 + turned_b : 0, BLOCKED);
  if (columns) join(at, b, b->rank - 1 - turned_b, d, --last);
  if (rows) join(at, a, a->rank - 2 + turned_a, d, --last);
  for (unsigned i = 0; i < last; i++) { /* batches */
    if (a->rank > 2 + i) join(at, a, a->rank - 3 - i, d, last - 1 - i);
    if (b->rank > 2 + i) join(at, b, b->rank - 3 - i, d, last - 1 - i);
  }
  for (unsigned i = 2; i < node->n_inputs; i++)
    if (gemm && node->inputs[i])
      join_last(at, node->inputs[i], d, 0);
    else
      block(at, node->inputs[i]);
}

static void join_rows(Classes *at, const GraphNode *node)
{
  const GraphTensor *x = node->inputs[0];
  for (unsigned i = 0; i < x->rank; i++)
    if (node->axes >> i & 1) mark(at, x, i, BLOCKED);
  for (unsigned i = 1; i < node->n_inputs; i++)
    block(at, node->inputs[i]);
  for (unsigned o = 0; o < node->n_outputs; o++) {
    const GraphTensor *y = node->outputs[o];
    unsigned to = 0;
    for (unsigned i = 0; y && i < x->rank && to < y->rank; i++) {
      bool dropped = y->rank < x->rank && (node->axes >> i & 1);
      if (!dropped) join(at, x, i, y, to++);
    }
  }
}

static bool is_whole(const GraphNode *node, unsigned d)
{
  return symbolic_equals(node->firsts[d], 0) && node->steps[d] == 1 &&
         extent(node->inputs[0], d) == extent(node->outputs[0], d);
}

/* Dimensions that begin and end at the same elements are the same. */
static void join_reshape(Classes *at, const GraphTensor *x, const GraphTensor *y)
{
  double before_x = 1, before_y = 1;
  unsigned i = 0, j = 0;
  while (i < x->rank && j < y->rank) {
    bool same = before_x == before_y && extent(x, i) == extent(y, j);
    if (same) {
      join(at, x, i, y, j);
    } else if (extent(x, i) != 1 && extent(y, j) != 1) {
      mark(at, x, i, BLOCKED);
      mark(at, y, j, BLOCKED);
    }
    double after_x = before_x * (double)extent(x, i), after_y = before_y * (double)extent(y, j);
    bool next_x = after_x <= after_y, next_y = after_y <= after_x;
    if (next_x) before_x = after_x, i++;
    if (next_y) before_y = after_y, j++;
  }
  for (; i < x->rank; i++)
    mark(at, x, i, BLOCKED);
  for (; j < y->rank; j++)
    mark(at, y, j, BLOCKED);
}

static void join_view(Classes *at, const GraphNode *node)
{
  const GraphTensor *x = node->inputs[0], *y = node->outputs[0];
  OperatorId op = node->op->id;
  bool lists = op == ONNX_Split || op == ONNX_Concat;
  for (unsigned d = 0; lists && d < x->rank; d++) {
    bool along = node->axes >> d & 1;
    for (unsigned i = 0; i < node->n_outputs; i++)
      if (node->outputs[i] && along)
        mark(at, node->outputs[i], d, BLOCKED);
      else if (node->outputs[i])
        join(at, x, d, node->outputs[i], d);
    for (unsigned i = 0; i < (op == ONNX_Concat ? node->n_inputs : 1); i++)
      if (along)
        mark(at, node->inputs[i], d, BLOCKED);
      else
        join(at, node->inputs[i], d, x, d);
  }
  if (lists) return;
  for (unsigned d = 0; op == ONNX_Transpose && d < y->rank; d++)
    join(at, x, node->order[d], y, d);
  for (unsigned d = 0; op == ONNX_Slice && d < x->rank; d++)
    if (is_whole(node, d)) {
      join(at, x, d, y, d);
    } else {
      mark(at, x, d, BLOCKED);
      mark(at, y, d, BLOCKED);
    }
  if (op == ONNX_Expand) join_last(at, x, y, 0);
  if (op != ONNX_Transpose && op != ONNX_Slice && op != ONNX_Expand) join_reshape(at, x, y);
}

static void join_gather(Classes *at, const GraphNode *node)
{
  const GraphTensor *x = node->inputs[0], *indices = node->inputs[1], *y = node->outputs[0];
  unsigned axis = (unsigned)__builtin_ctz(node->axes);
  mark(at, x, axis, BLOCKED);
  for (unsigned d = 0; d < x->rank; d++)
    if (d != axis) join(at, x, d, y, d < axis ? d : d - 1 + indices->rank);
  for (unsigned d = 0; d < indices->rank; d++)
    join(at, indices, d, y, axis + d);
}

static bool is_known(const GraphTensor *bound)
{
  return !bound || (bound->kind == TENSOR_CONSTANT && bound->values);
}

/* Rows beside a diagonal that can be moved. */
static void join_mask(Classes *at, const GraphNode *node)
{
  const GraphTensor *x = node->inputs[0];
  bool moves = true;
  join_last(at, x, node->outputs[0], 0);
  mark(at, x, x->rank - 1, BLOCKED);
  for (unsigned i = 1; i < node->n_inputs; i++) {
    const GraphTensor *bound = node->inputs[i];
    if (bound && bound->rank) join(at, bound, 0, x, 0);
    moves &= i == 3 || is_known(bound);
  }
  mark(at, x, x->rank - 2, moves ? PLACED : BLOCKED);
}

static void join_index(Classes *at, const GraphNode *node)
{
  const GraphTensor *x = node->inputs[0], *y = node->outputs[0];
  switch ((unsigned)node->op->id) {
  case ONNX_Gather: join_gather(at, node); return;
  case ONNX_Mask: join_mask(at, node); return;
  case ONNX_GatherElements:
    for (unsigned d = 0; d < x->rank; d++) {
      join(at, node->inputs[1], d, y, d);
      if ((node->axes >> d & 1) || extent(x, d) != extent(y, d))
        mark(at, x, d, BLOCKED);
      else
        join(at, x, d, y, d);
    }
    return;
  case ONNX_Trilu:
    mark(at, y, y->rank - 1, BLOCKED);
    mark(at, y, y->rank - 2, BLOCKED);
    join_last(at, x, y, 0);
    return;
  case ONNX_IndexAlong: /* of a list: that of the places (list_places) */
    for (unsigned d = 0; x->rank != 1 && d < x->rank; d++)
      if (node->axes >> d & 1) mark(at, x, d, BLOCKED);
    join_last(at, x, y, 0);
    return;
  case ONNX_Resample: {
    const GraphAttribute *axes = graph_attribute(node, "axes");
    for (unsigned i = 0; i < axes->n; i++) {
      mark(at, x, (unsigned)axes->integers[i], BLOCKED);
      mark(at, y, (unsigned)axes->integers[i], BLOCKED);
    }
    for (unsigned i = 1; i < node->n_inputs; i++)
      block(at, node->inputs[i]);
    join_last(at, x, y, 0);
    return;
  }
  default: /* lists of extents, and what repeats or is shifted */
    for (unsigned i = 0; i < node->n_inputs; i++)
      block(at, node->inputs[i]);
    block(at, y);
  }
}

static void join_node(Classes *at, const GraphNode *node)
{
  switch (node->op->class_) {
  case OPERATOR_GEMM: join_product(at, node); return;
  case OPERATOR_SEQUENCES:
  case OPERATOR_LOOP: keep_whole(at, node); return;
  case OPERATOR_ROW: join_rows(at, node); return;
  case OPERATOR_VIEW: join_view(at, node); return;
  case OPERATOR_INDEX: join_index(at, node); return;
  default: break;
  }
  bool quantizes = node->op->id == ONNX_QuantizeLinear || node->op->id == ONNX_DequantizeLinear;
  if (quantizes) join_quantizer(at, node);
  for (unsigned i = 0; !quantizes && i < node->n_inputs; i++)
    if (node->inputs[i]) join_last(at, node->inputs[i], node->outputs[0], 0);
}

/* ---- cutting ---- */

#define BLOCKS 3 /* of rows that follow one another */

/* First, last and places spread over the rest at odd distances, so that every part of a tile comes up. */
static void pick_places(Cut *cut, int64_t all, unsigned n)
{
  cut->n = (unsigned)MIN((int64_t)n, all);
  cut->places = g_new0(int64_t, cut->n + 1);
  for (unsigned i = 0; i < cut->n; i++) {
    int64_t step = all / cut->n, jitter = step > 1 ? (int64_t)(i * 37 + 11) % step : 0;
    cut->places[i] = i + 1 == cut->n ? all - 1 : i == 0 ? 0 : i * step + jitter;
  }
}

/* The same of rows that follow one another: which of the blocks. */
static void pick_block(Cut *cut, int64_t all, unsigned n, unsigned which)
{
  Cut firsts;
  cut->n = MAX(1, n / BLOCKS);
  pick_places(&firsts, all - cut->n + 1, BLOCKS);
  cut->places = g_new0(int64_t, cut->n + 1);
  for (unsigned i = 0; i < cut->n; i++)
    cut->places[i] = firsts.places[which] + i;
  cut->moves = true;
  g_free(firsts.places);
}

static void add_cut(Sample *sample, const Classes *at, const GraphTensor *tensor, unsigned d, unsigned n,
                    unsigned which)
{
  unsigned root = root_of(at, dimension_of(tensor, d));
  if (extent(tensor, d) <= n || (at->flags[root] & BLOCKED)) return;
  for (unsigned i = 0; i < sample->n_cuts; i++)
    if (sample->cuts[i].class_ == root) return;
  Cut *cut = &sample->cuts[sample->n_cuts++];
  *cut = (Cut){.class_ = root, .whole = extent(tensor, d)};
  if (at->flags[root] & PLACED) {
    sample->n_blocks = BLOCKS;
    pick_block(cut, cut->whole, n, which);
  } else {
    pick_places(cut, cut->whole, n);
  }
}

void sample_find_cuts(Sample *sample, const SampleSize *size)
{
  const Graph *graph = sample->graph;
  unsigned n = graph->n_tensors * GRAPH_MAX_RANK;
  Classes at = {g_new(unsigned, n + 1), g_new0(uint8_t, n + 1)};
  for (unsigned i = 0; i < n; i++)
    at.parent[i] = i;
  for (unsigned i = 0; i < graph->n_nodes; i++)
    join_node(&at, graph->nodes[i]);
  for (unsigned i = 0; i < graph->n_constants; i++)
    if (!graph->constants[i]->data) block(&at, graph->constants[i]);
  const GraphTensor *output = graph->outputs[0];
  sample->n_blocks = 1;
  for (unsigned i = 0; i < output->rank; i++) {
    unsigned behind = output->rank - 1 - i;
    unsigned most = behind == 0 ? size->columns : behind == 1 ? size->rows : size->batches;
    add_cut(sample, &at, output, i, most, size->block);
  }
  sample->cut_of = g_new0(uint8_t, n + 1);
  for (unsigned i = 0; i < graph->n_tensors; i++)
    for (unsigned d = 0; d < graph->tensors[i]->rank; d++)
      for (unsigned j = 0; j < sample->n_cuts; j++)
        if (extent(graph->tensors[i], d) != 1 &&
            root_of(&at, dimension_of(graph->tensors[i], d)) == sample->cuts[j].class_)
          sample->cut_of[dimension_of(graph->tensors[i], d)] = (uint8_t)(j + 1);
  g_free(at.parent);
  g_free(at.flags);
}

const Cut *sample_cut(const Sample *sample, const GraphTensor *tensor, unsigned d)
{
  unsigned i = sample->cut_of[dimension_of(tensor, d)];
  return i ? &sample->cuts[i - 1] : NULL;
}

/* ---- the graph of the sample ---- */

static void append(Arena *arena, GraphTensor ***list, unsigned *n, GraphTensor *tensor)
{
  GraphTensor **longer = arena_new_array(arena, GraphTensor *, *n + 1);
  memcpy(longer, *list, *n * sizeof *longer);
  longer[(*n)++] = tensor;
  *list = longer;
}

static void set_list(Graph *graph, GraphTensor *tensor, const int64_t *items, unsigned n)
{
  tensor->kind = TENSOR_CONSTANT;
  tensor->producer = NULL;
  tensor->file = NULL;
  tensor->n_elements = n;
  if (tensor->type == NUMBER_S64) {
    tensor->data = arena_memdup(graph->arena, items, n * sizeof *items);
  } else {
    int32_t *narrow = arena_new_array(graph->arena, int32_t, n);
    for (unsigned i = 0; i < n; i++)
      narrow[i] = (int32_t)items[i];
    tensor->data = narrow;
  }
  append(graph->arena, &graph->constants, &graph->n_constants, tensor);
}

/* A constant in the place of a node's input. */
static void replace_list(Graph *graph, GraphNode *node, unsigned input, const int64_t *items, unsigned n)
{
  GraphTensor *tensor = arena_memdup(graph->arena, node->inputs[input], sizeof *tensor);
  node->inputs[input]->n_consumers--;
  tensor->name = arena_printf(graph->arena, "%s.cut%u", tensor->name, graph->n_tensors);
  tensor->n_consumers = 1;
  tensor->index = graph->n_tensors;
  node->inputs[input] = tensor;
  append(graph->arena, &graph->tensors, &graph->n_tensors, tensor);
  set_list(graph, tensor, items, n);
}

/* Indices of a list along which is cut are those of the places; the node is left out. Of several dimensions the one that they count is whole. */
static bool list_places(const Sample *sample, const GraphNode *node)
{
  GraphTensor *y = node->outputs[0];
  const Cut *cut = node->op->id == ONNX_IndexAlong && y->rank == 1 ? sample_cut(sample, y, 0) : NULL;
  if (cut) set_list(sample->graph, y, cut->places, cut->n);
  return cut != NULL;
}

/* Groups of rows of which some are kept are told by an index of each; counts stay counts. */
static void list_groups(const Sample *sample, const GraphNode *node)
{
  const Cut *rows = sample_cut(sample, node->outputs[0], node->outputs[0]->rank - 2);
  GraphAttribute *kind = &node->attributes[graph_attribute(node, "groups") - node->attributes];
  if (!rows || graph_groups(node) == GROUPS_COUNTS || graph_groups(node) == GROUPS_DEPTHS) return;
  kind->text = "index";
  node->attributes[graph_attribute(node, "align") - node->attributes].integer = 1;
  node->inputs[2]->shape[0] = symbolic_constant(sample->graph->arena, rows->n);
}

/* Where the first row that is kept stands: bounds of the distance to it move along. */
static void move_mask(const Sample *sample, GraphNode *node)
{
  const GraphTensor *x = node->inputs[0];
  const Cut *rows = sample_cut(sample, x, x->rank - 2);
  if (!rows) return;
  bool end = graph_attribute(node, "diagonal")->text[0] == 'e';
  int64_t moved = rows->places[0] - (end ? rows->whole - rows->n : 0);
  for (unsigned i = 1; i < node->n_inputs && i < 3; i++) {
    const GraphTensor *bound = node->inputs[i];
    if (!bound) continue;
    g_autofree int64_t *items = g_new0(int64_t, bound->n_elements + 1);
    for (size_t j = 0; j < bound->n_elements; j++) {
      symbolic_is_constant(bound->values[j], &items[j]);
      items[j] += moved;
    }
    replace_list(sample->graph, node, i, items, (unsigned)bound->n_elements);
  }
}

/* The shape that a node asks for is that of its result. */
static void cut_shape(const Sample *sample, GraphNode *node)
{
  const GraphTensor *y = node->outputs[0];
  int64_t items[GRAPH_MAX_RANK];
  bool cut = false;
  for (unsigned d = 0; d < y->rank; d++) {
    const Cut *of = sample_cut(sample, y, d);
    items[d] = of ? of->n : extent(y, d);
    cut |= of != NULL;
  }
  if (!cut) return;
  replace_list(sample->graph, node, 1, items, y->rank);
  node->inputs[1]->shape[0] = symbolic_constant(sample->graph->arena, y->rank);
}

/* What is left of a constant's elements, before its extents are cut. */
static void cut_constant(const Sample *sample, GraphTensor *tensor)
{
  unsigned rank = tensor->rank;
  size_t n = 1;
  bool any = false;
  for (unsigned d = 0; d < rank; d++) {
    const Cut *cut = sample_cut(sample, tensor, d);
    n *= cut ? cut->n : (size_t)extent(tensor, d);
    any |= cut != NULL;
  }
  if (!any || !tensor->data) return;
  uint8_t *data = arena_new_array(sample->graph->arena, uint8_t, number_bytes_of(tensor->type, n));
  const Symbolic **values = arena_new_array(sample->graph->arena, const Symbolic *, n);
  for (size_t i = 0; i < n; i++) {
    size_t rest = i, at = 0, stride = 1;
    for (unsigned d = rank; d-- > 0; stride *= (size_t)extent(tensor, d)) {
      const Cut *cut = sample_cut(sample, tensor, d);
      size_t all = cut ? cut->n : (size_t)extent(tensor, d);
      at += (cut ? (size_t)cut->places[rest % all] : rest % all) * stride;
      rest /= all;
    }
    number_set_bits(tensor->type, number_get_bits(tensor->type, tensor->data, at), data, i);
    if (tensor->values) values[i] = tensor->values[at];
  }
  tensor->data = data;
  tensor->n_elements = n;
  if (tensor->values) tensor->values = values;
}

void sample_cut_graph(Sample *sample)
{
  Graph *graph = sample->graph;
  unsigned n = graph->n_tensors, n_nodes = 0;
  for (unsigned i = 0; i < graph->n_constants; i++)
    cut_constant(sample, graph->constants[i]);
  for (unsigned i = 0; sample->n_cuts && i < graph->n_nodes; i++) {
    GraphNode *node = graph->nodes[i];
    if (list_places(sample, node)) continue;
    node->index = n_nodes;
    graph->nodes[n_nodes++] = node;
    if (node->op->id == ONNX_GroupedMatMul) list_groups(sample, node);
    if (node->op->id == ONNX_Mask) move_mask(sample, node);
    if (node->op->id == ONNX_Reshape || node->op->id == ONNX_Expand) cut_shape(sample, node);
  }
  if (sample->n_cuts) graph->n_nodes = n_nodes;
  for (unsigned i = 0; i < n; i++)
    for (unsigned d = 0; d < graph->tensors[i]->rank; d++) {
      const Cut *cut = sample_cut(sample, graph->tensors[i], d);
      if (cut) graph->tensors[i]->shape[d] = symbolic_constant(graph->arena, cut->n);
    }
}
