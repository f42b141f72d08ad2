/* What follows of a program node by node: extents, steps, what varies along what. */
#include "generator/program/program.h"
#include <string.h>

static const struct {
  const char *name;
  unsigned operands, results;
} reductions[] = {
#define ROW(id, text, operands, results) [REDUCTION_##id] = {text, operands, results},
    PROGRAM_REDUCTIONS(ROW)
#undef ROW
};

const char *program_reduction_name(ProgramReduction reduction)
{
  return reductions[reduction].name;
}

bool program_reduction_parse(const char *name, ProgramReduction *reduction)
{
  for (unsigned i = 0; i < REDUCTION_COUNT; i++)
    if (!strcmp(reductions[i].name, name)) {
      *reduction = (ProgramReduction)i;
      return true;
    }
  return false;
}

unsigned program_reduction_operands(ProgramReduction reduction)
{
  return reductions[reduction].operands;
}

unsigned program_reduction_results(ProgramReduction reduction)
{
  return reductions[reduction].results;
}

bool program_sorts(const ProgramNode *node)
{
  return node->reduction == REDUCTION_LARGEST || node->reduction == REDUCTION_SMALLEST;
}

NumberType program_result_type(const ProgramNode *reduction, unsigned result)
{
  bool place = reduction->reduction == REDUCTION_ARG_MAX || reduction->reduction == REDUCTION_ARG_MIN ||
               program_sorts(reduction);
  return place && result ? NUMBER_S32 : reduction->compute;
}

NumberType program_compute(NumberType type)
{
  switch (number_class(type)) {
  case NUMBER_FLOAT: return type == NUMBER_F64 ? NUMBER_F64 : NUMBER_F32;
  case NUMBER_BOOLEAN: return NUMBER_BOOL;
  case NUMBER_SIGNED:
  case NUMBER_UNSIGNED:
  case NUMBER_BITS: break;
  }
  return number_bits(type) == 64 ? NUMBER_S64 : NUMBER_S32;
}

/* ---- expressions of axes ---- */

const Symbolic *program_place_along(const Program *program, uint32_t axes)
{
  Arena *arena = program->arena;
  const Symbolic *place = symbolic_constant(arena, 0);
  for (unsigned i = 0; i < program->n_axes; i++) {
    const ProgramAxis *axis = &program->axes[i];
    if (axes >> i & 1) place = symbolic_add(arena, symbolic_mul(arena, place, axis->extent), axis->symbol);
  }
  return place;
}

typedef struct {
  const Program *program;
  uint32_t axes;
} Mentions;

static void mark_axis(const Symbolic *leaf, void *data)
{
  Mentions *mentions = data;
  const Program *program = mentions->program;
  for (unsigned i = 0; leaf->kind == SYMBOLIC_SYMBOL && i < program->n_axes; i++)
    if (!strcmp(program->axes[i].name, leaf->name)) mentions->axes |= 1u << i;
}

uint32_t program_axes_in(const Program *program, const Symbolic *expression)
{
  Mentions mentions = {program, 0};
  symbolic_visit(expression, mark_axis, &mentions);
  return mentions.axes;
}

const Symbolic *program_step(const Program *program, Arena *arena, const Symbolic *expression, unsigned axis)
{
  if (!(program_axes_in(program, expression) >> axis & 1)) return symbolic_constant(arena, 0);
  if (expression->kind == SYMBOLIC_SYMBOL) return symbolic_constant(arena, 1);
  const Symbolic *a, *b;
  switch ((unsigned)expression->kind) {
  case SYMBOLIC_ADD:
    a = program_step(program, arena, expression->a, axis);
    b = program_step(program, arena, expression->b, axis);
    return a && b ? symbolic_binary(arena, expression->kind, a, b) : NULL;
  case SYMBOLIC_MUL: {
    bool left = program_axes_in(program, expression->a) >> axis & 1;
    bool right = program_axes_in(program, expression->b) >> axis & 1;
    if (left && right) return NULL;
    a = program_step(program, arena, left ? expression->a : expression->b, axis);
    return a ? symbolic_mul(arena, a, left ? expression->b : expression->a) : NULL;
  }
  default: return NULL;
  }
}

const Symbolic *program_stride(const Program *program, const ProgramAccess *access, unsigned axis)
{
  const Symbolic *sum = symbolic_constant(program->arena, 0);
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    const Symbolic *step = program_step(program, program->arena, access->at[d].of_axes, axis);
    if (!step) return NULL;
    if (symbolic_equals(step, 0)) continue;
    sum = symbolic_add(program->arena, sum, symbolic_mul(program->arena, step, access->tensor->strides[d]));
  }
  return sum;
}

