/* How warps split the sum of a product that they multiply. */
#pragma once
#include "ir/ir.h"

/* The tile that an operand takes a part of, or NULL. */
const IrValue *ir_cut_tile(const IrExpr *operand);
/* Columns of the parts that `ops` (IrOp*) read of a product's sum, or of the variable to which each step's is added: all of them where none
 * reads a part, 0 where parts are of unlike widths, or begin within one another. */
unsigned product_part(const GPtrArray *ops, const IrValue *sum);

typedef struct WarpSplit {
  unsigned m, n; /* warps */
  unsigned
      part; /* of so many columns each warp has its share: all of them, or what ops read as parts of the sum */
} WarpSplit;

/* How so many warps split the sum of `mma`: the way that reads the fewest operand bytes from shared memory. `whole_rows`: a warp has all
 * columns, as another product takes them from its registers. false: they cannot. */
bool warp_split(const GPtrArray *ops, const IrOp *mma, bool whole_rows, unsigned warps, WarpSplit *split);
/* Warps of the warp MMAs among `ops`: so many that all sums divide among them, as many as a product asks for (`warps [number]`, which is
 * taken off), else as all outputs together do (product_warps). 0: there are none. */
unsigned product_warps_asked(const GPtrArray *ops, bool whole_rows);
