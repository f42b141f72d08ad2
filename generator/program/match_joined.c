#include "generator/program/match_joined.h"

int bind_joined(Binding *binding, const ProgramNode *dot, BoundJoined *joined)
{
  ProgramJoined *of = &joined->of[joined->n];
  if (joined->n == G_N_ELEMENTS(joined->of) || !program_joined_operand(binding->program, dot, 1, of))
    return PROGRAM_NONE;
  const unsigned own[] = {of->where, of->equal, of->index};
  for (unsigned i = 0; i < G_N_ELEMENTS(own); i++)
    binding->inside[own[i]] = true;
  joined->n++;
  return (int)of->cache;
}

/* Do both nodes read the same number for each batch? */
static bool same_place(const Program *program, int node, unsigned place)
{
  if (node < 0 || program->nodes[node].kind != NODE_READ) return false;
  const ProgramAccess *a = &program->nodes[node].access, *b = &program->nodes[place].access;
  return a->tensor->index == b->tensor->index && symbolic_same(a->at[0].of_axes, b->at[0].of_axes);
}

bool bind_writes_joined(const Binding *binding, const BoundJoined *joined, unsigned node)
{
  const Program *program = binding->program;
  const ProgramNode *write = &program->nodes[node];
  for (unsigned i = 0; i < joined->n && write->kind == NODE_WRITE; i++) {
    const ProgramValue *row = &write->operands[0];
    bool same = row->kind == VALUE_NODE && row->node == joined->of[i].row;
    for (unsigned d = 0; same && d < write->access.tensor->rank; d++) {
      const ProgramIndex *at = &write->access.at[d];
      if (at->node != PROGRAM_NONE && symbolic_equals(at->of_axes, 0) &&
          same_place(program, at->node, joined->of[i].place))
        return true;
    }
  }
  return false;
}

/* One bound hides what is behind the new row, by its place; others are looked at where that is known. */
static bool find_bound(const Binding *binding, const BoundJoined *joined, FusedAttention *attention)
{
  const GraphTensor *place = binding->program->nodes[joined->of[0].place].access.tensor;
  bool found = false;
  for (unsigned i = 0; i < attention->n_bounds; i++) {
    const AttentionBound *bound = &attention->bounds[i];
    const FusedOperand *limit = &bound->limit;
    if (limit->kind != OPERAND_INPUT && limit->kind != OPERAND_IMMEDIATE) return false;
    if (bound->from_row && !symbolic_equals(attention->rows, 1)) return false;
    bool own = limit->kind == OPERAND_INPUT && !bound->least && symbolic_equals(bound->number, 0) &&
               binding->fused->inputs[limit->index].tensor->index == place->index;
    if (own) attention->joined.bound = i;
    found |= own;
  }
  return found && !attention->causal;
}

/* The outputs that the caches are, and how many of them there are. */
static unsigned find_outputs(const Binding *binding, const BoundJoined *joined, AttentionJoined *bound)
{
  const Program *program = binding->program;
  unsigned output = 0, found = 0;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind != NODE_WRITE) continue;
    for (unsigned j = 0; j < joined->n && bind_writes_joined(binding, joined, i); j++)
      if (node->operands[0].node == joined->of[j].row) bound->caches[j] = output, found++;
    output++;
  }
  return found;
}

/* Blocks of several batches or heads would read a row of the cache that one of them stores at the same time. */
static bool is_shared(const FusedAttention *attention)
{
  const AttentionOperand *const caches[] = {&attention->key_matrix, &attention->values};
  const Symbolic *const dims[] = {attention->batches, attention->heads};
  for (unsigned i = 0; i < G_N_ELEMENTS(caches); i++)
    for (unsigned d = 0; d < G_N_ELEMENTS(dims); d++)
      if (symbolic_equals(caches[i]->strides[d], 0) && !symbolic_equals(dims[d], 1)) return true;
  return !symbolic_equals(attention->group, 1);
}

bool bind_settle_joined(Binding *binding, const BoundJoined *joined, const unsigned *elements,
                        FusedAttention *attention)
{
  const Program *program = binding->program;
  AttentionJoined *bound = &attention->joined;
  if (!joined->n) return true;
  bool both = joined->n == G_N_ELEMENTS(joined->of) &&
              same_place(program, (int)joined->of[1].place, joined->of[0].place) &&
              joined->of[0].row != joined->of[1].row && find_outputs(binding, joined, bound) == joined->n;
  if (!both) return bind_refuse(binding, "of its caches one gets no new row, or several");
  if (attention->scaled || number_has_bytes(attention->type, 1))
    return bind_refuse(binding, "its values have a scale each, or its products take 8 bits");
  int64_t width = 0; /* of wider values several blocks have the columns */
  bool narrow = symbolic_is_constant(attention->width, &width) && width <= ATTENTION_MOST_WIDTH;
  if (is_shared(attention) || attention->sequences.packed || attention->pages.rows || !narrow)
    return bind_refuse(binding, "several tiles read the keys that a new row stands behind");
  if (!find_bound(binding, joined, attention))
    return bind_refuse(binding, "its masks do not end with the new row");
  for (unsigned i = 0; i < joined->n; i++) /* they are loaded as rows, whatever view of memory they are */
    if (!bind_lies_beside(program, joined->of[i].row, elements[i]))
      return bind_refuse(binding, "elements of its new rows do not lie side by side");
  bound->taken = true;
  bound->place = binding->places[joined->of[0].place];
  for (unsigned i = 0; i < joined->n; i++)
    bound->rows[i] = binding->places[joined->of[i].row];
  return true;
}
