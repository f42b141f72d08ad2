/* Operations that tie a tile to another one with an element for each so many of its: `reduce ... every n`, `spread`. */
#pragma once
#include "ir/ir.h"

typedef struct {
  const IrType *wide, *narrow;
  unsigned dim, n;
} Every;

/* false: the operation is none of them. */
bool every_of(const IrOp *op, Every *every);
bool every_same_extents(const IrType *a, const IrType *b);
/* The most elements along rows of this shape that become one somewhere; 1: there are none. */
unsigned every_most(const GPtrArray *ops, const IrType *shape);
/* Elements of 16 bytes of the widest type that tiles of this shape are of; 16 at most. */
unsigned every_vector(const GPtrArray *ops, const IrType *shape);
