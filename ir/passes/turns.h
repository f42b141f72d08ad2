/* Sections that are taken in turn, once it is known which instances a role has. */
#pragma once
#include "ir/pass.h"

/* Turns without barriers: those of roles with instances get some, the others are left out. */
void turns_settle(IrFunction *kernel, const IrPassContext *context);
