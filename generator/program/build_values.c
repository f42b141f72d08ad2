/* What is read and written at which indices, and values on their way into a program. */
#include "generator/program/build_private.h"
#include <string.h>

static void set_point(ProgramBuilder *at, unsigned rank, const int *axes)
{
  at->point_rank = rank;
  memcpy(at->point, axes, rank * sizeof *axes);
}

void program_stand_at(ProgramBuilder *at, const GraphTensor *tensor)
{
  if (!at->reduced) return;
  if (at->row_sums == tensor) {
    set_point(at, at->left_rank - 1, at->left);
    return;
  }
  bool whole = at->second ? !g_hash_table_contains(at->behind, tensor) : tensor->rank == at->whole_rank;
  if (at->second) {
    at->n = whole ? at->keys : at->width;
    at->k = whole ? at->depth : at->keys;
  }
  set_point(at, whole ? at->whole_rank : at->left_rank, whole ? at->whole : at->left);
}

/* ---- accesses ---- */

static const Symbolic *index_along(const ProgramBuilder *at, int axis)
{
  return axis == PROGRAM_NONE ? symbolic_constant(at->program->arena, 0) : at->program->axes[axis].symbol;
}

/* What a group has is counted from where it begins. */
static ProgramIndex place_along(const ProgramBuilder *at, int axis)
{
  bool begins = axis != PROGRAM_NONE && axis == at->counted;
  return (ProgramIndex){index_along(at, axis), begins ? at->begin : PROGRAM_NONE};
}

/* Of extent 1 there is one place, but for the one row that groups share: whose it is, only its index says. */
static bool is_still(const ProgramBuilder *at, const Symbolic *extent, int axis)
{
  bool shared = axis != PROGRAM_NONE && axis == at->counted && at->begin != PROGRAM_NONE &&
                symbolic_equals(at->program->axes[axis].extent, 1);
  return symbolic_equals(extent, 1) && !shared;
}

ProgramAccess program_point_access(const ProgramBuilder *at, const GraphTensor *tensor)
{
  ProgramAccess access = {.tensor = tensor};
  for (unsigned d = 0; d < tensor->rank; d++) {
    unsigned from_last = tensor->rank - d;
    int axis = from_last > at->point_rank ? PROGRAM_NONE : at->point[at->point_rank - from_last];
    access.at[d] =
        place_along(at, axis == PROGRAM_NONE || is_still(at, tensor->shape[d], axis) ? PROGRAM_NONE : axis);
  }
  return access;
}

ProgramAccess program_first_access(const ProgramBuilder *at, const GraphNode *node, const GraphTensor *tensor)
{
  ProgramAccess access = program_point_access(at, tensor);
  unsigned along = tensor->rank - 1;
  access.at[along].of_axes = index_along(at, at->point[along]);
  if (!symbolic_same(tensor->shape[along], node->inputs[0]->shape[along])) access.outside = OUTSIDE_SKIP;
  return access;
}

/* An operand of a product: rows (A) or columns (B) and k are indices whatever their extents. */
ProgramAccess program_matrix_access(const ProgramBuilder *at, const GraphNode *node,
                                    const GraphTensor *tensor, bool is_b)
{
  ProgramAccess access = {.tensor = tensor};
  unsigned outer = tensor->rank > 1 ? tensor->rank - 2 : 0, inner = tensor->rank - 1;
  unsigned batches = at->point_rank - (at->m != PROGRAM_NONE) - (at->n != PROGRAM_NONE);
  for (unsigned d = 0; d < outer; d++) {
    bool still = symbolic_equals(tensor->shape[d], 1);
    int batch = at->groups != PROGRAM_NONE  ? at->groups
                : at->batch != PROGRAM_NONE ? at->batch
                                            : at->point[batches - outer + d];
    access.at[d] = place_along(at, still ? PROGRAM_NONE : batch);
  }
  int first = is_b ? at->k : at->m, second = is_b ? at->n : at->k;
  bool exchanged = graph_is_transposed(node, is_b);
  if (tensor->rank > 1) access.at[outer] = place_along(at, exchanged ? second : first);
  access.at[inner] = place_along(at, tensor->rank == 1 ? at->k : exchanged ? first : second);
  return access;
}

/* Of all rows, in all dimensions. */
static const Symbolic *place_of_row(const ProgramBuilder *at)
{
  uint32_t axes = 0;
  for (unsigned d = 0; d + 1 < at->whole_rank; d++)
    axes |= 1u << at->whole[d];
  return program_place_along(at->program, axes);
}

