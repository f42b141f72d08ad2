/* Grouping: nodes are visited in order. An anchor opens a group, and takes the elementwise group that
 * computes its operand if nobody else reads that; an elementwise node joins the group of a producer if
 *   - their shapes agree (no value would be computed more than once),
 *   - what it joins stays in the group: a matrix product or row operator stores one result,
 *   - no path leads from the group through another one back to the node.
 * A result of an anchored group that several nodes read stays inside if they all meet again in one tensor, as
 * in x * sigmoid(x). Everything else is stored and read again. */
#include "generator/front/order.h"
#include "generator/fusion/private.h"
#include "generator/fusion/steps_operations.h"
#include <string.h>

#define MAX_STEPS_DEFAULT 64
/* Operations an element: a thread has 8 to 16 elements, hence some thousand instructions, which the assembler needs a
 * tenth of a second for. A pass over memory costs an element as much as some 50 operations; what a kernel of so
 * many gains by taking in another one's is lost in the noise. */
#define MAX_WORK 512
/* Tensors that are read or written: a thread holds 8 registers of each at once, of 255. */
#define MAX_TENSORS 24

/* ---- who computes and reads what ---- */

typedef struct {
  Fuser fuser;
  GraphNode **producers;  /* by tensor index */
  bool *inside, *tainted; /* by node index: of Closure, all false between closures */
  unsigned search;        /* number of the last one (Group.seen) */
} Grouping;

static void index_tensors(Grouping *g)
{
  unsigned n = g->fuser.tensors->len;
  g->producers = g_new0(GraphNode *, n + 1);
  g->fuser.readers = g_new0(GPtrArray *, n + 1);
  for (unsigned i = 0; i < n; i++)
    g->fuser.readers[i] = g_ptr_array_new();
  for (unsigned i = 0; i < g->fuser.nodes->len; i++) {
    GraphNode *node = g->fuser.nodes->pdata[i];
    for (unsigned j = 0; j < node->n_outputs; j++)
      if (node->outputs[j]) g->producers[node->outputs[j]->index] = node;
    for (unsigned j = 0; j < node->n_inputs; j++) {
      if (!node->inputs[j]) continue;
      GPtrArray *list = g->fuser.readers[node->inputs[j]->index];
      if (!list->len || list->pdata[list->len - 1] != node) g_ptr_array_add(list, node);
    }
  }
}

static void free_index(Grouping *g)
{
  for (unsigned i = 0; g->fuser.readers && i < g->fuser.tensors->len; i++)
    g_ptr_array_unref(g->fuser.readers[i]);
  g_clear_pointer(&g->fuser.readers, g_free);
  g_free(g->producers);
}

static Group *group_of(const Grouping *g, const GraphNode *node)
{
  return g->fuser.group_of[node->index];
}

/* Nodes that write a tensor, which may be NULL: one, none, or one for each of its parts. */
static unsigned n_writers(const GraphTensor *tensor)
{
  return !tensor ? 0 : tensor->n_parts ? tensor->n_parts : 1;
}

/* NULL: the graph is given it. */
static GraphNode *writer(const Grouping *g, const GraphTensor *tensor, unsigned i)
{
  return g->producers[tensor->n_parts ? tensor->parts[i]->index : tensor->index];
}

/* Must whoever reads the tensor wait until the kernel of its producer has written it? So it is with views,
 * and with further results, such as a row's mean: elementwise steps go on from the first one only. */
static bool is_in_memory_only(const GraphTensor *tensor, const GraphNode *producer)
{
  return fuser_is_view(tensor) || tensor->n_parts || tensor != producer->outputs[0];
}

/* The node reads what must have left the group's kernel before. */
static bool reads_back(const Grouping *g, const GraphNode *node, const Group *group)
{
  for (unsigned i = 0; i < node->n_inputs; i++)
    for (unsigned j = 0; j < n_writers(node->inputs[i]); j++) {
      const GraphNode *producer = writer(g, node->inputs[i], j);
      if (producer && group_of(g, producer) == group && is_in_memory_only(node->inputs[i], producer))
        return true;
    }
  return false;
}

/* ---- levels: which groups can depend on which ---- */

