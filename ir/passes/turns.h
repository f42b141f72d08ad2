/* Sections that are taken in turn, once it is known which instances a role has. */
#pragma once
#include "ir/pass.h"

/* Turns without barriers: those of roles with instances get some, the others are left out. */
void turns_settle(IrFunction *kernel, const IrPassContext *context);

/* Waits and passes around products `in_turn`, where the role has instances, the GPU has barriers enough and no other turn is
 * taken; the products say nothing of it any more. */
void turns_of_products(IrFunction *kernel, const IrPassContext *context);
