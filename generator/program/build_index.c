/* Operators that take elements at indices of their own, as nodes of a program: reads at loaded indices, at expressions of
 * axes, and outside of the tensor, and values that follow from where a point lies. */
#include "generator/program/build_private.h"
#include <math.h>

static const Symbolic *number(ProgramBuilder *at, int64_t value)
{
  return symbolic_constant(at->program->arena, value);
}

/* Index of the point along dimension d of a shape; 0 along what has one element. */
static const Symbolic *along(const ProgramBuilder *at, unsigned d, const Symbolic *extent)
{
  bool still = symbolic_equals(extent, 1) || at->point[d] == PROGRAM_NONE;
  return still ? symbolic_constant(at->program->arena, 0) : at->program->axes[at->point[d]].symbol;
}

ProgramValue program_column(ProgramBuilder *at, const GraphNode *node)
{
  return program_add_index(at, node, program_place_along(at->program, at->reduced));
}

/* ---- Gather, GatherElements ---- */

/* Negative indices count from the end; what is outside of the tensor then reads as 0, so that no index makes a kernel
 * leave its memory. */
static ProgramIndex loaded_index(ProgramBuilder *at, const GraphNode *node, ProgramValue index,
                                 const Symbolic *extent)
{
  if (index.kind == VALUE_IMMEDIATE) {
    const Symbolic *place = number(at, (int64_t)index.immediate);
    if (index.immediate < 0) place = symbolic_add(at->program->arena, place, extent);
    return (ProgramIndex){place, PROGRAM_NONE};
  }
  return program_index_of(at, program_from_end(at, node, index, extent));
}

static ProgramValue index_value(ProgramBuilder *at, const GraphNode *node, const GraphTensor *indices,
                                unsigned first)
{
  double value;
  if (graph_scalar(indices, &value)) return program_immediate(value, indices->type);
  if (g_hash_table_contains(at->values, indices))
    return program_operand(at, node, indices); /* of this point */
  ProgramAccess access = {.tensor = indices};
  for (unsigned d = 0; d < indices->rank; d++)
    access.at[d] = (ProgramIndex){along(at, first + d, indices->shape[d]), PROGRAM_NONE};
  return program_add_read(at, node, access);
}

static ProgramValue add_gather(ProgramBuilder *at, const GraphNode *node)
{
  const GraphTensor *input = node->inputs[0], *indices = node->inputs[1];
  bool elements = node->op->id == ONNX_GatherElements;
  unsigned axis = (unsigned)__builtin_ctz(node->axes), more = elements ? 1 : indices->rank;
  ProgramValue index = index_value(at, node, indices, elements ? 0 : axis);
  ProgramAccess access = {.tensor = input, .outside = OUTSIDE_FILL};
  for (unsigned d = 0; d < input->rank; d++) {
    unsigned place = d <= axis ? d : d - 1 + more;
    access.at[d] = d == axis ? loaded_index(at, node, index, input->shape[d])
                             : (ProgramIndex){along(at, place, input->shape[d]), PROGRAM_NONE};
  }
  return program_add_read(at, node, access);
}

/* ---- GatherND ---- */

static ProgramValue add_gather_nd(ProgramBuilder *at, const GraphNode *node)
{
  const GraphTensor *input = node->inputs[0], *indices = node->inputs[1];
  const GraphAttribute *attribute = graph_attribute_find(node, "batch_dims");
  unsigned batches = attribute ? (unsigned)attribute->integer : 0, lists = indices->rank - 1;
  unsigned told = lists + input->rank - batches - node->outputs[0]->rank;
  ProgramAccess access = {.tensor = input, .outside = OUTSIDE_FILL}, list = {.tensor = indices};
  for (unsigned d = 0; d < lists; d++)
    list.at[d] = (ProgramIndex){along(at, d, indices->shape[d]), PROGRAM_NONE};
  for (unsigned d = 0; d < input->rank; d++) {
    if (d < batches || d >= batches + told) {
      unsigned point = d < batches ? d : lists + d - batches - told;
      access.at[d] = (ProgramIndex){along(at, point, input->shape[d]), PROGRAM_NONE};
      continue;
    }
    list.at[lists] = (ProgramIndex){number(at, d - batches), PROGRAM_NONE};
    access.at[d] = loaded_index(at, node, program_add_read(at, node, list), input->shape[d]);
  }
  return program_add_read(at, node, access);
}

/* ---- Pad, Tile ---- */

static const Symbolic *largest(ProgramBuilder *at, const Symbolic *a, const Symbolic *b)
{
  return symbolic_binary(at->program->arena, SYMBOLIC_MAX, a, b);
}

static const Symbolic *remainder_of(ProgramBuilder *at, const Symbolic *index, const Symbolic *extent)
{
  return symbolic_binary(at->program->arena, SYMBOLIC_MOD, index, extent);
}

