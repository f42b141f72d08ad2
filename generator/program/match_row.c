/* Row kernels: reductions over the same columns with steps around them (match_row_program.c). One reduction, by itself
 * or as part of a softmax or normalisation, with steps in front and behind, is bound for its template too: rows and
 * columns become one dim each. */
#include "generator/program/bind.h"
#include "generator/program/row.h"

static const ProgramValue none = {.kind = VALUE_ABSENT};

typedef struct {
  Binding *binding;
  FusedRow *bound;
  const Program *program;
  const ProgramNode *reduce;
  ProgramValue source, first, second; /* what the template reads; the reduction's results */
} Row;

static ProgramValue result_of(const Row *row, int node)
{
  const ProgramNode *made = &row->program->nodes[node];
  return (ProgramValue){VALUE_NODE, (unsigned)node, 0, 0, made->compute};
}

static bool inside(Row *row, int node)
{
  if (node != PROGRAM_NONE) row->binding->inside[node] = true;
  return node != PROGRAM_NONE;
}

static bool follows(Row *row, OperatorId op, ProgramValue a, ProgramValue b, ProgramValue *result)
{
  int node = bind_find_map(row->program, op, a, b);
  if (!inside(row, node)) return false;
  *result = result_of(row, node);
  return true;
}

/* The family's own value. */
static void set_value(Row *row, RowKind kind, ProgramValue value, double epsilon)
{
  FusedRow *bound = row->bound;
  bound->kind = kind;
  bound->reduction = kind >= ROW_REDUCE_SUM;
  bound->epsilon = epsilon;
  bind_anchor(row->binding, value, 0, 0, row->reduce->compute);
}

static bool match_softmax(Row *row)
{
  ProgramValue below, power, value;
  row->source = row->reduce->operands[0];
  if (!follows(row, ONNX_Sub, row->source, row->first, &below)) return false;
  if (follows(row, ONNX_Log, row->second, none, &power)) {
    if (!follows(row, ONNX_Sub, below, power, &value)) return false;
    set_value(row, ROW_LOG_SOFTMAX, value, 0);
    return true;
  }
  if (!follows(row, ONNX_Exp, below, none, &power) || !follows(row, ONNX_Div, power, row->second, &value))
    return false;
  set_value(row, ROW_SOFTMAX, value, 0);
  return true;
}

/* 1 / sqrt(square + epsilon) */
static bool match_inverse(Row *row, ProgramValue square, double *epsilon, ProgramValue *inverse)
{
  ProgramValue root;
  for (unsigned i = 0; i < row->program->n_nodes; i++) {
    const ProgramNode *node = &row->program->nodes[i];
    bool adds = node->kind == NODE_MAP && node->op == ONNX_Add && node->n_operands == 2 &&
                bind_same_value(node->operands[0], square) && node->operands[1].kind == VALUE_IMMEDIATE;
    if (!adds) continue;
    *epsilon = node->operands[1].immediate;
    return inside(row, (int)i) && follows(row, ONNX_Sqrt, result_of(row, (int)i), none, &root) &&
           follows(row, ONNX_Reciprocal, root, none, inverse);
  }
  return false;
}

static bool match_layer_norm(Row *row)
{
  double epsilon;
  ProgramValue inverse, centred, value;
  row->source = row->reduce->operands[0];
  if (!match_inverse(row, row->second, &epsilon, &inverse) ||
      !follows(row, ONNX_Sub, row->source, row->first, &centred) ||
      !follows(row, ONNX_Mul, centred, inverse, &value))
    return false;
  set_value(row, ROW_LAYER_NORM, value, epsilon);
  bind_anchor(row->binding, row->first, 0, 1, NUMBER_F32);
  bind_anchor(row->binding, inverse, 0, 2, NUMBER_F32);
  return true;
}

/* x / sqrt(mean(x x) + epsilon). Leaves the binding as it was if it is only a mean. */
static bool match_rms_norm(Row *row)
{
  const ProgramValue *square = &row->reduce->operands[0];
  const ProgramNode *node = square->kind == VALUE_NODE ? &row->program->nodes[square->node] : NULL;
  double epsilon;
  ProgramValue inverse, value;
  bool squares = node && node->kind == NODE_MAP && node->op == ONNX_Mul &&
                 bind_same_value(node->operands[0], node->operands[1]);
  if (!squares || !match_inverse(row, row->first, &epsilon, &inverse)) return false;
  row->source = node->operands[0];
  if (!inside(row, (int)square->node) || !follows(row, ONNX_Mul, row->source, inverse, &value)) return false;
  set_value(row, ROW_RMS_NORM, value, epsilon);
  return true;
}

static void match_reduction(Row *row, RowKind kind)
{
  row->source = row->reduce->operands[0];
  for (unsigned i = 0; i < row->program->n_nodes; i++) /* what a mean's user looked like a norm's for */
    row->binding->inside[i] = false;
  set_value(row, kind, row->first, 0);
}

