#include "generator/program/bind.h"
#include <string.h>

/* ---- which programs ---- */

static const Symbolic *at_origin(const Symbolic *leaf, void *data)
{
  const Program *program = data;
  bool axis = leaf->kind == SYMBOLIC_SYMBOL && program_axes_in(program, leaf);
  return axis ? symbolic_constant(program->arena, 0) : NULL;
}

/* Does the node load where groups of rows begin, or in which block, in a program of a family that has them? */
static bool begins_group(const Binding *binding, int node)
{
  const ProgramNode *quotient = &binding->program->nodes[node];
  if (quotient->kind == NODE_MAP && quotient->op == ONNX_Div && quotient->operands[0].kind == VALUE_NODE)
    node = (int)quotient->operands[0].node;
  ProgramReduction reduction = binding->program->nodes[node].reduction;
  ProgramNodeKind kind = binding->program->nodes[node].kind;
  return binding->groups && ((kind == NODE_SCAN && reduction == REDUCTION_BEGINS) ||
                             (kind == NODE_REDUCE && reduction == REDUCTION_FIRST_OF));
}

static const char *refuse_index(const Binding *binding, const ProgramNode *node, unsigned d, bool blocks)
{
  const Program *program = binding->program;
  const Symbolic *index = node->access.at[d].of_axes;
  if (node->access.at[d].node != PROGRAM_NONE && !begins_group(binding, node->access.at[d].node))
    return "indices are loaded";
  /* parts of what is stored, and blocks of elements that share a scale */
  bool parts = node->combines || (node->kind == NODE_READ && blocks);
  if (parts && program_is_quotient(index)) return NULL;
  if (node->combines && program_divides_place(program, index, program_axes_in(program, index))) return NULL;
  const Symbolic *first = symbolic_substitute(program->arena, index, at_origin, (void *)program);
  if (!symbolic_equals(first, 0)) return "indices begin behind the tensor's first element";
  for (unsigned axis = 0; axis < program->n_axes; axis++)
    if (!program_step(program, program->arena, index, axis)) return "indices are no sums of axes";
  return NULL;
}

/* Known to be inside: 0 of what has an element, or an axis of as many indices. */
static bool is_inside(const Program *program, const ProgramAccess *access, unsigned d)
{
  const Symbolic *index = access->at[d].of_axes;
  for (unsigned axis = 0; axis < program->n_axes; axis++)
    if (symbolic_same(index, program->axes[axis].symbol))
      return symbolic_same(program->axes[axis].extent, access->tensor->shape[d]);
  return symbolic_equals(index, 0) && symbolic_equals(access->tensor->shape[d], 1);
}

bool bind_is_plain(const Binding *binding, const ProgramAccess *access, unsigned d)
{
  const Program *program = binding->program;
  if (binding->walked & program_axes_in(program, access->at[d].of_axes)) return false;
  if (access->outside != OUTSIDE_NEVER && !is_inside(program, access, d)) return false;
  return !refuse_index(binding, &(ProgramNode){.access = *access}, d, false);
}

bool bind_scatters(const Binding *binding, const ProgramNode *node)
{
  return binding->scatters && node->kind == NODE_WRITE && !node->combines;
}

static const char *refuse_node(const Binding *binding, const ProgramNode *node)
{
  const char *why = NULL;
  if (binding->points && (node->kind == NODE_READ || node->kind == NODE_INDEX)) return NULL;
  if (bind_scatters(binding, node)) return NULL;
  switch (node->kind) {
  case NODE_READ:
  case NODE_WRITE:
    if (node->kind == NODE_WRITE && node->combines && !binding->combines)
      return "parts of its values are combined";
    if (node->access.outside != OUTSIDE_NEVER &&
        !(binding->cuts && node->kind == NODE_WRITE && node->access.outside == OUTSIDE_SKIP))
      return "indices leave a tensor";
    for (unsigned d = 0; !why && d < node->access.tensor->rank; d++)
      why = refuse_index(binding, node, d, binding->blocks);
    return why;
  case NODE_INDEX: return binding->groups ? NULL : "a value is an index";
  case NODE_SCAN: {
    bool group = node->reduction == REDUCTION_BEGINS || node->reduction == REDUCTION_LENGTHS;
    return binding->scans || (binding->groups && group) ? NULL : "there is a scan";
  }
  case NODE_MAP:
  case NODE_REDUCE: return NULL;
  }
  return NULL;
}

unsigned bind_count(const Program *program, ProgramNodeKind kind, int *first)
{
  unsigned n = 0;
  *first = PROGRAM_NONE;
  for (unsigned i = 0; i < program->n_nodes; i++)
    if (program->nodes[i].kind == kind && !n++) *first = (int)i;
  return n;
}

