/* Rewrite stack_programs: two elementwise kernels that compute the same of parts of a tensor which lie behind one another become
 * one along both, which writes each result where its own part is: heads of queries and of keys that are turned by the same angles.
 *
 * The axis along which the parts lie is as long as both. Behind the first part an index lies outside of the first result, in front
 * of the second outside of the other, and stores nothing. */
#include "generator/fusion/private.h"

typedef struct {
  Fuser *fuser;
  const Program *a, *b;
  unsigned axis;  /* along which b goes on where a ends */
  int64_t extent; /* of it in a */
  Program *whole;
} Stacking;

static bool mentions(const Stacking *s, const Program *program, const ProgramIndex *at)
{
  return program_axes_in(program, at->of_axes) >> s->axis & 1;
}

static bool same_value(const ProgramValue *x, const ProgramValue *y)
{
  return x->kind == y->kind && x->type == y->type &&
         (x->kind == VALUE_NODE        ? x->node == y->node && x->result == y->result
          : x->kind == VALUE_IMMEDIATE ? x->immediate == y->immediate
                                       : true);
}

static bool same_operands(const ProgramNode *x, const ProgramNode *y)
{
  bool same = x->n_operands == y->n_operands;
  for (unsigned i = 0; i < x->n_operands && same; i++)
    same = same_value(&x->operands[i], &y->operands[i]);
  return same;
}

/* The dimension that the axis alone leads along, in both; -1: none does; -2: it is in another form, or other indices differ. */
static int place_along(const Stacking *s, const ProgramAccess *x, const ProgramAccess *y)
{
  int along = -1;
  if (x->tensor->rank != y->tensor->rank || x->outside != OUTSIDE_NEVER || y->outside != OUTSIDE_NEVER)
    return -2;
  for (unsigned d = 0; d < x->tensor->rank; d++) {
    const ProgramIndex *p = &x->at[d], *q = &y->at[d];
    if (p->node != q->node || !symbolic_same(p->of_axes, q->of_axes)) return -2;
    if (!mentions(s, s->a, p)) continue;
    if (along >= 0 || p->node != PROGRAM_NONE || !symbolic_same(p->of_axes, s->a->axes[s->axis].symbol))
      return -2;
    along = (int)d;
  }
  return along;
}

static const Symbolic *beginning(const Stacking *s, const GraphTensor *tensor)
{
  return tensor->begins ? tensor->begins : symbolic_constant(s->fuser->arena, 0);
}

/* Elements of one tensor: the same for both where the axis does not lead along, else b's behind a's. */
static bool reads_on(const Stacking *s, const ProgramAccess *x, const ProgramAccess *y)
{
  Arena *arena = s->fuser->arena;
  int along = place_along(s, x, y);
  if (along == -2 || x->tensor->index != y->tensor->index || x->tensor->type != y->tensor->type) return false;
  for (unsigned d = 0; d < x->tensor->rank; d++)
    if (!symbolic_same(x->tensor->strides[d], y->tensor->strides[d]) ||
        ((int)d != along && !symbolic_same(x->tensor->shape[d], y->tensor->shape[d])))
      return false;
  const Symbolic *behind = beginning(s, x->tensor);
  if (along >= 0)
    behind = symbolic_add(
        arena, behind, symbolic_mul(arena, x->tensor->strides[along], symbolic_constant(arena, s->extent)));
  return symbolic_same(behind, beginning(s, y->tensor));
}

/* Each gives a tensor that ends where its part does: indices outside of the part are outside of the tensor. */
static bool writes_parts(const Stacking *s, const ProgramNode *x, const ProgramNode *y)
{
  int along = place_along(s, &x->access, &y->access);
  const GraphTensor *first = x->access.tensor, *second = y->access.tensor;
  return !x->combines && !y->combines && along >= 0 && first->index != second->index &&
         symbolic_same(first->shape[along], s->a->axes[s->axis].extent) &&
         symbolic_same(second->shape[along], s->b->axes[s->axis].extent);
}

static bool same_node(const Stacking *s, const ProgramNode *x, const ProgramNode *y)
{
  if (x->kind != y->kind || x->type != y->type || x->compute != y->compute || !same_operands(x, y))
    return false;
  switch (x->kind) {
  case NODE_READ: return reads_on(s, &x->access, &y->access);
  case NODE_MAP:
    return x->op == y->op && x->source && y->source && x->source->op == y->source->op &&
           fuser_same_attributes(x->source, y->source);
  case NODE_WRITE: return writes_parts(s, x, y);
  case NODE_INDEX:
  case NODE_REDUCE:
  case NODE_SCAN: return false;
  }
  return false;
}

static bool may_stack(Stacking *s)
{
  const Program *a = s->a, *b = s->b;
  int64_t extent;
  if (!symbolic_is_constant(a->axes[s->axis].extent, &s->extent) ||
      !symbolic_is_constant(b->axes[s->axis].extent, &extent))
    return false;
  for (unsigned i = 0; i < a->n_axes; i++)
    if (a->axes[i].length != PROGRAM_NONE || b->axes[i].length != PROGRAM_NONE ||
        !symbolic_same(a->axes[i].symbol, b->axes[i].symbol) ||
        (i != s->axis && !symbolic_same(a->axes[i].extent, b->axes[i].extent)))
      return false;
  for (unsigned i = 0; i < a->n_nodes; i++)
    if (!same_node(s, &a->nodes[i], &b->nodes[i])) return false;
  return true;
}

