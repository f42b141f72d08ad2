/* Rewrite join_producers: an elementwise node joins the group of a producer if
 *   - their shapes agree (no value would be computed more than once),
 *   - what it joins stays in the group: a matrix product or row operator stores one result,
 *   - no path leads from the group through another one back to the node,
 *   - the judge has kernels for both: those of anchored groups.
 * Elementwise groups of its other producers come along. */
#include "generator/fusion/private.h"
#include "generator/fusion/steps_operations.h"

#define NARROW_TENSORS 8 /* hold as many registers as one that has values for each of a thread's elements */

typedef struct {
  Fuser *fuser;
  const Group *a, *b;
  const GraphNode *node;
  GHashTable *counted, *narrow; /* narrow: one value a row */
} TensorCount;

static bool is_counted_inside(const TensorCount *count, const GraphNode *node)
{
  const Group *group = node ? fuser_group(count->fuser, node) : NULL;
  return node == count->node || (group && (group == count->a || group == count->b));
}

/* Does the node read one value of the input for a whole row? A thread, which has elements of one row, holds it once. */
static bool is_narrow(const GraphNode *node, unsigned input)
{
  const GraphTensor *tensor = node->inputs[input];
  bool index = node->op->id == ONNX_Gather && input == 1;
  if (index) return __builtin_ctz(node->axes) + 1 < (int)node->inputs[0]->rank;
  return tensor->rank && (symbolic_equals(tensor->shape[tensor->rank - 1], 1) ||
                          symbolic_equals(tensor->strides[tensor->rank - 1], 0));
}

/* What the node reads of other kernels, and what it computes for nodes that are not inside (yet): so many values
 * are alive at once, at least. */
static void count_node(const TensorCount *count, const GraphNode *node)
{
  double number; /* stands in the kernel's text */
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] && !graph_scalar(node->inputs[i], &number) &&
        !is_counted_inside(count, count->fuser->producers[node->inputs[i]->index]))
      g_hash_table_add(is_narrow(node, i) ? count->narrow : count->counted, node->inputs[i]);
  for (unsigned i = 0; i < node->n_outputs; i++) {
    const GraphTensor *tensor = node->outputs[i];
    const GPtrArray *readers = tensor ? count->fuser->readers[tensor->index] : NULL;
    bool leaves = tensor && tensor->is_output;
    for (unsigned j = 0; readers && j < readers->len && !leaves; j++)
      leaves = !is_counted_inside(count, readers->pdata[j]);
    if (leaves) g_hash_table_add(count->counted, (void *)tensor);
  }
}

/* Tensors that a kernel of one or two groups (`other` may be NULL) and the node would have. */
static unsigned count_tensors(Fuser *fuser, const Group *group, const Group *other, const GraphNode *node)
{
  /* each node adds its inputs and outputs at most: most groups need no counting */
  unsigned most = node->n_inputs + node->n_outputs;
  const Group *const groups[] = {group, other};
  for (unsigned l = 0; l < G_N_ELEMENTS(groups) && groups[l]; l++)
    for (unsigned i = 0; i < groups[l]->nodes->len; i++)
      most += ((GraphNode *)groups[l]->nodes->pdata[i])->n_inputs +
              ((GraphNode *)groups[l]->nodes->pdata[i])->n_outputs;
  if (most <= fuser->max_tensors) return most;
  g_autoptr(GHashTable) counted = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) narrow = g_hash_table_new(NULL, NULL);
  TensorCount count = {fuser, group, other, node, counted, narrow};
  count_node(&count, node);
  for (unsigned l = 0; l < G_N_ELEMENTS(groups) && groups[l]; l++)
    for (unsigned i = 0; i < groups[l]->nodes->len; i++)
      count_node(&count, groups[l]->nodes->pdata[i]);
  return g_hash_table_size(counted) + (g_hash_table_size(narrow) + NARROW_TENSORS - 1) / NARROW_TENSORS;
}

/* The group of input i's producer, if `node` may join it; *why says what keeps it from that. */
static Group *candidate(Fuser *fuser, const GraphNode *node, unsigned i, const char **why)
{
  const GraphTensor *tensor = node->inputs[i];
  const GraphNode *producer = tensor ? fuser->producers[tensor->index] : NULL;
  *why = NULL;
  if (!producer) return NULL;
  Group *group = fuser_group(fuser, producer);
  if (!group) return NULL;
  if (fuser_is_view(tensor) || fuser_points_elsewhere(node, tensor))
    *why = "it is read at other indices";
  else if (node->op->class_ == OPERATOR_INDEX && group->anchor)
    *why = "only an elementwise kernel reads at indices that are computed";
  else if (producer->op->class_ == OPERATOR_SEQUENCES)
    *why = "its operator is a kernel of its own";
  else if (tensor != producer->outputs[0])
    *why = "it is a further result of its operator";
  else if (fuser_reads_back(fuser, node, group))
    *why = "its kernel must have ended: it gives another input too";
  else if (!graph_same_shape(node->outputs[0], group_shape(group)))
    *why = "its shape is another";
  else if (group->anchor && !fuser_is_private(fuser, tensor, node))
    *why = tensor->is_output ? "it is an output" : "others read it too";
  else if (group->nodes->len >= fuser->max_steps)
    *why = "the kernel has enough steps";
  else if (group->work + step_operations_of(node) > fuser->max_work)
    *why = "the kernel has enough arithmetic";
  else if (count_tensors(fuser, group, NULL, node) > fuser->max_tensors)
    *why = "the kernel reads and writes enough tensors";
  else if (!fuser_is_acyclic(fuser, node, group, NULL))
    *why = "other kernels stand between";
  return *why ? NULL : group;
}

