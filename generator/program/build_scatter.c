/* Scattered results: each point looks through the indices for those that name it, in their order, so that no two threads write
 * one element and results are the same bits every run. An index outside of the tensor names no point. */
#include "generator/program/build_private.h"
#include <math.h>
#include <string.h>

/* Names no point, and is outside of every tensor, whatever is added for negative indices. */
#define NOWHERE ((double)INT32_MIN)

typedef struct {
  ProgramBuilder *at;
  const GraphNode *node;
  const GraphTensor *data, *indices, *updates;
  uint32_t axes; /* of the indices, which points walk along */
  int walked[GRAPH_MAX_RANK];
  ProgramValue hits;    /* the index names the point */
  ProgramAccess update; /* its update: all but where the walk stands */
  unsigned first, n;    /* dimensions of `update` along which it walks */
} Scatter;

static const ProgramValue none = {.kind = VALUE_ABSENT};

static ProgramValue map(const Scatter *scatter, OperatorId op, NumberType type, NumberType compute,
                        ProgramValue a, ProgramValue b, ProgramValue c)
{
  unsigned n = b.kind == VALUE_ABSENT ? 1 : c.kind == VALUE_ABSENT ? 2 : 3;
  return program_add_map(scatter->at, scatter->node, op, type, compute, (ProgramValue[]){a, b, c}, n);
}

static ProgramValue choose(const Scatter *scatter, NumberType type, ProgramValue condition, ProgramValue a,
                           ProgramValue b)
{
  return map(scatter, ONNX_Where, type, program_compute(type), condition, a, b);
}

/* A point's index along a dimension of the data. */
static const Symbolic *point_along(const Scatter *scatter, unsigned d)
{
  ProgramBuilder *at = scatter->at;
  bool still = symbolic_equals(scatter->data->shape[d], 1) || at->point[d] == PROGRAM_NONE;
  return still ? symbolic_constant(at->program->arena, 0) : at->program->axes[at->point[d]].symbol;
}

static const Symbolic *symbol_of(const Scatter *scatter, int axis)
{
  return scatter->at->program->axes[axis].symbol;
}

static int add_walk(Scatter *scatter, unsigned i, const Symbolic *extent)
{
  scatter->walked[i] = program_add_axis(scatter->at, 'j', (int)i, extent);
  scatter->axes |= 1u << scatter->walked[i];
  return scatter->walked[i];
}

/* The index that the access loads is the point's along dimension d. */
static ProgramValue names_point(Scatter *scatter, ProgramAccess access, unsigned d)
{
  ProgramBuilder *at = scatter->at;
  ProgramValue index = program_add_read(at, scatter->node, access);
  ProgramValue place = program_from_end(at, scatter->node, index, scatter->data->shape[d]);
  ProgramValue point = program_add_index(at, scatter->node, point_along(scatter, d));
  return map(scatter, ONNX_Equal, NUMBER_BOOL, NUMBER_S64, place, point, none);
}

/* ---- ScatterElements: an index for each element, along one axis ---- */

static void open_elements(Scatter *scatter)
{
  unsigned axis = (unsigned)__builtin_ctz(scatter->node->axes);
  int walked = add_walk(scatter, 0, scatter->indices->shape[axis]);
  ProgramAccess access = {.tensor = scatter->indices, .fill = NOWHERE};
  for (unsigned d = 0; d < scatter->data->rank; d++) {
    access.at[d] =
        (ProgramIndex){d == axis ? symbol_of(scatter, walked) : point_along(scatter, d), PROGRAM_NONE};
    bool fewer = d != axis && !symbolic_same(scatter->indices->shape[d], scatter->data->shape[d]);
    if (fewer) access.outside = OUTSIDE_FILL;
  }
  scatter->hits = names_point(scatter, access, axis);
  scatter->update = access;
  scatter->update.tensor = scatter->updates;
  scatter->first = axis;
  scatter->n = 1;
}

/* ---- ScatterND: lists of indices, each of a part of the data ---- */

