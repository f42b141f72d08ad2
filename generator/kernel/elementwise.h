/* Between elementwise*.c only: the groups of elements that a tile has, and where they lie. */
#pragma once
#include "generator/kernel/kernel.h"
#include "generator/kernel/steps.h"
#include "generator/program/elementwise.h"

typedef struct {
  int64_t groups, vector;
  NumberType index; /* s64, or s32 where indices are known to fit */
  bool ragged;
  IrExpr *linear;          /* s64 tile [groups, 1]: index of the point; NULL: it was not asked for */
  IrExpr *inside;          /* bool tile [groups, 1]: groups that exist */
  IrExpr *whole;           /* of these, if ragged, those with all their elements, */
  IrExpr *elements, *rest; /* [groups, vector]: elements that exist, and of them the others' */
  IrExpr *coordinates[FUSED_MAX_RANK + 1]; /* s64 tiles [groups, 1]; */
  IrExpr *shorts[FUSED_MAX_RANK + 1];      /* the same as s32; NULL: they may be too large */
  NumberType arithmetic; /* s64, or s32 where all that is computed of indices is known to fit */
  IrExpr *more;          /* bool: elements, or groups, that have this step of a loop; NULL: all do */
  IrExpr *steps[PROGRAM_MAX_AXES];  /* s32 scalars: index along an axis that is walked, within its loop; */
  IrExpr *walked[PROGRAM_MAX_AXES]; /* the same as s64 */
} ElementPoint;

/* Strides of the flat tensors, noted when they were added. */
typedef struct {
  IrExpr *strides[FUSED_MAX_RANK + 1];
} FlatStrides;

typedef struct {
  ElementPoint place; /* first: scope->data is both */
  FlatStrides *inputs, *outputs;
} ElementBody;

/* elementwise_point.c: an operation on tiles [groups, 1]; b: NULL of one operand. */
IrExpr *element_tile(StepScope *scope, IrOpcode code, NumberType element, const char *name, IrExpr *a,
                     IrExpr *b);
/* elementwise_index.c: the same, as wide as its operands. */
IrExpr *element_wide(StepScope *scope, IrOpcode code, NumberType element, const char *name, IrExpr *a,
                     IrExpr *b);
/* Offset of the first element of each group, [groups, 1], in the point's arithmetic. `strides`: those that `flat` has as expressions. */
IrExpr *element_offset(StepScope *scope, const FlatStrides *flat, const Symbolic *const *strides);

/* elementwise_index.c: an input that strides alone do not find, and the value of an index: s64 [groups, 1], or a column
 * for each element of a group where it changes along rows. */
IrExpr *element_load_indexed(StepScope *scope, unsigned input);
/* The same of an output, whose elements `value` has; those outside are not stored. */
void element_store_indexed(StepScope *scope, unsigned output, IrExpr *value);
IrExpr *element_index_value(StepScope *scope, unsigned value);
/* elementwise_walk.c: reductions that threads walk through, and all steps. */
bool element_write_walks(StepScope *scope);
