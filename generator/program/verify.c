/* Rules that every program keeps, however it was made. */
#include "generator/program/program.h"

typedef struct {
  const Program *program;
  unsigned node;
  ErrorCode code;
  GError **error;
} Check;

static bool wrong(const Check *check, const char *format, ...) G_GNUC_PRINTF(2, 3);

static bool wrong(const Check *check, const char *format, ...)
{
  const ProgramNode *node = &check->program->nodes[check->node];
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *what = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  error_set(check->error, check->code, &node->mark, "program", NULL, "node %%%u: %s", check->node, what);
  return false;
}

static bool is_whole(NumberType type)
{
  return number_class(type) == NUMBER_SIGNED || number_class(type) == NUMBER_UNSIGNED;
}

static unsigned results_of(const ProgramNode *node)
{
  switch (node->kind) {
  case NODE_WRITE: return 0;
  case NODE_REDUCE:
  case NODE_SCAN: return program_reduction_results(node->reduction);
  case NODE_READ:
  case NODE_INDEX:
  case NODE_MAP: return 1;
  }
  return 0;
}

static bool check_operands(const Check *check, const ProgramNode *node)
{
  for (unsigned i = 0; i < node->n_operands; i++) {
    const ProgramValue *value = &node->operands[i];
    if (value->kind == VALUE_ABSENT && node->kind != NODE_MAP) return wrong(check, "operand %u is absent", i);
    if (value->kind != VALUE_NODE) continue;
    if (value->node >= check->node) return wrong(check, "%%%u is no node before it", value->node);
    if (value->result >= results_of(&check->program->nodes[value->node]))
      return wrong(check, "%%%u has no result %u", value->node, value->result);
  }
  return true;
}

/* ---- accesses ---- */

static const Symbolic *to_end(const Symbolic *leaf, void *data)
{
  const Program *program = data;
  for (unsigned i = 0; i < program->n_axes; i++)
    if (symbolic_same(leaf, program->axes[i].symbol))
      return symbolic_sub(program->arena, program->axes[i].extent, symbolic_constant(program->arena, 1));
  return NULL;
}

static const Symbolic *to_begin(const Symbolic *leaf, void *data)
{
  const Program *program = data;
  for (unsigned i = 0; i < program->n_axes; i++)
    if (symbolic_same(leaf, program->axes[i].symbol)) return symbolic_constant(program->arena, 0);
  return NULL;
}

/* Known to lie outside at the axes' first or last indices, where those of a sum are least and largest. */
static bool leaves_tensor(const Program *program, const ProgramAccess *access, unsigned d)
{
  static const SymbolicFacts unknown = {0};
  const SymbolicFacts *facts = program->facts ? program->facts : &unknown;
  SymbolicReplace const ends[] = {to_begin, to_end};
  const Symbolic *zero = symbolic_constant(program->arena, 0);
  for (unsigned i = 0; i < program->n_axes; i++) /* no index of an axis without any is outside */
    if (symbolic_equals(program->axes[i].extent, 0)) return false;
  for (unsigned i = 0; i < G_N_ELEMENTS(ends); i++) {
    const Symbolic *at = symbolic_substitute(program->arena, access->at[d].of_axes, ends[i], (void *)program);
    const Symbolic *below = symbolic_binary(program->arena, SYMBOLIC_LT, at, zero);
    const Symbolic *behind = symbolic_binary(program->arena, SYMBOLIC_GE, at, access->tensor->shape[d]);
    if (symbolic_decide(below, facts) == SYMBOLIC_TRUE || symbolic_decide(behind, facts) == SYMBOLIC_TRUE)
      return true;
  }
  return false;
}

static bool check_access(const Check *check, const ProgramNode *node)
{
  const Program *program = check->program;
  const ProgramAccess *access = &node->access;
  if (access->outside == (node->kind == NODE_READ ? OUTSIDE_SKIP : OUTSIDE_FILL))
    return wrong(check, "%s", node->kind == NODE_READ ? "a read cannot be skipped" : "a write has no fill");
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    int loaded = access->at[d].node;
    if (loaded != PROGRAM_NONE) {
      if (loaded < 0 || (unsigned)loaded >= check->node)
        return wrong(check, "%%%d is no node before it", loaded);
      if (!is_whole(program->nodes[loaded].type)) return wrong(check, "the index %%%d is no integer", loaded);
    } else if (access->outside == OUTSIDE_NEVER && leaves_tensor(program, access, d)) {
      return wrong(check, "dimension %u of `%s` is left", d, access->tensor->name);
    }
  }
  return true;
}

