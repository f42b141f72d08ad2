#include "generator/program/match_groups.h"

#define MOST_ALIGN 65536

static int axis_of(const Program *program, const Symbolic *index)
{
  for (unsigned i = 0; i < program->n_axes; i++)
    if (symbolic_same(index, program->axes[i].symbol)) return (int)i;
  return PROGRAM_NONE;
}

/* A read of a vector along one axis. */
static int read_of(const Program *program, const ProgramValue *value, int *axis)
{
  if (value->kind != VALUE_NODE) return PROGRAM_NONE;
  const ProgramNode *node = &program->nodes[value->node];
  if (node->kind != NODE_READ || node->access.tensor->rank != 1 || node->type != NUMBER_S32 ||
      node->access.at[0].node != PROGRAM_NONE || node->access.outside != OUTSIDE_NEVER)
    return PROGRAM_NONE;
  *axis = axis_of(program, node->access.at[0].of_axes);
  return *axis == PROGRAM_NONE ? PROGRAM_NONE : (int)value->node;
}

/* The node that tells where groups begin, of the same operands as the one that tells how long they are. */
static int begin_of(const Program *program, const ProgramNode *length, ProgramReduction wanted)
{
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    bool same = node->kind == length->kind && node->reduction == wanted && node->axes == length->axes &&
                node->n_operands == length->n_operands;
    for (unsigned j = 0; same && j < node->n_operands; j++)
      same = bind_same_value(node->operands[j], length->operands[j]);
    if (same) return (int)i;
  }
  return PROGRAM_NONE;
}

/* Groups begin at multiples of a number. */
static bool find_align(ProgramGroups *groups, const ProgramValue *align)
{
  groups->align = align->kind == VALUE_IMMEDIATE && align->immediate >= 1 && align->immediate <= MOST_ALIGN
                      ? (int64_t)align->immediate
                      : 0;
  return groups->align > 0;
}

static bool find_ends(Binding *binding, ProgramGroups *groups, const ProgramNode *length)
{
  const Program *program = binding->program;
  groups->kind = GEMM_ENDS;
  groups->sizes = read_of(program, &length->operands[0], &groups->axis);
  if (groups->sizes == PROGRAM_NONE || length->axes != 1u << groups->axis ||
      !find_align(groups, &length->operands[1]))
    return bind_refuse(binding, "ends of groups are no vector that is read");
  groups->begin = begin_of(program, length, REDUCTION_BEGINS);
  return true;
}

static bool find_index(Binding *binding, ProgramGroups *groups, const ProgramNode *length)
{
  const Program *program = binding->program;
  const ProgramValue *sought = &length->operands[1];
  bool is_index = sought->kind == VALUE_NODE && program->nodes[sought->node].kind == NODE_INDEX;
  groups->kind = GEMM_INDEX;
  groups->sizes = read_of(program, &length->operands[0], &groups->walked);
  groups->axis = is_index ? axis_of(program, program->nodes[sought->node].index) : PROGRAM_NONE;
  if (groups->sizes == PROGRAM_NONE || groups->axis == PROGRAM_NONE || length->axes != 1u << groups->walked ||
      !find_align(groups, &length->operands[2]))
    return bind_refuse(binding, "groups of rows are no vector that is read");
  binding->inside[sought->node] = true;
  groups->begin = begin_of(program, length, REDUCTION_FIRST_OF);
  groups->reductions = 2;
  return true;
}

/* Is it where a group begins, in blocks of a size? */
static bool divides_begin(const ProgramGroups *groups, const ProgramNode *node)
{
  return groups->begin != PROGRAM_NONE && node->kind == NODE_MAP && node->op == ONNX_Div &&
         node->operands[0].kind == VALUE_NODE && (int)node->operands[0].node == groups->begin &&
         node->operands[1].kind == VALUE_IMMEDIATE;
}