static void visit_sources(Grouping *g, Group *group, void (*visit)(Grouping *, Group *, Group *, void *),
                          void *data)
{
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++)
      for (unsigned k = 0; k < n_writers(node->inputs[j]); k++) {
        const GraphNode *producer = writer(g, node->inputs[j], k);
        Group *source = producer ? group_of(g, producer) : NULL;
        if (source && source != group) visit(g, group, source, data);
      }
  }
}

static void raise_above(Grouping *g, Group *group, Group *source, void *data)
{
  group->level = MAX(group->level, source->level + 1);
}

/* Groups that read what the group computes, and do not stand above it, join the list. */
static void add_dependents(Grouping *g, Group *group, GPtrArray *list)
{
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_outputs; j++) {
      const GraphTensor *tensor = node->outputs[j];
      if (tensor && tensor->whole) tensor = tensor->whole;
      const GPtrArray *readers = tensor ? g->fuser.readers[tensor->index] : NULL;
      for (unsigned k = 0; readers && k < readers->len; k++) {
        Group *other = group_of(g, readers->pdata[k]);
        if (other && other != group && other->level <= group->level) g_ptr_array_add(list, other);
      }
    }
  }
}

/* The group has new nodes: it, and what depends on it, rises above what it reads. Should groups wait for each
 * other, they stop at a level that no others reach. */
static void settle_levels(Grouping *g, Group *group)
{
  g_autoptr(GPtrArray) list = g_ptr_array_new();
  g_ptr_array_add(list, group);
  for (unsigned i = 0; i < list->len; i++) {
    Group *next = list->pdata[i];
    visit_sources(g, next, raise_above, NULL);
    if (next->level <= g->fuser.groups->len) add_dependents(g, next, list);
  }
}

static Group *new_group(Grouping *g, FusedKind kind, GraphNode *node)
{
  Group *group = arena_new_object(g->fuser.arena, Group);
  *group =
      (Group){.kind = kind, .anchor = kind == FUSED_ELEMENTWISE ? NULL : node, .nodes = g_ptr_array_new()};
  g_ptr_array_add(group->nodes, node);
  g->fuser.group_of[node->index] = group;
  g_ptr_array_add(g->fuser.groups, group);
  group->work = step_operations_of(node);
  visit_sources(g, group, raise_above, NULL);
  return group;
}

typedef struct {
  const Group *target;
  GPtrArray *open;
  bool found;
} Search;

static void enter(Grouping *g, Group *group, Group *source, void *data)
{
  Search *search = data;
  search->found = search->found || source == search->target;
  if (source->seen == g->search || source->level <= search->target->level) return;
  source->seen = g->search;
  g_ptr_array_add(search->open, source);
}

/* Some node of `group`, or of a group it depends on, is in `target`. Groups that are not above the target cannot
 * depend on it. */
static bool depends_on(Grouping *g, Group *group, const Group *target)
{
  g_autoptr(GPtrArray) open = g_ptr_array_new();
  Search search = {target, open, group == target};
  enter(g, NULL, group, &search);
  for (unsigned i = 0; i < open->len && !search.found; i++)
    visit_sources(g, open->pdata[i], enter, &search);
  return search.found;
}

/* Joining `node` to `group` closes no cycle: none of its other producers' groups depends on the group. */
static bool is_acyclic(Grouping *g, const GraphNode *node, const Group *group, const Group *absorbed)
{
  g->search++;
  for (unsigned i = 0; i < node->n_inputs; i++)
    for (unsigned j = 0; j < n_writers(node->inputs[i]); j++) {
      const GraphNode *producer = writer(g, node->inputs[i], j);
      Group *other = producer ? group_of(g, producer) : NULL;
      /* what is written in parts is read from memory, whoever wrote a part of it */
      if (other && other == group && node->inputs[i]->n_parts) return false;
      if (other && other != group && other != absorbed && depends_on(g, other, group)) return false;
    }
  return true;
}

/* Nobody but `node` reads the tensor, and the graph does not give it. */
static bool is_private(const Grouping *g, const GraphTensor *tensor, const GraphNode *node)
{
  const GPtrArray *list = g->fuser.readers[tensor->index];
  return !tensor->is_output && list->len == 1 && list->pdata[0] == node;
}