bool bind_is_matrix(const Program *program, unsigned read)
{
  const ProgramAccess *access = &program->nodes[read].access;
  uint32_t seen = 0;
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    uint32_t axes = program_axes_in(program, access->at[d].of_axes);
    if (__builtin_popcount(axes) > 1 || (seen & axes)) return false;
    seen |= axes;
  }
  return true;
}

int bind_own_axis(const Program *program, unsigned of, unsigned other, uint32_t contracted)
{
  uint32_t own = program->varies[of] & ~program->varies[other] & ~contracted;
  return own ? 31 - __builtin_clz(own) : PROGRAM_NONE;
}

bool bind_open(Binding *binding, const Program *program, FusedOperator *fused)
{
  *binding = (Binding){.program = program,
                       .fused = fused,
                       .points = binding->points,
                       .lengths = binding->lengths,
                       .groups = binding->groups,
                       .column = binding->column,
                       .scatters = binding->scatters,
                       .scans = binding->scans,
                       .combines = binding->combines,
                       .blocks = binding->blocks,
                       .cuts = binding->cuts};
  for (unsigned i = 0; i < program->n_axes && !binding->why; i++)
    if (program->axes[i].length != PROGRAM_NONE && !binding->groups && !binding->lengths)
      binding->why = "an axis has a length that is loaded";
  for (unsigned i = 0; i < program->n_nodes && !binding->why; i++)
    binding->why = refuse_node(binding, &program->nodes[i]);
  if (binding->why) return false;
  binding->inside = g_new0(bool, program->n_nodes + 1);
  binding->anchors = g_malloc0_n(program->n_nodes + 1, sizeof *binding->anchors);
  binding->anchor_outputs = g_malloc0_n(program->n_nodes + 1, sizeof *binding->anchor_outputs);
  binding->places = g_new0(unsigned, program->n_nodes + 1);
  return true;
}

void bind_close(Binding *binding)
{
  g_free(binding->inside);
  g_free(binding->anchors);
  g_free(binding->anchor_outputs);
  g_free(binding->places);
}

bool bind_same_value(ProgramValue a, ProgramValue b)
{
  if (a.kind != b.kind) return false;
  switch (a.kind) {
  case VALUE_ABSENT: return true;
  case VALUE_NODE: return a.node == b.node && a.result == b.result;
  case VALUE_IMMEDIATE: return a.type == b.type && !memcmp(&a.immediate, &b.immediate, sizeof a.immediate);
  }
  return false;
}

int bind_find_map(const Program *program, OperatorId op, ProgramValue a, ProgramValue b)
{
  unsigned n = b.kind == VALUE_ABSENT ? 1 : 2;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind == NODE_MAP && node->op == op && node->n_operands == n &&
        bind_same_value(node->operands[0], a) && (n == 1 || bind_same_value(node->operands[1], b)))
      return (int)i;
  }
  return PROGRAM_NONE;
}

/* ---- inputs, steps, outputs ---- */

bool bind_refuse(Binding *binding, const char *why)
{
  if (!binding->why) binding->why = why;
  return false;
}

bool bind_is_plain_access(const Binding *binding, const ProgramAccess *access)
{
  for (unsigned d = 0; d < access->tensor->rank; d++)
    if (!bind_is_plain(binding, access, d)) return false;
  return true;
}

int bind_read_of(const Program *program, ProgramValue value)
{
  bool reads = value.kind == VALUE_NODE && program->nodes[value.node].kind == NODE_READ;
  return reads ? (int)value.node : PROGRAM_NONE;
}

bool bind_lies_beside(const Program *program, unsigned read, unsigned axis)
{
  const Symbolic *stride = program_stride(program, &program->nodes[read].access, axis);
  return (stride && symbolic_equals(stride, 1)) || symbolic_equals(program->axes[axis].extent, 1);
}

void bind_anchor(Binding *binding, ProgramValue value, unsigned index, unsigned output, NumberType type)
{
  binding->inside[value.node] = true;
  binding->anchors[value.node][value.result] = (FusedOperand){OPERAND_ANCHOR, index, 0, type};
  binding->anchor_outputs[value.node][value.result] = output;
}