/* Where a mode finds what is outside: at the edge, beyond it as in a mirror, or at the other end. */
static const Symbolic *brought_inside(ProgramBuilder *at, char mode, const Symbolic *index,
                                      const Symbolic *extent)
{
  Arena *arena = at->program->arena;
  const Symbolic *last = symbolic_sub(arena, extent, number(at, 1));
  if (mode == 'e') return symbolic_binary(arena, SYMBOLIC_MIN, largest(at, index, number(at, 0)), last);
  if (mode == 'w') {
    const Symbolic *rest = symbolic_add(arena, remainder_of(at, index, extent), extent);
    return remainder_of(at, rest, extent);
  }
  const Symbolic *before = largest(at, index, symbolic_sub(arena, number(at, 0), index));
  const Symbolic *mirrored = symbolic_sub(arena, symbolic_mul(arena, number(at, 2), last), before);
  return symbolic_binary(arena, SYMBOLIC_MIN, before, mirrored);
}

static ProgramValue add_pad(ProgramBuilder *at, const GraphNode *node)
{
  const GraphTensor *input = node->inputs[0], *fill = node->n_inputs > 2 ? node->inputs[2] : NULL;
  const GraphAttribute *value = graph_attribute_find(node, "value");
  char mode = graph_attribute(node, "mode")->text[0];
  ProgramAccess access = {.tensor = input, .outside = OUTSIDE_FILL, .fill = value ? value->number : 0};
  if (fill) graph_scalar(fill, &access.fill);
  for (unsigned d = 0; d < input->rank; d++) {
    const Symbolic *point = along(at, d, node->outputs[0]->shape[d]);
    const Symbolic *index = symbolic_add(at->program->arena, point, node->firsts[d]);
    bool moves =
        !symbolic_same(node->outputs[0]->shape[d], input->shape[d]) || !symbolic_equals(node->firsts[d], 0);
    if (moves && mode != 'c') index = brought_inside(at, mode, index, input->shape[d]);
    access.at[d] = (ProgramIndex){index, PROGRAM_NONE};
  }
  return program_add_read(at, node, access);
}

static ProgramValue add_tile(ProgramBuilder *at, const GraphNode *node)
{
  const GraphTensor *input = node->inputs[0], *output = node->outputs[0];
  ProgramAccess access = {.tensor = input};
  for (unsigned d = 0; d < input->rank; d++) {
    const Symbolic *index = along(at, d, input->shape[d]);
    if (!symbolic_same(input->shape[d], output->shape[d])) index = remainder_of(at, index, input->shape[d]);
    access.at[d] = (ProgramIndex){index, PROGRAM_NONE};
  }
  return program_add_read(at, node, access);
}

/* ---- Trilu ---- */

/* Of matrices of one element: it, or 0. Numbers alone have neither a type nor a shape. */
static ProgramValue one_element(ProgramBuilder *at, const GraphNode *node, ProgramValue x, bool kept)
{
  const GraphTensor *input = node->inputs[0];
  NumberType compute = program_compute(input->type);
  if (x.kind == VALUE_IMMEDIATE && input->data)
    x = program_read_once(at, node, program_point_access(at, input));
  if (kept) return x;
  const ProgramValue zero = program_immediate(0, input->type);
  ProgramValue same = program_add_map(at, node, ONNX_Equal, NUMBER_BOOL, compute, (ProgramValue[]){x, x}, 2);
  return program_add_map(at, node, ONNX_Where, input->type, compute, (ProgramValue[]){same, zero, zero}, 3);
}

/* Elements on the kept side of the diagonal: columns - rows >= k, or <= k. */
static ProgramValue add_trilu(ProgramBuilder *at, const GraphNode *node)
{
  const GraphTensor *input = node->inputs[0];
  unsigned row = input->rank - 2, column = input->rank - 1;
  double k = 0;
  if (node->n_inputs > 1 && node->inputs[1]) graph_scalar(node->inputs[1], &k);
  const Symbolic *rows = along(at, row, input->shape[row]),
                 *columns = along(at, column, input->shape[column]);
  ProgramValue distance = program_add_index(at, node, symbolic_sub(at->program->arena, columns, rows));
  bool upper = graph_attribute(node, "upper")->integer != 0;
  ProgramValue x = program_operand(at, node, input), none = program_immediate(0, input->type);
  if (distance.kind == VALUE_IMMEDIATE)
    return one_element(at, node, x, upper ? distance.immediate >= k : distance.immediate <= k);
  ProgramValue kept =
      program_add_map(at, node, upper ? ONNX_GreaterOrEqual : ONNX_LessOrEqual, NUMBER_BOOL, NUMBER_S64,
                      (ProgramValue[]){distance, program_immediate(k, NUMBER_S64)}, 2);
  return program_add_map(at, node, ONNX_Where, input->type, program_compute(input->type),
                         (ProgramValue[]){kept, x, none}, 3);
}

/* ---- Mask ---- */