bool bind_groups(Binding *binding, ProgramGroups *groups)
{
  const Program *program = binding->program;
  *groups = (ProgramGroups){
      .rows = PROGRAM_NONE, .axis = PROGRAM_NONE, .walked = PROGRAM_NONE, .begin = PROGRAM_NONE, .align = 1};
  for (unsigned i = 0; i < program->n_axes; i++) {
    if (program->axes[i].length == PROGRAM_NONE) continue;
    if (groups->rows != PROGRAM_NONE) return bind_refuse(binding, "two axes have lengths that are loaded");
    groups->rows = (int)i;
  }
  if (groups->rows == PROGRAM_NONE) {
    int place;
    bool groupless = !bind_count(program, NODE_SCAN, &place) && !bind_count(program, NODE_INDEX, &place);
    return groupless || bind_refuse(binding, "there is a scan or an index");
  }
  int at = program->axes[groups->rows].length;
  const ProgramNode *length = &program->nodes[at];
  bool ok;
  if (length->kind == NODE_SCAN && length->reduction == REDUCTION_LENGTHS) {
    ok = find_ends(binding, groups, length);
  } else if (length->kind == NODE_REDUCE && length->reduction == REDUCTION_COUNT_OF) {
    ok = find_index(binding, groups, length);
  } else {
    groups->kind = GEMM_COUNTS;
    groups->sizes =
        read_of(program, &(ProgramValue){.kind = VALUE_NODE, .node = (unsigned)at}, &groups->axis);
    ok = groups->sizes != PROGRAM_NONE || bind_refuse(binding, "an axis has a length that is loaded");
  }
  if (!ok) return false;
  if (groups->kind != GEMM_COUNTS && groups->begin == PROGRAM_NONE)
    return bind_refuse(binding, "it is not known where groups begin");
  if (groups->kind != GEMM_COUNTS) binding->inside[at] = binding->inside[groups->begin] = true;
  for (unsigned i = 0; i < program->n_nodes; i++)
    if (divides_begin(groups, &program->nodes[i])) binding->inside[i] = true;
  return true;
}

/* Blocks along a group, the first of which is that in which it begins: with a whole one, as its multiples do. */
static bool counts_blocks(const Binding *binding, const ProgramGroups *groups, const ProgramIndex *index)
{
  const Program *program = binding->program;
  int64_t size;
  if (index->node == PROGRAM_NONE || !program_is_quotient(index->of_axes) ||
      axis_of(program, index->of_axes->a) != groups->rows || !symbolic_is_constant(index->of_axes->b, &size))
    return false;
  return divides_begin(groups, &program->nodes[index->node]) &&
         program->nodes[index->node].operands[1].immediate == (double)size && groups->align % size == 0;
}

/* Along a group's rows an access begins where the group does. */
static bool access_fits(const Binding *binding, const ProgramGroups *groups, const ProgramAccess *access)
{
  const Program *program = binding->program;
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    if (counts_blocks(binding, groups, &access->at[d])) continue;
    bool along = program_axes_in(program, access->at[d].of_axes) >> groups->rows & 1;
    if (along && axis_of(program, access->at[d].of_axes) != groups->rows) return false;
    if (access->at[d].node != (along ? groups->begin : PROGRAM_NONE)) return false;
  }
  return true;
}

static bool mentions(const ProgramNode *node, int value)
{
  for (unsigned i = 0; i < node->n_operands; i++)
    if (node->operands[i].kind == VALUE_NODE && (int)node->operands[i].node == value) return true;
  return false;
}

bool bind_groups_fit(Binding *binding, const ProgramGroups *groups)
{
  const Program *program = binding->program;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    bool accesses = (node->kind == NODE_READ && (int)i != groups->sizes) || node->kind == NODE_WRITE;
    if (accesses && !access_fits(binding, groups, &node->access))
      return bind_refuse(binding, "indices are loaded");
    if (node->kind == NODE_WRITE && (node->combines || node->access.outside != OUTSIDE_NEVER))
      return bind_refuse(binding, "results are filled, or parts of them are reduced");
    if (mentions(node, groups->sizes) && !binding->inside[i])
      return bind_refuse(binding, "sizes of groups are computed with");
    bool other = node->kind == NODE_INDEX || node->kind == NODE_SCAN;
    if (other && !binding->inside[i]) return bind_refuse(binding, "there is a scan or an index");
  }
  return true;
}

void bind_groups_take(const Binding *binding, const ProgramGroups *groups, Space *space, FusedGemm *gemm)
{
  const Program *program = binding->program;
  gemm->groups = groups->kind;
  gemm->align = groups->align;
  gemm->sizes = binding->places[groups->sizes];
  if (groups->walked != PROGRAM_NONE) /* rows are looked at, whatever group they are of */
    space->strides[1][gemm->sizes] = program->nodes[groups->sizes].access.tensor->strides[0];
}
