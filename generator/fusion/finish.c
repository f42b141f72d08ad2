/* Groups in order become fused operators: programs, names, dependencies. */
#include "generator/front/order.h"
#include "generator/fusion/private.h"
#include <string.h>

static void append_operator_name(GString *name, const char *operator_)
{
  g_autofree char *lower = g_ascii_strdown(operator_, -1);
  g_string_append_printf(name, "%s%s", name->len ? "_" : "", lower);
}

/* The anchor first, then the others in order; a long chain ends in "more". */
static const char *chain_of(Fuser *fuser, const Group *group)
{
  g_autoptr(GString) name = g_string_new(NULL);
  if (group->anchor) append_operator_name(name, group->chained ? "attention" : group->anchor->op->name);
  unsigned n = 0;
  for (unsigned i = 0; i < group->nodes->len; i++) {
    const GraphNode *node = group->nodes->pdata[i];
    if (node == group->anchor || (group->chained && fuser_is_chained(fuser, node))) continue;
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

static void add_edge(Fuser *fuser, Group *group, Group *source, void *data)
{
  OrderEdge edge = {source->seen, group->seen};
  g_array_append_val(data, edge);
}

/* Groups in an order in which each comes after those it reads from; ties by first node. */
static void order_groups(Fuser *fuser, GPtrArray *ordered)
{
  const GPtrArray *groups = fuser->groups;
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
    fuser_visit_sources(fuser, whole->pdata[i], add_edge, edges);
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

static void set_dependencies(Fuser *fuser, Fusion *fusion)
{
  g_autofree int *last = g_new(int, fuser->tensors->len + 1);
  memset(last, -1, (fuser->tensors->len + 1) * sizeof *last);
  for (unsigned i = 0; i < fusion->n; i++) {
    FusedOperator *fused = fusion->operators[i];
    g_autoptr(GArray) list = g_array_new(FALSE, FALSE, sizeof(unsigned));
    for (unsigned j = 0; j < fused->n_inputs; j++)
      for (unsigned k = 0; k < fuser_n_writers(fused->inputs[j].tensor); k++) {
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

static bool is_complete(const Fuser *fuser, const GPtrArray *ordered)
{
  unsigned n = 0;
  for (unsigned i = 0; i < fuser->groups->len; i++)
    n += !((Group *)fuser->groups->pdata[i])->absorbed;
  return n == ordered->len;
}

/* What the graph does not give has memory of its own, once for all parts. */
static void add_intermediate(GPtrArray *intermediates, GHashTable *added, const GraphTensor *tensor)
{
  if (tensor->whole) tensor = tensor->whole;
  if (!tensor->is_output && g_hash_table_add(added, (void *)tensor))
    g_ptr_array_add(intermediates, (void *)tensor);
}

static bool has_no_elements(const GraphTensor *tensor)
{
  for (unsigned d = 0; d < tensor->rank; d++)
    if (symbolic_equals(tensor->shape[d], 0)) return true;
  return false;
}

/* What has no elements may have no kernel that computes it (rewrite drop_unread), and yet one that names it. */
static void add_empty_inputs(GPtrArray *intermediates, const Graph *graph, const Fusion *fusion)
{
  g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
  for (unsigned i = 0; i < graph->n_outputs; i++)
    g_hash_table_add(names, (void *)graph->outputs[i]->name);
  for (unsigned i = 0; i < intermediates->len; i++)
    g_hash_table_add(names, (void *)((GraphTensor *)intermediates->pdata[i])->name);
  for (unsigned i = 0; i < fusion->n; i++)
    for (unsigned j = 0; j < fusion->operators[i]->n_inputs; j++) {
      const GraphTensor *tensor = fusion->operators[i]->inputs[j].tensor;
      if (tensor->kind == TENSOR_COMPUTED && has_no_elements(tensor) &&
          g_hash_table_add(names, (void *)tensor->name))
        g_ptr_array_add(intermediates, (void *)tensor);
    }
}

/* The same without what has joined it since. */
static Group *chain_alone(Fuser *fuser, const Group *chain)
{
  Group *group = arena_new_object(fuser->arena, Group);
  *group = (Group){.anchor = chain->anchor, .chained = true, .nodes = g_ptr_array_new()};
  for (unsigned i = 0; i < chain->nodes->len; i++)
    if (g_hash_table_lookup(fuser->chains, chain->nodes->pdata[i]) == chain)
      g_ptr_array_add(group->nodes, chain->nodes->pdata[i]);
  return group;
}

void fusion_break_circles(Fuser *fuser)
{
  g_autoptr(GPtrArray) ordered = g_ptr_array_new();
  order_groups(fuser, ordered);
  if (is_complete(fuser, ordered)) return;
  fuser_note(fuser, "groups would wait for each other: every node becomes a kernel");
  for (unsigned i = 0; i < fuser->groups->len; i++)
    ((Group *)fuser->groups->pdata[i])->absorbed = true;
  fuser->alone = true;
  for (unsigned i = 0; i < fuser->nodes->len; i++) {
    fuser->joined_by[i] = NULL;
    GraphNode *node = fuser->nodes->pdata[i];
    Group *chain = g_hash_table_lookup(fuser->chains, node);
    if (!chain)
      fuser_open_group(fuser, node);
    else if (chain->anchor == node)
      fuser_open_chain(fuser, chain_alone(fuser, chain));
  }
}

static unsigned count_operators(const GPtrArray *groups)
{
  unsigned n = 0;
  for (unsigned i = 0; i < groups->len; i++) {
    const Group *group = groups->pdata[i];
    n += group->division ? group->division->n_programs : 1;
  }
  return n;
}

/* The group's fused operator, or those that it is divided into. */
static bool finish_group(Fuser *fuser, Fusion *fusion, const Group *group, GHashTable *names, GError **error)
{
  const ProgramDivision *division = group->division;
  const char *chain = chain_of(fuser, group);
  for (unsigned i = 0; i < (division ? division->n_programs : 1); i++) {
    const char *own = division ? arena_printf(fuser->arena, "%s%s", chain, division->suffixes[i]) : chain;
    Program *program = division ? division->programs[i] : fuser_group_program(fuser, group, NULL, own);
    program->name = own;
    FusedOperator *fused = fuser_assemble(fuser, group, program, error);
    if (!fused || !program_verify(fused->program, ERROR_INTERNAL, error)) return false;
    fused->index = fusion->n;
    fused->chain = own;
    fused->name = unique_name(fuser, own, names);
    fusion->operators[fusion->n++] = fused;
  }
  return true;
}

bool fuser_finish(Fuser *fuser, Fusion *fusion, GError **error)
{
  g_autoptr(GPtrArray) ordered = g_ptr_array_new(), intermediates = g_ptr_array_new();
  g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GHashTable) added = g_hash_table_new(NULL, NULL);
  order_groups(fuser, ordered);
  g_assert(is_complete(fuser, ordered));
  fusion->operators = arena_new_array(fusion->arena, FusedOperator *, count_operators(ordered));
  for (unsigned i = 0; i < ordered->len; i++)
    if (!finish_group(fuser, fusion, ordered->pdata[i], names, error)) return false;
  for (unsigned i = 0; i < fusion->n; i++)
    for (unsigned j = 0; j < fusion->operators[i]->n_outputs; j++)
      add_intermediate(intermediates, added, fusion->operators[i]->outputs[j].tensor);
  add_empty_inputs(intermediates, fuser->graph, fusion);
  fusion->n_stacks = fuser->stacks->len;
  fusion->stacks = arena_memdup(fusion->arena, fuser->stacks->pdata, fuser->stacks->len * sizeof(void *));
  fusion->n_intermediates = intermediates->len;
  fusion->intermediates =
      arena_memdup(fusion->arena, intermediates->pdata, intermediates->len * sizeof(void *));
  fusion->n_notes = fuser->notes->len;
  fusion->notes = arena_memdup(fusion->arena, fuser->notes->pdata, fuser->notes->len * sizeof(void *));
  set_dependencies(fuser, fusion);
  return true;
}
