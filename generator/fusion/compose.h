/* Programs made of others: nodes of one go into another, whose axes its own are expressions of. Between the files of fusion/ only. */
#pragma once
#include "generator/fusion/private.h"

/* A program in the making. */
typedef struct Composition {
  Fuser *fuser;
  Program *whole;
  unsigned room; /* for nodes */
} Composition;

/* Nodes of another program, once: its points are points of the whole one. */
typedef struct Part {
  Composition *into;
  const Program *from;
  const Symbolic *at[PROGRAM_MAX_AXES]; /* by axis: where it is, over the whole's axes */
  int own[PROGRAM_MAX_AXES]; /* by axis: the whole's that it is, of those that are reduced; or -1 */
  uint32_t leaves;           /* axes along which the whole has points that `from` has not */
  /* By axis that is one of the whole's, from an index on: that one, and the index; NULL: it is not so. Along it the whole has fewer. */
  const ProgramAxis *part_of[PROGRAM_MAX_AXES];
  const Symbolic *first[PROGRAM_MAX_AXES];
  ProgramValue *values; /* by node: what it is in the whole; ABSENT: it is not there yet */
} Part;

/* What a group's kernel computes, if it is one; NULL: it is several. */
const Program *composed_program(Fuser *fuser, const Group *group);
/* A program with the axes of another one, and room for so many nodes. */
Composition composition_open(Fuser *fuser, const Program *axes_of, unsigned room);
/* A further axis, as another program's; -1: there are too many. */
int composition_add_axis(Composition *c, const ProgramAxis *axis);
/* An axis of `from` is the whole's that has the same place, where it has as many. */
Part composition_part(Composition *c, const Program *from);
/* The node and what its operands and indices are computed from, each once; what is there already is not added again. */
bool composition_add(Part *part, unsigned node);
/* The composition is the group's kernel, and that of the other group (may be NULL), which becomes one with it. */
void composition_close(Composition *c, Group *group, Group *other, const char *how);
/* The kernel exists. */
bool composition_exists(const Composition *c);
/* The same, and takes no longer than both. */
bool composition_pays(const Composition *c, const Program *a, const Program *b);

/* Indices along the dimensions of a tensor of the element that is accessed in a view of it, both from the same first element on: of
 * each dimension of the view those along one of the tensor's, or none. False: they cannot be told apart. */
bool compose_indices(Arena *arena, const ProgramAccess *x, const GraphTensor *to, const Symbolic **indices);
/* The tensor whose memory it is, by its index. */
static inline unsigned compose_memory(const GraphTensor *tensor)
{
  return tensor->whole ? tensor->whole->index : tensor->index;
}
