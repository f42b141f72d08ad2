/* Parts of rows: one write that combines so many elements of a row each. Rows and columns become one dim each; the axis
 * that is divided is the outermost of the columns. */
#include "generator/program/bind.h"
#include "generator/program/fused_text.h"
#include "generator/program/parts.h"

typedef struct {
  Binding *binding;
  const Program *program;
  const ProgramNode *write;
  unsigned divided; /* axis */
  unsigned along;   /* dimension of the result that parts are numbered along */
  FusedParts *bound;
} Parts;

/* One dimension of what is written is an axis divided by a number, the others are axes. */
static bool find_divided(Parts *at)
{
  const ProgramAccess *access = &at->write->access;
  unsigned n = 0;
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    const Symbolic *index = access->at[d].of_axes;
    if (index->kind == SYMBOLIC_SYMBOL) continue;
    if (index->kind != SYMBOLIC_DIV || !symbolic_is_constant(index->b, NULL)) return false;
    at->divided = (unsigned)__builtin_ctz(program_axes_in(at->program, index));
    at->along = d;
    at->bound->width = index->b;
    n++;
  }
  return n == 1;
}

static bool find_write(Parts *at)
{
  const Program *program = at->program;
  int first;
  unsigned combining = 0;
  for (unsigned i = 0; i < program->n_nodes; i++)
    combining += program->nodes[i].kind == NODE_WRITE && program->nodes[i].combines;
  if (!combining || bind_count(program, NODE_REDUCE, &first)) return false;
  at->binding->near = true;
  bool one = bind_count(program, NODE_WRITE, &first) == 1;
  at->write = one ? &program->nodes[first] : NULL;
  if (!one || !find_divided(at)) {
    at->binding->why = "what is written are no parts of one axis alone";
    return false;
  }
  return true;
}

/* Rows, then the divided axis, then the others that a part takes whole. */
static bool settle(Parts *at)
{
  const Program *program = at->program;
  uint32_t stored = program_axes_in(program, program->axes[at->divided].symbol);
  int axes[PROGRAM_MAX_AXES];
  unsigned n = 0, output = at->binding->fused->n_inputs;
  for (unsigned d = 0; d < at->write->access.tensor->rank; d++)
    stored |= program_axes_in(program, at->write->access.at[d].of_axes);
  for (unsigned i = 0; i < program->n_axes; i++)
    if (stored >> i & 1 && i != at->divided) axes[n++] = (int)i;
  unsigned rows = n;
  axes[n++] = (int)at->divided;
  for (unsigned i = 0; i < program->n_axes; i++) {
    if (stored >> i & 1) continue;
    axes[n++] = (int)i;
    at->bound->width = symbolic_mul(program->arena, at->bound->width, program->axes[i].extent);
  }
  Space space;
  if (!bind_space(at->binding, &space, axes, n)) return false;
  space.strides[rows][output] =
      symbolic_constant(program->arena, 0); /* parts are walked along, not elements */
  unsigned n_columns = space_merge(program->arena, &space, rows, space.rank);
  unsigned n_rows = space_merge(program->arena, &space, 0, rows);
  if (n_rows > 1 || n_columns > 1) {
    at->binding->why =
        n_rows > 1 ? "its rows are not evenly spaced" : "elements of its rows are not evenly spaced";
    return false;
  }
  if (!n_columns) space_insert(program->arena, &space, space.rank);
  if (!n_rows) space_insert(program->arena, &space, 0);
  space.strides[1][output] = at->write->access.tensor->strides[at->along];
  at->bound->rows = space.dims[0];
  at->bound->columns = space.dims[1];
  return bind_take_space(at->binding, &space);
}

static bool bind(Binding *binding)
{
  FusedParts *bound = arena_new_object(binding->program->arena, FusedParts);
  Parts at = {.binding = binding, .program = binding->program, .bound = bound};
  if (!find_write(&at) || !bind_lists(binding) ||
      !bind_operand(binding, at.write->operands[0], false, &bound->source) || !settle(&at))
    return false;
  bound->reduction = at.write->reduction;
  bound->compute = at.write->compute;
  binding->fused->anchor = at.write->source;
  binding->fused->binding = bound;
  FusedOutput *output = &binding->fused->outputs[0];
  output->value = (FusedOperand){OPERAND_ANCHOR, 0, 0, bound->compute};
  output->reduced = output->by_rows = false; /* its values are parts already */
  return true;
}

FamilyMatch match_parts(const Program *program, FusedOperator *fused, const char **why)
{
  Binding binding = {.combines = true};
  bool ok = bind_open(&binding, program, fused) && bind(&binding);
  *why = binding.near ? binding.why : NULL; /* few programs say that they are parts */
  bind_close(&binding);
  return ok ? MATCH_TAKEN : binding.near ? MATCH_NEARLY : MATCH_OTHER;
}

/* ---- for others ---- */

void visit_parts(const FusedOperator *op, const BindingVisitor *visitor)
{
  const FusedParts *parts = parts_of(op);
  visitor->number(parts->reduction, visitor->data);
  visitor->number(parts->compute, visitor->data);
  visitor->expression(parts->rows, visitor->data);
  visitor->expression(parts->columns, visitor->data);
  visitor->expression(parts->width, visitor->data);
  visitor->operand(&parts->source, visitor->data);
}

void describe_parts(const FusedOperator *op, GString *text)
{
  const FusedParts *parts = parts_of(op);
  g_string_append_printf(text, "  %s of ", program_reduction_name(parts->reduction));
  fused_put_operand(text, op, &parts->source);
  fused_put_value(text, "in parts of", parts->width);
  g_string_append_printf(text, " in %s\n", number_name(parts->compute));
}

unsigned types_parts(const FusedOperator *op, NumberType *types)
{
  if (op->n_inputs) types[0] = op->inputs[0].tensor->type;
  return op->n_inputs ? 1 : 0;
}

unsigned extents_parts(const FusedOperator *op, FamilyExtent *extents)
{
  extents[0] = (FamilyExtent){"r", parts_of(op)->rows};
  extents[1] = (FamilyExtent){"c", parts_of(op)->columns};
  extents[2] = (FamilyExtent){"q", parts_of(op)->width};
  return 3;
}

const FusedOperator *turned_parts(Arena *arena, const FusedOperator *op)
{
  return NULL;
}