/* Shape over which a group's elementwise nodes work. */
static const GraphTensor *shape_of(const Group *group)
{
  const GraphNode *node = group->anchor ? group->anchor : group->nodes->pdata[0];
  return node->outputs[0];
}

static int by_index(gconstpointer a, gconstpointer b)
{
  const GraphNode *x = *(GraphNode *const *)a, *y = *(GraphNode *const *)b;
  return (x->index > y->index) - (x->index < y->index);
}

static void absorb(Grouping *g, Group *group, Group *other)
{
  for (unsigned i = 0; i < other->nodes->len; i++) {
    GraphNode *node = other->nodes->pdata[i];
    g->fuser.group_of[node->index] = group;
    g_ptr_array_add(group->nodes, node);
  }
  g_ptr_array_sort(group->nodes, by_index);
  group->work += other->work;
  other->absorbed = true;
  settle_levels(g, group);
}

/* ---- candidates ---- */

typedef struct {
  Grouping *g;
  const Group *a, *b;
  const GraphNode *node;
  GHashTable *counted;
} TensorCount;

static bool is_counted_inside(const TensorCount *count, const GraphNode *node)
{
  const Group *group = node ? group_of(count->g, node) : NULL;
  return node == count->node || (group && (group == count->a || group == count->b));
}

/* What the node reads of other kernels, and what it computes for nodes that are not inside (yet): so many values
 * are alive at once, at least. */
static void count_node(const TensorCount *count, const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] && !is_counted_inside(count, count->g->producers[node->inputs[i]->index]))
      g_hash_table_add(count->counted, node->inputs[i]);
  for (unsigned i = 0; i < node->n_outputs; i++) {
    const GraphTensor *tensor = node->outputs[i];
    const GPtrArray *readers = tensor ? count->g->fuser.readers[tensor->index] : NULL;
    bool leaves = tensor && tensor->is_output;
    for (unsigned j = 0; readers && j < readers->len && !leaves; j++)
      leaves = !is_counted_inside(count, readers->pdata[j]);
    if (leaves) g_hash_table_add(count->counted, (void *)tensor);
  }
}

/* Tensors that a kernel of one or two groups (`other` may be NULL) and the node would have. */
static unsigned count_tensors(Grouping *g, const Group *group, const Group *other, const GraphNode *node)
{
  /* each node adds its inputs and outputs at most: most groups need no counting */
  unsigned most = node->n_inputs + node->n_outputs;
  const Group *const groups[] = {group, other};
  for (unsigned l = 0; l < G_N_ELEMENTS(groups) && groups[l]; l++)
    for (unsigned i = 0; i < groups[l]->nodes->len; i++)
      most += ((GraphNode *)groups[l]->nodes->pdata[i])->n_inputs +
              ((GraphNode *)groups[l]->nodes->pdata[i])->n_outputs;
  if (most <= g->fuser.max_tensors) return most;
  g_autoptr(GHashTable) counted = g_hash_table_new(NULL, NULL);
  TensorCount count = {g, group, other, node, counted};
  count_node(&count, node);
  for (unsigned l = 0; l < G_N_ELEMENTS(groups) && groups[l]; l++)
    for (unsigned i = 0; i < groups[l]->nodes->len; i++)
      count_node(&count, groups[l]->nodes->pdata[i]);
  return g_hash_table_size(counted);
}

/* The group of input i's producer, if `node` may join it; *why says what keeps it from that. */
static Group *candidate(Grouping *g, const GraphNode *node, unsigned i, const char **why)
{
  const GraphTensor *tensor = node->inputs[i];
  const GraphNode *producer = tensor ? g->producers[tensor->index] : NULL;
  *why = NULL;
  if (!producer) return NULL;
  Group *group = group_of(g, producer);
  if (!group) return NULL;
  if (fuser_is_view(tensor))
    *why = "it is read at other indices";
  else if (tensor != producer->outputs[0])
    *why = "it is a further result of its operator";
  else if (reads_back(g, node, group))
    *why = "its kernel must have ended: it gives another input too";
  else if (!graph_same_shape(node->outputs[0], shape_of(group)))
    *why = "its shape is another";
  else if (group->anchor && !is_private(g, tensor, node))
    *why = tensor->is_output ? "it is an output" : "others read it too";
  else if (group->nodes->len >= g->fuser.max_steps)
    *why = "the kernel has enough steps";
  else if (group->work + step_operations_of(node) > g->fuser.max_work)
    *why = "the kernel has enough arithmetic";
  else if (count_tensors(g, group, NULL, node) > g->fuser.max_tensors)
    *why = "the kernel reads and writes enough tensors";
  else if (!is_acyclic(g, node, group, NULL))
    *why = "other kernels stand between";
  return *why ? NULL : group;
}