/* ---- values ---- */

static uint32_t varies_by_access(const Program *program, const ProgramAccess *access)
{
  uint32_t axes = 0;
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    axes |= program_axes_in(program, access->at[d].of_axes);
    if (access->at[d].node != PROGRAM_NONE) axes |= program->varies[access->at[d].node];
  }
  return axes;
}

static void mark_in_front(Program *program)
{
  program->in_front = arena_new_array(program->arena, bool, program->n_nodes + 1);
  for (unsigned i = program->n_nodes; i-- > 0;) {
    const ProgramNode *node = &program->nodes[i];
    bool marks = program->in_front[i] || node->kind == NODE_REDUCE || node->kind == NODE_SCAN;
    for (unsigned j = 0; marks && j < node->n_operands; j++)
      if (node->operands[j].kind == VALUE_NODE) program->in_front[node->operands[j].node] = true;
    for (unsigned d = 0; marks && node->kind == NODE_READ && d < node->access.tensor->rank; d++)
      if (node->access.at[d].node != PROGRAM_NONE) program->in_front[node->access.at[d].node] = true;
  }
}

/* How many indices of these axes there are varies too. */
static uint32_t varies_by_lengths(const Program *program, uint32_t along)
{
  uint32_t axes = 0;
  for (unsigned i = 0; i < program->n_axes; i++)
    if (along >> i & 1 && program->axes[i].length != PROGRAM_NONE)
      axes |= program->varies[program->axes[i].length];
  return axes;
}

void program_settle(Program *program)
{
  mark_in_front(program);
  program->varies = arena_new_array(program->arena, uint32_t, program->n_nodes + 1);
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    uint32_t axes = 0;
    for (unsigned j = 0; j < node->n_operands; j++)
      if (node->operands[j].kind == VALUE_NODE) axes |= program->varies[node->operands[j].node];
    switch (node->kind) {
    case NODE_READ:
    case NODE_WRITE: axes |= varies_by_access(program, &node->access); break;
    case NODE_INDEX: axes |= program_axes_in(program, node->index); break;
    case NODE_REDUCE: axes = (axes | varies_by_lengths(program, node->axes)) & ~node->axes; break;
    case NODE_SCAN: /* each place follows from all tallies */
      axes = node->reduction == REDUCTION_PLACES || node->reduction == REDUCTION_TAKEN ? node->axes
                                                                                       : axes | node->axes;
      break;
    case NODE_MAP: break;
    }
    program->varies[i] = axes;
  }
}

bool program_is_quotient(const Symbolic *index)
{
  return index->kind == SYMBOLIC_DIV && index->a->kind == SYMBOLIC_SYMBOL &&
         symbolic_is_constant(index->b, NULL);
}

bool program_divides_place(const Program *program, const Symbolic *index, uint32_t axes)
{
  return index->kind == SYMBOLIC_DIV && symbolic_is_constant(index->b, NULL) &&
         symbolic_same(index->a, program_place_along(program, axes));
}

bool program_scaled_operand(const Program *program, const ProgramNode *dot, unsigned operand,
                            ProgramScaled *scaled)
{
  const ProgramValue *value = &dot->operands[operand];
  const ProgramNode *product = value->kind == VALUE_NODE ? &program->nodes[value->node] : NULL;
  if (!product || product->kind != NODE_MAP || product->op != ONNX_Mul || product->compute != NUMBER_F32)
    return false;
  for (unsigned i = 0; i < 2; i++)
    if (product->operands[i].kind != VALUE_NODE ||
        program->nodes[product->operands[i].node].kind != NODE_READ)
      return false;
  *scaled = (ProgramScaled){value->node, product->operands[0].node, product->operands[1].node};
  const ProgramNode *x = &program->nodes[scaled->x], *scale = &program->nodes[scaled->scale];
  bool along = false;
  for (unsigned d = 0; d < scale->access.tensor->rank; d++) {
    const Symbolic *index = scale->access.at[d].of_axes;
    along |= program_is_quotient(index) && program_axes_in(program, index) == dot->axes;
  }
  return along && number_is_small_float(x->type) && (scale->type == NUMBER_F32 || scale->type == NUMBER_E8M0);
}

/* The operand of an operation that is a node's value, and no constant. */
static const ProgramNode *operand_node(const Program *program, const ProgramValue *value,
                                       ProgramNodeKind kind)
{
  const ProgramNode *node = value->kind == VALUE_NODE ? &program->nodes[value->node] : NULL;
  return node && node->kind == kind ? node : NULL;
}

