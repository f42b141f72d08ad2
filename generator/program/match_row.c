/* Row programs: any number of reductions over the same columns, with steps before, between, behind and beside them,
 * whose values may be written in any phase. A phase ends at the reductions whose results later steps need. Some of them may
 * be over the innermost columns alone: those of a group of so many columns, as scales of a quantisation are. */
#include "generator/program/bind.h"
#include "generator/program/row.h"

#define NO_PHASE G_MAXUINT
#define APART    "sums of columns of rows that are no matrix"

typedef struct {
  Binding *binding;
  FusedRow *bound;
  const Program *program;
  uint32_t columns;
  uint32_t group;   /* the innermost axis of these, if reductions are over it alone; else 0 */
  unsigned *phases; /* by node */
} RowProgram;

/* ---- what is a row program ---- */

static uint32_t columns_of(const Program *program)
{
  uint32_t columns = 0;
  for (unsigned i = 0; i < program->n_nodes; i++)
    if (program->nodes[i].kind == NODE_REDUCE) columns |= program->nodes[i].axes;
  return columns;
}

/* Sums of columns, of so many rows each. */
static const char *refuse_sums(const RowProgram *rows, const ProgramNode *write)
{
  const Program *program = rows->program;
  const ProgramAccess *access = &write->access;
  uint32_t others = ((1u << program->n_axes) - 1) & ~rows->columns;
  bool sums = write->reduction == REDUCTION_SUM && access->tensor->rank == 2 &&
              access->tensor->type == NUMBER_F32 &&
              program_divides_place(program, access->at[0].of_axes, others) &&
              access->at[1].of_axes->kind == SYMBOLIC_SYMBOL &&
              program_axes_in(program, access->at[1].of_axes) == rows->columns;
  return sums ? NULL : "parts of its values are combined";
}

/* Along a part of the columns. */
static const char *refuse_group(const RowProgram *rows, const ProgramNode *node)
{
  int64_t extent;
  uint32_t innermost = 1u << (31 - __builtin_clz(rows->columns));
  bool simple = node->reduction == REDUCTION_SUM || node->reduction == REDUCTION_MAX ||
                node->reduction == REDUCTION_MIN || node->reduction == REDUCTION_PROD ||
                node->reduction == REDUCTION_MEAN;
  if (node->axes != innermost) return "its reductions are over several axes";
  if (!simple) return "parts of its rows have reductions that only whole rows have";
  if (!symbolic_is_constant(rows->program->axes[31 - __builtin_clz(innermost)].extent, &extent))
    return "parts of its rows have a length that is not known";
  return NULL;
}

static const char *refuse_reduction(const ProgramNode *node)
{
  bool simple = node->reduction == REDUCTION_SUM || node->reduction == REDUCTION_MAX ||
                node->reduction == REDUCTION_MIN || node->reduction == REDUCTION_PROD;
  if (node->reduction == REDUCTION_DOT) return "a reduction is a contraction";
  bool integer = node->compute == NUMBER_S32 || node->compute == NUMBER_S64,
       plain = simple || (node->compute == NUMBER_F64 && node->reduction == REDUCTION_MEAN);
  if (node->compute == NUMBER_F32 || (plain && (integer || node->compute == NUMBER_F64))) return NULL;
  return "a reduction's type has no row program";
}

/* The innermost columns, if something has one element for all of these and further ones for others; 0: nothing has. */
static uint32_t group_read(const RowProgram *rows)
{
  const Program *program = rows->program;
  uint32_t innermost = rows->columns ? 1u << (31 - __builtin_clz(rows->columns)) : 0;
  if (innermost == rows->columns ||
      !symbolic_is_constant(program->axes[31 - __builtin_clz(innermost)].extent, NULL))
    return 0;
  for (unsigned i = 0; i < program->n_nodes; i++)
    if (program->nodes[i].kind == NODE_READ && (program->varies[i] & rows->columns) &&
        !(program->varies[i] & innermost))
      return innermost;
  return 0;
}

static bool check_nodes(RowProgram *rows)
{
  const Program *program = rows->program;
  Binding *binding = rows->binding;
  bool writes = false, dots = false;
  unsigned sums = 0;
  rows->columns = columns_of(program);
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    writes |= node->kind == NODE_WRITE;
    if (node->kind == NODE_WRITE && node->combines && !binding->why) binding->why = refuse_sums(rows, node);
    sums += node->kind == NODE_WRITE && node->combines;
    if (node->kind != NODE_REDUCE) continue;
    dots |= node->reduction == REDUCTION_DOT;
    if (!binding->why) binding->why = refuse_reduction(node);
    if (node->axes == rows->columns) continue;
    if (!binding->why) binding->why = refuse_group(rows, node);
    rows->group = node->axes;
  }
  if (!rows->group) rows->group = group_read(rows);
  if (sums && !binding->why && rows->group) binding->why = APART;
  binding->near = rows->columns && !dots;
  if (!binding->why && !rows->columns) binding->why = "there is no reduction";
  if (!binding->why && !writes) binding->why = "nothing is written";
  return !binding->why;
}

