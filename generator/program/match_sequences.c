#include "generator/program/match_sequences.h"
#include "generator/front/sequences.h"
#include <math.h>
#include <string.h>

static const ProgramNode *node_at(const Binding *binding, int node)
{
  return &binding->program->nodes[node];
}

/* The node of a value that is one, or PROGRAM_NONE. */
static int node_of(const ProgramValue *value)
{
  return value->kind == VALUE_NODE && !value->result ? (int)value->node : PROGRAM_NONE;
}

/* A read of list[b + more] along one axis. */
static bool reads_along(const Binding *binding, int node, int axis, int64_t more)
{
  const Program *program = binding->program;
  if (node == PROGRAM_NONE) return false;
  const ProgramNode *read = node_at(binding, node);
  if (read->kind != NODE_READ || read->access.tensor->rank != 1 || read->type != NUMBER_S32 ||
      read->access.at[0].node != PROGRAM_NONE || read->access.outside != OUTSIDE_NEVER)
    return false;
  const Symbolic *index =
      symbolic_sub(program->arena, read->access.at[0].of_axes, program->axes[axis].symbol);
  return symbolic_equals(index, more);
}

/* `op`(x, constant or extent): x, or PROGRAM_NONE. */
static int bounded(const Binding *binding, int node, OperatorId op, const Symbolic *bound)
{
  const Program *program = binding->program;
  if (node == PROGRAM_NONE) return PROGRAM_NONE;
  const ProgramNode *map = node_at(binding, node);
  if (map->kind != NODE_MAP || map->op != op || map->n_operands != 2) return PROGRAM_NONE;
  const ProgramValue *limit = &map->operands[1];
  const Symbolic *is = limit->kind == VALUE_IMMEDIATE
                           ? symbolic_constant(program->arena, (int64_t)limit->immediate)
                       : limit->kind == VALUE_NODE ? node_at(binding, (int)limit->node)->index
                                                   : NULL;
  return is && symbolic_same(is, bound) ? node_of(&map->operands[0]) : PROGRAM_NONE;
}

/* Max(Min(x, keys), 0): x, or PROGRAM_NONE. */
static int within(const Binding *binding, int node, int key)
{
  const Program *program = binding->program;
  int least = bounded(binding, node, ONNX_Max, symbolic_constant(program->arena, 0));
  return bounded(binding, least, ONNX_Min, program->axes[key].extent);
}

static bool find_rows(Binding *binding, int row, BoundSequences *s)
{
  const Program *program = binding->program;
  const ProgramNode *length = node_at(binding, s->rows);
  bool scans = length->kind == NODE_SCAN && length->reduction == REDUCTION_LENGTHS;
  if (!scans) return bind_refuse(binding, "how many rows a sequence has does not follow from where they end");
  s->batch = __builtin_ctz(length->axes);
  s->ends = node_of(&length->operands[0]);
  s->begin = PROGRAM_NONE;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind == NODE_SCAN && node->reduction == REDUCTION_BEGINS && node->axes == length->axes &&
        bind_same_value(node->operands[0], length->operands[0]) &&
        bind_same_value(node->operands[1], length->operands[1]))
      s->begin = (int)i;
  }
  const ProgramValue *align = &length->operands[1];
  bool fits = s->begin != PROGRAM_NONE && reads_along(binding, s->ends, s->batch, 1) &&
              align->kind == VALUE_IMMEDIATE && align->immediate == 1;
  return fits || bind_refuse(binding, "rows of sequences do not begin where those of the one before end");
}

/* Keys: the rows' own, from a number that is loaded to another one, or the first so many. */
static bool find_keys(Binding *binding, int key, BoundSequences *s)
{
  const Program *program = binding->program;
  const Symbolic *zero = symbolic_constant(program->arena, 0);
  s->first = PROGRAM_NONE;
  s->own = s->keys == s->rows;
  s->lengths = s->own ? s->ends : within(binding, s->keys, key);
  if (s->own) {
    s->first = s->begin;
    return true;
  }
  if (reads_along(binding, s->lengths, s->batch, 0)) return true;
  int difference = bounded(binding, s->keys, ONNX_Max, zero);
  const ProgramNode *sub = difference != PROGRAM_NONE ? node_at(binding, difference) : NULL;
  if (sub && sub->kind == NODE_MAP && sub->op == ONNX_Sub) {
    s->first = node_of(&sub->operands[1]);
    s->lengths = within(binding, node_of(&sub->operands[0]), key);
    s->key_begins = within(binding, s->first, key);
    bool packed =
        reads_along(binding, s->lengths, s->batch, 1) && reads_along(binding, s->key_begins, s->batch, 0) &&
        node_at(binding, s->lengths)->access.tensor == node_at(binding, s->key_begins)->access.tensor;
    if (packed) return true;
  }
  return bind_refuse(binding, "how many keys a sequence has is loaded in another way");
}

bool bind_sequences(Binding *binding, int row, int key, BoundSequences *s)
{
  const Program *program = binding->program;
  *s = (BoundSequences){.batch = PROGRAM_NONE,
                        .begin = PROGRAM_NONE,
                        .rows = program->axes[row].length,
                        .keys = program->axes[key].length,
                        .first = PROGRAM_NONE,
                        .key_begins = PROGRAM_NONE};
  for (int i = 0; i < (int)program->n_axes; i++)
    if (i != row && i != key && program->axes[i].length != PROGRAM_NONE)
      return bind_refuse(binding, "an axis has a length that is loaded");
  if (s->rows == PROGRAM_NONE && s->keys == PROGRAM_NONE) return true;
  if (s->rows == PROGRAM_NONE || s->keys == PROGRAM_NONE)
    return bind_refuse(binding, "rows or keys alone have a length that is loaded");
  return find_rows(binding, row, s) && find_keys(binding, key, s);
}

