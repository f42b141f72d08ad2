#include "generator/program/match_scores.h"
#include <math.h>

#define LEAST_SCORE (-1e30) /* what hides a key: e^(it - largest) is 0 beside any score that is seen */

static const ProgramValue nothing = {VALUE_IMMEDIATE, 0, 0, 0, NUMBER_S64};

bool scores_are(const Program *program, ProgramValue value, OperatorId op)
{
  const ProgramNode *node = value.kind == VALUE_NODE ? &program->nodes[value.node] : NULL;
  return node && node->kind == NODE_MAP && node->op == op;
}

/* An axis as an index; what has one index is at 0. */
static const Symbolic *along(const ScoreAxes *at, int axis)
{
  const ProgramAxis *row = &at->program->axes[axis];
  return symbolic_equals(row->extent, 1) ? symbolic_constant(at->program->arena, 0) : row->symbol;
}

/* An index that has `of` once, added (*turned: subtracted), and something that varies along neither keys nor rows. */
static bool is_index(const ScoreAxes *at, const Symbolic *index, const Symbolic *of, const Symbolic **rest,
                     bool *turned)
{
  const Program *program = at->program;
  Arena *arena = program->arena;
  for (unsigned i = 0; i < 2; i++) {
    *turned = i;
    *rest = i ? symbolic_add(arena, index, of) : symbolic_sub(arena, index, of);
    if (!program_axes_in(program, *rest)) return true;
  }
  return false;
}

static bool hides(const ProgramValue *value)
{
  return value->kind == VALUE_IMMEDIATE && value->immediate <= LEAST_SCORE;
}

/* What is compared: an index, or the number that the index of one key is. */
static const Symbolic *compared(const ScoreAxes *at, ProgramValue value)
{
  const Program *program = at->program;
  const ProgramNode *node = value.kind == VALUE_NODE ? &program->nodes[value.node] : NULL;
  if (node) return node->kind == NODE_INDEX ? node->index : NULL;
  bool one = value.kind == VALUE_IMMEDIATE && symbolic_equals(program->axes[at->key].extent, 1) &&
             fabs(value.immediate) < SYMBOLIC_DIMENSION_MAX && value.immediate == floor(value.immediate);
  return one ? symbolic_constant(program->arena, (int64_t)value.immediate) : NULL;
}

/* A comparison of an index with a number or what is loaded: is it `index <= right` (index < right: <= right - *less), or
 * what that is not (*above)? */
static bool is_bound(const ScoreAxes *at, const ProgramNode *compare, bool *above, unsigned *less)
{
  if (compare->kind != NODE_MAP || compare->n_operands != 2 || !compared(at, compare->operands[0]))
    return false;
  *above = compare->op == ONNX_Greater || compare->op == ONNX_GreaterOrEqual;
  *less = compare->op == ONNX_Less || compare->op == ONNX_GreaterOrEqual;
  return *above || *less || compare->op == ONNX_LessOrEqual;
}

/* What is loaded is one number for each batch. */
static bool is_limit(const ScoreAxes *at, ProgramValue value)
{
  if (value.kind == VALUE_IMMEDIATE) return fabs(value.immediate) < SYMBOLIC_DIMENSION_MAX;
  uint32_t varies = at->program->varies[value.node];
  return value.kind == VALUE_NODE && !(varies >> at->row & 1) && !(varies >> at->key & 1) &&
         number_class(value.type) != NUMBER_FLOAT;
}

/* What is known of a bound, in 32 bits, with what templates add to it: beyond so many keys nothing changes, as of what is loaded. */
static const Symbolic *within_numbers(const ScoreAxes *at, const Symbolic *number)
{
  int64_t known;
  if (!symbolic_is_constant(number, &known)) return number;
  return symbolic_constant(at->program->arena, CLAMP(known, G_MININT32 / 2, G_MAXINT32 / 2));
}

bool scores_are_masked(const ScoreAxes *at, ProgramValue value, ProgramValue *scores, AttentionBound *bound,
                       ProgramValue *limit)
{
  const Program *program = at->program;
  Arena *arena = program->arena;
  if (!scores_are(at->program, value, ONNX_Where)) return false;
  const ProgramNode *where = &program->nodes[value.node];
  bool kept = hides(&where->operands[2]), hidden = hides(&where->operands[1]), above, turned;
  unsigned less;
  if (kept == hidden || where->operands[0].kind != VALUE_NODE) return false;
  const ProgramNode *compare = &program->nodes[where->operands[0].node];
  if (!is_bound(at, compare, &above, &less) || !is_limit(at, compare->operands[1])) return false;
  const Symbolic *index = compared(at, compare->operands[0]), *rest,
                 *key = at->key_place ? at->key_place : along(at, at->key),
                 *distance = symbolic_sub(arena, key, at->row_place ? at->row_place : along(at, at->row));
  bound->from_row = is_index(at, index, distance, &rest, &turned);
  if (!bound->from_row && !is_index(at, index, key, &rest, &turned)) return false;
  /* seen: index <= right - less, or, where it is above that (or what is hidden is below), index >= right - less + 1 */
  bool least = above == kept;
  int64_t more = (least ? 1 : 0) - (int64_t)less;
  *limit = compare->operands[1];
  bool known = limit->kind == VALUE_IMMEDIATE;
  if (turned && !known) return false;
  if (known) more += (int64_t)floor(limit->immediate);
  if (known && limit->immediate != floor(limit->immediate)) return false;
  bound->number = symbolic_sub(arena, symbolic_constant(arena, more), rest);
  if (turned) bound->number = symbolic_sub(arena, rest, symbolic_constant(arena, more));
  bound->number = within_numbers(at, bound->number);
  bound->least = least != turned;
  if (known) *limit = nothing;
  *scores = where->operands[kept ? 1 : 2];
  return true;
}

bool scores_are_scaled(const Program *program, ProgramValue value, ProgramValue *scores, double *factor)
{
  bool mul = scores_are(program, value, ONNX_Mul), div = scores_are(program, value, ONNX_Div);
  if (!mul && !div) return false;
  const ProgramNode *node = &program->nodes[value.node];
  unsigned number = mul && node->operands[0].kind == VALUE_IMMEDIATE ? 0 : 1;
  if (node->operands[number].kind != VALUE_IMMEDIATE || node->compute != NUMBER_F32) return false;
  *factor = div ? 1 / node->operands[number].immediate : node->operands[number].immediate;
  *scores = node->operands[1 - number];
  return *factor > 0 && isfinite(*factor);
}

ProgramValue scores_unguarded(const Program *program, unsigned softmax, ProgramValue value)
{
  if (!scores_are(program, value, ONNX_Where)) return value;
  const ProgramNode *where = &program->nodes[value.node];
  const ProgramValue *zero = &where->operands[1], condition = where->operands[0];
  if (condition.kind != VALUE_NODE || zero->kind != VALUE_IMMEDIATE || zero->immediate != 0) return value;
  const ProgramValue *asked = program->nodes[condition.node].operands;
  bool guard = scores_are(program, condition, ONNX_IsNaN) && bind_same_value(asked[0], where->operands[2]);
  bool empty = scores_are(program, condition, ONNX_Equal) &&
               bind_same_value(asked[0], (ProgramValue){VALUE_NODE, softmax, 0, 0, NUMBER_F32}) &&
               asked[1].kind == VALUE_IMMEDIATE && asked[1].immediate == -INFINITY;
  return guard || empty ? where->operands[2] : value;
}
