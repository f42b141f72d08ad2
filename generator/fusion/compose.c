#include "generator/fusion/compose.h"
#include <string.h>

const Program *composed_program(Fuser *fuser, const Group *group)
{
  const ProgramDivision *division = group->division;
  if (!division) return fuser_group_program(fuser, group, NULL, NULL);
  return division->n_programs == 1 ? division->programs[0] : NULL;
}

Composition composition_open(Fuser *fuser, const Program *axes_of, unsigned room)
{
  Composition c = {
      .fuser = fuser, .whole = arena_memdup(fuser->arena, axes_of, sizeof *axes_of), .room = room};
  c.whole->arena = fuser->arena;
  c.whole->nodes = arena_new_array(fuser->arena, ProgramNode, room + 1);
  c.whole->n_nodes = 0;
  return c;
}

static bool is_taken(const Composition *c, const char *name)
{
  for (unsigned i = 0; i < c->whole->n_axes; i++)
    if (!strcmp(c->whole->axes[i].name, name)) return true;
  for (unsigned i = 0; i < c->fuser->graph->n_dims; i++)
    if (!strcmp(c->fuser->graph->dims[i].name, name)) return true;
  return false;
}

int composition_add_axis(Composition *c, const ProgramAxis *axis)
{
  Arena *arena = c->fuser->arena;
  Program *whole = c->whole;
  const char *name = axis->name;
  if (whole->n_axes >= PROGRAM_MAX_AXES || axis->length != PROGRAM_NONE) return -1;
  for (unsigned i = 0; is_taken(c, name); i++)
    name = arena_printf(arena, "j%u", i);
  whole->axes[whole->n_axes] = (ProgramAxis){name, symbolic_symbol(arena, name), axis->extent, PROGRAM_NONE};
  return (int)whole->n_axes++;
}

Part composition_part(Composition *c, const Program *from)
{
  Part part = {.into = c, .from = from};
  part.values = arena_new_array(c->fuser->arena, ProgramValue, from->n_nodes + 1);
  for (unsigned i = 0; i < PROGRAM_MAX_AXES; i++) {
    part.own[i] = i < MIN(c->whole->n_axes, from->n_axes) ? (int)i : -1;
    if (part.own[i] >= 0) part.at[i] = c->whole->axes[i].symbol;
  }
  return part;
}

static const Symbolic *moved(const Symbolic *leaf, void *data)
{
  const Part *part = data;
  if (leaf->kind != SYMBOLIC_SYMBOL) return NULL;
  for (unsigned i = 0; i < part->from->n_axes; i++)
    if (symbolic_same(leaf, part->from->axes[i].symbol)) return part->at[i];
  return NULL;
}

static const Symbolic *move(const Part *part, const Symbolic *expression)
{
  return symbolic_substitute(part->into->fuser->arena, expression, moved, (void *)part);
}

/* ---- what is there already ---- */

static bool same_value(const ProgramValue *x, const ProgramValue *y)
{
  return x->kind == y->kind && x->type == y->type &&
         (x->kind == VALUE_NODE        ? x->node == y->node && x->result == y->result
          : x->kind == VALUE_IMMEDIATE ? !memcmp(&x->immediate, &y->immediate, sizeof x->immediate)
                                       : true);
}

static bool same_access(const ProgramAccess *x, const ProgramAccess *y)
{
  const GraphTensor *a = x->tensor, *b = y->tensor;
  bool same = a->index == b->index && a->rank == b->rank && a->type == b->type && x->outside == y->outside &&
              !memcmp(&x->fill, &y->fill, sizeof x->fill) && !a->begins == !b->begins &&
              (!a->begins || symbolic_same(a->begins, b->begins));
  for (unsigned d = 0; same && d < a->rank; d++)
    same = symbolic_same(a->strides[d], b->strides[d]) && symbolic_same(a->shape[d], b->shape[d]) &&
           x->at[d].node == y->at[d].node && symbolic_same(x->at[d].of_axes, y->at[d].of_axes);
  return same;
}

static bool same_map(const ProgramNode *x, const ProgramNode *y)
{
  if (x->op != y->op) return false;
  return !x->attributes == !y->attributes &&
         (!x->attributes || x->attributes == y->attributes ||
          (x->source && y->source && x->source->op == y->source->op && x->source->op->id == x->op &&
           fuser_same_attributes(x->source, y->source)));
}

