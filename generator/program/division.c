#include "generator/program/division.h"

ProgramNode program_moved(const Program *from, const ProgramNode *node, const unsigned *place, Arena *arena)
{
  ProgramNode moved = *node;
  moved.operands = arena_memdup(arena, node->operands, node->n_operands * sizeof *node->operands);
  for (unsigned i = 0; i < node->n_operands; i++)
    if (moved.operands[i].kind == VALUE_NODE) moved.operands[i].node = place[moved.operands[i].node];
  bool accesses = node->kind == NODE_READ || node->kind == NODE_WRITE;
  for (unsigned d = 0; accesses && d < node->access.tensor->rank; d++)
    if (moved.access.at[d].node != PROGRAM_NONE)
      moved.access.at[d].node = (int)place[moved.access.at[d].node];
  return moved;
}
