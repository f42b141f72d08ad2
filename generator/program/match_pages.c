#include "generator/program/match_pages.h"

static bool is_map_of(const Program *program, unsigned node, OperatorId op, ProgramValue a, ProgramValue b)
{
  const ProgramNode *map = &program->nodes[node];
  return map->kind == NODE_MAP && map->op == op && map->n_operands == 2 &&
         bind_same_value(map->operands[0], a) && bind_same_value(map->operands[1], b);
}

int bind_table_of(const Program *program, const ProgramAccess *access)
{
  const ProgramIndex *page = &access->at[0];
  if (page->node == PROGRAM_NONE || !symbolic_equals(page->of_axes, 0)) return PROGRAM_NONE;
  const ProgramNode *where = &program->nodes[page->node];
  if (where->kind != NODE_MAP || where->op != ONNX_Where || where->operands[2].kind != VALUE_NODE)
    return PROGRAM_NONE;
  ProgramValue number = where->operands[2], zero = {VALUE_IMMEDIATE, 0, 0, 0, NUMBER_S64};
  const ProgramNode *table = &program->nodes[number.node];
  const ProgramValue below = where->operands[0], turned = where->operands[1];
  if (below.kind != VALUE_NODE || turned.kind != VALUE_NODE) return PROGRAM_NONE;
  const ProgramNode *add = &program->nodes[turned.node];
  bool adds = add->kind == NODE_MAP && add->op == ONNX_Add && bind_same_value(add->operands[0], number);
  const ProgramValue count = adds ? add->operands[1] : (ProgramValue){.kind = VALUE_ABSENT};
  const Symbolic *pages = count.kind == VALUE_IMMEDIATE
                              ? symbolic_constant(program->arena, (int64_t)count.immediate)
                          : count.kind == VALUE_NODE ? program->nodes[count.node].index
                                                     : NULL;
  bool from_end = pages && symbolic_same(pages, access->tensor->shape[0]) &&
                  is_map_of(program, below.node, ONNX_Less, number, zero);
  bool loaded =
      table->kind == NODE_READ && table->access.tensor->rank == 2 && table->access.outside == OUTSIDE_NEVER;
  return from_end && loaded ? (int)number.node : PROGRAM_NONE;
}

int bind_paged_axis(const Binding *binding, unsigned read)
{
  const Program *program = binding->program;
  Arena *arena = program->arena;
  const ProgramAccess *access = &program->nodes[read].access;
  int table = access->tensor->rank > 2 ? bind_table_of(program, access) : PROGRAM_NONE, axis = PROGRAM_NONE;
  bool zeros = access->outside == OUTSIDE_FILL && access->fill == 0;
  const Symbolic *rows = access->tensor->shape[1];
  if (table < 0 || !zeros || !symbolic_is_constant(rows, NULL)) return PROGRAM_NONE;
  const ProgramAccess *page = &program->nodes[table].access;
  for (int i = 0; i < (int)program->n_axes; i++)
    if (symbolic_same(page->at[1].of_axes,
                      symbolic_binary(arena, SYMBOLIC_DIV, program->axes[i].symbol, rows)))
      axis = i;
  bool loads = page->at[1].node != PROGRAM_NONE || access->at[1].node != PROGRAM_NONE;
  if (axis < 0 || loads || !bind_is_plain(binding, page, 0)) return PROGRAM_NONE;
  const Symbolic *row = symbolic_binary(arena, SYMBOLIC_MOD, program->axes[axis].symbol, rows);
  bool plain = symbolic_same(access->at[1].of_axes, row);
  for (unsigned d = 2; d < access->tensor->rank; d++)
    plain = plain && bind_is_plain(binding, access, d) &&
            !(program_axes_in(program, access->at[d].of_axes) >> axis & 1);
  return plain ? axis : PROGRAM_NONE;
}