bool bind_is_ending(const Binding *binding, const BoundSequences *s, ProgramValue value)
{
  if (s->batch == PROGRAM_NONE || value.kind != VALUE_NODE) return false;
  const ProgramNode *sub = node_at(binding, (int)value.node);
  return sub->kind == NODE_MAP && sub->op == ONNX_Sub && node_of(&sub->operands[0]) == s->keys &&
         node_of(&sub->operands[1]) == s->rows;
}

/* Along the axis the access begins where the node says, and along nothing else. */
static bool begins_at(const Binding *binding, const ProgramAccess *access, int axis, int node)
{
  const Program *program = binding->program;
  bool found = false;
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    bool along = program_axes_in(program, access->at[d].of_axes) >> axis & 1;
    if (along && !symbolic_same(access->at[d].of_axes, program->axes[axis].symbol)) return false;
    if (access->at[d].node != (along ? node : PROGRAM_NONE)) return false;
    found |= along;
  }
  return found;
}

bool bind_along_rows(const Binding *binding, const BoundSequences *s, const ProgramAccess *access, int row)
{
  return begins_at(binding, access, row, s->begin);
}

bool bind_along_keys(const Binding *binding, const BoundSequences *s, const ProgramAccess *access, int key)
{
  return access->outside == OUTSIDE_NEVER && begins_at(binding, access, key, s->first);
}

/* ---- trees ---- */

/* An elementwise operator of two operands, or NULL. */
static const ProgramNode *pair_of(const Binding *binding, ProgramValue value, OperatorId op)
{
  const ProgramNode *node = value.kind == VALUE_NODE ? node_at(binding, (int)value.node) : NULL;
  bool is = node && node->kind == NODE_MAP && node->op == op && node->n_operands == 2;
  return is ? node : NULL;
}

/* The same with a number as the second operand. */
static const ProgramNode *with_number(const Binding *binding, ProgramValue value, OperatorId op,
                                      double number)
{
  const ProgramNode *node = pair_of(binding, value, op);
  bool is = node && node->operands[1].kind == VALUE_IMMEDIATE && node->operands[1].immediate == number;
  return is ? node : NULL;
}

/* The key less how many more keys than rows there are. */
static bool counts_own(const Binding *binding, const BoundSequences *s, int key, ProgramValue value)
{
  const Program *program = binding->program;
  const ProgramNode *sub = pair_of(binding, value, ONNX_Sub);
  if (!sub || !bind_is_ending(binding, s, sub->operands[1]) || sub->operands[0].kind != VALUE_NODE)
    return false;
  const ProgramNode *index = node_at(binding, (int)sub->operands[0].node);
  return index->kind == NODE_INDEX && symbolic_same(index->index, program->axes[key].symbol);
}

/* Is a key in front of those that its rows brought along, or has it a bit? */
static int tree_of(const Binding *binding, const BoundSequences *s, const ScoreAxes *axes, ProgramValue seen)
{
  const Program *program = binding->program;
  const ProgramNode *either = pair_of(binding, seen, ONNX_Or);
  const ProgramNode *front = either ? with_number(binding, either->operands[0], ONNX_Less, 0) : NULL,
                    *set = either ? with_number(binding, either->operands[1], ONNX_Greater, 0) : NULL,
                    *bit = set ? with_number(binding, set->operands[0], ONNX_BitwiseAnd, 1) : NULL,
                    *shift = bit ? pair_of(binding, bit->operands[0], ONNX_BitShift) : NULL;
  if (!front || !shift || !shift->attributes || strcmp(shift->attributes[0].text, "RIGHT"))
    return PROGRAM_NONE;
  const ProgramValue own = front->operands[0];
  const ProgramNode *place = with_number(binding, shift->operands[1], ONNX_BitwiseAnd, SEQUENCES_WORD - 1);
  int read = bind_read_of(program, shift->operands[0]);
  if (read < 0 || !place || !bind_same_value(place->operands[0], own) ||
      !counts_own(binding, s, axes->key, own))
    return PROGRAM_NONE;
  const ProgramAccess *access = &node_at(binding, read)->access;
  bool words = access->tensor->rank == 2 && access->tensor->type == NUMBER_S32 &&
               access->outside == OUTSIDE_FILL && access->fill == 0 && access->at[0].node == s->begin &&
               symbolic_same(access->at[0].of_axes, program->axes[axes->row].symbol) &&
               symbolic_equals(access->at[1].of_axes, 0) && access->at[1].node != PROGRAM_NONE;
  if (!words) return PROGRAM_NONE;
  const ProgramValue word = {VALUE_NODE, (unsigned)access->at[1].node, 0, 0, NUMBER_S64};
  const ProgramNode *quotient = with_number(binding, word, ONNX_Div, SEQUENCES_WORD);
  return quotient && bind_same_value(quotient->operands[0], own) ? read : PROGRAM_NONE;
}

int bind_tree(const Binding *binding, const BoundSequences *s, const ScoreAxes *axes, ProgramValue value,
              ProgramValue *scores)
{
  if (s->batch == PROGRAM_NONE || !scores_are(binding->program, value, ONNX_Where)) return PROGRAM_NONE;
  const ProgramValue *operands = node_at(binding, (int)value.node)->operands;
  bool hides = operands[2].kind == VALUE_IMMEDIATE && operands[2].immediate == -INFINITY;
  *scores = operands[1];
  return hides ? tree_of(binding, s, axes, operands[0]) : PROGRAM_NONE;
}
