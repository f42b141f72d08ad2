#include "generator/program/match_joined.h"
#include "generator/program/match_pages.h"

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

/* Is the value the page of the place, of pages of so many rows? */
static bool is_page_of(const Program *program, const ProgramValue *value, unsigned place,
                       const Symbolic *rows)
{
  if (value->kind != VALUE_NODE) return false;
  const ProgramNode *map = &program->nodes[value->node];
  int64_t extent;
  return map->kind == NODE_MAP && map->op == ONNX_Div && map->operands[0].kind == VALUE_NODE &&
         same_place(program, (int)map->operands[0].node, place) && map->operands[1].kind == VALUE_IMMEDIATE &&
         symbolic_is_constant(rows, &extent) && map->operands[1].immediate == (uint64_t)extent;
}

/* Is it the place's row in that page, what the rows of pages in front of it are taken off? */
static bool is_row_of(const Program *program, const ProgramIndex *index, unsigned place, const Symbolic *rows)
{
  if (index->node == PROGRAM_NONE || !symbolic_equals(index->of_axes, 0)) return false;
  const ProgramNode *map = &program->nodes[index->node];
  if (map->kind != NODE_MAP || map->op != ONNX_Sub || map->operands[0].kind != VALUE_NODE ||
      map->operands[1].kind != VALUE_NODE || !same_place(program, (int)map->operands[0].node, place))
    return false;
  const ProgramNode *first = &program->nodes[map->operands[1].node];
  int64_t extent;
  return first->kind == NODE_MAP && first->op == ONNX_Mul &&
         is_page_of(program, &first->operands[0], place, rows) &&
         first->operands[1].kind == VALUE_IMMEDIATE && symbolic_is_constant(rows, &extent) &&
         first->operands[1].immediate == (uint64_t)extent;
}

/* The node that reads the page of the place, of the same table and batch; or PROGRAM_NONE. */
static int table_of_place(const Program *program, const ProgramAccess *to, unsigned place, int table,
                          const Symbolic *rows)
{
  const ProgramIndex *page = &to->at[0];
  const ProgramNode *where = page->node == PROGRAM_NONE ? NULL : &program->nodes[page->node];
  bool loads = where && where->kind == NODE_MAP && where->op == ONNX_Where &&
               where->operands[2].kind == VALUE_NODE && symbolic_equals(page->of_axes, 0);
  if (!loads) return PROGRAM_NONE;
  int read = (int)where->operands[2].node;
  const ProgramAccess *own = &program->nodes[read].access, *of = &program->nodes[table].access;
  bool same = program->nodes[read].kind == NODE_READ && own->tensor->index == of->tensor->index &&
              symbolic_same(own->at[0].of_axes, of->at[0].of_axes) && own->at[0].node == PROGRAM_NONE &&
              symbolic_equals(own->at[1].of_axes, 0) && own->at[1].node != PROGRAM_NONE &&
              is_page_of(program, &(ProgramValue){VALUE_NODE, (unsigned)own->at[1].node}, place, rows);
  return same ? read : PROGRAM_NONE;
}

void bind_places_joined(const Program *program, const BoundJoined *joined, bool *places)
{
  for (unsigned i = 0; joined->n && i < program->n_nodes; i++) {
    const ProgramAccess *to = &program->nodes[i].access;
    for (unsigned d = 0; program->nodes[i].kind == NODE_WRITE && d < to->tensor->rank; d++) {
      if (to->at[d].node == PROGRAM_NONE) continue;
      g_autofree bool *known = program_ancestors(program, (unsigned)to->at[d].node);
      for (unsigned j = 0; j < program->n_nodes; j++)
        places[j] |= known[j];
    }
  }
}

bool bind_writes_joined(const Binding *binding, BoundJoined *joined, int table, unsigned node)
{
  const Program *program = binding->program;
  const ProgramNode *write = &program->nodes[node];
  for (unsigned i = 0; i < joined->n && write->kind == NODE_WRITE; i++) {
    const ProgramValue *row = &write->operands[0];
    const ProgramAccess *to = &write->access;
    unsigned place = joined->of[i].place;
    bool same = row->kind == VALUE_NODE && row->node == joined->of[i].row;
    const Symbolic *rows = table < 0 ? NULL : program->nodes[joined->of[i].cache].access.tensor->shape[1];
    joined->tables[i] = same && rows ? table_of_place(program, to, place, table, rows) : PROGRAM_NONE;
    for (unsigned d = 0; same && d < to->tensor->rank; d++) {
      const ProgramIndex *at = &to->at[d];
      bool whole = table < 0 && at->node != PROGRAM_NONE && symbolic_equals(at->of_axes, 0) &&
                   same_place(program, at->node, place);
      if (whole || (joined->tables[i] >= 0 && d && is_row_of(program, at, place, rows))) return true;
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
static unsigned find_outputs(const Binding *binding, BoundJoined *joined, int table, AttentionJoined *bound)
{
  const Program *program = binding->program;
  unsigned output = 0, found = 0;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind != NODE_WRITE) continue;
    for (unsigned j = 0; j < joined->n && bind_writes_joined(binding, joined, table, i); j++) {
      if (node->operands[0].node != joined->of[j].row) continue;
      bound->caches[j] = output;
      bound->unread[j] = table < 0 ? G_MAXUINT : binding->places[joined->tables[j]];
      found++;
    }
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

bool bind_settle_joined(Binding *binding, BoundJoined *joined, int table, const unsigned *elements,
                        FusedAttention *attention)
{
  const Program *program = binding->program;
  AttentionJoined *bound = &attention->joined;
  if (!joined->n) return true;
  bool both = joined->n == G_N_ELEMENTS(joined->of) &&
              same_place(program, (int)joined->of[1].place, joined->of[0].place) &&
              joined->of[0].row != joined->of[1].row &&
              find_outputs(binding, joined, table, bound) == joined->n;
  if (!both) return bind_refuse(binding, "of its caches one gets no new row, or several");
  if (attention->scaled || attention->pages.scales[0] || number_has_bytes(attention->type, 1))
    return bind_refuse(binding, "its values have a scale each, or its products take 8 bits");
  int64_t width = 0; /* of wider values several blocks have the columns */
  bool narrow = symbolic_is_constant(attention->width, &width) && width <= ATTENTION_MOST_WIDTH;
  if (is_shared(attention) || attention->sequences.packed || !narrow)
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
