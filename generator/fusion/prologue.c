/* Rewrite take_prologue: a row operator's group takes the elementwise group that computes its operand, if nobody else
 * reads that. */
#include "generator/fusion/private.h"

static void take_prologue(Fuser *fuser, GraphNode *node)
{
  Group *group = fuser_group(fuser, node);
  const GraphTensor *source = node->inputs[0];
  const GraphNode *producer = fuser->producers[source->index];
  if (!producer || fuser_is_view(source)) return;
  Group *before = fuser_group(fuser, producer);
  if (before->anchor || before->nodes->len >= fuser->max_steps) return;
  for (unsigned i = 0; i < before->nodes->len; i++) { /* everything stays inside */
    const GraphTensor *tensor = ((GraphNode *)before->nodes->pdata[i])->outputs[0];
    const GPtrArray *list = fuser->readers[tensor->index];
    bool stays = !tensor->is_output && graph_same_shape(tensor, source);
    for (unsigned j = 0; j < list->len; j++)
      stays = stays && (list->pdata[j] == node || fuser_group(fuser, list->pdata[j]) == before);
    if (!stays) {
      fuser_note(fuser, "%s reads `%s` from memory: others need `%s`", node->op->name, source->name,
                 tensor->name);
      return;
    }
  }
  for (unsigned i = 1; i < node->n_inputs; i++) { /* its scale must not come from there as well */
    const GraphNode *other = node->inputs[i] ? fuser->producers[node->inputs[i]->index] : NULL;
    if (other && fuser_group(fuser, other) == before) return;
  }
  if (!fuser_is_acyclic(fuser, node, before, NULL)) return;
  Group trial = *group;
  trial.nodes = g_ptr_array_copy(before->nodes, NULL, NULL);
  g_ptr_array_add(trial.nodes, node);
  ProgramVerdict verdict = fuser_judge(fuser, &trial, NULL, false);
  g_ptr_array_unref(trial.nodes);
  if (verdict.taken)
    fuser_absorb(fuser, group, before);
  else
    fuser_note(fuser, "%s reads `%s` from memory: %s", node->op->name, source->name, verdict.why);
}

bool fusion_take_prologue(Fuser *fuser, unsigned place)
{
  GraphNode *node = fuser->nodes->pdata[place];
  if (node->op->class_ == OPERATOR_ROW) take_prologue(fuser, node);
  return false;
}
