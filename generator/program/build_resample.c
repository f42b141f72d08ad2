/* Resample, which Resize is made of: elements at places that lists along some dimensions hold, one each or as many as are
 * weighed; the points then walk along the lists. */
#include "generator/program/build_private.h"

typedef struct {
  ProgramBuilder *at;
  const GraphNode *node;
  uint32_t axes; /* of the lists, which points walk along */
} Resample;

static const Symbolic *point_along(const ProgramBuilder *at, unsigned d, const Symbolic *extent)
{
  bool still = symbolic_equals(extent, 1) || at->point[d] == PROGRAM_NONE;
  return still ? symbolic_constant(at->program->arena, 0) : at->program->axes[at->point[d]].symbol;
}

/* Lists along the i-th axis: an axis of the program for their elements where there are several. */
static ProgramAccess open_list(Resample *resample, unsigned i)
{
  ProgramBuilder *at = resample->at;
  const GraphTensor *places = resample->node->inputs[1 + 2 * i];
  ProgramAccess access = {.tensor = places};
  access.at[0] = (ProgramIndex){symbolic_constant(at->program->arena, 0), PROGRAM_NONE};
  access.at[1] = (ProgramIndex){point_along(at, resample->node->order[i], places->shape[1]), PROGRAM_NONE};
  if (symbolic_equals(places->shape[0], 1)) return access;
  int axis = program_add_axis(at, 'w', (int)i, places->shape[0]);
  resample->axes |= 1u << axis;
  access.at[0] = (ProgramIndex){at->program->axes[axis].symbol, PROGRAM_NONE};
  return access;
}

static ProgramValue weigh(const Resample *resample, ProgramValue value, ProgramValue weight)
{
  return program_add_map(resample->at, resample->node, ONNX_Mul, NUMBER_F32, NUMBER_F32,
                         (ProgramValue[]){value, weight}, 2);
}

ProgramValue program_add_resample(ProgramBuilder *at, const GraphNode *node)
{
  Resample resample = {.at = at, .node = node};
  const GraphTensor *x = node->inputs[0];
  ProgramValue none = {.kind = VALUE_ABSENT}, weights[GRAPH_MAX_RANK];
  ProgramAccess access = {.tensor = x,
                          .outside = graph_attribute(node, "inside")->integer ? OUTSIDE_NEVER : OUTSIDE_FILL,
                          .fill = graph_attribute(node, "fill")->number};
  unsigned n_axes = graph_attribute(node, "axes")->n, n = 0;
  for (unsigned d = 0; d < x->rank; d++)
    access.at[d] = (ProgramIndex){point_along(at, d, node->outputs[0]->shape[d]), PROGRAM_NONE};
  for (unsigned i = 0; i < n_axes; i++) {
    ProgramAccess list = open_list(&resample, i);
    access.at[node->order[i]] = program_index_of(at, program_add_read(at, node, list));
    list.tensor = 2 + 2 * i < node->n_inputs ? node->inputs[2 + 2 * i] : NULL;
    if (list.tensor) weights[n++] = program_add_read(at, node, list);
  }
  ProgramValue value = program_add_read(at, node, access);
  while (n-- > 0)
    value = weigh(&resample, value, weights[n]);
  if (!resample.axes) return value;
  return program_add_reduction(at, node, REDUCTION_SUM, resample.axes, NUMBER_F32,
                               (ProgramValue[]){value, none});
}
