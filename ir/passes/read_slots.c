#include "ir/passes/read_slots.h"
#include "ir/facts.h"
#include "ir/mechanism.h"

/* The `take` of the channel around an op, or NULL. */
static IrOp *take_of(const IrFunction *kernel, const IrOp *op, const IrOp *channel)
{
  IrOp *owner = op->parent->owner;
  while (owner && (owner->code != OP_TAKE || owner->operands[0]->kind != EXPR_SYMBOL ||
                   ir_symbol_find(kernel, owner->operands[0]->name) != channel))
    owner = owner->parent->owner;
  return owner;
}

/* What lies in the slot, read where the `take` begins, so that products behind it hide how long that takes. */
static IrExpr *read_slot(IrFunction *kernel, IrOp *take, const IrOp *op, IrExpr *slot)
{
  IrOp *first = take->regions[0]->first;
  while (first->code == OP_CLEAR) /* of what is read */
    first = first->next;
  for (; first->code == OP_GET; first = first->next)
    if (ir_expr_equal(first->operands[0], slot)) return ir_value(kernel->module, first->results[0]);
  IrBuilder builder = ir_builder_before(first);
  builder.mark = op->mark;
  IrOp *get = ir_emit(&builder, OP_GET, 1, slot);
  ir_mechanism_set(get, ir_mechanism_issued(kernel->module, MECHANISM_GET, ISSUE_THREAD));
  const IrOp *tile = ir_slot_of(kernel, slot, NULL);
  return ir_value(kernel->module, ir_result(get, tile->symbol, ir_expr_type(kernel, slot)));
}

static bool combines_elements(const IrOp *op)
{
  return op->code == OP_REDUCE || op->code == OP_SCAN || op->code == OP_SORT || op->code == OP_PICK ||
         op->code == OP_COUNT;
}

/* Arithmetic and reductions, what a variable is set to, and what is stored, or put into another slot. */
static bool reads_values(const IrOp *op, unsigned operand)
{
  if (op->code == OP_SCATTER) return operand == 2;
  if (op->code == OP_SET || op->code == OP_STORE || op->code == OP_STORE_REDUCED || op->code == OP_PUT)
    return operand == 1;
  return combines_elements(op) || ir_op_is_elementwise(op->code);
}

static bool is_register_tile(const IrExpr *expr)
{
  return expr->kind == EXPR_VALUE && expr->value->type.kind == TYPE_TILE;
}

/* Does a product add to the tile? */
static bool is_product(const GPtrArray *ops, const IrValue *tile)
{
  bool product = false;
  for (unsigned i = 0; i < ops->len; i++) {
    const IrOp *op = ops->pdata[i];
    product |= op->code == OP_MMA && op->operands[0]->value == tile;
  }
  return product;
}

static bool is_of_product(const GPtrArray *ops, const IrExpr *value)
{
  const IrOp *def = is_register_tile(value) ? value->value->def : NULL;
  bool of_product = false;
  for (unsigned i = 0; def && ir_op_is_elementwise(def->code) && i < def->n_operands; i++)
    of_product |= is_register_tile(def->operands[i]) && is_product(ops, def->operands[i]->value);
  return of_product;
}

/* A product's sum, or a variable to which such a sum is added (exact sums of 8-bit floats)? Then parts of it lie as its layout has
 * them (choose_layouts). */
static bool is_sum(const GPtrArray *ops, const IrValue *tile)
{
  bool sum = is_product(ops, tile);
  for (unsigned i = 0; i < ops->len && !sum; i++) {
    const IrOp *op = ops->pdata[i];
    sum = op->code == OP_SET && op->operands[0]->value == tile && is_of_product(ops, op->operands[1]);
  }
  return sum;
}

/* Threads hold the elements of a part that they hold of the whole, and those of a tile of its shape otherwise. */
static bool refuse_part(const IrOp *op, GError **error)
{
  error_set(error, ERROR_UNSUPPORTED, &op->mark, "register-part",
            "tiles of that size (`var ... count`), a part of a slot, or `every` of a reduction; arithmetic "
            "takes parts of a product's sum",
            "`%s` takes a part of a tile of registers", ir_op_info(op->code)->name);
  return false;
}

/* Only arithmetic takes a tile turned around. */
static IrExpr *turn_tile(IrFunction *kernel, IrOp *op, IrExpr *turned)
{
  IrBuilder builder = ir_builder_before(op);
  builder.mark = op->mark;
  IrOp *convert = ir_emit(&builder, OP_CONVERT, 1, turned);
  IrValue *value = ir_result(convert, turned->items[0]->value->name, ir_expr_type(kernel, turned));
  return ir_value(kernel->module, value);
}

/* An operand that is no slot, as the op takes it. */
static bool read_registers(IrFunction *kernel, const GPtrArray *ops, IrOp *op, unsigned operand,
                           GError **error)
{
  IrExpr *whole = op->operands[operand];
  const IrExpr *tile = whole->kind == EXPR_TRANSPOSED ? whole->items[0] : whole;
  bool combines = combines_elements(op);
  if (tile->kind == EXPR_INDEX && is_register_tile(tile->items[0]) &&
      (combines || !is_sum(ops, tile->items[0]->value)))
    return refuse_part(op, error);
  if (tile != whole && is_register_tile(tile) && !ir_op_is_elementwise(op->code))
    op->operands[operand] = turn_tile(kernel, op, whole);
  return true;
}

bool read_slots(IrFunction *kernel, const GPtrArray *ops, GError **error)
{
  for (unsigned i = 0; i < ops->len; i++) {
    IrOp *op = ops->pdata[i], *channel = NULL;
    for (unsigned j = 0; j < op->n_operands; j++) {
      if (!reads_values(op, j)) continue;
      if (!ir_slot_of(kernel, op->operands[j], &channel)) {
        if (!read_registers(kernel, ops, op, j, error)) return false;
        continue;
      }
      IrOp *take = take_of(kernel, op, channel);
      if (!take) {
        error_set(error, ERROR_INPUT, &op->mark, "slot-operand", "put it into a `take` of the channel",
                  "`%s` reads a slot that it has not taken", ir_op_info(op->code)->name);
        return false;
      }
      op->operands[j] = read_slot(kernel, take, op, op->operands[j]);
    }
  }
  return true;
}