static void open_lists(Scatter *scatter)
{
  const GraphTensor *indices = scatter->indices;
  Arena *arena = scatter->at->program->arena;
  unsigned lists = indices->rank - 1, told = scatter->data->rank - (scatter->updates->rank - lists);
  ProgramAccess access = {.tensor = indices};
  scatter->update.tensor = scatter->updates;
  scatter->n = lists;
  for (unsigned i = 0; i < lists; i++) {
    access.at[i] = (ProgramIndex){symbol_of(scatter, add_walk(scatter, i, indices->shape[i])), PROGRAM_NONE};
    scatter->update.at[i] = access.at[i];
  }
  for (unsigned d = told; d < scatter->data->rank; d++)
    scatter->update.at[lists + d - told] = (ProgramIndex){point_along(scatter, d), PROGRAM_NONE};
  for (unsigned d = 0; d < told; d++) {
    access.at[lists] = (ProgramIndex){symbolic_constant(arena, d), PROGRAM_NONE};
    ProgramValue names = names_point(scatter, access, d);
    scatter->hits = d ? map(scatter, ONNX_And, NUMBER_BOOL, NUMBER_BOOL, scatter->hits, names, none) : names;
  }
}

/* ---- the last update of a point ---- */

static ProgramValue reduce(Scatter *scatter, ProgramReduction reduction, NumberType compute,
                           ProgramValue value)
{
  if (!scatter->axes) return value; /* one list of indices */
  return program_add_reduction(scatter->at, scatter->node, reduction, scatter->axes, compute, &value);
}

/* Of a number that counts along the walked dimensions the indices along each of them. */
static void take_apart(Scatter *scatter, ProgramValue place)
{
  ProgramBuilder *at = scatter->at;
  const Symbolic *zero = symbolic_constant(at->program->arena, 0);
  for (unsigned i = scatter->n; i-- > 0;) {
    ProgramValue index = place;
    if (i) {
      ProgramValue extent =
          program_add_index(at, scatter->node, at->program->axes[scatter->walked[i]].extent);
      index = map(scatter, ONNX_Mod, NUMBER_S32, NUMBER_S32, place, extent, none);
      place = map(scatter, ONNX_Div, NUMBER_S32, NUMBER_S32, place, extent, none);
    }
    scatter->update.at[scatter->first + i] = (ProgramIndex){zero, (int)index.node};
  }
}

static ProgramValue last_update(Scatter *scatter, ProgramValue data)
{
  ProgramBuilder *at = scatter->at;
  const Symbolic *place = program_place_along(at->program, scatter->axes);
  ProgramValue here = program_add_index(at, scatter->node, place),
               missing = program_immediate(-1, NUMBER_S32);
  ProgramValue last =
      reduce(scatter, REDUCTION_MAX, NUMBER_S32, choose(scatter, NUMBER_S32, scatter->hits, here, missing));
  ProgramValue found = map(scatter, ONNX_GreaterOrEqual, NUMBER_BOOL, NUMBER_S32, last,
                           program_immediate(0, NUMBER_S32), none);
  take_apart(scatter, last);
  scatter->update.outside = OUTSIDE_FILL;
  scatter->update.fill = 0;
  ProgramValue update = program_add_read(at, scatter->node, scatter->update);
  return choose(scatter, scatter->data->type, found, update, data);
}

/* ---- all updates of a point, combined ---- */

typedef struct {
  const char *name;
  ProgramReduction reduction;
  OperatorId op;
} Combination;

static const Combination combinations[] = {{"add", REDUCTION_SUM, ONNX_Add},
                                           {"mul", REDUCTION_PROD, ONNX_Mul},
                                           {"max", REDUCTION_MAX, ONNX_Max},
                                           {"min", REDUCTION_MIN, ONNX_Min}};

static const Combination *combination_of(const GraphNode *node)
{
  const GraphAttribute *reduction = graph_attribute_find(node, "reduction");
  for (unsigned i = 0; reduction && i < G_N_ELEMENTS(combinations); i++)
    if (!strcmp(combinations[i].name, reduction->text)) return &combinations[i];
  return NULL;
}

