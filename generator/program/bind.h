/* What matchers have in common: a program's nodes as inputs, steps and outputs, and its axes as dims. */
#pragma once
#include "generator/program/elementwise.h"
#include "generator/program/space.h"

typedef struct Binding {
  const Program *program;
  FusedOperator *fused;
  /* By node; those that the family's templates compute themselves are `inside`, and their values are not to
   * be had but those of `anchors`. */
  bool *inside;
  FusedOperand (*anchors)[2]; /* by node and result; ABSENT: none */
  unsigned (*anchor_outputs)[2];
  unsigned *places; /* in fused->inputs or ->steps */
  bool points;      /* the family reads at any index, and computes with indices: set before bind_open() */
  bool lengths;     /* axes of which each point has so many indices as are loaded: the same */
  bool groups;      /* rows of groups are counted from where each begins, as many as are loaded: the same */
  bool scatters;    /* it writes at any index, too: the same */
  bool scans;       /* the family scans: set before bind_open() */
  bool combines;    /* values that meet in one element of a result may be combined there: the same */
  bool blocks;      /* it reads scales of blocks, by an axis divided by a number: set before bind_open() */
  uint32_t walked;  /* axes that a point's thread walks along, which are no dims: set behind bind_open() */
  bool cuts;        /* it stores what lies inside of a tensor: the same */
  uint32_t
      marked; /* axes that have a dim of their own: each has an operand behind inputs and outputs in the space,
                       with a stride of 1 along its dim; set before bind_space() */
  const Symbolic
      *column;     /* an index that needs no dim of its own: where an element lies in its row; NULL: none */
  const char *why; /* what does not fit */
  bool near;       /* the program computes what the family does, whether it fits or not */
} Binding;

/* false: an index is not a plain sum of axes (but where `points`), or an axis ends elsewhere than at its extent. The
 * rest of the binding is 0. */
bool bind_open(Binding *binding, const Program *program, FusedOperator *fused);
void bind_close(Binding *binding);
/* false; the first reason is the binding's. */
bool bind_refuse(Binding *binding, const char *why);
/* The value is the family's own: anchor `index`, and for outputs which of its values. The node is inside. */
void bind_anchor(Binding *binding, ProgramValue value, unsigned index, unsigned output, NumberType type);
/* Nodes of a kind; the first of them, or PROGRAM_NONE. */
unsigned bind_count(const Program *program, ProgramNodeKind kind, int *first);
/* The elementwise node of this operator whose operands are these, or PROGRAM_NONE. b may be ABSENT. */
int bind_find_map(const Program *program, OperatorId op, ProgramValue a, ProgramValue b);
bool bind_same_value(ProgramValue a, ProgramValue b);
/* Is the access's index along dimension d a sum of dims inside of the tensor, that begins at 0? */
bool bind_is_plain(const Binding *binding, const ProgramAccess *access, unsigned d);
/* Along all of them. */
bool bind_is_plain_access(const Binding *binding, const ProgramAccess *access);
/* The node that reads the value, or PROGRAM_NONE: it is computed. */
int bind_read_of(const Program *program, ProgramValue value);
/* Does what the node reads lie side by side along the axis? */
bool bind_lies_beside(const Program *program, unsigned read, unsigned axis);
/* A write whose place is one of its own, as those of reads are. */
bool bind_scatters(const Binding *binding, const ProgramNode *node);
/* Does the node read a tensor each of whose dimensions is walked along by one axis, and each axis along one dimension? */
bool bind_is_matrix(const Program *program, unsigned read);
/* The last axis that one value varies along and the other does not, and that is not contracted; or PROGRAM_NONE. */
int bind_own_axis(const Program *program, unsigned of, unsigned other, uint32_t contracted);
/* Inputs, steps and outputs. false: some node's value is not to be had. */
bool bind_lists(Binding *binding);
bool bind_operand(Binding *binding, ProgramValue value, bool output, FusedOperand *operand);
/* The program's dims in this order (PROGRAM_NONE: one of extent 1), with strides of inputs, then outputs. */
bool bind_space(Binding *binding, Space *space, const int *axes, unsigned n);
/* Elements of the node's tensor from one index of an axis to the next, or from block to block of it. */
const Symbolic *bind_stride(const Program *program, unsigned node, unsigned axis);
/* Dims and strides are those of the space from here on, whose points may be more than 32 bits count. */
void bind_take_points(Binding *binding, const Space *space);
/* The same where each dim, each axis and what bind_fits() asks for are counted in 32 bits. false: the reason is the binding's. */
bool bind_take_space(Binding *binding, const Space *space);
/* false, and the reason is the binding's: the number is known, and too large to count by 32 bits. */
bool bind_fits(Binding *binding, const Symbolic *number);

/* Indices that strides do not tell, after bind_lists(); marks the axes that they mention. NULL: there are none. */
bool bind_points(Binding *binding, Elementwise **points);
/* The dim of each marked axis: by the operand that walks along it alone. `points` may be NULL. */
void bind_point_dims(const Binding *binding, const Space *space, Elementwise *points);
