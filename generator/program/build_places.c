/* TallyKeys and PlaceKeys: a counting sort of keys, as programs of their own; the same of floats by their magnitudes.
 *
 *   TallyKeys: %0 = read keys[(p*part + i) / K, (p*part + i) % K] fill -1; write tallies[p, e] = reduce tally {i} %0, e
 *   PlaceKeys: %0 = read keys[t, c]; %1 = scan places {t, c} %0, bins, align; write place[t, c] = %1
 *              write ends[e] = reduce ends_of {t, c} %0, e, align; write source[r] = reduce source_of {t, c} %1, r, K
 *   TallyMagnitudes: as TallyKeys, with tally_magnitudes {i} %0, e, base[0], shift, above
 *   PlaceMagnitudes: %0 = read keys[t, 0]; %1 = scan taken {t, c} %0, base[0], shift, tallies[p, e], room[0]; write place[t, c] = %1
 *              write source[r] = reduce source_of {t, c} %1, r, 1
 */
#include "generator/program/build_private.h"

typedef struct {
  ProgramBuilder *at;
  const GraphNode *node;
  int axes[2]; /* of keys */
} Places;

static const Symbolic *along(const Places *s, int axis)
{
  return s->at->program->axes[axis].symbol;
}

static ProgramValue reduction(const Places *s, ProgramNodeKind kind, ProgramReduction which, uint32_t axes,
                              const ProgramValue *operands)
{
  ProgramNode row = {.kind = kind,
                     .source = s->node,
                     .reduction = which,
                     .axes = axes,
                     .type = NUMBER_S32,
                     .compute = NUMBER_S32};
  return program_add_node(s->at, row, operands, program_reduction_operands(which), NUMBER_S32);
}

/* The only element of a tensor. */
static ProgramValue read_number(const Places *s, const GraphTensor *tensor)
{
  ProgramAccess access = {.tensor = tensor, .outside = OUTSIDE_NEVER};
  access.at[0] = (ProgramIndex){symbolic_constant(s->at->program->arena, 0), PROGRAM_NONE};
  return program_add_read(s->at, s->node, access);
}

static ProgramValue read(const Places *s, const GraphTensor *tensor, const Symbolic *a, const Symbolic *b,
                         ProgramOutside outside)
{
  ProgramAccess access = {.tensor = tensor, .outside = outside, .fill = -1};
  access.at[0] = (ProgramIndex){a, PROGRAM_NONE};
  access.at[1] = (ProgramIndex){b, PROGRAM_NONE};
  return program_add_read(s->at, s->node, access);
}

static void write(const Places *s, unsigned output, const int *axes, ProgramValue value)
{
  const GraphTensor *tensor = output < s->node->n_outputs ? s->node->outputs[output] : NULL;
  if (!tensor) return;
  ProgramNode node = {.kind = NODE_WRITE,
                      .source = s->node,
                      .type = tensor->type,
                      .compute = tensor->type,
                      .access = {.tensor = tensor}};
  for (unsigned d = 0; d < tensor->rank; d++)
    node.access.at[d] = (ProgramIndex){along(s, axes[d]), PROGRAM_NONE};
  program_add_node(s->at, node, &value, 1, tensor->type);
}

static ProgramValue number(int64_t value)
{
  return program_immediate((double)value, NUMBER_S32);
}

static void add_tallies(Places *s)
{
  Arena *arena = s->at->program->arena;
  const GraphTensor *keys = s->node->inputs[0];
  int64_t size = graph_attribute(s->node, "part")->integer;
  int part = program_add_axis(s->at, 'p', -1, s->node->outputs[0]->shape[0]),
      element = program_add_axis(s->at, 'i', -1, symbolic_constant(arena, size)),
      bin = program_add_axis(s->at, 'e', -1, s->node->outputs[0]->shape[1]);
  const Symbolic *place = symbolic_add(
      arena, symbolic_mul(arena, along(s, part), symbolic_constant(arena, size)), along(s, element));
  bool lone = symbolic_equals(keys->shape[1], 0); /* no key, so none is read */
  const Symbolic *each = lone ? symbolic_constant(arena, 1) : keys->shape[1];
  bool magnitudes = s->node->op->id == ONNX_TallyMagnitudes;
  ProgramValue operands[5] = {read(s, keys, symbolic_binary(arena, SYMBOLIC_DIV, place, each),
                                   symbolic_binary(arena, SYMBOLIC_MOD, place, each), OUTSIDE_FILL),
                              program_add_index(s->at, s->node, along(s, bin))};
  if (magnitudes) {
    bool based = s->node->n_inputs > 1 && s->node->inputs[1];
    operands[2] = based ? read_number(s, s->node->inputs[1]) : number(0);
    operands[3] = number(graph_attribute(s->node, "shift")->integer);
    operands[4] = number(graph_attribute(s->node, "above")->integer);
  }
  write(s, 0, (int[]){part, bin},
        reduction(s, NODE_REDUCE, magnitudes ? REDUCTION_TALLY_MAGNITUDES : REDUCTION_TALLY, 1u << element,
                  operands));
}

