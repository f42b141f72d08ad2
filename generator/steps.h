/* Elementwise steps of a fused operator as TILE operations. */
#pragma once
#include "generator/fusion.h"
#include "ir/ir.h"

/* How good a function's result has to be: as f32, as f16 (NAME_narrow), as bf16 and 8-bit floats
 * (NAME_brief). */
typedef enum { STEP_BRIEF, STEP_NARROW, STEP_FULL } StepPrecision;
#define STEP_PRECISIONS 3

StepPrecision step_precision(NumberType result);

typedef struct StepWriter {
  IrBuilder *builder;
  const IrModule
      *library;           /* math_fast.ir: asked whether a fast form of a function exists; NULL unless fast */
  const IrModule *narrow; /* math_narrow.ir: forms for results of 16 bits or fewer */
  bool fast;              /* --math fast */
  StepPrecision precision; /* set by step_write, of the result's type in the graph */
  GError **error;
} StepWriter;

/* Value of a step from its operands (tiles of any number type, or constants): one broadcast tile in the
 * step's compute type, rounded to step->type where the graph says so (Cast, narrow integers). NULL and *error
 * for what has no form. */
IrExpr *step_write(StepWriter *writer, const FusedStep *step, IrExpr **operands);
/* The value in another number type; itself if it has it. */
IrExpr *step_convert(StepWriter *writer, IrExpr *value, NumberType type);
/* A tile type with the extents of the value and another element. */
IrType step_tile_like(IrModule *module, const IrExpr *value, NumberType element);
NumberType step_element(const IrExpr *value, NumberType otherwise); /* of a tile; `otherwise` for constants */

/* Operations of a function of templates/math.ir and operators.ir, those of what it calls included; bit casts,
 * negations and magnitudes, which are part of other instructions, count nothing. */
typedef struct StepOperations {
  OperatorId id;
  const char *name; /* of the function */
  unsigned n[STEP_PRECISIONS];
} StepOperations;

const StepOperations *steps_operations_table(unsigned *n);
/* Of an elementwise node, whatever its operands are; 0 for others. */
unsigned step_operations_of(const GraphNode *node);
/* Operations of all steps, for each element: an estimate, without loads, stores, conversions and what is
 * computed of single numbers, which a thread does once. */
double steps_operations(const FusedOperator *op);
