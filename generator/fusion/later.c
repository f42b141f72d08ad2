/* Who of the live nodes reads a tensor, while they are visited in order: looking at all of them for each view of a long chain would take
 * quadratic time. */
#include "generator/fusion/private.h"

static void add_later(Fuser *fuser, const GraphTensor *tensor, GraphNode *node)
{
  GPtrArray *list = g_hash_table_lookup(fuser->later, tensor);
  if (!list) g_hash_table_insert(fuser->later, (void *)tensor, list = g_ptr_array_new());
  if (!list->len || list->pdata[list->len - 1] != node) g_ptr_array_add(list, node);
}

void fuser_add_reader(Fuser *fuser, GraphNode *node)
{
  for (unsigned j = 0; fuser->later && j < node->n_inputs; j++)
    if (node->inputs[j]) add_later(fuser, node->inputs[j], node);
}

static void free_list(void *list)
{
  g_ptr_array_unref(list);
}

GPtrArray *fuser_later_readers(Fuser *fuser, const GraphTensor *tensor)
{
  if (!fuser->later) {
    fuser->later = g_hash_table_new_full(NULL, NULL, NULL, free_list);
    for (unsigned i = 0; i < fuser->live->len; i++)
      fuser_add_reader(fuser, fuser->live->pdata[i]);
  }
  return g_hash_table_lookup(fuser->later, tensor);
}

void fuser_forget_readers(Fuser *fuser)
{
  g_clear_pointer(&fuser->later, g_hash_table_unref);
}

static void replace_in(GraphNode *node, const GraphTensor *old, GraphTensor *by)
{
  for (unsigned j = 0; j < node->n_inputs; j++)
    if (node->inputs[j] == old) node->inputs[j] = by;
}

void fuser_replace_input(Fuser *fuser, const GraphTensor *old, GraphTensor *by)
{
  if (!fuser->later) {
    for (unsigned i = 0; i < fuser->live->len; i++)
      replace_in(fuser->live->pdata[i], old, by);
    return;
  }
  g_autoptr(GPtrArray) readers = fuser_later_readers(fuser, old);
  if (!readers) return;
  g_hash_table_steal(fuser->later, old);
  for (unsigned i = 0; i < readers->len; i++) {
    replace_in(readers->pdata[i], old, by);
    fuser_add_reader(fuser, readers->pdata[i]);
  }
}