/* An elementwise group all of whose results only `group` and `node` read may become part of the group. */
static bool may_absorb(Grouping *g, const Group *group, const Group *other, const GraphNode *node)
{
  if (other == group || other->kind != FUSED_ELEMENTWISE) return false;
  if (group->nodes->len + other->nodes->len >= g->fuser.max_steps) return false;
  if (group->work + other->work + step_operations_of(node) > g->fuser.max_work) return false;
  if (count_tensors(g, group, other, node) > g->fuser.max_tensors) return false;
  for (unsigned i = 0; i < other->nodes->len; i++) {
    const GraphTensor *tensor = ((GraphNode *)other->nodes->pdata[i])->outputs[0];
    if (tensor->is_output && group->kind != FUSED_ELEMENTWISE) return false;
    const GPtrArray *list = g->fuser.readers[tensor->index];
    for (unsigned j = 0; j < list->len && group->kind != FUSED_ELEMENTWISE; j++) {
      const GraphNode *reader = list->pdata[j];
      if (reader != node && group_of(g, reader) != other) return false;
    }
  }
  /* Neither may depend on the other through a third. */
  for (unsigned i = 0; i < other->nodes->len; i++)
    if (!is_acyclic(g, other->nodes->pdata[i], group, other) || reads_back(g, other->nodes->pdata[i], group))
      return false;
  for (unsigned i = 0; i < group->nodes->len; i++)
    if (!is_acyclic(g, group->nodes->pdata[i], other, group) || reads_back(g, group->nodes->pdata[i], other))
      return false;
  if (reads_back(g, node, other)) return false;
  return true;
}

/* `refused`: what the judge says of joining a producer's group; NULL: nothing. */
static void note_inputs(Grouping *g, const GraphNode *node, const Group *joined, const char *refused)
{
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const char *why;
    const GraphNode *producer = node->inputs[i] ? g->producers[node->inputs[i]->index] : NULL;
    if (!producer || group_of(g, producer) == joined) continue;
    candidate(g, node, i, &why);
    if (joined && joined->anchor && group_of(g, producer) && group_of(g, producer)->anchor) why = NULL;
    if (!why && !joined) why = refused;
    fuser_note(&g->fuser, "%s reads `%s` from memory: %s", node->op->name, node->inputs[i]->name,
               why ? why : "a kernel has one anchor");
  }
}

/* Whether kernels exist for the group with the node: steps of elementwise groups and products always have some. */
static bool fits(Grouping *g, Group *group, GraphNode *node, const char **why)
{
  if (group->kind != FUSED_ROW) return true;
  g_ptr_array_add(group->nodes, node);
  Group *own = group_of(g, node);
  g->fuser.group_of[node->index] = group;
  ProgramVerdict verdict = fuser_judge(&g->fuser, group, NULL, false);
  g->fuser.group_of[node->index] = own;
  g_ptr_array_set_size(group->nodes, (int)group->nodes->len - 1);
  *why = verdict.why;
  return verdict.taken;
}

/* ---- branches that meet again ---- */

typedef struct {
  Grouping *g;
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
    for (unsigned j = 0; j < n_writers(input); j++) {
      const GraphNode *producer = writer(c->g, input, j);
      if (!producer) continue;
      if (is_in_memory_only(input, producer))
        waits = waits || c->inside[producer->index];
      else
        reads = reads || c->inside[producer->index];
      waits = waits || c->tainted[producer->index];
    }
  }
  bool joins = reads && !waits && node->op->class_ == OPERATOR_ELEMENTWISE && !group_of(c->g, node) &&
               graph_same_shape(node->outputs[0], shape_of(c->group));
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
        const GPtrArray *readers = c->g->fuser.readers[node->outputs[j]->index];
        bool leaves = node->outputs[j]->is_output;
        for (unsigned k = 0; k < readers->len; k++)
          leaves = leaves || !c->inside[((GraphNode *)readers->pdata[k])->index];
        n += leaves;
      }
    }
  return n;
}

