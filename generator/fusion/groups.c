/* Groups of nodes: how they are opened, joined, and which may depend on which. */
#include "generator/fusion/private.h"
#include "generator/fusion/steps_operations.h"
#include <string.h>

/* ---- levels: which groups can depend on which ---- */

void fuser_visit_sources(Fuser *fuser, Group *group, void (*visit)(Fuser *, Group *, Group *, void *),
                         void *data)
{
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++)
      for (unsigned k = 0; k < fuser_n_writers(node->inputs[j]); k++) {
        const GraphNode *producer = fuser_writer(fuser, node->inputs[j], k);
        Group *source = producer ? fuser_group(fuser, producer) : NULL;
        if (source && source != group) visit(fuser, group, source, data);
      }
  }
}

static void raise_above(Fuser *fuser, Group *group, Group *source, void *data)
{
  group->level = MAX(group->level, source->level + 1);
}

/* Groups that read what the group computes, and do not stand above it, join the list, if they do not wait in it. */
static void add_dependents(Fuser *fuser, Group *group, GPtrArray *list)
{
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_outputs; j++) {
      const GraphTensor *tensor = node->outputs[j];
      if (tensor && tensor->whole) tensor = tensor->whole;
      const GPtrArray *readers = tensor ? fuser->readers[tensor->index] : NULL;
      for (unsigned k = 0; readers && k < readers->len; k++) {
        Group *other = fuser_group(fuser, readers->pdata[k]);
        if (!other || other == group || other->level > group->level || other->queued) continue;
        other->queued = true;
        g_ptr_array_add(list, other);
      }
    }
  }
}

void fuser_settle_levels(Fuser *fuser, Group *group)
{
  g_autoptr(GPtrArray) list = g_ptr_array_new();
  g_ptr_array_add(list, group);
  for (unsigned i = 0; i < list->len; i++) {
    Group *next = list->pdata[i];
    next->queued = false;
    fuser_visit_sources(fuser, next, raise_above, NULL);
    if (next->level <= fuser->groups->len) add_dependents(fuser, next, list);
  }
}

Group *fuser_open_group(Fuser *fuser, GraphNode *node)
{
  Group *group = arena_new_object(fuser->arena, Group);
  bool anchored = node->op->class_ != OPERATOR_ELEMENTWISE && node->op->class_ != OPERATOR_INDEX;
  *group = (Group){.anchor = anchored ? node : NULL, .nodes = g_ptr_array_new()};
  g_ptr_array_add(group->nodes, node);
  fuser->group_of[node->index] = group;
  fuser->joined_by[node->index] = NULL;
  g_ptr_array_add(fuser->groups, group);
  group->work = step_operations_of(node);
  fuser_visit_sources(fuser, group, raise_above, NULL);
  return group;
}

void fuser_open_chain(Fuser *fuser, Group *group)
{
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    fuser->group_of[node->index] = group;
    fuser->joined_by[node->index] = i && fuser->rewrite ? fuser->rewrite->name : NULL;
    group->work += step_operations_of(node);
  }
  g_ptr_array_add(fuser->groups, group);
  fuser_settle_levels(fuser, group);
}

void fuser_join(Fuser *fuser, Group *group, GraphNode *node)
{
  fuser->group_of[node->index] = group;
  fuser->joined_by[node->index] = fuser->rewrite ? fuser->rewrite->name : NULL;
  g_ptr_array_add(group->nodes, node);
}

typedef struct {
  const Group *target;
  GPtrArray *open;
  bool found;
} Search;

static void enter(Fuser *fuser, Group *group, Group *source, void *data)
{
  Search *search = data;
  search->found = search->found || source == search->target;
  if (source->seen == fuser->search || source->level <= search->target->level) return;
  source->seen = fuser->search;
  g_ptr_array_add(search->open, source);
}

/* Some node of `group`, or of a group it depends on, is in `target`. Groups that are not above the target cannot
 * depend on it. */
static bool depends_on(Fuser *fuser, Group *group, const Group *target)
{
  g_autoptr(GPtrArray) open = g_ptr_array_new();
  Search search = {target, open, group == target};
  enter(fuser, NULL, group, &search);
  for (unsigned i = 0; i < open->len && !search.found; i++)
    fuser_visit_sources(fuser, open->pdata[i], enter, &search);
  return search.found;
}

bool fuser_waits_for(Fuser *fuser, Group *group, const Group *other)
{
  fuser->search++;
  return depends_on(fuser, group, other);
}

bool fuser_is_acyclic(Fuser *fuser, const GraphNode *node, const Group *group, const Group *absorbed)
{
  fuser->search++;
  for (unsigned i = 0; i < node->n_inputs; i++)
    for (unsigned j = 0; j < fuser_n_writers(node->inputs[i]); j++) {
      const GraphNode *producer = fuser_writer(fuser, node->inputs[i], j);
      Group *other = producer ? fuser_group(fuser, producer) : NULL;
      /* what is written in parts is read from memory, whoever wrote a part of it */
      if (other && other == group && node->inputs[i]->n_parts) return false;
      if (other && other != group && other != absorbed && depends_on(fuser, other, group)) return false;
    }
  return true;
}

const GraphTensor *group_shape(const Group *group)
{
  const GraphNode *node = group->anchor ? group->anchor : group->nodes->pdata[0];
  return node->outputs[0];
}

static int by_index(gconstpointer a, gconstpointer b)
{
  const GraphNode *x = *(GraphNode *const *)a, *y = *(GraphNode *const *)b;
  return (x->index > y->index) - (x->index < y->index);
}

void fuser_sort(GPtrArray *nodes)
{
  g_ptr_array_sort(nodes, by_index);
}

void fuser_absorb(Fuser *fuser, Group *group, Group *other)
{
  for (unsigned i = 0; i < other->nodes->len; i++)
    fuser_join(fuser, group, other->nodes->pdata[i]);
  fuser_sort(group->nodes);
  group->work += other->work;
  other->absorbed = true;
  fuser_settle_levels(fuser, group);
}

void fuser_add_node(Fuser *fuser, GraphNode *node)
{
  unsigned n = fuser->nodes->len;
  Group **groups = arena_new_array(fuser->arena, Group *, n + 1);
  const char **joined_by = arena_new_array(fuser->arena, const char *, n + 1);
  memcpy(groups, fuser->group_of, n * sizeof *groups);
  memcpy(joined_by, fuser->joined_by, n * sizeof *joined_by);
  fuser->group_of = groups;
  fuser->joined_by = joined_by;
  node->index = n;
  g_ptr_array_add(fuser->nodes, node);
}

bool group_reads(const Group *group, const GraphTensor *tensor)
{
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++)
      if (node->inputs[j] == tensor) return true;
  }
  return false;
}

const Program *fuser_joined_program(Fuser *fuser, const Group *a, const Group *b)
{
  Group trial = *a;
  trial.nodes = g_ptr_array_copy(a->nodes, NULL, NULL);
  g_ptr_array_extend(trial.nodes, b->nodes, NULL, NULL);
  fuser_sort(trial.nodes);
  const Program *program = fuser_group_program(fuser, &trial, NULL, NULL);
  g_ptr_array_unref(trial.nodes);
  unsigned tensors = 0;
  for (unsigned i = 0; i < program->n_nodes; i++)
    tensors += program->nodes[i].kind == NODE_READ || program->nodes[i].kind == NODE_WRITE;
  return tensors <= fuser->max_tensors ? program : NULL;
}