static double identity_of(ProgramReduction reduction)
{
  return reduction == REDUCTION_MAX   ? -INFINITY
         : reduction == REDUCTION_MIN ? INFINITY
                                      : reduction == REDUCTION_PROD;
}

static ProgramValue combine(Scatter *scatter, ProgramValue data, ProgramValue update,
                            const Combination *combination)
{
  NumberType type = scatter->data->type, compute = program_compute(type);
  update = reduce(scatter, combination->reduction, compute, update);
  return map(scatter, combination->op, type, compute, data, update, none);
}

/* What is not the point's is outside of the updates: nothing is loaded. */
static ProgramValue combined_updates(Scatter *scatter, ProgramValue data, const Combination *combination)
{
  ProgramBuilder *at = scatter->at;
  NumberType type = scatter->data->type;
  bool sums = combination->reduction == REDUCTION_SUM || combination->reduction == REDUCTION_PROD;
  bool floats = number_class(type) == NUMBER_FLOAT, apart = scatter->updates->rank > 0;
  double identity = floats || sums ? identity_of(combination->reduction) : 0;
  ProgramValue away = choose(scatter, NUMBER_S64, scatter->hits, program_immediate(0, NUMBER_S64),
                             program_immediate(NOWHERE, NUMBER_S64));
  if (apart) scatter->update.at[scatter->first].node = (int)away.node;
  scatter->update.outside = OUTSIDE_FILL;
  scatter->update.fill = identity;
  ProgramValue update = program_add_read(at, scatter->node, scatter->update);
  if (!floats && !sums) /* the data itself changes nothing */
    update = choose(scatter, type, scatter->hits, update, data);
  else if (!apart)
    update = choose(scatter, type, scatter->hits, update, program_immediate(identity, type));
  return combine(scatter, data, update, combination);
}

static Scatter scatter_of(ProgramBuilder *at, const GraphNode *node)
{
  return (Scatter){.at = at,
                   .node = node,
                   .data = node->inputs[0],
                   .indices = node->inputs[1],
                   .updates = node->inputs[2]};
}

ProgramValue program_add_scatter(ProgramBuilder *at, const GraphNode *node)
{
  Scatter scatter = scatter_of(at, node);
  const Combination *combination = combination_of(node);
  ProgramValue data = program_operand(at, node, scatter.data);
  if (node->op->id == ONNX_ScatterND)
    open_lists(&scatter);
  else
    open_elements(&scatter);
  return combination ? combined_updates(&scatter, data, combination) : last_update(&scatter, data);
}

/* ---- ReduceSegments: updates in the order of their parts ---- */

static ProgramValue end_of(const Scatter *scatter, int64_t before)
{
  Arena *arena = scatter->at->program->arena;
  const Symbolic *place = symbolic_sub(arena, point_along(scatter, 0), symbolic_constant(arena, before));
  ProgramAccess access = {.tensor = scatter->node->inputs[3],
                          .at = {{place, PROGRAM_NONE}},
                          .outside = before ? OUTSIDE_FILL : OUTSIDE_NEVER};
  return program_add_read(scatter->at, scatter->node, access);
}

ProgramValue program_add_segments(ProgramBuilder *at, const GraphNode *node)
{
  Scatter scatter = scatter_of(at, node);
  ProgramValue data = program_operand(at, node, scatter.data);
  ProgramValue end = end_of(&scatter, 0), begin = end_of(&scatter, 1);
  ProgramValue length = map(&scatter, ONNX_Sub, NUMBER_S32, NUMBER_S32, end, begin, none);
  int walked = add_walk(&scatter, 0, scatter.indices->shape[0]);
  at->program->axes[walked].length = (int)length.node;
  ProgramAccess access = {.tensor = scatter.indices,
                          .at = {{symbol_of(&scatter, walked), (int)begin.node}},
                          .outside = OUTSIDE_FILL,
                          .fill = NOWHERE};
  ProgramValue place = program_add_read(at, node, access);
  access = (ProgramAccess){
      .tensor = scatter.updates, .at = {program_index_of(at, place)}, .outside = OUTSIDE_FILL};
  for (unsigned d = 1; d < scatter.data->rank; d++)
    access.at[d] = (ProgramIndex){point_along(&scatter, d), PROGRAM_NONE};
  return combine(&scatter, data, program_add_read(at, node, access), combination_of(node));
}

