/* How much arithmetic elementwise steps are, before there is a kernel. */
#pragma once
#include "generator/fusion/fusion.h"

/* How good a function's result has to be: as f32, as f16 (NAME_narrow), as bf16 and 8-bit floats
 * (NAME_brief). */
typedef enum { STEP_BRIEF, STEP_NARROW, STEP_FULL } StepPrecision;
#define STEP_PRECISIONS 3

StepPrecision step_precision(NumberType result);

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
