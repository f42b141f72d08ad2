/* Products that several blocks take together, and products that arrive at a barrier when they are done (derive_waits). Change the
 * module; not thread-safe for one module. */
#pragma once
#include "ir/ir.h"

/* Of the role at hand; all NULL in front of its first product. */
typedef struct ProductPhases {
  const char *barrier; /* at which its products arrive */
  IrExpr *phase;       /* that it waits for next */
} ProductPhases;

/* In front of products of a region that peers' slots are read by, or that one block issues for all: their blocks tell one another,
 * or that one, that the slots are full. */
void products_meet(IrModule *module, IrRegion *region);
/* Behind products that arrive at a barrier: the group's end, the await, and, where one block issues them for all, the condition
 * that this block is the one. */
void products_wait(IrModule *module, IrRegion *region, ProductPhases *phases);