bool bind_operand(Binding *binding, ProgramValue value, bool output, FusedOperand *operand)
{
  const Program *program = binding->program;
  *operand = (FusedOperand){.kind = OPERAND_ABSENT};
  if (value.kind == VALUE_ABSENT) return true;
  if (value.kind == VALUE_IMMEDIATE) {
    *operand = (FusedOperand){OPERAND_IMMEDIATE, 0, value.immediate, value.type};
    return true;
  }
  const FusedOperand *anchor = &binding->anchors[value.node][value.result];
  bool known =
      anchor->kind != OPERAND_ABSENT && (output || !binding->anchor_outputs[value.node][value.result]);
  if (binding->inside[value.node] && !known) {
    binding->why = "a value is wanted that its templates keep to themselves";
    return false;
  }
  ProgramNodeKind kind = program->nodes[value.node].kind;
  FusedOperandKind own = kind == NODE_READ    ? OPERAND_INPUT
                         : kind == NODE_INDEX ? OPERAND_INDEX
                                              : OPERAND_STEP;
  *operand = known ? *anchor : (FusedOperand){own, binding->places[value.node], 0, value.type};
  return true;
}

static bool add_step(Binding *binding, const ProgramNode *node)
{
  FusedOperator *fused = binding->fused;
  FusedStep step = {.op = node->op,
                    .node = node->source,
                    .attributes = node->attributes,
                    .operands = arena_new_array(binding->program->arena, FusedOperand, node->n_operands),
                    .n_operands = node->n_operands,
                    .type = node->type,
                    .compute = node->compute,
                    .at = (unsigned)(node - binding->program->nodes)};
  for (unsigned i = 0; i < node->n_operands; i++)
    if (!bind_operand(binding, node->operands[i], false, &step.operands[i])) return false;
  fused->steps[fused->n_steps++] = step;
  return true;
}

static OperatorId operator_of_parts(ProgramReduction reduction)
{
  return reduction == REDUCTION_MAX   ? ONNX_ReduceMax
         : reduction == REDUCTION_MIN ? ONNX_ReduceMin
                                      : ONNX_ReduceSum;
}

static bool add_output(Binding *binding, const ProgramNode *node)
{
  FusedOperator *fused = binding->fused;
  const ProgramValue *value = &node->operands[0];
  FusedOutput output = {.tensor = node->access.tensor,
                        .reduced = node->combines,
                        .reduction = node->source ? node->source->op->id : ONNX_Identity};
  if (!bind_operand(binding, *value, true, &output.value)) return false;
  if (output.value.kind == OPERAND_ANCHOR)
    output.anchor_output = binding->anchor_outputs[value->node][value->result];
  if (node->combines) {
    output.reduction = operator_of_parts(node->reduction);
    output.by_rows = node->access.at[node->access.tensor->rank - 1].of_axes->kind != SYMBOLIC_DIV;
    for (unsigned d = 0; d < node->access.tensor->rank; d++)
      if (node->access.at[d].of_axes->kind == SYMBOLIC_DIV)
        symbolic_is_constant(node->access.at[d].of_axes->b, &output.width);
  }
  fused->outputs[fused->n_outputs++] = output;
  return true;
}

bool bind_lists(Binding *binding)
{
  const Program *program = binding->program;
  FusedOperator *fused = binding->fused;
  fused->inputs = arena_new_array(program->arena, FusedInput, program->n_nodes);
  fused->steps = arena_new_array(program->arena, FusedStep, program->n_nodes);
  fused->outputs = arena_new_array(program->arena, FusedOutput, program->n_nodes);
  for (unsigned i = 0, n_indices = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind == NODE_INDEX) binding->places[i] = n_indices++;
    if (node->kind == NODE_READ) {
      binding->places[i] = fused->n_inputs;
      fused->inputs[fused->n_inputs++] = (FusedInput){.tensor = node->access.tensor};
    }
    binding->places[i] = node->kind == NODE_MAP ? fused->n_steps : binding->places[i];
    if (node->kind == NODE_MAP && !binding->inside[i] && !add_step(binding, node)) return false;
    if (node->kind == NODE_WRITE && !add_output(binding, node)) return false;
  }
  return true;
}

/* ---- the iteration space ---- */

/* Parts are as far from each other as the elements whose sums they are. */
static const Symbolic *stride_of_parts(const Program *program, const ProgramNode *node, unsigned axis)
{
  for (unsigned d = 0; d < node->access.tensor->rank; d++) {
    const Symbolic *index = node->access.at[d].of_axes;
    if (!(program_axes_in(program, index) >> axis & 1)) continue;
    const Symbolic *step =
        program_step(program, program->arena, index->kind == SYMBOLIC_DIV ? index->a : index, axis);
    return symbolic_mul(program->arena, step, node->access.tensor->strides[d]);
  }
  return symbolic_constant(program->arena, 0);
}

/* Elements from one index of an axis to the next. What has one index is not walked along, but by operands of
 * reductions and by parts of a result, which are laid out by it. */