/* Only an elementwise kernel reads at indices that are loaded or computed. */
static bool has_indices(const Group *group)
{
  for (unsigned i = 0; i < group->nodes->len; i++)
    if (((GraphNode *)group->nodes->pdata[i])->op->class_ == OPERATOR_INDEX) return true;
  return false;
}

/* An elementwise group all of whose results only `group` and `node` read may become part of the group. */
static bool may_absorb(Fuser *fuser, const Group *group, const Group *other, const GraphNode *node)
{
  if (other == group || other->anchor || (group->anchor && has_indices(other))) return false;
  if (group->nodes->len + other->nodes->len >= fuser->max_steps) return false;
  if (group->work + other->work + step_operations_of(node) > fuser->max_work) return false;
  if (count_tensors(fuser, group, other, node) > fuser->max_tensors) return false;
  for (unsigned i = 0; i < other->nodes->len; i++) {
    const GraphTensor *tensor = ((GraphNode *)other->nodes->pdata[i])->outputs[0];
    if (tensor->is_output && group->anchor) return false;
    const GPtrArray *list = fuser->readers[tensor->index];
    for (unsigned j = 0; j < list->len && group->anchor; j++) {
      const GraphNode *reader = list->pdata[j];
      if (reader != node && fuser_group(fuser, reader) != other) return false;
    }
  }
  /* Neither may depend on the other through a third. */
  for (unsigned i = 0; i < other->nodes->len; i++)
    if (!fuser_is_acyclic(fuser, other->nodes->pdata[i], group, other) ||
        fuser_reads_back(fuser, other->nodes->pdata[i], group))
      return false;
  for (unsigned i = 0; i < group->nodes->len; i++)
    if (!fuser_is_acyclic(fuser, group->nodes->pdata[i], other, group) ||
        fuser_reads_back(fuser, group->nodes->pdata[i], other))
      return false;
  if (fuser_reads_back(fuser, node, other)) return false;
  return true;
}

/* `refused`: what the judge says of joining a producer's group; NULL: nothing. */
static void note_inputs(Fuser *fuser, const GraphNode *node, const Group *joined, const char *refused)
{
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const char *why;
    const GraphNode *producer = node->inputs[i] ? fuser->producers[node->inputs[i]->index] : NULL;
    if (!producer || fuser_group(fuser, producer) == joined) continue;
    candidate(fuser, node, i, &why);
    if (joined && joined->anchor && fuser_group(fuser, producer) && fuser_group(fuser, producer)->anchor)
      why = NULL;
    if (!why && !joined) why = refused;
    fuser_note(fuser, "%s reads `%s` from memory: %s", node->op->name, node->inputs[i]->name,
               why ? why : "a kernel has one anchor");
  }
}

/* Whether kernels exist for the group with the node: an elementwise one always has some. */
static bool fits(Fuser *fuser, Group *group, GraphNode *node, const char **why)
{
  if (!group->anchor) return true;
  g_ptr_array_add(group->nodes, node);
  Group *own = fuser_group(fuser, node);
  fuser->group_of[node->index] = group;
  ProgramVerdict verdict = fuser_judge(fuser, group, NULL, false);
  fuser->group_of[node->index] = own;
  g_ptr_array_set_size(group->nodes, (int)group->nodes->len - 1);
  *why = verdict.why;
  return verdict.taken;
}

/* Of the groups that the node may join an anchored one, and of those the last. */
static Group *best_group(Fuser *fuser, GraphNode *node, const char **refused)
{
  Group *best = NULL;
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const char *why;
    Group *group = candidate(fuser, node, i, &why);
    if (!group) continue;
    bool better = !best || (group->anchor && (!best->anchor || group->anchor->index > best->anchor->index));
    if (better && fits(fuser, group, node, refused)) best = group;
  }
  return best;
}

bool fusion_join_producers(Fuser *fuser, unsigned place)
{
  GraphNode *node = fuser->nodes->pdata[place];
  bool gathers = node->op->id == ONNX_Gather || node->op->id == ONNX_GatherElements;
  if (node->op->class_ != OPERATOR_ELEMENTWISE && !gathers) return false;
  const char *refused = NULL;
  Group *best = best_group(fuser, node, &refused);
  for (unsigned i = 0; best && i < node->n_inputs; i++) {
    const char *why;
    Group *other = candidate(fuser, node, i, &why);
    if (!other || other == best || !may_absorb(fuser, best, other, node)) continue;
    if (!group_is_row(best)) fuser_absorb(fuser, best, other);
  }
  if (best) {
    fuser_join(fuser, best, node);
    best->work += step_operations_of(node);
    fuser_settle_levels(fuser, best);
  }
  note_inputs(fuser, node, best, best ? NULL : refused);
  return false;
}
