/* Elementwise operators: what they tell others, and one with the dimensions that it reads and writes along last. They bind
 * nothing of their own. */
#include "generator/program/elementwise.h"
#include "generator/program/fused_text.h"
#include "generator/program/space.h"
#include <string.h>

/* ---- where points read ---- */

const ElementPlace *elementwise_place(const FusedOperator *op, unsigned input)
{
  const Elementwise *elementwise = elementwise_of(op);
  return elementwise && elementwise->places[input].n ? &elementwise->places[input] : NULL;
}

const ElementPlace *elementwise_target(const FusedOperator *op, unsigned output)
{
  return elementwise_place(op, op->n_inputs + output);
}

bool elementwise_is_upright(const FusedOperator *op)
{
  return elementwise_of(op) && elementwise_of(op)->upright;
}

bool elementwise_runs(const FusedOperator *op)
{
  return elementwise_of(op) && elementwise_of(op)->runs;
}

/* The expression mentions the axis of the last dim. */
static bool follows_row(const FusedOperator *op, const Symbolic *expression)
{
  uint32_t axes = program_axes_in(op->program, expression);
  for (unsigned axis = 0; axis < op->program->n_axes; axis++)
    if (axes >> axis & 1 && elementwise_of(op)->dims[axis] == (int)op->rank - 1) return true;
  return false;
}

/* The walk that gives a result. */
static const ElementWalk *walk_of(const FusedOperator *op, unsigned result)
{
  const Elementwise *elementwise = elementwise_of(op);
  unsigned i = elementwise->n_walks - 1;
  while (elementwise->walks[i].first > result)
    i--;
  return &elementwise->walks[i];
}

/* What was looked at already: steps, then tensors, then walks. Each is asked once, not once for each path to it. */
typedef struct {
  const FusedOperator *op;
  bool *seen;
} Look;

static bool is_new(const Look *look, unsigned place)
{
  bool seen = look->seen[place];
  look->seen[place] = true;
  return !seen;
}

static bool varies(const Look *look, const FusedOperand *operand);

static bool scatters(const Look *look, unsigned tensor)
{
  const FusedOperator *op = look->op;
  const ElementPlace *place = elementwise_place(op, tensor);
  const Symbolic *const *strides =
      tensor < op->n_inputs ? op->inputs[tensor].strides : op->outputs[tensor - op->n_inputs].strides;
  if (elementwise_is_upright(op) && !symbolic_equals(strides[op->rank - 1], 0)) return true;
  for (unsigned i = 0; place && i < place->n; i++)
    if (follows_row(look->op, place->indices[i].of_axes) || varies(look, &place->indices[i].loaded))
      return true;
  return false;
}

static bool varies(const Look *look, const FusedOperand *operand)
{
  const FusedOperator *op = look->op;
  switch (operand->kind) {
  case OPERAND_INPUT:
    return is_new(look, op->n_steps + operand->index) &&
           (!symbolic_equals(op->inputs[operand->index].strides[op->rank - 1], 0) ||
            scatters(look, operand->index));
  case OPERAND_INDEX: return follows_row(op, elementwise_of(op)->values[operand->index]);
  case OPERAND_STEP: {
    const FusedStep *step = &op->steps[operand->index];
    if (!is_new(look, operand->index)) return false;
    for (unsigned i = 0; i < step->n_operands; i++)
      if (varies(look, &step->operands[i])) return true;
    return false;
  }
  case OPERAND_REDUCED: {
    const ElementWalk *walk = walk_of(op, operand->index);
    unsigned place = (unsigned)(walk - elementwise_of(op)->walks);
    return is_new(look, op->n_steps + op->n_inputs + op->n_outputs + place) &&
           (varies(look, &walk->source) || varies(look, &walk->place) || varies(look, &walk->length));
  }
  case OPERAND_ABSENT:
  case OPERAND_ANCHOR:
  case OPERAND_IMMEDIATE: return false;
  }
  return false;
}

