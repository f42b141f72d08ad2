/* Scans: sums along one axis, with steps in front and behind. Rows and columns become one dim each. */
#include "generator/program/bind.h"
#include "generator/program/fused_text.h"
#include "generator/program/scan.h"

/* Rows, then the axis; false if an operand's elements are not evenly spaced. */
static bool settle(Binding *binding, const ProgramNode *scan, FusedScan *bound)
{
  const Program *program = binding->program;
  int axes[PROGRAM_MAX_AXES];
  unsigned n = 0, rows;
  for (unsigned i = 0; i < program->n_axes; i++)
    if (!(scan->axes >> i & 1)) axes[n++] = (int)i;
  rows = n;
  axes[n++] = __builtin_ctz(scan->axes);
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

/* What is computed of an element in front of the scan is gone behind it. */
static bool ends_scan(Binding *binding)
{
  const Program *program = binding->program;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    bool behind = (node->kind == NODE_MAP || node->kind == NODE_WRITE) && !program->in_front[i];
    for (unsigned j = 0; behind && j < node->n_operands; j++) {
      const ProgramValue *value = &node->operands[j];
      if (value->kind != VALUE_NODE || program->nodes[value->node].kind != NODE_MAP ||
          !program->in_front[value->node])
        continue;
      binding->why = "what is computed in front of a scan is wanted behind it";
      return false;
    }
  }
  return true;
}

static bool bind(Binding *binding)
{
  const Program *program = binding->program;
  int at, other;
  if (!bind_count(program, NODE_SCAN, &at)) return false;
  const ProgramNode *scan = &program->nodes[at];
  binding->near = true;
  if (scan->reduction != REDUCTION_SUM) {
    binding->why = "only sums are scanned";
    return false;
  }
  if (bind_count(program, NODE_SCAN, &at) > 1 || bind_count(program, NODE_REDUCE, &other)) {
    binding->why = "there is a reduction beside it, or another scan";
    return false;
  }
  FusedScan *bound = arena_new_object(program->arena, FusedScan);
  bind_anchor(binding, (ProgramValue){VALUE_NODE, (unsigned)at, 0, 0, scan->compute}, 0, 0, scan->compute);
  binding->fused->anchor = scan->source;
  binding->fused->binding = bound;
  bound->exclusive = scan->exclusive;
  bound->reverse = scan->reverse;
  bound->compute = scan->compute;
  return ends_scan(binding) && bind_lists(binding) &&
         bind_operand(binding, scan->operands[0], false, &bound->source) && settle(binding, scan, bound);
}

FamilyMatch match_scan(const Program *program, FusedOperator *fused, const char **why)
{
  Binding binding = {.scans = true};
  bool ok = bind_open(&binding, program, fused) && bind(&binding);
  *why = binding.near ? binding.why : NULL; /* few programs scan */
  bind_close(&binding);
  return ok ? MATCH_TAKEN : binding.near ? MATCH_NEARLY : MATCH_OTHER;
}

/* ---- for others ---- */

void visit_scan(const FusedOperator *op, const BindingVisitor *visitor)
{
  const FusedScan *scan = scan_of(op);
  visitor->number(scan->exclusive, visitor->data);
  visitor->number(scan->reverse, visitor->data);
  visitor->number(scan->compute, visitor->data);
  visitor->expression(scan->rows, visitor->data);
  visitor->expression(scan->columns, visitor->data);
  visitor->operand(&scan->source, visitor->data);
}

void describe_scan(const FusedOperator *op, GString *text)
{
  const FusedScan *scan = scan_of(op);
  g_string_append_printf(text, "  %s%ssums along rows of ", scan->exclusive ? "exclusive " : "",
                         scan->reverse ? "reverse " : "");
  fused_put_operand(text, op, &scan->source);
  g_string_append_printf(text, " in %s\n", number_name(scan->compute));
}

unsigned types_scan(const FusedOperator *op, NumberType *types)
{
  if (op->n_inputs) types[0] = op->inputs[0].tensor->type;
  return op->n_inputs ? 1 : 0;
}

unsigned extents_scan(const FusedOperator *op, FamilyExtent *extents)
{
  extents[0] = (FamilyExtent){"r", scan_of(op)->rows};
  extents[1] = (FamilyExtent){"c", scan_of(op)->columns};
  return 2;
}

const FusedOperator *turned_scan(Arena *arena, const FusedOperator *op)
{
  return NULL;
}
