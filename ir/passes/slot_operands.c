#include "ir/passes/slot_operands.h"

static const IrExpr *untransposed(const IrExpr *operand)
{
  return operand->kind == EXPR_TRANSPOSED ? operand->items[0] : operand;
}

bool operand_needs_slot(const IrOp *mma, unsigned operand)
{
  const IrExpr *whole = mma->operands[operand], *tile = untransposed(whole);
  bool registers = tile->kind == EXPR_VALUE && tile->value->type.kind == TYPE_TILE;
  return registers && (operand == 2 || tile != whole);
}

/* In front of all that the kernel does. */
static IrOp *declare_channel(IrFunction *kernel, const IrType *type, const Mark *mark, unsigned slots,
                             int64_t threads)
{
  IrModule *module = kernel->module;
  IrBuilder builder = ir_builder_before(kernel->body->first);
  builder.mark = *mark;
  IrOp *channel = ir_emit(&builder, OP_CHANNEL, 0);
  channel->symbol = ir_symbol_unique(kernel, "operand");
  ir_attribute_set(channel, ATTR_SLOTS, ir_int(module, slots));
  if (threads) ir_attribute_set(channel, ATTR_THREADS, ir_int(module, threads));
  IrBuilder inner = ir_builder_at_end(ir_region_add(channel));
  inner.mark = *mark;
  IrOp *slot = ir_emit(&inner, OP_SLOT, 0);
  slot->symbol = "tile";
  IrType *declared = arena_memdup(module->arena, type, sizeof *type);
  declared->layout = NULL;
  slot->declared = declared;
  return channel;
}

IrOp *operand_to_slot(IrOp *mma, unsigned operand, unsigned slots)
{
  IrFunction *kernel = mma->parent->function;
  IrModule *module = kernel->module;
  const IrExpr *whole = mma->operands[operand], *tile = untransposed(whole);
  const IrOp *channel = declare_channel(kernel, &tile->value->type, &mma->mark, slots,
                                        operand == 2 ? ir_attribute_int(mma, ATTR_THREADS, 0) : 0);
  IrExpr *slot = ir_field(module, ir_symbol(module, channel->symbol), "tile");
  IrBuilder builder = ir_builder_before(mma);
  builder.mark = mma->mark;
  IrOp *fill = ir_emit(&builder, OP_FILL, 2, slot, ir_value(module, tile->value));
  IrOp *take = ir_emit(&builder, OP_TAKE, 1, ir_symbol(module, channel->symbol));
  mma->operands[operand] = tile == whole ? slot : ir_transposed(module, slot);
  ir_op_move(mma, ir_region_add(take), NULL);
  return fill;
}
