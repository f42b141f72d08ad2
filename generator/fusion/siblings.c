/* Rewrite join_siblings: elementwise kernels of one shape that read the same tensors become one, which reads these once:
 * both results of a rotation, say, of two halves of each head. */
#include "generator/fusion/private.h"

bool fuser_is_elementwise(const Group *group)
{
  if (group->absorbed || group->anchor) return false;
  for (unsigned i = 0; i < group->nodes->len; i++)
    if (((GraphNode *)group->nodes->pdata[i])->op->class_ != OPERATOR_ELEMENTWISE) return false;
  return true;
}

/* Some tensor as large as both kernels' points is read by both from memory. */
static bool share(const Fuser *fuser, const Group *a, const Group *b)
{
  for (unsigned i = 0; i < a->nodes->len; i++) {
    const GraphNode *node = a->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++) {
      const GraphTensor *input = node->inputs[j];
      const GraphNode *producer = input && !fuser_is_view(input) ? fuser->producers[input->index] : NULL;
      bool inside = producer && fuser_group(fuser, producer) == a;
      if (input && !inside && graph_same_shape(input, group_shape(a)) && group_reads(b, input)) return true;
    }
  }
  return false;
}

/* Nothing of one kernel waits for the other. */
static bool is_apart(Fuser *fuser, const Group *a, const Group *b)
{
  for (unsigned i = 0; i < a->nodes->len; i++) {
    const GraphNode *node = a->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++)
      for (unsigned k = 0; k < fuser_n_writers(node->inputs[j]); k++) {
        const GraphNode *producer = fuser_writer(fuser, node->inputs[j], k);
        if (producer && fuser_group(fuser, producer) == b) return false;
      }
    if (!fuser_is_acyclic(fuser, node, b, a)) return false;
  }
  return true;
}

bool fuser_are_apart(Fuser *fuser, const Group *a, const Group *b)
{
  return is_apart(fuser, a, b) && is_apart(fuser, b, a);
}

static bool may_join(Fuser *fuser, Group *a, Group *b)
{
  if (!fuser_is_elementwise(b) || !graph_same_shape(group_shape(a), group_shape(b))) return false;
  if (a->nodes->len + b->nodes->len > fuser->max_steps || a->work + b->work > fuser->max_work) return false;
  return share(fuser, a, b) && fuser_are_apart(fuser, a, b);
}

static int by_place(const void *a, const void *b)
{
  unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
  return x < y ? -1 : x > y;
}

/* Places in the list of groups, behind `from`, of those that read what the group reads, in order; g_array_unref. */
static GArray *find_readers(const Fuser *fuser, GHashTable *places, const Group *group, unsigned from)
{
  GArray *found = g_array_new(FALSE, FALSE, sizeof(unsigned));
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++) {
      const GPtrArray *readers = node->inputs[j] ? fuser->readers[node->inputs[j]->index] : NULL;
      unsigned first = 0, last = 0;
      if (readers) fuser_nearest_readers(readers, node, &first, &last);
      for (unsigned k = first; k < last; k++) {
        unsigned place = GPOINTER_TO_UINT(g_hash_table_lookup(places, fuser_group(fuser, readers->pdata[k])));
        if (place > from) g_array_append_val(found, place);
      }
    }
  }
  g_array_sort(found, by_place);
  return found;
}

static void join_siblings(Fuser *fuser, GHashTable *places, Group *group, unsigned place)
{
  g_autoptr(GArray) near = find_readers(fuser, places, group, place);
  unsigned i = 0;
  while (i < near->len && fuser_is_elementwise(group)) {
    unsigned at = g_array_index(near, unsigned, i++);
    Group *other = fuser->groups->pdata[at];
    if (!may_join(fuser, group, other)) continue;
    if (!fuser_joined_program(fuser, group, other))
      return; /* it is full: thousands of siblings are not tried one by one */
    fuser_note(fuser, "`%s` and `%s` are computed together: both kernels read the same",
               group_shape(group)->name, group_shape(other)->name);
    fuser_absorb(fuser, group, other);
    g_array_unref(near);
    near = find_readers(fuser, places, group, at);
    i = 0;
  }
}

void fusion_join_siblings(Fuser *fuser)
{
  g_autoptr(GHashTable) places = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < fuser->groups->len; i++)
    g_hash_table_insert(places, fuser->groups->pdata[i], GUINT_TO_POINTER(i));
  for (unsigned i = 0; i < fuser->groups->len; i++)
    if (fuser_is_elementwise(fuser->groups->pdata[i]))
      join_siblings(fuser, places, fuser->groups->pdata[i], i);
}
