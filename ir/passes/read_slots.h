/* Arithmetic takes tiles of registers: what it reads of a slot is loaded into some, by a `get` at the head of the `take`.
 * Other ops take no tile turned around (`%x^T`): a `convert` in front of them turns it. */
#pragma once
#include "ir/ir.h"

/* ops: IrOp*, all of the kernel in order; what is added is not among them. false and an error where a slot is read that
 * has not been taken, or a part of a tile of registers. */
bool read_slots(IrFunction *kernel, const GPtrArray *ops, GError **error);
