/* Liveness over structured THREAD code, and the registers it asks for.
 *
 * A register unit is 32 bits; 16-bit values take one, 64-bit values two, predicates none. What the assembler
 * really allocates differs: it schedules, rematerialises and needs a few registers of its own. */
#pragma once
#include "ir/ir.h"

/* Registers of one part of a kernel: the whole, or the branch of a role (a region that hands registers over).
 */
typedef struct IrPressure {
  const IrOp *role;    /* the `registers` op of the role; NULL: the kernel outside its roles */
  int64_t granted;     /* what the `registers` op asks for; 0 outside roles */
  unsigned peak;       /* most register units live at one place */
  unsigned predicates; /* most predicates live at one place */
  const IrOp *at;      /* the op at which the peak is reached; NULL for an empty kernel */
} IrPressure;

/* The kernel itself first, then its roles in order; g_free. A kernel without roles gives one entry. */
IrPressure *ir_pressure(const IrFunction *kernel, unsigned *n);
/* Registers the assembler is expected to allocate for a kernel without roles (docs/registers.md). */
unsigned ir_pressure_registers(const IrPressure *kernel);
