/* The first elements of rows in order, and where they stood: one scan that sorts what is read, and writes of what it gives.
 * Rows and columns become one dim each. */
#include "generator/program/bind.h"
#include "generator/program/fused_text.h"
#include "generator/program/top.h"

/* Rows, then the axis; false if an operand's rows are not evenly spaced. */
static bool settle(Binding *binding, unsigned along, FusedTop *bound)
{
  const Program *program = binding->program;
  int axes[PROGRAM_MAX_AXES];
  unsigned n = 0, rows;
  for (unsigned i = 0; i < program->n_axes; i++)
    if (i != along) axes[n++] = (int)i;
  rows = n;
  axes[n++] = (int)along;
  Space space;
  if (!bind_space(binding, &space, axes, n)) return false;
  if (space_merge(program->arena, &space, 0, rows) > 1) {
    binding->why = "its rows are not evenly spaced";
    return false;
  }
  if (space.rank < 2) space_insert(program->arena, &space, 0);
  bound->rows = space.dims[0];
  bound->columns = space.dims[1];
  return bind_take_space(binding, &space);
}

/* What is stored are a row's first elements, as many in all results. */
static bool check_write(const Program *program, const ProgramNode *write, unsigned sort, FusedTop *bound)
{
  const ProgramAccess *access = &write->access;
  const ProgramValue *value = &write->operands[0];
  if (write->combines || value->kind != VALUE_NODE || value->node != sort) return false;
  unsigned along = (unsigned)__builtin_ctz(program->nodes[sort].axes), found = 0;
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    int64_t count;
    if (!symbolic_same(access->at[d].of_axes, program->axes[along].symbol)) continue;
    if (!symbolic_is_constant(access->tensor->shape[d], &count) ||
        (bound->count >= 0 && count != bound->count))
      return false;
    bound->count = count;
    found++;
  }
  return found == 1;
}

static bool check_nodes(Binding *binding, unsigned sort, FusedTop *bound)
{
  const Program *program = binding->program;
  const ProgramValue *source = &program->nodes[sort].operands[0];
  if (source->kind != VALUE_NODE || program->nodes[source->node].kind != NODE_READ)
    binding->why = "what is put in order is computed";
  for (unsigned i = 0; i < program->n_nodes && !binding->why; i++) {
    const ProgramNode *node = &program->nodes[i];
    bool other = i != sort && node->kind != NODE_WRITE && i != source->node;
    if (other || (node->kind == NODE_WRITE && !check_write(program, node, sort, bound)))
      binding->why = "more than the first elements in order and their places is computed";
  }
  return !binding->why;
}

static bool bind(Binding *binding)
{
  const Program *program = binding->program;
  int at;
  if (bind_count(program, NODE_SCAN, &at) != 1 || !program_sorts(&program->nodes[at])) return false;
  const ProgramNode *sort = &program->nodes[at];
  binding->near = true;
  FusedTop *bound = arena_new_object(program->arena, FusedTop);
  *bound = (FusedTop){.largest = sort->reduction == REDUCTION_LARGEST, .count = PROGRAM_NONE};
  if (!check_nodes(binding, (unsigned)at, bound)) return false;
  for (unsigned i = 0; i < program_reduction_results(sort->reduction); i++)
    bind_anchor(binding, (ProgramValue){VALUE_NODE, (unsigned)at, i, 0, program_result_type(sort, i)}, 0, i,
                program_result_type(sort, i));
  binding->fused->anchor = sort->source;
  binding->fused->binding = bound;
  return bind_lists(binding) && bind_operand(binding, sort->operands[0], false, &bound->source) &&
         settle(binding, (unsigned)__builtin_ctz(sort->axes), bound);
}

FamilyMatch match_top(const Program *program, FusedOperator *fused, const char **why)
{
  Binding binding = {.scans = true, .cuts = true};
  bool ok = bind_open(&binding, program, fused) && bind(&binding);
  *why = binding.near ? binding.why : NULL; /* few programs sort */
  bind_close(&binding);
  return ok ? MATCH_TAKEN : binding.near ? MATCH_NEARLY : MATCH_OTHER;
}

/* ---- for others ---- */

void visit_top(const FusedOperator *op, const BindingVisitor *visitor)
{
  const FusedTop *top = top_of(op);
  visitor->number(top->largest, visitor->data);
  visitor->number(top->count, visitor->data);
  visitor->expression(top->rows, visitor->data);
  visitor->expression(top->columns, visitor->data);
  visitor->operand(&top->source, visitor->data);
}

void describe_top(const FusedOperator *op, GString *text)
{
  const FusedTop *top = top_of(op);
  g_string_append_printf(text, "  the %" G_GINT64_FORMAT " %s of each row of ", top->count,
                         top->largest ? "largest" : "smallest");
  fused_put_operand(text, op, &top->source);
  g_string_append(text, ", in order\n");
}

unsigned types_top(const FusedOperator *op, NumberType *types)
{
  types[0] = top_element(op);
  return 1;
}

unsigned extents_top(const FusedOperator *op, FamilyExtent *extents)
{
  extents[0] = (FamilyExtent){"r", top_of(op)->rows};
  extents[1] = (FamilyExtent){"c", top_of(op)->columns};
  return 2;
}

const FusedOperator *turned_top(Arena *arena, const FusedOperator *op)
{
  return NULL;
}
