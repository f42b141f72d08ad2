/* Elementwise operators as their family sees them; for the family's own files, as gemm.h is. */
#pragma once
#include "generator/program/family.h"

/* A dimension along which an input is read elsewhere than where the point's strides lead: offset and value of `loaded` are
 * added, times the stride. */
typedef struct ElementIndex {
  const Symbolic *of_axes; /* over the program's axes and the graph's symbols */
  FusedOperand loaded;     /* ABSENT: nothing */
  const Symbolic *
      extent; /* an index outside of 0 .. extent - 1 reads `fill` of the place, or stores nothing; NULL: none is outside */
  const Symbolic *stride; /* elements */
} ElementIndex;

/* Besides the strides of an input or output. */
typedef struct ElementPlace {
  ElementIndex *indices;
  unsigned n; /* 0: the strides say all */
  double fill;
} ElementPlace;

/* Elements that a thread loads in steps which are written out: in flight together they hide what one alone would wait for,
 * and windows of 3 x 3 have no loop. Each takes a register or two: more than 80 spilled (4 x 4 of eight). */
#define ELEMENTWISE_UNROLLED 80

/* A reduction that a point's thread walks through. */
typedef struct ElementWalk {
  ProgramReduction reduction;
  uint32_t axes; /* of the program: one loop each */
  unsigned at;   /* its node */
  const GraphNode *node;
  FusedOperand source, place; /* place: of ARG_MAX and ARG_MIN */
  FusedOperand length;        /* how many indices of its one axis the point has; ABSENT: all */
  NumberType compute;
  unsigned first; /* its first result's OPERAND_REDUCED index */
} ElementWalk;

/* Only of operators (and rows) that read at such places, or compute with indices; others have no binding. */
typedef struct Elementwise {
  ElementPlace *places;    /* by input, then by output */
  const Symbolic **values; /* expressions over axes and symbols that are operands */
  unsigned n_values;
  int dims
      [PROGRAM_MAX_AXES]; /* by axis that an index or value mentions: the operator's dim; -1: it has one index */
  bool upright; /* neighbours in memory, and in a warp, are points of the dim before the last; rank >= 2 */
  bool
      runs; /* not upright, and windows of a row lie in one run of memory that accesses of several elements read */
  ElementWalk *walks; /* in the program's order */
  unsigned n_walks;
} Elementwise;

/* What others know of them; nothing if they are NULL. */
void visit_points(const FusedOperator *op, const Elementwise *points, const BindingVisitor *visitor);
void describe_points(const FusedOperator *op, const Elementwise *points, GString *text);

/* The same for all that binds points. */
unsigned types_elementwise(const FusedOperator *op, NumberType *types);
unsigned extents_elementwise(const FusedOperator *op, FamilyExtent *extents);

/* NULL: points are all it knows. */
static inline const Elementwise *elementwise_of(const FusedOperator *op)
{
  return op->binding;
}
/* The node that loads how many indices one of these axes has, or PROGRAM_NONE. */
int elementwise_length(const Program *program, uint32_t axes);
/* NULL: strides tell where the input lies. */
const ElementPlace *elementwise_place(const FusedOperator *op, unsigned input);
/* The same of an output. */
const ElementPlace *elementwise_target(const FusedOperator *op, unsigned output);
bool elementwise_is_upright(const FusedOperator *op);
/* Do its elements that each have a place of their own lie in runs, if the tensor begins at a multiple of 16 bytes? */
bool elementwise_runs(const FusedOperator *op);
/* Has each element of a row (the last dim) its own place, rather than the one behind its neighbour's? */
bool elementwise_scatters(const FusedOperator *op, unsigned input);
/* Has each element of a row its own value of the operand, rather than one with its neighbours? */
bool elementwise_varies(const FusedOperator *op, const FusedOperand *operand);