static bool *look_new(const FusedOperator *op)
{
  const Elementwise *elementwise = elementwise_of(op);
  return g_new0(bool, op->n_steps + op->n_inputs + op->n_outputs + (elementwise ? elementwise->n_walks : 0));
}

bool elementwise_varies(const FusedOperator *op, const FusedOperand *operand)
{
  g_autofree bool *seen = look_new(op);
  return varies(&(Look){op, seen}, operand);
}

bool elementwise_scatters(const FusedOperator *op, unsigned tensor)
{
  g_autofree bool *seen = look_new(op);
  return scatters(&(Look){op, seen}, tensor);
}

/* ---- what others know ---- */

void visit_points(const FusedOperator *op, const Elementwise *elementwise, const BindingVisitor *visitor)
{
  if (!elementwise) return;
  for (unsigned i = 0; i < op->n_inputs + op->n_outputs; i++) {
    const ElementPlace *place = &elementwise->places[i];
    if (i >= op->n_inputs && !place->n) continue; /* what strides tell of an output is visited with it */
    visitor->number(place->n, visitor->data);
    visitor->real(place->fill, visitor->data);
    for (unsigned j = 0; j < place->n; j++) {
      const ElementIndex *index = &place->indices[j];
      visitor->expression(index->of_axes, visitor->data);
      visitor->operand(&index->loaded, visitor->data);
      visitor->number(index->extent != NULL, visitor->data);
      if (index->extent) visitor->expression(index->extent, visitor->data);
      visitor->expression(index->stride, visitor->data);
    }
  }
  visitor->number(elementwise->n_values, visitor->data);
  for (unsigned i = 0; i < elementwise->n_values; i++)
    visitor->expression(elementwise->values[i], visitor->data);
  for (unsigned i = 0; i < op->program->n_axes; i++)
    visitor->number(elementwise->dims[i], visitor->data);
  visitor->number(elementwise->upright, visitor->data);
}

void visit_elementwise(const FusedOperator *op, const BindingVisitor *visitor)
{
  visit_points(op, elementwise_of(op), visitor);
}

static void describe_place(const FusedOperator *op, const ElementPlace *place, unsigned i, GString *text)
{
  bool reads = i < op->n_inputs;
  if (!place->n) return;
  g_string_append(text, reads ? "  at " : "  into ");
  fused_put_tensor(text, reads ? op->inputs[i].tensor : op->outputs[i - op->n_inputs].tensor);
  for (unsigned j = 0; j < place->n; j++) {
    const ElementIndex *index = &place->indices[j];
    fused_put_value(text, j ? "and" : "index", index->of_axes);
    if (index->loaded.kind != OPERAND_ABSENT) {
      g_string_append(text, " + ");
      fused_put_operand(text, op, &index->loaded);
    }
    fused_put_value(text, "times", index->stride);
    if (index->extent) fused_put_value(text, "below", index->extent);
  }
  bool guarded = false;
  for (unsigned j = 0; j < place->n; j++)
    guarded = guarded || place->indices[j].extent;
  if (guarded && reads) g_string_append_printf(text, " else %g", place->fill);
  g_string_append_c(text, '\n');
}

void describe_elementwise(const FusedOperator *op, GString *text)
{
  describe_points(op, elementwise_of(op), text);
}

void describe_points(const FusedOperator *op, const Elementwise *elementwise, GString *text)
{
  if (!elementwise) return;
  for (unsigned i = 0; i < op->n_inputs + op->n_outputs; i++)
    describe_place(op, &elementwise->places[i], i, text);
  for (unsigned i = 0; i < elementwise->n_values; i++) {
    g_string_append_printf(text, "  index %u:", i);
    fused_put_value(text, "", elementwise->values[i]);
    g_string_append_c(text, '\n');
  }
}

unsigned types_elementwise(const FusedOperator *op, NumberType *types)
{
  if (op->n_inputs) types[0] = op->inputs[0].tensor->type;
  return op->n_inputs ? 1 : 0;
}

