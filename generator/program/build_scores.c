#include "generator/program/build_private.h"
#include <math.h>

static const ProgramValue none = {.kind = VALUE_ABSENT};

ProgramValue program_add_number(ProgramBuilder *at, const GraphNode *node, OperatorId op, ProgramValue a,
                                ProgramValue b)
{
  return program_add_map(at, node, op, NUMBER_F32, NUMBER_F32, (ProgramValue[]){a, b},
                         b.kind == VALUE_ABSENT ? 1 : 2);
}

ProgramValue program_hidden_but(ProgramBuilder *at, const GraphNode *node, ProgramValue seen,
                                ProgramValue scores)
{
  const ProgramValue operands[] = {seen, scores, program_immediate(-INFINITY, NUMBER_F32)};
  return program_add_map(at, node, ONNX_Where, NUMBER_F32, NUMBER_F32, operands, G_N_ELEMENTS(operands));
}

ProgramValue program_add_dot(ProgramBuilder *at, const GraphNode *node, ProgramValue a, ProgramValue b,
                             uint32_t axes)
{
  return program_add_reduction(at, node, REDUCTION_DOT, axes, NUMBER_F32, (ProgramValue[]){a, b});
}

double program_score_scale(const GraphNode *node, const GraphTensor *queries)
{
  double scale = graph_attribute(node, "scale")->number;
  int64_t depth = 1;
  symbolic_is_constant(queries->shape[queries->rank - 1], &depth);
  return scale != 0 ? scale : 1 / sqrt((double)MAX(depth, 1));
}

ProgramValue program_scores(ProgramBuilder *at, const GraphNode *node, ProgramValue product, double scale,
                            ProgramValue *bent)
{
  double cap = graph_attribute(node, "softcap")->number;
  ProgramValue scores =
      program_add_number(at, node, ONNX_Mul, product, program_immediate((float)scale, NUMBER_F32));
  if (bent) *bent = none;
  if (!(cap > 0)) return scores;
  ProgramValue most = program_immediate((float)cap, NUMBER_F32);
  scores =
      program_add_number(at, node, ONNX_Tanh, program_add_number(at, node, ONNX_Div, scores, most), none);
  if (bent) *bent = scores;
  return program_add_number(at, node, ONNX_Mul, scores, most);
}

/* ---- windows ---- */

/* An index along an axis; of the only one there is 0. */
static const Symbolic *place_along(const ProgramBuilder *at, int axis)
{
  const ProgramAxis *row = &at->program->axes[axis];
  return symbolic_equals(row->extent, 1) ? symbolic_constant(at->program->arena, 0) : row->symbol;
}

typedef struct Window {
  ProgramBuilder *at;
  const GraphNode *node;
  const Symbolic *behind; /* key - row */
  ProgramValue keys, rows;
} Window;

/* Scores where it is at most (at least) the distance. */
static ProgramValue bounded(const Window *of, ProgramValue scores, OperatorId op, int64_t distance)
{
  ProgramBuilder *at = of->at;
  Arena *arena = at->program->arena;
  const Symbolic *index = symbolic_sub(arena, of->behind, symbolic_constant(arena, distance));
  ProgramValue ends[] = {of->keys, of->rows}, operands[] = {none, program_immediate(0, NUMBER_S64)};
  if (of->keys.kind != VALUE_ABSENT)
    operands[1] = program_add_map(at, of->node, ONNX_Sub, NUMBER_S64, NUMBER_S64, ends, G_N_ELEMENTS(ends));
  operands[0] = program_add_index(at, of->node, index);
  ProgramValue seen =
      program_add_map(at, of->node, op, NUMBER_BOOL, NUMBER_S64, operands, G_N_ELEMENTS(operands));
  return program_hidden_but(at, of->node, seen, scores);
}

ProgramValue program_windowed(ProgramBuilder *at, const GraphNode *node, ProgramValue scores, int row,
                              int key, ProgramValue keys, ProgramValue rows)
{
  const ProgramAxis *axes = at->program->axes;
  int64_t left = graph_attribute(node, "left_window_size")->integer,
          right = graph_attribute(node, "right_window_size")->integer;
  bool one = symbolic_equals(axes[row].extent, 1) && symbolic_equals(axes[key].extent, 1);
  if (graph_attribute(node, "is_causal")->integer) right = 0;
  if (one) return scores; /* a row sees its own key */
  const Window of = {at, node, symbolic_sub(at->program->arena, place_along(at, key), place_along(at, row)),
                     keys, rows};
  if (left >= 0) scores = bounded(&of, scores, ONNX_GreaterOrEqual, -left);
  return right >= 0 ? bounded(&of, scores, ONNX_LessOrEqual, right) : scores;
}

void program_write(ProgramBuilder *at, const GraphNode *node, ProgramAccess access, ProgramValue value)
{
  NumberType type = access.tensor->type;
  ProgramNode row = {.kind = NODE_WRITE, .source = node, .type = type, .compute = type, .access = access};
  program_add_node(at, row, &value, 1, type);
}