int64_t program_summed_rows(const GraphNode *node)
{
  const GraphTensor *source = node->inputs[0];
  int64_t parts, rows = 1, extent;
  for (unsigned d = 0; d + 1 < source->rank; d++) {
    if (!symbolic_is_constant(source->shape[d], &extent)) return SUMMED_ROWS;
    rows *= extent;
  }
  if (!symbolic_is_constant(node->outputs[0]->shape[0], &parts) || parts < 1) return SUMMED_ROWS;
  return MAX(1, (rows + parts - 1) / parts);
}

ProgramAccess program_parts_access(const ProgramBuilder *at, const GraphNode *node, const GraphTensor *tensor)
{
  ProgramAccess access = program_point_access(at, tensor);
  unsigned row = tensor->rank - 2, column = tensor->rank - 1;
  bool by_rows = !at->product || !(node->axes >> column & 1);
  int64_t many = !at->product ? program_summed_rows(node) : by_rows ? REDUCED_ROWS : REDUCED_COLUMNS;
  const Symbolic *width = symbolic_constant(at->program->arena, many);
  access.at[row].of_axes = at->product ? index_along(at, at->m) : place_of_row(at);
  access.at[column].of_axes = index_along(at, at->product ? at->n : at->whole[at->whole_rank - 1]);
  const Symbolic **parts = &access.at[by_rows ? row : column].of_axes;
  *parts = symbolic_binary(at->program->arena, SYMBOLIC_DIV, *parts, width);
  return access;
}

/* ---- values ---- */

ProgramValue program_add_node(ProgramBuilder *at, ProgramNode node, const ProgramValue *operands, unsigned n,
                              NumberType held)
{
  node.operands = arena_memdup(at->program->arena, operands, n * sizeof *operands);
  node.n_operands = n;
  if (node.source) node.mark = node.source->mark;
  g_array_append_val(at->nodes, node);
  return (ProgramValue){VALUE_NODE, at->nodes->len - 1, 0, 0, held};
}

ProgramValue program_immediate(double value, NumberType type)
{
  return (ProgramValue){VALUE_IMMEDIATE, 0, 0, value, type};
}

static bool same_access(const ProgramAccess *a, const ProgramAccess *b)
{
  if (a->tensor != b->tensor || a->outside != b->outside) return false;
  for (unsigned d = 0; d < a->tensor->rank; d++)
    if (a->at[d].node != b->at[d].node || !symbolic_same(a->at[d].of_axes, b->at[d].of_axes)) return false;
  return true;
}

ProgramValue program_add_map(ProgramBuilder *at, const GraphNode *source, OperatorId op, NumberType type,
                             NumberType compute, const ProgramValue *operands, unsigned n)
{
  ProgramNode node = {.kind = NODE_MAP, .source = source, .op = op, .type = type, .compute = compute};
  return program_add_node(at, node, operands, n, program_compute(type));
}

ProgramValue program_add_read(ProgramBuilder *at, const GraphNode *reader, ProgramAccess access)
{
  NumberType type = access.tensor->type;
  ProgramNode node = {.kind = NODE_READ, .source = reader, .type = type, .compute = type, .access = access};
  return program_add_node(at, node, NULL, 0, type);
}

ProgramValue program_read_once(ProgramBuilder *at, const GraphNode *reader, ProgramAccess access)
{
  for (unsigned i = 0; i < at->nodes->len; i++) {
    const ProgramNode *node = &g_array_index(at->nodes, ProgramNode, i);
    if (node->kind == NODE_READ && same_access(&node->access, &access))
      return (ProgramValue){VALUE_NODE, i, 0, 0, access.tensor->type};
  }
  return program_add_read(at, reader, access);
}

/* What an immediate can be, which is a double. */
static bool is_exact(const Symbolic *number)
{
  const int64_t most = 1ll << 53;
  int64_t value;
  return !symbolic_is_constant(number, &value) || (value >= -most && value <= most);
}

ProgramValue program_operand(ProgramBuilder *at, const GraphNode *reader, const GraphTensor *tensor)
{
  double value;
  if (!tensor) return (ProgramValue){.kind = VALUE_ABSENT};
  ProgramValue *known = g_hash_table_lookup(at->values, tensor);
  if (known) return *known;
  if (graph_scalar(tensor, &value)) return program_immediate(value, tensor->type);
  bool loaded = tensor->kind == TENSOR_CONSTANT && tensor->data;
  if (tensor->values && tensor->n_elements == 1 && (!loaded || is_exact(tensor->values[0])))
    return program_add_index(at, reader, tensor->values[0]);
  return program_read_once(at, reader, program_point_access(at, tensor));
}

