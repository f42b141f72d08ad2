/* Rows: what their binding tells others. */
#include "generator/program/row.h"
#include "generator/program/fused_text.h"

void visit_row(const FusedOperator *op, const BindingVisitor *visitor)
{
  const FusedRow *row = row_of(op);
  visitor->expression(row->rows, visitor->data);
  visitor->expression(row->columns, visitor->data);
  for (unsigned i = 0; i < row->n_reductions; i++) { /* what else there is follows from these and the steps */
    const FusedReduction *reduction = &row->reductions[i];
    const GraphTensor *result = reduction->node ? reduction->node->outputs[0] : NULL;
    visitor->number(reduction->reduction, visitor->data);
    visitor->operand(&reduction->source, visitor->data);
    if (reduction->place.kind != OPERAND_ABSENT) visitor->operand(&reduction->place, visitor->data);
    visitor->number(reduction->compute, visitor->data);
    visitor->number(result ? (int64_t)result->type : -1, visitor->data);
    if (row->group) visitor->number(reduction->of_groups, visitor->data);
  }
  if (row->group) visitor->number(row->group, visitor->data);
  for (unsigned i = 0; row->group && i < op->n_inputs + op->n_outputs; i++)
    visitor->number(i < op->n_inputs ? op->inputs[i].every : op->outputs[i - op->n_inputs].every,
                    visitor->data);
  for (unsigned i = 0; row->n_sums && i < op->n_outputs; i++)
    visitor->number(op->outputs[i].width, visitor->data);
  visit_points(op, row->points, visitor);
}

unsigned types_row(const FusedOperator *op, NumberType *types)
{
  if (op->n_inputs) types[0] = op->inputs[0].tensor->type;
  return op->n_inputs ? 1 : 0;
}

unsigned extents_row(const FusedOperator *op, FamilyExtent *extents)
{
  extents[0] = (FamilyExtent){"r", row_of(op)->rows};
  extents[1] = (FamilyExtent){"c", row_of(op)->columns};
  return 2;
}

const FusedOperator *turned_row(Arena *arena, const FusedOperator *op)
{
  return NULL;
}

static void put_phases(GString *text, const char *title, const unsigned *phases, unsigned n)
{
  g_string_append(text, title);
  for (unsigned i = 0; i < n; i++)
    g_string_append_printf(text, "%s%u", i ? " " : "", phases[i]);
}

void describe_row(const FusedOperator *op, GString *text)
{
  const FusedRow *row = row_of(op);
  g_string_append_printf(text, "  row program of %u phases", row->n_phases);
  put_phases(text, ", steps in ", row->step_phases, op->n_steps);
  put_phases(text, ", results in ", row->output_phases, op->n_outputs);
  g_string_append_c(text, '\n');
  for (unsigned i = 0; i < row->n_reductions; i++) {
    const FusedReduction *reduction = &row->reductions[i];
    g_string_append_printf(text, "  reduced%u", reduction->first);
    for (unsigned j = 1; j < program_reduction_results(reduction->reduction); j++)
      g_string_append_printf(text, ", reduced%u", reduction->first + j);
    g_string_append_printf(text, " = %s of ", program_reduction_name(reduction->reduction));
    fused_put_operand(text, op, &reduction->source);
    if (reduction->of_groups) g_string_append_printf(text, " every %" G_GINT64_FORMAT, row->group);
    g_string_append_printf(text, " in %s phase %u\n", number_name(reduction->compute), reduction->phase);
  }
  describe_points(op, row->points, text);
}