/* Those that are known. */
unsigned extents_elementwise(const FusedOperator *op, FamilyExtent *extents)
{
  unsigned n = 0;
  for (unsigned d = 0; d < op->rank; d++)
    if (symbolic_is_constant(op->dims[d], NULL)) {
      extents[n] = (FamilyExtent){n ? "x" : "n", op->dims[d]};
      n++;
    }
  return n;
}

/* The dimension along which a tensor is contiguous; the rank if there is none. */
static unsigned unit_dimension(const Symbolic *const *strides, unsigned rank)
{
  for (unsigned d = rank; d-- > 0;)
    if (symbolic_equals(strides[d], 1)) return d;
  return rank;
}

/* Along which the outputs are contiguous, and another along which some input is. */
static bool find_faces(const FusedOperator *op, unsigned *rows, unsigned *columns)
{
  *rows = *columns = op->rank;
  for (unsigned i = 0; i < op->n_outputs; i++) {
    unsigned along = unit_dimension(op->outputs[i].strides, op->rank);
    if (along == op->rank || (i && along != *columns) || op->outputs[i].tensor->type == NUMBER_BOOL)
      return false;
    *columns = along;
  }
  for (unsigned i = 0; i < op->n_inputs; i++) {
    unsigned along = unit_dimension(op->inputs[i].strides, op->rank);
    if (op->inputs[i].tensor->type == NUMBER_BOOL) return false;
    bool turned = along != op->rank && along != *columns &&
                  !symbolic_equals(op->inputs[i].strides[*columns], 0) && *rows == op->rank;
    if (turned) *rows = along;
  }
  return op->n_outputs && *rows != op->rank;
}

static const Symbolic **reordered(Arena *arena, const Symbolic *const *list, unsigned rank, unsigned rows,
                                  unsigned columns)
{
  const Symbolic **order = arena_new_array(arena, const Symbolic *, FUSED_MAX_RANK + 1);
  unsigned n = 0;
  for (unsigned d = 0; d < rank; d++)
    if (d != rows && d != columns) order[n++] = list[d];
  order[n++] = list[rows];
  order[n] = list[columns];
  return order;
}

/* Tiles and where they begin are numbers of 32 bits, as points of an elementwise kernel need not be. */
static bool counts_tiles(const FusedOperator *turned)
{
  int64_t tiles = 1, extent;
  for (unsigned d = 0; d < turned->rank; d++) {
    if (!symbolic_is_constant(turned->dims[d], &extent)) continue;
    if (extent > SPACE_COUNTED) return false;
    int64_t blocks = d + 2 < turned->rank ? extent : (extent + 7) / 8; /* the smallest tile is 8 x 8 */
    if (blocks && tiles > SPACE_COUNTED / blocks) return false;
    tiles *= blocks;
  }
  return true;
}

/* Outputs that are contiguous along one dimension and some input along another: with these two last, the outputs' the
 * very last. There is none with more than one dimension besides, or truth values. */
const FusedOperator *turned_elementwise(Arena *arena, const FusedOperator *op)
{
  unsigned rows, columns;
  if (elementwise_of(op) || op->rank < 2 || op->rank > 3 || !find_faces(op, &rows, &columns)) return NULL;
  FusedOperator *turned = arena_memdup(arena, op, sizeof *op);
  size_t bytes = op->rank * sizeof *op->dims;
  memcpy(turned->dims, reordered(arena, op->dims, op->rank, rows, columns), bytes);
  turned->inputs = arena_memdup(arena, op->inputs, op->n_inputs * sizeof *op->inputs);
  turned->outputs = arena_memdup(arena, op->outputs, op->n_outputs * sizeof *op->outputs);
  for (unsigned i = 0; i < op->n_inputs; i++)
    memcpy(turned->inputs[i].strides, reordered(arena, op->inputs[i].strides, op->rank, rows, columns),
           bytes);
  for (unsigned i = 0; i < op->n_outputs; i++)
    memcpy(turned->outputs[i].strides, reordered(arena, op->outputs[i].strides, op->rank, rows, columns),
           bytes);
  return counts_tiles(turned) ? turned : NULL;
}
