/* The program of a fused operator: what a kernel computes, before anyone asks how.
 *
 * A program has named iteration axes and a list of nodes, each of which has a value for every point of the
 * axes it varies along. Tensors are read and written at indices that are expressions of the axes; REDUCE and
 * SCAN take axes away or run along one. Which matrix product, row or plain elementwise kernel a program is,
 * its phases, what comes in front of a reduction and what behind, batches and strides: all that is computed
 * from it (family.h), nothing of it is kept here. docs/program.md has examples and the text form.
 *
 * Programs live in an arena and are immutable once built; threads may share them. */
#pragma once
#include "generator/front/graph.h"

#define PROGRAM_MAX_AXES (GRAPH_MAX_RANK + 2) /* a product's: those of its result, rows or columns, and k */
#define PROGRAM_NONE     (-1)                 /* no node */

typedef struct ProgramAxis {
  const char *name;       /* unlike any symbol of the graph */
  const Symbolic *symbol; /* the name as an expression, for indices */
  const Symbolic *extent;
  int length; /* node that loads how many of its indices there are, `extent` being the most; PROGRAM_NONE: all */
} ProgramAxis;

typedef struct ProgramIndex {
  const Symbolic *of_axes; /* over the axes' symbols and the graph's; "/" and "%" are allowed */
  int node; /* whose value is added: a gathered row, a page, the start of a group; PROGRAM_NONE */
} ProgramIndex;

/* What there is where an index lies outside of the tensor. */
typedef enum {
  OUTSIDE_NEVER, /* no index does */
  OUTSIDE_FILL,  /* reads: `fill` */
  OUTSIDE_SKIP,  /* writes: nothing is stored */
} ProgramOutside;

typedef struct ProgramAccess {
  const GraphTensor *tensor;
  ProgramIndex at[GRAPH_MAX_RANK]; /* tensor->rank */
  ProgramOutside outside;
  double fill;
} ProgramAccess;

typedef enum {
  VALUE_ABSENT,    /* an optional operand that was not given */
  VALUE_NODE,      /* result `result` of node `node`, which stands before */
  VALUE_IMMEDIATE, /* `immediate`, already rounded to `type` */
} ProgramValueKind;

typedef struct ProgramValue {
  ProgramValueKind kind;
  unsigned node, result;
  double immediate;
  NumberType type; /* it is held in: of a tensor its own, of what was computed that of the arithmetic */
} ProgramValue;