static bool same_node(const ProgramNode *x, const ProgramNode *y)
{
  bool same =
      x->kind == y->kind && x->type == y->type && x->compute == y->compute && x->n_operands == y->n_operands;
  for (unsigned i = 0; same && i < x->n_operands; i++)
    same = same_value(&x->operands[i], &y->operands[i]);
  if (!same) return false;
  switch (x->kind) {
  case NODE_READ: return same_access(&x->access, &y->access);
  case NODE_INDEX: return symbolic_same(x->index, y->index);
  case NODE_MAP: return same_map(x, y);
  case NODE_REDUCE: return x->reduction == y->reduction && x->axes == y->axes;
  case NODE_SCAN:
  case NODE_WRITE: return false;
  }
  return false;
}

/* ---- nodes ---- */

/* Some indices along a dimension are a view of these, in which elements side by side are found by the axis alone. */
static bool show_part(const Part *part, ProgramAccess *access, unsigned d)
{
  Arena *arena = part->into->fuser->arena;
  const GraphTensor *tensor = access->tensor;
  if (access->at[d].node != PROGRAM_NONE) return false;
  for (unsigned i = 0; i < part->from->n_axes; i++) {
    const ProgramAxis *axis = part->part_of[i];
    if (!axis || !symbolic_same(access->at[d].of_axes, part->from->axes[i].symbol)) continue;
    GraphTensor *view = arena_memdup(arena, tensor, sizeof *view);
    const Symbolic *behind = symbolic_mul(arena, part->first[i], tensor->strides[d]);
    view->begins = symbolic_add(arena, tensor->begins ? tensor->begins : symbolic_constant(arena, 0), behind);
    view->shape[d] = axis->extent;
    access->tensor = view;
    access->at[d].of_axes = axis->symbol;
    return true;
  }
  return false;
}

/* Points outside store nothing only where an index of the write is the axis alone, along a dimension that is as long: an index that is
 * loaded, such as the slot of a row, or that goes on from a loaded one is some element's there, too. */
static bool stores_inside(const Part *part, const ProgramNode *node)
{
  uint32_t shown = 0;
  if (node->kind != NODE_WRITE) return true;
  for (unsigned d = 0; d < node->access.tensor->rank; d++)
    for (unsigned i = 0; i < part->from->n_axes && node->access.at[d].node == PROGRAM_NONE; i++)
      if (symbolic_same(node->access.at[d].of_axes, part->from->axes[i].symbol) &&
          symbolic_same(node->access.tensor->shape[d], part->from->axes[i].extent))
        shown |= 1u << i;
  return !(part->leaves & ~shown);
}

static bool move_access(const Part *part, ProgramNode *node)
{
  uint32_t axes = 0;
  if (!stores_inside(part, node)) return false;
  for (unsigned d = 0; d < node->access.tensor->rank; d++) {
    ProgramIndex *at = &node->access.at[d];
    if (show_part(part, &node->access, d)) continue;
    axes |= program_axes_in(part->from, at->of_axes);
    at->of_axes = move(part, at->of_axes);
    if (at->node == PROGRAM_NONE) continue;
    const ProgramValue *value = &part->values[at->node];
    if (value->result) return false;
    at->node = (int)value->node;
    axes |= part->leaves; /* what it is of points outside is not known */
  }
  if (axes & part->leaves && node->access.outside == OUTSIDE_NEVER)
    node->access.outside = node->kind == NODE_READ ? OUTSIDE_FILL : OUTSIDE_SKIP;
  return true;
}

static bool move_operands(const Part *part, ProgramNode *node)
{
  node->operands =
      arena_memdup(part->into->fuser->arena, node->operands, node->n_operands * sizeof *node->operands);
  for (unsigned i = 0; i < node->n_operands; i++) {
    ProgramValue *operand = &node->operands[i];
    if (operand->kind != VALUE_NODE) continue;
    const ProgramValue *value = &part->values[operand->node];
    if (operand->result && value->result) return false;
    operand->result += value->result;
    operand->node = value->node;
    if (value->type != NUMBER_TYPE_COUNT) operand->type = value->type;
  }
  return true;
}

