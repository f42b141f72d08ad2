#include "ir/passes/role_registers.h"
#include "ir/facts.h"
#include "ir/resources.h"

static unsigned left_by(const IrFunction *kernel, const Gpu *gpu, const IrOp *role, unsigned kept)
{
  int64_t blocks = 1;
  const IrExpr *least = ir_launch_get(kernel, ATTR_MIN_BLOCKS);
  if (least) ir_expr_is_int(least, &blocks);
  return left_registers(gpu, ir_launch_threads(kernel), ir_role_warps(role) * gpu->warp_size,
                        (unsigned)MAX(1, blocks), kept);
}

unsigned role_registers(const IrFunction *kernel, const Gpu *gpu, const IrOp *role)
{
  return left_by(kernel, gpu, role, producer_registers(gpu));
}

unsigned role_registers_most(const IrFunction *kernel, const Gpu *gpu, const IrOp *role)
{
  return left_by(kernel, gpu, role, MIN(handover_least(gpu), producer_registers(gpu)));
}
