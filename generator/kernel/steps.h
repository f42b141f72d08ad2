/* Elementwise steps of a fused operator as TILE operations. */
#pragma once
#include "generator/fusion/steps_operations.h"
#include "ir/ir.h"

typedef struct StepWriter {
  IrBuilder *builder;
  const IrModule
      *library;           /* math_fast.ir: asked whether a fast form of a function exists; NULL unless fast */
  const IrModule *narrow; /* math_narrow.ir: forms for results of 16 bits or fewer */
  const IrModule *wide, *operators; /* math_wide.ir and operators.ir: forms for 64 bits */
  bool fast;                        /* --math fast */
  bool bytes;                       /* 8-bit floats are computed with as f32 */
  bool approximate;                 /* the hardware's approximations will do where brief forms would */
  StepPrecision least;              /* results need not be better than that, whatever their type */
  StepPrecision precision;          /* set by step_write, of the result's type in the graph */
  NumberType compute;               /* set by step_write: what the step is computed in */
  GError **error;
} StepWriter;

/* Value of a step from its operands (tiles of any number type, or constants): one broadcast tile in the
 * step's compute type, rounded to step->type where the graph says so (Cast, narrow integers). NULL and *error
 * for what has no form. */
IrExpr *step_write(StepWriter *writer, const FusedStep *step, IrExpr **operands);
/* The value in another number type; itself if it has it. */
IrExpr *step_convert(StepWriter *writer, IrExpr *value, NumberType type);
/* An 8-bit float as a byte, where they are bytes in memory, in f32; and back: rounded, and saturated if so. */
IrExpr *step_from_byte(StepWriter *writer, IrExpr *value, NumberType type);
IrExpr *step_to_byte(StepWriter *writer, IrExpr *value, NumberType type, bool saturate);
/* A tile type with the extents of the value and another element. */
IrType step_tile_like(IrModule *module, const IrExpr *value, NumberType element);
NumberType step_element(const IrExpr *value, NumberType otherwise); /* of a tile; `otherwise` for constants */
/* The function's form in 64 bits, "exp_f64": made in the writer's module where no library has it. NULL: there is none. */
const char *step_wide_function(const StepWriter *writer, const char *name, const char *suffix);