/* x where `index` compares so with a number; what is known of that is part of the index, `limit` is loaded or 0. */
static ProgramValue bounded(ProgramBuilder *at, const GraphNode *node, ProgramValue x, OperatorId compare,
                            const Symbolic *index, ProgramValue limit)
{
  NumberType type = node->inputs[0]->type;
  ProgramValue place = program_add_index(at, node, index);
  if (place.kind == VALUE_IMMEDIATE && limit.kind == VALUE_IMMEDIATE) { /* matrices of one element */
    double off = place.immediate - limit.immediate;
    if (compare == ONNX_Less ? off < 0 : compare == ONNX_LessOrEqual ? off <= 0 : off >= 0) return x;
  }
  ProgramValue kept =
      program_add_map(at, node, compare, NUMBER_BOOL, NUMBER_S64, (ProgramValue[]){place, limit}, 2);
  return program_add_map(at, node, ONNX_Where, type, program_compute(type),
                         (ProgramValue[]){kept, x, program_immediate(-INFINITY, type)}, 3);
}

/* Takes a bound off the index, or adds what is loaded of it to the limit. */
static void subtract(ProgramBuilder *at, const GraphNode *node, const GraphTensor *bound,
                     const Symbolic **index, ProgramValue *limit)
{
  bool one = !bound->rank || (bound->rank == 1 && symbolic_equals(bound->shape[0], 1));
  if (bound->values && one) {
    *index = symbolic_sub(at->program->arena, *index, bound->values[0]);
    return;
  }
  ProgramValue loaded = index_value(at, node, bound, 0);
  *limit = limit->kind == VALUE_IMMEDIATE ? loaded
                                          : program_add_map(at, node, ONNX_Add, NUMBER_S64, NUMBER_S64,
                                                            (ProgramValue[]){*limit, loaded}, 2);
}

static ProgramValue add_mask(ProgramBuilder *at, const GraphNode *node)
{
  static const OperatorId compares[] = {ONNX_GreaterOrEqual, ONNX_LessOrEqual, ONNX_Less};
  Arena *arena = at->program->arena;
  const GraphTensor *input = node->inputs[0], *length = node->n_inputs > 3 ? node->inputs[3] : NULL;
  const Symbolic *rows = input->shape[input->rank - 2], *columns = input->shape[input->rank - 1];
  const Symbolic *row = along(at, input->rank - 2, rows), *column = along(at, input->rank - 1, columns);
  bool end = graph_attribute(node, "diagonal")->text[0] == 'e';
  ProgramValue x = program_operand(at, node, input);
  for (unsigned i = 1; i < node->n_inputs; i++) {
    const Symbolic *index = i == 3 ? column : symbolic_sub(arena, column, row);
    ProgramValue limit = program_immediate(0, NUMBER_S64);
    if (!node->inputs[i]) continue;
    if (end && i < 3) { /* column - (length - rows) - row */
      index = symbolic_add(arena, index, rows);
      if (length)
        subtract(at, node, length, &index, &limit);
      else
        index = symbolic_sub(arena, index, columns);
    }
    subtract(at, node, node->inputs[i], &index, &limit);
    x = bounded(at, node, x, compares[i - 1], index, limit);
  }
  return x;
}

/* Where a point lies along the axis: of rows it is what the other values of the group stand at. */
static ProgramValue add_place(ProgramBuilder *at, const GraphNode *node)
{
  uint32_t axes = 0;
  for (unsigned d = 0; d < node->inputs[0]->rank; d++)
    if ((node->axes >> d & 1) && at->point[d] != PROGRAM_NONE) axes |= 1u << at->point[d];
  return program_add_index(at, node, program_place_along(at->program, axes));
}

void program_add_indexed(ProgramBuilder *at, const GraphNode *node)
{
  ProgramValue value = {.kind = VALUE_ABSENT};
  switch ((unsigned)node->op->id) {
  case ONNX_Gather:
  case ONNX_GatherElements: value = add_gather(at, node); break;
  case ONNX_Pad: value = add_pad(at, node); break;
  case ONNX_Tile: value = add_tile(at, node); break;
  case ONNX_Trilu: value = add_trilu(at, node); break;
  case ONNX_Mask: value = add_mask(at, node); break;
  case ONNX_GatherND: value = add_gather_nd(at, node); break;
  case ONNX_Scatter:
  case ONNX_ScatterElements:
  case ONNX_ScatterND: value = program_add_scatter(at, node); break;
  case ONNX_ReduceSegments: value = program_add_segments(at, node); break;
  case ONNX_TensorScatter: value = program_add_insertion(at, node); break;
  case ONNX_ReverseSequence: value = program_add_reversal(at, node); break;
  case ONNX_MaxPool:
  case ONNX_AveragePool:
  case ONNX_LpPool: value = program_add_window(at, node); break;
  case ONNX_Resample: value = program_add_resample(at, node); break;
  case ONNX_IndexAlong: value = add_place(at, node); break;
  default: g_assert_not_reached();
  }
  program_set_value(at, node->outputs[0], value);
}
