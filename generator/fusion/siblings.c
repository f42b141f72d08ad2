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

void fusion_join_siblings(Fuser *fuser)
{
  for (unsigned i = 0; i < fuser->groups->len; i++) {
    Group *group = fuser->groups->pdata[i];
    for (unsigned j = i + 1; j < fuser->groups->len && fuser_is_elementwise(group); j++) {
      Group *other = fuser->groups->pdata[j];
      if (!may_join(fuser, group, other)) continue;
      if (!fuser_joined_program(fuser, group, other))
        break; /* it is full: thousands of siblings are not tried one by one */
      fuser_note(fuser, "`%s` and `%s` are computed together: both kernels read the same",
                 group_shape(group)->name, group_shape(other)->name);
      fuser_absorb(fuser, group, other);
    }
  }
}