/* ---- phases ---- */

/* In which phase a value is there: behind a reduction in the next. */
static unsigned ready_after(const RowProgram *rows, const ProgramValue *value)
{
  if (value->kind != VALUE_NODE) return 0;
  return rows->phases[value->node] + (rows->program->nodes[value->node].kind == NODE_REDUCE);
}

/* Steps go to the phase of the first who reads them, which is where nothing waits in registers for it. */
static void find_phases(RowProgram *rows)
{
  const Program *program = rows->program;
  g_autofree unsigned *first = g_new(unsigned, program->n_nodes + 1);
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    first[i] = NO_PHASE;
    for (unsigned j = 0; j < node->n_operands; j++)
      rows->phases[i] = MAX(rows->phases[i], ready_after(rows, &node->operands[j]));
  }
  for (unsigned i = program->n_nodes; i-- > 0;) {
    const ProgramNode *node = &program->nodes[i];
    bool moves = node->kind == NODE_MAP || (node->kind == NODE_READ && node->n_operands);
    if (moves && first[i] != NO_PHASE) rows->phases[i] = MAX(rows->phases[i], first[i]);
    for (unsigned j = 0; j < node->n_operands; j++)
      if (node->operands[j].kind == VALUE_NODE)
        first[node->operands[j].node] = MIN(first[node->operands[j].node], rows->phases[i]);
  }
}

/* ---- what they are to the writer ---- */

static void anchor_results(RowProgram *rows)
{
  const Program *program = rows->program;
  unsigned next = 0;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind != NODE_REDUCE) continue;
    rows->binding->inside[i] = true;
    for (unsigned j = 0; j < program_reduction_results(node->reduction); j++)
      rows->binding->anchors[i][j] = (FusedOperand){OPERAND_REDUCED, next++, 0, program_result_type(node, j)};
  }
}

static bool bind_reductions(RowProgram *rows)
{
  const Program *program = rows->program;
  FusedRow *row = rows->bound;
  row->reductions = arena_new_array(program->arena, FusedReduction, program->n_nodes);
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind != NODE_REDUCE) continue;
    FusedReduction reduction = {.reduction = node->reduction,
                                .node = node->source,
                                .compute = node->compute,
                                .first = rows->binding->anchors[i][0].index,
                                .phase = rows->phases[i],
                                .of_groups = node->axes != rows->columns};
    if (!bind_operand(rows->binding, node->operands[0], false, &reduction.source)) return false;
    if (node->n_operands > 1 && !bind_operand(rows->binding, node->operands[1], false, &reduction.place))
      return false;
    row->reductions[row->n_reductions++] = reduction;
    row->n_phases = MAX(row->n_phases, reduction.phase + 2);
  }
  return true;
}

static void place_steps(RowProgram *rows)
{
  const Program *program = rows->program;
  FusedRow *row = rows->bound;
  unsigned step = 0, output = 0;
  row->step_phases = arena_new_array(program->arena, unsigned, program->n_nodes);
  row->output_phases = arena_new_array(program->arena, unsigned, program->n_nodes);
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind == NODE_MAP) row->step_phases[step++] = rows->phases[i];
    if (node->kind == NODE_WRITE) row->output_phases[output++] = rows->phases[i];
  }
}

/* Behind one phase nothing is left but values of whole rows. */
static bool leaves_values(const RowProgram *rows)
{
  const Program *program = rows->program;
  bool values = rows->bound->n_phases == 2;
  for (unsigned i = 0; i < program->n_nodes; i++)
    values &= program->nodes[i].kind != NODE_WRITE || !(program->varies[i] & rows->columns);
  return values;
}

/* Of what is read at indices there is one value a row, and only the place in a row counts along it. */
static bool check_points(RowProgram *rows, const Elementwise *points)
{
  const Program *program = rows->program;
  for (unsigned i = 0; i < program->n_nodes && points; i++) {
    const ProgramNode *node = &program->nodes[i];
    bool placed = node->kind == NODE_READ && points->places[rows->binding->places[i]].n;
    if (placed && program->varies[i] & rows->columns)
      rows->binding->why = "each element of a row is read at an index of its own";
  }
  return !rows->binding->why;
}

/* What has one element for a group is walked along by columns as if its elements were apart, which lets the columns' axes be
 * one dim. */
