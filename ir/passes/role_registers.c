#include "ir/passes/role_registers.h"
#include "ir/facts.h"
#include "ir/resources.h"

unsigned role_registers(const IrFunction *kernel, const Gpu *gpu, const IrOp *role)
{
  int64_t blocks = 1;
  const IrExpr *least = ir_launch_get(kernel, ATTR_MIN_BLOCKS);
  if (least) ir_expr_is_int(least, &blocks);
  return granted_registers(gpu, ir_launch_threads(kernel), ir_role_warps(role) * gpu->warp_size,
                           (unsigned)MAX(1, blocks));
}