bool program_narrow_operand(const Program *program, const ProgramNode *dot, unsigned operand,
                            ProgramNarrow *narrow)
{
  const ProgramValue *value = &dot->operands[operand];
  const ProgramNode *wide = operand_node(program, &dot->operands[!operand], NODE_READ);
  const ProgramNode *map = operand_node(program, value, NODE_MAP);
  *narrow = (ProgramNarrow){.difference = PROGRAM_NONE, .product = PROGRAM_NONE, .scale = PROGRAM_NONE};
  if (!wide || (wide->type != NUMBER_BF16 && wide->type != NUMBER_F16)) return false;
  if (map && map->op == ONNX_Mul && map->compute == NUMBER_F32 &&
      operand_node(program, &map->operands[1], NODE_READ)) {
    narrow->product = (int)value->node;
    narrow->scale = (int)map->operands[1].node;
    value = &map->operands[0];
    map = operand_node(program, value, NODE_MAP);
  }
  if (map && map->op == ONNX_Sub && map->compute == NUMBER_S32) {
    narrow->difference = (int)value->node;
    narrow->zero = map->operands[1];
    bool known =
        narrow->zero.kind == VALUE_IMMEDIATE || operand_node(program, &narrow->zero, NODE_READ) != NULL;
    if (!known) return false;
    value = &map->operands[0];
  }
  const ProgramNode *x = operand_node(program, value, NODE_READ);
  if (!x || number_bits(x->type) > 8 || x->type == NUMBER_BOOL) return false;
  narrow->x = value->node;
  return true;
}

bool program_narrow_reads(const ProgramNarrow *narrow, unsigned node)
{
  bool zero =
      narrow->difference != PROGRAM_NONE && narrow->zero.kind == VALUE_NODE && narrow->zero.node == node;
  return narrow->x == node || narrow->scale == (int)node || zero;
}

bool program_joined_operand(const Program *program, const ProgramNode *dot, unsigned operand,
                            ProgramJoined *joined)
{
  const ProgramNode *where = operand_node(program, &dot->operands[operand], NODE_MAP);
  if (!where || where->op != ONNX_Where) return false;
  const ProgramNode *equal = operand_node(program, &where->operands[0], NODE_MAP);
  if (!equal || equal->op != ONNX_Equal) return false;
  bool reads = operand_node(program, &where->operands[1], NODE_READ) &&
               operand_node(program, &where->operands[2], NODE_READ) &&
               operand_node(program, &equal->operands[0], NODE_INDEX) &&
               operand_node(program, &equal->operands[1], NODE_READ);
  if (!reads) return false;
  *joined = (ProgramJoined){.where = dot->operands[operand].node,
                            .equal = where->operands[0].node,
                            .index = equal->operands[0].node,
                            .place = equal->operands[1].node,
                            .row = where->operands[1].node,
                            .cache = where->operands[2].node};
  return true;
}

bool program_is_contracted(const Program *program, unsigned node)
{
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *dot = &program->nodes[i];
    if (dot->kind != NODE_REDUCE || dot->reduction != REDUCTION_DOT) continue;
    for (unsigned j = 0; j < dot->n_operands; j++)
      if (dot->operands[j].kind == VALUE_NODE && dot->operands[j].node == node) return true;
    ProgramScaled scaled;
    for (unsigned j = 0; j < dot->n_operands; j++)
      if (program_scaled_operand(program, dot, j, &scaled) && (scaled.x == node || scaled.scale == node))
        return true;
    ProgramNarrow narrow;
    for (unsigned j = 0; j < dot->n_operands; j++)
      if (program_narrow_operand(program, dot, j, &narrow) && program_narrow_reads(&narrow, node))
        return true;
    ProgramJoined joined;
    for (unsigned j = 0; j < dot->n_operands; j++)
      if (program_joined_operand(program, dot, j, &joined) && (joined.row == node || joined.cache == node))
        return true;
  }
  return false;
}

bool *program_ancestors(const Program *program, unsigned node)
{
  bool *known = g_new0(bool, program->n_nodes + 1);
  known[node] = true;
  for (unsigned i = node + 1; i-- > 0;) {
    const ProgramNode *at = &program->nodes[i];
    if (!known[i]) continue;
    for (unsigned j = 0; j < at->n_operands; j++)
      if (at->operands[j].kind == VALUE_NODE) known[at->operands[j].node] = true;
    bool reads = at->kind == NODE_READ || at->kind == NODE_WRITE;
    for (unsigned d = 0; reads && d < at->access.tensor->rank; d++)
      if (at->access.at[d].node != PROGRAM_NONE) known[at->access.at[d].node] = true;
  }
  return known;
}
