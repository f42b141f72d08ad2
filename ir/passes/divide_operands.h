/* Products that several blocks of a cluster take together, each with a part of an operand in its shared memory. For
 * choose_mechanisms. Pure functions on the kernel's IR; not thread-safe for one module. */
#pragma once
#include "ir/mechanism.h"
#include "ir/pass.h"

/* Operands in parts: columns of B where the blocks lie below one another, rows of A where they lie beside one another, of
 * which a block has those of its place in the cluster. */
typedef struct OperandParts {
  const IrPassContext *context;
  IrFunction *kernel;
  const IrOp *tiles; /* the loop over tiles, or NULL */
} OperandParts;

/* The operand, 1 or 2, of which blocks have parts in the plan's clusters, where this mechanism takes a product; 0: each block
 * has all of both. */
unsigned operand_divided(const OperandParts *parts, const Mechanism *product);
/* The dimension of its slot along which the operand is divided: the other one lies along k. */
unsigned operand_divided_dim(const IrOp *mma, unsigned operand);
/* Why the plan gives no cluster whose blocks can take the product together, or the operand cannot be divided among them;
 * NULL: it gives one, and it can. */
const char *divided_refusal(const OperandParts *parts, const IrOp *mma, const Mechanism *product);
/* Gives each block its part of what the operand of products that several take is filled with, and says so (`blocks`). */
void divide_operands(const OperandParts *parts, const GPtrArray *products);