static unsigned last_reader(const Grouping *g, const GraphNode *node)
{
  unsigned last = 0;
  for (unsigned i = 0; i < node->n_outputs; i++) {
    const GPtrArray *readers = node->outputs[i] ? g->fuser.readers[node->outputs[i]->index] : NULL;
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
  for (unsigned i = c->group->anchor->index + 1; i < c->end + 1 && i < c->g->fuser.nodes->len; i++)
    c->tainted[i] = false;
}

/* Lets the smallest set of following nodes join after which one tensor leaves the group. */
static bool close_branches(Closure *c)
{
  const GPtrArray *nodes = c->g->fuser.nodes;
  for (unsigned i = 0; i < c->group->nodes->len; i++)
    c->inside[((GraphNode *)c->group->nodes->pdata[i])->index] = true;
  unsigned room = c->g->fuser.max_steps - MIN(c->group->nodes->len, c->g->fuser.max_steps);
  unsigned last = 0; /* behind it nobody reads what is inside */
  double work = c->group->work;
  for (unsigned i = 0; i < c->group->nodes->len; i++)
    last = MAX(last, last_reader(c->g, c->group->nodes->pdata[i]));
  for (c->end = c->group->anchor->index + 1; c->end <= last && c->joining->len < room; c->end++) {
    GraphNode *node = nodes->pdata[c->end];
    if (c->inside[c->end] || !follows(c, node)) continue;
    work += step_operations_of(node);
    if (work > c->g->fuser.max_work) return false;
    c->inside[c->end] = true;
    last = MAX(last, last_reader(c->g, node));
    g_ptr_array_add(c->joining, node);
    if (count_results(c) == 1) return true;
  }
  return false;
}

static void converge(Grouping *g, Group *group)
{
  if (!group->anchor || g->fuser.none) return;
  const GraphNode *last = group->nodes->pdata[group->nodes->len - 1];
  const GraphTensor *result = last->outputs[0];
  if (result->is_output || g->fuser.readers[result->index]->len < 2) return;
  for (unsigned i = 1; i < last->n_outputs; i++)
    if (last->outputs[i]) return;
  g_autoptr(GPtrArray) joining = g_ptr_array_new();
  Closure closure = {.g = g, .group = group, .inside = g->inside, .tainted = g->tainted, .joining = joining};
  bool closed = close_branches(&closure);
  clear_closure(&closure);
  if (!closed) return;
  unsigned before = group->nodes->len;
  for (unsigned i = 0; i < joining->len; i++) {
    g_ptr_array_add(group->nodes, joining->pdata[i]);
    g->fuser.group_of[((GraphNode *)joining->pdata[i])->index] = group;
  }
  if (group->kind != FUSED_ROW || fuser_judge(&g->fuser, group, NULL, false).taken) {
    for (unsigned i = 0; i < joining->len; i++)
      group->work += step_operations_of(joining->pdata[i]);
    settle_levels(g, group);
    return;
  }
  g_ptr_array_set_size(group->nodes, (int)before);
  for (unsigned i = 0; i < joining->len; i++)
    g->fuser.group_of[((GraphNode *)joining->pdata[i])->index] = NULL;
}

/* ---- placing ---- */

static void place_elementwise(Grouping *g, GraphNode *node)
{
  Group *best = NULL;
  const char *refused = NULL;
  for (unsigned i = 0; i < node->n_inputs && !g->fuser.none; i++) {
    const char *why;
    Group *group = candidate(g, node, i, &why);
    if (!group) continue;
    /* An anchored group, and of those the last one. */
    bool better = !best || (group->anchor && (!best->anchor || group->anchor->index > best->anchor->index));
    if (better && fits(g, group, node, &refused)) best = group;
  }
  if (!best) {
    new_group(g, FUSED_ELEMENTWISE, node);
    if (!g->fuser.none) note_inputs(g, node, NULL, refused);
    return;
  }
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const char *why;
    Group *other = candidate(g, node, i, &why);
    if (!other || other == best || !may_absorb(g, best, other, node)) continue;
    if (best->kind != FUSED_ROW) absorb(g, best, other);
  }
  g_ptr_array_add(best->nodes, node);
  g->fuser.group_of[node->index] = best;
  best->work += step_operations_of(node);
  settle_levels(g, best);
  note_inputs(g, node, best, NULL);
  converge(g, best);
}