/* name, operands, results */
#define PROGRAM_REDUCTIONS(ROW)                                                                                                        \
  ROW(SUM, "sum", 1, 1)                                                                                                                \
  ROW(MEAN, "mean", 1, 1)                                                                                                              \
  ROW(MAX, "max", 1, 1) /* NaN if any is */                                                                                            \
  ROW(MIN, "min", 1, 1)                                                                                                                \
  ROW(PROD, "prod", 1, 1)                                                                                                              \
  ROW(DOT, "dot", 2, 1)         /* sum of products of two values */                                                                    \
  ROW(MOMENTS, "moments", 1, 2) /* mean, and mean square of what differs from it */                                                    \
  ROW(MAX_SUM, "max_sum", 1, 2) /* largest, and sum of e^(x - largest) */                                                              \
  ROW(ARG_MAX, "arg_max", 2, 2) /* largest, and the least of the second operand (s32) where it is; NaN is */                           \
  ROW(ARG_MIN, "arg_min", 2, 2) /* the same of the smallest                                               */                           \
  ROW(BEGINS, "begins", 2,                                                                                                             \
      1) /* SCAN over groups, of their ends and an alignment: where each begins, at the next multiple    \
                                   behind the end of the one before it */                             \
  ROW(LENGTHS, "lengths", 2,                                                                                                           \
      1) /* the same: how many indices it has; none where its end lies before its beginning */                                         \
  ROW(FIRST_OF, "first_of", 3,                                                                                                         \
      1) /* least index whose first operand equals the second, a group's number: a multiple of the third */                            \
  ROW(COUNT_OF, "count_of", 3, 1) /* how many there are, which follow one another */                                                   \
  ROW(LARGEST, "largest", 1,                                                                                                           \
      2) /* SCAN: the row from its largest element on, NaN first; where each stood (s32), of equal \
                                   ones the first */                                   \
  ROW(SMALLEST, "smallest", 1,                                                                                                         \
      2)                    /* the same from the smallest on, NaN last                                 */                              \
  ROW(TALLY, "tally", 2, 1) /* how many first operands, keys, equal the second */                                                      \
  ROW(PLACES, "places", 4,                                                                                                             \
      1) /* SCAN over all points, of keys below the second operand: the row of each where those of a key stand behind one     \
            another and begin at multiples of the third; -1: it is no key. The fourth counts keys of parts, or is 0 */        \
  ROW(ENDS_OF, "ends_of", 4, 1) /* the same: where the rows of the key end that is the second operand */                               \
  ROW(TALLY_MAGNITUDES, "tally_magnitudes", 5,                                                                                         \
      1) /* TALLY of keys that are magnitudes' bits from the fourth on, less the third; by the fifth, larger ones count as the last */ \
  ROW(TAKEN, "taken", 5,                                                                                                               \
      1) /* SCAN over all points, whose keys are magnitudes' bits from the third on, less the second: the place of each above 0,  \
            and of the first at 0, so many as the fifth, by tallies of parts, which are the fourth; -1 of others */    \
  ROW(SOURCE_OF, "source_of", 3,                                                                                                       \
      1) /* the point, divided by the third, whose first operand equals the second, -1: none */

typedef enum {
#define ROW(name, ...) REDUCTION_##name,
  PROGRAM_REDUCTIONS(ROW)
#undef ROW
      REDUCTION_COUNT
} ProgramReduction;

typedef enum {
  NODE_READ,   /* a tensor's element */
  NODE_INDEX,  /* an expression of axes and symbols, as s64 */
  NODE_MAP,    /* an elementwise operator of the operands' values */
  NODE_REDUCE, /* a reduction over `axes`, along which its value does not vary any more */
  NODE_SCAN, /* the same of all indices up to each along the one axis in `axes`, or the elements along it in order */
  NODE_WRITE, /* stores its operand; values that meet in one element are combined if `combines` */
} ProgramNodeKind;

typedef struct ProgramNode {
  ProgramNodeKind kind;
  const GraphNode *source; /* what it is part of; NULL in a program that was read from text */
  Mark mark;
  ProgramValue *operands;
  unsigned n_operands;
  NumberType type;                  /* the result's in the graph: what a Cast rounds to */
  NumberType compute;               /* what the arithmetic is done in */
  ProgramAccess access;             /* READ, WRITE */
  const Symbolic *index;            /* INDEX */
  OperatorId op;                    /* MAP */
  const GraphAttribute *attributes; /* MAP: in the order of operator_of(op)->attributes; NULL: takes none */
  ProgramReduction reduction;       /* REDUCE, SCAN; WRITE that combines: SUM, MAX or MIN */
  uint32_t axes;                    /* REDUCE, SCAN: bit per axis */
  bool combines;                    /* WRITE */
  bool exclusive, reverse;          /* SCAN: without the element itself; from the last index to the first */
} ProgramNode;

typedef struct Program {
  Arena *arena;
  const char *name;
  ProgramAxis axes[PROGRAM_MAX_AXES];
  unsigned n_axes;
  ProgramNode *nodes;
  unsigned n_nodes;
  const SymbolicFacts *facts; /* of the graph's symbols; may be NULL */
  uint32_t *varies;           /* by node: axes that its value varies along; program_settle() sets it */
  bool *in_front;             /* by node: a reduction or scan is computed from its value; the same */
} Program;

