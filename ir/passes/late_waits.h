/* Waits for products of which several are in flight (derive_waits). Changes the module; not thread-safe for one module. */
#pragma once
#include "ir/ir.h"

/* Does a region hold a product that is to be waited for late? */
bool has_late_products(const IrRegion *region);
/* Closes a group behind each run of products of the region and waits for it where something touches its sum or an operand
 * first, with as many groups pending as have been closed behind it; slots are released behind these waits. */
void wait_late(IrModule *module, IrRegion *region);
