#include "ir/passes/ring_barriers.h"

IrExpr *ring_barrier(IrModule *module, const IrOp *ring, const char *which, IrExpr *cursor)
{
  return ir_index(module, ir_field(module, ir_symbol(module, ring->symbol), which), 1, cursor);
}

void ring_await_empty(IrModule *module, IrBuilder *builder, const IrOp *ring, IrExpr *cursor)
{
  IrOp *await = ir_emit(builder, OP_AWAIT, 1, ring_barrier(module, ring, "empty", cursor));
  ir_attribute_set(await, ATTR_PARITY,
                   ir_binary(module, OPERATOR_XOR, ir_field(module, cursor, "phase"), ir_int(module, 1)));
}

void ring_drain(IrModule *module, IrRegion *region, const IrOp *ring, IrExpr *cursor, Mark mark)
{
  IrBuilder builder = ir_builder_at_end(region);
  builder.mark = mark;
  IrOp *loop = ir_emit(&builder, OP_FOR, 3, ir_int(module, 0), ir_attribute_value(ring, ATTR_SLOTS),
                       ir_int(module, 1));
  IrRegion *body = ir_region_add(loop);
  ir_argument_add(body, "slot", ir_scalar(NUMBER_S32));
  IrBuilder inner = ir_builder_at_end(body);
  inner.mark = mark;
  ring_await_empty(module, &inner, ring, cursor);
  ir_emit(&inner, OP_ADVANCE, 1, cursor);
}
