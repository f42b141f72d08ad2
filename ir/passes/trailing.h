/* Cursors that follow a reader's one step behind: what is still in flight of a slot is released by them.
 * Changes the module; not thread-safe for one module. */
#pragma once
#include "ir/ir.h"

/* A cursor that trails `reader` (a use of a cursor) by one step, declared behind it; whatever skips over the
 * reader's slots skips over this one's too. Whoever releases slots advances it. */
IrExpr *trailing_cursor(IrModule *module, const IrExpr *reader);
/* Behind a loop and the turn that it passes: what is in flight need not be over for that. */
IrBuilder trailing_place(IrOp *loop);
