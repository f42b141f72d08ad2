/* Rewrite make_views: Split, Slice, Transpose and Expand cost no kernel where their readers can read the input where it
 * lies: a part begins behind the elements before it, a transposed tensor has its strides in another order, what repeats has
 * strides of 0. Kernels know a view by the index and name of the tensor whose memory it is, so what a group
 * computes is never taken for a view of it: who reads a view reads memory. Other shapes of the same elements: reshape.c.
 *
 * Concat is the same for writers: each of its inputs is copied to a part of the result, which is a view of
 * it, and a copy is a node like others, so who computes the input stores it there. An operator that is a kernel of its own, which no copy can
 * join, has the part as its result. */
#include "generator/fusion/private.h"
#include <string.h>

/* Steps back are for copies only: no kernel but an elementwise one walks backwards. */
static GraphTensor *slice_of(Fuser *fuser, const GraphTensor *tensor, const GraphNode *node, bool *back)
{
  const GraphTensor *slice = tensor;
  *back = false;
  for (unsigned i = 0; i < tensor->rank; i++) {
    const Symbolic *extent = node->outputs[0]->shape[i];
    GraphTensor *part = fuser_part_of(fuser, slice, i, node->firsts[i], extent);
    if (node->steps[i] != 1)
      part->strides[i] =
          symbolic_mul(fuser->arena, part->strides[i], symbolic_constant(fuser->arena, node->steps[i]));
    *back = *back || node->steps[i] < 0;
    slice = part;
  }
  return (GraphTensor *)slice;
}

static GraphTensor *transposed(Fuser *fuser, const GraphTensor *tensor, const unsigned *order)
{
  GraphTensor *view = fuser_view_of(fuser, tensor);
  for (unsigned i = 0; i < tensor->rank; i++) {
    view->shape[i] = tensor->shape[order[i]];
    view->strides[i] = tensor->strides[order[i]];
  }
  return view;
}

/* The graph gives the output in memory of its own. */
static GraphNode *copy_out(Fuser *fuser, const GraphNode *node, GraphTensor *view, GraphTensor *output)
{
  fuser_note(fuser, "`%s` of %s is copied: the graph gives it", output->name, node->op->name);
  return fuser_copy_node(fuser, node, view, output);
}

/* Is the Transpose of what one node computes for it alone, and do rows stay rows? Then who computes it stores it where they belong. */
static bool keeps_rows(const GraphNode *node)
{
  const GraphTensor *input = node->inputs[0];
  return node->op->id == ONNX_Transpose && !node->outputs[0]->n_consumers && input->producer &&
         !input->is_output && !fuser_is_view(input) && !input->n_parts && input->n_consumers == 1 &&
         input->rank > 1 && node->order[input->rank - 1] == input->rank - 1;
}

/* ---- Concat ---- */

static bool keeps_order(const GraphNode *node)
{
  OperatorId op = node->op->id;
  return op == ONNX_Reshape || op == ONNX_Flatten || op == ONNX_Squeeze || op == ONNX_Unsqueeze;
}

/* The node that reads the tensor, once, and no other does; NULL: it is otherwise. */
static GraphNode *only_reader(Fuser *fuser, const GraphTensor *tensor)
{
  const GPtrArray *readers = fuser_later_readers(fuser, tensor);
  if (!readers || readers->len != 1) return NULL;
  GraphNode *node = readers->pdata[0];
  unsigned n = 0;
  for (unsigned j = 0; j < node->n_inputs; j++)
    n += node->inputs[j] == tensor;
  return n == 1 ? node : NULL;
}

/* Where a Concat's only reader gives the same elements in another shape: that, which then has the parts, seen in the
 * Concat's shape. The reader goes. */
static GraphTensor *shown_otherwise(Fuser *fuser, const GraphNode *node, GraphTensor **other)
{
  GraphTensor *output = node->outputs[0];
  GraphNode *reader = output->is_output ? NULL : only_reader(fuser, output);
  if (!reader || reader->inputs[0] != output || !keeps_order(reader)) return NULL;
  *other = reader->outputs[0];
  GraphTensor *view = fuser_view_of(fuser, *other);
  view->rank = output->rank;
  memcpy(view->shape, output->shape, sizeof output->shape);
  memcpy(view->strides, output->strides, sizeof output->strides);
  g_ptr_array_remove(fuser->live, reader);
  return view;
}

/* Does its kernel store results wherever their strides say? Others write numbers one behind the other. */
static bool stores_parts(const GraphNode *node)
{
  return node && (node->op->id == ONNX_VarlenAttention || node->op->id == ONNX_AttentionGradPart);
}

