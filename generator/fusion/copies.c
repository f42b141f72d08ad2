/* Rewrite join_copies: a part of a tensor that is copied goes with one that is computed, where the tensor is written in parts: elements of
 * a head behind those that are turned by its position.
 *
 *   A: write y[t, h, c] = %7, c < 32      B: write y#3[t, h, c] = read x#3[t, h, c], c < 64
 *   becomes A with y#3[t, h, c] and y#3[t, h, 32 + c], as views of 32 elements */
#include "generator/fusion/compose.h"

#define MOST_PIECES 4 /* of the copied part, each as long as the computed one */

/* A read that is written as it is. */
static bool copies(const Program *program)
{
  const ProgramNode *nodes = program->nodes;
  bool fits =
      program->n_nodes == 2 && program->n_axes && nodes[0].kind == NODE_READ && nodes[1].kind == NODE_WRITE;
  return fits && !nodes[1].combines && nodes[1].access.tensor->whole &&
         nodes[0].type == nodes[1].access.tensor->type;
}

/* How many times as long as a's last axis is b's, the others being the same; 0: it is not so. */
static int64_t pieces_of(const Program *a, const Program *b)
{
  int64_t one, all;
  unsigned last = b->n_axes - 1;
  if (a->n_axes != b->n_axes) return 0;
  for (unsigned i = 0; i < a->n_axes; i++)
    if (a->axes[i].length != PROGRAM_NONE || b->axes[i].length != PROGRAM_NONE ||
        (i != last && !symbolic_same(a->axes[i].extent, b->axes[i].extent)))
      return 0;
  bool known =
      symbolic_is_constant(a->axes[last].extent, &one) && symbolic_is_constant(b->axes[last].extent, &all);
  return known && one > 0 && all % one == 0 && all / one <= MOST_PIECES ? all / one : 0;
}

static bool add_piece(Composition *c, const Program *copy, int64_t piece)
{
  Arena *arena = c->fuser->arena;
  unsigned last = copy->n_axes - 1;
  int64_t one = 0;
  Part part = composition_part(c, copy);
  const ProgramAxis *axis = &c->whole->axes[last];
  symbolic_is_constant(axis->extent, &one);
  part.first[last] = symbolic_constant(arena, piece * one);
  part.at[last] = symbolic_add(arena, axis->symbol, part.first[last]);
  part.part_of[last] = axis;
  return composition_add(&part, 1);
}

static bool join(Fuser *fuser, Group *group, Group *copy, const Program *moved)
{
  if (group == copy || group->absorbed || !fuser_is_elementwise(group)) return false;
  const Program *program = composed_program(fuser, group);
  int64_t pieces = program ? pieces_of(program, moved) : 0;
  if (!pieces || !fuser_are_apart(fuser, group, copy)) return false;
  Composition c = composition_open(fuser, program, program->n_nodes + 2 * MOST_PIECES);
  Part own = composition_part(&c, program);
  for (unsigned i = 0; i < program->n_nodes; i++)
    if (!composition_add(&own, i)) return false;
  for (int64_t i = 0; i < pieces; i++)
    if (!add_piece(&c, moved, i)) return false;
  if (!composition_exists(&c)) return false;
  fuser_note(fuser, "`%s` is copied where `%s` is computed: both are parts of one tensor",
             group_shape(copy)->name, group_shape(group)->name);
  composition_close(&c, group, copy, "with a part that is copied");
  return true;
}

static void join_copy(Fuser *fuser, Group *copy)
{
  if (copy->absorbed || copy->nodes->len != 1 || !fuser_is_elementwise(copy)) return;
  const GraphTensor *part = ((GraphNode *)copy->nodes->pdata[0])->outputs[0];
  if (!part->whole) return;
  const Program *moved = composed_program(fuser, copy);
  if (!moved || !copies(moved)) return;
  for (unsigned i = 0; i < part->whole->n_parts; i++) {
    const GraphNode *producer = fuser->producers[part->whole->parts[i]->index];
    Group *group = producer ? fuser_group(fuser, producer) : NULL;
    if (group && join(fuser, group, copy, moved)) return;
  }
}

void fusion_join_copies(Fuser *fuser)
{
  for (unsigned i = 0; i < fuser->groups->len; i++)
    join_copy(fuser, fuser->groups->pdata[i]);
}
