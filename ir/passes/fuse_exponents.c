/* fuse_exponents: exp2((s - m) c) becomes exp2(s c - m c), one instruction an element instead of two.
 *
 * needs  STAGED, before the stages of loops are chosen
 * gives  in roles that multiply: where a value of each row is subtracted from a tile, the difference times a
 *        constant goes into exp2 and nowhere else, the value times the constant, once a row, and a fused multiply-add an
 *        element. What s adds to each row and multiplies all by goes into these two, and behind the rows' maxima (lift_scores.c); constants
 *        in front of that become one factor
 * breaks nothing; the constant's magnitude is at most 1, so that no product overflows where the difference did not
 *
 * The exponent is off by a rounding of m c, the same for all of a row: a softmax divides by a sum that is off alike.
 * Kernels that read rows from memory have instructions to spare and keep the subtraction. */
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/lift_scores.h"

static IrOp *only_user(IrRegion *scope, const IrValue *value)
{
  IrOp *user;
  return ir_region_count_uses(scope, value, &user) == 1 ? user : NULL;
}

static const IrType *tile_of(const IrExpr *operand)
{
  return operand->kind == EXPR_VALUE && operand->value->type.kind == TYPE_TILE ? &operand->value->type : NULL;
}

static bool is_small(const IrExpr *expr)
{
  return expr->kind == EXPR_FLOAT && expr->number >= -1 && expr->number <= 1;
}

/* The difference of an element and its row's value. */
static bool is_row_difference(const IrOp *op)
{
  if (op->code != OP_SUB || op->results[0]->type.kind != TYPE_TILE) return false;
  const IrType *from = tile_of(op->operands[0]), *row = tile_of(op->operands[1]);
  return from && row && row->element == NUMBER_F32 && from->element == NUMBER_F32 &&
         ir_tile_elements(from) == ir_tile_elements(&op->results[0]->type) &&
         ir_tile_elements(row) < ir_tile_elements(from);
}

static void fuse(IrModule *module, IrRegion *scope, IrOp *difference, bool apart)
{
  IrOp *scaled = is_row_difference(difference) ? only_user(scope, difference->results[0]) : NULL;
  if (!scaled || scaled->code != OP_MUL || scaled->parent != difference->parent) return;
  unsigned constant = is_small(scaled->operands[0]) ? 0 : 1;
  const IrExpr *factor = scaled->operands[constant];
  const IrOp *power = is_small(factor) ? only_user(scope, scaled->results[0]) : NULL;
  if (!power || power->code != OP_EXP2) return;
  LiftedScores scores = ir_lift_scores(scope, difference, apart);
  IrBuilder builder = ir_builder_before(scaled);
  builder.mark = scaled->mark;
  IrExpr *row = difference->operands[1];
  if (scores.more) row = ir_emit_value(&builder, OP_SUB, row->value->type, "above", 2, row, scores.more);
  if (scores.beside)
    row = ir_emit_value(&builder, OP_SUB, scores.core->value->type, "above", 2, row, scores.beside);
  IrExpr *base =
      ir_emit_value(&builder, OP_MUL, row->value->type, "base", 2, row, ir_float(module, -factor->number));
  IrExpr *fused = ir_emit_value(&builder, OP_FMA, scaled->results[0]->type, scaled->results[0]->name, 3,
                                scores.core, ir_float(module, factor->number * scores.times), base);
  ir_replace_uses(scope, scaled->results[0], fused);
  ir_op_remove(scaled);
  ir_op_remove(difference);
}

static void collect(IrOp *op, void *data)
{
  if (op->code == OP_SUB) g_ptr_array_add(data, op);
}

typedef struct {
  bool any, asynchronous;
} Products;

static void find_product(IrOp *op, void *data)
{
  Products *found = data;
  found->any |= op->code == OP_MMA;
  found->asynchronous |= op->code == OP_MMA && ir_is_asynchronous_product(op);
}

bool pass_fuse_exponents(IrModule *module, const IrPassContext *context, GError **error)
{
  (void)context, (void)error;
  IrFunction *kernel = ir_kernel(module);
  for (IrOp *role = kernel ? kernel->body->first : NULL; role; role = role->next) {
    Products products = {0};
    if (role->code == OP_ROLE) ir_region_visit(role->regions[0], find_product, &products);
    if (!products.any) continue;
    g_autoptr(GPtrArray) differences = g_ptr_array_new();
    ir_region_visit(role->regions[0], collect, differences);
    for (unsigned i = 0; i < differences->len; i++)
      fuse(module, role->regions[0], differences->pdata[i], products.asynchronous);
  }
  return true;
}