/* ---- nodes ---- */

static bool check_reduction(const Check *check, const ProgramNode *node)
{
  const Program *program = check->program;
  if (node->axes >> program->n_axes) return wrong(check, "it reduces an axis that there is not");
  if (node->n_operands != program_reduction_operands(node->reduction))
    return wrong(check, "%s takes %u operands", program_reduction_name(node->reduction),
                 program_reduction_operands(node->reduction));
  bool places = node->reduction == REDUCTION_PLACES || node->reduction == REDUCTION_TAKEN,
       scans = program_sorts(node) || places || node->reduction == REDUCTION_BEGINS ||
               node->reduction == REDUCTION_LENGTHS;
  if (node->kind == NODE_REDUCE && scans)
    return wrong(check, "%s gives a row: `scan`", program_reduction_name(node->reduction));
  if (node->kind == NODE_SCAN && !places && __builtin_popcount(node->axes) != 1)
    return wrong(check, "a scan runs along one axis");
  return true;
}

static bool check_map(const Check *check, const ProgramNode *node)
{
  const Operator *row = operator_of(node->op);
  if (row->class_ != OPERATOR_ELEMENTWISE) return wrong(check, "%s is not elementwise", row->name);
  if (node->n_operands < row->min_inputs || node->n_operands > row->max_inputs)
    return wrong(check, "%s takes %u to %u operands", row->name, row->min_inputs, row->max_inputs);
  return true;
}

/* Values of several points do not meet in one element, unless it is said how they become one. */
static bool check_write(const Check *check, const ProgramNode *node)
{
  const Program *program = check->program;
  const ProgramValue *value = &node->operands[0];
  uint32_t stored = 0, varies = value->kind == VALUE_NODE ? program->varies[value->node] : 0;
  if (node->n_operands != 1) return wrong(check, "a write has one operand");
  if (node->combines && program_reduction_operands(node->reduction) != 1)
    return wrong(check, "%s does not combine values", program_reduction_name(node->reduction));
  if (node->combines) return true;
  for (unsigned d = 0; d < node->access.tensor->rank; d++) {
    const ProgramIndex *index = &node->access.at[d];
    stored |= program_axes_in(program, index->of_axes);
    if (index->node != PROGRAM_NONE) stored |= program->varies[index->node];
  }
  for (unsigned i = 0; i < program->n_axes; i++)
    if ((varies & ~stored) >> i & 1 && !symbolic_equals(program->axes[i].extent, 1))
      return wrong(check, "values along %s are stored in one element of `%s`", program->axes[i].name,
                   node->access.tensor->name);
  return true;
}

static bool check_node(const Check *check, const ProgramNode *node)
{
  if (!check_operands(check, node)) return false;
  switch (node->kind) {
  case NODE_READ: return check_access(check, node);
  case NODE_INDEX: return true;
  case NODE_MAP: return check_map(check, node);
  case NODE_REDUCE:
  case NODE_SCAN: return check_reduction(check, node);
  case NODE_WRITE: return check_access(check, node) && check_write(check, node);
  }
  return wrong(check, "it is of no kind");
}

/* A length is one number for each index of the other axes. */
static bool check_length(const Program *program, unsigned axis, ErrorCode code, GError **error)
{
  int length = program->axes[axis].length;
  if (length == PROGRAM_NONE) return true;
  Check check = {program, (unsigned)MAX(length, 0), code, error};
  if (length < 0 || (unsigned)length >= program->n_nodes || !is_whole(program->nodes[length].type)) {
    error_set(error, code, NULL, "program", NULL, "axis %s: its length is no integer node",
              program->axes[axis].name);
    return false;
  }
  if (program->varies[length] >> axis & 1)
    return wrong(&check, "the length of axis %s varies along it", program->axes[axis].name);
  return true;
}

bool program_verify(const Program *program, ErrorCode code, GError **error)
{
  for (unsigned i = 0; i < program->n_nodes; i++) {
    Check check = {program, i, code, error};
    if (!check_node(&check, &program->nodes[i])) return false;
  }
  for (unsigned i = 0; i < program->n_axes; i++)
    if (!check_length(program, i, code, error)) return false;
  return true;
}
