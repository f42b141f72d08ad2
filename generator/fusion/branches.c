/* Rewrite close_branches: a result of an anchored group that several nodes read stays inside if they all meet again in
 * one tensor, as in x * sigmoid(x). */
#include "generator/fusion/private.h"
#include "generator/fusion/steps_operations.h"

typedef struct {
  Fuser *fuser;
  Group *group;
  bool *inside;  /* by node index: in the group or about to join */
  bool *tainted; /* depends on the group through something that is not inside */
  unsigned end;  /* nodes from here on have not been looked at */
  GPtrArray *joining;
} Closure;

/* Whether a node may follow the group, given the nodes before it. */
static bool follows(Closure *c, const GraphNode *node)
{
  bool reads = false, waits = false;
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const GraphTensor *input = node->inputs[i];
    for (unsigned j = 0; j < fuser_n_writers(input); j++) {
      const GraphNode *producer = fuser_writer(c->fuser, input, j);
      if (!producer) continue;
      if (fuser_in_memory_only(node, input, producer))
        waits = waits || c->inside[producer->index];
      else
        reads = reads || c->inside[producer->index];
      waits = waits || c->tainted[producer->index];
    }
  }
  bool joins = reads && !waits && node->op->class_ == OPERATOR_ELEMENTWISE && !fuser_group(c->fuser, node) &&
               graph_same_shape(node->outputs[0], group_shape(c->group));
  c->tainted[node->index] = !joins && (reads || waits);
  return joins;
}

/* Tensors of the group and of what is about to join that somebody else reads, or the graph gives. */
static unsigned count_results(const Closure *c)
{
  unsigned n = 0;
  const GPtrArray *const lists[] = {c->group->nodes, c->joining};
  for (unsigned l = 0; l < G_N_ELEMENTS(lists); l++)
    for (unsigned i = 0; i < lists[l]->len; i++) {
      const GraphNode *node = lists[l]->pdata[i];
      for (unsigned j = 0; j < node->n_outputs; j++) {
        if (!node->outputs[j]) continue;
        const GPtrArray *readers = c->fuser->readers[node->outputs[j]->index];
        bool leaves = node->outputs[j]->is_output;
        for (unsigned k = 0; k < readers->len; k++)
          leaves = leaves || !c->inside[((GraphNode *)readers->pdata[k])->index];
        n += leaves;
      }
    }
  return n;
}

static unsigned last_reader(const Fuser *fuser, const GraphNode *node)
{
  unsigned last = 0;
  for (unsigned i = 0; i < node->n_outputs; i++) {
    const GPtrArray *readers = node->outputs[i] ? fuser->readers[node->outputs[i]->index] : NULL;
    if (readers && readers->len) last = MAX(last, ((GraphNode *)readers->pdata[readers->len - 1])->index);
  }
  return last;
}

/* Forgets what is inside and tainted: each closure clears what it has touched. */
static void clear_closure(Closure *c)
{
  const GPtrArray *const lists[] = {c->group->nodes, c->joining};
  for (unsigned l = 0; l < G_N_ELEMENTS(lists); l++)
    for (unsigned i = 0; i < lists[l]->len; i++)
      c->inside[((GraphNode *)lists[l]->pdata[i])->index] = false;
  for (unsigned i = c->group->anchor->index + 1; i < c->end + 1 && i < c->fuser->nodes->len; i++)
    c->tainted[i] = false;
}

/* Lets the smallest set of following nodes join after which one tensor leaves the group. */
static bool close_branches(Closure *c)
{
  const GPtrArray *nodes = c->fuser->nodes;
  for (unsigned i = 0; i < c->group->nodes->len; i++)
    c->inside[((GraphNode *)c->group->nodes->pdata[i])->index] = true;
  unsigned room = c->fuser->max_steps - MIN(c->group->nodes->len, c->fuser->max_steps);
  unsigned last = 0; /* behind it nobody reads what is inside */
  double work = c->group->work;
  for (unsigned i = 0; i < c->group->nodes->len; i++)
    last = MAX(last, last_reader(c->fuser, c->group->nodes->pdata[i]));
  for (c->end = c->group->anchor->index + 1; c->end <= last && c->joining->len < room; c->end++) {
    GraphNode *node = nodes->pdata[c->end];
    if (c->inside[c->end] || !follows(c, node)) continue;
    work += step_operations_of(node);
    if (work > c->fuser->max_work) return false;
    c->inside[c->end] = true;
    last = MAX(last, last_reader(c->fuser, node));
    g_ptr_array_add(c->joining, node);
    if (count_results(c) == 1) return true;
  }
  return false;
}

static void converge(Fuser *fuser, Group *group)
{
  const GraphNode *last = group->nodes->pdata[group->nodes->len - 1];
  const GraphTensor *result = last->outputs[0];
  if (result->is_output || fuser->readers[result->index]->len < 2) return;
  for (unsigned i = 1; i < last->n_outputs; i++)
    if (last->outputs[i]) return;
  g_autoptr(GPtrArray) joining = g_ptr_array_new();
  Closure closure = {
      .fuser = fuser, .group = group, .inside = fuser->inside, .tainted = fuser->tainted, .joining = joining};
  bool closed = close_branches(&closure);
  clear_closure(&closure);
  if (!closed) return;
  unsigned before = group->nodes->len;
  for (unsigned i = 0; i < joining->len; i++)
    fuser_join(fuser, group, joining->pdata[i]);
  if (fuser_judge(fuser, group, NULL, false).taken) {
    for (unsigned i = 0; i < joining->len; i++)
      group->work += step_operations_of(joining->pdata[i]);
    fuser_settle_levels(fuser, group);
    return;
  }
  g_ptr_array_set_size(group->nodes, (int)before);
  for (unsigned i = 0; i < joining->len; i++)
    fuser->group_of[((GraphNode *)joining->pdata[i])->index] = NULL;
}

bool fusion_close_branches(Fuser *fuser, unsigned place)
{
  Group *group = fuser_group(fuser, fuser->nodes->pdata[place]);
  if (group->anchor) converge(fuser, group);
  return false;
}