/* Computes what each value varies along, and what reductions are computed from: after the last node was added. */
void program_settle(Program *program);
/* What arithmetic on a type is done in. */
NumberType program_compute(NumberType type);

const char *program_reduction_name(ProgramReduction reduction);
bool program_reduction_parse(const char *name, ProgramReduction *reduction);
unsigned program_reduction_operands(ProgramReduction reduction);
unsigned program_reduction_results(ProgramReduction reduction);
/* It puts a row's elements in order, as only a scan can. */
bool program_sorts(const ProgramNode *node);
/* Type of one of its results. */
NumberType program_result_type(const ProgramNode *reduction, unsigned result);

/* Where a point lies along some axes taken together. */
const Symbolic *program_place_along(const Program *program, uint32_t axes);
/* Axes that an expression mentions. */
uint32_t program_axes_in(const Program *program, const Symbolic *expression);
/* What an expression grows by from one index of an axis to the next, if that is the same everywhere: for
 * h*4 + 1 along h the constant 4. NULL: it is not (h / 4), or has no form. It is made in the arena: the program's own while the program is
 * made, and the kernel's while kernels are, since an operator's kernels are made side by side. */
const Symbolic *program_step(const Program *program, Arena *arena, const Symbolic *expression, unsigned axis);
/* Elements of the tensor between neighbours along an axis; NULL as above. */
const Symbolic *program_stride(const Program *program, const ProgramAccess *access, unsigned axis);
/* An axis divided by a number. */
bool program_is_quotient(const Symbolic *index);
/* The same of the place along several axes. */
bool program_divides_place(const Program *program, const Symbolic *index, uint32_t axes);
/* An operand of a contraction whose elements are multiplied by the scale of their block: x of 8 bits and an f32 scale,
 * whose index along k is k divided by a number. */
typedef struct ProgramScaled {
  unsigned product, x, scale; /* nodes */
} ProgramScaled;
bool program_scaled_operand(const Program *program, const ProgramNode *dot, unsigned operand,
                            ProgramScaled *scaled);
/* An operand of 8 bits beside one of 16: x, less a zero point, times a scale, of which each may be absent. Its values in the
 * other's type are exact before they are scaled. */
typedef struct ProgramNarrow {
  unsigned x;
  int difference, product, scale; /* nodes; PROGRAM_NONE: there is none */
  ProgramValue zero;              /* of `difference`: a read or a number */
} ProgramNarrow;
bool program_narrow_operand(const Program *program, const ProgramNode *dot, unsigned operand,
                            ProgramNarrow *narrow);
/* Is a node x, the scale or the zero point of it? */
bool program_narrow_reads(const ProgramNarrow *narrow, unsigned node);
/* An operand of a contraction that is read of two tensors: Where(index = place, row, cache), nodes of which the last three are reads. */
typedef struct ProgramJoined {
  unsigned where, equal, index, place, row, cache;
} ProgramJoined;
bool program_joined_operand(const Program *program, const ProgramNode *dot, unsigned operand,
                            ProgramJoined *joined);
/* Does a contraction take the node's value as one of its operands, or as a part of one that is scaled by blocks, narrow or joined? */
bool program_is_contracted(const Program *program, unsigned node);
/* Bit per node that the value of `node` is computed from, itself included: n_nodes bytes, g_free. */
bool *program_ancestors(const Program *program, unsigned node);

/* Checks everything above; *error tells the first fault with its place: of `code`, for a text may be wrong and
 * what was built may not. */
bool program_verify(const Program *program, ErrorCode code, GError **error);
/* Text that program_read() reads back; g_free. */
char *program_print(const Program *program);
/* The program of a text, in `arena` with tensors of its own. It is verified. Symbols
 * other than axes need no declaration. */
Program *program_read(Arena *arena, Source *source, GError **error);
/* "a contraction with a gathered operand": what a program is, for messages; in its arena. *place (may be
 * NULL) gets the node that makes it so. */
const char *program_describe(const Program *program, const ProgramNode **place);