static bool match_kind(Row *row)
{
  switch (row->reduce->reduction) {
  case REDUCTION_SUM: match_reduction(row, ROW_REDUCE_SUM); return true;
  case REDUCTION_MAX: match_reduction(row, ROW_REDUCE_MAX); return true;
  case REDUCTION_MIN: match_reduction(row, ROW_REDUCE_MIN); return true;
  case REDUCTION_MEAN:
    if (!match_rms_norm(row)) match_reduction(row, ROW_REDUCE_MEAN);
    return true;
  case REDUCTION_MAX_SUM: return match_softmax(row);
  case REDUCTION_MOMENTS: return match_layer_norm(row);
  case REDUCTION_PROD:
  case REDUCTION_ARG_MAX:
  case REDUCTION_ARG_MIN:
  case REDUCTION_DOT:
  case REDUCTION_LARGEST:
  case REDUCTION_SMALLEST:
  case REDUCTION_BEGINS:
  case REDUCTION_LENGTHS:
  case REDUCTION_FIRST_OF:
  case REDUCTION_COUNT_OF:
  case REDUCTION_COUNT: break;
  }
  return false;
}

/* Rows and columns to one dim each, rows of a reduction to two at most; false if an operand does not allow it. */
static bool settle(Row *row)
{
  Binding *binding = row->binding;
  const Program *program = row->program;
  uint32_t columns = row->reduce->axes;
  int axes[PROGRAM_MAX_AXES];
  unsigned n = 0, rows = 0;
  for (unsigned part = 0; part < 2; part++) {
    for (unsigned i = 0; i < program->n_axes; i++)
      if ((columns >> i & 1) == part) axes[n++] = (int)i;
    if (!part) rows = n;
  }
  Space space;
  if (!bind_space(binding, &space, axes, n)) return false;
  unsigned n_columns = space_merge(program->arena, &space, rows, space.rank);
  unsigned n_rows = space_merge(program->arena, &space, 0, rows);
  bool groups = n_rows == 2 && row->bound->reduction;
  if ((n_rows > 1 && !groups) || n_columns > 1) return false;
  if (!n_columns) space_insert(program->arena, &space, space.rank);
  if (!n_rows) space_insert(program->arena, &space, 0);
  row->bound->inner = groups ? space.dims[1] : NULL;
  row->bound->rows = groups ? symbolic_mul(program->arena, space.dims[0], space.dims[1]) : space.dims[0];
  row->bound->columns = space.dims[space.rank - 1];
  bind_take_space(binding, &space);
  return true;
}

/* Behind the reduction nothing wants what is computed element by element in front of it, and of one value a
 * row nothing varies along the row. */
static bool ends_row(const Row *row)
{
  const Program *program = row->program;
  const bool *inside = row->binding->inside;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    bool behind = (node->kind == NODE_MAP || node->kind == NODE_WRITE) && !program->in_front[i] && !inside[i];
    if (behind && row->bound->reduction && program->varies[i] & row->reduce->axes) return false;
    for (unsigned j = 0; behind && j < node->n_operands; j++) {
      const ProgramValue *value = &node->operands[j];
      bool step = value->kind == VALUE_NODE && program->nodes[value->node].kind == NODE_MAP;
      if (step && program->in_front[value->node] && !inside[value->node]) return false;
    }
  }
  return true;
}

static bool bind(Binding *binding, const FusedOperator *whole)
{
  const Program *program = binding->program;
  int at;
  if (bind_count(program, NODE_REDUCE, &at) != 1) return false;
  FusedRow *bound = arena_new_object(program->arena, FusedRow);
  Row row = {.binding = binding, .bound = bound, .program = program, .reduce = &program->nodes[at]};
  row.first = row.second = result_of(&row, at);
  row.second.result = 1;
  binding->inside[at] = true;
  if (!match_kind(&row)) return false;
  binding->inside[at] = true;
  binding->fused->anchor = row.reduce->source;
  binding->fused->binding = bound;
  bound->compute = row.reduce->compute;
  bound->whole = whole;
  return ends_row(&row) && bind_lists(binding) && bind_operand(binding, row.source, false, &bound->source) &&
         settle(&row);
}

static bool bind_template(const Program *program, FusedOperator *fused, const FusedOperator *whole)
{
  Binding binding = {0};
  bool ok = bind_open(&binding, program, fused) && bind(&binding, whole);
  bind_close(&binding);
  return ok;
}

FamilyMatch match_row(const Program *program, FusedOperator *fused, const char **why)
{
  FusedOperator *whole = arena_memdup(program->arena, fused, sizeof *fused);
  FamilyMatch match = bind_row_program(program, whole, why);
  if (bind_template(program, fused, match == MATCH_TAKEN ? whole : NULL)) return MATCH_TAKEN;
  *fused = *whole;
  return match;
}
