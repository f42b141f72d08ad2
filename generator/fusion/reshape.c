/* Part of rewrite make_views: Reshape, Flatten, Squeeze, Unsqueeze and Expand.
 *
 * Where the input's dimensions lie so that the result's can be told by strides, readers of the result read the input where it
 * lies. Otherwise, and where the graph gives the result, the result is memory of its own in which the input has a
 * shape of its own: a copy writes it there, and who computes the input takes the copy along. What was transposed or reshaped on
 * the way is written from where it was computed, so heads go back to their places without a kernel. */
#include "generator/fusion/private.h"
#include <string.h>

/* ---- strides of the same elements in another shape ---- */

typedef struct {
  Arena *arena;
  const GraphTensor *from;
  GraphTensor *to;
} Reshaping;

/* Elements of dims[0 .. n - 1]. */
static const Symbolic *count(Arena *arena, const Symbolic *const *dims, unsigned n)
{
  const Symbolic *product = symbolic_constant(arena, 1);
  for (unsigned i = 0; i < n; i++)
    product = symbolic_mul(arena, product, dims[i]);
  return product;
}

/* Dimensions first .. end - 1 are walked by one index: none of them has more than one, or each begins where
 * the one inside of it ends. */
static const Symbolic *common_stride(Arena *arena, const GraphTensor *tensor, unsigned first, unsigned end)
{
  const Symbolic *stride = NULL, *innermost = NULL;
  for (unsigned d = end; d-- > first;) {
    if (symbolic_equals(tensor->shape[d], 1)) continue;
    if (innermost && !symbolic_same(tensor->strides[d], stride)) return NULL;
    if (!innermost) innermost = tensor->strides[d];
    stride = symbolic_mul(arena, tensor->strides[d], tensor->shape[d]);
  }
  return innermost ? innermost : symbolic_constant(arena, 1);
}

/* Dimensions `at` .. to_end - 1 of the result are `from` .. from_end - 1 of the tensor. */
static bool divide_run(const Reshaping *reshaping, unsigned from, unsigned from_end, unsigned at,
                       unsigned to_end)
{
  GraphTensor *to = reshaping->to;
  const Symbolic *stride = common_stride(reshaping->arena, reshaping->from, from, from_end);
  for (unsigned d = to_end; stride && d-- > at;) {
    to->strides[d] = stride;
    stride = symbolic_mul(reshaping->arena, stride, to->shape[d]);
  }
  return stride != NULL;
}

/* The shortest runs of dimensions that hold the same elements, from the outermost on; what has no end in common is
 * one run up to the last dimension. */
static bool divide_strides(const Reshaping *reshaping)
{
  Arena *arena = reshaping->arena;
  const GraphTensor *from = reshaping->from, *to = reshaping->to;
  unsigned i = 0, j = 0;
  while (i < from->rank || j < to->rank) {
    unsigned from_end = from->rank, to_end = to->rank;
    for (unsigned a = i + 1; a < from->rank && from_end == from->rank; a++)
      for (unsigned b = j + 1; b < to->rank && from_end == from->rank; b++)
        if (symbolic_same(count(arena, from->shape + i, a - i), count(arena, to->shape + j, b - j)))
          from_end = a, to_end = b;
    if (!divide_run(reshaping, i, from_end, j, to_end)) return false;
    i = from_end;
    j = to_end;
  }
  return true;
}

/* A view of the tensor in the shape of `like`, which has as many elements; NULL if no strides tell it. */
static GraphTensor *reshaped(Fuser *fuser, const GraphTensor *tensor, const GraphTensor *like)
{
  GraphTensor *view = fuser_view_of(fuser, tensor);
  view->rank = like->rank;
  memcpy(view->shape, like->shape, sizeof view->shape);
  Reshaping reshaping = {fuser->arena, tensor, view};
  return divide_strides(&reshaping) ? view : NULL;
}

/* ---- Expand ---- */

GraphTensor *fuser_expanded(Fuser *fuser, const GraphTensor *tensor, const GraphTensor *like)
{
  GraphTensor *view = fuser_view_of(fuser, tensor);
  const Symbolic *nothing = symbolic_constant(fuser->arena, 0);
  view->rank = like->rank;
  for (unsigned d = 0; d < like->rank; d++) {
    bool has = d + tensor->rank >= like->rank;
    unsigned from = has ? d + tensor->rank - like->rank : 0;
    bool repeats = !has || !symbolic_same(tensor->shape[from], like->shape[d]);
    view->shape[d] = like->shape[d];
    view->strides[d] = repeats ? nothing : tensor->strides[from];
  }
  return view;
}

/* ---- results with memory of their own ---- */

/* Dimensions first .. of the tensor, not yet taken, that one of the view's walks along together: their end, or `first`. Nobody
 * walks along a single element, such as a batch of one, whatever its stride. */
