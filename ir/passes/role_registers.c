#include "ir/passes/role_registers.h"
#include "ir/facts.h"
#include "ir/resources.h"

unsigned role_registers(const IrFunction *kernel, const Gpu *gpu, const IrOp *role)
{
  int64_t threads = 128, blocks = 1;
  const IrExpr *launched = ir_launch_get(kernel, ATTR_THREADS),
               *least = ir_launch_get(kernel, ATTR_MIN_BLOCKS);
  if (launched) ir_expr_is_int(launched, &threads);
  if (least) ir_expr_is_int(least, &blocks);
  return granted_registers(gpu, (unsigned)threads, ir_role_warps(role) * 32, (unsigned)MAX(1, blocks));
}