static void place_anchor(Grouping *g, GraphNode *node)
{
  bool row = node->op->class_ == OPERATOR_ROW;
  Group *group = new_group(g, row ? FUSED_ROW : FUSED_GEMM, node);
  const GraphTensor *source = node->inputs[0];
  const GraphNode *producer = g->producers[source->index];
  if (!row || !producer || g->fuser.none || fuser_is_view(source)) return;
  Group *before = group_of(g, producer);
  if (before->kind != FUSED_ELEMENTWISE || before->nodes->len >= g->fuser.max_steps) return;
  for (unsigned i = 0; i < before->nodes->len; i++) { /* everything stays inside */
    const GraphTensor *tensor = ((GraphNode *)before->nodes->pdata[i])->outputs[0];
    const GPtrArray *list = g->fuser.readers[tensor->index];
    bool stays = !tensor->is_output && graph_same_shape(tensor, source);
    for (unsigned j = 0; j < list->len; j++)
      stays = stays && (list->pdata[j] == node || group_of(g, list->pdata[j]) == before);
    if (!stays) {
      fuser_note(&g->fuser, "%s reads `%s` from memory: others need `%s`", node->op->name, source->name,
                 tensor->name);
      return;
    }
  }
  for (unsigned i = 1; i < node->n_inputs; i++) { /* its scale must not come from there as well */
    const GraphNode *other = node->inputs[i] ? g->producers[node->inputs[i]->index] : NULL;
    if (other && group_of(g, other) == before) return;
  }
  if (!is_acyclic(g, node, before, NULL)) return;
  Group trial = *group;
  trial.nodes = g_ptr_array_copy(before->nodes, NULL, NULL);
  g_ptr_array_add(trial.nodes, node);
  ProgramVerdict verdict = fuser_judge(&g->fuser, &trial, NULL, false);
  g_ptr_array_unref(trial.nodes);
  if (verdict.taken)
    absorb(g, group, before);
  else
    fuser_note(&g->fuser, "%s reads `%s` from memory: %s", node->op->name, source->name, verdict.why);
}

static void place_nodes(Grouping *g)
{
  g->inside = arena_new_array(g->fuser.arena, bool, g->fuser.nodes->len + 1);
  g->tainted = arena_new_array(g->fuser.arena, bool, g->fuser.nodes->len + 1);
  for (unsigned i = 0; i < g->fuser.nodes->len; i++) {
    GraphNode *node = g->fuser.nodes->pdata[i];
    if (g->fuser.group_of[i]) continue; /* has joined with others */
    if (node->op->class_ == OPERATOR_ELEMENTWISE) {
      place_elementwise(g, node);
    } else {
      place_anchor(g, node);
      converge(g, g->fuser.group_of[i]);
    }
  }
}

/* ---- the result ---- */

static void append_operator_name(GString *name, const char *operator_)
{
  g_autofree char *lower = g_ascii_strdown(operator_, -1);
  g_string_append_printf(name, "%s%s", name->len ? "_" : "", lower);
}

/* The anchor first, then the others in order; a long chain ends in "more". */
static const char *chain_of(Fuser *fuser, const Group *group)
{
  g_autoptr(GString) name = g_string_new(NULL);
  if (group->anchor) append_operator_name(name, group->anchor->op->name);
  unsigned n = 0;
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    if (node == group->anchor) continue;
    if (++n <= 4) append_operator_name(name, node->op->name);
  }
  if (n > 4) g_string_append(name, "_more");
  return arena_strdup(fuser->arena, name->str);
}