static void stretch_groups(RowProgram *rows, Space *space, const int *axes, bool *grouped)
{
  Arena *arena = rows->program->arena;
  unsigned last = space->rank - 1, first = last;
  const Symbolic *length = space->dims[last];
  while (first && rows->columns >> axes[first - 1] & 1)
    first--;
  for (unsigned i = 0; i < space->n_operands; i++) {
    bool walks = false;
    for (unsigned d = first; d < last; d++)
      walks |= !symbolic_equals(space->strides[d][i], 0);
    grouped[i] = walks && symbolic_equals(space->strides[last][i], 0);
    if (!grouped[i]) continue;
    space->strides[last][i] = space->strides[last - 1][i];
    for (unsigned d = first; d < last; d++)
      space->strides[d][i] = symbolic_mul(arena, space->strides[d][i], length);
  }
}

static void settle_groups(RowProgram *rows, const bool *grouped)
{
  FusedRow *row = rows->bound;
  FusedOperator *fused = rows->binding->fused;
  int64_t columns;
  symbolic_is_constant(rows->program->axes[31 - __builtin_clz(rows->group)].extent, &row->group);
  if (symbolic_is_constant(row->columns, &columns) && columns == row->group) { /* each row is one */
    row->group = 0;
    for (unsigned i = 0; i < row->n_reductions; i++)
      row->reductions[i].of_groups = false;
    return;
  }
  row->group_axes = rows->group;
  for (unsigned i = 0; i < fused->n_inputs; i++)
    fused->inputs[i].every = grouped[i] ? row->group : 0;
  for (unsigned i = 0; i < fused->n_outputs; i++)
    fused->outputs[i].every = grouped[fused->n_inputs + i] ? row->group : 0;
}

/* Columns become one dim, rows as few as their operands allow. */
static bool settle(RowProgram *rows)
{
  const Program *program = rows->program;
  FusedRow *row = rows->bound;
  int axes[PROGRAM_MAX_AXES];
  unsigned n = 0, n_rows = 0;
  for (unsigned part = 0; part < 2; part++) {
    for (unsigned i = 0; i < program->n_axes; i++)
      if ((rows->columns >> i & 1) == part) axes[n++] = (int)i;
    if (!part) n_rows = n;
  }
  Space space;
  Elementwise *points;
  if (!bind_points(rows->binding, &points) || !check_points(rows, points)) return false;
  row->points = points;
  row->column = rows->binding->column;
  if (!bind_space(rows->binding, &space, axes, n)) return false;
  g_autofree bool *grouped = g_new0(bool, space.n_operands + 1);
  if (rows->group) stretch_groups(rows, &space, axes, grouped);
  unsigned n_columns = space_merge(program->arena, &space, n_rows, space.rank);
  n_rows = space_merge(program->arena, &space, 0, n_rows);
  if (row->n_sums && n_rows > 1) {
    rows->binding->why = APART;
    return false;
  }
  if (n_columns > 1) {
    rows->binding->why = "elements of its rows are not evenly spaced";
    return false;
  }
  if (!n_columns) space_insert(program->arena, &space, space.rank);
  if (!n_rows) space_insert(program->arena, &space, 0);
  row->columns = space.dims[space.rank - 1];
  row->rows = space.dims[0];
  for (unsigned d = 1; d + 1 < space.rank; d++)
    row->rows = symbolic_mul(program->arena, row->rows, space.dims[d]);
  if (!bind_fits(rows->binding, row->rows) || !bind_take_space(rows->binding, &space)) return false;
  bind_point_dims(rows->binding, &space, points);
  if (rows->group) settle_groups(rows, grouped);
  return true;
}

static bool bind(RowProgram *rows)
{
  FusedOperator *fused = rows->binding->fused;
  int first;
  if (!check_nodes(rows)) return false;
  bind_count(rows->program, NODE_REDUCE, &first);
  fused->anchor = rows->program->nodes[first].source;
  fused->binding = rows->bound = arena_new_object(rows->program->arena, FusedRow);
  *rows->bound = (FusedRow){.axes = rows->columns};
  find_phases(rows);
  anchor_results(rows);
  if (!bind_lists(rows->binding) || !bind_reductions(rows)) return false;
  place_steps(rows);
  rows->bound->reduction = leaves_values(rows);
  for (unsigned i = 0; i < fused->n_outputs; i++)
    rows->bound->n_sums += fused->outputs[i].reduced;
  return settle(rows);
}

FamilyMatch match_row(const Program *program, FusedOperator *fused, const char **why)
{
  Binding binding = {
      .points = true, .combines = true, .column = program_place_along(program, columns_of(program))};
  RowProgram rows = {.binding = &binding, .program = program};
  bool ok = bind_open(&binding, program, fused);
  if (ok) {
    rows.phases = g_new0(unsigned, program->n_nodes + 1);
    ok = bind(&rows);
  }
  *why = binding.why;
  g_free(rows.phases);
  bind_close(&binding);
  return ok ? MATCH_TAKEN : binding.near ? MATCH_NEARLY : MATCH_OTHER;
}