static void add_rows(Places *s, const GraphTensor *source, ProgramValue place, const Symbolic *each)
{
  int row = program_add_axis(s->at, 'r', -1, source->shape[0]);
  const ProgramValue of_rows[] = {place, program_add_index(s->at, s->node, along(s, row)),
                                  program_add_index(s->at, s->node, each)};
  write(s, s->node->op->id == ONNX_PlaceMagnitudes ? 1 : 2, &row,
        reduction(s, NODE_REDUCE, REDUCTION_SOURCE_OF, 1u << s->axes[0] | 1u << s->axes[1], of_rows));
}

static void add_taken(Places *s)
{
  const GraphNode *node = s->node;
  const GraphTensor *keys = node->inputs[0], *tallies = node->inputs[2];
  for (unsigned d = 0; d < 2; d++)
    s->axes[d] = program_add_axis(s->at, d ? 'c' : 't', -1, keys->shape[d]);
  int part = program_add_axis(s->at, 'p', -1, tallies->shape[0]),
      kind = program_add_axis(s->at, 'e', -1, tallies->shape[1]);
  const ProgramValue operands[] = {
      read(s, keys, along(s, s->axes[0]), along(s, s->axes[1]), OUTSIDE_NEVER),
      read_number(s, node->inputs[1]), number(graph_attribute(node, "shift")->integer),
      read(s, tallies, along(s, part), along(s, kind), OUTSIDE_NEVER), read_number(s, node->inputs[3])};
  ProgramValue place =
      reduction(s, NODE_SCAN, REDUCTION_TAKEN, 1u << s->axes[0] | 1u << s->axes[1], operands);
  write(s, 0, s->axes, place);
  if (node->n_outputs > 1 && node->outputs[1]) add_rows(s, node->outputs[1], place, keys->shape[1]);
}

static void add_places(Places *s)
{
  const GraphNode *node = s->node;
  const GraphTensor *keys = node->inputs[0], *known = node->n_inputs > 1 ? node->inputs[1] : NULL;
  int64_t align = graph_attribute(node, "align")->integer;
  for (unsigned d = 0; d < 2; d++)
    s->axes[d] = program_add_axis(s->at, d ? 'c' : 't', -1, keys->shape[d]);
  uint32_t axes = 1u << s->axes[0] | 1u << s->axes[1];
  int bin = program_add_axis(
      s->at, 'e', -1, symbolic_constant(s->at->program->arena, graph_attribute(node, "experts")->integer));
  ProgramValue key = read(s, keys, along(s, s->axes[0]), along(s, s->axes[1]), OUTSIDE_NEVER),
               tallies = number(0);
  uint32_t whole = axes;
  if (known) {
    int part = program_add_axis(s->at, 'p', -1, known->shape[0]);
    tallies = read(s, known, along(s, part), along(s, bin), OUTSIDE_NEVER);
    whole |= 1u << part;
  }
  const ProgramValue of_places[] = {key, number(graph_attribute(node, "experts")->integer), number(align),
                                    tallies};
  ProgramValue place = reduction(s, NODE_SCAN, REDUCTION_PLACES, axes, of_places);
  write(s, 0, s->axes, place);
  const ProgramValue of_ends[] = {key, program_add_index(s->at, node, along(s, bin)), number(align), tallies};
  write(s, 1, &bin, reduction(s, NODE_REDUCE, REDUCTION_ENDS_OF, whole, of_ends));
  if (node->n_outputs > 2 && node->outputs[2]) add_rows(s, node->outputs[2], place, keys->shape[1]);
}

bool program_is_places(const GraphNode *node)
{
  return node->op->id == ONNX_TallyKeys || node->op->id == ONNX_PlaceKeys ||
         node->op->id == ONNX_TallyMagnitudes || node->op->id == ONNX_PlaceMagnitudes;
}

void program_add_places(ProgramBuilder *at, const GraphNode *node)
{
  Places places = {.at = at, .node = node};
  bool tallies = node->op->id == ONNX_TallyKeys || node->op->id == ONNX_TallyMagnitudes;
  if (tallies)
    add_tallies(&places);
  else
    (node->op->id == ONNX_PlaceKeys ? add_places : add_taken)(&places);
}
