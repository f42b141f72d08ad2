/* Whether the target and PTX version that a module names have its instructions. */
#pragma once
#include "simulator/ptx.h"

/* false: *error has every fault found, each at its instruction; target: where the module names it. */
bool requirements_check(const PtxModule *module, const Mark *target, GError **error);
