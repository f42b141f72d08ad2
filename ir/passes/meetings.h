/* Where one role does everything: barriers of the block between threads that write a slot and those that read it. For split_roles.
 * Not thread-safe for one module. */
#pragma once
#include "ir/ir.h"

/* In a role's body, STAGED but for its barriers: the block meets in front of what reads a slot that others may have
 * written since it last met, and in front of what writes one that others may still read. kernel: with the channels. */
void meetings_derive(const IrFunction *kernel, IrRegion *body);
