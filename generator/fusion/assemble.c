/* From a group of nodes to a fused operator: its program, and what the family that matches it makes of it. */
#include "generator/fusion/private.h"
#include "generator/program/family.h"

typedef struct {
  const Fuser *fuser;
  GHashTable *inside;        /* nodes of the group */
  const GraphTensor *result; /* leaves in any case; may be NULL */
} Leaving;

/* Some node that is not inside reads the tensor, or a view of it. Before grouping, when who reads a node's
 * results comes behind it, nobody does. */
static bool is_read_outside(const Leaving *leaving, const GraphTensor *tensor)
{
  const Fuser *fuser = leaving->fuser;
  const GPtrArray *readers = fuser->readers ? fuser->readers[tensor->index] : NULL;
  for (unsigned i = 0; readers && i < readers->len; i++)
    if (!g_hash_table_contains(leaving->inside, readers->pdata[i])) return true;
  return false;
}

/* Tensors that the graph gives or that nodes of other groups read. */
static bool leaves(const GraphTensor *tensor, void *data)
{
  const Leaving *leaving = data;
  return tensor->is_output || tensor == leaving->result || is_read_outside(leaving, tensor);
}

static void mark_symbol(const Symbolic *leaf, void *data)
{
  if (leaf->kind == SYMBOLIC_SYMBOL) g_hash_table_add(data, (void *)leaf->name);
}

static void mark_expression(const Symbolic *expression, void *data)
{
  symbolic_visit(expression, mark_symbol, data);
}

static void ignore_number(int64_t number, void *data)
{
}

static void ignore_real(double number, void *data)
{
}

static void ignore_operand(const FusedOperand *operand, void *data)
{
}

static void add_symbols(const Fuser *fuser, FusedOperator *fused)
{
  const Graph *graph = fuser->graph;
  g_autoptr(GHashTable) used = g_hash_table_new(g_str_hash, g_str_equal);
  for (unsigned d = 0; d < fused->rank; d++) {
    symbolic_visit(fused->dims[d], mark_symbol, used);
    for (unsigned i = 0; i < fused->n_inputs; i++)
      symbolic_visit(fused->inputs[i].strides[d], mark_symbol, used);
  }
  const BindingVisitor visitor = {ignore_number, ignore_real, mark_expression, ignore_operand, used};
  fused->family->visit(fused, &visitor);
  fused->symbols = arena_new_array(fuser->arena, const char *, graph->n_dims);
  for (unsigned i = 0; i < graph->n_dims; i++)
    if (g_hash_table_contains(used, graph->dims[i].name))
      fused->symbols[fused->n_symbols++] = graph->dims[i].name;
}

Program *fuser_group_program(Fuser *fuser, const Group *group, const GraphTensor *result, const char *name)
{
  g_autoptr(GHashTable) inside = g_hash_table_new(NULL, NULL);
  Leaving leaving = {fuser, inside, result};
  for (unsigned i = 0; i < group->nodes->len; i++)
    g_hash_table_add(inside, group->nodes->pdata[i]);
  ProgramGroup nodes = {.arena = fuser->arena,
                        .graph = fuser->graph,
                        .name = name,
                        .nodes = (GraphNode *const *)group->nodes->pdata,
                        .n = group->nodes->len,
                        .chained = group->chained,
                        .mean_of = group->mean_of,
                        .leaves = leaves,
                        .data = &leaving};
  return program_build(&nodes);
}

FusedOperator *fuser_assemble(Fuser *fuser, const Group *group, const Program *program, GError **error)
{
  FusedOperator *fused = family_match(program, error);
  if (!fused) return NULL;
  fused->n_nodes = group->nodes->len;
  fused->nodes = arena_memdup(fuser->arena, group->nodes->pdata, fused->n_nodes * sizeof(GraphNode *));
  fused->joined_by = arena_new_array(fuser->arena, const char *, fused->n_nodes);
  for (unsigned i = 0; i < fused->n_nodes; i++)
    fused->joined_by[i] = fuser->joined_by[fused->nodes[i]->index];
  add_symbols(fuser, fused);
  return fused;
}