static const Symbolic *stride_along(const Program *program, const ProgramNode *node, unsigned axis,
                                    bool laid_out)
{
  const Symbolic *zero = symbolic_constant(program->arena, 0);
  if (node->combines) return stride_of_parts(program, node, axis);
  if (!laid_out && symbolic_equals(program->axes[axis].extent, 1)) return zero;
  const Symbolic *stride = program_stride(program, &node->access, axis);
  for (unsigned d = 0; !stride && d < node->access.tensor->rank; d++) /* from block to block */
    if (program_axes_in(program, node->access.at[d].of_axes) == 1u << axis)
      stride = node->access.tensor->strides[d];
  return stride;
}

/* The same of those dimensions whose index strides can tell. */
static const Symbolic *plain_stride(const Binding *binding, const ProgramAccess *access, unsigned axis)
{
  const Program *program = binding->program;
  Arena *arena = program->arena;
  const Symbolic *sum = symbolic_constant(arena, 0);
  if (symbolic_equals(program->axes[axis].extent, 1)) return sum;
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    if (!bind_is_plain(binding, access, d)) continue;
    const Symbolic *step = program_step(program, program->arena, access->at[d].of_axes, axis);
    sum = symbolic_add(arena, sum, symbolic_mul(arena, step, access->tensor->strides[d]));
  }
  return sum;
}

static const Symbolic *stride_of(const Binding *binding, unsigned node, int axis)
{
  const Program *program = binding->program;
  const ProgramNode *row = &program->nodes[node];
  bool reads = row->kind == NODE_READ;
  if (axis == PROGRAM_NONE) return symbolic_constant(program->arena, 0);
  if ((reads && binding->points) || bind_scatters(binding, row))
    return plain_stride(binding, &row->access, (unsigned)axis);
  return stride_along(program, row, (unsigned)axis, reads && program_is_contracted(program, node));
}

/* Operands that keep the marked axes apart from others. */
static void mark_axes(const Binding *binding, Space *space, const int *axes, unsigned place)
{
  for (unsigned axis = 0; axis < binding->program->n_axes; axis++) {
    if (!(binding->marked >> axis & 1)) continue;
    for (unsigned d = 0; d < space->rank; d++)
      space->strides[d][place] = symbolic_constant(binding->program->arena, axes[d] == (int)axis);
    place++;
  }
}

bool bind_space(Binding *binding, Space *space, const int *axes, unsigned n)
{
  const Program *program = binding->program;
  FusedOperator *fused = binding->fused;
  const Symbolic *dims[SPACE_MAX_RANK];
  if (n > SPACE_MAX_RANK) {
    binding->why = "it has too many axes";
    return false;
  }
  for (unsigned d = 0; d < n; d++)
    dims[d] = axes[d] == PROGRAM_NONE ? symbolic_constant(program->arena, 1) : program->axes[axes[d]].extent;
  unsigned operands = fused->n_inputs + fused->n_outputs;
  space_init(program->arena, space, n, dims, operands + (unsigned)__builtin_popcount(binding->marked));
  mark_axes(binding, space, axes, operands);
  unsigned input = 0, output = fused->n_inputs;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind != NODE_READ && node->kind != NODE_WRITE) continue;
    unsigned place = node->kind == NODE_READ ? input++ : output++;
    for (unsigned d = 0; d < n; d++)
      space->strides[d][place] = stride_of(binding, i, axes[d]);
  }
  return true;
}

const Symbolic *bind_stride(const Program *program, unsigned node, unsigned axis)
{
  return stride_along(program, &program->nodes[node], axis, true);
}

/* What is not known is taken to be a number of 32 bits. */
bool bind_fits(Binding *binding, const Symbolic *number)
{
  int64_t known;
  return !symbolic_is_constant(number, &known) || known <= SPACE_COUNTED ||
         bind_refuse(binding, "rows, columns or batches are more than 2147418112");
}

bool bind_take_space(Binding *binding, const Space *space)
{
  for (unsigned d = 0; d < space->rank; d++)
    if (!bind_fits(binding, space->dims[d])) return false;
  for (unsigned axis = 0; axis < binding->program->n_axes; axis++)
    if (!bind_fits(binding, binding->program->axes[axis].extent)) return false;
  bind_take_points(binding, space);
  return true;
}

void bind_take_points(Binding *binding, const Space *space)
{
  FusedOperator *fused = binding->fused;
  fused->rank = space->rank;
  memcpy(fused->dims, space->dims, space->rank * sizeof *space->dims);
  for (unsigned d = 0; d < space->rank; d++) {
    for (unsigned i = 0; i < fused->n_inputs; i++)
      fused->inputs[i].strides[d] = space->strides[d][i];
    for (unsigned i = 0; i < fused->n_outputs; i++)
      fused->outputs[i].strides[d] = space->strides[d][fused->n_inputs + i];
  }
}
