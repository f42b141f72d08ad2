/* Views of tensors and who reads them: below the rewrites that make some. */
#include "generator/fusion/private.h"

#define WIDEST_ALIGN 256

bool fuser_is_view(const GraphTensor *tensor)
{
  return tensor->begins != NULL;
}

static bool reads_view_of(const GPtrArray *nodes, const GraphTensor *tensor)
{
  for (unsigned i = 0; nodes && i < nodes->len; i++) {
    const GraphNode *node = nodes->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++)
      if (node->inputs[j] && node->inputs[j]->index == tensor->index && fuser_is_view(node->inputs[j]))
        return true;
  }
  return false;
}

bool fuser_is_viewed(const Fuser *fuser, const GPtrArray *live, const GraphTensor *tensor)
{
  return reads_view_of(live ? live : fuser->nodes, tensor) || (live && reads_view_of(fuser->nodes, tensor));
}

GraphTensor *fuser_view_of(Fuser *fuser, const GraphTensor *tensor)
{
  GraphTensor *view = arena_memdup(fuser->arena, tensor, sizeof *tensor);
  view->is_output = false;
  if (!view->begins) view->begins = symbolic_constant(fuser->arena, 0);
  return view;
}

GraphTensor *fuser_part_of(Fuser *fuser, const GraphTensor *tensor, unsigned dimension, const Symbolic *first,
                           const Symbolic *extent)
{
  GraphTensor *part = fuser_view_of(fuser, tensor);
  const Symbolic *before = symbolic_mul(fuser->arena, first, tensor->strides[dimension]);
  part->shape[dimension] = extent;
  part->begins = symbolic_add(fuser->arena, part->begins, before);
  part->align = MIN(part->align, WIDEST_ALIGN);
  while (part->align > number_bytes_of(tensor->type, 1) &&
         !symbolic_divisible(part->begins, number_elements(tensor->type, part->align), &fuser->graph->facts))
    part->align /= 2;
  return part;
}

GraphTensor *fuser_own_tensor(Fuser *fuser, const GraphTensor *tensor)
{
  GraphTensor *own = arena_memdup(fuser->arena, tensor, sizeof *tensor);
  fuser->tensors->pdata[tensor->index] = own;
  fuser_replace_input(fuser, tensor, own);
  return own;
}