static unsigned walked_together(Arena *arena, const GraphTensor *tensor, unsigned first,
                                const GraphTensor *view, unsigned at)
{
  for (unsigned end = first + 1; end <= tensor->rank; end++) {
    const Symbolic *stride = common_stride(arena, tensor, first, end);
    bool single = symbolic_equals(view->shape[at], 1);
    if (stride && (single || symbolic_same(stride, view->strides[at])) &&
        symbolic_same(count(arena, tensor->shape + first, end - first), view->shape[at]))
      return end;
  }
  return first;
}

/* The tensor whose elements a view shows, all of them, each once, with its dimensions, or several of them as one, in
 * another order: order[i] is the view's dimension that has its i-th. NULL: it is no such view. */
static GraphTensor *unpermuted(const Fuser *fuser, const GraphTensor *view, unsigned *order)
{
  GraphTensor *tensor = fuser->tensors->pdata[view->index];
  uint32_t taken = 0;
  if (!tensor || tensor->rank < view->rank || !symbolic_equals(view->begins, 0)) return NULL;
  for (unsigned d = 0; d < tensor->rank;) {
    unsigned at = 0, end = d;
    for (; at < view->rank; at++)
      if (!(taken >> at & 1) && (end = walked_together(fuser->arena, tensor, d, view, at)) > d) break;
    if (at == view->rank) return NULL;
    taken |= 1u << at;
    while (d < end)
      order[d++] = at;
  }
  return taken + 1 == 1u << view->rank ? tensor : NULL;
}

/* Both in row-major order, from the first to the last element. */
static GraphTensor *unreshaped(Fuser *fuser, const GraphTensor *view)
{
  GraphTensor *tensor = fuser->tensors->pdata[view->index];
  if (!tensor || !symbolic_equals(view->begins, 0) ||
      !symbolic_same(count(fuser->arena, view->shape, view->rank),
                     count(fuser->arena, tensor->shape, tensor->rank)))
    return NULL;
  const Symbolic *inner = common_stride(fuser->arena, view, 0, view->rank),
                 *own = common_stride(fuser->arena, tensor, 0, tensor->rank);
  return inner && own && symbolic_equals(inner, 1) && symbolic_equals(own, 1) ? tensor : NULL;
}

static void lay_out(Arena *arena, GraphTensor *part, const GraphTensor *like)
{
  const Symbolic *stride = symbolic_constant(arena, 1);
  part->rank = like->rank;
  for (unsigned d = like->rank; d-- > 0;) {
    part->shape[d] = like->shape[d];
    part->strides[d] = stride;
    stride = symbolic_mul(arena, stride, like->shape[d]);
  }
}

/* What is copied, and into `part` the shape and strides that it has in the result's memory. */
static GraphTensor *place_source(Fuser *fuser, GraphTensor *input, GraphTensor *part)
{
  unsigned order[GRAPH_MAX_RANK];
  lay_out(fuser->arena, part, input);
  if (!fuser_is_view(input)) return input;
  GraphTensor *tensor = unpermuted(fuser, input, order);
  if (tensor && tensor->producer && !fuser_is_view(tensor)) {
    const GraphTensor laid = *part;
    part->rank = tensor->rank;
    for (unsigned d = tensor->rank; d-- > 0;) {
      bool inner = d + 1 < tensor->rank && order[d + 1] == order[d]; /* of what is one dimension there */
      part->shape[d] = tensor->shape[d];
      part->strides[d] = inner ? symbolic_mul(fuser->arena, part->strides[d + 1], part->shape[d + 1])
                               : laid.strides[order[d]];
    }
    return tensor;
  }
  tensor = unreshaped(fuser, input);
  if (!tensor || !tensor->producer || fuser_is_view(tensor)) return input;
  lay_out(fuser->arena, part, tensor);
  return tensor;
}

GraphNode *fuser_write_view(Fuser *fuser, const GraphNode *node, GraphTensor *view)
{
  GraphTensor *output = node->outputs[0], *whole = arena_memdup(fuser->arena, output, sizeof *output);
  GraphTensor *part = fuser_view_of(fuser, output);
  GraphTensor *source = place_source(fuser, view, part);
  part->index = fuser->tensors->len;
  part->is_output = true; /* who computes it stores it */
  part->whole = whole;
  g_ptr_array_add(fuser->tensors, part);
  whole->parts = arena_memdup(fuser->arena, &part, sizeof part);
  whole->n_parts = 1;
  GraphNode *copy = fuser_copy_node(fuser, node, source, part);
  part->producer = copy;
  fuser_note(fuser, "`%s` is written in the shape of `%s`", output->name, source->name);
  fuser_replace_input(fuser, output, whole);
  return copy;
}

GraphNode *fuser_reshape(Fuser *fuser, const GraphNode *node)
{
  const GraphTensor *input = node->inputs[0];
  GraphTensor *output = node->outputs[0];
  GraphTensor *view = output->is_output ? NULL : reshaped(fuser, input, output);
  if (!view) return fuser_write_view(fuser, node, node->inputs[0]);
  fuser_note(fuser, "`%s` is read where `%s` lies: %s costs no kernel", output->name, input->name,
             node->op->name);
  fuser_replace_input(fuser, output, view);
  return NULL;
}