static bool move_axes(const Part *part, ProgramNode *node)
{
  uint32_t axes = 0;
  if (node->kind != NODE_REDUCE && node->kind != NODE_SCAN) return true;
  for (unsigned i = 0; i < part->from->n_axes; i++)
    if (node->axes >> i & 1) {
      if (part->own[i] < 0) return false;
      axes |= 1u << part->own[i];
    }
  node->axes = axes;
  return true;
}

static bool add_one(Part *part, unsigned i)
{
  Composition *c = part->into;
  ProgramNode node = part->from->nodes[i];
  if (part->values[i].kind != VALUE_ABSENT) return true;
  bool accesses = node.kind == NODE_READ || node.kind == NODE_WRITE;
  if (!move_operands(part, &node) || !move_axes(part, &node) || (accesses && !move_access(part, &node)))
    return false;
  if (node.kind == NODE_INDEX) node.index = move(part, node.index);
  unsigned at = 0;
  while (at < c->whole->n_nodes && !same_node(&c->whole->nodes[at], &node))
    at++;
  if (at == c->whole->n_nodes) {
    if (at >= c->room) return false;
    c->whole->nodes[c->whole->n_nodes++] = node;
  }
  part->values[i] = (ProgramValue){VALUE_NODE, at, 0, 0, NUMBER_TYPE_COUNT};
  return true;
}

bool composition_add(Part *part, unsigned node)
{
  g_autofree bool *from = program_ancestors(part->from, node);
  bool fits = true;
  for (unsigned i = 0; i <= node && fits; i++)
    if (from[i]) fits = add_one(part, i);
  return fits;
}

/* ---- the end ---- */

bool composition_exists(const Composition *c)
{
  const Program *const whole = c->whole;
  program_settle(c->whole);
  return fuser_judge_all(c->fuser, &whole, 1, false).taken;
}

bool composition_pays(const Composition *c, const Program *a, const Program *b)
{
  const Program *const apart[] = {a, b}, *const whole = c->whole;
  program_settle(c->whole);
  ProgramVerdict together = fuser_judge_all(c->fuser, &whole, 1, true),
                 two = fuser_judge_all(c->fuser, apart, G_N_ELEMENTS(apart), true);
  return together.taken && (!together.priced || !two.priced || together.clocks <= two.clocks);
}

void composition_close(Composition *c, Group *group, Group *other, const char *how)
{
  Fuser *fuser = c->fuser;
  ProgramDivision division = {.programs = {c->whole}, .suffixes = {""}, .n_programs = 1, .how = how};
  if (other) fuser_absorb(fuser, group, other);
  group->anchor = NULL; /* its program says what it is */
  group->division = arena_memdup(fuser->arena, &division, sizeof division);
}

/* ---- elements of a tensor as two views number them ---- */

/* The dimension whose elements are so far apart, of those that have more than one; -1: none, or several. */
static int dimension_of(const GraphTensor *tensor, const Symbolic *stride)
{
  int found = -1;
  for (unsigned d = 0; d < tensor->rank; d++) {
    if (symbolic_equals(tensor->shape[d], 1) || !symbolic_same(tensor->strides[d], stride)) continue;
    if (found >= 0) return -1;
    found = (int)d;
  }
  return found;
}

/* Known to be no fewer. */
static bool holds(const Symbolic *extent, const Symbolic *part)
{
  int64_t all, some;
  return symbolic_same(extent, part) ||
         (symbolic_is_constant(extent, &all) && symbolic_is_constant(part, &some) && some <= all);
}

bool compose_indices(Arena *arena, const ProgramAccess *x, const GraphTensor *to, const Symbolic **indices)
{
  bool given[GRAPH_MAX_RANK] = {false};
  for (unsigned d = 0; d < to->rank; d++)
    indices[d] = symbolic_constant(arena, 0);
  for (unsigned d = 0; d < x->tensor->rank; d++) {
    if (x->at[d].node != PROGRAM_NONE) return false;
    bool first = symbolic_equals(x->at[d].of_axes, 0) || symbolic_equals(x->tensor->shape[d], 1);
    if (first || symbolic_equals(x->tensor->strides[d], 0)) continue;
    int own = dimension_of(to, x->tensor->strides[d]);
    bool fits = own >= 0 && !given[own] && holds(to->shape[own], x->tensor->shape[d]);
    if (!fits) return false;
    given[own] = true;
    indices[own] = x->at[d].of_axes;
  }
  return true;
}