/* The block in which a group begins, where all begin with one. */
static int first_block(ProgramBuilder *at, const GraphNode *node, int begin, int64_t size)
{
  const ProgramValue operands[] = {{VALUE_NODE, (unsigned)begin, 0, 0, NUMBER_S32},
                                   program_immediate((double)size, NUMBER_S32)};
  ProgramNode quotient = {
      .kind = NODE_MAP, .source = node, .op = ONNX_Div, .type = NUMBER_S32, .compute = NUMBER_S32};
  return (int)program_add_node(at, quotient, operands, G_N_ELEMENTS(operands), NUMBER_S32).node;
}

ProgramValue program_block_value(ProgramBuilder *at, const GraphNode *node, unsigned operand,
                                 const GraphTensor *of_blocks)
{
  const GraphBlocks *blocks = node->blocks[operand];
  ProgramAccess access = program_matrix_access(at, node, of_blocks, operand == 1);
  for (unsigned d = 0; d < of_blocks->rank; d++) {
    if (blocks->sizes[d] <= 1) continue;
    access.at[d].of_axes = symbolic_binary(at->program->arena, SYMBOLIC_DIV, access.at[d].of_axes,
                                           symbolic_constant(at->program->arena, blocks->sizes[d]));
    if (access.at[d].node != PROGRAM_NONE)
      access.at[d].node = first_block(at, node, access.at[d].node, blocks->sizes[d]);
  }
  return program_add_read(at, node, access);
}

void program_set_value(ProgramBuilder *at, const GraphTensor *tensor, ProgramValue value)
{
  if (!tensor) return;
  g_hash_table_insert(at->values, (void *)tensor, arena_memdup(at->program->arena, &value, sizeof value));
}

/* ---- indices as values ---- */

ProgramValue program_add_index(ProgramBuilder *at, const GraphNode *node, const Symbolic *index)
{
  int64_t value;
  if (symbolic_is_constant(index, &value)) return program_immediate((double)value, NUMBER_S64);
  ProgramNode row = {
      .kind = NODE_INDEX, .source = node, .type = NUMBER_S64, .compute = NUMBER_S64, .index = index};
  return program_add_node(at, row, NULL, 0, NUMBER_S64);
}

ProgramValue program_from_end(ProgramBuilder *at, const GraphNode *node, ProgramValue index,
                              const Symbolic *extent)
{
  ProgramValue none = program_immediate(0, NUMBER_S64), length = program_add_index(at, node, extent);
  ProgramValue behind =
      program_add_map(at, node, ONNX_Add, NUMBER_S64, NUMBER_S64, (ProgramValue[]){index, length}, 2);
  ProgramValue below =
      program_add_map(at, node, ONNX_Less, NUMBER_BOOL, NUMBER_S64, (ProgramValue[]){index, none}, 2);
  return program_add_map(at, node, ONNX_Where, NUMBER_S64, NUMBER_S64, (ProgramValue[]){below, behind, index},
                         3);
}

ProgramIndex program_index_of(ProgramBuilder *at, ProgramValue value)
{
  if (value.kind == VALUE_IMMEDIATE)
    return (ProgramIndex){symbolic_constant(at->program->arena, (int64_t)value.immediate), PROGRAM_NONE};
  return (ProgramIndex){symbolic_constant(at->program->arena, 0), (int)value.node};
}

/* ---- axes, and reductions along them ---- */

static bool is_symbol(const Graph *graph, const char *name)
{
  for (unsigned i = 0; i < graph->n_dims; i++)
    if (!strcmp(graph->dims[i].name, name)) return true;
  return false;
}

static bool is_axis(const Program *program, const char *name)
{
  for (unsigned i = 0; i < program->n_axes; i++)
    if (!strcmp(program->axes[i].name, name)) return true;
  return false;
}

/* An axis is named by a letter, numbered where there are several, and told apart from the graph's symbols. */
int program_add_axis(ProgramBuilder *at, char letter, int number, const Symbolic *extent)
{
  Program *program = at->program;
  const char *name = number < 0 ? arena_printf(program->arena, "%c", letter)
                                : arena_printf(program->arena, "%c%d", letter, number);
  while (is_symbol(at->group->graph, name) || is_axis(program, name))
    name = arena_printf(program->arena, "%s_", name);
  program->axes[program->n_axes] = (ProgramAxis){.name = name,
                                                 .symbol = symbolic_symbol(program->arena, name),
                                                 .extent = extent,
                                                 .length = PROGRAM_NONE};
  return (int)program->n_axes++;
}

ProgramValue program_add_reduction(ProgramBuilder *at, const GraphNode *node, ProgramReduction reduction,
                                   uint32_t axes, NumberType compute, const ProgramValue *operands)
{
  ProgramNode reduce = {.kind = NODE_REDUCE,
                        .source = node,
                        .reduction = reduction,
                        .axes = axes,
                        .type = compute,
                        .compute = compute};
  return program_add_node(at, reduce, operands, program_reduction_operands(reduction), compute);
}
