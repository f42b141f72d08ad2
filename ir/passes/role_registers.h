/* Registers that passes may count on before budget_registers writes them down. Thread-safe for a module that
 * nobody changes. */
#pragma once
#include "adl/gpu.h"
#include "ir/ir.h"

/* Of a thread of a role whose other threads only start copies, in a block with as many others on its SM as
 * the launch says. */
unsigned role_registers(const IrFunction *kernel, const Gpu *gpu, const IrOp *role);
/* The same where the role asks for more (`registers`), and the others are left the least that a hand-over can. */
unsigned role_registers_most(const IrFunction *kernel, const Gpu *gpu, const IrOp *role);
