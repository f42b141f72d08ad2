#include "ir/passes/trailing.h"

typedef struct {
  const IrValue *reader;
  IrExpr *trailing;
} Trail;

/* What the reader steps over, the one behind it does too. */
static void skip_too(IrOp *op, void *data)
{
  const Trail *trail = data;
  if (op->code != OP_SKIP || op->operands[0]->value != trail->reader) return;
  IrBuilder builder = ir_builder_after(op);
  builder.mark = op->mark;
  ir_emit(&builder, OP_SKIP, 5, trail->trailing, op->operands[1], op->operands[2], op->operands[3],
          op->operands[4]);
}

IrBuilder trailing_place(IrOp *loop)
{
  IrOp *last = loop->next && loop->next->code == OP_TURN_PASS ? loop->next : loop;
  IrBuilder builder = ir_builder_after(last);
  builder.mark = loop->mark;
  return builder;
}

IrExpr *trailing_cursor(IrModule *module, const IrExpr *reader)
{
  IrOp *declaration = reader->value->def;
  IrBuilder builder = ir_builder_after(declaration);
  builder.mark = declaration->mark;
  IrOp *cursor = ir_emit(&builder, OP_CURSOR, 1, declaration->operands[0]);
  IrType type = {.kind = TYPE_CURSOR, .count = 1};
  IrValue *value = ir_result(cursor, "free", type);
  value->variable = true;
  Trail trail = {reader->value, ir_value(module, value)};
  ir_region_visit(declaration->parent, skip_too, &trail);
  return trail.trailing;
}
