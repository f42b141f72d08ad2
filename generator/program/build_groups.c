/* GroupedMatMul: which rows, or which part of k, are whose, as nodes of a program. */
#include "generator/front/groups.h"
#include "generator/program/build_private.h"

static ProgramValue reduction(ProgramBuilder *at, const GraphNode *node, ProgramNodeKind kind,
                              ProgramReduction which, int axis, const ProgramValue *operands)
{
  ProgramNode row = {.kind = kind,
                     .source = node,
                     .reduction = which,
                     .axes = 1u << axis,
                     .type = NUMBER_S32,
                     .compute = NUMBER_S32};
  return program_add_node(at, row, operands, program_reduction_operands(which), NUMBER_S32);
}

static ProgramValue read_along(ProgramBuilder *at, const GraphNode *node, int axis)
{
  ProgramAccess access = {.tensor = node->inputs[2]};
  access.at[0] = (ProgramIndex){at->program->axes[axis].symbol, PROGRAM_NONE};
  return program_add_read(at, node, access);
}

void program_add_groups(ProgramBuilder *at, const GraphNode *node)
{
  Program *program = at->program;
  ProgramValue begin = {.kind = VALUE_ABSENT}, length,
               align = program_immediate((double)graph_attribute(node, "align")->integer, NUMBER_S32);
  const GraphGroups kind = graph_groups(node);
  switch (kind) {
  case GROUPS_COUNTS: length = read_along(at, node, at->groups); break;
  case GROUPS_ENDS:
  case GROUPS_DEPTHS: {
    const ProgramValue operands[] = {read_along(at, node, at->groups), align};
    begin = reduction(at, node, NODE_SCAN, REDUCTION_BEGINS, at->groups, operands);
    length = reduction(at, node, NODE_SCAN, REDUCTION_LENGTHS, at->groups, operands);
    break;
  }
  case GROUPS_INDEX:
  default: {
    int rows = program_add_axis(at, 't', -1, node->inputs[2]->shape[0]);
    ProgramValue index = read_along(at, node, rows);
    const ProgramValue operands[] = {index, program_add_index(at, node, program->axes[at->groups].symbol),
                                     align};
    begin = reduction(at, node, NODE_REDUCE, REDUCTION_FIRST_OF, rows, operands);
    length = reduction(at, node, NODE_REDUCE, REDUCTION_COUNT_OF, rows, operands);
  }
  }
  at->counted = kind == GROUPS_DEPTHS ? at->k : at->m;
  program->axes[at->counted].length = (int)length.node;
  at->begin = begin.kind == VALUE_NODE ? (int)begin.node : PROGRAM_NONE;
}