/* ---- TensorScatter: a part along one axis that begins where each batch says ---- */

ProgramValue program_add_insertion(ProgramBuilder *at, const GraphNode *node)
{
  Scatter scatter = {.at = at, .node = node, .data = node->inputs[0], .updates = node->inputs[1]};
  unsigned axis = (unsigned)__builtin_ctz(node->axes);
  const GraphTensor *begins = node->n_inputs > 2 ? node->inputs[2] : NULL;
  bool circular = !strcmp(graph_attribute(node, "mode")->text, "circular");
  ProgramValue data = program_operand(at, node, scatter.data);
  ProgramValue place = program_add_index(at, node, point_along(&scatter, axis));
  if (begins) {
    ProgramAccess access = {.tensor = begins, .at = {{point_along(&scatter, 0), PROGRAM_NONE}}};
    place = map(&scatter, ONNX_Sub, NUMBER_S32, NUMBER_S32, place, program_add_read(at, node, access), none);
  }
  if (begins && circular)
    place = map(&scatter, ONNX_Mod, NUMBER_S32, NUMBER_S32, place,
                program_add_index(at, node, scatter.data->shape[axis]), none);
  ProgramValue behind = program_add_index(at, node, scatter.updates->shape[axis]);
  ProgramValue begun = map(&scatter, ONNX_GreaterOrEqual, NUMBER_BOOL, NUMBER_S32, place,
                           program_immediate(0, NUMBER_S32), none);
  ProgramValue before = map(&scatter, ONNX_Less, NUMBER_BOOL, NUMBER_S32, place, behind, none);
  ProgramValue inside = map(&scatter, ONNX_And, NUMBER_BOOL, NUMBER_BOOL, begun, before, none);
  ProgramAccess access = {.tensor = scatter.updates, .outside = OUTSIDE_FILL};
  for (unsigned d = 0; d < scatter.data->rank; d++)
    access.at[d] = (ProgramIndex){point_along(&scatter, d), PROGRAM_NONE};
  access.at[axis] = program_index_of(at, place);
  return choose(&scatter, scatter.data->type, inside, program_add_read(at, node, access), data);
}

/* ---- ReverseSequence ---- */

ProgramValue program_add_reversal(ProgramBuilder *at, const GraphNode *node)
{
  Scatter scatter = {.at = at, .node = node, .data = node->inputs[0]};
  unsigned axis = (unsigned)__builtin_ctz(node->axes);
  ProgramAccess length = {.tensor = node->inputs[1],
                          .at = {{point_along(&scatter, node->order[0]), PROGRAM_NONE}}};
  ProgramValue here = program_add_index(at, node, point_along(&scatter, axis));
  ProgramValue n = program_add_read(at, node, length), one = program_immediate(1, NUMBER_S64);
  ProgramValue last = map(&scatter, ONNX_Sub, NUMBER_S64, NUMBER_S64, n, one, none);
  ProgramValue turned = map(&scatter, ONNX_Sub, NUMBER_S64, NUMBER_S64, last, here, none);
  ProgramValue within = map(&scatter, ONNX_Less, NUMBER_BOOL, NUMBER_S64, here, n, none);
  ProgramAccess access = {.tensor = scatter.data, .outside = OUTSIDE_FILL};
  for (unsigned d = 0; d < scatter.data->rank; d++)
    access.at[d] = (ProgramIndex){point_along(&scatter, d), PROGRAM_NONE};
  access.at[axis] = program_index_of(at, choose(&scatter, NUMBER_S64, within, turned, here));
  return program_add_read(at, node, access);
}