/* A view of both parts. */
static void widen_read(const Stacking *s, ProgramAccess *access)
{
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    if (!mentions(s, s->a, &access->at[d])) continue;
    GraphTensor *both = arena_memdup(s->fuser->arena, access->tensor, sizeof *both);
    both->shape[d] = s->whole->axes[s->axis].extent;
    access->tensor = both;
  }
}

static void narrow_write(const Stacking *s, ProgramAccess *access, int64_t from)
{
  Arena *arena = s->fuser->arena;
  for (unsigned d = 0; d < access->tensor->rank; d++)
    if (mentions(s, s->a, &access->at[d]))
      access->at[d].of_axes = symbolic_add(arena, access->at[d].of_axes, symbolic_constant(arena, -from));
  access->outside = OUTSIDE_SKIP;
}

static void write_whole(Stacking *s)
{
  Arena *arena = s->fuser->arena;
  Program *whole = arena_memdup(arena, s->a, sizeof *whole);
  s->whole = whole;
  whole->axes[s->axis].extent = symbolic_add(arena, s->a->axes[s->axis].extent, s->b->axes[s->axis].extent);
  whole->nodes = arena_new_array(arena, ProgramNode, 2 * s->a->n_nodes);
  memcpy(whole->nodes, s->a->nodes, s->a->n_nodes * sizeof *whole->nodes);
  for (unsigned i = 0; i < s->a->n_nodes; i++) {
    ProgramNode *node = &whole->nodes[i];
    if (node->kind == NODE_READ) widen_read(s, &node->access);
    if (node->kind != NODE_WRITE) continue;
    narrow_write(s, &node->access, 0);
    ProgramNode *other = &whole->nodes[whole->n_nodes++];
    *other = s->b->nodes[i];
    narrow_write(s, &other->access, s->extent);
  }
  program_settle(whole);
}

/* The program of both, b's part behind a's; NULL: they are none. */
static Program *stacked_program(Fuser *fuser, const Program *a, const Program *b)
{
  Stacking s = {.fuser = fuser, .a = a, .b = b};
  if (a->n_axes != b->n_axes || a->n_nodes != b->n_nodes) return NULL;
  for (s.axis = 0; s.axis < a->n_axes; s.axis++) {
    if (!may_stack(&s)) continue;
    write_whole(&s);
    return s.whole;
  }
  return NULL;
}

static bool is_cheaper(const Fuser *fuser, const Program *whole, const Program *a, const Program *b)
{
  const Program *const apart[] = {a, b};
  ProgramVerdict together = fuser_judge_all(fuser, &whole, 1, true),
                 two = fuser_judge_all(fuser, apart, G_N_ELEMENTS(apart), true);
  return together.taken && (!together.priced || !two.priced || together.clocks <= two.clocks);
}

static bool stack(Fuser *fuser, Group *group, Group *other)
{
  const Program *a = fuser_group_program(fuser, group, NULL, NULL),
                *b = fuser_group_program(fuser, other, NULL, NULL);
  Program *whole = stacked_program(fuser, a, b);
  if (!whole) whole = stacked_program(fuser, b, a);
  if (!whole || !is_cheaper(fuser, whole, a, b)) return false;
  fuser_note(fuser,
             "`%s` and `%s` are computed by one kernel: they are the same of parts that lie side by side",
             group_shape(group)->name, group_shape(other)->name);
  ProgramDivision division = {
      .programs = {whole}, .suffixes = {""}, .n_programs = 1, .how = "beside another"};
  fuser_absorb(fuser, group, other);
  group->division = arena_memdup(fuser->arena, &division, sizeof division);
  return true;
}

/* The first tensor of a kernel that it reads from memory; NULL: it reads none. */
static const GraphTensor *first_read(const Group *group)
{
  const GraphNode *node = group->nodes->len ? group->nodes->pdata[0] : NULL;
  return node && node->n_inputs ? node->inputs[0] : NULL;
}

/* Of the kernels that begin with the same tensor each is tried with the one before, so that many cost no more than few. */
void fusion_stack_programs(Fuser *fuser)
{
  g_autoptr(GHashTable) last = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < fuser->groups->len; i++) {
    Group *group = fuser->groups->pdata[i];
    const GraphTensor *read = fuser_is_elementwise(group) ? first_read(group) : NULL;
    if (!read) continue;
    gpointer key = GUINT_TO_POINTER(read->index + 1);
    Group *before = g_hash_table_lookup(last, key);
    bool alike = before && before->nodes->len == group->nodes->len && fuser_are_apart(fuser, before, group);
    if (!alike || !stack(fuser, before, group))
      g_hash_table_insert(last, key, group);
    else
      g_hash_table_remove(last, key); /* its program is given */
  }
}
