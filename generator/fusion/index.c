/* Who computes and reads what: filled when the nodes are final, before grouping. */
#include "generator/fusion/private.h"

void fuser_index(Fuser *fuser)
{
  unsigned n = fuser->tensors->len;
  fuser->producers = g_new0(GraphNode *, n + 1);
  fuser->readers = g_new0(GPtrArray *, n + 1);
  for (unsigned i = 0; i < n; i++)
    fuser->readers[i] = g_ptr_array_new();
  for (unsigned i = 0; i < fuser->nodes->len; i++) {
    GraphNode *node = fuser->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_outputs; j++)
      if (node->outputs[j]) fuser->producers[node->outputs[j]->index] = node;
    for (unsigned j = 0; j < node->n_inputs; j++) {
      if (!node->inputs[j]) continue;
      GPtrArray *list = fuser->readers[node->inputs[j]->index];
      if (!list->len || list->pdata[list->len - 1] != node) g_ptr_array_add(list, node);
    }
  }
}

#define MOST_READERS                                                                                         \
  128 /* of a tensor, of which more than these are not looked at one by one for each of thousands */

void fuser_nearest_readers(const GPtrArray *readers, const GraphNode *node, unsigned *first, unsigned *last)
{
  unsigned low = 0, high = readers->len;
  *first = 0;
  *last = readers->len;
  if (readers->len <= MOST_READERS) return;
  while (low < high) {
    unsigned middle = low + (high - low) / 2;
    if (((const GraphNode *)readers->pdata[middle])->index < node->index)
      low = middle + 1;
    else
      high = middle;
  }
  *first = MIN(low - MIN(low, MOST_READERS / 2), readers->len - MOST_READERS);
  *last = *first + MOST_READERS;
}

void fuser_unindex(Fuser *fuser)
{
  for (unsigned i = 0; fuser->readers && i < fuser->tensors->len; i++)
    g_ptr_array_unref(fuser->readers[i]);
  g_clear_pointer(&fuser->readers, g_free);
  g_clear_pointer(&fuser->producers, g_free);
}

Group *fuser_group(const Fuser *fuser, const GraphNode *node)
{
  return fuser->group_of[node->index];
}

unsigned fuser_n_writers(const GraphTensor *tensor)
{
  return !tensor ? 0 : tensor->n_parts ? tensor->n_parts : 1;
}

GraphNode *fuser_writer(const Fuser *fuser, const GraphTensor *tensor, unsigned i)
{
  return fuser->producers[tensor->n_parts ? tensor->parts[i]->index : tensor->index];
}

bool fuser_points_elsewhere(const GraphNode *reader, const GraphTensor *tensor)
{
  if (reader->op->class_ != OPERATOR_INDEX) return false;
  bool elements = reader->op->id == ONNX_GatherElements,
       flat = reader->op->id == ONNX_Gather && reader->inputs[0]->rank == 1;
  return !(elements || flat) || tensor != reader->inputs[1] || tensor == reader->inputs[0];
}

bool fuser_in_memory_only(const GraphNode *reader, const GraphTensor *tensor, const GraphNode *producer)
{
  return fuser_points_elsewhere(reader, tensor) || fuser_is_view(tensor) || tensor->n_parts ||
         tensor != producer->outputs[0] || producer->op->class_ == OPERATOR_SEQUENCES;
}

/* A value for each row of a kernel of two products, without the dimension that its other values have. */
static bool is_row_sum(const GraphTensor *tensor, const GraphNode *producer, const Group *group)
{
  return group->chained && producer->op->class_ == OPERATOR_ROW && tensor->rank < producer->inputs[0]->rank;
}

bool fuser_reads_back(const Fuser *fuser, const GraphNode *node, const Group *group)
{
  for (unsigned i = 0; i < node->n_inputs; i++)
    for (unsigned j = 0; j < fuser_n_writers(node->inputs[i]); j++) {
      const GraphNode *producer = fuser_writer(fuser, node->inputs[i], j);
      if (producer && fuser_group(fuser, producer) == group &&
          (fuser_in_memory_only(node, node->inputs[i], producer) ||
           is_row_sum(node->inputs[i], producer, group)))
        return true;
    }
  return false;
}

bool fuser_is_private(const Fuser *fuser, const GraphTensor *tensor, const GraphNode *node)
{
  const GPtrArray *list = fuser->readers[tensor->index];
  return !tensor->is_output && list->len == 1 && list->pdata[0] == node;
}

GraphNode **fuser_live_producers(const Fuser *fuser)
{
  GraphNode **producers = g_new0(GraphNode *, fuser->tensors->len + 1);
  for (unsigned i = 0; i < fuser->live->len; i++) {
    GraphNode *node = fuser->live->pdata[i];
    for (unsigned j = 0; j < node->n_outputs; j++)
      if (node->outputs[j]) producers[node->outputs[j]->index] = node;
  }
  return producers;
}

GraphNode *fuser_computes(GraphNode *const *producers, const GraphTensor *tensor)
{
  bool computed = tensor && tensor->kind == TENSOR_COMPUTED && !fuser_is_view(tensor) && !tensor->n_parts;
  return computed ? producers[tensor->index] : NULL;
}
