/* Rewrite join_facts: small kernels that compute integers from a list that both read become one: of each token its sequence and place, of
 * each sequence its length. Such kernels take no longer than their launch.
 *
 * Each point of the one is a point of both; where one has more, indices of the other lie outside, which reads 0 and stores nothing. */
#include "generator/fusion/compose.h"

#define MOST_POINTS 65536
#define MOST_NODES  64

static bool is_whole(NumberType type)
{
  return number_class(type) == NUMBER_SIGNED || number_class(type) == NUMBER_UNSIGNED || type == NUMBER_BOOL;
}

/* The axis along which points lie, the others having one index or being reduced; -1: there is none such. */
static int axis_of(const Program *program)
{
  uint32_t stored = 0;
  int64_t extent;
  int axis = -1;
  for (unsigned i = 0; i < program->n_nodes; i++)
    if (program->nodes[i].kind == NODE_WRITE) stored |= program->varies[i];
  for (unsigned i = 0; i < program->n_nodes; i++)
    for (unsigned d = 0; program->nodes[i].kind == NODE_WRITE && d < program->nodes[i].access.tensor->rank;
         d++)
      stored |= program_axes_in(program, program->nodes[i].access.at[d].of_axes);
  for (unsigned i = 0; i < program->n_axes; i++) {
    if (program->axes[i].length != PROGRAM_NONE) return -1;
    if (!(stored >> i & 1) || symbolic_equals(program->axes[i].extent, 1)) continue;
    if (axis >= 0 || (symbolic_is_constant(program->axes[i].extent, &extent) && extent > MOST_POINTS))
      return -1;
    axis = (int)i;
  }
  return axis;
}

/* A divisor that is read may be 0 where there is nothing to read. */
static bool divides_by_loaded(const Program *program, const ProgramNode *node)
{
  if (node->kind != NODE_MAP || (node->op != ONNX_Div && node->op != ONNX_Mod)) return false;
  const ProgramValue *by = &node->operands[1];
  return by->kind == VALUE_NODE && program->nodes[by->node].kind != NODE_INDEX;
}

static bool computes_facts(const Program *program)
{
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind == NODE_SCAN || divides_by_loaded(program, node)) return false;
    if (node->kind == NODE_WRITE && (node->combines || !is_whole(node->access.tensor->type))) return false;
  }
  return program->n_nodes <= MOST_NODES;
}

static bool is_candidate(const Group *group)
{
  const GraphNode *last = group->nodes->pdata[group->nodes->len - 1];
  return !group->absorbed && !group->anchor && !group->chained && group->nodes->len <= MOST_NODES &&
         is_whole(last->outputs[0]->type);
}

static bool share_list(const Program *a, const Program *b)
{
  for (unsigned i = 0; i < a->n_nodes; i++)
    for (unsigned k = 0; k < b->n_nodes; k++)
      if (a->nodes[i].kind == NODE_READ && b->nodes[k].kind == NODE_READ &&
          a->nodes[i].access.tensor->index == b->nodes[k].access.tensor->index)
        return true;
  return false;
}

/* As many points as the larger has, or, where that is not known, as both. */
static const Symbolic *extent_of(Arena *arena, const Symbolic *a, const Symbolic *b)
{
  int64_t x, y;
  if (symbolic_same(a, b)) return a;
  if (symbolic_is_constant(a, &x) && symbolic_is_constant(b, &y)) return x > y ? a : b;
  return symbolic_add(arena, a, b);
}

static bool add_program(Composition *c, const Program *program, int axis, int whole)
{
  Part part = composition_part(c, program);
  const Symbolic *zero = symbolic_constant(c->fuser->arena, 0);
  for (int i = 0; i < (int)program->n_axes; i++) {
    bool reduced = !symbolic_equals(program->axes[i].extent, 1) && i != axis;
    part.own[i] = i == axis ? whole : -1;
    if (reduced) part.own[i] = composition_add_axis(c, &program->axes[i]);
    if (reduced && part.own[i] < 0) return false;
    part.at[i] = part.own[i] >= 0 ? c->whole->axes[part.own[i]].symbol : zero;
  }
  if (!symbolic_same(c->whole->axes[whole].extent, program->axes[axis].extent)) part.leaves = 1u << axis;
  for (unsigned i = 0; i < program->n_nodes; i++)
    if (!composition_add(&part, i)) return false;
  return true;
}

static bool join(Fuser *fuser, Group *group, Group *other)
{
  const Program *a = composed_program(fuser, group), *b = composed_program(fuser, other);
  if (!a || !b || !computes_facts(a) || !computes_facts(b) || !share_list(a, b)) return false;
  int first = axis_of(a), second = axis_of(b);
  if (first < 0 || second < 0 || !fuser_are_apart(fuser, group, other)) return false;
  Composition c = composition_open(fuser, a, a->n_nodes + b->n_nodes);
  c.whole->n_axes = 1;
  c.whole->axes[0] = a->axes[first];
  c.whole->axes[0].extent = extent_of(fuser->arena, a->axes[first].extent, b->axes[second].extent);
  if (!add_program(&c, a, first, 0) || !add_program(&c, b, second, 0) || !composition_pays(&c, a, b))
    return false;
  fuser_note(fuser, "`%s` and `%s` are computed together: both kernels are small", group_shape(group)->name,
             group_shape(other)->name);
  composition_close(&c, group, other, "beside another");
  return true;
}

/* Few kernels compute integers alone: each is tried with those behind it. */
void fusion_join_facts(Fuser *fuser)
{
  g_autoptr(GPtrArray) small = g_ptr_array_new();
  for (unsigned i = 0; i < fuser->groups->len; i++) {
    Group *group = fuser->groups->pdata[i];
    const Program *program = is_candidate(group) ? composed_program(fuser, group) : NULL;
    if (program && computes_facts(program)) g_ptr_array_add(small, group);
  }
  for (unsigned i = 0; i < small->len; i++)
    for (unsigned k = i + 1; k < small->len && k < i + MOST_NODES; k++)
      if (is_candidate(small->pdata[i]) && is_candidate(small->pdata[k]))
        join(fuser, small->pdata[i], small->pdata[k]);
}
