#include "generator/program/division.h"
#include <string.h>

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

static bool is_taken(const Program *program, const char *name)
{
  for (unsigned i = 0; i < program->n_axes; i++)
    if (!strcmp(program->axes[i].name, name)) return true;
  for (unsigned i = 0; program->facts && i < program->facts->n; i++)
    if (!strcmp(program->facts->facts[i].name, name)) return true;
  return false;
}

ProgramAxis program_part_axis(const Program *program, const Symbolic *parts)
{
  const char *name = "p";
  while (is_taken(program, name))
    name = arena_printf(program->arena, "%s_", name);
  return (ProgramAxis){
      .name = name, .symbol = symbolic_symbol(program->arena, name), .extent = parts, .length = PROGRAM_NONE};
}