/* `taken`: names, with the last number that each was given another name by. */
static const char *unique_name(Fuser *fuser, const char *chain, GHashTable *taken)
{
  const char *name = chain;
  unsigned number = GPOINTER_TO_UINT(g_hash_table_lookup(taken, chain));
  while (g_hash_table_contains(taken, name))
    name = arena_printf(fuser->arena, "%s_%u", chain, ++number);
  g_hash_table_insert(taken, (void *)chain, GUINT_TO_POINTER(number));
  if (name != chain) g_hash_table_insert(taken, (void *)name, NULL);
  return name;
}

static void add_edge(Grouping *g, Group *group, Group *source, void *data)
{
  OrderEdge edge = {source->seen, group->seen};
  g_array_append_val(data, edge);
}

/* Groups in an order in which each comes after those it reads from; ties by first node. */
static void order_groups(Grouping *g, GPtrArray *ordered)
{
  const GPtrArray *groups = g->fuser.groups;
  g_autoptr(GPtrArray) whole = g_ptr_array_new();
  g_autoptr(GArray) edges = g_array_new(FALSE, FALSE, sizeof(OrderEdge));
  g_autofree unsigned *order = g_new(unsigned, groups->len + 1);
  for (unsigned i = 0; i < groups->len; i++) {
    Group *group = groups->pdata[i];
    if (group->absorbed) continue;
    group->seen = whole->len; /* its place in the list */
    g_ptr_array_add(whole, group);
  }
  for (unsigned i = 0; i < whole->len; i++)
    visit_sources(g, whole->pdata[i], add_edge, edges);
  unsigned n = order_by_rounds(whole->len, (const OrderEdge *)(void *)edges->data, edges->len, order);
  for (unsigned i = 0; i < n; i++)
    g_ptr_array_add(ordered, whole->pdata[order[i]]);
  for (unsigned i = 0; i < whole->len; i++)
    ((Group *)whole->pdata[i])->seen = 0;
}

static int by_number(gconstpointer a, gconstpointer b)
{
  unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
  return (x > y) - (x < y);
}

static void set_dependencies(Grouping *g, Fusion *fusion)
{
  g_autofree int *last = g_new(int, g->fuser.tensors->len + 1);
  memset(last, -1, (g->fuser.tensors->len + 1) * sizeof *last);
  for (unsigned i = 0; i < fusion->n; i++) {
    FusedOperator *fused = fusion->operators[i];
    g_autoptr(GArray) list = g_array_new(FALSE, FALSE, sizeof(unsigned));
    for (unsigned j = 0; j < fused->n_inputs; j++)
      for (unsigned k = 0; k < n_writers(fused->inputs[j].tensor); k++) {
        const GraphTensor *tensor = fused->inputs[j].tensor;
        int before = last[tensor->n_parts ? tensor->parts[k]->index : tensor->index];
        if (before >= 0) g_array_append_val(list, before);
      }
    g_array_sort(list, by_number);
    unsigned *sorted = arena_memdup(fusion->arena, list->data, list->len * sizeof(unsigned));
    for (unsigned j = 0; j < list->len; j++)
      if (!j || sorted[j] != sorted[fused->n_depends - 1]) sorted[fused->n_depends++] = sorted[j];
    fused->depends_on = sorted;
    for (unsigned j = 0; j < fused->n_outputs; j++)
      last[fused->outputs[j].tensor->index] = (int)i;
  }
}

/* One group a node: what remains if grouping went wrong, and what options->none asks for. */
static void ungroup(Grouping *g)
{
  for (unsigned i = 0; i < g->fuser.groups->len; i++)
    ((Group *)g->fuser.groups->pdata[i])->absorbed = true;
  memset(g->fuser.group_of, 0, g->fuser.nodes->len * sizeof *g->fuser.group_of);
  g->fuser.none = true;
  place_nodes(g);
}

static bool is_complete(const Grouping *g, const GPtrArray *ordered)
{
  unsigned n = 0;
  for (unsigned i = 0; i < g->fuser.groups->len; i++)
    n += !((Group *)g->fuser.groups->pdata[i])->absorbed;
  return n == ordered->len;
}

