/* Products that several blocks of a cluster take together, each with a part of an operand in its shared memory. For
 * choose_mechanisms. Pure functions on the kernel's IR; not thread-safe for one module. */
#pragma once
#include "ir/mechanism.h"
#include "ir/pass.h"

/* Operands in parts: B's columns, of which a block has as many as its place in the cluster says. */
typedef struct OperandParts {
  const IrPassContext *context;
  IrFunction *kernel;
  const IrOp *tiles; /* the loop over tiles, or NULL */
} OperandParts;

/* Parts of B that a product of this mechanism reads, one in each block; 1: each block has all of it. */
unsigned operand_parts(const Mechanism *product);
/* The dimension of its slot along which B is divided. */
unsigned operand_divided_dim(const IrExpr *b);
/* Why the plan gives no cluster whose blocks can take the product together, or B cannot be divided among them; NULL:
 * it gives one, and it can. */
const char *divided_refusal(const OperandParts *parts, const IrOp *mma, const Mechanism *product);
/* Gives each block its part of what the B of products that several take is filled with, and says so (`blocks`). */
void divide_operands(const OperandParts *parts, const GPtrArray *products);