/* The operator that is a kernel of its own, gives the input, and gives it to nobody else, then gives the part. */
static bool give_part(Fuser *fuser, const GraphTensor *input, GraphTensor *part)
{
  bool own = stores_parts(input->producer) && !input->is_output && !input->memory && !input->whole &&
             only_reader(fuser, input);
  for (unsigned i = 0; own && i < fuser->live->len; i++) {
    GraphNode *node = fuser->live->pdata[i];
    if (!stores_parts(node)) continue;
    for (unsigned j = 0; j < node->n_outputs; j++)
      if (node->outputs[j] == input) {
        fuser_note(fuser, "`%s` of %s is written to its part", input->name, node->op->name);
        node->outputs = arena_memdup(fuser->arena, node->outputs,
                                     node->n_outputs * sizeof *node->outputs); /* the graph has the array */
        node->outputs[j] = part;
        part->producer = node;
        return true;
      }
  }
  return false;
}

static void write_parts(Fuser *fuser, const GraphNode *node, GPtrArray *copies)
{
  Arena *arena = fuser->arena;
  GraphTensor *read = node->outputs[0], *shown = shown_otherwise(fuser, node, &read),
              *output = shown ? shown : read, *whole = arena_memdup(arena, read, sizeof *read);
  const GraphTensor **parts = arena_new_array(arena, const GraphTensor *, node->n_inputs);
  unsigned axis = (unsigned)__builtin_ctz(node->axes);
  const Symbolic *first = symbolic_constant(arena, 0);
  whole->parts = parts;
  for (unsigned i = 0; i < node->n_inputs; i++) {
    GraphTensor *input = node->inputs[i];
    const Symbolic *extent = input->shape[axis];
    if (symbolic_equals(extent, 0)) continue;
    GraphTensor *part = fuser_part_of(fuser, output, axis, first, extent);
    part->index = fuser->tensors->len;
    part->is_output = true; /* who computes it stores it */
    part->whole = whole;
    g_ptr_array_add(fuser->tensors, part);
    parts[whole->n_parts++] = part;
    first = symbolic_add(arena, first, extent);
    if (give_part(fuser, input, part)) continue;
    GraphNode *copy = fuser_copy_node(fuser, node, input, part);
    part->producer = copy;
    g_ptr_array_add(copies, copy);
  }
  fuser_note(fuser, "`%s` is written in %u parts", output->name, whole->n_parts);
  fuser_replace_input(fuser, read, whole);
}

/* ---- all ---- */

/* `copies` gets the nodes that stand for the one that is gone. */
static void replace_node(Fuser *fuser, const GraphNode *node, GPtrArray *copies)
{
  const GraphTensor *input = node->inputs[0];
  const Symbolic *first = symbolic_constant(fuser->arena, 0);
  for (unsigned i = 0; i < node->n_outputs; i++) {
    GraphTensor *output = node->outputs[i], *view;
    bool back = false;
    if (node->op->id == ONNX_Transpose)
      view = transposed(fuser, input, node->order);
    else if (node->op->id == ONNX_Slice)
      view = slice_of(fuser, input, node, &back);
    else if (node->op->id == ONNX_Expand)
      view = fuser_expanded(fuser, input, output);
    else
      view = fuser_part_of(fuser, input, (unsigned)__builtin_ctz(node->axes), first, node->sizes[i]);
    if (node->op->id == ONNX_Split) first = symbolic_add(fuser->arena, first, node->sizes[i]);
    if (!output) continue;
    if (back) {
      fuser_note(fuser, "`%s` of %s is copied: it goes backwards", output->name, node->op->name);
      g_ptr_array_add(copies, fuser_copy_node(fuser, node, view, output));
      continue;
    }
    if (output->n_consumers)
      fuser_note(fuser, "`%s` is read where `%s` lies: %s costs no kernel", output->name, input->name,
                 node->op->name);
    fuser_replace_input(fuser, output, view);
    if (output->is_output)
      g_ptr_array_add(copies, keeps_rows(node) ? fuser_write_view(fuser, node, view)
                                               : copy_out(fuser, node, view, output));
  }
}

bool fusion_make_views(Fuser *fuser, unsigned place)
{
  GPtrArray *live = fuser->live;
  const GraphNode *node = live->pdata[place];
  if (node->op->class_ != OPERATOR_VIEW) return false;
  g_autoptr(GPtrArray) copies = g_ptr_array_new();
  if (keeps_order(node)) {
    GraphNode *copy = fuser_reshape(fuser, node);
    if (copy) g_ptr_array_add(copies, copy);
  } else {
    (node->op->id == ONNX_Concat ? write_parts : replace_node)(fuser, node, copies);
  }
  g_ptr_array_remove_index(live, place);
  for (unsigned j = 0; j < copies->len; j++) {
    g_ptr_array_insert(live, (gint)(place + j), copies->pdata[j]);
    fuser_add_reader(fuser, copies->pdata[j]);
  }
  return true;
}