/* What the graph does not give has memory of its own, once for all parts. */
static void add_intermediate(GPtrArray *intermediates, GHashTable *added, const GraphTensor *tensor)
{
  if (tensor->whole) tensor = tensor->whole;
  if (!tensor->is_output && g_hash_table_add(added, (void *)tensor))
    g_ptr_array_add(intermediates, (void *)tensor);
}

static bool finish(Grouping *g, Fusion *fusion, GError **error)
{
  g_autoptr(GPtrArray) ordered = g_ptr_array_new(), intermediates = g_ptr_array_new();
  g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GHashTable) added = g_hash_table_new(NULL, NULL);
  order_groups(g, ordered);
  if (!is_complete(g, ordered)) {
    fuser_note(&g->fuser, "groups would wait for each other: every node becomes a kernel");
    g_ptr_array_set_size(ordered, 0);
    ungroup(g);
    order_groups(g, ordered);
  }
  fusion->n = ordered->len;
  fusion->operators = arena_new_array(fusion->arena, FusedOperator *, ordered->len);
  for (unsigned i = 0; i < ordered->len; i++) {
    const char *chain = chain_of(&g->fuser, ordered->pdata[i]);
    FusedOperator *fused = fuser_assemble(&g->fuser, ordered->pdata[i], chain, error);
    if (!fused || !program_verify(fused->program, ERROR_INTERNAL, error)) return false;
    fused->index = i;
    fused->chain = chain;
    fused->name = unique_name(&g->fuser, fused->chain, names);
    fusion->operators[i] = fused;
    for (unsigned j = 0; j < fused->n_outputs; j++)
      add_intermediate(intermediates, added, fused->outputs[j].tensor);
  }
  fusion->n_intermediates = intermediates->len;
  fusion->intermediates =
      arena_memdup(fusion->arena, intermediates->pdata, intermediates->len * sizeof(void *));
  fusion->n_notes = g->fuser.notes->len;
  fusion->notes = arena_memdup(fusion->arena, g->fuser.notes->pdata, g->fuser.notes->len * sizeof(void *));
  set_dependencies(g, fusion);
  return true;
}

/* What groups can do for one another, once it is known that they can be ordered. */
static void share_kernels(Grouping *g)
{
  g_autoptr(GPtrArray) ordered = g_ptr_array_new();
  order_groups(g, ordered);
  if (!is_complete(g, ordered)) return;
  fuser_pair_products(&g->fuser);
  free_index(g);
  fuser_reduce_products(&g->fuser);
  index_tensors(g);
}

Fusion *fusion_build(const Graph *graph, const FusionOptions *options, GError **error)
{
  GError *local = NULL;
  Fusion *fusion = g_new0(Fusion, 1);
  fusion->arena = arena_new();
  fusion->graph = graph;
  Grouping g = {.fuser = {.arena = fusion->arena,
                          .graph = graph,
                          .nodes = g_ptr_array_new(),
                          .tensors = g_ptr_array_new(),
                          .groups = g_ptr_array_new(),
                          .notes = g_ptr_array_new(),
                          .none = options && options->none,
                          .options = options,
                          .max_steps = options && options->max_steps ? options->max_steps : MAX_STEPS_DEFAULT,
                          .max_tensors = MAX_TENSORS,
                          .max_work = MAX_WORK}};
  bool ok = fuser_prepare(&g.fuser, &local);
  if (ok) {
    index_tensors(&g);
    g.fuser.group_of = arena_new_array(g.fuser.arena, Group *, g.fuser.nodes->len);
    place_nodes(&g);
    if (!g.fuser.none) share_kernels(&g);
    ok = finish(&g, fusion, &local);
  }
  free_index(&g);
  for (unsigned i = 0; i < g.fuser.groups->len; i++)
    g_ptr_array_unref(((Group *)g.fuser.groups->pdata[i])->nodes);
  g_ptr_array_unref(g.fuser.nodes);
  g_ptr_array_unref(g.fuser.tensors);
  g_ptr_array_unref(g.fuser.groups);
  g_ptr_array_unref(g.fuser.notes);
  if (ok) return fusion;
  g_propagate_error(error, local);
  fusion_free(fusion);
  return NULL;
}

void fusion_free(Fusion *fusion)
{
  if (!fusion) return;
  arena_free(fusion->arena);
  g_free(fusion);
}
