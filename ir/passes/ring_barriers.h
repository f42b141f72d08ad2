/* The mbarriers of a ring's slots, as derive_waits and derive_barriers write them. Change the module; not thread-safe for one module. */
#pragma once
#include "ir/ir.h"

/* @ring.full[cursor] or .empty */
IrExpr *ring_barrier(IrModule *module, const IrOp *ring, const char *which, IrExpr *cursor);
/* await @ring.empty[cursor], the phase before the cursor's. */
void ring_await_empty(IrModule *module, IrBuilder *builder, const IrOp *ring, IrExpr *cursor);
/* At the end of a region: until everybody has released every slot. */
void ring_drain(IrModule *module, IrRegion *region, const IrOp *ring, IrExpr *cursor, Mark mark);
